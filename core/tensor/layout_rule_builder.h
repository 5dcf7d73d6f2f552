// Writes a layout rule, which is code over symbolic strides, down as data (layout_rule.h): runs the code again and
// again with other answers to the questions that it asks about its operands, until each answer has been followed.
//
//   LayoutRuleOperands operands;
//   operands.tensors = {x, y};          // ExprGeometry whose sizes and strides are symbols
//   auto rule = BuildLayoutRule(operands, ranges, hints, [&] { return InferResults(...); });
#ifndef SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_
#define SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/decide.h"

namespace smelt {

// The operands of a rule, in the order of its inputs. What is a symbol alone is read from the operand at the call; each
// symbol of a result must occur so.
struct LayoutRuleOperand {
  ExprGeometry geometry;    // of a tensor
  std::string number = "";  // the symbol of an integer
};

// A result's sizes and strides; nullopt where the sizes are not known before the call.
using InferredLayout = std::optional<ExprGeometry>;

struct LayoutRuleOptions {
  int max_runs = 256;  // of `infer`
  // Whether a rule of more cases is an error; else it refuses those that the runs did not come to.
  bool whole = false;
};

// The rule of `infer`, whose answers must depend on nothing but the questions that it asks. Where it fails for some
// operands the rule refuses them; an error if it fails for all. `hints` say which operands are usual: they are followed
// first. The words of a rule are the same for the same answers.
absl::StatusOr<std::vector<int64_t>> BuildLayoutRule(
    const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
    const absl::flat_hash_map<std::string, int64_t>& hints,
    absl::FunctionRef<absl::StatusOr<std::vector<InferredLayout>>()> infer, const LayoutRuleOptions& options = {});

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_
