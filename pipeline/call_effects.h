// The arguments and states that a program changes, and what a caller can tell of them afterwards.
#ifndef SMELT_PIPELINE_CALL_EFFECTS_H_
#define SMELT_PIPELINE_CALL_EFFECTS_H_

#include <vector>

#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct UserArg {
  ValueId value;
  int position;  // among the user's arguments
};
std::vector<UserArg> UserArgs(const Graph& g);

// Returns whether the plan's results reveal the order in which arguments' dims lie in memory, through the layout of
// fresh results.
bool OrderShows(const Convention& c);

// Returns whether the convention changes an argument's or a state's memory or geometry.
bool Mutates(const Convention& c);

// Returns whether a result reveals the layout of an argument, which a plan for the exported strides cannot know.
bool ReturnsViews(const Convention& c);

// Returns whether all returned tensors are in new memory, and nothing else can be observed of the call.
bool ReturnsNewMemoryOnly(const Convention& c);

// Returns whether each returned tensor is in new memory, or is an argument or a state itself, and the call gives none of
// these another geometry or storage. It may write them.
bool ReturnsNewMemoryOrArguments(const Convention& c);

// Returns whether some node depends on the strides of an argument or a state, or on the position of bytes in its
// storage, so that a copy cannot replace it. A tensor that becomes another does not count.
bool StridesAreSeen(const Graph& g);

// Returns whether some node writes memory.
bool HasWrites(const Graph& g);

// Returns the user arguments that are tensors, by position.
std::vector<int> TensorArgs(const Graph& g);

// Returns those that the plan for distinct arguments changes.
std::vector<int> WrittenArgs(const Graph& g, const Convention& distinct);
std::vector<int> WrittenStorages(const Graph& g, const Convention& distinct);

// Returns the arguments and storages that a program in eager order may change, as far as the alias database cannot rule
// it out, and the storages that it may hand out. Arguments that share memory do not count.
struct EagerWrites {
  std::vector<int> args, storages;
};
EagerWrites FindEagerWrites(const Graph& g);

}  // namespace smelt

#endif  // SMELT_PIPELINE_CALL_EFFECTS_H_
