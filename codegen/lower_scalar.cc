#include "smelt/codegen/lower_scalar.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/MDBuilder.h"
#include "smelt/codegen/math.h"
#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

Value* Zero(Type* t) { return llvm::Constant::getNullValue(t); }

// Returns whether it does not matter which of two zeros is the minimum or maximum of vectors: PyTorch leaves it open for
// two tensors, but keeps an element that equals its bound.
bool HasNoZeroBound(Value* a, Value* z) {
  if (!a->getType()->isVectorTy()) return false;
  for (Value* v : {a, z}) {
    const Value* bound = llvm::getSplatValue(v);
    if (bound == nullptr) continue;
    const auto* constant = llvm::dyn_cast<ConstantFP>(bound);
    if (constant == nullptr || constant->isZero()) return false;
  }
  return true;
}

// An operand is looked through this many instructions. Choices among choices would take exponentially long.
constexpr int kHalfDepth = 3;

// Returns a float16 that is equal to v, a float32; null if none is known.
Value* HalfOf(llvm::IRBuilder<>& b, Value* v, int depth) {
  if (depth == 0) return nullptr;
  Type* half = v->getType()->getWithNewType(b.getHalfTy());
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(v)) {
    auto* splat = llvm::dyn_cast_or_null<ConstantFP>(v->getType()->isVectorTy() ? constant->getSplatValue() : constant);
    if (splat == nullptr) return nullptr;
    llvm::APFloat value = splat->getValueAPF();
    bool loses;
    value.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return loses ? nullptr : ConstantFP::get(half, value);
  }
  if (auto* widened = llvm::dyn_cast<llvm::FPExtInst>(v)) {
    Value* from = widened->getOperand(0);
    return from->getType() == half ? from : nullptr;
  }
  if (auto* negated = llvm::dyn_cast<llvm::UnaryOperator>(v)) {
    Value* of = HalfOf(b, negated->getOperand(0), depth - 1);
    return of ? b.CreateFNeg(of) : nullptr;
  }
  if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v); call && call->getIntrinsicID() == llvm::Intrinsic::fabs) {
    Value* of = HalfOf(b, call->getArgOperand(0), depth - 1);
    return of ? b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, of) : nullptr;
  }
  // A choice by a comparison of float16: a mask of wider lanes would have to be narrowed.
  auto* select = llvm::dyn_cast<llvm::SelectInst>(v);
  if (select != nullptr) {
    const auto* always = llvm::dyn_cast<llvm::Constant>(select->getCondition());
    if (always != nullptr && always->isNullValue()) return HalfOf(b, select->getFalseValue(), depth);
  }
  auto* compare = select ? llvm::dyn_cast<llvm::FCmpInst>(select->getCondition()) : nullptr;
  if (compare == nullptr) return nullptr;
  Value* sides[4] = {compare->getOperand(0), compare->getOperand(1), select->getTrueValue(), select->getFalseValue()};
  for (Value*& side : sides) {
    side = HalfOf(b, side, depth - 1);
    if (side == nullptr) return nullptr;
  }
  Value* chooses = b.CreateFCmp(compare->getPredicate(), sides[0], sides[1]);
  return b.CreateSelect(chooses, sides[2], sides[3]);
}

}  // namespace

Type* ScalarEmitter::TypeOf(DType t) {
  switch (t) {
    case DType::kBool:
      return b_.getInt1Ty();
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return b_.getInt8Ty();
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return b_.getInt16Ty();
    case DType::kInt32:
      return b_.getInt32Ty();
    case DType::kInt64:
      return b_.getInt64Ty();
    case DType::kFloat32:
      return b_.getFloatTy();
    case DType::kFloat64:
      return b_.getDoubleTy();
    default:
      SMELT_UNREACHABLE();
      return nullptr;
  }
}

Value* ScalarEmitter::Const(DType t, const ScalarImm& imm) {
  if (t == DType::kFloat64) return ConstantFP::get(b_.getDoubleTy(), llvm::APFloat(imm.f));
  if (IsFloat8(t)) return b_.getInt8(FloatToFloat8(t, static_cast<float>(imm.f)));
  if (IsFloating(t)) {
    llvm::APFloat v(imm.f);
    bool loses;
    const llvm::fltSemantics& semantics = t == DType::kFloat16    ? llvm::APFloat::IEEEhalf()
                                          : t == DType::kBFloat16 ? llvm::APFloat::BFloat()
                                                                  : llvm::APFloat::IEEEsingle();
    if (t != DType::kFloat32) v.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
    v.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &loses);
    if (t == DType::kFloat32) return ConstantFP::get(b_.getFloatTy(), v);
    return ConstantInt::get(b_.getInt16Ty(), v.bitcastToAPInt());
  }
  if (t == DType::kBool) return b_.getInt1(imm.i != 0);
  return ConstantInt::get(TypeOf(t), static_cast<uint64_t>(imm.i), /*IsSigned=*/true, /*ImplicitTrunc=*/true);
}

Value* ScalarEmitter::ToFloat(Value* bits, DType half) {
  Type* i32 = Like(bits, b_.getInt32Ty());
  Type* f32 = Like(bits, b_.getFloatTy());
  if (half == DType::kBFloat16) return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(bits, i32), 16), f32);
  if (half == DType::kFloat8E5M2) {
    return ToFloat(b_.CreateShl(b_.CreateZExt(bits, Like(bits, b_.getInt16Ty())), 8), DType::kFloat16);
  }
  if (half == DType::kFloat8E4M3FN) return FromFloat8E4M3FN(bits);
  if (f_.f16c) return b_.CreateFPExt(b_.CreateBitCast(bits, Like(bits, b_.getHalfTy())), f32);
  Value* wide = b_.CreateZExt(bits, i32);
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, ConstantInt::get(i32, 0x8000)), 16);
  Value* magnitude = b_.CreateAnd(wide, ConstantInt::get(i32, 0x7fff));
  Value* shifted = b_.CreateShl(magnitude, 13);
  // The exponent moves by 112. Multiplying moves it for denormals too.
  Value* scaled = b_.CreateFMul(b_.CreateBitCast(shifted, f32), ConstantFP::get(f32, 0x1p112));
  Value* special = b_.CreateOr(shifted, ConstantInt::get(i32, 0x7f800000));
  Value* is_special = b_.CreateICmpUGE(magnitude, ConstantInt::get(i32, 0x7c00));
  Value* r = b_.CreateSelect(is_special, special, b_.CreateBitCast(scaled, i32));
  return b_.CreateBitCast(b_.CreateOr(r, sign), f32);
}

// A denormal becomes a number between 2^-6 and 2^-5, of which 2^-6 is taken off: no float is denormal, which some machines
// take long for.
Value* ScalarEmitter::FromFloat8E4M3FN(Value* bits) {
  Type* i32 = Like(bits, b_.getInt32Ty());
  Type* f32 = Like(bits, b_.getFloatTy());
  auto k = [&](uint32_t x) { return ConstantInt::get(i32, x); };
  Value* wide = b_.CreateZExt(bits, i32);
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, k(0x80)), 24);
  Value* magnitude = b_.CreateAnd(wide, k(0x7f));
  Value* shifted = b_.CreateShl(magnitude, 20);
  Value* normal = b_.CreateAdd(shifted, k(120u << 23));
  Value* above = b_.CreateBitCast(b_.CreateAdd(shifted, k(121u << 23)), f32);
  Value* denormal = b_.CreateBitCast(b_.CreateFSub(above, ConstantFP::get(f32, 0x1p-6)), i32);
  Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, k(8)), denormal, normal);
  r = b_.CreateSelect(b_.CreateICmpEQ(magnitude, k(0x7f)), k(0x7ff00000), r);
  return b_.CreateBitCast(b_.CreateOr(r, sign), f32);
}

// The same as RoundToFloat8 (core/tensor/float8.h), without branches.
Value* ScalarEmitter::ToFloat8(Value* v, DType t) {
  const Float8Format& to = t == DType::kFloat8E5M2 ? kFormatE5M2 : kFormatE4M3FN;
  const uint32_t dropped = static_cast<uint32_t>(to.dropped);
  Type* i32 = Like(v, b_.getInt32Ty());
  Type* f32 = v->getType();
  auto k = [&](uint32_t x) { return ConstantInt::get(i32, x); };
  Value* bits = b_.CreateBitCast(v, i32);
  Value* nan = b_.CreateFCmpUNO(v, v);
  Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 24), k(0x80));
  Value* magnitude = b_.CreateAnd(bits, k(0x7fffffff));
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, dropped), k(1));
  const uint32_t half = (1u << (dropped - 1)) - 1;
  Value* normal = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(magnitude, k(half - to.bias)), odd), dropped);
  Value* small = b_.CreateFAdd(b_.CreateBitCast(magnitude, f32), ConstantFP::get(f32, to.shift));
  Value* denormal = b_.CreateSub(b_.CreateBitCast(small, i32), k(std::bit_cast<uint32_t>(to.shift)));
  Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, k(to.least_normal)), denormal, normal);
  r = b_.CreateSelect(b_.CreateICmpUGE(magnitude, k(to.too_large)), k(to.most), r);
  r = b_.CreateSelect(nan, k(kNanOfFloat8), r);
  return b_.CreateTrunc(b_.CreateOr(r, sign), Like(v, b_.getInt8Ty()));
}

// Uses a table of four bits for each kind of number: a NaN (the lowest two) becomes the one NaN, others stay.
Value* ScalarEmitter::OneNan(Value* v) {
  Value* nan = b_.CreateBitCast(ConstantInt::get(Like(v, b_.getInt32Ty()), 0x7fc00000), v->getType());
  Value* table = ConstantInt::get(Like(v, b_.getInt32Ty()), 0x11111100);
  return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_fixupimm_ps_512, {},
                            {nan, v, table, b_.getInt32(0), b_.getInt16(0xffff), b_.getInt32(4)});
}

// Rounds the bits of `v` to the high half, to even; the low half is undefined afterwards. Each NaN becomes one and the
// same, except short ones, which stay as they are.
Value* ScalarEmitter::RoundToHighHalf(Value* v, bool short_nans) {
  Type* i32 = Like(v, b_.getInt32Ty());
  auto k = [&](uint32_t x) { return ConstantInt::get(i32, x); };
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  if (f_.avx512 && vector && vector->getNumElements() == 16) {
    if (!short_nans) v = OneNan(v);
    Value* bits = b_.CreateBitCast(v, i32);
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(bits, k(0x10000)), k(0));
    return b_.CreateAdd(bits, b_.CreateSelect(odd, k(0x8000), k(0x7fff)));
  }
  // The last bit of the result decides a tie.
  Value* bits = b_.CreateBitCast(v, i32);
  Value* last = b_.CreateAnd(b_.CreateLShr(bits, 16), k(1));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(last, k(0x7fff)));
  return short_nans ? rounded : b_.CreateSelect(b_.CreateFCmpUNO(v, v), k(0x7fc00000), rounded);
}

// As float32 again it is a mask: nothing is moved.
Value* ScalarEmitter::HighHalf(Value* rounded) {
  return b_.CreateTrunc(b_.CreateLShr(rounded, 16), Like(rounded, b_.getInt16Ty()));
}

// The upper halves side by side are the result, except for rounding, which compares the lower halves, side by side too,
// with the middle: 7 instructions per pair of vectors, instead of 11 if each is rounded by itself. A last bit of 1
// makes a tie count as more. LLVM turns a shift and a blend into one permutation, which takes Intel's processors three
// times as long: hence the bitwise instruction by its table, "a or (b and c)".
Value* ScalarEmitter::ToBFloat16Pairs(Value* even, Value* odd, bool short_nans) {
  if (!short_nans) {
    even = OneNan(even);
    odd = OneNan(odd);
  }
  Type* i32 = Like(even, b_.getInt32Ty());
  Type* i16 = llvm::FixedVectorType::get(b_.getInt16Ty(), 32);
  auto k = [&](uint32_t x) { return ConstantInt::get(i32, x); };
  auto or_and = [&](Value* a, Value* b, Value* c) -> Value* {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_pternlog_d_512, {}, {a, b, c, b_.getInt32(0xf8)});
  };
  even = b_.CreateBitCast(even, i32);
  odd = b_.CreateBitCast(odd, i32);
  Value* high = or_and(b_.CreateLShr(even, 16), odd, k(0xffff0000));
  Value* low = or_and(b_.CreateShl(odd, 16), even, k(0xffff));
  low = b_.CreateBitCast(or_and(low, high, k(0x00010001)), i16);
  high = b_.CreateBitCast(high, i16);
  Value* up = b_.CreateICmpUGT(low, ConstantInt::get(i16, 0x8000));
  return b_.CreateBitCast(b_.CreateSelect(up, b_.CreateAdd(high, ConstantInt::get(i16, 1)), high), i32);
}

Value* ScalarEmitter::ToBFloat16(Value* v, DType from) {
  v = Cast(v, from, DType::kFloat32);
  return f_.bf16 ? RoundedByInstruction(v) : HighHalf(RoundToHighHalf(v, /*short_nans=*/true));
}

// A NaN stays one, made quiet, with the leading bits of its payload.
Value* ScalarEmitter::RoundedByInstruction(Value* v) {
  return b_.CreateBitCast(b_.CreateFPTrunc(v, Like(v, b_.getBFloatTy())), Like(v, b_.getInt16Ty()));
}

Value* ScalarEmitter::AsHalf(Value* v) { return HalfOf(b_, v, kHalfDepth); }

// The sum, difference, product, quotient or root in float32 of values of float16 is rounded to float16 as if it was
// exact, since 24 bits are at least twice 11 and 2 more: the instruction for float16 gives the same.
Value* ScalarEmitter::HalfArithmetic(Value* v) {
  if (llvm::isa<llvm::Constant>(v)) return nullptr;
  if (Value* same = AsHalf(v)) return same;
  if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v); call && call->getIntrinsicID() == llvm::Intrinsic::sqrt) {
    Value* of = AsHalf(call->getArgOperand(0));
    return of ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, of) : nullptr;
  }
  auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(v);
  if (operation == nullptr) return nullptr;
  Value* a = AsHalf(operation->getOperand(0));
  Value* z = a ? AsHalf(operation->getOperand(1)) : nullptr;
  return z ? b_.CreateBinOp(operation->getOpcode(), a, z) : nullptr;
}

Value* ScalarEmitter::FromFloat(Value* v, DType half) {
  if (IsFloat8(half)) return ToFloat8(v, half);
  Type* i32 = Like(v, b_.getInt32Ty());
  Type* i16 = Like(v, b_.getInt16Ty());
  Type* f32 = v->getType();
  auto k = [&](uint32_t x) { return ConstantInt::get(i32, x); };
  if (half == DType::kBFloat16 && f_.bf16) return RoundedByInstruction(v);
  if (half == DType::kBFloat16) return HighHalf(RoundToHighHalf(v, /*short_nans=*/false));
  if (f_.fp16) {
    if (Value* computed = HalfArithmetic(v)) return b_.CreateBitCast(computed, i16);
  }
  if (f_.f16c) return b_.CreateBitCast(b_.CreateFPTrunc(v, Like(v, b_.getHalfTy())), i16);
  Value* bits = b_.CreateBitCast(v, i32);
  Value* nan = b_.CreateFCmpUNO(v, v);
  Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 16), k(0x8000));
  Value* magnitude = b_.CreateAnd(bits, k(0x7fffffff));
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, 13), k(1));
  Value* normal = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(magnitude, k(0xfffu - (112u << 23))), odd), 13);
  // Below 2^-14: adding 0.5 lets the addition round at float16's last place.
  Value* small = b_.CreateFAdd(b_.CreateBitCast(magnitude, f32), ConstantFP::get(f32, 0.5));
  Value* denormal = b_.CreateSub(b_.CreateBitCast(small, i32), k(0x3f000000));
  Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, k(0x38800000)), denormal, normal);
  r = b_.CreateSelect(b_.CreateICmpUGE(magnitude, k(0x477ff000)), k(0x7c00), r);  // 65520 and above
  r = b_.CreateSelect(nan, k(0x7e00), r);
  return b_.CreateTrunc(b_.CreateOr(r, sign), i16);
}

// Converts through int32, or int64: NaN, and numbers that do not fit there, become its least value; then the low bits
// count.
Value* ScalarEmitter::ToInteger(Value* v, DType to) {
  const bool wide = to == DType::kInt64;
  Type* real = v->getType();
  Type* type = Like(v, wide ? b_.getInt64Ty() : b_.getInt32Ty());
  const double limit = wide ? 0x1p63 : 0x1p31;
  if (f_.neon && (wide || real->getScalarType()->isFloatTy())) {
    // The machine's conversion between types of one width gives the nearest number that fits, and 0 for NaN.
    if (wide) {
      real = Like(v, b_.getDoubleTy());
      v = real == v->getType() ? v : b_.CreateFPExt(v, real);
    }
    Value* nearest = b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, real}, {v});
    Value* is_less = b_.CreateFCmpOLT(v, ConstantFP::get(real, limit));
    Value* least = ConstantInt::get(type, llvm::APInt::getSignedMinValue(wide ? 64 : 32));
    return b_.CreateTrunc(b_.CreateSelect(is_less, nearest, least), Like(v, TypeOf(to)));
  }
  // A value that truncates to -limit from below it becomes -limit either way.
  Value* is_less = b_.CreateFCmpOLT(v, ConstantFP::get(real, limit));
  Value* fits = b_.CreateAnd(b_.CreateFCmpOGE(v, ConstantFP::get(real, -limit)), is_less);
  Value* r = b_.CreateFPToSI(b_.CreateSelect(fits, v, Zero(real)), type);
  r = b_.CreateSelect(fits, r, ConstantInt::get(type, llvm::APInt::getSignedMinValue(wide ? 64 : 32)));
  return b_.CreateTrunc(r, Like(v, TypeOf(to)));
}

Value* ScalarEmitter::FromWord(Value* word, DType t) {
  if (IsFloating(t)) return Cast(b_.CreateBitCast(word, b_.getDoubleTy()), DType::kFloat64, t);
  if (t == DType::kBool) return b_.CreateICmpNE(word, b_.getInt64(0));
  return b_.CreateTrunc(word, TypeOf(t));
}

Value* ScalarEmitter::Cast(Value* v, DType from, DType to) {
  if (from == to) return v;
  const bool from_half = OpMathType(from) != from;
  const bool to_half = OpMathType(to) != to;
  if (from_half) return Cast(ToFloat(v, from), DType::kFloat32, to);
  // PyTorch converts to float first, whatever the source.
  if (to_half) return FromFloat(Cast(v, from, DType::kFloat32), to);
  Type* type = Like(v, TypeOf(to));
  if (to == DType::kBool) {
    return IsFloating(from) ? b_.CreateFCmpUNE(v, Zero(v->getType())) : b_.CreateICmpNE(v, Zero(v->getType()));
  }
  if (IsFloating(from)) {
    if (!IsFloating(to)) return ToInteger(v, to);
    return to == DType::kFloat64 ? b_.CreateFPExt(v, type) : b_.CreateFPTrunc(v, type);
  }
  if (IsFloating(to)) return IsSigned(from) ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
  return IsSigned(from) ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
}

// Integer quotients and remainders that neither trap nor depend on the machine at the edges.
Value* ScalarEmitter::Divide(ScalarOp op, DType t, Value* a, Value* z) {
  Type* type = a->getType();
  const bool is_signed = IsSigned(t);
  const int bits = 8 * ItemSize(t);
  Value* one = ConstantInt::get(type, 1);
  Value* by_zero = b_.CreateICmpEQ(z, Zero(type));
  status_(2, by_zero);
  Value* by_minus_one = is_signed ? b_.CreateICmpEQ(z, llvm::Constant::getAllOnesValue(type)) : nullptr;
  Value* safe = b_.CreateSelect(by_minus_one ? b_.CreateOr(by_zero, by_minus_one) : by_zero, one, z);
  Value* q;
  if (bits < 64) {
    // The quotient is exact in the next floating-point type: the machine has no vector division of integers.
    Type* real = Like(a, bits < 32 ? b_.getFloatTy() : b_.getDoubleTy());
    Type* wide = Like(a, b_.getInt32Ty());
    Value* x = is_signed ? b_.CreateSIToFP(a, real) : b_.CreateUIToFP(a, real);
    Value* y = is_signed ? b_.CreateSIToFP(safe, real) : b_.CreateUIToFP(safe, real);
    q = b_.CreateFPToSI(b_.CreateFDiv(x, y), wide);
    if (bits < 32) q = b_.CreateTrunc(q, type);
  } else {
    q = a->getType()->isVectorTy() ? Quotients(a, safe) : b_.CreateSDiv(a, safe);
  }
  if (by_minus_one) q = b_.CreateSelect(by_minus_one, b_.CreateNeg(a), q);
  // By -1 the remainder is a - (-a) * (-1) = 0, overflow or not.
  Value* r = b_.CreateSub(a, b_.CreateMul(q, b_.CreateSelect(by_zero, one, z)));
  Value* result;
  Value* adjust = nullptr;
  if (is_signed) {
    Value* is_less = b_.CreateICmpSLT(b_.CreateXor(r, z), Zero(type));
    adjust = b_.CreateAnd(b_.CreateICmpNE(r, Zero(type)), is_less);
  }
  switch (op) {
    case ScalarOp::kDivTrunc:
      result = q;
      break;
    case ScalarOp::kDivFloor:
      result = adjust ? b_.CreateSelect(adjust, b_.CreateSub(q, one), q) : q;
      break;
    case ScalarOp::kRemTrunc:
      result = r;
      break;
    default:
      result = adjust ? b_.CreateSelect(adjust, b_.CreateAdd(r, z), r) : r;
      break;
  }
  return b_.CreateSelect(by_zero, Zero(type), result);
}

// Divides vectors of int64 and truncates; z is neither 0 nor -1. Indices are small: where all lanes are below 2^50,
// doubles hold them, and their rounded quotient is never the next integer. Otherwise a loop divides one lane after the
// other. A division for each lane in straight code would be thousands of instructions in a kernel that decomposes
// indices.
Value* ScalarEmitter::Quotients(Value* a, Value* z) {
  Type* type = a->getType();
  Type* real = Like(a, b_.getDoubleTy());
  // 1.5 * 2^52: adding it to an integer of at most 51 bits, as bits or as a number, converts between the two.
  Value* magic = llvm::ConstantFP::get(real, 6755399441055744.0);
  Value* magic_bits = ConstantInt::get(type, 0x4338000000000000);
  auto is_small = [&](Value* v) {
    return b_.CreateICmpULT(b_.CreateAdd(v, ConstantInt::get(type, int64_t{1} << 50)),
                            ConstantInt::get(type, int64_t{1} << 51));
  };
  auto to_real = [&](Value* v) { return b_.CreateFSub(b_.CreateBitCast(b_.CreateAdd(v, magic_bits), real), magic); };
  llvm::LLVMContext& context = b_.getContext();
  llvm::Function* fn = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, fn); };
  llvm::BasicBlock *small = block("small"), *large = block("large"), *lane = block("lane"), *done = block("divided");
  Value* second = is_small(z);
  b_.CreateCondBr(b_.CreateAndReduce(b_.CreateAnd(is_small(a), second)), small, large,
                  llvm::MDBuilder(context).createLikelyBranchWeights());
  b_.SetInsertPoint(small);
  Value* second2 = to_real(z);
  Value* rounded = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateFDiv(to_real(a), second2));
  Value* fast = b_.CreateSub(b_.CreateBitCast(b_.CreateFAdd(rounded, magic), type), magic_bits);
  b_.CreateBr(done);
  b_.SetInsertPoint(large);
  b_.CreateBr(lane);
  b_.SetInsertPoint(lane);
  llvm::PHINode* k = b_.CreatePHI(b_.getInt64Ty(), 2);
  llvm::PHINode* q = b_.CreatePHI(type, 2);
  Value* second3 = b_.CreateExtractElement(z, k);
  Value* one = b_.CreateSDiv(b_.CreateExtractElement(a, k), second3);
  Value* slow = b_.CreateInsertElement(q, one, k);
  Value* next = b_.CreateAdd(k, b_.getInt64(1));
  k->addIncoming(b_.getInt64(0), large);
  k->addIncoming(next, lane);
  q->addIncoming(Zero(type), large);
  q->addIncoming(slow, lane);
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(type)->getNumElements();
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(lanes)), lane, done);
  b_.SetInsertPoint(done);
  llvm::PHINode* result = b_.CreatePHI(type, 2);
  result->addIncoming(fast, small);
  result->addIncoming(slow, lane);
  return result;
}

// Squares and multiplies, as long as some lane's exponent has bits. A negative exponent gives 1 / base, truncated, as
// in PyTorch.
Value* ScalarEmitter::IntegerPower(DType t, Value* base, Value* exponent) {
  Type* type = base->getType();
  Value* one = ConstantInt::get(type, 1);
  Value* minus_one = llvm::Constant::getAllOnesValue(type);
  Value* negative = IsSigned(t) ? b_.CreateICmpSLT(exponent, Zero(type)) : nullptr;
  Value* left = negative ? b_.CreateSelect(negative, Zero(type), exponent) : exponent;
  llvm::Function* fn = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(b_.getContext(), "power", fn);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(b_.getContext(), "powered", fn);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* r = b_.CreatePHI(type, 2);
  llvm::PHINode* power = b_.CreatePHI(type, 2);
  llvm::PHINode* e = b_.CreatePHI(type, 2);
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(e, one), Zero(type));
  Value* next_r = b_.CreateSelect(odd, b_.CreateMul(r, power), r);
  Value* next_power = b_.CreateMul(power, power);
  Value* next_e = b_.CreateLShr(e, one);
  r->addIncoming(one, before);
  power->addIncoming(base, before);
  e->addIncoming(left, before);
  r->addIncoming(next_r, loop);
  power->addIncoming(next_power, loop);
  e->addIncoming(next_e, loop);
  Value* more = b_.CreateICmpNE(next_e, Zero(type));
  if (more->getType()->isVectorTy()) more = b_.CreateOrReduce(more);
  b_.CreateCondBr(more, loop, done);
  b_.SetInsertPoint(done);
  if (!negative) return next_r;
  Value* odd_exponent = b_.CreateICmpNE(b_.CreateAnd(exponent, one), Zero(type));
  Value* of_minus_one = b_.CreateSelect(odd_exponent, minus_one, one);
  Value* chosen = b_.CreateSelect(b_.CreateICmpEQ(base, minus_one), of_minus_one, Zero(type));
  Value* inverse = b_.CreateSelect(b_.CreateICmpEQ(base, one), one, chosen);
  return b_.CreateSelect(negative, inverse, next_r);
}

Value* ScalarEmitter::MinMax(ScalarOp op, DType t, Value* a, Value* z) {
  const bool min = op == ScalarOp::kMin || op == ScalarOp::kFMin;
  if (!IsFloating(t)) {
    using P = llvm::CmpInst;
    auto p = min ? (IsSigned(t) ? P::ICMP_SLT : P::ICMP_ULT) : (IsSigned(t) ? P::ICMP_SGT : P::ICMP_UGT);
    return b_.CreateSelect(b_.CreateICmp(p, a, z), a, z);
  }
  const bool nan_wins = op == ScalarOp::kMin || op == ScalarOp::kMax;
  if (f_.neon && HasNoZeroBound(a, z)) {
    if (nan_wins) return min ? b_.CreateMinimum(a, z) : b_.CreateMaximum(a, z);
    return min ? b_.CreateMinNum(a, z) : b_.CreateMaxNum(a, z);
  }
  // Chooses the first of two equal values, zeros of either sign included. A z that is a bound is checked for NaN once,
  // not for every element.
  Value* better = min ? b_.CreateFCmpOLT(z, a) : b_.CreateFCmpOGT(z, a);
  // If a is NaN, nothing compares and a is chosen; z that is NaN is chosen here.
  Value* special = nan_wins ? b_.CreateFCmpUNO(z, z) : b_.CreateFCmpUNO(a, a);
  return b_.CreateSelect(special, z, b_.CreateSelect(better, z, a));
}

// A function's code is repeated each time it is inlined; on a kernel of a hundred lgammas LLVM would work for half a
// minute. From this size on it is called: beside it some spilled registers cost nothing.
constexpr int kMaxInlined = 1500;

Value* ScalarEmitter::Math(ScalarOp op, Value* x, Value* y) {
  if (Value* r = math_ ? math_(op, x, y) : nullptr) return r;
  int& inlined = inlined_[{op, x->getType()}];
  if (inlined >= kMaxInlined) return CallMath(op, x, y);
  Value* r = EmitMath(b_, f_, op, x, y);
  if (r != nullptr) inlined += MathCost(op);
  return r;
}

Value* ScalarEmitter::CallMath(ScalarOp op, Value* x, Value* y) {
  Type* type = x->getType();
  const int lanes =
      type->isVectorTy() ? static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()) : 1;
  const std::string name =
      absl::StrCat("math_", Name(op), "_", type->getScalarSizeInBits(), type->isVectorTy() ? "x" : "s", lanes);
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  llvm::Function* fn = module->getFunction(name);
  std::vector<Value*> arguments = {x};
  if (y != nullptr) arguments.push_back(y);
  if (fn == nullptr) {
    const std::vector<Type*> types(arguments.size(), type);
    fn = llvm::Function::Create(llvm::FunctionType::get(type, types, false), llvm::GlobalValue::InternalLinkage, name,
                                module);
    fn->addFnAttr(llvm::Attribute::NoInline);
    const llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", fn));
    b_.CreateRet(EmitMath(b_, f_, op, fn->getArg(0), y != nullptr ? fn->getArg(1) : nullptr));
  }
  return b_.CreateCall(fn, arguments);
}

Value* ScalarEmitter::Emit(ScalarOp op, DType type, const DType* types, Value* const* v, int lanes) {
  const bool real = IsFloating(type);
  Value* a = v[0];
  Value* z = v[1];
  auto unary = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, a); };
  auto compare = [&](llvm::CmpInst::Predicate f, llvm::CmpInst::Predicate s, llvm::CmpInst::Predicate u) {
    if (IsFloating(types[0])) return b_.CreateFCmp(f, a, z);
    return b_.CreateICmp(IsSigned(types[0]) ? s : u, a, z);
  };
  using P = llvm::CmpInst;
  switch (op) {
    case ScalarOp::kCast:
      return Cast(a, types[0], type);
    case ScalarOp::kAdd:
      return type == DType::kBool ? b_.CreateOr(a, z) : real ? b_.CreateFAdd(a, z) : b_.CreateAdd(a, z);
    case ScalarOp::kSub:
      return type == DType::kBool ? b_.CreateXor(a, z) : real ? b_.CreateFSub(a, z) : b_.CreateSub(a, z);
    case ScalarOp::kMul:
      return type == DType::kBool ? b_.CreateAnd(a, z) : real ? b_.CreateFMul(a, z) : b_.CreateMul(a, z);
    case ScalarOp::kDiv:
      return b_.CreateFDiv(a, z);
    case ScalarOp::kRemTrunc:
      if (real) return Math(op, a, z);
      return Divide(op, type, a, z);
    case ScalarOp::kRemFloor: {
      if (!real) return Divide(op, type, a, z);
      Value* r = Math(ScalarOp::kRemTrunc, a, z);
      Value* zero = Zero(r->getType());
      Value* is_less = b_.CreateFCmpOLT(r, zero);
      Value* differ = b_.CreateICmpNE(b_.CreateFCmpOLT(z, zero), is_less);
      Value* sum = b_.CreateFAdd(r, z);
      return b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpUNE(r, zero), differ), sum, r);
    }
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
      return Divide(op, type, a, z);
    case ScalarOp::kNeg:
      return type == DType::kBool ? a : real ? b_.CreateFNeg(a) : b_.CreateNeg(a);
    case ScalarOp::kAbs: {
      if (real) return unary(llvm::Intrinsic::fabs);
      if (!IsSigned(type)) return a;
      Value* negative = b_.CreateNeg(a);
      return b_.CreateSelect(b_.CreateICmpSLT(a, Zero(a->getType())), negative, a);
    }
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
      return MinMax(op, type, a, z);
    case ScalarOp::kPow:
      return real ? Math(op, a, z) : IntegerPower(type, a, z);
    case ScalarOp::kFma:
      return EmitExactFma(b_, f_, a, z, v[2]);
    case ScalarOp::kCopysign:
      return EmitCopySign(b_, f_, a, z);
    case ScalarOp::kAnd:
      return b_.CreateAnd(a, z);
    case ScalarOp::kOr:
      return b_.CreateOr(a, z);
    case ScalarOp::kXor:
      return b_.CreateXor(a, z);
    case ScalarOp::kNot:
      return b_.CreateNot(a);
    case ScalarOp::kShl:
    case ScalarOp::kShr: {
      // PyTorch: a shift by the width or more, or by a negative number, shifts everything out.
      const unsigned bits = 8 * ItemSize(type);
      Type* t = a->getType();
      const bool keeps_sign = op == ScalarOp::kShr && IsSigned(type);
      // The shift is given as a scalar where all lanes shift alike: the machine has no other shifts of bytes.
      Value* alike = t->isVectorTy() ? const_cast<Value*>(llvm::getSplatValue(z)) : nullptr;
      Value* by = alike != nullptr ? alike : z;
      Value* too_far = b_.CreateICmpUGE(by, ConstantInt::get(by->getType(), bits));
      by = b_.CreateSelect(too_far, ConstantInt::get(by->getType(), keeps_sign ? bits - 1 : 0), by);
      if (alike != nullptr) by = b_.CreateVectorSplat(llvm::cast<llvm::FixedVectorType>(t)->getNumElements(), by);
      if (keeps_sign) return b_.CreateAShr(a, by);
      return b_.CreateSelect(too_far, Zero(t), op == ScalarOp::kShl ? b_.CreateShl(a, by) : b_.CreateLShr(a, by));
    }
    case ScalarOp::kEq:
      return compare(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case ScalarOp::kNe:
      return compare(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case ScalarOp::kLt:
      return compare(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case ScalarOp::kLe:
      return compare(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case ScalarOp::kGt:
      return compare(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    case ScalarOp::kGe:
      return compare(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
    case ScalarOp::kSelect:
      return b_.CreateSelect(a, z, v[2]);
    case ScalarOp::kIsNan:
      return b_.CreateFCmpUNO(a, a);
    case ScalarOp::kIsInf:
      return b_.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs), ConstantFP::getInfinity(a->getType()));
    case ScalarOp::kSignbit: {
      Type* bits = Like(a, b_.getIntNTy(8 * ItemSize(types[0])));
      return b_.CreateICmpSLT(b_.CreateBitCast(a, bits), Zero(bits));
    }
    case ScalarOp::kFloor:
      return unary(llvm::Intrinsic::floor);
    case ScalarOp::kCeil:
      return unary(llvm::Intrinsic::ceil);
    case ScalarOp::kTrunc:
      return unary(llvm::Intrinsic::trunc);
    case ScalarOp::kRound:
      return unary(llvm::Intrinsic::roundeven);
    case ScalarOp::kSqrt:
      return unary(llvm::Intrinsic::sqrt);
    case ScalarOp::kArg:
    case ScalarOp::kConst:
    case ScalarOp::kNumOps:
      SMELT_UNREACHABLE();
      return nullptr;
    default: {
      Value* r = Math(op, a, z);
      SMELT_CHECK(r != nullptr) << Name(op);
      return r;
    }
  }
}

Value* IndexesNothing(llvm::IRBuilder<>& b, const KernelSpec& spec, const std::vector<Value*>& sizes,
                      const std::vector<Value*>& scalars) {
  Value* any = nullptr;
  for (const IndexedSize& indexed : IndexedSizes(spec)) {
    const KernelInstr& in = spec.instrs[indexed.instr];
    Value* size = in.op == KernelOp::kScalarParam ? scalars[in.dim]
                  : in.op == KernelOp::kDimSize   ? sizes[in.dim]
                                                  : b.getInt64(in.imm.i);
    Value* bad = b.CreateICmpSLE(size, b.getInt64(0));
    for (int d = 0; d < (indexed.inner ? spec.rank() : spec.parallel_rank); ++d) {
      bad = b.CreateAnd(bad, b.CreateICmpSGT(sizes[d], b.getInt64(0)));
    }
    any = any ? b.CreateOr(any, bad) : bad;
  }
  return any;
}

}  // namespace smelt
