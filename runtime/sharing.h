// Finds which arguments of a call share memory with each other and with the states. Internal.
#ifndef SMELT_RUNTIME_SHARING_H_
#define SMELT_RUNTIME_SHARING_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/state_store.h"
#include "smelt/runtime/value.h"

namespace smelt {

class ArgumentSharing {
 public:
  enum class Relation : uint8_t { kSame, kSameGeometry, kOverlap };
  struct Pair {
    int a, b;
    Relation relation;
  };
  struct WithState {
    int arg, storage;
  };

  explicit ArgumentSharing(const Executable& program);

  // Finds what matters to some plan of the program. O(n log n) in the arguments if they are where they were in the last
  // call.
  void Find(absl::Span<const Datum> args, const std::vector<Extent>& extents, const StateStore& states);

  const std::vector<Pair>& arguments() const { return arguments_; }
  const std::vector<WithState>& with_states() const { return with_states_; }
  const std::vector<int>& tensors() const { return by_address_; }  // the arguments that are tensors

 private:
  void Relate(absl::Span<const Datum> args, const std::vector<Extent>& extents, int a, int b);

  const Executable& program_;
  const fb::BundleT& bundle_;
  std::vector<int> by_address_;  // tensor arguments, nearly sorted from the last call
  std::vector<Pair> arguments_;
  std::vector<WithState> with_states_;
};

// Returns whether two tensors have the same elements at the same places.
bool SameMemory(const Tensor& a, const Tensor& b);

}  // namespace smelt

#endif  // SMELT_RUNTIME_SHARING_H_
