// The program, a node at a time.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/write_rules.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
namespace {

// The geometries that a view operator, or an in-place one, gives over `base`; what they take for granted of symbols is
// added to `assumed`.
absl::StatusOr<ViewMeaning> ViewsOf(const Graph& g, NodeId n, const SymbolicGeometry& base,
                                    std::vector<Assumption>& assumed) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const OpInfo& info = GetOpInfo(call.op());
  if (info.kind == OpKind::kInplaceView) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart view, FindFunctionalCounterpart(*FindSchema(call.op())));
    call = OpCall(view.op, call.args());
  }
  SymbolicDecide decide(&g.symbols, g.symbol_hints);
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, BuildView(call, base, decide));
  assumed = decide.assumptions();
  return views;
}

}  // namespace

bool IsViewOp(OpName op) { return GetOpInfo(op).kind == OpKind::kView && op != "smelt::view"; }

OpName Functionalizer::OperatorFor(NodeId n) const {
  const Node& node = g_.node(n);
  static const OpName kCheck = OpName::Get("smelt::assert_no_overlap");
  if (node.op != kCheck) return node.op;
  const Attribute* of = node.FindAttribute(kOpened);
  const auto* name = of == nullptr ? nullptr : std::get_if<std::string>(of);
  return name == nullptr ? node.op : OpName::Get(*name);
}

absl::Status Functionalizer::ProcessBlock(BlockId b) {
  const size_t mark = cache_log_.size();
  for (NodeId n = g_.block(b).first, next; n.valid(); n = next) {
    next = g_.node(n).next;                        // what is made for n stands before it
    if (g_.node(n).op == "smelt::view") continue;  // of ShowWholeStates
    source_ = g_.node(n).source;
    if (options_.on_operand && b == g_.top()) TellOperands(n);
    const OpName op = OperatorFor(n);  // n may be another one afterwards
    absl::Status s = ProcessNode(n);
    if (!s.ok()) return At(op, s);
  }
  source_ = nullptr;
  DropCachedViewsSince(mark);
  return absl::OkStatus();
}

void Functionalizer::TellOperands(NodeId n) const {
  for (ValueId v : g_.node(n).inputs) {
    const TensorId* t = tensor_of_.Find(v);
    // What may share memory with others is a copy here, another name of theirs in the program.
    if (t != nullptr && memories_[tensors_[*t].memory].may_share.empty()) options_.on_operand(v, tensors_[*t].memory);
  }
}

bool Functionalizer::IsTensorList(const Type& t) {
  return t.kind() == TypeKind::kList &&
         (t.element().IsTensor() || (t.element().kind() == TypeKind::kOptional && t.element().element().IsTensor()));
}

bool Functionalizer::HoldsTensors(const Type& t) {
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

// Whatever its elements are: what comes out may be the very tensors.
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
  const std::string& name = op.name();
  o.absolute = absl::StrContains(name, "as_strided") || name == "aten::set_" || name == "aten::resize_" ||
               name == "aten::resize_as_";
  o.resolves = name == "aten::resolve_conj" || name == "aten::resolve_neg";
  if (name == "prim::Constant" || name == "smelt::size") {
    o.step = Step::kNone;
  } else if (name == "prim::ListConstruct" || name == "prim::TupleConstruct") {
    o.step = Step::kConstruct;
  } else if (name == "prim::ListUnpack" || name == "prim::TupleUnpack") {
    o.step = Step::kUnpack;
  } else if (name == "prim::TupleIndex" || name == "prim::unchecked_cast" || name == "aten::_unwrap_optional" ||
             GetOpInfo(op).kind == OpKind::kContainer || TakesAnyList(o.schema)) {
    o.step = Step::kElement;
  } else if (name == "smelt::cond" || name == "prim::If") {
    o.step = Step::kIf;
  } else if (name == "smelt::while_loop" || name == "prim::Loop") {
    o.step = Step::kLoop;
  } else if (name == "smelt::assert_no_overlap") {
    o.step = Step::kCheckApart;
  } else if (o.schema == nullptr) {
    o.step = Step::kUnknown;
  } else if (GetOpInfo(op).kind == OpKind::kInplaceView) {
    o.step = Step::kInPlaceView;
  } else if (name == "aten::set_") {
    o.step = Step::kSet;
  } else if (name == "aten::resize_" || name == "aten::resize_as_") {
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
  if (op.step == Step::kUnknown) return absl::UnimplementedError("no such operator is known");
  SMELT_RETURN_IF_ERROR(CheckTypesHold(n));
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
  if (g_.IsParam(def) || g_.node(def).op != "prim::Constant") return absl::OkStatus();
  return absl::UnimplementedError("a write to a constant tensor, which the next call would see");
}

absl::Status Functionalizer::CheckNoOtherName(TensorId changed) const {
  if (memories_[tensors_[changed].memory].may_share.empty()) return absl::OkStatus();
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
  if (g_.node(n).op.full() == "aten::add.t") {
    SMELT_ASSIGN_OR_RETURN(const std::vector<TensorId> more, ElementsOf(inputs[1]));
    among.insert(among.end(), more.begin(), more.end());
    tensor_lists_[out] = among;
    return absl::OkStatus();
  }
  if (name == "aten::slice" || name == "aten::list" || name == "aten::copy") {
    if (name != "aten::slice") {
      tensor_lists_[out] = among;
      return absl::OkStatus();
    }
    const auto taken = SlicedIndices(g_, inputs, among.size());
    if (!taken) return absl::UnimplementedError("a part of a list that is not known");
    std::vector<TensorId>& part = tensor_lists_[out];
    for (size_t i : *taken) part.push_back(among[i]);
    return absl::OkStatus();
  }
  const bool element = name == "aten::__getitem__" || name == "prim::TupleIndex";
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
  absl::flat_hash_set<MemoryId> seen;
  for (TensorId t : among) {
    if (seen.insert(tensors_[t].memory).second) MayShare(copy, tensors_[t].memory);
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessView(NodeId n, const Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId base, TensorOf(g_.node(n).inputs[0]));
  const ValueId out = g_.node(n).outputs[0];
  const std::string& name = g_.node(n).op.name();
  const bool complex = IsComplex(tensors_[base].geometry.dtype);
  const bool negates = name == "aten::_neg_view";
  if (negates || (complex && (name == "aten::_conj" || name == "aten::conj"))) {
    TensorState seen = tensors_[base];
    bool& lazily = negates ? seen.negated : seen.conjugated;
    lazily = !lazily;
    tensors_.push_back(std::move(seen));
    tensor_of_[out] = static_cast<TensorId>(tensors_.size()) - 1;
    return absl::OkStatus();
  }
  if (tensors_[base].conjugated && (name == "aten::view_as_real" || g_.node(n).op.full() == "aten::view.dtype")) {
    return absl::FailedPreconditionError(
        absl::StrCat(name.substr(name.find("::") + 2),
                     " doesn't work on unresolved conjugated tensors.  To resolve the "
                     "conjugate tensor so you can view it as real, use "
                     "self.resolve_conj(); however, be warned that the resulting tensor "
                     "will NOT alias the original."));
  }
  if (op.resolves) {
    // The tensor itself where there is nothing to resolve, else a copy.
    if (!(name == "aten::resolve_conj" ? tensors_[base].conjugated : tensors_[base].negated)) {
      tensor_of_[out] = base;
      return absl::OkStatus();
    }
    MemoryState copy;
    copy.version = copy.initial = Read(base, n);
    copy.nominal = GeometryOf(g_.value(copy.version).type.tensor());
    const SymbolicGeometry geometry = copy.nominal;
    tensor_of_[out] = NewTensor(NewMemory(std::move(copy)), geometry);
    return absl::OkStatus();
  }
  const MemoryId m = tensors_[base].memory;
  KnownView* const known = KnownViewOf(n, op, base);
  if (known != nullptr && known->base == base && known->op == g_.node(n).op &&
      std::equal(known->inputs.begin(), known->inputs.end(), g_.node(n).inputs.begin(), g_.node(n).inputs.end())) {
    tensor_of_[out] = NewTensor(m, known->geometry, tensors_[base].home);
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, op, base));
  if (g_.node(n).op == "aten::select.int") AssertSelected(n, base);
  if (known != nullptr) {
    const auto& inputs = g_.node(n).inputs;
    *known = {g_.node(n).op, base, {inputs.begin(), inputs.end()}, views.outputs[0]};
  }
  // The imaginary parts of conjugates are negated, the real parts are what they are.
  bool conjugated = tensors_[base].conjugated, negated = tensors_[base].negated;
  if (conjugated && (name == "aten::imag" || name == "aten::real")) {
    conjugated = false;
    negated = name == "aten::imag";
  }
  if (g_.value(out).type.IsTensor()) {
    tensor_of_[out] = NewTensor(m, std::move(views.outputs[0]), tensors_[base].home);
    tensors_.back().conjugated = conjugated;
    tensors_.back().negated = negated;
  } else {
    std::vector<TensorId>& list = tensor_lists_[out];
    for (SymbolicGeometry& v : views.outputs) {
      list.push_back(NewTensor(m, std::move(v), tensors_[base].home));
      tensors_.back().conjugated = conjugated;
      tensors_.back().negated = negated;
    }
  }
  return absl::OkStatus();
}

Functionalizer::KnownView* Functionalizer::KnownViewOf(NodeId n, const Operator& op, TensorId base) {
  const Node& node = g_.node(n);
  const TensorState& tensor = tensors_[base];
  if (op.absolute || tensor.changed || tensor.conjugated || tensor.negated || node.outputs.size() != 1 ||
      !g_.value(node.outputs[0]).type.IsTensor())
    return nullptr;
  static const OpName kConstant = OpName::Get("prim::Constant");
  uint64_t hash = static_cast<uint64_t>(base);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (g_.node(g_.value(node.inputs[i]).def).op != kConstant) return nullptr;
    hash = (hash ^ node.inputs[i].index) * 0x9E3779B97F4A7C15u;
  }
  return &known_views_[hash >> 56];
}

void Functionalizer::AssertSelected(NodeId n, TensorId base) {
  const ValueId index = g_.node(n).inputs[2];
  const std::optional<Expr> e = GetIntExpr(g_, index);
  const std::optional<int64_t> dim = GetIntExpr(g_, g_.node(n).inputs[1]).value_or(Expr::Symbol("?")).Constant();
  if (!e || !dim || !HasDataSymbols(*e)) return;
  const SymbolicGeometry& g = tensors_[base].geometry;
  const Expr size = g.sizes[*dim < 0 ? *dim + static_cast<int64_t>(g.sizes.size()) : *dim];
  if (g_.symbols.LessOrEqual(0, *e) == true && g_.symbols.Less(*e, size) == true) return;
  auto insert = [&](const char* op, std::vector<ValueId> args, std::vector<Type> types) {
    const NodeId made = g_.InsertBefore(n, OpName::Get(op), args, std::move(types));
    g_.SetSource(made, source_);
    return made;
  };
  auto number = [&](const Expr& of) {
    const ValueId v = InsertSize(g_, n, of);
    g_.SetSource(g_.value(v).def, source_);
    return v;
  };
  for (const auto& [op, bound] :
       {std::pair("aten::ge.int", number(Expr(0) - size)), std::pair("aten::lt.int", number(size))}) {
    const ValueId holds = g_.node(insert(op, {index, bound}, {Type::Bool()})).outputs[0];
    insert("aten::_assert_scalar", {holds, InsertConstant(g_, n, std::string("select(): index out of range"))}, {});
  }
}

absl::StatusOr<ViewMeaning> Functionalizer::ViewsOfTensor(NodeId n, const Operator& op, TensorId base) {
  std::vector<Assumption> assumed;
  ViewMeaning views;
  if (op.absolute && memories_[tensors_[base].memory].copies_storage)
    return absl::UnimplementedError("an absolute view of what copies its operand's storage");
  if (op.absolute && memories_[tensors_[base].memory].origin == MemoryState::Origin::kArgument) {
    const Expr offset = ArgumentOffset(base);
    SymbolicGeometry geometry = tensors_[base].geometry;
    geometry.offset = geometry.offset + offset;
    SMELT_ASSIGN_OR_RETURN(views, ViewsOf(g_, n, geometry, assumed));
    for (SymbolicGeometry& v : views.outputs) v.offset = v.offset - offset;
  } else {
    SMELT_ASSIGN_OR_RETURN(views, ViewsOf(g_, n, tensors_[base].geometry, assumed));
  }
  for (const Assumption& a : assumed) SMELT_RETURN_IF_ERROR(Assert(a, n));
  return views;
}

absl::Status Functionalizer::Assert(const Assumption& a, NodeId anchor) {
  if (HasDataSymbols(a.a) || HasDataSymbols(a.b)) return absl::OkStatus();  // that is seen when it runs
  if (!asserted_.insert(a.ToString()).second) return absl::OkStatus();
  // Of a call that takes another branch it may be wrong.
  if (block_depth_ > 0)
    return absl::UnimplementedError(absl::StrCat("a view that is right only where ", a.ToString(), ", in a branch"));
  const Expr d = a.b - a.a;
  Expr holds;  // not zero
  switch (a.relation) {
    case Assumption::Relation::kEqual:
      holds = Max(Expr(1) - d * d, 0);
      break;
    case Assumption::Relation::kNotEqual:
      holds = d;
      break;
    case Assumption::Relation::kLess:
      holds = Max(d, 0);
      break;
    case Assumption::Relation::kLessOrEqual:
      holds = Max(d + 1, 0);
      break;
  }
  const NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::assert_size"), {}, {});
  g_.SetAttribute(n, "value", holds);
  g_.SetAttribute(n, "message", absl::StrCat("the sizes of the call are out of range: ", a.ToString(), " is expected"));
  g_.SetSource(n, source_);
  return absl::OkStatus();
}

Expr Functionalizer::ArgumentOffset(TensorId t) const {
  const MemoryState& m = memories_[tensors_[t].memory];
  const int d = tensors_[t].home >= 0 ? tensors_[t].home : DistinctOf(m.index);
  const Expr offset = Expr::Symbol(absl::StrCat(argument_names_.at(d), ".offset"));
  const int item = ItemSize(tensors_[t].geometry.dtype), argument_item = ItemSize(initial_geometry_.at(d).dtype);
  return argument_item >= item ? offset * (argument_item / item) : FloorDiv(offset, item / argument_item);
}

Expr Functionalizer::BeginInStorage(TensorId t) const {
  const TensorState& tensor = tensors_[t];
  if (memories_[tensor.memory].origin == MemoryState::Origin::kArgument)
    return tensor.geometry.offset + ArgumentOffset(t);
  const auto copied = copies_begin_.find(tensor.memory);
  return tensor.geometry.offset + (copied == copies_begin_.end() ? Expr(0) : copied->second);
}

int Functionalizer::DistinctOf(int memory) const {
  const auto& of = result_.convention.overlaps.memory_of;
  for (size_t d = 0; d < of.size(); ++d) {
    if (of[d].value() == memory) return static_cast<int>(d);
  }
  return -1;
}

absl::Status Functionalizer::ProcessInPlaceView(NodeId n, const Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(g_.node(n).inputs[0]));
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, op, t));
  if (block_depth_ > 0) return absl::UnimplementedError("a change of geometry inside a branch or loop");
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(t));
  tensors_[t].geometry = std::move(views.outputs[0]);
  tensors_[t].changed = true;
  ForgetChecks(t);
  ++result_.mutations_removed;
  if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = t;
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessSet(NodeId n) {
  const Node& node = g_.node(n);
  if (block_depth_ > 0) return absl::UnimplementedError("set_ inside a branch or loop");
  SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(node.inputs[0]));
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(self));
  const std::string& overload = node.op.overload();
  if (overload == "source_Tensor" || overload == "source_Tensor_storage_offset") {
    SMELT_ASSIGN_OR_RETURN(TensorId source, TensorOf(node.inputs[1]));
    if (memories_[tensors_[self].memory].shared || memories_[tensors_[source].memory].shared)
      return absl::UnimplementedError("set_ among arguments that may share memory");
    TensorState state = tensors_[source];
    if (overload == "source_Tensor_storage_offset") {
      std::optional<Expr> offset = GetIntExpr(g_, node.inputs[2]);
      auto sizes = GetIntListExpr(g_, node.inputs[3]);
      auto strides = GetIntListExpr(g_, node.inputs[4]);
      if (!offset || !sizes) return absl::UnimplementedError("set_ with sizes known only at run time");
      state.geometry.offset = *offset;
      if (memories_[state.memory].origin == MemoryState::Origin::kArgument) {
        state.geometry.offset = *offset - ArgumentOffset(source);
      }
      state.geometry.sizes = *sizes;
      state.geometry.strides = strides && strides->size() == sizes->size() ? *strides : ContiguousStrides(*sizes);
    }
    tensors_[self] = std::move(state);
    tensors_[self].changed = true;
    ForgetChecks(self);
  } else if (overload.empty()) {
    SymbolicGeometry empty{tensors_[self].geometry.dtype, {0}, {1}, 0};
    MemoryState m;
    m.nominal = empty;
    m.version = FreshContents(n, empty);
    tensors_[self] = {NewMemory(std::move(m)), -1, empty};
    tensors_[self].changed = true;
    ForgetChecks(self);
  } else {
    return absl::UnimplementedError("set_ from a storage");
  }
  ++result_.mutations_removed;
  if (!node.outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessResize(NodeId n) {
  const Node& node = g_.node(n);
  SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(node.inputs[0]));
  std::optional<std::vector<Expr>> sizes;
  if (node.op.name() == "aten::resize_as_") {
    SMELT_ASSIGN_OR_RETURN(TensorId like, TensorOf(node.inputs[1]));
    sizes = tensors_[like].geometry.sizes;
  } else {
    sizes = GetIntListExpr(g_, node.inputs[1]);
  }
  if (!sizes) return absl::UnimplementedError("resize_ to sizes known only at run time");
  SMELT_RETURN_IF_ERROR(Resize(self, *sizes, ContiguousStrides(*sizes), n));
  ++result_.mutations_removed;
  if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
  return absl::OkStatus();
}

absl::Status Functionalizer::Resize(TensorId self, const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                                    NodeId anchor) {
  SymbolicGeometry g = tensors_[self].geometry;
  if (g.sizes == sizes) return absl::OkStatus();
  if (block_depth_ > 0) return absl::UnimplementedError("a change of size inside a branch or loop");
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(self));
  if (memories_[tensors_[self].memory].shared)
    return absl::UnimplementedError("resize_ of an argument that may share its storage with another");
  g.sizes = sizes;
  g.strides = strides;
  MemoryState& m = memories_[tensors_[self].memory];
  const Expr need = g.offset + NumElements(g);
  const Expr have = m.nominal.offset + NumElements(m.nominal);
  const bool dense = IsDense(m.nominal, g_.symbols) && m.nominal.dtype == g.dtype;
  std::optional<bool> fits = dense ? g_.symbols.LessOrEqual(need, have) : std::nullopt;
  if (!fits.has_value()) return absl::UnimplementedError("resize_ of a tensor whose storage's size is not known");
  // What lies behind its operand in the storage has been copied too.
  if (!*fits && m.copies_storage)
    return absl::UnimplementedError("resize_ that grows a copy of its operand's whole storage");
  if (!*fits) {
    // The storage grows: the same elements, then new ones. Views of it stay on it.
    if (m.nominal.offset != Expr(0)) return absl::UnimplementedError("resize_ that grows a tensor with an offset");
    SymbolicGeometry flat_new{g.dtype, {need}, {1}, 0};
    SymbolicGeometry flat_old{g.dtype, {NumElements(m.nominal)}, {1}, 0};
    ValueId base = FreshContents(anchor, flat_new);
    ValueId old = g_.node(InsertView(anchor, m.version, flat_old)).outputs[0];
    m.version = g_.node(InsertWrite(anchor, base, old, flat_old)).outputs[0];
    m.nominal = flat_new;
    m.resized = true;
    ++m.generation;
  }
  tensors_[self].geometry = g;
  tensors_[self].changed = true;
  ForgetChecks(self);
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
  NodeId n = g_.InsertBefore(anchor, OpName::Get("prim::ListConstruct"), elements, {g_.value(list).type});
  g_.SetSource(n, source_);
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
    for (size_t d = 0; d < of.sizes.size() && g_.node(n).op.name() == "aten::as_strided_scatter"; ++d) {
      if (of.strides[d] == Expr(0) && of.sizes[d] != Expr(1))
        return absl::UnimplementedError("a copy with a view of memory that several elements share");
    }
  }
  SMELT_RETURN_IF_ERROR(ReadInputs(n, n));
  if (!g_.symbol_hints.empty()) SMELT_RETURN_IF_ERROR(AssertLayoutsHold(n));
  const std::string& name = g_.node(n).op.name();
  if (name == "aten::as_strided_scatter" && begin != Expr(0)) {
    // Counted from the storage's first element; a value begins with its own.
    if (const auto offset = GetIntExpr(g_, g_.node(n).inputs[4])) {
      const ValueId own = InsertSize(g_, n, *offset - begin);
      g_.SetSource(g_.value(own).def, source_);
      g_.SetInput(n, 4, own);
    }
  }
  // A copy is a value that already is: contents are immutable. Only its layout may need work.
  if (name == "aten::clone" || name == "aten::lift_fresh_copy" || name == "aten::contiguous" ||
      name == "aten::alias_copy" || name == "aten::detach_copy") {
    const ValueId out = g_.node(n).outputs[0];
    if (!g_.value(out).type.tensor().IsComplete())
      return absl::UnimplementedError(absl::StrCat("the type of %", g_.value(out).name, " is not known"));
    const SymbolicGeometry g = GeometryOf(g_.value(out).type.tensor());
    if (!g_.symbol_hints.empty() && !IsDense(g, g_.symbols))
      return absl::UnimplementedError("a copy whose layout hangs on the sizes");
    MemoryState m;
    m.nominal = g;
    m.version = m.initial = Own(n, g_.node(n).inputs[0], g.strides);
    m.layout_open = aliased >= 0;
    const MemoryId copy = NewMemory(std::move(m));
    if (aliased >= 0) MayShare(copy, aliased);
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
      memories_.back().copies_storage = copies_storage;
      if (copies_storage) copies_begin_[tensors_[*tensor_of_.Find(v)].memory] = begin;
      if (!at_one.empty()) ShareAtOne(tensors_[*tensor_of_.Find(v)].memory, copied, at_one);
    }
  }
  return absl::OkStatus();
}

namespace {

// Whether results have the same types with the one operand as with the other.
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
    g_.SetSource(f, source_);
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
  static const auto* const kReadConjugates = new absl::flat_hash_set<std::string>{
      "aten::mm",      "aten::addmm",    "aten::addmm_",         "aten::bmm",
      "aten::baddbmm", "aten::baddbmm_", "aten::conj_physical_", "aten::conj_physical"};
  return tensors_[t].negated || (tensors_[t].conjugated && !kReadConjugates->contains(op.name()));
}

bool Functionalizer::IsMaterialized(OpName op, ValueId v) {
  const TensorId* t = tensor_of_.Find(v);
  return t != nullptr && IsMaterialized(op, *t);
}

absl::Status Functionalizer::ProcessWrite(NodeId n, Operator& op) {
  ++result_.mutations_removed;
  const FunctionSchema& schema = *op.schema;
  const absl::InlinedVector<ValueId, 4> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  if (op.counterpart == nullptr && schema.op.name() == "aten::copy_") {
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
  if (op.counterpart == nullptr) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart found, FindFunctionalCounterpart(schema));
    op.counterpart = std::make_unique<FunctionalCounterpart>(std::move(found));
  }
  const FunctionalCounterpart& counterpart = *op.counterpart;
  absl::InlinedVector<ValueId, 4> args;
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
  absl::InlinedVector<TensorId, 2> written;
  for (const FunctionalCounterpart::Result& r : counterpart.results) {
    if (r.argument < 0) {
      written.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(inputs[r.argument]));
    written.push_back(t);
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
  SharedPlaces shared = WritesExpanded(schema.op) ? SharedPlaces::kOneValue : SharedPlaces::kRefused;
  if (written.size() == 1 && written[0] >= 0 && FillsSomeElements(schema.op, g_, inputs)) {
    shared = SharedPlaces::kInOrder;
    const SymbolicGeometry& to = tensors_[written[0]].geometry;
    for (size_t d = 0; d < to.sizes.size(); ++d) {
      if (to.strides[d] == Expr(0) && g_.symbols.Less(Expr(1), to.sizes[d]) == true)
        return absl::UnimplementedError("one value written to some elements of expanded memory");
    }
  }
  // What the old node returned are the written tensors, or the results that are not written.
  const absl::InlinedVector<ValueId, 2> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  SMELT_ASSIGN_OR_RETURN(const NodeId f, MakePure(n, op, args, written));
  const bool rewritten = f == n;
  if (rewritten) {
    // What follows comes after it.
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
    const std::optional<DType> computed = g_.value(results[i]).type.tensor().dtype;
    const std::string refused =
        computed ? RefusedCast(counterpart.op, *computed, tensors_[written[i]].geometry.dtype) : "";
    if (!refused.empty()) return absl::FailedPreconditionError(refused);
    if (counterpart.results[i].may_resize) {
      const std::vector<Expr> sizes = *g_.value(results[i]).type.tensor().sizes;
      if (counterpart.fills && tensors_[written[i]].geometry.sizes.size() != sizes.size())
        return absl::UnimplementedError("a range into a tensor of other dims");
      const std::vector<Expr> strides =
          ResizesContiguously(schema.op) ? ContiguousStrides(sizes) : *g_.value(results[i]).type.tensor().strides;
      SMELT_RETURN_IF_ERROR(Resize(written[i], sizes, strides, n));
    }
    if (NeedsContiguousOut(schema.op)) {
      const SymbolicGeometry& to = tensors_[written[i]].geometry;
      if (to.strides != ContiguousStrides(to.sizes)) return absl::UnimplementedError(kNeedsContiguousOut);
    }
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
