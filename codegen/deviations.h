// Sums of squared deviations from a mean (a variance's) in one pass over the elements instead of two, and sums of
// deviations (what the mean's rounding lost) only where they matter.
#ifndef SMELT_CODEGEN_DEVIATIONS_H_
#define SMELT_CODEGEN_DEVIATIONS_H_

#include <optional>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// Beside a sum of float64 that were at most float32 the sum of their squares is taken. From both follows the sum of
// squared deviations from any m: squares - m (2 sum - n m). Where that is so much less than its terms that too few bits
// are left of them, the second pass runs as before.
//
// A sum of deviations in float32 is next to nothing, unless their squares are small beside the mean's: it is taken in a
// pass of its own, which other rows leave out as if it were 0.
struct Deviations {
  KernelSpec spec;  // with what follows from both sums, and the choice
  // Of each phase: an instruction that says that it need not run (its sums are then not used), or -1.
  std::vector<int> unless;
  // Of each instruction: a sum in float64 of which what additions lose need not be kept, since float32 is what is made
  // of it and fewer roundings than that has bits more are lost.
  std::vector<bool> is_plain;
};

// Of kernels whose rows are reduced one after the other, either of both. nullopt: there are no such sums.
std::optional<Deviations> FindDeviations(const KernelSpec& spec);

}  // namespace smelt

#endif  // SMELT_CODEGEN_DEVIATIONS_H_
