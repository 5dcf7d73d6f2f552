// Finds the interior of a loop, where no guards are needed: for a padding, a roll or a stencil that is all of a row
// except a few elements at its ends.
#ifndef SMELT_CODEGEN_INTERIOR_H_
#define SMELT_CODEGEN_INTERIOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "smelt/fuser/kernel_spec.h"

namespace smelt {

// The interior is where the index along the vectorized dim is at least (or less than) limit + add - terms.
struct InteriorBound {
  bool is_lower = false;
  int limit = -1;                           // an instruction that is invariant in the loop
  std::vector<std::pair<int, bool>> terms;  // others, and whether they are added instead
  int64_t add = 0;
};

struct Interior {
  // The same instructions with the same numbers, but without the guards that always hold in the interior, and in the
  // phases without the instructions that only other elements need. Instructions that may set the kernel's status
  // remain.
  KernelSpec spec;
  std::vector<InteriorBound> bounds;
  // The same instructions where not all bounds hold, without the guarded loads and what only they need. nullopt unless all
  // guards are one, and other elements are read there: as where a part of each row is overwritten.
  std::optional<KernelSpec> outside;
};

// For kernels without reductions: uses the guards of loads that compare the index along the vectorized dim with
// invariants. nullopt if there are none, or if no guarded load remains, as where rows are assembled from parts.
// `varying` are the instructions that are not invariant in the loop.
std::optional<Interior> FindInterior(const KernelSpec& spec, const std::vector<bool>& varying);

}  // namespace smelt

#endif  // SMELT_CODEGEN_INTERIOR_H_
