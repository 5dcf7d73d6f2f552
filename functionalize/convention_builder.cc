#include "smelt/functionalize/convention_builder.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/functionalize/size_assertions.h"

namespace smelt {

absl::Status ConventionBuilder::Build() {
  NoteMutations();
  CountShown();
  SMELT_RETURN_IF_ERROR(NoteGiven());
  SMELT_RETURN_IF_ERROR(NoteOutputs());
  // The graph's outputs are what the layers refer to.
  Graph& g = p_.g;
  while (g.outputs().size() > 0) g.EraseResult(g.top(), static_cast<int>(g.outputs().size()) - 1);
  g.output_names.clear();
  for (ValueId v : new_outputs_) g.AddOutput(v);
  return absl::OkStatus();
}

GraphOutputIndex ConventionBuilder::Output(ValueId v) {
  auto [it, fresh] = output_index_.try_emplace(v, static_cast<int>(new_outputs_.size()));
  if (fresh) new_outputs_.push_back(v);
  return GraphOutputIndex(it->second);
}

MemoryIndex ConventionBuilder::ConventionMemory(const MemoryState& m) const {
  return MemoryIndex(m.origin == MemoryState::Origin::kArgument
                         ? m.index
                         : result_.convention.overlaps.num_argument_memories + m.index);
}

void ConventionBuilder::NoteMutations() {
  for (size_t id = 0; id < p_.memories.size(); ++id) {
    MemoryState& m = p_.memories.Edit(static_cast<MemoryId>(id));
    if (m.origin == MemoryState::Origin::kFresh || m.version == m.initial) continue;
    MutatedMemory mutated;
    mutated.memory = ConventionMemory(m);
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
    result_.convention.mutations.memories.push_back(std::move(mutated));
  }
  for (size_t d = 0; d < p_.inputs.arguments.size(); ++d) {
    const ProgramInputs::Argument& a = p_.inputs.arguments[d];
    if (a.tensor < 0) continue;
    MutatedInput in;
    in.arg = DistinctIndex(static_cast<int>(d));
    NoteInput(a.tensor, a.memory, a.initial, in);
  }
  for (const ProgramInputs::State& state : p_.inputs.states) {
    MutatedInput in;
    in.is_state = true;
    in.state = state.weight;
    NoteInput(state.tensor, state.memory, WeightGeometry(p_.g.weights[state.weight]), in);
  }
}

void ConventionBuilder::NoteInput(TensorId t, MemoryId own, const SymbolicGeometry& initial, MutatedInput in) {
  const TensorState& now = p_.tensors[t];
  // Arguments that share one memory still have storages of their own.
  in.storage = now.memory != own || (now.home >= 0 && now.home != in.arg.value());
  // A tensor that was changed and changed back is the same afterwards, but another name of it saw it in between.
  in.geometry = in.storage || now.changed || !SameGeometry(now.geometry, initial);
  if (!in.geometry) return;
  in.final_geometry = now.geometry;
  if (in.storage) {
    const MemoryState& m = p_.memories[now.memory];
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

void ConventionBuilder::CountShown() {
  for (ValueId v : p_.g.outputs()) {
    if (const TensorId* t = p_.tensor_of.Find(v)) ++shown_[p_.tensors[*t].memory];
  }
  for (size_t d = 0; d < p_.inputs.arguments.size(); ++d) {
    if (const TensorId t = p_.inputs.arguments[d].tensor; t >= 0) argument_of_[t] = static_cast<int>(d);
  }
  for (const ProgramInputs::State& state : p_.inputs.states) state_of_[state.tensor] = state.weight;
}

bool ConventionBuilder::IsShown(MemoryId m) const {
  return p_.memories[m].origin != MemoryState::Origin::kFresh || shown_.contains(m);
}

// A fresh memory that two outputs show, or an output and an argument given it by set_, is shared.
absl::Status ConventionBuilder::NoteGiven() {
  std::vector<MemoryId> given;  // to arguments and states
  for (const MutatedInput& in : result_.convention.mutations.inputs) {
    if (!in.storage || in.final_source != MutatedInput::Source::kGraphOutput) continue;
    TensorId t = -1;
    if (!in.is_state) {
      t = p_.inputs.arguments[in.arg.value()].tensor;
    } else {
      for (const ProgramInputs::State& state : p_.inputs.states) {
        if (state.weight == in.state) t = state.tensor;
      }
    }
    const MemoryId own = p_.tensors[t].memory;
    // Outputs and arguments refer to a storage by its contents.
    for (const auto& [m, count] : shown_) {
      if (m != own && p_.memories[m].version == p_.memories[own].version)
        return absl::UnimplementedError("a result with the contents of a storage that set_ gave an argument");
    }
    shown_[own] += 2;
    given.push_back(own);
  }
  const auto is_shown = [&](MemoryId m) { return IsShown(m); };
  PossibleSharing::Shown sharing(p_.sharing, is_shown);
  for (MemoryId m : given) SMELT_RETURN_IF_ERROR(CheckSharersAreKnown(m, sharing));
  for (ValueId v : p_.g.outputs()) {
    const TensorId* t = p_.tensor_of.Find(v);
    if (t == nullptr) continue;
    const TensorState& tensor = p_.tensors[*t];
    const MemoryState& m = p_.memories[tensor.memory];
    if (!tensor.conjugated && !tensor.negated) {
      SMELT_RETURN_IF_ERROR(CheckSharersAreKnown(tensor.memory, sharing));
    } else if (m.origin != MemoryState::Origin::kFresh || shown_.at(tensor.memory) != 1 ||
               sharing.MayBeAnother(tensor.memory)) {
      // It is returned as a tensor of its own, with its elements resolved, so nothing else may see the memory.
      return absl::UnimplementedError("an output that is lazily conjugated or negated and shares memory");
    }
  }
  return absl::OkStatus();
}

absl::Status ConventionBuilder::CheckSharersAreKnown(MemoryId id, PossibleSharing::Shown& sharing) {
  const MemoryState& m = p_.memories[id];
  for (const SharedAtOne& shared : m.shared_at_one) {
    if (IsShown(shared.other)) result_.at_least_two.insert(shared.symbols.begin(), shared.symbols.end());
  }
  if (m.layout_open) return absl::UnimplementedError("a result whose layout hangs on the sizes of the call");
  if (sharing.MayBeAnother(id))
    return absl::UnimplementedError("a result that may, by a branch, share memory with an argument or another result");
  return absl::OkStatus();
}

absl::Status ConventionBuilder::NoteOutputs() {
  // The caller sees the contents of every memory that is not fresh, or is a result.
  for (size_t m = 0; m < p_.memories.size(); ++m) {
    if (!IsShown(static_cast<MemoryId>(m))) continue;
    const auto& symbols = p_.memories[static_cast<MemoryId>(m)].stale_at_one;
    result_.at_least_two.insert(symbols.begin(), symbols.end());
  }
  const std::vector<ValueId> outputs(p_.g.outputs().begin(), p_.g.outputs().end());
  for (ValueId v : outputs) SMELT_RETURN_IF_ERROR(NoteOutput(v));
  return absl::OkStatus();
}

absl::Status ConventionBuilder::NoteNumber(ValueId v) {
  OutputInfo out;
  const Type& type = p_.g.value(v).type;
  if (type.kind() == TypeKind::kNone) {
    out.kind = OutputInfo::Kind::kNone;
  } else if (type.kind() == TypeKind::kInt && GetIntExpr(p_.g, v) && !HasDataSymbols(*GetIntExpr(p_.g, v))) {
    out.kind = OutputInfo::Kind::kConstant;
    out.constant = *GetIntExpr(p_.g, v);
  } else if (type.kind() == TypeKind::kInt || type.kind() == TypeKind::kFloat || type.kind() == TypeKind::kBool) {
    out.kind = OutputInfo::Kind::kScalar;
    out.contents = Output(v);
  } else {
    return absl::UnimplementedError(absl::StrCat("an output of type ", type.ToString()));
  }
  result_.convention.outputs.outputs.push_back(std::move(out));
  return absl::OkStatus();
}

absl::Status ConventionBuilder::NoteOutput(ValueId v) {
  const TensorId* known = p_.tensor_of.Find(v);
  if (known == nullptr) return NoteNumber(v);
  OutputInfo out;
  const TensorId t = *known;
  const TensorState& tensor = p_.tensors[t];
  const MemoryState& m = p_.memories[tensor.memory];
  out.geometry = tensor.geometry;
  if (tensor.conjugated || tensor.negated) {
    const ValueId resolved = read_(t);
    out.kind = OutputInfo::Kind::kFresh;
    out.contents = Output(resolved);
    out.geometry = GeometryOf(p_.g.value(resolved).type.tensor());
  } else if (auto a = argument_of_.find(t); a != argument_of_.end()) {
    out.kind = OutputInfo::Kind::kIsArgument;
    out.argument = CallerIndex(p_.inputs.arguments[a->second].caller);
  } else if (auto s = state_of_.find(t); s != state_of_.end()) {
    out.kind = OutputInfo::Kind::kIsState;
    out.state = s->second;
  } else if (m.origin != MemoryState::Origin::kFresh) {
    out.kind = OutputInfo::Kind::kAliasOfMemory;
    out.memory = ConventionMemory(m);
    if (tensor.home >= 0) out.argument = CallerIndex(p_.inputs.arguments[tensor.home].caller);
  } else {
    out.contents = Output(m.version);
    const bool whole = SameGeometry(tensor.geometry, m.nominal) && shown_.at(tensor.memory) == 1;
    out.kind = whole ? OutputInfo::Kind::kFresh : OutputInfo::Kind::kAliasOfIntermediate;
    if (!whole) {
      // Two memories may hold the same value, but they are different storages. This number refers to this one.
      const auto [index, fresh] = storage_output_.try_emplace(tensor.memory, out.contents.value());
      out.memory = MemoryIndex(result_.convention.overlaps.num_memories + tensor.memory);
      out.contents = GraphOutputIndex(index->second);
    }
  }
  // The very same tensor returned twice is one object for the caller too.
  result_.convention.outputs.outputs.push_back(std::move(out));
  return absl::OkStatus();
}

}  // namespace smelt
