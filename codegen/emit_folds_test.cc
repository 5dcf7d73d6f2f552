#include "smelt/codegen/emit_folds.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(FoldEmitterTest, AllColumnsAreOneVector) {
  EmitterFixture e(kTestColumnMax);
  ASSERT_TRUE(e.plan.folds.possible);
  FoldEmitter folds(e.fn, e.plan, e.words, e.values, e.parts);
  folds.EmitFolded(e.ctx);
  EXPECT_EQ(e.values.copies(), 1);
  EXPECT_EQ(e.values.Get(1, 0)->getType(), e.fn.Vec(e.b.getFloatTy(), 16));
  EXPECT_TRUE(e.Finish());
  EXPECT_EQ(e.Count(llvm::Instruction::FNeg), 1);
  EXPECT_EQ(e.CountIntrinsic(llvm::Intrinsic::masked_store), 1);
}

TEST(FoldEmitterTest, RowsWithGapsAreNotFolded) {
  EmitterFixture e(kTestColumnMax);
  FoldEmitter folds(e.fn, e.plan, e.words, e.values, e.parts);
  e.Use(folds.Folds());
  EXPECT_TRUE(e.Finish());
  // Few columns, many rows, and the distance of the read rows.
  EXPECT_EQ(e.Count(llvm::Instruction::ICmp), 4) << "with that of the launch's tiles";
}

}  // namespace
}  // namespace smelt
