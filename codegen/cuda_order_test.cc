// Orders, searches and choices of elements for CUDA without a GPU: the emulation runs the kernels in lockstep, finds
// races, and gives their results, which are compared with the C++ library's algorithms.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_library_testing.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

// Values with duplicates, both zeros, and what a dtype has besides numbers.
void FillOddly(LibraryMemory& m, DType t, std::mt19937& rng) {
  for (int64_t i = 0; i < m.elements(); ++i) {
    const double special[] = {std::nan(""), INFINITY, -INFINITY, 0, -0.0};
    m.Set(i, IsFloating(t) && rng() % 8 == 0 ? special[rng() % 5]
                                             : static_cast<double>(rng() % 50) - (IsSigned(t) ? 25 : 0));
  }
}

// Words for `lines` dense lines.
std::vector<int64_t> OrderWords(LibraryMemory& in, LibraryMemory* values, LibraryMemory* indices, int64_t lines,
                                int64_t length, int64_t keep) {
  using namespace order_words;  // NOLINT
  std::vector<int64_t> words(kCount, 0);
  for (int d = 0; d < kStridedRank; ++d) words[kLines + d] = 1;
  words[kLines + kStridedRank - 1] = lines;
  const auto operand = [&](int word, LibraryMemory* m, int64_t line) {
    if (m == nullptr) return;
    words[word] = m->word();
    words[word + kStridedRank] = line;
    words[word + 1 + kStridedRank] = 1;
  };
  operand(kIn, &in, length);
  operand(kValues, values, keep);
  operand(kIndices, indices, keep);
  words[kLength] = length;
  words[kKeep] = keep;
  return words;
}

// The indices of a line in order: stable, NaN last, or first if descending.
std::vector<int64_t> InOrder(const LibraryMemory& m, int64_t first, int64_t length, bool descending) {
  std::vector<int64_t> at(static_cast<size_t>(length));
  std::iota(at.begin(), at.end(), 0);
  const auto less = [&](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
    const double x = m.Get(first + a), y = m.Get(first + b);
    return descending ? less(y, x) : less(x, y);
  });
  return at;
}

class OrderTest : public testing::TestWithParam<DType> {};

TEST_P(OrderTest, SortsLinesStably) {
  const DType t = GetParam();
  std::mt19937 rng(static_cast<unsigned>(t));
  for (const int64_t length : {1, 2, 7, 300}) {
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(absl::StrCat(Name(t), " ", length, descending ? " descending" : ""));
      const int64_t lines = 3;
      LibraryMemory in(t, lines * length), indices(DType::kInt64, lines * length);
      FillOddly(in, t, rng);
      const LibraryMemory before = in;
      // In place.
      std::vector<int64_t> words = OrderWords(in, &in, &indices, lines, length, length);
      words[order_words::kDescending] = descending;
      LaunchLibraryKernel({kOrderKernel, {t}}, 80, words, 2);
      int64_t wrong = 0;
      for (int64_t line = 0; line < lines; ++line) {
        const std::vector<int64_t> order = InOrder(before, line * length, length, descending);
        for (int64_t i = 0; i < length; ++i) {
          const double want = before.Get(line * length + order[static_cast<size_t>(i)]),
                       got = in.Get(line * length + i);
          wrong += static_cast<int64_t>(indices.Get(line * length + i)) != order[static_cast<size_t>(i)];
          wrong += !(got == want || (std::isnan(got) && std::isnan(want)));
        }
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, OrderTest,
                         testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                                         DType::kInt64, DType::kInt8, DType::kUInt8, DType::kBool));

TEST(CudaOrderTest, SortsTheLongestLine) {
  const int64_t length = kLongestLine;
  LibraryMemory in(DType::kFloat32, length), values(DType::kFloat32, length), indices(DType::kInt64, length);
  std::mt19937 rng(1);
  FillOddly(in, DType::kFloat32, rng);
  LaunchLibraryKernel({kOrderKernel, {DType::kFloat32}}, 80, OrderWords(in, &values, &indices, 1, length, length), 1);
  const std::vector<int64_t> order = InOrder(in, 0, length, false);
  std::vector<int64_t> got;
  for (int64_t i = 0; i < length; ++i) got.push_back(static_cast<int64_t>(indices.Get(i)));
  EXPECT_THAT(got, ElementsAreArray(order));
}

// Pairs of keys and places, and the launches that sort lines longer than a block's memory.
class Pairs {
 public:
  explicit Pairs(int64_t n)
      : keys_{{DType::kInt64, n}, {DType::kInt64, n}}, places_{{DType::kInt32, n}, {DType::kInt32, n}} {}
  // Returns the words of an order with those of a long one, where the pairs are in order.
  std::vector<int64_t> Sort(std::vector<int64_t> words, DType t) {
    using namespace long_order_words;  // NOLINT
    words.resize(kCount);
    int now = 0;
    const auto place = [&] {
      words[kKeys] = keys_[now].word(), words[kPlaces] = places_[now].word();
      words[kOtherKeys] = keys_[1 - now].word(), words[kOtherPlaces] = places_[1 - now].word();
    };
    place();
    LaunchLibraryKernel({kOrderPiecesKernel, {t}}, 80, words, 3);
    for (int64_t run = kLongestLine; run < words[order_words::kLength]; run *= 2) {
      words[kRun] = run;
      LaunchLibraryKernel({kOrderMergeKernel, {}}, 80, words, 3);
      now = 1 - now;
      place();
    }
    return words;
  }

 private:
  LibraryMemory keys_[2], places_[2];
};

TEST(CudaOrderTest, SortsLinesThatNoBlockHolds) {
  const int64_t lines = 2, length = 2 * kLongestLine + 100, keep = length - 7;
  LibraryMemory in(DType::kFloat32, lines * length), indices(DType::kInt64, lines * keep);
  std::mt19937 rng(2);
  FillOddly(in, DType::kFloat32, rng);
  const LibraryMemory before = in;
  for (const bool descending : {false, true}) {
    // Elements that are not kept stay in place.
    in = before;
    std::vector<int64_t> words = OrderWords(in, &in, &indices, lines, length, keep);
    words[order_words::kDescending] = descending;
    words[order_words::kValues + kStridedRank] = length;
    Pairs pairs(lines * length);
    words = pairs.Sort(words, DType::kFloat32);
    LaunchLibraryKernel({kOrderTakeKernel, {DType::kFloat32}}, 80, words, 3);
    int64_t wrong = 0;
    for (int64_t line = 0; line < lines; ++line) {
      const std::vector<int64_t> order = InOrder(before, line * length, length, descending);
      for (int64_t i = 0; i < length; ++i) {
        const double want = before.Get(line * length + (i < keep ? order[static_cast<size_t>(i)] : i)),
                     got = in.Get(line * length + i);
        wrong += !(got == want || (std::isnan(got) && std::isnan(want)));
        wrong += i < keep && static_cast<int64_t>(indices.Get(line * keep + i)) != order[static_cast<size_t>(i)];
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(CudaOrderTest, TheMedianOfALongLineIsTheLowerOneOfTwoAndNaNIfThereIsOne) {
  const int64_t length = kLongestLine + 2;
  LibraryMemory in(DType::kFloat32, 2 * length), values(DType::kFloat32, 2), indices(DType::kInt64, 2);
  for (int64_t i = 0; i < 2 * length; ++i) in.Set(i, static_cast<double>(i * 7 % length));
  in.Set(length + 5, std::nan(""));
  Pairs pairs(2 * length);
  std::vector<int64_t> words = OrderWords(in, &values, &indices, 2, length, 1);
  words[order_words::kMedian] = 1;
  words = pairs.Sort(words, DType::kFloat32);
  LaunchLibraryKernel({kOrderTakeKernel, {DType::kFloat32}}, 80, words, 1);
  const auto middle = static_cast<double>((length - 1) / 2);
  EXPECT_EQ(values.Get(0), middle);
  EXPECT_EQ(in.Get(static_cast<int64_t>(indices.Get(0))), middle);
  EXPECT_TRUE(std::isnan(values.Get(1)));
  EXPECT_EQ(indices.Get(1), 5);
  // Without NaN.
  words[order_words::kMedian] = 2;
  LaunchLibraryKernel({kOrderTakeKernel, {DType::kFloat32}}, 80, words, 1);
  const std::vector<int64_t> order = InOrder(in, length, length, false);
  EXPECT_EQ(values.Get(1), in.Get(length + order[static_cast<size_t>((length - 2) / 2)]));
}

TEST(CudaOrderTest, AFlagTellsWhetherALongOrderLeavesOpenWhichElementsAreTaken) {
  const int64_t length = kLongestLine + 50;
  LibraryMemory in(DType::kInt64, length), indices(DType::kInt64, 3), flag(DType::kInt64, 1);
  for (int64_t i = 0; i < length; ++i) in.Set(i, static_cast<double>(i));
  std::vector<int64_t> words = OrderWords(in, nullptr, &indices, 1, length, 3);
  words[order_words::kTies] = 3, words[order_words::kFlag] = flag.word();
  const auto run = [&] {
    Pairs pairs(length);
    flag.Set(0, 0);
    LaunchLibraryKernel({kOrderTakeKernel, {DType::kInt64}}, 80, pairs.Sort(words, DType::kInt64), 2);
    return flag.Get(0);
  };
  EXPECT_EQ(run(), 0);
  in.Set(1000, 3);  // the last that is taken equals the next one
  in.Set(2, 4);
  EXPECT_EQ(run(), 1);
  in.Set(1000, 1000);
  EXPECT_EQ(run(), 0);
}

// Words for runs of dense elements.
std::vector<int64_t> RunsWords(LibraryMemory& in, int64_t room, LibraryMemory* values, LibraryMemory* inverse,
                               LibraryMemory* counts, LibraryMemory* begins, LibraryMemory* number) {
  using namespace runs_words;  // NOLINT
  std::vector<int64_t> words(kEnd, 0);
  words[kLength] = in.elements(), words[kRoom] = room;
  const auto operand = [&](int word, LibraryMemory* m, bool has_stride) {
    if (m == nullptr) return;
    words[word] = m->word();
    if (has_stride) words[word + 1] = 1;
  };
  operand(kIn, &in, true), operand(kValues, values, true), operand(kInverse, inverse, true);
  operand(kCounts, counts, true), operand(kBegins, begins, false), operand(kNumber, number, false);
  return words;
}
std::vector<double> Contents(const LibraryMemory& m) {
  std::vector<double> out;
  for (int64_t i = 0; i < m.elements(); ++i) out.push_back(m.Get(i));
  return out;
}

TEST(CudaOrderTest, RunsOfEqualElementsInTheirOwnOrder) {
  LibraryMemory in(DType::kFloat32, 8), values(DType::kFloat32, 6), inverse(DType::kInt64, 8), counts(DType::kInt64, 6),
      begins(DType::kInt64, 8), number(DType::kInt64, 1);
  const double elements[] = {1, 1, 0, -0.0, std::nan(""), std::nan(""), 1, 2};
  for (int64_t i = 0; i < 8; ++i) in.Set(i, elements[i]);
  const auto words = RunsWords(in, 6, &values, &inverse, &counts, &begins, &number);
  LaunchLibraryKernel({kRunsKernel, {DType::kFloat32}}, 80, words, 2);
  EXPECT_EQ(number.Get(0), 6);
  EXPECT_EQ(values.Get(0), 1);
  EXPECT_EQ(values.Get(1), 0);
  EXPECT_TRUE(std::isnan(values.Get(3)));
  EXPECT_THAT(Contents(inverse), ElementsAre(0, 0, 1, 1, 2, 3, 4, 5));
  EXPECT_THAT(Contents(counts), ElementsAre(2, 2, 1, 1, 1, 1));
}

TEST(CudaOrderTest, RunsOfElementsInOrder) {
  const int64_t n = 600;
  LibraryMemory in(DType::kInt32, n), values(DType::kInt32, 7), inverse(DType::kInt64, n), counts(DType::kInt64, 7),
      begins(DType::kInt64, n), number(DType::kInt64, 1);
  for (int64_t i = 0; i < n; ++i) in.Set(i, static_cast<double>(i * i % 7 * 10));
  std::map<double, int64_t> want;
  for (int64_t i = 0; i < n; ++i) ++want[in.Get(i)];
  Pairs pairs(n);
  const std::vector<int64_t> order = pairs.Sort(OrderWords(in, nullptr, nullptr, 1, n, n), DType::kInt32);
  auto words = RunsWords(in, 7, &values, &inverse, &counts, &begins, &number);
  words[runs_words::kKeys] = order[long_order_words::kKeys];
  words[runs_words::kPlaces] = order[long_order_words::kPlaces];
  LaunchLibraryKernel({kRunsKernel, {DType::kInt32}}, 80, words, 1);
  ASSERT_EQ(number.Get(0), static_cast<double>(want.size()));
  int64_t run = 0;
  for (const auto& [value, count] : want) {
    EXPECT_EQ(values.Get(run), value);
    EXPECT_EQ(counts.Get(run), static_cast<double>(count));
    ++run;
  }
  for (int64_t i = 0; i < n; ++i) EXPECT_EQ(values.Get(static_cast<int64_t>(inverse.Get(i))), in.Get(i));
}

TEST(CudaOrderTest, CountsElementsThatAreBinsAndFlagsOthers) {
  using namespace bincount_words;  // NOLINT
  LibraryMemory in(DType::kInt16, 300), bins(DType::kInt64, 5), flag(DType::kInt64, 1);
  for (int64_t i = 0; i < 300; ++i) in.Set(i, static_cast<double>(i % 3 + 1));
  flag.Set(0, 0);
  const std::vector<int64_t> words = {300, in.word(), 1, bins.word(), 1, 5, flag.word()};
  LaunchLibraryKernel({kBincountKernel, {DType::kInt16}}, 80, words, 2);
  EXPECT_THAT(Contents(bins), ElementsAre(0, 100, 100, 100, 0));
  EXPECT_EQ(flag.Get(0), 0);
  in.Set(7, -1);
  in.Set(10, 5);
  LaunchLibraryKernel({kBincountKernel, {DType::kInt16}}, 80, words, 2);
  EXPECT_THAT(Contents(bins), ElementsAre(0, 100, 98, 100, 0));
  EXPECT_EQ(flag.Get(0), 1);
}

TEST(CudaOrderTest, TheMedianIsTheLowerOneOfTwoAndNaNIfThereIsOne) {
  const double nan = std::nan("");
  const std::vector<std::vector<double>> lines = {
      {3, 1, 2, 2}, {nan, 5, 4, 6}, {7, nan, nan, 1}, {1, 1, 1, 1}, {nan, nan, nan, nan}};
  LibraryMemory in(DType::kFloat32, 20), values(DType::kFloat32, 5), indices(DType::kInt64, 5), flag(DType::kInt64, 1);
  for (int64_t i = 0; i < 20; ++i) in.Set(i, lines[static_cast<size_t>(i / 4)][static_cast<size_t>(i % 4)]);
  std::vector<int64_t> words = OrderWords(in, &values, &indices, 5, 4, 1);
  const auto run = [&](int median) {
    words[order_words::kMedian] = median;
    flag.Set(0, 0);
    LaunchLibraryKernel({kOrderKernel, {DType::kFloat32}}, 80, words, 2);
    std::vector<int64_t> at;
    for (int64_t i = 0; i < 5; ++i) at.push_back(static_cast<int64_t>(indices.Get(i)));
    return at;
  };
  EXPECT_THAT(run(1), ElementsAre(2, 0, 1, 1, 0));
  EXPECT_EQ(values.Get(0), 2);
  EXPECT_TRUE(std::isnan(values.Get(1)));
  EXPECT_THAT(run(2), ElementsAre(2, 1, 3, 1, 0));
  EXPECT_EQ(values.Get(1), 5);
  // Among NaN alone the order leaves the choice open.
  words[order_words::kFlag] = flag.word();
  run(2);
  EXPECT_EQ(flag.Get(0), 1);
}

TEST(CudaOrderTest, AFlagSaysWhetherEqualElementsCouldBeChosen) {
  LibraryMemory in(DType::kInt32, 6), values(DType::kInt32, 3), indices(DType::kInt64, 3), flag(DType::kInt64, 1);
  const auto flagged = [&](std::vector<double> line, int64_t keep, int64_t first_tie, int64_t ties) {
    for (int64_t i = 0; i < 6; ++i) in.Set(i, line[static_cast<size_t>(i)]);
    std::vector<int64_t> words = OrderWords(in, &values, &indices, 1, 6, keep);
    words[order_words::kFlag] = flag.word();
    words[order_words::kFirstTie] = first_tie, words[order_words::kTies] = ties;
    flag.Set(0, 0);
    LaunchLibraryKernel({kOrderKernel, {DType::kInt32}}, 80, words, 1);
    return flag.Get(0) != 0;
  };
  EXPECT_FALSE(flagged({1, 2, 3, 4, 4, 5}, 3, 0, 3));  // the first three
  EXPECT_TRUE(flagged({1, 2, 2, 4, 4, 5}, 3, 0, 3));
  EXPECT_TRUE(flagged({1, 2, 3, 3, 4, 5}, 3, 0, 3));   // the third one or the fourth
  EXPECT_FALSE(flagged({1, 1, 2, 3, 4, 5}, 1, 2, 4));  // the fourth one alone
  EXPECT_TRUE(flagged({1, 1, 2, 3, 3, 5}, 1, 2, 4));
  EXPECT_TRUE(flagged({1, 1, 3, 3, 4, 5}, 1, 2, 4));
}

TEST(CudaOrderTest, SearchesAsTheLibraryOfCPlusPlusDoes) {
  using namespace search_words;  // NOLINT
  for (const int64_t length : {0, 1, 5, 64, 100}) {
    for (const bool right : {false, true}) {
      LibraryMemory sorted(DType::kFloat32, 2 * length + 1), values(DType::kFloat32, 2 * 40),
          out(DType::kInt32, 2 * 40);
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t i = 0; i < length; ++i) sorted.Set(row * length + i, static_cast<double>(i / 2 + row));
        for (int64_t i = 0; i < 40; ++i) values.Set(row * 40 + i, static_cast<double>(i) / 2 - 2);
      }
      std::vector<int64_t> words(kCount, 0);
      for (int d = 0; d < kStridedRank; ++d) words[kSizes + d] = 1;
      words[kSizes + 4] = 2, words[kSizes + 5] = 40;
      words[kValues] = values.word(), words[kValues + 5] = 40, words[kValues + 6] = 1;
      words[kSorted] = sorted.word(), words[kSorted + 5] = length, words[kSorted + 7] = 1;
      words[kOut] = out.word(), words[kOut + 5] = 40, words[kOut + 6] = 1;
      words[kLength] = length, words[kRight] = right;
      LaunchLibraryKernel({kSearchKernel, {DType::kFloat32, DType::kFloat32, DType::kInt32}}, 80, words, 2);
      for (int64_t i = 0; i < 80; ++i) {
        std::vector<double> row;
        for (int64_t k = 0; k < length; ++k) row.push_back(sorted.Get(i / 40 * length + k));
        const auto at = right ? std::upper_bound(row.begin(), row.end(), values.Get(i))
                              : std::lower_bound(row.begin(), row.end(), values.Get(i));
        EXPECT_EQ(static_cast<int64_t>(out.Get(i)), at - row.begin()) << length << " " << i;
      }
    }
  }
}

TEST(CudaOrderTest, ChoosesElementsInOrder) {
  using namespace choice_words;           // NOLINT
  const int64_t rows = 70, columns = 67;  // more than two rounds of the block
  std::mt19937 rng(5);
  for (const auto& [density, wide] : {std::pair(0, false), {3, false}, {10, false}, {0, true}, {3, true}, {10, true}}) {
    LibraryMemory in(DType::kFloat32, rows * columns), mask(DType::kBool, rows * columns);
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const bool is_chosen = static_cast<int>(rng() % 10) < density;
      in.Set(i, is_chosen        ? (rng() % 4 == 0 ? std::nan("") : 1.0 + static_cast<double>(i))
                : rng() % 2 == 0 ? 0.0
                                 : -0.0);
      mask.Set(i, is_chosen);
      if (is_chosen) chosen.push_back(i);
    }
    const auto count = static_cast<int64_t>(chosen.size());
    LibraryMemory places(DType::kInt64, 2 * count + 1), values(DType::kFloat32, count + 1);
    places.Set(2 * count, 77), values.Set(count, 77);
    std::vector<int64_t> words(kEnd, 0);
    for (int d = 0; d < kStridedRank; ++d) words[kSizes + d] = 1;
    words[kSizes + 4] = rows, words[kSizes + 5] = columns;
    const auto strides = [&](int word, LibraryMemory& m) {
      words[word] = m.word(), words[word + 5] = columns, words[word + 6] = 1;
    };
    words[kRank] = 2, words[kCount] = count;
    strides(kFlags, in);
    words[kOut] = places.word(), words[kOut + 1] = 2, words[kOut + 2] = 1;
    LaunchLibraryKernel({wide ? kWideNonzeroKernel : kNonzeroKernel, {DType::kFloat32}}, 80, words, 2);
    strides(kFlags, mask);
    strides(kFrom, in);
    words[kOut] = values.word(), words[kOut + 1] = 1;
    LaunchLibraryKernel({wide ? kWideMaskedSelectKernel : kMaskedSelectKernel, {DType::kInt32}}, 80, words, 2);
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t i = chosen[static_cast<size_t>(k)];
      wrong += places.Get(2 * k) != static_cast<double>(i / columns) ||
               places.Get(2 * k + 1) != static_cast<double>(i % columns);
      wrong += !(values.Get(k) == in.Get(i) || (std::isnan(values.Get(k)) && std::isnan(in.Get(i))));
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(places.Get(2 * count), 77);
    EXPECT_EQ(values.Get(count), 77);
  }
}

// The second stage alone: a workspace with a count for each chunk of elements, which need not exist.
TEST(CudaOrderTest, AddsUpMoreChunksThanOneRoundTakes) {
  using namespace choice_words;  // NOLINT
  const int64_t chunks = 2 * kChoiceChunk + 77;
  const LibraryKernel kernel = {kWideNonzeroKernel, {DType::kFloat32}};
  auto emulation = CudaEmulation::CreateLibrary(kernel, 80);
  ASSERT_TRUE(emulation.ok()) << emulation.status();
  std::vector<int64_t> words(kEnd, 1);
  words[kSizes] = chunks * kChoiceChunk - 5;
  LibraryMemory counts(DType::kInt64, chunks);
  std::vector<double> sums;
  for (int64_t i = 0; i < chunks; ++i) {
    counts.Set(i, static_cast<double>(i * 37 % (kChoiceChunk + 1)));
    sums.push_back(counts.Get(i) + (i > 0 ? sums.back() : 0));
  }
  int64_t status[8] = {};
  (*emulation)->LaunchStage(1, /*grid=*/2, words.data(), 0, 1, status, counts.at(0));
  EXPECT_EQ((*emulation)->race(), "");
  EXPECT_EQ(Contents(counts), sums);
}

TEST(CudaOrderTest, RunsOfElementsThatAllBlocksShare) {
  // Runs reach over the ends of chunks, and NaN are runs of their own, also there.
  const int64_t n = 2 * kChoiceChunk + 300;
  for (const bool wide : {false, true}) {
    LibraryMemory in(DType::kFloat32, n);
    for (int64_t i = 0; i < n; ++i) in.Set(i, static_cast<double>(i / 500 % 3 + i / 4000));
    for (int64_t i : {kChoiceChunk - 2, kChoiceChunk - 1, kChoiceChunk, 3}) in.Set(i, std::nan(""));
    std::vector<double> run_of, begins_at, lengths;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || !(in.Get(i) == in.Get(i - 1))) {
        begins_at.push_back(static_cast<double>(i));
        lengths.push_back(0);
      }
      run_of.push_back(static_cast<double>(begins_at.size() - 1));
      ++lengths.back();
    }
    const auto runs = static_cast<int64_t>(lengths.size());
    LibraryMemory values(DType::kFloat32, runs), inverse(DType::kInt64, n), counts(DType::kInt64, runs),
        begins(DType::kInt64, n), number(DType::kInt64, 1);
    const auto words = RunsWords(in, runs, &values, &inverse, &counts, &begins, &number);
    LaunchLibraryKernel({wide ? kWideRunsKernel : kRunsKernel, {DType::kFloat32}}, 80, words, 2);
    EXPECT_EQ(number.Get(0), static_cast<double>(runs));
    EXPECT_EQ(Contents(inverse), run_of);
    EXPECT_EQ(Contents(counts), lengths);
    int64_t wrong = 0;
    for (int64_t k = 0; k < runs; ++k) {
      const double want = in.Get(static_cast<int64_t>(begins_at[static_cast<size_t>(k)]));
      wrong += !(values.Get(k) == want || (std::isnan(want) && std::isnan(values.Get(k))));
    }
    EXPECT_EQ(wrong, 0);
  }
}

TEST(CudaOrderTest, ChoosesComplexElements) {
  using namespace choice_words;  // NOLINT
  const int64_t size = 5;
  const std::vector<int64_t> chosen = {0, 2, 3};
  LibraryMemory in(DType::kFloat64, 2 * size), mask(DType::kBool, size), out(DType::kFloat64, 6);
  for (int64_t i = 0; i < 2 * size; ++i) in.Set(i, static_cast<double>(i) + 0.5);
  for (int64_t i = 0; i < size; ++i) mask.Set(i, 0);
  for (int64_t i : chosen) mask.Set(i, 1);
  std::vector<int64_t> words(kEnd, 0);
  for (int d = 0; d < kStridedRank; ++d) words[kSizes + d] = 1;
  words[kSizes + 5] = size;
  words[kFlags] = mask.word(), words[kFlags + 6] = 1;
  words[kFrom] = in.word(), words[kFrom + 6] = 1;
  words[kOut] = out.word(), words[kOut + 1] = 1;
  words[kRank] = 1, words[kCount] = 3;
  LaunchLibraryKernel({kMaskedSelectKernel, {DType::kComplex128}}, 80, words, 2);
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t i = chosen[static_cast<size_t>(k)];
    EXPECT_EQ(out.Get(2 * k), in.Get(2 * i));
    EXPECT_EQ(out.Get(2 * k + 1), in.Get(2 * i + 1));
  }
}

}  // namespace
}  // namespace smelt
