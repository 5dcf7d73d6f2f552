// The computation of functions. Functions that hot loops use have float versions; the others are computed in double and
// rounded, which makes them nearly correctly rounded for float. No function calls anything outside the module;
// arguments that need unbounded work (sin of 1e30) are computed by a loop over the vector's lanes. Internal to codegen:
// includes LLVM.
#ifndef SMELT_CODEGEN_MATH_EMITTER_H_
#define SMELT_CODEGEN_MATH_EMITTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/codegen/math.h"
#include "smelt/core/op/scalar.h"

namespace smelt {

constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr double kLog2e = 1.44269504088896340735992468100;
constexpr double kPi = 3.14159265358979323846264338328;

// Functions of one floating-point type, float or double, or a vector of it.
class MathEmitter {
  using ConstantFP = llvm::ConstantFP;
  using ConstantInt = llvm::ConstantInt;
  using Type = llvm::Type;
  using Value = llvm::Value;

 public:
  MathEmitter(llvm::IRBuilder<>& b, const CpuFeatures& f, Type* t) : b_(b), f_(f), t_(t) {
    is_double_ = t->getScalarType()->isDoubleTy();
    bits_ = t->getWithNewType(is_double_ ? b.getInt64Ty() : b.getInt32Ty());
    mantissa_ = is_double_ ? 52 : 23;
    bias_ = is_double_ ? 1023 : 127;
  }

  Value* Emit(ScalarOp op, Value* x, Value* y);

  Value* ExactFma(Value* x, Value* y, Value* z);

  // For x <= 0 or NaN.
  Value* ExpAtMostZero(Value* x);

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
  Value* CopySign(Value* a, Value* s) { return EmitCopySign(b_, a, s); }
  Value* Select(Value* c, Value* a, Value* z) { return b_.CreateSelect(c, a, z); }
  Value* Lt(Value* a, Value* z) { return b_.CreateFCmpOLT(a, z); }
  Value* Gt(Value* a, Value* z) { return b_.CreateFCmpOGT(a, z); }
  Value* Ge(Value* a, Value* z) { return b_.CreateFCmpOGE(a, z); }
  Value* Eq(Value* a, Value* z) { return b_.CreateFCmpOEQ(a, z); }
  Value* Or(Value* a, Value* z) { return b_.CreateOr(a, z); }
  Value* And(Value* a, Value* z) { return b_.CreateAnd(a, z); }
  Value* IsNan(Value* a) { return b_.CreateFCmpUNO(a, a); }
  // min and max with a constant that pass NaN through, in the form for which the machine has an instruction.
  Value* AtMost(Value* x, double limit) { return Select(Lt(K(limit), x), K(limit), x); }
  Value* AtLeast(Value* x, double limit) { return Select(Gt(K(limit), x), K(limit), x); }
  Value* Bits(Value* x) { return b_.CreateBitCast(x, bits_); }
  Value* FromBits(Value* x) { return b_.CreateBitCast(x, t_); }
  Value* Inf() { return ConstantFP::getInfinity(t_); }
  Value* Nan() { return ConstantFP::getNaN(t_); }

  // a * c + d; rounded once if the machine has fma, else twice.
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
  // Evaluates by pairs of adjacent coefficients, z = x^2: half the dependency chain for one more product.
  Value* PolyPairs(Value* x, Value* z, const std::vector<double>& c) {
    Value* r = nullptr;
    for (size_t i = (c.size() - 1) / 2 * 2;; i -= 2) {
      Value* pair = i + 1 < c.size() ? Fma(x, K(c[i + 1]), K(c[i])) : K(c[i]);
      r = r ? Fma(r, z, pair) : pair;
      if (i == 0) return r;
    }
  }
  // Evaluates even and odd halves separately: shorter dependency chains, for the long polynomials of double.
  template <size_t N>
  Value* Poly2(Value* x, const double (&c)[N]) {
    Value* z = Mul(x, x);
    std::vector<double> even, odd;
    for (size_t i = 0; i < N; ++i) (i % 2 ? odd : even).push_back(c[i]);
    Value* poly = Poly(z, even.data(), even.size());
    return Fma(Poly(z, odd.data(), odd.size()), x, poly);
  }

  void TwoSum(Value* a, Value* c, Value** s, Value** e) {
    *s = Add(a, c);
    Value* part = Sub(*s, a);
    Value* difference = Sub(c, part);
    *e = Add(Sub(a, Sub(*s, part)), difference);
  }
  // Requires |a| >= |c|.
  void FastTwoSum(Value* a, Value* c, Value** s, Value** e) {
    *s = Add(a, c);
    *e = Sub(c, Sub(*s, a));
  }
  void TwoProduct(Value* a, Value* c, Value** p, Value** e);
  // Returns s + e, where e is the rounding error of s, rounded to odd.
  Value* ToOdd(Value* s, Value* e);

  // Converts an integral floating-point value to the integer type of its width; |n| < 2^22 (float), 2^51 (double).
  Value* ToInt(Value* n) {
    if (!is_double_) return b_.CreateFPToSI(n, bits_);
    // No machine below AVX-512 converts vectors of double to int64: the low bits of the mantissa after adding 1.5 *
    // 2^52 are the integer.
    return b_.CreateSub(Bits(Add(n, K(0x1.8p52))), KI(0x4338000000000000));
  }
  Value* FromInt(Value* n) {
    if (!is_double_) return b_.CreateSIToFP(n, t_);
    return Sub(FromBits(b_.CreateAdd(n, KI(0x4338000000000000))), K(0x1.8p52));
  }
  // Returns 2^n for integers n within the normal exponents.
  Value* PowerOfTwo(Value* n) { return FromBits(b_.CreateShl(b_.CreateAdd(n, KI(bias_)), mantissa_)); }

  // Returns whether the machine has one instruction for Scale on these vectors.
  bool ScalesByInstruction() const;
  // Returns x * 2^n, n integral, |n| <= 2 * bias, with one rounding, also to denormals.
  Value* Scale(Value* x, Value* n);
  static std::vector<int> Range(int from, int n) {
    std::vector<int> r;
    for (int i = 0; i < n; ++i) r.push_back(from + i);
    return r;
  }
  Value* Concatenate(std::vector<Value*> parts, int lanes);

  // ---- exponentials ----

  // Returns whether exp and erf also compute 2^n from the last bits of the sum that rounds to n (RoundWithPower), as
  // sigmoid and tanh do: for float, if a machine has neither scalef nor spare registers.
  bool MakesPowersByRounding() const { return !is_double_ && f_.IsAvx2Only(); }
  // Computes the integer n nearest to x * c, |n| < 2^22, and 2^(n + k), with n + k within [-127, 127]; -127 gives 0.
  // Next to 1.5 * 2^23 the last bit of a float is worth 1: the bits of the sum are those of n, and with a bias those of
  // an exponent. For float.
  void RoundWithPower(Value* x, double c, int k, Value** n, Value** power);

  // x = n ln 2 + r, |r| <= ln 2 / 2.
  void ReduceLn2(Value* x, Value** n, Value** r);
  // (e^r - 1 - r) / r^2
  Value* ExpTail(Value* r);

  // Beyond the limits the result is 0 or infinity anyway.
  Value* Exp(Value* x) { return ExpAtMostHuge(AtMost(x, is_double_ ? 710 : 89)); }
  // For x that is not above the overflow limit.
  Value* ExpAtMostHuge(Value* x);
  // The same in the fewest instructions, for float if the machine scales by an instruction.
  Value* ExpByScaling(Value* x);
  // Returns 2^-24 (e^x / 2^n), for x = n ln 2 + r, so that 2^(n + 24), by which it is multiplied, is a normal number or
  // 0.
  Value* ScaledExp(Value* r);
  Value* Exp2(Value* x);
  // Returns expm1 for x within (-2 mantissas, overflow): 2^n * (e^r - 1) + (2^n - 1), with all terms halved so that 2^n
  // cannot overflow.
  Value* Expm1Core(Value* x);
  Value* Expm1(Value* x);
  // 2^r - 1, |r| <= 1/2, float.
  Value* Power2Less1(Value* r);
  Value* Sigmoid32(Value* x);
  Value* Sigmoid(Value* x);
  Value* Tanh32(Value* x);
  Value* Tanh(Value* x);
  Value* Sinh(Value* x);
  Value* Cosh(Value* x);

  // ---- logarithms ----

  // x = m * 2^k with m in [sqrt(1/2), sqrt(2)), x positive and finite; k as floating point.
  void SplitLog(Value* x, Value** m, Value** k);
  // Returns log(x) for an x that is not a positive number, else y.
  Value* LogEdges(Value* x, Value* y);
  // Returns log(1 + f) plus k ln 2; c is a correction to f.
  Value* LogCore(Value* f, Value* k, Value* c);
  Value* Log(Value* x);
  // Returns scale * log(m) + k * unit, in double.
  Value* LogOf(Value* x, double scale, double unit);
  Value* Log1p(Value* x);

  // Computes log2(x) as a sum of two doubles, to about 2^-68, for positive finite x.
  void Log2Wide(Value* x, Value** high, Value** low);

  Value* Pow(Value* x, Value* y);
  // Computes in double, for a result that is rounded to float.
  Value* PowForFloat(Value* x, Value* y);
  // Returns x to the y if x or y is not a positive finite number; else z.
  Value* PowEdges(Value* x, Value* y, Value* z);

  // ---- inverse hyperbolic ----

  Value* Asinh(Value* x);
  Value* Acosh(Value* x);
  Value* Atanh(Value* x);

  // ---- trigonometry ----

  // Calls body(lane number) for every lane that is set in `lanes`; later code sees what it stores to memory.
  void ForSetLanes(Value* lanes, const std::function<void(Value*)>& body);
  llvm::AllocaInst* Memory(Type* t);

  // double reduce(double a, ptr quadrant): for a >= 2^20, returns a minus the nearest multiple of pi/2, and stores the
  // number of the multiple mod 4.
  llvm::Function* ReduceLarge();

  // Replaces lanes of r and q (doubles and int64) where |x| is large; x is a double.
  void FixLarge(Value* large, Value* x, Value** r, Value** q);

  // Computes x minus the nearest multiple q of pi/2, for sin, cos and tan; in double.
  void ReducePi(Value* x, Value** r, Value** q);

  Value* SinCosTan64(ScalarOp op, Value* x);

  // With fma: pi/2 in three parts of float; arguments beyond their range are computed in double.
  Value* SinCosTan32(ScalarOp op, Value* x);

  Value* ArcSine(ScalarOp op, Value* x);

  // Returns atan of a >= 0, where a is v / w (w null: v), by thirds of the quarter circle.
  Value* AtanPositive(Value* a);
  Value* Atan(Value* x) { return CopySign(AtanPositive(Abs(x)), x); }
  // For double only: for float, the quotient in double is exact enough.
  Value* Atan2(Value* y, Value* x);

  // ---- error function ----

  // Returns 1 - 2^u with u = a P(a) = log2(erfc(a)). u is in [-26, 0], and small where a is small, so that nothing
  // cancels: with n the nearest integer to u and q = 2^(u - n) - 1, it is (1 - 2^n) - 2^n q. NaN passes through all
  // steps.
  Value* Erf32(Value* x);
  // Returns erfc(a) for a >= 0.
  Value* ErfcPositive(Value* a);
  Value* Erf64(Value* x);
  Value* Erfc64(Value* x);
  Value* Erfinv32(Value* x);
  Value* Erfinv(Value* x);

  // ---- the rest ----

  Value* Hypot(Value* x, Value* y);

  Value* NextAfter(Value* x, Value* y);

  // Loops body(state) while some lane needs another iteration; the state is in phis. body returns the next state and
  // whether a lane needs another iteration.
  void While(std::vector<Value*>& state, const std::function<Value*(std::vector<Value*>&)>& body);

  // C's fmod of floats, exactly, in double: each iteration subtracts a multiple of y of at most 27 bits.
  Value* Fmod32(Value* x, Value* y);
  // The same for double, with integers: 11 bits of the quotient per iteration.
  Value* Fmod64(Value* x, Value* y);

  // ln|sin(pi x)| / pi needs sin(pi x), for double x.
  Value* SinPi(Value* x);

  // Returns log Gamma(x), x > 0.
  Value* LgammaPositive(Value* x);
  Value* Lgamma(Value* x);
  // Computes in double, for a result that is rounded to float.
  Value* LgammaForFloat(Value* x);
  Value* Digamma(Value* x);

  llvm::IRBuilder<>& b_;
  const CpuFeatures& f_;
  Type* t_;
  Type* bits_;
  bool is_double_;
  int mantissa_, bias_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_MATH_EMITTER_H_
