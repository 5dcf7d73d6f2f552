// The vocabulary in which functions are written: sums, products, comparisons, polynomials, sums and products whose
// rounding error is known, and powers of two, of one floating-point type. The families of functions derive from it
// (math_exp.h, math_log.h, math_trig.h, math_special.h, remainders.h). Internal to codegen: includes LLVM.
//
//   FloatEmitter e(b, features, x->getType());
//   Value* y = e.Fma(x, x, e.K(1));   // x * x + 1
#ifndef SMELT_CODEGEN_FLOAT_EMITTER_H_
#define SMELT_CODEGEN_FLOAT_EMITTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "smelt/codegen/lower_kernel.h"
#include "smelt/codegen/math.h"

namespace smelt {

constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr double kLog2e = 1.44269504088896340735992468100;
constexpr double kPi = 3.14159265358979323846264338328;

// The type is float or double, or a vector of it. The builder and the features outlive the emitter, which is cheap to
// copy.
class FloatEmitter {
 public:
  using Type = llvm::Type;
  using Value = llvm::Value;

  FloatEmitter(llvm::IRBuilder<>& b, const CpuFeatures& f, Type* t) : b_(b), f_(f), t_(t) {
    is_double_ = t->getScalarType()->isDoubleTy();
    bits_ = t->getWithNewType(is_double_ ? b.getInt64Ty() : b.getInt32Ty());
    mantissa_ = is_double_ ? 52 : 23;
    bias_ = is_double_ ? 1023 : 127;
  }

  bool is_double() const { return is_double_; }
  // Returns the emitter of as many doubles.
  FloatEmitter Wide() const { return FloatEmitter(b_, f_, t_->getWithNewType(b_.getDoubleTy())); }
  Type* type() const { return t_; }
  bool has_fma() const { return f_.fma; }

  Value* K(double v) { return llvm::ConstantFP::get(t_, v); }
  Value* KI(int64_t v) { return llvm::ConstantInt::get(bits_, static_cast<uint64_t>(v), true, true); }
  Value* Add(Value* a, Value* c) { return b_.CreateFAdd(a, c); }
  Value* Sub(Value* a, Value* c) { return b_.CreateFSub(a, c); }
  Value* Mul(Value* a, Value* c) { return b_.CreateFMul(a, c); }
  Value* Div(Value* a, Value* c) { return b_.CreateFDiv(a, c); }
  Value* Neg(Value* a) { return b_.CreateFNeg(a); }
  Value* Abs(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a); }
  Value* Sqrt(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a); }
  Value* Rint(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a); }
  Value* Floor(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a); }
  Value* CopySign(Value* a, Value* s) { return EmitCopySign(b_, f_, a, s); }
  Value* Select(Value* c, Value* a, Value* z) { return b_.CreateSelect(c, a, z); }
  Value* Lt(Value* a, Value* z) { return b_.CreateFCmpOLT(a, z); }
  Value* Gt(Value* a, Value* z) { return b_.CreateFCmpOGT(a, z); }
  Value* Ge(Value* a, Value* z) { return b_.CreateFCmpOGE(a, z); }
  Value* Eq(Value* a, Value* z) { return b_.CreateFCmpOEQ(a, z); }
  Value* Or(Value* a, Value* z) { return b_.CreateOr(a, z); }
  Value* And(Value* a, Value* z) { return b_.CreateAnd(a, z); }
  Value* IsNan(Value* a) { return b_.CreateFCmpUNO(a, a); }
  // min and max with a constant other than 0 that pass NaN through, in the form for which the machine has an
  // instruction.
  Value* AtMost(Value* x, double limit) {
    if (f_.neon) return b_.CreateMinimum(x, K(limit));
    return Select(Lt(K(limit), x), K(limit), x);
  }
  Value* AtLeast(Value* x, double limit) {
    if (f_.neon) return b_.CreateMaximum(x, K(limit));
    return Select(Gt(K(limit), x), K(limit), x);
  }
  Value* Bits(Value* x) { return b_.CreateBitCast(x, bits_); }
  Value* FromBits(Value* x) { return b_.CreateBitCast(x, t_); }
  Value* Inf() { return llvm::ConstantFP::getInfinity(t_); }
  Value* Nan() { return llvm::ConstantFP::getNaN(t_); }

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

  // Returns x * y + z with one rounding, even if the machine has no fma.
  Value* ExactFma(Value* x, Value* y, Value* z);

 protected:
  llvm::IRBuilder<>& b_;
  const CpuFeatures& f_;
  Type* t_;
  Type* bits_;  // integers of the type's width
  bool is_double_;
  int mantissa_, bias_;

 private:
  static std::vector<int> Range(int from, int n) {
    std::vector<int> r;
    for (int i = 0; i < n; ++i) r.push_back(from + i);
    return r;
  }
  Value* Concatenate(std::vector<Value*> parts, int lanes);
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_FLOAT_EMITTER_H_
