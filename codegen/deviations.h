// Computes sums of squared deviations from a mean (those of a variance) in one pass over the elements instead of two,
// and sums of deviations (the rounding error of the mean) only where they matter.
#ifndef SMELT_CODEGEN_DEVIATIONS_H_
#define SMELT_CODEGEN_DEVIATIONS_H_

#include <optional>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The sum of squares is computed together with a sum, both in float64, of values of at most float32. The sum of squared
// deviations from any m follows from both: squares - m (2 sum - n m). If this is so much smaller than its terms that
// too few bits remain, the second pass runs as before.
//
// A sum of deviations in float32 is negligible unless their squares are small compared with the mean's square. It is
// computed in a separate pass, which other rows skip as if it were 0.
struct Deviations {
  KernelSpec spec;  // with the instructions that use both sums, and the choice
  // For each phase: an instruction that is true if the phase need not run (its sums are then unused), or -1.
  std::vector<int> unless;
  // For each instruction: true for a sum in float64 that needs no compensation, because its result becomes float32 and
  // too few roundings happen to lose the additional bits.
  std::vector<bool> is_plain;
};

// Finds either or both in kernels that reduce rows one after the other. nullopt if there are no such sums.
std::optional<Deviations> FindDeviations(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_DEVIATIONS_H_
