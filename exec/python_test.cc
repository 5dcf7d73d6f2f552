#include "smelt/exec/python.h"

#include <string>

#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

PythonValue Int(int64_t v) { return PythonValue(v); }

std::string TextOf(absl::string_view name, std::vector<PythonValue> args) {
  const auto results = RunPython(*FindPythonOp(name), args);
  if (!results.ok()) return std::string(results.status().message());
  return results->empty() ? "" : results->front().ToString();
}

TEST(PythonTest, TheValueDecidesWhatAnOperatorDoes) {
  const PythonValue list = PythonValue::Ints({1, 2});
  EXPECT_EQ(TextOf("aten::add", {Int(1), Int(2)}), "3");
  EXPECT_EQ(TextOf("aten::add", {list, list}), "[1, 2, 1, 2]");
  EXPECT_EQ(TextOf("aten::mul", {list, Int(2)}), "[1, 2, 1, 2]");
  EXPECT_EQ(TextOf("prim::max", {list}), "2");
  EXPECT_EQ(TextOf("prim::max", {Int(3), Int(2)}), "3");
  EXPECT_EQ(TextOf("aten::len", {list}), "2");
  EXPECT_EQ(TextOf("aten::len", {PythonValue(std::string("abc"))}), "3");
  EXPECT_EQ(TextOf("dict::len", {PythonValue::Dict()}), "0");
}

TEST(PythonTest, TensorsTellTheirSizes) {
  const PythonValue t(Tensor::EmptyStrided(DType::kFloat32, {2, 3}, {1, 2}));
  EXPECT_EQ(TextOf("aten::size", {t}), "[2, 3]");
  EXPECT_EQ(TextOf("aten::sym_size", {t, Int(-1)}), "3");
  EXPECT_EQ(TextOf("aten::stride", {t, Int(1)}), "2");
  EXPECT_EQ(TextOf("aten::numel", {t}), "6");
  EXPECT_EQ(TextOf("aten::dim", {t}), "2");
  EXPECT_EQ(TextOf("aten::is_contiguous", {t}), "False");
  EXPECT_EQ(TextOf("aten::len", {t}), "2");
  EXPECT_EQ(TextOf("prim::dtype", {t}), "6");
}

TEST(PythonTest, ATensorOfOneElementIsANumber) {
  Tensor one = Tensor::Empty(DType::kInt64, {1, 1});
  one.data_as<int64_t>()[0] = 5;
  EXPECT_EQ(TextOf("aten::item", {PythonValue(one)}), "5");
  EXPECT_EQ(TextOf("aten::Float", {PythonValue(one)}), "5");
  EXPECT_EQ(TextOf("aten::Bool", {PythonValue(one)}), "True");
  const PythonValue two(Tensor::Empty(DType::kInt64, {2}));
  EXPECT_EQ(TextOf("aten::item", {two}), "a Tensor with 2 elements cannot be converted to Scalar");
  EXPECT_EQ(TextOf("aten::Bool", {two}), "Boolean value of Tensor with more than one value is ambiguous");
}

TEST(PythonTest, IdentityOfContainersIsNotEquality) {
  const PythonValue a = PythonValue::Ints({1}), b = PythonValue::Ints({1});
  EXPECT_EQ(TextOf("aten::eq", {a, b}), "True");
  EXPECT_EQ(TextOf("aten::__is__", {a, b}), "False");
  EXPECT_EQ(TextOf("aten::__is__", {a, a}), "True");
  EXPECT_EQ(TextOf("aten::__isnot__", {a, PythonValue()}), "True");
  EXPECT_EQ(TextOf("aten::__is__", {PythonValue(), PythonValue()}), "True");
}

TEST(PythonTest, ChecksRefuseWithTheModelsMessage) {
  EXPECT_EQ(TextOf("aten::_assert_scalar", {PythonValue(false), PythonValue(std::string("n > 0"))}), "n > 0");
  EXPECT_EQ(TextOf("aten::_assert_scalar", {PythonValue(true), PythonValue(std::string("n > 0"))}), "");
  EXPECT_EQ(TextOf("aten::sym_constrain_range", {Int(7), PythonValue(), Int(6)}), "Invalid value range for 7");
  EXPECT_EQ(TextOf("aten::sym_constrain_range", {Int(-1), PythonValue(), Int(6)}), "");
  EXPECT_EQ(TextOf("aten::sym_constrain_range_for_size", {Int(-1)}), "Invalid value range for -1");
  EXPECT_EQ(TextOf("prim::unchecked_unwrap_optional", {PythonValue()}), "Unwrapping null optional");
}

TEST(PythonTest, WrongArgumentsAreErrors) {
  EXPECT_EQ(TextOf("aten::add", {}), "arguments are missing");
  EXPECT_EQ(TextOf("aten::append", {PythonValue::Ints({})}), "arguments are missing");
  EXPECT_EQ(TextOf("aten::add", {Int(1), PythonValue::Ints({})}), "a number is expected, not a list");
  EXPECT_EQ(TextOf("prim::ListUnpack", {Int(1)}), "a list is expected");
  EXPECT_EQ(TextOf("aten::Int", {PythonValue(std::string("1"))}), "numbers from strings");
}

}  // namespace
}  // namespace smelt
