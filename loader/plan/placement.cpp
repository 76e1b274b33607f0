// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/placement.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "loader/core/error.hpp"

namespace weightproof::plan {
namespace {

[[noreturn]] void not_representable(const std::string& rule, const std::string& expected, const std::string& actual) {
  throw Error(ErrorCode::chunk_not_representable, rule,
              {.expected = expected, .actual = actual, .check = "shard.topology"});
}

/// Cut of `whole` into its own part.
Interval sub_chunk(Interval whole, std::uint32_t parts, std::uint32_t index) {
  const Interval part = chunk(whole.size(), parts, index);
  return {whole.begin + part.begin, whole.begin + part.end};
}

constexpr std::array<std::string_view, 5> k_dispatchers = {"torch", "deepep", "hybridep", "uccl_ep", "mok"};
constexpr std::array<std::string_view, 5> k_backends = {"torch", "torch_mm", "torch_mm_mxfp8", "gmm", "te"};

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

template <typename Enum>
Enum from_name(std::span<const std::string_view> names, std::string_view name, const char* what) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    throw Error(ErrorCode::usage, std::string(what) + " '" + std::string(name) + "' is unknown",
                {.expected = joined(names), .actual = std::string(name)});
  return static_cast<Enum>(it - names.begin());
}

std::uint64_t number_in(std::string_view text, std::string_view whole) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || text.empty())
    throw Error(ErrorCode::usage, "'" + std::string(text) + "' in '" + std::string(whole) + "' is not a number",
                {.expected = "a whole number", .actual = std::string(text), .hint = "give a whole number there"});
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Interval chunk(std::uint64_t n, std::uint32_t parts, std::uint32_t index) {
  WEIGHTPROOF_ASSERT(parts > 0 && index < parts);
  const std::uint64_t size = n / parts + (n % parts != 0 ? 1 : 0);
  const std::uint64_t begin =
      size != 0 && index >= n / size ? std::min(n, n / size * size + (index == n / size ? 0 : n % size)) : index * size;
  return {begin, begin + std::min(size, n - begin)};
}

Interval shard_interval(std::uint64_t n, std::uint8_t axis, std::span<const Placement> placements,
                        std::span<const MeshAxis> mesh) {
  WEIGHTPROOF_ASSERT(placements.size() == mesh.size());
  Interval interval{0, n};
  std::size_t first_strided = placements.size();
  for (std::size_t i = 0; i < placements.size(); ++i)
    if (placements[i].axis == axis && placements[i].kind == PlacementKind::strided_shard) {
      first_strided = i;
      break;
    }
  // Plain shards right of the first strided one have acted before it was applied.
  std::uint64_t applied = 1;
  for (std::size_t i = first_strided; i < placements.size(); ++i) {
    if (placements[i].axis != axis || placements[i].kind != PlacementKind::shard) continue;
    interval = sub_chunk(interval, mesh[i].size, mesh[i].index);
    applied *= mesh[i].size;
  }
  for (std::size_t i = placements.size(); i-- > first_strided;) {
    if (placements[i].axis != axis || placements[i].kind != PlacementKind::strided_shard) continue;
    if (placements[i].split_factor != applied)
      not_representable("a strided shard's split factor is the number of cuts made before it", std::to_string(applied),
                        std::to_string(placements[i].split_factor));
    interval = sub_chunk(interval, mesh[i].size, mesh[i].index);
    applied *= mesh[i].size;
  }
  for (std::size_t i = 0; i < first_strided; ++i) {
    if (placements[i].axis != axis || placements[i].kind != PlacementKind::shard) continue;
    if (first_strided != placements.size())
      not_representable("a plain shard may not stand left of a strided shard of the same tensor axis",
                        "strided shards leftmost",
                        "Shard(" + std::to_string(axis) + ") on mesh axis " + std::to_string(i));
    interval = sub_chunk(interval, mesh[i].size, mesh[i].index);
  }
  return interval;
}

LocalTensor place(const Shape& shape, std::span<const Placement> placements, std::span<const MeshAxis> mesh) {
  for (const Placement& placement : placements)
    if (placement.kind != PlacementKind::replicate && placement.axis >= shape.rank())
      not_representable("a shard's axis lies inside the tensor", "below " + std::to_string(shape.rank()),
                        std::to_string(placement.axis));
  LocalTensor local;
  LocalPiece piece;
  bool is_empty = false;
  for (unsigned axis = 0; axis < shape.rank(); ++axis) {
    const Interval interval = shard_interval(shape[axis], static_cast<std::uint8_t>(axis), placements, mesh);
    local.shape.push_back(interval.size());
    piece.global.start.push_back(interval.begin);
    piece.global.length.push_back(interval.size());
    piece.local.start.push_back(0);
    piece.local.length.push_back(interval.size());
    is_empty |= interval.size() == 0;
  }
  if (!is_empty) local.pieces.push_back(piece);
  return local;
}

namespace {

/// What a component's units are to whoever reads of them: more than a row is a head, or a group of them.
std::string counted_units(const FusedComponent& component) {
  if (component.unit == 1) return std::to_string(component.units * component.unit) + " rows";
  return std::to_string(component.units) + (component.units == 1 ? " head of " : " heads of ") +
         std::to_string(component.unit) + " rows each";
}

[[noreturn]] void cannot_share(const FusedComponent& component, std::uint32_t parts) {
  const bool may_share = component.may_replicate && component.units != 0;
  const std::string units = std::to_string(component.units);
  throw Error(ErrorCode::chunk_not_representable,
              std::to_string(parts) + " tensor parallel ranks cannot share " + counted_units(component) + " equally",
              {.expected = "a divisor of " + units + (may_share ? " or a multiple of it" : ""),
               .actual = std::to_string(parts),
               .hint = "choose a tp that divides " + units + (may_share ? ", or a multiple of " + units : ""),
               .check = "shard.topology"});
}

}  // namespace

LocalTensor place_fused(const Shape& shape, std::uint8_t axis, std::span<const FusedComponent> components,
                        std::uint32_t parts, std::uint32_t index) {
  WEIGHTPROOF_ASSERT(axis < shape.rank() && index < parts);
  LocalTensor local{.shape = shape, .pieces = {}};
  std::uint64_t global = 0;
  std::uint64_t filled = 0;
  for (const FusedComponent& component : components) {
    Interval units;
    if (component.units >= parts) {
      if (component.units % parts != 0) cannot_share(component, parts);
      units = {component.units / parts * index, component.units / parts * (index + 1)};
    } else {
      if (!component.may_replicate || component.units == 0 || parts % component.units != 0)
        cannot_share(component, parts);
      const std::uint64_t unit = index / (parts / component.units);
      units = {unit, unit + 1};
    }
    const Interval rows{global + units.begin * component.unit, global + units.end * component.unit};
    LocalPiece piece{Box::whole(shape), Box::whole(shape)};
    piece.global.start[axis] = rows.begin;
    piece.global.length[axis] = rows.size();
    piece.local.start[axis] = filled;
    piece.local.length[axis] = rows.size();
    if (rows.size() != 0) local.pieces.push_back(piece);
    filled += rows.size();
    global += component.units * component.unit;
  }
  if (global != shape[axis])
    not_representable("the components of a fused axis sum to its extent", std::to_string(shape[axis]),
                      std::to_string(global));
  local.shape[axis] = filled;
  return local;
}

LocalTensor shard_local(const LocalTensor& local, std::uint8_t axis, std::uint32_t parts, std::uint32_t index) {
  const Interval keep = chunk(local.shape[axis], parts, index);
  LocalTensor result{.shape = local.shape, .pieces = {}};
  result.shape[axis] = keep.size();
  for (const LocalPiece& piece : local.pieces) {
    const std::uint64_t begin = std::max(keep.begin, piece.local.start[axis]);
    const std::uint64_t end = std::min(keep.end, piece.local.start[axis] + piece.local.length[axis]);
    if (begin >= end) continue;
    LocalPiece cut = piece;
    cut.global.start[axis] += begin - piece.local.start[axis];
    cut.global.length[axis] = end - begin;
    cut.local.start[axis] = begin - keep.begin;
    cut.local.length[axis] = end - begin;
    result.pieces.push_back(cut);
  }
  return result;
}

Topology parse_topology(std::string_view text) {
  Topology topology;
  constexpr std::uint64_t size_max = 65536;
  std::vector<std::string_view> seen;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::uint32_t* target = name == "pp"     ? &topology.pp
                            : name == "dp"   ? &topology.dp
                            : name == "fsdp" ? &topology.fsdp
                            : name == "cp"   ? &topology.cp
                            : name == "tp"   ? &topology.tp
                            : name == "ep"   ? &topology.ep
                                             : nullptr;
    if (target == nullptr || equals == std::string_view::npos ||
        std::find(seen.begin(), seen.end(), name) != seen.end())
      throw Error(ErrorCode::usage,
                  "in topology '" + std::string(text) + "' '" + std::string(part) +
                      "' is no size of pp, dp, fsdp, cp, tp or ep, each named once",
                  {.expected = "pp, dp, fsdp, cp, tp or ep, each at most once, as name=size",
                   .actual = std::string(part),
                   .hint = "write it like tp=2,ep=4"});
    seen.push_back(name);
    const std::uint64_t value = number_in(part.substr(equals + 1), text);
    if (value == 0 || value > size_max)
      throw Error(ErrorCode::usage,
                  "'" + std::string(part) + "' in topology '" + std::string(text) + "': a size is 1 to " +
                      std::to_string(size_max),
                  {.expected = "1 to " + std::to_string(size_max),
                   .actual = std::to_string(value),
                   .hint = value == 0 ? "leave " + std::string(name) + " out where nothing is divided by it"
                                      : "choose a smaller size"});
    *target = static_cast<std::uint32_t>(value);
  }
  const std::uint64_t world = std::uint64_t{topology.pp} * topology.dp;
  if (world > (1u << 24) || world * topology.fsdp > (1u << 24) || world * topology.fsdp * topology.cp > (1u << 24) ||
      world * topology.fsdp * topology.cp * topology.tp > (1u << 24))
    throw Error(ErrorCode::usage, "topology '" + std::string(text) + "' has more than 16777216 ranks",
                {.expected = "at most 16777216", .hint = "choose smaller sizes"});
  return topology;
}

std::string to_string(const Topology& t) {
  const auto part = [](const char* name, std::uint32_t size) { return std::string(name) + "=" + std::to_string(size); };
  return part("pp", t.pp) + "," + part("dp", t.dp) + "," + part("fsdp", t.fsdp) + "," + part("cp", t.cp) + "," +
         part("tp", t.tp) + "," + part("ep", t.ep);
}

namespace {
std::uint32_t stage_world(const Topology& t) { return t.dp * t.fsdp * t.cp * t.tp; }
}  // namespace

void require_legal(const Topology& topology, std::uint64_t experts) {
  const std::string ep = std::to_string(topology.ep);
  if (topology.ep > 1 && experts == 0)
    throw Error(ErrorCode::ep_not_divisible, "ep=" + ep + " divides experts, and this model has none",
                {.expected = "no ep", .actual = ep, .hint = "leave ep out", .check = "shard.topology"});
  const std::uint32_t world = stage_world(topology);
  if (world % topology.ep != 0)
    throw Error(ErrorCode::chunk_not_representable,
                "ep divides tp x fsdp x dp x cp: the expert mesh is carved out of them, and " + ep +
                    " does not divide " + std::to_string(world),
                {.expected = "a divisor of " + std::to_string(world),
                 .actual = ep,
                 .hint = world == 1 ? "give one of the others too, such as fsdp=" + ep + ",ep=" + ep
                                    : "choose an ep that divides " + std::to_string(world),
                 .check = "shard.topology"});
  if (topology.ep > 1 && experts % topology.ep != 0)
    throw Error(ErrorCode::ep_not_divisible, "ep must divide the number of experts: every rank routes to equally many",
                {.expected = "a divisor of " + std::to_string(experts),
                 .actual = ep,
                 .hint = "choose an ep that divides " + std::to_string(experts),
                 .check = "shard.topology"});
}

std::uint32_t ep_shards(const Topology& topology) { return stage_world(topology) / topology.ep; }

RankPosition position_of(const Topology& t, std::uint32_t rank) {
  if (rank >= t.world())
    throw Error(ErrorCode::usage, "rank " + std::to_string(rank) + " is outside the topology",
                {.expected = "below " + std::to_string(t.world()), .actual = std::to_string(rank)});
  RankPosition p;
  std::uint32_t rest = rank;
  p.tp = rest % t.tp;
  rest /= t.tp;
  p.cp = rest % t.cp;
  rest /= t.cp;
  p.fsdp = rest % t.fsdp;
  rest /= t.fsdp;
  p.dp = rest % t.dp;
  p.pp = rest / t.dp;
  const std::uint32_t inside = rank % stage_world(t);
  p.ep = inside % t.ep;
  p.ep_shard = inside / t.ep;
  return p;
}

std::uint32_t rank_of(const Topology& t, const RankPosition& p) {
  return (((p.pp * t.dp + p.dp) * t.fsdp + p.fsdp) * t.cp + p.cp) * t.tp + p.tp;
}

Interval stage_layers(std::uint64_t layers, std::uint32_t pp, std::uint32_t stage) { return chunk(layers, pp, stage); }

std::vector<Interval> parse_stages(std::string_view text, std::uint64_t layers) {
  std::vector<Interval> stages;
  std::uint64_t next = 0;
  const std::string expected =
      "ranges that follow one another from 0 to " + std::to_string(layers == 0 ? 0 : layers - 1);
  for (const std::string_view part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const std::uint64_t first = number_in(part.substr(0, dash), text);
    const std::uint64_t last = dash == std::string_view::npos ? first : number_in(part.substr(dash + 1), text);
    if (first != next || last < first || last >= layers)
      throw Error(ErrorCode::usage,
                  "stage '" + std::string(part) + "' in '" + std::string(text) + "' " +
                      (last < first     ? "ends before it begins"
                       : last >= layers ? "is beyond the last of " + std::to_string(layers) + " layers"
                                        : "does not begin at layer " + std::to_string(next)),
                  {.expected = expected, .actual = std::string(part), .hint = "give " + expected});
    stages.push_back({first, last + 1});
    next = last + 1;
  }
  if (next != layers)
    throw Error(ErrorCode::usage,
                "stages '" + std::string(text) + "' end at layer " + std::to_string(next - 1) + " of " +
                    std::to_string(layers) + " layers",
                {.expected = "the last stage ends at layer " + std::to_string(layers == 0 ? 0 : layers - 1),
                 .actual = std::to_string(next - 1),
                 .hint = "give " + expected});
  return stages;
}

Interval expert_interval(std::uint64_t experts, const Topology& topology, const RankPosition& position) {
  return chunk(experts, topology.ep, position.ep);
}

LocalTensor place_experts(const Shape& shape, const Topology& topology, const RankPosition& position) {
  const std::array<MeshAxis, 2> mesh = {MeshAxis{ep_shards(topology), position.ep_shard},
                                        MeshAxis{topology.ep, position.ep}};
  // A parameter of rank 1 has no axis 1: both cuts fall on the experts, ep first, so the other one is strided over it.
  const std::array<Placement, 2> one_axis = {Placement{PlacementKind::strided_shard, 0, topology.ep},
                                             Placement{PlacementKind::shard, 0, 1}};
  const std::array<Placement, 2> two_axes = {Placement{PlacementKind::shard, 1, 1},
                                             Placement{PlacementKind::shard, 0, 1}};
  return place(shape, shape.rank() < 2 ? one_axis : two_axes, mesh);
}

std::span<const std::string_view> dispatcher_names() { return k_dispatchers; }
std::span<const std::string_view> expert_backend_names() { return k_backends; }
Dispatcher dispatcher_from(std::string_view name) { return from_name<Dispatcher>(k_dispatchers, name, "dispatcher"); }
ExpertBackend expert_backend_from(std::string_view name) {
  return from_name<ExpertBackend>(k_backends, name, "expert backend");
}

ExpertStorageVerdict expert_storage(Dispatcher dispatcher, ExpertBackend backend, std::uint32_t world, bool has_mok) {
  WEIGHTPROOF_ASSERT(world > 0);
  if (dispatcher == Dispatcher::mok) {
    if (!has_mok) not_representable("dispatcher mok needs its package", "mok installed", "absent");
    if (world % 4 != 0)
      not_representable("dispatcher mok runs on a multiple of four processes", "a multiple of 4",
                        std::to_string(world));
    return {ExpertStorage::mok, "dispatcher mok keeps gate, up and down apart, oriented as stored"};
  }
  if (dispatcher == Dispatcher::torch)
    return {ExpertStorage::grouped, "dispatcher torch builds grouped parameters whatever the backend"};
  if (world == 1)
    return {ExpertStorage::grouped, "one process cannot be expert parallel: grouped parameters, also for te"};
  switch (backend) {
    case ExpertBackend::gmm:
    case ExpertBackend::torch_mm:
    case ExpertBackend::torch_mm_mxfp8:
      return {ExpertStorage::grouped, "this backend multiplies grouped parameters"};
    case ExpertBackend::te:
      return {ExpertStorage::te, "backend te keeps one weight per local expert"};
    case ExpertBackend::torch:
      break;
  }
  return {ExpertStorage::te,
          "an expert parallel dispatcher with backend torch builds te modules: the constructor's last branch"};
}

}  // namespace weightproof::plan
