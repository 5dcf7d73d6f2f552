#include "smelt/core/op/data_refusals.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

bool IsIntegers(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().dtype && IsIntegral(*t.tensor().dtype);
}

bool IsMadeByNonzero(const Graph& g, ValueId v) {
  const NodeId def = g.value(v).def;
  if (g.IsParam(def)) return false;
  const std::string& name = g.node(def).op.name();
  if (absl::EndsWith(name, "::nonzero") || absl::EndsWith(name, "::nonzero_numpy")) return true;
  // A column of the index, or an element of the list of its columns.
  return (name == "aten::select" || name == "aten::unbind" || name == "aten::squeeze" || name == "smelt::view" ||
          name == "prim::ListUnpack") &&
         !g.node(def).inputs.empty() && IsMadeByNonzero(g, g.node(def).inputs[0]);
}

}  // namespace

bool MayRefuseData(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  const DataRefusal refusal = GetOpTraits(node.op).refusal;
  if (refusal == DataRefusal::kNone) return false;
  if (const FunctionSchema* schema = FindSchema(node.op); schema != nullptr && schema->IsMutable()) return false;
  if (refusal == DataRefusal::kFactorization) return true;
  if (refusal == DataRefusal::kDivision) {
    if (node.inputs.size() < 2 || node.outputs.empty() || !IsIntegers(g, node.outputs[0])) return false;
    const std::optional<Expr> divisor = GetIntExpr(g, node.inputs[1]);
    if (!divisor) return true;
    return divisor->IsConstant() ? *divisor->Constant() == 0 : g.symbols.Less(Expr(0), *divisor) != true;
  }
  auto says_where = [&](ValueId v) { return IsIntegers(g, v) && !IsMadeByNonzero(g, v); };
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId v = node.inputs[k];
    if (const auto list = GetListElements(g, v)) {
      if (std::any_of(list->begin(), list->end(), says_where)) return true;
      continue;
    }
    // The first operand is the indexed tensor, except for operators that index no tensor.
    const std::string& name = node.op.name();
    const bool is_index =
        k > 0 || name == "aten::one_hot" || name == "aten::bincount" || name == "aten::repeat_interleave";
    if (is_index && says_where(v)) return true;
  }
  return false;
}

}  // namespace smelt
