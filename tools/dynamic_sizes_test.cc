// Sizes that are known only in a call and are equal in the example.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

// A program on %x, [s0, s1], and %y, [s2, s3], each flattened to %a and %b, which have 16 elements in the example.
std::unique_ptr<Instance> OfFlattened(absl::string_view body, const std::string& name) {
  auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(s0, s1, strides=[s1, 1]), %y : Float(s2, s3, strides=[s3, 1])):
  symbol s0 in [2, inf] hint 4
  symbol s1 in [2, inf] hint 4
  symbol s2 in [2, inf] hint 4
  symbol s3 in [2, inf] hint 4
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::flatten.using_ints(%x, %zero, %one)
  %b : Tensor = aten::flatten.using_ints(%y, %zero, %one)
)",
                                          body),
                             name);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

Tensor Counting(int64_t rows, int64_t columns) {
  Tensor t = Tensor::Empty(DType::kFloat32, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i) t.data_as<float>()[i] = static_cast<float>(i);
  return t;
}

// 16 elements in other shapes, then fewer in one and fewer in the other: PyTorch refuses those.
void ExpectEqualSizesAreAsked(Instance& instance, float first, float last) {
  auto out = instance.Run({Counting(4, 4), Counting(2, 8)});
  ASSERT_TRUE(out.ok()) << out.status();
  const Tensor& t = (*out)[0].tensor();
  EXPECT_EQ(t.data_as<float>()[0], first);
  EXPECT_EQ(t.data_as<float>()[t.NumElements() - 1], last);
  for (const auto& [x, y] : {std::pair(Counting(2, 2), Counting(4, 4)), {Counting(4, 4), Counting(2, 4)}}) {
    const float before = x.data_as<float>()[3];
    out = instance.Run({x, y});
    EXPECT_EQ(out.status().code(), absl::StatusCode::kFailedPrecondition) << out.status();
    EXPECT_EQ(x.data_as<float>()[3], before);
  }
}

TEST(DynamicSizesTest, OperandsThatTheExampleMadeEqualAreAskedToBe) {
  ExpectEqualSizesAreAsked(*OfFlattened("  %z : Tensor = aten::add.Tensor(%a, %b, %one)\n  return (%z)\n", "add"), 0,
                           30);
}

TEST(DynamicSizesTest, SoAreThoseOfAWriteInPlace) {
  ExpectEqualSizesAreAsked(*OfFlattened("  %z : Tensor = aten::add_.Tensor(%a, %b, %one)\n  return (%x)\n", "add_"), 0,
                           30);
}

TEST(DynamicSizesTest, SoAreThePartsOfAStack) {
  ExpectEqualSizesAreAsked(*OfFlattened(R"(
  %l : Tensor[] = prim::ListConstruct(%a, %b)
  %z : Tensor = aten::stack(%l, %zero)
  return (%z)
)",
                                        "stack"),
                           0, 15);
}

// A copy that is none if a dim has one element, written in place: the returned original shows it.
TEST(DynamicSizesTest, AWriteIntoACopyIsSeenWhereACallNeedsNone) {
  auto instance = InstanceOf(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [1, inf] hint 5
  symbol s1 in [1, inf] hint 7
  %two : int = prim::Constant[value=2]()
  %memory : int = prim::Constant[value=0]()
  %v : Tensor = aten::mul.Scalar(%x, %two)
  %t : Tensor = aten::t(%v)
  %w : Tensor = aten::contiguous(%t, %memory)
  %z : Tensor = aten::mul_.Scalar(%w, %two)
  return (%v)
)",
                             "copied_at_two");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run({Counting(2, 3)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[5], 10);
  out = (*instance)->Run({Counting(6, 1)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[5], 20);
}

// `x * 2 if x.shape[0] > x.shape[1] else x * 3`, exported of a tall x.
TEST(DynamicSizesTest, ACallWhoseSizesLeadToAnotherBranchIsRefused) {
  auto instance = InstanceOf(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 7
  symbol s1 in [2, inf] hint 5
  guard "x.size()[0] > x.size()[1]" max(s0 - s1, 0)
  %two : int = prim::Constant[value=2]()
  %v : Tensor = aten::mul.Scalar(%x, %two)
  return (%v)
)",
                             "tall");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run({Counting(4, 3)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[5], 10);
  for (int64_t rows : {2, 3}) {
    const absl::Status refused = (*instance)->Run({Counting(rows, 3)}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(refused.message(), "the program was exported for sizes where x.size()[0] > x.size()[1]");
  }
}

// x.add_(1); x * (s1 ** -0.5) + 2.5 / (s0 - 2), sqrt(s1)
constexpr absl::string_view kNumbersOfSizes = R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 4
  symbol s1 in [2, inf] hint 9
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %minus_half : float = prim::Constant[value=-0.5]()
  %five_halves : float = prim::Constant[value=2.5]()
  %more : Tensor = aten::add_.Tensor(%x, %one, %one)
  %rows : int = aten::sym_size.int(%x, %zero)
  %columns : int = aten::sym_size.int(%x, %one)
  %c : float = aten::Float.Scalar(%columns)
  %scale : float = aten::pow.float(%c, %minus_half)
  %fewer : int = aten::sub.int(%rows, %two)
  %f : float = aten::Float.Scalar(%fewer)
  %shift : float = aten::div.float(%five_halves, %f)
  %y : Tensor = aten::mul.Tensor(%x, %scale)
  %z : Tensor = aten::add.Tensor(%y, %shift, %one)
  %root : float = aten::sqrt.int(%columns)
  return (%z, %root)
)";

TEST(DynamicSizesTest, NumbersComputedFromSizesAreStepsOfACompiledPlan) {
  auto graph = ParseModel(kNumbersOfSizes);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto stats = CompileToFile(**graph, Scratch("numbers_of_sizes.smb"), {.targets = {kHostTarget}});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->eager_order, "");
  auto instance = InstanceOf(kNumbersOfSizes, "numbers_of_sizes");
  ASSERT_TRUE(instance.ok()) << instance.status();
  for (const auto& [rows, columns, scale, shift] :
       {std::tuple(3, 4, .5f, 2.5f), {7, 16, .25f, .5f}, {12, 64, .125f, .25f}}) {
    auto out = (*instance)->Run({Counting(rows, columns)});
    ASSERT_TRUE(out.ok()) << out.status();
    for (int64_t i = 0; i < rows * columns; ++i) {
      EXPECT_EQ((*out)[0].tensor().data_as<float>()[i], static_cast<float>(i + 1) * scale + shift);
    }
    EXPECT_EQ((*out)[1].as_float(), 1 / scale);
  }
}

// One query, for which the first of two keys has three times the weight of the second.
TEST(DynamicSizesTest, AttentionIsScaledByTheCallsHeadSize) {
  auto instance = InstanceOf(R"(
graph(%q : Float(1, 1, s0, strides=[s0, s0, 1]), %k : Float(1, 2, s0, strides=[2*s0, s0, 1]), %v : Float(1, 2, 1, strides=[2, 1, 1])):
  symbol s0 in [2, inf] hint 8
  %zero : float = prim::Constant[value=0.]()
  %no : bool = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %z : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, %none, %zero, %no, %none, %no)
  return (%z)
)",
                             "head_size");
  ASSERT_TRUE(instance.ok()) << instance.status();
  for (int64_t size : {4, 16, 100}) {
    Tensor q = Tensor::Empty(DType::kFloat32, {1, 1, size}), k = Tensor::Empty(DType::kFloat32, {1, 2, size});
    Tensor v = Tensor::Empty(DType::kFloat32, {1, 2, 1});
    std::fill_n(q.data_as<float>(), size, 0.0f);
    std::fill_n(k.data_as<float>(), 2 * size, 0.0f);
    q.data_as<float>()[0] = std::sqrt(static_cast<float>(size)) * std::log(3.0f);
    k.data_as<float>()[0] = 1;
    v.data_as<float>()[0] = 4;
    v.data_as<float>()[1] = 0;
    auto out = (*instance)->Run({q, k, v});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_NEAR((*out)[0].tensor().data_as<float>()[0], 3, 1e-5) << size;
  }
}

// Resizes an image to twice as many rows and one column less.
std::string Cubic(const std::string& rows, const std::string& columns, const std::string& align,
                  absl::string_view symbols) {
  return absl::StrCat("graph(%x : Float(1, 1, ", rows, ", ", columns, ")):\n", symbols, R"(
  %align : bool = prim::Constant[value=)",
                      align, R"(]()
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %h : int = aten::sym_size.int(%x, %two)
  %w : int = aten::sym_size.int(%x, %three)
  %rows : int = aten::mul.int(%h, %two)
  %columns : int = aten::sub.int(%w, %one)
  %sizes : int[] = prim::ListConstruct(%rows, %columns)
  %y : Tensor = aten::upsample_bicubic2d.vec(%x, %sizes, %align, %none)
  return (%y)
)");
}

// Other tests compare images of known sizes with PyTorch's results.
TEST(DynamicSizesTest, CubicInterpolationOfSizesThatACallSaysIsThatOfKnownOnes) {
  for (const std::string align : {"0", "1"}) {
    auto any = InstanceOf(Cubic("s0", "s1", align, "  symbol s0 in [2, inf] hint 4\n  symbol s1 in [2, inf] hint 9\n"),
                          "cubic");
    ASSERT_TRUE(any.ok()) << any.status();
    for (const auto& [rows, columns] : {std::pair(4, 9), {3, 2}, {7, 12}}) {
      auto known = InstanceOf(Cubic(absl::StrCat(rows), absl::StrCat(columns), align, ""), "cubic_known");
      ASSERT_TRUE(known.ok()) << known.status();
      const Tensor flat = Counting(rows, columns);
      for (int64_t i = 0; i < flat.NumElements(); ++i) flat.data_as<float>()[i] = static_cast<float>(i * 37 % 11);
      const Tensor image(flat.storage(), flat.dtype(), Geometry::Contiguous({1, 1, rows, columns}));
      auto got = (*any)->Run({image}), want = (*known)->Run({image});
      ASSERT_TRUE(got.ok() && want.ok()) << got.status() << want.status();
      const Tensor a = (*got)[0].tensor(), b = (*want)[0].tensor();
      ASSERT_EQ(a.sizes(), b.sizes());
      for (int64_t i = 0; i < b.NumElements(); ++i) {
        ASSERT_NEAR(a.data_as<float>()[i], b.data_as<float>()[i], 1e-5) << rows << "x" << columns << ": " << i;
      }
    }
  }
}

TEST(DynamicSizesTest, NumbersThatPythonRefusesAreRefusedAndNothingIsWritten) {
  const auto instance_of = [](const std::string& op, const std::string& operands) {
    return InstanceOf(absl::StrCat(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 4
  symbol s1 in [2, inf] hint 9
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %four : int = prim::Constant[value=4]()
  %minus : float = prim::Constant[value=-0.5]()
  %many : float = prim::Constant[value=1000.]()
  %more : Tensor = aten::add_.Tensor(%x, %one, %one)
  %rows : int = aten::sym_size.int(%x, %zero)
  %fewer : int = aten::sub.int(%rows, %four)
  %f : float = aten::Float.Scalar(%fewer)
  %n : float = aten::Float.Scalar(%rows)
  %number : float = )",
                                   op, "(", operands, ")", R"(
  %y : Tensor = aten::mul.Tensor(%x, %number)
  return (%y)
)"),
                      "refused_number");
  };
  const auto refusal = [&](const std::string& op, const std::string& operands, int64_t rows) {
    auto instance = instance_of(op, operands);
    EXPECT_TRUE(instance.ok()) << instance.status();
    if (!instance.ok()) return std::string();
    const Tensor x = Counting(rows, 4);
    const absl::Status s = (*instance)->Run({x}).status();
    EXPECT_EQ(x.data_as<float>()[3], s.ok() ? 4 : 3);
    return std::string(s.message());
  };
  EXPECT_EQ(refusal("aten::pow.float", "%f, %minus", 4), "ZeroDivisionError: 0.0 cannot be raised to a negative power");
  EXPECT_EQ(refusal("aten::pow.float", "%f, %minus", 3),
            "a negative number to the power of a fraction is complex, a real one is expected");
  EXPECT_EQ(refusal("aten::pow.float", "%f, %minus", 5), "");
  EXPECT_EQ(refusal("aten::pow.float", "%n, %many", 5), "OverflowError: (34, 'Numerical result out of range')");
  EXPECT_EQ(refusal("aten::sqrt.float", "%f", 3), "ValueError: math domain error");
}

TEST(DynamicSizesTest, ANumberThatIsDividedByASizeOfZeroIsRefusedAndNothingIsWritten) {
  auto instance = InstanceOf(kNumbersOfSizes, "number_by_zero");
  ASSERT_TRUE(instance.ok()) << instance.status();
  const Tensor x = Counting(2, 4);
  const absl::Status refused = (*instance)->Run({x}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(), "ZeroDivisionError: division by zero");
  EXPECT_EQ(x.data_as<float>()[3], 3);
}

// An export of `x * 2 if n == x.shape[0] else ...` calls both numbers s0; one of `n == 3` replaces n by 3.
TEST(DynamicSizesTest, ANumberThatTheExportTookToBeASizeOrAConstantIsAskedToBe) {
  const auto refusal = [](const std::string& number, int64_t rows, int64_t n) {
    auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(s0, s1, strides=[s1, 1]), %n : int()",
                                            number, R"()):
  symbol s0 in [2, inf] hint 3
  symbol s1 in [2, inf] hint 3
  %two : int = prim::Constant[value=2]()
  %y : Tensor = aten::mul.Scalar(%x, %two)
  return (%y)
)"),
                               "number_that_is_a_size");
    EXPECT_TRUE(instance.ok()) << instance.status();
    if (!instance.ok()) return std::string();
    return std::string((*instance)->Run({Counting(rows, 4), n}).status().message());
  };
  EXPECT_EQ(refusal("s0", 4, 4), "");
  EXPECT_EQ(refusal("s0", 4, 5), "argument \"n\" is 5, expected 4");
  EXPECT_EQ(refusal("2*s0 - 1", 4, 7), "");
  EXPECT_EQ(refusal("2*s0 - 1", 4, 4), "argument \"n\" is 4, expected 7");
  EXPECT_EQ(refusal("3", 4, 3), "");
  EXPECT_EQ(refusal("3", 4, 4), "argument \"n\" is 4, expected 3");
}

// A program on %x, [s0, 4], exported with 9 rows: a body that ends with %z.
std::unique_ptr<Instance> OfRows(absl::string_view body, const std::string& name) {
  auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(s0, 4, strides=[4, 1]), %i : Long(s1, 1, strides=[1, 1])):
  symbol s0 in [0, inf] hint 9
  symbol s1 in [0, inf] hint 2
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %half : float = prim::Constant[value=0.5]()
  %y : Tensor = aten::mul.Tensor(%x, %two)
)",
                                          body, "\n  return (%z)\n"),
                             name);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return instance.ok() ? *std::move(instance) : nullptr;
}

Tensor Zeros(int64_t rows) {
  Tensor t = Tensor::Empty(DType::kInt64, {rows, 1});
  std::fill_n(t.data_as<int64_t>(), rows, 0);
  return t;
}

TEST(DynamicSizesTest, IndicesForMoreRowsThanThereAreAreRefused) {
  for (const std::string body : {"  %z : Tensor = aten::scatter.value(%y, %one, %i, %half)",
                                 "  %no : bool = prim::Constant[value=0]()\n"
                                 "  %z : Tensor = aten::gather(%y, %one, %i, %no)"}) {
    const auto instance = OfRows(body, "more_rows");
    ASSERT_NE(instance, nullptr);
    EXPECT_TRUE(instance->Run({Counting(9, 4), Zeros(2)}).ok());
    EXPECT_TRUE(instance->Run({Counting(2, 4), Zeros(2)}).ok());
    EXPECT_TRUE(instance->Run({Counting(1, 4), Zeros(0)}).ok());
    for (const auto& [rows, indices] : {std::pair(1, 2), {0, 1}, {9, 10}}) {
      EXPECT_FALSE(instance->Run({Counting(rows, 4), Zeros(indices)}).ok()) << rows << " " << indices;
    }
  }
}

TEST(DynamicSizesTest, APlaceBehindATensorsElementsIsRefused) {
  const auto instance = OfRows(R"(  %size : int[] = prim::ListConstruct(%two)
  %six : int = prim::Constant[value=6]()
  %stride : int[] = prim::ListConstruct(%six)
  %places : Tensor = aten::as_strided(%y, %size, %stride, %zero)
  %z : Tensor = aten::add.Tensor(%places, %one, %one))",
                               "behind");
  ASSERT_NE(instance, nullptr);
  const auto out = instance->Run({Counting(2, 4), Zeros(2)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[1], 13);
  EXPECT_FALSE(instance->Run({Counting(1, 4), Zeros(2)}).ok());  // of 4 elements the seventh
}

TEST(DynamicSizesTest, RowsCopiedToFewerAreRefused) {
  const auto instance =
      OfRows(R"(  %rows : Float(min(s0, 2), 4, strides=[4, 1]) = aten::slice.Tensor(%x, %zero, %zero, %two, %one)
  %four : int = prim::Constant[value=4]()
  %sizes : int[] = prim::ListConstruct(%two, %four)
  %none : NoneType = prim::Constant()
  %ones : Tensor = aten::ones(%sizes, %none, %none, %none, %none)
  %no : bool = prim::Constant[value=0]()
  %written : Tensor = aten::copy_(%rows, %ones, %no)
  %z : Tensor = aten::sum(%x, %none))",
             "fewer_rows");
  ASSERT_NE(instance, nullptr);
  const auto out = instance->Run({Counting(3, 4), Zeros(2)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].tensor().data_as<float>()[0], 8 + 8 + 9 + 10 + 11);
  const Tensor x = Counting(1, 4);
  EXPECT_FALSE(instance->Run({x, Zeros(2)}).ok());
  EXPECT_EQ(x.data_as<float>()[3], 3);
}

TEST(DynamicSizesTest, APowerOfASizeThatNeedsMoreThan64BitsIsRefused) {
  auto instance = InstanceOf(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 4
  symbol s1 in [2, inf] hint 9
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %exponent : int = prim::Constant[value=17]()
  %rows : int = aten::sym_size.int(%x, %zero)
  %power : int = aten::pow.int(%rows, %exponent)
  %y : Tensor = aten::add.Scalar(%x, %power, %one)
  return (%y)
)",
                             "power_of_a_size");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run({Counting(13, 2)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_FLOAT_EQ((*out)[0].tensor().data_as<float>()[0], std::pow(13.f, 17.f));
  out = (*instance)->Run({Counting(14, 2)});
  EXPECT_THAT(std::string(out.status().message()),
              testing::HasSubstr("OverflowError: an integer of more than 64 bits"));
}

TEST(DynamicSizesTest, ComplexNumbersTimesASizeAreTheirPartsTimesIt) {
  auto instance = InstanceOf(R"(
graph(%x : Float(s0, 2, strides=[2, 1])):
  symbol s0 in [2, inf] hint 4
  %zero : int = prim::Constant[value=0]()
  %rows : int = aten::sym_size.int(%x, %zero)
  %c : Tensor = aten::view_as_complex(%x)
  %m : Tensor = aten::mul.Scalar(%c, %rows)
  %y : Tensor = aten::view_as_real(%m)
  return (%y)
)",
                             "complex_times_size");
  ASSERT_TRUE(instance.ok()) << instance.status();
  for (int64_t rows : {4, 7}) {
    const auto out = (*instance)->Run({Counting(rows, 2)});
    ASSERT_TRUE(out.ok()) << out.status();
    for (int64_t i = 0; i < 2 * rows; ++i)
      EXPECT_EQ((*out)[0].tensor().data_as<float>()[i], static_cast<float>(i * rows));
  }
}

// Filled up with zeros or cut: the sum of a signal is its first coefficient.
TEST(DynamicSizesTest, ASignalIsTransformedAsOneOfAnySizeThatACallSays) {
  const auto instance_of = [](const std::string& points) {
    return InstanceOf(absl::StrCat(R"(
graph(%x : Float(s0, s1, strides=[s1, 1])):
  symbol s0 in [2, inf] hint 4
  symbol s1 in [2, inf] hint 9
  %none : NoneType = prim::Constant()
  %last : int = prim::Constant[value=-1]()
  %zero : int = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %rows : int = aten::sym_size.int(%x, %zero)
  %columns : int = aten::sym_size.int(%x, %last)
  %n : int = )",
                                   points, R"(
  %f : Tensor = aten::fft_rfft(%x, %n, %last, %none)
  %y : Tensor = aten::abs(%f)
  return (%y)
)"),
                      "transformed");
  };
  const std::string twice = "aten::mul.int(%columns, %two)", fewer = "aten::sub.int(%columns, %three)",
                    other = "aten::sub.int(%rows, %zero)";
  for (const auto& [points, more] : {std::pair(twice, 5), {fewer, -3}, {other, -1}}) {
    auto instance = instance_of(points);
    ASSERT_TRUE(instance.ok()) << points << ": " << instance.status();
    const auto out = (*instance)->Run({Counting(4, 5)});
    ASSERT_TRUE(out.ok()) << points << ": " << out.status();
    EXPECT_EQ((*out)[0].tensor().sizes()[1], (5 + more) / 2 + 1) << points;
    float sum = 0;
    for (int i = 0; i < std::min(5, 5 + more); ++i) sum += static_cast<float>(i);
    EXPECT_NEAR((*out)[0].tensor().data_as<float>()[0], sum, 1e-5) << points;
  }
  auto instance = instance_of(fewer);
  ASSERT_TRUE(instance.ok()) << instance.status();
  for (int64_t columns : {2, 3}) EXPECT_FALSE((*instance)->Run({Counting(4, columns)}).ok()) << columns;
}

// PyTorch's results for images with elements 0, 1, 2... where the factor 1.1 does not change a dim: a linear dim is
// copied, a nearest one is copied if both sides together are at most 128, and the factor decides for a single row.
TEST(DynamicSizesTest, ADimThatAFactorLeavesAsItWasIsCopiedWherePyTorchDoes) {
  const auto row_of = [](const std::string& op, const std::string& sizes, int64_t rows) {
    auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float()",
                                            sizes, R"()):
  symbol s0 in [2, inf] hint 10
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %factor : float = prim::Constant[value=1.1]()
  %two : int = prim::Constant[value=2]()
  %five : int = prim::Constant[value=5]()
  %ten : int = prim::Constant[value=10]()
  %eleven : int = prim::Constant[value=11]()
  %h : int = aten::sym_size.int(%x, %two)
  %tenths : int = aten::mul.int(%h, %eleven)
  %rows : int = aten::floordiv.int(%tenths, %ten)
  %row : int[] = prim::ListConstruct(%five)
  %sizes : int[] = prim::ListConstruct(%rows, %five)
  %same : int[] = prim::ListConstruct(%h, %five)
  %y : Tensor = )",
                                            op, R"(
  return (%y)
)"),
                               "left_as_it_was");
    EXPECT_TRUE(instance.ok()) << instance.status();
    std::vector<float> row;
    if (!instance.ok()) return row;
    const bool is_row = absl::StrContains(op, "1d");
    Tensor x = is_row ? Tensor::Empty(DType::kFloat32, {1, 1, 5}) : Tensor::Empty(DType::kFloat32, {1, 1, rows, 5});
    for (int64_t i = 0; i < x.NumElements(); ++i) x.data_as<float>()[i] = static_cast<float>(i);
    const auto out = (*instance)->Run({x});
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return row;
    const Tensor& y = (*out)[0].tensor();
    row.assign(y.data_as<float>() + y.NumElements() - 5, y.data_as<float>() + y.NumElements());
    return row;
  };
  const std::string image = "1, 1, s0, 5, strides=[5*s0, 5*s0, 5, 1]";
  const std::string linear = "aten::upsample_bilinear2d(%x, %sizes, %no, %factor, %factor)";
  const std::string nearest = "aten::upsample_nearest2d(%x, %sizes, %factor, %factor)";
  for (int64_t rows : {7, 9, 10}) {
    const float first = static_cast<float>(5 * (rows - 1));
    const std::vector<float> last = {first, first + 1, first + 2, first + 3, first + 4};
    EXPECT_EQ(row_of(linear, image, rows), last) << rows;
    EXPECT_EQ(row_of(nearest, image, rows), last) << rows;
  }
  // 200 rows are too many.
  EXPECT_EQ(row_of("aten::upsample_nearest2d(%x, %same, %none, %factor)", image, 200),
            (std::vector<float>{995, 995, 996, 997, 998}));
  EXPECT_EQ(row_of("aten::upsample_nearest1d(%x, %row, %factor)", "1, 1, 5, strides=[5, 5, 1]", 1),
            (std::vector<float>{0, 0, 1, 2, 3}));
}

// PyTorch's results for 0, 1, 0, 1..., which are the weights; those of distant positions have few bits.
TEST(DynamicSizesTest, ThePlacesOfALinearDimAreRoundedOnce) {
  auto instance = InstanceOf(R"(
graph(%x : Float(1, 1, s0, strides=[s0, s0, 1])):
  symbol s0 in [2, inf] hint 10
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %many : int = prim::Constant[value=100]()
  %sizes : int[] = prim::ListConstruct(%many)
  %y : Tensor = aten::upsample_linear1d(%x, %sizes, %no, %none)
  return (%y)
)",
                             "linear_places");
  ASSERT_TRUE(instance.ok()) << instance.status();
  const Tensor x = Tensor::Empty(DType::kFloat32, {1, 1, 70});
  for (int64_t i = 0; i < 70; ++i) x.data_as<float>()[i] = static_cast<float>(i % 2);
  const auto out = (*instance)->Run({x});
  ASSERT_TRUE(out.ok()) << out.status();
  const float* y = (*out)[0].tensor().data_as<float>();
  EXPECT_EQ(y[3], 0x1.9999cp-5f);
  EXPECT_EQ(y[11], 0x1.cccce0p-2f);
  EXPECT_EQ(y[91], 0x1.cccdp-2f);
}

}  // namespace
}  // namespace smelt
