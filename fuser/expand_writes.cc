#include "smelt/fuser/expand_writes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"

namespace smelt {
namespace {

// x[..., mask, ...] = one value for all elements that the mask selects: where(mask, value, x). Several values need the
// data.
absl::StatusOr<ExpansionStep> MaskedPut(Expansion& edit, NodeId n, const std::vector<ValueId>& list,
                                        const std::vector<ValueId>& inputs) {
  Graph& g = edit.graph();
  const TensorType self = edit.T(inputs[0]), values = edit.T(inputs[2]);
  ValueId chosen;
  int before = 0;  // dims in front of the mask's
  for (ValueId v : list) {
    const bool tensor = g.value(v).type.IsTensor();
    if (tensor && chosen.valid()) return absl::UnimplementedError("a mask among other indices");
    if (tensor) chosen = v;
    before += !chosen.valid();
  }
  auto accumulate = inputs.size() > 3 ? GetConstant(g, inputs[3]) : std::nullopt;
  const bool* add = accumulate ? std::get_if<bool>(&*accumulate) : nullptr;
  if (add == nullptr) return absl::UnimplementedError("accumulation that is decided at run time");
  const TensorType mask = edit.T(chosen);
  // Broadcasts the values against self with the mask's dims joined: trailing dims, the joined one, leading dims.
  const int rest = self.rank() - before - mask.rank(), at = values.rank() - 1 - rest;
  if (rest < 0) return absl::InvalidArgumentError("too many indices for a tensor");
  if (at >= 0 && (*values.sizes)[at] != Expr(1))
    return absl::UnimplementedError("values chosen by a mask: their number is in the data");
  SymbolicGeometry m{*mask.dtype, *mask.sizes, *mask.strides, edit.GeometryOf(chosen).offset};
  for (int d = 0; d < rest; ++d) {
    m.sizes.push_back(1);
    m.strides.push_back(1);
  }
  ValueId condition = edit.Cast(n, rest > 0 ? edit.Out(edit.InsertView(n, chosen, m)) : chosen, DType::kBool);
  ValueId value = inputs[2];
  if (at >= 0 && mask.rank() != 1) {
    SymbolicGeometry v = edit.GeometryOf(value);
    v.sizes.erase(v.sizes.begin() + at);
    v.strides.erase(v.strides.begin() + at);
    v.sizes.insert(v.sizes.begin() + at, mask.rank(), Expr(1));
    v.strides.insert(v.strides.begin() + at, mask.rank(), Expr(1));
    // There may be more leading dims of one element than self has.
    while (static_cast<int>(v.sizes.size()) > self.rank() && v.sizes[0] == Expr(1)) {
      v.sizes.erase(v.sizes.begin());
      v.strides.erase(v.strides.begin());
    }
    value = edit.Out(edit.InsertView(n, value, v));
  }
  value = edit.Cast(n, value, *self.dtype);
  if (*add) {
    NodeId sum = g.InsertBefore(n, OpName::Get(op::kAddTensor), {inputs[0], value, InsertConstant(g, n, int64_t{1})},
                                {g.value(edit.Out(n)).type});
    g.SetSource(sum, edit.source());
    value = edit.Out(sum);
  }
  NodeId where =
      g.InsertBefore(n, OpName::Get(op::kWhereSelf), {condition, value, inputs[0]}, {g.value(edit.Out(n)).type});
  g.SetSource(where, edit.source());
  edit.ReplaceWith(n, edit.Out(where));
  return ExpansionStep::kChanged;
}

}  // namespace

absl::StatusOr<ExpansionStep> ExpandIndexedWrite(Expansion& edit, NodeId n) {
  Graph& g = edit.graph();
  const std::string name = g.node(n).op.full();
  const std::vector<ValueId> inputs(g.node(n).inputs.begin(), g.node(n).inputs.end());
  const TensorType out = edit.T(edit.Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  if (IsComplex(*out.dtype)) return ExpansionStep::kUnsupported;
  SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g, n));  // means, and reductions that leave self out
  if (changed) return ExpansionStep::kChanged;
  if (absl::StrContains(name, "index_put")) {
    std::optional<std::vector<ValueId>> list = GetListElements(g, inputs[1]);
    if (!list) return absl::UnimplementedError("a list that is not made in place");
    for (ValueId v : *list) {
      const Type& t = g.value(v).type;
      if (!t.IsTensor() || (t.tensor().dtype != DType::kBool && t.tensor().dtype != DType::kUInt8)) continue;
      return MaskedPut(edit, n, *list, inputs);
    }
  }
  const ValueId self = edit.Whole(n, inputs[0], *out.strides);
  if (self != inputs[0]) g.SetInput(n, 0, self);
  g.SetOp(n, OpName::Get(absl::StrCat(op::kSmeltInplacePrefix, absl::StripPrefix(name, op::kAtenNamespace))));
  return ExpansionStep::kChanged;
}

}  // namespace smelt
