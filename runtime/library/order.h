// Orders elements by their values, as in sort, topk and unique: equal values keep their order, -0 equals 0, a NaN
// equals a NaN and is greater than all numbers.
#ifndef SMELT_RUNTIME_LIBRARY_ORDER_H_
#define SMELT_RUNTIME_LIBRARY_ORDER_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/float16.h"

namespace smelt::library_internal {

// A value as an unsigned number in the values' order, and the index of its element.
struct Keyed {
  uint64_t key;
  int64_t index;
};

inline bool operator<(const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }

template <typename T>
T Read(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// The bits of a floating-point number increase with its magnitude if its sign is clear, and decrease if it is set.
template <typename Bits, typename F>
uint64_t FloatKey(F v) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits bits;
  std::memcpy(&bits, &v, sizeof bits);
  if (v == 0) bits = 0;
  const Bits key = bits ^ (kSign | (Bits{0} - (bits >> (8 * sizeof(Bits) - 1))));
  return v != v ? std::numeric_limits<Bits>::max() : key;
}

template <typename T>
uint64_t IntKey(const char* p) {
  const uint64_t wide = static_cast<uint64_t>(static_cast<int64_t>(Read<T>(p)));
  return std::is_signed_v<T> ? wide ^ uint64_t{1} << 63 : wide;
}

// Calls body(key), where key(address) is the key of an element of dtype `t`, ascending; for dtypes that are not
// complex.
template <typename Body>
void WithKeys(DType t, Body body) {
  switch (t) {
    case DType::kFloat64:
      return body([](const char* p) { return FloatKey<uint64_t>(Read<double>(p)); });
    case DType::kFloat32:
      return body([](const char* p) { return FloatKey<uint32_t>(Read<float>(p)); });
    case DType::kFloat16:
      return body([](const char* p) { return FloatKey<uint32_t>(HalfToFloat(Read<uint16_t>(p))); });
    case DType::kBFloat16:
      return body([](const char* p) { return FloatKey<uint32_t>(BFloat16ToFloat(Read<uint16_t>(p))); });
    case DType::kInt64:
      return body(IntKey<int64_t>);
    case DType::kInt32:
      return body(IntKey<int32_t>);
    case DType::kInt16:
      return body(IntKey<int16_t>);
    case DType::kInt8:
      return body(IntKey<int8_t>);
    case DType::kUInt8:
      return body(IntKey<uint8_t>);
    default:
      SMELT_CHECK(t == DType::kBool) << Name(t) << " has no order";
      return body([](const char* p) -> uint64_t { return *p != 0; });
  }
}

// Loads the keys of `n` elements, `step` bytes apart, of a dtype that is not complex. If descending, the largest value
// has the least key.
void LoadKeys(const char* from, int64_t step, int64_t n, DType t, bool descending, std::vector<Keyed>* out);

// Sorts by key, stably: by digits, in time linear in the number of entries; few entries by comparisons.
void SortByKey(std::vector<Keyed>* entries);

// The key, ascending, of every NaN of this dtype; 0 for dtypes without.
uint64_t NanKey(DType t);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_ORDER_H_
