#include "smelt/core/base/id_map.h"

#include <gtest/gtest.h>

#include "smelt/core/base/strong_id.h"

namespace smelt {
namespace {

using Id = StrongId<struct Tag>;

TEST(IdMap, FindsWhatWasSet) {
  IdMap<Id, int> map;
  EXPECT_EQ(map.Find(Id(0)), nullptr);
  map[Id(7)] = 3;
  ASSERT_NE(map.Find(Id(7)), nullptr);
  EXPECT_EQ(*map.Find(Id(7)), 3);
  EXPECT_FALSE(map.contains(Id(6)));
  EXPECT_FALSE(map.contains(Id(8)));
  map[Id(7)] += 1;
  EXPECT_EQ(*map.Find(Id(7)), 4);
  map.erase(Id(7));
  EXPECT_FALSE(map.contains(Id(7)));
  EXPECT_EQ(map[Id(7)], 0);
}

TEST(IdMap, AnIndexUsedAgainIsAnotherEntry) {
  IdMap<Id, int> map;
  map[Id(2, 1)] = 5;
  EXPECT_FALSE(map.contains(Id(2, 2)));
  EXPECT_EQ(map[Id(2, 2)], 0);
  EXPECT_FALSE(map.contains(Id(2, 1)));
  map.erase(Id(2, 1));
  EXPECT_TRUE(map.contains(Id(2, 2)));
}

TEST(IdMap, AnInvalidIdHasNoEntry) {
  IdMap<Id, int> map;
  map[Id(3)] = 1;
  EXPECT_FALSE(map.contains(Id()));
}

}  // namespace
}  // namespace smelt
