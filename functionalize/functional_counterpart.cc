#include "smelt/functionalize/functional_counterpart.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

// Finds for each argument of the pure operator one of `given`; nothing if it is not the same operator. The arguments
// that determine the kind of a fresh tensor are not among those of an out= operator: the given tensor determines it.
std::optional<std::vector<int>> MatchArguments(const FunctionSchema& writing, const std::vector<int>& given,
                                               const std::vector<Argument>& pure, bool is_out) {
  std::vector<int> match;
  size_t next = 0;
  for (const Argument& a : pure) {
    if (next < given.size()) {
      const Argument& g = writing.arguments[given[next]];
      if (g.name == a.name && g.type == a.type) {
        if (is_out && a.name == "dtype" && ComputesInDTypeOfOut(writing.op)) {
          match.push_back(FunctionalCounterpart::kDTypeOfWritten);  // PyTorch takes no other
          ++next;
          continue;
        }
        match.push_back(given[next++]);
        continue;
      }
    }
    if (is_out && a.name == "dtype") {
      match.push_back(FunctionalCounterpart::kDTypeOfWritten);
    } else if (is_out && (a.name == "layout" || a.name == "device" || a.name == "pin_memory")) {
      match.push_back(FunctionalCounterpart::kNone);
    } else {
      return std::nullopt;
    }
  }
  return next == given.size() ? std::make_optional(match) : std::nullopt;
}

}  // namespace

absl::StatusOr<FunctionalCounterpart> FindFunctionalCounterpart(const FunctionSchema& schema) {
  const std::string& name = schema.op.name();
  std::vector<int> out_args;   // arguments that only receive a result
  std::vector<int> self_args;  // arguments that are read and written
  const absl::string_view pure_name = PureName(name);
  const bool in_place_name = !pure_name.empty();
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (!IsWritten(schema.arguments[i])) continue;
    (in_place_name ? self_args : out_args).push_back(static_cast<int>(i));
  }
  FunctionalCounterpart f;
  std::vector<int> given;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    if (!in_place_name && IsWritten(schema.arguments[i])) continue;
    given.push_back(static_cast<int>(i));
  }
  const std::string pure(in_place_name ? pure_name : absl::string_view(name));
  std::vector<std::string> names = {pure};
  if (in_place_name) names.push_back(pure + "_functional");
  for (const std::string& candidate_name : names) {
    for (const FunctionSchema* candidate : FindOverloads(candidate_name)) {
      if (candidate->IsMutable()) continue;
      if (!in_place_name && GetOpInfo(candidate->op).kind == OpKind::kView) continue;  // lift.out copies
      const std::optional<std::vector<int>> arguments =
          MatchArguments(schema, given, candidate->arguments, !in_place_name);
      if (!arguments) continue;
      const std::vector<int>& targets = in_place_name ? self_args : out_args;
      if (candidate->returns.size() < targets.size()) continue;
      f.op = candidate->op;
      f.arguments = *arguments;
      f.fills = GetOpTraits(candidate->op).is_range;
      bool any = true;
      for (const Argument& a : schema.arguments) {
        f.sharing.push_back(OperandSharingOf(schema.op, candidate->op, a.name));
        any = any && f.sharing.back() == OperandSharing::kAny;
      }
      if (any) f.sharing.clear();
      for (size_t r = 0; r < candidate->returns.size(); ++r) {
        FunctionalCounterpart::Result result;
        if (r < targets.size()) {
          result.argument = targets[r];
          result.may_resize = !in_place_name;
        }
        f.results.push_back(result);
      }
      for (size_t o = 0; o < schema.returns.size(); ++o)
        f.result_of_output.push_back(static_cast<int>(o < f.results.size() ? o : 0));
      return f;
    }
  }
  return absl::UnimplementedError(absl::StrCat(schema.op.full(), ": no pure form is known"));
}

bool FillsSomeElements(OpName writes, const Graph& g, absl::Span<const ValueId> inputs) {
  std::optional<int64_t> values;
  bool accumulates = false;
  if (writes.name() == op::kIndexPutInPlace && inputs.size() > 3) {
    const Type& t = g.value(inputs[2]).type;
    values = 1;
    if (!t.IsTensor() || !t.tensor().sizes) return false;
    for (const Expr& n : *t.tensor().sizes) {
      if (n != Expr(1)) values.reset();
    }
    const std::optional<ConstantValue> c = GetConstant(g, inputs[3]);
    const bool* add = c ? std::get_if<bool>(&*c) : nullptr;
    accumulates = add == nullptr || *add;
  }
  const int rank = !inputs.empty() && g.value(inputs[0]).type.IsTensor() ? g.value(inputs[0]).type.tensor().rank() : -1;
  return FillsSomeElements(writes, values, accumulates, rank);
}

}  // namespace smelt
