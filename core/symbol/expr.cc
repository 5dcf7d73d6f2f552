#include "smelt/core/symbol/expr.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/core/symbol/expr_internal.h"

namespace smelt {

using namespace expr_internal;  // NOLINT: this file is its implementation

namespace {

// Larger expressions become poison: no tensor's size looks like that, and a hostile file must not cost more.
constexpr size_t kMaxTerms = 2048;
constexpr size_t kMaxFactors = 128;  // of a term: twice as many as a tensor has dims
constexpr size_t kMaxOperands = 32;  // of a minimum or maximum
constexpr int64_t kMaxTreeSize = 1 << 16;

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

Expr::Expr(std::shared_ptr<const Node> node) : constant_(0), node_(std::move(node)) {}

namespace expr_internal {

int CompareAtoms(const AtomPtr& a, const AtomPtr& b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return Sign(a->kind, b->kind);
  if (a->kind == Kind::kSymbol) return Sign(a->name, b->name);
  if (a->operands.size() != b->operands.size()) return Sign(a->operands.size(), b->operands.size());
  for (size_t i = 0; i < a->operands.size(); ++i) {
    if (int c = Expr::StableCompare(a->operands[i], b->operands[i]); c != 0) return c;
  }
  return 0;
}

}  // namespace expr_internal

namespace {

int CompareFactors(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
  if (a.size() != b.size()) return Sign(b.size(), a.size());  // higher degree first, the constant last
  for (size_t i = 0; i < a.size(); ++i) {
    if (int c = CompareAtoms(a[i], b[i]); c != 0) return c;
  }
  return 0;
}

int CompareTermLists(const std::vector<Term>& a, const std::vector<Term>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (int c = CompareFactors(a[i].factors, b[i].factors); c != 0) return c;
    if (int c = Sign(a[i].coefficient, b[i].coefficient); c != 0) return c;
  }
  return Sign(a.size(), b.size());
}

}  // namespace

namespace expr_internal {

std::vector<Term> TermsOf(const Expr& e) {
  if (const Expr::Node* n = NodeOf(e)) return n->terms;
  if (int64_t c = ExprAccess::Constant(e); c != 0) return {Term{c, {}}};
  return {};
}

int64_t ConstantTerm(const std::vector<Term>& terms) {
  return !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
}

}  // namespace expr_internal

namespace {

AtomPtr MakeAtom(Kind kind, std::string name, std::vector<Expr> operands) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->name = std::move(name);
  atom->operands = std::move(operands);
  atom->hash = absl::HashOf(static_cast<int>(kind), atom->name, atom->operands);
  for (const Expr& e : atom->operands) {
    if (const Expr::Node* n = NodeOf(e)) {
      atom->tree_size += n->tree_size;
      atom->depth = std::max(atom->depth, n->depth + 1);
    }
  }
  return atom;
}

}  // namespace

namespace expr_internal {

Expr FromTerms(std::vector<Term> terms) {
  if (terms.empty()) return Expr(0);
  if (terms.size() == 1 && terms[0].factors.empty()) return Expr(terms[0].coefficient);
  if (terms.size() > kMaxTerms) return Expr::Poison();
  auto node = std::make_shared<Expr::Node>();
  size_t hash = terms.size();
  for (const Term& t : terms) {
    if (t.factors.size() > kMaxFactors) return Expr::Poison();
    hash = absl::HashOf(hash, t.coefficient, t.factors.size());
    for (const AtomPtr& f : t.factors) {
      hash = absl::HashOf(hash, f->hash);
      node->tree_size += f->tree_size;
      node->depth = std::max(node->depth, f->depth);
    }
  }
  if (node->tree_size > kMaxTreeSize || node->depth > kMaxDepth) return Expr::Poison();
  node->hash = hash;
  node->terms = std::move(terms);
  return ExprAccess::Make(std::move(node));
}

Expr FromTerm(Term t) {
  if (t.coefficient == 0) return Expr(0);
  std::vector<Term> terms;
  terms.push_back(std::move(t));
  return FromTerms(std::move(terms));
}

}  // namespace expr_internal

namespace {

Expr FromAtom(AtomPtr atom) { return FromTerm(Term{1, {std::move(atom)}}); }

// Sorts and merges. Returns false on overflow.
bool Normalize(std::vector<Term>& terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return CompareFactors(a.factors, b.factors) < 0; });
  size_t out = 0;
  for (size_t i = 0; i < terms.size();) {
    Term t = std::move(terms[i++]);
    while (i < terms.size() && CompareFactors(t.factors, terms[i].factors) == 0) {
      if (__builtin_add_overflow(t.coefficient, terms[i].coefficient, &t.coefficient)) return false;
      ++i;
    }
    if (t.coefficient != 0) terms[out++] = std::move(t);
  }
  terms.resize(out);
  return true;
}

std::vector<AtomPtr> MergeFactors(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
  std::vector<AtomPtr> out;
  out.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out),
             [](const AtomPtr& x, const AtomPtr& y) { return CompareAtoms(x, y) < 0; });
  return out;
}

// Returns a / b as multisets; nullopt if b is not contained in a.
std::optional<std::vector<AtomPtr>> DivideFactors(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
  if (b.size() > a.size()) return std::nullopt;
  std::vector<AtomPtr> out;
  size_t j = 0;
  for (const AtomPtr& x : a) {
    if (j < b.size() && CompareAtoms(x, b[j]) == 0) {
      ++j;
    } else {
      out.push_back(x);
    }
  }
  if (j != b.size()) return std::nullopt;
  return out;
}

Expr AddTerms(std::vector<Term> terms);

// Rewrites k * mod(x, m) * rest + k * m * floordiv(x, m) * rest as k * x * rest. Returns whether it changed something.
bool JoinModAndFloorDiv(std::vector<Term>& terms, Expr& result) {
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t f = 0; f < terms[i].factors.size(); ++f) {
      const AtomPtr mod = terms[i].factors[f];
      if (mod->kind != Kind::kMod) continue;
      std::vector<AtomPtr> rest = terms[i].factors;
      rest.erase(rest.begin() + f);
      const AtomPtr div = MakeAtom(Kind::kFloorDiv, "", mod->operands);
      const Expr wanted = FromTerm(Term{terms[i].coefficient, rest}) * mod->operands[1] * FromTerm(Term{1, {div}});
      const Expr::Node* w = NodeOf(wanted);
      if (w == nullptr || w->poison || w->terms.size() != 1) continue;
      for (size_t j = 0; j < terms.size(); ++j) {
        if (j == i || CompareFactors(terms[j].factors, w->terms[0].factors) != 0 ||
            terms[j].coefficient != w->terms[0].coefficient) {
          continue;
        }
        std::vector<Term> others;
        for (size_t k = 0; k < terms.size(); ++k) {
          if (k != i && k != j) others.push_back(terms[k]);
        }
        result = AddTerms(std::move(others)) + FromTerm(Term{terms[i].coefficient, rest}) * mod->operands[0];
        return true;
      }
    }
  }
  return false;
}

// Returns the terms without these; nullopt if one of them is missing or has another coefficient.
std::optional<std::vector<Term>> Without(std::vector<Term> terms, const std::vector<Term>& wanted) {
  for (const Term& w : wanted) {
    const auto found = std::find_if(terms.begin(), terms.end(), [&](const Term& t) {
      return t.coefficient == w.coefficient && CompareFactors(t.factors, w.factors) == 0;
    });
    if (found == terms.end()) return std::nullopt;
    terms.erase(found);
  }
  return terms;
}

// Rewrites x - mod(x, m) as m * floordiv(x, m), and x + mod(-x, m) as m * floordiv(x + m - 1, m), so that rounding down
// or up to a multiple of m is visible. Both may have a common factor. Returns whether it changed something.
bool RoundToMultiple(const std::vector<Term>& terms, Expr& result) {
  for (size_t i = 0; i < terms.size(); ++i) {
    for (size_t f = 0; f < terms[i].factors.size(); ++f) {
      const AtomPtr mod = terms[i].factors[f];
      const std::optional<int64_t> m = mod->kind == Kind::kMod ? mod->operands[1].Constant() : std::nullopt;
      if (!m || *m < 2) continue;
      std::vector<AtomPtr> rest = terms[i].factors;
      rest.erase(rest.begin() + f);
      const Expr common = FromTerm(Term{terms[i].coefficient, rest});
      // mod(x + constant, m), whose coefficients are from 0 to m - 1.
      const std::vector<Term> dividend = TermsOf(mod->operands[0]);
      const int64_t constant = ConstantTerm(dividend);
      const Expr x = mod->operands[0] - Expr(constant);
      Expr negated = 0;
      for (const Term& t : TermsOf(x)) negated = negated + FromTerm(Term{*m - t.coefficient, t.factors});
      std::vector<Term> others = terms;
      others.erase(others.begin() + static_cast<int64_t>(i));
      if (const auto left = Without(others, TermsOf(common * x * Expr(-1)))) {
        result = FromTerms(*left) + common * (Expr(constant) - FloorDiv(mod->operands[0], *m) * *m);
        return true;
      }
      if (const auto left = Without(others, TermsOf(common * negated))) {
        result = FromTerms(*left) + common * (FloorDiv(negated + Expr(*m - 1 - constant), *m) * *m + Expr(constant));
        return true;
      }
    }
  }
  return false;
}

Expr AddTerms(std::vector<Term> terms) {
  if (!Normalize(terms)) return Expr::Poison();
  bool has_mod = false, has_div = false;
  for (const Term& t : terms) {
    for (const AtomPtr& f : t.factors) {
      has_mod |= f->kind == Kind::kMod;
      has_div |= f->kind == Kind::kFloorDiv;
    }
  }
  Expr joined;
  if (has_mod && has_div && terms.size() <= 32 && JoinModAndFloorDiv(terms, joined)) return joined;
  if (has_mod && terms.size() > 1 && terms.size() <= 32 && RoundToMultiple(terms, joined)) return joined;
  return FromTerms(std::move(terms));
}

// Returns bounds that hold for all values of the symbols: mod(x, m) is in [0, m - 1] for a constant m. nullopt if
// unbounded.
std::optional<std::pair<__int128, __int128>> UniversalRange(const std::vector<Term>& terms) {
  __int128 lo = 0, hi = 0;
  for (const Term& t : terms) {
    if (t.factors.empty()) {
      lo += t.coefficient;
      hi += t.coefficient;
      continue;
    }
    if (t.factors.size() != 1 || t.factors[0]->kind != Kind::kMod) return std::nullopt;
    std::optional<int64_t> m = t.factors[0]->operands[1].Constant();
    if (!m.has_value()) return std::nullopt;
    const __int128 end = static_cast<__int128>(t.coefficient) * (*m > 0 ? *m - 1 : *m + 1);
    (end < 0 ? lo : hi) += end;
  }
  return std::make_pair(lo, hi);
}

// floordiv(a, b) = quotient + floordiv(rest, divisor) and mod(a, b) = scale * mod(rest, divisor) + offset, as far as
// they simplify; `done`: floordiv(rest, divisor) is 0 and mod(rest, divisor) is rest.
struct Division {
  Expr quotient;
  Expr rest, divisor;
  Expr scale = 1, offset = 0;
  bool done = false;
  bool poison = false;
};

Division DivideByConstant(const Expr& a, int64_t c) {
  Division d;
  std::vector<Term> quotient, rest;
  uint64_t gcd = Magnitude(c);
  for (const Term& t : TermsOf(a)) {
    const int64_t r = FloorModulo(t.coefficient, c);
    const int64_t q = FloorDivide(t.coefficient, c);
    if (q != 0) quotient.push_back(Term{q, t.factors});
    if (r != 0) rest.push_back(Term{r, t.factors});
    if (r != 0 && !t.factors.empty()) gcd = std::gcd(gcd, Magnitude(r));
  }
  d.quotient = AddTerms(std::move(quotient));
  const int64_t g = static_cast<int64_t>(gcd);
  const int64_t constant = ConstantTerm(rest);
  if (g > 1) {
    // g*R + k over g*c' is R + k / g over c'.
    std::vector<Term> scaled;
    for (const Term& t : rest) {
      const int64_t k = FloorDivide(t.coefficient, g);
      if (k != 0) scaled.push_back(Term{k, t.factors});
    }
    rest = std::move(scaled);
    d.scale = g;
    d.offset = FloorModulo(constant, g);
    c /= g;
  }
  d.divisor = c;
  std::optional<std::pair<__int128, __int128>> range = UniversalRange(rest);
  d.done = c == 1 || (range.has_value() && range->first >= 0 && range->second < c);
  if (c == 1) rest.clear();
  d.rest = AddTerms(std::move(rest));
  d.poison = d.rest.IsPoison() || d.quotient.IsPoison();
  return d;
}

// Divides polynomials exactly: returns q with q * b == a, or nullopt.
std::optional<Expr> DivideExactly(const Expr& a, const Expr& b) {
  const std::vector<Term> divisor = TermsOf(b);
  Expr rest = a, quotient = 0;
  for (int steps = 0; steps < 64; ++steps) {
    if (rest == Expr(0)) return quotient;
    const std::vector<Term> terms = TermsOf(rest);
    std::optional<std::vector<AtomPtr>> factors = DivideFactors(terms[0].factors, divisor[0].factors);
    if (!factors.has_value() || divisor[0].coefficient == 0) return std::nullopt;
    if (terms[0].coefficient == INT64_MIN || terms[0].coefficient % divisor[0].coefficient != 0) return std::nullopt;
    const Expr q = FromTerm(Term{terms[0].coefficient / divisor[0].coefficient, *std::move(factors)});
    quotient = quotient + q;
    rest = rest - q * b;
    if (AnyPoison(rest, quotient)) return std::nullopt;
  }
  return std::nullopt;
}

// Returns the common factor of all terms of both, as a monomial.
Term CommonFactor(const std::vector<Term>& a, const std::vector<Term>& b) {
  Term common;
  uint64_t gcd = 0;
  bool first = true;
  for (const std::vector<Term>* list : {&a, &b}) {
    for (const Term& t : *list) {
      gcd = std::gcd(gcd, Magnitude(t.coefficient));
      if (first) {
        common.factors = t.factors;
        first = false;
        continue;
      }
      std::vector<AtomPtr> both;
      std::set_intersection(common.factors.begin(), common.factors.end(), t.factors.begin(), t.factors.end(),
                            std::back_inserter(both),
                            [](const AtomPtr& x, const AtomPtr& y) { return CompareAtoms(x, y) < 0; });
      common.factors = std::move(both);
    }
  }
  common.coefficient = gcd > INT64_MAX || gcd == 0 ? 1 : static_cast<int64_t>(gcd);
  return common;
}

Expr DivideByMonomial(const Expr& a, const Term& m) {
  std::vector<Term> out;
  for (const Term& t : TermsOf(a))
    out.push_back(Term{t.coefficient / m.coefficient, *DivideFactors(t.factors, m.factors)});
  if (!Normalize(out)) return Expr::Poison();
  return FromTerms(std::move(out));
}

Division Divide(const Expr& a, const Expr& b) {
  Division d;
  if (AnyPoison(a, b) || b == Expr(0)) {
    d.poison = true;
    return d;
  }
  if (std::optional<int64_t> c = b.Constant()) {
    if (*c == INT64_MIN) {
      d.poison = true;
      return d;
    }
    if (*c > 0) return DivideByConstant(a, *c);
    // floordiv(a, -c) = floordiv(-a, c); mod(a, -c) = -mod(-a, c).
    d = DivideByConstant(-a, -*c);
    d.poison = d.poison || (-a).IsPoison();
    d.scale = -d.scale;
    d.offset = -d.offset;
    return d;
  }
  if (std::optional<Expr> q = DivideExactly(a, b)) {
    d.quotient = *q;
    d.rest = 0;
    d.divisor = b;
    d.done = true;
    return d;
  }
  if (TermsOf(b)[0].coefficient < 0) {
    const Expr minus_a = -a, minus_b = -b;
    d = Divide(minus_a, minus_b);
    d.scale = -d.scale;
    d.offset = -d.offset;
    return d;
  }
  // Cancels a common factor: floordiv(g*a, g*b) = floordiv(a, b), mod(g*a, g*b) = g * mod(a, b).
  const Term common = CommonFactor(TermsOf(a), TermsOf(b));
  Expr rest = a, divisor = b;
  if (!common.factors.empty() || common.coefficient != 1) {
    rest = DivideByMonomial(a, common);
    divisor = DivideByMonomial(b, common);
    d = Divide(rest, divisor);
    d.scale = d.scale * FromTerm(common);
    d.offset = d.offset * FromTerm(common);
    return d;
  }
  // Takes out the terms that are divisible by a monomial divisor.
  const std::vector<Term> divisor_terms = TermsOf(b);
  if (divisor_terms.size() == 1) {
    std::vector<Term> quotient, left;
    for (const Term& t : TermsOf(a)) {
      std::optional<std::vector<AtomPtr>> f = DivideFactors(t.factors, divisor_terms[0].factors);
      if (f.has_value() && t.coefficient != INT64_MIN && t.coefficient % divisor_terms[0].coefficient == 0) {
        quotient.push_back(Term{t.coefficient / divisor_terms[0].coefficient, *std::move(f)});
      } else {
        left.push_back(t);
      }
    }
    if (!quotient.empty()) {
      d.quotient = AddTerms(std::move(quotient));
      rest = FromTerms(std::move(left));
      Division inner = Divide(rest, divisor);
      inner.quotient = inner.quotient + d.quotient;
      inner.poison = inner.poison || inner.quotient.IsPoison();
      return inner;
    }
  }
  d.rest = rest;
  d.divisor = divisor;
  return d;
}

// Returns the min or max of the operands of both.
Expr Extremum(Kind kind, const Expr& a, const Expr& b) {
  if (AnyPoison(a, b)) return Expr::Poison();
  std::vector<Expr> all;
  size_t of_a = 0;
  for (const Expr* e : {&a, &b}) {
    of_a = all.size();
    const std::vector<Term> terms = TermsOf(*e);
    if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
        terms[0].factors[0]->kind == kind) {
      const std::vector<Expr>& inner = terms[0].factors[0]->operands;
      all.insert(all.end(), inner.begin(), inner.end());
    } else {
      all.push_back(*e);
    }
  }
  if (all.size() > kMaxOperands) return Expr::Poison();
  // Drops an operand of one side if an operand of the other side always decides against it.
  std::vector<Expr> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    bool dominated = false;
    for (size_t j = 0; j < all.size() && !dominated; ++j) {
      if ((i < of_a) == (j < of_a)) continue;
      const Expr difference = kind == Kind::kMin ? all[i] - all[j] : all[j] - all[i];
      if (difference.IsPoison()) continue;
      std::optional<std::pair<__int128, __int128>> range = UniversalRange(TermsOf(difference));
      // If they are equal, the first is kept.
      if (range.has_value() && range->first >= 0 && !(difference == Expr(0) && i < j)) {
        // If two operands dominate each other (equal in value, unequal in form), the first is kept.
        dominated = range->second > 0 || j < i;
      }
    }
    if (!dominated) kept.push_back(all[i]);
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end(), [](const Expr& x, const Expr& y) {
    if (x.IsConstant() != y.IsConstant()) return y.IsConstant();
    return Expr::StableCompare(x, y) < 0;
  });
  return FromAtom(MakeAtom(kind, "", std::move(kept)));
}

void CollectSymbols(const Expr& e, std::vector<std::string>& out) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr) return;
  for (const Term& t : n->terms) {
    for (const AtomPtr& f : t.factors) {
      if (f->kind == Kind::kSymbol) out.push_back(f->name);
      for (const Expr& o : f->operands) CollectSymbols(o, out);
    }
  }
}

}  // namespace

Expr Expr::Symbol(absl::string_view name) { return FromAtom(MakeAtom(Kind::kSymbol, std::string(name), {})); }

Expr Expr::Poison() {
  auto node = std::make_shared<Node>();
  node->poison = true;
  node->hash = 0x9015;
  return Expr(std::move(node));
}

bool Expr::IsPoison() const { return node_ != nullptr && node_->poison; }

bool Expr::IsSymbol() const {
  return node_ != nullptr && node_->terms.size() == 1 && node_->terms[0].coefficient == 1 &&
         node_->terms[0].factors.size() == 1 && node_->terms[0].factors[0]->kind == Kind::kSymbol;
}

std::string Expr::SymbolName() const { return IsSymbol() ? node_->terms[0].factors[0]->name : ""; }

std::vector<std::string> Expr::Symbols() const {
  std::vector<std::string> out;
  CollectSymbols(*this, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

absl::Status EvaluationError(const Expr& e, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("evaluating \"", e.ToString(), "\": ", what));
}

absl::StatusOr<int64_t> EvaluateAtom(const Atom& atom, const Expr& whole,
                                     const absl::flat_hash_map<std::string, int64_t>& symbols) {
  if (atom.kind == Kind::kSymbol) {
    auto it = symbols.find(atom.name);
    if (it == symbols.end()) return EvaluationError(whole, absl::StrCat("symbol \"", atom.name, "\" has no value"));
    return it->second;
  }
  int64_t result = 0;
  for (size_t i = 0; i < atom.operands.size(); ++i) {
    absl::StatusOr<int64_t> value = atom.operands[i].Evaluate(symbols);
    if (!value.ok()) return value;
    if (i == 0) {
      result = *value;
    } else if (atom.kind == Kind::kMin) {
      result = std::min(result, *value);
    } else if (atom.kind == Kind::kMax) {
      result = std::max(result, *value);
    } else {
      if (*value == 0) return EvaluationError(whole, absl::StrCat("division by zero: ", atom.operands[1].ToString()));
      if (atom.kind == Kind::kFloorDiv && result == INT64_MIN && *value == -1) {
        return EvaluationError(whole, "the result is not an int64");
      }
      result = atom.kind == Kind::kMod ? FloorModulo(result, *value) : FloorDivide(result, *value);
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<int64_t> Expr::Evaluate(const absl::flat_hash_map<std::string, int64_t>& symbols) const {
  if (node_ == nullptr) return constant_;
  if (node_->poison) return absl::InvalidArgumentError("evaluating an expression that overflowed or divides by zero");
  // Computes in 128 bits, so that s0*s1 - s0*(s1 - 1) does not fail if only an intermediate result is large.
  __int128 sum = 0;
  for (const Term& t : node_->terms) {
    __int128 product = t.coefficient;
    for (const AtomPtr& f : t.factors) {
      absl::StatusOr<int64_t> value = EvaluateAtom(*f, *this, symbols);
      if (!value.ok()) return value;
      if (__builtin_mul_overflow(product, static_cast<__int128>(*value), &product)) {
        return EvaluationError(*this, "the result is not an int64");
      }
    }
    if (__builtin_add_overflow(sum, product, &sum)) return EvaluationError(*this, "the result is not an int64");
  }
  if (sum < INT64_MIN || sum > INT64_MAX) return EvaluationError(*this, "the result is not an int64");
  return static_cast<int64_t>(sum);
}

namespace expr_internal {

// Adds all at once, so that many cost no more than sorting the terms. Also used by expr_text.cc.
Expr SumOf(absl::Span<const Expr> summands) {
  constexpr size_t kFew = 32;
  if (summands.size() <= kFew) {
    Expr sum = 0;
    for (const Expr& e : summands) sum = sum + e;
    return sum;
  }
  std::vector<Term> terms;
  for (const Expr& e : summands) {
    if (e.IsPoison()) return Expr::Poison();
    std::vector<Term> more = TermsOf(e);
    terms.insert(terms.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return AddTerms(std::move(terms));
}

}  // namespace expr_internal

namespace expr_internal {

Expr Apply(Kind kind, absl::Span<const Expr> operands) {
  switch (kind) {
    case Kind::kFloorDiv:
      return FloorDiv(operands[0], operands[1]);
    case Kind::kMod:
      return Mod(operands[0], operands[1]);
    default:
      break;
  }
  Expr result = operands[0];
  for (const Expr& e : operands.subspan(1)) result = kind == Kind::kMin ? Min(result, e) : Max(result, e);
  return result;
}

Expr Rebuild(const Expr& e, const std::function<std::optional<Expr>(const Atom&)>& replace) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr || n->poison) return e;
  std::vector<Expr> summands;
  std::vector<Term> untouched;
  for (const Term& t : n->terms) {
    Expr product = t.coefficient;
    bool changed = false;
    std::vector<AtomPtr> same;
    for (const AtomPtr& f : t.factors) {
      std::optional<Expr> value = replace(*f);
      if (!value.has_value() && f->kind != Kind::kSymbol) {
        std::vector<Expr> operands;
        bool operand_changed = false;
        for (const Expr& o : f->operands) {
          operands.push_back(Rebuild(o, replace));
          operand_changed |= operands.back() != o;
        }
        if (operand_changed) value = Apply(f->kind, operands);
      }
      if (value.has_value()) {
        product = product * *value;
        changed = true;
      } else {
        same.push_back(f);
      }
    }
    if (changed) {
      summands.push_back(product * FromTerm(Term{1, same}));
    } else {
      untouched.push_back(t);
    }
  }
  summands.push_back(FromTerms(std::move(untouched)));
  return SumOf(summands);
}

}  // namespace expr_internal

Expr Expr::Substitute(const absl::flat_hash_map<std::string, Expr>& symbols) const {
  return Rebuild(*this, [&](const Atom& a) -> std::optional<Expr> {
    if (a.kind != Kind::kSymbol) return std::nullopt;
    auto it = symbols.find(a.name);
    if (it == symbols.end()) return std::nullopt;
    return it->second;
  });
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    int64_t sum;
    return __builtin_add_overflow(a.constant_, b.constant_, &sum) ? Expr::Poison() : Expr(sum);
  }
  if (AnyPoison(a, b)) return Expr::Poison();
  if (a == Expr(0)) return b;
  if (b == Expr(0)) return a;
  std::vector<Term> terms = TermsOf(a);
  std::vector<Term> more = TermsOf(b);
  terms.insert(terms.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return AddTerms(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    int64_t difference;
    return __builtin_sub_overflow(a.constant_, b.constant_, &difference) ? Expr::Poison() : Expr(difference);
  }
  return a + b * Expr(-1);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    int64_t product;
    return __builtin_mul_overflow(a.constant_, b.constant_, &product) ? Expr::Poison() : Expr(product);
  }
  if (AnyPoison(a, b)) return Expr::Poison();
  if (a == Expr(0) || b == Expr(0)) return 0;
  if (a == Expr(1)) return b;
  if (b == Expr(1)) return a;
  const std::vector<Term> x = TermsOf(a), y = TermsOf(b);
  if (x.size() * y.size() > kMaxTerms) return Expr::Poison();
  std::vector<Term> terms;
  terms.reserve(x.size() * y.size());
  for (const Term& s : x) {
    for (const Term& t : y) {
      int64_t coefficient;
      if (__builtin_mul_overflow(s.coefficient, t.coefficient, &coefficient)) return Expr::Poison();
      terms.push_back(Term{coefficient, MergeFactors(s.factors, t.factors)});
    }
  }
  return AddTerms(std::move(terms));
}

Expr FloorDiv(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    if (b.constant_ == 0 || (a.constant_ == INT64_MIN && b.constant_ == -1)) return Expr::Poison();
    return FloorDivide(a.constant_, b.constant_);
  }
  Division d = Divide(a, b);
  if (d.poison) return Expr::Poison();
  if (d.done) return d.quotient;
  // floordiv(floordiv(x, m) + k, c) = floordiv(x + k*m, m*c) for m, c > 0.
  if (std::optional<int64_t> c = d.divisor.Constant()) {
    const std::vector<Term> terms = TermsOf(d.rest);
    if (!terms.empty() && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
        terms[0].factors[0]->kind == Kind::kFloorDiv &&
        (terms.size() == 1 || (terms.size() == 2 && terms[1].factors.empty()))) {
      const Atom& inner = *terms[0].factors[0];
      std::optional<int64_t> m = inner.operands[1].Constant();
      int64_t product, shift;
      if (m.has_value() && *m > 0 && !__builtin_mul_overflow(*m, *c, &product) &&
          !__builtin_mul_overflow(*m, ConstantTerm(terms), &shift)) {
        return d.quotient + FloorDiv(inner.operands[0] + Expr(shift), product);
      }
    }
  }
  if (d.rest != a || d.divisor != b) return d.quotient + FloorDiv(d.rest, d.divisor);
  return d.quotient + FromAtom(MakeAtom(Kind::kFloorDiv, "", {a, b}));
}

Expr Mod(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    if (b.constant_ == 0) return Expr::Poison();
    return FloorModulo(a.constant_, b.constant_);
  }
  if (const std::optional<int64_t> m = b.Constant(); m && *m > 0) {
    // mod(k * mod(x, n*m) + y, m) = mod(k*x + y, m).
    std::vector<Term> others;
    Expr plain = 0;
    for (const Term& t : TermsOf(a)) {
      const bool is_mod = t.factors.size() == 1 && t.factors[0]->kind == Kind::kMod;
      const std::optional<int64_t> n = is_mod ? t.factors[0]->operands[1].Constant() : std::nullopt;
      if (n && *n % *m == 0) {
        plain = plain + Expr(t.coefficient) * t.factors[0]->operands[0];
      } else {
        others.push_back(t);
      }
    }
    if (others.size() < TermsOf(a).size()) return Mod(FromTerms(std::move(others)) + plain, b);
  }
  Division d = Divide(a, b);
  if (d.poison) return Expr::Poison();
  if (d.done) return d.scale * d.rest + d.offset;
  if (d.rest != a || d.divisor != b) return d.scale * Mod(d.rest, d.divisor) + d.offset;
  return FromAtom(MakeAtom(Kind::kMod, "", {a, b}));
}

Expr Min(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) return std::min(a.constant_, b.constant_);
  return Extremum(Kind::kMin, a, b);
}

Expr Max(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) return std::max(a.constant_, b.constant_);
  return Extremum(Kind::kMax, a, b);
}

Expr Product(absl::Span<const Expr> factors) {
  Expr product = 1;
  for (const Expr& factor : factors) product = product * factor;
  return product;
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return a.constant_ == b.constant_;
  if (a.node_ == nullptr || b.node_ == nullptr || a.node_->hash != b.node_->hash) return false;
  return Expr::StableCompare(a, b) == 0;
}

int Expr::StableCompare(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return Sign(a.constant_, b.constant_);
  if (a.node_ == nullptr || b.node_ == nullptr) return a.node_ == nullptr ? -1 : 1;
  if (a.node_->poison != b.node_->poison) return a.node_->poison ? 1 : -1;
  return CompareTermLists(a.node_->terms, b.node_->terms);
}

size_t Expr::HashCode() const { return node_ != nullptr ? node_->hash : absl::HashOf(constant_); }

Expr::View Expr::Decompose() const {
  View v;
  if (node_ == nullptr) {
    v.op = Op::kConstant;
    v.constant = constant_;
    return v;
  }
  if (node_->poison) {
    v.op = Op::kFloorDiv;
    v.operands = {Expr(1), Expr(0)};
    return v;
  }
  std::vector<Term> terms = node_->terms;
  if (terms.size() > 1) {
    Term last = std::move(terms.back());
    terms.pop_back();
    v.op = Op::kAdd;
    v.operands = {FromTerms(std::move(terms)), FromTerm(std::move(last))};
    return v;
  }
  Term& t = terms[0];
  if (t.coefficient != 1) {
    v.op = Op::kMul;
    v.operands = {Expr(t.coefficient), FromTerm(Term{1, std::move(t.factors)})};
    return v;
  }
  const AtomPtr last = t.factors.back();
  if (t.factors.size() > 1) {
    t.factors.pop_back();
    v.op = Op::kMul;
    v.operands = {FromTerm(std::move(t)), FromAtom(last)};
    return v;
  }
  switch (last->kind) {
    case Kind::kSymbol:
      v.op = Op::kSymbol;
      v.symbol = last->name;
      return v;
    case Kind::kFloorDiv:
      v.op = Op::kFloorDiv;
      break;
    case Kind::kMod:
      v.op = Op::kMod;
      break;
    case Kind::kMin:
      v.op = Op::kMin;
      break;
    case Kind::kMax:
      v.op = Op::kMax;
      break;
  }
  std::vector<Expr> operands = last->operands;
  if (operands.size() > 2) {
    Expr final = operands.back();
    operands.pop_back();
    v.operands = {FromAtom(MakeAtom(last->kind, "", std::move(operands))), std::move(final)};
  } else {
    v.operands = std::move(operands);
  }
  return v;
}

}  // namespace smelt
