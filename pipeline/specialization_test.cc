#include "smelt/pipeline/specialization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A graph of `count` arguments of one type.
std::unique_ptr<Graph> GraphOf(int count) {
  auto g = std::make_unique<Graph>();
  for (int k = 0; k < count; ++k) g->AddInput("a" + std::to_string(k), Type::Tensor(DType::kFloat32, {4}, {1}));
  return g;
}

// Each argument has a memory of its own, and the program writes the first.
Convention WritingTheFirst(int count) {
  Convention c;
  for (int k = 0; k < count; ++k) c.overlaps.memory_of.push_back(MemoryIndex(k));
  c.overlaps.num_argument_memories = count;
  c.mutations.memories.emplace_back().memory = MemoryIndex(0);
  return c;
}

std::vector<int> Inner(const Specialization& s) {
  std::vector<int> out;
  for (DistinctIndex d : s.alias.duplicates.inner_of_outer) out.push_back(d.value());
  return out;
}

TEST(SpecializationTest, ItsKindFollowsFromTheAliasPattern) {
  Specialization s = DistinctArguments();
  EXPECT_EQ(s.kind(), fb::VariantKind::Distinct);
  s.alias.duplicates.inner_of_outer = {DistinctIndex(0), DistinctIndex(0)};
  EXPECT_EQ(s.kind(), fb::VariantKind::Duplicate);
  s = DistinctArguments();
  s.alias.arguments_overlap = true;
  EXPECT_EQ(s.kind(), fb::VariantKind::Overlap);
}

TEST(SpecializationTest, APairWithAWrittenArgumentMayBeOneTensor) {
  const auto pairs = DuplicateArguments(*GraphOf(3), WritingTheFirst(3));
  ASSERT_THAT(pairs, SizeIs(2));
  EXPECT_EQ(Inner(pairs[0]), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(Inner(pairs[1]), (std::vector<int>{0, 1, 0}));
}

TEST(SpecializationTest, ManyPairsAreLeftToThePlanForOverlappingArguments) {
  EXPECT_THAT(DuplicateArguments(*GraphOf(7), WritingTheFirst(7)), SizeIs(6));
  EXPECT_THAT(DuplicateArguments(*GraphOf(8), WritingTheFirst(8)), IsEmpty());
}

TEST(SpecializationTest, SizesWhoseOneWouldShareMemoryAreGuarded) {
  Specialization s = DistinctArguments();
  AddSharingGuards({"s0"}, s);
  ASSERT_THAT(s.guards, SizeIs(1));
  EXPECT_EQ(s.guards[0].a, Expr(1));
  EXPECT_EQ(s.guards[0].b, Expr::Symbol("s0"));
  EXPECT_EQ(s.guards[0].op, fb::ExprOp::Lt);
}

TEST(SpecializationTest, UnitSymbolsAreOneAndTheOthersOfTheSetsAreNot) {
  SizeOneCalls of_one;
  of_one.sets = {{"s0"}, {"s1"}};
  of_one.symbols = {"s0", "s1"};
  Specialization general = DistinctArguments(), one = DistinctArguments();
  AddSizeGuards(of_one, general);
  one.unit_symbols = {"s0"};
  AddSizeGuards(of_one, one);
  const auto holds = [](const Specialization& s, int64_t s0, int64_t s1) {
    for (const Specialization::Guard& guard : s.guards) {
      const int64_t a = *guard.a.Evaluate({{"s0", s0}, {"s1", s1}}), b = *guard.b.Evaluate({{"s0", s0}, {"s1", s1}});
      if (guard.op == fb::ExprOp::Lt ? a >= b : guard.op == fb::ExprOp::Eq ? a != b : a > b) return false;
    }
    return true;
  };
  EXPECT_TRUE(holds(general, 4, 4));
  EXPECT_FALSE(holds(general, 1, 4));
  EXPECT_FALSE(holds(general, 4, 1));
  EXPECT_TRUE(holds(one, 1, 4));
  EXPECT_FALSE(holds(one, 1, 1));
  EXPECT_FALSE(holds(one, 4, 4));
}

}  // namespace
}  // namespace smelt
