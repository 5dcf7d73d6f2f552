#include "smelt/frontend/small_sizes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/ir/substitute_symbols.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace {

using Sizes = std::vector<Expr>;

using Values = absl::flat_hash_map<std::string, int64_t>;  // of symbols

const Sizes* SizesOf(const Type& t) { return t.IsTensor() && t.tensor().sizes ? &*t.tensor().sizes : nullptr; }
const Sizes* SizesOf(const Graph& g, ValueId v) { return SizesOf(g.value(v).type); }

bool AreEqual(const Graph& g, const Sizes& a, const Sizes& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (g.symbols.Equal(a[d], b[d]) != true) return false;
  }
  return true;
}

bool IsSmall(const SymbolRanges::Range& r) { return r.accepted_min >= 0 && r.accepted_min < r.min; }

// The results of a node before it is inferred anew.
struct Before {
  Type type;
  std::optional<Expr> expr;
};
std::vector<Before> ResultsOf(const Graph& g, NodeId n) {
  std::vector<Before> out;
  for (ValueId v : g.node(n).outputs) out.push_back({g.value(v).type, g.value(v).expr});
  return out;
}

// Returns for each node, in the order of AllNodes, whether inference finds what the archive states.
std::vector<bool> UseInferredSizes(Graph& g) {
  std::vector<bool> found;
  for (NodeId n : g.AllNodes()) {
    found.push_back(IsInferred(g, n));
    if (!found.back()) continue;
    const std::vector<Before> before = ResultsOf(g, n);
    const bool ok = InferNode(g, n).ok();
    found.back() = ok;
    const std::vector<ValueId> outputs(g.node(n).outputs.begin(), g.node(n).outputs.end());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const ValueId v = outputs[k];
      const Sizes* now = SizesOf(g, v);
      const Sizes* stated = SizesOf(before[k].type);
      const bool equal = ok && now != nullptr && stated != nullptr && AreEqual(g, *now, *stated);
      if (stated != nullptr && !equal) found.back() = false;
      // A size of 1 is broadcast: it stays, and calls with another size are refused.
      const bool ones =
          equal && std::equal(now->begin(), now->end(), stated->begin(),
                              [](const Expr& a, const Expr& b) { return (a == Expr(1)) == (b == Expr(1)); });
      const bool other = ones && *now != *stated && g.value(v).type.tensor().dtype == before[k].type.tensor().dtype;
      if (!other) g.SetType(v, before[k].type);
      const std::optional<Expr> number = g.value(v).expr;
      const bool other_number = ok && number && before[k].expr && g.symbols.Equal(*number, *before[k].expr) == true;
      if (!other_number) g.SetExpr(v, before[k].expr);
    }
  }
  return found;
}

// Removes each min, max, floordiv and mod that the ranges decide from the numbers, sizes and strides of values. For the
// last rows of a table, as many as a size that is at least 1, 1 - max(1 - n, 0) is 1 in every call. Numbers that data
// decide stay, because assertions on them keep the data within the ranges. Strides are simplified as if no size that
// the export takes to be at least 2 were 0: without elements they cannot be observed.
void Simplify(Graph& g) {
  SymbolRanges of_some = g.symbols;
  for (const auto& [symbol, range] : g.symbols.entries()) {
    SymbolRanges::Range r = range;
    if (!IsSmall(r) || r.accepted_min != 0 || r.min < 2) continue;
    r.accepted_min = 1;
    of_some.Set(symbol, r);
  }
  const auto simplify = [&](ValueId v) {
    if (const std::optional<Expr> e = g.value(v).expr; e && !e->IsConstant() && !e->IsSymbol() && !DependsOnData(*e))
      g.SetExpr(v, g.symbols.Simplify(*e));
    g.SetType(v, Simplified(g.value(v).type, g.symbols, of_some));
  };
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : std::vector<ValueId>(g.node(n).outputs.begin(), g.node(n).outputs.end())) simplify(v);
  }
}

struct Broadcast {
  NodeId node;
  Expr from, to;
};
// A dim that is broadcast for these values of the symbols, though nothing says that its size is always 1: kernels
// assume that it is as long as the result's.
std::optional<Broadcast> FindBroadcast(const Graph& g, const Values& values) {
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    const std::string& name = node.op.name();
    const OpInfo& info = GetOpInfo(node.op);
    const bool elementwise = info.kind == OpKind::kPointwise ||
                             (info.kind == OpKind::kInplace && GetOpInfo(info.functional).kind == OpKind::kPointwise);
    const bool expands = name == "aten::copy_" || name == "aten::expand" || name == "aten::expand_as";
    if ((!elementwise && !expands) || node.outputs.empty()) continue;
    const Sizes* out = SizesOf(g, node.outputs[0]);
    for (ValueId v : node.inputs) {
      const Sizes* sizes = SizesOf(g, v);
      for (size_t k = 1; out != nullptr && sizes != nullptr && k <= std::min(out->size(), sizes->size()); ++k) {
        const Expr &to = (*out)[out->size() - k], &from = (*sizes)[sizes->size() - k];
        if (from.IsConstant() || from == to) continue;
        const absl::StatusOr<int64_t> a = from.Evaluate(values), b = to.Evaluate(values);
        if (a.ok() && b.ok() && *a == 1 && *b != 1) return Broadcast{n, from, to};
      }
    }
  }
  return std::nullopt;
}

// Returns whether inference still finds that for one value of a symbol; the other symbols have the values of the
// example.
bool HoldsAt(const Graph& g, const std::vector<bool>& found, const std::string& symbol, int64_t value) {
  Values values = g.symbol_hints;
  values[symbol] = value;
  if (FindBroadcast(g, values)) return false;
  const std::unique_ptr<Graph> at = AtValues(g, values);
  size_t number = 0;
  for (NodeId n : at->AllNodes()) {
    if (!found[number++]) continue;
    const std::vector<Before> stated = ResultsOf(*at, n);
    if (!InferNode(*at, n).ok()) return false;
    for (size_t k = 0; k < stated.size(); ++k) {
      const ValueId v = at->node(n).outputs[k];
      const Sizes *now = SizesOf(*at, v), *then = SizesOf(stated[k].type);
      if (then != nullptr && (now == nullptr || !AreEqual(*at, *now, *then))) return false;
      at->SetType(v, stated[k].type);
      at->SetExpr(v, stated[k].expr);
    }
  }
  return true;
}

// A quotient that is 1 in all calls that an export reasons about (n floordiv 2 of an n of 2 or 3) would be broadcast in
// some calls and not in others. Smaller calls, in which it is 0, are refused instead.
void SettleQuotients(Graph& g) {
  bool changed = false;
  for (NodeId n : g.AllNodes()) {
    for (ValueId v : g.node(n).outputs) {
      const Sizes* sizes = SizesOf(g, v);
      for (size_t d = 0; sizes != nullptr && d < sizes->size(); ++d) {
        const Expr& size = (*sizes)[d];
        if (!FindQuotient(size) || DependsOnData(size)) continue;
        const SymbolRanges::Range range = g.symbols.Of(size);
        if (range.min != 1 || range.max != 1) continue;
        for (const std::string& symbol : size.Symbols()) {
          SymbolRanges::Range r = g.symbols.Get(symbol);
          r.accepted_min = -1;
          g.symbols.Set(symbol, r);
          changed = true;
        }
      }
    }
  }
  if (changed) Simplify(g);
}

}  // namespace

void ReconcileSmallSizes(Graph& g) {
  std::vector<std::string> small;
  for (const auto& [symbol, range] : g.symbols.entries()) {
    if (IsSmall(range)) small.push_back(symbol);
  }
  Simplify(g);
  if (small.empty()) return;
  const std::vector<bool> found = UseInferredSizes(g);
  Simplify(g);
  // Each check works on a copy of the program. If there would be too many, small sizes are refused.
  constexpr int64_t kMostWork = 2'000'000;
  const int64_t cost = 1 + g.num_nodes() + static_cast<int64_t>(g.inputs().size() + g.symbol_hints.size());
  int64_t left = kMostWork / cost;
  for (const std::string& symbol : small) {
    SymbolRanges::Range r = g.symbols.Get(symbol);
    for (int64_t value = r.min - 1; value >= r.accepted_min; --value) {
      if (left-- > 0 && HoldsAt(g, found, symbol, value)) continue;
      r.accepted_min = value + 1 < r.min ? value + 1 : -1;
      g.symbols.Set(symbol, r);
      break;
    }
  }
  Simplify(g);  // 1 - max(1 - n, 0) is 1 now, if n may no longer be 0
  // For s0 = 0, min(1, s0) is no 1 that broadcasts. Calls with 0 are refused rather than the program.
  while (const std::optional<Broadcast> b = FindBroadcast(g, g.symbol_hints)) {
    bool changed = false;
    for (const std::string& symbol : b->from.Symbols()) {
      SymbolRanges::Range r = g.symbols.Get(symbol);
      if (r.accepted_min != 0 || r.min < 2) continue;
      r.accepted_min = 1;
      g.symbols.Set(symbol, r);
      changed = true;
    }
    if (!changed) break;
    Simplify(g);
  }
  SettleQuotients(g);
}

absl::Status CheckBroadcasts(const Graph& g) {
  if (g.symbol_hints.empty()) return absl::OkStatus();  // all sizes are constants
  const std::optional<Broadcast> b = FindBroadcast(g, g.symbol_hints);
  if (!b) return absl::OkStatus();
  const Node& node = g.node(b->node);
  return absl::UnimplementedError(
      absl::StrCat(node.op.full(), node.source ? absl::StrCat(" (", node.source->ToString(), ")") : "", ": a size of ",
                   InTermsOfArguments(g, b->from), ", which is 1 in the example alone, broadcast to ",
                   InTermsOfArguments(g, b->to)));
}

}  // namespace smelt
