#include "smelt/pipeline/verify_passes.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {
namespace {

int64_t Hint(const Graph& g, const Expr& e) {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    auto it = g.symbol_hints.find(s);
    values[s] = it == g.symbol_hints.end() ? std::max<int64_t>(4, g.symbols.Get(s).min) : it->second;
  }
  auto v = e.Evaluate(values);
  return v.ok() ? *v : 0;
}

void FillRandomly(Tensor& t, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const int64_t bytes = t.storage()->bytes();
  char* data = t.storage()->data();
  const int item = ItemSize(t.dtype());
  for (int64_t i = 0; i + item <= bytes; i += item) {
    const double v = normal(random);
    const int64_t small = static_cast<int64_t>(random() % 3);
    auto put = [&](auto x) { std::memcpy(data + i, &x, sizeof x); };
    switch (t.dtype()) {
      case DType::kBool:
        put(static_cast<uint8_t>(small & 1));
        break;
      case DType::kUInt8:
        put(static_cast<uint8_t>(small));
        break;
      case DType::kInt8:
        put(static_cast<int8_t>(small));
        break;
      case DType::kInt16:
        put(static_cast<int16_t>(small));
        break;
      case DType::kInt32:
        put(static_cast<int32_t>(small));
        break;
      case DType::kInt64:
        put(small);
        break;
      case DType::kFloat16:
        put(FloatToHalf(static_cast<float>(v)));
        break;
      case DType::kBFloat16:
        put(FloatToBFloat16(static_cast<float>(v)));
        break;
      case DType::kFloat32:
        put(static_cast<float>(v));
        break;
      case DType::kFloat64:
        put(v);
        break;
      case DType::kComplex64: {
        const float both[2] = {static_cast<float>(v), static_cast<float>(normal(random))};
        std::memcpy(data + i, both, sizeof both);
        break;
      }
      case DType::kComplex128: {
        const double both[2] = {v, normal(random)};
        std::memcpy(data + i, both, sizeof both);
        break;
      }
    }
  }
}

std::vector<EvalValue> RandomArgs(const Graph& g, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<EvalValue> out;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const InputInfo& info = g.input_infos[i];
    if (info.kind != InputInfo::Kind::kUser) continue;
    const Value& v = g.value(g.inputs()[i]);
    switch (v.type.kind()) {
      case TypeKind::kTensor: {
        std::vector<int64_t> sizes, strides;
        for (const Expr& e : *v.type.tensor().sizes) sizes.push_back(Hint(g, e));
        for (const Expr& e : *v.type.tensor().strides) strides.push_back(Hint(g, e));
        Tensor t = Tensor::EmptyStrided(*v.type.tensor().dtype, sizes, strides);
        FillRandomly(t, random);
        out.push_back(EvalValue(t));
        break;
      }
      case TypeKind::kInt:
        if (const auto* c = std::get_if<int64_t>(&info.constant); info.is_constant && c != nullptr) {
          out.push_back(EvalValue(*c));
        } else {
          out.push_back(EvalValue(v.expr ? Hint(g, *v.expr) : int64_t{2}));
        }
        break;
      case TypeKind::kFloat: {
        const auto* c = std::get_if<double>(&info.constant);
        out.push_back(EvalValue(info.is_constant && c != nullptr ? *c : 0.5));
        break;
      }
      case TypeKind::kBool: {
        const auto* c = std::get_if<bool>(&info.constant);
        out.push_back(EvalValue(info.is_constant && c != nullptr ? *c : true));
        break;
      }
      case TypeKind::kString: {
        const auto* c = std::get_if<std::string>(&info.constant);
        out.push_back(EvalValue(c != nullptr ? *c : std::string()));
        break;
      }
      default:
        out.push_back(EvalValue());
    }
  }
  return out;
}

double At(const char* p, DType t) {
  auto get = [&](auto x) {
    std::memcpy(&x, p, sizeof x);
    return x;
  };
  switch (t) {
    case DType::kBool:
    case DType::kUInt8:
      return get(uint8_t{});
    case DType::kInt8:
      return get(int8_t{});
    case DType::kInt16:
      return get(int16_t{});
    case DType::kInt32:
      return get(int32_t{});
    case DType::kInt64:
      return static_cast<double>(get(int64_t{}));
    case DType::kFloat16:
      return HalfToFloat(get(uint16_t{}));
    case DType::kBFloat16:
      return BFloat16ToFloat(get(uint16_t{}));
    case DType::kFloat32:
    case DType::kComplex64:
      return get(float{});
    case DType::kFloat64:
    case DType::kComplex128:
      return get(double{});
  }
  return 0;
}

// "" if equal within the dtype's tolerance, elementwise over equal geometry.
std::string Difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) return absl::StrCat("dtype ", Name(b.dtype()), " instead of ", Name(a.dtype()));
  if (std::vector<int64_t>(a.sizes().begin(), a.sizes().end()) !=
      std::vector<int64_t>(b.sizes().begin(), b.sizes().end())) {
    return absl::StrCat("geometry ", b.geometry().ToString(), " instead of ", a.geometry().ToString());
  }
  const Tensor x = a.Clone(), y = b.Clone();
  const int item = ItemSize(a.dtype());
  const bool half = a.dtype() == DType::kFloat16 || a.dtype() == DType::kBFloat16;
  const double rtol = half ? 1.6e-2 : 1e-4, atol = half ? 1e-2 : 1e-5;
  const int64_t parts = IsComplex(a.dtype()) ? 2 : 1;
  for (int64_t i = 0; i < x.NumElements() * parts; ++i) {
    const double u = At(static_cast<const char*>(x.data()) + i * item / parts, a.dtype());
    const double v = At(static_cast<const char*>(y.data()) + i * item / parts, a.dtype());
    if (u == v || (std::isnan(u) && std::isnan(v))) continue;
    if (!IsFloating(a.dtype()) && !IsComplex(a.dtype()))
      return absl::StrCat("element ", i, " is ", v, " instead of ", u);
    if (!(std::fabs(u - v) <= atol + rtol * std::fabs(u)))
      return absl::StrCat("element ", i, " is ", v, " instead of ", u);
  }
  return "";
}

// `convention` is null if the graph after the pass has the same calling convention as before.
absl::Status Compare(const Graph& original, const Graph& pure, const Convention* convention, absl::string_view pass) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    std::vector<EvalValue> want_args = RandomArgs(original, seed), got_args = RandomArgs(original, seed);
    const auto duplicates =
        convention == nullptr ? DuplicatesLayer().inner_of_outer : convention->duplicates.inner_of_outer;
    for (size_t i = 0; i < duplicates.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (duplicates[k] == duplicates[i]) {
          want_args[i] = want_args[k];
          got_args[i] = got_args[k];
          break;
        }
      }
    }
    EvalOptions want_options, got_options;
    want_options.weights = CopyWeights(original);
    got_options.weights = CopyWeights(original);
    want_options.generator = std::make_shared<EvalGenerator>(seed);
    got_options.generator = std::make_shared<EvalGenerator>(seed);
    auto want = EvaluateGraph(original, want_args, want_options);
    if (!want.ok()) return absl::OkStatus();  // random data is not for this program
    auto got = convention == nullptr ? EvaluateGraph(pure, got_args, got_options)
                                     : RunConvention(pure, *convention, got_args, got_options);
    // Such a call belongs to the eager-order plan.
    if (absl::IsUnimplemented(got.status()) && CauseOf(got.status()) == Cause::kDependsOnOrder) return absl::OkStatus();
    if (!got.ok())
      return absl::InternalError(
          absl::StrCat("pass ", pass, ": the graph cannot be run after it: ", got.status().message()));
    auto fail = [&](const std::string& where, const std::string& what) {
      return absl::InternalError(absl::StrCat("pass ", pass, " changed the meaning: ", where, ": ", what));
    };
    if (want->outputs.size() != got->outputs.size()) return fail("outputs", "another number of them");
    for (size_t k = 0; k < want->outputs.size(); ++k) {
      if (!want->outputs[k].IsTensor() || !got->outputs[k].IsTensor()) continue;
      const std::string d = Difference(want->outputs[k].tensor(), got->outputs[k].tensor());
      if (!d.empty()) return fail(absl::StrCat("output ", k), d);
    }
    for (size_t k = 0; k < want_args.size(); ++k) {
      if (!want_args[k].IsTensor()) continue;
      const std::string d = Difference(want_args[k].tensor(), got_args[k].tensor());
      if (!d.empty()) return fail(absl::StrCat("argument ", k), d);
    }
    for (size_t k = 0; k < want_options.weights.size(); ++k) {
      const std::string d = Difference(want_options.weights[k], got_options.weights[k]);
      if (!d.empty()) return fail(absl::StrCat("state ", original.weights[k].name), d);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPass(const Graph& original, const Graph& pure, const Convention& convention,
                        absl::string_view pass) {
  return Compare(original, pure, &convention, pass);
}

absl::Status VerifySameMeaning(const Graph& before, const Graph& after, absl::string_view pass) {
  return Compare(before, after, nullptr, pass);
}

}  // namespace smelt
