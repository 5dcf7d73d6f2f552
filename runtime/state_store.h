// The states of an instance: their tensors and storages, and where the plans find a state that a call put elsewhere.
// Internal.
//
//   StateStore states(program, guard, pool, width, &allocator);
//   SMELT_RETURN_IF_ERROR(states.Init());
//   if (states.PlacesFit(plan, &why)) ...        // before a call
//   char* at = *states.PlaceOf(storage, low, high);
//   SMELT_RETURN_IF_ERROR(states.AdoptReplaced());   // after a call that gave states other memory
//
// A state keeps its tensor for the life of the instance; a call may change the tensor's storage and geometry.
#ifndef SMELT_RUNTIME_STATE_STORE_H_
#define SMELT_RUNTIME_STATE_STORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/eager_memory.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/output_allocator.h"

namespace smelt {

// Where the plans find a state that an earlier call put elsewhere (self.h = x[-2:]), by state storage.
struct StatePlace {
  bool replaced = false;       // the storage is another than at the start, which a result may share
  bool elsewhere = false;      // not at its exported place in a storage of its own; the state is then `state`
  bool other_strides = false;  // than at export: read from a copy
  int state = -1;
  int64_t shift = 0;  // the distance in bytes from the storage's first byte to what the plans treat as the first byte
};

class StateStore {
 public:
  // All must outlive this object.
  StateStore(const Executable& program, GuardPages guard, const ExecutionDevice* device, OutputAllocator* allocator);
  absl::Status Init();

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<std::shared_ptr<Storage>>& storages() const { return storages_; }
  const StatePlace& place(int storage) const { return places_[storage]; }
  // Some state is where no compiled plan reads it.
  bool geometry_changed() const { return geometry_changed_; }
  void set_geometry_changed() { geometry_changed_ = true; }
  // Looks for states that a call in eager order has changed.
  void NoteChangedGeometry();
  // Increases when the memory of a state may have moved.
  uint64_t generation() const { return generation_; }
  void NoteMovedMemory() { ++generation_; }
  EagerStorages ForEagerOrder() { return {&bundle_, &storages_, &generation_}; }

  // If a call gave states other memory, the plans use it from now on, unless another state should share it. If only the
  // caller keeps that memory alive, its contents are copied to the state. Changes nothing on failure.
  absl::Status AdoptReplaced();
  // Takes states whose memory or geometry a call in eager order has changed.
  absl::Status AdoptChanged();
  // Gives all states their contents and geometry in the bundle. Changes nothing on failure.
  absl::Status Reset();

  // Returns an error if somebody has moved a state from the device on which the instance runs.
  absl::Status CheckDevice() const;
  // Checks that all states are where the compiled plans can read them. Programs in eager order need only their sizes
  // and dtypes.
  absl::Status CheckGeometry() const;
  // Returns whether the program runs with the sizes that the states have.
  bool SizesFit(const fb::EagerProgramT& program) const;
  // Returns whether the plan can read the states where they are; `why` describes a state that it cannot read.
  bool PlacesFit(const ExecutablePlan& plan, absl::Status* why) const;
  // Returns the address that the plan uses as the first byte of a state's storage; it accesses the bytes [low, high).
  absl::StatusOr<char*> PlaceOf(int storage, int64_t low, int64_t high);

 private:
  absl::Status TryToAdoptReplaced();
  absl::Status TryToReset();
  absl::Status TakeBorrowedContents();
  absl::Status TakeContents(absl::Span<const int> states);
  bool FindPlace(int state, StatePlace* place) const;
  bool IsLaidOutAsExported(size_t state) const;
  bool HasItsSizes(size_t state) const;
  absl::Status MovedStateError(int state) const;
  Geometry ExportedGeometry(int state) const;

  const Executable& program_;
  const fb::BundleT& bundle_;
  GuardPages guard_;
  const ExecutionDevice* device_;
  OutputAllocator* allocator_;
  std::vector<std::shared_ptr<Storage>> storages_;
  std::vector<Tensor> tensors_;
  std::vector<StatePlace> places_;  // by storage
  std::vector<int> elsewhere_;      // storages whose place is `elsewhere`
  std::vector<Tensor> copies_;      // by storage: of states with other strides
  bool geometry_changed_ = false;
  uint64_t generation_ = 0;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_STATE_STORE_H_
