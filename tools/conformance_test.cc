// Compares every model of testdata/ with PyTorch's results, from bundles that are made beforehand: several callers at a
// time, each with several threads. Under a sanitizer, and in an emulator, SMELT_TEST_BUNDLES names the bundles of the
// plain build. SMELT_TEST_CASES names another folder of cases than testdata/.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/program.h"

namespace smelt {
namespace {

std::string Folder() {
  const char* elsewhere = std::getenv("SMELT_TEST_BUNDLES");
  return elsewhere != nullptr ? elsewhere : "tools/conformance_bundles";
}

std::vector<std::string> Models() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".smb") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class ConformanceTest : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
#if defined(__SANITIZE_THREAD__)
    // While a library is being opened, tsan sees no valid thread-local storage in the threads that start, and aborts. The
    // runtime opens oneDNN with the first product, so it is opened here before the first thread.
    dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
#endif
  }
};

TEST_P(ConformanceTest, SeveralCallersAtATimeGetWhatPyTorchAnswered) {
  ProgramOptions options;
  options.threads = 3;
  const auto program = Program::Load(absl::StrCat(Folder(), "/", GetParam(), ".smb"), options);
  ASSERT_TRUE(program.ok()) << program.status();
  const char* cases = std::getenv("SMELT_TEST_CASES");
  const std::string path = absl::StrCat(cases != nullptr ? cases : "testdata", "/", GetParam(), ".case.safetensors");
  constexpr int kCallers = 3;
  std::vector<absl::StatusOr<CaseReport>> reports(kCallers, absl::UnknownError("not run"));
  std::vector<std::thread> callers;
  for (auto& report : reports)
    callers.emplace_back([&] { report = RunCase(*program, path, CaseOptions{.repeat = 3}); });
  for (std::thread& t : callers) t.join();
  for (const auto& report : reports) {
    ASSERT_TRUE(report.ok()) << report.status();
    for (const CaseFailure& f : report->failures)
      ADD_FAILURE() << "call " << f.call << ": " << f.where << ": " << f.what;
  }
}

INSTANTIATE_TEST_SUITE_P(Testdata, ConformanceTest, testing::ValuesIn(Models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace smelt
