// Finds numbers that a program reads from its tensors.
#ifndef SMELT_CORE_OP_READ_NUMBERS_H_
#define SMELT_CORE_OP_READ_NUMBERS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns whether the node reads a number from a tensor, as aten::item does.
bool ReadsNumber(const Graph& g, NodeId n);

// Returns for each symbol the node that reads the number with its name; if there are several, the first. O(nodes).
absl::flat_hash_map<std::string, NodeId> ReadersOfSymbols(const Graph& g);

// Returns the nodes whose number is in the sizes or offsets of other values, as u0 of `x[:, :n.item()]` is. They are
// not dead, though no node may take the number as an operand. O(values), and O(1) per node if nothing reads a number.
absl::flat_hash_set<NodeId> ReadersOfSizes(const Graph& g);

}  // namespace smelt

#endif  // SMELT_CORE_OP_READ_NUMBERS_H_
