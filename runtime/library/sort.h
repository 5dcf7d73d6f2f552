// "sort", "topk", "searchsorted", by comparisons and stable (topk moves equal elements as PyTorch does), with NaN above
// all numbers as in PyTorch; and one element of each line: "kthvalue", "median", "nanmedian", "mode". The lines of a
// tensor are ordered one by one, each on one thread.
#ifndef SMELT_RUNTIME_LIBRARY_SORT_H_
#define SMELT_RUNTIME_LIBRARY_SORT_H_

#include "absl/types/span.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// For real dtypes.
absl::Span<const LibraryEntry> SortingOps();

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_SORT_H_
