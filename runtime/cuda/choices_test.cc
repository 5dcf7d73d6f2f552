// Conditions and loops that a CUDA device decides itself, by conditional nodes of graphs, on the tests' own driver. The same
// tests run with a driver that is too old for such nodes: the host decides then.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cuda/testing/device_calls.h"
#include "smelt/runtime/cuda/testing/fake_driver.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

bool DeviceDecides() { return std::getenv("SMELT_FAKE_CUDA_VERSION") == nullptr; }

void ExpectDecision(const CallStats& stats) {
  EXPECT_EQ(stats.device_waits == 0, DeviceDecides());
  // Only a graph can decide, so the first call is one, too.
  if (DeviceDecides()) {
    EXPECT_EQ(stats.graph_launches, 1);
  }
}

// f(x): if x[0] < 3: x += 1; x += 1; return x + 1; else: return x
std::string AddIfLess(bool refuses = false) {
  HandBundle b;
  const int n = b.Const(4), one = b.Const(1);
  b.VectorArg("x", n);
  b.Output("y");
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), first = p.Vector(p.raw().views[x]->slot, one);
  const int less = p.View(p.ArenaSlot(b.Const(0), b.Const(16)), {one}, {one}, -1, DType::kBool);
  const int y = p.Vector(p.FreshSlot(b.Const(16)), n);
  p.raw().arena_bytes = b.Const(16);
  p.raw().num_registers = 1;
  auto* compare = p.Step<fb::LaunchT>();
  compare->kernel = kLess;
  compare->tiles = compare->bytes = one;
  compare->words = {p.Address(first), fb::Word(fb::WordKind::IntConst, 0, 0, 3), p.Address(less)};
  compare->reads = {first};
  compare->writes = {less};
  p.Step<fb::ReadScalarT>()->view = less;
  auto* choice = p.Step<fb::IfT>();
  choice->predicate = 0;
  choice->then_block = 1;
  choice->else_block = 2;
  p.Launch(kAddOne, n, x, x, 1);
  p.Launch(kAddOne, n, x, x, 1);
  p.Launch(kAddOne, n, x, y, 1);
  if (refuses) p.Launch(kFail, n, x, x, 1);
  auto* copy = p.Step<fb::CopyT>(2);
  copy->src = x;
  copy->dst = y;
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.raw().written_args = {0};
  p.raw().may_refuse_late = refuses;
  return b.Pack();
}

TEST(ChoicesTest, ADeviceTakesABranchWithoutTheHost) {
  auto instance = InstanceOf(AddIfLess());
  const Tensor x = OnDevice({1, 2, 3, 4}), other = OnDevice({-1, 2, 3, 4});
  for (const auto& [arg, first, result] :
       {std::tuple(x, 3.f, 4.f), {x, 3.f, 3.f}, {other, 1.f, 2.f}, {other, 3.f, 4.f}, {other, 3.f, 3.f}}) {
    auto started = instance->Start({arg});
    ASSERT_TRUE(started.ok()) << started.status();
    ExpectDecision(instance->last_call());
    ASSERT_TRUE(started->Wait().ok());
    EXPECT_EQ(Values(arg)[0], first);
    EXPECT_EQ(Values(started->outputs()[0].tensor())[0], result);
  }
}

TEST(ChoicesTest, ARefusalInABranchThatADeviceTakesIsPutBack) {
  auto instance = InstanceOf(AddIfLess(/*refuses=*/true));
  const Tensor x = OnDevice({1, 2, 3, 4}), above = OnDevice({5, 6, 7, 8});
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(instance->Run({x}).status().message(), HasSubstr("model.py:1: index out of range"));
    EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
    // The other branch refuses nothing.
    const auto results = instance->Run({above});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(Values((*results)[0].tensor()), ElementsAre(5, 6, 7, 8));
  }
}

TEST(ChoicesTest, ABranchWhoseKernelsTakeTheirWordsFromMemoryIsTakenByTheHost) {
  auto instance = InstanceOf(AddIfLess(), /*words_by_value=*/false);
  const Tensor x = OnDevice({1, 2, 3, 4});
  for (const float result : {4.f, 3.f, 3.f}) {
    const auto results = instance->Run({x});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(Values((*results)[0].tensor())[0], result);
    // The host launches no kernel of the other branch.
    EXPECT_EQ(instance->last_call().kernel_launches, result == 4 ? 4 : 1);
  }
}

TEST(ChoicesTest, ADeviceRepeatsALoopWithoutTheHost) {
  auto instance = InstanceOf(AddWhileLess());
  for (const auto& [first, last] : {std::pair(1.f, 7.f), {6.f, 6.f}, {2.f, 6.f}, {-90.f, 6.f}}) {
    const Tensor x = OnDevice({first, 2, 3, 4});
    auto started = instance->Start({x});
    ASSERT_TRUE(started.ok()) << started.status();
    ExpectDecision(instance->last_call());
    ASSERT_TRUE(started->Wait().ok());
    EXPECT_THAT(Values(x), ElementsAre(last, 2 + last - first, 3 + last - first, 4 + last - first));
  }
}

// Its condition would be true for ever.
TEST(ChoicesTest, ARefusalEndsALoopOnADeviceAndIsPutBack) {
  auto instance = InstanceOf(AddWhileLess(/*refuses=*/true));
  const Tensor x = OnDevice({-1e30f, 2, 3, 4});
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(instance->Run({x}).status().message(), HasSubstr("model.py:1: index out of range"));
    EXPECT_THAT(Values(x), ElementsAre(-1e30f, 2, 3, 4));
  }
}

// Each call of the driver fails once: the call of the model fails, its argument is as before or its name is in the
// error, and nothing stays allocated.
TEST(ChoicesTest, AFailureOfAnyDriverCallIsAnErrorAndNothingLeaks) {
  const FakeDriver& driver = GetFakeDriver();
  for (const bool loop : {false, true}) {
    const std::string bundle = loop ? AddWhileLess() : AddIfLess();
    InstanceOf(bundle)->Run({OnDevice({1, 2, 3, 4})}).IgnoreError();  // loads what the process keeps
    const int64_t bytes = driver.counts().bytes;
    int failures = 0;
    for (int64_t call = 0;; ++call) {
      ASSERT_LT(call, 1000);
      const Tensor x = OnDevice({1, 2, 3, 4});
      const int64_t first = driver.counts().calls;
      absl::Status status;
      {
        auto instance = InstanceOf(bundle);
        driver.fail(call, /*CUDA_ERROR_INVALID_VALUE*/ 1);
        // The second call updates the graph.
        for (int run = 0; run < 2 && status.ok(); ++run) {
          auto started = instance->Start({x});
          status = started.ok() ? started->Wait() : started.status();
        }
      }
      driver.fail(-1, 0);
      const bool is_over = driver.counts().calls - first <= call;
      if (!status.ok()) {
        ++failures;
        const std::vector<float> values = Values(x);
        const bool named = status.message().find("may have been written: x") != absl::string_view::npos;
        // As before the first call, or the second.
        EXPECT_TRUE(named || values == std::vector<float>({1, 2, 3, 4}) ||
                    values ==
                        std::vector<float>(loop ? std::vector<float>({7, 8, 9, 10}) : std::vector<float>({3, 4, 5, 6})))
            << "call " << call << ": " << status;
      }
      if (is_over) break;
    }
    EXPECT_EQ(driver.counts().bytes, bytes);
    EXPECT_GT(failures, 20);
  }
}

}  // namespace
}  // namespace smelt
