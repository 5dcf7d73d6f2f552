#include "smelt/functionalize/memory.h"

#include <algorithm>
#include <numeric>

namespace smelt {

bool SameGeometry(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  if (a.dtype != b.dtype || a.offset != b.offset || a.sizes != b.sizes) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.strides[d] != b.strides[d] && a.sizes[d] != Expr(1)) return false;
  }
  return true;
}

SymbolicGeometry GeometryOf(const TensorType& type) { return {*type.dtype, *type.sizes, *type.strides, Expr(0)}; }

Type TypeOf(const SymbolicGeometry& g) { return Type::Tensor(g.dtype, g.sizes, g.strides); }

Expr NumElements(const SymbolicGeometry& g) { return Product(g.sizes); }

bool IsDense(const SymbolicGeometry& g, const SymbolRanges& ranges) {
  // Every dim's stride must be the product of the sizes of those below it, in some order.
  std::vector<size_t> left;
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.sizes[d] != Expr(1)) left.push_back(d);
  }
  Expr expected = 1;
  while (!left.empty()) {
    auto it = std::find_if(left.begin(), left.end(), [&](size_t d) { return g.strides[d] == expected; });
    if (it == left.end()) return false;
    expected = expected * g.sizes[*it];
    left.erase(it);
  }
  return true;
}

Region RegionOf(const SymbolicGeometry& g) { return Region::Strided(g.offset, g.sizes, g.strides, ItemSize(g.dtype)); }

std::optional<Geometry> ConcreteGeometry(const SymbolicGeometry& g) {
  Geometry out;
  for (const Expr& e : g.sizes) {
    if (!e.IsConstant()) return std::nullopt;
    out.sizes.push_back(*e.Constant());
  }
  for (const Expr& e : g.strides) {
    if (!e.IsConstant()) return std::nullopt;
    out.strides.push_back(*e.Constant());
  }
  if (!g.offset.IsConstant()) return std::nullopt;
  out.offset = *g.offset.Constant();
  return out;
}

}  // namespace smelt
