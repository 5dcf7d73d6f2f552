// Integer expressions over symbols: the sizes, strides and offsets of tensors whose shape is known only at run time.
//
//   Expr n = Expr::Symbol("s0");
//   Expr bytes = n * 4 * 8;            // 32*s0
//   bytes == Expr(4) * n * 8           // true: expressions are kept in a canonical form
//   FloorDiv(bytes, 32) == n           // true
//
// An Expr is an immutable value, cheap to copy; a constant allocates nothing. Sums and products are kept as a
// polynomial with integer coefficients over atoms (symbols, and the results of FloorDiv, Mod, Min, Max that do not
// simplify), so that two expressions that are equal as polynomials compare equal. A divisor is assumed to be nonzero
// (FloorDiv(n, n) is 1). Arithmetic that overflows int64 during simplification, a division by the constant zero, and an
// expression that grows beyond any use (thousands of terms) give the poison expression: IsPoison(), which evaluates to
// an error.
//
// The names of symbols are identifiers, possibly with dots ("s0", "x.stride0"). Others work but do not survive printing
// and parsing. "poison" is reserved.
#ifndef SMELT_CORE_SYMBOL_EXPR_H_
#define SMELT_CORE_SYMBOL_EXPR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace smelt {

class Expr {
 public:
  Expr() : constant_(0) {}
  Expr(int64_t constant) : constant_(constant) {}  // NOLINT: implicit on purpose, a size is often a number
  static Expr Symbol(absl::string_view name);
  static Expr Poison();

  bool IsConstant() const { return node_ == nullptr; }
  bool IsPoison() const;
  bool IsSymbol() const;           // a lone symbol
  std::string SymbolName() const;  // of a lone symbol
  std::optional<int64_t> Constant() const { return IsConstant() ? std::optional<int64_t>(constant_) : std::nullopt; }

  // The symbols that occur, sorted, each once.
  std::vector<std::string> Symbols() const;

  // Returns the value for given symbols. An error names a missing symbol, an overflow or a division by zero.
  absl::StatusOr<int64_t> Evaluate(const absl::flat_hash_map<std::string, int64_t>& symbols) const;

  // Replaces symbols by expressions.
  Expr Substitute(const absl::flat_hash_map<std::string, Expr>& symbols) const;

  // "4*s0*s1 + s0 + 3", "floordiv(s0, 2)", "mod(s0, 2)", "min(a, b)", "max(a, b)". Parse reads this text, also with
  // parentheses.
  std::string ToString() const;
  static absl::StatusOr<Expr> Parse(absl::string_view text);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  Expr operator-() const { return Expr(0) - *this; }
  friend Expr FloorDiv(const Expr& a, const Expr& b);
  friend Expr Mod(const Expr& a, const Expr& b);  // Python's: the sign of b
  friend Expr Min(const Expr& a, const Expr& b);
  friend Expr Max(const Expr& a, const Expr& b);
  // The product of no factors is 1.
  Expr Product(absl::Span<const Expr> factors);

  // Structural equality of the canonical forms: true means equal for all symbols; false means "not known to be equal".
  friend bool operator==(const Expr& a, const Expr& b);
  friend bool operator!=(const Expr& a, const Expr& b) { return !(a == b); }
  // A total, stable order (for sorting and printing, not numeric).
  static int StableCompare(const Expr& a, const Expr& b);
  template <typename H>
  friend H AbslHashValue(H h, const Expr& e) {
    return H::combine(std::move(h), e.HashCode());
  }

  // The expression as a tree, for encoders: building it again from the operands gives an equal expression. Poison is 1
  // / 0.
  enum class Op { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  struct View {
    Op op;
    int64_t constant = 0;        // kConstant
    std::string symbol;          // kSymbol
    std::vector<Expr> operands;  // 2 for all else
  };
  View Decompose() const;

  struct Node;  // private to expr.cc

 private:
  friend struct ExprAccess;  // expr.cc
  explicit Expr(std::shared_ptr<const Node> node);
  size_t HashCode() const;
  int64_t constant_;
  std::shared_ptr<const Node> node_;
};

Expr FloorDiv(const Expr& a, const Expr& b);
Expr Mod(const Expr& a, const Expr& b);
Expr Min(const Expr& a, const Expr& b);
Expr Max(const Expr& a, const Expr& b);
// The product of no factors is 1.
Expr Product(absl::Span<const Expr> factors);

// The known range of each symbol, and the facts about expressions that follow. Sizes that PyTorch's export calls
// dynamic are usually in [2, inf) or [0, inf).
class SymbolRanges {
 public:
  static constexpr int64_t kInfinity = INT64_MAX;
  struct Range {
    int64_t min = 0, max = kInfinity;
    // The smallest value that a caller may pass, if that is less than `min`: PyTorch's export assumes that dynamic
    // sizes are at least 2 (a size of 1 broadcasts), but accepts 1. -1: min.
    int64_t accepted_min = -1;
    // The example's value, which decides a question that the range leaves open. -1 if unknown.
    int64_t hint = -1;
  };
  void Set(absl::string_view symbol, Range range);
  void Erase(absl::string_view symbol);
  Range Get(absl::string_view symbol) const;  // [0, inf) if never set
  Range Of(const Expr& e) const;              // interval arithmetic, sound; min may be INT64_MIN

  // nullopt if the ranges do not decide it.
  std::optional<bool> Equal(const Expr& a, const Expr& b) const;
  std::optional<bool> Less(const Expr& a, const Expr& b) const;
  std::optional<bool> LessOrEqual(const Expr& a, const Expr& b) const;
  // For all values that a caller may pass, including those below `min`.
  std::optional<bool> AlwaysLessOrEqual(const Expr& a, const Expr& b) const;
  // Returns an expression with the same value for all values that a caller may pass, without each min, max, floordiv
  // and mod that the ranges decide: with s0 in [8, inf), min(s0, 4) is 4, floordiv(3, s0) is 0, mod(3, s0) is 3.
  Expr Simplify(const Expr& e) const;

  // Returns the ranges with each symbol starting from the smallest value that a caller may pass.
  SymbolRanges Accepted() const;

  // States a fact beyond the ranges: `e` (or x, if `e` is max(x, -x)) is not 0 in any call that is accepted.
  void SetNonZero(const Expr& e);

  const std::vector<std::pair<std::string, Range>>& entries() const { return entries_; }  // sorted by name

 private:
  bool IsNonZero(const Expr& e) const;

  std::vector<std::pair<std::string, Range>> entries_;
  std::vector<Expr> nonzero_;
};

}  // namespace smelt

#endif  // SMELT_CORE_SYMBOL_EXPR_H_
