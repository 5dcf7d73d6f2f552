// torch.vmap: the nodes between _vmap_increment_nesting and _vmap_decrement_nesting describe the work on one example.
// Nodes that depend on the examples are read once for each of them, so that every operator keeps its meaning.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/frontend/pt2_reader.h"

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

bool Pt2Reader::BeginsVmap(const Json& node) { return Calls(node, kBegin); }

absl::StatusOr<size_t> Pt2Reader::EndOfVmap(const Json& nodes, size_t first) {
  int nesting = 0;
  for (size_t i = first; i < nodes.size(); ++i) {
    if (Calls(nodes[i], kBegin)) ++nesting;
    if (Calls(nodes[i], kEnd) && --nesting == 0) return i;
  }
  return absl::InvalidArgumentError("vmap: its _vmap_decrement_nesting is missing");
}

absl::Status Pt2Reader::ReadVmap(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(nodes[first], "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* number, Operand(*inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const Json* random, Operand(*inputs, 1));
  SMELT_ASSIGN_OR_RETURN(std::string randomness, GetString(*random, "as_string"));
  if (randomness != "error") return absl::UnimplementedError(absl::StrCat("vmap with randomness \"", randomness, "\""));
  const Json* literal = Find(*number, "as_int");
  if (literal == nullptr) return absl::UnimplementedError("vmap over an unknown number of examples");
  SMELT_ASSIGN_OR_RETURN(const int64_t examples, AsInt(*literal));
  if (examples < 0 || examples > kMostExamples / vmap_examples_) {
    return absl::UnimplementedError(
        absl::StrCat("vmap over ", examples, " examples, 0 to ", kMostExamples / vmap_examples_, " expected here"));
  }
  if (depth > 50) return absl::InvalidArgumentError("subgraphs are nested deeper than 50 levels");
  const int64_t outer_examples = vmap_examples_;
  vmap_examples_ *= std::max<int64_t>(examples, 1);
  absl::Status s = ReadExamples(nodes, first + 1, end, examples, block, scope, depth + 1);
  vmap_examples_ = outer_examples;
  return s;
}

absl::Status Pt2Reader::ReadExamples(const Json& nodes, size_t first, size_t end, int64_t examples, BlockId block,
                                     Scope& scope, int depth) {
  const NodeId anchor = g_->block(block).return_node;
  const NodeId marker = g_->InsertBefore(anchor, OpName::Get("prim::ListConstruct"), {}, {Type::List(Type::Tensor())});
  absl::flat_hash_map<std::string, std::vector<ValueId>> batched;  // by example
  absl::flat_hash_set<ValueId> joined;
  size_t last;
  for (size_t i = first; i < end; i = last + 1) {
    last = i;
    if (BeginsVmap(nodes[i])) {
      SMELT_ASSIGN_OR_RETURN(last, EndOfVmap(nodes, i));
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
      SMELT_RETURN_IF_ERROR(ReadNodesBetween(nodes, i, last + 1, block, scope, depth));
      continue;
    }
    std::vector<std::string> bound;
    for (const std::string& u : uses) {
      if (batched.contains(u)) bound.push_back(u);
    }
    for (int64_t e = 0; e < examples; ++e) {
      for (const std::string& u : bound) scope.values[u] = batched[u][e];
      SMELT_RETURN_IF_ERROR(takes ? ReadTake(nodes[i], e, anchor, scope)
                                  : ReadNodesBetween(nodes, i, last + 1, block, scope, depth));
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
  g_->Erase(marker);
  return absl::OkStatus();
}

absl::Status Pt2Reader::ReadTake(const Json& node, int64_t example, NodeId anchor, Scope& scope) {
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* tensor, Operand(*inputs, 0));
  SMELT_ASSIGN_OR_RETURN(const Json* dim, Operand(*inputs, 1));
  SMELT_ASSIGN_OR_RETURN(ValueId v, ReadValue(*tensor, scope, anchor, Type::Tensor()));
  SMELT_ASSIGN_OR_RETURN(ValueId d, ReadValue(*dim, scope, anchor, Type::Int()));
  current_source_ = ReadSource(node);
  return AddNode(OpName::Get("aten::select.int"), {v, d, Constant(anchor, example, Type::Int())}, *outputs, anchor,
                 scope, nullptr);
}

absl::Status Pt2Reader::ReadJoin(const Json& node, int64_t examples,
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
  SMELT_ASSIGN_OR_RETURN(const OutputDecl declared, ReadOutput((*outputs)[0], scope));
  if (!declared.type.IsTensor()) return absl::InvalidArgumentError("vmap: a tensor expected");
  current_source_ = ReadSource(node);
  const auto add = [&](absl::string_view op, const std::vector<ValueId>& args) {
    const NodeId n = g_->InsertBefore(anchor, OpName::Get(op), args, {declared.type});
    g_->SetSource(n, current_source_);
    return n;
  };
  const auto ints = [&](std::vector<int64_t> v) { return Constant(anchor, std::move(v), Type::List(Type::Int())); };
  const auto numbers = [](const std::vector<Expr>& exprs) {  // -1: not known
    std::vector<int64_t> out;
    for (const Expr& e : exprs) out.push_back(e.Constant().value_or(-1));
    return out;
  };
  const ValueId at = Constant(anchor, dim, Type::Int());
  auto it = batched.find(name);
  if (it == batched.end()) {
    // Eager expands it.
    if (dim != 0) return absl::UnimplementedError("vmap: a result that is the same for all examples, and not first");
    SMELT_ASSIGN_OR_RETURN(ValueId same, ReadValue(*arg, scope, anchor, Type::Tensor()));
    if (!g_->value(same).type.IsTensor() || !g_->value(same).type.tensor().sizes)
      return absl::UnimplementedError("vmap: a result of unknown sizes that is the same for all examples");
    std::vector<int64_t> sizes = {examples};
    for (size_t d = 0; d < g_->value(same).type.tensor().sizes->size(); ++d) sizes.push_back(-1);
    return Define(declared,
                  g_->node(add("aten::expand", {same, ints(sizes), InsertConstant(*g_, anchor, false)})).outputs[0],
                  scope);
  }
  if (examples == 0) {
    const std::vector<int64_t> sizes = numbers(*declared.type.tensor().sizes);
    if (absl::c_linear_search(sizes, -1) || !absl::c_linear_search(sizes, 0))
      return absl::UnimplementedError("vmap over 0 examples: a result of unknown sizes");
    const ValueId none = InsertConstant(*g_, anchor, std::monostate());
    const ValueId dtype = Constant(anchor, ScalarTypeOf(*declared.type.tensor().dtype), Type::Int());
    return Define(declared, g_->node(add("aten::zeros", {ints(sizes), dtype, none, none, none})).outputs[0], scope);
  }
  // Eager joins by a view where an example's result is one: a copy would not share the memory.
  for (ValueId owner : it->second) {
    Memory memory = MemoryOf(*g_, owner);
    while (memory.kind == Memory::kOperands) {
      owner = memory.operand;
      memory = MemoryOf(*g_, owner);
    }
    const NodeId def = g_->value(owner).def;
    if (memory.kind == Memory::kUnknown || g_->IsParam(def) || g_->node(def).parent != g_->node(marker).parent ||
        !g_->IsBefore(marker, def) || !joined.insert(owner).second) {
      return absl::UnimplementedError("vmap: a result that is a view of other memory");
    }
  }
  const NodeId list =
      g_->InsertBefore(anchor, OpName::Get("prim::ListConstruct"), it->second, {Type::List(Type::Tensor())});
  const NodeId stack = add("aten::stack", {g_->node(list).outputs[0], at});
  SMELT_RETURN_IF_ERROR(InferNode(*g_, stack));
  ValueId v = g_->node(stack).outputs[0];
  const Type stacked = g_->value(v).type;
  if (stacked.IsTensor() && stacked.tensor().strides != declared.type.tensor().strides) {
    const Geometry to{numbers(*declared.type.tensor().sizes), numbers(*declared.type.tensor().strides), 0};
    if (absl::c_linear_search(to.sizes, -1) || absl::c_linear_search(to.strides, -1))
      return absl::UnimplementedError("vmap: a result of unknown sizes whose examples do not lie one after the other");
    const ValueId none = InsertConstant(*g_, anchor, std::monostate());
    const NodeId laid =
        add("aten::empty_strided",
            {ints(to.sizes), ints(to.strides),
             Constant(anchor, ScalarTypeOf(*declared.type.tensor().dtype), Type::Int()), none, none, none});
    const NodeId copy = add("aten::copy_", {g_->node(laid).outputs[0], v, Constant(anchor, false, Type::Bool())});
    v = g_->node(copy).outputs[0];
  }
  return Define(declared, v, scope);
}

}  // namespace pt2_internal
}  // namespace smelt
