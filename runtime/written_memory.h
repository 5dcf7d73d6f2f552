// The memory of the caller that a compiled plan writes: its contents before the first write, for a plan that data may
// still refuse, and its names for errors. Internal.
#ifndef SMELT_RUNTIME_WRITTEN_MEMORY_H_
#define SMELT_RUNTIME_WRITTEN_MEMORY_H_

#include <cstddef>
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
  explicit WrittenMemory(const Executable& program);

  // Called at the start of a call.
  void Begin() {
    written_ = false;
    pieces_.clear();
  }
  // Called before each write to memory that the caller sees. Before the first one it keeps the contents, if the plan
  // may refuse late and they are few.
  void Remember(const ExecutablePlan& plan, absl::Span<const Datum> args, const std::vector<Extent>& extents,
                const StateStore& states);
  bool written() const { return written_; }
  bool can_put_back() const { return !pieces_.empty(); }
  void PutBack();
  // Called before changes that are not put back if the call fails.
  void Commit() {
    written_ = true;
    pieces_.clear();
  }

  // Returns the error with the names of what the plan may have written: their contents are now undefined.
  absl::Status WithNames(const absl::Status& error, int plan) const;

 private:
  struct Piece {
    char* at;
    size_t bytes, from;  // in bytes_
  };

  bool written_ = false;
  std::vector<Piece> pieces_;
  std::vector<char> bytes_;
  // By plan: text for errors. The second is used when there is no memory for text.
  std::vector<std::string> names_;
  std::vector<absl::Status> out_of_memory_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_WRITTEN_MEMORY_H_
