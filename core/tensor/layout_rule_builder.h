// Writes a layout rule, which is code over symbolic strides, down as data (layout_rule.h). It runs the code repeatedly
// with different answers to the questions that the code asks about its operands, until each answer has been followed.
//
//   LayoutRuleOperands operands;
//   operands.tensors = {x, y};          // ExprGeometry whose sizes and strides are symbols
//   auto rule = BuildLayoutRule(operands, ranges, hints, [&] { return InferResults(...); });
//
// HoldsForAllLayouts follows the same answers to find out whether something holds whatever the strides are.
#ifndef SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_
#define SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_

#include <cstddef>
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

// The operands of a rule, in the order of its inputs. An expression that is a single symbol is read from the operand at
// the call; each symbol of a result must occur in this way.
struct LayoutRuleOperand {
  ExprGeometry geometry;    // of a tensor
  std::string number = "";  // the symbol of an integer
};

// A result's sizes and strides; nullopt where the sizes are not known before the call.
using InferredLayout = std::optional<ExprGeometry>;

// An inference that runs step by step, so that a run with another answer begins at the step that asked for it.
struct LayoutSteps {
  size_t count = 0;
  // Runs a step, which reads what earlier ones left.
  absl::FunctionRef<absl::Status(size_t)> run;
  // Returns whether the step has run, and whether what it read from other steps is still the same. It then runs again
  // only if it gets another answer.
  absl::FunctionRef<bool(size_t)> reads_the_same;
  absl::FunctionRef<absl::StatusOr<std::vector<InferredLayout>>()> results;  // when all steps have run
};

struct LayoutRuleOptions {
  int max_runs = 256;  // of `infer`
  // If true, a rule of more cases is an error. Otherwise the rule refuses the cases that the runs did not reach.
  bool whole = false;
};

// Builds the rule of `infer`, whose results must depend only on the answers to the questions that it asks. If it fails
// for some operands, the rule refuses them; it is an error if it fails for all. `hints` are the usual operands, which
// are followed first. The words of a rule are the same for the same answers.
absl::StatusOr<std::vector<int64_t>> BuildLayoutRule(
    const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
    const absl::flat_hash_map<std::string, int64_t>& hints,
    absl::FunctionRef<absl::StatusOr<std::vector<InferredLayout>>()> infer, const LayoutRuleOptions& options = {});
// The same for an inference in steps.
absl::StatusOr<std::vector<int64_t>> BuildLayoutRule(const std::vector<LayoutRuleOperand>& operands,
                                                     const SymbolRanges& ranges,
                                                     const absl::flat_hash_map<std::string, int64_t>& hints,
                                                     const LayoutSteps& infer, const LayoutRuleOptions& options = {});

struct LayoutCases {
  int max_runs = 64;
  // If true, a question about a layout as a whole (is it contiguous?) is decided by comparing the strides that are not
  // known, which takes more runs. Otherwise both answers are followed: some operand might have either.
  bool compares_strides = false;
};

// Returns whether `holds` returns true for every answer to the questions that it asks about strides of the operands.
// The hints answer questions about sizes alone. False if there are more cases than `max_runs`, or if a question cannot be
// written down.
bool HoldsForAllLayouts(const std::vector<LayoutRuleOperand>& operands, const SymbolRanges& ranges,
                        const absl::flat_hash_map<std::string, int64_t>& hints, absl::FunctionRef<bool()> holds,
                        const LayoutCases& cases = {});

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_LAYOUT_RULE_BUILDER_H_
