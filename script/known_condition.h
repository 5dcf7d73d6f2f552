// Conditions of TorchScript that are known before the program runs: `dim is None`, `p < 0.0`, `x.dim() == 2`,
// `mode in ("nearest", "area")`.
#ifndef SMELT_SCRIPT_KNOWN_CONDITION_H_
#define SMELT_SCRIPT_KNOWN_CONDITION_H_

#include <optional>

#include "smelt/core/ir/graph.h"

namespace smelt {

// Returns the value of a bool, from constants, types and known sizes; nullopt if it may be either.
std::optional<bool> KnownCondition(const Graph& g, ValueId v);

// Returns a known number as a double: constants, and integers known from sizes that a double holds exactly.
std::optional<double> KnownNumber(const Graph& g, ValueId v);

// Returns the block of a prim::If that its condition selects; invalid if the condition is unknown, or if that block
// raises an exception.
BlockId KnownBranch(const Graph& g, NodeId branch);

// Replaces a prim::If by the nodes of one of its blocks.
void TakeBranch(Graph& g, NodeId branch, BlockId taken);

}  // namespace smelt

#endif  // SMELT_SCRIPT_KNOWN_CONDITION_H_
