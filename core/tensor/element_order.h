// Decides whether the result of an elementwise write depends on the order in which PyTorch visits the elements: an
// operand partly overlaps the written memory, or the written tensor overlaps itself, and PyTorch computes such a write
// without a temporary. Its order is TensorIterator's. If that order is one element after the other, it can be followed.
#ifndef SMELT_CORE_TENSOR_ELEMENT_ORDER_H_
#define SMELT_CORE_TENSOR_ELEMENT_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// A tensor in memory. Operands that are read are broadcast to the written tensor's sizes.
struct PlacedGeometry {
  Geometry geometry;
  const char* origin = nullptr;  // where offset 0 is
  DType dtype = DType::kUInt8;

  int item() const { return ItemSize(dtype); }  // bytes
};

// The permitted positions of an operand relative to the tensor that an operator writes. PyTorch checks only tensors
// that cover their span without gaps. It computes with all others, in an unspecified order.
enum class OperandSharing {
  kAny,          // all is computed before anything is written
  kNotPartly,    // the same elements, or none; else PyTorch refuses, or computes one element after the other
  kNone,         // PyTorch refuses any overlap that it checks
  kWholeOrNone,  // PyTorch does not check. The same elements, or none; else the result depends on how it computes
  kApart,        // PyTorch does not check, and the result always depends on how it computes
};

inline constexpr char kAnswerHangsOnOrder[] =
    "an operand lies in the written memory, and what PyTorch answers hangs on the order in which it computes";

inline constexpr char kReadsWhatItWrote[] = "an elementwise write that reads what it has written";

enum class OrderEffect {
  kNone,        // as if all operands were read before anything is written
  kSequential,  // one element after the other
  kOpen,        // depends on the machine's vectors or threads, or on a conversion of the dtype
};

struct ElementOrder {
  OrderEffect effect = OrderEffect::kNone;
  std::vector<int> dims;  // innermost first
};

// Returns whether both have the same element at every index.
bool AreSameElements(const PlacedGeometry& a, const PlacedGeometry& b);
// Also returns false if it is not known.
bool AreDisjoint(const PlacedGeometry& a, const PlacedGeometry& b);

ElementOrder OrderOfElements(const PlacedGeometry& written, absl::Span<const PlacedGeometry> read);

// Calls visit(index) for each index of `sizes`, dims[0] fastest, until it returns false.
template <typename Visit>
void VisitInOrder(absl::Span<const int64_t> sizes, absl::Span<const int> dims, Visit visit) {
  for (int64_t n : sizes) {
    if (n == 0) return;
  }
  std::vector<int64_t> index(sizes.size(), 0);
  while (visit(absl::MakeConstSpan(index))) {
    size_t k = 0;
    for (; k < dims.size(); ++k) {
      if (++index[dims[k]] < sizes[dims[k]]) break;
      index[dims[k]] = 0;
    }
    if (k == dims.size()) return;
  }
}

// Returns the offset of one element.
inline int64_t OffsetOf(const Geometry& g, absl::Span<const int64_t> index) {
  int64_t at = g.offset;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * g.strides[d];
  return at;
}

// Writes one value to some elements of expanded memory, which takes it if any of its elements does: `value` holds their
// values as if each had its own memory. Sizes and dtype must be equal.
void CopyWhatChanged(const Tensor& to, const Tensor& value);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_ELEMENT_ORDER_H_
