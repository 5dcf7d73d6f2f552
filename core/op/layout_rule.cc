#include "smelt/core/op/layout_rule.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/memory_format.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"

namespace smelt {
namespace {

using op_internal::Ctx;
using op_internal::Geo;
using Kind = LayoutRule::Kind;

// The operators of a line have the same rule. A name stands for all overloads that do not write and have no line of
// their own; a name with an overload ("take.out") for that one.
struct Line {
  Kind kind;
  const char* operands;   // names of arguments or their positions; for kPreserve, a memory_format argument comes first
  const char* operators;  // aten's
  int result = -1;        // -1: every result of the operands' sizes
};

constexpr Line kLines[] = {
    {Kind::kContiguous, "",
     "masked_fill.Scalar masked_fill.Tensor lift_fresh_copy log_sigmoid detach_copy alias_copy log_sigmoid_forward "
     "mse_loss_backward smooth_l1_loss_backward huber_loss_backward rrelu_with_noise bernoulli bernoulli.p "
     "_weight_norm "
     "nll_loss nll_loss2d nll_loss_nd nll_loss2d_forward nll_loss2d_backward cross_entropy_loss linalg_vander "
     "special_softmax special_log_softmax upsample_nearest3d_backward _upsample_nearest_exact3d_backward "
     "upsample_bicubic2d_backward _upsample_bicubic2d_aa_backward _adaptive_avg_pool3d_backward avg_pool3d_backward "
     "linalg_matrix_power matrix_power _reshape_alias_copy native_layer_norm_backward pad_sequence"},
    // Copies, and results of the operand's sizes.
    {Kind::kPreserve, "self",
     "huber_loss soft_margin_loss binary_cross_entropy binary_cross_entropy_backward _prelu_kernel flip sort argsort "
     "msort index_put _unsafe_index_put _index_put_impl index_fill put bernoulli.Tensor uniform exponential "
     "normal_functional geometric log_normal cauchy random zeros_like ones_like full_like empty_like rand_like "
     "randn_like randint_like"},
    {Kind::kPreserve, "input", "native_dropout"},
    {Kind::kPreserve, "grad_output", "log_sigmoid_backward"},
    {Kind::kKeep, "self", "copy slice_scatter select_scatter diagonal_scatter as_strided_scatter"},
    {Kind::kContiguous, "", "_weight_norm_interface", 0},
    {Kind::kKeep, "g", "_weight_norm_interface", 1},
    // Elementwise operators that are not pointwise ones (pointwise.cc).
    {Kind::kIterator, "0 1", "complex polar"},
    {Kind::kIterator, "self grad_output", "threshold_backward leaky_relu_backward"},
    {Kind::kIterator, "self weight grad_output", "_prelu_kernel_backward"},
    // Images.
    {Kind::kFormat, "input", "group_norm rms_norm"},
    {Kind::kFormat, "input", "native_group_norm", 0},
    {Kind::kFormat, "input", "_fused_rms_norm", 0},
    {Kind::kFormat, "input", "native_batch_norm_backward", 0},
    {Kind::kFormat, "self",
     "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d adaptive_max_pool2d adaptive_avg_pool2d "
     "_adaptive_avg_pool2d max_unpool2d pixel_shuffle pixel_unshuffle channel_shuffle"},
    {Kind::kFormat, "0",
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d "
     "upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
     "_upsample_nearest_exact1d _upsample_nearest_exact2d"},
    {Kind::kFormat, "self",
     "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward "
     "_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward "
     "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward "
     "replication_pad2d_backward replication_pad3d_backward"},
    {Kind::kFormat, "grad_output",
     "upsample_nearest1d_backward upsample_nearest2d_backward _upsample_nearest_exact1d_backward "
     "_upsample_nearest_exact2d_backward upsample_linear1d_backward upsample_bilinear2d_backward "
     "upsample_trilinear3d_backward _upsample_bilinear2d_aa_backward"},
    {Kind::kRow, "self", "avg_pool1d max_pool1d_with_indices adaptive_avg_pool1d"},
    // Given tensors that are resized.
    {Kind::kIterator, "self buffer grad_output", "log_sigmoid_backward.grad_input"},
    {Kind::kPreserve, "self", "conj_physical.out"},
    {Kind::kIterator, "index", "take.out"},
    {Kind::kIterator, "self target", "huber_loss.out"},
    {Kind::kIterator, "self target grad_output", "huber_loss_backward.out"},
};

const std::vector<const Line*>* LinesOf(OpName op) {
  static const auto* const kTable = [] {
    auto* table = new absl::flat_hash_map<std::string, std::vector<const Line*>>();
    for (const Line& line : kLines) {
      for (absl::string_view name : absl::StrSplit(line.operators, ' ', absl::SkipEmpty()))
        (*table)[absl::StrCat("aten::", name)].push_back(&line);
    }
    return table;
  }();
  auto it = kTable->find(op.full());
  const auto writes = [&] {
    const OpKind kind = GetOpInfo(op).kind;
    return kind == OpKind::kOut || kind == OpKind::kInplace;
  };
  if (it == kTable->end() && !op.overload().empty() && !writes()) it = kTable->find(op.name());
  return it == kTable->end() ? nullptr : &it->second;
}

// Returns the position of an argument that a line names; -1 if the call lacks it.
int PositionOf(const OpCall& call, absl::string_view name) {
  int at = 0;
  if (!absl::SimpleAtoi(name, &at)) at = call.IndexOf(name);
  SMELT_CHECK(at >= 0) << call.op().full() << " has no argument " << name;
  return call.arg(at).IsTensor() || call.arg(at).IsScalar() ? at : -1;
}

// Returns the rule of a copy: in the format that the call requests, else kPreserve of `operands`.
std::optional<LayoutRule> RuleOfCopy(const OpCall& call, std::vector<int> operands) {
  const absl::StatusOr<int64_t> format = call.GetIntOr("memory_format", 1);
  if (!format.ok()) return std::nullopt;
  if (*format == 1) return LayoutRule{Kind::kPreserve, std::move(operands)};
  return LayoutRule{*format == 0 ? Kind::kContiguous : Kind::kChannelsLast, {}};
}

std::optional<LayoutRule> RuleOfPointwise(const OpCall& call) {
  const std::string& name = call.op().name();
  if (name == "aten::fill" || name == "aten::zero") return LayoutRule{Kind::kPreserve, {0}};
  if (name == "aten::_to_copy" || name == "aten::clone" || name == "prims::convert_element_type")
    return RuleOfCopy(call, {0});
  const bool power_of_number = (name == "aten::pow" || name == "aten::float_power") && !call.arg(0).IsTensor();
  const bool angle_of_complex = name == "aten::angle" && call.arg(0).IsTensor() && call.arg(0).tensor.dtype &&
                                IsComplex(*call.arg(0).tensor.dtype);
  if (power_of_number || angle_of_complex) return LayoutRule{Kind::kContiguous, {}};
  // ldexp is self * 2 ** other, whose power is contiguous; float_power does not copy a tensor that is double already;
  // conj_physical of real numbers returns the tensor itself.
  if (name == "aten::ldexp" || call.op().full() == "aten::float_power.Tensor_Tensor" || name == "aten::conj_physical")
    return std::nullopt;
  LayoutRule rule{Kind::kIterator, {}};
  const bool wraps = GetOpTraits(call.op()).wraps_numbers;
  for (int i = 0; i < static_cast<int>(call.args().size()); ++i) {
    const OpArg& a = call.arg(i);
    if (a.IsTensor() || (a.IsScalar() && wraps && (i < 2 || name == "aten::where") && i < 3))
      rule.operands.push_back(i);
  }
  if (name == "aten::rsub" && rule.operands.size() == 2) std::swap(rule.operands[0], rule.operands[1]);
  return rule;
}

}  // namespace

std::optional<LayoutRule> FindLayoutRule(const OpCall& call, size_t result) {
  if (const std::vector<const Line*>* lines = LinesOf(call.op())) {
    for (const Line* line : *lines) {
      if (line->result >= 0 && line->result != static_cast<int>(result)) continue;
      LayoutRule rule{line->kind, {}};
      for (absl::string_view name : absl::StrSplit(line->operands, ' ', absl::SkipEmpty())) {
        if (const int at = PositionOf(call, name); at >= 0) rule.operands.push_back(at);
      }
      if (rule.operands.empty() && line->operands[0] != '\0') return std::nullopt;
      if (rule.kind == Kind::kPreserve && call.IndexOf("memory_format") >= 0) return RuleOfCopy(call, rule.operands);
      return rule;
    }
  }
  const OpInfo& info = GetOpInfo(call.op());
  if (info.kind == OpKind::kPointwise) return RuleOfPointwise(call);
  if (info.kind != OpKind::kOut) return std::nullopt;
  const std::string& full = call.op().full();
  const bool transforms_complex =
      full == "aten::fft_ifft.out" && call.arg(0).tensor.dtype && IsComplex(*call.arg(0).tensor.dtype);
  const bool differs_none = full == "aten::diff.out" && call.arg(1).expr == Expr(0);
  if (transforms_complex || differs_none || ResizesContiguously(call.op())) return LayoutRule{Kind::kContiguous, {}};
  return std::nullopt;
}

namespace {

bool IsOne(int64_t size) { return size == 1; }
bool IsOne(const Expr& size) { return size == Expr(1); }

bool IsZero(ConcreteDecide&, int64_t stride) { return stride == 0; }
bool IsZero(SymbolicDecide& decide, const Expr& stride) {
  if (stride.IsConstant()) return stride == Expr(0);
  return decide.IsDecidable(stride) && decide.Equal(stride, 0);
}

template <typename D>
bool IsExpanded(D& decide, const typename D::Geometry& g) {
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (!IsOne(g.sizes[d]) && IsZero(decide, g.strides[d])) return true;
  }
  return false;
}

bool OverlapsItself(const Geometry& g) { return OverlapsItselfConcrete(g); }
// As far as it is known for every call.
bool OverlapsItself(const ExprGeometry& g) {
  Geometry concrete;
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (!g.sizes[d].IsConstant() || !g.strides[d].IsConstant()) return false;
    concrete.sizes.push_back(*g.sizes[d].Constant());
    concrete.strides.push_back(*g.strides[d].Constant());
  }
  return OverlapsItselfConcrete(concrete);
}

template <typename D>
std::vector<typename D::Index> ChannelsLastStrides(D& decide, const std::vector<typename D::Index>& sizes) {
  return sizes.size() == 4 || sizes.size() == 5 ? view_rules::ChannelsLastStrides(decide, sizes)
                                                : view_rules::ContiguousStrides(decide, sizes);
}

// The strides of an image of one row; `sizes` may lack the batch.
template <typename D>
std::vector<typename D::Index> RowStrides(D& decide, const std::vector<typename D::Index>& sizes) {
  using Index = typename D::Index;
  const size_t channels = sizes.size() - 2;
  std::vector<Index> strides = {decide.Mul(sizes[channels], sizes[channels + 1]), Index(1), sizes[channels]};
  if (channels == 0) strides.erase(strides.begin());
  return strides;
}

}  // namespace

template <typename D>
absl::StatusOr<typename D::Geometry> ApplyLayoutRule(D& decide, const LayoutRule& rule,
                                                     absl::Span<const typename D::Geometry> operands,
                                                     const std::vector<typename D::Index>& sizes) {
  typename D::Geometry out;
  out.sizes = sizes;
  switch (rule.kind) {
    case Kind::kIterator: {
      SMELT_ASSIGN_OR_RETURN(out, view_rules::PointwiseOutput<D>(decide, operands));
      return out;
    }
    case Kind::kPreserve:
      out.sizes = operands[0].sizes;
      out.strides = view_rules::PreservedStrides(decide, operands[0]);
      break;
    case Kind::kKeep:
      out.sizes = operands[0].sizes;
      if (IsExpanded(decide, operands[0])) {
        out.strides = view_rules::PreservedStrides(decide, operands[0]);
        break;
      }
      // In PyTorch's copy an element holds the value that was written last.
      if (OverlapsItself(operands[0])) return absl::UnimplementedError("a copy whose elements overlap each other");
      out.strides = operands[0].strides;
      break;
    case Kind::kFormat:
      out.strides = SuggestsChannelsLast<D>(decide, operands[0].sizes, operands[0].strides)
                        ? ChannelsLastStrides(decide, sizes)
                        : view_rules::ContiguousStrides(decide, sizes);
      break;
    case Kind::kRow:
      out.strides = SuggestsChannelsLastAsRow<D>(decide, operands[0].sizes, operands[0].strides)
                        ? RowStrides(decide, sizes)
                        : view_rules::ContiguousStrides(decide, sizes);
      break;
    case Kind::kChannelsLast:
      out.strides = ChannelsLastStrides(decide, sizes);
      break;
    case Kind::kContiguous:
      out.strides = view_rules::ContiguousStrides(decide, sizes);
      break;
  }
  if (!decide.status().ok()) return decide.status();
  return out;
}

template absl::StatusOr<Geometry> ApplyLayoutRule(ConcreteDecide&, const LayoutRule&, absl::Span<const Geometry>,
                                                  const std::vector<int64_t>&);
template absl::StatusOr<ExprGeometry> ApplyLayoutRule(SymbolicDecide&, const LayoutRule&,
                                                      absl::Span<const ExprGeometry>, const std::vector<Expr>&);

namespace op_internal {
namespace {

// Returns the rule's operands as PyTorch's kernel sees them: if they have several dtypes, the converted ones are copied
// first.
absl::StatusOr<std::vector<Geo>> OperandsOf(const OpCall& call, SymbolicDecide& decide, const LayoutRule& rule) {
  Ctx c{call, decide, {}};
  std::vector<PromotionOperand> promoted;
  for (int i : rule.operands) promoted.push_back(PromotionOf(call.arg(i)));
  const bool converts =
      rule.kind == Kind::kIterator && call.op().name() != "aten::where" &&
      absl::c_any_of(promoted, [&](const PromotionOperand& p) { return p.dtype != promoted[0].dtype; });
  const DType common = converts ? ResultType(promoted) : DType::kFloat32;
  std::vector<Geo> operands;
  for (int i : rule.operands) {
    if (!call.arg(i).IsTensor()) {
      operands.push_back(Geo());
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
    operands.push_back(GeoOf(decide, t));
    if (converts && t.dtype != common && IsExpanded(decide, operands.back()))
      operands.back().strides = view_rules::PreservedStrides(decide, operands.back());
  }
  return operands;
}

}  // namespace

absl::StatusOr<std::optional<Geo>> LaidOutByRule(const OpCall& call, SymbolicDecide& decide, size_t result,
                                                 const std::vector<Expr>& sizes) {
  const std::optional<LayoutRule> rule = FindLayoutRule(call, result);
  if (!rule) return std::nullopt;
  SMELT_ASSIGN_OR_RETURN(const std::vector<Geo> operands, OperandsOf(call, decide, *rule));
  absl::StatusOr<Geo> g = ApplyLayoutRule<SymbolicDecide>(decide, *rule, operands, sizes);
  if (absl::IsUnimplemented(g.status()) && decide.status().ok()) return call.Unsupported(g.status().message());
  if (!g.ok()) return ErrorIn(call, g.status());
  g->offset = Expr(0);
  return *std::move(g);
}

bool HasOwnRuleOfResized(OpName op) {
  const bool some = op.full() == "aten::fft_ifft.out" || op.full() == "aten::diff.out";
  return GetOpInfo(op).kind == OpKind::kOut && (some || LinesOf(op) != nullptr);
}

bool HasLayoutRule(OpName op) {
  const std::string& name = op.name();
  return LinesOf(op) != nullptr || name == "aten::scaled_dot_product_attention" ||
         name == "aten::_scaled_dot_product_flash_attention_for_cpu" || name == "aten::gradient";
}

absl::Status ApplyLayoutRules(const OpCall& call, SymbolicDecide& decide, Outputs& outputs) {
  const OpKind kind = GetOpInfo(call.op()).kind;
  if (LinesOf(call.op()) == nullptr || kind == OpKind::kOut || kind == OpKind::kInplace) return absl::OkStatus();
  for (size_t r = 0; r < outputs.size(); ++r) {
    Type& type = outputs[r].type;
    if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes) continue;
    const std::vector<Expr> sizes = *type.tensor().sizes;
    SMELT_ASSIGN_OR_RETURN(const std::optional<Geo> g, LaidOutByRule(call, decide, r, sizes));
    if (g && g->sizes == sizes) type = Type::Tensor(*type.tensor().dtype, sizes, g->strides);
  }
  return absl::OkStatus();
}

}  // namespace op_internal
}  // namespace smelt
