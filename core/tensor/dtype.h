// The element types of tensors.
#ifndef SMELT_CORE_TENSOR_DTYPE_H_
#define SMELT_CORE_TENSOR_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace smelt {

// The numbers are part of the bundle and graph formats and must never change.
enum class DType : uint8_t {
  kBool = 0,
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kBFloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kFloat8E4M3FN = 12,
  kFloat8E5M2 = 13,
};
inline constexpr int kNumDTypes = 14;

int ItemSize(DType t);                      // bytes
absl::string_view Name(DType t);            // "float32", "bool": PyTorch's names
absl::string_view ScalarTypeName(DType t);  // "Float", "Long": as TorchScript's text form prints a tensor type
std::optional<DType> ParseDType(
    absl::string_view name);  // either of the two names, and "float", "double", "half", "int", "long"
std::optional<DType> DTypeFromScalarType(
    int64_t code);              // PyTorch's c10::ScalarType (0 uint8, 1 int8, ... 6 float32, 11 bool, 15 bfloat16)
int64_t ScalarTypeOf(DType t);  // the inverse
bool IsFloating(DType t);       // real floating point
bool IsHalf(DType t);           // float16, bfloat16
bool IsFloat8(DType t);         // float8_e4m3fn, float8_e5m2
bool IsIntegral(DType t);       // integers, not bool
bool IsComplex(DType t);
bool IsSigned(DType t);
DType RealOf(DType t);                 // complex64 -> float32, else itself
DType PromoteTypes(DType a, DType b);  // torch.promote_types
DType OpMathType(DType t);  // what PyTorch's kernels compute in: float32 for float16, bfloat16 and float8, else itself

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_DTYPE_H_
