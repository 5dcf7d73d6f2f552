#include "smelt/pipeline/unsupported.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

absl::Status WithAllUnsupported(const Graph& graph, const absl::Status& error) {
  // That list is complete.
  constexpr char kList[] = "unsupported operators: ";
  if (!absl::IsUnimplemented(error) || absl::StartsWith(error.message(), kList)) return error;
  struct Places {
    int count = 0;
    std::vector<std::string> sources;  // the first few, each once
  };
  std::map<std::string, Places> unknown;
  for (NodeId n : graph.AllNodes()) {
    const Node& node = graph.node(n);
    if (GetOpInfo(node.op).kind != OpKind::kUnknown) continue;
    Places& p = unknown[node.op.full()];
    ++p.count;
    const std::string source = node.source == nullptr ? "" : node.source->ToString();
    if (!source.empty() && p.sources.size() < 5 &&
        std::find(p.sources.begin(), p.sources.end(), source) == p.sources.end())
      p.sources.push_back(source);
  }
  if (unknown.empty()) return error;
  std::vector<std::string> lines;
  bool contains_error = false;
  for (const auto& [op, p] : unknown) {
    lines.push_back(absl::StrCat(op, " (", p.count, p.count == 1 ? " time" : " times", p.sources.empty() ? "" : ": ",
                                 absl::StrJoin(p.sources, ", "), ")"));
    contains_error = contains_error || absl::StartsWith(error.message(), op);
  }
  if (!contains_error) lines.push_back(std::string(error.message()));
  return absl::UnimplementedError(absl::StrCat(kList, absl::StrJoin(lines, "; ")));
}

}  // namespace smelt
