// smelt-hostile: files that nobody vouches for, by the million.
//
//   smelt-hostile lies                          one operator each, one lie each (testdata/op_answers.safetensors)
//   smelt-hostile pt2 --count=1000000 --seed=7  archives of testdata/ with something changed
//   smelt-hostile ir --count=1000000
//   smelt-hostile graphs --count=1000000          texts whose types are left to inference
//   smelt-hostile pt2 --seed=123 --print=FILE   the file of one seed
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/file.h"
#include "smelt/frontend/pt2_testing.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/fuzz/hostile.h"
#include "smelt/tools/fuzz/mutate_files.h"
#include "smelt/tools/fuzz/mutate_graphs.h"
#include "smelt/tools/fuzz/one_operator.h"

namespace smelt {
namespace {

constexpr char kHelp[] =
    "smelt-hostile lies|pt2|ir|graphs [--count=N] [--seed=N] [--seconds=N] [--scratch=DIR] [--compile-each=N] "
    "[--only=OP]\n"
    "Run it where testdata/ is. Each file is read and compiled; one that ends the process, does not end or shows a "
    "bug\n"
    "is printed and kept in the scratch folder.\n"
    "  --count         how many files (20000; lies: all of them)\n"
    "  --seed          of the first; the others follow (1)\n"
    "  --seconds       begins no file after so many\n"
    "  --scratch       a folder of its own (/tmp)\n"
    "  --compile-each  compiles every N-th of those that are read well (1); 0: none\n"
    "  --only          lies: about operators whose names begin so\n"
    "  --print=FILE    writes the file of the seed, and says what it is\n"
    "exit codes: 0 nothing found; 1 something; 2 wrong usage\n";

int Main(int argc, char** argv) {
  auto args = ExpandParamsFiles(argc, argv);
  auto line = args.ok() ? CommandLine::Parse(
                              *args, {"count", "seed", "seconds", "scratch", "compile-each", "only", "print"}, {"help"})
                        : absl::StatusOr<CommandLine>(args.status());
  absl::Status usage = line.status();
  const std::string what = usage.ok() && line->positional().size() == 1 ? line->positional()[0] : "";
  if (usage.ok() && what != "lies" && what != "pt2" && what != "ir" && what != "graphs")
    usage = absl::InvalidArgumentError("lies, pt2, ir or graphs expected");
  HostileOptions options;
  int64_t count = 20000, seed = 1;
  for (const auto& [name, value, fallback] : {std::tuple("count", &count, int64_t{20000}),
                                              {"seed", &seed, int64_t{1}},
                                              {"compile-each", &options.compile_each, int64_t{1}}}) {
    if (!usage.ok()) break;
    auto v = line->GetInt(name, fallback, 0, INT64_MAX / 2);
    usage = v.status();
    if (v.ok()) *value = *v;
  }
  if (usage.ok() && line->Has("seconds")) {
    auto v = line->GetInt("seconds", 60, 1, 1000000);
    usage = v.status();
    if (v.ok()) options.wall_seconds = static_cast<double>(*v);
  }
  if (!usage.ok() || line->Has("help")) {
    if (!usage.ok()) std::fprintf(stderr, "smelt-hostile: %s\n", std::string(usage.message()).c_str());
    std::fputs(kHelp, usage.ok() ? stdout : stderr);
    return usage.ok() ? kExitOk : kExitUsage;
  }
  options.scratch = line->Get("scratch", "/tmp");

  std::function<std::optional<HostileFile>(int64_t)> make;
  int64_t first = seed, end = seed + count;
  std::vector<OneOperator> calls;
  std::unique_ptr<ArchiveMutator> archives;
  std::unique_ptr<TextMutator> texts;
  std::unique_ptr<GraphMutator> graphs;
  std::optional<NumberedLies> lies;
  if (what == "lies") {
    for (OneOperator& c : OperatorCalls("testdata/op_answers.safetensors")) {
      if (c.op.full().rfind(line->Get("only"), 0) == 0) calls.push_back(std::move(c));
    }
    lies.emplace(std::move(calls));
    first = line->Has("seed") ? seed : 0;
    end = line->Has("count") ? std::min(first + count, lies->end()) : lies->end();
    make = [&](int64_t i) { return lies->Make(i); };
  } else if (what == "pt2") {
    archives = std::make_unique<ArchiveMutator>(TestArchive::AllPaths());
    make = [&](int64_t i) { return archives->Make(static_cast<uint64_t>(i)); };
  } else if (what == "graphs") {
    graphs = std::make_unique<GraphMutator>(GraphTexts("testdata"));
    make = [&](int64_t i) { return graphs->Make(static_cast<uint64_t>(i)); };
  } else {
    texts = std::make_unique<TextMutator>(GraphTexts("testdata"));
    make = [&](int64_t i) { return texts->Make(static_cast<uint64_t>(i)); };
  }
  if (line->Has("print")) {
    const std::optional<HostileFile> file = make(first);
    if (!file) return kExitUsage;
    std::printf("%s %s\n", file->extension.c_str(), file->what.c_str());
    return WriteFileAtomically(line->Get("print"), file->bytes).ok() ? kExitOk : kExitCannotWrite;
  }
  const HostileReport report = TryFiles(first, end, make, options);
  std::printf("%s\n", report.ToString().c_str());
  return report.Found().empty() ? kExitOk : kExitDifferent;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) { return smelt::Main(argc, argv); }
