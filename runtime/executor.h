// The instance: binds a plan to a call's sizes, and runs it. Internal.
//
// A call checks the arguments against the signature and reads the symbols (signature.h), finds shared memory
// (sharing.h) and chooses a plan that takes the arguments' strides (argument_strides.h) and the states where they are
// (state_store.h), binds it to the symbols, or reuses the binding of an earlier call with the same symbols
// (bind.cc), sets the addresses, runs the steps (steps.cc), and returns the results (executor.cc).
#ifndef SMELT_RUNTIME_EXECUTOR_H_
#define SMELT_RUNTIME_EXECUTOR_H_

#include <memory>
#include <string>
#include <vector>

#include "smelt/core/tensor/element_order.h"
#include "smelt/runtime/arena.h"
#include "smelt/runtime/argument_strides.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/library/device_library.h"
#include "smelt/runtime/output_allocator.h"
#include "smelt/runtime/philox.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/sharing.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/state_store.h"
#include "smelt/runtime/strided.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/runtime/written_memory.h"

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
  std::vector<std::unique_ptr<DeviceOp>> device_ops;           // the same, of library calls and draws on a device
  std::vector<int8_t>
      choices;  // by step: a device takes the condition that it reads and the next step itself; -1: unknown
  // By slot: the address of its memory at the last patch of the words, and the bytes that its views reach.
  std::vector<char*> patched;
  std::vector<int64_t> low, high;
  std::vector<int64_t> slot_bytes;  // Arena, Fresh; else -1
  int bad_view = -1;                // a view that is not inside its slot, for every call
  std::vector<int> call_slots;      // slots whose address may change from call to call
  std::vector<int> call_checks;     // prologue checks that need addresses
  int64_t arena_bytes = 0;
  uint64_t generation = 0;               // of the addresses in the arena's and states' words
  std::unique_ptr<LaunchGraphs> graphs;  // of a device
};

// Adds the model's source line, if it is known, to an error.
absl::Status StateError(const absl::Status& s, absl::string_view source);

inline bool IsIndexCheck(const fb::CheckT& c) {
  return c.kind == fb::CheckKind::IndexInRange || c.kind == fb::CheckKind::WrappedIndexInRange;
}

class EagerCalls;

// The parts of an instance that its methods have in common. One call runs at a time, so they share an arena, too.
struct InstanceMemory {
  InstanceMemory(const Executable& program, GuardPages guard, ThreadPool* pool, int width, uint64_t seed)
      : host(pool, width),
        device(program.device() != nullptr ? program.device() : &host),
        on_host(device->is_host()),
        allocator(guard, device),
        states(program, guard, device, &allocator),
        arena(guard, device) {
    generator.seed = seed;
  }
  HostDevice host;
  const ExecutionDevice* device;  // that runs the program
  const bool on_host;
  Generator generator;
  OutputAllocator allocator;
  StateStore states;
  Arena arena;
  bool in_operator = false;  // an operator of the user's own runs, which must not come back here
};

class Executor : public Instance {
 public:
  // A call of an eager-order program draws from its instance's generator, `random`.
  Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options, Generator* random = nullptr);
  // The part of the instance `whole` for one method.
  Executor(std::shared_ptr<const Executable> method, const InstanceOptions& options, const Executor& whole);
  ~Executor() override;
  absl::Status Init();

  absl::Status RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) override;
  absl::StatusOr<StartedCall> StartInto(absl::Span<const Datum> args, std::vector<Datum> outputs,
                                        uint64_t stream) override;
  absl::StatusOr<Instance*> Method(absl::string_view name) override;
  Tensor state(int index) const override { return memory_->states.tensors()[index]; }
  absl::Status ResetStates() override;
  std::vector<StepTime> step_times() const override;
  void Seed(uint64_t seed) override { memory_->generator = Generator{seed, 0}; }

 private:
  Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options,
           std::shared_ptr<InstanceMemory> memory, Generator* random);

  // --- classify.cc ---
  bool PatternFits(const ExecutablePlan& plan, absl::Span<const Datum> args, std::string* why) const;
  absl::StatusOr<int> ChoosePlan(absl::Span<const Datum> args);
  bool GuardsHold(int plan, const fb::GuardT** failed);

  // --- bind.cc ---
  absl::StatusOr<BoundPlan*> Bind(int plan);
  absl::Status BindNew(int plan, BoundPlan* out);
  void Slice(int64_t bytes, BoundPlan::Launch* launch) const;
  void BindView(const ExecutablePlan& plan, int v, BoundPlan* b);
  // Prepares a library call or a draw whose sizes are known.
  absl::Status BindLibraryCall(const ExecutablePlan& plan, const fb::LibraryCallT& call, int step, BoundPlan* b);
  void BindRandom(const ExecutablePlan& plan, const fb::RandomT& r, int step, BoundPlan* b);
  void CheckSizesOnly(const ExecutablePlan& plan, BoundPlan* b);

  // --- on_device.cc: on a device other than the host ---
  // Gives a call to the device. *pending is null if it is over.
  absl::Status StartOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs, uint64_t stream,
                             std::shared_ptr<PendingCall>* pending);
  // Runs a call there. Its arguments come from the host and go back to it if it is an eager-order program's.
  absl::Status RunOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status RunInner(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Runs the bound plan there.
  absl::Status RunPlanOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Returns the end of the call that was given to the device; null if it is over.
  std::shared_ptr<PendingCall> TakePending(absl::Span<const Datum> args);
  // Returns whether the plan changes more than contents, which only the host can: then it must know first that the data
  // do not refuse the call.
  bool ChangesHandles() const;
  bool HasIndexChecks() const;
  // Lets the device check the indices that are arguments, where the host does not.
  absl::Status CheckIndicesOnDevice();
  // Runs a plan in eager order on the host, with all storages that the call sees.
  absl::Status RunEagerOnHost(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs);
  absl::Status ClearStatusWords();
  int64_t* StatusWords(int step) const;
  int64_t NumStatusWords() const;
  ExecutionDevice::Reports Reports() const;
  ExecutionDevice::Reports CheckReports() const;  // those of the prologue's checks
  // Waits for the launches so far and returns what they report.
  absl::Status CheckStatusWords();
  // Returns the error of the plan's status words.
  static absl::Status ReportedError(const ExecutablePlan& plan, const int64_t* words);
  // Returns whether a check of the prologue has reported something.
  static bool HasFailedCheck(const ExecutablePlan& plan, const int64_t* words);
  class DeviceCall;
  // Returns whether a device decides without the host: a condition at `index` + 1 of a block, which is read at `index`,
  // or a loop at `index`.
  bool IsChoiceOnDevice(int block, int index);
  bool IsPredicateOnDevice(const fb::StepT& step, int predicate) const;
  bool CanRunInChoice(int block, size_t end = SIZE_MAX) const;
  // Gives both sides of such a condition, or such a loop, to the device.
  absl::Status ChooseOnDevice(int block, int index);
  absl::Status LoopOnDevice(const fb::WhileT& w);
  absl::StatusOr<ExecutionDevice::Predicate> PredicateOf(const fb::StepT& step);
  absl::Status RememberBeforeAll(int block);
  absl::Status RunLibraryOnHost(const PreparedOp& op, const fb::LibraryCallT& l);
  // Returns the elements of a view for the host to read: in their place, or a copy in `bytes`.
  absl::StatusOr<StridedSpan> ReadOnHost(int view, std::vector<char>* bytes);
  // Copies the elements of such a copy, which the host has changed, to their place.
  absl::Status WriteBack(int view, std::vector<char>* bytes);

  // --- steps.cc ---
  absl::Status RunBlock(int block, size_t end = SIZE_MAX);  // its steps before number `end`
  absl::Status RunStep(int block, int index);
  absl::Status RunTimed(int block, int index);
  // Computes the parts of a launch that are known only now: its words and its number of tiles.
  absl::Status CompleteLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch);
  absl::Status RunLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch, int step);
  // Returns the error that a kernel reports by a number.
  static absl::Status KernelStatus(int64_t report);
  // Sets the operands in library_.
  absl::Status UseOperands(const fb::LibraryCallT& l);
  // Sets library_. The op stays valid until the next call of this method.
  absl::StatusOr<const PreparedOp*> CompleteLibraryCall(const fb::LibraryCallT& l, int step);
  // Returns false if the host has to compute the step.
  absl::StatusOr<bool> RunLibraryOnDevice(const fb::LibraryCallT& l, int step);
  absl::Status RunLibrary(const fb::LibraryCallT& l, int step);
  // Runs the library call at `index` and the following launch, its epilogue: on each part of the result while that is
  // in the inner caches, if the operator reports parts that are whole tiles.
  absl::Status RunWithEpilogue(int block, int index);
  absl::Status RememberBefore(int step);
  absl::Status RunCopy(const fb::CopyT& c);
  absl::Status RunCheck(const fb::CheckT& c);
  PlacedGeometry PlacedView(int view) const;
  absl::Status CheckSharing(fb::CheckKind kind, const PlacedGeometry& written, const PlacedGeometry& read);
  absl::Status RunReadScalar(const fb::ReadScalarT& r);
  // Gives a symbol that only data decide its value, and evaluates the expressions that wait for it.
  absl::Status SetSymbolFromData(int symbol, int64_t value);
  absl::Status RunComputeNumber(const fb::ComputeNumberT& c);
  absl::Status RunRandom(const fb::RandomT& r, int step);
  absl::StatusOr<bool> FillOnDevice(const fb::RandomT& r, int step);
  absl::Status FillRandom(const fb::RandomT& r, const StridedSpan& out);
  absl::Status Allocate(int slot);
  // Prepares a view for use: binds it to sizes from data if necessary, and checks that it is inside its slot.
  absl::Status UseView(int v);
  char* Address(int v) const {
    const fb::ViewT& view = *plan_->plan->views[v];
    return slots_.base[view.slot] + bound_->views[v].offset * ItemSize(static_cast<DType>(view.dtype));
  }
  StridedSpan SpanOf(int v) const;
  Geometry GeometryOf(int v) const;  // absolute: offset from the storage's first byte
  absl::StatusOr<int64_t> ExprValue(int e) const;

  // --- eager.cc ---
  friend class EagerRun;
  absl::Status RunEager(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs);
  // Takes states whose memory or geometry a call in eager order has changed.
  absl::Status AdoptChangedStates();
  // Called if another plan was chosen and has found that it cannot give the result (`why`).
  absl::Status RunEagerInstead(absl::Span<const Datum> args, std::vector<Datum>* outputs, const absl::Status& why);

  // --- executor.cc ---
  // RunInto, but for memory that cannot be had before a plan is bound: throws then.
  absl::Status Call(absl::Span<const Datum> args, std::vector<Datum>* outputs);
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
  std::shared_ptr<InstanceMemory> memory_;
  std::vector<std::unique_ptr<Executor>> methods_;
  const bool is_inner_;  // a call of an eager-order program
  Generator* random_;
  GuardPages guard_;
  Signature signature_;
  ArgumentSharing sharing_;
  ArgumentStrides strides_;
  WrittenMemory written_;

  // The values of the current call.
  std::vector<Register> registers_;
  absl::Span<const Datum> args_;

  const ExecutablePlan* plan_ = nullptr;
  BoundPlan* bound_ = nullptr;
  // Where the slots of the plan lie in this call.
  struct Slots {
    std::vector<char*> base;                        // by slot: its origin
    std::vector<std::shared_ptr<Storage>> storage;  // by slot: Fresh and Heap, and arguments' (as before the call)
    std::vector<int64_t> origin;                    // by slot: base - start of its storage, bytes
    std::vector<uint8_t> adopted;                   // by output: computed directly into the caller's tensor
  } slots_;
  int64_t status_[8] = {};
  struct DeviceStatus {
    // On the device: eight for each step of the plan that runs, and for each check of its prologue.
    std::shared_ptr<Storage> words;
    bool is_open = false;           // launches have been given whose words have not been read
    bool checks_indices = false;    // the device does it in this call
    bool is_checked = false;        // one of these checks has failed, as the host knows already
    std::unique_ptr<WorkMark> end;  // of the call, if it is not over
    bool reports = false;           // the mark has what the launches have reported
  } device_status_;
  // The operands of the library call that runs.
  struct LibraryOperands {
    std::shared_ptr<const PreparedOp> late_op;  // for sizes that the binding did not know
    std::vector<char*> inputs, outputs;
  } library_;

  std::vector<std::vector<std::unique_ptr<BoundPlan>>> bound_plans_;  // by plan, the last used first
  std::vector<std::unique_ptr<EagerCalls>> eager_calls_;              // by plan: made when it first runs in eager order
  std::vector<std::vector<StepTime>> step_times_;                     // by plan and step; empty: not measured
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EXECUTOR_H_
