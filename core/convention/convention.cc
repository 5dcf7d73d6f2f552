#include "smelt/core/convention/convention.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string Convention::ToString() const {
  return absl::StrCat(duplicates.ToString(), overlaps.ToString(), mutations.ToString(), outputs.ToString());
}

}  // namespace smelt
