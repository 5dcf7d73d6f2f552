#include "smelt/core/tensor/dtype.h"

#include <array>

#include "smelt/core/base/check.h"

namespace smelt {
namespace {

struct Info {
  const char* name;
  const char* scalar_type_name;
  int scalar_type;  // c10::ScalarType
  int size;
};

// Indexed by DType.
constexpr std::array<Info, kNumDTypes> kInfo = {{
    {"bool", "Bool", 11, 1},
    {"uint8", "Byte", 0, 1},
    {"int8", "Char", 1, 1},
    {"int16", "Short", 2, 2},
    {"int32", "Int", 3, 4},
    {"int64", "Long", 4, 8},
    {"float16", "Half", 5, 2},
    {"bfloat16", "BFloat16", 15, 2},
    {"float32", "Float", 6, 4},
    {"float64", "Double", 7, 8},
    {"complex64", "ComplexFloat", 9, 8},
    {"complex128", "ComplexDouble", 10, 16},
    {"float8_e4m3fn", "Float8_e4m3fn", 24, 1},
    {"float8_e5m2", "Float8_e5m2", 23, 1},
}};

const Info& Of(DType t) {
  SMELT_DCHECK(static_cast<int>(t) < kNumDTypes);
  return kInfo[static_cast<int>(t)];
}

struct Alias {
  const char* name;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"half", DType::kFloat16},     {"float", DType::kFloat32},      {"double", DType::kFloat64},
    {"short", DType::kInt16},      {"int", DType::kInt32},          {"long", DType::kInt64},
    {"cfloat", DType::kComplex64}, {"cdouble", DType::kComplex128},
};

}  // namespace

int ItemSize(DType t) { return Of(t).size; }
absl::string_view Name(DType t) { return Of(t).name; }
absl::string_view ScalarTypeName(DType t) { return Of(t).scalar_type_name; }

std::optional<DType> ParseDType(absl::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kInfo[i].name || name == kInfo[i].scalar_type_name) return static_cast<DType>(i);
  }
  for (const Alias& a : kAliases) {
    if (name == a.name) return a.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromScalarType(int64_t code) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfo[i].scalar_type == code) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t ScalarTypeOf(DType t) { return Of(t).scalar_type; }

bool IsFloating(DType t) { return (t >= DType::kFloat16 && t <= DType::kFloat64) || IsFloat8(t); }
bool IsHalf(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
bool IsFloat8(DType t) { return t == DType::kFloat8E4M3FN || t == DType::kFloat8E5M2; }
bool IsIntegral(DType t) { return t >= DType::kUInt8 && t <= DType::kInt64; }
bool IsComplex(DType t) { return t == DType::kComplex64 || t == DType::kComplex128; }
bool IsSigned(DType t) { return t >= DType::kInt8; }

DType RealOf(DType t) {
  if (t == DType::kComplex64) return DType::kFloat32;
  if (t == DType::kComplex128) return DType::kFloat64;
  return t;
}

DType PromoteTypes(DType a, DType b) {
  if (IsFloat8(a)) return b;  // a call with float8 and another dtype is an error, which others report
  if (IsFloat8(b)) return a;
  // The other dtypes are ordered from narrow to wide, so the wider one is the result, unless neither can hold the other's
  // values.
  if (a > b) return PromoteTypes(b, a);
  if (a == DType::kUInt8 && b == DType::kInt8) return DType::kInt16;
  if (a == DType::kFloat16 && b == DType::kBFloat16) return DType::kFloat32;
  if (a == DType::kFloat64 && b == DType::kComplex64) return DType::kComplex128;
  return b;
}

DType OpMathType(DType t) { return IsHalf(t) || IsFloat8(t) ? DType::kFloat32 : t; }

}  // namespace smelt
