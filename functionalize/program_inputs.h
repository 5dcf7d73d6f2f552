// The tensors and memories that a program's inputs are, when functionalization begins.
#ifndef SMELT_FUNCTIONALIZE_PROGRAM_INPUTS_H_
#define SMELT_FUNCTIONALIZE_PROGRAM_INPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

// Arguments are the distinct ones, in order (DistinctIndex); those that are no tensors have entries too.
struct ProgramInputs {
  struct Argument {
    int caller = -1;       // the first of the caller's arguments that is it
    TensorId tensor = -1;  // -1: it is no tensor
    MemoryId memory = -1;
    SymbolicGeometry initial = {};  // its geometry when the program began
    std::string name = "";
  };
  struct State {
    int weight = -1;
    TensorId tensor = -1;
    MemoryId memory = -1;
  };

  std::vector<Argument> arguments;
  std::vector<State> states;
  std::vector<MemoryId> memory_of_storage;  // by weight storage; -1: no input shows it
  // With strides that only the call knows: the symbol that stands for one, and the export's stride.
  std::vector<std::pair<std::string, Expr>> exported_strides;

  // Returns where an argument begins in its storage, in elements of this size.
  Expr OffsetOf(int argument, int item_bytes) const;
  // Returns the memories that several states show.
  absl::flat_hash_set<MemoryId> SharedStates() const;
};

SymbolicGeometry WeightGeometry(const Weight& w);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_PROGRAM_INPUTS_H_
