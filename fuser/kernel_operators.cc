#include "smelt/fuser/kernel_operators.h"

#include <algorithm>
#include <string>
#include <vector>

#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace kernel {

std::optional<OpFamily> SpecialOf(const Node& n) {
  const OpFamily family = GetOpTraits(n.op).family;
  switch (family) {
    case OpFamily::kOther:
    case OpFamily::kConversion:
    case OpFamily::kIndexedWrite:
    case OpFamily::kInPlaceWrite:
    case OpFamily::kViewScatter:
      return std::nullopt;
    default:
      return family;
  }
}

bool IsInplaceOp(const Node& n) { return GetOpTraits(n.op).family == OpFamily::kInPlaceWrite; }

bool HasComplex(const Graph& g, NodeId n) {
  auto complex = [&](ValueId v) {
    const Type& t = g.value(v).type;
    return t.IsTensor() && t.tensor().dtype && IsComplex(*t.tensor().dtype);
  };
  // A region write neither reads nor writes its contents as numbers.
  if (g.node(n).op == op::kSmeltWriteRegion) return complex(g.node(n).inputs[1]);
  for (ValueId v : g.node(n).inputs) {
    if (complex(v)) return true;
  }
  for (ValueId v : g.node(n).outputs) {
    if (complex(v)) return true;
  }
  return false;
}

}  // namespace kernel

namespace {

// Returns whether the windows of an adaptive_avg_pool2d or 3d with known sizes overlap along the last dim and another,
// or hold many elements. Such windows are added up dim by dim, so that all windows with the same sum along one dim
// share it.
bool WindowsOverlap(const Graph& g, const Node& node) {
  constexpr int64_t kMany = 16;
  const TensorType &from = g.value(node.inputs[0]).type.tensor(), &to = g.value(node.outputs[0]).type.tensor();
  if (!from.sizes || !to.sizes) return false;
  const std::vector<Expr>&in = *from.sizes, &out = *to.sizes;
  const size_t spatial = static_cast<size_t>(GetOpTraits(node.op).spatial_dims);
  int64_t elements = 1;
  bool before = false, last = false;
  for (size_t d = in.size() - spatial; d < in.size(); ++d) {
    if (!in[d].IsConstant() || !out[d].IsConstant() || *out[d].Constant() == 0) return false;
    before = before || last;
    last = *in[d].Constant() % *out[d].Constant() != 0;
    elements *= std::min(*in[d].Constant() / *out[d].Constant() + (last ? 2 : 0), kMany + 1);
  }
  return spatial > 1 && last && (before || elements > kMany);
}

}  // namespace

bool IsKernelNode(const Graph& g, NodeId n) {
  const Node& node = g.node(n);
  if (node.op == op::kSmeltFusionGroup) return true;
  if (node.op == op::kSmeltView || node.outputs.empty() || kernel::HasComplex(g, n)) return false;
  for (ValueId v : node.outputs) {
    if (!g.value(v).type.IsTensor()) return false;
  }
  if (node.op == op::kSmeltWriteRegion || kernel::IsInplaceOp(node)) return true;
  if (const std::optional<OpFamily> special = kernel::SpecialOf(node)) {
    switch (*special) {
      case OpFamily::kIndex: {
        // A mask chooses a number of elements that only the data decide.
        auto list = node.inputs.size() > 1 ? GetListElements(g, node.inputs[1]) : std::nullopt;
        if (!list) return false;
        for (ValueId v : *list) {
          const Type& t = g.value(v).type;
          if (t.IsTensor() && (t.tensor().dtype == DType::kBool || t.tensor().dtype == DType::kUInt8)) return false;
        }
        return true;
      }
      case OpFamily::kRepeatInterleave:
        return node.op.overload() == "self_int";
      case OpFamily::kLinspace:
        return node.op.overload().empty();
      case OpFamily::kCircularPad: {
        // A region write that removes elements does so first.
        const auto call = OpCall::Of(g, n);
        if (!call.ok()) return false;
        const auto pad = call->GetExprs("pad");
        return pad.ok() &&
               std::all_of(pad->begin(), pad->end(), [](const Expr& p) { return p.Constant().value_or(-1) >= 0; });
      }
      case OpFamily::kUpsampleLinear:
        return g.value(node.outputs[0]).type.tensor().dtype != DType::kUInt8;
      case OpFamily::kAdaptiveAvgPool:
        return !WindowsOverlap(g, node);
      default:
        return true;
    }
  }
  switch (GetOpInfo(node.op).kind) {
    case OpKind::kPointwise:
    case OpKind::kReduction:
      return true;
    default:
      return false;
  }
}

}  // namespace smelt
