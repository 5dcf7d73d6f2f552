// Reads an integer expression as SymPy prints it in a .pt2: "Mul(Integer(8), Symbol('s97', positive=True,
// integer=True))".
#ifndef SMELT_FRONTEND_SYMPY_EXPR_H_
#define SMELT_FRONTEND_SYMPY_EXPR_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {

// Returns Unimplemented for functions that are not integer arithmetic (relations, logarithms), and InvalidArgument for
// bad syntax.
absl::StatusOr<Expr> ParseSympyExpr(absl::string_view text);

// Uses the names that torch.export gives symbols: "s0" is a size of an argument, "u0" a number that only the data
// determines.
bool DependsOnData(const Expr& e);

// Returns the first quotient within it.
std::optional<Expr> FindQuotient(const Expr& e);

}  // namespace smelt

#endif  // SMELT_FRONTEND_SYMPY_EXPR_H_
