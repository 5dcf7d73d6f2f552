#include "smelt/alias/numbers.h"

#include <limits>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "smelt/alias/state.h"
#include "smelt/core/op/ops.h"

namespace smelt::alias_internal {

namespace {

constexpr int kMaxDepth = 16;
constexpr int kManyTerms = 32;  // of one number
constexpr size_t kManyNumbers = 64;

// The name of a symbol for the value itself, which no symbol of the graph can have.
std::string NameOf(ValueId v) { return absl::StrCat("%", v.index, ".", v.generation); }

bool IsInt(const Graph& g, ValueId v) { return g.value(v).type.kind() == TypeKind::kInt; }

}  // namespace

std::optional<int64_t> Numbers::ConstantInt(ValueId v) const {
  const Value& value = s_.g.value(v);
  if (!value.expr && GetOpEffects(s_.g.node(value.def).op).kind != EffectKind::kConstant) return std::nullopt;
  std::optional<Expr> e = GetIntExpr(s_.g, v);
  return e && e->IsConstant() ? e->Constant() : std::nullopt;
}

// Outside loops a value is one number throughout a run, and an unknown number is a symbol. In loops only facts that the
// graph states are used.
std::optional<Expr> Numbers::IntOf(ValueId v) {
  for (const Known& known : known_) {
    if (known.edits == s_.changes.edits && known.v == v) return known.e;
  }
  int left = kManyTerms;
  Known& known = known_[oldest_++ % known_.size()];
  known = {s_.changes.edits, v, IntOf(v, 0, &left)};
  return known.e;
}

std::optional<Expr> Numbers::IntOf(ValueId v, int depth, int* left) {
  // A chain of sums with constants is added up as numbers, which costs much less than sums of expressions.
  int64_t sum = 0;
  for (; depth < kMaxDepth && *left > 1; ++depth) {
    const std::optional<PlusConstant> parts = PartsOfSum(v);
    int64_t more;
    if (!parts || __builtin_add_overflow(sum, parts->constant, &more)) break;
    ++s_.steps;
    --*left;
    sum = more;
    v = parts->value;
  }
  const std::optional<Expr> e = IntOfNode(v, depth, left);
  return e && sum != 0 ? *e + Expr(sum) : e;
}

std::optional<Numbers::PlusConstant> Numbers::PartsOfSum(ValueId v) const {
  const Value& value = s_.g.value(v);
  const Node& node = s_.g.node(value.def);
  const std::string& name = node.op.name();
  if (node.inputs.size() != 2 || (name != op::kAdd && name != op::kSub) || value.expr) return std::nullopt;
  const ValueId a = node.inputs[0], b = node.inputs[1];
  if (!IsInt(s_.g, v) || !IsInt(s_.g, a) || !IsInt(s_.g, b) || s_.work.OutermostLoop(value.def).valid())
    return std::nullopt;
  if (const std::optional<int64_t> c = ConstantInt(b)) {
    if (name == op::kAdd) return PlusConstant{a, *c};
    return *c != std::numeric_limits<int64_t>::min() ? std::optional(PlusConstant{a, -*c}) : std::nullopt;
  }
  const std::optional<int64_t> c = name == op::kAdd ? ConstantInt(a) : std::nullopt;
  return c ? std::optional(PlusConstant{b, *c}) : std::nullopt;
}

std::optional<Expr> Numbers::IntOfNode(ValueId v, int depth, int* left) {
  ++s_.steps;
  if (std::optional<Expr> e = GetIntExpr(s_.g, v)) return e;
  --*left;
  const Value& value = s_.g.value(v);
  const Node& node = s_.g.node(value.def);
  if (!IsInt(s_.g, v) || s_.work.OutermostLoop(value.def).valid()) return std::nullopt;
  const std::string& name = node.op.name();
  const absl::Span<const ValueId> in = node.inputs;
  const auto all_ints = [&] { return absl::c_all_of(in, [&](ValueId x) { return IsInt(s_.g, x); }); };
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
    const Type& t = UnwrapOptional(s_.g.value(in[0]).type);
    std::optional<int64_t> dim = ConstantInt(in[1]);
    const SetId p = s_.records.PointsTo(in[0]);
    const bool known = dim && SetPool::IsSingle(p) && !s_.reshapes.GeometryChanges(ObjectOf(SetPool::SingleRef(p)));
    if (known && t.IsTensor() && t.tensor().sizes) {
      const int64_t rank = t.tensor().rank();
      if (*dim < 0) *dim += rank;
      if (*dim >= 0 && *dim < rank) return (*t.tensor().sizes)[*dim];
    }
    // The size of one handle is the same whenever it is asked.
    const Object& o = s_.objects[ObjectOf(SetPool::IsSingle(p) ? SetPool::SingleRef(p) : 0)];
    if (known && in[0] == o.def) return Expr::Symbol(absl::StrCat("size ", *dim, " of ", NameOf(in[0])));
  }
  if (name == op::kSize || name == op::kLen || name == op::kNumel || name == op::kDim) {
    return Expr::Symbol(NameOf(v));
  }
  // The number may have either sign, while symbols are never negative.
  return Expr::Symbol(absl::StrCat(NameOf(v), "+")) - Expr::Symbol(absl::StrCat(NameOf(v), "-"));
}

std::optional<std::vector<Expr>> Numbers::IntsOf(ValueId v) {
  // No tensor has so many dimensions, and of so many pieces each would add up the sizes of those before it.
  const Node& made = s_.g.node(s_.g.value(v).def);
  const Attribute* constant = made.FindAttribute("value");
  const auto* const numbers = constant != nullptr ? std::get_if<std::vector<int64_t>>(constant) : nullptr;
  if (made.inputs.size() > kManyNumbers || (numbers != nullptr && numbers->size() > kManyNumbers)) return std::nullopt;
  if (std::optional<std::vector<Expr>> known = GetIntListExpr(s_.g, v)) return known;
  const std::optional<std::vector<ValueId>> elements = GetListElements(s_.g, v);
  if (!elements) return std::nullopt;
  s_.steps += static_cast<int64_t>(elements->size());
  std::vector<Expr> out;
  for (ValueId element : *elements) {
    std::optional<Expr> e = IntOf(element);
    if (!e) return std::nullopt;
    out.push_back(*std::move(e));
  }
  return out;
}

}  // namespace smelt::alias_internal
