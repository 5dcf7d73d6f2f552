#include "smelt/runtime/library/int8_matmul.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float8.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/strided.h"

namespace smelt::library_internal {
namespace {

constexpr int kMostRows = 4;  // that are multiplied directly
// Vectors of 16 bytes widen float8 no faster than a table does.
int64_t MostRows(DType weight) { return IsFloat8(weight) && LibraryLevel() < 3 ? 0 : kMostRows; }
constexpr int kColumns = 4;        // that share each load of the rows
constexpr int64_t kWidened = 128;  // columns at a time

template <int kLanes>
using Floats = typename Vector<float, kLanes * 4>::Type;
template <int kLanes>
using Words = typename Vector<uint32_t, kLanes * 4>::Type;

template <int kLanes>
SMELT_INLINE float Sum(const Floats<kLanes>& v) {
  if constexpr (kLanes == 4) {
    return (v[0] + v[1]) + (v[2] + v[3]);
  } else {
    using Half = Floats<kLanes / 2>;
    Half halves[2];
    std::memcpy(halves, &v, sizeof(v));
    const Half both = halves[0] + halves[1];
    return Sum<kLanes / 2>(both);
  }
}

// Loads bytes as words of 32 bits that have their sign.
template <int kLanes>
SMELT_INLINE void LoadSigned(const uint8_t* p, Words<kLanes>& words) {
#if defined(__x86_64__) && !defined(__clang__)
  // One instruction in a function of that level. gcc does not find it; clang does, and takes registers of a level in
  // assembly only in a function of that level, which this becomes part of later.
  if constexpr (kLanes == 16 || kLanes == 8) {
    struct __attribute__((packed)) Bits {
      int8_t bytes[kLanes];
    };
    asm("vpmovsxbd %1, %0" : "=v"(words) : "m"(*reinterpret_cast<const Bits*>(p)));
    return;
  }
#endif
  typename Vector<int8_t, kLanes>::Type bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
  const auto halves = __builtin_convertvector(bytes, typename Vector<int16_t, 2 * kLanes>::Type);
  words = (Words<kLanes>)__builtin_convertvector(halves, typename Vector<int32_t, 4 * kLanes>::Type);
}

// An element of the weight: how one is widened, and a vector of them.
struct Int8Element {
  float Widen(uint8_t byte) const { return static_cast<float>(static_cast<int8_t>(byte)); }
  template <int kLanes>
  SMELT_INLINE void Load(const uint8_t* p, Floats<kLanes>& v) const {
    Words<kLanes> words;
    LoadSigned<kLanes>(p, words);
    v = __builtin_convertvector((typename Vector<int32_t, kLanes * 4>::Type) words, Floats<kLanes>);
  }
};
// By way of float16, which float8_e5m2 is the upper byte of, and whose exponent exceeds float8_e4m3fn's by 8.
class Float8Element {
 public:
  explicit Float8Element(DType t)
      : type_(t), shift_(t == DType::kFloat8E5M2 ? 8 : 7), factor_(t == DType::kFloat8E5M2 ? 1 : 256) {}
  float Widen(uint8_t byte) const { return Float8ToFloat(type_, byte); }
  template <int kLanes>
  SMELT_INLINE void Load(const uint8_t* p, Floats<kLanes>& v) const {
    using Halves = typename Vector<uint16_t, kLanes * 2>::Type;
    Halves halves;
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (kLanes == 16 || kLanes == 8) {
      struct __attribute__((packed)) Bits {
        int8_t bytes[kLanes];
      };
      asm("vpmovsxbw %1, %0" : "=v"(halves) : "m"(*reinterpret_cast<const Bits*>(p)));
      Place(halves);
      asm("vcvtph2ps %1, %0" : "=v"(v) : "v"(halves));
      v *= factor_;
      return;
    }
#endif
    typename Vector<int8_t, kLanes>::Type bytes;
    std::memcpy(&bytes, p, sizeof(bytes));
    halves = (Halves) __builtin_convertvector(bytes, typename Vector<int16_t, kLanes * 2>::Type);
    Place(halves);
    uint16_t bits[kLanes];
    std::memcpy(bits, &halves, sizeof(halves));
    LoadFloat16<kLanes>(bits, v);
    v *= factor_;
  }

 private:
  // Makes float16 of bytes with copies of their sign above them.
  template <typename Halves>
  SMELT_INLINE void Place(Halves& halves) const {
    halves <<= shift_;
    if (shift_ == 8) return;
    halves &= 0xbf80;
    halves |= (Halves)((halves & 0x3f80) == 0x3f80) & 0x7c00;  // the NaN
  }

  DType type_;
  int shift_;
  float factor_;
};

// y[m, c] = the sum over k of x[m, k] * w[c, k], for dense rows x and `kCount` columns c.
template <typename Element, int kBytes, int kRows, int kCount>
SMELT_INLINE void Block(const Element& e, int64_t k, const float* x, const uint8_t* w, int64_t ldw, float* y,
                        int64_t ldy) {
  using V = typename Vector<float, kBytes>::Type;
  using Unaligned = typename Vector<float, kBytes>::Unaligned;
  constexpr int kLanes = kBytes / 4;
  constexpr int kLine = 64;  // bytes of the weight
  V sums[kCount][kRows] = {};
  const auto add = [&](int64_t i) SMELT_ALWAYS_INLINE {
    V columns[kCount];
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) e.template Load<kLanes>(w + c * ldw + i, columns[c]);
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) {
      const V row = *reinterpret_cast<const Unaligned*>(x + m * k + i);
#pragma GCC unroll 4
      for (int c = 0; c < kCount; ++c) sums[c][m] += columns[c] * row;
    }
  };
  int64_t i = 0;
  for (; i + kLine <= k; i += kLine) {
    // A column is often as short as a page, at whose end the machine stops to read ahead.
    for (int c = 0; c < kCount; ++c) __builtin_prefetch(w + (c + kCount) * ldw + i);
    for (int64_t j = i; j < i + kLine; j += kLanes) add(j);
  }
  for (; i + kLanes <= k; i += kLanes) add(i);
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) {
#pragma GCC unroll 4
    for (int m = 0; m < kRows; ++m) y[m * ldy + c] = Sum<kLanes>(sums[c][m]);
  }
  for (; i < k; ++i) {
    for (int c = 0; c < kCount; ++c) {
      const float column = e.Widen(w[c * ldw + i]);
      for (int m = 0; m < kRows; ++m) y[m * ldy + c] += x[m * k + i] * column;
    }
  }
}

template <typename Element, int kBytes, int kRows>
SMELT_INLINE void Columns(const Element& e, int64_t k, const float* x, const uint8_t* w, int64_t ldw, int64_t n,
                          float* y) {
  int64_t c = 0;
  for (; c + kColumns <= n; c += kColumns) Block<Element, kBytes, kRows, kColumns>(e, k, x, w + c * ldw, ldw, y + c, n);
  for (; c < n; ++c) Block<Element, kBytes, kRows, 1>(e, k, x, w + c * ldw, ldw, y + c, n);
}

template <typename Element, int kBytes>
SMELT_INLINE void Rows(const Element& e, int64_t m, int64_t k, const float* x, const uint8_t* w, int64_t ldw, int64_t n,
                       float* y) {
  if (m == 1) {
    Columns<Element, kBytes, 1>(e, k, x, w, ldw, n, y);
  } else if (m == 2) {
    Columns<Element, kBytes, 2>(e, k, x, w, ldw, n, y);
  } else if (m == 3) {
    Columns<Element, kBytes, 3>(e, k, x, w, ldw, n, y);
  } else {
    Columns<Element, kBytes, 4>(e, k, x, w, ldw, n, y);
  }
}

// The same for n columns and up to kMostRows rows; y is dense.
void MultiplyFew(DType type, int64_t m, int64_t k, const float* x, const uint8_t* w, int64_t ldw, int64_t n, float* y) {
  AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
    if constexpr (bytes < 32) {
      Rows<Int8Element, bytes>(Int8Element(), m, k, x, w, ldw, n, y);
    } else if (IsFloat8(type)) {
      Rows<Float8Element, bytes>(Float8Element(type), m, k, x, w, ldw, n, y);
    } else {
      Rows<Int8Element, bytes>(Int8Element(), m, k, x, w, ldw, n, y);
    }
  });
}

template <typename T, typename F>
SMELT_INLINE void WidenRow(const uint8_t* from, int64_t n, T* to, const F& widen) {
  for (int64_t i = 0; i < n; ++i) to[i] = widen(Int8Element().Widen(from[i]));
}

// Copies a row's elements as they stand in a table of the bits of each of the 256 bytes.
template <typename T>
void LookUp(const uint8_t* from, int64_t n, const uint32_t* table, T* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(table[from[i]]);
}

class Int8Matmul : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r, PackedWeights* packed) {
    auto op = std::unique_ptr<Int8Matmul>(new Int8Matmul(r));
    if (op->m_ <= MostRows(r.inputs[1].dtype)) {
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
    if (product_ == nullptr) x = DenseFloats(inputs[0]);  // all threads read this thread's scratch
    std::atomic<bool> failed = false;
    context.For(tiles, [&](int64_t tile) {
      // The last columns are computed together with some before them: equal numbers twice.
      const int64_t begin = product_ == nullptr ? tile * step_ : std::min(tile * step_, n_ - step_);
      const int64_t count = std::min(step_, n_ - begin);
      float* const y = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kDestination, m_ * count * 4));
      const uint8_t* w = reinterpret_cast<const uint8_t*>(inputs[1]) + begin * weight_.strides[0];
      int64_t ldw = weight_.strides[0];
      if (weight_.strides[1] != 1) {
        char* const dense = Scratch::Get(ScratchUse::kOther, count * k_);
        CopyStrided(dense, {k_, 1}, reinterpret_cast<const char*>(w), weight_.strides, {count, k_}, 1);
        w = reinterpret_cast<const uint8_t*>(dense);
        ldw = k_;
      }
      if (product_ == nullptr) {
        MultiplyFew(weight_.dtype, m_, k_, x, w, ldw, count, y);
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
        k_(rows_.sizes[1]) {
    for (int b = 0; b < 256 && IsFloat8(weight_.dtype); ++b) {
      const float v = Float8ToFloat(weight_.dtype, static_cast<uint8_t>(b));
      widened_.push_back(rows_.dtype == DType::kFloat32    ? std::bit_cast<uint32_t>(v)
                         : rows_.dtype == DType::kBFloat16 ? FloatToBFloat16(v)
                                                           : FloatToHalf(v));
    }
  }

  // The rows in float32, dense.
  const float* DenseFloats(const char* rows) const {
    if (rows_.dtype == DType::kFloat32 && rows_.IsDense()) return reinterpret_cast<const float*>(rows);
    const int64_t item = ItemSize(rows_.dtype);
    float* const x = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kWeights, m_ * k_ * 4));
    for (int64_t i = 0; i < m_; ++i)
      ToFloats(rows_.dtype, rows + i * rows_.strides[0] * item, rows_.strides[1], k_, x + i * k_);
    return x;
  }

  void WidenColumns(const uint8_t* w, int64_t ldw, int64_t count, char* to) const {
    const DType t = rows_.dtype;
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      for (int64_t c = 0; c < count; ++c) {
        const uint8_t* const column = w + c * ldw;
        float* const floats = reinterpret_cast<float*>(to) + c * k_;
        uint16_t* const halves = reinterpret_cast<uint16_t*>(to) + c * k_;
        if (!widened_.empty()) {
          if (t == DType::kFloat32) {
            LookUp(column, k_, widened_.data(), reinterpret_cast<uint32_t*>(floats));
          } else {
            LookUp(column, k_, widened_.data(), halves);
          }
        } else if (t == DType::kFloat32) {
          WidenRow(column, k_, floats, [](float v) { return v; });
        } else if (t == DType::kBFloat16) {
          // Seven bits fit: the rest of the float's are zeros.
          WidenRow(column, k_, halves,
                   [](float v) SMELT_ALWAYS_INLINE { return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16); });
        } else {
          WidenRow(column, k_, halves, [](float v) { return FloatToHalf(v); });
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
  std::vector<uint32_t> widened_;              // the bits of each float8 in the rows' dtype; empty for int8
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
  if (!AddsInFloat32(rows.dtype) || !AddsInFloat32(scales.dtype) ||
      (weight.dtype != DType::kInt8 && !IsFloat8(weight.dtype)) || out.dtype != rows.dtype)
    return absl::UnimplementedError(
        absl::StrCat("int8_mm of ", Name(rows.dtype), ", ", Name(weight.dtype), " and ", Name(scales.dtype)));
  return Int8Matmul::Make(r, packed);
}

}  // namespace smelt::library_internal
