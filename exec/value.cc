#include "smelt/exec/value.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/elements.h"

namespace smelt {
namespace {

// Returns the first elements of a tensor in row-major order, as text.
std::vector<std::string> FirstElements(const Tensor& t, size_t count) {
  std::vector<std::string> parts;
  std::vector<int> dims(t.rank());
  std::iota(dims.rbegin(), dims.rend(), 0);
  VisitInOrder(t.sizes(), dims, [&](absl::Span<const int64_t> index) {
    const char* at = t.storage()->data() + OffsetOf(t.geometry(), index) * ItemSize(t.dtype());
    if (IsComplex(t.dtype())) {
      const std::complex<double> c = LoadComplex(at, t.dtype());
      parts.push_back(absl::StrCat("(", c.real(), ", ", c.imag(), ")"));
    } else {
      parts.push_back(IsFloating(t.dtype()) ? absl::StrCat(LoadDouble(at, t.dtype()))
                                            : absl::StrCat(LoadInt(at, t.dtype())));
    }
    return parts.size() < count;
  });
  return parts;
}

}  // namespace

PythonValue PythonValue::List(std::vector<PythonValue> elements) {
  PythonValue v;
  v.v_ = std::make_shared<PythonList>(PythonList{std::move(elements)});
  return v;
}

PythonValue PythonValue::Tuple(std::vector<PythonValue> elements) {
  PythonValue v = List(std::move(elements));
  v.is_tuple_ = true;
  return v;
}

PythonValue PythonValue::Dict() {
  PythonValue v;
  v.v_ = std::make_shared<PythonDict>();
  return v;
}

PythonValue PythonValue::Ints(absl::Span<const int64_t> ints) {
  std::vector<PythonValue> elements;
  for (int64_t i : ints) elements.push_back(PythonValue(i));
  return List(std::move(elements));
}

const char* PythonValue::KindName() const {
  static constexpr const char* kNames[] = {"None",      "a tensor", "an int", "a float",      "a bool",
                                           "a complex", "a string", "a list", "a dictionary", "a generator"};
  return kNames[v_.index()];
}

const void* PythonValue::identity() const {
  if (IsTensor()) return tensor().identity();
  if (IsList()) return std::get<std::shared_ptr<PythonList>>(v_).get();
  if (IsDict()) return std::get<std::shared_ptr<PythonDict>>(v_).get();
  return nullptr;
}

absl::StatusOr<Tensor> PythonValue::AsTensor() const {
  if (IsTensor() && tensor().defined()) return tensor();
  return absl::FailedPreconditionError(absl::StrCat("a tensor is expected, not ", KindName()));
}

absl::StatusOr<int64_t> PythonValue::AsInt() const {
  if (IsInt()) return as_int();
  if (IsBool()) return int64_t{as_bool()};
  return absl::FailedPreconditionError(absl::StrCat("an integer is expected, not ", KindName()));
}

absl::StatusOr<double> PythonValue::AsDouble() const {
  if (IsDouble()) return as_double();
  if (IsInt()) return static_cast<double>(as_int());
  if (IsBool()) return as_bool() ? 1.0 : 0.0;
  return absl::FailedPreconditionError(absl::StrCat("a number is expected, not ", KindName()));
}

absl::StatusOr<std::vector<int64_t>> PythonValue::AsInts() const {
  std::vector<int64_t> out;
  for (const PythonValue& v : IsList() ? absl::MakeConstSpan(elements()) : absl::MakeConstSpan(this, 1)) {
    const absl::StatusOr<int64_t> i = v.AsInt();
    if (!i.ok()) return i.status();
    out.push_back(*i);
  }
  return out;
}

std::string PythonValue::ToString() const {
  if (IsNone()) return "None";
  if (IsInt()) return absl::StrCat(as_int());
  if (IsDouble()) return absl::StrCat(as_double());
  if (IsBool()) return as_bool() ? "True" : "False";
  if (IsComplex()) return absl::StrCat("(", as_complex().real(), "+", as_complex().imag(), "j)");
  if (IsString()) return absl::StrCat("\"", as_string(), "\"");
  if (IsGenerator()) return "<generator>";
  std::vector<std::string> parts;
  if (IsDict()) {
    for (const auto& [k, v] : dict().items) parts.push_back(absl::StrCat(k.ToString(), ": ", v.ToString()));
    return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
  }
  if (IsList()) {
    for (const PythonValue& e : elements()) parts.push_back(e.ToString());
    return absl::StrCat(IsTuple() ? "(" : "[", absl::StrJoin(parts, ", "), IsTuple() ? ")" : "]");
  }
  const Tensor& t = tensor();
  if (!t.defined()) return "undefined tensor";
  constexpr int64_t kShown = 16;
  if (t.InBounds() && t.NumElements() <= (int64_t{1} << 20)) parts = FirstElements(t, kShown);
  return absl::StrCat(ScalarTypeName(t.dtype()), "[", absl::StrJoin(t.sizes(), ", "), "] {", absl::StrJoin(parts, ", "),
                      t.NumElements() > kShown ? ", ...}" : "}");
}

}  // namespace smelt
