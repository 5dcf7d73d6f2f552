#include "smelt/fuser/unroll_rows.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"

namespace smelt::kernel {
namespace {

using Ins = KernelDraft::Ins;
using Access = KernelDraft::Access;
using Linear = KernelDraft::Linear;

// With fewer rows, vectors along them are not better filled.
constexpr int64_t kManyRows = 8;

// With more instructions, several copies of a kernel's body take LLVM longer than they are worth.
constexpr int64_t kLongBody = 240;

std::optional<int64_t> KnownInt(const KernelDraft& draft, int i) {
  const Ins& in = draft.ins[i];
  if (in.is_affine) {
    const Linear& l = draft.linears[in.affine];
    const bool is_place = absl::c_all_of(l.coef, [](const Expr& c) { return c == Expr(0); });
    return is_place ? l.base.Constant() : std::nullopt;
  }
  if (in.op == KernelOp::kScalarParam) {
    const LoweredKernel::Scalar& s = draft.scalars[in.scalar_param];
    return s.is_expr && !IsFloating(in.type) ? s.expr.Constant() : std::nullopt;
  }
  if (in.op != KernelOp::kScalar || in.scalar != ScalarOp::kConst || IsFloating(in.type)) return std::nullopt;
  return in.imm.i;
}

// Folds values that are computed from places alone, and choices that are known.
int FoldPlaces(Builder& builder, int i) {
  KernelDraft& draft = builder.draft();
  const Ins in = draft.ins[i];
  if (in.op != KernelOp::kScalar || in.operands.empty()) return i;
  std::vector<std::optional<int64_t>> known;
  for (int o : in.operands) known.push_back(KnownInt(draft, o));
  const std::optional<int64_t>&a = known[0], &b = known.size() > 1 ? known[1] : known[0];
  if (in.scalar == ScalarOp::kSelect) return a ? in.operands[*a != 0 ? 1 : 2] : i;
  const bool is_bool = in.type == DType::kBool;
  if (is_bool && draft.ins[in.operands[0]].type == DType::kBool && known.size() == 2) {
    const bool is_and = in.scalar == ScalarOp::kAnd;
    if (!is_and && in.scalar != ScalarOp::kOr) return i;
    for (int k = 0; k < 2; ++k) {
      if (!known[k]) continue;
      // Returns the operand that decides, or the other one.
      return (*known[k] != 0) == is_and ? in.operands[1 - k] : in.operands[k];
    }
    return i;
  }
  if (known.size() != 2 || !a || !b || draft.ins[in.operands[0]].type != DType::kInt64) return i;
  switch (in.scalar) {
    case ScalarOp::kEq:
      return builder.ConstInt(DType::kBool, *a == *b);
    case ScalarOp::kNe:
      return builder.ConstInt(DType::kBool, *a != *b);
    case ScalarOp::kLt:
      return builder.ConstInt(DType::kBool, *a < *b);
    case ScalarOp::kLe:
      return builder.ConstInt(DType::kBool, *a <= *b);
    case ScalarOp::kGt:
      return builder.ConstInt(DType::kBool, *a > *b);
    case ScalarOp::kGe:
      return builder.ConstInt(DType::kBool, *a >= *b);
    default:
      return i;
  }
}

}  // namespace

int ShortRow(const KernelDraft& draft, const std::vector<int>& dims) {
  if (draft.rank() != draft.parallel || dims.size() < 2) return -1;
  const int row = dims.back();
  const std::optional<int64_t> length = draft.sizes[row].Constant();
  if (!length || *length < 2 || *length > kLongestUnrolledRow) return -1;
  // The rows that follow each other like the elements of one dim.
  size_t outer = dims.size() - 2;
  if (draft.Collapses(dims[outer], row)) return -1;
  Expr rows = draft.sizes[dims[outer]];
  while (outer > 0 && draft.Collapses(dims[outer - 1], dims[outer])) rows = rows * draft.sizes[dims[--outer]];
  if (rows.Constant().value_or(kManyRows) < kManyRows) return -1;
  int64_t body = 0;
  for (size_t i = 0; i < draft.ins.size(); ++i) {
    const Ins& in = draft.ins[i];
    if (!draft.reachable[i]) continue;
    ++body;
    // A written operand is read again, in an order of its own.
    if (in.op == KernelOp::kLoad && draft.accesses[in.access].is_output) return -1;
    if (in.op == KernelOp::kStore && draft.accesses[in.access].coef[row] == Expr(0)) return -1;
  }
  return body * *length <= kLongBody ? row : -1;
}

void UnrollRow(Builder& builder, int row) {
  KernelDraft& draft = builder.draft();
  const int64_t length = *draft.sizes[row].Constant();
  const std::vector<Ins> old = builder.TakeInstructions();
  std::vector<bool> varies(old.size());
  std::vector<std::vector<int>> at(old.size());  // of the row's numbers, or one for all
  absl::flat_hash_map<std::pair<int, int64_t>, int> moved;
  for (size_t i = 0; i < old.size(); ++i) {
    if (!draft.reachable[i]) continue;
    const Ins& in = old[i];
    if (in.is_affine) varies[i] = draft.linears[in.affine].coef[row] != Expr(0);
    if (in.access >= 0) varies[i] = draft.accesses[in.access].coef[row] != Expr(0);
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    for (int64_t number = 0; number < (varies[i] ? length : 1); ++number) {
      Ins copy = in;
      for (int& o : copy.operands) o = at[o][varies[o] ? number : 0];
      if (in.is_affine && varies[i]) {
        Affine a = builder.Zero();
        a.base = draft.linears[in.affine].base + draft.linears[in.affine].coef[row] * number;
        a.coef = draft.linears[in.affine].coef;
        a.coef[row] = 0;
        const bool is_place = a.base.IsConstant() && absl::c_all_of(a.coef, [](const Expr& c) { return c == Expr(0); });
        at[i].push_back(is_place ? builder.ConstInt(DType::kInt64, *a.base.Constant()) : builder.IndexValue(a));
        continue;
      }
      if (in.access >= 0 && draft.accesses[in.access].coef[row] != Expr(0)) {
        auto [it, fresh] = moved.try_emplace({in.access, number}, static_cast<int>(draft.accesses.size()));
        if (fresh) {
          Access there = draft.accesses[in.access];
          there.offset = there.offset + there.coef[row] * number;
          there.coef[row] = 0;
          draft.accesses.push_back(std::move(there));
        }
        copy.access = it->second;
      }
      if (in.has_guard) {
        const std::optional<int64_t> guard = KnownInt(draft, copy.operands.back());
        if (guard && *guard == 0) {
          // Stores nothing, or reads zero.
          const DType computed = IsHalf(in.type) ? DType::kFloat32 : in.type;
          at[i].push_back(in.op == KernelOp::kStore ? -1 : builder.Cast(builder.Const(computed, 0), in.type));
          continue;
        }
        if (guard) {
          copy.operands.pop_back();
          copy.has_guard = false;
        }
      }
      at[i].push_back(FoldPlaces(builder, builder.AddAgain(std::move(copy))));
    }
  }
  draft.sizes[row] = 1;
}

}  // namespace smelt::kernel
