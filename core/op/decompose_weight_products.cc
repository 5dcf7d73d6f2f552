// Decomposes products with a matrix for each group of rows, and with weights of 8 and of 4 bits.
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"
#include "smelt/core/tensor/int4_form.h"

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

// _convert_weight_to_int4pack_for_cpu(self [n, k] of int32, innerKTiles): the layout that PyTorch writes on a machine
// with AVX-512. A block of 64 rows holds for each column 32 bytes, each with rows j and j + 32; a smaller block at the
// end holds neighbours. innerKTiles has no effect.
Values Int4Pack(Emit& e, const OpCall& call) {
  const ValueId self = call.arg(0).value;
  if (!self.valid() || e.DTypeOf(self) != DType::kInt32) return call.Error("expected a weight of Int");
  if (e.Rank(self) != 2) return call.Error("expected a weight with 2 dims");
  const std::optional<int64_t> n = e.Sizes(self)[0].Constant(), k = e.Sizes(self)[1].Constant();
  if (!n || !k) return call.Unsupported("a weight of dynamic sizes");
  if (*n % 16 != 0) return call.Error(absl::StrCat("expected a multiple of 16 rows, got ", *n));
  if (*k % 2 != 0) return call.Error(absl::StrCat("expected an even number of columns, got ", *k));
  constexpr int64_t kBlock = 64;
  const int64_t full = *n / kBlock * kBlock, rest = *n - full;
  const ValueId bytes = e.Cast(self, DType::kUInt8);
  // Returns the pairs of `rows` viewed with the two of a pair at dim 1, as bytes.
  const auto pairs = [&](ValueId rows, const std::vector<Expr>& sizes) {
    const ValueId both = e.Reshape(rows, sizes);
    const ValueId low = e.Select(both, 1, 0), high = e.Select(both, 1, 1);
    return e.Op("aten::bitwise_or.Tensor", {e.Op("aten::mul.Scalar", {high, e.Const(int64_t{16})}), low});
  };
  std::vector<ValueId> parts;
  if (full > 0) {
    const ValueId p = pairs(e.Slice(bytes, 0, 0, full), {full / kBlock, 2, kBlock / 2, *k});
    parts.push_back(e.Flatten(e.Permute(p, {0, 2, 1})));
  }
  if (rest > 0) {
    const ValueId p = pairs(e.Slice(bytes, 0, full, *n), {rest / 2, 2, *k});
    parts.push_back(e.Flatten(e.Permute(p, {1, 0})));
  }
  if (parts.empty()) return std::vector<ValueId>{e.Full(DType::kUInt8, {0, *k / 2}, 0)};
  const ValueId flat = parts.size() == 1 ? parts[0] : e.Cat(parts, 0);
  return std::vector<ValueId>{e.View(flat, {*n, *k / 2})};
}

// _weight_int4pack_mm_for_cpu(self [m, k], mat2 [n, k / 2], qGroupSize, qScaleAndZeros [k / qGroupSize, n, 2]): an
// element of the weight, less 8, is multiplied by the scale of its group, and the zero of the group is added.
Values Int4PackMm(Emit& e, const OpCall& call) {
  const ValueId rows = call.arg(0).value, weight = call.arg(1).value, params = TensorArg(call, "qScaleAndZeros");
  SMELT_ASSIGN_OR_RETURN(const int64_t group, call.GetInt("qGroupSize"));
  if (!rows.valid() || !weight.valid() || !params.valid()) return call.Error("three tensors are expected");
  if (e.Rank(rows) != 2 || e.Rank(weight) != 2 || e.Rank(params) != 3)
    return call.Error("self and mat2 with 2 dims and qScaleAndZeros with 3 are expected");
  if (e.DTypeOf(weight) != DType::kUInt8)
    return call.Error(absl::StrCat("expected mat2 of Byte, got ", Name(e.DTypeOf(weight))));
  if (e.DTypeOf(params) != e.DTypeOf(rows)) return call.Error("qScaleAndZeros must have the dtype of self");
  if (!e.IsContiguous(rows) || !e.IsContiguous(weight)) return call.Error("self and mat2 must be contiguous");
  if (group != 32 && group != 64 && group != 128 && group != 256)
    return call.Error(absl::StrCat("expected qGroupSize to be 32, 64, 128 or 256, got ", group));
  const std::optional<int64_t> k = e.Sizes(rows)[1].Constant(), n = e.Sizes(weight)[0].Constant(),
                               packed = e.Sizes(weight)[1].Constant();
  const std::vector<Expr> have = e.Sizes(params);
  const std::optional<int64_t> groups = have[0].Constant(), columns = have[1].Constant(), two = have[2].Constant();
  if (!k || !n || !packed || !groups || !columns || !two) return call.Unsupported("a weight of dynamic sizes");
  if (*k < 1 || *k % group != 0)
    return call.Error(absl::StrCat("expected K to be divisible by qGroupSize, got K: ", *k, ", qGroupSize: ", group));
  if (*n % 16 != 0) return call.Error(absl::StrCat("expected N to be a multiple of 16, got ", *n));
  if (*packed != *k / 2)
    return call.Error(absl::StrCat("a row of mat2 has ", *packed, " bytes; expected ", *k / 2, " for K: ", *k));
  if (*groups != *k / group || *columns != *n || *two != 2)
    return call.Error(absl::StrCat("expected qScaleAndZeros of sizes [", *k / group, ", ", *n, ", 2], got [", *groups,
                                   ", ", *columns, ", ", *two, "]"));
  const ValueId scales = e.Transpose(e.Select(params, 2, 0), 0, 1), zeros = e.Transpose(e.Select(params, 2, 1), 0, 1);
  return std::vector<ValueId>{
      e.Op("smelt::int4_mm", {rows, weight, scales, zeros, e.Const(static_cast<int64_t>(Int4Form::kBlocks))})};
}

// _scaled_mm(self [m, k], mat2 [k, n], scale_a, scale_b, bias, scale_result, out_dtype): a product of float8 in float32,
// whose rows and columns are scaled, by one number each or by one for all.
Values ScaledMm(Emit& e, const OpCall& call) {
  const ValueId a = call.arg(0).value, b = call.arg(1).value, bias = TensorArg(call, "bias");
  const ValueId scale_a = TensorArg(call, "scale_a"), scale_b = TensorArg(call, "scale_b");
  if (!a.valid() || !b.valid() || !scale_a.valid() || !scale_b.valid() || e.Rank(a) != 2 || e.Rank(b) != 2)
    return call.Error("two matrices and their scales are expected");
  if (!IsFloat8(e.DTypeOf(a)) || !IsFloat8(e.DTypeOf(b)))
    return call.Unsupported(
        absl::StrCat("takes matrices of float8, got ", Name(e.DTypeOf(a)), " and ", Name(e.DTypeOf(b))));
  const DType out = call.GetDType("out_dtype").value_or(e.DTypeOf(a));
  if (!IsFloating(out)) return call.Error("out_dtype must be a floating point dtype");
  if (IsFloat8(out) && TensorArg(call, "scale_result").valid()) return call.Unsupported("a scale of the result");
  const auto is_one = [&](ValueId scale) { return Product(e.Sizes(scale)) == Expr(1); };
  const bool all = is_one(scale_a) && is_one(scale_b);
  const std::vector<Expr> rows = {e.Sizes(a)[0], 1}, columns = {1, e.Sizes(b)[1]};
  if (e.DTypeOf(scale_a) != DType::kFloat32 || e.DTypeOf(scale_b) != DType::kFloat32 ||
      (!all && (e.Sizes(scale_a) != rows || e.Sizes(scale_b) != columns)))
    return call.Error("expected scales of Float: one for each matrix, or one for each row of self and column of mat2");
  const ValueId wide = e.Cast(a, DType::kFloat32), weight = e.Transpose(b, 0, 1);
  const ValueId by_column = e.Reshape(scale_b, {Product(e.Sizes(scale_b))});
  // A weight whose columns lie one after the other is read as it is.
  ValueId y = e.IsContiguous(weight) ? e.Op("smelt::int8_mm", {wide, weight, by_column})
                                     : e.Mul(e.Mm(wide, e.Cast(b, DType::kFloat32)), by_column);
  y = e.Mul(y, all ? e.Reshape(scale_a, {1, 1}) : scale_a);
  if (bias.valid()) y = e.Add(y, e.Cast(bias, DType::kFloat32));
  return std::vector<ValueId>{e.Cast(y, out)};
}

}  // namespace

void AddWeightProductRules(DecompositionTable& t) {
  t["aten::_grouped_mm"] = t["transformers::grouped_mm_fallback"] = GroupedMm;
  t["aten::_weight_int8pack_mm"] = Int8PackMm;
  t["aten::_scaled_mm"] = ScaledMm;
  t["aten::_convert_weight_to_int4pack_for_cpu"] = Int4Pack;
  t["aten::_weight_int4pack_mm_for_cpu"] = Int4PackMm;
}

}  // namespace smelt
