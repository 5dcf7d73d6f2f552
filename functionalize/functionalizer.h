// The abstract interpreter behind Functionalize: walks a program in order over memories and tensors (memory.h).
// Internal.
//
//   argument_memories.cc   duplicates and overlapping arguments: the outer layers
//   contents.cc            reading and writing tensors
//   operators.cc           the program, one node at a time
//   example_layouts.cc     layouts of results that only the example supports
//   control_flow.cc        branches and loops
//
// Its parts have headers of their own: memories and who may share them (memory_table.h, possible_sharing.h), inputs
// (program_inputs.h), nodes that it inserts (region_nodes.h, size_assertions.h), and what happens when the walk is over
// (convention_builder.h, erase_dead.h).
#ifndef SMELT_FUNCTIONALIZE_FUNCTIONALIZER_H_
#define SMELT_FUNCTIONALIZE_FUNCTIONALIZER_H_

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "smelt/core/base/id_map.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/memory_table.h"
#include "smelt/functionalize/possible_sharing.h"
#include "smelt/functionalize/program_inputs.h"
#include "smelt/functionalize/region_nodes.h"
#include "smelt/functionalize/scoped_set.h"
#include "smelt/functionalize/size_assertions.h"
#include "smelt/functionalize/walk_position.h"

namespace smelt {

// Returns whether it is a view operator, other than the pure form's own.
bool IsViewOp(OpName op);
// Returns whether it is a list of tensors, some of which may be None.
bool IsTensorList(const Type& t);
// Returns whether values of the type are tensors, or may hold some.
bool HoldsTensors(const Type& t);

class Functionalizer {
 public:
  Functionalizer(Graph& g, const FunctionalizeOptions& options)
      : g_(g), options_(options), regions_(g, at_), assertions_(g, at_) {}

  absl::StatusOr<FunctionalizeResult> Run();

 private:
  // --- errors ---
  //
  // Names an operator at the walk's position.
  absl::Status At(OpName op, absl::Status s) const;

  // --- inputs ---
  absl::Status BindInputs();

  // If the program addresses storages absolutely, an argument's memory may be read outside the argument. Then its
  // contents are never renamed to a value that holds the argument alone.
  void FindAbsoluteAccess();
  void ShowWholeStates();

  // --- memory ---
  MemoryId NewMemory(MemoryState m);
  TensorId NewTensor(MemoryId m, SymbolicGeometry geometry, int home = -1);
  void BindFresh(ValueId v);
  absl::StatusOr<TensorId> TensorOf(ValueId v) const;

  // Returns the current value of a tensor, for a use just before `anchor`.
  ValueId Read(TensorId t, NodeId anchor);
  // Returns the elements in memory, neither conjugated nor negated, for checks.
  ValueId Elements(TensorId t, NodeId anchor);

  // Returns whether `v` can represent a separate memory: it is not a view of another one, and counts from its first
  // element.
  bool IsOwner(ValueId v) const;
  // Returns the same elements as contents of a separate memory, in the layout `strides`.
  ValueId Own(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  ValueId Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides);
  ValueId ForceMaterialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides);

  // Returns `v` in the layout `strides`. A node that this pass has just made for that purpose gets the layout directly.
  ValueId WithLayout(NodeId anchor, ValueId v, const std::vector<Expr>& strides);

  ValueId Cast(NodeId anchor, ValueId v, DType to);

  absl::StatusOr<ValueId> Broadcast(NodeId anchor, ValueId v, const std::vector<Expr>& sizes);
  // Inserts a check of two sizes before `anchor`: in the prologue, or in program order if the data determines them.
  absl::Status AssertEqual(const Expr& a, const Expr& b, const std::string& message, NodeId anchor);

  // Returns the same elements negated or conjugated, for tensors that are lazily so.
  ValueId Resolve(const TensorState& tensor, ValueId v, NodeId anchor);

  // The treatment of elements at the same address: PyTorch refuses to write them; or all get the same value, so that
  // the order does not matter; or only some get a value, which the eager-order plan handles.
  enum class SharedPlaces { kRefused, kOneValue, kInOrder };
  // Replaces the tensor's contents by `v` (of its dtype and sizes, or broadcast and cast to them).
  absl::Status Write(TensorId t, ValueId v, NodeId anchor, SharedPlaces shared = SharedPlaces::kRefused);

  // --- walking ---
  struct CachedView {
    ValueId version;
    Type type;  // of the view: its geometry without the offset
    Expr offset;
    ValueId view;
    int home = -1;
  };

  // The way in which a node is processed, by its operator.
  enum class Step {
    kNone,
    kConstruct,
    kUnpack,
    kElement,
    kIf,
    kLoop,
    kInPlaceView,
    kSet,
    kResize,
    kView,
    kWrite,
    kCheckApart,
    kPure,
    kUnknown,
  };
  // The operands and results of the last pure node made for a writing operator.
  struct Inferred {
    std::vector<ValueId> operands;
    std::vector<Type> operand_types, types;
  };
  // An operator of the program, looked up once.
  struct Operator {
    Step step = Step::kUnknown;
    bool absolute = false;  // addresses its storage from the first element: as_strided, set_, resize_
    bool resolves = false;  // resolve_conj, resolve_neg
    const FunctionSchema* schema = nullptr;
    std::unique_ptr<FunctionalCounterpart> counterpart;  // of kWrite, when first needed
    Inferred inferred;
  };
  Operator& OperatorOf(OpName op);

  absl::Status ProcessBlock(BlockId b);
  // Returns the operator that an error names: the node's, or the composite that it comes from.
  OpName OperatorFor(NodeId n) const;

  absl::Status ProcessNode(NodeId n);
  void TellOperands(NodeId n) const;  // to options_.on_operand
  // Checks that the operands' types that were used to open composites are the current types of the tensors.
  absl::Status CheckTypesHold(NodeId n) const;
  // Checks that a write does not go to a constant of the program, which would then differ in the next call.
  absl::Status CheckNoConstant(TensorId written) const;
  // Checks that a change of geometry does not go to a tensor that may have other names because of a branch or a loop.
  absl::Status CheckNoOtherName(TensorId changed) const;

  absl::Status ProcessUnpack(NodeId n);
  // Handles operators that take an element out of a list or a tuple, or rename their operand. An element at an unknown
  // index is a copy that may share memory with all of them.
  absl::Status ProcessElement(NodeId n);
  absl::StatusOr<std::vector<TensorId>> ElementsOf(ValueId list) const;

  absl::Status ProcessView(NodeId n, const Operator& op);

  // The results of the last few views of constants: an unrolled loop needs the same ones repeatedly.
  struct KnownView {
    OpName op;
    TensorId base = -1;
    absl::InlinedVector<ValueId, 4> inputs;
    SymbolicGeometry geometry;
  };
  // Returns the entry for a view by this node, if it is one that can be remembered.
  KnownView* KnownViewOf(NodeId n, const Operator& op, TensorId base);
  // as_strided's offset counts from the storage's first element, an argument's geometry from the argument's own.
  absl::StatusOr<ViewMeaning> ViewsOfTensor(NodeId n, const Operator& op, TensorId base);
  // Asserts that a row number from the data is within the tensor, and that a view as elements of another size is
  // aligned at the tensor's offset in this call's storage.
  void AssertAligned(NodeId n, TensorId base, DType seen_as);
  void AssertSelected(NodeId n, TensorId base);
  // In PyTorch the layout of a pure operator's results can depend on whether a size is 0, 1 or more, or on which of two
  // sizes is larger. The export takes the example's layout for every call. A call in which the caller would see another
  // layout runs as another program. Tries a few values of each symbol.
  absl::Status AssertLayoutsHold(NodeId n);
  // Returns where the argument begins in its storage, in elements of the tensor's dtype.
  Expr ArgumentOffset(TensorId t) const;
  // Returns the same for a tensor, in its storage.
  Expr BeginInStorage(TensorId t) const;

  absl::Status ProcessInPlaceView(NodeId n, const Operator& op);

  // set_.source_Tensor(self, source); set_.source_Tensor_storage_offset(self, source, offset, size, stride);
  // set_(self).
  absl::Status ProcessSet(NodeId n);

  // New contents that nothing has written yet: zeros, so that runs repeat.
  ValueId FreshContents(NodeId anchor, const SymbolicGeometry& g);

  absl::Status ProcessResize(NodeId n);

  // `strides` are those of the new sizes, and dense.
  absl::Status Resize(TensorId self, const std::vector<Expr>& sizes, const std::vector<Expr>& strides, NodeId anchor);

  // Replaces the inputs of a pure node by values.
  absl::Status ReadInputs(NodeId n, NodeId anchor);
  absl::StatusOr<ValueId> ReadList(ValueId list, NodeId anchor);

  absl::Status ProcessPure(NodeId n);

  // In-place and out= operators: the functional counterpart, then the write.
  absl::Status ProcessWrite(NodeId n, Operator& op);
  absl::Status ProcessCopy(NodeId n);
  using ValueList = absl::InlinedVector<ValueId, 4>;
  // Returns the counterpart's operands, as they are before the write.
  absl::StatusOr<ValueList> ReadOperands(NodeId n, const FunctionalCounterpart& counterpart,
                                         absl::Span<const ValueId> inputs);
  // Returns the treatment of a write of this operator to several elements at the same address.
  absl::StatusOr<SharedPlaces> SharedPlacesOf(OpName op, absl::Span<const ValueId> inputs,
                                              absl::Span<const TensorId> written) const;
  // Checks that result i can be written to the tensor: its dtype, its strides and, after the tensor has been resized if
  // it may be, its sizes.
  absl::Status FitWritten(OpName op, const FunctionalCounterpart& counterpart, absl::Span<const ValueId> inputs,
                          size_t i, TensorId written, ValueId result, NodeId anchor);
  // Makes the functional counterpart of `n`, before it. Its results have the types of the previous counterpart's
  // results if the operands have equal types. If nothing uses the results of `n`, `n` itself becomes the counterpart.
  absl::StatusOr<NodeId> MakePure(NodeId n, Operator& op, absl::Span<const ValueId> operands,
                                  absl::Span<const TensorId> written);
  // Erases an unused view operator, and the unused ones that it was made of, so that the next nodes reuse their memory
  // while it is in the caches.
  void EraseUnusedView(ValueId v);

  // PyTorch refuses some operands (tensors, or lists of them) that overlap the written tensor. It checks only tensors
  // that cover their span (assert_no_partial_overlap, assert_no_overlap).
  //
  // Returns whether PyTorch computes on a copy of a lazily conjugated or negated operand, so that its memory is not
  // compared. Not for copy_, which reads and writes such tensors themselves.
  bool IsMaterialized(OpName op, TensorId t) const;
  bool IsMaterialized(OpName op, ValueId v);
  absl::Status CheckSharing(TensorId written, ValueId operand, OperandSharing rule, NodeId anchor);
  absl::Status CheckSharing(TensorId written, TensorId read, OperandSharing rule, NodeId anchor);
  // Checks, for tensors that PyTorch does not check, whether the result depends on its order of computation.
  absl::Status CheckOrder(TensorId written, TensorId read, OperandSharing rule, NodeId anchor);
  // Forgets the checks of a tensor after a change of its geometry, so that they are made again.
  void ForgetChecks(TensorId t);
  // Inserts checks for the call of facts that CheckSharing cannot decide.
  void CheckSharingAtTheCall(TensorId written, TensorId read, OperandSharing rule, NodeId anchor);

  // --- control flow ---
  // A branch or body whose parameters stand for known tensors.
  absl::Status ProcessInner(BlockId b);

  void ShareAtOne(MemoryId a, MemoryId b, const std::vector<std::string>& symbols);
  // Notes the memories that a write to `id` also changes if sizes are 1, and the calls in which that would be visible.
  void NoteWriteAtOne(MemoryId id);
  void ReadAtOne(const MemoryState& m) { result_.at_least_two.insert(m.stale_at_one.begin(), m.stale_at_one.end()); }
  void ExpectAtLeastTwo(const std::vector<std::string>& symbols);

  // Checks that a branch or a loop returns tensors and numbers, and no value that may contain tensors.
  absl::Status CheckResults(NodeId n) const;
  absl::Status ProcessIf(NodeId n);

  // Drops cached views that were made inside a block, since they do not dominate the code after it. `mark` is
  // cache_log_'s size before the block; with 0 those of the outer blocks are dropped too.
  void DropCachedViewsSince(size_t mark);

  // Collects the outer memories that a body may write, by following views back from written operands.
  void CollectWritten(BlockId b, absl::flat_hash_set<MemoryId>& out);
  bool IsMutableNode(NodeId n) const;

  // Returns the tensor that in-place operators returned as `v`.
  ValueId WrittenSelf(ValueId v) const;
  absl::Status ProcessLoop(NodeId n);

  Graph& g_;
  const FunctionalizeOptions& options_;
  FunctionalizeResult result_;
  MemoryTable memories_;
  PossibleSharing sharing_;
  std::vector<TensorState> tensors_;
  IdMap<ValueId, TensorId> tensor_of_;
  absl::flat_hash_map<ValueId, std::vector<ValueId>> lists_;          // prim::ListConstruct
  absl::flat_hash_map<ValueId, std::vector<TensorId>> tensor_lists_;  // lists of views
  IdMap<ValueId, bool> own_;                                          // made here, layout free to choose
  ProgramInputs inputs_;
  absl::flat_hash_set<MemoryId> shared_states_;  // memories that several states show
  // The pairs of written and read tensors that have run-time checks: for expanded memory, partial overlap and overlap.
  using Check = std::tuple<TensorId, TensorId, OperandSharing>;
  ScopedSet<Check> checked_;
  absl::flat_hash_map<OpName, std::unique_ptr<Operator>> operators_;
  bool absolute_access_ = false;
  absl::flat_hash_map<MemoryId, Expr> copies_begin_;  // for copies of a storage: the begin of the copied tensor
  std::vector<KnownView> known_views_ = std::vector<KnownView>(256);
  absl::flat_hash_map<MemoryId, std::vector<CachedView>> view_cache_;
  std::vector<MemoryId> cache_log_;  // the memory whose cache each view was added to
  WalkPosition at_;
  RegionNodes regions_;
  SizeAssertions assertions_;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_FUNCTIONALIZER_H_
