#include "smelt/frontend/number_guards.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "smelt/core/ir/substitute_symbols.h"
#include "smelt/core/op/op_info.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace {

struct Range {
  int64_t min, max;
};

// The integers that c10::checked_convert accepts. (Negative ones may wrap in an unsigned type.)
std::optional<Range> Takes(DType t) {
  switch (t) {
    case DType::kInt8:
      return Range{INT8_MIN, INT8_MAX};
    case DType::kUInt8:
      return Range{-UINT8_MAX, UINT8_MAX};
    case DType::kInt16:
      return Range{INT16_MIN, INT16_MAX};
    case DType::kInt32:
      return Range{INT32_MIN, INT32_MAX};
    case DType::kFloat16:
      return Range{-65504, 65504};
    default:
      return std::nullopt;
  }
}

// The arguments that are converted to the result's dtype, by the operator's name without "_".
const std::vector<absl::string_view>& Converted(absl::string_view name) {
  static const auto* const kArguments = new absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>>{
      {"aten::full", {"fill_value"}},
      {"aten::full_like", {"fill_value"}},
      {"aten::new_full", {"fill_value"}},
      {"aten::fill", {"value"}},
      {"aten::fill_diagonal", {"fill_value"}},
      {"aten::masked_fill", {"value"}},
      {"aten::index_fill", {"value"}},
      {"aten::scatter", {"value"}},
      {"aten::scalar_tensor", {"s"}},
      {"aten::where", {"self", "other"}},
      {"aten::clamp", {"min", "max"}},
      {"aten::clamp_min", {"min"}},
      {"aten::clamp_max", {"max"}},
      {"aten::hardtanh", {"min_val", "max_val"}},
      {"aten::threshold", {"threshold", "value"}},
      {"aten::constant_pad_nd", {"value"}},
      {"aten::pow", {"exponent"}},
      {"aten::add", {"alpha"}},
      {"aten::sub", {"alpha"}},
      {"aten::addcmul", {"value"}},
      {"aten::index_add", {"alpha"}},
  };
  static const auto* const kNone = new std::vector<absl::string_view>();
  const auto it = kArguments->find(name);
  return it == kArguments->end() ? *kNone : it->second;
}

// Float16 tensors of one element are filled through float32, and others where a tensor is made of the number first.
bool MayBecomeInfinite(absl::string_view name, const TensorType& result) {
  if (name == "aten::scalar_tensor" || name == "aten::where" || name == "aten::fill_diagonal") return true;
  const bool fills =
      name == "aten::full" || name == "aten::full_like" || name == "aten::new_full" || name == "aten::fill";
  return fills && (!result.sizes || Product(*result.sizes) == Expr(1));
}

void AppendOf(Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const absl::string_view name = absl::StripSuffix(node.op.name(), "_");
  const std::vector<absl::string_view>& converted = Converted(name);
  if (converted.empty() || node.outputs.empty()) return;
  const Type& type = g.value(node.outputs[0]).type;
  const absl::StatusOr<OpCall> call = OpCall::Of(g, n);
  if (!type.IsTensor() || !type.tensor().dtype || !call.ok()) return;
  const DType t = *type.tensor().dtype;
  for (absl::string_view argument : converted) {
    const OpArg* number = call->Find(argument);
    if (number == nullptr || number->kind != OpArg::Kind::kInt || !number->known) continue;
    const Expr e = name == "aten::sub" ? -number->expr : number->expr;
    if (e.IsPoison()) continue;
    const auto ask = [&](const Expr& low, const Expr& high, absl::string_view that) {
      if (g.symbols.LessOrEqual(low, high) == true) return;
      const std::string source = node.source ? absl::StrCat(" (", node.source->ToString(), ")") : "";
      const std::string operand = absl::StrCat("\"", argument, "\" of ", node.op.full());
      if (DependsOnData(e)) {
        const ValueId least = InsertConstant(g, n, int64_t{0}), number = InsertSize(g, n, high - low);
        const NodeId holds = g.InsertBefore(n, OpName::Get("aten::ge.int"), {number, least}, {Type::Bool()});
        const ValueId message = InsertConstant(g, n, absl::StrCat(operand, " is expected to be a number that ", that));
        const NodeId check =
            g.InsertBefore(n, OpName::Get("aten::_assert_scalar"), {g.node(holds).outputs[0], message}, {});
        g.SetSource(check, g.node(n).source);
        return;
      }
      g.AddSizeGuard(
          {Max(high - low + 1, 0), absl::StrCat(InTermsOfArguments(g, e), ", ", operand, source, ", ", that)});
    };
    if (name == "aten::pow" && !IsFloating(t) && !IsComplex(t)) ask(0, e, "is not negative, as a power of integers");
    std::optional<Range> takes = Takes(t);
    if (!takes || (t == DType::kFloat16 && MayBecomeInfinite(name, type.tensor()))) continue;
    ask(takes->min, e, absl::StrCat("fits ", Name(t)));
    ask(e, takes->max, absl::StrCat("fits ", Name(t)));
  }
}

}  // namespace

void AskForNumbersThatFit(Graph& g) {
  std::vector<NodeId> nodes;
  for (NodeId n : g.Nodes(g.top())) nodes.push_back(n);
  for (NodeId n : nodes) AppendOf(g, n);
}

}  // namespace smelt
