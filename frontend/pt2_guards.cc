#include "smelt/frontend/pt2_guards.h"

#include <algorithm>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/frontend/number_guards.h"
#include "smelt/frontend/related_sizes.h"

namespace smelt {
namespace pt2_internal {

Pt2Guards::Pt2Guards(const Graph& g, Structure& arguments, const Json& program) : g_(g), program_(program) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (g_.input_infos[i].kind == InputInfo::Kind::kUser) inputs.push_back(g_.inputs()[i]);
  }
  if (!CheckStructure(arguments, inputs.size()).ok()) arguments.clear();
  if (arguments.empty()) return;
  const std::vector<ArgumentPath> paths = ArgumentPaths(arguments);
  arguments_.emplace();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!paths[i].empty()) arguments_->emplace(paths[i], inputs[i]);
  }
}

ValueId Pt2Guards::ArgumentAt(const ArgumentPath& path) const {
  if (arguments_) {
    if (const auto it = arguments_->find(path); it != arguments_->end()) return it->second;
    if (path.size() < 2) return ValueId();
    // For `*xs` the archive has the arguments xs_0, xs_1, ..., and Python has xs[0], xs[1].
    ArgumentPath of_many(path.begin() + 1, path.end());
    of_many[0] = absl::StrCat(path[0], "_", path[1]);
    const auto it = arguments_->find(of_many);
    return it == arguments_->end() ? ValueId() : it->second;
  }
  const ValueId v = g_.FindValue(absl::StrJoin(path, "_"));
  return v.valid() && g_.IsParam(g_.value(v).def) ? v : ValueId();
}

std::optional<Expr> Pt2Guards::NumberOf(const GuardedNumber& at) const {
  const ValueId v = ArgumentAt(at.path);
  if (!v.valid()) return std::nullopt;
  if (at.what == GuardedNumber::kInt) return g_.value(v).expr;
  if (at.what == GuardedNumber::kOffset) return Expr(0);
  const Type& type = g_.value(v).type;
  if (!type.IsTensor() || !type.tensor().IsComplete() || at.dim >= type.tensor().rank()) return std::nullopt;
  return at.what == GuardedNumber::kSize ? (*type.tensor().sizes)[at.dim] : (*type.tensor().strides)[at.dim];
}

std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> Pt2Guards::Parse() const {
  std::vector<std::pair<std::string, absl::StatusOr<SizeGuardParts>>> parsed;
  const Json* guards = Find(program_, "guards_code");
  if (guards == nullptr || !guards->is_array()) return parsed;
  for (const Json& guard : *guards) {
    if (!guard.is_string()) continue;
    const std::string text = guard.get<std::string>();
    parsed.push_back({text, ParseSizeGuard(text, [&](const GuardedNumber& at) { return NumberOf(at); })});
  }
  return parsed;
}

// Returns an expression that is 0 for other values of its numbers than the example's, or nothing if these are not
// known.
std::optional<Expr> Pt2Guards::HoldsForTheExample(absl::string_view guard) const {
  Expr apart = 0;
  for (const Expr& e : NumbersInGuard(guard, [&](const GuardedNumber& at) { return NumberOf(at); })) {
    if (e.IsConstant()) continue;
    const absl::StatusOr<int64_t> hint = e.Evaluate(g_.symbol_hints);
    if (!hint.ok()) return std::nullopt;
    apart = apart + Max(e - *hint, Expr(*hint) - e);
  }
  if (apart.IsConstant()) return std::nullopt;
  return Expr(1) - Min(apart, 1);
}

// L['d']['k'].size()[0] as it stands in the program: d['k'].size()[0].
static std::string WithoutLocals(absl::string_view guard) {
  std::string text;
  for (size_t begin; (begin = guard.find("L['")) != absl::string_view::npos;) {
    const size_t end = guard.find("']", begin);
    if (end == absl::string_view::npos) break;
    absl::StrAppend(&text, guard.substr(0, begin), guard.substr(begin + 3, end - begin - 3));
    guard.remove_prefix(end + 2);
  }
  return absl::StrCat(text, guard);
}

std::vector<Expr> Pt2Guards::Zeros() const {
  std::vector<Expr> zeros;
  for (const auto& [text, guard] : Parse()) {
    if (guard.ok() && guard->zero) zeros.push_back(*guard->zero);
  }
  return zeros;
}

std::vector<std::string> Pt2Guards::Keep(Graph& g) const {
  // PyTorch reasons about sizes from 2 on. Conditions that follow from that are not the program's. (It does not reason
  // so about numbers that are arguments, nor about parts of sizes.)
  SymbolRanges reasoned = g.symbols, accepted = g.symbols;
  const absl::flat_hash_set<std::string> numbers = SymbolsOfNumbers(g);
  for (const auto& [symbol, range] : g.symbols.entries()) {
    SymbolRanges::Range wider = range;
    if (numbers.contains(symbol)) {
      wider = {INT64_MIN, SymbolRanges::kInfinity};  // nothing else may hold an argument that no node uses to its range
      reasoned.Set(symbol, wider);
    } else if (range.accepted_min >= 0) {
      wider.min = std::min(range.min, std::max<int64_t>(range.accepted_min, 1));
    }
    accepted.Set(symbol, wider);
  }
  const auto follows = [&](const Expr& holds) {
    const std::vector<std::string> symbols = holds.Symbols();
    const bool parts = absl::c_any_of(symbols, [](const std::string& s) { return IsPartOfSize(s); });
    return (parts ? accepted : reasoned).LessOrEqual(1, holds) == true;
  };
  std::vector<std::string> unchecked;
  for (const auto& [text, guard] : Parse()) {
    const std::string readable = WithoutLocals(text);
    if (!guard.ok()) {
      const std::optional<Expr> example = HoldsForTheExample(text);
      if (!example) {
        unchecked.push_back(text);
      } else {
        g.AddSizeGuard({*example, absl::StrCat(readable, " (which is known of the example alone)")});
      }
    } else if (!follows(guard->holds)) {
      g.AddSizeGuard({guard->holds, readable});
    }
  }
  return unchecked;
}

}  // namespace pt2_internal
}  // namespace smelt
