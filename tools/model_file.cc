#include "smelt/tools/model_file.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/recover.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/declared_types.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/pt2.h"
#include "smelt/pipeline/complete_types.h"
#include "smelt/schema/graph_decode.h"

namespace smelt {

namespace {

// Says what to do about a path that does not end as a model's.
absl::Status NotAModel(const std::string& path) {
  std::error_code error;
  std::string hint = "torch.export.save writes a .pt2";
  if (absl::EndsWith(path, ".smb")) hint = "a .smb is a bundle, which smelt run takes";
  if (std::filesystem::is_directory(path, error)) hint = "smelt convert compiles all models of a folder";
  if (std::filesystem::exists(path + ".pt2", error)) hint = absl::StrCat("did you mean ", path, ".pt2?");
  return absl::InvalidArgumentError(absl::StrCat(path, ": a file that ends in .pt2, .ir or .smg expected; ", hint));
}

absl::StatusOr<std::unique_ptr<Graph>> Read(const std::string& path, bool complete, CallStructure* structure,
                                            const OperatorDeclarations& operators) {
  std::string stem = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  if (absl::EndsWith(path, ".pt2")) {
    SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2(path, {.operators = &operators}));
    model.graph->name = stem;
    for (const std::string& warning : model.warnings)
      std::fprintf(stderr, "warning: %s: %s\n", path.c_str(), warning.c_str());
    for (const std::string& guard : model.unchecked_guards) {
      std::fprintf(stderr, "warning: %s was exported for sizes where %s; calls are not held to that\n", path.c_str(),
                   guard.c_str());
    }
    if (structure != nullptr) *structure = std::move(model.structure);
    return std::move(model.graph);
  }
  if (absl::EndsWith(path, ".ir")) {
    SMELT_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    ParseOptions options;
    options.file_name = path;
    options.resolve_overload = ResolveOverload;
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ParseGraph(text, options));
    g->name = stem;
    ApplyDeclarations(*g, operators);
    absl::Status s = CheckArguments(*g);
    if (s.ok() && complete) s = CompleteTypes(*g);
    if (s.ok() && complete) s = CheckModel(*g);
    if (!s.ok()) return Annotate(s, path);
    return g;
  }
  if (absl::EndsWith(path, ".smg")) {
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> g, ReadGraphFile(path));
    g->name = stem;
    SMELT_RETURN_IF_ERROR(Annotate(CheckModel(*g), path));
    return g;
  }
  return NotAModel(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> ReadModel(const std::string& path, bool complete, CallStructure* structure,
                                                 const OperatorDeclarations& operators) {
  return Recovered<std::unique_ptr<Graph>>("read", [&] { return Read(path, complete, structure, operators); });
}

absl::StatusOr<OperatorDeclarations> ReadOperatorSchemas(const std::string& paths) {
  OperatorDeclarations out;
  for (absl::string_view path : absl::StrSplit(paths, ',', absl::SkipEmpty())) {
    SMELT_ASSIGN_OR_RETURN(const std::string text, ReadFile(std::string(path)));
    SMELT_RETURN_IF_ERROR(out.AddText(text, path));
  }
  return out;
}

}  // namespace smelt
