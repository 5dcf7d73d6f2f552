#include "smelt/runtime/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cuda/functions/choose.ptx.h"
#include "smelt/runtime/cuda/functions/functions.h"
#include "smelt/runtime/cuda/functions/functions.ptx.h"
#include "smelt/runtime/cuda/launch_graphs.h"
#include "smelt/runtime/strided.h"
#include "smelt/schema/cuda_launch.h"
#include "smelt/schema/library_kernels.h"

namespace smelt::cuda {
namespace {

Address AddressOf(const void* p) { return static_cast<Address>(reinterpret_cast<uintptr_t>(p)); }
size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

// Unused memory that stays with the process between calls.
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;
// Shared memory beyond this must be asked for.
constexpr int kPlainSharedBytes = 48 << 10;

class Image final : public KernelImage {
 public:
  struct Stage {
    Function function = nullptr;
    unsigned most_blocks = 1;
  };

  Image(const CudaDevice& device, std::vector<uint8_t> code, std::vector<DeviceKernel> kernels)
      : device_(device), code_(std::move(code)), kernels_(kernels.begin(), kernels.end()), found_(kernels_.size()) {}
  ~Image() override {
    if (module_ == nullptr) return;
    // Its kernels may still run. There is nobody to tell of a failure here.
    const CudaDevice::Scope scope(device_, CudaDevice::kReleaseTries);
    if (!scope.status().ok()) return;
    device_.Check(device_.driver().cuStreamSynchronize(device_.stream()), "the last kernels of a program")
        .IgnoreError();
    device_.driver().cuModuleUnload(module_);
  }

  absl::StatusOr<int> FindLibraryKernel(const LibraryKernel& kernel) const override {
    const std::string entry = kernel.Entry();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [it, is_new] = library_.try_emplace(entry, -1);
    if (!is_new) return it->second;
    const CudaDevice::Scope scope(device_);
    absl::Status status = scope.status();
    if (status.ok()) status = LoadModule();
    Function function = nullptr;
    const Result result =
        status.ok() ? device_.driver().cuModuleGetFunction(&function, module_, entry.c_str()) : kSuccess;
    if (status.ok() && result == kNotFound) return -1;
    status.Update(device_.Check(result, entry));
    if (!status.ok()) {
      library_.erase(it);
      return status;
    }
    launches_.push_back(kernel.Launch());
    kernels_.push_back({&launches_.back(), kernel.NumWords()});
    found_.emplace_back();
    return it->second = static_cast<int>(kernels_.size()) - 1;
  }

  bool PassesWordsByValue(int kernel) const override { return Get(kernel).kernel.launch->words_by_value; }

  struct Known {
    const DeviceKernel& kernel;
    const std::vector<Stage>* stages;  // null: they were not looked up yet
  };
  Known Get(int kernel) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {kernels_[kernel], found_[kernel].empty() ? nullptr : &found_[kernel]};
  }
  // Returns the functions of a kernel. The context must be current.
  absl::StatusOr<const std::vector<Stage>*> Find(int kernel) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Stage>& found = found_[kernel];
    if (!found.empty()) return &found;
    const Driver& driver = device_.driver();
    SMELT_RETURN_IF_ERROR(LoadModule());
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
  absl::Status LoadModule() const {
    if (module_ != nullptr) return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(
        device_.Check(device_.driver().cuModuleLoadData(&module_, code_.data()), "loading the kernels"));
    code_ = {};
    return absl::OkStatus();
  }

  const CudaDevice& device_;
  mutable std::mutex mutex_;
  mutable std::vector<uint8_t> code_;  // until it is loaded
  mutable Module module_ = nullptr;
  // Their places stay: others are added, but none is removed.
  mutable std::deque<DeviceKernel> kernels_;
  mutable std::deque<std::vector<Stage>> found_;  // by kernel; empty: not looked up yet
  mutable std::deque<fb::CudaKernelT> launches_;  // of library kernels
  mutable std::map<std::string, int> library_;    // by entry: the kernel's number, or -1
};

// The device whose work this thread gathers.
thread_local const CudaDevice* gathering = nullptr;

}  // namespace

enum CudaDevice::Builtin : int { kMove, kZero, kPutBack, kCopy, kPutBackItems, kCheckIndices };

namespace {

// The launches of the runtime's functions: in the order of CudaDevice::Builtin, and that of the one that chooses.
const std::vector<fb::CudaKernelT>& RuntimeLaunches() {
  static const auto* const launches = [] {
    auto* out = new std::vector<fb::CudaKernelT>();
    for (const char* name : {"smelt_move", "smelt_zero", "smelt_put_back", "smelt_copy", "smelt_put_back_items",
                             "smelt_check_indices", "smelt_choose"}) {
      auto stage = std::make_unique<fb::CudaStageT>();
      stage->entry = name;
      stage->threads = 256;
      stage->items_per_block = 256;
      stage->factors.push_back(fb::CudaFactor(-1, 0, 1));
      fb::CudaKernelT& kernel = out->emplace_back();
      kernel.words_by_value = true;
      kernel.stages.push_back(std::move(stage));
    }
    return out;
  }();
  return *launches;
}
std::vector<DeviceKernel> RuntimeKernels() {
  std::vector<DeviceKernel> kernels;
  const int words[] = {functions::kMoveWords, functions::kZeroWords,         functions::kPutBackWords,
                       functions::kCopyWords, functions::kPutBackItemsWords, functions::kCheckIndexWords};
  for (size_t k = 0; k < std::size(words); ++k) kernels.push_back({&RuntimeLaunches()[k], words[k]});
  return kernels;
}

int64_t Word(const void* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p)); }

}  // namespace

CudaDevice::CudaDevice() = default;

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
  SMELT_RETURN_IF_ERROR(Check(driver_->cuEventCreate(&order_event_, kEventWithoutTime), "cuEventCreate"));
  const auto* ptx = reinterpret_cast<const uint8_t*>(functions::kPtx);
  SMELT_ASSIGN_OR_RETURN(functions_, Load({ptx, sizeof functions::kPtx - 1}, RuntimeKernels()));
  if (!driver_->has_conditional_nodes()) return absl::OkStatus();
  const auto* choose = reinterpret_cast<const uint8_t*>(functions::kChoosePtx);
  SMELT_ASSIGN_OR_RETURN(choose_, Load({choose, sizeof functions::kChoosePtx - 1},
                                       {{&RuntimeLaunches().back(), functions::kChooseWords}}));
  return absl::OkStatus();
}

absl::Status CudaDevice::Check(Result result, absl::string_view what) const {
  ++driver_calls_;
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
  if (IsGathering()) {
    gathered_.freed.push_back(address);
    return;
  }
  const Scope scope(*this, kReleaseTries);
  // An error here is one of earlier work, which a later call reports too.
  if (scope.status().ok()) Check(driver_->cuMemFreeAsync(address, stream_), "freeing memory").IgnoreError();
}

absl::Status CudaDevice::Copy(char* to, const char* from, int64_t bytes) const {
  if (bytes == 0 || to == from) return absl::OkStatus();
  if (IsGathering()) return Run(kMove, {Word(to), Word(from), bytes}, (bytes + 15) / 16);
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  return Check(driver_->cuMemcpyDtoDAsync(AddressOf(to), AddressOf(from), Size(bytes), stream_),
               "a copy on the device");
}

absl::Status CudaDevice::ToHost(char* to, const char* from, int64_t bytes) const {
  if (bytes == 0) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(Submit());
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
  SMELT_RETURN_IF_ERROR(Submit());
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
  if (IsGathering()) return Run(kZero, {Word(to), bytes}, (bytes + 7) / 8);
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  return Check(driver_->cuMemsetD8Async(AddressOf(to), 0, Size(bytes), stream_), "clearing memory");
}

absl::Status CudaDevice::CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                     absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                     int item_bytes) const {
  return CopyItems(to, to_strides, from, from_strides, sizes, item_bytes, nullptr);
}

absl::Status CudaDevice::PutBackStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                        absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                        int item_bytes, const Reports& reports) const {
  return CopyItems(to, to_strides, from, from_strides, sizes, item_bytes, &reports);
}

absl::Status CudaDevice::CopyItems(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                   absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                   int item_bytes, const Reports* reports) const {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  if (elements == 0 || (to == from && to_strides == from_strides)) return absl::OkStatus();
  const std::vector<StridedDim> dims = MergedDims(sizes, to_strides, from_strides, item_bytes);
  const size_t rank = dims.size();
  if (rank == 0 || (rank == 1 && dims[0].dst == item_bytes && dims[0].src == item_bytes)) {
    const int64_t bytes = rank == 0 ? item_bytes : elements * item_bytes;
    return reports == nullptr ? Copy(to, from, bytes) : PutBack(to, from, bytes, *reports);
  }
  const size_t most = functions::kMaxRank, outer = rank > most ? rank - most : 0;
  std::vector<int64_t> all(functions::kPutBackItemsWords);
  const absl::Span<int64_t> words = absl::MakeSpan(all).subspan(3);
  if (reports != nullptr) all[0] = Word(reports->first), all[1] = reports->count, all[2] = reports->distance;
  words[2] = item_bytes;
  words[3] = elements;
  words[4] = static_cast<int64_t>(rank - outer);
  for (size_t d = outer; d < rank; ++d) {
    words[5 + 3 * (d - outer)] = dims[d].size;
    words[6 + 3 * (d - outer)] = dims[d].dst;
    words[7 + 3 * (d - outer)] = dims[d].src;
  }
  // The outermost of very many dims are counted here.
  for (size_t d = 0; d < outer; ++d) words[3] /= dims[d].size;
  for (int64_t k = 0; k < elements / words[3]; ++k) {
    words[0] = Word(to);
    words[1] = Word(from);
    int64_t left = k;
    for (size_t d = outer; d-- > 0; left /= dims[d].size) {
      words[0] += left % dims[d].size * dims[d].dst;
      words[1] += left % dims[d].size * dims[d].src;
    }
    SMELT_RETURN_IF_ERROR(reports == nullptr ? Run(kCopy, words, words[3]) : Run(kPutBackItems, all, words[3]));
  }
  return absl::OkStatus();
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
  const auto& image = static_cast<const Image&>(*l.image);
  auto [kernel, stages] = image.Get(l.kernel);
  const fb::CudaKernelT& launch = *kernel.launch;
  const absl::Span<const int64_t> values(l.words, static_cast<size_t>(kernel.num_words));
  std::optional<Scope> scope;
  if (stages == nullptr || !IsGathering()) {
    scope.emplace(*this);
    SMELT_RETURN_IF_ERROR(scope->status());
  }
  if (stages == nullptr) {
    SMELT_ASSIGN_OR_RETURN(stages, image.Find(l.kernel));
  }
  SMELT_ASSIGN_OR_RETURN(const int64_t workspace_bytes, ComputeWorkspaceBytes(launch, values, l.tiles));
  std::shared_ptr<void> words;
  int64_t words_at = 0;
  if (!launch.words_by_value) {
    const int64_t bytes = kernel.num_words * static_cast<int64_t>(sizeof(int64_t));
    SMELT_ASSIGN_OR_RETURN(words, Allocate(bytes));
    SMELT_RETURN_IF_ERROR(FromHost(static_cast<char*>(words.get()), reinterpret_cast<const char*>(l.words), bytes));
    words_at = Word(words.get());
  }
  LaunchList own;
  LaunchList& list = IsGathering() ? gathered_.list : own;
  for (size_t k = 0; k < stages->size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(const int64_t blocks, ComputeBlocks(launch, static_cast<int>(k), values, l.tiles));
    if (blocks == 0) continue;
    const fb::CudaStageT& stage = *launch.stages[k];
    const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, (*stages)[k].most_blocks));
    list.Add((*stages)[k].function, stage.entry.c_str(),
             {grid, static_cast<unsigned>(stage.threads), static_cast<unsigned>(stage.shared_bytes)},
             launch.words_by_value ? values : absl::Span<const int64_t>(&words_at, 1), l.tiles, AddressOf(l.status),
             workspace_bytes);
  }
  return own.empty() ? absl::OkStatus() : LaunchEach(*this, own);
}

absl::StatusOr<std::shared_ptr<const PreparedProduct>> CudaDevice::Prepare(const DeviceProduct& product) const {
  const std::lock_guard<std::mutex> lock(products_by_library_.mutex);
  if (products_by_library_.library == nullptr) {
    SMELT_ASSIGN_OR_RETURN(products_by_library_.library, CublasLt::Create(*this));
  }
  return products_by_library_.library->Prepare(product);
}

absl::Status CudaDevice::Add(std::shared_ptr<const LibraryWork> work, absl::Span<const int64_t> words,
                             int64_t workspace_bytes) const {
  LaunchList own;
  (IsGathering() ? gathered_.list : own).Add(std::move(work), words, workspace_bytes);
  if (own.empty()) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  return LaunchEach(*this, own);
}

absl::StatusOr<Stream> CudaDevice::CaptureStream() const {
  if (products_by_library_.capture == nullptr) {
    SMELT_RETURN_IF_ERROR(
        Check(driver_->cuStreamCreate(&products_by_library_.capture, kUnorderedStream), "cuStreamCreate"));
  }
  return products_by_library_.capture;
}

absl::Status CudaDevice::Run(Builtin function, absl::Span<const int64_t> words, int64_t items, int64_t* report) const {
  KernelLaunch launch;
  launch.image = functions_.get();
  launch.kernel = function;
  launch.words = words.data();
  launch.tiles = items;
  launch.status = report;
  return Launch(launch);
}

bool CudaDevice::IsGathering() const { return gathering == this; }

absl::Status CudaDevice::BeginCall(std::unique_ptr<LaunchGraphs>* graphs) const {
  if (*graphs == nullptr) *graphs = std::make_unique<CudaGraphs>(*this);
  gathered_.graphs = graphs;
  gathered_.segment = 0;
  gathered_.submissions = 0;
  gathering = this;
  return absl::OkStatus();
}

bool CudaDevice::CanChoose() const {
  if (can_choose_ >= 0) return can_choose_ == 1;
  can_choose_ = 0;
  if (choose_ == nullptr) return false;
  // The driver may fail to link the kernel.
  const Scope scope(*this);
  can_choose_ = scope.status().ok() && static_cast<const Image&>(*choose_).Find(0).ok() ? 1 : 0;
  return can_choose_ == 1;
}

absl::Status CudaDevice::Decide(const Predicate& predicate, LaunchList::Part part, LaunchList::Part then) const {
  const Reports& reports = predicate.reports;
  const int64_t words[functions::kChooseWords] = {
      0, 0, Word(predicate.at), predicate.bytes, Word(reports.first), reports.count, reports.distance};
  KernelLaunch launch;
  launch.image = choose_.get();
  launch.words = words;
  launch.tiles = 1;
  gathered_.list.SetPart(part);
  const absl::Status launched = Launch(launch);
  if (launched.ok()) gathered_.list.SetPart(then);
  return launched;
}

absl::Status CudaDevice::BeginChoice(const Predicate& predicate) const {
  return Decide(predicate, LaunchList::kDecides, LaunchList::kIfChosen);
}

void CudaDevice::Otherwise() const { gathered_.list.SetPart(LaunchList::kIfNot); }

absl::Status CudaDevice::BeginLoop(const Predicate& predicate) const {
  return Decide(predicate, LaunchList::kDecides, LaunchList::kRepeated);
}

absl::Status CudaDevice::EndLoop(const Predicate& predicate) const {
  return Decide(predicate, LaunchList::kDecidesAgain, LaunchList::kAlways);
}

void CudaDevice::EndChoice(bool whole) const { gathered_.list.EndChoice(whole); }

absl::Status CudaDevice::Submit() const {
  if (!IsGathering()) return absl::OkStatus();
  if (gathered_.list.is_in_choice()) return absl::InternalError("work of a choice was to be submitted on its own");
  absl::Status status;
  if (!gathered_.list.empty()) {
    const Scope scope(*this);
    status = scope.status();
    if (status.ok()) {
      status = static_cast<CudaGraphs&>(**gathered_.graphs).Launch(gathered_.segment, gathered_.list);
    }
    ++gathered_.segment;
    gathered_.submissions += status.ok() ? 1 : 0;
    gathered_.list.Clear();
  }
  std::vector<Address> freed;
  freed.swap(gathered_.freed);
  gathering = nullptr;
  for (const Address a : freed) Free(a);
  gathering = this;
  return status;
}

void CudaDevice::EndCall() const {
  if (!IsGathering()) return;
  gathered_.list.Clear();
  Submit().IgnoreError();  // only frees memory
  gathering = nullptr;
}

namespace {

// The default stream, with which this device's is ordered in any case.
bool IsDefault(uint64_t stream) { return stream <= 1; }

Stream StreamOf(uint64_t stream) { return reinterpret_cast<Stream>(static_cast<uintptr_t>(stream)); }

}  // namespace

absl::Status CudaDevice::FollowStream(uint64_t stream) const {
  if (IsDefault(stream)) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  const std::lock_guard<std::mutex> lock(order_mutex_);
  SMELT_RETURN_IF_ERROR(Check(driver_->cuEventRecord(order_event_, StreamOf(stream)), "the caller's stream"));
  return Check(driver_->cuStreamWaitEvent(stream_, order_event_, 0), "the caller's stream");
}

absl::Status CudaDevice::LetStreamFollow(uint64_t stream) const {
  SMELT_RETURN_IF_ERROR(Submit());
  if (IsDefault(stream)) return absl::OkStatus();
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  const std::lock_guard<std::mutex> lock(order_mutex_);
  SMELT_RETURN_IF_ERROR(Check(driver_->cuEventRecord(order_event_, stream_), "the caller's stream"));
  return Check(driver_->cuStreamWaitEvent(StreamOf(stream), order_event_, 0), "the caller's stream");
}

class CudaDevice::CudaMark final : public WorkMark {
 public:
  CudaMark(const CudaDevice& device, Marker marker) : device_(device), marker_(marker) {}
  ~CudaMark() override {
    const std::lock_guard<std::mutex> lock(device_.markers_mutex_);
    device_.markers_.push_back(marker_);
  }
  bool IsReached() const override {
    const Scope scope(device_);
    // An error is for Wait to tell.
    return !scope.status().ok() || device_.driver().cuEventQuery(marker_.event) != kNotReady;
  }
  absl::Status Wait() const override {
    const Scope scope(device_);
    SMELT_RETURN_IF_ERROR(scope.status());
    ++device_.waits_;
    return device_.Check(device_.driver().cuEventSynchronize(marker_.event), "the work of the call");
  }
  const int64_t* words() const override { return marker_.words; }

 private:
  const CudaDevice& device_;
  const Marker marker_;
};

absl::StatusOr<CudaDevice::Marker> CudaDevice::NewMarker(int64_t count) const {
  {
    const std::lock_guard<std::mutex> lock(markers_mutex_);
    for (size_t i = 0; i < markers_.size(); ++i) {
      if (markers_[i].capacity < count || driver_->cuEventQuery(markers_[i].event) != kSuccess) continue;
      std::swap(markers_[i], markers_.back());
      const Marker found = markers_.back();
      markers_.pop_back();
      return found;
    }
  }
  // It stays for later calls. What a failure leaves is not used, and small.
  Marker made;
  made.capacity = std::max<int64_t>(64, count * 2);
  void* words = nullptr;
  SMELT_RETURN_IF_ERROR(
      Check(driver_->cuMemHostAlloc(&words, Size(made.capacity) * sizeof(int64_t), 0), "cuMemHostAlloc"));
  made.words = static_cast<int64_t*>(words);
  SMELT_RETURN_IF_ERROR(Check(driver_->cuEventCreate(&made.event, kEventWithoutTime), "cuEventCreate"));
  return made;
}

absl::StatusOr<std::unique_ptr<WorkMark>> CudaDevice::Mark(const int64_t* words, int64_t count) const {
  SMELT_RETURN_IF_ERROR(Submit());
  const Scope scope(*this);
  SMELT_RETURN_IF_ERROR(scope.status());
  SMELT_ASSIGN_OR_RETURN(const Marker marker, NewMarker(count));
  auto mark = std::make_unique<CudaMark>(*this, marker);
  if (count > 0) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
    to_host_ += bytes;
    SMELT_RETURN_IF_ERROR(
        Check(driver_->cuMemcpyDtoHAsync(marker.words, AddressOf(words), Size(bytes), stream_), "a copy to the host"));
  }
  SMELT_RETURN_IF_ERROR(Check(driver_->cuEventRecord(marker.event, stream_), "the end of the call"));
  return mark;
}

absl::Status CudaDevice::PutBack(char* to, const char* from, int64_t bytes, const Reports& reports) const {
  if (bytes == 0) return absl::OkStatus();
  return Run(kPutBack, {Word(to), Word(from), bytes, Word(reports.first), reports.count, reports.distance},
             (bytes + 15) / 16);
}

absl::Status CudaDevice::CheckIndices(const char* at, DType dtype, absl::Span<const int64_t> sizes,
                                      absl::Span<const int64_t> strides, int64_t low, int64_t limit,
                                      int64_t* report) const {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  if (elements == 0) return absl::OkStatus();
  const int64_t item = ItemSize(dtype);
  const std::vector<StridedDim> dims = MergedDims(sizes, strides, strides, item);
  if (dims.size() > functions::kMaxRank)
    return absl::UnimplementedError("an index with so many strided dims on a device");
  std::vector<int64_t> words(functions::kCheckIndexWords);
  words[0] = Word(at);
  words[1] = item;
  words[2] = dtype == DType::kInt8;
  words[3] = elements;
  words[4] = low;
  words[5] = limit;
  words[6] = static_cast<int64_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    words[7 + 2 * d] = dims[d].size;
    words[8 + 2 * d] = dims[d].dst;
  }
  return Run(kCheckIndices, words, elements, report);
}

absl::StatusOr<std::shared_ptr<void>> CudaDevice::SharedWorkspace(int64_t bytes) const {
  if (bytes == 0) return std::shared_ptr<void>();
  const std::lock_guard<std::mutex> lock(workspace_mutex_);
  std::shared_ptr<void> now = workspace_.lock();
  if (now != nullptr && workspace_bytes_ >= bytes) return now;
  // A graph that has the old one keeps it.
  const int64_t rounded = (bytes + (bytes >> 1) + 255) / 256 * 256;
  SMELT_ASSIGN_OR_RETURN(now, Allocate(rounded));
  workspace_ = now;
  workspace_bytes_ = rounded;
  return now;
}

absl::Status CudaDevice::Synchronize() const {
  SMELT_RETURN_IF_ERROR(Submit());
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
