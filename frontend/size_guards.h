// The conditions on sizes under which an export was traced. `if x.shape[0] > x.shape[1]: ...` leaves one branch in the
// graph, and a line of Python in the archive's "guards_code":
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
  std::optional<Expr> zero;  // if the guard is the equality of two integers: their difference
};

// Parses a guard. `number` gives the value of an argument's number, or nothing if it is not known. Returns
// Unimplemented for anything but integer arithmetic, compared quotients and multiples of powers of two, and
// InvalidArgument for bad syntax. If a quotient's divisor is 0 the guard does not hold.
absl::StatusOr<SizeGuardParts> ParseSizeGuard(absl::string_view text,
                                              const std::function<std::optional<Expr>(const GuardedNumber&)>& number);

// Returns the numbers of arguments in a guard's text, however they are used there, except those that `number` does not
// know.
std::vector<Expr> NumbersInGuard(absl::string_view text,
                                 const std::function<std::optional<Expr>(const GuardedNumber&)>& number);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SIZE_GUARDS_H_
