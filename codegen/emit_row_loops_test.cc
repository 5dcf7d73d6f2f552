#include "smelt/codegen/emit_row_loops.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

struct Rows : EmitterFixture {
  Rows() : EmitterFixture(kTestCentered), rows(plan.PlanRows()), row_loops(fn, plan, rows, words, values, parts) {
    ctx = words.Outermost();
  }

  const RowPlan rows;
  RowLoopEmitter row_loops;
};

TEST(RowLoopEmitterTest, OnlyReductionsOutliveTheirLoop) {
  Rows r;
  r.row_loops.EmitPhases(r.ctx, {}, 0, 1);
  EXPECT_EQ(r.values.Get(0, 0), nullptr);
  ASSERT_NE(r.values.Get(1, 0), nullptr);
  EXPECT_EQ(r.values.Get(1, 0)->getType(), r.b.getFloatTy());
  EXPECT_TRUE(r.Finish());
}

TEST(RowLoopEmitterTest, AllPhasesOfARowAreValid) {
  Rows r;
  r.row_loops.EmitPhases(r.ctx, {}, 0, 3);
  EXPECT_TRUE(r.Finish());
  EXPECT_EQ(r.Count(llvm::Instruction::FNeg), 1) << "an outer phase is scalar code";
  EXPECT_GT(r.CountIntrinsic(llvm::Intrinsic::prefetch), 0);
}

TEST(RowLoopEmitterTest, OnlyOneLoopPrefetchesLaterRows) {
  Rows r;
  const RowLoop first = r.row_loops.PlanLoop(r.plan.spec.phases[0]);
  const RowLoop last = r.row_loops.PlanLoop(r.plan.spec.phases[2]);
  EXPECT_NE(first.prefetches, last.prefetches);
  EXPECT_GT(first.copies, 1);
}

TEST(RowLoopEmitterTest, ALoopWithoutStoresStartsAnywhere) {
  Rows r;
  EXPECT_EQ(r.row_loops.HeadOf(r.ctx, r.row_loops.PlanLoop(r.plan.spec.phases[0])), r.Int(0));
  EXPECT_NE(r.row_loops.HeadOf(r.ctx, r.row_loops.PlanLoop(r.plan.spec.phases[2])), r.Int(0));
}

}  // namespace
}  // namespace smelt
