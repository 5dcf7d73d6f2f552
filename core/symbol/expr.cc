#include "smelt/core/symbol/expr.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace smelt {
namespace {

// Beyond these an expression is poison: no tensor's size looks like that, and a hostile file must not cost more.
constexpr size_t kMaxTerms = 2048;
constexpr int64_t kMaxTreeSize = 1 << 16;
constexpr int kMaxDepth = 200;

enum class Kind { kSymbol, kFloorDiv, kMod, kMin, kMax };

// What a product is made of: a symbol, or a function that did not simplify away. kMin and kMax have 2 or more operands,
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

int64_t FloorDivide(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

}  // namespace

// The terms of a polynomial, sorted by CompareTerms, none zero, at least one not constant. Or poison, without terms.
struct Expr::Node {
  std::vector<Term> terms;
  bool poison = false;
  size_t hash = 0;
  int64_t tree_size = 1;
  int depth = 0;
};

Expr::Expr(std::shared_ptr<const Node> node) : constant_(0), node_(std::move(node)) {}

struct ExprAccess {
  static const Expr::Node* NodeOf(const Expr& e) { return e.node_.get(); }
  static Expr Make(std::shared_ptr<const Expr::Node> node) { return Expr(std::move(node)); }
  static int64_t Constant(const Expr& e) { return e.constant_; }
};

namespace {

const Expr::Node* NodeOf(const Expr& e) { return ExprAccess::NodeOf(e); }

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

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

std::vector<Term> TermsOf(const Expr& e) {
  if (const Expr::Node* n = NodeOf(e)) return n->terms;
  if (int64_t c = ExprAccess::Constant(e); c != 0) return {Term{c, {}}};
  return {};
}

// The constant term and whether there are others.
int64_t ConstantTerm(const std::vector<Term>& terms) {
  return !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
}

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

// From sorted, merged terms.
Expr FromTerms(std::vector<Term> terms) {
  if (terms.empty()) return Expr(0);
  if (terms.size() == 1 && terms[0].factors.empty()) return Expr(terms[0].coefficient);
  if (terms.size() > kMaxTerms) return Expr::Poison();
  auto node = std::make_shared<Expr::Node>();
  size_t hash = terms.size();
  for (const Term& t : terms) {
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

Expr FromAtom(AtomPtr atom) { return FromTerm(Term{1, {std::move(atom)}}); }

// Sorts and merges. False on overflow.
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

// a / b as multisets; nullopt if b is not contained in a.
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

// k * mod(x, m) * rest + k * m * floordiv(x, m) * rest is k * x * rest. Returns whether it changed something.
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
  return FromTerms(std::move(terms));
}

bool AnyPoison(const Expr& a, const Expr& b) { return a.IsPoison() || b.IsPoison(); }

// What holds whatever the symbols are: mod(x, m) is in [0, m - 1] for a constant m. nullopt if unbounded.
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

uint64_t Magnitude(int64_t v) { return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

// floordiv(a, b) = quotient + floordiv(rest, divisor) and mod(a, b) = scale * mod(rest, divisor) + offset, as far as it
// simplifies; `done`: floordiv(rest, divisor) is 0 and mod(rest, divisor) is rest.
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
  d.quotient = FromTerms(std::move(quotient));
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
  d.rest = FromTerms(std::move(rest));
  d.poison = d.rest.IsPoison() || d.quotient.IsPoison();
  return d;
}

// Exact division of polynomials: q with q * b == a, or nullopt.
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

// What all terms of both have in common, as a monomial.
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
  // A common factor goes: floordiv(g*a, g*b) = floordiv(a, b), mod(g*a, g*b) = g * mod(a, b).
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
  // The terms that a monomial divisor divides come out.
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

// Min or max of the operands of both.
Expr Extremum(Kind kind, const Expr& a, const Expr& b) {
  if (AnyPoison(a, b)) return Expr::Poison();
  std::vector<Expr> all;
  for (const Expr* e : {&a, &b}) {
    const std::vector<Term> terms = TermsOf(*e);
    if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
        terms[0].factors[0]->kind == kind) {
      const std::vector<Expr>& inner = terms[0].factors[0]->operands;
      all.insert(all.end(), inner.begin(), inner.end());
    } else {
      all.push_back(*e);
    }
  }
  // An operand goes if another one is never on its wrong side.
  std::vector<Expr> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    bool dominated = false;
    for (size_t j = 0; j < all.size() && !dominated; ++j) {
      if (i == j) continue;
      const Expr difference = kind == Kind::kMin ? all[i] - all[j] : all[j] - all[i];
      if (difference.IsPoison()) continue;
      std::optional<std::pair<__int128, __int128>> range = UniversalRange(TermsOf(difference));
      // Equal ones: the first stays.
      if (range.has_value() && range->first >= 0 && !(difference == Expr(0) && i < j)) {
        // Of two that dominate each other (equal in value, unequal in form) keep the first as well.
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
  // In 128 bits, so that s0*s1 - s0*(s1 - 1) does not fail where only a part of it is large.
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

namespace {

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

// Replaces the atoms for which `replace` gives something, outermost first, and rebuilds what contains them.
Expr Rebuild(const Expr& e, const std::function<std::optional<Expr>(const Atom&)>& replace) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr || n->poison) return e;
  Expr sum = 0;
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
      sum = sum + product * FromTerm(Term{1, same});
    } else {
      untouched.push_back(t);
    }
  }
  return sum + FromTerms(std::move(untouched));
}

}  // namespace

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
  return d.quotient + FromAtom(MakeAtom(Kind::kFloorDiv, "", {d.rest, d.divisor}));
}

Expr Mod(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) {
    if (b.constant_ == 0) return Expr::Poison();
    return FloorModulo(a.constant_, b.constant_);
  }
  Division d = Divide(a, b);
  if (d.poison) return Expr::Poison();
  if (d.done) return d.scale * d.rest + d.offset;
  return d.scale * FromAtom(MakeAtom(Kind::kMod, "", {d.rest, d.divisor})) + d.offset;
}

Expr Min(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) return std::min(a.constant_, b.constant_);
  return Extremum(Kind::kMin, a, b);
}

Expr Max(const Expr& a, const Expr& b) {
  if (a.IsConstant() && b.IsConstant()) return std::max(a.constant_, b.constant_);
  return Extremum(Kind::kMax, a, b);
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

namespace {

void AppendExpr(const Expr& e, std::string& out);

void AppendAtom(const Atom& a, std::string& out) {
  switch (a.kind) {
    case Kind::kSymbol:
      out += a.name;
      return;
    case Kind::kFloorDiv:
      out += "floordiv(";
      break;
    case Kind::kMod:
      out += "mod(";
      break;
    case Kind::kMin:
      out += "min(";
      break;
    case Kind::kMax:
      out += "max(";
      break;
  }
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (i > 0) out += ", ";
    AppendExpr(a.operands[i], out);
  }
  out += ")";
}

void AppendExpr(const Expr& e, std::string& out) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr) {
    absl::StrAppend(&out, ExprAccess::Constant(e));
    return;
  }
  if (n->poison) {
    out += "poison";
    return;
  }
  bool first = true;
  for (const Term& t : n->terms) {
    const bool negative = t.coefficient < 0;
    if (!first) {
      out += negative ? " - " : " + ";
    } else if (negative) {
      out += "-";
    }
    first = false;
    const uint64_t magnitude = Magnitude(t.coefficient);
    const bool print_coefficient = magnitude != 1 || t.factors.empty();
    if (print_coefficient) absl::StrAppend(&out, magnitude);
    for (size_t i = 0; i < t.factors.size(); ++i) {
      if (i > 0 || print_coefficient) out += "*";
      AppendAtom(*t.factors[i], out);
    }
  }
}

// sum := product (('+' | '-') product)*   product := unary ('*' unary)*   unary := '-' unary | primary
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Expr> Run() {
    absl::StatusOr<Expr> e = Sum();
    if (!e.ok()) return e;
    SkipSpace();
    if (at_ != text_.size()) return Error("expected an operator or the end");
    return e;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("expression \"", text_.substr(0, 200), "\", column ", at_ + 1, ": ", what));
  }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::StatusOr<Expr> Sum() {
    absl::StatusOr<Expr> left = Product();
    while (left.ok()) {
      const bool plus = Take('+');
      if (!plus && !Take('-')) return left;
      absl::StatusOr<Expr> right = Product();
      if (!right.ok()) return right;
      left = plus ? *left + *right : *left - *right;
    }
    return left;
  }

  absl::StatusOr<Expr> Product() {
    absl::StatusOr<Expr> left = Unary();
    while (left.ok() && Take('*')) {
      absl::StatusOr<Expr> right = Unary();
      if (!right.ok()) return right;
      left = *left * *right;
    }
    return left;
  }

  absl::StatusOr<Expr> Unary() {
    if (depth_ >= kMaxDepth) return Error("nested too deeply");
    ++depth_;
    absl::StatusOr<Expr> result = Take('-') ? Negated() : Primary();
    --depth_;
    return result;
  }

  absl::StatusOr<Expr> Negated() {
    SkipSpace();
    // -9223372036854775808 is a number; 9223372036854775808 is not.
    if (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) return Number(/*negative=*/true);
    absl::StatusOr<Expr> e = Unary();
    if (!e.ok()) return e;
    return -*e;
  }

  absl::StatusOr<Expr> Number(bool negative) {
    std::string digits = negative ? "-" : "";
    const size_t begin = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_])) digits += text_[at_++];
    int64_t value;
    if (!absl::SimpleAtoi(digits, &value)) {
      at_ = begin;
      return Error("the number is not an int64");
    }
    return Expr(value);
  }

  absl::StatusOr<Expr> Primary() {
    SkipSpace();
    if (at_ >= text_.size()) return Error("expected a number, a symbol, a function or a parenthesis");
    const char c = text_[at_];
    if (absl::ascii_isdigit(c)) return Number(/*negative=*/false);
    if (Take('(')) {
      absl::StatusOr<Expr> e = Sum();
      if (e.ok() && !Take(')')) return Error("expected ')'");
      return e;
    }
    if (!absl::ascii_isalpha(c) && c != '_') return Error("expected a number, a symbol, a function or a parenthesis");
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    const absl::string_view name = text_.substr(begin, at_ - begin);
    if (!Take('(')) return name == "poison" ? Expr::Poison() : Expr::Symbol(name);
    Kind kind;
    if (name == "floordiv") {
      kind = Kind::kFloorDiv;
    } else if (name == "mod") {
      kind = Kind::kMod;
    } else if (name == "min") {
      kind = Kind::kMin;
    } else if (name == "max") {
      kind = Kind::kMax;
    } else {
      at_ = begin;
      return Error(absl::StrCat("unknown function \"", name, "\"; there are floordiv, mod, min, max"));
    }
    std::vector<Expr> operands;
    do {
      absl::StatusOr<Expr> e = Sum();
      if (!e.ok()) return e;
      operands.push_back(*std::move(e));
    } while (Take(','));
    if (!Take(')')) return Error("expected ',' or ')'");
    const bool any_number = kind == Kind::kMin || kind == Kind::kMax;
    if (operands.size() < 2 || (operands.size() > 2 && !any_number)) {
      return Error(absl::StrCat(name, " has ", operands.size(), " arguments, expected 2"));
    }
    return Apply(kind, operands);
  }

  absl::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Expr::ToString() const {
  std::string out;
  AppendExpr(*this, out);
  return out;
}

absl::StatusOr<Expr> Expr::Parse(absl::string_view text) { return Parser(text).Run(); }

void SymbolRanges::Set(absl::string_view symbol, Range range) {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                             [](const auto& entry, absl::string_view name) { return entry.first < name; });
  if (it != entries_.end() && it->first == symbol) {
    it->second = range;
  } else {
    entries_.insert(it, {std::string(symbol), range});
  }
}

SymbolRanges::Range SymbolRanges::Get(absl::string_view symbol) const {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                             [](const auto& entry, absl::string_view name) { return entry.first < name; });
  return it != entries_.end() && it->first == symbol ? it->second : Range{};
}

namespace {

using Range = SymbolRanges::Range;
constexpr int64_t kNegInf = INT64_MIN;
constexpr int64_t kPosInf = SymbolRanges::kInfinity;
constexpr Range kEverything{kNegInf, kPosInf};

// INT64_MIN and INT64_MAX stand for the infinities; what leaves int64 becomes one.
int64_t Clamp(__int128 v) {
  if (v <= kNegInf) return kNegInf;
  if (v >= kPosInf) return kPosInf;
  return static_cast<int64_t>(v);
}

int64_t MulBound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const bool infinite = a == kNegInf || a == kPosInf || b == kNegInf || b == kPosInf;
  if (infinite) return (a < 0) != (b < 0) ? kNegInf : kPosInf;
  return Clamp(static_cast<__int128>(a) * b);
}

int64_t AddLow(int64_t a, int64_t b) {
  if (a == kNegInf || b == kNegInf) return kNegInf;
  // +inf as a lower bound was reached by clamping: any finite value below it is sound.
  return Clamp(static_cast<__int128>(a) + b);
}

int64_t AddHigh(int64_t a, int64_t b) {
  if (a == kPosInf || b == kPosInf) return kPosInf;
  return Clamp(static_cast<__int128>(a) + b);
}

Range MulRange(Range a, Range b) {
  // A lower bound of +inf says "at least 2^63 - 1"; negated, that must not become "at most -2^63".
  for (Range* r : {&a, &b}) {
    r->min = std::min(r->min, kPosInf - 1);
    r->max = std::max(r->max, kNegInf + 1);
  }
  const int64_t c[] = {MulBound(a.min, b.min), MulBound(a.min, b.max), MulBound(a.max, b.min), MulBound(a.max, b.max)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

Range Intersect(Range a, Range b) { return {std::max(a.min, b.min), std::min(a.max, b.max)}; }

bool IsFinite(int64_t v) { return v != kNegInf && v != kPosInf; }

bool Contains(const Expr& e, const AtomPtr& atom) {
  const Expr::Node* n = NodeOf(e);
  if (n == nullptr) return false;
  for (const Term& t : n->terms) {
    for (const AtomPtr& f : t.factors) {
      if (CompareAtoms(f, atom) == 0) return true;
      for (const Expr& o : f->operands) {
        if (Contains(o, atom)) return true;
      }
    }
  }
  return false;
}

// Ranges of expressions over known ranges of atoms.
class Ranger {
 public:
  explicit Ranger(const SymbolRanges& ranges) : ranges_(ranges) {}

  // Without refinements: most questions are decided by this.
  Range Quick(const Expr& e) { return Of(e, kMaxRefine); }

  Range Of(const Expr& e, int depth) {
    if (e.IsConstant()) return {*e.Constant(), *e.Constant()};
    const Expr::Node* n = NodeOf(e);
    if (n->poison) return kEverything;
    Range r = OfTerms(n->terms, depth);
    if (n->terms.size() > 1) r = Intersect(r, OfShifted(e, depth));
    if (depth < kMaxRefine && budget_-- > 0 && n->terms.size() > 1 && n->terms.size() <= 16) {
      r = Intersect(r, WithoutFloorDiv(e, depth));
      r = Intersect(r, ByCases(e, depth));
    }
    return r;
  }

 private:
  static constexpr int kMaxRefine = 3;

  Range OfAtom(const AtomPtr& a, int depth) {
    if (a->kind == Kind::kSymbol) return ranges_.Get(a->name);
    for (const auto& [atom, range] : known_) {
      if (atom == a) return range;
    }
    const Range range = OfFunction(*a, depth);
    known_.push_back({a, range});
    return range;
  }

  Range OfFunction(const Atom& a, int depth) {
    std::vector<Range> r;
    for (const Expr& o : a.operands) r.push_back(Of(o, depth + 1));
    switch (a.kind) {
      case Kind::kMin:
      case Kind::kMax: {
        Range out = r[0];
        for (const Range& x : r) {
          out.min = a.kind == Kind::kMin ? std::min(out.min, x.min) : std::max(out.min, x.min);
          out.max = a.kind == Kind::kMin ? std::min(out.max, x.max) : std::max(out.max, x.max);
        }
        return out;
      }
      case Kind::kMod:
        if (r[1].min > 0) {
          if (r[0].min >= 0 && r[0].max < r[1].min) return r[0];
          const int64_t top = r[1].max == kPosInf ? kPosInf : r[1].max - 1;
          return {0, r[0].min >= 0 ? std::min(top, r[0].max) : top};
        }
        if (r[1].max < 0) return {r[1].min == kNegInf ? kNegInf : r[1].min + 1, 0};
        return kEverything;
      case Kind::kFloorDiv: {
        if (r[1].min <= 0) return kEverything;
        // The divisor is positive: the quotient grows with the dividend; the divisor pulls it towards 0 (or -1).
        Range out;
        if (r[0].min == kNegInf) {
          out.min = kNegInf;
        } else {
          const int64_t d = r[0].min >= 0 ? r[1].max : r[1].min;
          out.min = d == kPosInf ? (r[0].min >= 0 ? 0 : -1) : FloorDivide(r[0].min, d);
        }
        if (r[0].max == kPosInf) {
          out.max = kPosInf;
        } else {
          const int64_t d = r[0].max >= 0 ? r[1].min : r[1].max;
          out.max = d == kPosInf ? -1 : FloorDivide(r[0].max, d);
        }
        return out;
      }
      default:
        return kEverything;
    }
  }

  Range OfTerms(const std::vector<Term>& terms, int depth) {
    Range sum{0, 0};
    for (const Term& t : terms) {
      Range product{t.coefficient, t.coefficient};
      for (size_t i = 0; i < t.factors.size();) {
        size_t power = 1;
        while (i + power < t.factors.size() && CompareAtoms(t.factors[i], t.factors[i + power]) == 0) ++power;
        const Range f = OfAtom(t.factors[i], depth);
        Range factor{1, 1};
        for (size_t k = 0; k < power; ++k) factor = MulRange(factor, f);
        if (power % 2 == 0) factor.min = std::max<int64_t>(factor.min, 0);
        product = MulRange(product, factor);
        i += power;
      }
      sum = {AddLow(sum.min, product.min), AddHigh(sum.max, product.max)};
    }
    return sum;
  }

  // With every atom written as its lower bound plus something non-negative: s0*s1 - s0 with s1 >= 2 is s0*t + s0 >= 0,
  // which the intervals of the terms alone cannot see.
  Range OfShifted(const Expr& e, int depth) {
    bool changed = false;
    SymbolRanges shifted;
    int count = 0;
    // Names that no symbol of a model has.
    std::vector<std::pair<const Atom*, Expr>> done;
    const Expr::Node* n = NodeOf(e);
    Expr sum = 0;
    for (const Term& t : n->terms) {
      Expr product = t.coefficient;
      for (const AtomPtr& f : t.factors) {
        const Expr* found = nullptr;
        for (const auto& [atom, replacement] : done) {
          if (atom == f.get() || CompareAtoms(AtomPtr(AtomPtr(), atom), f) == 0) found = &replacement;
        }
        if (found == nullptr) {
          const Range r = OfAtom(f, depth);
          const std::string name = absl::StrCat("\x01", count++);
          Expr replacement = Expr::Symbol(name);
          if (IsFinite(r.min)) {
            changed |= r.min != 0;
            shifted.Set(name, {0, r.max == kPosInf ? kPosInf : Clamp(static_cast<__int128>(r.max) - r.min)});
            replacement = replacement + Expr(r.min);
          } else {
            shifted.Set(name, r);
          }
          done.push_back({f.get(), std::move(replacement)});
          found = &done.back().second;
        }
        product = product * *found;
      }
      sum = sum + product;
      if (sum.IsPoison()) return kEverything;
    }
    if (!changed) return kEverything;
    if (sum.IsConstant()) return {*sum.Constant(), *sum.Constant()};
    return Ranger(shifted).OfTerms(NodeOf(sum)->terms, depth);
  }

  // m * e with m*floordiv(x, m) written as x - mod(x, m): s0 - floordiv(s0, 2) >= 0.
  Range WithoutFloorDiv(const Expr& e, int depth) {
    const Expr::Node* n = NodeOf(e);
    AtomPtr found;
    for (const Term& t : n->terms) {
      for (const AtomPtr& f : t.factors) {
        if (f->kind == Kind::kFloorDiv && f->operands[1].IsConstant()) found = f;
      }
    }
    if (found == nullptr) return kEverything;
    const int64_t m = *found->operands[1].Constant();
    if (m <= 0) return kEverything;
    const Expr replacement = found->operands[0] - Mod(found->operands[0], m);
    Expr sum = 0;
    for (const Term& t : n->terms) {
      int uses = 0;
      std::vector<AtomPtr> rest;
      for (const AtomPtr& f : t.factors) {
        if (CompareAtoms(f, found) == 0) {
          ++uses;
        } else {
          rest.push_back(f);
        }
      }
      if (uses > 1) return kEverything;
      const Expr r = FromTerm(Term{t.coefficient, rest});
      sum = sum + (uses == 1 ? r * replacement : r * Expr(m));
      if (sum.IsPoison()) return kEverything;
    }
    const Range r = Of(sum, depth + 1);
    Range out = kEverything;
    if (IsFinite(r.min)) out.min = -FloorDivide(-r.min, m);
    if (IsFinite(r.max)) out.max = FloorDivide(r.max, m);
    return out;
  }

  // min(a, b) is a or b: the range is within the union of the two cases, and on the side where min bounds, either
  // holds.
  Range ByCases(const Expr& e, int depth) {
    const Expr::Node* n = NodeOf(e);
    AtomPtr found;
    for (const Term& t : n->terms) {
      for (const AtomPtr& f : t.factors) {
        if (f->kind == Kind::kMin || f->kind == Kind::kMax) found = f;
      }
    }
    if (found == nullptr) return kEverything;
    // The sign with which it enters, if it does so linearly.
    std::optional<bool> positive;
    bool linear = true;
    for (const Term& t : n->terms) {
      std::vector<AtomPtr> rest;
      for (const AtomPtr& f : t.factors) {
        if (CompareAtoms(f, found) != 0) rest.push_back(f);
      }
      const size_t uses = t.factors.size() - rest.size();
      for (const AtomPtr& f : rest) {
        for (const Expr& o : f->operands) linear &= !Contains(o, found);
      }
      if (uses == 0) continue;
      const Range c = OfTerms({Term{t.coefficient, rest}}, depth);
      if (uses > 1 || (c.min < 0 && c.max > 0)) linear = false;
      const bool sign = c.min >= 0;
      if (positive.has_value() && *positive != sign) linear = false;
      positive = sign;
    }
    // e <= each case: a min that enters positively, or a max that enters negatively.
    const bool below = linear && (*positive == (found->kind == Kind::kMin));
    const bool above = linear && (*positive == (found->kind == Kind::kMax));
    std::optional<Range> out;
    for (const Expr& operand : found->operands) {
      const Expr with = Rebuild(e, [&](const Atom& a) -> std::optional<Expr> {
        if (a.kind == found->kind && CompareAtoms(AtomPtr(AtomPtr(), &a), found) == 0) return operand;
        return std::nullopt;
      });
      if (with.IsPoison()) return kEverything;
      const Range r = Of(with, depth + 1);
      if (!out.has_value()) {
        out = r;
        continue;
      }
      out->min = above ? std::max(out->min, r.min) : std::min(out->min, r.min);
      out->max = below ? std::min(out->max, r.max) : std::max(out->max, r.max);
    }
    return *out;
  }

  const SymbolRanges& ranges_;
  int budget_ = 12;  // refinements: each asks for several ranges
  std::vector<std::pair<AtomPtr, Range>> known_;
};

}  // namespace

SymbolRanges::Range SymbolRanges::Of(const Expr& e) const { return Ranger(*this).Of(e, 0); }

Expr SymbolRanges::Simplify(const Expr& e) const {
  return Rebuild(e, [this](const Atom& a) -> std::optional<Expr> {
    if (a.kind == Kind::kSymbol) {
      const Range r = Get(a.name);
      if (r.min == r.max && IsFinite(r.min)) return Expr(r.min);
      return std::nullopt;
    }
    std::vector<Expr> operands;
    for (const Expr& o : a.operands) operands.push_back(Simplify(o));
    if (a.kind == Kind::kMin || a.kind == Kind::kMax) {
      std::vector<Expr> kept;
      for (const Expr& o : operands) {
        bool dominated = false;
        for (Expr& k : kept) {
          const bool min = a.kind == Kind::kMin;
          if (LessOrEqual(min ? k : o, min ? o : k) == true) {
            dominated = true;
          } else if (LessOrEqual(min ? o : k, min ? k : o) == true) {
            k = o;
            dominated = true;
          }
        }
        if (!dominated) kept.push_back(o);
      }
      return Apply(a.kind, kept);
    }
    const Expr& dividend = operands[0];
    const Expr& divisor = operands[1];
    const Expr plain = Apply(a.kind, operands);
    if (plain.IsPoison()) return plain;
    const Range r = Of(plain);
    if (r.min == r.max && IsFinite(r.min)) return Expr(r.min);
    if (a.kind == Kind::kMod && LessOrEqual(0, dividend) == true && Less(dividend, divisor) == true) return dividend;
    if (a.kind == Kind::kFloorDiv && LessOrEqual(0, dividend) == true && Less(dividend, divisor) == true)
      return Expr(0);
    return plain;
  });
}

std::optional<bool> SymbolRanges::Equal(const Expr& a, const Expr& b) const {
  if (AnyPoison(a, b)) return std::nullopt;
  if (a == b) return true;
  const Expr difference = a - b;
  if (difference.IsPoison()) return std::nullopt;
  if (std::optional<int64_t> c = difference.Constant()) return *c == 0;
  // All coefficients but the constant's have a common divisor that the constant lacks: 2*s0 is never 3.
  const std::vector<Term> terms = TermsOf(difference);
  uint64_t gcd = 0;
  for (const Term& t : terms) {
    if (!t.factors.empty()) gcd = std::gcd(gcd, Magnitude(t.coefficient));
  }
  if (gcd > 1 && Magnitude(ConstantTerm(terms)) % gcd != 0) return false;
  for (bool quick : {true, false}) {
    const Range r = quick ? Ranger(*this).Quick(difference) : Of(difference);
    if (r.min > 0 || r.max < 0) return false;
    if (r.min == 0 && r.max == 0) return true;
  }
  return std::nullopt;
}

std::optional<bool> SymbolRanges::LessOrEqual(const Expr& a, const Expr& b) const {
  if (AnyPoison(a, b)) return std::nullopt;
  const Expr difference = b - a;
  if (difference.IsPoison()) return std::nullopt;
  for (bool quick : {true, false}) {
    const Range r = quick ? Ranger(*this).Quick(difference) : Of(difference);
    if (r.min >= 0) return true;
    if (r.max < 0) return false;
  }
  return std::nullopt;
}

std::optional<bool> SymbolRanges::Less(const Expr& a, const Expr& b) const {
  std::optional<bool> reverse = LessOrEqual(b, a);
  if (!reverse.has_value()) return std::nullopt;
  return !*reverse;
}

}  // namespace smelt
