// The group that becomes a kernel: its nodes, their meaning, and its results. Knows nothing of the kernel.
//
//   Group g(graph, node, layout);
//   SMELT_RETURN_IF_ERROR(g.Read());
//   for (const Root& r : g.roots()) ... g.Sizes(r.value) ...
//
// Nodes and values are those of graph(): of the subgraph of a `smelt::FusionGroup`, or of the outer graph if a single
// node is a kernel by itself.
#ifndef SMELT_FUSER_GROUP_H_
#define SMELT_FUSER_GROUP_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/kernel_operators.h"
#include "smelt/fuser/lower_group.h"

namespace smelt::kernel {

// A result that a kernel stores.
struct Root {
  int output = -1;  // of the group
  ValueId value;    // what is stored; of an action: unused
  NodeId action;    // an inplace_ node
  SymbolicGeometry target;
};

// A reduction over dims of the loops: the sizes that it reduces over.
struct Site {
  NodeId node;
  std::vector<Expr> reduced;
  std::vector<Expr> kept;  // the parallel dims it implies
  ValueId input;           // of a plain reduction
  // For a plain reduction and each input dim: k >= 0 is the kept dim k, otherwise -1-j is the reduced dim j.
  std::vector<int> where;
};

// The tensors that index a tensor.
struct IndexList {
  std::vector<ValueId> at;  // by dim of self; invalid: a whole dim
  std::vector<Expr> sizes;  // of the indices, broadcast
  int first = 0;            // the position of those dims in the result
};

// The loops of a write at indices from data. Points that write different elements for any data are parallel; the others
// run in order.
struct ActionDomain {
  std::vector<Expr> parallel, ordered;
};

class Group {
 public:
  Group(const Graph& outer, NodeId node, const LayoutFn& layout) : outer_(outer), node_(node), layout_(layout) {}

  // Must be called first. Unimplemented names an operator that no kernel can compute.
  absl::Status Read();

  const Graph& graph() const { return *graph_; }
  const Node& node(NodeId n) const { return graph_->node(n); }
  const Value& value(ValueId v) const { return graph_->value(v); }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  const std::vector<Root>& roots() const { return roots_; }
  bool IsAction(const Root& r) const { return graph_->IsLive(r.action); }

  // Returns whether a node of the group computes it.
  bool IsInternal(ValueId v) const { return internal_.contains(v); }
  // Returns the same value in the outer graph for an input; invalid otherwise.
  ValueId OuterValue(ValueId v) const;
  ValueId OuterOutput(const Root& r) const { return outer_.node(node_).outputs[r.output]; }
  SymbolicGeometry Layout(ValueId outer) const { return layout_(outer); }

  // "aten::roll (model.py:41)", of the node or of the whole group.
  std::string Where(NodeId n) const;
  std::string Where() const { return Where(first()); }
  absl::Status Unsupported(NodeId n, absl::string_view what) const;

  const std::vector<Expr>& Sizes(ValueId v) const { return *graph_->value(v).type.tensor().sizes; }
  DType Dt(ValueId v) const { return *graph_->value(v).type.tensor().dtype; }
  ValueId Out(NodeId n, int k = 0) const { return graph_->node(n).outputs[k]; }

  // --- what a node is ---
  std::optional<OpFamily> SpecialOf(NodeId n) const { return kernel::SpecialOf(graph_->node(n)); }
  bool IsPointwise(NodeId n) const;
  bool IsReduction(NodeId n) const;
  // Built once per node.
  absl::StatusOr<const OpCall*> CallOf(NodeId n);
  absl::StatusOr<const ReductionMeaning*> ReductionOf(NodeId n);
  absl::StatusOr<const PointwiseMeaning*> PointwiseOf(NodeId n);

  // --- arguments ---
  absl::StatusOr<ValueId> TensorArg(NodeId n, absl::string_view name);
  // One integer per dim; a single one counts for all.
  absl::StatusOr<std::vector<Expr>> ExprsOr(NodeId n, absl::string_view name, size_t rank, std::vector<Expr> otherwise);
  absl::StatusOr<int> DimArg(NodeId n, absl::string_view name, int rank);
  // Returns input `i`, a constant flag; false if it is missing.
  absl::StatusOr<bool> BoolInput(NodeId n, size_t i) const;

  // --- loops that operators imply ---
  absl::StatusOr<std::optional<Site>> SiteOf(NodeId n);
  // The dims that a pooling node or col2im reduces over.
  absl::StatusOr<std::vector<Expr>> WindowOf(NodeId n, OpFamily s);
  size_t SpatialRank(NodeId n) const;  // of pooling and resampling, by the operator's name
  absl::StatusOr<IndexList> IndicesOf(NodeId n, ValueId self) const;  // input 1 is a list of them
  absl::StatusOr<ActionDomain> DomainOf(NodeId action) const;
  absl::StatusOr<int> ActionDim(NodeId n, int rank) const;  // input 1

 private:
  absl::Status CollectRoots();
  NodeId first() const { return is_group_ ? nodes_[0] : node_; }

  const Graph& outer_;
  const NodeId node_;
  const LayoutFn& layout_;
  const Graph* graph_ = nullptr;
  bool is_group_ = false;
  std::vector<NodeId> nodes_;
  absl::flat_hash_set<ValueId> internal_;
  absl::flat_hash_map<ValueId, ValueId> outer_of_;
  std::vector<Root> roots_;
  absl::flat_hash_map<NodeId, std::unique_ptr<OpCall>> calls_;
  absl::flat_hash_map<NodeId, std::unique_ptr<ReductionMeaning>> reductions_;
  absl::flat_hash_map<NodeId, std::unique_ptr<PointwiseMeaning>> pointwise_;
};

// "scatter_add" for "smelt::inplace_scatter_add".
std::string ActionName(const Node& node);

// Returns the tensor of an operand of a pointwise operator; invalid if it has none.
ValueId OperandValue(const OpCall& call, const PointwiseOperand& o);

bool IsOneElement(const std::vector<Expr>& sizes);

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_GROUP_H_
