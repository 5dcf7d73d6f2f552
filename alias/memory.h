// The memory that handles live in, and the sets of objects that values hold: joins, summaries, and what earlier iterations
// of loops allocated. Private to alias/.
//
//   Memory memory(state);
//   memory.Join(a, b);   // at most Options::max_set members; beyond that a summary
//   memory.Storages(r);
//
// Invariants: a set that holds a summary holds nothing else, apart from the memory that has escaped. Where sets meet in a
// summary, the heaviest one takes in the others, so no access and no member changes its summary more than a logarithmic
// number of times.
#ifndef SMELT_ALIAS_MEMORY_H_
#define SMELT_ALIAS_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/in_order.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

enum class ObjectKind : uint8_t;

class Memory {
 public:
  explicit Memory(AliasDb::State& s) : s_(s) {}

  void Clear();
  SetId Join(SetId a, SetId b);
  SetId Grown(SetId before, SetId s);  // while overdrawn: both; more than a few are a summary
  // Returns the members of `s` as the next iteration of the loop sees them: its allocations are older ones then.
  SetId Shift(SetId s, uint32_t loop);
  // Returns the contents (or the storage) of an older instance of a holder that is allocated in `holder_loop`, if those of
  // the current one are `s`.
  SetId OldContents(SetId s, uint32_t holder_loop);
  SetId Storages(Ref r);
  SetId StoragesOfSet(SetId s);
  // Returns a hash of the set and of where each member lives. A reader that takes members out of a container is evaluated
  // again when either changes.
  uint64_t Fingerprint(SetId s);

  uint32_t Own(ValueId v, ObjectKind kind, bool tensor, bool container);  // the object that v's node makes for it
  void FreeOwn(ValueId v);
  void SetStorage(uint32_t object, SetId storage);
  // Every tensor handle among `reached` may live in `target` from now on, by node n.
  void MoveStorage(NodeId n, SetId reached, SetId target);
  void Escape(SetId set);
  uint32_t LoopOf(NodeId n);  // the innermost loop around n
  void SettleChanges();       // all that changed has been followed
  int64_t bytes() const;

  absl::flat_hash_map<uint32_t, SetId, InOrder> moved_storage;    // by set_
  absl::flat_hash_map<uint32_t, SetId, InOrder> unmoved_storage;  // of those: where their definitions put them
  bool external_moved = false;  // set_ on a handle of the caller's: any of its handles may be that one
  absl::flat_hash_map<int, uint32_t> weight_storages;
  absl::flat_hash_map<uint32_t, uint64_t, InOrder> touched;  // objects whose storage changed, and when
  absl::flat_hash_map<uint32_t, uint64_t, InOrder> forced;   // values that have been told so, and of which change
  std::vector<uint32_t> pending_free;                        // objects that are gone, when all has been followed

 private:
  SetId Summarise(SetId s);
  void EscapeObject(uint32_t object);

  AliasDb::State& s_;
  uint64_t touched_epoch_ = 0;
};

// Joins many sets, with the result of joining one after the other.
class SetJoiner {
 public:
  explicit SetJoiner(AliasDb::State& s) : s_(s) {}
  void Add(SetId s);
  SetId Joined();

 private:
  void Flush();

  AliasDb::State& s_;
  SetId joined_ = 0;
  // Not joined yet, and their members.
  absl::InlinedVector<SetId, 16> sets_;
  absl::InlinedVector<Ref, 64> refs_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_MEMORY_H_
