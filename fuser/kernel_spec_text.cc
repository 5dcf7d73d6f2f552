// Writes and parses the text of a kernel spec.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

constexpr const char* kStrideNames[] = {"zero", "unit", "any", "two", "three", "four", "back"};
constexpr const char* kReduceNames[] = {"sum", "prod", "min", "max", "argmin", "argmax", "and", "or"};

std::string ConstText(const KernelInstr& instr) {
  if (!IsFloating(instr.type)) return absl::StrCat(instr.imm.i);
  uint64_t bits;
  std::memcpy(&bits, &instr.imm.f, sizeof bits);
  // Bits, where a decimal number would not be read back equal: NaN has a payload.
  if (std::isnan(instr.imm.f)) return absl::StrFormat("bits:%016x", bits);
  return absl::StrFormat("%.17g", instr.imm.f);
}

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
    if (!seen_header_)
      return absl::InvalidArgumentError(
          "kernel spec: no line \"kernel parallel=... reduction=... vector=... sequential=...\"");
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
        if (found == end)
          return Error(absl::StrCat("\"", name, "\" is not a stride class: zero, unit, any, two, three, four or back"));
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

}  // namespace

absl::string_view Name(StrideClass c) { return kStrideNames[static_cast<int>(c)]; }

std::string KernelSpec::ToString() const {
  std::string out = absl::StrFormat("kernel parallel=%d reduction=%d vector=%d sequential=%d\n", parallel_rank,
                                    reduction_rank, vector_dim, sequential ? 1 : 0);
  for (const KernelParam& p : params) {
    absl::StrAppend(&out, "param ", Name(p.dtype), " ", p.is_read ? "r" : "", p.is_written ? "w" : "",
                    p.is_read || p.is_written ? "" : "-", " [");
    for (size_t d = 0; d < p.strides.size(); ++d) {
      absl::StrAppend(&out, d ? "," : "", Name(p.strides[d]));
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

absl::StatusOr<KernelSpec> ParseKernelSpec(absl::string_view text) { return SpecParser().Parse(text); }

}  // namespace smelt
