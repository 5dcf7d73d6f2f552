#include "smelt/core/op/write_rules.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/float16.h"

namespace smelt {

namespace {

bool IsOut(OpName writes) { return !absl::EndsWith(writes.name(), "_"); }

// Kernels that read operands while results are there already in part.
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
  // With and without the underscore.
  static const auto* const kRefused = new absl::flat_hash_set<std::string>{
      "aten::index_put", "aten::_index_put_impl", "aten::scatter",    "aten::scatter_add",  "aten::scatter_reduce",
      "aten::index_add", "aten::index_copy",      "aten::index_fill", "aten::index_reduce", "aten::put",
      "aten::addr"};
  static const auto* const kTaken = new absl::flat_hash_set<std::string>{
      "aten::gather", "aten::cat", "aten::index_select", "aten::take", "aten::cross", "aten::linalg_cross"};
  const std::string name(absl::StripSuffix(writes.name(), "_"));
  // Elementwise in PyTorch, though no scalar function describes them here.
  static const auto* const kElementwise =
      new absl::flat_hash_set<std::string>{"aten::gcd", "aten::lcm", "aten::binary_cross_entropy"};
  if (kTaken->contains(name)) return OperandSharing::kNone;
  if (kElementwise->contains(name)) return OperandSharing::kNotPartly;
  if (name == "aten::ldexp" && argument == "other") return OperandSharing::kAny;  // its power is computed first
  if (name == "aten::fill" || ResizesContiguously(writes)) return OperandSharing::kAny;
  if (name == "aten::masked_fill" && argument == "value") return OperandSharing::kAny;  // a number, read first
  // With out= it is copied first, if it is not the result itself.
  const bool copied = IsOut(writes) && argument == "self";
  if (kRefused->contains(name)) return copied ? OperandSharing::kWholeOrNone : OperandSharing::kNone;
  // Sums begin with a zero in the result; running ones do not.
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

// Partly in the given dtype: not known here.
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
  // By tensors these are as other elementwise operators are.
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

bool ResizesContiguously(OpName out) {
  // Most of these are overloads that PyTorch generates: the functional form, then resize_ and copy_.
  static const auto* const kOps = new absl::flat_hash_set<std::string>{"aten::add.Scalar_out",
                                                                       "aten::sub.Scalar_out",
                                                                       "aten::mul.Scalar_out",
                                                                       "aten::div.Scalar_out",
                                                                       "aten::div.Scalar_mode_out",
                                                                       "aten::floor_divide.Scalar_out",
                                                                       "aten::rsub.Tensor_out",
                                                                       "aten::rsub.Scalar_out",
                                                                       "aten::remainder.Scalar_Tensor_out",
                                                                       "aten::bitwise_and.Scalar_Tensor_out",
                                                                       "aten::bitwise_or.Scalar_Tensor_out",
                                                                       "aten::bitwise_xor.Scalar_Tensor_out",
                                                                       "aten::bitwise_left_shift.Scalar_Tensor_out",
                                                                       "aten::bitwise_right_shift.Scalar_Tensor_out",
                                                                       "aten::relu.out",
                                                                       "aten::celu.out",
                                                                       "aten::isinf.out",
                                                                       "aten::isnan.out",
                                                                       "aten::special_ndtr.out",
                                                                       "aten::hardswish_backward.out",
                                                                       "aten::native_dropout.out",
                                                                       "aten::native_dropout_backward.out",
                                                                       "aten::binary_cross_entropy.out",
                                                                       "aten::binary_cross_entropy_with_logits.out",
                                                                       "aten::mse_loss_backward.grad_input",
                                                                       "aten::clone.out",
                                                                       "aten::copy.out",
                                                                       "aten::fill.Scalar_out",
                                                                       "aten::fill.Tensor_out",
                                                                       "aten::zero.out",
                                                                       "aten::masked_fill.Scalar_out",
                                                                       "aten::masked_fill.Tensor_out",
                                                                       "aten::masked_scatter.out",
                                                                       "aten::index_fill.int_Scalar_out",
                                                                       "aten::index_fill.int_Tensor_out",
                                                                       "aten::index_put.out",
                                                                       "aten::put.out",
                                                                       "aten::flip.out",
                                                                       "aten::roll.out",
                                                                       "aten::rot90.out",
                                                                       "aten::kron.out",
                                                                       "aten::constant_pad_nd.out",
                                                                       "aten::select_scatter.out",
                                                                       "aten::slice_scatter.out",
                                                                       "aten::diagonal_scatter.out",
                                                                       "aten::as_strided_scatter.out",
                                                                       "aten::channel_shuffle.out",
                                                                       "aten::pixel_shuffle.out",
                                                                       "aten::pixel_unshuffle.out",
                                                                       "aten::convolution.out",
                                                                       "aten::convolution_backward.out",
                                                                       "aten::_adaptive_avg_pool2d.out",
                                                                       "aten::_adaptive_avg_pool2d_backward.out",
                                                                       "aten::upsample_nearest2d.vec_out",
                                                                       "aten::upsample_bilinear2d.vec_out",
                                                                       "aten::native_layer_norm.out",
                                                                       "aten::native_group_norm.out",
                                                                       "aten::zeros_like.out",
                                                                       "aten::ones_like.out",
                                                                       "aten::full_like.out",
                                                                       "aten::empty_like.out",
                                                                       "aten::rand_like.out",
                                                                       "aten::randn_like.out",
                                                                       "aten::bernoulli.Tensor_out",
                                                                       "aten::bernoulli.float_out"};
  return kOps->contains(out.full());
}

bool ComputesBeforeItResizes(OpName out) {
  const std::string& name = out.name();
  return ResizesContiguously(out) || name == "aten::diag" || name == "aten::diff" || name == "aten::logsumexp" ||
         name == "aten::mode";
}

bool FillsSomeElements(OpName writes, std::optional<int64_t> values, bool accumulates, int rank) {
  const std::string& name = writes.name();
  if (name == "aten::index_put_") return values == 1 && !accumulates;
  // Zeros where the triangle is not. Of more dims PyTorch may compute elsewhere and copy, which expanded memory
  // refuses.
  if (name == "aten::tril_" || name == "aten::triu_") return rank >= 2 && rank <= 3;
  return name == "aten::masked_fill_" || name == "aten::index_fill_";
}

bool CopiesStorage(OpName op) {
  const std::string& name = op.name();
  return name == "aten::slice_scatter" || name == "aten::select_scatter" || name == "aten::diagonal_scatter" ||
         name == "aten::as_strided_scatter";
}

bool NeedsContiguousOut(OpName out) {
  return out.full() == "aten::gelu.out" || out.full() == "aten::avg_pool3d.out" ||
         out.full() == "aten::narrow_copy.out";
}

bool WritesExpanded(OpName writes) {
  return writes.name() == "aten::zero_" || writes.full() == "aten::fill_.Scalar" || writes.name() == "aten::threshold_";
}

}  // namespace smelt
