// Reading and writing tensors: views of a memory's contents, new versions of them.
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
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/functionalizer.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
namespace {

constexpr char kOverlapMessage[] =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation.";

constexpr char kSharingMessage[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

// An expanded dim, of more than one element or of none.
bool SharesElements(const SymbolicGeometry& g) {
  for (size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.strides[d] == Expr(0) && g.sizes[d] != Expr(1) && g.sizes[d] != Expr(0)) return true;
  }
  return false;
}

std::optional<Geometry> Concrete(const SymbolicGeometry& g) {
  Geometry out;
  for (const Expr& e : g.sizes) {
    if (!e.IsConstant()) return std::nullopt;
    out.sizes.push_back(*e.Constant());
  }
  for (const Expr& e : g.strides) {
    if (!e.IsConstant()) return std::nullopt;
    out.strides.push_back(*e.Constant());
  }
  if (!g.offset.IsConstant()) return std::nullopt;
  out.offset = *g.offset.Constant();
  return out;
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

Region RegionOf(const SymbolicGeometry& g) { return Region::Strided(g.offset, g.sizes, g.strides, ItemSize(g.dtype)); }

}  // namespace

MemoryId Functionalizer::NewMemory(MemoryState m) { return memories_.Add(std::move(m)); }

TensorId Functionalizer::NewTensor(MemoryId m, SymbolicGeometry geometry, int home) {
  tensors_.push_back({m, home, std::move(geometry)});
  return static_cast<int>(tensors_.size()) - 1;
}

void Functionalizer::BindFresh(ValueId v) {
  const Type& t = g_.value(v).type;
  MemoryState m;
  m.nominal = GeometryOf(t.tensor());
  m.version = m.initial = v;
  SymbolicGeometry geometry = m.nominal;
  tensor_of_[v] = NewTensor(NewMemory(std::move(m)), std::move(geometry));
}

absl::StatusOr<TensorId> Functionalizer::TensorOf(ValueId v) const {
  const TensorId* t = tensor_of_.Find(v);
  if (t == nullptr)
    return absl::InternalError(absl::StrCat("%", g_.value(v).name, " is no tensor that functionalization knows"));
  return *t;
}

ValueId Functionalizer::Read(TensorId t, NodeId anchor) { return Resolve(tensors_[t], Elements(t, anchor), anchor); }

ValueId Functionalizer::Elements(TensorId t, NodeId anchor) {
  const TensorState& tensor = tensors_[t];
  ReadAtOne(memories_[tensor.memory]);
  const MemoryState& m = memories_[tensor.memory];
  // Before the first write a state is its weight, though its contents are all of its storage.
  const bool as_weight = m.version == m.initial && m.weight.valid() && m.weight != m.initial;
  const ValueId contents = as_weight ? m.weight : m.version;
  const SymbolicGeometry& shown = as_weight ? m.weight_geometry : m.nominal;
  // A state that begins inside its storage is a view of it, so that readers of the value know where it begins.
  if (!m.shared && shown.offset == Expr(0) && SameGeometry(tensor.geometry, shown)) return contents;
  // One view per version and geometry, as long as control flow dominates.
  std::vector<CachedView>& cache = view_cache_[tensor.memory];
  for (auto c = cache.rbegin(); c != cache.rend() && c->version == m.version; ++c) {
    // Strides of dims of size 1 too: PyTorch's check for partial overlap compares them.
    const TensorType& type = c->type.tensor();
    if (c->home == tensor.home && c->offset == tensor.geometry.offset && *type.dtype == tensor.geometry.dtype &&
        *type.sizes == tensor.geometry.sizes && *type.strides == tensor.geometry.strides) {
      return c->view;
    }
  }
  const ValueId v = regions_.View(anchor, contents, tensor.geometry, m.shared ? tensor.home : -1);
  // Outside of branches and loops no earlier version comes back.
  if (at_.block_depth == 0 && !cache.empty() && cache.back().version != m.version) cache.clear();
  cache.push_back({m.version, g_.value(v).type, tensor.geometry.offset, v, tensor.home});
  cache_log_.push_back(tensor.memory);
  return v;
}

ValueId Functionalizer::Resolve(const TensorState& tensor, ValueId v, NodeId anchor) {
  for (const auto& [lazy, op] :
       {std::pair(tensor.conjugated, op::kConjPhysical), std::pair(tensor.negated, op::kNeg)}) {
    if (!lazy) continue;
    const TensorType t = g_.value(v).type.tensor();
    const NodeId n = g_.InsertBefore(anchor, OpName::Get(op), {v}, {Type::Tensor(*t.dtype, *t.sizes)});
    g_.SetSource(n, at_.source);
    v = g_.node(n).outputs[0];
  }
  return v;
}

bool Functionalizer::IsOwner(ValueId v) const {
  const NodeId def = g_.value(v).def;
  if (!g_.IsParam(def)) return g_.node(def).op != op::kSmeltView;
  if (g_.node(def).parent != g_.top()) return true;
  const InputInfo& info = g_.input_infos[g_.value(v).def_index];
  if (info.kind == InputInfo::Kind::kWeight) return g_.weights[info.weight].geometry.offset == 0 && !absolute_access_;
  return !absolute_access_;
}

ValueId Functionalizer::Own(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  return IsOwner(v) ? Materialize(anchor, v, strides) : ForceMaterialize(anchor, v, strides);
}

ValueId Functionalizer::Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType& t = g_.value(v).type.tensor();
  if (SameGeometry({*t.dtype, *t.sizes, strides, 0}, GeometryOf(t))) return v;
  return ForceMaterialize(anchor, v, strides);
}

ValueId Functionalizer::ForceMaterialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const TensorType t = g_.value(v).type.tensor();
  NodeId n =
      g_.InsertBefore(anchor, OpName::Get(op::kSmeltMaterialize), {v}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
  g_.SetAttribute(n, "strides", strides);
  g_.SetSource(n, at_.source);
  return g_.node(n).outputs[0];
}

ValueId Functionalizer::WithLayout(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
  const Value& value = g_.value(v);
  const TensorType t = value.type.tensor();
  if (IsOwner(v) && SameGeometry({*t.dtype, *t.sizes, strides, 0}, GeometryOf(t))) {
    own_.erase(v);
    return v;
  }
  if (own_.contains(v) && value.uses.empty()) {
    own_.erase(v);  // from here on it is some memory's contents
    g_.SetType(v, Type::Tensor(*t.dtype, *t.sizes, strides));
    return v;
  }
  return Own(anchor, v, strides);
}

ValueId Functionalizer::Cast(NodeId anchor, ValueId v, DType to) {
  if (*g_.value(v).type.tensor().dtype == to) return v;
  const TensorType t = g_.value(v).type.tensor();
  std::vector<ValueId> args = {v, InsertConstant(g_, anchor, ScalarTypeOf(to))};
  NodeId n = g_.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                             {Type::Tensor(to, *t.sizes, *t.strides)});
  g_.SetSource(n, at_.source);
  const ValueId out = g_.node(n).outputs[0];
  own_[out] = true;
  return out;
}

absl::Status Functionalizer::AssertEqual(const Expr& a, const Expr& b, const std::string& message, NodeId anchor) {
  if (!HasDataSymbols(a) && !HasDataSymbols(b)) return assertions_.Assert({a, Assumption::Relation::kEqual, b}, anchor);
  auto insert = [&](absl::string_view op, const std::vector<ValueId>& args, const std::vector<Type>& types) {
    const NodeId n = g_.InsertBefore(anchor, OpName::Get(op), args, types);
    g_.SetSource(n, at_.source);
    return n;
  };
  const ValueId x = InsertSize(g_, anchor, a), y = InsertSize(g_, anchor, b);
  const ValueId holds = g_.node(insert(op::kEqInt, {x, y}, {Type::Bool()})).outputs[0];
  insert(op::kPrivateAssertScalar, {holds, InsertConstant(g_, anchor, message)}, {});
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Functionalizer::Broadcast(NodeId anchor, ValueId v, const std::vector<Expr>& sizes) {
  if (*g_.value(v).type.tensor().sizes == sizes) return v;
  const TensorType t = g_.value(v).type.tensor();
  const int lead = static_cast<int>(sizes.size()) - t.rank();
  if (lead < 0) {
    // PyTorch refuses a copy_ that would drop leading dims of size 1.
    return absl::FailedPreconditionError(
        absl::StrCat("a value of rank ", t.rank(), " cannot be broadcast to rank ", sizes.size()));
  }
  SymbolicGeometry g{*t.dtype, sizes, std::vector<Expr>(sizes.size(), Expr(0)), 0};
  for (int d = 0; d < t.rank(); ++d) {
    const Expr& have = (*t.sizes)[d];
    if (have == sizes[lead + d] || g_.symbols.Equal(have, sizes[lead + d]) == true) {
      g.strides[lead + d] = (*t.strides)[d];
    } else if (have != Expr(1)) {
      const std::string message =
          absl::StrCat("The expanded size of the tensor (", sizes[lead + d].ToString(),
                       ") must match the existing size (", have.ToString(), ") at non-singleton dimension ", d);
      if (g_.symbols.Equal(have, sizes[lead + d]) == false) return absl::FailedPreconditionError(message);
      // PyTorch does not broadcast a size that only the run knows.
      SMELT_RETURN_IF_ERROR(AssertEqual(have, sizes[lead + d], message, anchor));
      g.strides[lead + d] = (*t.strides)[d];
    }
  }
  // A view counts from the storage's beginning, not from the view it is of.
  const NodeId def = g_.value(v).def;
  if (g_.IsParam(def) || g_.node(def).op != op::kSmeltView) return regions_.View(anchor, v, g);
  g.offset = std::get<Expr>(*g_.node(def).FindAttribute("offset"));
  const Attribute* home = g_.node(def).FindAttribute("argument");
  return regions_.View(anchor, g_.node(def).inputs[0], g,
                       home != nullptr ? static_cast<int>(std::get<int64_t>(*home)) : -1);
}

absl::Status Functionalizer::Write(TensorId t, ValueId v, NodeId anchor, SharedPlaces shared) {
  if (!g_.value(v).type.IsTensor() || !g_.value(v).type.tensor().IsComplete())
    return absl::UnimplementedError("a write of a value whose sizes are not known before the call");
  const bool uniform = shared == SharedPlaces::kOneValue;
  SymbolicGeometry geometry = tensors_[t].geometry;
  const MemoryId id = tensors_[t].memory;
  if (uniform && SharesElements(geometry)) {
    // All elements of an expanded dim are one.
    for (size_t d = 0; d < geometry.sizes.size(); ++d) {
      if (geometry.strides[d] != Expr(0)) continue;
      geometry.sizes[d] = g_.symbols.Simplify(Min(geometry.sizes[d], 1));
      if (!geometry.sizes[d].IsConstant())
        return absl::UnimplementedError("a write to expanded memory that may be empty");
    }
    const TensorId once = NewTensor(id, geometry, tensors_[t].home);
    const TensorType& type = g_.value(v).type.tensor();
    if (type.rank() != static_cast<int>(geometry.sizes.size()))
      return absl::UnimplementedError("a write of a broadcast value to expanded memory");
    SymbolicGeometry first = GeometryOf(type);
    first.sizes = geometry.sizes;
    return Write(once, regions_.View(anchor, Own(anchor, v, *type.strides), first), anchor, SharedPlaces::kOneValue);
  }
  bool known_at_call = memories_[id].shared && options_.symbolic_strides;
  // PyTorch takes any strides of a tensor without elements for those of dense memory.
  const auto may_be_zero = [&](const Expr& size) { return g_.symbols.AlwaysLessOrEqual(1, size) != true; };
  const bool may_be_empty = std::any_of(geometry.sizes.begin(), geometry.sizes.end(), may_be_zero);
  const bool is_empty = std::find(geometry.sizes.begin(), geometry.sizes.end(), Expr(0)) != geometry.sizes.end();
  for (size_t d = 0; d < geometry.sizes.size(); ++d) {
    // PyTorch refuses expanded memory.
    if (geometry.strides[d] != Expr(0)) continue;
    if (is_empty) break;
    const std::optional<bool> several = g_.symbols.Less(Expr(1), geometry.sizes[d]);
    if (several == true && !may_be_empty) return absl::FailedPreconditionError(kOverlapMessage);
    known_at_call = known_at_call || several != false;
  }
  // Windows that overlap are written in order, except those that get one value.
  bool may_overlap_itself = false;
  if (!IsNested(geometry)) {
    const std::optional<Geometry> concrete = Concrete(geometry);
    const std::optional<bool> itself =
        concrete ? SelfOverlap(*concrete) : RegionOf(geometry).OverlapsItself(g_.symbols);
    if (itself == true && !uniform) return absl::UnimplementedError("a write to overlapping windows");
    known_at_call = known_at_call || !itself.has_value();
    may_overlap_itself = uniform && itself != false;
  }
  // Calls that are refused and calls that run in eager order are found by two checks.
  const bool in_order = shared == SharedPlaces::kInOrder;
  const OperandSharing kind = in_order ? OperandSharing::kNotPartly : OperandSharing::kAny;
  if (known_at_call && !uniform && checked_.Insert({t, t, kind})) {
    NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltAssertNoInternalOverlap), {Elements(t, anchor)}, {});
    if (in_order) g_.SetAttribute(n, "in_order", true);
    g_.SetSource(n, at_.source);
  }
  if (!sharing_.IsAlone(id)) {
    return absl::UnimplementedError("a write to memory that a branch's result may share");
  }
  NoteWriteAtOne(id);
  v = Cast(anchor, v, geometry.dtype);
  SMELT_ASSIGN_OR_RETURN(v, Broadcast(anchor, v, geometry.sizes));
  v = Resolve(tensors_[t], v, anchor);  // what is stored is what reading resolves to the value
  MemoryState& m = memories_.Edit(id);
  const bool keep_outside = (absolute_access_ && m.origin != MemoryState::Origin::kFresh) ||
                            shared_states_.contains(id) || m.shared || m.nominal.offset != Expr(0);
  if (SameGeometry(geometry, m.nominal) && !keep_outside) {
    m.version = WithLayout(anchor, v, m.nominal.strides);
  } else if (!keep_outside && geometry.dtype == m.nominal.dtype && geometry.offset == m.nominal.offset &&
             NumElements(geometry) == NumElements(m.nominal) && IsDense(geometry, g_.symbols) &&
             IsDense(m.nominal, g_.symbols)) {
    // All of the storage, with its dims in another order: the same bytes seen through the nominal geometry.
    ValueId laid_out = WithLayout(anchor, v, geometry.strides);
    SymbolicGeometry nominal = m.nominal;
    nominal.offset = 0;
    m.version = regions_.View(anchor, laid_out, nominal);
  } else {
    m.version = regions_.Write(anchor, m.version, v, geometry, m.shared ? tensors_[t].home : -1);
    if (may_overlap_itself) g_.SetAttribute(g_.value(m.version).def, "overlaps_itself", true);
  }
  ++m.generation;
  m.written.push_back(std::move(geometry));
  m.written_home.push_back(tensors_[t].home);
  return absl::OkStatus();
}

ValueId Functionalizer::FreshContents(NodeId anchor, const SymbolicGeometry& g) {
  if (IsComplex(g.dtype)) {
    // Kernels know real numbers: pairs of them, seen as complex ones.
    SymbolicGeometry pairs{RealOf(g.dtype), g.sizes, g.strides, 0};
    for (Expr& s : pairs.strides) s = s * 2;
    pairs.sizes.push_back(2);
    pairs.strides.push_back(1);
    return regions_.View(anchor, FreshContents(anchor, pairs), g);
  }
  Type type = TypeOf({g.dtype, g.sizes, g.strides, 0});
  NodeId n = g_.InsertBefore(anchor, OpName::Get(op::kSmeltFull), {}, {type});
  g_.SetAttribute(n, "value", 0.0);
  g_.SetSource(n, at_.source);
  return g_.node(n).outputs[0];
}

absl::Status Functionalizer::CheckSharing(TensorId written, ValueId operand, OperandSharing rule, NodeId anchor) {
  if (const TensorId* t = tensor_of_.Find(operand)) return CheckSharing(written, *t, rule, anchor);
  // Neither a tensor nor a list of tensors.
  const TypeKind kind = g_.value(operand).type.kind();
  if (kind == TypeKind::kInt || kind == TypeKind::kFloat || kind == TypeKind::kBool || kind == TypeKind::kNone)
    return absl::OkStatus();
  if (auto it = tensor_lists_.find(operand); it != tensor_lists_.end()) {
    for (TensorId t : it->second) SMELT_RETURN_IF_ERROR(CheckSharing(written, t, rule, anchor));
  } else if (auto it = lists_.find(operand); it != lists_.end()) {
    for (ValueId v : it->second) SMELT_RETURN_IF_ERROR(CheckSharing(written, v, rule, anchor));
  }
  return absl::OkStatus();
}

absl::Status Functionalizer::CheckSharing(TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  if (tensors_[written].memory != tensors_[read].memory) return absl::OkStatus();
  const bool whole = rule == OperandSharing::kNotPartly || rule == OperandSharing::kWholeOrNone;
  if (written == read) {
    if (whole) return absl::OkStatus();
    // PyTorch does not look at the elements if the operand is the written tensor itself.
    return rule == OperandSharing::kNone
               ? absl::FailedPreconditionError(kSharingMessage)
               : WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  }
  const SymbolicGeometry &a = tensors_[written].geometry, &b = tensors_[read].geometry;
  const bool same_home = tensors_[written].home == tensors_[read].home;
  // They are exactly the same elements. PyTorch compares the strides of dims of size 1, too.
  if (whole && same_home && SameGeometry(a, b) && a.strides == b.strides) return absl::OkStatus();
  if (memories_[tensors_[written].memory].shared && (!same_home || options_.symbolic_strides)) {
    // The places of the arguments are known at the call.
    CheckSharingAtTheCall(written, read, rule, anchor);
    return absl::OkStatus();
  }
  const bool looked_at = rule == OperandSharing::kNotPartly || rule == OperandSharing::kNone;
  if (!looked_at || !IsDense(a, g_.symbols) || !IsDense(b, g_.symbols)) {
    // They are the same elements by other strides. PyTorch looks at a call whose sizes leave no gaps, and refuses it.
    const bool open = std::any_of(a.sizes.begin(), a.sizes.end(), [](const Expr& s) { return !s.IsConstant(); });
    if (looked_at && open && Compare(RegionOf(a), RegionOf(b), g_.symbols) == Overlap::kSame)
      CheckSharingAtTheCall(written, read, rule, anchor);
    return CheckOrder(written, read, rule, anchor);
  }
  const Overlap overlap = Compare(RegionOf(a), RegionOf(b), g_.symbols);
  // (Also for an operand of another dtype.)
  const bool very_same = overlap == Overlap::kSame && a.sizes == b.sizes && a.strides == b.strides;
  if (overlap == Overlap::kDisjoint || (whole && very_same)) return absl::OkStatus();
  if (overlap == Overlap::kUnknown) {
    return absl::UnimplementedError("a write beside an operand that may overlap it, which the sizes leave open");
  }
  return absl::FailedPreconditionError(kSharingMessage);
}

void Functionalizer::ForgetChecks(TensorId t) {
  checked_.EraseIf([&](const Check& c) { return std::get<0>(c) == t || std::get<1>(c) == t; });
}

void Functionalizer::CheckSharingAtTheCall(TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  if (!checked_.Insert({written, read, rule})) return;
  const bool partly = rule == OperandSharing::kNotPartly;
  const NodeId n =
      g_.InsertBefore(anchor, OpName::Get(partly ? op::kSmeltAssertNoPartialOverlap : op::kSmeltAssertNoOverlap),
                      {Elements(written, anchor), Elements(read, anchor)}, {});
  if (!partly) g_.SetAttribute(n, "rule", static_cast<int64_t>(rule));
  g_.SetSource(n, at_.source);
}

absl::Status Functionalizer::CheckOrder(TensorId written, TensorId read, OperandSharing rule, NodeId anchor) {
  const SymbolicGeometry &a = tensors_[written].geometry, &b = tensors_[read].geometry;
  const Overlap overlap = Compare(RegionOf(a), RegionOf(b), g_.symbols);
  const bool whole = rule == OperandSharing::kNotPartly || rule == OperandSharing::kWholeOrNone;
  if (overlap == Overlap::kDisjoint || (whole && overlap == Overlap::kSame)) return absl::OkStatus();
  const absl::Status refused = WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  const absl::Status in_order = absl::UnimplementedError(kReadsWhatItWrote);
  // Indices decide whether the operand changes: the eager-order plan looks at them.
  if (rule == OperandSharing::kNone && overlap != Overlap::kUnknown) return in_order;
  if (rule != OperandSharing::kNotPartly && overlap != Overlap::kUnknown) return refused;
  const std::optional<Geometry> to = Concrete(a), from = Concrete(b);
  if (rule == OperandSharing::kNotPartly && to && from) {
    ConcreteDecide decide;
    absl::StatusOr<Geometry> broadcast = view_rules::Expand(decide, *from, to->sizes);
    if (!broadcast.ok()) return absl::OkStatus();  // what does not fit is refused elsewhere
    const ElementOrder order =
        OrderOfElements({*to, nullptr, a.dtype}, {PlacedGeometry{*std::move(broadcast), nullptr, b.dtype}});
    return order.effect == OrderEffect::kNone   ? absl::OkStatus()
           : order.effect == OrderEffect::kOpen ? refused
                                                : in_order;
  }
  if (at_.block_depth > 0) return in_order;
  CheckSharingAtTheCall(written, read, rule, anchor);
  return absl::OkStatus();
}

void Functionalizer::DropCachedViewsSince(size_t mark) {
  for (; cache_log_.size() > mark; cache_log_.pop_back()) {
    std::vector<CachedView>& cache = view_cache_[cache_log_.back()];
    if (!cache.empty()) cache.pop_back();  // else dropped with its version
  }
}

}  // namespace smelt
