// The reason for an error, for code that goes on in another way because of it. Messages are for people: no decision
// depends on their text.
//
//   return WithCause(absl::UnimplementedError("..."), Cause::kDependsOnOrder);
//   if (CauseOf(status) == Cause::kDependsOnOrder) ...
//
// The cause is a payload of the status: it survives Annotate, and every copy.
#ifndef SMELT_CORE_BASE_CAUSE_H_
#define SMELT_CORE_BASE_CAUSE_H_

#include "absl/status/status.h"

namespace smelt {

enum class Cause {
  kNone,
  kDependsOnOrder,        // the result depends on the order in which PyTorch computes elements
  kUnsupportedOperators,  // the message lists all operators that smelt does not describe
  kUndecidedSizes,        // neither the ranges of the symbols nor their hints decide a question about sizes
  kUnaligned,             // memory is not aligned for its dtype
  kOtherStrides,          // an argument has other strides than the exported one
};

// Returns the same error with the cause, in place of one that it had. An OK status is returned unchanged.
absl::Status WithCause(absl::Status error, Cause cause);

// Returns kNone for a status without a cause.
Cause CauseOf(const absl::Status& status);

}  // namespace smelt

#endif  // SMELT_CORE_BASE_CAUSE_H_
