// Steps of a plan on a CUDA device that are no launches of the plan's own kernels: library operators and random
// numbers. They use the kernels of schema/library_kernels.h that the program's image holds. Internal.
//
//   DeviceLibrary library(program.image());
//   SMELT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceOp> op, library.Prepare(request));   // once per set of shapes
//   SMELT_ASSIGN_OR_RETURN(const bool ran, op->Run(device, inputs, outputs, status));
//   if (!ran) ...   // there is no kernel for it: the host computes it
//
// The operands are addresses on the device.
#ifndef SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
#define SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/philox.h"
#include "smelt/schema/bundle_generated.h"
#include "smelt/schema/library_kernels.h"

namespace smelt {

// A step for fixed shapes: a launch of which only addresses change from call to call. One thread may use it at a time.
class DeviceOp {
 public:
  // Returns whether the device computes the step, as far as the shapes tell.
  bool has_kernel() const { return !is_on_host_; }
  // Returns false, and has written nothing that counts, if the host has to compute the step. The kernel reports in
  // `status`, on the device.
  absl::StatusOr<bool> Run(const ExecutionDevice& device, absl::Span<char* const> inputs,
                           absl::Span<char* const> outputs, int64_t* status);
  // The same for an op of PrepareFill: fills the tensor at `to` with the next draws of the generator, which does not
  // advance. The numbers are those of fb::RandomT.
  absl::StatusOr<bool> Fill(const ExecutionDevice& device, double p0, double p1, const Generator& random, char* to,
                            int64_t* status);

 private:
  friend class DeviceLibrary;
  // A word that holds the address of an operand: its number in the inputs or the outputs.
  struct Address {
    int word = 0, operand = 0;
    bool is_output = false;
  };
  absl::Status Launch(const ExecutionDevice& device, int64_t* status);

  bool is_on_host_ = false;
  const KernelImage* image_ = nullptr;
  int kernel_ = -1;  // -1: there is nothing to compute
  std::vector<int64_t> words_;
  std::vector<Address> addresses_;
  // A word for the address of a number that the kernel sets if only the host has the answer; -1: none. The output may
  // then not be the input.
  int flag_word_ = -1;
};

class DeviceLibrary {
 public:
  // `image` may be null. It must outlive the ops.
  explicit DeviceLibrary(const KernelImage* image) : image_(image) {}

  // kInvalidArgument if the operands do not fit each other.
  absl::StatusOr<std::unique_ptr<DeviceOp>> Prepare(const LibraryRequest& request) const;
  absl::StatusOr<std::unique_ptr<DeviceOp>> PrepareFill(fb::RandomKind kind, DType t, absl::Span<const int64_t> strides,
                                                        absl::Span<const int64_t> sizes) const;

 private:
  // Each makes the op of a request, and returns false if no kernel of the image is for these operands.
  absl::StatusOr<bool> Product(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Convolution(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Attention(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Order(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Search(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Choose(const LibraryRequest& r, DeviceOp* op) const;
  absl::StatusOr<bool> Use(const LibraryKernel& kernel, DeviceOp* op) const;

  const KernelImage* image_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_LIBRARY_DEVICE_LIBRARY_H_
