// A small executor of random programs that watches the memory: it tests the alias database by what actually happens.
// The arithmetic is its own. It follows PyTorch in the bytes that each operator reads and writes and in the memory that
// its results share.
#ifndef SMELT_ALIAS_RUN_PROGRAM_H_
#define SMELT_ALIAS_RUN_PROGRAM_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The observed relations of pairs of values, in either order. A query costs O(1).
class SeenPairs {
 public:
  enum Bits : uint8_t {
    kTogether = 1,  // in scope together at some time
    kAlias = 2,
    kContain = 4,
    kNotSame = 8,  // at some time both in scope, but not the same bytes or geometry
    kAll = 15,
  };
  uint8_t Of(ValueId a, ValueId b) const { return At(a, b) < bits_.size() ? bits_[At(a, b)] : 0; }
  bool Has(Bits bit, ValueId a, ValueId b) const { return (Of(a, b) & bit) != 0; }
  void Add(uint8_t bits, ValueId a, ValueId b) {
    const size_t at = At(a, b);
    if (at >= bits_.size()) bits_.resize(2 * at + 1);
    bits_[at] |= bits;
  }

 private:
  // Below the diagonal, row by row.
  static size_t At(ValueId a, ValueId b) {
    const size_t i = std::max(a.index, b.index), k = std::min(a.index, b.index);
    return i * (i + 1) / 2 + k;
  }
  std::vector<uint8_t> bits_;
};

// The observations of a run, by the values' and nodes' ids in the graph.
struct Observed {
  SeenPairs pairs;
  absl::flat_hash_set<ValueId> written;
  absl::flat_hash_set<std::pair<NodeId, ValueId>> writes;
  std::vector<int64_t> result;  // outputs, inputs' final bytes, prints, random draws: what a caller sees
  bool complete = false;        // ran to the end
};

struct RunOptions {
  bool watch = false;  // result and complete are filled without it
  bool any_shape =
      false;  // inputs whose types give no sizes have any rank up to 3; else two dims, of 6 elements at most
};

// Runs with inputs, conditions and trip counts drawn from the seed. Adds to *seen.
void RunProgram(const Graph& g, uint64_t seed, const RunOptions& options, Observed* seen);

}  // namespace smelt

#endif  // SMELT_ALIAS_RUN_PROGRAM_H_
