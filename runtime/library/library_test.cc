// Expected values: sums in double over the indices of the definition, written here without strides or blocks.
#include "smelt/runtime/library/library.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <mutex>
#include <numbers>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/dnnl_util.h"
#include "smelt/runtime/library/transpose.h"

namespace smelt {
namespace {

using ::testing::ElementsAre;

uint64_t g_state = 88172645463325252u;
double Random() {  // multiples of 1/8 in [-2, 2]: exact in float16 and bfloat16
  g_state ^= g_state << 13;
  g_state ^= g_state >> 7;
  g_state ^= g_state << 17;
  return static_cast<double>(static_cast<int64_t>(g_state % 33) - 16) / 8;
}

Tensor Fill(Tensor t, const std::function<double()>& f = Random) {
  ForEachElement({static_cast<char*>(t.data()), t.dtype(), t.sizes(), t.strides()},
                 [&](char* p) { StoreDouble(p, t.dtype(), f()); });
  return t;
}
Tensor FillPairs(std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  Tensor t = Tensor::EmptyStrided(DType::kComplex128, sizes, strides);
  sizes.push_back(2);
  for (int64_t& stride : strides) stride *= 2;
  strides.push_back(1);
  Fill(Tensor(t.storage(), DType::kFloat64, Geometry{sizes, strides, 0}));
  return t;
}
double At(const Tensor& t, const std::vector<int64_t>& index) {
  int64_t at = 0;
  int d = 0;
  for (int64_t i : index) at += i * t.strides()[d++];
  return LoadDouble(static_cast<char*>(t.data()) + at * ItemSize(t.dtype()), t.dtype());
}
OperandShape ShapeOf(const Tensor& t, bool constant = false) {
  OperandShape o;
  if (!t.defined()) return o;
  o.present = true;
  o.dtype = t.dtype();
  o.sizes.assign(t.sizes().begin(), t.sizes().end());
  o.strides.assign(t.strides().begin(), t.strides().end());
  if (constant) o.constant = static_cast<const char*>(t.data());
  return o;
}

absl::Status Call(std::string op, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                  std::vector<int64_t> ints = {}, std::vector<double> floats = {}, int constant_input = -1,
                  int threads = 2) {
  static Library* const library = new Library();
  static ThreadPool* const pool = new ThreadPool(3);
  LibraryRequest r;
  r.op = std::move(op);
  std::vector<char*> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    r.inputs.push_back(ShapeOf(inputs[i], static_cast<int>(i) == constant_input));
    in.push_back(inputs[i].defined() ? static_cast<char*>(inputs[i].data()) : nullptr);
  }
  for (const Tensor& t : outputs) {
    r.outputs.push_back(ShapeOf(t));
    out.push_back(t.defined() ? static_cast<char*>(t.data()) : nullptr);
  }
  r.ints = std::move(ints);
  r.floats = std::move(floats);
  // A constant outlives its library: here, the call.
  Library of_this_call;
  auto prepared = (constant_input < 0 ? *library : of_this_call).Prepare(r);
  if (!prepared.ok()) return prepared.status();
  return (*prepared)->Run(LibraryContext{pool, threads}, in, out);
}

// [m, n] in one of several layouts.
Tensor Matrix(DType t, int64_t m, int64_t n, int layout) {
  switch (layout) {
    case 0:
      return Fill(Tensor::EmptyStrided(t, {m, n}, {n, 1}));
    case 1:
      return Fill(Tensor::EmptyStrided(t, {m, n}, {1, m}));
    case 2:  // rows of something wider
      return Fill(Tensor::EmptyStrided(t, {m, n}, {n + 3, 1}));
    default:  // neither dim contiguous
      return Fill(Tensor::EmptyStrided(t, {m, n}, {2 * n + 1, 2}));
  }
}

double Tolerance(DType t) {
  return t == DType::kBFloat16 ? 1.0 / 128 : t == DType::kFloat16 ? 1.0 / 1024 : t == DType::kFloat32 ? 1e-5 : 0;
}

class MatmulTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, MatmulTest,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64),
                         [](const auto& info) { return std::string(Name(info.param)); });

void ExpectProductsOfEveryLayout(DType t) {
  for (auto [m, k, n] : {std::tuple{1, 7, 5},
                         {3, 33, 70},
                         {4, 64, 1},
                         {17, 19, 23},
                         {40, 96, 64},
                         {9, 1, 6},
                         {20, 33, 3},
                         {70, 300, 1},
                         {6, 520, 12},   // a few rows, long columns
                         {7, 270, 260},  // and a matrix that fits the second cache
                         {5, 300, 9},    // small, of more than one block of products
                         {6, 9, 37},
                         {8, 16, 40}}) {
    for (int layout = 0; layout < 4 * 4 * 4; ++layout) {
      const Tensor a = Matrix(t, m, k, layout % 4), b = Matrix(t, k, n, layout / 4 % 4),
                   c = Matrix(t, m, n, layout / 16);
      const bool constant = layout % 3 == 0;
      ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {c}, {}, {}, constant ? 1 : -1).ok());
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double want = 0, size = 0;
          for (int64_t x = 0; x < k; ++x) {
            want += At(a, {i, x}) * At(b, {x, j});
            size += std::abs(At(a, {i, x}) * At(b, {x, j}));
          }
          ASSERT_NEAR(At(c, {i, j}), want, Tolerance(t) * (std::abs(want) + size * 1e-3))
              << m << "x" << k << "x" << n << " layout " << layout << " at " << i << ", " << j;
        }
      }
    }
  }
}

TEST_P(MatmulTest, EveryLayoutOfEveryOperandGivesTheProduct) { ExpectProductsOfEveryLayout(GetParam()); }
TEST(IntegerMatmulTest, EveryLayoutOfInt64GivesTheProduct) { ExpectProductsOfEveryLayout(DType::kInt64); }
TEST(IntegerMatmulTest, EveryLayoutOfInt32GivesTheProduct) { ExpectProductsOfEveryLayout(DType::kInt32); }

TEST(IntegerMatmulTest, ProductsWrap) {
  for (const int64_t k : {1, 70, 600}) {
    const Tensor a = Matrix(DType::kInt64, 5, k, 0), b = Matrix(DType::kInt64, k, 1, 0);
    const Tensor c = Matrix(DType::kInt64, 5, 1, 0);
    for (int64_t i = 0; i < 5 * k; ++i) static_cast<int64_t*>(a.data())[i] = int64_t{3} << 40;
    for (int64_t i = 0; i < k; ++i) static_cast<int64_t*>(b.data())[i] = (int64_t{1} << 25) + i;
    ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {c}).ok());
    // 3 * 2^40 * (k * 2^25 + k * (k - 1) / 2), of which 2^65 is a multiple of 2^64.
    const uint64_t want = (uint64_t{3} << 40) * static_cast<uint64_t>(k * (k - 1) / 2);
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(static_cast<const uint64_t*>(c.data())[i], want) << k;
  }
}

// The smallest number alone is tested too: pairs of such products do not fit in 16 bits, nor do their sums in a
// float32's mantissa.
class ByteMatmulTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(LeftOperands, ByteMatmulTest, ::testing::Values(DType::kInt8, DType::kUInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(ByteMatmulTest, OfInt8TheResultMayBeInt32AndIsExact) {
  static auto* const constants = new std::vector<Tensor>;  // outlive the library
  const double most = GetParam() == DType::kUInt8 ? 255 : -128;
  for (auto [m, k, n] : {std::tuple{1, 77, 50}, {3, 4096, 70}, {17, 19, 23}, {64, 1200, 48}, {40, 5, 1}}) {
    for (const bool extreme : {false, true}) {
      for (int layout = 0; layout < 4 * 4 * 4; ++layout) {
        const auto any = [&] { return extreme ? -128.0 : static_cast<double>(static_cast<int64_t>(Random() * 63)); };
        const Tensor a = Fill(Matrix(GetParam(), m, k, layout % 4), [&] { return extreme ? most : std::abs(any()); });
        const Tensor b = Fill(Matrix(DType::kInt8, k, n, layout / 4 % 4), any);
        constants->push_back(b);
        const Tensor c = Matrix(DType::kInt32, m, n, layout / 16);
        const absl::Status done = Call("matmul", {a, b, Tensor()}, {c}, {}, {}, layout % 3 == 0 ? 1 : -1);
        ASSERT_TRUE(done.ok()) << done << m << "x" << k << "x" << n << " layout " << layout;
        for (const auto& [i, j] : {std::pair{0, 0}, {m - 1, n - 1}, {m / 2, n / 3}}) {
          double want = 0;
          for (int64_t x = 0; x < k; ++x) want += At(a, {i, x}) * At(b, {x, j});
          ASSERT_EQ(At(c, {i, j}), want) << m << "x" << k << "x" << n << " layout " << layout << " at " << i << ", "
                                         << j;
        }
      }
    }
  }
}

TEST_P(MatmulTest, TheBiasIsAddedHoweverItIsBroadcastAndScaled) {
  const DType t = GetParam();
  for (int64_t m : {2, 20}) {
    const int64_t k = 30, n = 24;
    for (int layout : {0, 1, 3}) {
      const Tensor a = Matrix(t, m, k, 0), b = Matrix(t, k, n, 1);
      for (const Tensor& bias :
           {Fill(Tensor::Empty(t, {n})), Matrix(t, m, n, 0), Matrix(t, m, 1, 0), Matrix(t, 1, 1, 0)}) {
        for (bool scaled : {false, true}) {
          const Tensor c = Matrix(t, m, n, layout);
          const double alpha = scaled ? 0.5 : 1, beta = scaled ? -2 : 1;
          ASSERT_TRUE(
              Call("matmul", {a, b, bias}, {c}, {}, scaled ? std::vector<double>{alpha, beta} : std::vector<double>{})
                  .ok());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double want = 0;
              for (int64_t x = 0; x < k; ++x) want += At(a, {i, x}) * At(b, {x, j});
              const double add = bias.rank() == 1
                                     ? At(bias, {j})
                                     : At(bias, {bias.sizes()[0] == 1 ? 0 : i, bias.sizes()[1] == 1 ? 0 : j});
              want = alpha * want + beta * add;
              ASSERT_NEAR(At(c, {i, j}), want, Tolerance(t) * (std::abs(want) + 0.1)) << layout;
            }
          }
        }
      }
    }
  }
}

// The product of two halves is exact in float32, and a sum of products has the error of float32: it is not rounded to
// the half type.
TEST_P(MatmulTest, OfHalvesTheResultMayBeFloat32) {
  const DType t = GetParam();
  if (ItemSize(t) != 2) return;
  for (int64_t m : {1, 2, 20, 130}) {
    for (int64_t k : {30, 31}) {
      for (int64_t n : {1, 24}) {
        for (int layout : {0, 1, 2, 3}) {
          const Tensor a = Matrix(t, m, k, layout), b = Matrix(t, k, n, layout / 2);
          const Tensor c = Matrix(DType::kFloat32, m, n, layout), bias = Matrix(DType::kFloat32, m, 1, 0);
          for (bool adds : {false, true}) {
            std::vector<Tensor> operands = {a, b};
            if (adds) operands.push_back(bias);
            const int constant = m == 20 ? 1 : -1;
            ASSERT_TRUE(Call("matmul", operands, {c}, {}, {}, constant).ok());
            for (int64_t i = 0; i < m; ++i) {
              for (int64_t j = 0; j < n; ++j) {
                double want = adds ? At(bias, {i, 0}) : 0, size = std::abs(want);
                for (int64_t x = 0; x < k; ++x) {
                  want += At(a, {i, x}) * At(b, {x, j});
                  size += std::abs(At(a, {i, x}) * At(b, {x, j}));
                }
                ASSERT_NEAR(At(c, {i, j}), want, 1e-6 * size)
                    << m << "x" << k << "x" << n << " layout " << layout << " at " << i << ", " << j;
              }
            }
          }
        }
      }
    }
  }
}

// The form of a decomposed linear of a transposed batch: batches and rows are swapped, merge into one dim, or neither.
TEST(MatmulTest, AWeightOfAllBatchesMultipliesWhateverDimIsLongest) {
  const DType t = DType::kFloat32;
  struct Layout {
    std::vector<int64_t> sizes, a, c;
  };
  const std::vector<int64_t> k_n = {16, 12};
  const Layout layouts[] = {{{50, 2}, {16, 800}, {24, 12}},
                            {{50, 2}, {32, 16}, {24, 12}},
                            {{2, 50}, {16, 32}, {600, 12}},
                            {{40, 1}, {16, 16}, {12, 12}},
                            {{3, 4, 5}, {16, 240, 48}, {240, 60, 12}},
                            {{3, 20}, {0, 16}, {12, 36}}};
  const Tensor w = Fill(Tensor::Empty(t, k_n)), memory = Fill(Tensor::Empty(t, {4000}));
  for (const Layout& l : layouts) {
    auto with = [](std::vector<int64_t> v, int64_t last) {
      v.push_back(last);
      return v;
    };
    const size_t batches = l.sizes.size() - 1;
    std::vector<int64_t> right = l.sizes, right_strides(batches, 0);
    right.back() = 16;
    right_strides.push_back(12);
    const Tensor a = memory.View({with(l.sizes, 16), with(l.a, 1), 0});
    const Tensor b = w.View({with(right, 12), with(right_strides, 1), 0});
    const Tensor out = Tensor::Empty(t, {4000}), c = out.View({with(l.sizes, 12), with(l.c, 1), 0});
    for (int rank : {0, 1, 2}) {
      std::vector<Tensor> operands = {a, b};
      if (rank == 1) operands.push_back(Fill(Tensor::Empty(t, {12})));
      if (rank == 2) operands.push_back(Fill(Tensor::Empty(t, {l.sizes.back(), 12})));
      // A constant is packed once for all batches.
      ASSERT_TRUE(Call("matmul", operands, {c}, {}, {}, /*constant_input=*/rank == 2 ? -1 : 1).ok());
      std::vector<int64_t> at(l.sizes.size() + 1, 0);
      for (int64_t i = 0; i < c.NumElements(); ++i) {
        int64_t rest = i;
        for (size_t d = at.size(); d-- > 0;) {
          at[d] = rest % c.sizes()[d];
          rest /= c.sizes()[d];
        }
        double want = 0;
        if (rank == 1) want = At(operands[2], {at.back()});
        if (rank == 2) want = At(operands[2], {at[batches], at.back()});
        std::vector<int64_t> from = at;
        for (from.back() = 0; from.back() < 16; ++from.back()) want += At(a, from) * At(w, {from.back(), at.back()});
        ASSERT_NEAR(At(c, at), want, 1e-4) << i;
      }
    }
  }
}

// A model gives the same result for a row, whatever other rows are in the same call.
TEST(MatmulTest, ARowTimesAWeightHasTheSameBitsAmongAnyNumberOfRows) {
  std::mt19937 generator(7);
  const auto uniform = [&] { return std::uniform_real_distribution<double>(-1, 1)(generator); };
  for (auto [k, n] : {std::pair{300, 200}, {1030, 63}, {257, 129}, {64, 16}, {5, 1000}}) {
    for (int layout = 0; layout < 4; ++layout) {
      const Tensor b = Fill(Matrix(DType::kFloat32, k, n, layout), uniform);
      const Tensor bias = Fill(Tensor::EmptyStrided(DType::kFloat32, {n}, {1}), uniform);
      const Tensor all = Fill(Matrix(DType::kFloat32, 300, k, layout), uniform);
      Tensor of_all = Matrix(DType::kFloat32, 300, n, layout % 2 * 2);
      ASSERT_TRUE(Call("matmul", {all, b, bias}, {of_all}, {}, {}, 1).ok());
      for (int m : {5, 6, 7, 24, 65, 200}) {
        const int first = 300 - m;
        const Tensor some(all.storage(), DType::kFloat32,
                          Geometry{{m, k}, {all.strides()[0], all.strides()[1]}, first * all.strides()[0]});
        Tensor of_some = Matrix(DType::kFloat32, m, n, 2);
        ASSERT_TRUE(Call("matmul", {some, b, bias}, {of_some}, {}, {}, 1, /*threads=*/m % 2 + 1).ok());
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < n; ++j) ASSERT_EQ(At(of_some, {i, j}), At(of_all, {first + i, j})) << m << " " << j;
        }
      }
      double sum = At(bias, {n - 1});
      for (int i = 0; i < k; ++i) sum += At(all, {299, i}) * At(b, {i, n - 1});
      EXPECT_NEAR(At(of_all, {299, n - 1}), sum, 1e-5 * std::sqrt(k));
    }
  }
}

LibraryRequest ProductOf(DType t, int64_t rows, const Tensor& weight) {
  const int64_t k = weight.sizes()[0], n = weight.sizes()[1];
  LibraryRequest r;
  r.op = "matmul";
  r.inputs = {{true, t, {rows, k}, {k, 1}}, ShapeOf(weight, /*constant=*/true), {}};
  r.outputs = {{true, t, {rows, n}, {n, 1}}};
  return r;
}

TEST(MatmulTest, ProductsOfAnyNumberOfRowsShareOnePackedWeight) {
  const Tensor weight = Fill(Matrix(DType::kFloat32, 300, 200, 1));
  Library library;
  for (const int64_t rows : {3, 17, 64, 128, 129, 500, 3000}) {
    ASSERT_TRUE(library.Prepare(ProductOf(DType::kFloat32, rows, weight)).ok());
    // 200 columns are padded to whole panels of 64.
    EXPECT_EQ(library.packed_bytes(), 300 * 256 * 4) << rows;
  }
}

TEST(MatmulTest, OneRowReadsTheFormThatOtherNumbersOfRowsPack) {
  const Tensor weight = Fill(Matrix(DType::kFloat32, 300, 200, 1));
  int packings = 0;
  Library library([&](const PackedWeights::Source& s) { packings += s.bytes == 300 * 200 * 4; });  // not its parts
  for (const int64_t rows : {1, 64, 2, 1, 300}) {
    LibraryRequest r = ProductOf(DType::kFloat32, rows, weight);
    r.inputs[1].serves_all_rows = true;
    auto op = library.Prepare(r);
    ASSERT_TRUE(op.ok()) << op.status();
    const Tensor a = Fill(Matrix(DType::kFloat32, rows, 300, 0)), c = Matrix(DType::kFloat32, rows, 200, 0);
    char* const in[] = {static_cast<char*>(a.data()), static_cast<char*>(weight.data()), nullptr};
    char* const out[] = {static_cast<char*>(c.data())};
    ASSERT_TRUE((*op)->Run(LibraryContext{}, in, out).ok());
    for (const int64_t j : {0, 63, 64, 199}) {
      double want = 0;
      for (int64_t x = 0; x < 300; ++x) want += At(a, {rows - 1, x}) * At(weight, {x, j});
      EXPECT_NEAR(At(c, {rows - 1, j}), want, 1e-4) << rows << " rows, column " << j;
    }
    EXPECT_EQ(packings, 1) << rows;
    EXPECT_EQ(library.packed_bytes(), 300 * 256 * 4) << rows;
  }
  // Alone, it reads the weight in its place.
  Library other;
  ASSERT_TRUE(other.Prepare(ProductOf(DType::kFloat32, 1, weight)).ok());
  EXPECT_EQ(other.packed_bytes(), 0);
}

TEST(MatmulTest, ProductsOfHalvesAndOfBytesShareOnePackedWeightToo) {
  // Whole blocks of 64 columns and of 64 bytes of a column. Behind bytes are the sums of their columns.
  constexpr int64_t kDepth = 320, kColumns = 256;
  const auto whole = [] { return std::floor(Random() * 4); };
  for (const auto& [rows_type, t, result] : {std::tuple{DType::kBFloat16, DType::kBFloat16, DType::kBFloat16},
                                             {DType::kFloat16, DType::kFloat16, DType::kFloat16},
                                             {DType::kBFloat16, DType::kBFloat16, DType::kFloat32},
                                             {DType::kInt8, DType::kInt8, DType::kInt32},
                                             {DType::kUInt8, DType::kInt8, DType::kInt32}}) {
    const bool bytes = t == DType::kInt8;
    const Tensor weight = Fill(Matrix(t, kDepth, kColumns, 1), whole);
    int packings = 0;
    Library library([&](const PackedWeights::Source& s) { packings += s.bytes == kDepth * kColumns * ItemSize(t); });
    for (const int64_t rows : {1, 3, 17, 64, 129, 300}) {
      LibraryRequest r = ProductOf(rows_type, rows, weight);
      r.inputs[1].serves_all_rows = true;
      r.outputs[0].dtype = result;
      auto op = library.Prepare(r);
      ASSERT_TRUE(op.ok()) << op.status();
      const Tensor a = Fill(Matrix(rows_type, rows, kDepth, 0),
                            [&] { return std::abs(whole()) - (rows_type == DType::kUInt8 ? 0 : 3); }),
                   c = Matrix(result, rows, kColumns, 0);
      char* const in[] = {static_cast<char*>(a.data()), static_cast<char*>(weight.data()), nullptr};
      char* const out[] = {static_cast<char*>(c.data())};
      ASSERT_TRUE((*op)->Run(LibraryContext{}, in, out).ok());
      for (const int64_t i : {int64_t{0}, rows / 2, rows - 1}) {
        for (const int64_t j : {0, 63, 64, 200, 255}) {
          double want = 0;
          for (int64_t x = 0; x < kDepth; ++x) want += At(a, {i, x}) * At(weight, {x, j});
          EXPECT_NEAR(At(c, {i, j}), want, Tolerance(result) * std::abs(want))
              << Name(rows_type) << " " << rows << " rows: " << i << ", " << j;
        }
      }
      if (packings == 0) continue;  // this machine has no instructions for bytes
      EXPECT_EQ(packings, 1) << Name(rows_type) << " " << rows;
      EXPECT_EQ(library.packed_bytes(), kDepth * kColumns * ItemSize(t) + (bytes ? kColumns * 4 : 0)) << rows;
    }
  }
}

TEST(LibraryTest, OpsThatWereNotUsedForLongestLeaveTheCache) {
  const Tensor weight = Fill(Matrix(DType::kFloat32, 8, 8, 0));
  Library library;
  const auto prepare = [&](int64_t rows) {
    auto op = library.Prepare(ProductOf(DType::kFloat32, rows, weight));
    return op.ok() ? std::weak_ptr<const PreparedOp>(*op) : std::weak_ptr<const PreparedOp>();
  };
  const auto first = prepare(1), second = prepare(2);
  for (int64_t rows = 3; rows < 5000; ++rows) {
    prepare(rows);
    prepare(1);
  }
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
}

TEST_P(MatmulTest, UpToFourRowsTimesAMatrixOfAnySizeHaveTheSameBitsEach) {
  const DType t = GetParam();
  std::mt19937 generator(8);
  const auto uniform = [&] { return std::uniform_real_distribution<double>(-1, 1)(generator); };
  for (const int64_t k : {1, 7, 9, 512, 515, 1300}) {
    for (const int64_t n : {1, 15, 16, 33, 63, 65, 100, 129, 600, 1024, 1043, 1100}) {
      for (const int layout : {0, 1, 2}) {
        const Tensor a = Fill(Matrix(t, 4, k, 0), uniform), b = Fill(Matrix(t, k, n, layout), uniform);
        Tensor of_four = Matrix(t, 4, n, 0);
        ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {of_four}).ok());
        for (const int64_t j : {int64_t{0}, n / 2, n - 1}) {
          double want = 0, size = 0;
          for (int64_t x = 0; x < k; ++x) {
            want += At(a, {3, x}) * At(b, {x, j});
            size += std::abs(At(a, {3, x}) * At(b, {x, j}));
          }
          ASSERT_NEAR(At(of_four, {3, j}), want, Tolerance(t) * (std::abs(want) + size * 1e-2) + size * 1e-14)
              << k << "x" << n << " layout " << layout << " column " << j;
        }
        for (int64_t m = 1; m < 4; ++m) {
          const Tensor some(a.storage(), t, Geometry{{m, k}, {k, 1}, (4 - m) * k});
          Tensor of_some = Matrix(t, m, n, 0);
          ASSERT_TRUE(Call("matmul", {some, b, Tensor()}, {of_some}).ok());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              ASSERT_EQ(At(of_some, {i, j}), At(of_four, {4 - m + i, j})) << m << " rows, " << k << "x" << n;
            }
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, WhatLiesBesideAnOperandIsNotMultiplied) {
  const DType t = GetParam();
  for (const int64_t m : {1, 3, 5, 8, 40}) {
    for (const int64_t k : {1, 2, 3, 7, 8, 15, 17, 33, 65}) {
      for (const int64_t n : {1, 6, 17, 64}) {
        // Both are in memory that is NaN elsewhere: columns beyond, each row twice, or a whole matrix.
        for (const int layout : {0, 1, 2}) {
          const bool by_column = layout == 1;
          auto inside = [&](int64_t rows, int64_t columns) {
            const Tensor all = Fill(Tensor::Empty(t, {2 * rows + 2, columns + 3}), [] { return std::nan(""); }).Clone();
            return all.View({{rows, columns}, {2 * (columns + 3), 1}, columns + 4});
          };
          Tensor a = layout == 2 ? Matrix(t, m, k, 0) : inside(m, k), b = inside(k, n);
          if (by_column) {
            a = inside(k, m).View({{m, k}, {1, 2 * (m + 3)}, m + 4});
            b = inside(n, k).View({{k, n}, {1, 2 * (k + 3)}, k + 4});
          }
          Fill(a, [] { return 1.; });
          Fill(b, [] { return 1.; });
          const Tensor c = Matrix(t, m, n, 0);
          ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {c}).ok());
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              ASSERT_EQ(At(c, {i, j}), static_cast<double>(k)) << m << "x" << k << "x" << n << " layout " << layout;
            }
          }
          // An infinite last factor is not multiplied by the fill either.
          const double kInf = std::numeric_limits<double>::infinity();
          Fill(a, [kInf] { return kInf; });
          ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {c}).ok());
          ASSERT_EQ(At(c, {m - 1, n - 1}), kInf) << m << "x" << k << "x" << n << " layout " << layout;
          Fill(a, [] { return 1.; });
          Fill(b, [kInf] { return kInf; });
          ASSERT_TRUE(Call("matmul", {a, b, Tensor()}, {c}).ok());
          ASSERT_EQ(At(c, {m - 1, n - 1}), kInf) << m << "x" << k << "x" << n << " layout " << layout;
        }
      }
    }
  }
}

TEST(MatmulTest, BatchesAreBroadcastAndMayBeStrided) {
  const DType t = DType::kFloat32;
  // Heads next to each other in one matrix, as in attention: [B, S, H, D] seen as [B, H, S, D].
  const Tensor q = Fill(Tensor::Empty(t, {2, 10, 3, 8})).View({{2, 3, 10, 8}, {240, 8, 24, 1}, 0});
  const Tensor k = Fill(Tensor::Empty(t, {2, 10, 3, 8})).View({{2, 3, 8, 10}, {240, 8, 1, 24}, 0});
  const Tensor s = Tensor::Empty(t, {2, 3, 10, 10});
  ASSERT_TRUE(Call("matmul", {q, k}, {s}).ok());
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t i = 0; i < 10; ++i) {
        for (int64_t j = 0; j < 10; ++j) {
          double want = 0;
          for (int64_t d = 0; d < 8; ++d) want += At(q, {b, h, i, d}) * At(k, {b, h, d, j});
          ASSERT_NEAR(At(s, {b, h, i, j}), want, 1e-4);
        }
      }
    }
  }
  // One right operand for all batches: by size 1 and by stride 0.
  const Tensor x = Fill(Tensor::Empty(t, {5, 6, 4})), w = Fill(Tensor::Empty(t, {1, 4, 7}));
  for (const Tensor& right : {w, w.View({{5, 4, 7}, {0, 7, 1}, 0})}) {
    for (int64_t rows : {6, 1}) {
      const Tensor left = x.View({{5, rows, 4}, {24, 4, 1}, 0});
      const Tensor y = Tensor::Empty(t, {5, rows, 7}), bias = Fill(Tensor::Empty(t, {7}));
      ASSERT_TRUE(Call("matmul", {left, right, bias}, {y}).ok());
      for (int64_t b = 0; b < 5; ++b) {
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < 7; ++j) {
            double want = At(bias, {j});
            for (int64_t d = 0; d < 4; ++d) want += At(left, {b, i, d}) * At(w, {0, d, j});
            ASSERT_NEAR(At(y, {b, i, j}), want, 1e-4);
          }
        }
      }
    }
  }
}

TEST(MatmulTest, IntegersWrapAndNothingToAddIsZeroOrTheBias) {
  Tensor a = Tensor::Empty(DType::kInt32, {1, 1}), b = Tensor::Empty(DType::kInt32, {1, 1}), c = a.Clone();
  a.data_as<int32_t>()[0] = 65536;
  b.data_as<int32_t>()[0] = 65537;
  ASSERT_TRUE(Call("matmul", {a, b}, {c}).ok());
  EXPECT_EQ(c.data_as<int32_t>()[0], 65536);  // (2^32 + 2^16) mod 2^32
  Tensor none = Tensor::Empty(DType::kFloat32, {2, 0}), also = Tensor::Empty(DType::kFloat32, {0, 2});
  Tensor out = Fill(Tensor::Empty(DType::kFloat32, {2, 2})), bias = Fill(Tensor::Empty(DType::kFloat32, {2}));
  ASSERT_TRUE(Call("matmul", {none, also, bias}, {out}).ok());
  EXPECT_EQ(At(out, {1, 1}), At(bias, {1}));
  ASSERT_TRUE(Call("matmul", {none, also}, {out}).ok());
  EXPECT_EQ(At(out, {0, 1}), 0);
}

TEST(MatmulTest, TheNumberOfThreadsDoesNotChangeABit) {
  const Tensor a = Matrix(DType::kFloat32, 300, 500, 0), b = Matrix(DType::kFloat32, 500, 400, 1);
  const Tensor c1 = Tensor::Empty(DType::kFloat32, {300, 400}), c3 = c1.Clone();
  ASSERT_TRUE(Call("matmul", {a, b}, {c1}, {}, {}, 1, 1).ok());
  ASSERT_TRUE(Call("matmul", {a, b}, {c3}, {}, {}, 1, 3).ok());
  EXPECT_EQ(std::memcmp(c1.data(), c3.data(), 300 * 400 * 4), 0);
}

TEST(MatmulTest, ShapesThatDoNotFitAreRefused) {
  const Tensor a = Matrix(DType::kFloat32, 2, 3, 0), b = Matrix(DType::kFloat32, 4, 5, 0),
               c = Matrix(DType::kFloat32, 2, 5, 0);
  EXPECT_EQ(Call("matmul", {a, b}, {c}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Call("matmul", {a, Matrix(DType::kFloat64, 3, 5, 0)}, {c}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Call("matmul", {a}, {c}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Call("no such op", {a}, {c}).code(), absl::StatusCode::kUnimplemented);
}

// --- convolution ---

struct ConvCase {
  int spatial;
  int64_t n, ic, oc, groups;
  std::vector<int64_t> in, k, stride, padding, dilation;
  bool transposed;
};

Tensor Image(DType t, std::vector<int64_t> sizes, bool channels_last) {
  if (!channels_last) return Fill(Tensor::Empty(t, sizes));
  std::vector<int64_t> strides(sizes.size());
  int64_t step = sizes[1];
  strides[1] = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 2; --d) strides[d] = step, step *= sizes[d];
  strides[0] = step;
  return Fill(Tensor::EmptyStrided(t, sizes, strides));
}

// Calls f for each (input element, output element, tap) of the definition.
void ForEachTap(
    const ConvCase& c, const std::vector<int64_t>& out,
    const std::function<void(std::vector<int64_t> in, std::vector<int64_t> w, std::vector<int64_t> out)>& f) {
  const int64_t icg = c.ic / c.groups, ocg = c.oc / c.groups;
  std::vector<int64_t> small = c.transposed ? c.in : out, big = c.transposed ? out : c.in;
  std::vector<int64_t> s(c.spatial), k(c.spatial);
  const std::function<void(int, std::vector<int64_t>&, std::vector<int64_t>&, std::vector<int64_t>&)> walk =
      [&](int d, std::vector<int64_t>& at_small, std::vector<int64_t>& at_big, std::vector<int64_t>& at_k) {
        if (d == c.spatial) {
          for (int64_t n = 0; n < c.n; ++n) {
            for (int64_t g = 0; g < c.groups; ++g) {
              for (int64_t i = 0; i < icg; ++i) {
                for (int64_t o = 0; o < ocg; ++o) {
                  std::vector<int64_t> in = {n, g * icg + i}, w, to = {n, g * ocg + o};
                  if (c.transposed)
                    w = {g * icg + i, o};
                  else
                    w = {g * ocg + o, i};
                  const auto& at_in = c.transposed ? at_small : at_big;
                  const auto& at_out = c.transposed ? at_big : at_small;
                  in.insert(in.end(), at_in.begin(), at_in.end());
                  w.insert(w.end(), at_k.begin(), at_k.end());
                  to.insert(to.end(), at_out.begin(), at_out.end());
                  f(in, w, to);
                }
              }
            }
          }
          return;
        }
        for (at_small[d] = 0; at_small[d] < small[d]; ++at_small[d]) {
          for (at_k[d] = 0; at_k[d] < c.k[d]; ++at_k[d]) {
            at_big[d] = at_small[d] * c.stride[d] - c.padding[d] + at_k[d] * c.dilation[d];
            if (at_big[d] >= 0 && at_big[d] < big[d]) walk(d + 1, at_small, at_big, at_k);
          }
        }
      };
  std::vector<int64_t> b(c.spatial);
  walk(0, s, b, k);
}

char* Element(const Tensor& t, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d) at += index[d] * t.strides()[d];
  return static_cast<char*>(t.data()) + at * ItemSize(t.dtype());
}

std::vector<int64_t> ConvInts(const ConvCase& c) {
  std::vector<int64_t> ints;
  for (const auto* l : {&c.stride, &c.padding, &c.dilation}) ints.insert(ints.end(), l->begin(), l->end());
  ints.push_back(c.transposed);
  ints.insert(ints.end(), c.spatial, 0);
  ints.push_back(c.groups);
  return ints;
}

std::vector<int64_t> OutSizes(const ConvCase& c) {
  std::vector<int64_t> out;
  for (int d = 0; d < c.spatial; ++d) {
    const int64_t reach = (c.k[d] - 1) * c.dilation[d] + 1;
    out.push_back(c.transposed ? (c.in[d] - 1) * c.stride[d] - 2 * c.padding[d] + reach
                               : (c.in[d] + 2 * c.padding[d] - reach) / c.stride[d] + 1);
  }
  return out;
}

struct ConvSizes {
  std::vector<int64_t> in, out, weight, places;  // places: the spatial sizes of `out`
};

ConvSizes SizesOf(const ConvCase& c) {
  ConvSizes s{{c.n, c.ic}, {c.n, c.oc}, {c.oc, c.ic / c.groups}, OutSizes(c)};
  if (c.transposed) s.weight = {c.ic, c.oc / c.groups};
  s.in.insert(s.in.end(), c.in.begin(), c.in.end());
  s.out.insert(s.out.end(), s.places.begin(), s.places.end());
  s.weight.insert(s.weight.end(), c.k.begin(), c.k.end());
  return s;
}

std::vector<ConvCase> ConvCases() {
  return {
      {2, 2, 3, 8, 1, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {2, 3, 16, 32, 1, {7, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
      {2, 1, 8, 8, 8, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},  // depthwise
      {2, 2, 6, 4, 2, {8, 9}, {2, 3}, {2, 1}, {0, 2}, {2, 3}, false},
      {1, 4, 5, 7, 1, {20}, {4}, {3}, {2}, {2}, false},
      {3, 2, 2, 3, 1, {5, 4, 6}, {2, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}, false},
      {2, 2, 4, 6, 1, {5, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true},
      {2, 1, 4, 6, 2, {4, 4}, {3, 2}, {1, 2}, {0, 0}, {2, 1}, true},
      {1, 2, 3, 5, 1, {7}, {4}, {2}, {1}, {1}, true},
      {2, 1, 8, 8, 1, {20, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},  // more places than a block of products
      {2, 2, 13, 6, 1, {9, 40}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},  // a few results of one tap
      {2, 2, 8, 8, 2, {3, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},   // rows of half a vector
      {2, 2, 9, 9, 9, {12, 21}, {3, 5}, {2, 1}, {1, 2}, {1, 2}, false},  // depthwise, rows longer than a vector
      {2, 1, 6, 12, 6, {4, 37}, {3, 4}, {1, 2}, {0, 3}, {2, 1}, false},
      {1, 2, 4, 4, 2, {5}, {7}, {1}, {3}, {1}, false},  // every result reads beyond an edge
      // Convolutions of float32 that are summed over rows.
      {2, 1, 3, 3, 3, {40, 37}, {11, 11}, {1, 1}, {5, 5}, {1, 1}, false},
      {2, 2, 4, 8, 4, {13, 19}, {3, 3}, {2, 1}, {1, 1}, {1, 2}, false},
      {2, 1, 3, 4, 1, {70, 33}, {5, 4}, {1, 1}, {2, 0}, {1, 1}, false},
      {3, 1, 4, 4, 4, {5, 6, 20}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, false},
      {1, 2, 12, 12, 12, {50}, {5}, {1}, {7}, {3}, false},
      {2, 1, 2, 2, 1, {3, 8}, {5, 9}, {1, 1}, {2, 8}, {1, 1}, false},
  };
}

TEST(ConvolutionTest, EveryShapeLayoutAndDtypeGivesTheSumOfItsTaps) {
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kInt32}) {
    for (const ConvCase& c : ConvCases()) {
      for (int layout = 0; layout < 4; ++layout) {
        const auto [in_sizes, out_sizes, w_sizes, out] = SizesOf(c);
        const Tensor x = Image(t, in_sizes, layout & 1), y = Image(t, out_sizes, layout & 2);
        const Tensor w = Image(t, w_sizes, layout == 3), bias = Fill(Tensor::Empty(t, {c.oc}));
        ASSERT_TRUE(
            Call("convolution", {x, w, layout == 1 ? Tensor() : bias}, {y}, ConvInts(c), {}, layout & 1 ? 1 : -1).ok());
        Tensor want = Tensor::Empty(DType::kFloat64, out_sizes);
        std::vector<int64_t> index(out_sizes.size(), 0);
        int64_t inner = 1;
        for (size_t d = 2; d < out_sizes.size(); ++d) inner *= out_sizes[d];
        for (int64_t i = 0; i < want.NumElements(); ++i) {
          want.data_as<double>()[i] = layout == 1 ? 0 : At(bias, {i / inner % c.oc});
        }
        ForEachTap(c, out, [&](auto i, auto k, auto o) {
          *reinterpret_cast<double*>(Element(want, o)) += LoadDouble(Element(x, i), t) * LoadDouble(Element(w, k), t);
        });
        int64_t i = 0;
        double worst = 0;
        ForEachElement({static_cast<char*>(y.data()), t, y.sizes(), y.strides()}, [&](const char* p) {
          const double expected = want.data_as<double>()[i++];
          worst = std::max(worst, std::abs(LoadDouble(p, t) - expected) / (1 + std::abs(expected)));
        });
        EXPECT_LE(worst, t == DType::kBFloat16  ? 0.01
                         : t == DType::kFloat16 ? 0.002
                                                : 1e-5)
            << Name(t) << " groups " << c.groups << " spatial " << c.spatial << " transposed " << c.transposed
            << " layout " << layout;
      }
    }
  }
}

TEST(ConvolutionTest, EveryWayToComputeItGivesTheSumOfItsTaps) {
  for (const DType t : {DType::kFloat32, DType::kFloat64}) {
    for (const ConvCase& c : ConvCases()) {
      for (const bool channels_last : {false, true}) {
        const auto [in_sizes, out_sizes, w_sizes, out] = SizesOf(c);
        const Tensor x = Image(t, in_sizes, channels_last), w = Image(t, w_sizes, false);
        const Tensor y = Image(t, out_sizes, channels_last);
        if (y.NumElements() == 0) continue;
        const Tensor want = Fill(Tensor::Empty(DType::kFloat64, out_sizes), [] { return 0.0; });
        ForEachTap(c, out, [&](auto i, auto k, auto o) {
          *reinterpret_cast<double*>(Element(want, o)) += LoadDouble(Element(x, i), t) * LoadDouble(Element(w, k), t);
        });
        LibraryRequest r;
        r.op = "convolution";
        r.inputs = {ShapeOf(x), ShapeOf(w, /*constant=*/true)};
        r.outputs = {ShapeOf(y)};
        r.ints = ConvInts(c);
        PackedWeights packed;
        const auto ways = library_internal::MakeAllConvolutions(r, &packed);
        ASSERT_TRUE(ways.ok()) << ways.status();
        ASSERT_GE(ways->size(), 2) << "loops, and one that is faster";
        for (const library_internal::MadeConvolution& way : *ways) {
          Fill(y, [] { return std::nan(""); });
          char* const in[] = {static_cast<char*>(x.data()), static_cast<char*>(w.data())};
          char* const to[] = {static_cast<char*>(y.data())};
          ASSERT_TRUE(way.op->Run(LibraryContext{}, in, to).ok()) << way.name;
          const double* expected = want.data_as<double>();
          ForEachElement({static_cast<char*>(y.data()), t, y.sizes(), y.strides()}, [&](const char* p) {
            ASSERT_NEAR(LoadDouble(p, t), *expected, 1e-5 * (1 + std::abs(*expected)))
                << way.name << ", " << Name(t) << ", groups " << c.groups << ", spatial " << c.spatial;
            ++expected;
          });
        }
      }
    }
  }
}

// 0 times infinity is NaN: elements outside of the image are not multiplied.
TEST(ConvolutionTest, AnInfiniteWeightBesideTheImageAddsNothing) {
  const Tensor x = Fill(Tensor::Empty(DType::kFloat32, {1, 1, 4, 9}), [] { return 1.0; });
  const Tensor w = Fill(Tensor::Empty(DType::kFloat32, {1, 1, 3, 3}), [] { return 1.0; });
  const Tensor y = Tensor::Empty(DType::kFloat32, {1, 1, 4, 9});
  w.data_as<float>()[3] = INFINITY;  // left of the middle
  ASSERT_TRUE(Call("convolution", {x, w, Tensor()}, {y}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 1}).ok());
  const float* row = y.data_as<float>() + 9;
  EXPECT_EQ(row[0], 6);
  for (int i = 1; i < 9; ++i) EXPECT_EQ(row[i], INFINITY) << i;
}

// The zero point lies beside the images, so that taps there add nothing.
TEST(Int8ConvolutionTest, EveryShapeAndLayoutGivesTheSumOfItsTaps) {
  std::vector<ConvCase> cases = ConvCases();
  cases.push_back({2, 2, 64, 70, 1, {15, 14}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false});
  cases.push_back({2, 1, 40, 33, 1, {30, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false});  // several blocks of places
  cases.push_back({2, 1, 16, 32, 1, {19, 17}, {3, 5}, {2, 1}, {2, 3}, {2, 2}, false});
  for (const DType t : {DType::kUInt8, DType::kInt8}) {
    for (const ConvCase& c : cases) {
      if (c.transposed || c.groups != 1) continue;
      for (int layout = 0; layout < 4; ++layout) {
        for (const int64_t zero : {0, 5}) {
          const auto [in_sizes, out_sizes, w_sizes, out] = SizesOf(c);
          const auto byte = [&] { return std::floor(Random() * 60) + (t == DType::kUInt8 ? 128 : 0); };
          const Tensor x = Fill(Image(t, in_sizes, layout & 1), byte);
          const Tensor w = Fill(Image(DType::kInt8, w_sizes, layout == 3), [] { return std::floor(Random() * 60); });
          const Tensor y = Image(DType::kInt32, out_sizes, layout & 2);
          std::vector<int64_t> ints;
          for (const auto* l : {&c.stride, &c.padding, &c.dilation}) ints.insert(ints.end(), l->begin(), l->end());
          ints.push_back(zero);
          ASSERT_TRUE(Call("int8_convolution", {x, w}, {y}, ints, {}, layout & 1 ? 1 : -1, 1 + layout / 2).ok());
          const Tensor want = Fill(Tensor::Empty(DType::kInt32, out_sizes), [] { return 0.0; });
          ForEachTap(c, out, [&](auto i, auto k, auto o) {
            const int64_t difference = LoadInt(Element(x, i), t) - zero;
            *reinterpret_cast<int32_t*>(Element(want, o)) +=
                static_cast<int32_t>(difference * LoadInt(Element(w, k), DType::kInt8));
          });
          const int32_t* expected = want.data_as<int32_t>();
          ForEachElement({static_cast<char*>(y.data()), y.dtype(), y.sizes(), y.strides()}, [&](const char* p) {
            ASSERT_EQ(LoadInt(p, DType::kInt32), *expected++)
                << Name(t) << ", " << c.ic << " to " << c.oc << " channels, spatial " << c.spatial << ", layout "
                << layout;
          });
        }
      }
    }
  }
}

TEST(Int8ConvolutionTest, OperandsThatDoNotFitAreRefused) {
  const Tensor x = Image(DType::kUInt8, {1, 2, 4, 4}, false), w = Image(DType::kInt8, {3, 2, 3, 3}, false);
  const Tensor y = Image(DType::kInt32, {1, 3, 4, 4}, false);
  EXPECT_TRUE(Call("int8_convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 1, 0}).ok());
  EXPECT_FALSE(Call("int8_convolution", {x, w}, {y}, {1, 1, 0, 0, 1, 1, 0}).ok());   // of another size
  EXPECT_FALSE(Call("int8_convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 1, -1}).ok());  // no such uint8
  EXPECT_FALSE(Call("int8_convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 1, 256}).ok());
  EXPECT_FALSE(Call("int8_convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 0}).ok());
  EXPECT_FALSE(Call("int8_convolution", {x, w}, {x}, {1, 1, 1, 1, 1, 1, 0}).ok());
}

TEST(Int8ConvolutionTest, PaddingThatNoMemoryHoldsIsRefused) {
  const Tensor x = Image(DType::kUInt8, {1, 1, 2, 2, 2}, false), w = Image(DType::kInt8, {1, 1, 33, 33, 33}, false);
  const Tensor y = Image(DType::kInt32, {1, 1, 2, 2, 2}, false);
  constexpr int64_t kPadding = 1 << 24, kDilation = 1 << 20;
  EXPECT_EQ(
      Call("int8_convolution", {x, w}, {y}, {1, 1, 1, kPadding, kPadding, kPadding, kDilation, kDilation, kDilation, 0})
          .code(),
      absl::StatusCode::kUnimplemented);
}

// One image of more than 16 million multiplications becomes several slices. Float64 uses products, which the test above
// covers.
TEST(ConvolutionTest, ALargeImageIsTheSameInBandsOfRowsOnAnyNumberOfThreads) {
  const std::vector<ConvCase> cases = {
      {2, 1, 32, 64, 1, {33, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {2, 1, 16, 32, 1, {61, 64}, {7, 7}, {2, 2}, {3, 3}, {1, 1}, false},
      {2, 2, 32, 64, 2, {36, 36}, {3, 3}, {1, 1}, {0, 0}, {3, 2}, false},
      {2, 1, 256, 256, 256, {90, 90}, {3, 3}, {1, 1}, {2, 2}, {1, 1}, false},
      {1, 1, 64, 64, 1, {4001}, {5}, {2}, {2}, {1}, false},
      {3, 1, 16, 32, 1, {12, 10, 10}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, false},
  };
  for (const ConvCase& c : cases) {
    const auto [in_sizes, out_sizes, w_sizes, out] = SizesOf(c);
    for (int layout = c.spatial == 2 && c.groups == 1 ? 0 : 3; layout < 4; layout += 3) {
      const DType t = DType::kFloat32;
      const Tensor x = Image(t, in_sizes, layout & 1), y = Image(t, out_sizes, layout & 2);
      const Tensor w = Image(t, w_sizes, false), bias = Fill(Tensor::Empty(t, {c.oc}));
      std::vector<Tensor> wide;
      for (const Tensor& v : {x, w, bias}) {
        wide.push_back(Tensor::Empty(DType::kFloat64, v.sizes()));
        double* to = wide.back().data_as<double>();
        ForEachElement({static_cast<char*>(v.data()), t, v.sizes(), v.strides()},
                       [&](const char* p) { *to++ = LoadDouble(p, t); });
      }
      const Tensor want = Tensor::Empty(DType::kFloat64, out_sizes);
      ASSERT_TRUE(Call("convolution", wide, {want}, ConvInts(c)).ok());
      ASSERT_TRUE(Call("convolution", {x, w, bias}, {y}, ConvInts(c), {}, layout & 1 ? 1 : -1).ok());
      double worst = 0;
      const double* expected = want.data_as<double>();
      ForEachElement({static_cast<char*>(y.data()), t, y.sizes(), y.strides()}, [&](const char* p) {
        worst = std::max(worst, std::abs(LoadDouble(p, t) - *expected) / (1 + std::abs(*expected)));
        ++expected;
      });
      EXPECT_LE(worst, 2e-5) << c.ic << " channels, spatial " << c.spatial << ", layout " << layout;
      const Tensor alone = Image(t, out_sizes, layout & 2);
      ASSERT_TRUE(Call("convolution", {x, w, bias}, {alone}, ConvInts(c), {}, -1, /*threads=*/1).ok());
      EXPECT_EQ(std::memcmp(alone.data(), y.data(), y.NumElements() * 4), 0) << c.ic << " channels, layout " << layout;
    }
  }
}

// With the layout of weights that the first band chose, the last band of these (ResNet-50, DenseNet-121) could only use
// oneDNN's reference code, which is a hundred times slower.
TEST(ConvolutionTest, NoBandRunsReferenceCode) {
  if (!HasOnednn()) GTEST_SKIP() << "there is no oneDNN";
  const std::vector<ConvCase> cases = {
      {2, 1, 256, 128, 1, {56, 56}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {2, 1, 128, 512, 1, {28, 28}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {2, 1, 512, 256, 1, {28, 28}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {2, 1, 960, 128, 1, {14, 14}, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},
      {2, 3, 64, 64, 1, {37, 37}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
  };
  for (const ConvCase& c : cases) {
    const Tensor x = Image(DType::kFloat32, {c.n, c.ic, c.in[0], c.in[1]}, true);
    const Tensor y = Image(DType::kFloat32, {c.n, c.oc, OutSizes(c)[0], OutSizes(c)[1]}, true);
    const Tensor w = Image(DType::kFloat32, {c.oc, c.ic, c.k[0], c.k[1]}, false);
    testing::internal::CaptureStdout();
    dnnl_set_verbose(1);
    const absl::Status ran = Call("convolution", {x, w}, {y}, ConvInts(c));
    dnnl_set_verbose(0);
    std::fflush(stdout);
    const std::string log = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(ran.ok());
    EXPECT_THAT(log, testing::HasSubstr(",convolution,")) << "oneDNN says nothing";
    EXPECT_THAT(log, testing::Not(testing::HasSubstr(",ref"))) << c.ic << " channels";
  }
}

// Making a primitive generates code, which takes longer than an image.
TEST(ConvolutionTest, ALargerBatchRunsTheCodeThatASmallerOneGenerated) {
  if (!HasOnednn()) GTEST_SKIP() << "there is no oneDNN";
  const std::vector<ConvCase> cases = {
      {2, 1, 64, 64, 1, {56, 56}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {2, 1, 256, 512, 1, {14, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
      {2, 1, 256, 512, 1, {56, 56}, {1, 1}, {2, 2}, {0, 0}, {1, 1}, false},
      {2, 1, 48, 48, 1, {30, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
      {2, 1, 64, 32, 1, {20, 20}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, true},
  };
  for (ConvCase c : cases) {
    for (const bool channels_last : {false, true}) {
      // Returns what oneDNN says of the primitives that a batch makes.
      const auto run = [&](int64_t batch) {
        const std::vector<int64_t> out = OutSizes(c);
        const Tensor x = Image(DType::kFloat32, {batch, c.ic, c.in[0], c.in[1]}, channels_last);
        const Tensor y = Image(DType::kFloat32, {batch, c.oc, out[0], out[1]}, channels_last);
        const Tensor w = c.transposed ? Image(DType::kFloat32, {c.ic, c.oc, c.k[0], c.k[1]}, false)
                                      : Image(DType::kFloat32, {c.oc, c.ic, c.k[0], c.k[1]}, false);
        testing::internal::CaptureStdout();
        dnnl_set_verbose(2);
        const absl::Status ran = Call("convolution", {x, w}, {y}, ConvInts(c));
        dnnl_set_verbose(0);
        std::fflush(stdout);
        EXPECT_TRUE(ran.ok()) << ran;
        return testing::internal::GetCapturedStdout();
      };
      run(1);
      for (const int64_t batch : {2, 8, 3}) {
        const std::string log = run(batch);
        EXPECT_THAT(log, testing::HasSubstr("create:cache_hit")) << "oneDNN says nothing";
        EXPECT_THAT(log, testing::Not(testing::HasSubstr("create:cache_miss")))
            << c.ic << " channels, batch " << batch << ", channels last: " << channels_last;
      }
    }
  }
}

TEST(ConvolutionTest, OneDimOfSeparateChannelsIsAnImageOfOneRow) {
  const std::vector<ConvCase> cases = {
      {1, 2, 24, 24, 24, {50}, {3}, {1}, {1}, {1}, false},
      {1, 1, 16, 32, 4, {31}, {5}, {2}, {4}, {2}, false},
      {1, 2, 16, 16, 16, {40}, {3}, {1}, {0}, {1}, true},
  };
  for (const ConvCase& c : cases) {
    const std::vector<int64_t> w_sizes = {c.transposed ? c.ic : c.oc, (c.transposed ? c.oc : c.ic) / c.groups, c.k[0]};
    const Tensor x = Image(DType::kFloat32, {c.n, c.ic, c.in[0]}, false);
    const Tensor y = Tensor::Empty(DType::kFloat32, {c.n, c.oc, OutSizes(c)[0]});
    const Tensor w = Image(DType::kFloat32, w_sizes, false);
    ASSERT_TRUE(Call("convolution", {x, w}, {y}, ConvInts(c)).ok());
    Tensor want = Tensor::Empty(DType::kFloat64, y.sizes());
    std::fill_n(want.data_as<double>(), want.NumElements(), 0);
    ForEachTap(c, OutSizes(c), [&](auto i, auto k, auto o) {
      *reinterpret_cast<double*>(Element(want, o)) +=
          LoadDouble(Element(x, i), DType::kFloat32) * LoadDouble(Element(w, k), DType::kFloat32);
    });
    for (int64_t i = 0; i < y.NumElements(); ++i) {
      ASSERT_NEAR(y.data_as<float>()[i], want.data_as<double>()[i], 1e-4) << c.groups << " groups, element " << i;
    }
  }
}

// Blocks of 8 by 8, and the remainders on both sides. Copies each part when it is notified.
class Listener : public PartListener {
 public:
  Listener(const Tensor& of, int64_t unit)
      : unit_(unit), of_(static_cast<const float*>(of.data())), seen_(of.NumElements()), times_(of.NumElements()) {}
  void OnPart(int64_t begin, int64_t end) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(begin % unit_, 0);
    EXPECT_EQ(end % unit_, 0);
    for (int64_t i = begin; i < end; ++i) seen_.at(i) = of_[i], ++times_.at(i);
    ++parts_;
  }
  bool HeardAllOnce() const {
    return std::all_of(times_.begin(), times_.end(), [](int n) { return n == 1; }) &&
           std::memcmp(seen_.data(), of_, seen_.size() * sizeof(float)) == 0;
  }
  int parts() const { return parts_; }

 private:
  const int64_t unit_;
  const float* of_;
  mutable std::mutex mutex_;
  mutable std::vector<float> seen_;
  mutable std::vector<int> times_;
  mutable int parts_ = 0;
};

// Returns the number of parts that a listener is notified of; 0 if the op does not notify.
int Parts(const std::string& op, const std::vector<Tensor>& inputs, const Tensor& output, std::vector<int64_t> ints) {
  Library library;
  LibraryRequest r;
  r.op = op;
  std::vector<char*> in;
  for (const Tensor& t : inputs) {
    r.inputs.push_back(ShapeOf(t));
    in.push_back(static_cast<char*>(t.data()));
  }
  r.outputs = {ShapeOf(output)};
  r.ints = std::move(ints);
  auto made = library.Prepare(r);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok() || (*made)->PartUnit() == 0) return 0;
  ThreadPool pool(2);
  const Listener listener(output, (*made)->PartUnit());
  char* out = static_cast<char*>(output.data());
  EXPECT_TRUE((*made)->Run({&pool, 3, &listener}, in, {&out, 1}).ok());
  EXPECT_TRUE(listener.HeardAllOnce());
  return listener.parts();
}

TEST(PartsTest, RowsOfAProductAreToldOfOnceAndComplete) {
  const auto product = [](std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> c) {
    const DType t = DType::kFloat32;
    return Parts("matmul", {Fill(Tensor::Empty(t, a)), Fill(Tensor::Empty(t, b))}, Tensor::Empty(t, c), {});
  };
  EXPECT_GT(product({5000, 64}, {64, 48}, {5000, 48}), 2);
  EXPECT_GT(product({333, 300}, {300, 500}, {333, 500}), 2);
  EXPECT_GT(product({3, 200, 100}, {3, 100, 300}, {3, 200, 300}), 2);
  EXPECT_GT(product({3, 40, 30}, {1, 30, 70}, {3, 40, 70}), 0);  // one right operand for all
  EXPECT_EQ(product({2, 500}, {500, 3000}, {2, 3000}), 0);       // of few rows each tile has some columns
}

TEST(PartsTest, ImagesAndBandsOfAConvolutionAreToldOfOnceAndComplete) {
  if (!HasOnednn()) GTEST_SKIP() << "only convolutions by oneDNN tell of parts";
  const auto convolution = [](bool channels_last, ConvCase c) {
    const DType t = DType::kFloat32;
    const std::vector<int64_t> out = OutSizes(c);
    return Parts("convolution",
                 {Fill(Image(t, {c.n, c.ic, c.in[0], c.in[1]}, channels_last)),
                  Fill(Image(t, {c.oc, c.ic, c.k[0], c.k[1]}, false)), Fill(Tensor::Empty(t, {c.oc}))},
                 Image(t, {c.n, c.oc, out[0], out[1]}, channels_last), ConvInts(c));
  };
  const ConvCase images = {2, 16, 8, 16, 1, {33, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false};
  const ConvCase many = {2, 16, 32, 64, 1, {33, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false};
  const ConvCase bands = {2, 1, 64, 64, 1, {90, 90}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false};
  EXPECT_GT(convolution(false, images), 2);
  EXPECT_GT(convolution(true, images), 2);
  EXPECT_EQ(convolution(false, many), 16);  // an image is a few bands
  EXPECT_GT(convolution(true, bands), 2);
  EXPECT_EQ(convolution(false, bands), 0);  // a band is a piece of each channel
}

TEST(TransposeTest, EveryElementArrives) {
  for (int64_t rows : {1, 7, 8, 16, 19, 40}) {
    for (int64_t columns : {1, 5, 8, 17, 32}) {
      const int64_t from_step = columns + 3, to_step = rows + 2;
      std::vector<int32_t> from(rows * from_step), to(columns * to_step, -1);
      std::iota(from.begin(), from.end(), 0);
      Transpose4ByteElements(rows, columns, from.data(), from_step, to.data(), to_step);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t r = 0; r < to_step; ++r) {
          ASSERT_EQ(to[c * to_step + r], r < rows ? from[r * from_step + c] : -1) << rows << " by " << columns;
        }
      }
    }
  }
}

TEST(TransposeTest, EveryByteArrives) {
  for (int64_t rows : {1, 15, 16, 33, 64}) {
    for (int64_t columns : {1, 7, 16, 31, 48}) {
      const int64_t from_step = columns + 3, to_step = rows + 2;
      std::vector<uint8_t> from(rows * from_step), to(columns * to_step, 255);
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i % 251);
      TransposeBytes(rows, columns, from.data(), from_step, to.data(), to_step);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t r = 0; r < to_step; ++r) {
          ASSERT_EQ(to[c * to_step + r], r < rows ? from[r * from_step + c] : 255) << rows << " by " << columns;
        }
      }
    }
  }
}

TEST(ConvolutionTest, AnExpandedWeightGivesWhatItsCopyGives) {
  const ConvCase c = {2, 2, 3, 3, 3, {12, 10}, {5, 1}, {1, 1}, {2, 0}, {1, 1}, false};
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x = Image(t, {c.n, c.ic, c.in[0], c.in[1]}, false);
    const Tensor w = Fill(Tensor::Empty(t, {1, 1, 5, 1})).View({{3, 1, 5, 1}, {0, 5, 1, 1}, 0});
    const Tensor expanded = Image(t, {c.n, c.oc, 12, 10}, false), copied = Image(t, {c.n, c.oc, 12, 10}, false);
    ASSERT_TRUE(Call("convolution", {x, w}, {expanded}, ConvInts(c)).ok());
    ASSERT_TRUE(Call("convolution", {x, w.Clone()}, {copied}, ConvInts(c)).ok());
    EXPECT_EQ(std::memcmp(expanded.data(), copied.data(), expanded.NumElements() * ItemSize(t)), 0);
  }
}

TEST(ConvolutionTest, TheBackwardIsTheTransposeOfEachOperand) {
  for (const ConvCase& c : ConvCases()) {
    for (DType t : {DType::kFloat32, DType::kFloat64}) {
      const auto [in_sizes, out_sizes, w_sizes, out] = SizesOf(c);
      const Tensor x = Image(t, in_sizes, false), w = Image(t, w_sizes, false), g = Image(t, out_sizes, false);
      const Tensor gx = Image(t, in_sizes, true), gw = Image(t, w_sizes, false), gb = Tensor::Empty(t, {c.oc});
      ASSERT_TRUE(Call("convolution_backward", {g, x, w}, {gx, gw, gb}, ConvInts(c)).ok());
      Tensor want_x = Fill(Tensor::Empty(DType::kFloat64, in_sizes), [] { return 0.0; });
      Tensor want_w = Fill(Tensor::Empty(DType::kFloat64, w_sizes), [] { return 0.0; });
      ForEachTap(c, out, [&](auto i, auto k, auto o) {
        *reinterpret_cast<double*>(Element(want_x, i)) += LoadDouble(Element(g, o), t) * LoadDouble(Element(w, k), t);
        *reinterpret_cast<double*>(Element(want_w, k)) += LoadDouble(Element(g, o), t) * LoadDouble(Element(x, i), t);
      });
      for (auto [got, want] : {std::pair{gx, want_x}, {gw, want_w}}) {
        int64_t i = 0;
        ForEachElement({static_cast<char*>(got.data()), t, got.sizes(), got.strides()},
                       [&, want = want](const char* p) {
                         const double expected = want.data_as<double>()[i++];
                         EXPECT_NEAR(LoadDouble(p, t), expected, 1e-4 * (1 + std::abs(expected)));
                       });
      }
      double bias0 = 0;
      int64_t inner = g.NumElements() / (c.n * c.oc);
      for (int64_t n = 0; n < c.n; ++n) {
        for (int64_t i = 0; i < inner; ++i) {
          bias0 += LoadDouble(static_cast<char*>(g.data()) + (n * c.oc * inner + i) * ItemSize(t), t);
        }
      }
      EXPECT_NEAR(At(gb, {0}), bias0, 1e-4 * (1 + std::abs(bias0)));
    }
  }
}

TEST(ConvolutionTest, AttributesThatDoNotFitAreRefused) {
  const Tensor x = Image(DType::kFloat32, {1, 2, 4, 4}, false), w = Image(DType::kFloat32, {3, 2, 3, 3}, false);
  const Tensor y = Image(DType::kFloat32, {1, 3, 4, 4}, false);
  EXPECT_TRUE(Call("convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 1}).ok());
  EXPECT_FALSE(Call("convolution", {x, w}, {y}, {1, 1, 0, 0, 1, 1, 0, 0, 0, 1}).ok());
  EXPECT_FALSE(Call("convolution", {x, w}, {y}, {0, 1, 1, 1, 1, 1, 0, 0, 0, 1}).ok());
  EXPECT_FALSE(Call("convolution", {x, w}, {y}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 2}).ok());
  EXPECT_FALSE(Call("convolution", {x, w}, {y}, {1, 1}).ok());
}

// --- sorting and choosing; the expected values are PyTorch's ---

Tensor Floats(std::vector<float> v) {
  Tensor t = Tensor::Empty(DType::kFloat32, {static_cast<int64_t>(v.size())});
  std::copy(v.begin(), v.end(), t.data_as<float>());
  return t;
}
Tensor Ints(std::vector<int64_t> v) {
  Tensor t = Tensor::Empty(DType::kInt64, {static_cast<int64_t>(v.size())});
  std::copy(v.begin(), v.end(), t.data_as<int64_t>());
  return t;
}
std::vector<int64_t> IntsOf(const Tensor& t) { return {t.data_as<int64_t>(), t.data_as<int64_t>() + t.NumElements()}; }
std::vector<float> FloatsOf(const Tensor& t) { return {t.data_as<float>(), t.data_as<float>() + t.NumElements()}; }

TEST(SortTest, IsStableAndPutsNanLast) {
  // torch.sort(torch.tensor([3., nan, 1., 3., -inf, 1.]), stable=True)
  const Tensor x = Floats({3, NAN, 1, 3, -INFINITY, 1}), values = x.Clone(), indices = Ints({0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(Call("sort", {x}, {values, indices}, {0, 0, 1}).ok());
  EXPECT_THAT(IntsOf(indices), ElementsAre(4, 2, 5, 0, 3, 1));
  EXPECT_TRUE(std::isnan(FloatsOf(values)[5]));
  ASSERT_TRUE(Call("sort", {x}, {Tensor(), indices}, {-1, 1, 1}).ok());
  EXPECT_THAT(IntsOf(indices), ElementsAre(1, 0, 3, 2, 5, 4));
}

// Numbers with ties, both zeros, infinities and NaN, of every dtype that has an order; both long enough to be sorted by
// digits, and shorter.
class OrderTest : public ::testing::TestWithParam<DType> {
 protected:
  static Tensor Numbers(int64_t n) {
    const DType t = GetParam();
    Tensor x = Tensor::Empty(t, {n});
    std::mt19937 rng(static_cast<unsigned>(n));
    for (int64_t i = 0; i < n; ++i) {
      double v = static_cast<int>(rng() % 200) - (t == DType::kUInt8 ? 0 : 100);
      if (IsFloating(t)) {
        const double special[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-7, -1e-7};
        v = rng() % 4 == 0 ? special[rng() % 8] : v / 8;
      }
      StoreDouble(static_cast<char*>(x.data()) + i * ItemSize(t), t, v);
    }
    return x;
  }
  static double At(const Tensor& x, int64_t i) {
    return LoadDouble(static_cast<const char*>(x.data()) + i * ItemSize(x.dtype()), x.dtype());
  }
  static bool Less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
};
INSTANTIATE_TEST_SUITE_P(DTypes, OrderTest,
                         ::testing::Values(DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
                                           DType::kInt64, DType::kInt32, DType::kInt16, DType::kInt8, DType::kUInt8,
                                           DType::kBool),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(OrderTest, OfSortIsThatOfAStableSortAndOfTopKThatOfPyTorchsCalls) {
  for (int64_t n : {1, 2, 5, 16, 17, 50, 3000}) {
    const Tensor x = Numbers(n);
    for (bool descending : {false, true}) {
      std::vector<int64_t> want(static_cast<size_t>(n));
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
        return descending ? Less(At(x, b), At(x, a)) : Less(At(x, a), At(x, b));
      });
      const Tensor indices = Tensor::Empty(DType::kInt64, {n});
      ASSERT_TRUE(Call("sort", {x}, {Tensor(), indices}, {0, descending, 1}).ok());
      ASSERT_EQ(IntsOf(indices), want) << n;
      for (int64_t k : {int64_t{1}, n / 50, n / 2}) {
        const Tensor some = Tensor::Empty(DType::kInt64, {k});
        ASSERT_TRUE(Call("topk", {x}, {Tensor(), some}, {k, 0, descending, 1}).ok());
        // Equal elements are in the order that the algorithms of PyTorch's kernel give.
        const auto before = [&](const auto& a, const auto& b) {
          return descending ? Less(b.first, a.first) : Less(a.first, b.first);
        };
        std::vector<std::pair<double, int64_t>> queue;
        for (int64_t i = 0; i < n; ++i) queue.push_back({At(x, i), i});
        if (k * 64 <= n) {
          std::partial_sort(queue.begin(), queue.begin() + k, queue.end(), before);
        } else {
          std::nth_element(queue.begin(), queue.begin() + (k - 1), queue.end(), before);
          std::sort(queue.begin(), queue.begin() + (k - 1), before);
        }
        std::vector<int64_t> first;
        for (int64_t i = 0; i < k; ++i) first.push_back(queue[static_cast<size_t>(i)].second);
        ASSERT_EQ(IntsOf(some), first) << n;
      }
    }
  }
}

TEST_P(OrderTest, OfTopKAmongNumbersThatDifferIsThatOfTheirSizes) {
  const DType t = GetParam();
  if (ItemSize(t) < 4) GTEST_SKIP() << "has not so many numbers";
  std::mt19937 rng(7);
  for (int64_t n : {64, 100, 3001}) {
    for (int64_t apart : {1, 2}) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), -n / 2);
      std::shuffle(order.begin(), order.end(), rng);
      const Tensor x = Tensor::EmptyStrided(t, {n}, {apart});
      for (int64_t i = 0; i < n; ++i) {
        const double v = order[static_cast<size_t>(i)] == n / 4 && IsFloating(t) ? NAN : order[static_cast<size_t>(i)];
        StoreDouble(static_cast<char*>(x.data()) + i * apart * ItemSize(t), t, v);
      }
      std::vector<int64_t> want(static_cast<size_t>(n));
      std::iota(want.begin(), want.end(), 0);
      const auto at = [&](int64_t i) { return At(x, i * apart); };
      for (bool descending : {false, true}) {
        std::sort(want.begin(), want.end(),
                  [&](int64_t a, int64_t b) { return descending ? Less(at(b), at(a)) : Less(at(a), at(b)); });
        for (int64_t k : {int64_t{2}, n / 20}) {
          const Tensor some = Tensor::Empty(DType::kInt64, {k});
          ASSERT_TRUE(Call("topk", {x}, {Tensor(), some}, {k, 0, descending, 1}).ok());
          ASSERT_EQ(IntsOf(some), std::vector<int64_t>(want.begin(), want.begin() + k)) << n << " " << k;
        }
      }
    }
  }
}

TEST_P(OrderTest, OfUniqueIsAscendingAndEveryNanIsItsOwn) {
  const Tensor x = Numbers(3000), count = Ints({0});
  ASSERT_TRUE(Call("unique_count", {x}, {count}, {0}).ok());
  std::vector<double> want;
  for (int64_t i = 0; i < 3000; ++i) want.push_back(At(x, i));
  std::stable_sort(want.begin(), want.end(), Less);
  want.erase(std::unique(want.begin(), want.end()), want.end());
  ASSERT_EQ(IntsOf(count)[0], static_cast<int64_t>(want.size()));
  const Tensor values = Tensor::Empty(GetParam(), {static_cast<int64_t>(want.size())});
  ASSERT_TRUE(Call("unique", {x}, {values}, {0}).ok());
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = At(values, static_cast<int64_t>(i));
    ASSERT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i]))) << i;
  }
}

// PyTorch's binary search over `length` ordered elements, which compares the middle element: NaN is after none.
int64_t PlaceOf(double value, const std::function<double(int64_t)>& element, int64_t length, bool right) {
  int64_t low = 0, high = length;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (right ? !(element(middle) > value) : !(element(middle) >= value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

TEST_P(OrderTest, OfSearchSortedIsTheNumberOfElementsBelow) {
  const Tensor x = Numbers(600), values = Numbers(500);
  const Tensor sorted = Tensor::Empty(GetParam(), {600}), out = Tensor::Empty(DType::kInt64, {500});
  ASSERT_TRUE(Call("sort", {x}, {sorted, Tensor()}, {0, 0, 1}).ok());
  for (bool right : {false, true}) {
    ASSERT_TRUE(Call("searchsorted", {sorted, values}, {out}, {right}).ok());
    for (int64_t i = 0; i < 500; ++i) {
      const int64_t want = PlaceOf(At(values, i), [&](int64_t k) { return At(sorted, k); }, 600, right);
      ASSERT_EQ(IntsOf(out)[i], want) << At(values, i);
    }
  }
}

TEST_P(OrderTest, NonzeroNamesEachElementThatIsNot) {
  const Tensor x = Numbers(600).View({{3, 10, 20}, {1, 60, 3}, 0}), count = Ints({0});
  std::vector<int64_t> want;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 10; ++j) {
      for (int64_t k = 0; k < 20; ++k) {
        const double v = At(Numbers(600), i + 60 * j + 3 * k);
        if (v != 0) want.insert(want.end(), {i, j, k});
      }
    }
  }
  ASSERT_TRUE(Call("count_nonzero", {x}, {count}).ok());
  ASSERT_EQ(IntsOf(count)[0] * 3, static_cast<int64_t>(want.size()));
  const Tensor out = Tensor::Empty(DType::kInt64, {static_cast<int64_t>(want.size()) / 3, 3});
  ASSERT_TRUE(Call("nonzero", {x}, {out}).ok());
  EXPECT_EQ(IntsOf(out), want);
}

TEST(SortTest, SortsAlongAnyDimAndInPlace) {
  Tensor x = Floats({3, 1, 2, 0, 5, 4}).View({{2, 3}, {3, 1}, 0});
  ASSERT_TRUE(Call("sort", {x}, {x, Tensor()}, {0, 0, 1}).ok());
  EXPECT_THAT(FloatsOf(x), ElementsAre(0, 1, 2, 3, 5, 4));
}

TEST(TopKTest, TakesTheLargestOrSmallest) {
  const Tensor x = Ints({5, 1, 9, 9, 3}), values = Ints({0, 0, 0}), indices = Ints({0, 0, 0});
  ASSERT_TRUE(Call("topk", {x}, {values, indices}, {3, -1, 1, 1}).ok());
  EXPECT_THAT(IntsOf(values), ElementsAre(9, 9, 5));
  EXPECT_THAT(IntsOf(indices), ElementsAre(2, 3, 0));
  ASSERT_TRUE(Call("topk", {x}, {values, indices}, {3, 0, 0, 1}).ok());
  EXPECT_THAT(IntsOf(values), ElementsAre(1, 3, 5));
  EXPECT_FALSE(Call("topk", {x}, {values, indices}, {6, 0, 0, 1}).ok());
}

// Rows with other strides and order than the result's; chunks of values end within rows.
TEST_P(OrderTest, OfSearchSortedHasARowOfItsOwnForEachRow) {
  const int64_t rows = 50, length = 33, width = 100;
  const Tensor x = Numbers(rows * length).View({{rows, length}, {length, 1}, 0});
  const Tensor values = Numbers(rows * width).View({{rows, width}, {width, 1}, 0});
  const Tensor sorted = Tensor::Empty(GetParam(), {rows, length}), out = Tensor::Empty(DType::kInt64, {rows, width});
  ASSERT_TRUE(Call("sort", {x}, {sorted, Tensor()}, {1, 0, 1}).ok());
  for (bool right : {false, true}) {
    ASSERT_TRUE(Call("searchsorted", {sorted, values}, {out}, {right}).ok());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        const auto element = [&](int64_t k) { return At(sorted, r * length + k); };
        const int64_t want = PlaceOf(At(values, r * width + i), element, length, right);
        ASSERT_EQ(IntsOf(out)[r * width + i], want) << r << " " << i;
      }
    }
  }
}

TEST(SearchSortedTest, FindsTheFirstOrTheLastPlace) {
  const Tensor sorted = Floats({1, 3, 3, 5}), values = Floats({0, 3, 4, 6}), out = Ints({0, 0, 0, 0});
  ASSERT_TRUE(Call("searchsorted", {sorted, values}, {out}, {0}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(0, 1, 3, 4));
  ASSERT_TRUE(Call("searchsorted", {sorted, values}, {out}, {1}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(0, 3, 3, 4));
  const Tensor shuffled = Floats({5, 1, 3, 3});
  ASSERT_TRUE(Call("searchsorted", {shuffled, values, Ints({1, 2, 3, 0})}, {out}, {0}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(Call("searchsorted", {shuffled, values, Ints({1, 2, 9, 0})}, {out}, {0}).code(),
            absl::StatusCode::kFailedPrecondition);
}

// Expected are the results of PyTorch 2.13.
TEST(SearchSortedTest, OfNanAmongTheBoundariesIsWhereTheSearchEnds) {
  const float nan = std::nanf("");
  const Tensor values = Floats({-2, 0, .5f, nan, 9, .1f}), out = Ints({0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(Call("searchsorted", {Floats({-1, 0, 1, nan}), values}, {out}, {0}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(0, 1, 2, 4, 4, 2));
  ASSERT_TRUE(Call("searchsorted", {Floats({-1, 0, 1, nan}), values}, {out}, {1}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(0, 2, 2, 4, 4, 2));
  ASSERT_TRUE(Call("searchsorted", {Floats({0, 1, nan, nan}), values}, {out}, {0}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(4, 4, 4, 4, 4, 4));
  ASSERT_TRUE(Call("searchsorted", {Floats({-1, nan, 0, 1}), values}, {out}, {1}).ok());
  EXPECT_THAT(IntsOf(out), ElementsAre(2, 3, 3, 4, 4, 3));
}

TEST(SelectTest, NonzeroMaskedSelectAndScatterUniqueAndBincount) {
  const Tensor x = Floats({0, 2, 0, 4, 5, 0}).View({{2, 3}, {3, 1}, 0});
  const Tensor count = Ints({0});
  ASSERT_TRUE(Call("count_nonzero", {x}, {count}).ok());
  EXPECT_EQ(IntsOf(count)[0], 3);
  const Tensor where = Tensor::Empty(DType::kInt64, {3, 2});
  ASSERT_TRUE(Call("nonzero", {x}, {where}).ok());
  EXPECT_THAT(IntsOf(where), ElementsAre(0, 1, 1, 0, 1, 1));

  Tensor mask = Tensor::Empty(DType::kBool, {2, 3});
  for (int i = 0; i < 6; ++i) mask.data_as<bool>()[i] = i % 2 == 0;
  const Tensor chosen = Floats({0, 0, 0});
  ASSERT_TRUE(Call("masked_select", {x, mask}, {chosen}).ok());
  EXPECT_THAT(FloatsOf(chosen), ElementsAre(0, 0, 5));
  const Tensor scattered = x.Clone();
  ASSERT_TRUE(Call("masked_scatter", {x, mask, Floats({7, 8, 9, 10})}, {scattered}).ok());
  EXPECT_THAT(FloatsOf(scattered), ElementsAre(7, 2, 8, 4, 9, 0));
  EXPECT_EQ(Call("masked_scatter", {x, mask, Floats({7})}, {scattered}).code(), absl::StatusCode::kFailedPrecondition);

  const Tensor many = Ints({3, 1, 3, 2, 1, 3});
  ASSERT_TRUE(Call("unique_count", {many}, {count}, {0}).ok());
  EXPECT_EQ(IntsOf(count)[0], 3);
  const Tensor values = Ints({0, 0, 0}), inverse = Ints({0, 0, 0, 0, 0, 0}), counts = Ints({0, 0, 0});
  ASSERT_TRUE(Call("unique", {many}, {values, inverse, counts}, {0}).ok());
  EXPECT_THAT(IntsOf(values), ElementsAre(1, 2, 3));
  EXPECT_THAT(IntsOf(inverse), ElementsAre(2, 0, 2, 1, 0, 2));
  EXPECT_THAT(IntsOf(counts), ElementsAre(2, 1, 3));
  const Tensor bins = Ints({9, 9, 9, 9, 9});
  ASSERT_TRUE(Call("bincount", {many}, {bins}).ok());
  EXPECT_THAT(IntsOf(bins), ElementsAre(0, 2, 1, 3, 0));
}

TEST(CpuTest, ALevelIsWhatItsFeaturesAre) {
  if (CpuLevel() == "x86-64-v4") {
    EXPECT_TRUE(CpuHas("avx512vl"));
  }
  EXPECT_FALSE(CpuHas("no such feature"));
#if defined(__aarch64__)
  constexpr const char* kEverywhere = "neon";
#else
  constexpr const char* kEverywhere = "sse2";
#endif
  EXPECT_THAT(MissingFeatures(std::vector<std::string>{kEverywhere, "avx9"}), ElementsAre("avx9"));
}

// --- Fourier transforms ---

std::complex<double> PairAt(const Tensor& t, int64_t row, int64_t k) {
  return LoadComplex(static_cast<char*>(t.data()) + (row * t.strides()[0] + k * t.strides()[1]) * ItemSize(t.dtype()),
                     t.dtype());
}

void SetPair(const Tensor& t, int64_t row, int64_t k, std::complex<double> v) {
  char* p = static_cast<char*>(t.data()) + (row * t.strides()[0] + k * t.strides()[1]) * ItemSize(t.dtype());
  if (t.dtype() == DType::kComplex64) {
    *reinterpret_cast<std::complex<float>*>(p) = std::complex<float>(v);
  } else {
    *reinterpret_cast<std::complex<double>*>(p) = v;
  }
}

// Lengths for all radices, odd and even, and primes beyond them, which are transformed by a convolution.
TEST(FourierTest, EveryLengthIsTheSumOfItsDefinition) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 12, 30, 61, 67, 101, 134, 1009}) {
    for (const bool forward : {true, false}) {
      const Tensor x = FillPairs({2, n}, {n + 3, 1}), y = Tensor::EmptyStrided(DType::kComplex128, {2, n}, {1, 2});
      ASSERT_TRUE(Call("fourier", {x}, {y}, {0, forward, 1}).ok());
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t j = 0; j < n; j += n > 100 ? 13 : 1) {
          std::complex<double> sum = 0;
          for (int64_t k = 0; k < n; ++k) {
            const double turn = static_cast<double>(j * k % n) / static_cast<double>(n);
            sum += PairAt(x, row, k) * std::polar(1.0, (forward ? -2 : 2) * std::numbers::pi * turn);
          }
          EXPECT_LT(std::abs(PairAt(y, row, j) - sum), 1e-13 * static_cast<double>(n))
              << n << (forward ? " forward" : " back") << " at " << j;
        }
      }
    }
  }
}

TEST(FourierTest, HalfASpectrumGivesTheSignalBack) {
  for (int64_t n : {1, 2, 5, 8, 67}) {
    const Tensor x = Fill(Tensor::EmptyStrided(DType::kFloat64, {3, n}, {n, 1})),
                 half = Tensor::EmptyStrided(DType::kComplex128, {3, n / 2 + 1}, {n / 2 + 1, 1}),
                 back = Tensor::EmptyStrided(DType::kFloat64, {3, n}, {n, 1});
    ASSERT_TRUE(Call("fourier", {x}, {half}, {1, 1, 0, 1}).ok());
    ASSERT_TRUE(Call("fourier", {half}, {back}, {1, 0, 0, 1}).ok());
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t k = 0; k < n; ++k) EXPECT_NEAR(At(back, {row, k}), At(x, {row, k}), 1e-13);
    }
  }
}

// Eight lines are transformed at once, and moved by vectors where they are dense or adjacent.
TEST(FourierTest, ManyLinesAreAsEachAlone) {
  for (int64_t n : {1, 2, 6, 9, 32, 67}) {
    for (const bool adjacent : {false, true}) {
      const std::vector<int64_t> strides = adjacent ? std::vector<int64_t>{1, 19} : std::vector<int64_t>{n, 1};
      for (const DType t : {DType::kComplex64, DType::kComplex128}) {
        const Tensor x = FillPairs({19, n}, {n + 3, 1}), many = Tensor::EmptyStrided(t, {19, n}, strides),
                     y = Tensor::EmptyStrided(t, {19, n}, strides);
        for (int64_t row = 0; row < 19; ++row) {
          for (int64_t k = 0; k < n; ++k) {
            SetPair(many, row, k, PairAt(x, row, k));
          }
        }
        ASSERT_TRUE(Call("fourier", {many}, {y}, {0, 1, 1}).ok());
        for (int64_t row = 0; row < 19; ++row) {
          const Tensor alone = FillPairs({1, n}, {n, 1}), want = Tensor::EmptyStrided(t, {1, n}, {n, 1});
          for (int64_t k = 0; k < n; ++k) {
            SetPair(alone, 0, k, PairAt(x, row, k));
          }
          ASSERT_TRUE(Call("fourier", {alone}, {want}, {0, 1, 1}).ok());
          for (int64_t k = 0; k < n; ++k) {
            EXPECT_LT(std::abs(PairAt(y, row, k) - PairAt(want, 0, k)), (t == DType::kComplex64 ? 1e-6 : 1e-13) * n)
                << n << " at " << row << ", " << k;
          }
        }
      }
    }
  }
}

TEST(FourierTest, ManyRealLinesComeBack) {
  for (int64_t n : {1, 2, 9, 24, 70, 134}) {
    const Tensor x = Fill(Tensor::EmptyStrided(DType::kFloat32, {19, n}, {n, 1})),
                 half = Tensor::EmptyStrided(DType::kComplex64, {19, n / 2 + 1}, {n / 2 + 1, 1}),
                 whole = Tensor::EmptyStrided(DType::kComplex128, {19, n}, {n, 1}),
                 back = Tensor::EmptyStrided(DType::kFloat32, {19, n}, {n, 1});
    ASSERT_TRUE(Call("fourier", {x}, {half}, {0, 1, 1}).ok());
    ASSERT_TRUE(Call("fourier", {x}, {whole}, {0, 1, 1}).ok());
    ASSERT_TRUE(Call("fourier", {half}, {back}, {2, 0, 1}).ok());
    for (int64_t row = 0; row < 19; ++row) {
      for (int64_t k = 0; k < n; ++k) {
        EXPECT_NEAR(At(back, {row, k}), At(x, {row, k}), 1e-5);
        const std::complex<double> mirrored = PairAt(half, row, std::min(k, n - k) % (n / 2 + 1));
        const std::complex<double> want = k <= n / 2 ? mirrored : std::conj(mirrored);
        EXPECT_LT(std::abs(PairAt(whole, row, k) - want), 1e-5 * n) << n << " at " << row << ", " << k;
      }
    }
  }
}

// The angle of a negative real number is pi or -pi, depending on the sign of its imaginary zero.
TEST(FourierTest, TheEndsOfARealSignalsSpectrumArePositiveZeroBesideReals) {
  for (int64_t n : {1, 2, 9, 24, 70}) {
    const Tensor x = Fill(Tensor::EmptyStrided(DType::kFloat32, {19, n}, {n, 1})),
                 half = Tensor::EmptyStrided(DType::kComplex64, {19, n / 2 + 1}, {n / 2 + 1, 1}),
                 whole = Tensor::EmptyStrided(DType::kComplex128, {19, n}, {n, 1});
    ASSERT_TRUE(Call("fourier", {x}, {half}, {0, 1, 1}).ok());
    ASSERT_TRUE(Call("fourier", {x}, {whole}, {0, 1, 1}).ok());
    for (int64_t row = 0; row < 19; ++row) {
      for (int64_t k = 0; k < n; k += n % 2 == 0 ? n / 2 : n) {
        for (const Tensor& y : {half, whole}) {
          const double im = PairAt(y, row, k).imag();
          EXPECT_TRUE(im == 0 && !std::signbit(im)) << n << " at " << row << ", " << k << ": " << im;
        }
      }
    }
  }
}

TEST(FourierTest, ThreadsChangeNoBit) {
  const Tensor x = FillPairs({300, 66}, {66, 1}), one = Tensor::EmptyStrided(DType::kComplex128, {300, 66}, {66, 1}),
               three = Tensor::EmptyStrided(DType::kComplex128, {300, 66}, {66, 1});
  ASSERT_TRUE(Call("fourier", {x}, {one}, {2, 1, 0, 1}, {}, -1, 1).ok());
  ASSERT_TRUE(Call("fourier", {x}, {three}, {2, 1, 0, 1}, {}, -1, 3).ok());
  EXPECT_EQ(std::memcmp(one.data(), three.data(), 300 * 66 * 16), 0);
}

TEST(FourierTest, SizesAndDimsThatDoNotFitAreRefused) {
  const Tensor real = Fill(Tensor::EmptyStrided(DType::kFloat32, {4, 6}, {6, 1}));
  const auto pairs = [](int64_t m, int64_t n) { return Tensor::EmptyStrided(DType::kComplex64, {m, n}, {n, 1}); };
  EXPECT_TRUE(Call("fourier", {real}, {pairs(4, 4)}, {0, 1, 1}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {pairs(4, 3)}, {0, 1, 1}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {pairs(5, 4)}, {0, 1, 1}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {pairs(4, 4)}, {0, 1, 2}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {pairs(4, 4)}, {0, 1, 1, 1}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {pairs(4, 4)}, {0, 1}).ok());
  EXPECT_FALSE(Call("fourier", {pairs(4, 4)}, {real}, {0, 0, 0}).ok());
  EXPECT_FALSE(Call("fourier", {real}, {real}, {0, 1, 1}).ok());
  EXPECT_FALSE(Call("fourier", {pairs(4, 4)}, {Tensor::EmptyStrided(DType::kFloat32, {4, 6}, {6, 1})}, {0, 1, 1}).ok());
}

TEST(FourierTest, ASignalThatAFileClaimsToBeHugeIsRefusedBeforeAnythingIsAllocated) {
  Library library;
  OperandShape x;
  x.present = true;
  x.dtype = DType::kComplex64;
  x.sizes = {(int64_t{1} << 31) - 1};  // a prime
  x.strides = {1};
  LibraryRequest r;
  r.op = "fourier";
  r.inputs = r.outputs = {x};
  r.ints = {0, 1, 0};
  EXPECT_FALSE(library.Prepare(r).ok());
}

}  // namespace
}  // namespace smelt
