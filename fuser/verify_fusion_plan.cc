#include "smelt/fuser/verify_fusion_plan.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/gather_group.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

int CountLateReads(const Graph& g) {
  int count = 0;
  // Returns whether a value's contents are read, through views and lists, by nodes behind `taker` in its block (or by
  // nodes inside them).
  const auto read_behind = [&](auto&& self, ValueId v, NodeId taker) -> bool {
    for (const Use& u : g.value(v).uses) {
      if (u.user == taker || g.IsReturn(u.user)) continue;
      if (IsTransparent(g.node(u.user))) {
        for (ValueId o : g.node(u.user).outputs) {
          if (self(self, o, taker)) return true;
        }
        continue;
      }
      NodeId n = u.user;
      while (n.valid() && g.node(n).parent != g.node(taker).parent) n = g.block(g.node(n).parent).owner;
      if (n.valid() && n != taker && g.IsBefore(taker, n)) return true;
    }
    return false;
  };
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (IsRegionOp(node)) count += read_behind(read_behind, StorageOf(g, node.inputs[0]), n);
    if (node.op != op::kSmeltFusionGroup) continue;
    const Attribute* a = node.FindAttribute("Subgraph");
    const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
    if (sub == nullptr) continue;
    const Graph& s = **sub;
    absl::flat_hash_set<ValueId> taken;
    for (NodeId m : s.Nodes(s.top())) {
      if (!IsRegionOp(s.node(m)) || !s.IsParam(s.value(s.node(m).inputs[0]).def)) continue;
      const ValueId base = StorageOf(g, node.inputs[s.value(s.node(m).inputs[0]).def_index]);
      if (taken.insert(base).second) count += read_behind(read_behind, base, n);
    }
  }
  return count;
}

absl::Status VerifyFusionPlan(const Graph& g, int late_reads) {
  if (const int now = CountLateReads(g); late_reads >= 0 && now > late_reads) {
    return absl::InternalError(absl::StrCat("fusion: ", now,
                                            " memories are read after a region write has taken them "
                                            "over; before fusing there were ",
                                            late_reads));
  }
  return VerifyFusionPlan(g);
}

namespace {

// Checks that a number from the data, on which views and sizes depend, is known before the nodes of its block that need
// it, apart from views and lists.
absl::Status VerifyNumbersOfData(const Graph& g, const std::vector<NodeId>& nodes) {
  const absl::flat_hash_map<std::string, int> known_at = NumbersOfData(g, nodes);
  for (size_t i = 0; i < nodes.size() && !known_at.empty(); ++i) {
    if (IsTransparent(g.node(nodes[i]))) continue;
    std::vector<NodeId> parts = {nodes[i]};
    for (size_t k = 0; k < parts.size(); ++k) {
      const Node& part = g.node(parts[k]);
      std::string late;
      ForAttributeExprs(part, [&](const Expr& e) {
        for (const std::string& s : e.Symbols()) {
          const auto it = known_at.find(s);
          if (late.empty() && it != known_at.end() && static_cast<int>(i) < it->second) late = s;
        }
      });
      if (!late.empty()) {
        return absl::InternalError(absl::StrCat("fusion: ", g.node(nodes[i]).op.full(), " needs ", late, " of ",
                                                part.op.full(), " before it is read"));
      }
      for (ValueId v : part.inputs) {
        const NodeId def = g.value(v).def;
        if (!g.IsParam(def) && IsTransparent(g.node(def))) parts.push_back(def);
      }
    }
  }
  for (NodeId n : nodes) {
    for (BlockId b : g.node(n).blocks) SMELT_RETURN_IF_ERROR(VerifyNumbersOfData(g, g.Nodes(b)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyFusionPlan(const Graph& g) {
  SMELT_RETURN_IF_ERROR(VerifyNumbersOfData(g, g.Nodes(g.top())));
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    if (node.op != op::kSmeltFusionGroup) continue;
    auto error = [&](absl::string_view what) {
      const Attribute* name = node.FindAttribute("name");
      const auto* s = name == nullptr ? nullptr : std::get_if<std::string>(name);
      return absl::InternalError(absl::StrCat("fusion group ", s == nullptr ? "" : *s, ": ", what));
    };
    const Attribute* a = node.FindAttribute("Subgraph");
    const auto* sub = a == nullptr ? nullptr : std::get_if<std::shared_ptr<Graph>>(a);
    if (sub == nullptr) return error("has no graph attribute \"Subgraph\"");
    const Graph& s = **sub;
    SMELT_RETURN_IF_ERROR(Annotate(VerifyGraph(s), "the subgraph of a fusion group"));
    if (s.inputs().size() != node.inputs.size()) return error("its subgraph has another number of inputs");
    if (s.outputs().size() != node.outputs.size()) return error("its subgraph has another number of results");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (s.value(s.inputs()[i]).type != g.value(node.inputs[i]).type)
        return error(absl::StrCat("operand ", i, " has another type inside"));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (s.value(s.outputs()[i]).type != g.value(node.outputs[i]).type)
        return error(absl::StrCat("result ", i, " has another type inside"));
    }
    // The memory that it takes over, as roots outside: for each result, the region writes that lie in such memory.
    absl::flat_hash_set<ValueId> written;
    absl::flat_hash_map<ValueId, ValueId> taken;
    for (NodeId m : s.Nodes(s.top())) {
      const Node& inner = s.node(m);
      if (IsTransparent(inner)) continue;
      if (!IsKernelNode(s, m)) return error(absl::StrCat(inner.op.full(), " is no kernel's work"));
      if (!IsRegionOp(inner)) continue;
      const ValueId base = inner.inputs[0];
      if (s.IsParam(s.value(base).def)) {
        const ValueId root = StorageOf(g, node.inputs[s.value(base).def_index]);
        written.insert(root);
        taken[inner.outputs[0]] = root;
      } else if (auto it = taken.find(base); it != taken.end()) {
        const ValueId root = it->second;  // the map grows below
        taken[inner.outputs[0]] = root;
      }
    }
    if (written.empty()) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const ValueId root = g.value(v).type.IsTensor() ? StorageOf(g, v) : ValueId();
      if (!root.valid() || !written.contains(root)) continue;
      // It must be the base itself, or a read of other elements, or of the very elements that are written.
      for (const Use& u : s.value(s.inputs()[i]).uses) {
        if (!s.IsReturn(u.user) && IsRegionOp(s.node(u.user)) && u.index == 0) continue;
        for (NodeId m : s.Nodes(s.top())) {
          if (s.node(m).op != op::kSmeltWriteRegion) continue;
          const auto it = taken.find(s.node(m).outputs[0]);
          if (it == taken.end() || it->second != root) continue;
          const Overlap o = CompareExtents(ExtentOf(g, v), ExtentOf(s.node(m)), g.symbols);
          if (o != Overlap::kDisjoint && (o != Overlap::kSame || !WritesEachElementOnce(s.node(m))))
            return error(absl::StrCat("writes memory that operand ", i, " shows at other indices"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
