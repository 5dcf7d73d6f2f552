#include "smelt/runtime/library/int8_matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/strided.h"

namespace smelt::library_internal {
namespace {

constexpr int kMostRows = 4;       // that are multiplied directly
constexpr int kColumns = 4;        // that share each load of the rows
constexpr int64_t kWidened = 128;  // columns at a time

template <int kBytes>
SMELT_INLINE typename Vector<float, kBytes>::Type Widen(const int8_t* p) {
  constexpr int kLanes = kBytes / 4;
#if defined(__x86_64__) && !defined(__clang__)
  // One instruction in a function of that level. gcc does not find it; clang does, and takes registers of a level in
  // assembly only in a function of that level, which this becomes part of later.
  if constexpr (kLanes == 16 || kLanes == 8) {
    struct __attribute__((packed)) Bits {
      int8_t bytes[kLanes];
    };
    typename Vector<int32_t, kBytes>::Type ints;
    asm("vpmovsxbd %1, %0" : "=v"(ints) : "m"(*reinterpret_cast<const Bits*>(p)));
    return __builtin_convertvector(ints, typename Vector<float, kBytes>::Type);
  }
#endif
  typename Vector<int8_t, kLanes>::Type bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  const auto halves = __builtin_convertvector(bytes, typename Vector<int16_t, 2 * kLanes>::Type);
  const auto words = __builtin_convertvector(halves, typename Vector<int32_t, kBytes>::Type);
  return __builtin_convertvector(words, typename Vector<float, kBytes>::Type);
}

// y[m, c] = the sum over k of x[m, k] * w[c, k], for dense rows x and `kCount` columns c.
template <int kBytes, int kRows, int kCount>
SMELT_INLINE void Block(int64_t k, const float* x, const int8_t* w, int64_t ldw, float* y, int64_t ldy) {
  using V = typename Vector<float, kBytes>::Type;
  using Unaligned = typename Vector<float, kBytes>::Unaligned;
  constexpr int kLanes = kBytes / 4;
  constexpr int kLine = 64;  // bytes of the weight
  V sums[kCount][kRows] = {};
  const auto add = [&](int64_t i) SMELT_ALWAYS_INLINE {
    V row[kRows];
    for (int m = 0; m < kRows; ++m) row[m] = *reinterpret_cast<const Unaligned*>(x + m * k + i);
    for (int c = 0; c < kCount; ++c) {
      const V column = Widen<kBytes>(w + c * ldw + i);
      for (int m = 0; m < kRows; ++m) sums[c][m] += column * row[m];
    }
  };
  int64_t i = 0;
  for (; i + kLine <= k; i += kLine) {
    // A column is often as short as a page, at whose end the machine stops to read ahead.
    for (int c = 0; c < kCount; ++c) __builtin_prefetch(w + (c + kCount) * ldw + i);
    for (int64_t j = i; j < i + kLine; j += kLanes) add(j);
  }
  for (; i + kLanes <= k; i += kLanes) add(i);
  for (int c = 0; c < kCount; ++c) {
    for (int m = 0; m < kRows; ++m) {
      float sum = 0;
      for (int l = 0; l < kLanes; ++l) sum += sums[c][m][l];
      for (int64_t j = i; j < k; ++j) sum += x[m * k + j] * static_cast<float>(w[c * ldw + j]);
      y[m * ldy + c] = sum;
    }
  }
}

template <int kBytes, int kRows>
SMELT_INLINE void Columns(int64_t k, const float* x, const int8_t* w, int64_t ldw, int64_t n, float* y) {
  int64_t c = 0;
  for (; c + kColumns <= n; c += kColumns) Block<kBytes, kRows, kColumns>(k, x, w + c * ldw, ldw, y + c, n);
  for (; c < n; ++c) Block<kBytes, kRows, 1>(k, x, w + c * ldw, ldw, y + c, n);
}

// The same for n columns and up to kMostRows rows; y is dense.
void MultiplyFew(int64_t m, int64_t k, const float* x, const int8_t* w, int64_t ldw, int64_t n, float* y) {
  AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
    if (m == 1) {
      Columns<bytes, 1>(k, x, w, ldw, n, y);
    } else if (m == 2) {
      Columns<bytes, 2>(k, x, w, ldw, n, y);
    } else if (m == 3) {
      Columns<bytes, 3>(k, x, w, ldw, n, y);
    } else {
      Columns<bytes, 4>(k, x, w, ldw, n, y);
    }
  });
}

template <typename T, typename F>
SMELT_INLINE void WidenRow(const int8_t* from, int64_t n, T* to, const F& widen) {
  for (int64_t i = 0; i < n; ++i) to[i] = widen(static_cast<float>(from[i]));
}

class Int8Matmul : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r, PackedWeights* packed) {
    auto op = std::unique_ptr<Int8Matmul>(new Int8Matmul(r));
    if (op->m_ <= kMostRows) {
      // About 64 KiB of the weight for each thread's turn.
      op->step_ = std::clamp<int64_t>((int64_t{64} << 10) / std::max<int64_t>(op->k_, 1) / 16 * 16, 16, 1024);
    } else {
      op->step_ = std::min(kWidened, op->n_);
      LibraryRequest product;
      product.op = "matmul";
      product.inputs = {r.inputs[0], {true, r.inputs[0].dtype, {op->k_, op->step_}, {1, op->k_}}};
      product.inputs[0].constant = nullptr;
      product.outputs = {{true, DType::kFloat32, {op->m_, op->step_}, {op->step_, 1}}};
      SMELT_ASSIGN_OR_RETURN(op->product_, MakeMatmul(product, packed));
    }
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (out_.NumElements() == 0) return absl::OkStatus();
    const int64_t tiles = (n_ + step_ - 1) / step_;
    const float* x = nullptr;
    if (product_ == nullptr) x = Floats(inputs[0]);  // all threads read this thread's scratch
    std::atomic<bool> failed = false;
    context.For(tiles, [&](int64_t tile) {
      // The last columns are computed together with some before them: equal numbers twice.
      const int64_t begin = product_ == nullptr ? tile * step_ : std::min(tile * step_, n_ - step_);
      const int64_t count = std::min(step_, n_ - begin);
      float* const y = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kDestination, m_ * count * 4));
      const int8_t* w = reinterpret_cast<const int8_t*>(inputs[1]) + begin * weight_.strides[0];
      int64_t ldw = weight_.strides[0];
      if (weight_.strides[1] != 1) {
        char* const dense = Scratch::Get(ScratchUse::kOther, count * k_);
        CopyStrided(dense, {k_, 1}, reinterpret_cast<const char*>(w), weight_.strides, {count, k_}, 1);
        w = reinterpret_cast<const int8_t*>(dense);
        ldw = k_;
      }
      if (product_ == nullptr) {
        MultiplyFew(m_, k_, x, w, ldw, count, y);
      } else {
        char* const widened = Scratch::Get(ScratchUse::kSource, count * k_ * ItemSize(rows_.dtype));
        WidenColumns(w, ldw, count, widened);
        LibraryContext alone;
        if (!product_->Run(alone, {inputs[0], widened}, {reinterpret_cast<char*>(y)}).ok()) {
          failed.store(true, std::memory_order_relaxed);
          return;
        }
      }
      Finish(y, begin, begin < tile * step_ ? tile * step_ - begin : 0, count, inputs[2], outputs[0]);
    });
    return failed ? absl::ResourceExhaustedError("int8_mm: the library failed") : absl::OkStatus();
  }

 private:
  explicit Int8Matmul(const LibraryRequest& r)
      : rows_(r.inputs[0]),
        weight_(r.inputs[1]),
        scales_(r.inputs[2]),
        out_(r.outputs[0]),
        m_(rows_.sizes[0]),
        n_(weight_.sizes[0]),
        k_(rows_.sizes[1]) {}

  // The rows in float32, dense.
  const float* Floats(const char* rows) const {
    if (rows_.dtype == DType::kFloat32 && rows_.IsDense()) return reinterpret_cast<const float*>(rows);
    const int64_t item = ItemSize(rows_.dtype);
    float* const x = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kWeights, m_ * k_ * 4));
    for (int64_t i = 0; i < m_; ++i)
      ToFloats(rows_.dtype, rows + i * rows_.strides[0] * item, rows_.strides[1], k_, x + i * k_);
    return x;
  }

  void WidenColumns(const int8_t* w, int64_t ldw, int64_t count, char* to) const {
    const DType t = rows_.dtype;
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      for (int64_t c = 0; c < count; ++c) {
        const int8_t* const column = w + c * ldw;
        if (t == DType::kFloat32) {
          WidenRow(column, k_, reinterpret_cast<float*>(to) + c * k_, [](float v) { return v; });
        } else if (t == DType::kBFloat16) {
          // Seven bits fit: the rest of the float's are zeros.
          WidenRow(column, k_, reinterpret_cast<uint16_t*>(to) + c * k_, [](float v) SMELT_ALWAYS_INLINE {
            uint32_t bits;
            std::memcpy(&bits, &v, sizeof bits);
            return static_cast<uint16_t>(bits >> 16);
          });
        } else {
          WidenRow(column, k_, reinterpret_cast<uint16_t*>(to) + c * k_, [](float v) { return FloatToHalf(v); });
        }
      }
    });
  }

  // Scales columns [begin + first, begin + count) of the result, rounds once and stores them.
  void Finish(float* y, int64_t begin, int64_t first, int64_t count, const char* scales, char* out) const {
    const int64_t item = ItemSize(out_.dtype), scale_item = ItemSize(scales_.dtype);
    float scale[1024];
    const bool one = scales_.sizes[0] == 1;
    ToFloats(scales_.dtype, scales + (one ? 0 : begin * scales_.strides[0] * scale_item), one ? 0 : scales_.strides[0],
             count, scale);
    for (int64_t i = 0; i < m_; ++i) {
      float* const row = y + i * count;
      for (int64_t j = first; j < count; ++j) row[j] *= scale[j];
      FromFloats(out_.dtype, row + first, count - first,
                 out + (i * out_.strides[0] + (begin + first) * out_.strides[1]) * item, out_.strides[1]);
    }
  }

  const OperandShape rows_, weight_, scales_, out_;
  const int64_t m_, n_, k_;
  int64_t step_ = 0;                           // columns at a time, at most 1024
  std::shared_ptr<const PreparedOp> product_;  // of rows and widened columns; null: they are few
};

// The sum of each row of a matrix of int8: of a constant one it is computed when the op is prepared.
class RowSums : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r, PackedWeights* packed) {
    auto op = std::unique_ptr<RowSums>(new RowSums(r.inputs[0], r.outputs[0]));
    const OperandShape& w = r.inputs[0];
    if (w.constant == nullptr || w.NumElements() == 0) return op;
    SMELT_ASSIGN_OR_RETURN(op->known_, packed->Get(PackedWeights::SourceOf(w.constant, w.sizes, w.strides, 1),
                                                   absl::StrCat("sums of the rows of ", w.sizes[0], "x", w.sizes[1],
                                                                " by ", w.strides[0], ",", w.strides[1]),
                                                   w.sizes[0] * static_cast<int64_t>(sizeof(int32_t)), [&](char* to) {
                                                     op->Sum(w.constant, to, 1);
                                                     return absl::OkStatus();
                                                   }));
    return op;
  }

  absl::Status Run(const LibraryContext&, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (known_ == nullptr) {
      Sum(inputs[0], outputs[0], out_.strides[0]);
      return absl::OkStatus();
    }
    const int64_t dense = 1;
    CopyStrided(outputs[0], out_.strides, known_.get(), {&dense, 1}, out_.sizes, sizeof(int32_t));
    return absl::OkStatus();
  }

 private:
  RowSums(OperandShape weight, OperandShape out) : weight_(std::move(weight)), out_(std::move(out)) {}

  void Sum(const char* weight, char* to, int64_t step) const {
    const auto* w = reinterpret_cast<const int8_t*>(weight);
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      for (int64_t i = 0; i < weight_.sizes[0]; ++i) {
        uint32_t sum = 0;  // it wraps, as PyTorch's does
        for (int64_t j = 0; j < weight_.sizes[1]; ++j)
          sum += static_cast<uint32_t>(w[i * weight_.strides[0] + j * weight_.strides[1]]);
        reinterpret_cast<uint32_t*>(to)[i * step] = sum;
      }
    });
  }

  const OperandShape weight_, out_;
  std::shared_ptr<const char> known_;
};

}  // namespace

MakeResult MakeRowSums(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 1, 1, 0));
  const OperandShape &weight = r.inputs[0], &out = r.outputs[0];
  if (weight.rank() != 2 || out.rank() != 1 || weight.sizes[0] != out.sizes[0])
    return absl::InvalidArgumentError("row_sums: the operands do not fit each other");
  if (weight.dtype != DType::kInt8 || out.dtype != DType::kInt32)
    return absl::UnimplementedError(absl::StrCat("row_sums of ", Name(weight.dtype), " in ", Name(out.dtype)));
  return RowSums::Make(r, packed);
}

MakeResult MakeInt8Matmul(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 3, 1, 1, 0));
  const OperandShape &rows = r.inputs[0], &weight = r.inputs[1], &scales = r.inputs[2], &out = r.outputs[0];
  if (rows.rank() != 2 || weight.rank() != 2 || scales.rank() != 1 || out.rank() != 2 ||
      weight.sizes[1] != rows.sizes[1] || out.sizes[0] != rows.sizes[0] || out.sizes[1] != weight.sizes[0] ||
      (scales.sizes[0] != 1 && scales.sizes[0] != weight.sizes[0]))
    return absl::InvalidArgumentError("int8_mm: the operands do not fit each other");
  if (!AddsInFloat32(rows.dtype) || !AddsInFloat32(scales.dtype) || weight.dtype != DType::kInt8 ||
      out.dtype != rows.dtype)
    return absl::UnimplementedError(
        absl::StrCat("int8_mm of ", Name(rows.dtype), ", ", Name(weight.dtype), " and ", Name(scales.dtype)));
  return Int8Matmul::Make(r, packed);
}

}  // namespace smelt::library_internal
