// Operators of an eager-order program that compute: each becomes a call of a kernel, whose results are new tensors or
// are written to given ones.
#ifndef SMELT_PIPELINE_EAGER_COMPUTING_H_
#define SMELT_PIPELINE_EAGER_COMPUTING_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/pipeline/call_graph.h"
#include "smelt/pipeline/eager_call_table.h"
#include "smelt/pipeline/eager_program_writer.h"

namespace smelt {

class EagerComputing {
 public:
  // `changes_dims`: some operator of the graph changes the dims of a tensor that there is already.
  EagerComputing(EagerProgramWriter& writer, EagerCallTable& calls, bool changes_dims)
      : w_(writer), calls_(calls), changes_dims_(changes_dims) {}

  absl::Status EmitPure(NodeId n);
  // Emits an operator that writes: its functional counterpart, and the writes.
  absl::Status EmitWrite(NodeId n, const FunctionSchema& schema);

  // The new contents of the only tensor that an operator writes.
  struct Written {
    ValueId value;                        // in the call
    std::vector<OperandSharing> sharing;  // by argument, as in FunctionalCounterpart
  };
  absl::StatusOr<Written> ValueOfWrite(NodeId n, const FunctionSchema& schema, CallGraph& call);

 private:
  using SharingRules = absl::flat_hash_map<ValueId, OperandSharing>;

  const Graph& g() const { return w_.graph(); }
  // Returns the numbers of the tensors among a call's arguments, which decide its shape.
  std::vector<int> TensorNumbers(const std::vector<ValueId>& args);
  absl::Status CheckKnownDims(const std::vector<ValueId>& args);
  // Returns the arguments of the functional counterpart in the graph; invalid where it has none.
  absl::StatusOr<std::vector<ValueId>> ArgumentsOf(const FunctionalCounterpart& pure,
                                                   const std::vector<ValueId>& inputs);
  // Returns the operands of the functional counterpart's call; `args` are its arguments.
  absl::StatusOr<std::vector<ValueId>> OperandsOf(const FunctionalCounterpart& pure, const std::vector<ValueId>& inputs,
                                                  const std::vector<ValueId>& args, CallGraph& call);
  // Returns the rules for operands that may not lie anywhere in the memory of `target`, the number of the first written
  // tensor.
  absl::StatusOr<SharingRules> SharingOfOperands(const FunctionalCounterpart& pure, const std::vector<ValueId>& inputs,
                                                 int target);

  EagerProgramWriter& w_;
  EagerCallTable& calls_;
  const bool changes_dims_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_COMPUTING_H_
