#include "smelt/runtime/strided.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "smelt/core/base/check.h"
#include "smelt/runtime/library/transpose.h"
#include "smelt/runtime/thread_pool.h"

namespace smelt {
namespace {

constexpr int kMaxDims = 64;
constexpr int64_t kChunkBytes = 256 << 10;

using Dim = StridedDim;

template <int kBytes>
void CopyRow(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  if (ds == kBytes && ss == kBytes) {
    std::memmove(dst, src, static_cast<size_t>(n) * kBytes);
    return;
  }
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * ds, src + i * ss, kBytes);
}

void CopyRow(int item, char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) {
  switch (item) {
    case 1:
      return CopyRow<1>(dst, ds, src, ss, n);
    case 2:
      return CopyRow<2>(dst, ds, src, ss, n);
    case 4:
      return CopyRow<4>(dst, ds, src, ss, n);
    case 8:
      return CopyRow<8>(dst, ds, src, ss, n);
    default:
      return CopyRow<16>(dst, ds, src, ss, n);
  }
}

// Rows [begin, end) of the dims but the last, which is a row.
void CopyRows(const Dim* dims, int rank, int item, char* dst, const char* src, int64_t begin, int64_t end) {
  int64_t index[kMaxDims];
  int64_t rest = begin;
  for (int d = rank - 2; d >= 0; --d) {
    index[d] = rest % dims[d].size;
    rest /= dims[d].size;
    dst += index[d] * dims[d].dst;
    src += index[d] * dims[d].src;
  }
  const Dim& row = dims[rank - 1];
  for (int64_t r = begin; r < end; ++r) {
    CopyRow(item, dst, row.dst, src, row.src, row.size);
    for (int d = rank - 2; d >= 0; --d) {
      dst += dims[d].dst;
      src += dims[d].src;
      if (++index[d] < dims[d].size) break;
      dst -= dims[d].size * dims[d].dst;
      src -= dims[d].size * dims[d].src;
      index[d] = 0;
    }
  }
}

// A matrix is transposed in bands of rows that read and write whole lines, and of so few columns that these lines stay in
// the nearest cache.
constexpr int64_t kBandRows = 16, kBandColumns = 64;
constexpr int64_t kLine = 64;

template <int kBytes>
void CopyBands(const Dim& column, const Dim& row, char* dst, const char* src, int64_t columns) {
  for (int64_t begin = 0; begin < row.size; begin += kBandRows) {
    const int64_t end = std::min(row.size, begin + kBandRows);
    for (int64_t c = 0; c < columns; ++c) {
      char* to = dst + c * column.dst;
      const char* from = src + c * column.src;
      for (int64_t i = begin; i < end; ++i) std::memcpy(to + i * row.dst, from + i * row.src, kBytes);
    }
  }
}

void CopyBands(int item, const Dim& column, const Dim& row, char* dst, const char* src, int64_t columns) {
  if (column.src == item && row.dst == item && (item == 1 || item == 4)) {
    const auto transpose = item == 1 ? TransposeBytes : Transpose4ByteElements;
    return transpose(row.size, columns, src, row.src / item, dst, column.dst / item);
  }
  switch (item) {
    case 1:
      return CopyBands<1>(column, row, dst, src, columns);
    case 2:
      return CopyBands<2>(column, row, dst, src, columns);
    case 4:
      return CopyBands<4>(column, row, dst, src, columns);
    case 8:
      return CopyBands<8>(column, row, dst, src, columns);
    default:
      return CopyBands<16>(column, row, dst, src, columns);
  }
}

// The last two dims are matrices, whose elements lie in the source column after column. Copies the strips [begin, end) of
// kBandColumns columns, of all matrices.
void CopyStrips(const Dim* dims, int rank, int item, char* dst, const char* src, int64_t begin, int64_t end) {
  const Dim &column = dims[rank - 2], &row = dims[rank - 1];
  const int64_t strips = (column.size + kBandColumns - 1) / kBandColumns;
  for (int64_t s = begin; s < end; ++s) {
    const int64_t first = s % strips * kBandColumns;
    char* to = dst + first * column.dst;
    const char* from = src + first * column.src;
    int64_t rest = s / strips;
    for (int d = rank - 3; d >= 0; --d) {
      to += rest % dims[d].size * dims[d].dst;
      from += rest % dims[d].size * dims[d].src;
      rest /= dims[d].size;
    }
    CopyBands(item, column, row, to, from, std::min(kBandColumns, column.size - first));
  }
}

// Returns the dim along which the source's elements lie nearest to each other, if rows would read lines for one element
// each; else -1.
int ColumnDim(const Dim* dims, int rank) {
  const int64_t along = std::abs(dims[rank - 1].src);
  if (along < kLine) return -1;
  int nearest = -1;
  for (int d = 0; d < rank - 1; ++d) {
    if (std::abs(dims[d].src) < std::abs(nearest < 0 ? along : dims[nearest].src)) nearest = d;
  }
  return nearest;
}

}  // namespace

int MergeDims(absl::Span<StridedDim> dims) {
  int merged = 0;
  for (const StridedDim& d : dims) {
    if (merged > 0 && dims[merged - 1].dst == d.size * d.dst && dims[merged - 1].src == d.size * d.src) {
      dims[merged - 1] = {dims[merged - 1].size * d.size, d.dst, d.src};
    } else {
      dims[merged++] = d;
    }
  }
  return merged;
}

std::vector<StridedDim> MergedDims(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dst_strides,
                                   absl::Span<const int64_t> src_strides, int64_t item_bytes) {
  std::vector<StridedDim> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) dims.push_back({sizes[d], dst_strides[d] * item_bytes, src_strides[d] * item_bytes});
  }
  dims.resize(static_cast<size_t>(MergeDims(absl::MakeSpan(dims))));
  return dims;
}

void CopyStrided(char* dst, absl::Span<const int64_t> dst_strides, const char* src,
                 absl::Span<const int64_t> src_strides, absl::Span<const int64_t> sizes, int item_bytes,
                 ThreadPool* pool, int width) {
  SMELT_CHECK_LE(sizes.size(), kMaxDims);
  Dim dims[kMaxDims + 1];
  int rank = 0;
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    elements *= sizes[d];
    if (sizes[d] == 1) continue;
    dims[rank++] = {sizes[d], dst_strides[d] * item_bytes, src_strides[d] * item_bytes};
  }
  if (elements == 0) return;
  // Follows the destination's order, with its innermost dim last, and then merges dims that are contiguous in both.
  // Insertion sort, because std::stable_sort allocates.
  for (int i = 1; i < rank; ++i) {
    const Dim dim = dims[i];
    int k = i;
    for (; k > 0 && std::abs(dims[k - 1].dst) < std::abs(dim.dst); --k) dims[k] = dims[k - 1];
    dims[k] = dim;
  }
  rank = MergeDims(absl::MakeSpan(dims, static_cast<size_t>(rank)));
  if (rank == 0) dims[rank++] = {1, item_bytes, item_bytes};
  if (const int column = ColumnDim(dims, rank); column >= 0) {
    std::rotate(dims + column, dims + column + 1, dims + rank - 1);
    const Dim &columns = dims[rank - 2], &row = dims[rank - 1];
    const int64_t strips = elements / (columns.size * row.size) * ((columns.size + kBandColumns - 1) / kBandColumns);
    if (pool == nullptr || elements * item_bytes < 2 * kChunkBytes) {
      CopyStrips(dims, rank, item_bytes, dst, src, 0, strips);
      return;
    }
    const int64_t step = std::max<int64_t>(kChunkBytes / (kBandColumns * row.size * item_bytes), 1);
    pool->For((strips + step - 1) / step, width, [&](int64_t c) {
      CopyStrips(dims, rank, item_bytes, dst, src, c * step, std::min(strips, (c + 1) * step));
    });
    return;
  }
  const int64_t rows = elements / dims[rank - 1].size;
  const int64_t bytes = elements * item_bytes;
  if (pool == nullptr || bytes < 2 * kChunkBytes) {
    CopyRows(dims, rank, item_bytes, dst, src, 0, rows);
    return;
  }
  if (rows == 1) {
    const Dim row = dims[rank - 1];
    const int64_t step = std::max<int64_t>(kChunkBytes / item_bytes, 1);
    pool->For((row.size + step - 1) / step, width, [&](int64_t c) {
      CopyRow(item_bytes, dst + c * step * row.dst, row.dst, src + c * step * row.src, row.src,
              std::min(step, row.size - c * step));
    });
    return;
  }
  const int64_t step = std::max<int64_t>(kChunkBytes / std::max<int64_t>(dims[rank - 1].size * item_bytes, 1), 1);
  pool->For((rows + step - 1) / step, width,
            [&](int64_t c) { CopyRows(dims, rank, item_bytes, dst, src, c * step, std::min(rows, (c + 1) * step)); });
}

}  // namespace smelt
