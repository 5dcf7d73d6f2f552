// The memory of the caller that a compiled plan writes: its contents before the first write, for a plan that data may
// still refuse, and its names for errors. Internal.
#ifndef SMELT_RUNTIME_WRITTEN_MEMORY_H_
#define SMELT_RUNTIME_WRITTEN_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/state_store.h"
#include "smelt/runtime/value.h"

namespace smelt {

// How a plan changes a tensor besides its contents.
inline constexpr int kHandleChanges = static_cast<int>(fb::MutationKind::Geometry) |
                                      static_cast<int>(fb::MutationKind::Storage) |
                                      static_cast<int>(fb::MutationKind::Resized);

class WrittenMemory {
 public:
  WrittenMemory(const Executable& program, const ExecutionDevice* device);

  // Called at the start of a call.
  void Begin() {
    written_ = false;
    pieces_.clear();
  }
  // Called before each write to memory that the caller sees. Before the first one it keeps the contents, if the plan
  // may refuse late, or `is_checked_late`, and they are few. Nothing may be written if it fails.
  absl::Status Remember(const ExecutablePlan& plan, bool is_checked_late, absl::Span<const Datum> args,
                        const std::vector<Extent>& extents, const StateStore& states);
  bool written() const { return written_; }
  // The contents are kept, or a device has been told to keep them.
  bool is_kept() const { return !pieces_.empty(); }
  bool can_put_back() const { return is_kept() && (device_->is_host() || device_->submissions() > kept_after_); }
  absl::Status PutBack();
  // The same on a device, if anything is reported by the work before it.
  absl::Status PutBackIf(const ExecutionDevice::Reports& reports) const;
  // Called before changes that are not put back if the call fails.
  void Commit() {
    written_ = true;
    pieces_.clear();
  }

  // Returns the error with the names of what the plan may have written: their contents are now undefined.
  absl::Status WithNames(const absl::Status& error, int plan) const;
  const std::string& names(int plan) const { return names_[plan]; }

 private:
  struct Piece {
    char* at;
    size_t bytes, from;  // in bytes_
  };

  absl::Status SaveOnDevice(int64_t bytes);

  const ExecutionDevice* device_;
  bool written_ = false;
  int64_t kept_after_ = 0;  // submissions to the device
  std::vector<Piece> pieces_;
  std::vector<char> bytes_;             // on the host
  std::shared_ptr<Storage> on_device_;  // the same on another device
  // By plan: text for errors. The second is used when there is no memory for text.
  std::vector<std::string> names_;
  std::vector<absl::Status> out_of_memory_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_WRITTEN_MEMORY_H_
