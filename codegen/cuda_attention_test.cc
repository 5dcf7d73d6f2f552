// Attention for CUDA without a GPU: the emulation's results are compared with the definition, in float64.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/cuda_library_testing.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/elements.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

enum class Mask { kNone, kBools, kAdded };
struct Case {
  const char* base;
  DType type;
  int64_t heads, key_heads, queries, keys, depth, columns;
  int64_t first, last;
  Mask mask;
  bool empty_is_nan;
  double cap;
};
constexpr int64_t kFar = int64_t{1} << 31;
const Case kCases[] = {
    {kAttentionKernel, DType::kFloat32, 2, 1, 5, 3, 8, 8, -kFar, kFar, Mask::kNone, false, 0},
    {kAttentionKernel, DType::kFloat32, 2, 2, 70, 130, 17, 65, -kFar, 0, Mask::kNone, false,
     0},  // causal; tiles that are not whole
    {kAttentionKernel, DType::kFloat32, 1, 1, 66, 200, 16, 128, -3, 40, Mask::kBools, true,
     0},  // a band, and rows without keys
    {kAttentionKernel, DType::kFloat32, 4, 2, 1, 65, 33, 20, -kFar, kFar, Mask::kAdded, false, 5},  // scores are capped
    {kAttentionKernel, DType::kFloat32, 1, 1, 3, 0, 4, 4, -kFar, kFar, Mask::kNone, true, 0},       // no keys at all
    {kAttentionKernel, DType::kBFloat16, 2, 2, 20, 70, 32, 32, -kFar, kFar, Mask::kBools, false, 0},
    {kTensorAttentionKernel, DType::kBFloat16, 2, 1, 150, 140, 64, 64, -kFar, 0, Mask::kNone, false, 0},
    {kTensorAttentionKernel, DType::kFloat16, 1, 1, 20, 70, 128, 128, -kFar, kFar, Mask::kBools, true, 0},
    {kTensorAttentionKernel, DType::kBFloat16, 2, 2, 66, 200, 17, 20, -3, 40, Mask::kAdded, true, 5},
    {kTensorAttentionKernel, DType::kFloat16, 4, 2, 1, 65, 72, 80, -kFar, kFar, Mask::kNone, false, 0},
    {kTensorAttentionKernel, DType::kFloat16, 1, 1, 3, 0, 4, 4, -kFar, kFar, Mask::kNone, true, 0},
};
class AttentionTest : public testing::TestWithParam<int> {};

TEST_P(AttentionTest, EqualsItsDefinition) {
  using namespace attention_words;  // NOLINT
  const Case& c = kCases[GetParam()];
  const DType mask_type = c.mask == Mask::kBools ? DType::kBool : c.type;
  LibraryMemory query(c.type, c.heads * c.queries * c.depth), key(c.type, c.key_heads * c.keys * c.depth),
      value(c.type, c.key_heads * c.keys * c.columns), out(c.type, c.heads * c.queries * c.columns),
      mask(mask_type, c.queries * c.keys);
  std::mt19937 rng(static_cast<unsigned>(GetParam()));
  for (LibraryMemory* m : {&query, &key, &value, &out}) {
    for (int64_t i = 0; i < m->elements(); ++i) m->Set(i, std::uniform_real_distribution<>(-2, 2)(rng));
  }
  // Row 7 has no key that counts.
  for (int64_t i = 0; i < mask.elements(); ++i) {
    mask.Set(i,
             c.mask == Mask::kBools ? rng() % 3 != 0 && i / c.keys != 7 : std::uniform_real_distribution<>(-1, 1)(rng));
  }
  std::vector<int64_t> words(kCount, 0);
  for (int d = 0; d < 4; ++d) words[kHeads + d] = words[kKeyShares + d] = words[kValueShares + d] = 1;
  words[kHeads + 3] = c.heads;
  words[kKeyShares + 3] = words[kValueShares + 3] = c.heads / c.key_heads;
  words[kQueries] = c.queries, words[kKeys] = c.keys, words[kDepth] = c.depth, words[kColumns] = c.columns;
  const auto matrix = [&](int word, LibraryMemory& m, int64_t rows, int64_t columns) {
    words[word] = m.word(), words[word + 4] = rows * columns, words[word + 5] = columns, words[word + 6] = 1;
  };
  matrix(kQuery, query, c.queries, c.depth);
  matrix(kKey, key, c.keys, c.depth);
  matrix(kValue, value, c.keys, c.columns);
  matrix(kOut, out, c.queries, c.columns);
  if (c.mask != Mask::kNone) words[kMask] = mask.word(), words[kMask + 5] = c.keys, words[kMask + 6] = 1;
  words[kFirst] = c.first, words[kLast] = c.last, words[kEmptyIsNan] = c.empty_is_nan;
  const double scale = 0.25;
  std::memcpy(&words[kScale], &scale, 8);
  std::memcpy(&words[kCap], &c.cap, 8);
  LaunchLibraryKernel({c.base, {c.type, mask_type}}, 80, words, /*grid=*/2);
  int64_t wrong = 0;
  for (int64_t h = 0; h < c.heads; ++h) {
    const int64_t shared = h / (c.heads / c.key_heads);
    for (int64_t i = 0; i < c.queries; ++i) {
      std::vector<double> scores;
      double most = -INFINITY, sum = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        double s = 0;
        for (int64_t e = 0; e < c.depth; ++e) {
          s += query.Get((h * c.queries + i) * c.depth + e) * key.Get((shared * c.keys + j) * c.depth + e);
        }
        s *= scale;
        if (c.cap > 0) s = c.cap * std::tanh(s / c.cap);
        if (c.mask == Mask::kAdded) s += mask.Get(i * c.keys + j);
        if (c.mask == Mask::kBools && mask.Get(i * c.keys + j) == 0) s = -INFINITY;
        if (j - i < c.first || j - i > c.last) s = -INFINITY;
        scores.push_back(s);
        most = std::max(most, s);
      }
      for (double& s : scores) sum += s = s == -INFINITY ? 0 : std::exp(s - most);
      for (int64_t f = 0; f < c.columns; ++f) {
        double want = 0;
        for (int64_t j = 0; j < c.keys; ++j) {
          want += scores[static_cast<size_t>(j)] / sum * value.Get((shared * c.keys + j) * c.columns + f);
        }
        if (sum == 0) want = c.empty_is_nan ? NAN : 0;
        const double got = out.Get((h * c.queries + i) * c.columns + f);
        const double bound = c.type == DType::kFloat32 ? 1e-5 : 0.01;
        const bool is_right = std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= bound;
        if (!is_right && ++wrong < 4) ADD_FAILURE() << h << " " << i << " " << f << ": " << got << ", not " << want;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(All, AttentionTest, testing::Range(0, static_cast<int>(std::size(kCases))));

}  // namespace
}  // namespace smelt
