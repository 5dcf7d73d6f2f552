#include "smelt/runtime/eager_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/runtime/eager_dicts.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

using Values = std::vector<EagerValue>;

absl::Status Error(absl::string_view what) { return absl::FailedPreconditionError(std::string(what)); }

EagerValue Int(int64_t v) { return EagerValue(Datum(v)); }
EagerValue Bool(bool v) { return EagerValue(Datum(v)); }
EagerValue Float(double v) { return EagerValue(Datum(v)); }

absl::StatusOr<EagerValue> Item(const Tensor& t) {
  if (t.NumElements() != 1) {
    return Error(absl::StrCat("a Tensor with ", t.NumElements(), " elements cannot be converted to Scalar"));
  }
  if (IsComplex(t.dtype())) return absl::UnimplementedError("a complex number");
  if (t.dtype() == DType::kBool) return Bool(LoadInt(t.data(), t.dtype()) != 0);
  if (IsFloating(t.dtype())) return Float(LoadDouble(t.data(), t.dtype()));
  return Int(LoadInt(t.data(), t.dtype()));
}

absl::StatusOr<bool> Truth(const EagerValue& v) {
  if (v.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(EagerValue item, Item(v.datum.tensor()));
    return Truth(item);
  }
  if (v.IsNumber() && v.datum.IsFloat()) return v.datum.as_float() != 0;
  SMELT_ASSIGN_OR_RETURN(int64_t i, v.AsInt());
  return i != 0;
}

// Returns the place that an index of a list means.
absl::StatusOr<size_t> At(const EagerValue& index, size_t size) {
  SMELT_ASSIGN_OR_RETURN(int64_t i, index.AsInt());
  const int64_t n = static_cast<int64_t>(size);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return absl::OutOfRangeError("list index out of range");
  return static_cast<size_t>(i);
}

// Checks a result of Python's math: for finite numbers (`of_finite`) it must not be infinite or NaN.
absl::StatusOr<EagerValue> InRange(double v, bool of_finite) {
  if (of_finite && std::isnan(v)) return Error("ValueError: math domain error");
  if (of_finite && std::isinf(v)) return Error("OverflowError: (34, 'Numerical result out of range')");
  return Float(v);
}

absl::Status TooLarge() { return Error("OverflowError: an integer of more than 64 bits"); }

absl::StatusOr<EagerValue> Power(int64_t base, int64_t exponent) {
  int64_t r = 1;
  for (int64_t e = exponent; e > 0; e >>= 1) {
    if ((e & 1) && __builtin_mul_overflow(r, base, &r)) return TooLarge();
    if (e > 1 && __builtin_mul_overflow(base, base, &base)) return TooLarge();
  }
  return Int(r);
}

absl::StatusOr<EagerValue> Binary(absl::string_view f, const EagerValue& a, const EagerValue& b) {
  SMELT_ASSIGN_OR_RETURN(const double x, a.AsDouble());
  SMELT_ASSIGN_OR_RETURN(const double y, b.AsDouble());
  const bool ints = !a.datum.IsFloat() && !b.datum.IsFloat();
  const int64_t i = ints ? *a.AsInt() : 0, j = ints ? *b.AsInt() : 0;
  if (ints && (f == "add" || f == "sub" || f == "mul")) {
    int64_t r;
    const bool overflows = f == "add"   ? __builtin_add_overflow(i, j, &r)
                           : f == "sub" ? __builtin_sub_overflow(i, j, &r)
                                        : __builtin_mul_overflow(i, j, &r);
    return overflows ? absl::StatusOr<EagerValue>(TooLarge()) : Int(r);
  }
  if (f == "add") return Float(x + y);
  if (f == "sub") return Float(x - y);
  if (f == "mul") return Float(x * y);
  if (f == "lt") return Bool(ints ? i < j : x < y);
  if (f == "le") return Bool(ints ? i <= j : x <= y);
  if (f == "gt") return Bool(ints ? i > j : x > y);
  if (f == "ge") return Bool(ints ? i >= j : x >= y);
  if (f == "min") return ints ? Int(std::min(i, j)) : Float(std::min(x, y));
  if (f == "max") return ints ? Int(std::max(i, j)) : Float(std::max(x, y));
  if (f == "div" || f == "truediv") {
    if (y == 0) return Error("ZeroDivisionError: division by zero");
    return Float(x / y);
  }
  if (f == "floordiv" || f == "remainder" || f == "mod") {
    if (y == 0) return Error("ZeroDivisionError: integer division or modulo by zero");
    if (ints) {
      if (j == -1 && f == "floordiv" && i == INT64_MIN) return TooLarge();
      if (j == -1) return Int(f == "floordiv" ? -i : 0);
      const bool down = i % j != 0 && (i % j < 0) != (j < 0);
      return f == "floordiv" ? Int(i / j - down) : Int(i % j + (down ? j : 0));
    }
    if (f == "floordiv") return Float(std::floor(x / y));
    const double r = std::fmod(x, y);
    return Float(r != 0 && (r < 0) != (y < 0) ? r + y : r);
  }
  if (f == "pow") {
    if (!ints || j < 0) {
      if (x == 0 && y < 0) return Error("ZeroDivisionError: 0.0 cannot be raised to a negative power");
      if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) {
        return Error("a negative number to the power of a fraction is complex, a real one is expected");
      }
      return InRange(std::pow(x, y), std::isfinite(x) && std::isfinite(y));
    }
    return Power(i, j);
  }
  const bool bools = a.datum.IsBool() && b.datum.IsBool();
  if (!ints) return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f, " on numbers"));
  if (f == "__and__") return bools ? Bool((i & j) != 0) : Int(i & j);
  if (f == "__or__") return bools ? Bool((i | j) != 0) : Int(i | j);
  if (f == "__xor__") return bools ? Bool((i ^ j) != 0) : Int(i ^ j);
  return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f, " on numbers"));
}

absl::StatusOr<EagerValue> Unary(absl::string_view f, const EagerValue& a) {
  SMELT_ASSIGN_OR_RETURN(const double x, a.AsDouble());
  const bool integer = !a.datum.IsFloat();
  const int64_t i = integer ? *a.AsInt() : 0;
  const auto whole = [](double v) -> absl::StatusOr<EagerValue> {
    if (!(v >= -9.2e18 && v <= 9.2e18)) return Error("OverflowError: cannot convert float to integer");
    return Int(static_cast<int64_t>(v));
  };
  if ((f == "neg" || f == "abs") && i == INT64_MIN) return TooLarge();
  if (f == "neg") return integer ? Int(-i) : Float(-x);
  if (f == "abs") return integer ? Int(std::abs(i)) : Float(std::fabs(x));
  if (f == "floor") return whole(std::floor(x));
  if (f == "ceil") return whole(std::ceil(x));
  if (f == "round") return Float(std::nearbyint(x));
  const std::pair<absl::string_view, double (*)(double)> functions[] = {
      {"sqrt", std::sqrt}, {"exp", std::exp},   {"log", std::log},   {"log2", std::log2}, {"sin", std::sin},
      {"cos", std::cos},   {"tan", std::tan},   {"sinh", std::sinh}, {"cosh", std::cosh}, {"tanh", std::tanh},
      {"asin", std::asin}, {"acos", std::acos}, {"atan", std::atan}};
  for (const auto& [name, function] : functions) {
    if (f == name) return InRange(function(x), std::isfinite(x));
  }
  return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f, " on a number"));
}

absl::StatusOr<Values> OfTensor(absl::string_view f, absl::Span<const EagerValue> args) {
  const Tensor& t = args[0].datum.tensor();
  if (f == "dim") return Values{Int(t.rank())};
  if (f == "numel" || f == "sym_numel") return Values{Int(t.NumElements())};
  if (f == "storage_offset") return Values{Int(t.offset())};
  if (f == "len") {
    if (t.rank() == 0) return Error("len() of a 0-d tensor");
    return Values{Int(t.sizes()[0])};
  }
  if (f == "is_nonzero") {
    SMELT_ASSIGN_OR_RETURN(bool b, Truth(args[0]));
    return Values{Bool(b)};
  }
  if (f == "is_contiguous") {
    int64_t format = 0;
    if (args.size() > 1) {
      SMELT_ASSIGN_OR_RETURN(format, args[1].AsInt());
    }
    if (format != 0) return absl::UnimplementedError("is_contiguous of another memory format");
    ConcreteDecide decide;
    return Values{Bool(view_rules::IsContiguous(decide, t.geometry()))};
  }
  const bool sizes = f == "size" || f == "sym_size";
  if (!sizes && f != "stride" && f != "sym_stride")
    return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f));
  const absl::Span<const int64_t> all = sizes ? t.sizes() : t.strides();
  if (args.size() < 2 || args[1].IsNone()) {
    Values list;
    for (int64_t v : all) list.push_back(Int(v));
    return Values{EagerValue::List(std::move(list))};
  }
  SMELT_ASSIGN_OR_RETURN(int64_t dim, args[1].AsInt());
  SMELT_ASSIGN_OR_RETURN(int d, view_rules::WrapDim(dim, t.rank()));
  if (t.rank() == 0) return Error("Dimension specified as 0 but tensor has no dimensions");
  return Values{Int(all[d])};
}

// Sorts in TorchScript's order, in which NaN has no place.
absl::Status SortNumbers(Values& list, bool reverse) {
  const bool ints = std::all_of(list.begin(), list.end(), [](const EagerValue& v) { return v.datum.IsInt(); });
  for (const EagerValue& v : list) {
    if (!ints && !v.datum.IsFloat()) return absl::UnimplementedError("sort of a list of other elements than numbers");
    if (!ints && std::isnan(v.datum.as_float())) return absl::UnimplementedError("sort of a list with NaN in it");
  }
  std::sort(list.begin(), list.end(), [&](const EagerValue& x, const EagerValue& y) {
    if (ints) return reverse ? y.datum.as_int() < x.datum.as_int() : x.datum.as_int() < y.datum.as_int();
    return reverse ? y.datum.as_float() < x.datum.as_float() : x.datum.as_float() < y.datum.as_float();
  });
  return absl::OkStatus();
}

// sort(list, reverse), sorted(list)
absl::StatusOr<Values> Sort(absl::string_view f, absl::Span<const EagerValue> args) {
  if (f == "sorted") {
    Values copy = *args[0].list;
    SMELT_RETURN_IF_ERROR(SortNumbers(copy, false));
    return Values{EagerValue::List(std::move(copy))};
  }
  bool reverse = false;
  if (args.size() > 1) {
    SMELT_ASSIGN_OR_RETURN(reverse, Truth(args[1]));
  }
  SMELT_RETURN_IF_ERROR(SortNumbers(*args[0].list, reverse));
  return Values{};
}

// index, count, remove of a list of integers.
absl::StatusOr<Values> FindInt(absl::string_view f, Values& list, const EagerValue& wanted) {
  const auto is_int = [](const EagerValue& v) { return v.datum.IsInt(); };
  if (!is_int(wanted) || !std::all_of(list.begin(), list.end(), is_int))
    return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f, " of a list of other elements than integers"));
  const auto equal = [&](const EagerValue& v) { return v.datum.as_int() == wanted.datum.as_int(); };
  if (f == "count") return Values{Int(std::count_if(list.begin(), list.end(), equal))};
  const auto at = std::find_if(list.begin(), list.end(), equal);
  if (at == list.end()) return Error(absl::StrCat("list.", f, "(x): x not in list"));
  if (f == "index") return Values{Int(at - list.begin())};
  list.erase(at);
  return Values{};
}

absl::StatusOr<Values> OfList(absl::string_view f, absl::Span<const EagerValue> args) {
  Values& e = *args[0].list;
  const auto need = [&](size_t n) {
    return args.size() >= n ? absl::OkStatus() : Error(absl::StrCat(op::kAtenNamespace, f, ": arguments are missing"));
  };
  if (f == "len") return Values{Int(static_cast<int64_t>(e.size()))};
  if (f == "append") {
    SMELT_RETURN_IF_ERROR(need(2));
    e.push_back(args[1]);
    return Values{args[0]};
  }
  if (f == "extend" || f == "add") {
    SMELT_RETURN_IF_ERROR(need(2));
    if (!args[1].IsList()) return Error("a list is expected");
    const Values more = *args[1].list;
    if (f == "extend") {
      e.insert(e.end(), more.begin(), more.end());
      return Values{};
    }
    Values both = e;
    both.insert(both.end(), more.begin(), more.end());
    return Values{EagerValue::List(std::move(both))};
  }
  if (f == "list" || f == "copy") return Values{EagerValue::List(e)};
  if (f == "slice") {
    SMELT_RETURN_IF_ERROR(need(4));
    const int64_t n = static_cast<int64_t>(e.size());
    int64_t bounds[3] = {0, n, 1};
    for (int k = 0; k < 3; ++k) {
      if (k < 2 && args[k + 1].IsNone()) continue;
      SMELT_ASSIGN_OR_RETURN(bounds[k], args[k + 1].AsInt());
      if (k < 2) bounds[k] = std::clamp<int64_t>(bounds[k] < 0 ? bounds[k] + n : bounds[k], 0, n);
    }
    if (bounds[2] < 1) return Error("slice step must be positive");
    Values part;
    for (int64_t i = bounds[0]; i < bounds[1]; i += std::min(bounds[2], n)) part.push_back(e[i]);
    return Values{EagerValue::List(std::move(part))};
  }
  if (f == "reverse") {
    std::reverse(e.begin(), e.end());
    return Values{};
  }
  if (f == "clear") {
    e.clear();
    return Values{};
  }
  if (f == "pop" || f == "Delete") {
    SMELT_ASSIGN_OR_RETURN(size_t at, At(args.size() > 1 ? args[1] : Int(-1), e.size()));
    EagerValue v = e[at];
    e.erase(e.begin() + static_cast<int64_t>(at));
    return Values{std::move(v)};
  }
  if (f == "sort" || f == "sorted") return Sort(f, args);
  SMELT_RETURN_IF_ERROR(need(2));
  if (f == "index" || f == "count" || f == "remove") return FindInt(f, e, args[1]);
  if (f == "__getitem__") {
    SMELT_ASSIGN_OR_RETURN(size_t at, At(args[1], e.size()));
    return Values{e[at]};
  }
  SMELT_RETURN_IF_ERROR(need(3));
  if (f == "_set_item") {
    SMELT_ASSIGN_OR_RETURN(size_t at, At(args[1], e.size()));
    e[at] = args[2];
    return Values{args[0]};
  }
  if (f == "insert") {
    SMELT_ASSIGN_OR_RETURN(int64_t i, args[1].AsInt());
    const int64_t n = static_cast<int64_t>(e.size());
    e.insert(e.begin() + std::clamp<int64_t>(i < 0 ? i + n : i, 0, n), args[2]);
    return Values{};
  }
  return absl::UnimplementedError(absl::StrCat(op::kAtenNamespace, f, " on a list"));
}

absl::StatusOr<Values> Range(absl::string_view f, absl::Span<const EagerValue> args) {
  int64_t v[3];
  if (args.size() != 3) return Error("a range has three numbers");
  for (int k = 0; k < 3; ++k) {
    SMELT_ASSIGN_OR_RETURN(v[k], args[k].AsInt());
  }
  if (f == "__derive_index") {  // index, start, step
    int64_t at;
    if (__builtin_mul_overflow(v[0], v[2], &at) || __builtin_add_overflow(at, v[1], &at))
      return Error("range overflows");
    return Values{Int(at)};
  }
  // __range_length(low, high, step)
  for (int64_t x : v) {
    if (x < -(int64_t{1} << 61) || x > int64_t{1} << 61) return Error("a range's bounds are too large");
  }
  if (v[2] == 0) return Error("range() arg 3 must not be zero");
  const double low = static_cast<double>(v[0]), high = static_cast<double>(v[1]);
  if (v[2] > 0 ? low >= high : low <= high) return Values{Int(0)};
  int64_t span;
  if (__builtin_sub_overflow(v[1], v[0], &span)) return Error("range overflows");
  return Values{Int(v[2] > 0 ? 1 + (span - 1) / v[2] : 1 + (-span - 1) / -v[2])};
}

// (value, dtype, rank): checks a tensor; rank -1 is any.
absl::StatusOr<Values> AssertType(absl::Span<const EagerValue> args) {
  if (args.size() != 3) return Error("smelt::assert_type: arguments are missing");
  if (!args[0].IsTensor()) return Values{};
  const Tensor& t = args[0].datum.tensor();
  SMELT_ASSIGN_OR_RETURN(const int64_t dtype, args[1].AsInt());
  SMELT_ASSIGN_OR_RETURN(const int64_t rank, args[2].AsInt());
  if (static_cast<int64_t>(t.dtype()) == dtype && (rank < 0 || t.rank() == rank)) return Values{};
  return absl::UnimplementedError(absl::StrCat("a tensor taken from a list, a dictionary or a branch is of ",
                                               Name(t.dtype()), " and ", t.rank(),
                                               " dims, which the program that was compiled does not expect"));
}

// (tensor, sizes): checks a state, to which an earlier call may have given other sizes than the program was compiled
// for.
absl::StatusOr<Values> AssertSizes(absl::Span<const EagerValue> args) {
  if (args.size() != 2 || !args[0].IsTensor()) return Error("a tensor and its sizes are expected");
  const Tensor& t = args[0].datum.tensor();
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, args[1].AsInts());
  if (t.sizes() == absl::MakeConstSpan(sizes)) return Values{};
  return Error(absl::StrCat("an earlier call gave a state the sizes [", absl::StrJoin(t.sizes(), ", "), "], [",
                            absl::StrJoin(sizes, ", "), "] are expected here"));
}

// (written, read): checks a write whose answer depends on how PyTorch computes if they share memory.
absl::StatusOr<Values> AssertNoOverlap(absl::Span<const EagerValue> args) {
  if (args.size() != 2 || !args[0].IsTensor() || !args[1].IsTensor()) return Error("two tensors are expected");
  const Tensor &a = args[0].datum.tensor(), &b = args[1].datum.tensor();
  const auto placed = [](const Tensor& t) { return PlacedGeometry{t.geometry(), t.storage()->data(), t.dtype()}; };
  if (a.NumElements() == 0 || b.NumElements() == 0 || AreDisjoint(placed(a), placed(b))) return Values{};
  return WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
}

absl::StatusOr<Values> Prim(absl::string_view f, absl::Span<const EagerValue> args) {
  if (f == "ListConstruct" || f == "TupleConstruct") return Values{EagerValue::List(Values(args.begin(), args.end()))};
  if (f == "Uninitialized") return Values{EagerValue()};
  if (args.empty()) return Error(absl::StrCat(op::kPrimNamespace, f, ": arguments are missing"));
  if (f == "ListUnpack" || f == "TupleUnpack") {
    if (!args[0].IsList()) return Error("a list is expected");
    return *args[0].list;
  }
  if (f == "unchecked_cast") return Values{args[0]};
  if (f == "unchecked_unwrap_optional") {
    if (args[0].IsNone()) return Error("Unwrapping null optional");
    return Values{args[0]};
  }
  if (f == "RaiseException") {
    return Error(absl::StrCat("the model raises: ", args[0].datum.IsString() ? args[0].datum.as_string() : ""));
  }
  if (f == "TupleIndex") return args[0].IsList() ? OfList("__getitem__", args) : Error("a tuple is expected");
  if (f == "abs") {
    SMELT_ASSIGN_OR_RETURN(EagerValue v, Unary(f, args[0]));
    return Values{v};
  }
  if (f == "min" || f == "max") {
    const absl::Span<const EagerValue> of = args[0].IsList() ? absl::MakeConstSpan(*args[0].list) : args;
    if (of.empty()) return Error(absl::StrCat(f, "() arg is an empty sequence"));
    EagerValue best = of[0];
    for (const EagerValue& v : of) {
      SMELT_ASSIGN_OR_RETURN(best, Binary(f, best, v));
    }
    return Values{best};
  }
  return absl::UnimplementedError(absl::StrCat(op::kPrimNamespace, f));
}

}  // namespace

absl::StatusOr<double> ComputeNumber(absl::string_view function, absl::Span<const EagerValue> numbers) {
  if (function == "Float") return numbers[0].AsDouble();
  SMELT_ASSIGN_OR_RETURN(const EagerValue v,
                         numbers.size() == 1 ? Unary(function, numbers[0]) : Binary(function, numbers[0], numbers[1]));
  return v.AsDouble();
}

absl::StatusOr<std::vector<EagerValue>> EagerNumber(const std::string& op, absl::Span<const EagerValue> args) {
  absl::string_view f = op;
  if (absl::ConsumePrefix(&f, op::kPrimNamespace)) return Prim(f, args);
  if (absl::ConsumePrefix(&f, "dict::")) return EagerDict(f, args);
  if (f == op::kSmeltAssertType) return AssertType(args);
  if (f == op::kSmeltAssertSizes) return AssertSizes(args);
  if (f == op::kSmeltAssertNoOverlap) return AssertNoOverlap(args);
  absl::ConsumePrefix(&f, op::kAtenNamespace);
  if (f == "__range_length" || f == "__derive_index") return Range(f, args);
  if (f == "sym_constrain_range" || f == "sym_constrain_range_for_size" || f == "_assert_tensor_metadata")
    return Values{};
  if (args.empty()) return Error(absl::StrCat(op, ": arguments are missing"));
  if (f == "_assert_async" || f == "_assert_scalar") {
    SMELT_ASSIGN_OR_RETURN(bool holds, Truth(args[0]));
    if (holds) return Values{};
    return Error(args.size() > 1 && args[1].datum.IsString() ? args[1].datum.as_string() : "Assertion failed");
  }
  const bool convert_int = f == "Int" || f == "IntImplicit", convert_float = f == "Float" || f == "FloatImplicit";
  if (f == "item" || f == "_local_scalar_dense" || f == "ScalarImplicit" || convert_int || convert_float) {
    EagerValue v = args[0];
    if (v.IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(v, Item(v.datum.tensor()));
    }
    if (convert_float) {
      SMELT_ASSIGN_OR_RETURN(double d, v.AsDouble());
      return Values{Float(d)};
    }
    if (convert_int) {
      SMELT_ASSIGN_OR_RETURN(double d, v.AsDouble());
      if (!v.datum.IsFloat()) return Values{Int(*v.AsInt())};
      if (!(d >= -9.2e18 && d <= 9.2e18)) return Error("cannot convert float infinity or NaN to integer");
      return Values{Int(static_cast<int64_t>(d))};
    }
    if (!v.IsNumber()) return Error("a number is expected");
    return Values{v};
  }
  if (f == "Bool" || f == "__not__" || f == "not_") {
    SMELT_ASSIGN_OR_RETURN(bool b, Truth(args[0]));
    return Values{Bool(b == (f == "Bool"))};
  }
  if (f == "__is__" || f == "__isnot__" || f == "eq" || f == "ne") {
    if (args.size() < 2) return Error(absl::StrCat(op, ": arguments are missing"));
    return Values{Bool(SameEagerValue(args[0], args[1]) == (f == "__is__" || f == "eq"))};
  }
  if (f == "len" && args[0].datum.IsString())
    return Values{Int(static_cast<int64_t>(args[0].datum.as_string().size()))};
  if (args[0].IsTensor()) return OfTensor(f, args);
  if (args[0].IsList()) return OfList(f, args);
  SMELT_ASSIGN_OR_RETURN(EagerValue v, args.size() == 1 ? Unary(f, args[0]) : Binary(f, args[0], args[1]));
  return Values{std::move(v)};
}

}  // namespace smelt
