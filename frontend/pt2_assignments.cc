// Buffers that the model assigned (self.h = ...) instead of writing them. torch.export says so by a copy_ at the end
// that has the metadata of the value assigned; a copy_ that the model called names itself there.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/effects.h"
#include "smelt/frontend/pt2_reader.h"

namespace smelt {
namespace pt2_internal {
namespace {

// The result that made the memory which v is all of. Invalid where v is an input's, a part, or that is not known: an
// argument lives no longer than its caller wants, and of parts the rest would be lost.
ValueId WholeFreshMemory(const Graph& g, ValueId v) {
  for (;;) {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def)) return ValueId();
    const OpEffects effects = NodeEffects(g, def);
    if (effects.kind != EffectKind::kGeneric || effects.geometry_from >= 0 || effects.storage_unknown) return ValueId();
    const ResultEffects& r = effects.result(g.value(v).def_index);
    const uint64_t from = r.self | r.view;
    if (r.unknown || (r.element | r.element_view) != 0 || (from & (from - 1)) != 0) return ValueId();
    if (from == 0) return v;
    if (r.view != 0 && g.node(def).op.name() != "aten::detach" && g.node(def).op.name() != "aten::alias") {
      return ValueId();
    }
    v = g.node(def).inputs[__builtin_ctzll(from)];
  }
}

// Whether v is the very tensor `buffer`, as what an in-place operator returns is.
bool IsTensor(const Graph& g, ValueId v, ValueId buffer) {
  while (v != buffer) {
    const NodeId def = g.value(v).def;
    if (g.IsParam(def)) return false;
    const OpEffects effects = NodeEffects(g, def);
    if (effects.kind != EffectKind::kGeneric) return false;
    const ResultEffects& r = effects.result(g.value(v).def_index);
    if (r.unknown || r.view != 0 || (r.element | r.element_view) != 0 || r.self == 0 || (r.self & (r.self - 1)) != 0)
      return false;
    v = g.node(def).inputs[__builtin_ctzll(r.self)];
  }
  return true;
}

// Whether no other state lies in the storage of this one.
bool IsAlone(const Graph& g, ValueId buffer) {
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.inputs()[i] != buffer) continue;
    const int storage = g.weights[g.input_infos[i].weight].storage;
    return std::count_if(g.weights.begin(), g.weights.end(), [&](const Weight& w) { return w.storage == storage; }) ==
           1;
  }
  return false;
}

}  // namespace

bool Pt2Reader::IsAssignment(const Json& node, OpName op, const std::vector<ValueId>& args) const {
  if (op.full() != "aten::copy_" || args.size() < 2) return false;
  const Json* name = Find(node, "name");
  const Json* metadata = Find(node, "metadata");
  const Json* function = metadata == nullptr ? nullptr : Find(*metadata, "torch_fn");
  if (name == nullptr || !name->is_string() || !absl::StartsWith(name->get_ref<const std::string&>(), "copy__default"))
    return false;
  if (function == nullptr || !function->is_string() ||
      absl::EndsWith(function->get_ref<const std::string&>(), ".copy_"))
    return false;
  for (size_t i = 0; i < g_->inputs().size(); ++i) {
    if (g_->inputs()[i] == args[0]) return g_->input_infos[i].kind == InputInfo::Kind::kWeight;
  }
  return false;
}

void Pt2Reader::OpenAssignments() {
  if (assignments_.empty()) return;
  const NodeId first = assignments_.front();
  auto handle = [&](ValueId v) {
    const NodeId n = g_->InsertBefore(first, OpName::Get("aten::detach"), {v}, {g_->value(v).type});
    g_->SetSource(n, g_->node(first).source);
    return g_->node(n).outputs[0];
  };
  struct Assignment {
    NodeId node;
    ValueId old, now;  // the buffer's tensor before, and the one assigned
  };
  std::vector<Assignment> opened;
  std::vector<ValueId> taken;
  for (NodeId n : assignments_) {
    const ValueId buffer = g_->node(n).inputs[0], value = g_->node(n).inputs[1];
    const ValueId memory = WholeFreshMemory(*g_, value);
    const bool again = std::find(taken.begin(), taken.end(), memory) != taken.end();
    if (!memory.valid() || again || g_->value(value).type != g_->value(buffer).type || !IsAlone(*g_, buffer)) continue;
    taken.push_back(memory);
    opened.push_back({n, handle(buffer), handle(value)});
  }
  for (const auto& [n, old, now] : opened) {
    const ValueId buffer = g_->node(n).inputs[0];
    // What the model returns under the buffer's name is the tensor that it was.
    const NodeId end = g_->block(g_->top()).return_node;
    for (uint32_t k = 0; k < g_->node(end).inputs.size(); ++k) {
      if (IsTensor(*g_, g_->node(end).inputs[k], buffer)) g_->SetInput(end, k, old);
    }
    const NodeId set =
        g_->InsertBefore(n, OpName::Get("aten::set_.source_Tensor"), {buffer, now}, {g_->value(buffer).type});
    g_->SetSource(set, g_->node(n).source);
    g_->ReplaceAllUses(g_->node(n).outputs[0], g_->node(set).outputs[0]);
    g_->Erase(n);
  }
}

}  // namespace pt2_internal
}  // namespace smelt
