#include "smelt/core/op/write_rules.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {

namespace {

bool IsOut(OpName writes) { return !absl::EndsWith(writes.name(), "_"); }

// Returns whether a kernel reads operands after parts of the results have been written.
bool ReadsWhileItWrites(absl::string_view name) {
  static const auto* const kOps = new absl::flat_hash_set<absl::string_view>{"aten::mm",
                                                                             "aten::bmm",
                                                                             "aten::matmul",
                                                                             "aten::mv",
                                                                             "aten::dot",
                                                                             "aten::addmm",
                                                                             "aten::addmv",
                                                                             "aten::addbmm",
                                                                             "aten::baddbmm",
                                                                             "aten::linear",
                                                                             "aten::linalg_matmul",
                                                                             "aten::linalg_multi_dot",
                                                                             "aten::masked_scatter",
                                                                             "aten::inner",
                                                                             "aten::tensordot",
                                                                             "aten::chain_matmul"};
  return kOps->contains(name) || absl::StrContains(name, "pool") || absl::StrContains(name, "conv") ||
         absl::StrContains(name, "upsample");
}

}  // namespace

OperandSharing OperandSharingOf(OpName writes, OpName functional, absl::string_view argument) {
  // The names with and without the underscore.
  static const auto* const kRefused = new absl::flat_hash_set<std::string>{
      "aten::index_put", "aten::_index_put_impl", "aten::scatter",    "aten::scatter_add",  "aten::scatter_reduce",
      "aten::index_add", "aten::index_copy",      "aten::index_fill", "aten::index_reduce", "aten::put",
      "aten::addr"};
  static const auto* const kTaken = new absl::flat_hash_set<std::string>{
      "aten::gather", "aten::cat", "aten::index_select", "aten::take", "aten::cross", "aten::linalg_cross"};
  const std::string name(absl::StripSuffix(writes.name(), "_"));
  // Elementwise in PyTorch, although no scalar function describes them here.
  static const auto* const kElementwise =
      new absl::flat_hash_set<std::string>{"aten::gcd", "aten::lcm", "aten::binary_cross_entropy"};
  if (kTaken->contains(name)) return OperandSharing::kNone;
  if (kElementwise->contains(name)) return OperandSharing::kNotPartly;
  if (name == "aten::ldexp" && argument == "other") return OperandSharing::kAny;  // its power is computed first
  if (name == "aten::fill" || ResizesContiguously(writes)) return OperandSharing::kAny;
  if (name == "aten::masked_fill" && argument == "value") return OperandSharing::kAny;  // a number, read first
  // With out= self is copied first, unless it is the result itself.
  const bool copied = IsOut(writes) && argument == "self";
  if (kRefused->contains(name)) return copied ? OperandSharing::kWholeOrNone : OperandSharing::kNone;
  // Sums begin with a zero in the result; cumulative sums do not.
  const bool reduces = functional && GetOpInfo(functional).kind == OpKind::kReduction && IsOut(writes) &&
                       !absl::StrContains(name, "cum");
  if (reduces || ReadsWhileItWrites(name)) {
    const bool adds = absl::StartsWith(name, "aten::add") || name == "aten::baddbmm";
    return copied && adds ? OperandSharing::kWholeOrNone : OperandSharing::kApart;
  }
  if (writes.full() == "aten::copy_") return OperandSharing::kNotPartly;
  if (functional && GetOpInfo(functional).kind == OpKind::kPointwise) return OperandSharing::kNotPartly;
  return IsOut(writes) ? OperandSharing::kWholeOrNone : OperandSharing::kAny;
}

bool ComputesInDTypeOfOut(OpName out) {
  static const auto* const kOps = new absl::flat_hash_set<std::string>{"aten::sum",  "aten::nansum", "aten::mean",
                                                                       "aten::prod", "aten::cumsum", "aten::cumprod"};
  return kOps->contains(out.name());
}

namespace {

// Returns whether parts of the computation use the dtype of out, which is not modeled here.
bool ComputesOtherwiseInDTypeOfOut(OpName functional) {
  static const auto* const kOps = new absl::flat_hash_set<std::string>{"aten::all",     "aten::any", "aten::logsumexp",
                                                                       "aten::nanmean", "aten::std", "aten::var"};
  return kOps->contains(functional.name());
}

bool NeedsItsDType(OpName functional) {
  static const auto* const kOps = new absl::flat_hash_set<std::string>{
      "aten::_log_softmax", "aten::_softmax", "aten::addmm",       "aten::amax",        "aten::amin",
      "aten::argmax",       "aten::argmin",   "aten::baddbmm",     "aten::bmm",         "aten::complex",
      "aten::cummax",       "aten::cummin",   "aten::diag",        "aten::dot",         "aten::elu",
      "aten::gather",       "aten::gelu",     "aten::hardsigmoid", "aten::hardshrink",  "aten::hardtanh",
      "aten::index_select", "aten::kthvalue", "aten::leaky_relu",  "aten::log_softmax", "aten::logcumsumexp",
      "aten::matmul",       "aten::max",      "aten::median",      "aten::min",         "aten::mm",
      "aten::mode",         "aten::mv",       "aten::nanmedian",   "aten::polar",       "aten::quantile",
      "aten::softmax",      "aten::softplus", "aten::softshrink",  "aten::sort",        "aten::take",
      "aten::topk",         "aten::tril",     "aten::triu",
  };
  // With tensors these behave like other elementwise operators.
  const std::string& full = functional.full();
  if (full == "aten::clamp" || full == "aten::clamp_max" || full == "aten::clamp_min") return true;
  return (kOps->contains(functional.name()) && functional.overload() != "other") || full == "aten::round.decimals";
}

}  // namespace

std::string RefusedCast(OpName functional, DType from, DType to) {
  if (from != to && ComputesOtherwiseInDTypeOfOut(functional))
    return absl::StrCat("a result of ", ScalarTypeName(from), " given as ", ScalarTypeName(to),
                        ", in which PyTorch computes otherwise");
  if (from != to && NeedsItsDType(functional))
    return absl::StrCat("expected out tensor to have dtype ", ScalarTypeName(from), ", but got ", ScalarTypeName(to),
                        " instead");
  const bool fractions = IsFloating(from) || IsComplex(from);
  const bool fits = IsComplex(to) || (IsFloating(to) && !IsComplex(from)) ||
                    (!IsFloating(to) && !fractions && (to != DType::kBool || from == DType::kBool));
  const std::string& name = functional.name();
  if (fits || GetOpInfo(functional).kind != OpKind::kPointwise || name == "aten::copy" || name == "aten::fill" ||
      name == "aten::zero")
    return "";
  return absl::StrCat("result type ", ScalarTypeName(from), " can't be cast to the desired output type ",
                      ScalarTypeName(to));
}

double NumberBeside(OpName writes, DType written, double number) {
  if (writes.full() != "aten::mul_.Scalar") return number;
  if (written == DType::kBFloat16) return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(number)));
  if (written == DType::kFloat16) return HalfToFloat(FloatToHalf(static_cast<float>(number)));
  return number;
}

namespace {

// Mostly overloads that PyTorch generates: the functional form, then resize_ and copy_.
constexpr absl::string_view kComputedThenCopied =
    "__lshift__.Scalar_out __lshift__.Tensor_out __rshift__.Scalar_out __rshift__.Tensor_out "
    "_adaptive_avg_pool2d.out _adaptive_avg_pool2d_backward.out _adaptive_avg_pool3d_backward.out "
    "_conj_physical.out _convolution.out _fake_quantize_per_tensor_affine_cachemask_tensor_qparams.out "
    "_index_put_impl.out _native_batch_norm_legit_no_training.out _to_copy.out _unsafe_view.out "
    "_weight_norm_interface.out add.Scalar_out as_strided_scatter.out avg_pool1d.out bernoulli.Tensor_out "
    "bernoulli.float_out binary_cross_entropy.out binary_cross_entropy_with_logits.out "
    "bitwise_and.Scalar_Tensor_out bitwise_left_shift.Scalar_Tensor_out bitwise_or.Scalar_Tensor_out "
    "bitwise_right_shift.Scalar_Tensor_out bitwise_xor.Scalar_Tensor_out cauchy.out celu.out "
    "channel_shuffle.out clone.out constant_pad_nd.out convolution.out convolution_backward.out copy.out "
    "diagonal_scatter.out div.Scalar_mode_out div.Scalar_out empty_like.out exponential.out "
    "fake_quantize_per_channel_affine_cachemask.out fake_quantize_per_tensor_affine_cachemask.out "
    "fill.Scalar_out fill.Tensor_out flip.out floor_divide.Scalar_out full_like.out geometric.out "
    "hardswish_backward.out index_fill.int_Scalar_out index_fill.int_Tensor_out index_put.out isinf.out "
    "isnan.out kron.out lift.out log_normal.out masked_fill.Scalar_out masked_fill.Tensor_out "
    "masked_scatter.out mse_loss_backward.grad_input mul.Scalar_out native_dropout.out "
    "native_dropout_backward.out native_group_norm.out native_layer_norm.out native_layer_norm_backward.out "
    "ones_like.out pixel_shuffle.out pixel_unshuffle.out put.out rand_like.generator_out rand_like.out "
    "randint_like.generator_out randint_like.low_dtype_out randint_like.low_generator_dtype_out "
    "randint_like.out randn_like.generator_out randn_like.out random.from_out random.out random.to_out "
    "relu.out remainder.Scalar_Tensor_out roll.out rot90.out rsub.Scalar_out rsub.Tensor_out "
    "select_scatter.out slice_scatter.out special_ndtr.out sub.Scalar_out uniform.out "
    "upsample_bilinear2d.vec_out upsample_nearest2d.vec_out zero.out zeros_like.out";
// Other operators that resize to a contiguous layout.
constexpr absl::string_view kResizedContiguously =
    "_fft_c2c.out _fft_c2r.out _fft_r2c.out _native_batch_norm_legit.no_stats_out "
    "_native_batch_norm_legit.out bernoulli.out cholesky.out cholesky_solve.out fft_fft.out fft_fft2.out "
    "fft_fftn.out fft_hfft.out fft_hfft2.out fft_hfftn.out fft_ifft2.out fft_ifftn.out fft_ihfft2.out "
    "fft_ihfftn.out fft_irfft.out fft_irfft2.out fft_irfftn.out fft_rfft.out fft_rfft2.out fft_rfftn.out "
    "linalg_matrix_power.out matrix_power.out nanquantile.out native_batch_norm.out quantile.out stack.out";

absl::flat_hash_set<std::string>* Operators(absl::string_view names) {
  auto* set = new absl::flat_hash_set<std::string>();
  for (absl::string_view name : absl::StrSplit(names, ' ')) set->insert(absl::StrCat("aten::", name));
  return set;
}

bool ComputesThenCopies(OpName out) {
  static const auto* const kOps = Operators(kComputedThenCopied);
  return kOps->contains(out.full());
}

}  // namespace

bool ResizesContiguously(OpName out) {
  static const auto* const kOps = Operators(kResizedContiguously);
  return ComputesThenCopies(out) || kOps->contains(out.full());
}

bool ComputesBeforeItResizes(OpName out) {
  const std::string& name = out.name();
  return ComputesThenCopies(out) || name == "aten::diag" || name == "aten::diff" || name == "aten::logsumexp" ||
         name == "aten::mode";
}

bool FillsSomeElements(OpName writes, std::optional<int64_t> values, bool accumulates, int rank) {
  const std::string& name = writes.name();
  if (name == "aten::index_put_") return values == 1 && !accumulates;
  // Zeros outside the triangle. With more dims PyTorch may compute elsewhere and copy, which expanded memory does not
  // allow.
  if (name == "aten::tril_" || name == "aten::triu_") return rank >= 2 && rank <= 3;
  return name == "aten::masked_fill_" || name == "aten::index_fill_";
}

bool CopiesStorage(OpName op) { return GetOpTraits(op).family == OpFamily::kViewScatter; }

bool NeedsContiguousOut(OpName out) {
  return out.full() == "aten::gelu.out" || out.full() == "aten::avg_pool3d.out" ||
         out.full() == "aten::narrow_copy.out";
}

bool WritesExpanded(OpName writes) {
  return writes.name() == "aten::zero_" || writes.full() == "aten::fill_.Scalar" || writes.name() == "aten::threshold_";
}

}  // namespace smelt
