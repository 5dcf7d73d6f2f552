#include "smelt/fuser/lowered_groups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/symbolic_geometry.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

bool Same(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

}  // namespace

// Keeps the subgraph alive. Its listeners are destroyed first.
struct LoweredGroups::Entry : public GraphListener {
  Entry(const Graph& g, NodeId n, std::shared_ptr<Graph> sub) : subgraph(std::move(sub)) {
    const Node& node = g.node(n);
    inputs.assign(node.inputs.begin(), node.inputs.end());
    outputs.assign(node.outputs.begin(), node.outputs.end());
    for (ValueId o : outputs) used.push_back(!g.value(o).uses.empty());
    subgraph->AddListener(this);
  }
  ~Entry() override { subgraph->RemoveListener(this); }

  bool Holds(const Graph& g, NodeId n, const Graph* sub, const LayoutFn& layout) const {
    const Node& node = g.node(n);
    if (edited || sub != subgraph.get() ||
        !std::equal(inputs.begin(), inputs.end(), node.inputs.begin(), node.inputs.end()) ||
        !std::equal(outputs.begin(), outputs.end(), node.outputs.begin(), node.outputs.end())) {
      return false;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (used[i] == g.value(outputs[i]).uses.empty()) return false;
    }
    return std::all_of(layouts.begin(), layouts.end(),
                       [&](const auto& asked) { return Same(layout(asked.first), asked.second); });
  }

  void OnNodeInserted(NodeId) override { edited = true; }
  void OnNodeErasing(NodeId) override { edited = true; }
  void OnNodeMoved(NodeId, BlockId) override { edited = true; }
  void OnInputChanged(NodeId, uint32_t, ValueId) override { edited = true; }
  void OnInputRemoved(NodeId, uint32_t, ValueId) override { edited = true; }
  void OnOutputAdded(NodeId, uint32_t) override { edited = true; }
  void OnOutputErasing(NodeId, uint32_t) override { edited = true; }
  void OnBlockAdded(NodeId, BlockId) override { edited = true; }
  void OnTypeChanged(ValueId) override { edited = true; }
  void OnAttributeChanged(NodeId, absl::string_view) override { edited = true; }

  const std::shared_ptr<Graph> subgraph;
  std::vector<ValueId> inputs, outputs;
  std::vector<bool> used;  // of outputs
  std::vector<std::pair<ValueId, SymbolicGeometry>> layouts;
  LoweredKernel kernel;
  bool edited = false;
};

LoweredGroups::LoweredGroups() = default;
LoweredGroups::~LoweredGroups() = default;

absl::StatusOr<LoweredKernel> LoweredGroups::Lower(const Graph& g, NodeId n, const LayoutFn& layout) {
  const Attribute* a = g.node(n).op == op::kSmeltFusionGroup ? g.node(n).FindAttribute("Subgraph") : nullptr;
  const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
  if (sub == nullptr) return LowerGroup(g, n, layout);
  std::unique_ptr<Entry>& kept = entries_[n];
  if (kept != nullptr && kept->Holds(g, n, sub->get(), layout)) {
    ++reused_;
    return kept->kernel;
  }
  kept.reset();
  auto entry = std::make_unique<Entry>(g, n, *sub);
  SMELT_ASSIGN_OR_RETURN(entry->kernel, LowerGroup(g, n, [&](ValueId v) {
                           SymbolicGeometry said = layout(v);
                           const auto asked = [&](const auto& of) { return of.first == v; };
                           if (std::none_of(entry->layouts.begin(), entry->layouts.end(), asked))
                             entry->layouts.emplace_back(v, said);
                           return said;
                         }));
  kept = std::move(entry);
  return kept->kernel;
}

}  // namespace smelt
