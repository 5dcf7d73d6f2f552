#include "smelt/functionalize/size_assertions.h"

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"

namespace smelt {

bool HasDataSymbols(const Expr& e) {
  for (const std::string& s : e.Symbols()) {
    if (!s.empty() && s[0] == 'u') return true;
  }
  return false;
}

NodeId SizeAssertions::Insert(const Expr& not_zero, const std::string& message, NodeId anchor) {
  const NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltAssertSize), {}, {});
  g_.SetAttribute(n, "value", not_zero);
  g_.SetAttribute(n, "message", message);
  g_.SetSource(n, at_.source);
  return n;
}

void SizeAssertions::AssertNotZero(const Expr& number, const std::string& message, NodeId anchor) {
  if (asserted_.insert(absl::StrCat(message, ": ", number.ToString())).second) Insert(number, message, anchor);
}

absl::StatusOr<bool> SizeAssertions::IsNew(const Assumption& a) {
  if (HasDataSymbols(a.a) || HasDataSymbols(a.b)) return false;  // that is seen when it runs
  if (!asserted_.insert(a.ToString()).second) return false;
  // It may be wrong for a call that takes another branch.
  if (at_.block_depth > 0)
    return absl::UnimplementedError(absl::StrCat("what is right only where ", a.ToString(), ", in a branch"));
  return true;
}

absl::Status SizeAssertions::Assume(const Assumption& a, NodeId anchor) {
  SMELT_ASSIGN_OR_RETURN(const bool is_new, IsNew(a));
  if (!is_new) return absl::OkStatus();
  g_.SetAttribute(Insert(a, anchor), kElseInOrder, int64_t{1});
  assumes_ = true;
  return absl::OkStatus();
}

absl::Status SizeAssertions::Assert(const Assumption& a, NodeId anchor) {
  SMELT_ASSIGN_OR_RETURN(const bool is_new, IsNew(a));
  if (is_new) Insert(a, anchor);
  return absl::OkStatus();
}

NodeId SizeAssertions::Insert(const Assumption& a, NodeId anchor) {
  const Expr d = a.b - a.a;
  Expr holds;  // not zero
  switch (a.relation) {
    case Assumption::Relation::kEqual:
      holds = Max(Expr(1) - d * d, 0);
      break;
    case Assumption::Relation::kNotEqual:
      holds = Max(d, Expr(0) - d);
      break;
    case Assumption::Relation::kLess:
      holds = Max(d, 0);
      break;
    case Assumption::Relation::kLessOrEqual:
      holds = Max(d + 1, 0);
      break;
  }
  return Insert(holds, absl::StrCat("the sizes of the call are out of range: ", a.ToString(), " is expected"), anchor);
}

}  // namespace smelt
