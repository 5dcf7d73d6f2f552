// Operators that write into tensors, as their functional counterparts.
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
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/script/known_condition.h"

namespace smelt {
namespace {

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

}  // namespace

absl::StatusOr<NodeId> Functionalizer::MakePure(NodeId n, Operator& op, absl::Span<const ValueId> operands,
                                                absl::Span<const TensorId> written) {
  Inferred& last = op.inferred;
  bool same = last.operands.size() == operands.size() && !last.types.empty();
  for (size_t i = 0; same && i < operands.size(); ++i) {
    same = Alike(g_, last.operands[i], last.operand_types[i], operands[i]);
  }
  if (!same) {
    last.types.clear();
    for (TensorId t : written) {
      last.types.push_back(t >= 0 ? Type::Tensor(tensors_[t].geometry.dtype, tensors_[t].geometry.sizes)
                                  : Type::Tensor());
    }
  }
  NodeId f = n;
  const Node& node = g_.node(n);
  if (operands.size() == node.inputs.size() && written.size() == 1 && node.outputs.size() == 1 &&
      g_.value(node.outputs[0]).uses.empty() && node.attributes.empty()) {
    g_.SetOp(n, op.counterpart->op);
    for (uint32_t i = 0; i < operands.size(); ++i) {
      const ValueId before = node.inputs[i];
      if (before == operands[i]) continue;
      g_.SetInput(n, i, operands[i]);
      EraseUnusedView(before);
    }
    g_.SetType(node.outputs[0], last.types[0]);
    g_.SetName(node.outputs[0], "");
  } else {
    f = g_.InsertBefore(n, op.counterpart->op, operands, last.types);
    g_.SetSource(f, at_.source);
  }
  if (same) return f;
  last = Inferred();
  SMELT_RETURN_IF_ERROR(InferNode(g_, f));
  const absl::Span<const ValueId> results = g_.node(f).outputs;
  // Numbers among the results may be known by more than their types.
  for (ValueId v : results) {
    if (!g_.value(v).type.IsTensor()) return f;
  }
  for (ValueId v : results) last.types.push_back(g_.value(v).type);
  for (ValueId v : operands) {
    last.operands.push_back(v);
    last.operand_types.push_back(g_.value(v).type);
  }
  return f;
}

bool Functionalizer::IsMaterialized(OpName op, TensorId t) const {
  return tensors_[t].negated || (tensors_[t].conjugated && !GetOpTraits(op).reads_conjugates);
}

bool Functionalizer::IsMaterialized(OpName op, ValueId v) {
  const TensorId* t = tensor_of_.Find(v);
  return t != nullptr && IsMaterialized(op, *t);
}

absl::Status Functionalizer::ProcessCopy(NodeId n) {
  const absl::InlinedVector<ValueId, 4> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(inputs[0]));
  SMELT_ASSIGN_OR_RETURN(TensorId source, TensorOf(inputs[1]));
  // A tensor copied to itself, under whatever name, PyTorch leaves alone, even where it could not be written.
  const TensorState &to = tensors_[self], &from = tensors_[source];
  const bool same = to.memory == from.memory && to.home == from.home && to.conjugated == from.conjugated &&
                    to.negated == from.negated && SameGeometry(to.geometry, from.geometry) &&
                    to.geometry.strides == from.geometry.strides;
  if (!same) {
    SMELT_RETURN_IF_ERROR(CheckNoConstant(self));
    SMELT_RETURN_IF_ERROR(CheckSharing(self, inputs[1], OperandSharing::kNotPartly, n));
    SMELT_RETURN_IF_ERROR(Write(self, Read(source, n), n));
  }
  const absl::Span<const ValueId> outputs = g_.node(n).outputs;
  if (outputs.empty() || g_.value(outputs[0]).uses.empty()) {
    g_.Erase(n);
    for (ValueId v : inputs) EraseUnusedView(v);
  } else {
    tensor_of_[outputs[0]] = self;
  }
  return absl::OkStatus();
}

absl::StatusOr<Functionalizer::ValueList> Functionalizer::ReadOperands(NodeId n,
                                                                       const FunctionalCounterpart& counterpart,
                                                                       absl::Span<const ValueId> inputs) {
  ValueList args;
  for (int k : counterpart.arguments) {
    if (k == FunctionalCounterpart::kDTypeOfWritten) {
      SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(inputs[counterpart.results[0].argument]));
      args.push_back(InsertConstant(g_, n, static_cast<int64_t>(ScalarTypeOf(tensors_[t].geometry.dtype))));
      continue;
    }
    if (k < 0) {
      args.push_back(InsertConstant(g_, n, std::monostate()));
      continue;
    }
    ValueId v = inputs[k];
    if (const TensorId* t = tensor_of_.Find(v)) {
      v = Read(*t, n);
    } else if (IsTensorList(g_.value(v).type)) {
      SMELT_ASSIGN_OR_RETURN(v, ReadList(v, n));
    }
    args.push_back(v);
  }
  return args;
}

absl::StatusOr<Functionalizer::SharedPlaces> Functionalizer::SharedPlacesOf(OpName op, absl::Span<const ValueId> inputs,
                                                                            absl::Span<const TensorId> written) const {
  if (written.size() != 1 || written[0] < 0 || !FillsSomeElements(op, g_, inputs))
    return WritesExpanded(op) ? SharedPlaces::kOneValue : SharedPlaces::kRefused;
  const SymbolicGeometry& to = tensors_[written[0]].geometry;
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    if (to.strides[d] == Expr(0) && g_.symbols.Less(Expr(1), to.sizes[d]) == true)
      return absl::UnimplementedError("one value written to some elements of expanded memory");
  }
  return SharedPlaces::kInOrder;
}

absl::Status Functionalizer::FitWritten(OpName op, const FunctionalCounterpart& counterpart,
                                        absl::Span<const ValueId> inputs, size_t i, TensorId written, ValueId result,
                                        NodeId anchor) {
  const TensorType& type = g_.value(result).type.tensor();
  const std::string refused =
      type.dtype ? RefusedCast(counterpart.op, *type.dtype, tensors_[written].geometry.dtype) : "";
  if (!refused.empty()) return absl::FailedPreconditionError(refused);
  if (counterpart.results[i].may_resize) {
    if (!type.IsComplete())
      return absl::UnimplementedError("a result whose sizes are not known before the call, given to a tensor");
    const std::vector<Expr> sizes = *type.sizes;
    if (counterpart.fills && tensors_[written].geometry.sizes.size() != sizes.size())
      return absl::UnimplementedError("a range into a tensor of other dims");
    const bool resizes = tensors_[written].geometry.sizes != sizes;
    for (size_t k = 0; k < inputs.size() && resizes; ++k) {
      const TensorId* read = tensor_of_.Find(inputs[k]);
      if (read == nullptr || static_cast<int>(k) == counterpart.results[i].argument) continue;
      const TensorState &from = tensors_[*read], &to = tensors_[written];
      if (from.memory != to.memory || from.home != to.home || !SameGeometry(from.geometry, to.geometry)) continue;
      if (GetOpInfo(counterpart.op).kind == OpKind::kPointwise)
        return absl::FailedPreconditionError("output with the shape of an operand doesn't match the broadcast shape");
      if (!ComputesBeforeItResizes(op)) return absl::UnimplementedError(kResizesItsOperand);
    }
    const std::vector<Expr> strides = ResizesContiguously(op) ? ContiguousStrides(sizes) : *type.strides;
    SMELT_RETURN_IF_ERROR(Resize(written, sizes, strides, anchor));
  }
  if (NeedsContiguousOut(op)) {
    const SymbolicGeometry& to = tensors_[written].geometry;
    if (to.strides != ContiguousStrides(to.sizes)) return absl::UnimplementedError(kNeedsContiguousOut);
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessWrite(NodeId n, Operator& op) {
  ++result_.mutations_removed;
  const FunctionSchema& schema = *op.schema;
  if (op.counterpart == nullptr && schema.op.name() == op::kCopyInPlace) return ProcessCopy(n);
  if (op.counterpart == nullptr) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart found, FindFunctionalCounterpart(schema));
    op.counterpart = std::make_unique<FunctionalCounterpart>(std::move(found));
  }
  const FunctionalCounterpart& counterpart = *op.counterpart;
  const absl::InlinedVector<ValueId, 4> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  SMELT_ASSIGN_OR_RETURN(ValueList args, ReadOperands(n, counterpart, inputs));
  absl::InlinedVector<TensorId, 2> written;
  for (const FunctionalCounterpart::Result& r : counterpart.results) {
    if (r.argument < 0) {
      written.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(inputs[r.argument]));
    written.push_back(t);
  }
  const DType dtype = written[0] < 0 ? DType::kFloat32 : tensors_[written[0]].geometry.dtype;
  for (size_t i = 1; i < args.size() && IsHalf(dtype); ++i) {
    if (const std::optional<double> given = KnownNumber(g_, args[i])) {
      const double taken = NumberBeside(schema.op, dtype, *given);
      if (taken != *given) args[i] = InsertConstant(g_, n, taken);
    }
  }
  for (size_t r = 0; r < written.size() && !counterpart.sharing.empty(); ++r) {
    if (written[r] < 0) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const OperandSharing rule = counterpart.sharing[i];
      if (IsMaterialized(schema.op, written[r]) || IsMaterialized(schema.op, inputs[i])) continue;
      if (rule != OperandSharing::kAny && static_cast<int>(i) != counterpart.results[r].argument)
        SMELT_RETURN_IF_ERROR(CheckSharing(written[r], inputs[i], rule, n));
    }
  }
  SMELT_ASSIGN_OR_RETURN(const SharedPlaces shared, SharedPlacesOf(schema.op, inputs, written));
  // The old node returned the written tensors, or the results that are not written.
  const absl::InlinedVector<ValueId, 2> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  SMELT_ASSIGN_OR_RETURN(const NodeId f, MakePure(n, op, args, written));
  const bool rewritten = f == n;
  if (rewritten) {
    // The following code comes after it.
    const Node& node = g_.node(n);
    n = node.next.valid() ? node.next : g_.block(node.parent).return_node;
  }
  const absl::InlinedVector<ValueId, 2> results(g_.node(f).outputs.begin(), g_.node(f).outputs.end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (written[i] < 0) {
      BindFresh(results[i]);
      continue;
    }
    own_[results[i]] = true;
    SMELT_RETURN_IF_ERROR(FitWritten(schema.op, counterpart, inputs, i, written[i], results[i], n));
    SMELT_RETURN_IF_ERROR(CheckNoConstant(written[i]));
    SMELT_RETURN_IF_ERROR(Write(written[i], results[i], n, shared));
  }
  for (size_t i = 0; i < outputs.size() && !rewritten; ++i) {
    if (!g_.value(outputs[i]).type.IsTensor()) continue;
    const int r = counterpart.result_of_output[i];
    tensor_of_[outputs[i]] = written[r] >= 0 ? written[r] : *tensor_of_.Find(results[r]);
  }
  return absl::OkStatus();
}

}  // namespace smelt
