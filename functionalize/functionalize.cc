#include "smelt/functionalize/functionalize.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/region.h"
#include "smelt/functionalize/functional_counterpart.h"
#include "smelt/functionalize/memory.h"

namespace smelt {
namespace {

constexpr char kOverlapMessage[] =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the "
    "tensor before performing the operation.";

Region RegionOf(const SymbolicGeometry& g) { return Region::Strided(g.offset, g.sizes, g.strides, ItemSize(g.dtype)); }

bool IsViewOp(const Graph& g, NodeId n) {
  const OpKind kind = GetOpInfo(g.node(n).op).kind;
  return kind == OpKind::kView && g.node(n).op != "smelt::view";
}
bool IsInPlaceView(OpName op) { return GetOpInfo(op).kind == OpKind::kInplaceView; }
bool IsRandom(OpName op) { return GetOpInfo(op).kind == OpKind::kRandom; }

// The geometries that a view operator, or an in-place one, gives over `base`.
absl::StatusOr<ViewMeaning> ViewsOf(const Graph& g, NodeId n, const SymbolicGeometry& base) {
  SMELT_ASSIGN_OR_RETURN(OpCall call, OpCall::Of(g, n));
  const OpInfo& info = GetOpInfo(call.op());
  if (info.kind == OpKind::kInplaceView) {
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart view, FindFunctionalCounterpart(*FindSchema(call.op())));
    call = OpCall(view.op, call.args());
  }
  return BuildView(call, base, g.symbols);
}

class Functionalizer {
 public:
  Functionalizer(Graph& g, const FunctionalizeOptions& options) : g_(g), options_(options) {}

  absl::StatusOr<FunctionalizeResult> Run() {
    SMELT_RETURN_IF_ERROR(BindInputs());
    FindAbsoluteAccess();
    SMELT_RETURN_IF_ERROR(ProcessBlock(g_.top()));
    SMELT_RETURN_IF_ERROR(BuildConvention());
    EraseDead(g_.top());
    return std::move(result_);
  }

 private:
  // --- errors ---
  absl::Status At(NodeId n, absl::Status s) const {
    if (s.ok()) return s;
    const Node& node = g_.node(n);
    std::string where = node.op.full();
    if (node.source) absl::StrAppend(&where, " (", node.source->ToString(), ")");
    return Annotate(s, where);
  }

  // --- inputs ---
  absl::Status BindInputs() {
    // Layer 1: duplicates. The later of two equal arguments is replaced by the first.
    std::vector<int> user;  // positions among inputs()
    for (int i = 0; i < static_cast<int>(g_.inputs().size()); ++i) {
      if (g_.input_infos[i].kind == InputInfo::Kind::kUser) user.push_back(i);
    }
    DuplicatesLayer& duplicates = result_.convention.duplicates;
    duplicates = options_.duplicates;
    if (duplicates.inner_of_outer.empty()) {
      for (size_t i = 0; i < user.size(); ++i) duplicates.inner_of_outer.push_back(DistinctIndex(static_cast<int>(i)));
    }
    if (duplicates.inner_of_outer.size() != user.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the duplicates layer has ", duplicates.inner_of_outer.size(),
                                                     " arguments, the graph ", user.size()));
    }
    std::vector<ValueId> distinct;
    std::vector<int> erase;
    for (size_t i = 0; i < user.size(); ++i) {
      const int inner = duplicates.inner_of_outer[i].value();
      const ValueId v = g_.inputs()[user[i]];
      if (inner == static_cast<int>(distinct.size())) {
        distinct.push_back(v);
        caller_of_distinct_.push_back(static_cast<int>(i));
      } else {
        g_.ReplaceAllUses(v, distinct[inner]);
        erase.push_back(user[i]);
      }
    }
    for (auto it = erase.rbegin(); it != erase.rend(); ++it) {
      g_.EraseParam(g_.top(), *it);
    }

    // Layer 2: each distinct tensor argument has its own memory; states' storages follow.
    OverlapsLayer& overlaps = result_.convention.overlaps;
    for (size_t d = 0; d < distinct.size(); ++d) {
      const Value& value = g_.value(distinct[d]);
      if (!value.type.IsTensor()) {
        overlaps.memory_of.push_back(MemoryIndex());
        tensor_of_distinct_.push_back(-1);
        continue;
      }
      if (!value.type.tensor().IsComplete())
        return absl::InvalidArgumentError(absl::StrCat("input %", value.name, " has no complete type"));
      SymbolicGeometry geometry = GeometryOf(value.type.tensor());
      if (options_.overlapping && options_.symbolic_strides) {
        for (size_t k = 0; k < geometry.strides.size(); ++k) {
          const std::string symbol = absl::StrCat(value.name, ".stride", k);
          SymbolRanges::Range range;
          range.hint = Hint(geometry.strides[k]);
          g_.symbols.Set(symbol, range);
          geometry.strides[k] = Expr::Symbol(symbol);
        }
      }
      const int home = options_.overlapping ? static_cast<int>(d) : -1;
      if (!options_.overlapping || memory_of_argument_.empty()) {
        MemoryState m;
        m.origin = MemoryState::Origin::kArgument;
        m.index = overlaps.num_memories++;
        m.nominal = geometry;
        m.version = m.initial = distinct[d];
        m.shared = options_.overlapping;
        memory_of_argument_.push_back(NewMemory(std::move(m)));
      }
      overlaps.memory_of.push_back(MemoryIndex(overlaps.num_memories - 1));
      tensor_of_distinct_.push_back(NewTensor(memory_of_argument_.back(), geometry, home));
      initial_geometry_[static_cast<int>(d)] = std::move(geometry);
      argument_names_[static_cast<int>(d)] = value.name;
      tensor_of_[distinct[d]] = tensor_of_distinct_.back();
    }
    overlaps.num_argument_memories = overlaps.num_memories;
    overlaps.num_memories += static_cast<int>(g_.weight_storages.size());

    // States: one memory a storage; the weight that spans most of it stands for the contents.
    std::vector<ValueId> primary(g_.weight_storages.size());
    std::vector<int64_t> widest(g_.weight_storages.size(), -1);
    std::vector<std::pair<ValueId, int>> weight_inputs;
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      if (g_.input_infos[i].kind != InputInfo::Kind::kWeight) continue;
      const int w = g_.input_infos[i].weight;
      const Weight& weight = g_.weights[w];
      weight_inputs.push_back({g_.inputs()[i], w});
      const auto span = weight.geometry.Span();
      const int64_t bytes = (span.second - span.first) * ItemSize(weight.dtype);
      if (bytes > widest[weight.storage]) {
        widest[weight.storage] = bytes;
        primary[weight.storage] = g_.inputs()[i];
      }
    }
    memory_of_storage_.assign(g_.weight_storages.size(), -1);
    for (auto [value, w] : weight_inputs) {
      const Weight& weight = g_.weights[w];
      if (primary[weight.storage] != value) continue;
      MemoryState m;
      m.origin = MemoryState::Origin::kState;
      m.index = weight.storage;
      m.nominal = WeightGeometry(weight);
      m.version = m.initial = value;
      memory_of_storage_[weight.storage] = NewMemory(std::move(m));
    }
    for (auto [value, w] : weight_inputs) {
      const TensorId t = NewTensor(memory_of_storage_[g_.weights[w].storage], WeightGeometry(g_.weights[w]));
      tensor_of_[value] = t;
      states_.push_back({w, t});
    }
    return absl::OkStatus();
  }

  // The value of an expression for the example that was exported.
  int64_t Hint(const Expr& e) const {
    absl::flat_hash_map<std::string, int64_t> values;
    for (const std::string& s : e.Symbols()) {
      auto it = g_.symbol_hints.find(s);
      values[s] = it == g_.symbol_hints.end() ? 4 : it->second;
    }
    auto v = e.Evaluate(values);
    return v.ok() ? *v : -1;
  }

  static SymbolicGeometry WeightGeometry(const Weight& w) {
    SymbolicGeometry g;
    g.dtype = w.dtype;
    g.sizes.assign(w.geometry.sizes.begin(), w.geometry.sizes.end());
    g.strides.assign(w.geometry.strides.begin(), w.geometry.strides.end());
    g.offset = w.geometry.offset;
    return g;
  }

  // Where the program addresses storages absolutely, an argument's memory may be read outside the argument: then its
  // contents are never renamed to a value that holds the argument alone.
  void FindAbsoluteAccess() {
    for (NodeId n : g_.AllNodes()) {
      const std::string& name = g_.node(n).op.name();
      if (absl::StrContains(name, "as_strided") || name == "aten::set_" || name == "aten::resize_" ||
          name == "aten::resize_as_") {
        absolute_access_ = true;
      }
    }
    absl::flat_hash_map<MemoryId, int> users;
    for (auto [w, t] : states_) ++users[tensors_[t].memory];
    for (auto [m, n] : users) {
      if (n > 1) shared_states_.insert(m);
    }
  }

  // --- memory ---
  MemoryId NewMemory(MemoryState m) {
    memories_.push_back(std::move(m));
    return static_cast<int>(memories_.size()) - 1;
  }
  TensorId NewTensor(MemoryId m, SymbolicGeometry geometry, int home = -1) {
    tensors_.push_back({m, home, std::move(geometry)});
    return static_cast<int>(tensors_.size()) - 1;
  }
  void BindFresh(ValueId v) {
    const Type& t = g_.value(v).type;
    MemoryState m;
    m.nominal = GeometryOf(t.tensor());
    m.version = m.initial = v;
    tensor_of_[v] = NewTensor(NewMemory(std::move(m)), GeometryOf(t.tensor()));
  }
  absl::StatusOr<TensorId> TensorOf(ValueId v) const {
    auto it = tensor_of_.find(v);
    if (it == tensor_of_.end())
      return absl::InternalError(absl::StrCat("%", g_.value(v).name, " is no tensor that functionalization knows"));
    return it->second;
  }

  NodeId InsertView(NodeId anchor, ValueId base, const SymbolicGeometry& geometry) {
    NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::view"), {base}, {TypeOf(geometry)});
    SetGeometry(n, geometry);
    return n;
  }
  void SetGeometry(NodeId n, const SymbolicGeometry& geometry) {
    g_.SetAttribute(n, "sizes", geometry.sizes);
    g_.SetAttribute(n, "strides", geometry.strides);
    g_.SetAttribute(n, "offset", geometry.offset);
    g_.SetAttribute(n, "dtype", static_cast<int64_t>(ScalarTypeOf(geometry.dtype)));
    g_.SetSource(n, source_);
  }

  // The value of a tensor now, for a use just before `anchor`.
  ValueId Read(TensorId t, NodeId anchor) {
    const TensorState& tensor = tensors_[t];
    const MemoryState& m = memories_[tensor.memory];
    // A state that begins inside its storage is a view of it, so that whoever looks at the value sees where it begins.
    if (!m.shared && SameGeometry(tensor.geometry, m.nominal) && m.nominal.offset == Expr(0)) return m.version;
    // One view a version and geometry, as long as control flow dominates.
    const std::vector<CachedView>& cache = view_cache_[tensor.memory];
    for (auto c = cache.rbegin(); c != cache.rend() && c->version == m.version; ++c) {
      if (c->home == tensor.home && SameGeometry(c->geometry, tensor.geometry)) return c->view;
    }
    const NodeId view = InsertView(anchor, m.version, tensor.geometry);
    if (m.shared) g_.SetAttribute(view, "argument", static_cast<int64_t>(tensor.home));
    const ValueId v = g_.node(view).outputs[0];
    view_cache_[tensor.memory].push_back({m.version, tensor.geometry, v, tensor.home});
    cache_log_.push_back(tensor.memory);
    return v;
  }

  // Whether `v` may stand for a memory of its own: it is no view of another one, and counts from its first element.
  bool IsOwner(ValueId v) const {
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def)) return g_.node(def).op != "smelt::view";
    if (g_.node(def).parent != g_.top()) return true;
    const InputInfo& info = g_.input_infos[g_.value(v).def_index];
    if (info.kind == InputInfo::Kind::kWeight) return g_.weights[info.weight].geometry.offset == 0 && !absolute_access_;
    return !absolute_access_;
  }
  // The same elements as contents of a memory of their own, in the layout `strides`.
  ValueId Own(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    return IsOwner(v) ? Materialize(anchor, v, strides) : ForceMaterialize(anchor, v, strides);
  }
  ValueId Materialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    const TensorType& t = g_.value(v).type.tensor();
    if (SameGeometry({*t.dtype, *t.sizes, strides, 0}, GeometryOf(t))) return v;
    return ForceMaterialize(anchor, v, strides);
  }
  ValueId ForceMaterialize(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
    const TensorType t = g_.value(v).type.tensor();
    NodeId n =
        g_.InsertBefore(anchor, OpName::Get("smelt::materialize"), {v}, {Type::Tensor(*t.dtype, *t.sizes, strides)});
    g_.SetAttribute(n, "strides", strides);
    g_.SetSource(n, source_);
    return g_.node(n).outputs[0];
  }

  // `v` in the layout `strides`: where a node of ours has just made it for this purpose, it is told to make it so.
  ValueId WithLayout(NodeId anchor, ValueId v, const std::vector<Expr>& strides) {
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

  ValueId Cast(NodeId anchor, ValueId v, DType to) {
    const TensorType t = g_.value(v).type.tensor();
    if (*t.dtype == to) return v;
    std::vector<ValueId> args = {v, InsertConstant(g_, anchor, ScalarTypeOf(to))};
    NodeId n = g_.InsertBefore(anchor, OpName::Get("prims::convert_element_type"), args,
                               {Type::Tensor(to, *t.sizes, *t.strides)});
    g_.SetSource(n, source_);
    const ValueId out = g_.node(n).outputs[0];
    own_.insert(out);
    return out;
  }

  absl::StatusOr<ValueId> Broadcast(NodeId anchor, ValueId v, const std::vector<Expr>& sizes) {
    const TensorType t = g_.value(v).type.tensor();
    if (*t.sizes == sizes) return v;
    const int lead = static_cast<int>(sizes.size()) - t.rank();
    if (lead < 0) {
      // PyTorch lets copy_ drop leading dims of size 1? No: it refuses.
      return absl::FailedPreconditionError(
          absl::StrCat("a value of rank ", t.rank(), " cannot be broadcast to rank ", sizes.size()));
    }
    SymbolicGeometry g{*t.dtype, sizes, std::vector<Expr>(sizes.size(), Expr(0)), 0};
    for (int d = 0; d < t.rank(); ++d) {
      const Expr& have = (*t.sizes)[d];
      if (have == sizes[lead + d]) {
        g.strides[lead + d] = (*t.strides)[d];
      } else if (have != Expr(1)) {
        return absl::FailedPreconditionError(
            absl::StrCat("The expanded size of the tensor (", sizes[lead + d].ToString(),
                         ") must match the existing size (", have.ToString(), ") at non-singleton dimension ", d));
      }
    }
    // A view counts from the storage's beginning, not from the view it is of.
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return g_.node(InsertView(anchor, v, g)).outputs[0];
    g.offset = std::get<Expr>(*g_.node(def).FindAttribute("offset"));
    const NodeId n = InsertView(anchor, g_.node(def).inputs[0], g);
    if (const Attribute* home = g_.node(def).FindAttribute("argument")) g_.SetAttribute(n, "argument", *home);
    return g_.node(n).outputs[0];
  }

  // Replaces what the tensor holds by `v` (its dtype and sizes, or broadcast and cast to them).
  absl::Status Write(TensorId t, ValueId v, NodeId anchor) {
    const SymbolicGeometry geometry = tensors_[t].geometry;
    const MemoryId id = tensors_[t].memory;
    for (size_t d = 0; d < geometry.sizes.size(); ++d) {
      // PyTorch refuses expanded memory; overlapping windows it writes in order.
      const std::optional<bool> several = g_.symbols.Less(Expr(1), geometry.sizes[d]);
      if (geometry.strides[d] == Expr(0) && several.has_value() && *several) {
        return absl::FailedPreconditionError(kOverlapMessage);
      }
    }
    if (memories_[id].shared && options_.symbolic_strides && checked_.insert({t, t}).second) {
      NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::assert_no_internal_overlap"), {Read(t, anchor)}, {});
      g_.SetSource(n, source_);
    }
    for (MemoryId other : memories_[id].may_share) {
      (void)other;
      return absl::UnimplementedError("a write to memory that a branch's result may share");
    }
    v = Cast(anchor, v, geometry.dtype);
    SMELT_ASSIGN_OR_RETURN(v, Broadcast(anchor, v, geometry.sizes));
    MemoryState& m = memories_[id];
    const bool keep_outside = (absolute_access_ && m.origin != MemoryState::Origin::kFresh) ||
                              shared_states_.contains(id) || m.shared || m.nominal.offset != Expr(0);
    if (SameGeometry(geometry, m.nominal) && !keep_outside) {
      m.version = WithLayout(anchor, v, m.nominal.strides);
    } else if (!keep_outside && geometry.dtype == m.nominal.dtype && geometry.offset == m.nominal.offset &&
               NumElements(geometry) == NumElements(m.nominal) && IsDense(geometry, g_.symbols) &&
               IsDense(m.nominal, g_.symbols)) {
      // All of the storage, in another order of dims: the same bytes seen through the nominal geometry.
      ValueId laid_out = WithLayout(anchor, v, geometry.strides);
      SymbolicGeometry nominal = m.nominal;
      nominal.offset = 0;
      m.version = g_.node(InsertView(anchor, laid_out, nominal)).outputs[0];
    } else {
      NodeId n =
          g_.InsertBefore(anchor, OpName::Get("smelt::write_region"), {m.version, v}, {g_.value(m.version).type});
      SetGeometry(n, geometry);
      if (m.shared) g_.SetAttribute(n, "argument", static_cast<int64_t>(tensors_[t].home));
      m.version = g_.node(n).outputs[0];
    }
    ++m.generation;
    m.written.push_back(geometry);
    m.written_home.push_back(tensors_[t].home);
    return absl::OkStatus();
  }

  // --- walking ---
  struct CachedView {
    ValueId version;
    SymbolicGeometry geometry;
    ValueId view;
    int home = -1;
  };

  absl::Status ProcessBlock(BlockId b) {
    const size_t mark = cache_log_.size();
    const std::vector<NodeId> nodes = g_.Nodes(b);
    for (NodeId n : nodes) {
      source_ = g_.node(n).source;
      if (options_.on_operand && b == g_.top()) TellOperands(n);
      absl::Status s = ProcessNode(n);
      if (!s.ok()) return At(n, s);
    }
    source_ = nullptr;
    SMELT_RETURN_IF_ERROR(ProcessResultsOf(b));
    // Views made inside do not dominate what comes after.
    while (cache_log_.size() > mark) {
      view_cache_[cache_log_.back()].pop_back();
      cache_log_.pop_back();
    }
    return absl::OkStatus();
  }
  void TellOperands(NodeId n) const {
    for (ValueId v : g_.node(n).inputs) {
      auto it = tensor_of_.find(v);
      if (it != tensor_of_.end()) options_.on_operand(v, tensors_[it->second].memory);
    }
  }
  // Results of inner blocks are handled by the node that owns the block.
  absl::Status ProcessResultsOf(BlockId) { return absl::OkStatus(); }

  static bool IsTensorList(const Type& t) {
    return t.kind() == TypeKind::kList &&
           (t.element().IsTensor() || (t.element().kind() == TypeKind::kOptional && t.element().element().IsTensor()));
  }

  absl::Status ProcessNode(NodeId n) {
    const OpName op = g_.node(n).op;
    const std::string& name = op.name();
    if (name == "prim::Constant" || name == "smelt::size") return absl::OkStatus();
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
    if (IsInPlaceView(op)) return ProcessInPlaceView(n);
    if (name == "aten::set_") return ProcessSet(n);
    if (name == "aten::resize_" || name == "aten::resize_as_") return ProcessResize(n);
    if (IsViewOp(g_, n)) return ProcessView(n);
    if (schema->IsMutable()) return ProcessWrite(n, *schema);
    return ProcessPure(n);
  }

  absl::Status ProcessUnpack(NodeId n) {
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

  absl::Status ProcessView(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(TensorId base, TensorOf(g_.node(n).inputs[0]));
    SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, base));
    const ValueId out = g_.node(n).outputs[0];
    const MemoryId m = tensors_[base].memory;
    if (g_.value(out).type.IsTensor()) {
      tensor_of_[out] = NewTensor(m, std::move(views.outputs[0]), tensors_[base].home);
    } else {
      std::vector<TensorId>& list = tensor_lists_[out];
      for (SymbolicGeometry& v : views.outputs) list.push_back(NewTensor(m, std::move(v), tensors_[base].home));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ViewMeaning> ViewsOfTensor(NodeId n, TensorId base) const {
    SymbolicGeometry geometry = tensors_[base].geometry;
    const bool absolute = absl::StrContains(g_.node(n).op.name(), "as_strided") &&
                          memories_[tensors_[base].memory].origin == MemoryState::Origin::kArgument;
    if (!absolute) return ViewsOf(g_, n, geometry);
    // as_strided's offset counts from the storage's first element; an argument's geometry from the argument's own.
    const Expr offset = ArgumentOffset(base);
    geometry.offset = geometry.offset + offset;
    SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOf(g_, n, geometry));
    for (SymbolicGeometry& v : views.outputs) v.offset = v.offset - offset;
    return views;
  }
  // Where the argument begins in its storage, in elements of the tensor's dtype.
  Expr ArgumentOffset(TensorId t) const {
    const MemoryState& m = memories_[tensors_[t].memory];
    const int d = tensors_[t].home >= 0 ? tensors_[t].home : DistinctOf(m.index);
    const Expr offset = Expr::Symbol(absl::StrCat(argument_names_.at(d), ".offset"));
    const int item = ItemSize(tensors_[t].geometry.dtype), argument_item = ItemSize(initial_geometry_.at(d).dtype);
    return argument_item >= item ? offset * (argument_item / item) : FloorDiv(offset, item / argument_item);
  }
  int DistinctOf(int memory) const {
    const auto& of = result_.convention.overlaps.memory_of;
    for (size_t d = 0; d < of.size(); ++d) {
      if (of[d].value() == memory) return static_cast<int>(d);
    }
    return -1;
  }

  absl::Status ProcessInPlaceView(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(TensorId t, TensorOf(g_.node(n).inputs[0]));
    SMELT_ASSIGN_OR_RETURN(ViewMeaning views, ViewsOfTensor(n, t));
    if (block_depth_ > 0) return absl::UnimplementedError("a change of geometry inside a branch or loop");
    tensors_[t].geometry = std::move(views.outputs[0]);
    ++result_.mutations_removed;
    if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = t;
    return absl::OkStatus();
  }

  // set_.source_Tensor(self, source); set_.source_Tensor_storage_offset(self, source, offset, size, stride);
  // set_(self).
  absl::Status ProcessSet(NodeId n) {
    const Node& node = g_.node(n);
    if (block_depth_ > 0) return absl::UnimplementedError("set_ inside a branch or loop");
    SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(node.inputs[0]));
    const std::string& overload = node.op.overload();
    if (overload == "source_Tensor" || overload == "source_Tensor_storage_offset") {
      SMELT_ASSIGN_OR_RETURN(TensorId source, TensorOf(node.inputs[1]));
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
    } else if (overload.empty()) {
      SymbolicGeometry empty{tensors_[self].geometry.dtype, {0}, {1}, 0};
      MemoryState m;
      m.nominal = empty;
      m.version = FreshContents(n, empty);
      tensors_[self] = {NewMemory(std::move(m)), -1, empty};
    } else {
      return absl::UnimplementedError("set_ from a storage");
    }
    ++result_.mutations_removed;
    if (!node.outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
    return absl::OkStatus();
  }

  // New contents nobody has written yet: zeros, so that runs repeat.
  ValueId FreshContents(NodeId anchor, const SymbolicGeometry& g) {
    Type type = TypeOf({g.dtype, g.sizes, g.strides, 0});
    NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::full"), {}, {type});
    g_.SetAttribute(n, "value", 0.0);
    g_.SetSource(n, source_);
    return g_.node(n).outputs[0];
  }

  absl::Status ProcessResize(NodeId n) {
    const Node& node = g_.node(n);
    if (block_depth_ > 0) return absl::UnimplementedError("resize_ inside a branch or loop");
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

  absl::Status Resize(TensorId self, const std::vector<Expr>& sizes, NodeId anchor) {
    SymbolicGeometry g = tensors_[self].geometry;
    if (g.sizes == sizes) return absl::OkStatus();
    if (memories_[tensors_[self].memory].shared)
      return absl::UnimplementedError("resize_ of an argument that may share its storage with another");
    g.sizes = sizes;
    g.strides = ContiguousStrides(sizes);
    MemoryState& m = memories_[tensors_[self].memory];
    const Expr need = g.offset + NumElements(g);
    const Expr have = m.nominal.offset + NumElements(m.nominal);
    const bool dense = IsDense(m.nominal, g_.symbols) && m.nominal.dtype == g.dtype;
    const std::optional<bool> fits = dense ? g_.symbols.LessOrEqual(need, have) : std::nullopt;
    if (!fits.has_value()) return absl::UnimplementedError("resize_ of a tensor whose storage's size is not known");
    if (!*fits) {
      // The storage grows: the same elements, then new ones. Views of it stay on it.
      if (m.nominal.offset != Expr(0)) return absl::UnimplementedError("resize_ that grows a tensor with an offset");
      SymbolicGeometry flat_new{g.dtype, {need}, {1}, 0};
      SymbolicGeometry flat_old{g.dtype, {NumElements(m.nominal)}, {1}, 0};
      ValueId base = FreshContents(anchor, flat_new);
      ValueId old = g_.node(InsertView(anchor, m.version, flat_old)).outputs[0];
      NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::write_region"), {base, old}, {TypeOf(flat_new)});
      SetGeometry(n, flat_old);
      m.version = g_.node(n).outputs[0];
      m.nominal = flat_new;
      m.resized = true;
      ++m.generation;
    }
    tensors_[self].geometry = g;
    return absl::OkStatus();
  }

  bool HasDuplicates() const {
    const auto& inner = options_.duplicates.inner_of_outer;
    for (size_t i = 0; i < inner.size(); ++i) {
      if (inner[i].value() != static_cast<int>(i)) return true;
    }
    return false;
  }

  // Makes the inputs of a pure node values.
  absl::Status ReadInputs(NodeId n, NodeId anchor) {
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
  absl::StatusOr<ValueId> ReadList(ValueId list, NodeId anchor) {
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

  absl::Status ProcessPure(NodeId n) {
    SMELT_RETURN_IF_ERROR(ReadInputs(n, n));
    // Tensors that are one may have other geometries than the types say: what was transposed through one name is
    // through the other.
    if (HasDuplicates()) SMELT_RETURN_IF_ERROR(InferNode(g_, n));
    const std::string& name = g_.node(n).op.name();
    // A copy is a value that already is: contents are immutable. Only its layout may need work.
    if (name == "aten::clone" || name == "aten::lift_fresh_copy" || name == "aten::contiguous" ||
        name == "aten::alias_copy" || name == "aten::detach_copy") {
      const ValueId out = g_.node(n).outputs[0];
      const SymbolicGeometry g = GeometryOf(g_.value(out).type.tensor());
      MemoryState m;
      m.nominal = g;
      m.version = m.initial = Own(n, g_.node(n).inputs[0], g.strides);
      tensor_of_[out] = NewTensor(NewMemory(std::move(m)), g);
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

  // In-place and out= operators: the functional counterpart, then the write.
  absl::Status ProcessWrite(NodeId n, const FunctionSchema& schema) {
    ++result_.mutations_removed;
    const std::string& name = schema.op.name();
    const std::vector<ValueId> inputs(g_.node(n).inputs.begin(), g_.node(n).inputs.end());
    if (name == "aten::copy_") {
      SMELT_ASSIGN_OR_RETURN(TensorId self, TensorOf(inputs[0]));
      SMELT_ASSIGN_OR_RETURN(TensorId source, TensorOf(inputs[1]));
      // A tensor copied to itself PyTorch leaves alone, even where it could not be written.
      if (self != source) {
        SMELT_RETURN_IF_ERROR(CheckPartialOverlap(self, source, n));
        SMELT_RETURN_IF_ERROR(Write(self, Read(source, n), n));
      }
      if (!g_.node(n).outputs.empty()) tensor_of_[g_.node(n).outputs[0]] = self;
      return absl::OkStatus();
    }
    SMELT_ASSIGN_OR_RETURN(FunctionalCounterpart counterpart, FindFunctionalCounterpart(schema));
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
    if (counterpart.elementwise) {
      for (TensorId t : written) {
        for (ValueId v : inputs) {
          auto it = tensor_of_.find(v);
          if (t >= 0 && it != tensor_of_.end()) SMELT_RETURN_IF_ERROR(CheckPartialOverlap(t, it->second, n));
        }
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
    SMELT_RETURN_IF_ERROR(InferNode(g_, f));
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
      SMELT_RETURN_IF_ERROR(Write(written[i], results[i], n));
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

  // PyTorch's elementwise kernels refuse operands that overlap the written tensor, unless they are the same elements;
  // it looks only at tensors that cover their span (assert_no_partial_overlap).
  absl::Status CheckPartialOverlap(TensorId written, TensorId read, NodeId anchor) {
    if (tensors_[written].memory != tensors_[read].memory || written == read) return absl::OkStatus();
    const SymbolicGeometry &a = tensors_[written].geometry, &b = tensors_[read].geometry;
    const bool same_home = tensors_[written].home == tensors_[read].home;
    // The very same elements. PyTorch compares the strides of dims of size 1, too.
    if (same_home && SameGeometry(a, b) && a.strides == b.strides) return absl::OkStatus();
    if (memories_[tensors_[written].memory].shared && (!same_home || options_.symbolic_strides)) {
      // Where the arguments lie is known at the call.
      const std::pair<TensorId, TensorId> key(written, read);
      if (!checked_.insert(key).second) return absl::OkStatus();
      NodeId n = g_.InsertBefore(anchor, OpName::Get("smelt::assert_no_partial_overlap"),
                                 {Read(written, anchor), Read(read, anchor)}, {});
      g_.SetSource(n, source_);
      return absl::OkStatus();
    }
    if (!IsDense(a, g_.symbols) || !IsDense(b, g_.symbols)) return absl::OkStatus();
    const Overlap overlap = Compare(RegionOf(a), RegionOf(b), g_.symbols);
    if (overlap == Overlap::kDisjoint) return absl::OkStatus();
    if (overlap == Overlap::kUnknown) {
      return absl::UnimplementedError("a write beside an operand that may overlap it, which the sizes leave open");
    }
    return absl::FailedPreconditionError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
        "location. "
        "Please clone() the tensor before performing the operation.");
  }

  // --- control flow ---
  struct Snapshot {
    std::vector<MemoryState> memories;
    size_t num_tensors;
  };

  // Processes a branch or body whose parameters stand for known tensors; returns the memories (of before) whose
  // contents it changed.
  absl::Status ProcessInner(BlockId b) {
    ++block_depth_;
    absl::Status s = ProcessBlock(b);
    --block_depth_;
    return s;
  }

  // The memories that a tensor's own may be, a branch or a loop's rounds permitting.
  absl::flat_hash_set<MemoryId> MayBe(MemoryId m) const {
    absl::flat_hash_set<MemoryId> out = {m};
    std::vector<MemoryId> todo = {m};
    while (!todo.empty()) {
      const MemoryId now = todo.back();
      todo.pop_back();
      for (MemoryId other : memories_[now].may_share) {
        if (out.insert(other).second) todo.push_back(other);
      }
    }
    return out;
  }
  void MayShare(MemoryId a, MemoryId b) {
    memories_[a].may_share.push_back(b);
    memories_[b].may_share.push_back(a);
  }
  // Results of control flow, copied into memories of their own, that may really be those of `may_be`.
  void NoteSharing(const std::vector<MemoryId>& results, const std::vector<absl::flat_hash_set<MemoryId>>& may_be,
                   size_t num_before) {
    for (size_t i = 0; i < results.size(); ++i) {
      std::vector<MemoryId> outer(may_be[i].begin(), may_be[i].end());
      std::sort(outer.begin(), outer.end());
      for (MemoryId m : outer) {
        if (m < static_cast<int>(num_before)) MayShare(results[i], m);
      }
      for (size_t k = 0; k < i; ++k) {
        for (MemoryId m : outer) {
          if (!may_be[k].contains(m)) continue;
          MayShare(results[i], results[k]);
          break;
        }
      }
    }
  }

  absl::Status ProcessIf(NodeId n) {
    const bool closed = g_.node(n).op.name() == "smelt::cond";
    // The predicate may be a one-element tensor.
    const ValueId predicate = g_.node(n).inputs[0];
    if (auto it = tensor_of_.find(predicate); it != tensor_of_.end()) g_.SetInput(n, 0, Read(it->second, n));
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    if (closed) {
      // Operands are what the parameters are: the branch sees the very tensors.
      for (BlockId b : blocks) {
        const std::vector<ValueId> params(g_.params(b).begin(), g_.params(b).end());
        for (size_t i = 0; i < params.size(); ++i) {
          const ValueId outer = g_.node(n).inputs[i + 1];
          g_.ReplaceAllUses(params[i], outer);
        }
        for (size_t i = params.size(); i-- > 0;) g_.EraseParam(b, static_cast<int>(i));
      }
      while (g_.node(n).inputs.size() > 1) g_.RemoveInput(n, static_cast<uint32_t>(g_.node(n).inputs.size()) - 1);
    }
    const std::vector<MemoryState> before = memories_;
    const size_t num_before = before.size();
    std::vector<std::vector<MemoryState>> after;
    std::vector<std::vector<ValueId>> results;  // a block's declared results, as values
    std::vector<std::vector<TensorId>> result_tensors;
    std::vector<absl::flat_hash_set<MemoryId>> may_be(g_.node(n).outputs.size());
    for (BlockId b : blocks) {
      for (size_t m = 0; m < num_before; ++m) memories_[m] = before[m];
      SMELT_RETURN_IF_ERROR(ProcessInner(b));
      result_tensors.emplace_back();
      for (size_t k = 0; k < g_.results(b).size() && k < may_be.size(); ++k) {
        auto it = tensor_of_.find(g_.results(b)[k]);
        if (it != tensor_of_.end()) may_be[k].merge(MayBe(tensors_[it->second].memory));
      }
      std::vector<ValueId> values;
      for (ValueId v : g_.results(b)) {
        auto it = tensor_of_.find(v);
        result_tensors.back().push_back(it == tensor_of_.end() ? -1 : it->second);
        values.push_back(it == tensor_of_.end() ? v : Read(it->second, g_.block(b).return_node));
      }
      // Views cached while reading results belong to the block.
      DropViewsOf(values);
      results.push_back(std::move(values));
      after.push_back(std::vector<MemoryState>(memories_.begin(), memories_.begin() + num_before));
    }
    // Memories that a branch changed become results.
    std::vector<MemoryId> changed;
    for (size_t m = 0; m < num_before; ++m) {
      for (const auto& a : after) {
        if (a[m].version != before[m].version) {
          changed.push_back(static_cast<int>(m));
          break;
        }
      }
    }
    for (size_t m = 0; m < num_before; ++m) memories_[m] = before[m];
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    std::vector<MemoryId> copied;
    std::vector<absl::flat_hash_set<MemoryId>> copied_may_be;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!g_.value(outputs[k]).type.IsTensor()) continue;
      const TensorId t0 = result_tensors[0][k], t1 = result_tensors[1][k];
      if (t0 == t1 && t0 >= 0 && tensors_[t0].memory < static_cast<int>(num_before)) {
        tensor_of_[outputs[k]] = t0;  // both branches hand out the same tensor
        // Its value is not needed as a result; any value will do.
        continue;
      }
      if (t0 < 0 || t1 < 0)
        return absl::UnimplementedError("a branch's result that is no tensor functionalization knows");
      const TensorType& declared = g_.value(outputs[k]).type.tensor();
      SymbolicGeometry geometry = declared.IsComplete() ? GeometryOf(declared) : tensors_[t0].geometry;
      geometry.offset = 0;
      if (geometry.sizes != tensors_[t0].geometry.sizes || geometry.sizes != tensors_[t1].geometry.sizes) {
        return absl::UnimplementedError("branches whose results differ in size");
      }
      if (!IsDense(geometry, g_.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
      g_.SetType(outputs[k], TypeOf(geometry));
      for (size_t i = 0; i < 2; ++i) {
        source_ = g_.node(n).source;
        results[i][k] = Materialize(g_.block(blocks[i]).return_node, results[i][k], geometry.strides);
      }
      BindFresh(outputs[k]);
      copied.push_back(tensors_[tensor_of_[outputs[k]]].memory);
      copied_may_be.push_back(std::move(may_be[k]));
    }
    NoteSharing(copied, copied_may_be, num_before);
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (size_t k = 0; k < results[i].size(); ++k) {
        g_.SetInput(g_.block(blocks[i]).return_node, static_cast<uint32_t>(k), results[i][k]);
      }
      for (MemoryId m : changed) g_.AddResult(blocks[i], after[i][m].version);
    }
    for (MemoryId m : changed) {
      if (!SameGeometry(after[0][m].nominal, before[m].nominal) ||
          !SameGeometry(after[1][m].nominal, before[m].nominal)) {
        return absl::UnimplementedError("memory resized inside a branch");
      }
      if (absolute_access_ && before[m].origin != MemoryState::Origin::kFresh && !before[m].shared)
        return absl::UnimplementedError("a branch that writes to an argument that as_strided addresses absolutely");
      ValueId out = g_.AddNodeOutput(n, g_.value(before[m].version).type);
      MemoryState& memory = memories_[m];
      memory.version = out;
      ++memory.generation;
      for (const auto& a : after) {
        memory.written.insert(memory.written.end(), a[m].written.begin() + before[m].written.size(),
                              a[m].written.end());
        memory.written_home.insert(memory.written_home.end(), a[m].written_home.begin() + before[m].written_home.size(),
                                   a[m].written_home.end());
      }
    }
    return absl::OkStatus();
  }

  void DropViewsOf(const std::vector<ValueId>&) {
    // ProcessBlock has unwound the cache to the block's beginning; what Read added since stands at the log's end.
    while (cache_log_.size() > block_cache_mark_) {
      view_cache_[cache_log_.back()].pop_back();
      cache_log_.pop_back();
    }
  }

  // The outer memories that a body may write, found by following views back from written operands.
  void CollectWritten(BlockId b, absl::flat_hash_set<MemoryId>& out) {
    for (NodeId n : g_.Nodes(b)) {
      for (BlockId inner : g_.node(n).blocks) CollectWritten(inner, out);
      const FunctionSchema* schema = FindSchema(g_.node(n).op);
      if (schema == nullptr || !schema->IsMutable()) continue;
      for (size_t i = 0; i < schema->arguments.size() && i < g_.node(n).inputs.size(); ++i) {
        if (!IsWritten(schema->arguments[i])) continue;
        ValueId v = g_.node(n).inputs[i];
        // Up through views and in-place results to something defined outside.
        while (!tensor_of_.contains(v)) {
          const NodeId def = g_.value(v).def;
          if (g_.IsParam(def) || g_.node(def).inputs.empty()) break;
          const std::string& name = g_.node(def).op.name();
          if (name == "prim::ListUnpack" || IsViewOp(g_, def) || IsMutableNode(def)) {
            v = g_.node(def).inputs[0];
          } else {
            break;
          }
        }
        if (auto it = tensor_of_.find(v); it != tensor_of_.end()) out.insert(tensors_[it->second].memory);
      }
    }
  }
  bool IsMutableNode(NodeId n) const {
    const FunctionSchema* schema = FindSchema(g_.node(n).op);
    return schema != nullptr && schema->IsMutable();
  }

  absl::Status ProcessLoop(NodeId n) {
    const bool is_while = g_.node(n).op.name() == "smelt::while_loop";
    // smelt::while_loop(carried..., additional...) {cond(all), body(all) -> carried}; prim::Loop(trips, condition,
    // carried...) {body(i, carried...) -> condition, carried...}.
    const std::vector<BlockId> blocks(g_.node(n).blocks.begin(), g_.node(n).blocks.end());
    const BlockId body = blocks.back();
    const int first_input = is_while ? 0 : 2;
    const int first_param = is_while ? 0 : 1;
    int num_carried = static_cast<int>(g_.node(n).outputs.size());
    if (is_while) {
      // Additional operands are constants of the loop: they are captured.
      for (BlockId b : blocks) {
        for (int i = static_cast<int>(g_.params(b).size()) - 1; i >= num_carried; --i) {
          g_.ReplaceAllUses(g_.params(b)[i], g_.node(n).inputs[i]);
          g_.EraseParam(b, i);
        }
      }
      while (static_cast<int>(g_.node(n).inputs.size()) > num_carried)
        g_.RemoveInput(n, static_cast<uint32_t>(g_.node(n).inputs.size()) - 1);
    }
    // What every round hands on as it is, is one tensor from before the loop to after it. (PyTorch's while_loop returns
    // a copy where the body never runs.)
    const int first_result = is_while ? 0 : 1;
    for (int i = 0; i < num_carried && !is_while; ++i) {
      const ValueId param = g_.params(body)[first_param + i];
      if (g_.results(body)[first_result + i] != param) continue;
      const ValueId init = g_.node(n).inputs[first_input + i];
      g_.ReplaceAllUses(param, init);
      g_.ReplaceAllUses(g_.node(n).outputs[i], init);
    }
    // What is written in the body and lives outside is carried too. Parameters are not known yet, so that a write to
    // one is not followed to an outer memory; it is refused below.
    absl::flat_hash_set<MemoryId> written_set;
    CollectWritten(body, written_set);
    if (is_while) CollectWritten(blocks[0], written_set);
    std::vector<MemoryId> written(written_set.begin(), written_set.end());
    std::sort(written.begin(), written.end());

    // A carried tensor is copied from round to round; what it may really be matters where something is written.
    const std::optional<ConstantValue> trips = is_while ? std::nullopt : GetConstant(g_, g_.node(n).inputs[0]);
    const std::optional<ConstantValue> enters = is_while ? std::nullopt : GetConstant(g_, g_.node(n).inputs[1]);
    const bool surely_runs = trips && std::holds_alternative<int64_t>(*trips) && std::get<int64_t>(*trips) > 0 &&
                             enters && std::holds_alternative<bool>(*enters) && std::get<bool>(*enters);
    std::vector<absl::flat_hash_set<MemoryId>> init_may_be(num_carried), may_be(num_carried);
    absl::flat_hash_set<MemoryId> carried_may_be;

    std::vector<SymbolicGeometry> layouts(num_carried);
    for (int i = 0; i < num_carried; ++i) {
      const ValueId out = g_.node(n).outputs[i];
      if (!g_.value(out).type.IsTensor()) continue;
      SMELT_ASSIGN_OR_RETURN(TensorId init, TensorOf(g_.node(n).inputs[first_input + i]));
      if (is_while || !g_.value(out).uses.empty() || !g_.value(g_.params(body)[first_param + i]).uses.empty())
        init_may_be[i] = MayBe(tensors_[init].memory);
      SymbolicGeometry geometry = tensors_[init].geometry;
      geometry.offset = 0;
      if (!IsDense(geometry, g_.symbols)) geometry.strides = ContiguousStrides(geometry.sizes);
      const TensorType& declared = g_.value(out).type.tensor();
      if (declared.IsComplete() && IsDense(GeometryOf(declared), g_.symbols) && *declared.sizes == geometry.sizes)
        geometry = GeometryOf(declared);
      if (declared.dtype && *declared.dtype != geometry.dtype)
        return absl::UnimplementedError("a loop-carried tensor that changes its dtype");
      layouts[i] = geometry;
      g_.SetInput(n, first_input + i, Materialize(n, Read(init, n), geometry.strides));
      g_.SetType(out, TypeOf(geometry));
      for (BlockId b : blocks) g_.SetType(g_.params(b)[first_param + i], TypeOf(geometry));
    }
    if (!is_while) {
      for (int i = 0; i < 2; ++i) {
        if (auto it = tensor_of_.find(g_.node(n).inputs[i]); it != tensor_of_.end())
          g_.SetInput(n, i, Read(it->second, n));
      }
    }
    const std::vector<MemoryState> before = memories_;
    const size_t num_before = before.size();
    for (MemoryId m : written) g_.AddNodeInput(n, before[m].version);

    // After the loop a memory's version is the node's output; inside, each block's parameter.
    std::vector<std::vector<ValueId>> block_versions;
    for (BlockId b : blocks) {
      std::vector<ValueId> versions;
      for (MemoryId m : written) versions.push_back(g_.AddParam(b, g_.value(before[m].version).type));
      block_versions.push_back(std::move(versions));
    }
    for (size_t bi = 0; bi < blocks.size(); ++bi) {
      const BlockId b = blocks[bi];
      for (size_t m = 0; m < num_before; ++m) memories_[m] = before[m];
      for (size_t k = 0; k < written.size(); ++k) memories_[written[k]].version = block_versions[bi][k];
      std::vector<MemoryId> own;
      for (int i = 0; i < num_carried; ++i) {
        const ValueId p = g_.params(b)[first_param + i];
        if (!g_.value(p).type.IsTensor()) continue;
        BindFresh(p);
        own.push_back(tensors_[tensor_of_[p]].memory);
      }
      SMELT_RETURN_IF_ERROR(ProcessInner(b));
      for (MemoryId m : own) {
        if (memories_[m].generation > 0)
          return absl::UnimplementedError("a loop's body writes into a carried tensor itself");
      }
      if (b == body) {
        bool rotates = false;
        for (int i = 0; i < num_carried; ++i) {
          auto it = tensor_of_.find(g_.results(b)[first_result + i]);
          if (it == tensor_of_.end()) continue;
          if (!is_while && g_.value(g_.node(n).outputs[i]).uses.empty() &&
              g_.value(g_.params(b)[first_param + i]).uses.empty())
            continue;
          may_be[i] = MayBe(tensors_[it->second].memory);
          for (MemoryId m : own) rotates = rotates || may_be[i].contains(m);
          carried_may_be.insert(may_be[i].begin(), may_be[i].end());
          carried_may_be.insert(init_may_be[i].begin(), init_may_be[i].end());
          // Where no round runs, the result is the initial tensor.
          if (!surely_runs && !is_while) may_be[i].insert(init_may_be[i].begin(), init_may_be[i].end());
        }
        // One carried tensor becomes another: each may be any.
        for (int i = 0; rotates && i < num_carried; ++i) {
          if (!may_be[i].empty()) may_be[i] = carried_may_be;
        }
        for (MemoryId m : written) {
          if (carried_may_be.contains(m))
            return absl::UnimplementedError("a loop's body writes to memory that a carried tensor may share");
        }
      }
      const NodeId ret = g_.block(b).return_node;
      for (size_t k = 0; k < g_.results(b).size(); ++k) {
        const ValueId v = g_.results(b)[k];
        auto it = tensor_of_.find(v);
        if (it == tensor_of_.end()) continue;
        ValueId now = Read(it->second, ret);
        const int carried = is_while ? (b == body ? static_cast<int>(k) : -1) : static_cast<int>(k) - 1;
        if (carried >= 0) {
          if (tensors_[it->second].geometry.sizes != layouts[carried].sizes)
            return absl::UnimplementedError("a loop-carried tensor that changes its size");
          now = Materialize(ret, now, layouts[carried].strides);
        }
        g_.SetInput(ret, static_cast<uint32_t>(k), now);
      }
      DropViewsOf({});
      if (b == body) {
        for (MemoryId m : written) g_.AddResult(b, memories_[m].version);
        for (size_t m = 0; m < num_before; ++m) {
          if (memories_[m].generation != before[m].generation && !written_set.contains(static_cast<int>(m))) {
            return absl::UnimplementedError("a loop's body writes to memory through a path that is not followed");
          }
        }
        for (MemoryId m : written) {
          if (absolute_access_ && before[m].origin != MemoryState::Origin::kFresh && !before[m].shared)
            return absl::UnimplementedError("a loop that writes to an argument that as_strided addresses absolutely");
          if (!SameGeometry(memories_[m].nominal, before[m].nominal))
            return absl::UnimplementedError("memory resized inside a loop");
        }
      } else {
        for (size_t m = 0; m < num_before; ++m) {
          if (memories_[m].generation != before[m].generation)
            return absl::UnimplementedError("a loop's condition that writes to memory");
        }
      }
      if (b != body) continue;
      // Keep what was written for the convention.
      for (MemoryId m : written) {
        MemoryState state = before[m];
        state.written = memories_[m].written;
        state.written_home = memories_[m].written_home;
        state.generation = memories_[m].generation + 1;
        after_loop_[m] = state;
      }
    }
    for (size_t m = 0; m < num_before; ++m) memories_[m] = before[m];
    for (MemoryId m : written) {
      memories_[m] = after_loop_[m];
      memories_[m].version = g_.AddNodeOutput(n, g_.value(before[m].version).type);
    }
    std::vector<MemoryId> copied;
    for (int i = 0; i < num_carried; ++i) {
      const ValueId out = g_.node(n).outputs[i];
      copied.push_back(-1);
      if (!g_.value(out).type.IsTensor()) {
        may_be[i].clear();
        continue;
      }
      BindFresh(out);
      copied.back() = tensors_[tensor_of_[out]].memory;
    }
    NoteSharing(copied, may_be, num_before);
    return absl::OkStatus();
  }

  // --- the convention ---
  GraphOutputIndex Output(ValueId v) {
    auto [it, fresh] = output_index_.try_emplace(v, static_cast<int>(new_outputs_.size()));
    if (fresh) new_outputs_.push_back(v);
    return GraphOutputIndex(it->second);
  }

  absl::Status BuildConvention() {
    Convention& c = result_.convention;
    const NodeId ret = g_.block(g_.top()).return_node;
    // Layer 3: contents, then geometry.
    for (const MemoryState& m : memories_) {
      if (m.origin == MemoryState::Origin::kFresh || m.version == m.initial) continue;
      MutatedMemory mutated;
      mutated.memory = MemoryIndex(
          m.origin == MemoryState::Origin::kArgument ? m.index : c.overlaps.num_argument_memories + m.index);
      mutated.contents = Output(m.version);
      mutated.resized = m.resized;
      if (m.resized) {
        mutated.final_bytes = NumElements(m.nominal) * ItemSize(m.nominal.dtype);
        mutated.written.push_back(m.nominal);
      } else {
        mutated.written = m.written;
        if (m.shared) {
          for (int home : m.written_home) mutated.written_from.push_back(DistinctIndex(home));
        }
      }
      c.mutations.memories.push_back(std::move(mutated));
    }
    for (size_t d = 0; d < tensor_of_distinct_.size(); ++d) {
      const TensorId t = tensor_of_distinct_[d];
      if (t < 0) continue;
      MutatedInput in;
      in.arg = DistinctIndex(static_cast<int>(d));
      NoteInput(t, ArgumentMemory(static_cast<int>(d)), InitialGeometry(static_cast<int>(d)), in);
    }
    for (auto [w, t] : states_) {
      MutatedInput in;
      in.is_state = true;
      in.state = w;
      NoteInput(t, memory_of_storage_[g_.weights[w].storage], WeightGeometry(g_.weights[w]), in);
    }
    // Layer 4. A fresh memory that two outputs (or an output and an argument given it by set_) show is shared.
    const std::vector<ValueId> outputs(g_.outputs().begin(), g_.outputs().end());
    absl::flat_hash_map<MemoryId, int> shown;
    for (ValueId v : outputs) {
      if (auto it = tensor_of_.find(v); it != tensor_of_.end()) ++shown[tensors_[it->second].memory];
    }
    for (const MutatedInput& in : c.mutations.inputs) {
      if (in.storage && in.final_source == MutatedInput::Source::kGraphOutput) {
        for (size_t m = 0; m < memories_.size(); ++m) {
          if (new_outputs_[in.final_output.value()] == memories_[m].version) shown[static_cast<int>(m)] += 2;
        }
      }
    }
    absl::flat_hash_map<TensorId, int> caller_tensor;
    for (size_t d = 0; d < tensor_of_distinct_.size(); ++d) {
      if (tensor_of_distinct_[d] >= 0) caller_tensor[tensor_of_distinct_[d]] = caller_of_distinct_[d];
    }
    absl::flat_hash_map<TensorId, int> state_tensor;
    for (auto [w, t] : states_) state_tensor[t] = w;
    for (size_t i = 0; i < outputs.size(); ++i) {
      SMELT_RETURN_IF_ERROR(NoteOutput(outputs[i], shown, caller_tensor, state_tensor));
    }
    (void)ret;
    // The graph's outputs are what the layers refer to.
    while (g_.outputs().size() > 0) g_.EraseResult(g_.top(), static_cast<int>(g_.outputs().size()) - 1);
    original_output_names_ = g_.output_names;
    g_.output_names.clear();
    for (ValueId v : new_outputs_) g_.AddOutput(v);
    return absl::OkStatus();
  }

  MemoryId ArgumentMemory(int distinct) const {
    return memory_of_argument_[result_.convention.overlaps.memory_of[distinct].value()];
  }
  const SymbolicGeometry& InitialGeometry(int distinct) const { return initial_geometry_.at(distinct); }

  void NoteInput(TensorId t, MemoryId own, const SymbolicGeometry& initial, MutatedInput in) {
    const TensorState& now = tensors_[t];
    // Arguments that share one memory still have storages of their own.
    in.storage = now.memory != own || (now.home >= 0 && now.home != in.arg.value());
    in.geometry = in.storage || !SameGeometry(now.geometry, initial);
    if (!in.geometry) return;
    in.final_geometry = now.geometry;
    if (in.storage) {
      const MemoryState& m = memories_[now.memory];
      if (m.origin == MemoryState::Origin::kFresh) {
        in.final_source = MutatedInput::Source::kGraphOutput;
        in.final_output = Output(m.version);
      } else {
        in.final_source = MutatedInput::Source::kMemory;
        in.final_memory = ConventionMemory(m);
        if (now.home >= 0) in.final_from = DistinctIndex(now.home);
      }
    }
    result_.convention.mutations.inputs.push_back(std::move(in));
  }
  MemoryIndex ConventionMemory(const MemoryState& m) const {
    return MemoryIndex(m.origin == MemoryState::Origin::kArgument
                           ? m.index
                           : result_.convention.overlaps.num_argument_memories + m.index);
  }

  absl::Status NoteOutput(ValueId v, const absl::flat_hash_map<MemoryId, int>& shown,
                          const absl::flat_hash_map<TensorId, int>& caller_tensor,
                          const absl::flat_hash_map<TensorId, int>& state_tensor) {
    OutputInfo out;
    const Value& value = g_.value(v);
    auto it = tensor_of_.find(v);
    if (it == tensor_of_.end()) {
      if (value.type.kind() == TypeKind::kNone) {
        out.kind = OutputInfo::Kind::kNone;
      } else if (value.type.kind() == TypeKind::kInt && GetIntExpr(g_, v) && !HasDataSymbols(*GetIntExpr(g_, v))) {
        out.kind = OutputInfo::Kind::kConstant;
        out.constant = *GetIntExpr(g_, v);
      } else if (value.type.kind() == TypeKind::kInt || value.type.kind() == TypeKind::kFloat ||
                 value.type.kind() == TypeKind::kBool) {
        out.kind = OutputInfo::Kind::kScalar;
        out.contents = Output(v);
      } else {
        return absl::UnimplementedError(absl::StrCat("an output of type ", value.type.ToString()));
      }
      result_.convention.outputs.outputs.push_back(std::move(out));
      return absl::OkStatus();
    }
    const TensorId t = it->second;
    const TensorState& tensor = tensors_[t];
    const MemoryState& m = memories_[tensor.memory];
    for (MemoryId other : m.may_share) {
      const bool other_visible = memories_[other].origin != MemoryState::Origin::kFresh || shown.contains(other);
      if (other_visible)
        return absl::UnimplementedError(
            "an output that may, by a branch, share memory with an argument or another output");
    }
    out.geometry = tensor.geometry;
    if (auto c = caller_tensor.find(t); c != caller_tensor.end()) {
      out.kind = OutputInfo::Kind::kIsArgument;
      out.argument = CallerIndex(c->second);
    } else if (auto s = state_tensor.find(t); s != state_tensor.end()) {
      out.kind = OutputInfo::Kind::kIsState;
      out.state = s->second;
    } else if (m.origin != MemoryState::Origin::kFresh) {
      out.kind = OutputInfo::Kind::kAliasOfMemory;
      out.memory = ConventionMemory(m);
      if (tensor.home >= 0) out.argument = CallerIndex(caller_of_distinct_[tensor.home]);
    } else {
      out.contents = Output(m.version);
      const bool whole = SameGeometry(tensor.geometry, m.nominal) && shown.at(tensor.memory) == 1;
      out.kind = whole ? OutputInfo::Kind::kFresh : OutputInfo::Kind::kAliasOfIntermediate;
      if (!whole) {
        // Two memories may hold one and the same value; as storages they differ. Whoever refers to this one refers by
        // this number.
        auto [index, fresh] = storage_output_.try_emplace(tensor.memory, out.contents.value());
        (void)fresh;
        out.memory = MemoryIndex(result_.convention.overlaps.num_memories + tensor.memory);
        out.contents = GraphOutputIndex(index->second);
      }
    }
    // The very same tensor returned twice is one object for the caller too.
    result_.convention.outputs.outputs.push_back(std::move(out));
    return absl::OkStatus();
  }

  bool HasDataSymbols(const Expr& e) const {
    for (const std::string& s : e.Symbols()) {
      if (!s.empty() && s[0] == 'u') return true;
    }
    return false;
  }

  // --- cleaning up ---
  bool IsRemovable(NodeId n) const {
    const Node& node = g_.node(n);
    if (!node.blocks.empty()) return false;
    const std::string& name = node.op.name();
    if (absl::StartsWith(name, "prim::")) return name != "prim::Print" && name != "prim::RaiseException";
    if (absl::StartsWith(name, "aten::_assert") || node.outputs.empty()) {
      // Writes were replaced; what has no outputs otherwise is a check.
      const FunctionSchema* schema = FindSchema(node.op);
      return schema != nullptr && schema->IsMutable();
    }
    return !IsRandom(node.op);
  }
  void EraseDead(BlockId b) {
    std::vector<NodeId> nodes = g_.Nodes(b);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      for (BlockId inner : std::vector<BlockId>(g_.node(*it).blocks.begin(), g_.node(*it).blocks.end()))
        EraseDead(inner);
      bool used = false;
      for (ValueId v : g_.node(*it).outputs) used = used || !g_.value(v).uses.empty();
      if (!used && IsRemovable(*it)) g_.Erase(*it);
    }
  }

  Graph& g_;
  const FunctionalizeOptions& options_;
  FunctionalizeResult result_;
  std::vector<MemoryState> memories_;
  std::vector<TensorState> tensors_;
  absl::flat_hash_map<ValueId, TensorId> tensor_of_;
  absl::flat_hash_map<ValueId, std::vector<ValueId>> lists_;          // prim::ListConstruct
  absl::flat_hash_map<ValueId, std::vector<TensorId>> tensor_lists_;  // lists of views
  absl::flat_hash_set<ValueId> own_;                                  // made here, layout free to choose
  std::vector<TensorId> tensor_of_distinct_;
  std::vector<int> caller_of_distinct_;
  std::vector<MemoryId> memory_of_argument_;                     // by MemoryIndex
  absl::flat_hash_map<int, SymbolicGeometry> initial_geometry_;  // by DistinctIndex
  absl::flat_hash_map<int, std::string> argument_names_;         // by DistinctIndex
  std::vector<MemoryId> memory_of_storage_;                      // by weight storage
  std::vector<std::pair<int, TensorId>> states_;                 // weight, its tensor
  absl::flat_hash_set<MemoryId> shared_states_;
  absl::flat_hash_set<std::pair<TensorId, TensorId>> checked_;  // for partial overlap, at run time
  bool absolute_access_ = false;
  absl::flat_hash_map<MemoryId, std::vector<CachedView>> view_cache_;
  std::vector<MemoryId> cache_log_;
  size_t block_cache_mark_ = 0;
  int block_depth_ = 0;
  absl::flat_hash_map<MemoryId, MemoryState> after_loop_;
  std::shared_ptr<const SourceLocation> source_;
  std::vector<ValueId> new_outputs_;
  absl::flat_hash_map<ValueId, int> output_index_;
  absl::flat_hash_map<MemoryId, int> storage_output_;
  std::vector<std::string> original_output_names_;
};

absl::Status VerifyBlock(const Graph& g, BlockId b) {
  for (NodeId n : g.Nodes(b)) {
    const Node& node = g.node(n);
    const FunctionSchema* schema = FindSchema(node.op);
    if (schema != nullptr && schema->IsMutable())
      return absl::InternalError(absl::StrCat("after functionalization ", node.op.full(), " still writes"));
    if (IsViewOp(g, n))
      return absl::InternalError(absl::StrCat("after functionalization ", node.op.full(), " still makes a view"));
    for (BlockId inner : node.blocks) SMELT_RETURN_IF_ERROR(VerifyBlock(g, inner));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FunctionalizeResult> Functionalize(Graph& g, const FunctionalizeOptions& options) {
  return Functionalizer(g, options).Run();
}

absl::Status VerifyFunctional(const Graph& g) { return VerifyBlock(g, g.top()); }

}  // namespace smelt
