#include "smelt/functionalize/memory_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MemoryState WithGeneration(int generation) {
  MemoryState m;
  m.generation = generation;
  return m;
}

TEST(MemoryTableTest, LeavingABlockUndoesItsEditsAndReturnsThem) {
  MemoryTable memories;
  const MemoryId a = memories.Add(WithGeneration(1)), b = memories.Add(WithGeneration(2));
  memories.Enter();
  memories.Edit(b).generation = 20;
  memories.Edit(b).generation = 21;
  const MemoryTable::Edits edits = memories.Leave();
  EXPECT_EQ(memories[b].generation, 2);
  EXPECT_EQ(edits.Find(a), nullptr);
  ASSERT_NE(edits.Find(b), nullptr);
  EXPECT_EQ(edits.Find(b)->generation, 21);
}

TEST(MemoryTableTest, AnInnerBlocksEditsAreUndoneBeforeThoseOfTheOuterOne) {
  MemoryTable memories;
  const MemoryId a = memories.Add(WithGeneration(1));
  memories.Enter();
  memories.Edit(a).generation = 2;
  memories.Enter();
  memories.Edit(a).generation = 3;
  memories.Leave();
  EXPECT_EQ(memories[a].generation, 2);
  EXPECT_EQ(memories.Leave().Find(a)->generation, 2);
  EXPECT_EQ(memories[a].generation, 1);
}

TEST(MemoryTableTest, WritesBeforeABlockStayAndItsOwnAreReturned) {
  MemoryTable memories;
  MemoryState state;
  state.written_home = {1, 2};
  const MemoryId a = memories.Add(std::move(state));
  memories.Enter();
  memories.Edit(a).written_home.push_back(3);
  EXPECT_THAT(memories[a].written_home, ElementsAre(1, 2, 3));
  const MemoryTable::Edits edits = memories.Leave();
  EXPECT_THAT(edits.Find(a)->written_home, ElementsAre(3));
  EXPECT_THAT(memories[a].written_home, ElementsAre(1, 2));
}

TEST(MemoryTableTest, MemoriesAddedInABlockRemainAsItLeftThem) {
  MemoryTable memories;
  memories.Enter();
  const MemoryId a = memories.Add(WithGeneration(1));
  memories.Edit(a).generation = 2;
  EXPECT_THAT(memories.Leave().all(), IsEmpty());
  EXPECT_EQ(memories[a].generation, 2);
}

TEST(MemoryTableTest, EditsAreSortedById) {
  MemoryTable memories;
  for (int k = 0; k < 50; ++k) memories.Add(WithGeneration(k));
  memories.Enter();
  for (MemoryId m = 49; m >= 0; m -= 7) memories.Edit(m).generation = -1;
  std::vector<MemoryId> ids;
  for (const auto& [m, state] : memories.Leave().all()) ids.push_back(m);
  EXPECT_THAT(ids, ElementsAre(0, 7, 14, 21, 28, 35, 42, 49));
}

}  // namespace
}  // namespace smelt
