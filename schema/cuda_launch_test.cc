#include "smelt/schema/cuda_launch.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/schema/bundle.h"

namespace smelt {
namespace {

using testing::HasSubstr;

std::unique_ptr<fb::CudaStageT> Stage(std::vector<fb::CudaFactor> factors, int64_t items_per_block) {
  auto stage = std::make_unique<fb::CudaStageT>();
  stage->entry = "k_0";
  stage->threads = 256;
  stage->factors = std::move(factors);
  stage->items_per_block = items_per_block;
  return stage;
}

absl::StatusOr<int64_t> Blocks(std::vector<fb::CudaFactor> factors, int64_t items_per_block,
                               absl::Span<const int64_t> words, int64_t tiles) {
  fb::CudaKernelT kernel;
  kernel.stages.push_back(Stage(std::move(factors), items_per_block));
  return ComputeBlocks(kernel, 0, words, tiles);
}

TEST(CudaLaunchTest, BlocksAreTheItemsDividedAndRoundedUp) {
  const std::vector<int64_t> words = {100, 30, 7};
  // 100 rows of 30 columns, four columns a thread, 256 threads a block: 100 * ceil(30 / 4) / 256.
  EXPECT_EQ(*Blocks({{-1, 0, 1}, {1, 1, 4}}, 256, words, 100), 4);
  // 30 * 7 elements of each of 2 tiles, 64 elements a block: 2 * ceil(210 / 64).
  EXPECT_EQ(*Blocks({{-1, 0, 1}, {1, 2, 64}}, 1, words, 2), 8);
  EXPECT_EQ(*Blocks({}, 1, words, 100), 1);
}

TEST(CudaLaunchTest, ALaunchWithoutItemsHasABlockAndAWorkspaceOfOneItem) {
  fb::CudaKernelT kernel;
  kernel.stages.push_back(Stage({{0, 2, 8}}, 1));
  kernel.workspace_bytes = 16;
  const std::vector<int64_t> words = {std::numeric_limits<int64_t>::max(), 0};
  EXPECT_EQ(*ComputeBlocks(kernel, 0, words, 1), 1);
  EXPECT_EQ(*ComputeWorkspaceBytes(kernel, words, 1), 16);
}

TEST(CudaLaunchTest, AStageForSplitReductionsIsLeftOutWhereNothingIsSplit) {
  fb::CudaKernelT kernel;
  kernel.stages.push_back(Stage({{-1, 0, 1}, {1, 1, 100}}, 1));
  kernel.stages.push_back(Stage({{-1, 0, 1}}, 256));
  kernel.stages[1]->if_split = true;
  EXPECT_EQ(*ComputeBlocks(kernel, 1, {7, 0}, 7), 0);
  EXPECT_EQ(*ComputeBlocks(kernel, 1, {7, 100}, 7), 0);
  EXPECT_EQ(*ComputeBlocks(kernel, 1, {7, 101}, 7), 1);
  EXPECT_EQ(*ComputeBlocks(kernel, 0, {7, 101}, 7), 14);
}

TEST(CudaLaunchTest, AWorkspaceCountsTheItemsOfTheFirstStage) {
  fb::CudaKernelT kernel;
  kernel.stages.push_back(Stage({{-1, 0, 1}, {1, 1, 10}}, 4));
  kernel.stages.push_back(Stage({{-1, 0, 1}}, 1));
  kernel.workspace_bytes = 24;
  EXPECT_EQ(*ComputeWorkspaceBytes(kernel, {3, 95}, 3), 3 * 10 * 24);
  kernel.workspace_bytes = 0;
  EXPECT_EQ(*ComputeWorkspaceBytes(kernel, {3, 95}, 3), 0);
}

TEST(CudaLaunchTest, SizesThatNoLaunchHasAreErrors) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ(Blocks({{0, 2, 1}}, 1, {huge, huge}, 1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Blocks({{0, 1, 1}}, 1, {-1}, 1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*Blocks({{0, 1, 1}}, 1, {huge}, 1), std::numeric_limits<int32_t>::max());
}

// Returns the verifier's message about a bundle with one kernel of four words, after `change` of its launch data.
std::string MessageAfter(const std::function<void(fb::TargetCodeT&, fb::CudaKernelT&)>& change) {
  fb::BundleT b;
  b.format = kBundleFormat;
  b.abi = kKernelAbi;
  b.kernels.push_back(std::make_unique<fb::KernelT>());
  b.kernels[0]->num_words = 4;
  auto target = std::make_unique<fb::TargetCodeT>();
  target->name = "sm_90";
  target->kernels.push_back(std::make_unique<fb::TargetKernelT>());
  target->kernels[0]->cuda = std::make_unique<fb::CudaKernelT>();
  target->kernels[0]->cuda->stages.push_back(Stage({{-1, 0, 1}, {1, 3, 4}}, 256));
  change(*target, *target->kernels[0]->cuda);
  b.targets.push_back(std::move(target));
  // The verifier sees the table as it is read from a file.
  const std::string bytes = EncodeBundle(b);
  auto decoded = DecodeBundle({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (!decoded.ok()) return std::string(decoded.status().message());
  return std::string(VerifyBundle(**decoded, nullptr).message());
}

TEST(CudaLaunchTest, HostileNumbersAreRefusedWithTheirField) {
  using Kernel = fb::CudaKernelT;
  using Target = fb::TargetCodeT;
  EXPECT_EQ(MessageAfter([](Target&, Kernel&) {}), "");
  const auto after = [](const std::function<void(Kernel&)>& change) {
    return MessageAfter([&](Target&, Kernel& k) { change(k); });
  };
  const auto stage = [](const std::function<void(fb::CudaStageT&)>& change) {
    return MessageAfter([&](Target&, Kernel& k) { change(*k.stages[0]); });
  };
  EXPECT_THAT(after([](Kernel& k) { k.stages.clear(); }),
              HasSubstr("sm_90: kernel 0: the number of stages is 0, expected 1 to 8"));
  EXPECT_THAT(after([](Kernel& k) { k.workspace_bytes = -1; }), HasSubstr("workspace_bytes is -1, expected 0 to"));
  EXPECT_THAT(stage([](auto& s) { s.entry = ""; }), HasSubstr("stage 0: its entry is no identifier"));
  EXPECT_THAT(stage([](auto& s) { s.entry = "k\n"; }), HasSubstr("stage 0: its entry is no identifier"));
  EXPECT_THAT(stage([](auto& s) { s.threads = 0; }), HasSubstr("threads is 0, expected 1 to 1024"));
  EXPECT_THAT(stage([](auto& s) { s.threads = 1025; }), HasSubstr("threads is 1025, expected 1 to 1024"));
  EXPECT_THAT(stage([](auto& s) { s.shared_bytes = -4; }), HasSubstr("shared_bytes is -4, expected 0 to"));
  EXPECT_THAT(stage([](auto& s) { s.items_per_block = 0; }), HasSubstr("items_per_block is 0, expected at least 1"));
  EXPECT_THAT(stage([](auto& s) { s.factors[1] = {1, 3, 0}; }), HasSubstr("divisor is 0, expected at least 1"));
  EXPECT_THAT(stage([](auto& s) { s.factors[1] = {1, 4, 1}; }), HasSubstr("a factor's count is 4, expected 1 to 3"));
  EXPECT_THAT(stage([](auto& s) { s.factors[1] = {4, 1, 1}; }), HasSubstr("a factor's first word is 4"));
  EXPECT_THAT(stage([](auto& s) { s.factors[1] = {-1, 1, 1}; }), HasSubstr("a factor's first word is -1"));
  EXPECT_THAT(stage([](auto& s) { s.factors.resize(17, {0, 1, 1}); }), HasSubstr("the number of factors is 17"));
  EXPECT_THAT(after([](Kernel& k) {
                k.stages[0]->factors.clear();
                k.stages[0]->if_split = true;
              }),
              HasSubstr("stage 0: if_split is set, but the first stage has no factors"));
  EXPECT_THAT(MessageAfter([](Target& t, Kernel&) { t.compute_capability = -90; }),
              HasSubstr("sm_90: its compute capability is -90"));
}

TEST(CudaLaunchTest, ParameterBlocksBeyondFourKilobytesAreNotPassedByValue) {
  fb::CudaKernelT kernel;
  kernel.stages.push_back(Stage({}, 1));
  kernel.words_by_value = true;
  EXPECT_EQ(VerifyCudaKernel(kernel, kMaxCudaWordsByValue), absl::OkStatus());
  EXPECT_THAT(VerifyCudaKernel(kernel, kMaxCudaWordsByValue + 1).message(), HasSubstr("passed by value is 509"));
  EXPECT_THAT(VerifyCudaKernel(kernel, 0).message(), HasSubstr("passed by value is 0, expected 1 to 508"));
}

}  // namespace
}  // namespace smelt
