#include "smelt/alias/access_index.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace smelt::alias_internal {
namespace {

// A block of nodes, and an index that knows accesses of some of them.
class AccessIndexTest : public ::testing::Test {
 protected:
  AccessIndexTest() : tree_(g_), index_(tree_) {
    const ValueId x = g_.AddInput("x", Type::Tensor());
    for (int i = 0; i < 200; ++i) {
      nodes_.push_back(g_.Append(g_.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor()}));
    }
    heads_.resize(nodes_.size());
  }
  void Add(size_t node, uint32_t list) {
    Access a;
    a.node = nodes_[node];
    a.bits = kWrite;
    index_.Add(list, a, &heads_[node]);
  }
  std::vector<NodeId> Listed(uint32_t list) {
    std::vector<NodeId> out;
    for (uint32_t i = index_.Head(list); i != 0; i = index_.Next(i)) out.push_back(index_.at(i).node);
    return out;
  }

  Graph g_;
  BlockTree tree_;
  AccessIndex index_;
  std::vector<NodeId> nodes_;
  std::vector<uint32_t> heads_;
};

TEST_F(AccessIndexTest, ListsAreInTheOrderOfTheTextInWhateverOrderTheyAreMade) {
  std::mt19937_64 rng(1);
  std::vector<std::vector<size_t>> expected(3);
  for (int i = 0; i < 2000; ++i) {
    const size_t node = rng() % nodes_.size();
    if (heads_[node] != 0) {
      index_.RemoveNode(&heads_[node]);
      for (std::vector<size_t>& list : expected) std::erase(list, node);
      continue;
    }
    for (uint32_t list = 0; list < 3; ++list) {
      if (rng() % 2 == 0) continue;
      Add(node, list);
      expected[list].insert(std::upper_bound(expected[list].begin(), expected[list].end(), node), node);
    }
  }
  for (uint32_t list = 0; list < 3; ++list) {
    std::vector<NodeId> nodes;
    for (size_t node : expected[list]) nodes.push_back(nodes_[node]);
    EXPECT_EQ(Listed(list), nodes);
    EXPECT_EQ(index_.Size(list), nodes.size());
    for (size_t at = 0; at < nodes_.size(); ++at) {
      const auto after = std::upper_bound(expected[list].begin(), expected[list].end(), at);
      const uint32_t first = index_.FirstAfter(list, nodes_[at]);
      ASSERT_EQ(first != 0, after != expected[list].end());
      if (first != 0) {
        EXPECT_EQ(index_.at(first).node, nodes_[*after]);
      }
      const auto before = std::lower_bound(expected[list].begin(), expected[list].end(), at);
      const uint32_t last = index_.LastBefore(list, nodes_[at]);
      ASSERT_EQ(last != 0, before != expected[list].begin());
      if (last != 0) {
        EXPECT_EQ(index_.at(last).node, nodes_[*(before - 1)]);
      }
    }
  }
}

TEST_F(AccessIndexTest, AListThatJoinsAnotherKeepsTheOrder) {
  for (size_t node : {1, 5, 9}) Add(node, 0);
  for (size_t node : {2, 7}) Add(node, 1);
  index_.MoveList(1, 0);
  EXPECT_EQ(Listed(0), (std::vector<NodeId>{nodes_[1], nodes_[2], nodes_[5], nodes_[7], nodes_[9]}));
  EXPECT_EQ(index_.Size(1), 0);
  EXPECT_EQ(index_.live(), 5);
}

TEST_F(AccessIndexTest, ANodeThatMovesInTheTextMovesInItsLists) {
  for (size_t node : {1, 5, 9}) Add(node, 0);
  g_.MoveAfter(nodes_[1], nodes_[7]);
  index_.MoveNode(heads_[1]);
  EXPECT_EQ(Listed(0), (std::vector<NodeId>{nodes_[5], nodes_[1], nodes_[9]}));
}

}  // namespace
}  // namespace smelt::alias_internal
