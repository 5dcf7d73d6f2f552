// Compares transposed operands, large enough for whole tiles and cut off at either edge, with the interpreter.
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"
#include "smelt/core/op/scalar_memory.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {
namespace {

// min(a.t(), b), or with two transposed operands of different types: min(a.t(), c.t()).
std::string Spec(const std::string& a, const std::string& c, bool both) {
  return absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", a,
                      " r [unit,any] alias=-1\nparam ", c, " r [", both ? "unit,any" : "any,unit",
                      "] alias=-1\nparam float64 w [any,unit] alias=-1\n%0 = load.p0 ", a,
                      "\n%1 = cast float64 %0\n%2 = load.p1 ", c,
                      "\n%3 = cast float64 %2\n%4 = min float64 %1 %3\n%5 = store.p2 float64 %4\nouter 0 1 2 3 4 5\n");
}

class TransposedTest : public testing::TestWithParam<Target> {};

TEST_P(TransposedTest, EqualsTheInterpreter) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float64", "float32", "bfloat16", "uint8"}) {
    for (const char* other : {type, "float32"}) {
      for (bool both : {false, true}) {
        RandomCase c;
        absl::StatusOr<KernelSpec> spec = ParseKernelSpec(Spec(type, other, both));
        ASSERT_TRUE(spec.ok()) << spec.status();
        c.spec = *spec;
        c.zeros_may_differ = true;
        SCOPED_TRACE(c.spec.ToString());
        absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
        ASSERT_TRUE(image.ok()) << image.status();
        // Rows and columns: whole tiles of any element type and machine; fewer; more, and not whole; less than a block.
        for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{256, 64},
                                                                             {256, 128},
                                                                             {60, 130},
                                                                             {1037, 70},
                                                                             {31, 300},
                                                                             {7, 40},
                                                                             {40, 7},
                                                                             {1, 70},
                                                                             {70, 1},
                                                                             {3, 5},
                                                                             {14, 14},
                                                                             {17, 33}}) {
          SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
          c.launch = DenseLaunch(c.spec, {rows, columns}, rng);
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
          ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
        }
      }
    }
  }
}

// The minimum and the maximum of two operands. The maximum lies as the first operand does, across the loop, or is written
// over it; the minimum lies as the second operand, or as the first if that is overwritten.
std::string Written(const std::string& type, bool in_place) {
  return absl::StrCat("kernel parallel=2 reduction=0 vector=1 sequential=0\nparam ", type, in_place ? " rw" : " r",
                      " [unit,any] alias=0\nparam ", type, " r [any,unit] alias=1\nparam ", type, " w [",
                      in_place ? "unit,any" : "any,unit", "] alias=2\n",
                      in_place ? "" : absl::StrCat("param ", type, " w [unit,any] alias=3\n"), "%0 = load.p0 ", type,
                      "\n%1 = load.p1 ", type, "\n%2 = cast float64 %0\n%3 = cast float64 %1\n",
                      "%4 = min float64 %2 %3\n%5 = cast ", type, " %4\n%6 = store.p2 ", type, " %5\n",
                      "%7 = max float64 %2 %3\n%8 = cast ", type, " %7\n%9 = store.p", in_place ? 0 : 3, " ", type,
                      " %8\nouter 0 1 2 3 4 5 6 7 8 9\n");
}

TEST_P(TransposedTest, ResultsThatLieAcrossTheLoopEqualTheInterpreters) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float64", "float32", "bfloat16", "uint8"}) {
    for (const bool in_place : {false, true}) {
      RandomCase c;
      c.spec = ParseOrDie(Written(type, in_place));
      c.zeros_may_differ = true;
      SCOPED_TRACE(c.spec.ToString());
      absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
      ASSERT_TRUE(image.ok()) << image.status();
      for (auto [rows, columns] :
           std::vector<std::pair<int64_t, int64_t>>{{270, 70}, {60, 130}, {7, 40}, {40, 7}, {1, 70}, {17, 33}}) {
        SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
        c.launch = DenseLaunch(c.spec, {rows, columns}, rng);
        ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
        ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
      }
    }
  }
}

// Every other element of each column of an operand.
TEST_P(TransposedTest, ColumnsOfEveryOtherElementEqualTheInterpreters) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float64", "float32", "bfloat16", "uint8"}) {
    RandomCase c;
    c.spec = ParseOrDie(absl::StrReplaceAll(Spec(type, "float32", false), {{"[unit,any]", "[two,any]"}}));
    c.zeros_may_differ = true;
    SCOPED_TRACE(c.spec.ToString());
    absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    for (auto [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
             {270, 70}, {60, 130}, {7, 40}, {40, 7}, {1, 70}, {17, 33}, {64, 64}}) {
      SCOPED_TRACE(absl::StrCat(rows, " x ", columns));
      c.launch = DenseLaunch(c.spec, {rows, columns}, rng);
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
      ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
    }
  }
}

// The distances of each row's elements from its maximum, less the smallest of them.
std::string RowsSpec(const std::string& type, bool operand_across, bool result_across) {
  const auto strides = [](bool across) { return across ? "[any,unit,any]" : "[any,any,unit]"; };
  return absl::StrCat("kernel parallel=2 reduction=1 vector=2 sequential=0\nparam ", type, " r ",
                      strides(operand_across), " alias=-1\nparam float64 rw ", strides(result_across),
                      " alias=-1\n%0 = load.p0 ", type,
                      "\n%1 = cast float64 %0\n%2 = reduce.max float64 %1\n%3 = load.p0 ", type,
                      "\n%4 = cast float64 %3\n%5 = sub float64 %4 %2\n%6 = reduce.min float64 %5\n",
                      "%7 = store.p1 float64 %5\n%8 = load.p1 float64\n%9 = sub float64 %8 %6\n",
                      "%10 = store.p1 float64 %9\ninner 0 1 2\ninner 3 4 5 6 7\ninner 8 9 10\n");
}

// Rows that lie across their loop go through buffers, if these have room for some of them.
TEST_P(TransposedTest, RowsThatLieAcrossTheirLoopEqualTheInterpreters) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  std::mt19937_64 rng(1);
  for (const char* type : {"float64", "float32", "bfloat16", "uint8"}) {
    for (auto [operand, result] : {std::pair{true, false}, {false, true}, {true, true}}) {
      RandomCase c;
      c.spec = ParseOrDie(RowsSpec(type, operand, result));
      c.zeros_may_differ = true;
      SCOPED_TRACE(c.spec.ToString());
      absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
      ASSERT_TRUE(image.ok()) << image.status();
      for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
               {2, 37, 70}, {1, 16, 16}, {3, 5, 130}, {1, 70, 3}, {2, 1, 40}, {1, 300, 33}, {1, 17, 2200}}) {
        SCOPED_TRACE(absl::StrCat(sizes[0], " x ", sizes[1], " x ", sizes[2]));
        c.launch = DenseLaunch(c.spec, sizes, rng);
        ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
        ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
      }
    }
  }
}

// A sum of matrices, each of some element type and transposed or not, in a third type.
struct Sum {
  DType a, b, result;
  bool both_transposed;
  std::vector<int64_t> sizes;  // of one matrix, or of several in a row
};

std::string SpecOf(const Sum& sum) {
  const int dims = static_cast<int>(sum.sizes.size());
  const std::string outer = dims == 3 ? "any," : "";
  const std::string a(Name(sum.a)), b(Name(sum.b)), result(Name(sum.result));
  std::string text = absl::StrCat("kernel parallel=", dims, " reduction=0 vector=", dims - 1, " sequential=0\nparam ",
                                  a, " r [", outer, "unit,any] alias=-1\nparam ", b, " r [", outer,
                                  sum.both_transposed ? "unit,any" : "any,unit", "] alias=-1\nparam ", result, " w [",
                                  outer, "any,unit] alias=-1\n%0 = load.p0 ", a, "\n%1 = load.p1 ", b, "\n");
  const std::string type = sum.a == DType::kBFloat16 ? "float32" : a;
  int next = 2;
  auto cast = [&](int value, const std::string& from, const std::string& to) {
    if (from == to) return value;
    absl::StrAppend(&text, "%", next, " = cast ", to, " %", value, "\n");
    return next++;
  };
  const int x = cast(0, a, type), y = cast(1, b, type);
  absl::StrAppend(&text, "%", next, " = add ", type, " %", x, " %", y, "\n");
  const int stored = cast(next++, type, result);
  absl::StrAppend(&text, "%", next, " = store.p2 ", result, " %", stored, "\nouter");
  for (int k = 0; k <= next; ++k) absl::StrAppend(&text, " ", k);
  return text + "\n";
}

// Small integers, which every type holds.
int64_t ElementOf(int64_t i, int64_t param) { return (i * 7 + i / 61 + param) % 23; }

// Returns the bytes of small integers.
std::vector<std::array<uint8_t, 8>> EncodedAs(DType type) {
  std::vector<std::array<uint8_t, 8>> encoded(2 * 23);
  for (size_t i = 0; i < encoded.size(); ++i) {
    ScalarValue value;
    IsFloating(type) ? value.f = static_cast<double>(i) : value.i = static_cast<int64_t>(i);
    StoreScalar(type, value, encoded[i].data());
  }
  return encoded;
}

// Matrices too large for the cache are processed in blocks of whole squares, with a prefetch of the next block.
// Remaining rows are not prefetched, and neither are matrices whose rows do not begin at a cache line.
TEST_P(TransposedTest, PastTheCacheSumsAreThoseOfTheirElements) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBFloat16, kF64 = DType::kFloat64, kU8 = DType::kUInt8;
  for (const Sum& sum : std::vector<Sum>{{kF32, kF32, kF32, false, {1044, 4112}},
                                         {kF32, kF32, kF32, true, {4112, 1040}},
                                         {kF32, kF32, kF32, false, {3, 517, 2800}},
                                         {kF32, kF32, kF32, false, {2100, 2001}},
                                         {kBf16, kBf16, kBf16, false, {2092, 4064}},
                                         {kBf16, kF32, kF32, false, {1100, 4000}},
                                         {kF32, kBf16, kBf16, true, {33, 257, 1024}},
                                         {kF64, kF64, kF64, false, {2054, 1064}},
                                         {kF64, kF32, kF64, true, {1032, 2072}},
                                         {kF64, kU8, kF64, true, {1056, 2064}},
                                         {kU8, kU8, kU8, false, {4100, 4160}}}) {
    const KernelSpec spec = ParseOrDie(SpecOf(sum));
    SCOPED_TRACE(spec.ToString());
    absl::StatusOr<LoadedImage> image = CompileAndLoad(spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    const bool several = sum.sizes.size() == 3;
    const int64_t count = several ? sum.sizes[0] : 1, rows = sum.sizes[several], columns = sum.sizes[several + 1];
    const int64_t elements = count * rows * columns;
    std::vector<int64_t> words = sum.sizes;
    std::vector<Tensor> tensors;
    for (int p = 0; p < 3; ++p) {
      const DType type = p == 0 ? sum.a : p == 1 ? sum.b : sum.result;
      tensors.push_back(Tensor::Empty(type, {elements}));
      char* data = static_cast<char*>(tensors.back().data());
      const auto encoded = EncodedAs(type);
      const int item = ItemSize(type);
      for (int64_t i = 0; p < 2 && i < elements; ++i) {
        std::memcpy(data + i * item, encoded[ElementOf(i, p)].data(), item);
      }
      words.push_back(reinterpret_cast<int64_t>(data));
      if (several) words.push_back(rows * columns);
      words.push_back(p == 0 || (p == 1 && sum.both_transposed) ? rows : columns);
    }
    const int64_t tiles = count * rows;
    int64_t status[2] = {0, 0};
    for (int k = 0; k < 3; ++k) image->entry(0)(words.data(), tiles * k / 3, tiles * (k + 1) / 3, status);
    ASSERT_EQ(status[0], 0);
    int64_t wrong = 0;
    const auto encoded = EncodedAs(sum.result);
    const int item = ItemSize(sum.result);
    const char* result = static_cast<const char*>(tensors[2].data());
    for (int64_t m = 0, i = 0; m < count; ++m) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c, ++i) {
          const int64_t across = m * rows * columns + c * rows + r;
          const int64_t value = ElementOf(across, 0) + ElementOf(sum.both_transposed ? across : i, 1);
          wrong += std::memcmp(encoded[value].data(), result + i * item, item) != 0;
        }
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TransposedTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
