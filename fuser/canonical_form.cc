// The canonical form of a kernel: its dims in an order, and its instructions in colors, that do not depend on how the
// graph was written, and the dim that fills vectors.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {
namespace {

// If windows are at least this many elements apart, a vector is better filled from one window.
constexpr int64_t kFarStride = 8;

// If a dim has at least this many elements, it is worth filling a vector with them.
constexpr int64_t kFewLanes = 8;

// Float32 elements of the widest vector.
constexpr int64_t kFullVector = 16;

// The assumed value of a size that differs from call to call: most calls have many elements, and with few elements
// little is lost.
constexpr int64_t kManyElements = INT64_MAX;

// If rows are more than so many elements apart, the rows of a vector may evict each other from the cache.
constexpr int64_t kFarRow = 512;

// This need not hash data well; it only colors a small graph. It is the same in every process.
uint64_t Mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

}  // namespace

LoweredKernel Builder::Finish(bool ordered) {
  MarkReachable();
  if (const int row = ordered ? -1 : ShortRow(SortDims(ordered).first); row >= 0) {
    UnrollRow(row);
    MarkReachable();
  }
  ArrangeDims(ordered);
  ExpandAffines();
  MarkReachable();
  Color();
  return Emit(ordered);
}

void Builder::MarkReachable() {
  reachable_.assign(ins_.size(), false);
  for (int s : stores_) reachable_[s] = true;
  for (size_t i = ins_.size(); i-- > 0;) {
    if (!reachable_[i]) continue;
    for (int o : ins_[i].operands) reachable_[o] = true;
  }
}

// Returns -1 if dim a belongs before b, 1 if after, 0 without preference. The accesses vote in order, stores first,
// except that where rows are reduced, accesses to whole rows vote before those to their results. The first vote that
// distinguishes the dims decides.
int Builder::CompareStride(int a, int b) const {
  auto vote = [&](const std::vector<Expr>& coef) {
    if (coef[a] == Expr(0) || coef[b] == Expr(0) || coef[a] == coef[b]) return 0;
    const std::optional<bool> less = ranges_.Less(coef[a], coef[b]);
    if (less && *less) return 1;
    const std::optional<bool> more = ranges_.Less(coef[b], coef[a]);
    if (more && *more) return -1;
    // Among strides of symbolic sizes, the one that is a multiple of the other is wider.
    if (Mod(coef[a], coef[b]) == Expr(0)) return -1;
    if (Mod(coef[b], coef[a]) == Expr(0)) return 1;
    return 0;
  };
  for (const bool whole : {true, false}) {
    for (const bool stores : {true, false}) {
      for (size_t i = 0; i < ins_.size(); ++i) {
        if (!reachable_[i] || ins_[i].access < 0 || (ins_[i].op == KernelOp::kStore) != stores) continue;
        const std::vector<Expr>& coef = accesses_[ins_[i].access].coef;
        if ((rank() == parallel_ || ReductionCoef(coef)) != whole) continue;
        if (int v = vote(coef)) return v;
      }
    }
  }
  return 0;
}

bool Builder::IsChosenAlong(int dim) const {
  std::vector<bool> varies(ins_.size());  // operands stand before their users
  for (size_t i = 0; i < ins_.size(); ++i) {
    const Ins& in = ins_[i];
    if (!reachable_[i]) continue;
    if (in.is_affine) varies[i] = linears_[in.affine].coef[dim] != Expr(0);
    if (in.op == KernelOp::kIndex) varies[i] = in.dim == dim;
    if (in.access >= 0) varies[i] = accesses_[in.access].coef[dim] != Expr(0);
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    if (in.op == KernelOp::kLoad && in.has_offset && varies[in.operands[0]]) return true;
  }
  return false;
}

// If data choose a place for each index of the last dim, and most accesses there run along another dim, vectors are
// read whole along that dim. Results may then be stored apart.
void Builder::PutRunsLast(std::vector<int>& dims) const {
  if (dims.size() < 2 || !IsChosenAlong(dims.back())) return;
  for (size_t k = 0; k + 1 < dims.size(); ++k) {
    const int d = dims[k];
    if (sizes_[d].Constant().value_or(kFewLanes) < kFewLanes || IsChosenAlong(d)) continue;
    int runs = 0, apart = 0;
    for (size_t i = 0; i < ins_.size(); ++i) {
      if (!reachable_[i] || ins_[i].access < 0) continue;
      const std::vector<Expr>& coef = accesses_[ins_[i].access].coef;
      if (ins_[i].op == KernelOp::kLoad && ins_[i].has_offset && coef[d] == Expr(1)) ++runs;
      if (coef[d] != Expr(0) && coef[d] != Expr(1)) ++apart;
    }
    if (runs <= apart) continue;
    std::rotate(dims.begin() + k, dims.begin() + k + 1, dims.end());
    return;
  }
}

std::pair<std::vector<int>, std::vector<int>> Builder::SortDims(bool ordered) const {
  std::vector<int> order[2];
  for (int d = 0; d < rank(); ++d) {
    if (sizes_[d] == Expr(1)) continue;
    order[d >= parallel_].push_back(d);
  }
  // Something must be left to reduce over.
  if (rank() > parallel_ && order[1].empty()) order[1].push_back(rank() - 1);
  for (int part = 0; part < 2; ++part) {
    if (part == 1 && ordered) break;
    // Insertion sort: it is stable, and sound if the votes are not transitive.
    std::vector<int>& dims = order[part];
    for (size_t i = 1; i < dims.size(); ++i) {
      for (size_t j = i; j > 0 && CompareStride(dims[j - 1], dims[j]) > 0; --j) std::swap(dims[j - 1], dims[j]);
    }
  }
  return {std::move(order[0]), std::move(order[1])};
}

bool Builder::Collapses(int a, int b) const {
  auto fits = [&](const std::vector<Expr>& coef) { return coef[a] == coef[b] * sizes_[b]; };
  for (size_t i = 0; i < ins_.size(); ++i) {
    if (!reachable_[i]) continue;
    if (ins_[i].access >= 0 && !fits(accesses_[ins_[i].access].coef)) return false;
    if (ins_[i].is_affine && !fits(linears_[ins_[i].affine].coef)) return false;
  }
  return true;
}

// Neighbouring dims that could be one loop become one: the inner one.
std::vector<int> Builder::Collapsed(const std::vector<int>& dims) {
  std::vector<int> kept;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    if (!kept.empty() && Collapses(*d, kept.back())) {
      sizes_[kept.back()] = sizes_[kept.back()] * sizes_[*d];
    } else {
      kept.push_back(*d);
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

void Builder::ArrangeDims(bool ordered) {
  std::vector<int> order[2];
  std::tie(order[0], order[1]) = SortDims(ordered);
  PutRunsLast(order[0]);
  order[0] = Collapsed(order[0]);
  // Transposed operands are read by tiles of the last two dims: the dim along which most of them run comes last but
  // one.
  if (rank() == parallel_ && order[0].size() > 2) {
    std::vector<int>& dims = order[0];
    size_t best = dims.size() - 2;
    int most = 0;
    for (size_t k = dims.size() - 1; k-- > 0;) {
      if (sizes_[dims[k]].Constant().value_or(kFewLanes) < kFewLanes) continue;  // a tile of next to nothing
      int count = 0;
      for (size_t i = 0; i < ins_.size(); ++i) {
        if (!reachable_[i] || ins_[i].op != KernelOp::kLoad) continue;
        const std::vector<Expr>& coef = accesses_[ins_[i].access].coef;
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
  if (rank() == parallel_ && order[0].size() > 1 &&
      sizes_[order[0].back()].Constant().value_or(kFewLanes + 1) <= kFewLanes) {
    std::vector<int>& dims = order[0];
    const int last = dims.back(), next = dims[dims.size() - 2];
    bool runs = false, tiled = false, transposed = false, dense = true;
    for (size_t i = 0; i < ins_.size(); ++i) {
      if (!reachable_[i] || ins_[i].access < 0) continue;
      const std::vector<Expr>& coef = accesses_[ins_[i].access].coef;
      if (ins_[i].op == KernelOp::kStore) dense = dense && coef[next] == coef[last] * sizes_[last];
      if (ins_[i].op != KernelOp::kLoad) continue;
      runs = runs || coef[last] == Expr(1);
      if (coef[next] != Expr(1) || coef[last] == Expr(0)) continue;
      const bool by_tiles = ItemSize(ins_[i].type) >= 4 && !ins_[i].has_offset && !ins_[i].has_guard;
      (by_tiles ? tiled : transposed) = true;
    }
    const bool chosen = IsChosenAlong(last) && !IsChosenAlong(next);
    const bool few = sizes_[last].Constant().value_or(kFewLanes) < kFewLanes;
    if ((!(runs || tiled) || chosen) && (few || (transposed && dense)) && !Collapses(next, last) &&
        sizes_[next].Constant().value_or(kManyElements) >= kFullVector) {
      std::swap(dims[dims.size() - 2], dims.back());
    }
  }
  std::vector<int> kept;
  int parallel = 0;
  for (int part = 0; part < 2; ++part) {
    const std::vector<int> dims = Collapsed(order[part]);
    kept.insert(kept.end(), dims.begin(), dims.end());
    if (part == 0) parallel = static_cast<int>(kept.size());
  }
  auto pick = [&](std::vector<Expr>& v) {
    std::vector<Expr> out;
    for (int d : kept) out.push_back(v[d]);
    v = std::move(out);
  };
  for (Access& a : accesses_) pick(a.coef);
  for (Linear& l : linears_) pick(l.coef);
  pick(sizes_);
  parallel_ = parallel;
}

void Builder::ExpandAffines() {
  // In place, so that users keep their operand: the last instruction of the sum takes the affine's slot. Operands of an
  // expansion are made first. The list is rebuilt so that operands stay before their users.
  std::vector<Ins> old = std::move(ins_);
  ins_.clear();
  shared_.clear();
  stores_.clear();
  std::vector<int> at(old.size(), -1);
  for (size_t i = 0; i < old.size(); ++i) {
    if (!reachable_[i]) continue;
    Ins in = old[i];
    if (in.is_affine) {
      const Linear linear = linears_[in.affine];
      int v = -1;
      for (int pass = 0; pass < 2; ++pass) {  // what is subtracted comes last
        for (int d = 0; d < rank(); ++d) {
          if (linear.coef[d] == Expr(0) || (linear.coef[d] == Expr(-1)) != (pass == 1)) continue;
          Ins index;
          index.op = KernelOp::kIndex;
          index.type = DType::kInt64;
          index.dim = d;
          int term = Share(std::move(index));
          if (pass == 1) {
            v = v < 0 ? Op(ScalarOp::kNeg, DType::kInt64, term) : Op(ScalarOp::kSub, DType::kInt64, v, term);
            continue;
          }
          if (linear.coef[d] != Expr(1)) term = Op(ScalarOp::kMul, DType::kInt64, term, ExprParam(linear.coef[d]));
          v = v < 0 ? term : Op(ScalarOp::kAdd, DType::kInt64, v, term);
        }
      }
      if (linear.base != Expr(0)) {
        const int base = ExprParam(linear.base);
        v = v < 0 ? base : Op(ScalarOp::kAdd, DType::kInt64, v, base);
      }
      if (v < 0) v = ConstInt(DType::kInt64, 0);
      at[i] = v;
      continue;
    }
    for (int& o : in.operands) o = at[o];
    at[i] = AddAgain(std::move(in));
  }
}

bool Builder::Commutes(const Ins& in) const {
  if (in.op != KernelOp::kScalar || in.operands.size() != 2) return false;
  switch (in.scalar) {
    case ScalarOp::kAdd:
    case ScalarOp::kMul:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kFMin:
    case ScalarOp::kFMax:
    case ScalarOp::kHypot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kEq:
    case ScalarOp::kNe:
      return true;
    default:
      return false;
  }
}

int Builder::BoundOf(const Ins& in) const {
  if (in.scalar != ScalarOp::kMin && in.scalar != ScalarOp::kMax) return -1;
  const auto is_number = [&](int o) {
    while (ins_[o].op == KernelOp::kScalar && ins_[o].scalar == ScalarOp::kCast) o = ins_[o].operands[0];
    return ins_[o].op == KernelOp::kScalarParam ||
           (ins_[o].op == KernelOp::kScalar && ins_[o].scalar == ScalarOp::kConst);
  };
  const bool first = is_number(in.operands[0]), second = is_number(in.operands[1]);
  return first == second ? -1 : first ? 0 : 1;
}
bool Builder::IsToBeSwapped(const Ins& in, bool wrong_order) const {
  const int bound = BoundOf(in);
  return bound >= 0 ? bound == 0 : wrong_order;
}

StrideClass Builder::ClassOf(const Access& a, int d) const {
  if (a.coef[d] == Expr(0)) return StrideClass::kZero;
  if (a.coef[d] == Expr(1)) return StrideClass::kUnit;
  const bool may_be_vectorized = d == parallel_ - 1 || d == rank() - 1;
  if (IsAcrossLoop(a, d) && a.coef[d] == Expr(2)) return StrideClass::kTwo;
  for (StrideClass c : {StrideClass::kTwo, StrideClass::kThree, StrideClass::kFour, StrideClass::kBackward}) {
    if (may_be_vectorized && a.coef[d] == Expr(ElementsApart(c))) return c;
  }
  return StrideClass::kAny;
}

// Gives each instruction a color that depends on its computation and on its users, not on its place. Equal colors are
// (except by chance) instructions that a renaming of the kernel exchanges, so that any order of them gives the same
// kernel.
void Builder::Color() {
  const size_t n = ins_.size();
  std::vector<uint64_t> base(n);
  for (size_t i = 0; i < n; ++i) {
    const Ins& in = ins_[i];
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
      const Access& a = accesses_[in.access];
      h = Mix(h, static_cast<uint64_t>(a.dtype));
      for (int d = 0; d < rank(); ++d) h = Mix(h, static_cast<uint64_t>(ClassOf(a, d)) + 17);
    }
    base[i] = h;
  }
  std::vector<uint64_t> up(n), down(n);
  color_ = base;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < n; ++i) {
      uint64_t h = color_[i];
      std::vector<uint64_t> args;
      for (int o : ins_[i].operands) args.push_back(up[o]);
      if (Commutes(ins_[i])) std::sort(args.begin(), args.end());
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
      for (size_t k = 0; k < ins_[i].operands.size(); ++k) {
        from[ins_[i].operands[k]].push_back(Mix(h, Commutes(ins_[i]) ? 0 : k + 1));
      }
    }
    color_ = down;
  }
}

bool Builder::AreShortRowsSideBySide() const {
  const int p = parallel_;
  if (p == 0 || rank() != p + 1) return false;
  // Costly work per row is so much smaller beside it that rows of a few vectors are short, too.
  const bool costly =
      std::any_of(ins_.begin(), ins_.end(), [](const Ins& in) { return !in.inner && in.depth > 0 && IsCostly(in); });
  if (sizes_[p].Constant().value_or(INT64_MAX) > (costly ? 3 * kFewLanes : kFewLanes)) return false;
  // The rows that are left over after the last full vector cost five times as much each as a row by itself.
  const int64_t rows = sizes_[p - 1].Constant().value_or(kManyElements);
  if (rows == 0 || (rows % kFullVector != 0 && rows < 8 * kFullVector)) return false;
  return std::all_of(ins_.begin(), ins_.end(), [&](const Ins& in) {
    return in.access < 0 || !in.inner ||
           std::abs(accesses_[in.access].coef[p - 1].Constant().value_or(kFarRow + 1)) <= kFarRow;
  });
}

// Returns whether the instruction costs more than a store and a load from the nearest cache.
bool Builder::IsCostly(const Ins& in) {
  return in.op == KernelOp::kScalar &&
         (in.scalar >= ScalarOp::kExp || in.scalar == ScalarOp::kPow || in.scalar == ScalarOp::kAtan2);
}

int Builder::ChooseVectorDim(bool ordered) const {
  const int p = parallel_, r = rank();
  if (r == p) return p > 0 ? p - 1 : -1;
  if (!ordered && AreShortRowsSideBySide()) return p - 1;
  // Operands that vary with both are most of the memory that is read.
  int along_q = 0, along_p = 0, near_q = 0, near_p = 0;
  // (Places that are computed for each element may be any distance apart.)
  bool near = sliding_window_ && !ordered && p > 0 && !IsChosenAlong(p - 1);
  // If a row has fewer windows than a window has elements, and they fill no vector, a window fills it better.
  near =
      near && !(ranges_.Less(sizes_[p - 1], kFewLanes) == true && ranges_.Less(sizes_[p - 1], sizes_[r - 1]) == true);
  for (const Ins& in : ins_) {
    if (in.access < 0 || !in.inner) continue;
    const Access& a = accesses_[in.access];
    const bool unit_q = ClassOf(a, r - 1) == StrideClass::kUnit;
    const bool unit_p = p > 0 && ClassOf(a, p - 1) == StrideClass::kUnit;
    if (p > 0 && !ordered) {
      // Places from data: along the reduction each lane would have a place of its own, along the other dim they are
      // rows. With a window that slides by one, every window along the other dim is full.
      const bool chosen = in.has_offset && ins_[in.operands[in.op == KernelOp::kStore ? 1 : 0]].inner;
      if (unit_p && (chosen || unit_q)) return p - 1;
    }
    if (near) near = a.coef[p - 1].Constant().value_or(kFarStride) < kFarStride;
    const int weight = p > 0 && a.coef[p - 1] != Expr(0) && a.coef[r - 1] != Expr(0) ? 4 : 1;
    along_q += unit_q ? weight : 0;
    along_p += unit_p ? weight : 0;
    near_q += ElementsApart(ClassOf(a, r - 1)) > 1 ? weight : 0;
    near_p += p > 0 && ElementsApart(ClassOf(a, p - 1)) > 1 ? weight : 0;
  }
  if (near) return p - 1;
  if (ordered) {
    if (p > 0 && along_p > 0 && along_p >= along_q) return p - 1;
    // A scan along a row takes one element after the other, unless it compares; costly instructions beside it run in
    // vectors. A scan that keeps an index takes many rows at a time if they are short.
    const bool many_short_rows = p > 0 && sizes_[p - 1].Constant().value_or(kManyElements) >= kFullVector &&
                                 sizes_[r - 1].Constant().value_or(kFullVector) < kFullVector;
    bool scans = false, compares = true, costly = false;
    for (const Ins& in : ins_) {
      if (in.op == KernelOp::kScan) {
        if (IsArg(in.reduce) && many_short_rows) return p - 1;
        scans = true;
        compares = compares && (IsArg(in.reduce) || in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kMax);
      }
      // (Converting one float16 element is as slow as converting many.)
      costly = costly || (in.inner && (IsCostly(in) || in.type == DType::kFloat16));
    }
    if (scans && costly && many_short_rows) return p - 1;
    return scans && (compares || costly) ? r - 1 : -1;
  }
  if (along_q >= along_p && (along_q > 0 || p == 0)) return r - 1;
  // Elements a few apart are read as adjacent ones are, but for those between them.
  if (along_p == 0 && near_q > near_p) return r - 1;
  return p > 0 ? p - 1 : r - 1;
}

}  // namespace smelt::kernel
