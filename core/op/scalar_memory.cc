#include "smelt/core/op/scalar_memory.h"

#include <cstdint>
#include <cstring>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {

ScalarValue LoadScalar(DType t, const void* at) {
  ScalarValue v;
  v.i = 0;
  auto as = [at](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (t) {
    case DType::kBool:
      v.i = as(uint8_t{}) != 0;
      break;
    case DType::kUInt8:
      v.i = as(uint8_t{});
      break;
    case DType::kInt8:
      v.i = as(int8_t{});
      break;
    case DType::kInt16:
      v.i = as(int16_t{});
      break;
    case DType::kInt32:
      v.i = as(int32_t{});
      break;
    case DType::kInt64:
      v.i = as(int64_t{});
      break;
    case DType::kFloat16:
      v.f = HalfToFloat(as(uint16_t{}));
      break;
    case DType::kBFloat16:
      v.f = BFloat16ToFloat(as(uint16_t{}));
      break;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      v.f = Float8ToFloat(t, as(uint8_t{}));
      break;
    case DType::kFloat32:
      v.f = as(float{});
      break;
    case DType::kFloat64:
      v.f = as(double{});
      break;
    default:
      SMELT_UNREACHABLE();
  }
  return v;
}

void StoreScalar(DType t, ScalarValue v, void* at) {
  auto put = [at](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (t) {
    case DType::kBool:
      put(static_cast<uint8_t>(v.i != 0));
      break;
    case DType::kUInt8:
    case DType::kInt8:
      put(static_cast<uint8_t>(v.i));
      break;
    case DType::kInt16:
      put(static_cast<uint16_t>(v.i));
      break;
    case DType::kInt32:
      put(static_cast<uint32_t>(v.i));
      break;
    case DType::kInt64:
      put(v.i);
      break;
    case DType::kFloat16:
      put(FloatToHalf(static_cast<float>(v.f)));
      break;
    case DType::kBFloat16:
      put(FloatToBFloat16(static_cast<float>(v.f)));
      break;
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      put(FloatToFloat8(t, static_cast<float>(v.f)));
      break;
    case DType::kFloat32:
      put(static_cast<float>(v.f));
      break;
    case DType::kFloat64:
      put(v.f);
      break;
    default:
      SMELT_UNREACHABLE();
  }
}

}  // namespace smelt
