// The CUDA driver, opened when it is first needed: smelt neither links it nor needs CUDA's headers. Internal.
//
//   SMELT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
//   cuda::Result r = driver->cuInit(0);
//   if (r != cuda::kSuccess) return driver->Error(r, "cuInit");
//
// The declarations are those of cuda.h, under other names; driver_toolkit_test compares them where a toolkit is
// installed. SMELT_CUDA_DRIVER replaces the name of the library that is opened.
#ifndef SMELT_RUNTIME_CUDA_DRIVER_H_
#define SMELT_RUNTIME_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace smelt::cuda {

using Result = int;  // CUresult
inline constexpr Result kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotFound = 500, kNotReady = 600,
                        kInvalidValue = 1, kGraphCannotChange = 910;
using DeviceNumber = int;            // CUdevice
using Address = unsigned long long;  // CUdeviceptr NOLINT: the type that the driver has
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Pool = struct PoolHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using GraphNode = struct GraphNodeHandle*;
using GraphExec = struct GraphExecHandle*;

// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kMemoryPools = 115;
// CUfunction_attribute
inline constexpr int kMaxDynamicSharedBytes = 8;
// CUmemPool_attribute: how many unused bytes a pool keeps at a synchronization
inline constexpr int kReleaseThreshold = 4;
// CUmemAllocationType, CUmemLocationType
inline constexpr int kPinned = 1, kOnDevice = 1;
// CUevent_flags
inline constexpr unsigned kEventWithoutTime = 2;
// CUstream_flags: a stream that is not ordered with the default stream
inline constexpr unsigned kUnorderedStream = 1;
// CUstreamCaptureMode: a capture forbids other threads nothing, nor this one
inline constexpr int kRelaxedCapture = 2;

// CUmemPoolProps
struct PoolProperties {
  int allocation_type = kPinned;
  int handle_types = 0;
  int location_type = kOnDevice;
  int location_id = 0;
  void* security_attributes = nullptr;
  size_t max_size = 0;
  unsigned short usage = 0;  // NOLINT: the type that the driver has
  unsigned char reserved[54] = {};
};

// CUDA_KERNEL_NODE_PARAMS. Drivers before CUDA 12 read it without its last two fields.
struct KernelNodeParameters {
  Function function = nullptr;
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  struct KernelHandle* kernel = nullptr;  // instead of the function
  Context context = nullptr;
};

// Each function that is used: its parameters, its name in the library, and the first CUDA version that has it.
#define SMELT_CUDA_FUNCTIONS(F)                                                                                \
  F(cuInit, "cuInit", 2000, (unsigned flags))                                                                  \
  F(cuDriverGetVersion, "cuDriverGetVersion", 2020, (int* version))                                            \
  F(cuDeviceGetCount, "cuDeviceGetCount", 2000, (int* count))                                                  \
  F(cuDeviceGet, "cuDeviceGet", 2000, (DeviceNumber * device, int ordinal))                                    \
  F(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, (int* value, int attribute, DeviceNumber device))      \
  F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, (Context * context, DeviceNumber device))      \
  F(cuCtxPushCurrent, "cuCtxPushCurrent", 4000, (Context context))                                             \
  F(cuCtxPopCurrent, "cuCtxPopCurrent", 4000, (Context * context))                                             \
  F(cuStreamCreate, "cuStreamCreate", 2000, (Stream * stream, unsigned flags))                                 \
  F(cuStreamSynchronize, "cuStreamSynchronize", 2000, (Stream stream))                                         \
  F(cuMemPoolCreate, "cuMemPoolCreate", 11020, (Pool * pool, const PoolProperties* properties))                \
  F(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, (Pool pool, int attribute, void* value))            \
  F(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020,                                                 \
    (Address * address, size_t bytes, Pool pool, Stream stream))                                               \
  F(cuMemFreeAsync, "cuMemFreeAsync", 11020, (Address address, Stream stream))                                 \
  F(cuMemHostAlloc, "cuMemHostAlloc", 2020, (void** memory, size_t bytes, unsigned flags))                     \
  F(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020, (Address to, const void* from, size_t bytes, Stream stream)) \
  F(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020, (void* to, Address from, size_t bytes, Stream stream))       \
  F(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020, (Address to, Address from, size_t bytes, Stream stream))     \
  F(cuMemsetD8Async, "cuMemsetD8Async", 3020, (Address to, unsigned char value, size_t bytes, Stream stream))  \
  F(cuModuleLoadData, "cuModuleLoadData", 2000, (Module * module, const void* image))                          \
  F(cuModuleUnload, "cuModuleUnload", 2000, (Module module))                                                   \
  F(cuModuleGetFunction, "cuModuleGetFunction", 2000, (Function * function, Module module, const char* name))  \
  F(cuFuncSetAttribute, "cuFuncSetAttribute", 9000, (Function function, int attribute, int value))             \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,          \
    (int* blocks, Function function, int threads, size_t dynamic_shared_bytes))                                \
  F(cuLaunchKernel, "cuLaunchKernel", 7000,                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, void** extra))                 \
  F(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, (Stream stream, Event event, unsigned flags))                \
  F(cuEventCreate, "cuEventCreate", 2000, (Event * event, unsigned flags))                                     \
  F(cuEventRecord, "cuEventRecord", 2000, (Event event, Stream stream))                                        \
  F(cuEventQuery, "cuEventQuery", 2000, (Event event))                                                         \
  F(cuEventSynchronize, "cuEventSynchronize", 2000, (Event event))                                             \
  F(cuGraphCreate, "cuGraphCreate", 10000, (Graph * graph, unsigned flags))                                    \
  F(cuGraphDestroy, "cuGraphDestroy", 10000, (Graph graph))                                                    \
  F(cuGraphAddKernelNode, "cuGraphAddKernelNode", 10000,                                                       \
    (GraphNode * node, Graph graph, const GraphNode* before, size_t num_before,                                \
     const KernelNodeParameters* parameters))                                                                  \
  F(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040,                                         \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                                 \
  F(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, (GraphExec exec))                                         \
  F(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", 10000,                                   \
    (GraphExec exec, GraphNode node, const KernelNodeParameters* parameters))                                  \
  F(cuStreamBeginCapture, "cuStreamBeginCapture", 10010, (Stream stream, int mode))                            \
  F(cuStreamEndCapture, "cuStreamEndCapture", 10000, (Stream stream, Graph * graph))                           \
  F(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode", 10000,                                               \
    (GraphNode * node, Graph graph, const GraphNode* before, size_t num_before, Graph child))                  \
  F(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", 11010,                           \
    (GraphExec exec, GraphNode node, Graph child))                                                             \
  F(cuGraphLaunch, "cuGraphLaunch", 10000, (GraphExec exec, Stream stream))                                    \
  F(cuGetErrorName, "cuGetErrorName", 6000, (Result result, const char** text))                                \
  F(cuGetErrorString, "cuGetErrorString", 6000, (Result result, const char** text))

// The handle of a conditional node, and CUgraphNodeParams of one: it runs its graph once if, or again while, a kernel has
// given the handle a value other than 0.
using ConditionalHandle = uint64_t;
inline constexpr int kConditionalNode = 13, kConditionIf = 0, kConditionWhile = 1;
struct GraphNodeParameters {
  int type = kConditionalNode;
  int reserved0[3] = {};
  ConditionalHandle handle = 0;
  int condition = kConditionIf;
  unsigned num_graphs = 1;
  Graph* graphs = nullptr;  // that the driver makes
  Context context = nullptr;
  int64_t reserved1[25] = {};
  int64_t reserved2 = 0;
};
struct EdgeData;

// The driver of CUDA 12.4 and later has these; they are null in an older one. (It could add conditional nodes earlier, but
// had limits for what is in them.)
inline constexpr int kConditionalDriver = 12040;
#define SMELT_CUDA_NEWER_FUNCTIONS(F)                                                                   \
  F(cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate", 12030,                            \
    (ConditionalHandle * handle, Graph graph, Context context, unsigned default_value, unsigned flags)) \
  F(cuGraphAddNode, "cuGraphAddNode", 12030,                                                            \
    (GraphNode * node, Graph graph, const GraphNode* before, const EdgeData* edges, size_t num_before,  \
     GraphNodeParameters* parameters))

class Driver {
 public:
  // Opens the driver once per process. FailedPrecondition, saying what was looked for and what to do, if there is no
  // driver or if it is too old.
  static absl::StatusOr<const Driver*> Get();

  // Returns an error with the driver's words for it. ResourceExhausted if memory is short.
  absl::Status Error(Result result, absl::string_view what) const;
  // Returns whether no later call on the context can succeed.
  static bool LosesTheDevice(Result result) {
    switch (result) {
      case 214:  // CUDA_ERROR_ECC_UNCORRECTABLE
      case 700:  // CUDA_ERROR_ILLEGAL_ADDRESS
      case 702:  // CUDA_ERROR_LAUNCH_TIMEOUT
      case 709:  // CUDA_ERROR_CONTEXT_IS_DESTROYED
      case 710:  // CUDA_ERROR_ASSERT
      case 714:  // CUDA_ERROR_HARDWARE_STACK_ERROR
      case 715:  // CUDA_ERROR_ILLEGAL_INSTRUCTION
      case 716:  // CUDA_ERROR_MISALIGNED_ADDRESS
      case 717:  // CUDA_ERROR_INVALID_ADDRESS_SPACE
      case 718:  // CUDA_ERROR_INVALID_PC
      case 719:  // CUDA_ERROR_LAUNCH_FAILED
        return true;
      default:
        return false;
    }
  }

#define SMELT_CUDA_DECLARE(name, symbol, version, parameters) Result(*name) parameters = nullptr;
  SMELT_CUDA_FUNCTIONS(SMELT_CUDA_DECLARE)
  SMELT_CUDA_NEWER_FUNCTIONS(SMELT_CUDA_DECLARE)
#undef SMELT_CUDA_DECLARE
  bool has_conditional_nodes() const { return cuGraphAddNode != nullptr && cuGraphConditionalHandleCreate != nullptr; }

 private:
  Driver() = default;
  absl::Status Open();
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_DRIVER_H_
