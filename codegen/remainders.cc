#include "smelt/codegen/remainders.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"

namespace smelt {

using llvm::Type;
using llvm::Value;

Value* Remainders::Hypot(Value* x, Value* y) {
  Value* a = Abs(x);
  Value* c = Abs(y);
  Value* big = Select(Gt(a, c), a, c);
  // A power of two that brings the larger to about 1.
  Value* e = b_.CreateAnd(Bits(big), KI(0x7ff0000000000000));
  Value* scale = FromBits(b_.CreateSub(KI(0x7fd0000000000000), e));
  Value* is_less = Lt(big, K(0x1p1000));
  Value* normal = And(Gt(big, K(0x1p-1000)), is_less);
  scale = Select(normal, scale, Select(Gt(big, K(1)), K(0x1p-600), K(0x1p600)));
  Value* u = Mul(a, scale);
  Value* v = Mul(c, scale);
  Value* r = Div(Sqrt(Fma(u, u, Mul(v, v))), scale);
  r = Select(b_.CreateFCmpUNO(x, y), Nan(), r);
  Value* is_equal = Eq(c, Inf());
  return Select(Or(Eq(a, Inf()), is_equal), Inf(), r);
}

Value* Remainders::NextAfter(Value* x, Value* y) {
  Value* bits = Bits(x);
  Value* is_greater = Gt(x, K(0));
  Value* up = b_.CreateICmpEQ(Lt(x, y), is_greater);
  Value* moved = FromBits(b_.CreateAdd(bits, Select(up, KI(1), KI(-1))));
  Value* least = CopySign(FromBits(KI(1)), y);
  Value* r = Select(Eq(x, K(0)), least, moved);
  r = Select(Eq(x, y), y, r);
  return Select(b_.CreateFCmpUNO(x, y), Nan(), r);
}

void Remainders::While(std::vector<Value*>& state, const std::function<Value*(std::vector<Value*>&)>& body) {
  llvm::Function* fn = b_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(b_.getContext(), "again", fn);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(b_.getContext(), "enough", fn);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  std::vector<llvm::PHINode*> phis;
  for (Value*& v : state) {
    phis.push_back(b_.CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
    v = phis.back();
  }
  Value* more = body(state);
  if (more->getType()->isVectorTy()) more = b_.CreateOrReduce(more);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(state[i], b_.GetInsertBlock());
  b_.CreateCondBr(more, loop, done);
  b_.SetInsertPoint(done);
}

Value* Remainders::Fmod32(Value* x, Value* y) {
  Type* f64 = t_->getWithNewType(b_.getDoubleTy());
  FloatEmitter w(b_, f_, f64);
  Value* is_greater = Gt(Abs(y), K(0));
  Value* ok = And(Lt(Abs(x), Inf()), is_greater);  // false for NaN too
  Value* a = b_.CreateFPExt(Select(ok, Abs(x), K(0)), f64);
  Value* d = b_.CreateFPExt(Select(ok, Abs(y), K(1)), f64);
  std::vector<Value*> state = {a};
  Value* d_exponent = b_.CreateLShr(w.Bits(d), 52);
  Value* d_finite = w.Lt(d, w.Inf());
  While(state, [&](std::vector<Value*>& s) {
    Value* r = s[0];
    Value* k = b_.CreateSub(b_.CreateSub(b_.CreateLShr(w.Bits(r), 52), d_exponent), w.KI(26));
    k = Select(And(b_.CreateICmpSGT(k, w.KI(0)), d_finite), k, w.KI(0));
    Value* step = w.Mul(d, w.PowerOfTwo(k));
    Value* q = w.Floor(w.Div(r, step));
    Value* next = w.Sub(r, w.Mul(q, step));
    next = Select(d_finite, next, r);
    s[0] = next;
    return And(w.Ge(next, d), d_finite);
  });
  Value* r = CopySign(b_.CreateFPTrunc(state[0], t_), x);
  r = Select(ok, r, Nan());
  return Select(IsNan(y), Nan(), r);
}

Value* Remainders::Fmod64(Value* x, Value* y) {
  Value* a = Abs(x);
  Value* d = Abs(y);
  Value* is_less = Lt(d, Inf());
  Value* both = And(Gt(d, K(0)), is_less);
  Value* ok = And(Lt(a, Inf()), both);
  a = Select(ok, a, K(1));
  d = Select(ok, d, K(1));
  auto split = [&](Value* v, Value** m, Value** e) {
    Value* bits = Bits(v);
    Value* field = b_.CreateLShr(bits, 52);
    Value* denormal = b_.CreateICmpEQ(field, KI(0));
    Value* fraction = b_.CreateAnd(bits, KI((int64_t{1} << 52) - 1));
    *m = Select(denormal, fraction, b_.CreateOr(fraction, KI(int64_t{1} << 52)));
    *e = Select(denormal, KI(1), field);
  };
  Value *am, *ae, *dm, *de;
  split(a, &am, &ae);
  split(d, &dm, &de);
  Value* smaller = Lt(a, d);
  Value* shift = b_.CreateSub(ae, de);
  // With a >= d > 0 the exponents differ by >= 0. The mantissa of a denormal d may be small, which does no harm.
  shift = Select(smaller, KI(0), shift);
  std::vector<Value*> state = {am, shift};
  While(state, [&](std::vector<Value*>& s) {
    Value* n = Select(b_.CreateICmpSLT(s[1], KI(11)), s[1], KI(11));
    s[0] = b_.CreateURem(b_.CreateShl(s[0], n), dm);
    s[1] = b_.CreateSub(s[1], n);
    return b_.CreateICmpSGT(s[1], KI(0));
  });
  // r = m * 2^(de - 1075), m < 2^53.
  Value* m = state[0];
  // int64 to double, exactly, below 2^53: by halves.
  Value* high = Sub(FromBits(b_.CreateOr(b_.CreateLShr(m, 32), KI(0x4330000000000000))), K(0x1p52));
  Value* low = Sub(FromBits(b_.CreateOr(b_.CreateAnd(m, KI(0xffffffff)), KI(0x4330000000000000))), K(0x1p52));
  Value* real = Add(Mul(high, K(0x1p32)), low);
  // 2^(de - 1075) in two factors.
  Value* e = b_.CreateSub(de, KI(1075));
  Value* e1 = b_.CreateAShr(e, 1);
  Value* power = PowerOfTwo(b_.CreateSub(e, e1));
  Value* r = Mul(Mul(real, PowerOfTwo(e1)), power);
  r = Select(smaller, a, r);
  r = CopySign(r, x);
  r = Select(ok, r, Nan());
  // A finite x is its own remainder by infinity.
  Value* is_equal = Eq(Abs(y), Inf());
  return Select(And(Lt(Abs(x), Inf()), is_equal), x, r);
}

}  // namespace smelt
