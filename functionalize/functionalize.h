// Makes a graph pure: afterwards no node writes into memory, and a Convention holds what the caller can observe.
//
//   SMELT_RETURN_IF_ERROR(OpenComposites(graph));                       // from here on schemas state all effects
//   SMELT_ASSIGN_OR_RETURN(Convention c, Functionalize(graph, {}));
//   SMELT_RETURN_IF_ERROR(VerifyFunctional(graph));
//
// The pass walks the program once, in order, with an abstract memory (memory.h): every view becomes geometry over a
// storage, every write a new version of the storage's contents (a rename if it covers all of them, else
// smelt::write_region). Linear in the number of nodes. docs/architecture.md describes the pure form.
//
// Errors: Unimplemented, with the op and its source line, for a program that cannot be made pure (a branch that returns
// one tensor or another, and a write to it afterwards); FailedPrecondition if PyTorch would refuse the program (a write
// to expanded memory).
#ifndef SMELT_FUNCTIONALIZE_FUNCTIONALIZE_H_
#define SMELT_FUNCTIONALIZE_FUNCTIONALIZE_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"
#include "smelt/core/pass/written_inputs.h"

namespace smelt {

struct FunctionalizeOptions {
  // The arguments that are the same tensor (by position among the user's arguments). Empty if all are distinct.
  DuplicatesLayer duplicates;
  // Any two arguments may share memory, in any way. Then all of them are in one memory. Each tensor's geometry counts
  // from its own argument; nodes that access that memory name the argument in an attribute "argument" (a
  // DistinctIndex). Every write goes into the arguments in program order.
  bool overlapping = false;
  // With `overlapping`: the strides of arguments are the symbols NAME.strideD instead of those of their types.
  bool symbolic_strides = false;
  // For checking: called for each tensor operand of a node in the top block, before the node is rewritten, with the
  // memory that holds the tensor at that point (numbered for this run).
  std::function<void(ValueId tensor, int memory)> on_operand;
};

struct FunctionalizeResult {
  Convention convention;
  int mutations_removed = 0;  // nodes that wrote into memory
  // Symbols that may be 1 in some call, for which the graph is then wrong: PyTorch uses one memory where it otherwise
  // makes a copy, and the program shows the difference.
  std::set<std::string> at_least_two;
  // True if the graph has assertions with kElseInOrder.
  bool assumes = false;
};

// The graph's inputs become the distinct user arguments and the weights, in the original order. Its outputs are those
// of the convention.
absl::StatusOr<FunctionalizeResult> Functionalize(Graph& g, const FunctionalizeOptions& options);

// Checks that no node writes, and no output or block result is a view.
absl::Status VerifyFunctional(const Graph& g);

// "merge-duplicates" and "functionalize". Both read FunctionalizeOptions; the second leaves FunctionalizeResult and
// WrittenInputs, and checks that the graph is pure.
Pass MergeDuplicatesPass();
Pass FunctionalizePass();

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_FUNCTIONALIZE_H_
