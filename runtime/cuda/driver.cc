#include "smelt/runtime/cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace smelt::cuda {
namespace {

// The oldest driver that has every function of the list is that of CUDA 11.4.
constexpr int kOldestDriver = 11040;

// CU_GET_PROC_ADDRESS_LEGACY_STREAM
constexpr uint64_t kLegacyDefaultStream = 1;

std::string Version(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

}  // namespace

absl::StatusOr<const Driver*> Driver::Get() {
  static const auto* const opened = [] {
    auto* driver = new Driver();
    const absl::Status s = driver->Open();
    return s.ok() ? new absl::StatusOr<const Driver*>(driver) : new absl::StatusOr<const Driver*>(s);
  }();
  return *opened;
}

absl::Status Driver::Open() {
  const char* const other = std::getenv("SMELT_CUDA_DRIVER");
  const std::string name = other != nullptr && *other != '\0' ? other : "libcuda.so.1";
  // The driver stays open: its threads and exit handlers do not survive dlclose.
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::FailedPreconditionError(absl::StrCat(
        "no CUDA driver: ", name, " cannot be opened (", why != nullptr ? why : "no reason given",
        "); install NVIDIA's driver for this machine's GPU, or, in a container, run it with access to the GPU"));
  }
  // int(const char* symbol, void** function, int version, uint64_t flags[, int* found]). The first form is that of CUDA
  // 11; the driver has both.
  using GetProcAddress = Result (*)(const char*, void**, int, uint64_t);
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress"));
  if (get == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", name, " is older than CUDA ",
                                                      Version(kOldestDriver), ": update NVIDIA's driver"));
  }
  int version = 0;
  void* function = nullptr;
  if (get("cuDriverGetVersion", &function, 2020, kLegacyDefaultStream) == kSuccess && function != nullptr)
    reinterpret_cast<Result (*)(int*)>(function)(&version);
  if (version < kOldestDriver) {
    return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", name, " is of CUDA ", Version(version), ", ",
                                                      Version(kOldestDriver),
                                                      " or newer expected: update NVIDIA's driver"));
  }
#define SMELT_CUDA_LOAD(field, symbol, since, parameters)                                                     \
  function = nullptr;                                                                                         \
  if (get(symbol, &function, since, kLegacyDefaultStream) != kSuccess || function == nullptr)                 \
    return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", name, " has no function " symbol)); \
  field = reinterpret_cast<decltype(field)>(function);
  SMELT_CUDA_FUNCTIONS(SMELT_CUDA_LOAD)
#undef SMELT_CUDA_LOAD
  if (version >= kConditionalDriver) {
#define SMELT_CUDA_TRY(field, symbol, since, parameters)                                   \
  function = nullptr;                                                                      \
  if (get(symbol, &function, since, kLegacyDefaultStream) != kSuccess) function = nullptr; \
  field = reinterpret_cast<decltype(field)>(function);
    SMELT_CUDA_NEWER_FUNCTIONS(SMELT_CUDA_TRY)
#undef SMELT_CUDA_TRY
  }
  const Result ready = cuInit(0);
  if (ready == kNoDevice)
    return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", name, " finds no GPU on this machine"));
  return ready == kSuccess ? absl::OkStatus() : absl::FailedPreconditionError(Error(ready, "cuInit").message());
}

absl::Status Driver::Error(Result result, absl::string_view what) const {
  const char *symbol = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &symbol) != kSuccess || symbol == nullptr) symbol = "an unknown error";
  if (cuGetErrorString(result, &text) != kSuccess || text == nullptr) text = "no description";
  const std::string message = absl::StrCat(what, ": ", symbol, " (", result, "): ", text);
  if (result == kOutOfMemory) return absl::ResourceExhaustedError(message);
  return LosesTheDevice(result) ? absl::UnavailableError(message) : absl::InternalError(message);
}

}  // namespace smelt::cuda
