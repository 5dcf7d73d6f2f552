#include "smelt/functionalize/erase_dead.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

bool IsRemovable(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (!node.blocks.empty()) {
    return IsBranch(node.op) &&
           std::all_of(node.blocks.begin(), node.blocks.end(), [&](BlockId b) { return !g.block(b).first.valid(); });
  }
  const std::string& name = node.op.name();
  if (absl::StartsWith(name, op::kPrimNamespace)) return name != op::kPrimPrint && name != op::kPrimRaiseException;
  if (absl::StartsWith(name, op::kPrivateAssertPrefix) || node.outputs.empty()) {
    // Writes were replaced. A remaining node without outputs is a check.
    const FunctionSchema* schema = FindSchema(node.op);
    return schema != nullptr && schema->IsMutable();
  }
  // A draw advances the generator. For one in place, the functional form does.
  if (GetOpInfo(node.op).kind != OpKind::kRandom) return true;
  const FunctionSchema* schema = FindSchema(node.op);
  return schema != nullptr && schema->IsMutable();
}

// A value that both branches return is known without the branch. A result that nothing reads would be copied for
// nothing.
void EraseUnusedResults(Graph& g, NodeId n) {
  for (int k = static_cast<int>(g.node(n).outputs.size()) - 1; k >= 0; --k) {
    if (!g.value(g.node(n).outputs[k]).uses.empty()) continue;
    g.EraseNodeOutput(n, k);
    for (BlockId b : g.node(n).blocks) g.EraseResult(b, k);
  }
}

// Returns whether the operator reads only the sizes of its first operand.
bool ReadsSizesAlone(const std::string& name) {
  return absl::EndsWith(name, "_like") || absl::StartsWith(name, op::kNewPrefix) || name == op::kZero ||
         name == op::kFill;
}

// Returns whether readers need every element of one of the results. Views of parts are assumed to be disjoint.
bool IsWhollyRead(const Graph& g, NodeId n) {
  for (ValueId v : g.node(n).outputs) {
    const Type& t = g.value(v).type;
    if (g.value(v).uses.empty()) continue;
    if (!t.IsTensor() || !t.tensor().sizes) return true;
    const Expr all = Product(*t.tensor().sizes);
    Expr left = all;
    for (const Use& use : g.value(v).uses) {
      const Node& user = g.node(use.user);
      if (use.index == 0 && ReadsSizesAlone(user.op.name())) continue;
      const bool is_view = user.op == op::kSmeltView && g.value(user.outputs[0]).type.tensor().sizes;
      left = left - (is_view ? Product(*g.value(user.outputs[0]).type.tensor().sizes) : all);
    }
    if (!left.IsConstant() || *left.Constant() <= 0) return true;
  }
  return false;
}

// Nothing reads the results, or a part of them, but PyTorch may refuse to compute them.
void KeepComputed(Graph& g, NodeId n) {
  static const OpName kComputed = OpName::Get(op::kSmeltAssertComputed);
  const std::vector<ValueId> outputs(g.node(n).outputs.begin(), g.node(n).outputs.end());
  for (ValueId v : outputs) {
    if (!g.value(v).type.IsTensor()) continue;
    const NodeId kept = g.InsertAfter(n, kComputed, {v}, {});
    g.SetSource(kept, g.node(n).source);
    return;  // all are made together
  }
}

}  // namespace

void EraseDead(Graph& g, BlockId b, const absl::flat_hash_set<NodeId>& kept) {
  for (NodeId n = g.block(b).last, previous; n.valid(); n = previous) {
    const Node& node = g.node(n);
    previous = node.prev;
    if (IsBranch(node.op)) EraseUnusedResults(g, n);
    for (BlockId inner : node.blocks) EraseDead(g, inner, kept);
    const bool used =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return !g.value(v).uses.empty(); });
    if (!used && (!IsRemovable(g, n) || kept.contains(n))) continue;
    if (MayRefuseData(g, n)) {
      if (!IsWhollyRead(g, n)) KeepComputed(g, n);
    } else if (!used) {
      g.Erase(n);
    }
  }
}

}  // namespace smelt
