// Tests "solve", "determinant", "cholesky", "qr", "svd" and "eigh" by inserting their results into the equations.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/runtime/library/library.h"

namespace smelt {
namespace {

// Matrices of double in the last two dims, row-major.
struct Matrices {
  std::vector<int64_t> sizes;
  std::vector<double> data;

  explicit Matrices(std::vector<int64_t> s) : sizes(std::move(s)) {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    data.resize(static_cast<size_t>(n));
  }
  OperandShape shape(DType t = DType::kFloat64) const {
    OperandShape o;
    o.present = true;
    o.dtype = t;
    o.sizes = sizes;
    o.strides.resize(sizes.size());
    int64_t step = 1;
    for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) o.strides[d] = step;
    return o;
  }
  double& at(int64_t i, int64_t r, int64_t c) {
    const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
    return data[static_cast<size_t>((i * rows + r) * columns + c)];
  }
};

// Numbers without a pattern.
Matrices Filled(std::vector<int64_t> sizes, uint64_t seed) {
  Matrices m(std::move(sizes));
  for (double& x : m.data) {
    seed = seed * 6364136223846793005 + 1442695040888963407;
    x = static_cast<double>(static_cast<int64_t>(seed >> 33) % 2001 - 1000) / 500;
  }
  return m;
}

absl::Status Call(const std::string& op, std::vector<Matrices*> inputs, std::vector<Matrices*> outputs,
                  std::vector<int64_t> ints) {
  Library library;
  LibraryRequest r;
  r.op = op;
  r.ints = std::move(ints);
  std::vector<char*> in, out;
  for (Matrices* m : inputs) {
    r.inputs.push_back(m->shape());
    in.push_back(reinterpret_cast<char*>(m->data.data()));
  }
  for (Matrices* m : outputs) {
    r.outputs.push_back(m->shape());
    out.push_back(reinterpret_cast<char*>(m->data.data()));
  }
  auto prepared = library.Prepare(r);
  if (!prepared.ok()) return prepared.status();
  ThreadPool pool(3);
  return (*prepared)->Run(LibraryContext{&pool, 3}, in, out);
}

constexpr int64_t kCount = 2000;  // of matrices: several threads' work

TEST(FactorizationTest, SolutionsSolveTheirEquations) {
  for (int64_t n : {1, 2, 3, 7, 40, 48, 49, 150}) {
    const int64_t count = n > 10 ? 3 : kCount;
    Matrices a = Filled({count, n, n}, 1), b = Filled({count, n, 2}, 2), x({count, n, 2}), inverse({count, n, n});
    ASSERT_TRUE(Call("solve", {&a, &b}, {&x}, {0, 0, 1}).ok());
    ASSERT_TRUE(Call("solve", {&a}, {&inverse}, {0, 0, 1}).ok());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t r = 0; r < n; ++r) {
        double sum = -b.at(i, r, 1), one = 0, size = 1, inverse_size = 1;
        for (int64_t k = 0; k < n; ++k) {
          sum += a.at(i, r, k) * x.at(i, k, 1);
          one += a.at(i, r, k) * inverse.at(i, k, r);
          size += std::abs(a.at(i, r, k) * x.at(i, k, 1));
          inverse_size += std::abs(a.at(i, r, k) * inverse.at(i, k, r));
        }
        ASSERT_LT(std::abs(sum), 1e-9 * size) << n << ", matrix " << i;
        ASSERT_LT(std::abs(one - 1), 1e-9 * inverse_size) << n << ", matrix " << i;
      }
    }
  }
}

TEST(FactorizationTest, OfATriangleTheOtherIsNotRead) {
  for (bool upper : {true, false}) {
    for (bool unit : {true, false}) {
      Matrices a = Filled({1, 5, 5}, 3), b = Filled({1, 5, 1}, 4), x({1, 5, 1});
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t c = 0; c < 5; ++c) {
          if (r == c) a.at(0, r, c) = unit ? NAN : 2;
          if (upper ? r > c : r < c) a.at(0, r, c) = NAN;
        }
      }
      ASSERT_TRUE(Call("solve", {&a, &b}, {&x}, {upper ? 1 : 2, unit, 0}).ok());
      for (int64_t r = 0; r < 5; ++r) {
        double sum = (unit ? 1 : 2) * x.at(0, r, 0);
        for (int64_t c = 0; c < 5; ++c) {
          if (upper ? c > r : c < r) sum += a.at(0, r, c) * x.at(0, c, 0);
        }
        EXPECT_NEAR(sum, b.at(0, r, 0), 1e-10);
      }
    }
  }
}

TEST(FactorizationTest, DeterminantsAreTheFormulasOfSmallMatrices) {
  Matrices a = Filled({kCount, 2, 2}, 5), det({kCount}), sign({kCount}), logarithm({kCount});
  ASSERT_TRUE(Call("determinant", {&a}, {&det}, {}).ok());
  ASSERT_TRUE(Call("determinant", {&a}, {&sign, &logarithm}, {}).ok());
  for (int64_t i = 0; i < kCount; ++i) {
    const double want = a.at(i, 0, 0) * a.at(i, 1, 1) - a.at(i, 0, 1) * a.at(i, 1, 0);
    EXPECT_NEAR(det.data[i], want, 1e-12);
    EXPECT_NEAR(sign.data[i] * std::exp(logarithm.data[i]), want, 1e-11);
  }
}

TEST(FactorizationTest, ACholeskyFactorTimesItsTransposeIsTheMatrix) {
  for (int64_t n : {6, 48, 49, 130}) {
    const int64_t count = n > 10 ? 2 : 4;
    Matrices from = Filled({count, n, n}, 6), a({count, n, n}), l({count, n, n});
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          for (int64_t k = 0; k < n; ++k) a.at(i, r, c) += from.at(i, r, k) * from.at(i, c, k);
          a.at(i, r, c) += r == c;
        }
      }
    }
    for (bool upper : {false, true}) {
      ASSERT_TRUE(Call("cholesky", {&a}, {&l}, {upper, 1}).ok());
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            double sum = 0;
            for (int64_t k = 0; k < n; ++k)
              sum += upper ? l.at(i, k, r) * l.at(i, k, c) : l.at(i, r, k) * l.at(i, c, k);
            ASSERT_NEAR(sum, a.at(i, r, c), 1e-11 * static_cast<double>(n)) << n;
            if (upper ? r > c : r < c) {
              ASSERT_EQ(l.at(i, r, c), 0);
            }
          }
        }
      }
    }
    // In any block in which it is not positive.
    a.at(0, n - 2, n - 2) = -1;
    EXPECT_FALSE(Call("cholesky", {&a}, {&l}, {0, 1}).ok());
  }
}

TEST(FactorizationTest, OrthogonalFactorsOfManyMatricesMakeThemAgain) {
  Matrices a = Filled({3, 4, 2}, 11), q({3, 4, 2}), r({3, 2, 2}), s({3, 2}), u({3, 4, 4}), vh({3, 2, 2}),
           full({3, 4, 4});
  Matrices rest({3, 4, 2});
  ASSERT_TRUE(Call("qr", {&a}, {&q, &r}, {}).ok());
  ASSERT_TRUE(Call("qr", {&a}, {&full, &rest}, {}).ok());
  ASSERT_TRUE(Call("svd", {&a}, {&s, &u, &vh}, {}).ok());
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t row = 0; row < 4; ++row) {
      for (int64_t c = 0; c < 2; ++c) {
        double qr = 0, complete = 0, usv = 0;
        for (int64_t k = 0; k < 2; ++k) {
          qr += q.at(i, row, k) * r.at(i, k, c);
          usv += u.at(i, row, k) * s.data[static_cast<size_t>(2 * i + k)] * vh.at(i, k, c);
        }
        for (int64_t k = 0; k < 4; ++k) complete += full.at(i, row, k) * rest.at(i, k, c);
        EXPECT_NEAR(qr, a.at(i, row, c), 1e-12);
        EXPECT_NEAR(complete, a.at(i, row, c), 1e-12);
        EXPECT_NEAR(usv, a.at(i, row, c), 1e-12);
      }
    }
  }
  Matrices h = Filled({2, 5, 5}, 12), w({2, 5}), v({2, 5, 5});
  for (int64_t upper : {0, 1}) {
    ASSERT_TRUE(Call("eigh", {&h}, {&w, &v}, {upper}).ok());
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t row = 0; row < 5; ++row) {
        for (int64_t c = 0; c < 5; ++c) {
          double sum = 0;
          for (int64_t k = 0; k < 5; ++k)
            sum += v.at(i, row, k) * w.data[static_cast<size_t>(5 * i + k)] * v.at(i, c, k);
          const bool given = upper == 1 ? row <= c : row >= c;
          EXPECT_NEAR(sum, given ? h.at(i, row, c) : h.at(i, c, row), 1e-11);
        }
      }
    }
  }
}

TEST(FactorizationTest, SingularValuesOfWhatIsNotFiniteAreRefused) {
  Matrices a({2, 2, 2}), s({2, 2}), u({2, 2, 2}), vh({2, 2, 2});
  a.at(1, 0, 0) = std::nan("");
  EXPECT_EQ(Call("svd", {&a}, {&s, &u, &vh}, {}).message(),
            "svd: the algorithm does not converge: a matrix has elements that are not finite");
}

TEST(FactorizationTest, OrthogonalFactorsOfOtherSizesAreRefused) {
  Matrices a({2, 4, 3}), q({2, 4, 3}), full({2, 4, 4}), r({2, 3, 3}), rest({2, 4, 3}), s({2, 3}), one({3});
  EXPECT_TRUE(Call("qr", {&a}, {&q, &r}, {}).ok());
  EXPECT_FALSE(Call("qr", {&a}, {&full, &r}, {}).ok());
  EXPECT_FALSE(Call("qr", {&a}, {&q, &rest}, {}).ok());
  EXPECT_FALSE(Call("qr", {&a}, {&q}, {}).ok());
  EXPECT_FALSE(Call("qr", {&one}, {&q, &r}, {}).ok());
  EXPECT_FALSE(Call("svd", {&a}, {&one, &q, &r}, {}).ok());
  EXPECT_FALSE(Call("svd", {&a}, {&s, &r, &r}, {}).ok());
  EXPECT_TRUE(Call("svd", {&a}, {&s, &full, &r}, {}).ok());
  EXPECT_FALSE(Call("eigh", {&a}, {&s, &r}, {0}).ok());
  EXPECT_FALSE(Call("eigh", {&r}, {&s, &a}, {0}).ok());
  EXPECT_TRUE(Call("eigh", {&r}, {&s, &r}, {0}).ok());
}

TEST(FactorizationTest, WhatCannotBeSolvedIsRefusedAndNamedWhereThatIsAsked) {
  Matrices a = Filled({3, 2, 2}, 7), x({3, 2, 2});
  a.at(1, 0, 0) = a.at(1, 0, 1) = 0;
  const absl::Status refused = Call("solve", {&a}, {&x}, {0, 0, 1});
  EXPECT_EQ(refused.message(), "solve: (Batch element 1): the matrix is singular");
  EXPECT_TRUE(Call("solve", {&a}, {&x}, {0, 0, 0}).ok());
  a.at(2, 0, 0) = -1;
  EXPECT_FALSE(Call("cholesky", {&a}, {&x}, {0, 1}).ok());
}

TEST(FactorizationTest, SizesThatDoNotFitAreRefused) {
  Matrices square({2, 3, 3}), flat({2, 3, 2}), other({1, 3, 3}), one({3});
  EXPECT_TRUE(Call("solve", {&square, &flat}, {&flat}, {2, 1, 0}).ok());
  EXPECT_FALSE(Call("solve", {&square, &flat}, {&flat}, {3, 0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&flat, &flat}, {&flat}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&square, &flat}, {&square}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&square, &other}, {&other}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&square}, {&flat}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&square}, {&square}, {0, 0}).ok());
  EXPECT_FALSE(Call("solve", {&one}, {&one}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("cholesky", {&square}, {&other}, {0, 0}).ok());
  EXPECT_FALSE(Call("determinant", {&square}, {&square}, {}).ok());
}

}  // namespace
}  // namespace smelt
