#include "smelt/codegen/emit_turns.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(KeptRowTest, ARowIsRestoredAsItWasKept) {
  EmitterFixture e(kTestCentered);
  std::vector<bool> wanted(6, false);
  wanted[2] = true;
  KeptRow row(e.fn, e.plan, e.values, /*end=*/2, &wanted);
  LoopContext ctx = e.words.Outermost();
  e.words.AddIndex(ctx, 0, e.fn.begin());
  e.values.Set(1, 0, llvm::ConstantFP::get(e.b.getFloatTy(), 1));
  e.values.Set(2, 0, llvm::ConstantFP::get(e.b.getFloatTy(), 2));
  row.Keep(ctx);
  const LoopContext restored = row.Restore(e.words.Outermost());
  EXPECT_EQ(e.values.Get(1, 0), nullptr) << "no later phase takes it";
  ASSERT_NE(e.values.Get(2, 0), nullptr);
  EXPECT_NE(restored.idx[0], nullptr);
  EXPECT_NE(restored.addr[0], nullptr);
  EXPECT_EQ(restored.idx[1], nullptr);
  e.Use(e.b.CreateAdd(restored.idx[0], e.Int(1)));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::Alloca), 0);
}

TEST(TurnEmitterTest, EachRowIsStartedOnceAndBothLoopsRunInTurns) {
  EmitterFixture e(kTestCentered);
  const RowPlan rows = e.plan.PlanRows();
  ASSERT_TRUE(rows.in_turns);
  int starts = 0;
  TurnEmitter(e.fn, e.plan, rows, e.words, e.values, e.parts)
      .Emit(e.words.Outermost(), {}, [&](const LoopContext& row, llvm::Value*) {
        ++starts;
        e.values.Reset(1, e.values.None());
        return row;
      });
  EXPECT_EQ(starts, 1);
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 1);
  EXPECT_EQ(e.Count(llvm::Instruction::Alloca), 0) << "rows are in registers between the parts of a turn";
}

}  // namespace
}  // namespace smelt
