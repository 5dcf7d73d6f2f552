// How a rule over sizes takes its decisions and does its arithmetic, so that one rule serves numbers and expressions.
//
// A rule (view_rules.h) is a template over a policy D with
//   D::Index      int64_t or Expr
//   D::Geometry   Geometry or ExprGeometry
//   Equal, Less, LessOrEqual(a, b)         the answer
//   Add, Sub, Mul, FloorDiv, Mod, Min, Max
//   status()      the first thing that went wrong: an overflow, or an undecided question. From then on the
//                 answers are arbitrary (but the rules still end), and the rule returns this status.
//
// ConcreteDecide is for numbers. SymbolicDecide asks SymbolRanges. If they leave a question open, it uses the hint
// values of the symbols (the sizes of the example inputs), and records its assumptions. The result is right where the
// assumptions hold, which the caller must check at run time or refuse.
//
//   SymbolicDecide decide(&ranges, {{"s0", 16}});
//   absl::StatusOr<ExprGeometry> out = view_rules::View(decide, in, {Expr(-1), Expr(4)});
//   for (const Assumption& a : decide.assumptions()) ...   // "mod(s0, 4) == 0"
#ifndef SMELT_CORE_TENSOR_DECIDE_H_
#define SMELT_CORE_TENSOR_DECIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Geometry over expressions.
struct ExprGeometry {
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  Expr offset;

  static ExprGeometry Of(const Geometry& g);
  int rank() const { return static_cast<int>(sizes.size()); }
  bool operator==(const ExprGeometry& o) const {
    return sizes == o.sizes && strides == o.strides && offset == o.offset;
  }
  std::string ToString() const;  // as Geometry's
};

// An assumption: a `relation` b.
struct Assumption {
  enum class Relation { kEqual, kNotEqual, kLess, kLessOrEqual };
  Expr a;
  Relation relation;
  Expr b;

  bool operator==(const Assumption& o) const { return a == o.a && relation == o.relation && b == o.b; }
  std::string ToString() const;  // "s0 <= 4*s1"
  // Returns an error if an expression has no value.
  absl::StatusOr<bool> Holds(const absl::flat_hash_map<std::string, int64_t>& symbols) const;
};

class ConcreteDecide {
 public:
  using Index = int64_t;
  using Geometry = ::smelt::Geometry;

  bool Equal(int64_t a, int64_t b) { return a == b; }
  bool Less(int64_t a, int64_t b) { return a < b; }
  bool LessOrEqual(int64_t a, int64_t b) { return a <= b; }
  int64_t Add(int64_t a, int64_t b) {
    const bool overflow = __builtin_add_overflow(a, b, &a);
    return Checked(overflow, a);
  }
  int64_t Sub(int64_t a, int64_t b) {
    const bool overflow = __builtin_sub_overflow(a, b, &a);
    return Checked(overflow, a);
  }
  int64_t Mul(int64_t a, int64_t b) {
    const bool overflow = __builtin_mul_overflow(a, b, &a);
    return Checked(overflow, a);
  }
  int64_t FloorDiv(int64_t a, int64_t b);
  int64_t Mod(int64_t a, int64_t b);
  int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
  int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }

  const absl::Status& status() const { return status_; }
  // Keeps the first one.
  void Fail(absl::string_view what);

 private:
  int64_t Checked(bool overflow, int64_t value) {
    if (__builtin_expect(overflow, false)) {
      Fail("sizes or strides are too large: they overflow int64");
      return 0;
    }
    return value;
  }
  absl::Status status_;
};

class SymbolicDecide {
 public:
  using Index = Expr;
  using Geometry = ExprGeometry;

  // `ranges` must outlive this.
  explicit SymbolicDecide(const SymbolRanges* ranges, absl::flat_hash_map<std::string, int64_t> hints = {})
      : ranges_(ranges), hints_(std::move(hints)) {}

  const absl::flat_hash_map<std::string, int64_t>& hints() const { return hints_; }

  bool Equal(const Expr& a, const Expr& b);
  bool Less(const Expr& a, const Expr& b);
  bool LessOrEqual(const Expr& a, const Expr& b);
  Expr Add(const Expr& a, const Expr& b) { return Checked(a + b); }
  Expr Sub(const Expr& a, const Expr& b) { return Checked(a - b); }
  Expr Mul(const Expr& a, const Expr& b) { return Checked(a * b); }
  Expr FloorDiv(const Expr& a, const Expr& b) { return Checked(::smelt::FloorDiv(a, b)); }
  Expr Mod(const Expr& a, const Expr& b) { return Checked(::smelt::Mod(a, b)); }
  // Makes no assumption: if the ranges do not decide, the result is a min or max expression.
  Expr Min(const Expr& a, const Expr& b);
  Expr Max(const Expr& a, const Expr& b);

  // Returns whether hints can decide what the ranges leave open about `e`: not for numbers that only the data
  // determines.
  bool IsDecidable(const Expr& e) const;
  // Returns its value for the hints, or nullopt if they do not give one.
  std::optional<int64_t> Example(const Expr& e) const;
  std::optional<bool> Known(const Expr& a, const Expr& b) const { return ranges_->LessOrEqual(a, b); }

  const absl::Status& status() const { return status_; }
  void Fail(absl::string_view what);
  // In the order in which they were first made, each once. All of them hold for the hints.
  const std::vector<Assumption>& assumptions() const { return assumptions_; }

 private:
  Expr Checked(Expr e);
  // Decides by the hints and records an assumption; `relation` is kEqual, kLess or kLessOrEqual.
  bool Assume(const Expr& a, Assumption::Relation relation, const Expr& b);
  absl::StatusOr<int64_t> EvaluateByHints(const Expr& e) const;

  const SymbolRanges* ranges_;
  absl::flat_hash_map<std::string, int64_t> hints_;
  std::vector<Assumption> assumptions_;
  absl::Status status_;
};

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_DECIDE_H_
