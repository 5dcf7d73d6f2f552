// Values of uint16. PyTorch decomposes torch.eye of 256 to 65,535 rows into two ranges of them, compared.
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2_reader.h"

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

int64_t Pt2Reader::CodeOfCounts() { return 4; }  // int32

absl::Status Pt2Reader::CheckCounts() const {
  if (counts_.empty()) return absl::OkStatus();
  const auto refuse = [&](ValueId v, const std::string& what) {
    return absl::UnimplementedError(absl::StrCat("%", g_->value(v).name, ": ", what,
                                                 " of dtype uint16, of which ranges alone are supported that are "
                                                 "compared"));
  };
  for (ValueId input : g_->inputs()) {
    if (counts_.contains(g_->value(input).name)) return refuse(input, "an input");
  }
  for (NodeId n : g_->AllNodes()) {
    const Node& node = g_->node(n);
    for (ValueId v : node.outputs) {
      if (!counts_.contains(g_->value(v).name)) continue;
      if (!Counts(*g_, node) && !Rearranges(node)) return refuse(v, absl::StrCat("a result of ", node.op.full()));
      for (const Use& use : g_->value(v).uses) {
        if (g_->IsReturn(use.user)) return refuse(v, "a result of the model");
        const Node& user = g_->node(use.user);
        if (!Rearranges(user) && !ReadsNumbers(user)) return refuse(v, absl::StrCat("an operand of ", user.op.full()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace pt2_internal
}  // namespace smelt
