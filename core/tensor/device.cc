#include "smelt/core/tensor/device.h"

#include <atomic>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace smelt {
namespace {

std::atomic<DeviceMemory::Opener> cuda_opener = nullptr;

}  // namespace

absl::StatusOr<Device> Device::Parse(absl::string_view text) {
  if (text == "cpu") return Cpu();
  absl::string_view rest = text;
  int index = 0;
  if (absl::ConsumePrefix(&rest, "cuda") &&
      (rest.empty() || (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &index) && index >= 0)))
    return Cuda(index);
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no device; cpu, cuda or cuda:N expected"));
}

std::string Device::ToString() const { return is_cpu() ? "cpu" : absl::StrCat("cuda:", index); }

void DeviceMemory::Register(Device::Type type, Opener opener) {
  if (type == Device::Type::kCuda) cuda_opener = opener;
}

absl::StatusOr<const DeviceMemory*> DeviceMemory::Of(Device device) {
  if (device.is_cpu()) return absl::InvalidArgumentError("the host's memory needs no device");
  const Opener opener = cuda_opener;
  if (opener == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(device.ToString(), ": this program is linked without support for CUDA (//runtime/cuda)"));
  }
  return opener(device.index);
}

}  // namespace smelt
