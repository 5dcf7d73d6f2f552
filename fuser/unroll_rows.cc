// Rows of two to four numbers: points, colors, boxes. They fill no vector, so a point of the loops becomes the whole
// row, each of its numbers becomes an instruction of its own, and vectors run along the rows. Comparisons with a
// number's place in its row (the parts of a list) become constants.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/fuser/kernel_builder.h"

namespace smelt::kernel {
namespace {

// With fewer rows, vectors along them are not better filled.
constexpr int64_t kManyRows = 8;

// With more instructions, several copies of a kernel's body take LLVM longer than they are worth.
constexpr int64_t kLongBody = 240;

}  // namespace

int Builder::ShortRow(const std::vector<int>& dims) const {
  if (rank() != parallel_ || dims.size() < 2) return -1;
  const int row = dims.back();
  const std::optional<int64_t> length = sizes_[row].Constant();
  if (!length || *length < 2 || *length > kLongestUnrolledRow) return -1;
  // The rows that follow each other like the elements of one dim.
  size_t outer = dims.size() - 2;
  if (Collapses(dims[outer], row)) return -1;
  Expr rows = sizes_[dims[outer]];
  while (outer > 0 && Collapses(dims[outer - 1], dims[outer])) rows = rows * sizes_[dims[--outer]];
  if (rows.Constant().value_or(kManyRows) < kManyRows) return -1;
  int64_t body = 0;
  for (size_t i = 0; i < ins_.size(); ++i) {
    const Ins& in = ins_[i];
    if (!reachable_[i]) continue;
    ++body;
    // A written operand is read again, in an order of its own.
    if (in.op == KernelOp::kLoad && accesses_[in.access].is_output) return -1;
    if (in.op == KernelOp::kStore && accesses_[in.access].coef[row] == Expr(0)) return -1;
  }
  return body * *length <= kLongBody ? row : -1;
}

std::optional<int64_t> Builder::KnownInt(int i) const {
  const Ins& in = ins_[i];
  if (in.is_affine) {
    const Linear& l = linears_[in.affine];
    const bool is_place = absl::c_all_of(l.coef, [](const Expr& c) { return c == Expr(0); });
    return is_place ? l.base.Constant() : std::nullopt;
  }
  if (in.op == KernelOp::kScalarParam) {
    const LoweredKernel::Scalar& s = scalars_[in.scalar_param];
    return s.is_expr && !IsFloating(in.type) ? s.expr.Constant() : std::nullopt;
  }
  if (in.op != KernelOp::kScalar || in.scalar != ScalarOp::kConst || IsFloating(in.type)) return std::nullopt;
  return in.imm.i;
}

// Folds values that are computed from places alone, and choices that are known.
int Builder::FoldPlaces(int i) {
  const Ins in = ins_[i];
  if (in.op != KernelOp::kScalar || in.operands.empty()) return i;
  std::vector<std::optional<int64_t>> known;
  for (int o : in.operands) known.push_back(KnownInt(o));
  const std::optional<int64_t>&a = known[0], &b = known.size() > 1 ? known[1] : known[0];
  if (in.scalar == ScalarOp::kSelect) return a ? in.operands[*a != 0 ? 1 : 2] : i;
  const bool is_bool = in.type == DType::kBool;
  if (is_bool && ins_[in.operands[0]].type == DType::kBool && known.size() == 2) {
    const bool is_and = in.scalar == ScalarOp::kAnd;
    if (!is_and && in.scalar != ScalarOp::kOr) return i;
    for (int k = 0; k < 2; ++k) {
      if (!known[k]) continue;
      // Returns the operand that decides, or the other one.
      return (*known[k] != 0) == is_and ? in.operands[1 - k] : in.operands[k];
    }
    return i;
  }
  if (known.size() != 2 || !a || !b || ins_[in.operands[0]].type != DType::kInt64) return i;
  switch (in.scalar) {
    case ScalarOp::kEq:
      return ConstInt(DType::kBool, *a == *b);
    case ScalarOp::kNe:
      return ConstInt(DType::kBool, *a != *b);
    case ScalarOp::kLt:
      return ConstInt(DType::kBool, *a < *b);
    case ScalarOp::kLe:
      return ConstInt(DType::kBool, *a <= *b);
    case ScalarOp::kGt:
      return ConstInt(DType::kBool, *a > *b);
    case ScalarOp::kGe:
      return ConstInt(DType::kBool, *a >= *b);
    default:
      return i;
  }
}

void Builder::UnrollRow(int row) {
  const int64_t length = *sizes_[row].Constant();
  const std::vector<Ins> old = std::move(ins_);
  ins_.clear();
  shared_.clear();
  stores_.clear();
  std::vector<bool> varies(old.size());
  std::vector<std::vector<int>> at(old.size());  // of the row's numbers, or one for all
  absl::flat_hash_map<std::pair<int, int64_t>, int> moved;
  for (size_t i = 0; i < old.size(); ++i) {
    if (!reachable_[i]) continue;
    const Ins& in = old[i];
    if (in.is_affine) varies[i] = linears_[in.affine].coef[row] != Expr(0);
    if (in.access >= 0) varies[i] = accesses_[in.access].coef[row] != Expr(0);
    for (int o : in.operands) varies[i] = varies[i] || varies[o];
    for (int64_t number = 0; number < (varies[i] ? length : 1); ++number) {
      Ins copy = in;
      for (int& o : copy.operands) o = at[o][varies[o] ? number : 0];
      if (in.is_affine && varies[i]) {
        Affine a = Zero();
        a.base = linears_[in.affine].base + linears_[in.affine].coef[row] * number;
        a.coef = linears_[in.affine].coef;
        a.coef[row] = 0;
        const bool is_place = a.base.IsConstant() && absl::c_all_of(a.coef, [](const Expr& c) { return c == Expr(0); });
        at[i].push_back(is_place ? ConstInt(DType::kInt64, *a.base.Constant()) : IndexValue(a));
        continue;
      }
      if (in.access >= 0 && accesses_[in.access].coef[row] != Expr(0)) {
        auto [it, fresh] = moved.try_emplace({in.access, number}, static_cast<int>(accesses_.size()));
        if (fresh) {
          Access there = accesses_[in.access];
          there.offset = there.offset + there.coef[row] * number;
          there.coef[row] = 0;
          accesses_.push_back(std::move(there));
        }
        copy.access = it->second;
      }
      if (in.has_guard) {
        const std::optional<int64_t> guard = KnownInt(copy.operands.back());
        if (guard && *guard == 0) {
          // Stores nothing, or reads zero.
          const DType computed = IsHalf(in.type) ? DType::kFloat32 : in.type;
          at[i].push_back(in.op == KernelOp::kStore ? -1 : Cast(Const(computed, 0), in.type));
          continue;
        }
        if (guard) {
          copy.operands.pop_back();
          copy.has_guard = false;
        }
      }
      at[i].push_back(FoldPlaces(AddAgain(std::move(copy))));
    }
  }
  sizes_[row] = 1;
}

}  // namespace smelt::kernel
