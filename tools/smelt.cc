// The command line: smelt COMMAND ... ; each command is in its own file.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/tools/bench_command.h"
#include "smelt/tools/cache_command.h"
#include "smelt/tools/cc_command.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/command_main.h"
#include "smelt/tools/command_pages.h"
#include "smelt/tools/command_table.h"
#include "smelt/tools/compile_command.h"
#include "smelt/tools/convert_command.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/inspect_command.h"
#include "smelt/tools/kernels_command.h"
#include "smelt/tools/reduce_command.h"
#include "smelt/tools/report.h"
#include "smelt/tools/run_command.h"
#include "smelt/tools/version.h"

namespace {

struct Command {
  const char* name;
  int (*run)(const smelt::CommandLine& line);
};

int RunCompletion(const smelt::CommandLine& line) {
  const std::string script =
      line.positional().size() == 1 ? smelt::CompletionScript(line.positional()[0]) : std::string();
  if (script.empty())
    return smelt::UsageError(*smelt::FindCommand("completion"),
                             absl::InvalidArgumentError("bash, zsh or fish expected"));
  std::fputs(script.c_str(), stdout);
  return smelt::kExitOk;
}

int RunHelp(const smelt::CommandLine& line);

constexpr Command kCommands[] = {
    {"compile", smelt::RunCompile}, {"convert", smelt::RunConvert}, {"run", smelt::RunRun},
    {"bench", smelt::RunBench},     {"inspect", smelt::RunInspect}, {"cc", smelt::RunCc},
    {"reduce", smelt::RunReduce},   {"report", smelt::RunReport},   {"kernels", smelt::RunKernels},
    {"cache", smelt::RunCache},     {"completion", RunCompletion},  {"help", RunHelp},
};

int UnknownCommand(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& c : kCommands) names.emplace_back(c.name);
  const std::string meant =
      name[0] == '-' ? smelt::ClosestWord(name, {"--help", "--version"}) : smelt::ClosestWord(name, names);
  std::fprintf(stderr, "usage: smelt COMMAND ...\nCommands: %s.\nsmelt --help says what they do.\n",
               absl::StrJoin(names, ", ").c_str());
  std::fprintf(stderr, "smelt: unknown command \"%s\"%s\n", name.c_str(),
               meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?").c_str());
  return smelt::kExitUsage;
}

int RunHelp(const smelt::CommandLine& line) {
  if (line.positional().empty()) {
    std::fputs(smelt::OverviewText().c_str(), stdout);
    return smelt::kExitOk;
  }
  const smelt::CommandSpec* command = smelt::FindCommand(line.positional()[0]);
  if (command == nullptr) return UnknownCommand(line.positional()[0]);
  std::fputs(smelt::HelpText(*command).c_str(), stdout);
  return smelt::kExitOk;
}

int Main(int argc, char** argv) {
  auto args = smelt::ExpandParamsFiles(argc, argv);
  if (!args.ok()) {
    std::fprintf(stderr, "smelt: %s\n", std::string(args.status().message()).c_str());
    return smelt::ExitCodeOf(args.status());
  }
  if (args->empty()) {
    std::fprintf(stderr, "%ssmelt: a command expected\n", smelt::OverviewText().c_str());
    return smelt::kExitUsage;
  }
  const std::string& name = (*args)[0];
  if (name == "--help" || name == "-h") {
    std::fputs(smelt::OverviewText().c_str(), stdout);
    return smelt::kExitOk;
  }
  if (name == "--version" || name == "-V") {
    std::printf("%s\n", smelt::VersionText().c_str());
    return smelt::kExitOk;
  }
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    const smelt::CommandSpec& spec = *smelt::FindCommand(name);
    auto line = smelt::CommandLine::Parse({args->begin() + 1, args->end()}, spec);
    if (!line.ok()) return smelt::UsageError(spec, line.status());
    if (line->Has("help")) {
      std::fputs(smelt::HelpText(spec).c_str(), stdout);
      return smelt::kExitOk;
    }
    return command.run(*line);
  }
  return UnknownCommand(name);
}

}  // namespace

int main(int argc, char** argv) {
  return smelt::RunProgram("smelt", [&] { return Main(argc, argv); });
}
