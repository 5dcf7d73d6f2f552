// The numbers of dtypes and memory formats in archives.
#ifndef SMELT_FRONTEND_PT2_CODES_H_
#define SMELT_FRONTEND_PT2_CODES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {
namespace pt2_internal {

// uint16, in which a decomposed torch.eye counts rows and columns. It is read as int32 (pt2_counts.cc).
constexpr int64_t kUint16Code = 28;

absl::StatusOr<int64_t> C10ScalarType(int64_t pt2);
absl::StatusOr<DType> ToDType(int64_t pt2);
absl::StatusOr<int64_t> C10MemoryFormat(int64_t pt2);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_CODES_H_
