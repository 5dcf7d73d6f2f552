#include "smelt/runtime/kernel_reports.h"

#include "smelt/core/base/status_macros.h"

namespace smelt {

absl::Status KernelStatus(int64_t report) {
  if (report == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(report == 1   ? "index out of range"
                                       : report == 2 ? "ZeroDivisionError: integer division or modulo by zero"
                                                     : "the kernel reported an error");
}

bool HasFailedCheck(const ExecutablePlan& plan, const int64_t* words) {
  for (size_t i = 0; i < plan.plan->prologue_checks.size(); ++i) {
    if (words[(plan.steps.count + i) * kStatusWords] != 0) return true;
  }
  return false;
}

absl::Status ReportedError(const ExecutablePlan& plan, const int64_t* words) {
  const auto& checks = plan.plan->prologue_checks;
  for (size_t i = 0; i < checks.size(); ++i) {
    const int64_t report = words[(plan.steps.count + i) * kStatusWords];
    if (report == 0) continue;
    return StateError(
        checks[i]->message.empty() ? KernelStatus(report) : absl::FailedPreconditionError(checks[i]->message),
        checks[i]->source);
  }
  for (size_t block = 0; block < plan.plan->blocks.size(); ++block) {
    const auto& steps = plan.plan->blocks[block]->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t report = words[(plan.steps.first[block] + i) * kStatusWords];
      if (report != 0) return StateError(KernelStatus(report), steps[i]->source);
    }
  }
  return absl::OkStatus();
}

absl::Status StateError(const absl::Status& s, absl::string_view source) {
  if (s.ok() || source.empty()) return s;
  return Annotate(s, source);
}

}  // namespace smelt
