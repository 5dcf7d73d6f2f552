#include "smelt/tools/value_text.h"

#include <cmath>
#include <complex>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/strided.h"
#include "smelt/tools/plain_text.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostPrinted = 1000, kEdge = 3;

std::string FloatText(double v) { return absl::StrFormat("%.6g", v); }

std::string ComplexText(std::complex<double> v) {
  return absl::StrCat(FloatText(v.real()), std::signbit(v.imag()) ? "" : "+", FloatText(v.imag()), "j");
}

std::string ElementText(const char* at, DType dtype) {
  if (dtype == DType::kBool) return LoadInt(at, dtype) != 0 ? "True" : "False";
  if (IsComplex(dtype)) return ComplexText(LoadComplex(at, dtype));
  return IsFloating(dtype) ? FloatText(LoadDouble(at, dtype)) : absl::StrCat(LoadInt(at, dtype));
}

void AppendElements(const Tensor& t, const char* at, int dim, bool all, std::string& out) {
  if (dim == t.rank()) {
    out += ElementText(at, t.dtype());
    return;
  }
  const int64_t n = t.sizes()[dim];
  out += "[";
  for (int64_t i = 0; i < n; ++i) {
    const std::string between =
        dim + 1 == t.rank() ? ", " : absl::StrCat(",\n", std::string(static_cast<size_t>(dim) + 1, ' '));
    if (i > 0) out += between;
    if (!all && n > 2 * kEdge && i == kEdge) {
      absl::StrAppend(&out, "...", between);
      i = n - kEdge;
    }
    AppendElements(t, at + i * t.strides()[dim] * ItemSize(t.dtype()), dim + 1, all, out);
  }
  out += "]";
}

Json Number(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
}

Json ElementJson(const char* at, DType dtype) {
  if (dtype == DType::kBool) return LoadInt(at, dtype) != 0;
  if (IsComplex(dtype)) {
    const std::complex<double> v = LoadComplex(at, dtype);
    return Json::array({Number(v.real()), Number(v.imag())});
  }
  return IsFloating(dtype) ? Number(LoadDouble(at, dtype)) : Json(LoadInt(at, dtype));
}

}  // namespace

std::string ValueText(const Datum& v) {
  if (v.IsTensor()) {
    const Tensor& t = v.tensor();
    std::string out = absl::StrCat(Name(t.dtype()), " [", absl::StrJoin(t.sizes(), ", "), "]\n");
    if (t.NumElements() > 0) {
      AppendElements(t, static_cast<const char*>(t.data()), 0, t.NumElements() <= kMostPrinted, out);
    } else {
      out += "[]";
    }
    return out;
  }
  if (v.IsInt()) return absl::StrCat(v.as_int());
  if (v.IsFloat()) return FloatText(v.as_float());
  if (v.IsBool()) return v.as_bool() ? "True" : "False";
  if (v.IsString()) return Printable(v.as_string());
  if (v.IsComplex()) return ComplexText(v.as_complex());
  return "None";
}

Json ScalarJson(const Datum& v) {
  if (v.IsInt()) return {{"int", v.as_int()}};
  if (v.IsBool()) return {{"bool", v.as_bool()}};
  if (v.IsString()) return {{"string", v.as_string()}};
  if (v.IsFloat()) return {{"float", Number(v.as_float())}};
  if (v.IsComplex()) return {{"complex", {Number(v.as_complex().real()), Number(v.as_complex().imag())}}};
  return {{"none", true}};
}

Json ValueJson(const Datum& v) {
  if (!v.IsTensor()) {
    const Json scalar = ScalarJson(v);
    return {{"kind", scalar.begin().key()}, {"value", v.IsNone() ? Json() : scalar.front()}};
  }
  const Tensor& t = v.tensor();
  Json out = {{"kind", "tensor"},
              {"dtype", std::string(Name(t.dtype()))},
              {"sizes", std::vector<int64_t>(t.sizes().begin(), t.sizes().end())}};
  Json values = Json::array();
  StridedSpan elements{static_cast<char*>(t.data()), t.dtype(), t.sizes(), t.strides()};
  ForEachElement(elements, [&](const char* at) { values.push_back(ElementJson(at, t.dtype())); });
  out["values"] = std::move(values);
  return out;
}

}  // namespace smelt
