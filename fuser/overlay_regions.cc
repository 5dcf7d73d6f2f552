#include "smelt/fuser/overlay_regions.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/fused_nodes.h"
#include "smelt/fuser/kernel_builder.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/fuser/placement.h"

namespace smelt {
namespace {

constexpr int kMostRegions = 4;  // one over the other
constexpr size_t kMostReaders = 4;
constexpr int64_t kShortRow = 16;

class Overlayer {
 public:
  Overlayer(Graph& g, BlockId b, const absl::flat_hash_set<ValueId>& written, bool few_launches)
      : g_(g), block_(b), written_(written), few_launches_(few_launches) {}

  int Run() {
    const std::vector<NodeId> nodes = g_.Nodes(block_);
    FindChains(nodes);
    int changed = 0;
    for (NodeId n : nodes) {
      for (BlockId inner : g_.node(n).blocks) changed += Overlayer(g_, inner, written_, few_launches_).Run();
      if (!IsRegion(n) || chain_.at(n) > kMostRegions || !IsWorthwhile(n) || !LiesAlongDims(n) ||
          ReadsWhatIsWritten(n)) {
        continue;
      }
      if (const NodeId def = g_.value(Base(n)).def; IsFresh(def)) {
        const Type type = g_.value(Base(n)).type;
        g_.SetInput(
            n, 0,
            g_.node(g_.InsertBefore(n, OpName::Get(op::kSmeltFull), {}, {type}, {{"value", int64_t{0}}})).outputs[0]);
      }
      g_.SetOp(n, OpName::Get(op::kSmeltOverlay));
      ++changed;
    }
    return changed;
  }

 private:
  const TensorType& T(ValueId v) const { return g_.value(v).type.tensor(); }
  bool IsRegion(NodeId n) const { return g_.node(n).op == op::kSmeltWriteRegion; }
  // Returns whether the node makes memory without contents.
  bool IsFresh(NodeId def) const { return !g_.IsParam(def) && IsAllocation(g_.node(def)); }
  ValueId Base(NodeId n) const { return g_.node(n).inputs[0]; }

  // Counts the regions that are written one after the other, one per node.
  void FindChains(const std::vector<NodeId>& nodes) {
    for (NodeId n : nodes) {
      if (!IsRegion(n)) continue;
      const auto before = chain_.find(g_.value(Base(n)).def);
      chain_[n] = before == chain_.end() ? 1 : before->second + 1;
    }
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      if (!IsRegion(*n)) continue;
      if (const auto before = chain_.find(g_.value(Base(*n)).def); before != chain_.end())
        before->second = std::max(before->second, chain_[*n]);
    }
  }

  bool IsWorthwhile(NodeId n) const {
    const NodeId def = g_.value(Base(n)).def;
    if (g_.IsParam(def)) {
      return !written_.contains(Base(n)) && BeginsAtItsFirstElement(Base(n)) && (few_launches_ || IsReadByKernels(n));
    }
    const Node& node = g_.node(def);
    if (node.op == op::kSmeltView || IsRegionOp(node)) return false;
    if (few_launches_) return true;
    return (node.parent == block_ && IsKernelNode(g_, def) && !IsFresh(def)) || IsReadByKernels(n);
  }
  // A region counts from the beginning of a weight's storage.
  bool BeginsAtItsFirstElement(ValueId param) const {
    const NodeId def = g_.value(param).def;
    if (def != g_.block(g_.top()).param_node) return true;
    const InputInfo& info = g_.input_infos[g_.value(param).def_index];
    return info.kind != InputInfo::Kind::kWeight || g_.weights[info.weight].geometry.offset == 0;
  }
  // Returns whether kernels alone read it, so that nothing needs its memory. Regions over it are chosen by index too.
  bool IsReadByKernels(NodeId n) const {
    const auto& uses = g_.value(g_.node(n).outputs[0]).uses;
    return uses.size() <= kMostReaders && absl::c_all_of(uses, [&](const Use& u) {
             if (g_.IsReturn(u.user) || g_.node(u.user).parent != block_ || !IsKernelNode(g_, u.user)) return false;
             if (IsRegion(u.user) && u.index == 0) return LiesAlongDims(u.user) && IsReadByKernels(u.user);
             const OpKind kind = GetOpInfo(g_.node(u.user).op).kind;
             return kind == OpKind::kPointwise || kind == OpKind::kReduction;
           });
  }

  // Returns whether the value of the region depends on an argument's memory that the call rewrites, other than on the
  // elements that it replaces. If the whole is to lie in that memory, it could not be computed in place.
  bool ReadsWhatIsWritten(NodeId n) const {
    constexpr size_t kMostNodes = 32;
    if (written_.empty()) return false;
    const SymbolicGeometry region = RegionGeometry(g_.node(n));
    std::vector<ValueId> made_of = {g_.node(n).inputs[1]};
    for (size_t k = 0; k < made_of.size(); ++k) {
      if (k == kMostNodes || written_.contains(made_of[k])) return true;
      const NodeId def = g_.value(made_of[k]).def;
      if (g_.IsParam(def)) continue;
      const Node& node = g_.node(def);
      if (node.op == op::kSmeltView && node.inputs[0] == Base(n)) {
        const SymbolicGeometry shown = RegionGeometry(node);
        if (shown.sizes == region.sizes && shown.strides == region.strides && shown.offset == region.offset) continue;
      }
      for (ValueId v : node.inputs) {
        if (!absl::c_linear_search(made_of, v)) made_of.push_back(v);
      }
    }
    return false;
  }

  // Returns the value that the first region of a chain of region writes is written into.
  ValueId ChainBase(NodeId n) const {
    ValueId base = Base(n);
    for (int k = 0; k < kMostRegions; ++k) {
      const NodeId def = g_.value(base).def;
      if (g_.IsParam(def) || (!IsRegion(def) && g_.node(def).op != op::kSmeltOverlay)) break;
      base = Base(def);
    }
    return base;
  }

  bool LiesAlongDims(NodeId n) const {
    const Node& node = g_.node(n);
    if (!IsKernelNode(g_, n) || node.FindAttribute("argument") != nullptr) return false;
    const TensorType &base = T(node.inputs[0]), &out = T(node.outputs[0]);
    const SymbolicGeometry region = RegionGeometry(node);
    if (!base.IsComplete() || !out.IsComplete() || *out.sizes != *base.sizes || *out.strides != *base.strides ||
        *base.dtype != region.dtype || *T(node.inputs[1]).dtype != region.dtype) {
      return false;
    }
    for (size_t k = 0; k < region.sizes.size(); ++k) {
      if (region.sizes[k] != Expr(1) && region.strides[k] == Expr(0)) return false;
    }
    const auto placed = kernel::PlaceRegion(region, *base.sizes, *base.strides, g_.symbols);
    if (!placed || !placed->across.empty()) return false;
    bool all = true;        // of the base: nothing to choose from
    std::vector<int> runs;  // two of one dim are a diagonal
    for (size_t i = 0; i < placed->order.size(); ++i) {
      const int j = placed->order[i];
      const kernel::Placement::Dim& dim = placed->dims[j];
      // No element of the base lies in the place of another.
      if (i > 0) {
        const int wider = placed->order[i - 1];
        if (g_.symbols.LessOrEqual((*base.strides)[j] * (*base.sizes)[j], (*base.strides)[wider]) != true) return false;
      }
      if (dim.runs.size() > 1) return false;
      const bool innermost = i + 1 == placed->order.size();
      // If columns are put side by side, no two neighbours come from one value, and each is stored as it is made.
      if (innermost && !few_launches_ && dim.runs.empty() && IsFresh(g_.value(ChainBase(n)).def)) return false;
      if (innermost && !few_launches_ && !dim.runs.empty() && dim.runs[0].step != Expr(1) &&
          !IsUnrolled(dim.runs[0].step, (*base.sizes)[j]))
        return false;
      // A part of a short row is soon written, and vectors hold parts of several rows.
      const bool whole = !dim.runs.empty() && region.sizes[dim.runs[0].dim] == (*base.sizes)[j];
      if (innermost && !few_launches_ && !whole && g_.symbols.Less((*base.sizes)[j], kShortRow) == true &&
          g_.symbols.LessOrEqual((*base.sizes)[j], kernel::kLongestUnrolledRow) != true) {
        return false;
      }
      all = all && whole && !absl::c_linear_search(runs, dim.runs[0].dim);
      if (!dim.runs.empty()) runs.push_back(dim.runs[0].dim);
    }
    return !all;
  }

  // With so few elements each is an instruction of its own, which knows whether it lies in a region.
  static bool IsUnrolled(const Expr& step, const Expr& size) {
    const std::optional<int64_t> s = step.Constant(), n = size.Constant();
    return s && n && *s <= kernel::kLongestUnrolledRow && *n % *s == 0;
  }

  Graph& g_;
  const BlockId block_;
  const absl::flat_hash_set<ValueId>& written_;
  const bool few_launches_;
  absl::flat_hash_map<NodeId, int> chain_;
};

}  // namespace

int OverlayRegions(Graph& g, const absl::flat_hash_set<ValueId>& written, bool few_launches) {
  return Overlayer(g, g.top(), written, few_launches).Run();
}

Pass OverlayRegionsPass() {
  return {.name = "overlay-regions",
          .description = "regions written into what a kernel makes become choices by index",
          .prerequisites = {"expand-composites"},
          .is_optional = true,
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            return OverlayRegions(g, context.Get<WrittenInputs>().values, context.Get<FuseOptions>().few_launches) > 0;
          }};
}

}  // namespace smelt
