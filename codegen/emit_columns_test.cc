#include "smelt/codegen/emit_columns.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

// A row shifted right by s0: zero before.
constexpr char kShift[] = R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [any,unit] alias=0
param float32 w [any,unit] alias=1
scalar int64
%0 = index.d1 int64
%1 = scalar.s0 int64
%2 = ge bool %0 %1
%3 = load.p0 float32 %2 +guard
%4 = neg float32 %3
%5 = store.p1 float32 %4
outer 0 1 2 3 4 5
)";

TEST(ColumnEmitterTest, TheInteriorOfARowHasNoGuards) {
  EmitterFixture e(kShift);
  ASSERT_TRUE(e.plan.interior.has_value());
  ColumnEmitter(e.fn, e.plan, e.words, e.values).Emit();
  EXPECT_TRUE(e.Finish());
  const int unmasked = CountIn(
      e.module, [](const llvm::Instruction& i) { return llvm::isa<llvm::LoadInst>(i) && i.getType()->isVectorTy(); });
  EXPECT_GT(unmasked, 0);
  // The elements around it are taken one by one.
  EXPECT_GT(CountIn(e.module,
                    [](const llvm::Instruction& i) {
                      return i.getOpcode() == llvm::Instruction::FNeg && !i.getType()->isVectorTy();
                    }),
            0);
}

TEST(ColumnEmitterTest, WhatIsEqualForARowIsComputedBeforeIt) {
  EmitterFixture e(R"(kernel parallel=2 reduction=0 vector=1 sequential=0
param float32 r [zero,zero] alias=0
param float32 r [any,unit] alias=1
param float32 w [any,unit] alias=2
%0 = load.p0 float32
%1 = neg float32 %0
%2 = load.p1 float32
%3 = mul float32 %1 %2
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)");
  ColumnEmitter(e.fn, e.plan, e.words, e.values).Emit();
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 1);
}

TEST(ColumnEmitterTest, OneColumnPerTileStartsAtTheLaunchsFirst) {
  EmitterFixture e(kTestDistinctCopy);
  ColumnEmitter(e.fn, e.plan, e.words, e.values).Emit();
  EXPECT_TRUE(e.Finish());
  EXPECT_FALSE(e.fn.begin()->use_empty());
}

}  // namespace
}  // namespace smelt
