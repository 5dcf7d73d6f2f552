#include "smelt/codegen/emit_lanes.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kApart[] = R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [any] alias=-1
param float32 w [any] alias=-1
%0 = load.p0 float32
%1 = store.p1 float32 %0
outer 0 1
)";

TEST(LaneEmitterTest, GroupsOfFourLanesShareAnAddress) {
  EmitterFixture e(kApart);
  LaneEmitter lanes(e.fn, e.plan);
  const std::vector<llvm::Value*> places =
      lanes.LaneAddresses(e.ctx, e.plan.spec.instrs[0], e.words.base(0), e.words.stride(0, 0), nullptr);
  ASSERT_EQ(places.size(), 16u);
  for (int k = 0; k < 16; ++k) {
    if (k % 4 == 0) continue;
    EXPECT_EQ(llvm::cast<llvm::GetElementPtrInst>(places[k])->getPointerOperand(), places[k / 4 * 4]) << k;
  }
}

TEST(LaneEmitterTest, OnlyActiveLanesWhoseGuardHoldsAreCombined) {
  EmitterFixture e(kApart);
  LaneEmitter lanes(e.fn, e.plan);
  EXPECT_EQ(lanes.CombinedMask(e.ctx, nullptr), nullptr);
  e.ctx.mask = e.fn.MaskOf(e.words.size(0), 16);
  EXPECT_EQ(lanes.CombinedMask(e.ctx, nullptr), e.ctx.mask);
  llvm::Value* guard = e.b.CreateICmpEQ(e.words.size(0), e.Int(3));
  EXPECT_EQ(llvm::cast<llvm::Instruction>(lanes.CombinedMask(e.ctx, guard))->getOpcode(), llvm::Instruction::And);
}

TEST(LaneEmitterTest, AGuardedLoadGathersWhereMasksAreNative) {
  for (const CpuFeatures& features : {kTestV3, kTestV4}) {
    EmitterFixture e(kApart, features);
    LaneEmitter lanes(e.fn, e.plan);
    llvm::Value* guard = e.fn.MaskOf(e.words.size(0), e.plan.lanes);
    e.Use(lanes.LoadLanes(e.ctx, e.plan.spec.instrs[0], e.fn.Vec(e.b.getFloatTy(), e.plan.lanes), e.words.base(0),
                          e.words.stride(0, 0), nullptr, guard));
    EXPECT_TRUE(e.Finish());
    EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::masked_gather), features.avx512 ? 1 : 0);
  }
}

}  // namespace
}  // namespace smelt
