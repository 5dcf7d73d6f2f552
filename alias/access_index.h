// Who accesses a location, in program order. Private to alias/.
//
//   AccessIndex writes(tree);
//   writes.Add(list, {.node = n, .handles = s, .storages = s, .bits = kWrite}, &first_write_of_n);
//   for (uint32_t i = writes.FirstAfter(list, m); i != 0; i = writes.Next(i)) use(writes.at(i));
//
// Invariants: each list is in the order of the text, and a record is in one list of locations and in that of its node
// until RemoveNode. Positions of accesses are known or 0, and known ones are in that order too.
#ifndef SMELT_ALIAS_ACCESS_INDEX_H_
#define SMELT_ALIAS_ACCESS_INDEX_H_

#include <cstdint>
#include <vector>

#include "smelt/alias/block_tree.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// One access of a node: to a handle, or to one of several.
enum AccessBits : uint8_t {
  kRead = 1,
  kWrite = 2,
  kGeometryRead = 4,
  kGeometryWrite = 8,
  kAsync = 16,        // by a fork: at any time from here on
  kOfContainer = 32,  // of the list, dictionary or object itself, not of a tensor's bytes
};
struct Access {
  NodeId node;
  SetId handles = 0;   // it touches one of them,
  SetId storages = 0;  // in one of these, which are where they live
  bool IsOfOne() const { return SetPool::IsSingle(handles) && SetPool::IsSingle(storages); }
  Ref object() const { return SetPool::SingleRef(handles); }    // if there is one
  Ref storage() const { return SetPool::SingleRef(storages); }  // if there is one
  uint32_t left = 0, right = 0, up = 0;                         // in the list of its locations
  uint32_t node_next = 0;                                       // in its node's list
  uint32_t list = 0;
  uint32_t position = 0;  // its node's
  uint16_t arg = 0;
  uint8_t bits = 0;
};

// The lists of single locations have the numbers that their owner gives them; those of sets of locations, each of which
// has the accesses to several, have numbers from kSetList on. Both are numbered densely.
constexpr uint32_t kSetList = uint32_t{1} << 31;

// All accesses of one kind (writes, or reads), by list and by node. Entry 0 is none. A list is in program order: a
// treap, so that the accesses between two nodes are found without walking the others. Appending costs O(1), everything
// else O(log). A node that moves is taken out before its place changes in any list.
class AccessIndex {
 public:
  explicit AccessIndex(const BlockTree& tree) : tree_(tree) { Clear(); }
  uint32_t Add(uint32_t list, const Access& a, uint32_t* node_head);  // returns its record
  void RemoveNode(uint32_t* node_head);
  void MoveNode(uint32_t node_head);  // which has another place in the text now
  void MoveList(uint32_t from, uint32_t to);
  uint32_t Head(uint32_t list) const;
  uint32_t Tail(uint32_t list) const { return Known(list).tail; }
  uint32_t Next(uint32_t i) const;
  uint32_t Prev(uint32_t i) const;
  uint32_t FirstAfter(uint32_t list, NodeId n) const;  // the first access by what comes after n, its blocks' nodes too
  uint32_t LastBefore(uint32_t list, NodeId n, uint32_t position = 0);  // n's position, if the caller knows it
  uint32_t Size(uint32_t list) const { return Known(list).size; }
  // Changes whenever the list does.
  uint32_t Version(uint32_t list) const { return Known(list).version; }
  uint64_t changes() const { return changes_; }  // of any list
  const Access& at(uint32_t i) const { return records_[i]; }
  int64_t live() const { return live_; }
  int64_t steps() const { return steps_; }
  int64_t bytes() const {
    return records_.capacity() * sizeof(Access) + lists_.capacity() * sizeof(List) +
           (list_at_.capacity() + set_list_at_.capacity() + free_.capacity()) * sizeof(uint32_t);
  }
  // Calls f with each record, and with records that are free: those have no handles.
  template <typename F>
  void ForEach(const F& f) const {
    for (const Access& a : records_) f(a);
  }
  void Clear() {
    records_.resize(1);
    free_.clear();
    list_at_.clear();
    set_list_at_.clear();
    lists_.resize(1);
    live_ = 0;
    ++changes_;
  }
  void Trim();  // gives back memory that it holds for more accesses

 private:
  struct List {
    uint32_t root = 0, tail = 0, size = 0, version = 0;
    // The last result of LastBefore, at that version: neighbours in the text ask for neighbours here.
    uint32_t found = 0, found_version = 0;
    uint32_t inserted = 0;  // the last one, or its neighbour if that is gone
  };
  const List& Known(uint32_t list) const {
    const std::vector<uint32_t>& at = (list & kSetList) != 0 ? set_list_at_ : list_at_;
    const uint32_t i = list & ~kSetList;
    return lists_[i < at.size() ? at[i] : 0];
  }
  List& Of(uint32_t list);  // which need not be known
  bool Before(const Access& a, const Access& b) const {
    return a.position != 0 && b.position != 0 ? a.position < b.position : tree_.IsBefore(a.node, b.node);
  }
  void Insert(uint32_t i, List* l);
  bool InsertBeside(uint32_t i, uint32_t near);  // false: it does not belong right beside `near`
  void Unlink(uint32_t i);
  void RotateUp(uint32_t i, List* l);
  static uint32_t Priority(uint32_t i) { return i * 0x9e3779b1u ^ (i * 0x85ebca6bu) >> 15; }

  const BlockTree& tree_;
  std::vector<Access> records_;
  std::vector<uint32_t> free_;
  // By list: where in lists_; 0: it has never had an access.
  std::vector<uint32_t> list_at_, set_list_at_;
  std::vector<List> lists_;  // the first is empty
  int64_t live_ = 0;
  mutable int64_t steps_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_ACCESS_INDEX_H_
