#include "smelt/runtime/library/implementation.h"

#include <cmath>

namespace smelt::library_internal {

void PassOver(absl::string_view name, absl::string_view why_not, std::string& passed_over) {
  absl::StrAppend(&passed_over, passed_over.empty() ? "" : "; ", name, ": ", why_not);
}

void PassOverForLess(absl::string_view name, double times, std::string& passed_over) {
  PassOver(name,
           absl::StrCat("it is estimated to take ", absl::SixDigits(std::round(times * 10) / 10), " times as long"),
           passed_over);
}

void NoteChoice(absl::string_view name, absl::string_view passed_over, PreparedOp& op) {
  const std::string& inner = op.implementation();  // of an op that it prepares the operands for
  op.set_implementation(absl::StrCat(name, inner.empty() ? "" : " of ", inner,
                                     passed_over.empty() ? "" : absl::StrCat(" (", passed_over, ")")));
}

}  // namespace smelt::library_internal
