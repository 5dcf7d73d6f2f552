#include "smelt/runtime/device/device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

std::atomic<ExecutionDevice::DeviceOpener> cuda_opener = nullptr;

}  // namespace

void ExecutionDevice::RegisterCuda(DeviceOpener opener) {
  cuda_opener = opener;
  DeviceMemory::Register(Device::Type::kCuda,
                         [](int index) -> absl::StatusOr<const DeviceMemory*> { return cuda_opener.load()(index); });
}

absl::StatusOr<const ExecutionDevice*> ExecutionDevice::Of(Device device) {
  // All devices that are registered are of this class.
  SMELT_ASSIGN_OR_RETURN(const DeviceMemory* memory, DeviceMemory::Of(device));
  return static_cast<const ExecutionDevice*>(memory);
}

absl::StatusOr<std::shared_ptr<Storage>> ExecutionDevice::NewStorage(int64_t bytes) const {
  if (is_host()) return Storage::Allocate(bytes);
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, Allocate(bytes));
  void* data = memory.get();
  // Memory of no bytes has no owner of its own; the storage is not a borrowed one for that.
  if (memory == nullptr) memory = std::make_shared<char>();
  return Storage::Adopt(data, bytes, std::move(memory), device(), this);
}

absl::StatusOr<Tensor> ExecutionDevice::NewTensor(DType dtype, absl::Span<const int64_t> sizes,
                                                  absl::Span<const int64_t> strides) const {
  if (is_host()) return Tensor::EmptyStrided(dtype, sizes, strides);
  Geometry g;
  g.sizes.assign(sizes.begin(), sizes.end());
  g.strides.assign(strides.begin(), strides.end());
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, NewStorage(g.Span().second * ItemSize(dtype)));
  return Tensor(std::move(storage), dtype, std::move(g));
}

absl::Status ExecutionDevice::CopyElements(const Tensor& to, const Tensor& from) const {
  return CopyStrided(to.address(), to.strides(), from.address(), from.strides(), to.sizes(), ItemSize(to.dtype()));
}

absl::StatusOr<std::unique_ptr<WorkMark>> ExecutionDevice::Mark(const int64_t* words, int64_t count) const {
  return absl::UnimplementedError("the host has no work to mark");
}

absl::Status ExecutionDevice::BeginChoice(const Predicate& predicate) const {
  return absl::UnimplementedError("the host chooses itself");
}
absl::Status ExecutionDevice::BeginLoop(const Predicate& predicate) const { return BeginChoice(predicate); }
absl::Status ExecutionDevice::EndLoop(const Predicate& predicate) const { return BeginChoice(predicate); }

absl::Status ExecutionDevice::PutBack(char* to, const char* from, int64_t bytes, const Reports& reports) const {
  return absl::UnimplementedError("the host puts back itself");
}

absl::Status ExecutionDevice::PutBackStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                             absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                             int item_bytes, const Reports& reports) const {
  return absl::UnimplementedError("the host puts back itself");
}

absl::Status ExecutionDevice::CheckIndices(const char* at, DType dtype, absl::Span<const int64_t> sizes,
                                           absl::Span<const int64_t> strides, int64_t low, int64_t limit,
                                           int64_t* report) const {
  return absl::UnimplementedError("the host checks indices itself");
}

absl::StatusOr<std::shared_ptr<void>> HostDevice::Allocate(int64_t bytes) const {
  std::shared_ptr<Storage> storage = Storage::Allocate(bytes);
  void* data = storage->data();
  return std::shared_ptr<void>(std::move(storage), data);
}

absl::Status HostDevice::Copy(char* to, const char* from, int64_t bytes) const {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status HostDevice::Zero(char* to, int64_t bytes) const {
  if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status HostDevice::CopyStrided(char* to, absl::Span<const int64_t> to_strides, const char* from,
                                     absl::Span<const int64_t> from_strides, absl::Span<const int64_t> sizes,
                                     int item_bytes) const {
  smelt::CopyStrided(to, to_strides, from, from_strides, sizes, item_bytes, pool_, width_);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const KernelImage>> HostDevice::Load(absl::Span<const uint8_t> code,
                                                                    std::vector<DeviceKernel> kernels) const {
  return absl::UnimplementedError("the host runs code of the bundle in its place");
}

absl::Status HostDevice::Launch(const KernelLaunch& l) const {
  if (l.chunks == 1) {
    l.entry(l.words, 0, l.tiles, l.status);
  } else {
    pool_->For(l.chunks, width_,
               [&](int64_t c) { l.entry(l.words, c * l.chunk, std::min(l.tiles, (c + 1) * l.chunk), l.status); });
  }
  return absl::OkStatus();
}

}  // namespace smelt
