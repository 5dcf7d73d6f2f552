#include "smelt/functionalize/write_operators.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/operators.h"
#include "smelt/functionalize/sharing_checks.h"
#include "smelt/functionalize/view_operators.h"
#include "smelt/script/known_condition.h"

namespace smelt {
namespace {

using ValueList = absl::InlinedVector<ValueId, 4>;

// Returns whether results have the same types with one operand as with the other.
bool Alike(const Graph& g, ValueId a, const Type& type_of_a, ValueId b) {
  const Value& y = g.value(b);
  if (type_of_a != y.type) return false;
  if (a == b || y.type.IsTensor() || y.type.kind() == TypeKind::kNone) return true;
  if (!g.IsLive(a)) return false;
  const std::optional<ConstantValue> p = GetConstant(g, a), q = GetConstant(g, b);
  if (!p || !q || p->index() != q->index()) return false;
  if (const auto* i = std::get_if<int64_t>(&*p)) return *i == std::get<int64_t>(*q);
  if (const auto* d = std::get_if<double>(&*p)) return *d == std::get<double>(*q);
  if (const auto* t = std::get_if<bool>(&*p)) return *t == std::get<bool>(*q);
  return false;
}

// Makes the functional counterpart of `n`, before it. Its results have the types of the previous counterpart's results if
// the operands have equal types. If nothing uses the results of `n`, `n` itself becomes the counterpart.
absl::StatusOr<NodeId> MakePure(ProgramWalk& walk, NodeId n, ProgramWalk::Operator& op,
                                absl::Span<const ValueId> operands, absl::Span<const TensorId> written) {
  ProgramWalk::Inferred& last = op.inferred;
  bool same = last.operands.size() == operands.size() && !last.types.empty();
  for (size_t i = 0; same && i < operands.size(); ++i) {
    same = Alike(walk.g, last.operands[i], last.operand_types[i], operands[i]);
  }
  if (!same) {
    last.types.clear();
    for (TensorId t : written) {
      last.types.push_back(t >= 0 ? Type::Tensor(walk.tensors[t].geometry.dtype, walk.tensors[t].geometry.sizes)
                                  : Type::Tensor());
    }
  }
  NodeId f = n;
  const Node& node = walk.g.node(n);
  if (operands.size() == node.inputs.size() && written.size() == 1 && node.outputs.size() == 1 &&
      walk.g.value(node.outputs[0]).uses.empty() && node.attributes.empty()) {
    walk.g.SetOp(n, op.counterpart->op);
    for (uint32_t i = 0; i < operands.size(); ++i) {
      const ValueId before = node.inputs[i];
      if (before == operands[i]) continue;
      walk.g.SetInput(n, i, operands[i]);
      EraseUnusedView(walk, before);
    }
    walk.g.SetType(node.outputs[0], last.types[0]);
    walk.g.SetName(node.outputs[0], "");
  } else {
    f = walk.g.InsertBefore(n, op.counterpart->op, operands, last.types);
    walk.g.SetSource(f, walk.at.source);
  }
  if (same) return f;
  last = ProgramWalk::Inferred();
  SMELT_RETURN_IF_ERROR(InferNode(walk.g, f));
  const absl::Span<const ValueId> results = walk.g.node(f).outputs;
  // Numbers among the results may be known by more than their types.
  for (ValueId v : results) {
    if (!walk.g.value(v).type.IsTensor()) return f;
  }
  for (ValueId v : results) last.types.push_back(walk.g.value(v).type);
  for (ValueId v : operands) {
    last.operands.push_back(v);
    last.operand_types.push_back(walk.g.value(v).type);
  }
  return f;
}

// Returns whether PyTorch computes on a copy of a lazily conjugated or negated operand, so that its memory is not
// compared. Not for copy_, which reads and writes such tensors themselves.
bool IsMaterialized(const ProgramWalk& walk, OpName op, TensorId t) {
  return walk.tensors[t].negated || (walk.tensors[t].conjugated && !GetOpTraits(op).reads_conjugates);
}

bool IsMaterialized(const ProgramWalk& walk, OpName op, ValueId v) {
  const TensorId* t = walk.tensor_of.Find(v);
  return t != nullptr && IsMaterialized(walk, op, *t);
}

absl::Status ProcessCopy(ProgramWalk& walk, NodeId n) {
  const absl::InlinedVector<ValueId, 4> inputs(walk.g.node(n).inputs.begin(), walk.g.node(n).inputs.end());
  SMELT_ASSIGN_OR_RETURN(TensorId self, walk.TensorOf(inputs[0]));
  SMELT_ASSIGN_OR_RETURN(TensorId source, walk.TensorOf(inputs[1]));
  // A tensor copied to itself, under whatever name, PyTorch leaves alone, even where it could not be written.
  const TensorState &to = walk.tensors[self], &from = walk.tensors[source];
  const bool same = to.memory == from.memory && to.home == from.home && to.conjugated == from.conjugated &&
                    to.negated == from.negated && SameGeometry(to.geometry, from.geometry) &&
                    to.geometry.strides == from.geometry.strides;
  if (!same) {
    SMELT_RETURN_IF_ERROR(CheckNoConstant(walk, self));
    SMELT_RETURN_IF_ERROR(CheckSharing(walk, self, inputs[1], OperandSharing::kNotPartly, n));
    SMELT_RETURN_IF_ERROR(WriteTensor(walk, self, ReadTensor(walk, source, n), n));
  }
  const absl::Span<const ValueId> outputs = walk.g.node(n).outputs;
  if (outputs.empty() || walk.g.value(outputs[0]).uses.empty()) {
    walk.g.Erase(n);
    for (ValueId v : inputs) EraseUnusedView(walk, v);
  } else {
    walk.tensor_of[outputs[0]] = self;
  }
  return absl::OkStatus();
}

// Returns the counterpart's operands, as they are before the write.
absl::StatusOr<ValueList> ReadOperands(ProgramWalk& walk, NodeId n, const FunctionalCounterpart& counterpart,
                                       absl::Span<const ValueId> inputs) {
  ValueList args;
  for (int k : counterpart.arguments) {
    if (k == FunctionalCounterpart::kDTypeOfWritten) {
      SMELT_ASSIGN_OR_RETURN(TensorId t, walk.TensorOf(inputs[counterpart.results[0].argument]));
      args.push_back(InsertConstant(walk.g, n, static_cast<int64_t>(ScalarTypeOf(walk.tensors[t].geometry.dtype))));
      continue;
    }
    if (k < 0) {
      args.push_back(InsertConstant(walk.g, n, std::monostate()));
      continue;
    }
    ValueId v = inputs[k];
    if (const TensorId* t = walk.tensor_of.Find(v)) {
      v = ReadTensor(walk, *t, n);
    } else if (IsTensorList(walk.g.value(v).type)) {
      SMELT_ASSIGN_OR_RETURN(v, ReadTensorList(walk, v, n));
    }
    args.push_back(v);
  }
  return args;
}

// Returns the treatment of a write of this operator to several elements at the same address.
absl::StatusOr<SharedPlaces> SharedPlacesOf(const ProgramWalk& walk, OpName op, absl::Span<const ValueId> inputs,
                                            absl::Span<const TensorId> written) {
  if (written.size() != 1 || written[0] < 0 || !FillsSomeElements(op, walk.g, inputs))
    return WritesExpanded(op) ? SharedPlaces::kOneValue : SharedPlaces::kRefused;
  const SymbolicGeometry& to = walk.tensors[written[0]].geometry;
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    if (to.strides[d] == Expr(0) && walk.g.symbols.Less(Expr(1), to.sizes[d]) == true)
      return absl::UnimplementedError("one value written to some elements of expanded memory");
  }
  return SharedPlaces::kInOrder;
}

// Checks that result i can be written to the tensor: its dtype, its strides and, after the tensor has been resized if it
// may be, its sizes.
absl::Status FitWritten(ProgramWalk& walk, OpName op, const FunctionalCounterpart& counterpart,
                        absl::Span<const ValueId> inputs, size_t i, TensorId written, ValueId result, NodeId anchor) {
  const TensorType& type = walk.g.value(result).type.tensor();
  const std::string refused =
      type.dtype ? RefusedCast(counterpart.op, *type.dtype, walk.tensors[written].geometry.dtype) : "";
  if (!refused.empty()) return absl::FailedPreconditionError(refused);
  if (counterpart.results[i].may_resize) {
    if (!type.IsComplete())
      return absl::UnimplementedError("a result whose sizes are not known before the call, given to a tensor");
    const std::vector<Expr> sizes = *type.sizes;
    if (counterpart.fills && walk.tensors[written].geometry.sizes.size() != sizes.size())
      return absl::UnimplementedError("a range into a tensor of other dims");
    const bool resizes = walk.tensors[written].geometry.sizes != sizes;
    for (size_t k = 0; k < inputs.size() && resizes; ++k) {
      const TensorId* read = walk.tensor_of.Find(inputs[k]);
      if (read == nullptr || static_cast<int>(k) == counterpart.results[i].argument) continue;
      const TensorState &from = walk.tensors[*read], &to = walk.tensors[written];
      if (from.memory != to.memory || from.home != to.home || !SameGeometry(from.geometry, to.geometry)) continue;
      if (GetOpInfo(counterpart.op).kind == OpKind::kPointwise)
        return absl::FailedPreconditionError("output with the shape of an operand doesn't match the broadcast shape");
      if (!ComputesBeforeItResizes(op)) return absl::UnimplementedError(kResizesItsOperand);
    }
    const std::vector<Expr> strides = ResizesContiguously(op) ? ContiguousStrides(sizes) : *type.strides;
    SMELT_RETURN_IF_ERROR(ResizeTensor(walk, written, sizes, strides, anchor));
  }
  if (NeedsContiguousOut(op)) {
    const SymbolicGeometry& to = walk.tensors[written].geometry;
    if (to.strides != ContiguousStrides(to.sizes)) return absl::UnimplementedError(kNeedsContiguousOut);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProcessWrite(ProgramWalk& walk, NodeId n, ProgramWalk::Operator& op) {
  ++walk.result.mutations_removed;
  const FunctionSchema& schema = *op.schema;
  if (op.counterpart == nullptr && schema.op.name() == op::kCopyInPlace) return ProcessCopy(walk, n);
  if (op.counterpart == nullptr) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart found, FindFunctionalCounterpart(schema));
    op.counterpart = std::make_unique<FunctionalCounterpart>(std::move(found));
  }
  const FunctionalCounterpart& counterpart = *op.counterpart;
  const absl::InlinedVector<ValueId, 4> inputs(walk.g.node(n).inputs.begin(), walk.g.node(n).inputs.end());
  SMELT_ASSIGN_OR_RETURN(ValueList args, ReadOperands(walk, n, counterpart, inputs));
  absl::InlinedVector<TensorId, 2> written;
  for (const FunctionalCounterpart::Result& r : counterpart.results) {
    if (r.argument < 0) {
      written.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(TensorId t, walk.TensorOf(inputs[r.argument]));
    written.push_back(t);
  }
  const DType dtype = written[0] < 0 ? DType::kFloat32 : walk.tensors[written[0]].geometry.dtype;
  for (size_t i = 1; i < args.size() && IsHalf(dtype); ++i) {
    if (const std::optional<double> given = KnownNumber(walk.g, args[i])) {
      const double taken = NumberBeside(schema.op, dtype, *given);
      if (taken != *given) args[i] = InsertConstant(walk.g, n, taken);
    }
  }
  for (size_t r = 0; r < written.size() && !counterpart.sharing.empty(); ++r) {
    if (written[r] < 0) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OperandSharing rule = counterpart.sharing[i];
      if (IsMaterialized(walk, schema.op, written[r]) || IsMaterialized(walk, schema.op, inputs[i])) continue;
      if (rule != OperandSharing::kAny && static_cast<int>(i) != counterpart.results[r].argument)
        SMELT_RETURN_IF_ERROR(CheckSharing(walk, written[r], inputs[i], rule, n));
    }
  }
  SMELT_ASSIGN_OR_RETURN(const SharedPlaces shared, SharedPlacesOf(walk, schema.op, inputs, written));
  // The old node returned the written tensors, or the results that are not written.
  const absl::InlinedVector<ValueId, 2> outputs(walk.g.node(n).outputs.begin(), walk.g.node(n).outputs.end());
  SMELT_ASSIGN_OR_RETURN(const NodeId f, MakePure(walk, n, op, args, written));
  const bool rewritten = f == n;
  if (rewritten) {
    // The following code comes after it.
    const Node& node = walk.g.node(n);
    n = node.next.valid() ? node.next : walk.g.block(node.parent).return_node;
  }
  const absl::InlinedVector<ValueId, 2> results(walk.g.node(f).outputs.begin(), walk.g.node(f).outputs.end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (written[i] < 0) {
      walk.BindFresh(results[i]);
      continue;
    }
    walk.own[results[i]] = true;
    SMELT_RETURN_IF_ERROR(FitWritten(walk, schema.op, counterpart, inputs, i, written[i], results[i], n));
    SMELT_RETURN_IF_ERROR(CheckNoConstant(walk, written[i]));
    SMELT_RETURN_IF_ERROR(WriteTensor(walk, written[i], results[i], n, shared));
  }
  for (size_t i = 0; i < outputs.size() && !rewritten; ++i) {
    if (!walk.g.value(outputs[i]).type.IsTensor()) continue;
    const int r = counterpart.result_of_output[i];
    walk.tensor_of[outputs[i]] = written[r] >= 0 ? written[r] : *walk.tensor_of.Find(results[r]);
  }
  return absl::OkStatus();
}

}  // namespace smelt
