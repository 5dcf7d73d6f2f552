#include "smelt/script/known_condition.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace {

// Looks through operators that only give a value another type.
ValueId Behind(const Graph& g, ValueId v) {
  while (!g.IsParam(g.value(v).def)) {
    const Node& def = g.node(g.value(v).def);
    const std::string& name = def.op.name();
    if (name != op::kPrimUncheckedCast && name != op::kPrivateUnwrapOptional) break;
    v = def.inputs[0];
  }
  return v;
}

std::optional<bool> KnownNone(const Graph& g, ValueId v) {
  v = Behind(g, v);
  if (const auto c = GetConstant(g, v)) return std::holds_alternative<std::monostate>(*c);
  switch (g.value(v).type.kind()) {
    case TypeKind::kNone:
      return true;
    case TypeKind::kTensor:
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kString:
    case TypeKind::kList:
    case TypeKind::kTuple:
      return false;
    default:
      return std::nullopt;
  }
}

std::optional<std::string> KnownText(const Graph& g, ValueId v) {
  const auto c = GetConstant(g, Behind(g, v));
  if (!c || !std::holds_alternative<std::string>(*c)) return std::nullopt;
  return std::get<std::string>(*c);
}

std::optional<bool> Compared(const std::string& name, double a, double b) {
  if (name == op::kEq) return a == b;
  if (name == op::kNe) return a != b;
  if (name == op::kLt) return a < b;
  if (name == op::kLe) return a <= b;
  if (name == op::kGt) return a > b;
  if (name == op::kGe) return a >= b;
  return std::nullopt;
}

// Returns whether an element of a list of strings or numbers is the given one.
std::optional<bool> Contained(const Graph& g, ValueId list, ValueId item) {
  const auto elements = GetListElements(g, list);
  const std::optional<std::string> text = KnownText(g, item);
  const std::optional<double> number = KnownNumber(g, item);
  if (!elements || (!text && !number)) return std::nullopt;
  bool found = false;
  for (ValueId e : *elements) {
    const std::optional<std::string> word = KnownText(g, e);
    const std::optional<double> value = KnownNumber(g, e);
    if (text ? !word : !value) return std::nullopt;
    found = found || (text ? *word == *text : *value == *number);
  }
  return found;
}

// Returns whether two lists of numbers are equal.
std::optional<bool> SameNumbers(const Graph& g, ValueId a, ValueId b) {
  const auto x = GetListElements(g, a), y = GetListElements(g, b);
  if (!x || !y) return std::nullopt;
  if (x->size() != y->size()) return false;
  bool same = true;
  for (size_t i = 0; i < x->size(); ++i) {
    const std::optional<double> m = KnownNumber(g, (*x)[i]), n = KnownNumber(g, (*y)[i]);
    if (!m || !n) return std::nullopt;
    same = same && *m == *n;
  }
  return same;
}

}  // namespace

std::optional<double> KnownNumber(const Graph& g, ValueId v) {
  v = Behind(g, v);
  if (const auto c = GetConstant(g, v)) {
    if (const auto* f = std::get_if<double>(&*c)) return *f;
  }
  const std::optional<Expr> e = GetIntExpr(g, v);
  // Larger numbers may not be a double.
  if (!e || !e->IsConstant() || *e->Constant() > (int64_t{1} << 53) || *e->Constant() < -(int64_t{1} << 53)) {
    return std::nullopt;
  }
  return static_cast<double>(*e->Constant());
}

std::optional<bool> KnownCondition(const Graph& g, ValueId v) {
  v = Behind(g, v);
  if (const auto c = GetConstant(g, v)) {
    if (const auto* b = std::get_if<bool>(&*c)) return *b;
    return std::nullopt;
  }
  if (g.IsParam(g.value(v).def) || g.value(v).type.kind() != TypeKind::kBool) return std::nullopt;
  const Node& def = g.node(g.value(v).def);
  const std::string& name = def.op.name();
  if (name == op::kDunderNot) {
    const std::optional<bool> b = KnownCondition(g, def.inputs[0]);
    return b ? std::optional<bool>(!*b) : std::nullopt;
  }
  if (name == op::kIsFloatingPoint || name == op::kIsComplex) {
    const Type& t = g.value(def.inputs[0]).type;
    if (!t.IsTensor() || !t.tensor().dtype) return std::nullopt;
    return name == op::kIsComplex ? IsComplex(*t.tensor().dtype) : IsFloating(*t.tensor().dtype);
  }
  if (def.inputs.size() != 2) return std::nullopt;
  const ValueId a = def.inputs[0], b = def.inputs[1];
  if (name == op::kDunderIs || name == op::kDunderIsnot) {
    if (Behind(g, a) == Behind(g, b)) return name == op::kDunderIs;
    const std::optional<bool> none_a = KnownNone(g, a), none_b = KnownNone(g, b);
    if (!none_a || !none_b || (!*none_a && !*none_b)) return std::nullopt;
    return (*none_a == *none_b) == (name == op::kDunderIs);
  }
  if (name == op::kDunderAnd || name == op::kDunderOr) {
    const std::optional<bool> x = KnownCondition(g, a), y = KnownCondition(g, b);
    const bool decides = name == op::kDunderOr;
    if ((x && *x == decides) || (y && *y == decides)) return decides;
    return x && y ? std::optional<bool>(!decides) : std::nullopt;
  }
  if (name == op::kDunderContains) return Contained(g, a, b);
  if (const auto x = KnownNumber(g, a), y = KnownNumber(g, b); x && y) return Compared(name, *x, *y);
  if (name != op::kEq && name != op::kNe) return std::nullopt;
  std::optional<bool> same = SameNumbers(g, a, b);
  if (const auto x = KnownText(g, a), y = KnownText(g, b); x && y) same = *x == *y;
  return same ? std::optional<bool>(*same == (name == op::kEq)) : std::nullopt;
}

BlockId KnownBranch(const Graph& g, NodeId branch) {
  const Node& node = g.node(branch);
  if (node.op != op::kPrimIf || node.blocks.size() != 2) return BlockId();
  const std::optional<bool> condition = KnownCondition(g, node.inputs[0]);
  if (!condition) return BlockId();
  const BlockId taken = node.blocks[*condition ? 0 : 1];
  const std::vector<NodeId> nodes = g.Nodes(taken);
  const bool raises =
      std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return g.node(n).op == op::kPrimRaiseException; });
  return raises || g.results(taken).size() != node.outputs.size() ? BlockId() : taken;
}

void TakeBranch(Graph& g, NodeId branch, BlockId taken) {
  for (NodeId n : g.Nodes(taken)) g.MoveBefore(n, branch);
  const std::vector<ValueId> results(g.results(taken).begin(), g.results(taken).end());
  const std::vector<ValueId> outputs(g.node(branch).outputs.begin(), g.node(branch).outputs.end());
  for (size_t k = 0; k < outputs.size(); ++k) g.ReplaceAllUses(outputs[k], results[k]);
  g.Erase(branch);
}

}  // namespace smelt
