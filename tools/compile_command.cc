#include "smelt/tools/compile_command.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/codegen/archive_store.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/compile.h"
#include "smelt/pipeline/passes.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/compile_options.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/method_files.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/progress.h"
#include "smelt/tools/stats.h"

namespace smelt {
// Reads the options, compiles, writes and reports, one after the other as the user sees it.
int RunCompile(const CommandLine& line) {
  CompileOptions options;
  KernelCache::Options cache_options;
  const auto models = ReadMethodFiles(line, /*first=*/0, {"o", "stats-file"});
  absl::Status usage = models.status();
  if (usage.ok()) usage = ReadCompileOptions(line, options, cache_options);
  cache_options.explain_misses = usage.ok() && line.Has("explain-cache");
  if (usage.ok() && line.Has("stats") && line.Get("stats") != "json")
    usage = absl::InvalidArgumentError("--stats=json expected");
  if (usage.ok()) usage = line.CheckFiles({"kernels", "op-schema"}, {"o", "stats-file"});
  if (usage.ok() && IsModelPath(line.Get("o"))) {
    usage = absl::InvalidArgumentError(
        absl::StrCat("-o ", line.Get("o"), ": a bundle is written, so a name that ends in .smb is expected"));
  }
  std::error_code error;
  if (usage.ok() && line.Has("stats-file") && std::filesystem::exists(line.Get("o"), error) &&
      !std::filesystem::is_regular_file(line.Get("o"), error))
    usage = absl::InvalidArgumentError("--stats-file reads the bundle again: a file expected for -o");
  if (usage.ok() && line.Has("kernels")) {
    usage = line.RefuseWithoutEffect({"cache-dir", "cache-size", "remote-cache", "explain-cache"},
                                     "with --kernels: all kernels come from those files");
    if (usage.ok() && line.Get("cache-mode", "off") != "off")
      usage = line.RefuseWithoutEffect({"cache-mode"}, "with --kernels: all kernels come from those files");
  }
  const PassPipeline passes = CompilePasses();
  if (usage.ok() && line.Has("dump-after")) {
    const std::string pass = line.Get("dump-after");
    if (pass != "all" && passes.Find(pass) == nullptr) {
      const auto name = [](std::string* out, const Pass& p) { out->append(p.name); };
      usage = absl::InvalidArgumentError(absl::StrCat("--dump-after=", pass, ": one of ",
                                                      absl::StrJoin(passes.passes(), ", ", name), ", all expected"));
    }
  }
  if (!usage.ok()) return UsageError(*FindCommand("compile"), usage);
  const std::string out = line.Get("o");
  Progress progress("smelt compile", line.Has("quiet"));
  const auto fail = [&](const absl::Status& s, int code) {
    progress.Stop();
    std::fprintf(stderr, "smelt compile: %s\n", std::string(s.message()).c_str());
    return code;
  };
  const auto path_of = [](std::string* text, const MethodFile& m) { text->append(m.path); };
  const std::string model = absl::StrJoin(*models, ", ", path_of);
  const std::string shown = absl::StrJoin(*models, ", ", [](std::string* text, const MethodFile& m) {
    text->append(std::filesystem::path(m.path).filename().string());
  });
  progress.Doing(absl::StrCat("reading ", shown));
  const auto begin = std::chrono::steady_clock::now();
  auto operators = ReadOperatorSchemas(line.Get("op-schema"));
  if (!operators.ok()) return fail(operators.status(), ExitCodeOf(operators.status()));
  options.operators = *std::move(operators);
  auto read = ReadMethodModels(*models, options.operators);
  if (!read.ok()) return fail(read.status(), ExitCodeOf(read.status()));
  std::vector<Method>& methods = read->methods;
  const double import_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (line.Has("kernels")) {
    auto archives = OpenArchives(absl::StrSplit(line.Get("kernels"), ','));
    if (!archives.ok()) return fail(archives.status(), ExitCodeOf(archives.status()));
    cache_options.store = *archives;
    cache_options.mode = CacheMode::kOff;
    cache_options.may_compile = false;
  }
  cache_options.warn = [&](absl::string_view warning) { progress.Say(warning); };
  auto cache = KernelCache::Create(cache_options);
  if (!cache.ok()) return fail(cache.status(), kExitCannotWrite);
  const absl::Cleanup stop = [&] { progress.Stop(); };  // it looks at the cache
  options.cache = cache->get();
  const auto num_passes = static_cast<int64_t>(passes.passes().size());
  absl::string_view calls;  // for which the passes make a plan
  options.on_phase = [&](absl::string_view phase, double) {
    if (phase == "plan") calls = " for other calls";
    if (phase == "kernels") progress.Doing(absl::StrCat("writing ", out));
  };
  options.on_kernels = [&](int64_t kernels) {
    progress.Watch(absl::StrCat("kernels of ", shown, ":"), [&] { return RequestsDone((*cache)->stats()); }, kernels);
  };
  progress.Doing(absl::StrCat("passes over ", shown, ":"), 0, num_passes);
  options.on_pass = [&, pass = line.Get("dump-after")](absl::string_view name, const Graph& g) {
    progress.Doing(absl::StrCat("passes over ", shown, calls, ", ", name, " done:"),
                   passes.Find(name) - passes.passes().data() + 1, num_passes);
    if (pass == "all" || pass == name) progress.Print(absl::StrCat("--- after ", name, "\n", PrintGraph(g), "\n"));
  };
  absl::StatusOr<CompileStats> stats;
  if (line.Has("method")) {
    stats = CompileMethodsToFile(methods, out, options);
  } else {
    options.structure = std::move(methods[0].structure);
    stats = CompileToFile(*methods[0].graph, out, options);
  }
  if (!stats.ok()) return fail(Annotate(stats.status(), model), WriteExitCodeOf(stats.status()));
  progress.Stop();
  for (const std::string& note : stats->notes) std::fprintf(stderr, "smelt compile: %s\n", note.c_str());
  for (const KernelCache::Miss& m : (*cache)->misses()) {
    std::fprintf(stderr, "kernel %s for %s (%s): %s\n", m.key.substr(0, 12).c_str(), Name(m.target), m.summary.c_str(),
                 m.explanation.c_str());
  }
  if (line.Has("stats-file")) {
    auto bundle = ReadBundle(out);
    if (!bundle.ok()) return fail(bundle.status(), ExitCodeOf(bundle.status()));
    absl::Status written =
        WriteFileAtomically(line.Get("stats-file"), JsonText(StableStats(*stats, **bundle), 1) + "\n");
    if (!written.ok()) return fail(written, WriteExitCodeOf(written));
  }
  if (line.Has("stats")) {
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
    if (!stats->eager_order.empty()) j["eager_order"] = stats->eager_order;
    j["uncompiled_variants"] = stats->uncompiled_variants;
    j["bundle_bytes"] = stats->bundle_bytes;
    j["phase_ms"]["import"] = import_ms;
    for (const auto& [phase, ms] : stats->phase_ms) j["phase_ms"][phase] = ms;
    std::printf("%s\n", JsonText(j).c_str());
  }
  progress.Wrote({out, line.Get("stats-file")}, absl::StrCat(Count(stats->kernels_compiled, "kernel"), " compiled, ",
                                                             stats->kernels_from_cache, " from the cache"));
  return kExitOk;
}

}  // namespace smelt
