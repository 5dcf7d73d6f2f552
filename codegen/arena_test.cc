#include "smelt/codegen/arena.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"
#include "smelt/core/symbol/expr.h"

namespace smelt {
namespace {

using Sizes = absl::flat_hash_map<std::string, int64_t>;

int64_t Value(const Expr& e, const Sizes& sizes) { return e.Evaluate(sizes).value(); }

// The most bytes that are alive at one time.
int64_t Peak(const std::vector<ArenaBuffer>& buffers, const Sizes& sizes) {
  int64_t peak = 0;
  for (const ArenaBuffer& at : buffers) {
    int64_t alive = 0;
    for (const ArenaBuffer& b : buffers) {
      if (b.begin <= at.begin && at.begin <= b.end) alive += Value(b.bytes, sizes);
    }
    peak = std::max(peak, alive);
  }
  return peak;
}

void ExpectNoOverlap(const std::vector<ArenaBuffer>& buffers, const ArenaLayout& layout, const Sizes& sizes) {
  ASSERT_EQ(layout.offsets.size(), buffers.size());
  std::vector<int64_t> begin, end;
  for (size_t i = 0; i < buffers.size(); ++i) {
    begin.push_back(Value(layout.offsets[i], sizes));
    end.push_back(begin[i] + Value(buffers[i].bytes, sizes));
    EXPECT_EQ(begin[i] % 64, 0) << layout.offsets[i].ToString();
    EXPECT_LE(end[i], Value(layout.bytes, sizes)) << buffers[i].bytes.ToString();
    for (size_t j = 0; j < i; ++j) {
      if (buffers[i].begin > buffers[j].end || buffers[j].begin > buffers[i].end) continue;
      EXPECT_TRUE(end[i] <= begin[j] || end[j] <= begin[i] || begin[i] == end[i] || begin[j] == end[j])
          << buffers[i].bytes.ToString() << " at " << begin[i] << ", " << buffers[j].bytes.ToString() << " at "
          << begin[j];
    }
  }
}

TEST(ArenaTest, BuffersThatAreAliveTogetherDoNotOverlapWhateverTheSizes) {
  const Expr s = Expr::Symbol("s"), t = Expr::Symbol("t");
  const std::vector<Expr> units = {
      1, s, t, s * t, s + 3, s * t + 2 * s, FloorDiv(s + 1, 2) * t, Max(s, t), FloorDiv(s, 3)};
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBuffer> buffers;
    const int n = 1 + below(40), kinds = 1 + below(static_cast<int>(units.size()));
    for (int i = 0; i < n; ++i) {
      const int begin = below(50);
      const int64_t count = below(2) == 0 ? 1 + below(40) : 64 * (1 + below(100));
      buffers.push_back({units[below(kinds)] * count, begin, begin + below(10)});
    }
    const ArenaLayout layout = PackArena(buffers);
    for (const Sizes& sizes :
         {Sizes{{"s", 0}, {"t", 5}}, {{"s", 1}, {"t", 1}}, {{"s", 7}, {"t", 100}}, {{"s", 1000}, {"t", 3}}})
      ExpectNoOverlap(buffers, layout, sizes);
  }
}

// Two layers, one after the other, of which each needs its input, twice as much in the middle, and its result.
std::vector<ArenaBuffer> Layers(const Expr& unit) {
  return {{unit * 1024, 0, 1}, {unit * 2048, 1, 2}, {unit * 512, 2, 3}, {unit * 4096, 3, 4}, {unit * 256, 4, 5}};
}

TEST(ArenaTest, BuffersThatGrowWithOneSizeTakeNoMoreThanIsAliveAtATime) {
  const Expr batch = Expr::Symbol("batch");
  const std::vector<ArenaBuffer> buffers = Layers(batch);
  for (int64_t size : {1, 2, 64}) {
    const Sizes sizes = {{"batch", size}};
    EXPECT_EQ(Value(PackArena(buffers).bytes, sizes), Peak(buffers, sizes));
  }
}

TEST(ArenaTest, BuffersOfConstantSizesTakeNoMoreThanIsAliveAtATime) {
  EXPECT_EQ(PackArena(Layers(1)).bytes, Expr(512 + 4096));
}

TEST(ArenaTest, ASmallBufferDoesNotSplitTheRoomOfALargeOne) {
  // In the order of their lives, the third would lie after the first, where the fourth needs room.
  const std::vector<ArenaBuffer> buffers = {{1024, 0, 1}, {1024, 0, 0}, {64, 1, 3}, {2048, 2, 3}};
  EXPECT_EQ(PackArena(buffers).bytes, Expr(2048 + 64));
}

TEST(ArenaTest, ASmallMultipleIsNotRoundedUpForEachUnit) {
  const Expr s = Expr::Symbol("s");
  const std::vector<ArenaBuffer> buffers = {{s * 4, 0, 1}, {s * 4, 1, 2}, {s * 4, 2, 3}};
  EXPECT_LT(Value(PackArena(buffers).bytes, {{"s", 1'000'000}}), 2 * 4 * 1'000'000 + 256);
}

}  // namespace
}  // namespace smelt
