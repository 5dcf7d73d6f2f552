// Groups of operators in the eager-order plan: one kernel where the tensors lie apart, the operators one after the other
// where they do not, and the same answer.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

constexpr int kElements = 20, kTrips = 3, kOperators = 3;  // more elements than are computed without a kernel

// A loop that exchanges what it carries has no pure form.
std::unique_ptr<Instance> Exchanging() {
  auto instance = InstanceOf(R"(
graph(%a : Float(20, strides=[1]), %b : Float(20, strides=[1]), %n : int):
  %true : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %c : Tensor, %d : Tensor = prim::Loop(%n, %true, %a, %b)
    block0(%i : int, %p : Tensor, %q : Tensor):
      %t : Tensor = aten::mul(%q, %two)
      %u : Tensor = aten::add_(%p, %t, %one)
      %w : Tensor = aten::add_(%q, %one, %one)
      -> (%true, %q, %p)
  %r : Tensor = aten::clone(%c, %one)
  return (%r)
)",
                             "exchanging");
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

Tensor Counting(float first) {
  Tensor t = Tensor::Empty(DType::kFloat32, {kElements});
  for (int i = 0; i < kElements; ++i) t.data_as<float>()[i] = first + static_cast<float>(i);
  return t;
}

// Does what the program says to numbers.
void Expected(float* a, float* b) {
  for (int trip = 0; trip < kTrips; ++trip, std::swap(a, b)) {
    std::array<float, kElements> t;
    for (int i = 0; i < kElements; ++i) t[i] = b[i] * 2;
    for (int i = 0; i < kElements; ++i) a[i] += t[i];
    for (int i = 0; i < kElements; ++i) b[i] += 1;
  }
}

TEST(EagerFusionTest, AGroupIsOneKernelWhereItsTensorsLieApart) {
  const std::unique_ptr<Instance> instance = Exchanging();
  const Tensor a = Counting(1), b = Counting(10);
  Tensor x = a.Clone(), y = b.Clone();
  ASSERT_TRUE(instance->Run({Datum(a), Datum(b), Datum(int64_t{kTrips})}).ok());
  EXPECT_EQ(instance->last_call().variant, AliasVariant::kEagerOrder);
  EXPECT_EQ(instance->last_call().kernel_launches, kTrips);
  Expected(x.data_as<float>(), y.data_as<float>());
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(a.data_as<float>()[i], x.data_as<float>()[i]);
    EXPECT_EQ(b.data_as<float>()[i], y.data_as<float>()[i]);
  }
}

TEST(EagerFusionTest, OperatorsRunInTurnWhereOneReadsWhatAnotherHasWritten) {
  const std::unique_ptr<Instance> instance = Exchanging();
  const Tensor both = Counting(1);
  Tensor x = both.Clone();
  ASSERT_TRUE(instance->Run({Datum(both), Datum(both), Datum(int64_t{kTrips})}).ok());
  EXPECT_EQ(instance->last_call().kernel_launches, kTrips * kOperators);
  Expected(x.data_as<float>(), x.data_as<float>());
  for (int i = 0; i < kElements; ++i) EXPECT_EQ(both.data_as<float>()[i], x.data_as<float>()[i]);
}

// Every second element is written, then all are read.
TEST(EagerFusionTest, PartsThatAreWrittenAreSeenInTheSameKernel) {
  auto instance = InstanceOf(R"(
graph(%x : Float(20, strides=[1]), %n : int):
  %true : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %twenty : int = prim::Constant[value=20]()
  %y : Float(20, strides=[1]) = aten::mul(%x, %one)
  %s : Tensor = prim::Loop(%n, %true, %y)
    block0(%i : int, %p : Tensor):
      %even : Tensor = aten::slice(%x, %zero, %zero, %twenty, %two)
      %a : Tensor = aten::mul_(%even, %two)
      %b : Tensor = aten::add(%x, %i, %one)
      %odd : Tensor = aten::slice(%b, %zero, %one, %twenty, %two)
      %c : Tensor = aten::neg_(%odd)
      %r : Tensor = aten::add(%b, %x, %one)
      -> (%true, %r)
  return (%s)
)",
                             "parts");
  ASSERT_TRUE(instance.ok()) << instance.status();
  const Tensor x = Counting(1);
  const auto results = (*instance)->Run({Datum(x), Datum(int64_t{kTrips})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*instance)->last_call().variant, AliasVariant::kEagerOrder);
  EXPECT_EQ((*instance)->last_call().kernel_launches, 1 + kTrips);
  std::array<float, kElements> want, sum;
  for (int k = 0; k < kElements; ++k) want[k] = 1.0f + static_cast<float>(k);
  for (int trip = 0; trip < kTrips; ++trip) {
    for (int k = 0; k < kElements; ++k) {
      if (k % 2 == 0) want[k] *= 2;
      const float b = want[k] + static_cast<float>(trip);
      sum[k] = (k % 2 == 1 ? -b : b) + want[k];
    }
  }
  for (int k = 0; k < kElements; ++k) {
    EXPECT_EQ(x.data_as<float>()[k], want[k]);
    EXPECT_EQ((*results)[0].tensor().data_as<float>()[k], sum[k]);
  }
}

// A condition that is an argument has no pure form. Of `lines`, %a and %b are returned.
std::vector<Tensor> Returned(const std::string& lines, const Tensor& x) {
  const auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(20, strides=[1]), %which : bool):
  %no : bool = prim::Constant[value=0]()
  %two : int = prim::Constant[value=2]()
)",
                                                lines, R"(
  %r : Tensor = prim::If(%which)
    block0():
      -> (%a)
    block1():
      -> (%b)
  return (%b, %r)
)"),
                                   "returned");
  if (!instance.ok()) {
    ADD_FAILURE() << instance.status();
    return {};
  }
  const auto results = (*instance)->Run({Datum(x), Datum(true)});
  if (!results.ok()) {
    ADD_FAILURE() << results.status();
    return {};
  }
  EXPECT_EQ((*instance)->last_call().variant, AliasVariant::kEagerOrder);
  EXPECT_EQ((*instance)->last_call().kernel_launches, 1);
  return {(*results)[0].tensor(), (*results)[1].tensor()};
}

TEST(EagerFusionTest, ATensorIsItsOwnAfterAnotherOneWasCopiedToIt) {
  const std::vector<Tensor> results = Returned(R"(
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::mul(%a, %two)
  %w : Tensor = aten::copy_(%b, %a, %no)
)",
                                               Counting(1));
  ASSERT_EQ(results.size(), 2);
  EXPECT_NE(results[0].storage(), results[1].storage());
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(results[0].data_as<float>()[i], -1.0f - static_cast<float>(i));
    EXPECT_EQ(results[1].data_as<float>()[i], -1.0f - static_cast<float>(i));
  }
}

TEST(EagerFusionTest, ACopyKeepsWhatItWasMadeOfWhenPartOfThatIsWritten) {
  const std::vector<Tensor> results = Returned(R"(
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %two)
  %b : Tensor = aten::neg(%x)
  %w : Tensor = aten::copy_(%b, %a, %no)
  %s : Tensor = aten::slice(%a, %zero, %zero, %two, %one)
  %z : Tensor = aten::zero_(%s)
)",
                                               Counting(1));
  ASSERT_EQ(results.size(), 2);
  for (int i = 0; i < kElements; ++i) {
    const float doubled = 2 * (1.0f + static_cast<float>(i));
    EXPECT_EQ(results[0].data_as<float>()[i], doubled);
    EXPECT_EQ(results[1].data_as<float>()[i], i < 2 ? 0 : doubled);
  }
}

TEST(EagerFusionTest, ATensorIsItsOwnAfterAnArgumentWasCopiedToIt) {
  const Tensor x = Counting(1);
  const std::vector<Tensor> results = Returned(R"(
  %b : Tensor = aten::mul(%x, %two)
  %a : Tensor = aten::neg(%b)
  %w : Tensor = aten::copy_(%b, %x, %no)
)",
                                               x);
  ASSERT_EQ(results.size(), 2);
  EXPECT_NE(results[0].storage(), x.storage());
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(results[0].data_as<float>()[i], 1.0f + static_cast<float>(i));
    EXPECT_EQ(results[1].data_as<float>()[i], -2.0f * (1.0f + static_cast<float>(i)));
  }
}

// The lines write %x, without a pure form. Returns what was called.
CallStats StatsOf(const std::string& lines, const Tensor& x) {
  const auto instance = InstanceOf(absl::StrCat(R"(
graph(%x : Float(2, 3, strides=[3, 1]), %which : bool):
  %no : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %none : NoneType = prim::Constant()
)",
                                                lines, R"(
  %a : Tensor = aten::select(%x, %zero, %zero)
  %b : Tensor = aten::select(%x, %zero, %one)
  %r : Tensor = prim::If(%which)
    block0():
      -> (%a)
    block1():
      -> (%b)
  return (%r)
)"),
                                   "stats");
  if (!instance.ok()) {
    ADD_FAILURE() << instance.status();
    return {};
  }
  const auto results = (*instance)->Run({Datum(x), Datum(true)});
  EXPECT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*instance)->last_call().variant, AliasVariant::kEagerOrder);
  return (*instance)->last_call();
}

Tensor Matrix(const std::array<float, 6>& elements) {
  Tensor t = Tensor::Empty(DType::kFloat32, {2, 3});
  std::copy(elements.begin(), elements.end(), t.data_as<float>());
  return t;
}
std::array<float, 6> ElementsOf(const Tensor& t) {
  std::array<float, 6> elements;
  std::copy_n(t.data_as<float>(), 6, elements.begin());
  return elements;
}

TEST(EagerFusionTest, ANumberIsComputedWithoutAKernel) {
  const Tensor x = Matrix({1, 2, 3, 4, 5, 6});
  const CallStats stats = StatsOf(R"(
  %row : Tensor = aten::select(%x, %zero, %one)
  %first : Tensor = aten::select(%row, %zero, %zero)
  %w : Tensor = aten::mul_(%first, %two)
)",
                                  x);
  EXPECT_EQ(stats.kernel_launches, 0);
  EXPECT_EQ(ElementsOf(x), (std::array<float, 6>{1, 2, 3, 8, 5, 6}));
}

TEST(EagerFusionTest, FewElementsAreComputedWithoutAKernel) {
  const Tensor x = Matrix({1, 2, 3, 4, 5, 6});
  const CallStats stats = StatsOf("  %w : Tensor = aten::mul_(%x, %three)\n", x);
  EXPECT_EQ(stats.kernel_launches, 0);
  EXPECT_EQ(ElementsOf(x), (std::array<float, 6>{3, 6, 9, 12, 15, 18}));
}

TEST(EagerFusionTest, ASmallTensorIsFilledWithoutAKernel) {
  const Tensor x = Matrix({1, 2, 3, 4, 5, 6});
  const CallStats stats = StatsOf(R"(
  %row : Tensor = aten::select(%x, %zero, %one)
  %w : Tensor = aten::fill_(%row, %three)
)",
                                  x);
  EXPECT_EQ(stats.kernel_launches, 0);
  EXPECT_EQ(ElementsOf(x), (std::array<float, 6>{1, 2, 3, 3, 3, 3}));
}

// PyTorch does not see that the columns overlap, and multiplies from the left.
TEST(EagerFusionTest, ElementsThatReadWhatWasWrittenAreComputedWithoutAKernel) {
  const Tensor x = Matrix({1, 2, 3, 4, 5, 6});
  const CallStats stats = StatsOf(R"(
  %to : Tensor = aten::slice(%x, %one, %one, %three, %one)
  %from : Tensor = aten::slice(%x, %one, %zero, %two, %one)
  %w : Tensor = aten::mul_(%to, %from)
)",
                                  x);
  EXPECT_EQ(stats.kernel_launches, 0);
  EXPECT_EQ(ElementsOf(x), (std::array<float, 6>{1, 2, 6, 4, 20, 120}));
}

TEST(EagerFusionTest, AConversionIsPartOfAKernel) {
  const Tensor x = Matrix({1.5, 2.5, 3.5, -4.5, 5.5, 6.5});
  const CallStats stats = StatsOf(R"(
  %long : int = prim::Constant[value=4]()
  %tripled : Tensor = aten::mul(%x, %three)
  %whole : Tensor = aten::to(%tripled, %long, %no, %no, %none)
  %w : Tensor = aten::add_(%x, %whole, %one)
)",
                                  x);
  EXPECT_EQ(stats.kernel_launches, 1);
  EXPECT_EQ(ElementsOf(x), (std::array<float, 6>{5.5, 9.5, 13.5, -17.5, 21.5, 25.5}));
}

}  // namespace
}  // namespace smelt
