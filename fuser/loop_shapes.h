// How nodes fit into loops: the sizes that each runs over, and the index at which it reads its operands. Internal to the
// fuser.
//
//   std::optional<Shape> shape = ShapeOf(graph, node);   // of add(x [4, 3], y [3]): frame 4 x 3, x at {0, 1}, y at {1}
#ifndef SMELT_FUSER_LOOP_SHAPES_H_
#define SMELT_FUSER_LOOP_SHAPES_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/core/ir/graph.h"

namespace smelt {

// The form of a group's loop: the sizes of its dims, and which of them it reduces.
struct Frame {
  std::vector<Expr> sizes;
  std::vector<bool> reduced;
  bool HasReduction() const { return std::find(reduced.begin(), reduced.end(), true) != reduced.end(); }
};
using Label = std::vector<int>;  // for each dim of a value the frame's dim, -1: the value has size 1 there

// How a node fits into a loop.
struct Shape {
  Frame frame;
  Label out;                                        // of each of its outputs
  std::vector<std::pair<ValueId, Label>> operands;  // that are read at the loop's own index
  bool any_index = true;                            // see Group::pullable
  bool joins = true;                                // may be in a group at all
};

// Returns the label of a value that runs over the frame's dims in order: -1 for dims of size 1.
Label IdentityLabel(size_t rank, const std::vector<Expr>& sizes);

// Returns nullopt if the node is no part of any kernel.
std::optional<Shape> ShapeOf(const Graph& g, NodeId node);

// Sets the label of a view's base, given the view's, if the view shows each dim of its base once; otherwise returns
// false.
bool ThroughView(const Graph& g, NodeId view, const Label& label, Label* base_label);

}  // namespace smelt

#endif  // SMELT_FUSER_LOOP_SHAPES_H_
