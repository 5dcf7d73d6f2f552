#include "smelt/runtime/device_call.h"

#include "absl/strings/str_cat.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/runtime/kernel_reports.h"

namespace smelt {

bool DeviceCall::Done() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return end_ == nullptr || end_->IsReached();
}

absl::Status DeviceCall::Wait() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (end_ == nullptr) return status_;
  status_ = CatchOutOfMemory([&]() -> absl::Status {
    const absl::Status waited = end_->Wait();
    if (!waited.ok()) return absl::Status(waited.code(), absl::StrCat(waited.message(), names_));
    const absl::Status refused = reports_ ? ReportedError(plan_, end_->words()) : absl::OkStatus();
    if (refused.ok() || kept_ == WrittenMemory::Kept::kYes) return refused;
    if (kept_ == WrittenMemory::Kept::kIfChecked && HasFailedCheck(plan_, end_->words())) return refused;
    return absl::Status(refused.code(), absl::StrCat(refused.message(), names_));
  });
  end_ = nullptr;
  args_.clear();
  return status_;
}

}  // namespace smelt
