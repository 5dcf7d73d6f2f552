#include "smelt/codegen/plan_epilogue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/index_checks.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

absl::Status PlanEpilogue::Emit() {
  // Contents that were not computed in place are copied back, region by region.
  SMELT_ASSIGN_OR_RETURN(const std::vector<LocatedCopy> back, CopiesBack());
  SMELT_ASSIGN_OR_RETURN(const std::vector<LocatedCopy> fresh, CopiesToFresh());
  // Results read arguments that the copies back overwrite. So they go first, except those whose memory holds the values
  // that are copied back.
  std::vector<LocatedCopy> early, late;
  auto meets = [](int slot, const std::vector<LocatedCopy>& copies, PlanLocation LocatedCopy::* end) {
    return std::any_of(copies.begin(), copies.end(), [&](const LocatedCopy& c) { return (c.*end).slot == slot; });
  };
  for (const LocatedCopy& c : fresh) (meets(c.to.slot, back, &LocatedCopy::from) ? late : early).push_back(c);
  for (LocatedCopy& c : late) {
    if (meets(c.from.slot, back, &LocatedCopy::to) || meets(c.from.slot, early, &LocatedCopy::to))
      c.from = copies_.Save(c.from);
  }
  for (const LocatedCopy& c : early) slots_.AllocateLate(c.to.slot);
  copies_.CopyAtOnce(early, false);
  copies_.CopyAtOnce(back, true);
  for (const LocatedCopy& c : late) slots_.AllocateLate(c.to.slot);
  copies_.CopyAtOnce(late, false);
  SMELT_RETURN_IF_ERROR(EncodeConvention());
  destinations_.ListWritten(plan_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LocatedCopy>> PlanEpilogue::CopiesBack() {
  std::vector<LocatedCopy> copies;
  for (const MutatedMemory& m : c_.mutations.memories) {
    const ValueId f = g_.outputs()[m.contents.value()];
    SMELT_ASSIGN_OR_RETURN(PlanLocation from, slots_.Locate(f));
    const bool is_state = slots_.IsState(m.memory);
    PlanLocation home;
    if (is_state) {
      home.slot = slots_.StateSlot(slots_.StorageOf(m.memory));
    } else {
      home = slots_.LocationOf(slots_.ArgumentOf(m.memory));
    }
    if (from.slot == home.slot || (slots_.grouped() && !is_state))
      continue;  // arguments that may share are written in place
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
      PlanLocation src = from, dst = home;
      src.geometry = r;
      dst.geometry = r;
      copies.push_back({src, dst});
    }
  }
  return copies;
}

// Copies into fresh storages the values that lie elsewhere.
absl::StatusOr<std::vector<LocatedCopy>> PlanEpilogue::CopiesToFresh() {
  std::vector<LocatedCopy> copies;
  for (int key : destinations_.FreshKeys()) {
    SMELT_ASSIGN_OR_RETURN(PlanLocation from, slots_.Locate(destinations_.FreshContents(key)));
    if (from.slot == destinations_.FreshSlot(key)) continue;
    PlanLocation to;
    to.slot = destinations_.FreshSlot(key);
    to.geometry = DefaultLayout(g_, destinations_.FreshContents(key));
    copies.push_back({from, to});
  }
  return copies;
}

absl::Status PlanEpilogue::EncodeConvention() {
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
  plan_.convention = std::move(conv);
  return absl::OkStatus();
}

absl::Status PlanEpilogue::EncodeMutations(fb::MutatedInputsLayerT& layer) {
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
    const bool is_state = slots_.IsState(m.memory);
    if (is_state) {
      const int storage = slots_.StorageOf(m.memory);
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
        PlanLocation l = slots_.LocationOf(slots_.ArgumentValue(static_cast<int>(d)));
        l.geometry = r;
        in.written.push_back(slots_.AddView(l));
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
    PlanLocation l;
    if (!m.storage) {
      l = m.is_state ? PlanLocation{slots_.StateSlot(g_.weights[m.state].storage), {}}
                     : slots_.LocationOf(slots_.ArgumentValue(m.arg.value()));
    } else if (m.final_source == MutatedInput::Source::kGraphOutput) {
      l.slot = destinations_.FreshSlot(destinations_.SharedKey(m.final_output));
    } else {
      l = m.final_from.value() < 0 ? slots_.MemoryHome(m.final_memory)
                                   : slots_.LocationOf(slots_.ArgumentValue(m.final_from.value()));
    }
    l.geometry = m.final_geometry;
    in.final_view = slots_.AddView(l);
    if (m.is_state) b_.MarkMutated(g_.weights[m.state].storage);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<fb::OutputRefT>> PlanEpilogue::EncodeOutput(int k) {
  const OutputInfo& o = c_.outputs.outputs[k];
  auto out = std::make_unique<fb::OutputRefT>();
  PlanLocation l;
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
      l = slots_.MemoryHome(o.memory);
      if (o.argument.value() >= 0) {
        const int d = c_.duplicates.inner_of_outer[o.argument.value()].value();
        l = slots_.LocationOf(slots_.ArgumentValue(d));
      }
      l.geometry = o.geometry;
      out->kind = o.memory.value() < c_.overlaps.num_argument_memories ? fb::OutputKind::AliasOfArg
                                                                       : fb::OutputKind::AliasOfState;
      out->index = plan_.slots[l.slot]->index;
      out->view = slots_.AddView(l);
      break;
    case OutputInfo::Kind::kAliasOfIntermediate:
    case OutputInfo::Kind::kFresh: {
      const bool whole = o.kind == OutputInfo::Kind::kFresh;
      out->kind = whole ? fb::OutputKind::Fresh : fb::OutputKind::AliasOfIntermediate;
      l.slot = destinations_.FreshSlot(whole ? -1 - k : o.memory.value());
      l.geometry = o.geometry;
      out->index = l.slot;
      out->view = slots_.AddView(l);
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

absl::Status PlanEpilogue::EncodeScalarOutput(int k, fb::OutputRefT& out) {
  const ValueId v = g_.outputs()[c_.outputs.outputs[k].contents.value()];
  out.kind = fb::OutputKind::Scalar;
  const TypeKind t = g_.value(v).type.kind();
  out.scalar_kind = t == TypeKind::kInt    ? fb::ArgKind::Int
                    : t == TypeKind::kBool ? fb::ArgKind::Bool
                                           : fb::ArgKind::Float;
  if (!numbers_.Has(v) && g_.value(v).expr) {
    out.expr = b_.exprs.Add(*g_.value(v).expr);
    return absl::OkStatus();
  }
  absl::StatusOr<int> r = numbers_.RegisterOf(v);  // of a constant or an argument handed through too
  if (!r.ok()) return absl::UnimplementedError(absl::StrCat("output ", k, " is a number computed at run time"));
  out.index = *r;
  return absl::OkStatus();
}

absl::Status PlanEpilogue::CheckIndicesFirst() {
  if (destinations_.WritesNothing()) {
    plan_.may_refuse_late = false;
    return absl::OkStatus();
  }
  int known = 0;
  for (const IndexUse& use : FindIndexUses(g_)) {
    const ValueId root = StorageOf(g_, use.index);
    if (!g_.IsParam(g_.value(root).def) || b_.DependsOnData(use.limit)) continue;
    auto check = std::make_unique<fb::CheckT>();
    check->kind = use.wraps ? fb::CheckKind::WrappedIndexInRange : fb::CheckKind::IndexInRange;
    SMELT_ASSIGN_OR_RETURN(check->a, slots_.ViewOf(use.index));
    check->b = b_.exprs.Add(use.limit);
    check->source = use.source;
    plan_.prologue_checks.push_back(std::move(check));
    ++known;
  }
  if (kernels_.index_checks() > known || slots_.HasDataSymbols()) plan_.may_refuse_late = true;
  return absl::OkStatus();
}

}  // namespace smelt
