#include "smelt/runtime/library/int4_matmul.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/core/tensor/int4_form.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/matmul.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/strided.h"

namespace smelt::library_internal {
namespace {

// Rows that are multiplied directly, as floats and as pairs of bfloat16, which other matrices are multiplied by faster.
constexpr int64_t kMostRows = 64, kMostPairRows = 40;
constexpr int kTileRows = 8;  // that share each element in registers
constexpr int kLine = 16;     // columns of a packed vector
constexpr int kLines = 4;     // vectors of a block
constexpr int kBlock = kLine * kLines;
constexpr int kWord = 8;            // elements of a word
constexpr int64_t kTileBlocks = 4;  // that become floats together

// The way in which an addend of the columns of a group is stored.
enum class Offset { kNone, kInt8, kBFloat16, kFloat32 };

struct Weight {
  Int4Form form;
  OperandShape elements, scales, zeros;  // scales and zeros [n, groups]
  int64_t n, k, groups, group;

  const char* At(const char* base, const OperandShape& o, int64_t i, int64_t j) const {
    return base + (i * o.strides[0] + j * o.strides[1]) * ItemSize(o.dtype);
  }
  int Element(const char* w, int64_t column, int64_t depth) const {
    if (form != Int4Form::kBlocks) {
      const char* const p = At(w, elements, column, depth);
      return elements.dtype == DType::kInt8 ? static_cast<int>(static_cast<int8_t>(*p)) : static_cast<uint8_t>(*p);
    }
    return BlockedInt4(reinterpret_cast<const uint8_t*>(w), n, k, column, depth);
  }
  float Scale(const char* s, int64_t column, int64_t g) const {
    return static_cast<float>(LoadDouble(At(s, scales, column, g), scales.dtype));
  }
  float Zero(const char* z, int64_t column, int64_t g) const {
    return static_cast<float>(LoadDouble(At(z, zeros, column, g), zeros.dtype));
  }
  // Writes columns [begin, begin + count) from the operands as they are: to[depth * step + column - begin].
  void Dequantize(const char* w, const char* s, const char* z, int64_t begin, int64_t count, int64_t step,
                  float* to) const {
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t g = 0; g < groups; ++g) {
        const float scale = Scale(s, begin + c, g), zero = form == Int4Form::kBytes ? 0 : Zero(z, begin + c, g);
        for (int64_t i = g * group; i < (g + 1) * group; ++i) {
          const float q = static_cast<float>(Element(w, begin + c, i));
          to[i * step + c] = form == Int4Form::kBlocks ? (q - 8) * scale + zero : (q - zero) * scale;
        }
      }
    }
  }
};

// The packed form of a weight.
struct Packing {
  bool small_scales = false;  // bfloat16, else float32
  Offset offset = Offset::kNone;
  int64_t n = 0, group = 0, groups = 0, words = 0;  // words: of a column in a group

  int64_t scale_bytes() const { return small_scales ? 2 : 4; }
  int64_t offset_bytes() const {
    return offset == Offset::kNone ? 0 : offset == Offset::kInt8 ? 1 : offset == Offset::kBFloat16 ? 2 : 4;
  }
  int64_t LinesOf(int64_t block) const { return std::min<int64_t>(kLines, (n - block * kBlock + kLine - 1) / kLine); }
  int64_t GroupBytes(int64_t lines) const { return lines * kLine * (scale_bytes() + offset_bytes() + words * 4); }
  int64_t BlockAt(int64_t block) const { return block * groups * GroupBytes(kLines); }
  int64_t blocks() const { return (n + kBlock - 1) / kBlock; }
  int64_t bytes() const { return BlockAt(blocks() - 1) + groups * GroupBytes(LinesOf(blocks() - 1)); }

  // Returns the number of the element that is at a place of a word.
  static int ElementAt(int place) { return place < 4 ? 2 * place : 2 * (place - 4) + 1; }
};

template <typename V, typename T>
SMELT_INLINE void LoadWide(const void* p, V& v) {  // of T, converted
  constexpr int kLanes = sizeof(V) / 4;
  typename Vector<T, kLanes* static_cast<int>(sizeof(T))>::Type narrow;
  std::memcpy(&narrow, p, sizeof(narrow));
  v = __builtin_convertvector(narrow, V);
}

template <int kLanes>
using Floats = typename Vector<float, kLanes * 4>::Type;
template <int kLanes>
using Words = typename Vector<uint32_t, kLanes * 4>::Type;

// Gives the lowest 4 bits of each word, less 8.
template <int kLanes>
SMELT_INLINE void LowElement(const Words<kLanes>& words, Floats<kLanes>& v) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (kLanes == 16) {
    // The index is the lowest 4 bits.
    const Floats<16> table = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    asm("vpermps %2, %1, %0" : "=v"(v) : "v"(words), "v"(table));
    return;
  }
#endif
  using Ints = typename Vector<int32_t, kLanes * 4>::Type;
  v = __builtin_convertvector((Ints)(words & 15) - 8, Floats<kLanes>);
}

template <int kLanes>
SMELT_INLINE void LoadScales(const Packing& p, const char* at, int64_t i, Floats<kLanes>& v) {
  if (p.small_scales) {
    LoadBFloat16<kLanes>(reinterpret_cast<const uint16_t*>(at) + i, v);
  } else {
    std::memcpy(&v, at + i * 4, sizeof(v));
  }
}
template <int kLanes>
SMELT_INLINE void LoadOffsets(const Packing& p, const char* at, int64_t i, const Floats<kLanes>& scales,
                              Floats<kLanes>& v) {
  if (p.offset == Offset::kInt8) {
    LoadWide<Floats<kLanes>, int8_t>(at + i, v);
    v *= scales;
  } else if (p.offset == Offset::kBFloat16) {
    LoadBFloat16<kLanes>(reinterpret_cast<const uint16_t*>(at) + i, v);
  } else {
    std::memcpy(&v, at + i * 4, sizeof(v));
  }
}

// Rows in the form in which blocks are multiplied: each group is padded with zeros to whole words.
struct Rows {
  const float* x = nullptr;         // [rows, groups, words * 8]
  const uint16_t* pairs = nullptr;  // the same in bfloat16; null: x is read
  int64_t step = 0;                 // from row to row of both
  const float* sums = nullptr;      // [rows, groups]

  Rows From(int64_t row, int64_t groups) const {
    return {x + row * step, pairs == nullptr ? nullptr : pairs + row * step, step, sums + row * groups};
  }
};

// y[m * ldy + j] for kCount vectors of columns of a block, from column `first` of the block on. It is one function
// because the sums must stay in registers.
template <int kLanes, int kRows, int kCount, bool kPairs>
SMELT_INLINE void Columns(const Packing& p, const char* block, int64_t lines, int64_t first, const Rows& rows, float* y,
                          int64_t ldy) {
  using V = Floats<kLanes>;
  const int64_t width = lines * kLine, step = p.words * kWord, depth = rows.step;
  // Registers hold the sums of many rows for one group alone.
  constexpr bool kTotalsInMemory = kRows > 4;
  V totals[kTotalsInMemory ? 1 : kRows][kCount] = {};
  for (int64_t g = 0; g < p.groups; ++g) {
    const char* const at = block + g * p.GroupBytes(lines);
    const char* const offsets = at + width * p.scale_bytes();
    const char* words = offsets + width * p.offset_bytes() + first * 4;
    V sums[kRows][kCount] = {};
    for (int64_t i = 0; i < p.words; ++i, words += width * 4) {
      Words<kLanes> w[kCount];
      for (int c = 0; c < kCount; ++c) std::memcpy(&w[c], words + c * kLanes * 4, sizeof(w[c]));
      __builtin_prefetch(words + 2048);
      const int64_t x = g * step + i * kWord;
#if defined(__x86_64__) && !defined(__clang__)
      if constexpr (kPairs) {
        constexpr uint16_t kTable[32] = {0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80,
                                         0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0,
                                         0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80,
                                         0,      0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0};
        Words<16> table;
        std::memcpy(&table, kTable, sizeof(table));
#pragma GCC unroll 8
        for (int e = 0; e < kWord / 2; ++e) {
#pragma GCC unroll 8
          for (int c = 0; c < kCount; ++c) {
            // The index is the lowest 5 bits of each half.
            Words<16> pair;
            asm("vpermw %2, %1, %0" : "=v"(pair) : "v"(w[c]), "v"(table));
#pragma GCC unroll 8
            for (int m = 0; m < kRows; ++m) {
              const auto* both =
                  reinterpret_cast<const uint32_t __attribute__((may_alias))*>(rows.pairs + m * depth + x) + e;
              asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sums[m][c]) : "v"(pair), "m"(*both));
            }
            w[c] >>= 4;
          }
        }
        continue;
      }
#endif
#pragma GCC unroll 8
      for (int e = 0; e < kWord; ++e) {
#pragma GCC unroll 8
        for (int c = 0; c < kCount; ++c) {
          V element;
          LowElement<kLanes>(w[c], element);
#pragma GCC unroll 8
          for (int m = 0; m < kRows; ++m) sums[m][c] += element * rows.x[m * depth + x + Packing::ElementAt(e)];
          w[c] >>= 4;
        }
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c) {
      V scales, offset = {};
      LoadScales<kLanes>(p, at, first + c * kLanes, scales);
      if (p.offset != Offset::kNone) LoadOffsets<kLanes>(p, offsets, first + c * kLanes, scales, offset);
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        if constexpr (kTotalsInMemory) {
          float* const place = y + m * ldy + first + c * kLanes;
          V total = {};
          if (g > 0) std::memcpy(&total, place, sizeof(total));
          total += sums[m][c] * scales + offset * rows.sums[m * p.groups + g];
          std::memcpy(place, &total, sizeof(total));
        } else {
          totals[m][c] += sums[m][c] * scales;
          if (p.offset != Offset::kNone) totals[m][c] += offset * rows.sums[m * p.groups + g];
        }
      }
    }
  }
  if constexpr (kTotalsInMemory) return;
  for (int m = 0; m < kRows; ++m) {
    for (int c = 0; c < kCount; ++c) std::memcpy(y + m * ldy + first + c * kLanes, &totals[m][c], sizeof(V));
  }
}

template <int kLanes, int kRows, bool kPairs>
SMELT_INLINE void Block(const Packing& p, const char* block, int64_t lines, const Rows& rows, float* y, int64_t ldy) {
  // As many vectors as registers hold together with their sums.
  constexpr int kCount = kRows == 1 ? 4 : kLanes == 16 ? 2 : 1;
  const int64_t width = lines * kLine;
  int64_t i = 0;
  for (; i + kCount * kLanes <= width; i += kCount * kLanes)
    Columns<kLanes, kRows, kCount, kPairs>(p, block, lines, i, rows, y, ldy);
  for (; i < width; i += kLanes) Columns<kLanes, kRows, 1, kPairs>(p, block, lines, i, rows, y, ldy);
}

// Some rows may follow the last of `m`: what they multiply is written to y behind the others.
template <int kLanes, bool kPairs>
SMELT_INLINE void RowsOfBlock(const Packing& p, const char* block, int64_t lines, int64_t m, const Rows& rows, float* y,
                              int64_t ldy) {
  int64_t i = 0;
  for (; m - i > 4; i += kTileRows)
    Block<kLanes, kTileRows, kPairs>(p, block, lines, rows.From(i, p.groups), y + i * ldy, ldy);
  const Rows last = rows.From(i, p.groups);
  y += i * ldy;
  if (m - i == 1) Block<kLanes, 1, kPairs>(p, block, lines, last, y, ldy);
  if (m - i == 2) Block<kLanes, 2, kPairs>(p, block, lines, last, y, ldy);
  if (m - i == 3) Block<kLanes, 3, kPairs>(p, block, lines, last, y, ldy);
  if (m - i == 4) Block<kLanes, 4, kPairs>(p, block, lines, last, y, ldy);
}

// Writes group g of a block as floats: to[i * step + column of the block].
template <int kLanes>
SMELT_INLINE void Widen(const Packing& p, const char* block, int64_t lines, int64_t g, int64_t step, float* to) {
  using V = Floats<kLanes>;
  const int64_t width = lines * kLine;
  const char* const at = block + g * p.GroupBytes(lines);
  const char* const offsets = at + width * p.scale_bytes();
  const char* const words = offsets + width * p.offset_bytes();
  for (int64_t c = 0; c < width; c += kLanes) {
    V scales, offset = {};
    LoadScales<kLanes>(p, at, c, scales);
    if (p.offset != Offset::kNone) LoadOffsets<kLanes>(p, offsets, c, scales, offset);
    for (int64_t i = 0; i < p.words; ++i) {
      Words<kLanes> w;
      std::memcpy(&w, words + (i * width + c) * 4, sizeof(w));
      for (int e = 0; e < kWord; ++e, w >>= 4) {
        const int64_t row = i * kWord + Packing::ElementAt(e);
        if (row >= p.group) continue;
        V v;
        LowElement<kLanes>(w, v);
        v = v * scales + offset;
        std::memcpy(to + row * step + c, &v, sizeof(v));
      }
    }
  }
}

class Int4Matmul : public PreparedOp {
 public:
  static MakeResult Make(const LibraryRequest& r, Weight w, PackedWeights* packed) {
    auto op = std::unique_ptr<Int4Matmul>(new Int4Matmul(r, std::move(w)));
    if (op->out_.NumElements() == 0) return std::unique_ptr<PreparedOp>(std::move(op));
    op->step_ = std::min(kTileBlocks * kBlock, (op->w_.n + kLine - 1) / kLine * kLine);
    LibraryRequest product;
    product.op = "matmul";
    product.inputs = {r.inputs[0], {true, r.inputs[0].dtype, {op->w_.k, op->step_}, {op->step_, 1}}};
    product.inputs[0].constant = nullptr;
    product.outputs = {{true, DType::kFloat32, {op->m_, op->step_}, {op->step_, 1}}};
    SMELT_ASSIGN_OR_RETURN(op->product_, MakeMatmul(product, packed));
    SMELT_RETURN_IF_ERROR(op->Pack(r, packed));
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (out_.NumElements() == 0) return absl::OkStatus();
    Rows rows;
    const bool direct = packed_ != nullptr && m_ <= (pairs_ ? kMostPairRows : kMostRows) && Prepare(inputs[0], rows);
    // A tile of a direct product is about 64 KiB of the weight.
    const int64_t blocks = (w_.n + kBlock - 1) / kBlock;
    const int64_t per_tile =
        direct ? std::clamp<int64_t>((int64_t{64} << 10) / (w_.k * kBlock / 2), 1, 16) : kTileBlocks;
    std::atomic<bool> failed = false;
    context.For((blocks + per_tile - 1) / per_tile, [&](int64_t tile) {
      const int64_t first = tile * per_tile, last = std::min(first + per_tile, blocks);
      const int64_t begin = first * kBlock, count = std::min(last * kBlock, w_.n) - begin;
      const int64_t step = direct ? per_tile * kBlock : step_;
      float* const y = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kDestination, (m_ + kTileRows) * step * 4));
      if (direct) {
        Multiply(first, last, rows, y, step);
      } else {
        char* const b = Scratch::Get(ScratchUse::kSource, w_.k * step_ * ItemSize(rows_.dtype));
        Dequantize(first, last, inputs, b);
        LibraryContext alone;
        if (!product_->Run(alone, {inputs[0], b}, {reinterpret_cast<char*>(y)}).ok()) {
          failed.store(true, std::memory_order_relaxed);
          return;
        }
      }
      const int64_t item = ItemSize(out_.dtype);
      for (int64_t i = 0; i < m_; ++i) {
        FromFloats(out_.dtype, y + i * step, count, outputs[0] + (i * out_.strides[0] + begin * out_.strides[1]) * item,
                   out_.strides[1]);
      }
    });
    return failed ? absl::ResourceExhaustedError("int4_mm: the library failed") : absl::OkStatus();
  }

 private:
  Int4Matmul(const LibraryRequest& r, Weight w)
      : rows_(r.inputs[0]), out_(r.outputs[0]), w_(std::move(w)), m_(rows_.sizes[0]) {
    pairs_ = false;
#if defined(__x86_64__) && !defined(__clang__)
    pairs_ = rows_.dtype == DType::kBFloat16 && LibraryLevel() == 4 && CpuHas("avx512bf16");
#endif
  }

  // Packs constant operands whose elements have 4 bits.
  absl::Status Pack(const LibraryRequest& r, PackedWeights* packed) {
    const char *const w = r.inputs[1].constant, *const s = r.inputs[2].constant, *const z = r.inputs[3].constant;
    if (w == nullptr || s == nullptr || z == nullptr) return absl::OkStatus();
    int lowest = 8;  // what the stored element 8 stands for
    if (w_.form != Int4Form::kBlocks) {
      int low = 0, high = 0;
      for (int64_t c = 0; c < w_.n; ++c) {
        for (int64_t i = 0; i < w_.k; ++i) {
          const int q = w_.Element(w, c, i);
          low = std::min(low, q);
          high = std::max(high, q);
        }
      }
      if (low < -8 || high > 15 || (low < 0 && high > 7)) return absl::OkStatus();
      lowest = low < 0 ? 0 : 8;
    }
    Packing p;
    p.n = w_.n;
    p.group = w_.group;
    p.groups = w_.groups;
    p.words = (w_.group + kWord - 1) / kWord;
    p.small_scales = w_.scales.dtype == DType::kBFloat16;
    // The offset of the column: `lowest` less the zero point, times the scale; or the zero itself.
    const auto whole = [&](int64_t c, int64_t g) {
      return static_cast<float>(lowest) - (w_.form == Int4Form::kBytes ? 0 : w_.Zero(z, c, g));
    };
    if (w_.form == Int4Form::kBlocks) {
      p.offset = w_.zeros.dtype == DType::kBFloat16 ? Offset::kBFloat16 : Offset::kFloat32;
    } else {
      for (int64_t c = 0; c < w_.n; ++c) {
        for (int64_t g = 0; g < w_.groups; ++g) {
          const float v = whole(c, g);
          if (v != 0 && p.offset == Offset::kNone) p.offset = Offset::kInt8;
          if (!(v >= -128 && v <= 127 && v == std::nearbyint(v))) p.offset = Offset::kFloat32;
        }
      }
    }
    const auto text = [](const OperandShape& o) {
      return absl::StrCat(Name(o.dtype), " by ", o.strides[0], ",", o.strides[1], " ");
    };
    const std::string layout = absl::StrCat("int4 ", static_cast<int>(w_.form), " ", w_.n, "x", w_.k, " in ", w_.groups,
                                            " ", text(w_.elements), text(w_.scales), reinterpret_cast<uintptr_t>(s),
                                            " ", text(w_.zeros), reinterpret_cast<uintptr_t>(z));
    SMELT_ASSIGN_OR_RETURN(packed_, packed->Get(PackedWeights::SourceOf(w, r.inputs[1].sizes, r.inputs[1].strides, 1),
                                                layout, p.bytes(), [&](char* to) {
                                                  for (int64_t b = 0; b < p.blocks(); ++b) {
                                                    for (int64_t g = 0; g < p.groups; ++g) {
                                                      const int64_t lines = p.LinesOf(b);
                                                      PackGroup(p, w, s, z, lowest, b * kBlock, lines * kLine, g,
                                                                to + p.BlockAt(b) + g * p.GroupBytes(lines));
                                                    }
                                                  }
                                                  return absl::OkStatus();
                                                }));
    packing_ = p;
    return absl::OkStatus();
  }

  void PackGroup(const Packing& p, const char* w, const char* s, const char* z, int lowest, int64_t first,
                 int64_t width, int64_t g, char* to) const {
    std::vector<float> scales(width, 0), offsets(width, 0);
    for (int64_t c = 0; c < width && first + c < p.n; ++c) {
      scales[c] = w_.Scale(s, first + c, g);
      if (p.offset == Offset::kNone) continue;
      const float zero = w_.form == Int4Form::kBytes ? 0 : w_.Zero(z, first + c, g);
      offsets[c] = w_.form == Int4Form::kBlocks ? zero : static_cast<float>(lowest) - zero;
      if (w_.form != Int4Form::kBlocks && p.offset == Offset::kFloat32) offsets[c] *= scales[c];
    }
    FromFloats(p.small_scales ? DType::kBFloat16 : DType::kFloat32, scales.data(), width, to, 1);
    to += width * p.scale_bytes();
    if (p.offset == Offset::kInt8) {
      for (int64_t c = 0; c < width; ++c) to[c] = static_cast<char>(static_cast<int8_t>(offsets[c]));
    } else if (p.offset != Offset::kNone) {
      FromFloats(p.offset == Offset::kBFloat16 ? DType::kBFloat16 : DType::kFloat32, offsets.data(), width, to, 1);
    }
    to += width * p.offset_bytes();
    for (int64_t i = 0; i < p.words; ++i) {
      for (int64_t c = 0; c < width; ++c, to += 4) {
        uint32_t word = 0;
        for (int e = 0; e < kWord; ++e) {
          const int64_t at = i * kWord + Packing::ElementAt(e);
          int q = 8;
          if (first + c < p.n && at < p.group) q = w_.Element(w, first + c, g * p.group + at) - lowest + 8;
          word |= static_cast<uint32_t>(q & 15) << (4 * e);
        }
        std::memcpy(to, &word, 4);
      }
    }
  }

  // Returns false if some sum is not finite: what it is multiplied by may then not be split into a scale and an offset.
  bool Prepare(const char* data, Rows& rows) const {
    // Rows that are a power of two apart would fall on few sets of the nearest cache.
    constexpr int64_t kApart = 48;
    const int64_t step = packing_.words * kWord, depth = w_.groups * step + kApart, item = ItemSize(rows_.dtype);
    const int64_t whole = m_ <= 4 ? m_ : (m_ + kTileRows - 1) / kTileRows * kTileRows;
    char* const memory =
        Scratch::Get(ScratchUse::kWeights, whole * (depth * 2 + w_.groups) * static_cast<int64_t>(sizeof(float)));
    float* const x = reinterpret_cast<float*>(memory);
    uint16_t* const pairs = reinterpret_cast<uint16_t*>(x + whole * depth);
    float* const sums = x + 2 * whole * depth;
    std::fill(x + m_ * depth, x + whole * depth, 0.0f);
    std::fill(sums + m_ * w_.groups, sums + whole * w_.groups, 0.0f);
    bool finite = true;
    for (int64_t i = 0; i < m_; ++i) {
      for (int64_t g = 0; g < w_.groups; ++g) {
        float* const to = x + i * depth + g * step;
        ToFloats(rows_.dtype, data + (i * rows_.strides[0] + g * w_.group * rows_.strides[1]) * item, rows_.strides[1],
                 w_.group, to);
        std::fill(to + w_.group, to + step, 0.0f);
        float parts[kWord] = {};
        for (int64_t k = 0; k < step; k += kWord) {
          for (int j = 0; j < kWord; ++j) parts[j] += to[k + j];
        }
        float sum = 0;
        for (float part : parts) sum += part;
        sums[i * w_.groups + g] = sum;
        finite = finite && std::isfinite(sum);
      }
    }
    if (pairs_) {
      for (int64_t i = 0; i < whole; ++i)
        FromFloats(DType::kBFloat16, x + i * depth, depth - kApart, pairs + i * depth, 1);
    }
    rows = {x, pairs_ ? pairs : nullptr, depth, sums};
    return finite;
  }

  // Multiplies the rows by blocks [first, last).
  void Multiply(int64_t first, int64_t last, const Rows& rows, float* y, int64_t ldy) const {
    AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
      constexpr int kLanes = bytes / 4;
      for (int64_t b = first; b < last; ++b) {
        const char* const block = packed_.get() + packing_.BlockAt(b);
        const int64_t lines = packing_.LinesOf(b);
        float* const to = y + (b - first) * kBlock;
        if constexpr (kLanes == 16) {
          if (rows.pairs != nullptr) {
            RowsOfBlock<kLanes, true>(packing_, block, lines, m_, rows, to, ldy);
            continue;
          }
        }
        RowsOfBlock<kLanes, false>(packing_, block, lines, m_, rows, to, ldy);
      }
    });
  }

  // Writes blocks [first, last) in the rows' dtype, as a matrix [k, step_].
  void Dequantize(int64_t first, int64_t last, absl::Span<char* const> inputs, char* to) const {
    const bool convert = rows_.dtype != DType::kFloat32;
    const int64_t begin = first * kBlock, count = std::min(last * kBlock, w_.n) - begin, item = ItemSize(rows_.dtype);
    if (packed_ == nullptr) {
      float* floats = reinterpret_cast<float*>(convert ? Scratch::Get(ScratchUse::kOther, w_.k * step_ * 4) : to);
      if (count < step_) std::fill(floats, floats + w_.k * step_, 0.0f);
      w_.Dequantize(inputs[1], inputs[2], inputs[3], begin, count, step_, floats);
      if (convert) FromFloats(rows_.dtype, floats, w_.k * step_, to, 1);
      return;
    }
    float* const part =
        convert ? reinterpret_cast<float*>(Scratch::Get(ScratchUse::kOther, w_.group * step_ * 4)) : nullptr;
    for (int64_t g = 0; g < w_.groups; ++g) {
      char* const rows = to + g * w_.group * step_ * item;
      float* const floats = convert ? part : reinterpret_cast<float*>(rows);
      if (count < step_) std::fill(floats, floats + w_.group * step_, 0.0f);
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
        for (int64_t b = first; b < last; ++b) {
          Widen<bytes / 4>(packing_, packed_.get() + packing_.BlockAt(b), packing_.LinesOf(b), g, step_,
                           floats + (b - first) * kBlock);
        }
      });
      if (convert) FromFloats(rows_.dtype, floats, w_.group * step_, rows, 1);
    }
  }

  const OperandShape rows_, out_;
  const Weight w_;
  const int64_t m_;
  bool pairs_;                                 // bfloat16 is multiplied in pairs
  int64_t step_ = 0;                           // columns that become floats together: whole vectors
  std::shared_ptr<const PreparedOp> product_;  // of rows and such columns
  Packing packing_;
  std::shared_ptr<const char> packed_;  // null: the operands are read as they are
};

}  // namespace

MakeResult MakeInt4Matmul(const LibraryRequest& r, PackedWeights* packed) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 4, 4, 1, 1, 1));
  const OperandShape &rows = r.inputs[0], &weight = r.inputs[1], &scales = r.inputs[2], &out = r.outputs[0];
  if (r.ints[0] < 0 || r.ints[0] > static_cast<int64_t>(Int4Form::kBlocks))
    return absl::InvalidArgumentError(absl::StrCat("int4_mm: there is no form ", r.ints[0]));
  const auto form = static_cast<Int4Form>(r.ints[0]);
  for (const OperandShape* o : {&rows, &weight, &scales, &r.inputs[3], &out}) {
    if (o->rank() != 2) return absl::InvalidArgumentError(absl::StrCat("int4_mm: an operand has rank ", o->rank()));
  }
  Weight w{form, weight, scales, r.inputs[3], weight.sizes[0], rows.sizes[1], scales.sizes[1], 0};
  if (weight.sizes[1] != (form == Int4Form::kBlocks ? w.k / 2 : w.k) ||
      (form == Int4Form::kBlocks && (w.k % 2 != 0 || w.n % 2 != 0)) || scales.sizes[0] != w.n ||
      w.zeros.sizes != scales.sizes || out.sizes[0] != rows.sizes[0] || out.sizes[1] != w.n)
    return absl::InvalidArgumentError("int4_mm: the operands do not fit each other");
  if (w.k < 1 || w.groups < 1 || w.k % w.groups != 0)
    return absl::InvalidArgumentError(absl::StrCat("int4_mm: ", w.groups, " groups do not divide ", w.k, " elements"));
  w.group = w.k / w.groups;
  const bool is_number = AddsInFloat32(w.zeros.dtype) || IsIntegral(w.zeros.dtype);
  if (!AddsInFloat32(rows.dtype) || !AddsInFloat32(scales.dtype) || !is_number || out.dtype != rows.dtype ||
      (weight.dtype != DType::kUInt8 && (form == Int4Form::kBlocks || weight.dtype != DType::kInt8)))
    return absl::UnimplementedError(absl::StrCat("int4_mm of ", Name(rows.dtype), ", ", Name(weight.dtype), ", ",
                                                 Name(scales.dtype), " and ", Name(w.zeros.dtype)));
  if (form == Int4Form::kBlocks && !weight.IsDense())
    return absl::UnimplementedError("int4_mm of a packed weight that is not dense");
  return Int4Matmul::Make(r, std::move(w), packed);
}

}  // namespace smelt::library_internal
