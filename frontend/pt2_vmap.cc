#include "smelt/frontend/pt2_vmap.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/frontend/pt2_memory.h"
#include "smelt/frontend/pt2_nodes.h"

namespace smelt {
namespace pt2_internal {

namespace {

constexpr int64_t kMostExamples = 1024;  // of nested ones: their product
constexpr char kBegin[] = "torch._functorch.predispatch._vmap_increment_nesting";
constexpr char kEnd[] = "torch._functorch.predispatch._vmap_decrement_nesting";
constexpr char kTakeExample[] = "torch._functorch.predispatch._add_batch_dim";
constexpr char kJoinExamples[] = "torch._functorch.predispatch._remove_batch_dim";

bool Calls(const Json& node, const char* target) {
  const Json* t = Find(node, "target");
  return t != nullptr && t->is_string() && t->get_ref<const std::string&>() == target;
}

// The names of values anywhere in a list of arguments; nested graphs have names of their own.
void CollectNames(const Json& j, absl::flat_hash_set<std::string>& out) {
  if (j.is_array()) {
    for (const Json& e : j) CollectNames(e, out);
    return;
  }
  if (!j.is_object()) return;
  if (const Json* arg = Find(j, "arg")) return CollectNames(*arg, out);  // its "name" is the parameter's
  for (auto it = j.begin(); it != j.end(); ++it) {
    if ((it.key() == "name" || it.key() == "as_name") && it->is_string()) out.insert(it->get<std::string>());
    if (it.key() != "graph") CollectNames(*it, out);
  }
}

}  // namespace

bool Pt2Vmap::Begins(const Json& node) { return Calls(node, kBegin); }

absl::StatusOr<size_t> Pt2Vmap::End(const Json& nodes, size_t first) {
  int nesting = 0;
  for (size_t i = first; i < nodes.size(); ++i) {
    if (Calls(nodes[i], kBegin)) ++nesting;
    if (Calls(nodes[i], kEnd) && --nesting == 0) return i;
  }
  return absl::InvalidArgumentError("vmap: its _vmap_decrement_nesting is missing");
}

absl::Status Pt2Vmap::Read(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(nodes[first], "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* number, Operand(*inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const Json* random, Operand(*inputs, 1));
  SMELT_ASSIGN_OR_RETURN(std::string randomness, GetString(*random, "as_string"));
  if (randomness != "error") return absl::UnimplementedError(absl::StrCat("vmap with randomness \"", randomness, "\""));
  const Json* literal = Find(*number, "as_int");
  if (literal == nullptr) return absl::UnimplementedError("vmap over an unknown number of examples");
  SMELT_ASSIGN_OR_RETURN(const int64_t examples, AsInt(*literal));
  if (examples < 0 || examples > kMostExamples / examples_) {
    return absl::UnimplementedError(
        absl::StrCat("vmap over ", examples, " examples, 0 to ", kMostExamples / examples_, " expected here"));
  }
  if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
  const int64_t outer_examples = examples_;
  examples_ *= std::max<int64_t>(examples, 1);
  absl::Status s = ReadExamples(nodes, first + 1, end, examples, block, scope, depth + 1);
  examples_ = outer_examples;
  return s;
}

absl::Status Pt2Vmap::ReadExamples(const Json& nodes, size_t first, size_t end, int64_t examples, BlockId block,
                                   Scope& scope, int depth) {
  const NodeId anchor = p_.g.block(block).return_node;
  const NodeId marker = p_.g.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), {}, {Type::List(Type::Tensor())});
  absl::flat_hash_map<std::string, std::vector<ValueId>> batched;  // by example
  absl::flat_hash_set<ValueId> joined;
  size_t last;
  for (size_t i = first; i < end; i = last + 1) {
    last = i;
    if (Begins(nodes[i])) {
      SMELT_ASSIGN_OR_RETURN(last, End(nodes, i));
    }
    absl::flat_hash_set<std::string> uses, defines;
    for (size_t k = i; k <= last; ++k) {
      SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(nodes[k], "inputs"));
      SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(nodes[k], "outputs"));
      CollectNames(*inputs, uses);
      CollectNames(*outputs, defines);
    }
    if (Calls(nodes[i], kJoinExamples)) {
      SMELT_RETURN_IF_ERROR(ReadJoin(nodes[i], examples, batched, marker, joined, anchor, scope));
      continue;
    }
    const bool takes = Calls(nodes[i], kTakeExample);
    if (!takes && absl::c_none_of(uses, [&](const std::string& u) { return batched.contains(u); })) {
      SMELT_RETURN_IF_ERROR(nodes_.ReadNodesBetween(nodes, i, last + 1, block, scope, depth));
      continue;
    }
    std::vector<std::string> bound;
    for (const std::string& u : uses) {
      if (batched.contains(u)) bound.push_back(u);
    }
    for (int64_t e = 0; e < examples; ++e) {
      for (const std::string& u : bound) scope.values[u] = batched[u][e];
      SMELT_RETURN_IF_ERROR(takes ? ReadTake(nodes[i], e, anchor, scope)
                                  : nodes_.ReadNodesBetween(nodes, i, last + 1, block, scope, depth));
      for (const std::string& u : bound) scope.values.erase(u);
      for (const std::string& d : defines) {
        auto it = scope.values.find(d);
        if (it == scope.values.end()) continue;  // of an example within
        batched[d].push_back(it->second);
        scope.values.erase(it);
      }
    }
    for (const std::string& d : defines) {
      if (examples == 0) batched[d] = {};
      auto it = batched.find(d);
      if (it != batched.end() && it->second.size() != static_cast<size_t>(examples))
        return absl::InvalidArgumentError(absl::StrCat("two values are named \"", d, "\""));
    }
  }
  p_.g.Erase(marker);
  return absl::OkStatus();
}

absl::Status Pt2Vmap::ReadTake(const Json& node, int64_t example, NodeId anchor, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* tensor, Operand(*inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const Json* dim, Operand(*inputs, 1));
  SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(*tensor, scope, anchor, Type::Tensor()));
  SMELT_ASSIGN_OR_RETURN(ValueId d, p_.arguments.ReadValue(*dim, scope, anchor, Type::Int()));
  p_.insert.set_source(p_.sources.SourceOf(node));
  return p_.results.AddNode(OpName::Get("aten::select.int"), {v, d, p_.insert.Constant(anchor, example, Type::Int())},
                            *outputs, anchor, scope, nullptr);
}

// Joins the rows in the way that their kind needs: as one value, as zeros of a size, or stacked and then laid out.
// The cases exclude each other in this order.
absl::Status Pt2Vmap::ReadJoin(const Json& node, int64_t examples,
                               const absl::flat_hash_map<std::string, std::vector<ValueId>>& batched, NodeId marker,
                               absl::flat_hash_set<ValueId>& joined, NodeId anchor, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* arg, Operand(*inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const Json* tensor, Get(*arg, "as_tensor"));
  SMELT_ASSIGN_OR_RETURN(std::string name, GetString(*tensor, "name"));
  SMELT_ASSIGN_OR_RETURN(const Json* dim_arg, Operand(*inputs, 3));
  SMELT_ASSIGN_OR_RETURN(const Json* dim_int, Get(*dim_arg, "as_int"));
  SMELT_ASSIGN_OR_RETURN(int64_t dim, AsInt(*dim_int));
  if (outputs->size() != 1) return absl::InvalidArgumentError("vmap: one output expected");
  SMELT_ASSIGN_OR_RETURN(const OutputDecl declared, p_.results.ReadOutput((*outputs)[0], scope));
  if (!declared.type.IsTensor()) return absl::InvalidArgumentError("vmap: a tensor expected");
  p_.insert.set_source(p_.sources.SourceOf(node));
  const auto add = [&](absl::string_view op, const std::vector<ValueId>& args) {
    const NodeId n = p_.g.InsertBefore(anchor, OpName::Get(op), args, {declared.type});
    p_.insert.SetSource(n);
    return n;
  };
  const auto ints = [&](std::vector<int64_t> v) {
    return p_.insert.Constant(anchor, std::move(v), Type::List(Type::Int()));
  };
  const auto numbers = [](const std::vector<Expr>& exprs) {  // -1: not known
    std::vector<int64_t> out;
    for (const Expr& e : exprs) out.push_back(e.Constant().value_or(-1));
    return out;
  };
  const ValueId at = p_.insert.Constant(anchor, dim, Type::Int());
  auto it = batched.find(name);
  if (it == batched.end()) {
    // Eager expands it.
    if (dim != 0) return absl::UnimplementedError("vmap: a result that is the same for all examples, and not first");
    SMELT_ASSIGN_OR_RETURN(ValueId same, p_.arguments.ReadValue(*arg, scope, anchor, Type::Tensor()));
    if (!p_.g.value(same).type.IsTensor() || !p_.g.value(same).type.tensor().sizes)
      return absl::UnimplementedError("vmap: a result of unknown sizes that is the same for all examples");
    std::vector<int64_t> sizes = {examples};
    for (size_t d = 0; d < p_.g.value(same).type.tensor().sizes->size(); ++d) sizes.push_back(-1);
    return p_.results.Define(
        declared, p_.g.node(add("aten::expand", {same, ints(sizes), InsertConstant(p_.g, anchor, false)})).outputs[0],
        scope);
  }
  if (examples == 0) {
    const std::vector<int64_t> sizes = numbers(*declared.type.tensor().sizes);
    if (absl::c_linear_search(sizes, -1) || !absl::c_linear_search(sizes, 0))
      return absl::UnimplementedError("vmap over 0 examples: a result of unknown sizes");
    const ValueId none = InsertConstant(p_.g, anchor, std::monostate());
    const ValueId dtype = p_.insert.Constant(anchor, ScalarTypeOf(*declared.type.tensor().dtype), Type::Int());
    return p_.results.Define(declared, p_.g.node(add("aten::zeros", {ints(sizes), dtype, none, none, none})).outputs[0],
                             scope);
  }
  // Eager joins by a view where an example's result is one: a copy would not share the memory.
  for (ValueId result : it->second) {
    const ValueId owner = OwnerOfMemory(p_.g, result);
    const NodeId def = owner.valid() ? p_.g.value(owner).def : NodeId();
    if (!owner.valid() || p_.g.IsParam(def) || p_.g.node(def).parent != p_.g.node(marker).parent ||
        !p_.g.IsBefore(marker, def) || !joined.insert(owner).second) {
      return absl::UnimplementedError("vmap: a result that is a view of other memory");
    }
  }
  const NodeId list =
      p_.g.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), it->second, {Type::List(Type::Tensor())});
  const NodeId stack = add("aten::stack", {p_.g.node(list).outputs[0], at});
  SMELT_RETURN_IF_ERROR(InferNode(p_.g, stack));
  ValueId v = p_.g.node(stack).outputs[0];
  const Type stacked = p_.g.value(v).type;
  if (stacked.IsTensor() && stacked.tensor().strides != declared.type.tensor().strides) {
    const Geometry to{numbers(*declared.type.tensor().sizes), numbers(*declared.type.tensor().strides), 0};
    if (absl::c_linear_search(to.sizes, -1) || absl::c_linear_search(to.strides, -1))
      return absl::UnimplementedError("vmap: a result of unknown sizes whose examples do not lie one after the other");
    const ValueId none = InsertConstant(p_.g, anchor, std::monostate());
    const NodeId laid =
        add("aten::empty_strided",
            {ints(to.sizes), ints(to.strides),
             p_.insert.Constant(anchor, ScalarTypeOf(*declared.type.tensor().dtype), Type::Int()), none, none, none});
    const NodeId copy =
        add("aten::copy_", {p_.g.node(laid).outputs[0], v, p_.insert.Constant(anchor, false, Type::Bool())});
    v = p_.g.node(copy).outputs[0];
  }
  return p_.results.Define(declared, v, scope);
}

}  // namespace pt2_internal
}  // namespace smelt
