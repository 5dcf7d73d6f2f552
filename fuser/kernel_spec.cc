#include "smelt/fuser/kernel_spec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

constexpr int kMaxRank = 64;

constexpr const char* kStrideNames[] = {"zero", "unit", "any"};
constexpr const char* kReduceNames[] = {"sum", "prod", "min", "max", "argmin", "argmax", "and", "or"};

bool IsArg(ReduceKind k) { return k == ReduceKind::kArgMin || k == ReduceKind::kArgMax; }
bool IsHalf(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }

std::string ConstText(const KernelInstr& instr) {
  if (!IsFloating(instr.type)) return absl::StrCat(instr.imm.i);
  uint64_t bits;
  std::memcpy(&bits, &instr.imm.f, sizeof bits);
  // Bits where decimal would not come back equal: NaN has a payload.
  if (std::isnan(instr.imm.f)) return absl::StrFormat("bits:%016x", bits);
  return absl::StrFormat("%.17g", instr.imm.f);
}

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("kernel spec: ", what)); }

}  // namespace

int64_t KernelSpec::num_words() const {
  int64_t n = rank() + static_cast<int64_t>(scalars.size());
  for (const KernelParam& p : params) {
    n += 1 + std::count(p.strides.begin(), p.strides.end(), StrideClass::kAny);
  }
  return n;
}

std::string KernelSpec::ToString() const {
  std::string out = absl::StrFormat("kernel parallel=%d reduction=%d vector=%d sequential=%d\n", parallel_rank,
                                    reduction_rank, vector_dim, sequential ? 1 : 0);
  for (const KernelParam& p : params) {
    absl::StrAppend(&out, "param ", Name(p.dtype), " ", p.is_read ? "r" : "", p.is_written ? "w" : "",
                    p.is_read || p.is_written ? "" : "-", " [");
    for (size_t d = 0; d < p.strides.size(); ++d) {
      absl::StrAppend(&out, d ? "," : "", kStrideNames[static_cast<int>(p.strides[d])]);
    }
    absl::StrAppend(&out, "] alias=", p.alias_class, "\n");
  }
  for (DType t : scalars) absl::StrAppend(&out, "scalar ", Name(t), "\n");
  for (size_t i = 0; i < instrs.size(); ++i) {
    const KernelInstr& in = instrs[i];
    absl::StrAppend(&out, "%", i, " = ");
    switch (in.op) {
      case KernelOp::kScalar:
        absl::StrAppend(&out, smelt::Name(in.scalar));
        break;
      case KernelOp::kLoad:
        absl::StrAppend(&out, "load.p", in.param);
        break;
      case KernelOp::kStore:
        absl::StrAppend(&out, "store.p", in.param);
        break;
      case KernelOp::kAtomicAdd:
        absl::StrAppend(&out, "atomic_add.p", in.param);
        break;
      case KernelOp::kIndex:
        absl::StrAppend(&out, "index.d", in.dim);
        break;
      case KernelOp::kScalarParam:
        absl::StrAppend(&out, "scalar.s", in.dim);
        break;
      case KernelOp::kReduce:
        absl::StrAppend(&out, "reduce.", kReduceNames[static_cast<int>(in.reduce)]);
        break;
      case KernelOp::kScan:
        absl::StrAppend(&out, "scan.", kReduceNames[static_cast<int>(in.reduce)]);
        break;
      case KernelOp::kCheckIndex:
        absl::StrAppend(&out, "check_index");
        break;
      case KernelOp::kDimSize:
        absl::StrAppend(&out, "dim_size.d", in.dim);
        break;
    }
    absl::StrAppend(&out, " ", smelt::Name(in.type));
    if (in.op == KernelOp::kScalar && in.scalar == ScalarOp::kConst) absl::StrAppend(&out, " ", ConstText(in));
    for (int o : in.operands) absl::StrAppend(&out, " %", o);
    if (in.has_offset) absl::StrAppend(&out, " +offset");
    if (in.has_guard) absl::StrAppend(&out, " +guard");
    absl::StrAppend(&out, "\n");
  }
  for (const KernelPhase& phase : phases) {
    absl::StrAppend(&out, phase.inner ? "inner" : "outer");
    for (int i : phase.instrs) absl::StrAppend(&out, " ", i);
    absl::StrAppend(&out, "\n");
  }
  return out;
}

namespace {

// Reads the text of ToString, line by line.
class SpecParser {
 public:
  absl::StatusOr<KernelSpec> Parse(absl::string_view text) {
    int line_number = 0;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_number;
      line = absl::StripAsciiWhitespace(line);
      if (line.empty()) continue;
      words_ = absl::StrSplit(line, ' ', absl::SkipEmpty());
      absl::Status status = ParseLine();
      if (!status.ok()) return Annotate(status, absl::StrCat("kernel spec: line ", line_number));
    }
    if (!seen_header_) return Invalid("no line \"kernel parallel=... reduction=... vector=... sequential=...\"");
    SMELT_RETURN_IF_ERROR(VerifyKernelSpec(spec_));
    return std::move(spec_);
  }

 private:
  absl::Status Error(absl::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

  absl::Status Number(absl::string_view text, absl::string_view prefix, int* value) {
    if (!absl::ConsumePrefix(&text, prefix) || !absl::SimpleAtoi(text, value)) {
      return Error(absl::StrCat("expected ", prefix, "NUMBER, found \"", text, "\""));
    }
    return absl::OkStatus();
  }
  absl::Status Type(absl::string_view text, DType* type) {
    std::optional<DType> t = ParseDType(text);
    if (!t) return Error(absl::StrCat("\"", text, "\" is not a dtype"));
    *type = *t;
    return absl::OkStatus();
  }

  absl::Status ParseLine() {
    absl::string_view first = words_[0];
    if (first == "kernel") {
      if (seen_header_ || words_.size() != 5) return Error("expected one header of five words");
      seen_header_ = true;
      int sequential = 0;
      SMELT_RETURN_IF_ERROR(Number(words_[1], "parallel=", &spec_.parallel_rank));
      SMELT_RETURN_IF_ERROR(Number(words_[2], "reduction=", &spec_.reduction_rank));
      SMELT_RETURN_IF_ERROR(Number(words_[3], "vector=", &spec_.vector_dim));
      SMELT_RETURN_IF_ERROR(Number(words_[4], "sequential=", &sequential));
      if (sequential != 0 && sequential != 1) return Error("sequential is 0 or 1");
      spec_.sequential = sequential == 1;
      return absl::OkStatus();
    }
    if (!seen_header_) return Error("the line \"kernel ...\" comes first");
    if (first == "param") return ParseParam();
    if (first == "scalar") {
      if (words_.size() != 2) return Error("expected \"scalar DTYPE\"");
      spec_.scalars.emplace_back();
      return Type(words_[1], &spec_.scalars.back());
    }
    if (first == "inner" || first == "outer") {
      KernelPhase phase;
      phase.inner = first == "inner";
      for (size_t i = 1; i < words_.size(); ++i) {
        phase.instrs.push_back(0);
        SMELT_RETURN_IF_ERROR(Number(words_[i], "", &phase.instrs.back()));
      }
      spec_.phases.push_back(std::move(phase));
      return absl::OkStatus();
    }
    return ParseInstr();
  }

  absl::Status ParseParam() {
    if (words_.size() != 5) return Error("expected \"param DTYPE r|w|rw|- [STRIDES] alias=N\"");
    KernelParam p;
    SMELT_RETURN_IF_ERROR(Type(words_[1], &p.dtype));
    absl::string_view access = words_[2];
    if (access != "r" && access != "w" && access != "rw" && access != "-") return Error("access is r, w, rw or -");
    p.is_read = access[0] == 'r';
    p.is_written = access.back() == 'w';
    absl::string_view strides = words_[3];
    if (!absl::ConsumePrefix(&strides, "[") || !absl::ConsumeSuffix(&strides, "]")) return Error("expected [STRIDES]");
    if (!strides.empty()) {
      for (absl::string_view name : absl::StrSplit(strides, ',')) {
        const auto* end = std::end(kStrideNames);
        const auto* found = std::find(std::begin(kStrideNames), end, name);
        if (found == end) return Error(absl::StrCat("\"", name, "\" is not a stride class: zero, unit or any"));
        p.strides.push_back(static_cast<StrideClass>(found - std::begin(kStrideNames)));
      }
    }
    SMELT_RETURN_IF_ERROR(Number(words_[4], "alias=", &p.alias_class));
    spec_.params.push_back(std::move(p));
    return absl::OkStatus();
  }

  absl::Status ParseInstr() {
    if (words_.size() < 4 || words_[1] != "=") return Error("expected \"%N = OP DTYPE ...\"");
    int number;
    SMELT_RETURN_IF_ERROR(Number(words_[0], "%", &number));
    if (number != static_cast<int>(spec_.instrs.size())) {
      return Error(absl::StrCat("instruction %", number, " where %", spec_.instrs.size(), " is next"));
    }
    KernelInstr in;
    absl::string_view op = words_[2];
    absl::string_view name = op;
    if (absl::ConsumePrefix(&name, "load.")) {
      in.op = KernelOp::kLoad;
      SMELT_RETURN_IF_ERROR(Number(name, "p", &in.param));
    } else if (absl::ConsumePrefix(&name, "store.")) {
      in.op = KernelOp::kStore;
      SMELT_RETURN_IF_ERROR(Number(name, "p", &in.param));
    } else if (absl::ConsumePrefix(&name, "atomic_add.")) {
      in.op = KernelOp::kAtomicAdd;
      SMELT_RETURN_IF_ERROR(Number(name, "p", &in.param));
    } else if (absl::ConsumePrefix(&name, "index.")) {
      in.op = KernelOp::kIndex;
      SMELT_RETURN_IF_ERROR(Number(name, "d", &in.dim));
    } else if (absl::ConsumePrefix(&name, "dim_size.")) {
      in.op = KernelOp::kDimSize;
      SMELT_RETURN_IF_ERROR(Number(name, "d", &in.dim));
    } else if (absl::ConsumePrefix(&name, "scalar.")) {
      in.op = KernelOp::kScalarParam;
      SMELT_RETURN_IF_ERROR(Number(name, "s", &in.dim));
    } else if (absl::ConsumePrefix(&name, "reduce.") || absl::ConsumePrefix(&name, "scan.")) {
      in.op = op[0] == 'r' ? KernelOp::kReduce : KernelOp::kScan;
      const auto* end = std::end(kReduceNames);
      const auto* found = std::find(std::begin(kReduceNames), end, name);
      if (found == end) return Error(absl::StrCat("\"", name, "\" is not a kind of reduction"));
      in.reduce = static_cast<ReduceKind>(found - std::begin(kReduceNames));
    } else if (op == "check_index") {
      in.op = KernelOp::kCheckIndex;
    } else {
      in.op = KernelOp::kScalar;
      bool found = false;
      for (int i = 0; i < static_cast<int>(ScalarOp::kNumOps) && !found; ++i) {
        in.scalar = static_cast<ScalarOp>(i);
        found = op == smelt::Name(in.scalar);
      }
      if (!found) return Error(absl::StrCat("\"", op, "\" is not an operation"));
    }
    SMELT_RETURN_IF_ERROR(Type(words_[3], &in.type));
    size_t i = 4;
    if (in.op == KernelOp::kScalar && in.scalar == ScalarOp::kConst) {
      if (words_.size() != 5) return Error("expected one value after const and its dtype");
      absl::string_view text = words_[i++];
      if (!IsFloating(in.type)) {
        if (!absl::SimpleAtoi(text, &in.imm.i)) return Error(absl::StrCat("\"", text, "\" is not an integer"));
      } else if (absl::ConsumePrefix(&text, "bits:")) {
        uint64_t bits;
        if (!absl::SimpleHexAtoi(text, &bits)) return Error(absl::StrCat("\"", text, "\" is not hexadecimal"));
        std::memcpy(&in.imm.f, &bits, sizeof bits);
      } else if (!absl::SimpleAtod(text, &in.imm.f)) {
        return Error(absl::StrCat("\"", text, "\" is not a number"));
      }
    }
    for (; i < words_.size() && words_[i][0] == '%'; ++i) {
      in.operands.push_back(0);
      SMELT_RETURN_IF_ERROR(Number(words_[i], "%", &in.operands.back()));
    }
    if (i < words_.size() && words_[i] == "+offset") in.has_offset = true, ++i;
    if (i < words_.size() && words_[i] == "+guard") in.has_guard = true, ++i;
    if (i != words_.size()) return Error(absl::StrCat("\"", words_[i], "\" is not expected here"));
    spec_.instrs.push_back(std::move(in));
    return absl::OkStatus();
  }

  KernelSpec spec_;
  bool seen_header_ = false;
  std::vector<absl::string_view> words_;
};

// What a kScalar instruction may look like; the empty string if it is fine.
std::string ScalarTypeError(const KernelInstr& in, const std::vector<DType>& args) {
  const DType t = in.type;
  const bool real = t == DType::kFloat32 || t == DType::kFloat64;
  auto all_are = [&](DType want) { return std::all_of(args.begin(), args.end(), [&](DType a) { return a == want; }); };
  auto none_half = [&] { return std::none_of(args.begin(), args.end(), IsHalf); };
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
      return all_are(t) && none_half() ? "" : "needs operands of its own type, which is not float16 or bfloat16";
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

absl::StatusOr<KernelSpec> ParseKernelSpec(absl::string_view text) { return SpecParser().Parse(text); }

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
        if (IsHalf(args[0])) return error("reduces float16 or bfloat16; cast to float32 first");
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

namespace {

float HalfToFloat(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const int mantissa = h & 1023;
  const float sign = h >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t FloatToHalf(double f) {
  const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  if (std::isnan(f)) return sign | 0x7e00;
  f = std::fabs(f);
  if (f >= 65520) return sign | 0x7c00;
  if (f < std::ldexp(1, -14)) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(f, 24)));
  int exponent;
  const double m = std::frexp(f, &exponent);  // [0.5, 1)
  // A mantissa that rounds up to 2048 carries into the exponent by itself.
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + (static_cast<int>(std::nearbyint(m * 2048)) - 1024));
}

ScalarValue ReadElement(DType t, const void* at) {
  ScalarValue v;
  auto as = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  v.i = 0;
  switch (t) {
    case DType::kBool:
      v.i = as(uint8_t{}) != 0;
      break;
    case DType::kUInt8:
      v.i = as(uint8_t{});
      break;
    case DType::kInt8:
      v.i = as(int8_t{});
      break;
    case DType::kInt16:
      v.i = as(int16_t{});
      break;
    case DType::kInt32:
      v.i = as(int32_t{});
      break;
    case DType::kInt64:
      v.i = as(int64_t{});
      break;
    case DType::kFloat16:
      v.f = HalfToFloat(as(uint16_t{}));
      break;
    case DType::kBFloat16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &bits, sizeof f);
      v.f = f;
      break;
    }
    case DType::kFloat32:
      v.f = as(float{});
      break;
    case DType::kFloat64:
      v.f = as(double{});
      break;
    default:
      SMELT_UNREACHABLE();
  }
  return v;
}

void WriteElement(DType t, ScalarValue v, void* at) {
  auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (t) {
    case DType::kBool:
      put(static_cast<uint8_t>(v.i != 0));
      break;
    case DType::kUInt8:
    case DType::kInt8:
      put(static_cast<uint8_t>(v.i));
      break;
    case DType::kInt16:
      put(static_cast<uint16_t>(v.i));
      break;
    case DType::kInt32:
      put(static_cast<uint32_t>(v.i));
      break;
    case DType::kInt64:
      put(v.i);
      break;
    case DType::kFloat16:
      put(FloatToHalf(v.f));
      break;
    case DType::kBFloat16: {
      // The value is one of bfloat16 already, so that the upper half is all of it; NaN needs care.
      const float f = static_cast<float>(v.f);
      uint32_t bits;
      std::memcpy(&bits, &f, sizeof bits);
      put(static_cast<uint16_t>(std::isnan(f) ? 0x7fc0 : bits >> 16));
      break;
    }
    case DType::kFloat32:
      put(static_cast<float>(v.f));
      break;
    case DType::kFloat64:
      put(v.f);
      break;
    default:
      SMELT_UNREACHABLE();
  }
}

// One reduction or scan in progress. Sums and products of floating point are exact enough to be a reference: a
// reduction's in long double, a scan's in double, in order (which is what PyTorch's cumsum does, so that scans are
// comparable bit for bit).
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
        strides.push_back(c == StrideClass::kZero ? 0 : c == StrideClass::kUnit ? 1 : *w++);
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
      } else if (t == DType::kBool) {
        v.i = v.i != 0;
      } else {
        v.i = Wrap(t, v.i);
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
  // Modulo the integer type.
  static int64_t Wrap(DType t, int64_t i) {
    switch (t) {
      case DType::kInt32:
        return static_cast<int32_t>(i);
      case DType::kInt16:
        return static_cast<int16_t>(i);
      case DType::kInt8:
        return static_cast<int8_t>(i);
      case DType::kUInt8:
        return static_cast<uint8_t>(i);
      default:
        return i;
    }
  }

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
          a.value.i = Wrap(t, a.value.i);
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
        // Among equals, the one of the lower index: the first, if indices ascend.
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
          if (enabled) values_[i] = ReadElement(in.type, Address(in, offset));
        } else if (enabled) {
          WriteElement(in.type, operand(0), Address(in, offset));
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
    return Invalid(
        absl::StrCat("tiles [", begin, ", ", end, ") are not within the ", NumTiles(spec, words), " there are"));
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
