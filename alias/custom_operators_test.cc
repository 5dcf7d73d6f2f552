// Operators of the user's own: their schemas' annotations are all that is known of them.

#include <memory>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/query_text.h"
#include "smelt/alias/scenario.h"
#include "smelt/core/op/declare.h"

namespace smelt {
namespace {

// Expects these answers ("has_writers %x: true") of a graph whose operators have these schemas.
void Expect(const std::string& schemas, const std::string& graph, const std::string& answers) {
  OperatorDeclarations declared;
  ASSERT_TRUE(declared.AddText(schemas, "schemas").ok());
  const std::unique_ptr<Graph> g = ParseForTest(graph);
  ASSERT_NE(g, nullptr);
  ApplyDeclarations(*g, declared);
  const std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  for (absl::string_view line : absl::StrSplit(answers, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const absl::string_view question = line.substr(0, line.find(": "));
    EXPECT_EQ(absl::StrCat(question, ": ", absl::StripAsciiWhitespace(AnswerAliasQueries(*db, question))), line)
        << graph << db->ToString();
  }
  EXPECT_TRUE(db->Verify().ok()) << db->Verify();
}

TEST(CustomOperatorsTest, OnlyTheAnnotatedArgumentIsWritten) {
  Expect("mylib::add_(Tensor(a!) x, Tensor y) -> ()\n", R"(graph(%a : Tensor, %b : Tensor):
  %n : NoneType = prim::Constant()
  %x : Tensor = aten::clone(%a, %n)
  %y : Tensor = aten::clone(%b, %n)
  %part : Tensor = aten::t(%x)
  %before : Tensor = aten::relu(%part)
   = mylib::add_(%x, %y)
  %after : Tensor = aten::relu(%part)
  return (%before, %after)
)",
         R"(has_writers %x: true
            has_writers %part: true
            has_writers %y: false
            can_move_after %before %after: false
            may_alias %x %y: false)");
}

TEST(CustomOperatorsTest, AResultLiesInItsSetAndNowhereElse) {
  Expect(
      "mylib::window(Tensor(a) x, Tensor at) -> Tensor(a)\nmylib::fresh(Tensor x, Tensor y) -> (Tensor, "
      "Tensor)\nmylib::scale_(Tensor(a!) x) -> Tensor(a!)\n",
      R"(graph(%a : Tensor, %b : Tensor):
  %n : NoneType = prim::Constant()
  %x : Tensor = aten::clone(%a, %n)
  %y : Tensor = aten::clone(%b, %n)
  %v : Tensor = mylib::window(%x, %y)
  %p : Tensor, %q : Tensor = mylib::fresh(%x, %y)
  %s : Tensor = mylib::scale_(%y)
  %w : Tensor = aten::relu_(%v)
  return (%v, %p, %q, %s)
)",
      R"(may_alias %v %x: true
            may_alias %v %y: false
            may_alias %p %x: false
            may_alias %p %q: false
            must_alias %s %y: true
            has_writers %x: true
            has_writers %y: true
            has_writers %p: false)");
}

TEST(CustomOperatorsTest, TheTensorsOfAWrittenListAreWritten) {
  Expect("mylib::add_all_(Tensor(a!)[] xs, Tensor y) -> ()\n", R"(graph(%a : Tensor, %b : Tensor, %c : Tensor):
  %n : NoneType = prim::Constant()
  %x : Tensor = aten::clone(%a, %n)
  %y : Tensor = aten::clone(%b, %n)
  %z : Tensor = aten::clone(%c, %n)
  %xs : Tensor[] = prim::ListConstruct(%x, %y)
   = mylib::add_all_(%xs, %z)
  return (%x)
)",
         R"(has_writers %x: true
            has_writers %y: true
            has_writers %z: false)");
}

TEST(CustomOperatorsTest, AnUndeclaredOperatorMayDoAnything) {
  Expect("", R"(graph(%a : Tensor, %b : Tensor):
  %n : NoneType = prim::Constant()
  %x : Tensor = aten::clone(%a, %n)
  %y : Tensor = aten::clone(%b, %n)
   = mylib::unknown(%x, %y)
  return (%x)
)",
         R"(has_writers %x: true
            has_writers %y: true)");
}

}  // namespace
}  // namespace smelt
