#include "smelt/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/region.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/eager_calls.h"

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

Register Register::Float(double v) {
  Register r;
  r.d = v;
  r.i = v >= -9.2233720368547758e18 && v < 9.2233720368547758e18 ? static_cast<int64_t>(v) : INT64_MIN;
  r.is_float = true;
  return r;
}

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
      sharing_(*program_),
      strides_(*program_, memory_->device),
      written_(*program_, memory_->device) {
  status_[1] = CpuHints();
  bound_plans_.resize(program_->plans().size());
  if (options.time_steps) step_times_.resize(program_->plans().size());
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
  device_status_.is_open = device_status_.reports = device_status_.is_checked = false;
  device_status_.end = nullptr;
  args_ = args;
  SMELT_RETURN_IF_ERROR(signature_.Read(args, memory_->states));
  SMELT_ASSIGN_OR_RETURN(const int index, ChoosePlan(args));
  plan_ = &program_->plans()[index];
  SMELT_ASSIGN_OR_RETURN(bound_, Bind(index));
  if (!bound_->refusal.ok()) return bound_->refusal;
  stats_.variant = static_cast<AliasVariant>(plan_->plan->variant);
  stats_.arena_bytes = bound_->arena_bytes;
  absl::Cleanup release = [this] { Release(); };
  written_.Begin();
  absl::Status status;
  if (plan_->plan->eager != nullptr) {
    for (int e : plan_->late_exprs) bound_->values.known[e] = 0;
    status = memory_->on_host ? RunEager(index, args, outputs) : RunEagerOnHost(index, args, outputs);
  } else {
    device_status_.checks_indices = !memory_->on_host && !ChangesHandles() && HasIndexChecks();
    const absl::Cleanup end = [this] { memory_->device->EndCall(); };
    SMELT_RETURN_IF_ERROR(memory_->device->BeginCall(&bound_->graphs));
    status = CatchOutOfMemory([&] {
      SMELT_ASSIGN_OR_RETURN(args_, strides_.InExportedStrides(args, signature_));
      return SetAddresses(args_, outputs);
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
        SMELT_RETURN_IF_ERROR(RunBlock(0));
        return Finish(args, outputs);
      });
    } else {
      status = RunPlanOnDevice(args, outputs);
      memory_->device->EndCall();
    }
    // The data, or the place of the written memory, have shown it.
    if (absl::IsAborted(status) && (!written_.written() || written_.can_put_back(device_status_.is_checked))) {
      if (absl::Status s = written_.PutBack(); !s.ok()) return written_.WithNames(s, index);
      random_->next = drawn;
      return RunEagerInstead(args, outputs, status);
    }
    if (absl::IsAborted(status)) status = absl::UnimplementedError(status.message());
  }
  if (status.ok() || !written_.written()) return status;
  if (written_.can_put_back(device_status_.is_checked) && written_.PutBack().ok()) return status;
  return written_.WithNames(status, index);
}

absl::Status Executor::RunEagerInstead(absl::Span<const Datum> args, std::vector<Datum>* outputs,
                                       const absl::Status& why) {
  std::string pattern;
  for (size_t i = 0; i < program_->plans().size(); ++i) {
    const ExecutablePlan& p = program_->plans()[i];
    if (p.plan->eager == nullptr || !PatternFits(p, args, &pattern)) continue;
    plan_ = &p;
    SMELT_ASSIGN_OR_RETURN(bound_, Bind(static_cast<int>(i)));
    if (!bound_->refusal.ok()) return bound_->refusal;
    stats_.variant = static_cast<AliasVariant>(p.plan->variant);
    stats_.arena_bytes = bound_->arena_bytes;
    for (int e : p.late_exprs) bound_->values.known[e] = 0;
    const int eager = static_cast<int>(i);
    return memory_->on_host ? RunEager(eager, args, outputs) : RunEagerOnHost(eager, args, outputs);
  }
  return absl::UnimplementedError(why.message());
}

void Executor::Release() {
  for (auto& s : slots_.storage) s.reset();
  args_ = {};
  strides_.Release();
}

std::string Executor::SlotName(int slot) const {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  if (s.kind == fb::SlotKind::ArgStorage)
    return absl::StrCat("argument \"", ArgName(plan_->outer_of_inner[s.index]), "\"");
  return absl::StrCat("slot ", slot);
}

absl::Status Executor::SetAddresses(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  const fb::PlanT& p = *plan_->plan;
  BoundPlan& b = *bound_;
  const size_t num_slots = p.slots.size();
  slots_.base.assign(num_slots, nullptr);
  slots_.origin.assign(num_slots, 0);
  slots_.storage.resize(num_slots);
  slots_.adopted.assign(outputs->size(), 0);
  SMELT_RETURN_IF_ERROR(memory_->arena.Reserve(p, b.slot_bytes, b.arena_bytes));
  // Numbers from the data of the last call are not known in this one.
  for (int e : plan_->late_exprs) b.values.known[e] = 0;

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
    const Tensor& t = args[plan_->outer_of_inner[slot.index]].tensor();
    slots_.storage[s] = t.storage();
    slots_.origin[s] = slot.whole_storage ? 0 : t.offset() * ItemSize(t.dtype());
    int64_t bytes = t.storage()->bytes();
    if (const int64_t more = grown(slot.index); more > bytes) {
      bytes = more;
      resizes = true;
    }
    if (b.low[s] != b.high[s] && (b.low[s] < -slots_.origin[s] || b.high[s] > bytes - slots_.origin[s])) {
      return absl::FailedPreconditionError(
          absl::StrCat(SlotName(s), ": the model reaches bytes ", b.low[s] + slots_.origin[s], " to ",
                       b.high[s] + slots_.origin[s], " of its storage, which has ", bytes));
    }
    slots_.base[s] = t.storage()->address() + slots_.origin[s];
  }
  for (size_t s = 0; s < num_slots; ++s) {
    const fb::SlotT& slot = *p.slots[s];
    if (slot.kind == fb::SlotKind::StateStorage) {
      SMELT_ASSIGN_OR_RETURN(slots_.base[s], memory_->states.PlaceOf(slot.index, b.low[s], b.high[s]));
      slots_.origin[s] = memory_->states.place(slot.index).shift;
    }
    if (slot.kind == fb::SlotKind::Arena) {
      slots_.base[s] = memory_->arena.AddressOf(static_cast<int>(s), b.values.value[slot.offset]);
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
    if (plan_->memory.view_late[o.view]) continue;
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
    if (p.slots[s]->kind != fb::SlotKind::Fresh || plan_->memory.slot_late[s]) continue;
    const int output = plan_->memory.output_of_slot[s];
    if (output >= 0 && (*outputs)[output].IsTensor() && Adopt(output, (*outputs)[output].tensor(), args)) continue;
    SMELT_RETURN_IF_ERROR(Allocate(s));
  }
  registers_.assign(p.num_registers, Register());
  // From here on only the data, or a storage that cannot grow, can refuse the call. Then the storages that have grown
  // shrink again.
  std::vector<std::pair<Storage*, int64_t>> grown_from;
  if (resizes || !plan_->grown_states.empty()) {
    size_t most = plan_->grown_states.size();
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
  for (const ExecutablePlan::GrownState& g : plan_->grown_states) {
    const int64_t bytes = b.values.value[g.final_bytes];
    Storage& storage = *memory_->states.storages()[g.storage];
    if (bytes <= storage.bytes()) continue;
    memory_->states.NoteMovedMemory();  // for the words of other plans
    SMELT_RETURN_IF_ERROR(grow(storage, bytes));
    for (size_t s = 0; s < num_slots; ++s) {
      if (p.slots[s]->kind == fb::SlotKind::StateStorage && p.slots[s]->index == g.storage)
        slots_.base[s] = storage.address();
    }
  }
  if (resizes) {
    for (const auto& m : p.convention->mutated->inputs) {
      if (m->is_state || !(m->flags & static_cast<int>(fb::MutationKind::Resized))) continue;
      const Tensor& t = args[plan_->outer_of_inner[m->arg]].tensor();
      SMELT_RETURN_IF_ERROR(grow(*t.storage(), b.values.value[m->final_bytes]));
    }
    for (int s : b.call_slots) {
      if (p.slots[s]->kind == fb::SlotKind::ArgStorage)
        slots_.base[s] = slots_.storage[s]->address() + slots_.origin[s];
    }
  }

  // Writes the addresses into the words.
  const auto patch = [&](int s) {
    if (b.patched[s] == slots_.base[s]) return;
    for (const BoundPlan::Patch& w : b.patches[s]) {
      b.words[w.word] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(slots_.base[s])) + w.offset;
    }
    b.patched[s] = slots_.base[s];
  };
  for (int s : b.call_slots) {
    if (!plan_->memory.slot_late[s]) patch(s);
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
  if (bound_->bad_view >= 0) SMELT_RETURN_IF_ERROR(UseView(bound_->bad_view));
  for (int i : bound_->call_checks) {
    const fb::CheckT& c = *plan_->plan->prologue_checks[i];
    if (device_status_.checks_indices && IsIndexCheck(c)) continue;
    SMELT_RETURN_IF_ERROR(StateError(RunCheck(c), c.source));
  }
  return absl::OkStatus();
}

bool Executor::Adopt(int output, const Tensor& t, absl::Span<const Datum> args) {
  const fb::OutputRefT& o = *plan_->plan->convention->outputs->outputs[output];
  if (plan_->memory.view_late[o.view]) return false;
  const BoundView& v = bound_->views[o.view];
  if (v.state != BoundView::kGood) return false;
  if (o.kind != fb::OutputKind::Fresh && !(o.kind == fb::OutputKind::AliasOfIntermediate && IsDense(v))) return false;
  const fb::ViewT& view = *plan_->plan->views[o.view];
  if (static_cast<uint8_t>(t.dtype()) != view.dtype || t.rank() != v.rank) return false;
  for (int d = 0; d < v.rank; ++d) {
    if (t.sizes()[d] != v.sizes[d] || (v.sizes[d] > 1 && t.strides()[d] != v.strides[d])) return false;
  }
  // The whole slot must fit around the tensor: the plan may use the gaps.
  const int64_t item = ItemSize(t.dtype());
  const int64_t at = (t.offset() - v.offset) * item;
  const int64_t bytes = bound_->slot_bytes[view.slot];
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
  for (const auto& s : slots_.storage) {  // of another result given by the caller
    if (s != nullptr && s == t.storage()) return false;
  }
  slots_.base[view.slot] = t.storage()->address() + at;
  slots_.origin[view.slot] = at;
  slots_.storage[view.slot] = t.storage();
  slots_.adopted[output] = 1;
  return true;
}

absl::Status Executor::Allocate(int slot) {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  SMELT_ASSIGN_OR_RETURN(const int64_t bytes, ExprValue(s.bytes));
  if (bytes < 0) return absl::InternalError(absl::StrCat("slot ", slot, " has ", bytes, " bytes"));
  slots_.storage[slot].reset();  // of an earlier trip through a loop
  SMELT_ASSIGN_OR_RETURN(slots_.storage[slot], memory_->allocator.Allocate(bytes));
  slots_.base[slot] = slots_.storage[slot]->address();
  slots_.origin[slot] = 0;
  bound_->slot_bytes[slot] = bytes;
  return absl::OkStatus();
}

std::shared_ptr<Storage> Executor::StorageOf(int slot) const {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  if (s.kind == fb::SlotKind::StateStorage) return memory_->states.storages()[s.index];
  return slots_.storage[slot];
}

absl::StatusOr<Tensor> Executor::TensorOf(int v) {
  SMELT_RETURN_IF_ERROR(UseView(v));
  const fb::ViewT& view = *plan_->plan->views[v];
  Geometry g = GeometryOf(v);
  const int64_t item = ItemSize(static_cast<DType>(view.dtype));
  if (slots_.origin[view.slot] % item != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(SlotName(view.slot), " is not aligned for ", Name(static_cast<DType>(view.dtype))));
  }
  return Tensor(StorageOf(view.slot), static_cast<DType>(view.dtype), std::move(g));
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
        SMELT_ASSIGN_OR_RETURN(const int64_t v, ExprValue(o.expr));
        r = Register::Int(v);
      } else {
        r = registers_[o.index];
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
      SMELT_ASSIGN_OR_RETURN(Tensor t, TensorOf(o.view));
      *out = std::move(t);
      return absl::OkStatus();
    }
  }
}

absl::Status Executor::Finish(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  const fb::ConventionT& c = *plan_->plan->convention;
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
      SMELT_ASSIGN_OR_RETURN(Tensor now, TensorOf(m->final_view));
      changes.push_back({m->is_state ? memory_->states.tensors()[m->arg] : args[plan_->outer_of_inner[m->arg]].tensor(),
                         now, now.geometry()});
      changes_states = changes_states || m->is_state;
    }
  }
  for (size_t k = 0; k < outputs->size(); ++k) {
    if (slots_.adopted[k]) continue;
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

}  // namespace smelt
