#include "smelt/frontend/argument_paths.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace smelt {
namespace pt2_internal {
namespace {

// PyTorch's form for forward(x, X, d, *, kw) called with a dict of a tensor and a tuple of two.
constexpr char kLeaf[] = R"({"type": null, "context": null, "children_spec": []})";
std::string Node(const std::string& type, const std::string& context, const std::string& children) {
  return absl::StrCat(R"({"type": ")", type, R"(", "context": )", context, R"(, "children_spec": [)", children, "]}");
}
std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}
std::string Module(const std::string& by_place, const std::string& by_name, const std::string& names,
                   const std::string& arguments) {
  const std::string both =
      absl::StrCat(Node("builtins.tuple", "\"null\"", by_place), ", ", Node("builtins.dict", Quoted(names), by_name));
  const std::string spec = absl::StrCat("[1, ", Node("builtins.tuple", "\"null\"", both), "]");
  return absl::StrCat(R"({"module_call_graph": [{"fqn": "", "signature": {"in_spec": )", Quoted(spec),
                      R"(, "forward_arg_names": )", arguments, "}}]}");
}
std::optional<std::vector<ArgumentPath>> PathsOf(const std::string& text) {
  const absl::StatusOr<Json> module = ParseJson(text, "module");
  EXPECT_TRUE(module.ok()) << module.status() << text;
  return module.ok() ? ArgumentPaths(*module) : std::nullopt;
}

TEST(ArgumentPathsTest, AreThoseOfPythonInTheOrderOfTheInputs) {
  const std::string pair = Node("builtins.tuple", "\"null\"", absl::StrCat(kLeaf, ",", kLeaf));
  const std::string dict =
      Node("builtins.dict", Quoted(R"(["a", "x.y", 3])"), absl::StrCat(kLeaf, ",", pair, ",", kLeaf));
  const auto paths =
      PathsOf(Module(absl::StrCat(kLeaf, ",", kLeaf, ",", dict), kLeaf, R"(["kw"])", R"(["x", "X", "d", "kw"])"));
  ASSERT_TRUE(paths.has_value());
  EXPECT_EQ(*paths, (std::vector<ArgumentPath>{
                        {"x"}, {"X"}, {"d", "a"}, {"d", "x.y", "0"}, {"d", "x.y", "1"}, {"d", "3"}, {"kw"}}));
}

TEST(ArgumentPathsTest, PartsOfAClassHaveNone) {
  const auto paths =
      PathsOf(Module(absl::StrCat(Node("a.Cache", "\"[]\"", kLeaf), ",", kLeaf), "", "[]", R"(["cache", "x"])"));
  ASSERT_TRUE(paths.has_value());
  EXPECT_EQ(*paths, (std::vector<ArgumentPath>{{}, {"x"}}));
}

TEST(ArgumentPathsTest, WhatIsNoSpecOrDoesNotFitIsNotGuessed) {
  EXPECT_EQ(PathsOf("{}"), std::nullopt);
  EXPECT_EQ(PathsOf(R"({"module_call_graph": [{"fqn": "", "signature": null}]})"), std::nullopt);
  EXPECT_EQ(PathsOf(Module(absl::StrCat(kLeaf, ",", kLeaf), "", "[]", R"(["x"])")), std::nullopt);
  EXPECT_EQ(PathsOf(Module("[]", "", "[]", R"(["x"])")), std::nullopt);
  EXPECT_EQ(PathsOf(Module(kLeaf, kLeaf, R"(["a", "b"])", R"(["x", "a"])")), std::nullopt);
  std::string deep = kLeaf;
  for (int k = 0; k < 300; ++k) deep = Node("builtins.list", "\"null\"", deep);
  EXPECT_EQ(PathsOf(Module(deep, "", "[]", R"(["x"])")), std::nullopt);
}

}  // namespace
}  // namespace pt2_internal
}  // namespace smelt
