#include "smelt/fuser/block_groups.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/cost.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/fuser/fused_nodes.h"

namespace smelt {

BlockGroups::BlockGroups(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report, NodePlaces& places)
    : graph(g), id(b), options(options), report(report), places(places), nodes(g.Nodes(b)) {
  number_ = places.Add(graph, nodes);
  group_of.assign(nodes.size(), -1);
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (IsRegionOp(N(i))) writers[StorageOf(graph, N(i).inputs[0])].push_back(i);
  }
  read_at_ = NumbersOfData(graph, nodes);
}

int BlockGroups::PlaceOf(NodeId n) const {
  while (true) {
    if (const int at = places.Of(n, number_); at != INT_MIN) return at;
    const BlockId parent = graph.node(n).parent;
    if (!parent.valid() || parent == id) return INT_MIN;
    n = graph.block(parent).owner;
    if (!n.valid()) return INT_MIN;
  }
}

int BlockGroups::DefPlace(ValueId v) const {
  const NodeId def = graph.value(v).def;
  if (graph.IsParam(def) || graph.node(def).parent != id) return kBefore;
  return places.Of(def, number_);
}

int BlockGroups::Ready(ValueId v) const {
  const int i = DefPlace(v);
  if (i == kBefore) return kBefore;
  const Node& def = N(i);
  if (IsTransparent(def) || (IsAllocation(def) && group_of[i] < 0)) {
    int ready = SizesReady(def);
    for (ValueId x : def.inputs) ready = std::max(ready, Ready(x));
    return ready;
  }
  return At(i);
}

int BlockGroups::SizesReady(const Node& n) const {
  int ready = kBefore;
  if (read_at_.empty()) return ready;
  auto see = [&](const Expr& e) {
    for (const std::string& s : e.Symbols()) {
      if (const auto it = read_at_.find(s); it != read_at_.end()) ready = std::max(ready, At(it->second));
    }
  };
  ForAttributeExprs(n, see);
  for (ValueId v : n.outputs) {
    if (graph.value(v).expr) see(*graph.value(v).expr);
    if (IsTensor(v) && T(v).sizes) absl::c_for_each(*T(v).sizes, see);
  }
  return ready;
}

int BlockGroups::PlaceReady(ValueId view) const {
  int ready = kBefore;
  for (int i = DefPlace(view); i >= 0 && N(i).op == op::kSmeltView; i = DefPlace(N(i).inputs[0])) {
    ready = std::max(ready, SizesReady(N(i)));
  }
  return ready;
}

int BlockGroups::Needed(ValueId v, int a, int b, int enough) const {
  int first = kNever;
  for (const Use& u : graph.value(v).uses) {
    if (first <= enough) return first;
    if (graph.IsReturn(u.user)) {
      if (graph.node(u.user).parent != id) {
        const int i = PlaceOf(graph.block(graph.node(u.user).parent).owner);
        if (i != INT_MIN) first = std::min(first, At(i));
      }
      continue;
    }
    const int i = PlaceOf(u.user);
    if (i == INT_MIN) continue;
    if (group_of[i] >= 0 && (group_of[i] == a || group_of[i] == b)) continue;
    if (nodes[i] == u.user && IsTransparent(N(i))) {
      for (ValueId o : N(i).outputs) first = std::min(first, Needed(o, a, b, enough));
      continue;
    }
    first = std::min(first, At(i));
  }
  return first;
}

void BlockGroups::Absorb(int a, int b, int at) {
  Group &ga = groups[a], &gb = groups[b];
  for (int m : gb.members) group_of[m] = a;
  std::vector<int> members;
  std::merge(ga.members.begin(), ga.members.end(), gb.members.begin(), gb.members.end(), std::back_inserter(members));
  ga.members = std::move(members);
  ga.at = at;
  ga.pullable = ga.pullable && gb.pullable;
  ga.pulled = ga.pulled || gb.pulled;
  gb = Group();
  gb.open = false;
}

int BlockGroups::CostOf(int i) const {
  costs_.resize(nodes.size(), -1);
  if (costs_[i] < 0) costs_[i] = smelt::CostOf(graph, nodes[i]);
  return costs_[i];
}

std::string BlockGroups::Describe(int i) const {
  return absl::StrCat(N(i).op.full(), " %", N(i).outputs.empty() ? "" : graph.value(N(i).outputs[0]).name);
}

void BlockGroups::Explain(int producer, int consumer, absl::string_view reason) {
  if (options.explain) reasons[{producer, consumer}] = std::string(reason);
}

}  // namespace smelt
