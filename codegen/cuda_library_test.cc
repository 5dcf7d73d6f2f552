// The library's kernels for CUDA without a GPU: the emulation runs them in lockstep, finds races, and gives their
// results, which are compared with loops in this file.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_library_testing.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

int64_t Bits(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

struct ProductCase {
  LibraryKernel kernel;
  int capability;
};
const ProductCase kProducts[] = {
    {{kProductKernel, {DType::kFloat32, DType::kFloat32}}, 80},
    {{kWideProductKernel, {DType::kFloat32, DType::kFloat32}}, 80},
    {{kProductKernel, {DType::kBFloat16, DType::kBFloat16}}, 75},
    {{kProductKernel, {DType::kBFloat16, DType::kBFloat16}}, 80},
    {{kWideProductKernel, {DType::kBFloat16, DType::kFloat32}}, 80},
    {{kWideProductKernel, {DType::kFloat16, DType::kFloat16}}, 90},
    {{kProductKernel, {DType::kFloat64, DType::kFloat64}}, 80},
    {{kProductKernel, {DType::kInt8, DType::kInt32}}, 80},
    {{kProductKernel, {DType::kInt64, DType::kInt64}}, 80},
    {{kSplitProductKernel, {DType::kFloat32, DType::kFloat32}}, 80},
    {{kSplitProductKernel, {DType::kBFloat16, DType::kBFloat16}}, 80},
    {{kSplitProductKernel, {DType::kFloat16, DType::kFloat32}}, 75},
};

// The next larger dtype in which the kernel adds.
double Fma(DType t, double a, double b, double c) {
  if (t == DType::kFloat64 || !IsFloating(t)) return std::fma(a, b, c);
  return std::fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
}
double Round(DType t, double x) { return IsFloating(t) && t != DType::kFloat64 ? static_cast<float>(x) : x; }

class ProductTest : public testing::TestWithParam<int> {};

// Sums are those of one thread that adds in the order of the inner dim, by fused multiply-adds: to the last bit. If the
// inner dim is split, they are those of the slices, added in order.
TEST_P(ProductTest, AddsInOrderWhateverTheSizesAndStrides) {
  const auto& [kernel, capability] = kProducts[GetParam()];
  const DType in = kernel.types[0], out = kernel.types[1];
  std::mt19937 rng(static_cast<unsigned>(GetParam()));
  const auto pick = [&](std::vector<int64_t> from) { return from[rng() % from.size()]; };
  for (int round = 0; round < 6; ++round) {
    using namespace product_words;  // NOLINT
    const int64_t m = pick({1, 3, 40, 64, 65, 131}), n = pick({1, 5, 32, 64, 70, 128}),
                  k = round == 0 ? 0 : pick({1, 7, 16, 32, 37, 64, 130}), z = pick({1, 1, 2});
    const bool is_split = kernel.base == kSplitProductKernel;
    const int64_t slices = is_split ? pick({2, 3, 5}) : 1, units = (k + kSliceUnit - 1) / kSliceUnit;
    const int64_t length = (units + slices - 1) / slices * kSliceUnit;
    const bool a_turned = rng() % 2 == 0, b_turned = rng() % 2 == 0, spread = rng() % 3 == 0, scales = rng() % 2 == 0;
    const int64_t gap = spread ? 2 : 1;
    SCOPED_TRACE(absl::StrCat(kernel.Entry(), " ", m, "x", n, "x", k, " z ", z, " turned ", a_turned, b_turned, " gap ",
                              gap, " scales ", scales, " slices ", slices));
    LibraryMemory a(in, z * m * k * gap), b(in, k * n * gap), c(out, z * m * n), bias(out, n);
    const double large = in == DType::kInt8 ? 100 : 4;
    for (int64_t i = 0; i < a.elements(); ++i) a.Set(i, std::uniform_real_distribution<>(-large, large)(rng));
    for (int64_t i = 0; i < b.elements(); ++i) b.Set(i, std::uniform_real_distribution<>(-large, large)(rng));
    for (int64_t i = 0; i < n; ++i) bias.Set(i, std::uniform_real_distribution<>(-9, 9)(rng));
    if (IsFloating(in) && m * k > 1) a.Set(0, std::numeric_limits<double>::quiet_NaN());
    const int64_t a_row = gap * (a_turned ? 1 : k), a_inner = gap * (a_turned ? m : 1);
    const int64_t b_inner = gap * (b_turned ? 1 : n), b_column = gap * (b_turned ? k : 1);
    const double alpha = scales ? (IsFloating(in) ? 0.5 : 3) : 1, beta = scales ? -2 : 1;
    std::vector<int64_t> words(kCount, 0);
    words[kRows] = m, words[kColumns] = n, words[kInner] = k;
    words[kBatch] = words[kBatch + 1] = words[kBatch + 3] = 1;
    words[kBatch + 2] = z;
    words[kA] = a.word(), words[kA + 1] = a_row, words[kA + 2] = a_inner, words[kA + 5] = m * k * gap;
    words[kB] = b.word(), words[kB + 1] = b_inner, words[kB + 2] = b_column;
    words[kC] = c.word(), words[kC + 1] = n, words[kC + 2] = 1, words[kC + 5] = m * n;
    if (scales) words[kBias] = bias.word(), words[kBias + 2] = 1;
    words[kAlpha] = Bits(alpha), words[kBeta] = Bits(beta);
    if (is_split) words.push_back(slices);
    LibraryMemory want = c;
    for (int64_t y = 0; y < z; ++y) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, slice = 0;
          for (int64_t p = 0; p < k; ++p) {
            slice = Fma(in, a.Get(y * m * k * gap + i * a_row + p * a_inner), b.Get(p * b_inner + j * b_column), slice);
            if (is_split && p + 1 != k && (p + 1) % length != 0) continue;
            if (is_split) sum = Round(in, sum + std::exchange(slice, 0));
          }
          if (!is_split) sum = slice;
          sum = Round(in, sum * alpha);
          if (scales) sum += Round(in, bias.Get(j) * beta);
          want.Set((y * m + i) * n + j, Round(in, sum));
        }
      }
    }
    LaunchLibraryKernel(kernel, capability, words, /*grid=*/1 + round % 3);
    int64_t wrong = 0;
    for (int64_t i = 0; i < c.elements(); ++i) {
      const double x = c.Get(i), y = want.Get(i);
      wrong += !(x == y || (std::isnan(x) && std::isnan(y)));
      if (!(x == y || (std::isnan(x) && std::isnan(y))) && wrong < 4) ADD_FAILURE() << i << ": " << x << ", not " << y;
    }
    EXPECT_EQ(wrong, 0);
    // Nothing outside is written.
    EXPECT_TRUE(std::equal(c.bytes().begin(), c.bytes().begin() + 16 * ItemSize(out), want.bytes().begin()));
    EXPECT_TRUE(std::equal(c.bytes().rbegin(), c.bytes().rbegin() + 16 * ItemSize(out), want.bytes().rbegin()));
  }
}
INSTANTIATE_TEST_SUITE_P(All, ProductTest, testing::Range(0, static_cast<int>(std::size(kProducts))));

class JoinedProductTest : public testing::TestWithParam<int> {};

// The kernel that goes on squares each element, which the product has rounded, and adds a row. All is exact.
TEST_P(JoinedProductTest, AKernelOfPointsGoesOnWithEachElement) {
  using namespace product_words;  // NOLINT
  auto [kernel, capability] = kProducts[GetParam()];
  const DType in = kernel.types[0], out = kernel.types[1];
  if (!IsFloating(in)) GTEST_SKIP() << "sums of integers are exact in another test";
  const std::string type(Name(out));
  std::string text =
      absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", type, " r [any,unit] alias=0\nparam ",
                   type, " r [zero,unit] alias=1\nparam ", type, " w [any,unit] alias=2\n");
  if (IsHalf(out)) {
    absl::StrAppend(&text, "%0 = load.p0 ", type, "\n%1 = cast float32 %0\n%2 = mul float32 %1 %1\n%3 = load.p1 ", type,
                    "\n%4 = cast float32 %3\n%5 = add float32 %2 %4\n%6 = cast ", type, " %5\n%7 = store.p2 ", type,
                    " %6\nouter 0 1 2 3 4 5 6 7\n");
  } else {
    absl::StrAppend(&text, "%0 = load.p0 ", type, "\n%1 = mul ", type, " %0 %0\n%2 = load.p1 ", type, "\n%3 = add ",
                    type, " %1 %2\n%4 = store.p2 ", type, " %3\nouter 0 1 2 3 4\n");
  }
  constexpr int kSpecWords = 2 + 2 + 1 + 2;
  kernel.epilogue_key = "squares", kernel.epilogue_spec = text, kernel.epilogue_words = kSpecWords;
  for (const auto& [m, n, z] : {std::tuple<int64_t, int64_t, int64_t>{70, 65, 1}, {130, 3, 2}}) {
    constexpr int64_t kDepth = 40;
    SCOPED_TRACE(absl::StrCat(kernel.Entry(), " ", m, "x", n));
    LibraryMemory a(in, z * m * kDepth), b(in, kDepth * n), c(out, z * m * n), row(out, n), o(out, z * m * n);
    for (int64_t i = 0; i < a.elements(); ++i)
      a.Set(i, static_cast<double>(i % 7 == 0) - static_cast<double>(i % 5 == 0));
    for (int64_t i = 0; i < b.elements(); ++i) b.Set(i, static_cast<double>(i % 3 == 0));
    for (int64_t i = 0; i < n; ++i) row.Set(i, static_cast<double>(i % 4));
    std::vector<int64_t> words(kCount, 0);
    words[kRows] = m, words[kColumns] = n, words[kInner] = kDepth;
    words[kBatch] = words[kBatch + 1] = words[kBatch + 2] = 1, words[kBatch + 3] = z;
    words[kA] = a.word(), words[kA + 1] = kDepth, words[kA + 2] = 1, words[kA + 6] = m * kDepth;
    words[kB] = b.word(), words[kB + 1] = n, words[kB + 2] = 1;
    words[kC] = c.word(), words[kC + 1] = n, words[kC + 2] = 1, words[kC + 6] = m * n;
    words[kAlpha] = words[kBeta] = Bits(1);
    if (kernel.base == kSplitProductKernel) words.push_back(2);
    for (const int64_t w : {z * m, n, c.word(), n, row.word(), o.word(), n}) words.push_back(w);
    LaunchLibraryKernel(kernel, capability, words, 3);
    int64_t wrong = 0;
    for (int64_t i = 0; i < z * m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double want = 0;
        for (int64_t k = 0; k < kDepth; ++k) want += a.Get(i * kDepth + k) * b.Get(k * n + j);
        wrong += c.Get(i * n + j) != want;
        wrong += o.Get(i * n + j) != want * want + row.Get(j);
      }
    }
    EXPECT_EQ(wrong, 0);
    // Nothing lies around it.
    EXPECT_EQ(std::memcmp(o.at(-1), o.at(z * m * n), static_cast<size_t>(ItemSize(out))), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(All, JoinedProductTest, testing::Range(0, static_cast<int>(std::size(kProducts))));

TEST(CudaLibraryTest, AKernelThatMayRefuseCannotGoOn) {
  LibraryKernel kernel = {kProductKernel, {DType::kFloat32, DType::kFloat32}};
  kernel.epilogue_key = "sums", kernel.epilogue_words = 4;
  kernel.epilogue_spec =
      "kernel parallel=0 reduction=1 vector=0 sequential=0\nparam float32 r [unit] alias=-1\nparam float32 w [zero] "
      "alias=-1\n%0 = load.p0 float32\n%1 = reduce.sum float32 %0\n%2 = store.p1 float32 %1\ninner 0 1\nouter 2\n";
  const auto made = CudaEmulation::CreateLibrary(kernel, 80);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented) << made.status();
}

TEST(CudaLibraryTest, IntegersWrap) {
  using namespace product_words;  // NOLINT
  LibraryMemory a(DType::kInt16, 2), b(DType::kInt16, 2), c(DType::kInt16, 1);
  for (int i = 0; i < 2; ++i) a.Set(i, 300), b.Set(i, 300);
  std::vector<int64_t> words(kCount, 0);
  words[kRows] = words[kColumns] = 1, words[kInner] = 2;
  for (int d = 0; d < 4; ++d) words[kBatch + d] = 1;
  words[kA] = a.word(), words[kB] = b.word(), words[kC] = c.word(), words[kA + 2] = words[kB + 1] = 1;
  words[kAlpha] = words[kBeta] = Bits(1);
  LaunchLibraryKernel({kProductKernel, {DType::kInt16, DType::kInt16}}, 80, words, 1);
  EXPECT_EQ(c.Get(0), static_cast<int16_t>(180000));
}

struct Convolution {
  LibraryKernel kernel;
  int64_t images, groups, in_channels, out_channels;  // channels of a group
  int64_t in[3], taps[3], out[3], stride[3], padding[3], dilation[3];
  bool transposed, channels_last, biased;
};
const LibraryKernel kFloats = {kConvolutionKernel, {DType::kFloat32, DType::kFloat32}};
const LibraryKernel kWideFloats = {kWideConvolutionKernel, {DType::kFloat32, DType::kFloat32}};
const LibraryKernel kHalves = {kConvolutionKernel, {DType::kBFloat16, DType::kBFloat16}};
const Convolution kConvolutions[] = {
    {kFloats, 2, 1, 3, 5, {1, 9, 10}, {1, 3, 3}, {1, 9, 10}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false, false, true},
    {kFloats, 1, 2, 20, 6, {1, 7, 7}, {1, 3, 2}, {1, 3, 4}, {1, 2, 2}, {0, 1, 1}, {1, 2, 1}, false, true, true},
    {kWideFloats,
     1,
     1,
     16,
     8,
     {1, 12, 12},
     {1, 3, 3},
     {1, 12, 12},
     {1, 1, 1},
     {0, 1, 1},
     {1, 1, 1},
     false,
     true,
     false},
    {kFloats, 1, 3, 4, 2, {1, 4, 5}, {1, 3, 3}, {1, 9, 11}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}, true, false, true},
    {kFloats, 1, 1, 3, 2, {3, 4, 4}, {2, 2, 2}, {2, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, false, false, false},
    {kHalves, 1, 1, 16, 9, {1, 8, 8}, {1, 3, 3}, {1, 8, 8}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, false, true, true},
    {kHalves, 2, 1, 5, 9, {1, 6, 6}, {1, 3, 3}, {1, 4, 4}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, false, false, true},
};
class ConvolutionTest : public testing::TestWithParam<int> {};

TEST_P(ConvolutionTest, AddsTapsAndTheirChannelsInOrder) {
  using namespace convolution_words;  // NOLINT
  const Convolution& v = kConvolutions[GetParam()];
  const DType t = v.kernel.types[0];
  const auto count = [](const int64_t* s) { return s[0] * s[1] * s[2]; };
  const int64_t c = v.groups * v.in_channels, oc = v.groups * v.out_channels;
  LibraryMemory in(t, v.images * c * count(v.in)), weight(t, c * v.out_channels * count(v.taps)), bias(t, oc),
      out(t, v.images * oc * count(v.out));
  std::mt19937 rng(static_cast<unsigned>(GetParam()));
  for (LibraryMemory* m : {&in, &weight, &bias}) {
    for (int64_t i = 0; i < m->elements(); ++i) m->Set(i, std::uniform_real_distribution<>(-2, 2)(rng));
  }
  in.Set(1, std::numeric_limits<double>::infinity());
  // Strides of image, channel, and three spatial dims.
  const auto strides = [&](int64_t channels, const int64_t* s) {
    if (v.channels_last) {
      return std::vector<int64_t>{channels * count(s), 1, s[1] * s[2] * channels, s[2] * channels, channels};
    }
    return std::vector<int64_t>{channels * count(s), count(s), s[1] * s[2], s[2], 1};
  };
  const std::vector<int64_t> is = strides(c, v.in), os = strides(oc, v.out),
                             ws = strides(v.transposed ? v.out_channels : v.in_channels, v.taps);
  const int64_t w_in = v.transposed ? ws[0] : ws[1], w_out = v.transposed ? ws[1] : ws[0],
                w_group = v.transposed ? v.in_channels * ws[0] : v.out_channels * ws[0];
  std::vector<int64_t> words(kCount, 0);
  words[kImages] = v.images, words[kGroups] = v.groups, words[kInChannels] = v.in_channels,
  words[kOutChannels] = v.out_channels, words[kTransposed] = v.transposed;
  for (int d = 0; d < 3; ++d) {
    words[kOut + d] = v.out[d], words[kTaps + d] = v.taps[d], words[kIn + d] = v.in[d];
    words[kStride + d] = v.stride[d], words[kPadding + d] = v.padding[d], words[kDilation + d] = v.dilation[d];
    words[kInput + 4 + d] = is[2 + d], words[kOutput + 4 + d] = os[2 + d], words[kWeight + 4 + d] = ws[2 + d];
  }
  words[kInput] = in.word(), words[kInput + 1] = is[0], words[kInput + 2] = is[1],
  words[kInput + 3] = is[1] * v.in_channels;
  words[kWeight] = weight.word(), words[kWeight + 1] = w_in, words[kWeight + 2] = w_out, words[kWeight + 3] = w_group;
  words[kOutput] = out.word(), words[kOutput + 1] = os[0], words[kOutput + 2] = os[1],
  words[kOutput + 3] = os[1] * v.out_channels;
  if (v.biased) words[kBias] = bias.word(), words[kBias + 1] = 1, words[kBias + 2] = v.out_channels;
  LaunchLibraryKernel(v.kernel, 80, words, 2);
  int64_t wrong = 0;
  for (int64_t n = 0; n < v.images; ++n) {
    for (int64_t o = 0; o < oc * count(v.out); ++o) {
      const int64_t channel = o / count(v.out), place = o % count(v.out), group = channel / v.out_channels;
      const int64_t at[3] = {place / (v.out[1] * v.out[2]), place / v.out[2] % v.out[1], place % v.out[2]};
      double sum = 0;
      for (int64_t tap = 0; tap < count(v.taps); ++tap) {
        const int64_t k[3] = {tap / (v.taps[1] * v.taps[2]), tap / v.taps[2] % v.taps[1], tap % v.taps[2]};
        int64_t from = n * is[0];
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          int64_t i = v.transposed ? at[d] + v.padding[d] - k[d] * v.dilation[d]
                                   : at[d] * v.stride[d] - v.padding[d] + k[d] * v.dilation[d];
          if (v.transposed) inside &= i >= 0 && i % v.stride[d] == 0, i /= v.stride[d];
          inside &= i >= 0 && i < v.in[d];
          from += i * is[2 + d];
        }
        const int64_t w =
            group * w_group + channel % v.out_channels * w_out + k[0] * ws[2] + k[1] * ws[3] + k[2] * ws[4];
        for (int64_t i = 0; i < v.in_channels; ++i) {
          const double x = inside ? in.Get(from + (group * v.in_channels + i) * is[1]) : 0;
          sum = Fma(t, x, weight.Get(w + i * w_in), sum);
        }
      }
      if (v.biased) sum = Round(t, sum + bias.Get(channel));
      LibraryMemory want(t, 1);
      want.Set(0, sum);
      const double got = out.Get(n * os[0] + channel * os[1] + at[0] * os[2] + at[1] * os[3] + at[2] * os[4]);
      const bool same = got == want.Get(0) || (std::isnan(got) && std::isnan(want.Get(0)));
      if (!same && ++wrong < 4) ADD_FAILURE() << "image " << n << ", " << o << ": " << got << ", not " << want.Get(0);
    }
  }
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(All, ConvolutionTest, testing::Range(0, static_cast<int>(std::size(kConvolutions))));

// The first block of Philox 4x32-10 for a key and a counter of 0 is that of its authors' test vectors.
TEST(CudaLibraryTest, DrawsTheNumbersOfPhilox) {
  using namespace random_words;  // NOLINT
  const uint64_t draws[] = {0xe169c58d6627e8d5, 0x9b00dbd8bc57ac4c};
  std::vector<int64_t> words(kCount, 0);
  for (int d = 0; d < kStridedRank; ++d) words[kSizes + d] = 1;
  words[kSizes + 5] = 2, words[kTo + kStridedRank] = 1;
  LibraryMemory uniform(DType::kFloat64, 2), whole(DType::kInt64, 2), coin(DType::kBool, 2), normal(DType::kFloat32, 2);
  words[kP0] = Bits(0), words[kP1] = Bits(1);
  words[kTo] = uniform.word();
  LaunchLibraryKernel({kUniformKernel, {DType::kFloat64}}, 80, words, 1);
  words[kTo] = normal.word();
  LaunchLibraryKernel({kNormalKernel, {DType::kFloat32}}, 80, words, 1);
  words[kP0] = Bits(0.6), words[kTo] = coin.word();
  LaunchLibraryKernel({kBernoulliKernel, {DType::kBool}}, 80, words, 1);
  words[kP0] = Bits(-5), words[kP1] = Bits(1000), words[kTo] = whole.word();
  LaunchLibraryKernel({kRandintKernel, {DType::kInt64}}, 80, words, 1);
  for (int i = 0; i < 2; ++i) {
    const double u = static_cast<double>(draws[i] >> 11) * 0x1p-53;
    EXPECT_EQ(uniform.Get(i), u);
    EXPECT_EQ(coin.Get(i), u < 0.6);
    EXPECT_EQ(whole.Get(i), -5 + std::floor(static_cast<double>(draws[i] >> 11) * 0x1p-53 * 1005));
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(draws[i] >> 32) + 0.5) * 0x1p-32));
    const double angle = static_cast<double>(draws[i] & 0xffffffffu) * 0x1p-32 * 6.283185307179586;
    EXPECT_EQ(normal.Get(i), static_cast<float>(radius * std::cos(angle)));
  }
}

}  // namespace
}  // namespace smelt
