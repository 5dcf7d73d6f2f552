// Properties of the compiler and its flags that the code relies on.
#include "gtest/gtest.h"

namespace smelt {
namespace {

__attribute__((noinline)) void RoundTwo(double* p) {
  const double a = p[0], b = p[1];
  p[0] = static_cast<float>(a);
  p[1] = static_cast<float>(b);
}

TEST(CompilerTest, DoublesThatAreRoundedToFloatSideBySideAreRounded) {
  // gcc 12 vectorizes the two and drops the conversions there and back; hence -fno-tree-slp-vectorize.
  double x[2] = {0x1.0000001p0, 0x1.8000001p1};
  asm volatile("" : : "r"(x) : "memory");  // no constants
  RoundTwo(x);
  EXPECT_EQ(x[0], 1.0);
  EXPECT_EQ(x[1], 3.0);
}

}  // namespace
}  // namespace smelt
