#include "smelt/fuser/kernel_spec.h"

#include <cmath>
#include <cstring>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/fuser/kernel_interpreter.h"

namespace smelt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// exp(x - max) / sum, a row at a time.
constexpr char kSoftmax[] = R"(
kernel parallel=1 reduction=1 vector=1 sequential=0
param float32 r [any,unit] alias=-1
param float32 w [any,unit] alias=-1
%0 = load.p0 float32
%1 = reduce.max float32 %0
%2 = load.p0 float32
%3 = sub float32 %2 %1
%4 = exp float32 %3
%5 = reduce.sum float32 %4
%6 = load.p0 float32
%7 = sub float32 %6 %1
%8 = exp float32 %7
%9 = div float32 %8 %5
%10 = store.p1 float32 %9
inner 0 1
inner 2 3 4 5
inner 6 7 8 9 10
)";

KernelSpec ParseOrDie(absl::string_view text) {
  absl::StatusOr<KernelSpec> spec = ParseKernelSpec(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : KernelSpec();
}
int64_t Word(const void* p) { return reinterpret_cast<int64_t>(p); }

TEST(KernelSpecTest, TextParsesToAnEqualSpec) {
  const KernelSpec spec = ParseOrDie(kSoftmax);
  EXPECT_EQ(ParseOrDie(spec.ToString()).ToString(), spec.ToString());
  EXPECT_EQ(spec.num_words(), 2 + 2 + 2);
}

TEST(KernelSpecTest, ConstantsComeBackBitForBit) {
  KernelSpec spec = ParseOrDie("kernel parallel=1 reduction=0 vector=0 sequential=0\n%0 = const float64 0\nouter 0");
  const uint64_t kBits[] = {0x3ff0000000000001, 0x8000000000000000, 0x0000000000000001,
                            0x7ff0000000000000, 0x7ff8000000000123, 0xfff8000000000000};
  for (uint64_t bits : kBits) {
    std::memcpy(&spec.instrs[0].imm.f, &bits, 8);
    uint64_t back;
    std::memcpy(&back, &ParseOrDie(spec.ToString()).instrs[0].imm.f, 8);
    EXPECT_EQ(back, bits) << spec.ToString();
  }
}

TEST(KernelSpecTest, SoftmaxOfARowSumsToOne) {
  const KernelSpec spec = ParseOrDie(kSoftmax);
  const float x[6] = {0, std::log(3.0f), 0, 1000, 1000, 1000};
  float y[6] = {};
  const int64_t words[] = {2, 3, Word(x), 3, Word(y), 3};
  int64_t status = 0;
  EXPECT_EQ(NumTiles(spec, words), 2);
  ASSERT_EQ(InterpretKernel(spec, words, 0, 2, &status), absl::OkStatus());
  EXPECT_THAT(y, ElementsAre(testing::FloatNear(0.2f, 1e-7f), testing::FloatNear(0.6f, 1e-7f),
                             testing::FloatNear(0.2f, 1e-7f), 1 / 3.0f, 1 / 3.0f, 1 / 3.0f));
  EXPECT_EQ(status, 0);
}

TEST(KernelSpecTest, TilesAreElementsOfAnOnlyParallelDimAndRowsOtherwise) {
  const char kText[] = "kernel parallel=$P reduction=0 vector=$V sequential=0\n%0 = const float32 0\nouter 0";
  auto tiles = [&](int p, int v) {
    const int64_t words[] = {5, 7, 11};
    return NumTiles(ParseOrDie(absl::StrReplaceAll(kText, {{"$P", absl::StrCat(p)}, {"$V", absl::StrCat(v)}})), words);
  };
  EXPECT_EQ(tiles(1, 0), 5);
  EXPECT_EQ(tiles(2, 1), 5);
  EXPECT_EQ(tiles(3, 2), 35);
  EXPECT_EQ(tiles(3, -1), 385);
}

TEST(KernelSpecTest, AnIndexOutOfRangeSetsTheStatusAndReadsTheFirstElement) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=1 reduction=0 vector=0 sequential=0
param int64 r [unit] alias=-1
param float32 r [zero] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 int64
%1 = const int64 3
%2 = check_index int64 %0 %1
%3 = load.p1 float32 %2 +offset
%4 = store.p2 float32 %3
outer 0 1 2 3 4
)");
  const int64_t index[] = {2, -1, -3, 3};
  const float table[] = {10, 20, 30};
  float out[4] = {};
  const int64_t words[] = {4, Word(index), Word(table), Word(out)};
  int64_t status = 0;
  ASSERT_EQ(InterpretKernel(spec, words, 0, 3, &status), absl::OkStatus());
  EXPECT_EQ(status, 0);
  ASSERT_EQ(InterpretKernel(spec, words, 3, 4, &status), absl::OkStatus());
  EXPECT_EQ(status, 1);
  EXPECT_THAT(out, ElementsAre(30, 30, 10, 10));
}

TEST(KernelSpecTest, TheFirstOfEqualMaximaWinsAndNanWinsOverAll) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=0 reduction=1 vector=0 sequential=0
param float32 r [unit] alias=-1
param int64 w [zero] alias=-1
param float32 w [zero] alias=-1
%0 = load.p0 float32
%1 = index.d0 int64
%2 = reduce.argmax int64 %0 %1
%3 = reduce.max float32 %0
%4 = store.p1 int64 %2
%5 = store.p2 float32 %3
inner 0 1 2 3
outer 4 5
)");
  const float x[] = {1, 5, 5, NAN, 9, NAN};
  int64_t at = -1, status = 0;
  float most = 0;
  int64_t words[] = {3, Word(x), Word(&at), Word(&most)};
  ASSERT_EQ(InterpretKernel(spec, words, 0, 1, &status), absl::OkStatus());
  EXPECT_EQ(at, 1);
  EXPECT_EQ(most, 5);
  words[0] = 6;
  ASSERT_EQ(InterpretKernel(spec, words, 0, 1, &status), absl::OkStatus());
  EXPECT_EQ(at, 3);
  EXPECT_TRUE(std::isnan(most));
}

TEST(KernelSpecTest, ACumulativeSumOfFloatsIsKeptInDouble) {
  const KernelSpec spec = ParseOrDie(R"(
kernel parallel=0 reduction=1 vector=-1 sequential=0
param float32 r [unit] alias=-1
param float32 w [unit] alias=-1
%0 = load.p0 float32
%1 = scan.sum float32 %0
%2 = store.p1 float32 %1
inner 0 1 2
)");
  const float x[] = {1 << 24, 1, 1, 1};
  float y[4];
  const int64_t words[] = {4, Word(x), Word(y)};
  int64_t status = 0;
  ASSERT_EQ(InterpretKernel(spec, words, 0, 1, &status), absl::OkStatus());
  // torch.tensor([2.**24, 1, 1, 1]).cumsum(0)
  EXPECT_THAT(y, ElementsAre(16777216, 16777216, 16777218, 16777220));
}

TEST(KernelSpecTest, VerifySaysWhatIsWrong) {
  auto error = [](absl::string_view from, absl::string_view to) {
    absl::StatusOr<KernelSpec> spec = ParseKernelSpec(absl::StrReplaceAll(kSoftmax, {{from, to}}));
    return spec.ok() ? std::string("none") : std::string(spec.status().message());
  };
  EXPECT_THAT(error("vector=1", "vector=2"), HasSubstr("vector dim 2"));
  EXPECT_THAT(error("r [any,unit]", "r [unit]"), HasSubstr("param 0 has 1 strides, of rank 2"));
  EXPECT_THAT(error("%3 = sub float32 %2 %1", "%3 = sub float32 %0 %1"),
              HasSubstr("operand %0 of phase 0 is not usable in phase 1"));
  EXPECT_THAT(error("%9 = div float32 %8 %5", "%9 = div float64 %8 %5"), HasSubstr("%9"));
  EXPECT_THAT(error("store.p1", "store.p0"), HasSubstr("param 0 is not written"));
  EXPECT_THAT(error("inner 0 1", "outer 0 1"), HasSubstr("outer phase"));
  EXPECT_THAT(error("inner 0 1\n", "inner 0\n"), HasSubstr("%1"));
  EXPECT_THAT(error("param float32 w", "param complex64 w"), HasSubstr("complex"));
  EXPECT_THAT(error("exp float32", "expp float32"), HasSubstr("line 9"));
}

TEST(KernelSpecTest, GarbageIsAnErrorNotACrash) {
  for (const char* text :
       {"", "kernel", "%0 = ", "kernel parallel=1 reduction=0 vector=0 sequential=0\n%0 = load. float32",
        "kernel parallel=1 reduction=0 vector=0 sequential=0\nouter 5",
        "kernel parallel=-1 reduction=0 vector=-1 sequential=0",
        "kernel parallel=1 reduction=0 vector=0 sequential=0\nparam float32 r [unit] alias=0\n%0 = load.p9 "
        "float32\nouter 0",
        "kernel parallel=1 reduction=0 vector=0 sequential=0\n%0 = add float32 %0 %0\nouter 0"}) {
    EXPECT_FALSE(ParseKernelSpec(text).ok()) << text;
  }
}

TEST(KernelSpecTest, EveryFieldIsInTheText) {
  const KernelSpec base = ParseOrDie(R"(
kernel parallel=1 reduction=1 vector=0 sequential=0
param float32 r [any,unit] alias=-1
param int64 rw [unit,any] alias=1
scalar float32
%0 = load.p0 float32
%1 = scalar.s0 float32
%2 = const float32 2
%3 = mul float32 %0 %1
%4 = reduce.sum float32 %3
%5 = index.d0 int64
%6 = const bool 1
%7 = load.p1 int64 %5 %6 +offset +guard
%8 = store.p1 int64 %7
inner 0 1 2 3 4 5 6 7 8
)");
  std::set<std::string> texts = {base.ToString()};
  int changes = 0;
  auto expect_new = [&](const KernelSpec& s) {
    ++changes;
    EXPECT_TRUE(texts.insert(s.ToString()).second) << s.ToString();
  };
  auto change = [&](auto f) {
    KernelSpec s = base;
    f(s);
    expect_new(s);
  };
  change([](KernelSpec& s) { s.parallel_rank = 2; });
  change([](KernelSpec& s) { s.reduction_rank = 2; });
  change([](KernelSpec& s) { s.vector_dim = 1; });
  change([](KernelSpec& s) { s.sequential = true; });
  change([](KernelSpec& s) { s.params.pop_back(); });
  change([](KernelSpec& s) { s.params[0].dtype = DType::kFloat64; });
  change([](KernelSpec& s) { s.params[0].is_read = false; });
  change([](KernelSpec& s) { s.params[0].is_written = true; });
  change([](KernelSpec& s) { s.params[0].strides[0] = StrideClass::kZero; });
  change([](KernelSpec& s) { s.params[0].alias_class = 0; });
  change([](KernelSpec& s) { s.scalars[0] = DType::kInt64; });
  change([](KernelSpec& s) { s.scalars.push_back(DType::kFloat32); });
  change([](KernelSpec& s) { s.instrs[0].param = 1; });
  change([](KernelSpec& s) { s.instrs[0].type = DType::kFloat64; });
  change([](KernelSpec& s) { s.instrs[1].dim = 1; });
  change([](KernelSpec& s) { s.instrs[2].imm.f = 3; });
  change([](KernelSpec& s) { s.instrs[3].scalar = ScalarOp::kAdd; });
  change([](KernelSpec& s) { s.instrs[3].operands[1] = 2; });
  change([](KernelSpec& s) { s.instrs[4].op = KernelOp::kScan; });
  change([](KernelSpec& s) { s.instrs[4].reduce = ReduceKind::kProd; });
  change([](KernelSpec& s) { s.instrs[5].dim = 1; });
  change([](KernelSpec& s) { s.instrs[6].imm.i = 0; });
  change([](KernelSpec& s) { s.instrs[7].has_offset = false; });
  change([](KernelSpec& s) { s.instrs[7].has_guard = false; });
  change([](KernelSpec& s) { s.phases[0].inner = false; });
  change([](KernelSpec& s) { s.phases[0].instrs.pop_back(); });
  EXPECT_EQ(changes, 26);
}

}  // namespace
}  // namespace smelt
