// PyTorch's layouts of the results of every operator, for tests: the table testdata/layout_rules.txt, which
// record_layout_rules.py makes and describes.
//
//   ForEachRecordedLayout([](const RecordedLayout& call) { ... });   // some 200,000 calls
#ifndef SMELT_CORE_OP_RECORDED_LAYOUTS_H_
#define SMELT_CORE_OP_RECORDED_LAYOUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

struct RecordedLayout {
  OpName op;
  std::string arguments;  // as the table has them, the same for calls that differ in the layouts of operands only
  std::vector<OpArg> args;
  std::string layout;                       // of the operands: "0t+1l"
  std::vector<std::vector<int64_t>> sizes;  // of the results
  std::vector<std::string> strides;         // of the results, for ExpectedStrides
};

// Calls that differ in the layouts of operands only follow each other. The test needs the table among its data.
void ForEachRecordedLayout(absl::FunctionRef<void(const RecordedLayout& call)> f);

// Returns the strides of a result of these sizes, or nullopt if it has no elements.
std::optional<std::vector<int64_t>> ExpectedStrides(absl::string_view strides, const std::vector<int64_t>& sizes);

// Adds the call to the graph, with inputs for its tensors, in order, and outputs for its results.
NodeId AddCall(Graph& g, const RecordedLayout& call);

// Returns the values of constants.
std::vector<int64_t> Numbers(const std::vector<Expr>& exprs);

}  // namespace smelt

#endif  // SMELT_CORE_OP_RECORDED_LAYOUTS_H_
