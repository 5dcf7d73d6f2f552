#include "smelt/runtime/library/convolution_backward.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/convolution_rows.h"
#include "smelt/runtime/library/dnnl_convolution.h"
#include "smelt/runtime/library/dnnl_exec.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/relayout.h"

namespace smelt::library_internal {
namespace {

using dnnl::memory;

// grad_input of a convolution is the transposed convolution of grad_output with the same weight, and the reverse, so
// the forward code computes it. grad_weight has a primitive of its own.
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
    // "big" is the side that is convolved over (the input, or for a transposed convolution the output).
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
            NextPlace(s, &small.sizes[2], o);
          }
        }
        int64_t at = sc * w_.strides[0] + i % w_.sizes[1] * w_.strides[1];
        for (int d = 0; d < s; ++d) at += k[d] * w_.strides[2 + d];
        StoreDouble(outputs[0] + at * item, w_.dtype, sum);
        NextPlace(s, &w_.sizes[2], k);
      }
    });
    return absl::OkStatus();
  }

 private:
  OperandShape grad_, in_, w_;
  ConvParams p_;
};

// The same by matrix products: for some places at a time, the gradient's elements times what the taps read there. Their
// sums are added in float64. Each piece of work has some channels of the input.
class GemmGradWeight : public PreparedOp {
 public:
  // For float32 and float64.
  __attribute__((noinline)) GemmGradWeight(const OperandShape& grad, const OperandShape& in, const OperandShape& w,
                                           const ConvParams& p)
      : w_(w), swapped_(p.transposed), p_(p), big_(swapped_ ? grad : in), small_(swapped_ ? in : grad) {
    p_.transposed = false;  // a tap reads the larger side
    for (int d = 0; d < p_.spatial; ++d) taps_ *= w_.sizes[2 + d], places_ *= small_.sizes[2 + d];
    constexpr int64_t kRows = 64;  // of a piece of work, if there are so many
    step_ = std::min(w_.sizes[1], (kRows + taps_ - 1) / taps_);
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int64_t steps = (w_.sizes[1] + step_ - 1) / step_;
    const char *big = inputs[swapped_ ? 0 : 1], *small = inputs[swapped_ ? 1 : 0];
    context.For(p_.groups * steps, [&](int64_t i) {
      const int64_t group = i / steps, first = i % steps * step_;
      if (w_.dtype == DType::kFloat64) {
        Channels(reinterpret_cast<const double*>(big), reinterpret_cast<const double*>(small), group, first,
                 reinterpret_cast<double*>(outputs[0]));
      } else {
        Channels(reinterpret_cast<const float*>(big), reinterpret_cast<const float*>(small), group, first,
                 reinterpret_cast<float*>(outputs[0]));
      }
    });
    return absl::OkStatus();
  }

 private:
  // Computes the gradients of the weights that read channels [first, first + step_) of a group.
  template <typename T>
  __attribute__((noinline)) void Channels(const T* big, const T* small, int64_t group, int64_t first, T* out) const {
    const int64_t channels = std::min(step_, w_.sizes[1] - first), columns = channels * taps_;
    const int64_t rows = w_.sizes[0] / p_.groups, cells = rows * columns;
    constexpr int64_t kItem = sizeof(T);
    auto* const totals =
        reinterpret_cast<double*>(Scratch::Get(ScratchUse::kC, cells * (static_cast<int64_t>(sizeof(double)) + kItem)));
    T* const sums = reinterpret_cast<T*>(totals + cells);
    auto* const read = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kSource, columns * kMostPlaces * kItem));
    auto* const grad = reinterpret_cast<T*>(Scratch::Get(ScratchUse::kDestination, rows * kMostPlaces * kItem));
    std::fill(totals, totals + cells, 0.0);
    for (int64_t n = 0; n < big_.sizes[0]; ++n) {
      for (int64_t place = 0; place < places_; place += kMostPlaces) {
        const int64_t count = std::min(kMostPlaces, places_ - place);
        Place places[kMostPlaces];
        ListPlaces(small_, place, absl::MakeSpan(places, count));
        GatherRows(p_, big_, w_, channels, big + n * big_.strides[0] + (group * w_.sizes[1] + first) * big_.strides[1],
                   absl::MakeConstSpan(places, count), read);
        for (int64_t r = 0; r < rows; ++r) {
          const T* from = small + n * small_.strides[0] + (group * rows + r) * small_.strides[1];
          for (int64_t i = 0; i < count; ++i) {
            int64_t at = 0;
            for (int d = 0; d < p_.spatial; ++d) at += places[i][d] * small_.strides[2 + d];
            grad[r * count + i] = from[at];
          }
        }
        Gemm(rows, columns, count, grad, count, 1, read, 1, count, sums, columns);
        for (int64_t i = 0; i < cells; ++i) totals[i] += static_cast<double>(sums[i]);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      int64_t k[3] = {};
      for (int64_t tap = 0; tap < taps_; ++tap, NextPlace(p_.spatial, &w_.sizes[2], k)) {
        int64_t at = (group * rows + r) * w_.strides[0] + first * w_.strides[1];
        for (int d = 0; d < p_.spatial; ++d) at += k[d] * w_.strides[2 + d];
        for (int64_t c = 0; c < channels; ++c)
          out[at + c * w_.strides[1]] = static_cast<T>(totals[r * columns + tap * channels + c]);
      }
    }
  }

  OperandShape w_;
  bool swapped_;
  ConvParams p_;
  OperandShape big_, small_;  // the side over which a tap moves, and the other
  int64_t taps_ = 1, places_ = 1, step_ = 1;
};

// The same by oneDNN, on one thread: cutting the batch would change the sum.
class DnnlGradWeight : public PreparedOp {
 public:
  static std::unique_ptr<PreparedOp> Make(const OperandShape& grad, const OperandShape& in, const OperandShape& w,
                                          const ConvParams& p) {
    if (w.dtype != DType::kFloat32 || p.transposed || HasZeroStride(grad) || HasZeroStride(in)) return nullptr;
    OneOmpThread one;
    auto made = TryMakeDnnl([&] {
      auto op = std::make_unique<DnnlGradWeight>();
      const OperandShape grouped = GroupedWeight(w, p);
      const memory::dims strides = p.stride, dilates = DnnlDilation(p), pad_l = p.padding;
      memory::dims pad_r;
      for (int i = 0; i < p.spatial; ++i) {
        pad_r.push_back(PaddingAfter(p, i, w.sizes[2 + i], in.sizes[2 + i], grad.sizes[2 + i]));
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
      op->reorder_grad_ = Relayout::Make(DescOf(grad), pd.diff_dst_desc());
      op->reorder_in_ = Relayout::Make(DescOf(in), pd.src_desc());
      op->reorder_out_ = Relayout::Make(pd.diff_weights_desc(), DescOf(grouped));
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
      void* to = Scratch::Get(ScratchUse::kDestination, reorder_grad_->to_bytes());
      ok = ok && reorder_grad_->Run(grad, to);
      grad = to;
    }
    if (reorder_in_ != nullptr) {
      void* to = Scratch::Get(ScratchUse::kSource, reorder_in_->to_bytes());
      ok = ok && reorder_in_->Run(in, to);
      in = to;
    }
    if (reorder_out_ != nullptr) out = Scratch::Get(ScratchUse::kWeights, reorder_out_->from_bytes());
    void* handles[] = {grad, in, out};
    ok = ok && exec_->Run(handles);
    if (reorder_out_ != nullptr) ok = ok && reorder_out_->Run(out, outputs[0]);
    return ok ? absl::OkStatus() : absl::ResourceExhaustedError("convolution_backward: the library failed");
  }

 private:
  std::unique_ptr<DnnlExec> exec_;
  std::unique_ptr<Relayout> reorder_grad_, reorder_in_, reorder_out_;
};

}  // namespace

MakeResult MakeConvolutionBackward(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 3, 0, 3, -1));
  SMELT_RETURN_IF_ERROR(SameRealDTypes(r));
  const OperandShape &grad = r.inputs[0], &in = r.inputs[1], &w = r.inputs[2];
  SMELT_ASSIGN_OR_RETURN(ConvParams p, ParseConvParams(r, in, w, grad));
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
    SMELT_ASSIGN_OR_RETURN(op->grad_input_, MakeConvolution(inner, packed));
  }
  if (r.outputs.size() > 1 && r.outputs[1].present) {
    if (r.outputs[1].sizes != w.sizes)
      return absl::InvalidArgumentError("convolution_backward: grad_weight does not fit");
    if (grad.NumElements() > 0 && in.NumElements() > 0 && w.NumElements() > 0) {
      op->grad_weight_ = DnnlGradWeight::Make(grad, in, r.outputs[1], p);
      const bool computed = w.dtype == DType::kFloat32 || w.dtype == DType::kFloat64;
      if (op->grad_weight_ == nullptr && !HasOnednn() && computed)
        op->grad_weight_ = std::make_unique<GemmGradWeight>(grad, in, r.outputs[1], p);
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
