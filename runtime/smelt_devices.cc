// The C interface to devices.
#include <cstdint>
#include <utility>

#include "smelt/core/tensor/device.h"
#include "smelt/runtime/device/device.h"
#include "smelt/runtime/smelt_internal.h"

namespace smelt {
namespace c_internal {
namespace {

// Fails for numbers that are no device.
smelt_status ReadDevice(smelt_device_type type, int index, Device* out) {
  if (index < 0 || (type != SMELT_DEVICE_CUDA && (type != SMELT_DEVICE_CPU || index != 0))) {
    return Fail(SMELT_INVALID_ARGUMENT,
                "no device has type " + std::to_string(type) + " and number " + std::to_string(index));
  }
  *out = type == SMELT_DEVICE_CPU ? Device::Cpu() : Device::Cuda(index);
  return SMELT_OK;
}

}  // namespace
}  // namespace c_internal
}  // namespace smelt

using smelt::c_internal::Fail;
using smelt::c_internal::FillIn;
using smelt::c_internal::From;
using smelt::c_internal::Guarded;
using smelt::c_internal::ReadDevice;

smelt_device_type smelt_tensor_device(const smelt_tensor* tensor, int* index) {
  const smelt::Device device = tensor == nullptr ? smelt::Device::Cpu() : tensor->tensor.device();
  if (index != nullptr) *index = device.index;
  return device.is_cpu() ? SMELT_DEVICE_CPU : SMELT_DEVICE_CUDA;
}

uint64_t smelt_tensor_address(const smelt_tensor* tensor) {
  return tensor == nullptr ? 0 : reinterpret_cast<uintptr_t>(tensor->tensor.address());
}

smelt_status smelt_tensor_create_on(smelt_device_type type, int index, smelt_dtype dtype, int rank,
                                    const int64_t* sizes, smelt_tensor** tensor) {
  return Guarded([&] {
    smelt::Device device;
    if (tensor == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "tensor is null");
    if (const smelt_status s = ReadDevice(type, index, &device); s != SMELT_OK) return s;
    smelt::Geometry g;
    if (!smelt::c_internal::MakeGeometry(dtype, rank, sizes, nullptr, 0, INT64_MAX, &g))
      return Fail(SMELT_INVALID_ARGUMENT, "the dtype or the sizes are out of range");
    absl::StatusOr<smelt::Tensor> made = smelt::Tensor::Empty(static_cast<smelt::DType>(dtype), g.sizes, device);
    if (!made.ok()) return From(made.status());
    *tensor = new smelt_tensor{*std::move(made)};
    return SMELT_OK;
  });
}

smelt_status smelt_tensor_copy_to(const smelt_tensor* tensor, smelt_device_type type, int index, smelt_tensor** copy) {
  return Guarded([&] {
    smelt::Device device;
    if (tensor == nullptr || copy == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "tensor or copy is null");
    if (const smelt_status s = ReadDevice(type, index, &device); s != SMELT_OK) return s;
    absl::StatusOr<smelt::Tensor> made = tensor->tensor.CopyTo(device);
    if (!made.ok()) return From(made.status());
    *copy = new smelt_tensor{*std::move(made)};
    return SMELT_OK;
  });
}

smelt_status smelt_started_wait(smelt_started* call) {
  return Guarded([&] {
    if (call == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "call is null");
    const absl::Status s = call->call.Wait();
    return s.ok() ? SMELT_OK : From(s);
  });
}

int smelt_started_is_done(const smelt_started* call) { return call == nullptr || call->call.Done(); }

void smelt_started_release(smelt_started* call) { delete call; }

smelt_status smelt_tensor_order_before(const smelt_tensor* tensor, uint64_t stream) {
  return Guarded([&] {
    if (tensor == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "tensor is null");
    if (tensor->tensor.device().is_cpu()) return SMELT_OK;
    const auto device = smelt::ExecutionDevice::Of(tensor->tensor.device());
    if (!device.ok()) return From(device.status());
    const absl::Status s = (*device)->LetStreamFollow(stream);
    return s.ok() ? SMELT_OK : From(s);
  });
}

smelt_status smelt_instance_last_device_call(const smelt_instance* instance, smelt_device_stats* stats) {
  if (instance == nullptr) return Fail(SMELT_INVALID_ARGUMENT, "instance is null");
  const smelt::CallStats& s = instance->instance->last_call();
  smelt_device_stats full = {};
  full.host_steps = s.host_steps;
  full.bytes_to_host = s.bytes_to_host;
  full.bytes_to_device = s.bytes_to_device;
  full.device_waits = s.device_waits;
  full.kernel_launches = s.kernel_launches;
  full.graph_launches = s.graph_launches;
  full.driver_calls = s.driver_calls;
  full.cublaslt_products = s.cublaslt_products;
  return FillIn(full, stats);
}
