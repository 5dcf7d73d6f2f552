#include "smelt/fuser/placement.h"

#include <algorithm>

namespace smelt::kernel {

std::vector<int> DimsByStride(const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                              const SymbolRanges& ranges) {
  std::vector<int> order;
  for (size_t j = 0; j < sizes.size(); ++j) {
    if (sizes[j] != Expr(1)) order.push_back(static_cast<int>(j));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    auto less = ranges.Less(strides[b], strides[a]);
    return less.has_value() && *less && strides[a] != strides[b];
  });
  return order;
}

std::optional<Expr> StepsOf(const Expr& a, const Expr& step) {
  if (a == step) return Expr(1);
  if (step == Expr(0)) return std::nullopt;
  const Expr q = FloorDiv(a, step);
  if (q * step == a && !(q == Expr(0))) return q;
  return std::nullopt;
}

// Places a dim that goes along two of the value's dims at once.
static bool PlaceDiagonal(const SymbolicGeometry& region, int k, const std::vector<Expr>& sizes,
                          const std::vector<Expr>& strides, const SymbolRanges& ranges, Placement& out) {
  for (int a : out.order) {
    for (int b : out.order) {
      if (a == b || strides[a] + strides[b] != region.strides[k]) continue;
      bool fits = true;
      for (int j : {a, b}) {
        const Placement::Dim& dim = out.dims[j];
        fits = fits && dim.runs.empty() && ranges.LessOrEqual(dim.start + region.sizes[k] - 1, sizes[j] - 1) == true;
      }
      if (!fits) continue;
      for (int j : {a, b}) {
        out.dims[j].runs.push_back({k, Expr(1)});
        out.dims[j].last = out.dims[j].start + region.sizes[k] - 1;
      }
      return true;
    }
  }
  return false;
}

std::optional<Placement> PlaceRegion(const SymbolicGeometry& region, const std::vector<Expr>& sizes,
                                     const std::vector<Expr>& strides, const SymbolRanges& ranges) {
  Placement out;
  out.order = DimsByStride(sizes, strides, ranges);
  out.dims.resize(sizes.size());
  Expr rest = region.offset;
  for (int j : out.order) {
    if (rest == Expr(0)) break;
    const Expr q = FloorDiv(rest, strides[j]), left = rest - q * strides[j];
    const bool below = ranges.LessOrEqual(0, left) == true && ranges.Less(left, strides[j]) == true;
    if (!below || q == Expr(0)) continue;
    out.dims[j].start = out.dims[j].last = q;
    rest = left;
  }
  if (rest != Expr(0)) return std::nullopt;
  // An offset beyond the end of one dim lies in the next dim.
  for (int j : out.order) {
    const Expr& start = out.dims[j].start;
    if (start != Expr(0) && ranges.LessOrEqual(start, sizes[j] - 1) != true) return std::nullopt;
  }
  for (size_t k = 0; k < region.sizes.size(); ++k) {
    if (region.sizes[k] == Expr(1) || region.strides[k] == Expr(0)) continue;
    bool placed = false;
    for (int j : out.order) {
      auto step = StepsOf(region.strides[k], strides[j]);
      if (!step) continue;
      const Expr last = out.dims[j].last + *step * (region.sizes[k] - 1);
      if (ranges.LessOrEqual(last, sizes[j] - 1) != true) break;  // the widest dim it divides is the only one
      out.dims[j].runs.push_back({static_cast<int>(k), *step});
      out.dims[j].last = last;
      placed = true;
      break;
    }
    if (!placed && !PlaceDiagonal(region, static_cast<int>(k), sizes, strides, ranges, out))
      out.across.push_back(static_cast<int>(k));
  }
  return out;
}

}  // namespace smelt::kernel
