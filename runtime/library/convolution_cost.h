// Estimates of the time that the ways to compute a convolution take, by which one is chosen: from what each computes and
// moves, and from rates that bench/convolutions measured.
#ifndef SMELT_RUNTIME_LIBRARY_CONVOLUTION_COST_H_
#define SMELT_RUNTIME_LIBRARY_CONVOLUTION_COST_H_

#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

enum class ConvolutionWay { kRows, kSums, kOnednn, kProducts, kLoops };

// Returns the nanoseconds for one image, whatever the batch: all batches of a shape are computed in the same way. The
// rates are those of one machine; only their ratios matter.
double EstimateNanoseconds(ConvolutionWay way, const LibraryRequest& r, const ConvParams& p);

// Returns the nanoseconds for converting those operands of one image whose dtype or layout differs.
double EstimateCopies(const LibraryRequest& from, const LibraryRequest& to);

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_CONVOLUTION_COST_H_
