#include "smelt/codegen/values.h"

#include <vector>

#include "gtest/gtest.h"
#include "smelt/codegen/emitter_testing.h"

namespace smelt {
namespace {

TEST(ValuesTest, CopiesStartFromTheKnownValues) {
  EmitterFixture e(kTestCopy);
  e.values.Set(0, 0, e.Int(5));
  e.values.Reset(3, e.values.First());
  EXPECT_EQ(e.values.copies(), 3);
  e.values.Set(0, 1, e.Int(6));
  EXPECT_EQ(e.values.Get(0, 0), e.Int(5));
  EXPECT_EQ(e.values.Get(0, 1), e.Int(6));
  EXPECT_EQ(e.values.Ready(), (std::vector<bool>{true, false}));
  e.values.SetAll(1, e.Int(7));
  for (int u = 0; u < 3; ++u) EXPECT_EQ(e.values.Get(1, u), e.Int(7));
}

TEST(ValuesTest, AScalarIsInAllLanesOfAVector) {
  EmitterFixture e(kTestCopy);
  e.values.Set(0, 0, e.words.size(0));
  EXPECT_EQ(e.values.GetVector(e.ctx, 0, 0)->getType(), e.fn.Vec(e.b.getInt64Ty(), e.plan.lanes));
  e.ctx.lanes = 1;
  EXPECT_EQ(e.values.GetVector(e.ctx, 0, 0), e.words.size(0));
}

TEST(ValuesTest, NothingIsHoistedAfterTheLoop) {
  EmitterFixture e(kTestCopy);
  EXPECT_FALSE(e.values.IsHoisted(0));
  e.values.SetHoisted({true, false});
  EXPECT_TRUE(e.values.IsHoisted(0));
  EXPECT_FALSE(e.values.IsHoisted(1));
  EXPECT_EQ(e.values.TakeHoisted(), (std::vector<bool>{true, false}));
  EXPECT_FALSE(e.values.IsHoisted(0));
}

}  // namespace
}  // namespace smelt
