#include "smelt/pipeline/unsupported.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

std::vector<UnsupportedOperator> FindUnsupported(const Graph& graph) {
  std::map<std::string, UnsupportedOperator> unknown;
  for (NodeId n : graph.AllNodes()) {
    const Node& node = graph.node(n);
    if (GetOpInfo(node.op).kind != OpKind::kUnknown || node.op.IsDeclared()) continue;
    UnsupportedOperator& u = unknown[node.op.full()];
    ++u.count;
    const std::string source = node.source == nullptr ? "" : node.source->ToString();
    if (!source.empty() && u.sources.size() < 5 &&
        std::find(u.sources.begin(), u.sources.end(), source) == u.sources.end())
      u.sources.push_back(source);
  }
  std::vector<UnsupportedOperator> out;
  for (auto& [name, u] : unknown) {
    u.name = name;
    out.push_back(std::move(u));
  }
  return out;
}

bool IsListOfUnsupported(const absl::Status& error) { return CauseOf(error) == Cause::kUnsupportedOperators; }

absl::Status WithAllUnsupported(const Graph& graph, const absl::Status& error) {
  // That list is complete.
  if (!absl::IsUnimplemented(error) || IsListOfUnsupported(error)) return error;
  const std::vector<UnsupportedOperator> unknown = FindUnsupported(graph);
  if (unknown.empty()) return error;
  std::vector<std::string> lines;
  bool contains_error = false;
  for (const UnsupportedOperator& u : unknown) {
    lines.push_back(absl::StrCat(u.name, " (", u.count, u.count == 1 ? " time" : " times",
                                 u.sources.empty() ? "" : ": ", absl::StrJoin(u.sources, ", "), ")"));
    contains_error = contains_error || absl::StartsWith(error.message(), u.name);
  }
  if (!contains_error) lines.push_back(std::string(error.message()));
  const bool own = std::any_of(unknown.begin(), unknown.end(), [](const UnsupportedOperator& u) {
    const absl::string_view library = absl::string_view(u.name).substr(0, u.name.find("::"));
    return library != "aten" && library != "prim" && library != "prims" && library != "smelt" && library != "onnx";
  });
  if (own) lines.push_back("operators of your own compile with --op-schema=FILE (docs/custom_operators.md)");
  return WithCause(absl::UnimplementedError(absl::StrCat("unsupported operators: ", absl::StrJoin(lines, "; "))),
                   Cause::kUnsupportedOperators);
}

}  // namespace smelt
