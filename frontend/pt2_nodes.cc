#include "smelt/frontend/pt2_nodes.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2_targets.h"
#include "smelt/frontend/sympy_expr.h"

namespace smelt {
namespace pt2_internal {

absl::Status Pt2Nodes::ReadNodes(const Json& graph, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(const Json* nodes, Get(graph, "nodes"));
  if (!nodes->is_array()) return Expected("a list of nodes");
  return ReadNodesBetween(*nodes, 0, nodes->size(), block, scope, depth);
}

absl::Status Pt2Nodes::ReadNodesBetween(const Json& nodes, size_t first, size_t end, BlockId block, Scope& scope,
                                        int depth) {
  for (size_t i = first; i < end; ++i) {
    const Json& node = nodes[i];
    absl::Status s;
    if (Pt2Vmap::Begins(node)) {
      SMELT_ASSIGN_OR_RETURN(const size_t last, Pt2Vmap::End(nodes, i));
      s = vmap_.Read(nodes, i, last, block, scope, depth);
      i = last;
    } else {
      s = ReadNode(node, block, scope, depth);
    }
    if (!s.ok()) {
      const Json* name = Find(node, "name");
      std::string where = name != nullptr && name->is_string() ? name->get<std::string>() : absl::StrCat("#", i);
      auto source = p_.sources.SourceOf(node);
      if (source)
        absl::StrAppend(&where, "\" (", source->ToString(), ")");
      else
        absl::StrAppend(&where, "\"");
      return Annotate(s, absl::StrCat("node \"", where));
    }
  }
  return absl::OkStatus();
}

absl::Status Pt2Nodes::ReadNode(const Json& node, BlockId block, Scope& scope, int depth) {
  SMELT_ASSIGN_OR_RETURN(std::string target, GetString(node, "target"));
  SMELT_ASSIGN_OR_RETURN(const Json* inputs, Get(node, "inputs"));
  SMELT_ASSIGN_OR_RETURN(const Json* outputs, Get(node, "outputs"));
  if (!inputs->is_array() || !outputs->is_array()) return Expected("lists \"inputs\" and \"outputs\"");
  p_.insert.set_source(p_.sources.SourceOf(node));
  if (target == "torch.ops.higher_order.with_effects")
    return subgraphs_.ReadEffect(*inputs, *outputs, node, block, scope, depth);
  return ReadCall(target, *inputs, *outputs, node, block, scope, depth);
}

absl::Status Pt2Nodes::ReadCall(const std::string& target, const Json& inputs, const Json& outputs, const Json& node,
                                BlockId block, Scope& scope, int depth) {
  if (absl::StartsWith(target, "torch.ops.higher_order.")) {
    return subgraphs_.ReadOperator(target.substr(23), inputs, outputs, block, scope, depth);
  }
  if (target == "torch._functorch.predispatch.lazy_load_decompositions") return absl::OkStatus();  // for what traces
  if (target == "torch.ops.prims.fma.default") return ReadFma(inputs, outputs, p_.g.block(block).return_node, scope);
  if (target == "torch.sym_ite") return numbers_.ReadSymIte(inputs, outputs, p_.g.block(block).return_node, scope);
  SMELT_ASSIGN_OR_RETURN(OpName op, TargetName(target, inputs, p_.options.operators));
  // These state what the exporter has checked already, the metadata of the values at hand, or are for readers of the
  // output.
  if (op.name() == "aten::_assert_tensor_metadata" || op.name() == "aten::sym_constrain_range" ||
      op.name() == "aten::sym_constrain_range_for_size" || op.name() == "aten::_print") {
    return absl::OkStatus();
  }
  const NodeId anchor = p_.g.block(block).return_node;
  std::vector<ValueId> args;
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) {
    // An operator of a user's own library keeps its name, so that it can be listed as unsupported.
    for (const Json& input : inputs) {
      SMELT_ASSIGN_OR_RETURN(const Json* arg, Get(input, "arg"));
      SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(*arg, scope, anchor, Type()));
      args.push_back(v);
    }
  } else {
    SMELT_RETURN_IF_ERROR(p_.arguments.ReadArguments(*schema, inputs, scope, anchor, args));
  }
  if (op.name() == "aten::copy_" && args.size() > 1) args[1] = p_.insert.NumberAsTensor(args[1], anchor);
  if (p_.autocast.lower()) p_.autocast.Convert(op, anchor, args);
  if (op == "aten::item" && outputs.size() == 1) {
    SMELT_ASSIGN_OR_RETURN(const OutputDecl stated, p_.results.ReadOutput(outputs[0], scope));
    if (stated.expr && !DependsOnData(*stated.expr)) return numbers_.ReadStatedItem(args[0], stated, anchor, scope);
  }
  SMELT_RETURN_IF_ERROR(p_.results.AddNode(op, args, outputs, anchor, scope, schema));
  if (depth == 0) p_.assignments.Note(node, p_.g.block(block).last);
  return absl::OkStatus();
}

absl::Status Pt2Nodes::ReadFma(const Json& inputs, const Json& outputs, NodeId anchor, Scope& scope) {
  std::vector<ValueId> args;
  for (size_t i = 0; i < 3; ++i) {
    SMELT_ASSIGN_OR_RETURN(const Json* arg, Operand(inputs, i));
    SMELT_ASSIGN_OR_RETURN(ValueId v, p_.arguments.ReadValue(*arg, scope, anchor, Type()));
    args.push_back(v);
  }
  SMELT_ASSIGN_OR_RETURN(const ValueId product,
                         p_.insert.Compute("aten::mul.Tensor", {args[0], args[1]}, p_.g.value(args[0]).type, anchor));
  const OpName sum = OpName::Get("aten::add.Tensor");
  return p_.results.AddNode(sum, {product, args[2], p_.insert.Constant(anchor, int64_t{1}, Type::Int())}, outputs,
                            anchor, scope, FindSchema(sum));
}

}  // namespace pt2_internal
}  // namespace smelt
