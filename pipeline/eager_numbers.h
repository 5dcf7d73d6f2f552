// Constants, sizes, and operators on numbers and containers in an eager-order program.
#ifndef SMELT_PIPELINE_EAGER_NUMBERS_H_
#define SMELT_PIPELINE_EAGER_NUMBERS_H_

#include <string>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_program_writer.h"

namespace smelt {

class EagerNumbers {
 public:
  explicit EagerNumbers(EagerProgramWriter& writer) : w_(writer) {}

  absl::Status EmitConstant(NodeId n);
  // Emits the outputs of a node as expressions of the call's sizes.
  absl::Status EmitSize(NodeId n);
  // Emits an operator that the runtime executes by name: `op`, or the node's own.
  absl::Status EmitNumber(NodeId n, std::string op = "");
  // Emits a smelt::assert_type, whose attributes become operands.
  absl::Status EmitTypeCheck(NodeId n);

 private:
  const Graph& g() const { return w_.graph(); }

  EagerProgramWriter& w_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_NUMBERS_H_
