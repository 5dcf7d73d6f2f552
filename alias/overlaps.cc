#include "smelt/alias/overlaps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "smelt/alias/state.h"

namespace smelt::alias_internal {

namespace {

bool IsInterface(const Type& t) { return absl::StartsWith(t.class_name(), "InterfaceType<"); }

}  // namespace

bool TypesMeet(const Type& a, const Type& b) {
  const Type &x = UnwrapOptional(a), &y = UnwrapOptional(b);
  auto open = [](const Type& t) {
    return t.kind() == TypeKind::kAny || t.kind() == TypeKind::kUnion || t.kind() == TypeKind::kNumber;
  };
  if (open(x) || open(y)) return true;
  if (x.kind() != y.kind()) return false;
  switch (x.kind()) {
    case TypeKind::kList:
    case TypeKind::kFuture:
      return TypesMeet(x.element(), y.element());
    case TypeKind::kDict:
      return TypesMeet(x.elements()[0], y.elements()[0]) && TypesMeet(x.elements()[1], y.elements()[1]);
    case TypeKind::kTuple: {
      if (x.elements().size() != y.elements().size()) return false;
      for (size_t i = 0; i < x.elements().size(); ++i) {
        if (!TypesMeet(x.elements()[i], y.elements()[i])) return false;
      }
      return true;
    }
    case TypeKind::kClass:
      return x.class_name() == y.class_name() || IsInterface(x) || IsInterface(y);
    default:
      return true;
  }
}

bool Overlaps::StoragesMayOverlap(Ref a, Ref b, bool ignore_age) const {
  const uint32_t x = s_.objects.Find(ObjectOf(a)), y = s_.objects.Find(ObjectOf(b));
  const Object &p = s_.objects[x], &q = s_.objects[y];
  if (x == y) {
    if (p.kind == ObjectKind::kSummary || p.external || ignore_age) return true;
    return IsOld(a) == IsOld(b);
  }
  if (p.external && q.external) {
    if (p.kind == ObjectKind::kWeight && q.kind == ObjectKind::kWeight) return false;
    if (s_.options.distinct_inputs && x != kUnknown && y != kUnknown) {
      // Handles that descend from one input alone overlap only within it.
      auto root = [&](uint32_t o) {
        while (s_.objects[o].kind == ObjectKind::kElement) o = s_.objects[o].parent;
        return o;
      };
      return root(x) == root(y);
    }
    return true;
  }
  if (x == kUnknown || (s_.memory.external_moved && p.external)) return q.escaped;
  if (y == kUnknown || (s_.memory.external_moved && q.external)) return p.escaped;
  if (p.kind == ObjectKind::kPiece && q.kind == ObjectKind::kPiece && p.parent == q.parent) {
    return p.slot < 0 || q.slot < 0;
  }
  return false;
}

bool Overlaps::HandlesMayBeSame(Ref a, Ref b, bool ignore_age) const {
  const uint32_t x = s_.objects.Find(ObjectOf(a)), y = s_.objects.Find(ObjectOf(b));
  const Object &p = s_.objects[x], &q = s_.objects[y];
  if (x == y) return p.kind == ObjectKind::kSummary || p.external || ignore_age || IsOld(a) == IsOld(b);
  if (p.external && q.external) return true;
  if (x == kUnknown) return q.escaped;
  if (y == kUnknown) return p.escaped;
  if (p.kind == ObjectKind::kPiece && q.kind == ObjectKind::kPiece && p.parent == q.parent)
    return p.slot < 0 || q.slot < 0;
  return false;
}

bool Overlaps::AnyMayBeSame(SetId a, SetId b, bool ignore_age) const {
  bool any = false;
  s_.sets.ForEach(
      a, [&](Ref r) { s_.sets.ForEach(b, [&](Ref other) { any = any || HandlesMayBeSame(r, other, ignore_age); }); });
  return any;
}

bool Overlaps::RefsMayAlias(Ref a, Ref b, bool ignore_age) {
  const Object &x = s_.objects[ObjectOf(a)], &y = s_.objects[ObjectOf(b)];
  const bool same_time = !ignore_age && !IsOld(a) && !IsOld(b);
  if (x.tensor && y.tensor) {
    if (a == b) {
      if (!s_.geometries.IsEmpty(ObjectOf(a))) return true;
    } else {
      const SetId s = s_.memory.Storages(a), t = s_.memory.Storages(b);
      bool meet = false;
      if (SetPool::IsSingle(s) && SetPool::IsSingle(t)) {
        meet = StoragesMayOverlap(SetPool::SingleRef(s), SetPool::SingleRef(t), ignore_age);
      } else {
        s_.sets.ForEach(
            s, [&](Ref p) { s_.sets.ForEach(t, [&](Ref q) { meet = meet || StoragesMayOverlap(p, q, ignore_age); }); });
      }
      if (meet && s == t && s_.geometries.CompareObjects(ObjectOf(a), ObjectOf(b), same_time) == Overlap::kDisjoint)
        meet = false;
      if (meet && s != t && SetPool::IsSingle(s) && SetPool::IsSingle(t) &&
          ObjectOf(SetPool::SingleRef(s)) == ObjectOf(SetPool::SingleRef(t)) &&
          s_.geometries.CompareObjects(ObjectOf(a), ObjectOf(b), same_time) == Overlap::kDisjoint) {
        meet = false;
      }
      if (meet && (s_.geometries.IsEmpty(ObjectOf(a)) || s_.geometries.IsEmpty(ObjectOf(b)))) meet = false;
      if (meet) return true;
    }
  }
  if (s_.objects[ObjectOf(a)].container && s_.objects[ObjectOf(b)].container) {
    if (StoragesMayOverlap(a, b, ignore_age)) {
      if (ObjectOf(a) == ObjectOf(b)) return true;
      return TypesMeet(s_.containers.TypeOfObject(ObjectOf(a)), s_.containers.TypeOfObject(ObjectOf(b)));
    }
  }
  return false;
}

bool Overlaps::SetsMayAlias(SetId a, SetId b, bool ignore_age) {
  if (a == 0 || b == 0) return false;
  if (SetPool::IsSingle(a) && SetPool::IsSingle(b)) {
    return RefsMayAlias(SetPool::SingleRef(a), SetPool::SingleRef(b), ignore_age);
  }
  if (!ignore_age && s_.queries.written.IsPlainSet(a) && s_.queries.written.IsPlainSet(b)) {
    return s_.sets.AnyCommon(a, b, [&](Ref r) { return !s_.geometries.IsEmpty(ObjectOf(r)); });
  }
  if (!ignore_age) {
    const SetId in_a = s_.queries.written.PrivateStorages(a),
                in_b = in_a != 0 ? s_.queries.written.PrivateStorages(b) : 0;
    if (in_b != 0 && !s_.sets.AnyCommon(in_a, in_b, [](Ref) { return true; })) return false;
  }
  const absl::InlinedVector<Ref, 8> x = s_.sets.Refs(a), y = s_.sets.Refs(b);
  if (x.size() * y.size() > kManyPairs) return true;
  for (Ref p : x) {
    for (Ref q : y) {
      ++s_.steps;
      if (RefsMayAlias(p, q, ignore_age)) return true;
    }
  }
  return false;
}

bool Overlaps::AccessHits(const Access& w, Ref object, SetId storages, bool as_container, bool ignore_age) {
  if (((w.bits & kOfContainer) != 0) != as_container) return false;
  if (!AnyStoragesMayOverlap(storages, w.storages, ignore_age)) return false;
  if (SetPool::IsSingle(w.handles)) return HandleHits(w, w.object(), object, as_container, ignore_age);
  for (Ref r : s_.sets.Refs(w.handles)) {
    ++s_.steps;
    if (AnyStoragesMayOverlap(storages, as_container ? SetPool::Single(r) : s_.memory.Storages(r), ignore_age) &&
        HandleHits(w, r, object, as_container, ignore_age)) {
      return true;
    }
  }
  return false;
}

// Returns whether the access touches `object`'s bytes if it touches that handle, whose storage may be the object's.
bool Overlaps::HandleHits(const Access& w, Ref touched_handle, Ref object, bool as_container, bool ignore_age) {
  const uint32_t i = ObjectOf(object), j = ObjectOf(touched_handle);
  if (as_container) {
    if (!s_.objects[i].container || !s_.objects[j].container) return false;
    return i == j || TypesMeet(s_.containers.TypeOfObject(i), TypeOfAccess(w));
  }
  if (!s_.objects[i].tensor || !s_.objects[j].tensor || s_.geometries.IsEmpty(i) || s_.geometries.IsEmpty(j))
    return false;
  const bool same_time = !ignore_age && !IsOld(object) && !IsOld(touched_handle);
  return object == touched_handle || s_.geometries.CompareObjects(i, j, same_time) != Overlap::kDisjoint;
}

bool Overlaps::AnyStoragesMayOverlap(SetId a, SetId b, bool ignore_age) const {
  if (a == 0 || b == 0) return false;
  if (SetPool::IsSingle(a) && SetPool::IsSingle(b)) {
    return StoragesMayOverlap(SetPool::SingleRef(a), SetPool::SingleRef(b), ignore_age);
  }
  if (s_.sets.Size(a) > s_.sets.Size(b)) std::swap(a, b);
  bool meet = false;
  s_.sets.ForEach(a, [&](Ref r) {
    if (meet) return;
    const Object& o = s_.objects[ObjectOf(r)];
    const bool is_private = (o.kind == ObjectKind::kTensor || o.kind == ObjectKind::kContainer) && !o.external &&
                            !o.escaped && o.group == 0;
    if (is_private) {
      // It overlaps nothing but itself.
      meet = s_.sets.Contains(b, r) || (ignore_age && s_.sets.Contains(b, r ^ 1));
    } else {
      s_.sets.ForEach(b, [&](Ref s) { meet = meet || StoragesMayOverlap(r, s, ignore_age); });
    }
  });
  return meet;
}

const Type& Overlaps::TypeOfAccess(const Access& w) const {
  static const Type* const kAny = new Type();
  const Node& n = s_.g.node(w.node);
  if (w.arg >= n.inputs.size() || !s_.sets.Includes(s_.records.PointsTo(n.inputs[w.arg]), w.handles)) return *kAny;
  return s_.g.value(n.inputs[w.arg]).type;
}

bool Overlaps::AccessHitsValue(const Access& w, ValueId v, Ref object, bool ignore_age) {
  const Object& o = s_.objects[ObjectOf(object)];
  if (w.bits & kOfContainer) {
    // Tuples never change, and a future is set once, by the node that made it.
    const TypeKind kind = UnwrapOptional(s_.g.value(v).type).kind();
    return kind != TypeKind::kTuple && kind != TypeKind::kFuture && o.container &&
           (s_.records.TypeOf(v) & kMayBeContainer) &&
           AccessHits(w, object, SetPool::Single(object), true, ignore_age) &&
           TypesMeet(s_.g.value(v).type, TypeOfAccess(w));
  }
  return o.tensor && (s_.records.TypeOf(v) & kMayBeTensor) &&
         AccessHits(w, object, s_.memory.Storages(object), false, ignore_age);
}

}  // namespace smelt::alias_internal
