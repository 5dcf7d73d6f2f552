// The values of expressions in the exported example.
#ifndef SMELT_FUNCTIONALIZE_EXAMPLE_VALUE_H_
#define SMELT_FUNCTIONALIZE_EXAMPLE_VALUE_H_

#include <cstdint>
#include <optional>

#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns an expression's value with the graph's hints, and with 4 for symbols without one; nullopt if it has none there,
// such as a division by zero. Takes time linear in the expression.
std::optional<int64_t> ExampleValue(const Graph& g, const Expr& e);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_EXAMPLE_VALUE_H_
