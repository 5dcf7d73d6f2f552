#include "smelt/core/tensor/element_order.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "smelt/core/tensor/region.h"

namespace smelt {
namespace {

// With more elements PyTorch may use several threads, or copy in blocks of its own.
constexpr int64_t kMostElements = 3000;
// Two vectors of AVX2. A shorter row of adjacent elements is computed one element after the other on every machine.
constexpr int64_t kVectorBytes = 64;

const char* Begin(const PlacedGeometry& p) { return p.origin + p.geometry.offset * p.item(); }

// TensorIteratorBase::reorder_dimensions.
std::vector<int> VisitedDims(absl::Span<const PlacedGeometry> operands) {
  const std::vector<int64_t>& sizes = operands[0].geometry.sizes;
  const int rank = static_cast<int>(sizes.size());
  std::vector<int> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  // Positive if dim a comes after dim b, negative if before, 0 if no operand decides.
  const auto compare = [&](int a, int b) {
    for (const PlacedGeometry& p : operands) {
      const int64_t x = (sizes[a] == 1 ? 0 : p.geometry.strides[a]) * p.item();
      const int64_t y = (sizes[b] == 1 ? 0 : p.geometry.strides[b]) * p.item();
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  for (int i = 1; i < rank; ++i) {
    int at = i;
    for (int k = i - 1; k >= 0; --k) {
      const int c = compare(perm[k], perm[at]);
      if (c < 0) break;
      if (c == 0) continue;
      std::swap(perm[k], perm[at]);
      at = k;
    }
  }
  return perm;
}

// Returns whether the innermost loop uses vectors of elements: all operands are dense along it, except for at most one
// with stride 0.
bool TakesVectors(absl::Span<const PlacedGeometry> operands, absl::Span<const int> dims) {
  const std::vector<int64_t>& sizes = operands[0].geometry.sizes;
  size_t k = 0;
  while (k < dims.size() && sizes[dims[k]] == 1) ++k;
  if (k == dims.size()) return false;
  int still = 0;
  for (const PlacedGeometry& p : operands) {
    const int64_t stride = p.geometry.strides[dims[k]];
    if (stride == 0) ++still;
    if ((stride != 1 && stride != 0) || still > 1) return false;
  }
  int64_t length = sizes[dims[k]];
  for (size_t outer = k + 1; outer < dims.size(); ++outer) {
    if (sizes[dims[outer]] == 1) continue;
    // Joins dims that form one loop.
    const bool joined = std::all_of(operands.begin(), operands.end(), [&](const PlacedGeometry& p) {
      return p.geometry.strides[dims[outer]] == p.geometry.strides[dims[k]] * length;
    });
    if (!joined) break;
    length *= sizes[dims[outer]];
  }
  return length * operands[0].item() >= kVectorBytes;
}

// Returns whether an element is read, or written again, after it has been written.
bool SeesWrites(const PlacedGeometry& written, absl::Span<const PlacedGeometry> read, bool self,
                absl::Span<const int> dims) {
  const auto [low, high] = written.geometry.Span();
  const char* const begin = written.origin + low * written.item();
  std::vector<bool> done((high - low) * written.item(), false);
  bool seen = false;
  const auto touches = [&](const char* at, int item) {
    for (int b = 0; b < item; ++b) {
      const int64_t i = at + b - begin;
      if (i >= 0 && i < static_cast<int64_t>(done.size()) && done[i]) return true;
    }
    return false;
  };
  VisitInOrder(written.geometry.sizes, dims, [&](absl::Span<const int64_t> index) {
    for (const PlacedGeometry& p : read) {
      seen = seen || touches(p.origin + OffsetOf(p.geometry, index) * p.item(), p.item());
    }
    const char* to = written.origin + OffsetOf(written.geometry, index) * written.item();
    seen = seen || (self && touches(to, written.item()));
    for (int b = 0; b < written.item(); ++b) done[to + b - begin] = true;
    return !seen;
  });
  return seen;
}

// Returns whether both traverse the memory upwards with the operand ahead, so that every element is read before it is
// written.
bool ReadsAhead(const PlacedGeometry& written, const PlacedGeometry& read, absl::Span<const int> dims) {
  if (written.item() != read.item() || Begin(read) < Begin(written)) return false;
  int64_t reach = 1;  // of what the dims inside move over
  for (int d : dims) {
    if (written.geometry.sizes[d] == 1) continue;
    const int64_t stride = written.geometry.strides[d];
    if (stride != read.geometry.strides[d] || stride < reach) return false;
    reach = stride * (written.geometry.sizes[d] - 1) + reach;
  }
  return true;
}

// Returns whether the operand may be read before the write. An operand of another dtype may be converted first, or by
// loops that are compiled as if it had its own memory. Some operators read one float16 or bfloat16 element before all
// others.
bool MayBeReadFirst(const PlacedGeometry& written, const PlacedGeometry& read) {
  if (read.dtype != written.dtype) return true;
  if (read.dtype != DType::kFloat16 && read.dtype != DType::kBFloat16) return false;
  for (int d = 0; d < read.geometry.rank(); ++d) {
    if (read.geometry.sizes[d] > 1 && read.geometry.strides[d] != 0) return false;
  }
  return true;
}

}  // namespace

bool AreSameElements(const PlacedGeometry& a, const PlacedGeometry& b) {
  if (Begin(a) != Begin(b) || a.item() != b.item()) return false;
  for (int d = 0; d < a.geometry.rank(); ++d) {
    if (a.geometry.sizes[d] > 1 && a.geometry.strides[d] != b.geometry.strides[d]) return false;
  }
  return true;
}

bool AreDisjoint(const PlacedGeometry& a, const PlacedGeometry& b) {
  const auto [a_low, a_high] = a.geometry.Span();
  const auto [b_low, b_high] = b.geometry.Span();
  if (a.origin + a_high * a.item() <= b.origin + b_low * b.item() ||
      b.origin + b_high * b.item() <= a.origin + a_low * a.item())
    return true;
  const char* const base = std::min(a.origin, b.origin);
  const int64_t a_bytes = a.origin - base, b_bytes = b.origin - base;
  if (a_bytes % a.item() != 0 || b_bytes % b.item() != 0) return false;
  Geometry ga = a.geometry, gb = b.geometry;
  ga.offset += a_bytes / a.item();
  gb.offset += b_bytes / b.item();
  return OverlapsConcrete(ga, a.item(), gb, b.item()) == Overlap::kDisjoint;
}

ElementOrder OrderOfElements(const PlacedGeometry& written, absl::Span<const PlacedGeometry> read) {
  ElementOrder order;
  const int64_t elements = written.geometry.NumElements();
  if (elements <= 1) return order;
  const bool self = OverlapsItselfConcrete(written.geometry);
  std::vector<PlacedGeometry> near, operands = {written};
  for (const PlacedGeometry& p : read) {
    operands.push_back(p);
    if (!AreSameElements(written, p) && !AreDisjoint(written, p)) near.push_back(p);
  }
  if (near.empty() && !self) return order;
  order.dims = VisitedDims(operands);
  if (!self && std::all_of(near.begin(), near.end(),
                           [&](const PlacedGeometry& p) { return ReadsAhead(written, p, order.dims); }))
    return order;
  const auto [low, high] = written.geometry.Span();
  if (elements > kMostElements || high - low > (int64_t{1} << 24)) {
    order.effect = OrderEffect::kOpen;
  } else if (SeesWrites(written, near, self, order.dims)) {
    const bool open =
        TakesVectors(operands, order.dims) ||
        std::any_of(near.begin(), near.end(), [&](const PlacedGeometry& p) { return MayBeReadFirst(written, p); });
    order.effect = open ? OrderEffect::kOpen : OrderEffect::kSequential;
  }
  return order;
}

void CopyWhatChanged(const Tensor& to, const Tensor& value) {
  const Tensor before = to.Clone(), after = value.Clone();
  const int item = ItemSize(to.dtype());
  const char *old = static_cast<const char*>(before.data()), *now = static_cast<const char*>(after.data());
  std::vector<int> last_first(to.rank());
  for (int d = 0; d < to.rank(); ++d) last_first[d] = to.rank() - 1 - d;
  VisitInOrder(to.sizes(), last_first, [&](absl::Span<const int64_t> index) {
    if (std::memcmp(old, now, item) != 0)
      std::memcpy(to.storage()->data() + OffsetOf(to.geometry(), index) * item, now, item);
    old += item;
    now += item;
    return true;
  });
}

}  // namespace smelt
