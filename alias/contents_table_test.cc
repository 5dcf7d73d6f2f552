// The tables of what containers hold: contents, the objects that stand for elements, and small sets.
#include "smelt/alias/contents_table.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/alias/element_table.h"
#include "smelt/alias/small_set.h"

namespace smelt::alias_internal {
namespace {

TEST(ElementTableTest, FindsAnyNumberOfElementsBySlot) {
  for (int32_t count : {1, 8, 9, 100}) {
    ElementTable t;
    for (int32_t slot = 0; slot < count; ++slot) t.Add(5, slot, 1000 + slot);
    for (int32_t slot = 0; slot < count; ++slot) EXPECT_EQ(t.Find(5, slot), 1000 + slot) << count;
    EXPECT_EQ(t.Find(5, count), 0) << count;
    EXPECT_EQ(t.Find(5, -1), 0) << count;
    EXPECT_EQ(t.Find(4, 0), 0) << count;
    EXPECT_EQ(t.Find(6, 0), 0) << count;
  }
}

TEST(ElementTableTest, KeepsTheOrderOfAdditionOfEachContainer) {
  ElementTable t;
  for (uint32_t k = 0; k < 20; ++k) {
    t.Add(1, 20 - static_cast<int32_t>(k), 100 + k);
    t.Add(2, static_cast<int32_t>(k), 200 + k);
  }
  for (uint32_t k = 0; k < 20; ++k) {
    EXPECT_EQ(t.Of(1)[k], 100 + k);
    EXPECT_EQ(t.Of(2)[k], 200 + k);
  }
  EXPECT_EQ(t.FirstOf(1), 100);
  EXPECT_EQ(t.FirstOf(2), 200);
  EXPECT_EQ(t.FirstOf(3), 0);
}

TEST(ElementTableTest, AnErasedContainerHasNoElementsAndOthersKeepTheirs) {
  ElementTable t;
  for (int32_t slot = 0; slot < 20; ++slot) {
    t.Add(1, slot, 100 + slot);
    t.Add(2, slot, 200 + slot);
  }
  t.Erase(1);
  for (int32_t slot = 0; slot < 20; ++slot) {
    EXPECT_EQ(t.Find(1, slot), 0);
    EXPECT_EQ(t.Find(2, slot), 200 + slot);
  }
  EXPECT_TRUE(t.Of(1).empty());
  // An erased entry makes room for others.
  const int64_t bytes = t.bytes();
  t.Erase(1);
  t.Add(1, 3, 7);
  EXPECT_EQ(t.Find(1, 3), 7);
  EXPECT_EQ(t.Find(1, 4), 0);
  EXPECT_EQ(t.Of(1).size(), 1);
  EXPECT_EQ(t.Of(2).size(), 20);
  EXPECT_LE(t.bytes(), bytes);
}

TEST(ContentsTableTest, ContentsStayInPlaceWhileOthersComeAndGo) {
  ContentsTable t;
  EXPECT_EQ(t.Find(7), nullptr);
  Contents& seventh = t.Of(7);
  seventh.base = 42;
  for (uint32_t k = 100; k < 300; ++k) t.Of(k).base = k;
  for (uint32_t k = 100; k < 300; k += 2) t.Erase(k);
  for (uint32_t k = 300; k < 400; ++k) EXPECT_EQ(t.Of(k).base, 0) << k;
  EXPECT_EQ(t.Find(7), &seventh);
  EXPECT_EQ(seventh.base, 42);
  EXPECT_EQ(t.Find(100), nullptr);
  EXPECT_EQ(t.Find(101)->base, 101);
}

TEST(ContentsTableTest, VisitsWhatIsKnownUntilItIsErased) {
  ContentsTable t;
  for (uint32_t k = 1; k <= 50; ++k) t.Of(k).base = k;
  t.Erase(10);
  int64_t sum = 0;
  t.ForEach([&](const Contents& c) { sum += c.base; });
  EXPECT_EQ(sum, 50 * 51 / 2 - 10);
  t.Clear();
  t.ForEach([&](const Contents&) { ADD_FAILURE(); });
  EXPECT_EQ(t.Find(1), nullptr);
}

TEST(SmallSetTest, HoldsEachMemberOnceHoweverManyThereAre) {
  for (int count : {1, 3, 32, 33, 200}) {
    SmallSet<int, 2> set;
    for (int i = 0; i < count; ++i) EXPECT_TRUE(set.Insert(i)) << count;
    for (int i = 0; i < count; ++i) EXPECT_FALSE(set.Insert(i)) << count;
    EXPECT_EQ(set.size(), count);
    EXPECT_TRUE(set.Contains(count - 1));
    EXPECT_FALSE(set.Contains(count));
    EXPECT_TRUE(set.Any([&](int x) { return x == count - 1; })) << count;
    for (int i = 0; i < count; ++i) set.Erase(i);
    set.Erase(0);
    EXPECT_TRUE(set.empty()) << count;
    EXPECT_TRUE(set.Insert(0)) << count;
  }
}

}  // namespace
}  // namespace smelt::alias_internal
