// Tensors from sizes and numbers, and random tensors.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/base/wrapping.h"
#include "smelt/core/eval/kernels.h"

namespace smelt::eval_internal {
namespace {

absl::StatusOr<Values> Filled(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const std::string& n = c.name();
  EvalValue value(int64_t{0});
  if (absl::StrContains(n, "ones")) value = EvalValue(int64_t{1});
  if (c.schema->FindArgument("fill_value") >= 0) value = c.Arg("fill_value");
  if (n == "aten::scalar_tensor") value = c.Arg("s");
  if (n == "aten::tensor") value = c.Arg("t");
  if (value.IsTensor()) {
    SMELT_RETURN_IF_ERROR(CopyInto(out, value.tensor()));
  } else {
    SMELT_RETURN_IF_ERROR(CopyInto(out, ScalarTensor(out.dtype(), value)));
  }
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Arange(Call& c) {
  const EvalValue start = c.Has("start") ? c.Arg("start") : EvalValue(int64_t{0});
  const EvalValue step = c.Has("step") ? c.Arg("step") : EvalValue(int64_t{1});
  const double first = ToDouble(start), by = ToDouble(step), end = ToDouble(c.Arg("end"));
  if (by == 0) return c.Error("step must be nonzero");
  if ((end - first) * by < 0) return c.Error("upper bound and lower bound inconsistent with step sign");
  absl::StatusOr<Tensor> inferred = OutputOf(c);
  Tensor out;
  if (inferred.ok()) {
    out = *inferred;
  } else {
    const bool ints = !start.IsDouble() && !step.IsDouble() && !c.Arg("end").IsDouble();
    const DType t = c.op.GetDType("dtype").value_or(ints ? DType::kInt64 : DType::kFloat32);
    const double n = std::ceil((end - first) / by);
    if (!(n >= 0 && n < 0x1p40)) return c.Error("the range is too long");
    SMELT_ASSIGN_OR_RETURN(out, NewTensor(*c.state, t, {static_cast<int64_t>(n)}, {1}));
  }
  const int64_t n = out.NumElements();
  if (IsFloating(out.dtype())) {
    std::vector<double> v;
    // The kernel for float computes in float.
    for (int64_t i = 0; i < n; ++i) v.push_back(first + by * static_cast<double>(i));
    Write(out, v);
  } else {
    std::vector<int64_t> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(ToInt(start) + i * ToInt(step));
    Write(out, v);
  }
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Linspace(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  double start = c.D("start"), end = c.D("end");
  if (!IsFloating(out.dtype()) && !IsComplex(out.dtype())) {
    // Integer results use truncated ends.
    start = std::trunc(start);
    end = std::trunc(end);
  }
  const int64_t n = out.NumElements();
  const bool log = c.name() == "aten::logspace";
  const double base = c.D("base", 10);
  // Numbers of half precision are rounded after each step.
  const auto round = [&](double x) { return log ? x : Rounded(out.dtype(), x); };
  start = round(start), end = round(end);
  const double step = n > 1 ? round(round(end - start) / round(static_cast<double>(n - 1))) : 0;
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) {
    // Counts from both ends, so that the last element is exact.
    const double x = i < n / 2 || n == 1 ? start + round(step * round(static_cast<double>(i)))
                                         : end - round(step * round(static_cast<double>(n - 1 - i)));
    v.push_back(log ? std::pow(base, x) : x);
  }
  Write(out, v);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Eye(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  std::vector<int64_t> v;
  ForEachIndex(out.sizes(), [&](const std::vector<int64_t>& i, int64_t) { v.push_back(i[0] == i[1]); });
  Write(out, v);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> TriIndices(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const bool lower = c.name() == "aten::tril_indices";
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < c.I("row"); ++i) {
    for (int64_t j = 0; j < c.I("col"); ++j) {
      if (lower ? j - i <= c.I("offset") : j - i >= c.I("offset")) {
        rows.push_back(i);
        columns.push_back(j);
      }
    }
  }
  rows.insert(rows.end(), columns.begin(), columns.end());
  if (static_cast<int64_t>(rows.size()) != out.NumElements()) return c.Error("inference counts other indices");
  Write(out, rows);
  return Values{EvalValue(out)};
}

absl::StatusOr<Values> Window(Call& c) {
  SMELT_ASSIGN_OR_RETURN(Tensor out, OutputOf(c));
  const int64_t n = out.NumElements();
  const double period = static_cast<double>(c.B("periodic", true) ? n : n - 1);
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) {
    const double t = 2 * M_PI * static_cast<double>(i) / period;
    double w = 1;
    if (n > 1) {
      if (absl::StartsWith(c.name(), "aten::hann")) {
        w = 0.5 - 0.5 * std::cos(t);
      } else if (absl::StartsWith(c.name(), "aten::hamming")) {
        w = c.D("alpha", 0.54) - c.D("beta", 0.46) * std::cos(t);
      } else {
        w = 0.42 - 0.5 * std::cos(t) + 0.08 * std::cos(2 * t);
      }
    }
    v.push_back(w);
  }
  Write(out, v);
  return Values{EvalValue(out)};
}

// --- random ---

EvalGenerator& GeneratorOf(Call& c) {
  const EvalValue& g = c.Arg("generator");
  return g.IsGenerator() && g.generator() != nullptr ? *g.generator() : *c.state->generator;
}

template <typename F>
void Draw(const Tensor& t, F f) {
  std::vector<double> v;
  const int64_t n = t.NumElements();
  for (int64_t i = 0; i < n; ++i) v.push_back(f());
  Write(t, v);
}

absl::StatusOr<Values> Random(Call& c) {
  const std::string& n = c.name();
  EvalGenerator& g = GeneratorOf(c);
  const bool in_place = absl::EndsWith(n, "_");
  Tensor out;
  if (in_place) {
    out = c.args[0].tensor();
    SMELT_RETURN_IF_ERROR(CheckNotExpanded(c, out));
  } else {
    SMELT_ASSIGN_OR_RETURN(out, OutputOf(c));
  }
  if (n == "aten::randperm") {
    std::vector<int64_t> v(out.NumElements());
    std::iota(v.begin(), v.end(), 0);
    for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[g.Next() % i]);
    Write(out, v);
  } else if (absl::StartsWith(n, "aten::randint") || n == "aten::random_" || n == "aten::random") {
    const bool plain = n == "aten::random_" || n == "aten::random";
    const int64_t low = plain ? c.I("from", 0) : c.I("low", 0);
    const int64_t limit = IsFloating(out.dtype())      ? (int64_t{1} << 24)
                          : ItemSize(out.dtype()) == 8 ? std::numeric_limits<int64_t>::max()
                                                       : (int64_t{1} << (8 * ItemSize(out.dtype()) - 1));
    const int64_t high = plain ? c.I("to", limit) : c.I("high", limit);
    if (high <= low) return c.Error("random_ expects 'from' to be less than 'to'");
    const auto width = static_cast<uint64_t>(WrappingSub(high, low));
    std::vector<int64_t> v;
    for (int64_t i = 0, e = out.NumElements(); i < e; ++i)
      v.push_back(WrappingAdd(low, static_cast<int64_t>(g.Next() % width)));
    Write(out, v);
  } else if (absl::StartsWith(n, "aten::randn") || absl::StartsWith(n, "aten::normal")) {
    const bool normal = absl::StartsWith(n, "aten::normal");
    std::vector<double> mean(out.NumElements(), normal ? c.D("mean", 0) : 0);
    std::vector<double> std(out.NumElements(), normal ? c.D("std", 1) : 1);
    for (auto [name, v] : {std::make_pair("mean", &mean), std::make_pair("std", &std)}) {
      if (!normal || !c.Arg(name).IsTensor()) continue;
      SMELT_ASSIGN_OR_RETURN(Geometry geometry, Broadcasted(c.T(name).geometry(), out.sizes()));
      *v = Read<double>(c.T(name).View(geometry));
    }
    size_t i = 0;
    Draw(out, [&] {
      const double x = mean[i] + std[i] * g.NextNormal();
      ++i;
      return x;
    });
  } else if (absl::StartsWith(n, "aten::rand")) {
    Draw(out, [&] { return g.NextUniform(); });
  } else if (absl::StartsWith(n, "aten::uniform")) {
    const double from = c.D("from", 0), to = c.D("to", 1);
    Draw(out, [&] { return from + (to - from) * g.NextUniform(); });
  } else if (absl::StartsWith(n, "aten::exponential")) {
    const double lambda = c.D("lambd", 1);
    Draw(out, [&] { return -std::log1p(-g.NextUniform()) / lambda; });
  } else if (absl::StartsWith(n, "aten::geometric")) {
    const double p = c.D("p", 0.5);
    Draw(out, [&] { return std::ceil(std::log1p(-g.NextUniform()) / std::log1p(-p)); });
  } else if (absl::StartsWith(n, "aten::log_normal")) {
    const double mean = c.D("mean", 1), std = c.D("std", 2);
    Draw(out, [&] { return std::exp(mean + std * g.NextNormal()); });
  } else if (absl::StartsWith(n, "aten::cauchy")) {
    const double median = c.D("median", 0), sigma = c.D("sigma", 1);
    Draw(out, [&] { return median + sigma * std::tan(M_PI * (g.NextUniform() - 0.5)); });
  } else if (absl::StartsWith(n, "aten::bernoulli")) {
    std::vector<double> p(out.NumElements(), c.D("p", 0.5));
    const Tensor probabilities = c.Arg("p").IsTensor() ? c.T("p") : (in_place || c.Has("p")) ? Tensor() : c.T("self");
    if (probabilities.defined()) {
      SMELT_ASSIGN_OR_RETURN(Geometry geometry, Broadcasted(probabilities.geometry(), out.sizes()));
      p = Read<double>(probabilities.View(geometry));
    }
    size_t i = 0;
    Draw(out, [&] { return g.NextUniform() < p[i++] ? 1.0 : 0.0; });
  } else {
    return c.Unsupported("is not supported by the evaluator");
  }
  return Values{in_place ? c.args[0] : EvalValue(out)};
}

// dropout, feature_dropout and native_dropout.
absl::StatusOr<Values> Dropout(Call& c) {
  const bool native = c.name() == "aten::native_dropout";
  const bool in_place = absl::EndsWith(c.name(), "_");
  const bool feature = absl::StrContains(c.name(), "feature");
  const Tensor self = c.args[0].tensor();
  const double p = c.D("p");
  const bool train = c.B("train", true);
  if (p < 0 || p > 1) return c.Error(absl::StrCat("dropout probability has to be between 0 and 1, but got ", p));
  if (!native && (!train || p == 0 || self.NumElements() == 0)) return Values{c.args[0]};
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end()), noise = sizes;
  for (size_t d = 2; feature && d < noise.size(); ++d) noise[d] = 1;
  std::vector<int64_t> strides = ContiguousStridesOf(noise);
  std::vector<bool> keep;
  for (int64_t i = 0, n = Product(noise); i < n; ++i)
    keep.push_back(!(native && !train) && p < 1 ? GeneratorOf(c).NextUniform() < 1 - p : native && !train);
  const double scale = native && !train ? 1 : p < 1 ? 1 / (1 - p) : 0;
  SMELT_ASSIGN_OR_RETURN(Tensor out, NewTensor(*c.state, self.dtype(), sizes, ContiguousStridesOf(sizes)));
  std::vector<double> x = Read<double>(self);
  std::vector<int64_t> mask(x.size());
  ForEachIndex(sizes, [&](const std::vector<int64_t>& index, int64_t at) {
    int64_t k = 0;
    for (size_t d = 0; d < index.size(); ++d) k += noise[d] == 1 ? 0 : index[d] * strides[d];
    mask[at] = keep[k];
    x[at] = keep[k] ? x[at] * scale : x[at] * 0;
  });
  Write(out, x);
  if (in_place) {
    SMELT_RETURN_IF_ERROR(CopyInto(self, out));
    return Values{c.args[0]};
  }
  if (!native) return Values{EvalValue(out)};
  SMELT_ASSIGN_OR_RETURN(Tensor m, NewTensor(*c.state, DType::kBool, sizes, ContiguousStridesOf(sizes)));
  Write(m, mask);
  return Values{EvalValue(out), EvalValue(m)};
}

}  // namespace

void AddFactoryKernels(KernelTable& t) {
  for (const char* n :
       {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full",
        "scalar_tensor", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}) {
    t[absl::StrCat("aten::", n)] = Filled;
  }
  for (const char* n : {"float", "int", "bool", "complex"}) t[absl::StrCat("aten::tensor.", n)] = Filled;
  t["aten::arange"] = Arange;
  t["aten::linspace"] = t["aten::logspace"] = Linspace;
  t["aten::eye"] = Eye;
  t["aten::tril_indices"] = t["aten::triu_indices"] = TriIndices;
  t["aten::hann_window"] = t["aten::hamming_window"] = t["aten::blackman_window"] = Window;
  for (const char* n :
       {"rand",        "rand_like",    "randn",  "randn_like", "randint",           "randint_like", "randperm",
        "bernoulli",   "bernoulli_",   "normal", "normal_",    "normal_functional", "uniform",      "uniform_",
        "exponential", "exponential_", "random", "random_",    "geometric_",        "log_normal_",  "cauchy_"}) {
    t[absl::StrCat("aten::", n)] = Random;
  }
  for (const char* n : {"dropout", "dropout_", "feature_dropout", "feature_dropout_", "native_dropout"})
    t[absl::StrCat("aten::", n)] = Dropout;
}

}  // namespace smelt::eval_internal
