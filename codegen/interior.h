// The middle of a loop, where nothing has to be guarded: what a padding, a roll or a stencil is for all but the few
// elements at the ends of a row.
#ifndef SMELT_CODEGEN_INTERIOR_H_
#define SMELT_CODEGEN_INTERIOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The interior is where the index along the vectorized dim is at least (or below) limit + add - terms.
struct InteriorBound {
  bool is_lower = false;
  int limit = -1;                           // an instruction that is equal for the whole loop
  std::vector<std::pair<int, bool>> terms;  // others, and whether they are added instead
  int64_t add = 0;
};

struct Interior {
  // The same instructions at the same places, but that guards which hold there are gone, and with them, from the
  // phases, what only other elements need. What may set the kernel's status stays.
  KernelSpec spec;
  std::vector<InteriorBound> bounds;
};

// For kernels without reductions: uses the guards of loads that compare the index along the vectorized dim with
// invariants. nullopt if there are none, or if no load is left that they guarded, as where rows are assembled from
// parts. `varying` are the instructions that are not equal for the whole loop.
std::optional<Interior> FindInterior(const KernelSpec& spec, const std::vector<bool>& varying);

}  // namespace smelt

#endif  // SMELT_CODEGEN_INTERIOR_H_
