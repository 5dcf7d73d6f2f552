#include "smelt/codegen/float_emitter.h"

#include <utility>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

void FloatEmitter::TwoProduct(Value* a, Value* c, Value** p, Value** e) {
  *p = Mul(a, c);
  if (f_.fma) {
    *e = Fma(a, c, Neg(*p));
    return;
  }
  const double splitter = is_double_ ? 134217729.0 : 4097.0;
  auto split = [&](Value* v, Value** high, Value** low) {
    Value* big = Mul(v, K(splitter));
    *high = Sub(big, Sub(big, v));
    *low = Sub(v, *high);
  };
  Value *ah, *al, *ch, *cl;
  split(a, &ah, &al);
  split(c, &ch, &cl);
  Value* product = Mul(al, ch);
  Value* sum = Add(Mul(ah, cl), product);
  *e = Add(Sub(Mul(ah, ch), *p), sum);
  *e = Add(*e, Mul(al, cl));
}

Value* FloatEmitter::ToOdd(Value* s, Value* e) {
  Value* bits = Bits(s);
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, KI(1)), KI(0));
  Value* inexact = b_.CreateFCmpONE(e, K(0));
  Value* is_greater = Gt(s, K(0));
  Value* away = b_.CreateICmpEQ(Gt(e, K(0)), is_greater);
  Value* moved = b_.CreateAdd(bits, Select(away, KI(1), KI(-1)));
  return FromBits(Select(And(even, inexact), moved, bits));
}

bool FloatEmitter::ScalesByInstruction() const {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t_);
  return f_.avx512 && vector && vector->getNumElements() * t_->getScalarSizeInBits() % 512 == 0;
}

Value* FloatEmitter::Scale(Value* x, Value* n) {
  if (ScalesByInstruction()) {
    auto* vector = llvm::cast<llvm::FixedVectorType>(t_);
    const int lanes = 512 / static_cast<int>(t_->getScalarSizeInBits());
    auto* one = llvm::FixedVectorType::get(t_->getScalarType(), lanes);
    std::vector<Value*> parts;
    for (int at = 0; at < static_cast<int>(vector->getNumElements()); at += lanes) {
      auto piece = [&](Value* v) { return b_.CreateShuffleVector(v, Range(at, lanes)); };
      const bool whole = lanes == static_cast<int>(vector->getNumElements());
      const int bits = lanes;
      parts.push_back(b_.CreateIntrinsic(
          is_double_ ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512 : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
          {},
          {whole ? x : piece(x), whole ? n : piece(n), llvm::Constant::getNullValue(one),
           llvm::Constant::getAllOnesValue(b_.getIntNTy(bits)), b_.getInt32(4)}));
    }
    return Concatenate(parts, lanes);
  }
  // In two steps, since 2^n itself may be out of range.
  Value* k = ToInt(n);
  Value* half = b_.CreateAShr(k, KI(1));
  Value* rest = b_.CreateSub(k, half);
  Value* power = PowerOfTwo(rest);
  return Mul(Mul(x, PowerOfTwo(half)), power);
}

Value* FloatEmitter::Concatenate(std::vector<Value*> parts, int lanes) {
  while (parts.size() > 1) {
    std::vector<Value*> next;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      next.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], Range(0, 2 * lanes)));
    }
    parts = std::move(next);
    lanes *= 2;
  }
  return parts[0];
}

Value* FloatEmitter::ExactFma(Value* x, Value* y, Value* z) {
  if (f_.fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {t_}, {x, y, z});
  if (!is_double_) {
    // The product is exact in double. The sum is rounded to odd, so that rounding it again to float is like rounding
    // once.
    Type* wide = t_->getWithNewType(b_.getDoubleTy());
    FloatEmitter w(b_, f_, wide);
    Value* second = b_.CreateFPExt(y, wide);
    Value* p = w.Mul(b_.CreateFPExt(x, wide), second);
    Value *s, *e;
    w.TwoSum(p, b_.CreateFPExt(z, wide), &s, &e);
    return b_.CreateFPTrunc(w.ToOdd(s, e), t_);
  }
  // Boldo and Melquiond's emulation. It is exact unless the product's parts leave the exponent range.
  Value *uh, *ul, *th, *tl, *vh, *vl;
  TwoProduct(x, y, &uh, &ul);
  TwoSum(z, ul, &th, &tl);
  TwoSum(uh, th, &vh, &vl);
  Value *s, *e;
  TwoSum(tl, vl, &s, &e);
  Value* r = Add(vh, ToOdd(s, e));
  Value* plain = Add(Mul(x, y), z);
  return Select(b_.CreateFCmpORD(r, r), r, plain);
}

}  // namespace smelt
