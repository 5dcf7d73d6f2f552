#include "smelt/functionalize/possible_sharing.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

using Set = PossibleSharing::Set;

TEST(PossibleSharingTest, ACopyMayBeEachMemoryOfItsSetsAndThoseThatMayBeThem) {
  PossibleSharing sharing;
  sharing.Join({{3, {sharing.SetOf(0), sharing.SetOf(1)}}}, sharing.Now(4));
  sharing.Join({{4, {sharing.SetOf(3)}}}, sharing.Now(5));
  EXPECT_TRUE(sharing.MayBeOne(4, 0));
  EXPECT_TRUE(sharing.MayBeOne(0, 1));
  EXPECT_FALSE(sharing.MayBeOne(4, 2));
  EXPECT_TRUE(sharing.IsAlone(2));
  EXPECT_FALSE(sharing.IsAlone(1));
}

TEST(PossibleSharingTest, WhatABlockJoinsIsApartBehindIt) {
  PossibleSharing sharing;
  sharing.Join({{2, {sharing.SetOf(0)}}}, sharing.Now(3));
  sharing.Enter();
  sharing.Join({{4, {sharing.SetOf(0), sharing.SetOf(1)}}}, sharing.Now(5));
  EXPECT_TRUE(sharing.MayBeOne(1, 2));
  sharing.Leave();
  EXPECT_TRUE(sharing.IsAlone(1));
  EXPECT_TRUE(sharing.MayBeOne(0, 2));
}

TEST(PossibleSharingTest, ASetOfABlockJoinsTheMemoriesFromBeforeIt) {
  PossibleSharing sharing;
  const PossibleSharing::Mark before = sharing.Now(/*num_memories=*/3);
  sharing.Enter();
  sharing.Join({{5, {sharing.SetOf(0), sharing.SetOf(1)}}}, sharing.Now(6));  // 3, 4 and 5 are the block's own
  const Set taken = sharing.SetOf(5);
  sharing.Leave();
  sharing.Join({{6, {taken}}}, before);
  EXPECT_TRUE(sharing.MayBeOne(6, 0));
  EXPECT_TRUE(sharing.MayBeOne(6, 1));
  EXPECT_FALSE(sharing.MayBeOne(6, 5));
  EXPECT_FALSE(sharing.MayBeOne(6, 2));
}

TEST(PossibleSharingTest, AChainOfBranchesTakesAFixedNumberOfJoinsPerBranch) {
  constexpr int kBranches = 1000;
  PossibleSharing sharing;
  for (MemoryId m = 1; m <= kBranches; ++m) {
    const PossibleSharing::Mark before = sharing.Now(m);
    sharing.Enter();
    const Set passed_on = sharing.SetOf(m - 1);
    sharing.Leave();
    sharing.Join({{m, {passed_on}}}, before);
  }
  EXPECT_EQ(sharing.Now(0).num_joined, kBranches);
  EXPECT_TRUE(sharing.MayBeOne(0, kBranches));
}

TEST(PossibleSharingTest, CopiesOfOneMemoryOfABlockMayBeOne) {
  PossibleSharing sharing;
  const PossibleSharing::Mark before = sharing.Now(/*num_memories=*/1);
  sharing.Enter();
  const Set inner = sharing.SetOf(1), other = sharing.SetOf(2);
  sharing.Leave();
  sharing.Join({{3, {inner}}, {4, {inner}}, {5, {other}}}, before);
  EXPECT_TRUE(sharing.MayBeOne(3, 4));
  EXPECT_TRUE(sharing.IsAlone(5));
}

TEST(PossibleSharingTest, ACallerSeesOneStorageTwiceIfACopyMayBeAShownMemory) {
  PossibleSharing sharing;
  sharing.Join({{2, {sharing.SetOf(0)}}, {3, {sharing.SetOf(1)}}}, sharing.Now(2));
  const auto is_shown = [](MemoryId m) { return m == 0; };
  PossibleSharing::Shown shown(sharing, is_shown);
  EXPECT_TRUE(shown.MayBeAnother(2));
  EXPECT_FALSE(shown.MayBeAnother(3));
  EXPECT_FALSE(shown.MayBeAnother(3)) << "the same copy again";
}

TEST(PossibleSharingTest, ACallerSeesOneStorageTwiceIfTwoCopiesMayBeOneMemory) {
  PossibleSharing sharing;
  sharing.Join({{2, {sharing.SetOf(0)}}, {3, {sharing.SetOf(0), sharing.SetOf(1)}}, {4, {sharing.SetOf(1)}}},
               sharing.Now(2));
  const auto none = [](MemoryId) { return false; };
  PossibleSharing::Shown apart(sharing, none);
  EXPECT_FALSE(apart.MayBeAnother(2));
  EXPECT_FALSE(apart.MayBeAnother(4)) << "one is the first memory, the other the second";
  EXPECT_TRUE(apart.MayBeAnother(3));
}

}  // namespace
}  // namespace smelt
