// The representation of an expression in expr.cc, for the other files of its implementation: expr_text.cc,
// symbol_ranges.cc.
#ifndef SMELT_CORE_SYMBOL_EXPR_INTERNAL_H_
#define SMELT_CORE_SYMBOL_EXPR_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {
namespace expr_internal {

enum class Kind { kSymbol, kFloorDiv, kMod, kMin, kMax };

// A factor of a product: a symbol, or a function that did not simplify away. kMin and kMax have 2 or more operands,
// sorted; the others 2.
struct Atom {
  Kind kind;
  std::string name;
  std::vector<Expr> operands;
  size_t hash = 0;
  int64_t tree_size = 1;
  int depth = 0;
};
using AtomPtr = std::shared_ptr<const Atom>;

// coefficient * product of factors, which are sorted and may repeat.
struct Term {
  int64_t coefficient = 0;
  std::vector<AtomPtr> factors;
};

// b must not be 0, nor -1 if a is INT64_MIN.
inline int64_t FloorDivide(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

inline int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

inline uint64_t Magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

// Deeper expressions are poison.
inline constexpr int kMaxDepth = 200;

}  // namespace expr_internal

// The terms of a polynomial, sorted by CompareFactors, none zero, at least one not constant. Or poison, without terms.
struct Expr::Node {
  std::vector<expr_internal::Term> terms;
  bool poison = false;
  size_t hash = 0;
  int64_t tree_size = 1;
  int depth = 0;
};

struct ExprAccess {
  static const Expr::Node* NodeOf(const Expr& e) { return e.node_.get(); }
  static Expr Make(std::shared_ptr<const Expr::Node> node) { return Expr(std::move(node)); }
  static int64_t Constant(const Expr& e) { return e.constant_; }
};

namespace expr_internal {

// Returns nullptr for a constant.
inline const Expr::Node* NodeOf(const Expr& e) { return ExprAccess::NodeOf(e); }
inline bool AnyPoison(const Expr& a, const Expr& b) { return a.IsPoison() || b.IsPoison(); }

// Compares by a total, stable order of structure.
int CompareAtoms(const AtomPtr& a, const AtomPtr& b);

std::vector<Term> TermsOf(const Expr& e);
// Returns the term without factors, which is the last; 0 if there is none.
int64_t ConstantTerm(const std::vector<Term>& terms);
Expr FromTerm(Term t);
// Makes an expression from sorted, merged terms.
Expr FromTerms(std::vector<Term> terms);

// Applies the function of a kind other than kSymbol.
Expr Apply(Kind kind, absl::Span<const Expr> operands);
// Replaces the atoms for which `replace` returns something, outermost first, and rebuilds the expressions that contain
// them.
Expr Rebuild(const Expr& e, const std::function<std::optional<Expr>(const Atom&)>& replace);

}  // namespace expr_internal
}  // namespace smelt

#endif  // SMELT_CORE_SYMBOL_EXPR_INTERNAL_H_
