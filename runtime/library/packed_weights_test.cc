#include "smelt/runtime/library/packed_weights.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace smelt {
namespace {

constexpr char kWeights[] = "weights";
constexpr PackedWeights::Source kSource{kWeights, 7};

absl::Status Copy(char* to) {
  std::memcpy(to, kWeights, 7);
  return absl::OkStatus();
}

TEST(PackedWeightsTest, EqualLayoutsOfAnOperandAreOneCopy) {
  PackedWeights weights;
  auto first = weights.Get(kSource, "rows", 7, Copy);
  auto second = weights.Get(kSource, "rows", 7, [](char*) { return absl::InternalError("packed again"); });
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->get(), second->get());
  EXPECT_EQ(std::string(first->get(), 7), "weights");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->get()) % 64, 0u);
  EXPECT_EQ(weights.bytes(), 7);
}

TEST(PackedWeightsTest, LayoutsAndOperandsAreKeptApart) {
  PackedWeights weights;
  auto rows = weights.Get(kSource, "rows", 7, Copy), columns = weights.Get(kSource, "columns", 7, Copy);
  auto behind = weights.Get({kWeights + 1, 6}, "rows", 6, [](char* to) {
    std::memcpy(to, kWeights + 1, 6);
    return absl::OkStatus();
  });
  ASSERT_TRUE(rows.ok() && columns.ok() && behind.ok());
  EXPECT_NE(rows->get(), columns->get());
  EXPECT_EQ(std::string(behind->get(), 6), "eights");
  EXPECT_EQ(weights.bytes(), 20);
}

TEST(PackedWeightsTest, ASourceReachesFromTheLowestToTheHighestElement) {
  // [2, 3] of 4 bytes: rows 10 apart downwards, columns 2 apart upwards.
  const char memory[100] = {};
  const PackedWeights::Source source = PackedWeights::SourceOf(memory + 40, {2, 3}, {-10, 2}, 4);
  EXPECT_EQ(source.begin, memory);
  EXPECT_EQ(source.bytes, (10 + 4 + 1) * 4);
}

TEST(PackedWeightsTest, AFailureToPackIsReturnedAndKeepsNothing) {
  PackedWeights weights;
  auto failed = weights.Get(kSource, "rows", 7, [](char*) { return absl::InternalError("no such layout"); });
  EXPECT_EQ(failed.status().message(), "no such layout");
  EXPECT_EQ(weights.bytes(), 0);
  EXPECT_TRUE(weights.Get(kSource, "rows", 7, Copy).ok());
}

TEST(PackedWeightsTest, TheOwnerLearnsWhatWasPacked) {
  std::vector<int64_t> told;
  PackedWeights weights([&](const PackedWeights::Source& source) { told.push_back(source.bytes); });
  auto first = weights.Get(kSource, "rows", 7, Copy), second = weights.Get(kSource, "rows", 7, Copy);
  EXPECT_EQ(told, std::vector<int64_t>{7});
}

}  // namespace
}  // namespace smelt
