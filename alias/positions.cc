// The positions along a dimension where views begin and end, as expressions: the values of a graph's integers, as far
// as they can be compared, and the position that an index means, whatever its sign.
#include <limits>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt {

using alias_internal::Geom;
using alias_internal::Interval;
using alias_internal::ObjectOf;
using alias_internal::SetPool;
using alias_internal::UnwrapOptional;

namespace {

constexpr int kMaxDepth = 16;
constexpr int kManyViews = 8;   // of views of views
constexpr int kManyTerms = 32;  // of one number
constexpr size_t kManyNumbers = 64;
constexpr int kLongChain = 64;  // of nodes that return their argument

// The name of a symbol for the value itself, which no symbol of the graph can have.
std::string NameOf(ValueId v) { return absl::StrCat("%", v.index, ".", v.generation); }

bool IsInt(const Graph& g, ValueId v) { return g.value(v).type.kind() == TypeKind::kInt; }

}  // namespace

// Outside loops a value is one number throughout a run, and an unknown number is a symbol. In loops only facts that the
// graph states are used.
std::optional<Expr> AliasDb::State::IntOf(ValueId v) {
  int left = kManyTerms;
  return IntOf(v, 0, &left);
}

std::optional<Expr> AliasDb::State::IntOf(ValueId v, int depth, int* left) {
  // A chain of sums with constants is added up as numbers, which costs much less than sums of expressions.
  int64_t sum = 0;
  for (; depth < kMaxDepth && *left > 1; ++depth) {
    const std::optional<PlusConstant> parts = PartsOfSum(v);
    int64_t more;
    if (!parts || __builtin_add_overflow(sum, parts->constant, &more)) break;
    ++steps;
    --*left;
    sum = more;
    v = parts->value;
  }
  const std::optional<Expr> e = IntOfNode(v, depth, left);
  return e && sum != 0 ? *e + Expr(sum) : e;
}

std::optional<AliasDb::State::PlusConstant> AliasDb::State::PartsOfSum(ValueId v) const {
  const Value& value = g.value(v);
  const Node& node = g.node(value.def);
  const std::string& name = node.op.name();
  if (node.inputs.size() != 2 || (name != op::kAdd && name != op::kSub) || value.expr) return std::nullopt;
  const ValueId a = node.inputs[0], b = node.inputs[1];
  if (!IsInt(g, v) || !IsInt(g, a) || !IsInt(g, b) || OutermostLoop(value.def).valid()) return std::nullopt;
  if (const std::optional<int64_t> c = ConstantInt(b)) {
    if (name == op::kAdd) return PlusConstant{a, *c};
    return *c != std::numeric_limits<int64_t>::min() ? std::optional(PlusConstant{a, -*c}) : std::nullopt;
  }
  const std::optional<int64_t> c = name == op::kAdd ? ConstantInt(a) : std::nullopt;
  return c ? std::optional(PlusConstant{b, *c}) : std::nullopt;
}

std::optional<Expr> AliasDb::State::IntOfNode(ValueId v, int depth, int* left) {
  ++steps;
  if (std::optional<Expr> e = GetIntExpr(g, v)) return e;
  --*left;
  const Value& value = g.value(v);
  const Node& node = g.node(value.def);
  if (!IsInt(g, v) || OutermostLoop(value.def).valid()) return std::nullopt;
  const std::string& name = node.op.name();
  const absl::Span<const ValueId> in = node.inputs;
  const auto all_ints = [&] { return absl::c_all_of(in, [&](ValueId x) { return IsInt(g, x); }); };
  if (depth < kMaxDepth && *left > 0 && in.size() == 2 && all_ints()) {
    const std::optional<Expr> a = IntOf(in[0], depth + 1, left);
    const std::optional<Expr> b = in[0] == in[1] ? a : IntOf(in[1], depth + 1, left);
    if (name == op::kAdd && a && b) return *a + *b;
    if (name == op::kSub && a && b) return *a - *b;
    if (name == op::kMul && a && b) return *a * *b;
    if (name == op::kFloordiv && a && b && b->Constant().value_or(0) > 0) return FloorDiv(*a, *b);
    if (name == op::kPrimMin && a && b) return Min(*a, *b);
    if (name == op::kPrimMax && a && b) return Max(*a, *b);
  }
  if (name == op::kSize && in.size() == 2) {
    const Type& t = UnwrapOptional(g.value(in[0]).type);
    std::optional<int64_t> dim = ConstantInt(in[1]);
    const SetId p = PointsTo(in[0]);
    const bool known = dim && SetPool::IsSingle(p) && !GeometryChanges(ObjectOf(SetPool::SingleRef(p)));
    if (known && t.IsTensor() && t.tensor().sizes) {
      const int64_t rank = t.tensor().rank();
      if (*dim < 0) *dim += rank;
      if (*dim >= 0 && *dim < rank) return (*t.tensor().sizes)[*dim];
    }
    // The size of one handle is the same whenever it is asked.
    const Object& o = objects[ObjectOf(SetPool::IsSingle(p) ? SetPool::SingleRef(p) : 0)];
    if (known && in[0] == o.def) return Expr::Symbol(absl::StrCat("size ", *dim, " of ", NameOf(in[0])));
  }
  if (name == op::kSize || name == op::kLen || name == op::kNumel || name == op::kDim) {
    return Expr::Symbol(NameOf(v));
  }
  // The number may have either sign, while symbols are never negative.
  return Expr::Symbol(absl::StrCat(NameOf(v), "+")) - Expr::Symbol(absl::StrCat(NameOf(v), "-"));
}

std::optional<std::vector<Expr>> AliasDb::State::IntsOf(ValueId v) {
  // No tensor has so many dimensions, and of so many pieces each would add up the sizes of those before it.
  const Node& made = g.node(g.value(v).def);
  const Attribute* constant = made.FindAttribute("value");
  const auto* const numbers = constant != nullptr ? std::get_if<std::vector<int64_t>>(constant) : nullptr;
  if (made.inputs.size() > kManyNumbers || (numbers != nullptr && numbers->size() > kManyNumbers)) return std::nullopt;
  if (std::optional<std::vector<Expr>> known = GetIntListExpr(g, v)) return known;
  const std::optional<std::vector<ValueId>> elements = GetListElements(g, v);
  if (!elements) return std::nullopt;
  steps += static_cast<int64_t>(elements->size());
  std::vector<Expr> out;
  for (ValueId element : *elements) {
    std::optional<Expr> e = IntOf(element);
    if (!e) return std::nullopt;
    out.push_back(*std::move(e));
  }
  return out;
}

// Returns the position of a handle's dimension `key` that an index or bound means: counted from the end if it is
// negative, and kept within the dimension. `base` is the handle, of `object`; node n looks at it. An undecided position
// is a symbol that only another use of the same bound at a dimension of the same size has: x[:i] and x[i:] meet in it.
std::optional<Expr> AliasDb::State::PositionOf(const Expr& bound, int64_t key, const Geom& base, uint32_t object,
                                               NodeId n) {
  if (g.symbols.LessOrEqual(Expr(0), bound) == true) return bound;
  const Interval* limited = nullptr;
  for (const Interval& i : base.box) {
    if (i.key == key) limited = &i;
  }
  // A view in a loop has other sizes in each iteration.
  const bool in_loop = objects[object].loop != 0 || OutermostLoop(n).valid();
  if (in_loop && (limited != nullptr || base.space_parent != 0)) return std::nullopt;
  const std::string where = limited == nullptr ? absl::StrCat("of ", base.space) : absl::StrCat("of view ", object);
  return Expr::Symbol(absl::StrCat("position ", bound.ToString(), " in ", key, " ", where));
}

// x[:], as TorchScript prints it for each dimension that is taken whole.
bool AliasDb::State::IsWholeSlice(const Node& node) {
  if (node.op.name() != op::kSlice || node.inputs.size() != 5) return false;
  const auto is = [&](ValueId v, int64_t constant) {
    const std::optional<ConstantValue> c = GetConstant(g, v);
    return c && (std::holds_alternative<std::monostate>(*c) || ConstantInt(v) == constant);
  };
  return is(node.inputs[2], 0) && is(node.inputs[3], std::numeric_limits<int64_t>::max()) &&
         ConstantInt(node.inputs[4]) == 1;
}

// Returns the base of a view of a whole handle, as its node and the constants there say.
ValueId AliasDb::State::WholeBaseOf(uint32_t object) {
  if (object >= whole_bases.size()) whole_bases.resize(objects.size());
  if (whole_bases[object].edits == edits) return whole_bases[object].base;
  WholeBase found{edits, ValueId()};
  const Object& v = objects[object];
  if (v.kind == Kind::kView && v.def.valid()) {
    const Node& n = g.node(g.value(v.def).def);
    const std::string& name = n.op.name();
    const bool is_whole = name == op::kDetach || name == op::kAlias || name == op::kLiftFresh ||
                          name == op::kPrimData || name == op::kData || IsWholeSlice(n);
    if (is_whole) found.base = n.inputs[0];
  }
  whole_bases[object] = found;
  return found.base;
}

// Returns the handle that this one is a view of with exactly the same bytes and geometry, or the handle itself if none
// is known.
uint32_t AliasDb::State::SameHandle(uint32_t object, int* left) {
  while (--*left >= 0) {
    ++steps;
    if (objects[object].kind != Kind::kView) return object;
    const ValueId whole = WholeBaseOf(object);
    if (!whole.valid()) return object;
    const SetId base = PointsTo(whole);
    if (!SetPool::IsSingle(base) || alias_internal::IsOld(SetPool::SingleRef(base))) return object;
    const uint32_t b = ObjectOf(SetPool::SingleRef(base));
    if (GeometryChanges(b) || !IsOneHandle(b)) return object;
    object = b;
  }
  return object;
}

AliasDb::State::OriginalStep AliasDb::State::StepToOriginal(ValueId v) {
  if (v.index >= original_steps.size()) original_steps.resize(std::max<size_t>(v.index + 1, values.size()));
  const OriginalStep known = original_steps[v.index];
  if (known.edits == edits && known.of == v) return known;
  OriginalStep step;
  step.edits = edits;
  step.of = v;
  step.to = Unrefined(v);
  step.is_end = true;
  const Value& value = g.value(step.to);
  const Node& node = g.node(value.def);
  const OpEffects& op = GetOpEffects(node.op);
  const bool has_arguments = !g.IsParam(value.def) && node.blocks.empty() && !node.inputs.empty();
  if (has_arguments && op.kind == EffectKind::kGeneric && op.by == OpEffects::By::kNothing) {
    const ResultEffects& r = op.result(value.def_index);
    const bool only_self = r.self != 0 && (r.self & (r.self - 1)) == 0 && !r.fresh && !r.unknown && r.view == 0 &&
                           r.element == 0 && r.element_view == 0;
    const size_t arg = only_self ? absl::countr_zero(r.self) : node.inputs.size();
    if (arg < node.inputs.size() && g.value(node.inputs[arg]).type.kind() != TypeKind::kOptional) {
      step.to = node.inputs[arg];
      step.is_end = false;
    }
  }
  return original_steps[v.index] = step;
}

// Returns the value that v certainly is, if its node returns its argument, as add_ and casts do. A long chain is not
// followed to its start.
ValueId AliasDb::State::Original(ValueId v) {
  for (int k = 0; k < kLongChain; ++k) {
    ++steps;
    const OriginalStep step = StepToOriginal(v);
    v = step.to;
    if (step.is_end) return v;
  }
  return v;
}

// Returns whether two values are one handle, whichever it is, or views made alike of one. They are in scope together.
bool AliasDb::State::SameView(ValueId a, ValueId b, int depth, int* left) {
  ++steps;
  if (--*left < 0) return false;
  a = Original(a);
  b = Original(b);
  if (a == b && depth == 0) return true;
  if (depth > kManyViews) return false;
  // Views of one handle that were taken before and after it changed are not alike.
  for (ValueId v : {a, b}) {
    bool changes = false;
    sets.ForEach(PointsTo(v), [&](Ref r) { changes |= GeometryChanges(ObjectOf(r)); });
    if (changes) return false;
  }
  if (a == b) return true;
  const auto is_view = [&](ValueId v) {
    const SetId p = PointsTo(v);
    return !g.IsParam(g.value(v).def) && SetPool::IsSingle(p) && objects[ObjectOf(SetPool::SingleRef(p))].def == v &&
           objects[ObjectOf(SetPool::SingleRef(p))].kind == Kind::kView;
  };
  if (!is_view(a) || !is_view(b)) return false;
  const Value &x = g.value(a), &y = g.value(b);
  const Node &m = g.node(x.def), &n = g.node(y.def);
  if (m.op != n.op || x.def_index != y.def_index || m.inputs.size() != n.inputs.size() || !m.attributes.empty() ||
      !n.attributes.empty()) {
    return false;
  }
  OpEffects made;
  const ResultEffects& r = EffectsOf(m, &made).result(x.def_index);
  if (r.view == 0 || (r.view & (r.view - 1)) != 0 || r.lazy_copy || r.fresh) return false;
  const size_t base = absl::countr_zero(r.view);
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    if (i == base ? !SameView(m.inputs[i], n.inputs[i], depth + 1, left)
                  : !SameArgument(m.inputs[i], n.inputs[i], depth, left))
      return false;
  }
  return true;
}

// Returns whether the object stands for one handle, list or object at a time, not for several.
bool AliasDb::State::IsOneHandle(uint32_t o) const {
  const Object& object = objects[o];
  switch (object.kind) {
    case Kind::kUnknown:
    case Kind::kSummary:
    case Kind::kMade:
      return false;
    case Kind::kElement:
      for (uint32_t e = o; objects[e].kind == Kind::kElement; e = objects[e].parent) {
        if (objects[e].slot < 0) return false;
      }
      return true;
    case Kind::kPiece:
      return object.slot >= 0;
    default:
      return object.group == 0;
  }
}

// Takes the geometry of a new tensor from its node's sizes, if its type has none.
void AliasDb::State::TakeAskedSizes(const Object& o, Geom* out) {
  const Node& node = g.node(g.value(o.def).def);
  const OpEffects& op = GetOpEffects(node.op);
  if (op.sizes_arg < 0 || static_cast<size_t>(op.sizes_arg) >= node.inputs.size()) return;
  std::optional<std::vector<Expr>> sizes = IntsOf(node.inputs[op.sizes_arg]);
  if (!sizes) return;
  out->rank = static_cast<int>(sizes->size());
  out->sizes = *std::move(sizes);
  out->has_sizes = true;
  const auto given = [&](int8_t arg) {
    if (arg < 0 || static_cast<size_t>(arg) >= node.inputs.size()) return false;
    const std::optional<ConstantValue> c = GetConstant(g, node.inputs[arg]);
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

}  // namespace smelt
