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

// Tests are compiled with less optimization than gcc needs to fuse a product.
#if defined(__clang__)
__attribute__((noinline))
#else
__attribute__((noinline, optimize("O2")))
#endif
double ProductAndSum(const double* p) {
  return p[0] * p[1] + p[2];
}

TEST(CompilerTest, AProductIsRoundedBeforeItIsAdded) {
  // gcc on AArch64 would compute 2^-60, the rounding error of the product; hence -ffp-contract=off.
  double x[3] = {1 + 0x1p-30, 1 + 0x1p-30, -(1 + 0x1p-29)};
  asm volatile("" : : "r"(x) : "memory");  // no constants
  EXPECT_EQ(ProductAndSum(x), 0);
}

}  // namespace
}  // namespace smelt
