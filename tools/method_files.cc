#include "smelt/tools/method_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/schema/bundle.h"
#include "smelt/tools/model_file.h"

namespace smelt {

absl::StatusOr<std::vector<MethodFile>> ReadMethodFiles(const CommandLine& line, size_t first,
                                                        const std::vector<std::string>& writes) {
  const std::vector<std::string>& positional = line.positional();
  if (!line.Has("method")) {
    if (positional.size() != first + 1 || !line.Has("o"))
      return absl::InvalidArgumentError("one model and -o expected");
    return std::vector<MethodFile>{{"", positional[first]}};
  }
  if (positional.size() > first) {
    return absl::InvalidArgumentError(
        absl::StrCat(positional[first], ": with --method every model has the name of a method"));
  }
  if (!line.Has("o")) return absl::InvalidArgumentError("-o expected");
  std::vector<MethodFile> out;
  std::vector<std::string> names;
  for (const std::string& text : line.GetAll("method")) {
    const size_t equals = text.find('=');
    MethodFile m;
    if (equals != std::string::npos) m = {text.substr(0, equals), text.substr(equals + 1)};
    if (m.path.empty()) return absl::InvalidArgumentError(absl::StrCat("--method ", text, ": NAME=MODEL expected"));
    if (std::any_of(writes.begin(), writes.end(),
                    [&](const std::string& o) { return AreOneFile(m.path, line.Get(o)); }))
      return absl::InvalidArgumentError(absl::StrCat("--method ", text, ": an output would replace the model"));
    names.push_back(m.method);
    out.push_back(std::move(m));
  }
  SMELT_RETURN_IF_ERROR(Annotate(CheckMethodNames(names), "--method"));
  return out;
}

absl::StatusOr<MethodModels> ReadMethodModels(absl::Span<const MethodFile> files,
                                              const OperatorDeclarations& operators) {
  MethodModels out;
  for (const MethodFile& file : files) {
    Method method{file.method, nullptr, {}};
    SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                           ReadModel(file.path, /*complete=*/true, &method.structure, operators));
    method.graph = graph.get();
    out.graphs.push_back(std::move(graph));
    out.methods.push_back(std::move(method));
  }
  return out;
}

}  // namespace smelt
