#include "smelt/codegen/emit_streams.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kColumnSum[] = R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = neg float32 %1
%3 = store.p1 float32 %2
inner 0 1
outer 2 3
)";

TEST(StreamEmitterTest, AccumulatorsAndResultsAreInBuffersOfATile) {
  EmitterFixture e(kColumnSum);
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  streams.StreamColumns(e.ctx, e.fn.begin(), e.fn.end());
  EXPECT_TRUE(e.Finish());
  // The result that the last phase takes, the sum, and its second level.
  EXPECT_EQ(e.Count(llvm::Instruction::Alloca), 3);
  CountIn(e.module, [&](const llvm::Instruction& i) {
    const auto* a = llvm::dyn_cast<llvm::AllocaInst>(&i);
    if (a) {
      EXPECT_EQ(a->getAllocatedType()->getArrayNumElements(), e.plan.streams.columns + e.plan.lanes);
    }
    return false;
  });
}

TEST(StreamEmitterTest, CheapRowsAreReadEightAtATime) {
  EmitterFixture e(kColumnSum);
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  streams.StreamColumns(e.ctx, e.fn.begin(), e.fn.end());
  EXPECT_TRUE(e.Finish());
  // Eight rows of four vectors, eight of a masked one, and one masked row.
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::masked_load), 9);
}

TEST(StreamEmitterTest, TheLaunchsSizesDecide) {
  EmitterFixture e(kColumnSum);
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  EXPECT_EQ(llvm::cast<llvm::CmpInst>(streams.HasManyRows())->getOperand(0), e.words.size(1));
}

}  // namespace
}  // namespace smelt
