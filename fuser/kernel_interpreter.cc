#include "smelt/fuser/kernel_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/op/scalar_memory.h"

namespace smelt {
namespace {

// One reduction or scan in progress. Sums and products of floating point are exact enough for a reference: a reduction
// runs in long double, a scan in double and in order (as PyTorch's cumsum does, so that scans are comparable bit for
// bit).
struct Accumulator {
  bool any = false;
  ScalarValue value = {};
  int64_t index = 0;
  long double wide = 0;
};

class Interpreter {
 public:
  Interpreter(const KernelSpec& spec, const int64_t* words, int64_t* status)
      : spec_(spec), status_(status), index_(spec.rank()), values_(spec.instrs.size()) {
    const int64_t* w = words;
    sizes_.assign(w, w + spec.rank());
    w += spec.rank();
    for (const KernelParam& p : spec.params) {
      bases_.push_back(*w++);
      std::vector<int64_t> strides;
      for (StrideClass c : p.strides) {
        strides.push_back(c == StrideClass::kAny ? *w++ : ElementsApart(c));
      }
      strides_.push_back(std::move(strides));
    }
    for (DType t : spec.scalars) {
      ScalarValue v;
      v.i = *w++;
      if (IsFloating(t)) {
        double f;
        std::memcpy(&f, &v.i, sizeof f);
        v.f = Round(t, f);
      } else {
        v.i = WrapInt(t, v.i);
      }
      scalars_.push_back(v);
    }
    for (const KernelInstr& in : spec.instrs) functions_.push_back(FunctionOf(in));
  }

  void RunPoint() {
    accumulators_.assign(spec_.instrs.size(), Accumulator());
    for (const KernelPhase& phase : spec_.phases) {
      if (!phase.inner) {
        for (int i : phase.instrs) Run(i);
        continue;
      }
      int64_t points = 1;
      for (int d = spec_.parallel_rank; d < spec_.rank(); ++d) points *= sizes_[d];
      for (int64_t k = 0; k < points; ++k) {
        int64_t rest = k;
        for (int d = spec_.rank() - 1; d >= spec_.parallel_rank; --d) {
          index_[d] = rest % sizes_[d];
          rest /= sizes_[d];
        }
        for (int i : phase.instrs) Run(i);
      }
      for (int i : phase.instrs) {
        if (spec_.instrs[i].op == KernelOp::kReduce) values_[i] = Result(spec_.instrs[i], accumulators_[i]);
      }
    }
  }

  std::vector<int64_t>& index() { return index_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  static double Round(DType t, double f) {
    if (t == DType::kFloat64) return f;
    ScalarFn fn;
    fn.arg_types = {DType::kFloat64};
    fn.instrs.resize(2);
    fn.instrs[0].op = ScalarOp::kArg;
    fn.instrs[0].type = DType::kFloat64;
    fn.instrs[1].op = ScalarOp::kCast;
    fn.instrs[1].type = t;
    fn.instrs[1].operands[0] = 0;
    fn.results = {1};
    ScalarValue v;
    v.f = f;
    bool unused = false;
    return EvaluateScalarFn(fn, {v}, &unused)[0].f;
  }

  ScalarFn FunctionOf(const KernelInstr& in) const {
    ScalarFn fn;
    if (in.op != KernelOp::kScalar) return fn;
    ScalarInstr last;
    last.op = in.scalar;
    last.type = in.type;
    last.imm = in.imm;
    for (size_t k = 0; k < in.operands.size(); ++k) {
      ScalarInstr arg;
      arg.op = ScalarOp::kArg;
      arg.type = spec_.instrs[in.operands[k]].type;
      arg.imm.i = static_cast<int64_t>(k);
      fn.arg_types.push_back(arg.type);
      fn.instrs.push_back(arg);
      last.operands[k] = static_cast<int>(k);
    }
    fn.instrs.push_back(last);
    fn.results = {static_cast<int>(fn.instrs.size()) - 1};
    return fn;
  }

  static bool IsNan(DType t, ScalarValue v) { return IsFloating(t) && std::isnan(v.f); }
  static bool Less(DType t, ScalarValue a, ScalarValue b) { return IsFloating(t) ? a.f < b.f : a.i < b.i; }

  static void Accumulate(const KernelInstr& in, DType t, ScalarValue v, int64_t index, Accumulator& a) {
    const bool first = !a.any;
    a.any = true;
    switch (in.reduce) {
      case ReduceKind::kSum:
      case ReduceKind::kProd: {
        const bool sum = in.reduce == ReduceKind::kSum;
        if (!IsFloating(t)) {
          const uint64_t old = first ? (sum ? 0 : 1) : static_cast<uint64_t>(a.value.i);
          a.value.i = static_cast<int64_t>(sum ? old + static_cast<uint64_t>(v.i) : old * static_cast<uint64_t>(v.i));
          a.value.i = WrapInt(t, a.value.i);
        } else if (in.op == KernelOp::kScan) {
          const double old = first ? (sum ? 0 : 1) : static_cast<double>(a.wide);
          a.wide = sum ? old + v.f : static_cast<double>(old * v.f);
        } else {
          a.wide = first ? (sum ? 0.0L : 1.0L) : a.wide;
          a.wide = sum ? a.wide + v.f : a.wide * v.f;
        }
        return;
      }
      case ReduceKind::kAnd:
        a.value.i = (first || a.value.i) && v.i;
        return;
      case ReduceKind::kOr:
        a.value.i = (!first && a.value.i) || v.i;
        return;
      case ReduceKind::kMin:
      case ReduceKind::kMax:
      case ReduceKind::kArgMin:
      case ReduceKind::kArgMax: {
        const bool min = in.reduce == ReduceKind::kMin || in.reduce == ReduceKind::kArgMin;
        const bool better = min ? Less(t, v, a.value) : Less(t, a.value, v);
        const bool equal = IsFloating(t) ? a.value.f == v.f : a.value.i == v.i;
        const bool old_nan = IsNan(t, a.value), new_nan = IsNan(t, v);
        // Among equals, the one with the lower index: the first, if indices ascend.
        if (first || (new_nan && !old_nan) || (new_nan && old_nan && index < a.index) ||
            (!old_nan && !new_nan && (better || (equal && index < a.index)))) {
          a.value = v;
          a.index = index;
        }
        return;
      }
    }
  }

  static ScalarValue Result(const KernelInstr& in, const Accumulator& a) {
    ScalarValue v;
    v.i = 0;
    switch (in.reduce) {
      case ReduceKind::kSum:
      case ReduceKind::kProd:
        if (!IsFloating(in.type)) {
          v.i = a.any ? a.value.i : in.reduce == ReduceKind::kProd;
        } else {
          const long double wide = a.any ? a.wide : in.reduce == ReduceKind::kProd ? 1.0L : 0.0L;
          v.f = in.type == DType::kFloat32 ? static_cast<float>(wide) : static_cast<double>(wide);
        }
        return v;
      case ReduceKind::kAnd:
      case ReduceKind::kOr:
        v.i = a.any ? a.value.i : in.reduce == ReduceKind::kAnd;
        return v;
      case ReduceKind::kArgMin:
      case ReduceKind::kArgMax:
        v.i = a.index;
        return v;
      case ReduceKind::kMin:
      case ReduceKind::kMax: {
        if (a.any) return a.value;
        const bool min = in.reduce == ReduceKind::kMin;
        if (IsFloating(in.type)) {
          v.f = min ? INFINITY : -INFINITY;
          return v;
        }
        const int bits = 8 * ItemSize(in.type);
        const int64_t top = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
        v.i = in.type == DType::kUInt8 ? (min ? 255 : 0) : min ? top : -top - 1;
        return v;
      }
    }
    return v;
  }

  char* Address(const KernelInstr& in, int64_t offset) const {
    int64_t element = offset;
    for (size_t d = 0; d < index_.size(); ++d) {
      if (strides_[in.param][d]) element += index_[d] * strides_[in.param][d];
    }
    return reinterpret_cast<char*>(bases_[in.param] + element * ItemSize(in.type));
  }

  void Run(int i) {
    const KernelInstr& in = spec_.instrs[i];
    auto operand = [&](size_t k) { return values_[in.operands[k]]; };
    switch (in.op) {
      case KernelOp::kScalar: {
        std::vector<ScalarValue> args;
        for (size_t k = 0; k < in.operands.size(); ++k) args.push_back(operand(k));
        bool by_zero = false;
        values_[i] = EvaluateScalarFn(functions_[i], args, &by_zero)[0];
        if (by_zero) status_[0] = 2;
        return;
      }
      case KernelOp::kLoad:
      case KernelOp::kStore:
      case KernelOp::kAtomicAdd: {
        const size_t first = in.op == KernelOp::kLoad ? 0 : 1;
        const int64_t offset = in.has_offset ? operand(first).i : 0;
        const bool enabled = !in.has_guard || operand(in.operands.size() - 1).i;
        if (in.op == KernelOp::kLoad) {
          values_[i].i = 0;
          if (enabled) values_[i] = LoadScalar(in.type, Address(in, offset));
        } else if (enabled) {
          StoreScalar(in.type, operand(0), Address(in, offset));
        }
        return;
      }
      case KernelOp::kIndex:
        values_[i].i = index_[in.dim];
        return;
      case KernelOp::kDimSize:
        values_[i].i = sizes_[in.dim];
        return;
      case KernelOp::kScalarParam:
        values_[i] = scalars_[in.dim];
        return;
      case KernelOp::kReduce:
      case KernelOp::kScan: {
        const DType t = spec_.instrs[in.operands[0]].type;
        Accumulator& a = accumulators_[i];
        Accumulate(in, t, operand(0), IsArg(in.reduce) ? operand(1).i : 0, a);
        if (in.op == KernelOp::kScan) values_[i] = Result(in, a);
        return;
      }
      case KernelOp::kCheckIndex: {
        int64_t index = operand(0).i;
        const int64_t size = operand(1).i;
        if (index < 0) index = static_cast<int64_t>(static_cast<uint64_t>(index) + static_cast<uint64_t>(size));
        if (index < 0 || index >= size) {
          status_[0] = 1;
          index = 0;
        }
        values_[i].i = index;
        return;
      }
    }
  }

  const KernelSpec& spec_;
  int64_t* status_;
  std::vector<int64_t> sizes_, bases_, index_;
  std::vector<std::vector<int64_t>> strides_;
  std::vector<ScalarValue> scalars_, values_;
  std::vector<ScalarFn> functions_;
  std::vector<Accumulator> accumulators_;
};

}  // namespace

absl::Status InterpretKernel(const KernelSpec& spec, const int64_t* words, int64_t begin, int64_t end,
                             int64_t* status) {
  SMELT_RETURN_IF_ERROR(VerifyKernelSpec(spec));
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kAtomicAdd) return absl::UnimplementedError("kernel spec: atomic_add is not for the CPU");
  }
  if (begin < 0 || begin > end || end > NumTiles(spec, words)) {
    return absl::InvalidArgumentError(absl::StrCat("kernel spec: tiles [", begin, ", ", end, ") are not within the ",
                                                   NumTiles(spec, words), " there are"));
  }
  Interpreter interpreter(spec, words, status);
  const int p = spec.parallel_rank;
  const bool vector_is_parallel = p > 0 && spec.vector_dim == p - 1;
  const bool by_elements = vector_is_parallel && p == 1;
  const int row_dims = vector_is_parallel && !by_elements ? p - 1 : p;
  for (int64_t tile = begin; tile < end; ++tile) {
    int64_t rest = tile;
    for (int d = row_dims - 1; d >= 0; --d) {
      interpreter.index()[d] = rest % interpreter.sizes()[d];
      rest /= interpreter.sizes()[d];
    }
    const int64_t points = row_dims == p ? 1 : interpreter.sizes()[p - 1];
    for (int64_t k = 0; k < points; ++k) {
      if (row_dims != p) interpreter.index()[p - 1] = k;
      interpreter.RunPoint();
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
