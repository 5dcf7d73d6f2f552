#include "smelt/pipeline/eager_computing.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/data_refusals.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/pipeline/eager_geometry.h"
#include "smelt/pipeline/result_layout.h"

namespace smelt {
namespace {

// Returns whether the operator sees one element at a time, or fills a tensor like another.
bool IsFlat(OpName op) { return GetOpInfo(op).kind == OpKind::kPointwise || GetOpTraits(op).like_operand; }

}  // namespace

std::vector<int> EagerComputing::TensorNumbers(const std::vector<ValueId>& args) {
  std::vector<int> out;
  for (ValueId v : args) {
    if (g().value(v).type.IsTensor()) out.push_back(w_.Number(v));
  }
  return out;
}

absl::Status EagerComputing::CheckKnownDims(const std::vector<ValueId>& args) {
  // A tensor with dims and one without take different parts in type promotion.
  std::optional<DType> dtype;
  bool unknown = false, mixed = false;
  for (ValueId v : args) {
    if (!g().value(v).type.IsTensor()) continue;
    const TensorType& t = g().value(v).type.tensor();
    unknown = unknown || !t.sizes;
    mixed = mixed || (dtype && t.dtype && *dtype != *t.dtype);
    dtype = t.dtype;
  }
  return unknown && mixed ? absl::UnimplementedError("operands of several dtypes and unknown rank") : absl::OkStatus();
}

absl::Status EagerComputing::EmitPure(NodeId n) {
  const std::vector<ValueId> args(g().node(n).inputs.begin(), g().node(n).inputs.end());
  const std::vector<ValueId> outputs(g().node(n).outputs.begin(), g().node(n).outputs.end());
  const OpName op = g().node(n).op;
  const std::vector<int> tensors = TensorNumbers(args);
  const bool flat = IsFlat(op) && !tensors.empty();
  if (flat) SMELT_RETURN_IF_ERROR(CheckKnownDims(args));
  CallGraph call(g(), flat);
  std::vector<ValueId> operands;
  for (ValueId v : args) {
    SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
    operands.push_back(x);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         call.Apply(op, operands, outputs.size(), g().node(n).source, g().node(n).attributes));
  std::vector<int> numbers;
  std::vector<size_t> used;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (g().value(outputs[k]).uses.empty()) continue;
    if (!g().value(outputs[k]).type.IsTensor()) return absl::UnimplementedError("a result that is no tensor");
    call.graph().AddOutput(results[k]);
    numbers.push_back(w_.Number(outputs[k]));
    used.push_back(k);
  }
  if (numbers.empty()) {
    // Nothing reads the result, but the call draws numbers, or PyTorch refuses it because of its operands' contents,
    // or because of dims that another name of its operand got.
    if (GetOpInfo(op).kind != OpKind::kRandom && !changes_dims_ && !MayRefuseData(g(), n)) return absl::OkStatus();
    call.graph().AddOutput(results[0]);
    numbers.push_back(-1);
    used.push_back(0);
  }
  SMELT_ASSIGN_OR_RETURN(int index, calls_.Add(call));
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Compute, n);
  i.call = index;
  i.text = calls_.function(index);
  for (ValueId v : call.operands()) i.inputs.push_back(w_.Number(v));
  i.outputs = numbers;
  i.targets.assign(numbers.size(), -1);
  i.flat = flat;
  if (flat) i.layout_inputs = tensors;
  if (std::optional<std::vector<ValueId>> indices =
          GetOpTraits(op).family == OpFamily::kIndex ? GetListElements(g(), args[1]) : std::nullopt) {
    i.layout = fb::EagerLayout::Indexed;
    i.layout_inputs = {w_.Number(args[0])};
    for (ValueId v : *indices) i.layout_inputs.push_back(g().value(v).type.IsTensor() ? w_.Number(v) : -1);
  } else {
    SetLayout(w_, i, DescribeResultLayout(g(), op, args, used, g().node(n).attributes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> EagerComputing::ArgumentsOf(const FunctionalCounterpart& pure,
                                                                 const std::vector<ValueId>& inputs) {
  std::vector<ValueId> args;
  if (pure.fills) {
    const Type& to = g().value(inputs[pure.results[0].argument]).type;
    if (!to.IsTensor() || to.tensor().rank() != 1)
      return absl::UnimplementedError("a range into a tensor of other dims");
  }
  for (int k : pure.arguments) args.push_back(k < 0 ? ValueId() : inputs[k]);
  return args;
}

absl::StatusOr<std::vector<ValueId>> EagerComputing::OperandsOf(const FunctionalCounterpart& pure,
                                                                const std::vector<ValueId>& inputs,
                                                                const std::vector<ValueId>& args, CallGraph& call) {
  std::vector<ValueId> operands;
  for (size_t k = 0; k < args.size(); ++k) {
    const ValueId v = args[k];
    if (pure.arguments[k] == FunctionalCounterpart::kDTypeOfWritten) {
      const std::optional<DType> dtype = DTypeOf(g(), inputs[pure.results[0].argument]);
      if (!dtype) return absl::UnimplementedError("a write to a tensor of unknown dtype");
      operands.push_back(call.Constant(static_cast<int64_t>(ScalarTypeOf(*dtype))));
      continue;
    }
    if (!g().IsLive(v)) {
      operands.push_back(call.Constant(std::monostate()));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(ValueId x, call.Operand(v));
    operands.push_back(x);
  }
  return operands;
}

absl::StatusOr<EagerComputing::SharingRules> EagerComputing::SharingOfOperands(const FunctionalCounterpart& pure,
                                                                               const std::vector<ValueId>& inputs,
                                                                               int target) {
  // At run time an operand is distinguished from the target by its number.
  SharingRules sharing;
  for (size_t k = 0; k < pure.sharing.size(); ++k) {
    const OperandSharing rule = pure.sharing[k];
    if (rule == OperandSharing::kAny || static_cast<int>(k) == pure.results[0].argument) continue;
    std::vector<ValueId> tensors = {inputs[k]};
    if (auto list = GetListElements(g(), inputs[k])) tensors.assign(list->begin(), list->end());
    for (ValueId v : tensors) {
      OperandSharing& of = sharing.try_emplace(v, rule).first->second;
      of = std::max(of, rule);
      if ((rule == OperandSharing::kNone || rule == OperandSharing::kApart) && w_.HasNumber(v) &&
          w_.Number(v) == target)
        return absl::UnimplementedError("a write of a tensor into itself");
    }
  }
  return sharing;
}

absl::StatusOr<EagerComputing::Written> EagerComputing::ValueOfWrite(NodeId n, const FunctionSchema& schema,
                                                                     CallGraph& call) {
  const std::vector<ValueId> inputs(g().node(n).inputs.begin(), g().node(n).inputs.end());
  SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart pure, FindFunctionalCounterpart(schema));
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> args, ArgumentsOf(pure, inputs));
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, OperandsOf(pure, inputs, args, call));
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                         call.Apply(pure.op, operands, pure.results.size(), g().node(n).source));
  const std::optional<DType> dtype = DTypeOf(g(), inputs[pure.results[0].argument]),
                             computed = DTypeOf(call.graph(), results[0]);
  if (!dtype || !computed) return absl::UnimplementedError("a write to a tensor of unknown dtype");
  if (std::string refused = RefusedCast(pure.op, *computed, *dtype); !refused.empty())
    return absl::FailedPreconditionError(refused);
  SMELT_ASSIGN_OR_RETURN(const ValueId value, call.Cast(results[0], *dtype));
  return Written{value, std::move(pure.sharing)};
}

absl::Status EagerComputing::EmitWrite(NodeId n, const FunctionSchema& schema) {
  const std::vector<ValueId> inputs(g().node(n).inputs.begin(), g().node(n).inputs.end());
  const std::vector<ValueId> outputs(g().node(n).outputs.begin(), g().node(n).outputs.end());
  SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart pure, FindFunctionalCounterpart(schema));
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> args, ArgumentsOf(pure, inputs));
  std::vector<ValueId> known;
  for (ValueId v : args) {
    if (g().IsLive(v)) known.push_back(v);
  }
  const std::vector<int> tensors = TensorNumbers(known);
  const bool zero = schema.op.name() == op::kZeroInPlace || schema.op.name() == op::kFillInPlace;
  const bool flat = (IsFlat(pure.op) || zero) && !tensors.empty();
  if (flat) SMELT_RETURN_IF_ERROR(CheckKnownDims(known));
  CallGraph call(g(), flat);
  SMELT_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, OperandsOf(pure, inputs, args, call));
  SMELT_ASSIGN_OR_RETURN(std::vector<ValueId> results,
                         call.Apply(pure.op, operands, pure.results.size(), g().node(n).source));
  std::vector<int> numbers, targets;
  bool grows = false;
  // A result of another dtype is computed in a temporary. Comparisons are written as they are.
  bool in_order =
      flat && results.size() == 1 && GetOpInfo(pure.op).kind == OpKind::kPointwise && !ResizesContiguously(schema.op);
  for (size_t k = 0; k < results.size(); ++k) {
    const int written = pure.results[k].argument;
    ValueId result = results[k];
    if (const std::optional<DType> computed = DTypeOf(call.graph(), result); in_order && written >= 0)
      in_order = computed == DTypeOf(g(), inputs[written]) || computed == DType::kBool;
    if (written >= 0) {
      const std::optional<DType> dtype = DTypeOf(g(), inputs[written]);
      if (!dtype) return absl::UnimplementedError("a write to a tensor of unknown dtype");
      const std::optional<DType> computed = DTypeOf(call.graph(), result);
      const std::string refused = computed ? RefusedCast(pure.op, *computed, *dtype) : "";
      if (!refused.empty()) {
        for (ValueId v : outputs) w_.Share(v, w_.Number(inputs[written]));
        w_.EmitRaise(refused, n);
        return absl::OkStatus();
      }
      SMELT_ASSIGN_OR_RETURN(result, call.Cast(result, *dtype));
      grows = grows || pure.results[k].may_resize;
    }
    call.graph().AddOutput(result);
    targets.push_back(written >= 0 ? w_.Number(inputs[written]) : -1);
    numbers.push_back(written >= 0 ? -1 : w_.Fresh());
  }
  SMELT_ASSIGN_OR_RETURN(const SharingRules sharing, SharingOfOperands(pure, inputs, targets[0]));
  if (NeedsContiguousOut(schema.op)) return absl::UnimplementedError(kNeedsContiguousOut);
  SMELT_ASSIGN_OR_RETURN(int index, calls_.Add(call));
  fb::EagerInstrT& i = w_.Emit(fb::EagerKind::Compute, n);
  i.call = index;
  i.text = calls_.function(index);
  for (ValueId v : call.operands()) i.inputs.push_back(w_.Number(v));
  i.outputs = numbers;
  i.targets = targets;
  i.grows = grows;
  i.computes_first = grows && ComputesBeforeItResizes(schema.op);
  for (ValueId v : call.operands()) {
    const auto rule = sharing.find(v);
    i.sharing.push_back(static_cast<uint8_t>(rule == sharing.end() ? OperandSharing::kAny : rule->second));
  }
  i.in_order = in_order;
  i.uniform = WritesExpanded(schema.op);
  i.fills = FillsSomeElements(schema.op, g(), inputs);
  i.flat = flat;
  if (flat) i.layout_inputs = tensors;
  if (grows && !ResizesContiguously(schema.op)) {
    // The results have the layout of the functional form.
    std::vector<size_t> all(pure.results.size());
    std::iota(all.begin(), all.end(), 0);
    SetLayout(w_, i, DescribeResultLayout(g(), pure.op, args, all));
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const int r = pure.result_of_output[o];
    w_.Share(outputs[o], targets[r] >= 0 ? targets[r] : numbers[r]);
    if (targets[r] >= 0 && grows) w_.NoteSizes(outputs[o]);
  }
  return absl::OkStatus();
}

}  // namespace smelt
