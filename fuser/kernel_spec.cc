#include "smelt/fuser/kernel_spec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int kMaxRank = 64;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("kernel spec: ", what)); }

// Returns whether kernels hold the dtype in float32 to compute with it.
bool IsNarrowFloat(DType t) { return OpMathType(t) != t; }

// Returns the fault in the types of a kScalar instruction, or the empty string if they are correct.
std::string ScalarTypeError(const KernelInstr& in, const std::vector<DType>& args) {
  const DType t = in.type;
  const bool real = t == DType::kFloat32 || t == DType::kFloat64;
  auto all_are = [&](DType want) { return std::all_of(args.begin(), args.end(), [&](DType a) { return a == want; }); };
  auto none_half = [&] { return std::none_of(args.begin(), args.end(), IsNarrowFloat); };
  switch (in.scalar) {
    case ScalarOp::kArg:
    case ScalarOp::kNumOps:
      return "is no operation of a kernel";
    case ScalarOp::kConst:
    case ScalarOp::kCast:
      return "";
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
    case ScalarOp::kRemTrunc:
    case ScalarOp::kRemFloor:
      return all_are(t) && none_half() ? "" : "needs operands of its own type, which is no float of 16 or 8 bits";
    case ScalarOp::kPow:
      return all_are(t) && none_half() && t != DType::kBool ? "" : "needs operands of its own type, a number";
    case ScalarOp::kDivTrunc:
    case ScalarOp::kDivFloor:
      return all_are(t) && IsIntegral(t) ? "" : "needs integers of its own type";
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kNot:
      return all_are(t) && !IsFloating(t) ? "" : "needs integers or bool, of its own type";
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return all_are(t) && IsIntegral(t) ? "" : "needs integers of its own type";
    case ScalarOp::kEq:
    case ScalarOp::kNe:
    case ScalarOp::kLt:
    case ScalarOp::kLe:
    case ScalarOp::kGt:
    case ScalarOp::kGe:
      return t == DType::kBool && args[0] == args[1] && none_half() ? "" : "compares two of one type and gives bool";
    case ScalarOp::kSelect:
      return args[0] == DType::kBool && args[1] == t && args[2] == t ? "" : "needs bool and two of its own type";
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf:
    case ScalarOp::kSignbit:
      return t == DType::kBool && IsFloating(args[0]) && none_half() ? "" : "needs a float32 or float64 and gives bool";
    default:
      return real && all_are(t) ? "" : "needs float32 or float64, of its own type";
  }
}

}  // namespace

int64_t KernelSpec::num_words() const {
  int64_t n = rank() + static_cast<int64_t>(scalars.size());
  for (const KernelParam& p : params) {
    n += 1 + std::count(p.strides.begin(), p.strides.end(), StrideClass::kAny);
  }
  return n;
}

std::vector<IndexedSize> IndexedSizes(const KernelSpec& spec) {
  std::vector<IndexedSize> sizes;
  for (const KernelPhase& phase : spec.phases) {
    for (int i : phase.instrs) {
      if (spec.instrs[i].op != KernelOp::kCheckIndex) continue;
      const int size = spec.instrs[i].operands[1];
      const KernelInstr& in = spec.instrs[size];
      const bool is_known = in.op == KernelOp::kScalarParam || in.op == KernelOp::kDimSize ||
                            (in.op == KernelOp::kScalar && in.scalar == ScalarOp::kConst && in.imm.i <= 0);
      const bool is_new = std::none_of(sizes.begin(), sizes.end(),
                                       [&](const IndexedSize& s) { return s.instr == size && s.inner == phase.inner; });
      if (is_known && is_new) sizes.push_back({size, phase.inner});
    }
  }
  return sizes;
}

absl::Status VerifyKernelSpec(const KernelSpec& spec) {
  const int rank = spec.rank();
  if (spec.parallel_rank < 0 || spec.reduction_rank < 0 || spec.parallel_rank > kMaxRank ||
      spec.reduction_rank > kMaxRank) {
    return Invalid(absl::StrCat("ranks ", spec.parallel_rank, " and ", spec.reduction_rank, " are not in [0, 64]"));
  }
  const bool vector_ok = spec.vector_dim == -1 ||
                         (spec.parallel_rank > 0 && spec.vector_dim == spec.parallel_rank - 1) ||
                         (spec.reduction_rank > 0 && spec.vector_dim == rank - 1);
  if (!vector_ok) {
    return Invalid(absl::StrCat("vector dim ", spec.vector_dim,
                                " is neither the last parallel nor the last reduction dim, of ", spec.parallel_rank,
                                " and ", spec.reduction_rank));
  }
  for (size_t i = 0; i < spec.params.size(); ++i) {
    const KernelParam& p = spec.params[i];
    if (p.strides.size() != static_cast<size_t>(rank)) {
      return Invalid(absl::StrCat("param ", i, " has ", p.strides.size(), " strides, of rank ", rank));
    }
    if (IsComplex(p.dtype)) return Invalid(absl::StrCat("param ", i, " is complex; kernels take it as pairs"));
    if (p.alias_class < -1) return Invalid(absl::StrCat("param ", i, " has alias class ", p.alias_class));
  }
  for (DType t : spec.scalars) {
    if (IsComplex(t)) return Invalid("a scalar is complex; kernels take it as two");
  }
  std::vector<int> phase_of(spec.instrs.size(), -1);
  for (size_t f = 0; f < spec.phases.size(); ++f) {
    if (spec.phases[f].inner && spec.reduction_rank == 0) {
      return Invalid(absl::StrCat("phase ", f, " is inner but there is no reduction dim"));
    }
    int last = -1;
    for (int i : spec.phases[f].instrs) {
      if (i < 0 || i >= static_cast<int>(spec.instrs.size()) || phase_of[i] != -1) {
        return Invalid(
            absl::StrCat("phase ", f, " names instruction %", i, ", which is ",
                         i < 0 || i >= static_cast<int>(spec.instrs.size()) ? "none" : "in a phase already"));
      }
      if (i <= last) return Invalid(absl::StrCat("phase ", f, " names %", i, " after %", last));
      last = i;
      phase_of[i] = static_cast<int>(f);
    }
  }
  for (size_t i = 0; i < spec.instrs.size(); ++i) {
    const KernelInstr& in = spec.instrs[i];
    auto error = [&](absl::string_view what) { return Invalid(absl::StrCat("instruction %", i, ": ", what)); };
    if (phase_of[i] == -1) return error("is in no phase");
    const bool inner = spec.phases[phase_of[i]].inner;
    if (IsComplex(in.type)) return error("is complex");
    std::vector<DType> args;
    for (int o : in.operands) {
      if (o < 0 || o >= static_cast<int>(i))
        return error(absl::StrCat("operand %", o, " is not an earlier instruction"));
      const KernelInstr& arg = spec.instrs[o];
      if (arg.op == KernelOp::kStore || arg.op == KernelOp::kAtomicAdd) {
        return error(absl::StrCat("operand %", o, " has no result"));
      }
      const bool arg_inner = spec.phases[phase_of[o]].inner;
      const bool visible = arg.op == KernelOp::kReduce ? phase_of[o] < phase_of[i]
                           : arg_inner                 ? phase_of[o] == phase_of[i]
                                                       : phase_of[o] <= phase_of[i];
      if (!visible) {
        return error(absl::StrCat("operand %", o, " of phase ", phase_of[o], " is not usable in phase ", phase_of[i]));
      }
      args.push_back(arg.type);
    }
    auto expect_operands = [&](size_t n) {
      return args.size() == n ? absl::OkStatus() : error(absl::StrCat("has ", args.size(), " operands, expected ", n));
    };
    const bool is_memory = in.op == KernelOp::kLoad || in.op == KernelOp::kStore || in.op == KernelOp::kAtomicAdd;
    if ((in.has_offset || in.has_guard) && !is_memory) return error("only loads and stores have an offset or a guard");
    switch (in.op) {
      case KernelOp::kLoad:
      case KernelOp::kStore:
      case KernelOp::kAtomicAdd: {
        const bool load = in.op == KernelOp::kLoad;
        SMELT_RETURN_IF_ERROR(expect_operands((load ? 0 : 1) + in.has_offset + in.has_guard));
        if (in.param < 0 || in.param >= static_cast<int>(spec.params.size())) {
          return error(absl::StrCat("there is no param ", in.param));
        }
        const KernelParam& p = spec.params[in.param];
        if (p.dtype != in.type) return error("its type is not its param's");
        if (load ? !p.is_read : !p.is_written) {
          return error(absl::StrCat("param ", in.param, " is not ", load ? "read" : "written"));
        }
        if (!load && args[0] != in.type) return error("the value's type is not the param's");
        if (in.has_offset && args[load ? 0 : 1] != DType::kInt64) return error("the offset is not int64");
        if (in.has_guard && args.back() != DType::kBool) return error("the guard is not bool");
        if (!inner) {
          for (int d = spec.parallel_rank; d < rank; ++d) {
            if (p.strides[d] != StrideClass::kZero) {
              return error(absl::StrCat("an outer phase has no index of dim ", d, ", but param ", in.param,
                                        "'s stride there is not zero"));
            }
          }
        }
        break;
      }
      case KernelOp::kIndex:
        SMELT_RETURN_IF_ERROR(expect_operands(0));
        if (in.type != DType::kInt64) return error("an index is int64");
        if (in.dim < 0 || in.dim >= (inner ? rank : spec.parallel_rank)) {
          return error(absl::StrCat("dim ", in.dim, " has no index here"));
        }
        break;
      case KernelOp::kDimSize:
        SMELT_RETURN_IF_ERROR(expect_operands(0));
        if (in.type != DType::kInt64) return error("a size is int64");
        if (in.dim < 0 || in.dim >= rank) return error(absl::StrCat("there is no dim ", in.dim));
        break;
      case KernelOp::kScalarParam:
        SMELT_RETURN_IF_ERROR(expect_operands(0));
        if (in.dim < 0 || in.dim >= static_cast<int>(spec.scalars.size()) || spec.scalars[in.dim] != in.type) {
          return error(absl::StrCat("there is no scalar ", in.dim, " of type ", Name(in.type)));
        }
        break;
      case KernelOp::kCheckIndex:
        SMELT_RETURN_IF_ERROR(expect_operands(2));
        if (in.type != DType::kInt64 || args[0] != DType::kInt64 || args[1] != DType::kInt64) {
          return error("indices and sizes are int64");
        }
        break;
      case KernelOp::kReduce:
      case KernelOp::kScan: {
        if (!inner) return error("reductions and scans are of inner phases");
        SMELT_RETURN_IF_ERROR(expect_operands(IsArg(in.reduce) ? 2 : 1));
        const bool logical = in.reduce == ReduceKind::kAnd || in.reduce == ReduceKind::kOr;
        if (IsNarrowFloat(args[0])) return error("reduces floats of 16 or 8 bits; cast to float32 first");
        if (IsArg(in.reduce)) {
          if (in.type != DType::kInt64 || args[1] != DType::kInt64) return error("the index and result are int64");
        } else if (args[0] != in.type) {
          return error("the value's type is not the result's");
        } else if (logical != (in.type == DType::kBool)) {
          return error("bool is reduced by and/or, and nothing else is");
        }
        break;
      }
      case KernelOp::kScalar: {
        if (in.scalar >= ScalarOp::kArg && in.scalar < ScalarOp::kNumOps && in.scalar != ScalarOp::kArg &&
            in.scalar != ScalarOp::kConst) {
          SMELT_RETURN_IF_ERROR(expect_operands(NumOperands(in.scalar)));
        } else if (in.scalar == ScalarOp::kConst) {
          SMELT_RETURN_IF_ERROR(expect_operands(0));
        }
        std::string what = ScalarTypeError(in, args);
        if (!what.empty()) return error(absl::StrCat(smelt::Name(in.scalar), " ", what));
        break;
      }
    }
  }
  return absl::OkStatus();
}

int64_t NumTiles(const KernelSpec& spec, const int64_t* words) {
  const int p = spec.parallel_rank;
  const bool vector_is_parallel = p > 0 && spec.vector_dim == p - 1;
  if (vector_is_parallel && p == 1) return words[0];
  int64_t n = 1;
  for (int d = 0; d < p - (vector_is_parallel ? 1 : 0); ++d) n *= words[d];
  return n;
}

}  // namespace smelt
