#include "smelt/functionalize/open_copies.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/functionalize/view_or_copy.h"

namespace smelt {
namespace {

absl::Status UnsafeSplit(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  // They share memory, whatever their schema says.
  const std::string name = g.node(n).op.full();
  std::string safe = absl::StrCat(op::kAtenNamespace, absl::StripPrefix(name, op::kUnsafePrefix));
  const std::vector<ValueId> args(g.node(n).inputs.begin(), g.node(n).inputs.end());
  NodeId fresh = g.InsertBefore(n, OpName::Get(safe), args, {Type::List(Type::Tensor())});
  g.SetSource(fresh, g.node(n).source);
  o.ReplaceWith(n, g.node(fresh).outputs[0]);
  return absl::OkStatus();
}

// The same into a given tensor, to which the view is copied.
absl::Status ViewCopyOut(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const OpName op = g.node(n).op;
  const std::string overload(absl::StripSuffix(absl::StripSuffix(op.overload(), "out"), "_"));
  const OpName copy = OpName::Get(absl::StrCat(op.name(), overload.empty() ? "" : ".", overload));
  std::vector<ValueId> args(g.node(n).inputs.begin(), g.node(n).inputs.end());
  const FunctionSchema* schema = FindSchema(copy);
  if (schema == nullptr || schema->returns.size() != 1 || !schema->returns[0].type.IsTensor() ||
      schema->arguments.size() + 1 != args.size() || GetOpInfo(copy).kind == OpKind::kPointwise)
    return absl::OkStatus();
  ValueId out = args.back();
  args.pop_back();
  if (op.name() == op::kPrivateToCopy) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, copy.full(), args));
  const NodeId made = g.value(v[0]).def;
  const std::vector<Expr> sizes = *o.TypeOfValue(v[0]).sizes;
  if (NeedsContiguousOut(op) && HasFormat(g, o.TypeOfValue(out), 0) != true) {
    return absl::UnimplementedError(kNeedsContiguousOut);
  }
  if (sizes != *o.TypeOfValue(out).sizes) {
    SMELT_ASSIGN_OR_RETURN(auto resized, o.Insert(n, op::kResizeInPlace, {out, o.IntList(n, sizes), o.None(n)}));
    out = resized[0];
  }
  SMELT_ASSIGN_OR_RETURN(auto copied, o.Insert(n, op::kCopyInPlace, {out, v[0], InsertConstant(g, n, false)}));
  o.ReplaceWith(n, copied[0]);
  return OpenViewCopy(o, made);
}

}  // namespace

absl::Status OpenCopiesOfParts(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  std::vector<ValueId> args(g.node(n).inputs.begin(), g.node(n).inputs.end());
  const std::optional<std::vector<ValueId>> given = GetListElements(g, args.back());
  if (!given) return absl::UnimplementedError("results in a list that is not known");
  args.pop_back();
  const std::string& name = g.node(n).op.name();
  const std::string view = absl::StrCat(name.substr(0, name.size() - std::string("_copy").size()),
                                        name == op::kUnbindCopy ? ".int" : "", name == op::kSplitCopy ? ".Tensor" : "");
  const NodeId list = g.InsertBefore(n, OpName::Get(view), args, {Type::List(Type::Tensor())});
  const NodeId parts = g.InsertBefore(n, OpName::Get(op::kPrimListUnpack), {g.node(list).outputs[0]},
                                      std::vector<Type>(given->size(), Type::Tensor()));
  for (NodeId made : {list, parts}) {
    g.SetSource(made, g.node(n).source);
    SMELT_RETURN_IF_ERROR(InferNode(g, made));
  }
  for (size_t i = 0; i < given->size(); ++i) {
    const ValueId to = (*given)[i], from = g.node(parts).outputs[i];
    if (o.TypeOfValue(to).sizes != o.TypeOfValue(from).sizes)
      return absl::UnimplementedError("a given result of another size");
    SMELT_RETURN_IF_ERROR(o.Insert(n, op::kCopyInPlace, {to, from, InsertConstant(g, n, false)}).status());
  }
  g.Erase(n);
  return absl::OkStatus();
}

absl::Status OpenViewCopy(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const OpName op = g.node(n).op;
  if (HasOut(op)) return ViewCopyOut(o, n);
  if (g.node(n).outputs.size() != 1 || op == op::kAliasCopy || op == op::kDetachCopy || op == op::kLiftFreshCopy)
    return absl::OkStatus();
  const std::vector<ValueId> args(g.node(n).inputs.begin(), g.node(n).inputs.end());
  const ValueId out = g.node(n).outputs[0];
  const auto copied = [&](NodeId anchor, ValueId v) -> absl::StatusOr<ValueId> {
    const ValueId contiguous = InsertConstant(g, anchor, int64_t{0});
    SMELT_ASSIGN_OR_RETURN(auto copy, o.Insert(anchor, op::kClone, {v, contiguous}));
    return copy[0];
  };
  if (op == op::kDiag) {
    if (o.TypeOfValue(args[0]).rank() != 2) return absl::OkStatus();
    const ValueId first = InsertConstant(g, n, int64_t{0}), second = InsertConstant(g, n, int64_t{1});
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kDiagonal, {args[0], args[1], first, second}));
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
    o.ReplaceWith(n, copy);
    return absl::OkStatus();
  }
  if (op == op::kViewCopy) {
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, args[0]));
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op::kView, {copy, args[1]}));
    o.ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }
  const OpName view =
      OpName::Get(absl::StrCat(absl::StripSuffix(op.name(), "_copy"), op.overload().empty() ? "" : ".", op.overload()));
  if (FindSchema(view) == nullptr || GetOpInfo(view).kind != OpKind::kView) return absl::OkStatus();
  if (g.value(out).type.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, view.full(), args));
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
    o.ReplaceWith(n, copy);
    return absl::OkStatus();
  }
  // A list is handled where it is unpacked.
  std::vector<NodeId> unpacks;
  for (const Use& u : g.value(out).uses) {
    if (g.node(u.user).op != op::kPrimListUnpack) return absl::OkStatus();
    unpacks.push_back(u.user);
  }
  const NodeId fresh = g.InsertBefore(n, view, args, {Type::List(Type::Tensor())});
  g.SetSource(fresh, g.node(n).source);
  o.ReplaceWith(n, g.node(fresh).outputs[0]);
  for (const NodeId u : unpacks) {
    const Node& node = g.node(u);
    const NodeId next = node.next.valid() ? node.next : g.block(node.parent).return_node;
    const std::vector<ValueId> parts(node.outputs.begin(), node.outputs.end());
    for (const ValueId v : parts) {
      const std::vector<Use> uses(g.value(v).uses.begin(), g.value(v).uses.end());
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(next, v));
      for (const Use& use : uses) g.SetInput(use.user, use.index, copy);
    }
  }
  return absl::OkStatus();
}

void AddCopyOpenings(OpeningTable& table) { table[Opening::kUnsafeSplit] = UnsafeSplit; }

}  // namespace smelt
