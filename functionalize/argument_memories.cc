// The outer layers: which arguments are one tensor, and which memory each lives in; the states' memories behind them.
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
namespace {

// Positions among inputs().
std::vector<int> UserInputs(const Graph& g) {
  std::vector<int> user;
  for (int i = 0; i < static_cast<int>(g.inputs().size()); ++i) {
    if (g.input_infos[i].kind == InputInfo::Kind::kUser) user.push_back(i);
  }
  return user;
}

// Returns the value of an expression in the exported example.
int64_t Hint(const Graph& g, const Expr& e) {
  absl::flat_hash_map<std::string, int64_t> values;
  for (const std::string& s : e.Symbols()) {
    auto it = g.symbol_hints.find(s);
    values[s] = it == g.symbol_hints.end() ? 4 : it->second;
  }
  auto v = e.Evaluate(values);
  return v.ok() ? *v : -1;
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

absl::Status Functionalizer::BindInputs() {
  tensors_.reserve(g_.num_nodes());
  tensor_of_.Reserve(2 * size_t{g_.value_index_bound()});
  // Layer 1: duplicates. The later of two equal arguments is replaced by the first.
  const std::vector<int> user = UserInputs(g_);
  DuplicatesLayer& duplicates = result_.convention.duplicates;
  duplicates = options_.duplicates;
  if (duplicates.inner_of_outer.empty()) {
    for (size_t i = 0; i < user.size(); ++i) duplicates.inner_of_outer.push_back(DistinctIndex(static_cast<int>(i)));
  }
  if (duplicates.inner_of_outer.size() != user.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the duplicates layer has ", duplicates.inner_of_outer.size(),
                                                   " arguments, the graph ", user.size()));
  }
  MergeDuplicates(g_, duplicates);
  std::vector<ValueId> distinct;
  std::vector<int> erase;
  for (size_t i = 0; i < user.size(); ++i) {
    const int inner = duplicates.inner_of_outer[i].value();
    const ValueId v = g_.inputs()[user[i]];
    if (inner == static_cast<int>(distinct.size())) {
      distinct.push_back(v);
      inputs_.arguments.push_back({.caller = static_cast<int>(i)});
    } else {
      erase.push_back(user[i]);
    }
  }
  for (auto it = erase.rbegin(); it != erase.rend(); ++it) {
    g_.EraseParam(g_.top(), *it);
  }

  // Layer 2: each distinct tensor argument has its own memory; states' storages follow.
  OverlapsLayer& overlaps = result_.convention.overlaps;
  MemoryId memory = -1;
  for (size_t d = 0; d < distinct.size(); ++d) {
    ProgramInputs::Argument& argument = inputs_.arguments[d];
    const Value& value = g_.value(distinct[d]);
    if (!value.type.IsTensor()) {
      overlaps.memory_of.push_back(MemoryIndex());
      continue;
    }
    if (!value.type.tensor().IsComplete())
      return absl::InvalidArgumentError(absl::StrCat("input %", value.name, " has no complete type"));
    SymbolicGeometry geometry = GeometryOf(value.type.tensor());
    if (options_.overlapping && options_.symbolic_strides) {
      for (size_t k = 0; k < geometry.strides.size(); ++k) {
        const std::string symbol = absl::StrCat(value.name, ".stride", k);
        SymbolRanges::Range range;
        range.hint = Hint(g_, geometry.strides[k]);
        g_.symbols.Set(symbol, range);
        inputs_.exported_strides.push_back({symbol, geometry.strides[k]});
        geometry.strides[k] = Expr::Symbol(symbol);
      }
    }
    const int home = options_.overlapping ? static_cast<int>(d) : -1;
    if (!options_.overlapping || memory < 0) {
      MemoryState m;
      m.origin = MemoryState::Origin::kArgument;
      m.index = overlaps.num_memories++;
      m.nominal = geometry;
      m.version = m.initial = distinct[d];
      m.shared = options_.overlapping;
      memory = NewMemory(std::move(m));
    }
    overlaps.memory_of.push_back(MemoryIndex(overlaps.num_memories - 1));
    argument.memory = memory;
    argument.tensor = NewTensor(memory, geometry, home);
    argument.initial = std::move(geometry);
    argument.name = value.name;
    tensor_of_[distinct[d]] = argument.tensor;
  }
  overlaps.num_argument_memories = overlaps.num_memories;
  overlaps.num_memories += static_cast<int>(g_.weight_storages.size());

  // States have one memory per storage; the weight that spans most of it stands for the contents.
  std::vector<ValueId> primary(g_.weight_storages.size());
  std::vector<int64_t> widest(g_.weight_storages.size(), -1);
  std::vector<std::pair<ValueId, int>> weight_inputs;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (g_.input_infos[i].kind != InputInfo::Kind::kWeight) continue;
    const int w = g_.input_infos[i].weight;
    const Weight& weight = g_.weights[w];
    weight_inputs.push_back({g_.inputs()[i], w});
    const auto span = weight.geometry.Span();
    const int64_t bytes = (span.second - span.first) * ItemSize(weight.dtype);
    if (bytes > widest[weight.storage]) {
      widest[weight.storage] = bytes;
      primary[weight.storage] = g_.inputs()[i];
    }
  }
  inputs_.memory_of_storage.assign(g_.weight_storages.size(), -1);
  for (auto [value, w] : weight_inputs) {
    const Weight& weight = g_.weights[w];
    if (primary[weight.storage] != value) continue;
    MemoryState m;
    m.origin = MemoryState::Origin::kState;
    m.index = weight.storage;
    m.nominal = m.weight_geometry = WeightGeometry(weight);
    m.version = m.initial = m.weight = value;
    inputs_.memory_of_storage[weight.storage] = NewMemory(std::move(m));
  }
  for (auto [value, w] : weight_inputs) {
    const MemoryId m = inputs_.memory_of_storage[g_.weights[w].storage];
    const TensorId t = NewTensor(m, WeightGeometry(g_.weights[w]));
    tensor_of_[value] = t;
    inputs_.states.push_back({w, t, m});
  }
  return absl::OkStatus();
}

// A weight may show a part of its storage, and others other parts. The contents are then the whole storage, so that a
// region's offset means the same wherever they are kept.
void Functionalizer::ShowWholeStates() {
  const NodeId first = g_.block(g_.top()).first;
  if (!first.valid()) return;
  for (const MemoryId id : inputs_.memory_of_storage) {
    if (id < 0) continue;
    MemoryState& m = memories_.Edit(id);
    const Weight& weight = g_.weights[g_.input_infos[g_.value(m.weight).def_index].weight];
    const int64_t elements = g_.weight_storages[m.index]->bytes() / ItemSize(weight.dtype);
    if (weight.geometry.Span() == std::pair<int64_t, int64_t>(0, elements)) continue;
    m.nominal = {weight.dtype, {elements}, {1}, 0};
    m.version = m.initial = regions_.View(first, m.weight, m.nominal);
  }
}

void Functionalizer::FindAbsoluteAccess() {
  for (NodeId n : g_.AllNodes()) absolute_access_ = absolute_access_ || OperatorOf(g_.node(n).op).absolute;
  shared_states_ = inputs_.SharedStates();
}

}  // namespace smelt
