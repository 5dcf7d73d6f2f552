#include "smelt/tools/kernels_command.h"

#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/kernel_record.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/compile_options.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/method_files.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/progress.h"

namespace smelt {
namespace {

// A line: {"key":..., "target":..., "spec":...}. Keys order the lines, so equal sets are equal bytes.
using Lines = std::map<std::string, std::string>;

void AddLine(Lines& lines, const KernelSpec& spec, Target target) {
  const std::string text = spec.ToString();
  const std::string key = ComputeKernelKey(text, target);
  lines[key] = JsonText(nlohmann::ordered_json{{"key", key}, {"target", Name(target)}, {"spec", text}});
}

absl::Status Write(const std::string& path, const Lines& lines) {
  std::string out;
  for (const auto& [key, line] : lines) absl::StrAppend(&out, line, "\n");
  return WriteFileAtomically(path, out);
}

// Calls `use(line, key, target, spec)` for each line.
template <typename F>
absl::Status ForEachLine(const std::string& path, F use) {
  SMELT_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto bad = [&](absl::string_view why) { return absl::DataLossError(absl::StrCat(path, ":", number, ": ", why)); };
    const auto j = nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    auto field = [&](const char* name) {
      return j.is_object() && j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : std::string();
    };
    if (field("key").empty()) return bad("a line that smelt kernels plan or pick wrote expected");
    auto target = ParseTarget(field("target"));
    auto spec = ParseKernelSpec(field("spec"));
    if (!target.ok()) return bad(target.status().message());
    if (!spec.ok()) return bad(spec.status().message());
    if (absl::Status s = VerifyKernelSpec(*spec); !s.ok()) return bad(s.message());
    SMELT_RETURN_IF_ERROR(use(*spec, *target));
  }
  return absl::OkStatus();
}

// Sets `writing` when the inputs have been read.
absl::Status Plan(const CommandLine& line, const std::vector<MethodFile>& models, const CompileOptions& options,
                  bool& writing) {
  SMELT_ASSIGN_OR_RETURN(const OperatorDeclarations operators, ReadOperatorSchemas(line.Get("op-schema")));
  SMELT_ASSIGN_OR_RETURN(const MethodModels read, ReadMethodModels(models, operators));
  auto specs =
      line.Has("method") ? PlanMethodKernels(read.methods, options) : PlanKernels(*read.methods[0].graph, options);
  if (!specs.ok()) {
    const auto path_of = [](std::string* text, const MethodFile& m) { text->append(m.path); };
    return Annotate(specs.status(), absl::StrJoin(models, ", ", path_of));
  }
  Lines lines;
  for (Target t : options.targets) {
    for (const KernelSpec& s : *specs) AddLine(lines, s, t);
  }
  writing = true;
  return Write(line.Get("o"), lines);
}

absl::Status Pick(const CommandLine& line, Progress& progress, bool& writing) {
  const std::vector<std::string> outs = absl::StrSplit(line.Get("o"), ',');
  std::vector<Lines> shards(outs.size());
  for (size_t i = 1; i < line.positional().size(); ++i) {
    progress.Doing("picking from lists:", static_cast<int64_t>(i - 1),
                   static_cast<int64_t>(line.positional().size() - 1));
    SMELT_RETURN_IF_ERROR(ForEachLine(line.positional()[i], [&](const KernelSpec& spec, Target target) {
      // By the key's first digits: where a kernel goes does not depend on what else there is.
      const std::string key = ComputeKernelKey(spec.ToString(), target);
      AddLine(shards[std::stoul(key.substr(0, 8), nullptr, 16) % outs.size()], spec, target);
      return absl::OkStatus();
    }));
  }
  writing = true;
  for (size_t i = 0; i < outs.size(); ++i) SMELT_RETURN_IF_ERROR(Write(outs[i], shards[i]));
  return absl::OkStatus();
}

absl::Status Compile(const CommandLine& line, KernelCache& cache, int threads, Progress& progress, bool& writing) {
  std::vector<std::unique_ptr<KernelSpec>> specs;
  std::vector<KernelCache::Request> requests;
  SMELT_RETURN_IF_ERROR(ForEachLine(line.positional()[1], [&](const KernelSpec& spec, Target target) {
    specs.push_back(std::make_unique<KernelSpec>(spec));
    requests.push_back({specs.back().get(), target});
    return absl::OkStatus();
  }));
  progress.Watch("kernels:", [&] { return RequestsDone(cache.stats()); }, static_cast<int64_t>(requests.size()));
  SMELT_ASSIGN_OR_RETURN(auto objects, cache.GetOrCompileAll(requests, threads));
  std::string out;
  for (size_t i = 0; i < objects.size(); ++i) {
    absl::StrAppend(&out,
                    EncodeKernelRecord(KernelKeyText(specs[i]->ToString(), requests[i].target), objects[i]->bytes));
  }
  writing = true;
  return WriteFileAtomically(line.Get("o"), out);
}

}  // namespace

int RunKernels(const CommandLine& line) {
  CompileOptions options;
  KernelCache::Options cache_options;
  absl::Status usage = ReadCompileOptions(line, options, cache_options);
  const std::string step = usage.ok() && !line.positional().empty() ? line.positional()[0] : "";
  std::vector<MethodFile> models;  // of plan
  if (usage.ok() && step == "plan") {
    auto read = ReadMethodFiles(line, /*first=*/1, {"o"});
    if (read.ok()) models = *std::move(read);
    usage = Annotate(read.status(), "plan");
  } else if (usage.ok() && ((step != "pick" && step != "compile") || line.positional().size() < 2 ||
                            (step == "compile" && line.positional().size() != 2) || !line.Has("o"))) {
    const std::string meant = ClosestWord(step, FindCommand("kernels")->words);
    usage = absl::InvalidArgumentError(
        step == "compile" ? "compile: one input and -o expected"
        : step == "pick"  ? "pick: one input or more, and -o expected"
                          : absl::StrCat("\"", step, "\": plan, pick or compile expected",
                                         meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?")));
  }
  if (usage.ok() && step != "plan") {
    usage = line.RefuseWithoutEffect(
        {"method", "target", "alias-variants", "verify", "no-fuse", "disable-pass", "op-schema"},
        absl::StrCat("on kernels ", step, ": kernels are planned already"));
  }
  if (usage.ok() && step == "pick") {
    usage = line.RefuseWithoutEffect({"cache-dir", "cache-mode", "cache-size", "remote-cache", "threads"},
                                     "on kernels pick: it compiles nothing");
  }
  if (usage.ok()) usage = line.CheckFiles({"op-schema"}, {"o"}, /*first_file=*/1);
  if (!usage.ok()) return UsageError(*FindCommand("kernels"), usage);
  bool writing = false;
  Progress progress("smelt kernels", line.Has("quiet"));
  std::unique_ptr<KernelCache> cache;
  const absl::Cleanup stop = [&] { progress.Stop(); };  // it looks at the cache
  progress.Doing(step == "plan" ? "planning" : "reading");
  cache_options.warn = [&](absl::string_view warning) { progress.Say(warning); };
  auto run = [&]() -> absl::Status {
    if (step == "plan") return Plan(line, models, options, writing);
    if (step == "pick") return Pick(line, progress, writing);
    SMELT_ASSIGN_OR_RETURN(cache, KernelCache::Create(std::move(cache_options)));
    return Compile(line, *cache, options.threads, progress, writing);
  };
  const absl::Status s = run();
  if (s.ok()) {
    progress.Wrote(absl::StrSplit(line.Get("o"), ','));
    return kExitOk;
  }
  progress.Stop();
  std::fprintf(stderr, "smelt kernels: %s\n", std::string(s.message()).c_str());
  return writing ? WriteExitCodeOf(s) : ExitCodeOf(s);
}

}  // namespace smelt
