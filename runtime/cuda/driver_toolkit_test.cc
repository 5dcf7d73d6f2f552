// Compares smelt's declarations of the CUDA driver with cuda.h of the toolkit that is installed.
#include <cstddef>
#include <type_traits>

#include "cuda.h"
#include "gtest/gtest.h"
#include "smelt/runtime/cuda/driver.h"

namespace smelt::cuda {
namespace {

// A type of cuda.h as smelt declares it: handles are pointers, enumerations are ints.
template <typename T>
struct Ours {
  using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <typename T>
struct Ours<T*> {
  using Type = typename Ours<T>::Type*;
};
template <typename T>
struct Ours<const T> {
  using Type = const typename Ours<T>::Type;
};
template <>
struct Ours<CUctx_st> {
  using Type = ContextHandle;
};
template <>
struct Ours<CUstream_st> {
  using Type = StreamHandle;
};
template <>
struct Ours<CUmemPoolHandle_st> {
  using Type = PoolHandle;
};
template <>
struct Ours<CUmod_st> {
  using Type = ModuleHandle;
};
template <>
struct Ours<CUfunc_st> {
  using Type = FunctionHandle;
};
template <>
struct Ours<CUmemPoolProps> {
  using Type = PoolProperties;
};
template <>
struct Ours<CUevent_st> {
  using Type = EventHandle;
};
template <>
struct Ours<CUgraph_st> {
  using Type = GraphHandle;
};
template <>
struct Ours<CUgraphNode_st> {
  using Type = GraphNodeHandle;
};
template <>
struct Ours<CUgraphExec_st> {
  using Type = GraphExecHandle;
};
template <>
struct Ours<CUDA_KERNEL_NODE_PARAMS> {
  using Type = KernelNodeParameters;
};
template <>
struct Ours<CUgraphNodeParams> {
  using Type = GraphNodeParameters;
};
template <>
struct Ours<CUgraphEdgeData> {
  using Type = EdgeData;
};
template <typename R, typename... A>
struct Ours<R(A...)> {
  using Type = typename Ours<R>::Type(typename Ours<A>::Type...);
};

TEST(DriverToolkitTest, FunctionsHaveTheParametersOfTheHeader) {
#define SMELT_CUDA_SAME(field, symbol, since, parameters) \
  static_assert(std::is_same_v<Ours<decltype(::field)>::Type, std::remove_pointer_t<decltype(Driver::field)>>, symbol);
  SMELT_CUDA_FUNCTIONS(SMELT_CUDA_SAME)
  SMELT_CUDA_NEWER_FUNCTIONS(SMELT_CUDA_SAME)
#undef SMELT_CUDA_SAME
}

TEST(DriverToolkitTest, NumbersAreThoseOfTheHeader) {
  EXPECT_EQ(kSuccess, CUDA_SUCCESS);
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(kGraphCannotChange, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(kEventWithoutTime, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(kUnorderedStream, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(kRelaxedCapture, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_EQ(kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_EQ(kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_EQ(kMemoryPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  EXPECT_EQ(kMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_EQ(kReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
  EXPECT_EQ(kPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(kOnDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  for (const Result lost : {CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT,
                            CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
                            CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
                            CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED}) {
    EXPECT_TRUE(Driver::LosesTheDevice(lost)) << lost;
  }
}

TEST(DriverToolkitTest, PoolPropertiesLieAsInTheHeader) {
  static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps));
  EXPECT_EQ(offsetof(PoolProperties, handle_types), offsetof(CUmemPoolProps, handleTypes));
  EXPECT_EQ(offsetof(PoolProperties, location_type), offsetof(CUmemPoolProps, location.type));
  EXPECT_EQ(offsetof(PoolProperties, location_id), offsetof(CUmemPoolProps, location.id));
  EXPECT_EQ(offsetof(PoolProperties, max_size), offsetof(CUmemPoolProps, maxSize));
  EXPECT_EQ(offsetof(PoolProperties, usage), offsetof(CUmemPoolProps, usage));
}

TEST(DriverToolkitTest, ParametersOfConditionalNodesLieAsInTheHeader) {
  static_assert(sizeof(GraphNodeParameters) == sizeof(CUgraphNodeParams));
  EXPECT_EQ(offsetof(GraphNodeParameters, handle), offsetof(CUgraphNodeParams, conditional.handle));
  EXPECT_EQ(offsetof(GraphNodeParameters, condition), offsetof(CUgraphNodeParams, conditional.type));
  EXPECT_EQ(offsetof(GraphNodeParameters, num_graphs), offsetof(CUgraphNodeParams, conditional.size));
  EXPECT_EQ(offsetof(GraphNodeParameters, graphs), offsetof(CUgraphNodeParams, conditional.phGraph_out));
  EXPECT_EQ(offsetof(GraphNodeParameters, context), offsetof(CUgraphNodeParams, conditional.ctx));
  EXPECT_EQ(offsetof(GraphNodeParameters, reserved2), offsetof(CUgraphNodeParams, reserved2));
  EXPECT_EQ(kConditionalNode, CU_GRAPH_NODE_TYPE_CONDITIONAL);
  EXPECT_EQ(kConditionIf, CU_GRAPH_COND_TYPE_IF);
  EXPECT_EQ(kConditionWhile, CU_GRAPH_COND_TYPE_WHILE);
}

TEST(DriverToolkitTest, KernelNodeParametersLieAsInTheHeader) {
  static_assert(sizeof(KernelNodeParameters) == sizeof(CUDA_KERNEL_NODE_PARAMS));
  EXPECT_EQ(offsetof(KernelNodeParameters, grid_x), offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX));
  EXPECT_EQ(offsetof(KernelNodeParameters, block_z), offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimZ));
  EXPECT_EQ(offsetof(KernelNodeParameters, shared_bytes), offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
  EXPECT_EQ(offsetof(KernelNodeParameters, parameters), offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
  EXPECT_EQ(offsetof(KernelNodeParameters, extra), offsetof(CUDA_KERNEL_NODE_PARAMS, extra));
  EXPECT_EQ(offsetof(KernelNodeParameters, kernel), offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
  EXPECT_EQ(offsetof(KernelNodeParameters, context), offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
}

}  // namespace
}  // namespace smelt::cuda
