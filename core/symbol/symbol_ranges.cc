// Derives facts about expressions from the ranges of symbols.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/symbol/expr_internal.h"

namespace smelt {

using namespace expr_internal;  // NOLINT: this file is part of its implementation

void SymbolRanges::Set(absl::string_view symbol, Range range) {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                             [](const auto& entry, absl::string_view name) { return entry.first < name; });
  if (it != entries_.end() && it->first == symbol) {
    it->second = range;
  } else {
    entries_.insert(it, {std::string(symbol), range});
  }
}

void SymbolRanges::Erase(absl::string_view symbol) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == symbol; });
}

SymbolRanges::Range SymbolRanges::Get(absl::string_view symbol) const {
  auto it = std::lower_bound(entries_.begin(), entries_.end(), symbol,
                             [](const auto& entry, absl::string_view name) { return entry.first < name; });
  return it != entries_.end() && it->first == symbol ? it->second : Range{};
}

SymbolRanges SymbolRanges::Accepted() const {
  SymbolRanges accepted = *this;
  for (auto& [name, range] : accepted.entries_) {
    if (range.accepted_min >= 0) range.min = std::min(range.min, range.accepted_min);
  }
  return accepted;
}

void SymbolRanges::SetNonZero(const Expr& e) {
  const std::vector<Term> terms = TermsOf(e);
  const bool is_atom = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  if (is_atom && terms[0].factors[0]->kind == Kind::kMax) {
    const std::vector<Expr>& operands = terms[0].factors[0]->operands;
    if (operands.size() == 2 && operands[0] == -operands[1]) return SetNonZero(operands[0]);
  }
  // Each is compared with all others; if a file holds thousands, no more than these are used.
  constexpr size_t kMost = 256;
  if (!e.IsConstant() && !e.IsPoison() && nonzero_.size() < kMost && !IsNonZero(e)) nonzero_.push_back(e);
}

bool SymbolRanges::IsNonZero(const Expr& e) const {
  if (nonzero_.empty()) return false;
  const Expr negated = -e;
  return std::any_of(nonzero_.begin(), nonzero_.end(),
                     [&](const Expr& known) { return known == e || known == negated; });
}

namespace {

using Range = SymbolRanges::Range;
constexpr int64_t kNegInf = INT64_MIN;
constexpr int64_t kPosInf = SymbolRanges::kInfinity;
constexpr Range kEverything{kNegInf, kPosInf};

// INT64_MIN and INT64_MAX stand for the infinities; a value outside int64 becomes one.
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
  // A lower bound of +inf comes from clamping: any finite value below it is sound.
  return Clamp(static_cast<__int128>(a) + b);
}

int64_t AddHigh(int64_t a, int64_t b) {
  if (a == kPosInf || b == kPosInf) return kPosInf;
  return Clamp(static_cast<__int128>(a) + b);
}

Range MulRange(Range a, Range b) {
  // A lower bound of +inf means "at least 2^63 - 1"; negated, it must not become "at most -2^63".
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

// Computes ranges of expressions from known ranges of atoms.
class Ranger {
 public:
  // accepted: over all values that a caller may pass.
  explicit Ranger(const SymbolRanges& ranges, bool accepted = false) : ranges_(ranges), accepted_(accepted) {}

  // Computes the range without refinements, which decide most questions.
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
  static constexpr absl::string_view kRemainder = "\x01remainder ";

  Range OfAtom(const AtomPtr& a, int depth) {
    if (a->kind == Kind::kSymbol) {
      if (absl::StartsWith(a->name, kRemainder)) return remainders_[std::stoul(a->name.substr(kRemainder.size()))];
      Range r = ranges_.Get(a->name);
      if (accepted_ && r.accepted_min >= 0) r.min = std::min(r.min, r.accepted_min);
      return r;
    }
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
        // The divisor is positive: the quotient grows with the dividend, and a larger divisor brings it closer to 0 (or
        // -1).
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

  // Writes every atom as its lower bound plus something non-negative: s0*s1 - s0 with s1 >= 2 is s0*t + s0 >= 0, which
  // the intervals of the terms alone do not show.
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

  // Computes the range of m * e with m*floordiv(x, m) written as x - mod(x, m): s0 - floordiv(s0, 2) >= 0.
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
    // The remainder gets a name that no symbol of a model has: as mod(x, m) it would be turned into a quotient again.
    const Range below = Of(Mod(found->operands[0], m), depth + 1);
    const Expr remainder = Expr::Symbol(absl::StrCat(kRemainder, remainders_.size()));
    remainders_.push_back(below);
    const Expr replacement = found->operands[0] - remainder;
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

  // min(a, b) is a or b: the range is within the union of the two cases and, on the side that min bounds, within both.
  Range ByCases(const Expr& e, int depth) {
    const Expr::Node* n = NodeOf(e);
    AtomPtr found;
    for (const Term& t : n->terms) {
      for (const AtomPtr& f : t.factors) {
        if (f->kind == Kind::kMin || f->kind == Kind::kMax) found = f;
      }
    }
    if (found == nullptr) return kEverything;
    // The sign of its coefficient, if it occurs linearly.
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
    // e <= each case: a min with a positive coefficient, or a max with a negative one.
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
  const bool accepted_;
  int budget_ = 12;  // refinements: each asks for several ranges
  std::vector<std::pair<AtomPtr, Range>> known_;
  std::vector<Range> remainders_;  // of WithoutFloorDiv's symbols
};

std::optional<bool> LessOrEqualOver(const SymbolRanges& ranges, bool accepted, const Expr& a, const Expr& b) {
  if (AnyPoison(a, b)) return std::nullopt;
  const Expr difference = b - a;
  if (difference.IsPoison()) return std::nullopt;
  for (bool quick : {true, false}) {
    Ranger ranger(ranges, accepted);
    const Range r = quick ? ranger.Quick(difference) : ranger.Of(difference, 0);
    if (r.min >= 0) return true;
    if (r.max < 0) return false;
  }
  return std::nullopt;
}

}  // namespace

SymbolRanges::Range SymbolRanges::Of(const Expr& e) const { return Ranger(*this).Of(e, 0); }

// Over the accepted values: a term that is left out of a size would be missing in a call with a size of 1.
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
          if (AlwaysLessOrEqual(min ? k : o, min ? o : k) == true) {
            dominated = true;
          } else if (AlwaysLessOrEqual(min ? o : k, min ? k : o) == true) {
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
    const Range r = Ranger(*this, /*accepted=*/true).Of(plain, 0);
    if (r.min == r.max && IsFinite(r.min)) return Expr(r.min);
    if (a.kind == Kind::kMod && AlwaysLessOrEqual(0, dividend) == true &&
        AlwaysLessOrEqual(dividend + 1, divisor) == true)
      return dividend;
    if (a.kind == Kind::kFloorDiv && AlwaysLessOrEqual(0, dividend) == true &&
        AlwaysLessOrEqual(dividend + 1, divisor) == true)
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
  if (IsNonZero(difference)) return false;
  // All coefficients except the constant have a common divisor that does not divide the constant: 2*s0 is never 3.
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
  // s0 - max(s0 - 4, 0) is 4 if s0 is at least 4: the case that never occurs is left out.
  const Expr simple = Simplify(difference);
  if (simple != difference && !simple.IsPoison()) return Equal(simple, 0);
  return std::nullopt;
}

std::optional<bool> SymbolRanges::LessOrEqual(const Expr& a, const Expr& b) const {
  const std::optional<bool> known = LessOrEqualOver(*this, /*accepted=*/false, a, b);
  if (known || nonzero_.empty() || AnyPoison(a, b)) return known;
  // b - a is at most 0 and not 0, or is at least -1 and not -1.
  const Expr difference = b - a;
  if (IsNonZero(difference) && LessOrEqualOver(*this, /*accepted=*/false, difference, 0) == true) return false;
  if (IsNonZero(difference + 1) && LessOrEqualOver(*this, /*accepted=*/false, -1, difference) == true) return true;
  return std::nullopt;
}

std::optional<bool> SymbolRanges::AlwaysLessOrEqual(const Expr& a, const Expr& b) const {
  return LessOrEqualOver(*this, /*accepted=*/true, a, b);
}

std::optional<bool> SymbolRanges::Less(const Expr& a, const Expr& b) const {
  std::optional<bool> reverse = LessOrEqual(b, a);
  if (!reverse.has_value()) return std::nullopt;
  return !*reverse;
}

}  // namespace smelt
