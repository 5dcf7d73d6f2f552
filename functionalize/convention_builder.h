// Describes what a caller of a pure program sees beyond its results: changed arguments and states, and the place of each
// result.
//
//   ConventionBuilder convention({g, memories, sharing, tensors, tensor_of, inputs}, read, result);
//   SMELT_RETURN_IF_ERROR(convention.Build());   // fills in result.convention and replaces the graph's outputs
//
// `result.convention` must have the layers of duplicates and overlaps.
#ifndef SMELT_FUNCTIONALIZE_CONVENTION_BUILDER_H_
#define SMELT_FUNCTIONALIZE_CONVENTION_BUILDER_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "smelt/core/base/id_map.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/memory_table.h"
#include "smelt/functionalize/possible_sharing.h"
#include "smelt/functionalize/program_inputs.h"

namespace smelt {

class ConventionBuilder {
 public:
  // The program when the walk over it is done. All of it outlives this object.
  struct Program {
    Graph& g;
    MemoryTable& memories;  // the lists of what was written are moved out of it
    const PossibleSharing& sharing;
    const std::vector<TensorState>& tensors;
    const IdMap<ValueId, TensorId>& tensor_of;
    const ProgramInputs& inputs;
  };
  // `read` inserts what returns the elements of a tensor at the end of the program.
  ConventionBuilder(const Program& program, absl::FunctionRef<ValueId(TensorId)> read, FunctionalizeResult& result)
      : p_(program), read_(read), result_(result) {}

  absl::Status Build();

 private:
  GraphOutputIndex Output(ValueId v);
  MemoryIndex ConventionMemory(const MemoryState& m) const;

  // The layer of mutations: contents, then geometry.
  void NoteMutations();
  void NoteInput(TensorId t, MemoryId own, const SymbolicGeometry& initial, MutatedInput in);

  // The layer of outputs.
  void CountShown();
  absl::Status NoteGiven();
  absl::Status NoteOutputs();
  absl::Status NoteOutput(ValueId v);
  absl::Status NoteNumber(ValueId v);
  // Returns whether the caller sees the memory under some name.
  bool IsShown(MemoryId m) const;
  // Checks that the set of memories that share it does not depend on the call. The caller sees the memory.
  absl::Status CheckSharersAreKnown(MemoryId id, PossibleSharing::Shown& sharing);

  const Program p_;
  const absl::FunctionRef<ValueId(TensorId)> read_;
  FunctionalizeResult& result_;
  std::vector<ValueId> new_outputs_;
  absl::flat_hash_map<ValueId, int> output_index_;
  absl::flat_hash_map<MemoryId, int> storage_output_;  // of fresh memories: the first output with its contents
  absl::flat_hash_map<MemoryId, int> shown_;           // how many names of a memory the caller gets
  absl::flat_hash_map<TensorId, int> argument_of_, state_of_;
};

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_CONVENTION_BUILDER_H_
