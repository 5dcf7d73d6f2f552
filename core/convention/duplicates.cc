#include "smelt/core/convention/duplicates.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string DuplicatesLayer::ToString() const {
  std::string out = "duplicates:";
  for (DistinctIndex i : inner_of_outer) absl::StrAppend(&out, " ", i.value());
  return absl::StrCat(out, "\n");
}

}  // namespace smelt
