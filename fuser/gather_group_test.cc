#include "smelt/fuser/gather_group.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using testing::HasSubstr;

class GatherGroupTest : public testing::Test {
 protected:
  // Gathers the nodes that make the named values with the one that makes `anchor`; returns the reason if that is
  // refused.
  std::string Gather(const std::string& text, const std::vector<std::string>& members, const std::string& anchor) {
    auto parsed = ParseGraph(text);
    if (!parsed.ok()) {
      ADD_FAILURE() << parsed.status();
      return "";
    }
    graph_ = *std::move(parsed);
    const std::unique_ptr<AliasDb> db = AliasDb::Build(*graph_);
    std::vector<NodeId> nodes;
    for (const std::string& m : members) nodes.push_back(graph_->value(graph_->FindValue(m)).def);
    std::string why;
    const bool together = GatherGroup(
        *db, *graph_, nodes, graph_->value(graph_->FindValue(anchor)).def,
        [](const Node& n) { return n.op == "smelt::view"; }, &why);
    EXPECT_EQ(together, why.empty());
    EXPECT_EQ(VerifyGraph(*graph_), absl::OkStatus());
    EXPECT_EQ(db->Verify(), absl::OkStatus());
    return why;
  }
  // Returns the results' names, in order.
  std::string Order() const {
    std::string out;
    for (NodeId n : graph_->Nodes(graph_->top())) {
      if (graph_->node(n).op != "prim::Constant") out += graph_->value(graph_->node(n).outputs[0]).name;
    }
    return out;
  }

  std::unique_ptr<Graph> graph_;
};

TEST_F(GatherGroupTest, WhatOnlyUsesAMemberIsLeftBehind) {
  EXPECT_EQ(Gather(R"(graph(%x : Float(8, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %p : Float(8, strides=[1]) = aten::exp(%a)
  %q : Float(8, strides=[1]) = aten::exp(%p)
  %b : Float(8, strides=[1]) = aten::sin(%a)
  return (%b, %q)
)",
                   {"a", "b"}, "b"),
            "");
  EXPECT_EQ(Order(), "abpq");
}

TEST_F(GatherGroupTest, ViewsBetweenMembersGoAlong) {
  EXPECT_EQ(Gather(R"(graph(%x : Float(8, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %v : Float(4, strides=[1]) = smelt::view[sizes=[4], strides=[1], offset=2, dtype=6](%a)
  %p : Float(8, strides=[1]) = aten::exp(%x)
  %b : Float(4, strides=[1]) = aten::sin(%v)
  return (%b, %p)
)",
                   {"a", "b"}, "b"),
            "");
  EXPECT_EQ(Order(), "pavb");
}

TEST_F(GatherGroupTest, ANodeThatNeedsTheOneAndIsNeededByTheOtherStandsBetween) {
  EXPECT_THAT(Gather(R"(graph(%x : Float(8, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %p : Float(8, strides=[1]) = aten::exp(%a)
  %b : Float(8, strides=[1]) = aten::mul.Tensor(%a, %p)
  return (%b)
)",
                     {"a", "b"}, "b"),
              HasSubstr("uses %a"));
}

TEST_F(GatherGroupTest, NothingPassesTheWriteThatTakesOverWhatItReads) {
  // neg reads x; next to mul, which needs the written value, it would come after the write.
  EXPECT_THAT(Gather(R"(graph(%x : Float(8, strides=[1]), %y : Float(4, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=0, dtype=6](%x, %y)
  %b : Float(8, strides=[1]) = aten::mul.Tensor(%a, %w)
  return (%b, %w)
)",
                     {"a", "b"}, "b"),
              HasSubstr("%x is written by smelt::write_region (%w)"));
}

TEST_F(GatherGroupTest, AReaderOfAnotherMemoryPassesTheWrite) {
  EXPECT_EQ(Gather(R"(graph(%x : Float(8, strides=[1]), %y : Float(4, strides=[1])):
  %f : Float(8, strides=[1]) = aten::exp(%x)
  %a : Float(8, strides=[1]) = aten::neg(%f)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=0, dtype=6](%x, %y)
  %b : Float(8, strides=[1]) = aten::mul.Tensor(%a, %w)
  return (%b, %w)
)",
                   {"a", "b"}, "b"),
            "");
  EXPECT_EQ(Order(), "fwab");
}

TEST_F(GatherGroupTest, AWriteStaysBehindTheReadersOfWhatItTakesOver) {
  EXPECT_EQ(Gather(R"(graph(%x : Float(8, strides=[1]), %y : Float(4, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %w : Float(8, strides=[1]) = smelt::write_region[sizes=[4], strides=[1], offset=0, dtype=6](%x, %y)
  %b : Float(8, strides=[1]) = aten::sin(%a)
  return (%b, %w)
)",
                   {"a", "b"}, "b"),
            "");
  EXPECT_EQ(Order(), "abw");
}

TEST_F(GatherGroupTest, AnEarlyAnchorTakesTheLaterMembersToItself) {
  EXPECT_EQ(Gather(R"(graph(%x : Float(8, strides=[1])):
  %a : Float(8, strides=[1]) = aten::neg(%x)
  %p : Float(8, strides=[1]) = aten::exp(%a)
  %b : Float(8, strides=[1]) = aten::sin(%a)
  %c : Float(8, strides=[1]) = aten::cos(%b)
  return (%c, %p)
)",
                   {"a", "b", "c"}, "a"),
            "");
  EXPECT_EQ(Order(), "abcp");
}

}  // namespace
}  // namespace smelt
