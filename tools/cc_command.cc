#include "smelt/tools/cc_command.h"

#include <cstdio>

#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/container.h"
#include "smelt/tools/cc_header.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"

namespace smelt {
namespace {

constexpr char kHelp[] =
    "smelt cc BUNDLE.smb --namespace=NAME --include=PATH --header=OUT.h --source=OUT.cc [--object=OUT.o]\n"
    "  C++ for this very bundle: its inputs and outputs as types\n"
    "  --include      the header's path as sources include it\n"
    "  --object       the bundle's bytes, to be linked in; else the program opens the file\n"
    "  --bundle-path  where it finds it, unless it says otherwise\n";

}  // namespace

int RunCc(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, {"namespace", "include", "header", "source", "object", "bundle-path"}, {"help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kHelp, stdout);
    return kExitOk;
  }
  absl::Status usage = line.status();
  for (const char* name : {"namespace", "include", "header", "source"}) {
    if (usage.ok() && (!line->Has(name) || line->positional().size() != 1))
      usage = absl::InvalidArgumentError(std::string("one bundle and --") + name + " expected");
  }
  if (usage.ok()) usage = line->CheckFiles({}, {"header", "source", "object"});
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt cc: %s\n%s", std::string(usage.message()).c_str(), kHelp);
    return kExitUsage;
  }
  bool writing = false;
  auto run = [&]() -> absl::Status {
    const std::string& path = line->positional()[0];
    SMELT_ASSIGN_OR_RETURN(auto container, Container::Open(path, ContentKind::kBundle));
    SMELT_ASSIGN_OR_RETURN(auto bundle, LoadBundle(*container));
    SMELT_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
    CcOptions options;
    options.cc_namespace = line->Get("namespace");
    options.header = line->Get("include");
    options.bundle_path = line->Get("bundle-path");
    options.embed = line->Has("object");
    auto files = MakeCc(*bundle, file.text(), options);
    if (!files.ok()) return Annotate(files.status(), path);
    writing = true;
    SMELT_RETURN_IF_ERROR(WriteFileAtomically(line->Get("header"), files->header));
    SMELT_RETURN_IF_ERROR(WriteFileAtomically(line->Get("source"), files->source));
    if (options.embed) SMELT_RETURN_IF_ERROR(WriteFileAtomically(line->Get("object"), files->object));
    return absl::OkStatus();
  };
  const absl::Status s = run();
  if (s.ok()) return kExitOk;
  std::fprintf(stderr, "smelt cc: %s\n", std::string(s.message()).c_str());
  return writing ? WriteExitCodeOf(s) : ExitCodeOf(s);
}

}  // namespace smelt
