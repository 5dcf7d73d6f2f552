#include "smelt/functionalize/open_composites.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/node_text.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/effects.h"
#include "smelt/core/op/emit.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/functionalize/composite_opener.h"
#include "smelt/functionalize/data_sizes.h"
#include "smelt/functionalize/new_geometry.h"
#include "smelt/functionalize/open_copies.h"
#include "smelt/functionalize/open_foreach.h"

namespace smelt {

absl::Status CompositeOpener::Run() {
  for (NodeId n : g_.AllNodes()) {
    if (!g_.IsLive(n)) continue;
    absl::Status s = Retype(n);
    if (absl::IsUnimplemented(s)) s = absl::OkStatus();  // what it is opened into will have types
    if (s.ok()) s = Open(n);
    if (s.ok() && g_.IsLive(n)) UseOneName(n);
    if (!s.ok()) return Annotate(s, OperatorAndSource(g_.node(n)));
  }
  return absl::OkStatus();
}

namespace {

// The argument's strides decide whether the view is legal, and its strides.
absl::Status View(CompositeOpener& o, NodeId n) {
  o.Decide(o.In(n, 0));
  return absl::OkStatus();
}

// max(x, y) is maximum under another name.
absl::Status MaximumOfTwo(CompositeOpener& o, NodeId n) {
  const OpName op = o.graph().node(n).op;
  if (op.overload() == "other") o.graph().SetOp(n, OpName::Get(op.name() == op::kMax ? op::kMaximum : op::kMinimum));
  return absl::OkStatus();
}

// For a tensor that is not complex PyTorch returns the tensor itself.
absl::Status Conj(CompositeOpener& o, NodeId n) {
  return IsComplex(*o.TypeOfValue(o.In(n, 0)).dtype) ? absl::OkStatus() : o.Identity(n);
}

// The remaining operators choose by position, so inference gives the layout.
absl::Status DataSizes(CompositeOpener& o, NodeId n) {
  Graph& g = o.graph();
  SMELT_RETURN_IF_ERROR(OpenDataSizes(g, n).status());
  if (!g.IsLive(n) || g.node(n).op.full() != op::kIndexTensor) return absl::OkStatus();
  // It counts as several rows: the strides of one row, or of none, cannot be observed.
  auto given = g.symbol_hints;
  for (const auto& [symbol, range] : g.symbols.entries()) {
    g.symbol_hints.try_emplace(symbol, std::clamp<int64_t>(4, range.min, range.max));
  }
  const absl::Status retyped = o.Retype(n);
  g.symbol_hints = std::move(given);
  return retyped;
}

// Returns null if there is none.
OpeningRule RuleOf(Opening opening) {
  static const OpeningTable* const kTable = [] {
    auto* table = new OpeningTable();
    AddViewOpenings(*table);
    AddCopyOpenings(*table);
    AddNormalizationOpenings(*table);
    AddActivationOpenings(*table);
    (*table)[Opening::kView] = View;
    (*table)[Opening::kMaximumOfTwo] = MaximumOfTwo;
    (*table)[Opening::kConjugate] = Conj;
    (*table)[Opening::kDataSizes] = DataSizes;
    (*table)[Opening::kIdentity] = [](CompositeOpener& o, NodeId n) { return o.Identity(n); };
    return table;
  }();
  const auto it = kTable->find(opening);
  return it == kTable->end() ? nullptr : it->second;
}

}  // namespace

bool HasOut(OpName op) { return op.overload() == "out" || absl::EndsWith(op.overload(), "_out"); }

absl::Status CompositeOpener::Open(NodeId n) {
  const std::string& name = g_.node(n).op.name();
  // (PyTorch computes all results before it writes the first one that is given.)
  if (absl::StartsWith(name, op::kPrivateForeachPrefix))
    return HasOut(g_.node(n).op) ? absl::UnimplementedError("results in given lists") : OpenForeach(*this, n);
  const bool parts = name == op::kUnbindCopy || name == op::kSplitCopy || name == op::kSplitWithSizesCopy;
  if (parts && HasOut(g_.node(n).op)) return OpenCopiesOfParts(*this, n);
  if (absl::EndsWith(name, "_copy") || name == op::kDiag) return OpenViewCopy(*this, n);
  const Opening opening = GetOpTraits(g_.node(n).op).opening;
  const OpeningRule rule = RuleOf(opening);
  if (rule == nullptr) return Decomposed(n);
  if (HasOut(g_.node(n).op)) {
    // It is written like any result, but these operators also write something themselves.
    if (opening == Opening::kBatchNorm) return absl::UnimplementedError("batch_norm with out=");
    if (opening != Opening::kDataSizes) return absl::OkStatus();
  }
  const bool by_strides = opening == Opening::kReshape || opening == Opening::kView || opening == Opening::kExpandAs ||
                          opening == Opening::kContiguous || opening == Opening::kConvert;
  if (at_run_time_ && by_strides) return absl::OkStatus();
  // Sizes that depend on data are those of masks.
  const bool stays = opening == Opening::kKron || opening == Opening::kDiff ||
                     (at_run_time_ && name == op::kIndex && !HasMasks(g_.node(n).inputs[1]));
  for (ValueId v : g_.node(n).inputs) {
    const Type& t = g_.value(v).type;
    if (t.IsTensor() && !t.tensor().IsComplete() && stays) return absl::OkStatus();
    if (t.IsTensor() && !t.tensor().IsComplete() && opening != Opening::kIdentity)
      return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(v).name, " is not known"));
  }
  return rule(*this, n);
}

bool CompositeOpener::IsFlagOfCall(ValueId v) const {
  return g_.value(v).type.kind() == TypeKind::kBool && !GetConstant(g_, v);
}

absl::Status CompositeOpener::BranchOnFlag(NodeId n, int flag) {
  const OpName op = g_.node(n).op;
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  std::vector<Type> types;
  for (ValueId v : outputs) types.push_back(g_.value(v).type);
  // Whatever the flag is, the result of an operator that works in place is its operand.
  const bool in_place = GetOpInfo(op).kind == OpKind::kInplace || absl::EndsWith(op.name(), "_");
  const NodeId branch =
      g_.InsertBefore(n, OpName::Get(op::kPrimIf), {inputs[flag]}, in_place ? std::vector<Type>() : types);
  if (g_.node(n).source != nullptr) g_.SetSource(branch, g_.node(n).source);
  std::vector<NodeId> copies;
  for (const bool on : {true, false}) {
    const BlockId block = g_.AddBlock(branch);
    const NodeId end = g_.block(block).return_node;
    std::vector<ValueId> mine = inputs;
    mine[flag] = InsertConstant(g_, end, on);
    const NodeId copy = g_.InsertBefore(end, op, mine, types);
    if (g_.node(n).source != nullptr) g_.SetSource(copy, g_.node(n).source);
    for (size_t k = 0; k < outputs.size() && !in_place; ++k) g_.AddResult(block, g_.node(copy).outputs[k]);
    copies.push_back(copy);
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    g_.ReplaceAllUses(outputs[k], in_place ? inputs[0] : g_.node(branch).outputs[k]);
  }
  g_.Erase(n);
  for (NodeId copy : copies) {
    SMELT_RETURN_IF_ERROR(Open(copy));
    if (g_.IsLive(copy)) UseOneName(copy);
  }
  return CopyWhatOnlyBranchHas(branch);
}

absl::Status CompositeOpener::CopyWhatOnlyBranchHas(NodeId branch) {
  const std::vector<BlockId> blocks(g_.node(branch).blocks.begin(), g_.node(branch).blocks.end());
  const auto inside = [&](const Use& use) { return absl::c_linear_search(blocks, g_.node(use.user).parent); };
  for (BlockId block : blocks) {
    const NodeId end = g_.block(block).return_node;
    for (uint32_t k = 0; k < g_.results(block).size(); ++k) {
      const ValueId v = g_.results(block)[k];
      const NodeId def = g_.value(v).def;
      if (g_.IsParam(def) || g_.node(def).parent == block || !GetOpEffects(g_.node(def).op).pure) continue;
      if (!absl::c_all_of(g_.value(v).uses, inside)) continue;
      SMELT_ASSIGN_OR_RETURN(auto copy, Insert(end, op::kClone, {v, None(end)}));
      if (g_.value(copy[0]).type == g_.value(v).type) g_.SetInput(end, k, copy[0]);
    }
  }
  return absl::OkStatus();
}

absl::Status CompositeOpener::Decomposed(NodeId n) {
  const OpName op = g_.node(n).op;
  const FunctionSchema* schema = FindSchema(op);
  if (GetOpInfo(op).kind != OpKind::kComposite || schema == nullptr || !schema->IsMutable()) return absl::OkStatus();
  if (PairsElementsByPlace(op)) {
    if (at_run_time_) return absl::UnimplementedError("tensors that may not be contiguous at a call");
    decided_.strides_decide = true;
  }
  return Decompose(g_, n).status();
}

bool CompositeOpener::HasMasks(ValueId indices) const {
  const auto elements = GetListElements(g_, indices);
  return !elements || std::any_of(elements->begin(), elements->end(), [&](ValueId v) {
    if (!g_.value(v).type.IsTensor()) return false;
    const std::optional<DType> dtype = g_.value(v).type.tensor().dtype;
    return !dtype || *dtype == DType::kBool || *dtype == DType::kUInt8;
  });
}

absl::StatusOr<int> CompositeOpener::ArgumentIndex(NodeId n, absl::string_view name) const {
  const FunctionSchema* schema = FindSchema(g_.node(n).op);
  if (schema != nullptr) {
    for (size_t i = 0; i < schema->arguments.size(); ++i) {
      if (schema->arguments[i].name == name) return static_cast<int>(i);
    }
  }
  return absl::InternalError(absl::StrCat("no argument ", name));
}

absl::StatusOr<std::vector<ValueId>> CompositeOpener::Insert(NodeId anchor, absl::string_view op,
                                                             std::vector<ValueId> args, size_t outputs) {
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op), args, std::vector<Type>(outputs, Type::Tensor()));
  g_.SetSource(n, g_.node(anchor).source);
  SMELT_RETURN_IF_ERROR(InferNode(g_, n));
  return std::vector<ValueId>(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
}

void CompositeOpener::ReplaceWith(NodeId n, ValueId v) {
  const ValueId out = g_.node(n).outputs[0];
  g_.ReplaceAllUses(out, v);
  g_.Erase(n);
}

ValueId CompositeOpener::IntList(NodeId anchor, const std::vector<Expr>& sizes) { return Emit(g_, anchor).Ints(sizes); }

bool CompositeOpener::MayBeOfArgument(ValueId v) {
  std::vector<ValueId> passed;
  std::optional<bool> answer;
  while (!answer) {
    if (auto known = may_be_of_argument_.find(v); known != may_be_of_argument_.end()) {
      answer = known->second;
      break;
    }
    passed.push_back(v);
    const StorageSource source = StorageStep(g_, v);
    if (source.kind == StorageSource::kOperand && g_.value(source.operand).type.kind() != TypeKind::kList) {
      v = source.operand;
      continue;
    }
    const NodeId def = g_.value(v).def;
    answer = source.kind != StorageSource::kOwn ||
             (g_.IsParam(def) && (IsUserInput(v) || IsAssigned(v) || g_.node(def).parent != g_.top()));
  }
  for (ValueId p : passed) may_be_of_argument_[p] = *answer;
  return *answer;
}

bool CompositeOpener::IsAssigned(ValueId v) const {
  for (const Use& use : g_.value(v).uses) {
    if (use.index == 0 && g_.node(use.user).op.name() == op::kSetInPlace) return true;
  }
  return false;
}

bool CompositeOpener::IsUserInput(ValueId v) const {
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    if (g_.inputs()[i] == v) return g_.input_infos[i].kind == InputInfo::Kind::kUser;
  }
  return false;
}

void CompositeOpener::UseOneName(NodeId n) {
  if (UseNewGeometry(g_, n)) {
    stale_ = true;
    return;
  }
  const Node& node = g_.node(n);
  if (ReturnsItsOperand(g_, n) && node.parent == g_.top() && !ChangesGeometry(node.op))
    g_.ReplaceAllUses(node.outputs[0], node.inputs[0]);
}

absl::Status CompositeOpener::Retype(NodeId n) {
  if (!stale_) return CorrectLayout(n);
  std::vector<std::pair<ValueId, Type>> stated;
  for (ValueId v : g_.node(n).outputs) stated.emplace_back(v, g_.value(v).type);
  absl::Status inferred = InferNode(g_, n);
  if (!inferred.ok()) {
    // The nodes that a composite is decomposed into have the ranges but no example. Only the export may know that two
    // sizes are equal, and the calls check it.
    SymbolRanges ranges = WithHints(g_.symbols, g_.symbol_hints);
    std::swap(g_.symbols, ranges);
    inferred = InferNode(g_, n);
    std::swap(g_.symbols, ranges);
  }
  SMELT_RETURN_IF_ERROR(inferred);
  if (GetOpTraits(g_.node(n).op).opening != Opening::kDataSizes) return absl::OkStatus();
  for (const auto& [v, type] : stated) {
    const Type& now = g_.value(v).type;
    if (now.IsTensor() && !now.tensor().sizes) g_.SetType(v, type);
  }
  return absl::OkStatus();
}

absl::Status CompositeOpener::CorrectLayout(NodeId n) {
  const Node& node = g_.node(n);
  switch (GetOpInfo(node.op).kind) {
    case OpKind::kPointwise:
    case OpKind::kReduction:
    case OpKind::kMovement:
    case OpKind::kLibrary:
    case OpKind::kComposite:
    case OpKind::kFactory:
      break;
    default:
      return absl::OkStatus();  // what it shares memory with, or a rule of its own, says it
  }
  const auto is_dense = [&](ValueId v) {
    const Type& t = g_.value(v).type;
    return !t.IsTensor() || (t.tensor().IsComplete() && *t.tensor().strides == ContiguousStrides(*t.tensor().sizes));
  };
  const auto dense = [&](ValueId v) {
    const auto elements = g_.value(v).type.kind() == TypeKind::kList ? GetListElements(g_, v) : std::nullopt;
    return elements ? absl::c_all_of(*elements, is_dense) : is_dense(v);
  };
  if (HasOut(node.op) || absl::c_all_of(node.inputs, dense)) return absl::OkStatus();
  const std::vector<ValueId> outputs(node.outputs.begin(), node.outputs.end());
  std::vector<Type> stated;
  for (ValueId v : outputs) {
    stated.push_back(g_.value(v).type);
    if (!stated.back().IsTensor() || !stated.back().tensor().IsComplete()) return absl::OkStatus();
  }
  // Only the strides are in question. If they cannot be decided, those of the archive stay.
  bool told = InferNode(g_, n).ok();
  for (size_t i = 0; i < outputs.size() && told; ++i) {
    const TensorType& t = TypeOfValue(outputs[i]);
    told = t.IsComplete() && *t.sizes == *stated[i].tensor().sizes && t.dtype == stated[i].tensor().dtype;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!told) g_.SetType(outputs[i], stated[i]);
    stale_ = stale_ || g_.value(outputs[i]).type != stated[i];
  }
  return absl::OkStatus();
}

absl::Status CompositeOpener::Identity(NodeId n) {
  ReplaceWith(n, In(n, 0));
  return absl::OkStatus();
}

absl::Status CompositeOpener::ReplaceOutputs(NodeId n, const std::vector<ValueId>& with) {
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  for (size_t i = 0; i < outputs.size(); ++i) g_.ReplaceAllUses(outputs[i], with[i]);
  g_.Erase(n);
  return absl::OkStatus();
}

absl::Status CompositeOpener::ReplaceList(NodeId n, const std::vector<ValueId>& results) {
  NodeId list = g_.InsertBefore(n, OpName::Get(op::kPrimListConstruct), results, {Type::List(Type::Tensor())});
  g_.SetSource(list, g_.node(n).source);
  ReplaceWith(n, g_.node(list).outputs[0]);
  return absl::OkStatus();
}

absl::StatusOr<OpenedComposites> OpenComposites(Graph& g, StrideChoices choices) {
  CompositeOpener opener(g, choices);
  SMELT_RETURN_IF_ERROR(opener.Run());
  return opener.decided();
}

Pass OpenCompositesPass() {
  return {.name = "open-composites",
          .description = "operators that hide a view or a write become what they do",
          .prerequisites = {"infer-types"},
          .run = [](Graph& g, PassContext& context) -> absl::StatusOr<bool> {
            const EditCounter edits(g);
            SMELT_ASSIGN_OR_RETURN(context.Get<OpenedComposites>(), OpenComposites(g, context.Get<StrideChoices>()));
            return edits.count() > 0;
          }};
}

}  // namespace smelt
