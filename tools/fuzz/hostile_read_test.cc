// Tens of thousands of archives and texts of graphs with something changed: a reader gives a graph or an error, and no
// sanitizer objects. hostile_test compiles some, smelt-hostile tries millions.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/pt2_testing.h"
#include "smelt/tools/fuzz/mutate_files.h"
#include "smelt/tools/fuzz/mutate_graphs.h"
#include "smelt/tools/fuzz/slices.h"

namespace smelt {
namespace {

// The plain build only looks whether the test is one.
#ifdef __SANITIZE_ADDRESS__
constexpr int kMostFilesOfSlice = 5'000;
#else
constexpr int kMostFilesOfSlice = 250;
#endif
constexpr int kSlices = 4;

// Returns true if the file can be read; it may also be refused.
bool Reads(const HostileFile& file, uint64_t seed) {
  const absl::Status s = Recovered("read", [&]() -> absl::Status {
    if (file.extension == ".pt2") return ReadPt2Bytes(file.bytes).status();
    ParseOptions options;
    options.resolve_overload = ResolveOverload;
    SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> g, ParseGraph(file.bytes, options));
    SMELT_RETURN_IF_ERROR(CheckArguments(*g));
    SMELT_RETURN_IF_ERROR(InferTypes(*g));
    return CheckModel(*g);
  });
  EXPECT_FALSE(absl::IsInternal(s)) << "seed " << seed << ", " << file.what << ": " << s;
  return s.ok();
}

class HostileReadTest : public ::testing::TestWithParam<int> {
 protected:
  template <typename Mutator>
  void ReadSlice(const Mutator& mutator) {
    int read = 0;
    const int files = FilesOfSlice(kMostFilesOfSlice);
    for (int i = 0; i < files; ++i) {
      const uint64_t seed = 1 + static_cast<uint64_t>(GetParam() * kMostFilesOfSlice + i);
      read += Reads(mutator.Make(seed), seed);
    }
    // Else only the first checks are tested.
    EXPECT_GT(read, files / 20);
  }
};

TEST_P(HostileReadTest, ChangedArchivesHarmNoReader) { ReadSlice(ArchiveMutator(TestArchive::AllPaths())); }

TEST_P(HostileReadTest, ChangedTextsHarmNoReader) { ReadSlice(TextMutator(GraphTexts("testdata"))); }

TEST_P(HostileReadTest, ChangedGraphsHarmNoReader) { ReadSlice(GraphMutator(GraphTexts("testdata"))); }

INSTANTIATE_TEST_SUITE_P(Slices, HostileReadTest, ::testing::Range(0, kSlices));

}  // namespace
}  // namespace smelt
