#include "smelt/alias/boxes.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "smelt/alias/state.h"

namespace smelt {
namespace alias_internal {

Interval* FindKey(Geom* g, int64_t key) {
  for (Interval& i : g->box) {
    if (i.key == key) return &i;
  }
  return nullptr;
}

namespace {

// Returns whether the handle is already limited in a dimension that is counted from the other end than `dim`. If the
// rank is not known, it may be the same dimension.
bool MayBeLimited(const Geom& g, int64_t dim) {
  for (const Interval& i : g.box) {
    const int64_t d = i.key > kFromEnd / 2 && i.key < 2 * kFromEnd ? i.key - kFromEnd : i.key;
    if (d >= kFromEnd / 2) continue;  // no dimension
    if (dim >= 0 && d < 0) return true;
    const bool there = d >= static_cast<int64_t>(g.front.size()) + g.rest || absl::c_linear_search(g.front, d);
    if (dim < 0 && d >= 0 && there) return true;
  }
  return false;
}

}  // namespace

int64_t KeyOf(const Geom& g, int64_t dim) {
  if (g.lost) return kNoKey;
  if (dim < 0 && g.rank >= 0) dim += g.rank;
  if (MayBeLimited(g, dim)) return kNoKey;
  if (dim < 0) return g.negative_ok ? dim : kNoKey;
  if (g.rank >= 0 && dim >= g.rank) return kNoKey;
  if (dim < static_cast<int64_t>(g.front.size())) return g.front[dim];
  if (g.rank >= 0) return kNoKey;
  return dim + g.rest;
}

std::optional<Expr> SizeOf(const Geom& g, int64_t dim) {
  if (!g.has_sizes || static_cast<int>(g.sizes.size()) != g.rank) return std::nullopt;
  if (dim < 0) dim += g.rank;
  if (dim < 0 || dim >= g.rank) return std::nullopt;
  return g.sizes[dim];
}

void Limit(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi, int64_t step) {
  const int64_t key = KeyOf(*g, dim);
  if (key == kNoKey || step <= 0) return;
  Interval* old = FindKey(g, key);
  if (old == nullptr) {
    Interval i;
    i.key = key;
    i.lo = lo ? lo : std::optional<Expr>(Expr(0));
    i.hi = hi;
    i.step = step;
    g->box.push_back(std::move(i));
    return;
  }
  if (!old->lo) return;
  int64_t whole_step;
  if (__builtin_mul_overflow(old->step, step, &whole_step)) return;
  const Expr base = *old->lo;
  if (hi) {
    Expr end = base + *hi * old->step;
    old->hi = old->hi ? Min(*old->hi, end) : end;
  }
  if (lo) old->lo = base + *lo * old->step;
  old->step = whole_step;
}

void LimitFromEnd(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi) {
  const int64_t key = KeyOf(*g, dim);
  if (key == kNoKey || FindKey(g, key) != nullptr || FindKey(g, kFromEnd + key) != nullptr) return;
  Interval i;
  i.key = kFromEnd + key;
  i.lo = lo;
  i.hi = hi;
  g->box.push_back(std::move(i));
}

void Point(Geom* g, int64_t key, int64_t at) {
  if (FindKey(g, key) != nullptr) return;
  Interval i;
  i.key = key;
  i.lo = Expr(at);
  i.hi = Expr(at + 1);
  g->box.push_back(std::move(i));
}

void Materialize(Geom* g, int64_t count) {
  while (static_cast<int64_t>(g->front.size()) < count)
    g->front.push_back(static_cast<int64_t>(g->front.size()) + g->rest);
}

void RemoveDim(Geom* g, int64_t dim) {
  if (g->lost) return;
  if (g->rank >= 0) {
    if (dim < 0) dim += g->rank;
    if (dim < 0 || dim >= g->rank) {
      g->lost = true;
      return;
    }
    Materialize(g, g->rank);
    g->front.erase(g->front.begin() + dim);
    if (g->has_sizes && static_cast<int>(g->sizes.size()) == g->rank) {
      g->sizes.erase(g->sizes.begin() + dim);
    } else {
      g->has_sizes = false;
    }
    --g->rank;
    return;
  }
  if (dim < 0) {
    g->lost = true;
    return;
  }
  Materialize(g, dim + 1);
  g->front.erase(g->front.begin() + dim);
  ++g->rest;
  if (dim != 0) g->negative_ok = false;
}

void Lose(Geom* g) {
  g->lost = true;
  g->has_sizes = false;
  g->rank = -1;
  g->front.clear();
}

void Permute(Geom* g, const std::vector<int64_t>& dims) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (g->lost) return;
  if (g->rank >= 0 && g->rank != rank) {
    Lose(g);
    return;
  }
  if (g->rank < 0) {
    g->rank = static_cast<int>(rank);
    g->negative_ok = false;
    g->has_sizes = false;
  }
  Materialize(g, rank);
  if (g->has_sizes && static_cast<int64_t>(g->sizes.size()) != rank) g->has_sizes = false;
  std::vector<int64_t> front;
  std::vector<Expr> sizes;
  for (int64_t d : dims) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank) {
      Lose(g);
      return;
    }
    front.push_back(g->front[d]);
    if (g->has_sizes) sizes.push_back(g->sizes[d]);
  }
  g->front = std::move(front);
  if (g->has_sizes) g->sizes = std::move(sizes);
}

void TakeSizes(const Type& type, Geom* out) {
  const Type& t = UnwrapOptional(type);
  if (!t.IsTensor()) return;
  if (t.tensor().dtype) out->dtype = t.tensor().dtype;
  if (!t.tensor().sizes) return;
  if (out->rank >= 0 && out->rank != t.tensor().rank()) return;
  out->rank = t.tensor().rank();
  out->sizes = *t.tensor().sizes;
  out->has_sizes = true;
}

}  // namespace alias_internal
}  // namespace smelt
