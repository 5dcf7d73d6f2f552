// A fact that functionalization leaves for the fuser: the inputs whose memory a call rewrites.
#ifndef SMELT_CORE_PASS_WRITTEN_INPUTS_H_
#define SMELT_CORE_PASS_WRITTEN_INPUTS_H_

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The inputs of a pure graph whose memory has other contents when the call returns.
struct WrittenInputs {
  absl::flat_hash_set<ValueId> values;
};

}  // namespace smelt

#endif  // SMELT_CORE_PASS_WRITTEN_INPUTS_H_
