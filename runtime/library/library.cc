#include "smelt/runtime/library/library.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/attention.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/convolution_backward.h"
#include "smelt/runtime/library/detection.h"
#include "smelt/runtime/library/factorization.h"
#include "smelt/runtime/library/fourier.h"
#include "smelt/runtime/library/grouped_matmul.h"
#include "smelt/runtime/library/int4_matmul.h"
#include "smelt/runtime/library/int8_convolution.h"
#include "smelt/runtime/library/int8_matmul.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/orthogonal.h"
#include "smelt/runtime/library/select.h"
#include "smelt/runtime/library/sort.h"

namespace smelt {

namespace {

using library_internal::LibraryEntry;

constexpr LibraryEntry kOps[] = {
    {"attention", library_internal::MakeAttention},
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
    {"grouped_mm", library_internal::MakeGroupedMatmul},
    {"int8_mm", library_internal::MakeInt8Matmul},
    {"int8_convolution", library_internal::MakeInt8Convolution},
    {"row_sums", library_internal::MakeRowSums},
    {"int4_mm", library_internal::MakeInt4Matmul},
};

// Returns null if there is no such operator.
const LibraryEntry* FindOp(absl::string_view name) {
  for (absl::Span<const LibraryEntry> ops : {absl::MakeConstSpan(kOps), library_internal::SortingOps(),
                                             library_internal::SelectionOps(), library_internal::DetectionOps()}) {
    for (const LibraryEntry& e : ops) {
      if (name == e.name) return &e;
    }
  }
  return nullptr;
}

// Sizes from data come and go. Beyond this many bytes the ops that were not used for longest leave the cache.
constexpr int64_t kMostCached = int64_t{64} << 20;

// Returns an estimate of the memory that an op keeps besides packed constants: generated code, and the tables of Fourier
// transforms, which take up to twenty times the memory of the signal. CheckShapes bounds it.
int64_t PreparedBytes(const LibraryRequest& r) {
  constexpr int64_t kCode = 1 << 16, kTables = 20;
  // A product for each group, for a few numbers of rows.
  if (r.op == "grouped_mm") return 4 * kCode * r.inputs[1].sizes[0];
  if (r.op != "fourier") return kCode;
  return kCode + kTables * ItemSize(r.inputs[0].dtype) * r.inputs[0].NumElements();
}

// Shapes may come from a hostile file: beyond these bounds products and addresses could overflow. No operator but one
// has code for float8.
absl::Status CheckShapes(const LibraryRequest& r) {
  constexpr int64_t kMaxSize = int64_t{1} << 31, kMaxElements = int64_t{1} << 42;
  for (const auto* list : {&r.inputs, &r.outputs}) {
    for (const OperandShape& o : *list) {
      if (o.present && IsFloat8(o.dtype) && r.op != "int8_mm")
        return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(o.dtype)));
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
    if (it != cache_.end()) {
      used_.splice(used_.begin(), used_, it->second.used);
      return it->second.op;
    }
  }
  const LibraryEntry* entry = FindOp(request.op);
  if (entry == nullptr)
    return absl::UnimplementedError(absl::StrCat("there is no library operator \"", request.op, "\""));
  SMELT_RETURN_IF_ERROR(CheckShapes(request));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<PreparedOp> made, entry->make(request, &packed_));
  std::shared_ptr<const PreparedOp> op = std::move(made);
  std::list<const LibraryRequest*> used(1);  // whatever may lack memory comes before the first change
  std::lock_guard<std::mutex> lock(mutex_);
  auto [it, fresh] = cache_.try_emplace(request, Cached{op, PreparedBytes(request), used.begin()});
  if (!fresh) return it->second.op;  // another thread was faster
  used.front() = &it->first;
  used_.splice(used_.begin(), used);
  cached_bytes_ += it->second.bytes;
  while (cached_bytes_ > kMostCached && used_.size() > 1) {
    const auto last = cache_.find(*used_.back());
    cached_bytes_ -= last->second.bytes;
    used_.pop_back();
    cache_.erase(last);
  }
  return op;
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

std::string Show(const OperandShape& o) { return absl::StrCat("[", absl::StrJoin(o.sizes, ", "), "]"); }

}  // namespace library_internal
}  // namespace smelt
