#include "smelt/functionalize/contents.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/memory.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {
namespace {

constexpr char kOverlapMessage[] =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation.";

// An expanded dim, of more than one element or of none.
bool SharesElements(const SymbolicGeometry& g) {
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.strides[d] == Expr(0) && g.sizes[d] != Expr(1) && g.sizes[d] != Expr(0)) return true;
  }
  return false;
}

// Returns whether each dim steps over everything that the later ones reach: the common case, decided quickly.
bool IsNested(const SymbolicGeometry& g) {
  int64_t reach = 1;
  for (size_t d = g.sizes.size(); d-- > 0;) {
    const std::optional<int64_t> size = g.sizes[d].Constant(), stride = g.strides[d].Constant();
    if (size && *size <= 1) continue;
    if (!stride || *stride < reach || (!size && d > 0)) return false;
    if (size) reach += *stride * (*size - 1);
  }
  return true;
}

bool IsOwner(const ProgramWalk& walk, ValueId v) {
  const NodeId def = walk.g.value(v).def;
  if (!walk.g.IsParam(def)) return walk.g.node(def).op != op::kSmeltView;
  if (walk.g.node(def).parent != walk.g.top()) return true;
  const InputInfo& info = walk.g.input_infos[walk.g.value(v).def_index];
  if (info.kind == InputInfo::Kind::kWeight)
    return walk.g.weights[info.weight].geometry.offset == 0 && !walk.absolute_access;
  return !walk.absolute_access;
}

// Returns the same elements negated or conjugated, for tensors that are lazily so.
ValueId ResolveElements(ProgramWalk& walk, const TensorState& tensor, ValueId v, NodeId anchor) {
  for (const auto& [lazy, op] :
       {std::pair(tensor.conjugated, op::kConjPhysical), std::pair(tensor.negated, op::kNeg)}) {
    if (!lazy) continue;
    const TensorType t = walk.g.value(v).type.tensor();
    const NodeId n = walk.g.InsertBefore(anchor, OpName::Get(op), {v}, {Type::Tensor(*t.dtype, *t.sizes)});
    walk.g.SetSource(n, walk.at.source);
    v = walk.g.node(n).outputs[0];
  }
  return v;
}

ValueId ForceMaterialize(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = walk.g.value(v).type.tensor();
  NodeId n =
      walk.g.InsertBefore(anchor, OpName::Get(op::kSmeltMaterialize), {v}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
  walk.g.SetAttribute(n, "strides", strides);
  walk.g.SetSource(n, walk.at.source);
  return walk.g.node(n).outputs[0];
}

ValueId Materialize(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType& t = walk.g.value(v).type.tensor();
  if (SameGeometry({*t.dtype, *t.sizes, strides, 0}, GeometryOf(t))) return v;
  return ForceMaterialize(walk, anchor, v, strides);
}

// Returns `v` in the layout `strides`. A node that this pass has just made for that purpose gets the layout directly.
ValueId WithLayout(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const Value& value = walk.g.value(v);
  const TensorType t = value.type.tensor();
  if (IsOwner(walk, v) && SameGeometry({*t.dtype, *t.sizes, strides, 0}, GeometryOf(t))) {
    walk.own.erase(v);
    return v;
  }
  if (walk.own.contains(v) && value.uses.empty()) {
    walk.own.erase(v);  // from here on it is some memory's contents
    walk.g.SetType(v, Type::Tensor(*t.dtype, *t.sizes, strides));
    return v;
  }
  return OwnContents(walk, anchor, v, strides);
}

// Inserts a check of two sizes before `anchor`: in the prologue, or in program order if the data determines them.
absl::Status AssertEqual(ProgramWalk& walk, const Expr& a, const Expr& b, const std::string& message, NodeId anchor) {
  if (!HasDataSymbols(a) && !HasDataSymbols(b))
    return walk.assertions.Assert({a, Assumption::Relation::kEqual, b}, anchor);
  auto insert = [&](absl::string_view op, const std::vector<ValueId>& args, const std::vector<Type>& types) {
    const NodeId n = walk.g.InsertBefore(anchor, OpName::Get(op), args, types);
    walk.g.SetSource(n, walk.at.source);
    return n;
  };
  const ValueId x = InsertSize(walk.g, anchor, a), y = InsertSize(walk.g, anchor, b);
  const ValueId holds = walk.g.node(insert(op::kEqInt, {x, y}, {Type::Bool()})).outputs[0];
  insert(op::kPrivateAssertScalar, {holds, InsertConstant(walk.g, anchor, message)}, {});
  return absl::OkStatus();
}

absl::StatusOr<ValueId> BroadcastContents(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& sizes) {
  if (*walk.g.value(v).type.tensor().sizes == sizes) return v;
  const TensorType t = walk.g.value(v).type.tensor();
  const int lead = static_cast<int>(sizes.size()) - t.rank();
  if (lead < 0) {
    // PyTorch refuses a copy_ that would drop leading dims of size 1.
    return absl::FailedPreconditionError(
        absl::StrCat("a value of rank ", t.rank(), " cannot be broadcast to rank ", sizes.size()));
  }
  SymbolicGeometry g{*t.dtype, sizes, std::vector<Expr>(sizes.size(), Expr(0)), 0};
  for (int d = 0; d < t.rank(); ++d) {
    const Expr& have = (*t.sizes)[d];
    if (have == sizes[lead + d] || walk.g.symbols.Equal(have, sizes[lead + d]) == true) {
      g.strides[lead + d] = (*t.strides)[d];
    } else if (have != Expr(1)) {
      const std::string message =
          absl::StrCat("The expanded size of the tensor (", sizes[lead + d].ToString(),
                       ") must match the existing size (", have.ToString(), ") at non-singleton dimension ", d);
      if (walk.g.symbols.Equal(have, sizes[lead + d]) == false) return absl::FailedPreconditionError(message);
      // PyTorch does not broadcast a size that only the run knows.
      SMELT_RETURN_IF_ERROR(AssertEqual(walk, have, sizes[lead + d], message, anchor));
      g.strides[lead + d] = (*t.strides)[d];
    }
  }
  // A view counts from the storage's beginning, not from the view it is of.
  const NodeId shown = ViewNodeOf(walk.g, v);
  if (!shown.valid()) return walk.regions.View(anchor, v, g);
  g.offset = std::get<Expr>(*walk.g.node(shown).FindAttribute("offset"));
  const Attribute* home = walk.g.node(shown).FindAttribute("argument");
  return walk.regions.View(anchor, walk.g.node(shown).inputs[0], g,
                           home != nullptr ? static_cast<int>(std::get<int64_t>(*home)) : -1);
}

}  // namespace

ValueId ElementsInMemory(ProgramWalk& walk, TensorId t, NodeId anchor) {
  const TensorState& tensor = walk.tensors[t];
  walk.ReadAtOne(walk.memories[tensor.memory]);
  const MemoryState& m = walk.memories[tensor.memory];
  // Before the first write a state is its weight, though its contents are all of its storage.
  const bool as_weight = m.version == m.initial && m.weight.valid() && m.weight != m.initial;
  const ValueId contents = as_weight ? m.weight : m.version;
  const SymbolicGeometry& shown = as_weight ? m.weight_geometry : m.nominal;
  // A state that begins inside its storage is a view of it, so that readers of the value know where it begins.
  if (!m.shared && shown.offset == Expr(0) && SameGeometry(tensor.geometry, shown)) return contents;
  // One view per version and geometry, as long as control flow dominates.
  std::vector<ProgramWalk::CachedView>& cache = walk.view_cache[tensor.memory];
  for (auto c = cache.rbegin(); c != cache.rend() && c->version == m.version; ++c) {
    // Strides of dims of size 1 too: PyTorch's check for partial overlap compares them.
    const TensorType& type = c->type.tensor();
    if (c->home == tensor.home && c->offset == tensor.geometry.offset && *type.dtype == tensor.geometry.dtype &&
        *type.sizes == tensor.geometry.sizes && *type.strides == tensor.geometry.strides) {
      return c->view;
    }
  }
  const ValueId v = walk.regions.View(anchor, contents, tensor.geometry, m.shared ? tensor.home : -1);
  // Outside of branches and loops no earlier version comes back.
  if (walk.at.block_depth == 0 && !cache.empty() && cache.back().version != m.version) cache.clear();
  cache.push_back({m.version, walk.g.value(v).type, tensor.geometry.offset, v, tensor.home});
  walk.cache_log.push_back(tensor.memory);
  return v;
}

ValueId ReadTensor(ProgramWalk& walk, TensorId t, NodeId anchor) {
  return ResolveElements(walk, walk.tensors[t], ElementsInMemory(walk, t, anchor), anchor);
}

ValueId OwnContents(ProgramWalk& walk, NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  return IsOwner(walk, v) ? Materialize(walk, anchor, v, strides) : ForceMaterialize(walk, anchor, v, strides);
}

ValueId CastContents(ProgramWalk& walk, NodeId anchor, ValueId v, DType to) {
  if (*walk.g.value(v).type.tensor().dtype == to) return v;
  const TensorType t = walk.g.value(v).type.tensor();
  std::vector<ValueId> args = {v, InsertConstant(walk.g, anchor, ScalarTypeOf(to))};
  NodeId n = walk.g.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                                 {Type::Tensor(to, *t.sizes, *t.strides)});
  walk.g.SetSource(n, walk.at.source);
  const ValueId out = walk.g.node(n).outputs[0];
  walk.own[out] = true;
  return out;
}

ValueId FreshContents(ProgramWalk& walk, NodeId anchor, const SymbolicGeometry& g) {
  if (IsComplex(g.dtype)) {
    // Kernels know real numbers: pairs of them, seen as complex ones.
    SymbolicGeometry pairs{RealOf(g.dtype), g.sizes, g.strides, 0};
    for (Expr& s : pairs.strides) s = s * 2;
    pairs.sizes.push_back(2);
    pairs.strides.push_back(1);
    return walk.regions.View(anchor, FreshContents(walk, anchor, pairs), g);
  }
  Type type = TypeOf({g.dtype, g.sizes, g.strides, 0});
  NodeId n = walk.g.InsertBefore(anchor, OpName::Get(op::kSmeltFull), {}, {type});
  walk.g.SetAttribute(n, "value", 0.0);
  walk.g.SetSource(n, walk.at.source);
  return walk.g.node(n).outputs[0];
}

// Refuses what PyTorch would refuse and what is not known, then chooses among new contents, a view of them, and a
// region. The choice depends on everything that the checks found out about the geometry.
absl::Status WriteTensor(ProgramWalk& walk, TensorId t, ValueId v, NodeId anchor, SharedPlaces shared) {
  if (!walk.g.value(v).type.IsTensor() || !walk.g.value(v).type.tensor().IsComplete())
    return absl::UnimplementedError("a write of a value whose sizes are not known before the call");
  const bool uniform = shared == SharedPlaces::kOneValue;
  SymbolicGeometry geometry = walk.tensors[t].geometry;
  const MemoryId id = walk.tensors[t].memory;
  if (uniform && SharesElements(geometry)) {
    // All elements of an expanded dim are one.
    for (size_t d = 0; d < geometry.sizes.size(); ++d) {
      if (geometry.strides[d] != Expr(0)) continue;
      geometry.sizes[d] = walk.g.symbols.Simplify(Min(geometry.sizes[d], 1));
      if (!geometry.sizes[d].IsConstant())
        return absl::UnimplementedError("a write to expanded memory that may be empty");
    }
    const TensorId once = walk.NewTensor(id, geometry, walk.tensors[t].home);
    const TensorType& type = walk.g.value(v).type.tensor();
    if (type.rank() != static_cast<int>(geometry.sizes.size()))
      return absl::UnimplementedError("a write of a broadcast value to expanded memory");
    SymbolicGeometry first = GeometryOf(type);
    first.sizes = geometry.sizes;
    return WriteTensor(walk, once, walk.regions.View(anchor, OwnContents(walk, anchor, v, *type.strides), first),
                       anchor, SharedPlaces::kOneValue);
  }
  bool known_at_call = walk.memories[id].shared && walk.options.symbolic_strides;
  // PyTorch takes any strides of a tensor without elements for those of dense memory.
  const auto may_be_zero = [&](const Expr& size) { return walk.g.symbols.AlwaysLessOrEqual(1, size) != true; };
  const bool may_be_empty = std::any_of(geometry.sizes.begin(), geometry.sizes.end(), may_be_zero);
  const bool is_empty = std::find(geometry.sizes.begin(), geometry.sizes.end(), Expr(0)) != geometry.sizes.end();
  for (size_t d = 0; d < geometry.sizes.size(); ++d) {
    // PyTorch refuses expanded memory.
    if (geometry.strides[d] != Expr(0)) continue;
    if (is_empty) break;
    const std::optional<bool> several = walk.g.symbols.Less(Expr(1), geometry.sizes[d]);
    if (several == true && !may_be_empty) return absl::FailedPreconditionError(kOverlapMessage);
    known_at_call = known_at_call || several != false;
  }
  // Windows that overlap are written in order, except those that get one value.
  bool may_overlap_itself = false;
  if (!IsNested(geometry)) {
    const std::optional<Geometry> concrete = ConcreteGeometry(geometry);
    const std::optional<bool> itself =
        concrete ? SelfOverlap(*concrete) : RegionOf(geometry).OverlapsItself(walk.g.symbols);
    if (itself == true && !uniform) return absl::UnimplementedError("a write to overlapping windows");
    known_at_call = known_at_call || !itself.has_value();
    may_overlap_itself = uniform && itself != false;
  }
  // Calls that are refused and calls that run in eager order are found by two checks.
  const bool in_order = shared == SharedPlaces::kInOrder;
  const OperandSharing kind = in_order ? OperandSharing::kNotPartly : OperandSharing::kAny;
  if (known_at_call && !uniform && walk.checked.Insert({t, t, kind})) {
    NodeId n = walk.g.InsertBefore(anchor, OpName::Get(op::kSmeltAssertNoInternalOverlap),
                                   {ElementsInMemory(walk, t, anchor)}, {});
    if (in_order) walk.g.SetAttribute(n, "in_order", true);
    walk.g.SetSource(n, walk.at.source);
  }
  if (!walk.sharing.IsAlone(id)) {
    return absl::UnimplementedError("a write to memory that a branch's result may share");
  }
  walk.NoteWriteAtOne(id);
  v = CastContents(walk, anchor, v, geometry.dtype);
  SMELT_ASSIGN_OR_RETURN(v, BroadcastContents(walk, anchor, v, geometry.sizes));
  v = ResolveElements(walk, walk.tensors[t], v, anchor);  // what is stored is what reading resolves to the value
  MemoryState& m = walk.memories.Edit(id);
  const bool keep_outside = (walk.absolute_access && m.origin != MemoryState::Origin::kFresh) ||
                            walk.shared_states.contains(id) || m.shared || m.nominal.offset != Expr(0);
  if (SameGeometry(geometry, m.nominal) && !keep_outside) {
    m.version = WithLayout(walk, anchor, v, m.nominal.strides);
  } else if (!keep_outside && geometry.dtype == m.nominal.dtype && geometry.offset == m.nominal.offset &&
             NumElements(geometry) == NumElements(m.nominal) && IsDense(geometry, walk.g.symbols) &&
             IsDense(m.nominal, walk.g.symbols)) {
    // All of the storage, with its dims in another order: the same bytes seen through the nominal geometry.
    ValueId laid_out = WithLayout(walk, anchor, v, geometry.strides);
    SymbolicGeometry nominal = m.nominal;
    nominal.offset = 0;
    m.version = walk.regions.View(anchor, laid_out, nominal);
  } else {
    m.version = walk.regions.Write(anchor, m.version, v, geometry, m.shared ? walk.tensors[t].home : -1);
    if (may_overlap_itself) walk.g.SetAttribute(walk.g.value(m.version).def, "overlaps_itself", true);
  }
  ++m.generation;
  m.written.push_back(std::move(geometry));
  m.written_home.push_back(walk.tensors[t].home);
  return absl::OkStatus();
}

}  // namespace smelt
