// Writes at indices from data: in place, or of one value where a mask is set.
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
#include "smelt/fuser/expander.h"

namespace smelt {

absl::StatusOr<Expander::Step> Expander::IndexedWrite(NodeId n) {
  const std::string name = g_.node(n).op.full();
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const TensorType out = T(Out(n));
  if (!out.IsComplete()) return absl::UnimplementedError("a result of unknown type");
  if (IsComplex(*out.dtype)) return Step::kUnsupported;
  SMELT_ASSIGN_OR_RETURN(bool changed, Decompose(g_, n));  // means, and reductions that leave self out
  if (changed) return Step::kChanged;
  if (absl::StrContains(name, "index_put")) {
    std::optional<std::vector<ValueId>> list = GetListElements(g_, inputs[1]);
    if (!list) return absl::UnimplementedError("a list that is not made in place");
    for (ValueId v : *list) {
      const Type& t = g_.value(v).type;
      if (!t.IsTensor() || (t.tensor().dtype != DType::kBool && t.tensor().dtype != DType::kUInt8)) continue;
      return MaskedPut(n, *list, inputs);
    }
  }
  const ValueId self = Whole(n, inputs[0], *out.strides);
  if (self != inputs[0]) g_.SetInput(n, 0, self);
  g_.SetOp(n, OpName::Get(absl::StrCat(op::kSmeltInplacePrefix, absl::StripPrefix(name, op::kAtenNamespace))));
  return Step::kChanged;
}

absl::StatusOr<Expander::Step> Expander::MaskedPut(NodeId n, const std::vector<ValueId>& list,
                                                   const std::vector<ValueId>& inputs) {
  const TensorType self = T(inputs[0]), values = T(inputs[2]);
  ValueId chosen;
  int before = 0;  // dims in front of the mask's
  for (ValueId v : list) {
    const bool tensor = g_.value(v).type.IsTensor();
    if (tensor && chosen.valid()) return absl::UnimplementedError("a mask among other indices");
    if (tensor) chosen = v;
    before += !chosen.valid();
  }
  auto accumulate = inputs.size() > 3 ? GetConstant(g_, inputs[3]) : std::nullopt;
  const bool* add = accumulate ? std::get_if<bool>(&*accumulate) : nullptr;
  if (add == nullptr) return absl::UnimplementedError("accumulation that is decided at run time");
  const TensorType mask = T(chosen);
  // Broadcasts the values against self with the mask's dims joined: trailing dims, the joined one, leading dims.
  const int rest = self.rank() - before - mask.rank(), at = values.rank() - 1 - rest;
  if (rest < 0) return absl::InvalidArgumentError("too many indices for a tensor");
  if (at >= 0 && (*values.sizes)[at] != Expr(1))
    return absl::UnimplementedError("values chosen by a mask: their number is in the data");
  SymbolicGeometry m{*mask.dtype, *mask.sizes, *mask.strides, GeometryOf(chosen).offset};
  for (int d = 0; d < rest; ++d) {
    m.sizes.push_back(1);
    m.strides.push_back(1);
  }
  ValueId condition = Cast(n, rest > 0 ? Out(InsertView(n, chosen, m)) : chosen, DType::kBool);
  ValueId value = inputs[2];
  if (at >= 0 && mask.rank() != 1) {
    SymbolicGeometry v = GeometryOf(value);
    v.sizes.erase(v.sizes.begin() + at);
    v.strides.erase(v.strides.begin() + at);
    v.sizes.insert(v.sizes.begin() + at, mask.rank(), Expr(1));
    v.strides.insert(v.strides.begin() + at, mask.rank(), Expr(1));
    // There may be more leading dims of one element than self has.
    while (static_cast<int>(v.sizes.size()) > self.rank() && v.sizes[0] == Expr(1)) {
      v.sizes.erase(v.sizes.begin());
      v.strides.erase(v.strides.begin());
    }
    value = Out(InsertView(n, value, v));
  }
  value = Cast(n, value, *self.dtype);
  if (*add) {
    NodeId sum = g_.InsertBefore(n, OpName::Get(op::kAddTensor), {inputs[0], value, InsertConstant(g_, n, int64_t{1})},
                                 {g_.value(Out(n)).type});
    g_.SetSource(sum, source_);
    value = Out(sum);
  }
  NodeId where =
      g_.InsertBefore(n, OpName::Get(op::kWhereSelf), {condition, value, inputs[0]}, {g_.value(Out(n)).type});
  g_.SetSource(where, source_);
  ReplaceWith(n, Out(where));
  return Step::kChanged;
}

}  // namespace smelt
