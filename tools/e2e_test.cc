// Runs every model of testdata/ through every stage and compares with PyTorch's results.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/file.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/e2e_testing.h"

namespace smelt {
namespace {

class ModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelTest, AnswersAsPyTorchDidAndKernelsStayInTheirBuffers) {
  EXPECT_EQ(CompileAndRunCase("testdata", GetParam(), {}), "");
  EXPECT_EQ(RunGuardedCase("testdata", GetParam()), "");
}

TEST_P(ModelTest, EveryPassKeepsTheMeaning) {
  CompileOptions options;
  options.verify = true;
  // Together the three tests run each level: on a machine with AVX-512 the first one runs x86-64-v4.
  options.targets = {kHostTargets[0]};
  const std::string different = CompileAndRunCase("testdata", GetParam(), options);
  EXPECT_EQ(different, "");
}

TEST_P(ModelTest, AnswersWithoutFusionToo) {
  CompileOptions options;
  options.fuse = false;
  options.targets = {kHostTarget};
  EXPECT_EQ(CompileAndRunCase("testdata", GetParam(), options), "");
}

TEST_P(ModelTest, OneAndTwoThreadsInDifferentFoldersGiveTheSameBytes) {
  std::string bytes[2];
  for (int i = 0; i < 2; ++i) {
    const std::string folder = Scratch(i == 0 ? "one" : "two/deeper");
    std::filesystem::create_directories(folder);
    const std::string model = absl::StrCat(folder, "/", GetParam(), ".pt2");
    std::filesystem::copy_file(ModelPath("testdata", GetParam()), model,
                               std::filesystem::copy_options::overwrite_existing);
    auto cache = KernelCache::Create({.mode = CacheMode::kOff});
    ASSERT_TRUE(cache.ok());
    CompileOptions options;
    options.threads = i + 1;
    options.cache = cache->get();
    const std::string bundle = absl::StrCat(folder, "/", GetParam(), ".smb");
    auto stats = CompileModel(model, bundle, options);
    ASSERT_TRUE(stats.ok()) << stats.status();
    auto read = ReadFile(bundle);
    ASSERT_TRUE(read.ok());
    bytes[i] = *std::move(read);
    EXPECT_EQ(static_cast<int64_t>(bytes[i].size()), stats->bundle_bytes);
  }
  EXPECT_TRUE(bytes[0] == bytes[1]) << GetParam() << ": not the same bytes twice";
}

INSTANTIATE_TEST_SUITE_P(Testdata, ModelTest, ::testing::ValuesIn(ModelNames("testdata")),
                         [](const auto& info) { return info.param; });

TEST(LstmTest, TheCellIsOneKernelUsedAHundredTimes) {
  const std::string bundle = Scratch("lstm_uses.smb");
  CompileOptions options;
  options.targets = {kHostTarget};
  auto stats = CompileModel("testdata/lstm_100.pt2", bundle, options);
  ASSERT_TRUE(stats.ok()) << stats.status();
  auto file = Container::Open(bundle, ContentKind::kBundle);
  ASSERT_TRUE(file.ok()) << file.status();
  auto decoded = LoadBundle(**file);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  // The cell is where tanh is: c' = f*c + i*tanh(g), h' = o*tanh(c').
  int cells = 0;
  for (const auto& kernel : (*decoded)->kernels) {
    if (!absl::StrContains(kernel->spec, "tanh")) continue;
    ++cells;
    EXPECT_EQ(kernel->uses, 100);
  }
  EXPECT_EQ(cells, 1);
}

}  // namespace
}  // namespace smelt
