// Memory that ends, or begins, at an inaccessible page: an access beyond it ends the program. For tests, because
// sanitizers do not see generated kernels.
#ifndef SMELT_CORE_TENSOR_GUARDED_STORAGE_H_
#define SMELT_CORE_TENSOR_GUARDED_STORAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// The end of the memory that is next to such a page.
enum class GuardPages { kNone, kEnd, kBegin };

// Allocates `bytes` of zeros whose last (kEnd) or first (kBegin) byte is next to such a page; takes at least a page and
// two mappings each. When it grows, it becomes ordinary memory. `side` must not be kNone.
absl::StatusOr<std::shared_ptr<Storage>> GuardedStorage(int64_t bytes, GuardPages side);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_GUARDED_STORAGE_H_
