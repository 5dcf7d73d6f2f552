#include "smelt/functionalize/view_operators.h"

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
#include "smelt/functionalize/contents.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/operators.h"
#include "smelt/functionalize/sharing_checks.h"

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

// Returns the entry for a view by this node, if it is one that can be remembered.
ProgramWalk::KnownView* KnownViewOf(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op, TensorId base) {
  const Node& node = walk.g.node(n);
  const TensorState& tensor = walk.tensors[base];
  if (op.absolute || tensor.changed || tensor.conjugated || tensor.negated || node.outputs.size() != 1 ||
      !walk.g.value(node.outputs[0]).type.IsTensor())
    return nullptr;
  static const OpName kConstant = OpName::Get(op::kPrimConstant);
  uint64_t hash = static_cast<uint64_t>(base);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (walk.g.node(walk.g.value(node.inputs[i]).def).op != kConstant) return nullptr;
    hash = (hash ^ node.inputs[i].index) * 0x9E3779B97F4A7C15u;
  }
  return &walk.known_views[hash >> 56];
}

// Asserts that a row number from the data is within the tensor.
void AssertSelected(ProgramWalk& walk, NodeId n, TensorId base) {
  const ValueId index = walk.g.node(n).inputs[2];
  const std::optional<Expr> e = GetIntExpr(walk.g, index);
  const std::optional<int64_t> dim =
      GetIntExpr(walk.g, walk.g.node(n).inputs[1]).value_or(Expr::Symbol("?")).Constant();
  if (!e || !dim || !HasDataSymbols(*e)) return;
  const SymbolicGeometry& g = walk.tensors[base].geometry;
  const Expr size = g.sizes[*dim < 0 ? *dim + static_cast<int64_t>(g.sizes.size()) : *dim];
  if (walk.g.symbols.LessOrEqual(0, *e) == true && walk.g.symbols.Less(*e, size) == true) return;
  auto insert = [&](const char* op, std::vector<ValueId> args, std::vector<Type> types) {
    const NodeId made = walk.g.InsertBefore(n, OpName::Get(op), args, std::move(types));
    walk.g.SetSource(made, walk.at.source);
    return made;
  };
  auto number = [&](const Expr& of) {
    const ValueId v = InsertSize(walk.g, n, of);
    walk.g.SetSource(walk.g.value(v).def, walk.at.source);
    return v;
  };
  for (const auto& [op, bound] : {std::pair(op::kGeInt, number(Expr(0) - size)), std::pair(op::kLtInt, number(size))}) {
    const ValueId holds = walk.g.node(insert(op, {index, bound}, {Type::Bool()})).outputs[0];
    insert(op::kPrivateAssertScalar, {holds, InsertConstant(walk.g, n, std::string("select(): index out of range"))},
           {});
  }
}

// Returns where the argument begins in its storage, in elements of the tensor's dtype.
Expr ArgumentOffset(const ProgramWalk& walk, TensorId t) {
  const TensorState& tensor = walk.tensors[t];
  int argument = tensor.home;
  for (size_t d = 0; argument < 0 && d < walk.inputs.arguments.size(); ++d) {
    if (walk.inputs.arguments[d].memory == tensor.memory) argument = static_cast<int>(d);
  }
  return walk.inputs.OffsetOf(argument, ItemSize(tensor.geometry.dtype));
}

// as_strided's offset counts from the storage's first element, an argument's geometry from the argument's own.
absl::StatusOr<ViewMeaning> ViewsOfTensor(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op, TensorId base) {
  std::vector<Assumption> assumed;
  ViewMeaning views;
  if (op.absolute && walk.memories[walk.tensors[base].memory].copies_storage)
    return absl::UnimplementedError("an absolute view of what copies its operand's storage");
  if (op.absolute && walk.memories[walk.tensors[base].memory].origin == MemoryState::Origin::kArgument) {
    const Expr offset = ArgumentOffset(walk, base);
    SymbolicGeometry geometry = walk.tensors[base].geometry;
    geometry.offset = geometry.offset + offset;
    SMELT_ASSIGN_OR_RETURN(views, ViewsOf(walk.g, n, geometry, assumed));
    for (SymbolicGeometry& v : views.outputs) v.offset = v.offset - offset;
  } else {
    SMELT_ASSIGN_OR_RETURN(views, ViewsOf(walk.g, n, walk.tensors[base].geometry, assumed));
    const MemoryState& memory = walk.memories[walk.tensors[base].memory];
    if (op.absolute && memory.origin == MemoryState::Origin::kFresh) {
      for (const SymbolicGeometry& v : views.outputs) {
        const Expr end = EndInBytes(v), size = EndInBytes(memory.nominal);
        if (walk.g.symbols.AlwaysLessOrEqual(end, size) == true) continue;
        if (HasDataSymbols(end) || HasDataSymbols(size))
          return absl::UnimplementedError("an absolute view of places that the data decide");
        assumed.push_back({end, Assumption::Relation::kLessOrEqual, size});
      }
    }
  }
  for (const Assumption& a : assumed) SMELT_RETURN_IF_ERROR(walk.assertions.Assume(a, n));
  return views;
}

// Asserts that a view as elements of another size is aligned at the tensor's offset in this call's storage.
void AssertAligned(ProgramWalk& walk, NodeId n, TensorId base, DType seen_as) {
  const DType own = walk.tensors[base].geometry.dtype;
  const int ratio = ItemSize(seen_as) / ItemSize(own);
  if (ratio < 2 || walk.memories[walk.tensors[base].memory].origin != MemoryState::Origin::kArgument) return;
  const Expr begin = BeginInStorage(walk, base);
  const std::string message =
      IsComplex(seen_as) && !IsComplex(own)
          ? "Tensor must have a storage_offset divisible by 2"
          : absl::StrCat("self.storage_offset() must be divisible by ", ratio, " to view ", ScalarTypeName(own), " as ",
                         ScalarTypeName(seen_as), " (different element sizes)");
  walk.assertions.AssertNotZero(Max(Expr(1) - Mod(begin, ratio), 0), message, n);
}

}  // namespace

Expr BeginInStorage(const ProgramWalk& walk, TensorId t) {
  const TensorState& tensor = walk.tensors[t];
  if (walk.memories[tensor.memory].origin == MemoryState::Origin::kArgument)
    return tensor.geometry.offset + ArgumentOffset(walk, t);
  const auto copied = walk.copies_begin.find(tensor.memory);
  return tensor.geometry.offset + (copied == walk.copies_begin.end() ? Expr(0) : copied->second);
}

absl::Status ProcessView(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId base, walk.TensorOf(walk.g.node(n).inputs[0]));
  const ValueId out = walk.g.node(n).outputs[0];
  const std::string& name = walk.g.node(n).op.name();
  const bool complex = IsComplex(walk.tensors[base].geometry.dtype);
  const bool negates = name == op::kPrivateNegView;
  if (negates || (complex && (name == op::kPrivateConj || name == op::kConj))) {
    TensorState seen = walk.tensors[base];
    bool& lazily = negates ? seen.negated : seen.conjugated;
    lazily = !lazily;
    walk.tensors.push_back(std::move(seen));
    walk.tensor_of[out] = static_cast<TensorId>(walk.tensors.size()) - 1;
    return absl::OkStatus();
  }
  if (walk.tensors[base].conjugated && (name == op::kViewAsReal || walk.g.node(n).op.full() == op::kViewDtype)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name.substr(name.find("::") + 2),
                     " doesn't work on unresolved conjugated tensors.  To resolve the "
                     "conjugate tensor so you can view it as real, use "
                     "self.resolve_conj(); however, be warned that the resulting tensor "
                     "will NOT alias the original."));
  }
  if (op.resolves) {
    // The tensor itself where there is nothing to resolve, else a copy.
    if (!(name == op::kResolveConj ? walk.tensors[base].conjugated : walk.tensors[base].negated)) {
      walk.tensor_of[out] = base;
      return absl::OkStatus();
    }
    SymbolicGeometry geometry = walk.tensors[base].geometry;
    SymbolicDecide decide(&walk.g.symbols, walk.g.symbol_hints);
    geometry.strides =
        view_rules::PreservedStrides<SymbolicDecide>(decide, {geometry.sizes, geometry.strides, Expr(0)});
    geometry.offset = 0;
    MemoryState copy;
    copy.version = copy.initial = OwnContents(walk, n, ReadTensor(walk, base, n), geometry.strides);
    copy.nominal = geometry;
    walk.tensor_of[out] = walk.NewTensor(walk.NewMemory(std::move(copy)), geometry);
    return absl::OkStatus();
  }
  const MemoryId m = walk.tensors[base].memory;
  ProgramWalk::KnownView* const known = KnownViewOf(walk, n, op, base);
  if (known != nullptr && known->base == base && known->op == walk.g.node(n).op &&
      std::equal(known->inputs.begin(), known->inputs.end(), walk.g.node(n).inputs.begin(),
                 walk.g.node(n).inputs.end())) {
    walk.tensor_of[out] = walk.NewTensor(m, known->geometry, walk.tensors[base].home);
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(walk, n, op, base));
  if (walk.g.node(n).op == op::kSelectInt) AssertSelected(walk, n, base);
  if (walk.g.value(out).type.IsTensor()) AssertAligned(walk, n, base, views.outputs[0].dtype);
  if (known != nullptr) {
    const auto& inputs = walk.g.node(n).inputs;
    *known = {walk.g.node(n).op, base, {inputs.begin(), inputs.end()}, views.outputs[0]};
  }
  // The imaginary parts of conjugates are negated, the real parts are what they are.
  bool conjugated = walk.tensors[base].conjugated, negated = walk.tensors[base].negated;
  if (conjugated && (name == op::kImag || name == op::kReal)) {
    conjugated = false;
    negated = name == op::kImag;
  }
  if (walk.g.value(out).type.IsTensor()) {
    walk.tensor_of[out] = walk.NewTensor(m, std::move(views.outputs[0]), walk.tensors[base].home);
    walk.tensors.back().conjugated = conjugated;
    walk.tensors.back().negated = negated;
  } else {
    std::vector<TensorId>& list = walk.tensor_lists[out];
    for (SymbolicGeometry& v : views.outputs) {
      list.push_back(walk.NewTensor(m, std::move(v), walk.tensors[base].home));
      walk.tensors.back().conjugated = conjugated;
      walk.tensors.back().negated = negated;
    }
  }
  return absl::OkStatus();
}

absl::Status ProcessInPlaceView(ProgramWalk& walk, NodeId n, const ProgramWalk::Operator& op) {
  SMELT_ASSIGN_OR_RETURN(TensorId t, walk.TensorOf(walk.g.node(n).inputs[0]));
  SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(walk, n, op, t));
  if (walk.at.block_depth > 0) return absl::UnimplementedError("a change of geometry inside a branch or loop");
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(walk, t));
  walk.tensors[t].geometry = std::move(views.outputs[0]);
  walk.tensors[t].changed = true;
  ForgetChecks(walk, t);
  ++walk.result.mutations_removed;
  if (!walk.g.node(n).outputs.empty()) walk.tensor_of[walk.g.node(n).outputs[0]] = t;
  return absl::OkStatus();
}

absl::Status ProcessSet(ProgramWalk& walk, NodeId n) {
  const Node& node = walk.g.node(n);
  if (walk.at.block_depth > 0) return absl::UnimplementedError("set_ inside a branch or loop");
  SMELT_ASSIGN_OR_RETURN(TensorId self, walk.TensorOf(node.inputs[0]));
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(walk, self));
  const std::string& overload = node.op.overload();
  if (overload == "source_Tensor" || overload == "source_Tensor_storage_offset") {
    SMELT_ASSIGN_OR_RETURN(TensorId source, walk.TensorOf(node.inputs[1]));
    if (walk.memories[walk.tensors[self].memory].shared || walk.memories[walk.tensors[source].memory].shared)
      return absl::UnimplementedError("set_ among arguments that may share memory");
    TensorState state = walk.tensors[source];
    if (overload == "source_Tensor_storage_offset") {
      std::optional<Expr> offset = GetIntExpr(walk.g, node.inputs[2]);
      auto sizes = GetIntListExpr(walk.g, node.inputs[3]);
      auto strides = GetIntListExpr(walk.g, node.inputs[4]);
      if (!offset || !sizes) return absl::UnimplementedError("set_ with sizes known only at run time");
      SymbolicDecide decide(&walk.g.symbols);
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
    walk.tensors[self] = std::move(state);
    walk.tensors[self].changed = true;
    ForgetChecks(walk, self);
  } else if (overload.empty()) {
    SymbolicGeometry empty{walk.tensors[self].geometry.dtype, {0}, {1}, 0};
    MemoryState m;
    m.nominal = empty;
    m.version = FreshContents(walk, n, empty);
    walk.tensors[self] = {walk.NewMemory(std::move(m)), -1, empty};
    walk.tensors[self].changed = true;
    ForgetChecks(walk, self);
  } else {
    return absl::UnimplementedError("set_ from a storage");
  }
  ++walk.result.mutations_removed;
  if (!node.outputs.empty()) walk.tensor_of[walk.g.node(n).outputs[0]] = self;
  return absl::OkStatus();
}

absl::Status ProcessResize(ProgramWalk& walk, NodeId n) {
  const Node& node = walk.g.node(n);
  SMELT_ASSIGN_OR_RETURN(TensorId self, walk.TensorOf(node.inputs[0]));
  std::optional<std::vector<Expr>> sizes;
  if (node.op.name() == op::kResizeAsInPlace) {
    SMELT_ASSIGN_OR_RETURN(TensorId like, walk.TensorOf(node.inputs[1]));
    sizes = walk.tensors[like].geometry.sizes;
  } else {
    sizes = GetIntListExpr(walk.g, node.inputs[1]);
  }
  if (!sizes) return absl::UnimplementedError("resize_ to sizes known only at run time");
  SMELT_RETURN_IF_ERROR(ResizeTensor(walk, self, *sizes, ContiguousStrides(*sizes), n));
  ++walk.result.mutations_removed;
  if (!walk.g.node(n).outputs.empty()) walk.tensor_of[walk.g.node(n).outputs[0]] = self;
  return absl::OkStatus();
}

absl::Status ResizeTensor(ProgramWalk& walk, TensorId self, const std::vector<Expr>& sizes,
                          const std::vector<Expr>& strides, NodeId anchor) {
  SymbolicGeometry g = walk.tensors[self].geometry;
  if (g.sizes == sizes) return absl::OkStatus();
  if (walk.at.block_depth > 0) return absl::UnimplementedError("a change of size inside a branch or loop");
  SMELT_RETURN_IF_ERROR(CheckNoOtherName(walk, self));
  if (walk.memories[walk.tensors[self].memory].shared)
    return absl::UnimplementedError("resize_ of an argument that may share its storage with another");
  g.sizes = sizes;
  g.strides = strides;
  MemoryState& m = walk.memories.Edit(walk.tensors[self].memory);
  const Expr need = g.offset + NumElements(g);
  const Expr have = m.nominal.offset + NumElements(m.nominal);
  const bool dense = IsDense(m.nominal, walk.g.symbols) && m.nominal.dtype == g.dtype;
  std::optional<bool> fits = dense ? walk.g.symbols.LessOrEqual(need, have) : std::nullopt;
  if (!fits.has_value()) return absl::UnimplementedError("resize_ of a tensor whose storage's size is not known");
  // The memory behind its operand in the storage has been copied too.
  if (!*fits && m.copies_storage)
    return absl::UnimplementedError("resize_ that grows a copy of its operand's whole storage");
  if (!*fits) {
    // The storage grows: the same elements, then new ones. Views of it stay on it.
    if (m.nominal.offset != Expr(0)) return absl::UnimplementedError("resize_ that grows a tensor with an offset");
    SymbolicGeometry flat_new{g.dtype, {need}, {1}, 0};
    SymbolicGeometry flat_old{g.dtype, {NumElements(m.nominal)}, {1}, 0};
    ValueId base = FreshContents(walk, anchor, flat_new);
    ValueId old = walk.regions.View(anchor, m.version, flat_old);
    m.version = walk.regions.Write(anchor, base, old, flat_old);
    m.nominal = flat_new;
    m.resized = true;
    ++m.generation;
  }
  walk.tensors[self].geometry = g;
  walk.tensors[self].changed = true;
  ForgetChecks(walk, self);
  return absl::OkStatus();
}

}  // namespace smelt
