#include "smelt/frontend/pt2_codes.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace pt2_internal {

absl::StatusOr<int64_t> C10ScalarType(int64_t pt2) {
  if (pt2 >= 1 && pt2 <= 12) return pt2 - 1;
  if (pt2 == 13) return 15;  // bfloat16
  if (pt2 == 29) return 24;  // float8_e4m3fn
  if (pt2 == 30) return 23;  // float8_e5m2
  return absl::UnimplementedError(absl::StrCat(
      "dtype code ", pt2, " (uint16, uint32, uint64 and float8 other than e4m3fn and e5m2 are not supported)"));
}

absl::StatusOr<DType> ToDType(int64_t pt2) {
  SMELT_ASSIGN_OR_RETURN(int64_t code, C10ScalarType(pt2));
  std::optional<DType> t = DTypeFromScalarType(code);
  if (!t) return absl::UnimplementedError(absl::StrCat("dtype code ", pt2));
  return *t;
}

absl::StatusOr<int64_t> C10MemoryFormat(int64_t pt2) {
  switch (pt2) {
    case 1:
      return 0;  // contiguous
    case 2:
      return 2;  // channels last
    case 3:
      return 3;  // channels last 3d
    case 4:
      return 1;  // preserve
  }
  return absl::InvalidArgumentError(absl::StrCat("memory format ", pt2, ", 1 to 4 expected"));
}

}  // namespace pt2_internal
}  // namespace smelt
