#include "smelt/codegen/emit_prefetches.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kAdd[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 r [any,zero] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = add float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)";

TEST(PrefetchEmitterTest, OnlyReadRowsInOrderMayBeFar) {
  EmitterFixture e(kAdd);
  const std::vector<FarRows> rows = e.parts.prefetches.FindFarRows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].param, 0);
  e.parts.prefetches.PrefetchFarRows(e.ctx, rows);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 2) << "the first and the last line of a row";
}

TEST(PrefetchEmitterTest, LinesAreAskedForOnlyBesideStoresPastTheCache) {
  EmitterFixture e(kAdd);
  const LinesAhead ahead = e.parts.prefetches.FindLinesAhead();
  ASSERT_EQ(ahead.lines.size(), 1u);
  LoopContext ctx = e.parts.loops.AtIndex(e.ctx, e.fn.begin());
  e.parts.prefetches.PrefetchAhead(ctx, ahead, {0, 1, 2, 3}, 2);
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 0);
  ctx.past_cache = e.words.passes_cache(2);
  e.parts.prefetches.PrefetchAhead(ctx, ahead, {0, 1, 2, 3}, 2);
  EXPECT_TRUE(e.Finish());
  // Two lines, into the nearest cache or into the second one.
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 4);
}

TEST(PrefetchEmitterTest, LinesOfElementsApartAreAskedForOnAnyMachine) {
  EmitterFixture e(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [two] alias=-1
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = add float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)");
  const LinesAhead ahead = e.parts.prefetches.FindLinesAhead();
  ASSERT_EQ(ahead.lines.size(), 2u);
  LoopContext ctx = e.parts.loops.AtIndex(e.ctx, e.fn.begin());
  ctx.past_cache = e.words.passes_cache(2);
  e.parts.prefetches.PrefetchAhead(ctx, ahead, {0, 1, 2, 3}, 2);
  EXPECT_TRUE(e.Finish());
  // Two vectors lie in four lines and in two. Where the machine wants prefetches: all six; where not: the four.
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 10);
}

TEST(PrefetchEmitterTest, LaterRowsAreThoseOfReadParams) {
  EmitterFixture e(kTestRowMax);
  const std::vector<llvm::Value*> ahead = e.parts.prefetches.FindRowsAhead(e.ctx, nullptr);
  EXPECT_NE(ahead[0], e.ctx.addr[0]);
  e.parts.prefetches.PrefetchRows(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), ahead, 2);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 2);
}

TEST(PrefetchEmitterTest, RowsInABufferAskForTheRowsOfTheNextOne) {
  Schedule plan = Schedule::Of(ParseOrDie(kTestRowMax), kTestV4);
  plan.fills_next[0] = true;
  EmitterFixture e(plan);
  ASSERT_NE(e.words.next_rows(0).address, nullptr);
  EXPECT_EQ(e.words.next_rows(1).address, nullptr);
  const std::vector<llvm::Value*> ahead = e.parts.prefetches.FindRowsAhead(e.ctx, nullptr);
  e.parts.prefetches.PrefetchRows(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), ahead, 2);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::prefetch), 2) << "one for each line that a vector takes from the buffer";
}

}  // namespace
}  // namespace smelt
