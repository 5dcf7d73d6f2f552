#include "smelt/core/convention/overlaps.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string OverlapsLayer::ToString() const {
  std::string out = "overlaps:";
  for (MemoryIndex m : memory_of) absl::StrAppend(&out, " ", m.value());
  return absl::StrCat(out, " of ", num_argument_memories, " memories, ", num_memories, " with states\n");
}

}  // namespace smelt
