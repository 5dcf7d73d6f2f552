#include "smelt/alias/loop_table.h"

#include <vector>

#include "gtest/gtest.h"

namespace smelt::alias_internal {
namespace {

// Loops nested `depth` deep, from the outside in, and beside them a chain of two.
class LoopTableTest : public ::testing::Test {
 protected:
  static constexpr int kDepth = 100;
  LoopTableTest() : tree_(g_), loops_(g_, tree_) {
    const ValueId n = g_.AddInput("n", Type::Int()), c = g_.AddInput("c", Type::Bool());
    const auto make = [&](BlockId b) {
      const NodeId loop = g_.Append(b, OpName::Get("prim::Loop"), {n, c}, {});
      const BlockId body = g_.AddBlock(loop);
      g_.AddParam(body, Type::Int());
      g_.AddResult(body, c);
      return loop;
    };
    BlockId b = g_.top();
    for (int i = 0; i < kDepth; ++i) {
      nest_.push_back(make(b));
      b = g_.node(nest_.back()).blocks[0];
    }
    beside_ = make(g_.top());
    inside_ = make(g_.node(beside_).blocks[0]);
  }

  Graph g_;
  BlockTree tree_;
  LoopTable loops_;
  std::vector<NodeId> nest_;
  NodeId beside_, inside_;
};

TEST_F(LoopTableTest, ALoopIsWithinItselfAndThoseAroundItOnly) {
  EXPECT_TRUE(loops_.IsEmpty());
  loops_.IndexOf(nest_.back());  // numbers those around it, too
  const uint32_t beside = loops_.IndexOf(beside_), inside = loops_.IndexOf(inside_);
  for (int i = 0; i < kDepth; ++i) {
    for (int k = 0; k < kDepth; ++k) {
      ASSERT_EQ(loops_.IsWithin(loops_.KnownIndexOf(nest_[i]), loops_.KnownIndexOf(nest_[k])), i >= k) << i << " " << k;
    }
    EXPECT_FALSE(loops_.IsWithin(inside, loops_.IndexOf(nest_[i])));
    EXPECT_TRUE(loops_.IsWithin(loops_.IndexOf(nest_[i]), 0));
  }
  EXPECT_TRUE(loops_.IsWithin(inside, beside));
  EXPECT_EQ(loops_[inside].top, beside);
}

TEST_F(LoopTableTest, TheLoopsBetweenEndBelowTheOneThatHoldsTheAllocation) {
  const uint32_t innermost = loops_.IndexOf(nest_.back());
  for (int holder = 0; holder + 1 < kDepth; ++holder) {
    const LoopTable::Range r = loops_.Between(innermost, loops_.IndexOf(nest_[holder]));
    EXPECT_EQ(r.inner, innermost);
    EXPECT_EQ(r.outer, loops_.IndexOf(nest_[holder + 1]));
  }
  EXPECT_EQ(loops_.Between(innermost, innermost).inner, 0);
  EXPECT_EQ(loops_.Between(innermost, 0).outer, loops_.IndexOf(nest_[0]));
}

TEST_F(LoopTableTest, TheCommonLoopOfTwoNodesMayBeOneOfThem) {
  loops_.IndexOf(nest_.back());
  EXPECT_EQ(loops_.CommonOf(nest_[70], nest_[40]), loops_.Around(nest_[41]));
  EXPECT_EQ(loops_.CommonOf(nest_[70], inside_), 0);
  EXPECT_EQ(loops_.OutermostOf(inside_), beside_);
  EXPECT_EQ(loops_.OutermostOf(beside_), beside_);
}

}  // namespace
}  // namespace smelt::alias_internal
