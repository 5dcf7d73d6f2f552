// Storages that stand on another device for a while: those of a call in eager order, which the host computes, and the
// operands of the kernels that it calls. Internal.
//
//   Relocation to_host(*device, Relocation::Direction::kToHost);
//   for (const Datum& arg : args) to_host.Add(arg.tensor().storage(), /*writable=*/true);
//   SMELT_RETURN_IF_ERROR(to_host.Move());
//   ... the storages, and all tensors over them, are on the host ...
//   SMELT_RETURN_IF_ERROR(to_host.MoveBack());
//
// Storages that share bytes share them there too.
#ifndef SMELT_RUNTIME_DEVICE_RELOCATION_H_
#define SMELT_RUNTIME_DEVICE_RELOCATION_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/device/device.h"

namespace smelt {

class Relocation {
 public:
  enum class Direction { kToHost, kToDevice };
  Relocation(const ExecutionDevice& device, Direction direction) : device_(device), direction_(direction) {}
  ~Relocation() { MoveBack().IgnoreError(); }
  Relocation(const Relocation&) = delete;

  // The contents of a storage that is not writable are not copied back. A storage may be added twice.
  void Add(std::shared_ptr<Storage> storage, bool writable);
  // Adds a storage whose contents the host has at `bytes`, and which nothing writes.
  void AddConstant(std::shared_ptr<Storage> storage, const char* bytes);
  // Moves all storages. On failure none has moved.
  absl::Status Move();
  // Moves all storages back to their memory, or to new memory if they have grown. On failure they are back, too, but
  // their contents are undefined.
  absl::Status MoveBack();

 private:
  struct Moved {
    std::shared_ptr<Storage> storage;
    bool writable = false;
    const char* constant = nullptr;
    int group = -1;
    Storage::Memory home;
    char* there = nullptr;
  };
  // Storages whose bytes meet.
  struct Group {
    char* low = nullptr;
    char* high = nullptr;
    bool writable = false;
    std::shared_ptr<Storage> there;
  };

  bool to_host() const { return direction_ == Direction::kToHost; }
  absl::Status MakeGroups();

  const ExecutionDevice& device_;
  Direction direction_;
  std::vector<Moved> storages_;
  std::vector<Group> groups_;
  bool moved_ = false;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_DEVICE_RELOCATION_H_
