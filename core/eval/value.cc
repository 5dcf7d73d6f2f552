#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/eval/kernels.h"

namespace smelt {

uint64_t EvalGenerator::Next() {
  // splitmix64
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double EvalGenerator::NextUniform() { return static_cast<double>(Next() >> 40) * 0x1p-24; }

double EvalGenerator::NextNormal() {
  const double u = 1 - NextUniform(), v = NextUniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

EvalValue EvalValue::List(std::vector<EvalValue> elements) {
  EvalValue v;
  v.v_ = std::make_shared<EvalList>(EvalList{std::move(elements)});
  return v;
}
EvalValue EvalValue::Tuple(std::vector<EvalValue> elements) {
  EvalValue v = List(std::move(elements));
  v.is_tuple_ = true;
  return v;
}
EvalValue EvalValue::Dict() {
  EvalValue v;
  v.v_ = std::make_shared<EvalDict>();
  return v;
}
EvalValue EvalValue::Ints(absl::Span<const int64_t> ints) {
  std::vector<EvalValue> elements;
  for (int64_t i : ints) elements.push_back(EvalValue(i));
  return List(std::move(elements));
}

const void* EvalValue::identity() const {
  if (IsTensor()) return tensor().identity();
  if (IsList()) return std::get<std::shared_ptr<EvalList>>(v_).get();
  if (IsDict()) return std::get<std::shared_ptr<EvalDict>>(v_).get();
  return nullptr;
}

std::string EvalValue::ToString() const {
  if (IsNone()) return "None";
  if (IsInt()) return absl::StrCat(as_int());
  if (IsDouble()) return absl::StrCat(as_double());
  if (IsBool()) return as_bool() ? "True" : "False";
  if (IsComplex()) return absl::StrCat("(", as_complex().real(), "+", as_complex().imag(), "j)");
  if (IsString()) return absl::StrCat("\"", as_string(), "\"");
  if (IsGenerator()) return "<generator>";
  if (IsDict()) {
    std::vector<std::string> parts;
    for (const auto& [k, v] : dict().items) parts.push_back(absl::StrCat(k.ToString(), ": ", v.ToString()));
    return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
  }
  std::vector<std::string> parts;
  if (IsList()) {
    for (const EvalValue& e : elements()) parts.push_back(e.ToString());
    return absl::StrCat(IsTuple() ? "(" : "[", absl::StrJoin(parts, ", "), IsTuple() ? ")" : "]");
  }
  const Tensor& t = tensor();
  if (!t.defined()) return "undefined tensor";
  constexpr int64_t kShown = 16;
  if (t.InBounds() && t.NumElements() <= (int64_t{1} << 20)) {
    if (smelt::IsComplex(t.dtype())) {
      for (const auto& c : eval_internal::Read<std::complex<double>>(t)) {
        if (parts.size() < kShown) parts.push_back(absl::StrCat("(", c.real(), ", ", c.imag(), ")"));
      }
    } else if (IsFloating(t.dtype())) {
      for (double d : eval_internal::Read<double>(t)) {
        if (parts.size() < kShown) parts.push_back(absl::StrCat(d));
      }
    } else {
      for (int64_t i : eval_internal::Read<int64_t>(t)) {
        if (parts.size() < kShown) parts.push_back(absl::StrCat(i));
      }
    }
  }
  return absl::StrCat(ScalarTypeName(t.dtype()), "[", absl::StrJoin(t.sizes(), ", "), "] {", absl::StrJoin(parts, ", "),
                      t.NumElements() > kShown ? ", ...}" : "}");
}

}  // namespace smelt
