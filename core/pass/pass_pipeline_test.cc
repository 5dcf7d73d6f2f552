#include "smelt/core/pass/pass_pipeline.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace {

// A pass that appends its name to the std::string of the context.
Pass Noting(std::string name, std::vector<std::string> prerequisites = {}, bool optional = false) {
  return {.name = name,
          .description = "notes that it ran",
          .prerequisites = std::move(prerequisites),
          .is_optional = optional,
          .run = [name](Graph&, PassContext& context) -> absl::StatusOr<bool> {
            absl::StrAppend(&context.Get<std::string>(), name, " ");
            return false;
          }};
}

TEST(PassContextTest, KeepsOneValueOfEachType) {
  PassContext context;
  EXPECT_EQ(context.Find<int>(), nullptr);
  context.Put(7);
  context.Put(std::string("seven"));
  EXPECT_EQ(context.Get<int>(), 7);
  EXPECT_EQ(*context.Find<std::string>(), "seven");
  EXPECT_EQ(context.Get<double>(), 0);
}

TEST(EditCounterTest, CountsEditsWhileItLives) {
  Graph g;
  const ValueId x = g.AddInput("x", Type::Int());
  {
    EditCounter edits(g);
    EXPECT_EQ(edits.count(), 0);
    g.AddOutput(x);
    EXPECT_GT(edits.count(), 0);
  }
  g.AddOutput(x);  // nothing listens any more
}

TEST(PassPipelineTest, RunsPassesInOrderAndRecordsThem) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  pipeline.Add(Noting("b", {"a"}));
  Graph g;
  PassContext context;
  std::vector<PassRecord> records;
  ASSERT_TRUE(pipeline.Run(g, context, {}, &records).ok());
  EXPECT_EQ(context.Get<std::string>(), "a b ");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].name, "b");
  EXPECT_FALSE(records[1].changed);
}

TEST(PassPipelineTest, LeavesOutOptionalPassesThatAreSwitchedOff) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  pipeline.Add(Noting("b", {}, /*optional=*/true));
  Graph g;
  PassContext context;
  PassRunOptions options;
  options.disabled = {"b"};
  ASSERT_TRUE(pipeline.Run(g, context, options).ok());
  EXPECT_EQ(context.Get<std::string>(), "a ");
}

TEST(PassPipelineTest, RefusesToSwitchOffAPassThatProgramsNeed) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  Graph g;
  PassContext context;
  PassRunOptions options;
  options.disabled = {"a"};
  EXPECT_TRUE(absl::IsInvalidArgument(pipeline.Run(g, context, options)));
}

TEST(PassPipelineTest, AnErrorEndsTheRunAndCarriesTheNameOfThePass) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  pipeline.Add({.name = "fails", .description = "", .run = [](Graph&, PassContext&) -> absl::StatusOr<bool> {
                  return absl::UnimplementedError("aten::spline");
                }});
  pipeline.Add(Noting("c"));
  Graph g;
  PassContext context;
  const absl::Status status = pipeline.Run(g, context);
  EXPECT_EQ(status.message(), "aten::spline");
  EXPECT_EQ(FailedPass(status), "fails");
  EXPECT_EQ(context.Get<std::string>(), "a ");
}

TEST(PassPipelineTest, AnErrorOfAVerifierIsThatOfThePassBeforeIt) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  pipeline.Add(Noting("b"));
  Graph g;
  PassContext context;
  PassRunOptions options;
  options.after_pass = [](const Pass& pass, const Graph&, const PassRecord&) {
    return pass.name == "a" ? absl::InternalError("another result") : absl::OkStatus();
  };
  EXPECT_EQ(FailedPass(pipeline.Run(g, context, options)), "a");
}

TEST(PassPipelineTest, PrerequisitesAreThoseOfPrerequisitesToo) {
  PassPipeline pipeline;
  pipeline.Add(Noting("a"));
  pipeline.Add(Noting("aside"));
  pipeline.Add(Noting("b", {"a"}));
  pipeline.Add(Noting("c", {"b"}));
  std::vector<std::string> names;
  for (const Pass* pass : pipeline.WithPrerequisites("c")) names.push_back(pass->name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(pipeline.WithPrerequisites("d").empty());
}

TEST(PassPipelineDeathTest, APrerequisiteMustStandBefore) {
  PassPipeline pipeline;
  pipeline.Add(Noting("b", {"a"}));
  EXPECT_DEATH(pipeline.Add(Noting("a")), "pass a must stand before b");
}

}  // namespace
}  // namespace smelt
