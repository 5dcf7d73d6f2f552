#include "smelt/codegen/math.h"

#include "smelt/codegen/float_emitter.h"
#include "smelt/codegen/math_exp.h"
#include "smelt/codegen/math_log.h"
#include "smelt/codegen/math_special.h"
#include "smelt/codegen/math_trig.h"
#include "smelt/codegen/remainders.h"

namespace smelt {

using llvm::Value;

namespace {

// Emits functions that have versions for float; null for others.
Value* EmitInType(FloatEmitter& e, ScalarOp op, Value* x, Value* y) {
  const bool is_double = e.is_double();
  switch (op) {
    case ScalarOp::kRsqrt:
      return e.Div(e.K(1), e.Sqrt(x));
    case ScalarOp::kExp:
      return Exponentials(e).Exp(x);
    case ScalarOp::kExp2:
      return Exponentials(e).Exp2(x);
    case ScalarOp::kExpm1:
      return Exponentials(e).Expm1(x);
    case ScalarOp::kLog:
      return Logarithms(e).Log(x);
    case ScalarOp::kLog1p:
      return Logarithms(e).Log1p(x);
    case ScalarOp::kTanh:
      return Exponentials(e).Tanh(x);
    case ScalarOp::kSigmoid:
      return Exponentials(e).Sigmoid(x);
    case ScalarOp::kErf:
      return is_double ? SpecialFunctions(e).Erf64(x) : SpecialFunctions(e).Erf32(x);
    case ScalarOp::kErfinv:
      return is_double ? SpecialFunctions(e).Erfinv(x) : SpecialFunctions(e).Erfinv32(x);
    case ScalarOp::kNextAfter:
      return Remainders(e).NextAfter(x, y);
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
      return is_double     ? Trigonometry(e).SinCosTan64(op, x)
             : e.has_fma() ? Trigonometry(e).SinCosTan32(op, x)
                           : nullptr;
    case ScalarOp::kRemTrunc:
      return is_double ? Remainders(e).Fmod64(x, y) : Remainders(e).Fmod32(x, y);
    case ScalarOp::kAsin:
    case ScalarOp::kAcos:
      return Trigonometry(e).ArcSine(op, x);
    case ScalarOp::kAtan:
      return Trigonometry(e).Atan(x);
    default:
      return nullptr;
  }
}

// Emits functions that are computed in double.
Value* EmitInDouble(FloatEmitter& e, ScalarOp op, Value* x, Value* y) {
  switch (op) {
    case ScalarOp::kLog2:
      return Logarithms(e).LogOf(x, kLog2e, 1);
    case ScalarOp::kLog10:
      return Logarithms(e).LogOf(x, 0.434294481903251827651128918917, 0.301029995663981195213738894724);
    case ScalarOp::kAtan2:
      return Trigonometry(e).Atan2(x, y);
    case ScalarOp::kSinh:
      return Exponentials(e).Sinh(x);
    case ScalarOp::kCosh:
      return Exponentials(e).Cosh(x);
    case ScalarOp::kAsinh:
      return Logarithms(e).Asinh(x);
    case ScalarOp::kAcosh:
      return Logarithms(e).Acosh(x);
    case ScalarOp::kAtanh:
      return Logarithms(e).Atanh(x);
    case ScalarOp::kErfc:
      return SpecialFunctions(e).Erfc64(x);
    case ScalarOp::kPow:
      return Logarithms(e).Pow(x, y);
    case ScalarOp::kHypot:
      return Remainders(e).Hypot(x, y);
    case ScalarOp::kLgamma:
      return SpecialFunctions(e).Lgamma(x);
    case ScalarOp::kDigamma:
      return SpecialFunctions(e).Digamma(x);
    default:
      return EmitInType(e, op, x, y);
  }
}

}  // namespace

// Functions that hot loops use have float versions; the others are computed in double and rounded, which makes them
// nearly correctly rounded for float. No function calls anything outside the module.
Value* EmitMath(llvm::IRBuilder<>& b, const CpuFeatures& features, ScalarOp op, Value* x, Value* y) {
  FloatEmitter e(b, features, x->getType());
  if (e.is_double()) return EmitInDouble(e, op, x, y);
  if (Value* r = EmitInType(e, op, x, y)) return r;
  FloatEmitter wide = e.Wide();
  x = b.CreateFPExt(x, wide.type());
  if (y) y = b.CreateFPExt(y, wide.type());
  Value* r = op == ScalarOp::kPow      ? Logarithms(wide).PowForFloat(x, y)
             : op == ScalarOp::kLgamma ? SpecialFunctions(wide).LgammaForFloat(x)
                                       : EmitInDouble(wide, op, x, y);
  return r ? b.CreateFPTrunc(r, e.type()) : nullptr;
}

Value* EmitExpAtMostZero(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* x) {
  return Exponentials(b, features, x->getType()).ExpAtMostZero(x);
}

Value* EmitCopySign(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* a, Value* sign) {
  llvm::Type* type = a->getType();
  llvm::Type* bits = type->getWithNewType(b.getIntNTy(type->getScalarSizeInBits()));
  Value* mask = llvm::ConstantInt::get(bits, llvm::APInt::getSignMask(type->getScalarSizeInBits()));
  Value* negated = b.CreateNot(mask);
  if (features.neon && type->isVectorTy()) {
    // One instruction takes the bits of a mask from one vector and the others from another, if the mask is known to be
    // the same: KeepConstants puts it into a register, and this is its complement. (The builder would fold it.)
    negated = b.Insert(llvm::BinaryOperator::CreateNot(mask));
  }
  Value* magnitude = b.CreateAnd(b.CreateBitCast(a, bits), negated);
  return b.CreateBitCast(b.CreateOr(magnitude, b.CreateAnd(b.CreateBitCast(sign, bits), mask)), type);
}

Value* EmitExactFma(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* x, Value* y, Value* z) {
  return FloatEmitter(b, features, x->getType()).ExactFma(x, y, z);
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
