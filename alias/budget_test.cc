#include "smelt/alias/budget.h"

#include "gtest/gtest.h"

namespace smelt::alias_internal {
namespace {

// A graph of so many nodes, beside those that each graph has.
void Fill(Graph& g, int nodes) {
  const ValueId x = g.AddInput("x", Type::Tensor());
  for (int i = 0; i < nodes; ++i) g.Append(g.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor()});
}

TEST(BudgetTest, WhatNobodyHasPaidForOverdraws) {
  Graph g;
  Fill(g, 1000);
  Budget budget(g);
  EXPECT_FALSE(budget.Affords(1));
  budget.PaidByBuilding(200);  // half of it for edits
  EXPECT_TRUE(budget.Affords(100));
  EXPECT_FALSE(budget.Affords(101));
  budget.Spend(100);
  EXPECT_FALSE(budget.overdrawn);
  budget.Spend(1);
  EXPECT_TRUE(budget.overdrawn && budget.stale && budget.keeps_freed);
}

TEST(BudgetTest, EachEditPaysFor64Steps) {
  Graph g;
  Fill(g, 1000);
  Budget budget(g);
  for (int i = 0; i < 3; ++i) budget.Edit();
  EXPECT_TRUE(budget.Affords(192));
  EXPECT_FALSE(budget.Affords(193));
  EXPECT_TRUE(budget.AffordsCache(192));
  EXPECT_EQ(budget.paid(), 3);
}

TEST(BudgetTest, NoCreditIsNegative) {
  Graph g;
  Fill(g, 1000);
  Budget budget(g);
  budget.Take(1000);
  budget.TakeForCache(1000);
  budget.Edit();
  EXPECT_TRUE(budget.Affords(64));
  EXPECT_TRUE(budget.AffordsCache(64));
}

TEST(BudgetTest, InASmallGraphEverythingIsPaidFor) {
  Graph g;
  Fill(g, 100);
  Budget budget(g);
  budget.Spend(1000000);
  EXPECT_FALSE(budget.overdrawn);
}

}  // namespace
}  // namespace smelt::alias_internal
