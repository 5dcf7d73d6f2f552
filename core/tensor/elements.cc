#include "smelt/core/tensor/elements.h"

#include <cmath>
#include <cstring>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {
namespace {
template <typename T>
T Read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}
template <typename T>
void Write(void* p, T v) {
  std::memcpy(p, &v, sizeof(T));
}
int64_t Truncate(double v) {
  if (!(v >= -9223372036854775808.0 && v < 9223372036854775808.0)) return INT64_MIN;
  return static_cast<int64_t>(v);
}
}  // namespace

double LoadDouble(const void* p, DType t) {
  switch (t) {
    case DType::kFloat16:
      return HalfToFloat(Read<uint16_t>(p));
    case DType::kBFloat16:
      return BFloat16ToFloat(Read<uint16_t>(p));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Float8ToFloat(t, Read<uint8_t>(p));
    case DType::kFloat32:
    case DType::kComplex64:
      return Read<float>(p);
    case DType::kFloat64:
    case DType::kComplex128:
      return Read<double>(p);
    default:
      return static_cast<double>(LoadInt(p, t));
  }
}

int64_t LoadInt(const void* p, DType t) {
  switch (t) {
    case DType::kBool:
      return Read<uint8_t>(p) != 0;
    case DType::kUInt8:
      return Read<uint8_t>(p);
    case DType::kInt8:
      return Read<int8_t>(p);
    case DType::kInt16:
      return Read<int16_t>(p);
    case DType::kInt32:
      return Read<int32_t>(p);
    case DType::kInt64:
      return Read<int64_t>(p);
    default:
      return Truncate(LoadDouble(p, t));
  }
}

std::complex<double> LoadComplex(const void* p, DType t) {
  if (t == DType::kComplex64) {
    return {Read<float>(p), Read<float>(static_cast<const char*>(p) + 4)};
  }
  if (t == DType::kComplex128) {
    return {Read<double>(p), Read<double>(static_cast<const char*>(p) + 8)};
  }
  return {LoadDouble(p, t), 0};
}

void StoreDouble(void* p, DType t, double v) {
  switch (t) {
    case DType::kFloat16:
      return Write<uint16_t>(p, FloatToHalf(static_cast<float>(v)));
    case DType::kBFloat16:
      return Write<uint16_t>(p, FloatToBFloat16(static_cast<float>(v)));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Write<uint8_t>(p, FloatToFloat8(t, static_cast<float>(v)));
    case DType::kFloat32:
      return Write<float>(p, static_cast<float>(v));
    case DType::kFloat64:
      return Write<double>(p, v);
    case DType::kComplex64:
      Write<float>(p, static_cast<float>(v));
      return Write<float>(static_cast<char*>(p) + 4, 0);
    case DType::kComplex128:
      Write<double>(p, v);
      return Write<double>(static_cast<char*>(p) + 8, 0);
    case DType::kBool:
      return Write<uint8_t>(p, v != 0);
    default:
      return StoreInt(p, t, Truncate(v));
  }
}

void StoreInt(void* p, DType t, int64_t v) {
  switch (t) {
    case DType::kBool:
      return Write<uint8_t>(p, v != 0);
    case DType::kUInt8:
    case DType::kInt8:
      return Write<uint8_t>(p, static_cast<uint8_t>(v));
    case DType::kInt16:
      return Write<uint16_t>(p, static_cast<uint16_t>(v));
    case DType::kInt32:
      return Write<uint32_t>(p, static_cast<uint32_t>(v));
    case DType::kInt64:
      return Write<int64_t>(p, v);
    default:
      return StoreDouble(p, t, static_cast<double>(v));
  }
}

}  // namespace smelt
