#include "smelt/alias/scenario.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/query_text.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"

namespace smelt {

std::unique_ptr<Graph> ParseForTest(const std::string& text) {
  ParseOptions o;
  o.resolve_overload = [](absl::string_view name, absl::Span<const Type> types) {
    return ResolveOverload(name, types);
  };
  absl::StatusOr<std::unique_ptr<Graph>> g = ParseGraph(text, o);
  EXPECT_TRUE(g.ok()) << g.status().ToString() << "\n" << text;
  return g.ok() ? *std::move(g) : nullptr;
}

NodeId NodeOf(const Graph& g, absl::string_view value) { return g.value(g.FindValue(value)).def; }

void Expect(const std::string& graph, absl::string_view questions) {
  std::unique_ptr<Graph> g = ParseForTest(graph);
  ASSERT_NE(g, nullptr);
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  std::string said, expected;
  for (absl::string_view line : absl::StrSplit(questions, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    const size_t colon = line.find(": ");
    ASSERT_NE(colon, absl::string_view::npos) << line;
    const absl::string_view question = line.substr(0, colon);
    absl::StrAppend(&expected, line, "\n");
    absl::StrAppend(&said, question, ": ", AnswerAliasQueries(*db, question));
  }
  EXPECT_EQ(said, expected) << graph << db->ToString();
  EXPECT_TRUE(db->Verify().ok()) << db->Verify();
}

}  // namespace smelt
