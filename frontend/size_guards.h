// The conditions on sizes under which an export was traced. `if x.shape[0] > x.shape[1]: ...` leaves one branch in the
// graph, and in the archive's "guards_code" a line of Python:
//
//   L['x'].size()[0] > L['x'].size()[1]
#ifndef SMELT_FRONTEND_SIZE_GUARDS_H_
#define SMELT_FRONTEND_SIZE_GUARDS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {

// L['d'][0].size()[1]: path {"d", "0"}, what kSize, dim 1.
struct GuardedNumber {
  enum What { kSize, kStride, kOffset, kInt };
  std::vector<std::string> path;
  What what = kInt;
  int dim = 0;
};

struct SizeGuardParts {
  Expr holds;                // is not 0 where the guard holds
  std::optional<Expr> zero;  // where the guard is that two integers are equal: their difference
};

// What a guard says. `number` gives what an argument's number is, or nothing if that is
// not known. Unimplemented for what is no integer arithmetic, but for quotients that are compared and multiples of
// powers of two; InvalidArgument for bad syntax. Where a quotient's divisor is 0 the guard does not hold.
absl::StatusOr<SizeGuardParts> ParseSizeGuard(absl::string_view text,
                                              const std::function<std::optional<Expr>(const GuardedNumber&)>& number);

// The numbers of arguments in a guard's text, however they are used there; those that `number` does not know are left
// out.
std::vector<Expr> NumbersInGuard(absl::string_view text,
                                 const std::function<std::optional<Expr>(const GuardedNumber&)>& number);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SIZE_GUARDS_H_
