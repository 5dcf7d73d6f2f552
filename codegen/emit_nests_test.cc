#include "smelt/codegen/emit_nests.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kRows[] = R"(kernel parallel=3 reduction=2 vector=4 sequential=0
param float32 r [any,any,any,any,unit] alias=-1
param float32 w [any,any,unit,zero,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1
outer 2
)";

TEST(NestEmitterTest, ATileHasTheIndicesOfAllParallelDims) {
  EmitterFixture e(kRows);
  int bodies = 0, begins = 0;
  e.parts.nests.ForTiles(
      e.ctx, e.fn.end(),
      [&](const LoopContext& tile, llvm::Value* number) {
        ++bodies;
        for (int d = 0; d < 3; ++d) EXPECT_NE(tile.idx[d], nullptr) << d;
        EXPECT_EQ(tile.idx[3], nullptr);
        EXPECT_NE(tile.addr[1], e.words.base(1));
        e.Use(number);
      },
      [&](const LoopContext& tiles) {
        ++begins;
        EXPECT_NE(tiles.idx[1], nullptr);
        EXPECT_EQ(tiles.idx[2], nullptr) << "the innermost of them has a loop of its own";
      });
  EXPECT_EQ(bodies, 1);
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(e.ctx.idx[0], nullptr);
  EXPECT_TRUE(e.Finish());
}

TEST(NestEmitterTest, SumsAreFlushedBetweenBlocksOfTheInnermostDim) {
  EmitterFixture e(kRows);
  int flushes = 0;
  e.parts.nests.Nest(e.ctx, 3, 5, [&](const LoopContext& inner) { e.Use(inner.addr[0]); }, [&] { ++flushes; });
  EXPECT_EQ(flushes, 1);
  EXPECT_TRUE(e.Finish());
  // Loops over dim 3, over blocks of dim 4, and over the elements of a block.
  EXPECT_EQ(e.Count(llvm::Instruction::PHI), 3);
}

TEST(NestEmitterTest, ARangeWithoutSumsIsOneBlock) {
  EmitterFixture e(kRows);
  int runs = 0;
  e.parts.nests.InBlocks(
      e.Int(0), e.words.size(0), e.Int(16),
      [&](llvm::Value* from, llvm::Value* to) {
        ++runs;
        EXPECT_EQ(from, e.Int(0));
        EXPECT_EQ(to, e.words.size(0));
      },
      nullptr);
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace smelt
