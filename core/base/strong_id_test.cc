#include "smelt/core/base/strong_id.h"

#include <sstream>
#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace smelt {
namespace {

using AppleId = StrongId<struct AppleTag>;
using PearId = StrongId<struct PearTag>;

static_assert(sizeof(AppleId) == 8);
static_assert(!std::is_convertible_v<AppleId, PearId> && !std::is_convertible_v<uint32_t, AppleId>);

TEST(StrongIdTest, DefaultIsInvalid) {
  EXPECT_FALSE(AppleId().valid());
  EXPECT_TRUE(AppleId(0).valid());
  EXPECT_NE(AppleId(0), AppleId());
}

TEST(StrongIdTest, AnotherGenerationOfASlotIsAnotherId) { EXPECT_NE(AppleId(3, 1), AppleId(3, 2)); }

TEST(StrongIdTest, IsOrderedByIndexThenGeneration) {
  EXPECT_LT(AppleId(1, 9), AppleId(2, 1));
  EXPECT_LT(AppleId(2, 1), AppleId(2, 2));
}

TEST(StrongIdTest, HashesWithAbseil) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({AppleId(), AppleId(0), AppleId(1), AppleId(1, 2)}));
  absl::flat_hash_set<AppleId> set = {AppleId(1), AppleId(1), AppleId(2)};
  EXPECT_EQ(set.size(), 2u);
}

TEST(StrongIdTest, Prints) {
  std::ostringstream out;
  out << AppleId(7) << " " << AppleId(7, 2) << " " << AppleId();
  EXPECT_EQ(out.str(), "#7 #7.2 #none");
}

}  // namespace
}  // namespace smelt
