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
#include "smelt/functionalize/composite_opener.h"

namespace smelt {

absl::Status CompositeOpener::CopiesOfParts(NodeId n) {
  std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const std::optional<std::vector<ValueId>> given = GetListElements(g_, args.back());
  if (!given) return absl::UnimplementedError("results in a list that is not known");
  args.pop_back();
  const std::string& name = g_.node(n).op.name();
  const std::string view = absl::StrCat(name.substr(0, name.size() - std::string("_copy").size()),
                                        name == op::kUnbindCopy ? ".int" : "", name == op::kSplitCopy ? ".Tensor" : "");
  const NodeId list = g_.InsertBefore(n, OpName::Get(view), args, {Type::List(Type::Tensor())});
  const NodeId parts = g_.InsertBefore(n, OpName::Get(op::kPrimListUnpack), {g_.node(list).outputs[0]},
                                       std::vector<Type>(given->size(), Type::Tensor()));
  for (NodeId made : {list, parts}) {
    g_.SetSource(made, g_.node(n).source);
    SMELT_RETURN_IF_ERROR(InferNode(g_, made));
  }
  for (size_t i = 0; i < given->size(); ++i) {
    const ValueId to = (*given)[i], from = g_.node(parts).outputs[i];
    if (TypeOfValue(to).sizes != TypeOfValue(from).sizes)
      return absl::UnimplementedError("a given result of another size");
    SMELT_RETURN_IF_ERROR(Insert(n, op::kCopyInPlace, {to, from, InsertConstant(g_, n, false)}).status());
  }
  g_.Erase(n);
  return absl::OkStatus();
}

absl::Status CompositeOpener::UnsafeSplit(NodeId n) {
  // They share memory, whatever their schema says.
  const std::string name = g_.node(n).op.full();
  std::string safe = absl::StrCat(op::kAtenNamespace, absl::StripPrefix(name, op::kUnsafePrefix));
  const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  NodeId fresh = g_.InsertBefore(n, OpName::Get(safe), args, {Type::List(Type::Tensor())});
  g_.SetSource(fresh, g_.node(n).source);
  ReplaceWith(n, g_.node(fresh).outputs[0]);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ViewCopyOut(NodeId n) {
  const OpName op = g_.node(n).op;
  const std::string overload(absl::StripSuffix(absl::StripSuffix(op.overload(), "out"), "_"));
  const OpName copy = OpName::Get(absl::StrCat(op.name(), overload.empty() ? "" : ".", overload));
  std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const FunctionSchema* schema = FindSchema(copy);
  if (schema == nullptr || schema->returns.size() != 1 || !schema->returns[0].type.IsTensor() ||
      schema->arguments.size() + 1 != args.size() || GetOpInfo(copy).kind == OpKind::kPointwise)
    return absl::OkStatus();
  ValueId out = args.back();
  args.pop_back();
  if (op.name() == op::kPrivateToCopy) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, copy.full(), args));
  const NodeId made = g_.value(v[0]).def;
  const std::vector<Expr> sizes = *TypeOfValue(v[0]).sizes;
  if (NeedsContiguousOut(op) && HasFormat(TypeOfValue(out), 0) != true) {
    return absl::UnimplementedError(kNeedsContiguousOut);
  }
  if (sizes != *TypeOfValue(out).sizes) {
    SMELT_ASSIGN_OR_RETURN(auto resized, Insert(n, op::kResizeInPlace, {out, IntList(n, sizes), None(n)}));
    out = resized[0];
  }
  SMELT_ASSIGN_OR_RETURN(auto copied, Insert(n, op::kCopyInPlace, {out, v[0], InsertConstant(g_, n, false)}));
  ReplaceWith(n, copied[0]);
  return ViewCopy(made);
}

absl::Status CompositeOpener::ViewCopy(NodeId n) {
  const OpName op = g_.node(n).op;
  if (HasOut(op)) return ViewCopyOut(n);
  if (g_.node(n).outputs.size() != 1 || op == op::kAliasCopy || op == op::kDetachCopy || op == op::kLiftFreshCopy)
    return absl::OkStatus();
  const std::vector<ValueId> args(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const ValueId out = g_.node(n).outputs[0];
  const auto copied = [&](NodeId anchor, ValueId v) -> absl::StatusOr<ValueId> {
    const ValueId contiguous = InsertConstant(g_, anchor, int64_t{0});
    SMELT_ASSIGN_OR_RETURN(auto copy, Insert(anchor, op::kClone, {v, contiguous}));
    return copy[0];
  };
  if (op == op::kDiag) {
    if (TypeOfValue(args[0]).rank() != 2) return absl::OkStatus();
    const ValueId first = InsertConstant(g_, n, int64_t{0}), second = InsertConstant(g_, n, int64_t{1});
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kDiagonal, {args[0], args[1], first, second}));
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
    ReplaceWith(n, copy);
    return absl::OkStatus();
  }
  if (op == op::kViewCopy) {
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, args[0]));
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, op::kView, {copy, args[1]}));
    ReplaceWith(n, v[0]);
    return absl::OkStatus();
  }
  const OpName view =
      OpName::Get(absl::StrCat(absl::StripSuffix(op.name(), "_copy"), op.overload().empty() ? "" : ".", op.overload()));
  if (FindSchema(view) == nullptr || GetOpInfo(view).kind != OpKind::kView) return absl::OkStatus();
  if (g_.value(out).type.IsTensor()) {
    SMELT_ASSIGN_OR_RETURN(auto v, Insert(n, view.full(), args));
    SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(n, v[0]));
    ReplaceWith(n, copy);
    return absl::OkStatus();
  }
  // A list is handled where it is unpacked.
  std::vector<NodeId> unpacks;
  for (const Use& u : g_.value(out).uses) {
    if (g_.node(u.user).op != op::kPrimListUnpack) return absl::OkStatus();
    unpacks.push_back(u.user);
  }
  const NodeId fresh = g_.InsertBefore(n, view, args, {Type::List(Type::Tensor())});
  g_.SetSource(fresh, g_.node(n).source);
  ReplaceWith(n, g_.node(fresh).outputs[0]);
  for (const NodeId u : unpacks) {
    const Node& node = g_.node(u);
    const NodeId next = node.next.valid() ? node.next : g_.block(node.parent).return_node;
    const std::vector<ValueId> parts(node.outputs.begin(), node.outputs.end());
    for (const ValueId v : parts) {
      const std::vector<Use> uses(g_.value(v).uses.begin(), g_.value(v).uses.end());
      SMELT_ASSIGN_OR_RETURN(const ValueId copy, copied(next, v));
      for (const Use& use : uses) g_.SetInput(use.user, use.index, copy);
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
