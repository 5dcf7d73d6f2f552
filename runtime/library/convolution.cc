// "convolution" (also transposed) and "convolution_backward" in 1 to 3 spatial dims, any memory format.
//
// oneDNN chooses the layouts it computes in; sources and results are reordered on the way, a constant weight once. The
// batch is cut into slices by sizes alone, and images into bands of rows where there are too few of them; each slice is
// computed on one thread. What oneDNN does not have (float64, integers, odd paddings) is computed by plain loops.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/dnnl_exec.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {
namespace {

using dnnl::memory;

struct ConvParams {
  int spatial = 0;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

std::string Show(const OperandShape& o) { return absl::StrCat("[", absl::StrJoin(o.sizes, ", "), "]"); }

absl::StatusOr<ConvParams> ParseParams(const LibraryRequest& r, const OperandShape& input, const OperandShape& weight,
                                       const OperandShape& output) {
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
  if (p.groups < 1 || p.groups > input.sizes[1]) return bad("groups must be between 1 and the channels");
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
    // Of a transposed one several sizes are possible: the output's says which.
    const int64_t expected = (in + 2 * p.padding[i] - k) / p.stride[i] + 1;
    if (in + 2 * p.padding[i] < k || (p.transposed ? expected < out : expected != out)) {
      return bad(absl::StrCat("spatial dim ", i, " does not fit"));
    }
  }
  return p;
}

// A tensor as oneDNN may be told it lies: no dim of several elements on one address.
bool HasZeroStride(const OperandShape& o) {
  for (int d = 0; d < o.rank(); ++d) {
    if (o.sizes[d] > 1 && o.strides[d] == 0) return true;
  }
  return false;
}

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * std::max<int64_t>(sizes[d + 1], 1);
  return strides;
}

memory::desc DescOf(const OperandShape& o, DType t) { return memory::desc(o.sizes, DnnlType(t), o.strides); }

// The weight with its groups as a dim of their own, and for a transposed convolution output channels before input
// channels.
OperandShape GroupedWeight(const OperandShape& w, const ConvParams& p) {
  OperandShape g = w;
  g.sizes.clear();
  g.strides.clear();
  if (!p.transposed) {
    if (p.groups > 1)
      g.sizes = {p.groups, w.sizes[0] / p.groups}, g.strides = {w.sizes[0] / p.groups * w.strides[0], w.strides[0]};
    else
      g.sizes = {w.sizes[0]}, g.strides = {w.strides[0]};
    g.sizes.push_back(w.sizes[1]);
    g.strides.push_back(w.strides[1]);
  } else {
    const int64_t in = w.sizes[0] / p.groups;
    if (p.groups > 1)
      g.sizes = {p.groups, w.sizes[1], in}, g.strides = {in * w.strides[0], w.strides[1], w.strides[0]};
    else
      g.sizes = {w.sizes[1], in}, g.strides = {w.strides[1], w.strides[0]};
  }
  for (int d = 2; d < w.rank(); ++d) {
    g.sizes.push_back(w.sizes[d]);
    g.strides.push_back(w.strides[d]);
  }
  return g;
}

// --- plain loops, any real dtype ---

// out[n, oc, o..] = bias[oc] + sum of in[n, ic, i..] * w: the transposed form scatters, which here is a gather over the
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
      for (int d = 0; d < s; ++d) k[d] = 0;
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t in_at = 0, w_at = 0;
        bool inside = true;
        for (int d = 0; d < s; ++d) {
          int64_t i;
          if (!p_.transposed) {
            i = o[d] * p_.stride[d] - p_.padding[d] + k[d] * p_.dilation[d];
          } else {
            i = o[d] + p_.padding[d] - k[d] * p_.dilation[d];
            if (i % p_.stride[d] != 0) inside = false;
            i /= p_.stride[d];
          }
          if (i < 0 || i >= in_.sizes[2 + d]) inside = false;
          in_at += i * in_.strides[2 + d];
          w_at += k[d] * w_.strides[2 + d];
        }
        if (inside) {
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
        for (int d = s - 1; d >= 0; --d) {
          if (++k[d] < w_.sizes[2 + d]) break;
          k[d] = 0;
        }
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
      for (int d = s - 1; d >= 0; --d) {
        if (++o[d] < out_.sizes[2 + d]) break;
        o[d] = 0;
      }
    }
  }

  ConvParams p_;
  OperandShape in_, w_, out_, bias_;
};

// --- oneDNN ---

class DnnlConvolution : public PreparedOp {
 public:
  // Null if oneDNN cannot do it.
  static std::unique_ptr<PreparedOp> Make(const LibraryRequest& r, const ConvParams& p, int64_t* packed_bytes) {
    const DType t = r.outputs[0].dtype;
    if (t != DType::kFloat32 && !(t == DType::kBFloat16 && CpuHas("avx512bw") && CpuHas("avx512vl"))) return nullptr;
    if (HasZeroStride(r.inputs[0]) || HasZeroStride(r.inputs[1])) return nullptr;
    auto op = std::unique_ptr<DnnlConvolution>(new DnnlConvolution());
    op->in_ = r.inputs[0];
    op->out_ = r.outputs[0];
    op->weight_ = GroupedWeight(r.inputs[1], p);
    op->has_bias_ = r.inputs.size() > 2 && r.inputs[2].present;
    if (op->has_bias_ && r.inputs[2].strides[0] != 1 && r.inputs[2].sizes[0] != 1) return nullptr;
    OneOmpThread one;
    auto made = TryDnnl([&] { return op->Plan(p, packed_bytes); });
    if (!made || !*made) return nullptr;
    return op;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int item = ItemSize(out_.dtype);
    const int64_t count = static_cast<int64_t>(slices_.size());
    std::atomic<bool> failed = false;
    const char* weights = packed_ != nullptr ? packed_.get() : inputs[1];
    if (packed_ == nullptr && reorder_weights_ != nullptr) {
      // Before the slices: once a run, not once a slice. This thread's scratch is read by all of them.
      char* to = Scratch::Get(ScratchUse::kWeights, weights_bytes_);
      void* handles[] = {const_cast<char*>(weights), to};
      if (!reorder_weights_->Run(handles)) return absl::ResourceExhaustedError("convolution: the library failed");
      weights = to;
    }
    context.For(count, [&](int64_t i) {
      const Slice& s = slices_[i];
      const Primitive& p = primitives_[s.primitive];
      char* in = inputs[0] + (s.n0 * in_.strides[0] + s.in_row * in_.strides[2]) * item;
      char* out = outputs[0] + (s.n0 * out_.strides[0] + s.out_row * out_.strides[2]) * item;
      void* src = in;
      bool ok = true;
      if (p.reorder_in != nullptr) {
        src = Scratch::Get(ScratchUse::kSource, p.in_bytes);
        void* handles[] = {in, src};
        ok = p.reorder_in->Run(handles);
      }
      void* dst = p.reorder_out != nullptr ? Scratch::Get(ScratchUse::kDestination, p.out_bytes) : out;
      void* handles[] = {src, const_cast<char*>(weights), dst, has_bias_ ? inputs[2] : nullptr};
      ok = ok && p.exec->Run(absl::MakeSpan(handles, has_bias_ ? 4 : 3));
      if (ok && p.reorder_out != nullptr) {
        void* back[] = {dst, out};
        ok = p.reorder_out->Run(back);
      }
      if (!ok) failed.store(true, std::memory_order_relaxed);
    });
    return failed ? absl::ResourceExhaustedError("convolution: the library failed") : absl::OkStatus();
  }

 private:
  // What a slice computes: images, rows (the outermost spatial dim) of the result, rows of the source that they read,
  // and rows of padding around those.
  struct Extent {
    int64_t n, out_rows, in_rows, pad_before, pad_after;
    bool operator==(const Extent& o) const {
      return n == o.n && out_rows == o.out_rows && in_rows == o.in_rows && pad_before == o.pad_before &&
             pad_after == o.pad_after;
    }
  };
  struct Primitive {
    Extent extent;
    std::unique_ptr<DnnlExec> exec, reorder_in, reorder_out;  // reorders: null where the layouts agree
    int64_t in_bytes = 0, out_bytes = 0;
  };
  struct Slice {
    int64_t n0, in_row, out_row;
    int primitive;
  };

  static std::unique_ptr<DnnlExec> Reorder(const memory::desc& from, const memory::desc& to) {
    const dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to, UserScratchpad());
    return std::make_unique<DnnlExec>(
        dnnl::reorder(pd), std::vector<DnnlExec::Arg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, pd.scratchpad_desc());
  }

  // How many rows of the source one row of the result reads, those that dilation passes over included.
  int64_t Reach(const ConvParams& p, int dim) const {
    return (weight_.sizes[weight_.sizes.size() - static_cast<size_t>(p.spatial) + dim] - 1) * p.dilation[dim] + 1;
  }
  // Elements from the first of an image to behind its last.
  static int64_t Span(const OperandShape& o) {
    int64_t span = 1;
    for (int d = 1; d < o.rank(); ++d) span = std::max(span, o.strides[d] * o.sizes[d]);
    return span;
  }
  // How many rows of the result a slice has, for `parts` slices or nearly.
  int64_t BandRows(const ConvParams& p, int64_t parts, int64_t pad_before, int64_t pad_after) const {
    const int64_t rows = out_.sizes[2], bands = parts / std::max<int64_t>(1, in_.sizes[0]);
    if (p.transposed || bands < 2 || rows < 2 || pad_after < 0) return rows;
    const int64_t band = (rows + bands - 1) / bands;
    // Each band reads some of the source itself, and not much more than it owns.
    const bool reads = pad_before < Reach(p, 0) && pad_after < Reach(p, 0) && in_.sizes[2] >= Reach(p, 0);
    return reads && band * p.stride[0] >= Reach(p, 0) ? band : rows;
  }

  bool Plan(const ConvParams& p, int64_t* packed_bytes) {
    const DType t = out_.dtype;
    // Slices by work: about 8 million multiplications, at most 32.
    double work = static_cast<double>(out_.NumElements());
    for (size_t d = weight_.sizes.size() - static_cast<size_t>(p.spatial) - 1; d < weight_.sizes.size(); ++d) {
      work *= static_cast<double>(weight_.sizes[d]);
    }
    if (p.transposed) {
      work = static_cast<double>(in_.NumElements()) * static_cast<double>(weight_.NumElements()) /
             std::max<double>(1, static_cast<double>(in_.sizes[1]));
    }
    const int64_t batch = in_.sizes[0];
    const int64_t parts = std::clamp<int64_t>(static_cast<int64_t>(work / 8e6), 1, 32);
    const int64_t step = std::max<int64_t>(1, (batch + parts - 1) / parts);
    memory::dims strides = p.stride, dilates, pad_l = p.padding, pad_r;
    for (int i = 0; i < p.spatial; ++i) {
      dilates.push_back(p.dilation[i] - 1);
      const int64_t k = Reach(p, i);
      const int64_t in = in_.sizes[2 + i], out = out_.sizes[2 + i];
      pad_r.push_back(p.transposed ? (in - 1) * p.stride[i] + k - p.padding[i] - out
                                   : (out - 1) * p.stride[i] + k - p.padding[i] - in);
    }
    const int64_t rows = out_.sizes[2], in_rows = in_.sizes[2];
    const int64_t band = BandRows(p, parts, pad_l[0], pad_r[0]);
    memory::desc chosen_weights;
    const int64_t bands = (rows + band - 1) / band;
    for (int64_t slice = 0; slice < (batch + step - 1) / step * bands; ++slice) {
      const int64_t n0 = slice / bands * step, out_row = slice % bands * band;
      Extent x{std::min(step, batch - n0), std::min(band, rows - out_row), in_rows, pad_l[0], pad_r[0]};
      int64_t in_row = 0;
      if (band < rows) {
        const int64_t first = out_row * p.stride[0] - p.padding[0];
        const int64_t last = first + (x.out_rows - 1) * p.stride[0] + Reach(p, 0);
        in_row = std::max<int64_t>(first, 0);
        x.in_rows = std::min(last, in_rows) - in_row;
        x.pad_before = in_row - first;
        x.pad_after = std::max<int64_t>(last - in_rows, 0);
      }
      int index = -1;
      for (size_t i = 0; i < primitives_.size(); ++i) {
        if (primitives_[i].extent == x) index = static_cast<int>(i);
      }
      if (index < 0) {
        OperandShape in = in_, out = out_;
        in.sizes[0] = out.sizes[0] = x.n;
        in.sizes[2] = x.in_rows;
        out.sizes[2] = x.out_rows;
        pad_l[0] = x.pad_before;
        pad_r[0] = x.pad_after;
        if (x.n == 1) {
          // No step from image to image: it is as oneDNN would have it.
          in.strides[0] = Span(in);
          out.strides[0] = Span(out);
        }
        const auto any = memory::format_tag::any;
        // Layouts are oneDNN's choice, but the weight's, once chosen, is every slice's.
        const memory::desc src(in.sizes, DnnlType(t), any), dst(out.sizes, DnnlType(t), any);
        const memory::desc weights =
            primitives_.empty() ? memory::desc(weight_.sizes, DnnlType(t), any) : chosen_weights;
        const memory::desc bias({out.sizes[1]}, DnnlType(t), memory::format_tag::a);
        Primitive made{x};
        memory::desc src_want, dst_want, scratch;
        dnnl::primitive primitive;
        if (p.transposed) {
          const auto alg = dnnl::algorithm::deconvolution_direct;
          const auto kind = dnnl::prop_kind::forward_inference;
          const auto d = has_bias_ ? dnnl::deconvolution_forward::desc(kind, alg, src, weights, bias, dst, strides,
                                                                       dilates, pad_l, pad_r)
                                   : dnnl::deconvolution_forward::desc(kind, alg, src, weights, dst, strides, dilates,
                                                                       pad_l, pad_r);
          const dnnl::deconvolution_forward::primitive_desc pd(d, UserScratchpad(), CpuEngine());
          src_want = pd.src_desc(), dst_want = pd.dst_desc(), chosen_weights = pd.weights_desc();
          scratch = pd.scratchpad_desc();
          primitive = dnnl::deconvolution_forward(pd);
        } else {
          const auto alg = dnnl::algorithm::convolution_direct;
          const auto kind = dnnl::prop_kind::forward_inference;
          const auto d =
              has_bias_
                  ? dnnl::convolution_forward::desc(kind, alg, src, weights, bias, dst, strides, dilates, pad_l, pad_r)
                  : dnnl::convolution_forward::desc(kind, alg, src, weights, dst, strides, dilates, pad_l, pad_r);
          const dnnl::convolution_forward::primitive_desc pd(d, UserScratchpad(), CpuEngine());
          src_want = pd.src_desc(), dst_want = pd.dst_desc(), chosen_weights = pd.weights_desc();
          scratch = pd.scratchpad_desc();
          primitive = dnnl::convolution_forward(pd);
        }
        std::vector<DnnlExec::Arg> args = {
            {DNNL_ARG_SRC, src_want}, {DNNL_ARG_WEIGHTS, chosen_weights}, {DNNL_ARG_DST, dst_want}};
        if (has_bias_) args.push_back({DNNL_ARG_BIAS, bias});
        made.exec = std::make_unique<DnnlExec>(primitive, std::move(args), scratch);
        const memory::desc in_desc = DescOf(in, t), out_desc = DescOf(out, t);
        if (in_desc != src_want) {
          made.reorder_in = Reorder(in_desc, src_want);
          made.in_bytes = static_cast<int64_t>(src_want.get_size());
        }
        if (out_desc != dst_want) {
          made.reorder_out = Reorder(dst_want, out_desc);
          made.out_bytes = static_cast<int64_t>(dst_want.get_size());
        }
        primitives_.push_back(std::move(made));
        index = static_cast<int>(primitives_.size()) - 1;
      }
      slices_.push_back({n0, in_row, out_row, index});
    }
    const memory::desc weight_desc = DescOf(weight_, t);
    if (weight_desc == chosen_weights) return true;
    weights_bytes_ = static_cast<int64_t>(chosen_weights.get_size());
    reorder_weights_ = Reorder(weight_desc, chosen_weights);
    if (weight_.constant == nullptr) return true;
    packed_ = AllocateAligned(weights_bytes_);
    if (packed_ == nullptr) return false;
    void* handles[] = {const_cast<char*>(weight_.constant), packed_.get()};
    if (!reorder_weights_->Run(handles)) return false;
    *packed_bytes += weights_bytes_;
    return true;
  }

  OperandShape in_, out_, weight_;
  bool has_bias_ = false;
  std::vector<Primitive> primitives_;
  std::vector<Slice> slices_;
  std::unique_ptr<DnnlExec> reorder_weights_;
  AlignedBuffer packed_;
  int64_t weights_bytes_ = 0;
};

// Another dtype or layout around an op: operands are converted to dense float32, results back. For float16, bfloat16
// without AVX-512, and expanded operands.
class ConvertedOp : public PreparedOp {
 public:
  ConvertedOp(LibraryRequest outer, LibraryRequest inner, std::unique_ptr<PreparedOp> op)
      : outer_(std::move(outer)), inner_(std::move(inner)), op_(std::move(op)) {}

  // The request with dense float32 operands.
  static LibraryRequest Inner(const LibraryRequest& r) {
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
    const auto place = [&](const OperandShape& o) {
      const int64_t at = total;
      if (o.present) total += (o.NumElements() * ItemSize(o.dtype) + 63) / 64 * 64;
      return at;
    };
    std::vector<int64_t> at;
    for (const OperandShape& o : inner_.inputs) at.push_back(place(o));
    for (const OperandShape& o : inner_.outputs) at.push_back(place(o));
    char* base = Scratch::Get(ScratchUse::kOther, total);
    std::vector<char*> in(inputs.size(), nullptr), out(outputs.size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inner_.inputs[i].present) continue;
      in[i] = base + at[i];
      const OperandShape &from = outer_.inputs[i], &to = inner_.inputs[i];
      char* p = in[i];
      ForEachElement({inputs[i], from.dtype, from.sizes, from.strides}, [&](const char* q) {
        StoreDouble(p, to.dtype, LoadDouble(q, from.dtype));
        p += ItemSize(to.dtype);
      });
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (inner_.outputs[i].present) out[i] = base + at[inputs.size() + i];
    }
    SMELT_RETURN_IF_ERROR(op_->Run(context, in, out));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!inner_.outputs[i].present) continue;
      const OperandShape &to = outer_.outputs[i], &from = inner_.outputs[i];
      const char* p = out[i];
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

class NothingToDo : public PreparedOp {
 public:
  absl::Status Run(const LibraryContext&, absl::Span<char* const>, absl::Span<char* const>) const override {
    return absl::OkStatus();
  }
};

absl::Status SameDTypes(const LibraryRequest& r) {
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

// --- backward ---

// grad_input of a convolution is the transposed convolution of grad_output with the same weight, and the reverse; so
// the forward code does it. grad_weight has a primitive of its own.
class ConvolutionBackward : public PreparedOp {
 public:
  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (grad_input_ != nullptr) {
      char* const in[] = {inputs[0], inputs[2], nullptr};
      SMELT_RETURN_IF_ERROR(grad_input_->Run(context, in, outputs.subspan(0, 1)));
    }
    if (grad_weight_ != nullptr) {
      char* const in[] = {inputs[0], inputs[1]};
      SMELT_RETURN_IF_ERROR(grad_weight_->Run(context, in, outputs.subspan(1, 1)));
    }
    if (has_bias_) {
      const int item = ItemSize(out_.dtype);
      int64_t rest = 1;
      for (int d = 2; d < out_.rank(); ++d) rest *= out_.sizes[d];
      OperandShape plane = out_;
      plane.sizes.erase(plane.sizes.begin() + 1);
      plane.strides.erase(plane.strides.begin() + 1);
      for (int64_t c = 0; c < out_.sizes[1]; ++c) {
        double sum = 0;
        ForEachElement({inputs[0] + c * out_.strides[1] * item, out_.dtype, plane.sizes, plane.strides},
                       [&](const char* p) { sum += LoadDouble(p, out_.dtype); });
        StoreDouble(outputs[2] + c * bias_stride_ * item, out_.dtype, sum);
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<PreparedOp> grad_input_, grad_weight_;
  bool has_bias_ = false;
  int64_t bias_stride_ = 1;
  OperandShape out_;
};

// inputs {grad_output, input} -> grad_weight, plain loops.
class NaiveGradWeight : public PreparedOp {
 public:
  NaiveGradWeight(OperandShape grad, OperandShape in, OperandShape w, ConvParams p)
      : grad_(std::move(grad)), in_(std::move(in)), w_(std::move(w)), p_(std::move(p)) {}
  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    // With "big" the side that is convolved over (the input, or for a transposed one the output).
    const OperandShape &big = p_.transposed ? grad_ : in_, &small = p_.transposed ? in_ : grad_;
    const char *big_data = inputs[p_.transposed ? 0 : 1], *small_data = inputs[p_.transposed ? 1 : 0];
    const int item = ItemSize(w_.dtype), s = p_.spatial;
    const int64_t big_per_group = big.sizes[1] / p_.groups, small_per_group = small.sizes[1] / p_.groups;
    int64_t taps = 1, points = 1;
    for (int d = 0; d < s; ++d) taps *= w_.sizes[2 + d], points *= small.sizes[2 + d];
    context.For(w_.sizes[0] * w_.sizes[1], [&](int64_t i) {
      const int64_t sc = i / w_.sizes[1], bc = sc / small_per_group * big_per_group + i % w_.sizes[1];
      int64_t k[3] = {};
      for (int64_t tap = 0; tap < taps; ++tap) {
        double sum = 0;
        for (int64_t n = 0; n < in_.sizes[0]; ++n) {
          int64_t o[3] = {};
          for (int64_t point = 0; point < points; ++point) {
            int64_t big_at = n * big.strides[0] + bc * big.strides[1],
                    small_at = n * small.strides[0] + sc * small.strides[1];
            bool inside = true;
            for (int d = 0; d < s; ++d) {
              const int64_t x = o[d] * p_.stride[d] - p_.padding[d] + k[d] * p_.dilation[d];
              if (x < 0 || x >= big.sizes[2 + d]) inside = false;
              big_at += x * big.strides[2 + d];
              small_at += o[d] * small.strides[2 + d];
            }
            if (inside) {
              sum +=
                  LoadDouble(big_data + big_at * item, w_.dtype) * LoadDouble(small_data + small_at * item, w_.dtype);
            }
            for (int d = s - 1; d >= 0; --d) {
              if (++o[d] < small.sizes[2 + d]) break;
              o[d] = 0;
            }
          }
        }
        int64_t at = sc * w_.strides[0] + i % w_.sizes[1] * w_.strides[1];
        for (int d = 0; d < s; ++d) at += k[d] * w_.strides[2 + d];
        StoreDouble(outputs[0] + at * item, w_.dtype, sum);
        for (int d = s - 1; d >= 0; --d) {
          if (++k[d] < w_.sizes[2 + d]) break;
          k[d] = 0;
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  OperandShape grad_, in_, w_;
  ConvParams p_;
};

// The same by oneDNN, one thread: cutting the batch would change the sum.
class DnnlGradWeight : public PreparedOp {
 public:
  static std::unique_ptr<PreparedOp> Make(const OperandShape& grad, const OperandShape& in, const OperandShape& w,
                                          const ConvParams& p) {
    if (w.dtype != DType::kFloat32 || p.transposed || HasZeroStride(grad) || HasZeroStride(in)) return nullptr;
    OneOmpThread one;
    auto made = TryDnnl([&] {
      auto op = std::make_unique<DnnlGradWeight>();
      const OperandShape grouped = GroupedWeight(w, p);
      memory::dims strides = p.stride, dilates, pad_l = p.padding, pad_r;
      for (int i = 0; i < p.spatial; ++i) {
        dilates.push_back(p.dilation[i] - 1);
        pad_r.push_back((grad.sizes[2 + i] - 1) * p.stride[i] + (w.sizes[2 + i] - 1) * p.dilation[i] + 1 -
                        p.padding[i] - in.sizes[2 + i]);
      }
      const auto any = memory::format_tag::any;
      const auto f32 = memory::data_type::f32;
      const memory::desc src(in.sizes, f32, any), dst(grad.sizes, f32, any), weights(grouped.sizes, f32, any);
      const auto alg = dnnl::algorithm::convolution_direct;
      const dnnl::convolution_forward::primitive_desc hint(
          dnnl::convolution_forward::desc(dnnl::prop_kind::forward_training, alg, src, weights, dst, strides, dilates,
                                          pad_l, pad_r),
          UserScratchpad(), CpuEngine());
      const dnnl::convolution_backward_weights::primitive_desc pd(
          dnnl::convolution_backward_weights::desc(alg, src, weights, dst, strides, dilates, pad_l, pad_r),
          UserScratchpad(), CpuEngine(), hint);
      const auto reorder = [](const memory::desc& from, const memory::desc& to) -> std::unique_ptr<DnnlExec> {
        if (from == to) return nullptr;
        const dnnl::reorder::primitive_desc r(CpuEngine(), from, CpuEngine(), to, UserScratchpad());
        return std::make_unique<DnnlExec>(dnnl::reorder(r),
                                          std::vector<DnnlExec::Arg>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                                          r.scratchpad_desc());
      };
      op->reorder_grad_ = reorder(DescOf(grad, grad.dtype), pd.diff_dst_desc());
      op->reorder_in_ = reorder(DescOf(in, in.dtype), pd.src_desc());
      op->reorder_out_ = reorder(pd.diff_weights_desc(), DescOf(grouped, w.dtype));
      op->grad_bytes_ = static_cast<int64_t>(pd.diff_dst_desc().get_size());
      op->in_bytes_ = static_cast<int64_t>(pd.src_desc().get_size());
      op->out_bytes_ = static_cast<int64_t>(pd.diff_weights_desc().get_size());
      op->exec_ =
          std::make_unique<DnnlExec>(dnnl::convolution_backward_weights(pd),
                                     std::vector<DnnlExec::Arg>{{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                                {DNNL_ARG_SRC, pd.src_desc()},
                                                                {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}},
                                     pd.scratchpad_desc());
      return std::unique_ptr<PreparedOp>(std::move(op));
    });
    return made ? std::move(*made) : nullptr;
  }

  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    void* grad = inputs[0];
    void* in = inputs[1];
    void* out = outputs[0];
    bool ok = true;
    if (reorder_grad_ != nullptr) {
      void* handles[] = {grad, Scratch::Get(ScratchUse::kDestination, grad_bytes_)};
      ok = ok && reorder_grad_->Run(handles);
      grad = handles[1];
    }
    if (reorder_in_ != nullptr) {
      void* handles[] = {in, Scratch::Get(ScratchUse::kSource, in_bytes_)};
      ok = ok && reorder_in_->Run(handles);
      in = handles[1];
    }
    if (reorder_out_ != nullptr) out = Scratch::Get(ScratchUse::kWeights, out_bytes_);
    void* handles[] = {grad, in, out};
    ok = ok && exec_->Run(handles);
    if (reorder_out_ != nullptr) {
      void* back[] = {out, outputs[0]};
      ok = ok && reorder_out_->Run(back);
    }
    return ok ? absl::OkStatus() : absl::ResourceExhaustedError("convolution_backward: the library failed");
  }

 private:
  std::unique_ptr<DnnlExec> exec_, reorder_grad_, reorder_in_, reorder_out_;
  int64_t grad_bytes_ = 0, in_bytes_ = 0, out_bytes_ = 0;
};

}  // namespace

MakeResult MakeConvolution(const LibraryRequest& r, int64_t* packed_bytes) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, -1));
  SMELT_RETURN_IF_ERROR(SameDTypes(r));
  SMELT_ASSIGN_OR_RETURN(ConvParams p, ParseParams(r, r.inputs[0], r.inputs[1], r.outputs[0]));
  if (r.inputs.size() > 2 && r.inputs[2].present &&
      (r.inputs[2].rank() != 1 || r.inputs[2].sizes[0] != r.outputs[0].sizes[1])) {
    return absl::InvalidArgumentError(absl::StrCat("convolution: the bias ", Show(r.inputs[2]), " does not fit"));
  }
  if (r.outputs[0].NumElements() == 0) return std::unique_ptr<PreparedOp>(new NothingToDo());
  if (r.inputs[0].NumElements() == 0 || r.inputs[1].NumElements() == 0) {
    return std::unique_ptr<PreparedOp>(new NaiveConvolution(r, std::move(p)));
  }
  if (auto op = DnnlConvolution::Make(r, p, packed_bytes)) return op;
  const DType t = r.outputs[0].dtype;
  if (IsFloating(t) && t != DType::kFloat64) {
    LibraryRequest inner = ConvertedOp::Inner(r);
    if (auto op = DnnlConvolution::Make(inner, p, packed_bytes)) {
      return std::unique_ptr<PreparedOp>(new ConvertedOp(r, std::move(inner), std::move(op)));
    }
  }
  return std::unique_ptr<PreparedOp>(new NaiveConvolution(r, std::move(p)));
}

MakeResult MakeConvolutionBackward(const LibraryRequest& r, int64_t* packed_bytes) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 3, 0, 3, -1));
  SMELT_RETURN_IF_ERROR(SameDTypes(r));
  const OperandShape &grad = r.inputs[0], &in = r.inputs[1], &w = r.inputs[2];
  SMELT_ASSIGN_OR_RETURN(ConvParams p, ParseParams(r, in, w, grad));
  if (IsIntegral(grad.dtype)) return absl::UnimplementedError("convolution_backward of integers");
  auto op = std::make_unique<ConvolutionBackward>();
  op->out_ = grad;
  if (r.outputs.size() > 0 && r.outputs[0].present) {
    if (r.outputs[0].sizes != in.sizes)
      return absl::InvalidArgumentError("convolution_backward: grad_input does not fit");
    LibraryRequest inner;
    inner.op = "convolution";
    inner.inputs = {grad, w, {}};
    inner.outputs = {r.outputs[0]};
    inner.ints = r.ints;
    inner.ints[3 * p.spatial] = p.transposed ? 0 : 1;
    SMELT_ASSIGN_OR_RETURN(op->grad_input_, MakeConvolution(inner, packed_bytes));
  }
  if (r.outputs.size() > 1 && r.outputs[1].present) {
    if (r.outputs[1].sizes != w.sizes)
      return absl::InvalidArgumentError("convolution_backward: grad_weight does not fit");
    if (grad.NumElements() > 0 && in.NumElements() > 0 && w.NumElements() > 0) {
      op->grad_weight_ = DnnlGradWeight::Make(grad, in, r.outputs[1], p);
    }
    if (op->grad_weight_ == nullptr) op->grad_weight_ = std::make_unique<NaiveGradWeight>(grad, in, r.outputs[1], p);
  }
  if (r.outputs.size() > 2 && r.outputs[2].present) {
    if (r.outputs[2].rank() != 1 || r.outputs[2].sizes[0] != grad.sizes[1]) {
      return absl::InvalidArgumentError("convolution_backward: grad_bias does not fit");
    }
    op->has_bias_ = true;
    op->bias_stride_ = r.outputs[2].strides[0];
  }
  return std::unique_ptr<PreparedOp>(std::move(op));
}

}  // namespace smelt::library_internal
