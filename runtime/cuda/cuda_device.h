// An NVIDIA GPU as an execution device: the primary context, which is the one that PyTorch uses, and one stream of
// smelt's own in it. Internal.
//
//   SMELT_ASSIGN_OR_RETURN(const ExecutionDevice* device, ExecutionDevice::Of(Device::Cuda(0)));
//
// The stream waits for the work that was given to the context's default stream before, and the default stream for it.
// Other streams are ordered with it by events. While a call gathers its work (BeginCall), launches go to a list, which
// becomes a graph when it occurs again (launch_graphs.h); copies and checks are kernels of the runtime's own
// (functions/functions.h).
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
#include "smelt/runtime/cuda/cublaslt.h"
#include "smelt/runtime/cuda/driver.h"
#include "smelt/runtime/cuda/launch_graphs.h"
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
  absl::StatusOr<std::shared_ptr<const PreparedProduct>> Prepare(const DeviceProduct& product) const override;
  absl::Status Synchronize() const override;
  absl::Status BeginCall(std::unique_ptr<LaunchGraphs>* graphs) const override;
  absl::Status Submit() const override;
  int64_t submissions() const override { return gathered_.submissions; }
  void EndCall() const override;
  bool CanChoose() const override;
  absl::Status BeginChoice(const Predicate& predicate) const override;
  void Otherwise() const override;
  absl::Status BeginLoop(const Predicate& predicate) const override;
  absl::Status EndLoop(const Predicate& predicate) const override;
  void EndChoice(bool whole) const override;
  absl::Status FollowStream(uint64_t stream) const override;
  absl::Status LetStreamFollow(uint64_t stream) const override;
  absl::StatusOr<std::unique_ptr<WorkMark>> Mark(const int64_t* words, int64_t count) const override;
  absl::Status PutBack(char* to, const char* from, int64_t bytes, const Reports& reports) const override;
  absl::Status PutBackStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                              absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes, int item_bytes,
                              const Reports& reports) const override;
  absl::Status CheckIndices(const char* at, DType dtype, absl::Span<const int64_t> sizes,
                            absl::Span<const int64_t> strides, int64_t low, int64_t limit,
                            int64_t* report) const override;

  // How often the context is made current to release something, which may not fail.
  static constexpr int kReleaseTries = 2;
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
  Stream stream() const { return stream_; }
  Context context() const { return context_; }
  // Returns memory of at least so many bytes that all graphs share, since they run one after the other.
  absl::StatusOr<std::shared_ptr<void>> SharedWorkspace(int64_t bytes) const;
  void CountGraphLaunch() const { ++graph_launches_; }
  // Gives the device the work of a library now, or with all that the call gathers.
  absl::Status Add(std::shared_ptr<const LibraryWork> work, absl::Span<const int64_t> words,
                   int64_t workspace_bytes) const;
  void CountProduct() const { ++products_; }
  // Returns the stream in which work is captured, and which runs nothing. The context must be current.
  absl::StatusOr<Stream> CaptureStream() const;

 private:
  // One half of the staging memory of the copies between host and device.
  static constexpr int64_t kStagingBytes = int64_t{4} << 20;

  // An event, and memory that the driver copies words of the device to.
  struct Marker {
    Event event = nullptr;
    int64_t* words = nullptr;
    int64_t capacity = 0;
  };
  class CudaMark;
  enum Builtin : int;  // the functions of the runtime itself

  CudaDevice();
  absl::Status Init(int index);
  void Free(Address address) const;
  bool IsGathering() const;  // on this thread
  // Copies strided elements; if `reports` is not null, only if anything is reported.
  absl::Status CopyItems(char* to, absl::Span<const int64_t> to_strides, const char* from,
                         absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes, int item_bytes,
                         const Reports* reports) const;
  // Launches one of them.
  absl::Status Run(Builtin function, absl::Span<const int64_t> words, int64_t items, int64_t* report = nullptr) const;
  absl::StatusOr<Marker> NewMarker(int64_t count) const;
  // Gives the call a launch that decides, and what belongs to `then` after it.
  absl::Status Decide(const Predicate& predicate, LaunchList::Part part, LaunchList::Part then) const;

  const Driver* driver_ = nullptr;
  int index_ = 0, multiprocessors_ = 0, compute_capability_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  Pool pool_ = nullptr;
  char* staging_ = nullptr;  // pinned
  mutable std::mutex staging_mutex_;
  std::shared_ptr<const KernelImage> functions_;  // of the runtime
  std::shared_ptr<const KernelImage> choose_;     // ... that which decides a choice; null: the driver has no choices
  mutable int can_choose_ = -1;                   // -1: it was not tried yet
  struct LibraryProducts {
    std::mutex mutex;
    std::unique_ptr<CublasLt> library;  // null: no product was asked for yet
    Stream capture = nullptr;           // null: nothing was captured yet
  };
  mutable LibraryProducts products_by_library_;
  mutable std::mutex order_mutex_;
  Event order_event_ = nullptr;
  mutable std::mutex markers_mutex_;
  mutable std::vector<Marker> markers_;  // that no mark has; the driver may still write to them
  mutable std::mutex workspace_mutex_;
  mutable std::weak_ptr<void> workspace_;
  mutable int64_t workspace_bytes_ = 0;
  // The work of the call that runs, whose thread holds calls().
  struct Gathered {
    std::unique_ptr<LaunchGraphs>* graphs = nullptr;
    LaunchList list;
    size_t segment = 0;
    int64_t submissions = 0;
    std::vector<Address> freed;
  };
  mutable Gathered gathered_;
  mutable std::mutex lost_mutex_;
  mutable absl::Status lost_;
  mutable std::atomic<bool> is_lost_ = false;
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_CUDA_DEVICE_H_
