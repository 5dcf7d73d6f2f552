// Damages bundles of real models in a thousand ways and seals them again with correct digests, so that the code after
// the digest check is tested: loading and inspecting either work or report that the file is corrupt. None of their code
// is run.
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/inspect_bundle.h"

namespace smelt {
namespace {

using Random = std::mt19937_64;

absl::Span<const uint8_t> Bytes(const std::string& s) {
  return absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(s.data()), s.size());
}

// Returns whether the command line exits with 3, 4, 5 or 6 for this code.
bool IsTheFilesFault(const absl::Status& s) {
  return absl::IsDataLoss(s) || absl::IsInvalidArgument(s) || absl::IsOutOfRange(s) || absl::IsUnimplemented(s) ||
         absl::IsFailedPrecondition(s) || absl::IsResourceExhausted(s);
}

void Check(const std::string& mutant, const std::string& what) {
  auto program = Program::LoadFromMemory(Bytes(mutant), {}, "mutant.smb");
  EXPECT_TRUE(program.ok() || IsTheFilesFault(program.status())) << what << ": " << program.status();
  if (program.ok()) {
    auto instance = Instance::Create(*program);
    EXPECT_TRUE(instance.ok() || IsTheFilesFault(instance.status())) << what << ": " << instance.status();
  }
  auto file = Container::FromMemory(Bytes(mutant), ContentKind::kBundle, "mutant.smb");
  if (!file.ok()) {
    EXPECT_TRUE(IsTheFilesFault(file.status())) << what << ": " << file.status();
    return;
  }
  auto bundle = LoadBundle(**file);
  EXPECT_TRUE(bundle.ok() || IsTheFilesFault(bundle.status())) << what << ": " << bundle.status();
  if (bundle.ok()) {
    auto description = DescribeBundle(**bundle, **file);
    EXPECT_TRUE(description.ok() || IsTheFilesFault(description.status())) << what << ": " << description.status();
  }
}

class BundleHostileTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    // The bundles of the plain build if this is a sanitized one; .ci/run sets the variable.
    const char* folder = std::getenv("SMELT_TEST_BUNDLES");
    const std::string path = absl::StrCat(folder ? folder : "tools/hostile_bundles", "/", GetParam(), ".smb");
    auto bytes = ReadFile(path);
    ASSERT_TRUE(bytes.ok()) << bytes.status()
                            << "; with a sanitizer set SMELT_TEST_BUNDLES to the folder that "
                               "`./bazelw build //tools:hostile_bundles` made without one";
    bundle_ = *std::move(bytes);
    auto file = Container::FromMemory(Bytes(bundle_), ContentKind::kBundle);
    ASSERT_TRUE(file.ok()) << file.status();
    const int metadata = (*file)->Find(SegmentKind::kMetadata);
    ASSERT_GE(metadata, 0);
    begin_ = static_cast<size_t>((*file)->segments()[metadata].offset);
    size_ = static_cast<size_t>((*file)->segments()[metadata].size);
  }
  std::string bundle_;
  size_t begin_ = 0, size_ = 0;  // of the metadata
};

TEST_P(BundleHostileTest, WrongMetadataUnderRightDigestsNeverCrashes) {
  Random random(1);
  static constexpr int32_t kWords[] = {0, 1, -1, 2, 7, 255, 65536, INT32_MAX, INT32_MIN, 1 << 30};
  for (int i = 0; i < 200; ++i) {
    std::string mutant = bundle_;
    for (size_t k = 0; k <= random() % 4; ++k) {
      const size_t at = begin_ + random() % size_;
      if (i % 2 == 0) {
        mutant[at] = static_cast<char>(random());
      } else {
        const int32_t word = kWords[random() % std::size(kWords)];
        const size_t aligned = begin_ + (at - begin_) / 4 * 4;
        if (aligned + 4 <= begin_ + size_) std::memcpy(&mutant[aligned], &word, 4);
      }
    }
    ResealContainer(mutant);
    Check(mutant, absl::StrCat(GetParam(), ", metadata ", i));
  }
}

TEST_P(BundleHostileTest, WrongHeadersAndTablesUnderRightDigestsNeverCrash) {
  Random random(2);
  for (int i = 0; i < 50; ++i) {
    std::string mutant = bundle_;
    const size_t table = mutant.size() - std::min<size_t>(mutant.size(), 300);
    for (size_t k = 0; k <= random() % 3; ++k) {
      const size_t at = i % 2 == 0 ? random() % 96 : table + random() % (mutant.size() - table);
      mutant[at] = static_cast<char>(random());
    }
    ResealContainer(mutant);
    Check(mutant, absl::StrCat(GetParam(), ", table ", i));
  }
}

TEST_P(BundleHostileTest, TruncatedBundlesNeverCrash) {
  Random random(3);
  for (int i = 0; i < 15; ++i) {
    std::string mutant = bundle_.substr(0, random() % bundle_.size());
    if (i % 2 == 0) ResealContainer(mutant);
    Check(mutant, absl::StrCat(GetParam(), ", truncated ", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Testdata, BundleHostileTest,
                         ::testing::Values("relu_input", "cond", "dynamic_batch", "duplicate_mutation",
                                           "mutate_and_transpose_shared"));

}  // namespace
}  // namespace smelt
