#include "smelt/runtime/eager_python.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/python_op.h"
#include "smelt/exec/python.h"
#include "smelt/exec/write_protocol.h"

namespace smelt {
namespace {

using Values = std::vector<PythonValue>;

absl::Status Error(absl::string_view what) { return absl::FailedPreconditionError(what); }

// (value, dtype, rank): checks a tensor; rank -1 is any.
absl::Status AssertType(absl::Span<const PythonValue> args) {
  if (args.size() != 3) return Error("a value, its dtype and its rank are expected");
  if (!args[0].IsTensor()) return absl::OkStatus();
  const Tensor& t = args[0].tensor();
  SMELT_ASSIGN_OR_RETURN(const int64_t dtype, args[1].AsInt());
  SMELT_ASSIGN_OR_RETURN(const int64_t rank, args[2].AsInt());
  if (static_cast<int64_t>(t.dtype()) == dtype && (rank < 0 || t.rank() == rank)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("a tensor taken from a list, a dictionary or a branch is of ",
                                               Name(t.dtype()), " and ", t.rank(),
                                               " dims, which the program that was compiled does not expect"));
}

// (tensor, sizes): checks a state, to which an earlier call may have given other sizes than the program was compiled
// for.
absl::Status AssertSizes(absl::Span<const PythonValue> args) {
  if (args.size() != 2 || !args[0].IsTensor()) return Error("a tensor and its sizes are expected");
  const Tensor& t = args[0].tensor();
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, args[1].AsInts());
  if (t.sizes() == absl::MakeConstSpan(sizes)) return absl::OkStatus();
  return Error(absl::StrCat("an earlier call gave a state the sizes [", absl::StrJoin(t.sizes(), ", "), "], [",
                            absl::StrJoin(sizes, ", "), "] are expected here"));
}

// (written, read): checks a write whose answer depends on how PyTorch computes if they share memory.
absl::Status AssertNoOverlap(absl::Span<const PythonValue> args) {
  if (args.size() != 2 || !args[0].IsTensor() || !args[1].IsTensor()) return Error("two tensors are expected");
  return IsReadWhileWritten(args[0].tensor(), args[1].tensor()) ? DependsOnOrderError() : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Values> RunEagerPython(const std::string& op, absl::Span<const PythonValue> args) {
  if (absl::StartsWith(op, op::kSmeltNamespace)) {
    const absl::Status status = op == op::kSmeltAssertType        ? AssertType(args)
                                : op == op::kSmeltAssertSizes     ? AssertSizes(args)
                                : op == op::kSmeltAssertNoOverlap ? AssertNoOverlap(args)
                                                                  : absl::UnimplementedError(op);
    return status.ok() ? absl::StatusOr<Values>(Values()) : status;
  }
  const std::optional<PythonOp> python = FindPythonOp(op);
  if (!python) return absl::UnimplementedError(op);
  absl::StatusOr<Values> results = RunPython(*python, args);
  if (absl::IsUnimplemented(results.status())) return Annotate(results, op);
  const auto is_complex = [](const PythonValue& v) { return v.IsComplex(); };
  if (results.ok() && std::any_of(results->begin(), results->end(), is_complex))
    return absl::UnimplementedError(absl::StrCat(op, ": a complex number"));
  return results;
}

}  // namespace smelt
