#include "smelt/functionalize/example_value.h"

#include <string>

#include "absl/container/flat_hash_map.h"

namespace smelt {

std::optional<int64_t> ExampleValue(const Graph& g, const Expr& e) {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    const auto it = g.symbol_hints.find(s);
    values[s] = it == g.symbol_hints.end() ? 4 : it->second;
  }
  const auto v = e.Evaluate(values);
  return v.ok() ? std::optional<int64_t>(*v) : std::nullopt;
}

}  // namespace smelt
