#include "smelt/codegen/libdevice.h"

#include "gtest/gtest.h"
#include "smelt/core/op/scalar.h"

namespace smelt {
namespace {

TEST(LibdeviceTest, FunctionsOfFloatEndInF) {
  EXPECT_EQ(LibdeviceName(ScalarOp::kExp, /*is_double=*/true), "__nv_exp");
  EXPECT_EQ(LibdeviceName(ScalarOp::kExp, /*is_double=*/false), "__nv_expf");
}

TEST(LibdeviceTest, TruncatedRemainderIsFmod) {
  EXPECT_EQ(LibdeviceName(ScalarOp::kRemTrunc, /*is_double=*/true), "__nv_fmod");
}

TEST(LibdeviceTest, ArithmeticHasNoFunction) { EXPECT_EQ(LibdeviceName(ScalarOp::kAdd, /*is_double=*/true), ""); }

}  // namespace
}  // namespace smelt
