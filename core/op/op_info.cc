#include "smelt/core/op/op_info.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/recent.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/op/traits.h"

namespace smelt {
namespace {

// Operators whose kind does not follow from another table, by name without overload ("add" means aten::add).
struct Group {
  OpKind kind;
  const char* names;
};
constexpr Group kGroups[] = {
    {OpKind::kFactory,
     "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full scalar_tensor tensor empty empty_like "
     "new_empty empty_strided new_empty_strided empty_permuted arange linspace logspace eye tril_indices "
     "triu_indices hann_window hamming_window blackman_window bartlett_window kaiser_window fft_fftfreq fft_rfftfreq"},
    {OpKind::kMovement,
     "cat concat concatenate stack gather index_select embedding index _unsafe_index index_put _unsafe_index_put "
     "_index_put_impl scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce "
     "masked_select masked_scatter take put take_along_dim constant_pad_nd reflection_pad1d reflection_pad2d "
     "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d roll flip repeat repeat_interleave "
     "tile triu tril slice_scatter select_scatter diagonal_scatter as_strided_scatter slice_backward "
     "select_backward diagonal_backward unfold_backward diag_embed upsample_nearest1d upsample_nearest2d "
     "upsample_nearest3d upsample_bilinear2d _upsample_nearest_exact1d _upsample_nearest_exact2d one_hot nonzero "
     "argwhere fill_diagonal embedding_dense_backward pixel_shuffle pixel_unshuffle channel_shuffle im2col "
     "col2im block_diag bincount view_copy upsample_nearest2d_backward unique_consecutive _unique2 unique_dim "
     "upsample_linear1d upsample_bicubic2d upsample_trilinear3d upsample_bilinear2d_backward isin "
     "_upsample_bilinear2d_aa _upsample_bicubic2d_aa torchvision::nms"},
    {OpKind::kLibrary,
     "mm bmm addmm addbmm baddbmm mv addmv dot vdot outer addr convolution _convolution convolution_backward "
     "convolution_overrideable sort argsort topk msort kthvalue median nanmedian mode searchsorted bucketize "
     "max_pool2d_with_indices max_pool3d_with_indices max_pool2d_with_indices_backward avg_pool1d avg_pool2d "
     "avg_pool3d avg_pool2d_backward _adaptive_avg_pool2d _adaptive_avg_pool3d _adaptive_avg_pool2d_backward "
     "adaptive_max_pool2d adaptive_max_pool2d_backward logcumsumexp gcd lcm cdist _cdist_forward linalg_cross "
     "polygamma special_erfcx _fft_c2c _fft_r2c _fft_c2r complex polar equal is_same_size allclose is_nonzero "
     "linalg_inv_ex linalg_solve_ex _linalg_solve_ex linalg_solve_triangular linalg_cholesky_ex _linalg_det "
     "_linalg_slogdet linalg_qr _linalg_svd _linalg_eigh _int_mm"},
    {OpKind::kComposite,
     "linear matmul inner layer_norm native_layer_norm native_layer_norm_backward group_norm native_group_norm "
     "native_group_norm_backward rms_norm _fused_rms_norm batch_norm native_batch_norm _native_batch_norm_legit "
     "_native_batch_norm_legit_no_training _native_batch_norm_legit_functional _batch_norm_with_update "
     "_batch_norm_with_update_functional _batch_norm_no_update native_batch_norm_backward batch_norm_backward "
     "instance_norm softmax _softmax _safe_softmax log_softmax _log_softmax _softmax_backward_data "
     "_log_softmax_backward_data scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_attention_math einsum tensordot kron lstm lstm_cell gru gru_cell rnn_tanh rnn_relu "
     "rnn_tanh_cell rnn_relu_cell cross_entropy_loss nll_loss nll_loss_nd nll_loss2d nll_loss_forward "
     "nll_loss2d_forward nll_loss_backward nll_loss2d_backward mse_loss mse_loss_backward l1_loss smooth_l1_loss "
     "smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy binary_cross_entropy_backward "
     "binary_cross_entropy_with_logits kl_div cosine_similarity pairwise_distance dropout feature_dropout "
     "alpha_dropout feature_alpha_dropout native_dropout_backward var std var_mean std_mean nanmean logsumexp "
     "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d max_pool1d "
     "max_pool1d_with_indices max_pool2d max_pool3d conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
     "conv_transpose3d reshape reshape_as flatten contiguous to type_as ravel expand_copy permute_copy "
     "nonzero_static transpose_copy t_copy squeeze_copy unsqueeze_copy slice_copy select_copy split_copy "
     "split_with_sizes_copy "
     "unbind_copy unfold_copy diagonal_copy as_strided_copy view_as_real_copy atleast_1d atleast_2d atleast_3d "
     "broadcast_tensors "
     "hstack vstack dstack row_stack column_stack meshgrid cartesian_prod diag diagflat trace rot90 fliplr "
     "flipud pad _pad_enum _pad_circular diff trapezoid cumulative_trapezoid vander norm_except_dim glu "
     "glu_backward sum_to_size bilinear prelu _prelu_kernel rrelu cosine_embedding_loss triplet_margin_loss "
     "margin_ranking_loss hinge_embedding_loss soft_margin_loss log_sigmoid_forward _weight_norm "
     "_weight_norm_interface softmin chain_matmul linalg_multi_dot linalg_norm linalg_matrix_norm frobenius_norm "
     "dist narrow_copy linalg_matmul linalg_vecdot grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator "
     "max_unpool2d embedding_bag _embedding_bag _embedding_bag_forward_only fake_quantize_per_tensor_affine "
     "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine "
     "fake_quantize_per_channel_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
     "poisson_nll_loss multi_margin_loss matrix_power linalg_matrix_power trapz quantile nanquantile "
     "_grouped_mm pad_sequence histc renorm mvlgamma special_multigammaln linalg_inv inverse linalg_solve linalg_det "
     "det linalg_slogdet "
     "slogdet logdet linalg_cholesky cholesky cholesky_solve cholesky_inverse frexp max_unpool3d pdist gradient "
     "linalg_vander linalg_svd svd linalg_svdvals linalg_eigh linalg_eigvalsh qr linalg_cond linalg_matrix_rank "
     "linalg_pinv pinverse _linalg_check_errors _scaled_dot_product_flash_attention_for_cpu_backward mkldnn_rnn_layer "
     "_prelu_kernel_backward soft_margin_loss_backward _cdist_backward _trilinear reflection_pad1d_backward "
     "reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward "
     "replication_pad3d_backward upsample_nearest1d_backward upsample_nearest3d_backward "
     "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
     "upsample_linear1d_backward upsample_trilinear3d_backward upsample_bicubic2d_backward avg_pool3d_backward "
     "_embedding_bag_backward _embedding_bag_per_sample_weights_backward _upsample_bilinear2d_aa_backward "
     "_upsample_bicubic2d_aa_backward multi_margin_loss_backward masked_scatter_backward "
     "grid_sampler_2d_backward grid_sampler_3d_backward value_selecting_reduction_backward gather_backward "
     "index_select_backward cummaxmin_backward embedding_backward trace_backward "
     "_adaptive_avg_pool3d_backward max_pool3d_with_indices_backward adaptive_max_pool3d_backward _fused_sgd_ "
     "_fused_adam_ _fused_adamw_ _fused_adagrad_ _amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_"},
    {OpKind::kRandom,
     "rand rand_like randn randn_like randint randint_like randperm bernoulli normal normal_functional multinomial "
     "native_dropout uniform exponential geometric log_normal cauchy random rrelu_with_noise normal_ uniform_ "
     "bernoulli_ random_ exponential_ geometric_ "
     "log_normal_ cauchy_ dropout_ feature_dropout_ alpha_dropout_"},
    {OpKind::kScalar,
     "size stride numel dim len storage_offset is_floating_point is_complex is_contiguous is_signed sym_size "
     "sym_stride sym_numel sym_storage_offset item _local_scalar_dense Bool Int Float Complex IntImplicit "
     "FloatImplicit ScalarImplicit floordiv __round_to_zero_floordiv __not__ __range_length __derive_index ceil "
     "floor sqrt exp log sin cos tan tanh neg abs add sub mul div remainder fmod pow lt le gt ge eq ne __and__ "
     "__or__ __xor__ __is__ __isnot__ truediv mathremainder min max round asin acos atan sinh cosh gcd factorial "
     "degrees radians isnan isinf log2 log10 log1p expm1 fabs is_same sym_constrain_range "
     "sym_constrain_range_for_size _assert_async _assert_scalar"},
    {OpKind::kContainer,
     "append extend insert pop reverse clear __getitem__ _set_item __contains__ select slice keys values items "
     "get setdefault update copy_dict list dict index_list count remove Delete sorted"},
    {OpKind::kOther,
     "resize_ resize_as_ _assert_tensor_metadata set_ set copy_meta requires_grad_ retain_grad backward warn "
     "format"},
};

constexpr const char* kForeach =
    "abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min copy cos cosh div erf erfc exp expm1 floor frac "
    "lerp log log10 log1p "
    "log2 max maximum minimum mul neg norm pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc "
    "zero";

std::string Qualified(absl::string_view name) {
  return absl::StrContains(name, "::") ? std::string(name) : absl::StrCat("aten::", name);
}

const absl::flat_hash_map<std::string, OpKind>& Named() {
  static const auto* const kMap = [] {
    auto* m = new absl::flat_hash_map<std::string, OpKind>();
    for (const Group& g : kGroups) {
      // The first group that names an operator decides; overloads on Python numbers are distinguished by their schema.
      for (absl::string_view n : absl::StrSplit(g.names, ' ', absl::SkipEmpty())) m->emplace(Qualified(n), g.kind);
    }
    return m;
  }();
  return *kMap;
}

const absl::flat_hash_set<std::string>& NamesOf(OpKind kind) {
  static const auto* const kSets = [] {
    auto* m = new absl::flat_hash_map<OpKind, absl::flat_hash_set<std::string>>();
    for (const Group& g : kGroups) {
      for (absl::string_view n : absl::StrSplit(g.names, ' ', absl::SkipEmpty())) (*m)[g.kind].insert(Qualified(n));
    }
    return m;
  }();
  static const auto* const kNone = new absl::flat_hash_set<std::string>();
  auto it = kSets->find(kind);
  return it == kSets->end() ? *kNone : it->second;
}

bool HasTensor(const Type& t) {
  if (t.IsTensor()) return true;
  if (t.kind() == TypeKind::kOptional || t.kind() == TypeKind::kList) return HasTensor(t.element());
  return false;
}
bool TakesTensors(const FunctionSchema& s) {
  return std::any_of(s.arguments.begin(), s.arguments.end(), [](const Argument& a) { return HasTensor(a.type); });
}
bool ReturnsTensors(const FunctionSchema& s) {
  return std::any_of(s.returns.begin(), s.returns.end(), [](const Argument& a) { return HasTensor(a.type); });
}
bool TakesContainer(const FunctionSchema& s) {
  if (s.arguments.empty()) return false;
  const TypeKind k = s.arguments[0].type.kind();
  return k == TypeKind::kList || k == TypeKind::kDict;
}

bool Writes(const Argument& a) {
  return a.alias.is_write ||
         std::any_of(a.alias.contained.begin(), a.alias.contained.end(), [](const AliasInfo& c) { return c.is_write; });
}

// aten::add_.Tensor -> aten::add.Tensor, aten::__iand__.Tensor -> aten::bitwise_and.Tensor; invalid if there is none.
OpName FunctionalOfInplace(OpName op) {
  const std::string& name = op.name();
  const std::string base(PureName(name));
  if (base.empty()) return OpName();
  // Overload names may differ: pow_.Scalar is pow.Tensor_Scalar, transpose_ is transpose.int.
  const FunctionSchema* schema = FindSchema(op);
  const FunctionSchema* found = nullptr;
  for (const FunctionSchema* f : FindOverloads(base)) {
    if (f->IsMutable() || f->arguments.size() != schema->arguments.size()) continue;
    bool equal = true;
    for (size_t i = 0; i < f->arguments.size(); ++i) {
      const Argument &a = f->arguments[i], &b = schema->arguments[i];
      // Scalar? and Tensor? differ; names may differ too (axis0, dim0).
      equal &= a.type == b.type && (i == 0 || a.name == b.name || base.find("transpose") != std::string::npos);
    }
    if (!equal) continue;
    if (found == nullptr || f->op.overload() == op.overload()) found = f;
  }
  return found != nullptr ? found->op : OpName();
}

// Returns the overload with the same arguments that writes to none.
OpName FunctionalOfOut(const FunctionSchema& schema) {
  std::vector<const Argument*> kept;
  for (const Argument& a : schema.arguments) {
    if (!Writes(a)) kept.push_back(&a);
  }
  for (const FunctionSchema* s : FindOverloads(schema.op.name())) {
    if (s->op == schema.op || s->IsMutable() || s->returns.size() != schema.returns.size()) continue;
    // The out variant does not take dtype, layout, device and pin_memory: the written tensor determines them.
    std::vector<const Argument*> theirs;
    for (const Argument& a : s->arguments) {
      const bool implied = a.name == "dtype" || a.name == "layout" || a.name == "device" || a.name == "pin_memory";
      const bool ours = std::any_of(kept.begin(), kept.end(), [&](const Argument* k) { return k->name == a.name; });
      if (!implied || ours) theirs.push_back(&a);
    }
    if (theirs.size() != kept.size()) continue;
    bool equal = true;
    for (size_t i = 0; i < kept.size(); ++i)
      equal &= kept[i]->name == theirs[i]->name && kept[i]->type_text == theirs[i]->type_text;
    if (equal) return s->op;
  }
  return OpName();
}

// Asks what is known of the operator, in the order in which the answers exclude each other: smelt's own names,
// tables, then the schema. It is long because of the tables that it holds.
OpInfo Describe(OpName op) {
  OpInfo info;
  info.op = op;
  const std::string& name = op.name();
  if (absl::StartsWith(name, "prim::") || absl::StartsWith(name, "smelt::") || absl::StartsWith(name, "prims::")) {
    static const auto* const kKinds = new absl::flat_hash_map<std::string, OpKind>{
        {"prim::If", OpKind::kControl},
        {"prim::Loop", OpKind::kControl},
        {"smelt::cond", OpKind::kControl},
        {"smelt::while_loop", OpKind::kControl},
        {"prim::Constant", OpKind::kOther},
        {"prim::ListConstruct", OpKind::kContainer},
        {"prim::ListUnpack", OpKind::kContainer},
        {"prim::TupleConstruct", OpKind::kContainer},
        {"prim::TupleUnpack", OpKind::kContainer},
        {"prim::TupleIndex", OpKind::kContainer},
        {"prim::TupleSlice", OpKind::kContainer},
        {"prim::DictConstruct", OpKind::kContainer},
        {"prim::NumToTensor", OpKind::kScalar},
        {"prim::dtype", OpKind::kScalar},
        {"prim::device", OpKind::kScalar},
        {"prim::layout", OpKind::kScalar},
        {"prim::abs", OpKind::kScalar},
        {"prim::min", OpKind::kScalar},
        {"prim::max", OpKind::kScalar},
        {"prim::RaiseException", OpKind::kOther},
        {"prim::Print", OpKind::kOther},
        {"prim::unchecked_cast", OpKind::kOther},
        {"prim::Uninitialized", OpKind::kOther},
        {"prims::convert_element_type", OpKind::kPointwise},
        {"smelt::view", OpKind::kView},
        {"smelt::write_region", OpKind::kMovement},
        {"smelt::overlay", OpKind::kMovement},
        {"smelt::materialize", OpKind::kMovement},
        {"smelt::FusionGroup", OpKind::kOther},
        {"smelt::expr", OpKind::kScalar},
    };
    auto it = kKinds->find(name);
    if (it != kKinds->end()) info.kind = it->second;
    return info;
  }

  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) {
    // Python's operators on sizes, as exported programs name them.
    if (absl::StartsWith(name, "_operator::") || absl::StartsWith(name, "math::")) info.kind = OpKind::kScalar;
    return info;
  }
  const auto& named = Named();
  auto kind_of = [&](const std::string& n) {
    auto it = named.find(n);
    return it == named.end() ? OpKind::kUnknown : it->second;
  };

  // These are for lists and dictionaries, though tensors have operators of the same names.
  if (TakesContainer(*schema) && (name == "aten::sort" || name == "aten::copy" || name == "aten::index")) {
    info.kind = OpKind::kContainer;
    return info;
  }
  if (!TakesTensors(*schema) && !ReturnsTensors(*schema)) {
    // Operators on Python numbers and containers.
    if (TakesContainer(*schema) && NamesOf(OpKind::kContainer).contains(name)) {
      info.kind = OpKind::kContainer;
    } else if (NamesOf(OpKind::kScalar).contains(name)) {
      info.kind = OpKind::kScalar;
    } else if (NamesOf(OpKind::kContainer).contains(name)) {
      info.kind = OpKind::kContainer;
    } else if (NamesOf(OpKind::kOther).contains(name)) {
      info.kind = OpKind::kOther;
    }
    return info;
  }
  if (NamesOf(OpKind::kOther).contains(name)) {
    info.kind = OpKind::kOther;
    return info;
  }
  if (!ReturnsTensors(*schema) && NamesOf(OpKind::kScalar).contains(name) && !schema->returns.empty()) {
    info.kind = OpKind::kScalar;
    return info;
  }
  if (NamesOf(OpKind::kRandom).contains(name) && !(schema->IsMutable() && absl::StrContains(op.overload(), "out"))) {
    info.kind = OpKind::kRandom;
    info.decomposes = HasDecomposition(op);
    return info;
  }
  if (TakesContainer(*schema) && NamesOf(OpKind::kContainer).contains(name) &&
      schema->arguments[0].type_text.find('t') == 0) {
    info.kind = OpKind::kContainer;
    return info;
  }
  if (name == "aten::append" || name == "aten::__getitem__" || name == "aten::_set_item" || name == "aten::extend" ||
      name == "aten::pop" || name == "aten::insert" || name == "aten::clear" || name == "aten::reverse") {
    info.kind = OpKind::kContainer;
    return info;
  }

  if (absl::StartsWith(name, "aten::_foreach_") && !absl::StrContains(op.overload(), "out")) {
    static const auto* const kNames = new absl::flat_hash_set<std::string>(absl::StrSplit(kForeach, ' '));
    if (kNames->contains(name.substr(15)) ||
        (name.back() == '_' && kNames->contains(name.substr(15, name.size() - 16)))) {
      info.kind = OpKind::kComposite;
      info.decomposes = HasDecomposition(op);
    }
    return info;
  }

  if (schema->IsMutable()) {
    static const auto* const kInplaceViews = new absl::flat_hash_set<std::string>{
        "aten::t_",          "aten::transpose_", "aten::squeeze_",  "aten::unsqueeze_",
        "aten::as_strided_", "aten::swapaxes_",  "aten::swapdims_", "aten::detach_"};
    if (kInplaceViews->contains(name)) {
      info.functional = FunctionalOfInplace(op);
      if (info.functional) info.kind = OpKind::kInplaceView;
      return info;
    }
    // Composites that write to buffers.
    if (kind_of(name) == OpKind::kComposite && !absl::StrContains(op.overload(), "out")) {
      info.kind = OpKind::kComposite;
      info.decomposes = HasDecomposition(op);
      return info;
    }
    const bool first_written = !schema->arguments.empty() && Writes(schema->arguments[0]);
    if (name == "aten::fill_diagonal_") {
      info.kind = OpKind::kMovement;
      return info;
    }
    const OpName f = first_written ? FunctionalOfInplace(op) : FunctionalOfOut(*schema);
    if (!f || GetOpInfo(f).kind == OpKind::kUnknown) return info;
    info.kind = first_written ? OpKind::kInplace : OpKind::kOut;
    info.functional = f;
    return info;
  }

  if (op_internal::HasView(op)) {
    info.kind = OpKind::kView;
  } else if (op_internal::HasReduction(op)) {
    info.kind = OpKind::kReduction;
  } else if (NamesOf(OpKind::kFactory).contains(name)) {
    info.kind = OpKind::kFactory;
    info.decomposes = HasDecomposition(op);
  } else if (op_internal::HasPointwise(op)) {
    info.kind = OpKind::kPointwise;
  } else if (op.full() == "aten::max.other" || op.full() == "aten::min.other" || op.full() == "aten::where") {
    info.kind = OpKind::kComposite;
    info.decomposes = HasDecomposition(op);
  } else {
    const OpKind k = kind_of(name);
    if (k == OpKind::kMovement || k == OpKind::kLibrary || k == OpKind::kComposite || k == OpKind::kOther)
      info.kind = k;
    info.decomposes = HasDecomposition(op);
    if (GetOpTraits(op).library == LibraryCall::kPlain) info.kind = OpKind::kLibrary;
    if (info.kind == OpKind::kUnknown && info.decomposes) info.kind = OpKind::kComposite;
  }
  return info;
}

}  // namespace

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kUnknown:
      return "unknown";
    case OpKind::kPointwise:
      return "pointwise";
    case OpKind::kReduction:
      return "reduction";
    case OpKind::kView:
      return "view";
    case OpKind::kInplace:
      return "in-place";
    case OpKind::kOut:
      return "out";
    case OpKind::kInplaceView:
      return "in-place view";
    case OpKind::kFactory:
      return "factory";
    case OpKind::kMovement:
      return "movement";
    case OpKind::kLibrary:
      return "library";
    case OpKind::kComposite:
      return "composite";
    case OpKind::kControl:
      return "control";
    case OpKind::kRandom:
      return "random";
    case OpKind::kScalar:
      return "scalar";
    case OpKind::kContainer:
      return "container";
    case OpKind::kOther:
      return "other";
  }
  return "unknown";
}

namespace {

const OpInfo* FindOpInfo(OpName op) {
  static absl::Mutex mutex;
  static auto* const cache = new absl::flat_hash_map<OpName, std::unique_ptr<const OpInfo>>();
  {
    absl::ReaderMutexLock lock(&mutex);
    if (auto it = cache->find(op); it != cache->end()) return it->second.get();
  }
  // Called without the lock: describing an in-place operator asks for its functional counterpart.
  auto info = std::make_unique<const OpInfo>(Describe(op));
  absl::MutexLock lock(&mutex);
  return cache->emplace(op, std::move(info)).first->second.get();
}

}  // namespace

const OpInfo& GetOpInfo(OpName op) { return *op_internal::Recent<OpInfo>(op, FindOpInfo); }

std::vector<OpName> DescribedOps() {
  std::vector<OpName> ops;
  for (absl::string_view name : AllSchemaNames()) {
    const OpName op = OpName::Get(name);
    if (GetOpInfo(op).kind != OpKind::kUnknown) ops.push_back(op);
  }
  return ops;
}

}  // namespace smelt
