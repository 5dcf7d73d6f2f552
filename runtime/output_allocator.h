// Memory for the results of calls. Internal.
#ifndef SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_
#define SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Memory for results, which is reused for results of the same bytes once the caller has released it. Keeps at most 32
// MiB that nobody uses, or as much as the last new result has.
class OutputAllocator {
 public:
  explicit OutputAllocator(GuardPages guard) : guard_(guard) {}
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int64_t bytes);

 private:
  GuardPages guard_;
  std::vector<std::shared_ptr<Storage>> known_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_
