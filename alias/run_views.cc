#include "smelt/alias/run_views.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "smelt/core/op/ops.h"

namespace smelt {

absl::InlinedVector<int64_t, 16> Handle::Places() const {
  size_t count = 1;
  for (int64_t size : sizes) count *= static_cast<size_t>(std::max<int64_t>(size, 0));
  absl::InlinedVector<int64_t, 16> places(count);
  if (count == 0) return places;
  // From the last dim outwards: what is there is repeated for each further index.
  places[0] = offset;
  size_t made = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    for (size_t i = made; i < made * static_cast<size_t>(sizes[d]); ++i) places[i] = places[i - made] + strides[d];
    made *= static_cast<size_t>(sizes[d]);
  }
  return places;
}

bool Handle::IsDense() const {
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != stride) return false;
    stride *= sizes[d];
  }
  return true;
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

std::optional<std::vector<int64_t>> InferSizes(std::vector<int64_t> sizes, int64_t count) {
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& size : sizes) {
    if (size < -1 || (size == -1 && unknown != nullptr)) return std::nullopt;
    if (size == -1) {
      unknown = &size;
    } else {
      known *= size;
    }
  }
  if (unknown != nullptr) {
    if (known == 0 || count % known != 0) return std::nullopt;
    *unknown = count / known;
    known *= *unknown;
  }
  if (known != count) return std::nullopt;
  return sizes;
}

namespace {

using Arguments = std::vector<ViewArgument>;

// 0 to end - 1; a negative one counts from the end.
std::optional<int64_t> Wrap(int64_t i, int64_t end) {
  if (i < 0) i += end;
  if (i < 0 || i >= end) return std::nullopt;
  return i;
}

void Erase(Handle* h, int64_t d) {
  h->sizes.erase(h->sizes.begin() + d);
  h->strides.erase(h->strides.begin() + d);
}

void Insert(Handle* h, int64_t d, int64_t size, int64_t stride) {
  h->sizes.insert(h->sizes.begin() + d, size);
  h->strides.insert(h->strides.begin() + d, stride);
}

std::optional<Handle> Permute(const Handle& x, const std::vector<int64_t>& dims) {
  if (dims.size() != x.sizes.size()) return std::nullopt;
  Handle out = x;
  std::vector<bool> seen(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::optional<int64_t> d = Wrap(dims[i], x.rank());
    if (!d || seen[*d]) return std::nullopt;
    seen[*d] = true;
    out.sizes[i] = x.sizes[*d];
    out.strides[i] = x.strides[*d];
  }
  return out;
}

std::optional<Handle> Detach(const Handle& x, const Arguments&) { return x; }

std::optional<Handle> Select(const Handle& x, const Arguments& a) {
  const std::optional<int64_t> d = Wrap(a[0].Or(0), x.rank());
  if (!d) return std::nullopt;
  const std::optional<int64_t> i = Wrap(a[1].Or(0), x.sizes[*d]);
  if (!i) return std::nullopt;
  Handle out = x;
  out.offset += *i * x.strides[*d];
  Erase(&out, *d);
  return out;
}

std::optional<Handle> Cut(const Handle& x, int64_t d, int64_t start, int64_t end, int64_t step) {
  Handle out = x;
  out.offset += start * x.strides[d];
  out.sizes[d] = (end - start + step - 1) / step;
  out.strides[d] *= step;
  return out;
}

std::optional<Handle> Slice(const Handle& x, const Arguments& a) {
  const std::optional<int64_t> d = Wrap(a[0].Or(0), x.rank());
  const int64_t step = a[3].Or(1);
  if (!d || step <= 0) return std::nullopt;
  const int64_t size = x.sizes[*d];
  int64_t start = a[1].Or(0), end = a[2].Or(INT64_MAX);
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp<int64_t>(start, 0, size);
  return Cut(x, *d, start, std::clamp<int64_t>(end, start, size), step);
}

std::optional<Handle> Narrow(const Handle& x, const Arguments& a) {
  const std::optional<int64_t> d = Wrap(a[0].Or(0), x.rank());
  if (!d) return std::nullopt;
  const int64_t size = x.sizes[*d], length = a[2].Or(0);
  int64_t start = a[1].Or(0);
  if (start < 0) start += size;
  if (length < 0 || start < 0 || start > size - length) return std::nullopt;
  return Cut(x, *d, start, start + length, 1);
}

std::optional<Handle> Transpose(const Handle& x, const Arguments& a) {
  if (x.rank() == 0) return Wrap(a[0].Or(0), 1) && Wrap(a[1].Or(0), 1) ? std::optional<Handle>(x) : std::nullopt;
  const std::optional<int64_t> i = Wrap(a[0].Or(0), x.rank()), k = Wrap(a[1].Or(0), x.rank());
  if (!i || !k) return std::nullopt;
  Handle out = x;
  std::swap(out.sizes[*i], out.sizes[*k]);
  std::swap(out.strides[*i], out.strides[*k]);
  return out;
}

std::optional<Handle> T(const Handle& x, const Arguments&) {
  if (x.rank() > 2) return std::nullopt;
  return x.rank() == 2 ? Permute(x, {1, 0}) : x;
}

std::optional<Handle> PermuteDims(const Handle& x, const Arguments& a) { return Permute(x, a[0].numbers); }

std::optional<Handle> MoveDim(const Handle& x, const Arguments& a) {
  const std::optional<int64_t> from = Wrap(a[0].Or(0), x.rank()), to = Wrap(a[1].Or(0), x.rank());
  if (!from || !to) return std::nullopt;
  Handle out = x;
  Erase(&out, *from);
  Insert(&out, *to, x.sizes[*from], x.strides[*from]);
  return out;
}

std::optional<Handle> Unsqueeze(const Handle& x, const Arguments& a) {
  const std::optional<int64_t> d = Wrap(a[0].Or(0), x.rank() + 1);
  constexpr int64_t kMaxRank = 6;
  if (!d || x.rank() >= kMaxRank) return std::nullopt;
  Handle out = x;
  Insert(&out, *d, 1, *d < x.rank() ? x.sizes[*d] * x.strides[*d] : 1);
  return out;
}

std::optional<Handle> Squeeze(const Handle& x, const Arguments& a) {
  Handle out = x;
  if (!a.empty()) {
    const std::optional<int64_t> d = Wrap(a[0].Or(0), std::max<int64_t>(x.rank(), 1));
    if (!d) return std::nullopt;
    if (*d < x.rank() && x.sizes[*d] == 1) Erase(&out, *d);
    return out;
  }
  for (int64_t d = x.rank(); d-- > 0;) {
    if (x.sizes[d] == 1) Erase(&out, d);
  }
  return out;
}

// New dims come first; -1 keeps a size.
std::optional<Handle> Expand(const Handle& x, const Arguments& a) {
  const std::vector<int64_t>& sizes = a[0].numbers;
  const int64_t added = static_cast<int64_t>(sizes.size()) - x.rank();
  if (added < 0) return std::nullopt;
  Handle out = x;
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    if (d < added) {
      if (sizes[d] < 0) return std::nullopt;
      Insert(&out, d, sizes[d], 0);
    } else if (sizes[d] != -1 && sizes[d] != out.sizes[d]) {
      if (out.sizes[d] != 1 || sizes[d] < 0) return std::nullopt;
      out.sizes[d] = sizes[d];
      out.strides[d] = 0;
    }
  }
  return out;
}

std::optional<Handle> Unfold(const Handle& x, const Arguments& a) {
  const int64_t size = a[1].Or(0), step = a[2].Or(0);
  const std::optional<int64_t> d = Wrap(a[0].Or(0), x.rank());
  if (!d || size < 0 || step <= 0 || size > x.sizes[*d]) return std::nullopt;
  Handle out = x;
  out.sizes[*d] = (x.sizes[*d] - size) / step + 1;
  out.strides[*d] *= step;
  Insert(&out, x.rank(), size, x.strides[*d]);
  return out;
}

std::optional<Handle> Diagonal(const Handle& x, const Arguments& a) {
  const int64_t k = a[0].Or(0);
  const std::optional<int64_t> rows = Wrap(a[1].Or(0), x.rank()), columns = Wrap(a[2].Or(1), x.rank());
  if (!rows || !columns || *rows == *columns) return std::nullopt;
  const int64_t down = std::max<int64_t>(-k, 0), right = std::max<int64_t>(k, 0);
  const int64_t length = std::max<int64_t>(0, std::min(x.sizes[*rows] - down, x.sizes[*columns] - right));
  Handle out = x;
  if (length > 0) out.offset += down * x.strides[*rows] + right * x.strides[*columns];
  Erase(&out, std::max(*rows, *columns));
  Erase(&out, std::min(*rows, *columns));
  Insert(&out, out.rank(), length, x.strides[*rows] + x.strides[*columns]);
  return out;
}

// A given offset counts from the start of the storage.
std::optional<Handle> AsStrided(const Handle& x, const Arguments& a) {
  Handle out = x;
  out.sizes = a[0].numbers;
  out.strides = a[1].numbers;
  out.offset = a[2].Or(x.offset);
  const auto negative = [](int64_t i) { return i < 0; };
  if (out.sizes.size() != out.strides.size() || out.offset < 0) return std::nullopt;
  if (std::any_of(out.sizes.begin(), out.sizes.end(), negative)) return std::nullopt;
  if (std::any_of(out.strides.begin(), out.strides.end(), negative)) return std::nullopt;
  for (int64_t p : out.Places()) {
    if (p >= static_cast<int64_t>(x.storage->data.size())) return std::nullopt;
  }
  return out;
}

// The same places in the same order under other sizes: each run of evenly spaced dims is split anew.
std::optional<Handle> View(const Handle& x, const Arguments& a) {
  int64_t count = 1;
  for (int64_t size : x.sizes) count *= size;
  const std::optional<std::vector<int64_t>> sizes = InferSizes(a[0].numbers, count);
  if (!sizes) return std::nullopt;
  Handle out = x;
  out.sizes = *sizes;
  if (count == 0) {
    out.strides = *sizes == x.sizes ? x.strides : DenseStrides(*sizes);
    return out;
  }
  out.strides.assign(sizes->size(), 1);
  size_t left = sizes->size();
  for (size_t end = x.sizes.size(); end > 0;) {
    const int64_t step = x.strides[end - 1];
    int64_t run = 1;
    do {
      run *= x.sizes[--end];
    } while (end > 0 && (x.sizes[end - 1] == 1 || x.strides[end - 1] == run * step));
    int64_t taken = 1;
    while (left > 0 && (taken < run || (*sizes)[left - 1] == 1)) {
      --left;
      out.strides[left] = taken * step;
      taken *= (*sizes)[left];
    }
    if (taken != run) return std::nullopt;
  }
  return out;
}

using Maker = std::optional<Handle> (*)(const Handle&, const Arguments&);
const absl::flat_hash_map<std::string, Maker>& Makers() {
  static const auto* const kMakers = new absl::flat_hash_map<std::string, Maker>({
      {op::kDetach, Detach},
      {op::kSelect, Select},
      {op::kSlice, Slice},
      {op::kNarrow, Narrow},
      {op::kTranspose, Transpose},
      {op::kT, T},
      {op::kMovedim, MoveDim},
      {op::kPermute, PermuteDims},
      {op::kUnsqueeze, Unsqueeze},
      {op::kSqueeze, Squeeze},
      {op::kExpand, Expand},
      {op::kUnfold, Unfold},
      {op::kDiagonal, Diagonal},
      {op::kAsStrided, AsStrided},
      {op::kView, View},
      {op::kReshape, View},
  });
  return *kMakers;
}

}  // namespace

bool IsView(const std::string& op) { return Makers().contains(op); }
bool IsPieces(const std::string& op) { return op == op::kChunk || op == op::kSplit || op == op::kUnbind; }

std::optional<Handle> MakeView(const std::string& op, const Handle& x, const std::vector<ViewArgument>& arguments) {
  return Makers().at(op)(x, arguments);
}

std::optional<std::vector<Handle>> MakePieces(const std::string& op, const Handle& x,
                                              const std::vector<ViewArgument>& arguments) {
  const bool unbind = op == op::kUnbind;
  const std::optional<int64_t> d = Wrap(arguments.back().Or(0), x.rank());
  if (!d) return std::nullopt;
  const int64_t size = x.sizes[*d], asked = unbind ? 1 : arguments[0].Or(0);
  if (asked <= 0 || (size == 0 && !unbind)) return std::nullopt;
  const int64_t piece = op == op::kChunk ? (size + asked - 1) / asked : asked;
  std::vector<Handle> out;
  for (int64_t at = 0; at < size; at += piece) {
    out.push_back(*Cut(x, *d, at, std::min(at + piece, size), 1));
    if (unbind) Erase(&out.back(), *d);
  }
  return out;
}

}  // namespace smelt
