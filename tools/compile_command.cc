#include "smelt/tools/compile_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/codegen/archive_store.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/compile.h"
#include "smelt/pipeline/passes.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/compile_options.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/stats.h"

namespace smelt {
namespace {

int Fail(const absl::Status& s) {
  std::fprintf(stderr, "smelt compile: %s\n", std::string(s.message()).c_str());
  return ExitCodeOf(s);
}

}  // namespace

const std::string& CompileHelp() {
  static const std::string* help = new std::string(absl::StrCat(
      "smelt compile MODEL.{pt2,ir,smg} -o OUT.smb [options]\n", kCompileOptionsHelp,
      "  --explain-cache             say of each kernel that is compiled how it differs from the nearest in the "
      "cache\n"
      "  --threads=N                 of kernel compilation (default: one a core)\n"
      "  --kernels=FILE[,FILE...]    all kernels come from these files (smelt kernels compile)\n"
      "  --stats=json                one JSON object on standard output (docs/json.md)\n"
      "  --stats-file=FILE           the part of it that is the same everywhere, to a file\n"
      "  --dump-after=PASS           print the graph after a pass to standard error (all: after each)\n"));
  return *help;
}

int RunCompile(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, CompileOptionNames({"o", "stats", "stats-file", "dump-after", "kernels"}),
                                 CompileFlagNames({"explain-cache"}));
  if (line.ok() && line->Has("help")) {
    std::fputs(CompileHelp().c_str(), stdout);
    return kExitOk;
  }
  CompileOptions options;
  KernelCache::Options cache_options;
  absl::Status usage = line.status();
  if (usage.ok() && (line->positional().size() != 1 || !line->Has("o")))
    usage = absl::InvalidArgumentError("one model and -o OUT.smb expected");
  if (usage.ok()) usage = ReadCompileOptions(*line, options, cache_options);
  cache_options.explain_misses = usage.ok() && line->Has("explain-cache");
  if (usage.ok() && line->Has("stats") && line->Get("stats") != "json")
    usage = absl::InvalidArgumentError("--stats=json expected");
  if (usage.ok()) usage = line->CheckFiles({"kernels", "op-schema"}, {"o", "stats-file"});
  std::error_code error;
  if (usage.ok() && line->Has("stats-file") && std::filesystem::exists(line->Get("o"), error) &&
      !std::filesystem::is_regular_file(line->Get("o"), error))
    usage = absl::InvalidArgumentError("--stats-file reads the bundle again: a file expected for -o");
  if (usage.ok() && line->Has("kernels")) {
    usage = line->RefuseWithoutEffect({"cache-dir", "cache-size", "remote-cache", "explain-cache"},
                                      "with --kernels: all kernels come from those files");
    if (usage.ok() && line->Get("cache-mode", "off") != "off")
      usage = line->RefuseWithoutEffect({"cache-mode"}, "with --kernels: all kernels come from those files");
  }
  if (usage.ok() && line->Has("dump-after")) {
    const std::string pass = line->Get("dump-after");
    const PassPipeline passes = CompilePasses();
    if (pass != "all" && passes.Find(pass) == nullptr) {
      const auto name = [](std::string* out, const Pass& p) { out->append(p.name); };
      usage = absl::InvalidArgumentError(absl::StrCat("--dump-after=", pass, ": one of ",
                                                      absl::StrJoin(passes.passes(), ", ", name), ", all expected"));
    }
  }
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt compile: %s\n%s", std::string(usage.message()).c_str(), CompileHelp().c_str());
    return kExitUsage;
  }
  const std::string model = line->positional()[0], out = line->Get("o");
  const auto begin = std::chrono::steady_clock::now();
  auto operators = ReadOperatorSchemas(line->Get("op-schema"));
  if (!operators.ok()) return Fail(operators.status());
  options.operators = *std::move(operators);
  auto graph = ReadModel(model, /*complete=*/true, &options.structure, options.operators);
  if (!graph.ok()) return Fail(graph.status());
  const double import_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (line->Has("kernels")) {
    auto archives = OpenArchives(absl::StrSplit(line->Get("kernels"), ','));
    if (!archives.ok()) return Fail(archives.status());
    cache_options.store = *archives;
    cache_options.mode = CacheMode::kOff;
    cache_options.may_compile = false;
  }
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
  if (line->Has("stats-file")) {
    auto bundle = ReadBundle(out);
    if (!bundle.ok()) return Fail(bundle.status());
    absl::Status written =
        WriteFileAtomically(line->Get("stats-file"), JsonText(StableStats(*stats, **bundle), 1) + "\n");
    if (!written.ok()) {
      std::fprintf(stderr, "smelt compile: %s\n", std::string(written.message()).c_str());
      return WriteExitCodeOf(written);
    }
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
    if (!stats->eager_order.empty()) j["eager_order"] = stats->eager_order;
    j["uncompiled_variants"] = stats->uncompiled_variants;
    j["bundle_bytes"] = stats->bundle_bytes;
    j["phase_ms"]["import"] = import_ms;
    for (const auto& [phase, ms] : stats->phase_ms) j["phase_ms"][phase] = ms;
    std::printf("%s\n", JsonText(j).c_str());
  }
  return kExitOk;
}

}  // namespace smelt
