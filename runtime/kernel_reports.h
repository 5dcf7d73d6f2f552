// The errors that kernels report by numbers, and the places that errors name. Internal.
#ifndef SMELT_RUNTIME_KERNEL_REPORTS_H_
#define SMELT_RUNTIME_KERNEL_REPORTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/executable.h"

namespace smelt {

// A kernel reports in the first of its status words. Launches do not share a cache line.
inline constexpr int64_t kStatusWords = 8;

inline bool IsIndexCheck(const fb::CheckT& c) {
  return c.kind == fb::CheckKind::IndexInRange || c.kind == fb::CheckKind::WrappedIndexInRange;
}

// Returns the error that a kernel reports by a number.
absl::Status KernelStatus(int64_t report);

// Returns the error of a plan's status words: kStatusWords for each step, then for each check of its prologue.
absl::Status ReportedError(const ExecutablePlan& plan, const int64_t* words);

// Returns whether a check of the prologue has reported something.
bool HasFailedCheck(const ExecutablePlan& plan, const int64_t* words);

// Adds the model's source line, if it is known, to an error.
absl::Status StateError(const absl::Status& s, absl::string_view source);

}  // namespace smelt

#endif  // SMELT_RUNTIME_KERNEL_REPORTS_H_
