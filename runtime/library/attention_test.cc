// The library's attention against the formula, computed in double row by row.
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/runtime/library/library.h"

namespace smelt {
namespace {

constexpr int64_t kUnbounded = int64_t{1} << 31;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Mask { kNone, kBools, kNumbers, kBoolsOfKeys, kNumbersOfKeys };

struct Problem {
  int64_t batch, heads, key_heads, rows, keys, depth, columns;
  int64_t first = -kUnbounded, last = kUnbounded;
  Mask mask = Mask::kNone;
  double cap = 0;
  bool empty_is_nan = false;
  DType dtype = DType::kFloat32;
  bool rows_before_heads = false;  // in memory
};

// Numbers that bfloat16 and float16 hold exactly.
double Number(int64_t i) { return static_cast<double>(i * 37 % 97 - 48) / 32; }
double MaskNumber(int64_t i) { return i % 7 < 3 ? -kInfinity : Number(i); }

class Operands {
 public:
  explicit Operands(const Problem& p) : p_(p) {
    Add(p.heads, p.rows, p.depth, 0);
    Add(p.key_heads, p.keys, p.depth, 5);
    Add(p.key_heads, p.keys, p.columns, 11);
    request_.op = "attention";
    request_.inputs = shapes_;
    OperandShape mask;
    mask.present = p.mask != Mask::kNone;
    if (mask.present) {
      mask.dtype = p.mask == Mask::kBools || p.mask == Mask::kBoolsOfKeys ? DType::kBool : DType::kFloat32;
      mask.sizes = {p.batch, 1, p.mask == Mask::kBoolsOfKeys || p.mask == Mask::kNumbersOfKeys ? 1 : p.rows, p.keys};
      mask.strides = {mask.sizes[2] * p.keys, mask.sizes[2] * p.keys, p.keys, 1};
      for (int64_t i = 0; i < mask.NumElements(); ++i) {
        bools_.push_back(MaskNumber(i) != -kInfinity ? 1 : 0);
        numbers_.push_back(static_cast<float>(MaskNumber(i)));
      }
    }
    request_.inputs.push_back(mask);
    Add(p.heads, p.rows, p.columns, 0);
    request_.outputs = {shapes_[3]};
    request_.ints = {p.first, p.last, p.empty_is_nan ? 1 : 0, 0};
    request_.floats = {Scale(), p.cap};
  }

  std::vector<char> Run(int threads) {
    Library library;
    auto op = library.Prepare(request_);
    EXPECT_TRUE(op.ok()) << op.status();
    if (!op.ok()) return {};
    ThreadPool pool(threads);
    LibraryContext context;
    context.pool = &pool;
    context.width = threads;
    char* const mask = bools_.empty()                             ? nullptr
                       : request_.inputs[3].dtype == DType::kBool ? bools_.data()
                                                                  : reinterpret_cast<char*>(numbers_.data());
    const absl::Status run =
        (*op)->Run(context, {data_[0].data(), data_[1].data(), data_[2].data(), mask}, {data_[3].data()});
    EXPECT_TRUE(run.ok()) << run;
    return data_[3];
  }

  // The largest difference from the formula, relative to numbers above 1.
  double Difference() const {
    double most = 0;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.heads; ++h) {
        for (int64_t i = 0; i < p_.rows; ++i) {
          const std::vector<double> weights = Weights(b, h, i);
          for (int64_t c = 0; c < p_.columns; ++c) {
            double want = weights.empty() && p_.empty_is_nan && p_.keys > 0 ? std::nan("") : 0;
            for (size_t j = 0; j < weights.size(); ++j)
              want += weights[j] * Read(2, b, KeyHead(h), static_cast<int64_t>(j), c);
            const double got = Read(3, b, h, i, c);
            if (std::isnan(want) != std::isnan(got)) return kInfinity;
            if (!std::isnan(want)) most = std::max(most, std::fabs(got - want) / (1 + std::fabs(want)));
          }
        }
      }
    }
    return most;
  }

 private:
  double Scale() const { return p_.depth == 0 ? 1 : 1 / std::sqrt(static_cast<double>(p_.depth)); }
  int64_t KeyHead(int64_t head) const { return head / (p_.heads / p_.key_heads); }

  void Add(int64_t heads, int64_t rows, int64_t columns, int64_t seed) {
    OperandShape s{true, p_.dtype, {p_.batch, heads, rows, columns}, {}};
    s.strides = p_.rows_before_heads ? std::vector<int64_t>{heads * rows * columns, columns, heads * columns, 1}
                                     : std::vector<int64_t>{heads * rows * columns, rows * columns, columns, 1};
    std::vector<char> bytes(s.NumElements() * ItemSize(p_.dtype) + 1);
    for (int64_t i = 0; i < s.NumElements(); ++i) {
      const float x = static_cast<float>(Number(i + seed));
      if (p_.dtype == DType::kFloat32) {
        reinterpret_cast<float*>(bytes.data())[i] = x;
      } else {
        reinterpret_cast<uint16_t*>(bytes.data())[i] =
            p_.dtype == DType::kBFloat16 ? FloatToBFloat16(x) : FloatToHalf(x);
      }
    }
    shapes_.push_back(s);
    data_.push_back(std::move(bytes));
  }
  double Read(int operand, int64_t b, int64_t h, int64_t row, int64_t column) const {
    const std::vector<int64_t>& s = shapes_[operand].strides;
    const int64_t at = b * s[0] + h * s[1] + row * s[2] + column;
    if (p_.dtype == DType::kFloat32) return reinterpret_cast<const float*>(data_[operand].data())[at];
    const uint16_t bits = reinterpret_cast<const uint16_t*>(data_[operand].data())[at];
    return p_.dtype == DType::kBFloat16 ? BFloat16ToFloat(bits) : HalfToFloat(bits);
  }

  // The weights of a query's keys; empty if no key counts.
  std::vector<double> Weights(int64_t b, int64_t h, int64_t i) const {
    std::vector<double> weights(p_.keys);
    double most = -kInfinity, sum = 0;
    for (int64_t j = 0; j < p_.keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < p_.depth; ++d) score += Read(0, b, h, i, d) * Read(1, b, KeyHead(h), j, d);
      score *= Scale();
      if (p_.cap > 0) score = p_.cap * std::tanh(score / p_.cap);
      if (!bools_.empty()) {
        const OperandShape& mask = request_.inputs[3];
        const int64_t at = (b * mask.sizes[2] + (mask.sizes[2] == 1 ? 0 : i)) * p_.keys + j;
        if (mask.dtype == DType::kBool) {
          if (bools_[at] == 0) score = -kInfinity;
        } else {
          score += numbers_[at];
        }
      }
      weights[j] = p_.first <= j - i && j - i <= p_.last ? score : -kInfinity;
      most = std::max(most, weights[j]);
    }
    if (most == -kInfinity) return {};
    for (double& w : weights) sum += w = std::exp(w - most);
    for (double& w : weights) w /= sum;
    return weights;
  }

  const Problem p_;
  LibraryRequest request_;
  std::vector<OperandShape> shapes_;  // query, key, value, result
  std::vector<std::vector<char>> data_;
  std::vector<char> bools_;
  std::vector<float> numbers_;
};

void ExpectFormula(const Problem& p, double tolerance) {
  Operands operands(p);
  operands.Run(1);
  EXPECT_LE(operands.Difference(), tolerance)
      << absl::StrCat(p.rows, " rows, ", p.keys, " keys, depth ", p.depth, ", band ", p.first, " to ", p.last,
                      ", mask ", static_cast<int>(p.mask), ", cap ", p.cap);
}

TEST(AttentionTest, IsTheFormulaForAnyHeadSizeBandAndMask) {
  for (Mask mask : {Mask::kNone, Mask::kBools, Mask::kNumbers, Mask::kBoolsOfKeys, Mask::kNumbersOfKeys}) {
    for (int64_t rows : {1, 3, 5, 17, 70, 131}) {
      for (int64_t depth : {17, 64, 80}) {
        const int64_t keys = rows + (depth == 64 ? 0 : 150);
        ExpectFormula({1, 2, 2, rows, keys, depth, depth, -kUnbounded, 0, mask}, 2e-6);
        ExpectFormula({1, 2, 1, rows, keys, depth, 24, -7, keys - rows, mask, depth == 17 ? 2.0 : 0}, 2e-6);
      }
      ExpectFormula({1, 1, 1, rows, rows + 9, 256, 256, -kUnbounded, kUnbounded, mask, 30}, 2e-6);
    }
  }
}

TEST(AttentionTest, FewKeysOfALongRowAreReadInSeveralTiles) {
  for (int64_t rows : {1, 4, 40}) ExpectFormula({1, 4, 2, rows, 1300, 32, 32, -kUnbounded, 1100}, 2e-6);
}

TEST(AttentionTest, HalvesAreComputedInFloat) {
  for (int64_t rows : {2, 37, 90}) {
    ExpectFormula({2, 4, 2, rows, 100, 48, 48, -kUnbounded, 10, Mask::kNone, 0, false, DType::kBFloat16}, 8e-3);
    ExpectFormula({2, 4, 2, rows, 100, 48, 48, -kUnbounded, 10, Mask::kNumbers, 0, false, DType::kFloat16}, 1e-3);
  }
}

TEST(AttentionTest, HeadsMayLieBesideEachOtherInTheirRows) {
  for (int64_t rows : {2, 37, 90})
    ExpectFormula({2, 6, 2, rows, 77, 20, 20, -kUnbounded, 3, Mask::kBools, 0, false, DType::kFloat32, true}, 2e-6);
}

TEST(AttentionTest, ARowWithoutKeysIsZeroOrNaN) {
  for (bool nan : {false, true}) {
    for (int64_t rows : {3, 80}) {
      ExpectFormula({1, 2, 2, rows, 100, 16, 16, 40, 60, Mask::kNone, 0, nan}, 2e-6);
      ExpectFormula({1, 2, 2, rows, 100, 16, 16, 200, 300, Mask::kNone, 0, nan}, 0);
      ExpectFormula({1, 2, 2, rows, 0, 16, 16, -kUnbounded, kUnbounded, Mask::kNone, 0, nan}, 0);
    }
  }
}

TEST(AttentionTest, SizesMayBeZero) {
  ExpectFormula({1, 2, 2, 0, 5, 8, 8}, 0);
  ExpectFormula({0, 2, 2, 3, 5, 8, 8}, 0);
  ExpectFormula({1, 0, 2, 3, 5, 8, 8}, 0);
  ExpectFormula({1, 2, 2, 3, 5, 8, 0}, 0);
  for (int64_t rows : {3, 7}) ExpectFormula({1, 2, 2, rows, 5, 0, 8}, 1e-6);
}

TEST(AttentionTest, BitsDoNotDependOnTheNumberOfThreads) {
  for (int64_t rows : {1, 200}) {
    Operands one({2, 3, 3, rows, 300, 40, 40, -kUnbounded, 100}), three({2, 3, 3, rows, 300, 40, 40, -kUnbounded, 100});
    EXPECT_EQ(one.Run(1), three.Run(3));
  }
}

// Keys behind those that the mask lets through are the unused places of a cache.
TEST(AttentionTest, TilesThatTheMaskExcludesAreNotRead) {
  constexpr int64_t kKeys = 2000, kFilled = 300, kDepth = 16;
  for (int64_t rows : {1, 40}) {
    std::vector<float> query(rows * kDepth, 1), key(kKeys * kDepth, std::nanf("")),
        value(kKeys * kDepth, std::nanf(""));
    std::fill(key.begin(), key.begin() + 512 * kDepth, 0.5f);
    std::fill(value.begin(), value.begin() + 512 * kDepth, 0.25f);
    std::vector<char> mask(kKeys, 0);
    std::fill(mask.begin(), mask.begin() + kFilled, 1);
    std::vector<float> out(rows * kDepth);
    const auto shape = [&](int64_t n) { return OperandShape{true, DType::kFloat32, {n, kDepth}, {kDepth, 1}}; };
    LibraryRequest r;
    r.op = "attention";
    r.inputs = {shape(rows), shape(kKeys), shape(kKeys), {true, DType::kBool, {1, kKeys}, {kKeys, 1}}};
    r.outputs = {shape(rows)};
    r.ints = {-kUnbounded, kUnbounded, 0, 0};
    r.floats = {1, 0};
    Library library;
    auto op = library.Prepare(r);
    ASSERT_TRUE(op.ok()) << op.status();
    const absl::Status run = (*op)->Run(LibraryContext(),
                                        {reinterpret_cast<char*>(query.data()), reinterpret_cast<char*>(key.data()),
                                         reinterpret_cast<char*>(value.data()), mask.data()},
                                        {reinterpret_cast<char*>(out.data())});
    ASSERT_TRUE(run.ok()) << run;
    for (float y : out) EXPECT_NEAR(y, 0.25, 1e-6);
  }
}

// Returns the most memory that this process has had, in kilobytes.
int64_t PeakKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6));
  }
  return -1;
}

TEST(AttentionTest, MemoryDoesNotGrowWithTheProductOfQueriesAndKeys) {
  constexpr int64_t kRows = 2048, kKeys = 8192, kScores = kRows * kKeys * static_cast<int64_t>(sizeof(float));
  Operands operands({.batch = 1, .heads = 1, .key_heads = 1, .rows = kRows, .keys = kKeys, .depth = 8, .columns = 8});
  const int64_t before = PeakKilobytes();
  ASSERT_GT(before, 0);
  operands.Run(2);
  EXPECT_LT((PeakKilobytes() - before) * 1024, kScores / 4);
}

TEST(AttentionTest, OperandsThatDoNotFitAreRefused) {
  const auto shape = [](std::vector<int64_t> sizes) {
    return OperandShape{true, DType::kFloat32, sizes, {sizes[1] * sizes[2], sizes[2], 1}};
  };
  LibraryRequest good;
  good.op = "attention";
  good.inputs = {shape({6, 5, 8}), shape({3, 7, 8}), shape({2, 7, 4}), {}};
  good.outputs = {shape({6, 5, 4})};
  good.ints = {-kUnbounded, kUnbounded, 0, 0};
  good.floats = {1, 0};
  Library library;
  EXPECT_TRUE(library.Prepare(good).ok());
  const std::vector<std::vector<int64_t>> wrong = {{4, 5, 8}, {6, 5, 9}, {6, 5}};
  for (const std::vector<int64_t>& sizes : wrong) {
    LibraryRequest r = good;
    r.inputs[0].sizes = sizes;
    r.inputs[0].strides.resize(sizes.size());
    EXPECT_EQ(library.Prepare(r).status().code(), absl::StatusCode::kInvalidArgument);
  }
  LibraryRequest r = good;
  r.inputs[3] = shape({6, 4, 7});
  EXPECT_EQ(library.Prepare(r).status().code(), absl::StatusCode::kInvalidArgument);
  r = good;
  r.inputs[0].dtype = DType::kFloat64;
  EXPECT_EQ(library.Prepare(r).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace smelt
