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
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/symbol/expr.h"
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
  explicit Builder(const SymbolRanges& ranges) : ranges_(ranges) {}

  // --- domain ---
  void SetDomain(std::vector<Expr> sizes, int parallel);
  // Replaces dim d by dims of the given sizes, whose product is its size. Must precede the first instruction.
  void SplitDim(int d, const std::vector<Expr>& sizes);
  static void SplitIn(Affine& a, int d, const std::vector<Expr>& sizes);  // the same in an index
  // States that the reduction dims are a window that slides along the last parallel dim: it has few elements, and the
  // next element's window is close to it.
  void SetSlidingWindow() { sliding_window_ = true; }
  int rank() const { return static_cast<int>(sizes_.size()); }
  const Expr& DimSize(int d) const { return sizes_[d]; }

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
  DType TypeOf(int i) const { return ins_[i].type; }
  // Returns whether it may differ from one index of the reduced dims to the next.
  bool VariesInRow(int i) const { return ins_[i].inner; }
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

 private:
  friend class Emission;  // emit_kernel.cc

  struct Ins {
    KernelOp op = KernelOp::kScalar;
    DType type = DType::kFloat32;
    ScalarOp scalar = ScalarOp::kConst;
    ScalarImm imm;
    std::vector<int> operands;
    int access = -1;
    bool has_offset = false, has_guard = false;
    int scalar_param = -1;
    int dim = -1;
    ReduceKind reduce = ReduceKind::kSum;
    bool is_affine = false;  // IndexValue: expanded by Finish; `affine` names it
    int affine = -1;
    bool each = false;   // SetEach
    bool inner = false;  // depends on the reduction dims (and is no kReduce)
    int depth = 0;       // kReduces in sequence below it
  };
  struct Access {
    ValueId value;
    bool is_output = false;
    int output = -1;
    DType dtype = DType::kFloat32;
    Expr offset;
    std::vector<Expr> coef;
    bool is_there = false;  // one element, for all indices of the loops
  };
  struct Linear {
    Expr base;
    std::vector<Expr> coef;
  };

  int Add(Ins in);    // adds it unconditionally
  int Share(Ins in);  // or returns an equal one that exists
  // Adds an instruction to a list that is rebuilt; its operands are in the new list already.
  int AddAgain(Ins in);
  std::string KeyOf(const Ins& in) const;
  void Derive(Ins& in) const;  // inner, depth
  bool ReductionCoef(const std::vector<Expr>& coef) const;

  // The steps of Finish, in order.
  void MarkReachable();
  // Returns whether data determines a separate position for each index along `dim`.
  bool IsChosenAlong(int dim) const;
  void PutRunsLast(std::vector<int>& dims) const;
  // Returns the parallel and the reduction dims whose sizes are not 1, the widest strides first.
  std::pair<std::vector<int>, std::vector<int>> SortDims(bool ordered) const;
  // Returns whether every use treats dim a as the multiple of dim b that continues it.
  bool Collapses(int a, int b) const;
  std::vector<int> Collapsed(const std::vector<int>& dims);
  // Returns the last of the parallel dims, if it has too few elements to fill vectors and there are many rows; else -1.
  int ShortRow(const std::vector<int>& dims) const;
  void UnrollRow(int row);
  std::optional<int64_t> KnownInt(int i) const;
  int FoldPlaces(int i);
  void ArrangeDims(bool ordered);
  void ExpandAffines();
  void Color();
  LoweredKernel Emit(bool ordered);
  static bool IsCostly(const Ins& in);
  // Returns whether a row to reduce fills no vector, while many adjacent rows do.
  bool AreShortRowsSideBySide() const;
  int ChooseVectorDim(bool ordered) const;
  bool Commutes(const Ins& in) const;
  // Returns which operand of a minimum or maximum is the only number, or -1.
  int BoundOf(const Ins& in) const;
  // Returns whether the operands of a commutative instruction must be swapped, because they are in the `wrong_order`. A
  // bound always comes after the bounded value, whose sign is kept if both are zero, as in PyTorch.
  bool IsToBeSwapped(const Ins& in, bool wrong_order) const;
  // Returns whether `d` is the dim beside the last, along which tiles of an operand may be read (codegen/emit_tiles.h).
  bool IsAcrossLoop(const Access& a, int d) const { return d == rank() - 2 && rank() == parallel_ && !a.is_output; }
  StrideClass ClassOf(const Access& a, int d) const;
  int CompareStride(int a, int b) const;

  const SymbolRanges& ranges_;
  std::vector<Expr> sizes_;
  int parallel_ = 0;
  bool sliding_window_ = false;
  bool each_ = false;
  std::vector<Ins> ins_;
  std::vector<int> stores_;
  std::vector<Access> accesses_;
  std::vector<Linear> linears_;
  std::vector<LoweredKernel::Scalar> scalars_;
  std::vector<DType> scalar_types_;
  absl::flat_hash_map<std::string, int> shared_;
  std::vector<bool> reachable_;
  std::vector<uint64_t> color_;
};

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_KERNEL_BUILDER_H_
