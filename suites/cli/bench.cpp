// SPDX-License-Identifier: Apache-2.0
// bench: loading and planning beside bare loops over the same bytes, alternating in one run. Ratios are what counts;
// absolute times are this machine's.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>

#include "loader/exec/engine.hpp"
#include "loader/measure/cache.hpp"
#include "loader/storage/writer.hpp"
#include "suites/cli/bench_baseline.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/planning.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/state/identity_schema.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"

namespace weightproof::suites::cli {
namespace {

namespace fs = std::filesystem;

/// Ratios are baseline time by own time: higher is better, 1 is as fast as the baseline.
struct Case {
  std::string name;
  std::string baseline;
  double goal = 0;  ///< 0: none, it is told for what the others are worth
  std::uint64_t bytes = 0;
  std::vector<double> ratios;
  std::vector<double> own;
  std::vector<double> base;
  std::string cache;
  std::vector<std::pair<std::string, std::uint64_t>> counters;

  double median() const {
    std::vector<double> sorted = ratios;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// What a gate asks of a goal: machines are shared.
constexpr double k_gate = 0.8;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// (baseline, own, own, baseline) in every round, so that a drift of the machine meets both alike.
void alternate(Case& row, unsigned rounds, const std::function<void()>& baseline, const std::function<void()>& own) {
  baseline();
  own();
  for (unsigned round = 0; round < rounds; ++round) {
    double base_s = seconds(baseline);
    double own_s = seconds(own);
    own_s += seconds(own);
    base_s += seconds(baseline);
    row.ratios.push_back(base_s / own_s);
    row.own.push_back(own_s / 2);
    row.base.push_back(base_s / 2);
  }
}

class Workshop {
 public:
  Workshop() {
    std::string name = (fs::temp_directory_path() / "weightproof-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::io_error, "no temporary directory can be made: " + std::generic_category().message(errno));
    }
    path_ = name;
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  /// A file of `count` BF16 tensors of `elements` each, of bytes that nothing compresses.
  fs::path make(const std::string& name, std::size_t count, std::uint64_t elements) const {
    std::vector<storage::TensorSpec> specs;
    for (std::size_t i = 0; i < count; ++i) {
      specs.push_back({"layers." + std::to_string(i) + ".weight", DType::bf16, {elements}});
    }
    const storage::HeaderPlan header = storage::plan_header(specs, std::nullopt);
    fs::path path = path_ / name;
    std::ofstream file(path, std::ios::binary);
    file.write(header.bytes.data(), static_cast<std::streamsize>(header.bytes.size()));
    std::vector<std::uint64_t> words(1U << 19U);
    std::uint64_t state = 88172645463325252U;
    for (std::uint64_t left = header.data_bytes; left > 0;) {
      for (std::uint64_t& word : words) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        word = state;
      }
      const std::uint64_t bytes = std::min<std::uint64_t>(left, words.size() * 8);
      file.write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(bytes));
      left -= bytes;
    }
    file.close();
    if (!file) {
      throw Error(ErrorCode::io_error, "the file to measure with cannot be written: is there room for it?");
    }
    return path;
  }

 private:
  fs::path path_;
};

// A plan with memory that is used again for every load.
class Loader {
 public:
  Loader(const OpenedCheckpoint& opened, const Arguments& arguments)
      : opened_(opened), plan_(make_load_plan(opened, arguments)) {
    const storage::Checkpoint* checkpoint = &opened.checkpoint;
    sources_.emplace(exec::SourceFiles::of(std::span(&checkpoint, 1)));
    arena_ = exec::Arena::make(allocator_, plan_.memory().final_bytes, std::byte{1});
    destinations_.emplace(arena_);
  }
  const plan::Plan& plan() const { return plan_; }
  const exec::SourceFiles& sources() const { return *sources_; }
  void load(bool has_digests = false) {
    exec::LoadOptions options;
    options.destinations = &*destinations_;
    options.has_digests = has_digests;
    exec::load(plan_, *sources_, options).require_complete();
  }
  std::byte* data() const { return arena_.data(); }
  /// The ranges of the files that hold the tensors.
  std::vector<PlainRange> ranges() const {
    std::vector<PlainRange> out;
    for (std::uint32_t i = 0; i < opened_.checkpoint.shards.size(); ++i) {
      const storage::Shard& shard = opened_.checkpoint.shards[i];
      const std::uint64_t begin = shard.header->data_begin();
      out.push_back({opened_.checkpoint.path_of(i), begin, fs::file_size(opened_.checkpoint.path_of(i)) - begin});
    }
    return out;
  }

 private:
  const OpenedCheckpoint& opened_;
  plan::Plan plan_;
  std::optional<exec::SourceFiles> sources_;
  exec::Allocator allocator_;
  exec::Arena arena_;
  std::optional<exec::ArenaDestinations> destinations_;
};

std::uint64_t sum_of(const std::vector<PlainRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const PlainRange& range : ranges) {
    bytes += range.bytes;
  }
  return bytes;
}

// Before anything is timed: tensors that are stored as themselves are what the files hold.
void require_same(const Loader& loader, const std::vector<PlainRange>& ranges, const std::byte* plain) {
  std::vector<std::uint64_t> first;
  std::uint64_t at = 0;
  for (const PlainRange& range : ranges) {
    first.push_back(at - range.offset);
    at += range.bytes;
  }
  for (const plan::Move& move : loader.plan().moves()) {
    const plan::PlannedTensor& tensor = loader.plan().tensors()[move.tensor];
    if (move.reason != plan::Reason::contiguous || move.action != plan::Action::write || tensor.move_count != 1) {
      continue;
    }
    const StoredTensor& row = loader.plan().catalog().tensors()[move.row];
    if (std::memcmp(loader.data() + tensor.arena_offset, plain + first[row.file] + row.begin, tensor.bytes) != 0) {
      ErrorFacts facts;
      facts.keys = {std::string(tensor.key)};
      throw Error(ErrorCode::internal, "'" + facts.keys[0] + "' is not what its file holds", std::move(facts));
    }
  }
}

class Bench {
 public:
  Bench(const Arguments& arguments, Console& console)
      : arguments_(arguments),
        console_(console),
        rounds_(static_cast<unsigned>(std::clamp<std::uint64_t>(arguments.count("--rounds").value_or(9), 1, 1000))),
        threads_(asked_threads(arguments)) {}

  void run();
  void show() const;
  bool is_held() const {
    return std::all_of(cases_.begin(), cases_.end(),
                       [](const Case& row) { return row.goal == 0 || row.median() >= k_gate * row.goal; });
  }

 private:
  Case& add(std::string name, std::string baseline, double goal, std::uint64_t bytes) {
    console_.progress(name, cases_.size(), 9);
    cases_.push_back({std::move(name), std::move(baseline), goal, bytes, {}, {}, {}, {}, {}});
    return cases_.back();
  }
  void loads(const fs::path& path);
  void small_tensors(const fs::path& path);
  void planning(const fs::path& path);
  void processes(const fs::path& path);

  const Arguments& arguments_;
  Console& console_;
  unsigned rounds_;
  unsigned threads_;
  std::vector<Case> cases_;
  std::vector<std::pair<std::string, std::string>> skipped_;
};

void Bench::loads(const fs::path& path) {
  const OpenedCheckpoint opened(path.string(), arguments_);
  Loader loader(opened, arguments_);
  const std::vector<PlainRange> ranges = loader.ranges();
  const std::uint64_t bytes = sum_of(ranges);
  const PlainMemory plain(static_cast<std::size_t>(bytes), true);
  plain_read(ranges, plain.data(), threads_, false);
  loader.load();
  require_same(loader, ranges, plain.data());
  std::vector<fs::path> paths;
  for (const PlainRange& range : ranges) {
    paths.push_back(range.path);
  }
  const std::string cache(to_string(measure::read_residency(paths).cache_class()));

  Case& own_worth = add("plain read", "memcpy of as many bytes", 0.8, bytes);
  {
    const PlainMemory target(static_cast<std::size_t>(bytes), true);
    alternate(
        own_worth, rounds_, [&] { plain_copy(target.data(), plain.data(), plain.size(), threads_); },
        [&] { plain_read(ranges, target.data(), threads_, false); });
  }
  Case& touched = add("load, memory touched before", "plain read into touched memory", 0.9, bytes);
  touched.cache = cache;
  alternate(
      touched, rounds_, [&] { plain_read(ranges, plain.data(), threads_, false); }, [&] { loader.load(); });
  Case& fresh = add("load, fresh memory", "plain read into fresh memory, populated ahead", 0.9, bytes);
  fresh.cache = cache;
  std::uint64_t peak = 0;
  alternate(
      fresh, rounds_,
      [&] {
        const PlainMemory target(static_cast<std::size_t>(bytes), false);
        plain_read(ranges, target.data(), threads_, true);
      },
      [&] {
        const exec::LoadAttempt attempt = exec::load(loader.plan(), loader.sources(), {});
        attempt.require_complete();
        peak = attempt.memory().of(exec::MemoryKind::host).peak;
      });
  fresh.counters = {{"allocator_peak", peak},
                    {"predicted_peak", loader.plan().memory().peak_bytes()},
                    {"beyond_final", loader.plan().memory().beyond_final_bytes()}};
  if (exec::digest_unavailable().empty()) {
    Case& digest = add("load with XXH3-128 of every tensor", "load without", 1 / 1.35, bytes);
    digest.cache = cache;
    alternate(
        digest, rounds_, [&] { loader.load(); }, [&] { loader.load(true); });
  } else {
    skipped_.emplace_back("load with XXH3-128 of every tensor", exec::digest_unavailable());
  }
}

void Bench::small_tensors(const fs::path& path) {
  const OpenedCheckpoint opened(path.string(), arguments_);
  Loader loader(opened, arguments_);
  const std::vector<PlainRange> ranges = loader.ranges();
  const PlainMemory plain(static_cast<std::size_t>(sum_of(ranges)), true);
  plain_read(ranges, plain.data(), threads_, false);
  loader.load();
  require_same(loader, ranges, plain.data());
  Case& row = add("load of tensors of 4 KiB", "plain read of the same bytes as a stream", 0.9, plain.size());
  alternate(
      row, rounds_, [&] { plain_read(ranges, plain.data(), threads_, false); }, [&] { loader.load(); });
}

// The plan with its proof against the bare scan of the same header.
void Bench::planning(const fs::path& path) {
  const OpenedCheckpoint opened(path.string(), arguments_);
  const storage::File file = storage::File::open(path, path.filename().string());
  Case& row =
      add("plan with its proof", "bare scan of the header", 1.0 / 8, opened.checkpoint.shards[0].header->header_bytes);
  row.counters = {{"tensors", opened.checkpoint.catalog.size()}};
  const std::shared_ptr<const Schema> schema = identity_schema(opened.checkpoint.catalog);
  const std::vector<plan::Source> sources = {
      {"many", std::shared_ptr<const Catalog>(&opened.checkpoint.catalog, [](const Catalog*) {})}};
  plan::Request request;
  request.threads = threads_;
  alternate(
      row, rounds_, [&] { static_cast<void>(storage::read_header(file)); },
      [&] { static_cast<void>(plan::make_plan(schema, sources, {}, request)); });
}

// From the start of a process to the last tensor in its place, in pairs.
void Bench::processes(const fs::path& path) {
  const std::string name = "process that loads";
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const std::string script =
      "import json,sys\n"
      "import numpy\n"
      "f=open(sys.argv[1],'rb')\n"
      "n=int.from_bytes(f.read(8),'little')\n"
      "h=json.loads(f.read(n))\n"
      "out={}\n"
      "for k,v in sorted(h.items(),key=lambda i:i[1].get('data_offsets',[0])[0]):\n"
      "  if k=='__metadata__': continue\n"
      "  b,e=v['data_offsets']\n"
      "  a=numpy.empty(e-b,dtype=numpy.uint8)\n"
      "  f.seek(8+n+b)\n"
      "  assert f.readinto(memoryview(a))==e-b\n"
      "  out[k]=a\n";
  if (!plain_run({"python3", "-c", "import numpy"})) {
    skipped_.emplace_back(name, "no python3 with numpy is installed");
    return;
  }
  const std::uint64_t bytes = fs::file_size(path);
  Case& row = add(name, "process that reads with numpy", 3, bytes);
  std::uint64_t peak = 0;
  const auto require = [](const std::optional<PlainRun>& run) {
    if (!run) {
      throw Error(ErrorCode::internal, "a process to compare with failed");
    }
    return *run;
  };
  alternate(
      row, rounds_,
      [&] {
        require(plain_run({"python3", "-c", script, path.string()}));
      },
      [&] {
        peak = std::max(peak, require(plain_run({self.string(), "load", path.string(), "--quiet", "--no-digest",
                                                 "--threads", std::to_string(threads_)}))
                                  .peak_bytes);
      });
  row.counters = {{"peak_bytes", peak}, {"peak_bytes_allowed", bytes + (64U << 20U)}};
}

void Bench::run() {
  const Workshop workshop;
  const std::uint64_t size = arguments_.bytes("--size").value_or(512U << 20U);
  constexpr std::uint64_t tensor_bytes = 32U << 20U;
  const fs::path large = workshop.make("large.safetensors", std::max<std::uint64_t>(1, size / tensor_bytes),
                                       std::min(size, tensor_bytes) / 2);
  loads(arguments_.positionals().empty() ? large : fs::path(arguments_.positionals().front()));
  processes(large);
  const fs::path small = workshop.make("small.safetensors", std::clamp<std::uint64_t>(size / 4096, 1, 65536), 2048);
  small_tensors(small);
  planning(workshop.make("many.safetensors", 100'000, 1));
}

void Bench::show() const {
  if (!console_.is_json()) {
    for (const Case& row : cases_) {
      const auto [least, most] = std::minmax_element(row.ratios.begin(), row.ratios.end());
      char text[160];
      std::snprintf(text, sizeof text, "%-36s %6.2f  [%.2f to %.2f]  goal %s%.2f  against %s", row.name.c_str(),
                    row.median(), *least, *most, row.goal == 0 ? "-" : "", row.goal, row.baseline.c_str());
      console_.line(text);
      for (const auto& [what, value] : row.counters) {
        console_.line("    " + what + " " + grouped(value));
      }
    }
    for (const auto& [name, why] : skipped_) {
      console_.line("skip  " + name + ": " + why);
    }
    return;
  }
  JsonWriter json([this](std::string_view text) { console_.out(text); });
  json.begin_object().member("schema", "weightproof.bench/1").member("rounds", rounds_);
  json.member("verdict", is_held() ? "pass" : "fail").name("cases").begin_array();
  const auto list = [&json](const char* name, const std::vector<double>& values) {
    json.name(name).begin_array();
    for (const double value : values) {
      json.value(value);
    }
    json.end_array();
  };
  for (const Case& row : cases_) {
    const auto [least, most] = std::minmax_element(row.ratios.begin(), row.ratios.end());
    json.begin_object().member("name", row.name).member("baseline", row.baseline).member("median", row.median());
    json.name("goal");
    if (row.goal == 0) {
      json.null();
    } else {
      json.value(row.goal);
    }
    list("range", {*least, *most});
    list("ratios", row.ratios);
    list("seconds", row.own);
    list("baseline_seconds", row.base);
    json.member("bytes", row.bytes);
    if (!row.cache.empty()) {
      json.member("cache", row.cache);
    }
    if (!row.counters.empty()) {
      json.name("counters").begin_object();
      for (const auto& [what, value] : row.counters) {
        json.member(what, value);
      }
      json.end_object();
    }
    json.end_object();
  }
  json.end_array().name("config").begin_object().member("threads", threads_).name("skipped").begin_object();
  for (const auto& [name, why] : skipped_) {
    json.member(name, why);
  }
  const Machine machine = describe_machine();
  json.end_object().end_object().name("environment").begin_object().member("cpu", machine.cpu);
  json.member("system", machine.system).member("compiler", machine.compiler).end_object().end_object();
  json.flush();
  console_.out("\n");
}

}  // namespace

int run_bench(const Arguments& arguments, Console& console) {
  Bench bench(arguments, console);
  bench.run();
  console.end_progress();
  bench.show();
  return arguments.flag("--strict") && !bench.is_held() ? k_exit_failed : k_exit_done;
}

}  // namespace weightproof::suites::cli
