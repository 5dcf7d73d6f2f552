// A kernel while it is built: loops, instructions and accesses by number. Builder (kernel_builder.h) adds to it; the
// canonical form (canonical_form.h) rearranges it; the kernel is emitted from it (emit_kernel.h). Internal to those.
#ifndef SMELT_FUSER_KERNEL_DRAFT_H_
#define SMELT_FUSER_KERNEL_DRAFT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "smelt/core/op/scalar.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/fuser/lower_group.h"

namespace smelt::kernel {

struct KernelDraft {
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

  explicit KernelDraft(const SymbolRanges& symbols) : ranges(symbols) {}

  int rank() const { return static_cast<int>(sizes.size()); }
  bool ReductionCoef(const std::vector<Expr>& coef) const;  // whether it differs along the reduction dims
  // Sets `reachable`: the instructions that stores need.
  void MarkReachable();
  // Returns whether data determines a separate position for each index along `dim`.
  bool IsChosenAlong(int dim) const;
  // Returns whether every use treats dim a as the multiple of dim b that continues it.
  bool Collapses(int a, int b) const;
  // Returns whether the instruction costs more than a store and a load from the nearest cache.
  static bool IsCostly(const Ins& in);
  bool Commutes(const Ins& in) const;
  // Returns whether the operands of a commutative instruction must be swapped, because they are in the `wrong_order`. A
  // bound always comes after the bounded value, whose sign is kept if both are zero, as in PyTorch.
  bool IsToBeSwapped(const Ins& in, bool wrong_order) const;
  // Returns whether `d` is the dim beside the last, along which tiles of an operand may be read (codegen/emit_tiles.h).
  bool IsAcrossLoop(const Access& a, int d) const { return d == rank() - 2 && rank() == parallel && !a.is_output; }
  StrideClass ClassOf(const Access& a, int d) const;

  const SymbolRanges& ranges;
  std::vector<Expr> sizes;
  int parallel = 0;
  bool sliding_window = false;
  std::vector<Ins> ins;  // operands stand before their users
  std::vector<int> stores;
  std::vector<Access> accesses;
  std::vector<Linear> linears;
  std::vector<LoweredKernel::Scalar> scalars;
  std::vector<DType> scalar_types;
  std::vector<bool> reachable;
  std::vector<uint64_t> color;

 private:
  // Returns which operand of a minimum or maximum is the only number, or -1.
  int BoundOf(const Ins& in) const;
};

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_KERNEL_DRAFT_H_
