// A CUDA driver for tests, which a process opens in place of NVIDIA's: SMELT_CUDA_DRIVER names its file. It has one
// device. The host can neither read nor write its memory: an access ends the process. Work runs on one thread for each
// stream, with delays, so that a missing dependency shows as a wrong value. Memory that is allocated or freed is filled
// with a pattern. Kernels are what a test registers under the names of their entries, and the runtime's own
// (functions/functions.h), compiled for the host; code of images is never run.
//
// These functions are found with dlsym in the library, under their own names.
#ifndef SMELT_RUNTIME_CUDA_TESTING_FAKE_DRIVER_H_
#define SMELT_RUNTIME_CUDA_TESTING_FAKE_DRIVER_H_

#include <cstdint>

namespace smelt::fake_cuda {

// Runs one stage of a kernel. The addresses are the host's.
using Kernel = void (*)(void* user, int grid, const int64_t* words, int64_t begin, int64_t end, int64_t* status,
                        void* workspace);

struct KernelInfo {
  int num_words;
  bool words_by_value;
  int threads;  // a launch with another number fails
  Kernel run;
  void* user;
};

struct Counts {
  int64_t calls;     // of functions that can fail
  int64_t bytes;     // of memory that is allocated
  int64_t modules;   // that are loaded
  int64_t graphs;    // that exist, with or without launches, and captures of streams
  int64_t launches;  // one by one
  int64_t graph_launches;
  int64_t graph_updates;  // of a kernel in a graph
  int64_t waits;          // of the host, for a stream or an event
  int64_t moved;          // bytes that the runtime's functions have moved, without strides, or put back
};

}  // namespace smelt::fake_cuda

extern "C" {

// From here on, `entry` runs `kernel`. An entry that is not registered is not found in any module.
void fake_cuda_register(const char* entry, const smelt::fake_cuda::KernelInfo* kernel);
// Lets the call with this number from now on (0: the next one) fail with `result`; -1: none does.
void fake_cuda_fail(int64_t call, int result);
// Lets allocations fail that would take more bytes in all.
void fake_cuda_limit(int64_t bytes);
// Chooses the delays.
void fake_cuda_seed(uint64_t seed);
// Returns a new stream, as the driver numbers it, that is ordered with no other.
uint64_t fake_cuda_stream();
// 1: lets the stream do nothing that it is given from now on, until 0.
void fake_cuda_hold(uint64_t stream, int hold);
// Gives the stream a copy between the host and the device, and returns at once; `bytes` of the host stay until then.
void fake_cuda_copy_later(uint64_t stream, void* host, uint64_t address, int64_t bytes, bool to_device);
// Waits for the work of all streams.
smelt::fake_cuda::Counts fake_cuda_counts();

}  // extern "C"

#endif  // SMELT_RUNTIME_CUDA_TESTING_FAKE_DRIVER_H_
