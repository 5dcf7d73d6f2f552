#include "smelt/core/base/out_of_memory.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

TEST(OutOfMemoryTest, TheStatusSaysHowMuchWasWanted) {
  const absl::Status s = CatchOutOfMemory([]() -> absl::Status { throw OutOfMemory(int64_t{1} << 40); });
  EXPECT_EQ(s, absl::ResourceExhaustedError("out of memory: no memory for 1099511627776 bytes"));
}

TEST(OutOfMemoryTest, WhatContainersThrowIsCaughtToo) {
  const absl::StatusOr<std::string> none =
      CatchOutOfMemory([]() -> absl::StatusOr<std::string> { throw std::bad_alloc(); });
  EXPECT_EQ(none.status(), absl::ResourceExhaustedError("out of memory"));
  const absl::Status s = CatchOutOfMemory([]() -> absl::Status {
    std::vector<char> v;
    v.reserve(v.max_size() + 1);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
}

TEST(OutOfMemoryTest, WhatTheBodyReturnsIsReturned) {
  EXPECT_TRUE(CatchOutOfMemory([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(*CatchOutOfMemory([]() -> absl::StatusOr<std::string> { return "x"; }), "x");
}

}  // namespace
}  // namespace smelt
