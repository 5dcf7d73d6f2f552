// One group, lowered by demand: each value is computed at an index that is a function of the loops' indices.
//
//   LoweredKernel k = Lowering(graph, node, layout).Run();
//
// Besides indices everything is an instruction of the kernel, by its number in the builder. A guard is a boolean
// instruction, or -1 for true: a value that is computed under a false guard is not used, and reads nothing.
//
//   lower_group.cc       results, values by demand, operands
//   lower_operators.cc   the meaning of each operator; pointwise operators and fills
//   lower_scalars.cc     numbers among the arguments; short names for instructions
//   lower_reductions.cc  reductions and scans
//   lower_views.cc       views, pads, cat and other operators that move elements by their index
//   lower_indexing.cc    reads at indices from data
//   lower_writes.cc      writes at indices from data
//   lower_windows.cc     pooling, im2col, col2im
//   lower_resampling.cc  upsampling
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

 private:
  using Values = absl::StatusOr<std::vector<int>>;  // one per result of the node

  struct Memo {
    Index index;
    int guard;
    std::vector<int> results;
  };

  // --- results ---
  absl::Status EmitRoots();
  absl::StatusOr<Index> RootIndex(const Root& r);
  void StoreTo(const Root& r, const Index& index, int value);
  int LoadFrom(const Root& r, const Index& index);

  // --- values ---
  absl::StatusOr<int> Eval(ValueId v, const Index& index, int guard);
  absl::StatusOr<int> LoadOperand(ValueId v, const Index& index, int guard);
  Values EvalNode(NodeId n, uint32_t output, const Index& index, int guard);
  Values EvalSpecial(NodeId n, OpFamily s, const Index& index, int guard);
  Values EvalPointwise(NodeId n, uint32_t output, const Index& index, int guard);

  // --- numbers ---
  int ConstantElement(const Tensor& t);
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

  // --- fills ---
  absl::StatusOr<int> EvalFill(NodeId n);
  absl::StatusOr<int> EvalArange(NodeId n, const Index& index);
  absl::StatusOr<int> EvalLinspace(NodeId n, const Index& index);
  absl::StatusOr<int> EvalEye(NodeId n, const Index& index);
  absl::StatusOr<int> EvalTriangle(NodeId n, const Index& index, int guard);

  // --- reductions ---
  // An error where this reduction is not over the domain's reduction dims, or over a part of them: `guard` says where
  // its result is used.
  absl::Status CheckSite(NodeId n, const std::vector<Expr>& reduced, const Index& outer, int guard);
  // Makes one accumulator over the reduction dims; `index` for kArgMin and kArgMax, else -1.
  int Reduce(ReduceKind kind, int value, int index, bool scan);
  Values EvalReduction(NodeId n, const Index& index, int guard);

  // --- views ---
  absl::StatusOr<int> EvalView(NodeId n, const Index& index, int guard);
  // Returns the index of `base` at which the view shows `index`.
  absl::StatusOr<Index> ViewIndex(NodeId n, const Index& index);
  // The quotient and the remainder of a nonnegative index: by splitting a dim of the domain in two, else by division.
  struct Division {
    Affine quotient, remainder;
  };
  absl::StatusOr<Division> Divide(const Affine& a, const Expr& m);
  // Converts a row-major index to a flat one, and back.
  Affine Flatten(const Index& index, const std::vector<Expr>& sizes);
  absl::StatusOr<Index> Unflatten(Affine flat, const std::vector<Expr>& sizes);
  // Reads the element of `v` at one index or at the other.
  absl::StatusOr<int> EvalEither(ValueId v, int condition, const Index& then, const Index& otherwise, int guard);
  absl::StatusOr<int> EvalOverlay(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalConstantPad(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalEdgePad(NodeId n, OpFamily kind, const Index& index, int guard);
  absl::StatusOr<int> EvalFlip(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalRoll(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalRepeat(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalRepeatInterleave(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalCat(NodeId n, bool stack, const Index& index, int guard);

  // --- reads at indices from data ---
  // An index from data: in range or the kernel's status is set. PyTorch's gather and its kin refuse negative ones
  // (`wrap` is false).
  int Checked(int index, const Expr& size, bool wrap, int guard);
  // Returns `value`, with a check of the index that operators along a dim have for a tensor without dims. Nothing else
  // would use the index, and unused values are not checked.
  int CheckedAlongScalar(int index, bool wrap, int guard, int value);
  // Returns the position in a tensor of sizes `self` to which the indices map `index` of the result.
  absl::StatusOr<Index> IndexedAt(const IndexList& list, const std::vector<Expr>& self, const Index& index, int guard);
  absl::StatusOr<int> EvalGather(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalIndexSelect(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalEmbedding(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalIndex(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalTake(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalOneHot(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalMaskedScatter(NodeId n, const Index& index, int guard);

  // --- writes at indices from data ---
  // One element of the memory that is written to, and what becomes of it.
  struct Write {
    enum Mode { kSet, kAdd, kMul, kMin, kMax } mode = kSet;
    Index at;
    int value = -1;
  };
  absl::Status EmitAction(const Root& r);
  absl::StatusOr<Write> WriteOf(NodeId n, DType t);
  absl::StatusOr<Write> ScatterWrite(NodeId n, DType t);
  absl::StatusOr<Write::Mode> ScatterMode(NodeId n) const;
  absl::StatusOr<Write> IndexPutWrite(NodeId n);
  absl::StatusOr<Write> PutWrite(NodeId n);
  absl::StatusOr<Write> AlongDimWrite(NodeId n, DType t);  // index_add, index_copy, index_fill
  // The index of the k-th loop that runs in order.
  Affine Ordered(size_t k) const { return domain_.reduced_index.empty() ? b_->Zero() : domain_.reduced_index[k]; }

  // --- windows ---
  Values EvalPool(NodeId n, OpFamily s, const Index& index, int guard);
  absl::StatusOr<int> EvalIm2Col(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalCol2Im(NodeId n, const Index& index, int guard);

  // --- resampling ---
  // A scale that the node names, output over input, of its k-th spatial dim.
  absl::StatusOr<std::optional<double>> ScaleArg(NodeId n, size_t k, size_t spatial);
  // Returns the factor that maps an output index to an input index: 1 / scale, or in / out, as an instruction of type
  // `c`.
  absl::StatusOr<int> Ratio(NodeId n, DType c, const Expr& in, const Expr& out, size_t k, size_t spatial);
  // Returns a guard that is true if PyTorch's kernel copies elements, or uses each twice, if the sizes say so, whatever
  // factor the node names. That is the kernel for small images, and for four or more adjacent channels.
  std::optional<int> GoesBySizes(NodeId n, ValueId image);
  int IsEqual(const Expr& a, const Expr& b);  // as a guard
  absl::StatusOr<int> EvalUpsampleNearest(NodeId n, const Index& index, int guard);
  absl::StatusOr<int> EvalUpsampleLinear(NodeId n, const Index& index, int guard);

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
