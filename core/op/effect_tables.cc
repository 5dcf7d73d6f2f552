#include "smelt/core/op/effect_tables.h"

namespace smelt::effects_internal {

const NameSet& GeometryWriters() {
  static const NameSet* const kNames = new NameSet{"aten::t_",
                                                   "aten::transpose_",
                                                   "aten::swapaxes_",
                                                   "aten::swapdims_",
                                                   "aten::squeeze_",
                                                   "aten::unsqueeze_",
                                                   "aten::as_strided_",
                                                   "aten::resize_",
                                                   "aten::resize_as_",
                                                   "aten::set_",
                                                   "aten::set",
                                                   "aten::_resize_output_",
                                                   "aten::detach_",
                                                   "aten::rename_",
                                                   "aten::requires_grad_",
                                                   "aten::set_data",
                                                   "aten::resize_as_sparse_",
                                                   "aten::sparse_resize_",
                                                   "aten::sparse_resize_and_clear_",
                                                   "aten::_coalesced_",
                                                   "aten::retain_grad",
                                                   "aten::resize",
                                                   "aten::resize_as",
                                                   "aten::retain_grad_",
                                                   "aten::_backward",
                                                   "aten::backward"};
  return *kNames;
}

// A list of names, a line for each.
const NameSet& GeometryReaders() {
  static const NameSet* const kNames = new NameSet{"aten::size",
                                                   "aten::sym_size",
                                                   "aten::stride",
                                                   "aten::sym_stride",
                                                   "aten::numel",
                                                   "aten::sym_numel",
                                                   "aten::storage_offset",
                                                   "aten::sym_storage_offset",
                                                   "aten::dim",
                                                   "aten::ndimension",
                                                   "aten::len",
                                                   "aten::element_size",
                                                   "aten::get_device",
                                                   "aten::is_complex",
                                                   "aten::is_conj",
                                                   "aten::is_contiguous",
                                                   "aten::sym_is_contiguous",
                                                   "aten::is_floating_point",
                                                   "aten::is_inference",
                                                   "aten::is_leaf",
                                                   "aten::is_neg",
                                                   "aten::is_non_overlapping_and_dense",
                                                   "aten::is_pinned",
                                                   "aten::is_same_size",
                                                   "aten::is_set_to",
                                                   "aten::is_signed",
                                                   "aten::is_strides_like_format",
                                                   "aten::is_distributed",
                                                   "aten::is_coalesced",
                                                   "aten::output_nr",
                                                   "aten::qscheme",
                                                   "aten::result_type",
                                                   "aten::retains_grad",
                                                   "aten::sparse_dim",
                                                   "aten::dense_dim",
                                                   "aten::_dimI",
                                                   "aten::_dimV",
                                                   "aten::_version",
                                                   "aten::_has_same_storage_numel",
                                                   "aten::_has_compatible_shallow_copy_type",
                                                   "aten::_debug_has_internal_overlap",
                                                   "aten::_is_zerotensor",
                                                   "aten::cudnn_is_acceptable",
                                                   "aten::_fused_sdp_choice",
                                                   "aten::__is__",
                                                   "aten::__isnot__",
                                                   "aten::_assert_tensor_metadata",
                                                   "aten::_nested_get_ragged_idx",
                                                   "aten::q_scale",
                                                   "aten::q_zero_point",
                                                   "aten::q_per_channel_axis",
                                                   "aten::empty_like",
                                                   "aten::full_like",
                                                   "aten::zeros_like",
                                                   "aten::ones_like",
                                                   "aten::rand_like",
                                                   "aten::randn_like",
                                                   "aten::randint_like",
                                                   "aten::new_empty",
                                                   "aten::new_empty_strided",
                                                   "aten::new_full",
                                                   "aten::new_ones",
                                                   "aten::new_zeros",
                                                   "aten::_new_zeros_with_same_feature_meta",
                                                   "prim::device",
                                                   "prim::dtype",
                                                   "prim::is_cpu",
                                                   "prim::is_cuda",
                                                   "prim::is_ipu",
                                                   "prim::is_maia",
                                                   "prim::is_meta",
                                                   "prim::is_mkldnn",
                                                   "prim::is_mps",
                                                   "prim::is_mtia",
                                                   "prim::is_nested",
                                                   "prim::is_quantized",
                                                   "prim::is_sparse",
                                                   "prim::is_sparse_csr",
                                                   "prim::is_vulkan",
                                                   "prim::is_xla",
                                                   "prim::is_xpu",
                                                   "prim::itemsize",
                                                   "prim::layout",
                                                   "prim::name",
                                                   "prim::nbytes",
                                                   "prim::requires_grad",
                                                   "aten::requires_grad",
                                                   "aten::_shape_as_tensor",
                                                   "aten::can_cast",
                                                   "prim::isinstance",
                                                   "aten::_size_if_not_equal"};
  return *kNames;
}

const NameSet& TakesSizes() {
  static const auto* const kNames =
      new NameSet{"aten::zeros", "aten::ones",      "aten::empty",    "aten::full",      "aten::rand",
                  "aten::randn", "aten::new_zeros", "aten::new_ones", "aten::new_empty", "aten::new_full"};
  return *kNames;
}

const NameSet& MayCopy() {
  static const NameSet* const kNames = new NameSet{"aten::reshape",
                                                   "aten::reshape_as",
                                                   "aten::contiguous",
                                                   "aten::to",
                                                   "aten::flatten",
                                                   "aten::ravel",
                                                   "aten::cpu",
                                                   "aten::cuda",
                                                   "aten::as_tensor",
                                                   "aten::pin_memory",
                                                   "aten::coalesce",
                                                   "aten::resolve_conj",
                                                   "aten::resolve_neg",
                                                   "aten::_autocast_to_full_precision",
                                                   "aten::_autocast_to_reduced_precision",
                                                   "aten::_grad_sum_to_size",
                                                   "aten::_sparse_broadcast_to",
                                                   "aten::slice_inverse",
                                                   "aten::positive"};
  return *kNames;
}

const NameSet& MayBeItself() {
  static const NameSet* const kNames = new NameSet{"aten::real", "aten::conj",    "aten::lift_fresh", "aten::mT",
                                                   "aten::mH",   "aten::adjoint", "aten::matrix_H"};
  return *kNames;
}

const NameSet& HiddenPureViews() {
  static const NameSet* const kNames =
      new NameSet{"aten::_unsafe_view", "aten::unsafe_split",      "aten::unsafe_split_with_sizes",
                  "aten::unsafe_chunk", "aten::broadcast_tensors", "aten::atleast_1d",
                  "aten::atleast_2d",   "aten::atleast_3d",        "aten::data",
                  "aten::meshgrid",     "aten::_remove_batch_dim", "aten::unflatten_dense_tensors"};
  return *kNames;
}

const NameSet& NewHandles() {
  static const NameSet* const kNames = new NameSet{"aten::_unsafe_view",
                                                   "aten::unsafe_split",
                                                   "aten::unsafe_chunk",
                                                   "aten::unsafe_split_with_sizes",
                                                   "aten::unflatten_dense_tensors",
                                                   "aten::reshape_as",
                                                   "aten::slice_inverse",
                                                   "aten::set",
                                                   "aten::data"};
  return *kNames;
}

const NameSet& Partitions() {
  static const NameSet* const kNames = new NameSet{"aten::split",         "aten::split_with_sizes",
                                                   "aten::chunk",         "aten::unbind",
                                                   "aten::tensor_split",  "aten::hsplit",
                                                   "aten::vsplit",        "aten::dsplit",
                                                   "aten::unsafe_split",  "aten::unsafe_split_with_sizes",
                                                   "aten::unsafe_chunk",  "aten::unflatten_dense_tensors",
                                                   "aten::nonzero_numpy", "aten::where"};
  return *kNames;
}

const NameSet& SideEffects() {
  static const NameSet* const kNames = new NameSet{"prim::Print",
                                                   "prim::RaiseException",
                                                   "aten::warn",
                                                   "aten::save",
                                                   "aten::manual_seed",
                                                   "prim::AddStatValue",
                                                   "prim::TimePoint",
                                                   "prim::CallFunction",
                                                   "prim::CallMethod",
                                                   "prim::PythonOp",
                                                   "prim::IgnoredPythonOp",
                                                   "prim::rpc_async",
                                                   "prim::rpc_sync",
                                                   "prim::rpc_remote",
                                                   "prim::Enter",
                                                   "prim::Exit",
                                                   "cuda::set_stream",
                                                   "cuda::_set_device",
                                                   "cuda::_current_device",
                                                   "cuda::synchronize",
                                                   "aten::_assert_async",
                                                   "aten::backward",
                                                   "aten::_backward",
                                                   "aten::set_grad_enabled",
                                                   "aten::_print",
                                                   "aten::_functional_assert_async",
                                                   "aten::wait",
                                                   "aten::awaitable_wait",
                                                   "aten::is_owner",
                                                   "aten::to_here",
                                                   "aten::seed",
                                                   "aten::initial_seed",
                                                   "aten::get_gradients",
                                                   "aten::dist_backward",
                                                   "aten::_assert_scalar",
                                                   "aten::_functional_assert_scalar"};
  return *kNames;
}

const NameSet& RandomNames() {
  static const NameSet* const kNames = new NameSet{"aten::dropout",
                                                   "aten::dropout_",
                                                   "aten::alpha_dropout",
                                                   "aten::alpha_dropout_",
                                                   "aten::feature_dropout",
                                                   "aten::feature_dropout_",
                                                   "aten::feature_alpha_dropout",
                                                   "aten::feature_alpha_dropout_",
                                                   "aten::native_dropout",
                                                   "aten::_fused_dropout",
                                                   "aten::rrelu",
                                                   "aten::rrelu_",
                                                   "aten::rrelu_with_noise",
                                                   "aten::rrelu_with_noise_",
                                                   "aten::rand",
                                                   "aten::randn",
                                                   "aten::randint",
                                                   "aten::randperm",
                                                   "aten::rand_like",
                                                   "aten::randn_like",
                                                   "aten::randint_like",
                                                   "aten::bernoulli",
                                                   "aten::bernoulli_",
                                                   "aten::multinomial",
                                                   "aten::normal",
                                                   "aten::poisson",
                                                   "aten::binomial",
                                                   "aten::_standard_gamma",
                                                   "aten::_sample_dirichlet",
                                                   "aten::scaled_dot_product_attention",
                                                   "aten::_scaled_dot_product_flash_attention",
                                                   "aten::_scaled_dot_product_efficient_attention",
                                                   "aten::lstm",
                                                   "aten::gru",
                                                   "aten::rnn_tanh",
                                                   "aten::rnn_relu",
                                                   "aten::_cudnn_rnn",
                                                   "aten::manual_seed",
                                                   "aten::seed",
                                                   "aten::_fill_mem_eff_dropout_mask_",
                                                   "aten::gumbel_softmax",
                                                   "aten::kaiming_uniform_",
                                                   "aten::pca_lowrank"};
  return *kNames;
}

}  // namespace smelt::effects_internal
