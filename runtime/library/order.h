// Elements in the order of their values, as sort, topk and unique have it: equal values keep their places, -0 equals 0,
// a NaN equals a NaN and lies above all numbers.
#ifndef SMELT_RUNTIME_LIBRARY_ORDER_H_
#define SMELT_RUNTIME_LIBRARY_ORDER_H_

#include <cstdint>
#include <vector>

#include "smelt/core/tensor/dtype.h"

namespace smelt::library_internal {

// A value as an unsigned number in the values' order, and the number of its element.
struct Keyed {
  uint64_t key;
  int64_t index;
};

inline bool operator<(const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }

// Of `n` elements, `step` bytes apart, of a dtype that is not complex. Descending: the largest value has the least key.
void LoadKeys(const char* from, int64_t step, int64_t n, DType t, bool descending, std::vector<Keyed>* out);

// By key, stably: by digits, in time linear in their number; few by comparisons.
void SortByKey(std::vector<Keyed>* entries);

// The key, ascending, of every NaN of this dtype; 0 for dtypes without.
uint64_t NanKey(DType t);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_ORDER_H_
