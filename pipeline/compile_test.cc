#include "smelt/pipeline/compile.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/passes.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Makes an empty folder for the test.
std::string Folder(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = absl::StrCat(folder != nullptr ? folder : "/tmp", "/", name);
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::unique_ptr<Graph> SmallGraph() {
  auto g = ParseGraph(R"(graph(%x : Float(4, strides=[1])):
  %y : Float(4, strides=[1]) = aten::relu(%x)
  return (%y))");
  SMELT_CHECK_OK(g);
  return *std::move(g);
}

TEST(CompileTest, ABugInAPassIsAnErrorThatNamesThePassAndLeavesNoFile) {
  const std::string folder = Folder("bug");
  const PassPipeline passes = CompilePasses();
  for (const Pass& pass : passes.passes()) {
    if (pass.is_analysis) continue;
    CompileOptions options;
    options.targets = {kHostTarget};
    options.on_pass = [&](absl::string_view at, const Graph& g) { SMELT_CHECK(at != pass.name); };
    const absl::Status s = CompileToFile(*SmallGraph(), absl::StrCat(folder, "/a.smb"), options).status();
    EXPECT_TRUE(absl::IsInternal(s)) << s;
    EXPECT_THAT(std::string(s.message()), StartsWith(pass.name));
    EXPECT_THAT(std::string(s.message()), HasSubstr("check failed: at != pass.name"));
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << pass.name;
  }
}

TEST(CompileTest, AnOperatorThatIsNotSupportedIsNoBugIfItMakesViews) {
  auto g = ParseGraph(R"(graph(%x : Float(5, strides=[1]), %i : Long(1, strides=[1])):
  symbol u0 in [0, 5]
  symbol u1 in [0, 5]
  %d : int = prim::Constant[value=0]()
  %l : Tensor[] = aten::tensor_split.tensor_indices_or_sections(%x, %i, %d)
  %a : Float(u0, strides=[1]), %b : Float(u1, strides=[1]) = prim::ListUnpack(%l)
  return (%a, %b))");
  ASSERT_TRUE(g.ok()) << g.status();
  CompileOptions options;
  options.targets = {kHostTarget};
  options.verify = true;
  const absl::Status s = CompileToFile(**g, absl::StrCat(Folder("views"), "/a.smb"), options).status();
  EXPECT_TRUE(absl::IsUnimplemented(s)) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("aten::tensor_split.tensor_indices_or_sections"));
}

TEST(CompileTest, MemoryThatRunsOutIsAResourceAndLeavesNoFile) {
  const std::string folder = Folder("memory");
  CompileOptions options;
  options.targets = {kHostTarget};
  options.on_phase = [](absl::string_view phase, double) {
    if (phase == "kernels") throw std::bad_alloc();  // the file is begun
  };
  const absl::Status s = CompileToFile(*SmallGraph(), absl::StrCat(folder, "/a.smb"), options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  // The process continues, and so does the next compilation.
  options.on_phase = nullptr;
  EXPECT_TRUE(CompileToFile(*SmallGraph(), absl::StrCat(folder, "/a.smb"), options).ok());
}

TEST(CompileTest, AProgramThatBranchesOnAnArgumentIsNotFusedAndRunsInEagerOrder) {
  const auto graph = ParseGraph(R"(graph(%x : Float(4, strides=[1]), %training : bool):
  %y : Float(4, strides=[1]) = prim::If(%training)
    block0():
      %a : Float(4, strides=[1]) = aten::relu(%x)
      -> (%a)
    block1():
      %b : Float(4, strides=[1]) = aten::neg(%x)
      -> (%b)
  return (%y))");
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<std::string> passes;
  CompileOptions options;
  options.targets = {kHostTarget};
  options.on_pass = [&](absl::string_view pass, const Graph&) { passes.push_back(std::string(pass)); };
  const auto stats = CompileToFile(**graph, absl::StrCat(Folder("branch"), "/a.smb"), options);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->eager_order, "prim::If: a condition that is an argument");
  EXPECT_EQ(passes.back(), "functionalize");
}

TEST(CompileTest, AGraphOfAnyOriginIsCheckedWhenItIsCompiled) {
  const std::string folder = Folder("lies");
  CompileOptions options;
  options.targets = {kHostTarget};
  for (const auto& [text, wrong] : {std::pair(R"(graph(%x : Float(4, strides=[1])):
  %y : Float(5, strides=[1]) = aten::relu(%x)
  return (%y))",
                                              "%y = aten::relu: the size of dim 0 of %y is declared otherwise than it "
                                              "follows from the operands: declared Float(5, strides=[1]), inferred "
                                              "Float(4, strides=[1])"),
                                    std::pair(R"(graph(%x : Float(4, strides=[1])):
  %n : NoneType = prim::Constant()
  %y : Float(4, strides=[1]) = aten::relu(%n)
  return (%y))",
                                              "argument \"self\" is None, expected a tensor")}) {
    const auto graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const absl::Status& s : {CompileToFile(**graph, absl::StrCat(folder, "/a.smb"), options).status(),
                                  PlanKernels(**graph, options).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
      EXPECT_THAT(std::string(s.message()), HasSubstr(wrong));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace smelt
