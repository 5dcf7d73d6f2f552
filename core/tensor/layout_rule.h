// How the results of an operator lie in memory, for operands that lie in any way: the operator's layout rule as data.
// Inference applies the operators' rules (core/op/layout_rule.h, infer_rules.h) to symbolic strides;
// layout_rule_builder.h writes down what follows for a call as such a program, a bundle carries it, and the runtime
// evaluates it on the strides of the call.
//
//   std::vector<int64_t> rule = *BuildLayoutRule(...);
//   std::vector<ResultLayout> layouts = *EvaluateLayoutRule(rule, {Geometry of x, Geometry of y});
//
// A rule is a list of 64-bit words:
//
//   number of inputs, number of values, the values (3 words each), the steps
//
// A value is an operation on numbers, see LayoutValue; it refers to values before it. Steps run from the first one on;
// each names those that come next by their place in the list, always further on, so that every rule ends. A geometry in
// a step is an input (one word: -1 - input) or its rank, the values of its sizes and those of its strides; as strides,
// -1 - slot stands for what the step kDerive put into that slot.
#ifndef SMELT_CORE_TENSOR_LAYOUT_RULE_H_
#define SMELT_CORE_TENSOR_LAYOUT_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

enum class LayoutValue : int64_t {
  kConstant = 0,  // a
  kSize = 1,      // of input a, dim b
  kStride = 2,    // of input a, dim b
  kNumber = 3,    // input a, an integer
  kDerived = 4,   // of slot a, dim b
  kAdd = 5,       // of values a and b, as those that follow
  kMul = 6,
  kFloorDiv = 7,
  kMod = 8,
  kMin = 9,
  kMax = 10,
};

enum class LayoutStep : int64_t {
  kCompare = 0,  // relation (Assumption::Relation), values a and b; the step if it holds, the step if not
  kTest = 1,     // predicate (LayoutTrace::Predicate), a geometry; the step if it holds, the step if not
  kDerive = 2,   // derivation (LayoutDerivation), slot, number of geometries, the geometries; the next step
  kDone = 3,     // number of results; of each LayoutResult and what it takes
  kRefuse = 4,   // no rule covers these operands
};

enum class LayoutDerivation : int64_t {
  kPreserved = 0,  // view_rules::PreservedStrides of one geometry
  kPointwise = 1,  // those of view_rules::PointwiseOutput
};

enum class LayoutResult : int64_t {
  kContiguous = 0,  // for any sizes
  kDerived = 1,     // with the strides of a slot
  kInput = 2,       // with exactly the strides of an input
  kStrides = 3,     // rank, the values of the strides
  kUnknown = 4,     // as computed
};

// An operand: a tensor's geometry or an integer.
struct LayoutInput {
  Geometry geometry;
  int64_t number = 0;
};

struct EvaluatedLayout {
  LayoutResult kind = LayoutResult::kContiguous;
  int input = -1;                // of kInput
  std::vector<int64_t> strides;  // of kDerived, kInput and kStrides
};

// Returns an error that describes what is malformed. A rule that passes can be evaluated on `inputs` operands.
absl::Status VerifyLayoutRule(absl::Span<const int64_t> rule, size_t inputs);

// Returns the layout of each result. FailedPrecondition: the rule does not cover these operands. InvalidArgument: the
// rule is malformed, or an operand has another rank than the rule is for. O(words of the rule).
absl::StatusOr<std::vector<EvaluatedLayout>> EvaluateLayoutRule(absl::Span<const int64_t> rule,
                                                                absl::Span<const LayoutInput> inputs);

// Returns the number of elements of memory that a tensor with these sizes and strides spans, from the first on. Returns
// -1 if a stride is negative, the ranks differ or the number exceeds any memory, which a rule from a file can cause.
int64_t ReachOfLayout(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_LAYOUT_RULE_H_
