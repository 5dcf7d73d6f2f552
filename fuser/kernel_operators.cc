#include "smelt/fuser/kernel_operators.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {
namespace kernel {
namespace {

const absl::flat_hash_map<std::string, Special>& SpecialOps() {
  static const auto* const table = new absl::flat_hash_map<std::string, Special>{
      {"smelt::view", Special::kView},
      {"smelt::materialize", Special::kMaterialize},
      {"smelt::overlay", Special::kOverlay},
      {"aten::clone", Special::kMaterialize},
      {"aten::contiguous", Special::kMaterialize},
      {"aten::lift_fresh_copy", Special::kMaterialize},
      {"smelt::full", Special::kFill},
      {"aten::full", Special::kFill},
      {"aten::full_like", Special::kFill},
      {"aten::new_full", Special::kFill},
      {"aten::zeros", Special::kFill},
      {"aten::zeros_like", Special::kFill},
      {"aten::new_zeros", Special::kFill},
      {"aten::ones", Special::kFill},
      {"aten::ones_like", Special::kFill},
      {"aten::new_ones", Special::kFill},
      {"aten::empty", Special::kFill},
      {"aten::empty_like", Special::kFill},
      {"aten::empty_strided", Special::kFill},
      {"aten::empty_permuted", Special::kFill},
      {"aten::new_empty", Special::kFill},
      {"aten::new_empty_strided", Special::kFill},
      {"aten::scalar_tensor", Special::kFill},
      {"aten::arange", Special::kArange},
      {"aten::linspace", Special::kLinspace},
      {"aten::eye", Special::kEye},
      {"aten::tril", Special::kTriangle},
      {"aten::triu", Special::kTriangle},
      {"aten::constant_pad_nd", Special::kConstantPad},
      {"aten::reflection_pad1d", Special::kReflectionPad},
      {"aten::reflection_pad2d", Special::kReflectionPad},
      {"aten::reflection_pad3d", Special::kReflectionPad},
      {"aten::replication_pad1d", Special::kReplicationPad},
      {"aten::replication_pad2d", Special::kReplicationPad},
      {"aten::replication_pad3d", Special::kReplicationPad},
      {"aten::_pad_circular", Special::kCircularPad},
      {"aten::flip", Special::kFlip},
      {"aten::roll", Special::kRoll},
      {"aten::repeat", Special::kRepeat},
      {"aten::repeat_interleave", Special::kRepeatInterleave},
      {"aten::gather", Special::kGather},
      {"aten::index_select", Special::kIndexSelect},
      {"aten::embedding", Special::kEmbedding},
      {"aten::index", Special::kIndex},
      {"aten::_unsafe_index", Special::kIndex},
      {"aten::take", Special::kTake},
      {"aten::one_hot", Special::kOneHot},
      {"aten::cat", Special::kCat},
      {"aten::stack", Special::kStack},
      {"aten::max_pool1d", Special::kMaxPool},
      {"aten::max_pool1d_with_indices", Special::kMaxPool},
      {"aten::max_pool2d", Special::kMaxPool},
      {"aten::max_pool2d_with_indices", Special::kMaxPool},
      {"aten::max_pool3d", Special::kMaxPool},
      {"aten::max_pool3d_with_indices", Special::kMaxPool},
      {"aten::avg_pool1d", Special::kAvgPool},
      {"aten::avg_pool2d", Special::kAvgPool},
      {"aten::avg_pool3d", Special::kAvgPool},
      {"aten::adaptive_max_pool1d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_max_pool2d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_max_pool3d", Special::kAdaptiveMaxPool},
      {"aten::adaptive_avg_pool1d", Special::kAdaptiveAvgPool},
      {"aten::adaptive_avg_pool2d", Special::kAdaptiveAvgPool},
      {"aten::adaptive_avg_pool3d", Special::kAdaptiveAvgPool},
      {"aten::_adaptive_avg_pool2d", Special::kAdaptiveAvgPool},
      {"aten::_adaptive_avg_pool3d", Special::kAdaptiveAvgPool},
      {"aten::upsample_nearest1d", Special::kUpsampleNearest},
      {"aten::upsample_nearest2d", Special::kUpsampleNearest},
      {"aten::upsample_nearest3d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact1d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact2d", Special::kUpsampleNearest},
      {"aten::_upsample_nearest_exact3d", Special::kUpsampleNearest},
      {"aten::upsample_linear1d", Special::kUpsampleLinear},
      {"aten::upsample_bilinear2d", Special::kUpsampleLinear},
      {"aten::upsample_trilinear3d", Special::kUpsampleLinear},
      {"aten::im2col", Special::kIm2Col},
      {"aten::col2im", Special::kCol2Im},
      {"aten::masked_scatter", Special::kMaskedScatter},
  };
  return *table;
}

const absl::flat_hash_set<std::string>& InplaceOps() {
  static const auto* const table = new absl::flat_hash_set<std::string>{
      "smelt::inplace_scatter",         "smelt::inplace_scatter_add", "smelt::inplace_scatter_reduce",
      "smelt::inplace_index_add",       "smelt::inplace_index_copy",  "smelt::inplace_index_fill",
      "smelt::inplace_index_put",       "smelt::inplace_put",         "smelt::inplace__unsafe_index_put",
      "smelt::inplace__index_put_impl",
  };
  return *table;
}

}  // namespace

std::optional<Special> SpecialOf(const Node& n) {
  auto it = SpecialOps().find(n.op.name());
  if (it == SpecialOps().end()) return std::nullopt;
  return it->second;
}

bool IsInplaceOp(const Node& n) { return InplaceOps().contains(n.op.name()); }

bool HasComplex(const Graph& g, NodeId n) {
  auto complex = [&](ValueId v) {
    const Type& t = g.value(v).type;
    return t.IsTensor() && t.tensor().dtype && IsComplex(*t.tensor().dtype);
  };
  // A region write neither reads nor writes its contents as numbers.
  if (g.node(n).op == "smelt::write_region") return complex(g.node(n).inputs[1]);
  for (ValueId v : g.node(n).inputs) {
    if (complex(v)) return true;
  }
  for (ValueId v : g.node(n).outputs) {
    if (complex(v)) return true;
  }
  return false;
}

size_t SpatialRank(OpName op) {
  for (size_t k = 1; k <= 3; ++k) {
    if (absl::StrContains(op.name(), absl::StrCat(k, "d"))) return k;
  }
  return 2;
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
  const size_t spatial = kernel::SpatialRank(node.op);
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
  if (node.op == "smelt::FusionGroup") return true;
  if (node.op == "smelt::view" || node.outputs.empty() || kernel::HasComplex(g, n)) return false;
  for (ValueId v : node.outputs) {
    if (!g.value(v).type.IsTensor()) return false;
  }
  if (node.op == "smelt::write_region" || kernel::IsInplaceOp(node)) return true;
  if (const std::optional<kernel::Special> special = kernel::SpecialOf(node)) {
    switch (*special) {
      case kernel::Special::kIndex: {
        // A mask chooses a number of elements that only the data decide.
        auto list = node.inputs.size() > 1 ? GetListElements(g, node.inputs[1]) : std::nullopt;
        if (!list) return false;
        for (ValueId v : *list) {
          const Type& t = g.value(v).type;
          if (t.IsTensor() && (t.tensor().dtype == DType::kBool || t.tensor().dtype == DType::kUInt8)) return false;
        }
        return true;
      }
      case kernel::Special::kRepeatInterleave:
        return node.op.overload() == "self_int";
      case kernel::Special::kLinspace:
        return node.op.overload().empty();
      case kernel::Special::kCircularPad: {
        // A region write that removes elements does so first.
        const auto call = OpCall::Of(g, n);
        if (!call.ok()) return false;
        const auto pad = call->GetExprs("pad");
        return pad.ok() &&
               std::all_of(pad->begin(), pad->end(), [](const Expr& p) { return p.Constant().value_or(-1) >= 0; });
      }
      case kernel::Special::kUpsampleLinear:
        return g.value(node.outputs[0]).type.tensor().dtype != DType::kUInt8;
      case kernel::Special::kAdaptiveAvgPool:
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
