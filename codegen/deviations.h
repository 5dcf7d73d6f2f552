// Sums of squared deviations from a mean (a variance's) in one pass over the elements instead of two, and sums of
// deviations (what the mean's rounding lost) only where they matter.
#ifndef SMELT_CODEGEN_DEVIATIONS_H_
#define SMELT_CODEGEN_DEVIATIONS_H_

#include <optional>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The sum of squares is computed beside a sum in float64 of values that were at most float32. From both follows the sum
// of squared deviations from any m: squares - m (2 sum - n m). If that is so much less than its terms that too few bits
// are left, the second pass runs as before.
//
// A sum of deviations in float32 is next to nothing, unless their squares are small beside the mean's square. It is
// computed in a pass of its own, which other rows leave out as if it were 0.
struct Deviations {
  KernelSpec spec;  // with what follows from both sums, and the choice
  // For each phase: an instruction that says that it need not run (its sums are then not used), or -1.
  std::vector<int> unless;
  // For each instruction: true for a sum in float64 that need not be compensated, because its result becomes float32
  // and it has too few roundings to lose the surplus bits.
  std::vector<bool> is_plain;
};

// Finds either or both in kernels whose rows are reduced one after the other. nullopt if there are no such sums.
std::optional<Deviations> FindDeviations(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_DEVIATIONS_H_
