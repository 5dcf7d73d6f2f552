#include "smelt/codegen/plan_builder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/library_lowering.h"
#include "smelt/codegen/plan_epilogue.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/read_numbers.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

PlanBuilder::PlanBuilder(BundleTables& b, const Graph& g, const Convention& c,
                         const BundleBuilder::PlanOptions& options)
    : b_(b),
      g_(g),
      c_(c),
      options_(options),
      plan_(std::make_unique<fb::PlanT>()),
      lives_(g),
      regions_(g, lives_),
      steps_(g, *plan_),
      slots_(b, g, c, *plan_, regions_, steps_),
      copies_(slots_, steps_),
      lowering_(g, options, lives_, slots_),
      parts_{lives_, regions_, steps_, slots_, copies_, lowering_},
      destinations_(b, g, c, *plan_, parts_),
      numbers_(b, g, steps_, slots_),
      kernels_(b, g, *plan_, parts_, destinations_, numbers_) {}

absl::StatusOr<PlanStats> PlanBuilder::Build() {
  plan_->variant = options_.variant;
  plan_->needs_exported_strides = options_.exported_strides;
  plan_->other_strides = options_.other_strides;
  plan_->result_rule = options_.result_rule;
  for (const auto& guard : options_.guards) b_.AddGuard(*plan_, guard.a, guard.op, guard.b, guard.message);
  b_.AddSizeGuards(*plan_);
  slots_.FindDataSymbols();
  slots_.BindInputs();
  SMELT_RETURN_IF_ERROR(destinations_.Choose());
  plan_->blocks.push_back(std::make_unique<fb::BlockT>());
  steps_.Enter(0);
  SMELT_RETURN_IF_ERROR(numbers_.ComputeThoseOfSizes());
  SMELT_RETURN_IF_ERROR(EmitBlock(g_.top()));
  steps_.MoveTo(Lives::kForever);
  PlanEpilogue epilogue(b_, g_, c_, *plan_, parts_, destinations_, numbers_, kernels_);
  SMELT_RETURN_IF_ERROR(epilogue.Emit());
  SMELT_RETURN_IF_ERROR(epilogue.CheckIndicesFirst());
  slots_.Pack();
  plan_->num_registers = steps_.num_registers();
  steps_.stats.distinct_kernels = kernels_.CountDistinct();
  b_.plans.push_back(std::move(plan_));
  return steps_.stats;
}

absl::Status PlanBuilder::EmitBlock(BlockId b) {
  for (NodeId n : g_.Nodes(b)) {
    steps_.MoveTo(lives_.Begin(n));
    absl::Status s = EmitNode(n);
    if (!s.ok()) return Annotate(s, OperatorAndSource(g_.node(n)));
  }
  return absl::OkStatus();
}

absl::Status PlanBuilder::EmitNode(NodeId n) {
  const Node& node = g_.node(n);
  const std::string& name = node.op.name();
  for (ValueId v : node.outputs) {
    const Type& t = g_.value(v).type;
    if (name == op::kSmeltView || !t.IsTensor() || !t.tensor().sizes) continue;
    for (const Expr& e : *t.tensor().sizes) {
      if (!slots_.IsRead(e))
        return absl::UnimplementedError(absl::StrCat("a size ", e.ToString(), " that is not known yet"));
    }
  }
  if (name == op::kPrimConstant || name == op::kPrimListConstruct || name == op::kPrimTupleConstruct ||
      name == op::kSmeltView || name == op::kSmeltSize) {
    return absl::OkStatus();
  }
  if (IsBranch(node.op)) return EmitIf(n);
  if (name == op::kSmeltWhileLoop || name == op::kPrimLoop) return EmitLoop(n);
  if (ReadsNumber(g_, n)) return numbers_.Read(n);
  if (numbers_.IsCondition(n)) return absl::OkStatus();  // made where it is used
  if (name == op::kPrivateAssertAsync || name == op::kPrivateAssertScalar) return EmitAssert(n);
  if (name == op::kSmeltAssertComputed) return absl::OkStatus();  // by the steps before
  if (absl::StartsWith(name, op::kSmeltAssertPrefix)) return AddAssertion(n);
  if (GetOpTraits(node.op).family == OpFamily::kAllocation) {
    destinations_.Place(node.outputs[0]);  // contents nothing has written yet
    return absl::OkStatus();
  }
  bool all_known = !node.outputs.empty();
  for (ValueId v : node.outputs) all_known = all_known && g_.value(v).expr.has_value();
  if (all_known) return absl::OkStatus();
  if (const std::optional<fb::NumberFunction> function = numbers_.FunctionOf(n)) {
    if (numbers_.Has(node.outputs[0])) return absl::OkStatus();
    if (numbers_.MayRefuse(n, *function)) plan_->may_refuse_late = true;
    return numbers_.Compute(n, *function);
  }
  if (IsKernelNode(g_, n)) return kernels_.Launch(n);
  SMELT_ASSIGN_OR_RETURN(std::optional<RandomCall> random, LowerRandom(g_, n));
  if (random) return kernels_.Draw(n, *random);
  SMELT_ASSIGN_OR_RETURN(std::optional<LibraryNode> library, LowerLibrary(g_, n));
  if (library) return kernels_.Call(n, *library);
  return absl::UnimplementedError("no kernel and no library call does this");
}

absl::Status PlanBuilder::EmitAssert(NodeId n) {
  const ValueId v = g_.node(n).inputs[0];
  // The signature's ranges guarantee conditions on sizes. Conditions that the data decide are checked.
  if (!g_.value(v).type.IsTensor() && !numbers_.Has(v) && !numbers_.DependsOnData(v)) return absl::OkStatus();
  auto step = std::make_unique<fb::CheckT>();
  step->kind = fb::CheckKind::DataTrue;
  plan_->may_refuse_late = true;
  SMELT_ASSIGN_OR_RETURN(step->a, numbers_.Predicate(v, n));
  step->message = "Assertion failed";
  for (ValueId a : g_.node(n).inputs) {
    auto c = GetConstant(g_, a);
    if (c && std::holds_alternative<std::string>(*c)) step->message = std::get<std::string>(*c);
  }
  if (g_.node(n).source) step->source = g_.node(n).source->ToString();
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanBuilder::AddAssertion(NodeId n) {
  const Node& node = g_.node(n);
  const std::string& name = node.op.name();
  auto check = std::make_unique<fb::CheckT>();
  bool late = false;
  auto view_of = [&](ValueId v) -> absl::StatusOr<int> {
    SMELT_ASSIGN_OR_RETURN(const PlanLocation l, slots_.Locate(v));
    late = late || slots_.IsLate(l);
    return slots_.AddView(l);
  };
  if (name == op::kSmeltAssertSize && node.FindAttribute(kElseInOrder) != nullptr) {
    b_.AddGuard(*plan_, Expr(0), fb::ExprOp::Lt, std::get<Expr>(*node.FindAttribute("value")),
                std::get<std::string>(*node.FindAttribute("message")));
    return absl::OkStatus();
  }
  if (name == op::kSmeltAssertSize) {
    check->kind = fb::CheckKind::NotZero;
    const Expr& value = std::get<Expr>(*node.FindAttribute("value"));
    late = slots_.IsLate(value);
    check->a = b_.exprs.Add(value);
    check->message = std::get<std::string>(*node.FindAttribute("message"));
  } else if (name == op::kSmeltAssertNoInternalOverlap) {
    const bool in_order = node.FindAttribute("in_order") != nullptr;
    check->kind = in_order ? fb::CheckKind::NoSharedPlaces : fb::CheckKind::NoInternalOverlap;
    check->message =
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.";
    SMELT_ASSIGN_OR_RETURN(check->a, view_of(node.inputs[0]));
  } else if (name == op::kSmeltAssertNoPartialOverlap || name == op::kSmeltAssertNoOverlap) {
    check->kind = fb::CheckKind::NoPartialOverlap;
    if (name == op::kSmeltAssertNoOverlap) {
      const auto rule = static_cast<OperandSharing>(std::get<int64_t>(*node.FindAttribute("rule")));
      check->kind = rule == OperandSharing::kNone          ? fb::CheckKind::NoOverlap
                    : rule == OperandSharing::kWholeOrNone ? fb::CheckKind::WholeOrApart
                                                           : fb::CheckKind::Apart;
    }
    SMELT_ASSIGN_OR_RETURN(check->a, view_of(node.inputs[0]));
    SMELT_ASSIGN_OR_RETURN(check->b, view_of(node.inputs[1]));
  } else {
    return absl::UnimplementedError("no kernel and no library call does this");
  }
  if (node.source) check->source = node.source->ToString();
  // In a branch it concerns only the calls that take it.
  if (late || steps_.block() != 0) {
    plan_->may_refuse_late = true;
    steps_.Emit(std::move(check), n);
  } else {
    plan_->prologue_checks.push_back(std::move(check));
  }
  return absl::OkStatus();
}

std::optional<PlanLocation> PlanBuilder::RewrittenArgument(ValueId v) const {
  if (!slots_.grouped()) return std::nullopt;
  const PlanLocation* place = slots_.Find(regions_.ChainOf(v).back());
  if (place == nullptr || plan_->slots[place->slot]->kind != fb::SlotKind::ArgStorage) return std::nullopt;
  return *place;
}

absl::Status PlanBuilder::EmitIf(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(int predicate, numbers_.Predicate(g_.node(n).inputs[0], n));
  std::vector<PlanLocation> outs;
  for (size_t k = 0; k < g_.node(n).outputs.size(); ++k) {
    const ValueId o = g_.node(n).outputs[k];
    if (!g_.value(o).type.IsTensor()) return absl::UnimplementedError("a branch that returns a number");
    steps_.MoveTo(lives_.Begin(n));
    std::optional<PlanLocation> in_place;
    for (BlockId b : g_.node(n).blocks) {
      in_place = RewrittenArgument(g_.results(b)[k]);
      if (!in_place) break;
    }
    outs.push_back(in_place ? *in_place : destinations_.Place(o));
    if (in_place) slots_.SetLocation(o, *in_place);
    slots_.Extend(outs.back().slot, lives_.End(n));
  }
  const int outer = steps_.block();
  std::vector<int> blocks;
  for (BlockId b : g_.node(n).blocks) {
    steps_.Enter(steps_.NewBlock());
    blocks.push_back(steps_.block());
    SMELT_RETURN_IF_ERROR(EmitBlock(b));
    steps_.MoveTo(lives_.BlockEnd(b));
    for (size_t k = 0; k < outs.size(); ++k) {
      SMELT_ASSIGN_OR_RETURN(PlanLocation from, slots_.Locate(g_.results(b)[k]));
      const bool in_place = plan_->slots[outs[k].slot]->kind == fb::SlotKind::ArgStorage && from.slot == outs[k].slot;
      if (!in_place) copies_.Copy(from, outs[k], false, n);
    }
  }
  steps_.Enter(outer);
  auto step = std::make_unique<fb::IfT>();
  step->predicate = predicate;
  step->then_block = blocks[0];
  step->else_block = blocks[1];
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlanLocation>> PlanBuilder::PlaceCarried(NodeId n, int first_input, int first) {
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  const BlockId body = g_.node(n).blocks.back();
  std::vector<PlanLocation> places;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!g_.value(outputs[i]).type.IsTensor()) return absl::UnimplementedError("a loop that carries a number");
    steps_.MoveTo(lives_.Begin(n));
    const ValueId initial = g_.node(n).inputs[first_input + i];
    SMELT_ASSIGN_OR_RETURN(PlanLocation init, slots_.Locate(initial));
    const std::vector<ValueId> chain = regions_.ChainOf(g_.results(body)[first + i]);
    const bool is_rewritten = chain.back() == g_.params(body)[first + i];
    PlanLocation l;
    if ((is_rewritten && RewrittenArgument(initial)) || EndsInLoop(n, initial, init, outputs[i], places)) {
      l = init;
      slots_.SetLocation(outputs[i], l);
    } else {
      l = destinations_.Place(outputs[i]);
      copies_.Copy(init, l, false, n);
    }
    slots_.Extend(l.slot, std::max(lives_.End(n), lives_.LastUse(outputs[i])));
    places.push_back(l);
    for (BlockId b : g_.node(n).blocks) slots_.SetLocation(g_.params(b)[first + i], l);
    // Values that the body makes of it by rewriting regions stay in its place.
    if (is_rewritten) destinations_.KeepInPlace(chain);
  }
  return places;
}

absl::Status PlanBuilder::EmitLoop(NodeId n) {
  const bool is_while = g_.node(n).op == op::kSmeltWhileLoop;
  const int first_input = is_while ? 0 : 2;
  const int first_param = is_while ? 0 : 1;
  SMELT_ASSIGN_OR_RETURN(const std::vector<PlanLocation> places, PlaceCarried(n, first_input, first_param));
  if (is_while) {
    // The condition must not overwrite memory that the body reads after it. The body itself may: the values that it
    // carries on are read at its end, as the lives of its values say.
    for (ValueId p : g_.params(g_.node(n).blocks[0])) lives_.SetLastUse(p, lives_.End(n));
  }
  auto step = std::make_unique<fb::WhileT>();
  const int outer = steps_.block();
  if (is_while) {
    const BlockId cond = g_.node(n).blocks[0];
    step->cond_block = steps_.NewBlock();
    steps_.Enter(step->cond_block);
    SMELT_RETURN_IF_ERROR(EmitBlock(cond));
    SMELT_ASSIGN_OR_RETURN(step->predicate, numbers_.Predicate(g_.results(cond)[0], n));
  } else {
    SMELT_ASSIGN_OR_RETURN(int initial, numbers_.Predicate(g_.node(n).inputs[1], n));
    step->predicate = initial;
    step->cond_block = steps_.NewBlock();
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
    const std::vector<ValueId> chain = regions_.ChainOf(g_.results(body)[first_result + i]);
    if (!ReplacesCarried(body, param, chain, places[i])) continue;
    destinations_.Set(chain.back(), places[i]);
    destinations_.KeepInPlace(chain);
    if (destinations_.Await(places[i].slot)) awaited.push_back(places[i].slot);
  }
  step->body_block = steps_.NewBlock();
  steps_.Enter(step->body_block);
  SMELT_RETURN_IF_ERROR(EmitBlock(body));
  for (int slot : awaited) destinations_.EndWait(slot);
  steps_.MoveTo(lives_.BlockEnd(body));
  std::vector<LocatedCopy> copies;
  for (size_t i = 0; i < places.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(PlanLocation from, slots_.Locate(g_.results(body)[first_result + i]));
    copies.push_back({from, places[i]});
  }
  // This comes before the copies: it may lie in the place of a carried value.
  if (!is_while) {
    SMELT_ASSIGN_OR_RETURN(int next, numbers_.Predicate(g_.results(body)[0], n));
    if (next != step->predicate) {
      auto c = GetConstant(g_, g_.results(body)[0]);
      if (!c || !std::holds_alternative<bool>(*c) || !std::get<bool>(*c))
        return absl::UnimplementedError("a loop with a condition of its own");
    }
  }
  copies_.CopyAtOnce(copies, false);
  steps_.Enter(outer);
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

bool PlanBuilder::EndsInLoop(NodeId n, ValueId initial, const PlanLocation& at, ValueId carried,
                             const std::vector<PlanLocation>& places) {
  if (destinations_.Has(carried) || plan_->slots[at.slot]->kind != fb::SlotKind::Arena ||
      destinations_.IsAwaited(at.slot)) {
    return false;
  }
  if (StorageOf(g_, initial) != initial || lives_.LastUse(initial) > lives_.Begin(n)) return false;
  int uses = 0;
  for (ValueId v : g_.node(n).inputs) uses += StorageOf(g_, v) == initial;
  for (const PlanLocation& l : places) {
    if (l.slot == at.slot) return false;
  }
  return uses == 1 && at.geometry.offset == Expr(0) && SameLayout(at.geometry, DefaultLayout(g_, carried));
}

bool PlanBuilder::ReplacesCarried(BlockId body, ValueId param, const std::vector<ValueId>& chain,
                                  const PlanLocation& place) {
  const ValueId owner = chain.back();
  const NodeId def = g_.value(owner).def;
  for (ValueId v : chain) {
    if (g_.node(g_.value(v).def).parent != body) return false;
  }
  if (g_.IsParam(def) || StorageOf(g_, owner) != owner || !g_.node(def).blocks.empty() || !regions_.CanPlace(owner) ||
      destinations_.Has(owner) || regions_.OutlivesRewrite(chain)) {
    return false;
  }
  if (place.geometry.offset != Expr(0) || !SameLayout(DefaultLayout(g_, owner), place.geometry)) return false;
  const int made = lives_.Begin(def);
  return lives_.LastUse(param) < made ||
         (lives_.LastUse(param) == made && lowering_.ReadsSameIndexOnly(def, param, owner));
}

}  // namespace smelt
