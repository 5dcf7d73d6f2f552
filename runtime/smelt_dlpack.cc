// Tensors as DLPack has them, without a copy.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "smelt/runtime/dlpack_abi.h"
#include "smelt/runtime/smelt_internal.h"

namespace smelt {
namespace c_internal {
namespace {

// By DType.
constexpr DLDataType kTypes[kNumDTypes] = {
    {kDLBool, 8, 1},     {kDLUInt, 8, 1},      {kDLInt, 8, 1},           {kDLInt, 16, 1},       {kDLInt, 32, 1},
    {kDLInt, 64, 1},     {kDLFloat, 16, 1},    {kDLBfloat, 16, 1},       {kDLFloat, 32, 1},     {kDLFloat, 64, 1},
    {kDLComplex, 64, 1}, {kDLComplex, 128, 1}, {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1}};

int DTypeOf(const DLDataType& type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kTypes[i].code == type.code && kTypes[i].bits == type.bits && type.lanes == 1) return i;
  }
  return -1;
}

// The tensor without an owner: its storage begins at its first element.
smelt_status Import(const DLTensor& t, void* managed, void (*release)(void*), smelt_tensor** out) {
  Device device;
  const DeviceMemory* access = nullptr;
  if (t.device.device_type == kDLCUDA) {
    if (t.device.device_id < 0) return Fail(SMELT_INVALID_ARGUMENT, "the tensor's device has a negative number");
    device = Device::Cuda(t.device.device_id);
    const absl::StatusOr<const DeviceMemory*> opened = DeviceMemory::Of(device);
    if (!opened.ok()) return From(opened.status());
    access = *opened;
  } else if (t.device.device_type != kDLCPU && t.device.device_type != kDLCUDAHost) {
    return Fail(SMELT_INVALID_ARGUMENT, "the tensor is on DLPack's device type " +
                                            std::to_string(static_cast<int>(t.device.device_type)) +
                                            "; memory of the CPU (1 or 3) or of CUDA (2) expected");
  }
  const int dtype = DTypeOf(t.dtype);
  if (dtype < 0) {
    return Fail(SMELT_INVALID_ARGUMENT, "no dtype has DLPack's code " + std::to_string(t.dtype.code) + ", " +
                                            std::to_string(t.dtype.bits) + " bits, " + std::to_string(t.dtype.lanes) +
                                            " lanes");
  }
  const int64_t item = ItemSize(static_cast<DType>(dtype));
  int64_t last = 0;
  bool empty = false, fits = t.ndim >= 0 && t.ndim <= 64 && (t.ndim == 0 || t.shape != nullptr);
  for (int d = 0; fits && d < t.ndim; ++d) {
    if (t.shape[d] < 0) fits = false;
    if (t.shape[d] == 0) empty = true;
  }
  int64_t row_major = 1;
  for (int d = t.ndim - 1; fits && !empty && d >= 0; --d) {
    const int64_t stride = t.strides != nullptr ? t.strides[d] : row_major;
    int64_t reach;
    fits = !__builtin_mul_overflow(row_major, t.shape[d], &row_major) && (stride >= 0 || t.shape[d] == 1) &&
           !__builtin_mul_overflow(t.shape[d] - 1, stride, &reach) && !__builtin_add_overflow(last, reach, &last);
  }
  int64_t bytes = 0;
  fits = fits &&
         (empty || (!__builtin_add_overflow(last, int64_t{1}, &bytes) && !__builtin_mul_overflow(bytes, item, &bytes)));
  if (!fits)
    return Fail(SMELT_INVALID_ARGUMENT, "the tensor's sizes or strides are out of range; strides may not be negative");
  char* data = static_cast<char*>(t.data) + t.byte_offset;
  if (empty) data = nullptr;
  if (!empty && t.data == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "the tensor has elements and no memory");
  const int64_t alignment = dtype >= SMELT_COMPLEX64 ? item / 2 : item;
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) != 0) {
    return Fail(SMELT_INVALID_ARGUMENT, "the tensor's memory is not aligned to its elements");
  }
  Geometry g;
  if (!MakeGeometry(dtype, t.ndim, t.shape, empty ? nullptr : t.strides, 0, bytes, &g))
    return Fail(SMELT_INVALID_ARGUMENT, "the tensor's sizes or strides are out of range");
  // All that can fail comes before the tensor owns `managed`.
  auto handle = std::make_unique<smelt_tensor>();
  auto owner = std::make_shared<std::pair<void*, void (*)(void*)>>(nullptr, release);
  std::shared_ptr<void> guard(owner.get(), [owner](void*) {
    if (owner->first != nullptr) owner->second(owner->first);
  });
  handle->tensor =
      Tensor(Storage::Adopt(data, bytes, std::move(guard), device, access), static_cast<DType>(dtype), std::move(g));
  owner->first = managed;
  *out = handle.release();
  return SMELT_OK;
}

template <typename Managed>
struct Exported {
  Managed managed;
  Tensor tensor;
  std::vector<int64_t> sizes, strides;
};

template <typename Managed>
smelt_status Export(const smelt_tensor* tensor, Managed** out) {
  if (tensor == nullptr || out == nullptr || !tensor->tensor.defined())
    return Fail(SMELT_INVALID_ARGUMENT, "the tensor or the result is null");
  if (tensor->may_move)
    return Fail(SMELT_FAILED_PRECONDITION, "a call may resize this state, which then lies elsewhere in memory");
  auto made = std::make_unique<Exported<Managed>>();
  made->tensor = tensor->tensor;
  const Tensor& t = tensor->tensor;
  made->sizes.assign(t.sizes().begin(), t.sizes().end());
  made->strides.assign(t.strides().begin(), t.strides().end());
  DLTensor& d = made->managed.dl_tensor;
  d.data = t.address();
  d.device = {t.device().is_cpu() ? kDLCPU : kDLCUDA, t.device().index};
  d.ndim = t.rank();
  d.dtype = kTypes[static_cast<int>(t.dtype())];
  d.shape = made->sizes.data();
  d.strides = made->strides.data();
  d.byte_offset = 0;
  made->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  made->managed.manager_ctx = made.get();
  *out = &made.release()->managed;
  return SMELT_OK;
}

}  // namespace
}  // namespace c_internal
}  // namespace smelt

using smelt::c_internal::Fail;
using smelt::c_internal::Guarded;

smelt_status smelt_tensor_from_dlpack(DLManagedTensor* managed, smelt_tensor** tensor) {
  return Guarded([&] {
    if (managed == nullptr || tensor == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "managed or tensor is null");
    return smelt::c_internal::Import(
        managed->dl_tensor, managed,
        [](void* m) {
          auto* self = static_cast<DLManagedTensor*>(m);
          if (self->deleter != nullptr) self->deleter(self);
        },
        tensor);
  });
}

smelt_status smelt_tensor_from_dlpack_versioned(DLManagedTensorVersioned* managed, smelt_tensor** tensor) {
  return Guarded([&] {
    if (managed == nullptr || tensor == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "managed or tensor is null");
    if (managed->version.major != 1) {
      return Fail(SMELT_UNIMPLEMENTED,
                  "the tensor is of DLPack " + std::to_string(managed->version.major) + "; 1 expected");
    }
    const bool read_only = (managed->flags & kDLPackFlagReadOnly) != 0;
    const smelt_status s = smelt::c_internal::Import(
        managed->dl_tensor, managed,
        [](void* m) {
          auto* self = static_cast<DLManagedTensorVersioned*>(m);
          if (self->deleter != nullptr) self->deleter(self);
        },
        tensor);
    if (s == SMELT_OK) (*tensor)->read_only = read_only;
    return s;
  });
}

smelt_status smelt_tensor_to_dlpack(const smelt_tensor* tensor, DLManagedTensor** managed) {
  return Guarded([&] {
    if (tensor != nullptr && tensor->read_only)
      return Fail(SMELT_FAILED_PRECONDITION, "the tensor is read-only, which only a versioned DLPack tensor can say");
    return smelt::c_internal::Export(tensor, managed);
  });
}

smelt_status smelt_tensor_to_dlpack_versioned(const smelt_tensor* tensor, DLManagedTensorVersioned** managed) {
  return Guarded([&] {
    const smelt_status s = smelt::c_internal::Export(tensor, managed);
    if (s != SMELT_OK) return s;
    (*managed)->version = {1, 0};
    (*managed)->flags = tensor->read_only ? kDLPackFlagReadOnly : 0;
    return s;
  });
}
