// The steps that edits have paid for. Private to alias/.
//
//   Budget budget(graph);
//   budget.PaidByBuilding(steps);
//   budget.Edit();
//   budget.Spend(cost);
//   if (budget.overdrawn) only_add();
//
// Each edit pays for some steps, as building has paid for the first ones. When they are used up, what the edits still
// make necessary is done without taking anything away: then no set changes more often than its bound allows. In a graph
// of up to solved_at_once nodes everything is paid for. Invariant: no credit is negative.
#ifndef SMELT_ALIAS_BUDGET_H_
#define SMELT_ALIAS_BUDGET_H_

#include <cstdint>

#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

// An edit of a graph of up to so many nodes may cost as much as building. In a larger one it may cost no more steps
// than edits have paid for, each a few, and building the first ones. Below 0 nothing is paid for at first, so that tests
// with small graphs see what happens then.
inline int64_t solved_at_once = 256;

class Budget {
 public:
  explicit Budget(const Graph& g) : g_(g) {}

  void Edit();
  void PaidByBuilding(int64_t steps);
  void PaidByNothing();  // everything is built again: what was paid before is used up
  bool Affords(int64_t steps) const { return steps <= credit_ || IsSmall(); }
  void Spend(int64_t steps);  // for an edit; from where it cannot afford that, sets only grow
  void Take(int64_t steps);   // the same, but an answer becomes less precise instead
  // The same for geometries and spans of writes that are dropped and needed again.
  bool AffordsCache(int64_t steps) const { return steps <= cache_credit_ || IsSmall(); }
  void TakeForCache(int64_t steps);
  int64_t paid() const { return paid_; }  // by the edits since everything was built again, in nodes

  bool overdrawn = false;    // until no work is pending: sets, storages and contents only grow
  bool keeps_freed = false;  // since all was built it was overdrawn: sets may hold what is gone
  bool stale = false;        // something an edit took away still counts as being there

 private:
  bool IsSmall() const { return g_.num_nodes() <= solved_at_once; }

  const Graph& g_;
  int64_t credit_ = 0, cache_credit_ = 0;  // in steps
  int64_t paid_ = 0;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_BUDGET_H_
