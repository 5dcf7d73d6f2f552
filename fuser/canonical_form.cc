#include "smelt/fuser/canonical_form.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "smelt/fuser/short_dims.h"
#include "smelt/fuser/unroll_rows.h"

namespace smelt::kernel {
namespace {

using Ins = KernelDraft::Ins;
using Access = KernelDraft::Access;
using Linear = KernelDraft::Linear;

// This need not hash data well; it only colors a small graph. It is the same in every process.
uint64_t Mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

// Returns -1 if dim a belongs before b, 1 if after, 0 without preference. The accesses vote in order, stores first,
// except that where rows are reduced, accesses to whole rows vote before those to their results. The first vote that
// distinguishes the dims decides.
int CompareStride(const KernelDraft& draft, int a, int b) {
  auto vote = [&](const std::vector<Expr>& coef) {
    if (coef[a] == Expr(0) || coef[b] == Expr(0) || coef[a] == coef[b]) return 0;
    const std::optional<bool> less = draft.ranges.Less(coef[a], coef[b]);
    if (less && *less) return 1;
    const std::optional<bool> more = draft.ranges.Less(coef[b], coef[a]);
    if (more && *more) return -1;
    // Among strides of symbolic sizes, the one that is a multiple of the other is wider.
    if (Mod(coef[a], coef[b]) == Expr(0)) return -1;
    if (Mod(coef[b], coef[a]) == Expr(0)) return 1;
    return 0;
  };
  for (const bool whole : {true, false}) {
    for (const bool stores : {true, false}) {
      for (size_t i = 0; i < draft.ins.size(); ++i) {
        if (!draft.reachable[i] || draft.ins[i].access < 0 || (draft.ins[i].op == KernelOp::kStore) != stores) continue;
        const std::vector<Expr>& coef = draft.accesses[draft.ins[i].access].coef;
        if ((draft.rank() == draft.parallel || draft.ReductionCoef(coef)) != whole) continue;
        if (int v = vote(coef)) return v;
      }
    }
  }
  return 0;
}

// If data choose a place for each index of the last dim, and most accesses there run along another dim, vectors are
// read whole along that dim. Results may then be stored apart.
void PutRunsLast(const KernelDraft& draft, std::vector<int>& dims) {
  if (dims.size() < 2 || !draft.IsChosenAlong(dims.back())) return;
  for (size_t k = 0; k + 1 < dims.size(); ++k) {
    const int d = dims[k];
    if (draft.sizes[d].Constant().value_or(kFewLanes) < kFewLanes || draft.IsChosenAlong(d)) continue;
    int runs = 0, apart = 0;
    for (size_t i = 0; i < draft.ins.size(); ++i) {
      if (!draft.reachable[i] || draft.ins[i].access < 0) continue;
      const std::vector<Expr>& coef = draft.accesses[draft.ins[i].access].coef;
      if (draft.ins[i].op == KernelOp::kLoad && draft.ins[i].has_offset && coef[d] == Expr(1)) ++runs;
      if (coef[d] != Expr(0) && coef[d] != Expr(1)) ++apart;
    }
    if (runs <= apart) continue;
    std::rotate(dims.begin() + k, dims.begin() + k + 1, dims.end());
    return;
  }
}

// Returns the parallel and the reduction dims whose sizes are not 1, the widest strides first.
std::pair<std::vector<int>, std::vector<int>> SortDims(const KernelDraft& draft, bool ordered) {
  std::vector<int> order[2];
  for (int d = 0; d < draft.rank(); ++d) {
    if (draft.sizes[d] == Expr(1)) continue;
    order[d >= draft.parallel].push_back(d);
  }
  // Something must be left to reduce over.
  if (draft.rank() > draft.parallel && order[1].empty()) order[1].push_back(draft.rank() - 1);
  for (int part = 0; part < 2; ++part) {
    if (part == 1 && ordered) break;
    // Insertion sort: it is stable, and sound if the votes are not transitive.
    std::vector<int>& dims = order[part];
    for (size_t i = 1; i < dims.size(); ++i) {
      for (size_t j = i; j > 0 && CompareStride(draft, dims[j - 1], dims[j]) > 0; --j) std::swap(dims[j - 1], dims[j]);
    }
  }
  return {std::move(order[0]), std::move(order[1])};
}

// Neighbouring dims that could be one loop become one: the inner one.
std::vector<int> Collapsed(KernelDraft& draft, const std::vector<int>& dims) {
  std::vector<int> kept;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    if (!kept.empty() && draft.Collapses(*d, kept.back())) {
      draft.sizes[kept.back()] = draft.sizes[kept.back()] * draft.sizes[*d];
    } else {
      kept.push_back(*d);
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

void ArrangeDims(KernelDraft& draft, bool ordered) {
  std::vector<int> order[2];
  std::tie(order[0], order[1]) = SortDims(draft, ordered);
  PutRunsLast(draft, order[0]);
  order[0] = Collapsed(draft, order[0]);
  // Transposed operands are read by tiles of the last two dims: the dim along which most of them run comes last but
  // one.
  if (draft.rank() == draft.parallel && order[0].size() > 2) {
    std::vector<int>& dims = order[0];
    size_t best = dims.size() - 2;
    int most = 0;
    for (size_t k = dims.size() - 1; k-- > 0;) {
      if (draft.sizes[dims[k]].Constant().value_or(kFewLanes) < kFewLanes) continue;  // a tile of next to nothing
      int count = 0;
      for (size_t i = 0; i < draft.ins.size(); ++i) {
        if (!draft.reachable[i] || draft.ins[i].op != KernelOp::kLoad) continue;
        const std::vector<Expr>& coef = draft.accesses[draft.ins[i].access].coef;
        count += coef[dims[k]] == Expr(1) && coef[dims.back()] != Expr(0);
      }
      if (count > most) {
        most = count;
        best = k;
      }
    }
    std::rotate(dims.begin() + best, dims.begin() + best + 1, dims.end() - 1);
  }
  // The last dim would not fill a vector. The next one fills it, and its results are stored apart, if no operand runs
  // along the last dim, or if data choose places along it that are the same for all of the next. (Reading transposed
  // operands by tiles is faster than storing results apart, except for narrow elements. Operands with guards, or at
  // places from data, are not read by tiles.)
  if (draft.rank() == draft.parallel && order[0].size() > 1 &&
      draft.sizes[order[0].back()].Constant().value_or(kFewLanes + 1) <= kFewLanes) {
    std::vector<int>& dims = order[0];
    const int last = dims.back(), next = dims[dims.size() - 2];
    bool runs = false, tiled = false, transposed = false, dense = true;
    for (size_t i = 0; i < draft.ins.size(); ++i) {
      if (!draft.reachable[i] || draft.ins[i].access < 0) continue;
      const std::vector<Expr>& coef = draft.accesses[draft.ins[i].access].coef;
      if (draft.ins[i].op == KernelOp::kStore) dense = dense && coef[next] == coef[last] * draft.sizes[last];
      if (draft.ins[i].op != KernelOp::kLoad) continue;
      runs = runs || coef[last] == Expr(1);
      if (coef[next] != Expr(1) || coef[last] == Expr(0)) continue;
      const bool by_tiles = ItemSize(draft.ins[i].type) >= 4 && !draft.ins[i].has_offset && !draft.ins[i].has_guard;
      (by_tiles ? tiled : transposed) = true;
    }
    const bool chosen = draft.IsChosenAlong(last) && !draft.IsChosenAlong(next);
    const bool few = draft.sizes[last].Constant().value_or(kFewLanes) < kFewLanes;
    if ((!(runs || tiled) || chosen) && (few || (transposed && dense)) && !draft.Collapses(next, last) &&
        draft.sizes[next].Constant().value_or(kManyElements) >= kFullVector) {
      std::swap(dims[dims.size() - 2], dims.back());
    }
  }
  std::vector<int> kept;
  int parallel = 0;
  for (int part = 0; part < 2; ++part) {
    const std::vector<int> dims = Collapsed(draft, order[part]);
    kept.insert(kept.end(), dims.begin(), dims.end());
    if (part == 0) parallel = static_cast<int>(kept.size());
  }
  auto pick = [&](std::vector<Expr>& v) {
    std::vector<Expr> out;
    for (int d : kept) out.push_back(v[d]);
    v = std::move(out);
  };
  for (Access& a : draft.accesses) pick(a.coef);
  for (Linear& l : draft.linears) pick(l.coef);
  pick(draft.sizes);
  draft.parallel = parallel;
}

void ExpandAffines(Builder& builder) {
  KernelDraft& draft = builder.draft();
  // In place, so that users keep their operand: the last instruction of the sum takes the affine's slot. Operands of an
  // expansion are made first. The list is rebuilt so that operands stay before their users.
  std::vector<Ins> old = builder.TakeInstructions();
  std::vector<int> at(old.size(), -1);
  for (size_t i = 0; i < old.size(); ++i) {
    if (!draft.reachable[i]) continue;
    Ins in = old[i];
    if (in.is_affine) {
      const Linear linear = draft.linears[in.affine];
      int v = -1;
      for (int pass = 0; pass < 2; ++pass) {  // what is subtracted comes last
        for (int d = 0; d < draft.rank(); ++d) {
          if (linear.coef[d] == Expr(0) || (linear.coef[d] == Expr(-1)) != (pass == 1)) continue;
          Ins index;
          index.op = KernelOp::kIndex;
          index.type = DType::kInt64;
          index.dim = d;
          int term = builder.Share(std::move(index));
          if (pass == 1) {
            v = v < 0 ? builder.Op(ScalarOp::kNeg, DType::kInt64, term)
                      : builder.Op(ScalarOp::kSub, DType::kInt64, v, term);
            continue;
          }
          if (linear.coef[d] != Expr(1))
            term = builder.Op(ScalarOp::kMul, DType::kInt64, term, builder.ExprParam(linear.coef[d]));
          v = v < 0 ? term : builder.Op(ScalarOp::kAdd, DType::kInt64, v, term);
        }
      }
      if (linear.base != Expr(0)) {
        const int base = builder.ExprParam(linear.base);
        v = v < 0 ? base : builder.Op(ScalarOp::kAdd, DType::kInt64, v, base);
      }
      if (v < 0) v = builder.ConstInt(DType::kInt64, 0);
      at[i] = v;
      continue;
    }
    for (int& o : in.operands) o = at[o];
    at[i] = builder.AddAgain(std::move(in));
  }
}

// Gives each instruction a color that depends on its computation and on its users, not on its place. Equal colors are
// (except by chance) instructions that a renaming of the kernel exchanges, so that any order of them gives the same
// kernel.
void Color(KernelDraft& draft) {
  const size_t n = draft.ins.size();
  std::vector<uint64_t> base(n);
  for (size_t i = 0; i < n; ++i) {
    const Ins& in = draft.ins[i];
    uint64_t h = Mix(static_cast<uint64_t>(in.op), static_cast<uint64_t>(in.type));
    h = Mix(h, static_cast<uint64_t>(in.scalar));
    h = Mix(h, static_cast<uint64_t>(in.imm.i));
    uint64_t bits;
    std::memcpy(&bits, &in.imm.f, sizeof bits);
    h = Mix(h, bits);
    h = Mix(h, static_cast<uint64_t>(in.dim + 1));
    h = Mix(h, static_cast<uint64_t>(in.reduce));
    h = Mix(h, in.has_offset | in.has_guard << 1 | in.inner << 2);
    if (in.access >= 0) {
      const Access& a = draft.accesses[in.access];
      h = Mix(h, static_cast<uint64_t>(a.dtype));
      for (int d = 0; d < draft.rank(); ++d) h = Mix(h, static_cast<uint64_t>(draft.ClassOf(a, d)) + 17);
    }
    base[i] = h;
  }
  std::vector<uint64_t> up(n), down(n);
  draft.color = base;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < n; ++i) {
      uint64_t h = draft.color[i];
      std::vector<uint64_t> args;
      for (int o : draft.ins[i].operands) args.push_back(up[o]);
      if (draft.Commutes(draft.ins[i])) std::sort(args.begin(), args.end());
      for (uint64_t a : args) h = Mix(h, a);
      up[i] = h;
    }
    // Users, and those that go through the same access (a value that is both read and written).
    std::vector<std::vector<uint64_t>> from(n);
    for (size_t i = n; i-- > 0;) {
      uint64_t h = up[i];
      std::sort(from[i].begin(), from[i].end());
      for (uint64_t f : from[i]) h = Mix(h, f);
      down[i] = h;
      for (size_t k = 0; k < draft.ins[i].operands.size(); ++k) {
        from[draft.ins[i].operands[k]].push_back(Mix(h, draft.Commutes(draft.ins[i]) ? 0 : k + 1));
      }
    }
    draft.color = down;
  }
}

}  // namespace

void PutInCanonicalForm(Builder& builder, bool ordered) {
  KernelDraft& draft = builder.draft();
  draft.MarkReachable();
  if (const int row = ordered ? -1 : ShortRow(draft, SortDims(draft, ordered).first); row >= 0) {
    UnrollRow(builder, row);
    draft.MarkReachable();
  }
  ArrangeDims(draft, ordered);
  ExpandAffines(builder);
  draft.MarkReachable();
  Color(draft);
}

}  // namespace smelt::kernel
