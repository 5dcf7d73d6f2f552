#include "smelt/runtime/library/order.h"

#include <algorithm>
#include <array>
#include <utility>

namespace smelt::library_internal {
namespace {

// Without branches that depend on data: each element goes behind as many elements as are less, or are equal and stand
// before it.
constexpr size_t kFew = 16;
void SortFew(std::vector<Keyed>* entries) {
  const size_t n = entries->size();
  std::array<Keyed, kFew> from;
  std::copy(entries->begin(), entries->end(), from.begin());
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = from[i].key;
    size_t before = 0;
    for (size_t k = 0; k < i; ++k) before += from[k].key <= key;
    for (size_t k = i + 1; k < n; ++k) before += from[k].key < key;
    (*entries)[before] = from[i];
  }
}

}  // namespace

void LoadKeys(const char* from, int64_t step, int64_t n, DType t, bool descending, std::vector<Keyed>* out) {
  out->resize(static_cast<size_t>(n));
  const uint64_t flip = descending ? ~uint64_t{0} : 0;
  WithKeys(t, [&](auto key) {
    for (int64_t i = 0; i < n; ++i) (*out)[static_cast<size_t>(i)] = {key(from + i * step) ^ flip, i};
  });
}

void SortByKey(std::vector<Keyed>* entries) {
  const size_t n = entries->size();
  if (n <= kFew) return SortFew(entries);
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
