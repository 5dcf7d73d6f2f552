#include "smelt/fuser/lower_operators.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_indexing.h"
#include "smelt/fuser/lower_reductions.h"
#include "smelt/fuser/lower_resampling.h"
#include "smelt/fuser/lower_views.h"
#include "smelt/fuser/lower_windows.h"

namespace smelt::kernel {
namespace {

absl::StatusOr<std::vector<int>> One(absl::StatusOr<int> v) {
  if (!v.ok()) return v.status();
  return std::vector<int>{*v};
}

absl::StatusOr<int> LowerFill(Lowering& l, NodeId n) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const Node& node = group.node(n);
  const DType t = group.Dt(group.Out(n));
  if (node.op == op::kSmeltFull) {
    LoweredKernel::Scalar s;
    s.is_constant = true;
    const Attribute* a = node.FindAttribute("value");
    if (const auto* d = a == nullptr ? nullptr : std::get_if<double>(a)) {
      s.constant = *d;
      s.int_constant = static_cast<int64_t>(*d);
    } else if (const auto* i = a == nullptr ? nullptr : std::get_if<int64_t>(a)) {
      s.constant = static_cast<double>(*i);
      s.int_constant = *i;
    }
    return builder.ScalarParam(t, std::move(s));
  }
  const std::string& name = node.op.name();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  for (const char* argument : {"fill_value", "s"}) {
    const OpArg* a = call->Find(argument);
    if (a == nullptr || a->IsNone()) continue;
    if (a->IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(int v, l.Eval(a->value, {}, -1));
      return l.Convert(v, t);
    }
    const DType own = a->kind == OpArg::Kind::kFloat  ? DType::kFloat64
                      : a->kind == OpArg::Kind::kBool ? DType::kBool
                                                      : DType::kInt64;
    if (a->known) return l.ScalarArg(n, *a, t);
    SMELT_ASSIGN_OR_RETURN(int v, l.ScalarArg(n, *a, own));
    return l.Convert(v, t);
  }
  LoweredKernel::Scalar s;
  s.is_constant = true;
  s.int_constant = absl::EndsWith(name, "ones") || absl::EndsWith(name, "ones_like");
  s.constant = static_cast<double>(s.int_constant);
  return builder.ScalarParam(t, std::move(s));
}

absl::StatusOr<int> LowerArange(Lowering& l, NodeId n, const Index& index) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const DType t = group.Dt(group.Out(n));
  const DType c = IsFloating(t) ? DType::kFloat64 : DType::kInt64;
  const OpArg* start = call->Find("start");
  const OpArg* step = call->Find("step");
  int v = builder.IndexValue(index[0]);
  if (c == DType::kFloat64) v = builder.Cast(v, c);
  const bool unit = step == nullptr || step->IsNone() || (step->known && step->number == 1);
  const bool from_zero = start == nullptr || start->IsNone() ||
                         (start->known && start->kind == OpArg::Kind::kInt && start->expr == Expr(0));
  if (!unit) {
    SMELT_ASSIGN_OR_RETURN(int s, l.ScalarArg(n, *step, c));
    v = builder.Op(ScalarOp::kMul, c, v, s);
  }
  if (!from_zero) {
    SMELT_ASSIGN_OR_RETURN(int s, l.ScalarArg(n, *start, c));
    v = builder.Op(ScalarOp::kAdd, c, s, v);
  }
  return l.Convert(v, t);
}

absl::StatusOr<int> LowerLinspace(Lowering& l, NodeId n, const Index& index) {
  Group& group = l.group();
  Builder& builder = l.builder();
  if (!group.node(n).op.overload().empty()) return group.Unsupported(n, "has no kernel");
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const DType t = group.Dt(group.Out(n));
  const DType c = t == DType::kFloat64 || !IsFloating(t) ? DType::kFloat64 : DType::kFloat32;
  const Expr steps = group.Sizes(group.Out(n))[0];
  // The bounds of integers are integers.
  const DType of_ends = IsFloating(t) ? c : t;
  SMELT_ASSIGN_OR_RETURN(int start, l.ScalarArg(n, *call->Find("start"), of_ends));
  SMELT_ASSIGN_OR_RETURN(int end, l.ScalarArg(n, *call->Find("end"), of_ends));
  start = builder.Cast(start, c);
  end = builder.Cast(end, c);
  if (steps == Expr(1)) return l.Convert(start, t);
  const int i = builder.IndexValue(index[0]);
  // Numbers of half precision are rounded after each step, as by PyTorch.
  const auto number = [&](int v) { return builder.Cast(IsHalf(t) ? builder.Cast(v, t) : v, c); };
  const auto op = [&](ScalarOp o, int x, int y) { return number(builder.Op(o, c, x, y)); };
  start = number(start);
  end = number(end);
  const int range = op(ScalarOp::kSub, end, start);
  const int step = op(ScalarOp::kDiv, range, number(l.Size(steps - 1)));
  // Counted from the nearer end, as PyTorch does.
  const int low = op(ScalarOp::kAdd, start, op(ScalarOp::kMul, step, number(i)));
  const int back = l.I64(ScalarOp::kSub, l.Size(steps - 1), i);
  const int high = op(ScalarOp::kSub, end, op(ScalarOp::kMul, step, number(back)));
  const int first = builder.Op(ScalarOp::kLt, DType::kBool, i, l.Size(FloorDiv(steps, 2)));
  return l.Convert(builder.Op(ScalarOp::kSelect, c, first, low, high), t);
}

absl::StatusOr<int> LowerEye(Lowering& l, NodeId n, const Index& index) {
  Group& group = l.group();
  Builder& builder = l.builder();
  const DType t = group.Dt(group.Out(n));
  Affine difference = builder.Add(index[0], builder.Scale(index[1], Expr(-1)));
  const int constant = builder.ConstInt(DType::kInt64, 0);
  const int equal = builder.Op(ScalarOp::kEq, DType::kBool, builder.IndexValue(difference), constant);
  const int number = l.Number(t, 0);
  return l.Select(equal, l.Number(t, 1), number);
}

absl::StatusOr<int> LowerTriangle(Lowering& l, NodeId n, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(Expr k, call->GetExpr("diagonal"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, group.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(int v, l.Eval(self, index, guard));
  const size_t r = index.size();
  Affine d = builder.Add(index[r - 1], builder.Scale(index[r - 2], Expr(-1)));
  const bool lower = group.node(n).op.name() == op::kTril;
  const int fourth = l.Size(k);
  const int keep = builder.Op(lower ? ScalarOp::kLe : ScalarOp::kGe, DType::kBool, builder.IndexValue(d), fourth);
  return l.Select(keep, v, l.Number(builder.TypeOf(v), 0));
}

absl::StatusOr<std::vector<int>> LowerPointwise(Lowering& l, NodeId n, uint32_t output, const Index& index, int guard) {
  Group& group = l.group();
  Builder& builder = l.builder();
  SMELT_ASSIGN_OR_RETURN(const PointwiseMeaning* m, group.PointwiseOf(n));
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, group.CallOf(n));
  const std::vector<Expr>& sizes = group.Sizes(group.Out(n, static_cast<int>(output)));
  std::vector<int> args;
  for (size_t k = 0; k < m->operands.size(); ++k) {
    const PointwiseOperand& o = m->operands[k];
    if (o.is_scalar) {
      const OpArg& a = o.element < 0 ? call->arg(o.arg) : call->arg(o.arg).elements[o.element];
      SMELT_ASSIGN_OR_RETURN(int v, l.ScalarArg(n, a, m->fn.arg_types[k]));
      args.push_back(v);
      continue;
    }
    const ValueId v = OperandValue(*call, o);
    if (!v.valid()) return group.Unsupported(n, "an operand that is no value");
    const std::vector<Expr>& s = group.Sizes(v);
    if (s.size() > sizes.size()) return group.Unsupported(n, "an operand of higher rank than the result");
    SMELT_ASSIGN_OR_RETURN(int x, l.Eval(v, BroadcastIndex(builder, index, sizes, s), guard));
    args.push_back(l.Convert(x, m->fn.arg_types[k]));
  }
  return builder.Inline(m->fn, args);
}

absl::StatusOr<std::vector<int>> LowerSpecial(Lowering& l, NodeId n, OpFamily s, const Index& index, int guard) {
  Group& group = l.group();
  switch (s) {
    case OpFamily::kRegionView:
      return One(LowerView(l, n, index, guard));
    case OpFamily::kCopy:
    case OpFamily::kMaterialize:
      return One(l.Eval(group.node(n).inputs[0], index, guard));
    case OpFamily::kOverlay:
      return One(LowerOverlay(l, n, index, guard));
    case OpFamily::kAllocation:
    case OpFamily::kFill:
      return One(LowerFill(l, n));
    case OpFamily::kArange:
      return One(LowerArange(l, n, index));
    case OpFamily::kLinspace:
      return One(LowerLinspace(l, n, index));
    case OpFamily::kEye:
      return One(LowerEye(l, n, index));
    case OpFamily::kTriangle:
      return One(LowerTriangle(l, n, index, guard));
    case OpFamily::kConstantPad:
      return One(LowerConstantPad(l, n, index, guard));
    case OpFamily::kReflectionPad:
    case OpFamily::kCircularPad:
    case OpFamily::kReplicationPad:
      return One(LowerEdgePad(l, n, s, index, guard));
    case OpFamily::kFlip:
      return One(LowerFlip(l, n, index, guard));
    case OpFamily::kRoll:
      return One(LowerRoll(l, n, index, guard));
    case OpFamily::kRepeat:
      return One(LowerRepeat(l, n, index, guard));
    case OpFamily::kRepeatInterleave:
      return One(LowerRepeatInterleave(l, n, index, guard));
    case OpFamily::kGather:
      return One(LowerGather(l, n, index, guard));
    case OpFamily::kIndexSelect:
      return One(LowerIndexSelect(l, n, index, guard));
    case OpFamily::kEmbedding:
      return One(LowerEmbedding(l, n, index, guard));
    case OpFamily::kIndex:
      return One(LowerIndex(l, n, index, guard));
    case OpFamily::kTake:
      return One(LowerTake(l, n, index, guard));
    case OpFamily::kOneHot:
      return One(LowerOneHot(l, n, index, guard));
    case OpFamily::kCat:
    case OpFamily::kStack:
      return One(LowerCat(l, n, s == OpFamily::kStack, index, guard));
    case OpFamily::kMaxPool:
    case OpFamily::kAvgPool:
    case OpFamily::kAdaptiveMaxPool:
    case OpFamily::kAdaptiveAvgPool:
      return LowerPool(l, n, s, index, guard);
    case OpFamily::kUpsampleNearest:
      return One(LowerUpsampleNearest(l, n, index, guard));
    case OpFamily::kUpsampleLinear:
      return One(LowerUpsampleLinear(l, n, index, guard));
    case OpFamily::kIm2Col:
      return One(LowerIm2Col(l, n, index, guard));
    case OpFamily::kCol2Im:
      return One(LowerCol2Im(l, n, index, guard));
    case OpFamily::kMaskedScatter:
      return One(LowerMaskedScatter(l, n, index, guard));
    default:
      break;
  }
  return group.Unsupported(n, "has no kernel");
}

}  // namespace

absl::StatusOr<std::vector<int>> LowerNode(Lowering& l, NodeId n, uint32_t output, const Index& index, int guard) {
  Group& group = l.group();
  if (const std::optional<OpFamily> special = group.SpecialOf(n)) return LowerSpecial(l, n, *special, index, guard);
  switch (GetOpInfo(group.node(n).op).kind) {
    case OpKind::kPointwise:
      return LowerPointwise(l, n, output, index, guard);
    case OpKind::kReduction:
      return LowerReduction(l, n, index, guard);
    default:
      return group.Unsupported(n, "has no kernel");
  }
}

}  // namespace smelt::kernel
