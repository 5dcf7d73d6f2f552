#include "smelt/runtime/library/dnnl_convolution.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/dnnl_exec.h"
#include "smelt/runtime/library/relayout.h"

namespace smelt::library_internal {

std::vector<int64_t> DnnlDilation(const ConvParams& p) {
  std::vector<int64_t> out = p.dilation;
  for (int64_t& d : out) --d;
  return out;
}

dnnl::memory::desc DescOf(const OperandShape& o) { return dnnl::memory::desc(o.sizes, DnnlType(o.dtype), o.strides); }

bool HasZeroStride(const OperandShape& o) {
  for (int d = 0; d < o.rank(); ++d) {
    if (o.sizes[d] > 1 && o.strides[d] == 0) return true;
  }
  return false;
}

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

namespace {

using dnnl::memory;

// A convolution over one dim, as one over images of a single row.
ConvParams InTwoDims(ConvParams p) {
  p.spatial = 2;
  p.stride.insert(p.stride.begin(), 1);
  p.dilation.insert(p.dilation.begin(), 1);
  for (auto* none : {&p.padding, &p.output_padding}) none->insert(none->begin(), 0);
  return p;
}
LibraryRequest InTwoDims(LibraryRequest r) {
  for (OperandShape* o : {&r.inputs[0], &r.inputs[1], &r.outputs[0]}) {
    o->sizes.insert(o->sizes.begin() + 2, 1);
    o->strides.insert(o->strides.begin() + 2, o->sizes[3] * o->strides[2]);
  }
  return r;
}

class DnnlConvolution : public PreparedOp {
 public:
  static std::unique_ptr<PreparedOp> Make(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed) {
    // oneDNN has fast code for separate channels in two dims only.
    if (p.spatial == 1 && p.groups > 1) return Make(InTwoDims(r), InTwoDims(p), packed);
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
    auto made = TryMakeDnnl([&] { return op->Plan(p, packed); });
    if (!made || !*made) return nullptr;
    op->TellOfSlices();
    return op;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int item = ItemSize(out_.dtype);
    std::atomic<bool> failed = false;
    const char* weights = packed_ != nullptr ? packed_.get() : inputs[1];
    if (packed_ == nullptr && reorder_weights_ != nullptr) {
      // Before the slices: once per run, not once per slice. All of them read this thread's scratch.
      char* to = Scratch::Get(ScratchUse::kWeights, weights_bytes_);
      if (!reorder_weights_->Run(weights, to)) return absl::ResourceExhaustedError("convolution: the library failed");
      weights = to;
    }
    const auto run = [&](const Slice& s) {
      const Primitive& p = primitives_[s.primitive];
      char* in = inputs[0] + (s.n0 * in_.strides[0] + s.in_row * in_.strides[2]) * item;
      char* out = outputs[0] + (s.n0 * out_.strides[0] + s.out_row * out_.strides[2]) * item;
      void* src = in;
      bool ok = true;
      if (p.reorder_in != nullptr) {
        src = Scratch::Get(ScratchUse::kSource, p.reorder_in->to_bytes());
        ok = p.reorder_in->Run(in, src);
      }
      void* dst = p.reorder_out != nullptr ? Scratch::Get(ScratchUse::kDestination, p.reorder_out->from_bytes()) : out;
      void* handles[] = {src, const_cast<char*>(weights), dst, has_bias_ ? inputs[2] : nullptr};
      ok = ok && p.exec->Run(absl::MakeSpan(handles, has_bias_ ? 4 : 3));
      if (ok && p.reorder_out != nullptr) ok = p.reorder_out->Run(dst, out);
      if (!ok) failed.store(true, std::memory_order_relaxed);
    };
    const int64_t count = static_cast<int64_t>(slices_.size());
    context.For(count / slices_a_task_, [&](int64_t task) {
      const Slice &first = slices_[task * slices_a_task_], &last = slices_[(task + 1) * slices_a_task_ - 1];
      for (const Slice* s = &first; s <= &last; ++s) run(*s);
      if (part_unit_ == 0 || context.listener == nullptr || failed.load(std::memory_order_relaxed)) return;
      const Extent& x = primitives_[last.primitive].extent;
      const auto row = [&](int64_t r) { return r == out_.sizes[2] ? image_ : r * out_.strides[2]; };
      context.listener->OnPart(first.n0 * image_ + row(first.out_row),
                               (last.n0 + x.n - 1) * image_ + row(last.out_row + x.out_rows));
    });
    return failed ? absl::ResourceExhaustedError("convolution: the library failed") : absl::OkStatus();
  }
  int64_t PartUnit() const override { return part_unit_; }

 private:
  // The work of a slice: images, rows (the outermost spatial dim) of the result, rows of the source that they read, and
  // rows of padding around those.
  struct Extent {
    int64_t n, out_rows, in_rows, pad_before, pad_after;
    bool operator==(const Extent& o) const {
      return n == o.n && out_rows == o.out_rows && in_rows == o.in_rows && pad_before == o.pad_before &&
             pad_after == o.pad_after;
    }
  };
  struct Primitive {
    Extent extent;
    std::unique_ptr<DnnlExec> exec;
    std::unique_ptr<Relayout> reorder_in, reorder_out;  // null where the layouts agree
  };
  struct Slice {
    int64_t n0, in_row, out_row;
    int primitive;
  };

  // Slices of a dense result are contiguous if they are images, or bands of rows of channels-last images. The bands of
  // a planar image are one task if there are enough images for all threads.
  void TellOfSlices() {
    constexpr int64_t kManyImages = 16;
    const int64_t batch = out_.sizes[0];
    image_ = Span(out_);
    if (out_.NumElements() != batch * image_ || (batch > 1 && out_.strides[0] != image_)) return;
    if (primitives_[0].extent.out_rows == out_.sizes[2]) {
      part_unit_ = image_;
    } else if (out_.strides[2] * out_.sizes[2] == image_) {
      part_unit_ = out_.strides[2];
    } else if (batch >= kManyImages) {
      part_unit_ = image_;
      slices_a_task_ = static_cast<int64_t>(slices_.size()) / batch;
    }
  }

  int64_t Kernel(const ConvParams& p, int dim) const {
    return weight_.sizes[weight_.sizes.size() - static_cast<size_t>(p.spatial) + dim];
  }
  // The number of source rows that one row of the result reads, including those that dilation skips.
  int64_t Reach(const ConvParams& p, int dim) const { return (Kernel(p, dim) - 1) * p.dilation[dim] + 1; }
  // The number of elements from the first of an image to behind its last.
  static int64_t Span(const OperandShape& o) {
    int64_t span = 1;
    for (int d = 1; d < o.rank(); ++d) span = std::max(span, o.strides[d] * o.sizes[d]);
    return span;
  }
  // The way in which the batch and the images are cut: images per slice, rows of the result per slice.
  struct Cut {
    int64_t images, rows;
  };

  // Returns the cuts to try, best first. All slices of the last one are alike.
  std::vector<Cut> Cuts(const ConvParams& p) const {
    const int64_t batch = in_.sizes[0], rows = out_.sizes[2];
    // The cut of an image follows its work alone, not the number of images: the primitives, which take longer to make
    // than to run, then serve every batch.
    double work = static_cast<double>(out_.NumElements());
    for (size_t d = weight_.sizes.size() - static_cast<size_t>(p.spatial) - 1; d < weight_.sizes.size(); ++d) {
      work *= static_cast<double>(weight_.sizes[d]);
    }
    if (p.transposed) {
      work = static_cast<double>(in_.NumElements()) * static_cast<double>(weight_.NumElements()) /
             std::max<double>(1, static_cast<double>(in_.sizes[1]));
    }
    work /= static_cast<double>(batch);
    // A band has about 8 million multiplications. Images of fewer than a million would run as long as a call takes.
    constexpr double kBand = 8e6, kImages = 1e6;
    const int64_t bands = std::clamp<int64_t>(static_cast<int64_t>(work / kBand), 1, 32);
    int64_t images = 1;
    while (static_cast<double>(images) * work < kImages && images < batch) images *= 2;
    images = std::min(images, batch);
    std::vector<Cut> cuts;
    if (bands >= 2 && CanBeBands(p)) {
      // Two bands both read at most half of the rows that one owns.
      const int64_t reach = Reach(p, 0), stride = p.stride[0], least = std::max(reach, 2 * (reach - stride));
      const int64_t band = std::max((rows + bands - 1) / bands, (least + stride - 1) / stride);
      // Bands of one size need one primitive, and one layout of the weights suits them all.
      int64_t equal = band;
      while (equal < rows && rows % equal != 0) ++equal;
      if (equal <= 2 * band && equal < rows) cuts.push_back({1, equal});
      if (band < rows) cuts.push_back({1, band});
    }
    cuts.push_back({images, rows});
    cuts.push_back({1, rows});
    return cuts;
  }
  // Returns whether every band, with at least as many rows as one row reads, finds some of them in the source.
  bool CanBeBands(const ConvParams& p) const {
    const int64_t reach = Reach(p, 0), after = PaddingAfter(p, 0);
    return !p.transposed && p.padding[0] < reach && after >= 0 && after < reach && in_.sizes[2] >= reach;
  }

  int64_t PaddingAfter(const ConvParams& p, int dim) const {
    return library_internal::PaddingAfter(p, dim, Kernel(p, dim), in_.sizes[2 + dim], out_.sizes[2 + dim]);
  }

  bool Plan(const ConvParams& p, PackedWeights* packed) {
    // oneDNN has fast code for few layouts of the weights. The layout that the first slice chose may leave another,
    // smaller slice with loops that are a hundred times slower. Such a cut is not taken. Slices that are all alike are
    // always accepted.
    const std::vector<Cut> cuts = Cuts(p);
    memory::desc weights;
    for (size_t i = 0; i < cuts.size(); ++i) {
      if (PlanSlices(p, cuts[i], /*any_code=*/i + 1 == cuts.size(), &weights)) return PackWeights(weights, packed);
    }
    return false;
  }

  // False if a slice would run oneDNN's reference code, unless `any_code` may run.
  bool PlanSlices(const ConvParams& p, const Cut& cut, bool any_code, memory::desc* weights) {
    primitives_.clear();
    slices_.clear();
    const int64_t batch = in_.sizes[0], rows = out_.sizes[2], in_rows = in_.sizes[2];
    for (int64_t n0 = 0; n0 < batch; n0 += cut.images) {
      for (int64_t out_row = 0; out_row < rows; out_row += cut.rows) {
        Extent x{std::min(cut.images, batch - n0), std::min(cut.rows, rows - out_row), in_rows, p.padding[0],
                 PaddingAfter(p, 0)};
        int64_t in_row = 0;
        if (cut.rows < rows) {
          const int64_t first = out_row * p.stride[0] - p.padding[0];
          const int64_t last = first + (x.out_rows - 1) * p.stride[0] + Reach(p, 0);
          in_row = std::max<int64_t>(first, 0);
          x.in_rows = std::min(last, in_rows) - in_row;
          x.pad_before = in_row - first;
          x.pad_after = std::max<int64_t>(last - in_rows, 0);
        }
        size_t index = 0;
        while (index < primitives_.size() && !(primitives_[index].extent == x)) ++index;
        if (index == primitives_.size() &&
            !(p.transposed ? AddPrimitive<dnnl::deconvolution_forward>(p, x, dnnl::algorithm::deconvolution_direct,
                                                                       any_code, weights)
                           : AddPrimitive<dnnl::convolution_forward>(p, x, dnnl::algorithm::convolution_direct,
                                                                     any_code, weights))) {
          return false;
        }
        slices_.push_back({n0, in_row, out_row, static_cast<int>(index)});
      }
    }
    return true;
  }

  // The first primitive chooses the layout of the weights. Returns false if there is only reference code and that is
  // not allowed.
  template <typename Forward>
  bool AddPrimitive(const ConvParams& p, const Extent& x, dnnl::algorithm algorithm, bool any_code,
                    memory::desc* weights) {
    const DType t = out_.dtype;
    OperandShape in = in_, out = out_;
    in.sizes[0] = out.sizes[0] = x.n;
    in.sizes[2] = x.in_rows;
    out.sizes[2] = x.out_rows;
    if (x.n == 1) {
      // There is no step from image to image: it is as oneDNN expects it.
      in.strides[0] = Span(in);
      out.strides[0] = Span(out);
    }
    const memory::dims dilates = DnnlDilation(p);
    memory::dims before = p.padding, after;
    for (int i = 0; i < p.spatial; ++i) after.push_back(PaddingAfter(p, i));
    before[0] = x.pad_before;
    after[0] = x.pad_after;
    const auto any = memory::format_tag::any;
    const memory::desc src(in.sizes, DnnlType(t), any), dst(out.sizes, DnnlType(t), any);
    const memory::desc bias({out.sizes[1]}, DnnlType(t), memory::format_tag::a);
    if (primitives_.empty()) *weights = memory::desc(weight_.sizes, DnnlType(t), any);
    const auto kind = dnnl::prop_kind::forward_inference;
    const typename Forward::desc d =
        has_bias_ ? typename Forward::desc(kind, algorithm, src, *weights, bias, dst, p.stride, dilates, before, after)
                  : typename Forward::desc(kind, algorithm, src, *weights, dst, p.stride, dilates, before, after);
    const typename Forward::primitive_desc pd(d, UserScratchpad(), CpuEngine());
    if (!any_code && absl::StartsWith(pd.impl_info_str(), "ref")) return false;
    *weights = pd.weights_desc();
    std::vector<DnnlExec::Arg> args = {
        {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, *weights}, {DNNL_ARG_DST, pd.dst_desc()}};
    if (has_bias_) args.push_back({DNNL_ARG_BIAS, bias});
    Primitive made{x, std::make_unique<DnnlExec>(Forward(pd), std::move(args), pd.scratchpad_desc())};
    made.reorder_in = Relayout::Make(DescOf(in), pd.src_desc());
    made.reorder_out = Relayout::Make(pd.dst_desc(), DescOf(out));
    primitives_.push_back(std::move(made));
    return true;
  }

  bool PackWeights(const memory::desc& chosen, PackedWeights* packed) {
    reorder_weights_ = Relayout::Make(DescOf(weight_), chosen);
    if (reorder_weights_ == nullptr) return true;
    weights_bytes_ = reorder_weights_->to_bytes();
    if (weight_.constant == nullptr) return true;
    auto made = packed->Get(
        PackedWeights::SourceOf(weight_.constant, weight_.sizes, weight_.strides, ItemSize(weight_.dtype)),
        absl::StrCat(Name(weight_.dtype), " ", LayoutName(DescOf(weight_)), " as ", LayoutName(chosen)), weights_bytes_,
        [&](char* to) {
          return reorder_weights_->Run(weight_.constant, to) ? absl::OkStatus()
                                                             : absl::InternalError("oneDNN cannot pack a weight");
        });
    if (!made.ok()) return false;
    packed_ = *std::move(made);
    return true;
  }

  OperandShape in_, out_, weight_;
  bool has_bias_ = false;
  int64_t part_unit_ = 0, image_ = 0;  // elements
  int64_t slices_a_task_ = 1;
  std::vector<Primitive> primitives_;
  std::vector<Slice> slices_;
  std::unique_ptr<Relayout> reorder_weights_;
  std::shared_ptr<const char> packed_;
  int64_t weights_bytes_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOp> MakeDnnlConvolution(const LibraryRequest& r, const ConvParams& p, PackedWeights* packed) {
  return DnnlConvolution::Make(r, p, packed);
}

}  // namespace smelt::library_internal
