// Builds a kernel value by value over an iteration domain, then puts it into canonical form.
//
//   Builder b(ranges);
//   b.SetDomain({n, m}, /*parallel=*/1);
//   auto [access, offset] = b.Address(x, /*is_output=*/false, -1, layout, {b.Dim(0), b.Dim(1)});
//   int sum = b.Reduce(ReduceKind::kSum, b.Load(access, offset, -1), -1, false);
//   ...
//   LoweredKernel k = b.Finish(/*ordered=*/false);
//
// Equal instructions are shared while building. Finish drops dims of size 1, orders and collapses dims, splits the
// instructions into phases and chooses an order of everything that does not depend on names, on the order of
// construction, or on sizes.
#ifndef SMELT_FUSER_KERNEL_BUILDER_H_
#define SMELT_FUSER_KERNEL_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/fuser/kernel_draft.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/fuser/lower_group.h"

namespace smelt::kernel {

// An integer as a function of the loop's indices: base + sum of coef[d] * index d + sum of factor * instruction.
struct Affine {
  Expr base;
  std::vector<Expr> coef;                     // one per dim of the domain
  std::vector<std::pair<int, Expr>> dynamic;  // sorted by instruction
  bool operator==(const Affine& o) const { return base == o.base && coef == o.coef && dynamic == o.dynamic; }
};
using Index = std::vector<Affine>;

// Rows of up to this many elements are unrolled if there are many rows: each element becomes a separate instruction.
inline constexpr int64_t kLongestUnrolledRow = 4;

class Builder {
 public:
  explicit Builder(const SymbolRanges& ranges) : draft_(ranges) {}

  // --- domain ---
  void SetDomain(std::vector<Expr> sizes, int parallel);
  // Replaces dim d by dims of the given sizes, whose product is its size. Must precede the first instruction.
  void SplitDim(int d, const std::vector<Expr>& sizes);
  static void SplitIn(Affine& a, int d, const std::vector<Expr>& sizes);  // the same in an index
  // States that the reduction dims are a window that slides along the last parallel dim: it has few elements, and the
  // next element's window is close to it.
  void SetSlidingWindow() { draft_.sliding_window = true; }
  int rank() const { return draft_.rank(); }
  const Expr& DimSize(int d) const { return draft_.sizes[d]; }

  // --- indices ---
  Affine Zero() const;
  Affine Dim(int d) const;
  Affine Dynamic(int instr) const;
  Affine Add(const Affine& a, const Affine& b) const;
  Affine Scale(const Affine& a, const Expr& factor) const;
  bool UsesReduction(const Affine& a) const;
  int LoneDim(const Affine& a) const;  // d if it is just the index of dim d, else -1
  // Finds a = quotient * m + remainder with 0 <= remainder < m everywhere in the domain, if that can be proven.
  std::optional<std::pair<Affine, Affine>> Divide(const Affine& a, const Expr& m) const;
  // Returns a dim of the domain and the parts into which it must be split so that `a` can be divided: a dim that spans
  // several multiples of m.
  std::optional<std::pair<int, std::vector<Expr>>> PartsFor(const Affine& a, const Expr& m) const;
  // Returns the bounds over the domain; nullopt if they depend on data or on unknown signs.
  std::pair<std::optional<Expr>, std::optional<Expr>> Bounds(const Affine& a) const;
  int IndexValue(const Affine& a);  // as an int64 instruction
  // Returns the index of the last dim that `a` increases with, a parallel one if there is one, and the rest of `a`;
  // else a and zero. The operand that is compared with the rest of a limit is then an index alone, for which vector
  // code counts lanes.
  std::pair<Affine, Affine> ApartFromDim(const Affine& a) const;
  int LimitValue(const Affine& a);  // like IndexValue; a value that is equal in all of the domain becomes an ExprParam

  // --- instructions ---
  DType TypeOf(int i) const { return draft_.ins[i].type; }
  // Returns whether it may differ from one index of the reduced dims to the next.
  bool VariesInRow(int i) const { return draft_.ins[i].inner; }
  int Const(DType t, double v);
  int ConstInt(DType t, int64_t v);
  int Op(ScalarOp op, DType t, int a, int b = -1, int c = -1);
  int Cast(int a, DType t);
  std::vector<int> Inline(const ScalarFn& fn, const std::vector<int>& args);
  int ScalarParam(DType t, LoweredKernel::Scalar s);  // never shared: equal values must not make kernels differ
  int ExprParam(const Expr& e);                       // int64; zero is a constant
  // Returns the address of `index` in `layout` of a value's memory: an access, and an offset instruction (-1 if none).
  std::pair<int, int> Address(ValueId value, bool is_output, int output, const SymbolicGeometry& layout,
                              const Index& index);
  int Load(int access, int offset, int guard);
  void Store(int access, int value, int offset, int guard);
  int Reduce(ReduceKind kind, int value, int index, bool scan);
  int CheckIndex(int index, int size);
  // States whether the following stores and checks belong to each iteration of the reduction dims, even if they do not
  // depend on these dims. There may be no iteration.
  void SetEach(bool each) { each_ = each; }

  // If `ordered`, the reduction dims run in order, so they are not vectorized.
  LoweredKernel Finish(bool ordered);

  // --- for the steps of Finish ---
  using Ins = KernelDraft::Ins;
  KernelDraft& draft() { return draft_; }
  int Append(Ins in);  // adds it unconditionally
  int Share(Ins in);   // or returns an equal one that exists
  // Empties the list of instructions, which is then rebuilt by AddAgain. Returns the old list.
  std::vector<Ins> TakeInstructions();
  // Adds an instruction to the list that is rebuilt; its operands are in the new list already.
  int AddAgain(Ins in);

 private:
  using Access = KernelDraft::Access;
  using Linear = KernelDraft::Linear;

  std::string KeyOf(const Ins& in) const;
  void Derive(Ins& in) const;  // inner, depth

  KernelDraft draft_;
  bool each_ = false;
  absl::flat_hash_map<std::string, int> shared_;
};

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_KERNEL_BUILDER_H_
