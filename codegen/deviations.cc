#include "smelt/codegen/deviations.h"

#include <algorithm>
#include <utility>

#include "smelt/codegen/equal_values.h"

namespace smelt {
namespace {

// Larger kernels are not searched for them.
constexpr int kMaxInstrs = 1000;
// The least part of its terms that a sum of squared deviations must be: then it has lost 16 of float64's 53 bits, while
// float32 has 24.
constexpr double kLeastPart = 0x1p-16;

// A phase that computes a sum of squared deviations and nothing else.
struct Pair {
  int sum, mean, deviations;
  int phase;  // of `deviations`
};

// A sum of deviations beside that of their squares.
struct Remainder {
  int mean, sum, squares;
  int phase;  // of both sums
};
// For float32: if the mean of the squared deviations is at least this part of the mean's square, the sum of deviations
// does not matter. The mean is wrong by some 2^-23 of itself, thus by less than 2^-20 of a deviation.
constexpr double kFarMean = 0x1p-6;

bool IsScalar(const KernelInstr& in, ScalarOp op, DType type = DType::kFloat64) {
  return in.op == KernelOp::kScalar && in.scalar == op && in.type == type;
}

bool IsSum(const KernelInstr& in, DType type = DType::kFloat64) {
  return in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && in.type == type;
}

class Finder {
 public:
  explicit Finder(const KernelSpec& spec) : s_(spec), users_(spec.instrs.size()), phase_of_(spec.instrs.size()) {
    for (size_t i = 0; i < s_.instrs.size(); ++i) {
      for (int o : s_.instrs[i].operands) users_[o].push_back(static_cast<int>(i));
    }
    for (size_t k = 0; k < s_.phases.size(); ++k) {
      for (int i : s_.phases[k].instrs) phase_of_[i] = static_cast<int>(k);
    }
  }

  std::vector<Pair> Find() const {
    std::vector<Pair> found;
    for (size_t k = 0; k < s_.phases.size(); ++k) {
      if (!s_.phases[k].inner || s_.phases[k].instrs.empty()) continue;
      const int q = s_.phases[k].instrs.back();
      if (!IsSum(s_.instrs[q]) || !IsForIt(s_.phases[k], q) || !EndsAsFloat(q)) continue;
      if (std::optional<Pair> p = PairOf(q)) found.push_back(*p);
    }
    return found;
  }

  std::vector<Remainder> FindRemainders() const {
    std::vector<Remainder> found;
    for (size_t k = 0; k < s_.phases.size(); ++k) {
      if (!s_.phases[k].inner || !IsForIt(s_.phases[k], /*q=*/-1)) continue;
      Remainder r = {-1, -1, -1, static_cast<int>(k)};
      for (int i : s_.phases[k].instrs) {
        if (!IsSum(s_.instrs[i], DType::kFloat32)) continue;
        const KernelInstr& term = Operand(s_.instrs[i], 0);
        if (IsScalar(term, ScalarOp::kMul, DType::kFloat32) && term.operands[0] == term.operands[1]) r.squares = i;
        if (IsScalar(term, ScalarOp::kSub, DType::kFloat32) && IsMean(term.operands[1], r.phase)) {
          r.sum = i;
          r.mean = term.operands[1];
        }
      }
      if (r.sum < 0 || r.squares < 0) continue;
      if (Operand(s_.instrs[r.squares], 0).operands[0] == s_.instrs[r.sum].operands[0]) found.push_back(r);
    }
    return found;
  }

 private:
  bool IsMean(int i, int before) const {
    return phase_of_[i] < before && !s_.phases[phase_of_[i]].inner &&
           IsScalar(s_.instrs[i], ScalarOp::kDiv, DType::kFloat32) && IsSum(Operand(s_.instrs[i], 0), DType::kFloat32);
  }

  const KernelInstr& Operand(const KernelInstr& in, int k) const { return s_.instrs[in.operands[k]]; }

  // Returns whether the phase can be left out where q is known, or where all its sums are (-1).
  bool IsForIt(const KernelPhase& phase, int q) const {
    return std::all_of(phase.instrs.begin(), phase.instrs.end(), [&](int i) {
      const KernelInstr& in = s_.instrs[i];
      return i == q || (q < 0 && in.op == KernelOp::kReduce) || in.op == KernelOp::kScalar ||
             in.op == KernelOp::kLoad || in.op == KernelOp::kIndex;
    });
  }

  // Returns whether everything that is computed from it is rounded to float32 at most, and none of it can be near 0
  // where it is not.
  bool EndsAsFloat(int i) const {
    return std::all_of(users_[i].begin(), users_[i].end(), [&](int u) {
      const KernelInstr& in = s_.instrs[u];
      if (in.op != KernelOp::kScalar) return false;
      if (in.scalar == ScalarOp::kCast) return in.type == DType::kFloat32 || IsHalf(in.type);
      const bool keeps = IsScalar(in, ScalarOp::kDiv) || IsScalar(in, ScalarOp::kMul) || IsScalar(in, ScalarOp::kSqrt);
      return keeps && EndsAsFloat(u);
    });
  }

  std::optional<Pair> PairOf(int q) const {
    const KernelInstr& square = Operand(s_.instrs[q], 0);
    if (!IsScalar(square, ScalarOp::kMul) || square.operands[0] != square.operands[1]) return std::nullopt;
    const KernelInstr& less = Operand(square, 0);
    if (!IsScalar(less, ScalarOp::kSub)) return std::nullopt;
    const int x = less.operands[0], mean = less.operands[1];
    if (!WasNarrow(x) || !IsScalar(s_.instrs[mean], ScalarOp::kDiv)) return std::nullopt;
    const int sum = s_.instrs[mean].operands[0];
    if (!IsSum(s_.instrs[sum]) || phase_of_[mean] >= phase_of_[q] || s_.phases[phase_of_[mean]].inner)
      return std::nullopt;
    if (!EqualValues(s_, s_.instrs[sum].operands[0])[x]) return std::nullopt;
    return Pair{sum, mean, q, phase_of_[q]};
  }

  // Returns whether its square has no more bits than float64, and no other exponents.
  bool WasNarrow(int x) const {
    const KernelInstr& in = s_.instrs[x];
    return IsScalar(in, ScalarOp::kCast) && ItemSize(Operand(in, 0).type) <= 4;
  }

  const KernelSpec& s_;
  std::vector<std::vector<int>> users_;
  std::vector<int> phase_of_;
};

// Rebuilds the spec phase by phase, with additions.
class Rewriter {
 public:
  Rewriter(const KernelSpec& spec, const std::vector<Pair>& pairs, const std::vector<Remainder>& remainders)
      : s_(spec), pairs_(pairs), remainders_(remainders), now_(spec.instrs.size()) {
    out_.spec = spec;
    out_.spec.instrs.clear();
    out_.spec.phases.clear();
  }

  Deviations Rewrite() && {
    std::vector<int> squares(pairs_.size());
    for (size_t k = 0; k < s_.phases.size(); ++k) {
      int skip = -1, pair = -1;
      for (size_t p = 0; p < pairs_.size(); ++p) {
        if (pairs_[p].phase != static_cast<int>(k)) continue;
        pair = static_cast<int>(p);
        Enter(false);
        skip = Choose(pairs_[p], squares[p]);
      }
      const Remainder* remainder = nullptr;
      for (const Remainder& r : remainders_) {
        if (r.phase == static_cast<int>(k)) remainder = &r;
      }
      Enter(s_.phases[k].inner, skip);
      for (int i : s_.phases[k].instrs) {
        if (remainder != nullptr && remainder->sum == i) continue;
        KernelInstr in = s_.instrs[i];
        for (int& o : in.operands) o = now_[o];
        now_[i] = Add(std::move(in));
        for (size_t p = 0; p < pairs_.size(); ++p) {
          if (pairs_[p].sum == i) squares[p] = SumOfSquares(out_.spec.instrs[now_[i]].operands[0]);
          if (pairs_[p].sum == i || pairs_[p].deviations == i) out_.is_plain[now_[i]] = true;
        }
      }
      if (remainder != nullptr) SumApart(*remainder);
      if (pair < 0) continue;
      int& q = now_[pairs_[pair].deviations];
      Enter(false);
      q = Scalar(ScalarOp::kSelect, DType::kFloat64, {skip, known_, q});
    }
    return std::move(out_);
  }

 private:
  void Enter(bool inner, int unless = -1) {
    std::vector<KernelPhase>& phases = out_.spec.phases;
    if (!inner && !phases.empty() && !phases.back().inner) return;
    phases.push_back(KernelPhase{inner, {}});
    out_.unless.push_back(unless);
  }

  int Add(KernelInstr in) {
    const int i = static_cast<int>(out_.spec.instrs.size());
    out_.spec.phases.back().instrs.push_back(i);
    out_.spec.instrs.push_back(std::move(in));
    out_.is_plain.push_back(false);
    return i;
  }
  int Scalar(ScalarOp op, DType t, std::vector<int> operands) {
    KernelInstr in;
    in.type = t;
    in.scalar = op;
    in.operands = std::move(operands);
    return Add(std::move(in));
  }
  int Number(DType t, double v) {
    const int i = Scalar(ScalarOp::kConst, t, {});
    out_.spec.instrs[i].imm.f = v;
    return i;
  }
  int Scalar(ScalarOp op, int a, int z) { return Scalar(op, DType::kFloat64, {a, z}); }

  int SumOfSquares(int x) {
    KernelInstr in;
    in.op = KernelOp::kReduce;
    in.type = DType::kFloat64;
    in.operands = {Scalar(ScalarOp::kMul, x, x)};
    const int sum = Add(std::move(in));
    out_.is_plain[sum] = true;
    return sum;
  }

  // Computes the sum of deviations in a phase of its own, or 0.
  void SumApart(const Remainder& r) {
    constexpr DType t = DType::kFloat32;
    Enter(false);
    const int squares = Scalar(ScalarOp::kMul, t, {now_[r.mean], now_[r.mean]});
    const int all = Scalar(ScalarOp::kMul, t, {squares, Scalar(ScalarOp::kCast, t, {Count()})});
    const int least = Scalar(ScalarOp::kMul, t, {all, Number(t, kFarMean)});
    const int no_matter = Scalar(ScalarOp::kGe, DType::kBool, {now_[r.squares], least});
    Enter(true, no_matter);
    std::vector<int> again(s_.instrs.size(), -1);
    const int term = Again(s_.instrs[r.sum].operands[0], r.phase, again);
    KernelInstr sum = s_.instrs[r.sum];
    sum.operands = {term};
    const int lost = Add(std::move(sum));
    Enter(false);
    now_[r.sum] = Scalar(ScalarOp::kSelect, t, {no_matter, Number(t, 0), lost});
  }

  // Repeats the instruction of phase `phase`, with the operands that it has there.
  int Again(int i, int phase, std::vector<int>& again) {
    const std::vector<int>& there = s_.phases[phase].instrs;
    if (std::find(there.begin(), there.end(), i) == there.end()) return now_[i];
    if (again[i] >= 0) return again[i];
    KernelInstr in = s_.instrs[i];
    for (int& o : in.operands) o = Again(o, phase, again);
    return again[i] = Add(std::move(in));
  }

  // The number of elements that are reduced, in float64.
  int Count() {
    int count = -1;
    for (int d = s_.parallel_rank; d < s_.rank(); ++d) {
      KernelInstr in;
      in.op = KernelOp::kDimSize;
      in.type = DType::kInt64;
      in.dim = d;
      const int size = Scalar(ScalarOp::kCast, DType::kFloat64, {Add(std::move(in))});
      count = count < 0 ? size : Scalar(ScalarOp::kMul, count, size);
    }
    return count;
  }

  // Computes the sum of deviations into `known_`. Returns whether it is near enough.
  int Choose(const Pair& p, int squares) {
    const int sum = now_[p.sum], mean = now_[p.mean];
    const int moved = Scalar(ScalarOp::kMul, Count(), mean);
    const int less = Scalar(ScalarOp::kSub, Scalar(ScalarOp::kAdd, sum, sum), moved);
    known_ = Scalar(ScalarOp::kSub, squares, Scalar(ScalarOp::kMul, mean, less));
    const int terms = Scalar(ScalarOp::kAdd, squares, Scalar(ScalarOp::kMul, mean, moved));
    const int part = Number(DType::kFloat64, kLeastPart);
    return Scalar(ScalarOp::kGe, DType::kBool, {known_, Scalar(ScalarOp::kMul, terms, part)});
  }

  const KernelSpec& s_;
  const std::vector<Pair>& pairs_;
  const std::vector<Remainder>& remainders_;
  std::vector<int> now_;  // where instructions are now
  int known_ = -1;
  Deviations out_;
};

}  // namespace

std::optional<Deviations> FindDeviations(const KernelSpec& spec) {
  if (spec.instrs.size() > kMaxInstrs) return std::nullopt;
  const Finder finder(spec);
  const std::vector<Pair> pairs = finder.Find();
  const std::vector<Remainder> remainders = finder.FindRemainders();
  if (pairs.empty() && remainders.empty()) return std::nullopt;
  return Rewriter(spec, pairs, remainders).Rewrite();
}

}  // namespace smelt
