// Products with a matrix for each group of rows, and with weights of int8. Operands are small integers and halves, so
// that every sum is exact and the expected numbers are those of plain loops.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

template <typename T>
Tensor Filled(DType dtype, std::vector<int64_t> sizes, const std::function<double(int64_t)>& value) {
  Tensor t = Tensor::Empty(dtype, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i) t.data_as<T>()[i] = static_cast<T>(value(i));
  return t;
}

double RowElement(int64_t i) { return static_cast<double>(i * 7 % 11 - 5); }
double WeightElement(int64_t i) { return static_cast<double>(i * 5 % 13 - 6); }

void ExpectMatrix(const Tensor& got, int64_t rows, int64_t columns,
                  const std::function<double(int64_t, int64_t)>& want) {
  ASSERT_EQ(got.NumElements(), rows * columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      ASSERT_EQ(ElementAsDouble(got, i * columns + j), want(i, j)) << "row " << i << ", column " << j;
  }
}

TEST(GroupedProductTest, EachGroupIsMultipliedByItsMatrixAndTheRestIsZero) {
  constexpr int64_t kRows = 90, kDepth = 20, kColumns = 33, kGroups = 5;
  auto instance = InstanceOf(R"(
graph(%x : Float(90, 20, strides=[20, 1]), %w : Float(5, 33, 20, strides=[660, 20, 1]), %o : Int(5, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %n : NoneType = prim::Constant()
  %t : Tensor = aten::transpose.int(%w, %one, %two)
  %y : Tensor = aten::_grouped_mm(%x, %t, %o, %n, %n)
  return (%y)
)",
                             "grouped");
  ASSERT_TRUE(instance.ok()) << instance.status();
  const Tensor x = Filled<float>(DType::kFloat32, {kRows, kDepth}, RowElement);
  const Tensor w = Filled<float>(DType::kFloat32, {kGroups, kColumns, kDepth}, WeightElement);
  // Groups of many rows, of none, of one, of a few; then ends that fall, and ends beyond the rows.
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{70, 70, 71, 74, 85}, std::vector<int64_t>{0, 3, 2, 90, 90},
        std::vector<int64_t>{5, 9, 40, 41, 200}}) {
    const Tensor o = Filled<int32_t>(DType::kInt32, {kGroups}, [&](int64_t g) { return static_cast<double>(ends[g]); });
    auto out = (*instance)->Run({x, w, o});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectMatrix((*out)[0].tensor(), kRows, kColumns, [&](int64_t i, int64_t j) {
      int64_t g = 0;
      while (g < kGroups && ends[g] <= i) ++g;
      double sum = 0;
      for (int64_t k = 0; g < kGroups && k < kDepth; ++k)
        sum += RowElement(i * kDepth + k) * WeightElement((g * kColumns + j) * kDepth + k);
      return sum;
    });
  }
}

TEST(GroupedProductTest, RowsMayBeTheColumnsOfAnOperand) {
  auto instance = InstanceOf(R"(
graph(%x : Float(6, 9, strides=[9, 1]), %w : Float(2, 6, 4, strides=[24, 4, 1]), %o : Int(2, strides=[1])):
  %n : NoneType = prim::Constant()
  %t : Tensor = aten::t(%x)
  %y : Tensor = aten::_grouped_mm(%t, %w, %o, %n, %n)
  return (%y)
)",
                             "grouped_columns");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run({Filled<float>(DType::kFloat32, {6, 9}, RowElement),
                               Filled<float>(DType::kFloat32, {2, 6, 4}, WeightElement),
                               Filled<int32_t>(DType::kInt32, {2}, [](int64_t g) { return g == 0 ? 4.0 : 9.0; })});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), 9, 4, [](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < 6; ++k) sum += RowElement(k * 9 + i) * WeightElement(((i < 4 ? 0 : 6) + k) * 4 + j);
    return sum;
  });
}

constexpr int64_t kDepth = 37, kColumns = 150;
double ScaleOf(int64_t j) { return j % 2 == 0 ? .5 : 2; }
double ProductOf(int64_t i, int64_t j, double zero) {
  double sum = 0;
  for (int64_t k = 0; k < kDepth; ++k) sum += RowElement(i * kDepth + k) * (WeightElement(j * kDepth + k) - zero);
  return sum * ScaleOf(j);
}

TEST(Int8ProductTest, WeightInt8packMmScalesEachColumn) {
  for (int64_t rows : {1, 2, 3, 4, 5, 70}) {
    auto instance = InstanceOf(absl::StrCat("graph(%x : Float(", rows, ", 37, strides=[37, 1]), ", R"(
%q : Char(150, 37, strides=[37, 1]), %s : Float(150, strides=[1])):
  %y : Tensor = aten::_weight_int8pack_mm(%x, %q, %s)
  return (%y)
)"),
                               "int8pack");
    ASSERT_TRUE(instance.ok()) << instance.status();
    auto out = (*instance)->Run({Filled<float>(DType::kFloat32, {rows, kDepth}, RowElement),
                                 Filled<int8_t>(DType::kInt8, {kColumns, kDepth}, WeightElement),
                                 Filled<float>(DType::kFloat32, {kColumns}, ScaleOf)});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectMatrix((*out)[0].tensor(), rows, kColumns, [](int64_t i, int64_t j) { return ProductOf(i, j, 0); });
  }
}

TEST(Int8ProductTest, ALinearLayerOfADequantizedWeightReadsTheWeightItself) {
  constexpr int64_t kRows = 6;
  const std::string text = R"(
graph(%x : Float(2, 3, 37, strides=[111, 37, 1]), %q : Char(150, 37, strides=[37, 1]), %s : Float(150, strides=[1]), %z : Long(150, strides=[1]), %b : Float(150, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %low : int = prim::Constant[value=-128]()
  %high : int = prim::Constant[value=127]()
  %char : int = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %w : Float(150, 37, strides=[37, 1]) = quantized_decomposed::dequantize_per_channel(%q, %s, %z, %zero, %low, %high, %char, %n)
  %y : Tensor = aten::linear(%x, %w, %b)
  return (%y)
)";
  auto instance = InstanceOf(text, "dequantized");
  ASSERT_TRUE(instance.ok()) << instance.status();
  const auto zero = [](int64_t j) { return static_cast<double>(j % 3); };
  auto out = (*instance)->Run(
      {Filled<float>(DType::kFloat32, {2, 3, kDepth}, RowElement),
       Filled<int8_t>(DType::kInt8, {kColumns, kDepth}, WeightElement),
       Filled<float>(DType::kFloat32, {kColumns}, ScaleOf), Filled<int64_t>(DType::kInt64, {kColumns}, zero),
       Filled<float>(DType::kFloat32, {kColumns}, [](int64_t j) { return static_cast<double>(j); })});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), kRows, kColumns,
               [&](int64_t i, int64_t j) { return ProductOf(i, j, zero(j)) + static_cast<double>(j); });
  // No step writes a float weight: the largest one writes the result.
  EXPECT_LT((*instance)->last_call().arena_bytes, kColumns * kDepth * 4);
}

// The product reads the widened weight after the weight has changed.
TEST(Int8ProductTest, AWeightThatIsWrittenAfterItWasWidenedKeepsItsFormerElements) {
  auto instance = InstanceOf(R"(
graph(%x : Float(2, 37, strides=[37, 1]), %q : Char(150, 37, strides=[37, 1])):
  %dtype : int = prim::Constant[value=6]()
  %n : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %w : Tensor = aten::_to_copy(%q, %dtype, %n, %n, %n, %no, %n)
  %zero : Tensor = aten::zero_(%q)
  %y : Tensor = aten::linear(%x, %w, %n)
  return (%y)
)",
                             "written");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run({Filled<float>(DType::kFloat32, {2, kDepth}, RowElement),
                               Filled<int8_t>(DType::kInt8, {kColumns, kDepth}, WeightElement)});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), 2, kColumns, [](int64_t i, int64_t j) { return ProductOf(i, j, 0) / ScaleOf(j); });
}

TEST(Int8ProductTest, AWidenedTransposeInBfloat16IsMultipliedExactly) {
  for (int64_t rows : {1, 9}) {
    auto instance = InstanceOf(absl::StrCat("graph(%x : BFloat16(", rows, ", 37, strides=[37, 1]), ", R"(
%q : Char(150, 37, strides=[37, 1])):
  %t : Tensor = aten::t(%q)
  %dtype : int = prim::Constant[value=15]()
  %n : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %w : Tensor = aten::_to_copy(%t, %dtype, %n, %n, %n, %no, %n)
  %y : Tensor = aten::mm(%x, %w)
  return (%y)
)"),
                               "widened");
    ASSERT_TRUE(instance.ok()) << instance.status();
    auto out = (*instance)->Run(
        {Filled<uint16_t>(DType::kBFloat16, {rows, kDepth},
                          [](int64_t i) {
                            const double v[] = {0, 0x3f80, 0xbf80, 0x4000};  // 0, 1, -1, 2
                            return v[i % 4];
                          }),
         Filled<int8_t>(DType::kInt8, {kColumns, kDepth}, [](int64_t i) { return static_cast<double>(i % 5 - 2); })});
    ASSERT_TRUE(out.ok()) << out.status();
    ExpectMatrix((*out)[0].tensor(), rows, kColumns, [](int64_t i, int64_t j) {
      const double v[] = {0, 1, -1, 2};
      double sum = 0;
      for (int64_t k = 0; k < kDepth; ++k)
        sum += v[(i * kDepth + k) % 4] * static_cast<double>((j * kDepth + k) % 5 - 2);
      return sum;
    });
  }
}

}  // namespace
}  // namespace smelt
