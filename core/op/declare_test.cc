#include "smelt/core/op/declare.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpName Declare(absl::string_view schema) {
  const absl::StatusOr<OpName> op = DeclareOperator(schema);
  EXPECT_TRUE(op.ok()) << op.status();
  return op.ok() ? *op : OpName();
}

std::string Refusal(absl::string_view schema) {
  const absl::StatusOr<OpName> op = DeclareOperator(schema);
  return op.ok() ? "" : std::string(op.status().message());
}

TEST(DeclareTest, AnOperatorHasTheSchemaThatItWasDeclaredWith) {
  const OpName op = Declare("mylib::scale_( Tensor(a!) x,float by = 1 ) -> ()");
  ASSERT_NE(FindSchema(op), nullptr);
  // As PyTorch prints it.
  EXPECT_EQ(FindSchema(op)->ToString(), "mylib::scale_(Tensor(a!) x, float by=1.) -> ()");
  EXPECT_EQ(DeclaredSchema(op), "mylib::scale_(Tensor(a!) x, float by=1.) -> ()");
  EXPECT_TRUE(FindSchema(op)->IsMutable());
  EXPECT_EQ(FindSchema(op)->op, op);
  EXPECT_TRUE(op.IsDeclared());
}

TEST(DeclareTest, TheSameNameMayBeDeclaredDifferentlyAtTheSameTime) {
  const OpName pure = Declare("mylib::twofold(Tensor x) -> Tensor");
  const OpName writing = Declare("mylib::twofold(Tensor(a!) x) -> ()");
  EXPECT_NE(pure, writing);
  EXPECT_EQ(pure.full(), writing.full());
  EXPECT_FALSE(FindSchema(pure)->IsMutable());
  EXPECT_TRUE(FindSchema(writing)->IsMutable());
  EXPECT_FALSE(GetOpEffects(pure).writes);
  EXPECT_TRUE(GetOpEffects(writing).writes);
  // Declaring registers nothing.
  EXPECT_EQ(FindSchema(OpName::Get("mylib::twofold")), nullptr);
}

TEST(DeclareTest, NoTextStandsForADeclaredOperator) {
  const OpName op = Declare("mylib::f(Tensor x) -> Tensor");
  for (const std::string& text : {op.full(), op.full() + "\n" + DeclaredSchema(op)}) {
    EXPECT_FALSE(OpName::Get(text).IsDeclared());
    EXPECT_NE(OpName::Get(text), op);
  }
}

TEST(DeclareTest, EqualSchemasAreOneOperator) {
  EXPECT_EQ(Declare("mylib::f(Tensor x) -> Tensor"), Declare("mylib::f( Tensor x )->Tensor"));
  EXPECT_EQ(Declare("mylib::f.default(Tensor x) -> Tensor"), Declare("mylib::f(Tensor x) -> Tensor"));
}

TEST(DeclareTest, AnnotationsAreTheEffects) {
  const OpEffects& e = GetOpEffects(Declare("mylib::write_first(Tensor(a!) x, Tensor y) -> ()"));
  EXPECT_TRUE(e.arg(0) & kWritesData);
  EXPECT_TRUE(e.arg(0) & kReadsData);
  EXPECT_FALSE(e.arg(1) & kWritesData);
  EXPECT_TRUE(e.arg(1) & kReadsData);

  const OpEffects& view = GetOpEffects(Declare("mylib::window(Tensor(a) x, Tensor at) -> Tensor(a)"));
  EXPECT_EQ(view.result(0).view, 1u);
  EXPECT_EQ(view.result(0).self, 1u);
  EXPECT_TRUE(view.arg(1) & kReadsData);  // it may look at the data to find the window

  const OpEffects& itself = GetOpEffects(Declare("mylib::negate_(Tensor(a!) x) -> Tensor(a!)"));
  EXPECT_EQ(itself.result(0).self, 1u);
  EXPECT_FALSE(itself.result(0).fresh);

  const OpEffects& list = GetOpEffects(Declare("mylib::zero_all_(Tensor(a!)[] xs, *, Tensor(b!) out) -> ()"));
  EXPECT_TRUE(list.arg(0) & kWritesElements);
  EXPECT_TRUE(list.arg(1) & kWritesData);
  EXPECT_FALSE(list.arg(1) & kWritesGeometry);  // an implementation cannot resize it

  EXPECT_TRUE(GetOpEffects(Declare("mylib::pure(Tensor x, Tensor[] ys) -> (Tensor, Tensor)")).pure);
  EXPECT_TRUE(GetOpEffects(Declare("mylib::log(Tensor x) -> ()")).side_effect);
}

TEST(DeclareTest, ResultsSayWhereTheyLie) {
  const FunctionSchema& s = *FindSchema(
      Declare("mylib::parts(Tensor(a!) x, Tensor(b) y, Tensor z) -> (Tensor(a!), Tensor(b), Tensor, Tensor(b)[])"));
  EXPECT_TRUE(MemoryOfResult(s, 0).is_argument);
  EXPECT_THAT(MemoryOfResult(s, 0).arguments, ElementsAre(0));
  EXPECT_FALSE(MemoryOfResult(s, 1).is_argument);
  EXPECT_THAT(MemoryOfResult(s, 1).arguments, ElementsAre(1));
  EXPECT_TRUE(MemoryOfResult(s, 2).arguments.empty());
  EXPECT_THAT(MemoryOfResult(s, 3).arguments, ElementsAre(1));
}

TEST(DeclareTest, WhatCannotBeHonouredIsNamed) {
  EXPECT_THAT(Refusal("aten::mine(Tensor x) -> Tensor"), HasSubstr("the namespace aten is PyTorch's"));
  EXPECT_THAT(Refusal("smelt::mine(Tensor x) -> Tensor"), HasSubstr("the namespace smelt"));
  EXPECT_THAT(Refusal("mine(Tensor x) -> Tensor"), HasSubstr("NAMESPACE::NAME"));
  EXPECT_THAT(Refusal("a::b::c(Tensor x) -> Tensor"), HasSubstr("NAMESPACE::NAME"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x, Generator? g) -> Tensor"), HasSubstr("argument \"g\" is of type Generator?"));
  EXPECT_THAT(Refusal("mylib::f(Dict(str, Tensor) x) -> Tensor"), HasSubstr("argument \"x\" is of type"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x) -> Tensor?"), HasSubstr("result 0 is of type Tensor?"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x) -> str"), HasSubstr("result 0 is of type str"));
  EXPECT_THAT(Refusal("mylib::f(Tensor(a -> *) x) -> Tensor"), HasSubstr("argument \"x\": its alias set changes"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x) -> Tensor(*)"), HasSubstr("(*), which may be anything"));
  EXPECT_THAT(Refusal("mylib::f(Tensor(a|b) x) -> Tensor"), HasSubstr("several alias sets"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x) -> Tensor(a)"), HasSubstr("in the alias set a, as no argument is"));
  EXPECT_THAT(Refusal("mylib::f(Tensor(a!)[] xs) -> Tensor(a!)"), HasSubstr("must be one tensor that is no list"));
  EXPECT_THAT(Refusal("mylib::f(Tensor x, ...) -> Tensor"), HasSubstr("\"...\""));
}

TEST(DeclareTest, HostileTextsAreErrors) {
  for (const std::string& text :
       {std::string("mylib::f("), std::string("mylib::f(Tensor x"), std::string("mylib::f(Tensor x) ->"),
        std::string("mylib::f(Tensor) -> Tensor"), std::string("mylib::f(Tensor x, Tensor x) -> Tensor"),
        std::string("mylib::f(Tensor x=) -> Tensor"), std::string("mylib::f(int x=99999999999999999999) -> Tensor"),
        std::string("mylib::f(str s=\"") + "\\" + ") -> Tensor",
        std::string("mylib::f(Tensor x) -> Tensor trailing more"),
        absl::StrCat("mylib::f(", std::string(100000, '('), ") -> Tensor"),
        absl::StrCat("mylib::f(Tensor", std::string(10000, '?'), " x) -> Tensor"),
        absl::StrCat("mylib::f(Tensor", std::string(60000, '['), " x) -> Tensor"), std::string("\0mylib::f", 9),
        std::string("::(Tensor x) -> Tensor"), std::string("mylib::(Tensor x) -> Tensor"),
        std::string("mylib::1f(Tensor x) -> Tensor"), std::string(1000, '#'), std::string("-> ()")}) {
    EXPECT_FALSE(DeclareOperator(text).ok()) << text.substr(0, 60);
  }
}

TEST(OperatorDeclarationsTest, AFileHasASchemaPerLine) {
  OperatorDeclarations declared;
  ASSERT_TRUE(
      declared
          .AddText("# The operators of mylib.\n\nmylib::f(Tensor x, str mode=\"a#b\") -> Tensor  # a comment\r\n"
                   "mylib::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)\n",
                   "ops.txt")
          .ok());
  EXPECT_EQ(declared.all().size(), 2u);
  ASSERT_NE(declared.Find("mylib::f"), nullptr);
  EXPECT_EQ(declared.Find("mylib::f"), declared.Find("mylib::f.default"));
  EXPECT_EQ(DeclaredSchema(*declared.Find("mylib::f")), "mylib::f(Tensor x, str mode=\"a#b\") -> Tensor");
  ASSERT_NE(declared.Find("mylib::f.out"), nullptr);
  EXPECT_EQ(declared.Find("mylib::g"), nullptr);
}

TEST(OperatorDeclarationsTest, AnErrorNamesTheLineAndAddsNothing) {
  OperatorDeclarations declared;
  const absl::Status bad = declared.AddText("mylib::f(Tensor x) -> Tensor\n\nmylib::g(Tensor x -> Tensor\n", "ops.txt");
  EXPECT_THAT(std::string(bad.message()), HasSubstr("ops.txt:3: "));
  EXPECT_TRUE(declared.all().empty());
  ASSERT_TRUE(declared.AddText("mylib::f(Tensor x) -> Tensor\nmylib::f(Tensor x) -> Tensor\n", "one.txt").ok());
  const absl::Status twice = declared.AddText("mylib::f(Tensor(a!) x) -> ()\n", "two.txt");
  EXPECT_THAT(std::string(twice.message()), HasSubstr("two.txt:1: mylib::f is declared twice"));
  EXPECT_EQ(declared.all().size(), 1u);
}

}  // namespace
}  // namespace smelt
