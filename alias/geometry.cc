// Which bytes of its storage a handle covers: exactly, through the view rules, where sizes and strides are known; and
// as a box in the index space of what it is a view of, where they are not.
#include <algorithm>
#include <limits>

#include "absl/algorithm/container.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::Interval;
using alias_internal::IsOld;
using alias_internal::MakeRef;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::UnwrapOptional;

namespace {

// Pseudo-dimensions, apart from all real ones.
constexpr int64_t kNoKey = INT64_MIN;
constexpr int64_t kFromEnd = int64_t{1} << 20;   // + dimension: counted from the end
constexpr int64_t kDiagonal = int64_t{1} << 24;  // + 4096 * dim1 + dim2: column minus row
constexpr int64_t kPart = int64_t{1} << 30;      // real or imaginary part
constexpr int64_t kPieces = int64_t{1} << 40;    // + list object or node

Interval* FindKey(Geom* g, int64_t key) {
  for (Interval& i : g->box) {
    if (i.key == key) return &i;
  }
  return nullptr;
}

// Whether a dimension of the handle is limited already that is counted from the other end than `dim`: where the rank is
// not known, it may be the same one.
bool MayBeLimited(const Geom& g, int64_t dim) {
  for (const Interval& i : g.box) {
    const int64_t d = i.key > kFromEnd / 2 && i.key < 2 * kFromEnd ? i.key - kFromEnd : i.key;
    if (d >= kFromEnd / 2) continue;  // no dimension
    if (dim >= 0 && d < 0) return true;
    const bool there = d >= static_cast<int64_t>(g.front.size()) + g.rest || absl::c_linear_search(g.front, d);
    if (dim < 0 && d >= 0 && there) return true;
  }
  return false;
}

int64_t KeyOf(const Geom& g, int64_t dim) {
  if (g.lost) return kNoKey;
  if (dim < 0 && g.rank >= 0) dim += g.rank;
  if (MayBeLimited(g, dim)) return kNoKey;
  if (dim < 0) return g.negative_ok ? dim : kNoKey;
  if (g.rank >= 0 && dim >= g.rank) return kNoKey;
  if (dim < static_cast<int64_t>(g.front.size())) return g.front[dim];
  if (g.rank >= 0) return kNoKey;
  return dim + g.rest;
}

std::optional<Expr> SizeOf(const Geom& g, int64_t dim) {
  if (!g.has_sizes || static_cast<int>(g.sizes.size()) != g.rank) return std::nullopt;
  if (dim < 0) dim += g.rank;
  if (dim < 0 || dim >= g.rank) return std::nullopt;
  return g.sizes[dim];
}

// Limits dimension `dim` to [lo, hi) in steps, all in the handle's own indices; nullopt: not limited there.
void Limit(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi, int64_t step) {
  const int64_t key = KeyOf(*g, dim);
  if (key == kNoKey || step <= 0) return;
  Interval* old = FindKey(g, key);
  if (old == nullptr) {
    Interval i;
    i.key = key;
    i.lo = lo ? lo : std::optional<Expr>(Expr(0));
    i.hi = hi;
    i.step = step;
    g->box.push_back(std::move(i));
    return;
  }
  if (!old->lo) return;
  if (__builtin_mul_overflow_p(old->step, step, int64_t{0})) return;
  const Expr base = *old->lo;
  if (hi) {
    Expr end = base + *hi * old->step;
    old->hi = old->hi ? Min(*old->hi, end) : end;
  }
  if (lo) old->lo = base + *lo * old->step;
  old->step *= step;
}

void LimitFromEnd(Geom* g, int64_t dim, std::optional<Expr> lo, std::optional<Expr> hi) {
  const int64_t key = KeyOf(*g, dim);
  if (key == kNoKey || FindKey(g, key) != nullptr || FindKey(g, kFromEnd + key) != nullptr) return;
  Interval i;
  i.key = kFromEnd + key;
  i.lo = lo;
  i.hi = hi;
  g->box.push_back(std::move(i));
}

void Point(Geom* g, int64_t key, int64_t at) {
  if (FindKey(g, key) != nullptr) return;
  Interval i;
  i.key = key;
  i.lo = Expr(at);
  i.hi = Expr(at + 1);
  g->box.push_back(std::move(i));
}

// Makes front[0..count) explicit.
void Materialize(Geom* g, int64_t count) {
  while (static_cast<int64_t>(g->front.size()) < count)
    g->front.push_back(static_cast<int64_t>(g->front.size()) + g->rest);
}

void RemoveDim(Geom* g, int64_t dim) {
  if (g->lost) return;
  if (g->rank >= 0) {
    if (dim < 0) dim += g->rank;
    if (dim < 0 || dim >= g->rank) {
      g->lost = true;
      return;
    }
    Materialize(g, g->rank);
    g->front.erase(g->front.begin() + dim);
    if (g->has_sizes && static_cast<int>(g->sizes.size()) == g->rank) {
      g->sizes.erase(g->sizes.begin() + dim);
    } else {
      g->has_sizes = false;
    }
    --g->rank;
    return;
  }
  if (dim < 0) {
    g->lost = true;
    return;
  }
  Materialize(g, dim + 1);
  g->front.erase(g->front.begin() + dim);
  ++g->rest;
  if (dim != 0) g->negative_ok = false;
}

void Lose(Geom* g) {
  g->lost = true;
  g->has_sizes = false;
  g->rank = -1;
  g->front.clear();
}

void Permute(Geom* g, const std::vector<int64_t>& dims) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (g->lost) return;
  if (g->rank >= 0 && g->rank != rank) {
    Lose(g);
    return;
  }
  if (g->rank < 0) {
    g->rank = static_cast<int>(rank);
    g->negative_ok = false;
    g->has_sizes = false;
  }
  Materialize(g, rank);
  if (g->has_sizes && static_cast<int64_t>(g->sizes.size()) != rank) g->has_sizes = false;
  std::vector<int64_t> front;
  std::vector<Expr> sizes;
  for (int64_t d : dims) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank) {
      Lose(g);
      return;
    }
    front.push_back(g->front[d]);
    if (g->has_sizes) sizes.push_back(g->sizes[d]);
  }
  g->front = std::move(front);
  if (g->has_sizes) g->sizes = std::move(sizes);
}

void TakeSizes(const Type& type, Geom* out) {
  const Type& t = UnwrapOptional(type);
  if (!t.IsTensor()) return;
  if (t.tensor().dtype) out->dtype = t.tensor().dtype;
  if (!t.tensor().sizes) return;
  if (out->rank >= 0 && out->rank != t.tensor().rank()) return;
  out->rank = t.tensor().rank();
  out->sizes = *t.tensor().sizes;
  out->has_sizes = true;
}

}  // namespace

const Geom& AliasDb::State::GeomOf(uint32_t object) {
  // A chain of views may be long: its start first, without recursion.
  if (HasGeom(object)) return geoms[geom_of[object].index];
  if (geom_of.size() < objects.size()) geom_of.resize(objects.size());
  std::vector<uint32_t> todo = {object};
  while (!todo.empty()) {
    uint32_t o = todo.back();
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
        OpEffects e = EffectsOf(node);
        const ResultEffects& r = e.result(value.def_index);
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
    if (base != 0 && base != o && !HasGeom(base) && todo.size() < objects.size() + 1) {
      todo.push_back(base);
      continue;
    }
    todo.pop_back();
    Geom geom;
    // Of an earlier iteration's view, whose dimensions were other ones.
    const bool of_another = base_is_old && base != 0 && base != o && geoms[geom_of[base].index].space_varies;
    if (base != 0 && base != o && !of_another && objects[base].storage == obj.storage) {
      const Value& value = g.value(obj.def);
      const Object& b = objects[base];
      // A view that was taken before somebody changed the geometry of its base lies where it lay.
      const bool made_before = GeometryChanges(base) && b.kind != Kind::kView && b.kind != Kind::kPiece &&
                               !GeometryMayChangeBefore(base, value.def);
      if (made_before) {
        ApplyView(o, value.def, MakeGeom(base, true), base, false, &geom);
      } else {
        ApplyView(o, value.def, geoms[geom_of[base].index], base, GeometryChanges(base), &geom);
      }
    } else if (joined.valid()) {
      ApplyView(o, g.value(obj.def).def, GeomOfJoined(joined), 0, false, &geom);
    } else if (of_another) {
      geom.storage = geoms[geom_of[base].index].storage;
    } else {
      geom = MakeGeom(o);
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
  }
  return geoms[geom_of[object].index];
}

// Whether some node that changes the handle's geometry may do so before n looks at it.
bool AliasDb::State::GeometryMayChangeBefore(uint32_t object, NodeId n) {
  constexpr size_t kMany = 16;
  if (OutermostLoop(n).valid()) return true;
  const auto may = [&](uint32_t key) {
    const auto it = geometry_changes.find(key);
    if (it == geometry_changes.end()) return false;
    return it->second.size() > kMany ||
           std::any_of(it->second.begin(), it->second.end(), [&](NodeId by) { return Precedes(n, by) != 1; });
  };
  return may(HandleKey(object)) || ((objects[object].external || objects[object].escaped) && may(kUnknown));
}

// The index space of a value that may be one of several handles: whichever it is, its own indices tell its views apart.
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

// Whether different indices of each of the handles are different bytes: fresh tensors, and views that only choose among
// their elements or name them anew. A chain that comes back to itself adds nothing.
bool AliasDb::State::IsInjective(SetId handles) {
  static const auto* const kChoose = new absl::flat_hash_set<absl::string_view>{
      "aten::select",  "aten::slice",   "aten::narrow",    "aten::transpose", "aten::t",       "aten::permute",
      "aten::squeeze", "aten::flatten", "aten::unsqueeze", "aten::reshape",   "aten::detach",  "aten::alias",
      "aten::view",    "aten::view_as", "aten::diagonal",  "aten::swapaxes",  "aten::swapdims"};
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

// Of what is no view of something known. as_made: before anybody changed its geometry.
Geom AliasDb::State::MakeGeom(uint32_t object, bool as_made) {
  Geom out;
  const Object& o = objects[object];
  if (!SetPool::IsSingle(o.storage) || !o.tensor) return out;
  const uint32_t storage = ObjectOf(SetPool::SingleRef(o.storage));
  out.storage = storage;
  const Kind kind = objects[storage].kind;
  if (kind == Kind::kUnknown || kind == Kind::kSummary || kind == Kind::kMade) {
    out.storage = 0;
    return out;
  }
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

// Whether the node's views have the dtype of what they are views of.
static bool KeepsDtype(const Node& node) {
  static const auto* const kNames = new absl::flat_hash_set<absl::string_view>{
      "aten::select",     "aten::slice",     "aten::narrow",    "aten::unbind",           "aten::split",
      "aten::chunk",      "aten::transpose", "aten::swapaxes",  "aten::swapdims",         "aten::t",
      "aten::numpy_T",    "aten::permute",   "aten::unsqueeze", "aten::squeeze",          "aten::diagonal",
      "aten::as_strided", "aten::expand",    "aten::expand_as", "aten::broadcast_to",     "aten::unfold",
      "aten::reshape",    "aten::flatten",   "aten::ravel",     "aten::unflatten",        "aten::reshape_as",
      "aten::view_as",    "aten::alias",     "aten::detach",    "aten::split_with_sizes", "aten::tensor_split",
      "aten::hsplit",     "aten::vsplit",    "aten::movedim"};
  return kNames->contains(node.op.name()) || node.op.full() == "aten::view";
}

// as_strided with an offset says where it is in the storage, wherever its base is.
void AliasDb::State::PlaceInStorage(const Node& node, const Geom& base, Geom* out) {
  if (node.op.name() != "aten::as_strided" || node.inputs.size() != 4 || base.storage == 0) return;
  const std::optional<std::vector<Expr>> sizes = IntsOf(node.inputs[1]), strides = IntsOf(node.inputs[2]);
  const std::optional<Expr> offset = IntOf(node.inputs[3]);
  const bool item_known = base.exact ? base.item_known : base.dtype.has_value();
  if (!sizes || !strides || !offset || sizes->size() != strides->size() || !(item_known || base.own_dtype)) return;
  out->exact = true;
  out->item_known = item_known;
  const Kind kind = objects[base.storage].kind;
  out->absolute = kind == Kind::kInput || kind == Kind::kElement;
  if (item_known) out->geometry.dtype = base.exact ? base.geometry.dtype : *base.dtype;
  out->geometry.sizes = *sizes;
  out->geometry.strides = *strides;
  out->geometry.offset = *offset;
}

void AliasDb::State::ApplyView(uint32_t object, NodeId n, const Geom& base, uint32_t base_object, bool base_changes,
                               Geom* out) {
  const Object& o = objects[object];
  const Node& node = g.node(n);
  const std::string& name = node.op.name();
  const EffectKind kind = GetOpEffects(node.op).kind;
  const size_t output = g.value(o.def).def_index;
  int piece = -1;
  if (o.kind == Kind::kPiece) piece = o.slot;
  if (kind == EffectKind::kConstantChunk) piece = static_cast<int>(output);
  *out = base;
  out->exact = false;
  out->geometry = SymbolicGeometry();
  const bool keeps_dtype = KeepsDtype(node);
  out->own_dtype = base.own_dtype && keeps_dtype;
  if (!base_changes) PlaceInStorage(node, base, out);

  // Exactly.
  if (!out->exact && base.exact && (base.item_known || keeps_dtype) && !base_changes &&
      kind != EffectKind::kConstantChunk) {
    absl::StatusOr<OpCall> call = OpCall::Of(g, n);
    if (call.ok()) {
      absl::StatusOr<ViewMeaning> meaning = absl::UnimplementedError("");
      if (node.op.full() == "smelt::view") {
        meaning = ViewMeaning();
        SymbolicGeometry s;
        const Attribute *sizes = node.FindAttribute("sizes"), *strides = node.FindAttribute("strides"),
                        *offset = node.FindAttribute("offset");
        auto exprs = [](const Attribute* a) {
          std::vector<Expr> out;
          if (a == nullptr) return out;
          if (const auto* e = std::get_if<std::vector<Expr>>(a)) return *e;
          if (const auto* i = std::get_if<std::vector<int64_t>>(a)) out.assign(i->begin(), i->end());
          return out;
        };
        s.sizes = exprs(sizes);
        s.strides = exprs(strides);
        const Type& t = UnwrapOptional(g.value(o.def).type);
        s.dtype = t.IsTensor() && t.tensor().dtype ? *t.tensor().dtype : base.geometry.dtype;
        bool ok = offset != nullptr && s.sizes.size() == s.strides.size();
        if (offset != nullptr) {
          if (const auto* e = std::get_if<Expr>(offset)) {
            s.offset = *e;
          } else if (const auto* i = std::get_if<int64_t>(offset)) {
            s.offset = Expr(*i);
          } else {
            ok = false;
          }
        }
        if (ok) {
          meaning->outputs.push_back(std::move(s));
        } else {
          meaning = absl::UnimplementedError("");
        }
      } else {
        meaning = BuildView(*call, base.geometry, g.symbols);
      }
      if (meaning.ok()) {
        const size_t which = piece >= 0 ? piece : meaning->is_list ? SIZE_MAX : output;
        if (which < meaning->outputs.size()) {
          out->exact = true;
          out->geometry = meaning->outputs[which];
        }
      }
    }
  }

  // In the base's index space.
  if (out->space == 0) return;
  auto constant = [&](size_t i) { return i < node.inputs.size() ? ConstantInt(node.inputs[i]) : std::nullopt; };
  auto expr = [&](size_t i) -> std::optional<Expr> {
    return i < node.inputs.size() ? IntOf(node.inputs[i]) : std::nullopt;
  };
  auto is_none = [&](size_t i) {
    return i >= node.inputs.size() || g.value(node.inputs[i]).type.kind() == TypeKind::kNone ||
           (GetConstant(g, node.inputs[i]) && std::holds_alternative<std::monostate>(*GetConstant(g, node.inputs[i])));
  };
  // The new handle is an index space of its own; what is known of the base holds for all of it.
  auto new_space = [&](bool injective) {
    out->space = object;
    out->space_parent = base_object;
    out->space_varies = OutermostLoop(n).valid();
    out->box.clear();
    out->injective = injective && base.injective;
    out->space_injective = out->injective;
    out->lost = false;
    out->front.clear();
    out->rest = 0;
    out->rank = -1;
    out->negative_ok = true;
    out->has_sizes = false;
    out->dtype = std::nullopt;
    if (o.kind != Kind::kPiece) TakeSizes(g.value(o.def).type, out);
    if (out->exact && out->rank < 0) {
      out->rank = static_cast<int>(out->geometry.sizes.size());
      out->sizes = out->geometry.sizes;
      out->has_sizes = true;
    }
    if (out->rank >= 0) Materialize(out, out->rank);
  };
  if (base_changes) {
    // The base's dimensions mean different things at different times.
    out->space = 0;
    out->box.clear();
    return;
  }
  // The pieces of what overlaps itself (expanded, unfolded) may be the same bytes.
  if (piece >= 0 && base.injective && GetOpEffects(node.op).result(output).partition) {
    Point(out, kPieces + objects[object].parent, piece);
  }
  if (kind == EffectKind::kConstantChunk) {
    if (base.injective) Point(out, kPieces * 2 + n.index, piece);
    out->has_sizes = false;
    if (out->rank < 0) out->negative_ok = false;
    Lose(out);
    return;
  }
  auto place = [&](const Expr& bound, int64_t dim) -> std::optional<Expr> {
    const int64_t key = KeyOf(*out, dim);
    return key == kNoKey ? std::nullopt : PositionOf(bound, key, base, base_object, n);
  };
  if (name == "aten::select") {
    std::optional<int64_t> dim = constant(1);
    std::optional<Expr> index = expr(2);
    if (!dim) {
      Lose(out);
      return;
    }
    if (index) {
      std::optional<Expr> size = SizeOf(*out, *dim);
      const bool negative = g.symbols.Less(*index, Expr(0)) == true;
      if (negative && size) {
        Limit(out, *dim, *size + *index, *size + *index + 1, 1);
      } else {
        if (negative) LimitFromEnd(out, *dim, *index, *index + 1);
        if (std::optional<Expr> at = place(*index, *dim)) Limit(out, *dim, *at, *at + 1, 1);
      }
    }
    RemoveDim(out, *dim);
    return;
  }
  if (IsWholeSlice(node)) return;
  if (name == "aten::slice" || name == "aten::narrow") {
    std::optional<int64_t> dim = constant(1);
    if (!dim) return;
    std::optional<Expr> size = SizeOf(*out, *dim);
    std::optional<Expr> lo, hi;
    int64_t step = 1;
    std::optional<Expr> end_lo, end_hi;  // counted from the end
    auto bound = [&](const Expr& e, std::optional<Expr>* from_end) -> std::optional<Expr> {
      if (g.symbols.Less(e, Expr(0)) == true) {
        if (size) return Max(Expr(0), *size + e);
        *from_end = e;
      }
      return place(e, *dim);
    };
    if (name == "aten::slice") {
      if (is_none(2)) {
        lo = Expr(0);
      } else if (std::optional<Expr> start = expr(2)) {
        lo = bound(*start, &end_lo);
      }
      if (!is_none(3)) {
        std::optional<Expr> end = expr(3);
        if (end && end->Constant() != std::numeric_limits<int64_t>::max()) hi = bound(*end, &end_hi);
      }
      std::optional<int64_t> s = constant(4);
      step = s && *s > 0 ? *s : 1;
      // A step says something only from a known start.
      if (!lo) step = 1;
    } else if (std::optional<Expr> start = expr(2)) {
      const std::optional<Expr> length = expr(3);
      lo = bound(*start, &end_lo);
      end_lo = std::nullopt;  // how far it reaches is counted from there
      if (lo && length) hi = start->Constant() == 0 ? place(*length, *dim) : *lo + *length;
    }
    if (end_lo || end_hi) LimitFromEnd(out, *dim, end_lo, end_hi);
    if (lo || hi) Limit(out, *dim, lo, hi, step);
    if (!lo && name == "aten::slice" && !is_none(2)) {
      // An unknown start: nested indices cannot be placed.
      const int64_t key = KeyOf(*out, *dim);
      if (key != kNoKey && out->rank < 0) Lose(out);
    }
    if (out->has_sizes) {
      const Type& t = UnwrapOptional(g.value(o.def).type);
      if (out->exact) {
        out->sizes = out->geometry.sizes;
      } else if (o.kind != Kind::kPiece && t.IsTensor() && t.tensor().sizes && t.tensor().rank() == out->rank) {
        out->sizes = *t.tensor().sizes;
      } else {
        out->has_sizes = false;
      }
    }
    // A start that is not known, or counted from the end, hides where nested indices are.
    if (!lo) {
      const int64_t key = KeyOf(*out, *dim);
      int64_t d = *dim;
      if (key != kNoKey) {
        if (d < 0 && out->rank >= 0) d += out->rank;
        if (d >= 0) {
          Materialize(out, d + 1);
          out->front[d] = kNoKey;
          if (out->rank < 0) out->negative_ok = false;
        } else {
          Lose(out);
        }
      }
    }
    return;
  }
  if (name == "aten::unbind" || name == "aten::split" || name == "aten::split_with_sizes" || name == "aten::chunk" ||
      name == "aten::tensor_split" || name == "aten::unsafe_split" || name == "aten::unsafe_split_with_sizes" ||
      name == "aten::unsafe_chunk" || name == "aten::hsplit" || name == "aten::vsplit" || name == "aten::dsplit") {
    if (name == "aten::unbind") {
      std::optional<int64_t> dim = constant(1);
      if (dim && piece >= 0) Limit(out, *dim, Expr(piece), Expr(piece) + 1, 1);
      if (dim) {
        RemoveDim(out, *dim);
      } else {
        Lose(out);
      }
      return;
    }
    std::optional<int64_t> dim = constant(2);
    std::optional<Expr> lo, hi;
    if (piece >= 0 && dim &&
        (name == "aten::split" || name == "aten::split_with_sizes" || name == "aten::unsafe_split" ||
         name == "aten::unsafe_split_with_sizes")) {
      if (std::optional<Expr> size = expr(1); size && node.op.overload() == "Tensor") {
        lo = *size * piece;
        hi = *size * (piece + 1);
      } else if (std::optional<std::vector<Expr>> list = IntsOf(node.inputs[1]); list) {
        Expr at(0);
        for (int i = 0; i < piece && i < static_cast<int>(list->size()); ++i) at = at + (*list)[i];
        if (piece < static_cast<int>(list->size())) {
          lo = at;
          hi = at + (*list)[piece];
        }
      }
    }
    if (lo) {
      Limit(out, *dim, lo, hi, 1);
    } else if (dim) {
      int64_t d = *dim;
      if (d < 0 && out->rank >= 0) d += out->rank;
      if (d >= 0 && (out->rank < 0 || d < out->rank) && !out->lost) {
        Materialize(out, d + 1);
        out->front[d] = kNoKey;
        out->negative_ok = false;
      } else {
        Lose(out);
      }
    } else {
      Lose(out);
    }
    out->has_sizes = false;
    return;
  }
  if (name == "aten::transpose" || name == "aten::swapaxes" || name == "aten::swapdims") {
    std::optional<int64_t> a = constant(1), b = constant(2);
    if (!a || !b) {
      Lose(out);
    } else if (out->rank >= 0) {
      std::vector<int64_t> dims;
      for (int i = 0; i < out->rank; ++i) dims.push_back(i);
      int64_t x = *a < 0 ? *a + out->rank : *a, y = *b < 0 ? *b + out->rank : *b;
      if (x >= 0 && y >= 0 && x < out->rank && y < out->rank) std::swap(dims[x], dims[y]);
      Permute(out, dims);
    } else if (*a >= 0 && *b >= 0) {
      Materialize(out, std::max(*a, *b) + 1);
      if (!out->lost) std::swap(out->front[*a], out->front[*b]);
      out->negative_ok = false;
    } else {
      Lose(out);
    }
    return;
  }
  if (name == "aten::t" || name == "aten::numpy_T") {
    if (out->rank < 0) {
      Lose(out);
    } else {
      std::vector<int64_t> dims;
      for (int i = out->rank; i-- > 0;) dims.push_back(i);
      Permute(out, dims);
    }
    return;
  }
  if (name == "aten::permute") {
    std::optional<std::vector<Expr>> list = node.inputs.size() > 1 ? IntsOf(node.inputs[1]) : std::nullopt;
    std::vector<int64_t> dims;
    if (list) {
      for (const Expr& e : *list) {
        if (e.IsConstant()) dims.push_back(*e.Constant());
      }
    }
    if (list && dims.size() == list->size()) {
      Permute(out, dims);
    } else {
      Lose(out);
    }
    return;
  }
  if (name == "aten::unsqueeze") {
    std::optional<int64_t> dim = constant(1);
    if (!dim || (*dim < 0 && out->rank < 0)) {
      Lose(out);
      return;
    }
    int64_t d = *dim < 0 ? *dim + out->rank + 1 : *dim;
    if (out->rank >= 0) Materialize(out, out->rank);
    if (out->rank < 0) Materialize(out, d);
    if (d > static_cast<int64_t>(out->front.size())) {
      Lose(out);
      return;
    }
    if (!out->lost) out->front.insert(out->front.begin() + d, kNoKey);
    if (out->rank >= 0) {
      if (out->has_sizes && static_cast<int>(out->sizes.size()) == out->rank) {
        out->sizes.insert(out->sizes.begin() + d, Expr(1));
      } else {
        out->has_sizes = false;
      }
      ++out->rank;
    } else {
      --out->rest;
      if (d != 0) out->negative_ok = false;
    }
    return;
  }
  if (name == "aten::alias" || name == "aten::detach" || name == "aten::lift_fresh" || name == "aten::conj" ||
      name == "aten::_conj" || name == "aten::_neg_view" || name == "aten::data" || name == "prim::data" ||
      name == "aten::view_as" || name == "aten::positive") {
    if (name == "aten::view_as") new_space(true);
    return;
  }
  if (name == "aten::real" || name == "aten::imag") {
    if (name == "aten::imag" || (base.dtype && IsComplex(*base.dtype))) Point(out, kPart, name == "aten::imag" ? 1 : 0);
    out->dtype = std::nullopt;
    return;
  }
  if (name == "aten::diagonal" || name == "aten::linalg_diagonal") {
    std::optional<int64_t> offset = constant(1), d1 = constant(2), d2 = constant(3);
    if (offset && d1 && d2) {
      int64_t k1 = KeyOf(*out, *d1), k2 = KeyOf(*out, *d2);
      const bool limited = FindKey(out, k1) != nullptr || FindKey(out, k2) != nullptr;
      if (k1 != kNoKey && k2 != kNoKey && !limited && k1 >= 0 && k2 >= 0 && k1 < 64 && k2 < 64 && k1 != k2) {
        if (k1 > k2) {
          std::swap(k1, k2);
          offset = -*offset;
        }
        Point(out, kDiagonal + 64 * k1 + k2, *offset);
      }
    }
    Lose(out);
    return;
  }
  if (name == "aten::as_strided" || name == "aten::_reshape_alias" || node.op.full() == "smelt::view" ||
      name == "aten::_nested_view_from_buffer") {
    // Reaches anywhere in the storage.
    out->box.clear();
    out->space = 0;
    return;
  }
  if (name == "aten::expand" || name == "aten::expand_as" || name == "aten::broadcast_to" || name == "aten::unfold" ||
      name == "aten::broadcast_tensors" || name == "aten::meshgrid") {
    out->injective = false;
    Lose(out);
    return;
  }
  if (name == "aten::view" || name == "aten::reshape" || name == "aten::_unsafe_view" || name == "aten::flatten" ||
      name == "aten::ravel" || name == "aten::unflatten" || name == "aten::reshape_as" ||
      name == "aten::view_as_real" || name == "aten::view_as_complex") {
    new_space(true);
    return;
  }
  if (name == "aten::squeeze") {
    if (out->rank >= 0 && out->has_sizes) {
      std::optional<int64_t> dim = constant(1);
      if (node.op.overload() == "dim" && dim) {
        std::optional<Expr> size = SizeOf(*out, *dim);
        if (size && size->Constant() == 1) {
          RemoveDim(out, *dim);
          return;
        }
        if (size && size->IsConstant()) return;
      }
    }
    Lose(out);
    return;
  }
  Lose(out);
}

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
  if (both_exact) {
    Region rx = Region::Strided(x.geometry.offset, x.geometry.sizes, x.geometry.strides, ItemSize(x.geometry.dtype));
    Region ry = Region::Strided(y.geometry.offset, y.geometry.sizes, y.geometry.strides, ItemSize(y.geometry.dtype));
    Overlap o = Compare(rx, ry, g.symbols);
    if (o != Overlap::kUnknown) return o;
  }
  if (x.space == 0 || y.space == 0) return Overlap::kUnknown;
  // Up the spaces of one, to the first that the other has too.
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
  constexpr int kLongChain = 1000;
  for (int k = 0; objects[object].kind == Kind::kView || objects[object].kind == Kind::kPiece; ++k) {
    if (k == kLongChain) return true;
    const Value& value = g.value(objects[object].def);
    const Node& node = g.node(value.def);
    const OpEffects e = EffectsOf(node);
    const ResultEffects& r = e.result(value.def_index);
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

// Whether an argument is the same at two nodes, whenever they run.
bool AliasDb::State::SameArgument(ValueId a, ValueId b, int depth) {
  if (depth > 16) return false;
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
        if (!SameArgument((*x)[i], (*y)[i], depth + 1)) return false;
      }
      // Nobody may change the lists between.
      return !Written(a, false) && !Written(b, false);
    }
    if (SetPool::IsSingle(p) && SetPool::IsSingle(q) && !IsOld(SetPool::SingleRef(p)) &&
        !IsOld(SetPool::SingleRef(q))) {
      uint32_t i = ObjectOf(SetPool::SingleRef(p)), j = ObjectOf(SetPool::SingleRef(q));
      const Kind kind = objects[i].kind;
      if (i == j && (kind == Kind::kUnknown || kind == Kind::kSummary || kind == Kind::kMade)) return false;
      // The two looked at it at different times.
      if (GeometryChanges(i) || GeometryChanges(j)) return false;
      if (i == j && objects[i].slot < 0 && (objects[i].kind == Kind::kElement || objects[i].kind == Kind::kPiece))
        return false;
      return i == j || SameByStructure(i, j, depth + 1);
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
bool AliasDb::State::SameByStructure(uint32_t a, uint32_t b, int depth) {
  a = SameHandle(a);
  b = SameHandle(b);
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
               if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1)) return false;
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
    if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1)) return false;
  }
  return true;
}

}  // namespace smelt
