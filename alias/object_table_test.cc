#include "smelt/alias/object_table.h"

#include "gtest/gtest.h"

namespace smelt::alias_internal {
namespace {

TEST(ObjectTableTest, FindGoesToTheOutermostSummary) {
  ObjectTable objects;
  objects.Reset(8);
  const uint32_t member = objects.New(ObjectKind::kTensor, ValueId());
  const uint32_t inner = objects.New(ObjectKind::kSummary, ValueId());
  const uint32_t outer = objects.New(ObjectKind::kSummary, ValueId());
  EXPECT_EQ(objects.Find(member), member);
  objects[member].group = inner;
  EXPECT_EQ(objects.Find(member), inner);
  objects[inner].group = outer;
  EXPECT_EQ(objects.Find(member), outer);
  EXPECT_EQ(objects[member].group, outer);  // the way is shorter the next time
  EXPECT_TRUE(objects.IsSummary(inner));
  EXPECT_FALSE(objects.IsSummary(member));
}

TEST(ObjectTableTest, ANumberIsUsedAgainOnlyIfItsReleaseSaysSo) {
  ObjectTable objects;
  objects.Reset(8);
  const uint32_t a = objects.New(ObjectKind::kTensor, ValueId()), b = objects.New(ObjectKind::kTensor, ValueId());
  EXPECT_EQ(a, kFirstObject);
  objects.Release(a, /*again=*/false);
  EXPECT_NE(objects.New(ObjectKind::kView, ValueId()), a);
  objects.Release(b, /*again=*/true);
  EXPECT_EQ(objects.New(ObjectKind::kSummary, ValueId()), b);
  EXPECT_TRUE(objects.IsSummary(b));
}

TEST(ObjectTableTest, AMarkingMeetsEachObjectOnce) {
  ObjectTable objects;
  objects.Reset(8);
  const uint32_t a = objects.New(ObjectKind::kTensor, ValueId());
  objects.StartMarking();
  EXPECT_TRUE(objects.Mark(a));
  EXPECT_FALSE(objects.Mark(a));
  EXPECT_TRUE(objects.Mark(kUnknown));
  objects.StartMarking();
  EXPECT_TRUE(objects.Mark(a));
}

TEST(ObjectTableTest, PiecesOfOneContainerShareAKey) {
  ObjectTable objects;
  objects.Reset(8);
  const uint32_t list = objects.New(ObjectKind::kContainer, ValueId());
  const uint32_t piece = objects.New(ObjectKind::kPiece, ValueId());
  objects[piece].parent = list;
  EXPECT_EQ(objects.HandleKey(piece), list);
  EXPECT_EQ(objects.HandleKey(list), list);
}

}  // namespace
}  // namespace smelt::alias_internal
