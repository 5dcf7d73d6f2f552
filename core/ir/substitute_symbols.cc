#include "smelt/core/ir/substitute_symbols.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

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

std::unique_ptr<Graph> AtValues(const Graph& g, const absl::flat_hash_map<std::string, int64_t>& values) {
  absl::flat_hash_map<std::string, Expr> numbers;
  for (const auto& [name, value] : values) numbers.insert({name, Expr(value)});
  std::unique_ptr<Graph> at = g.Clone();
  SubstituteSymbols(*at, numbers);
  return at;
}

std::string InTermsOfArguments(const Graph& g, const Expr& e) {
  absl::flat_hash_map<std::string, Expr> names, parts;
  for (ValueId v : g.inputs()) {
    const Value& value = g.value(v);
    if (value.expr && value.expr->IsSymbol()) names.try_emplace(value.expr->SymbolName(), Expr::Symbol(value.name));
    if (!value.type.IsTensor() || !value.type.tensor().sizes) continue;
    const std::vector<Expr>& sizes = *value.type.tensor().sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const std::vector<std::string> of = sizes[d].Symbols();
      if (of.size() != 1) continue;
      const Expr name = Expr::Symbol(absl::StrCat(value.name, ".size()[", d, "]"));
      const absl::StatusOr<int64_t> times = sizes[d].Evaluate({{of[0], 1}});
      if (sizes[d].IsSymbol()) {
        names.try_emplace(of[0], name);
      } else if (times.ok() && sizes[d] == Expr::Symbol(of[0]) * *times) {
        parts.try_emplace(of[0], FloorDiv(name, *times));
      }
    }
  }
  names.insert(parts.begin(), parts.end());
  return e.Substitute(names).ToString();
}

}  // namespace smelt
