// Calls of operators of the user's own in an eager-order program. Internal.
#ifndef SMELT_RUNTIME_EAGER_CUSTOM_H_
#define SMELT_RUNTIME_EAGER_CUSTOM_H_

#include "absl/status/status.h"
#include "smelt/runtime/eager_memory.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/runtime/executable.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// The implementation works on the memory itself, so whatever shares it sees the writes. `sizes` are the values of the
// bundle's expressions, against which the results are checked.
absl::Status RunCustomOperator(const fb::EagerInstrT& i, const Executable& program, const ExprValues& sizes,
                               EagerMemory& memory, EagerValues& values);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_CUSTOM_H_
