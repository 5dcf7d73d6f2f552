#include "smelt/runtime/cpu.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace smelt {
namespace {

TEST(CpuTest, TheHintsSayHowLargeTheLastCacheIs) {
  EXPECT_EQ(CpuHints() >> 8, LastCacheKib());
  if (LastCacheKib() == 0) GTEST_SKIP() << "this machine does not tell";
  EXPECT_GE(LastCacheKib(), 128);
  EXPECT_LE(LastCacheKib(), int64_t{4} << 20);
}

}  // namespace
}  // namespace smelt
