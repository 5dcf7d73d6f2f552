#include "smelt/alias/same_handles.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/numeric/bits.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

namespace {

constexpr int kManyViews = 8;   // of views of views
constexpr int kLongChain = 64;  // of nodes that return their argument

}  // namespace

// x[:], as TorchScript prints it for each dimension that is taken whole.
bool SameHandles::IsWholeSlice(const Node& node) const {
  if (node.op.name() != op::kSlice || node.inputs.size() != 5) return false;
  const auto is = [&](ValueId v, int64_t constant) {
    const std::optional<ConstantValue> c = GetConstant(s_.g, v);
    return c && (std::holds_alternative<std::monostate>(*c) || s_.numbers.ConstantInt(v) == constant);
  };
  return is(node.inputs[2], 0) && is(node.inputs[3], std::numeric_limits<int64_t>::max()) &&
         s_.numbers.ConstantInt(node.inputs[4]) == 1;
}

// Returns the base of a view of a whole handle, as its node and the constants there say.
ValueId SameHandles::WholeBaseOf(uint32_t object) {
  if (object >= whole_bases_.size()) whole_bases_.resize(s_.objects.size());
  if (whole_bases_[object].edits == s_.changes.edits) return whole_bases_[object].base;
  WholeBase found{s_.changes.edits, ValueId()};
  const Object& v = s_.objects[object];
  if (v.kind == ObjectKind::kView && v.def.valid()) {
    const Node& n = s_.g.node(s_.g.value(v.def).def);
    const std::string& name = n.op.name();
    const bool is_whole = name == op::kDetach || name == op::kAlias || name == op::kLiftFresh ||
                          name == op::kPrimData || name == op::kData || IsWholeSlice(n);
    if (is_whole) found.base = n.inputs[0];
  }
  whole_bases_[object] = found;
  return found.base;
}

uint32_t SameHandles::SameHandle(uint32_t object, int* left) {
  while (--*left >= 0) {
    ++s_.steps;
    if (s_.objects[object].kind != ObjectKind::kView) return object;
    const ValueId whole = WholeBaseOf(object);
    if (!whole.valid()) return object;
    const SetId base = s_.records.PointsTo(whole);
    if (!SetPool::IsSingle(base) || IsOld(SetPool::SingleRef(base))) return object;
    const uint32_t b = ObjectOf(SetPool::SingleRef(base));
    if (s_.reshapes.GeometryChanges(b) || !IsOneHandle(b)) return object;
    object = b;
  }
  return object;
}

SameHandles::OriginalStep SameHandles::StepToOriginal(ValueId v) {
  if (v.index >= original_steps_.size())
    original_steps_.resize(std::max<size_t>(v.index + 1, s_.records.values.size()));
  const OriginalStep known = original_steps_[v.index];
  if (known.edits == s_.changes.edits && known.of == v) return known;
  OriginalStep step;
  step.edits = s_.changes.edits;
  step.of = v;
  step.to = s_.queries.absence.Unrefined(v);
  step.is_end = true;
  const Value& value = s_.g.value(step.to);
  const Node& node = s_.g.node(value.def);
  const OpEffects& op = GetOpEffects(node.op);
  const bool has_arguments = !s_.g.IsParam(value.def) && node.blocks.empty() && !node.inputs.empty();
  if (has_arguments && op.kind == EffectKind::kGeneric && op.by == OpEffects::By::kNothing) {
    const ResultEffects& r = op.result(value.def_index);
    const bool only_self = r.self != 0 && (r.self & (r.self - 1)) == 0 && !r.fresh && !r.unknown && r.view == 0 &&
                           r.element == 0 && r.element_view == 0;
    const size_t arg = only_self ? absl::countr_zero(r.self) : node.inputs.size();
    if (arg < node.inputs.size() && s_.g.value(node.inputs[arg]).type.kind() != TypeKind::kOptional) {
      step.to = node.inputs[arg];
      step.is_end = false;
    }
  }
  return original_steps_[v.index] = step;
}

ValueId SameHandles::Original(ValueId v) {
  for (int k = 0; k < kLongChain; ++k) {
    ++s_.steps;
    const OriginalStep step = StepToOriginal(v);
    v = step.to;
    if (step.is_end) return v;
  }
  return v;
}

bool SameHandles::SameView(ValueId a, ValueId b, int depth, int* left) {
  ++s_.steps;
  if (--*left < 0) return false;
  a = Original(a);
  b = Original(b);
  if (a == b && depth == 0) return true;
  if (depth > kManyViews) return false;
  // Views of one handle that were taken before and after it changed are not alike.
  for (ValueId v : {a, b}) {
    bool changes = false;
    s_.sets.ForEach(s_.records.PointsTo(v), [&](Ref r) { changes |= s_.reshapes.GeometryChanges(ObjectOf(r)); });
    if (changes) return false;
  }
  if (a == b) return true;
  const auto is_view = [&](ValueId v) {
    const SetId p = s_.records.PointsTo(v);
    return !s_.g.IsParam(s_.g.value(v).def) && SetPool::IsSingle(p) &&
           s_.objects[ObjectOf(SetPool::SingleRef(p))].def == v &&
           s_.objects[ObjectOf(SetPool::SingleRef(p))].kind == ObjectKind::kView;
  };
  if (!is_view(a) || !is_view(b)) return false;
  const Value &x = s_.g.value(a), &y = s_.g.value(b);
  const Node &m = s_.g.node(x.def), &n = s_.g.node(y.def);
  if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size() || !m.attributes.empty() ||
      !n.attributes.empty()) {
    return false;
  }
  OpEffects made;
  const ResultEffects& r = s_.effects.EffectsOf(m, &made).result(x.def_index);
  if (r.view == 0 || (r.view & (r.view - 1)) != 0 || r.lazy_copy || r.fresh) return false;
  const size_t base = absl::countr_zero(r.view);
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (i == base ? !SameView(m.inputs[i], n.inputs[i], depth + 1, left)
                  : !SameArgument(m.inputs[i], n.inputs[i], depth, left))
      return false;
  }
  return true;
}

bool SameHandles::IsOneHandle(uint32_t o) const {
  const Object& object = s_.objects[o];
  switch (object.kind) {
    case ObjectKind::kUnknown:
    case ObjectKind::kSummary:
    case ObjectKind::kMade:
      return false;
    case ObjectKind::kElement:
      for (uint32_t e = o; s_.objects[e].kind == ObjectKind::kElement; e = s_.objects[e].parent) {
        if (s_.objects[e].slot < 0) return false;
      }
      return true;
    case ObjectKind::kPiece:
      return object.slot >= 0;
    default:
      return object.group == 0;
  }
}

bool SameHandles::MayBeCopy(uint32_t object) {
  for (int k = 0; s_.objects[object].kind == ObjectKind::kView || s_.objects[object].kind == ObjectKind::kPiece; ++k) {
    if (k == kLongChain) return true;
    const Value& value = s_.g.value(s_.objects[object].def);
    const Node& node = s_.g.node(value.def);
    OpEffects made;
    const ResultEffects& r = s_.effects.EffectsOf(node, &made).result(value.def_index);
    if (r.lazy_copy) return true;
    const uint64_t bases = r.view | r.elements_view;
    SetId base = 0;
    for (size_t i = 0; i < node.inputs.size() && i < 64; ++i) {
      if (bases & (uint64_t{1} << i)) base = s_.memory.Join(base, s_.records.PointsTo(node.inputs[i]));
    }
    if (!SetPool::IsSingle(base) || ObjectOf(SetPool::SingleRef(base)) == object) return false;
    object = ObjectOf(SetPool::SingleRef(base));
  }
  return false;
}

// Returns whether an argument is the same at two nodes, whenever they run.
bool SameHandles::SameArgument(ValueId a, ValueId b, int depth, int* left) {
  ++s_.steps;
  if (depth > 16 || --*left < 0) return false;
  SetId p = s_.records.PointsTo(a), q = s_.records.PointsTo(b);
  if (a == b) {
    bool changes = false;
    s_.sets.ForEach(p, [&](Ref r) { changes |= s_.reshapes.GeometryChanges(ObjectOf(r)); });
    return !changes && !(IsContainerType(s_.g.value(a).type) && s_.queries.written.Written(a, false));
  }
  if (p != 0 || q != 0) {
    std::optional<std::vector<ValueId>> x = GetListElements(s_.g, a), y = GetListElements(s_.g, b);
    if (x && y) {
      if (x->size() != y->size()) return false;
      for (size_t i = 0; i < x->size(); ++i) {
        if (!SameArgument((*x)[i], (*y)[i], depth + 1, left)) return false;
      }
      // Nobody may change the lists between the two nodes.
      return !s_.queries.written.Written(a, false) && !s_.queries.written.Written(b, false);
    }
    if (SetPool::IsSingle(p) && SetPool::IsSingle(q) && !IsOld(SetPool::SingleRef(p)) &&
        !IsOld(SetPool::SingleRef(q))) {
      uint32_t i = ObjectOf(SetPool::SingleRef(p)), j = ObjectOf(SetPool::SingleRef(q));
      const ObjectKind kind = s_.objects[i].kind;
      if (i == j && (kind == ObjectKind::kUnknown || kind == ObjectKind::kSummary || kind == ObjectKind::kMade))
        return false;
      // The two nodes looked at it at different times.
      if (s_.reshapes.GeometryChanges(i) || s_.reshapes.GeometryChanges(j)) return false;
      if (i == j && s_.objects[i].slot < 0 &&
          (s_.objects[i].kind == ObjectKind::kElement || s_.objects[i].kind == ObjectKind::kPiece))
        return false;
      return i == j || SameByStructure(i, j, depth + 1, left);
    }
    return false;
  }
  std::optional<ConstantValue> x = GetConstant(s_.g, a), y = GetConstant(s_.g, b);
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

bool SameHandles::SameByStructure(uint32_t a, uint32_t b, int depth, int* left) {
  a = SameHandle(a, left);
  b = SameHandle(b, left);
  if (a == b) return true;
  if (depth > 16 || s_.objects[a].kind != s_.objects[b].kind) return false;
  if (s_.reshapes.GeometryChanges(a) || s_.reshapes.GeometryChanges(b)) return false;
  if (s_.objects[a].kind == ObjectKind::kPiece) {
    return !MayBeCopy(a) && s_.objects[a].slot >= 0 && s_.objects[a].slot == s_.objects[b].slot &&
           SetPool::IsSingle(s_.objects[a].storage) && s_.objects[a].storage == s_.objects[b].storage &&
           ObjectOf(SetPool::SingleRef(s_.objects[a].storage)) != a && [&] {
             const Value &x = s_.g.value(s_.objects[a].def), &y = s_.g.value(s_.objects[b].def);
             const Node &m = s_.g.node(x.def), &n = s_.g.node(y.def);
             if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size()) return false;
             for (size_t i = 0; i < m.inputs.size(); ++i) {
               if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1, left)) return false;
             }
             return true;
           }();
  }
  if (s_.objects[a].kind != ObjectKind::kView || !SetPool::IsSingle(s_.objects[a].storage) ||
      s_.objects[a].storage != s_.objects[b].storage) {
    return false;
  }
  const Value &x = s_.g.value(s_.objects[a].def), &y = s_.g.value(s_.objects[b].def);
  const Node &m = s_.g.node(x.def), &n = s_.g.node(y.def);
  if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size() || !m.attributes.empty() ||
      !n.attributes.empty()) {
    return false;
  }
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (!SameArgument(m.inputs[i], n.inputs[i], depth + 1, left)) return false;
  }
  return true;
}

}  // namespace smelt::alias_internal
