#include "smelt/fuser/lower_resampling.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt::kernel {
namespace {

ValueId ImageOf(const OpCall& call) {
  const OpArg* a = call.Find("self");
  if (a == nullptr) a = call.Find("input");
  return a == nullptr ? ValueId() : a->value;
}

absl::StatusOr<std::optional<double>> ScaleArg(Lowering& l, NodeId n, size_t k, size_t spatial) {
  Group& group = l.group();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  if (const OpArg* f = call->Find("scale_factors"); f != nullptr) {
    if (f->IsNone()) return std::nullopt;
    if (f->kind == OpArg::Kind::kFloatList && f->known && k < f->floats.size()) return f->floats[k];
    return group.Unsupported(n, "scale factors that are not constants");
  }
  static const char* const kNames[] = {"scales_d", "scales_h", "scales_w"};
  const char* name = spatial == 1 ? "scales" : kNames[3 - spatial + k];
  if (call->IsNone(name)) return std::nullopt;
  SMELT_ASSIGN_OR_RETURN(double v, call->GetDouble(name));
  return v;
}

absl::StatusOr<int> Ratio(Lowering& l, NodeId n, DType c, const Expr& in, const Expr& out, size_t k, size_t spatial) {
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(l, n, k, spatial));
  if (scale && *scale > 0) {
    LoweredKernel::Scalar s;
    s.is_constant = true;
    s.constant = 1.0 / *scale;
    return builder.ScalarParam(c, std::move(s));
  }
  const int cast = builder.Cast(l.Size(out), c);
  return builder.Op(ScalarOp::kDiv, c, builder.Cast(l.Size(in), c), cast);
}

int IsEqual(Lowering& l, const Expr& a, const Expr& b) {
  Group& group = l.group();
  Builder& builder = l.builder();
  if (group.graph().symbols.Equal(a, b) == true) return -1;
  const int size = l.Size(b);
  return builder.Op(ScalarOp::kEq, DType::kBool, l.Size(a), size);
}

std::optional<int> GoesBySizes(Lowering& l, NodeId n, ValueId image) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const TensorType& t = group.value(image).type.tensor();
  const size_t spatial = group.SpatialRank(n), lead = t.sizes->size() - spatial;
  if (spatial == 1 || lead != 2) return std::nullopt;
  const Expr &channels = (*t.sizes)[1], channel = t.strides ? (*t.strides)[1] : Expr(0);
  if (channel == Expr(1) && (*t.strides).back() == channels && group.graph().symbols.LessOrEqual(4, channels) == true) {
    return -1;
  }
  if (spatial == 3) return std::nullopt;
  const std::vector<Expr>& out = group.Sizes(group.Out(n));
  const Expr both = out[2] + out[3], few = 128;
  if (const std::optional<bool> is_small = group.graph().symbols.LessOrEqual(both, few)) {
    return *is_small ? std::optional<int>(-1) : std::nullopt;
  }
  const int fourth = l.Size(few);
  return builder.Op(ScalarOp::kLe, DType::kBool, l.Size(both), fourth);
}

}  // namespace

absl::StatusOr<int> LowerUpsampleNearest(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const ValueId self = ImageOf(*call);
  const std::vector<Expr>& sizes = group.Sizes(self);
  const size_t spatial = group.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const bool exact = absl::StrContains(group.node(n).op.name(), "exact");
  Index at = index;
  for (size_t k = 0; k < spatial; ++k) {
    const size_t d = lead + k;
    const Expr in = sizes[d], out = group.Sizes(group.Out(n))[d];
    SMELT_ASSIGN_OR_RETURN(std::optional<double> scale, ScaleArg(l, n, k, spatial));
    const std::optional<int> by_sizes = exact || !scale ? std::nullopt : GoesBySizes(l, n, self);
    const Expr times = FloorDiv(out, in);
    const bool whole = times * in == out && times.IsConstant();
    const bool is_twice_or_equal = times == Expr(1) || times == Expr(2);
    if (whole &&
        (!scale || *scale == static_cast<double>(*times.Constant()) || (by_sizes == -1 && is_twice_or_equal))) {
      if (times == Expr(1) && !exact) continue;
      SMELT_ASSIGN_OR_RETURN(Lowering::Division along, l.Divide(index[d], times));
      at[d] = along.quotient;
      continue;
    }
    const DType c = DType::kFloat32;
    SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(l, n, c, in, out, k, spatial));
    int x = builder.Cast(builder.IndexValue(index[d]), c);
    if (exact) x = builder.Op(ScalarOp::kAdd, c, x, builder.Const(c, 0.5));
    x = builder.Op(ScalarOp::kFloor, c, builder.Op(ScalarOp::kMul, c, x, ratio));
    int place = l.I64(ScalarOp::kMin, builder.Cast(x, DType::kInt64), l.Size(in - 1));
    for (int64_t factor : {2, 1}) {
      if (!by_sizes || group.graph().symbols.Equal(in * factor, out) == false) continue;
      const int i = builder.IndexValue(index[d]);
      const int is_factor = l.And(*by_sizes, IsEqual(l, in * factor, out));
      place =
          l.Select(is_factor, factor == 1 ? i : l.I64(ScalarOp::kShr, i, builder.ConstInt(DType::kInt64, 1)), place);
    }
    at[d] = builder.Dynamic(place);
  }
  return l.Eval(self, at, guard);
}

// A dim with as many elements as before is copied, whatever factor the call names.
absl::StatusOr<int> LowerUpsampleLinear(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const ValueId self = ImageOf(*call);
  const std::vector<Expr>& sizes = group.Sizes(self);
  const size_t spatial = group.SpatialRank(n);
  const size_t lead = sizes.size() - spatial;
  const DType t = group.Dt(group.Out(n));
  if (!IsFloating(t)) return group.Unsupported(n, "interpolation of integers");
  const DType c = t == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  SMELT_ASSIGN_OR_RETURN(bool corners, call->GetBool("align_corners"));
  std::vector<std::array<int, 2>> place(spatial), weight(spatial);
  for (size_t k = 0; k < spatial; ++k) {
    const size_t d = lead + k;
    const Expr in = sizes[d], out = group.Sizes(group.Out(n))[d];
    const std::optional<bool> is_same = group.graph().symbols.Equal(in, out);
    if (is_same == true) {
      place[k] = {builder.IndexValue(index[d]), builder.IndexValue(index[d])};
      weight[k] = {builder.Const(c, 1), builder.Const(c, 0)};
      continue;
    }
    const int i = builder.Cast(builder.IndexValue(index[d]), c);
    int x;
    if (corners) {
      if (out == Expr(1)) {
        x = builder.Const(c, 0);
      } else {
        const int cast = builder.Cast(l.Size(Max(out - 1, 1)), c);
        x = builder.Op(ScalarOp::kMul, c, builder.Op(ScalarOp::kDiv, c, builder.Cast(l.Size(in - 1), c), cast), i);
      }
    } else {
      SMELT_ASSIGN_OR_RETURN(int ratio, Ratio(l, n, c, in, out, k, spatial));
      // It is rounded once, as in PyTorch's kernel: the rest of a large place is the weight.
      const int center = builder.Op(ScalarOp::kAdd, c, i, builder.Const(c, 0.5));
      x = builder.Op(ScalarOp::kFma, c, ratio, center, builder.Const(c, -0.5));
      x = builder.Op(ScalarOp::kMax, c, x, builder.Const(c, 0));
    }
    int low = l.I64(ScalarOp::kMin, builder.Cast(x, DType::kInt64), l.Size(in - 1));
    int high = l.I64(ScalarOp::kMin, l.I64(ScalarOp::kAdd, low, builder.ConstInt(DType::kInt64, 1)), l.Size(in - 1));
    int w = builder.Op(ScalarOp::kSub, c, x, builder.Cast(low, c));
    const int constant = builder.Const(c, 1);
    w = builder.Op(ScalarOp::kMin, c, builder.Op(ScalarOp::kMax, c, w, builder.Const(c, 0)), constant);
    if (!is_same) {
      const int copied = IsEqual(l, in, out);
      low = l.Select(copied, builder.IndexValue(index[d]), low);
      high = l.Select(copied, low, high);
      w = l.Select(copied, builder.Const(c, 0), w);
    }
    place[k] = {low, high};
    weight[k] = {builder.Op(ScalarOp::kSub, c, builder.Const(c, 1), w), w};
  }
  std::vector<int> values;
  for (size_t corner = 0; corner < (size_t{1} << spatial); ++corner) {
    Index at = index;
    for (size_t k = 0; k < spatial; ++k) at[lead + k] = builder.Dynamic(place[k][corner >> (spatial - 1 - k) & 1]);
    SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, at, guard));
    values.push_back(l.Convert(v, c));
  }
  for (size_t k = spatial; k-- > 0;) {
    std::vector<int> next;
    for (size_t j = 0; j < values.size(); j += 2) {
      const int fourth = builder.Op(ScalarOp::kMul, c, weight[k][1], values[j + 1]);
      next.push_back(builder.Op(ScalarOp::kAdd, c, builder.Op(ScalarOp::kMul, c, weight[k][0], values[j]), fourth));
    }
    values = std::move(next);
  }
  return l.Convert(values[0], t);
}

}  // namespace smelt::kernel
