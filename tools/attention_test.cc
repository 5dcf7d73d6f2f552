// Attention as one call of the library, against what PyTorch 2.13 answers on a CPU.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "smelt/core/op/op_answers.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

using Sizes = std::vector<int64_t>;

// Numbers that bfloat16 holds exactly.
double Number(int64_t i) { return static_cast<double>(i * 37 % 97 - 48) / 32; }

Tensor Numbers(DType dtype, const Sizes& sizes, int64_t seed) {
  Tensor t = Tensor::Empty(dtype, sizes);
  for (int64_t i = 0; i < t.NumElements(); ++i) {
    const float x = static_cast<float>(Number(i + seed));
    if (dtype == DType::kBFloat16) {
      t.data_as<uint16_t>()[i] = FloatToBFloat16(x);
    } else {
      t.data_as<float>()[i] = x;
    }
  }
  return t;
}

std::string TypeText(DType dtype, const Sizes& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (int d = static_cast<int>(sizes.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * sizes[d + 1];
  const char* const name = dtype == DType::kBool ? "Bool" : dtype == DType::kBFloat16 ? "BFloat16" : "Float";
  return absl::StrCat(name, "(", absl::StrJoin(sizes, ", "), ", strides=[", absl::StrJoin(strides, ", "), "])");
}

struct Call {
  Sizes query, key, value;
  std::vector<Tensor> mask;
  bool causal = false, grouped = false;
  double scale = 0;  // 0: PyTorch's
  DType dtype = DType::kFloat32;
};

std::string GraphOf(const Call& c) {
  std::string text = absl::StrCat("graph(%q : ", TypeText(c.dtype, c.query), ", %k : ", TypeText(c.dtype, c.key),
                                  ", %v : ", TypeText(c.dtype, c.value));
  for (const Tensor& m : c.mask)
    absl::StrAppend(&text, ", %m : ", TypeText(m.dtype(), Sizes(m.sizes().begin(), m.sizes().end())));
  absl::StrAppend(&text, "):\n  %n : NoneType = prim::Constant()\n  %z : float = prim::Constant[value=0.]()\n");
  absl::StrAppend(&text, "  %c : bool = prim::Constant[value=", c.causal ? 1 : 0, "]()\n");
  absl::StrAppend(&text, "  %g : bool = prim::Constant[value=", c.grouped ? 1 : 0, "]()\n");
  absl::StrAppend(&text, "  %s : float = prim::Constant[value=", c.scale == 0 ? 1.0 : c.scale, "]()\n");
  absl::StrAppend(&text, "  %y : Tensor = aten::scaled_dot_product_attention(%q, %k, %v, ",
                  c.mask.empty() ? "%n" : "%m", ", %z, %c, ", c.scale == 0 ? "%n" : "%s", ", %g)\n  return (%y)\n");
  return text;
}

// Runs the call, which must be one call of the library, and compares elements 0, 7919, 2 * 7919 ... (modulo their
// number) of the result.
void ExpectElements(const Call& c, const std::string& name, const std::vector<double>& want, double tolerance = 2e-6) {
  auto instance = InstanceOf(GraphOf(c), name);
  ASSERT_TRUE(instance.ok()) << instance.status();
  std::vector<Datum> args = {Numbers(c.dtype, c.query, 0), Numbers(c.dtype, c.key, 5), Numbers(c.dtype, c.value, 11)};
  for (const Tensor& m : c.mask) args.push_back(m);
  auto out = (*instance)->Run(args);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*instance)->last_call().library_calls, 1);
  EXPECT_EQ((*instance)->last_call().kernel_launches, 0);
  const Tensor& y = (*out)[0].tensor();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(ElementAsDouble(y, static_cast<int64_t>(i) * 7919 % y.NumElements()), want[i], tolerance) << i;
}

TEST(AttentionTest, CausalMasksBeginAtTheFirstKey) {
  const Sizes s = {2, 3, 70, 64};
  ExpectElements({s, s, s, {}, true}, "causal", {-0.90625, 1.043602, 0.3084136, -0.7422543, 0.700673, -0.4490416});
  ExpectElements({{1, 2, 5, 17}, {1, 2, 9, 17}, {1, 2, 9, 17}, {}, true}, "causal_short",
                 {-0.90625, 1.21875, 1.027461, 0.2276483, 0.1840274, -0.4984232});
}

TEST(AttentionTest, ARowThatTheMaskExcludesIsZero) {
  Tensor mask = Tensor::Empty(DType::kBool, {5, 9});
  for (int64_t i = 0; i < 45; ++i) mask.data_as<bool>()[i] = i % 7 >= 3 && i / 9 != 2;
  ExpectElements({{1, 2, 5, 17}, {1, 2, 9, 17}, {1, 2, 9, 17}, {mask}}, "bools",
                 {-0.7302267, 0.2485102, 0.750823, 0, -0.05256052, -0.4561942});
}

TEST(AttentionTest, AMaskOfNumbersIsAdded) {
  Tensor mask = Tensor::Empty(DType::kFloat32, {2, 1, 1, 90});
  for (int64_t i = 0; i < 180; ++i)
    mask.data_as<float>()[i] = i % 7 < 3 ? -std::numeric_limits<float>::infinity() : static_cast<float>(Number(i));
  ExpectElements({{2, 2, 70, 80}, {2, 2, 90, 80}, {2, 2, 90, 80}, {mask}}, "numbers",
                 {-0.6061463, 1.09481, 0.2762725, 1.240679, 0.1991929, -0.882172});
}

TEST(AttentionTest, HeadsOfQueriesShareHeadsOfKeys) {
  Call c{{1, 8, 1, 16}, {1, 2, 600, 16}, {1, 2, 600, 16}, {}};
  c.grouped = true;
  ExpectElements(c, "grouped", {-0.5152641, 0.4043632, -0.8314134, 0.3634979, -0.788228, 0.4974045});
}

TEST(AttentionTest, HalvesAreRoundedOnce) {
  const Sizes s = {1, 2, 33, 256};
  Call c{s, s, s, {}, true};
  c.dtype = DType::kBFloat16;
  ExpectElements(c, "halves", {-0.90625, 1.28125, 0.3027344, -0.359375, -0.6210938, 0.9570312}, 1.6e-2);
}

TEST(AttentionTest, ValuesMayHaveASizeOfTheirOwn) {
  Call c{{1, 2, 40, 8}, {1, 2, 50, 8}, {1, 2, 50, 24}, {}};
  c.scale = .3;
  ExpectElements(c, "scaled", {0.05308164, -0.07251336, 0.2065327, -0.2112513, -0.2084628, -0.1378643});
}

TEST(AttentionTest, WithoutKeysTheResultIsZero) {
  ExpectElements({{1, 2, 5, 8}, {1, 2, 0, 8}, {1, 2, 0, 8}, {}}, "no_keys", {0, 0, 0});
}

}  // namespace
}  // namespace smelt
