#include "smelt/alias/geometries.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "smelt/alias/boxes.h"
#include "smelt/alias/state.h"
#include "smelt/alias/views.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

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
const Geom& Geometries::GeomOf(uint32_t object) {
  constexpr size_t kFreeGeoms = 256;
  constexpr int64_t kStepsOfGeom = 8;
  // A chain of views may be long, so its start comes first, without recursion.
  if (HasGeom(object)) return geoms_[slots_[object].index];
  if (slots_.size() < s_.objects.size()) slots_.resize(s_.objects.size());
  std::vector<uint32_t> todo = {object};
  while (!todo.empty()) {
    uint32_t o = todo.back();
    ++s_.steps;
    if (HasGeom(o)) {
      todo.pop_back();
      continue;
    }
    const Object& obj = s_.objects[o];
    uint32_t base = 0;
    ValueId joined;  // the base, where it may be one of several handles
    bool base_is_old = false;
    if ((obj.kind == ObjectKind::kView || obj.kind == ObjectKind::kPiece) && obj.def.valid() && s_.g.IsLive(obj.def) &&
        !s_.reshapes.GeometryChanges(o)) {
      const Value& value = s_.g.value(obj.def);
      const Node& node = s_.g.node(value.def);
      uint64_t mask = 1;
      if (GetOpEffects(node.op).kind != EffectKind::kConstantChunk) {
        OpEffects made;
        const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
        mask = obj.kind == ObjectKind::kPiece ? r.elements_view : r.view;
      }
      for (size_t i = 0; i < node.inputs.size() && i < 64 && base == 0; ++i) {
        if (!(mask & (uint64_t{1} << i))) continue;
        const SetId p = s_.records.PointsTo(node.inputs[i]);
        if (mask != (uint64_t{1} << i)) break;
        if (SetPool::IsSingle(p)) {
          base = ObjectOf(SetPool::SingleRef(p));
          base_is_old = IsOld(SetPool::SingleRef(p));
        } else if (obj.kind == ObjectKind::kView && p != 0) {
          joined = node.inputs[i];
        }
      }
    }
    // A view of itself, by way of others, may lie anywhere in its storage, and so may one for which nobody has paid.
    bool cut = false;
    if (base != 0 && base != o && !HasGeom(base)) {
      if (slots_.size() < s_.objects.size()) slots_.resize(s_.objects.size());
      cut = slots_[base].open || (!are_first_ && geoms_.size() + todo.size() > kFreeGeoms &&
                                  !s_.budget.AffordsCache(kStepsOfGeom * static_cast<int64_t>(todo.size() + 1)));
      if (!cut) {
        slots_[o].open = true;
        todo.push_back(base);
        continue;
      }
    }
    todo.pop_back();
    Geom geom;
    // A view that an earlier iteration made of a base with other dimensions.
    const bool of_another = !cut && base_is_old && base != 0 && base != o && geoms_[slots_[base].index].space_varies;
    if (cut) {
      geom.storage = DistinctStorage(obj.storage);
    } else if (base != 0 && base != o && !of_another && s_.objects[base].storage == obj.storage) {
      const Value& value = s_.g.value(obj.def);
      const Object& b = s_.objects[base];
      // A view that was taken before somebody changed the geometry of its base stays where it was.
      const bool made_before = s_.reshapes.GeometryChanges(base) && b.kind != ObjectKind::kView &&
                               b.kind != ObjectKind::kPiece && !GeometryMayChangeBefore(base, value.def);
      if (made_before) {
        Views(s_).Apply(o, value.def, MakeGeom(base, true), base, false, &geom);
      } else {
        Views(s_).Apply(o, value.def, geoms_[slots_[base].index], base, s_.reshapes.GeometryChanges(base), &geom);
        if (AddsExpressions(geom, geoms_[slots_[base].index])) ++geom.expressions;
      }
    } else if (joined.valid()) {
      Views(s_).Apply(o, s_.g.value(obj.def).def, GeomOfJoined(joined), 0, false, &geom);
    } else if (of_another) {
      geom.storage = geoms_[slots_[base].index].storage;
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
    if (slots_.size() < s_.objects.size()) slots_.resize(s_.objects.size());
    slots_[o] = Slot(epoch_, static_cast<uint32_t>(geoms_.size()), geom);
    geoms_.push_back(std::move(geom));
    if (!are_first_ && geoms_.size() > kFreeGeoms) {
      s_.budget.TakeForCache(kStepsOfGeom);
    }
  }
  return geoms_[slots_[object].index];
}

// Returns whether some node that changes the handle's geometry may do so before n looks at it.
bool Geometries::GeometryMayChangeBefore(uint32_t object, NodeId n) {
  constexpr size_t kMany = 16;
  if (s_.work.OutermostLoop(n).valid()) return true;
  const auto may = [&](uint32_t key) {
    const auto it = s_.reshapes.geometry_changes.find(key);
    if (it == s_.reshapes.geometry_changes.end()) return false;
    return it->second.size() > kMany || it->second.Any([&](NodeId by) { return s_.stores.Precedes(n, by) != 1; });
  };
  return may(s_.objects.HandleKey(object)) ||
         ((s_.objects[object].external || s_.objects[object].escaped) && may(kUnknown));
}

// The index space of a value that may be one of several handles: whichever it is, its own indices distinguish its
// views.
Geom Geometries::GeomOfJoined(ValueId v) {
  Geom out;
  const ValueId handle = s_.same.Original(v);
  bool changes = false;
  s_.sets.ForEach(s_.records.PointsTo(handle), [&](Ref r) {
    changes = changes || !s_.objects[ObjectOf(r)].tensor || s_.reshapes.GeometryChanges(ObjectOf(r));
  });
  if (changes) return out;
  out.space = kFirstJoinedSpace + handle.index;
  out.space_varies = s_.work.OutermostLoop(s_.g.value(handle).def).valid();
  TakeSizes(s_.g.value(handle).type, &out);
  if (out.rank >= 0) Materialize(&out, out.rank);
  out.injective = out.space_injective = IsInjective(s_.records.PointsTo(handle));
  return out;
}

// Returns whether different indices of each of the handles are different bytes. This holds for fresh tensors, and for
// views that only choose among their elements or rename them. A chain that comes back to itself adds nothing.
bool Geometries::IsInjective(SetId handles) {
  static const auto* const kChoose = new absl::flat_hash_set<absl::string_view>{
      op::kSelect,  op::kSlice,   op::kNarrow,    op::kTranspose, op::kT,       op::kPermute,
      op::kSqueeze, op::kFlatten, op::kUnsqueeze, op::kReshape,   op::kDetach,  op::kAlias,
      op::kView,    op::kViewAs,  op::kDiagonal,  op::kSwapaxes,  op::kSwapdims};
  constexpr size_t kMany = 64;
  absl::InlinedVector<Ref, 8> todo = s_.sets.Refs(handles);
  for (size_t at = 0; at < todo.size(); ++at) {
    const Object& o = s_.objects[ObjectOf(todo[at])];
    if (at == kMany || !o.def.valid() || o.group != 0 || s_.reshapes.GeometryChanges(ObjectOf(todo[at]))) return false;
    const Node& node = s_.g.node(s_.g.value(o.def).def);
    if (o.kind == ObjectKind::kTensor) {
      const bool own = o.storage == SetPool::Single(MakeRef(ObjectOf(todo[at])));
      if (!own || GetOpEffects(node.op).takes_strides) return false;
    } else if (o.kind == ObjectKind::kView && kChoose->contains(node.op.name())) {
      for (Ref r : s_.sets.Refs(s_.records.PointsTo(node.inputs[0]))) {
        if (!absl::c_linear_search(todo, r)) todo.push_back(r);
      }
    } else {
      return false;
    }
  }
  return true;
}

// Returns the only storage of the set, if it is one that the database distinguishes; else 0.
uint32_t Geometries::DistinctStorage(SetId storages) const {
  if (!SetPool::IsSingle(storages)) return 0;
  const uint32_t storage = ObjectOf(SetPool::SingleRef(storages));
  const ObjectKind kind = s_.objects[storage].kind;
  return kind == ObjectKind::kUnknown || kind == ObjectKind::kSummary || kind == ObjectKind::kMade ? 0 : storage;
}

// Makes the geometry of an object that is not a view of something known. `as_made` means before anybody changed its
// geometry.
Geom Geometries::MakeGeom(uint32_t object, bool as_made) {
  Geom out;
  const Object& o = s_.objects[object];
  if (!o.tensor) return out;
  const uint32_t storage = out.storage = DistinctStorage(o.storage);
  if (storage == 0) return out;
  if (!as_made && s_.reshapes.GeometryChanges(object)) return out;  // anywhere in its storage
  const bool whole = storage == object;
  Type type = s_.containers.TypeOfObject(object);
  if (o.kind == ObjectKind::kInput && s_.objects[storage].kind == ObjectKind::kWeight) {
    const size_t index = s_.g.value(o.def).def_index;
    const Weight& w = s_.g.weights[s_.g.input_infos[index].weight];
    out.exact = true;
    out.geometry.dtype = w.dtype;
    for (int64_t s : w.geometry.sizes) out.geometry.sizes.push_back(Expr(s));
    for (int64_t s : w.geometry.strides) out.geometry.strides.push_back(Expr(s));
    out.geometry.offset = Expr(w.geometry.offset);
  } else if (whole && (o.kind == ObjectKind::kInput || o.kind == ObjectKind::kTensor ||
                       o.kind == ObjectKind::kConstant || o.kind == ObjectKind::kElement)) {
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
  if (o.kind == ObjectKind::kTensor && !out.exact && !out.has_sizes) TakeAskedSizes(o, &out);
  if (out.rank >= 0) Materialize(&out, out.rank);
  const bool fresh =
      (o.kind == ObjectKind::kTensor && !GetOpEffects(s_.g.node(s_.g.value(o.def).def).op).takes_strides) ||
      o.kind == ObjectKind::kConstant || (o.kind == ObjectKind::kPiece && whole);
  out.injective = fresh;
  if (!fresh) {
    const Type& t = UnwrapOptional(type);
    if (out.exact) {
      Region r =
          Region::Strided(out.geometry.offset, out.geometry.sizes, out.geometry.strides, ItemSize(out.geometry.dtype));
      out.injective = r.OverlapsItself(s_.g.symbols) == false;
    } else if (t.IsTensor() && t.tensor().sizes && t.tensor().strides) {
      Region r = Region::Strided(Expr(0), *t.tensor().sizes, *t.tensor().strides, 1);
      out.injective = r.OverlapsItself(s_.g.symbols) == false;
    }
  }
  out.space_injective = out.injective;
  return out;
}

// Takes the geometry of a new tensor from its node's sizes, if its type has none.
void Geometries::TakeAskedSizes(const Object& o, Geom* out) {
  const Node& node = s_.g.node(s_.g.value(o.def).def);
  const OpEffects& op = GetOpEffects(node.op);
  if (op.sizes_arg < 0 || static_cast<size_t>(op.sizes_arg) >= node.inputs.size()) return;
  std::optional<std::vector<Expr>> sizes = s_.numbers.IntsOf(node.inputs[op.sizes_arg]);
  if (!sizes) return;
  out->rank = static_cast<int>(sizes->size());
  out->sizes = *std::move(sizes);
  out->has_sizes = true;
  const auto given = [&](int8_t arg) {
    if (arg < 0 || static_cast<size_t>(arg) >= node.inputs.size()) return false;
    const std::optional<ConstantValue> c = GetConstant(s_.g, node.inputs[arg]);
    return !c || !std::holds_alternative<std::monostate>(*c);
  };
  if (given(op.format_arg)) return;
  out->exact = true;
  out->item_known = out->dtype.has_value();
  if (out->dtype) out->geometry.dtype = *out->dtype;
  out->geometry.sizes = out->sizes;
  out->geometry.strides = ContiguousStrides(out->sizes);
  out->geometry.offset = Expr(0);
}

std::optional<Expr> Geometries::PositionOf(const Expr& bound, std::optional<bool> is_from_begin, int64_t key,
                                           const Geom& base, uint32_t object, NodeId n) {
  if (is_from_begin == true) return bound;
  const Interval* limited = nullptr;
  for (const Interval& i : base.box) {
    if (i.key == key) limited = &i;
  }
  // A view in a loop has other sizes in each iteration.
  const bool in_loop = s_.objects[object].loop != 0 || s_.work.OutermostLoop(n).valid();
  if (in_loop && (limited != nullptr || base.space_parent != 0)) return std::nullopt;
  const std::string where = limited == nullptr ? absl::StrCat("of ", base.space) : absl::StrCat("of view ", object);
  return Expr::Symbol(absl::StrCat("position ", bound.ToString(), " in ", key, " ", where));
}

bool Geometries::IsEmpty(uint32_t object) {
  Object& o = s_.objects[object];
  if (o.kind != ObjectKind::kInput && o.kind != ObjectKind::kTensor && o.kind != ObjectKind::kView &&
      o.kind != ObjectKind::kConstant) {
    return false;
  }
  if (o.empty == Object::Empty::kNotAsked) {
    const Type& t = UnwrapOptional(s_.g.value(o.def).type);
    bool empty = false;
    if (t.IsTensor() && t.tensor().sizes) {
      for (const Expr& e : *t.tensor().sizes) empty |= e.Constant() == 0;
    }
    o.empty = empty ? Object::Empty::kYes : Object::Empty::kNo;
  }
  return o.empty == Object::Empty::kYes && !s_.reshapes.GeometryChanges(object);
}

Geometries::Slot::Slot(uint32_t epoch, uint32_t index, const Geom& geom)
    : epoch(epoch),
      index(index),
      space(geom.space),
      frame(geom.Frame()),
      has_box(!geom.box.empty()),
      space_injective(geom.space_injective),
      space_varies(geom.space_varies) {
  if (!geom.space_injective || !geom.all_fixed || geom.fixed.size() != 1) return;
  const Geom::Fixed& f = geom.fixed[0];
  const auto fits = [](int64_t x) { return x == static_cast<int32_t>(x); };
  if (!fits(f.key) || !fits(f.lo) || !fits(f.hi)) return;
  is_interval = true;
  key = static_cast<int32_t>(f.key);
  lo = static_cast<int32_t>(f.lo);
  hi = static_cast<int32_t>(f.hi);
}

Overlap Geometries::CompareObjects(uint32_t a, uint32_t b, bool same_time) {
  const SetId sa = s_.objects[a].storage, sb = s_.objects[b].storage;
  const bool one_storage = SetPool::IsSingle(sa) && SetPool::IsSingle(sb);
  if (one_storage && ObjectOf(SetPool::SingleRef(sa)) != ObjectOf(SetPool::SingleRef(sb))) return Overlap::kUnknown;
  if (a == b) return one_storage ? Overlap::kSame : Overlap::kUnknown;
  if (!one_storage && (s_.objects[a].kind != ObjectKind::kView || s_.objects[b].kind != ObjectKind::kView))
    return Overlap::kUnknown;
  if (!HasGeom(a)) GeomOf(a);
  if (!HasGeom(b)) GeomOf(b);
  const Slot &p = slots_[a], &q = slots_[b];
  const bool both_exact = p.frame != 0 && p.frame == q.frame;
  if (p.space != 0 && p.space == q.space && (same_time || !p.space_varies)) {
    const bool comparable = p.has_box && q.has_box && (p.space_injective || q.space_injective);
    if (!both_exact && !comparable) return Overlap::kUnknown;
    if (p.is_interval && q.is_interval) {
      if (p.key == q.key && (p.hi <= q.lo || q.hi <= p.lo)) return Overlap::kDisjoint;
      if (!both_exact) return Overlap::kUnknown;
    }
  }
  const Geom &x = geoms_[p.index], &y = geoms_[q.index];
  if (x.space != 0 && x.space == y.space && x.space_injective && (same_time || !x.space_varies)) {
    for (const Geom::Fixed& p : x.fixed) {
      for (const Geom::Fixed& q : y.fixed) {
        if (p.key == q.key && (p.hi <= q.lo || q.hi <= p.lo)) return Overlap::kDisjoint;
      }
    }
    if (x.all_fixed && y.all_fixed && !both_exact) return Overlap::kUnknown;
  }
  if (!both_exact && (x.space == 0 || y.space == 0)) return Overlap::kUnknown;
  constexpr size_t kRemembered = 256;
  compared_.resize(kRemembered);
  Compared& known = compared_[(a * 0x9e3779b1u ^ b * 0x85ebca6bu) >> 24];
  if (known.edits != s_.changes.edits || known.epoch != epoch_ || known.a != a || known.b != b ||
      known.same_time != same_time) {
    const Overlap overlap = CompareGeometries(a, b, same_time, both_exact);
    known = {s_.changes.edits, a, b, epoch_, same_time, overlap};
  }
  return known.overlap;
}

Overlap Geometries::CompareGeometries(uint32_t a, uint32_t b, bool same_time, bool both_exact) {
  const Geom &x = geoms_[slots_[a].index], &y = geoms_[slots_[b].index];
  if (both_exact) {
    Region rx = Region::Strided(x.geometry.offset, x.geometry.sizes, x.geometry.strides, ItemSize(x.geometry.dtype));
    Region ry = Region::Strided(y.geometry.offset, y.geometry.sizes, y.geometry.strides, ItemSize(y.geometry.dtype));
    Overlap o = Compare(rx, ry, s_.g.symbols);
    if (o != Overlap::kUnknown) return o;
  }
  if (x.space == 0 || y.space == 0) return Overlap::kUnknown;
  // Goes up the spaces of one handle, to the first that the other has too.
  struct Level {
    uint32_t space;
    const Geom* geom;
  };
  absl::InlinedVector<Level, 4> up;
  const Geom* at = &x;
  for (int i = 0; i < 64 && at != nullptr && at->space != 0; ++i) {
    up.push_back({at->space, at});
    at = at->space_parent != 0 ? &GeomOf(at->space_parent) : nullptr;
  }
  at = &y;
  for (int i = 0; i < 64 && at != nullptr && at->space != 0; ++i) {
    for (const Level& level : up) {
      if (level.space != at->space || (at->space_varies && !same_time)) continue;
      if (!at->space_injective) return Overlap::kUnknown;
      for (const Interval& p : level.geom->box) {
        for (const Interval& q : at->box) {
          if (p.key != q.key) continue;
          // Most pieces that are compared lie side by side.
          const auto is_at = [](const std::optional<Expr>& lo, const std::optional<Expr>& hi) {
            return lo && hi && !lo->IsPoison() && *lo == *hi;
          };
          if (is_at(p.lo, q.hi) || is_at(q.lo, p.hi)) return Overlap::kDisjoint;
          auto before = [&](const Interval& s, const Interval& t) {
            return s.hi && t.lo && s_.g.symbols.LessOrEqual(*s.hi, *t.lo) == true;
          };
          if (before(p, q) || before(q, p)) return Overlap::kDisjoint;
          if (p.step > 1 && q.step > 1 && p.lo && q.lo) {
            int64_t s = p.step, t = q.step;
            while (t != 0) std::swap(s %= t, t);
            Expr apart = *p.lo - *q.lo;
            if (s > 1 && apart.IsConstant() && *apart.Constant() % s != 0) return Overlap::kDisjoint;
          }
        }
      }
      return Overlap::kUnknown;
    }
    at = at->space_parent != 0 ? &GeomOf(at->space_parent) : nullptr;
  }
  return Overlap::kUnknown;
}

void Geometries::Drop() {
  geoms_.clear();
  ++epoch_;
  are_first_ = std::exchange(just_built_, false);
}

}  // namespace smelt::alias_internal
