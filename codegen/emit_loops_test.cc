#include "smelt/codegen/emit_loops.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kCopy[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=0
param float32 r [any,zero] alias=1
param float32 w [any,unit] alias=2
%0 = load.p0 float32
%1 = load.p1 float32
%2 = mul float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)";

// The bodies of a loop: copies, and whether lanes are masked.
using Bodies = std::vector<std::pair<int, bool>>;

Bodies BodiesOf(EmitterFixture& e, const ChunkRange& range, const std::function<void()>& flush = nullptr) {
  Bodies bodies;
  e.parts.loops.ChunkLoop(
      e.ctx, {0, 1, 2, 3}, range,
      [&](const LoopContext& inner, int copies) {
        bodies.emplace_back(copies, inner.mask != nullptr);
        EXPECT_EQ(inner.idx[1], inner.chunk);
        EXPECT_EQ(inner.mask != nullptr, inner.count != nullptr);
        e.Use(inner.chunk);
      },
      flush);
  return bodies;
}

TEST(LoopEmitterTest, AMainLoopIsFollowedByOneMaskedBody) {
  EmitterFixture e(kCopy);
  EXPECT_EQ(BodiesOf(e, {e.Int(0), e.words.size(1), 4, false}), (Bodies{{4, false}, {1, true}}));
  EXPECT_TRUE(e.Finish());
}

TEST(LoopEmitterTest, WithoutCheapMasksTheRestRunsInVectorsFirst) {
  EmitterFixture e(kCopy, kTestV3);
  EXPECT_EQ(BodiesOf(e, {e.Int(0), e.words.size(1), 4, false}), (Bodies{{4, false}, {1, false}, {1, true}}));
  EXPECT_TRUE(e.Finish());
}

TEST(LoopEmitterTest, OneLaneTakesOneLoop) {
  EmitterFixture e(kCopy);
  e.ctx.lanes = 1;
  EXPECT_EQ(BodiesOf(e, {e.Int(0), e.words.size(1), 1, true}), (Bodies{{1, false}}));
  EXPECT_TRUE(e.Finish());
}

TEST(LoopEmitterTest, ALoopThatPassesTheCacheStartsWithItsMaskedBody) {
  EmitterFixture e(kCopy);
  EXPECT_EQ(BodiesOf(e, {e.Int(0), e.words.size(1), 4, true}), (Bodies{{1, true}, {4, false}}));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::x86_sse_sfence), 1);
}

TEST(LoopEmitterTest, SumsAreFlushedInTheMainLoop) {
  EmitterFixture e(kCopy);
  int flushes = 0;
  BodiesOf(e, {e.Int(0), e.words.size(1), 2, false}, [&] { ++flushes; });
  EXPECT_EQ(flushes, 1);
  EXPECT_TRUE(e.Finish());
}

TEST(LoopEmitterTest, OnlyInvariantsThatNoStoreMayChangeAreHoisted) {
  EmitterFixture e(kCopy);
  e.parts.loops.Hoist(e.ctx, {0, 1, 2, 3}, std::vector<bool>(4, false));
  EXPECT_FALSE(e.values.IsHoisted(0));
  EXPECT_TRUE(e.values.IsHoisted(1));
  EXPECT_EQ(e.values.Get(1, 0)->getType(), e.b.getFloatTy());
  EXPECT_FALSE(e.values.IsHoisted(2));
  EXPECT_FALSE(e.values.IsHoisted(3));
}

}  // namespace
}  // namespace smelt
