// torchvision's detection operators: "nms_order", "roi_align", "roi_pool", "ps_roi_align" and "deformed_columns", for
// float32 and float64. All of them compute coordinates in the operands' dtype, as torchvision does: where one is rounded,
// its dtype decides. docs/bundle_format.md describes their operands.
#ifndef SMELT_RUNTIME_LIBRARY_DETECTION_H_
#define SMELT_RUNTIME_LIBRARY_DETECTION_H_

#include "absl/types/span.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {

// A run refuses a box that names an image which does not exist.
absl::Span<const LibraryEntry> DetectionOps();

}  // namespace smelt::library_internal

#endif  // SMELT_RUNTIME_LIBRARY_DETECTION_H_
