#include "smelt/functionalize/scoped_set.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

TEST(ScopedSetTest, ABlocksElementsAreNewAgainBehindIt) {
  ScopedSet<int> set;
  EXPECT_TRUE(set.Insert(1));
  set.Enter();
  EXPECT_FALSE(set.Insert(1));
  EXPECT_TRUE(set.Insert(2));
  EXPECT_FALSE(set.Insert(2));
  set.Leave();
  EXPECT_FALSE(set.Insert(1));
  EXPECT_TRUE(set.Insert(2));
}

TEST(ScopedSetTest, ErasedElementsReturnWhenTheBlockEnds) {
  ScopedSet<int> set;
  set.Insert(1);
  set.Insert(2);
  set.Enter();
  set.EraseIf([](int k) { return k == 1; });
  EXPECT_TRUE(set.Insert(1));
  set.EraseIf([](int k) { return k == 1; });
  set.Leave();
  EXPECT_FALSE(set.Insert(1));
  EXPECT_FALSE(set.Insert(2));
}

TEST(ScopedSetTest, AnInnerBlockUndoesItsOwnChangesOnly) {
  ScopedSet<int> set;
  set.Enter();
  set.Insert(1);
  set.Enter();
  set.Insert(2);
  set.Leave();
  EXPECT_FALSE(set.Insert(1));
  EXPECT_TRUE(set.Insert(2));
  set.Leave();
  EXPECT_TRUE(set.Insert(1));
}

}  // namespace
}  // namespace smelt
