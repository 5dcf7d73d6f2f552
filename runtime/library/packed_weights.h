// Constant operands in the layouts in which library calls read them. An operand is packed once per layout, when a call
// first needs it, and all calls share the result: tiles, shapes, plans and instances.
//
//   PackedWeights weights;
//   SMELT_ASSIGN_OR_RETURN(auto packed, weights.Get({b, bytes}, "panels 4096x1024", packed_bytes, [&](char* to) {
//     PackRight(k, n, b, b_row, b_col, to);
//     return absl::OkStatus();
//   }));
#ifndef SMELT_RUNTIME_LIBRARY_PACKED_WEIGHTS_H_
#define SMELT_RUNTIME_LIBRARY_PACKED_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace smelt {

class PackedWeights {
 public:
  // The memory that an operand lies in, from its first to behind its last byte.
  struct Source {
    const char* begin = nullptr;
    int64_t bytes = 0;
  };

  // Returns the memory of an operand whose first element is at `first`. All sizes are at least 1.
  static Source SourceOf(const char* first, absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides,
                         int64_t item_bytes);

  // `on_packed` is called after an operand, or a part of it, was packed: whoever owns its memory may let go of the pages,
  // which are rarely read again. It is called on the thread that packs, and must not use this object.
  explicit PackedWeights(std::function<void(const Source&)> on_packed = nullptr) : on_packed_(std::move(on_packed)) {}
  PackedWeights(const PackedWeights&) = delete;

  // Returns the operand in a layout, at a multiple of 64 bytes. If it is not there yet, `pack` writes its `bytes` bytes.
  // `layout` names the layout together with all that determines the bytes besides the contents of `source`: sizes,
  // strides and dtype. Returns the error of `pack`; throws OutOfMemory. Thread-safe; while one thread packs, others
  // wait.
  absl::StatusOr<std::shared_ptr<const char>> Get(const Source& source, absl::string_view layout, int64_t bytes,
                                                  absl::FunctionRef<absl::Status(char*)> pack);

  // Says that a part of an operand has been packed. A `pack` may call it, so that a large operand is not resident twice.
  void Release(const Source& part) const {
    if (on_packed_ != nullptr) on_packed_(part);
  }

  // Returns the memory of all packed operands.
  int64_t bytes() const;

 private:
  const std::function<void(const Source&)> on_packed_;
  mutable std::mutex mutex_;
  std::map<std::pair<const char*, std::string>, std::shared_ptr<const char>> packed_;  // by begin and layout
  int64_t bytes_ = 0;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_PACKED_WEIGHTS_H_
