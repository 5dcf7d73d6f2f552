// smelt-opt: a pass at a time over a graph in text.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "flatbuffers/util.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/query_text.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/declare.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/core/op/schema.h"
#include "smelt/fuser/fuse.h"
#include "smelt/pipeline/complete_types.h"
#include "smelt/pipeline/passes.h"
#include "smelt/schema/graph_decode.h"
#include "smelt/schema/graph_encode.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/command_main.h"
#include "smelt/tools/command_pages.h"
#include "smelt/tools/command_table.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/model_file.h"
#include "smelt/tools/opt_passes.h"
#include "smelt/tools/progress.h"

namespace smelt {
namespace {

// As TorchScript chooses; what fits no overload exactly (a text written by hand) takes the first that has room for the
// arguments.
absl::StatusOr<OpName> Resolve(absl::string_view name, absl::Span<const Type> types) {
  absl::StatusOr<OpName> exact = ResolveOverload(name, types);
  if (exact.ok() || absl::IsNotFound(exact.status())) return exact;
  const FunctionSchema* best = nullptr;
  int best_fit = -1;
  for (const FunctionSchema* s : FindOverloads(name)) {
    if (s->arguments.size() < types.size()) continue;
    int fit = 0;
    for (size_t i = 0; i < types.size(); ++i) fit += IsSubtype(types[i], s->arguments[i].type) ? 2 : 0;
    if (s->NumRequired() <= static_cast<int>(types.size())) ++fit;
    if (fit > best_fit) {
      best_fit = fit;
      best = s;
    }
  }
  if (best != nullptr) return best->op;
  return OpName::Get(name);
}

absl::StatusOr<std::unique_ptr<Graph>> Read(const std::string& path, const std::string& standard_input,
                                            const OperatorDeclarations& operators) {
  if (absl::EndsWith(path, ".smg")) return ReadGraphFile(path);
  if (absl::EndsWith(path, ".pt2") || absl::EndsWith(path, ".smb")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": a graph as text (.ir) or a .smg expected",
        absl::EndsWith(path, ".pt2") ? absl::StrCat("; smelt inspect ", path, " prints its graph as text") : ""));
  }
  std::string text = standard_input;
  if (path != "-") {
    SMELT_ASSIGN_OR_RETURN(text, ReadFile(path));
  }
  ParseOptions options;
  options.file_name = path == "-" ? "<stdin>" : path;
  options.resolve_overload = Resolve;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ParseGraph(text, options));
  ApplyDeclarations(*g, operators);
  return g;
}

// Nobody vouches for the graph. One that is only looked at is printed as it is: its arguments are not filled in.
absl::Status Check(Graph& g, bool is_changed) {
  return Recovered("check", [&] {
    const std::unique_ptr<Graph> copy = is_changed ? nullptr : g.Clone();
    Graph& checked = is_changed ? g : *copy;
    return HasCompleteTypes(g) ? CheckModel(checked) : CheckArguments(checked);
  });
}

// JSON is UTF-8, whatever bytes the names in a graph file hold: others become U+FFFD.
std::string Utf8(const std::string& text) {
  std::string out;
  for (const char* at = text.c_str(); at < text.c_str() + text.size();) {
    const char* const begin = at;
    const bool valid = flatbuffers::FromUTF8(&at) >= 0;
    if (!valid) at = begin + 1;
    absl::StrAppend(&out, valid ? absl::string_view(begin, static_cast<size_t>(at - begin)) : "\xef\xbf\xbd");
  }
  return out;
}

int Fail(const absl::Status& s, int code) {
  std::fprintf(stderr, "smelt-opt: %s\n", std::string(s.message()).c_str());
  return code;
}

// Options that no pass heeds, and outputs that are inputs.
absl::Status CheckOptions(const CommandLine& line, const PassPipeline& all, const std::vector<const Pass*>& passes) {
  for (const char* option : {"json", "dot", "html", "explain"}) {
    const auto heeds = [&](const Pass& p) { return absl::c_linear_search(OptionsOf(p), option); };
    if (absl::c_any_of(passes, [&](const Pass* p) { return heeds(*p); })) continue;
    std::vector<std::string> with;
    for (const Pass& p : all.passes()) {
      if (heeds(p)) with.push_back(p.name);
    }
    SMELT_RETURN_IF_ERROR(
        line.RefuseWithoutEffect({option}, absl::StrCat("here: it is for --pass=", absl::StrJoin(with, ", "))));
  }
  if (line.Has("json")) SMELT_RETURN_IF_ERROR(line.RefuseWithoutEffect({"dot"}, "with --json"));
  if (const std::string timing = line.Get("timing", "json"); timing != "json" && timing != "true")
    return absl::InvalidArgumentError(absl::StrCat("--timing=", timing, ": --timing or --timing=json expected"));
  if (line.positional()[0] == "-" && line.Get("alias-queries") == "-")
    return absl::InvalidArgumentError("standard input is either the graph or the queries");
  // "-" is no file.
  return line.Get("o") == "-" ? line.CheckFiles({"alias-queries", "op-schema"}, {"html"})
                              : line.CheckFiles({"alias-queries", "op-schema"}, {"o", "html"});
}

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Reads the graph, runs the passes and writes what is asked for. It is long because of the options, which act in
// between.
int RunPasses(const CommandLine& line, const PassPipeline& all, const std::vector<const Pass*>& passes,
              const std::string& standard_input) {
  Progress progress("smelt-opt", line.Has("quiet"));
  // For standard output. It may be the terminal that shows the progress, so the texts wait for the end of that.
  std::vector<std::string> texts;
  const auto print_texts = [&] {
    progress.Stop();
    for (const std::string& text : texts) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  const auto fail = [&](const absl::Status& s, int code) {
    print_texts();
    return Fail(s, code);
  };
  const std::string& path = line.positional()[0];
  const bool explain = line.Has("explain");
  std::vector<std::pair<std::string, double>> times;
  double start = Now();
  progress.Doing(absl::StrCat("reading ", path));
  absl::StatusOr<OperatorDeclarations> operators = ReadOperatorSchemas(line.Get("op-schema"));
  if (!operators.ok()) return fail(operators.status(), ExitCodeOf(operators.status()));
  absl::StatusOr<std::unique_ptr<Graph>> graph =
      Recovered<std::unique_ptr<Graph>>("read", [&] { return Read(path, standard_input, *operators); });
  if (!graph.ok()) return fail(graph.status(), ExitCodeOf(graph.status()));
  Graph& g = **graph;
  times.push_back({"read", Now() - start});
  const auto is_analysis = [](const Pass* p) { return p->is_analysis; };
  progress.Doing(absl::StrCat("checking ", path));
  if (absl::Status s = Check(g, !absl::c_all_of(passes, is_analysis)); !s.ok())
    return fail(Annotate(s, path), ExitCodeOf(s));

  bool only_analyses = true;
  PassContext context;  // behind the graph, which its analyses follow
  OptOutput& output = context.Put(
      OptOutput{.json = line.Has("json"), .dot = line.Has("dot"), .html = line.Has("html"), .explain = explain});
  FuseOptions& fuse = context.Get<FuseOptions>();
  fuse.explain = explain;
  fuse.verify = true;
  absl::flat_hash_set<std::string> done;
  // A graph whose types are complete needs no more of what makes a program of a text.
  const PassPipeline script = PassesOf({PassGroup::kScript});
  bool typed = HasCompleteTypes(g);
  if (typed) {
    for (const Pass& p : script.passes()) done.insert(p.name);
  }
  for (const Pass* named : passes) {
    for (const Pass* p : all.WithPrerequisites(named->name)) {
      if (p != named && done.contains(p->name)) continue;
      output.text.clear();
      if (!typed && !p->is_analysis && script.Find(p->name) == nullptr) {
        typed = true;
        if (absl::Status s = Check(g, true); !s.ok()) return fail(Annotate(s, path), ExitCodeOf(s));
      }
      progress.Doing(absl::StrCat("pass ", p->name));
      std::vector<PassRecord> records;
      const absl::Status s = Recovered(p->name, [&] { return RunPass(*p, g, context, {}, &records); });
      if (absl::IsInternal(s)) return fail(s, kExitBug);
      if (!s.ok())
        return fail(absl::Status(s.code(), absl::StrCat("pass ", p->name, ": ", s.message())), ExitCodeOf(s));
      times.push_back({p->name, records.back().milliseconds / 1e3});
      if (p == named && explain) absl::StrAppend(&output.text, Explanation(*p, context));
      if (output.json) output.text = Utf8(output.text);
      if (!line.Has("quiet") && !output.text.empty()) texts.push_back(std::move(output.text));
      done.insert(p->name);
    }
    only_analyses &= named->is_analysis;
  }
  if (output.html) {
    const absl::Status s = WriteFileAtomically(line.Get("html"), output.page);
    if (!s.ok()) return fail(s, kExitCannotWrite);
  }
  if (line.Has("alias-queries")) {
    std::string queries = standard_input;
    if (const std::string file = line.Get("alias-queries"); file != "-") {
      absl::StatusOr<std::string> read = ReadFile(file);
      if (!read.ok()) return fail(read.status(), ExitCodeOf(read.status()));
      queries = *std::move(read);
    }
    progress.Doing("answering alias queries");
    start = Now();
    std::string answers;
    const absl::Status s = Recovered("alias-db", [&] {
      std::unique_ptr<AliasDb> db = AliasDb::Build(g);
      times.push_back({"build alias database", Now() - start});
      start = Now();
      answers = AnswerAliasQueries(*db, queries);
      times.push_back({"alias queries", Now() - start});
      return absl::OkStatus();
    });
    if (!s.ok()) return fail(s, ExitCodeOf(s));
    texts.push_back(std::move(answers));
  }
  if (line.Has("o")) {
    const std::string out = line.Get("o");
    progress.Doing(absl::StrCat("writing ", out));
    absl::Status s;
    if (out == "-") {
      texts.push_back(PrintGraph(g));
    } else if (absl::EndsWith(out, ".smg")) {
      s = WriteGraphFile(g, out);
    } else {
      s = WriteFileAtomically(out, absl::string_view(PrintGraph(g)));
    }
    if (!s.ok()) return fail(s, kExitCannotWrite);
  } else if (!line.Has("quiet") && !line.Has("alias-queries") && (passes.empty() || !only_analyses)) {
    texts.push_back(PrintGraph(g));
  }
  print_texts();
  if (line.Has("timing")) {
    // The first is the reading of the graph. Milliseconds.
    std::string json = absl::StrCat("{\"parse\": ", times[0].second * 1e3, ", \"passes\": {");
    for (size_t i = 1; i < times.size(); ++i) {
      absl::StrAppend(&json, i == 1 ? "" : ", ", "\"", times[i].first, "\": ", times[i].second * 1e3);
    }
    std::fprintf(stderr, "%s}}\n", json.c_str());
  }
  return kExitOk;
}

int Main(int argc, char** argv) {
  const PassPipeline all = OptPasses();
  absl::StatusOr<CommandLine> parsed =
      CommandLine::Parse(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), SmeltOptSpec());
  if (!parsed.ok()) return UsageError(SmeltOptSpec(), parsed.status());
  const CommandLine& line = *parsed;
  if (line.Has("help")) {
    std::fputs(HelpText(SmeltOptSpec()).c_str(), stdout);
    return kExitOk;
  }
  if (line.Has("list-passes")) {
    const absl::Status s =
        line.RefuseWithoutEffect({"pass", "o", "alias-queries", "html", "timing", "json", "dot"}, "with --list-passes");
    if (!s.ok() || !line.positional().empty())
      return Fail(s.ok() ? absl::InvalidArgumentError("no graph expected with --list-passes") : s, kExitUsage);
    for (const Pass& p : all.passes()) std::printf("%-24s %s\n", p.name.c_str(), p.description.c_str());
    return kExitOk;
  }
  if (line.positional().size() != 1) {
    return UsageError(SmeltOptSpec(),
                      absl::InvalidArgumentError(absl::StrCat("expected one graph, got ", line.positional().size())));
  }
  std::vector<const Pass*> passes;
  for (absl::string_view name : absl::StrSplit(line.Get("pass"), ',', absl::SkipEmpty())) {
    const Pass* p = all.Find(name);
    if (p == nullptr) {
      std::vector<std::string> names;
      for (const Pass& pass : all.passes()) names.push_back(pass.name);
      const std::string meant = ClosestWord(name, names);
      return Fail(absl::InvalidArgumentError(
                      absl::StrCat("there is no pass \"", name, "\"; --list-passes names them",
                                   meant.empty() ? "" : absl::StrCat("; did you mean \"", meant, "\"?"))),
                  kExitUsage);
    }
    passes.push_back(p);
  }
  if (absl::Status s = CheckOptions(line, all, passes); !s.ok()) return Fail(s, kExitUsage);
  std::string standard_input;  // read before there is a progress, since somebody may be typing it
  if (line.positional()[0] == "-" || line.Get("alias-queries") == "-") {
    absl::StatusOr<std::string> text = ReadFile("/dev/stdin");
    if (!text.ok()) return Fail(text.status(), ExitCodeOf(text.status()));
    standard_input = *std::move(text);
  }
  return RunPasses(line, all, passes, standard_input);
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  return smelt::RunProgram("smelt-opt", [&] { return smelt::Main(argc, argv); });
}
