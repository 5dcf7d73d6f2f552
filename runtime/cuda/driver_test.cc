#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/device.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

using testing::HasSubstr;

// The environment of this test names a driver that does not exist.
TEST(DriverTest, WithoutADriverTheErrorSaysWhatWasLookedForAndWhatToDo) {
  const auto tensor = Tensor::Empty(DType::kFloat32, {2}, Device::Cuda(0));
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(tensor.status().message()), HasSubstr("/nowhere/libcuda.so.1"));
  EXPECT_THAT(std::string(tensor.status().message()), HasSubstr("install NVIDIA's driver"));
}

TEST(DriverTest, DevicesAreReadFromTheirNames) {
  EXPECT_EQ(*Device::Parse("cpu"), Device::Cpu());
  EXPECT_EQ(*Device::Parse("cuda"), Device::Cuda(0));
  EXPECT_EQ(*Device::Parse("cuda:3"), Device::Cuda(3));
  EXPECT_EQ(Device::Parse("cuda:3")->ToString(), "cuda:3");
  for (const char* text : {"", "cuda:", "cuda:-1", "cuda:x", "gpu", "cpu:0"})
    EXPECT_FALSE(Device::Parse(text).ok()) << text;
}

}  // namespace
}  // namespace smelt
