// The functions of cuBLASLt that are used. The declarations are those of cublasLt.h, under other names. Internal.
#ifndef SMELT_RUNTIME_CUDA_CUBLASLT_DECLARATIONS_H_
#define SMELT_RUNTIME_CUDA_CUBLASLT_DECLARATIONS_H_

#include <cstddef>
#include <cstdint>

#include "smelt/runtime/cuda/driver.h"

namespace smelt::cuda {

using BlasStatus = int;  // cublasStatus_t
inline constexpr BlasStatus kBlasSuccess = 0, kBlasNotInitialized = 1, kBlasAllocFailed = 3, kBlasInvalidValue = 7,
                            kBlasArchMismatch = 8, kBlasExecutionFailed = 13, kBlasInternalError = 14,
                            kBlasNotSupported = 15;
using BlasHandle = struct BlasHandleContents*;
using BlasOperation = struct BlasOperationContents*;    // cublasLtMatmulDesc_t
using BlasLayout = struct BlasLayoutContents*;          // cublasLtMatrixLayout_t
using BlasPreference = struct BlasPreferenceContents*;  // cublasLtMatmulPreference_t
// cublasLtMatmulAlgo_t
struct BlasAlgorithm {
  uint64_t data[8] = {};
};
// cublasLtMatmulHeuristicResult_t
struct BlasChoice {
  BlasAlgorithm algorithm;
  size_t workspace_bytes = 0;
  BlasStatus state = kBlasNotSupported;
  float waves = 0;
  int reserved[4] = {};
};
// cudaDataType
inline constexpr int kBlasFloat32 = 0, kBlasFloat16 = 2, kBlasBFloat16 = 14;
// cublasComputeType_t: sums of float32, without TF32
inline constexpr int kBlasSumFloat32 = 68;
// cublasOperation_t
inline constexpr int kBlasAsIs = 0, kBlasTransposed = 1;
// cublasLtMatmulDescAttributes_t
inline constexpr int kBlasTransposeA = 3, kBlasTransposeB = 4, kBlasEpilogue = 7, kBlasBiasPointer = 8;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int kBlasBatchCount = 5, kBlasBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int kBlasMostWorkspace = 1, kBlasReductions = 3, kBlasAlignmentA = 5;  // and those of B, C and D
// cublasLtReductionScheme_t: partial sums are of float32 and added in a step of its own
inline constexpr uint32_t kBlasReductionInFloat32 = 2;
// cublasLtEpilogue_t. Its activations are not used: cuBLASLt does not say what its ReLU makes of NaN, and its GELU is the
// approximate one, of numbers that are not rounded before.
inline constexpr uint32_t kBlasPlain = 1, kBlasBias = 4;

#define SMELT_CUBLASLT_FUNCTIONS(F)                                                                                    \
  F(Create, "cublasLtCreate", (BlasHandle * handle))                                                                   \
  F(OperationCreate, "cublasLtMatmulDescCreate", (BlasOperation * operation, int compute, int scale))                  \
  F(OperationDestroy, "cublasLtMatmulDescDestroy", (BlasOperation operation))                                          \
  F(OperationSet, "cublasLtMatmulDescSetAttribute",                                                                    \
    (BlasOperation operation, int attribute, const void* value, size_t bytes))                                         \
  F(LayoutCreate, "cublasLtMatrixLayoutCreate",                                                                        \
    (BlasLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t column_stride))                           \
  F(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (BlasLayout layout))                                                 \
  F(LayoutSet, "cublasLtMatrixLayoutSetAttribute",                                                                     \
    (BlasLayout layout, int attribute, const void* value, size_t bytes))                                               \
  F(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (BlasPreference * preference))                                 \
  F(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (BlasPreference preference))                                 \
  F(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute",                                                             \
    (BlasPreference preference, int attribute, const void* value, size_t bytes))                                       \
  F(Choose, "cublasLtMatmulAlgoGetHeuristic",                                                                          \
    (BlasHandle handle, BlasOperation operation, BlasLayout a, BlasLayout b, BlasLayout c, BlasLayout d,               \
     BlasPreference preference, int most, BlasChoice* choices, int* count))                                            \
  F(Multiply, "cublasLtMatmul",                                                                                        \
    (BlasHandle handle, BlasOperation operation, const void* alpha, const void* a, BlasLayout a_layout, const void* b, \
     BlasLayout b_layout, const void* beta, const void* c, BlasLayout c_layout, void* d, BlasLayout d_layout,          \
     const BlasAlgorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream))

// The functions of the library.
struct CublasLtFunctions {
#define SMELT_CUBLASLT_DECLARE(name, symbol, parameters) BlasStatus(*name) parameters = nullptr;
  SMELT_CUBLASLT_FUNCTIONS(SMELT_CUBLASLT_DECLARE)
#undef SMELT_CUBLASLT_DECLARE
};

}  // namespace smelt::cuda

#endif  // SMELT_RUNTIME_CUDA_CUBLASLT_DECLARATIONS_H_
