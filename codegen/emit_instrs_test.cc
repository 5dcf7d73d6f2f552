#include "smelt/codegen/emit_instrs.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

// p2 = exp(p0) * p1, where p0 is equal along the loop.
constexpr char kScaled[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,zero] alias=0
param float32 r [any,unit] alias=1
param float32 w [any,unit] alias=2
%0 = load.p0 float32
%1 = neg float32 %0
%2 = load.p1 float32
%3 = mul float32 %1 %2
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)";

TEST(InstrEmitterTest, WhatIsEqualInAllLanesAndCopiesIsComputedOnce) {
  EmitterFixture e(kScaled);
  e.values.Reset(2, e.values.None());
  e.parts.instrs.EmitInstrs(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), {0, 1, 2, 3, 4}, 2);
  EXPECT_EQ(e.values.Get(1, 0)->getType(), e.b.getFloatTy());
  EXPECT_EQ(e.values.Get(1, 0), e.values.Get(1, 1));
  EXPECT_NE(e.values.Get(3, 0), e.values.Get(3, 1));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 1);
  EXPECT_EQ(e.Count(llvm::Instruction::FMul), 2);
}

TEST(InstrEmitterTest, HoistedInstructionsAreSkipped) {
  EmitterFixture e(kScaled);
  e.values.Set(0, 0, llvm::ConstantFP::get(e.b.getFloatTy(), 3));
  llvm::Value* known = e.b.CreateFNeg(e.b.CreateLoad(e.b.getFloatTy(), e.words.base(0)));
  e.values.Set(1, 0, known);
  e.values.SetHoisted({true, true, false, false, false});
  e.parts.instrs.EmitInstrs(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), {0, 1, 2, 3, 4}, 1);
  EXPECT_EQ(e.values.Get(1, 0), known);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 1);
}

TEST(InstrEmitterTest, ABodyForWholesAndPartsLoadsInOneBranch) {
  EmitterFixture e(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param float32 r [unit] alias=-1
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = load.p1 float32
%2 = add float32 %0 %1
%3 = store.p2 float32 %2
outer 0 1 2 3
)");
  LoopContext ctx = e.parts.loops.AtIndex(e.ctx, e.fn.begin());
  ctx.count = e.words.size(0);
  ctx.mask = e.fn.MaskOf(ctx.count, e.plan.lanes);
  ctx.whole = e.b.CreateICmpEQ(ctx.count, e.Int(16));
  const size_t before = e.module.getFunction("k")->size();
  e.parts.instrs.EmitInstrs(ctx, {0, 1, 2, 3}, 1);
  // Both loads share three blocks, and the store has three.
  EXPECT_EQ(e.module.getFunction("k")->size(), before + 6);
  EXPECT_TRUE(e.Finish());
}

TEST(InstrEmitterTest, AnIndexIsComparedByItsLane) {
  EmitterFixture e(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param bool w [unit] alias=-1
scalar int64
%0 = index.d0 int64
%1 = scalar.s0 int64
%2 = lt bool %0 %1
%3 = store.p0 bool %2
outer 0 1 2 3
)");
  e.parts.instrs.EmitInstrs(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), {1, 0, 2}, 1);
  const auto* compared = llvm::cast<llvm::CmpInst>(e.values.Get(2, 0));
  EXPECT_EQ(compared->getOperand(0)->getType()->getScalarSizeInBits(), 16u) << "64 lanes fit into few registers";
}

TEST(InstrEmitterTest, AnIndexOutOfRangeSetsTheStatus) {
  EmitterFixture e(R"(kernel parallel=1 reduction=0 vector=0 sequential=0
param int64 r [unit] alias=-1
param int64 w [unit] alias=-1
scalar int64
%0 = load.p0 int64
%1 = scalar.s0 int64
%2 = check_index int64 %0 %1
%3 = store.p1 int64 %2
outer 0 1 2 3
)");
  e.parts.instrs.EmitInstrs(e.parts.loops.AtIndex(e.ctx, e.fn.begin()), {0, 1, 2}, 1);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::Store), 1);
}

}  // namespace
}  // namespace smelt
