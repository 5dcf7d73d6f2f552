#include "smelt/tools/reduce_command.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/unsupported.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/fuzz/reduce.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample_case.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/plain_text.h"
#include "smelt/tools/progress.h"

namespace smelt {

namespace {

// Says why the call is none of the model's; "" if it is one.
std::string WhyNot(const Graph& g, const Call& call) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) inputs.push_back(g.inputs()[i]);
  }
  if (inputs.size() != call.args.size())
    return absl::StrCat("has ", call.args.size(), " arguments, the model takes ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = g.value(inputs[i]).type;
    const CallArg& arg = call.args[i];
    const std::string who = absl::StrCat("argument ", i, " (", g.value(inputs[i]).name, ") ");
    if (type.IsTensor() != (arg.storage >= 0))
      return absl::StrCat(who, arg.storage >= 0 ? "is a tensor, the model takes a number" : "is no tensor");
    if (!type.IsTensor()) continue;
    const TensorType& t = type.tensor();
    if (t.dtype && *t.dtype != arg.dtype)
      return absl::StrCat(who, "is of ", Name(arg.dtype), ", the model takes ", Name(*t.dtype));
    const Geometry& geometry = arg.geometry;
    bool fits = geometry.sizes.size() == geometry.strides.size() && (!t.sizes || geometry.rank() == t.rank());
    for (int d = 0; fits && t.sizes && d < t.rank(); ++d) {
      const std::optional<int64_t> size = (*t.sizes)[d].Constant();
      fits = !size || *size == geometry.sizes[d];
    }
    if (!fits)
      return absl::StrCat(who, "has sizes [", absl::StrJoin(geometry.sizes, ", "), "], the model takes ",
                          type.ToString());
    const Tensor probe(Storage::Borrow(nullptr, static_cast<int64_t>(call.storages[arg.storage].bytes.size())),
                       arg.dtype, geometry);
    if (!probe.InBounds()) return absl::StrCat(who, "reaches outside its storage");
  }
  return "";
}

std::string Stage(const Verdict& v) { return v.what.substr(0, v.what.find(':')); }

absl::StatusOr<int> Reduce(const std::string& model, const std::string& case_path, const std::string& prefix, int tries,
                           Progress& progress) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ReadModel(model, /*complete=*/true));
  // Without them nothing can say what is right.
  if (const std::vector<UnsupportedOperator> missing = FindUnsupported(*graph); !missing.empty())
    return Annotate(WithAllUnsupported(*graph, absl::UnimplementedError(missing[0].name)), model);
  SMELT_ASSIGN_OR_RETURN(std::vector<Call> calls, ReadCaseCalls(case_path));
  for (size_t k = 0; k < calls.size(); ++k) {
    const std::string why = WhyNot(*graph, calls[k]);
    if (why.empty()) continue;
    std::fprintf(stderr, "smelt reduce: %s does not fit %s: call %zu %s\n", case_path.c_str(), model.c_str(), k,
                 why.c_str());
    return kExitUsage;
  }
  RunOptions options;
  options.evaluator = false;
  options.compiled = options.compiled_unjudged = true;
  options.scratch = std::filesystem::temp_directory_path().string();
  Sample sample{std::move(graph), {}};
  Isolated found;
  size_t at = 0;
  for (; at < calls.size(); ++at) {
    sample.call = calls[at];
    found = RunIsolated(sample, options, [&] {
      progress.Doing("running calls:", static_cast<int64_t>(at), static_cast<int64_t>(calls.size()));
    });
    if (found.crashed || found.verdict.outcome == Outcome::kDifferent || found.verdict.outcome == Outcome::kUnsupported)
      break;
    // The next call finds the state that this one leaves, or leaves alone where PyTorch refuses it.
    const absl::Status advanced = AdvanceState(sample);
    if (absl::IsUnimplemented(advanced)) return advanced;
    if (absl::IsInvalidArgument(advanced)) {
      progress.Stop();
      std::fprintf(stderr, "smelt reduce: %s does not fit %s: call %zu: %s\n", case_path.c_str(), model.c_str(), at,
                   std::string(advanced.message()).c_str());
      return kExitUsage;
    }
  }
  progress.Clear();
  if (at == calls.size()) {
    std::printf("%s: the bundle does what the evaluator does in %s: nothing to cut down\n", model.c_str(),
                Count(static_cast<int64_t>(calls.size()), "call").c_str());
    return kExitOk;
  }
  std::printf("call %zu: %s: %s\n", at, found.crashed ? "crash" : found.verdict.where.c_str(),
              found.verdict.what.c_str());
  int tried = 0;
  const Sample small = Reduce(
      sample,
      [&](const Sample& s) {
        const auto show = [&] { progress.Doing(absl::StrCat("cutting ", model, ", tries"), tried, tries); };
        show();
        const Isolated now = RunIsolated(s, options, show);
        ++tried;
        if (found.crashed || now.crashed) return found.crashed && now.crashed;
        return now.verdict.outcome == found.verdict.outcome && now.verdict.where == found.verdict.where &&
               (now.verdict.outcome != Outcome::kUnsupported || Stage(now.verdict) == Stage(found.verdict));
      },
      tries);
  SMELT_ASSIGN_OR_RETURN(const std::string written, WriteSampleFiles(small, prefix));
  progress.Stop();
  std::fputs(PrintGraph(*small.graph).c_str(), stdout);
  std::fflush(stdout);
  progress.Wrote({written, absl::StrCat(prefix, ".case.safetensors")}, absl::StrCat("tries: ", tried));
  return kExitDifferent;
}

// The files that PREFIX stands for are none of those that are read.
absl::Status CheckOutputs(const CommandLine& line) {
  const std::string prefix = line.Get("o", "reduced");
  if (prefix.empty()) return absl::InvalidArgumentError("-o is empty: the beginning of file names expected");
  for (const char* end : {".ir", ".smg", ".case.safetensors"}) {
    for (const std::string& read : {line.positional()[0], line.Get("case")}) {
      if (!AreOneFile(prefix + end, read)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("-o ", prefix, ": another beginning expected: ", prefix, end, " is read, and would be lost"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int RunReduce(const CommandLine& line) {
  absl::Status usage;
  int64_t tries = 3000;
  if (line.positional().size() != 1 || !line.Has("case"))
    usage = absl::InvalidArgumentError("a model and --case expected");
  if (usage.ok()) {
    auto n = line.GetInt("tries", tries, 1, 1000000);
    usage = n.status();
    if (n.ok()) tries = *n;
  }
  if (usage.ok()) usage = CheckOutputs(line);
  if (!usage.ok()) return UsageError(*FindCommand("reduce"), usage);
  // Each try is a process of its own.
  Progress progress("smelt reduce", line.Has("quiet"), Progress::Drawing::kWhenToldSo);
  auto code =
      Reduce(line.positional()[0], line.Get("case"), line.Get("o", "reduced"), static_cast<int>(tries), progress);
  if (code.ok()) return *code;
  progress.Stop();
  std::fprintf(stderr, "smelt reduce: %s\n", std::string(code.status().message()).c_str());
  return ExitCodeOf(code.status());
}

}  // namespace smelt
