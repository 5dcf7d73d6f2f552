#include "smelt/runtime/library/direct_matmul.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/matmul_problem.h"
#include "smelt/runtime/library/scratch.h"

namespace smelt::library_internal {
namespace {

// The number of rows whose sums are kept at a time.
constexpr int64_t kBlock = 64;

// Up to this many rows of integers are multiplied by one column after the other, if the elements of a column are
// adjacent.
constexpr int64_t kFewRows = 2;

// True if Gemm multiplies these types.
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
void SumRows(const MatmulProblem& p, int64_t rows, const T* a, const T* b, Acc* sums) {
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
template <typename T>
const uint32_t* Widened(ScratchUse use, const T* from, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  auto* to = reinterpret_cast<uint32_t*>(Scratch::Get(use, rows * columns * static_cast<int64_t>(sizeof(uint32_t))));
  AtBestLevel([&]() SMELT_ALWAYS_INLINE {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = static_cast<uint32_t>(from[i * row + j * column]);
    }
  });
  return to;
}

// c[m, n] = a[m, k] @ b in int32, of bytes.
template <typename A, typename B>
void ProductOfBytes(const MatmulProblem& p, int64_t m, const A* a, const B* b, char* c) {
  const uint32_t* left = Widened(ScratchUse::kA, a, m, p.k, p.a.row_stride, p.a.col_stride);
  // In the operand's order: in columns, if it has that order.
  const bool columns = p.b.row_stride == 1;
  const uint32_t* right = columns ? Widened(ScratchUse::kWeights, b, p.n, p.k, p.b.col_stride, 1)
                                  : Widened(ScratchUse::kWeights, b, p.k, p.n, p.b.row_stride, p.b.col_stride);
  auto* to = reinterpret_cast<uint32_t*>(c);
  if (p.c.col_stride == 1) {
    Gemm(m, p.n, p.k, left, p.k, 1, right, columns ? 1 : p.n, columns ? p.k : 1, to, p.c.row_stride);
    return;
  }
  auto* sums =
      reinterpret_cast<uint32_t*>(Scratch::Get(ScratchUse::kC, m * p.n * static_cast<int64_t>(sizeof(uint32_t))));
  Gemm(m, p.n, p.k, left, p.k, 1, right, columns ? 1 : p.n, columns ? p.k : 1, sums, p.n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) to[i * p.c.row_stride + j * p.c.col_stride] = sums[i * p.n + j];
  }
}

template <typename T, typename Acc, typename Out>
void DirectProduct(const MatmulProblem& p, int64_t m, const T* a, const T* b, Out* c, const Out* bias) {
  if constexpr (kHasGemm<T, Acc> && std::is_same_v<T, Out>) {
    if (bias == nullptr && p.alpha == 1 && p.c.col_stride == 1 && (std::is_floating_point_v<T> || m > kFewRows)) {
      Gemm(m, p.n, p.k, a, p.a.row_stride, p.a.col_stride, b, p.b.row_stride, p.b.col_stride, c, p.c.row_stride);
      return;
    }
  }
  if constexpr (std::is_same_v<T, int8_t>) {
    if (bias == nullptr && p.alpha == 1 && p.c.col_stride == 1 && m > kFewRows)
      return ProductOfBytes(p, m, a, b, reinterpret_cast<char*>(c));
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
  explicit DirectMatmul(MatmulProblem p) : p_(std::move(p)) {
    // Threads share rows where one product is enough work for several.
    const double work = static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    const int64_t parts = static_cast<int64_t>(std::min(64.0, std::max(1.0, work / 4e6)));
    step_ = std::max<int64_t>((p_.m + parts - 1) / parts, std::min<int64_t>(p_.m, kBlock));
    tiles_ = (p_.m + step_ - 1) / step_;
  }
  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (p_.dtype != p_.b_dtype) {
      if (p_.has_bias || p_.alpha != 1) return absl::UnimplementedError("matmul of uint8 and int8, scaled or added to");
      return p_.dtype == DType::kUInt8 ? Bytes<uint8_t, int8_t>(context, inputs, outputs)
                                       : Bytes<int8_t, uint8_t>(context, inputs, outputs);
    }
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

  // Products of operands of which one is uint8 and the other int8.
  template <typename A, typename B>
  absl::Status Bytes(const LibraryContext& context, absl::Span<char* const> inputs,
                     absl::Span<char* const> outputs) const {
    const char *a = inputs[p_.swapped ? 1 : 0], *b = inputs[p_.swapped ? 0 : 1];
    context.For(p_.batches * tiles_, [&](int64_t i) {
      const int64_t batch = i / tiles_, row = i % tiles_ * step_;
      ProductOfBytes(p_, std::min(step_, p_.m - row),
                     reinterpret_cast<const A*>(a) + p_.BatchOffset(p_.a_batch, batch) + row * p_.a.row_stride,
                     reinterpret_cast<const B*>(b) + p_.BatchOffset(p_.b_batch, batch),
                     outputs[0] + (p_.BatchOffset(p_.c_batch, batch) + row * p_.c.row_stride) * 4);
    });
    return absl::OkStatus();
  }

  MatmulProblem p_;
  int64_t step_ = 0, tiles_ = 0;  // of rows
};

}  // namespace

MakeResult MakeDirectMatmul(MatmulProblem p) { return std::unique_ptr<PreparedOp>(new DirectMatmul(std::move(p))); }

}  // namespace smelt::library_internal
