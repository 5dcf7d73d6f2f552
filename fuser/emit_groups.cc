// Turns groups of nodes into nodes that hold them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/block_fuser.h"
#include "smelt/fuser/gather_group.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {

absl::Status BlockFuser::Emit() {
  first_edge_ = report_.edges.size();
  ReportEdges();
  std::vector<int> waiting;
  for (int k = 0; k < static_cast<int>(groups_.size()); ++k) {
    if (!groups_[k].members.empty()) waiting.push_back(k);
  }
  // A node may be in the way of one group until its own group has taken it. So the later groups come first: the node in
  // the way mostly belongs to a group behind. (The number of rounds is limited to save time.)
  constexpr int kRounds = 8;
  for (int round = 1; !waiting.empty(); ++round) {
    std::vector<int> again;
    for (int k : waiting) {
      SMELT_ASSIGN_OR_RETURN(const Emitted emitted, EmitGroup(k, /*may_wait=*/round < kRounds));
      if (emitted == Emitted::kWaits) again.push_back(k);
      Count(k, emitted);
    }
    if (again.size() == waiting.size()) round = kRounds - 1;  // nothing has moved
    waiting.assign(again.rbegin(), again.rend());
  }
  return absl::OkStatus();
}

void BlockFuser::Count(int k, Emitted emitted) {
  const int members = static_cast<int>(groups_[k].members.size());
  if (emitted == Emitted::kKernel) {
    ++report_.groups;
    report_.fused_nodes += members;
  } else if (emitted == Emitted::kApart) {
    report_.single_kernels += members;
  }
}

void BlockFuser::CopyNode(Copier& c, NodeId n) {
  const Node& node = g_.node(n);
  std::vector<ValueId> inputs;
  for (ValueId v : node.inputs) inputs.push_back(Inner(c, v));
  std::vector<Type> types;
  for (ValueId v : node.outputs) types.push_back(g_.value(v).type);
  NodeId fresh = c.sub.Append(c.sub.top(), node.op, inputs, types, node.attributes);
  c.sub.SetSource(fresh, node.source);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId o = c.sub.node(fresh).outputs[i];
    if (g_.value(node.outputs[i]).expr) c.sub.SetExpr(o, g_.value(node.outputs[i]).expr);
    c.inner[node.outputs[i]] = o;
  }
}

ValueId BlockFuser::Inner(Copier& c, ValueId v) {
  if (auto it = c.inner.find(v); it != c.inner.end()) return it->second;
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def)) {
    const Node& node = g_.node(def);
    const Attribute* value = node.op == op::kPrimConstant ? node.FindAttribute("value") : nullptr;
    const bool tensor = value != nullptr && std::holds_alternative<Tensor>(*value);
    // This handles a value that is made inside; a view of an operand is an operand itself.
    auto base = c.inner.find(Root(v));
    const bool internal_view =
        node.op == op::kSmeltView && base != c.inner.end() && !c.sub.IsParam(c.sub.value(base->second).def);
    bool copy = (node.op == op::kPrimConstant && !tensor) || node.op == op::kPrimListConstruct ||
                node.op == op::kSmeltSize || internal_view;
    if (IsLeaf(node) && IsKernelNode(g_, def)) {
      // The arguments of a leaf are numbers. A number that is computed at run time stays outside.
      copy = true;
      for (ValueId x : node.inputs)
        copy = copy && !IsTensor(x) && (GetConstant(g_, x) || g_.value(x).expr || GetIntListExpr(g_, x));
    }
    if (copy) {
      CopyNode(c, def);
      return c.inner.at(v);
    }
    if (!g_.value(v).type.IsTensor() && g_.value(v).expr) {
      // An integer that is an expression over sizes.
      NodeId size =
          c.sub.Append(c.sub.top(), OpName::Get(op::kSmeltSize), {}, {Type::Int()}, {{"value", *g_.value(v).expr}});
      c.sub.SetExpr(c.sub.node(size).outputs[0], g_.value(v).expr);
      return c.inner[v] = c.sub.node(size).outputs[0];
    }
  }
  const ValueId in = c.sub.AddInput("", g_.value(v).type);
  if (g_.value(v).expr) c.sub.SetExpr(in, g_.value(v).expr);
  c.operands.push_back(v);
  return c.inner[v] = in;
}

void BlockFuser::TakeBase(Copier& c, ValueId v) {
  if (c.inner.contains(v)) return;
  const ValueId in = c.sub.AddInput("", g_.value(v).type);
  c.operands.push_back(v);
  c.inner[v] = in;
}

std::string BlockFuser::NameOf(const Group& group) const {
  std::string name;
  int words = 0;
  for (int m : group.members) {
    const std::string& full = N(m).op.name();
    const size_t colon = full.rfind(':');
    const std::string word = colon == std::string::npos ? full : full.substr(colon + 1);
    if (++words > 6) break;
    absl::StrAppend(&name, name.empty() ? "" : "_", word);
  }
  return name;
}

void BlockFuser::Hoist(ValueId v, NodeId anchor) {
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).parent != block_ || def == anchor || g_.IsBefore(def, anchor)) return;
  for (ValueId x : g_.node(def).inputs) Hoist(x, anchor);
  g_.MoveBefore(def, anchor);
}

void BlockFuser::Sink(ValueId v, NodeId anchor) {
  std::vector<NodeId> users;
  for (const Use& u : g_.value(v).uses) {
    if (g_.IsReturn(u.user) || g_.node(u.user).parent != block_) continue;
    if (IsTransparent(g_.node(u.user)) && g_.IsBefore(u.user, anchor)) users.push_back(u.user);
  }
  for (NodeId u : users) {
    if (!g_.IsBefore(u, anchor)) continue;
    g_.MoveAfter(u, anchor);
    for (ValueId o : g_.node(u).outputs) Sink(o, u);
  }
}

void BlockFuser::MoveTogether(const Group& group) {
  // The alias database's moves have brought them together before.
  if (options_.alias_db != nullptr) return;
  std::vector<int> members = group.members;
  std::sort(members.begin(), members.end());
  NodeId last = nodes_[group.at];
  for (int m : members) {
    if (m < group.at) g_.MoveBefore(nodes_[m], nodes_[group.at]);
    if (m <= group.at) continue;
    g_.MoveAfter(nodes_[m], last);
    last = nodes_[m];
  }
  for (int m : members) {
    for (ValueId v : N(m).inputs) Hoist(v, nodes_[m]);
    for (ValueId o : N(m).outputs) Sink(o, nodes_[m]);
  }
}

absl::StatusOr<BlockFuser::Emitted> BlockFuser::EmitGroup(int k, bool may_wait) {
  const Group& group = groups_[k];  // good until EmitParts, whose parts are groups too
  absl::flat_hash_set<NodeId> members;
  for (int m : group.members) members.insert(nodes_[m]);
  const NodeId anchor = nodes_[group.at];
  // A single node is a kernel already, unless it can make leaves itself.
  if (group.members.size() == 1) {
    bool leaf = false;
    for (size_t x = IsRegionOp(N(group.members[0])) ? 1 : 0; x < N(group.members[0]).inputs.size(); ++x) {
      const NodeId def = g_.value(N(group.members[0]).inputs[x]).def;
      leaf = leaf || (!g_.IsParam(def) && IsLeaf(g_.node(def)));
    }
    if (!leaf || IsLeaf(N(group.members[0]))) return Emitted::kApart;
  }
  if (options_.alias_db != nullptr && group.members.size() > 1) {
    std::vector<NodeId> together;
    for (int m : group.members) together.push_back(nodes_[m]);
    std::string why;
    // Nodes that move out of the way, before or behind the group.
    const auto goes_along = [](const Node& n) { return IsTransparent(n) || IsAllocation(n) || IsLeaf(n); };
    if (!GatherGroup(*options_.alias_db, g_, together, anchor, goes_along, &why)) {
      if (may_wait) return Emitted::kWaits;
      ReportSplit(k, k, why);
      ++report_.refused_groups;
      return Emitted::kApart;
    }
  }
  auto sub = std::make_shared<Graph>();
  sub->name = NameOf(group);
  sub->symbols = g_.symbols;
  Copier c{*sub, {}, {}};
  // Bases come first: results take over their memory.
  for (int m : group.members) {
    if (!IsRegionOp(N(m))) continue;
    const ValueId base = N(m).inputs[0];
    if (members.contains(g_.value(base).def)) continue;
    // A view of a member's result is not an operand.
    if (members.contains(g_.value(Root(base)).def)) {
      ReportSplit(k, k, "what it writes to is a view of a value made in it");
      return Emitted::kApart;
    }
    TakeBase(c, base);
  }
  for (int m : group.members) CopyNode(c, nodes_[m]);
  // The results: values that are used outside.
  std::vector<ValueId> results;
  std::vector<Type> types;
  for (int m : group.members) {
    for (ValueId o : N(m).outputs) {
      bool outside = false;
      auto look = [&](auto&& self, ValueId v) -> void {
        for (const Use& u : g_.value(v).uses) {
          if (outside) return;
          if (members.contains(u.user)) continue;
          if (!g_.IsReturn(u.user) && IsTransparent(g_.node(u.user)) && g_.node(u.user).parent == block_) {
            for (ValueId x : g_.node(u.user).outputs) self(self, x);
            continue;
          }
          outside = true;
        }
      };
      look(look, o);
      if (!outside) continue;
      results.push_back(o);
      types.push_back(g_.value(o).type);
      sub->AddOutput(c.inner.at(o));
    }
  }
  if (results.empty()) return Emitted::kApart;
  for (ValueId v : c.operands) Hoist(v, anchor);
  const NodeId node = g_.InsertBefore(anchor, OpName::Get(op::kSmeltFusionGroup), c.operands, types,
                                      {{"Subgraph", sub}, {"name", sub->name}});
  g_.SetSource(node, N(group.members.back()).source);
  // This precedes lowering: a result without uses is not one of the kernel's.
  for (size_t i = 0; i < results.size(); ++i) g_.ReplaceAllUses(results[i], g_.node(node).outputs[i]);
  const auto layout = [&](ValueId v) { return ShownMemory(g_, v).second; };
  const auto lowered =
      options_.lowered == nullptr ? LowerGroup(g_, node, layout) : options_.lowered->Lower(g_, node, layout);
  if (!lowered.ok()) {
    for (size_t i = 0; i < results.size(); ++i) g_.ReplaceAllUses(g_.node(node).outputs[i], results[i]);
    g_.Erase(node);
    if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
    MoveTogether(group);
    return EmitParts(k, absl::StrCat("the group has no kernel: ", lowered.status().message()));
  }
  for (ValueId o : g_.node(node).outputs) Sink(o, node);
  // Views that only members read are erased with them.
  for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) {
    for (ValueId o : N(*it).outputs) EraseUsers(o);
    g_.Erase(nodes_[*it]);
  }
  return Emitted::kKernel;
}

size_t BlockFuser::CutOf(const std::vector<int>& members) const {
  absl::flat_hash_map<NodeId, size_t> place;
  for (size_t i = 0; i < members.size(); ++i) place[nodes_[members[i]]] = i;
  // The elements that the first part stores and the second part reads, for each part that begins at a member.
  std::vector<double> elements(members.size() + 1, 0);
  for (size_t i = 0; i < members.size(); ++i) {
    for (ValueId o : N(members[i]).outputs) {
      size_t last = i;
      const auto look = [&](auto&& self, ValueId v) -> void {
        for (const Use& u : g_.value(v).uses) {
          if (const auto it = place.find(u.user); it != place.end()) {
            last = std::max(last, it->second);
          } else if (!g_.IsReturn(u.user) && IsTransparent(g_.node(u.user))) {
            for (ValueId x : g_.node(u.user).outputs) self(self, x);
          }
        }
      };
      look(look, o);
      const auto size = IsTensor(o) ? Product(*T(o).sizes).Evaluate(g_.symbol_hints) : absl::StatusOr<int64_t>(1);
      for (size_t second = i + 1; second <= last; ++second)
        elements[second] += size.ok() ? static_cast<double>(*size) : 1e12;
    }
  }
  // Among many members the cut is not near an end, where it would make many parts. Among equal cuts the later one is
  // taken: values of a row alone are computed once.
  const size_t margin = members.size() > 16 ? members.size() / 4 : 1;
  size_t best = margin;
  for (size_t second = margin; second + margin <= members.size(); ++second) {
    if (elements[second] <= elements[best]) best = second;
  }
  return best;
}

absl::StatusOr<BlockFuser::Emitted> BlockFuser::EmitParts(int k, absl::string_view why) {
  std::vector<int> members = groups_[k].members;
  // Each part computes values that depend on numbers alone by itself.
  std::erase_if(members, [&](int m) {
    if (IsLeaf(N(m))) group_of_[m] = -1;
    return IsLeaf(N(m));
  });
  if (members.size() < 2) {
    ReportSplit(k, k, why);
    return Emitted::kApart;
  }
  // In their present order.
  std::sort(members.begin(), members.end(), [&](int a, int b) { return g_.IsBefore(nodes_[a], nodes_[b]); });
  const size_t cut = CutOf(members);
  const int second = static_cast<int>(groups_.size());
  groups_.push_back(groups_[k]);
  groups_[k].at = members[cut - 1];
  groups_[second].at = members[cut];
  groups_[k].members.assign(members.begin(), members.begin() + cut);
  groups_[second].members.assign(members.begin() + cut, members.end());
  for (size_t i = cut; i < members.size(); ++i) group_of_[members[i]] = second;
  for (int part : {k, second}) std::sort(groups_[part].members.begin(), groups_[part].members.end());
  ReportSplit(k, second, why);
  for (int part : {k, second}) {
    SMELT_ASSIGN_OR_RETURN(const Emitted emitted, EmitGroup(part, /*may_wait=*/false));
    Count(part, emitted);
  }
  return Emitted::kInParts;
}

void BlockFuser::EraseUsers(ValueId v) {
  while (!g_.value(v).uses.empty()) {
    const NodeId u = g_.value(v).uses[0].user;
    for (ValueId o : g_.node(u).outputs) EraseUsers(o);
    g_.Erase(u);
  }
}

}  // namespace smelt
