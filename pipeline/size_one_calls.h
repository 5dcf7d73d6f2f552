// Handles calls in which a dynamic size is 1. An export assumes sizes of 2 and more, but PyTorch runs its program for 1
// nevertheless. If a dim has one element, tensors may have other layouts: x.mT.reshape(-1, 8) of one matrix is a view
// of x, and values made from it have x's layout. If a caller can see that, the plan for sizes of 2 and more is wrong
// for the call.
#ifndef SMELT_PIPELINE_SIZE_ONE_CALLS_H_
#define SMELT_PIPELINE_SIZE_ONE_CALLS_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// The program for the calls in which these symbols are 1, and no other symbol that SizeOneCalls names.
struct SizeOneProgram {
  std::set<std::string> symbols;
  std::unique_ptr<Graph> graph;
};

struct SizeOneCalls {
  // A call in which all symbols of one of these sets are 1 differs from the program for other calls.
  std::vector<std::set<std::string>> sets;
  // All symbols of the sets, and those for which a call with 1 differs from each of the programs.
  std::set<std::string> symbols;
  // At most `most_of_few` of these symbols may be 1 at the same time: other calls have not been examined.
  std::set<std::string> few;
  int most_of_few = 0;
  // Symbols whose calls with 0 differ from the program: if a size is one more than the symbol, that is a size of 1.
  std::set<std::string> never_empty;
  // The programs of the sets that are known. In a call for which there is none, layouts are unknown.
  std::vector<SizeOneProgram> programs;

  bool IsNone() const { return sets.empty() && few.empty() && never_empty.empty(); }
};

// `layouts` are those of the program. `known` are symbols that form sets in any case. Costs inference of all nodes,
// about three times per symbol whose range begins at 2 and accepts 1; with up to four such symbols once per set of
// them, with up to eight once per pair.
SizeOneCalls FindSizeOneCalls(const Graph& g, const LayoutInference& layouts, const std::set<std::string>& known);

}  // namespace smelt

#endif  // SMELT_PIPELINE_SIZE_ONE_CALLS_H_
