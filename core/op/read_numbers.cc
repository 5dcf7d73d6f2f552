#include "smelt/core/op/read_numbers.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace smelt {
namespace {

void Mention(absl::Span<const Expr> exprs, absl::flat_hash_set<std::string>& mentioned) {
  for (const Expr& e : exprs) {
    if (e.IsConstant()) continue;
    for (std::string& symbol : e.Symbols()) mentioned.insert(std::move(symbol));
  }
}

void Mention(const Type& type, absl::flat_hash_set<std::string>& mentioned) {
  if (!type.IsTensor()) return;
  for (const auto* part : {&type.tensor().sizes, &type.tensor().strides}) {
    if (*part) Mention(**part, mentioned);
  }
}

}  // namespace

bool ReadsNumber(const Graph& g, NodeId n) {
  const std::string& name = g.node(n).op.name();
  return (name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::Int" || name == "aten::Float" ||
          name == "aten::Bool") &&
         !g.node(n).inputs.empty() && g.value(g.node(n).inputs[0]).type.IsTensor();
}

absl::flat_hash_map<std::string, NodeId> ReadersOfSymbols(const Graph& g) {
  absl::flat_hash_map<std::string, NodeId> readers;
  for (NodeId n : g.AllNodes()) {
    if (!ReadsNumber(g, n)) continue;
    const std::optional<Expr>& e = g.value(g.node(n).outputs[0]).expr;
    if (e && e->IsSymbol()) readers.try_emplace(e->SymbolName(), n);
  }
  return readers;
}

absl::flat_hash_set<NodeId> ReadersOfSizes(const Graph& g) {
  const absl::flat_hash_map<std::string, NodeId> readers = ReadersOfSymbols(g);
  absl::flat_hash_set<NodeId> found;
  if (readers.empty()) return found;
  absl::flat_hash_set<std::string> mentioned;
  for (NodeId n : g.AllNodes()) {
    const bool reads = ReadsNumber(g, n);
    for (ValueId v : g.node(n).outputs) {
      Mention(g.value(v).type, mentioned);
      if (!reads && g.value(v).expr) Mention({*g.value(v).expr}, mentioned);
    }
    for (const auto& [name, attribute] : g.node(n).attributes) {
      if (const auto* e = std::get_if<Expr>(&attribute)) Mention({*e}, mentioned);
      if (const auto* list = std::get_if<std::vector<Expr>>(&attribute)) Mention(*list, mentioned);
    }
  }
  for (const std::string& symbol : mentioned) {
    if (auto it = readers.find(symbol); it != readers.end()) found.insert(it->second);
  }
  return found;
}

}  // namespace smelt
