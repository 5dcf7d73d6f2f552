// The program, a node at a time.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/branch.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
bool IsViewOp(OpName op) { return GetOpInfo(op).kind == OpKind::kView && op != op::kSmeltView; }

OpName Functionalizer::OperatorFor(NodeId n) const {
  const Node& node = g_.node(n);
  static const OpName kCheck = OpName::Get(op::kSmeltAssertNoOverlap);
  if (node.op != kCheck) return node.op;
  const Attribute* of = node.FindAttribute(kOpened);
  const auto* name = of == nullptr ? nullptr : std::get_if<std::string>(of);
  return name == nullptr ? node.op : OpName::Get(*name);
}

absl::Status Functionalizer::ProcessBlock(BlockId b) {
  const size_t mark = cache_log_.size();
  for (NodeId n = g_.block(b).first, next; n.valid(); n = next) {
    next = g_.node(n).next;                         // what is made for n stands before it
    if (g_.node(n).op == op::kSmeltView) continue;  // of ShowWholeStates
    at_.source = g_.node(n).source;
    if (options_.on_operand && b == g_.top()) TellOperands(n);
    const OpName op = OperatorFor(n);  // n may be another one afterwards
    absl::Status s = ProcessNode(n);
    if (!s.ok()) return At(op, s);
  }
  at_.source = nullptr;
  DropCachedViewsSince(mark);
  return absl::OkStatus();
}

void Functionalizer::TellOperands(NodeId n) const {
  for (ValueId v : g_.node(n).inputs) {
    const TensorId* t = tensor_of_.Find(v);
    // A value that may share memory with others is a copy here, but another name of theirs in the program.
    if (t != nullptr && sharing_.IsAlone(tensors_[*t].memory)) options_.on_operand(v, tensors_[*t].memory);
  }
}

bool IsTensorList(const Type& t) {
  return t.kind() == TypeKind::kList &&
         (t.element().IsTensor() || (t.element().kind() == TypeKind::kOptional && t.element().element().IsTensor()));
}

bool HoldsTensors(const Type& t) {
  switch (t.kind()) {
    case TypeKind::kInt:
    case TypeKind::kFloat:
    case TypeKind::kBool:
    case TypeKind::kComplex:
    case TypeKind::kNumber:
    case TypeKind::kString:
    case TypeKind::kNone:
    case TypeKind::kDevice:
    case TypeKind::kGenerator:
      return false;
    case TypeKind::kList:
    case TypeKind::kOptional:
      return HoldsTensors(t.element());
    default:
      return true;
  }
}

namespace {

// Whatever its elements are: the results may be the same tensors.
bool TakesAnyList(const FunctionSchema* schema) {
  if (schema == nullptr || schema->arguments.empty()) return false;
  const std::string& type = schema->arguments[0].type_text;
  return absl::StartsWith(type, "t[") || absl::StartsWith(type, "Dict(");
}

}  // namespace

Functionalizer::Operator& Functionalizer::OperatorOf(OpName op) {
  std::unique_ptr<Operator>& entry = operators_[op];
  if (entry != nullptr) return *entry;
  entry = std::make_unique<Operator>();
  Operator& o = *entry;
  o.schema = FindSchema(op);
  const OpTraits& traits = GetOpTraits(op);
  const std::string& name = op.name();
  o.absolute = traits.reaches_storage;
  o.resolves = traits.resolves;
  if (name == op::kPrimConstant || name == op::kSmeltSize) {
    o.step = Step::kNone;
  } else if (name == op::kPrimListConstruct || name == op::kPrimTupleConstruct) {
    o.step = Step::kConstruct;
  } else if (name == op::kPrimListUnpack || name == op::kPrimTupleUnpack) {
    o.step = Step::kUnpack;
  } else if (name == op::kPrimTupleIndex || name == op::kPrimUncheckedCast || name == op::kPrivateUnwrapOptional ||
             GetOpInfo(op).kind == OpKind::kContainer || TakesAnyList(o.schema)) {
    o.step = Step::kElement;
  } else if (IsBranch(op)) {
    o.step = Step::kIf;
  } else if (name == op::kSmeltWhileLoop || name == op::kPrimLoop) {
    o.step = Step::kLoop;
  } else if (name == op::kSmeltAssertNoOverlap) {
    o.step = Step::kCheckApart;
  } else if (o.schema == nullptr || op.IsDeclared()) {
    o.step = Step::kUnknown;
  } else if (GetOpInfo(op).kind == OpKind::kInplaceView) {
    o.step = Step::kInPlaceView;
  } else if (name == op::kSetInPlace) {
    o.step = Step::kSet;
  } else if (traits.resizes) {
    o.step = Step::kResize;
  } else if (IsViewOp(op)) {
    o.step = Step::kView;
  } else if (o.schema->IsMutable()) {
    o.step = Step::kWrite;
  } else {
    o.step = Step::kPure;
  }
  return o;
}

absl::Status Functionalizer::ProcessNode(NodeId n) {
  const Node& node = g_.node(n);
  Operator& op = OperatorOf(node.op);
  if (op.step == Step::kCheckApart && node.FindAttribute(kOpened) == nullptr) return ProcessPure(n);
  switch (op.step) {
    case Step::kNone: {
      // A constant tensor, which views may look at.
      const ValueId v = node.outputs[0];
      if (g_.value(v).type.IsTensor() && g_.value(v).type.tensor().IsComplete()) BindFresh(v);
      return absl::OkStatus();
    }
    case Step::kConstruct:
      lists_[node.outputs[0]] = std::vector<ValueId>(node.inputs.begin(), node.inputs.end());
      return absl::OkStatus();
    case Step::kUnpack:
      return ProcessUnpack(n);
    case Step::kElement:
      return ProcessElement(n);
    case Step::kIf:
      return ProcessIf(n);
    case Step::kLoop:
      return ProcessLoop(n);
    default:
      break;
  }
  if (!node.blocks.empty()) return absl::UnimplementedError("control flow of this kind");
  if (op.step == Step::kUnknown)
    return absl::UnimplementedError(op.schema == nullptr ? "no such operator is known"
                                                         : "an operator of the user's own");
  SMELT_RETURN_IF_ERROR(CheckTypesHold(n));
  if (op.step != Step::kView && op.step != Step::kInPlaceView && !g_.symbol_hints.empty()) {
    for (const Assumption& a : AssumedEqual(g_, n)) SMELT_RETURN_IF_ERROR(assertions_.Assert(a, n));
    for (const Assumption& a : RequiredSizes(g_, n)) {
      if (HasDataSymbols(a.a))
        return absl::UnimplementedError("indices beside a tensor of a size that the data decide");
      SMELT_RETURN_IF_ERROR(assertions_.Assert(a, n));
    }
  }
  switch (op.step) {
    case Step::kInPlaceView:
      return ProcessInPlaceView(n, op);
    case Step::kSet:
      return ProcessSet(n);
    case Step::kResize:
      return ProcessResize(n);
    case Step::kView:
      return ProcessView(n, op);
    case Step::kWrite:
      return ProcessWrite(n, op);
    case Step::kCheckApart: {
      const TensorId* written = tensor_of_.Find(node.inputs[0]);
      if (written == nullptr) return absl::UnimplementedError("a write to what is not known to be a tensor");
      SMELT_RETURN_IF_ERROR(CheckSharing(*written, node.inputs[1], OperandSharing::kApart, n));
      g_.Erase(n);
      return absl::OkStatus();
    }
    default:
      return ProcessPure(n);
  }
}

void Functionalizer::EraseUnusedView(ValueId v) {
  absl::InlinedVector<ValueId, 4> todo = {v};
  while (!todo.empty()) {
    v = todo.back();
    todo.pop_back();
    if (!g_.IsLive(v)) continue;
    const NodeId def = g_.value(v).def;
    const Node& node = g_.node(def);
    if (!g_.value(v).uses.empty() || node.outputs.size() != 1 || OperatorOf(node.op).step != Step::kView) continue;
    todo.insert(todo.end(), node.inputs.begin(), node.inputs.end());
    g_.Erase(def);
  }
}

absl::Status Functionalizer::CheckTypesHold(NodeId n) const {
  for (ValueId v : g_.node(n).inputs) {
    const TensorId* tensor = tensor_of_.Find(v);
    if (tensor == nullptr || !tensors_[*tensor].changed) continue;
    const TensorType& t = g_.value(v).type.tensor();
    const SymbolicGeometry& now = tensors_[*tensor].geometry;
    const bool strides_known = !options_.symbolic_strides || !memories_[tensors_[*tensor].memory].shared;
    if (*t.sizes != now.sizes || (strides_known && *t.strides != now.strides))
      return absl::UnimplementedError("a tensor whose geometry was changed through another of its names");
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::CheckNoConstant(TensorId written) const {
  const ValueId initial = memories_[tensors_[written].memory].initial;
  if (!initial.valid() || !g_.IsLive(initial)) return absl::OkStatus();
  const NodeId def = g_.value(initial).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kPrimConstant) return absl::OkStatus();
  return absl::UnimplementedError("a write to a constant tensor, which the next call would see");
}

absl::Status Functionalizer::CheckNoOtherName(TensorId changed) const {
  if (sharing_.IsAlone(tensors_[changed].memory)) return absl::OkStatus();
  return absl::UnimplementedError("a change of geometry of what may be another tensor, by a branch or a loop");
}

absl::Status Functionalizer::ProcessUnpack(NodeId n) {
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  const ValueId list = g_.node(n).inputs[0];
  if (auto it = tensor_lists_.find(list); it != tensor_lists_.end()) {
    if (it->second.size() != outputs.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a list of ", it->second.size(), " is unpacked into ", outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) tensor_of_[outputs[i]] = it->second[i];
    return absl::OkStatus();
  }
  if (auto it = lists_.find(list); it != lists_.end()) {
    if (it->second.size() != outputs.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a list of ", it->second.size(), " is unpacked into ", outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId e = it->second[i];
      if (tensor_of_.contains(e)) {
        tensor_of_[outputs[i]] = tensor_of_[e];
      } else {
        g_.ReplaceAllUses(outputs[i], e);
      }
    }
    return absl::OkStatus();
  }
  for (ValueId v : outputs) {
    if (!g_.value(v).type.IsTensor()) continue;
    if (!g_.value(v).type.tensor().IsComplete())
      return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(v).name, " is not known"));
    BindFresh(v);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorId>> Functionalizer::ElementsOf(ValueId list) const {
  if (auto it = tensor_lists_.find(list); it != tensor_lists_.end()) return it->second;
  auto made = lists_.find(list);
  if (made == lists_.end()) return absl::UnimplementedError("a list of tensors that is not known");
  std::vector<TensorId> out;
  for (ValueId v : made->second) {
    const TensorId* t = tensor_of_.Find(v);
    if (t == nullptr) return absl::UnimplementedError("a list of tensors with something else in it");
    out.push_back(*t);
  }
  return out;
}

absl::Status Functionalizer::ProcessElement(NodeId n) {
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  const bool tensors = std::any_of(g_.node(n).outputs.begin(), g_.node(n).outputs.end(),
                                   [&](ValueId v) { return HoldsTensors(g_.value(v).type); });
  const FunctionSchema* schema = FindSchema(g_.node(n).op);
  const bool changes = schema != nullptr && schema->IsMutable();
  if (!tensors && !changes) return ProcessPure(n);
  if (changes || g_.node(n).outputs.size() != 1 || inputs.empty())
    return absl::UnimplementedError("a list of tensors that changes");
  const ValueId out = g_.node(n).outputs[0];
  if (inputs.size() == 1 && tensor_of_.contains(inputs[0])) {
    tensor_of_[out] = tensor_of_[inputs[0]];  // another name
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<TensorId> among, ElementsOf(inputs[0]));
  const std::string& name = g_.node(n).op.name();
  if (g_.node(n).op.full() == op::kAddT) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<TensorId> more, ElementsOf(inputs[1]));
    among.insert(among.end(), more.begin(), more.end());
    tensor_lists_[out] = among;
    return absl::OkStatus();
  }
  if (name == op::kSlice || name == op::kList || name == op::kCopy) {
    if (name != op::kSlice) {
      tensor_lists_[out] = among;
      return absl::OkStatus();
    }
    const auto taken = SlicedIndices(g_, inputs, among.size());
    if (!taken) return absl::UnimplementedError("a part of a list that is not known");
    std::vector<TensorId>& part = tensor_lists_[out];
    for (size_t i : *taken) part.push_back(among[i]);
    return absl::OkStatus();
  }
  const bool element = name == op::kDunderGetitem || name == op::kPrimTupleIndex;
  if (!element || !g_.value(out).type.IsTensor())
    return absl::UnimplementedError("a list of tensors that is not known");
  const std::optional<Expr> index = GetIntExpr(g_, inputs[1]);
  if (index && index->IsConstant()) {
    const int64_t size = static_cast<int64_t>(among.size());
    const int64_t i = *index->Constant() + (*index->Constant() < 0 ? size : 0);
    if (i < 0 || i >= size) return absl::UnimplementedError("an index outside of a list");
    tensor_of_[out] = among[i];
    return absl::OkStatus();
  }
  SMELT_RETURN_IF_ERROR(ProcessPure(n));
  const MemoryId copy = tensors_[*tensor_of_.Find(out)].memory;
  absl::flat_hash_set<PossibleSharing::Set> elements;
  for (TensorId t : among) elements.insert(sharing_.SetOf(tensors_[t].memory));
  sharing_.Join({{copy, {elements.begin(), elements.end()}}}, sharing_.Now(memories_.size()));
  return absl::OkStatus();
}

absl::Status Functionalizer::ReadInputs(NodeId n, NodeId anchor) {
  for (uint32_t i = 0; i < g_.node(n).inputs.size(); ++i) {
    const ValueId v = g_.node(n).inputs[i];
    if (const TensorId* t = tensor_of_.Find(v)) {
      const ValueId now = Read(*t, anchor);
      if (now != v) {
        g_.SetInput(n, i, now);
        EraseUnusedView(v);
      }
    } else if (IsTensorList(g_.value(v).type)) {
      SMELT_ASSIGN_OR_RETURN(ValueId list, ReadList(v, anchor));
      if (list != v) g_.SetInput(n, i, list);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Functionalizer::ReadList(ValueId list, NodeId anchor) {
  std::vector<ValueId> elements;
  if (auto it = tensor_lists_.find(list); it != tensor_lists_.end()) {
    for (TensorId t : it->second) elements.push_back(Read(t, anchor));
  } else if (auto it = lists_.find(list); it != lists_.end()) {
    bool same = true;
    for (ValueId e : it->second) {
      const TensorId* t = tensor_of_.Find(e);
      elements.push_back(t == nullptr ? e : Read(*t, anchor));
      same = same && elements.back() == e;
    }
    if (same) return list;
  } else {
    return list;
  }
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kPrimListConstruct), elements, {g_.value(list).type});
  g_.SetSource(n, at_.source);
  return g_.node(n).outputs[0];
}

absl::Status Functionalizer::ProcessPure(NodeId n) {
  std::vector<std::string> at_one;
  if (const auto* symbols = g_.node(n).FindAttribute(kAliasesAtOne)) {
    at_one = absl::StrSplit(std::get<std::string>(*symbols), ' ');
  }
  const bool may_alias = g_.node(n).FindAttribute(kMayAlias) != nullptr;
  const MemoryId copied = may_alias || !at_one.empty() ? tensors_[*tensor_of_.Find(g_.node(n).inputs[0])].memory : -1;
  const MemoryId aliased = may_alias ? copied : -1;
  const bool copies_storage = CopiesStorage(g_.node(n).op);
  Expr begin;  // of the operand in its storage, and so of the copy in its own
  if (copies_storage) {
    const TensorId self = *tensor_of_.Find(g_.node(n).inputs[0]);
    begin = BeginInStorage(self);
    const SymbolicGeometry& of = tensors_[self].geometry;
    for (size_t d = 0; d < of.sizes.size() && g_.node(n).op.name() == op::kAsStridedScatter; ++d) {
      if (of.strides[d] == Expr(0) && of.sizes[d] != Expr(1))
        return absl::UnimplementedError("a copy with a view of memory that several elements share");
    }
  }
  SMELT_RETURN_IF_ERROR(ReadInputs(n, n));
  if (!g_.symbol_hints.empty()) SMELT_RETURN_IF_ERROR(AssertLayoutsHold(n));
  const std::string& name = g_.node(n).op.name();
  if (name == op::kAsStridedScatter && begin != Expr(0)) {
    // Counted from the storage's first element; a value begins with its own.
    if (const auto offset = GetIntExpr(g_, g_.node(n).inputs[4])) {
      const ValueId own = InsertSize(g_, n, *offset - begin);
      g_.SetSource(g_.value(own).def, at_.source);
      g_.SetInput(n, 4, own);
    }
  }
  // A copy is a value that already is: contents are immutable. Only its layout may need work.
  if (GetOpTraits(g_.node(n).op).family == OpFamily::kCopy) {
    const ValueId out = g_.node(n).outputs[0];
    if (!g_.value(out).type.tensor().IsComplete())
      return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(out).name, " is not known"));
    const SymbolicGeometry g = GeometryOf(g_.value(out).type.tensor());
    if (!g_.symbol_hints.empty() && !IsDense(g, g_.symbols))
      return absl::UnimplementedError(
          absl::StrCat("a copy whose layout hangs on the sizes: ", g_.value(out).type.ToString()));
    MemoryState m;
    m.nominal = g;
    m.version = m.initial = Own(n, g_.node(n).inputs[0], g.strides);
    m.layout_open = aliased >= 0;
    const MemoryId copy = NewMemory(std::move(m));
    if (aliased >= 0) sharing_.Join({{copy, {sharing_.SetOf(aliased)}}}, sharing_.Now(memories_.size()));
    if (!at_one.empty()) ShareAtOne(copy, copied, at_one);
    tensor_of_[out] = NewTensor(copy, g);
    return absl::OkStatus();
  }
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  for (ValueId v : outputs) {
    const Type& t = g_.value(v).type;
    if (t.IsTensor()) {
      if (!t.tensor().IsComplete())
        return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(v).name, " is not known"));
      BindFresh(v);
      memories_.Edit(tensors_[*tensor_of_.Find(v)].memory).copies_storage = copies_storage;
      if (copies_storage) copies_begin_[tensors_[*tensor_of_.Find(v)].memory] = begin;
      if (!at_one.empty()) ShareAtOne(tensors_[*tensor_of_.Find(v)].memory, copied, at_one);
    }
  }
  return absl::OkStatus();
}

}  // namespace smelt
