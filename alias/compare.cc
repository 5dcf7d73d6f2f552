// Decides whether two handles cover the same bytes, some common bytes, or none: by their boxes and geometries, or
// because they are made alike.
#include "smelt/alias/state.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::Interval;
using alias_internal::IsOld;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::UnwrapOptional;

bool AliasDb::State::IsEmpty(uint32_t object) {
  Object& o = objects[object];
  if (o.kind != Kind::kInput && o.kind != Kind::kTensor && o.kind != Kind::kView && o.kind != Kind::kConstant) {
    return false;
  }
  if (o.empty == Object::Empty::kNotAsked) {
    const Type& t = UnwrapOptional(g.value(o.def).type);
    bool empty = false;
    if (t.IsTensor() && t.tensor().sizes) {
      for (const Expr& e : *t.tensor().sizes) empty |= e.Constant() == 0;
    }
    o.empty = empty ? Object::Empty::kYes : Object::Empty::kNo;
  }
  return o.empty == Object::Empty::kYes && !GeometryChanges(object);
}

AliasDb::State::GeomSlot::GeomSlot(uint32_t epoch, uint32_t index, const Geom& geom)
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

Overlap AliasDb::State::CompareObjects(uint32_t a, uint32_t b, bool same_time) {
  const SetId sa = objects[a].storage, sb = objects[b].storage;
  const bool one_storage = SetPool::IsSingle(sa) && SetPool::IsSingle(sb);
  if (one_storage && ObjectOf(SetPool::SingleRef(sa)) != ObjectOf(SetPool::SingleRef(sb))) return Overlap::kUnknown;
  if (a == b) return one_storage ? Overlap::kSame : Overlap::kUnknown;
  if (!one_storage && (objects[a].kind != Kind::kView || objects[b].kind != Kind::kView)) return Overlap::kUnknown;
  if (!HasGeom(a)) GeomOf(a);
  if (!HasGeom(b)) GeomOf(b);
  const GeomSlot &p = geom_of[a], &q = geom_of[b];
  const bool both_exact = p.frame != 0 && p.frame == q.frame;
  if (p.space != 0 && p.space == q.space && (same_time || !p.space_varies)) {
    const bool comparable = p.has_box && q.has_box && (p.space_injective || q.space_injective);
    if (!both_exact && !comparable) return Overlap::kUnknown;
    if (p.is_interval && q.is_interval) {
      if (p.key == q.key && (p.hi <= q.lo || q.hi <= p.lo)) return Overlap::kDisjoint;
      if (!both_exact) return Overlap::kUnknown;
    }
  }
  const Geom &x = geoms[p.index], &y = geoms[q.index];
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
  compared.resize(kRemembered);
  Compared& known = compared[(a * 0x9e3779b1u ^ b * 0x85ebca6bu) >> 24];
  if (known.edits != edits || known.epoch != geom_epoch || known.a != a || known.b != b ||
      known.same_time != same_time) {
    const Overlap overlap = CompareGeometries(a, b, same_time, both_exact);
    known = {edits, a, b, geom_epoch, same_time, overlap};
  }
  return known.overlap;
}

Overlap AliasDb::State::CompareGeometries(uint32_t a, uint32_t b, bool same_time, bool both_exact) {
  const Geom &x = geoms[geom_of[a].index], &y = geoms[geom_of[b].index];
  if (both_exact) {
    Region rx = Region::Strided(x.geometry.offset, x.geometry.sizes, x.geometry.strides, ItemSize(x.geometry.dtype));
    Region ry = Region::Strided(y.geometry.offset, y.geometry.sizes, y.geometry.strides, ItemSize(y.geometry.dtype));
    Overlap o = Compare(rx, ry, g.symbols);
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
            return s.hi && t.lo && g.symbols.LessOrEqual(*s.hi, *t.lo) == true;
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

bool AliasDb::State::MayBeCopy(uint32_t object) {
  constexpr int kLongChain = 64;
  for (int k = 0; objects[object].kind == Kind::kView || objects[object].kind == Kind::kPiece; ++k) {
    if (k == kLongChain) return true;
    const Value& value = g.value(objects[object].def);
    const Node& node = g.node(value.def);
    OpEffects made;
    const ResultEffects& r = EffectsOf(node, &made).result(value.def_index);
    if (r.lazy_copy) return true;
    const uint64_t bases = r.view | r.elements_view;
    SetId base = 0;
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if (bases & (uint64_t{1} << i)) base = Join(base, PointsTo(node.inputs[i]));
    }
    if (!SetPool::IsSingle(base) || ObjectOf(SetPool::SingleRef(base)) == object) return false;
    object = ObjectOf(SetPool::SingleRef(base));
  }
  return false;
}

// Returns whether an argument is the same at two nodes, whenever they run.
bool AliasDb::State::SameArgument(ValueId a, ValueId b, int depth, int* left) {
  ++steps;
  if (depth > 16 || --*left < 0) return false;
  SetId p = PointsTo(a), q = PointsTo(b);
  if (a == b) {
    bool changes = false;
    sets.ForEach(p, [&](Ref r) { changes |= GeometryChanges(ObjectOf(r)); });
    return !changes && !(IsContainerType(g.value(a).type) && Written(a, false));
  }
  if (p != 0 || q != 0) {
    std::optional<std::vector<ValueId>> x = GetListElements(g, a), y = GetListElements(g, b);
    if (x && y) {
      if (x->size() != y->size()) return false;
      for (size_t i = 0; i < x->size(); ++i) {
        if (!SameArgument((*x)[i], (*y)[i], depth + 1, left)) return false;
      }
      // Nobody may change the lists between the two nodes.
      return !Written(a, false) && !Written(b, false);
    }
    if (SetPool::IsSingle(p) && SetPool::IsSingle(q) && !IsOld(SetPool::SingleRef(p)) &&
        !IsOld(SetPool::SingleRef(q))) {
      uint32_t i = ObjectOf(SetPool::SingleRef(p)), j = ObjectOf(SetPool::SingleRef(q));
      const Kind kind = objects[i].kind;
      if (i == j && (kind == Kind::kUnknown || kind == Kind::kSummary || kind == Kind::kMade)) return false;
      // The two nodes looked at it at different times.
      if (GeometryChanges(i) || GeometryChanges(j)) return false;
      if (i == j && objects[i].slot < 0 && (objects[i].kind == Kind::kElement || objects[i].kind == Kind::kPiece))
        return false;
      return i == j || SameByStructure(i, j, depth + 1, left);
    }
    return false;
  }
  std::optional<ConstantValue> x = GetConstant(g, a), y = GetConstant(g, b);
  if (x && y && x->index() == y->index()) {
    return std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, smelt::Tensor>) {
            return false;
          } else {
            return v == std::get<T>(*y);
          }
        },
        *x);
  }
  return false;
}

// Two views made alike of the same thing.
bool AliasDb::State::SameByStructure(uint32_t a, uint32_t b, int depth, int* left) {
  a = SameHandle(a, left);
  b = SameHandle(b, left);
  if (a == b) return true;
  if (depth > 16 || objects[a].kind != objects[b].kind) return false;
  if (GeometryChanges(a) || GeometryChanges(b)) return false;
  if (objects[a].kind == Kind::kPiece) {
    return !MayBeCopy(a) && objects[a].slot >= 0 && objects[a].slot == objects[b].slot &&
           SetPool::IsSingle(objects[a].storage) && objects[a].storage == objects[b].storage &&
           ObjectOf(SetPool::SingleRef(objects[a].storage)) != a && [&] {
             const Value &x = g.value(objects[a].def), &y = g.value(objects[b].def);
             const Node &m = g.node(x.def), &n = g.node(y.def);
             if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size()) return false;
             for (size_t i = 0; i < m.inputs.size(); ++i) {
               if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1, left)) return false;
             }
             return true;
           }();
  }
  if (objects[a].kind != Kind::kView || !SetPool::IsSingle(objects[a].storage) ||
      objects[a].storage != objects[b].storage) {
    return false;
  }
  const Value &x = g.value(objects[a].def), &y = g.value(objects[b].def);
  const Node &m = g.node(x.def), &n = g.node(y.def);
  if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size() || !m.attributes.empty() ||
      !n.attributes.empty()) {
    return false;
  }
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1, left)) return false;
  }
  return true;
}

}  // namespace smelt
