#include "smelt/functionalize/program_inputs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using ::testing::UnorderedElementsAre;

TEST(ProgramInputsTest, AnArgumentsOffsetIsCountedInElementsOfTheSizeAsked) {
  ProgramInputs inputs;
  inputs.arguments.push_back({.name = "x"});
  inputs.arguments[0].initial.dtype = DType::kFloat32;
  const Expr offset = Expr::Symbol("x.offset");
  EXPECT_EQ(inputs.OffsetOf(0, 4), offset);
  EXPECT_EQ(inputs.OffsetOf(0, 2), offset * 2);
  EXPECT_EQ(inputs.OffsetOf(0, 8), FloorDiv(offset, 2));
}

TEST(ProgramInputsTest, AMemoryOfSeveralStatesIsShared) {
  ProgramInputs inputs;
  inputs.states = {{0, 10, 5}, {1, 11, 6}, {2, 12, 5}, {3, 13, 7}, {4, 14, 5}, {5, 15, 7}};
  EXPECT_THAT(inputs.SharedStates(), UnorderedElementsAre(5, 7));
}

TEST(ProgramInputsTest, AWeightsGeometryIsThatOfItsPartOfTheStorage) {
  Weight w;
  w.dtype = DType::kInt64;
  w.geometry = {{2, 3}, {3, 1}, 6};
  const SymbolicGeometry g = WeightGeometry(w);
  EXPECT_EQ(g.dtype, DType::kInt64);
  EXPECT_EQ(g.sizes, (std::vector<Expr>{2, 3}));
  EXPECT_EQ(g.strides, (std::vector<Expr>{3, 1}));
  EXPECT_EQ(g.offset, Expr(6));
}

}  // namespace
}  // namespace smelt
