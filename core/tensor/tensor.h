// A strided tensor over a reference-counted, resizable storage. The C++ API takes and returns it, and the evaluator
// computes on it. A Tensor is a handle: copies of it are the same tensor. They share its geometry, too, as in PyTorch,
// so that t_() through one handle is seen through the other. View() makes another tensor over the same storage.
//
//   Tensor x = Tensor::Empty(DType::kFloat32, {4, 8});
//   Tensor column = x.View({{4}, {8}, 0});
//   column.storage() == x.storage()
//
// Not thread-safe beyond the guarantees of shared_ptr.
#ifndef SMELT_CORE_TENSOR_TENSOR_H_
#define SMELT_CORE_TENSOR_TENSOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// Sizes, strides and offset in elements.
struct Geometry {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;

  static Geometry Contiguous(absl::Span<const int64_t> sizes, int64_t offset = 0);
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t NumElements() const;  // CHECKs against overflow: geometry from a file is validated before it gets here
  bool IsContiguous() const;    // row-major, dims of size 1 ignored; an empty tensor is contiguous
  // Returns the first and one past the last reachable element; {offset, offset} if empty.
  std::pair<int64_t, int64_t> Span() const;
  bool operator==(const Geometry& o) const { return sizes == o.sizes && strides == o.strides && offset == o.offset; }
  std::string ToString() const;  // "[4, 8] strides [8, 1] offset 0"
};

// Bytes that tensors share. Owns them, or borrows them from a caller that guarantees their lifetime.
class Storage {
 public:
  // The memory of a storage, which it frees.
  struct Memory {
    Memory() = default;
    Memory(Memory&& o) noexcept { *this = std::move(o); }
    Memory& operator=(Memory&& o) noexcept;
    ~Memory();

    char* data = nullptr;
    int64_t capacity = 0;
    bool owned = false;           // allocated by Storage::Allocate on the host
    std::shared_ptr<void> owner;  // keeps other memory alive
    Device device;
    const DeviceMemory* access = nullptr;  // of a device other than the host
  };

  // Makes an uninitialized, 64-byte aligned storage. Ends the program if there is not enough memory.
  static std::shared_ptr<Storage> Allocate(int64_t bytes);
  // Makes an uninitialized storage on any device. Fails as DeviceMemory::Of and DeviceMemory::Allocate do.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(int64_t bytes, Device device);
  static std::shared_ptr<Storage> Borrow(void* data, int64_t bytes);  // never grows beyond these bytes
  // Keeps `owner` alive as long as the storage (for example, a file mapping).
  static std::shared_ptr<Storage> Adopt(void* data, int64_t bytes, std::shared_ptr<void> owner);
  // The same for memory of a device, which `access` reaches.
  static std::shared_ptr<Storage> Adopt(void* data, int64_t bytes, std::shared_ptr<void> owner, Device device,
                                        const DeviceMemory* access);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  // Returns the first byte, for the host to read and write. A CHECK failure for memory of another device.
  char* data() const {
    if (memory_.access != nullptr) FailHostAccess();
    return memory_.data;
  }
  // Returns the address of the first byte on the storage's device: to compare, or to pass on.
  char* address() const { return memory_.data; }
  const Device& device() const { return memory_.device; }
  int64_t bytes() const { return bytes_; }
  bool is_borrowed() const { return borrowed_; }
  // Keeps the first min(old, new) bytes; data() may change. Returns an error if it cannot grow.
  absl::Status Resize(int64_t bytes);
  // Resizes if there are fewer bytes. New bytes, which have no value in PyTorch, are zeros, so that runs repeat.
  absl::Status GrowTo(int64_t bytes);

  // Moves the contents to memory of another device, where they stay. Returns an error for a borrowed storage. Changes
  // nothing on failure. No other thread may use the storage meanwhile.
  absl::Status MoveTo(Device device);
  // Replaces the memory, copying nothing, and returns the old one. For a storage that a call moves to another device
  // for a while.
  Memory Exchange(Memory memory);

 private:
  Storage() = default;
  [[noreturn]] void FailHostAccess() const;

  Memory memory_;
  int64_t bytes_ = 0;
  bool borrowed_ = false;
};

class Tensor {
 public:
  Tensor() = default;  // undefined
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Geometry geometry);
  static Tensor Empty(DType dtype, absl::Span<const int64_t> sizes);  // contiguous, uninitialized
  static Tensor EmptyStrided(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides);
  // The same on any device. Fails as Storage::Allocate does.
  static absl::StatusOr<Tensor> Empty(DType dtype, absl::Span<const int64_t> sizes, Device device);

  bool defined() const { return impl_ != nullptr; }
  DType dtype() const { return impl_->dtype; }
  const Geometry& geometry() const { return impl_->geometry; }
  absl::Span<const int64_t> sizes() const { return impl_->geometry.sizes; }
  absl::Span<const int64_t> strides() const { return impl_->geometry.strides; }
  int64_t offset() const { return impl_->geometry.offset; }
  int rank() const { return impl_->geometry.rank(); }
  int64_t NumElements() const { return impl_->geometry.NumElements(); }
  const std::shared_ptr<Storage>& storage() const { return impl_->storage; }
  void* data() const { return impl_->storage->data() + impl_->geometry.offset * ItemSize(impl_->dtype); }
  // Returns the address of the first element on the tensor's device: to compare, or to pass on.
  char* address() const { return impl_->storage->address() + impl_->geometry.offset * ItemSize(impl_->dtype); }
  const Device& device() const { return impl_->storage->device(); }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data());
  }

  Tensor View(Geometry geometry) const;  // another tensor, same storage and dtype
  Tensor ViewAs(DType dtype, Geometry geometry) const;
  void SetGeometry(Geometry geometry) { impl_->geometry = std::move(geometry); }  // t_, squeeze_, resize_
  void SetStorage(std::shared_ptr<Storage> s) { impl_->storage = std::move(s); }  // set_
  void SetDType(DType dtype) { impl_->dtype = dtype; }
  bool IsSame(const Tensor& o) const { return impl_ == o.impl_; }  // the same tensor, not just equal
  const void* identity() const { return impl_.get(); }
  // Returns whether every reachable element lies inside the storage.
  bool InBounds() const;

  // Returns a dense (contiguous) copy with the same sizes.
  Tensor Clone() const;
  // Returns a copy of the storage from the first element on, including the bytes between the elements, with the same
  // strides.
  Tensor CloneWithGaps() const;
  // Returns the same copy on another device, or on this one.
  absl::StatusOr<Tensor> CopyTo(Device device) const;

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    DType dtype;
    Geometry geometry;
  };
  std::shared_ptr<Impl> impl_;
};

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_TENSOR_H_
