// One group, lowered by demand: each value is computed at an index that is a function of the loops' indices.
//
//   LoweredKernel k = Lowering(graph, node, layout).Run();
//
// Besides indices everything is an instruction of the kernel, by its number in the builder. A guard is a boolean
// instruction, or -1 for true: a value that is computed under a false guard is not used, and reads nothing.
//
// The meaning of operators is in files of their own, as functions that take the Lowering: lower_operators.h dispatches
// to lower_reductions.h, lower_views.h, lower_indexing.h, lower_windows.h and lower_resampling.h; lower_writes.h has the
// writes at indices from data.
#ifndef SMELT_FUSER_LOWERING_H_
#define SMELT_FUSER_LOWERING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/fuser/group.h"
#include "smelt/fuser/group_domain.h"
#include "smelt/fuser/kernel_builder.h"
#include "smelt/fuser/lower_group.h"

namespace smelt::kernel {

class Lowering {
 public:
  Lowering(const Graph& outer, NodeId node, const LayoutFn& layout) : g_(outer, node, layout) {}

  absl::StatusOr<LoweredKernel> Run();

  Group& group() { return g_; }
  Builder& builder() { return *b_; }
  Domain& domain() { return domain_; }

  // --- results ---
  void StoreTo(const Root& r, const Index& index, int value);
  int LoadFrom(const Root& r, const Index& index);

  // --- values ---
  absl::StatusOr<int> Eval(ValueId v, const Index& index, int guard);
  // Notes that the only result of a node is the instruction `result` at `index`, under `guard`.
  void Remember(NodeId n, const Index& index, int guard, int result) { memo_[n].push_back({index, guard, {result}}); }

  // --- numbers ---
  // A Python number among the arguments, as an instruction of type `t`.
  absl::StatusOr<int> ScalarArg(NodeId n, const OpArg& a, DType t);
  absl::StatusOr<int> ScalarInput(NodeId n, ValueId v, DType t);  // the same of a node that is no OpCall

  int Convert(int v, DType t) { return b_->TypeOf(v) == t ? v : b_->Cast(v, t); }
  int And(int a, int b);  // of guards
  // Facts 0 <= a and a < size that are known to hold in all of the domain.
  struct Within {
    bool above, below;
  };
  Within KnownWithin(const Affine& a, const Expr& size) const;
  // Returns 0 <= a < size as a guard; -1 if it always holds.
  int InRange(const Affine& a, const Expr& size);
  int Select(int guard, int a, int b);
  int Number(DType t, double v);
  int I64(ScalarOp op, int a, int b = -1) { return b_->Op(op, DType::kInt64, a, b); }
  int Size(const Expr& e) { return b_->ExprParam(e); }

  // --- indices ---
  // The quotient and the remainder of a nonnegative index: by splitting a dim of the domain in two, else by division.
  struct Division {
    Affine quotient, remainder;
  };
  absl::StatusOr<Division> Divide(const Affine& a, const Expr& m);
  // Converts a row-major index to a flat one, and back.
  Affine Flatten(const Index& index, const std::vector<Expr>& sizes);
  absl::StatusOr<Index> Unflatten(Affine flat, const std::vector<Expr>& sizes);

 private:
  struct Memo {
    Index index;
    int guard;
    std::vector<int> results;
  };

  absl::Status EmitRoots();
  absl::StatusOr<Index> RootIndex(const Root& r);
  absl::StatusOr<int> LoadOperand(ValueId v, const Index& index, int guard);
  int ConstantElement(const Tensor& t);

  Group g_;
  // The state of one attempt.
  std::unique_ptr<Builder> b_;
  Domain domain_;
  absl::flat_hash_map<NodeId, std::vector<Memo>> memo_;
  absl::flat_hash_map<std::pair<ValueId, int>, int> scalar_memo_;
  int depth_ = 0;
  std::optional<DimSplit> split_;  // a value needs it: the attempt must be repeated
  // Kept across attempts.
  std::vector<DimSplit> splits_;
};

}  // namespace smelt::kernel

#endif  // SMELT_FUSER_LOWERING_H_
