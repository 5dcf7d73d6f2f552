// Devices without cuBLASLt. The environment says why there is none.
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/device.h"
#include "smelt/runtime/device/device.h"

namespace smelt {
namespace {

TEST(CublasLtChoiceTest, WithoutTheLibraryThereIsNoProductAndOnlyAFileThatIsNamedIsMissed) {
  const auto device = ExecutionDevice::Of(Device::Cuda(0));
  ASSERT_TRUE(device.ok()) << device.status();
  DeviceProduct p;
  p.rows = p.columns = p.inner = 64;
  p.a = p.b = p.c = {64, 1, 0};
  const auto product = (*device)->Prepare(p);
  const std::string named = std::getenv("SMELT_CUBLASLT");
  if (named == "off" || named.empty()) {
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(*product, nullptr);
  } else {
    EXPECT_EQ(product.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(product.status().message(), testing::HasSubstr("SMELT_CUBLASLT: /nowhere/libcublasLt.so"));
    EXPECT_THAT(product.status().message(), testing::HasSubstr("\"off\" does without cuBLASLt"));
  }
}

}  // namespace
}  // namespace smelt
