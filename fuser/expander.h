// Implements expand_composites.h in one pass over the nodes. Internal to the fuser; its methods are in several files by
// subject.
#ifndef SMELT_FUSER_EXPANDER_H_
#define SMELT_FUSER_EXPANDER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

class Expander {
 public:
  explicit Expander(Graph& g) : g_(g) {}

  absl::Status Run();

 private:
  enum class Step { kKeep, kChanged, kUnsupported };
  struct Places {
    int count = 0;
    std::vector<std::string> sources;  // the first few
    std::string reason;
  };

  absl::Status ExpandBlock(BlockId b);

  absl::Status At(NodeId n, const absl::Status& s) const;
  void AddUnsupported(NodeId n, absl::string_view reason);

  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  ValueId Out(NodeId n) const { return g_.node(n).outputs[0]; }

  void ReplaceWith(NodeId n, ValueId v);

  // Kernels have no complex numbers: each becomes two real ones.
  absl::StatusOr<bool> ExpandComplex(NodeId n);
  // Runs Decompose or DecomposeComplex. If a result is now a view, it is copied for users that treat it as a whole
  // memory: a fresh result's memory begins with its first element, a view's memory with its storage.
  absl::StatusOr<bool> TakeApart(NodeId n, absl::StatusOr<bool> (*decompose)(Graph&, NodeId));
  // Returns whether it is a result of a node of this graph and not of an operand, or a view of each of its bytes.
  bool ShowsAllOfFreshMemory(ValueId v, absl::Span<const ValueId> operands) const;
  // Returns the users that treat it as a memory's contents: those that name regions of it, and returns.
  std::vector<Use> UsesAsMemory(ValueId v) const;

  absl::StatusOr<Step> ExpandNode(NodeId n);

  // --- views: expand_views.cc ---
  // A view of a view is a view of what that one shows.
  absl::StatusOr<Step> ShortenView(NodeId n);

  // A view of a copy shows the same elements as some view of the copied value, if their strides allow it. In eager
  // PyTorch, reshape of a transposed tensor copies even if only dims of size 1 prevent a view, and matmul's batches are
  // made in this way.
  void LookThroughCopy(NodeId n);

  // The geometry of a value over its storage; views of top-level states are absolute in theirs.
  SymbolicGeometry GeometryOf(ValueId v) const;

  NodeId InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry);
  NodeId InsertRegionNode(NodeId anchor, absl::string_view op, std::vector<ValueId> inputs, Type type,
                          const SymbolicGeometry& g);

  absl::StatusOr<Step> View(NodeId n);
  // Returns the base for a view that shows all of its base unchanged.
  ValueId Shown(NodeId anchor, ValueId base, const SymbolicGeometry& v);
  void ReplaceList(NodeId n, const std::vector<ValueId>& elements);

  // --- copies: expand_copies.cc ---
  ValueId Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  ValueId Copied(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  // Returns a value that can be the base of a partial rewrite: all of its memory's contents, in the given layout. A
  // view is copied.
  ValueId Whole(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  // Contents are immutable: a copy in the same layout is the value itself.
  absl::StatusOr<Step> Copy(NodeId n);

  // Handles a roll without dims, which rolls all elements in a row: rolls that dim instead of computing each element's
  // index. Returns whether it was one.
  absl::StatusOr<bool> FlatRoll(NodeId n);
  // Fills with one number: the result does not depend on the value that it replaces.
  absl::StatusOr<Step> Fill(NodeId n);

  ValueId Cast(NodeId anchor, ValueId v, DType to);

  ValueId IntList(NodeId anchor, const std::vector<Expr>& sizes);
  ValueId Empty(NodeId anchor, const TensorType& t);

  // --- cat, stack and scatters, whose regions are written: expand_copies.cc ---
  //
  // Returns whether kernels alone read the result of a cat, and it has few enough parts that each element may choose
  // among them. Then no memory holds it. (In a stack along the innermost dim no two neighbours come from one part.)
  bool IsReadByKernels(NodeId n) const;
  bool IsReadByKernels(ValueId v, BlockId block) const;
  absl::StatusOr<Step> Cat(NodeId n);
  // Compares values of `n`'s block; values of other blocks come first.
  bool MadeBefore(NodeId n, ValueId a, ValueId b) const;

  // select_scatter and similar operators: writes `src` over the region of self that the view with the same arguments
  // shows.
  absl::StatusOr<Step> ViewScatter(NodeId n);

  // --- writes at indices from data: expand_writes.cc ---
  absl::StatusOr<Step> IndexedWrite(NodeId n);
  // x[..., mask, ...] = one value for all elements that the mask selects: where(mask, value, x). Several values need
  // the data.
  absl::StatusOr<Step> MaskedPut(NodeId n, const std::vector<ValueId>& list, const std::vector<ValueId>& inputs);

  // --- matmul: expand_matmuls.cc ---
  // A column times a row is a multiplication, points times a matrix of a few numbers are sums of products, and many
  // rows times a column each, or many small matrices times a column each, are sums: kernels, which fuse. Whether it was
  // one.
  absl::StatusOr<bool> ThinMatmul(NodeId n);

  // beta * self + alpha * (a @ b) with factors other than 1 (or integers): the library multiplies, a kernel does the
  // rest.
  absl::StatusOr<Step> AddMatmul(NodeId n);

  Graph& g_;
  std::shared_ptr<const SourceLocation> source_;
  std::map<std::string, Places> unsupported_;
  bool has_cats_ = false, readers_known_ = false;
};

}  // namespace smelt

#endif  // SMELT_FUSER_EXPANDER_H_
