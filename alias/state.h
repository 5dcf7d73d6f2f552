// The inside of AliasDb: objects, sets, contents, the write index, and their evaluation. Private to alias/.
#ifndef SMELT_ALIAS_STATE_H_
#define SMELT_ALIAS_STATE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "smelt/alias/access_index.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/block_tree.h"
#include "smelt/alias/contents_table.h"
#include "smelt/alias/element_table.h"
#include "smelt/alias/loop_table.h"
#include "smelt/alias/set_pool.h"
#include "smelt/alias/small_set.h"
#include "smelt/alias/write_spans.h"
#include "smelt/core/base/check.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/op/effects.h"

namespace smelt {
namespace alias_internal {

// Slots of containers.
constexpr int32_t kAnySlot = -1;
constexpr int32_t kAppended = -2;  // a store beyond the elements the container was made with
constexpr int kMaxElementDepth = 12;

inline const Type& UnwrapOptional(const Type& t) {
  const Type* p = &t;
  while (p->kind() == TypeKind::kOptional) p = &p->element();
  return *p;
}
inline bool MayBeTensor(const Type& t) {
  const Type& u = UnwrapOptional(t);
  return u.IsTensor() || u.kind() == TypeKind::kAny || u.kind() == TypeKind::kUnion;
}
inline bool MayBeContainer(const Type& t) { return IsContainerType(t); }

enum class ObjectKind : uint8_t {
  kFree,
  kTensor,     // storage of its own (and others': a result that may be a view or a copy)
  kView,       // a handle over others' storages
  kContainer,  // made by the graph
  kInput,      // a top-level input
  kElement,    // inside a caller's container: parent, slot
  kPiece,      // inside a container that an operator made: parent, slot
  kConstant,
  kWeight,  // a weight's storage
  kUnknown,
  kSummary,
  kMade,    // all that code which is not seen makes in one run of its node: tensors, containers that hold any of it
  kRandom,  // pseudo locations: the generator, the world
  kWorld,
};

struct Object {
  ValueId def;          // the value whose node makes it
  SetId storage = 0;    // of tensors: storages (refs to objects)
  uint32_t parent = 0;  // of kElement, kPiece
  int32_t slot = -1;    // of those; -1: any. Of weights: the index
  uint32_t loop = 0;    // the innermost loop it is allocated in; an index into loops, 0: none
  // The summary it is a member of, or one that has become a member of that since: State::Find shortens the way.
  mutable uint32_t group = 0;
  uint32_t recent_write = 0;  // the latest write recorded by way of it, if it is still one: most questions end there
  ObjectKind kind = ObjectKind::kFree;
  enum class Empty : uint8_t { kNotAsked, kNo, kYes };
  Empty empty = Empty::kNotAsked;  // whether its type says that it has no elements
  bool tensor = false, container = false;
  bool external = false;  // caller owned
  bool escaped = false;
};

struct NodeRecord {
  enum Flags : uint16_t {
    kEvaluated = 1,
    kQueued = 2,
    kEscapes = 4,
    kGeometry = 8,
    kStores = 16,
    kMovesStorage = 32,
    kInputsChanged = 64,
    kWide = 128,        // it has many arguments or results: what changes among them is noted one by one
    kUnrecorded = 256,  // its accesses are not recorded yet: see State::unrecorded
  };
  static constexpr size_t kMany = 32;
  uint32_t generation = 0;
  // The place in the text, counted when everything was evaluated: pre-order, blocks' parameters and results included. 0
  // if it is not known, as for all nodes that were inserted or moved since. Known places stay in order, whatever is
  // edited.
  uint32_t position = 0;
  uint32_t first_write = 0, first_read = 0;
  uint16_t flags = 0;
  uint8_t turns = 0;  // evaluations in this Propagate
};

// A hash of indices that are met in order: neighbours lie side by side (a table's slot depends on all but the low 7
// bits).
struct InOrder {
  size_t operator()(uint32_t i) const { return (size_t{i} << 7) | (i & 127); }
};

// The place of a handle's bytes: exactly, as a geometry over its one storage, and as a box in the index space of some
// object, for which no sizes are needed. Both hold at once; either may be missing.
struct Interval {
  int64_t key = 0;  // a dimension of the space, or a pseudo-dimension (which piece of a split)
  std::optional<Expr> lo, hi;
  int64_t step = 1;
};
struct Geom {
  // The fields that most comparisons read come first.
  uint32_t storage = 0;       // its only storage; 0: it may live in several, or anywhere in them
  uint32_t space = 0;         // the object whose index space the box is in; 0: nothing is known
  uint32_t space_parent = 0;  // the object that the space's object is a view of; 0: it is the root
  bool space_injective = false;
  bool injective = false;  // different indices of the handle are different bytes
  bool exact = false;      // `geometry` says where it is
  bool absolute = false;   // its offset counts from the storage's begin, not from the caller's tensor's first element
  bool item_known = true;  // false: geometry.dtype is not known, but is that of the storage's own tensor
  bool own_dtype = false;  // elements are of the dtype of the storage's own tensor, whatever that is
  bool space_varies = false;  // the space is that of a view in a loop: another one in each iteration
  // The intervals of the box that are constants with step 1, and whether these are all of them. Most boxes are such,
  // and are compared without expressions.
  struct Fixed {
    int64_t key, lo, hi;
  };
  bool all_fixed = true;
  absl::InlinedVector<Fixed, 1> fixed;
  std::vector<Interval> box;
  SymbolicGeometry geometry;
  // This handle's dimensions, as keys of the space. Beyond `front` the key is dimension + rest. With `lost` none is
  // known.
  int rank = -1;
  bool lost = false;
  bool negative_ok = true;  // rank unknown: dimension -k is the space's -k
  std::vector<int64_t> front;
  int64_t rest = 0;
  std::vector<Expr> sizes;  // if rank >= 0 and they are known
  bool has_sizes = false;
  std::optional<DType> dtype;
  uint32_t expressions = 0;  // of the views that lead here: how many added one
  // Geometries of one frame state their places in the same terms. 0 if nothing is known exactly.
  uint8_t Frame() const { return exact ? 1 + (absolute ? 1 : 0) + (item_known ? 2 : 0) : 0; }
};

// Facts that hold for all of a set. They are kept because branches and loops pass the same sets on repeatedly.
struct SetSummary {
  uint64_t epoch = 0;
  // Every member is a tensor in a storage of its own that only the graph knows. Two such sets share memory only if they
  // share a member.
  bool plain = false;
  // The storages of the members, if these are tensors in storages that only the graph knows and that are all
  // distinguished. Two such sets share memory only if they share a storage. 0 if they are not.
  SetId private_storages = 0;
  // If plain: the positions between which all writes of the members lie. Without writes first > last.
  uint32_t first_write = 0, last_write = 0;
};

// A query looks at so many writes of a location that do not touch its subject, and compares so many pairs of handles.
// Beyond that it answers "may".
constexpr size_t kManyPairs = 256;
constexpr int kManyComparisons = 64;  // of views and their arguments
class Looks {
 public:
  // Counts a write of n, to one of so many handles, that was looked at in vain. Returns whether it was one too many. A
  // call of unknown code may write very much of one location.
  bool Tired(NodeId n, size_t handles) {
    constexpr int kManyNodes = 64, kManyWrites = 1024;
    nodes_ += n != last_ ? 1 : 0;
    last_ = n;
    writes_ += static_cast<int>(handles);
    return nodes_ > kManyNodes || writes_ > kManyWrites;
  }

 private:
  NodeId last_;
  int nodes_ = 0, writes_ = 0;
};

// An edit of a graph of up to so many nodes may cost as much as building. In a larger one it may cost no more steps
// than edits have paid for, each a few, and building the first ones: see AliasDb::State::credit. Below 0 nothing is
// paid for at first, so that tests with small graphs see what happens then.
inline int64_t solved_at_once = 256;

// An access to one of so many pairs of a handle and a storage is a record for each. An access to more is one record: see
// AliasDb::State::set_lists. 1 in tests, so that graphs with small sets have such records too.
inline size_t few_pairs = 8;

// Names for the pictures and the explanations (names.cc).
const char* KindName(ObjectKind k);
std::string Json(absl::string_view s);
// In program order: inputs, then each node's outputs and, before their nodes, its blocks' parameters.
std::vector<ValueId> AllValues(const Graph& g);

}  // namespace alias_internal

struct AliasDb::State {
  using SetId = alias_internal::SetId;
  using Ref = alias_internal::Ref;
  using Object = alias_internal::Object;
  using Access = alias_internal::Access;
  using Kind = alias_internal::ObjectKind;
  using NodeRecord = alias_internal::NodeRecord;

  // Spaces are objects, or from here on values that may be one of several.
  static constexpr uint32_t kFirstJoinedSpace = uint32_t{1} << 30;
  static constexpr uint32_t kUnknown = 1, kRandom = 2, kWorld = 3, kFirstObject = 4;

  State(Graph& graph, Options o) : g(graph), options(o), tree(graph), loops(graph, tree), writes(tree), reads(tree) {}

  Graph& g;
  Options options;
  alias_internal::BlockTree tree;
  int64_t steps = 0;
  alias_internal::SetPool sets;

  struct ValueRecord {
    uint32_t generation = 0;
    SetId points_to = 0;
    uint32_t own : 29 = 0;  // the object that the value's node makes for it
    uint32_t type : 3 = 0;  // what the graph says of its type: TypeBits, or 0: not asked yet
    // The scope, as positions: its node's, the last inside its node, and its block's return node's (as index of the
    // node). 0 if not known. Most queries about scopes need no more, and so read nothing of the graph.
    uint32_t from = 0, after = 0, scope = 0;
  };
  // TypeBits. The first alone: a tensor and nothing else.
  static constexpr uint32_t kMayBeTensor = 1, kMayBeContainer = 2, kNeither = 4;
  std::vector<ValueRecord> values;
  std::vector<Object> objects;
  std::vector<bool> is_summary;  // by object: many are asked about at once
  std::vector<uint32_t> free_objects, pending_free;
  std::vector<NodeRecord> nodes;
  alias_internal::LoopTable loops;
  alias_internal::ContentsTable contents;
  alias_internal::ElementTable elements;
  using Elements = alias_internal::ElementTable::Elements;
  absl::flat_hash_map<std::string, int32_t> attribute_slots;
  struct Group {
    uint32_t members = 0;
    uint32_t first = 0;  // one of them
  };
  absl::flat_hash_map<uint32_t, Group> groups;           // summaries that are not part of another
  std::vector<Ref> joined_containers;                    // members of summaries that may hold more than is known there
  absl::flat_hash_map<uint32_t, SetId> moved_storage;    // by set_
  absl::flat_hash_map<uint32_t, SetId> unmoved_storage;  // of those: where their definitions put them
  absl::flat_hash_map<int, uint32_t> weight_storages;
  absl::flat_hash_map<const Graph*, std::unique_ptr<OpEffects>> summaries;
  absl::flat_hash_set<const Graph*> summarising;
  // Everything that a set reaches, at any time; nothing if that is more than is looked at.
  absl::flat_hash_map<SetId, std::optional<SetId>> reach_at_any_time;
  std::vector<NodeId> external_readers;
  std::vector<uint32_t> reader_marks;  // by node: the last AddReader that has met it
  uint32_t reader_mark = 0;
  std::vector<uint32_t> object_marks;  // by object: the last Summarise that has met it
  uint32_t object_mark = 0;
  uint32_t external_distinct = 0;  // as Contents::distinct
  bool external_stores = false;
  absl::flat_hash_set<int32_t> external_attributes;  // slots that SetAttr writes in objects of the caller's
  bool external_moved = false;  // set_ on a handle of the caller's: any of its handles may be that one
  struct StoreAt {
    uint32_t holder, at;  // where in its contents' stores
  };
  // Node index -> its stores.
  absl::flat_hash_map<uint32_t, absl::InlinedVector<StoreAt, 1>, alias_internal::InOrder> stores_of_node;
  bool coarse = false;  // some container has had many stores: a database that has followed edits may know less of it
  std::vector<std::pair<uint32_t, alias_internal::Store>> new_stores;  // of the node at hand: by container
  // Object -> the nodes that change its geometry.
  absl::flat_hash_map<uint32_t, alias_internal::SmallSet<NodeId, 3>> geometry_changes;
  int64_t geometry_writers = 0;
  int64_t summarised = 0, rebuilds = 0, evaluations = 0;

  alias_internal::AccessIndex writes, reads;
  // An access to one of many handles in one of many storages is recorded once. Storages that share such an access share
  // a list for them (kSetList | k), beside their lists of accesses to few.
  mutable std::vector<uint32_t> set_lists;  // k -> the one that it has joined, or itself
  absl::flat_hash_map<uint32_t, uint32_t, alias_internal::InOrder> set_list_of;  // list of a storage -> k
  absl::flat_hash_map<SetId, uint32_t> list_of_storages;                         // sets that have had an access -> k
  struct AllStoragesOf {
    uint64_t epoch = 0;
    SetId storages = 0;
  };
  absl::flat_hash_map<SetId, AllStoragesOf> all_storages;  // valid if of this epoch
  uint64_t storage_epoch = 1;
  bool reads_active = false;
  // While building, only the last evaluation of a node decides what it accesses. So nodes in loops, and those that are
  // evaluated again, have their accesses recorded at the end, in the order of the text.
  std::vector<NodeId> unrecorded;
  bool deferring = false;        // until then
  bool defers_accesses = false;  // of the node at hand
  bool any_async = false;        // some write is a fork's

  // --- pending work ---
  std::vector<NodeId> queue;
  NodeId resolving;             // the outermost loop that is being solved again
  std::vector<NodeId> waiting;  // for its result
  bool needs_rebuild = false;
  bool stale = false;  // something an edit took away still counts as being there
  int64_t paid = 0;    // by the edits since the last rebuild, in nodes
  // Each edit pays for some steps, as building has paid for the first ones. When they are used up, what the edits still
  // make necessary is done without taking anything away: then no set changes more often than its bound allows.
  int64_t credit = 0;               // in steps
  int64_t cache_credit = 0;         // the same for geometries and spans of writes that are dropped and needed again
  bool overdrawn = false;           // until the queue is empty: sets, storages and contents only grow
  bool keeps_freed = false;         // since the last rebuild it was overdrawn: sets may hold what is gone
  bool options_distrusted = false;  // some node changes a geometry: types of arguments do not tell what a view is
  bool monotone = false;            // sets only grow: while building, and while a loop is solved again
  bool building = false;            // from nothing
  bool making_first = false;        // the node at hand is being evaluated for the first time: nothing uses it yet
  bool growing = false;             // the node at hand has been evaluated many times: its results only grow
  // Set if something changed since the caches below were filled: any fact, the bytes that handles cover, the objects
  // that values reach.
  bool dirty = false, geometry_changed = false, reach_changed = false;
  uint32_t walk_loop = 0;
  uint32_t last_position = 0;                       // while building: how much of the text has been walked
  uint32_t top_scope = 0;                           // the top block's return node's index
  absl::flat_hash_map<uint32_t, uint64_t> touched;  // objects whose storage changed, and when
  uint64_t touched_epoch = 0;
  absl::flat_hash_map<uint32_t, uint64_t> forced;
  absl::flat_hash_set<uint32_t> resolve_loops;  // outermost loops to solve again: what is known there may be too much
  absl::flat_hash_set<uint32_t> must_resolve;   // of those: what is known there may be wrong
  // By index, of nodes in the queue that are wide: which of their arguments and results (of a loop: carried values)
  // have changed, if not all.
  static constexpr uint32_t kAllParts = UINT32_MAX;
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> changed_parts;
  const std::vector<uint32_t>* parts = nullptr;  // of the node at hand; none: all

  // --- caches, dropped when dirty ---
  //
  // The part of an object's geometry that suffices for nearly all comparisons.
  struct GeomSlot {
    uint32_t epoch = 0, index = 0;
    uint32_t space = 0;
    uint8_t frame = 0;  // Geom::Frame
    bool has_box = false, space_injective = false, space_varies = false;
    bool open = false;         // the geometries of what it is a view of are being made
    bool is_interval = false;  // the box is one interval of constants, in a space whose indices are different bytes
    int32_t key = 0, lo = 0, hi = 0;  // that interval
    GeomSlot() = default;
    GeomSlot(uint32_t epoch, uint32_t index, const alias_internal::Geom& geom);
  };
  std::vector<GeomSlot> geom_of;  // by object; valid if of this epoch
  std::deque<alias_internal::Geom> geoms;
  uint32_t geom_epoch = 1;
  bool just_built = false, geoms_are_first = false;  // no geometry has been dropped since all was built
  absl::flat_hash_map<uint32_t, alias_internal::WriteSpans> write_spans;  // by list
  std::vector<alias_internal::SetSummary> set_summaries;                  // by set
  uint64_t summary_epoch = 1, summary_geom_epoch = 0, summary_changes = 0;
  // The values that may be None, as far as they were asked for; valid until the next edit.
  struct MaybeNothing {
    uint64_t edits = 0;
    uint32_t generation = 0;
    bool may_be = false;
  };
  std::vector<MaybeNothing> nothing;
  // One step of the search for the value that a value certainly is (Original), by value; valid until the next edit.
  struct OriginalStep {
    uint64_t edits = 0;
    ValueId of;  // the value that was asked about
    ValueId to;
    bool is_end = false;  // `to` is the result
  };
  std::vector<OriginalStep> original_steps;
  OriginalStep StepToOriginal(ValueId v);
  // The base of an object that is a view of the whole of another handle, by object, as far as the text says so; invalid
  // if it does not. Valid until the next edit.
  struct WholeBase {
    uint64_t edits = 0;
    ValueId base;
  };
  std::vector<WholeBase> whole_bases;
  ValueId WholeBaseOf(uint32_t object);
  // Comparisons that took some work: the questions about a value, one after the other, repeat them.
  struct Compared {
    uint64_t edits = 0;
    uint32_t a = 0, b = 0, epoch = 0;
    bool same_time = false;
    Overlap overlap = Overlap::kUnknown;
  };
  std::vector<Compared> compared;
  uint64_t edits = 1;  // how many there have been
  bool outputs_known = false;
  // The objects that outputs reach, by their place: see OutputKey.
  absl::flat_hash_map<uint32_t, absl::InlinedVector<Ref, 2>> output_refs;
  bool outputs_reach_all = false;  // more than is looked at

  // --- evaluation (objects.cc, contents.cc, calls.cc, accesses.cc, evaluate.cc, evaluate_nodes.cc, build.cc) ---
  void Build();
  void Reset();
  void Flush();
  void Propagate();
  void Push(NodeId n, uint32_t use = kAllParts);  // use: which of its arguments has changed
  void NotePart(NodeId n, bool as_result, uint32_t use);
  void PaidByEdit();
  int64_t AllSteps() const { return steps + tree.steps() + sets.steps() + writes.steps() + reads.steps(); }
  bool Affords(int64_t steps_to_come) const;
  bool AffordsCache(int64_t steps_to_come) const;
  void Spend(int64_t steps_to_come);  // for an edit; from where it cannot afford that, sets only grow
  int64_t CostOf(NodeId n, const std::vector<uint32_t>* changed) const;
  void NoteGeometry(NodeId n);  // an edit of n may change geometries
  bool ChangesGeometry(NodeId n) const;
  bool DecidesGeometry(NodeId n) const;
  bool ChangesNumbers(NodeId n) const;
  bool FlowsOn(ValueId v);
  bool OnlyComputes(NodeId n);
  void ResolveFrom(NodeId n);
  void ResolveUsers(ValueId v);  // which holds less: loops that use it may go on handing it to themselves
  void WantRebuild();
  void PushUsers(ValueId v);
  void PushReaders(uint32_t object, bool changed = true);
  bool KeepMore(uint32_t container);  // of a blurred one: false if its readers know all that it holds now
  // Evaluates n and what is inside it, in program order.
  void Walk(NodeId n);
  void WalkBlock(BlockId b);
  struct Walking;
  void Enter(NodeId n, std::vector<Walking>* stack);
  void Enter(BlockId b);
  void Leave(const Walking& at);
  void Evaluate(NodeId n, bool first);
  void EvaluateInputs(size_t from = 0);
  void EvaluateGeneric(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed);
  void EvaluateCall(NodeId n, const Node& node, const OpEffects& e, bool first, bool inputs_changed);
  void EvaluateKind(NodeId n, const Node& node, const OpEffects& op, bool first, bool inputs_changed);
  void EvaluatePure(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateConstant(NodeId n, const Node& node, bool first);
  void EvaluateConstruct(NodeId n, const Node& node, bool first, bool inputs_changed);
  void EvaluateElements(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateConstantChunk(NodeId n, const Node& node, const OpEffects& op, bool first);
  void AddAccessesOfWait(NodeId n, const Node& node, const OpEffects& op);
  void RecordAccessesOf(NodeId n);
  void RecordUnrecorded();
  void EvaluateWait(NodeId n, const Node& node, const OpEffects& op, bool first);
  void EvaluateFork(NodeId n, const Node& node, bool first, bool inputs_changed);
  void EvaluateIf(NodeId n, const Node& node, bool is_cond, bool first);
  void EvaluateLoop(NodeId n, const Node& node, bool is_while, bool first);
  SetId WithoutTrips(ValueId out, const Type& type, SetId init);
  void AddReadsOfControl(NodeId n, const Node& node, EffectKind kind);
  bool RunsOnce(const Node& loop) const;
  std::optional<size_t> BranchTaken(const Node& branch) const;  // nothing: it is not known
  class CopySolver;
  struct CopyMark {
    uint32_t epoch = 0, order = 0, low = 0;
    bool open = false;
  };
  std::vector<CopyMark> copy_marks;  // by value
  uint32_t copy_epoch = 0;
  void SolveCopies(NodeId loop);  // of an outermost loop, while sets only grow
  void SetParam(NodeId n, BlockId b, size_t i, SetId s, bool first);
  SetId ResultOf(BlockId b, size_t i);  // none: 0
  void CountGeometryWriter(NodeId n, uint16_t had);
  void Forget(NodeId n, NodeRecord& r, bool push);  // its accesses and stores; push: who reads the containers
  void AddGeometryChange(uint32_t object, NodeId n);
  void AddGeometryChanges(SetId handles, NodeId n);
  void DropGeometryChange(uint32_t key, NodeId n);  // key: of a handle, or kUnknown
  void ForgetAccesses(NodeRecord& r);
  void ForgetStores(NodeId n, NodeRecord& r, bool push);
  std::vector<std::pair<uint32_t, alias_internal::Store>> StoresOf(NodeId n);
  alias_internal::Contents* FindContents(uint32_t container) { return contents.Find(container); }
  alias_internal::Contents& ContentsOf(uint32_t container) { return contents.Of(container); }
  // Called when the container's node has been evaluated: computes again what the container was made with.
  void MakeContents(uint32_t own, bool first, bool inputs_changed);
  void MakePartsOf(uint32_t own);
  void ContainerMade(uint32_t own, uint64_t made_of, bool inputs_changed);
  void AddStore(uint32_t holder, const alias_internal::Store& s);
  void DropStore(uint32_t holder, uint32_t at);
  void SumStore(uint32_t holder, uint32_t at);        // after store `at` has changed
  void SumAgain(uint32_t holder, size_t leaves);      // all of it
  void StoresChanged(uint32_t holder, bool changed);  // readers are pushed if they are told something else
  void FollowJoined();                                // joined_containers
  void RefreshPieces(uint32_t container);
  SetId ResultSet(NodeId n, const Node& node, const OpEffects& e, size_t k);
  int32_t SlotRead(NodeId n, const Node& node, const ResultEffects& r, SetId p);
  void AddAccesses(NodeId n, absl::Span<const ValueId> inputs, const OpEffects& e, uint8_t extra_bits);
  void AddAccess(NodeId n, Ref object, Ref storage, uint8_t bits, size_t arg);
  // The same for one of the handles, in whichever of its storages.
  void AddAccessesTo(NodeId n, SetId handles, uint8_t bits, size_t arg);
  uint32_t RecordAccess(uint32_t list, Access a);
  SetId TensorsOf(SetId s);
  SetId ContainersOf(SetId s);
  SetId AllStorages(SetId handles);  // all of them, however many
  void AddStores(NodeId n, const Node& node, const OpEffects& e);
  bool CommitStores(NodeId n, absl::Span<const std::pair<uint32_t, alias_internal::Store>> had);  // whether others
  void ExternalContentsChange();
  bool MayHoldOthers(uint32_t object, int32_t slot);
  void MoveStorage(NodeId n, ValueId handle, SetId target);
  void Escape(SetId set);
  void EscapeObject(uint32_t object);
  void ResolveLoop(NodeId loop);
  OpEffects EffectsOf(const Node& node);
  // The same, without a copy if they are those of the operator: else they are in *made.
  const OpEffects& EffectsOf(const Node& node, OpEffects* made);
  const OpEffects& SummaryOf(Graph& sub);

  SetId PointsTo(ValueId v) const {
    if (v.index >= values.size()) return 0;
    const ValueRecord& r = values[v.index];
    return r.generation == v.generation ? r.points_to : 0;
  }
  ValueRecord& RecordOf(ValueId v);
  NodeRecord& RecordOf(NodeId n);
  void SetPointsTo(ValueId v, SetId s, NodeId by, bool first);
  uint32_t Own(ValueId v, Kind kind, bool tensor, bool container);
  void SetStorage(uint32_t object, SetId storage);
  uint32_t NewObject(Kind kind, ValueId def);
  void FreeOwn(ValueId v);
  uint32_t ElementObject(uint32_t parent, int32_t slot, bool tensor, bool container, Kind kind);
  uint32_t LoopOf(NodeId n);
  NodeId OutermostLoop(NodeId n) const { return loops.OutermostOf(n); }
  // The value that n passes on may be less than before. The loop around it, if there is one, is solved again, because
  // its back edges may keep alive what no longer comes in. If handles change storages (set_), everything is solved
  // again, because they act as loops do.
  void ResolveAround(NodeId n);
  SetId Join(SetId a, SetId b);
  SetId Summarise(SetId s);
  SetId Grown(SetId before, SetId s);     // while overdrawn: both; more than a few are a summary
  uint32_t Find(uint32_t object) const {  // its summary, or itself
    while (objects[object].group != 0) {
      const uint32_t group = objects[object].group, further = objects[group].group;
      if (further == 0) return group;
      object = objects[object].group = further;
    }
    return object;
  }
  SetId Shift(SetId s, uint32_t loop);
  SetId OldContents(SetId s, uint32_t holder_loop);
  SetId Storages(Ref r);
  SetId StoragesOfSet(SetId s);
  uint64_t Fingerprint(SetId s);
  void CollectSets();  // nothing but the state may hold a set then
  int64_t Bytes() const;
  SetId ContentOf(Ref holder, int32_t slot, NodeId reader);
  SetId ContentNow(Ref holder, int32_t slot, NodeId reader);  // of a container that is not a summary
  SetId OfType(SetId s, const Type& type);                    // what of the set can be of the type
  SetId StoredAtAnyTime(const alias_internal::Store& s, uint32_t holder_loop);
  void NoteReader(uint32_t object, NodeId reader);
  void AddReader(NodeId reader, std::vector<NodeId>* readers, uint32_t* distinct);
  SetId ContentOfSet(SetId s, int32_t slot, NodeId reader);
  SetId BaseContent(uint32_t object, int32_t slot, int32_t* count);
  SetId MadeWith(uint32_t object, std::vector<SetId>* slots);
  SetId PieceStorage(uint32_t container, uint32_t piece);
  Type TypeOfElement(uint32_t container, int32_t slot);
  Type TypeOfObject(uint32_t object, int depth = 0);
  SetId Reach(SetId s, NodeId reader = NodeId());
  std::optional<SetId> ReachAtAnyTime(SetId s);  // kept until something changes; nothing: a great deal
  int Precedes(NodeId a,
               NodeId b) const;  // 1: a before b; 0: b not after a (or neither); within one run of their common block
  bool MayComeBefore(NodeId a, NodeId b, Ref holder);
  uint32_t ListOf(uint32_t storage) const;
  uint32_t SetListOf(uint32_t list) const;  // the list of accesses to many that goes with a storage's list; 0: none
  uint32_t FindSetList(uint32_t k) const;
  uint32_t SetListFor(SetId storages);  // which share it from now on
  uint32_t JoinSetLists(uint32_t a, uint32_t b);
  void MoveAccesses(uint32_t from, uint32_t to);  // of a storage's list, and those to many
  void MoveList(uint32_t from, uint32_t to);
  // Appends the lists that hold the accesses to a storage, each once.
  template <typename Lists>
  void AddListsOf(uint32_t storage, Lists* lists) const {
    const uint32_t list = ListOf(storage);
    if (std::find(lists->begin(), lists->end(), list) != lists->end()) return;
    lists->push_back(list);
    const uint32_t of_sets = SetListOf(list);
    if (of_sets != 0 && std::find(lists->begin(), lists->end(), of_sets) == lists->end()) lists->push_back(of_sets);
  }
  // Calls f for each handle of an access and each storage in which it is touched.
  template <typename F>
  void ForEachPair(const Access& a, const F& f) {
    for (Ref r : sets.Refs(a.handles)) {
      const bool of_container = (a.bits & alias_internal::kOfContainer) != 0;
      const SetId storages = alias_internal::SetPool::IsSingle(a.handles) ? a.storages
                             : of_container                               ? alias_internal::SetPool::Single(r)
                                                                          : Storages(r);
      for (Ref s : sets.Refs(storages)) f(r, s);
    }
  }
  // In `reads` each list is two: only few accesses conflict with reads of geometry alone.
  static uint32_t ReadList(uint32_t list, bool geometry_only) {
    const uint32_t of_sets = list & alias_internal::kSetList;
    return of_sets | (2 * (list & ~alias_internal::kSetList) + (geometry_only ? 1 : 0));
  }
  static uint32_t ListOfReads(uint32_t read_list) {
    return (read_list & alias_internal::kSetList) | (read_list & ~alias_internal::kSetList) / 2;
  }
  // The handles of one list of pieces are distinguished by index only if the index is known: a change of one's geometry
  // or storage counts for all.
  uint32_t HandleKey(uint32_t object) const {
    return objects[object].kind == Kind::kPiece ? objects[object].parent : object;
  }
  // Returns whether some node changes the handle's geometry. Handles of the caller's may all be one.
  bool GeometryChanges(uint32_t object) const {
    if (geometry_changes.empty()) return false;
    return geometry_changes.contains(HandleKey(object)) ||
           ((objects[object].external || objects[object].escaped) && geometry_changes.contains(kUnknown));
  }
  std::optional<int64_t> ConstantInt(ValueId v) const;
  int32_t AttributeSlot(const Node& node);

  // --- queries (query.cc) ---
  // The value before its type was refined: the same object.
  ValueId Unrefined(ValueId v);
  // Returns whether v may also be None, or not initialized: on some way to it, or because there is no element.
  // Otherwise the set says what v is.
  bool MayBeNothing(ValueId v);
  bool FindNothing(ValueId v);
  bool StoragesMayOverlap(Ref a, Ref b, bool ignore_age) const;
  bool HandlesMayBeSame(Ref a, Ref b, bool ignore_age) const;
  bool AnyMayBeSame(SetId a, SetId b, bool ignore_age) const;  // any handle of the one and any of the other
  bool RefsMayAlias(Ref a, Ref b, bool ignore_age);
  bool SetsMayAlias(SetId a, SetId b, bool ignore_age);
  bool AnyStoragesMayOverlap(SetId a, SetId b, bool ignore_age) const;  // any of the one and any of the other
  // Returns whether the access touches `object`'s bytes (as_container: the list, dictionary or object itself).
  bool AccessHits(const Access& w, Ref object, SetId storages, bool as_container, bool ignore_age);
  bool HandleHits(const Access& w, Ref touched_handle, Ref object, bool as_container, bool ignore_age);
  // As AccessHits, for a value that may be the object: its type decides, too.
  bool AccessHitsValue(const Access& w, ValueId v, Ref object, bool ignore_age);
  const Type& TypeOfAccess(const Access& w) const;  // of the argument by which it happens
  // --- has_writers (written.cc) ---
  bool Written(ValueId v, bool in_scope_only);
  const alias_internal::WriteSpans* SpansOf(uint32_t list);  // follows the list from then on; null: not paid for
  bool IsPlain(Ref r) const;                                 // as SetSummary::plain, of one
  bool IsPlainSet(SetId set) { return sets.IsSingle(set) ? IsPlain(sets.SingleRef(set)) : SummaryOfSet(set).plain; }
  const alias_internal::SetSummary& SummaryOfSet(SetId set);  // of more than one
  SetId PrivateStorages(SetId set);                           // as SetSummary::private_storages, of any set
  void DropCaches();
  // --- scopes (scopes.cc) ---
  void SetPosition(NodeId n);  // while building: n is what comes next in the text
  void SetScope(ValueId v, uint32_t from, uint32_t after, uint32_t scope);
  void ForgetPosition(NodeId n);  // its blocks' parameters' too; what is inside is its own affair
  uint32_t TypeOf(ValueId v) {    // TypeBits
    const bool known = v.index < values.size() && values[v.index].generation == v.generation;
    return known && values[v.index].type != 0 ? values[v.index].type : AskType(v);
  }
  uint32_t AskType(ValueId v);
  bool InScopeTogether(ValueId a, ValueId b) const;
  NodeId AncestorIn(BlockId b, NodeId n) const { return tree.AncestorIn(b, n); }
  bool ReachableByCaller(ValueId v);
  void FillOutputs();
  uint32_t OutputKey(uint32_t storage) const {  // the pieces of one container may be each other
    const uint32_t f = Find(storage);
    return objects[f].kind == Kind::kPiece ? objects[f].parent | uint32_t{1} << 31 : f;
  }
  bool WritesTo(NodeId n, ValueId v);
  void ActivateReads();

  // --- geometry (geometry.cc) ---
  const alias_internal::Geom& GeomOf(uint32_t object);
  bool HasGeom(uint32_t object) const { return object < geom_of.size() && geom_of[object].epoch == geom_epoch; }
  alias_internal::Geom MakeGeom(uint32_t object, bool as_made = false);
  alias_internal::Geom GeomOfJoined(ValueId v);
  uint32_t DistinctStorage(SetId storages) const;
  bool IsInjective(SetId handles);
  bool GeometryMayChangeBefore(uint32_t object, NodeId n);
  void ApplyView(uint32_t object, NodeId n, const alias_internal::Geom& base, uint32_t base_object, bool base_changes,
                 alias_internal::Geom* out);
  enum class Disjointness { kDisjoint, kSame, kOverlap, kUnknown };
  // Compares two objects. With same_time both are in one iteration of each loop. The contents of a view that a loop
  // makes anew are compared only then.
  Overlap CompareObjects(uint32_t a, uint32_t b, bool same_time);
  Overlap CompareGeometries(uint32_t a, uint32_t b, bool same_time, bool both_exact);  // looking at their expressions
  // *left is the number of views and arguments that a question may still compare.
  bool SameByStructure(uint32_t a, uint32_t b, int depth, int* left);
  bool MayBeCopy(uint32_t object);  // a view, or in some runs a copy of what it is a view of
  bool SameArgument(ValueId a, ValueId b, int depth, int* left);
  bool IsEmpty(uint32_t object);
  // --- positions (positions.cc) ---
  std::optional<Expr> IntOf(ValueId v);
  std::optional<Expr> IntOf(ValueId v, int depth, int* left);
  std::optional<Expr> IntOfNode(ValueId v, int depth, int* left);
  struct PlusConstant {
    ValueId value;
    int64_t constant;
  };
  std::optional<PlusConstant> PartsOfSum(ValueId v) const;  // if it is the sum of a value and a constant
  std::optional<std::vector<Expr>> IntsOf(ValueId v);
  std::optional<Expr> PositionOf(const Expr& bound, int64_t key, const alias_internal::Geom& base, uint32_t object,
                                 NodeId n);
  void PlaceExactly(uint32_t object, NodeId n, const alias_internal::Geom& base, int piece, alias_internal::Geom* out);
  void PlaceInStorage(const Node& node, const alias_internal::Geom& base, alias_internal::Geom* out);
  bool IsWholeSlice(const Node& node);
  uint32_t SameHandle(uint32_t object, int* left);
  ValueId Original(ValueId v);
  bool SameView(ValueId a, ValueId b, int depth, int* left);
  bool IsOneHandle(uint32_t object) const;
  void TakeAskedSizes(const Object& o, alias_internal::Geom* out);

  // --- moves (moves.cc) ---
  struct Edge {
    NodeId to;
    std::string why;
  };
  // The results of one search for dependences, so that it looks at each node only once.
  struct Search {
    NodeId to;                                         // the node to reach, which is never `seen`
    absl::flat_hash_set<uint32_t> seen;                // nodes, by index
    absl::flat_hash_map<uint64_t, uint64_t> all_seen;  // list of accesses -> from which node on, by its order
    bool to_listed = false;
    absl::flat_hash_map<uint32_t, std::vector<Access>> of_to;  // by list: what `to` does, once it is listed
    bool only_first = false;                                   // one node other than `to` is enough
    int64_t left = INT64_MAX;                                  // steps that it may still take
    bool IsExhausted() const { return left < 0; }
  };
  // Questions about moves share a number of steps, as edits do: see `credit`. A question that would take more than is
  // left, and more than a few, is answered as if the nodes depended on each other.
  int64_t move_credit = 0;
  int64_t BeginSearch(Search* search);               // returns the steps that it may take
  void EndSearch(const Search& search, int64_t of);  // of: what BeginSearch returned
  void Step(Search* search, int64_t count = 1) {
    steps += count;
    search->left -= count;
  }
  void Neighbours(NodeId n, NodeId limit, bool forward, bool want_why, Search* search, std::vector<Edge>* out);
  void AccessesOf(NodeId n, Search* search, absl::InlinedVector<NodeId, 8>* inside,
                  absl::InlinedVector<Access, 8>* out);
  void AddListsToLookAt(Search* search, absl::InlinedVector<Access, 8>* accesses);
  Kind KindOf(const Access& a) const {  // of its storage; of many, they are memory
    return a.IsOfOne() ? objects[alias_internal::ObjectOf(a.storage())].kind : Kind::kTensor;
  }
  bool AnyHits(const Access& w, const Access& a, bool as_container, bool ignore_age);
  bool Path(NodeId from, NodeId to, bool forward, bool skip_direct, std::string* why);
  std::vector<NodeId> Moving(NodeId n, NodeId limit, bool forward);
  bool MovesAlone(NodeId n, NodeId limit, bool forward);
  std::string DescribeNode(NodeId n) const;

  // --- words (names.cc) ---
  std::string ObjectName(uint32_t object) const;
  std::string RefName(Ref r) const;
  std::vector<std::string> Names(SetId set) const;  // sorted

  // --- why (why.cc) ---
  bool Holds(ValueId v, Ref target);
  // Goes one edge back from `v`, which holds `target`: appends the edge to `out` and returns the value that it comes
  // from; invalid at the end of the path. A view's edge replaces `target` by the object that it is a view of, in
  // `storage`.
  ValueId StepBack(ValueId v, Ref* target, Ref storage, const absl::flat_hash_set<ValueId>& seen,
                   std::vector<std::string>* out);
  void TraceBack(ValueId v, Ref target, Ref storage, std::vector<std::string>* out);

  // --- comparison with a fresh build (verify.cc): the first difference as an error ---
  absl::Status VerifyValue(ValueId v, State& fresh, bool summarised);
  absl::Status VerifyOrder();
  absl::Status VerifyOrderOf(const alias_internal::AccessIndex& index, uint32_t first, NodeId n);
  std::vector<std::string> NamesToCompare(SetId set) const;
  std::vector<std::string> WritesToCompare(NodeId n);
};

}  // namespace smelt

#endif  // SMELT_ALIAS_STATE_H_
