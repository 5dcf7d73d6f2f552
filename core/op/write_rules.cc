#include "smelt/core/op/write_rules.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/op_info.h"

namespace smelt {

OperandSharing OperandSharingOf(OpName writes, OpName functional) {
  // With and without the underscore.
  static const auto* const kApart = new absl::flat_hash_set<std::string>{
      "aten::index_put", "aten::_index_put_impl", "aten::scatter",    "aten::scatter_add",  "aten::scatter_reduce",
      "aten::index_add", "aten::index_copy",      "aten::index_fill", "aten::index_reduce", "aten::put",
      "aten::addr",      "aten::gather",          "aten::cat",        "aten::index_select", "aten::take",
      "aten::addmm",     "aten::addmv",           "aten::addbmm",     "aten::baddbmm",      "aten::masked_scatter"};
  const std::string name(absl::StripSuffix(writes.name(), "_"));
  if (kApart->contains(name)) return OperandSharing::kNone;
  if (writes.full() == "aten::copy_") return OperandSharing::kNotPartly;
  return functional && GetOpInfo(functional).kind == OpKind::kPointwise ? OperandSharing::kNotPartly
                                                                        : OperandSharing::kAny;
}

bool WritesExpanded(OpName writes) { return writes.name() == "aten::zero_" || writes.full() == "aten::fill_.Scalar"; }

}  // namespace smelt
