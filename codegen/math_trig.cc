#include "smelt/codegen/math_trig.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

void Trigonometry::ForSetLanes(Value* lanes, const std::function<void(Value*)>& body) {
  llvm::LLVMContext& c = b_.getContext();
  llvm::Function* fn = b_.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(c, name, fn); };
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(lanes->getType());
  if (!vector) {
    llvm::BasicBlock* work = block("large");
    llvm::BasicBlock* after = block("reduced");
    b_.CreateCondBr(lanes, work, after);
    b_.SetInsertPoint(work);
    body(b_.getInt64(0));
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    return;
  }
  const int n = static_cast<int>(vector->getNumElements());
  Value* mask = b_.CreateBitCast(lanes, b_.getIntNTy(n));
  mask = b_.CreateZExt(mask, b_.getInt64Ty());
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* work = block("large");
  llvm::BasicBlock* after = block("reduced");
  b_.CreateCondBr(b_.CreateICmpNE(mask, b_.getInt64(0)), work, after);
  b_.SetInsertPoint(work);
  llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(mask, before);
  Value* lane = b_.CreateIntrinsic(llvm::Intrinsic::cttz, {b_.getInt64Ty()}, {left, b_.getTrue()});
  body(lane);
  Value* next = b_.CreateAnd(left, b_.CreateSub(left, b_.getInt64(1)));
  left->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpNE(next, b_.getInt64(0)), work, after);
  b_.SetInsertPoint(after);
}

llvm::AllocaInst* Trigonometry::Memory(Type* t) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  llvm::AllocaInst* a = at.CreateAlloca(t);
  a->setAlignment(llvm::Align(llvm::PowerOf2Ceil(std::max<uint64_t>(64, t->getPrimitiveSizeInBits() / 8))));
  return a;
}

llvm::Function* Trigonometry::ReduceLarge() {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  if (llvm::Function* f = module->getFunction("reduce_large")) return f;
  llvm::LLVMContext& c = b_.getContext();
  llvm::IRBuilder<> b(c);
  Type* i64 = b.getInt64Ty();
  Type* i128 = b.getInt128Ty();
  Type* f64 = b.getDoubleTy();
  auto* fn = llvm::Function::Create(llvm::FunctionType::get(f64, {f64, b.getPtrTy()}, false),
                                    llvm::GlobalValue::InternalLinkage, "reduce_large", module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  auto* table = new llvm::GlobalVariable(
      *module, llvm::ArrayType::get(i64, std::size(kTwoOverPi)), true, llvm::GlobalValue::PrivateLinkage,
      llvm::ConstantDataArray::get(c, llvm::ArrayRef<uint64_t>(kTwoOverPi, std::size(kTwoOverPi))), "two_over_pi");
  b.SetInsertPoint(llvm::BasicBlock::Create(c, "entry", fn));
  Value* bits = b.CreateBitCast(fn->getArg(0), i64);
  Value* mantissa = b.CreateOr(b.CreateAnd(bits, b.getInt64((int64_t{1} << 52) - 1)), b.getInt64(int64_t{1} << 52));
  // a = mantissa * 2^e. Bits of 2/pi whose product with a is a multiple of 4 do not matter: those before bit e - 1.
  Value* e = b.CreateSub(b.CreateAnd(b.CreateLShr(bits, 52), b.getInt64(0x7ff)), b.getInt64(1075));
  Value* first = b.CreateAdd(e, b.getInt64(62));  // in the table, which starts with 64 zeros; number 1 is bit 64
  Value* word = b.CreateLShr(first, 6);
  Value* shift = b.CreateAnd(first, b.getInt64(63));
  Value* w[4];
  for (int i = 0; i < 4; ++i) {
    w[i] = b.CreateLoad(i64, b.CreateGEP(i64, table, b.CreateAdd(word, b.getInt64(i))));
  }
  Value* v[3];
  for (int i = 0; i < 3; ++i) v[i] = b.CreateIntrinsic(llvm::Intrinsic::fshl, {i64}, {w[i], w[i + 1], shift});
  auto product = [&](Value* x) {
    Value* wide = b.CreateZExt(mantissa, i128);
    return b.CreateMul(b.CreateZExt(x, i128), wide);
  };
  Value* sum = b.CreateShl(product(v[0]), 64);
  sum = b.CreateAdd(sum, product(v[1]));
  sum = b.CreateAdd(sum, b.CreateLShr(product(v[2]), 64));
  // The top two bits are the quadrant, the rest its fraction; to the nearest.
  Value* half = b.CreateShl(ConstantInt::get(i128, 1), 125);
  Value* quadrant = b.CreateLShr(b.CreateAdd(sum, half), 126);
  b.CreateStore(b.CreateTrunc(quadrant, i64), fn->getArg(1));
  Value* rest = b.CreateSub(sum, b.CreateShl(quadrant, 126));
  Value* high = b.CreateSIToFP(b.CreateTrunc(b.CreateAShr(rest, 64), i64), f64);
  // The upper half of the low word is as precise as needed.
  Value* low = b.CreateSIToFP(b.CreateLShr(b.CreateTrunc(rest, i64), 1), f64);
  Value* second = b.CreateFMul(low, ConstantFP::get(f64, 2));
  Value* fraction = b.CreateFAdd(b.CreateFMul(high, ConstantFP::get(f64, 0x1p64)), second);
  b.CreateRet(b.CreateFMul(fraction, ConstantFP::get(f64, kPi / 2 * 0x1p-126)));
  return fn;
}

void Trigonometry::FixLarge(Value* large, Value* x, Value** r, Value** q) {
  llvm::Function* reduce = ReduceLarge();
  llvm::AllocaInst* xs = Memory(x->getType());
  llvm::AllocaInst* rs = Memory((*r)->getType());
  llvm::AllocaInst* qs = Memory((*q)->getType());
  b_.CreateStore(x, xs);
  b_.CreateStore(*r, rs);
  b_.CreateStore(*q, qs);
  Type* f64 = b_.getDoubleTy();
  Type* i64 = b_.getInt64Ty();
  ForSetLanes(large, [&](Value* lane) {
    Value* v = b_.CreateLoad(f64, b_.CreateGEP(f64, xs, lane));
    Value* at = b_.CreateGEP(i64, qs, lane);
    Value* a = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v);
    Value* y = b_.CreateCall(reduce, {a, at});
    // sin is odd: reduce -a to -r in quadrant -q.
    Value* negative = b_.CreateFCmpOLT(v, ConstantFP::get(f64, 0));
    Value* place = b_.CreateGEP(f64, rs, lane);
    b_.CreateStore(b_.CreateSelect(negative, b_.CreateFNeg(y), y), place);
    Value* quadrant = b_.CreateLoad(i64, at);
    b_.CreateStore(b_.CreateSelect(negative, b_.CreateNeg(quadrant), quadrant), at);
  });
  *r = b_.CreateLoad((*r)->getType(), rs);
  *q = b_.CreateLoad((*q)->getType(), qs);
}

void Trigonometry::ReducePi(Value* x, Value** r, Value** q) {
  Value* large = Ge(Abs(x), K(0x1p20));
  Value* n = Rint(Mul(x, K(2 / kPi)));
  // pi/2 in three parts; the first two of 33 bits, so that products with n < 2^20 are exact.
  Value* y = Fma(n, K(-0x1.921fb544p+0), x);
  y = Fma(n, K(-0x1.0b4611a6p-34), y);
  y = Fma(n, K(-0x1.3198a2e037073p-69), y);
  *r = y;
  // n is of no use in large lanes; keep it in range.
  *q = ToInt(Select(large, K(0), n));
  FixLarge(And(large, Lt(Abs(x), Inf())), x, r, q);
  Value* chosen = Select(IsNan(x), Nan(), *r);
  *r = Select(b_.CreateFCmpULT(Abs(x), Inf()), chosen, Nan());
}

Value* Trigonometry::SinCosTan64(ScalarOp op, Value* x) {
  Value *r, *q;
  ReducePi(x, &r, &q);
  Value* z = Mul(r, r);
  Value* poly = Poly2(z, kSin64);
  Value* sine = Fma(Mul(z, r), poly, r);
  // 1 - z/2 + z^2 P(z), with what 1 - z/2 loses
  Value* half = Mul(z, K(0.5));
  Value* w = Sub(K(1), half);
  Value* difference = Sub(Sub(K(1), w), half);
  Value* second = Poly2(z, kCos64);
  Value* cosine = Add(w, Fma(Mul(z, z), second, difference));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
  if (op == ScalarOp::kTan) {
    Value* chosen = Select(odd, sine, cosine);
    Value* y = Div(Select(odd, Neg(cosine), sine), chosen);
    return Select(Eq(x, K(0)), x, y);
  }
  if (op == ScalarOp::kCos) q = b_.CreateAdd(q, KI(1));
  odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
  Value* y = Select(odd, cosine, sine);
  Value* sign = b_.CreateShl(b_.CreateAnd(q, KI(2)), 62);
  y = FromBits(b_.CreateXor(Bits(y), sign));
  return op == ScalarOp::kSin ? Select(Eq(x, K(0)), x, y) : y;
}

Value* Trigonometry::SinCosTan32(ScalarOp op, Value* x) {
  Value* large = Ge(Abs(x), K(30000));
  Value* n = Rint(Mul(x, K(2 / kPi)));
  Value* r = Fma(n, K(-0x1.921fb6p+0), x);
  r = Fma(n, K(0x1.777a5cp-25), r);
  r = Fma(n, K(0x1.ee5a3p-50), r);
  Value* chosen = Select(IsNan(x), K(0), n);
  Value* q = b_.CreateFPToSI(Select(b_.CreateFCmpULT(Abs(x), K(30000)), chosen, K(0)), bits_);
  Type* f64 = t_->getWithNewType(b_.getDoubleTy());
  Type* i64 = t_->getWithNewType(b_.getInt64Ty());
  {
    // Only taken when needed: the conversions are inside the branch.
    llvm::Function* fn = b_.GetInsertBlock()->getParent();
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* work = llvm::BasicBlock::Create(b_.getContext(), "far", fn);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(b_.getContext(), "near", fn);
    Value* any = large->getType()->isVectorTy() ? b_.CreateOrReduce(large) : large;
    b_.CreateCondBr(any, work, after);
    b_.SetInsertPoint(work);
    Trigonometry wide(b_, f_, f64);
    Value *r2, *q2;
    wide.ReducePi(b_.CreateFPExt(x, f64), &r2, &q2);
    Value* r3 = Select(large, b_.CreateFPTrunc(r2, t_), r);
    Value* q3 = Select(large, b_.CreateTrunc(q2, bits_), q);
    (void)i64;
    llvm::BasicBlock* from = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    llvm::PHINode* rp = b_.CreatePHI(t_, 2);
    llvm::PHINode* qp = b_.CreatePHI(bits_, 2);
    rp->addIncoming(r, before);
    rp->addIncoming(r3, from);
    qp->addIncoming(q, before);
    qp->addIncoming(q3, from);
    r = rp;
    q = qp;
  }
  Value* z = Mul(r, r);
  Value* poly = Poly(z, kSin32);
  Value* sine = Fma(Mul(z, r), poly, r);
  Value* fma = Fma(z, K(-0.5), K(1));
  Value* second = Poly(z, kCos32);
  Value* cosine = Fma(Mul(z, z), second, fma);
  if (op == ScalarOp::kCos) q = b_.CreateAdd(q, KI(1));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
  if (op == ScalarOp::kTan) {
    Value* second2 = Select(odd, sine, cosine);
    Value* y = Div(Select(odd, Neg(cosine), sine), second2);
    return Select(Eq(x, K(0)), x, y);
  }
  Value* y = Select(odd, cosine, sine);
  Value* sign = b_.CreateShl(b_.CreateAnd(q, KI(2)), 30);
  y = FromBits(b_.CreateXor(Bits(y), sign));
  return op == ScalarOp::kSin ? Select(Eq(x, K(0)), x, y) : y;
}

Value* Trigonometry::ArcSine(ScalarOp op, Value* x) {
  Value* a = Abs(x);
  Value* big = Gt(a, K(0.5));
  // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above one half.
  Value* product = Mul(a, a);
  Value* z = Select(big, Mul(Sub(K(1), a), K(0.5)), product);
  Value* s = Select(big, Sqrt(z), a);
  Value* tail = is_double_ ? Poly2(z, kAsin64) : Poly(z, kAsin32);
  Value* p = Mul(Mul(z, s), tail);  // asin(s) = s + p
  const double low = is_double_ ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25;
  const double high = is_double_ ? kPi / 2 : 0x1.921fb6p+0;
  Value* twice = Mul(K(2), Add(s, p));
  if (op == ScalarOp::kAsin) {
    Value* sum = Add(s, p);
    Value* y = Select(big, Sub(K(high), Sub(twice, K(low))), sum);
    return CopySign(y, x);
  }
  Value* negative = Lt(x, K(0));
  Value* far = Select(negative, Sub(K(2 * high), Sub(twice, K(2 * low))), twice);
  Value* s_signed = Select(negative, Neg(s), s);
  Value* p_signed = Select(negative, Neg(p), p);
  Value* near = Sub(K(high), Sub(Add(s_signed, Sub(p_signed, K(low))), K(0)));
  return Select(big, far, near);
}

Value* Trigonometry::AtanPositive(Value* a) {
  const double eighth = 0.414213562373095048801688724210;
  Value* upper = Gt(a, K(2.41421356237309504880168872421));
  Value* negated = b_.CreateNot(upper);
  Value* middle = And(Gt(a, K(eighth)), negated);
  Value* top = Select(upper, K(-1), Select(middle, Sub(a, K(1)), a));
  Value* bottom = Select(upper, a, Select(middle, Add(a, K(1)), K(1)));
  Value* t = Div(top, bottom);
  Value* z = Mul(t, t);
  Value* poly = is_double_ ? Poly2(z, kAtan64) : Poly(z, kAtan32);
  Value* p = Mul(Mul(z, t), poly);
  const double high = is_double_ ? kPi / 4 : 0x1.921fb6p-1;
  const double low = is_double_ ? 0x1.1a62633145c07p-55 : -0x1.777a5cp-26;
  Value* base = Select(upper, K(2 * high), Select(middle, K(high), K(0)));
  Value* base_low = Select(upper, K(2 * low), Select(middle, K(low), K(0)));
  return Add(base, Add(t, Add(p, base_low)));
}

Value* Trigonometry::Atan2(Value* y, Value* x) {
  Value* ay = Abs(y);
  Value* ax = Abs(x);
  Value* is_equal = Eq(ax, Inf());
  Value* both_inf = And(Eq(ay, Inf()), is_equal);
  Value* second = Eq(ax, K(0));
  Value* both_zero = And(Eq(ay, K(0)), second);
  Value* ratio = Div(ay, ax);
  ratio = Select(both_inf, K(1), Select(both_zero, K(0), ratio));
  Value* t = AtanPositive(ratio);
  Value* left = b_.CreateICmpSLT(Bits(x), KI(0));
  t = Select(left, Sub(K(kPi), Sub(t, K(0x1.1a62633145c07p-53))), t);
  t = CopySign(t, y);
  return Select(b_.CreateFCmpUNO(x, y), Nan(), t);
}

}  // namespace smelt
