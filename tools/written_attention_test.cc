// Attention that a model writes out as products and a softmax, against what PyTorch 2.13 answers on a CPU.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

Tensor Numbers(const std::vector<int64_t>& sizes, int64_t seed) {
  Tensor t = Tensor::Empty(DType::kFloat32, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i)
    t.data_as<float>()[i] = static_cast<float>((i + seed) * 37 % 97 - 48) / 32;
  return t;
}

// Runs the graph, which must make so many calls of the library, and compares elements 0, 7919, 2 * 7919 ... (modulo
// their number) of its first result.
void ExpectElements(absl::string_view graph, const std::string& name, const std::vector<Datum>& args, int64_t calls,
                    const std::vector<double>& want, CallStats* stats = nullptr) {
  auto instance = InstanceOf(graph, name);
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run(args);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*instance)->last_call().library_calls, calls);
  if (stats != nullptr) *stats = (*instance)->last_call();
  const Tensor& y = (*out)[0].tensor();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(ElementAsDouble(y, static_cast<int64_t>(i) * 7919 % y.NumElements()), want[i], 2e-6) << i;
}

const std::vector<int64_t> kSizes = {2, 3, 40, 16};
std::vector<Datum> Operands() { return {Numbers(kSizes, 0), Numbers(kSizes, 5), Numbers(kSizes, 11)}; }

constexpr char kScores[] = R"(
  %n : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=-2]()
  %last : int = prim::Constant[value=-1]()
  %four : float = prim::Constant[value=4.]()
  %kt : Tensor = aten::transpose.int(%k, %two, %last)
  %qk : Tensor = aten::matmul(%q, %kt)
  %s : Tensor = aten::div.Tensor(%qk, %four)
)";
constexpr char kOperands[] =
    "graph(%q : Float(2, 3, 40, 16, strides=[1920, 640, 16, 1]), %k : Float(2, 3, 40, 16, strides=[1920, 640, 16, 1]), "
    "%v : Float(2, 3, 40, 16, strides=[1920, 640, 16, 1])";
const std::vector<double> kPlain = {-0.5333167, -0.116376, 0.2274456, 0.712849, 0.6415093, -0.7591788};

TEST(WrittenAttentionTest, ProductSoftmaxProductIsOneCall) {
  ExpectElements(absl::StrCat(kOperands, "):", kScores, R"(
  %p : Tensor = aten::softmax.int(%s, %last, %n)
  %y : Tensor = aten::matmul(%p, %v)
  return (%y)
)"),
                 "written", Operands(), 1, kPlain);
}

TEST(WrittenAttentionTest, ScoresThatAreReadTwiceStay) {
  ExpectElements(absl::StrCat(kOperands, "):", kScores, R"(
  %p : Tensor = aten::softmax.int(%s, %last, %n)
  %y : Tensor = aten::matmul(%p, %v)
  return (%y, %s)
)"),
                 "written_twice", Operands(), 2, kPlain);
}

TEST(WrittenAttentionTest, WeightsThatAreReturnedStay) {
  ExpectElements(absl::StrCat(kOperands, "):", kScores, R"(
  %p : Tensor = aten::softmax.int(%s, %last, %n)
  %y : Tensor = aten::matmul(%p, %v)
  return (%y, %p)
)"),
                 "written_weights", Operands(), 2, kPlain);
}

TEST(WrittenAttentionTest, MasksFillWithMinusInfinity) {
  Tensor mask = Tensor::Empty(DType::kBool, {40, 40});
  for (int64_t i = 0; i < 1600; ++i) mask.data_as<bool>()[i] = i % 40 > i / 40;
  std::vector<Datum> args = Operands();
  args.push_back(mask);
  ExpectElements(absl::StrCat(kOperands, ", %m : Bool(40, 40, strides=[40, 1])):", kScores, R"(
  %inf : float = prim::Constant[value=-inf]()
  %t : Tensor = aten::masked_fill.Scalar(%s, %m, %inf)
  %p : Tensor = aten::softmax.int(%t, %last, %n)
  %y : Tensor = aten::matmul(%p, %v)
  return (%y)
)"),
                 "written_causal", args, 1, {-0.90625, -0.2032413, 0.2300848, 0.4249968, 0.3636006, -0.6613501});
  // A softmax without any number is NaN, where scaled_dot_product_attention answers 0.
  for (int64_t i = 0; i < 40; ++i) mask.data_as<bool>()[i] = true;
  auto instance = InstanceOf(absl::StrCat(kOperands, ", %m : Bool(40, 40, strides=[40, 1])):", kScores, R"(
  %inf : float = prim::Constant[value=-inf]()
  %t : Tensor = aten::masked_fill.Scalar(%s, %m, %inf)
  %p : Tensor = aten::softmax.int(%t, %last, %n)
  %y : Tensor = aten::matmul(%p, %v)
  return (%y)
)"),
                             "written_nan");
  ASSERT_TRUE(instance.ok()) << instance.status();
  auto out = (*instance)->Run(args);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE(std::isnan(ElementAsDouble((*out)[0].tensor(), 0)));
  EXPECT_NEAR(ElementAsDouble((*out)[0].tensor(), 7919 % 3840), -0.2032413, 2e-6);
}

// Keys and values that are repeated for four heads of queries each, in products of matrices in a batch of one dim.
TEST(WrittenAttentionTest, RepeatedKeysAreReadOnce) {
  CallStats stats;
  ExpectElements(R"(
graph(%q : Float(1, 8, 1, 16, strides=[128, 16, 16, 1]), %k : Float(1, 2, 600, 16, strides=[19200, 9600, 16, 1]),
      %v : Float(1, 2, 600, 16, strides=[19200, 9600, 16, 1])):
  %n : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
  %scale : float = prim::Constant[value=0.25]()
  %wide : int[] = prim::Constant[value=[1, 2, 4, 600, 16]]()
  %flat : int[] = prim::Constant[value=[8, 600, 16]]()
  %row : int[] = prim::Constant[value=[8, 1, 16]]()
  %by_head : int[] = prim::Constant[value=[1, 8, 1, 600]]()
  %scores : int[] = prim::Constant[value=[8, 1, 600]]()
  %ku : Tensor = aten::unsqueeze(%k, %two)
  %ke : Tensor = aten::expand(%ku, %wide, %no)
  %kr : Tensor = aten::reshape(%ke, %flat)
  %vu : Tensor = aten::unsqueeze(%v, %two)
  %ve : Tensor = aten::expand(%vu, %wide, %no)
  %vr : Tensor = aten::reshape(%ve, %flat)
  %kt : Tensor = aten::transpose.int(%kr, %one, %two)
  %qr : Tensor = aten::view(%q, %row)
  %qk : Tensor = aten::bmm(%qr, %kt)
  %qs : Tensor = aten::view(%qk, %by_head)
  %s : Tensor = aten::mul.Tensor(%qs, %scale)
  %p : Tensor = aten::_softmax(%s, %last, %no)
  %ps : Tensor = aten::view(%p, %scores)
  %y : Tensor = aten::bmm(%ps, %vr)
  return (%y)
)",
                 "written_grouped",
                 {Numbers({1, 8, 1, 16}, 0), Numbers({1, 2, 600, 16}, 5), Numbers({1, 2, 600, 16}, 11)}, 1,
                 {-0.5152641, 0.4043632, -0.8314134, 0.3634979, -0.788228, 0.4974045}, &stats);
  EXPECT_EQ(stats.kernel_launches, 0);
  EXPECT_LT(stats.arena_bytes, 8 * 600 * 4);  // neither copies nor scores
}

}  // namespace
}  // namespace smelt
