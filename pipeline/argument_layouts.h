// Layouts of large arguments, other than that of the export, for which a program has plans of its own. The kernels of such
// a plan read and write the arguments in their place: all strides but the innermost, which is 1 or 2, are symbols of the
// call.
//
//   for (DimOrders& orders : OrdersWithPlans(g, 1 << 18)) {
//     std::unique_ptr<Graph> program = AtDimOrders(g, layouts, orders);   // types and layouts of all values follow
//   }
#ifndef SMELT_PIPELINE_ARGUMENT_LAYOUTS_H_
#define SMELT_PIPELINE_ARGUMENT_LAYOUTS_H_

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// The dims of several elements of an argument, from the one with the largest stride to the one whose stride is `step`.
// Empty for an argument with the exported strides.
struct DimOrder {
  DimOrder() = default;
  DimOrder(std::initializer_list<int> in_order) : dims(in_order) {}
  explicit DimOrder(std::vector<int> in_order, int step = 1) : dims(std::move(in_order)), step(step) {}
  bool operator==(const DimOrder&) const = default;
  auto operator<=>(const DimOrder&) const = default;

  bool empty() const { return dims.empty(); }

  std::vector<int> dims;
  int step = 1;
};

// For each user argument.
using DimOrders = std::vector<DimOrder>;

// Returns the symbol of a stride of a user argument.
Expr StrideSymbol(const Value& argument, int dim);

// Returns the orders that are worth a plan, the likeliest first: the exported order with gaps, and one in which another
// dim is innermost (the rows of a transposed matrix, the channels of images), for all arguments of at least `min_bytes`
// and, if these are two or three, for each of them; for all of them also the order of images whose rows and columns are
// swapped. `steps`: also every other element of a larger tensor, in the exported order, for all of them and, if these are
// two or three, for each of them. Where an order is that of all such arguments, smaller ones have it too, from an eighth
// of `min_bytes` on.
std::vector<DimOrders> OrdersWithPlans(const Graph& g, int64_t min_bytes, bool steps);

// Returns the program for arguments in these orders. Returns null if inference does not know a layout.
std::unique_ptr<Graph> AtDimOrders(const Graph& g, const LayoutInference& layouts, const DimOrders& orders);

}  // namespace smelt

#endif  // SMELT_PIPELINE_ARGUMENT_LAYOUTS_H_
