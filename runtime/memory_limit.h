// The most memory that one tensor may ask for. Internal.
#ifndef SMELT_RUNTIME_MEMORY_LIMIT_H_
#define SMELT_RUNTIME_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace smelt {

// Refuses sizes that no memory can hold, before the bytes are counted. A lack of memory is detected when it is
// allocated (core/base/out_of_memory.h).
inline absl::Status CheckMemoryFor(int64_t elements, int item_bytes) {
  int64_t bytes;
  if (!__builtin_mul_overflow(elements, int64_t{item_bytes}, &bytes) && bytes <= int64_t{1} << 46) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("no memory for ", elements, " elements"));
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_MEMORY_LIMIT_H_
