// The instance: binds a plan to a call's sizes, and runs it. Internal.
//
// A call checks the arguments against the signature and reads the symbols (signature.cc), finds shared memory and
// chooses a plan (classify.cc), binds it to the symbols, or reuses the binding of an earlier call with the same symbols
// (bind.cc), sets the addresses, runs the steps (steps.cc), and returns the results (executor.cc).
#ifndef SMELT_RUNTIME_EXECUTOR_H_
#define SMELT_RUNTIME_EXECUTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {

// A scalar register: an integer (or bool) or a double.
struct Register {
  int64_t i = 0;
  double d = 0;
  bool is_float = false;

  static Register Int(int64_t v) { return {v, static_cast<double>(v), false}; }
  static Register Float(double v);
};

// A view with concrete numbers.
struct BoundView {
  enum State : uint8_t { kUnbound, kGood, kBad };
  State state = kUnbound;
  int rank = 0;
  int64_t* sizes = nullptr;  // `rank` each, elements
  int64_t* strides = nullptr;
  int64_t offset = 0;  // elements
  int64_t elements = 0;
  int64_t low = 0, high = 0;  // bytes that it reaches, from the slot's origin; both 0 if empty
};

// A plan for one set of symbol values.
struct BoundPlan {
  std::vector<int64_t> key;
  ExprValues values;
  std::vector<int64_t> pool;  // of the views' sizes and strides
  std::vector<BoundView> views;
  absl::Status refusal;  // of a prologue check that depends only on sizes

  struct Patch {
    int word;        // in `words`
    int64_t offset;  // bytes
  };
  struct Launch {
    KernelEntry entry = nullptr;
    int first_word = 0, num_words = 0;
    int64_t tiles = 0, chunk = 0, chunks = 0;
    bool slow = false;  // some words or views are known only during the run
    bool sequential = false;
  };
  std::vector<int64_t> words;
  std::vector<std::vector<Patch>> patches;  // by slot: words that hold addresses in it
  struct ArgWord {
    int word, arg;
    bool as_double;
  };
  std::vector<ArgWord> arg_words;
  std::vector<Launch> launches;                                // by step
  std::vector<std::shared_ptr<const PreparedOp>> library_ops;  // by step; null: prepared when it runs
  // By slot: the address of its memory at the last patch of the words, and the bytes that its views reach.
  std::vector<char*> patched;
  std::vector<int64_t> low, high;
  std::vector<int64_t> slot_bytes;  // Arena, Fresh; else -1
  int bad_view = -1;                // a view that is not inside its slot, for every call
  std::vector<int> call_slots;      // slots whose address may change from call to call
  std::vector<int> call_checks;     // prologue checks that need addresses
  int64_t arena_bytes = 0;
  uint64_t arena_generation = 0;  // the generation of the addresses in the arena's and states' words
};

// Memory for results, which is reused for results of the same bytes once the caller has released it. Keeps at most 32 MiB
// that nobody uses, or as much as the last new result has.
class OutputAllocator {
 public:
  explicit OutputAllocator(GuardPages guard) : guard_(guard) {}
  absl::StatusOr<std::shared_ptr<Storage>> Allocate(int64_t bytes);

 private:
  GuardPages guard_;
  std::vector<std::shared_ptr<Storage>> known_;
};

class EagerCalls;

class Executor : public Instance {
 public:
  // A call of an eager-order program draws from its instance's generator, `random`.
  Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options, Generator* random = nullptr);
  ~Executor() override;
  absl::Status Init();

  absl::Status RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) override;
  Tensor state(int index) const override { return states_[index]; }
  absl::Status ResetStates() override;
  std::vector<StepTime> step_times() const override;
  void Seed(uint64_t seed) override { generator_ = Generator{seed, 0}; }

 private:
  // --- signature.cc ---
  absl::Status ReadArguments(absl::Span<const Datum> args);
  absl::Status ReadSymbols(absl::Span<const Datum> args);
  absl::Status OutOfRange(const fb::SymbolDefT& s, int64_t value) const;
  std::string ExpectedSizes(int arg, bool evaluated) const;
  absl::Status CheckSizes(absl::Span<const Datum> args);
  // Checks the arguments' strides, for a plan that needs the exported ones. Sets to_copy_.
  absl::Status CheckStrides(absl::Span<const Datum> args, const ExecutablePlan& plan);
  bool HasExportedStrides(int arg, const Tensor& t) const;
  bool MayBeCopied(int arg, const Tensor& t, const ExecutablePlan& plan) const;
  // Computes the layouts of the plan's results for arguments with other strides. Sets result_layouts_.
  absl::Status LayOutResults(absl::Span<const Datum> args, const ExecutablePlan& plan);
  // Moves a fresh result to memory with this layout.
  absl::Status MoveToLayout(const EvaluatedLayout& layout, Datum* out);
  // Returns the arguments, with copies of those in to_copy_.
  absl::Span<const Datum> InExportedStrides(absl::Span<const Datum> args);

  // --- classify.cc ---
  enum class Relation : uint8_t { kSame, kSameGeometry, kOverlap };
  struct SharingArgs {
    int a, b;
    Relation relation;
  };
  struct SharingState {
    int arg, storage;
  };
  // The bytes that an argument reaches.
  struct Extent {
    uintptr_t low = 0, high = 0;  // equal: none
    bool tensor = false;
  };
  void FindSharing(absl::Span<const Datum> args);
  void Relate(absl::Span<const Datum> args, int a, int b);
  bool PatternFits(const ExecutablePlan& plan, absl::Span<const Datum> args, std::string* why) const;
  absl::StatusOr<int> ChoosePlan(absl::Span<const Datum> args);
  bool GuardsHold(int plan, const fb::GuardT** failed);

  // --- states.cc ---
  // Where the plans find a state that an earlier call put elsewhere (self.h = x[-2:]), by state storage.
  struct StatePlace {
    bool replaced = false;       // storages_ has another storage than at the start, which a result may share
    bool elsewhere = false;      // not at its exported place in a storage of its own; the state is then `state`
    bool other_strides = false;  // than at export: read from a copy
    int state = -1;
    int64_t shift = 0;  // the distance in bytes from the storage's first byte to what the plans treat as the first byte
  };
  // If a call gave states other memory, the plans use it from now on, unless another state should share it. If only the
  // caller keeps that memory alive, its contents are copied to the state. Changes nothing on failure.
  absl::Status AdoptReplacedStates();
  absl::Status TryToAdoptReplacedStates();
  absl::Status TryToResetStates();
  absl::Status TakeBorrowedContents();
  absl::Status TakeContents(absl::Span<const int> states);
  bool FindPlace(int state, StatePlace* place) const;
  bool IsLaidOutAsExported(size_t state) const;
  bool HasItsSizes(size_t state) const;
  // Checks that all states are where the compiled plans can read them. Programs in eager order need only their sizes
  // and dtypes.
  absl::Status CheckStates() const;
  absl::Status MovedStateError(int state) const;
  // Returns whether the program runs with the sizes that the states have.
  bool SizesFit(const fb::EagerProgramT& program) const;
  // Returns whether the plan can read the states where they are; `why` describes a state that it cannot read.
  bool PlacesFit(const ExecutablePlan& plan, absl::Status* why) const;
  // Returns the address that the plan uses as the first byte of a state's storage; it accesses the bytes [low, high).
  absl::StatusOr<char*> PlaceOf(int storage, int64_t low, int64_t high);
  Geometry ExportedGeometry(int state) const;

  // --- bind.cc ---
  absl::StatusOr<BoundPlan*> Bind(int plan);
  absl::Status BindNew(int plan, BoundPlan* out);
  void Slice(int64_t bytes, BoundPlan::Launch* launch) const;
  void BindView(const ExecutablePlan& plan, int v, BoundPlan* b);
  void CheckSizesOnly(const ExecutablePlan& plan, BoundPlan* b);
  absl::Status ReserveArena(int64_t bytes);

  // --- steps.cc ---
  absl::Status RunBlock(int block);
  absl::Status RunStep(int block, int index);
  absl::Status RunTimed(int block, int index);
  // Computes the parts of a launch that are known only now: its words and its number of tiles.
  absl::Status CompleteLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch);
  absl::Status RunLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch);
  absl::Status KernelStatus() const;
  // Sets inputs_ and outputs_. The op stays valid until the next call of this method.
  absl::StatusOr<const PreparedOp*> CompleteLibraryCall(const fb::LibraryCallT& l, int step);
  absl::Status RunLibrary(const fb::LibraryCallT& l, int step);
  // Runs the library call at `index` and the following launch, its epilogue: on each part of the result while that is
  // in the inner caches, if the operator reports parts that are whole tiles.
  absl::Status RunWithEpilogue(int block, int index);
  void RememberBefore(int step);
  absl::Status RunCopy(const fb::CopyT& c);
  absl::Status RunCheck(const fb::CheckT& c);
  PlacedGeometry PlacedView(int view) const;
  absl::Status CheckSharing(fb::CheckKind kind, const PlacedGeometry& written, const PlacedGeometry& read);
  absl::Status RunReadScalar(const fb::ReadScalarT& r);
  // Gives a symbol that only data decide its value, and evaluates the expressions that wait for it.
  absl::Status SetSymbolFromData(int symbol, int64_t value);
  absl::Status RunComputeNumber(const fb::ComputeNumberT& c);
  absl::Status RunRandom(const fb::RandomT& r);
  absl::Status Allocate(int slot);
  // Prepares a view for use: binds it to sizes from data if necessary, and checks that it is inside its slot.
  absl::Status UseView(int v);
  char* Address(int v) const {
    const fb::ViewT& view = *plan_->plan->views[v];
    return base_[view.slot] + bound_->views[v].offset * ItemSize(static_cast<DType>(view.dtype));
  }
  StridedSpan SpanOf(int v) const;
  Geometry GeometryOf(int v) const;  // absolute: offset from the storage's first byte
  absl::StatusOr<int64_t> ExprValue(int e) const;
  absl::Status StateError(const absl::Status& s, absl::string_view source) const;

  // --- eager.cc ---
  friend class EagerRun;
  absl::Status RunEager(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Called before the first write to memory that the caller sees, so that a later refusal can undo it.
  void RememberWritten();
  void PutBack();
  // Called if another plan was chosen and has found that it cannot give the result (`why`).
  absl::Status RunEagerInstead(absl::Span<const Datum> args, std::vector<Datum>* outputs, const absl::Status& why);

  // --- executor.cc ---
  // RunInto, but for memory that cannot be had before a plan is bound: throws then.
  absl::Status Call(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Returns " (may have been written: x, cache)": everything visible to the caller that the plan changes.
  std::string WrittenNames(const ExecutablePlan& plan) const;
  absl::Status SetAddresses(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status CheckCall();
  // Uses a tensor of the caller as the memory of a fresh slot, if that is possible.
  bool Adopt(int output, const Tensor& t, absl::Span<const Datum> args);
  absl::Status Finish(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status Build(const fb::OutputRefT& o, absl::Span<const Datum> args, Datum* out);
  absl::StatusOr<Tensor> TensorOf(int v);
  std::shared_ptr<Storage> StorageOf(int slot) const;
  std::string SlotName(int slot) const;
  void Release();
  // As the caller says it.
  const std::string& ArgName(int i) const { return program_->args()[i].path; }

  std::shared_ptr<const Executable> program_;
  const fb::BundleT& bundle_;
  ThreadPool* pool_;
  int width_;
  Generator generator_;
  Generator* random_;
  std::vector<std::shared_ptr<Storage>> storages_;
  std::vector<Tensor> states_;
  std::vector<StatePlace> places_;       // by storage
  std::vector<int> elsewhere_;           // storages whose place is `elsewhere`
  std::vector<Tensor> state_copies_;     // by storage: of states with other strides
  bool state_geometry_changed_ = false;  // some state is where no compiled plan reads it

  // The values of the current call.
  std::vector<int64_t> symbols_;
  std::vector<uint8_t> symbol_known_;
  std::vector<int64_t> signature_key_;
  ExprValues signature_;
  std::vector<Extent> extents_;
  std::vector<int> by_address_;  // tensor arguments, nearly sorted from the last call
  std::vector<SharingArgs> sharing_;
  std::vector<SharingState> state_sharing_;
  std::vector<Register> registers_;
  absl::Span<const Datum> args_;
  std::vector<int> to_copy_;  // arguments with other strides than the chosen plan needs
  // The layouts of the results in that case, by output; empty if the plan's own layouts are correct.
  std::vector<EvaluatedLayout> result_layouts_;
  std::vector<Datum> copied_args_;  // as InExportedStrides gives them
  std::vector<Tensor> copies_;      // by argument, kept for the next call

  const ExecutablePlan* plan_ = nullptr;
  BoundPlan* bound_ = nullptr;
  std::vector<char*> base_;                        // by slot: its origin
  std::vector<std::shared_ptr<Storage>> storage_;  // by slot: Fresh and Heap, and arguments' (as before the call)
  std::vector<int64_t> origin_;                    // by slot: base_ - start of its storage, bytes
  std::vector<uint8_t> adopted_;                   // by output: computed directly into the caller's tensor
  bool written_visibly_ = false;
  bool in_operator_ = false;  // an operator of the user's own runs, which must not come back here
  // By plan: text for errors after the first write. The second is used when there is no memory for text.
  std::vector<std::string> written_names_;
  std::vector<absl::Status> out_of_memory_;
  // For a plan that may refuse late: the contents of the caller's memory before the first write to it.
  struct Remembered {
    char* at;
    size_t bytes, from;  // in remembered_bytes_
  };
  std::vector<Remembered> remembered_;
  std::vector<char> remembered_bytes_;
  int64_t status_[8] = {};
  std::shared_ptr<const PreparedOp> late_op_;  // for sizes that the binding did not know
  std::vector<char*> inputs_, outputs_;

  std::vector<std::vector<std::unique_ptr<BoundPlan>>> bound_plans_;  // by plan, the last used first
  std::vector<std::unique_ptr<EagerCalls>> eager_calls_;              // by plan: made when it first runs in eager order
  std::vector<std::vector<StepTime>> step_times_;                     // by plan and step; empty: not measured
  GuardPages guard_;
  std::shared_ptr<Storage> arena_;
  std::vector<std::shared_ptr<Storage>> guarded_;  // with guard pages: each arena slot's own
  uint64_t arena_generation_ = 1;
  OutputAllocator allocator_;
};

// Returns whether a copy of t in the exported strides can replace it: at most the order of the strides can be observed
// (in_order).
bool CopyIsAsGood(const Tensor& t, absl::Span<const int64_t> exported, bool in_order);

}  // namespace smelt

#endif  // SMELT_RUNTIME_EXECUTOR_H_
