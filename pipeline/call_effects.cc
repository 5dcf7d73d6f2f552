#include "smelt/pipeline/call_effects.h"

#include <algorithm>
#include <memory>

#include "smelt/alias/alias_db.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"

namespace smelt {

std::vector<UserArg> UserArgs(const Graph& g) {
  std::vector<UserArg> out;
  int position = 0;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) out.push_back({g.inputs()[i], position++});
  }
  return out;
}

bool OrderShows(const Convention& c) {
  for (const OutputInfo& o : c.outputs.outputs) {
    // A view reveals its place in the whole, whatever its own rank.
    if (o.kind == OutputInfo::Kind::kAliasOfIntermediate) return true;
    if (o.kind == OutputInfo::Kind::kFresh && o.geometry.sizes.size() > 1) return true;
  }
  for (const MutatedInput& m : c.mutations.inputs) {
    if (m.storage) return true;
  }
  return false;
}

bool Mutates(const Convention& c) { return !c.mutations.memories.empty() || !c.mutations.inputs.empty(); }

bool ReturnsViews(const Convention& c) {
  return std::any_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [&](const OutputInfo& o) {
    return o.kind == OutputInfo::Kind::kAliasOfMemory && o.memory.value() < c.overlaps.num_argument_memories;
  });
}

namespace {

bool IsNewMemory(const OutputInfo& o) {
  using Kind = OutputInfo::Kind;
  return o.kind == Kind::kFresh || o.kind == Kind::kAliasOfIntermediate || o.kind == Kind::kScalar;
}

}  // namespace

bool ReturnsNewMemoryOnly(const Convention& c) {
  return !Mutates(c) && std::all_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), IsNewMemory);
}

bool ReturnsNewMemoryOrArguments(const Convention& c) {
  using Kind = OutputInfo::Kind;
  const auto resizes = [](const MutatedMemory& m) { return m.resized; };
  return c.mutations.inputs.empty() &&
         std::none_of(c.mutations.memories.begin(), c.mutations.memories.end(), resizes) &&
         std::all_of(c.outputs.outputs.begin(), c.outputs.outputs.end(), [](const OutputInfo& o) {
           return IsNewMemory(o) || o.kind == Kind::kIsArgument || o.kind == Kind::kIsState || o.kind == Kind::kNone ||
                  o.kind == Kind::kConstant;
         });
}

bool StridesAreSeen(const Graph& g) {
  for (NodeId n : g.AllNodes()) {
    if (g.node(n).op == op::kSetInPlaceSourceTensor) continue;
    const OpTraits& traits = GetOpTraits(g.node(n).op);
    if (traits.reads_strides || traits.reaches_storage || traits.takes_strides) return true;
  }
  return false;
}

bool HasWrites(const Graph& g) {
  const std::vector<NodeId> nodes = g.AllNodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) {
    const FunctionSchema* schema = FindSchema(g.node(n).op);
    return schema != nullptr && schema->IsMutable();
  });
}

std::vector<int> TensorArgs(const Graph& g) {
  std::vector<int> out;
  for (const UserArg& a : UserArgs(g)) {
    if (g.value(a.value).type.IsTensor()) out.push_back(a.position);
  }
  return out;
}
std::vector<int> WrittenArgs(const Graph& g, const Convention& distinct) {
  std::vector<int> out;
  for (int position : TensorArgs(g)) {
    bool written = false;
    for (const MutatedMemory& m : distinct.mutations.memories) {
      written = written || distinct.overlaps.memory_of[position] == m.memory;
    }
    for (const MutatedInput& m : distinct.mutations.inputs) {
      written = written || (!m.is_state && m.arg.value() == position);
    }
    if (written) out.push_back(position);
  }
  return out;
}
std::vector<int> WrittenStorages(const Graph& g, const Convention& distinct) {
  std::vector<bool> written(g.weight_storages.size(), false);
  for (const MutatedMemory& m : distinct.mutations.memories) {
    const int storage = m.memory.value() - distinct.overlaps.num_argument_memories;
    if (storage >= 0) written[storage] = true;
  }
  for (const MutatedInput& m : distinct.mutations.inputs) {
    if (m.is_state) written[g.weights[m.state].storage] = true;
  }
  std::vector<int> out;
  for (size_t s = 0; s < written.size(); ++s) {
    if (written[s]) out.push_back(static_cast<int>(s));
  }
  return out;
}

EagerWrites FindEagerWrites(const Graph& g) {
  const std::unique_ptr<Graph> copy = g.Clone();
  const std::unique_ptr<AliasDb> db = AliasDb::Build(*copy, {.distinct_inputs = true});
  EagerWrites out;
  std::vector<bool> storages(g.weight_storages.size(), false);
  const auto changes = [&](ValueId v) { return !db->Writers(v, /*geometry_too=*/true).empty(); };
  int position = 0;
  for (size_t i = 0; i < copy->inputs().size(); ++i) {
    const InputInfo& info = copy->input_infos[i];
    const ValueId v = copy->inputs()[i];
    if (info.kind == InputInfo::Kind::kUser) {
      if (copy->value(v).type.IsTensor() && changes(v)) out.args.push_back(position);
      ++position;
    } else if (changes(v) || db->MayContainAlias({v}, copy->outputs())) {
      storages[copy->weights[info.weight].storage] = true;
    }
  }
  for (size_t s = 0; s < storages.size(); ++s) {
    if (storages[s]) out.storages.push_back(static_cast<int>(s));
  }
  return out;
}

}  // namespace smelt
