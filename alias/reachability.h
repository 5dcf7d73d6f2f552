// The objects that are reached through containers at any time, and those that the caller reaches after the call. Private
// to alias/.
//
//   Reachability reachability(state);
//   reachability.ReachableByCaller(v);
//
// A question follows a bounded number of objects; beyond that it says "a great deal". Invariant: everything that is
// remembered is dropped (Drop) when some set, some container's contents or some geometry has changed.
#ifndef SMELT_ALIAS_REACHABILITY_H_
#define SMELT_ALIAS_REACHABILITY_H_

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class Reachability {
 public:
  explicit Reachability(AliasDb::State& s) : s_(s) {}

  // Returns the set and everything that its containers hold at any time; nothing: that is a great deal.
  std::optional<SetId> ReachAtAnyTime(SetId s);
  // Returns whether the caller may reach the storage after the call.
  bool ReachableByCaller(ValueId v);

  void Drop();
  void DropSets() { reached_.clear(); }  // their ids may stand for other sets from now on
  int64_t bytes() const {
    return static_cast<int64_t>(reached_.capacity() * (sizeof(*reached_.begin()) + 1) +
                                output_refs_.capacity() * (sizeof(*output_refs_.begin()) + 1));
  }

 private:
  void FillOutputs();
  uint32_t OutputKey(uint32_t storage) const;  // the pieces of one container may be each other

  AliasDb::State& s_;
  absl::flat_hash_map<SetId, std::optional<SetId>> reached_;  // by set
  bool outputs_known_ = false;
  bool outputs_reach_all_ = false;  // more than is looked at
  // The objects that outputs reach, by their place: see OutputKey.
  absl::flat_hash_map<uint32_t, absl::InlinedVector<Ref, 2>> output_refs_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_REACHABILITY_H_
