#include "smelt/core/base/cause.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

TEST(CauseTest, ErrorKeepsItsCauseThroughAnnotations) {
  const absl::Status error = WithCause(absl::UnimplementedError("no"), Cause::kDependsOnOrder);
  const absl::Status outer = Annotate(Annotate(error, "node"), "model");
  EXPECT_EQ(outer.message(), "model: node: no");
  EXPECT_EQ(CauseOf(outer), Cause::kDependsOnOrder);
}

TEST(CauseTest, LastCauseCounts) {
  const absl::Status error = WithCause(absl::UnimplementedError("no"), Cause::kDependsOnOrder);
  EXPECT_EQ(CauseOf(WithCause(error, Cause::kUnaligned)), Cause::kUnaligned);
}

TEST(CauseTest, StatusWithoutACauseHasNone) {
  EXPECT_EQ(CauseOf(absl::OkStatus()), Cause::kNone);
  EXPECT_EQ(CauseOf(absl::UnimplementedError("no")), Cause::kNone);
  EXPECT_TRUE(WithCause(absl::OkStatus(), Cause::kUnaligned).ok());
}

}  // namespace
}  // namespace smelt
