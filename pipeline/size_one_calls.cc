#include "smelt/pipeline/size_one_calls.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/ir/substitute_symbols.h"

namespace smelt {
namespace {

using Symbols = std::set<std::string>;

bool Accepts(const SymbolRanges::Range& r, int64_t value) {
  return r.min > value && r.accepted_min >= 0 && r.accepted_min <= value;
}

struct AtOne {
  std::unique_ptr<Graph> graph;
  LayoutInference::Result layouts;
};
AtOne ProgramAt(const Graph& g, const LayoutInference& layouts, const Symbols& symbols, int64_t value = 1) {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : symbols) values.insert({s, value});
  AtOne out{AtValues(g, values), {}};
  out.layouts = layouts.Of(g, *out.graph);
  return out;
}

}  // namespace

SizeOneCalls FindSizeOneCalls(const Graph& g, const LayoutInference& layouts, const std::set<std::string>& known) {
  constexpr size_t kMostPrograms = 3, kMostInAnySet = 4, kMostInPairs = 8;
  SizeOneCalls out;
  std::vector<std::string> candidates, empty;
  for (const auto& [symbol, range] : g.symbols.entries()) {
    if (Accepts(range, 1)) candidates.push_back(symbol);
    if (Accepts(range, 0)) empty.push_back(symbol);
  }
  if (candidates.empty()) return out;
  const auto add = [&](const Symbols& set, bool in_any_case) {
    const auto holds_all_of = [&](const Symbols& s) {
      return std::includes(set.begin(), set.end(), s.begin(), s.end());
    };
    if (std::any_of(out.sets.begin(), out.sets.end(), holds_all_of)) return;
    AtOne at = ProgramAt(g, layouts, set);
    if (!at.layouts.differs && !in_any_case) return;
    out.sets.push_back(set);
    out.symbols.insert(set.begin(), set.end());
    if (at.layouts.is_known) out.programs.push_back({set, std::move(at.graph)});
  };
  // Adds the sets of `size` symbols, in order.
  const std::function<void(size_t, size_t, Symbols)> add_all = [&](size_t size, size_t from, Symbols set) {
    if (set.size() == size) return add(set, size == 1 && known.count(*set.begin()) != 0);
    for (size_t k = from; k < candidates.size(); ++k) {
      Symbols larger = set;
      larger.insert(candidates[k]);
      add_all(size, k + 1, std::move(larger));
    }
  };
  const size_t n = candidates.size();
  const size_t largest = n <= kMostInAnySet ? n : n <= kMostInPairs ? 2 : 1;
  for (size_t size = 1; size <= largest; ++size) add_all(size, 0, {});
  if (largest < n) {
    // Candidates that are in no set: larger numbers of them may be 1 at a time.
    Symbols rest;
    for (const std::string& symbol : candidates) {
      if (out.symbols.count(symbol) == 0) rest.insert(symbol);
    }
    if (rest.size() > largest && ProgramAt(g, layouts, rest).layouts.differs) {
      out.few = rest;
      out.most_of_few = static_cast<int>(largest);
    }
  }
  for (const std::string& symbol : empty) {
    if (ProgramAt(g, layouts, {symbol}, 0).layouts.differs) out.never_empty.insert(symbol);
  }
  if (out.programs.size() > kMostPrograms) out.programs.resize(kMostPrograms);
  if (out.symbols.size() > 1 && out.programs.size() < kMostPrograms) {
    AtOne at = ProgramAt(g, layouts, out.symbols);
    const auto is_there = [&](const SizeOneProgram& p) { return p.symbols == out.symbols; };
    if (at.layouts.is_known && std::none_of(out.programs.begin(), out.programs.end(), is_there))
      out.programs.push_back({out.symbols, std::move(at.graph)});
  }
  // The facts of one program may in turn depend on other symbols.
  for (const SizeOneProgram& program : out.programs) {
    const auto hangs_on = [&](const std::string& symbol, int64_t value) {
      return program.symbols.count(symbol) == 0 && ProgramAt(*program.graph, layouts, {symbol}, value).layouts.differs;
    };
    for (const std::string& symbol : candidates) {
      if (out.symbols.count(symbol) == 0 && hangs_on(symbol, 1)) out.symbols.insert(symbol);
    }
    for (const std::string& symbol : empty) {
      if (hangs_on(symbol, 0)) out.never_empty.insert(symbol);
    }
  }
  return out;
}

}  // namespace smelt
