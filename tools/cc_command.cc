#include "smelt/tools/cc_command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/container.h"
#include "smelt/tools/cc_header.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/progress.h"

namespace smelt {
int RunCc(const CommandLine& line) {
  absl::Status usage;
  for (const char* name : {"namespace", "include", "header", "source"}) {
    if (usage.ok() && (!line.Has(name) || line.positional().size() != 1))
      usage = absl::InvalidArgumentError(std::string("one bundle and --") + name + " expected");
  }
  if (usage.ok() && !IsCcNamespace(line.Get("namespace"))) {
    usage = absl::InvalidArgumentError(
        absl::StrCat("--namespace=", line.Get("namespace"), ": a C++ namespace such as my::models::digits expected"));
  }
  if (usage.ok()) usage = line.CheckFiles({}, {"header", "source", "object"});
  if (!usage.ok()) return UsageError(*FindCommand("cc"), usage);
  Progress progress("smelt cc", line.Has("quiet"));
  bool writing = false;
  auto run = [&]() -> absl::Status {
    const std::string& path = line.positional()[0];
    progress.Doing(absl::StrCat("reading ", path));
    auto container = Container::Open(path, ContentKind::kBundle);
    SMELT_RETURN_IF_ERROR(WithHowToCompile(container.status(), path));
    SMELT_ASSIGN_OR_RETURN(auto bundle, LoadBundle(**container));
    SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
    CcOptions options;
    options.cc_namespace = line.Get("namespace");
    options.header = line.Get("include");
    options.bundle_path = line.Get("bundle-path");
    options.embed = line.Has("object");
    auto files = MakeCc(*bundle, file.text(), options);
    if (!files.ok()) return Annotate(files.status(), path);
    writing = true;
    progress.Doing("writing");
    SMELT_RETURN_IF_ERROR(WriteFileAtomically(line.Get("header"), files->header));
    SMELT_RETURN_IF_ERROR(WriteFileAtomically(line.Get("source"), files->source));
    if (options.embed) SMELT_RETURN_IF_ERROR(WriteFileAtomically(line.Get("object"), files->object));
    return absl::OkStatus();
  };
  const absl::Status s = run();
  if (s.ok()) {
    progress.Wrote({line.Get("header"), line.Get("source"), line.Get("object")});
    return kExitOk;
  }
  progress.Stop();
  std::fprintf(stderr, "smelt cc: %s\n", std::string(s.message()).c_str());
  return writing ? WriteExitCodeOf(s) : ExitCodeOf(s);
}

}  // namespace smelt
