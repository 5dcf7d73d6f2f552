#include "smelt/core/base/status_macros.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(n / 2);
}

absl::StatusOr<int> Quarter(int n) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<int> half, Half(n));
  SMELT_ASSIGN_OR_RETURN(half, Half(*half));
  return *half;
}

absl::Status IsQuarterable(int n) {
  SMELT_RETURN_IF_ERROR(Quarter(n));
  SMELT_RETURN_IF_ERROR(Annotate(Half(n).status(), "n"));
  return absl::OkStatus();
}

TEST(StatusMacrosTest, AssignOrReturnMovesTheValueOutOrReturnsTheError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
}

TEST(StatusMacrosTest, ReturnIfErrorTakesStatusAndStatusOr) {
  EXPECT_EQ(IsQuarterable(8), absl::OkStatus());
  EXPECT_EQ(IsQuarterable(2), absl::InvalidArgumentError("odd"));
}

TEST(AnnotateTest, ContextGoesInFrontAndCodeAndPayloadStay) {
  absl::Status inner = absl::NotFoundError("no entry \"model.json\"");
  inner.SetPayload("smelt/ops", absl::Cord("aten::foo"));
  absl::Status outer = Annotate(Annotate(inner, "models"), "a.pt2");
  EXPECT_EQ(outer.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(outer.message(), "a.pt2: models: no entry \"model.json\"");
  EXPECT_EQ(outer.GetPayload("smelt/ops"), absl::Cord("aten::foo"));
}

TEST(AnnotateTest, LeavesSuccessAlone) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "a.pt2").ok());
  EXPECT_EQ(**Annotate(Half(4), "a.pt2"), 2);
  EXPECT_EQ(Annotate(Half(5), "a.pt2").status().message(), "a.pt2: odd");
}

}  // namespace
}  // namespace smelt
