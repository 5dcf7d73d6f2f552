#include "smelt/fuser/kernel_draft.h"

#include <vector>

namespace smelt::kernel {

bool KernelDraft::ReductionCoef(const std::vector<Expr>& coef) const {
  for (size_t d = parallel; d < coef.size(); ++d) {
    if (coef[d] != Expr(0)) return true;
  }
  return false;
}

void KernelDraft::MarkReachable() {
  reachable.assign(ins.size(), false);
  for (int s : stores) reachable[s] = true;
  for (size_t i = ins.size(); i-- > 0;) {
    if (!reachable[i]) continue;
    for (int o : ins[i].operands) reachable[o] = true;
  }
}

bool KernelDraft::IsChosenAlong(int dim) const {
  std::vector<bool> varies(ins.size());  // operands stand before their users
  for (size_t i = 0; i < ins.size(); ++i) {
    const Ins& in = ins[i];
    if (!reachable[i]) continue;
    if (in.is_affine) varies[i] = linears[in.affine].coef[dim] != Expr(0);
    if (in.op == KernelOp::kIndex) varies[i] = in.dim == dim;
    if (in.access >= 0) varies[i] = accesses[in.access].coef[dim] != Expr(0);
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    if (in.op == KernelOp::kLoad && in.has_offset && varies[in.operands[0]]) return true;
  }
  return false;
}

bool KernelDraft::Collapses(int a, int b) const {
  auto fits = [&](const std::vector<Expr>& coef) { return coef[a] == coef[b] * sizes[b]; };
  for (size_t i = 0; i < ins.size(); ++i) {
    if (!reachable[i]) continue;
    if (ins[i].access >= 0 && !fits(accesses[ins[i].access].coef)) return false;
    if (ins[i].is_affine && !fits(linears[ins[i].affine].coef)) return false;
  }
  return true;
}

bool KernelDraft::IsCostly(const Ins& in) {
  return in.op == KernelOp::kScalar &&
         (in.scalar >= ScalarOp::kExp || in.scalar == ScalarOp::kPow || in.scalar == ScalarOp::kAtan2);
}

bool KernelDraft::Commutes(const Ins& in) const {
  if (in.op != KernelOp::kScalar || in.operands.size() != 2) return false;
  switch (in.scalar) {
    case ScalarOp::kAdd:
    case ScalarOp::kMul:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kHypot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kEq:
    case ScalarOp::kNe:
      return true;
    default:
      return false;
  }
}

int KernelDraft::BoundOf(const Ins& in) const {
  if (in.scalar != ScalarOp::kMin && in.scalar != ScalarOp::kMax) return -1;
  const auto is_number = [&](int o) {
    while (ins[o].op == KernelOp::kScalar && ins[o].scalar == ScalarOp::kCast) o = ins[o].operands[0];
    return ins[o].op == KernelOp::kScalarParam || (ins[o].op == KernelOp::kScalar && ins[o].scalar == ScalarOp::kConst);
  };
  const bool first = is_number(in.operands[0]), second = is_number(in.operands[1]);
  return first == second ? -1 : first ? 0 : 1;
}

bool KernelDraft::IsToBeSwapped(const Ins& in, bool wrong_order) const {
  const int bound = BoundOf(in);
  return bound >= 0 ? bound == 0 : wrong_order;
}

StrideClass KernelDraft::ClassOf(const Access& a, int d) const {
  if (a.coef[d] == Expr(0)) return StrideClass::kZero;
  if (a.coef[d] == Expr(1)) return StrideClass::kUnit;
  const bool may_be_vectorized = d == parallel - 1 || d == rank() - 1;
  if (IsAcrossLoop(a, d) && a.coef[d] == Expr(2)) return StrideClass::kTwo;
  for (StrideClass c : {StrideClass::kTwo, StrideClass::kThree, StrideClass::kFour, StrideClass::kBackward}) {
    if (may_be_vectorized && a.coef[d] == Expr(ElementsApart(c))) return c;
  }
  return StrideClass::kAny;
}

}  // namespace smelt::kernel
