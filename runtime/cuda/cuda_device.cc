#include "smelt/runtime/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/strided.h"
#include "smelt/schema/cuda_launch.h"

namespace smelt::cuda {
namespace {

Address AddressOf(const void* p) { return static_cast<Address>(reinterpret_cast<uintptr_t>(p)); }
size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

// Unused memory that stays with the process between calls.
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;
// How often the context is made current to release something, which may not fail.
constexpr int kReleaseTries = 2;
// Shared memory beyond this must be asked for.
constexpr int kPlainSharedBytes = 48 << 10;

class Image final : public KernelImage {
 public:
  struct Stage {
    Function function = nullptr;
    unsigned most_blocks = 1;
  };

  Image(const CudaDevice& device, std::vector<uint8_t> code, std::vector<DeviceKernel> kernels)
      : device_(device), code_(std::move(code)), kernels_(std::move(kernels)), found_(kernels_.size()) {}
  ~Image() override {
    if (module_ == nullptr) return;
    // There is nobody to tell of a failure here.
    const CudaDevice::Scope scope(device_, kReleaseTries);
    if (scope.status().ok()) device_.driver().cuModuleUnload(module_);
  }

  const DeviceKernel& kernel(int k) const { return kernels_[k]; }

  // Returns the functions of a kernel. The context must be current.
  absl::StatusOr<const std::vector<Stage>*> Find(int kernel) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Stage>& found = found_[kernel];
    if (!found.empty()) return &found;
    const Driver& driver = device_.driver();
    if (module_ == nullptr) {
      SMELT_RETURN_IF_ERROR(device_.Check(driver.cuModuleLoadData(&module_, code_.data()), "loading the kernels"));
      code_ = {};
    }
    std::vector<Stage> stages;
    for (const auto& launched : kernels_[kernel].launch->stages) {
      const fb::CudaStageT& s = *launched;
      Stage& stage = stages.emplace_back();
      SMELT_RETURN_IF_ERROR(
          device_.Check(driver.cuModuleGetFunction(&stage.function, module_, s.entry.c_str()), s.entry));
      if (s.shared_bytes > kPlainSharedBytes) {
        SMELT_RETURN_IF_ERROR(
            device_.Check(driver.cuFuncSetAttribute(stage.function, kMaxDynamicSharedBytes, s.shared_bytes), s.entry));
      }
      int blocks = 0;
      SMELT_RETURN_IF_ERROR(device_.Check(
          driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, stage.function, s.threads, Size(s.shared_bytes)),
          s.entry));
      if (blocks < 1) {
        return absl::FailedPreconditionError(absl::StrCat(s.entry, ": a block of ", s.threads, " threads with ",
                                                          s.shared_bytes, " bytes of shared memory does not fit ",
                                                          device_.device().ToString()));
      }
      stage.most_blocks = static_cast<unsigned>(blocks) * static_cast<unsigned>(device_.multiprocessors());
    }
    found = std::move(stages);
    return &found;
  }

 private:
  const CudaDevice& device_;
  mutable std::mutex mutex_;
  mutable std::vector<uint8_t> code_;  // until it is loaded
  mutable Module module_ = nullptr;
  std::vector<DeviceKernel> kernels_;
  mutable std::vector<std::vector<Stage>> found_;  // by kernel; empty: not looked up yet
};

}  // namespace

CudaDevice::Scope::Scope(const CudaDevice& device, int tries) : device_(device) {
  for (int i = 0; i < tries && !is_pushed_; ++i) {
    const Result pushed = device.driver().cuCtxPushCurrent(device.context_);
    is_pushed_ = pushed == kSuccess;
    status_ = device.Check(pushed, "cuCtxPushCurrent");
  }
}

CudaDevice::Scope::~Scope() {
  Context popped;
  if (is_pushed_) device_.driver().cuCtxPopCurrent(&popped);
}

absl::StatusOr<const ExecutionDevice*> CudaDevice::Open(int index) {
  static auto* const mutex = new std::mutex();
  static auto* const opened = new std::map<int, CudaDevice*>();
  const std::lock_guard<std::mutex> lock(*mutex);
  auto it = opened->find(index);
  if (it != opened->end()) return it->second;
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice());
  SMELT_RETURN_IF_ERROR(device->Init(index));
  it = opened->emplace(index, device.release()).first;
  return it->second;
}

absl::Status CudaDevice::Init(int index) {
  SMELT_ASSIGN_OR_RETURN(driver_, Driver::Get());
  index_ = index;
  int count = 0;
  SMELT_RETURN_IF_ERROR(Check(driver_->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (index >= count) {
    return absl::FailedPreconditionError(absl::StrCat("there is no ", device().ToString(), ": the CUDA driver finds ",
                                                      count, count == 1 ? " GPU" : " GPUs"));
  }
  DeviceNumber number = 0;
  SMELT_RETURN_IF_ERROR(Check(driver_->cuDeviceGet(&number, index), "cuDeviceGet"));
  int major = 0, minor = 0, pools = 0;
  for (const auto& [attribute, value] :
       {std::pair(kMajor, &major), {kMinor, &minor}, {kMultiprocessors, &multiprocessors_}, {kMemoryPools, &pools}}) {
    SMELT_RETURN_IF_ERROR(Check(driver_->cuDeviceGetAttribute(value, attribute, number), "cuDeviceGetAttribute"));
  }
  compute_capability_ = 10 * major + minor;
  if (pools == 0)
    return absl::FailedPreconditionError(absl::StrCat(device().ToString(), " has no stream-ordered memory"));
  // The primary context, the stream and the pool live as long as the process.
  SMELT_RETURN_IF_ERROR(Check(driver_->cuDevicePrimaryCtxRetain(&context_, number), "cuDevicePrimaryCtxRetain"));
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  SMELT_RETURN_IF_ERROR(Check(driver_->cuStreamCreate(&stream_, /*flags=*/0), "cuStreamCreate"));
  PoolProperties properties;
  properties.location_id = number;
  SMELT_RETURN_IF_ERROR(Check(driver_->cuMemPoolCreate(&pool_, &properties), "cuMemPoolCreate"));
  uint64_t kept = kKeptBytes;
  SMELT_RETURN_IF_ERROR(
      Check(driver_->cuMemPoolSetAttribute(pool_, kReleaseThreshold, &kept), "cuMemPoolSetAttribute"));
  void* staging = nullptr;
  SMELT_RETURN_IF_ERROR(Check(driver_->cuMemHostAlloc(&staging, Size(2 * kStagingBytes), 0), "cuMemHostAlloc"));
  staging_ = static_cast<char*>(staging);
  return absl::OkStatus();
}

absl::Status CudaDevice::Check(Result result, absl::string_view what) const {
  if (result == kSuccess) {
    if (!is_lost_) return absl::OkStatus();
    const std::lock_guard<std::mutex> lock(lost_mutex_);
    return lost_;
  }
  absl::Status error = Annotate(driver_->Error(result, what), device().ToString());
  if (!Driver::LosesTheDevice(result)) return error;
  const std::lock_guard<std::mutex> lock(lost_mutex_);
  if (!is_lost_) {
    lost_ = absl::UnavailableError(
        absl::StrCat(error.message(), "; the device cannot be used by this process any more: its memory is lost"));
    is_lost_ = true;
  }
  return lost_;
}

absl::StatusOr<std::shared_ptr<void>> CudaDevice::Allocate(int64_t bytes) const {
  if (bytes == 0) return std::shared_ptr<void>();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  Address address = 0;
  SMELT_RETURN_IF_ERROR(Check(driver_->cuMemAllocFromPoolAsync(&address, Size(bytes), pool_, stream_),
                              absl::StrCat("allocating ", bytes, " bytes")));
  return std::shared_ptr<void>(reinterpret_cast<void*>(static_cast<uintptr_t>(address)),
                               [this](void* p) { Free(AddressOf(p)); });
}

void CudaDevice::Free(Address address) const {
  const Scope scope(*this, kReleaseTries);
  // An error here is one of earlier work, which a later call reports too.
  if (scope.status().ok()) Check(driver_->cuMemFreeAsync(address, stream_), "freeing memory").IgnoreError();
}

absl::Status CudaDevice::Copy(char* to, const char* from, int64_t bytes) const {
  if (bytes == 0 || to == from) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  return Check(driver_->cuMemcpyDtoDAsync(AddressOf(to), AddressOf(from), Size(bytes), stream_),
               "a copy on the device");
}

absl::Status CudaDevice::ToHost(char* to, const char* from, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  const std::lock_guard<std::mutex> lock(staging_mutex_);
  to_host_ += bytes;
  for (int64_t at = 0; at < bytes; at += kStagingBytes) {
    const int64_t part = std::min(kStagingBytes, bytes - at);
    SMELT_RETURN_IF_ERROR(
        Check(driver_->cuMemcpyDtoHAsync(staging_, AddressOf(from + at), Size(part), stream_), "a copy to the host"));
    ++waits_;
    SMELT_RETURN_IF_ERROR(Check(driver_->cuStreamSynchronize(stream_), "a copy to the host"));
    std::memcpy(to + at, staging_, Size(part));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::FromHost(char* to, const char* from, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  const std::lock_guard<std::mutex> lock(staging_mutex_);
  to_device_ += bytes;
  // While one half is copied to the device, the other is filled. The last copy is awaited too: the staging memory is
  // free when this returns.
  absl::Status status;
  int half = 0;
  for (int64_t at = 0; status.ok() && at < bytes; at += kStagingBytes, half = 1 - half) {
    const int64_t part = std::min(kStagingBytes, bytes - at);
    char* const staged = staging_ + half * kStagingBytes;
    if (half == 0 && at > 0) {
      ++waits_;
      status = Check(driver_->cuStreamSynchronize(stream_), "a copy to the device");
      if (!status.ok()) break;
    }
    std::memcpy(staged, from + at, Size(part));
    status = Check(driver_->cuMemcpyHtoDAsync(AddressOf(to + at), staged, Size(part), stream_), "a copy to the device");
  }
  ++waits_;
  const absl::Status waited = Check(driver_->cuStreamSynchronize(stream_), "a copy to the device");
  return status.ok() ? waited : status;
}

absl::Status CudaDevice::Zero(char* to, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  return Check(driver_->cuMemsetD8Async(AddressOf(to), 0, Size(bytes), stream_), "clearing memory");
}

absl::Status CudaDevice::CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                     absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                     int item_bytes) const {
  Geometry target, source;
  target.sizes.assign(sizes.begin(), sizes.end());
  target.strides.assign(to_strides.begin(), to_strides.end());
  source.sizes = target.sizes;
  source.strides.assign(from_strides.begin(), from_strides.end());
  const int64_t elements = target.NumElements();
  if (elements == 0 || (to == from && target.strides == source.strides)) return absl::OkStatus();
  const auto [to_low, to_high] = target.Span();
  const auto [from_low, from_high] = source.Span();
  bool same_layout = to_high - to_low == elements;
  for (size_t d = 0; d < sizes.size(); ++d) same_layout &= sizes[d] == 1 || to_strides[d] == from_strides[d];
  if (same_layout) return Copy(to + to_low * item_bytes, from + from_low * item_bytes, elements * item_bytes);
  // The host moves the elements: the bytes between those of the destination keep their values.
  ++strided_copies_;
  std::vector<char> read(Size((from_high - from_low) * item_bytes)), written(Size((to_high - to_low) * item_bytes));
  SMELT_RETURN_IF_ERROR(ToHost(read.data(), from + from_low * item_bytes, static_cast<int64_t>(read.size())));
  if (to_high - to_low != elements)
    SMELT_RETURN_IF_ERROR(ToHost(written.data(), to + to_low * item_bytes, static_cast<int64_t>(written.size())));
  smelt::CopyStrided(written.data() - to_low * item_bytes, to_strides, read.data() - from_low * item_bytes,
                     from_strides, sizes, item_bytes);
  return FromHost(to + to_low * item_bytes, written.data(), static_cast<int64_t>(written.size()));
}

absl::StatusOr<std::shared_ptr<const KernelImage>> CudaDevice::Load(absl::Span<const uint8_t> code,
                                                                    std::vector<DeviceKernel> kernels) const {
  // PTX ends in a NUL.
  std::vector<uint8_t> copy(code.begin(), code.end());
  copy.push_back(0);
  return std::make_shared<const Image>(*this, std::move(copy), std::move(kernels));
}

absl::Status CudaDevice::Launch(const KernelLaunch& l) const {
  if (l.tiles <= 0) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  const auto& image = static_cast<const Image&>(*l.image);
  const DeviceKernel& kernel = image.kernel(l.kernel);
  const fb::CudaKernelT& launch = *kernel.launch;
  const absl::Span<const int64_t> values(l.words, static_cast<size_t>(kernel.num_words));
  SMELT_ASSIGN_OR_RETURN(const std::vector<Image::Stage>* stages, image.Find(l.kernel));
  SMELT_ASSIGN_OR_RETURN(const int64_t workspace_bytes, ComputeWorkspaceBytes(launch, values, l.tiles));
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<void> workspace, Allocate(workspace_bytes));
  std::shared_ptr<void> words;
  if (!launch.words_by_value) {
    const int64_t bytes = kernel.num_words * static_cast<int64_t>(sizeof(int64_t));
    SMELT_ASSIGN_OR_RETURN(words, Allocate(bytes));
    SMELT_RETURN_IF_ERROR(FromHost(static_cast<char*>(words.get()), reinterpret_cast<const char*>(l.words), bytes));
  }
  int64_t begin = 0, end = l.tiles;
  Address words_at = AddressOf(words.get()), status = AddressOf(l.status), workspace_at = AddressOf(workspace.get());
  void* const first = launch.words_by_value ? static_cast<void*>(const_cast<int64_t*>(l.words)) : &words_at;
  void* parameters[] = {first, &begin, &end, &status, &workspace_at};
  for (size_t k = 0; k < stages->size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(const int64_t blocks, ComputeBlocks(launch, static_cast<int>(k), values, l.tiles));
    if (blocks == 0) continue;
    const fb::CudaStageT& stage = *launch.stages[k];
    const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, (*stages)[k].most_blocks));
    SMELT_RETURN_IF_ERROR(
        Check(driver_->cuLaunchKernel((*stages)[k].function, grid, 1, 1, static_cast<unsigned>(stage.threads), 1, 1,
                                      static_cast<unsigned>(stage.shared_bytes), stream_, parameters, nullptr),
              stage.entry));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::Synchronize() const {
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  ++waits_;
  return Check(driver_->cuStreamSynchronize(stream_), "the work of the call");
}

namespace {

[[maybe_unused]] const bool registered = [] {
  ExecutionDevice::RegisterCuda(&CudaDevice::Open);
  return true;
}();

}  // namespace
}  // namespace smelt::cuda
