#include "smelt/functionalize/region_nodes.h"

#include <cstdint>
#include <variant>

#include "smelt/core/op/ops.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

const Attributes& RegionNodes::AttributesOf(const SymbolicGeometry& geometry, int home) {
  // A write often follows a view of the same region, and a loop that was unrolled comes back to it.
  const uint64_t offset = static_cast<uint64_t>(geometry.offset.Constant().value_or(0));
  Attributes& a = attributes_[offset * 0x9E3779B97F4A7C15u >> 56];
  const auto same = [&] {
    if (a.size() != (home >= 0 ? 5 : 4) || (home >= 0 && std::get<int64_t>(a[0].second) != home)) return false;
    const Attributes::Entry* e = a.end() - 4;
    return std::get<int64_t>(e[0].second) == static_cast<int64_t>(ScalarTypeOf(geometry.dtype)) &&
           std::get<Expr>(e[1].second) == geometry.offset &&
           std::get<std::vector<Expr>>(e[2].second) == geometry.sizes &&
           std::get<std::vector<Expr>>(e[3].second) == geometry.strides;
  };
  if (same()) return a;
  a = Attributes();
  a.reserve(home >= 0 ? 5 : 4);
  if (home >= 0) a.emplace_back("argument", static_cast<int64_t>(home));
  a.emplace_back("dtype", static_cast<int64_t>(ScalarTypeOf(geometry.dtype)));
  a.emplace_back("offset", geometry.offset);
  a.emplace_back("sizes", geometry.sizes);
  a.emplace_back("strides", geometry.strides);
  return a;
}

const Type& RegionNodes::TypeOfView(const SymbolicGeometry& g) {
  // Views that follow each other are often alike, such as consecutive rows.
  if (last_type_.IsTensor()) {
    const TensorType& t = last_type_.tensor();
    if (*t.dtype == g.dtype && *t.sizes == g.sizes && *t.strides == g.strides) return last_type_;
  }
  return last_type_ = TypeOf(g);
}

ValueId RegionNodes::View(NodeId anchor, ValueId base, const SymbolicGeometry& geometry, int home) {
  static const OpName kView = OpName::Get(op::kSmeltView);
  const NodeId n = g_.InsertBefore(anchor, kView, {base}, {TypeOfView(geometry)}, AttributesOf(geometry, home));
  g_.SetSource(n, at_.source);
  return g_.node(n).outputs[0];
}

ValueId RegionNodes::Write(NodeId anchor, ValueId base, ValueId v, const SymbolicGeometry& geometry, int home) {
  static const OpName kWriteRegion = OpName::Get(op::kSmeltWriteRegion);
  const NodeId n =
      g_.InsertBefore(anchor, kWriteRegion, {base, v}, {g_.value(base).type}, AttributesOf(geometry, home));
  g_.SetSource(n, at_.source);
  return g_.node(n).outputs[0];
}

}  // namespace smelt
