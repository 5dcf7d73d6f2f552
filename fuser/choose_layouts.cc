#include "smelt/fuser/choose_layouts.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

std::vector<Expr> ChannelsLast(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr step = sizes[1];
  strides[1] = 1;
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = step;
    step = step * sizes[d];
  }
  strides[0] = step;
  return strides;
}

const Graph* Subgraph(const Node& n) {
  const Attribute* a = n.FindAttribute("Subgraph");
  const auto* s = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
  return s == nullptr ? nullptr : s->get();
}

// Returns whether `n` is about memory rather than about elements.
bool SeesMemory(const Node& n) { return absl::StartsWith(n.op.name(), op::kSmeltNamespace); }

bool IsConvolution(const Node& n) {
  static const OpName kOfBytes = OpName::Get(absl::StrCat(op::kSmeltNamespace, "int8_convolution"));
  return n.op == op::kConvolution || n.op == kOfBytes;
}

// A kernel that reads and writes elements by their indices.
bool IsKernel(const Graph& g, NodeId n) {
  if (g.IsParam(n) || g.IsReturn(n)) return false;
  const Node& node = g.node(n);
  return node.op == op::kSmeltFusionGroup ? Subgraph(node) != nullptr : !SeesMemory(node) && IsKernelNode(g, n);
}

class Chooser {
 public:
  explicit Chooser(Graph& g) : g_(g) {}

  int Run() {
    const std::vector<NodeId> nodes = g_.AllNodes();
    bool any = false;
    for (NodeId n : nodes) any = any || IsConvolution(g_.node(n));
    if (!any) return 0;
    // Backwards from the uses: the operands of convolutions, and the operands of those values.
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      for (ValueId v : g_.node(*it).outputs) {
        if (MayChange(v) && IsWanted(v)) wanted_.insert(v);
      }
    }
    // Forwards from convolutions.
    int changed = 0;
    for (NodeId n : nodes) {
      bool start = IsConvolution(g_.node(n));
      for (ValueId v : g_.node(n).inputs) start = start || (!IsConvolution(g_.node(n)) && changed_.contains(v));
      if (!start) continue;
      for (ValueId v : g_.node(n).outputs) {
        if (!wanted_.contains(v)) continue;
        const TensorType t = g_.value(v).type.tensor();
        g_.SetType(v, Type::Tensor(*t.dtype, *t.sizes, ChannelsLast(*t.sizes)));
        changed_.insert(v);
        ++changed;
      }
    }
    return changed;
  }

 private:
  bool MayChange(ValueId v) const {
    const Value& value = g_.value(v);
    if (!value.type.IsTensor() || !value.type.tensor().IsComplete()) return false;
    const TensorType& t = value.type.tensor();
    if (t.rank() < 3 || t.rank() > 5 || *t.strides != ContiguousStrides(*t.sizes)) return false;
    const Node& def = g_.node(value.def);
    if (!IsConvolution(def)) {
      if (!IsKernel(g_, value.def)) return false;
      if (const Graph* sub = Subgraph(def)) {
        const NodeId inner = sub->value(sub->outputs()[value.def_index]).def;
        if (sub->IsParam(inner) || SeesMemory(sub->node(inner))) return false;
      }
    }
    for (const Use& u : value.uses) {
      if (g_.IsReturn(u.user)) return false;
      const Node& user = g_.node(u.user);
      if (IsConvolution(user)) {
        if (u.index != 0) return false;  // the weight may be packed as it lies
        continue;
      }
      if (!IsKernel(g_, u.user)) return false;
      if (const Graph* sub = Subgraph(user)) {
        for (const Use& inside : sub->value(sub->inputs()[u.index]).uses) {
          if (sub->IsReturn(inside.user) || SeesMemory(sub->node(inside.user))) return false;
        }
      }
    }
    return true;
  }

  bool IsWanted(ValueId v) const {
    for (const Use& u : g_.value(v).uses) {
      const Node& user = g_.node(u.user);
      if (IsConvolution(user)) return true;
      bool spatial = false;
      for (ValueId o : user.outputs) {
        if (wanted_.contains(o)) return true;
        spatial = spatial || (g_.value(o).type.IsTensor() && g_.value(o).type.tensor().rank() > 2);
      }
      if (!spatial) return true;  // pooled away
    }
    return false;
  }

  Graph& g_;
  absl::flat_hash_set<ValueId> wanted_, changed_;
};

}  // namespace

int ChooseLayouts(Graph& g) { return Chooser(g).Run(); }

Pass ChooseLayoutsPass() {
  return {.name = "choose-layouts",
          .description = "values that only convolutions and kernels see lie with channels innermost",
          .prerequisites = {"fuse"},
          .is_optional = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return ChooseLayouts(g) > 0; }};
}

}  // namespace smelt
