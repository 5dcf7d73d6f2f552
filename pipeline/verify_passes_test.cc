#include "smelt/pipeline/verify_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Graph> Parse(const std::string& text) {
  auto g = ParseGraph(text);
  EXPECT_TRUE(g.ok()) << g.status();
  return *std::move(g);
}

absl::Status Verify(const std::string& before, const std::string& after) {
  return VerifySameMeaning(*Parse(before), *Parse(after), "a-pass");
}

// A sum through 10,000 has an error of 0.0005, 50 times the tolerance of elements near 0.
constexpr char kThroughALargeSum[] = R"(
graph(%x : Float(64, strides=[1]), %y : Float(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %large : float = prim::Constant[value=10000.3]()
  %a : Tensor = aten::add.Scalar(%x, %large, %one)
  %b : Tensor = aten::add.Tensor(%a, %y, %one)
  %c : Tensor = aten::sub.Scalar(%b, %large, %one)
  return (%c)
)";

TEST(VerifySameMeaningTest, AnotherOrderOfRoundingIsNoChangeOfMeaning) {
  EXPECT_EQ(Verify(kThroughALargeSum, R"(
graph(%x : Float(64, strides=[1]), %y : Float(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %c : Tensor = aten::add.Tensor(%x, %y, %one)
  return (%c)
)"),
            absl::OkStatus());
}

TEST(VerifySameMeaningTest, AnErrorIsFoundAlthoughRoundingIsAmplified) {
  const absl::Status changed = Verify(kThroughALargeSum, R"(
graph(%x : Float(64, strides=[1]), %y : Float(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %error : float = prim::Constant[value=0.3]()
  %sum : Tensor = aten::add.Tensor(%x, %y, %one)
  %c : Tensor = aten::add.Scalar(%sum, %error, %one)
  return (%c)
)");
  EXPECT_EQ(changed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("pass a-pass changed the meaning: output 0: element"));
}

TEST(VerifySameMeaningTest, ToleranceIsNotWidenedWhereRoundingIsNotAmplified) {
  constexpr char kSum[] = R"(
graph(%x : Float(64, strides=[1]), %y : Float(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %c : Tensor = aten::add.Tensor(%x, %y, %one)
  return (%c)
)";
  const std::string other =
      absl::StrReplaceAll(kSum, {{"%one)", "%scale)"}, {"%one : int", "%scale : float"}, {"value=1", "value=1.0005"}});
  EXPECT_EQ(Verify(kSum, kSum), absl::OkStatus());
  EXPECT_EQ(Verify(kSum, other).code(), absl::StatusCode::kInternal);
}

TEST(VerifySameMeaningTest, IntegersAreExact) {
  constexpr char kSum[] = R"(
graph(%x : Long(64, strides=[1]), %y : Long(64, strides=[1])):
  %one : int = prim::Constant[value=1]()
  %c : Tensor = aten::add.Tensor(%x, %y, %one)
  return (%c)
)";
  EXPECT_EQ(Verify(kSum, kSum), absl::OkStatus());
  EXPECT_EQ(Verify(kSum, absl::StrReplaceAll(kSum, {{"value=1", "value=2"}})).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace smelt
