#include "smelt/pipeline/call_function.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

std::optional<ScalarFn> FunctionOf(absl::string_view inputs, absl::string_view nodes, absl::string_view result) {
  const auto graph = ParseGraph(absl::StrCat("graph(", inputs, R"():
  %one : int = prim::Constant[value=1]()
  %long : int = prim::Constant[value=4]()
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
)",
                                             nodes, "  return (", result, ")\n"));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? FunctionOfCall(**graph) : std::nullopt;
}

ScalarValue Float(double f) {
  ScalarValue v;
  v.f = f;
  return v;
}
ScalarValue Int(int64_t i) {
  ScalarValue v;
  v.i = i;
  return v;
}
ScalarValue ValueOf(const ScalarFn& f, const std::vector<ScalarValue>& args) {
  bool divides_by_zero = false;
  return EvaluateScalarFn(f, args, &divides_by_zero)[0];
}

TEST(CallFunctionTest, TheFunctionPromotesItsArguments) {
  const auto f = FunctionOf("%a : Float(), %b : Long()", "  %c : Float() = aten::add.Tensor(%a, %b, %one)\n", "%c");
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(f->arg_types, (std::vector<DType>{DType::kFloat32, DType::kInt64}));
  EXPECT_EQ(ValueOf(*f, {Float(0.5), Int(2)}).f, 2.5);
}

TEST(CallFunctionTest, EachStepRoundsToItsDType) {
  const auto f = FunctionOf("%a : Float(), %b : Float()", "  %c : Float() = aten::add.Tensor(%a, %b, %one)\n", "%c");
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(ValueOf(*f, {Float(16777216), Float(1)}).f, 16777216.0);
}

TEST(CallFunctionTest, ANumberIsAnArgument) {
  const auto f = FunctionOf("%a : Float(), %n : int", "  %c : Bool() = aten::gt.Scalar(%a, %n)\n", "%c");
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(f->arg_types, (std::vector<DType>{DType::kFloat32, DType::kInt64}));
  EXPECT_EQ(ValueOf(*f, {Float(2.5), Int(2)}).i, 1);
  EXPECT_EQ(ValueOf(*f, {Float(2.5), Int(3)}).i, 0);
}

TEST(CallFunctionTest, OperatorsAreComposed) {
  const auto f = FunctionOf("%a : Float(n)", R"(
  %b : Float(n) = aten::neg(%a)
  %c : Long(n) = aten::_to_copy(%b, %long, %none, %none, %none, %no, %none)
)",
                            "%c");
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(ValueOf(*f, {Float(2.5)}).i, -2);
}

TEST(CallFunctionTest, AFillConvertsItsNumber) {
  const auto f = FunctionOf("%a : Long(n), %v : float", "  %c : Long(n) = aten::fill.Scalar(%a, %v)\n", "%c");
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(ValueOf(*f, {Int(7), Float(2.5)}).i, 2);
}

TEST(CallFunctionTest, WhatAKernelRoundsInItsOwnWayHasNoFunction) {
  EXPECT_FALSE(FunctionOf("%a : Float()", "  %c : Float() = aten::exp(%a)\n", "%c").has_value());
}

TEST(CallFunctionTest, AnIntegerDivisionHasNoFunctionBecauseItMayFail) {
  EXPECT_FALSE(
      FunctionOf("%a : Long(), %b : Long()", "  %c : Long() = aten::floor_divide(%a, %b)\n", "%c").has_value());
}

TEST(CallFunctionTest, AReductionHasNoFunction) {
  EXPECT_FALSE(FunctionOf("%a : Float(4)", "  %c : Float() = aten::sum(%a, %none)\n", "%c").has_value());
}

TEST(CallFunctionTest, ABroadcastHasNoFunction) {
  EXPECT_FALSE(FunctionOf("%a : Float(4, 1), %b : Float(3)", "  %c : Float(4, 3) = aten::mul.Tensor(%a, %b)\n", "%c")
                   .has_value());
}

}  // namespace
}  // namespace smelt
