// For every recorded call, the inferred types and the values of pointwise functions equal PyTorch's.
#include "smelt/core/op/op_answers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar_memory.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

const OpAnswers& Answers() {
  static const OpAnswers* const kAnswers = [] {
    auto a = OpAnswers::Load("testdata/op_answers.safetensors");
    SMELT_CHECK_OK(a.status());
    return new OpAnswers(*std::move(a));
  }();
  return *kAnswers;
}

OpCall CallOf(const Answer& a) {
  std::vector<OpArg> args;
  for (const AnswerValue& v : a.args) args.push_back(v.ToOpArg());
  return OpCall(a.op, std::move(args));
}

// Where PyTorch's own vectorized code deviates from the operator's definition or from IEEE arithmetic.
const std::map<std::string, const char*>& Known() {
  static const auto* const kKnown = new std::map<std::string, const char*>{
      {"aten::cosh", "float32 overflows at 89"},
      {"aten::sinh", "float32 overflows at 89"},
      {"aten::gelu", "infinity gives NaN"},
      {"aten::fmod.Tensor", "a finite number modulo infinity gives NaN"},
      {"aten::remainder.Tensor", "a finite number modulo infinity gives NaN"},
      {"aten::sqrt", "not correctly rounded by one unit on short tensors"},
      {"aten::special_ndtr", "float16 rounds inside"},
      {"aten::div.Tensor_mode", "float16, one unit"},
      {"aten::floor_divide", "float16, one unit"},
  };
  return *kKnown;
}

// Collects failures by operator, so that one wrong rule does not hide others.
class Tally {
 public:
  void Pass(const std::string& op) { ++passed_[op]; }
  void Fail(const std::string& op, const std::string& what) { failed_[op].push_back(what); }
  void Skip(const std::string& op, const std::string& why) { skipped_[op].push_back(why); }
  ~Tally() {
    int passed = 0, failed = 0, skipped = 0;
    for (auto& [op, n] : passed_) passed += n;
    for (auto& [op, lines] : failed_) failed += static_cast<int>(lines.size());
    for (auto& [op, lines] : skipped_) skipped += static_cast<int>(lines.size());
    std::printf("%d calls of %d operators equal PyTorch's, %d of %d differ, %d of %d not tried\n", passed,
                static_cast<int>(passed_.size()), failed, static_cast<int>(failed_.size()), skipped,
                static_cast<int>(skipped_.size()));
    for (auto& [op, lines] : failed_)
      std::printf("  DIFFERS %s: %d, %s\n", op.c_str(), static_cast<int>(lines.size()), lines[0].c_str());
    if (std::getenv("SMELT_SKIPPED") != nullptr) {
      for (auto& [op, lines] : skipped_)
        std::printf("  SKIPPED %s: %d, %s\n", op.c_str(), static_cast<int>(lines.size()), lines[0].c_str());
    }
  }
  int failed() const {
    int n = 0;
    for (auto& [op, lines] : failed_) n += static_cast<int>(lines.size());
    return n;
  }
  const std::map<std::string, std::vector<std::string>>& skipped() const { return skipped_; }

 private:
  std::map<std::string, int> passed_;
  std::map<std::string, std::vector<std::string>> failed_, skipped_;
};

std::string CompareType(const Type& have, const AnswerValue& want) {
  if (want.kind == OpArg::Kind::kTensorList || want.kind != OpArg::Kind::kTensor) return "";
  if (!have.IsTensor()) return absl::StrCat("type ", have.ToString(), ", expected a tensor");
  const TensorType& t = have.tensor();
  Geometry g = want.tensor.geometry();
  if (t.dtype != want.tensor.dtype())
    return absl::StrCat(have.ToString(), ", expected dtype ", Name(want.tensor.dtype()));
  if (!t.sizes) return "";  // data tells
  bool equal = t.sizes->size() == g.sizes.size();
  for (size_t d = 0; equal && d < g.sizes.size(); ++d) {
    equal = (*t.sizes)[d] == Expr(g.sizes[d]) &&
            (g.sizes[d] <= 1 || g.NumElements() == 0 || (*t.strides)[d] == Expr(g.strides[d]));
  }
  return equal ? "" : absl::StrCat(have.ToString(), ", expected ", g.ToString());
}

TEST(OpAnswersTest, InferredTypesArePyTorchs) {
  Tally tally;
  const SymbolRanges ranges;
  for (int i = 0; i < Answers().size(); ++i) {
    const Answer a = Answers().Get(i);
    auto out = InferCall(CallOf(a), ranges);
    const std::string& op = a.op.full();
    if (!out.ok()) {
      if (absl::IsUnimplemented(out.status())) {
        tally.Skip(op, std::string(out.status().message()));
      } else {
        tally.Fail(op, absl::StrCat(Answers().Describe(i), ": ", out.status().message()));
      }
      continue;
    }
    std::string what;
    if (out->size() != a.outputs.size()) what = absl::StrCat(out->size(), " outputs, expected ", a.outputs.size());
    for (size_t k = 0; what.empty() && k < a.outputs.size(); ++k) {
      what = CompareType((*out)[k].type, a.outputs[k]);
      if (a.outputs[k].kind == OpArg::Kind::kInt && (*out)[k].expr && *(*out)[k].expr != Expr(a.outputs[k].i))
        what = "another integer";
      if (a.outputs[k].kind == OpArg::Kind::kTensorList && !(*out)[k].elements.empty()) {
        if ((*out)[k].elements.size() != a.outputs[k].list.size()) what = "another number of elements";
        for (size_t j = 0; what.empty() && j < a.outputs[k].list.size(); ++j)
          what = CompareType((*out)[k].elements[j], a.outputs[k].list[j]);
      }
    }
    if (what.empty()) {
      tally.Pass(op);
    } else {
      tally.Fail(op, absl::StrCat(Answers().Describe(i), ": ", what));
    }
  }
  EXPECT_EQ(tally.failed(), 0);
}

// Returns element `index`, counted in row-major order, of a tensor of any strides.
ScalarValue LoadScalar(const Tensor& t, int64_t index) {
  int64_t at = t.offset();
  for (int d = t.rank() - 1; d >= 0; --d) {
    at += index % t.sizes()[d] * t.strides()[d];
    index /= t.sizes()[d];
  }
  return LoadScalar(t.dtype(), t.storage()->data() + at * ItemSize(t.dtype()));
}

void StoreScalar(const Tensor& t, int64_t index, ScalarValue v) {
  StoreScalar(t.dtype(), v, static_cast<char*>(t.data()) + index * ItemSize(t.dtype()));
}

// Returns the index of output element `i` in an operand that is broadcast to `sizes`.
int64_t BroadcastIndex(absl::Span<const int64_t> sizes, const Tensor& t, int64_t i) {
  int64_t index = 0, scale = 1;
  const int shift = static_cast<int>(sizes.size()) - t.rank();
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    const int64_t k = i % sizes[d];
    i /= sizes[d];
    if (d < shift) continue;
    if (t.sizes()[d - shift] != 1) index += k * scale;
    scale *= t.sizes()[d - shift];
  }
  return index;
}

std::string RunPointwise(const Answer& a, const PointwiseMeaning& m, absl::Span<const int64_t> sizes,
                         std::vector<Tensor>& out) {
  for (DType t : m.results) out.push_back(Tensor::Empty(t, sizes));
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  std::vector<ScalarValue> values(m.operands.size());
  bool by_zero = false;
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < m.operands.size(); ++k) {
      const AnswerValue& v = a.args[m.operands[k].arg];
      if (!m.operands[k].is_scalar) {
        values[k] = LoadScalar(v.tensor, BroadcastIndex(sizes, v.tensor, i));
      } else if (v.kind == OpArg::Kind::kFloat) {
        values[k].f = v.f;
      } else {
        values[k].i = v.i;
      }
    }
    const std::vector<ScalarValue> r = EvaluateScalarFn(m.fn, values, &by_zero);
    for (size_t k = 0; k < r.size(); ++k) StoreScalar(out[k], i, r[k]);
  }
  return "";
}

TEST(OpAnswersTest, PointwiseValuesArePyTorchs) {
  Tally tally;
  for (int i = 0; i < Answers().size(); ++i) {
    const Answer a = Answers().Get(i);
    const OpInfo& info = GetOpInfo(a.op);
    const std::string& op = a.op.full();
    if (info.kind != OpKind::kPointwise) continue;
    auto m = BuildPointwise(CallOf(a));
    if (!m.ok()) {
      tally.Skip(op, absl::StrCat(Answers().Describe(i), ": ", m.status().message()));
      continue;
    }
    if (absl::Status s = VerifyScalarFn(m->fn); !s.ok()) {
      tally.Fail(op, absl::StrCat(Answers().Describe(i), ": ", s.message(), " ", m->fn.ToString()));
      continue;
    }
    std::vector<Tensor> out;
    RunPointwise(a, *m, a.outputs[0].tensor.sizes(), out);
    std::string what;
    for (size_t k = 0; what.empty() && k < a.outputs.size(); ++k)
      what = CompareTensors(out[k], a.outputs[k].tensor, a.compare, false);
    if (what.empty()) {
      tally.Pass(op);
    } else if (Known().count(op) > 0) {
      tally.Skip(op, absl::StrCat(Known().at(op), ": ", what));
    } else {
      tally.Fail(op, absl::StrCat(Answers().Describe(i), ": ", what, "; ", m->fn.ToString()));
    }
  }
  EXPECT_EQ(tally.failed(), 0);
}

// Computes a reduction as ReductionMeaning describes, element by element.
std::vector<Tensor> RunReduction(const Answer& a, const ReductionMeaning& m) {
  const Tensor& x = a.args[m.arg].tensor;
  const int rank = x.rank();
  auto reduced = [&](int d) { return std::find(m.dims.begin(), m.dims.end(), d) != m.dims.end(); };
  std::vector<int64_t> sizes;
  int64_t count = 1, points = 1;
  for (int d = 0; d < rank; ++d) {
    if (m.is_scan || !reduced(d)) {
      sizes.push_back(x.sizes()[d]);
    } else if (m.keepdim) {
      sizes.push_back(1);
    }
    (reduced(d) ? count : points) *= x.sizes()[d];
  }
  std::vector<Tensor> out;
  for (DType t : m.results) out.push_back(Tensor::Empty(t, sizes));
  const int n = static_cast<int>(m.combine.size());
  for (int64_t p = 0; p < points; ++p) {
    std::vector<ScalarValue> acc(n), best(n);
    for (int k = 0; k < n; ++k) {
      acc[k].i = 0;
      const bool real = IsFloating(m.accumulator[k]);
      if (m.combine[k] == Combine::kProd) real ? void(acc[k].f = 1) : void(acc[k].i = 1);
      if (m.combine[k] == Combine::kSum && real) acc[k].f = 0;
      if (m.combine[k] == Combine::kAnd) acc[k].i = 1;
    }
    auto finish = [&](int64_t at) {
      std::vector<ScalarValue> args = acc;
      ScalarValue elements;
      elements.i = count;
      args.push_back(elements);
      const std::vector<ScalarValue> r = EvaluateScalarFn(m.post, args, nullptr);
      for (size_t k = 0; k < r.size(); ++k) StoreScalar(out[k], at, r[k]);
    };
    int64_t at = 0;
    for (int64_t r = 0; r < count; ++r) {
      int64_t index = 0, scale = 1, pi = p, ri = r;
      for (int d = rank - 1; d >= 0; --d) {
        int64_t& from = reduced(d) ? ri : pi;
        index += from % x.sizes()[d] * scale;
        from /= x.sizes()[d];
        scale *= x.sizes()[d];
      }
      if (m.is_scan) at = index;
      const std::vector<ScalarValue> v = EvaluateScalarFn(m.pre, {LoadScalar(x, index)}, nullptr);
      for (int k = 0; k < n; ++k) {
        const bool real = IsFloating(m.accumulator[k]);
        const bool nan = real && std::isnan(v[k].f), had_nan = real && r > 0 && std::isnan(best[k].f);
        const auto less = [&](ScalarValue a, ScalarValue b) { return real ? a.f < b.f : a.i < b.i; };
        switch (m.combine[k]) {
          case Combine::kSum:
            real ? void(acc[k].f += v[k].f) : void(acc[k].i += v[k].i);
            break;
          case Combine::kProd:
            real ? void(acc[k].f *= v[k].f) : void(acc[k].i *= v[k].i);
            break;
          case Combine::kAnd:
            acc[k].i &= v[k].i;
            break;
          case Combine::kOr:
            acc[k].i |= v[k].i;
            break;
          default: {
            const bool min = m.combine[k] == Combine::kMin || m.combine[k] == Combine::kArgMin;
            const bool arg = m.combine[k] == Combine::kArgMin || m.combine[k] == Combine::kArgMax;
            bool better = r == 0 || (!had_nan && (nan || (min ? less(v[k], best[k]) : less(best[k], v[k]))));
            // cummax takes the last of equal elements, and of NaNs.
            if (m.is_scan && r > 0) better |= nan || (!had_nan && !less(v[k], best[k]) && !less(best[k], v[k]));
            if (!better) break;
            best[k] = v[k];
            if (arg) {
              acc[k].i = r;
            } else {
              acc[k] = v[k];
            }
          }
        }
      }
      if (m.is_scan) finish(at);
    }
    if (!m.is_scan) finish(p);
  }
  return out;
}

TEST(OpAnswersTest, ReductionsGivePyTorchsValues) {
  Tally tally;
  for (int i = 0; i < Answers().size(); ++i) {
    const Answer a = Answers().Get(i);
    const std::string& op = a.op.full();
    if (GetOpInfo(a.op).kind != OpKind::kReduction) continue;
    auto m = BuildReduction(CallOf(a));
    if (!m.ok()) {
      tally.Skip(op, absl::StrCat(Answers().Describe(i), ": ", m.status().message()));
      continue;
    }
    std::string what;
    for (const ScalarFn* f : {&m->pre, &m->post}) {
      if (absl::Status s = VerifyScalarFn(*f); !s.ok()) what = absl::StrCat(s.message(), " ", f->ToString());
    }
    if (what.empty()) {
      const std::vector<Tensor> out = RunReduction(a, *m);
      for (size_t k = 0; what.empty() && k < a.outputs.size(); ++k)
        what = CompareTensors(out[k], a.outputs[k].tensor, a.compare, false);
    }
    const Tensor& x = a.args[m->arg].tensor;
    double largest = 0;
    for (int64_t k = 0; k < x.NumElements(); ++k) largest = std::max(largest, std::fabs(ElementAsDouble(x, k)));
    if (what.empty()) {
      tally.Pass(op);
    } else if (IsFloating(x.dtype()) && largest > 1e30) {
      tally.Skip(op, "the extremes cancel: what is left depends on the order of additions");
    } else {
      tally.Fail(op, absl::StrCat(Answers().Describe(i), ": ", what));
    }
  }
  EXPECT_EQ(tally.failed(), 0);
}

}  // namespace
}  // namespace smelt
