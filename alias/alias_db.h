// Which values of a graph share memory, and who writes it. Live: it listens to the graph's edits and follows each at
// the cost of what the edit touches; it is never rebuilt from scratch in between.
//
//   std::unique_ptr<AliasDb> db = AliasDb::Build(graph);
//   db->Alias(a, b);                       // AliasAnswer::kNo, kMay or kMust
//   db->HasWriters(v);                     // some node writes v's bytes while v is in scope
//   db->Memory(v).locations;               // the storages v may live in
//   graph.Erase(n);                        // db follows
//   db->CanMoveBefore(n, m, &reason);
//
// How it works. Values hold *objects*: tensor handles, lists, dictionaries, tuples, objects of classes. A tensor handle
// lives in one or more *locations* (storages); a view is a handle of its own over its base's locations, with the region
// of bytes it covers. Aliasing is a set of constraints over values, back edges and zero-trip edges of loops included,
// solved in one pass over the program plus what the back edges change. What was allocated in an earlier iteration is
// told from what this one allocated. Writes are a separate index: for each location its writers, with the region each
// writes.
//
// Answers: kNo and kMust are proven; kMay is all else. "Share memory" means a common byte while both are in scope;
// lists, dictionaries and objects: being one object. A tensor that changes geometry (t_, resize_, set_) counts as
// living in the whole of its locations. Inputs may overlap in any way, unless Options::distinct_inputs.
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

// A location: a storage, as far as the analysis tells storages apart.
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

// Where a tensor value lives.
struct ValueMemory {
  std::vector<LocationId> locations;  // more than one: one of them
  // Proven: offset, sizes and strides over the only location. For inputs relative to the input's own first element, for
  // weights to the storage. Absent where it is not known, and where the handle's geometry is changed by some node.
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
    // A value's set of objects is exact up to this size; beyond, its members are summarised: one summary object, which
    // every member may alias.
    int max_set = 32;
    // The caller promises that different top-level tensor inputs, and what they hold, share no memory.
    bool distinct_inputs = false;
    // Verify() after every flush of edits; CHECKs. For tests.
    bool verify_edits = false;
  };

  // `graph` must outlive the database. O(nodes and edges).
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
  // As MayAlias, or something that one reaches (elements of elements) and the other or something it reaches.
  bool MayContainAlias(ValueId a, ValueId b) const;
  bool MayContainAlias(absl::Span<const ValueId> a, absl::Span<const ValueId> b) const;

  // --- memory ---
  ValueMemory Memory(ValueId v) const;
  Location Describe(LocationId l) const;
  // Of the same location; whether two values' bytes are disjoint, the same, or neither is proven. Scopes do not matter.
  Overlap CompareRegions(ValueId a, ValueId b) const;
  // The storage may be reached by the caller after the call: through an input, an output, or what escaped.
  bool ReachableByCaller(ValueId v) const;

  // --- writes ---
  // Some node writes v's bytes (of a list: the list itself) while v is in scope, or is the node that defines v.
  // Changing a geometry is no write.
  bool HasWriters(ValueId v) const;
  // The same anywhere in the graph, in scope or not.
  bool IsEverWritten(ValueId v) const;
  std::vector<Writer> Writers(ValueId v, bool geometry_too = false) const;  // anywhere, in program order
  // Whether n, or a node in its blocks, may write bytes of v.
  bool WritesTo(NodeId n, ValueId v) const;
  // The last node of n's block before n that may write v's bytes, itself or by its blocks. Invalid if there is none.
  NodeId LastWriterBefore(ValueId v, NodeId n) const;
  // v is made by its node in memory of its own that nobody else knows of at that point, and it is all that v can be.
  bool OwnsItsMemory(ValueId v) const;
  // Of a value that owns its memory: the first node after n, in the text, that may write any of it. Invalid if there is
  // none.
  NodeId FirstWriterAfter(ValueId v, NodeId n) const;
  // Nodes after n, in n's block, that may read v's bytes, in order.
  std::vector<NodeId> ReadersAfter(ValueId v, NodeId n) const;
  // Nothing writes a or b, through any alias, and not both are reachable by the caller: whether they share memory can
  // change.
  bool SafeToChangeAliasing(ValueId a, ValueId b) const;

  // --- topological moves, within one block ---
  // Whether some legal order of the block has n right before (after) m, what depends on n or n depends on moving along
  // where it lies in between, all other nodes staying. False across blocks and for n == m. *why says what is in the
  // way.
  bool CanMoveBefore(NodeId n, NodeId m, std::string* why = nullptr) const;
  bool CanMoveAfter(NodeId n, NodeId m, std::string* why = nullptr) const;
  // The nodes between n and m that n's move beside m takes along.
  std::vector<NodeId> MovesAlong(NodeId n, NodeId m) const;
  // Does it. The graph is untouched on failure; the error is the reason. The graph must be the one it was built with.
  absl::Status MoveBefore(NodeId n, NodeId m);
  absl::Status MoveAfter(NodeId n, NodeId m);

  // --- explaining, checking ---
  // How a and b come to share memory: a line an edge. Empty if they do not.
  std::vector<std::string> Why(ValueId a, ValueId b) const;
  std::string ToString() const;  // stable order: locations, values' sets, writers
  std::string ToJson() const;    // locations, each value's set, each node's reads and writes
  std::string ToDot() const;     // Graphviz
  std::string ToHtml() const;    // the picture beside the text, writers marked
  // Compares with a fresh build: equal; at least as much where sets are summarised, containers have many stores, or an
  // edit took back what had escaped or moved, as docs/alias_database.md says.
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
