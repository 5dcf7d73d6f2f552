// Operators that choose elements by their values: "count_nonzero", "nonzero", "masked_select", "masked_scatter",
// "unique", "bincount". If a size depends on data, there are two calls: one that counts, and, when the result is
// allocated, one that fills.
#ifndef SMELT_RUNTIME_LIBRARY_SELECT_H_
#define SMELT_RUNTIME_LIBRARY_SELECT_H_

#include "absl/types/span.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// "count_nonzero", "nonzero", "masked_select", "masked_scatter", "unique_count", "unique" and "bincount". A run
// that fills memory writes no more than it has room for, and returns kInternal if the data has another number of elements;
// data that PyTorch refuses is kFailedPrecondition.
absl::Span<const LibraryEntry> SelectionOps();

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_SELECT_H_
