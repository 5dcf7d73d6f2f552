#include "smelt/runtime/library/order.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "smelt/core/base/check.h"
#include "smelt/core/tensor/float16.h"

namespace smelt::library_internal {
namespace {

template <typename T>
T Read(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// A floating point number's bits count upwards from its sign, downwards where that is set.
template <typename Bits, typename F>
uint64_t FloatKey(F v) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  if (v != v) return std::numeric_limits<Bits>::max();
  if (v == 0) return kSign;
  Bits bits;
  std::memcpy(&bits, &v, sizeof bits);
  return (bits & kSign) != 0 ? Bits(~bits) : Bits(bits | kSign);
}

template <typename Key>
void Load(const char* from, int64_t step, int64_t n, bool descending, std::vector<Keyed>* out, Key key) {
  const uint64_t flip = descending ? ~uint64_t{0} : 0;
  for (int64_t i = 0; i < n; ++i) (*out)[static_cast<size_t>(i)] = {key(from + i * step) ^ flip, i};
}

template <typename T>
uint64_t IntKey(const char* p) {
  const uint64_t wide = static_cast<uint64_t>(static_cast<int64_t>(Read<T>(p)));
  return std::is_signed_v<T> ? wide ^ uint64_t{1} << 63 : wide;
}

}  // namespace

void LoadKeys(const char* from, int64_t step, int64_t n, DType t, bool descending, std::vector<Keyed>* out) {
  out->resize(static_cast<size_t>(n));
  const auto load = [&](auto key) { Load(from, step, n, descending, out, key); };
  switch (t) {
    case DType::kFloat64:
      return load([](const char* p) { return FloatKey<uint64_t>(Read<double>(p)); });
    case DType::kFloat32:
      return load([](const char* p) { return FloatKey<uint32_t>(Read<float>(p)); });
    case DType::kFloat16:
      return load([](const char* p) { return FloatKey<uint32_t>(HalfToFloat(Read<uint16_t>(p))); });
    case DType::kBFloat16:
      return load([](const char* p) { return FloatKey<uint32_t>(BFloat16ToFloat(Read<uint16_t>(p))); });
    case DType::kInt64:
      return load(IntKey<int64_t>);
    case DType::kInt32:
      return load(IntKey<int32_t>);
    case DType::kInt16:
      return load(IntKey<int16_t>);
    case DType::kInt8:
      return load(IntKey<int8_t>);
    case DType::kUInt8:
      return load(IntKey<uint8_t>);
    default:
      SMELT_CHECK(t == DType::kBool) << Name(t) << " has no order";
      return load([](const char* p) -> uint64_t { return *p != 0; });
  }
}

void SortByKey(std::vector<Keyed>* entries) {
  const size_t n = entries->size();
  if (n < 256) {
    std::sort(entries->begin(), entries->end());
    return;
  }
  constexpr int kDigits = 8;
  thread_local std::vector<Keyed> other;
  thread_local std::vector<int64_t> places;
  other.resize(n);
  places.assign(kDigits * 256, 0);
  for (const Keyed& e : *entries) {
    for (int d = 0; d < kDigits; ++d) ++places[static_cast<size_t>(d * 256) + (e.key >> 8 * d & 255)];
  }
  for (int d = 0; d < kDigits; ++d) {
    int64_t* place = places.data() + d * 256;
    if (place[(*entries)[0].key >> 8 * d & 255] == static_cast<int64_t>(n)) continue;  // one digit for all
    int64_t sum = 0;
    for (int v = 0; v < 256; ++v) sum += std::exchange(place[v], sum);
    for (const Keyed& e : *entries) other[static_cast<size_t>(place[e.key >> 8 * d & 255]++)] = e;
    entries->swap(other);
  }
}

uint64_t NanKey(DType t) {
  if (!IsFloating(t)) return 0;
  return t == DType::kFloat64 ? std::numeric_limits<uint64_t>::max() : std::numeric_limits<uint32_t>::max();
}

}  // namespace smelt::library_internal
