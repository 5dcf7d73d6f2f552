#include "smelt/frontend/pt2_counts.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"

namespace smelt {
namespace pt2_internal {

namespace {

bool IsIn(const absl::flat_hash_set<std::string>& names, const Node& n) { return names.contains(n.op.name()); }

bool Rearranges(const Node& n) {
  static const auto* const kOps =
      new absl::flat_hash_set<std::string>{"aten::unsqueeze", "aten::squeeze", "aten::view", "aten::reshape",
                                           "aten::expand",    "aten::permute", "aten::alias"};
  return IsIn(*kOps, n);
}

// Returns whether the result does not depend on the number of bits of a nonnegative number.
bool ReadsNumbers(const Node& n) {
  static const auto* const kOps = new absl::flat_hash_set<std::string>{
      "aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge", "aten::_to_copy"};
  return IsIn(*kOps, n);
}

// aten::arange between numbers that uint16 holds.
bool Counts(const Graph& g, const Node& n) {
  if (n.op.name() != "aten::arange") return false;
  for (size_t i = 0; i < n.inputs.size() && g.value(n.inputs[i]).type.kind() == TypeKind::kInt; ++i) {
    // start, end, step, then the dtype.
    const std::optional<Expr> bound = GetIntExpr(g, n.inputs[i]);
    const std::optional<int64_t> number = bound ? bound->Constant() : std::nullopt;
    if (!number || *number < 0 || *number > UINT16_MAX) return false;
  }
  return true;
}

}  // namespace

absl::Status Uint16Values::Check(const Graph& g) const {
  if (names_.empty()) return absl::OkStatus();
  const auto refuse = [&](ValueId v, const std::string& what) {
    return absl::UnimplementedError(absl::StrCat("%", g.value(v).name, ": ", what,
                                                 " of dtype uint16, of which ranges alone are supported that are "
                                                 "compared"));
  };
  for (ValueId input : g.inputs()) {
    if (names_.contains(g.value(input).name)) return refuse(input, "an input");
  }
  for (NodeId n : g.AllNodes()) {
    const Node& node = g.node(n);
    for (ValueId v : node.outputs) {
      if (!names_.contains(g.value(v).name)) continue;
      if (!Counts(g, node) && !Rearranges(node)) return refuse(v, absl::StrCat("a result of ", node.op.full()));
      for (const Use& use : g.value(v).uses) {
        if (g.IsReturn(use.user)) return refuse(v, "a result of the model");
        const Node& user = g.node(use.user);
        if (!Rearranges(user) && !ReadsNumbers(user)) return refuse(v, absl::StrCat("an operand of ", user.op.full()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
