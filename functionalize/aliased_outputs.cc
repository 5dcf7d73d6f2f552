// The outputs layer: where each of the caller's results lives.
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

absl::Status Functionalizer::NoteOutputs() {
  Convention& c = result_.convention;
  // A fresh memory that two outputs (or an output and an argument given it by set_) show is shared.
  const std::vector<ValueId> outputs(g_.outputs().begin(), g_.outputs().end());
  absl::flat_hash_map<MemoryId, int> shown;
  std::vector<MemoryId> given;  // to arguments and states
  for (ValueId v : outputs) {
    if (const TensorId* t = tensor_of_.Find(v)) ++shown[tensors_[*t].memory];
  }
  for (const MutatedInput& in : c.mutations.inputs) {
    if (!in.storage || in.final_source != MutatedInput::Source::kGraphOutput) continue;
    TensorId t = -1;
    if (!in.is_state) {
      t = tensor_of_distinct_[in.arg.value()];
    } else {
      for (auto [w, state] : states_) {
        if (w == in.state) t = state;
      }
    }
    const MemoryId own = tensors_[t].memory;
    // Outputs and arguments refer to a storage by its contents.
    for (const auto& [m, count] : shown) {
      if (m != own && memories_[m].version == memories_[own].version)
        return absl::UnimplementedError("a result with the contents of a storage that set_ gave an argument");
    }
    shown[own] += 2;
    given.push_back(own);
  }
  const auto is_shown = [&](MemoryId m) {
    return memories_[m].origin != MemoryState::Origin::kFresh || shown.contains(m);
  };
  PossibleSharing::Shown sharing(sharing_, is_shown);
  for (MemoryId m : given) SMELT_RETURN_IF_ERROR(CheckSharersAreKnown(m, shown, sharing));
  // The caller sees the contents of every memory that is not fresh, or is a result.
  for (size_t m = 0; m < memories_.size(); ++m) {
    if (memories_[m].origin != MemoryState::Origin::kFresh || shown.contains(static_cast<MemoryId>(m)))
      ReadAtOne(memories_[m]);
  }
  absl::flat_hash_map<TensorId, int> caller_tensor;
  for (size_t d = 0; d < tensor_of_distinct_.size(); ++d) {
    if (tensor_of_distinct_[d] >= 0) caller_tensor[tensor_of_distinct_[d]] = caller_of_distinct_[d];
  }
  absl::flat_hash_map<TensorId, int> state_tensor;
  for (auto [w, t] : states_) state_tensor[t] = w;
  for (size_t i = 0; i < outputs.size(); ++i) {
    SMELT_RETURN_IF_ERROR(NoteOutput(outputs[i], shown, sharing, caller_tensor, state_tensor));
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::CheckSharersAreKnown(MemoryId id, const absl::flat_hash_map<MemoryId, int>& shown,
                                                  PossibleSharing::Shown& sharing) {
  const MemoryState& m = memories_[id];
  for (const SharedAtOne& shared : m.shared_at_one) {
    if (memories_[shared.other].origin != MemoryState::Origin::kFresh || shown.contains(shared.other)) {
      ExpectAtLeastTwo(shared.symbols);
    }
  }
  if (m.layout_open) return absl::UnimplementedError("a result whose layout hangs on the sizes of the call");
  if (sharing.MayBeAnother(id))
    return absl::UnimplementedError("a result that may, by a branch, share memory with an argument or another result");
  return absl::OkStatus();
}

GraphOutputIndex Functionalizer::Output(ValueId v) {
  auto [it, fresh] = output_index_.try_emplace(v, static_cast<int>(new_outputs_.size()));
  if (fresh) new_outputs_.push_back(v);
  return GraphOutputIndex(it->second);
}

absl::Status Functionalizer::NoteOutput(ValueId v, const absl::flat_hash_map<MemoryId, int>& shown,
                                        PossibleSharing::Shown& sharing,
                                        const absl::flat_hash_map<TensorId, int>& caller_tensor,
                                        const absl::flat_hash_map<TensorId, int>& state_tensor) {
  OutputInfo out;
  const Value& value = g_.value(v);
  const TensorId* known = tensor_of_.Find(v);
  if (known == nullptr) {
    if (value.type.kind() == TypeKind::kNone) {
      out.kind = OutputInfo::Kind::kNone;
    } else if (value.type.kind() == TypeKind::kInt && GetIntExpr(g_, v) && !HasDataSymbols(*GetIntExpr(g_, v))) {
      out.kind = OutputInfo::Kind::kConstant;
      out.constant = *GetIntExpr(g_, v);
    } else if (value.type.kind() == TypeKind::kInt || value.type.kind() == TypeKind::kFloat ||
               value.type.kind() == TypeKind::kBool) {
      out.kind = OutputInfo::Kind::kScalar;
      out.contents = Output(v);
    } else {
      return absl::UnimplementedError(absl::StrCat("an output of type ", value.type.ToString()));
    }
    result_.convention.outputs.outputs.push_back(std::move(out));
    return absl::OkStatus();
  }
  const TensorId t = *known;
  const TensorState& tensor = tensors_[t];
  const MemoryState& m = memories_[tensor.memory];
  if (tensor.conjugated || tensor.negated) {
    // It is returned as a tensor of its own, with its elements resolved, so nothing else may see the memory.
    if (m.origin != MemoryState::Origin::kFresh || shown.at(tensor.memory) != 1 || sharing.MayBeAnother(tensor.memory))
      return absl::UnimplementedError("an output that is lazily conjugated or negated and shares memory");
    const NodeId ret = g_.block(g_.top()).return_node;
    const ValueId resolved = Read(t, ret);
    out.kind = OutputInfo::Kind::kFresh;
    out.contents = Output(resolved);
    out.geometry = GeometryOf(g_.value(resolved).type.tensor());
    result_.convention.outputs.outputs.push_back(std::move(out));
    return absl::OkStatus();
  }
  SMELT_RETURN_IF_ERROR(CheckSharersAreKnown(tensor.memory, shown, sharing));
  out.geometry = tensor.geometry;
  if (auto c = caller_tensor.find(t); c != caller_tensor.end()) {
    out.kind = OutputInfo::Kind::kIsArgument;
    out.argument = CallerIndex(c->second);
  } else if (auto s = state_tensor.find(t); s != state_tensor.end()) {
    out.kind = OutputInfo::Kind::kIsState;
    out.state = s->second;
  } else if (m.origin != MemoryState::Origin::kFresh) {
    out.kind = OutputInfo::Kind::kAliasOfMemory;
    out.memory = ConventionMemory(m);
    if (tensor.home >= 0) out.argument = CallerIndex(caller_of_distinct_[tensor.home]);
  } else {
    out.contents = Output(m.version);
    const bool whole = SameGeometry(tensor.geometry, m.nominal) && shown.at(tensor.memory) == 1;
    out.kind = whole ? OutputInfo::Kind::kFresh : OutputInfo::Kind::kAliasOfIntermediate;
    if (!whole) {
      // Two memories may hold the same value, but they are different storages. This number refers to this one.
      auto [index, fresh] = storage_output_.try_emplace(tensor.memory, out.contents.value());
      (void)fresh;
      out.memory = MemoryIndex(result_.convention.overlaps.num_memories + tensor.memory);
      out.contents = GraphOutputIndex(index->second);
    }
  }
  // The very same tensor returned twice is one object for the caller too.
  result_.convention.outputs.outputs.push_back(std::move(out));
  return absl::OkStatus();
}

bool Functionalizer::HasDataSymbols(const Expr& e) const {
  for (const std::string& s : e.Symbols()) {
    if (!s.empty() && s[0] == 'u') return true;
  }
  return false;
}

}  // namespace smelt
