// Decomposes products with a matrix for each group of rows, and with weights of 8 bits.
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

// _grouped_mm(self [rows, in], mat2 [groups, in, out], offs [groups], bias, out_dtype) and
// transformers::grouped_mm_fallback(input, weight, offs): multiplies the rows from offs[g - 1] up to offs[g] by matrix
// g; rows after the last group are 0.
Values GroupedMm(Emit& e, const OpCall& call) {
  const ValueId rows = call.arg(0).value, matrices = call.arg(1).value, ends = TensorArg(call, "offs");
  if (!rows.valid() || !matrices.valid() || !ends.valid() || e.Rank(rows) != 2 || e.Rank(matrices) != 3)
    return call.Unsupported("other operands than rows, a matrix a group and where groups end");
  if (TensorArg(call, "bias").valid()) return call.Unsupported("a bias");
  if (call.GetDType("out_dtype").value_or(e.DTypeOf(rows)) != e.DTypeOf(rows))
    return call.Unsupported("a dtype other than its operands'");
  return std::vector<ValueId>{e.Op("smelt::grouped_mm", {rows, matrices, ends})};
}

// _weight_int8pack_mm(self, mat2, scales): self times the transposed mat2, and each column times its scale.
Values Int8PackMm(Emit& e, const OpCall& call) {
  const ValueId rows = call.arg(0).value, weight = call.arg(1).value, scales = call.arg(2).value;
  if (!rows.valid() || !weight.valid() || !scales.valid()) return call.Error("three tensors are expected");
  if (e.Rank(weight) != 2 || e.Rank(scales) != 1)
    return call.Error("a matrix of int8 and a vector of scales are expected");
  const std::optional<int64_t> n = e.Sizes(weight)[0].Constant(), scaled = e.Sizes(scales)[0].Constant();
  if (n && scaled && *n != *scaled) return call.Error(absl::StrCat("expected ", *n, " scales, got ", *scaled));
  if (e.DTypeOf(scales) != e.DTypeOf(rows)) return call.Error("scales must have the dtype of self");
  return std::vector<ValueId>{e.Op("smelt::int8_mm", {rows, weight, scales})};
}

}  // namespace

void AddWeightProductRules(DecompositionTable& t) {
  t["aten::_grouped_mm"] = t["transformers::grouped_mm_fallback"] = GroupedMm;
  t["aten::_weight_int8pack_mm"] = Int8PackMm;
}

}  // namespace smelt
