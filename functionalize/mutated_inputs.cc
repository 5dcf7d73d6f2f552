// The layer of mutated arguments and states: contents, then geometry.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {

void Functionalizer::NoteMutations() {
  Convention& c = result_.convention;
  for (size_t id = 0; id < memories_.size(); ++id) {
    MemoryState& m = memories_.Edit(static_cast<MemoryId>(id));
    if (m.origin == MemoryState::Origin::kFresh || m.version == m.initial) continue;
    MutatedMemory mutated;
    mutated.memory =
        MemoryIndex(m.origin == MemoryState::Origin::kArgument ? m.index : c.overlaps.num_argument_memories + m.index);
    mutated.contents = Output(m.version);
    mutated.resized = m.resized;
    if (m.resized) {
      mutated.final_bytes = NumElements(m.nominal) * ItemSize(m.nominal.dtype);
      mutated.written.push_back(m.nominal);
    } else {
      mutated.written = std::move(m.written);
      if (m.shared) {
        for (int home : m.written_home) mutated.written_from.push_back(DistinctIndex(home));
      }
    }
    c.mutations.memories.push_back(std::move(mutated));
  }
  for (size_t d = 0; d < tensor_of_distinct_.size(); ++d) {
    const TensorId t = tensor_of_distinct_[d];
    if (t < 0) continue;
    MutatedInput in;
    in.arg = DistinctIndex(static_cast<int>(d));
    NoteInput(t, ArgumentMemory(static_cast<int>(d)), InitialGeometry(static_cast<int>(d)), in);
  }
  for (auto [w, t] : states_) {
    MutatedInput in;
    in.is_state = true;
    in.state = w;
    NoteInput(t, memory_of_storage_[g_.weights[w].storage], WeightGeometry(g_.weights[w]), in);
  }
}

MemoryId Functionalizer::ArgumentMemory(int distinct) const {
  return memory_of_argument_[result_.convention.overlaps.memory_of[distinct].value()];
}

void Functionalizer::NoteInput(TensorId t, MemoryId own, const SymbolicGeometry& initial, MutatedInput in) {
  const TensorState& now = tensors_[t];
  // Arguments that share one memory still have storages of their own.
  in.storage = now.memory != own || (now.home >= 0 && now.home != in.arg.value());
  // A tensor that was changed and changed back is the same afterwards, but another name of it saw it in between.
  in.geometry = in.storage || now.changed || !SameGeometry(now.geometry, initial);
  if (!in.geometry) return;
  in.final_geometry = now.geometry;
  if (in.storage) {
    const MemoryState& m = memories_[now.memory];
    if (m.origin == MemoryState::Origin::kFresh) {
      in.final_source = MutatedInput::Source::kGraphOutput;
      in.final_output = Output(m.version);
    } else {
      in.final_source = MutatedInput::Source::kMemory;
      in.final_memory = ConventionMemory(m);
      if (now.home >= 0) in.final_from = DistinctIndex(now.home);
    }
  }
  result_.convention.mutations.inputs.push_back(std::move(in));
}

MemoryIndex Functionalizer::ConventionMemory(const MemoryState& m) const {
  return MemoryIndex(m.origin == MemoryState::Origin::kArgument
                         ? m.index
                         : result_.convention.overlaps.num_argument_memories + m.index);
}

}  // namespace smelt
