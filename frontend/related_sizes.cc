#include "smelt/frontend/related_sizes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "smelt/core/ir/substitute_symbols.h"
#include "smelt/core/op/op_info.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace {

using Range = SymbolRanges::Range;
using Divisors = std::map<std::string, int64_t>;  // of symbols; in a stable order

constexpr int64_t kMostParts = 4096;  // which are tried one by one

const std::vector<Expr>* SizesOf(const Graph& g, ValueId v) {
  const Type& t = g.value(v).type;
  return t.IsTensor() && t.tensor().sizes ? &*t.tensor().sizes : nullptr;
}

// An expression that is 0 in every call that an operator does not refuse.
struct Demand {
  Expr zero;
  NodeId node;
};

// Pairs the dims from the last one on, as many as both have, except those of size 1.
void AppendPairs(const std::vector<Expr>& a, const std::vector<Expr>& b, NodeId n, std::vector<Demand>& demands) {
  for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
    const Expr &x = a[a.size() - k], &y = b[b.size() - k];
    if (x != Expr(1) && y != Expr(1)) demands.push_back({x - y, n});
  }
}

// The demands of `self[indices] = values`: indices of one shape, and values of the shape of the chosen elements.
void AppendIndexedWrite(const Graph& g, NodeId n, std::vector<Demand>& demands) {
  const Node& node = g.node(n);
  const std::vector<Expr>*self = SizesOf(g, node.inputs[0]), *values = SizesOf(g, node.inputs[2]);
  const auto indices = GetListElements(g, node.inputs[1]);
  if (self == nullptr || values == nullptr || !indices || indices->size() > self->size()) return;
  const std::vector<Expr>* chosen = nullptr;
  int first = -1, last = -1, count = 0;
  for (size_t k = 0; k < indices->size(); ++k) {
    const ValueId v = (*indices)[k];
    if (!g.value(v).type.IsTensor()) continue;
    const std::vector<Expr>* sizes = SizesOf(g, v);
    const std::optional<DType>& dtype = g.value(v).type.tensor().dtype;
    if (sizes == nullptr || !dtype || *dtype == DType::kBool || *dtype == DType::kUInt8)
      return;  // masks choose by data
    if (chosen != nullptr) AppendPairs(*chosen, *sizes, n, demands);
    // (The longest index decides. Indices of other lengths are broadcast.)
    if (chosen == nullptr || sizes->size() > chosen->size() || (sizes->size() == 1 && (*chosen)[0] == Expr(1))) {
      chosen = sizes;
    }
    first = first < 0 ? static_cast<int>(k) : first;
    last = static_cast<int>(k);
    ++count;
  }
  if (chosen == nullptr) return;
  const bool adjacent = last - first + 1 == count;
  std::vector<Expr> result;
  if (!adjacent) result = *chosen;
  for (int d = 0; d < static_cast<int>(self->size()); ++d) {
    const bool is_chosen = d < static_cast<int>(indices->size()) && g.value((*indices)[d]).type.IsTensor();
    if (!is_chosen) result.push_back((*self)[d]);
    if (adjacent && d == last) result.insert(result.end(), chosen->begin(), chosen->end());
  }
  AppendPairs(result, *values, n, demands);
}

// The demand of VIEW_scatter(self, source, ...): the source has the sizes of the view, none of which is broadcast.
void AppendScatteredView(const Graph& g, NodeId n, std::vector<Demand>& demands) {
  const Type& self = g.value(g.node(n).inputs[0]).type;
  const std::vector<Expr>* source = SizesOf(g, g.node(n).inputs[1]);
  const absl::StatusOr<OpCall> call = OpCall::Of(g, n);
  if (!self.IsTensor() || !self.tensor().IsComplete() || source == nullptr || !call.ok()) return;
  const TensorType& t = self.tensor();
  const auto view = BuildScatteredView(*call, SymbolicGeometry{*t.dtype, *t.sizes, *t.strides, 0}, g.symbols);
  if (!view.ok() || view->outputs[0].sizes.size() != source->size()) return;
  for (size_t d = 0; d < source->size(); ++d) demands.push_back({(*source)[d] - view->outputs[0].sizes[d], n});
}

void AppendOf(const Graph& g, NodeId n, std::vector<Demand>& demands) {
  const Node& node = g.node(n);
  absl::string_view name = node.op.name();
  if (!absl::ConsumePrefix(&name, "aten::")) return;
  if (node.op.name() != "aten::_unsafe_view") absl::ConsumePrefix(&name, "_unsafe_");
  absl::ConsumeSuffix(&name, "_");
  const auto sizes = [&](size_t k) { return k < node.inputs.size() ? SizesOf(g, node.inputs[k]) : nullptr; };
  if (name == "view" || name == "reshape" || name == "_unsafe_view") {
    const std::vector<Expr>*from = sizes(0), *to = SizesOf(g, node.outputs[0]);
    if (from != nullptr && to != nullptr) demands.push_back({Product(*from) - Product(*to), n});
  } else if (name == "scaled_dot_product_attention") {
    const std::vector<Expr>*q = sizes(0), *k = sizes(1), *v = sizes(2);
    if (q == nullptr || k == nullptr || v == nullptr || q->size() < 2 || k->size() < 2 || v->size() < 2) return;
    demands.push_back({q->back() - k->back(), n});
    demands.push_back({(*k)[k->size() - 2] - (*v)[v->size() - 2], n});
  } else if (name == "index_copy" || name == "index_add" || name == "index_reduce") {
    const std::optional<Expr> dim = node.inputs.size() > 1 ? GetIntExpr(g, node.inputs[1]) : std::nullopt;
    const std::vector<Expr>*index = sizes(2), *source = sizes(3);
    if (!dim || !dim->IsConstant() || index == nullptr || source == nullptr || index->size() != 1) return;
    const int64_t rank = static_cast<int64_t>(source->size());
    const int64_t d = *dim->Constant() < 0 ? *dim->Constant() + rank : *dim->Constant();
    if (d >= 0 && d < rank) demands.push_back({(*index)[0] - (*source)[d], n});
  } else if (name == "put") {
    const std::vector<Expr>*index = sizes(1), *source = sizes(2);
    if (index != nullptr && source != nullptr) demands.push_back({Product(*index) - Product(*source), n});
  } else if (name == "index_put" && node.inputs.size() >= 3) {
    AppendIndexedWrite(g, n, demands);
  } else if (absl::EndsWith(name, "_scatter")) {
    AppendScatteredView(g, n, demands);
  }
}

// The demands of each operator in the program's body.
std::vector<Demand> DemandsOf(const Graph& g) {
  std::vector<Demand> demands;
  for (NodeId n : g.Nodes(g.top())) AppendOf(g, n, demands);
  std::erase_if(demands, [](const Demand& d) { return d.zero.IsConstant() || d.zero.IsPoison(); });
  return demands;
}

// The symbols of quotients and remainders by constants of a symbol, or of a symbol and a constant.
void FindDivisors(const Expr& e, Divisors& divisors) {
  if (e.IsConstant() || e.IsSymbol() || e.IsPoison()) return;
  const Expr::View view = e.Decompose();
  if (view.op == Expr::Op::kFloorDiv || view.op == Expr::Op::kMod) {
    const std::vector<std::string> symbols = view.operands[0].Symbols();
    const std::optional<int64_t> by = view.operands[1].Constant();
    if (symbols.size() == 1 && by && *by >= 2 && *by <= kMostParts &&
        (view.operands[0] - Expr::Symbol(symbols[0])).IsConstant()) {
      int64_t& divisor = divisors.try_emplace(symbols[0], 1).first->second;
      if (divisor <= kMostParts) divisor = std::lcm(divisor, *by);
    }
  }
  for (const Expr& operand : view.operands) FindDivisors(operand, divisors);
}

constexpr absl::string_view kPart = ".by";
std::string NameOfPart(const std::string& symbol, int64_t divisor) { return absl::StrCat(symbol, kPart, divisor); }

class Relations {
 public:
  Relations(Graph& g, std::vector<Expr> zeros) : g_(g), zeros_(std::move(zeros)), fixed_(SymbolsOfNumbers(g)) {}

  const std::vector<Expr>& zeros() const { return zeros_; }

  void Find() {
    // Each further turn has one symbol less.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < zeros_.size() && !changed; ++i)
        changed = Fix(zeros_[i]) || Narrow(zeros_[i]) || Unite(zeros_[i]) || Divide(zeros_[i]);
    }
    if (!values_.empty()) SubstituteSymbols(g_, values_);
  }

 private:
  bool IsFree(const std::string& symbol) const {
    return !fixed_.contains(symbol) && !DependsOnData(Expr::Symbol(symbol));
  }

  // s0 - 5: every call has the example's size, whose types then hold.
  bool Fix(const Expr& zero) {
    const std::vector<std::string> symbols = zero.Symbols();
    if (symbols.size() != 1 || !IsFree(symbols[0])) return false;
    const Expr s = Expr::Symbol(symbols[0]);
    for (const Expr& difference : {zero - s, zero + s}) {
      if (!difference.IsConstant()) continue;
      const int64_t value = difference == zero - s ? -*difference.Constant() : *difference.Constant();
      const Range r = g_.symbols.Get(symbols[0]);
      const auto hint = g_.symbol_hints.find(symbols[0]);
      if (hint == g_.symbol_hints.end() || hint->second != value || value < r.min || value > r.max) return false;
      if (r.min == value && r.max == value) return false;
      Range fixed = r;
      fixed.min = fixed.max = value;
      fixed.accepted_min = -1;
      g_.symbols.Set(symbols[0], fixed);
      return true;
    }
    return false;
  }

  // (s0 + 1) // 2 - 3: every call has 5 or 6.
  bool Narrow(const Expr& zero) {
    const std::vector<std::string> symbols = zero.Symbols();
    const std::optional<Expr> quotient = FindQuotient(zero);
    if (symbols.size() != 1 || !quotient || !IsFree(symbols[0])) return false;
    const Expr::View view = quotient->Decompose();
    const std::optional<int64_t> shift = (view.operands[0] - Expr::Symbol(symbols[0])).Constant(),
                                 divisor = view.operands[1].Constant();
    if (!shift || !divisor || *divisor < 2) return false;
    for (const Expr& e : {*quotient - zero, *quotient + zero}) {
      const std::optional<int64_t> value = e.Constant();
      int64_t least, most;
      if (!value || __builtin_mul_overflow(*value, *divisor, &least) || __builtin_sub_overflow(least, *shift, &least) ||
          __builtin_add_overflow(least, *divisor - 1, &most))
        continue;
      Range r = g_.symbols.Get(symbols[0]);
      const auto hint = g_.symbol_hints.find(symbols[0]);
      if (hint == g_.symbol_hints.end() || hint->second < std::max(r.min, least) || hint->second > most) return false;
      if (r.min >= least && r.max <= most) return false;
      if (r.accepted_min >= 0 && r.accepted_min < least) r.accepted_min = r.min > least ? least : -1;
      r.min = std::max(r.min, least);
      r.max = std::min(r.max, most);
      g_.symbols.Set(symbols[0], r);
      return true;
    }
    return false;
  }

  // s0 - s1.
  bool Unite(const Expr& zero) {
    const std::vector<std::string> symbols = zero.Symbols();
    if (symbols.size() != 2) return false;
    const Expr difference = Expr::Symbol(symbols[0]) - Expr::Symbol(symbols[1]);
    if ((zero != difference && -zero != difference) || !IsFree(symbols[0]) || !IsFree(symbols[1])) return false;
    const Range a = g_.symbols.Get(symbols[0]), b = g_.symbols.Get(symbols[1]);
    const auto accepted = [](const Range& r) { return r.accepted_min < 0 ? r.min : r.accepted_min; };
    Range both{std::max(a.min, b.min), std::min(a.max, b.max)};
    if (both.min > both.max) return false;
    const int64_t least = std::max(accepted(a), accepted(b));
    both.accepted_min = least < both.min ? least : -1;
    both.hint = a.hint;
    g_.symbols.Set(symbols[0], both);
    Replace(symbols[1], Expr::Symbol(symbols[0]));
    return true;
  }

  // Uses an expression that is 0 exactly where symbols are multiples of their divisors.
  bool Divide(const Expr& zero) {
    Divisors divisors;
    FindDivisors(zero, divisors);
    if (divisors.empty()) return false;
    absl::flat_hash_map<std::string, Expr> multiples;
    for (const auto& [symbol, divisor] : divisors) {
      if (divisor > kMostParts || !IsFree(symbol) || !RangeOfPart(symbol, divisor)) return false;
      multiples[symbol] = Expr::Symbol(NameOfPart(symbol, divisor)) * divisor;
    }
    if (zero.Substitute(multiples) != Expr(0) || !IsForMultiplesAlone(zero, divisors)) return false;
    for (const auto& [symbol, divisor] : divisors) {
      const std::string part = NameOfPart(symbol, divisor);
      g_.symbols.Set(part, *RangeOfPart(symbol, divisor));
      if (auto hint = g_.symbol_hints.find(symbol); hint != g_.symbol_hints.end()) {
        const int64_t value = hint->second / divisor;  // inserting moves what hint points to
        g_.symbol_hints[part] = value;
      }
      Replace(symbol, multiples[symbol]);
    }
    return true;
  }

  // Returns whether it differs from 0 for each nonzero remainder of each of the symbols: (s0 + 1) // 4 - s0 // 4 is 0
  // for 4*k + 1 too.
  static bool IsForMultiplesAlone(const Expr& zero, const Divisors& divisors) {
    absl::flat_hash_map<std::string, int64_t> values;
    int64_t other = 5;  // no two alike, so that no difference vanishes by chance
    for (const std::string& symbol : zero.Symbols()) {
      const auto divisor = divisors.find(symbol);
      values[symbol] = divisor == divisors.end() ? other : divisor->second * other;
      other += 2;
    }
    for (const auto& [symbol, divisor] : divisors) {
      const int64_t multiple = values[symbol];
      for (int64_t rest = 1; rest < divisor; ++rest) {
        values[symbol] = multiple + rest;
        const absl::StatusOr<int64_t> there = zero.Evaluate(values);
        if (!there.ok() || *there == 0) return false;
      }
      values[symbol] = multiple;
    }
    return true;
  }

  // The range of the quotient, or nothing if the example or no value at all is a multiple.
  std::optional<Range> RangeOfPart(const std::string& symbol, int64_t divisor) const {
    const Range r = g_.symbols.Get(symbol);
    const auto hint = g_.symbol_hints.find(symbol);
    const bool is_known = hint != g_.symbol_hints.end();
    if (is_known && hint->second % divisor != 0) return std::nullopt;
    const auto up = [&](int64_t v) { return v / divisor + (v % divisor != 0 ? 1 : 0); };
    Range part{up(r.min), r.max == SymbolRanges::kInfinity ? r.max : r.max / divisor};
    if (r.accepted_min >= 0) part.accepted_min = up(r.accepted_min);
    if (is_known && hint->second / divisor >= 2 && part.min < 2) {
      // As for any other size, the archive's types are those of 2 and more.
      if (part.accepted_min < 0 && r.min > 2) part.accepted_min = part.min;
      part.min = 2;
    }
    if (part.accepted_min >= part.min) part.accepted_min = -1;
    if (r.hint >= 0) part.hint = r.hint / divisor;
    if (part.min > part.max) return std::nullopt;
    return part;
  }

  void Replace(const std::string& symbol, const Expr& by) {
    const absl::flat_hash_map<std::string, Expr> value = {{symbol, by}};
    for (auto& [name, e] : values_) e = e.Substitute(value);
    values_[symbol] = by;
    for (Expr& zero : zeros_) zero = zero.Substitute(value);
    g_.symbols.Erase(symbol);
    g_.symbol_hints.erase(symbol);
  }

  Graph& g_;
  std::vector<Expr> zeros_;
  const absl::flat_hash_set<std::string> fixed_;  // a call's numbers are bound to symbols alone
  absl::flat_hash_map<std::string, Expr> values_;
};

}  // namespace

bool IsPartOfSize(absl::string_view symbol) { return absl::StrContains(symbol, kPart); }

absl::flat_hash_set<std::string> SymbolsOfNumbers(const Graph& g) {
  absl::flat_hash_set<std::string> symbols;
  for (ValueId v : g.inputs()) {
    if (!g.value(v).expr) continue;
    for (const std::string& symbol : g.value(v).expr->Symbols()) symbols.insert(symbol);
  }
  return symbols;
}

void RelateSizes(Graph& g, std::vector<Expr> zeros) {
  if (g.symbols.entries().empty()) return;  // all sizes are constants
  const std::vector<Demand> demands = DemandsOf(g);
  std::erase_if(zeros, [](const Expr& e) { return e.IsConstant() || e.IsPoison(); });
  const size_t first = zeros.size();
  for (const Demand& d : demands) zeros.push_back(d.zero);
  Relations relations(g, std::move(zeros));
  relations.Find();
  for (size_t k = 0; k < demands.size(); ++k) {
    const Expr& zero = relations.zeros()[first + k];
    const Node& node = g.node(demands[k].node);
    // (The requirements of a view are checked where it is made.)
    if (absl::EndsWith(node.op.name(), "view") || node.op.name() == "aten::reshape") continue;
    if (zero.IsConstant() || zero.IsPoison() || DependsOnData(zero) || g.symbols.Equal(zero, 0) == true) continue;
    g.AddSizeGuard({Expr(1) - Min(Max(zero, -zero), 1), absl::StrCat("the sizes of the operands of ", node.op.name(),
                                                                     " fit, ", InTermsOfArguments(g, zero), " == 0")});
  }
}

}  // namespace smelt
