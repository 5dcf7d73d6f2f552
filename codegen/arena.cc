#include "smelt/codegen/arena.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace smelt {
namespace {

constexpr int64_t kAlign = 64;

int64_t RoundUp(int64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

// Returns the greatest common divisor of an expression's coefficients; 1 for one that has no polynomial at its top.
int64_t Content(const Expr& e) {
  const Expr::View view = e.Decompose();
  switch (view.op) {
    case Expr::Op::kConstant:
      return std::abs(view.constant);
    case Expr::Op::kAdd:
      return std::gcd(Content(view.operands[0]), Content(view.operands[1]));
    case Expr::Op::kMul: {
      int64_t product;
      return __builtin_mul_overflow(Content(view.operands[0]), Content(view.operands[1]), &product) ? 1 : product;
    }
    default:
      return 1;
  }
}

// A size as a number of units: `count` times `unit`, and the count is what places are rounded in.
struct Size {
  Expr unit;
  int64_t count = 1;
};

// Sizes that are multiples of one expression are packed as numbers are. Rounded up to the alignment, a small multiple
// would waste most of its place: such a size is a unit of its own.
Size SizeOf(const Expr& bytes) {
  if (const std::optional<int64_t> constant = bytes.Constant()) return {1, RoundUp(std::max<int64_t>(*constant, 1))};
  constexpr int64_t kLargest = int64_t{1} << 56;
  const int64_t content = Content(bytes);
  if (content > 0 && content < kLargest && (content % kAlign == 0 || content >= 16 * kAlign)) {
    const Expr unit = FloorDiv(bytes, content);
    if (unit * content == bytes) return {unit, RoundUp(content)};
  }
  return {FloorDiv(bytes + (kAlign - 1), kAlign) * kAlign, 1};
}

// A buffer of a part of the arena, and its place there, in units of the part.
struct Placed {
  int64_t count;
  int begin, end;  // live in [begin, end]
  int64_t at = 0;
  int64_t after() const { return at + count; }
};

// Returns the beginning of the tightest gap that holds `count` units between the places, or else where they end. They
// are sorted by their beginnings.
int64_t TightestGap(const std::vector<const Placed*>& taken, int64_t count) {
  int64_t best = -1, best_slack = INT64_MAX, at = 0;
  for (const Placed* p : taken) {
    if (p->at - at >= count && p->at - at - count < best_slack) {
      best = at;
      best_slack = p->at - at - count;
    }
    at = std::max(at, p->after());
  }
  return best < 0 ? at : best;
}

bool BeginsBelow(const Placed* a, const Placed* b) { return a->at < b->at; }

int64_t Top(const std::vector<Placed>& buffers) {
  int64_t top = 0;
  for (const Placed& b : buffers) top = std::max(top, b.after());
  return top;
}

// Places buffers in the order in which their lives begin, which is theirs, among those that are alive then. Takes n
// times as many steps as buffers are alive.
void PlaceByTime(std::vector<Placed>& buffers) {
  std::vector<const Placed*> alive;
  for (Placed& b : buffers) {
    alive.erase(std::remove_if(alive.begin(), alive.end(), [&](const Placed* p) { return p->end < b.begin; }),
                alive.end());
    b.at = TightestGap(alive, b.count);
    alive.insert(std::upper_bound(alive.begin(), alive.end(), &b, BeginsBelow), &b);
  }
}

// Places the largest buffers first, so that a small one never splits the room of a large one. Takes n * n steps.
void PlaceBySize(std::vector<Placed>& buffers) {
  std::vector<Placed*> order;
  for (Placed& b : buffers) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->count > b->count; });
  std::vector<const Placed*> placed, alive;  // sorted by their beginnings
  for (Placed* b : order) {
    alive.clear();
    for (const Placed* p : placed) {
      if (p->begin <= b->end && b->begin <= p->end) alive.push_back(p);
    }
    b->at = TightestGap(alive, b->count);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), b, BeginsBelow), b);
  }
}

// Gives the buffers of a part, sorted by the beginnings of their lives, places that do not overlap while two are alive.
void Place(std::vector<Placed>& buffers) {
  PlaceByTime(buffers);
  constexpr size_t kMostBySize = 2048;
  if (buffers.size() > kMostBySize) return;
  std::vector<Placed> by_size = buffers;
  PlaceBySize(by_size);
  if (Top(by_size) < Top(buffers)) buffers = std::move(by_size);
}

}  // namespace

ArenaLayout PackArena(const std::vector<ArenaBuffer>& buffers) {
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return buffers[a].begin < buffers[b].begin; });

  // A part of the arena for each unit, in the order of their first buffers.
  struct Part {
    Expr unit;
    std::vector<Placed> buffers;
  };
  std::vector<Part> parts;
  std::map<std::string, size_t> part_of_unit;
  std::vector<std::pair<size_t, size_t>> where(buffers.size());  // a part, and the index there
  for (int i : order) {
    const Size size = SizeOf(buffers[i].bytes);
    const auto [it, fresh] = part_of_unit.try_emplace(size.unit.ToString(), parts.size());
    if (fresh) parts.push_back({size.unit, {}});
    Part& part = parts[it->second];
    where[i] = {it->second, part.buffers.size()};
    part.buffers.push_back({size.count, buffers[i].begin, buffers[i].end});
  }

  ArenaLayout layout;
  layout.bytes = 0;
  std::vector<Expr> begins;
  for (Part& part : parts) {
    Place(part.buffers);
    begins.push_back(layout.bytes);
    layout.bytes = layout.bytes + part.unit * Top(part.buffers);
  }
  layout.offsets.reserve(buffers.size());
  for (const auto& [part, index] : where)
    layout.offsets.push_back(begins[part] + parts[part].unit * parts[part].buffers[index].at);
  return layout;
}

}  // namespace smelt
