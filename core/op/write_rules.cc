#include "smelt/core/op/write_rules.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

OperandSharing OperandSharingOf(OpName writes, OpName functional) {
  // With and without the underscore.
  static const auto* const kApart = new absl::flat_hash_set<std::string>{
      "aten::index_put", "aten::_index_put_impl", "aten::scatter",    "aten::scatter_add",  "aten::scatter_reduce",
      "aten::index_add", "aten::index_copy",      "aten::index_fill", "aten::index_reduce", "aten::put",
      "aten::addr",      "aten::gather",          "aten::cat",        "aten::index_select", "aten::take",
      "aten::addmm",     "aten::addmv",           "aten::addbmm",     "aten::baddbmm",      "aten::masked_scatter"};
  const std::string name(absl::StripSuffix(writes.name(), "_"));
  if (kApart->contains(name)) return OperandSharing::kNone;
  if (writes.full() == "aten::copy_") return OperandSharing::kNotPartly;
  if (name == "aten::fill") return OperandSharing::kAny;  // the value is read before anything is written
  return functional && GetOpInfo(functional).kind == OpKind::kPointwise ? OperandSharing::kNotPartly
                                                                        : OperandSharing::kAny;
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

bool WritesExpanded(OpName writes) { return writes.name() == "aten::zero_" || writes.full() == "aten::fill_.Scalar"; }

}  // namespace smelt
