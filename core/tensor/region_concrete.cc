// The overlap of two concrete strided regions. In bytes, with one more dim of stride 1 for the bytes of an item, is
// there a solution of
//
//   offset_a + sum(stride_a[d] * i[d]) = offset_b + sum(stride_b[d] * j[d])
//   where 0 <= i[d] < size_a[d], 0 <= j[d] < size_b[d]
//
// With j counted from the other end all coefficients are positive, and the equation is sum(c[k] * x[k]) = distance with
// 0 <= x[k] <= u[k]. A search decides it, largest coefficient first. Three things keep it short: the range that the
// smaller terms can reach; the greatest common divisor of their coefficients (so that only every n-th x[k] is tried);
// and that it stops where the remaining terms reach every multiple of their divisor in their range, as the dims of
// ordinary tensors do.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "smelt/core/tensor/region.h"

namespace smelt {
namespace {

constexpr int kMaxDims = 8;
constexpr int kMaxTerms = 2 * (kMaxDims + 1);
constexpr int kSearchSteps = 20000;

struct Term {
  int64_t coefficient;  // > 0
  int64_t last;         // > 0: the index goes from 0 to here
};

// The addresses low + sum(c * x), in units of `unit` bytes.
struct Terms {
  Term term[kMaxTerms];
  int count = 0;
  int64_t low = 0, span = 0;
  enum { kOk, kEmpty, kTooLarge } state = kOk;

  void Add(int64_t coefficient, int64_t last) {
    int64_t reach;
    if (count == kMaxTerms || __builtin_mul_overflow(coefficient, last, &reach) ||
        __builtin_add_overflow(span, reach, &span)) {
      state = kTooLarge;
      return;
    }
    term[count++] = {coefficient, last};
  }

  // Adds the elements of g, each of `scale` units.
  void AddGeometry(const Geometry& g, int64_t scale) {
    const int rank = g.rank();
    for (int d = 0; d < rank; ++d) {
      if (g.sizes[d] == 0) {
        state = kEmpty;
        return;
      }
    }
    if (__builtin_mul_overflow(g.offset, scale, &low)) {
      state = kTooLarge;
      return;
    }
    int dims = 0;
    for (int d = 0; d < rank && state == kOk; ++d) {
      const int64_t last = g.sizes[d] - 1;
      int64_t stride = g.strides[d];
      if (last == 0 || stride == 0) continue;
      int64_t reach;
      if (++dims > kMaxDims || __builtin_mul_overflow(stride, scale, &stride) || stride == INT64_MIN ||
          __builtin_mul_overflow(stride, last, &reach)) {
        state = kTooLarge;
        return;
      }
      if (stride < 0) {
        if (__builtin_add_overflow(low, reach, &low)) {
          state = kTooLarge;
          return;
        }
        stride = -stride;
      }
      Add(stride, last);
    }
    if (scale > 1) Add(1, scale - 1);
  }
};

// Returns x with a * x = 1 modulo m; a and m have no common divisor, and m > 1.
int64_t Inverse(int64_t a, int64_t m) {
  int64_t r0 = m, r1 = a % m, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const int64_t q = r0 / r1;
    std::swap(r0, r1);
    r1 -= q * r0;
    std::swap(t0, t1);
    t1 -= q * t0;
  }
  return t0 < 0 ? t0 + m : t0;
}

class Search {
 public:
  // Sorts and merges the terms.
  explicit Search(Terms& t) : count_(t.count) {
    Term* const terms = t.term;
    for (int i = 1; i < count_; ++i) {
      const Term moved = terms[i];
      int at = i;
      for (; at > 0 && terms[at - 1].coefficient < moved.coefficient; --at) terms[at] = terms[at - 1];
      terms[at] = moved;
    }
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      if (kept > 0 && terms[i].coefficient == level_[kept - 1].coefficient) {
        level_[kept - 1].last += terms[i].last;  // within int64: the span is
      } else {
        level_[kept].coefficient = terms[i].coefficient;
        level_[kept].last = terms[i].last;
        ++kept;
      }
    }
    count_ = kept;
    int64_t reach = 0, gcd = 0;
    bool full = true;
    for (int k = count_ - 1; k >= 0; --k) {
      Level& l = level_[k];
      const int64_t c = l.coefficient;
      l.reach_below = reach;
      l.gcd_below = gcd;
      const bool multiple = gcd != 0 && c % gcd == 0;
      full = gcd == 0 || (full && multiple && c - gcd <= reach);
      l.step = 1;
      if (gcd == 0) {
        gcd = c;
      } else if (!multiple) {
        const int64_t g = std::gcd(c, gcd);
        l.step = gcd / g;
        l.inverse = Inverse(c / g, l.step);
        gcd = g;
      }
      reach += c * l.last;
      l.full = full;
      l.gcd = gcd;
      l.reach = reach;
    }
  }

  int count() const { return count_; }
  int64_t coefficient(int k) const { return level_[k].coefficient; }
  int64_t last(int k) const { return level_[k].last; }
  int64_t reach_below(int k) const { return level_[k].reach_below; }
  // Doubles the ranges of the terms from k on.
  void DoubleFrom(int k) {
    for (; k < count_; ++k) {
      level_[k].last *= 2;
      level_[k].reach *= 2;
      level_[k].reach_below *= 2;
    }
  }

  // Returns whether the terms reach all multiples of their divisor, and `start` and everything that `steps` reach from
  // there are such multiples. The spans are known to fit.
  bool ReachesAllOf(const Terms& steps, int64_t start) const {
    if (count_ == 0) return steps.count == 0 && start == 0;
    if (!level_[0].full || start % level_[0].gcd != 0) return false;
    for (int i = 0; i < steps.count; ++i) {
      if (steps.term[i].coefficient % level_[0].gcd != 0) return false;
    }
    return true;
  }

  // Returns whether the terms from k on reach the distance, or nullopt after too many steps.
  std::optional<bool> Reaches(int64_t distance, int k = 0) {
    if (k == count_) return distance == 0;
    const Level& l = level_[k];
    if (distance < 0 || distance > l.reach || distance % l.gcd != 0) return false;
    if (l.full) return true;
    const int64_t c = l.coefficient;
    int64_t x = distance <= l.reach_below ? 0 : (distance - l.reach_below + c - 1) / c;
    const int64_t end = std::min(l.last, distance / c);
    if (l.step > 1) {
      // c * x must leave a multiple of gcd_below.
      const int64_t wanted =
          static_cast<int64_t>(static_cast<__int128>(distance / l.gcd % l.step) * l.inverse % l.step);
      x += FloorModulo(wanted - x, l.step);
    }
    for (; x <= end; x += l.step) {
      if (--steps_ < 0) return std::nullopt;
      std::optional<bool> found = Reaches(distance - c * x, k + 1);
      if (!found.has_value() || *found) return found;
    }
    return false;
  }

 private:
  struct Level {
    int64_t coefficient, last;
    int64_t reach, reach_below;  // of the terms from here on; of those after this
    int64_t gcd, gcd_below;
    int64_t step, inverse;
    bool full;  // every multiple of gcd from 0 to reach is reached
  };

  static int64_t FloorModulo(int64_t a, int64_t m) {
    const int64_t r = a % m;
    return r < 0 ? r + m : r;
  }

  Level level_[kMaxTerms];
  int count_;
  int steps_ = kSearchSteps;
};

// Equal up to dims of size 1.
bool SameElements(const Geometry& a, const Geometry& b) {
  if (a.offset != b.offset) return false;
  int i = 0, j = 0;
  for (;;) {
    while (i < a.rank() && a.sizes[i] == 1) ++i;
    while (j < b.rank() && b.sizes[j] == 1) ++j;
    if (i == a.rank() || j == b.rank()) return i == a.rank() && j == b.rank();
    if (a.sizes[i] != b.sizes[j] || a.strides[i] != b.strides[j]) return false;
    ++i;
    ++j;
  }
}

// Sets the distance to high_b - low_a, which the terms of a and b together must reach. Returns false if the spans are
// apart.
enum class Spans { kApart, kMeet, kTooLarge };
Spans Distance(const Terms& a, const Terms& b, int64_t& distance, int64_t& reach) {
  int64_t high_b, high_a;
  if (__builtin_add_overflow(a.low, a.span, &high_a) || __builtin_add_overflow(b.low, b.span, &high_b)) {
    return Spans::kTooLarge;
  }
  if (high_b < a.low || high_a < b.low) return Spans::kApart;
  if (__builtin_sub_overflow(high_b, a.low, &distance) || __builtin_add_overflow(a.span, b.span, &reach) ||
      reach > INT64_MAX / 4) {
    return Spans::kTooLarge;
  }
  return Spans::kMeet;
}

// Returns whether `start`, and each step from it, stay within the digits that outer's terms form: each step is a
// multiple of one coefficient, and no digit leaves its range. This is sufficient, not necessary.
bool CoversByDigits(const Search& outer, const Terms& steps, int64_t start) {
  int64_t room[kMaxTerms];
  for (int k = 0; k < outer.count(); ++k) {
    const int64_t digit = std::min(start / outer.coefficient(k), outer.last(k));
    start -= digit * outer.coefficient(k);
    room[k] = outer.last(k) - digit;
  }
  if (start != 0) return false;
  for (int i = 0; i < steps.count; ++i) {
    int k = 0;
    while (k < outer.count() && steps.term[i].coefficient % outer.coefficient(k) != 0) ++k;
    if (k == outer.count()) return false;
    const int64_t times = steps.term[i].coefficient / outer.coefficient(k);
    if (times > room[k] / steps.term[i].last) return false;
    room[k] -= times * steps.term[i].last;
  }
  return true;
}

}  // namespace

Overlap OverlapsConcrete(const Geometry& a, int a_item_bytes, const Geometry& b, int b_item_bytes) {
  const int64_t unit = a_item_bytes == b_item_bytes ? a_item_bytes : std::gcd(a_item_bytes, b_item_bytes);
  Terms x, y;
  x.AddGeometry(a, a_item_bytes / unit);
  if (x.state == Terms::kEmpty) return Overlap::kDisjoint;
  y.AddGeometry(b, b_item_bytes / unit);
  if (y.state == Terms::kEmpty) return Overlap::kDisjoint;
  if (a_item_bytes == b_item_bytes && SameElements(a, b)) return Overlap::kSame;
  if (x.state != Terms::kOk || y.state != Terms::kOk) return Overlap::kUnknown;
  int64_t distance, reach;
  switch (Distance(x, y, distance, reach)) {
    case Spans::kApart:
      return Overlap::kDisjoint;
    case Spans::kTooLarge:
      return Overlap::kUnknown;
    case Spans::kMeet:
      break;
  }
  for (int i = 0; i < y.count; ++i) x.term[x.count++] = y.term[i];
  std::optional<bool> found = Search(x).Reaches(distance);
  if (!found.has_value()) return Overlap::kUnknown;
  return *found ? Overlap::kSome : Overlap::kDisjoint;
}

std::optional<bool> SelfOverlap(const Geometry& g) {
  Terms t;
  t.AddGeometry(g, 1);
  if (t.state == Terms::kEmpty) return false;
  for (int d = 0; d < g.rank(); ++d) {
    if (g.strides[d] == 0 && g.sizes[d] > 1) return true;
  }
  if (t.state != Terms::kOk || t.span > INT64_MAX / 4) return std::nullopt;
  const int terms = t.count;
  Search search(t);
  if (search.count() != terms) return true;  // two dims with one stride
  bool nested = true;
  for (int k = 0; k < search.count(); ++k) nested = nested && search.coefficient(k) > search.reach_below(k);
  if (nested) return false;
  // Two indices that first differ in dim k, by n: the dims below must compensate n strides, each by a value between
  // -last and last. Counted from -last, that means reaching reach_below - n * stride with doubled ranges.
  std::optional<bool> answer = false;
  for (int k = 0; k < search.count(); ++k) {
    Search below = search;
    below.DoubleFrom(k + 1);
    const int64_t stride = search.coefficient(k), reach = search.reach_below(k);
    for (int64_t n = 1; n <= search.last(k) && n * stride <= reach; ++n) {
      std::optional<bool> found = below.Reaches(reach - n * stride, k + 1);
      if (found == true) return true;
      if (!found.has_value() || n > kSearchSteps) {
        answer = std::nullopt;
        break;
      }
    }
  }
  return answer;
}

bool OverlapsItselfConcrete(const Geometry& g) { return SelfOverlap(g).value_or(true); }

bool CoversConcrete(const Geometry& outer, int outer_item_bytes, const Geometry& inner, int inner_item_bytes) {
  const int64_t unit = std::gcd(outer_item_bytes, inner_item_bytes);
  Terms x, y;
  y.AddGeometry(inner, inner_item_bytes / unit);
  if (y.state == Terms::kEmpty) return true;
  x.AddGeometry(outer, outer_item_bytes / unit);
  if (x.state == Terms::kEmpty) return false;
  if (outer_item_bytes == inner_item_bytes && SameElements(outer, inner)) return true;
  if (x.state != Terms::kOk || y.state != Terms::kOk) return false;
  int64_t distance, reach;
  if (Distance(x, y, distance, reach) != Spans::kMeet) return false;
  if (y.low < x.low || y.low + y.span > x.low + x.span) return false;
  Search search(x);
  // A small inner region is checked address by address.
  constexpr int64_t kWalk = 4096;
  int64_t walked = 1;
  for (int i = 0; i < y.count; ++i) {
    if (__builtin_mul_overflow(walked, y.term[i].last + 1, &walked) || walked > kWalk) {
      // There are too many addresses. If outer reaches every multiple of something, the span is enough; otherwise the
      // nested digits are compared.
      return search.ReachesAllOf(y, y.low - x.low) || CoversByDigits(search, y, y.low - x.low);
    }
  }
  int64_t index[kMaxTerms] = {};
  int64_t at = y.low - x.low;
  for (;;) {
    if (search.Reaches(at) != true) return false;
    int i = 0;
    for (; i < y.count; ++i) {
      if (index[i] < y.term[i].last) {
        ++index[i];
        at += y.term[i].coefficient;
        break;
      }
      at -= index[i] * y.term[i].coefficient;
      index[i] = 0;
    }
    if (i == y.count) return true;
  }
}

}  // namespace smelt
