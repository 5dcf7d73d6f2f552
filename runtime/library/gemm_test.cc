#include "smelt/runtime/library/gemm.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/library/paired_gemm.h"

namespace smelt {
namespace {

// Sizes around those of tiles, panels and blocks of a sum.
constexpr int64_t kRows[] = {1, 3, 4, 5, 8, 9, 13};
constexpr int64_t kColumns[] = {1, 4, 5, 8, 9, 15, 16, 17, 33, 70};
constexpr int64_t kDepths[] = {1, 3, 4, 5, 8, 262};

// A matrix whose elements lie by rows, by columns, or two apart.
struct Lying {
  int64_t row, column;
};
std::vector<Lying> LyingOf(int64_t rows, int64_t columns) { return {{columns, 1}, {1, rows}, {2 * columns + 1, 2}}; }

// Small integers: every sum of their products is exact in each type.
template <typename T>
T Value(int64_t i, int64_t j) {
  return static_cast<T>((i * 7 + j * 5 + i * j) % 5 - 2);
}
template <>
uint16_t Value<uint16_t>(int64_t i, int64_t j) {
  return FloatToBFloat16(Value<float>(i, j));
}

template <typename T>
std::vector<T> Matrix(int64_t rows, int64_t columns, const Lying& l) {
  std::vector<T> m((rows - 1) * l.row + (columns - 1) * l.column + 1, T(77));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) m[i * l.row + j * l.column] = Value<T>(i, j);
  }
  return m;
}

// Calls multiply(m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row) for all sizes and layouts. Rows of c are three
// elements apart, which must stay as they are.
template <typename T, typename C, typename F>
void ExpectProducts(const F& multiply) {
  constexpr int64_t kGap = 3;
  for (int64_t m : kRows) {
    for (int64_t n : kColumns) {
      for (int64_t k : kDepths) {
        std::vector<C> expected(m * (n + kGap), C(99));
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            int64_t sum = 0;
            for (int64_t l = 0; l < k; ++l) sum += Value<int64_t>(i, l) * Value<int64_t>(l, j);
            expected[i * (n + kGap) + j] = static_cast<C>(sum);
          }
        }
        for (const Lying& a : LyingOf(m, k)) {
          for (const Lying& b : LyingOf(k, n)) {
            std::vector<C> c(m * (n + kGap), C(99));
            const std::vector<T> x = Matrix<T>(m, k, a), y = Matrix<T>(k, n, b);
            multiply(m, n, k, x.data(), a.row, a.column, y.data(), b.row, b.column, c.data(), n + kGap);
            ASSERT_EQ(c, expected) << absl::StrCat(m, "x", k, " by ", a.row, ",", a.column, " times ", k, "x", n,
                                                   " by ", b.row, ",", b.column);
          }
        }
      }
    }
  }
}

const auto kGemm = [](auto... operands) { Gemm(operands...); };
const auto kPaired = [](auto... operands) { PairedGemm(operands...); };

TEST(GemmTest, MultipliesFloat32) { ExpectProducts<float, float>(kGemm); }
TEST(GemmTest, MultipliesFloat64) { ExpectProducts<double, double>(kGemm); }
TEST(GemmTest, MultipliesInt32) { ExpectProducts<uint32_t, uint32_t>(kGemm); }
TEST(GemmTest, MultipliesInt64) { ExpectProducts<uint64_t, uint64_t>(kGemm); }

TEST(GemmTest, PanelsGiveTheSameBitsAsAnUnpackedOperand) {
  const auto multiply = [](int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_col,
                           const float* b, int64_t b_row, int64_t b_col, float* c, int64_t c_row) {
    std::vector<float> x(m * a_row + k * a_col), other(m * c_row);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < k; ++j)
        x[i * a_row + j * a_col] = a[i * a_row + j * a_col] / 3 + static_cast<float>(i + j) / 7;
    }
    std::vector<float> panels(PackedElements(k, n));
    PackRight(k, n, b, b_row, b_col, panels.data());
    Gemm(m, n, k, x.data(), a_row, a_col, b, b_row, b_col, other.data(), c_row);
    GemmPacked(m, n, k, x.data(), a_row, a_col, panels.data(), c, c_row, 0, n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) ASSERT_EQ(c[i * c_row + j], other[i * c_row + j]) << i << ", " << j;
    }
    // And those of integers, for the comparison.
    GemmPacked(m, n, k, a, a_row, a_col, panels.data(), c, c_row, 0, n);
  };
  ExpectProducts<float, float>(multiply);
}

TEST(PairedGemmTest, MultipliesBFloat16) {
  if (!HasPairedGemm(DType::kBFloat16)) GTEST_SKIP() << "this machine has no such instructions";
  ExpectProducts<uint16_t, float>(kPaired);
}
TEST(PairedGemmTest, MultipliesInt8) {
  if (!HasPairedGemm(DType::kInt8)) GTEST_SKIP() << "this machine has no such instructions";
  ExpectProducts<int8_t, int32_t>(kPaired);
}

TEST(PairedGemmTest, SumsOfInt8AreModulo2To32) {
  if (!HasPairedGemm(DType::kInt8)) GTEST_SKIP() << "this machine has no such instructions";
  constexpr int64_t kDepth = 140000;  // times 2^14 is more than 2^31
  const std::vector<int8_t> a(kDepth, -128);
  int32_t c = 0;
  PairedGemm(1, 1, kDepth, a.data(), kDepth, 1, a.data(), 1, 1, &c, 1);
  EXPECT_EQ(static_cast<uint32_t>(c), static_cast<uint32_t>(kDepth << 14));
}

}  // namespace
}  // namespace smelt
