#include "smelt/alias/budget.h"

#include <algorithm>

namespace smelt::alias_internal {

namespace {

constexpr int64_t kPaidByEdit = 1;    // nodes of a rebuild
constexpr int64_t kStepsOfEdit = 64;  // for what it makes necessary

}  // namespace

void Budget::Edit() {
  paid_ += kPaidByEdit;
  credit_ += kStepsOfEdit;
  cache_credit_ += kStepsOfEdit;
}

void Budget::PaidByBuilding(int64_t steps) {
  credit_ = steps / 2;
  cache_credit_ = 2 * steps;
}

void Budget::PaidByNothing() { credit_ = paid_ = 0; }

void Budget::Spend(int64_t steps) {
  if (overdrawn) return;
  if (!Affords(steps)) overdrawn = keeps_freed = stale = true;
  Take(steps);
}

void Budget::Take(int64_t steps) { credit_ = std::max<int64_t>(0, credit_ - steps); }

void Budget::TakeForCache(int64_t steps) { cache_credit_ = std::max<int64_t>(0, cache_credit_ - steps); }

}  // namespace smelt::alias_internal
