#include "smelt/tools/fuzz/hostile.h"

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/check.h"
#include "smelt/pipeline/compile.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/model_file.h"

namespace smelt {
namespace {

// In memory that both processes see. Texts are truncated.
struct Shared {
  int64_t index, files, read, by_exit_code[128];
  bool ended, has_failure, had_enough;
  char what[600], outcome[600];
};

// Kernels stay in memory as long as a process.
constexpr int64_t kMostCompiled = 500;

void Put(char (&to)[600], const std::string& text) {
  std::strncpy(to, text.c_str(), sizeof to - 1);
  to[sizeof to - 1] = 0;
}

void LimitTime(int seconds) {
  itimerval limit = {};
  limit.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

class Child {
 public:
  Child(Shared& shared, const HostileOptions& options) : shared_(shared), options_(options) {
    auto cache = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff});
    SMELT_CHECK_OK(cache);
    cache_ = std::move(*cache);
    compile_.cache = cache_.get();
    compile_.threads = 1;
    compile_.targets = {kHostTarget};
  }

  // The exit code that `smelt compile` would give.
  absl::Status Try(const HostileFile& file) {
    const std::string path = absl::StrCat(options_.scratch, "/hostile", file.extension);
    std::ofstream(path, std::ios::binary) << file.bytes;  // need not last
    auto graph = ReadModel(path, /*complete=*/true);
    if (!graph.ok()) return graph.status();
    ++shared_.read;
    if (options_.compile_each == 0 || shared_.read % options_.compile_each != 0) return absl::OkStatus();
    return CompileToFile(**graph, absl::StrCat(options_.scratch, "/hostile.smb"), compile_).status();
  }

 private:
  Shared& shared_;
  const HostileOptions& options_;
  std::unique_ptr<KernelCache> cache_;
  CompileOptions compile_;
};

}  // namespace

HostileOptions OptionsOfTests() {
  HostileOptions options;
  const char* folder = std::getenv("TEST_TMPDIR");
  if (folder != nullptr) options.scratch = folder;
  return options;
}

std::string HostileReport::Found() const {
  std::string out;
  for (const HostileFailure& f : failures) absl::StrAppend(&out, "\n#", f.index, " ", f.what, ": ", f.outcome);
  for (const std::string& path : left_behind) absl::StrAppend(&out, "\nleft behind: ", path);
  return out;
}

std::string HostileReport::ToString() const {
  std::string out = absl::StrCat(files, " files, ", read, " read well; exit codes:");
  for (const auto& [code, count] : by_exit_code) absl::StrAppend(&out, " ", code, ": ", count);
  return out + Found();
}

HostileReport TryFiles(int64_t first, int64_t end, const std::function<std::optional<HostileFile>(int64_t)>& make,
                       const HostileOptions& options) {
  HostileReport report;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SMELT_CHECK(memory != MAP_FAILED);
  Shared& shared = *new (memory) Shared();
  const auto begin = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > options.wall_seconds;
  };
  const auto keep = [&](const HostileFailure& f, absl::string_view extension) {
    report.failures.push_back(f);
    std::error_code error;
    namespace fs = std::filesystem;
    fs::copy_file(absl::StrCat(options.scratch, "/hostile", std::string(extension)),
                  absl::StrCat(options.scratch, "/hostile_", f.index, std::string(extension)),
                  fs::copy_options::overwrite_existing, error);
  };
  while (first < end && !is_late() && report.failures.size() < options.most_failures) {
    shared.ended = shared.has_failure = shared.had_enough = false;
    std::fflush(stdout);
    const pid_t child = fork();
    SMELT_CHECK(child >= 0);
    if (child == 0) {
      Child work(shared, options);
      int64_t left = kMostCompiled;
      shared.index = first;
      Put(shared.what, "(being made)");
      for (int64_t i = first; i < end && !is_late(); ++i) {
        const std::optional<HostileFile> file = make(i);
        if (!file) continue;
        shared.index = i;
        LimitTime(options.seconds);
        Put(shared.what, absl::StrCat(file->extension, " ", file->what));
        ++shared.files;
        const absl::Status s = work.Try(*file);
        const int code = ExitCodeOf(s);
        ++shared.by_exit_code[code];
        if (code != kExitBug && code != kExitCannotWrite) {
          shared.had_enough = code == kExitOk && --left == 0;
          if (shared.had_enough) _exit(0);
          continue;
        }
        Put(shared.outcome, absl::StrCat(code, ": ", s.message()));
        shared.has_failure = true;
        _exit(0);
      }
      shared.ended = true;
      _exit(0);
    }
    int status = 0;
    SMELT_CHECK(waitpid(child, &status, 0) == child);
    const std::string what = shared.what;
    const std::string extension = what.substr(0, what.find(' '));
    if (shared.ended) break;
    if (shared.had_enough) {
      // Another process goes on.
    } else if (shared.has_failure) {
      keep({shared.index, what, shared.outcome}, extension);
    } else {
      const bool timed = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
      keep({shared.index, what,
            timed                 ? "does not end"
            : WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                                  : absl::StrCat("ended with ", WEXITSTATUS(status))},
           extension);
    }
    first = shared.index + 1;
  }
  report.files = shared.files;
  report.read = shared.read;
  for (int code = 0; code < 128; ++code) {
    if (shared.by_exit_code[code] > 0) report.by_exit_code[code] = shared.by_exit_code[code];
  }
  munmap(memory, sizeof(Shared));
  for (const auto& entry : std::filesystem::directory_iterator(options.scratch)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "hostile") && absl::StrContains(name, ".tmp")) report.left_behind.push_back(name);
  }
  return report;
}

}  // namespace smelt
