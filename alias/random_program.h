// Random programs over views, in-place operators, lists, tuples, Ifs and Loops, and a small executor that runs them and
// watches the memory: the test of the alias database by what really happens. The arithmetic is the executor's own; what
// is PyTorch's is which bytes each operator reads and writes and which memory its results share.
#ifndef SMELT_ALIAS_RANDOM_PROGRAM_H_
#define SMELT_ALIAS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct RandomProgramOptions {
  int nodes = 20;
  int max_depth = 3;          // of blocks
  bool typed_inputs = false;  // inputs with sizes and strides
  bool geometry_changes = true;
  bool self_overlaps = false;  // expanded and unfolded views, which overlap themselves, and what is split off them
  bool calls = false;  // of graphs, and of functions that are not seen: those do anything to what they are given
};
std::string RandomProgram(uint64_t seed, const RandomProgramOptions& options);
// How many programs a test runs, and from which seed: SMELT_ALIAS_PROGRAMS and SMELT_ALIAS_SEED in the environment, or
// `usual` and 1.
int64_t NumPrograms(int64_t usual);
int64_t FirstSeed();

// What a run observed, by the values' and nodes' ids in the graph.
struct Observed {
  absl::flat_hash_set<std::pair<ValueId, ValueId>> alias, contain;  // both orders
  absl::flat_hash_set<std::pair<ValueId, ValueId>>
      not_same;  // at some time both in scope, but not the same bytes or geometry
  absl::flat_hash_set<std::pair<ValueId, ValueId>> together;  // in scope together at some time
  absl::flat_hash_set<ValueId> written;
  absl::flat_hash_set<std::pair<NodeId, ValueId>> writes;
  std::vector<int64_t> result;  // outputs, inputs' final bytes, prints, random draws: what a caller sees
  bool complete = false;        // ran to the end
};
// Runs with inputs, conditions and trip counts drawn from the seed. Adds to *seen.
void RunProgram(const Graph& g, uint64_t seed, bool watch, Observed* seen);

}  // namespace smelt

#endif  // SMELT_ALIAS_RANDOM_PROGRAM_H_
