#include "smelt/tools/command_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace smelt {
namespace {

std::vector<OptionSpec> Join(std::vector<OptionSpec> a, std::vector<OptionSpec> b) {
  for (OptionSpec& o : b) a.push_back(std::move(o));
  return a;
}

// Options that every command has.
std::vector<OptionSpec> Common() {
  return {
      {.name = "quiet", .help = "print no progress and no summary on standard error"},
      {.name = "help", .help = "print this text (also -h)"},
  };
}

// Options about operators of the user's own.
OptionSpec OperatorSchemas() {
  return {.name = "op-schema",
          .value = "FILE[,FILE...]",
          .help = "the schemas of operators of your own that the model calls (docs/custom_operators.md)",
          .is_file = true};
}
OptionSpec OperatorLibraries() {
  return {.name = "op-library",
          .value = "FILE[,FILE...]",
          .help = "shared libraries with the operators of your own that the model calls; their code runs",
          .is_file = true};
}

// Options that compile, convert and kernels share.
std::vector<OptionSpec> CompileOptionSpecs() {
  return {
      {.name = "target",
       .value = "LEVEL[,LEVEL...]",
       .help = "the machines to compile for: x86-64-v2, x86-64-v3, x86-64-v4, aarch64, armv8.2-a, armv8.6-a, sm_75, "
               "sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_103, sm_110, sm_120 or native (default "
               "x86-64-v3,x86-64-v4; aarch64,armv8.6-a where smelt runs on AArch64)",
       .words = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "armv8.2-a", "armv8.6-a", "sm_75", "sm_80", "sm_86",
                 "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120", "native"}},
      {.name = "alias-variants",
       .value = "auto|none|all",
       .help = "which calls besides those with distinct arguments are compiled ahead of time (default auto)",
       .words = {"auto", "none", "all"}},
      {.name = "cache-dir",
       .value = "DIR",
       .help = "the folder of the kernel cache (default $XDG_CACHE_HOME/smelt/kernels)",
       .is_file = true},
      {.name = "cache-mode",
       .value = "read-write|read-only|off",
       .help = "how the kernel cache is used (default read-write)",
       .words = {"read-write", "read-only", "off"}},
      {.name = "cache-size",
       .value = "MIB",
       .help = "the largest size of that folder; the least recently used kernels are removed first (default 1024)"},
      {.name = "remote-cache",
       .value = "URL",
       .help = "get kernels from, and send them to, a server of Bazel's HTTP cache protocol"},
      OperatorSchemas(),
      {.name = "no-fuse", .help = "compile one kernel per operator"},
      {.name = "disable-pass",
       .value = "PASS[,PASS...]",
       .help = "leave optional passes out (smelt-opt --list-passes names them); the bundle is slower"},
      {.name = "verify",
       .help = "run the graph through the evaluator before and after each pass; a difference is exit code 70"},
      {.name = "threads", .value = "N", .help = "threads of kernel compilation (default: one per core)"},
  };
}

OptionSpec Methods() {
  return {.name = "method",
          .value = "NAME=MODEL",
          .help = "a model, and the name of the method that it becomes. May be repeated"};
}

// Options that say which arguments a bundle is called with, and how `--size` is used.
std::vector<OptionSpec> ArgumentOptions(OptionSpec size) {
  return {
      {.name = "inputs",
       .value = "FILE",
       .help = "arguments by name: a safetensors file, an .npz, a folder of .npy files, or one .npy for a model that "
               "takes one tensor",
       .is_file = true},
      {.name = "input",
       .value = "NAME=VALUE",
       .help =
           "one argument. VALUE is @FILE.npy, a number, true, false, None, a text, or a tensor as SIZESxDTYPE=NUMBERS: "
           "2x3xf32=1,2,3,4,5,6 (a single number fills the tensor). May be repeated"},
      {.name = "random-inputs",
       .value = "SEED",
       .help = "fill arguments that nothing else gives: floating-point elements are in [-1, 1), integers are 0 or 1",
       .value_is_optional = true},
      std::move(size),
      {.name = "method", .value = "NAME", .help = "the method to call, of a bundle with several"},
      {.name = "threads", .value = "N", .help = "threads of one call (default: one per core)"},
      OperatorLibraries(),
  };
}

// The table of all commands and their options, from which help, man pages and completions come. It is long because it
// is the only place that states them.
std::vector<CommandSpec> MakeCommands() {
  std::vector<CommandSpec> all;
  all.push_back({
      .name = "compile",
      .summary = "compile a model to a bundle of kernels",
      .usage = {"MODEL.{pt2,ir,smg} -o OUT.smb [options]", "--method NAME=MODEL ... -o OUT.smb [options]"},
      .description =
          "Compiles a model to a bundle: a .pt2 archive of torch.export, a graph as text (.ir), or a graph in "
          "smelt's own form (.smg). The bundle is written whole or not at all.\n\n"
          "With --method it compiles several models to one bundle, as its methods. Parameters and buffers of the same "
          "name are one state, which every method reads and writes; they must agree in dtype, sizes, strides and "
          "initial contents.",
      .options =
          Join(Join({{.name = "o", .value = "OUT.smb", .help = "the bundle to write", .is_file = true}, Methods()},
                    CompileOptionSpecs()),
               Join({{.name = "kernels",
                      .value = "FILE[,FILE...]",
                      .help = "take all kernels from these files, which smelt kernels compile wrote",
                      .is_file = true},
                     {.name = "explain-cache",
                      .help = "say of each kernel that is compiled how it differs from the nearest one in the cache"},
                     {.name = "stats",
                      .value = "json",
                      .help = "print one JSON object on standard output (docs/json.md)",
                      .words = {"json"}},
                     {.name = "stats-file",
                      .value = "FILE",
                      .help = "write the part of it that is the same on every machine to a file",
                      .is_file = true},
                     {.name = "dump-after",
                      .value = "PASS|all",
                      .help = "print the graph after a pass, or after each, to standard error",
                      .words = {"all"}}},
                    Common())),
      .examples = {{"smelt compile model.pt2 -o model.smb", "kernels for x86-64-v3 and x86-64-v4"},
                   {"smelt compile model.pt2 -o model.smb --target=native", "kernels for this machine"},
                   {"smelt compile --method prefill=p.pt2 --method decode=d.pt2 -o llm.smb",
                    "two methods that share weights and a cache"}},
  });
  all.push_back({
      .name = "convert",
      .summary = "compile many models, each of them once",
      .usage = {"MODEL|FOLDER|@LIST ... --out-dir=DIR [options]"},
      .description =
          "Compiles many models. FOLDER stands for all models in it, also behind symbolic links; the bundles mirror "
          "the "
          "models' relative paths. Standard output has one line per model and the summary; on a terminal, one line "
          "that "
          "changes.\n\n"
          "A folder NAME.methods becomes one bundle, NAME.smb, with a method for each model in it: its file "
          "decode.pt2 becomes the method decode, as with --method of compile.\n\n"
          "Models that were converted before are skipped, by content. After an interruption the same command goes on "
          "where it was. The exit code is 8 if some model failed, and 130 after an interruption.",
      .options =
          Join(Join({{.name = "out-dir", .value = "DIR", .help = "the folder of the bundles", .is_file = true},
                     {.name = "jobs", .value = "N", .help = "models at a time (default: one per core)"},
                     {.name = "keep-going", .help = "go on after a model that failed or does not exist"},
                     {.name = "shard",
                      .value = "I/N",
                      .help = "the I-th of N parts, for other schedulers; \"smelt report LOG ...\" joins their logs"},
                     {.name = "report", .value = "FILE.html", .help = "write a page about all models", .is_file = true},
                     {.name = "log",
                      .value = "FILE.jsonl",
                      .help = "write one JSON object per model (docs/json.md)",
                      .is_file = true}},
                    CompileOptionSpecs()),
               Common()),
      .examples = {{"smelt convert models --out-dir=bundles --keep-going --report=report.html",
                    "all models of a folder, and a page about them"}},
  });
  all.push_back({
      .name = "run",
      .summary = "run a bundle on given arguments, or check a case",
      .usage = {"BUNDLE.smb [--inputs=FILE ...] [--input NAME=VALUE ...] [--random-inputs[=SEED]] [--outputs=OUT] "
                "[options]",
                "BUNDLE.smb --case=FILE.case.safetensors [--repeat=N] [options]"},
      .description =
          "Runs a bundle. Arguments and results have the names that the model's Python code gives them. Without "
          "--outputs the results are printed; an argument that the model has written is printed as NAME.after.\n\n"
          "Each --inputs is one call, and so is each round of --calls; all calls are made by one instance, so that a "
          "model with state, such as a decoder with a cache, goes from step to step.\n\n"
          "A case checks everything that a caller can see (docs/case_files.md); the exit code is 1 if anything "
          "differs.",
      .options = Join(
          Join(ArgumentOptions({.name = "size",
                                .value = "SYMBOL=N",
                                .help = "a size that varies, for --random-inputs: s0=4. May be repeated"}),
               {{.name = "calls", .value = "N", .help = "make all calls N times (default 1); the state goes on"},
                {.name = "outputs",
                 .value = "OUT",
                 .help =
                     "write the results to a file OUT.safetensors, to OUT.npy if there is one, or to a folder OUT/ of "
                     ".npy files. Of several calls the names begin with callN",
                 .is_file = true},
                {.name = "state-in",
                 .value = "FILE",
                 .help =
                     "set the state before the first call, from a safetensors file with every state that calls write",
                 .is_file = true},
                {.name = "state-out",
                 .value = "FILE",
                 .help = "write the state after the last call to a safetensors file",
                 .is_file = true},
                {.name = "case", .value = "FILE", .help = "run a case, and compare", .is_file = true},
                {.name = "device", .value = "DEVICE", .help = "run on a GPU, cuda:0 (docs/cuda.md)"},
                {.name = "repeat",
                 .value = "N",
                 .help = "rounds of the case, for latencies; arguments and state are restored before each"},
                {.name = "json", .help = "print one JSON object on standard output (docs/json.md)"}}),
          Common()),
      .examples = {{"smelt run model.smb --inputs=in.safetensors --outputs=out.safetensors", "tensors by name"},
                   {"smelt run model.smb --input x=2x3xf32=1,2,3,4,5,6", "print the results for one tensor"},
                   {"smelt run model.smb --random-inputs=7 --size s0=4", "try a model without any data"}},
  });
  all.push_back({
      .name = "bench",
      .summary = "measure the latency and throughput of a bundle",
      .usage = {"BUNDLE.smb [--inputs=FILE] [--input NAME=VALUE ...] [--size SYMBOL=N[,N...] ...] [options]"},
      .description = "Measures calls of a bundle, on random arguments where no others are given. Arguments that the "
                     "model writes and "
                     "the model's state are restored before each call, outside of the measured time.",
      .options = Join(
          Join(
              ArgumentOptions({.name = "size",
                               .value = "SYMBOL=N[,N...]",
                               .help = "a size that varies, for random arguments; each choice of sizes is a row of the "
                                       "table. May be repeated"}),
              {{.name = "callers",
                .value = "N",
                .help = "callers at the same time, each with an instance of its own (default 1)"},
               {.name = "device",
                .value = "DEVICE",
                .help = "measure on a GPU, cuda:0 (docs/cuda.md); arguments are in its memory"},
               {.name = "duration", .value = "SECONDS", .help = "how long calls are measured (default 2)"},
               {.name = "warmup", .value = "SECONDS", .help = "how long calls are made before that (default 0.5)"},
               {.name = "calls", .value = "N", .help = "measure N calls per caller, instead of --duration"},
               {.name = "keep-state", .help = "let the model's state go on from call to call"},
               {.name = "json", .help = "print one JSON object on standard output (docs/json.md)"}}),
          Common()),
      .examples = {{"smelt bench model.smb --size s0=1,8,64", "one row of the table for each size"},
                   {"smelt bench model.smb --threads=1 --callers=4", "the throughput of four callers"}},
  });
  all.push_back({
      .name = "inspect",
      .summary = "show what a model or a bundle holds",
      .usage = {"FILE.{pt2,ir,smg,smb} [options]"},
      .description =
          "Prints the graph of a model, or what a bundle takes, returns and contains: arguments with their ranges, "
          "types "
          "of results, states, plans, kernels and sizes. Nothing of the bundle is executed unless --case is given.",
      .options = Join(
          {{.name = "json", .help = "print one JSON object on standard output (docs/json.md)"},
           {.name = "digests", .help = "also read the weights, and check their digests"},
           {.name = "html",
            .value = "PAGE",
            .help = "write a page about a bundle: the steps of its plans, the memory that goes between them, kernels",
            .is_file = true},
           {.name = "case",
            .value = "CASE",
            .help = "run a case of a bundle (trust where it comes from) to say how long each step takes",
            .is_file = true},
           {.name = "method", .value = "NAME", .help = "show one method of a bundle with several"},
           OperatorLibraries(),
           OperatorSchemas()},
          Common()),
      .examples = {{"smelt inspect model.smb", "a table for people"},
                   {"smelt inspect model.smb --json", "everything, for programs"}},
  });
  all.push_back({
      .name = "cc",
      .summary = "write a typed C++ header for a bundle",
      .usage = {"BUNDLE.smb --namespace=NAME --include=PATH --header=OUT.h --source=OUT.cc [options]"},
      .description = "Writes C++ for this very bundle: its arguments, results and states as types.",
      .options =
          Join({{.name = "namespace", .value = "NAME", .help = "of the declarations: digits, my::models::digits"},
                {.name = "include", .value = "PATH", .help = "the header's path as sources include it"},
                {.name = "header", .value = "OUT.h", .help = "the header to write", .is_file = true},
                {.name = "source", .value = "OUT.cc", .help = "its implementation", .is_file = true},
                {.name = "object",
                 .value = "OUT.o",
                 .help = "the bundle's bytes, to be linked in; without it the program opens the bundle's file",
                 .is_file = true},
                {.name = "bundle-path",
                 .value = "PATH",
                 .help = "where the program finds that file, unless it says otherwise"}},
               Common()),
  });
  all.push_back({
      .name = "reduce",
      .summary = "cut a model that fails on a case down to a small one",
      .usage = {"MODEL --case=FILE.case.safetensors [-o PREFIX] [options]"},
      .description =
          "Cuts a model that gives a wrong answer, is not compiled, or ends the compiler down to PREFIX.ir (PREFIX.smg "
          "where weights remain) and PREFIX.case.safetensors, which fail in the same way. The evaluator decides what "
          "is "
          "right.",
      .options = Join({{.name = "case",
                        .value = "FILE",
                        .help = "the arguments; of several calls the first that fails is taken",
                        .is_file = true},
                       {.name = "o", .value = "PREFIX", .help = "where to write (default: reduced)", .is_file = true},
                       {.name = "tries", .value = "N", .help = "compile at most N times (default 3000)"}},
                      Common()),
  });
  all.push_back({
      .name = "report",
      .summary = "write a page about bundles",
      .usage = {"BUNDLE.smb|LOG.jsonl ... -o REPORT.html"},
      .description =
          "Writes a page about these bundles, and about the models in logs of smelt convert: their sizes, their "
          "kernels, and what they share. The logs of several shards become one page.",
      .options = Join({{.name = "o", .value = "REPORT.html", .help = "the page to write", .is_file = true}}, Common()),
  });
  all.push_back({
      .name = "kernels",
      .summary = "the steps of compile, for builds that share kernels among models",
      .usage = {"plan MODEL.{pt2,ir,smg} -o OUT.specs [options of compile]",
                "plan --method NAME=MODEL ... -o OUT.specs [options of compile]",
                "pick A.specs B.specs ... -o OUT0.specs,OUT1.specs,...", "compile IN.specs -o OUT.kernels [options]"},
      .description =
          "plan writes the kernels that a model needs, not compiled, one JSON object per line. It takes all options of "
          "compile, so that one list of them serves both.\n\n"
          "pick writes the distinct kernels of many models, each to the file that its key decides.\n\n"
          "compile writes their machine code, for smelt compile --kernels=FILE,FILE,...; it takes --threads and the "
          "options of the cache.",
      .options =
          Join(Join({{.name = "o", .value = "OUT", .help = "the file or files to write", .is_file = true}, Methods()},
                    CompileOptionSpecs()),
               Common()),
      .words = {"plan", "pick", "compile"},
  });
  all.push_back({
      .name = "cache",
      .summary = "look at the kernels that are kept on disk",
      .usage = {"stats|explain|verify|clear [KEY] [options]"},
      .description =
          "stats prints entries and bytes by target, and how many entries this smelt's code generator can use.\n\n"
          "explain prints each entry: its target and what it computes. explain KEY prints one entry (the key's "
          "beginning "
          "is enough), and how its key differs from that of the nearest other one.\n\n"
          "verify checks each entry's digest and names the damaged ones (exit code 3). clear removes all entries.",
      .options = Join({{.name = "cache-dir",
                        .value = "DIR",
                        .help = "the folder of the kernel cache (default $XDG_CACHE_HOME/smelt/kernels)",
                        .is_file = true},
                       {.name = "json", .help = "print one JSON object on standard output (docs/json.md)"}},
                      Common()),
      .words = {"stats", "explain", "verify", "clear"},
  });
  all.push_back({
      .name = "completion",
      .summary = "print a shell's completion of these commands",
      .usage = {"bash|zsh|fish"},
      .description = "Prints a script for the shell: source <(smelt completion bash).",
      .options = Common(),
      .words = {"bash", "zsh", "fish"},
  });
  all.push_back({
      .name = "help",
      .summary = "print the help of a command",
      .usage = {"[COMMAND]"},
      .description = "Prints what smelt COMMAND --help prints, or the list of commands.",
      .options = Common(),
  });
  for (const CommandSpec& c : all) {
    if (c.name != "help") all.back().words.push_back(c.name);
  }
  return all;
}

}  // namespace

std::string CommandSpec::FullName() const { return name.empty() ? program : absl::StrCat(program, " ", name); }

const OptionSpec* CommandSpec::Find(absl::string_view option) const {
  for (const OptionSpec& o : options) {
    if (o.name == option) return &o;
  }
  return nullptr;
}

const std::vector<CommandSpec>& Commands() {
  static const auto* commands = new std::vector<CommandSpec>(MakeCommands());
  return *commands;
}

const CommandSpec* FindCommand(absl::string_view name) {
  for (const CommandSpec& c : Commands()) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

const CommandSpec& SmeltOptSpec() {
  static const auto* spec = new CommandSpec{
      .name = "",
      .summary = "run passes over a graph in text",
      .usage = {"GRAPH [--pass=NAME[,NAME...]] [-o OUT] [options]", "--list-passes"},
      .description =
          "Runs passes over a graph. GRAPH and OUT are text (.ir) or smelt's own form (.smg); - is standard "
          "input or output.",
      .options =
          {
              {.name = "pass", .value = "NAME[,NAME...]", .help = "the passes to run, with those that they need"},
              {.name = "o", .value = "OUT", .help = "the graph to write (default: standard output)", .is_file = true},
              {.name = "out", .value = "OUT", .help = "the same as -o", .is_file = true, .same_as = "o"},
              {.name = "alias-queries",
               .value = "FILE",
               .help = "answer the questions of a file, one per line (docs/alias_database.md)",
               .is_file = true},
              OperatorSchemas(),
              {.name = "explain", .help = "print why a pass did what it did"},
              {.name = "json", .help = "print an analysis as JSON"},
              {.name = "dot", .help = "print an analysis as a graph for Graphviz"},
              {.name = "html", .value = "FILE", .help = "write an analysis as a page", .is_file = true},
              {.name = "timing",
               .value = "json",
               .help = "print the milliseconds of each pass on standard error (docs/json.md)",
               .words = {"json"},
               .value_is_optional = true},
              {.name = "list-passes", .help = "print the passes and what they do"},
              {.name = "quiet", .help = "print no graph, and no progress on standard error"},
              {.name = "help", .help = "print this text (also -h)"},
          },
      .program = "smelt-opt",
  };
  return *spec;
}

const std::vector<ExitCodeText>& ExitCodeTexts() {
  static const auto* texts = new std::vector<ExitCodeText>{
      {0, "success"},
      {1, "the result differs from what was expected"},
      {2, "wrong usage, or arguments that do not fit the model"},
      {3, "the input cannot be read, or is corrupt"},
      {4, "something in it is not supported (all of it is listed)"},
      {5, "this machine does not match the bundle's target"},
      {6, "the output cannot be written, or a resource is exhausted"},
      {7, "the call is refused, as PyTorch would refuse it"},
      {8, "some models of a batch failed"},
      {70, "a bug in smelt"},
  };
  return *texts;
}

std::string Dashed(absl::string_view option) { return absl::StrCat(option.size() == 1 ? "-" : "--", option); }

}  // namespace smelt
