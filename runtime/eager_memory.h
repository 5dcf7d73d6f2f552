// The memory that a call in eager order changes: every write goes through here, so that a call that fails can be
// undone. Internal.
//
//   EagerMemory memory(...);
//   memory.AddVisible(argument.storage());
//   if (absl::Status s = memory.Write(to, value); !s.ok()) memory.Undo();
//
// A storage that the caller sees is copied before the first write to it, and a handle before it changes. Storages that
// the program made itself are written without a copy.
#ifndef SMELT_RUNTIME_EAGER_MEMORY_H_
#define SMELT_RUNTIME_EAGER_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/thread_pool.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// The storages of the states, as far as a program in eager order needs them.
struct EagerStorages {
  const fb::BundleT* bundle;
  const std::vector<std::shared_ptr<Storage>>* storages;
  uint64_t* generation;  // changes when the memory of a state may have moved
};

class EagerMemory {
 public:
  EagerMemory(EagerStorages states, ThreadPool* pool, int width);

  // The caller sees this storage after the call.
  void AddVisible(std::shared_ptr<Storage> storage) { visible_.push_back(std::move(storage)); }
  // Called before the first change of a storage, or of a handle.
  void Remember(const std::shared_ptr<Storage>& storage);
  void Remember(const Tensor& handle);
  // Takes all changes back: PyTorch refuses, or memory is short. Takes no memory.
  void Undo();

  // Copies element by element; the source may overlap the destination in any way. Remembers nothing.
  void CopyElements(const Tensor& to, const Tensor& from) const;
  // Returns an error for memory that PyTorch refuses to write, and for a state that the model does not write itself. If
  // `uniform`, one value is written, and several elements may share a place.
  absl::Status CheckWritable(const Tensor& t, bool uniform = false) const;
  // Writes a value of the same dtype, which is broadcast.
  absl::Status Write(const Tensor& to, const Tensor& value, bool uniform = false);
  // Writes one value to some elements of expanded memory.
  absl::Status WriteWhatChanged(const Tensor& to, const Tensor& value);
  // Gives a tensor a dense geometry, wherever it begins. Its storage grows if necessary.
  absl::Status Resize(Tensor t, Geometry g);

 private:
  // The contents of a storage, and the place of a handle, before the call.
  struct Contents {
    std::shared_ptr<Storage> storage;
    std::string bytes;
  };
  struct Handle {
    Tensor handle;
    std::shared_ptr<Storage> storage;
    Geometry geometry;
  };

  EagerStorages states_;
  ThreadPool* pool_;
  int width_;
  std::vector<std::shared_ptr<Storage>> visible_;
  std::vector<Contents> contents_;
  std::vector<Handle> handles_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_MEMORY_H_
