// smelt-mutate: reads millions of hostile files, made of valid ones.
//
//   smelt-mutate --files=1000000 bazel-bin/tools/hostile_bundles/*.smb
//   smelt-mutate --seed=42 --files=1 --keep=/tmp/mutants net.smg
//   smelt-mutate --compile net.smg net.pt2 net.ir
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/pipeline/compile.h"
#include "smelt/schema/graph_decode.h"
#include "smelt/schema/graph_encode.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/fuzz/hostile_files.h"
#include "smelt/tools/model_file.h"

namespace smelt {
namespace {

constexpr char kHelp[] =
    "smelt-mutate [--compile] [--files=N] [--seed=N] [--keep=DIR] [--megabytes=N] [--reasons] FILE.smb ...  or  "
    "FILE ...\n"
    "  Changes the files at random, seals them with right digests, and reads them as all commands do; runs none of "
    "their\n"
    "  code. Prints the seeds of those that crash a reader, take it over 10 seconds or too much memory, or that it "
    "answers\n"
    "  wrongly.\n"
    "  Other files are graphs: .smg, or a .pt2 or .ir that is first written as one.\n"
    "  --compile    plans the kernels of graphs that can be read, too, and compiles each sixteenth\n"
    "  --files      how many (100000)\n"
    "  --seed       of the first one; the others follow (1)\n"
    "  --keep       a folder for the files that are printed\n"
    "  --megabytes  of memory that a reader may take (2000); 0: any, as a sanitizer needs\n"
    "  --reasons    prints what becomes of each file\n"
    "exit codes: 0 all readers behave; 1 some do not; 2 wrong usage; 3 a file cannot be read\n";

struct Settings {
  uint64_t begin = 1, end = 0;
  std::string keep, suffix;
  int64_t megabytes = 0;
  bool reasons = false, compile = false;
};

// Shared with the process that reads.
struct Progress {
  uint64_t seed;
  int64_t taken, wrong, slow;
};

void Keep(const HostileFiles& files, uint64_t seed, const Settings& s) {
  if (s.keep.empty()) return;
  const std::string path = absl::StrCat(s.keep, "/", seed, s.suffix);
  const absl::Status written = WriteFileAtomically(path, files.Mutant(seed));
  std::printf("  %s\n", written.ok() ? path.c_str() : std::string(written.message()).c_str());
}

// Returns the error; "" if the graph is compiled or refused. Weights whose contents the file lacks are zeros.
std::string Compile(const std::string& file, uint64_t seed) {
  auto graph = DecodeGraphFile(absl::Span<const uint8_t>(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
  if (!graph.ok()) return "";
  constexpr int64_t kMostWeights = 64 << 20;
  for (auto& storage : (*graph)->weight_storages) {
    const int64_t bytes = storage->bytes();
    if (storage->data() != nullptr || bytes > kMostWeights) continue;
    storage = Storage::Allocate(bytes);
    std::memset(storage->data(), 0, static_cast<size_t>(bytes));
  }
  CompileOptions options;
  options.targets = {Target::kX86_64_V3};
  options.threads = 1;
  absl::Status status = PlanKernels(**graph, options).status();
  if (status.ok() && seed % 16 == 0) {
    const std::string path = absl::StrCat("/tmp/smelt-mutate.", getpid(), ".smb");
    status = CompileToFile(**graph, path, options).status();
    unlink(path.c_str());
  }
  return status.ok() || HostileFiles::IsTheFilesFault(status) ? "" : absl::StrCat("compiling: ", status.ToString());
}

// Reads seeds [from, end); a crash takes only this process with it.
void ReadFrom(const HostileFiles& files, uint64_t from, const Settings& s, Progress* progress) {
  if (s.megabytes > 0) {
    const rlimit limit = {static_cast<rlim_t>(s.megabytes) << 20, static_cast<rlim_t>(s.megabytes) << 20};
    setrlimit(RLIMIT_AS, &limit);
  }
  for (uint64_t seed = from; seed < s.end; ++seed) {
    progress->seed = seed;
    const std::string mutant = files.Mutant(seed);
    alarm(10);
    const auto begin = std::chrono::steady_clock::now();
    HostileFiles::Outcome outcome = files.Read(mutant);
    if (s.compile && outcome.wrong.empty() && outcome.refusal.empty()) outcome.wrong = Compile(mutant, seed);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    alarm(0);
    if (took.count() > 1) {
      ++progress->slow;
      std::printf("seed %llu: slow: %.1f s for %zu bytes\n", static_cast<unsigned long long>(seed), took.count(),
                  mutant.size());
      Keep(files, seed, s);
    }
    if (s.reasons) std::printf("%s\n", outcome.refusal.empty() ? "taken" : outcome.refusal.c_str());
    progress->taken += outcome.wrong.empty() && outcome.refusal.empty();
    if (outcome.wrong.empty()) continue;
    ++progress->wrong;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.wrong.c_str());
    Keep(files, seed, s);
  }
}

int Run(const HostileFiles& files, const Settings& s) {
  auto* progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (progress == MAP_FAILED) return kExitCannotWrite;
  int64_t crashes = 0;
  for (uint64_t next = s.begin; next < s.end;) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      ReadFrom(files, next, s, progress);
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return kExitCannotWrite;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    ++crashes;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(progress->seed),
                WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status)).c_str() : "the reader ended");
    Keep(files, progress->seed, s);
    next = progress->seed + 1;
  }
  std::printf("%llu files: %lld taken, %lld crashes, %lld wrong, %lld slow\n",
              static_cast<unsigned long long>(s.end - s.begin), static_cast<long long>(progress->taken),
              static_cast<long long>(crashes), static_cast<long long>(progress->wrong),
              static_cast<long long>(progress->slow));
  return crashes + progress->wrong == 0 ? kExitOk : kExitDifferent;
}

// The file, or the graph file of a model in another form.
absl::StatusOr<std::string> ReadSource(const std::string& path) {
  if (absl::EndsWith(path, ".smb") || absl::EndsWith(path, ".smg")) return ReadFile(path);
  SMELT_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, ReadModel(path, /*complete=*/true));
  return EncodeGraphFile(*graph);
}

int Main(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, {"files", "seed", "keep", "megabytes"}, {"reasons", "compile", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kHelp, stdout);
    return kExitOk;
  }
  Settings s;
  absl::Status usage = line.status();
  const auto number = [&](const char* name, int64_t standard) {
    auto n = usage.ok() ? line->GetInt(name, standard, 0, int64_t{1} << 62) : usage;
    if (!n.ok()) usage = n.status();
    return n.ok() ? *n : standard;
  };
  const int64_t count = number("files", 100000);
  s.begin = static_cast<uint64_t>(number("seed", 1));
  s.end = s.begin + static_cast<uint64_t>(count);
  s.megabytes = number("megabytes", 2000);
  if (usage.ok() && line->positional().empty()) usage = absl::InvalidArgumentError("files expected");
  if (usage.ok()) {
    s.keep = line->Get("keep");
    s.reasons = line->Has("reasons");
    s.compile = line->Has("compile");
    const auto is_bundle = [](const std::string& path) { return absl::EndsWith(path, ".smb"); };
    s.suffix = is_bundle(line->positional()[0]) ? ".smb" : ".smg";
    for (const std::string& path : line->positional()) {
      if (s.compile && is_bundle(path)) usage = absl::InvalidArgumentError("--compile is for graphs");
      if (is_bundle(path) != (s.suffix == ".smb")) usage = absl::InvalidArgumentError("files of one format expected");
    }
  }
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt-mutate: %s\n%s", std::string(usage.message()).c_str(), kHelp);
    return kExitUsage;
  }
  std::vector<std::string> files;
  for (const std::string& path : line->positional()) {
    auto bytes = ReadSource(path);
    if (!bytes.ok()) {
      std::fprintf(stderr, "smelt-mutate: %s\n", std::string(bytes.status().message()).c_str());
      return kExitUnreadable;
    }
    files.push_back(*std::move(bytes));
  }
  return Run(HostileFiles(s.suffix == ".smg" ? HostileFiles::kGraphs : HostileFiles::kBundles, files), s);
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // what was printed before a crash is not lost
  return smelt::Main(std::vector<std::string>(argv + 1, argv + argc));
}
