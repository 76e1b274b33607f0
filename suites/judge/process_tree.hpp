// SPDX-License-Identifier: Apache-2.0
// The processes that a subject started, found by descent: children of a process, their children, and orphans that came
// back to this one. Linux, out of /proc. Nothing here throws: a process that ended meanwhile is not there any more.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

namespace weightproof::suites::judge {

/// Resident memory of a set of processes at one moment. Pages that several share count in each of them.
struct TreeMemory {
  std::uint64_t bytes = 0;         ///< sum of their resident sets
  std::uint64_t largest_peak = 0;  ///< the highest VmHWM among them: what the kernel saw of one process
  unsigned processes = 0;
};

/// Children of a process by the kernel's own list, or by a walk over /proc where the kernel keeps none.
std::set<pid_t> children_of(pid_t process);

/// While it lives, orphans of this process's descendants become children of this process, so that none can leave the
/// tree. One at a time; the earlier state is restored.
class ProcessTree {
 public:
  ProcessTree();
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  /// Every descendant that was not there when this object was made.
  std::set<pid_t> members() const;
  static TreeMemory memory_of(const std::set<pid_t>& processes);
  /// Ends all members, also those that are born meanwhile, and reaps them, but for `kept`, which is ended and not
  /// reaped. Returns how many there were, `kept` not counted.
  unsigned end(pid_t kept) const;

 private:
  int before_ = 0;
  std::set<pid_t> own_;  ///< children that this process had before
};

}  // namespace weightproof::suites::judge
