#include "smelt/codegen/short_nans.h"

#include <algorithm>
#include <cmath>

namespace smelt {
namespace {

// Returns whether the machine computes it by instructions that pass a NaN's bits through or make a NaN of their own.
bool IsArithmetic(ScalarOp op) {
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSqrt:
    case ScalarOp::kFma:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<bool> HaveShortNans(const KernelSpec& spec) {
  std::vector<bool> are_short(spec.instrs.size(), false);
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    if (in.type != DType::kFloat32 && in.type != DType::kFloat64) continue;
    const auto all = [&](size_t from) {
      return std::all_of(in.operands.begin() + from, in.operands.end(), [&](int o) { return are_short[o]; });
    };
    if (in.op == KernelOp::kScalarParam) {
      are_short[i] = true;
    } else if (in.op == KernelOp::kReduce) {
      are_short[i] = !IsArg(in.reduce) && all(0);
    } else if (in.op == KernelOp::kScalar) {
      if (in.scalar == ScalarOp::kConst) {
        are_short[i] = !std::isnan(in.imm.f);
      } else if (in.scalar == ScalarOp::kCast) {
        const DType from = spec.instrs[in.operands[0]].type;
        are_short[i] = from == DType::kBFloat16 || !IsFloating(from) || all(0);
      } else if (in.scalar == ScalarOp::kSelect) {
        are_short[i] = all(1);
      } else {
        are_short[i] = IsArithmetic(in.scalar) && all(0);
      }
    }
  }
  return are_short;
}

}  // namespace smelt
