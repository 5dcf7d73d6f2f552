#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/index_checks.h"
#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

absl::Status PlanBuilder::EmitEpilogue() {
  // Contents that were not computed in place are copied back, region by region.
  SMELT_ASSIGN_OR_RETURN(const std::vector<LocatedCopy> back, CopiesBack());
  SMELT_ASSIGN_OR_RETURN(const std::vector<LocatedCopy> fresh, CopiesToFresh());
  // Results read arguments that the copies back overwrite. So they go first, except those whose memory holds the values
  // that are copied back.
  std::vector<LocatedCopy> early, late;
  auto meets = [](int slot, const std::vector<LocatedCopy>& copies, Location LocatedCopy::* end) {
    return std::any_of(copies.begin(), copies.end(), [&](const LocatedCopy& c) { return (c.*end).slot == slot; });
  };
  for (const LocatedCopy& c : fresh) (meets(c.to.slot, back, &LocatedCopy::from) ? late : early).push_back(c);
  for (LocatedCopy& c : late) {
    if (meets(c.from.slot, back, &LocatedCopy::to) || meets(c.from.slot, early, &LocatedCopy::to))
      c.from = Saved(c.from);
  }
  for (const LocatedCopy& c : early) AllocateLate(c.to.slot);
  ParallelCopies(early, false);
  ParallelCopies(back, true);
  for (const LocatedCopy& c : late) AllocateLate(c.to.slot);
  ParallelCopies(late, false);
  SMELT_RETURN_IF_ERROR(EncodeConvention());
  ListWritten();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlanBuilder::LocatedCopy>> PlanBuilder::CopiesBack() {
  std::vector<LocatedCopy> copies;
  for (const MutatedMemory& m : c_.mutations.memories) {
    const ValueId f = g_.outputs()[m.contents.value()];
    SMELT_ASSIGN_OR_RETURN(Location from, Locate(f));
    const bool is_state = IsState(m.memory);
    Location home;
    if (is_state) {
      home.slot = StateSlot(StorageOf(m.memory));
    } else {
      home = locations_.at(ArgumentOf(m.memory));
    }
    if (from.slot == home.slot || (grouped_ && !is_state)) continue;  // arguments that may share are written in place
    std::vector<SymbolicGeometry> regions;
    for (const SymbolicGeometry& r : m.written) {
      bool known = false;
      for (const SymbolicGeometry& k : regions) {
        known = known || (k.offset == r.offset && k.dtype == r.dtype && SameLayout(k, r)) ||
                Covers(Region::Strided(k.offset, k.sizes, k.strides, ItemSize(k.dtype)),
                       Region::Strided(r.offset, r.sizes, r.strides, ItemSize(r.dtype)), g_.symbols);
      }
      if (!known) regions.push_back(r);
    }
    // Offset 0 is the argument's element 0, or the storage's.
    for (const SymbolicGeometry& r : regions) {
      Location src = from, dst = home;
      src.geometry = r;
      dst.geometry = r;
      copies.push_back({src, dst});
    }
  }
  return copies;
}

// Copies into fresh storages the values that lie elsewhere.
absl::StatusOr<std::vector<PlanBuilder::LocatedCopy>> PlanBuilder::CopiesToFresh() {
  std::vector<LocatedCopy> copies;
  std::vector<int> keys;
  for (const auto& [key, slot] : fresh_slot_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (int key : keys) {
    SMELT_ASSIGN_OR_RETURN(Location from, Locate(fresh_contents_.at(key)));
    if (from.slot == fresh_slot_.at(key)) continue;
    Location to;
    to.slot = fresh_slot_.at(key);
    to.geometry = DefaultLayout(g_, fresh_contents_.at(key));
    copies.push_back({from, to});
  }
  return copies;
}

absl::Status PlanBuilder::EncodeConvention() {
  auto conv = std::make_unique<fb::ConventionT>();
  conv->duplicates = std::make_unique<fb::DuplicatesLayerT>();
  for (DistinctIndex i : c_.duplicates.inner_of_outer) conv->duplicates->inner_of_outer.push_back(i.value());
  conv->overlaps = std::make_unique<fb::OverlapsLayerT>();
  absl::flat_hash_map<int, std::vector<int>> groups;
  for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
    if (c_.overlaps.memory_of[d].value() >= 0) groups[c_.overlaps.memory_of[d].value()].push_back(static_cast<int>(d));
  }
  for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
    if (groups[m].size() < 2) continue;
    auto g = std::make_unique<fb::OverlapGroupT>();
    g->members = groups[m];
    conv->overlaps->groups.push_back(std::move(g));
  }
  conv->mutated = std::make_unique<fb::MutatedInputsLayerT>();
  SMELT_RETURN_IF_ERROR(EncodeMutations(*conv->mutated));
  conv->outputs = std::make_unique<fb::OutputsLayerT>();
  for (size_t k = 0; k < c_.outputs.outputs.size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(auto out, EncodeOutput(static_cast<int>(k)));
    conv->outputs->outputs.push_back(std::move(out));
  }
  plan_->convention = std::move(conv);
  return absl::OkStatus();
}

absl::Status PlanBuilder::EncodeMutations(fb::MutatedInputsLayerT& layer) {
  absl::flat_hash_map<int, fb::MutatedInputT*> by_arg;
  auto entry = [&](int arg, bool is_state) -> fb::MutatedInputT& {
    const int key = is_state ? -1 - arg : arg;
    if (by_arg.contains(key)) return *by_arg[key];
    layer.inputs.push_back(std::make_unique<fb::MutatedInputT>());
    by_arg[key] = layer.inputs.back().get();
    by_arg[key]->arg = arg;
    by_arg[key]->is_state = is_state;
    return *by_arg[key];
  };
  for (const MutatedMemory& m : c_.mutations.memories) {
    const bool is_state = IsState(m.memory);
    if (is_state) {
      const int storage = StorageOf(m.memory);
      for (size_t w = 0; w < g_.weights.size(); ++w) {
        if (g_.weights[w].storage != storage) continue;
        fb::MutatedInputT& state = entry(static_cast<int>(w), true);
        state.flags |= static_cast<uint8_t>(fb::MutationKind::Data);
        if (!m.resized) continue;
        state.flags |= static_cast<uint8_t>(fb::MutationKind::Resized);
        state.final_bytes = b_.exprs.Add(m.final_bytes);
      }
      continue;
    }
    for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
      if (c_.overlaps.memory_of[d] != m.memory) continue;
      fb::MutatedInputT& in = entry(static_cast<int>(d), false);
      in.flags |= static_cast<uint8_t>(fb::MutationKind::Data);
      for (size_t i = 0; i < m.written.size(); ++i) {
        const SymbolicGeometry& r = m.written[i];
        if (i < m.written_from.size() && m.written_from[i].value() != static_cast<int>(d)) continue;
        Location l = locations_.at(argument_value_.at(static_cast<int>(d)));
        l.geometry = r;
        in.written.push_back(AddView(l));
      }
      if (m.resized) {
        in.flags |= static_cast<uint8_t>(fb::MutationKind::Resized);
        in.final_bytes = b_.exprs.Add(m.final_bytes);
      }
    }
  }
  for (const MutatedInput& m : c_.mutations.inputs) {
    const int index = m.is_state ? m.state : m.arg.value();
    fb::MutatedInputT& in = entry(index, m.is_state);
    in.flags |= static_cast<uint8_t>(fb::MutationKind::Geometry);
    if (m.storage) in.flags |= static_cast<uint8_t>(fb::MutationKind::Storage);
    Location l;
    if (!m.storage) {
      l = m.is_state ? Location{StateSlot(g_.weights[m.state].storage), {}}
                     : locations_.at(argument_value_.at(m.arg.value()));
    } else if (m.final_source == MutatedInput::Source::kGraphOutput) {
      l.slot = fresh_slot_.at(SharedKey(m.final_output));
    } else {
      l = m.final_from.value() < 0 ? MemoryHome(m.final_memory)
                                   : locations_.at(argument_value_.at(m.final_from.value()));
    }
    l.geometry = m.final_geometry;
    in.final_view = AddView(l);
    if (m.is_state) b_.MarkMutated(g_.weights[m.state].storage);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fb::OutputRefT>> PlanBuilder::EncodeOutput(int k) {
  const OutputInfo& o = c_.outputs.outputs[k];
  auto out = std::make_unique<fb::OutputRefT>();
  Location l;
  switch (o.kind) {
    case OutputInfo::Kind::kIsArgument:
      out->kind = fb::OutputKind::IsArg;
      out->index = o.argument.value();
      break;
    case OutputInfo::Kind::kIsState:
      out->kind = fb::OutputKind::IsState;
      out->index = o.state;
      b_.MarkMutated(g_.weights[o.state].storage);
      break;
    case OutputInfo::Kind::kAliasOfMemory:
      l = MemoryHome(o.memory);
      if (o.argument.value() >= 0) {
        const int d = c_.duplicates.inner_of_outer[o.argument.value()].value();
        l = locations_.at(argument_value_.at(d));
      }
      l.geometry = o.geometry;
      out->kind = o.memory.value() < c_.overlaps.num_argument_memories ? fb::OutputKind::AliasOfArg
                                                                       : fb::OutputKind::AliasOfState;
      out->index = plan_->slots[l.slot]->index;
      out->view = AddView(l);
      break;
    case OutputInfo::Kind::kAliasOfIntermediate:
    case OutputInfo::Kind::kFresh: {
      const bool whole = o.kind == OutputInfo::Kind::kFresh;
      out->kind = whole ? fb::OutputKind::Fresh : fb::OutputKind::AliasOfIntermediate;
      l.slot = fresh_slot_.at(whole ? -1 - k : o.memory.value());
      l.geometry = o.geometry;
      out->index = l.slot;
      out->view = AddView(l);
      break;
    }
    case OutputInfo::Kind::kScalar:
      SMELT_RETURN_IF_ERROR(EncodeScalarOutput(k, *out));
      break;
    case OutputInfo::Kind::kConstant:
      out->kind = fb::OutputKind::Scalar;
      out->scalar_kind = fb::ArgKind::Int;
      out->expr = b_.exprs.Add(o.constant);
      break;
    case OutputInfo::Kind::kNone:
      out->kind = fb::OutputKind::None;
      break;
  }
  return out;
}

absl::Status PlanBuilder::EncodeScalarOutput(int k, fb::OutputRefT& out) {
  const ValueId v = g_.outputs()[c_.outputs.outputs[k].contents.value()];
  out.kind = fb::OutputKind::Scalar;
  const TypeKind t = g_.value(v).type.kind();
  out.scalar_kind = t == TypeKind::kInt    ? fb::ArgKind::Int
                    : t == TypeKind::kBool ? fb::ArgKind::Bool
                                           : fb::ArgKind::Float;
  if (!registers_.contains(v) && g_.value(v).expr) {
    out.expr = b_.exprs.Add(*g_.value(v).expr);
    return absl::OkStatus();
  }
  absl::StatusOr<int> r = RegisterOf(v);  // of a constant or an argument handed through too
  if (!r.ok()) return absl::UnimplementedError(absl::StrCat("output ", k, " is a number computed at run time"));
  out.index = *r;
  return absl::OkStatus();
}

void PlanBuilder::ListWritten() {
  for (const MutatedInput& m : c_.mutations.inputs) {
    if (!m.is_state) written_args_.insert(m.arg.value());
  }
  for (size_t i = 0; i < c_.duplicates.inner_of_outer.size(); ++i) {
    if (written_args_.contains(c_.duplicates.inner_of_outer[i].value()))
      plan_->written_args.push_back(static_cast<int>(i));
  }
  for (int s : written_states_) plan_->written_states.push_back(s);
  std::sort(plan_->written_args.begin(), plan_->written_args.end());
  std::sort(plan_->written_states.begin(), plan_->written_states.end());
}

PlanBuilder::Location PlanBuilder::MemoryHome(MemoryIndex m) {
  if (!IsState(m)) return locations_.at(ArgumentOf(m));
  b_.MarkMutated(StorageOf(m));
  return {StateSlot(StorageOf(m)), {}};
}

absl::Status PlanBuilder::CheckIndicesFirst() {
  if (written_args_.empty() && written_states_.empty()) {
    plan_->may_refuse_late = false;
    return absl::OkStatus();
  }
  int known = 0;
  for (const IndexUse& use : FindIndexUses(g_)) {
    const ValueId root = Root(use.index);
    if (!g_.IsParam(g_.value(root).def) || b_.DependsOnData(use.limit)) continue;
    auto check = std::make_unique<fb::CheckT>();
    check->kind = use.wraps ? fb::CheckKind::WrappedIndexInRange : fb::CheckKind::IndexInRange;
    SMELT_ASSIGN_OR_RETURN(check->a, ViewOf(use.index));
    check->b = b_.exprs.Add(use.limit);
    check->source = use.source;
    plan_->prologue_checks.push_back(std::move(check));
    ++known;
  }
  if (index_checks_ > known || !data_symbols_.empty()) plan_->may_refuse_late = true;
  return absl::OkStatus();
}

namespace {

bool MayDivideByZero(const KernelSpec& spec, const KernelInstr& in) {
  if (in.op != KernelOp::kScalar || IsFloating(in.type)) return false;
  if (in.scalar != ScalarOp::kDivTrunc && in.scalar != ScalarOp::kDivFloor && in.scalar != ScalarOp::kRemTrunc &&
      in.scalar != ScalarOp::kRemFloor) {
    return false;
  }
  const KernelInstr& divisor = spec.instrs[in.operands[1]];
  return divisor.op != KernelOp::kScalar || divisor.scalar != ScalarOp::kConst;
}

}  // namespace

void PlanBuilder::NoteRefusals(const KernelSpec& spec) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kCheckIndex) ++index_checks_;
    if (MayDivideByZero(spec, in)) plan_->may_refuse_late = true;
  }
}

}  // namespace smelt
