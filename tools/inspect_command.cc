#include "smelt/tools/inspect_command.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/inspect_bundle.h"
#include "smelt/tools/inspect_html.h"
#include "smelt/tools/model_file.h"

namespace smelt {

const char kInspectHelp[] =
    "smelt inspect FILE.{pt2,ir,smg,smb} [--json] [--digests] [--html=PAGE] [--case=CASE] [--op-schema=FILE]\n"
    "  the graph in text, or the bundle's signature, calling convention, plans, kernels, weights and digests\n"
    "  --digests   also read the weights and check their digest\n"
    "  --html=PAGE of a bundle: draws the plans' steps, the memory that goes between them, bytes and kernels\n"
    "  --case=CASE of a bundle: runs it (trust where it comes from), and says how long each step takes\n"
    "  --op-schema=FILE of a model: the schemas of operators of your own that it calls\n";

namespace {

int Fail(const std::string& path, const absl::Status& s) {
  std::fprintf(stderr, "smelt inspect: %s\n", std::string(s.message()).c_str());
  (void)path;
  return ExitCodeOf(s);
}

// Adds the least time of each step, of ten rounds of a case, to the description's plans. Returns why the case does not
// hold; "" if it does.
absl::StatusOr<std::string> AddTimes(const std::string& bundle, const std::string& case_path,
                                     nlohmann::ordered_json& description) {
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(bundle));
  SMELT_ASSIGN_OR_RETURN(CaseReport report, RunCase(program, case_path, {.repeat = 10, .time_steps = true}));
  if (!report.ok) {
    const CaseFailure& f = report.failures.front();
    return absl::StrCat(case_path, " does not hold: call ", f.call, ": ", f.where, ": ", f.what);
  }
  for (const StepTime& t : report.step_times) {
    nlohmann::ordered_json& plan = description["plans"][t.plan];
    const double us = static_cast<double>(t.least_ns) / 1e3;
    if (t.block == 0) plan["steps"][t.step]["microseconds"] = us;
    if (plan.contains("blocks")) plan["blocks"][t.block][t.step]["microseconds"] = us;
  }
  return "";
}

}  // namespace

int RunInspect(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, {"html", "case", "op-schema"}, {"json", "digests", "help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kInspectHelp, stdout);
    return kExitOk;
  }
  if (!line.ok() || line->positional().size() != 1) {
    std::fprintf(stderr, "smelt inspect: %s\n%s",
                 line.ok() ? "one file expected" : std::string(line.status().message()).c_str(), kInspectHelp);
    return kExitUsage;
  }
  if (const absl::Status files = line->CheckFiles({"case"}, {"html"}); !files.ok()) {
    std::fprintf(stderr, "smelt inspect: %s\n", std::string(files.message()).c_str());
    return kExitUsage;
  }
  const std::string path = line->positional()[0];
  if (!absl::EndsWith(path, ".smb")) {
    if (line->Has("html") || line->Has("case")) {
      std::fprintf(stderr, "smelt inspect: --html draws bundles (.smb), --case runs them\n");
      return kExitUsage;
    }
    if (line->Has("digests")) {
      std::fprintf(stderr, "smelt inspect: --digests has no effect on a model: bundles (.smb) have digests\n");
      return kExitUsage;
    }
    auto operators = ReadOperatorSchemas(line->Get("op-schema"));
    if (!operators.ok()) return Fail(path, operators.status());
    auto g = ReadModel(path, /*complete=*/false, nullptr, *operators);
    if (!g.ok()) return Fail(path, g.status());
    const std::string text = PrintGraph(**g);
    if (line->Has("json")) {
      std::printf(
          "%s\n",
          JsonText(nlohmann::ordered_json{{"file", path}, {"graph", text}, {"nodes", (*g)->num_nodes()}}).c_str());
    } else {
      std::fputs(text.c_str(), stdout);
    }
    return kExitOk;
  }
  if (line->Has("op-schema")) {
    std::fprintf(stderr, "smelt inspect: --op-schema has no effect on a bundle, which holds the schemas\n");
    return kExitUsage;
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
  absl::StatusOr<nlohmann::ordered_json> described = DescribeBundle(**bundle, **file);
  if (!described.ok()) return Fail(path, described.status());
  nlohmann::ordered_json j = *std::move(described);
  if (line->Has("case")) {
    const absl::StatusOr<std::string> difference = AddTimes(path, line->Get("case"), j);
    if (!difference.ok()) return Fail(path, difference.status());
    if (!difference->empty()) {
      std::fprintf(stderr, "smelt inspect: %s\n", difference->c_str());
      return kExitDifferent;
    }
  }
  if (line->Has("html")) {
    const absl::Status s = WriteFileAtomically(line->Get("html"), absl::string_view(BundlePage(j)));
    if (!s.ok()) {
      std::fprintf(stderr, "smelt inspect: %s\n", std::string(s.message()).c_str());
      return kExitCannotWrite;
    }
    if (!line->Has("json")) return kExitOk;
  }
  if (line->Has("json")) {
    std::printf("%s\n", JsonText(j).c_str());
  } else {
    std::fputs(DescriptionText(j).c_str(), stdout);
  }
  return kExitOk;
}

}  // namespace smelt
