// Fusion of one block (fuse.h): nodes are visited in order, and each joins the groups of its operands, or begins a
// group. Internal to the fuser.
#ifndef SMELT_FUSER_BLOCK_FUSER_H_
#define SMELT_FUSER_BLOCK_FUSER_H_

#include <algorithm>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

// An attribute of a node whose result must be in memory: the node is not part of any group.
inline constexpr char kStored[] = "stored";

constexpr int kBefore = -1;           // the position of values that are ready before the block's first node
constexpr int kNever = INT_MAX;       // for values that are needed only at the block's end
constexpr int kFree = 2;              // arithmetic that may be repeated rather than stored and read
constexpr int kRepeated = 64;         // the same per element, in all of a kernel's loop
constexpr int kRepeatedCode = 256;    // nodes whose code is repeated for that
constexpr int64_t kRowLimit = 32768;  // elements that one tile may traverse twice if no other tile shares the work

// The visible part of a value's memory. If arguments share memory it counts from the argument `home`, whose distance to
// other arguments is known only in the call; -1: it counts from the memory's first byte.
struct Extent {
  Region region;
  int64_t home = -1;
};
Extent ExtentOf(const Node& n);
// Returns whether the region that a `smelt::write_region` writes cannot overlap itself: no two of its indices reach one
// element. (A region that may overlap itself gets one value everywhere; a kernel that also read it would read what it
// has written.)
bool WritesEachElementOnce(const Node& n);
Extent ExtentOf(const Graph& g, ValueId v);
Overlap CompareExtents(const Extent& a, const Extent& b, const SymbolRanges& symbols);
// Returns whether a node computes its result from numbers alone: any kernel that reads it can compute it instead.
bool IsLeaf(const Node& n);
bool IsAllocation(const Node& n);
// Returns for each number that only the data determines the position in `nodes` of the first node that knows it. Such a
// node reads the number, or has a size equal to it, like an index by a mask.
absl::flat_hash_map<std::string, int> NumbersOfData(const Graph& g, const std::vector<NodeId>& nodes);
// Calls f(e) for each expression in a node's attributes.
template <typename F>
void ForAttributeExprs(const Node& n, const F& f) {
  for (const auto& [name, attribute] : n.attributes) {
    if (const auto* e = std::get_if<Expr>(&attribute)) f(*e);
    if (const auto* all = std::get_if<std::vector<Expr>>(&attribute)) {
      for (const Expr& e : *all) f(e);
    }
  }
}
// Returns the value whose memory a view shows.
ValueId RootOf(const Graph& g, ValueId v);

// The form of a group's loop: the sizes of its dims, and which of them it reduces.
struct Frame {
  std::vector<Expr> sizes;
  std::vector<bool> reduced;
  bool HasReduction() const { return std::find(reduced.begin(), reduced.end(), true) != reduced.end(); }
};
using Label = std::vector<int>;  // for each dim of a value the frame's dim, -1: the value has size 1 there

struct Group {
  std::vector<int> members;  // positions, ascending
  int at = 0;                // the position of the group
  Frame frame;
  bool pullable = true;  // each value can be computed at any index: no reductions, no writes
  bool open = true;      // others may join
  bool pulled = false;   // some members are computed at indices other than the loop's: they have no labels
};

// How a node fits into a loop.
struct Shape {
  Frame frame;
  Label out;                                        // of each of its outputs
  std::vector<std::pair<ValueId, Label>> operands;  // that are read at the loop's own index
  bool any_index = true;                            // see Group::pullable
  bool joins = true;                                // may be in a group at all
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

class BlockFuser {
 public:
  BlockFuser(Graph& g, BlockId b, const FuseOptions& options, FusionReport& report, NodePlaces& places)
      : g_(g), block_(b), options_(options), report_(report), places_(places) {}

  absl::Status Run();

 private:
  const Node& N(int i) const { return g_.node(nodes_[i]); }
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  bool IsTensor(ValueId v) const { return g_.value(v).type.IsTensor(); }

  // --- where things are ---
  // The position in this block of the node, or of the node of this block that it is inside of; INT_MIN: it is
  // elsewhere.
  int PlaceOf(NodeId n) const;
  ValueId Root(ValueId v) const;
  int DefPlace(ValueId v) const;
  int At(int i) const { return group_of_[i] >= 0 ? groups_[group_of_[i]].at : i; }
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
    for (const Use& u : g_.value(v).uses) {
      if (g_.IsReturn(u.user)) continue;
      const int i = PlaceOf(u.user);
      if (i == INT_MIN) continue;
      if (nodes_[i] == u.user && IsTransparent(N(i))) {
        for (ValueId o : N(i).outputs) ForReaders(o, f);
        continue;
      }
      if (nodes_[i] == u.user && IsRegionOp(N(i)) && u.index == 0) continue;  // takes over the memory
      f(i);
    }
  }
  template <typename F>
  void ForOperands(int i, const F& f) const {
    for (ValueId v : N(i).inputs) {
      if (IsTensor(v)) {
        f(v);
      } else if (auto list = GetListElements(g_, v)) {
        for (ValueId e : *list) f(e);
      } else {
        f(v);
      }
    }
  }

  // --- how nodes fit ---
  static Label Identity(size_t rank, const std::vector<Expr>& sizes);
  std::optional<Shape> ShapeOf(int i) const;
  void AddOperand(Shape& s, ValueId v, const std::vector<Expr>& sizes) const;

  // Returns the label of a view's base, given the view's, if the view shows each dim of its base once; otherwise false.
  bool ThroughView(NodeId view, const Label& label, Label* base_label) const;

  // --- joining ---
  std::string Describe(int i) const;
  // The last explanation of an edge is the one that ReportEdges reports.
  void Explain(int producer, int consumer, absl::string_view reason);

  absl::Status Visit(int i);

  // Returns whether all values computed from the elements of these nodes are reduced again, to few elements each time.
  bool EndsInReductions(std::vector<int> nodes) const;

  // Group a reads group b's value `v` at `expected`. Makes b part of a if the loop, the order and the memory allow it.
  bool Join(int a, int b, ValueId v, const Label& expected, int consumer, std::string* reason);

  // Returns whether a and b can be one node, and at which position: either at the later one's, if nothing between needs
  // the earlier one's results and no memory that it reads is taken over in between; or at the earlier one's, if all
  // operands are ready.
  bool CanStand(int a, int b, int* at, std::string* reason);

  // Returns the contents that a chain of region writes inside groups a and b starts from.
  ValueId ChainBase(int w, int a, int b) const;

  // Returns whether a member reads memory that another member, an indexed write, takes over. All of that memory would
  // be copied.
  bool ReadsWhatAnActionWrites(const std::vector<int>& members) const;

  // Returns whether memory permits the join: a kernel may write a region and read the same memory at the same index, or
  // elsewhere, but it must not read what it has written.
  bool MemoryAllows(int a, int b, bool reduces, std::string* reason) const;

  // Returns whether few tiles traverse a large array, which they should not do twice.
  bool WalksAlone(const Frame& frame) const;

  // --- siblings ---
  // Kernels over one loop that have no value of each other's in common, but read one operand: it is read once.
  void JoinSiblings();
  // Joins groups over equal loops that need not read one operand. Takes O(nodes squared).
  void JoinEqualLoops();

  // The number of memory streams in one loop beyond which the hardware does not prefetch.
  static constexpr size_t kStreams = 12;

  // Returns how node i's loop traverses its operand v, if it reads all of it and its group may get siblings.
  std::optional<Label> SiblingLabel(int i, ValueId v) const;

  // Joins nodes i and j, of two groups, if they read one operand in the same order, in all of their loops.
  bool JoinSibling(int i, int j);

  // Adds b's members to a.
  void Absorb(int a, int b, int at);

  // --- pulling producers in ---
  // Arithmetic an element costs, in additions.
  int CostOf(int i) const;

  // The work that a joined group of a and b would repeat because members read others at indices other than the loop's.
  // It doubles at each step of a chain that reads the previous step at two indices.
  struct Work {
    double cost = 0;  // per element, in additions
    double code = 0;  // in nodes: each part of a list has its own code, regardless of its share of the elements
  };
  Work RepeatedWork(int a, int b) const;

  // Returns how often node i's loop computes the operand v if it is computed there: at each point of the loop, but once
  // per row if v does not vary along the dims that are reduced. (A view in between hides the dims along which v
  // varies.)
  Expr Evaluations(ValueId v, int i, const Frame& frame) const;

  // Joins group k to the only group that reads its results, even if that reads slices, reshapes or broadcasts of them,
  // provided that this repeats no computation, or only computations that are cheaper than reading the result.
  void Pull(int k);

  // Reports each edge between two nodes that are not just views, numbers or lists, once, in the order of consumers.
  void ReportEdges();
  // Returns the reason for an edge that no step of the pass considered.
  std::string DefaultReason(int p, int i, bool fused) const;
  // Reports that two groups are not one after all, or that one is no group.
  void ReportSplit(int from, int to, absl::string_view why);

  // --- the groups' nodes ---
  absl::Status Emit();

  // Copies constants, lists, sizes and leaves into a group.
  struct Copier {
    Graph& sub;
    absl::flat_hash_map<ValueId, ValueId> inner;
    std::vector<ValueId> operands;
  };
  void CopyNode(Copier& c, NodeId n);
  ValueId Inner(Copier& c, ValueId v);
  // Makes a base an operand, regardless of the node that makes it.
  void TakeBase(Copier& c, ValueId v);

  std::string NameOf(const Group& group) const;

  // Moves a transparent node, and those it needs, before `anchor`.
  void Hoist(ValueId v, NodeId anchor);
  // Moves transparent users of a value after `anchor`.
  void Sink(ValueId v, NodeId anchor);
  // Moves the nodes of a group that cannot be one kernel to the position that was chosen for the group, because other
  // groups were placed relative to it.
  void MoveTogether(const Group& group);

  enum class Emitted {
    kKernel,
    kApart,  // its members remain separate
    kInParts,
    kWaits,  // with may_wait: until the nodes between its members have moved
  };
  absl::StatusOr<Emitted> EmitGroup(int k, bool may_wait);
  void Count(int k, Emitted emitted);  // in the report
  // Emits a group that has no kernel and whose members are adjacent: splits it where the least is stored between the
  // parts, and emits the parts, splitting them further if needed.
  absl::StatusOr<Emitted> EmitParts(int k, absl::string_view why);
  // Returns the member with which the second part begins.
  size_t CutOf(const std::vector<int>& members) const;
  void EraseUsers(ValueId v);

  Graph& g_;
  const BlockId block_;
  const FuseOptions& options_;
  FusionReport& report_;
  std::vector<NodeId> nodes_;
  mutable std::vector<int> costs_;  // of nodes_, as far as they were asked for; -1: not yet
  NodePlaces& places_;
  int number_ = 0;  // of this block in places_
  std::vector<int> group_of_;
  absl::flat_hash_map<std::string, int> read_at_;  // by symbol: the node that reads that size from data
  std::vector<Group> groups_;
  absl::flat_hash_map<ValueId, Label> labels_;
  // By node: the grouped nodes that it reads at other indices, each with the share of points at which it does.
  absl::flat_hash_map<int, std::vector<std::pair<int, double>>> elsewhere_;
  absl::flat_hash_map<ValueId, std::vector<int>> writers_;  // by the memory's root: nodes that take it over
  // With FuseOptions::explain: by producer and consumer; the ends of the block's edges in the order of the report.
  absl::flat_hash_map<std::pair<int, int>, std::string> reasons_;
  std::vector<std::pair<int, int>> edge_ends_;  // producer, consumer
  size_t first_edge_ = 0;
};

}  // namespace smelt

#endif  // SMELT_FUSER_BLOCK_FUSER_H_
