// Steps of a plan on a CUDA device that are no launches of the plan's own kernels: library operators and random
// numbers. They use the kernels of schema/library_kernels.h that the program's image holds. Internal.
//
//   DeviceLibrary library{device, program.image(), status};
//   SMELT_ASSIGN_OR_RETURN(const bool ran, library.Run(request, inputs, outputs));
//   if (!ran) ...   // there is no kernel for it: the host computes it
//
// The operands are addresses on the device. Each method returns false, and has done nothing, if no kernel of the image
// is for these operands.
#ifndef SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
#define SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/philox.h"
#include "smelt/schema/bundle_generated.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

class DeviceLibrary {
 public:
  // `image` may be null. Kernels report in `status`, on the device.
  DeviceLibrary(const ExecutionDevice& device, const KernelImage* image, int64_t* status)
      : device_(device), image_(image), status_(status) {}

  // kInvalidArgument if the operands do not fit each other.
  absl::StatusOr<bool> Run(const LibraryRequest& request, absl::Span<char* const> inputs,
                           absl::Span<char* const> outputs) const;
  // Fills a tensor with the next draws of the generator, which does not advance. The numbers are those of fb::RandomT.
  absl::StatusOr<bool> Fill(fb::RandomKind kind, double p0, double p1, const Generator& random, char* to, DType t,
                            absl::Span<const int64_t> strides, absl::Span<const int64_t> sizes) const;

 private:
  absl::StatusOr<bool> Product(const LibraryRequest& r, absl::Span<char* const> inputs,
                               absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Convolution(const LibraryRequest& r, absl::Span<char* const> inputs,
                                   absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Attention(const LibraryRequest& r, absl::Span<char* const> inputs,
                                 absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Order(const LibraryRequest& r, absl::Span<char* const> inputs,
                             absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Search(const LibraryRequest& r, absl::Span<char* const> inputs,
                              absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Choose(const LibraryRequest& r, absl::Span<char* const> inputs,
                              absl::Span<char* const> outputs) const;
  absl::StatusOr<bool> Launch(const LibraryKernel& kernel, absl::Span<const int64_t> words) const;

  const ExecutionDevice& device_;
  const KernelImage* image_;
  int64_t* status_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
