#include "smelt/codegen/lane_folds.h"

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(LaneFoldsTest, RowsOfColumnsAreRepeatedAndPutTogether) {
  EmitterFixture e(kTestColumnSum);
  LaneFolds folds(e.fn, e.plan, e.words);
  llvm::Value* lanes = folds.FoldedLanes();
  EXPECT_EQ(lanes->getType(), e.b.getInt64Ty());
  llvm::Value* v = e.b.CreateVectorSplat(16, e.b.CreateUIToFP(lanes, e.b.getFloatTy()));
  llvm::Value* spread = folds.Spread(v);
  EXPECT_EQ(spread->getType(), v->getType());
  int combined = 0;
  e.Use(folds.FoldLanes(spread, [&](llvm::Value* a, llvm::Value* z) {
    ++combined;
    return e.b.CreateFAdd(a, z);
  }));
  EXPECT_EQ(combined, 1) << "in a loop over the rows of a vector";
  EXPECT_TRUE(e.Finish());
}

TEST(LaneFoldsTest, BooleansGoThroughMemoryAsBytes) {
  EmitterFixture e(kTestColumnSum);
  LaneFolds folds(e.fn, e.plan, e.words);
  llvm::Value* v = e.fn.MaskOf(e.words.size(0), 16);
  EXPECT_EQ(folds.Spread(v)->getType(), v->getType());
  EXPECT_TRUE(e.Finish());
}

}  // namespace
}  // namespace smelt
