#include "smelt/core/convention/mutations.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string MutationsLayer::ToString() const {
  std::string out = "mutations:\n";
  for (const MutatedMemory& m : memories) {
    absl::StrAppend(&out, "  memory ", m.memory.value(), " becomes graph output ", m.contents.value());
    if (m.resized) absl::StrAppend(&out, ", resized to ", m.final_bytes.ToString(), " bytes");
    absl::StrAppend(&out, "\n");
    for (const SymbolicGeometry& r : m.written) absl::StrAppend(&out, "    written ", smelt::ToString(r), "\n");
  }
  for (const MutatedInput& m : inputs) {
    absl::StrAppend(&out, "  ", m.is_state ? absl::StrCat("state ", m.state) : absl::StrCat("argument ", m.arg.value()),
                    " becomes ", smelt::ToString(m.final_geometry));
    if (m.storage) {
      absl::StrAppend(&out, m.final_source == MutatedInput::Source::kGraphOutput
                                ? absl::StrCat(" in graph output ", m.final_output.value())
                                : absl::StrCat(" in memory ", m.final_memory.value()));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

}  // namespace smelt
