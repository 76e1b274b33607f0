// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/order.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::size_t k_listed = 8;

bool is_rotation(std::span<const std::uint64_t> order) {
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i] != (order[i - 1] + 1) % order.size()) {
      return false;
    }
  }
  return true;
}

bool is_reversal(std::span<const std::uint64_t> order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != order.size() - 1 - i) {
      return false;
    }
  }
  return true;
}

// Declared [count, n / count], found [n / count, count].
bool is_interleaving(std::span<const std::uint64_t> order, std::uint64_t count) {
  const std::uint64_t each = order.size() / count;
  for (std::uint64_t i = 0; i < each; ++i) {
    for (std::uint64_t j = 0; j < count; ++j) {
      if (order[i * count + j] != j * each + i) {
        return false;
      }
    }
  }
  return true;
}

// The least group size in which the same order repeats; 0 where there is none.
std::uint64_t group_of(std::span<const std::uint64_t> order) {
  for (std::uint64_t size = 2; size * 2 <= order.size(); ++size) {
    if (order.size() % size != 0) {
      continue;
    }
    bool repeats = true;
    for (std::uint64_t i = 0; i < order.size() && repeats; ++i) {
      repeats = order[i % size] < size && order[i] == i / size * size + order[i % size];
    }
    if (repeats) {
      return size;
    }
  }
  return 0;
}

// Kind of an order of single blocks, without groups.
void classify(std::span<const std::uint64_t> order, OrderFacts& out, OrderKind& kind) {
  const std::uint64_t n = order.size();
  std::vector<std::uint64_t> moved;
  for (std::uint64_t i = 0; i < n && moved.size() < 3; ++i) {
    if (order[i] != i) {
      moved.push_back(i);
    }
  }
  if (moved.empty()) {
    kind = OrderKind::identity;
    return;
  }
  if (moved.size() == 2) {
    kind = OrderKind::exchanged;
    out.first = moved[0];
    out.second = moved[1];
    return;
  }
  if (is_rotation(order)) {
    kind = OrderKind::rotated;
    out.distance = order[0];
    return;
  }
  if (is_reversal(order)) {
    kind = OrderKind::reversed;
    return;
  }
  // The found order begins 0, each, 2 x each, ...: the second place tells the only count that can be.
  const std::uint64_t each = order[1];
  if (order[0] == 0 && each > 1 && n % each == 0 && is_interleaving(order, n / each)) {
    kind = OrderKind::interleaved;
    out.count = n / each;
    return;
  }
  kind = OrderKind::other;
}

}  // namespace

std::optional<std::vector<std::uint64_t>> order_between(std::span<const std::uint64_t> declared,
                                                        std::span<const std::uint64_t> found) {
  if (declared.size() != found.size()) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> order(found.size(), UINT64_MAX);
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> places;
  for (std::uint64_t i = declared.size(); i-- > 0;) {
    if (declared[i] == found[i]) {
      order[i] = i;
    } else {
      places[declared[i]].push_back(i);  // the least comes last, and is taken first
    }
  }
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    if (order[i] != UINT64_MAX) {
      continue;
    }
    const auto at = places.find(found[i]);
    if (at == places.end() || at->second.empty()) {
      return std::nullopt;
    }
    order[i] = at->second.back();
    at->second.pop_back();
  }
  return order;
}

OrderFacts describe_order(std::span<const std::uint64_t> order) {
  OrderFacts out;
  out.lines = order.size();
  if (order.size() > 10 && std::ranges::equal(order, text_order(order.size()))) {
    out.kind = OrderKind::text_order;
    out.blocks.assign(order.begin(), order.end());
    return out;
  }
  std::uint64_t block = order.size();
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i] != order[i - 1] + 1) {
      block = std::gcd(std::gcd(block, i), order[i]);
    }
  }
  out.block = std::max<std::uint64_t>(block, 1);
  for (std::uint64_t i = 0; i < order.size(); i += out.block) {
    out.blocks.push_back(order[i] / out.block);
  }
  classify(out.blocks, out, out.kind);
  if (out.kind == OrderKind::other) {
    if (const std::uint64_t group = group_of(out.blocks)) {
      out.inner_order.assign(out.blocks.begin(), out.blocks.begin() + static_cast<std::ptrdiff_t>(group));
      OrderFacts inside;
      classify(out.inner_order, inside, out.inner);
      out.kind = OrderKind::within_groups;
      out.first = inside.first;
      out.second = inside.second;
      out.distance = inside.distance;
      out.count = inside.count;
    }
  }
  return out;
}

bool OrderFacts::are_halves_exchanged() const {
  return (kind == OrderKind::exchanged && blocks.size() == 2) ||
         (kind == OrderKind::within_groups && inner_order.size() == 2);
}

std::string OrderFacts::text(const std::string& unit) const {
  const std::string units = block == 1 ? unit + 's' : "blocks of " + grouped(block) + ' ' + unit + 's';
  const std::string single = block == 1 ? unit : "block";
  const auto say = [&](OrderKind what, std::span<const std::uint64_t> order) -> std::string {
    switch (what) {
      case OrderKind::identity:
        return units + " in order";
      case OrderKind::exchanged:
        if (order.size() == 2) {
          return "the two halves (" + units + ") exchanged";
        }
        return single + "s " + grouped(first) + " and " + grouped(second) + " exchanged" +
               (block == 1 ? std::string() : " (" + units + ")");
      case OrderKind::rotated:
        return units + " rotated: number " + grouped(distance) + " stands first";
      case OrderKind::reversed:
        return units + " in reverse order";
      case OrderKind::interleaved:
        return units + " interleaved: " + grouped(count) + " pieces shuffled into one another";
      case OrderKind::text_order:
        return units + " in text order: " + listed_order(order);
      default:
        return units + " in order " + listed_order(order);
    }
  };
  if (kind != OrderKind::within_groups) {
    return say(kind, blocks);
  }
  return "in every group of " + grouped(inner_order.size() * block) + ' ' + unit + "s: " + say(inner, inner_order);
}

std::string listed_order(std::span<const std::uint64_t> order) {
  std::string out;
  for (std::size_t i = 0; i < std::min(order.size(), k_listed); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(order[i]);
  }
  if (order.size() > k_listed) {
    out += (order.size() > k_listed + 1 ? ", ... " : ", ") + std::to_string(order.back());
  }
  return out;
}

std::vector<std::uint64_t> text_order(std::uint64_t count) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) {
    texts.push_back(std::to_string(i));
  }
  std::sort(texts.begin(), texts.end());
  std::vector<std::uint64_t> out;
  for (const std::string& text : texts) {
    out.push_back(std::stoull(text));
  }
  return out;
}

}  // namespace weightproof::suites
