#include "smelt/core/ir/enclosing_node.h"

#include "gtest/gtest.h"

namespace smelt {
namespace {

// A branch in a loop.
class EnclosingNodeTest : public testing::Test {
 protected:
  EnclosingNodeTest() {
    loop_ = g_.Append(g_.top(), OpName::Get("prim::Loop"), {}, {});
    body_ = g_.AddBlock(loop_);
    branch_ = g_.Append(body_, OpName::Get("prim::If"), {}, {});
    then_ = g_.AddBlock(branch_);
    otherwise_ = g_.AddBlock(branch_);
    inner_ = g_.Append(then_, OpName::Get("prim::Constant"), {}, {Type::None()});
  }
  Graph g_;
  NodeId loop_, branch_, inner_;
  BlockId body_, then_, otherwise_;
};

TEST_F(EnclosingNodeTest, ANodeOfTheBlockIsItself) {
  EXPECT_EQ(EnclosingNode(g_, then_, inner_), inner_);
  EXPECT_EQ(EnclosingNode(g_, g_.top(), loop_), loop_);
}

TEST_F(EnclosingNodeTest, ANodeInsideIsTheOneWhoseBlocksHaveIt) {
  EXPECT_EQ(EnclosingNode(g_, body_, inner_), branch_);
  EXPECT_EQ(EnclosingNode(g_, g_.top(), inner_), loop_);
}

TEST_F(EnclosingNodeTest, ANodeElsewhereHasNone) {
  EXPECT_FALSE(EnclosingNode(g_, otherwise_, inner_).valid());
  EXPECT_FALSE(EnclosingNode(g_, then_, branch_).valid());
}

}  // namespace
}  // namespace smelt
