// The groups that fusion has formed in one block so far, and where nodes and values are. The steps of fusion
// (block_fuser.h) share it. Internal to the fuser.
//
// Nodes go by their position in `nodes`, groups by their index in `groups`.
#ifndef SMELT_FUSER_BLOCK_GROUPS_H_
#define SMELT_FUSER_BLOCK_GROUPS_H_

#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/loop_shapes.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

inline constexpr int kBefore = -1;      // the position of values that are ready before the block's first node
inline constexpr int kNever = INT_MAX;  // for values that are needed only at the block's end

struct Group {
  std::vector<int> members;  // positions, ascending
  int at = 0;                // the position of the group
  Frame frame;
  bool pullable = true;  // each value can be computed at any index: no reductions, no writes
  bool open = true;      // others may join
  bool pulled = false;   // some members are computed at indices other than the loop's: they have no labels
};

// The positions of nodes in their blocks. One table serves all blocks of a graph, so that a block costs time in its own
// nodes only.
class NodePlaces {
 public:
  // Numbers the nodes of a block. Returns a number for the block.
  int Add(const Graph& g, const std::vector<NodeId>& nodes) {
    ++num_blocks_;
    if (places_.size() < g.node_index_bound()) places_.resize(g.node_index_bound());
    for (size_t i = 0; i < nodes.size(); ++i) places_[nodes[i].index] = {num_blocks_, static_cast<int>(i)};
    return num_blocks_;
  }
  // Returns the node's position if it was in the block when that was added, else INT_MIN.
  int Of(NodeId n, int block) const {
    return n.index < places_.size() && places_[n.index].block == block ? places_[n.index].at : INT_MIN;
  }

 private:
  struct Place {
    int block = 0, at = 0;
  };
  std::vector<Place> places_;  // by NodeId::index
  int num_blocks_ = 0;
};

struct BlockGroups {
  BlockGroups(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report, NodePlaces& places);

  const Node& N(int i) const { return graph.node(nodes[i]); }
  const TensorType& T(ValueId v) const { return graph.value(v).type.tensor(); }
  bool IsTensor(ValueId v) const { return graph.value(v).type.IsTensor(); }

  // --- where things are ---
  // Returns the position in this block of the node, or of the node of this block that it is inside of; INT_MIN: it is
  // elsewhere.
  int PlaceOf(NodeId n) const;
  int DefPlace(ValueId v) const;
  int At(int i) const { return group_of[i] >= 0 ? groups[group_of[i]].at : i; }
  // Returns the earliest position at which a value is available, given the places of groups.
  int Ready(ValueId v) const;
  // Returns the position at which the numbers from data are known that a node's attributes and sizes depend on, such as
  // the offset of a view.
  int SizesReady(const Node& n) const;
  // Returns the same for a view's offset in its root.
  int PlaceReady(ValueId view) const;
  // Returns the first position outside of groups a and b at which a value is needed. Stops at a position that is at
  // most `enough`, because a value may have very many uses.
  int Needed(ValueId v, int a, int b, int enough = INT_MIN) const;
  // Calls f(position) for each reader of a memory's contents `root`, through views and lists.
  template <typename F>
  void ForReaders(ValueId v, const F& f) const {
    for (const Use& u : graph.value(v).uses) {
      if (graph.IsReturn(u.user)) continue;
      const int i = PlaceOf(u.user);
      if (i == INT_MIN) continue;
      if (nodes[i] == u.user && IsTransparent(N(i))) {
        for (ValueId o : N(i).outputs) ForReaders(o, f);
        continue;
      }
      if (nodes[i] == u.user && IsRegionOp(N(i)) && u.index == 0) continue;  // takes over the memory
      f(i);
    }
  }
  template <typename F>
  void ForOperands(int i, const F& f) const {
    for (ValueId v : N(i).inputs) {
      if (IsTensor(v)) {
        f(v);
      } else if (auto list = GetListElements(graph, v)) {
        for (ValueId e : *list) f(e);
      } else {
        f(v);
      }
    }
  }

  // --- changes and costs ---
  // Adds b's members to a.
  void Absorb(int a, int b, int at);
  // Returns the arithmetic per element, in additions.
  int CostOf(int i) const;

  // --- explanations ---
  std::string Describe(int i) const;
  // The last explanation of an edge is the one that is reported.
  void Explain(int producer, int consumer, absl::string_view reason);

  Graph& graph;
  const BlockId id;
  const FuseOptions& options;
  FusionReport& report;
  NodePlaces& places;
  const std::vector<NodeId> nodes;
  std::vector<int> group_of;  // by node: its group, or -1
  std::vector<Group> groups;
  absl::flat_hash_map<ValueId, Label> labels;
  // By node: the grouped nodes that it reads at other indices, each with the share of points at which it does.
  absl::flat_hash_map<int, std::vector<std::pair<int, double>>> elsewhere;
  absl::flat_hash_map<ValueId, std::vector<int>> writers;  // by the memory's root: nodes that take it over
  // With FuseOptions::explain: by producer and consumer; the ends of the block's edges in the order of the report.
  absl::flat_hash_map<std::pair<int, int>, std::string> reasons;
  std::vector<std::pair<int, int>> edge_ends;  // producer, consumer
  size_t first_edge = 0;

 private:
  int number_ = 0;                                 // of this block in `places`
  absl::flat_hash_map<std::string, int> read_at_;  // by symbol: the node that reads that size from data
  mutable std::vector<int> costs_;                 // of nodes, as far as they were asked for; -1: not yet
};

}  // namespace smelt

#endif  // SMELT_FUSER_BLOCK_GROUPS_H_
