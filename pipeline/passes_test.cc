// Each file testdata/passes/PASS/CASE.ir is a program before a pass and, after the line "# after", the program that the
// pass makes of it. Prerequisite passes run first, as in smelt-opt. The evaluator also checks that both programs mean
// the same. A line "# same: x z, y w" before the program says that a caller gives one tensor as x and z, another as y
// and w.
#include "smelt/pipeline/passes.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/convention/duplicates.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/pipeline/complete_types.h"
#include "smelt/pipeline/verify_passes.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "testdata/passes";

struct PassCase {
  std::string pass, name, path;
};

std::vector<PassCase> Cases() {
  std::vector<PassCase> out;
  for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() != ".ir") continue;
    out.push_back({entry.path().parent_path().filename(), entry.path().stem(), entry.path()});
  }
  std::sort(out.begin(), out.end(), [](const PassCase& a, const PassCase& b) { return a.path < b.path; });
  return out;
}

// Returns the program without comments and empty lines.
std::string Program(absl::string_view text) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty() && line[0] != '#') absl::StrAppend(&out, line, "\n");
  }
  return out;
}

// Returns the user's arguments that a line "# same: ..." names; the identity is empty, as in FunctionalizeOptions.
DuplicatesLayer SameArguments(absl::string_view text, const Graph& g) {
  absl::flat_hash_map<std::string, std::string> first_of;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "# same: ")) continue;
    for (absl::string_view set : absl::StrSplit(line, ", ")) {
      const std::vector<std::string> names = absl::StrSplit(set, ' ');
      for (const std::string& name : names) first_of[name] = names[0];
    }
  }
  DuplicatesLayer out;
  if (first_of.empty()) return out;
  absl::flat_hash_map<std::string, DistinctIndex> distinct;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind != InputInfo::Kind::kUser) continue;
    const std::string& name = g.value(g.inputs()[i]).name;
    const auto first = first_of.find(name);
    const auto [it, fresh] = distinct.try_emplace(first == first_of.end() ? name : first->second,
                                                  DistinctIndex(static_cast<int>(distinct.size())));
    out.inner_of_outer.push_back(it->second);
  }
  return out;
}

class PassGoldenTest : public testing::TestWithParam<PassCase> {};

TEST_P(PassGoldenTest, TextInTextOut) {
  const PassCase& c = GetParam();
  const auto file = ReadFile(c.path);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<std::string> parts = absl::StrSplit(*file, "# after\n");
  ASSERT_EQ(parts.size(), 2u) << c.path << ": one line \"# after\" expected";
  ParseOptions parse;
  parse.file_name = c.path;
  parse.resolve_overload = ResolveOverload;
  auto parsed = ParseGraph(parts[0], parse);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  Graph& g = **parsed;

  const PassPipeline all = AllPasses();
  ASSERT_NE(all.Find(c.pass), nullptr) << "there is no pass " << c.pass;
  PassContext context;
  const DuplicatesLayer same = SameArguments(parts[0], g);
  context.Get<FunctionalizeOptions>().duplicates = same;
  const bool typed = HasCompleteTypes(g);
  std::unique_ptr<Graph> before = g.Clone();
  bool changed = false;
  for (const Pass* pass : all.WithPrerequisites(c.pass)) {
    const bool script = PassesOf({PassGroup::kScript}).Find(pass->name) != nullptr;
    if (script && typed && pass->name != c.pass) continue;
    if (pass->name == c.pass) before = g.Clone();
    std::vector<PassRecord> records;
    const absl::Status status = RunPass(*pass, g, context, {}, &records);
    ASSERT_TRUE(status.ok()) << pass->name << ": " << status;
    changed = records.back().changed;
  }
  EXPECT_EQ(VerifyGraph(g), absl::OkStatus());
  const std::string after = PrintGraph(g);
  EXPECT_EQ(Program(after), Program(parts[1])) << c.path;
  EXPECT_EQ(changed, PrintGraph(*before) != after) << "the pass says otherwise whether it changed the program";

  const bool pure = c.pass == "functionalize";
  if (!HasCompleteTypes(*before)) return;  // random arguments need types
  const bool elements = std::any_of(before->outputs().begin(), before->outputs().end(),
                                    [&](ValueId v) { return before->value(v).type.kind() == TypeKind::kList; });
  const bool same_number = g.outputs().size() == before->outputs().size();
  if (!pure && ((elements && c.pass == "return-elements") || !same_number))
    return;  // what was one result is its elements
  EXPECT_EQ(pure ? VerifyPass(*before, g, context.Get<FunctionalizeResult>().convention, c.pass)
                 : VerifySameMeaning(*before, g, c.pass, same),
            absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Testdata, PassGoldenTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = absl::StrCat(info.param.pass, "_", info.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(PassesTest, EveryPassHasAGoldenTest) {
  std::set<std::string> tested;
  for (const PassCase& c : Cases()) tested.insert(c.pass);
  const PassPipeline all = AllPasses();
  for (const Pass& pass : all.passes()) {
    EXPECT_TRUE(pass.is_analysis || tested.count(pass.name) > 0) << kFolder << "/" << pass.name << " is missing";
  }
}

TEST(PassesTest, PrerequisitesArePassesOfTheList) {
  const PassPipeline all = AllPasses();
  for (const Pass& pass : all.passes()) {
    EXPECT_FALSE(pass.description.empty()) << pass.name;
    for (const std::string& p : pass.prerequisites) EXPECT_NE(all.Find(p), nullptr) << pass.name << " needs " << p;
  }
}

}  // namespace
}  // namespace smelt
