// A cuBLASLt for tests, which a process opens in place of NVIDIA's: SMELT_CUBLASLT names its file. It multiplies on the
// device of the driver that SMELT_CUDA_DRIVER names, which is the tests' own (fake_driver.h). A product is a launch, or
// several, of a kernel that it registers there, and clears its workspace. It refuses operands that are not aligned as its
// algorithm was told.
//
// These functions are found with dlsym in the library, under their own names.
#ifndef SMELT_RUNTIME_CUDA_TESTING_FAKE_CUBLASLT_H_
#define SMELT_RUNTIME_CUDA_TESTING_FAKE_CUBLASLT_H_

#include <cstdint>

namespace smelt::fake_cuda {

struct BlasCounts {
  int64_t calls;     // of functions that can fail
  int64_t objects;   // descriptors that exist
  int64_t choices;   // of an algorithm
  int64_t products;  // that were given to a stream
};

}  // namespace smelt::fake_cuda

extern "C" {

// Lets the call with this number from now on (0: the next one) fail with `status`; -1: none does.
void fake_cublaslt_fail(int64_t call, int status);
// Lets every product have this many launches: all but the last do nothing.
void fake_cublaslt_launches(int count);
// Refuses operands that are aligned to fewer bytes than these.
void fake_cublaslt_least_alignment(int64_t bytes);
smelt::fake_cuda::BlasCounts fake_cublaslt_counts();

}  // extern "C"

#endif  // SMELT_RUNTIME_CUDA_TESTING_FAKE_CUBLASLT_H_
