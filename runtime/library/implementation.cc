#include "smelt/runtime/library/implementation.h"

namespace smelt::library_internal {

void PassOver(absl::string_view name, absl::string_view why_not, std::string& passed_over) {
  absl::StrAppend(&passed_over, passed_over.empty() ? "" : "; ", name, ": ", why_not);
}

void NoteChoice(absl::string_view name, absl::string_view passed_over, PreparedOp& op) {
  const std::string& inner = op.implementation();  // of an op that it prepares the operands for
  op.set_implementation(absl::StrCat(name, inner.empty() ? "" : " of ", inner,
                                     passed_over.empty() ? "" : absl::StrCat(" (", passed_over, ")")));
}

}  // namespace smelt::library_internal
