// A block of queries goes over tiles of keys.
//
// No matrix of scores is ever whole. A block keeps the largest score and the sum of each of its rows, and corrects what
// it has added up when a later tile holds a larger score. The scores of a tile are transposed: a vector has one key's
// scores with several queries. So keys and values are read where they are, and the weights lie as the second product
// reads them. A tile that the band or the mask excludes for all rows of a block is not read at all.
//
// Work is divided into the blocks of each head. Query heads that share a key head and have few rows form one block.
#include "smelt/runtime/library/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/gemv.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/scratch.h"
#include "smelt/runtime/library/transpose.h"

namespace smelt::library_internal {
namespace {

constexpr int64_t kQueries = 64;   // rows of a block
constexpr int64_t kKeys = 128;     // of a tile
constexpr int64_t kFewKeys = 512;  // of a tile for so few rows that products are bound by reading keys and values
constexpr int64_t kShared = 32;    // heads with fewer rows share blocks
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <int kBytes>
using Floats = typename Vector<float, kBytes>::Type;
template <int kBytes>
using UnalignedFloats = typename Vector<float, kBytes>::Unaligned;
template <int kBytes>
using Words = typename Vector<uint32_t, kBytes>::Type;
template <int kBytes>
using Integers = typename Vector<int32_t, kBytes>::Type;

template <int kBytes>
SMELT_INLINE void LoadFloats(const float* p, Floats<kBytes>& v) {
  v = *reinterpret_cast<const UnalignedFloats<kBytes>*>(p);
}
template <int kBytes>
SMELT_INLINE void StoreFloats(const Floats<kBytes>& v, float* p) {
  *reinterpret_cast<UnalignedFloats<kBytes>*>(p) = v;
}

// Replaces x, which is at most 0 or NaN, by its exponential, to about the last place; by 0 below -87.
template <int kBytes>
SMELT_INLINE void Exponentiate(Floats<kBytes>& x) {
  constexpr float kRound = 12582912.0f;  // the sum of it and a number has no fraction
  const Floats<kBytes> shifted = x * 1.44269504f + kRound;
  const Floats<kBytes> whole = shifted - kRound;
  Floats<kBytes> r = x - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  Floats<kBytes> y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r;
  y = y + 1.0f;
  Words<kBytes> bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const Words<kBytes> exponent = (bits - (0x4b400000u - 127u)) << 23;
  Floats<kBytes> power;
  std::memcpy(&power, &exponent, sizeof(power));
  const Floats<kBytes> zero = {};
  x = x < -87.0f ? zero : y * power;
}

// Replaces x by cap * tanh(x / cap).
template <int kBytes>
SMELT_INLINE void Cap(float cap, Floats<kBytes>& x) {
  const Floats<kBytes> t = x / cap, size = t < 0.0f ? -t : t;
  Floats<kBytes> e = size * -2.0f;
  Exponentiate<kBytes>(e);
  const Floats<kBytes> far = (1.0f - e) / (1.0f + e);
  const Floats<kBytes> square = t * t;
  Floats<kBytes> near = square * 0.021869488f - 0.053968254f;
  near = near * square + 0.133333333f;
  near = near * square - 0.333333333f;
  near = near * square * t + t;
  const Floats<kBytes> signed_far = t < 0.0f ? -far : far;
  x = (size < 0.25f ? near : signed_far) * cap;
}

// The scores of `keys` keys with `lanes` queries, in rows of `width`.
struct Tile {
  float* scores;
  int64_t keys, width, lanes;
};

template <int kBytes>
SMELT_INLINE void CapTile(const Tile& t, float cap) {
  for (int64_t k = 0; k < t.keys; ++k) {
    for (int64_t j = 0; j < t.lanes; j += Vector<float, kBytes>::kLanes) {
      Floats<kBytes> x;
      LoadFloats<kBytes>(t.scores + k * t.width + j, x);
      Cap<kBytes>(cap, x);
      StoreFloats<kBytes>(x, t.scores + k * t.width + j);
    }
  }
}

// Adds a mask that lies as the scores do.
template <int kBytes>
SMELT_INLINE void AddMask(const Tile& t, const float* mask) {
  for (int64_t k = 0; k < t.keys; ++k) {
    for (int64_t j = 0; j < t.lanes; j += Vector<float, kBytes>::kLanes) {
      Floats<kBytes> x, m;
      LoadFloats<kBytes>(t.scores + k * t.width + j, x);
      LoadFloats<kBytes>(mask + k * t.width + j, m);
      x = x + m;
      StoreFloats<kBytes>(x, t.scores + k * t.width + j);
    }
  }
}
// Adds the mask of a key, which is the same for all queries.
template <int kBytes>
SMELT_INLINE void AddMaskOfKeys(const Tile& t, const float* mask) {
  for (int64_t k = 0; k < t.keys; ++k) {
    for (int64_t j = 0; j < t.lanes; j += Vector<float, kBytes>::kLanes) {
      Floats<kBytes> x;
      LoadFloats<kBytes>(t.scores + k * t.width + j, x);
      x = x + mask[k];
      StoreFloats<kBytes>(x, t.scores + k * t.width + j);
    }
  }
}

// Excludes keys that are not first to last places after a query; the tile's first key is `key`.
template <int kBytes>
SMELT_INLINE void ExcludeBand(const Tile& t, const int32_t* positions, int64_t key, int32_t first, int32_t last) {
  const Floats<kBytes> excluded = Floats<kBytes>{} - kInfinity;
  for (int64_t j = 0; j < t.lanes; j += Vector<float, kBytes>::kLanes) {
    Integers<kBytes> position;
    std::memcpy(&position, positions + j, sizeof(position));
    for (int64_t k = 0; k < t.keys; ++k) {
      const Integers<kBytes> distance = static_cast<int32_t>(key + k) - position;
      Floats<kBytes> x;
      LoadFloats<kBytes>(t.scores + k * t.width + j, x);
      x = distance < first ? excluded : x;
      x = distance > last ? excluded : x;
      StoreFloats<kBytes>(x, t.scores + k * t.width + j);
    }
  }
}

// Replaces scores by weights relative to the largest score so far. `corrections` are the factors for what was added up
// before this tile.
template <int kBytes>
SMELT_INLINE void WeighTile(const Tile& t, float* largest, float* sums, float* corrections) {
  constexpr int64_t kLanes = Vector<float, kBytes>::kLanes;
  for (int64_t j = 0; j < t.lanes; j += kLanes) {
    float* const column = t.scores + j;
    Floats<kBytes> before, old_sum;
    LoadFloats<kBytes>(largest + j, before);
    LoadFloats<kBytes>(sums + j, old_sum);
    Floats<kBytes> most[4] = {before, before, before, before};
    int64_t k = 0;
    for (; k + 4 <= t.keys; k += 4) {
      for (int u = 0; u < 4; ++u) {
        Floats<kBytes> x;
        LoadFloats<kBytes>(column + (k + u) * t.width, x);
        most[u] = x > most[u] ? x : most[u];
      }
    }
    for (; k < t.keys; ++k) {
      Floats<kBytes> x;
      LoadFloats<kBytes>(column + k * t.width, x);
      most[0] = x > most[0] ? x : most[0];
    }
    most[0] = most[1] > most[0] ? most[1] : most[0];
    most[2] = most[3] > most[2] ? most[3] : most[2];
    most[0] = most[2] > most[0] ? most[2] : most[0];
    StoreFloats<kBytes>(most[0], largest + j);
    // Where all keys are excluded so far, all weights are 0.
    const Floats<kBytes> zero = {};
    const Floats<kBytes> top = most[0] == -kInfinity ? zero : most[0];
    Floats<kBytes> correction = before - top;
    Exponentiate<kBytes>(correction);
    StoreFloats<kBytes>(correction, corrections + j);
    Floats<kBytes> sum[2] = {old_sum * correction, zero};
    for (k = 0; k + 2 <= t.keys; k += 2) {
      for (int u = 0; u < 2; ++u) {
        Floats<kBytes> x;
        LoadFloats<kBytes>(column + (k + u) * t.width, x);
        x = x - top;
        Exponentiate<kBytes>(x);
        StoreFloats<kBytes>(x, column + (k + u) * t.width);
        sum[u] = sum[u] + x;
      }
    }
    if (k < t.keys) {
      Floats<kBytes> x;
      LoadFloats<kBytes>(column + k * t.width, x);
      x = x - top;
      Exponentiate<kBytes>(x);
      StoreFloats<kBytes>(x, column + k * t.width);
      sum[0] = sum[0] + x;
    }
    sum[0] = sum[0] + sum[1];
    StoreFloats<kBytes>(sum[0], sums + j);
  }
}

// Multiplies each of `count` rows by the factors of the lanes, and adds a row of `added` if that is not null.
template <int kBytes>
SMELT_INLINE void ScaleLanes(float* rows, int64_t count, int64_t width, int64_t lanes, const float* factors,
                             const float* added) {
  for (int64_t j = 0; j < lanes; j += Vector<float, kBytes>::kLanes) {
    Floats<kBytes> f;
    LoadFloats<kBytes>(factors + j, f);
    for (int64_t i = 0; i < count; ++i) {
      Floats<kBytes> x;
      LoadFloats<kBytes>(rows + i * width + j, x);
      x = x * f;
      if (added != nullptr) {
        Floats<kBytes> y;
        LoadFloats<kBytes>(added + i * width + j, y);
        x = x + y;
      }
      StoreFloats<kBytes>(x, rows + i * width + j);
    }
  }
}

// Calls f(vector) for the vectors of a row, of which the last may be copied and filled with `padding`.
template <int kBytes, typename F>
SMELT_INLINE void ForVectors(float* row, int64_t n, float padding, const F& f) {
  constexpr int64_t kLanes = Vector<float, kBytes>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats<kBytes> x;
    LoadFloats<kBytes>(row + i, x);
    f(x);
    StoreFloats<kBytes>(x, row + i);
  }
  if (i == n) return;
  float part[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) part[j] = i + j < n ? row[i + j] : padding;
  Floats<kBytes> x;
  LoadFloats<kBytes>(part, x);
  f(x);
  StoreFloats<kBytes>(x, part);
  std::memcpy(row + i, part, static_cast<size_t>(n - i) * sizeof(float));
}

// Does the same for one query, whose scores are adjacent.
template <int kBytes>
SMELT_INLINE void WeighRow(float* scores, int64_t n, float* largest, float* sum, float* correction) {
  constexpr int64_t kLanes = Vector<float, kBytes>::kLanes;
  Floats<kBytes> most = Floats<kBytes>{} + *largest;
  ForVectors<kBytes>(scores, n, -kInfinity, [&](Floats<kBytes>& x) SMELT_ALWAYS_INLINE { most = x > most ? x : most; });
  float top = *largest;
  for (int64_t i = 0; i < kLanes; ++i) top = std::max(top, most[i]);
  const float old = *largest;
  *largest = top;
  if (top == -kInfinity) top = 0;
  *correction = std::exp(old - top);
  Floats<kBytes> total = {};
  ForVectors<kBytes>(scores, n, -kInfinity, [&](Floats<kBytes>& x) SMELT_ALWAYS_INLINE {
    x = x - top;
    Exponentiate<kBytes>(x);
    total = total + x;
  });
  float added = 0;
  for (int64_t i = 0; i < kLanes; ++i) added += total[i];
  *sum = *sum * *correction + added;
}

// The share of a tile that a mask lets through.
enum class Passes { kNothing, kSome, kAll };

SMELT_INLINE Passes PassesOf(const float* mask, int64_t n) {
  uint32_t any = 0, all = 1;
  for (int64_t i = 0; i < n; ++i) {
    any |= !(mask[i] == -kInfinity);
    all &= mask[i] == 0.0f;
  }
  return all != 0 ? Passes::kAll : any != 0 ? Passes::kSome : Passes::kNothing;
}

// Converts a mask of bools to what is added to scores.
SMELT_INLINE Passes ReadBools(const char* from, int64_t stride, int64_t n, float* to) {
  uint32_t any = 0, all = 1;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t passes = from[i * stride] != 0;
    any |= passes;
    all &= passes;
    to[i] = passes != 0 ? 0.0f : -kInfinity;
  }
  return all != 0 ? Passes::kAll : any != 0 ? Passes::kSome : Passes::kNothing;
}

// A part of this thread's scratch.
class Buffers {
 public:
  explicit Buffers(float* next) : next_(next) {}
  float* Take(int64_t elements) {
    float* const taken = next_;
    next_ += Padded(elements);
    return taken;
  }
  static int64_t Padded(int64_t elements) { return (elements + 15) / 16 * 16; }

 private:
  float* next_;
};

class Attention : public PreparedOp {
 public:
  explicit Attention(const LibraryRequest& r)
      : query_(r.inputs[0]),
        key_(r.inputs[1]),
        value_(r.inputs[2]),
        out_(r.outputs[0]),
        scale_(static_cast<float>(r.floats[0])),
        cap_(static_cast<float>(r.floats[1])),
        first_(Bounded(r.ints[0])),
        last_(Bounded(r.ints[1])),
        empty_is_nan_(r.ints[2] != 0) {
    if (r.inputs.size() > 3) mask_ = r.inputs[3];
    const int leading = query_.rank() - 2;
    rows_ = query_.sizes[leading];
    depth_ = query_.sizes[leading + 1];
    keys_ = key_.sizes[leading];
    columns_ = value_.sizes[leading + 1];
    outer_.assign(query_.sizes.begin(), query_.sizes.begin() + leading);
    if (leading > 0 && rows_ < kShared) {
      const int d = leading - 1;
      shared_ = std::gcd(Divisor(key_, d), Divisor(value_, d));
      outer_[d] /= shared_;
    }
    heads_ = 1;
    for (int64_t n : outer_) heads_ *= n;
    blocks_ = (rows_ * shared_ + kQueries - 1) / kQueries;
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const int64_t count = heads_ * blocks_;
    // The last blocks of a causal head are the longest, and run first.
    context.For(columns_ == 0 ? 0 : count, [&](int64_t i) {
      const int64_t at = count - 1 - i;
      RunBlock(inputs, outputs[0], at / blocks_, at % blocks_ * kQueries);
    });
    return absl::OkStatus();
  }

 private:
  static int32_t Bounded(int64_t v) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp<int64_t>(v, -kMost, kMost));
  }
  // Returns how many places of the query's dim share one of the operand's.
  int64_t Divisor(const OperandShape& o, int d) const {
    return o.sizes[d] == 0 ? 1 : std::max<int64_t>(query_.sizes[d] / o.sizes[d], 1);
  }
  // Returns the offset in bytes of the matrix of `o` for the first query of a head.
  int64_t OffsetOf(const OperandShape& o, int64_t head) const {
    int64_t offset = 0;
    for (int d = static_cast<int>(outer_.size()); d-- > 0;) {
      int64_t i = head % outer_[d];
      head /= outer_[d];
      if (d == static_cast<int>(outer_.size()) - 1) i *= shared_;
      offset += i / Divisor(o, d) * o.strides[d];
    }
    return offset * ItemSize(o.dtype);
  }
  // Returns the offset in bytes from the first query of a head to row `row` of its block: the heads' rows follow each
  // other.
  int64_t RowOffset(const OperandShape& o, int64_t row) const {
    const int at = o.rank() - 2;
    int64_t offset = o.sizes[at] == 1 ? 0 : row % rows_ * o.strides[at];
    if (shared_ > 1 && o.sizes[at - 1] != 1) offset += row / rows_ * o.strides[at - 1];
    return offset * ItemSize(o.dtype);
  }

  // Returns where a dense float32 copy of `count` rows is, or where they are if they can be read there. `row` and
  // `column` become the strides.
  const float* Rows(const OperandShape& o, const char* data, int64_t begin, int64_t count, float* copy, int64_t* row,
                    int64_t* column) const {
    const int r = o.rank();
    const int64_t columns = o.sizes[r - 1];
    const char* const from = data + begin * o.strides[r - 2] * ItemSize(o.dtype);
    if (o.dtype == DType::kFloat32) {
      *row = o.strides[r - 2];
      *column = o.strides[r - 1];
      return reinterpret_cast<const float*>(from);
    }
    for (int64_t i = 0; i < count; ++i)
      ToFloats(o.dtype, from + i * o.strides[r - 2] * ItemSize(o.dtype), o.strides[r - 1], columns, copy + i * columns);
    *row = columns;
    *column = 1;
    return copy;
  }

  // Converts the mask of one row and some keys to what is added to scores.
  Passes MaskRow(const char* data, int64_t begin, int64_t count, float* to) const {
    const int64_t stride = mask_.sizes.back() == 1 ? 0 : mask_.strides.back();
    const char* const from = data + begin * stride * ItemSize(mask_.dtype);
    Passes passes;
    if (mask_.dtype != DType::kBool) ToFloats(mask_.dtype, from, stride, count, to);
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      if (mask_.dtype != DType::kBool) {
        passes = PassesOf(to, count);
      } else if (stride == 1) {
        passes = ReadBools(from, 1, count, to);
      } else {
        passes = ReadBools(from, stride, count, to);
      }
    });
    return passes;
  }
  // Converts the mask of some rows, `step` apart in `to`.
  Passes MaskRows(const char* data, int64_t row, int64_t rows, int64_t begin, int64_t count, float* to,
                  int64_t step) const {
    bool any = false, all = true;
    for (int64_t i = 0; i < rows; ++i) {
      const Passes passes = MaskRow(data + RowOffset(mask_, row + i), begin, count, to + i * step);
      any |= passes != Passes::kNothing;
      all &= passes == Passes::kAll;
    }
    return all ? Passes::kAll : any ? Passes::kSome : Passes::kNothing;
  }
  bool HasMaskOfKeys() const {
    const int at = mask_.rank() - 2;
    return mask_.sizes[at] == 1 && (shared_ == 1 || mask_.sizes[at - 1] == 1);
  }

  void RunBlock(absl::Span<char* const> inputs, char* out, int64_t head, int64_t row) const {
    const int64_t rows = std::min(kQueries, rows_ * shared_ - row);
    // The positions of the queries: all of their head's, where a block has rows of several heads.
    const int64_t low = shared_ > 1 ? 0 : row, high = shared_ > 1 ? rows_ - 1 : row + rows - 1;
    const int64_t begin = std::clamp<int64_t>(low + first_, 0, keys_),
                  end = std::clamp<int64_t>(high + last_ + 1, begin, keys_);
    const Block b{inputs[0] + OffsetOf(query_, head),
                  inputs[1] + OffsetOf(key_, head),
                  inputs[2] + OffsetOf(value_, head),
                  mask_.present ? inputs[3] + OffsetOf(mask_, head) : nullptr,
                  out + OffsetOf(out_, head),
                  row,
                  rows,
                  low,
                  high,
                  begin,
                  end};
    if (rows <= kGemvRows && depth_ > 0) {
      RunFew(b);
    } else {
      RunMany(b);
    }
  }

  struct Block {
    const char *query, *key, *value, *mask;
    char* out;
    int64_t row, rows;
    int64_t low, high;   // positions of queries
    int64_t begin, end;  // keys that the band lets some query see
  };

  // Writes a row of results that are divided by their weights' sum.
  void WriteRow(const Block& b, int64_t i, float* row) const {
    FromFloats(out_.dtype, row, columns_, b.out + RowOffset(out_, b.row + i), out_.strides.back());
  }
  // Returns the factor that turns a row's sum into its result: 0 or NaN where no key counts for the row.
  float Factor(float largest, float sum) const {
    if (sum == 0 && largest == -kInfinity)
      return empty_is_nan_ && keys_ > 0 ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
    return 1.0f / sum;
  }

  // A few rows: products of rows and matrices that are read once.
  void RunFew(const Block& b) const {
    const int64_t tile = std::min(kFewKeys, std::max<int64_t>(b.end - b.begin, 1));
    const bool copies_keys = key_.strides.back() != 1 && depth_ > 1;
    const bool copies_values = value_.strides.back() != 1 && columns_ > 1;
    Buffers buffers(reinterpret_cast<float*>(Scratch::Get(
        ScratchUse::kA, 4 * (2 * Buffers::Padded(b.rows * tile) + Buffers::Padded(b.rows * depth_) +
                             2 * Buffers::Padded(b.rows * columns_) + Buffers::Padded(copies_keys ? tile * depth_ : 0) +
                             Buffers::Padded(copies_values ? tile * columns_ : 0)))));
    float* const query = buffers.Take(b.rows * depth_);
    float* const scores = buffers.Take(b.rows * tile);
    float* const mask = buffers.Take(b.rows * tile);
    float* const total = buffers.Take(b.rows * columns_);
    float* const part = buffers.Take(b.rows * columns_);
    float* const key_copy = buffers.Take(copies_keys ? tile * depth_ : 0);
    float* const value_copy = buffers.Take(copies_values ? tile * columns_ : 0);
    float largest[kGemvRows], sums[kGemvRows];
    for (int64_t i = 0; i < b.rows; ++i) {
      ToFloats(query_.dtype, b.query + RowOffset(query_, b.row + i), query_.strides.back(), depth_, query + i * depth_);
      for (int64_t k = 0; k < depth_; ++k) query[i * depth_ + k] *= scale_;
      largest[i] = -kInfinity;
      sums[i] = 0;
    }
    std::fill(total, total + b.rows * columns_, 0.0f);
    const int m = static_cast<int>(b.rows);
    for (int64_t begin = b.begin; begin < b.end; begin += tile) {
      const int64_t count = std::min(tile, b.end - begin);
      Passes passes = Passes::kAll;
      if (mask_.present) passes = MaskRows(b.mask, b.row, b.rows, begin, count, mask, count);
      if (passes == Passes::kNothing) continue;
      MultiplyFew(key_, b.key, begin, count, key_copy, [&](const void* w, DType dtype, int64_t step) {
        GemvTransposed(m, depth_, query, w, dtype, step, 0, count, scores, count);
      });
      float corrections[kGemvRows];
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
        for (int64_t i = 0; i < b.rows; ++i) {
          float* const row = scores + i * count;
          if (cap_ > 0)
            ForVectors<bytes>(row, count, 0, [&](Floats<bytes>& x) SMELT_ALWAYS_INLINE { Cap<bytes>(cap_, x); });
          if (passes == Passes::kSome) {
            for (int64_t k = 0; k < count; ++k) row[k] += mask[i * count + k];
          }
          const int64_t position = (b.row + i) % rows_;
          const int64_t from = std::clamp<int64_t>(position + first_ - begin, 0, count);
          const int64_t to = std::clamp<int64_t>(position + last_ + 1 - begin, from, count);
          std::fill(row, row + from, -kInfinity);
          std::fill(row + to, row + count, -kInfinity);
          WeighRow<bytes>(row, count, &largest[i], &sums[i], &corrections[i]);
        }
      });
      MultiplyFew(value_, b.value, begin, count, value_copy, [&](const void* w, DType dtype, int64_t step) {
        GemvPlain(m, count, scores, w, dtype, step, 0, columns_, part, columns_);
      });
      for (int64_t i = 0; i < b.rows; ++i) {
        float* const to = total + i * columns_;
        for (int64_t c = 0; c < columns_; ++c) to[c] = to[c] * corrections[i] + part[i * columns_ + c];
      }
    }
    for (int64_t i = 0; i < b.rows; ++i) {
      const float factor = Factor(largest[i], sums[i]);
      for (int64_t c = 0; c < columns_; ++c) total[i * columns_ + c] *= factor;
      WriteRow(b, i, total + i * columns_);
    }
  }
  // Calls `multiply` with rows of the operand that are dense each.
  template <typename F>
  void MultiplyFew(const OperandShape& o, const char* data, int64_t begin, int64_t count, float* copy,
                   const F& multiply) const {
    const int64_t columns = o.sizes.back(), step = o.strides[o.rank() - 2], item = ItemSize(o.dtype);
    const char* const from = data + begin * step * item;
    if (o.strides.back() == 1 || columns <= 1) return multiply(from, o.dtype, step);
    for (int64_t i = 0; i < count; ++i)
      ToFloats(o.dtype, from + i * step * item, o.strides.back(), columns, copy + i * columns);
    multiply(copy, DType::kFloat32, columns);
  }

  // A block of many rows, whose lanes lie in panels. It is one loop over tiles of keys, whose steps share buffers
  // that are laid out once.
  void RunMany(const Block& b) const {
    const int64_t width = PanelWidth(), panels = (b.rows + width - 1) / width, lanes = panels * width;
    const int64_t tile = std::min(kKeys, std::max<int64_t>(b.end - b.begin, 1));
    const bool copies = key_.dtype != DType::kFloat32;
    const int64_t longest = std::max(depth_, columns_);
    Buffers buffers(reinterpret_cast<float*>(Scratch::Get(
        ScratchUse::kA, 4 * (Buffers::Padded(lanes * depth_) + Buffers::Padded(lanes * columns_) +
                             Buffers::Padded(width * columns_) + Buffers::Padded(kQueries * std::max(longest, tile)) +
                             2 * Buffers::Padded(width * tile) + Buffers::Padded(copies ? tile * depth_ : 0) +
                             Buffers::Padded(copies ? tile * columns_ : 0) + 4 * Buffers::Padded(lanes)))));
    float* const query = buffers.Take(lanes * depth_);
    float* const total = buffers.Take(lanes * columns_);
    float* const part = buffers.Take(width * columns_);
    float* const staging = buffers.Take(kQueries * std::max(longest, tile));
    float* const scores = buffers.Take(width * tile);
    float* const mask = buffers.Take(width * tile);
    float* const key_copy = buffers.Take(copies ? tile * depth_ : 0);
    float* const value_copy = buffers.Take(copies ? tile * columns_ : 0);
    float* const largest = buffers.Take(lanes);
    float* const sums = buffers.Take(lanes);
    float* const corrections = buffers.Take(lanes);
    int32_t* const positions = reinterpret_cast<int32_t*>(buffers.Take(lanes));
    std::fill(largest, largest + lanes, -kInfinity);
    std::fill(sums, sums + lanes, 0.0f);
    for (int64_t j = 0; j < lanes; ++j) positions[j] = static_cast<int32_t>((b.row + std::min(j, b.rows - 1)) % rows_);
    PackQueries(b, width, panels, staging, query);
    // The lanes of a panel that rows fill, in whole vectors.
    const auto filled = [&](int64_t p) {
      constexpr int64_t kVector = 16;
      return std::min(width, (b.rows - p * width + kVector - 1) / kVector * kVector);
    };
    bool added = false;
    for (int64_t begin = b.begin; begin < b.end; begin += tile) {
      const int64_t count = std::min(tile, b.end - begin);
      Passes passes = Passes::kAll;
      const bool mask_of_keys = mask_.present && HasMaskOfKeys();
      if (mask_.present) {
        passes = mask_of_keys ? MaskRow(b.mask + RowOffset(mask_, b.row), begin, count, mask)
                              : MaskRows(b.mask, b.row, b.rows, begin, count, staging, count);
      }
      if (passes == Passes::kNothing) continue;
      const bool in_band = begin - b.high >= first_ && begin + count - 1 - b.low <= last_;
      int64_t key_row, key_column, value_row, value_column;
      const float* const key = Rows(key_, b.key, begin, count, key_copy, &key_row, &key_column);
      const float* const value = Rows(value_, b.value, begin, count, value_copy, &value_row, &value_column);
      for (int64_t p = 0; p < panels; ++p) {
        const Tile t{scores, count, width, filled(p)};
        GemmPacked(count, t.lanes, depth_, key, key_row, key_column, query + p * width * depth_, scores, width, 0,
                   t.lanes);
        if (depth_ == 0) std::fill(scores, scores + count * width, 0.0f);
        const int64_t from = p * width;
        if (passes == Passes::kSome && !mask_of_keys) {
          const int64_t rows = std::min(width, b.rows - from);
          if (rows < t.lanes) std::fill(mask, mask + count * width, 0.0f);
          Transpose4ByteElements(rows, count, staging + from * count, count, mask, width);
        }
        AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
          if (cap_ > 0) CapTile<bytes>(t, cap_);
          if (passes == Passes::kSome && mask_of_keys) AddMaskOfKeys<bytes>(t, mask);
          if (passes == Passes::kSome && !mask_of_keys) AddMask<bytes>(t, mask);
          if (!in_band) ExcludeBand<bytes>(t, positions + from, begin, first_, last_);
          WeighTile<bytes>(t, largest + from, sums + from, corrections + from);
        });
        float* const panel = total + from * columns_;
        GemmPacked(columns_, t.lanes, count, value, value_column, value_row, scores, added ? part : panel, width, 0,
                   t.lanes);
        if (!added) continue;
        AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
          ScaleLanes<bytes>(panel, columns_, width, t.lanes, corrections + from, part);
        });
      }
      added = true;
    }
    for (int64_t j = 0; j < lanes; ++j) corrections[j] = Factor(largest[j], sums[j]);
    if (!added) std::fill(total, total + lanes * columns_, 1.0f);
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t from = p * width, rows = std::min(width, b.rows - from);
      float* const panel = total + from * columns_;
      AtBestVectors([&](auto bytes) SMELT_ALWAYS_INLINE {
        ScaleLanes<bytes>(panel, columns_, width, filled(p), corrections + from, nullptr);
      });
      const bool direct = out_.dtype == DType::kFloat32 && out_.strides.back() == 1 && shared_ == 1;
      if (direct) {
        Transpose4ByteElements(columns_, rows, panel, width, b.out + RowOffset(out_, b.row + from),
                               out_.strides[out_.rank() - 2]);
        continue;
      }
      Transpose4ByteElements(columns_, rows, panel, width, staging, columns_);
      for (int64_t i = 0; i < rows; ++i) WriteRow(b, from + i, staging + i * columns_);
    }
  }

  // Transposes the scaled queries into panels of `width` lanes; lanes without a query are 0.
  void PackQueries(const Block& b, int64_t width, int64_t panels, float* staging, float* query) const {
    const bool direct = query_.dtype == DType::kFloat32 && query_.strides.back() == 1 && shared_ == 1;
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t from = p * width, rows = std::min(width, b.rows - from);
      float* const panel = query + from * depth_;
      if (rows < width) std::fill(panel, panel + width * depth_, 0.0f);
      if (direct) {
        Transpose4ByteElements(rows, depth_, b.query + RowOffset(query_, b.row + from),
                               query_.strides[query_.rank() - 2], panel, width);
      } else {
        for (int64_t i = 0; i < rows; ++i) {
          ToFloats(query_.dtype, b.query + RowOffset(query_, b.row + from + i), query_.strides.back(), depth_,
                   staging + i * depth_);
        }
        Transpose4ByteElements(rows, depth_, staging, depth_, panel, width);
      }
      for (int64_t k = 0; k < width * depth_; ++k) panel[k] *= scale_;
    }
  }

  const OperandShape query_, key_, value_, out_;
  OperandShape mask_;
  const float scale_, cap_;
  const int32_t first_, last_;
  const bool empty_is_nan_;
  int64_t rows_, depth_, keys_, columns_;
  std::vector<int64_t> outer_;  // the sizes of the query's dims before its matrices, with shared heads counted once
  int64_t shared_ = 1;          // heads of queries that a block takes together
  int64_t heads_ = 1, blocks_ = 0;
};

}  // namespace

MakeResult MakeAttention(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 3, 4, 1, 1, 4));
  const OperandShape &query = r.inputs[0], &key = r.inputs[1], &value = r.inputs[2], &out = r.outputs[0];
  if (!AddsInFloat32(query.dtype))
    return absl::UnimplementedError(absl::StrCat("attention: queries of ", Name(query.dtype)));
  const int rank = query.rank(), leading = rank - 2;
  bool fits = r.floats.size() == 2 && rank >= 2;
  for (const OperandShape* o : {&key, &value, &out}) fits = fits && o->rank() == rank && o->dtype == query.dtype;
  for (int d = 0; fits && d < leading; ++d) {
    fits = out.sizes[d] == query.sizes[d];
    for (const OperandShape* o : {&key, &value}) {
      const int64_t n = o->sizes[d];
      fits = fits && (n == 0 ? query.sizes[d] == 0 : query.sizes[d] % n == 0);
    }
  }
  fits = fits && key.sizes[leading + 1] == query.sizes[leading + 1] && value.sizes[leading] == key.sizes[leading] &&
         out.sizes[leading] == query.sizes[leading] && out.sizes[leading + 1] == value.sizes[leading + 1];
  if (fits && r.inputs.size() > 3 && r.inputs[3].present) {
    const OperandShape& mask = r.inputs[3];
    fits = mask.rank() == rank && (mask.dtype == DType::kBool || AddsInFloat32(mask.dtype));
    for (int d = 0; fits && d < rank; ++d) {
      const int64_t n = d == leading + 1 ? key.sizes[leading] : query.sizes[d];
      fits = mask.sizes[d] == n || mask.sizes[d] == 1;
    }
  }
  if (!fits) return absl::InvalidArgumentError("attention: the operands do not fit each other");
  return std::unique_ptr<PreparedOp>(new Attention(r));
}

}  // namespace smelt::library_internal
