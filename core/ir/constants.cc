#include <algorithm>
#include <complex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

ValueId InsertSize(Graph& g, NodeId anchor, const Expr& e) {
  const NodeId n = g.InsertBefore(anchor, OpName::Get("smelt::size"), {}, {Type::Int()});
  g.SetAttribute(n, "value", e);
  g.SetExpr(g.node(n).outputs[0], e);
  return g.node(n).outputs[0];
}

ValueId InsertConstant(Graph& g, NodeId anchor, const ConstantValue& v) {
  static const OpName kConstant = OpName::Get("prim::Constant");
  struct Described {
    Type type;
    std::optional<Attribute> attribute;
  };
  auto described = std::visit(
      [](const auto& x) -> Described {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) return {Type::None(), std::nullopt};
        if constexpr (std::is_same_v<T, int64_t>) return {Type::Int(), x};
        if constexpr (std::is_same_v<T, double>) return {Type::Float(), x};
        if constexpr (std::is_same_v<T, bool>) return {Type::Bool(), x};
        if constexpr (std::is_same_v<T, std::string>) return {Type::String(), x};
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) return {Type::List(Type::Int()), x};
        if constexpr (std::is_same_v<T, std::vector<double>>) return {Type::List(Type::Float()), x};
        if constexpr (std::is_same_v<T, std::vector<bool>>) return {Type::List(Type::Bool()), x};
        if constexpr (std::is_same_v<T, std::complex<double>>) return {Type(TypeKind::kComplex), x};
        if constexpr (std::is_same_v<T, Tensor>) {
          const Geometry& geometry = x.geometry();
          return {Type::Tensor(x.dtype(), std::vector<Expr>(geometry.sizes.begin(), geometry.sizes.end()),
                               std::vector<Expr>(geometry.strides.begin(), geometry.strides.end())),
                  x};
        }
      },
      v);
  Graph::Attributes attributes;
  if (described.attribute) attributes.emplace_back("value", *std::move(described.attribute));
  NodeId n = g.InsertBefore(anchor, kConstant, {}, {described.type}, std::move(attributes));
  ValueId out = g.node(n).outputs[0];
  if (const int64_t* i = std::get_if<int64_t>(&v)) g.SetExpr(out, Expr(*i));
  return out;
}

std::optional<ConstantValue> GetConstant(const Graph& g, ValueId v) {
  static const OpName kConstant = OpName::Get("prim::Constant");
  const Value& value = g.value(v);
  const Node& node = g.node(value.def);
  if (node.op != kConstant) return std::nullopt;
  const Attribute* attribute = node.FindAttribute("value");
  if (attribute == nullptr) return ConstantValue();
  return std::visit(
      [&](const auto& x) -> std::optional<ConstantValue> {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          if (value.type.kind() == TypeKind::kBool) return ConstantValue(x != 0);
          if (value.type.kind() == TypeKind::kFloat) return ConstantValue(static_cast<double>(x));
          return ConstantValue(x);
        } else if constexpr (std::is_same_v<T, Expr>) {
          if (std::optional<int64_t> c = x.Constant()) return ConstantValue(*c);
          return std::nullopt;
        } else if constexpr (std::is_same_v<T, std::vector<Expr>>) {
          std::vector<int64_t> constants;
          for (const Expr& e : x) {
            if (!e.IsConstant()) return std::nullopt;
            constants.push_back(*e.Constant());
          }
          return ConstantValue(std::move(constants));
        } else if constexpr (std::is_constructible_v<ConstantValue, std::in_place_type_t<T>, T>) {
          return ConstantValue(std::in_place_type<T>, x);
        } else {
          return std::nullopt;
        }
      },
      *attribute);
}

std::optional<Expr> GetIntExpr(const Graph& g, ValueId v) {
  const Value& value = g.value(v);
  if (value.expr) return value.expr;
  static const OpName kConstant = OpName::Get("prim::Constant");
  const Node& node = g.node(value.def);
  if (node.op != kConstant) return std::nullopt;
  const Attribute* attribute = node.FindAttribute("value");
  if (attribute == nullptr) return std::nullopt;
  if (const int64_t* i = std::get_if<int64_t>(attribute)) return Expr(*i);
  if (const Expr* e = std::get_if<Expr>(attribute)) return *e;
  return std::nullopt;
}

std::optional<std::vector<Expr>> GetIntListExpr(const Graph& g, ValueId v) {
  if (std::optional<std::vector<ValueId>> elements = GetListElements(g, v)) {
    std::vector<Expr> result;
    for (ValueId element : *elements) {
      std::optional<Expr> e = GetIntExpr(g, element);
      if (!e) return std::nullopt;
      result.push_back(*std::move(e));
    }
    return result;
  }
  static const OpName kConstant = OpName::Get("prim::Constant");
  const Node& node = g.node(g.value(v).def);
  if (node.op != kConstant) return std::nullopt;
  const Attribute* attribute = node.FindAttribute("value");
  if (attribute == nullptr) return std::nullopt;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(attribute))
    return std::vector<Expr>(ints->begin(), ints->end());
  if (const auto* exprs = std::get_if<std::vector<Expr>>(attribute)) return *exprs;
  return std::nullopt;
}

bool ChangesFirstList(OpName op) {
  static const auto* const kNames = new absl::flat_hash_set<std::string>{
      "aten::append",    "aten::extend",  "aten::insert", "aten::pop",    "aten::clear", "aten::add_",
      "aten::_set_item", "aten::reverse", "aten::Delete", "aten::remove", "aten::sort",  "aten::mul_"};
  return kNames->contains(op.name());
}

namespace {

// Returns whether some node may change the list, a container that holds `v`, or a container in `v`: directly, or
// because other code that could change it can reach `v`.
bool MayChange(const Graph& g, ValueId v) {
  static const auto* const kContainers =
      new absl::flat_hash_set<std::string>{"prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct"};
  static const auto* const kTake = new absl::flat_hash_set<std::string>{
      "prim::TupleUnpack", "prim::TupleIndex",     "prim::ListUnpack",
      "aten::__getitem__", "prim::unchecked_cast", "prim::unchecked_unwrap_optional"};
  static const auto* const kRead =
      new absl::flat_hash_set<std::string>{"prim::Print", "prim::RaiseException", "prim::min", "prim::max"};
  for (const Use& use : g.value(v).uses) {
    const Node& user = g.node(use.user);
    if (g.IsReturn(use.user)) {
      if (user.parent != g.top()) return true;
      continue;
    }
    const std::string& name = user.op.name();
    if (ChangesFirstList(user.op)) {
      // The list is changed, or stored as an element of another; extend and += only read the list that they add.
      if (use.index == 0 || (name != "aten::extend" && name != "aten::add_")) return true;
      continue;
    }
    if (kContainers->contains(name) || kTake->contains(name)) {
      for (ValueId o : user.outputs) {
        const TypeKind kind = g.value(o).type.kind();
        const bool holds = kind == TypeKind::kList || kind == TypeKind::kTuple || kind == TypeKind::kDict;
        if (holds && MayChange(g, o)) return true;
      }
    } else if (name.compare(0, 6, "prim::") == 0 && !kRead->contains(name)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<std::vector<ValueId>> GetListElements(const Graph& g, ValueId v) {
  static const OpName kListConstruct = OpName::Get("prim::ListConstruct");
  const Node& node = g.node(g.value(v).def);
  if (node.op != kListConstruct || MayChange(g, v)) return std::nullopt;
  return std::vector<ValueId>(node.inputs.begin(), node.inputs.end());
}

}  // namespace smelt
