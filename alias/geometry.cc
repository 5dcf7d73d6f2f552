// The bytes of its storage that a handle covers: exactly, through the view rules, where sizes and strides are known,
// and otherwise as a box in the index space of the handle that it is a view of.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "smelt/alias/boxes.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::Interval;
using alias_internal::IsOld;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::UnwrapOptional;

namespace {

// Returns whether the geometry states an expression that the base's does not state at the same place.
bool AddsExpressions(const Geom& geom, const Geom& base) {
  const auto is_new = [](const Expr& e, const Expr* old) { return !e.IsConstant() && (old == nullptr || e != *old); };
  const auto at = [](const std::vector<Expr>& all, size_t i) { return i < all.size() ? &all[i] : nullptr; };
  if (is_new(geom.geometry.offset, &base.geometry.offset)) return true;
  for (size_t i = 0; i < geom.geometry.sizes.size(); ++i) {
    if (is_new(geom.geometry.sizes[i], at(base.geometry.sizes, i))) return true;
  }
  for (const Interval& i : geom.box) {
    const auto old = absl::c_find_if(base.box, [&](const Interval& b) { return b.key == i.key; });
    const auto bound = [&](const std::optional<Expr> Interval::* which) {
      const bool known = old != base.box.end() && ((*old).*which).has_value();
      return (i.*which).has_value() && is_new(*(i.*which), known ? &*((*old).*which) : nullptr);
    };
    if (bound(&Interval::lo) || bound(&Interval::hi)) return true;
  }
  return false;
}

}  // namespace

// After an edit has dropped the geometries, a few are made for nothing. Edits pay for the others.
const Geom& AliasDb::State::GeomOf(uint32_t object) {
  constexpr size_t kFreeGeoms = 256;
  constexpr int64_t kStepsOfGeom = 8;
  // A chain of views may be long, so its start comes first, without recursion.
  if (HasGeom(object)) return geoms[geom_of[object].index];
  if (geom_of.size() < objects.size()) geom_of.resize(objects.size());
  std::vector<uint32_t> todo = {object};
  while (!todo.empty()) {
    uint32_t o = todo.back();
    ++steps;
    if (HasGeom(o)) {
      todo.pop_back();
      continue;
    }
    const Object& obj = objects[o];
    uint32_t base = 0;
    ValueId joined;  // the base, where it may be one of several handles
    bool base_is_old = false;
    if ((obj.kind == Kind::kView || obj.kind == Kind::kPiece) && obj.def.valid() && g.IsLive(obj.def) &&
        !GeometryChanges(o)) {
      const Value& value = g.value(obj.def);
      const Node& node = g.node(value.def);
      uint64_t mask = 1;
      if (GetOpEffects(node.op).kind != EffectKind::kConstantChunk) {
        OpEffects made;
        const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
        mask = obj.kind == Kind::kPiece ? r.elements_view : r.view;
      }
      for (size_t i = 0; i < node.inputs.size() && i < 64 && base == 0; ++i) {
        if (!(mask & (uint64_t{1} << i))) continue;
        const SetId p = PointsTo(node.inputs[i]);
        if (mask != (uint64_t{1} << i)) break;
        if (SetPool::IsSingle(p)) {
          base = ObjectOf(SetPool::SingleRef(p));
          base_is_old = IsOld(SetPool::SingleRef(p));
        } else if (obj.kind == Kind::kView && p != 0) {
          joined = node.inputs[i];
        }
      }
    }
    // A view of itself, by way of others, may lie anywhere in its storage, and so may one for which nobody has paid.
    bool cut = false;
    if (base != 0 && base != o && !HasGeom(base)) {
      if (geom_of.size() < objects.size()) geom_of.resize(objects.size());
      cut = geom_of[base].open || (!geoms_are_first && geoms.size() + todo.size() > kFreeGeoms &&
                                   !AffordsCache(kStepsOfGeom * static_cast<int64_t>(todo.size() + 1)));
      if (!cut) {
        geom_of[o].open = true;
        todo.push_back(base);
        continue;
      }
    }
    todo.pop_back();
    Geom geom;
    // A view that an earlier iteration made of a base with other dimensions.
    const bool of_another = !cut && base_is_old && base != 0 && base != o && geoms[geom_of[base].index].space_varies;
    if (cut) {
      geom.storage = DistinctStorage(obj.storage);
    } else if (base != 0 && base != o && !of_another && objects[base].storage == obj.storage) {
      const Value& value = g.value(obj.def);
      const Object& b = objects[base];
      // A view that was taken before somebody changed the geometry of its base stays where it was.
      const bool made_before = GeometryChanges(base) && b.kind != Kind::kView && b.kind != Kind::kPiece &&
                               !GeometryMayChangeBefore(base, value.def);
      if (made_before) {
        ApplyView(o, value.def, MakeGeom(base, true), base, false, &geom);
      } else {
        ApplyView(o, value.def, geoms[geom_of[base].index], base, GeometryChanges(base), &geom);
        if (AddsExpressions(geom, geoms[geom_of[base].index])) ++geom.expressions;
      }
    } else if (joined.valid()) {
      ApplyView(o, g.value(obj.def).def, GeomOfJoined(joined), 0, false, &geom);
    } else if (of_another) {
      geom.storage = geoms[geom_of[base].index].storage;
    } else {
      geom = MakeGeom(o);
    }
    // A chain of views that goes on and on adds an interval, a dimension or a term each: then it may lie anywhere.
    constexpr size_t kManyIntervals = 16, kManyDims = 64;
    constexpr uint32_t kManyExpressions = 16;
    if (geom.box.size() > kManyIntervals || geom.front.size() > kManyDims || geom.geometry.sizes.size() > kManyDims ||
        geom.expressions > kManyExpressions) {
      const uint32_t storage = geom.storage;
      geom = Geom();
      geom.storage = storage;
    }
    geom.fixed.clear();
    geom.all_fixed = true;
    for (const Interval& i : geom.box) {
      const std::optional<int64_t> lo = i.lo ? i.lo->Constant() : std::nullopt,
                                   hi = i.hi ? i.hi->Constant() : std::nullopt;
      if (lo && hi && i.step == 1) {
        geom.fixed.push_back({i.key, *lo, *hi});
      } else {
        geom.all_fixed = false;
      }
    }
    if (geom_of.size() < objects.size()) geom_of.resize(objects.size());
    geom_of[o] = GeomSlot(geom_epoch, static_cast<uint32_t>(geoms.size()), geom);
    geoms.push_back(std::move(geom));
    if (!geoms_are_first && geoms.size() > kFreeGeoms) {
      cache_credit = std::max<int64_t>(0, cache_credit - kStepsOfGeom);
    }
  }
  return geoms[geom_of[object].index];
}

// Returns whether some node that changes the handle's geometry may do so before n looks at it.
bool AliasDb::State::GeometryMayChangeBefore(uint32_t object, NodeId n) {
  constexpr size_t kMany = 16;
  if (OutermostLoop(n).valid()) return true;
  const auto may = [&](uint32_t key) {
    const auto it = geometry_changes.find(key);
    if (it == geometry_changes.end()) return false;
    return it->second.size() > kMany || it->second.Any([&](NodeId by) { return Precedes(n, by) != 1; });
  };
  return may(HandleKey(object)) || ((objects[object].external || objects[object].escaped) && may(kUnknown));
}

// The index space of a value that may be one of several handles: whichever it is, its own indices distinguish its
// views.
Geom AliasDb::State::GeomOfJoined(ValueId v) {
  Geom out;
  const ValueId handle = Original(v);
  bool changes = false;
  sets.ForEach(PointsTo(handle),
               [&](Ref r) { changes = changes || !objects[ObjectOf(r)].tensor || GeometryChanges(ObjectOf(r)); });
  if (changes) return out;
  out.space = kFirstJoinedSpace + handle.index;
  out.space_varies = OutermostLoop(g.value(handle).def).valid();
  TakeSizes(g.value(handle).type, &out);
  if (out.rank >= 0) Materialize(&out, out.rank);
  out.injective = out.space_injective = IsInjective(PointsTo(handle));
  return out;
}

// Returns whether different indices of each of the handles are different bytes. This holds for fresh tensors, and for
// views that only choose among their elements or rename them. A chain that comes back to itself adds nothing.
bool AliasDb::State::IsInjective(SetId handles) {
  static const auto* const kChoose = new absl::flat_hash_set<absl::string_view>{
      op::kSelect,  op::kSlice,   op::kNarrow,    op::kTranspose, op::kT,       op::kPermute,
      op::kSqueeze, op::kFlatten, op::kUnsqueeze, op::kReshape,   op::kDetach,  op::kAlias,
      op::kView,    op::kViewAs,  op::kDiagonal,  op::kSwapaxes,  op::kSwapdims};
  constexpr size_t kMany = 64;
  absl::InlinedVector<Ref, 8> todo = sets.Refs(handles);
  for (size_t at = 0; at < todo.size(); ++at) {
    const Object& o = objects[ObjectOf(todo[at])];
    if (at == kMany || !o.def.valid() || o.group != 0 || GeometryChanges(ObjectOf(todo[at]))) return false;
    const Node& node = g.node(g.value(o.def).def);
    if (o.kind == Kind::kTensor) {
      const bool own = o.storage == SetPool::Single(MakeRef(ObjectOf(todo[at])));
      if (!own || GetOpEffects(node.op).takes_strides) return false;
    } else if (o.kind == Kind::kView && kChoose->contains(node.op.name())) {
      for (Ref r : sets.Refs(PointsTo(node.inputs[0]))) {
        if (!absl::c_linear_search(todo, r)) todo.push_back(r);
      }
    } else {
      return false;
    }
  }
  return true;
}

// Returns the only storage of the set, if it is one that the database distinguishes; else 0.
uint32_t AliasDb::State::DistinctStorage(SetId storages) const {
  if (!SetPool::IsSingle(storages)) return 0;
  const uint32_t storage = ObjectOf(SetPool::SingleRef(storages));
  const Kind kind = objects[storage].kind;
  return kind == Kind::kUnknown || kind == Kind::kSummary || kind == Kind::kMade ? 0 : storage;
}

// Makes the geometry of an object that is not a view of something known. `as_made` means before anybody changed its
// geometry.
Geom AliasDb::State::MakeGeom(uint32_t object, bool as_made) {
  Geom out;
  const Object& o = objects[object];
  if (!o.tensor) return out;
  const uint32_t storage = out.storage = DistinctStorage(o.storage);
  if (storage == 0) return out;
  if (!as_made && GeometryChanges(object)) return out;  // anywhere in its storage
  const bool whole = storage == object;
  Type type = TypeOfObject(object);
  if (o.kind == Kind::kInput && objects[storage].kind == Kind::kWeight) {
    const size_t index = g.value(o.def).def_index;
    const Weight& w = g.weights[g.input_infos[index].weight];
    out.exact = true;
    out.geometry.dtype = w.dtype;
    for (int64_t s : w.geometry.sizes) out.geometry.sizes.push_back(Expr(s));
    for (int64_t s : w.geometry.strides) out.geometry.strides.push_back(Expr(s));
    out.geometry.offset = Expr(w.geometry.offset);
  } else if (whole && (o.kind == Kind::kInput || o.kind == Kind::kTensor || o.kind == Kind::kConstant ||
                       o.kind == Kind::kElement)) {
    const Type& t = UnwrapOptional(type);
    if (t.IsTensor() && t.tensor().IsComplete()) {
      out.exact = true;
      out.geometry.dtype = *t.tensor().dtype;
      out.geometry.sizes = *t.tensor().sizes;
      out.geometry.strides = *t.tensor().strides;
      out.geometry.offset = Expr(0);
    }
  } else if (!whole) {
    return out;
  }
  out.space = object;
  TakeSizes(type, &out);
  out.own_dtype = whole;
  if (o.kind == Kind::kTensor && !out.exact && !out.has_sizes) TakeAskedSizes(o, &out);
  if (out.rank >= 0) Materialize(&out, out.rank);
  const bool fresh = (o.kind == Kind::kTensor && !GetOpEffects(g.node(g.value(o.def).def).op).takes_strides) ||
                     o.kind == Kind::kConstant || (o.kind == Kind::kPiece && whole);
  out.injective = fresh;
  if (!fresh) {
    const Type& t = UnwrapOptional(type);
    if (out.exact) {
      Region r =
          Region::Strided(out.geometry.offset, out.geometry.sizes, out.geometry.strides, ItemSize(out.geometry.dtype));
      out.injective = r.OverlapsItself(g.symbols) == false;
    } else if (t.IsTensor() && t.tensor().sizes && t.tensor().strides) {
      Region r = Region::Strided(Expr(0), *t.tensor().sizes, *t.tensor().strides, 1);
      out.injective = r.OverlapsItself(g.symbols) == false;
    }
  }
  out.space_injective = out.injective;
  return out;
}

}  // namespace smelt
