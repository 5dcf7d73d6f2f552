// "matmul": c[.., M, N] = alpha * (a[.., M, K] @ b[.., K, N]) + beta * bias. Of halves c may be float32, of int8 int32.
//
// A product of matrices is cut into tiles by its sizes alone; each tile is one oneDNN primitive on one thread. Operands
// are handed to oneDNN as they lie in memory where one of their strides is 1, else they are made dense in scratch
// memory first. A constant right operand is packed once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/dnnl_exec.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/gemv.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/library.h"

namespace smelt::library_internal {
namespace {

using dnnl::memory;

// A matrix's place: strides in elements.
struct Matrix {
  int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0;

  Matrix Transposed() const { return {cols, rows, col_stride, row_stride}; }
  // One stride is 1 and the other steps over a whole line: what BLAS takes.
  bool RowMajor() const { return (col_stride == 1 || cols == 1) && (rows == 1 || row_stride >= cols); }
  bool ColMajor() const { return Transposed().RowMajor(); }
  // With strides as they would be in a dense matrix where a dim of size 1 leaves them open.
  Matrix Normalized() const {
    Matrix m = *this;
    if (RowMajor()) {
      m.col_stride = 1;
      if (rows == 1) m.row_stride = cols;
    } else if (ColMajor()) {
      m.row_stride = 1;
      if (cols == 1) m.col_stride = rows;
    }
    return m;
  }
  memory::desc Desc(DType t) const { return memory::desc({rows, cols}, DnnlType(t), {row_stride, col_stride}); }
};

struct Problem {
  DType dtype = DType::kFloat32;      // of a and b
  DType out_dtype = DType::kFloat32;  // of c and the bias
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  std::vector<int64_t> batch;                      // sizes
  std::vector<int64_t> a_batch, b_batch, c_batch;  // strides
  int64_t batches = 1;
  // Of the bias, aligned to c; zero where it is broadcast.
  bool has_bias = false;
  std::vector<int64_t> bias_batch;
  int64_t bias_row = 0, bias_col = 0;
  double alpha = 1, beta = 1;
  const char* b_constant = nullptr;
  bool swapped = false;  // a is the second input, b the first

  int64_t BatchOffset(const std::vector<int64_t>& strides, int64_t i) const {
    int64_t offset = 0;
    for (int d = static_cast<int>(batch.size()) - 1; d >= 0; --d) {
      offset += i % batch[d] * strides[d];
      i /= batch[d];
    }
    return offset;
  }
};

bool AllZero(const std::vector<int64_t>& strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
}

// One right operand for all: batches and rows are dims alike. Those that continue each other are joined, and the
// longest of which the library can make rows is the rows: few large products instead of many small ones.
void FoldBatch(int64_t a_row_stride, int64_t c_row_stride, Problem& p) {
  struct Dim {
    int64_t size, a, c, bias;
  };
  std::vector<Dim> dims;
  const auto add = [&](const Dim& d) {
    if (!dims.empty()) {
      Dim& last = dims.back();
      if (last.a == d.size * d.a && last.c == d.size * d.c && last.bias == d.size * d.bias) {
        last = {last.size * d.size, d.a, d.c, d.bias};
        return;
      }
    }
    dims.push_back(d);
  };
  for (size_t i = 0; i < p.batch.size(); ++i) {
    add({p.batch[i], p.a_batch[i], p.c_batch[i], p.has_bias ? p.bias_batch[i] : 0});
  }
  if (p.m != 1) add({p.m, a_row_stride, c_row_stride, p.bias_row});
  const auto rows_of = [](const Matrix& m, int64_t size, int64_t stride) {
    return Matrix{size, m.cols, stride, m.col_stride}.Normalized();
  };
  int best = -1;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    const Matrix a = rows_of(p.a, dims[i].size, dims[i].a), c = rows_of(p.c, dims[i].size, dims[i].c);
    const bool as_they_lie = (a.RowMajor() || a.ColMajor()) && c.RowMajor();
    if (as_they_lie && (best < 0 || dims[i].size >= dims[best].size)) best = i;
  }
  if (best < 0) return;
  const Dim rows = dims[best];
  dims.erase(dims.begin() + best);
  p.m = rows.size;
  p.a = rows_of(p.a, rows.size, rows.a);
  p.c = rows_of(p.c, rows.size, rows.c);
  p.bias_row = rows.bias;
  p.batches = 1;
  p.batch.clear(), p.a_batch.clear(), p.c_batch.clear(), p.bias_batch.clear();
  p.b_batch.assign(dims.size(), 0);
  for (const Dim& d : dims) {
    p.batches *= d.size;
    p.batch.push_back(d.size);
    p.a_batch.push_back(d.a);
    p.c_batch.push_back(d.c);
    if (p.has_bias) p.bias_batch.push_back(d.bias);
  }
}

std::string Show(const OperandShape& o) { return absl::StrCat("[", absl::StrJoin(o.sizes, ", "), "]"); }

absl::StatusOr<Problem> Understand(const LibraryRequest& r) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, 0));
  const OperandShape &a = r.inputs[0], &b = r.inputs[1], &c = r.outputs[0];
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("matmul of ", Show(a), " and ", Show(b), " to ", Show(c), ": ", what));
  };
  if (a.rank() < 2 || a.rank() != b.rank() || a.rank() != c.rank())
    return bad("the ranks must be equal and at least 2");
  const bool widens = (c.dtype == DType::kFloat32 && (a.dtype == DType::kBFloat16 || a.dtype == DType::kFloat16)) ||
                      (c.dtype == DType::kInt32 && a.dtype == DType::kInt8);
  if (a.dtype != b.dtype || (a.dtype != c.dtype && !widens)) return bad("the dtypes differ");
  Problem p;
  p.dtype = a.dtype;
  p.out_dtype = c.dtype;
  const int rank = a.rank();
  p.m = c.sizes[rank - 2];
  p.n = c.sizes[rank - 1];
  p.k = a.sizes[rank - 1];
  if (a.sizes[rank - 2] != p.m || b.sizes[rank - 2] != p.k || b.sizes[rank - 1] != p.n)
    return bad("the sizes do not fit");
  p.a = Matrix{p.m, p.k, a.strides[rank - 2], a.strides[rank - 1]}.Normalized();
  p.b = Matrix{p.k, p.n, b.strides[rank - 2], b.strides[rank - 1]}.Normalized();
  p.c = Matrix{p.m, p.n, c.strides[rank - 2], c.strides[rank - 1]}.Normalized();
  for (int d = 0; d + 2 < rank; ++d) {
    const int64_t size = c.sizes[d];
    if ((a.sizes[d] != size && a.sizes[d] != 1) || (b.sizes[d] != size && b.sizes[d] != 1)) {
      return bad("the batch sizes do not fit");
    }
    p.batches *= size;
    if (size == 1) continue;
    p.batch.push_back(size);
    p.a_batch.push_back(a.sizes[d] == 1 ? 0 : a.strides[d]);
    p.b_batch.push_back(b.sizes[d] == 1 ? 0 : b.strides[d]);
    p.c_batch.push_back(c.strides[d]);
  }
  if (r.inputs.size() > 2 && r.inputs[2].present) {
    const OperandShape& bias = r.inputs[2];
    if (bias.dtype != c.dtype || bias.rank() > rank) return bad("the bias does not fit");
    p.has_bias = true;
    const auto stride = [&](int d) -> int64_t {  // of c's dim d
      const int at = d - (rank - bias.rank());
      return at < 0 || bias.sizes[at] == 1 ? 0 : bias.strides[at];
    };
    for (int d = rank - bias.rank(); d < rank; ++d) {
      const int64_t size = bias.sizes[d - (rank - bias.rank())];
      if (size != 1 && size != c.sizes[d]) return bad(absl::StrCat("the bias ", Show(bias), " does not fit"));
    }
    for (int d = 0; d + 2 < rank; ++d) {
      if (c.sizes[d] != 1) p.bias_batch.push_back(stride(d));
    }
    p.bias_row = stride(rank - 2);
    p.bias_col = stride(rank - 1);
  }
  if (r.floats.size() == 2) {
    p.alpha = r.floats[0];
    p.beta = r.floats[1];
  } else if (!r.floats.empty()) {
    return bad("expected no floating point attributes, or alpha and beta");
  }
  const bool one_right = AllZero(p.b_batch);
  if (!p.batch.empty() && one_right) FoldBatch(a.strides[rank - 2], c.strides[rank - 2], p);
  if (one_right) p.b_constant = b.constant;
  // c by columns: compute its transpose, and everything lies as BLAS wants it. And where c has few columns, so that it
  // has few rows: its transpose is a matrix times a few vectors.
  const bool few_columns = p.n <= kGemvRows && p.m > kGemvRows && p.c.rows > 1;
  if ((!p.c.RowMajor() && p.c.ColMajor()) || few_columns) {
    std::swap(p.m, p.n);
    const Matrix a_before = p.a;
    p.a = p.b.Transposed();
    p.b = a_before.Transposed();
    p.c = p.c.Transposed();
    std::swap(p.a_batch, p.b_batch);
    std::swap(p.bias_row, p.bias_col);
    p.b_constant = AllZero(p.b_batch) ? a.constant : nullptr;
    p.swapped = true;
  }
  return p;
}

// Whether a library's call takes longer than the multiplications.
bool IsSmall(const Problem& p) {
  constexpr int64_t kSmall = 16 << 10;
  return p.m <= kSmall && p.n <= kSmall && p.k <= kSmall / (p.m * p.n);
}

// --- any dtype ---

// Rows whose sums are kept at a time.
constexpr int64_t kBlock = 64;

// And of integers up to which rows are multiplied by one column after the other where columns lie together.
constexpr int64_t kFewRows = 2;

// Whether Gemm multiplies them.
template <typename T, typename Acc>
constexpr bool kHasGemm = std::is_same_v<T, Acc> && std::is_arithmetic_v<T>;

// A row times each column of b, whose elements lie together.
template <int kBytes, typename T>
SMELT_INLINE void DotColumns(int64_t n, int64_t k, const T* a, const T* b, int64_t b_col, T* sums) {
  using U = typename Vector<T, kBytes>::Unaligned;
  constexpr int kLanes = Vector<T, kBytes>::kLanes, kSums = 4;
  for (int64_t j = 0; j < n; ++j, b += b_col) {
    typename Vector<T, kBytes>::Type sum[kSums] = {};
    int64_t i = 0;
    for (; i + kSums * kLanes <= k; i += kSums * kLanes) {
      for (int s = 0; s < kSums; ++s) {
        sum[s] += *reinterpret_cast<const U*>(a + i + s * kLanes) * *reinterpret_cast<const U*>(b + i + s * kLanes);
      }
    }
    sum[0] += sum[1] + sum[2] + sum[3];
    T all = 0;
    for (int l = 0; l < kLanes; ++l) all += sum[0][l];
    for (; i < k; ++i) all += a[i] * b[i];
    sums[j] = all;
  }
}

// sums[rows, n] = a[rows, k] @ b.
template <typename T, typename Acc>
void SumRows(const Problem& p, int64_t rows, const T* a, const T* b, Acc* sums) {
  if constexpr (kHasGemm<T, Acc> && std::is_integral_v<T>) {
    if (rows <= kFewRows && p.a.col_stride == 1 && p.b.row_stride == 1) {
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
        for (int64_t i = 0; i < rows; ++i)
          DotColumns<bytes>(p.n, p.k, a + i * p.a.row_stride, b, p.b.col_stride, sums + i * p.n);
      });
      return;
    }
  }
  if constexpr (kHasGemm<T, Acc>) {
    Gemm(rows, p.n, p.k, a, p.a.row_stride, p.a.col_stride, b, p.b.row_stride, p.b.col_stride, sums, p.n);
    return;
  }
  AtBestLevel([&]() SMELT_ALWAYS_INLINE {
    std::fill(sums, sums + rows * p.n, Acc(0));
    for (int64_t k0 = 0; k0 < p.k; k0 += kBlock) {
      const int64_t k1 = std::min(p.k, k0 + kBlock);
      for (int64_t i = 0; i < rows; ++i) {
        Acc* acc = sums + i * p.n;
        for (int64_t k = k0; k < k1; ++k) {
          const Acc x = static_cast<Acc>(a[i * p.a.row_stride + k * p.a.col_stride]);
          const T* line = b + k * p.b.row_stride;
          if (p.b.col_stride == 1) {
            for (int64_t j = 0; j < p.n; ++j) acc[j] += x * static_cast<Acc>(line[j]);
          } else {
            for (int64_t j = 0; j < p.n; ++j) acc[j] += x * static_cast<Acc>(line[j * p.b.col_stride]);
          }
        }
      }
    }
  });
}

// In int32, dense.
const uint32_t* Widened(ScratchUse use, const int8_t* from, int64_t rows, int64_t columns, int64_t row,
                        int64_t column) {
  auto* to = reinterpret_cast<uint32_t*>(Scratch::Get(use, rows * columns * static_cast<int64_t>(sizeof(uint32_t))));
  AtBestLevel([&]() SMELT_ALWAYS_INLINE {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = static_cast<uint32_t>(from[i * row + j * column]);
    }
  });
  return to;
}

template <typename T, typename Acc, typename Out>
void DirectProduct(const Problem& p, int64_t m, const T* a, const T* b, Out* c, const Out* bias) {
  if constexpr (kHasGemm<T, Acc> && std::is_same_v<T, Out>) {
    if (bias == nullptr && p.alpha == 1 && p.c.col_stride == 1 && (std::is_floating_point_v<T> || m > kFewRows)) {
      Gemm(m, p.n, p.k, a, p.a.row_stride, p.a.col_stride, b, p.b.row_stride, p.b.col_stride, c, p.c.row_stride);
      return;
    }
  }
  if constexpr (std::is_same_v<T, int8_t>) {
    if (bias == nullptr && p.alpha == 1 && p.c.col_stride == 1 && m > kFewRows) {
      const uint32_t* left = Widened(ScratchUse::kA, a, m, p.k, p.a.row_stride, p.a.col_stride);
      // As it lies: in columns, if they do.
      const bool columns = p.b.row_stride == 1;
      const uint32_t* right = columns ? Widened(ScratchUse::kWeights, b, p.n, p.k, p.b.col_stride, 1)
                                      : Widened(ScratchUse::kWeights, b, p.k, p.n, p.b.row_stride, p.b.col_stride);
      Gemm(m, p.n, p.k, left, p.k, 1, right, columns ? 1 : p.n, columns ? p.k : 1, c, p.c.row_stride);
      return;
    }
  }
  Acc* sums = reinterpret_cast<Acc*>(
      Scratch::Get(ScratchUse::kC, std::min(kBlock, m) * p.n * static_cast<int64_t>(sizeof(Acc))));
  for (int64_t i0 = 0; i0 < m; i0 += kBlock) {
    const int64_t rows = std::min(kBlock, m - i0);
    SumRows<T, Acc>(p, rows, a + i0 * p.a.row_stride, b, sums);
    for (int64_t i = 0; i < rows; ++i) {
      Out* out = c + (i0 + i) * p.c.row_stride;
      for (int64_t j = 0; j < p.n; ++j) {
        Acc v = sums[i * p.n + j];
        if (p.alpha != 1) v *= static_cast<Acc>(p.alpha);
        if (bias != nullptr) {
          Acc add = static_cast<Acc>(bias[(i0 + i) * p.bias_row + j * p.bias_col]);
          if (p.beta != 1) add *= static_cast<Acc>(p.beta);
          v += add;
        }
        out[j * p.c.col_stride] = static_cast<Out>(v);
      }
    }
  }
}

class DirectMatmul : public PreparedOp {
 public:
  explicit DirectMatmul(Problem p) : p_(std::move(p)) {
    // Threads share rows where one product is enough work for several.
    const double work = static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    const int64_t parts = static_cast<int64_t>(std::min(64.0, std::max(1.0, work / 4e6)));
    step_ = std::max<int64_t>((p_.m + parts - 1) / parts, std::min<int64_t>(p_.m, kBlock));
    tiles_ = (p_.m + step_ - 1) / step_;
  }
  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    switch (p_.dtype) {
      case DType::kFloat64:
        return Typed<double, double>(context, inputs, outputs);
      case DType::kFloat32:
        return Typed<float, float>(context, inputs, outputs);
      case DType::kInt64:
        return Typed<uint64_t, uint64_t>(context, inputs, outputs);
      case DType::kInt32:
        return Typed<uint32_t, uint32_t>(context, inputs, outputs);
      case DType::kInt16:
        return Typed<uint16_t, uint32_t>(context, inputs, outputs);
      case DType::kInt8:
        if (p_.out_dtype == DType::kInt32) return Typed<int8_t, uint32_t, uint32_t>(context, inputs, outputs);
        return Typed<uint8_t, uint32_t>(context, inputs, outputs);
      case DType::kUInt8:
        return Typed<uint8_t, uint32_t>(context, inputs, outputs);
      case DType::kComplex64:
        return Typed<std::complex<float>, std::complex<float>>(context, inputs, outputs);
      default:
        return Typed<std::complex<double>, std::complex<double>>(context, inputs, outputs);
    }
  }

 private:
  template <typename T, typename Acc, typename Out = T>
  absl::Status Typed(const LibraryContext& context, absl::Span<char* const> inputs,
                     absl::Span<char* const> outputs) const {
    const T* a = reinterpret_cast<const T*>(inputs[0]);
    const T* b = reinterpret_cast<const T*>(inputs[1]);
    if (p_.swapped) std::swap(a, b);
    const Out* bias = p_.has_bias ? reinterpret_cast<const Out*>(inputs[2]) : nullptr;
    Out* c = reinterpret_cast<Out*>(outputs[0]);
    context.For(p_.batches * tiles_, [&](int64_t i) {
      const int64_t batch = i / tiles_, row = i % tiles_ * step_;
      DirectProduct<T, Acc, Out>(
          p_, std::min(step_, p_.m - row), a + p_.BatchOffset(p_.a_batch, batch) + row * p_.a.row_stride,
          b + p_.BatchOffset(p_.b_batch, batch), c + p_.BatchOffset(p_.c_batch, batch) + row * p_.c.row_stride,
          bias == nullptr ? nullptr : bias + p_.BatchOffset(p_.bias_batch, batch) + row * p_.bias_row);
    });
    return absl::OkStatus();
  }

  Problem p_;
  int64_t step_ = 0, tiles_ = 0;  // of rows
};

// --- float32, bfloat16, float16, int8 to int32 ---

// Where a dense copy of the matrix has its elements: in columns if they lie so, otherwise in rows.
Matrix DenseLike(const Matrix& m) {
  const bool columns = !m.RowMajor() && m.ColMajor();
  return Matrix{m.rows, m.cols, columns ? 1 : m.cols, columns ? m.rows : 1};
}
// A dense row-major copy in float32.
void GatherRows(const Matrix& m, DType t, const char* src, float* dst) {
  const int item = ItemSize(t);
  if (m.col_stride == 1 && m.row_stride == m.cols) return ToFloats(t, src, 1, m.rows * m.cols, dst);
  for (int64_t i = 0; i < m.rows; ++i) {
    ToFloats(t, src + i * m.row_stride * item, m.col_stride, m.cols, dst + i * m.cols);
  }
}
// The same, as DenseLike.
void Gather(const Matrix& m, DType t, const char* src, float* dst) {
  GatherRows(DenseLike(m).col_stride == 1 ? m : m.Transposed(), t, src, dst);
}
// A dense row-major copy of the same dtype.
void Dense(const Matrix& m, DType t, const char* src, char* dst) {
  const int64_t sizes[] = {m.rows, m.cols}, strides[] = {m.row_stride, m.col_stride}, dense[] = {m.cols, 1};
  CopyStrided(dst, dense, src, strides, sizes, ItemSize(t));
}

class TiledMatmul : public PreparedOp {
 public:
  struct Tile {
    int64_t m0, m, n0, n;
    int primitive;
    AlignedBuffer packed;  // constant right operand
  };

  // `dense`: c is.
  static MakeResult Make(Problem p, bool dense, int64_t* packed_bytes) {
    auto op = std::unique_ptr<TiledMatmul>(new TiledMatmul());
    op->p_ = std::move(p);
    SMELT_RETURN_IF_ERROR(op->Plan(packed_bytes));
    if (dense) op->TellOfRows();
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const char* a = inputs[p_.swapped ? 1 : 0];
    const char* b = inputs[p_.swapped ? 0 : 1];
    const char* bias = p_.has_bias ? inputs[2] : nullptr;
    char* c = outputs[0];
    const int item = ItemSize(p_.dtype), out_item = ItemSize(p_.out_dtype);
    std::atomic<bool> failed = false;
    const int64_t tiles = gemv_ ? gemv_tiles_ : static_cast<int64_t>(tiles_.size());
    context.For(p_.batches * tiles, [&](int64_t i) {
      const int64_t batch = i / tiles;
      const char* ab = a + p_.BatchOffset(p_.a_batch, batch) * item;
      const char* bb = b + p_.BatchOffset(p_.b_batch, batch) * item;
      char* cb = c + p_.BatchOffset(p_.c_batch, batch) * out_item;
      const char* biasb = bias == nullptr ? nullptr : bias + p_.BatchOffset(p_.bias_batch, batch) * out_item;
      if (panels_ != nullptr) return RunPacked(tiles_[i % tiles], ab, cb, biasb);
      const bool ok = gemv_ ? RunGemv(i % tiles, ab, bb, cb, biasb) : RunTile(tiles_[i % tiles], ab, bb, cb, biasb);
      if (!ok) failed.store(true, std::memory_order_relaxed);
      if (!ok || part_unit_ == 0 || context.listener == nullptr) return;
      const Tile& t = tiles_[i % tiles];
      const int64_t begin = p_.BatchOffset(p_.c_batch, batch) + t.m0 * p_.n;
      context.listener->OnPart(begin, begin + t.m * p_.n);
    });
    return failed ? absl::ResourceExhaustedError("matmul: the library failed") : absl::OkStatus();
  }
  int64_t PartUnit() const override { return part_unit_; }

 private:
  absl::Status Plan(int64_t* packed_bytes) {
    Problem& p = p_;
    const int item = ItemSize(p.dtype);
    const bool integers = p.dtype == DType::kInt8;
    gemv_ = !integers && (p.m <= MostGemvRows() || (p.dtype != DType::kFloat32 && IsSmall(p))) &&
            (p.b.RowMajor() || p.b.ColMajor());
    if (gemv_) {
      // About 128 KiB of the matrix a tile; vectors whole, and where columns lie beside each other enough of them that
      // memory is read in pieces.
      gemv_columns_ = std::max<int64_t>((int64_t{128} << 10) / std::max<int64_t>(p.k * item, 1), 1);
      gemv_columns_ = (gemv_columns_ + 31) / 32 * 32;
      if (p.b.RowMajor()) gemv_columns_ = std::max(gemv_columns_, kGemvColumns);
      gemv_tiles_ = (p.n + gemv_columns_ - 1) / gemv_columns_;
      return absl::OkStatus();
    }
    if (PacksItself()) return PlanPacked(packed_bytes);
    // bfloat16 needs AVX-512 in oneDNN; float16 it does not have on a CPU. They are then computed in float32 and
    // rounded once.
    // So are sums of an odd number of products of bfloat16: oneDNN multiplies the last factor once more, by the zero
    // that fills up the other operand, and what is infinite becomes NaN.
    native_ = p.dtype == DType::kFloat32 || integers ||
              (p.dtype == DType::kBFloat16 && p.k % 2 == 0 && CpuHas("avx512bw") && CpuHas("avx512vl"));
    compute_ = native_ ? p.dtype : DType::kFloat32;
    dense_a_ = !native_ || !(p.a.RowMajor() || p.a.ColMajor());
    dense_b_ = !native_ || !(p.b.RowMajor() || p.b.ColMajor());
    // A bias that is one row goes along; anything else is added to the result. So is what is to be scaled.
    const bool plain = p.alpha == 1 && p.beta == 1;
    library_bias_ = p.has_bias && plain && native_ && p.bias_row == 0 && p.bias_col == 1;
    after_ = (p.has_bias && !library_bias_) || p.alpha != 1;
    result_ = native_ && !after_ ? p.out_dtype : DType::kFloat32;
    dense_c_ = result_ != p.out_dtype || !p.c.RowMajor();
    // Of whole rows where there are enough, since oneDNN's best implementation wants whole rows of the result, and of
    // 64 rows where there are 128: each tile reads all of b.
    const int64_t parts = Parts();
    int64_t m_step = p.m, n_step = p.n;
    if (p.m >= 64 && (parts > 1 || p.m > RowsInCache())) {
      m_step = std::max<int64_t>(((p.m + parts - 1) / parts + 15) / 16 * 16, p.m >= 128 ? 64 : 32);
      m_step = std::min(m_step, RowsInCache());
    } else if (parts > 1) {
      n_step = ((p.n + parts - 1) / parts + 63) / 64 * 64;
    }
    if (!native_) m_step = p.m, n_step = p.n;
    for (int64_t m0 = 0; m0 < p.m; m0 += m_step) {
      for (int64_t n0 = 0; n0 < p.n; n0 += n_step) {
        Tile t;
        t.m0 = m0;
        t.n0 = n0;
        t.m = std::min(m_step, p.m - m0);
        t.n = std::min(n_step, p.n - n0);
        SMELT_RETURN_IF_ERROR(MakePrimitive(t, packed_bytes));
        tiles_.push_back(std::move(t));
      }
    }
    return absl::OkStatus();
  }

  // Rows of the result that what comes next finds in the second cache; as many as b has at least, which each tile
  // reads.
  int64_t RowsInCache() const {
    constexpr int64_t kCache = 256 << 10;
    const int64_t rows = std::max(kCache / std::max<int64_t>(p_.n * ItemSize(p_.out_dtype), 1), p_.k);
    return std::max<int64_t>((rows + 15) / 16 * 16, 64);
  }

  // Tiles of whole rows of a dense result lie together.
  void TellOfRows() {
    const bool rows = std::all_of(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.n == p_.n; });
    if (!gemv_ && panels_ == nullptr && rows && !p_.swapped && p_.c.RowMajor() && p_.c.row_stride == p_.n)
      part_unit_ = p_.n;
  }

  // How many tiles a product is cut into, by its work: of about 8 million multiplications, at most 64.
  int64_t Parts() const {
    if (p_.batches > 16) return 1;
    const double work = static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    return static_cast<int64_t>(std::min(64.0, std::max(1.0, work / 8e6)));
  }

  // Up to how many rows the matrix is read as it lies, a few of them at a time. The library copies it first, which
  // takes it longer for so few rows where the matrix lies by columns, or fits the second cache but not the first.
  int64_t MostGemvRows() const {
    constexpr int64_t kLongColumn = 512, kFewCopied = int64_t{1} << 17, kMostCopied = int64_t{1} << 18;
    // Packed, more take less time together; but a panel of few long columns is mostly what fills it up.
    const bool thin = p_.b.ColMajor() && p_.n <= kPanelColumns / 4 && p_.k >= 8 * kLongColumn;
    if (PacksItself() && !thin) return 2;
    if (p_.dtype != DType::kFloat32) return kGemvRows;
    if (p_.b.ColMajor() && p_.k >= kLongColumn) return 3 * kGemvRows;
    const int64_t elements = p_.k * p_.n;
    return p_.b.RowMajor() && elements >= kFewCopied && elements <= kMostCopied ? 2 * kGemvRows : kGemvRows;
  }

  // Weights of a few rows come from memory as they are used, which takes the library longer than computing does.
  bool PacksItself() const {
    constexpr int64_t kMostRows = 128;
    return p_.dtype == DType::kFloat32 && p_.b_constant != nullptr && p_.m <= kMostRows && p_.c.RowMajor();
  }

  // Tiles of whole panels; of some rows only where there are too few panels.
  absl::Status PlanPacked(int64_t* packed_bytes) {
    Problem& p = p_;
    panels_ = AllocateAligned(PackedElements(p.k, p.n) * static_cast<int64_t>(sizeof(float)));
    if (panels_ == nullptr) return absl::ResourceExhaustedError("no memory for packed weights");
    PackRight(p.k, p.n, reinterpret_cast<const float*>(p.b_constant), p.b.row_stride, p.b.col_stride,
              reinterpret_cast<float*>(panels_.get()));
    *packed_bytes += PackedElements(p.k, p.n) * static_cast<int64_t>(sizeof(float));
    after_ = p.has_bias || p.alpha != 1;
    const int64_t parts = Parts();
    const int64_t panels = (p.n + kPanelColumns - 1) / kPanelColumns;
    const int64_t across = std::min(parts, panels), down = std::min((parts + across - 1) / across, (p.m + 23) / 24);
    const int64_t n_step = (panels + across - 1) / across * kPanelColumns, m_step = (p.m + down - 1) / down;
    for (int64_t n0 = 0; n0 < p.n; n0 += n_step) {
      for (int64_t m0 = 0; m0 < p.m; m0 += m_step) {
        tiles_.push_back({m0, std::min(m_step, p.m - m0), n0, std::min(n_step, p.n - n0), -1, nullptr});
      }
    }
    return absl::OkStatus();
  }

  void RunPacked(const Tile& t, const char* a, char* c, const char* bias) const {
    const Problem& p = p_;
    const int64_t c_row = p.c.row_stride;
    float* to = reinterpret_cast<float*>(c) + t.m0 * c_row;
    GemmPacked(t.m, p.n, p.k, reinterpret_cast<const float*>(a) + t.m0 * p.a.row_stride, p.a.row_stride, p.a.col_stride,
               reinterpret_cast<const float*>(panels_.get()), to, c_row, t.n0, t.n0 + t.n);
    if (!after_) return;
    // One row for all is added by vectors.
    const bool plain = p.alpha == 1 && p.beta == 1 && p.bias_row == 0 && p.bias_col == 1;
    for (int64_t i = 0; i < t.m; ++i) {
      char* row = reinterpret_cast<char*>(to + i * c_row);
      if (plain) {
        const float* added = reinterpret_cast<const float*>(bias);
        for (int64_t j = t.n0; j < t.n0 + t.n; ++j) to[i * c_row + j] += added[j];
        continue;
      }
      const float* sums = to + i * c_row + t.n0;
      FinishRow(t.n, row + t.n0 * 4,
                bias == nullptr ? nullptr : bias + ((t.m0 + i) * p.bias_row + t.n0 * p.bias_col) * 4,
                [&](int64_t j) { return sums[j]; });
    }
  }

  Matrix PlaceA(const Tile& t) const {
    const Matrix a{t.m, p_.k, p_.a.row_stride, p_.a.col_stride};
    return dense_a_ ? DenseLike(a) : a.Normalized();
  }
  Matrix PlaceB(const Tile& t) const {
    const Matrix b{p_.k, t.n, p_.b.row_stride, p_.b.col_stride};
    return dense_b_ ? DenseLike(b) : b.Normalized();
  }
  Matrix PlaceC(const Tile& t) const {
    return dense_c_ ? Matrix{t.m, t.n, t.n, 1} : Matrix{t.m, t.n, p_.c.row_stride, p_.c.col_stride}.Normalized();
  }

  struct Primitive {
    int64_t m, n;
    std::unique_ptr<DnnlExec> exec;
    memory::desc weights;
  };

  absl::Status MakePrimitive(Tile& t, int64_t* packed_bytes) {
    OneOmpThread one;
    const bool pack = p_.b_constant != nullptr && (!native_ || !dense_b_);
    t.primitive = -1;
    for (size_t i = 0; i < primitives_.size(); ++i) {
      if (primitives_[i].m == t.m && primitives_[i].n == t.n) t.primitive = static_cast<int>(i);
    }
    if (t.primitive < 0) {
      auto made = TryDnnl([&] {
        const memory::desc a = PlaceA(t).Desc(compute_), c = PlaceC(t).Desc(result_);
        const memory::desc b =
            pack ? memory::desc({p_.k, t.n}, DnnlType(compute_), memory::format_tag::any) : PlaceB(t).Desc(compute_);
        memory::desc bias;
        if (library_bias_) bias = memory::desc({1, t.n}, DnnlType(p_.out_dtype), memory::format_tag::ab);
        const dnnl::matmul::desc d = library_bias_ ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
        const dnnl::matmul::primitive_desc pd(d, UserScratchpad(), CpuEngine());
        std::vector<DnnlExec::Arg> args = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, c}};
        if (library_bias_) args.push_back({DNNL_ARG_BIAS, bias});
        Primitive p{t.m, t.n, nullptr, pd.weights_desc()};
        p.exec = std::make_unique<DnnlExec>(dnnl::matmul(pd), std::move(args), pd.scratchpad_desc());
        return p;
      });
      if (!made) return absl::InternalError(absl::StrCat("oneDNN has no matmul of ", t.m, "x", p_.k, "x", t.n));
      primitives_.push_back(std::move(*made));
      t.primitive = static_cast<int>(primitives_.size()) - 1;
    }
    if (!pack) return absl::OkStatus();
    const memory::desc& want = primitives_[t.primitive].weights;
    t.packed = AllocateAligned(static_cast<int64_t>(want.get_size()));
    if (t.packed == nullptr) return absl::ResourceExhaustedError("no memory for packed weights");
    const char* from = p_.b_constant + t.n0 * p_.b.col_stride * ItemSize(p_.dtype);
    // A copy of what is computed in float32, and of integers, which oneDNN packs from dense rows alone.
    const Matrix slice{p_.k, t.n, p_.b.row_stride, p_.b.col_stride};
    Matrix place = PlaceB(t);
    AlignedBuffer copy;
    if (!native_ || compute_ == DType::kInt8) {
      copy = AllocateAligned(p_.k * t.n * ItemSize(compute_));
      if (copy == nullptr) return absl::ResourceExhaustedError("no memory for packed weights");
      if (native_) {
        place = Matrix{p_.k, t.n, t.n, 1};
        Dense(slice, compute_, from, copy.get());
      } else {
        Gather(slice, p_.dtype, from, reinterpret_cast<float*>(copy.get()));
      }
      from = copy.get();
    }
    auto packed = TryDnnl([&] {
      memory src(place.Desc(compute_), CpuEngine(), const_cast<char*>(from));
      memory dst(want, CpuEngine(), t.packed.get());
      dnnl::reorder(src, dst).execute(ThreadStream(), src, dst);
      ThreadStream().wait();
      return true;
    });
    if (!packed) return absl::InternalError("oneDNN cannot pack the weights of a matmul");
    *packed_bytes += static_cast<int64_t>(want.get_size());
    return absl::OkStatus();
  }

  bool RunTile(const Tile& t, const char* a, const char* b, char* c, const char* bias) const {
    const int item = ItemSize(p_.dtype), out_item = ItemSize(p_.out_dtype);
    const char* ta = a + t.m0 * p_.a.row_stride * item;
    const char* tb = b + t.n0 * p_.b.col_stride * item;
    char* tc = c + (t.m0 * p_.c.row_stride + t.n0 * p_.c.col_stride) * out_item;
    const Matrix ma{t.m, p_.k, p_.a.row_stride, p_.a.col_stride}, mb{p_.k, t.n, p_.b.row_stride, p_.b.col_stride};
    const void* pa = ta;
    const void* pb = t.packed != nullptr ? t.packed.get() : tb;
    void* pc = tc;
    const int compute_item = ItemSize(compute_);
    if (dense_a_) {
      char* to = Scratch::Get(ScratchUse::kA, t.m * p_.k * compute_item);
      native_ ? Dense(ma, p_.dtype, ta, to) : Gather(ma, p_.dtype, ta, reinterpret_cast<float*>(to));
      pa = to;
    }
    if (dense_b_ && t.packed == nullptr) {
      char* to = Scratch::Get(ScratchUse::kB, p_.k * t.n * compute_item);
      native_ ? Dense(mb, p_.dtype, tb, to) : Gather(mb, p_.dtype, tb, reinterpret_cast<float*>(to));
      pb = to;
    }
    if (dense_c_) pc = Scratch::Get(ScratchUse::kC, t.m * t.n * ItemSize(result_));
    const char* tbias = bias == nullptr ? nullptr : bias + (t.m0 * p_.bias_row + t.n0 * p_.bias_col) * out_item;
    void* handles[] = {const_cast<void*>(pa), const_cast<void*>(pb), pc, const_cast<char*>(tbias)};
    if (!primitives_[t.primitive].exec->Run(absl::MakeSpan(handles, library_bias_ ? 4 : 3))) return false;
    if (!dense_c_ && !after_) return true;
    // Scale, add, round once, and put it where it belongs.
    if (!after_ && result_ == p_.out_dtype) {
      const int64_t sizes[] = {t.m, t.n}, strides[] = {p_.c.row_stride, p_.c.col_stride}, dense[] = {t.n, 1};
      CopyStrided(tc, strides, static_cast<char*>(pc), dense, sizes, out_item);
      return true;
    }
    const Matrix from = PlaceC(t);
    const float* result = static_cast<const float*>(pc);
    for (int64_t i = 0; i < t.m; ++i) {
      const float* row = result + i * from.row_stride;
      FinishRow(t.n, tc + i * p_.c.row_stride * out_item,
                tbias == nullptr ? nullptr : tbias + i * p_.bias_row * out_item,
                [&](int64_t j) { return row[j * from.col_stride]; });
    }
    return true;
  }

  // A row of the result: scaled, added to, rounded once, and put where it belongs. `value(j)`.
  template <typename Value>
  void FinishRow(int64_t n, char* to, const char* bias, const Value& value) const {
    constexpr int64_t kChunk = 256;
    const DType t = p_.out_dtype;
    const int item = ItemSize(t);
    const float alpha = static_cast<float>(p_.alpha), beta = static_cast<float>(p_.beta);
    float row[kChunk], added[kChunk];
    for (int64_t first = 0; first < n; first += kChunk) {
      const int64_t count = std::min(kChunk, n - first);
      for (int64_t j = 0; j < count; ++j) row[j] = value(first + j);
      if (p_.alpha != 1) {
        for (int64_t j = 0; j < count; ++j) row[j] *= alpha;
      }
      if (bias != nullptr && !library_bias_) {
        ToFloats(t, bias + first * p_.bias_col * item, p_.bias_col, count, added);
        for (int64_t j = 0; j < count; ++j) row[j] += p_.beta == 1 ? added[j] : added[j] * beta;
      }
      FromFloats(t, row, count, to + first * p_.c.col_stride * item, p_.c.col_stride);
    }
  }
  bool RunGemv(int64_t tile, const char* a, const char* b, char* c, const char* bias) const {
    const int item = ItemSize(p_.dtype), out_item = ItemSize(p_.out_dtype);
    const int64_t begin = tile * gemv_columns_, end = std::min(p_.n, begin + gemv_columns_);
    const float* x = reinterpret_cast<const float*>(a);
    if (p_.dtype != DType::kFloat32 || p_.a.col_stride != 1 || (p_.m > 1 && p_.a.row_stride != p_.k)) {
      float* dense = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kA, p_.m * p_.k * 4));
      GatherRows(p_.a, p_.dtype, a, dense);
      x = dense;
    }
    const int m = static_cast<int>(p_.m);
    const bool direct = p_.out_dtype == DType::kFloat32 && p_.c.col_stride == 1 && !p_.has_bias && p_.alpha == 1;
    const int64_t columns = end - begin;
    float* y = direct ? reinterpret_cast<float*>(c) + begin
                      : reinterpret_cast<float*>(Scratch::Get(ScratchUse::kC, m * columns * 4));
    const int64_t ldy = direct ? p_.c.row_stride : columns;
    if (m > MostGemvRows()) {  // small, of halves
      float* w = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kWeights, p_.k * columns * 4));
      const Matrix part{p_.k, columns, p_.b.row_stride, p_.b.col_stride}, lies = DenseLike(part);
      Gather(part, p_.dtype, b + begin * p_.b.col_stride * item, w);
      Gemm(m, columns, p_.k, x, p_.k, 1, w, lies.row_stride, lies.col_stride, y, ldy);
    } else if (p_.b.RowMajor()) {
      GemvPlain(m, p_.k, x, b + begin * item, p_.dtype, p_.b.row_stride, 0, columns, y, ldy);
    } else {
      GemvTransposed(m, p_.k, x, b + begin * p_.b.col_stride * item, p_.dtype, p_.b.col_stride, 0, columns, y, ldy);
    }
    if (direct) return true;
    if (!p_.has_bias && p_.alpha == 1 && columns == p_.n && p_.c.col_stride == 1 && p_.c.row_stride == columns) {
      FromFloats(p_.out_dtype, y, m * columns, c, 1);
      return true;
    }
    for (int64_t i = 0; i < m; ++i) {
      FinishRow(columns, c + (i * p_.c.row_stride + begin * p_.c.col_stride) * out_item,
                bias == nullptr ? nullptr : bias + (i * p_.bias_row + begin * p_.bias_col) * out_item,
                [&](int64_t j) { return y[i * ldy + j]; });
    }
    return true;
  }

  Problem p_;
  bool gemv_ = false;
  int64_t gemv_columns_ = 0, gemv_tiles_ = 0;
  int64_t part_unit_ = 0;
  bool native_ = true;
  DType compute_ = DType::kFloat32;  // what the library reads
  DType result_ = DType::kFloat32;   // what it writes
  bool dense_a_ = false, dense_b_ = false, dense_c_ = false;
  bool library_bias_ = false, after_ = false;
  AlignedBuffer panels_;  // a constant right operand, for GemmPacked
  std::vector<Primitive> primitives_;
  std::vector<Tile> tiles_;
};

// Nothing to add up: c = beta * bias, or 0.
class EmptyMatmul : public PreparedOp {
 public:
  EmptyMatmul(LibraryRequest r, double beta) : r_(std::move(r)), beta_(beta) {}
  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const OperandShape& c = r_.outputs[0];
    const bool has_bias = r_.inputs.size() > 2 && r_.inputs[2].present;
    std::vector<int64_t> strides(c.sizes.size(), 0);
    if (has_bias) {
      const OperandShape& bias = r_.inputs[2];
      for (int d = 0; d < bias.rank(); ++d) {
        if (bias.sizes[d] != 1) strides[c.rank() - bias.rank() + d] = bias.strides[d];
      }
    }
    std::vector<int64_t> index(c.sizes.size(), 0);
    ForEachElement({outputs[0], c.dtype, c.sizes, c.strides}, [&](char* p) {
      if (!has_bias) {
        StoreDouble(p, c.dtype, 0);
      } else {
        int64_t at = 0;
        for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        StoreDouble(p, c.dtype, beta_ * LoadDouble(inputs[2] + at * ItemSize(c.dtype), c.dtype));
      }
      for (int d = c.rank() - 1; d >= 0; --d) {
        if (++index[d] < c.sizes[d]) break;
        index[d] = 0;
      }
    });
    return absl::OkStatus();
  }

 private:
  LibraryRequest r_;
  double beta_;
};

// Elsewhere oneDNN adds pairs of products in 16 bits, which may not hold them.
bool HasExactInt8(const Problem& p) {
  return CpuLevel() == "x86-64-v4" && CpuHas("avx512vnni") && !p.has_bias && p.alpha == 1;
}

}  // namespace

MakeResult MakeMatmul(const LibraryRequest& r, int64_t* packed_bytes) {
  SMELT_ASSIGN_OR_RETURN(Problem p, Understand(r));
  const OperandShape& c = r.outputs[0];
  if (c.NumElements() == 0 || p.k == 0) return std::unique_ptr<PreparedOp>(new EmptyMatmul(r, p.beta));
  if (p.dtype == DType::kFloat32 && p.m > kGemvRows && IsSmall(p))
    return std::unique_ptr<PreparedOp>(new DirectMatmul(std::move(p)));
  switch (p.dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return TiledMatmul::Make(std::move(p), c.IsDense(), packed_bytes);
    case DType::kBool:
      return absl::UnimplementedError("matmul of bool");
    case DType::kInt8:
      if (p.out_dtype == DType::kInt32 && HasExactInt8(p))
        return TiledMatmul::Make(std::move(p), c.IsDense(), packed_bytes);
      [[fallthrough]];
    default:
      return std::unique_ptr<PreparedOp>(new DirectMatmul(std::move(p)));
  }
}

}  // namespace smelt::library_internal
