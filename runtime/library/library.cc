#include "smelt/runtime/library/library.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

using library_internal::LibraryEntry;

constexpr LibraryEntry kOps[] = {
    {"matmul", library_internal::MakeMatmul},
    {"convolution", library_internal::MakeConvolution},
    {"convolution_backward", library_internal::MakeConvolutionBackward},
    {"fourier", library_internal::MakeFourier},
    {"solve", library_internal::MakeFactorization},
    {"determinant", library_internal::MakeFactorization},
    {"cholesky", library_internal::MakeFactorization},
    {"qr", library_internal::MakeOrthogonal},
    {"svd", library_internal::MakeOrthogonal},
    {"eigh", library_internal::MakeOrthogonal},
};

// Returns null if there is no such operator.
const LibraryEntry* FindOp(absl::string_view name) {
  for (absl::Span<const LibraryEntry> ops :
       {absl::MakeConstSpan(kOps), library_internal::SortingOps(), library_internal::SelectionOps()}) {
    for (const LibraryEntry& e : ops) {
      if (name == e.name) return &e;
    }
  }
  return nullptr;
}

// Sizes from data come and go. Beyond this many entries the cache starts afresh.
constexpr size_t kMaxPrepared = 8192;

// Shapes may come from a hostile file: beyond these bounds products and addresses could overflow.
absl::Status CheckShapes(const LibraryRequest& r) {
  constexpr int64_t kMaxSize = int64_t{1} << 31, kMaxElements = int64_t{1} << 42;
  for (const auto* list : {&r.inputs, &r.outputs}) {
    for (const OperandShape& o : *list) {
      int64_t elements = 1, reach = 0;
      if (o.rank() > 16 || o.sizes.size() != o.strides.size()) {
        return absl::InvalidArgumentError(absl::StrCat(r.op, ": an operand has rank ", o.rank()));
      }
      for (int d = 0; d < o.rank(); ++d) {
        const int64_t size = o.sizes[d], stride = o.strides[d];
        if (size < 0 || size >= kMaxSize || stride <= -kMaxElements || stride >= kMaxElements) {
          return absl::InvalidArgumentError(absl::StrCat(r.op, ": an operand has size ", size, ", stride ", stride));
        }
        int64_t step;
        if (__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements) || elements > kMaxElements ||
            __builtin_mul_overflow(size, std::abs(stride), &step) || __builtin_add_overflow(reach, step, &reach)) {
          return absl::InvalidArgumentError(absl::StrCat(r.op, ": an operand is too large"));
        }
      }
      if (reach > kMaxElements) return absl::InvalidArgumentError(absl::StrCat(r.op, ": an operand reaches too far"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsLibraryOp(absl::string_view op) { return FindOp(op) != nullptr; }

absl::StatusOr<std::shared_ptr<const PreparedOp>> Library::Prepare(const LibraryRequest& request) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = cache_.find(request);
    if (it != cache_.end()) return it->second;
  }
  const LibraryEntry* entry = FindOp(request.op);
  if (entry == nullptr)
    return absl::UnimplementedError(absl::StrCat("there is no library operator \"", request.op, "\""));
  SMELT_RETURN_IF_ERROR(CheckShapes(request));
  int64_t packed = 0;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<PreparedOp> made, entry->make(request, &packed));
  // The map takes over a complete element, because it cannot hold one that throws while it is made.
  std::shared_ptr<const PreparedOp> op = std::move(made);
  LibraryRequest key = request;
  std::lock_guard<std::mutex> lock(mutex_);
  if (cache_.size() >= kMaxPrepared) cache_.clear();
  try {
    auto [it, fresh] = cache_.try_emplace(std::move(key), std::move(op));
    if (fresh) packed_bytes_ += packed;
    return it->second;
  } catch (const std::bad_alloc&) {
    // Once its growth has failed, Abseil's table cannot even be destroyed. It begins afresh, and the process loses
    // what the table held.
    new (&cache_) decltype(cache_)();
    throw;
  }
}

int64_t Library::packed_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return packed_bytes_;
}

namespace library_internal {

absl::Status CheckArity(const LibraryRequest& r, int min_inputs, int max_inputs, int min_outputs, int max_outputs,
                        int ints) {
  const int in = static_cast<int>(r.inputs.size()), out = static_cast<int>(r.outputs.size());
  if (in < min_inputs || in > max_inputs || out < min_outputs || out > max_outputs ||
      (ints >= 0 && static_cast<int>(r.ints.size()) != ints)) {
    return absl::InvalidArgumentError(absl::StrCat(r.op, ": ", in, " inputs, ", out, " outputs, ", r.ints.size(),
                                                   " integers; expected ", min_inputs, " to ", max_inputs, ", ",
                                                   min_outputs, " to ", max_outputs, ", ", ints));
  }
  for (int i = 0; i < min_inputs; ++i) {
    if (!r.inputs[i].present) return absl::InvalidArgumentError(absl::StrCat(r.op, ": input ", i, " is missing"));
  }
  for (int i = 0; i < min_outputs; ++i) {
    if (!r.outputs[i].present) return absl::InvalidArgumentError(absl::StrCat(r.op, ": output ", i, " is missing"));
  }
  return absl::OkStatus();
}

}  // namespace library_internal
}  // namespace smelt
