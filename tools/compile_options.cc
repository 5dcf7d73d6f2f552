#include "smelt/tools/compile_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "smelt/codegen/http_store.h"
#include "smelt/codegen/target.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/pass/pass_pipeline.h"
#include "smelt/pipeline/passes.h"

namespace smelt {

namespace {

std::string OptionalPasses(const PassPipeline& passes) {
  std::vector<std::string> names;
  for (const Pass& pass : passes.passes()) {
    if (pass.is_optional) names.push_back(pass.name);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::Status ReadCompileOptions(const CommandLine& line, CompileOptions& options, KernelCache::Options& cache) {
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
  const PassPipeline passes = CompilePasses();
  for (absl::string_view name : absl::StrSplit(line.Get("disable-pass"), ',', absl::SkipEmpty())) {
    const Pass* pass = passes.Find(name);
    if (pass == nullptr || !pass->is_optional) {
      return absl::InvalidArgumentError(absl::StrCat("--disable-pass=", name, ": ",
                                                     pass == nullptr ? "there is no such pass" : "programs need it",
                                                     "; expected one of ", OptionalPasses(passes)));
    }
    options.disabled_passes.insert(pass->name);
  }
  cache.directory = line.Get("cache-dir");
  SMELT_ASSIGN_OR_RETURN(cache.mode, ParseCacheMode(line.Get("cache-mode", "read-write")));
  SMELT_ASSIGN_OR_RETURN(int64_t mebibytes, line.GetInt("cache-size", cache.max_bytes >> 20, 0, int64_t{1} << 30));
  cache.max_bytes = mebibytes << 20;
  if (cache.mode == CacheMode::kOff) {
    SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect({"cache-dir", "cache-size"}, "with --cache-mode=off"));
  } else if (cache.mode == CacheMode::kReadOnly) {
    SMELT_RETURN_IF_ERROR(
        line.RefuseWithoutEffect({"cache-size"}, "with --cache-mode=read-only: nothing is added to the folder"));
  }
  if (line.Has("remote-cache")) {
    SMELT_ASSIGN_OR_RETURN(cache.store, HttpStore::Create({.url = line.Get("remote-cache")}));
  }
  return absl::OkStatus();
}

int64_t RequestsDone(const KernelCache::Stats& stats) {
  return stats.compiled + stats.memory_hits + stats.disk_hits + stats.store_hits;
}

std::string Describe(const CompileOptions& options) {
  std::vector<std::string> disabled(options.disabled_passes.begin(), options.disabled_passes.end());
  std::sort(disabled.begin(), disabled.end());
  std::string schemas;
  for (OpName op : options.operators.all()) absl::StrAppend(&schemas, " operator ", DeclaredSchema(op));
  const char* const variants[] = {"auto", "none", "all"};
  return absl::StrCat(
      "targets ",
      absl::StrJoin(options.targets, ",", [](std::string* out, Target t) { absl::StrAppend(out, Name(t)); }),
      " variants ", variants[static_cast<int>(options.variants)], options.fuse ? " fuse" : " no-fuse",
      disabled.empty() ? "" : " without ", absl::StrJoin(disabled, ","), schemas);
}

}  // namespace smelt
