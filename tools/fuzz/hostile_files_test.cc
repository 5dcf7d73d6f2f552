// Reads tens of thousands of hostile bundles and graph files: a reader returns a result or an error, and no sanitizer
// reports an error. `smelt-mutate` reads millions.
#include "smelt/tools/fuzz/hostile_files.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/ir/text_samples.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/schema/graph_encode.h"
#include "smelt/tools/fuzz/slices.h"

namespace smelt {
namespace {

constexpr int kSlices = 4, kMostFilesOfSlice = 5'000;  // of each format

std::vector<std::string> Bundles() {
  // The bundles of the plain build if this is a sanitized one; .ci/run sets the variable.
  const char* folder = std::getenv("SMELT_TEST_BUNDLES");
  std::vector<std::string> files;
  for (const char* name : {"autocast_and_dropout", "branches_on_sizes_and_data", "cond", "digits", "duplicate_mutation",
                           "dynamic_batch", "dynamic_mutation", "masks_and_counts", "mutate_and_transpose_shared",
                           "output_aliases", "relu_input", "rms_norm_bf16", "sizes_from_data"}) {
    auto bytes = ReadFile(absl::StrCat(folder ? folder : "tools/hostile_bundles", "/", name, ".smb"));
    EXPECT_TRUE(bytes.ok()) << bytes.status()
                            << "; with a sanitizer set SMELT_TEST_BUNDLES to the folder that "
                               "`./bazelw build //tools:hostile_bundles` made without one";
    if (bytes.ok()) files.push_back(*std::move(bytes));
  }
  return files;
}

std::vector<std::string> Graphs() {
  std::vector<std::string> files;
  for (const char* text : {kScripted, kInlined, kTraced, kPropagated, kFrozen, kForms, kExtended}) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << graph.status();
    if (!graph.ok()) continue;
    for (auto& storage : (*graph)->weight_storages) {
      const int64_t bytes = storage->bytes();
      storage = Storage::Allocate(bytes);
      std::memset(storage->data(), 1, static_cast<size_t>(bytes));
    }
    auto bytes = EncodeGraphFile(**graph);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (bytes.ok()) files.push_back(*std::move(bytes));
  }
  return files;
}

class HostileFilesTest : public ::testing::TestWithParam<int> {
 protected:
  void ReadSlice(const HostileFiles& files) {
    int taken = 0;
    const int count = FilesOfSlice(kMostFilesOfSlice);
    for (int i = 0; i < count; ++i) {
      const uint64_t seed = 1 + static_cast<uint64_t>(GetParam() * kMostFilesOfSlice + i);
      const HostileFiles::Outcome outcome = files.Read(files.Mutant(seed));
      EXPECT_EQ(outcome.wrong, "") << "seed " << seed;
      taken += outcome.refusal.empty();
    }
    // Otherwise only the first checks are tested.
    EXPECT_GT(taken, count / 10);
  }
};

TEST_P(HostileFilesTest, BundlesHarmNoReader) {
  const std::vector<std::string> bundles = Bundles();
  ASSERT_FALSE(bundles.empty());
  ReadSlice(HostileFiles(HostileFiles::kBundles, bundles));
}

TEST_P(HostileFilesTest, GraphFilesHarmNoReader) { ReadSlice(HostileFiles(HostileFiles::kGraphs, Graphs())); }

INSTANTIATE_TEST_SUITE_P(Slices, HostileFilesTest, ::testing::Range(0, kSlices));

TEST(HostileFilesTest, AFileThatIsNotChangedIsReadAsItIs) {
  for (const auto& [format, files] :
       {std::pair(HostileFiles::kBundles, Bundles()), std::pair(HostileFiles::kGraphs, Graphs())}) {
    for (const std::string& file : files) {
      const HostileFiles::Outcome outcome = HostileFiles(format, {file}).Read(file);
      EXPECT_EQ(outcome.wrong, "");
      EXPECT_EQ(outcome.refusal, "");
    }
  }
}

TEST(HostileFilesTest, TheSameSeedGivesTheSameBytes) {
  const HostileFiles files(HostileFiles::kGraphs, Graphs());
  for (uint64_t seed = 1; seed < 20; ++seed) EXPECT_EQ(files.Mutant(seed), files.Mutant(seed));
}

}  // namespace
}  // namespace smelt
