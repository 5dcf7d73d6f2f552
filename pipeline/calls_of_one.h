// Calls in which a dynamic size is 1. An export reasons about sizes of 2 and more, and PyTorch runs its program for 1
// all the same. There one dim less decides how tensors lie: x.mT.reshape(-1, 8) of one matrix is a view of x, and what
// is made of it lies as x does. Where a caller sees that, the plan for sizes of 2 and more is not the program's.
#ifndef SMELT_PIPELINE_CALLS_OF_ONE_H_
#define SMELT_PIPELINE_CALLS_OF_ONE_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/layout_inference.h"

namespace smelt {

// The program of the calls in which these symbols are 1, and none of the others that CallsOfOne names.
struct ProgramOfOne {
  std::set<std::string> symbols;
  std::unique_ptr<Graph> graph;
};

struct CallsOfOne {
  // A call in which all symbols of one of these are 1 is not what the program says for others.
  std::vector<std::set<std::string>> sets;
  // All of them, and those of which a call with 1 is not what one of the programs says.
  std::set<std::string> symbols;
  // Of these, no more than so many may be 1 at a time: nothing is known of such calls.
  std::set<std::string> few;
  int most_of_few = 0;
  // Of which a call with 0 is not what the program says: of a size that is one more, that is 1.
  std::set<std::string> never_empty;
  // Of those that are known. A call that none is for is one whose layouts are not known.
  std::vector<ProgramOfOne> programs;

  bool IsNone() const { return sets.empty() && few.empty() && never_empty.empty(); }
};

// `layouts` of the program. `known`: symbols that are sets in any case. Costs inference of all nodes, some three times
// a symbol whose range begins at 2 and accepts 1; of up to four of them once a set of them, of up to eight once a pair.
CallsOfOne FindCallsOfOne(const Graph& g, const LayoutInference& layouts, const std::set<std::string>& known);

}  // namespace smelt

#endif  // SMELT_PIPELINE_CALLS_OF_ONE_H_
