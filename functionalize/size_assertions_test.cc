#include "smelt/functionalize/size_assertions.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Program {
  std::unique_ptr<Graph> g = *ParseGraph(R"(graph(%x : Float(4, strides=[1])):
  return (%x))");
  WalkPosition at;
  SizeAssertions assertions{*g, at};
  NodeId end = g->block(g->top()).return_node;

  std::vector<Expr> Checks() const {
    std::vector<Expr> out;
    for (NodeId n : g->AllNodes()) out.push_back(std::get<Expr>(*g->node(n).FindAttribute("value")));
    return out;
  }
};

const Expr s = Expr::Symbol("s0"), t = Expr::Symbol("s1");

TEST(SizeAssertionsTest, AFactIsCheckedOnce) {
  Program p;
  const Assumption equal{s, Assumption::Relation::kEqual, t};
  EXPECT_TRUE(p.assertions.Assert(equal, p.end).ok());
  EXPECT_TRUE(p.assertions.Assert(equal, p.end).ok());
  EXPECT_TRUE(p.assertions.Assume(equal, p.end).ok());
  EXPECT_EQ(p.Checks().size(), 1u);
  EXPECT_FALSE(p.assertions.assumes());
}

TEST(SizeAssertionsTest, TheNumberThatIsCheckedIsZeroExactlyWhereTheFactIsFalse) {
  using Relation = Assumption::Relation;
  for (Relation relation : {Relation::kEqual, Relation::kNotEqual, Relation::kLess, Relation::kLessOrEqual}) {
    Program p;
    const Assumption fact{s, relation, t};
    ASSERT_TRUE(p.assertions.Assert(fact, p.end).ok());
    for (int64_t a = 0; a < 4; ++a) {
      for (int64_t b = 0; b < 4; ++b) {
        const absl::flat_hash_map<std::string, int64_t> call = {{"s0", a}, {"s1", b}};
        EXPECT_EQ(*p.Checks()[0].Evaluate(call) != 0, *fact.Holds(call)) << fact.ToString() << " at " << a << ", " << b;
      }
    }
  }
}

TEST(SizeAssertionsTest, AnAssumptionSendsACallToAnotherProgram) {
  Program p;
  ASSERT_TRUE(p.assertions.Assume({s, Assumption::Relation::kLess, t}, p.end).ok());
  EXPECT_TRUE(p.assertions.assumes());
  EXPECT_NE(p.g->node(p.g->AllNodes()[0]).FindAttribute(kElseInOrder), nullptr);
}

TEST(SizeAssertionsTest, AFactThatABranchNeedsIsRefusedUnlessItIsCheckedAlready) {
  Program p;
  const Assumption known{s, Assumption::Relation::kEqual, t}, other{s, Assumption::Relation::kLess, t};
  ASSERT_TRUE(p.assertions.Assert(known, p.end).ok());
  p.at.block_depth = 1;
  EXPECT_TRUE(p.assertions.Assert(known, p.end).ok());
  EXPECT_TRUE(absl::IsUnimplemented(p.assertions.Assert(other, p.end)));
}

TEST(SizeAssertionsTest, FactsAboutNumbersFromDataAreLeftToTheRun) {
  Program p;
  EXPECT_TRUE(p.assertions.Assert({Expr::Symbol("u0"), Assumption::Relation::kLess, s}, p.end).ok());
  EXPECT_THAT(p.Checks(), IsEmpty());
}

TEST(SizeAssertionsTest, ANumberIsCheckedOncePerMessage) {
  Program p;
  for (const char* message : {"one", "one", "two"}) p.assertions.AssertNotZero(s, message, p.end);
  EXPECT_THAT(p.Checks(), ElementsAre(s, s));
}

}  // namespace
}  // namespace smelt
