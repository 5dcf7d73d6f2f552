// The outermost layer: one tensor that is passed as several arguments becomes one. On entry repeats are dropped; on
// exit there is nothing to do, since all names are the same handle.
#ifndef SMELT_CORE_CONVENTION_DUPLICATES_H_
#define SMELT_CORE_CONVENTION_DUPLICATES_H_

#include <string>
#include <vector>

#include "smelt/core/convention/layer_index.h"

namespace smelt {

// The caller's arguments that are the same tensor. The identity if there are none.
struct DuplicatesLayer {
  std::vector<DistinctIndex> inner_of_outer;  // by CallerIndex
  std::string ToString() const;
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_DUPLICATES_H_
