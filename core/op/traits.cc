#include "smelt/core/op/traits.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "smelt/core/base/check.h"
#include "smelt/core/op/recent.h"

namespace smelt {
namespace {

using F = OpFamily;
using L = LibraryCall;
using O = Opening;
using R = DataRefusal;
using A = AutocastClass;

// The operators of a row have the same traits. A name without a namespace is one of aten; a name with an overload
// ("eq.int") is for that overload alone, which then has no trait of its name.
struct Row {
  const char* names;
  OpTraits traits;
};

constexpr Row kRows[] = {
    // --- memory, fills ---
    {"empty empty_permuted new_empty", {.family = F::kAllocation}},
    {"empty_like", {.family = F::kAllocation, .like_operand = true}},
    {"empty_strided new_empty_strided", {.family = F::kAllocation, .takes_strides = true}},
    {"smelt::full zeros ones full scalar_tensor new_zeros new_ones new_full", {.family = F::kFill}},
    {"zeros_like ones_like full_like", {.family = F::kFill, .like_operand = true}},
    {"arange", {.family = F::kArange, .is_range = true}},
    {"linspace", {.family = F::kLinspace, .is_range = true}},
    {"linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor range logspace", {.is_range = true}},
    {"eye", {.family = F::kEye}},
    {"tensor", {.opening = O::kNumberTensor}},

    // --- copies, conversions ---
    {"smelt::view", {.family = F::kRegionView}},
    {"smelt::materialize", {.family = F::kMaterialize}},
    {"clone lift_fresh_copy alias_copy detach_copy", {.family = F::kCopy}},
    {"contiguous", {.family = F::kCopy, .opening = O::kContiguous, .may_alias = true}},
    {"to type_as float", {.family = F::kConversion, .opening = O::kConvert, .may_alias = true}},
    {"_to_copy prims::convert_element_type", {.family = F::kConversion}},
    {"_autocast_to_reduced_precision _autocast_to_full_precision", {.opening = O::kConvert}},

    // --- movement ---
    {"smelt::overlay", {.family = F::kOverlay}},
    {"tril triu", {.family = F::kTriangle}},
    {"constant_pad_nd", {.family = F::kConstantPad}},
    {"reflection_pad1d reflection_pad2d reflection_pad3d", {.family = F::kReflectionPad}},
    {"replication_pad1d replication_pad2d replication_pad3d", {.family = F::kReplicationPad}},
    {"_pad_circular", {.family = F::kCircularPad}},
    {"flip", {.family = F::kFlip}},
    {"roll", {.family = F::kRoll}},
    {"repeat", {.family = F::kRepeat}},
    {"repeat_interleave", {.family = F::kRepeatInterleave, .opening = O::kDataSizes, .refusal = R::kIndex}},
    {"gather", {.family = F::kGather, .indices = IndexRule::kAlongDim, .refusal = R::kIndex}},
    {"index_select", {.family = F::kIndexSelect, .indices = IndexRule::kAlongDim, .refusal = R::kIndex}},
    {"embedding", {.family = F::kEmbedding, .indices = IndexRule::kRows, .refusal = R::kIndex}},
    {"index", {.family = F::kIndex, .opening = O::kDataSizes, .indices = IndexRule::kList, .refusal = R::kIndex}},
    {"_unsafe_index", {.family = F::kIndex, .refusal = R::kIndex}},
    {"take", {.family = F::kTake, .indices = IndexRule::kFlat, .refusal = R::kIndex}},
    {"take_along_dim embedding_bag _embedding_bag", {.refusal = R::kIndex}},
    {"one_hot", {.family = F::kOneHot, .refusal = R::kIndex}},
    {"cat concat concatenate", {.family = F::kCat}},
    {"stack", {.family = F::kStack}},
    {"scatter scatter_add scatter_reduce index_add index_copy",
     {.family = F::kIndexedWrite, .indices = IndexRule::kAlongDim, .refusal = R::kIndex}},
    {"index_fill", {.family = F::kIndexedWrite, .indices = IndexRule::kAlongDimWrapped, .refusal = R::kIndex}},
    {"index_reduce", {.refusal = R::kIndex}},
    {"put", {.family = F::kIndexedWrite, .indices = IndexRule::kFlat, .refusal = R::kIndex}},
    {"index_put _unsafe_index_put",
     {.family = F::kIndexedWrite, .opening = O::kDataSizes, .indices = IndexRule::kList, .refusal = R::kIndex}},
    {"_index_put_impl", {.family = F::kIndexedWrite, .indices = IndexRule::kList, .refusal = R::kIndex}},
    {"index_put_ _index_put_impl_", {.opening = O::kDataSizes}},
    {"slice_scatter select_scatter diagonal_scatter", {.family = F::kViewScatter, .opening = O::kView}},
    {"as_strided_scatter",
     {.family = F::kViewScatter, .opening = O::kView, .reads_strides = true, .reaches_storage = true}},

    // --- windows, resampling ---
    {"max_pool1d max_pool1d_with_indices", {.family = F::kMaxPool, .spatial_dims = 1}},
    {"max_pool2d max_pool2d_with_indices", {.family = F::kMaxPool, .spatial_dims = 2}},
    {"max_pool3d max_pool3d_with_indices", {.family = F::kMaxPool, .spatial_dims = 3}},
    {"avg_pool1d", {.family = F::kAvgPool, .spatial_dims = 1}},
    {"avg_pool2d", {.family = F::kAvgPool, .spatial_dims = 2}},
    {"avg_pool3d", {.family = F::kAvgPool, .spatial_dims = 3, .autocast = A::kFullPrecision}},
    {"adaptive_max_pool1d", {.family = F::kAdaptiveMaxPool, .spatial_dims = 1}},
    {"adaptive_max_pool2d", {.family = F::kAdaptiveMaxPool, .spatial_dims = 2}},
    {"adaptive_max_pool3d", {.family = F::kAdaptiveMaxPool, .spatial_dims = 3}},
    {"adaptive_avg_pool1d", {.family = F::kAdaptiveAvgPool, .spatial_dims = 1}},
    {"adaptive_avg_pool2d _adaptive_avg_pool2d", {.family = F::kAdaptiveAvgPool, .spatial_dims = 2}},
    {"adaptive_avg_pool3d _adaptive_avg_pool3d", {.family = F::kAdaptiveAvgPool, .spatial_dims = 3}},
    {"upsample_nearest1d _upsample_nearest_exact1d", {.family = F::kUpsampleNearest, .spatial_dims = 1}},
    {"upsample_nearest2d _upsample_nearest_exact2d", {.family = F::kUpsampleNearest, .spatial_dims = 2}},
    {"upsample_nearest3d _upsample_nearest_exact3d", {.family = F::kUpsampleNearest, .spatial_dims = 3}},
    {"upsample_linear1d", {.family = F::kUpsampleLinear, .spatial_dims = 1}},
    {"upsample_bilinear2d", {.family = F::kUpsampleLinear, .spatial_dims = 2}},
    {"upsample_trilinear3d", {.family = F::kUpsampleLinear, .spatial_dims = 3}},
    {"im2col", {.family = F::kIm2Col, .spatial_dims = 2}},
    {"col2im", {.family = F::kCol2Im, .spatial_dims = 2}},
    {"masked_scatter", {.family = F::kMaskedScatter, .refusal = R::kFactorization}},
    {"max_unpool2d max_unpool3d", {.refusal = R::kIndex}},

    // --- views, and what is one for some layouts ---
    {"reshape flatten ravel reshape_as", {.opening = O::kReshape, .may_alias = true}},
    {"_unsafe_view unflatten view_as", {.opening = O::kReshape}},
    {"view", {.opening = O::kView}},
    {"expand_as", {.opening = O::kExpandAs}},
    {"rot90", {.opening = O::kRot90}},
    {"detach_ requires_grad_ positive lift lift_fresh", {.opening = O::kIdentity}},
    {"mH adjoint matrix_H", {.opening = O::kAdjoint, .conjugates_lazily = true}},
    {"conj", {.opening = O::kConjugate, .conjugates_lazily = true}},
    {"_conj", {.conjugates_lazily = true}},
    {"conj_physical", {.opening = O::kConjugate, .reads_conjugates = true}},
    {"conj_physical_", {.reads_conjugates = true}},
    {"real", {.opening = O::kConjugate}},
    {"resolve_conj resolve_neg", {.resolves = true}},
    {"broadcast_tensors", {.opening = O::kBroadcastTensors}},
    {"unsafe_split unsafe_chunk unsafe_split_with_sizes", {.opening = O::kUnsafeSplit}},
    {"atleast_1d atleast_2d atleast_3d", {.opening = O::kAtLeast}},
    {"cartesian_prod", {.opening = O::kCartesianProduct}},
    {"einsum", {.opening = O::kEinsum}},
    {"meshgrid", {.opening = O::kMeshgrid}},
    {"sum_to_size", {.opening = O::kSumToSize}},
    {"as_strided as_strided_ as_strided_copy", {.reads_strides = true, .reaches_storage = true, .takes_strides = true}},
    {"_reshape_alias _reshape_alias_copy view_as_complex view_as_complex_copy", {.takes_strides = true}},
    {"set_", {.reads_strides = true, .reaches_storage = true, .resizes = true}},
    {"set_data", {.reads_strides = true}},
    {"resize_ resize_as_", {.reaches_storage = true, .resizes = true}},
    {"stride sym_stride is_contiguous sym_is_contiguous is_non_overlapping_and_dense is_strides_like_format "
     "storage_offset sym_storage_offset",
     {.reads_strides = true}},

    // --- composites that are opened, or that refuse data ---
    {"dropout dropout_ feature_dropout feature_dropout_ alpha_dropout alpha_dropout_ feature_alpha_dropout "
     "feature_alpha_dropout_",
     {.opening = O::kDropout}},
    {"native_dropout", {.opening = O::kNativeDropout}},
    {"silu silu_", {.opening = O::kComplexSilu}},
    {"batch_norm native_batch_norm _native_batch_norm_legit", {.opening = O::kBatchNorm}},
    {"instance_norm", {.opening = O::kInstanceNorm}},
    {"max min", {.opening = O::kMaximumOfTwo}},
    {"kron", {.opening = O::kKron}},
    {"diff", {.opening = O::kDiff}},
    {"fill_diagonal_", {.opening = O::kFillDiagonal}},
    {"rrelu rrelu_", {.opening = O::kRrelu}},
    {"embedding_renorm embedding_renorm_", {.opening = O::kEmbeddingRenorm}},
    {"_linalg_check_errors", {.opening = O::kCheckErrors}},
    {"nonzero argwhere nonzero_numpy masked_select _unique2 unique_consecutive unique_dim", {.opening = O::kDataSizes}},
    {"bincount", {.opening = O::kDataSizes, .refusal = R::kIndex}},
    {"where", {.opening = O::kDataSizes, .wraps_numbers = true}},
    {"nll_loss nll_loss2d cross_entropy_loss multi_margin_loss", {.refusal = R::kIndex, .autocast = A::kFullPrecision}},
    {"nll_loss_nd nll_loss_forward nll_loss2d_forward", {.refusal = R::kIndex}},
    {"linalg_cholesky cholesky linalg_inv inverse linalg_solve _linalg_solve_ex linalg_svd svd linalg_eigh "
     "linalg_eigvalsh linalg_pinv pinverse linalg_lstsq logdet linalg_tensorinv linalg_tensorsolve "
     "linalg_matrix_power matrix_power",
     {.refusal = R::kFactorization}},
    {"binary_cross_entropy", {.refusal = R::kFactorization, .autocast = A::kFullPrecision}},
    {"conv1d conv2d conv3d linalg_vecdot addbmm linear matmul conv_tbc conv_transpose1d conv_transpose2d "
     "conv_transpose3d prelu scaled_dot_product_attention",
     {.autocast = A::kLowerPrecision}},
    {"grid_sampler polar prod quantile nanquantile cdist trace mse_loss cosine_embedding_loss hinge_embedding_loss "
     "poisson_nll_loss smooth_l1_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss "
     "ctc_loss kl_div multilabel_margin_loss binary_cross_entropy_with_logits",
     {.autocast = A::kFullPrecision}},

    // --- elementwise ---
    {"add sub subtract rsub mul multiply true_divide ne ge not_equal less less_equal greater greater_equal bitwise_and "
     "bitwise_or bitwise_xor __xor__ bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ copysign maximum "
     "minimum atan2 logical_and logical_or logical_xor xlogy fmax fmin special_xlog1py heaviside eq lt le gt __and__ "
     "__or__",
     {.wraps_numbers = true}},
    {"div divide floor_divide remainder fmod", {.refusal = R::kDivision, .wraps_numbers = true}},

    // --- libraries ---
    {"mm bmm", {.library = L::kMatmul, .autocast = A::kLowerPrecision, .reads_conjugates = true}},
    {"_int_mm", {.library = L::kMatmul}},
    {"addmm baddbmm", {.library = L::kMatmulWithBias, .autocast = A::kLowerPrecision, .reads_conjugates = true}},
    {"addmm_ baddbmm_", {.reads_conjugates = true}},
    {"convolution", {.library = L::kConvolution}},
    {"convolution_backward", {.library = L::kConvolutionBackward}},
    {"_fft_c2c _fft_r2c _fft_c2r", {.library = L::kFourier}},
    {"linalg_inv_ex linalg_solve_ex", {.library = L::kSolve}},
    {"linalg_solve_triangular", {.library = L::kSolveTriangular}},
    {"linalg_cholesky_ex", {.library = L::kCholesky}},
    {"linalg_qr", {.library = L::kQr}},
    {"_linalg_svd", {.library = L::kSvd, .refusal = R::kFactorization}},
    {"_linalg_eigh", {.library = L::kEigh, .refusal = R::kFactorization}},
    {"_linalg_det _linalg_slogdet", {.library = L::kDeterminant}},
    {"sort", {.library = L::kSort}},
    {"topk", {.library = L::kTopK}},
    {"kthvalue median nanmedian mode", {.library = L::kPick}},
    {"searchsorted bucketize", {.library = L::kSearchSorted}},
    {"smelt::nonzero", {.library = L::kNonzero}},
    {"smelt::unique", {.library = L::kUnique}},
    {"smelt::unique_count", {.library = L::kUniqueCount}},
    {"smelt::bincount", {.library = L::kBincount}},
    {"torchvision::nms", {.opening = O::kDataSizes}},
    {"smelt::nms_order smelt::deformed_columns smelt::grouped_mm smelt::int8_mm smelt::int8_convolution "
     "smelt::row_sums smelt::int4_mm smelt::attention",
     {.library = L::kPlain}},
    {"torchvision::roi_align torchvision::roi_pool torchvision::ps_roi_align",
     {.library = L::kPlain, .refusal = R::kFactorization}},

    // --- random ---
    {"uniform", {.distribution = Distribution::kUniform, .like_operand = true}},
    {"rand", {.distribution = Distribution::kUniform}},
    {"rand_like", {.distribution = Distribution::kUniform, .like_operand = true}},
    {"normal_functional", {.distribution = Distribution::kNormal, .like_operand = true}},
    {"normal randn", {.distribution = Distribution::kNormal}},
    {"randn_like", {.distribution = Distribution::kNormal, .like_operand = true}},
    {"bernoulli", {.distribution = Distribution::kBernoulli, .like_operand = true}},
    {"exponential", {.distribution = Distribution::kExponential, .like_operand = true}},
    {"randint", {.distribution = Distribution::kRandint}},
    {"randint_like", {.distribution = Distribution::kRandint, .like_operand = true}},
    {"randperm", {.distribution = Distribution::kPermutation}},

    // --- Python's numbers ---
    {"eq.int", {.relation = NumberRelation::kEq}},
    {"ne.int", {.relation = NumberRelation::kNe}},
    {"lt.int", {.relation = NumberRelation::kLt}},
    {"le.int", {.relation = NumberRelation::kLe}},
    {"gt.int", {.relation = NumberRelation::kGt}},
    {"ge.int", {.relation = NumberRelation::kGe}},
    {"__and__.bool", {.relation = NumberRelation::kAnd}},
    {"__or__.bool", {.relation = NumberRelation::kOr}},
    {"__not__", {.relation = NumberRelation::kNot}},
};

using Table = absl::flat_hash_map<std::string, OpTraits>;

constexpr absl::string_view kInPlacePrefix = "smelt::inplace_";

const Table& Rows() {
  static const auto* const kTable = [] {
    auto* table = new Table();
    for (const Row& row : kRows) {
      for (absl::string_view name : absl::StrSplit(row.names, ' ', absl::SkipEmpty())) {
        const bool qualified = absl::StrContains(name, "::");
        const bool fresh = table->emplace(qualified ? name : absl::StrCat("aten::", name), row.traits).second;
        SMELT_CHECK(fresh) << name << " is registered twice";
      }
    }
    return table;
  }();
  return *kTable;
}

const OpTraits* FindTraits(OpName op) {
  static const OpTraits kDefault;
  if (!op) return &kDefault;
  if (const auto full = Rows().find(op.full()); full != Rows().end()) return &full->second;
  if (const auto name = Rows().find(op.name()); name != Rows().end()) return &name->second;
  if (!absl::StartsWith(op.name(), kInPlacePrefix)) return &kDefault;
  static absl::Mutex mutex;
  static auto* const in_place = new absl::flat_hash_map<OpName, std::unique_ptr<const OpTraits>>();
  absl::MutexLock lock(&mutex);
  std::unique_ptr<const OpTraits>& traits = (*in_place)[op];
  if (traits == nullptr) {
    const auto of = Rows().find(absl::StrCat("aten::", absl::StripPrefix(op.name(), kInPlacePrefix)));
    OpTraits t = of == Rows().end() ? OpTraits() : of->second;
    t.family = OpFamily::kInPlaceWrite;
    t.refusal = DataRefusal::kNone;  // the operator that it is made of has been asked
    traits = std::make_unique<const OpTraits>(t);
  }
  return traits.get();
}

}  // namespace

const OpTraits& GetOpTraits(OpName op) { return *op_internal::Recent<OpTraits>(op, FindTraits); }

std::vector<std::string> OperatorsWithTraits() {
  std::vector<std::string> names;
  for (const auto& [name, traits] : Rows()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

bool IsLeafFamily(OpFamily family) {
  return family == OpFamily::kFill || family == OpFamily::kArange || family == OpFamily::kLinspace ||
         family == OpFamily::kEye;
}

bool IsWindowed(OpFamily family) {
  switch (family) {
    case OpFamily::kMaxPool:
    case OpFamily::kAvgPool:
    case OpFamily::kAdaptiveMaxPool:
    case OpFamily::kAdaptiveAvgPool:
    case OpFamily::kCol2Im:
    case OpFamily::kMaskedScatter:
      return true;
    default:
      return false;
  }
}

bool RefusesData(LibraryCall call) {
  switch (call) {
    case LibraryCall::kSolve:
    case LibraryCall::kCholesky:
    case LibraryCall::kSvd:
    case LibraryCall::kEigh:
    case LibraryCall::kSearchSorted:
    case LibraryCall::kBincount:
      return true;
    default:
      return false;
  }
}

absl::string_view PureName(absl::string_view in_place_name) {
  static const auto* const kOtherwise = new absl::flat_hash_map<absl::string_view, absl::string_view>{
      {"aten::normal_", "aten::normal_functional"}, {"aten::__iand__", "aten::bitwise_and"},
      {"aten::__ior__", "aten::bitwise_or"},        {"aten::__ixor__", "aten::bitwise_xor"},
      {"aten::__ilshift__", "aten::__lshift__"},    {"aten::__irshift__", "aten::__rshift__"},
  };
  if (const auto it = kOtherwise->find(in_place_name); it != kOtherwise->end()) return it->second;
  absl::string_view pure = in_place_name;
  if (!absl::ConsumeSuffix(&pure, "_") || absl::EndsWith(pure, "_")) return {};
  return pure;
}

}  // namespace smelt
