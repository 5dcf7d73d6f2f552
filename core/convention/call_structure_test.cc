#include "smelt/core/convention/call_structure.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using Kind = StructureNode::Kind;
using Key = StructureNode::Key;
using ::testing::HasSubstr;

StructureNode Node(Kind kind, int children, std::string name = "") {
  StructureNode n;
  n.kind = kind;
  n.children = children;
  n.key_kind = name.empty() ? Key::kIndex : Key::kName;
  n.key = std::move(name);
  return n;
}

TEST(CallStructureTest, PathsNameKeysAndCountPositions) {
  // ({"logits": a, "aux": (b, [c])}, d, {7: e})
  StructureNode seven = Node(Kind::kLeaf, 0);
  seven.key_kind = Key::kNumber;
  seven.key = "7";
  const Structure s = {Node(Kind::kTuple, 3),          Node(Kind::kDict, 2),
                       Node(Kind::kLeaf, 0, "logits"), Node(Kind::kTuple, 2, "aux"),
                       Node(Kind::kLeaf, 0),           Node(Kind::kList, 1),
                       Node(Kind::kLeaf, 0),           Node(Kind::kLeaf, 0),
                       Node(Kind::kDict, 1),           seven};
  ASSERT_TRUE(CheckStructure(s, 5).ok()) << CheckStructure(s, 5);
  std::vector<std::string> texts;
  std::vector<bool> names;
  for (const LeafPath& path : LeafPaths(s)) texts.push_back(path.text), names.push_back(path.has_names);
  EXPECT_EQ(texts, (std::vector<std::string>{"0.logits", "0.aux.0", "0.aux.1.0", "1", "2.7"}));
  EXPECT_EQ(names, (std::vector<bool>{true, true, true, false, false}));
}

TEST(CallStructureTest, ALoneValueHasAnEmptyPath) {
  const Structure s = {Node(Kind::kLeaf, 0)};
  ASSERT_TRUE(CheckStructure(s, 1).ok());
  ASSERT_EQ(LeafPaths(s).size(), 1);
  EXPECT_EQ(LeafPaths(s)[0].text, "");
}

TEST(CallStructureTest, EmptyContainersAndFieldsThatAreNoneAreNoLeaves) {
  const Structure s = {Node(Kind::kObject, 3), Node(Kind::kDict, 0, "d"), Node(Kind::kNone, 0, "n"),
                       Node(Kind::kLeaf, 0, "x")};
  ASSERT_TRUE(CheckStructure(s, 1).ok()) << CheckStructure(s, 1);
  EXPECT_EQ(LeafPaths(s)[0].text, "x");
}

TEST(CallStructureTest, WhatIsNoTreeIsRefused) {
  const auto why = [](const Structure& s, size_t leaves) { return std::string(CheckStructure(s, leaves).message()); };
  EXPECT_THAT(why({Node(Kind::kTuple, 2), Node(Kind::kLeaf, 0)}, 1), HasSubstr("ends before"));
  EXPECT_THAT(why({Node(Kind::kLeaf, 0), Node(Kind::kLeaf, 0)}, 2), HasSubstr("more than one"));
  EXPECT_THAT(why({Node(Kind::kTuple, -1)}, 0), HasSubstr("-1 children"));
  EXPECT_THAT(why({Node(Kind::kLeaf, 1), Node(Kind::kLeaf, 0)}, 2), HasSubstr("a leaf and has children"));
  EXPECT_THAT(why({Node(Kind::kTuple, 1), Node(Kind::kLeaf, 0)}, 2), HasSubstr("1 leaves for 2 values"));
  EXPECT_THAT(why(Structure(300, Node(Kind::kTuple, 1)), 1), HasSubstr("too deep"));
  // The paths of a million leaves below one long key would take a terabyte.
  Structure wide(1'000'002, Node(Kind::kLeaf, 0));
  wide[0] = Node(Kind::kDict, 1);
  wide[1] = Node(Kind::kTuple, 1'000'000, std::string(1'000'000, 'k'));
  EXPECT_THAT(why(wide, 1'000'000), HasSubstr("too long"));
}

}  // namespace
}  // namespace smelt
