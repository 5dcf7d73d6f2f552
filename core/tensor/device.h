// Where the memory of a storage is: in that of the host, or of an accelerator.
//
//   Device device = *Device::Parse("cuda:0");
//   SMELT_ASSIGN_OR_RETURN(const DeviceMemory* memory, DeviceMemory::Of(device));
//   SMELT_ASSIGN_OR_RETURN(std::shared_ptr<void> bytes, memory->Allocate(64));   // the device's addresses
//   SMELT_RETURN_IF_ERROR(memory->FromHost(static_cast<char*>(bytes.get()), x, 64));
//
// Addresses of a device are never dereferenced on the host. They lie in one address space with the host's, so that
// comparing addresses says for all memory whether two tensors share bytes.
#ifndef SMELT_CORE_TENSOR_DEVICE_H_
#define SMELT_CORE_TENSOR_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt {

struct Device {
  enum class Type : uint8_t { kCpu = 0, kCuda = 1 };
  Type type = Type::kCpu;
  int index = 0;

  static constexpr Device Cpu() { return {}; }
  static constexpr Device Cuda(int index) { return {Type::kCuda, index}; }
  // Reads "cpu", "cuda" or "cuda:1". InvalidArgument for other text.
  static absl::StatusOr<Device> Parse(absl::string_view text);
  constexpr bool is_cpu() const { return type == Type::kCpu; }
  bool operator==(const Device& o) const { return type == o.type && index == o.index; }
  std::string ToString() const;  // "cpu", "cuda:0"
};

// The memory of one device. All methods may be called by several threads. Work that uses the memory runs in the order
// of the calls; ToHost returns when the bytes are there, and FromHost when `from` may be changed again.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Returns the memory of a device for the life of the process. FailedPrecondition if this machine lacks the device or
  // its driver, Unimplemented if the program is linked without support for it.
  static absl::StatusOr<const DeviceMemory*> Of(Device device);
  using Opener = absl::StatusOr<const DeviceMemory*> (*)(int index);
  // Called once by the library that supports the devices of a type.
  static void Register(Device::Type type, Opener opener);

  // Returns uninitialized memory, aligned to 256 bytes. Releasing it is ordered after all work before the release.
  // ResourceExhausted if there is not enough. Null for 0 bytes.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) const = 0;
  virtual absl::Status Copy(char* to, const char* from, int64_t bytes) const = 0;  // both the device's; no overlap
  virtual absl::Status ToHost(char* to, const char* from, int64_t bytes) const = 0;
  virtual absl::Status FromHost(char* to, const char* from, int64_t bytes) const = 0;
  virtual absl::Status Zero(char* to, int64_t bytes) const = 0;
};

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_DEVICE_H_
