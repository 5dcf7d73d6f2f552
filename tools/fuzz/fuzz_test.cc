// Runs a few thousand of the fuzzer's programs, and every failure that it has found, reduced, from testdata/fuzz. Many
// more can be run by hand: `smelt-fuzz --count=1000000`, `smelt-fuzz --compiled --count=100000`.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/core/base/file.h"
#include "smelt/core/tensor/region.h"
#include "smelt/tools/fuzz/generator.h"
#include "smelt/tools/fuzz/reduce.h"
#include "smelt/tools/fuzz/run.h"

namespace smelt {
namespace {

std::string ScratchFolder() {
  const char* folder = std::getenv("TEST_TMPDIR");
  return folder != nullptr ? folder : "/tmp";
}

struct Share {
  int programs = 0, refused = 0, unsupported = 0, skipped = 0, eager_refuses = 0, overlap = 0, eager_order = 0;
};

// Runs programs and expects no difference; the first failure is reduced and printed.
Share RunPrograms(uint64_t first, int count, const RunOptions& options, const GeneratorOptions& generator = {}) {
  Share share;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Sample sample = RandomSample(seed, generator);
    const Verdict v = RunSample(sample, options);
    ++share.programs;
    share.refused += v.outcome == Outcome::kRefused;
    share.unsupported += v.outcome == Outcome::kUnsupported;
    share.skipped += v.outcome == Outcome::kSkipped;
    share.eager_refuses += v.eager_refuses;
    share.overlap += v.variant == "overlap";
    share.eager_order += v.variant == "eager-order";
    if (v.outcome != Outcome::kDifferent) continue;
    const Sample small = ReduceWrongAnswer(sample, options);
    ADD_FAILURE() << "seed " << seed << ": " << v.where << ": " << v.what << "\ncut down:\n" << small.ToString();
    break;
  }
  return share;
}

TEST(FuzzTest, ThePureGraphAndItsLayersShowWhatEagerExecutionDoes) {
  const Share share = RunPrograms(1, 3000, {});
  // The number of calls that are refused or not supported may decrease, never increase; if it decreases, lower the
  // limits.
  EXPECT_LE(share.refused, 18) << "of " << share.programs;
  EXPECT_LE(share.unsupported, 496) << "of " << share.programs;
  // Results that depend on the machine in PyTorch are not tested: sums into their own operand, long rows that overlap.
  EXPECT_LE(share.skipped, 122) << "of " << share.programs;
  EXPECT_LE(share.eager_refuses, 227) << "of " << share.programs;
}

TEST(FuzzTest, BundlesShowWhatEagerExecutionDoes) {
  auto cache = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff});
  ASSERT_TRUE(cache.ok()) << cache.status();
  RunOptions options;
  options.evaluator = false;
  options.compiled = true;
  options.cache = cache->get();
  options.scratch = ScratchFolder();
  const Share share = RunPrograms(1000001, 1000, options);
  EXPECT_LE(share.refused, 2) << "of " << share.programs;
  EXPECT_LE(share.unsupported, 9) << "of " << share.programs;
  // Calls whose sharing is not known beforehand, and arguments in one storage of which one is addressed outside of
  // itself: they use the plan for any overlap.
  EXPECT_LE(share.overlap, 52) << "of " << share.programs;
  // Programs without a pure form: loops that carry tensors around, branches that return one tensor or another, writes
  // that read what they have written, and writes that PyTorch refuses in branches that may not be taken.
  EXPECT_LE(share.eager_order, 243) << "of " << share.programs;
}

TEST(FuzzTest, SoDoProgramsOfManyMoreOperators) {
  GeneratorOptions more;
  more.more_operators = true;
  RunPrograms(1, 2000, {}, more);
  auto cache = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff});
  ASSERT_TRUE(cache.ok()) << cache.status();
  RunOptions compiled;
  compiled.evaluator = false;
  compiled.compiled = true;
  compiled.cache = cache->get();
  compiled.scratch = ScratchFolder();
  RunPrograms(1000001, 200, compiled, more);
}

TEST(FuzzTest, WhetherArgumentsOverlapIsKnownOfEveryPair) {
  int pairs = 0, overlap = 0, unknown = 0;
  for (uint64_t seed = 1; seed <= 6000; ++seed) {
    const Call call = RandomSample(seed).call;
    for (size_t a = 0; a < call.args.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const CallArg &x = call.args[a], &y = call.args[b];
        if (x.storage < 0 || x.storage != y.storage || x.same_as >= 0 || y.same_as >= 0) continue;
        const Overlap o = OverlapsConcrete(x.geometry, ItemSize(x.dtype), y.geometry, ItemSize(y.dtype));
        ++pairs;
        overlap += o == Overlap::kSame || o == Overlap::kSome;
        unknown += o == Overlap::kUnknown;
      }
    }
  }
  EXPECT_EQ(unknown, 0) << "of " << pairs;
  // Both answers occur often.
  EXPECT_GT(overlap, 500) << "of " << pairs;
  EXPECT_GT(pairs - overlap, 500) << "of " << pairs;
}

TEST(FuzzTest, AProgramIsReadAsItWasPrinted) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = RandomSample(seed).ToString();
    auto again = Sample::Parse(text, "sample");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
    EXPECT_EQ(again->ToString(), text);
  }
}

TEST(ReduceTest, KeepsWhatMakesItFail) {
  // "Fails" if it has a neg_: everything else is removed.
  auto sample = Sample::Parse(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(2, 3, strides=[3, 1]), %c : bool):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %a : Float(2, 3, strides=[3, 1]) = aten::add_.Tensor(%x, %y, %one)
  %r : Float(3, strides=[1]) = aten::select.int(%x, %zero, %one)
  %n : Float(3, strides=[1]) = prim::If(%c)
    block0():
      %m : Float(3, strides=[1]) = aten::neg_(%r)
      -> (%m)
    block1():
      -> (%r)
  %z : Float(3, strides=[1]) = aten::relu(%n)
  return (%z, %a)
call
  storage float32 1 2 3 4 5 6
  arg 0 float32 [2,3] [3,1] 0
  arg same 0
  arg bool true
)",
                              "sample");
  ASSERT_TRUE(sample.ok()) << sample.status();
  const Sample small = Reduce(*sample, [](const Sample& s) {
    return s.ToString().find("aten::neg_") != std::string::npos && RunEagerly(s).status.ok();
  });
  int nodes = 0;
  for (NodeId n : small.graph->AllNodes()) nodes += small.graph->node(n).op != "prim::Constant";
  EXPECT_EQ(nodes, 1) << small.ToString();
  EXPECT_EQ(small.call.args.size(), 1u) << small.ToString();
  EXPECT_TRUE(small.graph->outputs().empty()) << small.ToString();
}

TEST(ReduceTest, WhatTheEvaluatorCannotRunIsStillSaidNotToBeCompiled) {
  auto sample = Sample::Parse(R"(graph(%x : Float(2, strides=[1])):
  %y : Float(2, strides=[1]) = aten::fmod.Tensor(%x, %x)
  return (%y)
call
  storage float32 1 2
  arg 0 float32 [2] [1] 0
)",
                              "sample");
  ASSERT_TRUE(sample.ok()) << sample.status();
  for (NodeId n : sample->graph->AllNodes()) {
    if (sample->graph->node(n).op == "aten::fmod.Tensor") sample->graph->SetOp(n, OpName::Get("aten::igamma"));
  }
  RunOptions options;
  options.evaluator = false;
  options.compiled = options.compiled_unjudged = true;
  options.scratch = ScratchFolder();
  const Verdict v = RunSample(*sample, options);
  EXPECT_EQ(v.outcome, Outcome::kUnsupported);
  EXPECT_EQ(v.where, "compile");
  EXPECT_NE(v.what.find("aten::igamma"), std::string::npos) << v.what;
}

TEST(ReduceTest, CutsAwayWhatAnUnknownOperatorDoesNotNeed) {
  auto sample = Sample::Parse(R"(graph(%x : Float(2, 3, strides=[3, 1]), %y : Float(2, 3, strides=[3, 1])):
  %one : int = prim::Constant[value=1]()
  %a : Float(2, 3, strides=[3, 1]) = aten::add.Tensor(%x, %y, %one)
  %b : Float(2, 3, strides=[3, 1]) = aten::tanh(%a)
  %c : Float(2, 3, strides=[3, 1]) = aten::neg(%b)
  %d : Float(2, 3, strides=[3, 1]) = aten::mul.Tensor(%a, %y)
  return (%c, %d)
call
  storage float32 1 2 3 4 5 6
  arg 0 float32 [2,3] [3,1] 0
  arg same 0
)",
                              "sample");
  ASSERT_TRUE(sample.ok()) << sample.status();
  for (NodeId n : sample->graph->AllNodes()) {
    if (sample->graph->node(n).op == "aten::neg") sample->graph->SetOp(n, OpName::Get("aten::special_log_ndtr"));
  }
  const Sample small =
      Reduce(*sample, [](const Sample& s) { return s.ToString().find("aten::special_log_ndtr") != std::string::npos; });
  int nodes = 0;
  for (NodeId n : small.graph->AllNodes()) nodes += small.graph->node(n).op != "prim::Constant";
  EXPECT_EQ(nodes, 1) << small.ToString();
}

std::vector<std::string> KeptFailures() {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::directory_iterator("testdata/fuzz")) {
    if (file.path().extension() == ".txt") out.push_back(file.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class KeptFailureTest : public ::testing::TestWithParam<std::string> {};

TEST_P(KeptFailureTest, IsRightOrRefusedNow) {
  const std::string path = absl::StrCat("testdata/fuzz/", GetParam(), ".txt");
  auto text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  auto sample = Sample::Parse(*text, path);
  ASSERT_TRUE(sample.ok()) << sample.status();
  auto cache = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff});
  ASSERT_TRUE(cache.ok()) << cache.status();
  RunOptions options;
  options.scratch = ScratchFolder();
  options.cache = cache->get();
  Verdict v = RunSample(*sample, options);
  EXPECT_NE(v.outcome, Outcome::kDifferent) << v.where << ": " << v.what;
  options.evaluator = false;
  options.compiled = true;
  v = RunSample(*sample, options);
  EXPECT_NE(v.outcome, Outcome::kDifferent) << v.where << ": " << v.what;
  // "# expect: equal" or "# expect: unsupported" says which of the two it is.
  static const char* const kNames[] = {"equal", "different", "refused", "unsupported", "skipped"};
  const std::string expect = absl::StrCat("# expect: ", kNames[static_cast<int>(v.outcome)], "\n");
  EXPECT_NE(text->find(expect), std::string::npos) << "it is now " << expect << v.what;
}

INSTANTIATE_TEST_SUITE_P(Kept, KeptFailureTest, ::testing::ValuesIn(KeptFailures()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace smelt
