#include "smelt/functionalize/argument_memories.h"

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
#include "smelt/functionalize/example_value.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
namespace {

// Positions among inputs().
std::vector<int> UserInputs(const Graph& g) {
  std::vector<int> user;
  for (int i = 0; i < static_cast<int>(g.inputs().size()); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) user.push_back(i);
  }
  return user;
}

}  // namespace

void MergeDuplicates(Graph& g, const DuplicatesLayer& duplicates) {
  const std::vector<int> user = UserInputs(g);
  SMELT_CHECK_EQ(duplicates.inner_of_outer.size(), user.size());
  std::vector<ValueId> distinct;
  for (size_t i = 0; i < user.size(); ++i) {
    const int inner = duplicates.inner_of_outer[i].value();
    const ValueId v = g.inputs()[user[i]];
    if (inner == static_cast<int>(distinct.size())) {
      distinct.push_back(v);
    } else {
      g.ReplaceAllUses(v, distinct[inner]);
    }
  }
}

// Makes the layers of the convention and the memories of the inputs, the first layer first: each later one speaks of
// the arguments that the earlier ones leave.
absl::Status BindInputs(ProgramWalk& walk) {
  walk.tensors.reserve(walk.g.num_nodes());
  walk.tensor_of.Reserve(2 * size_t{walk.g.value_index_bound()});
  // Layer 1: duplicates. The later of two equal arguments is replaced by the first.
  const std::vector<int> user = UserInputs(walk.g);
  DuplicatesLayer& duplicates = walk.result.convention.duplicates;
  duplicates = walk.options.duplicates;
  if (duplicates.inner_of_outer.empty()) {
    for (size_t i = 0; i < user.size(); ++i) duplicates.inner_of_outer.push_back(DistinctIndex(static_cast<int>(i)));
  }
  if (duplicates.inner_of_outer.size() != user.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the duplicates layer has ", duplicates.inner_of_outer.size(),
                                                   " arguments, the graph ", user.size()));
  }
  MergeDuplicates(walk.g, duplicates);
  std::vector<ValueId> distinct;
  std::vector<int> erase;
  for (size_t i = 0; i < user.size(); ++i) {
    const int inner = duplicates.inner_of_outer[i].value();
    const ValueId v = walk.g.inputs()[user[i]];
    if (inner == static_cast<int>(distinct.size())) {
      distinct.push_back(v);
      walk.inputs.arguments.push_back({.caller = static_cast<int>(i)});
    } else {
      erase.push_back(user[i]);
    }
  }
  for (auto it = erase.rbegin(); it != erase.rend(); ++it) {
    walk.g.EraseParam(walk.g.top(), *it);
  }

  // Layer 2: each distinct tensor argument has its own memory; states' storages follow.
  OverlapsLayer& overlaps = walk.result.convention.overlaps;
  MemoryId memory = -1;
  for (size_t d = 0; d < distinct.size(); ++d) {
    ProgramInputs::Argument& argument = walk.inputs.arguments[d];
    const Value& value = walk.g.value(distinct[d]);
    if (!value.type.IsTensor()) {
      overlaps.memory_of.push_back(MemoryIndex());
      continue;
    }
    if (!value.type.tensor().IsComplete())
      return absl::InvalidArgumentError(absl::StrCat("input %", value.name, " has no complete type"));
    SymbolicGeometry geometry = GeometryOf(value.type.tensor());
    if (walk.options.overlapping && walk.options.symbolic_strides) {
      for (size_t k = 0; k < geometry.strides.size(); ++k) {
        const std::string symbol = absl::StrCat(value.name, ".stride", k);
        SymbolRanges::Range range;
        range.hint = ExampleValue(walk.g, geometry.strides[k]).value_or(-1);
        walk.g.symbols.Set(symbol, range);
        walk.inputs.exported_strides.push_back({symbol, geometry.strides[k]});
        geometry.strides[k] = Expr::Symbol(symbol);
      }
    }
    const int home = walk.options.overlapping ? static_cast<int>(d) : -1;
    if (!walk.options.overlapping || memory < 0) {
      MemoryState m;
      m.origin = MemoryState::Origin::kArgument;
      m.index = overlaps.num_memories++;
      m.nominal = geometry;
      m.version = m.initial = distinct[d];
      m.shared = walk.options.overlapping;
      memory = walk.NewMemory(std::move(m));
    }
    overlaps.memory_of.push_back(MemoryIndex(overlaps.num_memories - 1));
    argument.memory = memory;
    argument.tensor = walk.NewTensor(memory, geometry, home);
    argument.initial = std::move(geometry);
    argument.name = value.name;
    walk.tensor_of[distinct[d]] = argument.tensor;
  }
  overlaps.num_argument_memories = overlaps.num_memories;
  overlaps.num_memories += static_cast<int>(walk.g.weight_storages.size());

  // States have one memory per storage; the weight that spans most of it stands for the contents.
  std::vector<ValueId> primary(walk.g.weight_storages.size());
  std::vector<int64_t> widest(walk.g.weight_storages.size(), -1);
  std::vector<std::pair<ValueId, int>> weight_inputs;
  for (size_t i = 0; i < walk.g.inputs().size(); ++i) {
    if (walk.g.input_infos[i].kind != InputInfo::Kind::kWeight) continue;
    const int w = walk.g.input_infos[i].weight;
    const Weight& weight = walk.g.weights[w];
    weight_inputs.push_back({walk.g.inputs()[i], w});
    const auto span = weight.geometry.Span();
    const int64_t bytes = (span.second - span.first) * ItemSize(weight.dtype);
    if (bytes > widest[weight.storage]) {
      widest[weight.storage] = bytes;
      primary[weight.storage] = walk.g.inputs()[i];
    }
  }
  walk.inputs.memory_of_storage.assign(walk.g.weight_storages.size(), -1);
  for (auto [value, w] : weight_inputs) {
    const Weight& weight = walk.g.weights[w];
    if (primary[weight.storage] != value) continue;
    MemoryState m;
    m.origin = MemoryState::Origin::kState;
    m.index = weight.storage;
    m.nominal = m.weight_geometry = WeightGeometry(weight);
    m.version = m.initial = m.weight = value;
    walk.inputs.memory_of_storage[weight.storage] = walk.NewMemory(std::move(m));
  }
  for (auto [value, w] : weight_inputs) {
    const MemoryId m = walk.inputs.memory_of_storage[walk.g.weights[w].storage];
    const TensorId t = walk.NewTensor(m, WeightGeometry(walk.g.weights[w]));
    walk.tensor_of[value] = t;
    walk.inputs.states.push_back({w, t, m});
  }
  return absl::OkStatus();
}

// A weight may show a part of its storage, and others other parts. The contents are then the whole storage, so that a
// region's offset means the same wherever they are kept.
void ShowWholeStates(ProgramWalk& walk) {
  const NodeId first = walk.g.block(walk.g.top()).first;
  if (!first.valid()) return;
  for (const MemoryId id : walk.inputs.memory_of_storage) {
    if (id < 0) continue;
    MemoryState& m = walk.memories.Edit(id);
    const Weight& weight = walk.g.weights[walk.g.input_infos[walk.g.value(m.weight).def_index].weight];
    const int64_t elements = walk.g.weight_storages[m.index]->bytes() / ItemSize(weight.dtype);
    if (weight.geometry.Span() == std::pair<int64_t, int64_t>(0, elements)) continue;
    m.nominal = {weight.dtype, {elements}, {1}, 0};
    m.version = m.initial = walk.regions.View(first, m.weight, m.nominal);
  }
}

void FindAbsoluteAccess(ProgramWalk& walk) {
  for (NodeId n : walk.g.AllNodes())
    walk.absolute_access = walk.absolute_access || walk.OperatorOf(walk.g.node(n).op).absolute;
  walk.shared_states = walk.inputs.SharedStates();
}

}  // namespace smelt
