#include "smelt/runtime/library/orthogonal_factors.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace smelt {
namespace {

using Cx = std::complex<double>;

template <typename T>
T Number(uint64_t& seed) {
  seed = seed * 6364136223846793005 + 1442695040888963407;
  const double re = static_cast<double>(static_cast<int64_t>(seed >> 33) % 2001 - 1000) / 500;
  if constexpr (std::is_same_v<T, double>) {
    return re;
  } else {
    return T(re, static_cast<double>(static_cast<int64_t>(seed >> 40) % 1001 - 500) / 250);
  }
}

template <typename T>
Columns<T> Numbers(size_t rows, size_t columns, uint64_t seed) {
  Columns<T> a(columns, std::vector<T>(rows));
  for (auto& column : a) {
    for (T& v : column) v = Number<T>(seed);
  }
  return a;
}

// Row i, column j of x diag(s) y^H.
template <typename T>
T Entry(const Columns<T>& x, const std::vector<double>& s, const Columns<T>& y, size_t i, size_t j) {
  T sum = 0;
  for (size_t k = 0; k < s.size(); ++k) sum += x[k][i] * s[k] * orthogonal_internal::Conj(y[k][j]);
  return sum;
}

template <typename T>
void ExpectOrthonormal(const Columns<T>& u, size_t count) {
  ASSERT_EQ(u.size(), count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      EXPECT_NEAR(std::abs(orthogonal_internal::Dot(u[i], u[j]) - T(i == j)), 0, 1e-12) << i << " " << j;
    }
  }
}

template <typename T>
class OrthogonalFactorsTest : public testing::Test {};
using Numbers_ = testing::Types<double, Cx>;
TYPED_TEST_SUITE(OrthogonalFactorsTest, Numbers_);

TYPED_TEST(OrthogonalFactorsTest, QTimesRIsTheMatrixAndRIsUpperTriangular) {
  using T = TypeParam;
  for (auto [m, n] : {std::pair<size_t, size_t>{5, 3}, {3, 5}, {4, 4}, {1, 1}, {6, 1}, {1, 4}, {0, 2}, {2, 0}}) {
    for (bool complete : {false, true}) {
      const Columns<T> a = Numbers<T>(m, n, 7);
      const QrFactors<T> f = FactorQr(a, m, complete);
      const size_t width = complete ? m : std::min(m, n);
      ExpectOrthonormal(f.q, width);
      ASSERT_EQ(f.r.size(), n);
      for (size_t j = 0; j < n; ++j) {
        ASSERT_EQ(f.r[j].size(), width);
        for (size_t i = j + 1; i < width; ++i) EXPECT_EQ(f.r[j][i], T(0));
        for (size_t i = 0; i < m; ++i) {
          T sum = 0;
          for (size_t k = 0; k < width; ++k) sum += f.q[k][i] * f.r[j][k];
          EXPECT_NEAR(std::abs(sum - a[j][i]), 0, 1e-12);
        }
      }
    }
  }
}

TYPED_TEST(OrthogonalFactorsTest, UTimesSTimesVIsTheMatrixAndSDoesNotRise) {
  using T = TypeParam;
  for (auto [m, n] : {std::pair<size_t, size_t>{5, 3}, {3, 5}, {9, 9}, {1, 1}, {6, 1}, {1, 4}, {0, 2}, {2, 0}}) {
    for (bool full : {false, true}) {
      for (bool deficient : {false, true}) {
        Columns<T> a = Numbers<T>(m, n, 11);
        if (deficient && n > 1) a[1] = a[0];
        if (deficient && n > 2) a[2].assign(m, T(0));
        const SingularFactors<T> f = FactorSingular(a, m, full, true);
        ASSERT_TRUE(f.ok);
        ASSERT_EQ(f.s.size(), std::min(m, n));
        EXPECT_TRUE(std::is_sorted(f.s.rbegin(), f.s.rend()));
        ExpectOrthonormal(f.u, full ? m : std::min(m, n));
        ExpectOrthonormal(f.v, full ? n : std::min(m, n));
        for (size_t i = 0; i < m; ++i) {
          for (size_t j = 0; j < n; ++j) EXPECT_NEAR(std::abs(Entry(f.u, f.s, f.v, i, j) - a[j][i]), 0, 1e-12);
        }
        const SingularFactors<T> alone = FactorSingular(a, m, full, false);
        EXPECT_EQ(alone.s, f.s);
        EXPECT_TRUE(alone.u.empty());
      }
    }
  }
}

TYPED_TEST(OrthogonalFactorsTest, EigenvectorsTimesEigenvaluesAreTheHermitianMatrixOfOneTriangle) {
  using T = TypeParam;
  for (size_t n : {0, 1, 2, 3, 8, 16, 17, 20, 61}) {
    for (bool upper : {false, true}) {
      const Columns<T> a = Numbers<T>(n, n, 13);
      const EigenFactors<T> f = FactorHermitian(a, upper);
      ASSERT_EQ(f.values.size(), n);
      EXPECT_TRUE(std::is_sorted(f.values.begin(), f.values.end()));
      ExpectOrthonormal(f.vectors, n);
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          const bool given = upper ? i <= j : i >= j;
          T want = given ? a[j][i] : orthogonal_internal::Conj(a[i][j]);
          if (i == j) want = std::real(want);
          EXPECT_NEAR(std::abs(Entry(f.vectors, f.values, f.vectors, i, j) - want), 0, 1e-11);
        }
      }
    }
  }
}

// Diagonal matrices, matrices of one row, with equal eigenvalues, that are block diagonal, and with tiny off-diagonal
// elements.
TEST(OrthogonalFactors, HoldForLargerMatricesOfEveryKind) {
  constexpr size_t kRows = 40;
  for (int kind = 0; kind < 6; ++kind) {
    Columns<double> a(kRows, std::vector<double>(kRows, 0.0));
    const Columns<double> any = Numbers<double>(kRows, kRows, 17);
    for (size_t j = 0; j < kRows; ++j) {
      for (size_t i = 0; i <= j; ++i) {
        double v = any[j][i];
        if (kind == 0) v = i == j ? v : 0;
        if (kind == 1) v = any[0][i] * any[0][j];
        if (kind == 2) v = i == j ? 2 : 0;
        if (kind == 3) v = i / 7 == j / 7 ? v : 0;
        if (kind == 4) v = i == j ? v : 1e-8 * v;
        if (kind == 5) v = 1;
        a[i][j] = a[j][i] = v;
      }
    }
    const EigenFactors<double> f = FactorHermitian(a, false);
    EXPECT_TRUE(std::is_sorted(f.values.begin(), f.values.end()));
    ExpectOrthonormal(f.vectors, kRows);
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kRows; ++j)
        EXPECT_NEAR(Entry(f.vectors, f.values, f.vectors, i, j), a[j][i], 1e-12 * kRows) << kind;
    }
  }
}

TEST(OrthogonalFactors, OfMatricesWithoutATurnToMakeAreExact) {
  const Columns<double> diagonal = {{3, 0}, {0, -4}};
  EXPECT_EQ(FactorSingular(diagonal, 2, false, true).s, (std::vector<double>{4, 3}));
  EXPECT_EQ(FactorHermitian(diagonal, false).values, (std::vector<double>{-4, 3}));
  EXPECT_EQ(FactorQr(diagonal, 2, false).r, (Columns<double>{{3, 0}, {0, -4}}));
}

TEST(OrthogonalFactors, OfWhatIsNotFiniteAreNoneOrNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Columns<double> a = {{1, nan}, {nan, 2}};
  EXPECT_FALSE(FactorSingular(a, 2, true, true).ok);
  for (double w : FactorHermitian(a, false).values) EXPECT_TRUE(std::isnan(w));
  EXPECT_TRUE(std::isnan(FactorQr(a, 2, false).r[1][1]));
}

TEST(OrthogonalFactors, HoldForMatricesOfVeryDifferentMagnitudes) {
  for (double scale : {1e-300, 1e-30, 1e30, 1e300}) {
    Columns<double> a = Numbers<double>(4, 4, 3);
    for (auto& column : a) {
      for (double& v : column) v *= scale;
    }
    const SingularFactors<double> f = FactorSingular(a, 4, true, true);
    ExpectOrthonormal(f.u, 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(Entry(f.u, f.s, f.v, i, 0) / scale, a[0][i] / scale, 1e-11);
  }
}

}  // namespace
}  // namespace smelt
