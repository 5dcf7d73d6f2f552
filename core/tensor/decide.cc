#include "smelt/core/tensor/decide.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/tensor/layout_trace.h"

namespace smelt {
namespace {

constexpr auto kAppend = [](std::string* out, const Expr& e) { out->append(e.ToString()); };

const char* Text(Assumption::Relation r) {
  switch (r) {
    case Assumption::Relation::kEqual:
      return "==";
    case Assumption::Relation::kNotEqual:
      return "!=";
    case Assumption::Relation::kLess:
      return "<";
    case Assumption::Relation::kLessOrEqual:
      return "<=";
  }
  return "?";
}

bool Holds(int64_t a, Assumption::Relation r, int64_t b) {
  switch (r) {
    case Assumption::Relation::kEqual:
      return a == b;
    case Assumption::Relation::kNotEqual:
      return a != b;
    case Assumption::Relation::kLess:
      return a < b;
    case Assumption::Relation::kLessOrEqual:
      return a <= b;
  }
  return false;
}

// Collects the terms of a sum, as (coefficient, the rest of the product).
void CollectTerms(const Expr& e, std::vector<std::pair<int64_t, Expr>>& out) {
  Expr::View v = e.Decompose();
  if (v.op == Expr::Op::kAdd) {
    CollectTerms(v.operands[0], out);
    CollectTerms(v.operands[1], out);
  } else if (v.op == Expr::Op::kConstant) {
    out.push_back({v.constant, 1});
  } else if (v.op == Expr::Op::kMul && v.operands[0].IsConstant()) {
    out.push_back({*v.operands[0].Constant(), v.operands[1]});
  } else {
    out.push_back({1, e});
  }
}

// Returns the same assumption without the terms that both sides share and without a common factor: 4*s0 ==
// 8*floordiv(s0, 2) becomes s0 == 2*floordiv(s0, 2).
Assumption Simplified(const Expr& a, Assumption::Relation relation, const Expr& b) {
  const Assumption as_is{a, relation, b};
  const Expr difference = a - b;
  if (difference.IsPoison()) return as_is;
  std::vector<std::pair<int64_t, Expr>> terms;
  CollectTerms(difference, terms);
  int64_t gcd = 0;
  for (const auto& [coefficient, rest] : terms) {
    if (coefficient == INT64_MIN) return as_is;
    gcd = std::gcd(gcd, coefficient);
  }
  if (gcd == 0) return as_is;
  Expr left = 0, right = 0;
  for (const auto& [coefficient, rest] : terms) {
    (coefficient > 0 ? left : right) = (coefficient > 0 ? left : right) + rest * Expr(std::abs(coefficient / gcd));
  }
  // Equality is symmetric, so it is written in one canonical direction, with something on the left.
  if (relation == Assumption::Relation::kEqual && Expr::StableCompare(right, left) > 0) std::swap(left, right);
  return {std::move(left), relation, std::move(right)};
}

}  // namespace

ExprGeometry ExprGeometry::Of(const Geometry& g) {
  return {std::vector<Expr>(g.sizes.begin(), g.sizes.end()), std::vector<Expr>(g.strides.begin(), g.strides.end()),
          g.offset};
}

std::string ExprGeometry::ToString() const {
  return absl::StrCat("[", absl::StrJoin(sizes, ", ", kAppend), "] strides [", absl::StrJoin(strides, ", ", kAppend),
                      "] offset ", offset.ToString());
}

std::string Assumption::ToString() const { return absl::StrCat(a.ToString(), " ", Text(relation), " ", b.ToString()); }

absl::StatusOr<bool> Assumption::Holds(const absl::flat_hash_map<std::string, int64_t>& symbols) const {
  absl::StatusOr<int64_t> x = a.Evaluate(symbols);
  if (!x.ok()) return x.status();
  absl::StatusOr<int64_t> y = b.Evaluate(symbols);
  if (!y.ok()) return y.status();
  return ::smelt::Holds(*x, relation, *y);
}

int64_t ConcreteDecide::FloorDiv(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) {
    Fail(b == 0 ? "division by zero" : "sizes or strides are too large: they overflow int64");
    return 0;
  }
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t ConcreteDecide::Mod(int64_t a, int64_t b) {
  if (b == 0) Fail("division by zero");
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

void ConcreteDecide::Fail(absl::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(what);
}

void SymbolicDecide::Fail(absl::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(what);
}

Expr SymbolicDecide::Checked(Expr e) {
  if (e.IsPoison()) Fail("a size or stride is not known, overflows int64 or divides by zero");
  return e;
}

bool SymbolicDecide::Equal(const Expr& a, const Expr& b) {
  if (std::optional<bool> known = ranges_->Equal(a, b)) return *known;
  return Assume(a, Assumption::Relation::kEqual, b);
}

bool SymbolicDecide::Less(const Expr& a, const Expr& b) {
  if (std::optional<bool> known = ranges_->Less(a, b)) return *known;
  return Assume(a, Assumption::Relation::kLess, b);
}

bool SymbolicDecide::LessOrEqual(const Expr& a, const Expr& b) {
  if (std::optional<bool> known = ranges_->LessOrEqual(a, b)) return *known;
  return Assume(a, Assumption::Relation::kLessOrEqual, b);
}

Expr SymbolicDecide::Min(const Expr& a, const Expr& b) {
  if (ranges_->AlwaysLessOrEqual(a, b) == true) return a;
  if (ranges_->AlwaysLessOrEqual(b, a) == true) return b;
  return Checked(::smelt::Min(a, b));
}

Expr SymbolicDecide::Max(const Expr& a, const Expr& b) {
  if (ranges_->AlwaysLessOrEqual(a, b) == true) return b;
  // Strides are products of max(size, 1). In a call with a size of 0 nothing reads them.
  if (ranges_->AlwaysLessOrEqual(b, a) == true || (b == Expr(1) && ranges_->LessOrEqual(b, a) == true)) return a;
  return Checked(::smelt::Max(a, b));
}

bool SymbolicDecide::IsDecidable(const Expr& e) const {
  if (LayoutTrace::Current() != nullptr) return true;
  for (const std::string& s : e.Symbols()) {
    if (!hints_.contains(s) && ranges_->Get(s).hint < 0) return false;
  }
  return true;
}

absl::StatusOr<int64_t> SymbolicDecide::EvaluateByHints(const Expr& e) const {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    const auto given = hints_.find(s);
    const int64_t value = given != hints_.end() ? given->second : ranges_->Get(s).hint;
    if (given != hints_.end() || value >= 0) values[s] = value;
  }
  return e.Evaluate(values);
}

std::optional<int64_t> SymbolicDecide::Example(const Expr& e) const {
  if (e.IsPoison() || !IsDecidable(e)) return std::nullopt;
  const absl::StatusOr<int64_t> v = EvaluateByHints(e);
  return v.ok() ? std::optional<int64_t>(*v) : std::nullopt;
}

bool SymbolicDecide::Assume(const Expr& a, Assumption::Relation relation, const Expr& b) {
  using Relation = Assumption::Relation;
  if (a.IsPoison() || b.IsPoison()) {
    Fail("a size or stride is not known, overflows int64 or divides by zero");
    return false;
  }
  // An earlier assumption may state it, or its opposite.
  const Assumption asked = Simplified(a, relation, b);
  if (LayoutTrace* trace = LayoutTrace::Current(); trace != nullptr) return trace->Compare(asked);
  const Assumption opposite = relation == Relation::kEqual  ? Assumption{asked.a, Relation::kNotEqual, asked.b}
                              : relation == Relation::kLess ? Assumption{asked.b, Relation::kLessOrEqual, asked.a}
                                                            : Assumption{asked.b, Relation::kLess, asked.a};
  for (const Assumption& made : assumptions_) {
    if (made == asked) return true;
    if (made == opposite) return false;
  }
  absl::StatusOr<int64_t> x = EvaluateByHints(a), y = EvaluateByHints(b);
  if (!x.ok() || !y.ok()) {
    if (status_.ok()) {
      const absl::string_view why = (!x.ok() ? x : y).status().message();
      status_ = WithCause(
          absl::UnimplementedError(absl::StrCat("whether ", asked.ToString(),
                                                " is not known: the ranges of the symbols leave it open, and ", why)),
          Cause::kUndecidedSizes);
    }
    return false;
  }
  const bool holds = ::smelt::Holds(*x, relation, *y);
  assumptions_.push_back(holds ? asked : opposite);
  return holds;
}

}  // namespace smelt
