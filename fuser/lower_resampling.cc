#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {
namespace {

ValueId ImageOf(const OpCall& call) {
  const OpArg* a = call.Find("self");
  if (a == nullptr) a = call.Find("input");
  return a == nullptr ? ValueId() : a->value;
}

}  // namespace

absl::StatusOr<std::optional<double>> Lowering::ScaleArg(NodeId n, size_t k, size_t spatial) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  if (const OpArg* f = call->Find("scale_factors"); f != nullptr) {
    if (f->IsNone()) return std::nullopt;
    if (f->kind == OpArg::Kind::kFloatList && f->known && k < f->floats.size()) return f->floats[k];
    return g_.Unsupported(n, "scale factors that are not constants");
  }
  static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
  const char* name = spatial == 1 ? "scales" : kNames[3 - spatial + k];
  if (call->IsNone(name)) return std::nullopt;
  SMELT_ASSIGN_OR_RETURN(double v, call->GetDouble(name));
  return v;
}

absl::StatusOr<int> Lowering::Ratio(NodeId n, DType c, const Expr& in, const Expr& out, size_t k, size_t spatial) {
  SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(n, k, spatial));
  if (scale && *scale > 0) {
    LoweredKernel::Scalar s;
    s.is_constant = true;
    s.constant = 1.0 / *scale;
    return b_->ScalarParam(c, std::move(s));
  }
  const int cast = b_->Cast(Size(out), c);
  return b_->Op(ScalarOp::kDiv, c, b_->Cast(Size(in), c), cast);
}

std::optional<int> Lowering::GoesBySizes(NodeId n, ValueId image) {
  const TensorType& t = g_.value(image).type.tensor();
  const size_t spatial = g_.SpatialRank(n), lead = t.sizes->size() - spatial;
  if (spatial == 1 || lead != 2) return std::nullopt;
  const Expr &channels = (*t.sizes)[1], channel = t.strides ? (*t.strides)[1] : Expr(0);
  if (channel == Expr(1) && (*t.strides).back() == channels && g_.graph().symbols.LessOrEqual(4, channels) == true) {
    return -1;
  }
  if (spatial == 3) return std::nullopt;
  const std::vector<Expr>& out = g_.Sizes(g_.Out(n));
  const Expr both = out[2] + out[3], few = 128;
  if (const std::optional<bool> is_small = g_.graph().symbols.LessOrEqual(both, few)) {
    return *is_small ? std::optional<int>(-1) : std::nullopt;
  }
  const int fourth = Size(few);
  return b_->Op(ScalarOp::kLe, DType::kBool, Size(both), fourth);
}

absl::StatusOr<int> Lowering::EvalUpsampleNearest(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const ValueId self = ImageOf(*call);
  const std::vector<Expr>& sizes = g_.Sizes(self);
  const size_t spatial = g_.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const bool exact = absl::StrContains(g_.node(n).op.name(), "exact");
  Index at = index;
  for (size_t k = 0; k < spatial; ++k) {
    const size_t d = lead + k;
    const Expr in = sizes[d], out = g_.Sizes(g_.Out(n))[d];
    SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(n, k, spatial));
    const std::optional<int> by_sizes = exact || !scale ? std::nullopt : GoesBySizes(n, self);
    const Expr times = FloorDiv(out, in);
    const bool whole = times * in == out && times.IsConstant();
    const bool is_twice_or_equal = times == Expr(1) || times == Expr(2);
    if (whole &&
        (!scale || *scale == static_cast<double>(*times.Constant()) || (by_sizes == -1 && is_twice_or_equal))) {
      if (times == Expr(1) && !exact) continue;
      SMELT_ASSIGN_OR_RETURN(Division along, Divide(index[d], times));
      at[d] = along.quotient;
      continue;
    }
    const DType c = DType::kFloat32;
    SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(n, c, in, out, k, spatial));
    int x = b_->Cast(b_->IndexValue(index[d]), c);
    if (exact) x = b_->Op(ScalarOp::kAdd, c, x, b_->Const(c, 0.5));
    x = b_->Op(ScalarOp::kFloor, c, b_->Op(ScalarOp::kMul, c, x, ratio));
    int place = I64(ScalarOp::kMin, b_->Cast(x, DType::kInt64), Size(in - 1));
    for (int64_t factor : {2, 1}) {
      if (!by_sizes || g_.graph().symbols.Equal(in * factor, out) == false) continue;
      const int i = b_->IndexValue(index[d]);
      const int is_factor = And(*by_sizes, IsEqual(in * factor, out));
      place = Select(is_factor, factor == 1 ? i : I64(ScalarOp::kShr, i, b_->ConstInt(DType::kInt64, 1)), place);
    }
    at[d] = b_->Dynamic(place);
  }
  return Eval(self, at, guard);
}

int Lowering::IsEqual(const Expr& a, const Expr& b) {
  if (g_.graph().symbols.Equal(a, b) == true) return -1;
  const int size = Size(b);
  return b_->Op(ScalarOp::kEq, DType::kBool, Size(a), size);
}

// A dim with as many elements as before is copied, whatever factor the call names.
absl::StatusOr<int> Lowering::EvalUpsampleLinear(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const ValueId self = ImageOf(*call);
  const std::vector<Expr>& sizes = g_.Sizes(self);
  const size_t spatial = g_.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const DType t = g_.Dt(g_.Out(n));
  if (!IsFloating(t)) return g_.Unsupported(n, "interpolation of integers");
  const DType c = t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  SMELT_ASSIGN_OR_RETURN(bool corners, call->GetBool("align_corners"));
  std::vector<std::array<int, 2>> place(spatial), weight(spatial);
  for (size_t k = 0; k < spatial; ++k) {
    const size_t d = lead + k;
    const Expr in = sizes[d], out = g_.Sizes(g_.Out(n))[d];
    const std::optional<bool> is_same = g_.graph().symbols.Equal(in, out);
    if (is_same == true) {
      place[k] = {b_->IndexValue(index[d]), b_->IndexValue(index[d])};
      weight[k] = {b_->Const(c, 1), b_->Const(c, 0)};
      continue;
    }
    const int i = b_->Cast(b_->IndexValue(index[d]), c);
    int x;
    if (corners) {
      if (out == Expr(1)) {
        x = b_->Const(c, 0);
      } else {
        const int cast = b_->Cast(Size(Max(out - 1, 1)), c);
        x = b_->Op(ScalarOp::kMul, c, b_->Op(ScalarOp::kDiv, c, b_->Cast(Size(in - 1), c), cast), i);
      }
    } else {
      SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(n, c, in, out, k, spatial));
      // It is rounded once, as in PyTorch's kernel: the rest of a large place is the weight.
      const int center = b_->Op(ScalarOp::kAdd, c, i, b_->Const(c, 0.5));
      x = b_->Op(ScalarOp::kFma, c, ratio, center, b_->Const(c, -0.5));
      x = b_->Op(ScalarOp::kMax, c, x, b_->Const(c, 0));
    }
    int low = I64(ScalarOp::kMin, b_->Cast(x, DType::kInt64), Size(in - 1));
    int high = I64(ScalarOp::kMin, I64(ScalarOp::kAdd, low, b_->ConstInt(DType::kInt64, 1)), Size(in - 1));
    int w = b_->Op(ScalarOp::kSub, c, x, b_->Cast(low, c));
    const int constant = b_->Const(c, 1);
    w = b_->Op(ScalarOp::kMin, c, b_->Op(ScalarOp::kMax, c, w, b_->Const(c, 0)), constant);
    if (!is_same) {
      const int copied = IsEqual(in, out);
      low = Select(copied, b_->IndexValue(index[d]), low);
      high = Select(copied, low, high);
      w = Select(copied, b_->Const(c, 0), w);
    }
    place[k] = {low, high};
    weight[k] = {b_->Op(ScalarOp::kSub, c, b_->Const(c, 1), w), w};
  }
  std::vector<int> values;
  for (size_t corner = 0; corner < (size_t{1} << spatial); ++corner) {
    Index at = index;
    for (size_t k = 0; k < spatial; ++k) at[lead + k] = b_->Dynamic(place[k][corner >> (spatial - 1 - k) & 1]);
    SMELT_ASSIGN_OR_RETURN(int v, Eval(self, at, guard));
    values.push_back(Convert(v, c));
  }
  for (size_t k = spatial; k-- > 0;) {
    std::vector<int> next;
    for (size_t j = 0; j < values.size(); j += 2) {
      const int fourth = b_->Op(ScalarOp::kMul, c, weight[k][1], values[j + 1]);
      next.push_back(b_->Op(ScalarOp::kAdd, c, b_->Op(ScalarOp::kMul, c, weight[k][0], values[j]), fourth));
    }
    values = std::move(next);
  }
  return Convert(values[0], t);
}

}  // namespace smelt::kernel
