// Python numbers and containers.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::eval_internal {
namespace {

std::string Bare(const std::string& name) { return name.substr(name.find("::") + 2); }

EvalValue ItemOf(const Tensor& t) {
  const char* p = static_cast<const char*>(t.data());
  if (t.dtype() == DType::kBool) return EvalValue(LoadAs<int64_t>(p, t.dtype()) != 0);
  if (IsComplex(t.dtype())) return EvalValue(LoadAs<Cx>(p, t.dtype()));
  if (IsFloating(t.dtype())) return EvalValue(LoadAs<double>(p, t.dtype()));
  return EvalValue(LoadAs<int64_t>(p, t.dtype()));
}

// Converts the number to the schema's result type.
EvalValue AsResult(const Call& c, EvalValue v) {
  if (c.schema->returns.empty()) return v;
  switch (c.schema->returns[0].type.kind()) {
    case TypeKind::kInt:
      return EvalValue(ToInt(v));
    case TypeKind::kFloat:
      return EvalValue(ToDouble(v));
    case TypeKind::kBool:
      return EvalValue(ToBool(v));
    case TypeKind::kComplex:
      return EvalValue(ToComplex(v));
    default:
      return v;
  }
}

absl::StatusOr<Values> Item(Call& c) {
  const Tensor t = c.args[0].tensor();
  if (t.NumElements() != 1)
    return c.Error(absl::StrCat("a Tensor with ", t.NumElements(), " elements cannot be converted to Scalar"));
  return Values{AsResult(c, ItemOf(t))};
}

absl::StatusOr<Values> Convert(Call& c) {
  if (c.args[0].IsTensor()) return Item(c);
  if (c.args[0].IsString()) return c.Unsupported("numbers from strings");
  if (!c.args[0].IsNumber()) return c.Error("no number");
  if (c.args[0].IsDouble() && !c.schema->returns.empty() && c.schema->returns[0].type.kind() == TypeKind::kInt &&
      !std::isfinite(c.args[0].as_double()))
    return c.Error("cannot convert float infinity or NaN to integer");
  return Values{AsResult(c, c.args[0])};
}

absl::StatusOr<int64_t> FloorDivide(const Call& c, int64_t a, int64_t b) {
  if (b == 0) return c.Error("ZeroDivisionError: integer division or modulo by zero");
  if (b == -1) return WrappingSub(int64_t{0}, a);
  return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
}

// Compares any two values for equality as Python does.
bool Equal(const EvalValue& a, const EvalValue& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsInt() && b.IsInt()) return a.as_int() == b.as_int();
    return ToComplex(a) == ToComplex(b);
  }
  if (a.IsString() && b.IsString()) return a.as_string() == b.as_string();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsList() && b.IsList()) {
    return a.elements().size() == b.elements().size() &&
           std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(), Equal);
  }
  return a.identity() != nullptr && a.identity() == b.identity();
}

// Checks a result of Python's math: for finite numbers (`of_finite`) it must not be infinite or NaN.
absl::StatusOr<EvalValue> InRange(const Call& c, double v, bool of_finite) {
  if (of_finite && std::isnan(v)) return c.Error("ValueError: math domain error");
  if (of_finite && std::isinf(v)) return c.Error("OverflowError: (34, 'Numerical result out of range')");
  return EvalValue(v);
}

absl::StatusOr<EvalValue> Binary(const Call& c, const std::string& f, const EvalValue& a, const EvalValue& b) {
  const bool ints = (a.IsInt() || a.IsBool()) && (b.IsInt() || b.IsBool());
  const int64_t i = ToInt(a), j = ToInt(b);
  const double x = ToDouble(a), y = ToDouble(b);
  if (a.IsComplex() || b.IsComplex()) {
    const Cx u = ToComplex(a), v = ToComplex(b);
    if (f == "add") return EvalValue(u + v);
    if (f == "sub") return EvalValue(u - v);
    if (f == "mul") return EvalValue(u * v);
    if (f == "div") return EvalValue(u / v);
    if (f == "eq") return EvalValue(u == v);
    if (f == "ne") return EvalValue(u != v);
    if (f == "pow") return EvalValue(std::pow(u, v));
    return c.Unsupported("is not supported for complex numbers");
  }
  if (f == "add") return ints ? EvalValue(WrappingAdd(i, j)) : EvalValue(x + y);
  if (f == "sub") return ints ? EvalValue(WrappingSub(i, j)) : EvalValue(x - y);
  if (f == "mul") return ints ? EvalValue(WrappingMul(i, j)) : EvalValue(x * y);
  if (f == "div" || f == "truediv") {
    if (y == 0) return c.Error("ZeroDivisionError: division by zero");
    return EvalValue(x / y);
  }
  if (f == "floordiv" || f == "__round_to_zero_floordiv") {
    if (!ints) {
      if (y == 0) return c.Error("ZeroDivisionError: float divmod()");
      return EvalValue(f == "floordiv" ? std::floor(x / y) : std::trunc(x / y));
    }
    if (f == "floordiv") {
      SMELT_ASSIGN_OR_RETURN(int64_t q, FloorDivide(c, i, j));
      return EvalValue(q);
    }
    if (j == 0) return c.Error("ZeroDivisionError: integer division or modulo by zero");
    return EvalValue(j == -1 ? WrappingSub(int64_t{0}, i) : i / j);
  }
  if (f == "remainder" || f == "mathremainder" || f == "fmod") {
    if (ints && f == "remainder") {
      SMELT_ASSIGN_OR_RETURN(int64_t q, FloorDivide(c, i, j));
      return EvalValue(WrappingSub(i, WrappingMul(q, j)));
    }
    if (y == 0) return c.Error("ZeroDivisionError: modulo by zero");
    if (f == "fmod") return EvalValue(std::fmod(x, y));
    if (f == "mathremainder") return EvalValue(std::remainder(x, y));
    const double r = std::fmod(x, y);
    return EvalValue(r != 0 && (r < 0) != (y < 0) ? r + y : r);
  }
  if (f == "pow") {
    if (ints && j >= 0) {
      int64_t r = 1, base = i;
      bool fits = true;
      for (int64_t e = j; e > 0 && fits; e >>= 1) {
        if (e & 1) fits = !__builtin_mul_overflow(r, base, &r);
        if (e > 1) fits = !__builtin_mul_overflow(base, base, &base) && fits;
      }
      if (!fits) return c.Error("OverflowError: an integer of more than 64 bits");
      return AsResult(c, EvalValue(r));
    }
    if (x == 0 && y < 0) return c.Error("ZeroDivisionError: 0.0 cannot be raised to a negative power");
    if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
      return c.Error("a negative number to the power of a fraction is complex, a real one is expected");
    return InRange(c, std::pow(x, y), std::isfinite(x) && std::isfinite(y));
  }
  if (f == "lt") return EvalValue(ints ? i < j : x < y);
  if (f == "le") return EvalValue(ints ? i <= j : x <= y);
  if (f == "gt") return EvalValue(ints ? i > j : x > y);
  if (f == "ge") return EvalValue(ints ? i >= j : x >= y);
  if (f == "min") return ints ? EvalValue(std::min(i, j)) : EvalValue(std::min(x, y));
  if (f == "max") return ints ? EvalValue(std::max(i, j)) : EvalValue(std::max(x, y));
  if (f == "__and__") return EvalValue(i & j);
  if (f == "__or__") return EvalValue(i | j);
  if (f == "__xor__") return EvalValue(i ^ j);
  if (f == "__lshift__")
    return EvalValue(j < 0 || j > 63 ? int64_t{0} : static_cast<int64_t>(static_cast<uint64_t>(i) << j));
  if (f == "__rshift__") return EvalValue(j < 0 || j > 63 ? int64_t{0} : i >> j);
  if (f == "gcd") {
    int64_t u = WrappingAbs(i), v = WrappingAbs(j);
    while (v != 0) std::swap(u = v == -1 ? 0 : u % v, v);
    return EvalValue(u);
  }
  if (f == "atan2") return EvalValue(std::atan2(x, y));
  if (f == "copysign") return EvalValue(std::copysign(x, y));
  if (f == "hypot") return EvalValue(std::hypot(x, y));
  if (f == "log") return EvalValue(std::log(x) / std::log(y));
  if (f == "round") {
    const double scale = std::pow(10.0, y);
    return EvalValue(std::nearbyint(x * scale) / scale);
  }
  return c.Unsupported("is not supported on numbers");
}

absl::StatusOr<EvalValue> Unary(const Call& c, const std::string& f, const EvalValue& a) {
  const bool integer = a.IsInt() || a.IsBool();
  const int64_t i = ToInt(a);
  const double x = ToDouble(a);
  if (f == "neg") return integer ? EvalValue(WrappingSub(int64_t{0}, i)) : EvalValue(-x);
  if (f == "abs") return integer ? EvalValue(WrappingAbs(i)) : EvalValue(std::abs(x));
  if (f == "__not__" || f == "not_") return EvalValue(!ToBool(a));
  if (f == "ceil") return EvalValue(std::ceil(x));
  if (f == "floor") return EvalValue(std::floor(x));
  if (f == "round") return EvalValue(std::nearbyint(x));
  if (f == "trunc") return EvalValue(std::trunc(x));
  if (f == "isnan") return EvalValue(std::isnan(x));
  if (f == "isinf") return EvalValue(std::isinf(x));
  if (f == "isfinite") return EvalValue(std::isfinite(x));
  if (f == "fabs") return EvalValue(std::fabs(x));
  if (f == "degrees") return EvalValue(x * 180 / M_PI);
  if (f == "radians") return EvalValue(x * M_PI / 180);
  if (f == "factorial") {
    int64_t r = 1;
    if (i < 0 || i > 20) return c.Error("factorial() of a number that is negative or too large");
    for (int64_t k = 2; k <= i; ++k) r *= k;
    return EvalValue(r);
  }
  const std::pair<const char*, double (*)(double)> functions[] = {
      {"sqrt", std::sqrt},   {"exp", std::exp},      {"expm1", std::expm1},  {"log", std::log},     {"log2", std::log2},
      {"log10", std::log10}, {"log1p", std::log1p},  {"sin", std::sin},      {"cos", std::cos},     {"tan", std::tan},
      {"asin", std::asin},   {"acos", std::acos},    {"atan", std::atan},    {"sinh", std::sinh},   {"cosh", std::cosh},
      {"tanh", std::tanh},   {"asinh", std::asinh},  {"acosh", std::acosh},  {"atanh", std::atanh}, {"erf", std::erf},
      {"erfc", std::erfc},   {"gamma", std::tgamma}, {"lgamma", std::lgamma}};
  for (const auto& [name, function] : functions) {
    if (f == name) return InRange(c, function(x), std::isfinite(x));
  }
  return c.Unsupported("is not supported on numbers");
}

}  // namespace

// Arithmetic on Python numbers: overloads without tensors.
absl::StatusOr<Values> Number(Call& c) {
  const std::string f = Bare(c.name());
  if ((f == "eq" || f == "ne") && c.args.size() == 2)
    return Values{EvalValue(Equal(c.args[0], c.args[1]) == (f == "eq"))};
  if (!c.args.empty() && c.args[0].IsList()) {
    if ((f == "max" || f == "min") && !c.args[0].elements().empty()) {
      EvalValue best = c.args[0].elements()[0];
      for (const EvalValue& e : c.args[0].elements()) {
        SMELT_ASSIGN_OR_RETURN(best, Binary(c, f, best, e));
      }
      return Values{best};
    }
    if (f == "add" && c.args[1].IsList()) {
      Values e = c.args[0].elements();
      e.insert(e.end(), c.args[1].elements().begin(), c.args[1].elements().end());
      return Values{EvalValue::List(std::move(e))};
    }
    if (f == "mul" && c.args[1].IsInt()) {
      Values e;
      if (c.args[1].as_int() > 1000000) return c.Error("a list is too long");
      for (int64_t k = 0; k < c.args[1].as_int(); ++k)
        e.insert(e.end(), c.args[0].elements().begin(), c.args[0].elements().end());
      return Values{EvalValue::List(std::move(e))};
    }
  }
  if (c.args.size() == 1 && c.args[0].IsNumber()) {
    SMELT_ASSIGN_OR_RETURN(EvalValue v, Unary(c, f, c.args[0]));
    return Values{AsResult(c, v)};
  }
  if (c.args.size() >= 2 && c.args[0].IsNumber() && c.args[1].IsNumber()) {
    SMELT_ASSIGN_OR_RETURN(EvalValue v, Binary(c, f, c.args[0], c.args[1]));
    return Values{AsResult(c, v)};
  }
  return c.Unsupported("is not supported on these values");
}

namespace {

absl::StatusOr<Values> Identity(Call& c) {
  const bool same = (c.args[0].IsNone() && c.args[1].IsNone()) ||
                    (c.args[0].identity() != nullptr && c.args[0].identity() == c.args[1].identity()) ||
                    (c.args[0].IsNumber() && c.args[1].IsNumber() && Equal(c.args[0], c.args[1]));
  return Values{EvalValue(same == (c.name() == "aten::__is__"))};
}

absl::StatusOr<Values> Size(Call& c) {
  const Tensor t = c.args[0].tensor();
  const bool stride = absl::EndsWith(c.name(), "stride");
  const absl::Span<const int64_t> v = stride ? t.strides() : t.sizes();
  if (c.schema->FindArgument("dim") < 0 || !c.Has("dim")) return Values{EvalValue::Ints(v)};
  if (t.rank() == 0) return c.Error("Dimension specified as 0 but tensor has no dimensions");
  SMELT_ASSIGN_OR_RETURN(int d, Dim(c, c.I("dim"), t.rank()));
  return Values{EvalValue(v[d])};
}

absl::StatusOr<Values> Query(Call& c) {
  const Tensor t = c.args[0].tensor();
  const std::string f = Bare(c.name());
  if (f == "numel" || f == "sym_numel") return Values{EvalValue(t.NumElements())};
  if (f == "dim") return Values{Val(t.rank())};
  if (f == "storage_offset" || f == "sym_storage_offset") return Values{EvalValue(t.offset())};
  if (f == "is_floating_point") return Values{EvalValue(IsFloating(t.dtype()))};
  if (f == "is_complex") return Values{EvalValue(IsComplex(t.dtype()))};
  if (f == "is_signed") return Values{EvalValue(IsSigned(t.dtype()))};
  if (f == "dtype") return Values{EvalValue(ScalarTypeOf(t.dtype()))};
  if (f == "layout") return Values{EvalValue(int64_t{0})};
  if (f == "device") return Values{EvalValue(std::string("cpu"))};
  if (f == "len") {
    if (t.rank() == 0) return c.Error("len() of a 0-d tensor");
    return Values{EvalValue(t.sizes()[0])};
  }
  if (f == "is_nonzero") {
    if (t.NumElements() != 1) return c.Error("Boolean value of Tensor with more than one value is ambiguous");
    return Values{EvalValue(ToBool(c.args[0]))};
  }
  if (f == "is_contiguous") {
    ConcreteDecide decide;
    const int64_t format = c.I("memory_format", 0);
    return Values{EvalValue(format == 0 ? view_rules::IsContiguous(decide, t.geometry())
                                        : view_rules::IsChannelsLast(decide, t.geometry()))};
  }
  return c.Unsupported("is not supported");
}

absl::StatusOr<Values> NumToTensor(Call& c) {
  const EvalValue& v = c.args[0];
  const DType t = v.IsBool()      ? DType::kBool
                  : v.IsInt()     ? DType::kInt64
                  : v.IsComplex() ? DType::kComplex128
                                  : DType::kFloat64;
  return Values{EvalValue(ScalarTensor(t, v))};
}

absl::StatusOr<Values> Range(Call& c) {
  if (c.name() == "aten::__range_length") {
    const int64_t lo = c.I("lo"), hi = c.I("hi"), step = c.I("step", 1);
    if (step == 0) return c.Error("range() arg 3 must not be zero");
    if (step > 0 ? lo >= hi : lo <= hi) return Values{EvalValue(int64_t{0})};
    // Distances of two int64 fit in a uint64.
    const auto between = static_cast<uint64_t>(step > 0 ? WrappingSub(hi, lo) : WrappingSub(lo, hi));
    return Values{EvalValue(static_cast<int64_t>(1 + (between - 1) / static_cast<uint64_t>(WrappingAbs(step))))};
  }
  return Values{EvalValue(WrappingAdd(c.I("start"), WrappingMul(c.I("index"), c.I("step"))))};  // __derive_index
}

absl::StatusOr<Values> Assert(Call& c) {
  if (absl::StartsWith(c.name(), "aten::sym_constrain_range")) {
    const int64_t v = c.I("size");
    const bool ok = (!c.Has("min") || v >= c.I("min")) && (!c.Has("max") || v <= c.I("max")) &&
                    (c.name() != "aten::sym_constrain_range_for_size" || v >= 0);
    if (!ok) return c.Error(absl::StrCat("Invalid value range for ", v));
    return Values{};
  }
  if (c.name() == "aten::_assert_tensor_metadata") return Values{};
  std::string message = "Assertion failed";
  for (const EvalValue& a : c.args) {
    if (a.IsString()) message = a.as_string();
  }
  if (!ToBool(c.args[0])) return c.Error(message);
  return Values{};
}

// --- containers ---

absl::StatusOr<int64_t> Index(const Call& c, int64_t i, size_t n, int64_t past_end = 0) {
  const int64_t size = static_cast<int64_t>(n);
  const int64_t at = i < 0 ? i + size : i;
  if (at < 0 || at >= size + past_end) return c.Error("list index out of range");
  return at;
}

absl::StatusOr<Values> Dict(Call& c) {
  const std::string f = Bare(c.name());
  auto& items = c.args[0].dict().items;
  auto find = [&](const EvalValue& key) {
    return std::find_if(items.begin(), items.end(), [&](const auto& item) { return Equal(item.first, key); });
  };
  if (f == "len") return Values{EvalValue(static_cast<int64_t>(items.size()))};
  if (f == "keys" || f == "values" || f == "items") {
    Values v;
    for (const auto& [k, x] : items) v.push_back(f == "keys" ? k : f == "values" ? x : EvalValue::Tuple({k, x}));
    return Values{EvalValue::List(std::move(v))};
  }
  if (f == "clear") {
    items.clear();
    return Values{};
  }
  if (f == "copy" || f == "dict") {
    EvalValue d = EvalValue::Dict();
    d.dict().items = items;
    return Values{d};
  }
  if (c.args.size() < 2) return c.Unsupported("is not supported on dictionaries");
  if (f == "update" && c.args[1].IsDict()) {
    for (const auto& [k, x] : std::vector(c.args[1].dict().items)) {
      if (auto at = find(k); at == items.end()) {
        items.push_back({k, x});
      } else {
        at->second = x;
      }
    }
    return Values{};
  }
  auto it = find(c.args[1]);
  const EvalValue fallback = c.args.size() > 2 ? c.args[2] : EvalValue();
  if (f == "__contains__") return Values{EvalValue(it != items.end())};
  if (f == "__getitem__") {
    if (it == items.end()) return c.Error(absl::StrCat("KeyError: ", c.args[1].ToString()));
    return Values{it->second};
  }
  if (f == "get") return Values{it == items.end() ? fallback : it->second};
  if (f == "setdefault") {
    if (it == items.end()) {
      items.push_back({c.args[1], fallback});
      return Values{fallback};
    }
    return Values{it->second};
  }
  if (f == "_set_item") {
    if (it == items.end()) {
      items.push_back({c.args[1], c.args[2]});
    } else {
      it->second = c.args[2];
    }
    return Values{};
  }
  if (f == "pop" || f == "Delete" || f == "__delitem__") {
    if (it == items.end()) {
      if (f == "pop" && c.args.size() > 2) return Values{fallback};
      return c.Error(absl::StrCat("KeyError: ", c.args[1].ToString()));
    }
    const EvalValue v = it->second;
    items.erase(it);
    return f == "pop" ? Values{v} : Values{};
  }
  return c.Unsupported("is not supported on dictionaries");
}

absl::StatusOr<Values> Container(Call& c) {
  if (c.args.empty()) return c.Unsupported("is not supported");
  if (c.args[0].IsDict()) return Dict(c);
  const std::string f = Bare(c.name());
  if (c.args[0].IsString() && (f == "len" || f == "eq")) {
    return Values{f == "len" ? EvalValue(static_cast<int64_t>(c.args[0].as_string().size()))
                             : EvalValue(Equal(c.args[0], c.args[1]))};
  }
  if (!c.args[0].IsList()) {
    if (c.args[0].IsTensor() && f == "len") return Query(c);
    return c.Unsupported("is not supported on this value");
  }
  std::vector<EvalValue>& e = c.args[0].elements();
  if (f == "len") return Values{EvalValue(static_cast<int64_t>(e.size()))};
  if (f == "append") {
    e.push_back(c.args[1]);
    return Values{c.args[0]};
  }
  if (f == "extend") {
    const Values more = c.args[1].elements();
    e.insert(e.end(), more.begin(), more.end());
    return Values{};
  }
  if (f == "insert") {
    const int64_t n = static_cast<int64_t>(e.size());
    const int64_t at = std::clamp<int64_t>(c.I("idx") < 0 ? c.I("idx") + n : c.I("idx"), 0, n);
    e.insert(e.begin() + at, c.args[2]);
    return Values{};
  }
  if (f == "pop" || f == "Delete" || f == "__delitem__") {
    SMELT_ASSIGN_OR_RETURN(int64_t at, Index(c, c.args.size() > 1 ? ToInt(c.args[1]) : -1, e.size()));
    const EvalValue v = e[at];
    e.erase(e.begin() + at);
    return f == "pop" ? Values{v} : Values{};
  }
  if (f == "reverse") {
    std::reverse(e.begin(), e.end());
    return Values{};
  }
  if (f == "sort" || f == "sorted") {
    Values sorted(e.begin(), e.end());
    for (const EvalValue& v : sorted) {
      if (v.IsDouble() && std::isnan(ToDouble(v))) return c.Unsupported("of a list with NaN in it");
    }
    const bool reverse = f == "sort" && c.B("reverse");
    std::sort(sorted.begin(), sorted.end(), [&](const EvalValue& a, const EvalValue& b) {
      const EvalValue &x = reverse ? b : a, &y = reverse ? a : b;
      return x.IsDouble() ? ToDouble(x) < ToDouble(y) : ToInt(x) < ToInt(y);
    });
    if (f == "sorted") return Values{EvalValue::List(std::move(sorted))};
    e = std::move(sorted);
    return Values{};
  }
  if (f == "clear") {
    e.clear();
    return Values{};
  }
  if (f == "__getitem__" || f == "TupleIndex") {
    SMELT_ASSIGN_OR_RETURN(int64_t at, Index(c, ToInt(c.args[1]), e.size()));
    return Values{e[at]};
  }
  if (f == "_set_item") {
    SMELT_ASSIGN_OR_RETURN(int64_t at, Index(c, ToInt(c.args[1]), e.size()));
    e[at] = c.args[2];
    return Values{c.args[0]};
  }
  if (f == "__contains__") {
    return Values{EvalValue(std::any_of(e.begin(), e.end(), [&](const EvalValue& x) { return Equal(x, c.args[1]); }))};
  }
  if (f == "count") {
    return Values{EvalValue(static_cast<int64_t>(
        std::count_if(e.begin(), e.end(), [&](const EvalValue& x) { return Equal(x, c.args[1]); })))};
  }
  if (f == "index" || f == "remove") {
    auto it = std::find_if(e.begin(), e.end(), [&](const EvalValue& x) { return Equal(x, c.args[1]); });
    if (it == e.end()) return c.Error("the value is not in the list");
    if (f == "index") return Values{EvalValue(static_cast<int64_t>(it - e.begin()))};
    e.erase(it);
    return Values{};
  }
  if (f == "copy" || f == "list") return Values{EvalValue::List(e)};
  if (f == "slice") {
    const int64_t n = static_cast<int64_t>(e.size()), step = c.I("step", 1);
    auto bound = [&](absl::string_view name, int64_t d) {
      const int64_t v = c.I(name, d);
      return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n);
    };
    if (step <= 0) return c.Error("a slice's step must be positive");
    Values out;
    const int64_t stride = std::min(step, std::max<int64_t>(n, 1));  // so that no sum overflows
    for (int64_t i = bound("start", 0), end = bound("end", n); i < end; i += stride) out.push_back(e[i]);
    return Values{EvalValue::List(std::move(out))};
  }
  if (f == "eq") return Values{EvalValue(Equal(c.args[0], c.args[1]))};
  return c.Unsupported("is not supported on lists");
}

}  // namespace

void AddScalarKernels(KernelTable& t) {
  for (const char* n : {"item", "_local_scalar_dense", "IntImplicit", "FloatImplicit", "ScalarImplicit"})
    t[absl::StrCat("aten::", n)] = Item;
  for (const char* n : {"Bool", "Int", "Float", "Complex"}) t[absl::StrCat("aten::", n)] = Convert;
  for (const char* n : {"size", "stride", "sym_size", "sym_stride"}) t[absl::StrCat("aten::", n)] = Size;
  for (const char* n : {"numel", "sym_numel", "dim", "storage_offset", "sym_storage_offset", "is_floating_point",
                        "is_complex", "is_signed", "is_nonzero", "is_contiguous"}) {
    t[absl::StrCat("aten::", n)] = Query;
  }
  t["prim::dtype"] = t["prim::layout"] = t["prim::device"] = Query;
  t["prim::NumToTensor"] = t["prim::NumToTensor.Scalar"] = t["prim::NumToTensor.bool"] = NumToTensor;
  t["aten::__range_length"] = t["aten::__derive_index"] = Range;
  t["aten::__is__"] = t["aten::__isnot__"] = Identity;
  t["aten::__not__"] = t["aten::floordiv"] = t["aten::__round_to_zero_floordiv"] = Number;
  t["aten::truediv"] = t["aten::mathremainder"] = t["aten::factorial"] = t["aten::degrees"] = t["aten::radians"] =
      t["aten::fabs"] = Number;
  t["aten::__and__.bool"] = t["aten::__or__.bool"] = t["aten::__xor__.bool"] = Number;
  for (const char* n : {"int",        "float",       "float_int",   "int_float",     "complex",
                        "int_int",    "int_list",    "str",         "enum",          "bool_list",
                        "float_list", "str_list",    "bool",        "device",        "Scalar_mode_int",
                        "int_to_int", "int_complex", "complex_int", "float_complex", "complex_float",
                        "int.Scalar"}) {
    for (const char* f :
         {"add",   "sub",   "mul",      "div",      "remainder", "fmod",   "pow",     "lt",         "le",
          "gt",    "ge",    "eq",       "ne",       "neg",       "abs",    "ceil",    "floor",      "round",
          "sqrt",  "exp",   "expm1",    "log",      "log2",      "log10",  "log1p",   "sin",        "cos",
          "tan",   "asin",  "acos",     "atan",     "sinh",      "cosh",   "tanh",    "asinh",      "acosh",
          "atanh", "isnan", "isinf",    "isfinite", "__and__",   "__or__", "__xor__", "__lshift__", "__rshift__",
          "gcd",   "atan2", "copysign", "erf",      "erfc",      "gamma",  "lgamma"}) {
      t[absl::StrCat("aten::", f, ".", n)] = Number;
    }
    t[absl::StrCat("prim::min.", n)] = t[absl::StrCat("prim::max.", n)] = Number;
    t[absl::StrCat("prim::abs.", n)] = Number;
  }
  t["prim::max.self_int"] = t["prim::min.self_int"] = Number;
  t["prim::max.self_float"] = t["prim::min.self_float"] = Number;
  for (const char* n : {"sym_constrain_range", "sym_constrain_range_for_size", "_assert_async", "_assert_scalar",
                        "_assert_tensor_metadata"}) {
    t[absl::StrCat("aten::", n)] = Assert;
  }
}

void AddContainerKernels(KernelTable& t) {
  for (const char* n : {"append",    "extend",       "insert", "pop",         "reverse", "clear",  "__getitem__",
                        "_set_item", "__contains__", "len",    "count",       "keys",    "values", "items",
                        "get",       "setdefault",   "Delete", "__delitem__", "list",    "dict",   "update"}) {
    t[absl::StrCat("aten::", n)] = Container;
  }
  t["prim::TupleIndex"] = Container;
  t["aten::len.Tensor"] = Query;
  for (const char* n : {"str", "int", "bool", "float"}) t[absl::StrCat("aten::copy.Dict_", n)] = Container;
  for (const char* n : {"sort.int", "sort.float", "sorted.int", "sorted.float"}) {
    t[absl::StrCat("aten::", n)] = Container;
  }
  t["aten::slice.t"] = t["aten::copy.t"] = t["aten::index.list_int"] = t["aten::remove.int"] = Container;
  t["aten::add.t"] = t["aten::mul.left_t"] = Number;
  t["aten::eq.Tensor_list"] = Container;
}

}  // namespace smelt::eval_internal
