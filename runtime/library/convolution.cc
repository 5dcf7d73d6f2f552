#include "smelt/runtime/library/convolution.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/convolution_cost.h"
#include "smelt/runtime/library/dnnl_convolution.h"
#include "smelt/runtime/library/gemm_convolution.h"
#include "smelt/runtime/library/grouped_convolution.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/implementation.h"
#include "smelt/runtime/library/onednn.h"
#include "smelt/runtime/library/pointwise_convolution.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {

absl::StatusOr<ConvParams> ParseConvParams(const LibraryRequest& r, const OperandShape& input,
                                           const OperandShape& weight, const OperandShape& output) {
  ConvParams p;
  p.spatial = input.rank() - 2;
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(r.op, " of ", Show(input), " with weight ", Show(weight), " to ", Show(output), ": ", what));
  };
  if (p.spatial < 1 || p.spatial > 3) return bad("expected 1 to 3 spatial dims");
  if (weight.rank() != input.rank() || output.rank() != input.rank()) return bad("the ranks differ");
  const int s = p.spatial;
  if (static_cast<int>(r.ints.size()) != 4 * s + 2) {
    return bad(absl::StrCat(r.ints.size(), " integer attributes, expected ", 4 * s + 2));
  }
  const auto slice = [&](int from) { return std::vector<int64_t>(r.ints.begin() + from, r.ints.begin() + from + s); };
  p.stride = slice(0);
  p.padding = slice(s);
  p.dilation = slice(2 * s);
  p.transposed = r.ints[3 * s] != 0;
  p.output_padding = slice(3 * s + 1);
  p.groups = r.ints[4 * s + 1];
  for (int i = 0; i < s; ++i) {
    if (p.stride[i] < 1 || p.dilation[i] < 1 || p.padding[i] < 0)
      return bad("stride, dilation or padding out of range");
    if (p.stride[i] > 1 << 20 || p.dilation[i] > 1 << 20 || p.padding[i] > 1 << 24) return bad("absurd attributes");
  }
  if (p.groups < 1 || (input.sizes[1] > 0 && p.groups > input.sizes[1]))
    return bad("groups must be between 1 and the channels");
  const int64_t in_channels = input.sizes[1], out_channels = output.sizes[1];
  const int64_t w_in = p.transposed ? weight.sizes[0] : weight.sizes[1] * p.groups;
  const int64_t w_out = p.transposed ? weight.sizes[1] * p.groups : weight.sizes[0];
  if (w_in != in_channels || w_out != out_channels || in_channels % p.groups != 0 || out_channels % p.groups != 0) {
    return bad("the channels do not fit");
  }
  if (input.sizes[0] != output.sizes[0]) return bad("the batches differ");
  for (int i = 0; i < s; ++i) {
    const int64_t k = (weight.sizes[2 + i] - 1) * p.dilation[i] + 1;
    const int64_t in = p.transposed ? output.sizes[2 + i] : input.sizes[2 + i];
    const int64_t out = p.transposed ? input.sizes[2 + i] : output.sizes[2 + i];
    if (input.NumElements() == 0 || output.NumElements() == 0) continue;
    // A transposed convolution has several possible sizes, and the output's sizes decide.
    const int64_t expected = (in + 2 * p.padding[i] - k) / p.stride[i] + 1;
    if (in + 2 * p.padding[i] < k || (p.transposed ? expected < out : expected != out)) {
      return bad(absl::StrCat("spatial dim ", i, " does not fit"));
    }
  }
  return p;
}

int64_t PaddingAfter(const ConvParams& p, int dim, int64_t kernel, int64_t in, int64_t out) {
  const int64_t reach = (kernel - 1) * p.dilation[dim] + 1;
  return p.transposed ? (in - 1) * p.stride[dim] + reach - p.padding[dim] - out
                      : (out - 1) * p.stride[dim] + reach - p.padding[dim] - in;
}

bool IsPlane(const OperandShape& o) {
  int64_t step = 1;
  for (int d = o.rank(); d-- > 2;) {
    if (o.sizes[d] != 1 && o.strides[d] != step) return false;
    step *= o.sizes[d];
  }
  return true;
}

absl::Status SameRealDTypes(const LibraryRequest& r) {
  for (const auto* list : {&r.inputs, &r.outputs}) {
    for (const OperandShape& o : *list) {
      if (!o.present) continue;
      if (o.dtype != r.inputs[0].dtype) return absl::InvalidArgumentError(absl::StrCat(r.op, ": the dtypes differ"));
      if (IsComplex(o.dtype) || o.dtype == DType::kBool) {
        return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(o.dtype)));
      }
    }
  }
  return absl::OkStatus();
}

namespace {

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(sizes[d + 1], 1);
  return strides;
}

// --- plain loops, any real dtype ---

// out[n, oc, o..] = bias[oc] + sum of in[n, ic, i..] * w. The transposed form scatters, which here is a gather over the
// taps that reach an output.
class NaiveConvolution : public PreparedOp {
 public:
  NaiveConvolution(const LibraryRequest& r, ConvParams p)
      : p_(std::move(p)), in_(r.inputs[0]), w_(r.inputs[1]), out_(r.outputs[0]) {
    if (r.inputs.size() > 2) bias_ = r.inputs[2];
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    context.For(out_.sizes[0] * out_.sizes[1], [&](int64_t i) {
      Channel(inputs[0], inputs[1], bias_.present ? inputs[2] : nullptr, outputs[0], i / out_.sizes[1],
              i % out_.sizes[1]);
    });
    return absl::OkStatus();
  }

 private:
  void Channel(const char* in, const char* w, const char* bias, char* out, int64_t n, int64_t oc) const {
    const int item = ItemSize(out_.dtype);
    const bool integral = IsIntegral(out_.dtype);
    const int64_t out_per_group = out_.sizes[1] / p_.groups, in_per_group = in_.sizes[1] / p_.groups;
    const int64_t group = oc / out_per_group;
    const char* in_n = in + (n * in_.strides[0] + group * in_per_group * in_.strides[1]) * item;
    const char* w_c = p_.transposed
                          ? w + (group * in_per_group * w_.strides[0] + oc % out_per_group * w_.strides[1]) * item
                          : w + oc * w_.strides[0] * item;
    const int64_t w_ic = p_.transposed ? w_.strides[0] : w_.strides[1];
    char* out_n = out + (n * out_.strides[0] + oc * out_.strides[1]) * item;
    const int s = p_.spatial;
    int64_t o[3] = {}, k[3] = {};
    int64_t points = 1, taps = 1;
    for (int d = 0; d < s; ++d) points *= out_.sizes[2 + d], taps *= w_.sizes[2 + d];
    for (int64_t point = 0; point < points; ++point) {
      double sum = 0;
      uint64_t isum = 0;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t in_at = SourceOf(p_, in_, o, k);
        int64_t w_at = 0;
        for (int d = 0; d < s; ++d) w_at += k[d] * w_.strides[2 + d];
        if (in_at >= 0) {
          for (int64_t ic = 0; ic < in_per_group; ++ic) {
            const char* x = in_n + (in_at + ic * in_.strides[1]) * item;
            const char* y = w_c + (w_at + ic * w_ic) * item;
            if (integral) {
              isum += static_cast<uint64_t>(LoadInt(x, out_.dtype)) * static_cast<uint64_t>(LoadInt(y, out_.dtype));
            } else {
              sum += LoadDouble(x, out_.dtype) * LoadDouble(y, out_.dtype);
            }
          }
        }
        NextPlace(s, &w_.sizes[2], k);
      }
      int64_t at = 0;
      for (int d = 0; d < s; ++d) at += o[d] * out_.strides[2 + d];
      if (integral) {
        if (bias != nullptr) isum += static_cast<uint64_t>(LoadInt(bias + oc * bias_.strides[0] * item, out_.dtype));
        StoreInt(out_n + at * item, out_.dtype, static_cast<int64_t>(isum));
      } else {
        if (bias != nullptr) sum += LoadDouble(bias + oc * bias_.strides[0] * item, out_.dtype);
        StoreDouble(out_n + at * item, out_.dtype, sum);
      }
      NextPlace(s, &out_.sizes[2], o);
    }
  }

  ConvParams p_;
  OperandShape in_, w_, out_, bias_;
};

// Wraps an op of another dtype or layout: operands are converted, and results are converted back. Operands that fit
// both are passed on. Used for float16, bfloat16 without AVX-512, and expanded operands.
class ConvertedOp : public PreparedOp {
 public:
  ConvertedOp(LibraryRequest outer, LibraryRequest inner, std::unique_ptr<PreparedOp> op)
      : outer_(std::move(outer)), inner_(std::move(inner)), op_(std::move(op)) {}

  // The request with dense operands in place of expanded ones.
  __attribute__((noinline)) static LibraryRequest Spread(const LibraryRequest& r) {
    LibraryRequest inner = r;
    for (OperandShape& o : inner.inputs) {
      if (!o.present || !HasZeroStride(o)) continue;
      o.strides = ContiguousStrides(o.sizes);
      o.constant = nullptr;
    }
    return inner;
  }

  // The request with dense float32 operands.
  __attribute__((noinline)) static LibraryRequest Inner(const LibraryRequest& r) {
    LibraryRequest inner = r;
    for (auto* list : {&inner.inputs, &inner.outputs}) {
      for (OperandShape& o : *list) {
        if (!o.present) continue;
        if (o.dtype != DType::kFloat64) o.dtype = DType::kFloat32;
        o.strides = ContiguousStrides(o.sizes);
        o.constant = nullptr;
      }
    }
    return inner;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    int64_t total = 0;
    const auto place = [&](const OperandShape& o, const OperandShape& outer) {
      const int64_t at = total;
      if (o.present && !(o == outer)) total += (o.NumElements() * ItemSize(o.dtype) + 63) / 64 * 64;
      return at;
    };
    std::vector<int64_t> at;
    for (size_t i = 0; i < inputs.size(); ++i) at.push_back(place(inner_.inputs[i], outer_.inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) at.push_back(place(inner_.outputs[i], outer_.outputs[i]));
    char* base = Scratch::Get(ScratchUse::kOther, total);
    std::vector<char*> in(inputs.size(), nullptr), out(outputs.size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OperandShape &from = outer_.inputs[i], &to = inner_.inputs[i];
      in[i] = inputs[i];
      if (!to.present || to == from) continue;
      in[i] = base + at[i];
      char* p = in[i];
      if (from.IsDense() && to.dtype == DType::kFloat32 && IsHalf(from.dtype)) {
        ToFloats(from.dtype, inputs[i], 1, from.NumElements(), reinterpret_cast<float*>(p));
        continue;
      }
      ForEachElement({inputs[i], from.dtype, from.sizes, from.strides}, [&](const char* q) {
        StoreDouble(p, to.dtype, LoadDouble(q, from.dtype));
        p += ItemSize(to.dtype);
      });
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      out[i] = inner_.outputs[i] == outer_.outputs[i] ? outputs[i] : base + at[inputs.size() + i];
    }
    SMELT_RETURN_IF_ERROR(op_->Run(context, in, out));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const OperandShape &to = outer_.outputs[i], &from = inner_.outputs[i];
      if (!from.present || from == to) continue;
      const char* p = out[i];
      if (to.IsDense() && from.dtype == DType::kFloat32 && IsHalf(to.dtype)) {
        FromFloats(to.dtype, reinterpret_cast<const float*>(p), to.NumElements(), outputs[i], 1);
        continue;
      }
      ForEachElement({outputs[i], to.dtype, to.sizes, to.strides}, [&](char* q) {
        StoreDouble(q, to.dtype, LoadDouble(p, from.dtype));
        p += ItemSize(from.dtype);
      });
    }
    return absl::OkStatus();
  }

 private:
  LibraryRequest outer_, inner_;
  std::unique_ptr<PreparedOp> op_;
};

struct Call {
  const LibraryRequest& r;
  const ConvParams& p;
  PackedWeights* packed;
};
using Convolution = Implementation<Call>;

MakeResult MakeGrouped(const Call& c) { return MakeGroupedConvolution(c.r, c.p); }
MakeResult MakeGemm(const Call& c) { return MakeGemmConvolution(c.r, c.p, c.packed); }

template <ConvolutionWay kWay>
double Estimate(const Call& c) {
  return EstimateNanoseconds(kWay, c.r, c.p);
}
const char* WhyNotSums(const Call& c, DType t) {
  return c.r.outputs[0].dtype != t ? (t == DType::kFloat32 ? "it is not float32" : "it is not float64")
         : c.p.transposed          ? "it is transposed"
         : c.r.outputs[0].sizes[1] > kFewPerGroup * c.p.groups ? "there are many channels in a group"
                                                               : nullptr;
}

// Convolutions of the operands as they are.
constexpr Convolution kDirect[] = {
    {"rows of a matrix",
     [](const Call& c) -> const char* {
       return IsPointwise(c.r, c.p) ? nullptr : "it is not float32 with one tap and contiguous channels";
     },
     [](const Call& c) -> MakeResult { return MakePointwiseConvolution(c.r); }, Estimate<ConvolutionWay::kRows>},
    {"sums", [](const Call& c) { return WhyNotSums(c, DType::kFloat32); }, MakeGrouped,
     Estimate<ConvolutionWay::kSums>},
    {"oneDNN", [](const Call&) -> const char* { return HasOnednn() ? nullptr : "none is opened"; },
     [](const Call& c) -> MakeResult { return MakeDnnlConvolution(c.r, c.p, c.packed); },
     Estimate<ConvolutionWay::kOnednn>},
    {"matrix products",
     [](const Call& c) -> const char* {
       return c.r.outputs[0].dtype != DType::kFloat32 ? "it is not float32" : nullptr;
     },
     MakeGemm, Estimate<ConvolutionWay::kProducts>},
};

// Returns the same convolution in the dims for which there is faster code; null if they are those of the request. Spatial
// dims in which nothing happens, one element and one tap that meets it, are dropped: a kernel of k by 1 on a column is
// one of k on a line. A kernel of k by 1 on narrow images runs along the rows of the transposed images, because
// vectors of results lie along rows.
std::optional<LibraryRequest> InBetterDims(const LibraryRequest& r, const ConvParams& p) {
  constexpr int64_t kNarrow = 16;
  std::vector<int> kept;
  for (int d = 0; d < p.spatial; ++d) {
    const bool unit = r.inputs[0].sizes[2 + d] == 1 && r.inputs[1].sizes[2 + d] == 1 &&
                      r.outputs[0].sizes[2 + d] == 1 && p.padding[d] == 0;
    if (!unit || (d == p.spatial - 1 && kept.empty())) kept.push_back(d);
  }
  bool same = static_cast<int>(kept.size()) == p.spatial;
  if (kept.size() == 2 && !p.transposed && p.groups == 1) {
    const auto &kernel = r.inputs[1].sizes, &out = r.outputs[0].sizes;
    const int along = 2 + kept[0], across = 2 + kept[1];
    if (kernel[along] > 1 && kernel[across] == 1 && out[across] < kNarrow && out[along] >= 2 * out[across]) {
      std::swap(kept[0], kept[1]);
      same = false;
    }
  }
  if (same) return std::nullopt;
  LibraryRequest less = r;
  for (OperandShape* o : {&less.inputs[0], &less.inputs[1], &less.outputs[0]}) {
    const OperandShape whole = *o;
    o->sizes.resize(2 + kept.size());
    o->strides.resize(2 + kept.size());
    for (size_t k = 0; k < kept.size(); ++k) {
      o->sizes[2 + k] = whole.sizes[2 + kept[k]];
      o->strides[2 + k] = whole.strides[2 + kept[k]];
    }
  }
  less.ints.clear();
  const auto add = [&](const std::vector<int64_t>& of_dims) {
    for (int d : kept) less.ints.push_back(of_dims[d]);
  };
  add(p.stride);
  add(p.padding);
  add(p.dilation);
  less.ints.push_back(p.transposed);
  add(p.output_padding);
  less.ints.push_back(p.groups);
  return less;
}

// Returns null if none of kDirect computes `inner`, which is the request in another dtype or layout.
MakeResult MakeConverted(const Call& c, LibraryRequest inner) {
  MakeResult op = MakeCheapest<Call>(kDirect, {inner, c.p, c.packed}, "");
  if (absl::IsUnimplemented(op.status())) return std::unique_ptr<PreparedOp>();
  if (!op.ok()) return op;
  std::string chosen = (*op)->implementation();
  auto converted = std::make_unique<ConvertedOp>(c.r, std::move(inner), *std::move(op));
  converted->set_implementation(std::move(chosen));
  return std::unique_ptr<PreparedOp>(std::move(converted));
}

// Returns the time of the copies and of the cheapest way behind them.
double EstimateConverted(const Call& c, const LibraryRequest& inner) {
  std::string passed_over;
  const std::vector<Estimated<Call>> ways = ByEstimate<Call>(kDirect, {inner, c.p, c.packed}, passed_over);
  return EstimateCopies(c.r, inner) + (ways.empty() ? 0 : ways[0].nanoseconds);
}

const char* WhyNotConverted(const Call& c, LibraryRequest inner, const char* is_same) {
  if (!IsFloating(c.r.outputs[0].dtype)) return "it is not floating point";
  for (size_t i = 0; i < inner.inputs.size(); ++i) inner.inputs[i].constant = c.r.inputs[i].constant;
  return inner == c.r ? is_same : nullptr;
}

constexpr Convolution kConvolutions[] = {
    kDirect[0],
    kDirect[1],
    kDirect[2],
    kDirect[3],
    {"sums of float64", [](const Call& c) { return WhyNotSums(c, DType::kFloat64); }, MakeGrouped,
     Estimate<ConvolutionWay::kSums>},
    {"matrix products of float64",
     [](const Call& c) -> const char* {
       return c.r.outputs[0].dtype != DType::kFloat64 ? "it is not float64" : nullptr;
     },
     MakeGemm, Estimate<ConvolutionWay::kProducts>},
    {"dense copies",
     [](const Call& c) { return WhyNotConverted(c, ConvertedOp::Spread(c.r), "no operand is expanded"); },
     [](const Call& c) { return MakeConverted(c, ConvertedOp::Spread(c.r)); },
     [](const Call& c) { return EstimateConverted(c, ConvertedOp::Spread(c.r)); }},
    {"copies in float32",
     [](const Call& c) { return WhyNotConverted(c, ConvertedOp::Inner(c.r), "the operands are dense float32"); },
     [](const Call& c) { return MakeConverted(c, ConvertedOp::Inner(c.r)); },
     [](const Call& c) { return EstimateConverted(c, ConvertedOp::Inner(c.r)); }},
    {"loops", [](const Call&) -> const char* { return nullptr; },
     [](const Call& c) -> MakeResult { return std::make_unique<NaiveConvolution>(c.r, c.p); },
     Estimate<ConvolutionWay::kLoops>},
};

class NothingToDo : public PreparedOp {
 public:
  absl::Status Run(const LibraryContext&, absl::Span<char* const>, absl::Span<char* const>) const override {
    return absl::OkStatus();
  }
};

}  // namespace

MakeResult MakeConvolution(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, -1));
  SMELT_RETURN_IF_ERROR(SameRealDTypes(r));
  // Without input channels PyTorch makes no output channels, whatever the weight says.
  if (r.outputs[0].NumElements() == 0 && r.inputs[0].NumElements() == 0)
    return std::unique_ptr<PreparedOp>(new NothingToDo());
  SMELT_ASSIGN_OR_RETURN(ConvParams p, ParseConvParams(r, r.inputs[0], r.inputs[1], r.outputs[0]));
  if (r.inputs.size() > 2 && r.inputs[2].present &&
      (r.inputs[2].rank() != 1 || r.inputs[2].sizes[0] != r.outputs[0].sizes[1])) {
    return absl::InvalidArgumentError(absl::StrCat("convolution: the bias ", Show(r.inputs[2]), " does not fit"));
  }
  if (r.outputs[0].NumElements() == 0) return std::unique_ptr<PreparedOp>(new NothingToDo());
  if (r.inputs[0].NumElements() == 0 || r.inputs[1].NumElements() == 0) {
    return std::unique_ptr<PreparedOp>(new NaiveConvolution(r, std::move(p)));
  }
  if (const std::optional<LibraryRequest> less = InBetterDims(r, p)) return MakeConvolution(*less, packed);
  return MakeCheapest<Call>(kConvolutions, {r, p, packed}, "convolution");
}

absl::StatusOr<std::vector<MadeConvolution>> MakeAllConvolutions(const LibraryRequest& r, PackedWeights* packed) {
  for (const OperandShape& o : {r.inputs[0], r.inputs[1], r.outputs[0]}) {
    if (o.NumElements() == 0) return absl::InvalidArgumentError("there is no choice: an operand is empty");
  }
  SMELT_ASSIGN_OR_RETURN(const ConvParams p, ParseConvParams(r, r.inputs[0], r.inputs[1], r.outputs[0]));
  if (const std::optional<LibraryRequest> less = InBetterDims(r, p)) return MakeAllConvolutions(*less, packed);
  const Call call{r, p, packed};
  std::vector<MadeConvolution> all;
  std::string passed_over;
  for (const Estimated<Call>& way : ByEstimate<Call>(kConvolutions, call, passed_over)) {
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<PreparedOp> op, way.way->make(call));
    if (op != nullptr) all.push_back({way.way->name, way.nanoseconds, std::move(op)});
  }
  return all;
}

}  // namespace smelt::library_internal
