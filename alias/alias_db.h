// Finds which values of a graph share memory, and which nodes write it. The database is live: it listens to the graph's
// edits and follows each at the cost of what the edit touches. It is never rebuilt from scratch in between.
//
//   std::unique_ptr<AliasDb> db = AliasDb::Build(graph);
//   db->Alias(a, b);                       // AliasAnswer::kNo, kMay or kMust
//   db->HasWriters(v);                     // some node writes v's bytes while v is in scope
//   db->Memory(v).locations;               // the storages v may live in
//   graph.Erase(n);                        // db follows
//   db->CanMoveBefore(n, m, &reason);
//
// How it works. Values hold *objects*: tensor handles, lists, dictionaries, tuples, objects of classes. A tensor handle
// lives in one or more *locations* (storages). A view is a handle of its own over its base's locations, with the region
// of bytes that it covers. Aliasing is a set of constraints over values, back edges and zero-trip edges of loops
// included, solved in one pass over the program and again where back edges change something. Memory that an earlier
// iteration allocated is distinguished from memory that the current one allocated. Writes are a separate index: for
// each location its writers, with the region of each.
//
// Answers: kNo and kMust are proven; kMay is everything else. To "share memory" means to have a common byte while both
// are in scope; for lists, dictionaries and objects it means to be one object. A tensor that changes geometry (t_,
// resize_, set_) counts as living in the whole of its locations. Inputs may overlap in any way, unless
// Options::distinct_inputs.
//
// docs/alias_database.md says what each query costs. Not thread-safe, not even queries: they finish pending updates.
#ifndef SMELT_ALIAS_ALIAS_DB_H_
#define SMELT_ALIAS_ALIAS_DB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

enum class AliasAnswer { kNo, kMay, kMust };
const char* Name(AliasAnswer a);  // "no", "may", "must"

// A location: a storage, as far as the analysis distinguishes storages.
using LocationId = StrongId<struct LocationTag>;

struct Location {
  enum class Kind {
    kFresh,      // allocated by a node of the graph
    kInput,      // the storage of a top-level input (each its own; they may overlap, see caller_owned)
    kElement,    // of a tensor inside an input's list, dictionary or object
    kWeight,     // a storage of Graph::weight_storages
    kConstant,   // of a tensor constant
    kContainer,  // a list, dictionary or object, for which the location stands itself
    kUnknown,    // anything that has escaped or is the caller's
    kSummary,    // many locations in one, where sets grew beyond Options::max_set
  } kind = Kind::kFresh;
  ValueId value;  // that creates it; the input; invalid for kUnknown, kWeight, kSummary
  int weight_storage = -1;
  bool caller_owned = false;  // may overlap every other caller-owned location
  bool escaped = false;       // something outside the graph, or an unknown operator, may hold it
  std::string name;           // for people: "%x", "weight 3", "%l[*]"
};

// The memory of a tensor value.
struct ValueMemory {
  std::vector<LocationId> locations;  // more than one: one of them
  // Offset, sizes and strides over the only location, proven. For inputs they are relative to the input's own first
  // element, for weights to the storage. Absent if they are not known, or if some node changes the handle's geometry.
  std::optional<Region> region;
  bool geometry_changes = false;  // some node changes sizes, strides or storage of the handle
};

struct Writer {
  NodeId node;      // the node itself, which may be in a block inside
  ValueId through;  // the argument by which it writes
  bool geometry_only = false;
};

class AliasDb : public GraphListener {
 public:
  struct Options {
    // A value's set of objects is exact up to this size. Beyond it, its members are summarised: one summary object,
    // which every member may alias.
    int max_set = 32;
    // The caller promises that different top-level tensor inputs, and the tensors that they hold, share no memory.
    bool distinct_inputs = false;
    // Runs Verify() after every flush of edits and CHECKs the result. For tests.
    bool verify_edits = false;
  };

  // `graph` must outlive the database. Takes O(nodes and edges).
  static std::unique_ptr<AliasDb> Build(Graph& graph, Options options);
  static std::unique_ptr<AliasDb> Build(Graph& graph) { return Build(graph, Options()); }
  ~AliasDb() override;
  AliasDb(const AliasDb&) = delete;
  AliasDb& operator=(const AliasDb&) = delete;

  const Graph& graph() const;
  const Options& options() const;

  // --- aliasing. Values must be live (stale ids are CHECKed by the graph) ---
  AliasAnswer Alias(ValueId a, ValueId b) const;
  bool MayAlias(ValueId a, ValueId b) const;
  bool MustAlias(ValueId a, ValueId b) const;
  // As MayAlias, for everything that one value reaches (elements of elements) and everything that the other reaches.
  bool MayContainAlias(ValueId a, ValueId b) const;
  bool MayContainAlias(absl::Span<const ValueId> a, absl::Span<const ValueId> b) const;

  // --- memory ---
  ValueMemory Memory(ValueId v) const;
  Location Describe(LocationId l) const;
  // Compares two values of one location: their bytes are disjoint, the same, or neither is proven. Scopes do not
  // matter.
  Overlap CompareRegions(ValueId a, ValueId b) const;
  // Returns whether the caller may reach the storage after the call: through an input, an output, or an escaped value.
  bool ReachableByCaller(ValueId v) const;

  // --- writes ---
  // Some node writes v's bytes (of a list: the list itself) while v is in scope, or is the node that defines v.
  // Changing a geometry is no write.
  bool HasWriters(ValueId v) const;
  // Returns the same for the whole graph, in scope or not.
  bool IsEverWritten(ValueId v) const;
  std::vector<Writer> Writers(ValueId v, bool geometry_too = false) const;  // anywhere, in program order
  // Returns whether n, or a node in its blocks, may write bytes of v.
  bool WritesTo(NodeId n, ValueId v) const;
  // Returns the last node of n's block before n that may write v's bytes, itself or by its blocks; invalid if there is
  // none.
  NodeId LastWriterBefore(ValueId v, NodeId n) const;
  // Returns whether v's node makes it in memory of its own that nothing else knows at that point, and v cannot be
  // anything else.
  bool OwnsItsMemory(ValueId v) const;
  // For a value that owns its memory, returns the first node after n, in the text, that may write any of it; invalid if
  // there is none.
  NodeId FirstWriterAfter(ValueId v, NodeId n) const;
  // Returns the nodes after n, in n's block, that may read v's bytes, in order.
  std::vector<NodeId> ReadersAfter(ValueId v, NodeId n) const;
  // Returns whether a and b may start or stop sharing memory: nothing writes either of them through any alias, and the
  // caller does not reach both.
  bool SafeToChangeAliasing(ValueId a, ValueId b) const;

  // --- topological moves, within one block ---
  //
  // Returns whether some legal order of the block has n directly before (after) m. Nodes that depend on n, or that n
  // depends on, move along if they lie in between; all other nodes stay. Returns false across blocks and for n == m.
  // *why names the obstacle. In a large graph also returns false where more nodes and writes lie between the two than
  // the questions so far have paid for.
  bool CanMoveBefore(NodeId n, NodeId m, std::string* why = nullptr) const;
  bool CanMoveAfter(NodeId n, NodeId m, std::string* why = nullptr) const;
  // Returns the nodes between n and m that move along when n moves next to m. Takes as many steps as there are
  // dependences between the two.
  std::vector<NodeId> MovesAlong(NodeId n, NodeId m) const;
  // Returns whether that is none, which costs less to find out. As CanMoveBefore, it may return false in a large graph.
  bool MovesAlone(NodeId n, NodeId m) const;
  // Moves n. On failure the graph is untouched, and the error is the reason. The graph must be the one that the
  // database was built with.
  absl::Status MoveBefore(NodeId n, NodeId m);
  absl::Status MoveAfter(NodeId n, NodeId m);

  // --- explaining, checking ---
  // How a and b come to share memory: a line an edge. Empty if they do not.
  std::vector<std::string> Why(ValueId a, ValueId b) const;
  std::string ToString() const;  // stable order: locations, values' sets, writers
  std::string ToJson() const;    // locations, each value's set, each node's reads and writes
  std::string ToDot() const;     // Graphviz
  std::string ToHtml() const;    // the picture next to the text, writers marked
  // Compares with a fresh build. Returns OK if they are equal. If sets are summarised, containers have many stores, or
  // an edit undid an escape or a move, this database must hold at least as much, as docs/alias_database.md says.
  absl::Status Verify() const;

  struct Stats {
    int64_t objects = 0, write_records = 0, sets = 0, summarised = 0;
    int64_t rebuilds = 0;     // edits that had to start again: those that take an escape or a set_ away
    int64_t evaluations = 0;  // nodes evaluated since construction
    int64_t steps = 0;        // since construction: rounds of every loop over nodes, sets, accesses and blocks
    int64_t bytes = 0;
  };
  Stats GetStats() const;

  // --- GraphListener: cheap, the work is done by the next query ---
  void OnNodeInserted(NodeId n) override;
  void OnNodeErasing(NodeId n) override;
  void OnNodeMoved(NodeId n, BlockId old_parent) override;
  void OnInputChanged(NodeId n, uint32_t index, ValueId old) override;
  void OnInputRemoved(NodeId n, uint32_t index, ValueId old) override;
  void OnOutputAdded(NodeId n, uint32_t index) override;
  void OnOutputErasing(NodeId n, uint32_t index) override;
  void OnBlockAdded(NodeId n, BlockId b) override;
  void OnTypeChanged(ValueId v) override;
  void OnAttributeChanged(NodeId n, absl::string_view name) override;

  struct State;  // private to alias/

 private:
  explicit AliasDb(std::unique_ptr<State> state);
  State& Flushed() const;
  std::unique_ptr<State> state_;
};

}  // namespace smelt

#endif  // SMELT_ALIAS_ALIAS_DB_H_
