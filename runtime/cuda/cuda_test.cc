// Runs bundles on a CUDA device whose driver is the tests' own (testing/fake_driver.h), which runs their kernels for the
// CPU in place of those for CUDA. The host cannot reach the device's memory there, and work is done with delays.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cuda/testing/fake_driver.h"
#include "smelt/runtime/cuda/testing/native_kernels.h"
#include "smelt/runtime/dlpack_abi.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/smelt.h"
#include "smelt/runtime/testing/hand_bundle.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// f(x): self.s += 1; x += 1; return x + 1
std::string AddInPlace(bool refuses = false) {
  HandBundle b;
  const int n = b.Const(4);
  b.VectorArg("x", n);
  b.Output("y");
  b.State("s", {10, 20, 30, 40}, /*mutated=*/true);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), s = p.Vector(p.StateSlot(0), n);
  const int t = p.Vector(p.ArenaSlot(b.Const(0), b.Const(16)), n), y = p.Vector(p.FreshSlot(b.Const(16)), n);
  p.raw().arena_bytes = b.Const(16);
  p.Launch(kAddOne, n, s, s);
  p.Launch(kAddOne, n, x, t);
  p.Copy(t, x, /*copy_back=*/true);
  p.Launch(kAddOne, n, x, y);
  if (refuses) p.Launch(kFail, n, x, y);
  p.Output(fb::OutputKind::Fresh, -1, y);
  p.raw().written_args = {0};
  p.raw().written_states = {0};
  p.raw().may_refuse_late = refuses;
  return b.Pack();
}

Tensor OnDevice(const std::vector<float>& values) { return *VectorOf(values).CopyTo(Device::Cuda(0)); }
std::vector<float> Values(const Tensor& t) { return FloatsOf(*t.CopyTo(Device::Cpu())); }

std::unique_ptr<Instance> InstanceOf(const std::string& bundle, bool words_by_value = true) {
  auto program = LoadWithNativeKernels(bundle, words_by_value);
  EXPECT_TRUE(program.ok()) << program.status();
  auto instance = Instance::Create(*program);
  EXPECT_TRUE(instance.ok()) << instance.status();
  return *std::move(instance);
}

TEST(CudaTest, ArgumentsAndStatesAreWrittenInPlaceAndResultsAreOnTheDevice) {
  for (const bool words_by_value : {true, false}) {
    auto instance = InstanceOf(AddInPlace(), words_by_value);
    const Tensor x = OnDevice({1, 2, 3, 4});
    const char* const address = x.address();
    for (int call = 1; call <= 3; ++call) {
      auto results = instance->Run({x});
      ASSERT_TRUE(results.ok()) << results.status();
      const float c = static_cast<float>(call);
      EXPECT_EQ(x.address(), address);
      EXPECT_THAT(Values(x), ElementsAre(1 + c, 2 + c, 3 + c, 4 + c));
      const Tensor y = (*results)[0].tensor();
      EXPECT_EQ(y.device(), Device::Cuda(0));
      EXPECT_THAT(Values(y), ElementsAre(2 + c, 3 + c, 4 + c, 5 + c));
      EXPECT_THAT(Values(instance->state(0)), ElementsAre(10 + c, 20 + c, 30 + c, 40 + c));
      EXPECT_EQ(instance->last_call().host_steps, 0);
    }
    ASSERT_TRUE(instance->ResetStates().ok());
    EXPECT_THAT(Values(instance->state(0)), ElementsAre(10, 20, 30, 40));
  }
}

TEST(CudaTest, AResultIsWrittenToMemoryOfTheCaller) {
  auto instance = InstanceOf(AddInPlace());
  const Tensor x = OnDevice({1, 2, 3, 4}), y = OnDevice({0, 0, 0, 0});
  std::vector<Datum> outputs = {y};
  const Datum args[] = {x};
  ASSERT_TRUE(instance->RunInto(args, &outputs).ok());
  EXPECT_THAT(Values(y), ElementsAre(3, 4, 5, 6));
  outputs = {VectorOf({0, 0, 0, 0})};
  const absl::Status refused = instance->RunInto(args, &outputs);
  EXPECT_THAT(refused.message(), HasSubstr("output 0: the memory given for it is of cpu, expected cuda:0"));
  EXPECT_THAT(Values(x), ElementsAre(2, 3, 4, 5));
}

TEST(CudaTest, AnArgumentInOtherMemoryIsRefusedByName) {
  auto instance = InstanceOf(AddInPlace());
  const absl::Status refused = instance->Run({VectorOf({1, 2, 3, 4})}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("argument \"x\" is in the memory of cpu, expected cuda:0"));
  HandBundle b;
  b.VectorArg("x", b.Const(4));
  b.Plan();
  const absl::Status other = b.Instantiate()->Run({OnDevice({1, 2, 3, 4})}).status();
  EXPECT_THAT(other.message(), HasSubstr("argument \"x\" is in the memory of cuda:0, expected cpu"));
}

TEST(CudaTest, ACallThatItsDataRefuseLeavesEverythingAsItWas) {
  auto instance = InstanceOf(AddInPlace(/*refuses=*/true));
  const Tensor x = OnDevice({1, 2, 3, 4});
  const absl::Status refused = instance->Run({x}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("model.py:1: index out of range"));
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values(instance->state(0)), ElementsAre(10, 20, 30, 40));
}

TEST(CudaTest, ABundleWithoutCodeForTheDeviceIsRefusedWithItsTargets) {
  HandBundle b;
  b.VectorArg("x", b.Const(4));
  b.Plan();
  const absl::Status refused = b.TryLoad({.device = "cuda:0"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("compute capability 9.0"));
  EXPECT_THAT(refused.message(), HasSubstr("--target=sm_90"));
  EXPECT_THAT(b.TryLoad({.device = "cuda:7"}).status().message(), HasSubstr("there is no cuda:7"));
}

TEST(CudaTest, StoragesMoveGrowAndAreCopiedBetweenDevices) {
  const Tensor x = OnDevice({1, 2, 3, 4});
  ASSERT_TRUE(x.storage()->GrowTo(32).ok());
  EXPECT_THAT(Values(x.View({{8}, {1}, 0})), ElementsAre(1, 2, 3, 4, 0, 0, 0, 0));
  EXPECT_THAT(Values(*x.CopyTo(Device::Cuda(0))), ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(x.storage()->MoveTo(Device::Cpu()).ok());
  EXPECT_THAT(FloatsOf(x), ElementsAre(1, 2, 3, 4));
  float lent[] = {1};
  EXPECT_FALSE(Storage::Borrow(lent, sizeof lent)->MoveTo(Device::Cuda(0)).ok());
}

TEST(CudaTest, TheCInterfaceAndDLPackHandOutMemoryOfADevice) {
  const int64_t sizes[] = {2};
  smelt_tensor *on_host = smelt_tensor_create(SMELT_FLOAT32, 1, sizes), *on_device = nullptr, *back = nullptr;
  static_cast<float*>(smelt_tensor_data(on_host))[1] = 7;
  ASSERT_EQ(smelt_tensor_copy_to(on_host, SMELT_DEVICE_CUDA, 0, &on_device), SMELT_OK) << smelt_last_error();
  int index = -1;
  EXPECT_EQ(smelt_tensor_device(on_device, &index), SMELT_DEVICE_CUDA);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(smelt_tensor_data(on_device), nullptr);
  EXPECT_NE(smelt_tensor_address(on_device), 0);
  smelt_array array;
  ASSERT_EQ(smelt_tensor_describe(on_device, &array), SMELT_OK);
  EXPECT_EQ(array.data, nullptr);
  EXPECT_EQ(array.bytes, 8);

  DLManagedTensor* managed = nullptr;
  ASSERT_EQ(smelt_tensor_to_dlpack(on_device, &managed), SMELT_OK);
  EXPECT_EQ(managed->dl_tensor.device.device_type, kDLCUDA);
  smelt_tensor* again = nullptr;
  ASSERT_EQ(smelt_tensor_from_dlpack(managed, &again), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_tensor_address(again), smelt_tensor_address(on_device));
  smelt_tensor_release(on_device);
  ASSERT_EQ(smelt_tensor_copy_to(again, SMELT_DEVICE_CPU, 0, &back), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(static_cast<float*>(smelt_tensor_data(back))[1], 7);

  smelt_tensor* none = nullptr;
  EXPECT_EQ(smelt_tensor_create_on(SMELT_DEVICE_CUDA, 3, SMELT_FLOAT32, 1, sizes, &none), SMELT_FAILED_PRECONDITION);
  EXPECT_EQ(smelt_tensor_create_on(SMELT_DEVICE_CPU, 1, SMELT_FLOAT32, 1, sizes, &none), SMELT_INVALID_ARGUMENT);
  for (smelt_tensor* t : {on_host, again, back}) smelt_tensor_release(t);
}

TEST(CudaDeathTest, TheHostCannotReadMemoryOfADevice) {
  const Tensor x = OnDevice({1, 2, 3, 4});
  EXPECT_DEATH(x.data(), "the host reads or writes a storage of 16 bytes on cuda:0");
  // Nor can it by the address.
  EXPECT_DEATH(std::abs(*reinterpret_cast<const volatile float*>(x.address())), "");
}

// Each call of the driver fails once: the call of the model fails, its argument is as before or its name is in the
// error, nothing stays allocated, and the next call works.
TEST(CudaTest, AFailureOfAnyDriverCallIsAnErrorAndNothingLeaks) {
  const FakeDriver& driver = GetFakeDriver();
  for (const bool refuses : {false, true}) {
    const std::string bundle = *WithNativeKernels(AddInPlace(refuses), /*words_by_value=*/false);
    const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(bundle.data()), bundle.size());
    const Tensor x = OnDevice({1, 2, 3, 4});
    const fake_cuda::Counts before = driver.counts();
    int failures = 0;
    for (int64_t call = 0;; ++call) {
      ASSERT_LT(call, 1000);
      const std::vector<float> had = Values(x);
      const int64_t first = driver.counts().calls;
      driver.fail(call, /*CUDA_ERROR_INVALID_VALUE*/ 1);
      absl::Status status;
      {
        auto program = Program::LoadFromMemory(bytes, {.device = "cuda:0"});
        status = program.status();
        if (program.ok()) {
          auto instance = Instance::Create(*program);
          status = instance.status();
          if (instance.ok()) status = (*instance)->Run({x}).status();
        }
      }
      driver.fail(-1, 0);
      const fake_cuda::Counts after = driver.counts();
      EXPECT_EQ(after.bytes, before.bytes) << "call " << call;
      EXPECT_EQ(after.modules, before.modules) << "call " << call;
      if (!status.ok()) {
        ++failures;
        const bool named = status.message().find("may have been written: x, s") != absl::string_view::npos;
        EXPECT_TRUE(named || Values(x) == had) << "call " << call << ": " << status;
      }
      // Nobody is told of a failure to free memory, which is free then.
      if (after.calls - first <= call) break;  // beyond the last call
    }
    EXPECT_GT(failures, 20);
  }
  auto instance = InstanceOf(AddInPlace());
  const Tensor x = OnDevice({1, 2, 3, 4});
  ASSERT_TRUE(instance->Run({x}).ok());
  EXPECT_THAT(Values(x), ElementsAre(2, 3, 4, 5));
}

TEST(CudaTest, TooLittleMemoryIsResourceExhaustedAndTheArgumentIsIntact) {
  auto instance = InstanceOf(AddInPlace());
  const Tensor x = OnDevice({1, 2, 3, 4});
  GetFakeDriver().limit(0);
  const absl::Status refused = instance->Run({x}).status();
  GetFakeDriver().limit(INT64_MAX);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(instance->Run({x}).ok());
}

// In a process of its own: the device stays lost.
TEST(CudaDeathTest, AnErrorThatLosesTheDeviceIsReportedByAllLaterCalls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lose = [] {
    auto instance = InstanceOf(AddInPlace());
    const Tensor x = OnDevice({1, 2, 3, 4});
    GetFakeDriver().fail(10, /*CUDA_ERROR_ILLEGAL_ADDRESS*/ 700);
    const absl::Status first = instance->Run({x}).status();
    const absl::Status second = instance->Run({x}).status();
    std::fprintf(stderr, "first: %s\nsecond: %s\n", first.ToString().c_str(), second.ToString().c_str());
    _exit(first.code() == second.code() ? 0 : 1);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(0), "second: UNAVAILABLE: .*cannot be used by this process any more");
}

}  // namespace
}  // namespace smelt
