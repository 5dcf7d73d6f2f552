// The lists in which accesses stand: one for each storage, and one that storages share which have an access to several in
// common. Private to alias/.
//
//   AccessLists accesses(state, tree);
//   accesses.RecordAccess(accesses.ListOf(storage), access);
//   accesses.AddListsOf(storage, &lists);  // where the accesses to the storage are
//
// Invariants: an access to one handle in one storage stands in the storage's list; an access to several stands once, in
// the list that all its storages share (kSetList | k). Where two lists join, the shorter one moves, so that no access
// changes lists more than a logarithmic number of times.
#ifndef SMELT_ALIAS_ACCESS_LISTS_H_
#define SMELT_ALIAS_ACCESS_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/alias/access_index.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/block_tree.h"
#include "smelt/alias/in_order.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// An access to one of so many pairs of a handle and a storage is a record for each. An access to more is one record. 1 in
// tests, so that graphs with small sets have such records too.
inline size_t few_pairs = 8;

class AccessLists {
 public:
  AccessLists(AliasDb::State& s, const BlockTree& tree) : writes(tree), reads(tree), s_(s) {}

  void Clear();
  uint32_t RecordAccess(uint32_t list, Access a);
  uint32_t ListOf(uint32_t storage) const;
  uint32_t SetListOf(uint32_t list) const {  // the list of accesses to several that goes with a storage's list; 0: none
    return set_list_of_.empty() ? 0 : FindSetListOf(list);
  }
  uint32_t SetListFor(SetId storages);            // which share it from now on
  void MoveAccesses(uint32_t from, uint32_t to);  // of a storage's list, and those to several
  SetId AllStorages(SetId handles);               // all of them, however many
  bool HasSetLists() const { return !set_lists_.empty(); }
  // Appends the lists that hold the accesses to a storage, each once.
  template <typename Lists>
  void AddListsOf(uint32_t storage, Lists* lists) const {
    const uint32_t list = ListOf(storage);
    if (std::find(lists->begin(), lists->end(), list) != lists->end()) return;
    lists->push_back(list);
    const uint32_t of_sets = SetListOf(list);
    if (of_sets != 0 && std::find(lists->begin(), lists->end(), of_sets) == lists->end()) lists->push_back(of_sets);
  }
  // Returns each handle of an access with each storage in which it is touched.
  std::vector<std::pair<Ref, Ref>> PairsOf(const Access& a);
  // In `reads` each list is two: only few accesses conflict with reads of geometry alone.
  static uint32_t ReadList(uint32_t list, bool geometry_only) {
    const uint32_t of_sets = list & kSetList;
    return of_sets | (2 * (list & ~kSetList) + (geometry_only ? 1 : 0));
  }
  static uint32_t ListOfReads(uint32_t read_list) { return (read_list & kSetList) | (read_list & ~kSetList) / 2; }

  void StoragesChanged() { ++storage_epoch_; }
  void Release(uint32_t object);  // its number may stand for another object from now on
  void ObjectsReleased();         // sets that held such objects may come to stand for sets of others
  void DropSets();                // ids of sets may stand for other sets from now on
  int64_t bytes() const;

  AccessIndex writes, reads;
  bool reads_active = false;  // reads are recorded, too
  bool any_async = false;     // some write is a fork's

 private:
  struct AllStoragesOf {
    uint64_t epoch = 0;
    SetId storages = 0;
  };
  uint32_t FindSetListOf(uint32_t list) const;
  uint32_t FindSetList(uint32_t k) const;
  uint32_t JoinSetLists(uint32_t a, uint32_t b);
  void MoveList(uint32_t from, uint32_t to);

  AliasDb::State& s_;
  mutable std::vector<uint32_t> set_lists_;                       // k -> the one that it has joined, or itself
  absl::flat_hash_map<uint32_t, uint32_t, InOrder> set_list_of_;  // list of a storage -> k
  absl::flat_hash_map<SetId, uint32_t> list_of_storages_;         // sets that have had an access -> k
  absl::flat_hash_map<SetId, AllStoragesOf> all_storages_;        // valid if of this epoch
  uint64_t storage_epoch_ = 1;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_ACCESS_LISTS_H_
