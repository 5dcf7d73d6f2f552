#include "smelt/tools/inspect_command.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/inspect_bundle.h"
#include "smelt/tools/inspect_html.h"
#include "smelt/tools/model_file.h"

namespace smelt {

const char kInspectHelp[] =
    "smelt inspect FILE.{pt2,ir,smg,smb} [--json] [--digests] [--html=PAGE]\n"
    "  the graph in text, or the bundle's signature, calling convention, plans, kernels, weights and digests\n"
    "  --digests   also read the weights and check their digest\n"
    "  --html=PAGE of a bundle: draws the plans' steps, the memory that goes between them, bytes and kernels\n";

namespace {

int Fail(const std::string& path, const absl::Status& s) {
  std::fprintf(stderr, "smelt inspect: %s\n", std::string(s.message()).c_str());
  (void)path;
  return ExitCodeOf(s);
}

}  // namespace

int RunInspect(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, {"html"}, {"json", "digests", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kInspectHelp, stdout);
    return kExitOk;
  }
  if (!line.ok() || line->positional().size() != 1) {
    std::fprintf(stderr, "smelt inspect: %s\n%s",
                 line.ok() ? "one file expected" : std::string(line.status().message()).c_str(), kInspectHelp);
    return kExitUsage;
  }
  const std::string path = line->positional()[0];
  if (!absl::EndsWith(path, ".smb")) {
    if (line->Has("html")) {
      std::fprintf(stderr, "smelt inspect: --html draws bundles (.smb)\n");
      return kExitUsage;
    }
    auto g = ReadModel(path, /*complete=*/false);
    if (!g.ok()) return Fail(path, g.status());
    const std::string text = PrintGraph(**g);
    if (line->Has("json")) {
      std::printf("%s\n",
                  nlohmann::ordered_json{{"file", path}, {"graph", text}, {"nodes", (*g)->num_nodes()}}.dump().c_str());
    } else {
      std::fputs(text.c_str(), stdout);
    }
    return kExitOk;
  }
  auto file = Container::Open(path, ContentKind::kBundle);
  if (!file.ok()) return Fail(path, file.status());
  auto bundle = LoadBundle(**file);
  if (!bundle.ok()) return Fail(path, bundle.status());
  if (line->Has("digests")) {
    for (size_t i = 0; i < (*file)->segments().size(); ++i) {
      absl::Status s = (*file)->VerifyDigest(static_cast<int>(i));
      if (!s.ok()) return Fail(path, s);
    }
  }
  const nlohmann::ordered_json j = DescribeBundle(**bundle, **file);
  if (line->Has("html")) {
    const absl::Status s = WriteFileAtomically(line->Get("html"), absl::string_view(BundlePage(j)));
    if (!s.ok()) {
      std::fprintf(stderr, "smelt inspect: %s\n", std::string(s.message()).c_str());
      return kExitCannotWrite;
    }
    if (!line->Has("json")) return kExitOk;
  }
  if (line->Has("json")) {
    std::printf("%s\n", j.dump().c_str());
  } else {
    PrintDescription(j);
  }
  return kExitOk;
}

}  // namespace smelt
