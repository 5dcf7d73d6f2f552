#include "smelt/codegen/emit_streams.h"

#include "absl/algorithm/container.h"
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

TEST(StreamEmitterTest, RowsThatAreStoredPrefetchALaterRow) {
  EmitterFixture e(R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,any] alias=-1
%0 = load.p0 float32
%1 = reduce.sum float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = store.p1 float32 %3
inner 0 1
inner 2 3 4
)");
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  streams.StreamColumns(e.ctx, e.fn.begin(), e.fn.end());
  EXPECT_TRUE(e.Finish());
  int asked = 0;
  CountIn(e.module, [&](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
    if (call == nullptr || call->getIntrinsicID() != llvm::Intrinsic::prefetch) return false;
    ++asked;
    // Into the second cache.
    EXPECT_EQ(llvm::cast<llvm::ConstantInt>(call->getArgOperand(2))->getZExtValue(), 2u);
    return true;
  });
  EXPECT_GT(asked, 0);
  EmitterFixture only_sums(kColumnSum);
  StreamEmitter sums(only_sums.fn, only_sums.plan, only_sums.words, only_sums.values, only_sums.parts);
  sums.StreamColumns(only_sums.ctx, only_sums.fn.begin(), only_sums.fn.end());
  EXPECT_TRUE(only_sums.Finish());
  EXPECT_EQ(only_sums.CountIntrinsic(llvm::Intrinsic::prefetch), 0);
}

TEST(StreamEmitterTest, SumsOfDeviationsRunOnlyWhereSomeColumnNeedsThem) {
  EmitterFixture e(Schedule::Of(ParseOrDie(R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
scalar int64
%0 = scalar.s0 int64
%1 = cast float64 %0
%2 = load.p0 float32
%3 = cast float64 %2
%4 = reduce.sum float64 %3
%5 = div float64 %4 %1
%6 = load.p0 float32
%7 = cast float64 %6
%8 = sub float64 %7 %5
%9 = mul float64 %8 %8
%10 = reduce.sum float64 %9
%11 = div float64 %10 %1
%12 = cast float32 %11
%13 = store.p1 float32 %12
outer 0 1
inner 2 3 4
outer 5
inner 6 7 8 9 10
outer 11 12 13
)"),
                                kTestV4)
                       .OfStreams());
  // The sum, and that of squares, which stand in the first phase over rows.
  ASSERT_EQ(absl::c_count_if(e.plan.unless, [](int i) { return i >= 0; }), 1);
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  streams.StreamColumns(e.ctx, e.fn.begin(), e.fn.end());
  EXPECT_TRUE(e.Finish());
  // The choice asks if all lanes of a vector of columns know their sum without the second phase.
  EXPECT_GE(CountIn(e.module,
                    [](const llvm::Instruction& i) {
                      return i.getOpcode() == llvm::Instruction::BitCast && i.getType()->isIntegerTy(16);
                    }),
            1);
}

TEST(StreamEmitterTest, TheLaunchsSizesDecide) {
  EmitterFixture e(kColumnSum);
  StreamEmitter streams(e.fn, e.plan, e.words, e.values, e.parts);
  EXPECT_EQ(llvm::cast<llvm::CmpInst>(streams.HasManyRows())->getOperand(0), e.words.size(1));
}

}  // namespace
}  // namespace smelt
