// Bundles whose kernels for the CPU stand in for those of CUDA: the tests' driver runs them, so that the runtime for
// CUDA is tested without a compiler.
//
//   SMELT_ASSIGN_OR_RETURN(auto program, LoadWithNativeKernels(bytes, /*words_by_value=*/true));
#ifndef SMELT_RUNTIME_CUDA_TESTING_NATIVE_KERNELS_H_
#define SMELT_RUNTIME_CUDA_TESTING_NATIVE_KERNELS_H_

#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/runtime/cuda/testing/fake_driver.h"
#include "smelt/runtime/program.h"

namespace smelt {

// The functions of the driver that SMELT_CUDA_DRIVER names, for tests.
struct FakeDriver {
  decltype(&fake_cuda_register) add;
  decltype(&fake_cuda_fail) fail;
  decltype(&fake_cuda_limit) limit;
  decltype(&fake_cuda_seed) seed;
  decltype(&fake_cuda_stream) stream;
  decltype(&fake_cuda_hold) hold;
  decltype(&fake_cuda_copy_later) copy_later;
  decltype(&fake_cuda_counts) counts;
};
const FakeDriver& GetFakeDriver();

// Returns the bundle with a target sm_90 in place of its first one, whose kernels the driver runs. Words are passed by
// value or by a pointer.
absl::StatusOr<std::string> WithNativeKernels(absl::string_view bundle, bool words_by_value);
// The same, loaded for cuda:0.
absl::StatusOr<std::shared_ptr<const Program>> LoadWithNativeKernels(absl::string_view bundle, bool words_by_value);

}  // namespace smelt

#endif  // SMELT_RUNTIME_CUDA_TESTING_NATIVE_KERNELS_H_
