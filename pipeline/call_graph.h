// The pure graph of one operator, or of several, for the eager-order plan. Its inputs are the operands that are known only in the
// call, in the order in which they were requested.
//
//   CallGraph call(graph, /*flat=*/false);
//   SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
//   SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results, call.Apply(op, {x}, 1, source));
//   call.graph().AddOutput(results[0]);
#ifndef SMELT_PIPELINE_CALL_GRAPH_H_
#define SMELT_PIPELINE_CALL_GRAPH_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class CallGraph {
 public:
  // flat: tensors have one dim, of one common size (0-dim tensors remain so). strides_of returns the strides of the
  // tensors' types, by the number of earlier ones; contiguous if it is null.
  using StridesOf = std::function<std::vector<Expr>(int index, const std::vector<Expr>& sizes)>;
  // rank_of_unknown is the assumed rank of a tensor of unknown sizes; -1 makes it an error.
  CallGraph(const Graph& outer, bool flat, StridesOf strides_of = nullptr, int rank_of_unknown = -1)
      : outer_(outer),
        flat_(flat),
        strides_of_(std::move(strides_of)),
        rank_of_unknown_(rank_of_unknown),
        g_(std::make_unique<Graph>()) {}

  // Returns the operand in this graph. Unimplemented if its dtype or sizes are not known.
  absl::StatusOr<ValueId> Operand(ValueId v);
  // From here on, Operand(v) returns `inner`, a value of this graph.
  void Bind(ValueId v, ValueId inner) { bound_[v] = inner; }
  absl::StatusOr<std::vector<ValueId>> Apply(OpName op, const std::vector<ValueId>& args, size_t results,
                                             std::shared_ptr<const SourceLocation> source,
                                             Graph::Attributes attributes = {});
  absl::StatusOr<ValueId> Cast(ValueId v, DType to);
  ValueId Constant(const ConstantValue& c) { return InsertConstant(*g_, g_->block(g_->top()).return_node, c); }

  Graph& graph() { return *g_; }
  const std::vector<ValueId>& operands() const { return operands_; }
  // Returns whether an operand has the rank that represents operands of unknown sizes.
  bool has_unknown_rank() const { return has_unknown_rank_; }

 private:
  absl::StatusOr<ValueId> TensorOperand(ValueId v);
  Expr Symbol(const std::string& name, int64_t hint, SymbolRanges::Range range = {});
  Expr Size(const Expr& e);

  const Graph& outer_;
  const bool flat_;
  const StridesOf strides_of_;
  const int rank_of_unknown_;
  bool has_unknown_rank_ = false;
  int num_tensors_ = 0;
  std::unique_ptr<Graph> g_;
  std::vector<ValueId> operands_;
  absl::flat_hash_map<std::string, Expr> sizes_;
  absl::flat_hash_map<ValueId, ValueId> bound_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_CALL_GRAPH_H_
