// Tensors of the executor of random programs, as positions in a storage, and the views that PyTorch's operators make.
#ifndef SMELT_ALIAS_RUN_VIEWS_H_
#define SMELT_ALIAS_RUN_VIEWS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace smelt {

struct Bytes {
  std::vector<int64_t> data;
};

struct Handle {
  std::shared_ptr<Bytes> storage;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  // Returns every position that it reaches, in order of its indices.
  absl::InlinedVector<int64_t, 16> Places() const;
  bool IsDense() const;
};

// An argument of an operator besides tensors: an int, None or a list of ints.
struct ViewArgument {
  std::optional<int64_t> number;
  std::vector<int64_t> numbers;
  int64_t Or(int64_t none) const { return number.value_or(none); }
};

// Returns the view that aten::`op` makes of x; `arguments` are those after x. nullopt for an aten::reshape that copies.
std::optional<Handle> MakeView(const std::string& op, const Handle& x, const std::vector<ViewArgument>& arguments);

// Returns the views that aten::chunk, split or unbind makes.
std::optional<std::vector<Handle>> MakePieces(const std::string& op, const Handle& x,
                                              const std::vector<ViewArgument>& arguments);

bool IsView(const std::string& op);
bool IsPieces(const std::string& op);

// Returns `sizes` with a -1 among them replaced by the rest of `count`.
std::optional<std::vector<int64_t>> InferSizes(std::vector<int64_t> sizes, int64_t count);

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& sizes);

}  // namespace smelt

#endif  // SMELT_ALIAS_RUN_VIEWS_H_
