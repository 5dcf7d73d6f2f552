#include "smelt/tools/reduce_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/fuzz/reduce.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample_case.h"
#include "smelt/tools/model_file.h"

namespace smelt {

const char kReduceHelp[] =
    "smelt reduce MODEL --case=F.case.safetensors [-o PREFIX] [--tries=N]\n"
    "  cuts a model that gives a wrong answer, is not compiled or ends the compiler down to PREFIX.ir (PREFIX.smg, "
    "where\n"
    "  weights remain) and PREFIX.case.safetensors, which fail in the same way. What is right is what smelt's "
    "evaluator\n"
    "  says of the cut model.\n"
    "  --case      the arguments; of several calls the first that fails\n"
    "  -o          where to write (reduced)\n"
    "  --tries=N   compiles at most so often (3000)\n";

namespace {

std::string Stage(const Verdict& v) { return v.what.substr(0, v.what.find(':')); }

absl::StatusOr<int> Reduce(const std::string& model, const std::string& case_path, const std::string& prefix,
                           int tries) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ReadModel(model, /*complete=*/true));
  SMELT_ASSIGN_OR_RETURN(std::vector<Call> calls, ReadCaseCalls(case_path));
  RunOptions options;
  options.evaluator = false;
  options.compiled = options.compiled_unjudged = true;
  options.scratch = std::filesystem::temp_directory_path().string();
  Sample sample{std::move(graph), {}};
  Isolated found;
  size_t at = 0;
  for (; at < calls.size(); ++at) {
    sample.call = calls[at];
    found = RunIsolated(sample, options);
    if (found.crashed || found.verdict.outcome == Outcome::kDifferent || found.verdict.outcome == Outcome::kUnsupported)
      break;
    // The next call finds the state that this one leaves, or leaves alone where PyTorch refuses it.
    const absl::Status advanced = AdvanceState(sample);
    if (absl::IsUnimplemented(advanced)) return advanced;
  }
  if (at == calls.size()) {
    std::printf("%s: the bundle does what the evaluator does in all %zu calls: nothing to cut down\n", model.c_str(),
                calls.size());
    return kExitOk;
  }
  std::printf("call %zu: %s: %s\n", at, found.crashed ? "crash" : found.verdict.where.c_str(),
              found.verdict.what.c_str());
  const Sample small = Reduce(
      sample,
      [&](const Sample& s) {
        const Isolated now = RunIsolated(s, options);
        if (found.crashed || now.crashed) return found.crashed && now.crashed;
        return now.verdict.outcome == found.verdict.outcome && now.verdict.where == found.verdict.where &&
               (now.verdict.outcome != Outcome::kUnsupported || Stage(now.verdict) == Stage(found.verdict));
      },
      tries);
  SMELT_ASSIGN_OR_RETURN(const std::string written, WriteSampleFiles(small, prefix));
  std::printf("%s%s and %s.case.safetensors\n", PrintGraph(*small.graph).c_str(), written.c_str(), prefix.c_str());
  return kExitDifferent;
}

}  // namespace

int RunReduce(const std::vector<std::string>& args) {
  auto line = CommandLine::Parse(args, {"case", "o", "tries"}, {"help"});
  if (line.ok() && line->Has("help")) {
    std::fputs(kReduceHelp, stdout);
    return kExitOk;
  }
  absl::Status usage = line.status();
  int64_t tries = 3000;
  if (usage.ok() && (line->positional().size() != 1 || !line->Has("case")))
    usage = absl::InvalidArgumentError("a model and --case expected");
  if (usage.ok()) {
    auto n = line->GetInt("tries", tries, 1, 1000000);
    usage = n.status();
    if (n.ok()) tries = *n;
  }
  if (!usage.ok()) {
    std::fprintf(stderr, "smelt reduce: %s\n%s", std::string(usage.message()).c_str(), kReduceHelp);
    return kExitUsage;
  }
  auto code = Reduce(line->positional()[0], line->Get("case"), line->Get("o", "reduced"), static_cast<int>(tries));
  if (code.ok()) return *code;
  std::fprintf(stderr, "smelt reduce: %s\n", std::string(code.status().message()).c_str());
  return ExitCodeOf(code.status());
}

}  // namespace smelt
