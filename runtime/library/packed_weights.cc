#include "smelt/runtime/library/packed_weights.h"

#include <sys/mman.h>

#include <cstdlib>

#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {

PackedWeights::Source PackedWeights::SourceOf(const char* first, absl::Span<const int64_t> sizes,
                                              absl::Span<const int64_t> strides, int64_t item_bytes) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t reach = (sizes[d] - 1) * strides[d];
    (reach < 0 ? low : high) += reach;
  }
  return {first + low * item_bytes, (high - low + 1) * item_bytes};
}

absl::StatusOr<std::shared_ptr<const char>> PackedWeights::Get(const Source& source, absl::string_view layout,
                                                               int64_t bytes,
                                                               absl::FunctionRef<absl::Status(char*)> pack) {
  constexpr int64_t kLine = 64, kHugePage = int64_t{2} << 20;
  std::lock_guard<std::mutex> lock(mutex_);
  // The place is made first, because making it may throw.
  std::shared_ptr<const char>& place = packed_.try_emplace({source.begin, std::string(layout)}).first->second;
  if (place != nullptr) return place;
  const int64_t alignment = bytes < 2 * kHugePage ? kLine : kHugePage;
  char* memory = static_cast<char*>(std::aligned_alloc(
      static_cast<size_t>(alignment), static_cast<size_t>((bytes + alignment) / alignment * alignment)));
  if (memory == nullptr) throw OutOfMemory(bytes);
  // Products stream through it. The rest behind the last whole page is not worth one.
  if (alignment == kHugePage) madvise(memory, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  std::shared_ptr<const char> packed(memory, [](const char* p) { std::free(const_cast<char*>(p)); });
  SMELT_RETURN_IF_ERROR(pack(memory));
  place = packed;
  bytes_ += bytes;
  Release(source);
  return packed;
}

int64_t PackedWeights::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace smelt
