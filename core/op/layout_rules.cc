// Describes as data how PyTorch lays out results: for each operator whose result has one of a few layouts that its
// operands determine, regardless of how its elements are computed. Inference reads it, and so do all users of inferred
// types: decompositions, the evaluator, the eager-order plan.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer_rules.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"

namespace smelt::op_internal {
namespace {

struct LayoutRule {
  enum class Kind {
    kContiguous,
    // TensorIterator's layout for the operands, in this order (view_rules::PointwiseOutput).
    kIterator,
    // empty_like's layout for the one operand (view_rules::PreservedStrides).
    kPreserve,
    // Channels-last where the one operand's strides suggest it, else contiguous (Tensor::suggest_memory_format).
    kFormat,
    // Exactly the one operand's strides, gaps included; like kPreserve if it is expanded.
    kKeep,
    // Channels-last, because the call requests it.
    kChannelsLast,
  };
  Kind kind = Kind::kContiguous;
  // Positions among the call's arguments. For kIterator a number may be one of them: it is wrapped into a tensor
  // without dims.
  std::vector<int> operands;
};

using Kind = LayoutRule::Kind;

struct Line {
  Kind kind;
  const char* operands;   // names of arguments
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
    {Kind::kPreserve, "self",
     "huber_loss soft_margin_loss binary_cross_entropy binary_cross_entropy_backward _prelu_kernel"},
    {Kind::kContiguous, "", "_weight_norm_interface", 0},
    {Kind::kKeep, "g", "_weight_norm_interface", 1},
    {Kind::kPreserve, "grad_output", "log_sigmoid_backward"},
    {Kind::kIterator, "self grad_output", "threshold_backward leaky_relu_backward"},
    {Kind::kIterator, "self weight grad_output", "_prelu_kernel_backward"},
    {Kind::kFormat, "input", "_fused_rms_norm", 0},
    {Kind::kFormat, "input", "native_batch_norm_backward", 0},
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
  const auto it = kTable->find(op.full());
  return it == kTable->end() ? nullptr : &it->second;
}

std::optional<LayoutRule> RuleOfPointwise(const OpCall& call) {
  const std::string& name = call.op().name();
  if (name == "aten::copy") return LayoutRule{Kind::kKeep, {0}};
  if (name == "aten::fill" || name == "aten::zero") return LayoutRule{Kind::kPreserve, {0}};
  if (name == "aten::_to_copy" || name == "aten::clone" || name == "prims::convert_element_type") {
    const absl::StatusOr<int64_t> format = call.GetIntOr("memory_format", 1);
    if (!format.ok()) return std::nullopt;
    return *format == 1 ? LayoutRule{Kind::kPreserve, {0}}
                        : LayoutRule{*format == 0 ? Kind::kContiguous : Kind::kChannelsLast, {}};
  }
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

// Returns the rule of a result; for an operator that writes into given tensors, the rule for a tensor that it resizes.
// nullopt: there is no rule, or the call lacks the operand that the rule needs.
std::optional<LayoutRule> FindLayoutRule(const OpCall& call, size_t result) {
  if (const std::vector<const Line*>* lines = LinesOf(call.op())) {
    for (const Line* line : *lines) {
      if (line->result >= 0 && line->result != static_cast<int>(result)) continue;
      LayoutRule rule{line->kind, {}};
      for (absl::string_view name : absl::StrSplit(line->operands, ' ', absl::SkipEmpty())) {
        const int at = call.IndexOf(name);
        SMELT_CHECK(at >= 0) << call.op().full() << " has no argument " << name;
        if (call.arg(at).IsTensor() || call.arg(at).IsScalar()) rule.operands.push_back(at);
      }
      if (rule.operands.empty() && line->operands[0] != '\0') return std::nullopt;
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

bool IsExpanded(const Geo& g) {
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.strides[d] == Expr(0) && g.sizes[d] != Expr(1)) return true;
  }
  return false;
}

// Returns the sizes and strides by a rule; `sizes` are the result's.
absl::StatusOr<Geo> LaidOut(const OpCall& call, SymbolicDecide& decide, const LayoutRule& rule,
                            const std::vector<Expr>& sizes) {
  Ctx c{call, decide, {}};
  const auto in_format = [&](Format f) {
    c.Add(DType::kFloat32, sizes, f);
    const TensorType& t = c.out[0].type.tensor();
    return Geo{*t.sizes, *t.strides, Expr(0)};
  };
  if (rule.kind == Kind::kContiguous) return in_format(Format::kContiguous);
  if (rule.kind == Kind::kChannelsLast)
    return in_format(sizes.size() == 5 ? Format::kChannelsLast3d : Format::kChannelsLast);
  // If operands have several dtypes, the converted ones are copied first.
  std::vector<PromotionOperand> promoted;
  for (int i : rule.operands) promoted.push_back(PromotionOf(call.arg(i)));
  const bool converts =
      rule.kind == Kind::kIterator && call.op().name() != "aten::where" &&
      absl::c_any_of(promoted, [&](const PromotionOperand& p) { return p.dtype != promoted[0].dtype; });
  const DType common = converts ? ResultType(promoted) : DType::kFloat32;
  std::vector<Geo> operands;
  for (int i : rule.operands) {
    if (call.arg(i).IsTensor()) {
      SMELT_ASSIGN_OR_RETURN(TensorType t, TensorArgument(c, i));
      if (rule.kind == Kind::kFormat) return in_format(Suggest(c, t));
      operands.push_back(GeoOf(decide, t));
      if (converts && t.dtype != common && IsExpanded(operands.back()))
        operands.back().strides = view_rules::PreservedStrides(decide, operands.back());
    } else {
      operands.push_back(Geo());
    }
  }
  if (rule.kind == Kind::kIterator) {
    auto g = view_rules::PointwiseOutput<SymbolicDecide>(decide, operands);
    if (!g.ok()) return ErrorIn(call, g.status());
    return g;
  }
  Geo g = operands[0];
  if (rule.kind == Kind::kPreserve || IsExpanded(g)) g.strides = view_rules::PreservedStrides(decide, g);
  g.offset = Expr(0);
  return g;
}

}  // namespace

// Returns the layout by the rule of a result, if it has one; `sizes` are the result's.
absl::StatusOr<std::optional<Geo>> LaidOutByRule(const OpCall& call, SymbolicDecide& decide, size_t result,
                                                 const std::vector<Expr>& sizes) {
  const std::optional<LayoutRule> rule = FindLayoutRule(call, result);
  if (!rule) return std::nullopt;
  SMELT_ASSIGN_OR_RETURN(Geo g, LaidOut(call, decide, *rule, sizes));
  return g;
}

// Returns whether some calls give a tensor that they resize an order that is neither contiguous nor that of the
// functional form. Inference alone knows it.
bool HasOwnRuleOfResized(OpName op) {
  const bool some = op.full() == "aten::fft_ifft.out" || op.full() == "aten::diff.out";
  return GetOpInfo(op).kind == OpKind::kOut && (some || LinesOf(op) != nullptr);
}

// Returns whether some result has a rule that may give another layout than the nodes that compute it.
bool HasLayoutRule(OpName op) {
  const std::string& name = op.name();
  return LinesOf(op) != nullptr || name == "aten::scaled_dot_product_attention" ||
         name == "aten::_scaled_dot_product_flash_attention_for_cpu" || name == "aten::gradient";
}

// Gives results the strides of their rules, where there are some. Results whose sizes differ from the rule's keep their
// strides.
void ApplyLayoutRules(const OpCall& call, SymbolicDecide& decide, Outputs& outputs) {
  const OpKind kind = GetOpInfo(call.op()).kind;
  if (!HasLayoutRule(call.op()) || kind == OpKind::kOut || kind == OpKind::kInplace) return;
  for (size_t r = 0; r < outputs.size(); ++r) {
    Type& type = outputs[r].type;
    if (!type.IsTensor() || !type.tensor().dtype || !type.tensor().sizes) continue;
    const std::vector<Expr> sizes = *type.tensor().sizes;
    const absl::StatusOr<std::optional<Geo>> g = LaidOutByRule(call, decide, r, sizes);
    if (g.ok() && *g && (*g)->sizes == sizes) type = Type::Tensor(*type.tensor().dtype, sizes, (*g)->strides);
  }
}

}  // namespace smelt::op_internal
