// Calls on a device other than the host: what the executor does besides handing its steps to the device.
#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/device/relocation.h"
#include "smelt/runtime/executor.h"

namespace smelt {
namespace {

// A kernel reports in the first of its status words. Launches do not share a cache line.
constexpr int64_t kStatusWords = 8;

}  // namespace

// The end of a call that the device has.
class Executor::DeviceCall final : public PendingCall {
 public:
  // `names` are those of the memory that the call writes, which the device puts back if it is `kept`.
  DeviceCall(std::shared_ptr<const Executable> program, const ExecutablePlan& plan, std::unique_ptr<WorkMark> end,
             bool reports, std::string names, WrittenMemory::Kept kept, absl::Span<const Datum> args)
      : program_(std::move(program)),
        plan_(plan),
        end_(std::move(end)),
        reports_(reports),
        names_(std::move(names)),
        kept_(kept),
        args_(args.begin(), args.end()) {}

  bool Done() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return end_ == nullptr || end_->IsReached();
  }
  absl::Status Wait() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (end_ == nullptr) return status_;
    status_ = CatchOutOfMemory([&]() -> absl::Status {
      const absl::Status waited = end_->Wait();
      if (!waited.ok()) return absl::Status(waited.code(), absl::StrCat(waited.message(), names_));
      const absl::Status refused = reports_ ? ReportedError(plan_, end_->words()) : absl::OkStatus();
      if (refused.ok() || kept_ == WrittenMemory::Kept::kYes) return refused;
      if (kept_ == WrittenMemory::Kept::kIfChecked && HasFailedCheck(plan_, end_->words())) return refused;
      return absl::Status(refused.code(), absl::StrCat(refused.message(), names_));
    });
    end_ = nullptr;
    args_.clear();
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  const std::shared_ptr<const Executable> program_;  // the plan's
  const ExecutablePlan& plan_;
  std::unique_ptr<WorkMark> end_;
  const bool reports_;
  const std::string names_;
  const WrittenMemory::Kept kept_;
  std::vector<Datum> args_;  // whose memory the device uses
  absl::Status status_;
};

std::shared_ptr<PendingCall> Executor::TakePending(absl::Span<const Datum> args) {
  if (device_status_.end == nullptr) return nullptr;
  const int plan = static_cast<int>(plan_ - program_->plans().data());
  return std::make_shared<DeviceCall>(program_, *plan_, std::move(device_status_.end), device_status_.reports,
                                      written_.written() ? written_.names(plan) : std::string(), written_.kept(), args);
}

absl::Status Executor::StartOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs, uint64_t stream,
                                     std::shared_ptr<PendingCall>* pending) {
  const std::lock_guard<std::mutex> lock(memory_->device->calls());
  SMELT_RETURN_IF_ERROR(memory_->states.CheckDevice());
  const ExecutionDevice::Transfers before = memory_->device->transfers();
  absl::Status status = memory_->device->FollowStream(stream);
  if (status.ok()) {
    status = CatchOutOfMemory([&] {
      SMELT_RETURN_IF_ERROR(Call(args, outputs));
      *pending = TakePending(args);
      return absl::OkStatus();
    });
    // The device does all the same what it was given.
    if (status.ok()) status = memory_->device->LetStreamFollow(stream);
    if (!status.ok() && *pending != nullptr) {
      (*pending)->Wait().IgnoreError();
      *pending = nullptr;
      if (written_.written()) status = written_.WithNames(status, static_cast<int>(plan_ - program_->plans().data()));
    }
  }
  const ExecutionDevice::Transfers after = memory_->device->transfers();
  stats_.bytes_to_host = after.to_host - before.to_host;
  stats_.bytes_to_device = after.to_device - before.to_device;
  stats_.device_waits = after.waits - before.waits;
  stats_.driver_calls = after.driver_calls - before.driver_calls;
  stats_.graph_launches = after.graph_launches - before.graph_launches;
  return status;
}

absl::Status Executor::RunOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (is_inner_) return RunInner(args, outputs);
  std::shared_ptr<PendingCall> pending;
  SMELT_RETURN_IF_ERROR(StartOnDevice(args, outputs, /*stream=*/0, &pending));
  if (pending == nullptr) return absl::OkStatus();
  // Other instances may give their calls to the device meanwhile.
  ++stats_.device_waits;
  return pending->Wait();
}

bool Executor::ChangesHandles() const {
  if (!plan_->grown_states.empty()) return true;
  const auto& mutated = plan_->plan->convention->mutated;
  return mutated != nullptr && std::any_of(mutated->inputs.begin(), mutated->inputs.end(),
                                           [](const auto& m) { return (m->flags & kHandleChanges) != 0; });
}

bool Executor::HasIndexChecks() const {
  return std::any_of(bound_->call_checks.begin(), bound_->call_checks.end(),
                     [&](int i) { return IsIndexCheck(*plan_->plan->prologue_checks[i]); });
}

absl::Status Executor::CheckIndicesOnDevice() {
  const auto& checks = plan_->plan->prologue_checks;
  for (int i : bound_->call_checks) {
    const fb::CheckT& c = *checks[i];
    if (!IsIndexCheck(c)) continue;
    SMELT_RETURN_IF_ERROR(StateError(UseView(c.a), c.source));
    SMELT_ASSIGN_OR_RETURN(const int64_t limit, ExprValue(c.b));
    const StridedSpan span = SpanOf(c.a);
    device_status_.is_open = true;
    SMELT_RETURN_IF_ERROR(memory_->device->CheckIndices(span.data, span.dtype, span.sizes, span.strides,
                                                        c.kind == fb::CheckKind::WrappedIndexInRange ? -limit : 0,
                                                        limit, StatusWords(plan_->steps.count + i)));
  }
  return absl::OkStatus();
}

namespace {

// Returns how many steps and results of a plan read or set a register.
int UsesOfRegister(const fb::PlanT& plan, int r) {
  int uses = 0;
  const auto count = [&](int used) { uses += used == r ? 1 : 0; };
  for (const auto& block : plan.blocks) {
    for (const auto& step : block->steps) {
      if (const auto* l = step->step.AsLaunch()) {
        for (const fb::Word& w : l->words) count(w.kind() == fb::WordKind::DataScalar ? w.a() : -1);
      } else if (const auto* c = step->step.AsCheck()) {
        count(c->kind == fb::CheckKind::DataTrue ? c->a : -1);
      } else if (const auto* read = step->step.AsReadScalar()) {
        count(read->register_);
      } else if (const auto* f = step->step.AsIf()) {
        count(f->predicate);
      } else if (const auto* w = step->step.AsWhile()) {
        count(w->predicate), count(w->counter);
      } else if (const auto* random = step->step.AsRandom()) {
        count(random->p0_register), count(random->p1_register);
      } else if (const auto* set = step->step.AsSetRegister()) {
        count(set->register_);
      } else if (const auto* number = step->step.AsComputeNumber()) {
        count(number->register_);
        for (int input : number->inputs) count(input);
      }
    }
  }
  for (const auto& o : plan.convention->outputs->outputs) {
    count(o->kind == fb::OutputKind::Scalar && o->expr < 0 ? o->index : -1);
  }
  return uses;
}

}  // namespace

bool Executor::CanRunInChoice(int block, size_t end) const {
  if (block < 0) return true;
  const auto& steps = plan_->plan->blocks[block]->steps;
  for (size_t i = 0; i < std::min(steps.size(), end); ++i) {
    const int number = plan_->steps.first[block] + static_cast<int>(i);
    if (const auto* l = steps[i]->step.AsLaunch()) {
      if (bound_->launches[number].slow || !program_->image()->PassesWordsByValue(l->kernel)) return false;
    } else if (const auto* c = steps[i]->step.AsCopy()) {
      if (plan_->memory.view_late[c->src] || plan_->memory.view_late[c->dst]) return false;
    } else if (steps[i]->step.AsLibraryCall() != nullptr) {
      const DeviceOp* op = bound_->device_ops[number].get();
      if (op == nullptr || !op->needs_no_host()) return false;
    } else {
      return false;
    }
  }
  return true;
}

// The register is read nowhere else, so the host need not know it.
bool Executor::IsPredicateOnDevice(const fb::StepT& step, int predicate) const {
  const fb::ReadScalarT* read = step.step.AsReadScalar();
  if (read == nullptr || read->symbol >= 0 || read->register_ != predicate || plan_->memory.view_late[read->view])
    return false;
  const DType t = static_cast<DType>(plan_->plan->views[read->view]->dtype);
  return (IsIntegral(t) || t == DType::kBool) && UsesOfRegister(*plan_->plan, predicate) == 2;
}

bool Executor::IsChoiceOnDevice(int block, int index) {
  const auto& steps = plan_->plan->blocks[block]->steps;
  const fb::WhileT* w = steps[index]->step.AsWhile();
  const fb::IfT* f = nullptr;
  if (steps[index]->step.AsReadScalar() != nullptr && static_cast<size_t>(index) + 1 < steps.size())
    f = steps[index + 1]->step.AsIf();
  // Steps are timed one by one.
  if ((f == nullptr && w == nullptr) || !step_times_.empty() || !memory_->device->CanChoose()) return false;
  bound_->choices.resize(plan_->steps.count, -1);
  int8_t& choice = bound_->choices[plan_->steps.first[block] + index];
  if (choice >= 0) return choice == 1;
  if (f != nullptr) {
    choice = IsPredicateOnDevice(*steps[index], f->predicate) && CanRunInChoice(f->then_block) &&
             CanRunInChoice(f->else_block);
  } else {
    choice = 0;
    if (w->max_trips >= 0 || w->counter >= 0 || w->cond_block < 0 || w->body_block < 0) return false;
    const auto& condition = plan_->plan->blocks[w->cond_block]->steps;
    choice = !condition.empty() && IsPredicateOnDevice(*condition.back(), w->predicate) &&
             CanRunInChoice(w->cond_block, condition.size() - 1) && CanRunInChoice(w->body_block);
  }
  return choice == 1;
}

absl::StatusOr<ExecutionDevice::Predicate> Executor::PredicateOf(const fb::StepT& step) {
  const int view = step.step.AsReadScalar()->view;
  SMELT_RETURN_IF_ERROR(StateError(UseView(view), step.source));
  if (bound_->views[view].elements < 1) return absl::InternalError("a scalar is read from an empty view");
  return ExecutionDevice::Predicate{Address(view), ItemSize(static_cast<DType>(plan_->plan->views[view]->dtype)), {}};
}

absl::Status Executor::RememberBeforeAll(int block) {
  if (block < 0) return absl::OkStatus();
  for (size_t i = 0; i < plan_->plan->blocks[block]->steps.size(); ++i) {
    SMELT_RETURN_IF_ERROR(RememberBefore(plan_->steps.first[block] + static_cast<int>(i)));
  }
  return absl::OkStatus();
}

// Contents that a part of a choice overwrites are kept before the choice.
absl::Status Executor::ChooseOnDevice(int block, int index) {
  const auto& steps = plan_->plan->blocks[block]->steps;
  if (const fb::WhileT* w = steps[index]->step.AsWhile()) return LoopOnDevice(*w);
  const fb::IfT& f = *steps[index + 1]->step.AsIf();
  SMELT_ASSIGN_OR_RETURN(const ExecutionDevice::Predicate predicate, PredicateOf(*steps[index]));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(f.then_block));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(f.else_block));
  const ExecutionDevice& device = *memory_->device;
  bool whole = false;
  const absl::Cleanup end = [&] { device.EndChoice(whole); };
  SMELT_RETURN_IF_ERROR(StateError(device.BeginChoice(predicate), steps[index]->source));
  if (f.then_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(f.then_block));
  device.Otherwise();
  if (f.else_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(f.else_block));
  whole = true;
  return absl::OkStatus();
}

absl::Status Executor::LoopOnDevice(const fb::WhileT& w) {
  const auto& condition = plan_->plan->blocks[w.cond_block]->steps;
  const fb::StepT& read = *condition.back();
  SMELT_ASSIGN_OR_RETURN(ExecutionDevice::Predicate predicate, PredicateOf(read));
  // A predicate that depends on what a kernel has refused may be true for ever.
  predicate.reports = Reports();
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(w.cond_block));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(w.body_block));
  const ExecutionDevice& device = *memory_->device;
  SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block, condition.size() - 1));
  bool whole = false;
  const absl::Cleanup end = [&] { device.EndChoice(whole); };
  SMELT_RETURN_IF_ERROR(StateError(device.BeginLoop(predicate), read.source));
  SMELT_RETURN_IF_ERROR(RunBlock(w.body_block));
  SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block, condition.size() - 1));
  SMELT_RETURN_IF_ERROR(StateError(device.EndLoop(predicate), read.source));
  whole = true;
  return absl::OkStatus();
}

absl::Status Executor::RunPlanOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  absl::Status status = CatchOutOfMemory([&]() -> absl::Status {
    SMELT_RETURN_IF_ERROR(ClearStatusWords());
    if (device_status_.checks_indices) SMELT_RETURN_IF_ERROR(CheckIndicesOnDevice());
    SMELT_RETURN_IF_ERROR(RunBlock(0));
    if (ChangesHandles()) SMELT_RETURN_IF_ERROR(CheckStatusWords());
    SMELT_RETURN_IF_ERROR(Finish(args, outputs));
    device_status_.reports = device_status_.is_open;
    if (device_status_.reports) SMELT_RETURN_IF_ERROR(written_.PutBackIf(Reports()));
    const int64_t count = device_status_.reports ? NumStatusWords() : 0;
    SMELT_ASSIGN_OR_RETURN(device_status_.end, memory_->device->Mark(StatusWords(0), count));
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  device_status_.end = nullptr;
  // An earlier step may have reported an error that the host has not seen.
  if (const absl::Status earlier = CheckStatusWords(); !earlier.ok()) status = earlier;
  // Nothing may use the call's memory when this returns.
  status.Update(memory_->device->Synchronize());
  return status;
}

absl::Status Executor::RunInner(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  SMELT_RETURN_IF_ERROR(memory_->states.CheckDevice());
  Relocation to_device(*memory_->device, Relocation::Direction::kToDevice);
  for (const Datum& arg : args) {
    if (arg.IsTensor()) to_device.Add(arg.tensor().storage(), /*writable=*/false);
  }
  SMELT_RETURN_IF_ERROR(to_device.Move());
  SMELT_RETURN_IF_ERROR(Call(args, outputs));
  if (const std::shared_ptr<PendingCall> pending = TakePending({})) SMELT_RETURN_IF_ERROR(pending->Wait());
  SMELT_RETURN_IF_ERROR(to_device.MoveBack());
  for (const Datum& out : *outputs) {
    if (out.IsTensor()) SMELT_RETURN_IF_ERROR(out.tensor().storage()->MoveTo(Device::Cpu()));
  }
  return absl::OkStatus();
}

absl::Status Executor::RunEagerOnHost(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  ++stats_.host_steps;
  Relocation to_host(*memory_->device, Relocation::Direction::kToHost);
  std::vector<Tensor> seen;  // whose storage the call may replace
  for (const Datum& arg : args) {
    if (!arg.IsTensor()) continue;
    seen.push_back(arg.tensor());
    to_host.Add(arg.tensor().storage(), /*writable=*/true);
  }
  for (const Datum& out : *outputs) {
    if (out.IsTensor() && out.tensor().defined()) to_host.Add(out.tensor().storage(), /*writable=*/true);
  }
  for (size_t s = 0; s < memory_->states.storages().size(); ++s) {
    const fb::StateStorageT& storage = *bundle_.storages[s];
    const bool constant =
        storage.bytes > 0 && !storage.is_mutated && !memory_->states.place(static_cast<int>(s)).replaced;
    if (constant) {
      to_host.AddConstant(memory_->states.storages()[s], program_->StateBytes(static_cast<int>(s)));
    } else {
      to_host.Add(memory_->states.storages()[s], /*writable=*/true);
    }
  }
  for (const Tensor& state : memory_->states.tensors()) {
    seen.push_back(state);
    to_host.Add(state.storage(), /*writable=*/true);
  }
  SMELT_RETURN_IF_ERROR(to_host.Move());
  absl::Status status = RunEager(plan, args, outputs);
  // Results and replaced storages that the call has made stay on the device.
  const absl::Status moved = to_host.MoveBack();
  memory_->states.NoteMovedMemory();
  const auto to_device = [&](const Tensor& t) {
    return t.storage()->device().is_cpu() ? t.storage()->MoveTo(memory_->device->device()) : absl::OkStatus();
  };
  absl::Status placed = moved;
  for (const Tensor& t : seen) placed.Update(to_device(t));
  if (status.ok()) {
    for (const Datum& out : *outputs) {
      if (out.IsTensor() && out.tensor().defined()) placed.Update(to_device(out.tensor()));
    }
  }
  if (status.ok() && placed.ok()) placed = AdoptChangedStates();
  if (status.ok() && placed.ok()) placed = memory_->device->Synchronize();
  if (placed.ok()) return status;
  // The contents on the device are not what the call leaves.
  written_.Commit();
  return status.ok() ? placed : status;
}

int64_t Executor::NumStatusWords() const {
  return (plan_->steps.count + static_cast<int64_t>(plan_->plan->prologue_checks.size())) * kStatusWords;
}

ExecutionDevice::Reports Executor::Reports() const {
  return {StatusWords(0), NumStatusWords() / kStatusWords, kStatusWords};
}

ExecutionDevice::Reports Executor::CheckReports() const {
  return {StatusWords(plan_->steps.count), static_cast<int64_t>(plan_->plan->prologue_checks.size()), kStatusWords};
}

absl::Status Executor::ClearStatusWords() {
  const int64_t bytes = std::max<int64_t>(NumStatusWords(), 1) * static_cast<int64_t>(sizeof(int64_t));
  if (device_status_.words == nullptr || device_status_.words->bytes() < bytes) {
    SMELT_ASSIGN_OR_RETURN(device_status_.words, memory_->device->NewStorage(bytes));
  }
  return memory_->device->Zero(device_status_.words->address(), bytes);
}

int64_t* Executor::StatusWords(int step) const {
  return reinterpret_cast<int64_t*>(device_status_.words->address()) + step * kStatusWords;
}

absl::Status Executor::CheckStatusWords() {
  if (!std::exchange(device_status_.is_open, false)) return absl::OkStatus();
  std::vector<int64_t> words(static_cast<size_t>(NumStatusWords()));
  SMELT_RETURN_IF_ERROR(memory_->device->ToHost(reinterpret_cast<char*>(words.data()), device_status_.words->address(),
                                                static_cast<int64_t>(words.size() * sizeof(int64_t))));
  device_status_.is_checked = HasFailedCheck(*plan_, words.data());
  return ReportedError(*plan_, words.data());
}

bool Executor::HasFailedCheck(const ExecutablePlan& plan, const int64_t* words) {
  for (size_t i = 0; i < plan.plan->prologue_checks.size(); ++i) {
    if (words[(plan.steps.count + i) * kStatusWords] != 0) return true;
  }
  return false;
}

absl::Status Executor::ReportedError(const ExecutablePlan& plan, const int64_t* words) {
  const auto& checks = plan.plan->prologue_checks;
  for (size_t i = 0; i < checks.size(); ++i) {
    const int64_t report = words[(plan.steps.count + i) * kStatusWords];
    if (report == 0) continue;
    return StateError(
        checks[i]->message.empty() ? KernelStatus(report) : absl::FailedPreconditionError(checks[i]->message),
        checks[i]->source);
  }
  for (size_t block = 0; block < plan.plan->blocks.size(); ++block) {
    const auto& steps = plan.plan->blocks[block]->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t report = words[(plan.steps.first[block] + i) * kStatusWords];
      if (report != 0) return StateError(KernelStatus(report), steps[i]->source);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StridedSpan> Executor::ReadOnHost(int view, std::vector<char>* bytes) {
  StridedSpan span = SpanOf(view);
  const BoundView& v = bound_->views[view];
  if (memory_->on_host || v.elements == 0) return span;
  // The data of a call that is refused mean nothing.
  SMELT_RETURN_IF_ERROR(CheckStatusWords());
  bytes->resize(static_cast<size_t>(v.high - v.low));
  const char* const base = slots_.base[plan_->plan->views[view]->slot];
  SMELT_RETURN_IF_ERROR(memory_->device->ToHost(bytes->data(), base + v.low, v.high - v.low));
  span.data = bytes->data() + (v.offset * ItemSize(span.dtype) - v.low);
  return span;
}

absl::Status Executor::WriteBack(int view, std::vector<char>* bytes) {
  const BoundView& v = bound_->views[view];
  if (v.elements == 0) return absl::OkStatus();
  char* const base = slots_.base[plan_->plan->views[view]->slot];
  const StridedSpan span = SpanOf(view);
  const int item = ItemSize(span.dtype);
  if (v.high - v.low != v.elements * item) {
    // The bytes between the elements may have changed since they were read.
    std::vector<char> now(bytes->size());
    SMELT_RETURN_IF_ERROR(memory_->device->ToHost(now.data(), base + v.low, v.high - v.low));
    const int64_t first = v.offset * item - v.low;
    CopyStrided(now.data() + first, span.strides, bytes->data() + first, span.strides, span.sizes, item);
    bytes->swap(now);
  }
  return memory_->device->FromHost(base + v.low, bytes->data(), v.high - v.low);
}

absl::Status Executor::RunLibraryOnHost(const PreparedOp& op, const fb::LibraryCallT& l) {
  ++stats_.host_steps;
  std::vector<std::vector<char>> inputs(l.inputs.size()), outputs(l.outputs.size());
  for (size_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] < 0) continue;
    const fb::ViewT& view = *plan_->plan->views[l.inputs[k]];
    const fb::SlotT& slot = *plan_->plan->slots[view.slot];
    // The host has the weights already.
    if (slot.kind == fb::SlotKind::StateStorage && !bundle_.storages[slot.index]->is_mutated &&
        !memory_->states.place(slot.index).replaced && program_->StateBytes(slot.index) != nullptr) {
      const int64_t at = bound_->views[l.inputs[k]].offset * ItemSize(static_cast<DType>(view.dtype));
      library_.inputs[k] = const_cast<char*>(program_->StateBytes(slot.index)) + at;
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(const StridedSpan span, ReadOnHost(l.inputs[k], &inputs[k]));
    library_.inputs[k] = span.data;
  }
  for (size_t k = 0; k < l.outputs.size(); ++k) {
    if (l.outputs[k] < 0) continue;
    SMELT_ASSIGN_OR_RETURN(const StridedSpan span, ReadOnHost(l.outputs[k], &outputs[k]));
    library_.outputs[k] = span.data;
  }
  SMELT_RETURN_IF_ERROR(op.Run(LibraryContext{pool_, width_}, library_.inputs, library_.outputs));
  for (size_t k = 0; k < l.outputs.size(); ++k) {
    if (l.outputs[k] >= 0) SMELT_RETURN_IF_ERROR(WriteBack(l.outputs[k], &outputs[k]));
  }
  return absl::OkStatus();
}

}  // namespace smelt
