#include "smelt/codegen/emit_folds.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

constexpr char kColumnMax[] = R"(kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [unit,any] alias=-1
param float32 w [unit,zero] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = neg float32 %1
%3 = store.p1 float32 %2
inner 0 1
outer 2 3
)";

TEST(FoldEmitterTest, AllColumnsAreOneVector) {
  EmitterFixture e(kColumnMax);
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
  EmitterFixture e(kColumnMax);
  FoldEmitter folds(e.fn, e.plan, e.words, e.values, e.parts);
  e.Use(folds.Folds());
  EXPECT_TRUE(e.Finish());
  // Few columns, many rows, and the distance of the read rows.
  EXPECT_EQ(e.Count(llvm::Instruction::ICmp), 4) << "with that of the launch's tiles";
}

}  // namespace
}  // namespace smelt
