// Types of products with a matrix for each group of rows, and with weights of 8 and of 4 bits.
#include <optional>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/tensor/int4_form.h"

namespace smelt::op_internal {
namespace {

absl::Status MatchDepth(Ctx& c, const Expr& a, const Expr& b) {
  const std::optional<int64_t> x = a.Constant(), y = b.Constant();
  if (x && y && *x != *y)
    return c.call.Error(absl::StrCat("the rows have ", *x, " elements, the matrices expect ", *y));
  return absl::OkStatus();
}

// grouped_mm(rows [t, k], matrices [g, k, n], ends [g]): [t, n].
absl::Status GroupedMm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType rows, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType matrices, TensorArgument(c, 1));
  SMELT_ASSIGN_OR_RETURN(const TensorType ends, TensorArgument(c, 2));
  if (rows.rank() != 2 || matrices.rank() != 3 || ends.rank() != 1)
    return c.call.Error("rows, a matrix a group and where groups end are expected");
  if (rows.dtype != matrices.dtype) return c.call.Error("rows and matrices must have the same dtype");
  if (!IsIntegral(*ends.dtype)) return c.call.Error("where groups end must be integers");
  const std::optional<int64_t> groups = (*matrices.sizes)[0].Constant(), ended = (*ends.sizes)[0].Constant();
  if (groups && ended && *groups != *ended)
    return c.call.Error(absl::StrCat(*groups, " matrices, but ", *ended, " groups"));
  SMELT_RETURN_IF_ERROR(MatchDepth(c, (*rows.sizes)[1], (*matrices.sizes)[1]));
  c.Add(*rows.dtype, {(*rows.sizes)[0], (*matrices.sizes)[2]});
  return absl::OkStatus();
}

// int8_mm(rows [m, k], weight [n, k] of int8 or float8, scales [n] or [1]): [m, n].
absl::Status Int8Mm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType rows, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType weight, TensorArgument(c, 1));
  SMELT_ASSIGN_OR_RETURN(const TensorType scales, TensorArgument(c, 2));
  if (rows.rank() != 2 || weight.rank() != 2 || scales.rank() != 1)
    return c.call.Error("rows, a matrix and a vector of scales are expected");
  const DType t = *rows.dtype;
  if (t != DType::kFloat32 && t != DType::kBFloat16 && t != DType::kFloat16)
    return c.call.Error(absl::StrCat("rows must be float32, bfloat16 or float16, got ", Name(t)));
  if (weight.dtype != DType::kInt8 && !IsFloat8(*weight.dtype))
    return c.call.Error("the weight must be int8 or float8");
  SMELT_RETURN_IF_ERROR(MatchDepth(c, (*rows.sizes)[1], (*weight.sizes)[1]));
  c.Add(t, {(*rows.sizes)[0], (*weight.sizes)[0]});
  return absl::OkStatus();
}

// row_sums(weight [n, k] of int8): [n] of int32.
absl::Status RowSums(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType weight, TensorArgument(c, 0));
  if (weight.rank() != 2 || weight.dtype != DType::kInt8) return c.call.Error("a matrix of int8 is expected");
  c.Add(DType::kInt32, {(*weight.sizes)[0]});
  return absl::OkStatus();
}

// int4_mm(rows [m, k], weight [n, k] or [n, k / 2], scales [n, groups], zeros as scales, form): [m, n].
absl::Status Int4Mm(Ctx& c) {
  SMELT_ASSIGN_OR_RETURN(const TensorType rows, TensorArgument(c, 0));
  SMELT_ASSIGN_OR_RETURN(const TensorType weight, TensorArgument(c, 1));
  SMELT_ASSIGN_OR_RETURN(const TensorType scales, TensorArgument(c, 2));
  SMELT_ASSIGN_OR_RETURN(const TensorType zeros, TensorArgument(c, 3));
  SMELT_ASSIGN_OR_RETURN(const int64_t form, c.call.GetInt("form"));
  if (form < 0 || form > static_cast<int64_t>(Int4Form::kBlocks))
    return c.call.Error(absl::StrCat("there is no form ", form));
  if (rows.rank() != 2 || weight.rank() != 2 || scales.rank() != 2 || zeros.rank() != 2)
    return c.call.Error("rows, a weight, and scales and zeros of its groups are expected");
  const DType t = *rows.dtype;
  if (t != DType::kFloat32 && t != DType::kBFloat16 && t != DType::kFloat16)
    return c.call.Error(absl::StrCat("rows must be float32, bfloat16 or float16, got ", Name(t)));
  const bool blocks = form == static_cast<int64_t>(Int4Form::kBlocks);
  if (weight.dtype != DType::kUInt8 && (blocks || weight.dtype != DType::kInt8))
    return c.call.Error("the weight must be uint8 or, with a byte for each element, int8");
  const Expr depth = (*weight.sizes)[1];
  SMELT_RETURN_IF_ERROR(MatchDepth(c, (*rows.sizes)[1], blocks ? depth * 2 : depth));
  const std::optional<int64_t> k = (*rows.sizes)[1].Constant(), groups = (*scales.sizes)[1].Constant();
  if (k && groups && (*groups < 1 || *k % *groups != 0))
    return c.call.Error(absl::StrCat(*groups, " groups do not divide ", *k, " elements"));
  c.Add(t, {(*rows.sizes)[0], (*weight.sizes)[0]});
  return absl::OkStatus();
}

}  // namespace

void AddWeightProductTypeRules(RuleTable& r) {
  r["smelt::grouped_mm"] = GroupedMm;
  r["smelt::int8_mm"] = Int8Mm;
  r["smelt::row_sums"] = RowSums;
  r["smelt::int4_mm"] = Int4Mm;
}

}  // namespace smelt::op_internal
