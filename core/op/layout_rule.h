// How PyTorch lays out the results of operators, as data: for each operator whose results have one of a few layouts that
// the operands determine, regardless of how the elements are computed. Inference (infer.h) gives results these strides,
// and all users of inferred types rely on it: decompositions, the evaluator, the eager-order plan.
//
//   LayoutRule rule = *FindLayoutRule(call, /*result=*/0);   // aten::flip: kPreserve of argument 0
//   ExprGeometry g = *ApplyLayoutRule<SymbolicDecide>(decide, rule, {x}, sizes);
//
// To add an operator, add its name to a line of the table in layout_rule.cc. An operator without a line has contiguous
// results, or a type rule (infer_rules.h) that computes their strides because they depend on more than the operands'
// layouts: views, joined and indexed tensors, convolutions, transforms. Those rules must ask about strides only through
// SymbolicDecide and view_rules.h, so that a trace sees each question (core/tensor/layout_trace.h).
#ifndef SMELT_CORE_OP_LAYOUT_RULE_H_
#define SMELT_CORE_OP_LAYOUT_RULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/decide.h"

namespace smelt {

struct LayoutRule {
  enum class Kind : uint8_t {
    kContiguous,
    // TensorIterator's layout for the operands, in this order (view_rules::PointwiseOutput).
    kIterator,
    // empty_like's layout for the one operand (view_rules::PreservedStrides).
    kPreserve,
    // Channels-last where the one operand's strides suggest it, else contiguous (Tensor::suggest_memory_format).
    kFormat,
    // The same for a tensor with one spatial dim, which PyTorch computes as an image of one row.
    kRow,
    // Exactly the one operand's strides, gaps included; like kPreserve if it is expanded.
    kKeep,
    // Channels-last, because the call requests it.
    kChannelsLast,
  };
  Kind kind = Kind::kContiguous;
  // Positions among the call's arguments. For kIterator a number may be one of them: it is wrapped into a tensor
  // without dims.
  std::vector<int> operands;
};

// Returns the rule of a result; for an operator that writes into given tensors, the rule for a tensor that it resizes.
// nullopt: there is no rule, or the call lacks the operand that the rule needs.
std::optional<LayoutRule> FindLayoutRule(const OpCall& call, size_t result);

// Returns the geometry, with offset 0, that the rule gives a result of these sizes; `operands` are those of the rule.
// The sizes of the result for kIterator, kPreserve and kKeep are the operands'. Unimplemented: PyTorch's result has
// elements that overlap. `D` is ConcreteDecide or SymbolicDecide.
template <typename D>
absl::StatusOr<typename D::Geometry> ApplyLayoutRule(D& decide, const LayoutRule& rule,
                                                     absl::Span<const typename D::Geometry> operands,
                                                     const std::vector<typename D::Index>& sizes);

namespace op_internal {

// Returns whether some result has a rule that may give another layout than the nodes that compute it.
bool HasLayoutRule(OpName op);
// Returns whether some calls give a tensor that they resize an order that is neither contiguous nor that of the
// functional form. Inference alone knows it.
bool HasOwnRuleOfResized(OpName op);

// Returns the geometry by the rule of a result, if it has one; `sizes` are the result's.
absl::StatusOr<std::optional<ExprGeometry>> LaidOutByRule(const OpCall& call, SymbolicDecide& decide, size_t result,
                                                          const std::vector<Expr>& sizes);
// Gives results the strides of their rules, where there are some. Results whose sizes differ from the rule's keep their
// strides.
absl::Status ApplyLayoutRules(const OpCall& call, SymbolicDecide& decide, std::vector<InferredOutput>& outputs);

}  // namespace op_internal
}  // namespace smelt

#endif  // SMELT_CORE_OP_LAYOUT_RULE_H_
