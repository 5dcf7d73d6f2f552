#include "smelt/tools/inspect_command.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/symbol/expr.h"
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
#include "smelt/tools/operator_libraries.h"
#include "smelt/tools/progress.h"

namespace smelt {

namespace {

// Adds the least time of each step, of ten rounds of a case, to the description's plans. Returns why the case does not
// hold; "" if it does.
absl::StatusOr<std::string> AddTimes(const CommandLine& line, const std::string& bundle, Progress& progress,
                                     nlohmann::ordered_json& description) {
  const std::string case_path = line.Get("case");
  progress.Doing(absl::StrCat("running ", case_path));
  SMELT_RETURN_IF_ERROR(LoadOperatorLibraries(line));
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(bundle));
  SMELT_ASSIGN_OR_RETURN(CaseReport report, RunCase(program, case_path, {.repeat = 10, .time_steps = true}));
  if (!report.ok) {
    const CaseFailure& f = report.failures.front();
    return absl::StrCat(case_path, " does not hold: call ", f.call, ": ", f.where, ": ", f.what);
  }
  const auto add = [](const std::vector<StepTime>& times, nlohmann::ordered_json& program) {
    for (const StepTime& t : times) {
      nlohmann::ordered_json& plan = program["plans"][t.plan];
      const double us = static_cast<double>(t.least_ns) / 1e3;
      if (t.block == 0) plan["steps"][t.step]["microseconds"] = us;
      if (plan.contains("blocks")) plan["blocks"][t.block][t.step]["microseconds"] = us;
    }
  };
  if (!description.contains("methods")) add(report.step_times.begin()->second, description);
  if (description.contains("methods")) {
    for (nlohmann::ordered_json& method : description["methods"])
      add(report.step_times[method["method"].get<std::string>()], method);
  }
  return "";
}

}  // namespace

// One branch for each kind of file and of output. It is long because each of them has options that the others refuse.
int RunInspect(const CommandLine& line) {
  absl::Status usage = line.CheckFiles({"case", "op-library", "op-schema"}, {"html"});
  if (line.positional().size() != 1) usage = absl::InvalidArgumentError("one file expected");
  if (usage.ok() && !line.Has("case"))
    usage = line.RefuseWithoutEffect({"op-library"}, "without --case: nothing of the bundle runs");
  if (!usage.ok()) return UsageError(*FindCommand("inspect"), usage);
  const std::string path = line.positional()[0];
  Progress progress("smelt inspect", line.Has("quiet"));
  progress.Doing(absl::StrCat("reading ", path));
  const auto fail = [&](const absl::Status& s) {
    progress.Stop();
    std::fprintf(stderr, "smelt inspect: %s\n", std::string(s.message()).c_str());
    return ExitCodeOf(s);
  };
  if (!absl::EndsWith(path, ".smb") && !IsModelPath(path)) {
    return UsageError(*FindCommand("inspect"), absl::InvalidArgumentError(absl::StrCat(
                                                   path, ": a bundle (.smb) or a model (.pt2, .ir or .smg) expected")));
  }
  if (!absl::EndsWith(path, ".smb")) {
    if (line.Has("method")) {
      return UsageError(*FindCommand("inspect"),
                        absl::InvalidArgumentError("--method has no effect on a model: bundles (.smb) have methods"));
    }
    if (line.Has("html") || line.Has("case")) {
      return UsageError(
          *FindCommand("inspect"),
          WithHowToCompile(absl::InvalidArgumentError("--html draws bundles (.smb), --case runs them"), path));
    }
    if (line.Has("digests")) {
      return UsageError(*FindCommand("inspect"),
                        absl::InvalidArgumentError("--digests has no effect on a model: bundles (.smb) have digests"));
    }
    auto operators = ReadOperatorSchemas(line.Get("op-schema"));
    if (!operators.ok()) return fail(operators.status());
    auto g = ReadModel(path, /*complete=*/false, nullptr, *operators);
    if (!g.ok()) return fail(g.status());
    progress.Stop();
    const std::string text = PrintGraph(**g);
    if (line.Has("json")) {
      nlohmann::ordered_json j = {{"file", path}, {"graph", text}, {"nodes", (*g)->num_nodes()}};
      j["symbols"] = nlohmann::ordered_json::array();
      for (const auto& [name, range] : (*g)->symbols.Accepted().entries()) {
        nlohmann::ordered_json symbol = {{"name", name}, {"min", range.min}};
        if (range.max != SymbolRanges::kInfinity) symbol["max"] = range.max;
        j["symbols"].push_back(std::move(symbol));
      }
      std::printf("%s\n", JsonText(j).c_str());
      return kExitOk;
    }
    std::fputs(text.c_str(), stdout);
    for (const auto& [name, range] : (*g)->symbols.entries()) {
      if (line.Has("quiet") || range.accepted_min < 0 || range.accepted_min >= range.min) continue;
      std::fprintf(stderr, "smelt inspect: a call may have %s from %s on; the export assumes %s\n", name.c_str(),
                   absl::StrCat(range.accepted_min).c_str(), absl::StrCat(range.min).c_str());
    }
    return kExitOk;
  }
  if (line.Has("op-schema")) {
    return UsageError(
        *FindCommand("inspect"),
        absl::InvalidArgumentError("--op-schema has no effect on a bundle (.smb), which holds the schemas"));
  }
  auto file = Container::Open(path, ContentKind::kBundle);
  if (!file.ok()) return fail(file.status());
  auto bundle = LoadBundle(**file);
  if (!bundle.ok()) return fail(bundle.status());
  if (line.Has("digests")) {
    for (size_t i = 0; i < (*file)->segments().size(); ++i) {
      absl::Status s = (*file)->VerifyDigest(static_cast<int>(i));
      if (!s.ok()) return fail(s);
    }
  }
  absl::StatusOr<nlohmann::ordered_json> described = DescribeBundle(**bundle, **file);
  if (!described.ok()) return fail(described.status());
  nlohmann::ordered_json j = *std::move(described);
  if (line.Has("case")) {
    const absl::StatusOr<std::string> difference = AddTimes(line, path, progress, j);
    if (!difference.ok()) return fail(difference.status());
    if (!difference->empty()) {
      progress.Stop();
      std::fprintf(stderr, "smelt inspect: %s\n", difference->c_str());
      return kExitDifferent;
    }
  }
  if (line.Has("method")) {
    std::vector<std::string> names;
    for (const auto& m : (*bundle)->methods) names.push_back(m->method);
    if (names.empty()) names = {(*bundle)->method.empty() ? kDefaultMethod : (*bundle)->method};
    const std::string name = line.Get("method"), meant = ClosestWord(name, names);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return UsageError(*FindCommand("inspect"),
                        absl::InvalidArgumentError(absl::StrCat(
                            "--method=", name, ": the bundle has no such method; it has ", absl::StrJoin(names, ", "),
                            meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?"))));
    }
    if (j.contains("methods")) j = DescriptionOfMethod(j, name);
  }
  if (line.Has("html") && j.contains("methods")) {
    return UsageError(*FindCommand("inspect"),
                      absl::InvalidArgumentError("the bundle has several methods, and a page shows one: --method=NAME "
                                                 "expected"));
  }
  if (line.Has("html")) {
    progress.Doing(absl::StrCat("writing ", line.Get("html")));
    const absl::Status s = WriteFileAtomically(line.Get("html"), absl::string_view(BundlePage(j)));
    if (!s.ok()) {
      fail(s);
      return kExitCannotWrite;
    }
    progress.Wrote({line.Get("html")});
    if (!line.Has("json")) return kExitOk;
  }
  progress.Stop();
  if (line.Has("json")) {
    std::printf("%s\n", JsonText(j).c_str());
  } else {
    std::fputs(DescriptionText(j).c_str(), stdout);
  }
  return kExitOk;
}

}  // namespace smelt
