// The border between the executor and what holds memory and runs kernels: the host, or an accelerator.
//
//   SMELT_ASSIGN_OR_RETURN(const ExecutionDevice* device, ExecutionDevice::Of(Device::Cuda(0)));
//   SMELT_ASSIGN_OR_RETURN(auto image, device->Load(code, kernels));
//   SMELT_RETURN_IF_ERROR(device->Launch({.image = image.get(), .kernel = 0, .words = words, .tiles = n}));
//   SMELT_RETURN_IF_ERROR(device->Synchronize());
//
// Work on a device runs in the order of the calls, and may still run when a call returns. An error of earlier work may
// be reported by any later call. Internal.
#ifndef SMELT_RUNTIME_DEVICE_DEVICE_H_
#define SMELT_RUNTIME_DEVICE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/schema/bundle.h"

namespace smelt {

struct LibraryKernel;

// A kernel of the host.
using KernelEntry = void (*)(const int64_t* words, int64_t begin, int64_t end, int64_t* status);

// A kernel of an accelerator: how it is launched, which schema/cuda_launch.h explains, and the number of its words. The
// launch data are the bundle's and must outlive the image.
struct DeviceKernel {
  const fb::CudaKernelT* launch = nullptr;
  int num_words = 0;
};

// Code that a device has loaded. Thread-safe.
class KernelImage {
 public:
  virtual ~KernelImage() = default;
  // Returns the number by which KernelLaunch names a kernel of schema/library_kernels.h, which the code may hold besides
  // those that it was loaded with; -1 if it does not.
  virtual absl::StatusOr<int> FindLibraryKernel(const LibraryKernel& kernel) const { return -1; }
  // Returns whether launching a kernel copies nothing from the host to the device.
  virtual bool PassesWordsByValue(int kernel) const { return false; }
};

struct KernelLaunch {
  const KernelImage* image = nullptr;
  int kernel = 0;
  const int64_t* words = nullptr;
  int64_t tiles = 0;
  int64_t* status = nullptr;  // on the device
  // For the host: its code, and how its threads share the tiles.
  KernelEntry entry = nullptr;
  int64_t chunk = 0, chunks = 1;
};

// A product of matrices: c = alpha * (a @ b) + beta * bias, rounded once. Strides are in elements, those of the bias are 0
// where it is broadcast, and a batch is one dim.
struct DeviceProduct {
  struct Matrix {
    int64_t row = 0, column = 0, batch = 0;  // strides
  };
  DType in = DType::kFloat32, out = DType::kFloat32;  // of a and b; of c and the bias
  int64_t rows = 0, columns = 0, inner = 0, batches = 1;
  Matrix a, b, c, bias;
  bool has_bias = false;
  double alpha = 1, beta = 1;
  std::string name;  // for errors
};

// A product that a library of the device computes, for any addresses. Thread-safe.
class PreparedProduct {
 public:
  virtual ~PreparedProduct() = default;
  // Returns false, and has done nothing, if the library refuses operands that are aligned like these.
  virtual absl::StatusOr<bool> Run(const char* a, const char* b, const char* bias, char* c) const = 0;
};

// The work of one bound plan as a device keeps it, to give it again at once. Destroying it waits for that work.
class LaunchGraphs {
 public:
  virtual ~LaunchGraphs() = default;
};

// A point in the work of a device, and words that the work before it has left. Thread-safe.
class WorkMark {
 public:
  virtual ~WorkMark() = default;
  virtual bool IsReached() const = 0;
  virtual absl::Status Wait() const = 0;
  virtual const int64_t* words() const = 0;  // to be read after Wait
};

class ExecutionDevice : public DeviceMemory {
 public:
  using DeviceOpener = absl::StatusOr<const ExecutionDevice*> (*)(int index);
  // Called once by the library that supports the devices of a type.
  static void RegisterCuda(DeviceOpener opener);
  // Returns a device other than the host, for the life of the process. Fails as DeviceMemory::Of does.
  static absl::StatusOr<const ExecutionDevice*> Of(Device device);

  virtual Device device() const = 0;
  bool is_host() const { return device().is_cpu(); }
  // 10 * major + minor of an NVIDIA GPU; else 0.
  virtual int compute_capability() const { return 0; }

  // The transfers between host and device so far, and how often the host has waited. Always 0 for the host itself.
  struct Transfers {
    int64_t to_host = 0, to_device = 0;  // bytes
    int64_t waits = 0;
    int64_t driver_calls = 0;    // of functions that can fail
    int64_t graph_launches = 0;  // of the work of several launches at once
    int64_t products = 0;        // that a PreparedProduct computes
  };
  Transfers transfers() const { return {to_host_, to_device_, waits_, driver_calls_, graph_launches_, products_}; }

  // Copies strided elements. The two may not overlap.
  virtual absl::Status CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                   absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                   int item_bytes) const = 0;

  // Loads code for this device. `kernels` says how each is launched. The device looks a kernel up when it first runs.
  virtual absl::StatusOr<std::shared_ptr<const KernelImage>> Load(absl::Span<const uint8_t> code,
                                                                  std::vector<DeviceKernel> kernels) const = 0;
  // Runs a kernel on its tiles. The words are read before this returns.
  virtual absl::Status Launch(const KernelLaunch& launch) const = 0;
  // Prepares a product. Returns null if the device has no library that computes it.
  virtual absl::StatusOr<std::shared_ptr<const PreparedProduct>> Prepare(const DeviceProduct& product) const {
    return nullptr;
  }
  // Waits for all work.
  virtual absl::Status Synchronize() const = 0;

  // Calls on one accelerator are given to it one after the other; each holds this while it is.
  std::mutex& calls() const { return calls_; }

  // --- for calls on an accelerator: they need `calls` ---
  // From here to EndCall, this thread's launches and copies within the device are gathered, and memory that it frees
  // stays until they are submitted. Whatever needs their outcome submits them first. Work that is submitted again
  // becomes a graph, which `graphs` keeps; other words in it are all that may differ then.
  virtual absl::Status BeginCall(std::unique_ptr<LaunchGraphs>* graphs) const { return absl::OkStatus(); }
  virtual absl::Status Submit() const { return absl::OkStatus(); }
  // Returns how often work has been submitted since BeginCall, without an error. What fails may have run in part.
  virtual int64_t submissions() const { return 0; }
  // The words that kernels report: `count` words, each `distance` words after the last. 0: nothing.
  struct Reports {
    const int64_t* first = nullptr;
    int64_t count = 0, distance = 1;
  };
  // Returns true if the device itself can choose between two parts of a call's work. Then work after BeginChoice is done only if
  // the predicate is true, work after Otherwise only if it is not, and work after EndChoice in any case. Work between
  // BeginLoop and EndLoop is done again and again while the predicate is true, first at BeginLoop and then at EndLoop,
  // which takes the same one. Nothing may be submitted in between, and choices are not nested.
  virtual bool CanChoose() const { return false; }
  // True if the `bytes` bytes are not all 0, and nothing is reported.
  struct Predicate {
    const char* at = nullptr;
    int64_t bytes = 0;
    Reports reports = {};
  };
  virtual absl::Status BeginChoice(const Predicate& predicate) const;
  virtual void Otherwise() const {}
  virtual absl::Status BeginLoop(const Predicate& predicate) const;
  virtual absl::Status EndLoop(const Predicate& predicate) const;
  // Ends a loop, too. Drops the whole choice if not all of its work was given.
  virtual void EndChoice(bool whole) const {}
  // Drops work that was not submitted.
  virtual void EndCall() const {}
  // Lets later work of this device follow all that `stream` has been given, and later work of `stream` follow all that
  // this device has been given. The number of a stream is the driver's handle: 0 and 1 are the default stream, which is
  // always ordered so, and 2 is the calling thread's. LetStreamFollow is for any thread.
  virtual absl::Status FollowStream(uint64_t stream) const { return absl::OkStatus(); }
  virtual absl::Status LetStreamFollow(uint64_t stream) const { return absl::OkStatus(); }
  // Marks this point, with copies of `count` words of the device.
  virtual absl::StatusOr<std::unique_ptr<WorkMark>> Mark(const int64_t* words, int64_t count) const;
  // Copies bytes if anything is reported by then.
  virtual absl::Status PutBack(char* to, const char* from, int64_t bytes, const Reports& reports) const;
  // The same for strided elements.
  virtual absl::Status PutBackStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                      absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                      int item_bytes, const Reports& reports) const;
  // Reports 1 if an integer of a strided view is not in [low, limit).
  virtual absl::Status CheckIndices(const char* at, DType dtype, absl::Span<const int64_t> sizes,
                                    absl::Span<const int64_t> strides, int64_t low, int64_t limit,
                                    int64_t* report) const;

  absl::StatusOr<std::shared_ptr<Storage>> NewStorage(int64_t bytes) const;
  // The same as Tensor::EmptyStrided.
  absl::StatusOr<Tensor> NewTensor(DType dtype, absl::Span<const int64_t> sizes,
                                   absl::Span<const int64_t> strides) const;
  // Copies the elements of one tensor to another of the same sizes. The two may not overlap.
  absl::Status CopyElements(const Tensor& to, const Tensor& from) const;

 protected:
  mutable std::atomic<int64_t> to_host_ = 0, to_device_ = 0, waits_ = 0, driver_calls_ = 0, graph_launches_ = 0,
                               products_ = 0;

 private:
  mutable std::mutex calls_;
};

// The host, whose work is done when a call returns.
class HostDevice final : public ExecutionDevice {
 public:
  HostDevice(ThreadPool* pool, int width) : pool_(pool), width_(width) {}

  Device device() const override { return Device::Cpu(); }
  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) const override;
  absl::Status Copy(char* to, const char* from, int64_t bytes) const override;
  absl::Status ToHost(char* to, const char* from, int64_t bytes) const override { return Copy(to, from, bytes); }
  absl::Status FromHost(char* to, const char* from, int64_t bytes) const override { return Copy(to, from, bytes); }
  absl::Status Zero(char* to, int64_t bytes) const override;
  absl::Status CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                           absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                           int item_bytes) const override;
  // Code of the host comes from executable pages of the bundle: KernelLaunch::entry.
  absl::StatusOr<std::shared_ptr<const KernelImage>> Load(absl::Span<const uint8_t> code,
                                                          std::vector<DeviceKernel> kernels) const override;
  absl::Status Launch(const KernelLaunch& launch) const override;
  absl::Status Synchronize() const override { return absl::OkStatus(); }

 private:
  ThreadPool* pool_;
  int width_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_DEVICE_DEVICE_H_
