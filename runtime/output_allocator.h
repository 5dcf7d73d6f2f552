// Memory for the results of calls. Internal.
#ifndef SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_
#define SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/device/device.h"

namespace smelt {

// Memory for results, which is reused for results of the same bytes once the caller has released it. Keeps at most 32
// MiB that nobody uses, or as much as the last new result has. A device other than the host keeps unused memory itself.
class OutputAllocator {
 public:
  OutputAllocator(GuardPages guard, const ExecutionDevice* device) : guard_(guard), device_(device) {}
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int64_t bytes);

 private:
  GuardPages guard_;
  const ExecutionDevice* device_;
  std::vector<std::shared_ptr<Storage>> known_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_OUTPUT_ALLOCATOR_H_
