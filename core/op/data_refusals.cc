#include "smelt/core/op/data_refusals.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

using Names = absl::flat_hash_set<absl::string_view>;

// Operators with an integer tensor that holds indices or classes.
const Names& IndexOps() {
  static const auto* const kNames = new Names{
      "index",          "_unsafe_index", "index_put",          "_index_put_impl",   "_unsafe_index_put",
      "index_select",   "index_add",     "index_copy",         "index_fill",        "index_reduce",
      "gather",         "scatter",       "scatter_add",        "scatter_reduce",    "take",
      "take_along_dim", "put",           "embedding",          "embedding_bag",     "_embedding_bag",
      "nll_loss",       "nll_loss_nd",   "nll_loss2d",         "nll_loss_forward",  "nll_loss2d_forward",
      "one_hot",        "bincount",      "cross_entropy_loss", "multi_margin_loss", "repeat_interleave",
      "max_unpool2d",   "max_unpool3d",
  };
  return *kNames;
}

const Names& FactorizationOps() {
  static const auto* const kNames = new Names{
      "linalg_cholesky",     "cholesky",
      "linalg_inv",          "inverse",
      "linalg_solve",        "_linalg_solve_ex",
      "linalg_svd",          "svd",
      "_linalg_svd",         "linalg_eigh",
      "_linalg_eigh",        "linalg_eigvalsh",
      "linalg_pinv",         "pinverse",
      "linalg_lstsq",        "logdet",
      "masked_scatter",      "binary_cross_entropy",
      "linalg_tensorinv",    "linalg_tensorsolve",
      "linalg_matrix_power", "matrix_power",
  };
  return *kNames;
}

const Names& DivisionOps() {
  static const auto* const kNames = new Names{"div", "divide", "floor_divide", "remainder", "fmod"};
  return *kNames;
}

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
  absl::string_view name = node.op.name();
  if (!absl::ConsumePrefix(&name, "aten::")) return false;
  const bool factorizes = FactorizationOps().contains(name), divides = DivisionOps().contains(name);
  if (!factorizes && !divides && !IndexOps().contains(name)) return false;
  if (const FunctionSchema* schema = FindSchema(node.op); schema != nullptr && schema->IsMutable()) return false;
  if (factorizes) return true;
  if (divides) {
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
    const bool is_index = k > 0 || name == "one_hot" || name == "bincount" || name == "repeat_interleave";
    if (is_index && says_where(v)) return true;
  }
  return false;
}

}  // namespace smelt
