// The part of DLPack's interface (dlpack.h, version 1) that tensors are exchanged through: its layout is fixed, and a
// program that includes dlpack.h itself sees the same types.
#ifndef SMELT_RUNTIME_DLPACK_ABI_H_
#define SMELT_RUNTIME_DLPACK_ABI_H_

#include <cstddef>
#include <cstdint>

extern "C" {

struct DLPackVersion {
  uint32_t major, minor;
};

enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
};

enum DLDataTypeCode : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
  kDLFloat8_e4m3fn = 10,
  kDLFloat8_e5m2 = 12
};

struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

}  // extern "C"

inline constexpr uint64_t kDLPackFlagReadOnly = 1;

static_assert(sizeof(DLTensor) == 48 && offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "as dlpack.h has it");

#endif  // SMELT_RUNTIME_DLPACK_ABI_H_
