// The scalar functions of pointwise operators.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/elementary.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/check_arguments.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/tables.h"

namespace smelt {
namespace op_internal {

DType NumberDType(OpArg::Kind kind) {
  switch (kind) {
    case OpArg::Kind::kBool:
      return DType::kBool;
    case OpArg::Kind::kInt:
      return DType::kInt64;
    case OpArg::Kind::kComplex:
      return DType::kComplex128;
    default:
      return DType::kFloat64;
  }
}

PromotionOperand PromotionOf(const OpArg& arg) {
  PromotionOperand p;
  if (arg.IsTensor()) {
    p.dtype = arg.tensor.dtype.value_or(DType::kFloat32);
    p.category = arg.tensor.sizes && arg.tensor.sizes->empty() ? PromotionOperand::Category::kZeroDim
                                                               : PromotionOperand::Category::kDimensioned;
  } else {
    p.dtype = NumberDType(arg.kind);
    p.category = PromotionOperand::Category::kNumber;
  }
  return p;
}

}  // namespace op_internal

DType ResultType(absl::Span<const PromotionOperand> operands) {
  using Category = PromotionOperand::Category;
  std::optional<DType> by[3];
  for (const PromotionOperand& p : operands) {
    DType t = p.dtype;
    // A Python number stands for the default dtype of its kind.
    if (p.category == Category::kNumber) {
      if (t == DType::kFloat64) t = DType::kFloat32;
      if (t == DType::kComplex128) t = DType::kComplex64;
    }
    std::optional<DType>& slot = by[static_cast<int>(p.category)];
    slot = slot ? PromoteTypes(*slot, t) : t;
  }
  // A later category counts only if its kind is higher: complex, floating point, integer, bool.
  auto kind = [](DType t) { return IsComplex(t) ? 3 : IsFloating(t) ? 2 : IsIntegral(t) ? 1 : 0; };
  auto combine = [&](std::optional<DType> higher, std::optional<DType> lower) -> std::optional<DType> {
    if (!higher) return lower;
    if (!lower) return higher;
    if (kind(*higher) >= kind(*lower)) return higher;
    // Returns the complex dtype of the same precision.
    if (IsFloating(*higher)) return *higher == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
    return PromoteTypes(*higher, *lower);
  };
  return combine(by[0], combine(by[1], by[2])).value_or(DType::kFloat32);
}

namespace {

using op_internal::NumberDType;
using op_internal::PromotionOf;

class Ctx;

// An instruction of the function being built.
struct V {
  Ctx* c = nullptr;
  int id = -1;
  DType type() const;
};

class Ctx {
 public:
  explicit Ctx(const OpCall& call) : call(call) {}

  const OpCall& call;
  ScalarBuilder b;
  PointwiseMeaning m;
  absl::Status status;

  void Fail(absl::Status s) {
    if (status.ok()) status = std::move(s);
  }

  // Returns an argument unconverted: a tensor in its dtype, a number as bool, int64 or double.
  V Raw(int i) {
    for (size_t k = 0; k < m.operands.size(); ++k) {
      if (m.operands[k].arg == i) return V{this, ids_[k]};
    }
    const OpArg& a = call.arg(i);
    PointwiseOperand operand;
    operand.arg = i;
    DType t = DType::kFloat32;
    if (a.IsTensor()) {
      if (!a.tensor.dtype) Fail(call.Error(absl::StrCat("the dtype of argument ", i, " is not known")));
      t = a.tensor.dtype.value_or(t);
    } else if (a.IsScalar()) {
      operand.is_scalar = true;
      t = NumberDType(a.kind);
    } else {
      Fail(call.Error(absl::StrCat("argument ", i, " is neither a tensor nor a number")));
    }
    if (IsComplex(t)) {
      Fail(call.Unsupported("complex numbers have no scalar function"));
      t = DType::kFloat32;
    }
    m.operands.push_back(operand);
    ids_.push_back(b.Arg(t));
    return V{this, ids_.back()};
  }
  int Index(absl::string_view name) {
    const int i = call.IndexOf(name);
    if (i < 0) Fail(call.Error(absl::StrCat("has no argument \"", name, "\"")));
    return i;
  }
  V Raw(absl::string_view name) { return Raw(Index(name)); }
  V To(V v, DType t) { return V{this, b.Cast(v.id, t)}; }
  V In(int i, DType t) { return To(Raw(i), t); }
  // Returns a number or tensor in compute type t; `d` if it is absent or None.
  V Num(absl::string_view name, DType t, double d = 0) {
    if (call.IsNone(name)) return Const(t, d);
    return In(Index(name), t);
  }
  V Const(DType t, double v) { return V{this, b.Const(t, v)}; }
  double Constant(absl::string_view name, double d) {
    auto v = call.GetDoubleOr(name, d);
    if (!v.ok()) {
      Fail(v.status());
      return d;
    }
    return *v;
  }
  // Returns whether a number is known to be v. Such a number may change the generated code.
  bool Is(absl::string_view name, double v) const {
    const OpArg* a = call.Find(name);
    return a != nullptr && a->known && a->IsScalar() && a->kind != OpArg::Kind::kComplex && a->expr.IsConstant() &&
           a->number == v;
  }
  DType Promote(const std::vector<int>& args) {
    std::vector<PromotionOperand> p;
    for (int i : args) p.push_back(PromotionOf(call.arg(i)));
    return ResultType(p);
  }
  // Returns an operand rounded to the common dtype, as TensorIterator does, and then converted to the compute type.
  V Common(int i, DType common) { return To(In(i, common), OpMathType(common)); }
  // Rounds as a kernel does that computes on half types step by step.
  V Rounded(V v, DType t) { return To(To(v, t), v.type()); }
  // Returns a number that a kernel keeps in the dtype of its tensors.
  V RoundedNum(absl::string_view name, DType t, double d = 0) { return To(Num(name, t, d), OpMathType(t)); }
  void Return(V v, DType result) {
    if (IsComplex(result)) {
      Fail(call.Unsupported("complex numbers have no scalar function"));
      result = DType::kFloat32;
    }
    results_.push_back(To(v, result).id);
    m.results.push_back(result);
  }
  absl::StatusOr<PointwiseMeaning> Finish() {
    SMELT_RETURN_IF_ERROR(status);
    ScalarFn fn = b.Finish(results_);
    // Sorts the operands by argument: a rule's C++ expressions may request them in any order.
    std::vector<int> order(m.operands.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [this](int x, int y) { return m.operands[x].arg < m.operands[y].arg; });
    std::vector<PointwiseOperand> operands;
    std::vector<int> args(order.size());
    for (int i : order) {
      operands.push_back(m.operands[i]);
      args[i] = b.Arg(fn.arg_types[i]);
    }
    m.operands = std::move(operands);
    m.fn = b.Finish(b.Inline(fn, args));
    SMELT_RETURN_IF_ERROR(op_internal::CheckTypesOf(call, m.fn));
    return std::move(m);
  }

 private:
  std::vector<int> ids_;
  std::vector<int> results_;
};

DType V::type() const { return c->b.TypeOf(id); }

V Op(ScalarOp op, V a) { return V{a.c, a.c->b.Op(op, a.type(), a.id)}; }
V Op(ScalarOp op, V a, V b) { return V{a.c, a.c->b.Op(op, a.type(), a.id, b.id)}; }
V Test(ScalarOp op, V a, V b) { return V{a.c, a.c->b.Op(op, DType::kBool, a.id, b.id)}; }
V K(V like, double v) { return V{like.c, like.c->b.Const(like.type(), v)}; }
V operator+(V a, V b) { return Op(ScalarOp::kAdd, a, b); }
V operator-(V a, V b) { return Op(ScalarOp::kSub, a, b); }
V operator*(V a, V b) { return Op(ScalarOp::kMul, a, b); }
V operator/(V a, V b) { return Op(ScalarOp::kDiv, a, b); }
V operator+(V a, double b) { return a + K(a, b); }
V operator-(V a, double b) { return a - K(a, b); }
V operator*(V a, double b) { return a * K(a, b); }
V operator/(V a, double b) { return a / K(a, b); }
V operator+(double a, V b) { return K(b, a) + b; }
V operator-(double a, V b) { return K(b, a) - b; }
V operator*(double a, V b) { return K(b, a) * b; }
V operator/(double a, V b) { return K(b, a) / b; }
V operator-(V a) { return Op(ScalarOp::kNeg, a); }
V operator<(V a, V b) { return Test(ScalarOp::kLt, a, b); }
V operator<=(V a, V b) { return Test(ScalarOp::kLe, a, b); }
V operator>(V a, V b) { return Test(ScalarOp::kGt, a, b); }
V operator>=(V a, V b) { return Test(ScalarOp::kGe, a, b); }
V operator<(V a, double b) { return a < K(a, b); }
V operator<=(V a, double b) { return a <= K(a, b); }
V operator>(V a, double b) { return a > K(a, b); }
V Eq(V a, V b) { return Test(ScalarOp::kEq, a, b); }
V Eq(V a, double b) { return Eq(a, K(a, b)); }
V And(V a, V b) { return Op(ScalarOp::kAnd, a, b); }
V Or(V a, V b) { return Op(ScalarOp::kOr, a, b); }
V Not(V a) { return Op(ScalarOp::kNot, a); }
V Select(V c, V a, V b) { return V{a.c, a.c->b.Op(ScalarOp::kSelect, a.type(), c.id, a.id, b.id)}; }
V Select(V c, V a, double b) { return Select(c, a, K(a, b)); }
V Select(V c, double a, V b) { return Select(c, K(b, a), b); }
V Fma(V a, V b, V c) { return V{a.c, a.c->b.Op(ScalarOp::kFma, a.type(), a.id, b.id, c.id)}; }
V IsNan(V a) { return V{a.c, a.c->b.Op(ScalarOp::kIsNan, DType::kBool, a.id)}; }
V IsInf(V a) { return V{a.c, a.c->b.Op(ScalarOp::kIsInf, DType::kBool, a.id)}; }
V Exp(V a) { return Op(ScalarOp::kExp, a); }
V Log(V a) { return Op(ScalarOp::kLog, a); }
V Log1p(V a) { return Op(ScalarOp::kLog1p, a); }
V Tanh(V a) { return Op(ScalarOp::kTanh, a); }
V Abs(V a) { return Op(ScalarOp::kAbs, a); }
V Max(V a, V b) { return Op(ScalarOp::kMax, a, b); }
V Min(V a, V b) { return Op(ScalarOp::kMin, a, b); }
V Sigmoid(V a) { return Op(ScalarOp::kSigmoid, a); }

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The Chebyshev series of cephes' i0, i0e, i1, i1e.
V Chebyshev(V x, absl::Span<const double> c) {
  V b0 = K(x, c[0]), b1 = K(x, 0), b2 = b1;
  for (size_t i = 1; i < c.size(); ++i) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + K(x, c[i]);
  }
  return 0.5 * (b0 - b2);
}

constexpr double kI0A[] = {
    -4.41534164647933937950E-18, 3.33079451882223809783E-17, -2.43127984654795469359E-16, 1.71539128555513303061E-15,
    -1.16853328779934516808E-14, 7.67618549860493561688E-14, -4.85644678311192946090E-13, 2.95505266312963983461E-12,
    -1.72682629144155570723E-11, 9.67580903537323691224E-11, -5.18979560163526290666E-10, 2.65982372468238665035E-9,
    -1.30002500998624804212E-8,  6.04699502254191894932E-8,  -2.67079385394061173391E-7,  1.11738753912010371815E-6,
    -4.41673835845875056359E-6,  1.64484480707288970893E-5,  -5.75419501008210370398E-5,  1.88502885095841655729E-4,
    -5.76375574538582365885E-4,  1.63947561694133579842E-3,  -4.32430999505057594430E-3,  1.05464603945949983183E-2,
    -2.37374148058994688156E-2,  4.93052842396707084878E-2,  -9.49010970480476444210E-2,  1.71620901522208775349E-1,
    -3.04682672343198398683E-1,  6.76795274409476084995E-1};
constexpr double kI0B[] = {
    -7.23318048787475395456E-18, -4.83050448594418207126E-18, 4.46562142029675999901E-17,  3.46122286769746109310E-17,
    -2.82762398051658348494E-16, -3.42548561967721913462E-16, 1.77256013305652638360E-15,  3.81168066935262242075E-15,
    -9.55484669882830764870E-15, -4.15056934728722208663E-14, 1.54008621752140982691E-14,  3.85277838274214270114E-13,
    7.18012445138366623367E-13,  -1.79417853150680611778E-12, -1.32158118404477131188E-11, -3.14991652796324136454E-11,
    1.18891471078464383424E-11,  4.94060238822496958910E-10,  3.39623202570838634515E-9,   2.26666899049817806459E-8,
    2.04891858946906374183E-7,   2.89137052083475648297E-6,   6.88975834691682398426E-5,   3.36911647825569408990E-3,
    8.04490411014108831608E-1};
constexpr double kI1A[] = {
    2.77791411276104639959E-18, -2.11142121435816608115E-17, 1.55363195773620046921E-16, -1.10559694773538630805E-15,
    7.60068429473540693410E-15, -5.04218550472791168711E-14, 3.22379336594557470981E-13, -1.98397439776494371520E-12,
    1.17361862988909016308E-11, -6.66348972350202774223E-11, 3.62559028155211703701E-10, -1.88724975172282928790E-9,
    9.38153738649577178388E-9,  -4.44505912879632808065E-8,  2.00329475355213526229E-7,  -8.56872026469545474066E-7,
    3.47025130813767847674E-6,  -1.32731636560394358279E-5,  4.78156510755005422638E-5,  -1.61760815825896745588E-4,
    5.12285956168575772895E-4,  -1.51357245063125314899E-3,  4.15642294431288815669E-3,  -1.05640848946261981558E-2,
    2.47264490306265168283E-2,  -5.29459812080949914269E-2,  1.02643658689847095384E-1,  -1.76416518357834055153E-1,
    2.52587186443633654823E-1};
constexpr double kI1B[] = {
    7.51729631084210481353E-18,  4.41434832307170791151E-18,  -4.65030536848935832153E-17, -3.20952592199342395980E-17,
    2.96262899764595013876E-16,  3.30820231092092828324E-16,  -1.88035477551078244854E-15, -3.81440307243700780478E-15,
    1.04202769841288027642E-14,  4.27244001671195135429E-14,  -2.10154184277266431302E-14, -4.08355111109219731823E-13,
    -7.19855177624590851209E-13, 2.03562854414708950722E-12,  1.41258074366137813316E-11,  3.25260358301548823856E-11,
    -1.89749581235054123450E-11, -5.58974346219658380687E-10, -3.83538038596423702205E-9,  -2.63146884688951950684E-8,
    -2.51223623787020892529E-7,  -3.88256480887769039346E-6,  -1.10588938762623716291E-4,  -9.76109749136146840777E-3,
    7.78576235018280120474E-1};

V BesselI0(V x, bool scaled) {
  V a = Abs(x);
  V small = Chebyshev(a / 2 - 2, kI0A), large = Chebyshev(32 / a - 2, kI0B) / Op(ScalarOp::kSqrt, a);
  V e = Select(a <= 8, small, large);
  return scaled ? e : Exp(a) * e;
}
V BesselI1(V x, bool scaled) {
  V a = Abs(x);
  V small = Chebyshev(a / 2 - 2, kI1A) * a, large = Chebyshev(32 / a - 2, kI1B) / Op(ScalarOp::kSqrt, a);
  V e = Select(a <= 8, small, large);
  V r = scaled ? e : Exp(a) * e;
  return Select(x < 0, -r, r);
}

V Gelu(V x, bool tanh) {
  if (tanh) {
    // x/2 (1 + tanh(z)); where tanh is close to -1 it is computed without cancellation as x / (1 + e^(-2z)).
    V inner = M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * (x * x * x));
    return x / (1 + Exp(-2 * inner));
  }
  return x * 0.5 * (1 + Op(ScalarOp::kErf, x * M_SQRT1_2));
}

V GeluBackward(V g, V x, bool tanh) {
  if (tanh) {
    const double beta = M_SQRT2 * M_2_SQRTPI * 0.5, kappa = 0.044715;
    V x2 = x * x, inner = beta * (x + kappa * (x2 * x)), t = Tanh(inner);
    V left = 0.5 * x, right = 1 + t;
    V dt = 1 - t * t, di = beta * (1 + 3 * kappa * x2);
    return g * (0.5 * right + left * dt * di);
  }
  V cdf = 0.5 * (1 + Op(ScalarOp::kErf, x * M_SQRT1_2));
  V pdf = Exp(-0.5 * (x * x)) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return g * (cdf + x * pdf);
}

// Python's floor division of floating-point numbers, computed as in PyTorch: each step in dtype t.
V FloorDivFloat(V a, V b, DType t) {
  const auto rounded = [&](V v) { return a.c->Rounded(v, t); };
  V mod = Op(ScalarOp::kRemTrunc, a, b);
  V div = rounded(rounded(a - mod) / b);
  const V second = Op(ScalarOp::kXor, b < 0, mod < 0);
  V adjust = And(Not(Eq(mod, 0.0)), second);
  div = Select(adjust, rounded(div - 1), div);
  V fl = Op(ScalarOp::kFloor, div);
  const V second2 = rounded(fl + 1);
  fl = Select(rounded(div - fl) > 0.5, second2, fl);
  V zero = Op(ScalarOp::kCopysign, K(a, 0), a / b);
  V r = Select(Eq(div, 0.0), zero, fl);
  return Select(Eq(b, 0.0), a / b, r);
}

using Rule = std::function<void(Ctx&)>;

// Converts an integer input to the default dtype and computes in float32 or float64.
Rule FloatUnary(std::function<V(V)> f) {
  return [f](Ctx& c) {
    DType t = c.Promote({0});
    if (!IsFloating(t)) t = IsComplex(t) ? t : DType::kFloat32;
    c.Return(f(c.Common(0, t)), t);
  };
}
Rule FloatUnary(ScalarOp op) {
  return FloatUnary([op](V x) { return Op(op, x); });
}
// Keeps the dtype; `f` sees the compute type, also for integers.
Rule SameUnary(std::function<V(Ctx&, V)> f) {
  return [f](Ctx& c) {
    const DType t = c.Raw(0).type();
    c.Return(f(c, c.Common(0, t)), t);
  };
}
// For floating point only; f as above.
Rule Activation(std::function<V(Ctx&, V)> f) { return SameUnary(std::move(f)); }
Rule RoundUnary(ScalarOp op) {
  return SameUnary([op](Ctx&, V x) { return IsFloating(x.type()) ? Op(op, x) : x; });
}
Rule Predicate(std::function<V(Ctx&, V)> f) {
  return [f](Ctx& c) {
    V raw = c.Raw(0);
    c.Return(f(c, c.To(raw, OpMathType(raw.type()))), DType::kBool);
  };
}
Rule Comparison(ScalarOp op) {
  return [op](Ctx& c) {
    const DType t = c.Promote({0, 1});
    const V operand = c.Common(1, t);
    c.Return(Test(op, c.Common(0, t), operand), DType::kBool);
  };
}
enum class Ints { kKeep, kToFloat };
Rule Binary(std::function<V(Ctx&, V, V)> f, Ints ints = Ints::kKeep) {
  return [f, ints](Ctx& c) {
    DType t = c.Promote({0, 1});
    if (ints == Ints::kToFloat && !IsFloating(t) && !IsComplex(t)) t = DType::kFloat32;
    const V operand = c.Common(1, t);
    c.Return(f(c, c.Common(0, t), operand), t);
  };
}
Rule Binary(ScalarOp op, Ints ints = Ints::kKeep) {
  return Binary([op](Ctx&, V a, V b) { return Op(op, a, b); }, ints);
}
// The second operand of * and / on half types, where it is a number or a 0-dim tensor, is not rounded to the half type
// first.
V Second(Ctx& c, int i, DType common) {
  const OpArg& a = c.call.arg(i);
  const bool one = !a.IsTensor() || (a.tensor.sizes && a.tensor.sizes->empty());
  if (one && OpMathType(common) != common) return c.In(i, OpMathType(common));
  return c.Common(i, common);
}
Rule LogicalBinary(ScalarOp op) {
  return [op](Ctx& c) {
    const V operand = c.In(1, DType::kBool);
    c.Return(Op(op, c.In(0, DType::kBool), operand), DType::kBool);
  };
}
// For half types, numbers in the sum, including the factor, are rounded first.
V AddScaled(Ctx& c, V a, V b, bool subtract) {
  if (absl::Status s = op_internal::CheckSums(c.call); !s.ok()) c.Fail(std::move(s));
  if (c.call.IsNone("alpha") || c.Is("alpha", 1)) {
    if (a.type() == DType::kBool) return subtract ? Op(ScalarOp::kXor, a, b) : Or(a, b);
    return subtract ? a - b : a + b;
  }
  if (a.type() == DType::kBool) return Or(a, And(b, c.Num("alpha", DType::kBool)));
  V alpha = c.RoundedNum("alpha", c.Promote({0, 1}));
  if (subtract) alpha = -alpha;
  return IsFloating(a.type()) ? Fma(b, alpha, a) : a + alpha * b;
}
V Mul(V a, V b) { return a.type() == DType::kBool ? And(a, b) : a * b; }
Rule Add(bool subtract) {
  return Binary([subtract](Ctx& c, V a, V b) { return AddScaled(c, a, b, subtract); });
}

// Returns whether the second operand is one number. Tensors of half types are divided by it in float32.
bool DividesByOne(const Ctx& c) {
  const OpArg& divisor = c.call.arg(1);
  const auto is_one = [](const Expr& size) { return size == Expr(1); };
  const auto& sizes = divisor.tensor.sizes;
  return !divisor.IsTensor() || (sizes && std::all_of(sizes->begin(), sizes->end(), is_one));
}
void FloorDivRule(Ctx& c) {
  const DType t = c.Promote({0, 1});
  V a = c.Common(0, t), b = Second(c, 1, t);
  c.Return(IsFloating(t) ? FloorDivFloat(a, b, DividesByOne(c) ? a.type() : t) : Op(ScalarOp::kDivFloor, a, b), t);
}

void DivRule(Ctx& c) {
  std::string mode;
  if (!c.call.IsNone("rounding_mode")) mode = c.call.Find("rounding_mode")->string;
  if (mode == "floor") return FloorDivRule(c);
  DType t = c.Promote({0, 1});
  if (mode.empty() && !IsFloating(t) && !IsComplex(t)) t = DType::kFloat32;
  V a = c.Common(0, t), b = Second(c, 1, t);
  if (mode.empty()) {
    c.Return(a / b, t);
  } else if (mode == "trunc") {
    if (!IsFloating(t)) return c.Return(Op(ScalarOp::kDivTrunc, a, b), t);
    V quotient = a / b;
    // PyTorch rounds the quotient first, unless a tensor is divided by one number.
    if (!DividesByOne(c)) quotient = c.Rounded(quotient, t);
    c.Return(Op(ScalarOp::kTrunc, quotient), t);
  } else {
    c.Fail(c.call.Error(absl::StrCat("rounding_mode is \"", mode, "\", expected None, \"trunc\" or \"floor\"")));
  }
}

void PowRule(Ctx& c) {
  const DType t = c.Promote({0, 1});
  V a = c.Common(0, t);
  const OpArg& e = c.call.arg(1);
  if (e.IsScalar() && e.known && e.expr.IsConstant() && e.kind != OpArg::Kind::kComplex) {
    const double p = e.number;
    if (!IsFloating(t) && p < 0 && IsIntegral(t)) {
      return c.Fail(c.call.Error("integers to negative integer powers are not allowed"));
    }
    if (p == 0) return c.Return(K(a, 1), t);
    if (p == 1) return c.Return(a, t);
    if (t != DType::kBool && p == 2) return c.Return(a * a, t);
    // bfloat16 vectors are rounded after each product.
    const auto square = [&] { return t == DType::kBFloat16 ? c.Rounded(a * a, t) : a * a; };
    if (t != DType::kBool && p == 3) return c.Return(square() * a, t);
    if (IsFloating(t)) {
      if (p == 0.5) return c.Return(Op(ScalarOp::kSqrt, a), t);
      if (p == -0.5) return c.Return(1 / Op(ScalarOp::kSqrt, a), t);
      if (p == -1) return c.Return(1 / a, t);
      if (p == -2) return c.Return(1 / square(), t);
    }
  }
  V b = c.Common(1, t);
  if (t == DType::kBool) {
    // Integer powers: 0^0 is 1.
    const V converted = c.To(b, DType::kInt64);
    c.Return(Op(ScalarOp::kPow, c.To(a, DType::kInt64), converted), t);
    return;
  }
  c.Return(Op(ScalarOp::kPow, a, b), t);
}

// x * 2^n for an integer n, like C's ldexp: valid where 2^n itself would overflow.
void ScaleByPowerOfTwo(Ctx& c, DType t) {
  constexpr DType d = DType::kFloat64;
  V product = c.To(c.In(0, t), d);
  V left = c.To(c.To(c.Raw(1), DType::kInt32), d);
  for (double most : {1000.0, 1000.0, 200.0}) {
    const V step = Max(Min(left, K(left, most)), K(left, -most));
    product = product * Op(ScalarOp::kExp2, step);
    left = left - step;
  }
  c.Return(c.To(product, OpMathType(t)), t);
}

void ClampRule(Ctx& c, absl::string_view low, absl::string_view high) {
  std::vector<int> args = {0};
  for (absl::string_view n : {low, high}) {
    if (!n.empty() && !c.call.IsNone(n)) args.push_back(c.Index(n));
  }
  if (args.size() == 1) c.Fail(c.call.Error("at least one of min and max must be given"));
  const DType t = c.Promote(args);
  V x = c.Common(0, t);
  if (!low.empty() && !c.call.IsNone(low)) x = Max(x, c.Common(c.Index(low), t));
  if (!high.empty() && !c.call.IsNone(high)) x = Min(x, c.Common(c.Index(high), t));
  c.Return(x, t);
}

void WhereRule(Ctx& c) {
  const DType t = c.Promote({1, 2});
  V cond = c.In(0, DType::kBool);
  const V operand = c.In(2, t);
  c.Return(Select(cond, c.In(1, t), operand), t);
}

void LerpRule(Ctx& c) {
  const DType t = c.Promote({0, 1});
  V a = c.Common(0, t), e = c.Common(1, t), w = c.In(2, a.type());
  c.Return(Select(w < 0.5, Fma(w, e - a, a), e - (e - a) * (1 - w)), t);
}

void AddcRule(Ctx& c, bool divide) {
  DType t = c.Promote({0, 1, 2});
  V a = c.Common(0, t), b = c.Common(1, t), d = c.Common(2, t);
  if (divide && !IsFloating(t)) c.Fail(c.call.Error("integer division with addcdiv is not supported"));
  V alpha = c.Is("value", 1) ? K(a, 1) : c.Num("value", a.type(), 1);
  V x = c.Is("value", 1) ? b : alpha * b;
  c.Return(divide ? a + x / d : a + x * d, t);
}

void MaskedFillRule(Ctx& c) {
  const DType t = c.Raw(0).type();
  V v = c.In(2, t);
  const V operand = c.Raw(0);
  c.Return(Select(c.In(1, DType::kBool), v, operand), t);
}

struct Limits {
  double max, min;
};
Limits LimitsOf(DType t) {
  switch (t) {
    case DType::kFloat16:
      return {65504.0, -65504.0};
    case DType::kBFloat16:
      return {3.3895313892515355e38, -3.3895313892515355e38};
    case DType::kFloat32:
      return {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    default:
      return {std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  }
}

void NanToNumRule(Ctx& c) {
  const DType t = c.Raw(0).type();
  if (!IsFloating(t)) return c.Return(c.Raw(0), t);
  V x = c.Common(0, t);
  const Limits limits = LimitsOf(t);
  V nan = c.Num("nan", x.type(), 0), pos = c.Num("posinf", x.type(), limits.max),
    neg = c.Num("neginf", x.type(), limits.min);
  const V chosen = Select(Eq(x, -kInf), neg, x);
  const V third = Select(Eq(x, kInf), pos, chosen);
  c.Return(Select(IsNan(x), nan, third), t);
}

void CastRule(Ctx& c, DType t) { c.Return(c.Raw(0), t); }

// A constant everywhere: zeros, full, fill. `index` < 0: the constant v.
void ConstantRule(Ctx& c, DType t, int index, double v = 0) {
  if (IsComplex(t)) {
    c.Fail(c.call.Unsupported("complex numbers have no scalar function"));
    return;
  }
  c.Return(index < 0 ? c.Const(t, v) : c.Raw(index), t);
}

// Returns the dtype of a factory: the argument "dtype", else that of `self`, else the one that the value suggests, else
// float32.
DType FactoryDType(Ctx& c, int value) {
  if (std::optional<DType> t = c.call.GetDType("dtype")) return *t;
  const OpArg* self = c.call.Find("self");
  if (self != nullptr && self->IsTensor() && self->tensor.dtype) return *self->tensor.dtype;
  if (value >= 0 && c.call.op().name() == "aten::full") {
    const DType t = NumberDType(c.call.arg(value).kind);
    return t == DType::kFloat64 ? DType::kFloat32 : t;
  }
  return DType::kFloat32;
}

// The table of all pointwise operators. It is as long as there are operators, with a line or two for each.
const absl::flat_hash_map<std::string, Rule>& Rules() {
  static const auto* const kRules = [] {
    auto* r = new absl::flat_hash_map<std::string, Rule>();
    auto add = [r](absl::string_view names, Rule rule) {
      while (!names.empty()) {
        const size_t comma = names.find(' ');
        (*r)[absl::StrCat("aten::", names.substr(0, comma))] = rule;
        names = comma == absl::string_view::npos ? absl::string_view() : names.substr(comma + 1);
      }
    };
    using S = ScalarOp;
    // Identities and conversions.
    add("clone lift_fresh_copy alias_copy detach_copy", [](Ctx& c) { CastRule(c, c.Raw(0).type()); });
    add("_to_copy", [](Ctx& c) { CastRule(c, c.call.GetDType("dtype").value_or(c.Raw(0).type())); });
    add("copy", [](Ctx& c) {
      const OpArg& self = c.call.arg(0);
      c.Return(c.Raw(1), self.tensor.dtype.value_or(DType::kFloat32));
    });
    add("fill", [](Ctx& c) { ConstantRule(c, c.call.arg(0).tensor.dtype.value_or(DType::kFloat32), 1); });
    add("zero", [](Ctx& c) { ConstantRule(c, c.call.arg(0).tensor.dtype.value_or(DType::kFloat32), -1, 0); });
    // The content of an empty tensor must not matter; zeros are reproducible.
    add("zeros zeros_like new_zeros empty empty_like new_empty empty_strided new_empty_strided empty_permuted",
        [](Ctx& c) { ConstantRule(c, FactoryDType(c, -1), -1, 0); });
    add("ones ones_like new_ones", [](Ctx& c) { ConstantRule(c, FactoryDType(c, -1), -1, 1); });
    add("full full_like new_full", [](Ctx& c) {
      const int i = c.Index("fill_value");
      ConstantRule(c, FactoryDType(c, i), i);
    });
    add("scalar_tensor", [](Ctx& c) { ConstantRule(c, FactoryDType(c, 0), 0); });

    // One argument, the dtype is kept.
    add("abs absolute", SameUnary([](Ctx&, V x) { return x.type() == DType::kBool ? x : Abs(x); }));
    add("neg negative", SameUnary([](Ctx&, V x) { return -x; }));
    add("ceil", RoundUnary(S::kCeil));
    add("floor", RoundUnary(S::kFloor));
    add("trunc fix", RoundUnary(S::kTrunc));
    add("round", [](Ctx& c) {
      if (c.call.op().overload() != "decimals") return RoundUnary(S::kRound)(c);
      const DType t = c.Raw(0).type();
      if (!IsFloating(t)) return CastRule(c, t);
      const double d = c.Constant("decimals", 0);
      V x = c.Common(0, t);
      if (d == 0) return c.Return(Op(S::kRound, x), t);
      const double ten = Power(10, std::fabs(d));
      c.Return(d < 0 ? Op(S::kRound, x / ten) * ten : Op(S::kRound, x * ten) / ten, t);
    });
    add("frac", SameUnary([](Ctx&, V x) { return x - Op(S::kTrunc, x); }));
    add("sign sgn", SameUnary([](Ctx& c, V x) {
          if (x.type() == DType::kBool) return x;
          if (!IsSigned(x.type())) return Select(x > 0, 1, K(x, 0));
          return Select(x > 0, K(x, 1), Select(x < 0, -1, K(x, 0)));
        }));
    add("square", SameUnary([](Ctx& c, V x) { return Mul(x, x); }));
    (*r)["aten::square"] = [](Ctx& c) {
      DType t = c.Raw(0).type();
      if (t == DType::kBool) t = DType::kInt64;
      V x = c.Common(0, t);
      c.Return(x * x, t);
    };
    add("relu", SameUnary([](Ctx&, V x) { return Max(x, K(x, 0)); }));
    add("relu6", SameUnary([](Ctx&, V x) { return Min(Max(x, K(x, 0)), K(x, 6)); }));
    add("bitwise_not __invert__", SameUnary([](Ctx&, V x) { return Not(x); }));
    add("nan_to_num", NanToNumRule);
    add("conj_physical _conj_physical", [](Ctx& c) { CastRule(c, c.Raw(0).type()); });

    // Predicates.
    add("isnan", Predicate([](Ctx& c, V x) { return IsFloating(x.type()) ? IsNan(x) : c.Const(DType::kBool, 0); }));
    add("isinf", Predicate([](Ctx& c, V x) { return IsFloating(x.type()) ? IsInf(x) : c.Const(DType::kBool, 0); }));
    add("isfinite",
        Predicate([](Ctx& c, V x) { return IsFloating(x.type()) ? Abs(x) < kInf : c.Const(DType::kBool, 1); }));
    add("isposinf",
        Predicate([](Ctx& c, V x) { return IsFloating(x.type()) ? Eq(x, kInf) : c.Const(DType::kBool, 0); }));
    add("isneginf",
        Predicate([](Ctx& c, V x) { return IsFloating(x.type()) ? Eq(x, -kInf) : c.Const(DType::kBool, 0); }));
    add("isreal", Predicate([](Ctx& c, V) { return c.Const(DType::kBool, 1); }));
    add("logical_not", [](Ctx& c) { c.Return(Not(c.In(0, DType::kBool)), DType::kBool); });
    add("signbit", Predicate([](Ctx& c, V x) {
          if (!IsSigned(x.type())) return c.Const(DType::kBool, 0);
          return V{&c, c.b.Op(S::kSignbit, DType::kBool, x.id)};
        }));

    // One argument, floating-point result.
    add("exp", FloatUnary(S::kExp));
    add("exp2 special_exp2", FloatUnary(S::kExp2));
    add("expm1 special_expm1", FloatUnary(S::kExpm1));
    add("log", FloatUnary(S::kLog));
    add("log2", FloatUnary(S::kLog2));
    add("log10", FloatUnary(S::kLog10));
    add("log1p special_log1p", FloatUnary(S::kLog1p));
    add("sqrt", FloatUnary(S::kSqrt));
    add("rsqrt", FloatUnary([](V x) { return 1 / Op(S::kSqrt, x); }));
    add("reciprocal", FloatUnary([](V x) { return 1 / x; }));
    add("sin", FloatUnary(S::kSin));
    add("cos", FloatUnary(S::kCos));
    add("tan", FloatUnary(S::kTan));
    add("asin arcsin", FloatUnary(S::kAsin));
    add("acos arccos", FloatUnary(S::kAcos));
    add("atan arctan", FloatUnary(S::kAtan));
    add("sinh", FloatUnary(S::kSinh));
    add("cosh", FloatUnary(S::kCosh));
    add("tanh", FloatUnary(S::kTanh));
    add("asinh arcsinh", FloatUnary(S::kAsinh));
    add("acosh arccosh", FloatUnary(S::kAcosh));
    add("atanh arctanh", FloatUnary(S::kAtanh));
    add("sigmoid special_expit", FloatUnary(S::kSigmoid));
    add("erf special_erf", FloatUnary(S::kErf));
    add("erfc special_erfc", FloatUnary(S::kErfc));
    add("erfinv special_erfinv", FloatUnary(S::kErfinv));
    add("lgamma special_gammaln", FloatUnary(S::kLgamma));
    add("digamma special_digamma special_psi", FloatUnary(S::kDigamma));
    add("sinc special_sinc", FloatUnary([](V x) {
          V p = x * M_PI;
          const V third = Op(S::kSin, p) / p;
          return Select(Eq(x, 0.0), 1, third);
        }));
    add("deg2rad", FloatUnary([](V x) { return x * (M_PI / 180); }));
    add("rad2deg", FloatUnary([](V x) { return x * (180 / M_PI); }));
    add("i0 special_i0", FloatUnary([](V x) { return BesselI0(x, false); }));
    add("special_i0e", FloatUnary([](V x) { return BesselI0(x, true); }));
    add("special_i1", FloatUnary([](V x) { return BesselI1(x, false); }));
    add("special_i1e", FloatUnary([](V x) { return BesselI1(x, true); }));
    add("special_entr", FloatUnary([](V x) {
          const V chosen = Select(Eq(x, 0.0), K(x, 0), K(x, -kInf));
          const V third = Select(x > 0, -x * Log(x), chosen);
          return Select(IsNan(x), x, third);
        }));
    add("special_ndtr", FloatUnary([](V x) {
          V t = x * M_SQRT1_2;
          V small = 0.5 + 0.5 * Op(S::kErf, t);
          V tail = 0.5 * Op(S::kErfc, Abs(t));
          const V chosen = Select(t > 0, 1 - tail, Select(IsNan(t), t, tail));
          return Select(Abs(t) < 1, small, chosen);
        }));
    add("angle", [](Ctx& c) {
      DType t = c.Raw(0).type();
      if (!IsFloating(t)) t = DType::kFloat32;
      V x = c.Common(0, t);
      const V chosen = Select(x < 0, M_PI, K(x, 0));
      c.Return(Select(IsNan(x), x, chosen), t);
    });
    add("logit special_logit", [](Ctx& c) {
      DType t = c.Promote({0});
      if (!IsFloating(t)) t = DType::kFloat32;
      V x = c.Common(0, t);
      if (!c.call.IsNone("eps") && !c.Is("eps", -1)) {
        V eps = c.RoundedNum("eps", t);
        V high = c.Rounded(1 - eps, t);
        x = Select(x < eps, eps, Select(x > high, high, x));
      }
      c.Return(Log(c.Rounded(x / c.Rounded(1 - x, t), t)), t);
    });

    // Activations.
    add("silu", Activation([](Ctx&, V x) { return x / (1 + Exp(-x)); }));
    add("mish", Activation([](Ctx&, V x) { return x * Tanh(Log1p(Exp(x))); }));
    add("hardsigmoid", Activation([](Ctx&, V x) { return Min(Max(x + 3, K(x, 0)), K(x, 6)) / 6; }));
    add("hardswish", Activation([](Ctx&, V x) { return x * Min(Max(x + 3, K(x, 0)), K(x, 6)) / 6; }));
    add("hardtanh", Activation([](Ctx& c, V x) {
          const V number = c.Num("max_val", x.type());
          return Min(Max(x, c.Num("min_val", x.type())), number);
        }));
    auto elu = [](V x, V alpha, V scale, V input_scale) {
      return Select(x <= 0, Op(ScalarOp::kExpm1, x * input_scale) * (alpha * scale), x * scale);
    };
    add("elu", Activation([elu](Ctx& c, V x) {
          const V number = c.Num("input_scale", x.type(), 1);
          const V third = c.Num("scale", x.type(), 1);
          return elu(x, c.Num("alpha", x.type(), 1), third, number);
        }));
    add("selu", Activation([elu](Ctx& c, V x) {
          return elu(x, K(x, 1.6732632423543772848170429916717), K(x, 1.0507009873554804934193349852946), K(x, 1));
        }));
    add("celu", Activation([elu](Ctx& c, V x) {
          V alpha = c.Num("alpha", x.type(), 1);
          return elu(x, alpha, K(x, 1), 1 / alpha);
        }));
    add("leaky_relu",
        Activation([](Ctx& c, V x) { return Select(x > 0, x, x * c.Num("negative_slope", x.type(), 0.01)); }));
    add("softplus", Activation([](Ctx& c, V x) {
          V beta = c.Num("beta", x.type(), 1), threshold = c.Num("threshold", x.type(), 20);
          V z = x * beta;
          return Select(z > threshold, x, Log1p(Exp(z)) / beta);
        }));
    add("softshrink", Activation([](Ctx& c, V x) {
          V l = c.Num("lambd", x.type(), 0.5);
          return Select(x > l, x - l, Select(x < -l, x + l, x * 0));
        }));
    add("hardshrink", Activation([](Ctx& c, V x) {
          V l = c.RoundedNum("lambd", c.Raw(0).type(), 0.5);
          return Select(And(x >= -l, x <= l), 0, x);
        }));
    add("log_sigmoid", Activation([](Ctx&, V x) { return Min(x, K(x, 0)) - Log1p(Exp(-Abs(x))); }));
    add("gelu", Activation([](Ctx& c, V x) {
          return Gelu(x, !c.call.IsNone("approximate") && c.call.Find("approximate")->string == "tanh");
        }));
    add("threshold", Activation([](Ctx& c, V x) {
          const V number = c.Num("value", x.type());
          return Select(x <= c.Num("threshold", x.type()), number, x);
        }));

    // Two arguments.
    add("add", Add(false));
    add("sub subtract", Add(true));
    add("rsub", [](Ctx& c) {
      const DType t = c.Promote({0, 1});
      const V operand = c.Common(0, t);
      c.Return(AddScaled(c, c.Common(1, t), operand, true), t);
    });
    add("mul multiply", [](Ctx& c) {
      const DType t = c.Promote({0, 1});
      const V second = Second(c, 1, t);
      c.Return(Mul(c.Common(0, t), second), t);
    });
    add("div true_divide divide", DivRule);
    add("floor_divide", FloorDivRule);
    add("remainder", Binary(S::kRemFloor));
    add("fmod", Binary(S::kRemTrunc));
    add("pow", PowRule);
    add("float_power", [](Ctx& c) {
      const V operand = c.In(1, DType::kFloat64);
      c.Return(Op(S::kPow, c.In(0, DType::kFloat64), operand), DType::kFloat64);
    });
    add("atan2 arctan2", Binary(S::kAtan2, Ints::kToFloat));
    auto minmax = [](S op, S boolean) {
      return Binary([op, boolean](Ctx&, V a, V b) { return Op(a.type() == DType::kBool ? boolean : op, a, b); });
    };
    add("maximum", minmax(S::kMax, S::kOr));
    add("minimum", minmax(S::kMin, S::kAnd));
    add("fmax", minmax(S::kFMax, S::kOr));
    add("fmin", minmax(S::kFMin, S::kAnd));
    add("copysign", Binary(S::kCopysign, Ints::kToFloat));
    add("hypot", Binary(S::kHypot, Ints::kToFloat));
    add("nextafter", [](Ctx& c) {
      const DType t = c.Promote({0, 1});
      if (OpMathType(t) != t) c.Fail(c.call.Unsupported("nextafter of half types"));
      const V operand = c.Common(1, t);
      c.Return(Op(S::kNextAfter, c.Common(0, t), operand), t);
    });
    add("logaddexp", Binary(
                         [](Ctx&, V a, V b) {
                           V m = Max(a, b);
                           const V log1p = m + Log1p(Exp(-Abs(a - b)));
                           const V is_equal = Eq(a, b);
                           return Select(And(IsInf(a), is_equal), a, log1p);
                         },
                         Ints::kToFloat));
    add("logaddexp2", Binary(
                          [](Ctx&, V a, V b) {
                            V m = Max(a, b);
                            const V log1p = m + Log1p(Op(S::kExp2, -Abs(a - b))) * (1 / M_LN2);
                            const V is_equal = Eq(a, b);
                            return Select(And(IsInf(a), is_equal), a, log1p);
                          },
                          Ints::kToFloat));
    auto xlogy = [](bool one) {
      return Binary(
          [one](Ctx& c, V x, V y) {
            const DType t = c.Promote({0, 1});
            V l = one ? Log1p(y) : Log(y);
            if (IsFloating(t)) l = c.Rounded(l, t);
            const V chosen = Select(Eq(x, 0.0), 0, x * l);
            return Select(IsNan(y), y, chosen);
          },
          Ints::kToFloat);
    };
    add("xlogy special_xlogy", xlogy(false));
    add("special_xlog1py", xlogy(true));
    add("heaviside", Binary([](Ctx& c, V x, V v) {
          if (x.type() == DType::kBool) return Select(x, x, v);
          const V converted = c.To(x > 0, x.type());
          return Select(Eq(x, 0.0), v, converted);
        }));
    add("ldexp", [](Ctx& c) {
      const auto& x = c.call.arg(0).tensor.dtype;
      const auto& n = c.call.arg(1).tensor.dtype;
      if (x && n && IsFloating(*x) && IsIntegral(*n)) return ScaleByPowerOfTwo(c, *x);
      DType p = ResultType({PromotionOf(OpArg::Float(2)), PromotionOf(c.call.arg(1))});
      V two = c.To(Op(S::kExp2, c.Common(1, p)), p);
      PromotionOperand second = PromotionOf(c.call.arg(1));
      second.dtype = p;
      const DType t = ResultType({PromotionOf(c.call.arg(0)), second});
      c.Return(c.Common(0, t) * c.To(c.To(two, t), OpMathType(t)), t);
    });
    add("eq", Comparison(S::kEq));
    add("ne not_equal", Comparison(S::kNe));
    add("lt less", Comparison(S::kLt));
    add("le less_equal", Comparison(S::kLe));
    add("gt greater", Comparison(S::kGt));
    add("ge greater_equal", Comparison(S::kGe));
    add("logical_and", LogicalBinary(S::kAnd));
    add("logical_or", LogicalBinary(S::kOr));
    add("logical_xor", LogicalBinary(S::kXor));
    add("bitwise_and __and__", Binary(S::kAnd));
    add("bitwise_or __or__", Binary(S::kOr));
    add("bitwise_xor __xor__", Binary(S::kXor));
    add("bitwise_left_shift __lshift__", Binary(S::kShl));
    add("bitwise_right_shift __rshift__", Binary(S::kShr));

    // Three arguments.
    add("where", WhereRule);
    add("clamp clip", [](Ctx& c) { ClampRule(c, "min", "max"); });
    add("clamp_min", [](Ctx& c) { ClampRule(c, "min", ""); });
    add("clamp_max", [](Ctx& c) { ClampRule(c, "", "max"); });
    add("lerp", LerpRule);
    add("addcmul", [](Ctx& c) { AddcRule(c, false); });
    add("addcdiv", [](Ctx& c) { AddcRule(c, true); });
    add("masked_fill", MaskedFillRule);

    // Backward formulas.
    auto backward = [](std::function<V(Ctx&, V, V)> f) {
      return [f](Ctx& c) {
        const DType t = c.Promote({0, 1});
        const V operand = c.Common(1, t);
        c.Return(f(c, c.Common(0, t), operand), t);
      };
    };
    add("threshold_backward",
        backward([](Ctx& c, V g, V x) { return Select(x <= c.Num("threshold", x.type()), 0, g); }));
    add("sigmoid_backward", backward([](Ctx&, V g, V y) { return g * (1 - y) * y; }));
    add("tanh_backward", backward([](Ctx&, V g, V y) { return g * (1 - y * y); }));
    add("silu_backward", backward([](Ctx&, V g, V x) {
          V s = Sigmoid(x);
          return g * s * (1 + x * (1 - s));
        }));
    add("gelu_backward", backward([](Ctx& c, V g, V x) {
          return GeluBackward(g, x, !c.call.IsNone("approximate") && c.call.Find("approximate")->string == "tanh");
        }));
    add("hardtanh_backward", backward([](Ctx& c, V g, V x) {
          const V number = x >= c.Num("max_val", x.type());
          return Select(Or(x <= c.Num("min_val", x.type()), number), 0, g);
        }));
    add("hardsigmoid_backward",
        backward([](Ctx&, V g, V x) { return Select(And(x > -3, x < 3), g * static_cast<double>(1.0f / 6.0f), 0); }));
    add("hardswish_backward",
        backward([](Ctx&, V g, V x) { return Select(x <= -3, 0, Select(x < 3, g * (x / 3 + 0.5), g)); }));
    add("leaky_relu_backward",
        backward([](Ctx& c, V g, V x) { return Select(x > 0, g, g * c.Num("negative_slope", x.type())); }));
    add("elu_backward", [](Ctx& c) {
      const int xi = c.Index("self_or_result");
      const DType t = c.Promote({0, xi});
      V g = c.Common(0, t), x = c.Common(xi, t);
      V alpha = c.Num("alpha", x.type()), scale = c.Num("scale", x.type()),
        input_scale = c.Num("input_scale", x.type());
      V negative = alpha * scale;
      const bool is_result = c.Constant("is_result", 0) != 0;
      c.Return(Select(x <= 0,
                      is_result ? g * input_scale * (x + negative) : g * input_scale * negative * Exp(x * input_scale),
                      g * scale),
               t);
    });
    add("softplus_backward", backward([](Ctx& c, V g, V x) {
          V beta = c.Num("beta", x.type()), z = Exp(x * beta);
          return Select(x * beta > c.Num("threshold", x.type()), g, g * z / (z + 1));
        }));
    add("softshrink_backward hardshrink_backward", backward([](Ctx& c, V g, V x) {
          V l = c.RoundedNum("lambd", c.Raw(c.Index("self")).type());
          return Select(And(x >= -l, x <= l), 0, g);
        }));
    add("logit_backward", backward([](Ctx& c, V g, V x) {
          V d = g / (x * (1 - x));
          if (c.call.IsNone("eps") || c.Is("eps", -1)) return Select(Or(x < 0, x > 1), kNan, d);
          V eps = c.Num("eps", x.type());
          return Select(Or(x < eps, x > 1 - eps), 0, d);
        }));
    add("_prelu_kernel", [](Ctx& c) {
      const DType t = c.Promote({0, 1});
      V x = c.Common(0, t), w = c.Common(1, t);
      c.Return(Select(x > 0, x, w * x), t);
    });
    add("isclose", [](Ctx& c) {
      const DType t = c.Promote({0, 1});
      V a = c.Common(0, t), b = c.Common(1, t);
      V close = Eq(a, b);
      if (IsFloating(t) && c.Constant("equal_nan", 0) != 0) {
        const V is_nan = IsNan(b);
        close = Or(close, And(IsNan(a), is_nan));
      }
      const DType f = IsFloating(t) ? a.type() : DType::kFloat32;
      a = c.To(a, f);
      b = c.To(b, f);
      V allowed = c.Num("atol", f, 1e-8) + Abs(c.Num("rtol", f, 1e-5) * b), actual = Abs(a - b);
      c.Return(Or(close, And(actual < kInf, actual <= allowed)), DType::kBool);
    });
    add("native_dropout_backward", [](Ctx& c) {
      const DType t = c.Raw(0).type();
      V g = c.Common(0, t);
      c.Return(g * (c.In(1, g.type()) * c.Num("scale", g.type())), t);
    });
    add("mish_backward", backward([](Ctx&, V g, V x) {
          V t = Tanh(Log1p(Exp(x)));
          return g * (t + x * Sigmoid(x) * (1 - t * t));
        }));
    add("log_sigmoid_backward", backward([](Ctx&, V g, V x) {
          V z = Exp(-Abs(x));
          V sign = Select(x < 0, K(x, 1), K(x, -1)), max = Select(x < 0, K(x, 1), K(x, 0));
          return g * (max - sign * (z / (1 + z)));
        }));
    // PyTorch has no kernels for these operators with bool results.
    for (const char* name :
         {"abs", "absolute", "neg", "negative", "positive", "ceil", "floor", "trunc", "fix", "frac", "round", "relu",
          "remainder", "fmod", "floor_divide", "pow", "addcmul", "addcdiv", "lerp"}) {
      const auto it = r->find(absl::StrCat("aten::", name));
      if (it == r->end()) continue;
      it->second = [name, rule = it->second](Ctx& c) {
        rule(c);
        if (c.status.ok() && c.m.results[0] == DType::kBool)
          c.Fail(c.call.Error(absl::StrCat("\"", name, "\" not implemented for 'Bool'")));
      };
    }
    return r;
  }();
  return *kRules;
}

const Rule* FindRule(OpName op) {
  const auto& rules = Rules();
  if (op.full() == "prims::convert_element_type") {
    static const Rule* const kConvert = new Rule([](Ctx& c) {
      auto t = c.call.arg(1).expr.Constant();
      CastRule(c, t ? DTypeFromScalarType(*t).value_or(DType::kFloat32) : DType::kFloat32);
    });
    return kConvert;
  }
  auto it = rules.find(op.name());
  if (it == rules.end()) return nullptr;
  // Overloads of the same name that mean something else.
  const std::string& o = op.overload();
  if (absl::EndsWith(o, "_out") || o == "out" || absl::StartsWith(o, "out_")) return nullptr;
  if (o == "int" || o == "float" || o == "bool" || o == "int_float" || o == "float_int" || o == "str" ||
      o == "Scalar_mode_int" || o == "complex" || absl::StartsWith(o, "float_") || absl::StartsWith(o, "int_") ||
      absl::StartsWith(o, "complex_") || absl::StartsWith(o, "bool_") || o == "t" || absl::EndsWith(o, "_list") ||
      absl::EndsWith(o, "_complex") || o == "device" || o == "enum" || o == "names" ||
      (o == "Scalar" && (op.name() == "aten::exp" || op.name() == "aten::sqrt")) || o == "left_t" || o == "right_" ||
      o == "a" || o == "str_" || o == "default_complex") {
    return nullptr;
  }
  if (op.name() == "aten::where" && o.empty()) return nullptr;  // nonzero
  return &it->second;
}

}  // namespace

namespace op_internal {
bool HasPointwise(OpName op) { return FindRule(op) != nullptr; }
}  // namespace op_internal

absl::StatusOr<PointwiseMeaning> BuildPointwise(const OpCall& call) {
  const Rule* rule = FindRule(call.op());
  if (rule == nullptr) return call.Unsupported("is not a pointwise operator");
  Ctx c(call);
  (*rule)(c);
  return c.Finish();
}

}  // namespace smelt
