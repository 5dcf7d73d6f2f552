// The memory of the caller that a compiled plan writes: its contents before the first write, for a plan that data may
// still refuse, and its names for errors. Internal.
#ifndef SMELT_RUNTIME_WRITTEN_MEMORY_H_
#define SMELT_RUNTIME_WRITTEN_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/state_store.h"
#include "smelt/runtime/strided.h"
#include "smelt/runtime/value.h"

namespace smelt {

// How a plan changes a tensor besides its contents.
inline constexpr int kHandleChanges = static_cast<int>(fb::MutationKind::Geometry) |
                                      static_cast<int>(fb::MutationKind::Storage) |
                                      static_cast<int>(fb::MutationKind::Resized);

// Returns whether a call with the plan changes more of tensors than their contents, which only the host can: then it must
// know first that the data do not refuse the call.
bool ChangesHandles(const ExecutablePlan& plan);

class WrittenMemory {
 public:
  WrittenMemory(const Executable& program, const ExecutionDevice* device);

  // Called at the start of a call.
  void Begin() {
    written_ = false;
    kept_if_ = {};
    pieces_.clear();
  }
  // Called before each write to memory that the caller sees. Before the first one it keeps the contents if the plan may
  // refuse late. On the host it does so only if they are few. On a device, `checks` is what the checks in front of the
  // plan report: if only they can refuse, a device copies the contents, unless they are few, only if one does. Nothing
  // may be written if it fails. `written` returns all that the plan writes, if that is known: of much memory, a device
  // keeps no more.
  absl::Status Remember(const ExecutablePlan& plan, const ExecutionDevice::Reports& checks,
                        absl::Span<const Datum> args, const std::vector<Extent>& extents, const StateStore& states,
                        absl::FunctionRef<std::vector<StridedSpan>()> written);
  bool written() const { return written_; }
  // The contents are kept, or a device has been told to keep them. kIfChecked: only if a check reports something.
  enum class Kept { kNo, kYes, kIfChecked };
  Kept kept() const {
    if (pieces_.empty()) return Kept::kNo;
    return kept_if_.count > 0 ? Kept::kIfChecked : Kept::kYes;
  }
  // `is_checked` says that a check has reported something.
  bool can_put_back(bool is_checked) const {
    if (kept() == Kept::kNo || (kept() == Kept::kIfChecked && !is_checked)) return false;
    return device_->is_host() || device_->submissions() > kept_after_;
  }
  absl::Status PutBack();
  // The same on a device, if the work before it reports anything.
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
    // Elements of a view, which are kept densely; `item` 0: the bytes themselves.
    int item = 0;
    std::vector<int64_t> sizes = {}, strides = {}, dense = {};
  };

  // Does the work of Remember before the first write.
  absl::Status Keep(const ExecutablePlan& plan, const ExecutionDevice::Reports& checks, absl::Span<const Datum> args,
                    const std::vector<Extent>& extents, const StateStore& states,
                    absl::FunctionRef<std::vector<StridedSpan>()> written);
  // Replaces the pieces by what is written, if that is known and much less. Returns how many bytes are kept.
  size_t KeepOnlyWritten(size_t bytes, const std::vector<StridedSpan>& written);
  absl::Status SaveOnDevice(int64_t bytes);
  // Copies a piece on the device to where it is kept, or back: with `reports`, only if anything is reported.
  absl::Status Copy(const Piece& p, bool back, const ExecutionDevice::Reports* reports) const;

  const ExecutionDevice* device_;
  bool written_ = false;
  int64_t kept_after_ = 0;            // submissions to the device
  ExecutionDevice::Reports kept_if_;  // the device keeps the contents if any of these is not 0; none: it does
  std::vector<Piece> pieces_;
  std::vector<char> bytes_;             // on the host
  std::shared_ptr<Storage> on_device_;  // the same on another device
  // By plan: text for errors. The second is used when there is no memory for text.
  std::vector<std::string> names_;
  std::vector<absl::Status> out_of_memory_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_WRITTEN_MEMORY_H_
