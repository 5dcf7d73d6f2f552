#include "smelt/frontend/substitute_symbols.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace smelt {

void SubstituteSymbols(Graph& g, const absl::flat_hash_map<std::string, Expr>& values) {
  const auto of_value = [&](ValueId v) {
    if (const std::optional<Expr> e = g.value(v).expr) g.SetExpr(v, e->Substitute(values));
    if (!g.value(v).type.IsTensor()) return;
    TensorType t = g.value(v).type.tensor();
    for (std::optional<std::vector<Expr>>* list : {&t.sizes, &t.strides}) {
      if (!*list) continue;
      for (Expr& e : **list) e = e.Substitute(values);
    }
    g.SetType(v, Type::Tensor(std::move(t)));
  };
  for (ValueId v : g.inputs()) of_value(v);
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : std::vector<ValueId>(g.node(n).outputs.begin(), g.node(n).outputs.end())) of_value(v);
    for (BlockId b : g.node(n).blocks) {
      for (ValueId v : std::vector<ValueId>(g.params(b).begin(), g.params(b).end())) of_value(v);
    }
    const Attribute* a = g.node(n).FindAttribute("value");
    if (const Expr* e = a == nullptr ? nullptr : std::get_if<Expr>(a)) {
      g.SetAttribute(n, "value", e->Substitute(values));
    }
  }
}

}  // namespace smelt
