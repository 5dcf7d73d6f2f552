#include "smelt/core/tensor/tensor.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int64_t kAlignment = 64;
// Storages of at least kPages bytes begin at a page. Rows that are as long as a page are then one page each, and pairs
// of cache lines are aligned as in the hardware.
constexpr int64_t kPage = 4096, kPages = 1 << 20;
// Storages of at least kHugePages bytes begin at a huge page and request huge pages. With small pages, a kernel that
// streams memory looks up a new page every 64 cache lines, which took a quarter of the time of a layer norm (more in
// virtual machines), and each page of a fresh result costs a fault.
constexpr int64_t kHugePage = 2 << 20, kHugePages = 4 << 20;

// Returns nullptr if there is not enough memory.
char* AllocateAligned(int64_t bytes) {
  const bool huge = bytes >= kHugePages;
  const int64_t alignment = bytes < kPages ? kAlignment : huge ? kHugePage : kPage;
  void* memory = nullptr;
  if (bytes > std::numeric_limits<int64_t>::max() - kHugePage) return nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  if (posix_memalign(&memory, static_cast<size_t>(alignment), size) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(memory, size / kPage * kPage, MADV_HUGEPAGE);
#endif
  return static_cast<char*>(memory);
}

// Copies elements of `bytes` bytes from a strided source to a dense destination, in row-major order.
template <int kBytes>
void CopyToDense(const char* source, const Geometry& g, char* destination) {
  const int rank = g.rank();
  if (rank == 0) {
    std::memcpy(destination, source, kBytes);
    return;
  }
  std::vector<int64_t> index(rank, 0);
  const int64_t inner = g.sizes[rank - 1];
  const int64_t step = g.strides[rank - 1];
  const int64_t rows = g.NumElements() / inner;
  for (int64_t row = 0; row < rows; ++row) {
    if (step == 1) {
      std::memcpy(destination, source, static_cast<size_t>(inner) * kBytes);
    } else {
      for (int64_t i = 0; i < inner; ++i) std::memcpy(destination + i * kBytes, source + i * step * kBytes, kBytes);
    }
    destination += inner * kBytes;
    for (int d = rank - 2; d >= 0; --d) {
      if (++index[d] < g.sizes[d]) {
        source += g.strides[d] * kBytes;
        break;
      }
      source -= (g.sizes[d] - 1) * g.strides[d] * kBytes;
      index[d] = 0;
    }
  }
}

}  // namespace

Geometry Geometry::Contiguous(absl::Span<const int64_t> sizes, int64_t offset) {
  Geometry g;
  g.sizes.assign(sizes.begin(), sizes.end());
  g.strides.resize(sizes.size());
  g.offset = offset;
  int64_t stride = 1;
  for (int d = g.rank() - 1; d >= 0; --d) {
    g.strides[d] = stride;
    // PyTorch counts a size of 0 as 1 here.
    SMELT_CHECK(!__builtin_mul_overflow(stride, std::max<int64_t>(sizes[d], 1), &stride))
        << "strides of [" << absl::StrJoin(sizes, ", ") << "] are no int64";
  }
  return g;
}

int64_t Geometry::NumElements() const {
  int64_t n = 1;
  for (int64_t s : sizes) {
    if (s == 0) return 0;
  }
  for (int64_t s : sizes) {
    SMELT_CHECK(!__builtin_mul_overflow(n, s, &n)) << "the elements of " << ToString() << " are no int64";
  }
  return n;
}

bool Geometry::IsContiguous() const {
  int64_t expected = 1;
  bool contiguous = true;
  for (int d = rank() - 1; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] == 1) continue;
    if (contiguous && strides[d] != expected) contiguous = false;
    if (__builtin_mul_overflow(expected, sizes[d], &expected)) contiguous = false;
  }
  return contiguous;
}

std::pair<int64_t, int64_t> Geometry::Span() const {
  int64_t low = offset, high = offset;
  for (int d = 0; d < rank(); ++d) {
    if (sizes[d] == 0) return {offset, offset};
    int64_t reach;
    SMELT_CHECK(!__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
                !__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
        << "the extent of " << ToString() << " is no int64";
  }
  return {low, high + 1};
}

std::string Geometry::ToString() const {
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "] strides [", absl::StrJoin(strides, ", "), "] offset ",
                      offset);
}

std::shared_ptr<Storage> Storage::Allocate(int64_t bytes) {
  SMELT_CHECK_GE(bytes, 0);
  auto storage = std::shared_ptr<Storage>(new Storage());
  storage->memory_.data = AllocateAligned(bytes);
  if (storage->memory_.data == nullptr) throw std::bad_alloc();
  storage->bytes_ = bytes;
  storage->memory_.capacity = bytes;
  storage->memory_.owned = true;
  return storage;
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::Allocate(int64_t bytes, Device device) {
  if (device.is_cpu()) return Allocate(bytes);
  SMELT_ASSIGN_OR_RETURN(const DeviceMemory* access, DeviceMemory::Of(device));
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, access->Allocate(bytes));
  void* data = memory.get();
  std::shared_ptr<Storage> storage = Adopt(data, bytes, std::move(memory), device, access);
  storage->borrowed_ = false;
  return storage;
}

std::shared_ptr<Storage> Storage::Borrow(void* data, int64_t bytes) { return Adopt(data, bytes, nullptr); }

std::shared_ptr<Storage> Storage::Adopt(void* data, int64_t bytes, std::shared_ptr<void> owner) {
  return Adopt(data, bytes, std::move(owner), Device::Cpu(), nullptr);
}

std::shared_ptr<Storage> Storage::Adopt(void* data, int64_t bytes, std::shared_ptr<void> owner, Device device,
                                        const DeviceMemory* access) {
  SMELT_CHECK_GE(bytes, 0);
  SMELT_CHECK_EQ(device.is_cpu(), access == nullptr);
  auto storage = std::shared_ptr<Storage>(new Storage());
  storage->borrowed_ = owner == nullptr;
  storage->memory_.data = static_cast<char*>(data);
  storage->memory_.capacity = bytes;
  storage->memory_.owner = std::move(owner);
  storage->memory_.device = device;
  storage->memory_.access = access;
  storage->bytes_ = bytes;
  return storage;
}

Storage::Memory& Storage::Memory::operator=(Memory&& o) noexcept {
  if (this == &o) return *this;
  if (owned) std::free(data);
  data = std::exchange(o.data, nullptr);
  capacity = std::exchange(o.capacity, 0);
  owned = std::exchange(o.owned, false);
  owner = std::move(o.owner);
  device = std::exchange(o.device, Device());
  access = std::exchange(o.access, nullptr);
  return *this;
}

Storage::Memory::~Memory() {
  if (owned) std::free(data);
}

void Storage::FailHostAccess() const {
  SMELT_UNREACHABLE() << "the host reads or writes a storage of " << bytes_ << " bytes on "
                      << memory_.device.ToString();
}

Storage::Memory Storage::Exchange(Memory memory) { return std::exchange(memory_, std::move(memory)); }

absl::Status Storage::MoveTo(Device device) {
  if (device == memory_.device) return absl::OkStatus();
  if (borrowed_) {
    return absl::FailedPreconditionError(
        absl::StrCat("memory of the caller cannot move from ", memory_.device.ToString(), " to ", device.ToString()));
  }
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> moved, Allocate(bytes_, device));
  if (bytes_ > 0) {
    if (moved->memory_.access == nullptr) {
      SMELT_RETURN_IF_ERROR(memory_.access->ToHost(moved->memory_.data, memory_.data, bytes_));
    } else if (memory_.access == nullptr) {
      SMELT_RETURN_IF_ERROR(moved->memory_.access->FromHost(moved->memory_.data, memory_.data, bytes_));
    } else {
      return absl::UnimplementedError(
          absl::StrCat("memory cannot move from ", memory_.device.ToString(), " to ", device.ToString()));
    }
  }
  std::swap(memory_, moved->memory_);
  return absl::OkStatus();
}

absl::Status Storage::Resize(int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("a storage cannot have ", bytes, " bytes"));
  if (bytes <= memory_.capacity) {
    bytes_ = bytes;
    return absl::OkStatus();
  }
  if (borrowed_) {
    return absl::FailedPreconditionError(absl::StrCat("a storage over memory of the caller has ", memory_.capacity,
                                                      " bytes and cannot grow to ", bytes));
  }
  if (memory_.access != nullptr) {
    SMELT_ASSIGN_OR_RETURN(std::shared_ptr<void> grown, memory_.access->Allocate(bytes));
    if (bytes_ > 0) SMELT_RETURN_IF_ERROR(memory_.access->Copy(static_cast<char*>(grown.get()), memory_.data, bytes_));
    memory_.data = static_cast<char*>(grown.get());
    memory_.owner = std::move(grown);
  } else {
    char* data = AllocateAligned(bytes);
    if (data == nullptr)
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a storage of ", bytes, " bytes"));
    std::memcpy(data, memory_.data, static_cast<size_t>(bytes_));
    memory_ = Memory();
    memory_.owned = true;
    memory_.data = data;
  }
  bytes_ = bytes;
  memory_.capacity = bytes;
  return absl::OkStatus();
}

absl::Status Storage::GrowTo(int64_t bytes) {
  const int64_t had = bytes_;
  if (bytes <= had) return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(Resize(bytes));
  if (memory_.access != nullptr) {
    absl::Status zeroed = memory_.access->Zero(memory_.data + had, bytes - had);
    if (!zeroed.ok()) bytes_ = had;
    return zeroed;
  }
  std::memset(memory_.data + had, 0, static_cast<size_t>(bytes - had));
  return absl::OkStatus();
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Geometry geometry)
    : impl_(std::make_shared<Impl>(Impl{std::move(storage), dtype, std::move(geometry)})) {
  SMELT_DCHECK_EQ(impl_->geometry.sizes.size(), impl_->geometry.strides.size());
}

Tensor Tensor::Empty(DType dtype, absl::Span<const int64_t> sizes) {
  Geometry g = Geometry::Contiguous(sizes);
  int64_t bytes;
  if (__builtin_mul_overflow(g.NumElements(), static_cast<int64_t>(ItemSize(dtype)), &bytes)) throw std::bad_alloc();
  return Tensor(Storage::Allocate(bytes), dtype, std::move(g));
}

Tensor Tensor::EmptyStrided(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides) {
  SMELT_CHECK_EQ(sizes.size(), strides.size());
  Geometry g;
  g.sizes.assign(sizes.begin(), sizes.end());
  g.strides.assign(strides.begin(), strides.end());
  const auto [low, high] = g.Span();
  SMELT_CHECK_GE(low, 0) << "negative strides: " << g.ToString();
  int64_t bytes;
  if (__builtin_mul_overflow(high, static_cast<int64_t>(ItemSize(dtype)), &bytes)) throw std::bad_alloc();
  return Tensor(Storage::Allocate(bytes), dtype, std::move(g));
}

absl::StatusOr<Tensor> Tensor::Empty(DType dtype, absl::Span<const int64_t> sizes, Device device) {
  Geometry g = Geometry::Contiguous(sizes);
  int64_t bytes;
  if (__builtin_mul_overflow(g.NumElements(), static_cast<int64_t>(ItemSize(dtype)), &bytes))
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a tensor of ", g.ToString()));
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, Storage::Allocate(bytes, device));
  return Tensor(std::move(storage), dtype, std::move(g));
}

absl::StatusOr<Tensor> Tensor::CopyTo(Device to) const {
  const Storage& from = *storage();
  const int64_t begin = std::min(offset() * ItemSize(dtype()), from.bytes()), bytes = from.bytes() - begin;
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, Storage::Allocate(bytes, to));
  if (bytes > 0) {
    if (to.is_cpu() && from.device().is_cpu()) {
      std::memcpy(copy->data(), from.data() + begin, static_cast<size_t>(bytes));
    } else if (to.is_cpu() || from.device().is_cpu()) {
      SMELT_ASSIGN_OR_RETURN(const DeviceMemory* access, DeviceMemory::Of(to.is_cpu() ? from.device() : to));
      SMELT_RETURN_IF_ERROR(to.is_cpu() ? access->ToHost(copy->data(), from.address() + begin, bytes)
                                        : access->FromHost(copy->address(), from.data() + begin, bytes));
    } else if (to == from.device()) {
      SMELT_ASSIGN_OR_RETURN(const DeviceMemory* access, DeviceMemory::Of(to));
      SMELT_RETURN_IF_ERROR(access->Copy(copy->address(), from.address() + begin, bytes));
    } else {
      return absl::UnimplementedError(
          absl::StrCat("a tensor cannot be copied from ", from.device().ToString(), " to ", to.ToString()));
    }
  }
  Geometry g = geometry();
  g.offset = 0;
  return Tensor(std::move(copy), dtype(), std::move(g));
}

Tensor Tensor::View(Geometry geometry) const { return Tensor(impl_->storage, impl_->dtype, std::move(geometry)); }

Tensor Tensor::ViewAs(DType dtype, Geometry geometry) const {
  return Tensor(impl_->storage, dtype, std::move(geometry));
}

bool Tensor::InBounds() const {
  const Geometry& g = impl_->geometry;
  for (int64_t s : g.sizes) {
    if (s == 0) return true;
  }
  int64_t low = g.offset, high = g.offset;
  for (int d = 0; d < g.rank(); ++d) {
    int64_t reach;
    if (g.sizes[d] < 0 || __builtin_mul_overflow(g.sizes[d] - 1, g.strides[d], &reach)) return false;
    if (__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) return false;
  }
  return low >= 0 && high < impl_->storage->bytes() / ItemSize(impl_->dtype);
}

Tensor Tensor::CloneWithGaps() const {
  const int64_t begin = std::min(offset() * ItemSize(dtype()), storage()->bytes());
  std::shared_ptr<Storage> copy = Storage::Allocate(storage()->bytes() - begin);
  if (copy->bytes() > 0) std::memcpy(copy->data(), storage()->data() + begin, copy->bytes());
  Geometry g = geometry();
  g.offset = 0;
  return Tensor(std::move(copy), dtype(), std::move(g));
}

Tensor Tensor::Clone() const {
  Tensor out = Empty(dtype(), sizes());
  if (out.NumElements() == 0) return out;
  const char* source = static_cast<const char*>(data());
  char* destination = static_cast<char*>(out.data());
  switch (ItemSize(dtype())) {
    case 1:
      CopyToDense<1>(source, geometry(), destination);
      break;
    case 2:
      CopyToDense<2>(source, geometry(), destination);
      break;
    case 4:
      CopyToDense<4>(source, geometry(), destination);
      break;
    case 8:
      CopyToDense<8>(source, geometry(), destination);
      break;
    case 16:
      CopyToDense<16>(source, geometry(), destination);
      break;
    default:
      SMELT_UNREACHABLE() << ItemSize(dtype());
  }
  return out;
}

}  // namespace smelt
