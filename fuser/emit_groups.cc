#include "smelt/fuser/emit_groups.h"

#include <algorithm>
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
#include "smelt/fuser/report_edges.h"
#include "smelt/fuser/view_nodes.h"

namespace smelt {
namespace {

// Copies constants, lists, sizes and leaves into a group.
struct Copier {
  Graph& sub;
  absl::flat_hash_map<ValueId, ValueId> inner;
  std::vector<ValueId> operands;
};

enum class Emitted {
  kKernel,
  kApart,  // its members remain separate
  kInParts,
  kWaits,  // with may_wait: until the nodes between its members have moved
};

ValueId Inner(const BlockGroups& block, Copier& c, ValueId v);

void CopyNode(const BlockGroups& block, Copier& c, NodeId n) {
  const Node& node = block.graph.node(n);
  std::vector<ValueId> inputs;
  for (ValueId v : node.inputs) inputs.push_back(Inner(block, c, v));
  std::vector<Type> types;
  for (ValueId v : node.outputs) types.push_back(block.graph.value(v).type);
  NodeId fresh = c.sub.Append(c.sub.top(), node.op, inputs, types, node.attributes);
  c.sub.SetSource(fresh, node.source);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId o = c.sub.node(fresh).outputs[i];
    if (block.graph.value(node.outputs[i]).expr) c.sub.SetExpr(o, block.graph.value(node.outputs[i]).expr);
    c.inner[node.outputs[i]] = o;
  }
}

ValueId Inner(const BlockGroups& block, Copier& c, ValueId v) {
  if (auto it = c.inner.find(v); it != c.inner.end()) return it->second;
  const NodeId def = block.graph.value(v).def;
  if (!block.graph.IsParam(def)) {
    const Node& node = block.graph.node(def);
    const Attribute* value = node.op == op::kPrimConstant ? node.FindAttribute("value") : nullptr;
    const bool tensor = value != nullptr && std::holds_alternative<Tensor>(*value);
    // This handles a value that is made inside; a view of an operand is an operand itself.
    auto base = c.inner.find(StorageOf(block.graph, v));
    const bool internal_view =
        node.op == op::kSmeltView && base != c.inner.end() && !c.sub.IsParam(c.sub.value(base->second).def);
    bool copy = (node.op == op::kPrimConstant && !tensor) || node.op == op::kPrimListConstruct ||
                node.op == op::kSmeltSize || internal_view;
    if (IsLeaf(node) && IsKernelNode(block.graph, def)) {
      // The arguments of a leaf are numbers. A number that is computed at run time stays outside.
      copy = true;
      for (ValueId x : node.inputs)
        copy = copy && !block.IsTensor(x) &&
               (GetConstant(block.graph, x) || block.graph.value(x).expr || GetIntListExpr(block.graph, x));
    }
    if (copy) {
      CopyNode(block, c, def);
      return c.inner.at(v);
    }
    if (!block.graph.value(v).type.IsTensor() && block.graph.value(v).expr) {
      // An integer that is an expression over sizes.
      NodeId size = c.sub.Append(c.sub.top(), OpName::Get(op::kSmeltSize), {}, {Type::Int()},
                                 {{"value", *block.graph.value(v).expr}});
      c.sub.SetExpr(c.sub.node(size).outputs[0], block.graph.value(v).expr);
      return c.inner[v] = c.sub.node(size).outputs[0];
    }
  }
  const ValueId in = c.sub.AddInput("", block.graph.value(v).type);
  if (block.graph.value(v).expr) c.sub.SetExpr(in, block.graph.value(v).expr);
  c.operands.push_back(v);
  return c.inner[v] = in;
}

// Makes a base an operand, regardless of the node that makes it.
void TakeBase(const BlockGroups& block, Copier& c, ValueId v) {
  if (c.inner.contains(v)) return;
  const ValueId in = c.sub.AddInput("", block.graph.value(v).type);
  c.operands.push_back(v);
  c.inner[v] = in;
}

std::string NameOf(const BlockGroups& block, const Group& group) {
  std::string name;
  int words = 0;
  for (int m : group.members) {
    const std::string& full = block.N(m).op.name();
    const size_t colon = full.rfind(':');
    const std::string word = colon == std::string::npos ? full : full.substr(colon + 1);
    if (++words > 6) break;
    absl::StrAppend(&name, name.empty() ? "" : "_", word);
  }
  return name;
}

// Moves a transparent node, and those it needs, before `anchor`.
void Hoist(BlockGroups& block, ValueId v, NodeId anchor) {
  const NodeId def = block.graph.value(v).def;
  if (block.graph.IsParam(def) || block.graph.node(def).parent != block.id || def == anchor ||
      block.graph.IsBefore(def, anchor))
    return;
  for (ValueId x : block.graph.node(def).inputs) Hoist(block, x, anchor);
  block.graph.MoveBefore(def, anchor);
}

// Moves transparent users of a value after `anchor`.
void Sink(BlockGroups& block, ValueId v, NodeId anchor) {
  std::vector<NodeId> users;
  for (const Use& u : block.graph.value(v).uses) {
    if (block.graph.IsReturn(u.user) || block.graph.node(u.user).parent != block.id) continue;
    if (IsTransparent(block.graph.node(u.user)) && block.graph.IsBefore(u.user, anchor)) users.push_back(u.user);
  }
  for (NodeId u : users) {
    if (!block.graph.IsBefore(u, anchor)) continue;
    block.graph.MoveAfter(u, anchor);
    for (ValueId o : block.graph.node(u).outputs) Sink(block, o, u);
  }
}

// Moves the nodes of a group that cannot be one kernel to the position that was chosen for the group, because other
// groups were placed relative to it.
void MoveTogether(BlockGroups& block, const Group& group) {
  // The alias database's moves have brought them together before.
  if (block.options.alias_db != nullptr) return;
  std::vector<int> members = group.members;
  std::sort(members.begin(), members.end());
  NodeId last = block.nodes[group.at];
  for (int m : members) {
    if (m < group.at) block.graph.MoveBefore(block.nodes[m], block.nodes[group.at]);
    if (m <= group.at) continue;
    block.graph.MoveAfter(block.nodes[m], last);
    last = block.nodes[m];
  }
  for (int m : members) {
    for (ValueId v : block.N(m).inputs) Hoist(block, v, block.nodes[m]);
    for (ValueId o : block.N(m).outputs) Sink(block, o, block.nodes[m]);
  }
}

// Adds to the report.
void Count(BlockGroups& block, int k, Emitted emitted) {
  const int members = static_cast<int>(block.groups[k].members.size());
  if (emitted == Emitted::kKernel) {
    ++block.report.groups;
    block.report.fused_nodes += members;
  } else if (emitted == Emitted::kApart) {
    block.report.single_kernels += members;
  }
}

// Returns the member with which the second part begins.
size_t CutOf(const BlockGroups& block, const std::vector<int>& members) {
  absl::flat_hash_map<NodeId, size_t> place;
  for (size_t i = 0; i < members.size(); ++i) place[block.nodes[members[i]]] = i;
  // The elements that the first part stores and the second part reads, for each part that begins at a member.
  std::vector<double> elements(members.size() + 1, 0);
  for (size_t i = 0; i < members.size(); ++i) {
    for (ValueId o : block.N(members[i]).outputs) {
      size_t last = i;
      const auto look = [&](auto&& self, ValueId v) -> void {
        for (const Use& u : block.graph.value(v).uses) {
          if (const auto it = place.find(u.user); it != place.end()) {
            last = std::max(last, it->second);
          } else if (!block.graph.IsReturn(u.user) && IsTransparent(block.graph.node(u.user))) {
            for (ValueId x : block.graph.node(u.user).outputs) self(self, x);
          }
        }
      };
      look(look, o);
      const auto size = block.IsTensor(o) ? Product(*block.T(o).sizes).Evaluate(block.graph.symbol_hints)
                                          : absl::StatusOr<int64_t>(1);
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

void EraseUsers(BlockGroups& block, ValueId v) {
  while (!block.graph.value(v).uses.empty()) {
    const NodeId u = block.graph.value(v).uses[0].user;
    for (ValueId o : block.graph.node(u).outputs) EraseUsers(block, o);
    block.graph.Erase(u);
  }
}

absl::StatusOr<Emitted> EmitGroup(BlockGroups& block, int k, bool may_wait);

// Emits a group that has no kernel and whose members are adjacent: splits it where the least is stored between the
// parts, and emits the parts, splitting them further if needed.
absl::StatusOr<Emitted> EmitParts(BlockGroups& block, int k, absl::string_view why) {
  std::vector<int> members = block.groups[k].members;
  // Each part computes values that depend on numbers alone by itself.
  std::erase_if(members, [&](int m) {
    if (IsLeaf(block.N(m))) block.group_of[m] = -1;
    return IsLeaf(block.N(m));
  });
  if (members.size() < 2) {
    ReportSplit(block, k, k, why);
    return Emitted::kApart;
  }
  // In their present order.
  std::sort(members.begin(), members.end(),
            [&](int a, int b) { return block.graph.IsBefore(block.nodes[a], block.nodes[b]); });
  const size_t cut = CutOf(block, members);
  const int second = static_cast<int>(block.groups.size());
  block.groups.push_back(block.groups[k]);
  block.groups[k].at = members[cut - 1];
  block.groups[second].at = members[cut];
  block.groups[k].members.assign(members.begin(), members.begin() + cut);
  block.groups[second].members.assign(members.begin() + cut, members.end());
  for (size_t i = cut; i < members.size(); ++i) block.group_of[members[i]] = second;
  for (int part : {k, second}) std::sort(block.groups[part].members.begin(), block.groups[part].members.end());
  ReportSplit(block, k, second, why);
  for (int part : {k, second}) {
    SMELT_ASSIGN_OR_RETURN(const Emitted emitted, EmitGroup(block, part, /*may_wait=*/false));
    Count(block, part, emitted);
  }
  return Emitted::kInParts;
}

// Copies the group into a subgraph, puts the node in its place, and takes it back if it has no kernel. The group's
// nodes and its copy both stand in the graph in between, which no other code should see.
absl::StatusOr<Emitted> EmitGroup(BlockGroups& block, int k, bool may_wait) {
  const Group& group = block.groups[k];  // good until EmitParts, whose parts are groups too
  absl::flat_hash_set<NodeId> members;
  for (int m : group.members) members.insert(block.nodes[m]);
  const NodeId anchor = block.nodes[group.at];
  // A single node is a kernel already, unless it can make leaves itself.
  if (group.members.size() == 1) {
    bool leaf = false;
    for (size_t x = IsRegionOp(block.N(group.members[0])) ? 1 : 0; x < block.N(group.members[0]).inputs.size(); ++x) {
      const NodeId def = block.graph.value(block.N(group.members[0]).inputs[x]).def;
      leaf = leaf || (!block.graph.IsParam(def) && IsLeaf(block.graph.node(def)));
    }
    if (!leaf || IsLeaf(block.N(group.members[0]))) return Emitted::kApart;
  }
  if (block.options.alias_db != nullptr && group.members.size() > 1) {
    std::vector<NodeId> together;
    for (int m : group.members) together.push_back(block.nodes[m]);
    std::string why;
    // Nodes that move out of the way, before or behind the group.
    const auto goes_along = [](const Node& n) { return IsTransparent(n) || IsAllocation(n) || IsLeaf(n); };
    if (!GatherGroup(*block.options.alias_db, block.graph, together, anchor, goes_along, &why)) {
      if (may_wait) return Emitted::kWaits;
      ReportSplit(block, k, k, why);
      ++block.report.refused_groups;
      return Emitted::kApart;
    }
  }
  auto sub = std::make_shared<Graph>();
  sub->name = NameOf(block, group);
  sub->symbols = block.graph.symbols;
  Copier c{*sub, {}, {}};
  // Bases come first: results take over their memory.
  for (int m : group.members) {
    if (!IsRegionOp(block.N(m))) continue;
    const ValueId base = block.N(m).inputs[0];
    if (members.contains(block.graph.value(base).def)) continue;
    // A view of a member's result is not an operand.
    if (members.contains(block.graph.value(StorageOf(block.graph, base)).def)) {
      ReportSplit(block, k, k, "what it writes to is a view of a value made in it");
      return Emitted::kApart;
    }
    TakeBase(block, c, base);
  }
  for (int m : group.members) CopyNode(block, c, block.nodes[m]);
  // The results: values that are used outside.
  std::vector<ValueId> results;
  std::vector<Type> types;
  for (int m : group.members) {
    for (ValueId o : block.N(m).outputs) {
      bool outside = false;
      auto look = [&](auto&& self, ValueId v) -> void {
        for (const Use& u : block.graph.value(v).uses) {
          if (outside) return;
          if (members.contains(u.user)) continue;
          if (!block.graph.IsReturn(u.user) && IsTransparent(block.graph.node(u.user)) &&
              block.graph.node(u.user).parent == block.id) {
            for (ValueId x : block.graph.node(u.user).outputs) self(self, x);
            continue;
          }
          outside = true;
        }
      };
      look(look, o);
      if (!outside) continue;
      results.push_back(o);
      types.push_back(block.graph.value(o).type);
      sub->AddOutput(c.inner.at(o));
    }
  }
  if (results.empty()) return Emitted::kApart;
  for (ValueId v : c.operands) Hoist(block, v, anchor);
  const NodeId node = block.graph.InsertBefore(anchor, OpName::Get(op::kSmeltFusionGroup), c.operands, types,
                                               {{"Subgraph", sub}, {"name", sub->name}});
  block.graph.SetSource(node, block.N(group.members.back()).source);
  // This precedes lowering: a result without uses is not one of the kernel's.
  for (size_t i = 0; i < results.size(); ++i) block.graph.ReplaceAllUses(results[i], block.graph.node(node).outputs[i]);
  const auto layout = [&](ValueId v) { return ShownMemory(block.graph, v).second; };
  const auto lowered = block.options.lowered == nullptr ? LowerGroup(block.graph, node, layout)
                                                        : block.options.lowered->Lower(block.graph, node, layout);
  if (!lowered.ok()) {
    for (size_t i = 0; i < results.size(); ++i)
      block.graph.ReplaceAllUses(block.graph.node(node).outputs[i], results[i]);
    block.graph.Erase(node);
    if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
    MoveTogether(block, group);
    return EmitParts(block, k, absl::StrCat("the group has no kernel: ", lowered.status().message()));
  }
  for (ValueId o : block.graph.node(node).outputs) Sink(block, o, node);
  // Views that only members read are erased with them.
  for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) {
    for (ValueId o : block.N(*it).outputs) EraseUsers(block, o);
    block.graph.Erase(block.nodes[*it]);
  }
  return Emitted::kKernel;
}

}  // namespace

absl::Status EmitGroups(BlockGroups& block) {
  block.first_edge = block.report.edges.size();
  ReportEdges(block);
  std::vector<int> waiting;
  for (int k = 0; k < static_cast<int>(block.groups.size()); ++k) {
    if (!block.groups[k].members.empty()) waiting.push_back(k);
  }
  // A node may be in the way of one group until its own group has taken it. So the later groups come first: the node in
  // the way mostly belongs to a group behind. (The number of rounds is limited to save time.)
  constexpr int kRounds = 8;
  for (int round = 1; !waiting.empty(); ++round) {
    std::vector<int> again;
    for (int k : waiting) {
      SMELT_ASSIGN_OR_RETURN(const Emitted emitted, EmitGroup(block, k, /*may_wait=*/round < kRounds));
      if (emitted == Emitted::kWaits) again.push_back(k);
      Count(block, k, emitted);
    }
    if (again.size() == waiting.size()) round = kRounds - 1;  // nothing has moved
    waiting.assign(again.rbegin(), again.rend());
  }
  return absl::OkStatus();
}

}  // namespace smelt
