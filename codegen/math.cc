#include "smelt/codegen/math.h"

#include "smelt/codegen/math_emitter.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

Value* MathEmitter::Emit(ScalarOp op, Value* x, Value* y) {
  switch (op) {
    case ScalarOp::kRsqrt:
      return Div(K(1), Sqrt(x));
    case ScalarOp::kExp:
      return Exp(x);
    case ScalarOp::kExp2:
      return Exp2(x);
    case ScalarOp::kExpm1:
      return Expm1(x);
    case ScalarOp::kLog:
      return Log(x);
    case ScalarOp::kLog1p:
      return Log1p(x);
    case ScalarOp::kTanh:
      return Tanh(x);
    case ScalarOp::kSigmoid:
      return Sigmoid(x);
    case ScalarOp::kErf:
      return is_double_ ? Erf64(x) : Erf32(x);
    case ScalarOp::kErfinv:
      return is_double_ ? Erfinv(x) : Erfinv32(x);
    case ScalarOp::kNextAfter:
      return NextAfter(x, y);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      if (!is_double_ && f_.fma) return SinCosTan32(op, x);
      break;
    case ScalarOp::kRemTrunc:
      return is_double_ ? Fmod64(x, y) : Fmod32(x, y);
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
      if (!is_double_) return ArcSine(op, x);
      break;
    case ScalarOp::kAtan:
      if (!is_double_) return Atan(x);
      break;
    default:
      break;
  }
  if (!is_double_) {
    Type* wide = t_->getWithNewType(b_.getDoubleTy());
    MathEmitter in_double(b_, f_, wide);
    x = b_.CreateFPExt(x, wide);
    if (y) y = b_.CreateFPExt(y, wide);
    Value* r = op == ScalarOp::kPow      ? in_double.PowForFloat(x, y)
               : op == ScalarOp::kLgamma ? in_double.LgammaForFloat(x)
                                         : in_double.Emit(op, x, y);
    return r ? b_.CreateFPTrunc(r, t_) : nullptr;
  }
  switch (op) {
    case ScalarOp::kLog2:
      return LogOf(x, kLog2e, 1);
    case ScalarOp::kLog10:
      return LogOf(x, 0.434294481903251827651128918917, 0.301029995663981195213738894724);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return SinCosTan64(op, x);
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
      return ArcSine(op, x);
    case ScalarOp::kAtan:
      return Atan(x);
    case ScalarOp::kAtan2:
      return Atan2(x, y);
    case ScalarOp::kSinh:
      return Sinh(x);
    case ScalarOp::kCosh:
      return Cosh(x);
    case ScalarOp::kAsinh:
      return Asinh(x);
    case ScalarOp::kAcosh:
      return Acosh(x);
    case ScalarOp::kAtanh:
      return Atanh(x);
    case ScalarOp::kErfc:
      return Erfc64(x);
    case ScalarOp::kPow:
      return Pow(x, y);
    case ScalarOp::kHypot:
      return Hypot(x, y);
    case ScalarOp::kLgamma:
      return Lgamma(x);
    case ScalarOp::kDigamma:
      return Digamma(x);
    default:
      return nullptr;
  }
}

Value* EmitMath(llvm::IRBuilder<>& b, const CpuFeatures& features, ScalarOp op, Value* x, Value* y) {
  return MathEmitter(b, features, x->getType()).Emit(op, x, y);
}

Value* EmitExpAtMostZero(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* x) {
  return MathEmitter(b, features, x->getType()).ExpAtMostZero(x);
}

Value* EmitCopySign(llvm::IRBuilder<>& b, Value* a, Value* sign) {
  llvm::Type* type = a->getType();
  llvm::Type* bits = type->getWithNewType(b.getIntNTy(type->getScalarSizeInBits()));
  Value* mask = llvm::ConstantInt::get(bits, llvm::APInt::getSignMask(type->getScalarSizeInBits()));
  Value* negated = b.CreateNot(mask);
  Value* magnitude = b.CreateAnd(b.CreateBitCast(a, bits), negated);
  return b.CreateBitCast(b.CreateOr(magnitude, b.CreateAnd(b.CreateBitCast(sign, bits), mask)), type);
}

Value* EmitExactFma(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* x, Value* y, Value* z) {
  return MathEmitter(b, features, x->getType()).ExactFma(x, y, z);
}

int MathCost(ScalarOp op) {
  switch (op) {
    case ScalarOp::kRsqrt:
    case ScalarOp::kSqrt:
    case ScalarOp::kDiv:
      return 6;
    case ScalarOp::kExp:
    case ScalarOp::kExp2:
      return 15;
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kTanh:
    case ScalarOp::kSigmoid:
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
    case ScalarOp::kAtan:
      return 25;
    case ScalarOp::kErf:
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
    case ScalarOp::kLog1p:
      return 35;
    case ScalarOp::kLog2:
    case ScalarOp::kLog10:
    case ScalarOp::kSinh:
    case ScalarOp::kCosh:
    case ScalarOp::kAtan2:
    case ScalarOp::kHypot:
    case ScalarOp::kAsinh:
    case ScalarOp::kAcosh:
    case ScalarOp::kAtanh:
    case ScalarOp::kErfc:
    case ScalarOp::kPow:
      return 120;
    case ScalarOp::kErfinv:
    case ScalarOp::kLgamma:
    case ScalarOp::kDigamma:
      return 300;
    case ScalarOp::kRemTrunc:
    case ScalarOp::kRemFloor:
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
      return 30;
    default:
      return 1;
  }
}

}  // namespace smelt
