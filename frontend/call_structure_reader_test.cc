#include "smelt/frontend/call_structure_reader.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace pt2_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As PyTorch writes them: forward(x, X, d, *, kw) called with a dict of a tensor and a tuple of two.
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
std::vector<ArgumentPath> PathsOf(const std::string& text) {
  const absl::StatusOr<Json> module = ParseJson(text, "module");
  EXPECT_TRUE(module.ok()) << module.status() << text;
  return module.ok() ? ArgumentPaths(ReadCallStructure(*module).arguments) : std::vector<ArgumentPath>();
}

TEST(ArgumentPathsTest, AreThoseOfPythonInTheOrderOfTheInputs) {
  const std::string pair = Node("builtins.tuple", "\"null\"", absl::StrCat(kLeaf, ",", kLeaf));
  const std::string dict =
      Node("builtins.dict", Quoted(R"(["a", "x.y", 3])"), absl::StrCat(kLeaf, ",", pair, ",", kLeaf));
  const auto paths =
      PathsOf(Module(absl::StrCat(kLeaf, ",", kLeaf, ",", dict), kLeaf, R"(["kw"])", R"(["x", "X", "d", "kw"])"));
  EXPECT_EQ(paths, (std::vector<ArgumentPath>{
                       {"x"}, {"X"}, {"d", "a"}, {"d", "x.y", "0"}, {"d", "x.y", "1"}, {"d", "3"}, {"kw"}}));
}

TEST(ArgumentPathsTest, PartsOfAClassHaveNone) {
  const auto paths =
      PathsOf(Module(absl::StrCat(Node("a.Cache", "\"[]\"", kLeaf), ",", kLeaf), "", "[]", R"(["cache", "x"])"));
  EXPECT_EQ(paths, (std::vector<ArgumentPath>{{}, {"x"}}));
}

TEST(ArgumentPathsTest, WhatIsNoSpecOrDoesNotFitIsNotGuessed) {
  EXPECT_THAT(PathsOf("{}"), IsEmpty());
  EXPECT_THAT(PathsOf(R"({"module_call_graph": [{"fqn": "", "signature": null}]})"), IsEmpty());
  EXPECT_THAT(PathsOf(Module(absl::StrCat(kLeaf, ",", kLeaf), "", "[]", R"(["x"])")), IsEmpty());
  EXPECT_THAT(PathsOf(Module("[]", "", "[]", R"(["x"])")), IsEmpty());
  EXPECT_THAT(PathsOf(Module(kLeaf, kLeaf, R"(["a", "b"])", R"(["x", "a"])")), IsEmpty());
  std::string deep = kLeaf;
  for (int k = 0; k < 300; ++k) deep = Node("builtins.list", "\"null\"", deep);
  EXPECT_THAT(PathsOf(Module(deep, "", "[]", R"(["x"])")), IsEmpty());
}

// A line per node: its key, its kind, its type.
std::vector<std::string> ResultsOf(const std::string& spec) {
  const absl::StatusOr<Json> module =
      ParseJson(absl::StrCat(R"({"module_call_graph": [{"fqn": "", "signature": {"out_spec": )",
                             Quoted(absl::StrCat("[1, ", spec, "]")), "}}]}"),
                "module");
  EXPECT_TRUE(module.ok()) << module.status();
  const char* const kinds[] = {"leaf", "tuple", "list", "dict", "namedtuple", "object", "none"};
  std::vector<std::string> out;
  if (!module.ok()) return out;
  for (const StructureNode& n : ReadCallStructure(*module).results) {
    out.push_back(absl::StrCat(n.key, n.key_kind == StructureNode::Key::kNumber ? "# " : " ",
                               kinds[static_cast<int>(n.kind)], " ", n.type));
  }
  return out;
}

TEST(CallStructureReaderTest, ResultsKeepTheirKeysAndContainers) {
  const std::string list = Node("builtins.list", "\"null\"", kLeaf);
  EXPECT_THAT(ResultsOf(Node("builtins.dict", Quoted(R"(["logits", 3])"), absl::StrCat(kLeaf, ",", list))),
              ElementsAre(" dict ", "logits leaf ", "3# list ", " leaf "));
  EXPECT_THAT(ResultsOf(Node("collections.OrderedDict", Quoted(R"(["z"])"), kLeaf)), ElementsAre(" dict ", "z leaf "));
  EXPECT_THAT(ResultsOf(Node("collections.defaultdict",
                             R"({"default_factory_module": "builtins", "dict_context": ["z"]})", kLeaf)),
              ElementsAre(" dict ", "z leaf "));
  EXPECT_THAT(ResultsOf(Node("collections.namedtuple", "\"my.Pair\"", absl::StrCat(kLeaf, ",", kLeaf))),
              ElementsAre(" namedtuple my.Pair", " leaf ", " leaf "));
}

TEST(CallStructureReaderTest, ADataclassNamesItsFieldsAndThoseThatAreNone) {
  EXPECT_THAT(ResultsOf(Node("my.Out", Quoted(R"([["p"], ["q"]])"), kLeaf)),
              ElementsAre(" object my.Out", "p leaf ", "q none "));
  EXPECT_THAT(ResultsOf(Node("my.Out", Quoted(R"(["p"])"), kLeaf)), ElementsAre(" object my.Out", "p leaf "));
  EXPECT_THAT(ResultsOf(Node("my.Out", "\"[]\"", kLeaf)), ElementsAre(" object my.Out", " leaf "));
  EXPECT_THAT(ResultsOf(Node("my.Out", "\"nonsense\"", kLeaf)), ElementsAre(" object my.Out", " leaf "));
}

TEST(CallStructureReaderTest, ResultsThatAreNoSpecAreUnknown) {
  EXPECT_THAT(ResultsOf("3"), IsEmpty());
  EXPECT_THAT(ResultsOf(R"({"type": 3, "context": null, "children_spec": []})"), IsEmpty());
  EXPECT_THAT(ResultsOf(Node("builtins.tuple", "\"null\"", "7")), IsEmpty());
}

}  // namespace
}  // namespace pt2_internal
}  // namespace smelt
