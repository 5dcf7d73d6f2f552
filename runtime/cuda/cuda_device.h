// An NVIDIA GPU as an execution device: the primary context, which is the one that PyTorch uses, and one stream of
// smelt's own in it. Internal.
//
//   SMELT_ASSIGN_OR_RETURN(const ExecutionDevice* device, ExecutionDevice::Of(Device::Cuda(0)));
//
// The stream waits for the work that was given to the context's default stream before, and the default stream for it.
// After an error that the context does not survive, every call returns that error.
#ifndef SMELT_RUNTIME_CUDA_CUDA_DEVICE_H_
#define SMELT_RUNTIME_CUDA_CUDA_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/device/device.h"

namespace smelt::cuda {

class CudaDevice final : public ExecutionDevice {
 public:
  static absl::StatusOr<const ExecutionDevice*> Open(int index);

  Device device() const override { return Device::Cuda(index_); }
  int compute_capability() const override { return compute_capability_; }

  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) const override;
  absl::Status Copy(char* to, const char* from, int64_t bytes) const override;
  absl::Status ToHost(char* to, const char* from, int64_t bytes) const override;
  absl::Status FromHost(char* to, const char* from, int64_t bytes) const override;
  absl::Status Zero(char* to, int64_t bytes) const override;
  absl::Status CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                           absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                           int item_bytes) const override;
  absl::StatusOr<std::shared_ptr<const KernelImage>> Load(absl::Span<const uint8_t> code,
                                                          std::vector<DeviceKernel> kernels) const override;
  absl::Status Launch(const KernelLaunch& launch) const override;
  absl::Status Synchronize() const override;

  // Makes the context current for the life of an object, and then the one before it.
  class Scope {
   public:
    // Makes several tries, of which one has to succeed.
    explicit Scope(const CudaDevice& device, int tries = 1);
    ~Scope();
    Scope(const Scope&) = delete;
    const absl::Status& status() const { return status_; }

   private:
    const CudaDevice& device_;
    bool is_pushed_ = false;
    absl::Status status_;
  };

  // Turns what the driver returns into a status, and remembers an error that loses the device.
  absl::Status Check(Result result, absl::string_view what) const;
  const Driver& driver() const { return *driver_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  // One half of the staging memory of the copies between host and device.
  static constexpr int64_t kStagingBytes = int64_t{4} << 20;

  CudaDevice() = default;
  absl::Status Init(int index);
  void Free(Address address) const;

  const Driver* driver_ = nullptr;
  int index_ = 0, multiprocessors_ = 0, compute_capability_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Pool pool_ = nullptr;
  char* staging_ = nullptr;  // pinned
  mutable std::mutex staging_mutex_;
  mutable std::mutex lost_mutex_;
  mutable absl::Status lost_;
  mutable std::atomic<bool> is_lost_ = false;
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_CUDA_DEVICE_H_
