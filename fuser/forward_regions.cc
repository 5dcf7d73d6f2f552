#include "smelt/fuser/forward_regions.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace {

constexpr int kMostRegions = 16;

class RegionForwarder {
 public:
  RegionForwarder(Graph& g, BlockId b) : g_(g), block_(b) {}

  int Run() {
    int changed = 0;
    const std::vector<NodeId> nodes = g_.Nodes(block_);
    // The last write of a memory comes first: then the other writes' results are read instead.
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      for (BlockId inner : g_.node(*n).blocks) changed += RegionForwarder(g_, inner).Run();
      if (IsWrite(*n)) changed += DropMemory(*n);
    }
    for (NodeId n : nodes) {
      if (g_.IsLive(n) && g_.node(n).op == op::kSmeltView) changed += TakeValue(n);
    }
    return changed;
  }

 private:
  bool IsWrite(NodeId n) const {
    return g_.node(n).op == op::kSmeltWriteRegion && g_.node(n).FindAttribute("argument") == nullptr;
  }
  static bool IsSame(const SymbolicGeometry& a, const SymbolicGeometry& b) {
    return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset;
  }
  enum class Shows { kTheRegion, kNothingOfIt, kMore };
  Shows Compare(NodeId view, NodeId write) const {
    if (g_.node(view).FindAttribute("argument") != nullptr) return Shows::kMore;
    if (IsSame(RegionGeometry(g_.node(view)), RegionGeometry(g_.node(write)))) return Shows::kTheRegion;
    const Overlap o = CompareExtents(ExtentOf(g_.node(view)), ExtentOf(g_.node(write)), g_.symbols);
    return o == Overlap::kDisjoint ? Shows::kNothingOfIt : Shows::kMore;
  }
  // Returns whether a kernel makes the value and nothing takes its memory over, so that it may be read at any time.
  bool IsKernelsValue(ValueId v) const {
    const NodeId def = g_.value(v).def;
    return !g_.IsParam(def) && g_.node(def).parent == block_ && IsKernelNode(g_, def) && !IsTakenOver(v);
  }
  bool IsTakenOver(ValueId v, NodeId other_than = NodeId()) const {
    return absl::c_any_of(g_.value(v).uses, [&](const Use& u) {
      return u.index == 0 && u.user != other_than && !g_.IsReturn(u.user) && IsRegionOp(g_.node(u.user));
    });
  }
  // Returns whether the user needs elements, not the memory that they lie in.
  bool TakesAnyStrides(const Use& u) const {
    if (g_.IsReturn(u.user)) return false;
    const Node& user = g_.node(u.user);
    return user.op == op::kSmeltMaterialize || user.op == op::kPrimListConstruct ||
           absl::StartsWith(user.op.name(), op::kAtenNamespace);
  }

  // Erases the node if nothing needs its result as memory.
  int DropMemory(NodeId n) {
    const ValueId base = g_.node(n).inputs[0], written = g_.node(n).inputs[1];
    if (!IsKernelsValue(written) || g_.IsParam(g_.value(base).def) || IsTakenOver(base, n)) return 0;
    std::vector<NodeId> same, apart;
    for (const Use& u : g_.value(g_.node(n).outputs[0]).uses) {
      if (g_.IsReturn(u.user) || g_.node(u.user).op != op::kSmeltView) return 0;
      const Shows shows = Compare(u.user, n);
      if (shows == Shows::kMore) return 0;
      (shows == Shows::kTheRegion ? same : apart).push_back(u.user);
      const auto& uses = g_.value(g_.node(u.user).outputs[0]).uses;
      if (shows == Shows::kTheRegion && !absl::c_all_of(uses, [&](const Use& v) { return TakesAnyStrides(v); })) {
        return 0;
      }
    }
    for (NodeId view : apart) g_.SetInput(view, 0, base);
    for (NodeId view : same) {
      g_.ReplaceAllUses(g_.node(view).outputs[0], written);
      g_.Erase(view);
    }
    g_.Erase(n);
    return static_cast<int>(same.size() + apart.size());
  }

  // Returns the value that was written and that the view shows; the id is not valid if there is none.
  ValueId Written(NodeId view) const {
    ValueId base = g_.node(view).inputs[0];
    for (int k = 0; k < kMostRegions; ++k) {
      const NodeId def = g_.value(base).def;
      if (g_.IsParam(def) || !IsWrite(def)) break;
      const Shows shows = Compare(view, def);
      if (shows == Shows::kTheRegion) return g_.node(def).inputs[1];
      if (shows == Shows::kMore) break;
      base = g_.node(def).inputs[0];
    }
    return ValueId();
  }

  // The memory is needed, but operators over the loop that writes it take the value from there.
  int TakeValue(NodeId view) {
    const ValueId written = Written(view);
    if (!written.valid() || !IsKernelsValue(written) || !IsPointwise(g_.value(written).def)) return 0;
    const std::vector<Expr>& sizes = *g_.value(written).type.tensor().sizes;
    int changed = 0;
    const auto& all = g_.value(g_.node(view).outputs[0]).uses;
    const std::vector<Use> uses(all.begin(), all.end());
    for (const Use& u : uses) {
      if (g_.IsReturn(u.user) || g_.node(u.user).parent != block_ || !IsPointwise(u.user)) continue;
      const TensorType& made = g_.value(g_.node(u.user).outputs[0]).type.tensor();
      if (!made.sizes || *made.sizes != sizes) continue;
      g_.SetInput(u.user, u.index, written);
      ++changed;
    }
    return changed;
  }
  bool IsPointwise(NodeId n) const {
    return GetOpInfo(g_.node(n).op).kind == OpKind::kPointwise && IsKernelNode(g_, n);
  }

  Graph& g_;
  const BlockId block_;
};

}  // namespace

int ForwardRegions(Graph& g) { return RegionForwarder(g, g.top()).Run(); }

Pass ForwardRegionsPass() {
  return {.name = "forward-regions",
          .description = "views of a region that was written become the value that was written",
          .prerequisites = {"expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext&) -> absl::StatusOr<bool> { return ForwardRegions(g) > 0; }};
}

}  // namespace smelt
