#include "smelt/core/tensor/region.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using Tri = std::optional<bool>;

bool IsTrue(Tri t) { return t == true; }
bool IsFalse(Tri t) { return t == false; }
Tri And(Tri a, Tri b) {
  if (IsFalse(a) || IsFalse(b)) return false;
  if (IsTrue(a) && IsTrue(b)) return true;
  return std::nullopt;
}

bool AnyPoison(const Region& r) {
  if (r.offset().IsPoison()) return true;
  for (const Expr& e : r.sizes()) {
    if (e.IsPoison()) return true;
  }
  for (const Expr& e : r.strides()) {
    if (e.IsPoison()) return true;
  }
  return false;
}

std::optional<Geometry> Concrete(const Region& r) {
  Geometry g;
  std::optional<int64_t> offset = r.offset().Constant();
  if (!offset.has_value()) return std::nullopt;
  g.offset = *offset;
  for (size_t d = 0; d < r.sizes().size(); ++d) {
    std::optional<int64_t> size = r.sizes()[d].Constant(), stride = r.strides()[d].Constant();
    if (!size.has_value() || !stride.has_value()) return std::nullopt;
    g.sizes.push_back(*size);
    g.strides.push_back(*stride);
  }
  return g;
}

// Returns whether they are equal up to dims of size 1, for all values.
bool SameElements(const Region& a, const Region& b, const SymbolRanges& ranges) {
  if (a.item_bytes() != b.item_bytes() || !IsTrue(ranges.Equal(a.offset(), b.offset()))) return false;
  size_t i = 0, j = 0;
  for (;;) {
    while (i < a.sizes().size() && IsTrue(ranges.Equal(a.sizes()[i], 1))) ++i;
    while (j < b.sizes().size() && IsTrue(ranges.Equal(b.sizes()[j], 1))) ++j;
    if (i == a.sizes().size() || j == b.sizes().size()) return i == a.sizes().size() && j == b.sizes().size();
    if (!IsTrue(ranges.Equal(a.sizes()[i], b.sizes()[j])) || !IsTrue(ranges.Equal(a.strides()[i], b.strides()[j]))) {
      return false;
    }
    ++i;
    ++j;
  }
}

// coefficient * x with 0 <= x <= last; coefficient >= 0.
struct Term {
  Expr coefficient, last;
};

// The addresses low + sum(terms), in units.
struct Terms {
  Expr low;
  std::vector<Term> terms;
};

// Returns nullopt if the sign of a stride is not known.
std::optional<Terms> TermsOf(const Region& r, int64_t scale, const SymbolRanges& ranges) {
  Terms out;
  out.low = ranges.Simplify(r.offset()) * Expr(scale);
  for (size_t d = 0; d < r.sizes().size(); ++d) {
    const Expr last = ranges.Simplify(r.sizes()[d]) - Expr(1);
    Expr stride = ranges.Simplify(r.strides()[d]) * Expr(scale);
    if (IsTrue(ranges.Equal(last, 0)) || IsTrue(ranges.Equal(stride, 0))) continue;
    if (!IsTrue(ranges.LessOrEqual(0, stride))) {
      if (!IsTrue(ranges.LessOrEqual(stride, 0))) return std::nullopt;
      out.low = out.low + stride * last;
      stride = -stride;
    }
    out.terms.push_back({std::move(stride), last});
  }
  if (scale > 1) out.terms.push_back({1, scale - 1});
  return out;
}

// Sorts the largest first, as far as that is known (any order is correct), and merges equal coefficients.
std::vector<Term> Sorted(const std::vector<Term>& terms, const SymbolRanges& ranges) {
  std::vector<Term> out;
  for (const Term& t : terms) {
    auto same = std::find_if(out.begin(), out.end(),
                             [&](const Term& o) { return IsTrue(ranges.Equal(o.coefficient, t.coefficient)); });
    if (same != out.end()) {
      same->last = same->last + t.last;
      continue;
    }
    auto at = out.end();
    while (at != out.begin() && IsTrue(ranges.Less(std::prev(at)->coefficient, t.coefficient))) --at;
    out.insert(at, t);
  }
  return out;
}

// The same search as for numbers (region_concrete.cc), with three-valued answers.
class Search {
 public:
  Search(std::vector<Term> terms, const SymbolRanges& ranges) : terms_(std::move(terms)), ranges_(ranges) {
    reach_.resize(terms_.size() + 1, 0);
    full_.resize(terms_.size() + 1, false);
    bool full = true;
    for (size_t k = terms_.size(); k-- > 0;) {
      const Term& t = terms_[k];
      if (k + 1 < terms_.size()) {
        const Expr& smallest = terms_.back().coefficient;
        full = full && IsTrue(ranges_.Less(0, smallest)) && IsTrue(ranges_.Equal(Mod(t.coefficient, smallest), 0)) &&
               IsTrue(ranges_.LessOrEqual(t.coefficient - smallest, reach_[k + 1]));
      } else {
        full = IsTrue(ranges_.Less(0, t.coefficient));
      }
      reach_[k] = reach_[k + 1] + t.coefficient * t.last;
      full_[k] = full;
    }
  }

  Tri Reaches(const Expr& distance, size_t k = 0) {
    if (distance.IsPoison() || reach_[k].IsPoison()) return std::nullopt;
    if (budget_ < 0) return std::nullopt;
    budget_ -= 40 + static_cast<int>(distance.ToString().size());
    if (k == terms_.size()) return ranges_.Equal(distance, 0);
    const Tri from_zero = ranges_.LessOrEqual(0, distance), within = ranges_.LessOrEqual(distance, reach_[k]);
    if (IsFalse(from_zero) || IsFalse(within) || NeverCongruent(distance, k)) return false;
    const Term& t = terms_[k];
    if (full_[k]) {
      const Tri divides = ranges_.Equal(Mod(distance, terms_.back().coefficient), 0);
      return And(And(from_zero, within), divides);
    }
    const std::optional<int64_t> last = t.last.Constant();
    if (last.has_value() && *last <= kSmall) {
      Tri answer = false;
      for (int64_t x = 0; x <= *last; ++x) {
        Or(answer, Reaches(Simple(distance - t.coefficient * Expr(x)), k + 1));
        if (IsTrue(answer)) break;
      }
      return answer;
    }
    if (!IsTrue(ranges_.Less(0, t.coefficient))) return std::nullopt;
    // The index is the quotient, or slightly less if the smaller terms reach further than one step of this dim.
    const Expr quotient = Simple(FloorDiv(distance, t.coefficient));
    const Expr rest = Simple(distance - quotient * t.coefficient);
    const Expr modulo = Simple(Mod(distance, t.coefficient));
    const bool rest_is_known = IsTrue(ranges_.LessOrEqual(0, rest)) && IsTrue(ranges_.Less(rest, t.coefficient));
    Tri answer = false;
    for (int64_t j = 0;; ++j) {
      const Expr left = (rest_is_known ? rest : modulo) + t.coefficient * Expr(j);
      if (IsTrue(ranges_.Less(reach_[k + 1], left))) return answer;
      if (j > kSmall) return std::nullopt;  // and none before was certain
      const Expr x = quotient - Expr(j);
      const Tri in_range = And(ranges_.LessOrEqual(0, x), ranges_.LessOrEqual(x, t.last));
      if (!IsFalse(in_range)) Or(answer, And(in_range, Reaches(left, k + 1)));
      if (IsTrue(answer)) return true;
    }
  }

 private:
  static constexpr int64_t kSmall = 4;

  static void Or(Tri& a, Tri b) {
    if (IsTrue(a) || IsTrue(b)) {
      a = true;
    } else if (!IsFalse(a) || !IsFalse(b)) {
      a = std::nullopt;
    }
  }

  Expr Simple(const Expr& e) const { return e.IsConstant() ? e : ranges_.Simplify(e); }

  // Returns whether the coefficients have a common divisor that does not divide the distance. Then the polynomial, with
  // the indices as symbols, cannot be zero.
  bool NeverCongruent(const Expr& distance, size_t k) const {
    Expr sum = -distance;
    for (; k < terms_.size(); ++k) sum = sum + terms_[k].coefficient * Expr::Symbol(absl::StrCat("\x02", k));
    return IsFalse(ranges_.Equal(sum, 0));
  }

  const std::vector<Term> terms_;
  const SymbolRanges& ranges_;
  std::vector<Expr> reach_;
  std::vector<bool> full_;
  // The cost of a decision grows with the length of the expressions.
  int budget_ = 3000;
};

// Returns the ranges narrowed by "no size is 0", for sizes that are a symbol plus a number.
SymbolRanges AssumingNotEmpty(const Region& a, const Region& b, SymbolRanges ranges) {
  for (const Region* r : {&a, &b}) {
    for (const Expr& size : r->sizes()) {
      const std::vector<std::string> symbols = size.Symbols();
      if (symbols.size() != 1) continue;
      const std::optional<int64_t> rest = (size - Expr::Symbol(symbols[0])).Constant();
      if (!rest.has_value() || *rest == INT64_MIN) continue;
      SymbolRanges::Range range = ranges.Get(symbols[0]);
      int64_t least;
      if (__builtin_sub_overflow(int64_t{1}, *rest, &least)) continue;
      // An impossible range would prove anything; but then the regions are empty, so nothing proven of them is wrong.
      range.min = std::max(range.min, least);
      if (range.min <= range.max) ranges.Set(symbols[0], range);
    }
  }
  return ranges;
}

std::string SizeText(const Expr& e) {
  const std::string text = e.ToString();
  const bool plain = e.IsConstant() || e.IsSymbol();
  return plain ? text : absl::StrCat("(", text, ")");
}

}  // namespace

absl::string_view Name(Overlap o) {
  switch (o) {
    case Overlap::kDisjoint:
      return "disjoint";
    case Overlap::kSame:
      return "same";
    case Overlap::kSome:
      return "some";
    case Overlap::kUnknown:
      return "unknown";
  }
  return "?";
}

Region Region::Strided(Expr offset, std::vector<Expr> sizes, std::vector<Expr> strides, int item_bytes) {
  SMELT_CHECK_EQ(sizes.size(), strides.size());
  SMELT_CHECK_GT(item_bytes, 0);
  Region r;
  r.offset_ = std::move(offset);
  r.sizes_ = std::move(sizes);
  r.strides_ = std::move(strides);
  r.item_bytes_ = item_bytes;
  return r;
}

Region Region::Of(const Geometry& g, int item_bytes) {
  return Strided(g.offset, std::vector<Expr>(g.sizes.begin(), g.sizes.end()),
                 std::vector<Expr>(g.strides.begin(), g.strides.end()), item_bytes);
}

std::optional<bool> Region::IsEmpty(const SymbolRanges& ranges) const {
  bool unknown = false;
  for (const Expr& s : sizes_) {
    const Tri zero = ranges.LessOrEqual(s, 0);
    if (IsTrue(zero)) return true;
    unknown |= !zero.has_value();
  }
  if (unknown) return std::nullopt;
  return false;
}

std::optional<bool> Region::OverlapsItself(const SymbolRanges& ranges) const {
  if (AnyPoison(*this)) return std::nullopt;
  if (std::optional<Geometry> g = Concrete(*this)) return SelfOverlap(*g);
  const Tri empty = IsEmpty(ranges);
  if (IsTrue(empty)) return false;
  // To prove that nothing overlaps, sizes may be assumed to be at least 1.
  const SymbolRanges narrowed = AssumingNotEmpty(*this, *this, ranges);
  bool some = false;
  std::vector<Term> terms;
  for (size_t d = 0; d < sizes_.size(); ++d) {
    if (IsTrue(narrowed.Equal(sizes_[d], 1))) continue;
    const bool two_or_more = IsFalse(empty) && IsTrue(ranges.LessOrEqual(2, sizes_[d]));
    some |= two_or_more && IsTrue(ranges.Equal(strides_[d], 0));
    Expr stride = strides_[d];
    if (IsTrue(narrowed.LessOrEqual(stride, 0))) stride = -stride;
    if (!some && !IsTrue(narrowed.LessOrEqual(0, stride))) return std::nullopt;
    for (size_t e = 0; e < d; ++e) {
      some |= two_or_more && IsTrue(ranges.LessOrEqual(2, sizes_[e])) && IsTrue(ranges.Equal(strides_[d], strides_[e]));
    }
    terms.push_back({stride, sizes_[d] - Expr(1)});
  }
  if (some) return true;
  const size_t count = terms.size();
  terms = Sorted(terms, narrowed);
  if (terms.size() != count) return std::nullopt;
  Expr reach = 0;
  for (size_t k = terms.size(); k-- > 0;) {
    if (!IsTrue(narrowed.Less(reach, terms[k].coefficient))) return std::nullopt;
    reach = reach + terms[k].coefficient * terms[k].last;
  }
  return false;
}

std::string Region::ToString() const {
  std::string out = absl::StrCat("[", offset_.ToString(), " :");
  for (size_t d = 0; d < sizes_.size(); ++d) {
    absl::StrAppend(&out, d == 0 ? " " : " x ", SizeText(sizes_[d]), "*", SizeText(strides_[d]));
  }
  return absl::StrCat(out, "] f", item_bytes_);
}

Overlap Compare(const Region& a, const Region& b, const SymbolRanges& ranges) {
  if (AnyPoison(a) || AnyPoison(b)) return Overlap::kUnknown;
  if (std::optional<Geometry> x = Concrete(a)) {
    if (std::optional<Geometry> y = Concrete(b)) return OverlapsConcrete(*x, a.item_bytes(), *y, b.item_bytes());
  }
  const Tri a_empty = a.IsEmpty(ranges), b_empty = b.IsEmpty(ranges);
  if (IsTrue(a_empty) || IsTrue(b_empty)) return Overlap::kDisjoint;
  if (SameElements(a, b, ranges)) return Overlap::kSame;
  const int64_t unit = std::gcd(a.item_bytes(), b.item_bytes());
  const SymbolRanges narrowed = AssumingNotEmpty(a, b, ranges);
  std::optional<Terms> x = TermsOf(a, a.item_bytes() / unit, narrowed), y = TermsOf(b, b.item_bytes() / unit, narrowed);
  if (!x.has_value() || !y.has_value()) return Overlap::kUnknown;
  Expr distance = y->low - x->low;
  for (const Term& t : y->terms) {
    distance = distance + t.coefficient * t.last;
    x->terms.push_back(t);
  }
  const Tri reached = Search(Sorted(x->terms, narrowed), narrowed).Reaches(distance);
  if (IsFalse(reached)) return Overlap::kDisjoint;
  if (IsTrue(reached) && IsFalse(a_empty) && IsFalse(b_empty)) return Overlap::kSome;
  return Overlap::kUnknown;
}

bool Covers(const Region& outer, const Region& inner, const SymbolRanges& ranges) {
  if (AnyPoison(outer) || AnyPoison(inner)) return false;
  if (std::optional<Geometry> x = Concrete(outer)) {
    if (std::optional<Geometry> y = Concrete(inner)) {
      return CoversConcrete(*x, outer.item_bytes(), *y, inner.item_bytes());
    }
  }
  if (IsTrue(inner.IsEmpty(ranges)) || SameElements(outer, inner, ranges)) return true;
  // If inner may be empty, there is nothing to show for that case.
  const SymbolRanges narrowed = AssumingNotEmpty(inner, inner, ranges);
  if (!IsFalse(outer.IsEmpty(narrowed))) return false;
  const int64_t unit = std::gcd(outer.item_bytes(), inner.item_bytes());
  std::optional<Terms> x = TermsOf(outer, outer.item_bytes() / unit, narrowed);
  std::optional<Terms> y = TermsOf(inner, inner.item_bytes() / unit, narrowed);
  if (!x.has_value() || !y.has_value()) return false;
  // Outer's dims are digits, the largest first; dims that continue each other are merged.
  std::vector<Term> digits;
  for (const Term& t : Sorted(x->terms, narrowed)) {
    if (!IsTrue(narrowed.Less(0, t.coefficient))) return false;
    if (!digits.empty() && IsTrue(narrowed.Equal(digits.back().coefficient, t.coefficient * (t.last + Expr(1))))) {
      digits.back() = {t.coefficient, (digits.back().last + Expr(1)) * (t.last + Expr(1)) - Expr(1)};
    } else {
      digits.push_back(t);
    }
  }
  Expr start = y->low - x->low;
  std::vector<Expr> top;
  for (const Term& t : digits) {
    const Expr digit = narrowed.Simplify(FloorDiv(start, t.coefficient));
    if (!IsTrue(narrowed.LessOrEqual(0, digit))) return false;
    top.push_back(digit);
    start = narrowed.Simplify(start - digit * t.coefficient);
  }
  if (!IsTrue(narrowed.Equal(start, 0))) return false;
  for (const Term& step : y->terms) {
    size_t k = 0;
    while (k < digits.size() && !IsTrue(narrowed.Equal(Mod(step.coefficient, digits[k].coefficient), 0))) ++k;
    if (k == digits.size()) return false;
    top[k] = top[k] + FloorDiv(step.coefficient, digits[k].coefficient) * step.last;
  }
  for (size_t k = 0; k < digits.size(); ++k) {
    if (!IsTrue(narrowed.LessOrEqual(top[k], digits[k].last))) return false;
  }
  return true;
}

}  // namespace smelt
