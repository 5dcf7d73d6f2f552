#include "smelt/pipeline/verify_passes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"

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
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
        put(FloatToFloat8(t.dtype(), static_cast<float>(v)));
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
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Float8ToFloat(t, get(uint8_t{}));
    case DType::kFloat32:
    case DType::kComplex64:
      return get(float{});
    case DType::kFloat64:
    case DType::kComplex128:
      return get(double{});
  }
  return 0;
}

// Changes each floating value that a graph computes by one unit in its last place, up or down at random. Whole numbers
// stay, since those are counts, masks and indices, and exact.
class Rounding : public EvalObserver {
 public:
  explicit Rounding(uint64_t seed) : random_(seed) {}

  void OnValue(const Graph& g, ValueId v, const EvalValue& x) override {
    const NodeId def = g.value(v).def;
    if (!x.IsTensor() || g.IsParam(def)) return;
    const Node& node = g.node(def);
    if (node.op == op::kPrimConstant) constants_.insert(x.tensor().storage().get());
    const bool is_computed = node.blocks.empty() && GetOpInfo(node.op).kind != OpKind::kView &&
                             !absl::StartsWith(node.op.name(), op::kPrimNamespace);
    // An operator may return its operand.
    if (is_computed && !constants_.contains(x.tensor().storage().get())) Round(x.tensor());
  }

  void Round(const Tensor& t) {
    if (!t.defined() || (!IsFloating(t.dtype()) && !IsComplex(t.dtype())) || t.NumElements() == 0) return;
    const int parts = IsComplex(t.dtype()) ? 2 : 1, item = ItemSize(t.dtype());
    std::vector<int64_t> index(t.rank(), 0);
    for (int64_t i = 0; i < t.NumElements(); ++i) {
      int64_t at = t.offset();
      for (int d = 0; d < t.rank(); ++d) at += index[d] * t.strides()[d];
      for (int part = 0; part < parts; ++part)
        RoundElement(t.storage()->data() + at * item + part * (item / parts), t.dtype(), item / parts);
      for (int d = t.rank(); d-- > 0 && ++index[d] == t.sizes()[d];) index[d] = 0;
    }
  }

 private:
  void RoundElement(char* p, DType dtype, int bytes) {
    const double value = At(p, dtype);
    if (!std::isfinite(value) || value == std::trunc(value)) return;
    // The bits of neighbours of one sign differ by one.
    uint64_t bits = 0;
    std::memcpy(&bits, p, bytes);
    bits += random_() % 2 == 0 ? uint64_t{1} : ~uint64_t{0};
    std::memcpy(p, &bits, bytes);
  }

  std::mt19937_64 random_;
  absl::flat_hash_set<const Storage*> constants_;
};

// Everything that the caller sees of a call.
struct Seen {
  std::string where;
  Tensor tensor;
};
std::vector<Seen> WhatIsSeen(const Graph& g, const EvalResult& result, absl::Span<const EvalValue> args,
                             absl::Span<const Tensor> weights) {
  std::vector<Seen> out;
  for (size_t k = 0; k < result.outputs.size(); ++k) {
    if (result.outputs[k].IsTensor()) out.push_back({absl::StrCat("output ", k), result.outputs[k].tensor()});
  }
  for (size_t k = 0; k < args.size(); ++k) {
    if (args[k].IsTensor()) out.push_back({absl::StrCat("argument ", k), args[k].tensor()});
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    out.push_back({absl::StrCat("state ", g.weights[k].name), weights[k]});
  }
  return out;
}

// The arguments of a call, those that are one tensor joined.
std::vector<EvalValue> Arguments(const Graph& g, const DuplicatesLayer& duplicates, uint64_t seed) {
  std::vector<EvalValue> args = RandomArgs(g, seed);
  const auto& inner = duplicates.inner_of_outer;
  for (size_t i = 0; i < inner.size(); ++i) {
    const auto first = std::find(inner.begin(), inner.begin() + static_cast<int64_t>(i), inner[i]);
    args[i] = args[first - inner.begin()];
  }
  return args;
}

double ElementAt(const Tensor& dense, int64_t i) {
  const int item = ItemSize(dense.dtype()) / (IsComplex(dense.dtype()) ? 2 : 1);
  return At(static_cast<const char*>(dense.data()) + i * item, dense.dtype());
}
int64_t NumParts(const Tensor& t) { return t.NumElements() * (IsComplex(t.dtype()) ? 2 : 1); }

// For each tensor of `want`, by how much its elements move if the graph's arithmetic rounds otherwise: the largest
// difference that several runs find in which each value of the graph, and each argument, is off by its last place.
std::vector<std::vector<double>> MovesByRounding(const Graph& original, const DuplicatesLayer& duplicates,
                                                 uint64_t seed, absl::Span<const Seen> want) {
  constexpr int kRuns = 8;
  std::vector<std::vector<double>> moves(want.size());
  for (size_t k = 0; k < want.size(); ++k) moves[k].resize(NumParts(want[k].tensor), 0.0);
  for (int run = 0; run < kRuns; ++run) {
    Rounding rounding(static_cast<uint64_t>(run) + 1);
    const std::vector<EvalValue> args = Arguments(original, duplicates, seed);
    EvalOptions options;
    options.weights = CopyWeights(original);
    options.generator = std::make_shared<EvalGenerator>(seed);
    options.observer = &rounding;
    for (const EvalValue& a : args) {
      if (a.IsTensor()) rounding.Round(a.tensor());
    }
    for (const Tensor& w : options.weights) rounding.Round(w);
    const auto result = EvaluateGraph(original, args, options);
    if (!result.ok()) continue;
    const std::vector<Seen> seen = WhatIsSeen(original, *result, args, options.weights);
    for (size_t k = 0; k < seen.size() && k < want.size(); ++k) {
      if (seen[k].tensor.dtype() != want[k].tensor.dtype() || NumParts(seen[k].tensor) != NumParts(want[k].tensor))
        continue;
      const Tensor x = want[k].tensor.Clone(), y = seen[k].tensor.Clone();
      for (size_t i = 0; i < moves[k].size(); ++i) {
        const double u = ElementAt(x, static_cast<int64_t>(i)), v = ElementAt(y, static_cast<int64_t>(i));
        if (u == v || (std::isnan(u) && std::isnan(v))) continue;
        const double d = std::fabs(u - v);
        moves[k][i] = std::max(moves[k][i], std::isnan(d) ? HUGE_VAL : d);
      }
    }
  }
  return moves;
}

// Returns "" if the tensors are equal within the dtype's tolerance, elementwise over equal geometry. An element may
// also differ by some times as much as rounding moves it: `moves` has the elements' moves, or is empty. A difference of
// ten times the largest of eight random moves is not one more of their kind.
std::string Difference(const Tensor& a, const Tensor& b, absl::Span<const double> moves) {
  constexpr double kTimes = 10;
  if (a.dtype() != b.dtype()) return absl::StrCat("dtype ", Name(b.dtype()), " instead of ", Name(a.dtype()));
  if (std::vector<int64_t>(a.sizes().begin(), a.sizes().end()) !=
      std::vector<int64_t>(b.sizes().begin(), b.sizes().end())) {
    return absl::StrCat("geometry ", b.geometry().ToString(), " instead of ", a.geometry().ToString());
  }
  const Tensor x = a.Clone(), y = b.Clone();
  const bool half = a.dtype() == DType::kFloat16 || a.dtype() == DType::kBFloat16;
  const bool rounds = IsFloating(a.dtype()) || IsComplex(a.dtype());
  const bool byte = IsFloat8(a.dtype());  // numbers on both sides of a middle become neighbours
  const double rtol = !rounds ? 0 : byte ? 0.25 : half ? 1.6e-2 : 1e-4, atol = !rounds ? 0 : half ? 1e-2 : 1e-5;
  for (int64_t i = 0; i < NumParts(x); ++i) {
    const double u = ElementAt(x, i), v = ElementAt(y, i);
    if (u == v || (std::isnan(u) && std::isnan(v))) continue;
    const double move = moves.empty() ? 0 : moves[i];
    if (std::fabs(u - v) <= std::max(atol + rtol * std::fabs(u), kTimes * move) || std::isinf(move)) continue;
    return absl::StrCat("element ", i, " is ", v, " instead of ", u,
                        moves.empty() ? "" : absl::StrCat(", and rounding moves it by ", move));
  }
  return "";
}

// `convention` is null if the graph after the pass has the same calling convention as before.
absl::Status Compare(const Graph& original, const Graph& pure, const Convention* convention,
                     const DuplicatesLayer& duplicates, absl::string_view pass) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const std::vector<EvalValue> want_args = Arguments(original, duplicates, seed);
    const std::vector<EvalValue> got_args = Arguments(original, duplicates, seed);
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
    const std::vector<Seen> a = WhatIsSeen(original, *want, want_args, want_options.weights);
    const std::vector<Seen> b = WhatIsSeen(original, *got, got_args, got_options.weights);
    const std::string changed = absl::StrCat("pass ", pass, " changed the meaning: ");
    if (a.size() != b.size() || want->outputs.size() != got->outputs.size())
      return absl::InternalError(absl::StrCat(changed, "outputs: another number of them"));
    std::vector<std::vector<double>> moves;
    for (size_t k = 0; k < a.size(); ++k) {
      if (Difference(a[k].tensor, b[k].tensor, {}).empty()) continue;
      if (moves.empty()) moves = MovesByRounding(original, duplicates, seed, a);
      const std::string difference = Difference(a[k].tensor, b[k].tensor, moves[k]);
      if (!difference.empty()) return absl::InternalError(absl::StrCat(changed, a[k].where, ": ", difference));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPass(const Graph& original, const Graph& pure, const Convention& convention,
                        absl::string_view pass) {
  return Compare(original, pure, &convention, convention.duplicates, pass);
}

absl::Status VerifySameMeaning(const Graph& before, const Graph& after, absl::string_view pass,
                               const DuplicatesLayer& duplicates) {
  return Compare(before, after, nullptr, duplicates, pass);
}

}  // namespace smelt
