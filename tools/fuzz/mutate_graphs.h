// Graphs with something changed that leaves every type to inference: what is changed is not refused for a type that it
// contradicts, and comes as far as fusion and code generation.
//
//   GraphMutator mutator(GraphTexts("testdata"));
//   HostileFile file = mutator.Make(/*seed=*/17);   // a text; the same for the same seed
#ifndef SMELT_TOOLS_FUZZ_MUTATE_GRAPHS_H_
#define SMELT_TOOLS_FUZZ_MUTATE_GRAPHS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "smelt/core/ir/graph.h"
#include "smelt/tools/fuzz/hostile_file.h"

namespace smelt {

// Swaps and replaces arguments, gives constants absurd values, replaces operators by others that take arguments of the
// same kinds, gives inputs other types, deletes and doubles nodes, and puts nodes of other graphs between.
class GraphMutator {
 public:
  explicit GraphMutator(const std::vector<std::string>& texts);
  ~GraphMutator();
  HostileFile Make(uint64_t seed) const;

 private:
  class Change;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::map<std::string, std::vector<OpName>> by_kinds_;  // operators, by the kinds of their arguments
};

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_MUTATE_GRAPHS_H_
