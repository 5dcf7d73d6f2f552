#include "smelt/core/base/out_of_memory.h"

#include <cinttypes>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace smelt {

OutOfMemory::OutOfMemory(int64_t bytes) noexcept {
  std::snprintf(text_, sizeof text_, "no memory for %" PRId64 " bytes", bytes);
}

absl::Status OutOfMemoryStatus(const char* what) noexcept {
  try {
    return absl::ResourceExhaustedError(*what == '\0' ? "out of memory" : absl::StrCat("out of memory: ", what));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace smelt
