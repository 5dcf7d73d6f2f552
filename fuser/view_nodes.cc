#include "smelt/fuser/view_nodes.h"

#include <cstdint>

#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

std::pair<ValueId, SymbolicGeometry> ShownMemory(const Graph& g, ValueId v) {
  const NodeId view = ViewNodeOf(g, v);
  if (!view.valid()) return {v, DefaultLayout(g, v)};
  return {g.node(view).inputs[0], RegionGeometry(g.node(view))};
}

NodeId InsertView(Graph& g, NodeId anchor, ValueId base, const SymbolicGeometry& shown) {
  const NodeId n = g.InsertBefore(anchor, OpName::Get(op::kSmeltView), {base},
                                  {Type::Tensor(shown.dtype, shown.sizes, shown.strides)},
                                  {{"sizes", shown.sizes},
                                   {"strides", shown.strides},
                                   {"offset", shown.offset},
                                   {"dtype", static_cast<int64_t>(ScalarTypeOf(shown.dtype))}});
  g.SetSource(n, g.node(anchor).source);
  return n;
}

}  // namespace smelt
