#include "smelt/runtime/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smelt/core/tensor/region.h"

namespace smelt {
namespace {

// Each element of [first, last] reached once: a permutation of a contiguous layout.
bool CoversItsSpan(const Geometry& g) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int d = 0; d < g.rank(); ++d) {
    if (g.sizes[d] != 1) dims.push_back({g.strides[d], g.sizes[d]});
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

}  // namespace

bool PartiallyOverlap(const char* a_origin, const Geometry& a, int a_item, const char* b_origin, const Geometry& b,
                      int b_item) {
  const auto [a_low, a_high] = a.Span();
  const auto [b_low, b_high] = b.Span();
  if (a_low == a_high || b_low == b_high || !CoversItsSpan(a) || !CoversItsSpan(b)) return false;
  if (a_origin + a_high * a_item <= b_origin + b_low * b_item ||
      b_origin + b_high * b_item <= a_origin + a_low * a_item) {
    return false;
  }
  // Count both from one place.
  const char* start = std::min(a_origin + a_low * a_item, b_origin + b_low * b_item);
  if ((a_origin - start) % a_item != 0 || (b_origin - start) % b_item != 0) return true;
  Geometry ga = a, gb = b;
  ga.offset += (a_origin - start) / a_item;
  gb.offset += (b_origin - start) / b_item;
  const Overlap o = OverlapsConcrete(ga, a_item, gb, b_item);
  return o != Overlap::kDisjoint && o != Overlap::kSame;
}

bool PartiallyOverlap(const Tensor& a, const Tensor& b) {
  return PartiallyOverlap(a.storage()->data(), a.geometry(), ItemSize(a.dtype()), b.storage()->data(), b.geometry(),
                          ItemSize(b.dtype()));
}

}  // namespace smelt
