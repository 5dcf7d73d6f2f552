// The command line: smelt COMMAND ... ; each command is in its own file.
#include <cstdio>
#include <string>
#include <vector>

#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/target.h"
#include "smelt/schema/bundle.h"
#include "smelt/tools/cache_command.h"
#include "smelt/tools/cc_command.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/command_main.h"
#include "smelt/tools/compile_command.h"
#include "smelt/tools/convert_command.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/inspect_command.h"
#include "smelt/tools/kernels_command.h"
#include "smelt/tools/reduce_command.h"
#include "smelt/tools/report.h"
#include "smelt/tools/run_command.h"

namespace {

constexpr char kHelp[] =
    "smelt compiles PyTorch model files to bundles of kernels, and runs them.\n\n"
    "  smelt compile MODEL -o OUT.smb    a model (.pt2, .ir, .smg) to a bundle\n"
    "  smelt convert MODELS --out-dir=DIR  many models, once each\n"
    "  smelt run BUNDLE --case=FILE      run a case and check what a caller sees\n"
    "  smelt inspect FILE                what a model or bundle holds\n"
    "  smelt cc BUNDLE ...               a typed C++ header for a bundle\n"
    "  smelt reduce MODEL --case=FILE    a model that fails on a case, cut down to a small one\n"
    "  smelt report BUNDLES -o FILE.html a page about bundles\n"
    "  smelt kernels STEP ...            the steps of compile, for builds that share kernels among models\n"
    "  smelt cache stats|explain|verify|clear   the kernels kept on disk\n\n"
    "smelt COMMAND --help says more; smelt --version, what machines must have in common to make the same bytes. @FILE "
    "among the\n  arguments stands for its lines.\n\n"
    "exit codes: 0 well; 1 the result differs from what was expected; 2 wrong usage, or arguments that do not fit the "
    "model;\n"
    "  3 the input cannot be read or is corrupt; 4 something in it is not supported (all of it is listed); 5 this "
    "machine does not\n"
    "  match the bundle's target; 6 the output cannot be written, or a resource is exhausted; 7 the call is refused, "
    "as PyTorch\n"
    "  would refuse it; 8 some models of a batch failed; 70 a bug in smelt\n";

int Main(int argc, char** argv) {
  auto args = smelt::ExpandParamsFiles(argc, argv);
  if (!args.ok()) {
    std::fprintf(stderr, "smelt: %s\n", std::string(args.status().message()).c_str());
    return smelt::kExitUsage;
  }
  if (args->empty() || (*args)[0] == "--help" || (*args)[0] == "help") {
    std::fputs(kHelp, args->empty() ? stderr : stdout);
    return args->empty() ? smelt::kExitUsage : smelt::kExitOk;
  }
  if ((*args)[0] == "--version") {
    std::printf("smelt: bundle format %d, kernels by %s\n", static_cast<int>(smelt::kBundleFormat),
                smelt::CodeGeneratorIdentity(smelt::Target::kX86_64_V2).c_str());
    return smelt::kExitOk;
  }
  const std::string command = (*args)[0];
  const std::vector<std::string> rest(args->begin() + 1, args->end());
  if (command == "compile") return smelt::RunCompile(rest);
  if (command == "inspect") return smelt::RunInspect(rest);
  if (command == "run") return smelt::RunRun(rest);
  if (command == "cache") return smelt::RunCache(rest);
  if (command == "cc") return smelt::RunCc(rest);
  if (command == "convert") return smelt::RunConvert(rest);
  if (command == "reduce") return smelt::RunReduce(rest);
  if (command == "report") return smelt::RunReport(rest);
  if (command == "kernels") return smelt::RunKernels(rest);
  std::fprintf(
      stderr,
      "smelt: unknown command \"%s\"; known: compile, convert, run, inspect, cc, kernels, reduce, report, cache\n%s",
      command.c_str(), kHelp);
  return smelt::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  return smelt::RunProgram("smelt", [&] { return Main(argc, argv); });
}
