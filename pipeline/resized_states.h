// Handles states of an eager-order program whose sizes an earlier call has changed.
#ifndef SMELT_PIPELINE_RESIZED_STATES_H_
#define SMELT_PIPELINE_RESIZED_STATES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// Value `value` of the program has these sizes after `instrs` instructions of the top block.
struct ChangedSizes {
  int value;
  size_t instrs;
  std::vector<Expr> sizes;
};

// A tensor whose geometry the program changes has other sizes in the next call. The program is correct for them up to
// the first instruction that depends on them, where the sizes must be those that the program states: a check is
// inserted there. `program.resized_states` lists the states for which that is possible. `at_export` are the sizes of
// each state. `changes` is updated for the insertions. O(states * instructions).
void LetStatesHaveOtherSizes(absl::Span<const std::vector<int64_t>> at_export, std::vector<ChangedSizes> changes,
                             fb::EagerProgramT& program);

}  // namespace smelt

#endif  // SMELT_PIPELINE_RESIZED_STATES_H_
