#include "smelt/codegen/interior.h"

#include <utility>

namespace smelt {
namespace {

// In larger kernels a second loop costs more compilation than it saves.
constexpr size_t kMaxInstrs = 300;

bool IsScalar(const KernelInstr& in, ScalarOp op) { return in.op == KernelOp::kScalar && in.scalar == op; }

bool MaySetStatus(const KernelInstr& in) {
  if (in.op == KernelOp::kCheckIndex) return true;
  return in.op == KernelOp::kScalar && !IsFloating(in.type) &&
         (in.scalar == ScalarOp::kDivTrunc || in.scalar == ScalarOp::kDivFloor || in.scalar == ScalarOp::kRemFloor);
}

class InteriorFinder {
 public:
  InteriorFinder(const KernelSpec& spec, const std::vector<bool>& varying) : s_(spec), varying_(varying) {}

  std::optional<Interior> Find() {
    if (s_.reduction_rank > 0 || s_.sequential || s_.vector_dim < 0 || s_.phases.size() != 1 ||
        s_.instrs.size() > kMaxInstrs) {
      return std::nullopt;
    }
    holds_.assign(s_.instrs.size(), std::nullopt);
    std::vector<size_t> guarded;
    for (size_t i = 0; i < s_.instrs.size(); ++i) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op == KernelOp::kLoad && in.has_guard && TakeGuard(in.operands.back())) guarded.push_back(i);
    }
    if (out_.bounds.empty()) return std::nullopt;
    out_.spec = s_;
    Simplify(out_.spec);
    const std::vector<bool> needed = Needed(out_.spec);
    for (size_t i : guarded) {
      if (!needed[i]) return std::nullopt;
    }
    KeepNeeded(needed, out_.spec);
    out_.outside = Outside(s_.instrs[guarded[0]].operands.back());
    return std::move(out_);
  }

 private:
  // Takes the guards of a load that hold in the interior, as far as they are comparisons with the index. Returns
  // whether there are any.
  bool TakeGuard(int i) {
    const KernelInstr& in = s_.instrs[i];
    if (holds_[i]) return true;
    if (!varying_[i]) return false;
    if (IsScalar(in, ScalarOp::kAnd)) {
      const bool first = TakeGuard(in.operands[0]), second = TakeGuard(in.operands[1]);
      return first || second;
    }
    std::optional<InteriorBound> bound = BoundOf(in);
    if (!bound) return false;
    out_.bounds.push_back(*std::move(bound));
    holds_[i] = true;
    return true;
  }

  // A comparison of the index plus an invariant with an invariant.
  std::optional<InteriorBound> BoundOf(const KernelInstr& in) const {
    if (in.op != KernelOp::kScalar) return std::nullopt;
    const bool less = in.scalar == ScalarOp::kLt || in.scalar == ScalarOp::kLe;
    const bool greater = in.scalar == ScalarOp::kGt || in.scalar == ScalarOp::kGe;
    if (!less && !greater) return std::nullopt;
    int index = in.operands[0], limit = in.operands[1];
    const bool swapped = varying_[limit];
    if (swapped) std::swap(index, limit);
    if (varying_[limit]) return std::nullopt;
    InteriorBound bound;
    bound.limit = limit;
    bound.is_lower = greater != swapped;
    const bool or_equal = in.scalar == ScalarOp::kLe || in.scalar == ScalarOp::kGe;
    // From x > limit and x <= limit to x >= limit + 1 and x < limit + 1.
    bound.add = bound.is_lower != or_equal ? 1 : 0;
    while (true) {
      const KernelInstr& x = s_.instrs[index];
      if (x.type != DType::kInt64) return std::nullopt;
      if (x.op == KernelOp::kIndex && x.dim == s_.vector_dim) return bound;
      const bool adds = IsScalar(x, ScalarOp::kAdd), subtracts = IsScalar(x, ScalarOp::kSub);
      if (!adds && !subtracts) return std::nullopt;
      const bool first = varying_[x.operands[0]], second = varying_[x.operands[1]];
      if (first == second || (subtracts && second)) return std::nullopt;
      index = x.operands[first ? 0 : 1];
      bound.terms.push_back({x.operands[first ? 1 : 0], subtracts});
    }
  }

  std::optional<KernelSpec> Outside(int guard) {
    for (const KernelInstr& in : s_.instrs) {
      if (in.op == KernelOp::kLoad && in.has_guard && in.operands.back() != guard) return std::nullopt;
    }
    holds_.assign(s_.instrs.size(), std::nullopt);
    holds_[guard] = false;
    KernelSpec outside = s_;
    Simplify(outside);
    const std::vector<bool> needed = Needed(outside);
    KeepNeeded(needed, outside);
    for (int i : outside.phases[0].instrs) {
      if (outside.instrs[i].op == KernelOp::kLoad && varying_[i]) return outside;
    }
    return std::nullopt;
  }

  static void KeepNeeded(const std::vector<bool>& needed, KernelSpec& spec) {
    std::vector<int> kept;
    for (int i : spec.phases[0].instrs) {
      if (needed[i]) kept.push_back(i);
    }
    spec.phases[0].instrs = std::move(kept);
  }

  // Replaces what `holds_` decides.
  void Simplify(KernelSpec& spec) {
    std::vector<KernelInstr>& instrs = spec.instrs;
    std::vector<int> same(instrs.size());  // what stands for an instruction
    for (size_t i = 0; i < instrs.size(); ++i) {
      KernelInstr& in = instrs[i];
      same[i] = static_cast<int>(i);
      for (int& o : in.operands) o = same[o];
      if (in.op == KernelOp::kLoad && in.has_guard && holds_[in.operands.back()] == true) {
        in.operands.pop_back();
        in.has_guard = false;
      } else if (in.op == KernelOp::kLoad && in.has_guard && holds_[in.operands.back()] == false) {
        // Zero, as where a guard does not hold.
        in = Constant(in.type, 0);
      } else if (IsScalar(in, ScalarOp::kNot) && in.type == DType::kBool && holds_[in.operands[0]]) {
        holds_[i] = !*holds_[in.operands[0]];
      } else if (IsScalar(in, ScalarOp::kAnd) && in.type == DType::kBool) {
        const std::optional<bool> a = holds_[in.operands[0]], b = holds_[in.operands[1]];
        if (a == false || b == false) {
          holds_[i] = false;
        } else if (a == true || b == true) {
          same[i] = in.operands[a == true ? 1 : 0];
        }
      } else if (IsScalar(in, ScalarOp::kSelect) && holds_[in.operands[0]]) {
        same[i] = in.operands[*holds_[in.operands[0]] ? 1 : 2];
      }
      if (holds_[i]) in = Constant(DType::kBool, *holds_[i] ? 1 : 0);
    }
  }

  static KernelInstr Constant(DType type, int64_t v) {
    KernelInstr in;
    in.type = type;
    in.scalar = ScalarOp::kConst;
    in.imm.i = v;
    in.imm.f = static_cast<double>(v);
    return in;
  }

  static std::vector<bool> Needed(const KernelSpec& spec) {
    const std::vector<KernelInstr>& instrs = spec.instrs;
    std::vector<bool> needed(instrs.size(), false);
    for (size_t i = instrs.size(); i-- > 0;) {
      const KernelInstr& in = instrs[i];
      needed[i] = needed[i] || in.op == KernelOp::kStore || MaySetStatus(in);
      if (!needed[i]) continue;
      for (int o : in.operands) needed[o] = true;
    }
    return needed;
  }

  const KernelSpec& s_;
  const std::vector<bool>& varying_;
  std::vector<std::optional<bool>> holds_;  // what a condition is in the interior, or outside of it
  Interior out_;
};

}  // namespace

std::optional<Interior> FindInterior(const KernelSpec& spec, const std::vector<bool>& varying) {
  return InteriorFinder(spec, varying).Find();
}

}  // namespace smelt
