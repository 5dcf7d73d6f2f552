// The program, a node at a time.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
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

bool IsViewOp(const Graph& g, NodeId n) {
  return GetOpInfo(g.node(n).op).kind == OpKind::kView && g.node(n).op != "smelt::view";
}

absl::Status Functionalizer::ProcessBlock(BlockId b) {
  const size_t mark = cache_log_.size();
  for (NodeId n = g_.block(b).first, next; n.valid(); n = next) {
    next = g_.node(n).next;                        // what is made for n stands before it
    if (g_.node(n).op == "smelt::view") continue;  // of ShowWholeStates
    source_ = g_.node(n).source;
    if (options_.on_operand && b == g_.top()) TellOperands(n);
    absl::Status s = ProcessNode(n);
    if (!s.ok()) return At(n, s);
  }
  source_ = nullptr;
  DropCachedViewsSince(mark);
  return absl::OkStatus();
}

void Functionalizer::TellOperands(NodeId n) const {
  for (ValueId v : g_.node(n).inputs) {
    auto it = tensor_of_.find(v);
    if (it != tensor_of_.end()) options_.on_operand(v, tensors_[it->second].memory);
  }
}

bool Functionalizer::IsTensorList(const Type& t) {
  return t.kind() == TypeKind::kList &&
         (t.element().IsTensor() || (t.element().kind() == TypeKind::kOptional && t.element().element().IsTensor()));
}

absl::Status Functionalizer::ProcessNode(NodeId n) {
  static const OpName kConstant = OpName::Get("prim::Constant");
  const OpName op = g_.node(n).op;
  if (op == kConstant) return absl::OkStatus();
  const std::string& name = op.name();
  if (name == "smelt::size") return absl::OkStatus();
  if (name == "prim::ListConstruct" || name == "prim::TupleConstruct") {
    lists_[g_.node(n).outputs[0]] = std::vector<ValueId>(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    return absl::OkStatus();
  }
  if (name == "prim::ListUnpack" || name == "prim::TupleUnpack") return ProcessUnpack(n);
  if (name == "smelt::cond" || name == "prim::If") return ProcessIf(n);
  if (name == "smelt::while_loop" || name == "prim::Loop") return ProcessLoop(n);
  if (!g_.node(n).blocks.empty()) return absl::UnimplementedError("control flow of this kind");
  const FunctionSchema* schema = FindSchema(op);
  if (schema == nullptr) return absl::UnimplementedError("no such operator is known");
  SMELT_RETURN_IF_ERROR(CheckTypesHold(n));
  if (GetOpInfo(op).kind == OpKind::kInplaceView) return ProcessInPlaceView(n);
  if (name == "aten::set_") return ProcessSet(n);
  if (name == "aten::resize_" || name == "aten::resize_as_") return ProcessResize(n);
  if (IsViewOp(g_, n)) return ProcessView(n);
  if (schema->IsMutable()) return ProcessWrite(n, *schema);
  return ProcessPure(n);
}

absl::Status Functionalizer::CheckTypesHold(NodeId n) const {
  for (ValueId v : g_.node(n).inputs) {
    auto it = tensor_of_.find(v);
    if (it == tensor_of_.end() || !tensors_[it->second].changed) continue;
    const TensorType& t = g_.value(v).type.tensor();
    const SymbolicGeometry& now = tensors_[it->second].geometry;
    const bool strides_known = !options_.symbolic_strides || !memories_[tensors_[it->second].memory].shared;
    if (*t.sizes != now.sizes || (strides_known && *t.strides != now.strides))
      return absl::UnimplementedError("a tensor whose geometry was changed through another of its names");
  }
  return absl::OkStatus();
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
    if (g_.value(v).type.IsTensor()) BindFresh(v);
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessView(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(TensorId base, TensorOf(g_.node(n).inputs[0]));
  const ValueId out = g_.node(n).outputs[0];
  const std::string& name = g_.node(n).op.name();
  const bool complex = IsComplex(tensors_[base].geometry.dtype);
  if (complex && (name == "aten::_conj" || name == "aten::conj")) {
    TensorState conjugate = tensors_[base];
    conjugate.conjugated = !conjugate.conjugated;
    tensors_.push_back(std::move(conjugate));
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
  if (name == "aten::resolve_conj" || name == "aten::resolve_neg") {
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
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, base));
  const MemoryId m = tensors_[base].memory;
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

absl::StatusOr<ViewMeaning> Functionalizer::ViewsOfTensor(NodeId n, TensorId base) {
  SymbolicGeometry geometry = tensors_[base].geometry;
  const bool absolute = absl::StrContains(g_.node(n).op.name(), "as_strided") &&
                        memories_[tensors_[base].memory].origin == MemoryState::Origin::kArgument;
  const Expr offset = absolute ? ArgumentOffset(base) : Expr(0);
  geometry.offset = geometry.offset + offset;
  std::vector<Assumption> assumed;
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOf(g_, n, geometry, assumed));
  for (const Assumption& a : assumed) SMELT_RETURN_IF_ERROR(Assert(a, n));
  for (SymbolicGeometry& v : views.outputs) v.offset = v.offset - offset;
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

int Functionalizer::DistinctOf(int memory) const {
  const auto& of = result_.convention.overlaps.memory_of;
  for (size_t d = 0; d < of.size(); ++d) {
    if (of[d].value() == memory) return static_cast<int>(d);
  }
  return -1;
}

absl::Status Functionalizer::ProcessInPlaceView(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(g_.node(n).inputs[0]));
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, t));
  if (block_depth_ > 0) return absl::UnimplementedError("a change of geometry inside a branch or loop");
  tensors_[t].geometry = std::move(views.outputs[0]);
  tensors_[t].changed = true;
  ++result_.mutations_removed;
  if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = t;
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessSet(NodeId n) {
  const Node& node = g_.node(n);
  if (block_depth_ > 0) return absl::UnimplementedError("set_ inside a branch or loop");
  SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(node.inputs[0]));
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
  } else if (overload.empty()) {
    SymbolicGeometry empty{tensors_[self].geometry.dtype, {0}, {1}, 0};
    MemoryState m;
    m.nominal = empty;
    m.version = FreshContents(n, empty);
    tensors_[self] = {NewMemory(std::move(m)), -1, empty};
    tensors_[self].changed = true;
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
  SMELT_RETURN_IF_ERROR(Resize(self, *sizes, n));
  ++result_.mutations_removed;
  if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
  return absl::OkStatus();
}

absl::Status Functionalizer::Resize(TensorId self, const std::vector<Expr>& sizes, NodeId anchor) {
  SymbolicGeometry g = tensors_[self].geometry;
  if (g.sizes == sizes) return absl::OkStatus();
  if (block_depth_ > 0) return absl::UnimplementedError("a change of size inside a branch or loop");
  if (memories_[tensors_[self].memory].shared)
    return absl::UnimplementedError("resize_ of an argument that may share its storage with another");
  g.sizes = sizes;
  g.strides = ContiguousStrides(sizes);
  MemoryState& m = memories_[tensors_[self].memory];
  const Expr need = g.offset + NumElements(g);
  const Expr have = m.nominal.offset + NumElements(m.nominal);
  const bool dense = IsDense(m.nominal, g_.symbols) && m.nominal.dtype == g.dtype;
  std::optional<bool> fits = dense ? g_.symbols.LessOrEqual(need, have) : std::nullopt;
  if (!fits.has_value()) return absl::UnimplementedError("resize_ of a tensor whose storage's size is not known");
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
  return absl::OkStatus();
}

absl::Status Functionalizer::ReadInputs(NodeId n, NodeId anchor) {
  for (uint32_t i = 0; i < g_.node(n).inputs.size(); ++i) {
    const ValueId v = g_.node(n).inputs[i];
    if (auto it = tensor_of_.find(v); it != tensor_of_.end()) {
      const ValueId now = Read(it->second, anchor);
      if (now != v) g_.SetInput(n, i, now);
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
      auto t = tensor_of_.find(e);
      elements.push_back(t == tensor_of_.end() ? e : Read(t->second, anchor));
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
  const MemoryId aliased =
      g_.node(n).FindAttribute(kMayAlias) != nullptr ? tensors_[tensor_of_.at(g_.node(n).inputs[0])].memory : -1;
  SMELT_RETURN_IF_ERROR(ReadInputs(n, n));
  const std::string& name = g_.node(n).op.name();
  // A copy is a value that already is: contents are immutable. Only its layout may need work.
  if (name == "aten::clone" || name == "aten::lift_fresh_copy" || name == "aten::contiguous" ||
      name == "aten::alias_copy" || name == "aten::detach_copy") {
    const ValueId out = g_.node(n).outputs[0];
    const SymbolicGeometry g = GeometryOf(g_.value(out).type.tensor());
    MemoryState m;
    m.nominal = g;
    m.version = m.initial = Own(n, g_.node(n).inputs[0], g.strides);
    m.layout_open = aliased >= 0;
    const MemoryId copy = NewMemory(std::move(m));
    if (aliased >= 0) MayShare(copy, aliased);
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

absl::Status Functionalizer::InferResults(NodeId n) {
  const Node& node = g_.node(n);
  Inferred& last = inferred_[node.op];
  bool same = last.operands.size() == node.inputs.size() && last.types.size() == node.outputs.size();
  for (size_t i = 0; same && i < node.inputs.size(); ++i) {
    same = Alike(g_, last.operands[i], last.operand_types[i], node.inputs[i]);
  }
  if (same && !last.types.empty()) {
    for (size_t i = 0; i < last.types.size(); ++i) {
      if (g_.value(node.outputs[i]).type != last.types[i]) g_.SetType(node.outputs[i], last.types[i]);
    }
    return absl::OkStatus();
  }
  last = Inferred();
  SMELT_RETURN_IF_ERROR(InferNode(g_, n));
  // Numbers among the results may be known by more than their types.
  for (ValueId v : node.outputs) {
    if (!g_.value(v).type.IsTensor()) return absl::OkStatus();
  }
  for (ValueId v : node.outputs) last.types.push_back(g_.value(v).type);
  for (ValueId v : node.inputs) {
    last.operands.push_back(v);
    last.operand_types.push_back(g_.value(v).type);
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::ProcessWrite(NodeId n, const FunctionSchema& schema) {
  ++result_.mutations_removed;
  const std::string& name = schema.op.name();
  const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
  if (name == "aten::copy_") {
    SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(inputs[0]));
    SMELT_ASSIGN_OR_RETURN(TensorId source, TensorOf(inputs[1]));
    // A tensor copied to itself PyTorch leaves alone, even where it could not be written.
    if (self != source) {
      SMELT_RETURN_IF_ERROR(CheckSharing(self, inputs[1], OperandSharing::kNotPartly, n));
      SMELT_RETURN_IF_ERROR(Write(self, Read(source, n), n));
    }
    if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
    return absl::OkStatus();
  }
  auto known = counterparts_.find(schema.op);
  if (known == counterparts_.end()) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart found, FindFunctionalCounterpart(schema));
    known = counterparts_.emplace(schema.op, std::make_unique<FunctionalCounterpart>(std::move(found))).first;
  }
  const FunctionalCounterpart& counterpart = *known->second;
  std::vector<ValueId> args;
  for (int k : counterpart.arguments) {
    if (k < 0) {
      args.push_back(InsertConstant(g_, n, std::monostate()));
      continue;
    }
    ValueId v = inputs[k];
    if (auto it = tensor_of_.find(v); it != tensor_of_.end()) {
      v = Read(it->second, n);
    } else if (IsTensorList(g_.value(v).type)) {
      SMELT_ASSIGN_OR_RETURN(v, ReadList(v, n));
    }
    args.push_back(v);
  }
  std::vector<TensorId> written;
  for (const FunctionalCounterpart::Result& r : counterpart.results) {
    if (r.argument < 0) {
      written.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(inputs[r.argument]));
    written.push_back(t);
  }
  for (size_t r = 0; r < written.size() && counterpart.operands != OperandSharing::kAny; ++r) {
    if (written[r] < 0) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (static_cast<int>(i) != counterpart.results[r].argument)
        SMELT_RETURN_IF_ERROR(CheckSharing(written[r], inputs[i], counterpart.operands, n));
    }
  }
  std::vector<Type> types;
  for (size_t i = 0; i < counterpart.results.size(); ++i) {
    types.push_back(written[i] >= 0
                        ? Type::Tensor(tensors_[written[i]].geometry.dtype, tensors_[written[i]].geometry.sizes)
                        : Type::Tensor());
  }
  NodeId f = g_.InsertBefore(n, counterpart.op, args, types);
  g_.SetSource(f, source_);
  SMELT_RETURN_IF_ERROR(InferResults(f));
  const std::vector<ValueId> results(g_.node(f).outputs.begin(), g_.node(f).outputs.end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (written[i] < 0) {
      BindFresh(results[i]);
      continue;
    }
    own_.insert(results[i]);
    if (counterpart.results[i].may_resize) {
      const std::vector<Expr> sizes = *g_.value(results[i]).type.tensor().sizes;
      SMELT_RETURN_IF_ERROR(Resize(written[i], sizes, n));
    }
    SMELT_RETURN_IF_ERROR(Write(written[i], results[i], n, WritesExpanded(schema.op)));
  }
  // What the old node returned: the written tensors, or the results that are not written.
  const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!g_.value(outputs[i]).type.IsTensor()) continue;
    const int r = counterpart.result_of_output[i];
    tensor_of_[outputs[i]] = written[r] >= 0 ? written[r] : tensor_of_[results[r]];
  }
  return absl::OkStatus();
}

}  // namespace smelt
