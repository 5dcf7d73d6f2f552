// The rules of OpenComposites, one per composite, in several files by subject. Internal to functionalize; other code
// uses open_composites.h.
#ifndef SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_
#define SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/functionalize/data_sizes.h"
#include "smelt/functionalize/open_composites.h"

namespace smelt {

class CompositeOpener {
 public:
  CompositeOpener(Graph& g, StrideChoices choices) : g_(g), at_run_time_(choices == StrideChoices::kAtRunTime) {}

  OpenedComposites decided() const { return decided_; }
  absl::Status Run();

 private:
  using Rule = absl::Status (CompositeOpener::*)(NodeId);

  static Rule RuleOf(OpName op);  // null if there is none
  static bool HasOut(OpName op) { return op.overload() == "out" || absl::EndsWith(op.overload(), "_out"); }
  absl::Status Open(NodeId n);

  // --- for the rules (open_composites.cc) ---
  ValueId In(NodeId n, int i) const { return g_.node(n).inputs[i]; }
  const TensorType& TypeOfValue(ValueId v) const { return g_.value(v).type.tensor(); }
  bool HasMasks(ValueId indices) const;  // or what may be one
  absl::StatusOr<int> ArgumentIndex(NodeId n, absl::string_view name) const;
  ValueId None(NodeId anchor) { return InsertConstant(g_, anchor, std::monostate()); }
  absl::StatusOr<std::vector<ValueId>> Insert(NodeId anchor, absl::string_view op, std::vector<ValueId> args,
                                              size_t outputs = 1);
  void ReplaceWith(NodeId n, ValueId v);
  // Makes a list of sizes as a value: constants, or the expressions of ints made for the purpose.
  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes);
  // Notes that the strides of v are about to decide a choice.
  void Decide(ValueId v) { (MayBeOfArgument(v) ? decided_.strides_decide : decided_.order_decides) = true; }
  // Returns whether v may share an argument's storage, or that of a state which takes another storage. Values after
  // blocks and lists count as such.
  bool MayBeOfArgument(ValueId v);
  bool IsAssigned(ValueId v) const;
  bool IsUserInput(ValueId v) const;
  // Corrects the layout of results. For many operators an archive states strides that differ from those of PyTorch's
  // kernels if operands are not contiguous, because the exporter has its own formulas.
  absl::Status CorrectLayout(NodeId n);
  // Gives the results the types that follow from the operands' types, if one of those differs from the archive's. Only
  // the archive names sizes that the data determines.
  absl::Status Retype(NodeId n);
  // Until its geometry changes, the results of in-place operators are names of their operand.
  void UseOneName(NodeId n);
  // The argument's strides decide whether the view is legal, and its strides.
  absl::Status View(NodeId n);
  // The remaining operators choose by position, so inference gives the layout.
  absl::Status DataSizes(NodeId n);
  // Decomposes a composite that writes and is equivalent to a sequence of other operators, by core/op's rule for it.
  absl::Status Decomposed(NodeId n);
  absl::Status Identity(NodeId n);
  // Its argument `flag` is known only at run time: a branch on it, in which the operator stands twice, each opened for
  // what the flag is there.
  absl::Status BranchOnFlag(NodeId n, int flag);
  bool IsFlagOfCall(ValueId v) const;  // a bool that is no constant
  // A block that hands on a new tensor which nobody else has hands on a copy: what is written there later is not seen
  // elsewhere, and in the other block the result is a new tensor too.
  absl::Status CopyWhatOnlyBranchHas(NodeId branch);
  // For a tensor that is not complex PyTorch returns the tensor itself.
  absl::Status Conj(NodeId n) { return IsComplex(*TypeOfValue(In(n, 0)).dtype) ? absl::OkStatus() : Identity(n); }
  absl::Status ReplaceOutputs(NodeId n, const std::vector<ValueId>& with);
  absl::Status ReplaceList(NodeId n, const std::vector<ValueId>& results);

  // --- views, or copies where PyTorch copies (open_views.cc) ---
  // The conjugate of the transpose.
  absl::Status Adjoint(NodeId n);
  // A reshape to the sizes of the output's type, decided when it runs.
  absl::Status ReshapeLater(NodeId n);
  absl::Status CartesianProduct(NodeId n);
  // einsum(equation, tensors) of one tensor whose dims all stay: its diagonals, and dims in another order, are a view.
  absl::Status Einsum(NodeId n);
  // meshgrid(tensors, indexing): each, of rank 0 or 1, expanded along its own dim. "xy" swaps the first two.
  absl::Status Meshgrid(NodeId n);
  // reshape, flatten, ...: the output's sizes are known from its type. The only choice is between an alias and a copy.
  absl::Status Reshape(NodeId n);
  // Returns whether PyTorch gives a tensor of this type the sizes `to` without a copy.
  using Aliases = absl::FunctionRef<bool(const TensorType& from, const std::vector<Expr>& to)>;
  // Makes a copy. For some sizes of the call PyTorch may take a view instead, which then makes no difference or is
  // refused.
  absl::StatusOr<ValueId> Clone(NodeId n, ValueId v, int64_t format, bool may_alias, const std::vector<Expr>& to,
                                Aliases aliases);
  // Returns the symbols that may be 1 in a call which then makes no copy, in order.
  std::vector<std::string> AliasesAtOne(const TensorType& from, const std::vector<Expr>& to, Aliases aliases) const;
  // Returns whether a view of `sizes` over these strides exists for some values of the symbols.
  bool MayBeViewable(const TensorType& from, const std::vector<Expr>& sizes) const;
  // PyTorch's computeStride: returns whether a view of `sizes` over these strides exists for all values of the symbols.
  bool IsViewable(const TensorType& from, const std::vector<Expr>& sizes) const;
  int64_t Hint(const Expr& e) const;
  // A quarter turn is the transpose of a flip, in its memory.
  absl::Status Rot90(NodeId n);
  absl::Status ExpandAs(NodeId n);
  // nullopt if that depends on unknown sizes.
  std::optional<bool> HasFormat(const TensorType& t, int64_t memory_format) const;
  absl::Status Contiguous(NodeId n);
  // to.dtype, to.device, to.dtype_layout, to.other, type_as: return the tensor itself if there is nothing to do, else
  // _to_copy.
  absl::Status To(NodeId n);
  absl::Status BroadcastTensors(NodeId n);
  absl::Status SumToSize(NodeId n);
  absl::Status Kron(NodeId n);
  absl::Status Diff(NodeId n);
  absl::Status FillDiagonal(NodeId n);
  absl::Status AtLeast(NodeId n);
  absl::Status EachAtLeast(NodeId n);

  // --- copies of views, and parts (open_copies.cc) ---
  // unbind_copy(self, dim, out=list): each part is copied to its place, in order.
  absl::Status CopiesOfParts(NodeId n);
  absl::Status MaximumOfTwo(NodeId n);
  absl::Status UnsafeSplit(NodeId n);
  // The same into a given tensor, to which the view is copied.
  absl::Status ViewCopyOut(NodeId n);
  // t_copy and similar operators, diag of a matrix: a copied view.
  absl::Status ViewCopy(NodeId n);

  // --- normalization and the statistics that it writes (open_normalization.cc) ---
  // Training: the functional form, then the running statistics are written.
  absl::Status BatchNorm(NodeId n);
  // Inserts a check that refuses calls in which `read` overlaps `written`, for a write whose result would then depend
  // on PyTorch's order of computation.
  void CheckApart(NodeId anchor, ValueId written, ValueId read);
  // instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, …): without running statistics it is
  // pure.
  absl::Status InstanceNorm(NodeId n);
  // embedding_renorm_(self, indices, max_norm, norm_type): the rows that the indices name are scaled to a norm of
  // max_norm if theirs is larger. embedding_renorm does so in a copy.
  absl::Status EmbeddingRenorm(NodeId n);
  // _linalg_check_errors(info, api_name, is_matrix): the form in which run_decompositions() expresses that an inverse
  // refuses a singular matrix.
  absl::Status CheckErrors(NodeId n);

  // --- activations, dropout, numbers (open_activations.cc) ---
  // tensor(number, dtype, device, requires_grad), tensor(list of numbers, …)
  absl::Status NumberTensor(NodeId n);
  absl::Status ListTensor(NodeId n);
  // rrelu(x, lower, upper, training): outside of training the slope is the mean of both.
  absl::Status Rrelu(NodeId n);
  // In training each element that is not positive has its own slope.
  absl::Status RandomRrelu(NodeId n, double lower, double upper);
  absl::Status Dropout(NodeId n);
  absl::Status NativeDropout(NodeId n);
  // x * a*noise + b, which keeps the mean and the variance of selu's results: PyTorch's _dropout_impl.
  absl::Status AlphaDropout(NodeId n, ValueId noise, double drop, bool in_place);
  // x / (1 + exp(-x)); the operator on real numbers means something else.
  absl::Status ComplexSilu(NodeId n);

  // --- lists of tensors (open_foreach.cc) ---
  // _foreach_OP(_).OVERLOAD: one OP a tensor. Lists among the arguments are walked together; other arguments go to
  // each.
  absl::Status Foreach(NodeId n);
  // Passes arguments by name where names agree, else by position; missing ones take their defaults.
  absl::Status FitArguments(NodeId anchor, const FunctionSchema& from, const FunctionSchema& to,
                            std::vector<ValueId>& call);

  Graph& g_;
  const bool at_run_time_;
  bool stale_ = false;  // types of later nodes may be those of a geometry that has changed
  OpenedComposites decided_;
  absl::flat_hash_map<ValueId, bool> may_be_of_argument_;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_COMPOSITE_OPENER_H_
