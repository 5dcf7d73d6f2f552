// The plan of one pure, grouped graph: slots, views, steps, convention.
//
//   SMELT_ASSIGN_OR_RETURN(PlanStats stats, PlanBuilder(tables, graph, convention, options).Build());
//
// plan_builder.cc       slots, locations, views; the order of work
// plan_destinations.cc  which values are made right where the caller will look for them
// plan_nodes.cc         a node's step: library calls, random draws, checks, numbers read from tensors
// plan_kernels.cc       launches, and what they may write over
// plan_control_flow.cc  branches, loops, conditions
// plan_epilogue.cc      the end of a call: copies back, results, the convention
#ifndef SMELT_CODEGEN_PLAN_BUILDER_H_
#define SMELT_CODEGEN_PLAN_BUILDER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/arena.h"
#include "smelt/codegen/bundle_builder.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/library_lowering.h"
#include "smelt/codegen/plan_lives.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanBuilder {
 public:
  PlanBuilder(BundleTables& b, const Graph& g, const Convention& c, const BundleBuilder::PlanOptions& options)
      : b_(b), g_(g), c_(c), options_(options), plan_(std::make_unique<fb::PlanT>()), lives_(g) {}

  // Appends the plan to the tables'.
  absl::StatusOr<PlanStats> Build();

 private:
  // The place of a value's contents.
  struct Location {
    int slot = -1;
    SymbolicGeometry geometry;  // over the slot; for an argument it counts from the argument's own first element
  };
  struct LocatedCopy {
    Location from, to;
  };

  // --- sizes that the data decides ---
  // Symbols that a step reads from a tensor: what depends on them is allocated when they are known.
  void FindDataSymbols();
  bool IsLate(const Expr& e) const;
  bool IsLate(const Location& l) const;
  // Returns whether the numbers that `e` depends on have already been read.
  bool IsRead(const Expr& e) const;
  void AllocateLate(int slot);
  void EmitAlloc(int slot);

  // --- slots ---
  void BindInputs();
  int AddSlot(fb::SlotKind kind, int index);
  int ArgSlot(int distinct);
  int StateSlot(int storage);
  int NewArena(const SymbolicGeometry& geometry, int begin, int end);
  void Extend(int slot, int end);
  void PackSlots();

  // --- locations ---
  ValueId Root(ValueId v) const { return lives_.Root(v); }
  int LastUse(ValueId root) const { return lives_.LastUse(root); }
  SymbolicGeometry LayoutOf(ValueId v);
  absl::StatusOr<Location> Locate(ValueId v);
  // Chooses the location of a node's output, except for partial rewrites.
  Location Place(ValueId o);
  int AddView(const Location& l);
  absl::StatusOr<int> ViewOf(ValueId v);
  static Expr BytesOf(const SymbolicGeometry& g);
  static bool SameLayout(const SymbolicGeometry& a, const SymbolicGeometry& b);

  // --- destinations ---
  absl::Status ChooseDestinations();
  void PlaceMutation(const MutatedMemory& m);
  void PlaceFresh(int key, GraphOutputIndex contents);
  // Returns the contents that `v` is a partial rewrite of, or an invalid id: v is the result of a smelt::write_region,
  // alone or in a group.
  ValueId RegionBase(ValueId v) const;
  // `v`, its base, the base's base and so on form a chain of contents. Returns whether some of them are needed after a
  // later one has rewritten them; the later one is then a copy.
  bool OutlivesRewrite(const std::vector<ValueId>& chain) const;
  std::vector<ValueId> RegionChain(ValueId v) const;
  // For a region write into memory that several arguments share, returns the argument that it counts from.
  std::optional<int> HomeOf(ValueId v) const;
  // Returns whether v is a view that leaves out some of its owner's bytes.
  bool ShowsAPart(ValueId v, ValueId owner) const;
  // Returns the key of the fresh storage that holds a graph output: the key of an earlier output that shows the same
  // memory, if there is one.
  int SharedKey(GraphOutputIndex contents) const;
  void SetFreshBytes(int slot, ValueId v);
  bool SharedStorage(int storage) const;
  bool IsState(MemoryIndex m) const { return m.value() >= c_.overlaps.num_argument_memories; }
  int StorageOf(MemoryIndex m) const { return m.value() - c_.overlaps.num_argument_memories; }
  // Returns the weight that stands for the storage's contents.
  ValueId StateInitial(int storage) const;
  bool ShowsWholeState(ValueId v, ValueId initial) const;
  // Returns the argument that locates an argument memory's contents: its first one.
  ValueId ArgumentOf(MemoryIndex m) const;
  // Returns whether the node that makes `v` can write it anywhere.
  bool CanPlace(ValueId v) const;
  // Returns whether node `n` reads `source` only at the index at which it writes `target`.
  bool ReadsSameIndexOnly(NodeId n, ValueId source, ValueId target);

  // --- indexed writes through views (plan_regions.cc) ---
  void FindRegionsInPlace();
  // Returns the view that v is a copy of, or an invalid id.
  ValueId ViewThatIsCopied(ValueId v) const;
  // Returns whether v's node writes at indices into its base, and nothing else into it.
  bool IsIndexedWrite(ValueId v) const;
  // Returns whether a node between the two positions reads v, or a view of it.
  bool IsReadBetween(ValueId v, int first, int last) const;
  // Returns whether `contents`, the final contents of a memory, are made from `initial` by such writes through views of
  // all of it, and nothing needs the old contents. Then the writes happen in place.
  bool IsWrittenThroughViews(ValueId contents, ValueId initial, const Location& home);
  // Returns whether node n, a copy of a region or the write of it back, does nothing because its result is already in
  // its place.
  absl::StatusOr<bool> IsInPlace(NodeId n);

  // --- steps ---
  template <typename T>
  void Emit(std::unique_ptr<T> step, NodeId source = NodeId()) {
    auto out = std::make_unique<fb::StepT>();
    out->step.Set(std::move(*step));
    if (g_.IsLive(source) && g_.node(source).source) out->source = g_.node(source).source->ToString();
    plan_->blocks[block_]->steps.push_back(std::move(out));
  }
  void EmitCopy(const Location& from, const Location& to, bool copy_back = false, NodeId source = NodeId());
  // Emits copies that happen at once: a source that another copy overwrites is copied first, or is saved if each waits
  // for the other.
  void ParallelCopies(const std::vector<LocatedCopy>& copies, bool copy_back);
  // Copies the contents of `from`, until the end of the node that is being emitted.
  Location Saved(const Location& from);

  // --- nodes ---
  absl::Status EmitBlock(BlockId b);
  absl::Status EmitNode(NodeId n);
  absl::Status EmitLibrary(NodeId n, const LibraryNode& call);
  absl::Status EmitRandom(NodeId n, const RandomCall& call);
  absl::Status EmitReadScalar(NodeId n);
  // Returns the function that computes a float from numbers, if the node is one.
  std::optional<fb::NumberFunction> NumberFunctionOf(NodeId n) const;
  absl::Status EmitNumber(NodeId n, fb::NumberFunction function);
  bool MayRefuse(NodeId n, fb::NumberFunction function) const;
  // Emits, before anything is written, the numbers that need only sizes, arguments and constants.
  absl::Status EmitNumbersOfSizes();
  // Returns the register that holds the number: a step is made if it is a size, an argument or a constant.
  absl::StatusOr<int> RegisterOf(ValueId number);
  absl::Status EmitAssert(NodeId n);
  // Adds the check of a smelt::assert_ node: before anything is done, or after the data that it depends on has been
  // read.
  absl::Status AddAssertion(NodeId n);

  // --- kernels ---
  absl::StatusOr<LoweredKernel> Lower(NodeId n);  // operands and results lie where they do by now
  absl::Status EmitKernel(NodeId n);
  absl::Status PlaceRegion(NodeId n, ValueId o, ValueId base);
  bool Writable(int slot, ValueId result) const;
  // Returns whether a kernel may overwrite an operand that is not needed later and is read at the same index, and
  // before.
  bool TakeOver(ValueId o, const LoweredKernel& k, const std::vector<bool>& irregular);
  // Returns whether two slots belong to arguments that share a memory in some call.
  bool MayShareMemory(int slot, int other) const;
  // If a launch reads memory that it writes, other than at the same index, it reads a snapshot: changes `where` and the
  // params' offsets.
  void TakeSnapshots(NodeId n, LoweredKernel& k, const std::vector<bool>& irregular, std::vector<Location>& where);
  // Returns whether param `read` reads, in the memory that param `write` writes, only the element at the same index, or
  // nothing.
  bool ReadsSameIndex(const LoweredKernel& k, size_t read, size_t write) const;
  // Returns whether a row reads an element of param `read` for the last time before it writes that of param `write` at
  // the same index. (No other row accesses the elements that a row reads and writes at equal indices.)
  static bool ReadsFirst(const KernelSpec& spec, size_t read, size_t write);
  // Returns whether the read of param i and the write of param j may share their slot.
  bool Harmless(const LoweredKernel& k, const std::vector<bool>& irregular, const std::vector<Location>& where,
                size_t i, size_t j);
  // Makes the launch that was just emitted the epilogue of the library call before it, if each of its tiles reads only
  // the tile's own elements of the call's result: schema/bundle.fbs.
  void MakeEpilogue(const LoweredKernel& k, const std::vector<bool>& irregular, const std::vector<Location>& where);
  absl::StatusOr<fb::Word> ScalarWord(const LoweredKernel::Scalar& s, bool floating);
  static bool SameElements(const SymbolicGeometry& a, const SymbolicGeometry& b);
  static Expr TilesOf(const LoweredKernel& k);
  // Params with guarded or indirect accesses, whose affine view is not what they access.
  static std::vector<bool> IrregularParams(const KernelSpec& spec);

  // --- control flow ---
  int NewBlock();
  absl::Status EmitIf(NodeId n);
  // Returns the location of `v` if it is memory of arguments that is rewritten in place.
  std::optional<Location> RewrittenArgument(ValueId v) const;
  absl::Status EmitLoop(NodeId n);
  // Returns whether a loop may carry a value in the place of its initial contents: they are not needed afterwards.
  bool EndsInLoop(NodeId n, ValueId initial, const Location& at, ValueId carried, const std::vector<Location>& places);
  // Returns whether the loop's body may compute the next carried value, the first of `chain` (RegionChain), in the
  // place of the last one: that is not needed by then, or the kernel reads it only at the index that it writes.
  bool ReplacesCarried(BlockId body, ValueId param, const std::vector<ValueId>& chain, const Location& place);
  // Returns the register that holds a boolean; the one element of a tensor is read first.
  absl::StatusOr<int> Predicate(ValueId v, NodeId source);
  // Returns whether it is a comparison of integers, or a combination of these.
  bool IsCondition(NodeId n) const;
  // Returns its expression, which is 0 or 1.
  absl::StatusOr<int> ConditionExpr(ValueId v);
  // For a condition on integers, returns whether it depends on one that a step has read.
  bool DependsOnData(ValueId v) const;

  // --- the end of a call ---
  absl::Status EmitEpilogue();
  absl::StatusOr<std::vector<LocatedCopy>> CopiesBack();
  absl::StatusOr<std::vector<LocatedCopy>> CopiesToFresh();
  absl::Status EncodeConvention();
  absl::Status EncodeMutations(fb::MutatedInputsLayerT& layer);
  absl::StatusOr<std::unique_ptr<fb::OutputRefT>> EncodeOutput(int k);
  absl::Status EncodeScalarOutput(int k, fb::OutputRefT& out);
  void ListWritten();
  Location MemoryHome(MemoryIndex m);
  // A kernel finds an index out of range when something may already have been written. Indices that are arguments are
  // checked before.
  absl::Status CheckIndicesFirst();
  // Notes whether one of the kernel's instructions may refuse the data of a call.
  void NoteRefusals(const KernelSpec& spec);

  BundleTables& b_;
  const Graph& g_;
  const Convention& c_;
  const BundleBuilder::PlanOptions& options_;
  std::unique_ptr<fb::PlanT> plan_;
  PlanStats stats_;
  Lives lives_;

  // Inputs and slots. If arguments share a memory, or have any strides, each region of it counts from an argument, and
  // is rewritten in place.
  bool grouped_ = false;
  std::vector<int> caller_of_distinct_;               // the first of the caller's arguments for each distinct one
  absl::flat_hash_map<int, ValueId> argument_value_;  // by distinct argument
  absl::flat_hash_map<int, int> arg_slots_, state_slots_;
  std::vector<int> arena_buffer_;  // by slot
  std::vector<ArenaBuffer> buffers_;
  absl::flat_hash_set<std::string> data_symbols_, read_symbols_;
  absl::flat_hash_set<int> late_slots_, allocated_;  // fresh ones

  // Where values lie.
  absl::flat_hash_map<ValueId, Location> locations_;
  absl::flat_hash_map<ValueId, Location> destination_;
  absl::flat_hash_set<ValueId> in_place_chain_;
  absl::flat_hash_map<ValueId, NodeId> region_of_copy_;  // for the copy of a region, the node that writes it back
  absl::flat_hash_set<NodeId> in_place_regions_;         // those of them that do nothing
  absl::flat_hash_set<ValueId> in_place_copies_;         // of all of a memory, by IsWrittenThroughViews
  absl::flat_hash_set<int> awaited_;          // slots of a body's future result, which nothing else may use meanwhile
  absl::flat_hash_map<int, int> fresh_slot_;  // by key
  absl::flat_hash_map<int, ValueId> fresh_contents_;  // by key
  absl::flat_hash_set<int> written_args_, written_states_;
  int index_checks_ = 0;  // in kernels

  // Where emission is.
  int block_ = 0;
  int position_ = 0;
  int num_registers_ = 0;
  absl::flat_hash_map<ValueId, int> scalar_args_, registers_;
  absl::flat_hash_map<int, int> taken_at_;  // the position at which a slot was taken over
  std::vector<int> used_kernels_;
  struct LastCall {
    int block = -1;
    size_t step = 0;
    Location result;         // its first
    std::vector<int> reads;  // slots
  };
  LastCall last_call_;  // of the library
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_BUILDER_H_
