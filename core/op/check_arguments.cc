#include "smelt/core/op/check_arguments.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/tables.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt::op_internal {
namespace {

struct RankRule {
  const char* operators;  // names without overload, separated by spaces
  const char* argument;
  int min, max;
};
constexpr int kAny = 64;

constexpr char kBatchNorms[] =
    "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
    "_native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_with_update_functional "
    "_batch_norm_no_update instance_norm";

constexpr char kUpsample1d[] =
    "upsample_linear1d upsample_nearest1d _upsample_nearest_exact1d upsample_linear1d_backward "
    "upsample_nearest1d_backward _upsample_nearest_exact1d_backward";
constexpr char kUpsample3d[] =
    "upsample_trilinear3d upsample_nearest3d _upsample_nearest_exact3d upsample_trilinear3d_backward "
    "upsample_nearest3d_backward _upsample_nearest_exact3d_backward";
constexpr char kUpsample2dBackward[] =
    "upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_nearest2d_backward "
    "_upsample_nearest_exact2d_backward _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward";

constexpr RankRule kRankRules[] = {
    {"_adaptive_avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d", "self", 3, 4},
    {"_adaptive_avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d", "self", 4, 5},
    {"adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d max_pool1d max_pool1d_with_indices", "self", 2, 3},
    {"avg_pool2d max_pool2d max_pool2d_with_indices", "self", 3, 4},
    {"avg_pool3d max_pool3d max_pool3d_with_indices", "self", 4, 5},
    {kBatchNorms, "input", 2, kAny},
    {kBatchNorms, "weight", 1, 1},
    {kBatchNorms, "bias", 1, 1},
    {kBatchNorms, "running_mean", 1, 1},
    {kBatchNorms, "running_var", 1, 1},
    {"native_batch_norm_backward", "grad_out", 2, kAny},
    {"native_batch_norm_backward", "input", 2, kAny},
    {"native_batch_norm_backward", "weight", 1, 1},
    {"native_batch_norm_backward", "running_mean", 1, 1},
    {"native_batch_norm_backward", "running_var", 1, 1},
    {"native_batch_norm_backward", "save_mean", 0, 1},
    {"native_batch_norm_backward", "save_invstd", 0, 1},
    {"group_norm native_group_norm", "input", 2, kAny},
    {"group_norm native_group_norm", "weight", 1, 1},
    {"group_norm native_group_norm", "bias", 1, 1},
    {"embedding_bag _embedding_bag _embedding_bag_forward_only", "weight", 2, 2},
    {"embedding_bag _embedding_bag _embedding_bag_forward_only", "indices", 1, 2},
    {"embedding_bag _embedding_bag _embedding_bag_forward_only", "offsets", 1, 1},
    {"embedding_bag _embedding_bag _embedding_bag_forward_only", "per_sample_weights", 1, 2},
    {"embedding", "weight", 2, 2},
    {"embedding_renorm", "self", 2, 2},
    {"embedding_dense_backward", "grad_output", 1, kAny},
    {"scaled_dot_product_attention", "query", 2, kAny},
    {"scaled_dot_product_attention", "key", 2, kAny},
    {"scaled_dot_product_attention", "value", 2, kAny},
    {"_scaled_dot_product_flash_attention_for_cpu", "query", 4, 4},
    {"_scaled_dot_product_flash_attention_for_cpu", "key", 4, 4},
    {"_scaled_dot_product_flash_attention_for_cpu", "value", 4, 4},
    {"_upsample_bicubic2d_aa _upsample_bilinear2d_aa upsample_bicubic2d upsample_bilinear2d upsample_nearest2d "
     "_upsample_nearest_exact2d",
     "self", 4, 4},
    {"_upsample_bicubic2d_aa _upsample_bilinear2d_aa upsample_bicubic2d upsample_bilinear2d upsample_nearest2d "
     "_upsample_nearest_exact2d",
     "input", 4, 4},
    {kUpsample1d, "self", 3, 3},
    {kUpsample1d, "input", 3, 3},
    {kUpsample1d, "grad_output", 3, 3},
    {kUpsample3d, "self", 5, 5},
    {kUpsample3d, "input", 5, 5},
    {kUpsample3d, "grad_output", 5, 5},
    {kUpsample2dBackward, "grad_output", 4, 4},
    {"bilinear", "input1", 1, kAny},
    {"bilinear", "input2", 1, kAny},
    {"bilinear", "weight", 3, 3},
    {"channel_shuffle", "self", 3, kAny},
    {"conv1d conv_transpose1d", "input", 2, 3},
    {"conv1d conv_transpose1d", "weight", 3, 3},
    {"conv2d conv_transpose2d", "input", 3, 4},
    {"conv2d conv_transpose2d", "weight", 4, 4},
    {"conv3d conv_transpose3d", "input", 4, 5},
    {"conv3d conv_transpose3d", "weight", 5, 5},
    {"conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear", "bias", 0, 1},
    {"linear", "input", 1, kAny},
    {"linear", "weight", 1, 2},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", "input", 1, 2},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", "w_ih", 2, 2},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", "w_hh", 2, 2},
    {"cross_entropy_loss", "self", 1, kAny},
    {"nll_loss nll_loss_forward nll_loss_backward", "self", 1, 2},
    {"nll_loss2d nll_loss2d_forward nll_loss2d_backward", "self", 4, 4},
    {"nll_loss nll_loss_forward nll_loss_backward", "target", 0, 1},
    {"nll_loss2d nll_loss2d_forward nll_loss2d_backward", "target", 3, 3},
    {"index_add index_copy index_fill index_reduce index_select", "index", 0, 1},
    {"diff glu", "self", 1, kAny},
    {"rot90", "self", 2, kAny},
    {"replication_pad1d reflection_pad1d", "self", 2, 3},
    {"replication_pad2d reflection_pad2d", "self", 3, 4},
    {"replication_pad3d reflection_pad3d", "self", 4, 5},
    {"quantile nanquantile", "q", 0, 1},
};

// The rules of each operator, by name.
const std::vector<const RankRule*>* RulesOf(const std::string& name) {
  static const auto* const rules = [] {
    auto* all = new absl::flat_hash_map<std::string, std::vector<const RankRule*>>();
    for (const RankRule& rule : kRankRules) {
      for (absl::string_view op : absl::StrSplit(rule.operators, ' ')) {
        (*all)[absl::StrCat("aten::", op)].push_back(&rule);
      }
    }
    return all;
  }();
  auto it = rules->find(name);
  if (it == rules->end()) it = rules->find(absl::StripSuffix(name, "_"));  // in place
  return it == rules->end() ? nullptr : &it->second;
}

absl::Status CheckRanks(const OpCall& call) {
  const std::vector<const RankRule*>* rules = RulesOf(call.op().name());
  if (rules == nullptr) return absl::OkStatus();
  for (const RankRule* rule : *rules) {
    const OpArg* a = call.Find(rule->argument);
    if (a == nullptr || !a->IsTensor() || !a->tensor.sizes) continue;
    const int rank = a->tensor.rank();
    if (rank >= rule->min && rank <= rule->max) continue;
    return call.Error(absl::StrCat("expected ", rule->argument, " to have ", rule->min,
                                   rule->max == rule->min ? ""
                                   : rule->max == kAny    ? " or more"
                                                          : absl::StrCat(" to ", rule->max),
                                   " dimensions, got ", rank));
  }
  return absl::OkStatus();
}

// Values that are written into self must have its dtype. Values that are added to slices of it must also have its rank.
absl::Status CheckWhatGoesInto(const OpCall& call) {
  static const auto* const arguments = new absl::flat_hash_map<absl::string_view, absl::string_view>{
      {"aten::index_put", "values"},  {"aten::_index_put_impl", "values"}, {"aten::_unsafe_index_put", "values"},
      {"aten::scatter", "src"},       {"aten::scatter_add", "src"},        {"aten::scatter_reduce", "src"},
      {"aten::index_copy", "source"}, {"aten::index_add", "source"},       {"aten::index_reduce", "source"},
      {"aten::put", "source"},        {"aten::masked_scatter", "source"}};
  const absl::string_view name = absl::StripSuffix(call.op().name(), "_");
  const auto it = arguments->find(name);
  if (it == arguments->end() || call.args().empty() || !call.arg(0).IsTensor()) return absl::OkStatus();
  const OpArg* given = call.Find(it->second);
  if (given == nullptr || !given->IsTensor()) return absl::OkStatus();
  const TensorType &to = call.arg(0).tensor, &from = given->tensor;
  // A single value that a mask selects is filled in, which converts it.
  const bool may_fill = it->second == "values" && from.sizes &&
                        std::all_of(from.sizes->begin(), from.sizes->end(), [](const Expr& e) { return e == Expr(1); });
  if (to.dtype && from.dtype && *to.dtype != *from.dtype && !may_fill) {
    return call.Error(absl::StrCat("self and ", it->second, " expected to have the same dtype, but got ",
                                   ScalarTypeName(*to.dtype), " and ", ScalarTypeName(*from.dtype)));
  }
  const bool of_slices = name == "aten::index_add" || name == "aten::index_reduce";
  if (of_slices && to.sizes && from.sizes && to.rank() != from.rank()) {
    return call.Error(
        absl::StrCat("source tensor shape must match self tensor shape, excluding the specified dimension: ", to.rank(),
                     " and ", from.rank(), " dimensions"));
  }
  return absl::OkStatus();
}

// The index of a gather or a scatter has as many dims as the tensor, where 0 dims count as one. An empty index picks
// nothing.
absl::Status CheckIndices(const OpCall& call) {
  const absl::string_view name = absl::StripSuffix(call.op().name(), "_");
  if (name != "aten::gather" && name != "aten::scatter" && name != "aten::scatter_add" &&
      name != "aten::scatter_reduce")
    return absl::OkStatus();
  const OpArg* index = call.Find("index");
  if (index == nullptr || !index->IsTensor() || !index->tensor.sizes || !call.arg(0).IsTensor() ||
      !call.arg(0).tensor.sizes || absl::c_linear_search(*index->tensor.sizes, Expr(0)))
    return absl::OkStatus();
  const int self = call.arg(0).tensor.rank(), rank = index->tensor.rank();
  if (std::max(self, 1) == std::max(rank, 1)) return absl::OkStatus();
  return call.Error(
      absl::StrCat("Index tensor must have the same number of dimensions as self tensor, got ", rank, " and ", self));
}

// A tensor that is padded with its own elements may be empty in the batch only.
absl::Status CheckPadded(const OpCall& call) {
  absl::string_view name = call.op().name();
  if (!absl::ConsumePrefix(&name, "aten::reflection_pad") && !absl::ConsumePrefix(&name, "aten::replication_pad"))
    return absl::OkStatus();
  const int dims = name.empty() ? 0 : name[0] - '0';
  if (name.size() != 2 || call.args().empty() || !call.arg(0).IsTensor() || !call.arg(0).tensor.sizes)
    return absl::OkStatus();  // a gradient
  // The padded dims need elements to pad with, which the rule of the operator checks. This check is for channels.
  const std::vector<Expr>& sizes = *call.arg(0).tensor.sizes;
  const size_t channels = sizes.size() - static_cast<size_t>(dims) - 1;
  if (channels < sizes.size() && sizes[channels] == Expr(0)) {
    return call.Error(absl::StrCat("Expected ", dims + 1, "D or ", dims + 2,
                                   "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                                   "input, but dim ",
                                   channels, " is 0"));
  }
  return absl::OkStatus();
}

// "SymInt[2] padding": one for each of two dims, or one for all.
absl::Status CheckLists(const OpCall& call) {
  const FunctionSchema* schema = FindSchema(call.op());
  if (schema == nullptr || schema->arguments.size() != call.args().size()) return absl::OkStatus();
  for (size_t i = 0; i < call.args().size(); ++i) {
    const OpArg& a = call.args()[i];
    const std::string& type = schema->arguments[i].type_text;
    const size_t bracket = type.find("Int[") != std::string::npos ? type.find("Int[") + 4 : type.find("int[") + 4;
    if (a.kind != OpArg::Kind::kIntList || !a.known || bracket < 4 || bracket >= type.size()) continue;
    const size_t n = static_cast<size_t>(type[bracket] - '0');  // none has more than 6
    if (n < 2 || n > 9 || a.ints.empty() || a.ints.size() == 1 || a.ints.size() == n) continue;
    return call.Error(
        absl::StrCat("expected ", schema->arguments[i].name, " to have 1 or ", n, " elements, got ", a.ints.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckDims(const OpCall& call) {
  const std::string& name = call.op().name();
  const FunctionSchema* schema = FindSchema(call.op());
  if (schema == nullptr || schema->arguments.empty() || schema->arguments[0].name != "self" ||
      !call.arg(0).IsTensor() || !call.arg(0).tensor.sizes || absl::StrContains(name, "unsqueeze") ||
      absl::StrContains(name, "size"))
    return absl::OkStatus();
  const bool flips = name == "aten::flip";
  const OpArg* dim = call.Find(flips ? "dims" : "dim");
  if (dim == nullptr || !dim->known) return absl::OkStatus();
  std::vector<Expr> dims = dim->ints;
  if (dim->kind == OpArg::Kind::kInt) dims = {dim->expr};
  if (dim->kind != OpArg::Kind::kInt && dim->kind != OpArg::Kind::kIntList) return absl::OkStatus();
  std::vector<int> seen;
  for (const Expr& d : dims) {
    if (!d.IsConstant()) continue;
    const absl::StatusOr<int> wrapped = view_rules::WrapDim(*d.Constant(), call.arg(0).tensor.rank());
    if (!wrapped.ok()) return call.Error(wrapped.status().message());
    if (flips && absl::c_linear_search(seen, *wrapped))
      return call.Error(absl::StrCat("dim ", *wrapped, " appears multiple times in the list of dims"));
    seen.push_back(*wrapped);
  }
  return absl::OkStatus();
}

bool HasMeaning(ScalarOp op, DType t) {
  const bool integer = t == DType::kBool || IsIntegral(t);
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
    case ScalarOp::kRemTrunc:
    case ScalarOp::kRemFloor:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kPow:
      return true;
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kNot:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return integer;
    default:
      return !integer;
  }
}

bool IsArithmetic(ScalarOp op) { return op > ScalarOp::kCast && !(op >= ScalarOp::kEq && op <= ScalarOp::kSignbit); }

// Returns whether an operator only moves, fills or converts elements.
bool TakesFloat8(OpName op) {
  const OpInfo& info = GetOpInfo(op);
  if (info.kind == OpKind::kInplace || info.kind == OpKind::kOut) return TakesFloat8(info.functional);
  // The operators that a composite consists of are checked when it is decomposed.
  if (info.kind == OpKind::kView || info.kind == OpKind::kInplaceView || info.decomposes) return true;
  static const auto* const others =
      new absl::flat_hash_set<absl::string_view>{"aten::copy",       "aten::_assert_tensor_metadata",
                                                 "aten::index_put",  "aten::_unsafe_index_put",
                                                 "aten::lift_fresh", "aten::where",
                                                 "aten::set",        "aten::set_",
                                                 "aten::resize_",    "aten::size",
                                                 "aten::stride",     "aten::numel",
                                                 "aten::sym_size",   "aten::sym_stride",
                                                 "aten::sym_numel",  "aten::sym_storage_offset"};
  if (others->contains(op.name())) return true;
  const OpTraits& traits = GetOpTraits(op);
  switch (traits.opening) {
    case Opening::kReshape:
    case Opening::kView:
    case Opening::kExpandAs:
    case Opening::kContiguous:
    case Opening::kRot90:
    case Opening::kConvert:
    case Opening::kIdentity:
    case Opening::kBroadcastTensors:
    case Opening::kUnsafeSplit:
    case Opening::kAtLeast:
      return true;
    default:
      break;
  }
  switch (traits.family) {
    case OpFamily::kAllocation:
    case OpFamily::kFill:
    case OpFamily::kCopy:
    case OpFamily::kMaterialize:
    case OpFamily::kConversion:
    case OpFamily::kConstantPad:
    case OpFamily::kFlip:
    case OpFamily::kRoll:
    case OpFamily::kRepeat:
    case OpFamily::kRepeatInterleave:
    case OpFamily::kIndexSelect:
    case OpFamily::kEmbedding:
    case OpFamily::kIndex:
    case OpFamily::kCat:
    case OpFamily::kStack:
    case OpFamily::kViewScatter:
      return true;
    default:
      return false;
  }
}

bool IsBool(const OpArg& a) { return a.kind == OpArg::Kind::kBool || (a.IsTensor() && a.tensor.dtype == DType::kBool); }

}  // namespace

absl::Status CheckSums(const OpCall& call) {
  const absl::string_view name = absl::StripSuffix(call.op().name(), "_");
  const bool subtracts = name == "aten::sub" || name == "aten::subtract" || name == "aten::rsub";
  if ((!subtracts && name != "aten::add") || call.args().size() < 2 || !call.arg(0).IsTensor()) return absl::OkStatus();
  const OpArg &a = call.arg(0), &b = call.arg(1);
  if (subtracts && IsBool(a) && IsBool(b)) {
    return call.Error(
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
        "operator instead.");
  }
  if (subtracts && (IsBool(a) || IsBool(b))) {
    return call.Error(
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use "
        "the `~` or `logical_not()` operator instead.");
  }
  const OpArg* alpha = call.Find("alpha");
  if (alpha == nullptr || (b.IsTensor() && !b.tensor.dtype) || !a.tensor.dtype) return absl::OkStatus();
  const DType common = ResultType({PromotionOf(a), PromotionOf(b)});
  if (alpha->kind == OpArg::Kind::kBool && common != DType::kBool)
    return call.Error("Boolean alpha only supported for Boolean results.");
  if (alpha->kind == OpArg::Kind::kFloat && !IsFloating(common) && !IsComplex(common))
    return call.Error("For integral input tensors, argument alpha must not be a floating point number.");
  return absl::OkStatus();
}

absl::Status CheckFloat8(const OpCall& call) {
  if (!absl::StartsWith(call.op().name(), "aten::")) return absl::OkStatus();
  std::optional<DType> float8, other;
  const auto see = [&](const OpArg& a) {
    if (!a.IsTensor() || !a.tensor.dtype) return;
    const DType t = *a.tensor.dtype;
    if (IsFloat8(t) && float8.value_or(t) == t) {
      float8 = t;
    } else if (IsFloating(t)) {
      other = t;
    }
  };
  for (const OpArg& a : call.args()) {
    see(a);
    for (const OpArg& e : a.elements) see(e);
  }
  const std::optional<DType> asked = call.GetDType("dtype");
  const bool makes = asked && IsFloat8(*asked);
  if (!float8 && !makes) return absl::OkStatus();
  const DType t = float8 ? *float8 : *asked;
  if (!TakesFloat8(call.op()) || call.GetBoolOr("accumulate", false).value_or(true))
    return call.Unsupported(absl::StrCat("does not take ", Name(t), ": convert it to another dtype first"));
  const absl::string_view name = absl::StripSuffix(call.op().name(), "_");
  const OpFamily family = GetOpTraits(call.op()).family;
  const bool joins = family == OpFamily::kCat || family == OpFamily::kStack || family == OpFamily::kViewScatter ||
                     name == "aten::where";
  if (joins && float8 && other) {
    return call.Error(absl::StrCat("Promotion for Float8 Types is not supported, attempted to promote ",
                                   ScalarTypeName(t), " and ", ScalarTypeName(*other)));
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const OpCall& call) {
  SMELT_RETURN_IF_ERROR(CheckDims(call));
  SMELT_RETURN_IF_ERROR(CheckLists(call));
  SMELT_RETURN_IF_ERROR(CheckSums(call));
  SMELT_RETURN_IF_ERROR(CheckRanks(call));
  SMELT_RETURN_IF_ERROR(CheckWhatGoesInto(call));
  SMELT_RETURN_IF_ERROR(CheckIndices(call));
  return CheckPadded(call);
}

absl::Status CheckTypesOf(const OpCall& call, const ScalarFn& f) {
  for (const ScalarInstr& in : f.instrs) {
    if (IsArithmetic(in.op) && !HasMeaning(in.op, in.type))
      return call.Error(absl::StrCat("\"", Name(in.op), "\" not implemented for '", Name(in.type), "'"));
  }
  return absl::OkStatus();
}

}  // namespace smelt::op_internal
