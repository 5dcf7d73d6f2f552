// The text form: TorchScript's, extended. Graphs as PyTorch prints them can be parsed, and Parse(Print(g)) equals g at
// every stage.
//
//   graph(%x : Float(4, 8, strides=[8, 1])):
//     %1 : int = prim::Constant[value=1]()
//     %2 : Float(4, 8, strides=[8, 1]) = aten::add_(%x, %x, %1) # model.py:3:0
//     return (%2)
//
// Overloads are resolved by the arguments' types if the text does not print them (aten::add_.Tensor is printed in
// full). docs/text_form.md describes the extensions (symbol ranges, weights by reference, input kinds, source lines,
// attributes of smelt's own nodes, named `graph @f`).
#ifndef SMELT_CORE_IR_TEXT_H_
#define SMELT_CORE_IR_TEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct ParseOptions {
  std::string file_name = "<text>";  // for errors: "relu.ir:3:12: expected ..."
  // Chooses the overload for an op name printed without one, and fills in nothing else. If null, the name stays as
  // written. core/op provides ResolveOverload.
  std::function<absl::StatusOr<OpName>(absl::string_view name, absl::Span<const Type> argument_types)> resolve_overload;
  int max_depth = 200;  // nesting of blocks and types
};
// Exactly one graph.
absl::StatusOr<std::unique_ptr<Graph>> ParseGraph(absl::string_view text, const ParseOptions& options = {});
// One or more, `graph @f(...): ...`, with different names.
absl::StatusOr<std::vector<std::unique_ptr<Graph>>> ParseGraphs(absl::string_view text,
                                                                const ParseOptions& options = {});
std::string PrintGraph(const Graph& g);
std::string PrintNode(const Graph& g, NodeId n);  // one line, blocks elided

}  // namespace smelt

#endif  // SMELT_CORE_IR_TEXT_H_
