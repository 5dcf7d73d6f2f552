// Sets of objects, each kept once. Private to alias/.
//
//   SetPool pool;
//   SetId a = pool.Union(SetPool::Single(MakeRef(7)), SetPool::Single(MakeRef(9)));
//   pool.Contains(a, MakeRef(9));  // true
//
// Invariants: an id of a set never changes while something holds it, and two sets with the same members have the same
// id. So sets are compared by their ids.
#ifndef SMELT_ALIAS_SET_POOL_H_
#define SMELT_ALIAS_SET_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace smelt {
namespace alias_internal {

// Equal fingerprints count as equal: each bit of the input affects all bits of the output.
inline uint64_t Mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 29;
}

// An object, or the older instances of one that is allocated in a loop: those that earlier iterations allocated.
using Ref = uint32_t;  // object << 1 | old
inline uint32_t ObjectOf(Ref r) { return r >> 1; }
inline bool IsOld(Ref r) { return r & 1; }
inline Ref MakeRef(uint32_t object, bool old = false) { return object << 1 | (old ? 1 : 0); }

// A set of refs: 0 is empty, an odd number a single ref, an even one an entry of SetPool.
using SetId = uint32_t;

// Sets are kept sorted, each once: equal sets have equal ids. An id that nothing holds may come to stand for another
// set: see Collect.
class SetPool {
 public:
  SetPool() : recent_(size_t{1} << kRecentBits), table_(kFirstTable) { entries_.push_back({0, 0, 0}); }
  static SetId Single(Ref r) { return r << 1 | 1; }
  static bool IsSingle(SetId s) { return s & 1; }
  static Ref SingleRef(SetId s) { return s >> 1; }
  SetId Make(absl::Span<Ref> refs);        // any order, duplicates allowed; sorts them
  SetId MakeSorted(absl::Span<Ref> refs);  // in order, duplicates allowed
  SetId Union(SetId a, SetId b);
  absl::InlinedVector<Ref, 8> Refs(SetId s) const;
  template <typename F>
  void ForEach(SetId s, const F& f) const {
    if (s == 0) return;
    if (s & 1) {
      f(static_cast<Ref>(s >> 1));
      return;
    }
    const Entry e = entries_[s >> 1];
    steps_ += e.size;
    for (uint32_t i = 0; i < e.size; ++i) f(pool_[e.begin + i]);
  }
  // Returns the set of those members that pass the test.
  template <typename F>
  SetId Filter(SetId s, const F& test) {
    if (s == 0) return 0;
    if (IsSingle(s)) return test(SingleRef(s)) ? s : 0;
    absl::InlinedVector<Ref, 40> passing;
    ForEach(s, [&](Ref r) {
      if (test(r)) passing.push_back(r);
    });
    return passing.size() == Size(s) ? s : MakeSorted(absl::MakeSpan(passing));
  }
  bool Contains(SetId s, Ref r) const;
  // Returns whether some ref of both sets passes the test.
  template <typename F>
  bool AnyCommon(SetId a, SetId b, const F& test) const {
    const Ref single_a = a >> 1, single_b = b >> 1;
    const absl::Span<const Ref> x = Sorted(a, &single_a), y = Sorted(b, &single_b);
    for (size_t i = 0, k = 0; i < x.size() && k < y.size();) {
      if (x[i] == y[k] && test(x[i])) return true;
      if (x[i] <= y[k]) {
        ++i;
      } else {
        ++k;
      }
    }
    return false;
  }
  bool Includes(SetId outer, SetId inner) const;
  size_t Size(SetId s) const { return s == 0 ? 0 : (s & 1) ? 1 : entries_[s >> 1].size; }
  // A hash of the members. Unlike the id, it never stands for another set.
  uint64_t Hash(SetId s) const { return s == 0 || IsSingle(s) ? s : entries_[s >> 1].hash; }
  int64_t size() const { return static_cast<int64_t>(entries_.size()) - 1; }
  int64_t steps() const { return steps_; }
  int64_t bytes() const {
    return pool_.capacity() * sizeof(Ref) + entries_.capacity() * sizeof(Entry) + table_.capacity() * sizeof(Slot) +
           free_.capacity() * sizeof(uint32_t);
  }

  // Sets grow step by step, and the smaller ones are soon forgotten. Returns the refs that have been added since the
  // last collection.
  size_t added() const { return pool_.size() - kept_; }
  size_t kept() const { return kept_; }
  // Drops all sets but those that `visit` passes to its argument. With `more_come` the table stays as large as it is.
  void Collect(absl::FunctionRef<void(absl::FunctionRef<void(SetId)>)> visit, bool more_come = false);
  void Trim();  // gives back memory that it holds for more sets

 private:
  struct Entry {
    uint32_t begin, size;
    uint64_t hash;
  };
  // Open addressing; entry 0: free.
  struct Slot {
    uint32_t hash = 0, entry = 0;
  };
  // Recent unions: nested loops and branches ask for the same unions repeatedly.
  struct United {
    SetId a = 0, b = 0, both = 0;
  };
  // The refs of a nonempty set; `single` holds the ref of a set of one.
  absl::Span<const Ref> Sorted(SetId s, const Ref* single) const {
    if (IsSingle(s)) return absl::MakeConstSpan(single, 1);
    return absl::MakeConstSpan(pool_.data() + entries_[s >> 1].begin, entries_[s >> 1].size);
  }
  SetId Intern(const Ref* sorted, size_t size);
  void MakeTable(size_t size);
  static size_t TableFor(size_t sets);
  // A set's slot is first looked for at the place that its largest ref determines, where the sets made at about the
  // same time are: one line of the cache for many. Only if that range is crowded is it looked for elsewhere.
  static constexpr size_t kFirstTable = 64, kNear = 32;
  static constexpr int kScaleBits = 16, kRecentBits = 10;
  template <typename F>
  Slot* Probe(uint32_t hash, Ref largest, const F& is_it);
  uint64_t scale_ = uint64_t{1} << kScaleBits;  // slots a ref, in units of 2^-kScaleBits
  mutable int64_t steps_ = 0;
  std::vector<United> recent_;
  std::vector<Ref> pool_;
  std::vector<Entry> entries_;
  std::vector<Slot> table_;
  std::vector<uint32_t> free_;  // entries that stand for no set
  size_t kept_ = 0;             // refs that the last collection has kept
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_SET_POOL_H_
