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

// The most bytes that are saved of a call's writes if data may still refuse the call: saving more would cost as much as
// writing in place saves.
constexpr size_t kMostRemembered = 64 << 10;

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

constexpr int kHandleChanges = static_cast<int>(fb::MutationKind::Geometry) |
                               static_cast<int>(fb::MutationKind::Storage) |
                               static_cast<int>(fb::MutationKind::Resized);

}  // namespace

Register Register::Float(double v) {
  Register r;
  r.d = v;
  r.i = v >= -9.2233720368547758e18 && v < 9.2233720368547758e18 ? static_cast<int64_t>(v) : INT64_MIN;
  r.is_float = true;
  return r;
}

absl::StatusOr<std::shared_ptr<Storage>> OutputAllocator::Allocate(int64_t bytes) {
  constexpr size_t kMaxKnown = 256;
  for (auto& s : known_) {
    if (s.use_count() != 1 || s->bytes() != bytes) continue;
    // The last owner may have been another thread. (ThreadSanitizer does not know fences.)
#if !defined(__SANITIZE_THREAD__)
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return s;
  }
  if (guard_ != GuardPages::kNone) return GuardedStorage(bytes, guard_);
  // A model that is called with ever other sizes leaves a storage of each.
  constexpr int64_t kMostUnused = int64_t{32} << 20;
  int64_t unused = 0;
  for (const auto& s : known_) unused += s.use_count() == 1 ? s->bytes() : 0;
  if (unused > std::max(kMostUnused, bytes)) {
    known_.erase(std::remove_if(known_.begin(), known_.end(), [](const auto& s) { return s.use_count() == 1; }),
                 known_.end());
  }
  std::shared_ptr<Storage> made = Storage::Allocate(bytes);
  if (known_.size() >= kMaxKnown) {
    // Unused ones are dropped first. If all are used, the oldest is forgotten.
    auto end = std::remove_if(known_.begin(), known_.end(), [](const auto& s) { return s.use_count() == 1; });
    if (end == known_.end()) --end, std::rotate(known_.begin(), known_.begin() + 1, known_.end());
    known_.erase(end, known_.end());
  }
  known_.push_back(made);
  return made;
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

Executor::Executor(std::shared_ptr<const Executable> program, const InstanceOptions& options, Generator* random)
    : program_(std::move(program)),
      bundle_(program_->bundle()),
      pool_(&ThreadPool::Shared()),
      random_(random != nullptr ? random : &generator_),
      guard_(options.guard),
      allocator_(options.guard) {
  width_ = options.threads > 0 ? options.threads : program_->options().threads;
  if (width_ <= 0) width_ = pool_->threads();
  generator_.seed = options.seed;
  status_[1] = CpuHints();
  symbols_.resize(bundle_.symbols.size());
  symbol_known_.resize(bundle_.symbols.size());
  signature_.Resize(bundle_.exprs.size());
  extents_.resize(bundle_.args.size());
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    if (bundle_.args[i]->kind == fb::ArgKind::Tensor) by_address_.push_back(static_cast<int>(i));
  }
  bound_plans_.resize(program_->plans().size());
  if (options.time_steps) step_times_.resize(program_->plans().size());
  eager_calls_.resize(program_->plans().size());
  // No call has these symbols, so the first one evaluates.
  signature_key_.assign(bundle_.symbols.size() + 1, 0);
  for (const ExecutablePlan& plan : program_->plans()) {
    const std::string names = WrittenNames(plan);
    out_of_memory_.push_back(absl::ResourceExhaustedError(absl::StrCat("out of memory", names)));
    written_names_.push_back(names);
  }
}

Executor::~Executor() = default;

std::string Executor::WrittenNames(const ExecutablePlan& plan) const {
  std::vector<std::string> names;
  for (int a : plan.plan->written_args) names.push_back(ArgName(a));
  for (int s : plan.plan->written_states) {
    for (const auto& state : bundle_.states) {
      if (state->storage == s) names.push_back(state->name);
    }
  }
  const auto& convention = plan.plan->convention;
  if (convention != nullptr && convention->mutated != nullptr) {
    for (const auto& m : convention->mutated->inputs) {
      if (!(m->flags & kHandleChanges)) continue;
      const std::string& name = m->is_state ? bundle_.states[m->arg]->name : ArgName(plan.outer_of_inner[m->arg]);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return absl::StrCat(" (may have been written: ", absl::StrJoin(names, ", "), ")");
}

absl::Status Executor::Init() {
  for (size_t i = 0; i < bundle_.storages.size(); ++i) {
    const fb::StateStorageT& s = *bundle_.storages[i];
    if (s.bytes == 0) {
      storages_.push_back(Storage::Allocate(0));
    } else if (guard_ != GuardPages::kNone) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, GuardedStorage(s.bytes, guard_));
      std::memcpy(copy->data(), program_->StateBytes(static_cast<int>(i)), static_cast<size_t>(s.bytes));
      storages_.push_back(std::move(copy));
    } else if (s.is_mutated) {
      SMELT_ASSIGN_OR_RETURN(Container::WritableCopy copy,
                             program_->container().MapWritable(s.segment, s.segment_offset, s.bytes));
      storages_.push_back(Storage::Adopt(copy.data, s.bytes, copy.owner));
    } else {
      char* data = const_cast<char*>(program_->StateBytes(static_cast<int>(i)));
      storages_.push_back(
          Storage::Adopt(data, s.bytes, std::const_pointer_cast<Container>(program_->shared_container())));
    }
  }
  for (const auto& s : bundle_.states) {
    states_.emplace_back(storages_[s->storage], static_cast<DType>(s->dtype),
                         Geometry{s->sizes, s->strides, s->offset});
  }
  places_.resize(storages_.size());
  state_copies_.resize(storages_.size());
  return absl::OkStatus();
}

absl::Status Executor::RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (in_operator_)
    return absl::FailedPreconditionError("an operator runs the instance that is calling it; another one can run");
  return CatchOutOfMemory([&] { return Call(args, outputs); });
}

absl::Status Executor::Call(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  if (outputs->empty()) outputs->resize(bundle_.outputs.size());
  if (outputs->size() != bundle_.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", bundle_.outputs.size(), " outputs, memory for ", outputs->size(), " was given"));
  }
  stats_ = CallStats();
  args_ = args;
  SMELT_RETURN_IF_ERROR(ReadArguments(args));
  SMELT_RETURN_IF_ERROR(ReadSymbols(args));
  SMELT_RETURN_IF_ERROR(CheckSizes(args));
  SMELT_ASSIGN_OR_RETURN(const int index, ChoosePlan(args));
  plan_ = &program_->plans()[index];
  SMELT_ASSIGN_OR_RETURN(bound_, Bind(index));
  if (!bound_->refusal.ok()) return bound_->refusal;
  stats_.variant = static_cast<AliasVariant>(plan_->plan->variant);
  stats_.arena_bytes = bound_->arena_bytes;
  absl::Cleanup release = [this] { Release(); };
  written_visibly_ = false;
  remembered_.clear();
  absl::Status status;
  if (plan_->plan->eager != nullptr) {
    for (int e : plan_->late_exprs) bound_->values.known[e] = 0;
    status = RunEager(index, args, outputs);
  } else {
    status = CatchOutOfMemory([&] {
      args_ = InExportedStrides(args);
      return SetAddresses(args_, outputs);
    });
    // Nothing has been done yet. An answer that depends on the order of elements belongs to the eager-order plan.
    if (absl::IsAborted(status)) return RunEagerInstead(args, outputs, status);
    SMELT_RETURN_IF_ERROR(status);
    const uint64_t drawn = random_->next;
    status = CatchOutOfMemory([&] {
      SMELT_RETURN_IF_ERROR(RunBlock(0));
      return Finish(args, outputs);
    });
    // The data, or the place of the written memory, have shown it.
    if (absl::IsAborted(status) && (!written_visibly_ || !remembered_.empty())) {
      PutBack();
      random_->next = drawn;
      return RunEagerInstead(args, outputs, status);
    }
    if (absl::IsAborted(status)) status = absl::UnimplementedError(status.message());
  }
  if (status.ok() || !written_visibly_) return status;
  if (!remembered_.empty()) {
    PutBack();
    return status;
  }
  // It was found only after the first write: the message names the tensors whose contents are now undefined. If memory
  // is short, that text exists already.
  try {
    return absl::Status(status.code(), absl::StrCat(status.message(), written_names_[index]));
  } catch (const std::bad_alloc&) {
    return out_of_memory_[index];
  }
}

void Executor::RememberWritten() {
  if (!plan_->plan->may_refuse_late) return;
  size_t bytes = 0;
  auto add = [&](char* at, size_t n) {
    remembered_.push_back({at, n, bytes});
    bytes += n;
  };
  for (int a : plan_->plan->written_args) {
    if (!args_[a].IsTensor()) continue;
    // The bounds of its present memory: a resize may have moved it.
    const Tensor& t = args_[a].tensor();
    char* low = reinterpret_cast<char*>(extents_[a].low);
    char* high = reinterpret_cast<char*>(extents_[a].high);
    if (low == high) continue;
    if (low < t.storage()->data() || high > t.storage()->data() + t.storage()->bytes()) return remembered_.clear();
    add(low, static_cast<size_t>(high - low));
  }
  for (int s : plan_->plan->written_states) add(storages_[s]->data(), static_cast<size_t>(storages_[s]->bytes()));
  if (bytes > kMostRemembered) return remembered_.clear();
  if (remembered_bytes_.size() < bytes) remembered_bytes_.resize(bytes);
  for (const Remembered& r : remembered_) std::copy_n(r.at, r.bytes, remembered_bytes_.data() + r.from);
}

void Executor::PutBack() {
  for (const Remembered& r : remembered_) std::copy_n(remembered_bytes_.data() + r.from, r.bytes, r.at);
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
    return RunEager(static_cast<int>(i), args, outputs);
  }
  return absl::UnimplementedError(why.message());
}

void Executor::Release() {
  for (auto& s : storage_) s.reset();
  args_ = {};
  copied_args_.clear();
}

std::string Executor::SlotName(int slot) const {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  if (s.kind == fb::SlotKind::ArgStorage)
    return absl::StrCat("argument \"", ArgName(plan_->outer_of_inner[s.index]), "\"");
  return absl::StrCat("slot ", slot);
}

absl::Status Executor::ReserveArena(int64_t bytes) {
  if (guard_ != GuardPages::kNone) {
    guarded_.assign(plan_->plan->slots.size(), nullptr);
    for (size_t s = 0; s < guarded_.size(); ++s) {
      if (plan_->plan->slots[s]->kind != fb::SlotKind::Arena) continue;
      SMELT_ASSIGN_OR_RETURN(guarded_[s], GuardedStorage(bound_->slot_bytes[s], guard_));
    }
    ++arena_generation_;
    return absl::OkStatus();
  }
  if (arena_ != nullptr && arena_->bytes() >= bytes) return absl::OkStatus();
  arena_.reset();
  // Vectors that end beyond the last element do not leave the arena.
  arena_ = Storage::Allocate(bytes + 64);
  ++arena_generation_;
  return absl::OkStatus();
}

absl::Status Executor::SetAddresses(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  const fb::PlanT& p = *plan_->plan;
  BoundPlan& b = *bound_;
  const size_t num_slots = p.slots.size();
  base_.assign(num_slots, nullptr);
  origin_.assign(num_slots, 0);
  storage_.resize(num_slots);
  adopted_.assign(outputs->size(), 0);
  SMELT_RETURN_IF_ERROR(ReserveArena(b.arena_bytes));
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
    storage_[s] = t.storage();
    origin_[s] = slot.whole_storage ? 0 : t.offset() * ItemSize(t.dtype());
    int64_t bytes = t.storage()->bytes();
    if (const int64_t more = grown(slot.index); more > bytes) {
      bytes = more;
      resizes = true;
    }
    if (b.low[s] != b.high[s] && (b.low[s] < -origin_[s] || b.high[s] > bytes - origin_[s])) {
      return absl::FailedPreconditionError(absl::StrCat(SlotName(s), ": the model reaches bytes ",
                                                        b.low[s] + origin_[s], " to ", b.high[s] + origin_[s],
                                                        " of its storage, which has ", bytes));
    }
    base_[s] = t.storage()->data() + origin_[s];
  }
  for (size_t s = 0; s < num_slots; ++s) {
    const fb::SlotT& slot = *p.slots[s];
    if (slot.kind == fb::SlotKind::StateStorage) {
      SMELT_ASSIGN_OR_RETURN(base_[s], PlaceOf(slot.index, b.low[s], b.high[s]));
      origin_[s] = places_[slot.index].shift;
    }
    if (slot.kind == fb::SlotKind::Arena) {
      base_[s] = guard_ == GuardPages::kNone ? arena_->data() + b.values.value[slot.offset] : guarded_[s]->data();
    }
  }
  SMELT_RETURN_IF_ERROR(CheckCall());
  // Results that the caller gives must fit before anything runs.
  for (size_t k = 0; k < outputs->size(); ++k) {
    if (!(*outputs)[k].IsTensor()) continue;
    const fb::OutputRefT& o = *p.convention->outputs->outputs[k];
    const Tensor& t = (*outputs)[k].tensor();
    if (!t.defined() || !t.InBounds() || o.view < 0) {
      if (o.kind == fb::OutputKind::IsArg || o.kind == fb::OutputKind::IsState) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("output ", k, ": the memory given for it is no tensor in its bounds"));
    }
    const BoundView& v = b.views[o.view];
    if (plan_->view_late[o.view]) continue;
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
    if (p.slots[s]->kind != fb::SlotKind::Fresh || plan_->slot_late[s]) continue;
    const int output = plan_->output_of_slot[s];
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
    Storage& storage = *storages_[g.storage];
    if (bytes <= storage.bytes()) continue;
    ++arena_generation_;  // for the words of other plans
    SMELT_RETURN_IF_ERROR(grow(storage, bytes));
    for (size_t s = 0; s < num_slots; ++s) {
      if (p.slots[s]->kind == fb::SlotKind::StateStorage && p.slots[s]->index == g.storage) base_[s] = storage.data();
    }
  }
  if (resizes) {
    for (const auto& m : p.convention->mutated->inputs) {
      if (m->is_state || !(m->flags & static_cast<int>(fb::MutationKind::Resized))) continue;
      const Tensor& t = args[plan_->outer_of_inner[m->arg]].tensor();
      SMELT_RETURN_IF_ERROR(grow(*t.storage(), b.values.value[m->final_bytes]));
    }
    for (int s : b.call_slots) {
      if (p.slots[s]->kind == fb::SlotKind::ArgStorage) base_[s] = storage_[s]->data() + origin_[s];
    }
  }

  // Writes the addresses into the words.
  const auto patch = [&](int s) {
    if (b.patched[s] == base_[s]) return;
    for (const BoundPlan::Patch& w : b.patches[s]) {
      b.words[w.word] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(base_[s])) + w.offset;
    }
    b.patched[s] = base_[s];
  };
  for (int s : b.call_slots) {
    if (!plan_->slot_late[s]) patch(s);
  }
  if (b.arena_generation != arena_generation_) {
    for (size_t s = 0; s < num_slots; ++s) {
      if (p.slots[s]->kind == fb::SlotKind::Arena || p.slots[s]->kind == fb::SlotKind::StateStorage)
        patch(static_cast<int>(s));
    }
    b.arena_generation = arena_generation_;
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
    SMELT_RETURN_IF_ERROR(StateError(RunCheck(c), c.source));
  }
  return absl::OkStatus();
}

bool Executor::Adopt(int output, const Tensor& t, absl::Span<const Datum> args) {
  const fb::OutputRefT& o = *plan_->plan->convention->outputs->outputs[output];
  if (plan_->view_late[o.view]) return false;
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
  const uintptr_t low = reinterpret_cast<uintptr_t>(t.storage()->data() + at),
                  high = low + static_cast<uintptr_t>(bytes);
  for (const Extent& e : extents_) {
    if (e.tensor && e.low < high && low < e.high) return false;
  }
  for (const auto& s : storages_) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(s->data());
    if (from < high && low < from + static_cast<uintptr_t>(s->bytes())) return false;
  }
  for (const auto& s : storage_) {  // of another result given by the caller
    if (s != nullptr && s == t.storage()) return false;
  }
  base_[view.slot] = t.storage()->data() + at;
  origin_[view.slot] = at;
  storage_[view.slot] = t.storage();
  adopted_[output] = 1;
  return true;
}

absl::Status Executor::Allocate(int slot) {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  SMELT_ASSIGN_OR_RETURN(const int64_t bytes, ExprValue(s.bytes));
  if (bytes < 0) return absl::InternalError(absl::StrCat("slot ", slot, " has ", bytes, " bytes"));
  storage_[slot].reset();  // of an earlier trip through a loop
  SMELT_ASSIGN_OR_RETURN(storage_[slot], allocator_.Allocate(bytes));
  base_[slot] = storage_[slot]->data();
  origin_[slot] = 0;
  bound_->slot_bytes[slot] = bytes;
  return absl::OkStatus();
}

std::shared_ptr<Storage> Executor::StorageOf(int slot) const {
  const fb::SlotT& s = *plan_->plan->slots[slot];
  if (s.kind == fb::SlotKind::StateStorage) return storages_[s.index];
  return storage_[slot];
}

absl::StatusOr<Tensor> Executor::TensorOf(int v) {
  SMELT_RETURN_IF_ERROR(UseView(v));
  const fb::ViewT& view = *plan_->plan->views[v];
  Geometry g = GeometryOf(v);
  const int64_t item = ItemSize(static_cast<DType>(view.dtype));
  if (origin_[view.slot] % item != 0) {
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
      *out = states_[o.index];
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
      changes.push_back(
          {m->is_state ? states_[m->arg] : args[plan_->outer_of_inner[m->arg]].tensor(), now, now.geometry()});
      changes_states = changes_states || m->is_state;
    }
  }
  for (size_t k = 0; k < outputs->size(); ++k) {
    if (adopted_[k]) continue;
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
      if (from.data() == to.data() && from.strides() == to.strides()) continue;
      // If the source lies in an argument, it may overlap the destination.
      const Tensor source = from.storage() == to.storage() ? from.Clone() : from;
      CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(source.data()),
                  source.strides(), source.sizes(), ItemSize(to.dtype()), pool_, width_);
    } else {
      SMELT_RETURN_IF_ERROR(Build(*c.outputs->outputs[k], args, &out));
      if (!result_layouts_.empty()) SMELT_RETURN_IF_ERROR(MoveToLayout(result_layouts_[k], &out));
    }
  }
  // A later error does not undo the changes from here on, but names them.
  if (!changes.empty()) {
    written_visibly_ = true;
    remembered_.clear();
  }
  state_geometry_changed_ = state_geometry_changed_ || changes_states;
  for (Change& change : changes) {
    Tensor& handle = change.handle;
    if (handle.storage() != change.now.storage()) handle.SetStorage(change.now.storage());
    handle.SetDType(change.now.dtype());
    handle.SetGeometry(std::move(change.geometry));
  }
  return state_geometry_changed_ ? AdoptReplacedStates() : absl::OkStatus();
}

}  // namespace smelt
