// An image whose code may hold library kernels (schema/library_kernels.h) besides the kernels that it was loaded with.
// Internal.
#ifndef SMELT_RUNTIME_DEVICE_LIBRARY_IMAGE_H_
#define SMELT_RUNTIME_DEVICE_LIBRARY_IMAGE_H_

#include "absl/status/statusor.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

class LibraryImage {
 public:
  virtual ~LibraryImage() = default;
  // Returns the number by which KernelLaunch names the kernel; -1 if the code does not hold it. Thread-safe.
  virtual absl::StatusOr<int> FindLibraryKernel(const LibraryKernel& kernel) const = 0;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_DEVICE_LIBRARY_IMAGE_H_
