#include "smelt/fuser/kernel_builder.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "smelt/core/base/check.h"

namespace smelt::kernel {
namespace {

// Elements between one window and the next from which on a vector is better filled from one window.
constexpr int64_t kFarStride = 8;

// Elements along a dim from which on a vector is worth filling with them.
constexpr int64_t kFewLanes = 8;

// Float32 elements of the widest vector.
constexpr int64_t kFullVector = 16;

// Elements between one row and the next beyond which the rows of a vector may push each other out of the cache.
constexpr int64_t kFarRow = 512;

// Not a quality hash of data, only colors of a small graph; the same in every process.
uint64_t Mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

void AppendInt(std::string& s, int64_t v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); }

}  // namespace

// --- domain ---------------------------------------------------------------------------------------------------------

void Builder::SetDomain(std::vector<Expr> sizes, int parallel) {
  sizes_ = std::move(sizes);
  parallel_ = parallel;
}

void Builder::SplitDim(int d, const std::vector<Expr>& sizes) {
  SMELT_CHECK(ins_.empty());
  sizes_.erase(sizes_.begin() + d);
  sizes_.insert(sizes_.begin() + d, sizes.begin(), sizes.end());
  if (d < parallel_) parallel_ += static_cast<int>(sizes.size()) - 1;
}

void Builder::SplitIn(Affine& a, int d, const std::vector<Expr>& sizes) {
  const Expr c = a.coef[d];
  std::vector<Expr> parts(sizes.size());
  Expr stride = c;
  for (size_t k = sizes.size(); k-- > 0;) {
    parts[k] = stride;
    stride = stride * sizes[k];
  }
  a.coef.erase(a.coef.begin() + d);
  a.coef.insert(a.coef.begin() + d, parts.begin(), parts.end());
}

// --- indices --------------------------------------------------------------------------------------------------------

Affine Builder::Zero() const {
  Affine a;
  a.coef.assign(sizes_.size(), Expr(0));
  return a;
}
Affine Builder::Dim(int d) const {
  Affine a = Zero();
  a.coef[d] = 1;
  return a;
}
Affine Builder::Dynamic(int instr) const {
  Affine a = Zero();
  a.dynamic.push_back({instr, Expr(1)});
  return a;
}

Affine Builder::Add(const Affine& a, const Affine& b) const {
  Affine out = a;
  out.base = out.base + b.base;
  for (size_t d = 0; d < out.coef.size(); ++d) out.coef[d] = out.coef[d] + b.coef[d];
  for (const auto& [i, f] : b.dynamic) {
    auto it =
        std::lower_bound(out.dynamic.begin(), out.dynamic.end(), i, [](const auto& x, int v) { return x.first < v; });
    if (it != out.dynamic.end() && it->first == i) {
      it->second = it->second + f;
      if (it->second == Expr(0)) out.dynamic.erase(it);
    } else {
      out.dynamic.insert(it, {i, f});
    }
  }
  return out;
}

Affine Builder::Scale(const Affine& a, const Expr& factor) const {
  if (factor == Expr(0)) return Zero();
  if (factor == Expr(1)) return a;
  Affine out = a;
  out.base = out.base * factor;
  for (Expr& c : out.coef) c = c * factor;
  for (auto& [i, f] : out.dynamic) f = f * factor;
  return out;
}

bool Builder::ReductionCoef(const std::vector<Expr>& coef) const {
  for (size_t d = parallel_; d < coef.size(); ++d) {
    if (coef[d] != Expr(0)) return true;
  }
  return false;
}

bool Builder::UsesReduction(const Affine& a) const {
  if (ReductionCoef(a.coef)) return true;
  for (const auto& [i, f] : a.dynamic) {
    if (ins_[i].inner) return true;
  }
  return false;
}

int Builder::LoneDim(const Affine& a) const {
  if (a.base != Expr(0) || !a.dynamic.empty()) return -1;
  int found = -1;
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0)) continue;
    if (found >= 0 || a.coef[d] != Expr(1)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

namespace {

// a / b where that leaves nothing.
std::optional<Expr> ExactQuotient(const Expr& a, const Expr& b) {
  if (a == b) return Expr(1);
  if (b == Expr(0)) return std::nullopt;
  const Expr q = FloorDiv(a, b);
  if (q * b != a) return std::nullopt;
  return q;
}

}  // namespace

std::optional<std::pair<Affine, Affine>> Builder::Divide(const Affine& a, const Expr& m) const {
  Affine quotient = Zero(), remainder = Zero();
  if (a.base.IsConstant() && m.IsConstant()) {
    quotient.base = FloorDiv(a.base, m);
    remainder.base = a.base - quotient.base * m;
  } else if (auto q = ExactQuotient(a.base, m)) {
    quotient.base = *q;
  } else {
    remainder.base = a.base;
  }
  for (size_t d = 0; d < a.coef.size(); ++d) {
    auto q = ExactQuotient(a.coef[d], m);
    (q ? quotient : remainder).coef[d] = q ? *q : a.coef[d];
  }
  for (const auto& [i, factor] : a.dynamic) {
    auto q = ExactQuotient(factor, m);
    if (!q) return std::nullopt;
    quotient.dynamic.push_back({i, *q});
  }
  const auto [low, high] = Bounds(remainder);
  if (!low || !high || !ranges_.LessOrEqual(0, *low).value_or(false) ||
      !ranges_.LessOrEqual(*high, m - 1).value_or(false)) {
    return std::nullopt;
  }
  return std::make_pair(quotient, remainder);
}

std::optional<std::pair<int, std::vector<Expr>>> Builder::PartsFor(const Affine& a, const Expr& m) const {
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0) || ExactQuotient(a.coef[d], m)) continue;
    const auto inner = ExactQuotient(m, a.coef[d]);
    if (!inner || *inner == Expr(1)) continue;
    const auto outer = ExactQuotient(sizes_[d], *inner);
    if (!outer || *outer == Expr(1) || *outer == Expr(0)) continue;
    return std::make_pair(static_cast<int>(d), std::vector<Expr>{*outer, *inner});
  }
  return std::nullopt;
}

std::pair<std::optional<Expr>, std::optional<Expr>> Builder::Bounds(const Affine& a) const {
  if (!a.dynamic.empty()) return {};
  Expr low = a.base, high = a.base;
  for (size_t d = 0; d < a.coef.size(); ++d) {
    if (a.coef[d] == Expr(0)) continue;
    const SymbolRanges::Range r = ranges_.Of(a.coef[d]);
    if (r.min >= 0) {
      high = high + a.coef[d] * (sizes_[d] - 1);
    } else if (r.max <= 0) {
      low = low + a.coef[d] * (sizes_[d] - 1);
    } else {
      return {};
    }
  }
  return {low, high};
}

int Builder::IndexValue(const Affine& a) {
  int v = -1;
  bool any = a.base != Expr(0);
  for (const Expr& c : a.coef) any = any || c != Expr(0);
  if (any || a.dynamic.empty()) {
    Ins in;
    in.is_affine = true;
    in.type = DType::kInt64;
    for (size_t i = 0; i < linears_.size() && in.affine < 0; ++i) {
      if (linears_[i].base == a.base && linears_[i].coef == a.coef) in.affine = static_cast<int>(i);
    }
    if (in.affine < 0) {
      in.affine = static_cast<int>(linears_.size());
      linears_.push_back({a.base, a.coef});
    }
    v = Share(std::move(in));
  }
  for (const auto& [i, f] : a.dynamic) {
    int term = i;
    if (f == Expr(-1)) {
      term = v >= 0 ? term : Op(ScalarOp::kNeg, DType::kInt64, term);
      v = v >= 0 ? Op(ScalarOp::kSub, DType::kInt64, v, term) : term;
      continue;
    }
    if (f != Expr(1)) term = Op(ScalarOp::kMul, DType::kInt64, term, ExprParam(f));
    v = v < 0 ? term : Op(ScalarOp::kAdd, DType::kInt64, v, term);
  }
  return v;
}

// --- instructions ---------------------------------------------------------------------------------------------------

void Builder::Derive(Ins& in) const {
  for (int o : in.operands) {
    const Ins& x = ins_[o];
    in.inner = in.inner || x.inner;
    in.depth = std::max(in.depth, x.depth + (x.op == KernelOp::kReduce ? 1 : 0));
  }
  if (in.access >= 0) in.inner = in.inner || ReductionCoef(accesses_[in.access].coef);
  if (in.is_affine) in.inner = in.inner || ReductionCoef(linears_[in.affine].coef);
  if (in.op == KernelOp::kIndex) in.inner = in.dim >= parallel_;
  if (in.op == KernelOp::kScan) in.inner = true;
  // What is added to: the loop has written it, though its place may be the same for all of the loop.
  if (in.op == KernelOp::kLoad && accesses_[in.access].is_output && rank() > parallel_) in.inner = true;
  if (in.op == KernelOp::kReduce) in.inner = false;
}

int Builder::Add(Ins in) {
  Derive(in);
  ins_.push_back(std::move(in));
  return static_cast<int>(ins_.size()) - 1;
}

std::string Builder::KeyOf(const Ins& in) const {
  std::string s;
  AppendInt(s, static_cast<int>(in.op) | static_cast<int>(in.type) << 8 | static_cast<int>(in.scalar) << 16 |
                   static_cast<int>(in.reduce) << 24);
  AppendInt(s, in.imm.i);
  int64_t bits;
  std::memcpy(&bits, &in.imm.f, sizeof bits);
  AppendInt(s, bits);
  AppendInt(s, in.access);
  AppendInt(s, in.scalar_param);
  AppendInt(s, in.dim);
  AppendInt(s, in.affine);
  AppendInt(s, in.has_offset | in.has_guard << 1 | in.is_affine << 2);
  for (int o : in.operands) AppendInt(s, o);
  return s;
}

int Builder::Share(Ins in) {
  auto [it, fresh] = shared_.try_emplace(KeyOf(in), -1);
  if (fresh) it->second = Add(std::move(in));
  return it->second;
}

int Builder::Const(DType t, double v) {
  Ins in;
  in.type = t;
  in.imm.f = v;
  return Share(std::move(in));
}
int Builder::ConstInt(DType t, int64_t v) {
  Ins in;
  in.type = t;
  in.imm.i = v;
  return Share(std::move(in));
}

int Builder::Op(ScalarOp op, DType t, int a, int b, int c) {
  // Where there is no NaN, and no sign bit of its own, the plain operation is meant.
  if (!IsFloating(ins_[a].type)) {
    if (op == ScalarOp::kFMin) op = ScalarOp::kMin;
    if (op == ScalarOp::kFMax) op = ScalarOp::kMax;
    if (op == ScalarOp::kSignbit) return Op(ScalarOp::kLt, DType::kBool, a, ConstInt(ins_[a].type, 0));
  }
  Ins in;
  in.scalar = op;
  in.type = t;
  for (int x : {a, b, c}) {
    if (x >= 0) in.operands.push_back(x);
  }
  if (Commutes(in) && in.operands[0] > in.operands[1]) std::swap(in.operands[0], in.operands[1]);
  return Share(std::move(in));
}

int Builder::Cast(int a, DType t) {
  if (ins_[a].type == t) return a;
  return Op(ScalarOp::kCast, t, a);
}

std::vector<int> Builder::Inline(const ScalarFn& fn, const std::vector<int>& args) {
  std::vector<int> at(fn.instrs.size(), -1);
  for (size_t i = 0; i < fn.instrs.size(); ++i) {
    const ScalarInstr& s = fn.instrs[i];
    if (s.op == ScalarOp::kArg) {
      at[i] = args[s.imm.i];
      continue;
    }
    if (s.op == ScalarOp::kConst) {
      Ins in;
      in.type = s.type;
      in.imm = s.imm;
      at[i] = Share(std::move(in));
      continue;
    }
    auto operand = [&](int k) { return s.operands[k] < 0 ? -1 : at[s.operands[k]]; };
    if (s.op == ScalarOp::kCast) {
      at[i] = Cast(operand(0), s.type);
      continue;
    }
    at[i] = Op(s.op, s.type, operand(0), operand(1), operand(2));
  }
  std::vector<int> out;
  for (int r : fn.results) out.push_back(at[r]);
  return out;
}

int Builder::ScalarParam(DType t, LoweredKernel::Scalar s) {
  Ins in;
  in.op = KernelOp::kScalarParam;
  in.type = t;
  in.scalar_param = static_cast<int>(scalars_.size());
  scalars_.push_back(std::move(s));
  scalar_types_.push_back(t);
  return Add(std::move(in));
}

int Builder::ExprParam(const Expr& e) {
  if (e == Expr(0)) return ConstInt(DType::kInt64, 0);
  LoweredKernel::Scalar s;
  s.is_expr = true;
  s.expr = e;
  return ScalarParam(DType::kInt64, std::move(s));
}

std::pair<int, int> Builder::Address(ValueId value, bool is_output, int output, const SymbolicGeometry& layout,
                                     const Index& index) {
  SMELT_CHECK_EQ(index.size(), layout.strides.size());
  Affine a = Zero();
  a.base = layout.offset;
  for (size_t k = 0; k < index.size(); ++k) a = Add(a, Scale(index[k], layout.strides[k]));
  Affine dynamic = Zero();
  dynamic.dynamic = std::move(a.dynamic);
  const int offset = dynamic.dynamic.empty() ? -1 : IndexValue(dynamic);
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const Access& x = accesses_[i];
    if (x.value == value && x.is_output == is_output && x.output == output && x.dtype == layout.dtype &&
        x.offset == a.base && x.coef == a.coef) {
      return {static_cast<int>(i), offset};
    }
  }
  accesses_.push_back({value, is_output, output, layout.dtype, a.base, a.coef});
  return {static_cast<int>(accesses_.size()) - 1, offset};
}

int Builder::Load(int access, int offset, int guard) {
  Ins in;
  in.op = KernelOp::kLoad;
  in.type = accesses_[access].dtype;
  in.access = access;
  if (offset >= 0) in.operands.push_back(offset);
  if (guard >= 0) in.operands.push_back(guard);
  in.has_offset = offset >= 0;
  in.has_guard = guard >= 0;
  return Share(std::move(in));
}

void Builder::Store(int access, int value, int offset, int guard) {
  Ins in;
  in.op = KernelOp::kStore;
  in.type = accesses_[access].dtype;
  in.access = access;
  in.operands.push_back(value);
  if (offset >= 0) in.operands.push_back(offset);
  if (guard >= 0) in.operands.push_back(guard);
  in.has_offset = offset >= 0;
  in.has_guard = guard >= 0;
  stores_.push_back(Add(std::move(in)));
}

int Builder::Reduce(ReduceKind kind, int value, int index, bool scan) {
  Ins in;
  in.op = scan ? KernelOp::kScan : KernelOp::kReduce;
  in.type = ins_[value].type;
  in.reduce = kind;
  in.operands.push_back(value);
  if (index >= 0) {
    in.operands.push_back(index);
    in.type = DType::kInt64;
  }
  return Share(std::move(in));
}

int Builder::CheckIndex(int index, int size) {
  Ins in;
  in.op = KernelOp::kCheckIndex;
  in.type = DType::kInt64;
  in.operands = {index, size};
  return Share(std::move(in));
}

// --- canonical form -------------------------------------------------------------------------------------------------

LoweredKernel Builder::Finish(bool ordered) {
  MarkReachable();
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

// -1: dim a belongs before b, 1: after, 0: no preference. The accesses vote in order, stores first; the first that
// tells them apart decides.
int Builder::CompareStride(int a, int b) const {
  auto vote = [&](const std::vector<Expr>& coef) {
    if (coef[a] == Expr(0) || coef[b] == Expr(0) || coef[a] == coef[b]) return 0;
    const std::optional<bool> less = ranges_.Less(coef[a], coef[b]);
    if (less && *less) return 1;
    const std::optional<bool> more = ranges_.Less(coef[b], coef[a]);
    if (more && *more) return -1;
    // Strides of symbolic sizes: the one that is a multiple of the other is the wider.
    if (Mod(coef[a], coef[b]) == Expr(0)) return -1;
    if (Mod(coef[b], coef[a]) == Expr(0)) return 1;
    return 0;
  };
  for (const bool stores : {true, false}) {
    for (size_t i = 0; i < ins_.size(); ++i) {
      if (!reachable_[i] || ins_[i].access < 0 || (ins_[i].op == KernelOp::kStore) != stores) continue;
      if (int v = vote(accesses_[ins_[i].access].coef)) return v;
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

// Where data choose a place for each index of the last dim, and what most accesses find there runs along another dim,
// vectors are read whole along that one. What is stored may then lie apart.
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

void Builder::ArrangeDims(bool ordered) {
  std::vector<int> order[2];
  for (int d = 0; d < rank(); ++d) {
    if (sizes_[d] == Expr(1)) continue;
    order[d >= parallel_].push_back(d);
  }
  // Something must be left to reduce over.
  if (rank() > parallel_ && order[1].empty()) order[1].push_back(rank() - 1);
  for (int part = 0; part < 2; ++part) {
    if (part == 1 && ordered) break;
    // Insertion sort: stable, and sound where the votes are not transitive.
    std::vector<int>& dims = order[part];
    for (size_t i = 1; i < dims.size(); ++i) {
      for (size_t j = i; j > 0 && CompareStride(dims[j - 1], dims[j]) > 0; --j) std::swap(dims[j - 1], dims[j]);
    }
  }
  PutRunsLast(order[0]);
  // Transposed operands are read by tiles of the last two dims: the one along which most of them run comes last but
  // one.
  if (rank() == parallel_ && order[0].size() > 2) {
    std::vector<int>& dims = order[0];
    size_t best = dims.size() - 2;
    int most = 0;
    for (size_t k = dims.size() - 1; k-- > 0;) {
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
  // Neighbours a, b collapse where every use treats a as b's multiple.
  auto collapses = [&](int a, int b) {
    auto fits = [&](const std::vector<Expr>& coef) { return coef[a] == coef[b] * sizes_[b]; };
    for (size_t i = 0; i < ins_.size(); ++i) {
      if (!reachable_[i]) continue;
      if (ins_[i].access >= 0 && !fits(accesses_[ins_[i].access].coef)) return false;
      if (ins_[i].is_affine && !fits(linears_[ins_[i].affine].coef)) return false;
    }
    return true;
  };
  // A vector would not be filled by the last dim. The next one is the vector's, whose results are stored apart, if no
  // operand runs along the last, or if data choose places along it that are the same for all of the next.
  if (rank() == parallel_ && order[0].size() > 1 &&
      sizes_[order[0].back()].Constant().value_or(kFewLanes) < kFewLanes) {
    std::vector<int>& dims = order[0];
    const int last = dims.back(), next = dims[dims.size() - 2];
    bool runs = false;
    for (size_t i = 0; i < ins_.size(); ++i) {
      if (!reachable_[i] || ins_[i].op != KernelOp::kLoad) continue;
      runs = runs || accesses_[ins_[i].access].coef[last] == Expr(1);
    }
    const bool chosen = IsChosenAlong(last) && !IsChosenAlong(next);
    if ((!runs || chosen) && !collapses(next, last) && sizes_[next].Constant().value_or(0) >= kFullVector) {
      std::swap(dims[dims.size() - 2], dims.back());
    }
  }
  std::vector<int> kept;
  int parallel = 0;
  for (int part = 0; part < 2; ++part) {
    std::vector<int> dims;
    for (size_t i = order[part].size(); i-- > 0;) {
      const int d = order[part][i];
      if (!dims.empty() && collapses(d, dims.back())) {
        sizes_[dims.back()] = sizes_[dims.back()] * sizes_[d];
      } else {
        dims.push_back(d);
      }
    }
    kept.insert(kept.end(), dims.rbegin(), dims.rend());
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
  // expansion are made first, and instructions stay in an order in which operands come earlier, by rebuilding the list.
  std::vector<Ins> old = std::move(ins_);
  ins_.clear();
  shared_.clear();
  std::vector<int> at(old.size(), -1);
  std::vector<int> stores;
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
    in.inner = false;
    in.depth = 0;
    if (in.op == KernelOp::kStore) {
      at[i] = Add(std::move(in));
      stores.push_back(at[i]);
    } else if (in.op == KernelOp::kScalarParam) {
      at[i] = Add(std::move(in));
    } else {
      if (Commutes(in) && in.operands[0] > in.operands[1]) std::swap(in.operands[0], in.operands[1]);
      at[i] = Share(std::move(in));
    }
  }
  stores_ = std::move(stores);
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

StrideClass Builder::ClassOf(const Access& a, int d) const {
  if (a.coef[d] == Expr(0)) return StrideClass::kZero;
  if (a.coef[d] == Expr(1)) return StrideClass::kUnit;
  const bool may_be_vectorized = d == parallel_ - 1 || d == rank() - 1;
  return may_be_vectorized && a.coef[d] == Expr(2) ? StrideClass::kTwo : StrideClass::kAny;
}

// A color per instruction that depends on what it computes and on what is made of it, not on where it stands. Equal
// colors are (but for chance) instructions that a renaming of the kernel exchanges, so that any order of them gives the
// same kernel.
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
  if (p == 0 || rank() != p + 1 || sizes_[p].Constant().value_or(kFewLanes + 1) > kFewLanes) return false;
  // What is left over after the last full vector costs five times as much a row as a row by itself.
  const int64_t rows = sizes_[p - 1].Constant().value_or(0);
  if (rows == 0 || (rows % kFullVector != 0 && rows < 8 * kFullVector)) return false;
  return std::all_of(ins_.begin(), ins_.end(), [&](const Ins& in) {
    return in.access < 0 || !in.inner ||
           std::abs(accesses_[in.access].coef[p - 1].Constant().value_or(kFarRow + 1)) <= kFarRow;
  });
}

int Builder::ChooseVectorDim(bool ordered) const {
  const int p = parallel_, r = rank();
  if (r == p) return p > 0 ? p - 1 : -1;
  if (!ordered && AreShortRowsSideBySide()) return p - 1;
  // What varies with both is most of the memory that is read.
  int along_q = 0, along_p = 0;
  // (Places that are computed for each element are as far apart as they like.)
  bool near = sliding_window_ && !ordered && p > 0 && !IsChosenAlong(p - 1);
  for (const Ins& in : ins_) {
    if (in.access < 0 || !in.inner) continue;
    const Access& a = accesses_[in.access];
    const bool unit_q = ClassOf(a, r - 1) == StrideClass::kUnit;
    const bool unit_p = p > 0 && ClassOf(a, p - 1) == StrideClass::kUnit;
    if (p > 0 && !ordered) {
      // Places that come from data: along the reduction each lane would have its own, along the other dim they are
      // rows. And a window that slides by one: along the other dim every window is full.
      const bool chosen = in.has_offset && ins_[in.operands[in.op == KernelOp::kStore ? 1 : 0]].inner;
      if (unit_p && (chosen || unit_q)) return p - 1;
    }
    if (near) near = a.coef[p - 1].Constant().value_or(kFarStride) < kFarStride;
    const int weight = p > 0 && a.coef[p - 1] != Expr(0) && a.coef[r - 1] != Expr(0) ? 4 : 1;
    along_q += unit_q ? weight : 0;
    along_p += unit_p ? weight : 0;
  }
  if (near) return p - 1;
  if (ordered) {
    if (p > 0 && along_p > 0 && along_p >= along_q) return p - 1;
    // A scan along a row takes one element after the other, unless it compares; what is costly beside it runs in
    // vectors. One that keeps an index takes many rows at a time where they are short.
    const bool many_short_rows = p > 0 && sizes_[p - 1].Constant().value_or(0) >= kFullVector &&
                                 sizes_[r - 1].Constant().value_or(kFullVector) < kFullVector;
    bool scans = false, compares = true, costly = false;
    for (const Ins& in : ins_) {
      if (in.op == KernelOp::kScan) {
        if (IsArg(in.reduce) && many_short_rows) return p - 1;
        scans = true;
        compares = compares && (IsArg(in.reduce) || in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kMax);
      }
      costly = costly || (in.inner && IsCostly(in));
    }
    return scans && (compares || costly) ? r - 1 : -1;
  }
  if (along_q >= along_p && (along_q > 0 || p == 0)) return r - 1;
  return p > 0 ? p - 1 : r - 1;
}

// Dearer than a store and a load from the nearest cache.
bool Builder::IsCostly(const Ins& in) {
  return in.op == KernelOp::kScalar &&
         (in.scalar >= ScalarOp::kExp || in.scalar == ScalarOp::kPow || in.scalar == ScalarOp::kAtan2);
}

// In additions of a vector.
int Builder::WorkOf(const Ins& in) {
  if (in.op == KernelOp::kLoad) return in.has_guard ? 6 : in.has_offset ? 10 : 1;
  if (in.op != KernelOp::kScalar) return 0;
  if (in.scalar == ScalarOp::kCast) return in.type == DType::kBFloat16 || in.type == DType::kFloat16 ? 5 : 1;
  return in.scalar == ScalarOp::kDiv || in.scalar == ScalarOp::kSqrt ? 6 : 1;
}

// A result of instruction `i`'s type, at each point of the loops an element of its own, which is stored after place
// `first`, not before `last`, where `i` is needed once more, and which nothing else is kept in; -1: there is none.
int Builder::FindRoom(int i, int first, int last, const std::vector<std::pair<int, int>>& roots,
                      const absl::flat_hash_map<int, std::pair<int, int>>& kept) const {
  for (const auto& [root, place] : roots) {
    const Ins& store = ins_[root];
    const Access& a = accesses_[store.access];
    if (a.dtype != ins_[i].type || store.has_offset || store.has_guard || !store.inner || place <= first ||
        place < last)
      continue;
    bool whole = true;
    for (const Expr& c : a.coef) whole = whole && c != Expr(0);
    if (!whole) continue;
    int users = 0;  // other instructions at that memory
    for (size_t k = 0; k < ins_.size(); ++k) {
      if (ins_[k].access >= 0 && accesses_[ins_[k].access].is_output && accesses_[ins_[k].access].output == a.output)
        ++users;
    }
    if (users == 1) return store.access;
  }
  return -1;
}

LoweredKernel Builder::Emit(bool ordered) {
  LoweredKernel out;
  KernelSpec& spec = out.spec;
  spec.parallel_rank = parallel_;
  spec.reduction_rank = rank() - parallel_;
  spec.vector_dim = ChooseVectorDim(ordered);
  out.sizes = sizes_;

  // Places: 2 * depth for the outer phase before the reductions of that depth, 2 * depth + 1 for the inner one.
  auto place_of_root = [&](int i) {
    return 2 * ins_[i].depth + (ins_[i].inner || ins_[i].op == KernelOp::kReduce ? 1 : 0);
  };
  auto place_for = [&](int i, int requested) {
    const Ins& in = ins_[i];
    if (in.op == KernelOp::kReduce) return 2 * in.depth + 1;
    if (in.inner) return requested;
    return 2 * in.depth;
  };
  auto ordered_operands = [&](int i) {
    std::vector<int> o = ins_[i].operands;
    if (Commutes(ins_[i]) && color_[o[1]] < color_[o[0]]) std::swap(o[0], o[1]);
    return o;
  };
  struct Frame {
    int instr, place;
    std::vector<int> operands;
    size_t next = 0;
  };
  // Kept[i] = (the first place of i, a load of what was stored there): see KeepCostly.
  absl::flat_hash_map<int, std::pair<int, int>> kept;
  auto resolve = [&](int i, int place) {
    auto it = kept.find(i);
    return it != kept.end() && place > it->second.first ? it->second.second : i;
  };
  std::map<int, std::vector<int>> places;              // instructions by place, in order
  absl::flat_hash_map<std::pair<int, int>, int> seen;  // (instruction, place)
  auto walk = [&](const std::vector<std::pair<int, int>>& roots) {
    places.clear();
    seen.clear();
    for (const auto& [root, root_place] : roots) {
      std::vector<Frame> stack;
      auto push = [&](int i, int place) {
        if (seen.contains({i, place})) return;
        seen[{i, place}] = -1;
        stack.push_back({i, place, ordered_operands(i)});
      };
      push(root, root_place);
      while (!stack.empty()) {
        if (stack.back().next < stack.back().operands.size()) {
          const int here = stack.back().place;
          const int o = resolve(stack.back().operands[stack.back().next++], here);
          push(o, place_for(o, here));
        } else {
          places[stack.back().place].push_back(stack.back().instr);
          stack.pop_back();
        }
      }
    }
    // A point reads all that it needs before it writes: a result may stand where an operand did, and another result may
    // read that operand through a view of its own. Not where results are read again (scatters): the order is theirs.
    for (const Ins& in : ins_) {
      if (in.op == KernelOp::kLoad && in.access >= 0 && accesses_[in.access].is_output) return;
    }
    for (auto& [place, list] : places) {
      std::stable_partition(list.begin(), list.end(), [&](int i) { return ins_[i].op != KernelOp::kStore; });
    }
  };
  std::vector<std::pair<int, int>> roots;  // instruction, place
  for (int i : stores_) roots.push_back({i, place_of_root(i)});
  std::stable_sort(roots.begin(), roots.end(), [&](const auto& a, const auto& b) {
    return a.second != b.second ? a.second < b.second : color_[a.first] < color_[b.first];
  });
  walk(roots);
  // A costly value that several passes over the row need is kept where a result will stand that is stored later: the
  // exponentials of a softmax. Nothing else is in that memory: a kernel that reduces never writes over what it reads.
  // Then what takes many cheap steps: sums rounded to bfloat16 again and again, a choice among a list's parts.
  const auto is_long = [&](int i, int place) {
    int work = 0;
    std::vector<int> todo = {i};
    absl::flat_hash_set<int> met = {i};
    while (!todo.empty() && work <= kLong) {
      const Ins& in = ins_[todo.back()];
      todo.pop_back();
      if (!in.inner) continue;
      work += WorkOf(in);
      for (int o : in.operands) {
        o = resolve(o, place);
        if (met.insert(o).second) todo.push_back(o);
      }
    }
    return work > kLong;
  };
  bool only_costly = true;
  for (bool again = true; again || only_costly;) {
    if (!again) only_costly = false;
    again = false;
    int best = -1, first = 0, last = 0;
    for (const auto& [place, list] : places) {
      if (place % 2 == 0) continue;
      // Of a long computation the end.
      for (size_t k = 0; k < list.size(); ++k) {
        const int i = only_costly ? list[k] : list[list.size() - 1 - k];
        if (!ins_[i].inner || kept.contains(i) || ins_[i].op != KernelOp::kScalar) continue;
        if (only_costly ? !IsCostly(ins_[i]) : !is_long(i, place)) continue;
        int later = 0;
        for (const auto& [other, unused] : places) {
          if (other > place && seen.contains({i, other})) later = other;
        }
        if (later > 0 && best < 0) {
          best = i;
          first = place;
          last = later;
        }
      }
      if (best >= 0) break;
    }
    if (best < 0) continue;
    const int access = FindRoom(best, first, last, roots, kept);
    if (access < 0) {
      kept[best] = {INT_MAX, -1};  // not asked again
      again = true;
      continue;
    }
    Ins store;
    store.op = KernelOp::kStore;
    store.type = ins_[best].type;
    store.access = access;
    store.operands = {best};
    const int s = Add(std::move(store));
    Ins load;
    load.op = KernelOp::kLoad;
    load.type = ins_[best].type;
    load.access = access;
    const int l = Add(std::move(load));
    color_.resize(ins_.size(), color_[best] ^ 0x5bd1e995);
    kept[best] = {first, l};
    roots.push_back({s, first});
    std::stable_sort(roots.begin(), roots.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    walk(roots);
    again = true;
  }

  std::vector<int> param_of(accesses_.size(), -1), scalar_of(scalars_.size(), -1);
  for (auto& [place, list] : places) {
    // A result may lie where another one's operand does: all of a point is read before any of it is written.
    std::stable_partition(list.begin(), list.end(), [&](int i) { return ins_[i].op != KernelOp::kStore; });
    KernelPhase phase;
    phase.inner = place % 2 == 1;
    for (int i : list) {
      const Ins& in = ins_[i];
      KernelInstr k;
      k.op = in.op;
      k.type = in.type;
      k.scalar = in.scalar;
      k.imm = in.imm;
      k.has_offset = in.has_offset;
      k.has_guard = in.has_guard;
      k.dim = in.dim;
      k.reduce = in.reduce;
      for (int o : ordered_operands(i)) {
        const int r = resolve(o, place);
        k.operands.push_back(seen.at({r, place_for(r, place)}));
      }
      if (in.access >= 0) {
        const Access& a = accesses_[in.access];
        int& p = param_of[in.access];
        if (p < 0) {
          p = static_cast<int>(spec.params.size());
          KernelParam param;
          param.dtype = a.dtype;
          LoweredKernel::Param lowered;
          lowered.value = a.value;
          lowered.is_output = a.is_output;
          lowered.output = a.output;
          lowered.offset = a.offset;
          Expr elements = 1;
          for (int d = 0; d < rank(); ++d) {
            const StrideClass c = ClassOf(a, d);
            param.strides.push_back(c == StrideClass::kTwo && d != spec.vector_dim ? StrideClass::kAny : c);
            lowered.strides.push_back(a.coef[d]);
            if (a.coef[d] != Expr(0)) elements = elements * sizes_[d];
          }
          out.bytes = out.bytes + elements * ItemSize(a.dtype);
          spec.params.push_back(std::move(param));
          out.params.push_back(std::move(lowered));
        }
        k.param = p;
        (in.op == KernelOp::kLoad ? spec.params[p].is_read : spec.params[p].is_written) = true;
      }
      if (in.op == KernelOp::kScalarParam) {
        int& s = scalar_of[in.scalar_param];
        if (s < 0) {
          s = static_cast<int>(spec.scalars.size());
          spec.scalars.push_back(scalar_types_[in.scalar_param]);
          out.scalars.push_back(scalars_[in.scalar_param]);
        }
        k.dim = s;
      }
      seen[{i, place}] = static_cast<int>(spec.instrs.size());
      phase.instrs.push_back(static_cast<int>(spec.instrs.size()));
      spec.instrs.push_back(std::move(k));
    }
    spec.phases.push_back(std::move(phase));
  }
  return out;
}

}  // namespace smelt::kernel
