#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"

namespace smelt {

int PlanBuilder::NewBlock() {
  plan_->blocks.push_back(std::make_unique<fb::BlockT>());
  return static_cast<int>(plan_->blocks.size()) - 1;
}

std::optional<PlanBuilder::Location> PlanBuilder::RewrittenArgument(ValueId v) const {
  if (!grouped_) return std::nullopt;
  const auto it = locations_.find(RegionChain(v).back());
  if (it == locations_.end() || plan_->slots[it->second.slot]->kind != fb::SlotKind::ArgStorage) return std::nullopt;
  return it->second;
}

absl::Status PlanBuilder::EmitIf(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(int predicate, Predicate(g_.node(n).inputs[0], n));
  std::vector<Location> outs;
  for (size_t k = 0; k < g_.node(n).outputs.size(); ++k) {
    const ValueId o = g_.node(n).outputs[k];
    if (!g_.value(o).type.IsTensor()) return absl::UnimplementedError("a branch that returns a number");
    position_ = lives_.Begin(n);
    std::optional<Location> in_place;
    for (BlockId b : g_.node(n).blocks) {
      in_place = RewrittenArgument(g_.results(b)[k]);
      if (!in_place) break;
    }
    outs.push_back(in_place ? *in_place : Place(o));
    if (in_place) locations_[o] = *in_place;
    Extend(outs.back().slot, lives_.End(n));
  }
  const int outer = block_;
  std::vector<int> blocks;
  for (BlockId b : g_.node(n).blocks) {
    block_ = NewBlock();
    blocks.push_back(block_);
    SMELT_RETURN_IF_ERROR(EmitBlock(b));
    position_ = lives_.BlockEnd(b);
    for (size_t k = 0; k < outs.size(); ++k) {
      SMELT_ASSIGN_OR_RETURN(Location from, Locate(g_.results(b)[k]));
      const bool in_place = plan_->slots[outs[k].slot]->kind == fb::SlotKind::ArgStorage && from.slot == outs[k].slot;
      if (!in_place) EmitCopy(from, outs[k], false, n);
    }
  }
  block_ = outer;
  auto step = std::make_unique<fb::IfT>();
  step->predicate = predicate;
  step->then_block = blocks[0];
  step->else_block = blocks[1];
  Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitLoop(NodeId n) {
  const bool is_while = g_.node(n).op == op::kSmeltWhileLoop;
  const int first_input = is_while ? 0 : 2;
  const int first_param = is_while ? 0 : 1;
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  // Each carried value has one place for all iterations.
  std::vector<Location> places;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!g_.value(outputs[i]).type.IsTensor()) return absl::UnimplementedError("a loop that carries a number");
    position_ = lives_.Begin(n);
    const ValueId initial = g_.node(n).inputs[first_input + i];
    SMELT_ASSIGN_OR_RETURN(Location init, Locate(initial));
    const BlockId last = g_.node(n).blocks.back();
    const bool rewritten =
        RewrittenArgument(initial).has_value() &&
        RegionChain(g_.results(last)[(is_while ? 0 : 1) + i]).back() == g_.params(last)[first_param + i];
    Location l;
    if (rewritten || EndsInLoop(n, initial, init, outputs[i], places)) {
      l = init;
      locations_[outputs[i]] = l;
    } else {
      l = Place(outputs[i]);
      EmitCopy(init, l, false, n);
    }
    Extend(l.slot, std::max(lives_.End(n), LastUse(outputs[i])));
    places.push_back(l);
    for (BlockId b : g_.node(n).blocks) locations_[g_.params(b)[first_param + i]] = l;
    // Values that the body makes of it by rewriting regions stay in its place.
    const std::vector<ValueId> chain = RegionChain(g_.results(g_.node(n).blocks.back())[(is_while ? 0 : 1) + i]);
    if (chain.back() == g_.params(g_.node(n).blocks.back())[first_param + i]) {
      in_place_chain_.insert(chain.begin(), chain.end());
    }
  }
  if (is_while) {
    // The condition must not overwrite memory that the body reads after it. The body itself may: the values that it
    // carries on are read at its end, as the lives of its values say.
    for (ValueId p : g_.params(g_.node(n).blocks[0])) lives_.SetLastUse(p, lives_.End(n));
  }
  auto step = std::make_unique<fb::WhileT>();
  const int outer = block_;
  if (is_while) {
    const BlockId cond = g_.node(n).blocks[0];
    block_ = step->cond_block = NewBlock();
    SMELT_RETURN_IF_ERROR(EmitBlock(cond));
    SMELT_ASSIGN_OR_RETURN(step->predicate, Predicate(g_.results(cond)[0], n));
  } else {
    block_ = outer;
    SMELT_ASSIGN_OR_RETURN(int initial, Predicate(g_.node(n).inputs[1], n));
    step->predicate = initial;
    step->cond_block = NewBlock();
    std::optional<Expr> trips = GetIntExpr(g_, g_.node(n).inputs[0]);
    if (!trips) return absl::UnimplementedError("a loop whose trip count is computed at run time");
    step->max_trips = b_.exprs.Add(*trips);
    if (!g_.value(g_.params(g_.node(n).blocks[0])[0]).uses.empty())
      return absl::UnimplementedError("a loop whose index is used as a number");
  }
  const BlockId body = g_.node(n).blocks.back();
  const int first_result = is_while ? 0 : 1;
  std::vector<int> awaited;
  for (size_t i = 0; i < places.size(); ++i) {
    const ValueId param = g_.params(body)[first_param + i];
    const std::vector<ValueId> chain = RegionChain(g_.results(body)[first_result + i]);
    if (!ReplacesCarried(body, param, chain, places[i])) continue;
    destination_[chain.back()] = places[i];
    in_place_chain_.insert(chain.begin(), chain.end());
    if (awaited_.insert(places[i].slot).second) awaited.push_back(places[i].slot);
  }
  block_ = step->body_block = NewBlock();
  SMELT_RETURN_IF_ERROR(EmitBlock(body));
  for (int slot : awaited) awaited_.erase(slot);
  position_ = lives_.BlockEnd(body);
  std::vector<LocatedCopy> copies;
  for (size_t i = 0; i < places.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(Location from, Locate(g_.results(body)[first_result + i]));
    copies.push_back({from, places[i]});
  }
  // This comes before the copies: it may lie in the place of a carried value.
  if (!is_while) {
    SMELT_ASSIGN_OR_RETURN(int next, Predicate(g_.results(body)[0], n));
    if (next != step->predicate) {
      auto c = GetConstant(g_, g_.results(body)[0]);
      if (!c || !std::holds_alternative<bool>(*c) || !std::get<bool>(*c))
        return absl::UnimplementedError("a loop with a condition of its own");
    }
  }
  ParallelCopies(copies, false);
  block_ = outer;
  Emit(std::move(step), n);
  return absl::OkStatus();
}

bool PlanBuilder::EndsInLoop(NodeId n, ValueId initial, const Location& at, ValueId carried,
                             const std::vector<Location>& places) {
  if (destination_.contains(carried) || plan_->slots[at.slot]->kind != fb::SlotKind::Arena ||
      awaited_.contains(at.slot)) {
    return false;
  }
  if (Root(initial) != initial || LastUse(initial) > lives_.Begin(n)) return false;
  int uses = 0;
  for (ValueId v : g_.node(n).inputs) uses += Root(v) == initial;
  for (const Location& l : places) {
    if (l.slot == at.slot) return false;
  }
  return uses == 1 && at.geometry.offset == Expr(0) && SameLayout(at.geometry, DefaultLayout(g_, carried));
}

bool PlanBuilder::ReplacesCarried(BlockId body, ValueId param, const std::vector<ValueId>& chain,
                                  const Location& place) {
  const ValueId owner = chain.back();
  const NodeId def = g_.value(owner).def;
  for (ValueId v : chain) {
    if (g_.node(g_.value(v).def).parent != body) return false;
  }
  if (g_.IsParam(def) || Root(owner) != owner || !g_.node(def).blocks.empty() || !CanPlace(owner) ||
      destination_.contains(owner) || OutlivesRewrite(chain)) {
    return false;
  }
  if (place.geometry.offset != Expr(0) || !SameLayout(DefaultLayout(g_, owner), place.geometry)) return false;
  const int made = lives_.Begin(def);
  return LastUse(param) < made || (LastUse(param) == made && ReadsSameIndexOnly(def, param, owner));
}

absl::StatusOr<int> PlanBuilder::Predicate(ValueId v, NodeId source) {
  if (auto it = registers_.find(v); it != registers_.end()) return it->second;
  const Type& t = g_.value(v).type;
  if (t.IsTensor()) {
    auto step = std::make_unique<fb::ReadScalarT>();
    SMELT_ASSIGN_OR_RETURN(step->view, ViewOf(v));
    const int r = num_registers_++;
    step->register_ = r;
    Emit(std::move(step), source);
    return r;
  }
  auto set = std::make_unique<fb::SetRegisterT>();
  const int r = num_registers_++;
  set->register_ = r;
  if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) {
    set->constant = std::get<bool>(*c);
  } else if (g_.value(v).expr) {
    set->expr = b_.exprs.Add(*g_.value(v).expr);
  } else {
    SMELT_ASSIGN_OR_RETURN(set->expr, ConditionExpr(v));
  }
  Emit(std::move(set), source);
  return r;
}

bool PlanBuilder::IsCondition(NodeId n) const { return GetOpTraits(g_.node(n).op).relation != NumberRelation::kNone; }

absl::StatusOr<int> PlanBuilder::ConditionExpr(ValueId v) {
  if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) return b_.exprs.Add(std::get<bool>(*c));
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def) && IsCondition(def)) {
    using Relation = NumberRelation;
    const Relation relation = GetOpTraits(g_.node(def).op).relation;
    const auto& inputs = g_.node(def).inputs;
    if (relation == Relation::kNot || relation == Relation::kAnd || relation == Relation::kOr) {
      SMELT_ASSIGN_OR_RETURN(int a, ConditionExpr(inputs[0]));
      if (relation == Relation::kNot) return b_.exprs.AddLogic(fb::ExprOp::Not, a, -1);
      SMELT_ASSIGN_OR_RETURN(int b, ConditionExpr(inputs[1]));
      return b_.exprs.AddLogic(relation == Relation::kAnd ? fb::ExprOp::And : fb::ExprOp::Or, a, b);
    }
    const std::optional<Expr> a = GetIntExpr(g_, inputs[0]), b = GetIntExpr(g_, inputs[1]);
    if (a && b && IsRead(*a) && IsRead(*b)) {
      const bool swap = relation == Relation::kGt || relation == Relation::kGe;
      const fb::ExprOp compare = relation == Relation::kLt || relation == Relation::kGt   ? fb::ExprOp::Lt
                                 : relation == Relation::kLe || relation == Relation::kGe ? fb::ExprOp::Le
                                                                                          : fb::ExprOp::Eq;
      const int e = b_.exprs.AddCompare(compare, swap ? *b : *a, swap ? *a : *b);
      return relation == Relation::kNe ? b_.exprs.AddLogic(fb::ExprOp::Not, e, -1) : e;
    }
  }
  return absl::UnimplementedError("a condition that is computed from sizes or numbers at run time");
}

bool PlanBuilder::DependsOnData(ValueId v) const {
  if (auto e = g_.value(v).type.kind() == TypeKind::kInt ? GetIntExpr(g_, v) : std::nullopt)
    return IsLate(*e) && IsRead(*e);
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || !IsCondition(def)) return false;
  for (ValueId x : g_.node(def).inputs) {
    if (DependsOnData(x)) return true;
  }
  return false;
}

}  // namespace smelt
