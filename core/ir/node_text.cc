#include "smelt/core/ir/node_text.h"

#include "absl/strings/str_cat.h"

namespace smelt {

std::string OperatorAndSource(OpName op, const SourceLocation* source) {
  const std::string line = source == nullptr ? "" : source->ToString();
  return line.empty() ? op.full() : absl::StrCat(op.full(), " (", line, ")");
}

std::string OperatorAndSource(const Node& node) { return OperatorAndSource(node.op, node.source.get()); }

}  // namespace smelt
