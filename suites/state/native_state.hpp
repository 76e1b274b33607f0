// SPDX-License-Identifier: Apache-2.0
// Native state on disk: what `load --emit` writes and `export` takes back. It is recognised by its metadata alone, and
// carries what it has to become again: names, shapes, dtypes and files of the source.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/schema.hpp"
#include "loader/save/export.hpp"
#include "loader/save/layout.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

inline constexpr std::string_view k_native_layout_file = "weightproof.layout.json";

/// What the metadata of native state says of it.
struct NativeMark {
  std::string family;
  std::string topology;  ///< empty: one rank held everything
  std::string rank;      ///< ... of that topology, as text
  bool is_part() const { return !topology.empty(); }
  /// "native state of family llama: what rank 1 of tp=2 holds".
  std::string text() const;
};
/// Nothing where the files do not say that they hold native tensors.
std::optional<NativeMark> native_mark(const storage::Checkpoint& checkpoint);
bool is_native_state(const storage::Checkpoint& checkpoint);

/// Stored tensors that a plan of native tensors takes in, in the order and with the dtypes of `state`. Those that pass
/// through are among them.
std::vector<save::ExportTensor> restorable(const plan::Plan& plan, const DecodedState& state);

/// Text of the layout file of a native state that was loaded from `source`. Where its files cannot come again (tensors
/// were decoded, or left out) the layout has one file without a name.
std::string native_layout_text(const storage::Checkpoint& source, std::span<const save::ExportTensor> wanted,
                               bool is_decoded);

/// The layout beside a native state. Errors: io_error where it is not there, config_invalid.
save::SavedLayout read_native_layout(const storage::Checkpoint& checkpoint);

struct NativeState {
  save::SavedLayout layout;
  bool has_files = false;                  ///< the layout says files, not tensors alone
  std::shared_ptr<const Schema> schema;    ///< the way there
  std::vector<save::ExportTensor> wanted;  ///< all tensors of the layout, in its order
};

/// Reads the layout and describes the source again from it. `family`: as --family. Errors: usage for the part of one
/// rank, those of the layout and of the family.
NativeState read_native_state(const storage::Checkpoint& checkpoint, const ConfigValue* config,
                              std::string_view family);

}  // namespace weightproof::suites
