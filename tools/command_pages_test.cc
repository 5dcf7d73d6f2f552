// Tests the table of commands, and that the pages that are written from it are those in the repository.
#include "smelt/tools/command_pages.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/command_table.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(CommandTableTest, EveryOptionHasAHelpAndANameOfItsOwn) {
  std::vector<CommandSpec> all = Commands();
  all.push_back(SmeltOptSpec());
  for (const CommandSpec& c : all) {
    std::set<std::string> names;
    for (const OptionSpec& o : c.options) {
      EXPECT_THAT(o.help, Not(IsEmpty())) << c.FullName() << " " << o.name;
      EXPECT_FALSE(absl::EndsWith(o.help, ".")) << c.FullName() << " " << o.name;
      EXPECT_TRUE(names.insert(o.name).second) << c.FullName() << " " << o.name;
    }
    EXPECT_TRUE(names.count("help") == 1 && names.count("quiet") == 1) << c.FullName();
    EXPECT_THAT(c.usage, Not(IsEmpty())) << c.FullName();
  }
}

TEST(CommandTableTest, AMisspelledWordFindsTheOneThatIsMeant) {
  EXPECT_EQ(ClosestWord("comple", {"compile", "convert", "cache"}), "compile");
  EXPECT_EQ(ClosestWord("ocmpile", {"compile", "convert"}), "compile");
  EXPECT_EQ(ClosestWord("thread", {"target", "threads"}), "threads");
  EXPECT_EQ(ClosestWord("Logits", {"logits", "x"}), "logits");
  EXPECT_EQ(ClosestWord("rand", {"calls", "random-inputs"}), "random-inputs");
  EXPECT_EQ(ClosestWord("comple", {"compile", "completion"}), "compile");
  EXPECT_EQ(ClosestWord("frobnicate", {"compile", "convert"}), "");
  EXPECT_EQ(ClosestWord("y", {"x"}), "");
}

TEST(CommandLineTest, OptionsAreThoseOfTheTable) {
  const CommandSpec& run = *FindCommand("run");
  auto line =
      CommandLine::Parse({"a.smb", "--input", "x=1", "--input=y=2", "--random-inputs", "-h", "--", "--no"}, run);
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->positional(), ElementsAre("a.smb", "--no"));
  EXPECT_THAT(line->GetAll("input"), ElementsAre("x=1", "y=2"));
  EXPECT_EQ(line->Get("random-inputs"), "true");
  EXPECT_TRUE(line->Has("help"));
  EXPECT_EQ(CommandLine::Parse({"--random-inputs=7"}, run)->Get("random-inputs"), "7");
  const auto error = [&](std::vector<std::string> args) {
    return std::string(CommandLine::Parse(args, run).status().message());
  };
  EXPECT_THAT(error({"--inptus=a"}), HasSubstr("unknown option --inptus=a; did you mean --inputs?"));
  EXPECT_THAT(error({"--json=1"}), HasSubstr("--json takes no value"));
  EXPECT_THAT(error({"--inputs"}), HasSubstr("option --inputs needs a value: FILE"));
  EXPECT_EQ(CommandLine::Parse({"--out", "x.ir"}, SmeltOptSpec())->Get("o"), "x.ir");
}

TEST(CommandPagesTest, TheReferencePageIsTheTables) {
  std::ifstream file("docs/cli.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), CliMarkdown()) << "bazel-bin/tools/write_command_pages markdown >docs/cli.md";
}

TEST(CommandPagesTest, LinesOfTheReferencePageAreShort) {
  for (absl::string_view line : absl::StrSplit(CliMarkdown(), '\n')) EXPECT_LE(line.size(), 100u) << line;
}

TEST(CommandPagesTest, EveryOptionIsInHelpManPageAndCompletions) {
  const std::string man = SmeltManPage("1.2.3");
  EXPECT_THAT(man, HasSubstr("smelt 1.2.3"));
  for (const CommandSpec& c : Commands()) {
    const std::string help = HelpText(c);
    EXPECT_THAT(man, HasSubstr(absl::StrCat(".SS smelt ", c.name, "\n")));
    EXPECT_THAT(OverviewText(), HasSubstr(c.summary));
    for (const OptionSpec& o : c.options) {
      EXPECT_THAT(help, HasSubstr(absl::StrCat("  ", Dashed(o.name))));
      for (const char* shell : {"bash", "zsh", "fish"}) EXPECT_THAT(CompletionScript(shell), HasSubstr(o.name));
    }
  }
  EXPECT_THAT(SmeltOptManPage("1.2.3"), HasSubstr("\\-\\-alias\\-queries=FILE"));
  EXPECT_EQ(CompletionScript("tcsh"), "");
}

}  // namespace
}  // namespace smelt
