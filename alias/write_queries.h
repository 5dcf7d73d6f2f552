// Questions about who writes a value's bytes, without looking at writes that cannot matter: those to other pieces of the
// storage, and those in other parts of the text. Private to alias/.
//
//   WriteQueries written(state);
//   written.Written(v, /*in_scope_only=*/true);
//
// A question looks at a bounded number of writes that do not concern it; beyond that the answer is "may". Invariant:
// the sorted intervals of a list's writes follow that list (Added, Removed) until an edit may change a geometry (Drop).
#ifndef SMELT_ALIAS_WRITE_QUERIES_H_
#define SMELT_ALIAS_WRITE_QUERIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/alias/write_spans.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

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

class WriteQueries {
 public:
  explicit WriteQueries(AliasDb::State& s) : s_(s) {}

  // Returns whether some node writes v's bytes, while v is in scope or at all.
  bool Written(ValueId v, bool in_scope_only);
  // Returns whether n, or a node inside it, writes v. The writes inside to v's locations come right after n's own.
  bool WritesTo(NodeId n, ValueId v);
  bool IsPlainSet(SetId set) {
    return SetPool::IsSingle(set) ? IsPlain(SetPool::SingleRef(set)) : SummaryOfSet(set).plain;
  }
  SetId PrivateStorages(SetId set);                      // as SetSummary::private_storages, of any set
  const SetSummary& SummaryOfSet(SetId set);             // of more than one
  const WriteSpans* SpansOf(uint32_t list);              // follows the list from then on; null: not paid for
  const WriteSpans* KnownSpansOf(uint32_t list) const {  // null: the list is not followed
    const auto it = spans_.find(list);
    return it != spans_.end() ? &it->second : nullptr;
  }

  void Added(uint32_t list, uint32_t record, bool to_data);  // at the end of what the list's spans know
  void Removed(uint32_t list, uint32_t record);
  void DropSpans() { spans_.clear(); }
  void DropSets() { ++summary_epoch_; }  // their ids may stand for other sets from now on
  int64_t bytes() const { return static_cast<int64_t>(set_summaries_.capacity() * sizeof(SetSummary)); }

 private:
  bool IsPlain(Ref r) const;  // as SetSummary::plain, of one

  AliasDb::State& s_;
  absl::flat_hash_map<uint32_t, WriteSpans> spans_;  // by list
  std::vector<SetSummary> set_summaries_;            // by set
  uint64_t summary_epoch_ = 1, summary_geom_epoch_ = 0, summary_changes_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_WRITE_QUERIES_H_
