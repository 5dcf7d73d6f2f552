#include "smelt/frontend/pt2_ranges.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace pt2_internal {

namespace {

// Symbols of sizes that a squeeze leaves in place because they are at least 2.
absl::flat_hash_set<std::string> SymbolsSqueezed(const Graph& g) {
  absl::flat_hash_set<std::string> out;
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (!absl::StartsWith(node.op.name(), "aten::squeeze") || node.inputs.empty()) continue;
    const Type& type = g.value(node.inputs[0]).type;
    if (!type.IsTensor() || !type.tensor().sizes) continue;
    const std::vector<Expr>& sizes = *type.tensor().sizes;
    // All dims, one or a list of them.
    std::optional<std::vector<Expr>> dims;
    if (node.inputs.size() > 1) {
      dims = GetIntListExpr(g, node.inputs[1]);
      if (const auto one = GetIntExpr(g, node.inputs[1])) dims = {*one};
    }
    const int64_t rank = static_cast<int64_t>(sizes.size());
    for (int64_t d = 0; d < rank; ++d) {
      const auto is = [&](const Expr& dim) { return dim == Expr(d) || dim == Expr(d - rank); };
      if (dims && std::none_of(dims->begin(), dims->end(), is)) continue;
      for (const std::string& symbol : sizes[d].Symbols()) out.insert(symbol);
    }
  }
  return out;
}

}  // namespace

absl::Status ReadRanges(const Json& program, bool of_data, Graph& g) {
  const Json* ranges = Find(program, "range_constraints");
  if (ranges == nullptr || !ranges->is_object()) return absl::OkStatus();
  const absl::flat_hash_set<std::string> squeezed = SymbolsSqueezed(g);
  for (auto it = ranges->begin(); it != ranges->end(); ++it) {
    auto e = Expr::Parse(it.key());
    if (!e.ok() || !e->IsSymbol()) continue;  // "2*s44": follows from s44's own range
    if (DependsOnData(*e) != of_data) continue;
    SymbolRanges::Range r = g.symbols.Get(e->SymbolName());
    // Sizes are not negative, but numbers in the data may be.
    if (of_data) r.min = INT64_MIN;
    if (const Json* min = Find(*it, "min_val"); min != nullptr && min->is_number_integer()) {
      auto v = AsInt(*min);
      if (v.ok()) r.min = of_data ? *v : std::max<int64_t>(*v, 0);
    }
    if (const Json* max = Find(*it, "max_val"); max != nullptr && max->is_number_integer()) {
      auto v = AsInt(*max);
      if (v.ok()) r.max = *v;
    }
    if (r.min > r.max)
      return absl::InvalidArgumentError(absl::StrCat("range_constraints: ", it.key(), " has an empty range"));
    auto hint = g.symbol_hints.find(e->SymbolName());
    if (hint != g.symbol_hints.end() && hint->second >= 2 && r.min <= 2 && r.max >= 2) {
      // 2 is the minimum of a symbol that nobody constrained; PyTorch does not enforce it in a call.
      if (!squeezed.contains(e->SymbolName())) r.accepted_min = r.min == 2 ? 0 : r.min;
      r.min = 2;
    }
    g.symbols.Set(e->SymbolName(), r);
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
