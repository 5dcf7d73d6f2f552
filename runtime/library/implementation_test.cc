// Tests that prepared operators name their implementation, and why those before it do not apply.
#include "smelt/runtime/library/implementation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/library/library.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

OperandShape Dense(DType t, std::vector<int64_t> sizes) {
  OperandShape o;
  o.present = true;
  o.dtype = t;
  o.strides.resize(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) o.strides[d] = step;
  o.sizes = std::move(sizes);
  return o;
}

std::string ImplementationOf(const LibraryRequest& r) {
  Library library;
  auto op = library.Prepare(r);
  return op.ok() ? (*op)->implementation() : std::string(op.status().message());
}

std::string OfMatmul(DType t, int64_t m, int64_t n, int64_t k) {
  return ImplementationOf(
      {.op = "matmul", .inputs = {Dense(t, {m, k}), Dense(t, {k, n})}, .outputs = {Dense(t, {m, n})}});
}

TEST(ImplementationTest, AProductIsMadeByTheFirstWayThatApplies) {
  EXPECT_EQ(OfMatmul(DType::kFloat32, 4, 4, 0), "nothing to multiply");
  EXPECT_EQ(OfMatmul(DType::kFloat32, 8, 8, 8), "rows, of a small product (nothing to multiply: there are products)");
  EXPECT_EQ(OfMatmul(DType::kFloat32, 256, 256, 256),
            "tiles (nothing to multiply: there are products; rows, of a small product: the product is not small)");
  EXPECT_EQ(OfMatmul(DType::kFloat64, 256, 256, 256),
            "rows (nothing to multiply: there are products; rows, of a small product: it is not float32; tiles: it is "
            "neither floating point nor int8 to int32)");
}

TEST(ImplementationTest, ACallThatNoWayAppliesToIsRefusedWithAllReasons) {
  EXPECT_THAT(OfMatmul(DType::kBool, 4, 4, 4), StartsWith("matmul of bool: nothing to multiply: there are products; "));
  EXPECT_THAT(OfMatmul(DType::kBool, 4, 4, 4), HasSubstr("rows: bool has no products"));
}

TEST(ImplementationTest, AConvolutionIsMadeByTheCheapestWayThatApplies) {
  const auto of = [](DType t, int64_t channels) {
    return ImplementationOf({.op = "convolution",
                             .inputs = {Dense(t, {1, channels, 9, 9}), Dense(t, {channels, channels, 3, 3})},
                             .outputs = {Dense(t, {1, channels, 7, 7})},
                             .ints = {1, 1, 0, 0, 1, 1, 0, 0, 0, 1}});
  };
  EXPECT_THAT(of(DType::kFloat64, 2), StartsWith("sums of float64 ("));
  EXPECT_THAT(of(DType::kFloat64, 32), StartsWith("matrix products of float64 ("));
  EXPECT_THAT(of(DType::kFloat64, 32), HasSubstr("sums of float64: there are many channels in a group"));
  EXPECT_THAT(of(DType::kInt32, 32), StartsWith("loops ("));
}

class Nothing : public PreparedOp {
 public:
  absl::Status Run(const LibraryContext&, absl::Span<char* const>, absl::Span<char* const>) const override {
    return absl::OkStatus();
  }
};

TEST(ImplementationTest, TheWayWithTheLeastEstimateThatHasCodeIsMade) {
  using library_internal::MakeResult;
  using Way = library_internal::Implementation<int>;
  constexpr auto kApplies = [](const int&) -> const char* { return nullptr; };
  constexpr auto kMake = [](const int&) -> MakeResult { return std::make_unique<Nothing>(); };
  const Way ways[] = {
      {"slow", kApplies, kMake, [](const int& n) { return 3.0 * n; }},
      {"unfit", [](const int&) { return "it does not fit"; }, kMake, [](const int&) { return 0.0; }},
      {"fast", kApplies, kMake, [](const int& n) { return 2.0 * n; }},
      {"missing", kApplies, [](const int&) -> MakeResult { return nullptr; }, [](const int& n) { return 1.0 * n; }},
      {"as fast", kApplies, kMake, [](const int& n) { return 2.0 * n; }},
  };
  const MakeResult op = library_internal::MakeCheapest<int>(ways, 10, "nothing");
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_EQ(
      (*op)->implementation(),
      "fast (unfit: it does not fit; missing: there is no code for these operands; as fast: it is estimated to take "
      "1 times as long; slow: it is estimated to take 1.5 times as long)");
  const MakeResult none = library_internal::MakeCheapest<int>({&ways[1], 1}, 10, "nothing");
  EXPECT_EQ(none.status().message(), "nothing: unfit: it does not fit");
}

TEST(ImplementationTest, SelectionDependsOnHowManyElementsOfALineAreKept) {
  const auto of = [](int64_t k, bool sorted) {
    return ImplementationOf({.op = "topk",
                             .inputs = {Dense(DType::kFloat32, {2, 64})},
                             .outputs = {Dense(DType::kFloat32, {2, k}), Dense(DType::kInt64, {2, k})},
                             .ints = {k, 1, 1, sorted}});
  };
  EXPECT_EQ(of(3, false), "PyTorch's selection");
  EXPECT_EQ(of(1, true), "minimum (PyTorch's selection: the result is sorted)");
  EXPECT_THAT(of(3, true), StartsWith("heap ("));
  EXPECT_THAT(of(9, true), StartsWith("sorting ("));
  EXPECT_THAT(of(9, true), HasSubstr("heap: more than a sixteenth of a line is kept"));
}

TEST(ImplementationTest, DenseBoundariesAreSearchedForSeveralValuesAtATime) {
  const auto of = [](DType t) {
    return ImplementationOf({.op = "searchsorted",
                             .inputs = {Dense(t, {8}), Dense(t, {5}), {}},
                             .outputs = {Dense(DType::kInt64, {5})},
                             .ints = {0}});
  };
  EXPECT_EQ(of(DType::kFloat32), "several at a time");
  EXPECT_EQ(of(DType::kInt32), "one by one (several at a time: it is neither float32, float64 nor int64)");
}

}  // namespace
}  // namespace smelt
