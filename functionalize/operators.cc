#include "smelt/functionalize/operators.h"

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
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/control_flow.h"
#include "smelt/functionalize/example_layouts.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/sharing_checks.h"
#include "smelt/functionalize/view_operators.h"
#include "smelt/functionalize/write_operators.h"

namespace smelt {
namespace {

// Returns the operator that an error names: the node's, or the composite that it comes from.
OpName OperatorFor(const ProgramWalk& walk, NodeId n) {
  const Node& node = walk.g.node(n);
  static const OpName kCheck = OpName::Get(op::kSmeltAssertNoOverlap);
  if (node.op != kCheck) return node.op;
  const Attribute* of = node.FindAttribute(kOpened);
  const auto* name = of == nullptr ? nullptr : std::get_if<std::string>(of);
  return name == nullptr ? node.op : OpName::Get(*name);
}

// Tells options.on_operand.
void TellOperands(const ProgramWalk& walk, NodeId n) {
  for (ValueId v : walk.g.node(n).inputs) {
    const TensorId* t = walk.tensor_of.Find(v);
    // A value that may share memory with others is a copy here, but another name of theirs in the program.
    if (t != nullptr && walk.sharing.IsAlone(walk.tensors[*t].memory))
      walk.options.on_operand(v, walk.tensors[*t].memory);
  }
}

// Checks that the operands' types that were used to open composites are the current types of the tensors.
absl::Status CheckTypesHold(const ProgramWalk& walk, NodeId n) {
  for (ValueId v : walk.g.node(n).inputs) {
    const TensorId* tensor = walk.tensor_of.Find(v);
    if (tensor == nullptr || !walk.tensors[*tensor].changed) continue;
    const TensorType& t = walk.g.value(v).type.tensor();
    const SymbolicGeometry& now = walk.tensors[*tensor].geometry;
    const bool strides_known = !walk.options.symbolic_strides || !walk.memories[walk.tensors[*tensor].memory].shared;
    if (*t.sizes != now.sizes || (strides_known && *t.strides != now.strides))
      return absl::UnimplementedError("a tensor whose geometry was changed through another of its names");
  }
  return absl::OkStatus();
}

absl::Status ProcessUnpack(ProgramWalk& walk, NodeId n) {
  const std::vector<ValueId> outputs(walk.g.node(n).outputs.begin(), walk.g.node(n).outputs.end());
  const ValueId list = walk.g.node(n).inputs[0];
  if (auto it = walk.tensor_lists.find(list); it != walk.tensor_lists.end()) {
    if (it->second.size() != outputs.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a list of ", it->second.size(), " is unpacked into ", outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) walk.tensor_of[outputs[i]] = it->second[i];
    return absl::OkStatus();
  }
  if (auto it = walk.lists.find(list); it != walk.lists.end()) {
    if (it->second.size() != outputs.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a list of ", it->second.size(), " is unpacked into ", outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId e = it->second[i];
      if (walk.tensor_of.contains(e)) {
        walk.tensor_of[outputs[i]] = walk.tensor_of[e];
      } else {
        walk.g.ReplaceAllUses(outputs[i], e);
      }
    }
    return absl::OkStatus();
  }
  for (ValueId v : outputs) {
    if (!walk.g.value(v).type.IsTensor()) continue;
    if (!walk.g.value(v).type.tensor().IsComplete())
      return absl::UnimplementedError(absl::StrCat("the type of %", walk.g.value(v).name, " is not known"));
    walk.BindFresh(v);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorId>> ElementsOf(const ProgramWalk& walk, ValueId list) {
  if (auto it = walk.tensor_lists.find(list); it != walk.tensor_lists.end()) return it->second;
  auto made = walk.lists.find(list);
  if (made == walk.lists.end()) return absl::UnimplementedError("a list of tensors that is not known");
  std::vector<TensorId> out;
  for (ValueId v : made->second) {
    const TensorId* t = walk.tensor_of.Find(v);
    if (t == nullptr) return absl::UnimplementedError("a list of tensors with something else in it");
    out.push_back(*t);
  }
  return out;
}

// Replaces the inputs of a pure node by values.
absl::Status ReadInputs(ProgramWalk& walk, NodeId n, NodeId anchor) {
  for (uint32_t i = 0; i < walk.g.node(n).inputs.size(); ++i) {
    const ValueId v = walk.g.node(n).inputs[i];
    if (const TensorId* t = walk.tensor_of.Find(v)) {
      const ValueId now = ReadTensor(walk, *t, anchor);
      if (now != v) {
        walk.g.SetInput(n, i, now);
        EraseUnusedView(walk, v);
      }
    } else if (IsTensorList(walk.g.value(v).type)) {
      SMELT_ASSIGN_OR_RETURN(ValueId list, ReadTensorList(walk, v, anchor));
      if (list != v) walk.g.SetInput(n, i, list);
    }
  }
  return absl::OkStatus();
}

absl::Status ProcessPure(ProgramWalk& walk, NodeId n) {
  std::vector<std::string> at_one;
  if (const auto* symbols = walk.g.node(n).FindAttribute(kAliasesAtOne)) {
    at_one = absl::StrSplit(std::get<std::string>(*symbols), ' ');
  }
  const bool may_alias = walk.g.node(n).FindAttribute(kMayAlias) != nullptr;
  const MemoryId copied =
      may_alias || !at_one.empty() ? walk.tensors[*walk.tensor_of.Find(walk.g.node(n).inputs[0])].memory : -1;
  const MemoryId aliased = may_alias ? copied : -1;
  const bool copies_storage = CopiesStorage(walk.g.node(n).op);
  Expr begin;  // of the operand in its storage, and so of the copy in its own
  if (copies_storage) {
    const TensorId self = *walk.tensor_of.Find(walk.g.node(n).inputs[0]);
    begin = BeginInStorage(walk, self);
    const SymbolicGeometry& of = walk.tensors[self].geometry;
    for (size_t d = 0; d < of.sizes.size() && walk.g.node(n).op.name() == op::kAsStridedScatter; ++d) {
      if (of.strides[d] == Expr(0) && of.sizes[d] != Expr(1))
        return absl::UnimplementedError("a copy with a view of memory that several elements share");
    }
  }
  SMELT_RETURN_IF_ERROR(ReadInputs(walk, n, n));
  if (!walk.g.symbol_hints.empty()) SMELT_RETURN_IF_ERROR(AssertLayoutsHold(walk, n));
  const std::string& name = walk.g.node(n).op.name();
  if (name == op::kAsStridedScatter && begin != Expr(0)) {
    // Counted from the storage's first element; a value begins with its own.
    if (const auto offset = GetIntExpr(walk.g, walk.g.node(n).inputs[4])) {
      const ValueId own = InsertSize(walk.g, n, *offset - begin);
      walk.g.SetSource(walk.g.value(own).def, walk.at.source);
      walk.g.SetInput(n, 4, own);
    }
  }
  // A copy is a value that already is: contents are immutable. Only its layout may need work.
  if (GetOpTraits(walk.g.node(n).op).family == OpFamily::kCopy) {
    const ValueId out = walk.g.node(n).outputs[0];
    if (!walk.g.value(out).type.tensor().IsComplete())
      return absl::UnimplementedError(absl::StrCat("the type of %", walk.g.value(out).name, " is not known"));
    const SymbolicGeometry g = GeometryOf(walk.g.value(out).type.tensor());
    if (!walk.g.symbol_hints.empty() && !IsDense(g, walk.g.symbols))
      return absl::UnimplementedError(
          absl::StrCat("a copy whose layout hangs on the sizes: ", walk.g.value(out).type.ToString()));
    MemoryState m;
    m.nominal = g;
    m.version = m.initial = OwnContents(walk, n, walk.g.node(n).inputs[0], g.strides);
    m.layout_open = aliased >= 0;
    const MemoryId copy = walk.NewMemory(std::move(m));
    if (aliased >= 0)
      walk.sharing.Join({{copy, {walk.sharing.SetOf(aliased)}}}, walk.sharing.Now(walk.memories.size()));
    if (!at_one.empty()) walk.ShareAtOne(copy, copied, at_one);
    walk.tensor_of[out] = walk.NewTensor(copy, g);
    return absl::OkStatus();
  }
  const std::vector<ValueId> outputs(walk.g.node(n).outputs.begin(), walk.g.node(n).outputs.end());
  for (ValueId v : outputs) {
    const Type& t = walk.g.value(v).type;
    if (t.IsTensor()) {
      if (!t.tensor().IsComplete())
        return absl::UnimplementedError(absl::StrCat("the type of %", walk.g.value(v).name, " is not known"));
      walk.BindFresh(v);
      walk.memories.Edit(walk.tensors[*walk.tensor_of.Find(v)].memory).copies_storage = copies_storage;
      if (copies_storage) walk.copies_begin[walk.tensors[*walk.tensor_of.Find(v)].memory] = begin;
      if (!at_one.empty()) walk.ShareAtOne(walk.tensors[*walk.tensor_of.Find(v)].memory, copied, at_one);
    }
  }
  return absl::OkStatus();
}

// Handles operators that take an element out of a list or a tuple, or rename their operand. An element at an unknown
// index is a copy that may share memory with all of them.
absl::Status ProcessElement(ProgramWalk& walk, NodeId n) {
  const std::vector<ValueId> inputs(walk.g.node(n).inputs.begin(), walk.g.node(n).inputs.end());
  const bool tensors = std::any_of(walk.g.node(n).outputs.begin(), walk.g.node(n).outputs.end(),
                                   [&](ValueId v) { return HoldsTensors(walk.g.value(v).type); });
  const FunctionSchema* schema = FindSchema(walk.g.node(n).op);
  const bool changes = schema != nullptr && schema->IsMutable();
  if (!tensors && !changes) return ProcessPure(walk, n);
  if (changes || walk.g.node(n).outputs.size() != 1 || inputs.empty())
    return absl::UnimplementedError("a list of tensors that changes");
  const ValueId out = walk.g.node(n).outputs[0];
  if (inputs.size() == 1 && walk.tensor_of.contains(inputs[0])) {
    walk.tensor_of[out] = walk.tensor_of[inputs[0]];  // another name
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<TensorId> among, ElementsOf(walk, inputs[0]));
  const std::string& name = walk.g.node(n).op.name();
  if (walk.g.node(n).op.full() == op::kAddT) {
    SMELT_ASSIGN_OR_RETURN(const std::vector<TensorId> more, ElementsOf(walk, inputs[1]));
    among.insert(among.end(), more.begin(), more.end());
    walk.tensor_lists[out] = among;
    return absl::OkStatus();
  }
  if (name == op::kSlice || name == op::kList || name == op::kCopy) {
    if (name != op::kSlice) {
      walk.tensor_lists[out] = among;
      return absl::OkStatus();
    }
    const auto taken = SlicedIndices(walk.g, inputs, among.size());
    if (!taken) return absl::UnimplementedError("a part of a list that is not known");
    std::vector<TensorId>& part = walk.tensor_lists[out];
    for (size_t i : *taken) part.push_back(among[i]);
    return absl::OkStatus();
  }
  const bool element = name == op::kDunderGetitem || name == op::kPrimTupleIndex;
  if (!element || !walk.g.value(out).type.IsTensor())
    return absl::UnimplementedError("a list of tensors that is not known");
  const std::optional<Expr> index = GetIntExpr(walk.g, inputs[1]);
  if (index && index->IsConstant()) {
    const int64_t size = static_cast<int64_t>(among.size());
    const int64_t i = *index->Constant() + (*index->Constant() < 0 ? size : 0);
    if (i < 0 || i >= size) return absl::UnimplementedError("an index outside of a list");
    walk.tensor_of[out] = among[i];
    return absl::OkStatus();
  }
  SMELT_RETURN_IF_ERROR(ProcessPure(walk, n));
  const MemoryId copy = walk.tensors[*walk.tensor_of.Find(out)].memory;
  absl::flat_hash_set<PossibleSharing::Set> elements;
  for (TensorId t : among) elements.insert(walk.sharing.SetOf(walk.tensors[t].memory));
  walk.sharing.Join({{copy, {elements.begin(), elements.end()}}}, walk.sharing.Now(walk.memories.size()));
  return absl::OkStatus();
}

absl::Status ProcessNode(ProgramWalk& walk, NodeId n) {
  const Node& node = walk.g.node(n);
  ProgramWalk::Operator& op = walk.OperatorOf(node.op);
  if (op.step == ProgramWalk::Step::kCheckApart && node.FindAttribute(kOpened) == nullptr) return ProcessPure(walk, n);
  switch (op.step) {
    case ProgramWalk::Step::kNone: {
      // A constant tensor, which views may look at.
      const ValueId v = node.outputs[0];
      if (walk.g.value(v).type.IsTensor() && walk.g.value(v).type.tensor().IsComplete()) walk.BindFresh(v);
      return absl::OkStatus();
    }
    case ProgramWalk::Step::kConstruct:
      walk.lists[node.outputs[0]] = std::vector<ValueId>(node.inputs.begin(), node.inputs.end());
      return absl::OkStatus();
    case ProgramWalk::Step::kUnpack:
      return ProcessUnpack(walk, n);
    case ProgramWalk::Step::kElement:
      return ProcessElement(walk, n);
    case ProgramWalk::Step::kIf:
      return ProcessIf(walk, n);
    case ProgramWalk::Step::kLoop:
      return ProcessLoop(walk, n);
    default:
      break;
  }
  if (!node.blocks.empty()) return absl::UnimplementedError("control flow of this kind");
  if (op.step == ProgramWalk::Step::kUnknown)
    return absl::UnimplementedError(op.schema == nullptr ? "no such operator is known"
                                                         : "an operator of the user's own");
  SMELT_RETURN_IF_ERROR(CheckTypesHold(walk, n));
  if (op.step != ProgramWalk::Step::kView && op.step != ProgramWalk::Step::kInPlaceView &&
      !walk.g.symbol_hints.empty()) {
    for (const Assumption& a : AssumedEqual(walk.g, n)) SMELT_RETURN_IF_ERROR(walk.assertions.Assert(a, n));
    for (const Assumption& a : RequiredSizes(walk.g, n)) {
      if (HasDataSymbols(a.a))
        return absl::UnimplementedError("indices beside a tensor of a size that the data decide");
      SMELT_RETURN_IF_ERROR(walk.assertions.Assert(a, n));
    }
  }
  switch (op.step) {
    case ProgramWalk::Step::kInPlaceView:
      return ProcessInPlaceView(walk, n, op);
    case ProgramWalk::Step::kSet:
      return ProcessSet(walk, n);
    case ProgramWalk::Step::kResize:
      return ProcessResize(walk, n);
    case ProgramWalk::Step::kView:
      return ProcessView(walk, n, op);
    case ProgramWalk::Step::kWrite:
      return ProcessWrite(walk, n, op);
    case ProgramWalk::Step::kCheckApart: {
      const TensorId* written = walk.tensor_of.Find(node.inputs[0]);
      if (written == nullptr) return absl::UnimplementedError("a write to what is not known to be a tensor");
      SMELT_RETURN_IF_ERROR(CheckSharing(walk, *written, node.inputs[1], OperandSharing::kApart, n));
      walk.g.Erase(n);
      return absl::OkStatus();
    }
    default:
      return ProcessPure(walk, n);
  }
}

}  // namespace

absl::Status ProcessBlock(ProgramWalk& walk, BlockId b) {
  const size_t mark = walk.cache_log.size();
  for (NodeId n = walk.g.block(b).first, next; n.valid(); n = next) {
    next = walk.g.node(n).next;                         // what is made for n stands before it
    if (walk.g.node(n).op == op::kSmeltView) continue;  // of ShowWholeStates
    walk.at.source = walk.g.node(n).source;
    if (walk.options.on_operand && b == walk.g.top()) TellOperands(walk, n);
    const OpName op = OperatorFor(walk, n);  // n may be another one afterwards
    absl::Status s = ProcessNode(walk, n);
    if (!s.ok()) return walk.At(op, s);
  }
  walk.at.source = nullptr;
  walk.DropCachedViewsSince(mark);
  return absl::OkStatus();
}

void EraseUnusedView(ProgramWalk& walk, ValueId v) {
  absl::InlinedVector<ValueId, 4> todo = {v};
  while (!todo.empty()) {
    v = todo.back();
    todo.pop_back();
    if (!walk.g.IsLive(v)) continue;
    const NodeId def = walk.g.value(v).def;
    const Node& node = walk.g.node(def);
    if (!walk.g.value(v).uses.empty() || node.outputs.size() != 1 ||
        walk.OperatorOf(node.op).step != ProgramWalk::Step::kView)
      continue;
    todo.insert(todo.end(), node.inputs.begin(), node.inputs.end());
    walk.g.Erase(def);
  }
}

absl::Status CheckNoConstant(const ProgramWalk& walk, TensorId written) {
  const ValueId initial = walk.memories[walk.tensors[written].memory].initial;
  if (!initial.valid() || !walk.g.IsLive(initial)) return absl::OkStatus();
  const NodeId def = walk.g.value(initial).def;
  if (walk.g.IsParam(def) || walk.g.node(def).op != op::kPrimConstant) return absl::OkStatus();
  return absl::UnimplementedError("a write to a constant tensor, which the next call would see");
}

absl::Status CheckNoOtherName(const ProgramWalk& walk, TensorId changed) {
  if (walk.sharing.IsAlone(walk.tensors[changed].memory)) return absl::OkStatus();
  return absl::UnimplementedError("a change of geometry of what may be another tensor, by a branch or a loop");
}

absl::StatusOr<ValueId> ReadTensorList(ProgramWalk& walk, ValueId list, NodeId anchor) {
  std::vector<ValueId> elements;
  if (auto it = walk.tensor_lists.find(list); it != walk.tensor_lists.end()) {
    for (TensorId t : it->second) elements.push_back(ReadTensor(walk, t, anchor));
  } else if (auto it = walk.lists.find(list); it != walk.lists.end()) {
    bool same = true;
    for (ValueId e : it->second) {
      const TensorId* t = walk.tensor_of.Find(e);
      elements.push_back(t == nullptr ? e : ReadTensor(walk, *t, anchor));
      same = same && elements.back() == e;
    }
    if (same) return list;
  } else {
    return list;
  }
  NodeId n = walk.g.InsertBefore(anchor, OpName::Get(op::kPrimListConstruct), elements, {walk.g.value(list).type});
  walk.g.SetSource(n, walk.at.source);
  return walk.g.node(n).outputs[0];
}

}  // namespace smelt
