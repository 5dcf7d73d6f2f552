#include "smelt/runtime/state_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/region.h"
#include "smelt/runtime/argument_strides.h"

namespace smelt {
namespace {

bool ShareBytes(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() &&
         OverlapsConcrete(a.geometry(), ItemSize(a.dtype()), b.geometry(), ItemSize(b.dtype())) != Overlap::kDisjoint;
}

bool HasStrides(const Tensor& t, absl::Span<const int64_t> strides) {
  if (t.NumElements() == 0) return true;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.sizes()[d] > 1 && t.strides()[d] != strides[d]) return false;
  }
  return true;
}

}  // namespace

StateStore::StateStore(const Executable& program, GuardPages guard, const ExecutionDevice* device,
                       OutputAllocator* allocator)
    : program_(program), bundle_(program.bundle()), guard_(guard), device_(device), allocator_(allocator) {}

absl::Status StateStore::Init() {
  for (size_t i = 0; i < bundle_.storages.size(); ++i) {
    const fb::StateStorageT& s = *bundle_.storages[i];
    if (s.bytes == 0) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> empty, device_->NewStorage(0));
      storages_.push_back(std::move(empty));
    } else if (!device_->is_host() && s.is_mutated) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, device_->NewStorage(s.bytes));
      SMELT_RETURN_IF_ERROR(device_->FromHost(copy->address(), program_.StateBytes(static_cast<int>(i)), s.bytes));
      storages_.push_back(std::move(copy));
    } else if (!device_->is_host()) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> shared, program_.StateOnDevice(static_cast<int>(i)));
      storages_.push_back(std::move(shared));
    } else if (guard_ != GuardPages::kNone) {
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> copy, GuardedStorage(s.bytes, guard_));
      std::memcpy(copy->data(), program_.StateBytes(static_cast<int>(i)), static_cast<size_t>(s.bytes));
      storages_.push_back(std::move(copy));
    } else if (s.is_mutated) {
      SMELT_ASSIGN_OR_RETURN(Container::WritableCopy copy,
                             program_.container().MapWritable(s.segment, s.segment_offset, s.bytes));
      storages_.push_back(Storage::Adopt(copy.data, s.bytes, copy.owner));
    } else {
      char* data = const_cast<char*>(program_.StateBytes(static_cast<int>(i)));
      storages_.push_back(
          Storage::Adopt(data, s.bytes, std::const_pointer_cast<Container>(program_.shared_container())));
    }
  }
  for (const auto& s : bundle_.states) {
    tensors_.emplace_back(storages_[s->storage], static_cast<DType>(s->dtype),
                          Geometry{s->sizes, s->strides, s->offset});
  }
  places_.resize(storages_.size());
  copies_.resize(storages_.size());
  return absl::OkStatus();
}

Geometry StateStore::ExportedGeometry(int state) const {
  const fb::StateTensorT& s = *bundle_.states[state];
  return {s.sizes, s.strides, s.offset};
}

bool StateStore::HasItsSizes(size_t i) const {
  const fb::StateTensorT& s = *bundle_.states[i];
  return tensors_[i].dtype() == static_cast<DType>(s.dtype) && tensors_[i].sizes() == absl::MakeConstSpan(s.sizes);
}

bool StateStore::IsLaidOutAsExported(size_t i) const {
  const fb::StateTensorT& s = *bundle_.states[i];
  const Tensor& t = tensors_[i];
  return t.storage() == storages_[s.storage] && HasItsSizes(i) && t.strides() == absl::MakeConstSpan(s.strides) &&
         (t.offset() - s.offset) * ItemSize(t.dtype()) == places_[s.storage].shift;
}

bool StateStore::FindPlace(int state, StatePlace* place) const {
  const fb::StateTensorT& s = *bundle_.states[state];
  const Tensor& t = tensors_[state];
  if (!HasItsSizes(state) || !t.InBounds()) return false;
  for (size_t k = 0; k < storages_.size(); ++k) {
    // A state that is exported as another's may be a parameter that no call writes.
    if (static_cast<int>(k) != s.storage && storages_[k] == t.storage() && !places_[k].replaced) return false;
  }
  for (size_t k = 0; k < tensors_.size(); ++k) {
    if (static_cast<int>(k) == state) continue;
    if (bundle_.states[k]->storage == s.storage || ShareBytes(tensors_[k], t)) return false;
  }
  const Geometry exported = ExportedGeometry(state);
  const int64_t item = ItemSize(t.dtype()), bytes = bundle_.storages[s.storage]->bytes;
  const auto [low, high] = exported.Span();
  place->state = state;
  place->replaced = places_[s.storage].replaced || t.storage() != storages_[s.storage];
  place->other_strides = !HasStrides(t, exported.strides);
  place->shift = (t.offset() - exported.offset) * item;
  // The memory around it in its storage is not the memory that lay there at export.
  place->elsewhere = place->other_strides || place->shift != 0 || t.storage()->bytes() < bytes ||
                     (place->replaced && (high - low) * item != bytes);
  return true;
}

// Takes the memory of a state that is alone in its storage, or the storage of several.
absl::Status StateStore::TakeContents(absl::Span<const int> states) {
  const std::shared_ptr<Storage> from = tensors_[states[0]].storage();
  if (states.size() == 1 && HasItsSizes(states[0])) {
    Tensor& state = tensors_[states[0]];
    const Geometry as_exported = ExportedGeometry(states[0]);
    Geometry geometry = as_exported;
    SMELT_ASSIGN_OR_RETURN(auto made,
                           allocator_->Allocate(bundle_.storages[bundle_.states[states[0]]->storage]->bytes));
    SMELT_RETURN_IF_ERROR(device_->Zero(made->address(), made->bytes()));
    SMELT_RETURN_IF_ERROR(device_->CopyStrided(made->address() + as_exported.offset * ItemSize(state.dtype()),
                                               as_exported.strides, state.address(), state.strides(), state.sizes(),
                                               ItemSize(state.dtype())));
    state.SetStorage(std::move(made));
    state.SetGeometry(std::move(geometry));
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(auto made, allocator_->Allocate(from->bytes()));
  SMELT_RETURN_IF_ERROR(device_->Copy(made->address(), from->address(), from->bytes()));
  for (int i : states) tensors_[i].SetStorage(made);
  return absl::OkStatus();
}

absl::Status StateStore::TakeBorrowedContents() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const std::shared_ptr<Storage> borrowed = tensors_[i].storage();
    if (IsLaidOutAsExported(i) || borrowed->bytes() == 0 || !borrowed->is_borrowed()) continue;
    std::vector<int> together;
    for (size_t k = i; k < tensors_.size(); ++k) {
      if (tensors_[k].storage() == borrowed) together.push_back(static_cast<int>(k));
    }
    SMELT_RETURN_IF_ERROR(TakeContents(together));
  }
  return absl::OkStatus();
}

absl::Status StateStore::AdoptReplaced() {
  std::vector<StatePlace> places = places_;
  std::vector<std::shared_ptr<Storage>> storages = storages_;
  std::vector<int> elsewhere = elsewhere_;
  std::vector<std::pair<std::shared_ptr<Storage>, Geometry>> handles;
  for (const Tensor& t : tensors_) handles.emplace_back(t.storage(), t.geometry());
  absl::Status s = CatchOutOfMemory([&] { return TryToAdoptReplaced(); });
  if (s.ok()) return s;
  places_.swap(places);
  storages_.swap(storages);
  elsewhere_.swap(elsewhere);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].SetStorage(std::move(handles[i].first));
    tensors_[i].SetGeometry(std::move(handles[i].second));
  }
  geometry_changed_ = true;
  ++generation_;
  return s;
}

absl::Status StateStore::AdoptChanged() {
  NoteChangedGeometry();
  return geometry_changed() ? AdoptReplaced() : absl::OkStatus();
}

absl::Status StateStore::TryToAdoptReplaced() {
  SMELT_RETURN_IF_ERROR(TakeBorrowedContents());
  geometry_changed_ = false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (IsLaidOutAsExported(i)) continue;
    const int s = bundle_.states[i]->storage;
    StatePlace place;
    if (!FindPlace(static_cast<int>(i), &place)) {
      geometry_changed_ = true;
      continue;
    }
    places_[s] = place;
    storages_[s] = tensors_[i].storage();
    ++generation_;
  }
  elsewhere_.clear();
  for (size_t s = 0; s < places_.size(); ++s) {
    if (places_[s].elsewhere) elsewhere_.push_back(static_cast<int>(s));
  }
  return absl::OkStatus();
}

absl::Status StateStore::CheckDevice() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].device() == device_->device()) continue;
    return absl::FailedPreconditionError(absl::StrCat("the state \"", bundle_.states[i]->name,
                                                      "\" is in the memory of ", tensors_[i].device().ToString(),
                                                      ", expected ", device_->device().ToString()));
  }
  return absl::OkStatus();
}

absl::Status StateStore::Reset() {
  if (!device_->is_host()) SMELT_RETURN_IF_ERROR(CheckDevice());
  return CatchOutOfMemory([&] { return TryToReset(); });
}

absl::Status StateStore::TryToReset() {
  // Steps that can fail come first: either all states are as in the bundle or none has changed.
  std::vector<std::shared_ptr<Storage>> storages = storages_;
  std::vector<Geometry> geometries;
  for (size_t i = 0; i < tensors_.size(); ++i) geometries.push_back(ExportedGeometry(static_cast<int>(i)));
  for (size_t i = 0; i < storages.size(); ++i) {
    const fb::StateStorageT& s = *bundle_.storages[i];
    if (s.bytes == 0 || !s.is_mutated || !places_[i].replaced) continue;
    SMELT_ASSIGN_OR_RETURN(storages[i], allocator_->Allocate(s.bytes));
  }
  storages_.swap(storages);
  for (size_t i = 0; i < storages_.size(); ++i) {
    const fb::StateStorageT& s = *bundle_.storages[i];
    if (s.bytes == 0 || !s.is_mutated) continue;
    places_[i] = StatePlace();
    SMELT_RETURN_IF_ERROR(storages_[i]->Resize(s.bytes));  // it has had as many
    SMELT_RETURN_IF_ERROR(
        device_->FromHost(storages_[i]->address(), program_.StateBytes(static_cast<int>(i)), s.bytes));
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].SetStorage(storages_[bundle_.states[i]->storage]);
    tensors_[i].SetGeometry(std::move(geometries[i]));
  }
  elsewhere_.clear();
  geometry_changed_ = false;
  ++generation_;
  return absl::OkStatus();
}

void StateStore::NoteChangedGeometry() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!IsLaidOutAsExported(i)) geometry_changed_ = true;
  }
}

absl::Status StateStore::MovedStateError(int state) const {
  const bool cast = tensors_[state].dtype() != static_cast<DType>(bundle_.states[state]->dtype);
  return absl::FailedPreconditionError(
      absl::StrCat("an earlier call gave the state \"", bundle_.states[state]->name, "\" another ",
                   cast ? "dtype" : "geometry", " than it had at export: ",
                   cast ? std::string(Name(tensors_[state].dtype())) : tensors_[state].geometry().ToString()));
}

absl::Status StateStore::CheckGeometry() const {
  for (size_t i = 0; geometry_changed_ && i < tensors_.size(); ++i) {
    if (!IsLaidOutAsExported(i)) return MovedStateError(static_cast<int>(i));
  }
  return absl::OkStatus();
}

bool StateStore::SizesFit(const fb::EagerProgramT& program) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (HasItsSizes(i)) continue;
    const std::vector<int>& resized = program.resized_states;
    if (tensors_[i].dtype() != static_cast<DType>(bundle_.states[i]->dtype) ||
        std::find(resized.begin(), resized.end(), static_cast<int>(i)) == resized.end())
      return false;
  }
  return true;
}

bool StateStore::PlacesFit(const ExecutablePlan& plan, absl::Status* why) const {
  const bool in_order = plan.plan->other_strides != fb::OtherStrides::Copied;
  for (int s : elsewhere_) {
    const StatePlace& place = places_[s];
    if (plan.state_may_move[s] &&
        (!place.other_strides || (plan.state_may_be_copied[s] &&
                                  CopyIsAsGood(tensors_[place.state], bundle_.states[place.state]->strides, in_order))))
      continue;
    *why = MovedStateError(place.state);
    return false;
  }
  // The memory behind a state would be taken for new memory.
  for (const ExecutablePlan::GrownState& g : plan.grown_states) {
    if (!places_[g.storage].elsewhere && storages_[g.storage]->bytes() == bundle_.storages[g.storage]->bytes) continue;
    *why = absl::FailedPreconditionError("a state is resized whose storage an earlier call has changed");
    return false;
  }
  return true;
}

absl::StatusOr<char*> StateStore::PlaceOf(int storage, int64_t low, int64_t high) {
  const StatePlace& place = places_[storage];
  if (!place.elsewhere) return storages_[storage]->address();
  const Tensor& state = tensors_[place.state];
  const Geometry exported = ExportedGeometry(place.state);
  const auto [begin, end] = exported.Span();
  const int64_t item = ItemSize(state.dtype());
  if (low != high && (low < begin * item || high > end * item))
    return absl::AbortedError(MovedStateError(place.state).message());
  if (!place.other_strides) return storages_[storage]->address() + place.shift;
  Tensor& copy = copies_[storage];
  if (!copy.defined()) {
    SMELT_ASSIGN_OR_RETURN(copy, device_->NewTensor(state.dtype(), state.sizes(), exported.strides));
    ++generation_;
  }
  SMELT_RETURN_IF_ERROR(device_->CopyElements(copy, state));
  return copy.address() - exported.offset * item;
}

}  // namespace smelt
