#include "smelt/functionalize/open_foreach.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

// Passes arguments by name where names agree, else by position; missing ones take their defaults.
absl::Status FitArguments(Graph& g, NodeId anchor, const FunctionSchema& from, const FunctionSchema& to,
                          std::vector<ValueId>& call) {
  std::vector<ValueId> out(to.arguments.size());
  std::vector<bool> used(call.size(), false);
  for (size_t k = 0; k < to.arguments.size(); ++k) {
    for (size_t i = 0; i < call.size(); ++i) {
      if (!used[i] && (from.arguments[i].name == to.arguments[k].name) && !g.IsLive(out[k])) {
        out[k] = call[i];
        used[i] = true;
      }
    }
  }
  size_t next = 0;
  for (size_t k = 0; k < to.arguments.size(); ++k) {
    if (g.IsLive(out[k])) continue;
    while (next < call.size() && used[next]) ++next;
    if (next < call.size()) {
      out[k] = call[next];
      used[next] = true;
    } else if (to.arguments[k].default_value) {
      out[k] = InsertConstant(g, anchor, *to.arguments[k].default_value);
    } else {
      return absl::UnimplementedError(absl::StrCat("no value for argument ", to.arguments[k].name));
    }
  }
  call = std::move(out);
  return absl::OkStatus();
}

}  // namespace

absl::Status OpenForeach(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  const FunctionSchema* schema = FindSchema(g.node(n).op);
  if (schema == nullptr) return absl::UnimplementedError("no such operator is known");
  std::string base = absl::StrCat(op::kAtenNamespace, absl::StripPrefix(schema->op.name(), op::kPrivateForeachPrefix));
  // The operators on one tensor have another name in place, and with a number.
  const bool number = absl::StartsWith(schema->op.overload(), "Scalar");
  for (const auto& [from, to] : {std::pair(op::kMaximum, op::kClampMin), {op::kMinimum, op::kClampMax}}) {
    if (base == absl::StrCat(from, "_")) base = absl::StrCat(to, "_");
    if (base == from && number) base = to;
  }
  const std::vector<ValueId> args(g.node(n).inputs.begin(), g.node(n).inputs.end());
  std::vector<std::optional<std::vector<ValueId>>> lists;
  size_t count = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& t = schema->arguments[i].type;
    const bool list = t.kind() == TypeKind::kList;
    lists.push_back(std::nullopt);
    if (!list) continue;
    lists.back() = GetListElements(g, args[i]);
    if (!lists.back()) {
      // A constant list of numbers.
      auto c = GetConstant(g, args[i]);
      std::vector<ValueId> elements;
      if (c && std::holds_alternative<std::vector<double>>(*c)) {
        for (double d : std::get<std::vector<double>>(*c)) elements.push_back(InsertConstant(g, n, d));
      } else if (c && std::holds_alternative<std::vector<int64_t>>(*c)) {
        for (int64_t d : std::get<std::vector<int64_t>>(*c)) elements.push_back(InsertConstant(g, n, d));
      } else {
        return absl::UnimplementedError("a list that is not made in place");
      }
      lists.back() = std::move(elements);
    }
    count = std::max(count, lists.back()->size());
  }
  std::vector<ValueId> results;
  for (size_t k = 0; k < count; ++k) {
    std::vector<ValueId> call;
    std::vector<Type> types;
    for (size_t i = 0; i < args.size(); ++i) {
      if (lists[i] && k >= lists[i]->size()) return absl::InvalidArgumentError("lists of different lengths");
      call.push_back(lists[i] ? (*lists[i])[k] : args[i]);
      types.push_back(g.value(call.back()).type);
    }
    OpName op = OpName::Get(op::kLinalgVectorNorm);
    if (base == op::kNorm) {  // (self, ord, dtype): over all dims, which are not kept
      call.insert(call.begin() + 2, {InsertConstant(g, n, std::monostate()), InsertConstant(g, n, false)});
    } else {
      SMELT_ASSIGN_OR_RETURN(op, ResolveOverload(base, types));
      SMELT_RETURN_IF_ERROR(FitArguments(g, n, *schema, *FindSchema(op), call));
    }
    const FunctionSchema* single = FindSchema(op);
    SMELT_ASSIGN_OR_RETURN(auto v, o.Insert(n, op.full(), call, single->returns.size()));
    if (!v.empty()) results.push_back(v[0]);
  }
  if (g.node(n).outputs.empty()) {
    g.Erase(n);
    return absl::OkStatus();
  }
  return o.ReplaceList(n, results);
}

}  // namespace smelt
