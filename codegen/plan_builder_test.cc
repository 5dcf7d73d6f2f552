#include "smelt/codegen/plan_builder.h"

#include "gtest/gtest.h"
#include "smelt/codegen/plan_testing.h"

namespace smelt {
namespace {

TEST(PlanBuilderTest, APlanComputesItsResultInPlace) {
  PlanParts p(R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = aten::exp(%x)
  return (%y)
)");
  absl::StatusOr<PlanStats> stats = PlanBuilder(p.tables, *p.graph, p.convention, p.options).Build();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->launches, 1);
  EXPECT_EQ(stats->copies, 0);
  ASSERT_EQ(p.tables.plans.size(), 1);
  EXPECT_EQ(p.tables.plans[0]->blocks[0]->steps.size(), 1);
}

TEST(PlanBuilderTest, AnErrorNamesTheOperator) {
  PlanParts p(R"(graph(%x : Float(8, 32, strides=[32, 1])):
  %y : Float(8, 32, strides=[32, 1]) = smelt::unheard_of(%x)
  return (%y)
)");
  absl::StatusOr<PlanStats> stats = PlanBuilder(p.tables, *p.graph, p.convention, p.options).Build();
  ASSERT_FALSE(stats.ok());
  EXPECT_NE(stats.status().message().find("smelt::unheard_of"), absl::string_view::npos) << stats.status();
}

}  // namespace
}  // namespace smelt
