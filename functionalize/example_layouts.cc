#include "smelt/functionalize/example_layouts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/decide.h"

namespace smelt {
namespace {

// Returns whether a question about strides has the same answer for this number in every call: constants, and symbols
// that are at least 2.
bool IsPlain(const Expr& e, const SymbolRanges& ranges) {
  if (e.IsConstant()) return true;
  const Expr::View v = e.Decompose();
  if (v.op == Expr::Op::kSymbol) return ranges.Get(v.symbol).min >= 2;
  return v.op == Expr::Op::kMul && IsPlain(v.operands[0], ranges) && IsPlain(v.operands[1], ranges);
}

using SymbolValues = absl::flat_hash_map<std::string, int64_t>;

// The example's values except for one symbol, which has other values of its range: the smallest, those next to the
// example's, and large ones.
std::vector<SymbolValues> OtherCalls(const std::vector<std::string>& symbols, const SymbolValues& example,
                                     const SymbolRanges& ranges) {
  std::vector<SymbolValues> calls;
  for (const std::string& name : symbols) {
    const auto hint = example.find(name);
    if (hint == example.end()) continue;
    const SymbolRanges::Range range = ranges.Get(name);
    const int64_t near = hint->second, most = std::min<int64_t>(range.max, 1 << 20);
    for (int64_t value :
         {range.min, range.min + 1, range.min + 2, near - 1, near + 1, near + 2, 2 * near + 1, 8 * near + 5}) {
      value = std::clamp(value, range.min, std::max(most, range.min));
      if (value == near) continue;
      calls.push_back(example);
      calls.back()[name] = value;
    }
  }
  return calls;
}

// Returns whether a caller cannot distinguish the two layouts: strides of dims of size 1 cannot be observed.
bool SameLayout(const Type& a, const Type& b, const SymbolValues& values) {
  if (!a.IsTensor() || !b.IsTensor()) return a == b;
  const TensorType &x = a.tensor(), &y = b.tensor();
  if (!x.IsComplete() || !y.IsComplete()) return true;
  if (x.sizes->size() != y.sizes->size()) return false;
  for (size_t d = 0; d < x.sizes->size(); ++d) {
    const auto size = (*x.sizes)[d].Evaluate(values), other_size = (*y.sizes)[d].Evaluate(values);
    const auto stride = (*x.strides)[d].Evaluate(values), other_stride = (*y.strides)[d].Evaluate(values);
    if (!size.ok() || !other_size.ok() || !stride.ok() || !other_stride.ok()) continue;
    if (*size != *other_size || (*size > 1 && *stride != *other_stride)) return false;
  }
  return true;
}

bool SameLayouts(const std::vector<InferredOutput>& a, const std::vector<InferredOutput>& b,
                 const SymbolValues& values) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const InferredOutput& x, const InferredOutput& y) {
    return SameLayout(x.type, y.type, values) &&
           std::equal(x.elements.begin(), x.elements.end(), y.elements.begin(), y.elements.end(),
                      [&](const Type& s, const Type& t) { return SameLayout(s, t, values); });
  });
}

// How `a` and `b` compare in the example, if they compare otherwise in `call`.
std::optional<Assumption> Distinguishes(const Expr& a, const Expr& b, const SymbolValues& example,
                                        const SymbolValues& call) {
  const auto x = a.Evaluate(example), y = b.Evaluate(example), v = a.Evaluate(call), w = b.Evaluate(call);
  if (!x.ok() || !y.ok() || !v.ok() || !w.ok()) return std::nullopt;
  if ((*x < *y) == (*v < *w) && (*x == *y) == (*v == *w)) return std::nullopt;
  if (*x == *y) return Assumption{a, Assumption::Relation::kEqual, b};
  return *x < *y ? Assumption{a, Assumption::Relation::kLess, b} : Assumption{b, Assumption::Relation::kLess, a};
}

// Returns the facts about the numbers that hold in the example and not in `call`: whether a size is 0, 1 or more, and
// if that is the same, which of two sizes is the larger.
std::vector<Assumption> Differences(const std::vector<Expr>& sizes, const std::vector<Expr>& all,
                                    const SymbolValues& example, const SymbolValues& call) {
  std::vector<Assumption> found;
  for (const Expr& size : sizes) {
    for (int64_t k : {0, 1}) {
      if (auto a = Distinguishes(size, Expr(k), example, call)) {
        found.push_back(*std::move(a));
        break;
      }
    }
  }
  for (size_t i = 0; i < all.size() && found.empty(); ++i) {
    for (size_t j = 0; j < i && found.empty(); ++j) {
      if (auto a = Distinguishes(all[j], all[i], example, call)) found.push_back(*std::move(a));
    }
  }
  return found;
}

}  // namespace

absl::Status AssertLayoutsHold(ProgramWalk& walk, NodeId n) {
  std::vector<Expr> sizes, all;
  bool plain = true;
  for (ValueId v : walk.g.node(n).inputs) {
    const Type& t = walk.g.value(v).type;
    if (!t.IsTensor() || !t.tensor().IsComplete()) continue;
    for (const auto* exprs : {&*t.tensor().sizes, &*t.tensor().strides}) {
      for (const Expr& e : *exprs) {
        if (HasDataSymbols(e)) continue;
        plain = plain && IsPlain(e, walk.g.symbols);
        if (!e.IsConstant() && exprs == &*t.tensor().sizes) sizes.push_back(e);
        all.push_back(e);
      }
    }
  }
  if (plain) return absl::OkStatus();
  std::vector<std::string> symbols;
  for (const Expr& e : all) {
    for (const std::string& s : e.Symbols()) symbols.push_back(s);
  }
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(walk.g, n));
  const auto here = InferCall(call, WithHints(walk.g.symbols, walk.g.symbol_hints));
  if (!here.ok()) return absl::OkStatus();  // no rule for it: its type is the export's
  std::vector<Assumption> assumed;
  // If strides are free, those that the export has for a call's sizes.
  const auto with_strides = [&](SymbolValues values) {
    for (const auto& [symbol, stride] : walk.inputs.exported_strides) {
      if (const auto value = stride.Evaluate(values); value.ok()) values[symbol] = *value;
    }
    return values;
  };
  const SymbolValues example = with_strides(walk.g.symbol_hints);
  for (const SymbolValues& other : OtherCalls(symbols, walk.g.symbol_hints, walk.g.symbols)) {
    const SymbolValues values = with_strides(other);
    const bool refused = std::any_of(assumed.begin(), assumed.end(), [&](const Assumption& a) {
      const auto holds = a.Holds(values);
      return holds.ok() && !*holds;
    });
    if (refused) continue;
    const auto there = InferCall(call, WithHints(walk.g.symbols, values));
    if (!there.ok() || SameLayouts(*here, *there, values)) continue;
    for (Assumption& a : Differences(sizes, all, example, values)) {
      SMELT_RETURN_IF_ERROR(walk.assertions.Assume(a, n));
      assumed.push_back(std::move(a));
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
