// Compares compiled random specs with the interpreter: every bit, with buffers that end or begin at a guard page.
#include <cstdlib>
#include <random>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/codegen/compiler.h"
#include "smelt/codegen/kernel_testing.h"
#include "smelt/codegen/load_image.h"

namespace smelt {
namespace {

// SMELT_RANDOM_CASES and SMELT_RANDOM_SEED allow longer and different runs.
int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value;
  return text && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

class CompilerRandomTest : public testing::TestWithParam<Target> {};

TEST_P(CompilerRandomTest, EqualsTheInterpreter) {
  if (!RunsHere(GetParam())) GTEST_SKIP() << "this machine is below " << Name(GetParam());
  const int64_t cases = FromEnvironment("SMELT_RANDOM_CASES", 250);
  const int64_t first = FromEnvironment("SMELT_RANDOM_SEED", 1);
  for (int64_t seed = first; seed < first + cases; ++seed) {
    std::mt19937_64 rng(seed);
    const RandomCase c = MakeRandomCase(rng);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", c.spec.ToString()));
    ASSERT_EQ(VerifyKernelSpec(c.spec), absl::OkStatus());
    absl::StatusOr<LoadedImage> image = CompileAndLoad(c.spec, GetParam());
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kEnd, 1), "");
    ASSERT_EQ(CompareWithInterpreter(c, image->entry(0), Guard::kBegin, 3), "");
  }
}

TEST_P(CompilerRandomTest, BytesDoNotHangOnWhatTheThreadCompiledBefore) {
  for (int64_t seed = 1; seed <= 15; ++seed) {
    std::mt19937_64 rng(seed);
    const KernelSpec spec = MakeRandomCase(rng).spec;
    absl::StatusOr<KernelObject> later = CompileKernel(spec, GetParam());
    absl::StatusOr<KernelObject> first;
    std::thread([&] { first = CompileKernel(spec, GetParam()); }).join();
    ASSERT_TRUE(later.ok() && first.ok()) << later.status() << first.status();
    ASSERT_TRUE(later->bytes == first->bytes) << spec.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CompilerRandomTest, testing::ValuesIn(kHostTargets), [](const auto& info) {
  std::string name = Name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace smelt
