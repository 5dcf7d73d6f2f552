// Operators that give tensors other geometry: views, in-place views, set_, resize_.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
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

// Behind the last element.
Expr EndInBytes(const SymbolicGeometry& g) {
  Expr end = g.offset + 1;
  for (size_t d = 0; d < g.sizes.size(); ++d) end = end + (g.sizes[d] - 1) * g.strides[d];
  return end * ItemSize(g.dtype);
}

}  // namespace

absl::Status Functionalizer::ProcessView(NodeId n, const Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId base, TensorOf(g_.node(n).inputs[0]));
  const ValueId out = g_.node(n).outputs[0];
  const std::string& name = g_.node(n).op.name();
  const bool complex = IsComplex(tensors_[base].geometry.dtype);
  const bool negates = name == op::kPrivateNegView;
  if (negates || (complex && (name == op::kPrivateConj || name == op::kConj))) {
    TensorState seen = tensors_[base];
    bool& lazily = negates ? seen.negated : seen.conjugated;
    lazily = !lazily;
    tensors_.push_back(std::move(seen));
    tensor_of_[out] = static_cast<TensorId>(tensors_.size()) - 1;
    return absl::OkStatus();
  }
  if (tensors_[base].conjugated && (name == op::kViewAsReal || g_.node(n).op.full() == op::kViewDtype)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name.substr(name.find("::") + 2),
                     " doesn't work on unresolved conjugated tensors.  To resolve the "
                     "conjugate tensor so you can view it as real, use "
                     "self.resolve_conj(); however, be warned that the resulting tensor "
                     "will NOT alias the original."));
  }
  if (op.resolves) {
    // The tensor itself where there is nothing to resolve, else a copy.
    if (!(name == op::kResolveConj ? tensors_[base].conjugated : tensors_[base].negated)) {
      tensor_of_[out] = base;
      return absl::OkStatus();
    }
    SymbolicGeometry geometry = tensors_[base].geometry;
    SymbolicDecide decide(&g_.symbols, g_.symbol_hints);
    geometry.strides =
        view_rules::PreservedStrides<SymbolicDecide>(decide, {geometry.sizes, geometry.strides, Expr(0)});
    geometry.offset = 0;
    MemoryState copy;
    copy.version = copy.initial = Own(n, Read(base, n), geometry.strides);
    copy.nominal = geometry;
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
  if (g_.node(n).op == op::kSelectInt) AssertSelected(n, base);
  if (g_.value(out).type.IsTensor()) AssertAligned(n, base, views.outputs[0].dtype);
  if (known != nullptr) {
    const auto& inputs = g_.node(n).inputs;
    *known = {g_.node(n).op, base, {inputs.begin(), inputs.end()}, views.outputs[0]};
  }
  // The imaginary parts of conjugates are negated, the real parts are what they are.
  bool conjugated = tensors_[base].conjugated, negated = tensors_[base].negated;
  if (conjugated && (name == op::kImag || name == op::kReal)) {
    conjugated = false;
    negated = name == op::kImag;
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
  static const OpName kConstant = OpName::Get(op::kPrimConstant);
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
    g_.SetSource(made, at_.source);
    return made;
  };
  auto number = [&](const Expr& of) {
    const ValueId v = InsertSize(g_, n, of);
    g_.SetSource(g_.value(v).def, at_.source);
    return v;
  };
  for (const auto& [op, bound] : {std::pair(op::kGeInt, number(Expr(0) - size)), std::pair(op::kLtInt, number(size))}) {
    const ValueId holds = g_.node(insert(op, {index, bound}, {Type::Bool()})).outputs[0];
    insert(op::kPrivateAssertScalar, {holds, InsertConstant(g_, n, std::string("select(): index out of range"))}, {});
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
    const MemoryState& memory = memories_[tensors_[base].memory];
    if (op.absolute && memory.origin == MemoryState::Origin::kFresh) {
      for (const SymbolicGeometry& v : views.outputs) {
        const Expr end = EndInBytes(v), size = EndInBytes(memory.nominal);
        if (g_.symbols.AlwaysLessOrEqual(end, size) == true) continue;
        if (HasDataSymbols(end) || HasDataSymbols(size))
          return absl::UnimplementedError("an absolute view of places that the data decide");
        assumed.push_back({end, Assumption::Relation::kLessOrEqual, size});
      }
    }
  }
  for (const Assumption& a : assumed) SMELT_RETURN_IF_ERROR(assertions_.Assume(a, n));
  return views;
}

void Functionalizer::AssertAligned(NodeId n, TensorId base, DType seen_as) {
  const DType own = tensors_[base].geometry.dtype;
  const int ratio = ItemSize(seen_as) / ItemSize(own);
  if (ratio < 2 || memories_[tensors_[base].memory].origin != MemoryState::Origin::kArgument) return;
  const Expr begin = BeginInStorage(base);
  const std::string message =
      IsComplex(seen_as) && !IsComplex(own)
          ? "Tensor must have a storage_offset divisible by 2"
          : absl::StrCat("self.storage_offset() must be divisible by ", ratio, " to view ", ScalarTypeName(own), " as ",
                         ScalarTypeName(seen_as), " (different element sizes)");
  assertions_.AssertNotZero(Max(Expr(1) - Mod(begin, ratio), 0), message, n);
}

Expr Functionalizer::ArgumentOffset(TensorId t) const {
  const TensorState& tensor = tensors_[t];
  int argument = tensor.home;
  for (size_t d = 0; argument < 0 && d < inputs_.arguments.size(); ++d) {
    if (inputs_.arguments[d].memory == tensor.memory) argument = static_cast<int>(d);
  }
  return inputs_.OffsetOf(argument, ItemSize(tensor.geometry.dtype));
}

Expr Functionalizer::BeginInStorage(TensorId t) const {
  const TensorState& tensor = tensors_[t];
  if (memories_[tensor.memory].origin == MemoryState::Origin::kArgument)
    return tensor.geometry.offset + ArgumentOffset(t);
  const auto copied = copies_begin_.find(tensor.memory);
  return tensor.geometry.offset + (copied == copies_begin_.end() ? Expr(0) : copied->second);
}

absl::Status Functionalizer::ProcessInPlaceView(NodeId n, const Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(g_.node(n).inputs[0]));
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, op, t));
  if (at_.block_depth > 0) return absl::UnimplementedError("a change of geometry inside a branch or loop");
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
  if (at_.block_depth > 0) return absl::UnimplementedError("set_ inside a branch or loop");
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
      SymbolicDecide decide(&g_.symbols);
      const bool contiguous = view_rules::IsContiguous(
          decide, ExprGeometry{state.geometry.sizes, state.geometry.strides, state.geometry.offset});
      if (!decide.status().ok() || !decide.assumptions().empty())
        return absl::UnimplementedError("set_ to a source of which only the call knows whether it is contiguous");
      if (!contiguous)
        return absl::FailedPreconditionError("passed in tensor to be used as storage must be contiguous");
      // It counts from where the source begins.
      state.geometry.offset = state.geometry.offset + *offset;
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
  if (node.op.name() == op::kResizeAsInPlace) {
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
  if (at_.block_depth > 0) return absl::UnimplementedError("a change of size inside a branch or loop");
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(self));
  if (memories_[tensors_[self].memory].shared)
    return absl::UnimplementedError("resize_ of an argument that may share its storage with another");
  g.sizes = sizes;
  g.strides = strides;
  MemoryState& m = memories_.Edit(tensors_[self].memory);
  const Expr need = g.offset + NumElements(g);
  const Expr have = m.nominal.offset + NumElements(m.nominal);
  const bool dense = IsDense(m.nominal, g_.symbols) && m.nominal.dtype == g.dtype;
  std::optional<bool> fits = dense ? g_.symbols.LessOrEqual(need, have) : std::nullopt;
  if (!fits.has_value()) return absl::UnimplementedError("resize_ of a tensor whose storage's size is not known");
  // The memory behind its operand in the storage has been copied too.
  if (!*fits && m.copies_storage)
    return absl::UnimplementedError("resize_ that grows a copy of its operand's whole storage");
  if (!*fits) {
    // The storage grows: the same elements, then new ones. Views of it stay on it.
    if (m.nominal.offset != Expr(0)) return absl::UnimplementedError("resize_ that grows a tensor with an offset");
    SymbolicGeometry flat_new{g.dtype, {need}, {1}, 0};
    SymbolicGeometry flat_old{g.dtype, {NumElements(m.nominal)}, {1}, 0};
    ValueId base = FreshContents(anchor, flat_new);
    ValueId old = regions_.View(anchor, m.version, flat_old);
    m.version = regions_.Write(anchor, base, old, flat_old);
    m.nominal = flat_new;
    m.resized = true;
    ++m.generation;
  }
  tensors_[self].geometry = g;
  tensors_[self].changed = true;
  ForgetChecks(self);
  return absl::OkStatus();
}

}  // namespace smelt
