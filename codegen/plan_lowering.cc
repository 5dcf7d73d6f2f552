#include "smelt/codegen/plan_lowering.h"

#include <vector>

#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/lowered_groups.h"

namespace smelt {

bool PlanLowering::ReadsSameIndexOnly(NodeId n, ValueId source, ValueId target) {
  if (!IsKernelNode(g_, n)) return false;
  // A place written at one index must not be read at another.
  const SymbolicGeometry written = DefaultLayout(g_, target);
  if (Region::Strided(0, written.sizes, written.strides, ItemSize(written.dtype)).OverlapsItself(g_.symbols) != false)
    return false;
  auto lowered = Lower(n);
  if (!lowered.ok()) return false;
  const std::vector<bool> irregular = IrregularParams(lowered->spec);
  for (size_t i = 0; i < lowered->params.size(); ++i) {
    const LoweredKernel::Param& read = lowered->params[i];
    if (read.is_output || StorageOf(g_, read.value) != source) continue;
    for (size_t j = 0; j < lowered->params.size(); ++j) {
      const LoweredKernel::Param& write = lowered->params[j];
      if (!write.is_output || write.value != target) continue;
      if (irregular[i] || irregular[j] || !ReadsSameIndex(*lowered, i, j) || !ReadsFirst(lowered->spec, i, j))
        return false;
    }
  }
  return true;
}

bool PlanLowering::ReadsSameIndex(const LoweredKernel& k, size_t read, size_t write) const {
  const LoweredKernel::Param &r = k.params[read], &w = k.params[write];
  const int item = ItemSize(k.spec.params[write].dtype);
  if (ItemSize(k.spec.params[read].dtype) != item) return false;
  if (r.strides == w.strides && r.offset == w.offset) return true;
  return Compare(Region::Strided(r.offset, k.sizes, r.strides, item),
                 Region::Strided(w.offset, k.sizes, w.strides, item), g_.symbols) == Overlap::kDisjoint;
}

bool PlanLowering::ReadsFirst(const KernelSpec& spec, size_t read, size_t write) {
  if (spec.sequential) return false;
  bool written = false;
  for (const KernelPhase& phase : spec.phases) {
    for (int i : phase.instrs) {
      const KernelInstr& in = spec.instrs[i];
      if (in.op == KernelOp::kLoad && in.param == static_cast<int>(read) && written) return false;
      written = written || (in.op == KernelOp::kStore && in.param == static_cast<int>(write));
    }
  }
  return true;
}

absl::StatusOr<LoweredKernel> PlanLowering::Lower(NodeId n) {
  const auto layout = [&](ValueId v) { return slots_.LayoutOf(v); };
  return options_.lowered == nullptr ? LowerGroup(g_, n, layout) : options_.lowered->Lower(g_, n, layout);
}

std::vector<bool> PlanLowering::IrregularParams(const KernelSpec& spec) {
  std::vector<bool> out(spec.params.size(), false);
  for (const KernelInstr& i : spec.instrs) {
    if ((i.op == KernelOp::kLoad || i.op == KernelOp::kStore) && (i.has_offset || i.has_guard)) out[i.param] = true;
  }
  return out;
}

}  // namespace smelt
