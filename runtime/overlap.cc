#include "smelt/runtime/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace smelt {
namespace {

// Returns whether each element of [first, last] is reached once: a permutation of a contiguous layout.
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

Shared WhatIsShared(const char* a_origin, const Geometry& a, int a_item, const char* b_origin, const Geometry& b,
                    int b_item) {
  const auto [a_low, a_high] = a.Span();
  const auto [b_low, b_high] = b.Span();
  if (a_low == a_high || b_low == b_high || !CoversItsSpan(a) || !CoversItsSpan(b)) return Shared::kNothing;
  const char *a_begin = a_origin + a_low * a_item, *a_end = a_origin + a_high * a_item;
  const char *b_begin = b_origin + b_low * b_item, *b_end = b_origin + b_high * b_item;
  if (a_end <= b_begin || b_end <= a_begin) return Shared::kNothing;
  return a_begin == b_begin && a_end == b_end && a.strides == b.strides ? Shared::kWhole : Shared::kPart;
}

Shared WhatIsShared(const Tensor& a, const Tensor& b) {
  return WhatIsShared(a.storage()->data(), a.geometry(), ItemSize(a.dtype()), b.storage()->data(), b.geometry(),
                      ItemSize(b.dtype()));
}

}  // namespace smelt
