#include "smelt/runtime/library/sort.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/order_statistics.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/implementation.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/library/order.h"

namespace smelt::library_internal {
namespace {

// Converts values to something comparable: floating point to double, the rest to int64.
template <typename K>
bool Less(const K& a, const K& b) {
  return (a < b) | ((b != b) & (a == a));
}

// The common part: lines along one dim, each ordered on one thread.
class LineOp : public PreparedOp {
 public:
  enum class Kind { kSort, kTopK, kKthValue, kMedian, kNanMedian, kMode };

  static MakeResult Make(const LibraryRequest& r, Kind kind, int64_t dim, int64_t k, bool descending, bool sorted) {
    const OperandShape& in = r.inputs[0];
    if (IsComplex(in.dtype)) return absl::UnimplementedError(absl::StrCat(r.op, " of ", Name(in.dtype)));
    auto op = std::unique_ptr<LineOp>(new LineOp());
    op->in_ = in;
    op->values_ = r.outputs[0];
    if (r.outputs.size() > 1) op->indices_ = r.outputs[1];
    op->descending_ = descending;
    op->kind_ = kind;
    op->sorted_ = sorted;
    const int rank = in.rank();
    if (rank == 0) {
      op->in_.sizes = {1};
      op->in_.strides = {1};
      for (OperandShape* o : {&op->values_, &op->indices_}) {
        if (o->present && o->rank() == 0) o->sizes = {1}, o->strides = {1};
      }
      dim = 0;
    }
    if (dim < 0) dim += op->in_.rank();
    if (dim < 0 || dim >= op->in_.rank())
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": dim is out of range"));
    op->dim_ = static_cast<int>(dim);
    op->length_ = op->in_.sizes[dim];
    op->k_ = k;
    op->keep_ = kind == Kind::kTopK ? k : kind == Kind::kSort ? op->length_ : 1;
    if (op->keep_ < 0 || op->keep_ > op->length_ || (kind == Kind::kKthValue && (k < 1 || k > op->length_))) {
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": k is ", k, ", of ", op->length_, " elements"));
    }
    for (const OperandShape* o : {&op->values_, &op->indices_}) {
      if (!o->present) continue;
      std::vector<int64_t> want = op->in_.sizes;
      want[dim] = op->keep_;
      if (o->sizes != want) return absl::InvalidArgumentError(absl::StrCat(r.op, ": the outputs' sizes do not fit"));
    }
    if (op->values_.present && op->values_.dtype != in.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": the values have another dtype"));
    }
    if (op->indices_.present && op->indices_.dtype != DType::kInt64) {
      return absl::InvalidArgumentError(absl::StrCat(r.op, ": the indices are not int64"));
    }
    if (kind == Kind::kSort || kind == Kind::kTopK) return MakeFirst<LineOp>(Orders(), *op, r.op);
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    int64_t lines = 1;
    for (int d = 0; d < in_.rank(); ++d) {
      if (d != dim_) lines *= in_.sizes[d];
    }
    if (lines == 0 || length_ == 0) return absl::OkStatus();
    const int64_t step = std::max<int64_t>(1, 16384 / length_);
    std::atomic<bool> unknown = false;
    context.For((lines + step - 1) / step, [&](int64_t chunk) {
      for (int64_t line = chunk * step; line < std::min(lines, (chunk + 1) * step); ++line) {
        int64_t rest = line, in_at = 0, values_at = 0, indices_at = 0;
        for (int d = in_.rank() - 1; d >= 0; --d) {
          if (d == dim_) continue;
          const int64_t i = rest % in_.sizes[d];
          rest /= in_.sizes[d];
          in_at += i * in_.strides[d];
          if (values_.present) values_at += i * values_.strides[d];
          if (indices_.present) indices_at += i * indices_.strides[d];
        }
        const int item = ItemSize(in_.dtype);
        char* values = values_.present ? outputs[0] + values_at * item : nullptr;
        char* indices = indices_.present ? outputs[1] + indices_at * 8 : nullptr;
        if (kind_ == Kind::kSort || kind_ == Kind::kTopK) {
          Line(inputs[0] + in_at * item, values, indices);
        } else if (!Pick(inputs[0] + in_at * item, values, indices)) {
          unknown = true;
        }
      }
    });
    return unknown ? absl::UnimplementedError("mode: among NaN, PyTorch's choice is not known") : absl::OkStatus();
  }

 private:
  // The ways to find the first `keep_` elements of a line in order. They load one more if it may equal the last.
  static absl::Span<const Implementation<LineOp>> Orders() {
    static constexpr Implementation<LineOp> kOrders[] = {
        {"PyTorch's selection",
         [](const LineOp& op) -> const char* {
           return op.kind_ == Kind::kTopK && !op.sorted_ ? nullptr : "the result is sorted";
         },
         WithLoad<&LineOp::LoadAsPyTorchMoves>},
        {"minimum",
         [](const LineOp& op) -> const char* { return op.keep_ == 1 ? nullptr : "several elements are kept"; },
         WithLoad<&LineOp::LoadFirst>},
        {"heap",
         [](const LineOp& op) -> const char* {
           return op.keep_ <= op.length_ / 16 ? nullptr : "more than a sixteenth of a line is kept";
         },
         WithLoad<&LineOp::LoadLeast>},
        {"sorting", [](const LineOp&) -> const char* { return nullptr; }, WithLoad<&LineOp::LoadAll>},
    };
    return kOrders;
  }
  using Load = void (LineOp::*)(const char* in, int64_t step, std::vector<Keyed>* first) const;
  template <Load load>
  static MakeResult WithLoad(const LineOp& described) {
    auto op = std::make_unique<LineOp>(described);
    op->load_ = load;
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  // Picks one element of a line. Returns false if it is not known which one.
  bool Pick(const char* in, char* values, char* indices) const {
    thread_local std::vector<Keyed> entries;
    const int item = ItemSize(in_.dtype);
    const int64_t step = in_.strides[dim_] * item;
    LoadKeys(in, step, length_, in_.dtype, /*descending=*/false, &entries);
    const uint64_t nan_key = NanKey(in_.dtype);
    const auto less = [&](int64_t a, int64_t b) {
      return entries[static_cast<size_t>(a)].key < entries[static_cast<size_t>(b)].key;
    };
    const auto is_nan = [&](int64_t i) { return nan_key != 0 && entries[static_cast<size_t>(i)].key == nan_key; };
    const std::optional<int64_t> at = kind_ == Kind::kMode ? ModePlace(length_, less, is_nan)
                                      : kind_ == Kind::kKthValue
                                          ? KthPlace(length_, k_ - 1, less)
                                          : MedianPlace(length_, kind_ == Kind::kNanMedian, less, is_nan);
    if (!at) return false;
    if (indices != nullptr) std::memcpy(indices, &*at, 8);
    if (values != nullptr) std::memmove(values, in + *at * step, static_cast<size_t>(item));
    return true;
  }
  void Line(const char* in, char* values, char* indices) const {
    thread_local std::vector<Keyed> entries;
    const int item = ItemSize(in_.dtype);
    const int64_t step = in_.strides[dim_] * item;
    (this->*load_)(in, step, &entries);
    if (kind_ == Kind::kTopK && sorted_ && HasTies(entries)) LoadAsPyTorchMoves(in, step, &entries);
    const auto store = [&](auto zero) { Store<decltype(zero)>(entries, in, values, indices); };
    if (item == 1) return store(uint8_t{});
    if (item == 2) return store(uint16_t{});
    if (item == 4) return store(uint32_t{});
    store(uint64_t{});
  }

  // Stores the values, as T, and the indices of the elements that come first.
  template <typename T>
  void Store(const std::vector<Keyed>& first, const char* in, char* values, char* indices) const {
    thread_local std::vector<T> raw;  // the values may be sorted in place
    const int64_t step = in_.strides[dim_] * static_cast<int64_t>(sizeof(T));
    if (values != nullptr) {
      raw.resize(static_cast<size_t>(keep_));
      for (int64_t i = 0; i < keep_; ++i) {
        std::memcpy(&raw[static_cast<size_t>(i)], in + first[static_cast<size_t>(i)].index * step, sizeof(T));
      }
    }
    for (int64_t i = 0; i < keep_; ++i) {
      if (values != nullptr) {
        std::memcpy(values + i * values_.strides[dim_] * static_cast<int64_t>(sizeof(T)), &raw[static_cast<size_t>(i)],
                    sizeof(T));
      }
      if (indices != nullptr) {
        std::memcpy(indices + i * indices_.strides[dim_] * 8, &first[static_cast<size_t>(i)].index, 8);
      }
    }
  }

  // Loads all elements of a line in order.
  void LoadAll(const char* in, int64_t step, std::vector<Keyed>* first) const {
    LoadKeys(in, step, length_, in_.dtype, descending_, first);
    SortByKey(first);
  }

  // Returns whether the order leaves open which elements are the first `keep_`, or their order.
  bool HasTies(const std::vector<Keyed>& ordered) const {
    for (int64_t i = 1; i < std::min(keep_ + 1, static_cast<int64_t>(ordered.size())); ++i) {
      if (ordered[static_cast<size_t>(i - 1)].key == ordered[static_cast<size_t>(i)].key) return true;
    }
    return false;
  }
  void LoadAsPyTorchMoves(const char* in, int64_t step, std::vector<Keyed>* first) const {
    thread_local std::vector<Keyed> all;
    LoadKeys(in, step, length_, in_.dtype, descending_, &all);
    first->clear();
    const auto before = [&](int64_t a, int64_t b) {
      return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key;
    };
    for (int64_t i : TopPlaces(length_, keep_, sorted_, before)) first->push_back(all[static_cast<size_t>(i)]);
  }

  // Loads the first element of a line, and an equal one, if there is one, without branches that depend on data.
  void LoadFirst(const char* in, int64_t step, std::vector<Keyed>* first) const {
    const uint64_t flip = descending_ ? ~uint64_t{0} : 0;
    WithKeys(in_.dtype, [&](auto key_of) {
      Keyed best = {key_of(in) ^ flip, 0};
      bool has_equal = false;
      for (int64_t i = 1; i < length_; ++i) {
        const uint64_t key = key_of(in + i * step) ^ flip;
        has_equal = key < best.key ? false : has_equal | (key == best.key);
        best.index = key < best.key ? i : best.index;
        best.key = std::min(key, best.key);
      }
      first->assign(has_equal ? 2 : 1, best);
    });
  }

  // Loads one element more than are kept, in order, while they are few: as a heap with the last one on top.
  void LoadLeast(const char* in, int64_t step, std::vector<Keyed>* least) const {
    const int64_t count = keep_ + 1;
    LoadKeys(in, step, count, in_.dtype, descending_, least);
    std::make_heap(least->begin(), least->end());
    const uint64_t flip = descending_ ? ~uint64_t{0} : 0;
    WithKeys(in_.dtype, [&](auto key_of) {
      uint64_t last = least->front().key;
      const auto take = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const uint64_t key = key_of(in + i * step) ^ flip;
          // Among equal elements the first one stays.
          if (ABSL_PREDICT_TRUE(key >= last)) continue;
          std::pop_heap(least->begin(), least->end());
          least->back() = {key, i};
          std::push_heap(least->begin(), least->end());
          last = least->front().key;
        }
      };
      int64_t begin = count;
      const auto by_pieces = [&](auto zero) {
        using T = decltype(zero);
        if (step != static_cast<int64_t>(sizeof(T))) return;
        const T* line = reinterpret_cast<const T*>(in);
        AtBestLevel([&]() SMELT_ALWAYS_INLINE {
          for (; begin + kPiece <= length_; begin += kPiece) {
            if (MayComeBefore(line + begin, line[least->front().index])) take(begin, begin + kPiece);
          }
        });
      };
      if (in_.dtype == DType::kFloat32) by_pieces(float{});
      if (in_.dtype == DType::kFloat64) by_pieces(double{});
      if (in_.dtype == DType::kInt32) by_pieces(int32_t{});
      if (in_.dtype == DType::kInt64) by_pieces(int64_t{});
      take(begin, length_);
    });
    std::sort_heap(least->begin(), least->end());
  }

  // This many elements are compared with the last kept one before any is looked at.
  static constexpr int64_t kPiece = 32;
  // Returns false if none of a piece's elements comes before `last`. (NaN may.)
  template <typename T>
  SMELT_INLINE bool MayComeBefore(const T* piece, T last) const {
    int any = 0;
    if (descending_) {
      for (int64_t i = 0; i < kPiece; ++i) any |= !(piece[i] <= last);
    } else {
      for (int64_t i = 0; i < kPiece; ++i) any |= !(piece[i] >= last);
    }
    return any != 0;
  }

  OperandShape in_, values_, indices_;
  Kind kind_ = Kind::kSort;
  Load load_ = nullptr;
  int dim_ = 0;
  int64_t length_ = 0, keep_ = 0, k_ = 0;
  bool descending_ = false, sorted_ = true;
};

class SearchSorted : public PreparedOp {
 public:
  SearchSorted(OperandShape sorted, OperandShape values, OperandShape sorter, OperandShape out, bool right)
      : sorted_(std::move(sorted)),
        values_(std::move(values)),
        sorter_(std::move(sorter)),
        out_(std::move(out)),
        right_(right) {}

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    if (values_.NumElements() == 0) return absl::OkStatus();
    return (this->*run_)(context, inputs, outputs);
  }

  static absl::Span<const Implementation<SearchSorted>> Searches() {
    static constexpr Implementation<SearchSorted> kSearches[] = {
        {"several at a time", [](const SearchSorted& op) { return op.WhyNotDense(); },
         [](const SearchSorted& op) {
           return op.values_.dtype == DType::kFloat32   ? With<&SearchSorted::RunDense<float>>(op)
                  : op.values_.dtype == DType::kFloat64 ? With<&SearchSorted::RunDense<double>>(op)
                                                        : With<&SearchSorted::RunDense<int64_t>>(op);
         }},
        {"one by one", [](const SearchSorted&) -> const char* { return nullptr; }, With<&SearchSorted::RunStrided>},
    };
    return kSearches;
  }

 private:
  using RunMember = absl::Status (SearchSorted::*)(const LibraryContext&, absl::Span<char* const>,
                                                   absl::Span<char* const>) const;
  template <RunMember run>
  static MakeResult With(const SearchSorted& described) {
    auto op = std::make_unique<SearchSorted>(described);
    op->run_ = run;
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  static constexpr int64_t kStep = 4096;  // values that a thread searches at a time

  const char* WhyNotDense() const {
    if (sorter_.present) return "there is a sorter";
    if (!sorted_.IsDense() || !values_.IsDense() || !out_.IsDense()) return "an operand is not dense";
    if (sorted_.dtype != values_.dtype) return "the dtypes differ";
    if (out_.dtype != DType::kInt64) return "the places are not int64";
    const DType t = values_.dtype;
    if (t != DType::kFloat32 && t != DType::kFloat64 && t != DType::kInt64)
      return "it is neither float32, float64 nor int64";
    return nullptr;
  }

  template <typename T>
  absl::Status RunDense(const LibraryContext& context, absl::Span<char* const> inputs,
                        absl::Span<char* const> outputs) const {
    const int64_t n = values_.NumElements();
    const bool in_order = IsInOrder(reinterpret_cast<const T*>(inputs[0]), n);
    context.For((n + kStep - 1) / kStep, [&](int64_t chunk) {
      Dense<T>(reinterpret_cast<const T*>(inputs[0]), reinterpret_cast<const T*>(inputs[1]), chunk * kStep,
               std::min(n, (chunk + 1) * kStep), in_order, reinterpret_cast<int64_t*>(outputs[0]));
    });
    return absl::OkStatus();
  }

  absl::Status RunStrided(const LibraryContext& context, absl::Span<char* const> inputs,
                          absl::Span<char* const> outputs) const {
    const int64_t n = values_.NumElements();
    std::atomic<bool> bad_sorter = false;
    context.For((n + kStep - 1) / kStep, [&](int64_t chunk) {
      for (int64_t i = chunk * kStep; i < std::min(n, (chunk + 1) * kStep); ++i) {
        int64_t rest = i, value_at = 0, out_at = 0, row = 0, sorter_row = 0;
        for (int d = values_.rank() - 1; d >= 0; --d) {
          const int64_t x = rest % values_.sizes[d];
          rest /= values_.sizes[d];
          value_at += x * values_.strides[d];
          out_at += x * out_.strides[d];
          if (sorted_.rank() > 1 && d < sorted_.rank() - 1) {
            row += x * sorted_.strides[d];
            if (sorter_.present) sorter_row += x * sorter_.strides[d];
          }
        }
        const bool real = IsFloating(values_.dtype) || IsFloating(sorted_.dtype);
        const char* value = inputs[1] + value_at * ItemSize(values_.dtype);
        const int64_t length = sorted_.sizes.back();
        const int64_t place = Search([&](int64_t at) {
          if (sorter_.present) {
            std::memcpy(&at, inputs[2] + (sorter_row + at * sorter_.strides.back()) * 8, 8);
            if (at < 0 || at >= length) {
              bad_sorter = true;
              return false;
            }
          }
          const char* key = inputs[0] + (row + at * sorted_.strides.back()) * ItemSize(sorted_.dtype);
          return real ? LiesBefore(LoadDouble(key, sorted_.dtype), LoadDouble(value, values_.dtype))
                      : LiesBefore(LoadInt(key, sorted_.dtype), LoadInt(value, values_.dtype));
        });
        StoreInt(outputs[0] + out_at * ItemSize(out_.dtype), out_.dtype, place);
      }
    });
    return bad_sorter ? absl::FailedPreconditionError("searchsorted: the sorter holds an index out of range")
                      : absl::OkStatus();
  }

  // Searches values [begin, end), each row's in its row of `sorted`, or all in the only row.
  template <typename T>
  void Dense(const T* sorted, const T* values, int64_t begin, int64_t end, bool in_order, int64_t* out) const {
    const int64_t width = sorted_.rank() == 1 ? end : values_.sizes.back();
    while (begin < end) {
      const int64_t row = sorted_.rank() == 1 ? 0 : begin / width;
      const int64_t row_end = std::min(end, (row + 1) * width);
      const T* of_row = sorted + row * sorted_.sizes.back();
      if (in_order) {
        OneRow(of_row, values, begin, row_end, out);
      } else {
        for (int64_t i = begin; i < row_end; ++i) {
          out[i] = Search([&](int64_t at) { return LiesBefore(of_row[at], values[i]); });
        }
      }
      begin = row_end;
    }
  }
  // Returns whether all searches end at one place, whichever boundaries they look at: none is NaN. It is not computed
  // if `sorted` is much longer than there are values.
  template <typename T>
  bool IsInOrder(const T* sorted, int64_t values) const {
    if constexpr (std::is_floating_point_v<T>) {
      const int64_t boundaries = sorted_.NumElements();
      if (boundaries > 8 * values) return false;
      int nan = 0;
      for (int64_t i = 0; i < boundaries; ++i) nan |= sorted[i] != sorted[i];
      return nan == 0;
    }
    return true;
  }
  template <typename T>
  bool LiesBefore(const T& boundary, const T& value) const {
    return right_ ? !(boundary > value) : !(boundary >= value);
  }
  // Returns the first of a row's boundaries that does not lie before the value, found as PyTorch finds it.
  template <typename F>
  int64_t Search(const F& lies_before) const {
    int64_t low = 0, high = sorted_.sizes.back();
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (lies_before(middle)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  // Searches without branches that depend on data, and several at a time: one alone waits for each of its loads.
  template <typename T>
  void OneRow(const T* sorted, const T* values, int64_t begin, int64_t end, int64_t* out) const {
    constexpr int64_t kSearches = 16;
    const auto search = [&](auto count, int64_t i) {
      const auto before = [&](int64_t at, const T& v) -> int64_t { return LiesBefore(sorted[at], v); };
      std::array<int64_t, kSearches> low = {};
      int64_t left = sorted_.sizes.back();
      for (; left > 1; left -= left / 2) {
        const int64_t half = left / 2;
        for (int64_t k = 0; k < count; ++k) low[k] += half & -before(low[k] + half - 1, values[i + k]);
      }
      for (int64_t k = 0; k < count; ++k) out[i + k] = low[k] + (left == 1 ? before(low[k], values[i + k]) : 0);
    };
    for (; begin + kSearches <= end; begin += kSearches) search(std::integral_constant<int64_t, kSearches>(), begin);
    search(end - begin, begin);
  }

  OperandShape sorted_, values_, sorter_, out_;
  bool right_;
  RunMember run_ = nullptr;
};

}  // namespace

MakeResult MakeSort(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 0, 2, 3));
  LibraryRequest full = r;
  full.outputs.resize(2);
  return LineOp::Make(full, LineOp::Kind::kSort, r.ints[0], 0, r.ints[1] != 0, true);
}

MakeResult MakeTopK(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 0, 2, 4));
  LibraryRequest full = r;
  full.outputs.resize(2);
  return LineOp::Make(full, LineOp::Kind::kTopK, r.ints[1], r.ints[0], r.ints[2] != 0, r.ints[3] != 0);
}

namespace {
MakeResult MakePick(const LibraryRequest& r, LineOp::Kind kind) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 1, 1, 0, 2, 2));
  LibraryRequest full = r;
  full.outputs.resize(2);
  return LineOp::Make(full, kind, r.ints[0], r.ints[1], false, true);
}
}  // namespace
MakeResult MakeKthValue(const LibraryRequest& r, PackedWeights*) { return MakePick(r, LineOp::Kind::kKthValue); }
MakeResult MakeMedian(const LibraryRequest& r, PackedWeights*) { return MakePick(r, LineOp::Kind::kMedian); }
MakeResult MakeNanMedian(const LibraryRequest& r, PackedWeights*) { return MakePick(r, LineOp::Kind::kNanMedian); }
MakeResult MakeMode(const LibraryRequest& r, PackedWeights*) { return MakePick(r, LineOp::Kind::kMode); }

MakeResult MakeSearchSorted(const LibraryRequest& r, PackedWeights*) {
  SMELT_RETURN_IF_ERROR(CheckArity(r, 2, 3, 1, 1, 1));
  const OperandShape &sorted = r.inputs[0], &values = r.inputs[1], &out = r.outputs[0];
  const OperandShape sorter = r.inputs.size() > 2 ? r.inputs[2] : OperandShape();
  bool fits = sorted.rank() >= 1 && out.sizes == values.sizes &&
              (out.dtype == DType::kInt64 || out.dtype == DType::kInt32) && !IsComplex(sorted.dtype) &&
              !IsComplex(values.dtype) &&
              (!sorter.present || (sorter.sizes == sorted.sizes && sorter.dtype == DType::kInt64));
  if (fits && sorted.rank() > 1) {
    fits = sorted.rank() == values.rank();
    for (int d = 0; fits && d + 1 < sorted.rank(); ++d) fits = sorted.sizes[d] == values.sizes[d];
  }
  if (!fits) return absl::InvalidArgumentError("searchsorted: the operands do not fit each other");
  const SearchSorted described(sorted, values, sorter, out, r.ints[0] != 0);
  return MakeFirst<SearchSorted>(SearchSorted::Searches(), described, r.op);
}

absl::Span<const LibraryEntry> SortingOps() {
  static constexpr LibraryEntry kOps[] = {
      {"sort", MakeSort},           {"topk", MakeTopK}, {"kthvalue", MakeKthValue},         {"median", MakeMedian},
      {"nanmedian", MakeNanMedian}, {"mode", MakeMode}, {"searchsorted", MakeSearchSorted},
  };
  return kOps;
}

}  // namespace smelt::library_internal
