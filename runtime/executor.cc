#include "smelt/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/region.h"
#include "smelt/runtime/device/relocation.h"
#include "smelt/runtime/device_call.h"
#include "smelt/runtime/eager.h"
#include "smelt/runtime/eager_calls.h"
#include "smelt/runtime/kernel_reports.h"

namespace smelt {
namespace {

// Returns whether each place from the first to the last is reached once, in any order of dims.
bool IsDense(const BoundView& v) {
  int left = 0;
  for (int d = 0; d < v.rank; ++d) left += v.sizes[d] != 1;
  for (int64_t next = 1; left > 0; --left) {
    int found = 0;
    while (found < v.rank && (v.sizes[found] == 1 || v.strides[found] != next)) ++found;
    if (found == v.rank || v.sizes[found] == 0) return false;
    next *= v.sizes[found];
  }
  return true;
}

// Returns the number of threads that an instance uses.
int WidthOf(const InstanceOptions& options, const ProgramOptions& program, const ThreadPool& pool) {
  const int width = options.threads > 0 ? options.threads : program.threads;
  return width > 0 ? width : pool.threads();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Instance>> Instance::Create(std::shared_ptr<const Program> program,
                                                           const InstanceOptions& options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::unique_ptr<Instance>> {
    auto made = std::make_unique<Executor>(std::static_pointer_cast<const Executable>(std::move(program)), options);
    SMELT_RETURN_IF_ERROR(made->Init());
    return std::unique_ptr<Instance>(std::move(made));
  });
}

absl::StatusOr<std::vector<Datum>> Instance::Run(absl::Span<const Datum> args) {
  std::vector<Datum> outputs;
  SMELT_RETURN_IF_ERROR(RunInto(args, &outputs));
  return outputs;
}

Executor::Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options,
                   std::shared_ptr<InstanceMemory> memory, Generator* random)
    : program_(std::move(program)),
      bundle_(program_->bundle()),
      pool_(&ThreadPool::Shared()),
      width_(WidthOf(options, program_->options(), *pool_)),
      memory_(std::move(memory)),
      is_inner_(random != nullptr),
      random_(random != nullptr ? random : &memory_->generator),
      guard_(options.guard),
      signature_(*program_),
      strides_(*program_, memory_->device),
      written_(*program_, memory_->device),
      binder_(*program_, signature_, memory_->on_host, width_),
      classifier_(*program_, signature_, memory_->states, strides_, binder_),
      call_(*program_, signature_, *memory_),
      runner_(call_, {pool_, width_, &binder_, &written_, random_, &stats_}, options.time_steps) {
  eager_calls_.resize(program_->plans().size());
  for (const auto& method : program_->methods()) methods_.push_back(std::make_unique<Executor>(method, options, *this));
}

Executor::Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options, Generator* random)
    : Executor(
          program, options,
          std::make_shared<InstanceMemory>(*program, options.guard, &ThreadPool::Shared(),
                                           WidthOf(options, program->options(), ThreadPool::Shared()), options.seed),
          random) {}

Executor::Executor(std::shared_ptr<const Executable> method, const InstanceOptions& options, const Executor& whole)
    : Executor(std::move(method), options, whole.memory_, nullptr) {}

Executor::~Executor() = default;

absl::Status Executor::Init() {
  if (!memory_->on_host && guard_ != GuardPages::kNone)
    return absl::InvalidArgumentError("guard pages are for memory of the host");
  return memory_->states.Init();
}

absl::StatusOr<Instance*> Executor::Method(absl::string_view name) {
  const std::vector<std::string>& names = program_->method_names();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return program_->Method(name).status();
  return methods_.empty() ? this : methods_[it - names.begin()].get();
}

absl::Status Executor::ResetStates() {
  if (memory_->in_operator) return absl::FailedPreconditionError("an operator resets the instance that is calling it");
  return memory_->states.Reset();
}

absl::Status Executor::RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (memory_->in_operator)
    return absl::FailedPreconditionError("an operator runs the instance that is calling it; another one can run");
  return CatchOutOfMemory([&] { return memory_->on_host ? Call(args, outputs) : RunOnDevice(args, outputs); });
}

absl::StatusOr<StartedCall> Executor::StartInto(absl::Span<const Datum> args, std::vector<Datum> outputs,
                                                uint64_t stream) {
  if (memory_->on_host) {
    SMELT_RETURN_IF_ERROR(RunInto(args, &outputs));
    return StartedCall(nullptr, std::move(outputs));
  }
  if (memory_->in_operator)
    return absl::FailedPreconditionError("an operator runs the instance that is calling it; another one can run");
  std::shared_ptr<PendingCall> pending;
  SMELT_RETURN_IF_ERROR(CatchOutOfMemory([&] { return StartOnDevice(args, &outputs, stream, &pending); }));
  return StartedCall(std::move(pending), std::move(outputs));
}

absl::Status Executor::Call(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (!methods_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the program has several methods, and the call names none: ",
                                                   absl::StrJoin(program_->method_names(), ", ")));
  }
  if (outputs->empty()) outputs->resize(bundle_.outputs.size());
  if (outputs->size() != bundle_.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", bundle_.outputs.size(), " outputs, memory for ", outputs->size(), " was given"));
  }
  stats_ = CallStats();
  call_.device.is_open = call_.device.reports = call_.device.is_checked = false;
  call_.device.end = nullptr;
  call_.args = args;
  SMELT_RETURN_IF_ERROR(signature_.Read(args, memory_->states));
  SMELT_ASSIGN_OR_RETURN(const int index, classifier_.ChoosePlan(args));
  call_.plan = &program_->plans()[index];
  SMELT_ASSIGN_OR_RETURN(call_.bound, binder_.Bind(index));
  if (!call_.bound->refusal.ok()) return call_.bound->refusal;
  stats_.variant = static_cast<AliasVariant>(call_.plan->plan->variant);
  stats_.arena_bytes = call_.bound->arena_bytes;
  absl::Cleanup release = [this] { Release(); };
  written_.Begin();
  absl::Status status;
  if (call_.plan->plan->eager != nullptr) {
    for (int e : call_.plan->late_exprs) call_.bound->values.known[e] = 0;
    status = memory_->on_host ? RunEager(index, args, outputs) : RunEagerOnHost(index, args, outputs);
  } else {
    call_.device.checks_indices = !memory_->on_host && !ChangesHandles(*call_.plan) && HasIndexChecks();
    const absl::Cleanup end = [this] { memory_->device->EndCall(); };
    SMELT_RETURN_IF_ERROR(memory_->device->BeginCall(&call_.bound->graphs));
    status = CatchOutOfMemory([&] {
      SMELT_ASSIGN_OR_RETURN(call_.args, strides_.InExportedStrides(args, signature_));
      return SetAddresses(call_.args, outputs);
    });
    // Nothing has been done yet. An answer that depends on the order of elements belongs to the eager-order plan.
    if (absl::IsAborted(status)) {
      memory_->device->EndCall();
      return RunEagerInstead(args, outputs, status);
    }
    SMELT_RETURN_IF_ERROR(status);
    const uint64_t drawn = random_->next;
    if (memory_->on_host) {
      status = CatchOutOfMemory([&] {
        SMELT_RETURN_IF_ERROR(runner_.RunBlock(0));
        return Finish(args, outputs);
      });
    } else {
      status = RunPlanOnDevice(args, outputs);
      memory_->device->EndCall();
    }
    // The data, or the place of the written memory, have shown it.
    if (absl::IsAborted(status) && (!written_.written() || written_.can_put_back(call_.device.is_checked))) {
      if (absl::Status s = written_.PutBack(); !s.ok()) return written_.WithNames(s, index);
      random_->next = drawn;
      return RunEagerInstead(args, outputs, status);
    }
    if (absl::IsAborted(status)) status = absl::UnimplementedError(status.message());
  }
  if (status.ok() || !written_.written()) return status;
  if (written_.can_put_back(call_.device.is_checked) && written_.PutBack().ok()) return status;
  return written_.WithNames(status, index);
}

absl::Status Executor::RunEagerInstead(absl::Span<const Datum> args, std::vector<Datum>* outputs,
                                       const absl::Status& why) {
  std::string pattern;
  for (size_t i = 0; i < program_->plans().size(); ++i) {
    const ExecutablePlan& p = program_->plans()[i];
    if (p.plan->eager == nullptr || !classifier_.PatternFits(p, args, &pattern)) continue;
    call_.plan = &p;
    SMELT_ASSIGN_OR_RETURN(call_.bound, binder_.Bind(static_cast<int>(i)));
    if (!call_.bound->refusal.ok()) return call_.bound->refusal;
    stats_.variant = static_cast<AliasVariant>(p.plan->variant);
    stats_.arena_bytes = call_.bound->arena_bytes;
    for (int e : p.late_exprs) call_.bound->values.known[e] = 0;
    const int eager = static_cast<int>(i);
    return memory_->on_host ? RunEager(eager, args, outputs) : RunEagerOnHost(eager, args, outputs);
  }
  return absl::UnimplementedError(why.message());
}

void Executor::Release() {
  for (auto& s : call_.slots.storage) s.reset();
  call_.args = {};
  strides_.Release();
}

// Gives each slot of the plan its address: arguments, states and the arena, then results. Everything that the plan
// touches must lie in its memory before the first step runs, so all checks of a call's memory stand here.
absl::Status Executor::SetAddresses(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  const fb::PlanT& p = *call_.plan->plan;
  BoundPlan& b = *call_.bound;
  const size_t num_slots = p.slots.size();
  call_.slots.base.assign(num_slots, nullptr);
  call_.slots.origin.assign(num_slots, 0);
  call_.slots.storage.resize(num_slots);
  call_.slots.adopted.assign(outputs->size(), 0);
  SMELT_RETURN_IF_ERROR(memory_->arena.Reserve(p, b.slot_bytes, b.arena_bytes));
  // Numbers from the data of the last call are not known in this one.
  for (int e : call_.plan->late_exprs) b.values.known[e] = 0;

  // Finds where the arguments are, and checks that everything that the plan touches lies in them.
  const auto grown = [&](int inner) -> int64_t {
    if (p.convention->mutated == nullptr) return 0;
    for (const auto& m : p.convention->mutated->inputs) {
      if (m->is_state || m->arg != inner || !(m->flags & static_cast<int>(fb::MutationKind::Resized))) continue;
      if (b.values.known[m->final_bytes]) return b.values.value[m->final_bytes];
    }
    return 0;
  };
  bool resizes = false;
  for (int s : b.call_slots) {
    const fb::SlotT& slot = *p.slots[s];
    if (slot.kind != fb::SlotKind::ArgStorage) continue;
    const Tensor& t = args[call_.plan->outer_of_inner[slot.index]].tensor();
    call_.slots.storage[s] = t.storage();
    call_.slots.origin[s] = slot.whole_storage ? 0 : t.offset() * ItemSize(t.dtype());
    int64_t bytes = t.storage()->bytes();
    if (const int64_t more = grown(slot.index); more > bytes) {
      bytes = more;
      resizes = true;
    }
    if (b.low[s] != b.high[s] && (b.low[s] < -call_.slots.origin[s] || b.high[s] > bytes - call_.slots.origin[s])) {
      return absl::FailedPreconditionError(
          absl::StrCat(call_.SlotName(s), ": the model reaches bytes ", b.low[s] + call_.slots.origin[s], " to ",
                       b.high[s] + call_.slots.origin[s], " of its storage, which has ", bytes));
    }
    call_.slots.base[s] = t.storage()->address() + call_.slots.origin[s];
  }
  for (size_t s = 0; s < num_slots; ++s) {
    const fb::SlotT& slot = *p.slots[s];
    if (slot.kind == fb::SlotKind::StateStorage) {
      SMELT_ASSIGN_OR_RETURN(call_.slots.base[s], memory_->states.PlaceOf(slot.index, b.low[s], b.high[s]));
      call_.slots.origin[s] = memory_->states.place(slot.index).shift;
    }
    if (slot.kind == fb::SlotKind::Arena) {
      call_.slots.base[s] = memory_->arena.AddressOf(static_cast<int>(s), b.values.value[slot.offset]);
    }
  }
  SMELT_RETURN_IF_ERROR(CheckCall());
  // Results that the caller gives must fit before anything runs.
  for (size_t k = 0; k < outputs->size(); ++k) {
    if (!(*outputs)[k].IsTensor()) continue;
    const fb::OutputRefT& o = *p.convention->outputs->outputs[k];
    const Tensor& t = (*outputs)[k].tensor();
    if (t.defined() && t.device() != memory_->device->device()) {
      return absl::InvalidArgumentError(absl::StrCat("output ", k, ": the memory given for it is of ",
                                                     t.device().ToString(), ", expected ",
                                                     memory_->device->device().ToString()));
    }
    if (!t.defined() || !t.InBounds() || o.view < 0) {
      if (o.kind == fb::OutputKind::IsArg || o.kind == fb::OutputKind::IsState) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("output ", k, ": the memory given for it is no tensor in its bounds"));
    }
    const BoundView& v = b.views[o.view];
    if (call_.plan->memory.view_late[o.view]) continue;
    const fb::ViewT& view = *p.views[o.view];
    if (static_cast<uint8_t>(t.dtype()) != view.dtype || t.rank() != v.rank ||
        !std::equal(v.sizes, v.sizes + v.rank, t.sizes().begin())) {
      return absl::InvalidArgumentError(absl::StrCat("output ", k, ": the memory given for it is ", Name(t.dtype()),
                                                     " [", absl::StrJoin(t.sizes(), ", "), "], expected ",
                                                     Name(static_cast<DType>(view.dtype)), " [",
                                                     absl::StrJoin(absl::MakeSpan(v.sizes, v.rank), ", "), "]"));
    }
  }
  for (int s : b.call_slots) {
    if (p.slots[s]->kind != fb::SlotKind::Fresh || call_.plan->memory.slot_late[s]) continue;
    const int output = call_.plan->memory.output_of_slot[s];
    if (output >= 0 && (*outputs)[output].IsTensor() && Adopt(output, (*outputs)[output].tensor(), args)) continue;
    SMELT_RETURN_IF_ERROR(call_.Allocate(s));
  }
  call_.registers.assign(p.num_registers, Register());
  // From here on only the data, or a storage that cannot grow, can refuse the call. Then the storages that have grown
  // shrink again.
  std::vector<std::pair<Storage*, int64_t>> grown_from;
  if (resizes || !call_.plan->grown_states.empty()) {
    size_t most = call_.plan->grown_states.size();
    if (p.convention->mutated != nullptr) most += p.convention->mutated->inputs.size();
    grown_from.reserve(most);
  }
  const auto grow = [&](Storage& storage, int64_t bytes) -> absl::Status {
    const int64_t before = storage.bytes();
    absl::Status s = storage.GrowTo(bytes);
    if (s.ok()) {
      if (bytes > before) grown_from.emplace_back(&storage, before);
      return s;
    }
    for (const auto& [other, had] : grown_from) other->Resize(had).IgnoreError();  // shrinking cannot fail
    return s;
  };
  for (const ExecutablePlan::GrownState& g : call_.plan->grown_states) {
    const int64_t bytes = b.values.value[g.final_bytes];
    Storage& storage = *memory_->states.storages()[g.storage];
    if (bytes <= storage.bytes()) continue;
    memory_->states.NoteMovedMemory();  // for the words of other plans
    SMELT_RETURN_IF_ERROR(grow(storage, bytes));
    for (size_t s = 0; s < num_slots; ++s) {
      if (p.slots[s]->kind == fb::SlotKind::StateStorage && p.slots[s]->index == g.storage)
        call_.slots.base[s] = storage.address();
    }
  }
  if (resizes) {
    for (const auto& m : p.convention->mutated->inputs) {
      if (m->is_state || !(m->flags & static_cast<int>(fb::MutationKind::Resized))) continue;
      const Tensor& t = args[call_.plan->outer_of_inner[m->arg]].tensor();
      SMELT_RETURN_IF_ERROR(grow(*t.storage(), b.values.value[m->final_bytes]));
    }
    for (int s : b.call_slots) {
      if (p.slots[s]->kind == fb::SlotKind::ArgStorage)
        call_.slots.base[s] = call_.slots.storage[s]->address() + call_.slots.origin[s];
    }
  }

  // Writes the addresses into the words.
  const auto patch = [&](int s) {
    if (b.patched[s] == call_.slots.base[s]) return;
    for (const BoundPlan::Patch& w : b.patches[s]) {
      b.words[w.word] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(call_.slots.base[s])) + w.offset;
    }
    b.patched[s] = call_.slots.base[s];
  };
  for (int s : b.call_slots) {
    if (!call_.plan->memory.slot_late[s]) patch(s);
  }
  // Both only increase.
  if (const uint64_t now = memory_->arena.generation() + memory_->states.generation();
      b.generation != now || !memory_->on_host) {
    for (size_t s = 0; s < num_slots; ++s) {
      if (p.slots[s]->kind == fb::SlotKind::Arena || p.slots[s]->kind == fb::SlotKind::StateStorage)
        patch(static_cast<int>(s));
    }
    b.generation = now;
  }
  for (const BoundPlan::ArgWord& w : b.arg_words) {
    const Datum& v = args[w.arg];
    const double d = v.IsFloat() ? v.as_float() : v.IsBool() ? v.as_bool() : static_cast<double>(v.as_int());
    if (w.as_double) {
      std::memcpy(&b.words[w.word], &d, 8);
    } else {
      b.words[w.word] = v.IsFloat() ? Register::Float(d).i : v.IsBool() ? v.as_bool() : v.as_int();
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::CheckCall() {
  if (call_.bound->bad_view >= 0) SMELT_RETURN_IF_ERROR(call_.UseView(call_.bound->bad_view));
  for (int i : call_.bound->call_checks) {
    const fb::CheckT& c = *call_.plan->plan->prologue_checks[i];
    if (call_.device.checks_indices && IsIndexCheck(c)) continue;
    SMELT_RETURN_IF_ERROR(StateError(runner_.RunCheck(c), c.source));
  }
  return absl::OkStatus();
}

bool Executor::Adopt(int output, const Tensor& t, absl::Span<const Datum> args) {
  const fb::OutputRefT& o = *call_.plan->plan->convention->outputs->outputs[output];
  if (call_.plan->memory.view_late[o.view]) return false;
  const BoundView& v = call_.bound->views[o.view];
  if (v.state != BoundView::kGood) return false;
  if (o.kind != fb::OutputKind::Fresh && !(o.kind == fb::OutputKind::AliasOfIntermediate && IsDense(v))) return false;
  const fb::ViewT& view = *call_.plan->plan->views[o.view];
  if (static_cast<uint8_t>(t.dtype()) != view.dtype || t.rank() != v.rank) return false;
  for (int d = 0; d < v.rank; ++d) {
    if (t.sizes()[d] != v.sizes[d] || (v.sizes[d] > 1 && t.strides()[d] != v.strides[d])) return false;
  }
  // The whole slot must fit around the tensor: the plan may use the gaps.
  const int64_t item = ItemSize(t.dtype());
  const int64_t at = (t.offset() - v.offset) * item;
  const int64_t bytes = call_.bound->slot_bytes[view.slot];
  if (at < 0 || bytes > t.storage()->bytes() - at || bytes != v.elements * item) return false;
  const uintptr_t low = reinterpret_cast<uintptr_t>(t.storage()->address() + at),
                  high = low + static_cast<uintptr_t>(bytes);
  for (const Extent& e : signature_.extents()) {
    if (e.tensor && e.low < high && low < e.high) return false;
  }
  for (const auto& s : memory_->states.storages()) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(s->address());
    if (from < high && low < from + static_cast<uintptr_t>(s->bytes())) return false;
  }
  for (const auto& s : call_.slots.storage) {  // of another result given by the caller
    if (s != nullptr && s == t.storage()) return false;
  }
  call_.slots.base[view.slot] = t.storage()->address() + at;
  call_.slots.origin[view.slot] = at;
  call_.slots.storage[view.slot] = t.storage();
  call_.slots.adopted[output] = 1;
  return true;
}

absl::Status Executor::Build(const fb::OutputRefT& o, absl::Span<const Datum> args, Datum* out) {
  switch (o.kind) {
    case fb::OutputKind::IsArg:
      *out = args[o.index];
      return absl::OkStatus();
    case fb::OutputKind::IsState:
      *out = memory_->states.tensors()[o.index];
      return absl::OkStatus();
    case fb::OutputKind::None:
      *out = Datum();
      return absl::OkStatus();
    case fb::OutputKind::Scalar: {
      Register r;
      if (o.expr >= 0) {
        SMELT_ASSIGN_OR_RETURN(const int64_t v, call_.ExprValue(o.expr));
        r = Register::Int(v);
      } else {
        r = call_.registers[o.index];
      }
      if (o.scalar_kind == fb::ArgKind::Float) {
        *out = r.d;
      } else if (o.scalar_kind == fb::ArgKind::Bool) {
        *out = r.is_float ? r.d != 0 : r.i != 0;
      } else {
        *out = r.i;
      }
      return absl::OkStatus();
    }
    default: {
      SMELT_ASSIGN_OR_RETURN(Tensor t, call_.TensorOf(o.view));
      *out = std::move(t);
      return absl::OkStatus();
    }
  }
}

absl::Status Executor::Finish(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  const fb::ConventionT& c = *call_.plan->plan->convention;
  // All visible values are computed before any handle changes, because views count from the arguments' old places.
  struct Change {
    Tensor handle, now;
    Geometry geometry;  // of `now`
  };
  std::vector<Change> changes;
  bool changes_states = false;
  if (c.mutated != nullptr) {
    for (const auto& m : c.mutated->inputs) {
      if (!(m->flags & kHandleChanges) || m->final_view < 0) continue;
      SMELT_ASSIGN_OR_RETURN(Tensor now, call_.TensorOf(m->final_view));
      changes.push_back(
          {m->is_state ? memory_->states.tensors()[m->arg] : args[call_.plan->outer_of_inner[m->arg]].tensor(), now,
           now.geometry()});
      changes_states = changes_states || m->is_state;
    }
  }
  for (size_t k = 0; k < outputs->size(); ++k) {
    if (call_.slots.adopted[k]) continue;
    Datum& out = (*outputs)[k];
    if (out.IsTensor()) {
      Tensor to = out.tensor();
      Datum made;
      SMELT_RETURN_IF_ERROR(Build(*c.outputs->outputs[k], args, &made));
      if (!made.IsTensor() || !to.defined() || made.tensor().dtype() != to.dtype() ||
          made.tensor().sizes() != to.sizes()) {
        return absl::InvalidArgumentError(absl::StrCat("output ", k, ": the memory given for it does not fit"));
      }
      const Tensor& from = made.tensor();
      if (from.address() == to.address() && from.strides() == to.strides()) continue;
      // If the source lies in an argument, it may overlap the destination.
      Tensor source = from;
      if (from.storage() == to.storage()) {
        SMELT_ASSIGN_OR_RETURN(
            source, memory_->device->NewTensor(from.dtype(), from.sizes(), Geometry::Contiguous(from.sizes()).strides));
        SMELT_RETURN_IF_ERROR(memory_->device->CopyElements(source, from));
      }
      SMELT_RETURN_IF_ERROR(memory_->device->CopyElements(to, source));
    } else {
      SMELT_RETURN_IF_ERROR(Build(*c.outputs->outputs[k], args, &out));
      if (!strides_.result_layouts().empty())
        SMELT_RETURN_IF_ERROR(strides_.MoveToLayout(strides_.result_layouts()[k], &out));
    }
  }
  // A later error does not undo the changes from here on, but names them.
  if (!changes.empty()) {
    written_.Commit();
  }
  if (changes_states) memory_->states.set_geometry_changed();
  for (Change& change : changes) {
    Tensor& handle = change.handle;
    if (handle.storage() != change.now.storage()) handle.SetStorage(change.now.storage());
    handle.SetDType(change.now.dtype());
    handle.SetGeometry(std::move(change.geometry));
  }
  return memory_->states.geometry_changed() ? memory_->states.AdoptReplaced() : absl::OkStatus();
}

std::shared_ptr<PendingCall> Executor::TakePending(absl::Span<const Datum> args) {
  if (call_.device.end == nullptr) return nullptr;
  const int plan = static_cast<int>(call_.plan - program_->plans().data());
  return std::make_shared<DeviceCall>(program_, *call_.plan, std::move(call_.device.end), call_.device.reports,
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
      if (written_.written())
        status = written_.WithNames(status, static_cast<int>(call_.plan - program_->plans().data()));
    }
  }
  const ExecutionDevice::Transfers after = memory_->device->transfers();
  stats_.bytes_to_host = after.to_host - before.to_host;
  stats_.bytes_to_device = after.to_device - before.to_device;
  stats_.device_waits = after.waits - before.waits;
  stats_.driver_calls = after.driver_calls - before.driver_calls;
  stats_.graph_launches = after.graph_launches - before.graph_launches;
  stats_.cublaslt_products = after.products - before.products;
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

bool Executor::HasIndexChecks() const {
  return std::any_of(call_.bound->call_checks.begin(), call_.bound->call_checks.end(),
                     [&](int i) { return IsIndexCheck(*call_.plan->plan->prologue_checks[i]); });
}

absl::Status Executor::CheckIndicesOnDevice() {
  const auto& checks = call_.plan->plan->prologue_checks;
  for (int i : call_.bound->call_checks) {
    const fb::CheckT& c = *checks[i];
    if (!IsIndexCheck(c)) continue;
    SMELT_RETURN_IF_ERROR(StateError(call_.UseView(c.a), c.source));
    SMELT_ASSIGN_OR_RETURN(const int64_t limit, call_.ExprValue(c.b));
    const StridedSpan span = call_.SpanOf(c.a);
    call_.device.is_open = true;
    SMELT_RETURN_IF_ERROR(memory_->device->CheckIndices(span.data, span.dtype, span.sizes, span.strides,
                                                        c.kind == fb::CheckKind::WrappedIndexInRange ? -limit : 0,
                                                        limit, call_.StatusWords(call_.plan->steps.count + i)));
  }
  return absl::OkStatus();
}

absl::Status Executor::RunPlanOnDevice(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  absl::Status status = CatchOutOfMemory([&]() -> absl::Status {
    SMELT_RETURN_IF_ERROR(call_.ClearStatusWords());
    if (call_.device.checks_indices) SMELT_RETURN_IF_ERROR(CheckIndicesOnDevice());
    SMELT_RETURN_IF_ERROR(runner_.RunBlock(0));
    if (ChangesHandles(*call_.plan)) SMELT_RETURN_IF_ERROR(call_.CheckStatusWords());
    SMELT_RETURN_IF_ERROR(Finish(args, outputs));
    call_.device.reports = call_.device.is_open;
    if (call_.device.reports) SMELT_RETURN_IF_ERROR(written_.PutBackIf(call_.Reports()));
    const int64_t count = call_.device.reports ? call_.NumStatusWords() : 0;
    SMELT_ASSIGN_OR_RETURN(call_.device.end, memory_->device->Mark(call_.StatusWords(0), count));
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  call_.device.end = nullptr;
  // An earlier step may have reported an error that the host has not seen.
  if (const absl::Status earlier = call_.CheckStatusWords(); !earlier.ok()) status = earlier;
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
  if (status.ok() && placed.ok()) placed = memory_->states.AdoptChanged();
  if (status.ok() && placed.ok()) placed = memory_->device->Synchronize();
  if (placed.ok()) return status;
  // The contents on the device are not what the call leaves.
  written_.Commit();
  return status.ok() ? placed : status;
}

absl::Status Executor::RunEager(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (eager_calls_[plan] == nullptr) {
    InstanceOptions options;
    options.threads = width_;
    options.guard = guard_;
    eager_calls_[plan] =
        std::make_unique<EagerCalls>(program_->eager_calls(plan), *call_.plan->plan->eager, options, random_);
  }
  return EagerRun(call_, pool_, width_, *call_.plan->plan->eager, *eager_calls_[plan], stats_).Run(args, outputs);
}

}  // namespace smelt
