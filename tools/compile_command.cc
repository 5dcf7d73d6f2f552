#include "smelt/tools/compile_command.h"

#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/target.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/compile.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/model_file.h"

namespace smelt {

const char kCompileHelp[] =
    "smelt compile MODEL.{pt2,ir,smg} -o OUT.smb [options]\n"
    "  --target=LEVEL[,LEVEL...]   x86-64-v2, x86-64-v3, x86-64-v4, aarch64, sm_80, sm_90, sm_100, native\n"
    "                              (default x86-64-v3,x86-64-v4)\n"
    "  --alias-variants=auto|none|all  which calls besides distinct arguments are compiled ahead (default auto)\n"
    "  --cache-dir=DIR             kernel cache (default $XDG_CACHE_HOME/smelt)\n"
    "  --cache-mode=read-write|read-only|off\n"
    "  --explain-cache             say of each kernel that is compiled how it differs from the nearest in the cache\n"
    "  --threads=N                 of kernel compilation (default: one a core)\n"
    "  --no-fuse                   one kernel an operator\n"
    "  --verify                    run the graph through the evaluator around each pass; a difference is exit 70\n"
    "  --stats=json                one JSON object on standard output (docs/json.md)\n"
    "  --dump-after=PASS           print the graph after a pass to standard error (all: after each)\n";

namespace {

int Fail(const std::string& model, const absl::Status& s) {
  std::fprintf(stderr, "smelt compile: %s\n", std::string(s.message()).c_str());
  (void)model;
  return ExitCodeOf(s);
}

absl::Status ReadOptions(const CommandLine& line, CompileOptions& options, KernelCache::Options& cache) {
  if (line.Has("target")) {
    options.targets.clear();
    for (absl::string_view name : absl::StrSplit(line.Get("target"), ',')) {
      SMELT_ASSIGN_OR_RETURN(Target t, ParseTarget(name));
      if (std::find(options.targets.begin(), options.targets.end(), t) == options.targets.end())
        options.targets.push_back(t);
    }
  }
  const std::string variants = line.Get("alias-variants", "auto");
  if (variants == "none") {
    options.variants = AliasVariants::kNone;
  } else if (variants == "all") {
    options.variants = AliasVariants::kAll;
  } else if (variants != "auto") {
    return absl::InvalidArgumentError(absl::StrCat("--alias-variants=", variants, ": auto, none or all expected"));
  }
  SMELT_ASSIGN_OR_RETURN(int64_t threads, line.GetInt("threads", 0, 0, 1024));
  options.threads = static_cast<int>(threads);
  options.verify = line.Has("verify");
  options.fuse = !line.Has("no-fuse");
  cache.directory = line.Get("cache-dir");
  SMELT_ASSIGN_OR_RETURN(cache.mode, ParseCacheMode(line.Get("cache-mode", "read-write")));
  cache.explain_misses = line.Has("explain-cache");
  if (line.Has("stats") && line.Get("stats") != "json") return absl::InvalidArgumentError("--stats=json expected");
  return absl::OkStatus();
}

}  // namespace

int RunCompile(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(
      args, {"o", "target", "alias-variants", "cache-dir", "cache-mode", "threads", "stats", "dump-after"},
      {"verify", "no-fuse", "explain-cache", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kCompileHelp, stdout);
    return kExitOk;
  }
  CompileOptions options;
  KernelCache::Options cache_options;
  absl::Status usage = line.status();
  if (usage.ok() && (line->positional().size() != 1 || !line->Has("o")))
    usage = absl::InvalidArgumentError("one model and -o OUT.smb expected");
  if (usage.ok()) usage = ReadOptions(*line, options, cache_options);
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt compile: %s\n%s", std::string(usage.message()).c_str(), kCompileHelp);
    return kExitUsage;
  }
  const std::string model = line->positional()[0], out = line->Get("o");
  const auto begin = std::chrono::steady_clock::now();
  auto graph = ReadModel(model, /*complete=*/true);
  if (!graph.ok()) return Fail(model, graph.status());
  const double import_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  auto cache = KernelCache::Create(cache_options);
  if (!cache.ok()) {
    std::fprintf(stderr, "smelt compile: %s\n", std::string(cache.status().message()).c_str());
    return kExitCannotWrite;
  }
  options.cache = cache->get();
  if (line->Has("dump-after")) {
    const std::string pass = line->Get("dump-after");
    options.on_pass = [pass](absl::string_view name, const Graph& g) {
      if (pass == "all" || pass == std::string(name)) {
        std::fprintf(stderr, "--- after %s\n%s\n", std::string(name).c_str(), PrintGraph(g).c_str());
      }
    };
  }
  auto stats = CompileToFile(**graph, out, options);
  if (!stats.ok()) {
    std::fprintf(stderr, "smelt compile: %s: %s\n", model.c_str(), std::string(stats.status().message()).c_str());
    return WriteExitCodeOf(stats.status());
  }
  for (const std::string& note : stats->notes) std::fprintf(stderr, "smelt compile: %s\n", note.c_str());
  for (const KernelCache::Miss& m : (*cache)->misses()) {
    std::fprintf(stderr, "kernel %s for %s (%s): %s\n", m.key.substr(0, 12).c_str(), Name(m.target), m.summary.c_str(),
                 m.explanation.c_str());
  }
  if (line->Has("stats")) {
    nlohmann::ordered_json j;
    j["model"] = model;
    j["bundle"] = out;
    j["nodes"] = stats->nodes;
    j["mutations_removed"] = stats->mutations_removed;
    j["fusion_groups"] = stats->fusion_groups;
    j["distinct_kernels"] = stats->distinct_kernels;
    j["library_calls"] = stats->library_calls;
    j["kernels_compiled"] = stats->kernels_compiled;
    j["kernels_from_cache"] = stats->kernels_from_cache;
    j["bundle_bytes"] = stats->bundle_bytes;
    j["phase_ms"]["import"] = import_ms;
    for (const auto& [phase, ms] : stats->phase_ms) j["phase_ms"][phase] = ms;
    std::printf("%s\n", j.dump().c_str());
  }
  return kExitOk;
}

}  // namespace smelt
