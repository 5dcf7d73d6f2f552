// smelt-fuzz: random programs, run by the evaluator eagerly, by the evaluator on the pure graph and, with --compiled,
// as a bundle by the runtime.
//
//   smelt-fuzz --count=1000000
//   smelt-fuzz --compiled --count=100000
//   smelt-fuzz --seed=42 --print
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/file.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/fuzz/emit.h"
#include "smelt/tools/fuzz/generator.h"
#include "smelt/tools/fuzz/reduce.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample_case.h"

namespace smelt {
namespace {

constexpr char kHelp[] =
    "smelt-fuzz [--count=N] [--seed=N] [--compiled] [--eager-order] [--keep-going] [--seconds=N] [--scratch=DIR] "
    "[--reasons]\n"
    "smelt-fuzz --seed=N --print       the program of one seed\n"
    "smelt-fuzz --replay=FILE          a program that was printed\n"
    "           [--save=PREFIX]        and as files that `smelt compile` and `smelt run --case` read\n"
    "smelt-fuzz --emit=FILE --count=N  programs and what is expected, for testdata/fuzz_eager.py\n"
    "  --count      how many programs (1000)\n"
    "  --seed       of the first one; the others follow (1)\n"
    "  --compiled   also compiles each and runs the bundle\n"
    "  --eager-order     with --compiled: the bundle has the plan in eager order alone\n"
    "  --more-operators  half of the operators from a longer list: with it a seed is another program\n"
    "  --keep-going counts failures instead of stopping at the first\n"
    "  --no-reduce  prints failures as they were found\n"
    "  --seconds    stops after so many\n"
    "  --scratch    folder for bundles (/tmp)\n"
    "  --reasons    lists why programs were refused or not supported\n"
    "exit codes: 0 no difference; 1 a difference; 2 wrong usage\n";

// The counters are in memory that worker processes share with their parent.
struct Counts {
  int64_t done, outcome[5], eager_refuses, variant[4];
  uint64_t seed;  // of the program that is running
};

struct Settings {
  RunOptions run;
  GeneratorOptions generator;
  bool keep_going = false, reasons = false, reduce = true;
  double seconds = 1e18;
  uint64_t begin = 1, end = 0;
};

void PrintFailure(uint64_t seed, const Sample& sample, const Verdict& v, const Settings& s) {
  std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed), v.where.c_str(), v.what.c_str());
  if (!s.reduce) {
    std::printf("%s\n", sample.ToString().c_str());
  } else {
    const Sample small = ReduceWrongAnswer(sample, s.run);
    const Verdict now = RunSample(small, s.run);
    std::printf("# %s: %s\n%s\n", now.where.c_str(), now.what.c_str(), small.ToString().c_str());
  }
  std::fflush(stdout);
}

struct Reason {
  int64_t programs = 0;
  uint64_t seed = 0;  // of the first of them
};

// Runs seeds [from, to); a program that crashes takes only this process with it.
void Work(const Settings& s, uint64_t from, uint64_t to, Counts* counts, std::map<std::string, Reason>* reasons) {
  std::unique_ptr<KernelCache> cache;
  Settings mine = s;
  if (s.run.compiled) {
    auto made = KernelCache::Create(KernelCache::Options{.mode = CacheMode::kOff});
    if (made.ok()) cache = *std::move(made);
    mine.run.cache = cache.get();
  }
  for (uint64_t seed = from; seed < to; ++seed) {
    counts->seed = seed;
    const Sample sample = RandomSample(seed, s.generator);
    const Verdict v = RunSample(sample, mine.run);
    ++counts->done;
    ++counts->outcome[static_cast<int>(v.outcome)];
    counts->eager_refuses += v.eager_refuses;
    for (int k = 0; k < 4; ++k) {
      static const char* const kNames[] = {"distinct", "duplicate", "overlap", "eager-order"};
      counts->variant[k] += v.variant == kNames[k];
    }
    if (s.reasons && v.outcome != Outcome::kEqual && v.outcome != Outcome::kDifferent) {
      static const char* const kOutcomes[] = {"", "", "refused", "unsupported", "skipped"};
      Reason& reason =
          (*reasons)[absl::StrCat(kOutcomes[static_cast<int>(v.outcome)], ": ", v.where, ": ", v.what.substr(0, 240))];
      if (reason.programs++ == 0) reason.seed = seed;
    }
    if (v.outcome != Outcome::kDifferent) continue;
    PrintFailure(seed, sample, v, mine);
    if (!s.keep_going) return;
  }
}

int Fuzz(const Settings& s) {
  auto* counts =
      static_cast<Counts*>(mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  int crashes = 0;
  constexpr uint64_t kBatch = 2000;
  for (uint64_t at = s.begin; at < s.end && elapsed() < s.seconds;) {
    const uint64_t to = std::min(s.end, at + kBatch);
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      std::map<std::string, Reason> reasons;
      Work(s, at, to, counts, &reasons);
      for (const auto& [why, r] : reasons) {
        std::printf("reason %lld (seed %llu) %s\n", static_cast<long long>(r.programs),
                    static_cast<unsigned long long>(r.seed), why.c_str());
      }
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    at = to;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++crashes;
      std::printf("seed %llu: crashed\n", static_cast<unsigned long long>(counts->seed));
      at = counts->seed + 1;
    }
    if (!s.keep_going && (counts->outcome[1] > 0 || crashes > 0)) break;
  }
  const auto n = [&](Outcome o) { return static_cast<long long>(counts->outcome[static_cast<int>(o)]); };
  std::printf(
      "%lld programs in %.0f s: %lld equal (%lld of them refused by PyTorch's rules too), %lld different, %lld "
      "refused, "
      "%lld not supported, %lld skipped, %d crashed\n",
      static_cast<long long>(counts->done), elapsed(), n(Outcome::kEqual),
      static_cast<long long>(counts->eager_refuses), n(Outcome::kDifferent), n(Outcome::kRefused),
      n(Outcome::kUnsupported), n(Outcome::kSkipped), crashes);
  if (s.run.compiled) {
    std::printf("variants: %lld distinct, %lld duplicate, %lld overlap, %lld eager-order\n",
                static_cast<long long>(counts->variant[0]), static_cast<long long>(counts->variant[1]),
                static_cast<long long>(counts->variant[2]), static_cast<long long>(counts->variant[3]));
  }
  return n(Outcome::kDifferent) + crashes > 0 ? kExitDifferent : kExitOk;
}

// Writes programs with the evaluator's results, except those that it does not run.
int Emit(const std::string& path, const Settings& s) {
  std::string out;
  int64_t skipped = 0;
  for (uint64_t seed = s.begin; seed < s.end; ++seed) {
    const Sample sample = RandomSample(seed, s.generator);
    const Seen seen = RunEagerly(sample);
    if (absl::IsUnimplemented(seen.status) || absl::IsResourceExhausted(seen.status)) {
      ++skipped;
      continue;
    }
    absl::StrAppend(&out, EmitSample(sample, seen, absl::StrCat("seed ", seed)));
  }
  const absl::Status written = WriteFileAtomically(path, absl::string_view(out));
  if (!written.ok()) {
    std::fprintf(stderr, "smelt-fuzz: %s\n", std::string(written.message()).c_str());
    return kExitUnreadable;
  }
  std::printf("%lld programs, %lld skipped\n", static_cast<long long>(s.end - s.begin - skipped),
              static_cast<long long>(skipped));
  return kExitOk;
}

int Replay(const std::string& path, const std::string& save, Settings s) {
  auto text = ReadFile(path);
  auto sample = text.ok() ? Sample::Parse(*text, path) : text.status();
  if (!sample.ok()) {
    std::fprintf(stderr, "smelt-fuzz: %s\n", std::string(sample.status().message()).c_str());
    return kExitUnreadable;
  }
  if (!save.empty()) {
    if (auto written = WriteSampleFiles(*sample, save); !written.ok()) {
      std::fprintf(stderr, "smelt-fuzz: %s\n", std::string(written.status().message()).c_str());
      return kExitUnreadable;
    }
  }
  s.run.compiled = true;
  const Verdict v = RunSample(*sample, s.run);
  std::printf("%s: %s: %s\n", path.c_str(), v.outcome == Outcome::kEqual ? "equal" : v.where.c_str(), v.what.c_str());
  return v.outcome == Outcome::kEqual ? kExitOk : kExitDifferent;
}

int Main(int argc, char** argv) {
  auto line = CommandLine::Parse(std::vector<std::string>(argv + 1, argv + argc),
                                 {"count", "seed", "seconds", "scratch", "replay", "save", "emit"},
                                 {"compiled", "print", "keep-going", "reasons", "no-reduce", "only-compiled",
                                  "eager-order", "more-operators", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kHelp, stdout);
    return kExitOk;
  }
  Settings s;
  absl::Status usage = line.status();
  if (usage.ok()) {
    auto count = line->GetInt("count", 1000, 1, int64_t{1} << 40);
    auto seed = line->GetInt("seed", 1, 0, int64_t{1} << 60);
    auto seconds = line->GetInt("seconds", 1 << 30, 1, 1 << 30);
    for (const auto* v : {&count, &seed, &seconds}) {
      if (!v->ok()) usage = v->status();
    }
    if (usage.ok()) {
      s.begin = static_cast<uint64_t>(*seed);
      s.end = s.begin + static_cast<uint64_t>(*count);
      s.seconds = static_cast<double>(*seconds);
    }
  }
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt-fuzz: %s\n%s", std::string(usage.message()).c_str(), kHelp);
    return kExitUsage;
  }
  s.run.compiled = line->Has("compiled") || line->Has("only-compiled");
  s.run.evaluator = !line->Has("only-compiled");
  s.run.scratch = line->Get("scratch", "/tmp");
  if (std::error_code error; !std::filesystem::is_directory(s.run.scratch, error)) {
    std::fprintf(stderr, "smelt-fuzz: --scratch=%s is no folder\n", s.run.scratch.c_str());
    return kExitUsage;
  }
  s.run.only_eager_order = line->Has("eager-order");
  s.generator.more_operators = line->Has("more-operators");
  s.keep_going = line->Has("keep-going");
  s.reasons = line->Has("reasons");
  s.reduce = !line->Has("no-reduce");
  if (line->Has("replay")) return Replay(line->Get("replay"), line->Get("save"), s);
  if (line->Has("print")) {
    std::fputs(RandomSample(s.begin, s.generator).ToString().c_str(), stdout);
    return kExitOk;
  }
  if (line->Has("emit")) return Emit(line->Get("emit"), s);
  return Fuzz(s);
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) { return smelt::Main(argc, argv); }
