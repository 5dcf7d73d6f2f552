#include "smelt/codegen/launch_words.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kScaled[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 r [any,zero] alias=-1
param float32 w [any,unit] alias=-1
scalar int64
%0 = load.p0 float32
%1 = load.p1 float32
%2 = mul float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)";

TEST(LaunchWordsTest, EachWordOfTheBlockIsLoadedOnce) {
  EmitterFixture e(kScaled);
  // Sizes, bases, strides of class any, the scalar; and the machine's hints.
  EXPECT_EQ(e.Count(llvm::Instruction::Load), e.plan.spec.num_words() + 1);
  EXPECT_EQ(e.words.sizes().size(), 2u);
  EXPECT_EQ(e.words.scalars().size(), 1u);
}

TEST(LaunchWordsTest, OnlyDimsThatMatterHaveAStride) {
  EmitterFixture e(kScaled);
  for (int p = 0; p < 3; ++p) {
    for (int d = 0; d < 2; ++d) EXPECT_EQ(e.words.stride(p, d) != nullptr, e.plan.Moves(p, d)) << p << " " << d;
  }
  EXPECT_EQ(e.words.stride(1, 1), nullptr);
  EXPECT_EQ(e.words.stride(0, 1), e.Int(4));
}

TEST(LaunchWordsTest, OnlyTheResultMayPassTheCache) {
  EmitterFixture e(kScaled);
  EXPECT_EQ(e.words.passes_cache(0), nullptr);
  EXPECT_NE(e.words.passes_cache(2), nullptr);
  EmitterFixture arm(kScaled, {.vector_bits = 128, .fma = true});
  EXPECT_EQ(arm.words.passes_cache(2), nullptr);
}

TEST(LaunchWordsTest, WorkInPlaceStaysInTheCache) {
  EmitterFixture e(kScaled);
  int distances = 0;  // from the result to an operand and back
  for (const llvm::User* address : e.words.base(2)->users()) {
    if (!llvm::isa<llvm::PtrToIntInst>(address)) continue;
    for (const llvm::User* user : address->users()) {
      const auto* distance = llvm::dyn_cast<llvm::BinaryOperator>(user);
      distances += distance && distance->getOpcode() == llvm::Instruction::Sub;
    }
  }
  EXPECT_EQ(distances, 2 * 2);
  EmitterFixture distinct(kTestDistinctCopy);
  ASSERT_NE(distinct.words.passes_cache(1), nullptr);
  EXPECT_TRUE(distinct.words.base(1)->use_empty()) << "classes that share no memory are not compared";
}

TEST(LaunchWordsTest, TheMachinesLastCacheDecidesForEveryTarget) {
  for (const CpuFeatures& features : {kTestV2, kTestV3, kTestV4}) {
    EmitterFixture e(kScaled, features);
    EXPECT_EQ(e.Count(llvm::Instruction::Load), e.plan.spec.num_words() + 1);
    EXPECT_EQ(e.Count(llvm::Instruction::LShr), 1) << "of the hints";
  }
}

TEST(LaunchWordsTest, AnIndexMovesTheParamsOfItsDim) {
  EmitterFixture e(kScaled);
  LoopContext inner = e.ctx;
  e.words.AddIndex(inner, 0, e.Int(7));
  EXPECT_EQ(inner.idx[0], e.Int(7));
  for (int p = 0; p < 3; ++p) EXPECT_NE(inner.addr[p], e.ctx.addr[p]);
  LoopContext along = e.ctx;
  e.words.AddIndex(along, 1, e.Int(7));
  EXPECT_EQ(along.addr[1], e.ctx.addr[1]);
  EXPECT_EQ(e.ctx.idx[0], nullptr) << "another position is as it was";
}

TEST(LaunchWordsTest, OutsideOfTheLoopAllLanesAreAtOnePlace) {
  EmitterFixture e(kScaled);
  EXPECT_EQ(e.words.Address(e.ctx, 0, 1), e.ctx.addr[0]);
  EXPECT_EQ(e.words.StrideAlongLoop(e.ctx, 0), e.Int(0));
  EXPECT_FALSE(e.words.UnitAlongLoop(e.ctx, 0));
  LoopContext inner = e.ctx;
  inner.chunk = e.words.size(1);
  EXPECT_NE(e.words.Address(inner, 0, 1), e.words.Address(inner, 0, 0));
  EXPECT_EQ(e.words.Address(inner, 1, 1), e.ctx.addr[1]);
  EXPECT_TRUE(e.words.UnitAlongLoop(inner, 0));
}

}  // namespace
}  // namespace smelt
