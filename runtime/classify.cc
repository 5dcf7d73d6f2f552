#include "smelt/runtime/classify.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace {

// Returns whether the plan is right for these two arguments if they overlap.
bool Together(const ExecutablePlan& plan, int a, int b) {
  for (int g : plan.groups_of[a]) {
    if (std::find(plan.groups_of[b].begin(), plan.groups_of[b].end(), g) != plan.groups_of[b].end()) return true;
  }
  return false;
}

// Returns whether the plan is for other strides than the exported ones, of arguments that share no memory.
bool TakesOtherStrides(const ExecutablePlan& p) {
  return p.plan->variant == fb::VariantKind::Distinct && !p.plan->needs_exported_strides &&
         !p.plan->result_rule.empty();
}

}  // namespace

// A list of questions about pairs of arguments, each of which refuses the plan with a reason.
bool CallClassifier::PatternFits(const ExecutablePlan& plan, absl::Span<const Datum> args, std::string* why) const {
  // The plan is right for every pattern, unless the bundle was asked to refuse them.
  const bool any_order =
      plan.plan->variant == fb::VariantKind::EagerOrder && program_.bundle().refused_patterns.empty();
  if (any_order) return true;
  const auto refuse = [&](int a, int b, absl::string_view what) {
    *why = absl::StrCat("arguments \"", program_.args()[a].path, "\" and \"", program_.args()[b].path, "\" ", what);
    return false;
  };
  // The memory behind an argument would be taken for new memory.
  for (size_t k = 0; plan.grows && k < plan.plan->convention->mutated->inputs.size(); ++k) {
    const auto& m = *plan.plan->convention->mutated->inputs[k];
    if (m.is_state || !(m.flags & static_cast<int>(fb::MutationKind::Resized))) continue;
    const int arg = plan.outer_of_inner[m.arg];
    const Tensor& t = args[arg].tensor();
    if (t.offset() == 0 && t.geometry().Span().second * ItemSize(t.dtype()) == t.storage()->bytes()) continue;
    *why = absl::StrCat("argument \"", program_.args()[arg].path, "\" is resized, and its storage holds more than it");
    return false;
  }
  if (plan.identifies) {
    for (size_t i = 0; i < plan.inner_of_outer.size(); ++i) {
      const int first = plan.outer_of_inner[plan.inner_of_outer[i]];
      if (first == static_cast<int>(i)) continue;
      const Tensor &a = args[first].tensor(), &b = args[i].tensor();
      if (a.IsSame(b)) continue;
      // Another tensor over the same memory does as well, unless the geometry of one of them is to change or a caller
      // sees which of the two is returned.
      if (!SameMemory(a, b) || plan.writes_geometry[i] || plan.returns_other[i]) {
        return refuse(first, static_cast<int>(i), "are not the same tensor");
      }
    }
  }
  for (const ArgumentSharing::Pair& s : sharing_.arguments()) {
    if (plan.inner_of_outer[s.a] == plan.inner_of_outer[s.b]) continue;
    // A tensor is given twice and its geometry changes: both names must see it.
    if (s.relation == ArgumentSharing::Relation::kSame && (plan.writes_geometry[s.a] || plan.writes_geometry[s.b])) {
      return refuse(s.a, s.b, "are the same tensor");
    }
    if (!plan.writes_data[s.a] && !plan.writes_data[s.b]) continue;
    // Empty tensors share no written memory, but PyTorch refuses some writes of a tensor into itself without looking at
    // it.
    const bool empty = signature_.extents()[s.a].low == signature_.extents()[s.a].high;
    if (empty && s.relation != ArgumentSharing::Relation::kSame) continue;
    if (empty || !Together(plan, s.a, s.b)) {
      return refuse(s.a, s.b,
                    s.relation == ArgumentSharing::Relation::kOverlap ? "share memory" : "are the same tensor");
    }
  }
  // The memory from which an argument counts its places may be another argument's, though neither is within the other.
  for (int a : plan.reaches_beyond) {
    const Storage& storage = *args[a].tensor().storage();
    const uintptr_t low = reinterpret_cast<uintptr_t>(storage.address());
    const uintptr_t high = low + static_cast<uintptr_t>(storage.bytes());
    for (int b : sharing_.tensors()) {
      if (plan.inner_of_outer[a] == plan.inner_of_outer[b] || (!plan.writes_data[a] && !plan.writes_data[b])) continue;
      if (signature_.extents()[b].low >= high || signature_.extents()[b].high <= low || Together(plan, a, b)) continue;
      return refuse(a, b, "are in one storage");
    }
  }
  // It is one tensor, whose geometry the state's readers see.
  const auto changes_together = [&](int arg) {
    const Tensor& t = args[arg].tensor();
    const auto same = [&](const Tensor& state) { return t.IsSame(state); };
    return plan.writes_geometry[arg] ? std::any_of(states_.tensors().begin(), states_.tensors().end(), same)
                                     : std::any_of(plan.changed_states.begin(), plan.changed_states.end(),
                                                   [&](int k) { return same(states_.tensors()[k]); });
  };
  for (const ArgumentSharing::WithState& s : sharing_.with_states()) {
    if (!plan.writes_data[s.arg] && !plan.writes_state[s.storage] && !changes_together(s.arg)) continue;
    *why = absl::StrCat("argument \"", program_.args()[s.arg].path, "\" shares memory with the model's own state");
    return false;
  }
  for (const std::vector<int>& members : plan.one_storage) {
    for (int m : members) {
      if (args[m].tensor().storage() != args[members[0]].tensor().storage()) {
        return refuse(members[0], m, "are not in one storage");
      }
    }
  }
  return true;
}

bool CallClassifier::GuardsHold(int plan, const fb::GuardT** failed) {
  const ExecutablePlan& p = program_.plans()[plan];
  if (p.plan->guards.empty()) return true;
  absl::StatusOr<BoundPlan*> b = binder_.Bind(plan);
  for (const auto& g : p.plan->guards) {
    if (b.ok() && (*b)->values.known[g->expr] && (*b)->values.value[g->expr] != 0) continue;
    *failed = g.get();
    return false;
  }
  return true;
}

absl::StatusOr<int> CallClassifier::ChoosePlan(absl::Span<const Datum> args) {
  sharing_.Find(args, signature_.extents(), states_);
  strides_.Begin();
  std::string pattern;
  absl::Status strides;
  const fb::GuardT* guard = nullptr;
  absl::Status states = states_.CheckGeometry();
  const auto& plans = program_.plans();
  const bool some_take_other_strides = std::any_of(plans.begin(), plans.end(), TakesOtherStrides);
  // The first plan that fits if arguments are copied. One that takes their own strides is faster.
  std::optional<size_t> fits;
  for (size_t i = 0; i < plans.size(); ++i) {
    const ExecutablePlan& p = plans[i];
    const bool takes_other_strides = TakesOtherStrides(p);
    if (fits && !takes_other_strides) continue;
    if (p.plan->eager == nullptr && (states_.geometry_changed() || !states_.PlacesFit(p, &states))) continue;
    if (p.plan->eager != nullptr && states_.geometry_changed() && !states_.SizesFit(*p.plan->eager)) continue;
    strides_.ForgetPlan();
    if (!PatternFits(p, args, &pattern)) continue;
    if (p.plan->needs_exported_strides || takes_other_strides) {
      if (absl::Status s = strides_.Check(args, signature_, static_cast<int>(i)); !s.ok()) {
        if (!takes_other_strides) strides = std::move(s);
        continue;
      }
    }
    // Where the dims lie in memory is no condition of the call, but only of this plan.
    const fb::GuardT* order = nullptr;
    if (!GuardsHold(static_cast<int>(i), takes_other_strides ? &order : &guard)) continue;
    if (!p.plan->needs_exported_strides || !some_take_other_strides) return static_cast<int>(i);
    fits = i;
  }
  if (fits) {
    SMELT_RETURN_IF_ERROR(strides_.Check(args, signature_, static_cast<int>(*fits)));
    return static_cast<int>(*fits);
  }
  // The nearest miss is the most useful information.
  if (guard != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        guard->source.empty() ? "" : absl::StrCat(guard->source, ": "),
        guard->message.empty() ? "an assumption of the export does not hold for these arguments" : guard->message));
  }
  if (!strides.ok()) return strides;
  if (!states.ok()) return states;
  if (program_.plans().empty()) return absl::FailedPreconditionError("the bundle holds no plan");
  return absl::FailedPreconditionError(absl::StrCat(
      pattern, ", and the bundle has no plan for that",
      program_.bundle().refused_patterns.empty() ? "" : absl::StrCat(": ", program_.bundle().refused_patterns)));
}

}  // namespace smelt
