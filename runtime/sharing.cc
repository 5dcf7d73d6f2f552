#include "smelt/runtime/sharing.h"

#include <algorithm>
#include <utility>

#include "smelt/core/tensor/region.h"

namespace smelt {
namespace {

// Returns whether two tensors whose extents meet share a byte. Returns true also if that cannot be decided.
bool ShareBytes(const Tensor& a, const Tensor& b) {
  const int ia = ItemSize(a.dtype()), ib = ItemSize(b.dtype());
  if (a.storage() == b.storage()) {
    return OverlapsConcrete(a.geometry(), ia, b.geometry(), ib) != Overlap::kDisjoint;
  }
  // Both are storages over the caller's memory, so both offsets are counted from one place.
  const char* base = std::min(a.storage()->address(), b.storage()->address());
  const int64_t da = a.storage()->address() - base, db = b.storage()->address() - base;
  if (da % ia != 0 || db % ib != 0) return true;
  Geometry ga = a.geometry(), gb = b.geometry();
  ga.offset += da / ia;
  gb.offset += db / ib;
  return OverlapsConcrete(ga, ia, gb, ib) != Overlap::kDisjoint;
}

}  // namespace

bool SameMemory(const Tensor& a, const Tensor& b) {
  if (a.address() != b.address() || a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.sizes()[d] != b.sizes()[d]) return false;
    if (a.sizes()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  }
  return true;
}

ArgumentSharing::ArgumentSharing(const Executable& program) : program_(program), bundle_(program.bundle()) {
  for (size_t i = 0; i < bundle_.args.size(); ++i) {
    if (bundle_.args[i]->kind == fb::ArgKind::Tensor) by_address_.push_back(static_cast<int>(i));
  }
}

void ArgumentSharing::Relate(absl::Span<const Datum> args, const std::vector<Extent>& extents, int a, int b) {
  if (!program_.arg_matters()[a] && !program_.arg_matters()[b]) return;
  const Tensor &x = args[a].tensor(), &y = args[b].tensor();
  if (a > b) std::swap(a, b);
  if (x.IsSame(y)) {
    arguments_.push_back({a, b, Relation::kSame});
    return;
  }
  const Extent &ex = extents[a], &ey = extents[b];
  if (ex.low >= ey.high || ey.low >= ex.high) return;
  if (SameMemory(x, y)) {
    arguments_.push_back({a, b, Relation::kSameGeometry});
  } else if (ShareBytes(x, y)) {
    arguments_.push_back({a, b, Relation::kOverlap});
  }
}

void ArgumentSharing::Find(absl::Span<const Datum> args, const std::vector<Extent>& extents, const StateStore& states) {
  arguments_.clear();
  with_states_.clear();
  if (!program_.patterns_matter()) return;
  const int n = static_cast<int>(by_address_.size());
  if (n <= 8) {
    for (int i = 0; i < n; ++i) {
      for (int k = i + 1; k < n; ++k) Relate(args, extents, by_address_[i], by_address_[k]);
    }
  } else {
    // Insertion sort: the order of the last call is nearly always this call's.
    for (int i = 1; i < n; ++i) {
      const int x = by_address_[i];
      int k = i;
      for (; k > 0 && extents[by_address_[k - 1]].low > extents[x].low; --k) by_address_[k] = by_address_[k - 1];
      by_address_[k] = x;
    }
    for (int i = 0; i < n; ++i) {
      const Extent& e = extents[by_address_[i]];
      for (int k = i + 1; k < n; ++k) {
        const Extent& f = extents[by_address_[k]];
        if (f.low >= e.high && f.low != e.low) break;
        Relate(args, extents, by_address_[i], by_address_[k]);
      }
    }
  }
  for (size_t s = 0; s < states.storages().size(); ++s) {
    if (!(bundle_.storages[s]->is_mutated || states.place(static_cast<int>(s)).replaced) ||
        states.storages()[s]->bytes() == 0)
      continue;
    const uintptr_t low = reinterpret_cast<uintptr_t>(states.storages()[s]->address());
    const uintptr_t high = low + static_cast<uintptr_t>(states.storages()[s]->bytes());
    for (int a : by_address_) {
      if (extents[a].low >= high || extents[a].high <= low) continue;
      if (!program_.arg_matters()[a] && !program_.state_matters()[s]) continue;
      for (const Tensor& state : states.tensors()) {
        if (state.storage() == states.storages()[s] && ShareBytes(args[a].tensor(), state)) {
          with_states_.push_back({a, static_cast<int>(s)});
          break;
        }
      }
    }
  }
}

}  // namespace smelt
