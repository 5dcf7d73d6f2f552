#include "smelt/codegen/maxima.h"

#include <algorithm>
#include <vector>

#include "smelt/codegen/equal_values.h"

namespace smelt {
namespace {

// Larger kernels are not searched for them.
constexpr int kMaxInstrs = 1000;

class MaximaFinder {
 public:
  explicit MaximaFinder(const KernelSpec& spec) : s_(spec), n_(static_cast<int>(spec.instrs.size())) {
    inner_.assign(n_, false);
    for (const KernelPhase& phase : s_.phases) {
      for (int i : phase.instrs) inner_[i] = phase.inner;
    }
  }

  Maxima Find() {
    Maxima out;
    out.may_ignore_nan.assign(n_, false);
    out.at_most_zero.assign(n_, false);
    if (n_ > kMaxInstrs) return out;
    for (int m = 0; m < n_; ++m) {
      const KernelInstr& max = s_.instrs[m];
      if (max.op != KernelOp::kReduce || max.reduce != ReduceKind::kMax || !IsFloating(max.type)) continue;
      const std::vector<bool> equals = EqualValues(s_, max.operands[0]);
      for (int i = m + 1; i < n_; ++i) {
        const KernelInstr& in = s_.instrs[i];
        if (IsScalar(in, ScalarOp::kSub) && in.operands[1] == m && equals[in.operands[0]]) out.at_most_zero[i] = true;
      }
      out.may_ignore_nan[m] = EndsInNan(m, equals);
    }
    return out;
  }

 private:
  static bool IsScalar(const KernelInstr& in, ScalarOp op) { return in.op == KernelOp::kScalar && in.scalar == op; }

  // Returns whether the result is NaN wherever an operand is.
  static bool PassesNanOn(const KernelInstr& in) {
    if (in.op != KernelOp::kScalar || !IsFloating(in.type)) return false;
    switch (in.scalar) {
      case ScalarOp::kAdd:
      case ScalarOp::kSub:
      case ScalarOp::kMul:
      case ScalarOp::kDiv:
      case ScalarOp::kNeg:
      case ScalarOp::kAbs:
      case ScalarOp::kSqrt:
      case ScalarOp::kExp:
      case ScalarOp::kExp2:
      case ScalarOp::kLog:
      case ScalarOp::kCast:
        return true;
      default:
        return false;
    }
  }

  // Returns whether every result that maximum m is part of is NaN as soon as one of its elements is.
  bool EndsInNan(int m, const std::vector<bool>& elements) const {
    std::vector<bool> uses(n_, false);
    std::vector<bool> one(n_, false);  // NaN for the elements that are
    std::vector<bool> all(n_, false);  // NaN for all of them as soon as one is
    std::vector<bool> memory_uses(s_.params.size(), false);
    auto any = [&](const KernelInstr& in, const std::vector<bool>& what) {
      return std::any_of(in.operands.begin(), in.operands.end(), [&](int o) { return what[o]; });
    };
    for (int i = 0; i < n_; ++i) {
      const KernelInstr& in = s_.instrs[i];
      one[i] = elements[i];
      uses[i] = i == m || any(in, uses) || (in.op == KernelOp::kLoad && memory_uses[in.param]);
      if (in.op == KernelOp::kReduce && in.reduce == ReduceKind::kSum && IsFloating(in.type)) {
        all[i] = any(in, one) || any(in, all);
      } else if (PassesNanOn(in)) {
        one[i] = one[i] || any(in, one);
        all[i] = any(in, all);
      }
      if (!uses[i]) continue;
      if (in.op == KernelOp::kStore) {
        memory_uses[in.param] = true;
      } else if (!IsFloating(in.type)) {
        return false;  // a place, perhaps, or a divisor: more than a value
      }
    }
    for (int i = 0; i < n_; ++i) {
      const KernelInstr& in = s_.instrs[i];
      if (in.op != KernelOp::kStore || !uses[i]) continue;
      if (in.has_offset || in.has_guard) return false;
      if (!all[in.operands[0]] && !IsReplaced(i, all)) return false;
    }
    return true;
  }

  // Returns whether everything that store i writes is written again with a NaN.
  bool IsReplaced(int i, const std::vector<bool>& all) const {
    for (int k = i + 1; k < n_; ++k) {
      const KernelInstr& in = s_.instrs[k];
      if (in.op == KernelOp::kStore && in.param == s_.instrs[i].param && !in.has_offset && !in.has_guard &&
          inner_[k] == inner_[i] && all[in.operands[0]]) {
        return true;
      }
    }
    return false;
  }

  const KernelSpec& s_;
  const int n_;
  std::vector<bool> inner_;
};

}  // namespace

Maxima FindMaxima(const KernelSpec& spec) { return MaximaFinder(spec).Find(); }

}  // namespace smelt
