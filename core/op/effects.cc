#include "smelt/core/op/effects.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "smelt/core/op/recent.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {

extern const char kHiddenEffects[];  // testdata/hidden_effects.txt

namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

bool IsTypeVariable(const Type& t) {
  return t.kind() == TypeKind::kClass && (t.class_name() == "t" || t.class_name() == "tVal");
}

const Type& Unwrap(const Type& t) {
  const Type* p = &t;
  while (p->kind() == TypeKind::kOptional) p = &p->element();
  return *p;
}

uint64_t Bit(size_t i) { return i < 64 ? uint64_t{1} << i : 0; }

// Change the geometry (or only what autograd and names know of) of their first argument, never its bytes.
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

// Look at sizes, strides, dtype or the handle; not at bytes.
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

// Say `(a)` or hide an alias, and may copy instead, or return the argument itself.
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

// Views that are the very argument where it is as asked already: of real numbers, real(x) is x; of no dimension, x.mT.
const NameSet& MayBeItself() {
  static const NameSet* const kNames = new NameSet{"aten::real", "aten::conj",    "aten::lift_fresh", "aten::mT",
                                                   "aten::mH",   "aten::adjoint", "aten::matrix_H"};
  return *kNames;
}

// Hide an alias, and never copy: their results are views, always.
const NameSet& HiddenPureViews() {
  static const NameSet* const kNames =
      new NameSet{"aten::_unsafe_view", "aten::unsafe_split",      "aten::unsafe_split_with_sizes",
                  "aten::unsafe_chunk", "aten::broadcast_tensors", "aten::atleast_1d",
                  "aten::atleast_2d",   "aten::atleast_3d",        "aten::data",
                  "aten::meshgrid",     "aten::_remove_batch_dim", "aten::unflatten_dense_tensors"};
  return *kNames;
}

// Views whose result is never the argument's own handle.
const NameSet& NewHandles() {
  static const NameSet* const kNames = new NameSet{"aten::_unsafe_view",
                                                   "aten::unsafe_split",
                                                   "aten::unsafe_chunk",
                                                   "aten::unsafe_split_with_sizes",
                                                   "aten::unflatten_dense_tensors",
                                                   "aten::reshape_as",
                                                   "aten::slice_inverse",
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
                                                   "aten::fractional_max_pool2d",
                                                   "aten::kaiming_uniform_",
                                                   "aten::pca_lowrank"};
  return *kNames;
}

// Lists, dictionaries and objects hold elements; a schema's `t[]` with an annotation means the container.
bool IsElementContainer(const Type& t) {
  const Type& u = Unwrap(t);
  return u.kind() == TypeKind::kList || u.kind() == TypeKind::kDict;
}
bool IsTensorList(const Type& t) {
  const Type& u = Unwrap(t);
  return u.kind() == TypeKind::kList && Unwrap(u.element()).IsTensor();
}
// In a schema: a type variable may be anything.
bool FormalMayAlias(const Type& t) {
  return IsTypeVariable(t) || IsAliasingType(t) || (t.kind() == TypeKind::kOptional && FormalMayAlias(t.element()));
}

bool SharesSet(const AliasInfo& result, const std::vector<std::string>& before) {
  for (const std::string& set : result.after) {
    if (set == "*") continue;
    if (std::find(before.begin(), before.end(), set) != before.end()) return true;
  }
  return false;
}

bool AnyWrite(const AliasInfo& a) {
  if (a.is_write) return true;
  for (const AliasInfo& c : a.contained) {
    if (AnyWrite(c)) return true;
  }
  return false;
}
bool IsStored(const AliasInfo& a) { return a.IsWildcardAfter() && !a.IsWildcardBefore() && !a.before.empty(); }

// The effects that no schema says: nodes of TorchScript and of smelt.
const absl::flat_hash_map<absl::string_view, EffectKind>& SpecialKinds() {
  static const auto* const kKinds = new absl::flat_hash_map<absl::string_view, EffectKind>{
      {"prim::Constant", EffectKind::kConstant},
      {"prim::Uninitialized", EffectKind::kConstant},  // never looked at
      {"prim::If", EffectKind::kIf},
      {"prim::Loop", EffectKind::kLoop},
      {"smelt::cond", EffectKind::kCond},
      {"smelt::while_loop", EffectKind::kWhile},
      {"prim::TupleConstruct", EffectKind::kTupleConstruct},
      {"prim::ListConstruct", EffectKind::kListConstruct},
      {"prim::DictConstruct", EffectKind::kDictConstruct},
      {"prim::TupleUnpack", EffectKind::kTupleUnpack},
      {"prim::ListUnpack", EffectKind::kListUnpack},
      {"prim::TupleIndex", EffectKind::kTupleIndex},
      {"prim::TupleSlice", EffectKind::kTupleSlice},
      {"prim::GetAttr", EffectKind::kGetAttr},
      {"prim::SetAttr", EffectKind::kSetAttr},
      {"prim::CreateObject", EffectKind::kCreateObject},
      {"prim::fork", EffectKind::kFork},
      {"prim::awaitable", EffectKind::kFork},
      {"aten::wait", EffectKind::kWait},
      {"prim::awaitable_wait", EffectKind::kWait},
      {"prim::FusionGroup", EffectKind::kSubgraph},
      {"prim::CudaFusionGroup", EffectKind::kSubgraph},
      {"prim::TensorExprGroup", EffectKind::kSubgraph},
      {"prim::TensorExprDynamicGroup", EffectKind::kSubgraph},
      {"prim::oneDNNFusionGroup", EffectKind::kSubgraph},
      {"prim::DifferentiableGraph", EffectKind::kSubgraph},
      {"prim::FunctionalGraph", EffectKind::kSubgraph},
      {"prim::FallbackGraph", EffectKind::kSubgraph},
      {"prim::StaticSubgraph", EffectKind::kSubgraph},
      {"smelt::FusionGroup", EffectKind::kSubgraph},
      {"smelt::call", EffectKind::kSubgraph},
      {"prim::ConstantChunk", EffectKind::kConstantChunk},
  };
  return *kKinds;
}

OpEffects Unknown() {
  OpEffects e;
  e.kind = EffectKind::kUnknown;
  e.more_args = kReadsData | kReadsGeometry | kWritesData | kWritesGeometry | kReadsElements | kWritesElements |
                kReadsContainer | kWritesContainer | kShufflesContainer | kEscapes;
  e.more_results.unknown = e.more_results.fresh = true;
  e.side_effect = e.random = e.writes = true;
  return e;
}

// Runs code of TorchScript's that the graph does not show: it reaches what its arguments reach, and nothing else, for
// it has no globals.
OpEffects Call() {
  OpEffects e = Unknown();
  e.kind = EffectKind::kCall;
  return e;
}

OpEffects PureVarargs(uint16_t args) {
  OpEffects e;
  e.more_args = args;
  e.more_results.fresh = true;
  return e;
}

constexpr uint16_t kReadsAll = kReadsData | kReadsGeometry | kReadsElements | kReadsContainer;

bool MakeSpecial(absl::string_view name, OpEffects* e) {
  auto kind = SpecialKinds().find(name);
  if (kind != SpecialKinds().end()) {
    e->kind = kind->second;
    switch (kind->second) {
      case EffectKind::kTupleUnpack:
      case EffectKind::kTupleIndex:
      case EffectKind::kTupleSlice:
        break;  // tuples do not change: nothing is read
      case EffectKind::kListUnpack:
      case EffectKind::kGetAttr:
        e->more_args = kReadsContainer;
        break;
      case EffectKind::kConstantChunk:
        e->args = {kReadsGeometry};
        e->more_results.view = 1;
        break;
      case EffectKind::kSetAttr:
        e->args = {kReadsContainer | kWritesContainer, kStored};
        e->writes = true;
        break;
      case EffectKind::kWait:
        e->more_args = kReadsContainer;
        e->side_effect = true;
        break;
      case EffectKind::kFork:
        e->side_effect = true;
        break;
      case EffectKind::kSubgraph:
        *e = PureVarargs(kReadsAll);
        e->kind = EffectKind::kSubgraph;
        break;
      default:
        break;
    }
    return true;
  }
  static const NameSet* const kSelf0 = new NameSet{"prim::unchecked_cast",
                                                   "prim::unchecked_unwrap_optional",
                                                   "aten::_unwrap_optional",
                                                   "prim::profile",
                                                   "prim::profile_ivalue",
                                                   "prim::BailOut",
                                                   "prim::Guard",
                                                   "aten::Size",
                                                   "prim::annotate"};
  if (kSelf0->contains(name)) {
    e->results.resize(1);
    e->results[0].self = 1;
    return true;
  }
  if (name == "prim::TypeCheck" || name == "prim::RequiresGradCheck" || name == "prim::oneDNNFusionGuard" ||
      name == "prim::TensorExprDynamicGuard") {
    e->more_args = kReadsGeometry;
    for (int i = 0; i < 64; ++i) {
      ResultEffects r;
      r.self = Bit(i);
      e->results.push_back(r);
    }
    return true;
  }
  if (name == "prim::Print") {
    *e = PureVarargs(kReadsAll);
    e->side_effect = true;
    return true;
  }
  if (name == "prim::IfThenElse" || name == "prim::AutogradAdd" || name == "prim::max" || name == "prim::min") {
    *e = PureVarargs(kReadsAll);
    e->results.resize(1);
    e->results[0].self = 7;
    e->results[0].fresh = name != "prim::IfThenElse";
    return true;
  }
  if (name == "prim::ModuleContainerIndex") {
    e->args = {kReadsContainer};
    e->results.resize(1);
    e->results[0].element = 1;
    return true;
  }
  static const NameSet* const kUnknownNames = new NameSet{
      "prim::PythonOp", "prim::IgnoredPythonOp",       "prim::rpc_async", "prim::rpc_sync",    "prim::rpc_remote",
      "prim::Closure",  "prim::StaticRuntimeCopyOuts", "aten::to_here",   "aten::local_value", "aten::get_gradients"};
  if (kUnknownNames->contains(name)) {
    *e = Unknown();
    return true;
  }
  if (name == "prim::CallFunction" || name == "prim::CallMethod") {
    *e = Call();
    return true;
  }
  if (name == "prim::Enter" || name == "prim::Exit") {
    *e = Call();
    e->by = OpEffects::By::kWith;
    return true;
  }
  if (name == "aten::format" || name == "aten::percentFormat" || name == "aten::has_torch_function" ||
      name == "prim::AutogradAllNonZero" || name == "prim::AutogradAllZero" || name == "prim::AutogradAnyNonZero") {
    *e = PureVarargs(kReadsAll);
    return true;
  }
  if (name == "prim::AutogradZero" || name == "prim::tolist" || name == "prim::rangelist" ||
      name == "prim::VarConcat" || name == "prim::VarStack" || name == "prim::FusedConcat" ||
      name == "prim::MMTreeReduce" || name == "prim::MMBatchSide" || name == "prim::ConstantMKLDNNTensor" ||
      name == "prim::BroadcastMKLDNNTensors" || name == "prim::ChunkSizes" || name == "prim::BroadcastSizes") {
    *e = PureVarargs(kReadsAll);
    e->more_results.elements_fresh = true;
    return true;
  }
  return false;
}

// The list and dictionary operators: what a schema says of `t` and of `t[]`.
void DescribeContainers(const FunctionSchema& s, OpEffects* e) {
  absl::string_view name = s.op.name();
  uint64_t containers = 0, written = 0;
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (!IsElementContainer(a.type)) continue;
    containers |= Bit(i);
    if (name == "aten::update" && i == 1) {
      // Only read, though the schema has it written.
      e->args[i] = kReadsContainer;
    } else if (a.alias.is_write) {
      written |= Bit(i);
      e->args[i] |= kWritesContainer | kReadsContainer;
      static const NameSet* const kKeepPlaces = new NameSet{"aten::append", "aten::_set_item",  "aten::extend",
                                                            "aten::add_",   "aten::setdefault", "aten::update"};
      if (!kKeepPlaces->contains(name)) e->args[i] |= kShufflesContainer;
    }
  }
  for (size_t i = 0; i < s.arguments.size(); ++i) {
    const Argument& a = s.arguments[i];
    if (IsStored(a.alias)) e->args[i] |= kStored;
    if (written != 0 && (containers & Bit(i)) && !(written & Bit(i))) e->args[i] |= kStoresElements;
  }
  int default_arg = s.FindArgument("default_value");
  if (name == "aten::setdefault" && default_arg >= 0) e->args[default_arg] |= kStored;
  for (size_t k = 0; k < s.returns.size(); ++k) {
    const Argument& r = s.returns[k];
    ResultEffects& out = e->results[k];
    if (!FormalMayAlias(r.type)) continue;
    if (r.alias.is_write) continue;  // self, said by the annotation
    if (name == "aten::add_") {
      // The list itself, whatever the annotation leaves out.
      out.self = 1;
      out.fresh = false;
      continue;
    }
    if (IsElementContainer(r.type)) {
      out.fresh = true;
      out.view = 0;
      const bool pairs = name == "aten::dict" && Unwrap(s.arguments[0].type).kind() == TypeKind::kList;
      if (name == "aten::items" || pairs) {
        out.elements_deep = true;
        out.elements_element = containers;
      } else if (name == "aten::keys") {
        // Keys are tensors in one kind of dictionary only.
        if (s.op.overload() == "Tensor") out.elements_element = containers;
      } else {
        out.elements_element = containers;
      }
      if (name == "aten::get") out.element |= 1;
      continue;
    }
    out.fresh = false;
    if (name == "aten::popitem") {
      out.fresh = true;
      out.elements_element = containers;
      continue;
    }
    out.element |= containers;
    if (default_arg >= 0) out.self |= Bit(default_arg);
    if ((name == "aten::__getitem__" || name == "aten::select") && s.arguments.size() > 1 &&
        Unwrap(s.arguments[0].type).kind() == TypeKind::kList) {
      out.slot_arg = 1;
    }
  }
}

bool IsContainerOp(const FunctionSchema& s) {
  bool has_type_variable = false, has_container = false;
  for (const Argument& a : s.arguments) {
    const Type& u = Unwrap(a.type);
    if (u.kind() == TypeKind::kDict) return true;
    if (u.kind() == TypeKind::kList) {
      has_container = true;
      if (IsTypeVariable(Unwrap(u.element()))) has_type_variable = true;
      if (a.alias.is_write && !Unwrap(u.element()).IsTensor()) return true;
    }
  }
  static const NameSet* const kNames =
      new NameSet{"aten::sort",  "aten::reverse", "aten::remove",       "aten::sorted",    "aten::list",
                  "aten::copy",  "aten::append",  "aten::insert",       "aten::extend",    "aten::clear",
                  "aten::pop",   "aten::slice",   "aten::__getitem__",  "aten::_set_item", "aten::Delete",
                  "aten::index", "aten::count",   "aten::__contains__", "aten::dict"};
  if (has_container && kNames->contains(s.op.name()) && !s.arguments.empty() && IsElementContainer(s.arguments[0].type))
    return true;
  return has_type_variable && s.op.name() != "aten::as_tensor" && s.op.name() != "aten::tensor";
}

void ApplyHidden(OpEffects* e, absl::string_view line, const FunctionSchema& s) {
  std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  absl::string_view name = s.op.name();
  for (size_t f = 1; f < fields.size(); ++f) {
    std::vector<absl::string_view> w = absl::StrSplit(fields[f], ' ');
    auto number = [&](size_t i) {
      int n = -1;
      return i < w.size() && absl::SimpleAtoi(w[i], &n) ? n : -1;
    };
    if (w.size() == 3 && w[0] == "writes") {
      int i = number(2);
      if (i < 0 || i >= static_cast<int>(e->args.size())) continue;
      e->args[i] |= IsTensorList(s.arguments[i].type) ? kWritesElements : kWritesData;
      e->writes = true;
    } else if (w.size() == 6 && w[0] == "output" && w[4] == "input") {
      int k = number(1), i = number(5);
      if (k < 0 || k >= static_cast<int>(e->results.size()) || i < 0 || i >= static_cast<int>(s.arguments.size()))
        continue;
      ResultEffects& r = e->results[k];
      bool list_result = IsElementContainer(s.returns[k].type), list_arg = IsElementContainer(s.arguments[i].type);
      bool may_be_self = !NewHandles().contains(name);
      r.fresh = true;
      if (list_result) {
        if (list_arg) {
          r.elements_element_view |= Bit(i);
          if (may_be_self) r.elements_element |= Bit(i);
        } else {
          r.elements_view |= Bit(i);
          if (may_be_self) r.elements_self |= Bit(i);
        }
        r.elements_fresh = !HiddenPureViews().contains(name);
      } else {
        if (list_arg) {
          r.element_view |= Bit(i);
          if (may_be_self) r.element |= Bit(i);
        } else {
          r.view |= Bit(i);
          if (may_be_self) r.self |= Bit(i);
        }
        r.fresh = !HiddenPureViews().contains(name);
      }
      if (HiddenPureViews().contains(name)) {
        e->args[i] &= ~static_cast<uint16_t>(kReadsData | kReadsElements);
      }
    } else if (w.size() == 6 && w[0] == "outputs") {
      int k = number(1), l = number(3);
      if (k < 0 || l < 0 || k >= static_cast<int>(e->results.size()) || l >= static_cast<int>(e->results.size()))
        continue;
      if (k == l) {
        if (!Partitions().contains(name)) e->results[k].elements_overlap = true;
      } else {
        e->results[std::max(k, l)].overlaps_results |= 1u << std::min(k, l);
      }
    } else if (w.size() == 6 && w[0] == "input") {
      e->geometry_from = number(5);
    }
  }
}

const absl::flat_hash_map<absl::string_view, absl::string_view>& HiddenLines() {
  static const auto* const kLines = [] {
    auto* lines = new absl::flat_hash_map<absl::string_view, absl::string_view>();
    for (absl::string_view line : absl::StrSplit(absl::string_view(kHiddenEffects), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      size_t tab = line.find('\t');
      if (tab == absl::string_view::npos || line.substr(tab + 1) == "not run") continue;
      lines->emplace(line.substr(0, tab), line);
    }
    return lines;
  }();
  return *kLines;
}

OpEffects FromSchema(const FunctionSchema& s) {
  OpEffects e;
  const std::string& name = s.op.name();
  if (MakeSpecial(name, &e)) return e;
  if (s.is_vararg || s.is_varret) return Unknown();
  const bool container_op = IsContainerOp(s);
  const bool geometry_reader = GeometryReaders().contains(name);
  bool any_memory = false;
  for (const Argument& a : s.arguments) {
    uint16_t bits = 0;
    const Type& u = Unwrap(a.type);
    if (u.IsTensor()) {
      bits = kReadsGeometry | (geometry_reader ? 0 : kReadsData);
    } else if (u.kind() == TypeKind::kList || u.kind() == TypeKind::kDict) {
      bits = kReadsContainer;
      if (!container_op && IsTensorList(u)) bits |= kReadsElements | kReadsGeometry;
    } else if (FormalMayAlias(a.type) && !IsTypeVariable(u)) {
      bits = kReadsAll;
    }
    if (bits != 0 || FormalMayAlias(a.type)) any_memory = true;
    if (AnyWrite(a.alias) && !container_op) {
      e.writes = true;
      if (u.IsTensor()) {
        if (GeometryWriters().contains(name)) {
          bits = kWritesGeometry | kReadsGeometry;
        } else {
          bits |= kWritesData;
          if (a.kw_only) {
            bits |= kWritesGeometry;
            e.by = OpEffects::By::kOut;
          }
        }
      } else {
        bits |= kWritesElements;
      }
    }
    e.args.push_back(bits);
  }
  for (const Argument& r : s.returns) {
    ResultEffects out;
    if (FormalMayAlias(r.type)) {
      any_memory = true;
      const bool list_result = IsElementContainer(r.type);
      const AliasInfo& elements = list_result && !r.alias.contained.empty() ? r.alias.contained[0] : r.alias;
      uint64_t self = 0, view = 0, element = 0;
      for (size_t i = 0; i < s.arguments.size(); ++i) {
        const Argument& a = s.arguments[i];
        const AliasInfo& info =
            IsElementContainer(a.type) && !a.alias.contained.empty() ? a.alias.contained[0] : a.alias;
        if (!SharesSet(elements, info.before) && !SharesSet(elements, a.alias.before)) continue;
        if (IsElementContainer(a.type)) {
          element |= Bit(i);
        } else if (elements.is_write && info.is_write) {
          self |= Bit(i);
        } else if (Unwrap(a.type).IsTensor()) {
          view |= Bit(i);
        } else {
          self |= Bit(i);
        }
      }
      if (container_op && r.alias.is_write) {
        out.self = element | self;
      } else if (list_result) {
        out.fresh = true;
        out.elements_self = self;
        out.elements_view = view;
        out.elements_element = element;
        out.elements_fresh = (self | view | element) == 0;
        out.partition = view != 0 && Partitions().contains(name);
      } else {
        out.self = self;
        out.view = view;
        out.element = element;
        out.fresh = (self | view | element) == 0;
        out.unknown = elements.IsWildcardAfter() && !container_op;
        if (MayBeItself().contains(name)) {
          out.self |= view;
          e.by = OpEffects::By::kItself;
        }
        if (MayCopy().contains(name) && view != 0) {
          out.fresh = true;
          if (!NewHandles().contains(name)) out.self |= view;
        } else if (view != 0 && !s.IsMutable()) {
          // A view reads no bytes.
          for (size_t i = 0; i < s.arguments.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
        }
      }
      if (out.elements_view != 0 && !s.IsMutable()) {
        for (size_t i = 0; i < s.arguments.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
      }
    }
    e.results.push_back(out);
  }
  if (container_op) {
    DescribeContainers(s, &e);
    for (uint16_t a : e.args) e.writes |= (a & kWritesContainer) != 0;
  }
  if (auto hidden = HiddenLines().find(s.op.full()); hidden != HiddenLines().end()) ApplyHidden(&e, hidden->second, s);
  for (size_t k = 0; k < e.results.size(); ++k) {
    if (Partitions().contains(name)) e.results[k].partition = IsElementContainer(s.returns[k].type);
  }

  // By hand: what PyTorch does that neither says.
  if (name == "aten::set_" || name == "aten::set_data") {
    for (size_t i = 1; i < s.arguments.size(); ++i) {
      if (Unwrap(s.arguments[i].type).IsTensor()) {
        e.geometry_from = static_cast<int>(i);
        e.args[i] = kReadsGeometry;
      } else if (absl::StrContains(s.arguments[i].type_text, "Storage")) {
        e.storage_unknown = true;
      }
    }
    if (!e.args.empty()) e.args[0] = kWritesGeometry | kReadsGeometry;
    e.writes = true;
  }
  if ((name == "aten::expand_as" || name == "aten::view_as" || name == "aten::reshape_as" || name == "aten::type_as" ||
       name == "aten::resize_as_" || name == "aten::broadcast_to") &&
      e.args.size() > 1) {
    e.args[1] &= ~static_cast<uint16_t>(kReadsData);
  }
  if (name == "aten::chain_matmul" && !e.results.empty()) e.results[0].element = 1;
  if (name == "aten::_size_if_not_equal" && !e.results.empty()) {
    e.results[0].self = 1;
    e.results[0].fresh = true;
  }

  auto argument = [&](absl::string_view a) { return static_cast<int8_t>(s.FindArgument(a)); };
  if (absl::StrContains(name, "batch_norm") || absl::StrContains(name, "instance_norm")) {
    for (absl::string_view flag : {"training", "train", "use_input_stats"}) {
      if (int8_t i = argument(flag); i >= 0) {
        e.by = OpEffects::By::kTraining;
        e.by_arg = i;
        for (absl::string_view stat : {"running_mean", "running_var"}) {
          if (int8_t k = argument(stat);
              k >= 0 && !absl::StrContains(name, "no_training") && !absl::StrContains(name, "backward") &&
              !absl::StrContains(name, "functional") && !absl::StrContains(name, "no_stats")) {
            e.args[k] |= kWritesData;
            e.writes = true;
          }
        }
        break;
      }
    }
  } else if (absl::StrContains(name, "dropout") && argument("train") >= 0) {
    e.by = OpEffects::By::kDropout;
    e.by_arg = argument("train");
    e.by_arg2 = argument("p");
  } else if (name == "aten::to" && argument("copy") >= 0) {
    e.by = OpEffects::By::kTo;
    e.by_arg = argument("copy");
    e.by_arg2 = s.op.overload() == "dtype" ? argument("dtype") : -1;
    for (size_t i = 1; i < e.args.size(); ++i) e.args[i] &= ~static_cast<uint16_t>(kReadsData);
  } else if (name == "aten::contiguous") {
    e.by = OpEffects::By::kContiguous;
    e.by_arg = 1;
  } else if (name == "aten::reshape" || name == "aten::flatten" || name == "aten::ravel") {
    e.by = OpEffects::By::kReshape;
    if (name == "aten::reshape") e.by_arg = 1;
    if (name == "aten::flatten") e.by_arg2 = 1;
  } else if (name == "aten::type_as") {
    e.by = OpEffects::By::kTypeAs;
  } else if (s.op.full() == "aten::einsum") {
    e.by = OpEffects::By::kEinsum;
  }
  e.random |= RandomNames().contains(name);
  e.side_effect |= SideEffects().contains(name);
  for (const Argument& a : s.arguments) {
    if (absl::StrContains(a.type_text, "Generator")) e.random = true;
  }
  if (!any_memory && !e.random && !e.side_effect) e.kind = EffectKind::kScalar;
  return e;
}

void Finish(OpEffects* e) {
  e->pure = !e->writes && !e->random && !e->side_effect &&
            (e->kind == EffectKind::kGeneric || e->kind == EffectKind::kScalar);
  auto plain = [](const ResultEffects& r) {
    return r.self == 0 && r.view == 0 && r.element == 0 && r.element_view == 0 && !r.unknown && r.elements_self == 0 &&
           r.elements_view == 0 && r.elements_element == 0 && r.elements_element_view == 0 && !r.elements_fresh &&
           !r.elements_unknown;
  };
  for (const ResultEffects& r : e->results) e->pure &= plain(r);
  e->pure &= plain(e->more_results);
}

void Or(ResultEffects* a, const ResultEffects& b) {
  a->self |= b.self;
  a->view |= b.view;
  a->element |= b.element;
  a->element_view |= b.element_view;
  a->fresh |= b.fresh;
  a->unknown |= b.unknown;
  a->elements_self |= b.elements_self;
  a->elements_view |= b.elements_view;
  a->elements_element |= b.elements_element;
  a->elements_element_view |= b.elements_element_view;
  a->elements_fresh |= b.elements_fresh;
  a->elements_unknown |= b.elements_unknown;
  a->elements_deep |= b.elements_deep;
  a->elements_overlap |= b.elements_overlap;
  a->slot_arg = -1;
  a->partition = false;
  a->overlaps_results |= b.overlaps_results;
}

// A name without overload: whatever any of its overloads does.
OpEffects UnionOf(const std::vector<const FunctionSchema*>& overloads) {
  OpEffects e = FromSchema(*overloads[0]);
  for (size_t i = 1; i < overloads.size(); ++i) {
    OpEffects o = FromSchema(*overloads[i]);
    if (o.kind == EffectKind::kUnknown) return o;
    if (o.args.size() > e.args.size()) e.args.resize(o.args.size());
    for (size_t k = 0; k < o.args.size(); ++k) e.args[k] |= o.args[k];
    if (o.results.size() > e.results.size()) e.results.resize(o.results.size());
    for (size_t k = 0; k < o.results.size(); ++k) Or(&e.results[k], o.results[k]);
    if (e.kind == EffectKind::kScalar) e.kind = o.kind;
    e.random |= o.random;
    e.side_effect |= o.side_effect;
    e.writes |= o.writes;
    e.storage_unknown |= o.storage_unknown;
    if (o.geometry_from >= 0) e.geometry_from = o.geometry_from;
    e.by = OpEffects::By::kNothing;
  }
  return e;
}

OpEffects Make(OpName op) {
  OpEffects e;
  const FunctionSchema* schema = FindSchema(op);
  if (schema != nullptr) {
    e = FromSchema(*schema);
  } else if (MakeSpecial(op.name(), &e)) {
  } else if (op.full() == "smelt::view") {
    e.args = {kReadsGeometry};
    e.results.resize(1);
    e.results[0].view = 1;
  } else if (std::vector<const FunctionSchema*> overloads = FindOverloads(op.name());
             !overloads.empty() && op.overload().empty()) {
    e = UnionOf(overloads);
  } else {
    e = Unknown();
  }
  if (op.full() == "smelt::view" && !e.results.empty()) {
    e.args = {kReadsGeometry};
    e.results[0] = ResultEffects();
    e.results[0].view = 1;
  }
  // Of the pure form (docs/architecture.md): the result takes its first argument's memory over, which is where it
  // counts in which order nodes stand.
  const bool acts = absl::StartsWith(op.name(), "smelt::inplace_");
  if (acts) e = GetOpEffects(OpName::Get(absl::StrCat("aten::", op.full().substr(sizeof("smelt::inplace_") - 1))));
  if ((acts || op.full() == "smelt::write_region") && !e.args.empty()) {
    e.args[0] |= kWritesData;
    e.results.resize(1);
    e.results[0] = ResultEffects();
    e.results[0].self = 1;
    e.writes = true;
  }
  Finish(&e);
  return e;
}

std::optional<bool> ConstantBool(const Graph& g, ValueId v) {
  std::optional<ConstantValue> c = GetConstant(g, v);
  if (!c) return std::nullopt;
  if (const bool* b = std::get_if<bool>(&*c)) return *b;
  if (const int64_t* i = std::get_if<int64_t>(&*c)) return *i != 0;
  return std::nullopt;
}

void ViewOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0].fresh = false;
  e->results[0].self = 0;
  if (!e->args.empty()) e->args[0] &= ~static_cast<uint16_t>(kReadsData);
}
void SelfOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0] = ResultEffects();
  e->results[0].self = 1;
  if (!e->args.empty()) e->args[0] &= ~static_cast<uint16_t>(kReadsData);
}
void FreshOnly(OpEffects* e) {
  if (e->results.empty()) return;
  e->results[0] = ResultEffects();
  e->results[0].fresh = true;
}

}  // namespace

bool IsTensorType(const Type& t) { return Unwrap(t).IsTensor(); }

// What prim::Constant[name="f"] gives to prim::CallFunction: code, no memory.
static bool IsFunctionType(const Type& t) { return t.kind() == TypeKind::kClass && t.class_name() == "Function"; }

bool IsContainerType(const Type& t) {
  switch (Unwrap(t).kind()) {
    case TypeKind::kList:
    case TypeKind::kTuple:
    case TypeKind::kDict:
    case TypeKind::kFuture:
    case TypeKind::kUnion:
    case TypeKind::kAny:
      return true;
    case TypeKind::kClass:
      return !IsFunctionType(Unwrap(t));
    default:
      return false;
  }
}

bool IsAliasingType(const Type& t) {
  switch (t.kind()) {
    case TypeKind::kTensor:
    case TypeKind::kList:
    case TypeKind::kDict:
    case TypeKind::kFuture:
    case TypeKind::kAny:
      return true;
    case TypeKind::kClass:
      return !IsFunctionType(t);
    case TypeKind::kOptional:
      return IsAliasingType(t.element());
    case TypeKind::kUnion:
    case TypeKind::kTuple:
      for (const Type& e : t.elements()) {
        if (IsAliasingType(e)) return true;
      }
      return false;
    default:
      return false;
  }
}

namespace {

const OpEffects* FindOpEffects(OpName op) {
  static absl::Mutex mutex;
  static auto* const cache = new absl::flat_hash_map<OpName, std::unique_ptr<const OpEffects>>();
  {
    absl::ReaderMutexLock lock(&mutex);
    auto it = cache->find(op);
    if (it != cache->end()) return it->second.get();
  }
  auto made = std::make_unique<const OpEffects>(Make(op));
  absl::MutexLock lock(&mutex);
  auto [it, inserted] = cache->try_emplace(op, std::move(made));
  return it->second.get();
}

}  // namespace

const OpEffects& GetOpEffects(OpName op) { return *op_internal::Recent<OpEffects>(op, FindOpEffects); }

OpEffects NodeEffects(const Graph& g, const Node& n, const OpEffects& effects, bool trust_types) {
  OpEffects e = effects;
  auto has = [&](int i) { return i >= 0 && i < static_cast<int>(n.inputs.size()); };
  switch (e.by) {
    case OpEffects::By::kNothing:
      return e;
    case OpEffects::By::kTraining: {
      std::optional<bool> training = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      e.writes = false;
      for (size_t i = 0; i < e.args.size(); ++i) {
        if ((e.args[i] & kWritesData) == 0) continue;
        // save_mean and save_var of the _legit forms are out arguments: those stay.
        bool is_stat = static_cast<int>(i) < e.by_arg;
        if (is_stat && training == false) e.args[i] &= ~static_cast<uint16_t>(kWritesData);
        e.writes |= (e.args[i] & kWritesData) != 0;
      }
      break;
    }
    case OpEffects::By::kEinsum: {
      // Of one operand it may be a view; two are multiplied.
      if (!has(1)) break;
      const Node& list = g.node(g.value(n.inputs[1]).def);
      if (list.op.name() == "prim::ListConstruct" && list.inputs.size() >= 2 && g.value(n.inputs[1]).uses.size() == 1) {
        FreshOnly(&e);
      }
      break;
    }
    case OpEffects::By::kDropout: {
      std::optional<bool> train = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      bool zero = false, nonzero = false;
      if (has(e.by_arg2)) {
        std::optional<ConstantValue> p = GetConstant(g, n.inputs[e.by_arg2]);
        if (p) {
          if (const double* d = std::get_if<double>(&*p)) zero = *d == 0;
          if (const int64_t* i = std::get_if<int64_t>(&*p)) zero = *i == 0;
          nonzero = !zero && (std::holds_alternative<double>(*p) || std::holds_alternative<int64_t>(*p));
        }
      }
      if (n.op.name() == "aten::native_dropout") {
        if (train == false || zero) e.random = false;
      } else if (train == true && nonzero && trust_types && !effects.writes) {
        // Without elements it is the argument itself, which only a change of geometry could tell.
        FreshOnly(&e);
      } else if (train == false || zero) {
        if (!effects.writes) SelfOnly(&e);
        e.random = false;
        for (uint16_t& a : e.args) a &= ~static_cast<uint16_t>(kWritesData);
        e.writes = false;
      }
      break;
    }
    case OpEffects::By::kTo: {
      std::optional<bool> copy = has(e.by_arg) ? ConstantBool(g, n.inputs[e.by_arg]) : std::nullopt;
      if (copy == true) {
        FreshOnly(&e);
      } else if (has(e.by_arg2) && IsTensorType(g.value(n.inputs[0]).type)) {
        const Type& type = Unwrap(g.value(n.inputs[0]).type);
        std::optional<Expr> code = GetIntExpr(g, n.inputs[e.by_arg2]);
        if (type.tensor().dtype && code && code->IsConstant()) {
          std::optional<DType> to = DTypeFromScalarType(*code->Constant());
          bool same = to && *to == *type.tensor().dtype;
          if (!same) {
            FreshOnly(&e);
          } else if (copy == false) {
            // A memory format may still ask for a copy.
            bool no_format = n.inputs.size() <= 5 || g.value(n.inputs[5]).type.kind() == TypeKind::kNone;
            if (no_format) SelfOnly(&e);
          }
        }
      }
      break;
    }
    case OpEffects::By::kWith: {
      // PyTorch's own (no_grad, record_function) touch no memory.
      if (n.inputs.empty()) break;
      const Type& type = Unwrap(g.value(n.inputs[0]).type);
      if (type.kind() != TypeKind::kClass || !absl::StartsWith(type.class_name(), "__torch__.torch.")) break;
      e = OpEffects();
      e.side_effect = true;
      break;
    }
    case OpEffects::By::kItself: {
      // Whether the handle is the argument's own is seen only where some node changes a geometry.
      if (!trust_types || n.inputs.empty() || !IsTensorType(g.value(n.inputs[0]).type)) break;
      const TensorType& t = Unwrap(g.value(n.inputs[0]).type).tensor();
      const bool real = t.dtype && !IsComplex(*t.dtype), scalar = t.sizes && t.sizes->empty();
      const std::string& name = n.op.name();
      bool itself = real && scalar;
      if (name == "aten::lift_fresh") itself = true;
      if (name == "aten::mT") itself = scalar;
      if (name == "aten::real" || name == "aten::conj") itself = real;
      itself ? SelfOnly(&e) : ViewOnly(&e);
      break;
    }
    case OpEffects::By::kTypeAs: {
      if (n.inputs.size() == 2 && IsTensorType(g.value(n.inputs[0]).type) && IsTensorType(g.value(n.inputs[1]).type)) {
        const TensorType &a = Unwrap(g.value(n.inputs[0]).type).tensor(),
                         &b = Unwrap(g.value(n.inputs[1]).type).tensor();
        if (a.dtype && b.dtype) {
          if (*a.dtype == *b.dtype) {
            SelfOnly(&e);
          } else {
            FreshOnly(&e);
          }
        }
      }
      break;
    }
    case OpEffects::By::kContiguous:
    case OpEffects::By::kReshape: {
      if (!trust_types || n.inputs.empty() || !IsTensorType(g.value(n.inputs[0]).type)) break;
      const TensorType& t = Unwrap(g.value(n.inputs[0]).type).tensor();
      if (!t.sizes || !t.strides) break;
      ExprGeometry geometry;
      geometry.sizes = *t.sizes;
      geometry.strides = *t.strides;
      geometry.offset = Expr(0);
      SymbolicDecide decide(&g.symbols);
      if (e.by == OpEffects::By::kContiguous) {
        if (has(e.by_arg)) {
          std::optional<Expr> format = GetIntExpr(g, n.inputs[e.by_arg]);
          if (!format || format->Constant() != 0) break;
        }
        bool contiguous = view_rules::IsContiguous(decide, geometry);
        if (!decide.status().ok() || !decide.assumptions().empty()) break;
        if (contiguous) {
          SelfOnly(&e);
        } else {
          FreshOnly(&e);
        }
        break;
      }
      std::vector<Expr> sizes;
      if (has(e.by_arg)) {
        std::optional<std::vector<Expr>> wanted = GetIntListExpr(g, n.inputs[e.by_arg]);
        if (!wanted) break;
        sizes = *wanted;
      } else if (e.by_arg2 >= 0) {
        std::optional<Expr> start = has(1) ? GetIntExpr(g, n.inputs[1]) : std::nullopt;
        std::optional<Expr> end = has(2) ? GetIntExpr(g, n.inputs[2]) : std::nullopt;
        if (!start || !end || !start->IsConstant() || !end->IsConstant()) break;
        absl::StatusOr<std::vector<Expr>> flat = view_rules::FlattenedSizes(decide, absl::MakeConstSpan(geometry.sizes),
                                                                            *start->Constant(), *end->Constant());
        if (!flat.ok()) break;
        sizes = *flat;
        if (sizes.size() == geometry.sizes.size() && !sizes.empty()) {
          SelfOnly(&e);  // nothing to flatten
          break;
        }
      } else {
        sizes = {Expr(-1)};
      }
      auto reshaped = view_rules::Reshape(decide, geometry, absl::MakeConstSpan(sizes));
      if (!reshaped.ok() || !decide.status().ok() || !decide.assumptions().empty()) break;
      if (reshaped->aliases) {
        // ravel of what is flat already may be the argument itself.
        uint64_t self = n.op.name() == "aten::ravel" ? e.results[0].self : 0;
        ViewOnly(&e);
        e.results[0].self = self;
      } else {
        FreshOnly(&e);
      }
      break;
    }
    case OpEffects::By::kOut: {
      // A result of the size that out has already changes no geometry.
      if (!trust_types) break;
      for (size_t i = 0; i < e.args.size() && i < n.inputs.size(); ++i) {
        if ((e.args[i] & kWritesGeometry) == 0 || !IsTensorType(g.value(n.inputs[i]).type)) continue;
        const TensorType& t = Unwrap(g.value(n.inputs[i]).type).tensor();
        for (size_t k = 0; k < n.outputs.size() && k < e.results.size(); ++k) {
          if ((e.results[k].self & Bit(i)) == 0 || !IsTensorType(g.value(n.outputs[k]).type)) continue;
          const TensorType& r = Unwrap(g.value(n.outputs[k]).type).tensor();
          if (t.sizes && r.sizes && *t.sizes == *r.sizes) e.args[i] &= ~static_cast<uint16_t>(kWritesGeometry);
        }
      }
      break;
    }
  }
  return e;
}

}  // namespace smelt
