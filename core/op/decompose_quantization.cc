// Decomposes quantization: fake_quantize_*, torch.ao's quantized_decomposed operators and torchao's, whose tensors are
// plain integers.
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose_rules.h"

namespace smelt {
namespace {

using Values = absl::StatusOr<std::vector<ValueId>>;

ValueId And(Emit& e, ValueId a, ValueId b) { return e.Op("aten::logical_and", {a, b}); }
ValueId Round(Emit& e, ValueId v) { return e.Op("aten::round", {v}); }
ValueId Reciprocal(Emit& e, ValueId v) { return e.Op("aten::reciprocal", {v}); }

// --- fake_quantize ---

// The parameters of quantizing and dequantizing, for one channel or for all.
struct QuantParams {
  ValueId scale, inverse, zero;
  bool round_last = false;  // after the zero point is added, which is no whole number
};

constexpr char kZeroPointRange[] = "`zero_point` must be between `quant_min` and `quant_max`.";

// One value for the whole tensor: the scale is a float32, and the zero point is truncated to an integer.
absl::StatusOr<QuantParams> TensorQuantParams(Emit& e, const OpCall& call, int64_t low, int64_t high) {
  QuantParams p;
  if (call.arg(1).IsTensor()) {
    p.scale = e.Cast(e.Reshape(call.arg(1).value, {}), DType::kFloat32);
    p.inverse = e.Op("aten::reciprocal", {p.scale});
    p.zero = e.Cast(e.Cast(e.Reshape(call.arg(2).value, {}), DType::kInt64), DType::kFloat32);
    return p;
  }
  SMELT_ASSIGN_OR_RETURN(double scale, call.GetDouble("scale"));
  SMELT_ASSIGN_OR_RETURN(int64_t zero, call.GetInt("zero_point"));
  if (zero < low || zero > high) return call.Error(kZeroPointRange);
  p.scale = e.Scalar(DType::kFloat32, static_cast<float>(scale));
  p.inverse = e.Scalar(DType::kFloat32, 1.0f / static_cast<float>(scale));
  p.zero = e.Scalar(DType::kFloat32, static_cast<double>(zero));
  return p;
}

// One value per index along `axis`. PyTorch requires integer zero points to be within the range.
absl::StatusOr<QuantParams> ChannelQuantParams(Emit& e, const OpCall& call, int64_t low, int64_t high) {
  const ValueId self = call.arg(0).value, scale = call.arg(1).value, zero = call.arg(2).value;
  SMELT_ASSIGN_OR_RETURN(int64_t axis, call.GetInt("axis"));
  if (axis < 0 || axis >= e.Rank(self)) {
    return call.Error("`axis` must be between 0 and number of dimensions of input");
  }
  const DType whole = e.DTypeOf(zero);
  if (e.DTypeOf(scale) != DType::kFloat32) return call.Unsupported("scales of channels that are not float32");
  if (whole != DType::kInt32 && whole != DType::kFloat32 && whole != DType::kFloat16) {
    return call.Error("zero points of channels must be int32, float32 or float16");
  }
  if (whole == DType::kInt32) {
    const ValueId third = e.Op("aten::le.Scalar", {zero, e.Const(high)});
    AssertAll(e, And(e, e.Op("aten::ge.Scalar", {zero, e.Const(low)}), third), kZeroPointRange);
  }
  std::vector<Expr> sizes(e.Rank(self), Expr(1));
  sizes[axis] = e.Sizes(self)[axis];
  QuantParams p;
  p.scale = e.Reshape(scale, sizes);
  p.inverse = e.Op("aten::reciprocal", {p.scale});
  p.zero = e.Cast(e.Reshape(zero, sizes), DType::kFloat32);
  p.round_last = whole != DType::kInt32;
  return p;
}

// fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine(self, scale, zero_point, [axis,] quant_min,
// quant_max), and their forms with a second result: a mask of the elements that need no clamping.
Values FakeQuantize(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(int64_t low, call.GetInt("quant_min"));
  SMELT_ASSIGN_OR_RETURN(int64_t high, call.GetInt("quant_max"));
  if (low > high) return call.Error("`quant_min` should be less than or equal to `quant_max`.");
  const bool channels = call.IndexOf("axis") >= 0;
  SMELT_ASSIGN_OR_RETURN(QuantParams p,
                         channels ? ChannelQuantParams(e, call, low, high) : TensorQuantParams(e, call, low, high));
  const ValueId self = call.arg(0).value;
  ValueId q = e.Mul(ToCompute(e, self), p.inverse);
  q = p.round_last ? e.Op("aten::round", {e.Add(q, p.zero)}) : e.Add(e.Op("aten::round", {q}), p.zero);
  const ValueId least = e.Fill(q, static_cast<double>(low)), most = e.Fill(q, static_cast<double>(high));
  // PyTorch converts the values of channels to int64: values out of its range become the smallest int64.
  if (channels) {
    const ValueId filled = e.Fill(q, -0x1p63);
    q = e.Where(e.Op("aten::ge.Scalar", {q, e.Const(0x1p63)}), filled, q);
  }
  // fmax returns the number, not the NaN.
  ValueId out = e.Sub(e.Op("aten::fmin", {e.Op("aten::fmax", {q, least}), most}), p.zero);
  if (!channels) out = e.Cast(out, DType::kFloat32);
  out = e.Cast(e.Mul(out, p.scale), e.DTypeOf(self));
  if (!e.ok()) return e.status();
  if (!absl::StrContains(call.op().name(), "_cachemask")) return std::vector<ValueId>{out};
  const ValueId third = e.Op("aten::le.Tensor", {q, most});
  ValueId inside = And(e, e.Op("aten::ge.Tensor", {q, least}), third);
  if (call.IndexOf("fake_quant_enabled") >= 0) {
    const ValueId off = e.EqN(e.Reshape(call.arg(3).value, {}), 0);
    out = e.Where(off, self, out);
    inside = e.Op("aten::logical_or", {inside, off});
  }
  return std::vector<ValueId>{out, inside};
}

// --- quantized_decomposed ---

// The range of a quantized tensor's values, as numbers or, in the overloads named tensor2, as tensors.
struct QuantRange {
  ValueId low, high;  // float32, without dims
  DType dtype;
};

absl::StatusOr<DType> QuantizedDType(const OpCall& call) {
  const std::optional<DType> t = call.GetDType("dtype");
  if (t != DType::kUInt8 && t != DType::kInt8 && t != DType::kInt16 && t != DType::kInt32) {
    return call.Unsupported("quantized numbers that are not uint8, int8, int16 or int32");
  }
  return *t;
}

std::pair<int64_t, int64_t> Bounds(DType t) {
  if (t == DType::kUInt8) return {0, 255};
  const int bits = 8 * ItemSize(t);
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

constexpr char kBounds[] = "quant_min and quant_max must be numbers of the quantized dtype";

absl::StatusOr<QuantRange> RangeArg(Emit& e, const OpCall& call) {
  QuantRange range;
  SMELT_ASSIGN_OR_RETURN(range.dtype, QuantizedDType(call));
  const auto [least, most] = Bounds(range.dtype);
  const ValueId low = TensorArg(call, "quant_min"), high = TensorArg(call, "quant_max");
  if (low.valid()) {
    range.low = e.Cast(e.Reshape(low, {}), DType::kFloat32);
    range.high = e.Cast(e.Reshape(high, {}), DType::kFloat32);
    const ValueId third = e.Op("aten::le.Scalar", {e.Reshape(high, {}), e.Const(most)});
    AssertAll(e, And(e, e.Op("aten::ge.Scalar", {e.Reshape(low, {}), e.Const(least)}), third), kBounds);
    return range;
  }
  SMELT_ASSIGN_OR_RETURN(int64_t from, call.GetInt("quant_min"));
  SMELT_ASSIGN_OR_RETURN(int64_t to, call.GetInt("quant_max"));
  if (from < least || to > most) return call.Error(kBounds);
  range.low = e.Scalar(DType::kFloat32, static_cast<double>(from));
  range.high = e.Scalar(DType::kFloat32, static_cast<double>(to));
  return range;
}

// Returns a scale or a zero point, given as a number or as a tensor of one element, as a scalar tensor of dtype `t`.
absl::StatusOr<ValueId> OneNumber(Emit& e, const OpCall& call, absl::string_view name, DType t) {
  const ValueId tensor = TensorArg(call, name);
  if (tensor.valid()) {
    for (const Expr& s : e.Sizes(tensor)) {
      if (s != Expr(1)) return call.Error(absl::StrCat(name, " must have one element"));
    }
    return e.Cast(e.Reshape(tensor, {}), t);
  }
  SMELT_ASSIGN_OR_RETURN(double v, call.GetDouble(name));
  return e.Scalar(t, v);
}

// Returns the tensor to quantize: a float32, or a half type that is converted to float32.
absl::StatusOr<ValueId> FloatInput(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  const DType t = e.DTypeOf(input);
  if (OpMathType(t) != DType::kFloat32) return call.Error("the input must be float32, float16 or bfloat16");
  return e.Cast(input, DType::kFloat32);
}

absl::Status CheckQuantizedInput(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(DType t, QuantizedDType(call));
  const DType is = e.DTypeOf(call.arg(0).value);
  if (is == t) return absl::OkStatus();
  return call.Error(absl::StrCat("the input must be ", Name(t), " as the argument dtype says, not ", Name(is)));
}

// Returns the requested dtype; float32 if the argument is None.
absl::StatusOr<DType> DequantizedDType(const OpCall& call, absl::string_view name) {
  if (call.IsNone(name)) return DType::kFloat32;
  const std::optional<DType> t = call.GetDType(name);
  if (!t || !IsFloating(*t)) return call.Unsupported("a result that is not floating point");
  return *t;
}

ValueId Clamp(Emit& e, ValueId v, const QuantRange& range) {
  return e.Op("aten::clamp.Tensor", {v, range.low, range.high});
}

// quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype)
Values QuantizePerTensor(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(ValueId input, FloatInput(e, call));
  SMELT_ASSIGN_OR_RETURN(QuantRange range, RangeArg(e, call));
  SMELT_ASSIGN_OR_RETURN(ValueId scale, OneNumber(e, call, "scale", DType::kFloat64));
  SMELT_ASSIGN_OR_RETURN(ValueId zero, OneNumber(e, call, "zero_point", DType::kFloat32));
  const ValueId inverse = e.Cast(Reciprocal(e, scale), DType::kFloat32);
  return std::vector<ValueId>{e.Cast(Clamp(e, e.Add(Round(e, e.Mul(input, inverse)), zero), range), range.dtype)};
}

// dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, *, out_dtype): each step is rounded to
// the result's dtype.
Values DequantizePerTensor(Emit& e, const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckQuantizedInput(e, call));
  SMELT_ASSIGN_OR_RETURN(DType out, DequantizedDType(call, "out_dtype"));
  const DType compute = OpMathType(out);
  SMELT_ASSIGN_OR_RETURN(ValueId scale, OneNumber(e, call, "scale", compute));
  SMELT_ASSIGN_OR_RETURN(ValueId zero, OneNumber(e, call, "zero_point", compute));
  const ValueId v = e.Cast(e.Cast(call.arg(0).value, out), compute);
  const ValueId centred = e.Cast(e.Cast(e.Sub(v, zero), out), compute);
  return std::vector<ValueId>{e.Cast(e.Mul(centred, scale), out)};
}

// A tensor with its channels moved to the front, and the parameters of each channel next to it.
class Channels {
 public:
  static absl::StatusOr<Channels> Of(Emit& e, const OpCall& call, ValueId input) {
    SMELT_ASSIGN_OR_RETURN(int64_t axis, call.GetInt("axis"));
    const int rank = e.Rank(input);
    if (axis < -rank || axis >= rank) return call.Error(absl::StrCat("axis must be below ", rank));
    const ValueId scales = TensorArg(call, "scales");
    if (e.Rank(scales) < 1) return call.Error("scales must have a dim");
    Channels c;
    c.order_.resize(rank);
    std::iota(c.order_.begin(), c.order_.end(), 0);
    std::swap(c.order_[0], c.order_[WrapDim(axis, rank)]);
    c.sizes_.assign(rank, Expr(1));
    c.sizes_[0] = e.Sizes(scales)[0];
    c.scales = e.View(scales, c.sizes_);
    if (const ValueId zeros = TensorArg(call, "zero_points"); zeros.valid()) c.zeros = e.View(zeros, c.sizes_);
    return c;
  }
  // The same permutation moves there and back: it swaps two dims.
  ValueId Swap(Emit& e, ValueId v) const { return e.Permute(v, order_); }

  ValueId scales, zeros;

 private:
  std::vector<int64_t> order_;
  std::vector<Expr> sizes_;
};

// quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype)
Values QuantizePerChannel(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(ValueId input, FloatInput(e, call));
  SMELT_ASSIGN_OR_RETURN(QuantRange range, RangeArg(e, call));
  SMELT_ASSIGN_OR_RETURN(Channels c, Channels::Of(e, call, input));
  const ValueId reciprocal = Reciprocal(e, c.scales);
  const ValueId q = e.Add(Round(e, e.Mul(c.Swap(e, input), reciprocal)), c.zeros);
  return std::vector<ValueId>{e.Cast(c.Swap(e, Clamp(e, q, range)), range.dtype)};
}

// dequantize_per_channel(input, scales, zero_points?, axis, quant_min, quant_max, dtype, *, out_dtype)
Values DequantizePerChannel(Emit& e, const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckQuantizedInput(e, call));
  SMELT_RETURN_IF_ERROR(RangeArg(e, call).status());
  SMELT_ASSIGN_OR_RETURN(DType out, DequantizedDType(call, "out_dtype"));
  SMELT_ASSIGN_OR_RETURN(Channels c, Channels::Of(e, call, call.arg(0).value));
  ValueId v = c.Swap(e, call.arg(0).value);
  if (c.zeros.valid()) v = e.Sub(v, c.zeros);
  return std::vector<ValueId>{c.Swap(e, e.Cast(e.Mul(v, c.scales), out))};
}

// fake_quant_per_channel(input, scales, zero_points, axis, quant_min, quant_max)
Values FakeQuantPerChannel(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  if (e.DTypeOf(input) != DType::kFloat32) return call.Error("the input must be float32");
  SMELT_ASSIGN_OR_RETURN(int64_t low, call.GetInt("quant_min"));
  SMELT_ASSIGN_OR_RETURN(int64_t high, call.GetInt("quant_max"));
  SMELT_ASSIGN_OR_RETURN(int64_t axis, call.GetInt("axis"));
  const int rank = e.Rank(input);
  if (axis < 0 || axis >= rank) return call.Error(absl::StrCat("axis must be from 0 to ", rank - 1));
  if (e.Rank(TensorArg(call, "scales")) != 1) return call.Error("scales must have one dim");
  std::vector<Expr> sizes(rank, Expr(1));
  sizes[axis] = e.Sizes(TensorArg(call, "scales"))[0];
  const ValueId scales = e.View(e.Cast(TensorArg(call, "scales"), DType::kFloat32), sizes);
  const ValueId zeros = e.View(e.Cast(TensorArg(call, "zero_points"), DType::kInt32), sizes);
  const ValueId q = e.Add(Round(e, e.Mul(input, Reciprocal(e, scales))), zeros);
  const ValueId clamped = e.Op("aten::clamp", {q, e.Const(low), e.Const(high)});
  return std::vector<ValueId>{e.Mul(e.Sub(clamped, zeros), scales)};
}

// Each row of the last dim has a scale and a zero point.
absl::Status CheckTokens(Emit& e, const OpCall& call) {
  const std::vector<Expr>& sizes = e.Sizes(call.arg(0).value);
  Expr tokens = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) tokens = tokens * sizes[d];
  for (const char* name : {"scales", "zero_points"}) {
    Expr have = 1;
    for (const Expr& s : e.Sizes(TensorArg(call, name))) have = have * s;
    if (have != tokens) return call.Error(absl::StrCat(name, " must have one number for each token"));
  }
  return absl::OkStatus();
}

ValueId Quantized(Emit& e, ValueId v, ValueId scales, ValueId zeros, const QuantRange& range) {
  return e.Cast(Clamp(e, Round(e, e.Add(e.Mul(v, Reciprocal(e, scales)), zeros)), range), range.dtype);
}

// quantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype): the zero point is added first.
Values QuantizePerToken(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(QuantRange range, RangeArg(e, call));
  SMELT_RETURN_IF_ERROR(CheckTokens(e, call));
  return std::vector<ValueId>{
      Quantized(e, call.arg(0).value, TensorArg(call, "scales"), TensorArg(call, "zero_points"), range)};
}

// dequantize_per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype)
Values DequantizePerToken(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(DType out, DequantizedDType(call, "output_dtype"));
  const ValueId v = e.Sub(call.arg(0).value, TensorArg(call, "zero_points"));
  return std::vector<ValueId>{e.Cast(e.Mul(v, TensorArg(call, "scales")), out)};
}

// Returns [rows, columns] as [rows * columns / group_size, group_size].
absl::StatusOr<ValueId> Groups(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  SMELT_ASSIGN_OR_RETURN(int64_t size, call.GetInt("group_size"));
  if (size <= 1) return call.Error("group_size must be above 1");
  if (e.Rank(input) != 2) return call.Error("the input must have 2 dims");
  const std::optional<int64_t> columns = e.Sizes(input)[1].Constant();
  if (!columns) return call.Unsupported("groups of a dynamic number of columns");
  const std::vector<Expr>& scales = e.Sizes(TensorArg(call, "scales"));
  if (size > *columns && !scales.empty() && scales.back() == Expr(1)) size = *columns;
  if (size == 0 || *columns % size != 0) return call.Error("group_size must divide the number of columns");
  return e.Reshape(input, {e.Sizes(input)[0] * (*columns / size), Expr(size)});
}

// Returns the parameters of the groups as a column.
ValueId Column(Emit& e, ValueId v) { return e.Reshape(v, {Product(e.Sizes(v)), Expr(1)}); }

// quantize_per_channel_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size)
Values QuantizeGroups(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(QuantRange range, RangeArg(e, call));
  SMELT_ASSIGN_OR_RETURN(ValueId groups, Groups(e, call));
  AssertAll(e, e.Op("aten::logical_not", {e.Op("aten::isnan", {groups})}), "to_quant must not contain NaNs");
  const ValueId column = Column(e, TensorArg(call, "zero_points"));
  const ValueId q = Quantized(e, groups, Column(e, TensorArg(call, "scales")), column, range);
  return std::vector<ValueId>{e.Reshape(q, e.Sizes(call.arg(0).value))};
}

// dequantize_per_channel_group(input, scales, zero_points?, quant_min, quant_max, dtype, group_size, output_dtype)
Values DequantizeGroups(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(DType out, DequantizedDType(call, "output_dtype"));
  SMELT_ASSIGN_OR_RETURN(ValueId v, Groups(e, call));
  if (const ValueId zeros = TensorArg(call, "zero_points"); zeros.valid()) v = e.Sub(v, Column(e, zeros));
  v = e.Mul(v, Column(e, TensorArg(call, "scales")));
  return std::vector<ValueId>{e.Cast(e.Reshape(v, e.Sizes(call.arg(0).value)), out)};
}

// The blocks of torchao's operators, which have a scale and a zero point each: the dims of the input, some of them cut in
// two, the dims of that shape within blocks, and its sizes with those dims of size 1.
struct Blocks {
  std::vector<Expr> split, reduced;
  std::vector<int64_t> within;
  std::vector<Expr> counts;  // the number of blocks along each dim of the input

  static absl::StatusOr<Blocks> Of(const OpCall& call, const std::vector<Expr>& sizes) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> blocks, call.GetInts("block_size"));
    if (blocks.size() != sizes.size())
      return call.Error(absl::StrCat("block_size has ", blocks.size(), " sizes for ", sizes.size(), " dims"));
    Blocks b;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (blocks[d] < 1) return call.Error("block_size must be positive");
      const bool whole = sizes[d] == Expr(blocks[d]) || blocks[d] == 1;
      if (!whole) {
        const std::optional<int64_t> size = sizes[d].Constant();
        if (!size) return call.Unsupported("blocks of a dynamic number of elements");
        if (*size % blocks[d] != 0)
          return call.Error(absl::StrCat("blocks of ", blocks[d], " do not divide a dim of size ", *size));
        b.split.push_back(Expr(*size / blocks[d]));
        b.reduced.push_back(b.split.back());
      }
      b.counts.push_back(!whole ? b.split.back() : blocks[d] == 1 ? sizes[d] : Expr(1));
      if (blocks[d] != 1) b.within.push_back(static_cast<int64_t>(b.split.size()));
      b.split.push_back(whole ? sizes[d] : Expr(blocks[d]));
      b.reduced.push_back(blocks[d] == 1 ? sizes[d] : Expr(1));
    }
    return b;
  }
};

// torchao::dequantize_affine(input, block_size, scale, zero_point?, input_dtype, quant_min?, quant_max?, output_dtype)
Values DequantizeAffine(Emit& e, const OpCall& call) {
  SMELT_ASSIGN_OR_RETURN(DType out, DequantizedDType(call, "output_dtype"));
  const ValueId input = call.arg(0).value, scale = TensorArg(call, "scale"), zero = TensorArg(call, "zero_point");
  const std::optional<DType> says = call.GetDType("input_dtype");
  if (!IsIntegral(e.DTypeOf(input))) return call.Unsupported("an input that is not of integers");
  // torchao's dtypes of fewer bits are not PyTorch's: their elements are bytes.
  if (says && *says != e.DTypeOf(input))
    return call.Error(absl::StrCat("the input must be ", Name(*says), ", as its dtype says"));
  const std::vector<Expr> sizes = e.Sizes(input);
  SMELT_ASSIGN_OR_RETURN(const Blocks blocks, Blocks::Of(call, sizes));
  ValueId v = e.Cast(e.View(input, blocks.split), out);
  if (zero.valid()) v = e.Sub(v, e.Cast(e.View(zero, blocks.reduced), out));
  v = e.Mul(v, e.View(scale, blocks.reduced));
  return std::vector<ValueId>{e.Cast(e.View(v, sizes), out)};
}

// Returns quant_min and quant_max of torchao's operators: by default those of the dtype.
absl::StatusOr<std::pair<int64_t, int64_t>> AffineRange(const OpCall& call, absl::string_view dtype) {
  const std::optional<DType> t = call.GetDType(dtype);
  if (t != DType::kUInt8 && t != DType::kInt8 && t != DType::kInt16 && t != DType::kInt32)
    return call.Unsupported("quantized numbers that are not uint8, int8, int16 or int32");
  auto [low, high] = Bounds(*t);
  if (!call.IsNone("quant_min")) {
    SMELT_ASSIGN_OR_RETURN(const int64_t given, call.GetInt("quant_min"));
    if (given < low) return call.Error("quant_min must be in the range of the dtype");
    low = given;
  }
  if (!call.IsNone("quant_max")) {
    SMELT_ASSIGN_OR_RETURN(const int64_t given, call.GetInt("quant_max"));
    if (given > high) return call.Error("quant_max must be in the range of the dtype");
    high = given;
  }
  if (low >= high) return call.Error("quant_min must be below quant_max");
  return std::pair(low, high);
}

absl::Status CheckAffineInput(Emit& e, const OpCall& call) {
  return OpMathType(e.DTypeOf(call.arg(0).value)) == DType::kFloat32
             ? absl::OkStatus()
             : call.Error("the input must be float32, float16 or bfloat16");
}

// torchao::quantize_affine(input, block_size, scale, zero_point?, output_dtype, quant_min?, quant_max?)
Values QuantizeAffine(Emit& e, const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckAffineInput(e, call));
  const ValueId input = call.arg(0).value, scale = TensorArg(call, "scale"), zero = TensorArg(call, "zero_point");
  if (!zero.valid()) return call.Error("a zero point is needed");
  SMELT_ASSIGN_OR_RETURN(const auto range, AffineRange(call, "output_dtype"));
  const std::vector<Expr> sizes = e.Sizes(input);
  SMELT_ASSIGN_OR_RETURN(const Blocks blocks, Blocks::Of(call, sizes));
  const ValueId inverse = Reciprocal(e, e.View(scale, blocks.reduced));
  ValueId v = Round(e, e.Mul(e.View(input, blocks.split), inverse));
  v = e.Add(v, e.View(zero, blocks.reduced));
  const ValueId clamped = e.Op("aten::clamp", {v, e.Const(range.first), e.Const(range.second)});
  return std::vector<ValueId>{e.Cast(e.View(clamped, sizes), *call.GetDType("output_dtype"))};
}

// torchao::choose_qparams_affine(input, mapping_type, block_size, target_dtype, quant_min?, quant_max?, eps?,
// scale_dtype?, zero_point_dtype?, keepdim): a scale and a zero point of each block.
Values ChooseAffineParams(Emit& e, const OpCall& call) {
  if (!call.arg(0).IsTensor()) return call.Error("an input is needed");
  SMELT_RETURN_IF_ERROR(CheckAffineInput(e, call));
  const ValueId input = call.arg(0).value;
  const DType t = e.DTypeOf(input);
  SMELT_ASSIGN_OR_RETURN(const std::string mapping, call.GetString("mapping_type"));
  SMELT_ASSIGN_OR_RETURN(const auto range, AffineRange(call, "target_dtype"));
  const auto [low, high] = range;
  SMELT_ASSIGN_OR_RETURN(const bool keepdim, call.GetBoolOr("keepdim", false));
  double eps = t == DType::kFloat16 ? 0x1p-14 : 0x1p-126;  // the smallest normal number
  if (!call.IsNone("eps")) {
    SMELT_ASSIGN_OR_RETURN(eps, call.GetDouble("eps"));
  }
  SMELT_ASSIGN_OR_RETURN(const Blocks blocks, Blocks::Of(call, e.Sizes(input)));
  if (blocks.within.empty()) return call.Unsupported("blocks of one element");
  const ValueId split = e.View(input, blocks.split);
  ValueId least = e.Op("aten::amin", {split, e.Dims(blocks.within), e.Const(true)});
  ValueId most = e.Amax(split, blocks.within, true);
  if (!e.ok()) return e.status();
  least = e.Op("aten::minimum", {least, e.Fill(least, 0)});
  most = e.Op("aten::maximum", {most, e.Fill(most, 0)});
  const auto at_least_eps = [&](ValueId scale) { return e.Op("aten::clamp", {scale, e.Const(eps), e.None()}); };
  ValueId scale, zero;
  if (mapping == "ASYMMETRIC") {
    scale = at_least_eps(e.DivN(e.Sub(most, least), static_cast<double>(high - low)));
    zero = e.Op("aten::rsub.Scalar", {Round(e, e.Div(least, scale)), e.Const(low), e.Const(int64_t{1})});
    zero = e.Op("aten::clamp", {zero, e.Const(low), e.Const(high)});
  } else {
    if (mapping == "SYMMETRIC") {
      scale = e.DivN(e.Op("aten::maximum", {e.Neg(least), most}), static_cast<double>(high - low) / 2);
    } else if (mapping == "SYMMETRIC_NO_CLIPPING_ERR") {
      const ValueId down = e.DivN(least, static_cast<double>(low)), up = e.DivN(most, static_cast<double>(high));
      scale = e.Where(e.Op("aten::gt.Tensor", {down, up}), down, up);
    } else {
      return call.Error(absl::StrCat("there is no mapping type ", mapping));
    }
    scale = at_least_eps(scale);
    zero = e.Full(t, blocks.reduced, static_cast<double>((high + low + 1) / 2));
  }
  std::vector<Expr> sizes = blocks.counts;
  if (!keepdim) {  // the dims within blocks are gone
    sizes.clear();
    for (size_t d = 0; d < blocks.split.size(); ++d) {
      if (!absl::c_linear_search(blocks.within, static_cast<int64_t>(d))) sizes.push_back(blocks.split[d]);
    }
  }
  const auto result = [&](ValueId v, absl::string_view dtype) {
    return e.Cast(e.View(v, sizes), call.GetDType(dtype).value_or(t));
  };
  return std::vector<ValueId>{result(scale, "scale_dtype"), result(zero, "zero_point_dtype")};
}

// choose_qparams.tensor and choose_qparams_symmetric.tensor(input, quant_min, quant_max, eps, dtype): a float64 scale
// and an int64 zero point, of one element each.
Values ChooseParams(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  if (OpMathType(e.DTypeOf(input)) != DType::kFloat32)
    return call.Error("the input must be float32, float16 or bfloat16");
  SMELT_ASSIGN_OR_RETURN(DType dtype, QuantizedDType(call));
  SMELT_ASSIGN_OR_RETURN(int64_t low, call.GetInt("quant_min"));
  SMELT_ASSIGN_OR_RETURN(int64_t high, call.GetInt("quant_max"));
  SMELT_ASSIGN_OR_RETURN(double eps, call.GetDouble("eps"));
  if (low > 0 || high < 0 || low >= high)
    return call.Error("quant_min must be below quant_max, and 0 between them or one of them");
  const std::vector<ValueId> ends = e.Multi("aten::aminmax", {input, e.None(), e.Const(false)}, 2);
  if (!e.ok()) return e.status();
  const ValueId least = e.Op("aten::minimum", {ends[0], e.Fill(ends[0], 0)});
  ValueId most = e.Op("aten::maximum", {ends[1], e.Fill(ends[1], 0)});
  const ValueId smallest = e.Full(DType::kFloat32, {Expr(1)}, eps);
  if (absl::StrContains(call.op().name(), "symmetric")) {
    most = e.Op("aten::maximum", {e.Neg(least), most});
    const ValueId scale = e.Op("aten::maximum", {e.DivN(most, static_cast<double>(high - low) / 2), smallest});
    const ValueId zero = e.Full(DType::kInt64, {Expr(1)}, dtype == DType::kUInt8 ? 128 : 0);
    return std::vector<ValueId>{e.Cast(scale, DType::kFloat64), zero};
  }
  const ValueId scale = e.Op("aten::maximum", {e.DivN(e.Sub(most, least), static_cast<double>(high - low)), smallest});
  const ValueId steps = e.Cast(Round(e, e.Div(least, scale)), DType::kInt32);
  const ValueId zero = e.Op("aten::rsub.Scalar", {steps, e.Const(low), e.Const(int64_t{1})});
  return std::vector<ValueId>{e.Cast(scale, DType::kFloat64),
                              e.Cast(e.Op("aten::clamp", {zero, e.Const(low), e.Const(high)}), DType::kInt64)};
}

// choose_qparams_per_token(input, dtype): a scale of each row, and a zero.
Values ChooseTokenParams(Emit& e, const OpCall& call) {
  const ValueId input = call.arg(0).value;
  if (call.GetDType("dtype") != DType::kInt8) return call.Error("the dtype must be int8");
  ValueId scales = e.Amax(e.Abs(input), {-1}, true);
  if (e.ok() && e.DTypeOf(scales) == DType::kFloat16) scales = e.Cast(scales, DType::kFloat32);
  scales = e.DivN(e.Op("aten::clamp", {scales, e.Const(1e-5), e.None()}), 127);
  if (!e.ok()) return e.status();
  return std::vector<ValueId>{scales, e.Full(e.DTypeOf(scales), e.Sizes(scales), 0)};
}

// choose_qparams_per_token_asymmetric(input, dtype): for int8, regardless of dtype.
Values ChooseAsymmetricTokenParams(Emit& e, const OpCall& call) {
  constexpr int64_t kLow = -128, kHigh = 127;
  const ValueId input = call.arg(0).value;
  ValueId least = e.Op("aten::amin", {input, e.Dims({-1}), e.Const(true)}), most = e.Amax(input, {-1}, true);
  if (!e.ok()) return e.status();
  least = e.Op("aten::minimum", {least, e.Full(e.DTypeOf(least), e.Sizes(least), 0)});
  most = e.Op("aten::maximum", {most, e.Full(e.DTypeOf(most), e.Sizes(most), 0)});
  const double eps = std::numeric_limits<float>::epsilon();
  const ValueId scale = e.Op("aten::clamp", {e.DivN(e.Sub(most, least), kHigh - kLow), e.Const(eps), e.None()});
  const ValueId low = e.Div(least, scale), high = e.Div(most, scale);
  const auto plus = [&](ValueId v, int64_t n) {
    return e.Op("aten::add.Scalar", {v, e.Const(n), e.Const(int64_t{1})});
  };
  const auto minus = [&](int64_t n, ValueId v) {
    return e.Op("aten::rsub.Scalar", {v, e.Const(n), e.Const(int64_t{1})});
  };
  const ValueId second = plus(high, kHigh);
  const ValueId above = e.Op("aten::gt.Scalar", {e.Add(plus(low, kLow), second), e.Const(int64_t{0})});
  const ValueId third = minus(kHigh, high);
  const ValueId zero = e.Where(above, minus(kLow, low), third);
  const ValueId whole = Round(e, e.Op("aten::clamp", {zero, e.Const(kLow), e.Const(kHigh)}));
  return std::vector<ValueId>{e.Cast(scale, DType::kFloat64), e.Cast(whole, DType::kInt64)};
}

// convert_element_type.no_fuse(input, dtype)
Values ConvertElementType(Emit& e, const OpCall& call) {
  return std::vector<ValueId>{e.Op("prims::convert_element_type", {call.arg(0).value, ValueOf(e, call.arg(1))})};
}

}  // namespace

void AddQuantizationRules(DecompositionTable& t) {
  for (const char* name : {"fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_cachemask",
                           "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                           "fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask"}) {
    t[absl::StrCat("aten::", name)] = FakeQuantize;
  }
  const auto add = [&](absl::string_view name, DecompositionRule rule) {
    t[absl::StrCat("quantized_decomposed::", name)] = rule;
  };
  add("quantize_per_tensor", QuantizePerTensor);
  add("dequantize_per_tensor", DequantizePerTensor);
  add("quantize_per_channel", QuantizePerChannel);
  add("dequantize_per_channel", DequantizePerChannel);
  add("fake_quant_per_channel", FakeQuantPerChannel);
  add("quantize_per_token", QuantizePerToken);
  add("dequantize_per_token", DequantizePerToken);
  add("quantize_per_channel_group", QuantizeGroups);
  add("dequantize_per_channel_group", DequantizeGroups);
  t["torchao::dequantize_affine"] = DequantizeAffine;
  t["torchao::quantize_affine"] = QuantizeAffine;
  t["torchao::choose_qparams_affine"] = ChooseAffineParams;
  add("choose_qparams", ChooseParams);
  add("choose_qparams_symmetric", ChooseParams);
  add("choose_qparams_per_token", ChooseTokenParams);
  add("choose_qparams_per_token_asymmetric", ChooseAsymmetricTokenParams);
  add("_choose_qparams_per_token_asymmetric_impl", ChooseAsymmetricTokenParams);
  add("convert_element_type.no_fuse", ConvertElementType);
}

}  // namespace smelt
