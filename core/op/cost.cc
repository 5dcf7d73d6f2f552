#include "smelt/core/op/cost.h"

#include <algorithm>
#include <cmath>

#include "smelt/core/op/op_info.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

constexpr double kDivision = 6;   // and roots
constexpr double kFunction = 20;  // a polynomial, and the reduction of its argument
constexpr int kIndexArithmetic = 3;

double CostOf(const ScalarInstr& in) {
  switch (in.op) {
    case ScalarOp::kArg:
    case ScalarOp::kConst:
    case ScalarOp::kCast:
      return 0;
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kFma:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kCopysign:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSignbit:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRound:
      return 1;
    // Two of these are one choice: a comparison and a selection, a lower and an upper bound.
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
    case ScalarOp::kSelect:
      return 0.5;
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kNot:
      return in.type == DType::kBool ? 0 : 1;
    case ScalarOp::kDiv:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
      return kDivision;
    default:
      return kFunction;
  }
}

}  // namespace

int CostOf(const ScalarFn& fn) {
  double sum = 0;
  for (const ScalarInstr& in : fn.instrs) sum += CostOf(in);
  return std::max(1, static_cast<int>(std::ceil(sum)));
}

int CostOf(const Graph& g, NodeId n) {
  const OpName op = g.node(n).op;
  const OpFamily family = GetOpTraits(op).family;
  if (IsLeafFamily(family) || family == OpFamily::kCopy || family == OpFamily::kMaterialize) return 0;
  if (GetOpInfo(op).kind != OpKind::kPointwise) return kIndexArithmetic;
  const auto call = OpCall::Of(g, n);
  if (!call.ok()) return static_cast<int>(kFunction);
  const auto meaning = BuildPointwise(*call);
  return meaning.ok() ? CostOf(meaning->fn) : static_cast<int>(kFunction);
}

}  // namespace smelt
