// Products with a matrix for each group of rows, and with weights of 8 and of 4 bits. Operands are small integers and halves, so
// that every sum is exact and the expected numbers are those of plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/target.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

using testing::HasSubstr;

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

// --- rows of bytes ---

constexpr int64_t kByteRows = 40, kByteDepth = 512, kByteColumns = 24;
double ByteOf(int64_t i) { return static_cast<double>(i * 37 % 251); }

// Runs a linear layer of dequantized rows and a dequantized weight. `rows` are the lines that make %y of %x, and have
// the scale and the zero point that `scale` and `zero` say.
void ExpectProductsOfBytes(const std::string& inputs, const std::string& rows, const std::vector<Datum>& more,
                           const std::function<double(int64_t)>& scale, const std::function<double(int64_t)>& zero) {
  auto instance = InstanceOf(absl::StrCat("graph(%x : Byte(40, 512, strides=[512, 1]), ", R"(
%q : Char(24, 512, strides=[512, 1]), %s : Float(24, strides=[1]), %b : Float(24, strides=[1]))",
                                          inputs, R"():
  %zero : int = prim::Constant[value=0]()
  %high : int = prim::Constant[value=255]()
  %low : int = prim::Constant[value=-128]()
  %most : int = prim::Constant[value=127]()
  %byte : int = prim::Constant[value=0]()
  %char : int = prim::Constant[value=1]()
  %float : int = prim::Constant[value=6]()
  %n : NoneType = prim::Constant()
  %w : Float(24, 512, strides=[512, 1]) = quantized_decomposed::dequantize_per_channel(%q, %s, %n, %zero, %low, %most, %char, %n)
)",
                                          rows, "  %r : Tensor = aten::linear(%y, %w, %b)\n  return (%r)\n"),
                             "bytes");
  ASSERT_TRUE(instance.ok()) << instance.status();
  std::vector<Datum> args = {
      Filled<uint8_t>(DType::kUInt8, {kByteRows, kByteDepth}, ByteOf),
      Filled<int8_t>(DType::kInt8, {kByteColumns, kByteDepth}, WeightElement),
      Filled<float>(DType::kFloat32, {kByteColumns}, ScaleOf),
      Filled<float>(DType::kFloat32, {kByteColumns}, [](int64_t j) { return static_cast<double>(j); })};
  args.insert(args.end(), more.begin(), more.end());
  auto out = (*instance)->Run(args);
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), kByteRows, kByteColumns, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < kByteDepth; ++k)
      sum += (ByteOf(i * kByteDepth + k) - zero(i)) * WeightElement(j * kByteDepth + k);
    // The scales are powers of two. The sum is rounded once, and so is the result.
    return static_cast<float>(static_cast<float>(sum) * scale(i) * ScaleOf(j) + static_cast<double>(j));
  });
  // No step writes the rows as float32.
  EXPECT_LT((*instance)->last_call().arena_bytes, kByteRows * kByteDepth * 4);
}

TEST(ByteProductTest, RowsOfAKnownScaleAreMultipliedAsBytes) {
  for (const int zero : {0, 131}) {
    ExpectProductsOfBytes(
        "",
        absl::StrCat("  %scale : float = prim::Constant[value=.25]()\n", "  %shift : int = prim::Constant[value=", zero,
                     "]()\n", R"(
  %y : Float(40, 512, strides=[512, 1]) = quantized_decomposed::dequantize_per_tensor(%x, %scale, %shift, %zero, %high, %byte, %n)
)"),
        {}, [](int64_t) { return .25; }, [&](int64_t) { return static_cast<double>(zero); });
  }
}

// The sums with the zero point take more than 32 bits.
TEST(ByteProductTest, RowsOfAScaleFromDataAreMultipliedAsBytesWhateverTheZeroPoint) {
  for (const double zero : {7.0, 268435456.0}) {
    ExpectProductsOfBytes(
        ", %scale : Double(1, strides=[1]), %shift : Long(1, strides=[1])", R"(
  %y : Float(40, 512, strides=[512, 1]) = quantized_decomposed::dequantize_per_tensor.tensor(%x, %scale, %shift, %zero, %high, %byte, %n)
)",
        {Filled<double>(DType::kFloat64, {1}, [](int64_t) { return .5; }),
         Filled<int64_t>(DType::kInt64, {1}, [&](int64_t) { return zero; })},
        [](int64_t) { return .5; }, [&](int64_t) { return zero; });
  }
}

TEST(ByteProductTest, RowsOfAScaleEachAreMultipliedAsBytes) {
  const auto scale = [](int64_t i) { return i % 3 == 0 ? .125 : 1; };
  const auto zero = [](int64_t i) { return static_cast<double>(i % 5); };
  ExpectProductsOfBytes(
      ", %scale : Double(40, 1, strides=[1, 1]), %shift : Long(40, 1, strides=[1, 1])", R"(
  %y : Float(40, 512, strides=[512, 1]) = quantized_decomposed::dequantize_per_token(%x, %scale, %shift, %zero, %high, %byte, %float)
)",
      {Filled<double>(DType::kFloat64, {kByteRows, 1}, scale), Filled<int64_t>(DType::kInt64, {kByteRows, 1}, zero)},
      scale, zero);
}

// Scales are powers of two, so that each sum is rounded once; the bias is small.
TEST(ByteConvolutionTest, AConvolutionOfDequantizedBytesMultipliesTheBytes) {
  constexpr int64_t kChannels = 64, kSize = 12, kFilters = 8, kPlaces = 6;
  const std::string kernel = R"(
  %w : Float(8, 64, 3, 3, strides=[576, 9, 3, 1]) = quantized_decomposed::dequantize_per_channel(%q, %s, %n, %zero, %low, %most, %char, %n)
)",
                    one_scale = R"(
  %half : float = prim::Constant[value=.5]()
  %w : Float(8, 64, 3, 3, strides=[576, 9, 3, 1]) = quantized_decomposed::dequantize_per_tensor(%q, %half, %zero, %low, %most, %char, %n)
)";
  for (const bool by_channel : {true, false}) {
    for (const int64_t zero : {0, 131}) {
      auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Byte(1, 64, 12, 12, strides=[9216, 144, 12, 1]), %q : Char(8, 64, 3, 3, strides=[576, 9, 3, 1]), %s : Float(8, strides=[1]), %b : Float(8, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %high : int = prim::Constant[value=255]()
  %low : int = prim::Constant[value=-128]()
  %most : int = prim::Constant[value=127]()
  %byte : int = prim::Constant[value=0]()
  %char : int = prim::Constant[value=1]()
  %n : NoneType = prim::Constant()
  %two : int[] = prim::Constant[value=[2, 2]]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %group : int = prim::Constant[value=1]()
  %scale : float = prim::Constant[value=.25]()
  %shift : int = prim::Constant[value=)",
                                              zero, R"(]()
  %y : Float(1, 64, 12, 12, strides=[9216, 144, 12, 1]) = quantized_decomposed::dequantize_per_tensor(%x, %scale, %shift, %zero, %high, %byte, %n)
)",
                                              by_channel ? kernel : one_scale, R"(
  %r : Tensor = aten::conv2d(%y, %w, %b, %two, %ones, %ones, %group)
  return (%r)
)"),
                                 "byte_convolution");
      ASSERT_TRUE(instance.ok()) << instance.status();
      auto out = (*instance)->Run(
          {Filled<uint8_t>(DType::kUInt8, {1, kChannels, kSize, kSize}, ByteOf),
           Filled<int8_t>(DType::kInt8, {kFilters, kChannels, 3, 3}, WeightElement),
           Filled<float>(DType::kFloat32, {kFilters}, ScaleOf),
           Filled<float>(DType::kFloat32, {kFilters}, [](int64_t j) { return static_cast<double>(j); })});
      ASSERT_TRUE(out.ok()) << out.status();
      ExpectMatrix((*out)[0].tensor(), kFilters, kPlaces * kPlaces, [&](int64_t o, int64_t place) {
        double sum = 0;
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t y = place / kPlaces * 2 - 1 + tap / 3, x = place % kPlaces * 2 - 1 + tap % 3;
          if (y < 0 || y >= kSize || x < 0 || x >= kSize) continue;
          for (int64_t c = 0; c < kChannels; ++c) {
            sum += (ByteOf((c * kSize + y) * kSize + x) - static_cast<double>(zero)) *
                   WeightElement((o * kChannels + c) * 9 + tap);
          }
        }
        return sum * .25 * (by_channel ? ScaleOf(o) : .5) + static_cast<double>(o);
      });
      // No step writes the image as float32.
      EXPECT_LT((*instance)->last_call().arena_bytes, kChannels * kSize * kSize * 4);
    }
  }
}

TEST(PackedWeightTest, AWeightOfVaryingRowsIsPackedOnceAndOneOfASingleRowIsNot) {
  for (const bool varies : {true, false}) {
    auto graph = ParseModel(absl::StrCat("graph(%x : Float(", varies ? "s0" : "1", R"(, 96, strides=[96, 1]),
%w : Float(150, 96, strides=[96, 1])):
)",
                                         varies ? "  symbol s0 in [1, inf] hint 8\n" : "", R"(
  %n : NoneType = prim::Constant()
  %y : Tensor = aten::linear(%x, %w, %n)
  return (%y)
)"));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Tensor w = Filled<float>(DType::kFloat32, {150, 96}, WeightElement);
    (*graph)->weights.push_back({.name = "w", .geometry = w.geometry()});
    (*graph)->weight_storages.push_back(w.storage());
    (*graph)->input_infos.resize(2);
    (*graph)->input_infos[1].kind = InputInfo::Kind::kWeight;
    (*graph)->input_infos[1].weight = 0;
    const std::string path = Scratch(varies ? "rows.smb" : "row.smb");
    CompileOptions options;
    options.targets = {kHostTarget};
    const auto compiled = CompileToFile(**graph, path, options);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    auto program = Program::Load(path);
    ASSERT_TRUE(program.ok()) << program.status();
    auto instance = Instance::Create(*program);
    ASSERT_TRUE(instance.ok()) << instance.status();
    for (const int64_t rows : varies ? std::vector<int64_t>{1, 64, 2, 1, 130} : std::vector<int64_t>{1, 1}) {
      auto out = (*instance)->Run({Filled<float>(DType::kFloat32, {rows, 96}, RowElement)});
      ASSERT_TRUE(out.ok()) << out.status();
      ExpectMatrix((*out)[0].tensor(), rows, 150, [](int64_t i, int64_t j) {
        double sum = 0;
        for (int64_t k = 0; k < 96; ++k) sum += RowElement(i * 96 + k) * WeightElement(j * 96 + k);
        return sum;
      });
      // 150 columns are padded to panels of 64.
      EXPECT_EQ((*program)->packed_weight_bytes(), varies ? 192 * 96 * 4 : 0) << rows;
    }
  }
}

// --- 4 bits ---

Tensor FloatsOf(DType dtype, std::vector<int64_t> sizes, const std::function<double(int64_t)>& value) {
  Tensor t = Tensor::Empty(dtype, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i)
    StoreDouble(static_cast<char*>(t.data()) + i * ItemSize(dtype), dtype, value(i));
  return t;
}

// Compiles a graph whose weight `i` has the contents of `weights[i]`.
absl::StatusOr<std::unique_ptr<Instance>> InstanceWith(absl::string_view text, const std::string& name,
                                                       const std::vector<Tensor>& weights) {
  absl::StatusOr<std::unique_ptr<Graph>> graph = ParseModel(text);
  if (!graph.ok()) return graph.status();
  for (size_t i = 0; i < weights.size(); ++i) (*graph)->weight_storages[i] = weights[i].storage();
  const std::string path = Scratch(name + ".smb");
  CompileOptions options;
  options.targets = {kHostTarget};
  if (absl::Status compiled = CompileToFile(**graph, path, options).status(); !compiled.ok()) return compiled;
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(path);
  if (!program.ok()) return program.status();
  return Instance::Create(*std::move(program));
}

// A weight [n, k] of 4 bits, whose elements are `low` to `low` + 15, and groups with scales and zeros that are sums of
// few powers of two: all products are exact.
struct Int4Case {
  DType rows = DType::kFloat32;
  int64_t n = 150, k = 72, group = 36;
  bool in_text = false;  // (q - z) * s is written out
  bool zeros = true;
  bool constant = true;
  int low = -8;

  int64_t groups() const { return k / group; }
  double Q(int64_t j, int64_t i) const { return static_cast<double>((j * 5 + i * 7 + i / 3) % 16 + low); }
  double Z(int64_t j, int64_t g) const { return zeros ? static_cast<double>((j + g) % 5 - 2 + (low == 0 ? 8 : 0)) : 0; }
  double S(int64_t j, int64_t g) const { return (j + g) % 2 == 0 ? .5 : .25; }
  double W(int64_t j, int64_t i) const { return (Q(j, i) - Z(j, i / group)) * S(j, i / group); }
};
double X(int64_t i) { return static_cast<double>(i * 3 % 7 - 3); }

std::string Dense(absl::string_view type, std::vector<int64_t> sizes) {
  std::string strides;
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d])
    strides = absl::StrCat(step, strides.empty() ? "" : ", ", strides);
  return absl::StrCat(type, "(", absl::StrJoin(sizes, ", "), ", strides=[", strides, "])");
}

void ExpectInt4Product(const Int4Case& c, int64_t rows, const std::string& name) {
  SCOPED_TRACE(absl::StrCat(name, ", rows ", rows));
  const std::string f = c.rows == DType::kBFloat16 ? "BFloat16" : "Float", q = c.low == 0 ? "Byte" : "Char";
  const std::string x = Dense(f, {rows, c.k}), w = Dense(q, {c.n, c.k}), s = Dense(f, {c.n, c.groups()}),
                    z = Dense("Char", {c.n, c.groups()});
  const auto input = [&](const std::string& type, int i) {
    return c.constant ? absl::StrCat(type, " = weight ", i) : type;
  };
  std::string text =
      absl::StrCat("graph(%x : ", x, ", %q : ", input(w, 0), ", %s : ", input(s, 1), ", %z : ", input(z, 2), "):\n");
  const int64_t bytes = c.n * c.groups();
  if (c.constant) {
    absl::StrAppend(&text, "  storage 0 bytes ", c.n * c.k, "\n  storage 1 bytes ", bytes * ItemSize(c.rows),
                    "\n  storage 2 bytes ", bytes, "\n  weight 0 \"q\" parameter storage 0 ", w,
                    "\n  weight 1 \"s\" parameter storage 1 ", s, "\n  weight 2 \"z\" parameter storage 2 ", z, "\n");
  }
  const int dtype = c.rows == DType::kBFloat16 ? 15 : 6, low = c.low, high = c.low + 15, byte = c.low == 0 ? 0 : 1;
  absl::StrAppend(&text, "  %n : NoneType = prim::Constant()\n  %one : int = prim::Constant[value=1]()\n",
                  "  %type : int = prim::Constant[value=", dtype, "]()\n");
  if (c.in_text) {
    const std::string sizes = absl::StrCat(c.n, ", ", c.groups(), ", ", c.group);
    absl::StrAppend(&text, "  %no : bool = prim::Constant[value=0]()\n  %all : int[] = prim::Constant[value=[", sizes,
                    "]]()\n  %each : int[] = prim::Constant[value=[", c.n, ", ", c.groups(), ", 1]]()\n",
                    "  %two : int[] = prim::Constant[value=[", c.n, ", ", c.k, "]]()\n",
                    "  %q3 : Tensor = aten::view(%q, %all)\n  %s3 : Tensor = aten::view(%s, %each)\n",
                    "  %z3 : Tensor = aten::view(%z, %each)\n",
                    "  %qf : Tensor = aten::_to_copy(%q3, %type, %n, %n, %n, %no, %n)\n",
                    "  %zf : Tensor = aten::_to_copy(%z3, %type, %n, %n, %n, %no, %n)\n",
                    "  %c : Tensor = aten::sub.Tensor(%qf, %zf, %one)\n");
    absl::StrAppend(&text, "  %p : Tensor = aten::mul.Tensor(", c.zeros ? "%c" : "%qf",
                    ", %s3)\n  %w : Tensor = aten::view(%p, %two)\n  %t : Tensor = aten::t(%w)\n",
                    "  %y : Tensor = aten::mm(%x, %t)\n  return (%y)\n");
  } else {
    absl::StrAppend(
        &text, "  %low : int = prim::Constant[value=", low, "]()\n  %high : int = prim::Constant[value=", high,
        "]()\n  %byte : int = prim::Constant[value=", byte, "]()\n  %block : int[] = prim::Constant[value=[1, ",
        c.group, "]]()\n  %w : Tensor = torchao::dequantize_affine(%q, %block, %s, ", c.zeros ? "%z" : "%n",
        ", %byte, %low, %high, %type)\n  %y : Tensor = aten::linear(%x, %w, %n)\n  return (%y)\n");
  }
  const Tensor qt =
      FloatsOf(c.low == 0 ? DType::kUInt8 : DType::kInt8, {c.n, c.k}, [&](int64_t i) { return c.Q(i / c.k, i % c.k); });
  const Tensor st = FloatsOf(c.rows, {c.n, c.groups()}, [&](int64_t i) { return c.S(i / c.groups(), i % c.groups()); });
  const Tensor zt =
      FloatsOf(DType::kInt8, {c.n, c.groups()}, [&](int64_t i) { return c.Z(i / c.groups(), i % c.groups()); });
  auto instance = c.constant ? InstanceWith(text, name, {qt, st, zt}) : InstanceOf(text, name);
  ASSERT_TRUE(instance.ok()) << instance.status() << text;
  std::vector<Datum> args = {FloatsOf(c.rows, {rows, c.k}, X)};
  if (!c.constant) args.insert(args.end(), {qt, st, zt});
  auto out = (*instance)->Run(args);
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), rows, c.n, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < c.k; ++k) sum += X(i * c.k + k) * c.W(j, k);
    return c.rows == DType::kBFloat16 ? BFloat16ToFloat(FloatToBFloat16(static_cast<float>(sum))) : sum;
  });
  // No step writes a float weight.
  EXPECT_LT((*instance)->last_call().arena_bytes, std::max<int64_t>(c.n * c.k, rows * c.n * 8));
}

TEST(Int4ProductTest, RowsOfEveryNumberAreMultipliedByGroupsWithZeroPoints) {
  for (int64_t rows : {1, 2, 3, 4, 5, 8, 9, 12, 15, 64, 70}) ExpectInt4Product({}, rows, "int4_rows");
}

TEST(Int4ProductTest, SymmetricGroupsHaveNoZeroPoints) {
  for (int64_t rows : {1, 6}) ExpectInt4Product({.group = 24, .zeros = false}, rows, "int4_symmetric");
}

TEST(Int4ProductTest, UnsignedElementsHaveZeroPointsAroundTheMiddle) {
  for (int64_t rows : {1, 6}) ExpectInt4Product({.n = 65, .k = 64, .group = 32, .low = 0}, rows, "int4_unsigned");
}

TEST(Int4ProductTest, RowsOfBfloat16AreMultipliedExactly) {
  for (int64_t rows : {1, 3, 7, 9, 16, 44})
    ExpectInt4Product({.rows = DType::kBFloat16, .n = 81, .k = 96, .group = 32}, rows, "int4_bfloat16");
}

TEST(Int4ProductTest, ADifferenceTimesAScaleThatIsWrittenOutIsRecognised) {
  for (bool zeros : {false, true}) ExpectInt4Product({.in_text = true, .zeros = zeros}, 2, "int4_written");
}

TEST(Int4ProductTest, AWeightThatTheCallerPassesIsReadAsItIs) {
  for (int64_t rows : {1, 7}) ExpectInt4Product({.constant = false}, rows, "int4_argument");
}

// The layout is the one that PyTorch writes with AVX-512: expected numbers come from the elements before they were packed.
TEST(Int4ProductTest, WeightInt4packMmReadsWhatConvertWeightWrites) {
  for (int64_t n : {16, 64, 112}) {
    for (int64_t rows : {1, 5}) {
      constexpr int64_t k = 64;
      auto instance = InstanceOf(absl::StrCat("graph(%x : ", Dense("Float", {rows, k}), ", %q : ", Dense("Int", {n, k}),
                                              ", %s : ", Dense("Float", {2, n, 2}), R"():
  %two : int = prim::Constant[value=2]()
  %group : int = prim::Constant[value=32]()
  %p : Tensor = aten::_convert_weight_to_int4pack_for_cpu(%q, %two)
  %y : Tensor = aten::_weight_int4pack_mm_for_cpu(%x, %p, %group, %s)
  return (%y, %p)
)"),
                                 "int4pack");
      ASSERT_TRUE(instance.ok()) << instance.status();
      const auto q = [](int64_t i) { return static_cast<double>(i * 7 % 16); };
      const auto s = [](int64_t i) { return i % 2 == 0 ? (i % 3 == 0 ? .5 : 2) : static_cast<double>(i % 5 - 2); };
      auto out = (*instance)->Run({FloatsOf(DType::kFloat32, {rows, k}, X), FloatsOf(DType::kInt32, {n, k}, q),
                                   FloatsOf(DType::kFloat32, {2, n, 2}, s)});
      ASSERT_TRUE(out.ok()) << out.status();
      ExpectMatrix((*out)[0].tensor(), rows, n, [&](int64_t i, int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < k; ++d) {
          const int64_t at = (d / 32 * n + j) * 2;
          sum += X(i * k + d) * ((q(j * k + d) - 8) * s(at) + s(at + 1));
        }
        return sum;
      });
      // Column 1 of the first row of bytes: neighbours, or 32 columns apart in a whole block.
      const int64_t low = n >= 64 ? 1 : 2, high = n >= 64 ? 33 : 3;
      EXPECT_EQ((*out)[1].tensor().data_as<uint8_t>()[1], q(low * k) + 16 * q(high * k));
    }
  }
}

TEST(Int4ProductTest, OperandsThatDoNotFitAreRefusedWithTheirSizes) {
  const auto error = [](absl::string_view weight, absl::string_view params, int group) {
    auto instance = InstanceOf(
        absl::StrCat("graph(%x : ", Dense("Float", {2, 64}), ", %q : ", weight, ", %s : ", params,
                     "):\n  %g : int = prim::Constant[value=", group,
                     "]()\n  %y : Tensor = aten::_weight_int4pack_mm_for_cpu(%x, %q, %g, %s)\n", "  return (%y)\n"),
        "int4_refused");
    return std::string(instance.status().message());
  };
  const std::string weight = Dense("Byte", {48, 32}), params = Dense("Float", {2, 48, 2});
  EXPECT_EQ(error(weight, params, 32), "");
  EXPECT_THAT(error(weight, params, 33), HasSubstr("expected qGroupSize to be 32, 64, 128 or 256, got 33"));
  EXPECT_THAT(error(weight, params, 128), HasSubstr("got K: 64, qGroupSize: 128"));
  EXPECT_THAT(error(weight, params, 64), HasSubstr("expected qScaleAndZeros of sizes [1, 48, 2], got [2, 48, 2]"));
  EXPECT_THAT(error(Dense("Byte", {48, 30}), params, 32), HasSubstr("a row of mat2 has 30 bytes; expected 32"));
  EXPECT_THAT(error(Dense("Byte", {40, 32}), Dense("Float", {2, 40, 2}), 32), HasSubstr("multiple of 16, got 40"));
  EXPECT_THAT(error(Dense("Int", {48, 32}), params, 32), HasSubstr("expected mat2 of Byte"));
  EXPECT_THAT(error(weight, Dense("BFloat16", {2, 48, 2}), 32), HasSubstr("must have the dtype of self"));
}

// Infinity times (q - z) * s is infinite, though infinity times each of q * s and z * s is too.
TEST(Int4ProductTest, AnInfiniteElementGivesInfinityNotNaN) {
  constexpr int64_t k = 32, n = 16;
  const std::string q = Dense("Char", {n, k}), s = Dense("Float", {n, 1});
  auto instance = InstanceWith(
      absl::StrCat("graph(%x : ", Dense("Float", {1, k}), ", %q : ", q, " = weight 0, %s : ", s,
                   " = weight 1, %z : ", s, " = weight 2):\n  storage 0 bytes ", n * k, "\n  storage 1 bytes ", n * 4,
                   "\n  storage 2 bytes ", n * 4, "\n  weight 0 \"q\" parameter storage 0 ", q,
                   "\n  weight 1 \"s\" parameter storage 1 ", s, "\n  weight 2 \"z\" parameter storage 2 ", s, R"(
  %n : NoneType = prim::Constant()
  %low : int = prim::Constant[value=-8]()
  %high : int = prim::Constant[value=7]()
  %byte : int = prim::Constant[value=1]()
  %float : int = prim::Constant[value=6]()
  %group : int = prim::Constant[value=32]()
  %w : Tensor = quantized_decomposed::dequantize_per_channel_group(%q, %s, %z, %low, %high, %byte, %group, %float)
  %y : Tensor = aten::linear(%x, %w, %n)
  return (%y)
)"),
      "int4_infinite",
      {FloatsOf(DType::kInt8, {n, k}, [](int64_t) { return 3.0; }),
       FloatsOf(DType::kFloat32, {n, 1}, [](int64_t) { return 1.0; }),
       FloatsOf(DType::kFloat32, {n, 1}, [](int64_t) { return 1.0; })});
  ASSERT_TRUE(instance.ok()) << instance.status();
  const double infinity = std::numeric_limits<double>::infinity();
  auto out = (*instance)->Run({FloatsOf(DType::kFloat32, {1, k}, [&](int64_t i) { return i == 0 ? infinity : 1.0; })});
  ASSERT_TRUE(out.ok()) << out.status();
  ExpectMatrix((*out)[0].tensor(), 1, n, [&](int64_t, int64_t) { return infinity; });
}

}  // namespace
}  // namespace smelt
