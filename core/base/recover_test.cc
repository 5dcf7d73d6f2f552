#include "smelt/core/base/recover.h"

#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/core/base/check.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RecoverTest, AFailedCheckIsAnErrorThatNamesPassNodeAndCheck) {
  const absl::Status s = Recovered("read", []() -> absl::Status {
    WorksOnPass("fuse");
    WorksOnNode("aten::add.Tensor", "model.py:3");
    const int size = 2;
    SMELT_CHECK_EQ(size, 3);
    return absl::OkStatus();
  });
  EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(s.message()), StartsWith("fuse: aten::add.Tensor (model.py:3): "));
  EXPECT_THAT(std::string(s.message()), HasSubstr("recover_test.cc"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("check failed: size == 3 (2 and 3)"));
  EXPECT_THAT(std::string(s.message()), Not(HasSubstr("\n")));
}

TEST(RecoverTest, ANewPassForgetsTheNode) {
  const absl::Status s = Recovered("read", []() -> absl::Status {
    WorksOnNode("aten::add.Tensor", "");
    WorksOnPass("plan");
    SMELT_UNREACHABLE();
  });
  EXPECT_THAT(std::string(s.message()), StartsWith("plan: "));
  EXPECT_THAT(std::string(s.message()), Not(HasSubstr("aten")));
}

TEST(RecoverTest, ExceptionsAreErrorsAndMemoryThatRanOutIsAResource) {
  const auto code_of = [](auto thrown) { return Recovered("read", [&]() -> absl::Status { throw thrown; }).code(); };
  EXPECT_EQ(code_of(std::length_error("too long")), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(std::out_of_range("no such index")), absl::StatusCode::kInternal);
  EXPECT_EQ(code_of(std::bad_alloc()), absl::StatusCode::kResourceExhausted);
  const auto no_thread = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(code_of(std::system_error(no_thread)), absl::StatusCode::kResourceExhausted);
}

TEST(RecoverTest, WhatWorkOwnsIsGivenBack) {
  bool closed = false;
  const absl::Status s = Recovered("read", [&]() -> absl::Status {
    const absl::Cleanup close = [&] { closed = true; };
    SMELT_CHECK(closed);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsInternal(s));
  EXPECT_TRUE(closed);
}

TEST(RecoverTest, WhatWorkReturnsIsReturned) {
  const absl::StatusOr<int> seven = Recovered<int>("read", []() -> absl::StatusOr<int> { return 7; });
  EXPECT_EQ(seven.value(), 7);
  const absl::StatusOr<int> none =
      Recovered<int>("read", []() -> absl::StatusOr<int> { return absl::NotFoundError("no such int"); });
  EXPECT_TRUE(absl::IsNotFound(none.status()));
}

TEST(RecoverTest, TheInnerOneEndsFirstAndTheOuterOneIsStillThere) {
  const absl::Status s = Recovered("outer", []() -> absl::Status {
    const absl::Status inner = Recovered("inner", []() -> absl::Status { SMELT_UNREACHABLE(); });
    EXPECT_THAT(std::string(inner.message()), StartsWith("inner: "));
    SMELT_UNREACHABLE();
  });
  EXPECT_THAT(std::string(s.message()), StartsWith("outer: "));
}

TEST(RecoverDeathTest, OutsideOfItAndOnAnotherThreadAFailedCheckAborts) {
  EXPECT_DEATH(SMELT_UNREACHABLE(), "unreachable");
  EXPECT_DEATH(Recovered("read",
                         []() -> absl::Status {
                           std::thread([] { SMELT_UNREACHABLE(); }).join();
                           return absl::OkStatus();
                         })
                   .IgnoreError(),
               "unreachable");
}

}  // namespace
}  // namespace smelt
