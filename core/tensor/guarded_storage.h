// Memory that ends, or begins, at a page that nobody may touch: what goes beyond it ends the program. For tests:
// sanitizers do not see generated kernels.
#ifndef SMELT_CORE_TENSOR_GUARDED_STORAGE_H_
#define SMELT_CORE_TENSOR_GUARDED_STORAGE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Where memory meets such a page.
enum class GuardPages { kNone, kEnd, kBegin };

// `bytes` of zeros whose last (kEnd) or first (kBegin) byte lies at such a page; at least a page and two mappings each.
// Grown, it is ordinary memory. `side` is not kNone.
absl::StatusOr<std::shared_ptr<Storage>> GuardedStorage(int64_t bytes, GuardPages side);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_GUARDED_STORAGE_H_
