#include "smelt/runtime/output_allocator.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace smelt {
namespace {

TEST(OutputAllocatorTest, AReleasedStorageServesTheNextResultOfItsSize) {
  const HostDevice host(nullptr, 1);
  OutputAllocator allocator(GuardPages::kNone, &host);
  const Storage* first = allocator.Allocate(100).value().get();
  EXPECT_EQ(allocator.Allocate(100).value().get(), first);
}

TEST(OutputAllocatorTest, ResultsOfEverOtherSizesDoNotPileUp) {
  const HostDevice host(nullptr, 1);
  OutputAllocator allocator(GuardPages::kNone, &host);
  constexpr int64_t kMiB = int64_t{1} << 20;
  const std::shared_ptr<Storage> held = *allocator.Allocate(kMiB);
  std::vector<std::weak_ptr<Storage>> released;
  for (int64_t i = 0; i < 100; ++i) released.push_back(*allocator.Allocate(kMiB + i));
  int64_t kept = 0;
  for (const auto& s : released) kept += s.expired() ? 0 : s.lock()->bytes();
  // 32 MiB, and the one that was made last.
  EXPECT_LE(kept, 34 * kMiB);
  EXPECT_NE(allocator.Allocate(kMiB).value().get(), held.get());
}

}  // namespace
}  // namespace smelt
