// How functions are computed. Those that hot loops use have float versions; the others are computed in double and
// rounded, which makes them nearly correctly rounded for float. No function calls anything outside the module;
// arguments that need unbounded work (sin of 1e30) leave the vector for a loop over its lanes.
#include "smelt/codegen/math.h"

#include <cmath>
#include <functional>
#include <iterator>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include "smelt/codegen/math_tables.h"

namespace smelt {
namespace {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr double kLog2e = 1.44269504088896340735992468100;
constexpr double kPi = 3.14159265358979323846264338328;

class Math {
 public:
  Math(llvm::IRBuilder<>& b, const CpuFeatures& f, Type* t) : b_(b), f_(f), t_(t) {
    is_double_ = t->getScalarType()->isDoubleTy();
    bits_ = t->getWithNewType(is_double_ ? b.getInt64Ty() : b.getInt32Ty());
    mantissa_ = is_double_ ? 52 : 23;
    bias_ = is_double_ ? 1023 : 127;
  }

  Value* Emit(ScalarOp op, Value* x, Value* y) {
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
      case ScalarOp::kNextAfter:
        return NextAfter(x, y);
      case ScalarOp::kSin:
      case ScalarOp::kCos:
      case ScalarOp::kTan:
        if (!is_double_ && f_.fma && op != ScalarOp::kTan) return SinCos32(op, x);
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
      Math in_double(b_, f_, wide);
      Value* r = in_double.Emit(op, b_.CreateFPExt(x, wide), y ? b_.CreateFPExt(y, wide) : nullptr);
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
      case ScalarOp::kErfinv:
        return Erfinv(x);
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

  Value* ExactFma(Value* x, Value* y, Value* z) {
    if (f_.fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {t_}, {x, y, z});
    if (!is_double_) {
      // The product is exact in double; the sum is rounded to odd, so that rounding it again to float is as rounding
      // once.
      Type* wide = t_->getWithNewType(b_.getDoubleTy());
      Math w(b_, f_, wide);
      Value* p = w.Mul(b_.CreateFPExt(x, wide), b_.CreateFPExt(y, wide));
      Value *s, *e;
      w.TwoSum(p, b_.CreateFPExt(z, wide), &s, &e);
      return b_.CreateFPTrunc(w.ToOdd(s, e), t_);
    }
    // Boldo and Melquiond's emulation; exact but where the product's parts leave the exponent range.
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

 private:
  // ---- the vocabulary ----

  Value* K(double v) { return ConstantFP::get(t_, v); }
  Value* KI(int64_t v) { return ConstantInt::get(bits_, static_cast<uint64_t>(v), true, true); }
  Value* Add(Value* a, Value* c) { return b_.CreateFAdd(a, c); }
  Value* Sub(Value* a, Value* c) { return b_.CreateFSub(a, c); }
  Value* Mul(Value* a, Value* c) { return b_.CreateFMul(a, c); }
  Value* Div(Value* a, Value* c) { return b_.CreateFDiv(a, c); }
  Value* Neg(Value* a) { return b_.CreateFNeg(a); }
  Value* Abs(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a); }
  Value* Sqrt(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a); }
  Value* Rint(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a); }
  Value* Floor(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a); }
  Value* CopySign(Value* a, Value* s) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, a, s); }
  Value* Select(Value* c, Value* a, Value* z) { return b_.CreateSelect(c, a, z); }
  Value* Lt(Value* a, Value* z) { return b_.CreateFCmpOLT(a, z); }
  Value* Gt(Value* a, Value* z) { return b_.CreateFCmpOGT(a, z); }
  Value* Ge(Value* a, Value* z) { return b_.CreateFCmpOGE(a, z); }
  Value* Eq(Value* a, Value* z) { return b_.CreateFCmpOEQ(a, z); }
  Value* Or(Value* a, Value* z) { return b_.CreateOr(a, z); }
  Value* And(Value* a, Value* z) { return b_.CreateAnd(a, z); }
  Value* IsNan(Value* a) { return b_.CreateFCmpUNO(a, a); }
  // min and max with a constant that let NaN through, in the form the machine has an instruction for.
  Value* AtMost(Value* x, double limit) { return Select(Lt(K(limit), x), K(limit), x); }
  Value* AtLeast(Value* x, double limit) { return Select(Gt(K(limit), x), K(limit), x); }
  Value* Bits(Value* x) { return b_.CreateBitCast(x, bits_); }
  Value* FromBits(Value* x) { return b_.CreateBitCast(x, t_); }
  Value* Inf() { return ConstantFP::getInfinity(t_); }
  Value* Nan() { return ConstantFP::getNaN(t_); }

  // a * c + d; rounded once where the machine has fma, twice elsewhere.
  Value* Fma(Value* a, Value* c, Value* d) {
    if (f_.fma) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {t_}, {a, c, d});
    return Add(Mul(a, c), d);
  }
  template <size_t N>
  Value* Poly(Value* x, const double (&c)[N]) {
    return Poly(x, c, N);
  }
  Value* Poly(Value* x, const double* c, size_t n) {
    Value* r = K(c[n - 1]);
    for (size_t i = n - 1; i-- > 0;) r = Fma(r, x, K(c[i]));
    return r;
  }
  // Even and odd halves apart: shorter chains, for the long polynomials of double.
  template <size_t N>
  Value* Poly2(Value* x, const double (&c)[N]) {
    Value* z = Mul(x, x);
    std::vector<double> even, odd;
    for (size_t i = 0; i < N; ++i) (i % 2 ? odd : even).push_back(c[i]);
    return Fma(Poly(z, odd.data(), odd.size()), x, Poly(z, even.data(), even.size()));
  }

  void TwoSum(Value* a, Value* c, Value** s, Value** e) {
    *s = Add(a, c);
    Value* part = Sub(*s, a);
    *e = Add(Sub(a, Sub(*s, part)), Sub(c, part));
  }
  // |a| >= |c|
  void FastTwoSum(Value* a, Value* c, Value** s, Value** e) {
    *s = Add(a, c);
    *e = Sub(c, Sub(*s, a));
  }
  void TwoProduct(Value* a, Value* c, Value** p, Value** e) {
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
    *e = Add(Sub(Mul(ah, ch), *p), Add(Mul(ah, cl), Mul(al, ch)));
    *e = Add(*e, Mul(al, cl));
  }
  // s + e, e what rounding to s lost, rounded to odd.
  Value* ToOdd(Value* s, Value* e) {
    Value* bits = Bits(s);
    Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, KI(1)), KI(0));
    Value* inexact = b_.CreateFCmpONE(e, K(0));
    Value* away = b_.CreateICmpEQ(Gt(e, K(0)), Gt(s, K(0)));
    Value* moved = b_.CreateAdd(bits, Select(away, KI(1), KI(-1)));
    return FromBits(Select(And(even, inexact), moved, bits));
  }

  // An integral floating point value, in the integer type of its width; |n| < 2^22 (float), 2^51 (double).
  Value* ToInt(Value* n) {
    if (!is_double_) return b_.CreateFPToSI(n, bits_);
    // No machine below AVX-512 converts vectors of double to int64: the mantissa's low bits after adding 1.5 * 2^52 are
    // it.
    return b_.CreateSub(Bits(Add(n, K(0x1.8p52))), KI(0x4338000000000000));
  }
  Value* FromInt(Value* n) {
    if (!is_double_) return b_.CreateSIToFP(n, t_);
    return Sub(FromBits(b_.CreateAdd(n, KI(0x4338000000000000))), K(0x1.8p52));
  }
  // 2^n for integers n within the normal exponents.
  Value* PowerOfTwo(Value* n) { return FromBits(b_.CreateShl(b_.CreateAdd(n, KI(bias_)), mantissa_)); }

  // x * 2^n, n integral, |n| <= 2 * bias; one rounding, also to denormals.
  Value* Scale(Value* x, Value* n) {
    const int width = static_cast<int>(t_->getScalarSizeInBits());
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t_);
    if (f_.avx512 && vector && vector->getNumElements() * width % 512 == 0) {
      const int lanes = 512 / width;
      auto* one = llvm::FixedVectorType::get(t_->getScalarType(), lanes);
      std::vector<Value*> parts;
      for (int at = 0; at < static_cast<int>(vector->getNumElements()); at += lanes) {
        auto piece = [&](Value* v) { return b_.CreateShuffleVector(v, Range(at, lanes)); };
        const bool whole = lanes == static_cast<int>(vector->getNumElements());
        const int bits = lanes;
        parts.push_back(
            b_.CreateIntrinsic(is_double_ ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                                          : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
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
    return Mul(Mul(x, PowerOfTwo(half)), PowerOfTwo(rest));
  }
  static std::vector<int> Range(int from, int n) {
    std::vector<int> r;
    for (int i = 0; i < n; ++i) r.push_back(from + i);
    return r;
  }
  Value* Concatenate(std::vector<Value*> parts, int lanes) {
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

  // ---- exponentials ----

  // x = n ln 2 + r, |r| <= ln 2 / 2.
  void ReduceLn2(Value* x, Value** n, Value** r) {
    *n = Rint(Mul(x, K(kLog2e)));
    // The first part has few bits, so that its product with n is exact even without fma.
    const double high = is_double_ ? 0x1.62e42feep-1 : 0x1.63p-1;
    const double low = is_double_ ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13;
    *r = Fma(*n, K(-high), x);
    *r = Fma(*n, K(-low), *r);
  }
  Value* ExpTail(Value* r) { return is_double_ ? Poly2(r, kExp64) : Poly(r, kExp32); }

  // Beyond the limits it is 0 or infinity anyway.
  Value* Exp(Value* x) { return ExpAtMostHuge(AtMost(x, is_double_ ? 710 : 89)); }
  // For x that is not above what overflows.
  Value* ExpAtMostHuge(Value* x) {
    Value *n, *r;
    ReduceLn2(AtLeast(x, is_double_ ? -746 : -104.5), &n, &r);
    Value* p = Fma(Mul(r, r), ExpTail(r), r);
    return Scale(Add(p, K(1)), n);
  }
  Value* Exp2(Value* x) {
    Value* clamped = AtLeast(AtMost(x, is_double_ ? 1025 : 129), is_double_ ? -1080 : -151);
    Value* n = Rint(clamped);
    Value* f = Sub(clamped, n);
    Value* r = Mul(f, K(kLn2));
    Value* p = Fma(Mul(r, r), ExpTail(r), r);
    return Scale(Add(p, K(1)), n);
  }
  // expm1 for x within (-2 mantissas, overflow): 2^n * (e^r - 1) + (2^n - 1), all halved so that 2^n cannot overflow.
  Value* Expm1Core(Value* x) {
    Value *n, *r;
    ReduceLn2(x, &n, &r);
    Value* q = is_double_ ? Poly2(r, kExpm164) : Poly(r, kExpm132);
    Value* p = Fma(Mul(r, r), q, r);
    Value* half = PowerOfTwo(b_.CreateSub(ToInt(n), KI(1)));
    Value* y = Fma(half, p, Sub(half, K(0.5)));
    return Add(y, y);
  }
  Value* Expm1(Value* x) {
    Value* clamped = AtLeast(AtMost(x, is_double_ ? 709.79 : 88.73), is_double_ ? -40 : -20);
    Value* y = Expm1Core(clamped);
    y = Select(Gt(x, K(is_double_ ? 709.782712893384 : 88.722839)), Inf(), y);
    return Select(Lt(Abs(x), K(is_double_ ? 0x1p-54 : 0x1p-25)), x, y);
  }
  Value* Sigmoid(Value* x) {
    // e^-|x| <= 1: nothing overflows, and small results keep their bits. NaN goes through all of it.
    Value* e = ExpAtMostHuge(Neg(Abs(x)));
    Value* top = Select(Lt(x, K(0)), e, K(1));
    return Div(top, Add(e, K(1)));
  }
  Value* Tanh(Value* x) {
    // t / (2 + t) with t = e^(-2|x|) - 1; the sign is that of x.
    Value* a = Mul(AtMost(Abs(x), is_double_ ? 20 : 10), K(-2));
    Value *n, *r;
    ReduceLn2(a, &n, &r);
    Value* q = is_double_ ? Poly2(r, kExpm164) : Poly(r, kExpm132);
    Value* p = Fma(Mul(r, r), q, r);
    // 2^n (1 + p) - 1
    Value* power = f_.avx512 ? Scale(K(1), n) : PowerOfTwo(ToInt(Select(IsNan(x), K(0), n)));
    Value* t = Fma(power, p, Sub(power, K(1)));
    return CopySign(Div(t, Add(t, K(2))), x);
  }
  Value* Sinh(Value* x) {
    Value* a = Abs(x);
    Value* e = Expm1(a);
    Value* y = Mul(K(0.5), Add(e, Div(e, Add(e, K(1)))));
    Value* h = Exp(Mul(a, K(0.5)));
    y = Select(Gt(a, K(700)), Mul(Mul(h, K(0.5)), h), y);
    return CopySign(y, x);
  }
  Value* Cosh(Value* x) {
    Value* a = Abs(x);
    Value* h = Exp(Mul(a, K(0.5)));
    Value* e = Exp(a);
    Value* y = Add(Mul(e, K(0.5)), Div(K(0.5), e));
    return Select(Gt(a, K(700)), Mul(Mul(h, K(0.5)), h), y);
  }

  // ---- logarithms ----

  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)), x positive and finite; k as floating point.
  void SplitLog(Value* x, Value** m, Value** k) {
    Value* tiny = Lt(x, K(is_double_ ? 0x1p-1022 : 0x1p-126));
    Value* scaled = Select(tiny, Mul(x, K(is_double_ ? 0x1p54 : 0x1p25)), x);
    Value* bits = Bits(scaled);
    // Subtracting sqrt(1/2)'s bits rounds the exponent so that the mantissa falls around 1.
    const int64_t root = is_double_ ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
    Value* e = b_.CreateAShr(b_.CreateSub(bits, KI(root)), mantissa_);
    *m = FromBits(b_.CreateSub(bits, b_.CreateShl(e, mantissa_)));
    Value* n = FromInt(e);
    *k = Sub(n, Select(tiny, K(is_double_ ? 54 : 25), K(0)));
  }
  // What log(x) is for x that is not a positive number.
  Value* LogEdges(Value* x, Value* y) {
    y = Select(Eq(x, K(0)), Neg(Inf()), y);
    y = Select(Eq(x, Inf()), Inf(), y);
    return Select(b_.CreateFCmpULT(x, K(0)), Nan(), y);
  }
  // log(1 + f) with k ln 2 added; c is a correction to f.
  Value* LogCore(Value* f, Value* k, Value* c) {
    const double high = is_double_ ? 0x1.62e42feep-1 : 0x1.63p-1;
    const double low = is_double_ ? 0x1.a39ef35793c76p-33 : -0x1.bd0106p-13;
    if (is_double_) {
      Value* s = Div(f, Add(f, K(2)));
      Value* z = Mul(s, s);
      Value* half = Mul(Mul(f, f), K(0.5));
      Value* r = Mul(z, Poly2(z, kLog64));
      Value* tail = Fma(s, Add(half, r), c ? Fma(k, K(low), c) : Mul(k, K(low)));
      return Add(Mul(k, K(high)), Sub(f, Sub(half, tail)));
    }
    Value* z = Mul(f, f);
    Value* p = Mul(Mul(z, f), Poly(f, kLog32));
    Value* tail = Fma(k, K(low), p);
    if (c) tail = Add(tail, c);
    tail = Fma(z, K(-0.5), tail);
    return Fma(k, K(high), Add(f, tail));
  }
  Value* Log(Value* x) {
    Value *m, *k;
    SplitLog(x, &m, &k);
    return LogEdges(x, LogCore(Sub(m, K(1)), k, nullptr));
  }
  // scale * log(m) + k * unit, double.
  Value* LogOf(Value* x, double scale, double unit) {
    Value *m, *k;
    SplitLog(x, &m, &k);
    Value* y = LogCore(Sub(m, K(1)), K(0), nullptr);
    return LogEdges(x, Fma(k, K(unit), Mul(y, K(scale))));
  }
  Value* Log1p(Value* x) {
    Value* u = Add(x, K(1));
    Value *m, *k;
    SplitLog(u, &m, &k);
    // What 1 + x lost, from whichever of the two is smaller.
    Value* lost = Select(Gt(x, K(1)), Sub(K(1), Sub(u, x)), Sub(x, Sub(u, K(1))));
    Value* c = Div(lost, u);
    Value* y = LogCore(Sub(m, K(1)), k, c);
    y = Select(Eq(u, Inf()), Inf(), y);
    y = Select(Eq(x, K(-1)), Neg(Inf()), y);
    y = Select(b_.CreateFCmpULT(x, K(-1)), Nan(), y);
    return Select(Lt(Abs(x), K(is_double_ ? 0x1p-54 : 0x1p-25)), x, y);
  }

  // log2(x) as a sum of two doubles, to about 2^-68, for positive finite x.
  void Log2Wide(Value* x, Value** high, Value** low) {
    Value *m, *k;
    SplitLog(x, &m, &k);
    Value* f = Sub(m, K(1));
    // s = f / (2 + f) in two parts; 2 + f itself may need two.
    Value *d, *d_low;
    FastTwoSum(K(2), f, &d, &d_low);
    Value* s = Div(f, d);
    Value *p, *e;
    TwoProduct(s, d, &p, &e);
    Value* s_low = Div(Sub(Sub(Sub(f, p), e), Mul(s, d_low)), d);
    // log(m) = 2 s + s^3 (2/3 + z Q(z))
    Value *z, *z_low;
    TwoProduct(s, s, &z, &z_low);
    z_low = Fma(Add(s, s), s_low, z_low);
    Value* q = Mul(z, Poly2(z, kLogWide64));
    Value *a, *a_low;  // 2/3 + q
    FastTwoSum(K(2.0 / 3), q, &a, &a_low);
    a_low = Add(a_low, K(2.0 / 3 * 0x1p-54));  // what 2/3 lost: 2^-53 / 3
    Value *t, *t_low;                          // z * a
    TwoProduct(z, a, &t, &t_low);
    t_low = Add(t_low, Fma(z, a_low, Mul(z_low, a)));
    Value *v, *v_low;  // 2 + z * a
    FastTwoSum(K(2), t, &v, &v_low);
    v_low = Add(v_low, t_low);
    Value *l, *l_low;  // s * v = log(m)
    TwoProduct(s, v, &l, &l_low);
    l_low = Add(l_low, Fma(s, v_low, Mul(s_low, v)));
    // times log2(e), in two parts
    constexpr double kLow = 2.0355273740931033e-17;
    Value *g, *g_low;
    TwoProduct(l, K(kLog2e), &g, &g_low);
    g_low = Add(g_low, Fma(l, K(kLow), Mul(l_low, K(kLog2e))));
    Value *h, *h_low;
    TwoSum(k, g, &h, &h_low);
    FastTwoSum(h, Add(h_low, g_low), high, low);
  }

  Value* Pow(Value* x, Value* y) {
    Value* a = Abs(x);
    Value* a_ok = And(Gt(a, K(0)), Lt(a, Inf()));
    Value *h, *l;
    Log2Wide(Select(a_ok, a, K(1)), &h, &l);
    // y * log2|x| in two parts; outside of (-1100, 1100) the result is 0 or infinity.
    Value* yc = AtLeast(AtMost(y, 0x1p1000), -0x1p1000);
    Value *p, *e;
    Value* y_small = Select(Lt(Abs(yc), K(0x1p70)), yc, K(0));
    TwoProduct(h, y_small, &p, &e);
    e = Fma(l, y_small, e);
    Value* rough = Mul(h, yc);
    Value* inside = Lt(Abs(rough), K(1100));
    p = Select(inside, p, K(0));
    e = Select(inside, e, K(0));
    Value* n = Rint(p);
    Value* f = Add(Sub(p, n), e);
    Value* r = Mul(f, K(kLn2));
    Value* q = Fma(Mul(r, r), Poly2(r, kExp64), r);
    Value* z = Scale(Add(q, K(1)), n);
    z = Select(inside, z, Select(Gt(rough, K(0)), Inf(), K(0)));
    // |x| that is 0 or infinite: to a positive power itself, to a negative one the inverse.
    Value* positive = Gt(y, K(0));
    Value* grows = b_.CreateICmpEQ(Eq(a, Inf()), positive);
    z = Select(a_ok, z, Select(grows, Inf(), K(0)));
    // Negative x: y must be an integer; odd ones keep the sign.
    Value* y_integer = Eq(Floor(y), y);
    Value* half = Mul(y, K(0.5));
    Value* y_odd = And(y_integer, And(b_.CreateFCmpUNE(Floor(half), half), Lt(Abs(y), K(0x1p53))));
    Value* negative = b_.CreateICmpSLT(Bits(x), KI(0));
    z = Select(And(negative, y_odd), Neg(z), z);
    Value* bad = And(And(Lt(x, K(0)), Gt(x, Neg(Inf()))), b_.CreateNot(y_integer));
    z = Select(bad, Nan(), z);
    z = Select(And(Eq(a, K(1)), Eq(Abs(y), Inf())), K(1), z);
    z = Select(b_.CreateFCmpUNO(x, y), Nan(), z);
    return Select(Or(Eq(y, K(0)), Eq(x, K(1))), K(1), z);
  }

  // ---- inverse hyperbolic ----

  Value* Asinh(Value* x) {
    Value* a = Abs(x);
    Value* z = Mul(a, a);
    Value* y = Log1p(Add(a, Div(z, Add(Sqrt(Add(z, K(1))), K(1)))));
    y = Select(Gt(a, K(0x1p28)), Add(Log(a), K(kLn2)), y);
    return CopySign(y, x);
  }
  Value* Acosh(Value* x) {
    Value* t = Sub(x, K(1));
    Value* y = Log1p(Add(t, Sqrt(Fma(t, t, Add(t, t)))));
    y = Select(Gt(x, K(0x1p28)), Add(Log(x), K(kLn2)), y);
    return Select(b_.CreateFCmpULT(x, K(1)), Nan(), y);
  }
  Value* Atanh(Value* x) {
    Value* a = Abs(x);
    Value* y = Mul(K(0.5), Log1p(Div(Add(a, a), Sub(K(1), a))));
    return CopySign(y, x);
  }

  // ---- trigonometry ----

  // Calls body(lane number) for every lane where `lanes` is set, and whatever was stored in memory counts after it.
  void ForSetLanes(Value* lanes, const std::function<void(Value*)>& body) {
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
  llvm::AllocaInst* Memory(Type* t) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at(&entry, entry.begin());
    llvm::AllocaInst* a = at.CreateAlloca(t);
    a->setAlignment(llvm::Align(llvm::PowerOf2Ceil(std::max<uint64_t>(64, t->getPrimitiveSizeInBits() / 8))));
    return a;
  }

  // double reduce(double a, ptr quadrant): a >= 2^20, less the nearest multiple of pi/2, whose number mod 4 is stored.
  llvm::Function* ReduceLarge() {
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
    // a = mantissa * 2^e. Bits of 2/pi whose product with a is a multiple of 4 do not matter: those before number e
    // - 1.
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
    auto product = [&](Value* x) { return b.CreateMul(b.CreateZExt(x, i128), b.CreateZExt(mantissa, i128)); };
    Value* sum = b.CreateShl(product(v[0]), 64);
    sum = b.CreateAdd(sum, product(v[1]));
    sum = b.CreateAdd(sum, b.CreateLShr(product(v[2]), 64));
    // The top two bits are the quadrant, the rest its fraction; to the nearest.
    Value* half = b.CreateShl(ConstantInt::get(i128, 1), 125);
    Value* quadrant = b.CreateLShr(b.CreateAdd(sum, half), 126);
    b.CreateStore(b.CreateTrunc(quadrant, i64), fn->getArg(1));
    Value* rest = b.CreateSub(sum, b.CreateShl(quadrant, 126));
    Value* high = b.CreateSIToFP(b.CreateTrunc(b.CreateAShr(rest, 64), i64), f64);
    // The low word's upper half is as much as counts.
    Value* low = b.CreateSIToFP(b.CreateLShr(b.CreateTrunc(rest, i64), 1), f64);
    Value* fraction =
        b.CreateFAdd(b.CreateFMul(high, ConstantFP::get(f64, 0x1p64)), b.CreateFMul(low, ConstantFP::get(f64, 2)));
    b.CreateRet(b.CreateFMul(fraction, ConstantFP::get(f64, kPi / 2 * 0x1p-126)));
    return fn;
  }

  // Replaces lanes of r and q (of doubles and int64) where |x| is large; x of double.
  void FixLarge(Value* large, Value* x, Value** r, Value** q) {
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
      b_.CreateStore(b_.CreateSelect(negative, b_.CreateFNeg(y), y), b_.CreateGEP(f64, rs, lane));
      Value* quadrant = b_.CreateLoad(i64, at);
      b_.CreateStore(b_.CreateSelect(negative, b_.CreateNeg(quadrant), quadrant), at);
    });
    *r = b_.CreateLoad((*r)->getType(), rs);
    *q = b_.CreateLoad((*q)->getType(), qs);
  }

  // x less the nearest multiple q of pi/2, for sin, cos and tan; double.
  void ReducePi(Value* x, Value** r, Value** q) {
    Value* large = Ge(Abs(x), K(0x1p20));
    Value* n = Rint(Mul(x, K(2 / kPi)));
    // pi/2 in three parts; the first two of 33 bits, so that products with n < 2^20 are exact.
    Value* y = Fma(n, K(-0x1.921fb544p+0), x);
    y = Fma(n, K(-0x1.0b4611a6p-34), y);
    y = Fma(n, K(-0x1.3198a2e037073p-69), y);
    *r = y;
    // n of large lanes is of no use; keep it in range.
    *q = ToInt(Select(large, K(0), n));
    FixLarge(And(large, Lt(Abs(x), Inf())), x, r, q);
    *r = Select(b_.CreateFCmpULT(Abs(x), Inf()), Select(IsNan(x), Nan(), *r), Nan());
  }

  Value* SinCosTan64(ScalarOp op, Value* x) {
    Value *r, *q;
    ReducePi(x, &r, &q);
    Value* z = Mul(r, r);
    Value* sine = Fma(Mul(z, r), Poly2(z, kSin64), r);
    // 1 - z/2 + z^2 P(z), with what 1 - z/2 loses
    Value* half = Mul(z, K(0.5));
    Value* w = Sub(K(1), half);
    Value* cosine = Add(w, Fma(Mul(z, z), Poly2(z, kCos64), Sub(Sub(K(1), w), half)));
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
    if (op == ScalarOp::kTan) {
      Value* y = Div(Select(odd, Neg(cosine), sine), Select(odd, sine, cosine));
      return Select(Eq(x, K(0)), x, y);
    }
    if (op == ScalarOp::kCos) q = b_.CreateAdd(q, KI(1));
    odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
    Value* y = Select(odd, cosine, sine);
    Value* sign = b_.CreateShl(b_.CreateAnd(q, KI(2)), 62);
    y = FromBits(b_.CreateXor(Bits(y), sign));
    return op == ScalarOp::kSin ? Select(Eq(x, K(0)), x, y) : y;
  }

  // With fma: pi/2 in three parts of float; the arguments beyond their reach go by way of double.
  Value* SinCos32(ScalarOp op, Value* x) {
    Value* large = Ge(Abs(x), K(30000));
    Value* n = Rint(Mul(x, K(2 / kPi)));
    Value* r = Fma(n, K(-0x1.921fb6p+0), x);
    r = Fma(n, K(0x1.777a5cp-25), r);
    r = Fma(n, K(0x1.ee5a3p-50), r);
    Value* q = b_.CreateFPToSI(Select(b_.CreateFCmpULT(Abs(x), K(30000)), Select(IsNan(x), K(0), n), K(0)), bits_);
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
      Math wide(b_, f_, f64);
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
    Value* sine = Fma(Mul(z, r), Poly(z, kSin32), r);
    Value* cosine = Fma(Mul(z, z), Poly(z, kCos32), Fma(z, K(-0.5), K(1)));
    if (op == ScalarOp::kCos) q = b_.CreateAdd(q, KI(1));
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, KI(1)), KI(0));
    Value* y = Select(odd, cosine, sine);
    Value* sign = b_.CreateShl(b_.CreateAnd(q, KI(2)), 30);
    y = FromBits(b_.CreateXor(Bits(y), sign));
    return op == ScalarOp::kSin ? Select(Eq(x, K(0)), x, y) : y;
  }

  Value* ArcSine(ScalarOp op, Value* x) {
    Value* a = Abs(x);
    Value* big = Gt(a, K(0.5));
    // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above one half.
    Value* z = Select(big, Mul(Sub(K(1), a), K(0.5)), Mul(a, a));
    Value* s = Select(big, Sqrt(z), a);
    Value* tail = is_double_ ? Poly2(z, kAsin64) : Poly(z, kAsin32);
    Value* p = Mul(Mul(z, s), tail);  // asin(s) = s + p
    const double low = is_double_ ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25;
    const double high = is_double_ ? kPi / 2 : 0x1.921fb6p+0;
    Value* twice = Mul(K(2), Add(s, p));
    if (op == ScalarOp::kAsin) {
      Value* y = Select(big, Sub(K(high), Sub(twice, K(low))), Add(s, p));
      return CopySign(y, x);
    }
    Value* negative = Lt(x, K(0));
    Value* far = Select(negative, Sub(K(2 * high), Sub(twice, K(2 * low))), twice);
    Value* s_signed = Select(negative, Neg(s), s);
    Value* p_signed = Select(negative, Neg(p), p);
    Value* near = Sub(K(high), Sub(Add(s_signed, Sub(p_signed, K(low))), K(0)));
    return Select(big, far, near);
  }

  // atan of a >= 0 that is v / w (w null: v): by thirds of the quarter circle.
  Value* AtanPositive(Value* a) {
    const double eighth = 0.414213562373095048801688724210;
    Value* upper = Gt(a, K(2.41421356237309504880168872421));
    Value* middle = And(Gt(a, K(eighth)), b_.CreateNot(upper));
    Value* top = Select(upper, K(-1), Select(middle, Sub(a, K(1)), a));
    Value* bottom = Select(upper, a, Select(middle, Add(a, K(1)), K(1)));
    Value* t = Div(top, bottom);
    Value* z = Mul(t, t);
    Value* p = Mul(Mul(z, t), is_double_ ? Poly2(z, kAtan64) : Poly(z, kAtan32));
    const double high = is_double_ ? kPi / 4 : 0x1.921fb6p-1;
    const double low = is_double_ ? 0x1.1a62633145c07p-55 : -0x1.777a5cp-26;
    Value* base = Select(upper, K(2 * high), Select(middle, K(high), K(0)));
    Value* base_low = Select(upper, K(2 * low), Select(middle, K(low), K(0)));
    return Add(base, Add(t, Add(p, base_low)));
  }
  Value* Atan(Value* x) { return CopySign(AtanPositive(Abs(x)), x); }
  // Double only: for float, the quotient in double is exact enough.
  Value* Atan2(Value* y, Value* x) {
    Value* ay = Abs(y);
    Value* ax = Abs(x);
    Value* both_inf = And(Eq(ay, Inf()), Eq(ax, Inf()));
    Value* both_zero = And(Eq(ay, K(0)), Eq(ax, K(0)));
    Value* ratio = Div(ay, ax);
    ratio = Select(both_inf, K(1), Select(both_zero, K(0), ratio));
    Value* t = AtanPositive(ratio);
    Value* left = b_.CreateICmpSLT(Bits(x), KI(0));
    t = Select(left, Sub(K(kPi), Sub(t, K(0x1.1a62633145c07p-53))), t);
    t = CopySign(t, y);
    return Select(b_.CreateFCmpUNO(x, y), Nan(), t);
  }

  // ---- error function ----

  // 1 - 2^u with u = a P(a) = log2(erfc(a)); u is in [-26, 0] and small where a is, so that nothing cancels: with n the
  // nearest integer to u and q = 2^(u - n) - 1, it is (1 - 2^n) - 2^n q. NaN goes through all of it.
  Value* Erf32(Value* x) {
    Value* a = AtMost(Abs(x), 3.95);
    Value* u = Mul(a, Poly(a, kErf32));
    Value* n = Rint(u);
    Value* r = Sub(u, n);
    Value* q = Mul(r, Poly(r, kPower32));
    Value* power = f_.avx512 ? Scale(K(1), n) : PowerOfTwo(ToInt(Select(IsNan(x), K(0), n)));
    return CopySign(Fma(Neg(power), q, Sub(K(1), power)), x);
  }
  // erfc(a) for a >= 0.
  Value* ErfcPositive(Value* a) {
    Value* c = AtMost(a, 28);
    Value* t = Div(Sub(c, K(4)), Add(c, K(4)));
    Value* p = Poly2(t, kErfc64);
    // e^(-a^2) needs the square to more than double's precision.
    Value *square, *low;
    TwoProduct(c, c, &square, &low);
    Value* e = Exp(Neg(square));
    e = Fma(Neg(low), e, e);
    return Div(Mul(e, p), Fma(K(2), c, K(1)));
  }
  Value* Erf64(Value* x) {
    Value* a = Abs(x);
    Value* small = Mul(x, Poly2(Mul(a, a), kErf64));
    Value* large = CopySign(Sub(K(1), ErfcPositive(a)), x);
    return Select(Lt(a, K(1)), small, large);
  }
  Value* Erfc64(Value* x) {
    Value* a = Abs(x);
    Value* small = Sub(K(1), Mul(x, Poly2(Mul(a, a), kErf64)));
    Value* large = ErfcPositive(a);
    large = Select(Lt(x, K(0)), Sub(K(2), large), large);
    return Select(Lt(a, K(0.5)), small, large);
  }
  Value* Erfinv(Value* x) {
    // A first guess good to 2e-3 from Winitzki's formula, then Halley's iteration, whose error is cubed each time. Near
    // +-1 the residual is taken of erfc, which does not cancel.
    Value* a = Abs(x);
    Value* rest = Sub(K(1), a);
    Value* l = Log(Mul(rest, Add(a, K(1))));
    Value* c = Fma(l, K(0.5), K(2 / (kPi * 0.147)));
    Value* y = Sqrt(Sub(Sqrt(Sub(Mul(c, c), Mul(l, K(1 / 0.147)))), c));
    for (int i = 0; i < 3; ++i) {
      Value* big = Gt(a, K(0.5));
      Value* error = Select(big, Sub(rest, ErfcPositive(y)), Sub(Mul(y, Poly2(Mul(y, y), kErf64)), a));
      Value* d = Mul(error, Mul(Exp(Mul(y, y)), K(0.886226925452758013649083741671)));
      // y - d / (1 + y d)
      Value* next = Sub(y, Div(d, Fma(y, d, K(1))));
      y = next;
    }
    y = Select(Eq(a, K(1)), Inf(), y);
    y = Select(Lt(a, K(0x1p-30)), Mul(a, K(0.886226925452758013649083741671)), y);
    y = Select(b_.CreateFCmpUGT(a, K(1)), Nan(), y);
    return CopySign(y, x);
  }

  // ---- the rest ----

  Value* Hypot(Value* x, Value* y) {
    Value* a = Abs(x);
    Value* c = Abs(y);
    Value* big = Select(Gt(a, c), a, c);
    // A power of two that brings the larger to about 1.
    Value* e = b_.CreateAnd(Bits(big), KI(0x7ff0000000000000));
    Value* scale = FromBits(b_.CreateSub(KI(0x7fd0000000000000), e));
    Value* normal = And(Gt(big, K(0x1p-1000)), Lt(big, K(0x1p1000)));
    scale = Select(normal, scale, Select(Gt(big, K(1)), K(0x1p-600), K(0x1p600)));
    Value* u = Mul(a, scale);
    Value* v = Mul(c, scale);
    Value* r = Div(Sqrt(Fma(u, u, Mul(v, v))), scale);
    r = Select(b_.CreateFCmpUNO(x, y), Nan(), r);
    return Select(Or(Eq(a, Inf()), Eq(c, Inf())), Inf(), r);
  }

  Value* NextAfter(Value* x, Value* y) {
    Value* bits = Bits(x);
    Value* up = b_.CreateICmpEQ(Lt(x, y), Gt(x, K(0)));
    Value* moved = FromBits(b_.CreateAdd(bits, Select(up, KI(1), KI(-1))));
    Value* least = CopySign(FromBits(KI(1)), y);
    Value* r = Select(Eq(x, K(0)), least, moved);
    r = Select(Eq(x, y), y, r);
    return Select(b_.CreateFCmpUNO(x, y), Nan(), r);
  }

  // Loops body(state) while some lane wants more; state in phis. body returns the next state and whether a lane wants
  // more.
  void While(std::vector<Value*>& state, const std::function<Value*(std::vector<Value*>&)>& body) {
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

  // C's fmod of floats, exactly, in double: each round takes away a multiple of y of at most 27 bits.
  Value* Fmod32(Value* x, Value* y) {
    Type* f64 = t_->getWithNewType(b_.getDoubleTy());
    Math w(b_, f_, f64);
    Value* ok = And(Lt(Abs(x), Inf()), Gt(Abs(y), K(0)));  // false for NaN too
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
  // The same for double, with integers: 11 bits of quotient a round.
  Value* Fmod64(Value* x, Value* y) {
    Value* a = Abs(x);
    Value* d = Abs(y);
    Value* ok = And(Lt(a, Inf()), And(Gt(d, K(0)), Lt(d, Inf())));
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
    // With a >= d > 0 the exponents differ by >= 0; the mantissa of d, if denormal, may be small: that is no harm.
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
    Value* r = Mul(Mul(real, PowerOfTwo(e1)), PowerOfTwo(b_.CreateSub(e, e1)));
    r = Select(smaller, a, r);
    r = CopySign(r, x);
    r = Select(ok, r, Nan());
    // A finite x is its own remainder by infinity.
    return Select(And(Lt(Abs(x), Inf()), Eq(Abs(y), Inf())), x, r);
  }

  // ln|sin(pi x)| / pi needs sin(pi x): for double x.
  Value* SinPi(Value* x) {
    Value* n = Rint(Mul(x, K(2)));
    // Large x are integers, or nearly; their fraction is exact.
    Value* f = Sub(x, Mul(n, K(0.5)));
    Value* r = Mul(f, K(kPi));
    Value* z = Mul(r, r);
    Value* sine = Fma(Mul(z, r), Poly2(z, kSin64), r);
    Value* cosine = Fma(Mul(z, z), Poly2(z, kCos64), Fma(z, K(-0.5), K(1)));
    Value* half = Mul(n, K(0.5));
    Value* odd = b_.CreateFCmpUNE(Floor(half), half);
    return Select(odd, cosine, sine);  // the sign does not matter to those who ask
  }

  // log Gamma(x), x > 0.
  Value* LgammaPositive(Value* x) {
    // Gamma(x) = Gamma(x + n) / (x (x + 1) ... ); Stirling's series from 8 on.
    Value* product = K(1);
    Value* y = x;
    for (int i = 0; i < 8; ++i) {
      Value* small = Lt(y, K(8));
      product = Select(small, Mul(product, y), product);
      y = Select(small, Add(y, K(1)), y);
    }
    static constexpr double kStirling[] = {1.0 / 12,         -1.0 / 360,        1.0 / 1260, -1.0 / 1680,
                                           1.0 / 1188,       -691.0 / 360360,   1.0 / 156,  -3617.0 / 122400,
                                           43867.0 / 244188, -174611.0 / 125400};
    Value* inverse = Div(K(1), y);
    Value* z = Mul(inverse, inverse);
    Value* series = Mul(inverse, Poly(z, kStirling));
    Value* l = Log(y);
    // (y - 1/2)(log y - 1) + (log(2 pi) - 1) / 2 + ...
    Value* r = Add(Fma(Sub(y, K(0.5)), Sub(l, K(1)), K(0.418938533204672741780329736406)), series);
    return Sub(r, Log(product));
  }
  Value* Lgamma(Value* x) {
    Value* a = Abs(x);
    Value* negative = Lt(x, K(0));
    Value* r = LgammaPositive(Select(negative, Add(a, K(1)), a));
    // Gamma(-a) = -pi / (sin(pi a) Gamma(a + 1))
    Value* reflected = Sub(Sub(K(1.14472988584940017414342735135), Log(Abs(SinPi(a)))), r);
    r = Select(negative, reflected, r);
    Value* pole = And(b_.CreateFCmpOLE(x, K(0)), Eq(Floor(x), x));
    r = Select(pole, Inf(), r);
    r = Select(Eq(a, Inf()), Inf(), r);
    // Around its zeros at 1 and 2 the value is small: from there, lgamma(2 + t) = log(1 + t) + lgamma(1 + t).
    Value* second = Gt(x, K(1.5));
    Value* t = Sub(x, Select(second, K(2), K(1)));
    Value* near = Mul(t, Poly2(t, kLgamma64));
    near = Select(second, Add(Log1p(t), near), near);
    r = Select(Lt(Abs(t), K(0.3)), Add(near, K(0)), r);  // + 0: not -0
    // Near 0, -log(a) is all of it.
    r = Select(Lt(a, K(0x1p-60)), Neg(Log(a)), r);
    return Select(IsNan(x), x, r);
  }
  Value* Digamma(Value* x) {
    // psi(1 - x) - pi / tan(pi x) below 0; the series from 10 on.
    Value* negative = Lt(x, K(0));
    Value* y = Select(negative, Sub(K(1), x), x);
    Value* sum = K(0);
    for (int i = 0; i < 10; ++i) {
      Value* small = Lt(y, K(10));
      sum = Select(small, Add(sum, Div(K(1), y)), sum);
      y = Select(small, Add(y, K(1)), y);
    }
    static constexpr double kSeries[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                         1.0 / 132, -691.0 / 32760, 1.0 / 12};
    Value* inverse = Div(K(1), y);
    Value* z = Mul(inverse, inverse);
    Value* r = Sub(Sub(Sub(Log(y), Mul(inverse, K(0.5))), Mul(z, Poly(z, kSeries))), sum);
    Value* f = Sub(x, Rint(x));
    Value* t = Mul(f, K(kPi));
    Value* w = Mul(t, t);
    Value* sine = Fma(Mul(w, t), Poly2(w, kSin64), t);
    Value* cosine = Fma(Mul(w, w), Poly2(w, kCos64), Fma(w, K(-0.5), K(1)));
    // |t| may be up to pi/2, beyond the polynomials' pi/4: by the double angle.
    Value* h = Mul(t, K(0.5));
    w = Mul(h, h);
    sine = Fma(Mul(w, h), Poly2(w, kSin64), h);
    cosine = Fma(Mul(w, w), Poly2(w, kCos64), Fma(w, K(-0.5), K(1)));
    Value* s = Mul(Mul(K(2), sine), cosine);
    Value* c = Mul(Sub(cosine, sine), Add(cosine, sine));
    Value* cotangent = Div(Mul(c, K(kPi)), s);
    r = Select(negative, Sub(r, cotangent), r);
    Value* pole = And(negative, Eq(Floor(x), x));
    r = Select(pole, Nan(), r);
    r = Select(Eq(x, K(0)), CopySign(Inf(), Neg(x)), r);
    r = Select(Eq(x, Inf()), Inf(), r);
    return Select(IsNan(x), x, r);
  }

  llvm::IRBuilder<>& b_;
  const CpuFeatures& f_;
  Type* t_;
  Type* bits_;
  bool is_double_;
  int mantissa_, bias_;
};

}  // namespace

Value* EmitMath(llvm::IRBuilder<>& b, const CpuFeatures& features, ScalarOp op, Value* x, Value* y) {
  return Math(b, features, x->getType()).Emit(op, x, y);
}

Value* EmitExactFma(llvm::IRBuilder<>& b, const CpuFeatures& features, Value* x, Value* y, Value* z) {
  return Math(b, features, x->getType()).ExactFma(x, y, z);
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
    case ScalarOp::kLog1p:
      return 35;
    case ScalarOp::kLog2:
    case ScalarOp::kLog10:
    case ScalarOp::kTan:
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
