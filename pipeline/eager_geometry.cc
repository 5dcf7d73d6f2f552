#include "smelt/pipeline/eager_geometry.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"

namespace smelt {

bool EagerGeometry::MayHaveCopiedStorage(ValueId v) const {
  while (true) {
    const NodeId def = g().value(v).def;
    const Node& node = g().node(def);
    if (!g().IsParam(def) && CopiesStorage(node.op)) return true;
    const OpKind kind = g().IsParam(def) ? OpKind::kOther : GetOpInfo(node.op).kind;
    const bool passes = kind == OpKind::kView || kind == OpKind::kInplaceView || kind == OpKind::kInplace;
    if (passes && !node.inputs.empty()) {
      v = node.inputs[0];
      continue;
    }
    // A block or a list passes it on: it may be any value that the graph has.
    if (g().IsParam(def) ? node.parent == g().top() : node.blocks.empty() && kind != OpKind::kOther) return false;
    const std::vector<NodeId> all = g().AllNodes();
    return std::any_of(all.begin(), all.end(), [&](NodeId n) { return CopiesStorage(g().node(n).op); });
  }
}

absl::Status EagerGeometry::EmitGeometry(NodeId n) {
  const Node& node = g().node(n);
  const std::string& overload = node.op.overload();
  if (node.op.name() == op::kSetInPlace && !overload.empty() && overload != "source_Tensor" &&
      overload != "source_Tensor_storage_offset") {
    return absl::UnimplementedError("set_ from a storage");
  }
  if (node.op.name() != op::kSetInPlace && MayHaveCopiedStorage(node.inputs[0]))
    return absl::UnimplementedError("resize_ of a copy of its operand's whole storage");
  fb::EagerInstrT& i = w_.Emit(node.op.name() == op::kSetInPlace ? fb::EagerKind::Set : fb::EagerKind::Resize, n);
  i.op = node.op.name();
  w_.Inputs(i, n);
  w_.Same(n, 0, node.inputs[0]);
  return absl::OkStatus();
}

absl::Status EagerGeometry::EmitCopy(NodeId n) {
  const ValueId to = g().node(n).inputs[0], from = g().node(n).inputs[1];
  const std::optional<DType> a = DTypeOf(g(), to), b = DTypeOf(g(), from);
  if (!a || !b) return absl::UnimplementedError("a copy of unknown dtypes");
  int call = -1;
  if (*a != *b) {
    SMELT_ASSIGN_OR_RETURN(call, calls_.Conversion(from, *a));
  }
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Copy, n);
  i.inputs = {w_.Number(to), w_.Number(from)};
  i.call = call;
  if (call >= 0) i.text = calls_.function(call);
  w_.Same(n, 0, to);
  return absl::OkStatus();
}

absl::Status EagerGeometry::EmitConversion(NodeId n) {
  const Node& node = g().node(n);
  const ValueId self = node.inputs[0], out = node.outputs[0];
  const std::optional<DType> from = DTypeOf(g(), self), to = DTypeOf(g(), out);
  if (!from || !to) return absl::UnimplementedError("a conversion of unknown dtypes");
  const FunctionSchema* schema = FindSchema(node.op);
  auto constant = [&](absl::string_view name) -> std::optional<ConstantValue> {
    const int at = schema == nullptr ? -1 : schema->FindArgument(name);
    return at < 0 ? std::nullopt : GetConstant(g(), node.inputs[at]);
  };
  bool copy = node.op.name() == op::kPrivateToCopy || node.op.name() == "prims::convert_element_type";
  if (auto c = constant("copy"); c && std::holds_alternative<bool>(*c)) copy = copy || std::get<bool>(*c);
  int64_t format = 1;  // preserve
  if (auto c = constant("memory_format"); c && std::holds_alternative<int64_t>(*c)) format = std::get<int64_t>(*c);
  if (*from == *to) {
    // to returns the tensor itself if its strides suggest the format; clone never does.
    if (!copy && format == 1) {
      w_.Same(n, 0, self);
      return absl::OkStatus();
    }
    EmitLayout(n, copy ? op::kClone : op::kTo, w_.Number(self), format, w_.Number(out));
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(int call, calls_.Conversion(self, *to));
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Compute, n);
  i.call = call;
  i.text = calls_.function(call);
  i.flat = true;
  i.inputs = i.layout_inputs = {w_.Number(self)};
  const size_t result[] = {0};
  if (format == 1) SetLayout(w_, i, DescribeResultLayout(g(), node.op, node.inputs, result));
  i.outputs = {w_.Number(out)};
  i.targets = {-1};
  if (format > 1) {
    i.outputs = {w_.Fresh()};
    EmitLayout(n, op::kContiguous, i.outputs[0], format, w_.Number(out));
  }
  return absl::OkStatus();
}

void EagerGeometry::EmitLayout(NodeId n, absl::string_view op, int from, int64_t format, int to) {
  const int code = w_.Fresh();
  fb::EagerInstrT& c = w_.Emit(fb::EagerKind::Int, n);
  c.ints = {format};
  c.outputs = {code};
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::View, n);
  i.op = std::string(op);
  i.inputs = {from, code};
  i.outputs = {to};
}

void SetLayout(EagerProgramWriter& writer, fb::EagerInstrT& i, const ResultLayout& layout) {
  if (layout.rule.empty()) return;
  i.layout = fb::EagerLayout::Rule;
  i.layout_rule = layout.rule;
  i.layout_inputs.clear();
  for (ValueId v : layout.operands) i.layout_inputs.push_back(writer.Number(v));
}

}  // namespace smelt
