#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lowering.h"

namespace smelt::kernel {
namespace {

absl::StatusOr<std::vector<int>> One(absl::StatusOr<int> v) {
  if (!v.ok()) return v.status();
  return std::vector<int>{*v};
}

}  // namespace

Lowering::Values Lowering::EvalNode(NodeId n, uint32_t output, const Index& index, int guard) {
  if (const std::optional<OpFamily> special = g_.SpecialOf(n)) return EvalSpecial(n, *special, index, guard);
  switch (GetOpInfo(g_.node(n).op).kind) {
    case OpKind::kPointwise:
      return EvalPointwise(n, output, index, guard);
    case OpKind::kReduction:
      return EvalReduction(n, index, guard);
    default:
      return g_.Unsupported(n, "has no kernel");
  }
}

Lowering::Values Lowering::EvalSpecial(NodeId n, OpFamily s, const Index& index, int guard) {
  switch (s) {
    case OpFamily::kRegionView:
      return One(EvalView(n, index, guard));
    case OpFamily::kCopy:
    case OpFamily::kMaterialize:
      return One(Eval(g_.node(n).inputs[0], index, guard));
    case OpFamily::kOverlay:
      return One(EvalOverlay(n, index, guard));
    case OpFamily::kAllocation:
    case OpFamily::kFill:
      return One(EvalFill(n));
    case OpFamily::kArange:
      return One(EvalArange(n, index));
    case OpFamily::kLinspace:
      return One(EvalLinspace(n, index));
    case OpFamily::kEye:
      return One(EvalEye(n, index));
    case OpFamily::kTriangle:
      return One(EvalTriangle(n, index, guard));
    case OpFamily::kConstantPad:
      return One(EvalConstantPad(n, index, guard));
    case OpFamily::kReflectionPad:
    case OpFamily::kCircularPad:
    case OpFamily::kReplicationPad:
      return One(EvalEdgePad(n, s, index, guard));
    case OpFamily::kFlip:
      return One(EvalFlip(n, index, guard));
    case OpFamily::kRoll:
      return One(EvalRoll(n, index, guard));
    case OpFamily::kRepeat:
      return One(EvalRepeat(n, index, guard));
    case OpFamily::kRepeatInterleave:
      return One(EvalRepeatInterleave(n, index, guard));
    case OpFamily::kGather:
      return One(EvalGather(n, index, guard));
    case OpFamily::kIndexSelect:
      return One(EvalIndexSelect(n, index, guard));
    case OpFamily::kEmbedding:
      return One(EvalEmbedding(n, index, guard));
    case OpFamily::kIndex:
      return One(EvalIndex(n, index, guard));
    case OpFamily::kTake:
      return One(EvalTake(n, index, guard));
    case OpFamily::kOneHot:
      return One(EvalOneHot(n, index, guard));
    case OpFamily::kCat:
    case OpFamily::kStack:
      return One(EvalCat(n, s == OpFamily::kStack, index, guard));
    case OpFamily::kMaxPool:
    case OpFamily::kAvgPool:
    case OpFamily::kAdaptiveMaxPool:
    case OpFamily::kAdaptiveAvgPool:
      return EvalPool(n, s, index, guard);
    case OpFamily::kUpsampleNearest:
      return One(EvalUpsampleNearest(n, index, guard));
    case OpFamily::kUpsampleLinear:
      return One(EvalUpsampleLinear(n, index, guard));
    case OpFamily::kIm2Col:
      return One(EvalIm2Col(n, index, guard));
    case OpFamily::kCol2Im:
      return One(EvalCol2Im(n, index, guard));
    case OpFamily::kMaskedScatter:
      return One(EvalMaskedScatter(n, index, guard));
    default:
      break;
  }
  return g_.Unsupported(n, "has no kernel");
}

Lowering::Values Lowering::EvalPointwise(NodeId n, uint32_t output, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const PointwiseMeaning* m, g_.PointwiseOf(n));
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const std::vector<Expr>& sizes = g_.Sizes(g_.Out(n, static_cast<int>(output)));
  std::vector<int> args;
  for (size_t k = 0; k < m->operands.size(); ++k) {
    const PointwiseOperand& o = m->operands[k];
    if (o.is_scalar) {
      const OpArg& a = o.element < 0 ? call->arg(o.arg) : call->arg(o.arg).elements[o.element];
      SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, a, m->fn.arg_types[k]));
      args.push_back(v);
      continue;
    }
    const ValueId v = OperandValue(*call, o);
    if (!v.valid()) return g_.Unsupported(n, "an operand that is no value");
    const std::vector<Expr>& s = g_.Sizes(v);
    if (s.size() > sizes.size()) return g_.Unsupported(n, "an operand of higher rank than the result");
    SMELT_ASSIGN_OR_RETURN(int x, Eval(v, BroadcastIndex(*b_, index, sizes, s), guard));
    args.push_back(Convert(x, m->fn.arg_types[k]));
  }
  return b_->Inline(m->fn, args);
}

absl::StatusOr<int> Lowering::EvalFill(NodeId n) {
  const Node& node = g_.node(n);
  const DType t = g_.Dt(g_.Out(n));
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
    return b_->ScalarParam(t, std::move(s));
  }
  const std::string& name = node.op.name();
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  for (const char* argument : {"fill_value", "s"}) {
    const OpArg* a = call->Find(argument);
    if (a == nullptr || a->IsNone()) continue;
    if (a->IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(int v, Eval(a->value, {}, -1));
      return Convert(v, t);
    }
    const DType own = a->kind == OpArg::Kind::kFloat  ? DType::kFloat64
                      : a->kind == OpArg::Kind::kBool ? DType::kBool
                                                      : DType::kInt64;
    if (a->known) return ScalarArg(n, *a, t);
    SMELT_ASSIGN_OR_RETURN(int v, ScalarArg(n, *a, own));
    return Convert(v, t);
  }
  LoweredKernel::Scalar s;
  s.is_constant = true;
  s.int_constant = absl::EndsWith(name, "ones") || absl::EndsWith(name, "ones_like");
  s.constant = static_cast<double>(s.int_constant);
  return b_->ScalarParam(t, std::move(s));
}

absl::StatusOr<int> Lowering::EvalArange(NodeId n, const Index& index) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const DType t = g_.Dt(g_.Out(n));
  const DType c = IsFloating(t) ? DType::kFloat64 : DType::kInt64;
  const OpArg* start = call->Find("start");
  const OpArg* step = call->Find("step");
  int v = b_->IndexValue(index[0]);
  if (c == DType::kFloat64) v = b_->Cast(v, c);
  const bool unit = step == nullptr || step->IsNone() || (step->known && step->number == 1);
  const bool from_zero = start == nullptr || start->IsNone() ||
                         (start->known && start->kind == OpArg::Kind::kInt && start->expr == Expr(0));
  if (!unit) {
    SMELT_ASSIGN_OR_RETURN(int s, ScalarArg(n, *step, c));
    v = b_->Op(ScalarOp::kMul, c, v, s);
  }
  if (!from_zero) {
    SMELT_ASSIGN_OR_RETURN(int s, ScalarArg(n, *start, c));
    v = b_->Op(ScalarOp::kAdd, c, s, v);
  }
  return Convert(v, t);
}

absl::StatusOr<int> Lowering::EvalLinspace(NodeId n, const Index& index) {
  if (!g_.node(n).op.overload().empty()) return g_.Unsupported(n, "has no kernel");
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  const DType t = g_.Dt(g_.Out(n));
  const DType c = t == DType::kFloat64 || !IsFloating(t) ? DType::kFloat64 : DType::kFloat32;
  const Expr steps = g_.Sizes(g_.Out(n))[0];
  // The bounds of integers are integers.
  const DType of_ends = IsFloating(t) ? c : t;
  SMELT_ASSIGN_OR_RETURN(int start, ScalarArg(n, *call->Find("start"), of_ends));
  SMELT_ASSIGN_OR_RETURN(int end, ScalarArg(n, *call->Find("end"), of_ends));
  start = b_->Cast(start, c);
  end = b_->Cast(end, c);
  if (steps == Expr(1)) return Convert(start, t);
  const int i = b_->IndexValue(index[0]);
  // Numbers of half precision are rounded after each step, as by PyTorch.
  const auto number = [&](int v) { return b_->Cast(IsHalf(t) ? b_->Cast(v, t) : v, c); };
  const auto op = [&](ScalarOp o, int x, int y) { return number(b_->Op(o, c, x, y)); };
  start = number(start);
  end = number(end);
  const int range = op(ScalarOp::kSub, end, start);
  const int step = op(ScalarOp::kDiv, range, number(Size(steps - 1)));
  // Counted from the nearer end, as PyTorch does.
  const int low = op(ScalarOp::kAdd, start, op(ScalarOp::kMul, step, number(i)));
  const int back = I64(ScalarOp::kSub, Size(steps - 1), i);
  const int high = op(ScalarOp::kSub, end, op(ScalarOp::kMul, step, number(back)));
  const int first = b_->Op(ScalarOp::kLt, DType::kBool, i, Size(FloorDiv(steps, 2)));
  return Convert(b_->Op(ScalarOp::kSelect, c, first, low, high), t);
}

absl::StatusOr<int> Lowering::EvalEye(NodeId n, const Index& index) {
  const DType t = g_.Dt(g_.Out(n));
  Affine difference = b_->Add(index[0], b_->Scale(index[1], Expr(-1)));
  const int constant = b_->ConstInt(DType::kInt64, 0);
  const int equal = b_->Op(ScalarOp::kEq, DType::kBool, b_->IndexValue(difference), constant);
  const int number = Number(t, 0);
  return Select(equal, Number(t, 1), number);
}

absl::StatusOr<int> Lowering::EvalTriangle(NodeId n, const Index& index, int guard) {
  SMELT_ASSIGN_OR_RETURN(const OpCall* call, g_.CallOf(n));
  SMELT_ASSIGN_OR_RETURN(Expr k, call->GetExpr("diagonal"));
  SMELT_ASSIGN_OR_RETURN(ValueId self, g_.TensorArg(n, "self"));
  SMELT_ASSIGN_OR_RETURN(int v, Eval(self, index, guard));
  const size_t r = index.size();
  Affine d = b_->Add(index[r - 1], b_->Scale(index[r - 2], Expr(-1)));
  const bool lower = g_.node(n).op.name() == op::kTril;
  const int fourth = Size(k);
  const int keep = b_->Op(lower ? ScalarOp::kLe : ScalarOp::kGe, DType::kBool, b_->IndexValue(d), fourth);
  return Select(keep, v, Number(b_->TypeOf(v), 0));
}

}  // namespace smelt::kernel
