#include "smelt/codegen/plan_builder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/arena.h"
#include "smelt/codegen/expr_table.h"
#include "smelt/codegen/index_checks.h"
#include "smelt/codegen/library_lowering.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/region.h"
#include "smelt/fuser/lower_group.h"

namespace smelt {

struct KernelTable {
  std::vector<KernelSpec> kernels;
  std::vector<int> uses;
  absl::flat_hash_map<std::string, int> index;  // by spec text

  int Add(const KernelSpec& spec) {
    auto [it, fresh] = index.try_emplace(spec.ToString(), static_cast<int>(kernels.size()));
    if (fresh) {
      kernels.push_back(spec);
      uses.push_back(0);
    }
    ++uses[it->second];
    return it->second;
  }
};

struct BundleBuilder::Impl {
  Impl(const Graph& g, std::shared_ptr<KernelTable> k) : signature(g), kernels(std::move(k)) {}
  const Graph& signature;
  ExprTable exprs;
  std::shared_ptr<KernelTable> kernels;
  std::vector<std::unique_ptr<fb::PlanT>> plans;
  std::vector<Tensor> constants;  // tensors written in the graph itself: storages after the weights'
  absl::flat_hash_map<std::string, int> constant_index;
  std::vector<bool> state_mutated;
  absl::flat_hash_set<std::string> data_symbols;

  void MarkMutated(int storage) {
    if (state_mutated.size() <= static_cast<size_t>(storage)) state_mutated.resize(storage + 1, false);
    state_mutated[storage] = true;
  }
  // The storage number of a constant tensor; equal ones share.
  int AddConstant(const Tensor& t) {
    std::string bytes(static_cast<const char*>(t.data()), t.NumElements() * ItemSize(t.dtype()));
    auto [it, fresh] = constant_index.try_emplace(std::move(bytes), static_cast<int>(constants.size()));
    if (fresh) constants.push_back(t);
    return static_cast<int>(signature.weight_storages.size()) + it->second;
  }
};

namespace {

constexpr int kForever = std::numeric_limits<int>::max() / 2;

// Where a value's contents lie.
struct Location {
  int slot = -1;
  SymbolicGeometry geometry;  // over the slot; of an argument it counts from the argument's own first element
};

int64_t DoubleBits(double d) {
  int64_t bits;
  std::memcpy(&bits, &d, sizeof bits);
  return bits;
}

class PlanBuilder {
 public:
  PlanBuilder(BundleBuilder::Impl& b, const Graph& g, const Convention& c, const BundleBuilder::PlanOptions& options)
      : b_(b), g_(g), c_(c), options_(options), plan_(std::make_unique<fb::PlanT>()) {}

  absl::StatusOr<PlanStats> Build() {
    plan_->variant = options_.variant;
    plan_->needs_exported_strides = options_.exported_strides;
    plan_->other_strides = options_.other_strides;
    for (const auto& guard : options_.guards) {
      auto out = std::make_unique<fb::GuardT>();
      out->expr = b_.exprs.AddCompare(guard.op, guard.a, guard.b);
      out->message = guard.message;
      plan_->guards.push_back(std::move(out));
    }
    FindDataSymbols();
    BindInputs();
    Number(g_.top());
    ComputeLastUses(g_.top(), -1);
    for (ValueId v : g_.outputs()) Use(v, kForever);  // the epilogue reads them
    // Results are read by the epilogue: what is computed elsewhere and copied back lives until then.
    for (ValueId v : g_.outputs()) Use(v, kForever);
    SMELT_RETURN_IF_ERROR(ChooseDestinations());
    plan_->blocks.push_back(std::make_unique<fb::BlockT>());
    block_ = 0;
    SMELT_RETURN_IF_ERROR(EmitBlock(g_.top()));
    position_ = kForever;
    SMELT_RETURN_IF_ERROR(EmitEpilogue());
    SMELT_RETURN_IF_ERROR(CheckIndicesFirst());
    PackSlots();
    plan_->num_registers = num_registers_;
    absl::flat_hash_set<int> distinct(used_kernels_.begin(), used_kernels_.end());
    stats_.distinct_kernels = static_cast<int>(distinct.size());
    b_.plans.push_back(std::move(plan_));
    return stats_;
  }

 private:
  // --- sizes that the data decides ---
  // Symbols that a step reads from a tensor: what depends on them is allocated when they are known.
  void FindDataSymbols() {
    for (NodeId n : g_.AllNodes()) {
      if (!ReadsScalar(n)) continue;
      const std::optional<Expr>& e = g_.value(g_.node(n).outputs[0]).expr;
      if (e && e->IsSymbol()) data_symbols_.insert(e->SymbolName());
    }
  }
  bool ReadsScalar(NodeId n) const {
    const std::string& name = g_.node(n).op.name();
    return (name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::Int" ||
            name == "aten::Float" || name == "aten::Bool") &&
           !g_.node(n).inputs.empty() && g_.value(g_.node(n).inputs[0]).type.IsTensor();
  }
  bool IsLate(const Expr& e) const {
    if (data_symbols_.empty() || e.IsConstant()) return false;
    for (const std::string& s : e.Symbols()) {
      if (data_symbols_.contains(s)) return true;
    }
    return false;
  }
  // Whether what `e` depends on has been read by now.
  bool IsRead(const Expr& e) const {
    if (data_symbols_.empty() || e.IsConstant()) return true;
    for (const std::string& s : e.Symbols()) {
      if (data_symbols_.contains(s) && !read_symbols_.contains(s)) return false;
    }
    return true;
  }
  void AllocateLate(int slot) {
    if (plan_->slots[slot]->kind != fb::SlotKind::Fresh || !late_slots_.contains(slot) ||
        !allocated_.insert(slot).second) {
      return;
    }
    EmitAlloc(slot);
  }
  void EmitAlloc(int slot) {
    auto step = std::make_unique<fb::AllocT>();
    step->slot = slot;
    Emit(std::move(step));
  }

  // --- inputs ---
  void BindInputs() {
    int distinct = 0;
    for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
      int members = 0;
      for (MemoryIndex i : c_.overlaps.memory_of) members += i.value() == m;
      grouped_ = grouped_ || members > 1;
    }
    caller_of_distinct_.assign(c_.duplicates.inner_of_outer.size(), -1);
    for (size_t i = 0; i < c_.duplicates.inner_of_outer.size(); ++i) {
      int& caller = caller_of_distinct_[c_.duplicates.inner_of_outer[i].value()];
      if (caller < 0) caller = static_cast<int>(i);
    }
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      const ValueId v = g_.inputs()[i];
      const InputInfo& info = g_.input_infos[i];
      const Value& value = g_.value(v);
      if (info.kind == InputInfo::Kind::kWeight) {
        const Weight& w = g_.weights[info.weight];
        Location l;
        l.slot = StateSlot(w.storage);
        l.geometry.dtype = w.dtype;
        l.geometry.sizes.assign(w.geometry.sizes.begin(), w.geometry.sizes.end());
        l.geometry.strides.assign(w.geometry.strides.begin(), w.geometry.strides.end());
        l.geometry.offset = w.geometry.offset;
        locations_[v] = std::move(l);
        continue;
      }
      const int d = distinct++;
      if (value.type.IsTensor()) {
        locations_[v] = {ArgSlot(d), DefaultLayout(g_, v)};
        argument_value_[d] = v;
      } else {
        scalar_args_[v] = caller_of_distinct_[d];
      }
    }
  }
  int AddSlot(fb::SlotKind kind, int index) {
    auto s = std::make_unique<fb::SlotT>();
    s->kind = kind;
    s->index = index;
    plan_->slots.push_back(std::move(s));
    arena_buffer_.push_back(-1);
    return static_cast<int>(plan_->slots.size()) - 1;
  }
  int ArgSlot(int distinct) {
    auto [it, fresh] = arg_slots_.try_emplace(distinct, -1);
    if (fresh) it->second = AddSlot(fb::SlotKind::ArgStorage, distinct);
    return it->second;
  }
  int StateSlot(int storage) {
    auto [it, fresh] = state_slots_.try_emplace(storage, -1);
    if (fresh) it->second = AddSlot(fb::SlotKind::StateStorage, storage);
    return it->second;
  }

  // --- positions and lives ---
  void Number(BlockId b) {
    for (NodeId n : g_.Nodes(b)) {
      begin_[n] = ++next_position_;
      for (BlockId inner : g_.node(n).blocks) {
        ++next_position_;  // parameters
        block_begin_[inner] = next_position_;
        Number(inner);
        block_end_[inner] = ++next_position_;  // results
      }
      end_[n] = ++next_position_;
    }
  }

  ValueId Root(ValueId v) const {
    while (true) {
      const NodeId def = g_.value(v).def;
      if (g_.IsParam(def) || g_.node(def).op != "smelt::view") return v;
      v = g_.node(def).inputs[0];
    }
  }

  // A value that is used inside a loop but made outside lives to the loop's end. `loops` is the chain of enclosing
  // loops' blocks.
  void Use(ValueId v, int position) {
    const ValueId r = Root(v);
    if (!g_.value(r).type.IsTensor()) {
      if (g_.value(r).type.kind() != TypeKind::kList) return;
      if (auto elements = GetListElements(g_, r)) {
        for (ValueId e : *elements) Use(e, position);
      }
      return;
    }
    for (auto it = loops_.rbegin(); it != loops_.rend(); ++it) {
      const NodeId loop = *it;
      const NodeId def = g_.value(r).def;
      const int made = g_.IsParam(def) ? (g_.node(def).parent == g_.top() ? 0 : block_begin_.at(g_.node(def).parent))
                                       : begin_.at(def);
      if (made < begin_.at(loop)) position = std::max(position, end_.at(loop));
    }
    int& last = last_use_.try_emplace(r, 0).first->second;
    last = std::max(last, position);
  }
  void ComputeLastUses(BlockId b, int) {
    for (NodeId n : g_.Nodes(b)) {
      const Node& node = g_.node(n);
      if (node.op == "smelt::view" || node.op == "prim::ListConstruct") continue;
      const bool loop = node.op == "smelt::while_loop" || node.op == "prim::Loop";
      for (ValueId v : node.inputs) Use(v, begin_.at(n));
      if (loop) loops_.push_back(n);
      for (BlockId inner : node.blocks) {
        ComputeLastUses(inner, begin_.at(n));
        for (ValueId v : g_.results(inner)) Use(v, block_end_.at(inner));
      }
      if (loop) loops_.pop_back();
    }
  }
  int LastUse(ValueId root) const {
    auto it = last_use_.find(root);
    return it == last_use_.end() ? 0 : it->second;
  }

  // The contents that `v` is a partial rewrite of, or an invalid id: v is the result of a smelt::write_region, alone or
  // in a group.
  ValueId RegionBase(ValueId v) const {
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def)) return ValueId();
    const Node& node = g_.node(def);
    if (IsRegionOp(node.op)) return node.inputs[0];
    if (node.op != "smelt::FusionGroup") return ValueId();
    const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(node.FindAttribute("Subgraph"));
    if (subgraph == nullptr) return ValueId();
    const Graph& sub = **subgraph;
    // A chain of region writes inside the group starts at the group's input.
    ValueId inner = sub.outputs()[g_.value(v).def_index];
    bool region = false;
    while (true) {
      const NodeId inner_def = sub.value(inner).def;
      if (sub.IsParam(inner_def)) break;
      if (!IsRegionOp(sub.node(inner_def).op)) return ValueId();
      inner = sub.node(inner_def).inputs[0];
      region = true;
    }
    return region ? node.inputs[sub.value(inner).def_index] : ValueId();
  }
  // Of a region write into memory that several arguments share: the argument it counts from.
  std::optional<int> HomeOf(ValueId v) const {
    const Graph* g = &g_;
    NodeId def = g_.value(v).def;
    if (g_.IsParam(def)) return std::nullopt;
    if (g_.node(def).op == "smelt::FusionGroup") {
      const auto* subgraph = std::get_if<std::shared_ptr<Graph>>(g_.node(def).FindAttribute("Subgraph"));
      if (subgraph == nullptr) return std::nullopt;
      const ValueId inner = (*subgraph)->outputs()[g_.value(v).def_index];
      g = subgraph->get();
      def = g->value(inner).def;
      if (g->IsParam(def)) return std::nullopt;
    }
    const Attribute* home = g->node(def).FindAttribute("argument");
    if (home == nullptr) return std::nullopt;
    return static_cast<int>(std::get<int64_t>(*home));
  }
  static bool IsRegionOp(OpName op) {
    return op == "smelt::write_region" || absl::StartsWith(op.name(), "smelt::inplace_");
  }

  // --- destinations ---
  // Decides which values are made right where the caller will look for them.
  absl::Status ChooseDestinations() {
    for (const MutatedMemory& m : c_.mutations.memories) {
      const ValueId f = g_.outputs()[m.contents.value()];
      const bool is_state = m.memory.value() >= c_.overlaps.num_argument_memories;
      Location home;
      ValueId initial;
      if (is_state) {
        const int storage = m.memory.value() - c_.overlaps.num_argument_memories;
        written_states_.insert(storage);
        MarkMutated(storage);
        home.slot = StateSlot(storage);
        initial = StateInitial(storage);
      } else {
        const int d = DistinctOfMemory(m.memory.value());
        home = locations_.at(argument_value_.at(d));
        initial = argument_value_.at(d);
        for (size_t k = 0; k < c_.overlaps.memory_of.size(); ++k) {
          if (c_.overlaps.memory_of[k] == m.memory) written_args_.insert(static_cast<int>(k));
        }
      }
      if (m.resized) continue;  // the epilogue replaces the storage's contents
      if (g_.IsLive(initial)) home = locations_.at(initial);
      // Back through partial rewrites.
      std::vector<ValueId> chain;
      ValueId v = f;
      while (true) {
        chain.push_back(v);
        const ValueId base = RegionBase(v);
        if (!g_.IsLive(base)) break;
        v = base;
      }
      const ValueId root = chain.back();
      if (root == initial) {
        for (ValueId x : chain) in_place_chain_.insert(x);
        continue;
      }
      // A whole new value: computed into the argument if nobody needs the old contents by then.
      const ValueId owner = Root(root);
      if (owner != root || g_.IsParam(g_.value(owner).def) || g_.node(g_.value(owner).def).parent != g_.top() ||
          !g_.node(g_.value(owner).def).blocks.empty() || !CanPlace(owner) || destination_.contains(owner)) {
        continue;
      }
      if (!SameLayout(DefaultLayout(g_, owner), home.geometry)) continue;
      const int made = begin_.at(g_.value(owner).def);
      if (!g_.IsLive(initial) || LastUse(initial) > made) continue;
      if (LastUse(initial) == made && !ReadsSameIndexOnly(g_.value(owner).def, initial, owner)) continue;
      if (is_state && SharedStorage(m.memory.value() - c_.overlaps.num_argument_memories)) continue;
      Location target = home;
      destination_[owner] = target;
      for (ValueId x : chain) in_place_chain_.insert(x);
    }
    // Fresh storages of outputs.
    auto want_fresh = [&](int key, GraphOutputIndex contents) {
      if (fresh_slot_.contains(key)) return;
      const ValueId f = g_.outputs()[contents.value()];
      ValueId v = f;
      while (g_.IsLive(RegionBase(v))) v = RegionBase(v);
      const ValueId owner = Root(v);
      const int slot = AddSlot(fb::SlotKind::Fresh, 0);
      fresh_slot_[key] = slot;
      fresh_contents_[key] = f;
      const NodeId def = g_.value(owner).def;
      if (g_.IsParam(def) || g_.node(def).parent != g_.top() || !CanPlace(owner) || destination_.contains(owner) ||
          ShowsAPart(v, owner)) {
        SetFreshBytes(slot, f);
        return;  // copied at the end
      }
      destination_[owner] = {slot, DefaultLayout(g_, owner)};
      SetFreshBytes(slot, owner);
      ValueId x = f;
      while (true) {
        in_place_chain_.insert(x);
        if (!g_.IsLive(RegionBase(x))) break;
        x = RegionBase(x);
      }
    };
    for (size_t k = 0; k < c_.outputs.outputs.size(); ++k) {
      const OutputInfo& o = c_.outputs.outputs[k];
      if (o.kind == OutputInfo::Kind::kFresh) want_fresh(-1 - static_cast<int>(k), o.contents);
      if (o.kind == OutputInfo::Kind::kAliasOfIntermediate) want_fresh(o.memory.value(), o.contents);
    }
    for (const MutatedInput& in : c_.mutations.inputs) {
      if (in.storage && in.final_source == MutatedInput::Source::kGraphOutput)
        want_fresh(SharedKey(in.final_output), in.final_output);
    }
    return absl::OkStatus();
  }
  // Whether v is a view that leaves out some of its owner's bytes.
  bool ShowsAPart(ValueId v, ValueId owner) const {
    if (v == owner) return false;
    const SymbolicGeometry shown = ViewGeometryOf(g_.value(v).def);
    return shown.offset != Expr(0) || BytesOf(shown) != BytesOf(DefaultLayout(g_, owner));
  }
  // The key of the fresh storage that holds a graph output: that of an output which shows the same memory, if there is
  // one.
  int SharedKey(GraphOutputIndex contents) const {
    for (const OutputInfo& o : c_.outputs.outputs) {
      if (o.kind == OutputInfo::Kind::kAliasOfIntermediate && o.contents == contents) return o.memory.value();
    }
    return 1000000 + contents.value();
  }
  void SetFreshBytes(int slot, ValueId v) {
    const Expr bytes = BytesOf(DefaultLayout(g_, v));
    plan_->slots[slot]->bytes = b_.exprs.Add(bytes);
    if (IsLate(bytes)) late_slots_.insert(slot);
  }
  bool SharedStorage(int storage) const {
    int n = 0;
    for (const Weight& w : g_.weights) n += w.storage == storage;
    return n > 1;
  }
  void MarkMutated(int storage) { b_.MarkMutated(storage); }
  ValueId StateInitial(int storage) const {
    // The weight that stands for the storage's contents is the one that the graph rewrites; any weight of the storage
    // has its slot.
    ValueId widest;
    int64_t bytes = -1;
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      if (g_.input_infos[i].kind != InputInfo::Kind::kWeight) continue;
      const Weight& w = g_.weights[g_.input_infos[i].weight];
      if (w.storage != storage) continue;
      const auto span = w.geometry.Span();
      if ((span.second - span.first) * ItemSize(w.dtype) > bytes) {
        bytes = (span.second - span.first) * ItemSize(w.dtype);
        widest = g_.inputs()[i];
      }
    }
    return widest;
  }
  int DistinctOfMemory(int memory) const {
    for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
      if (c_.overlaps.memory_of[d].value() == memory) return static_cast<int>(d);
    }
    SMELT_CHECK(false);
    return -1;
  }
  static bool SameLayout(const SymbolicGeometry& a, const SymbolicGeometry& b) {
    if (a.dtype != b.dtype || a.sizes != b.sizes) return false;
    for (size_t d = 0; d < a.sizes.size(); ++d) {
      if (a.strides[d] != b.strides[d] && a.sizes[d] != Expr(1)) return false;
    }
    return true;
  }
  // Whether the node that makes `v` can write it anywhere.
  bool CanPlace(ValueId v) const {
    const Node& node = g_.node(g_.value(v).def);
    return !absl::StartsWith(node.op.name(), "prim::") && node.op != "smelt::view";
  }
  // Whether node `n` reads `source` only at the index at which it writes `target`.
  bool ReadsSameIndexOnly(NodeId n, ValueId source, ValueId target) {
    if (!IsKernelNode(g_, n)) return false;
    auto lowered = LowerGroup(g_, n, [&](ValueId v) { return LayoutOf(v); });
    if (!lowered.ok() || lowered->spec.reduction_rank != 0 || lowered->spec.sequential) return false;
    const std::vector<bool> irregular = IrregularParams(lowered->spec);
    for (size_t i = 0; i < lowered->params.size(); ++i) {
      const LoweredKernel::Param& read = lowered->params[i];
      if (read.is_output || Root(read.value) != source) continue;
      for (size_t j = 0; j < lowered->params.size(); ++j) {
        const LoweredKernel::Param& write = lowered->params[j];
        if (!write.is_output || write.value != target) continue;
        if (irregular[i] || irregular[j] || read.strides != write.strides || read.offset != write.offset ||
            ItemSize(lowered->spec.params[i].dtype) != ItemSize(lowered->spec.params[j].dtype)) {
          return false;
        }
      }
    }
    return true;
  }
  // Params with guarded or indirect accesses: their affine view is not what is touched.
  static std::vector<bool> IrregularParams(const KernelSpec& spec) {
    std::vector<bool> out(spec.params.size(), false);
    for (const KernelInstr& i : spec.instrs) {
      if ((i.op == KernelOp::kLoad || i.op == KernelOp::kStore) && (i.has_offset || i.has_guard)) out[i.param] = true;
    }
    return out;
  }

  // --- locations ---
  SymbolicGeometry LayoutOf(ValueId v) {
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def) && g_.node(def).op == "smelt::view") return ViewGeometryOf(def);
    if (auto it = locations_.find(v); it != locations_.end()) return it->second.geometry;
    const ValueId base = RegionBase(v);
    if (g_.IsLive(base)) return LayoutOf(base);
    return DefaultLayout(g_, v);
  }
  SymbolicGeometry ViewGeometryOf(NodeId n) const {
    const Node& node = g_.node(n);
    SymbolicGeometry out;
    out.dtype = *DTypeFromScalarType(std::get<int64_t>(*node.FindAttribute("dtype")));
    out.sizes = std::get<std::vector<Expr>>(*node.FindAttribute("sizes"));
    out.strides = std::get<std::vector<Expr>>(*node.FindAttribute("strides"));
    out.offset = std::get<Expr>(*node.FindAttribute("offset"));
    return out;
  }
  absl::StatusOr<Location> Locate(ValueId v) {
    if (auto it = locations_.find(v); it != locations_.end()) return it->second;
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def) && g_.node(def).op == "smelt::view") {
      SMELT_ASSIGN_OR_RETURN(Location l, Locate(g_.node(def).inputs[0]));
      l.geometry = ViewGeometryOf(def);
      if (const Attribute* home = g_.node(def).FindAttribute("argument")) {
        const int d = static_cast<int>(std::get<int64_t>(*home));
        l.slot = ArgSlot(d);
      }
      return l;
    }
    if (!g_.IsParam(def) && g_.node(def).op == "prim::Constant") {
      const auto* t = std::get_if<Tensor>(g_.node(def).FindAttribute("value"));
      if (t != nullptr) {
        Location l;
        Tensor dense = t->Clone();
        l.slot = StateSlot(b_.AddConstant(dense));
        l.geometry = DefaultLayout(g_, v);
        l.geometry.strides.clear();
        for (const Expr& s : ContiguousStrides(l.geometry.sizes)) l.geometry.strides.push_back(s);
        locations_[v] = l;
        return l;
      }
    }
    return absl::InternalError(absl::StrCat("%", g_.value(v).name, " has no place in the plan"));
  }

  static Expr BytesOf(const SymbolicGeometry& g) {
    Expr last = 0, n = 1;
    for (size_t d = 0; d < g.sizes.size(); ++d) {
      last = last + (g.sizes[d] - 1) * g.strides[d];
      n = n * g.sizes[d];
    }
    // The span of a dense tensor is its number of elements; written so, an empty one has no bytes.
    std::vector<Expr> contiguous = ContiguousStrides(g.sizes);
    const Expr elements = (contiguous == g.strides || last + 1 == n) ? n : Max(last + 1 + g.offset, Expr(0));
    return elements * ItemSize(g.dtype);
  }

  int NewArena(const SymbolicGeometry& geometry, int begin, int end) {
    const Expr bytes = BytesOf(geometry);
    if (IsLate(bytes)) {
      const int slot = AddSlot(fb::SlotKind::Heap, 0);
      plan_->slots[slot]->bytes = b_.exprs.Add(bytes);
      EmitAlloc(slot);
      return slot;
    }
    const int slot = AddSlot(fb::SlotKind::Arena, 0);
    arena_buffer_[slot] = static_cast<int>(buffers_.size());
    buffers_.push_back({bytes, begin, std::max(begin, end)});
    return slot;
  }
  void Extend(int slot, int end) {
    if (arena_buffer_[slot] >= 0) {
      ArenaBuffer& b = buffers_[arena_buffer_[slot]];
      b.end = std::max(b.end, end);
    }
  }

  int AddView(const Location& l) {
    auto v = std::make_unique<fb::ViewT>();
    v->slot = l.slot;
    v->dtype = static_cast<uint8_t>(l.geometry.dtype);
    v->sizes = b_.exprs.AddAll(l.geometry.sizes);
    v->strides = b_.exprs.AddAll(l.geometry.strides);
    v->offset = b_.exprs.Add(l.geometry.offset);
    plan_->views.push_back(std::move(v));
    return static_cast<int>(plan_->views.size()) - 1;
  }
  absl::StatusOr<int> ViewOf(ValueId v) {
    SMELT_ASSIGN_OR_RETURN(Location l, Locate(v));
    return AddView(l);
  }

  template <typename T>
  void Emit(std::unique_ptr<T> step, NodeId source = NodeId()) {
    auto out = std::make_unique<fb::StepT>();
    out->step.Set(std::move(*step));
    if (g_.IsLive(source) && g_.node(source).source) out->source = g_.node(source).source->ToString();
    plan_->blocks[block_]->steps.push_back(std::move(out));
  }
  void EmitCopy(const Location& from, const Location& to, bool copy_back = false, NodeId source = NodeId()) {
    auto c = std::make_unique<fb::CopyT>();
    c->src = AddView(from);
    c->dst = AddView(to);
    c->copy_back = copy_back;
    Emit(std::move(c), source);
    ++stats_.copies;
  }

  // --- nodes ---
  absl::Status EmitBlock(BlockId b) {
    for (NodeId n : g_.Nodes(b)) {
      position_ = begin_.at(n);
      absl::Status s = EmitNode(n);
      if (!s.ok()) {
        const Node& node = g_.node(n);
        return Annotate(
            s, node.source ? absl::StrCat(node.op.full(), " (", node.source->ToString(), ")") : node.op.full());
      }
    }
    return absl::OkStatus();
  }

  absl::Status EmitNode(NodeId n) {
    const Node& node = g_.node(n);
    const std::string& name = node.op.name();
    for (ValueId v : node.outputs) {
      const Type& t = g_.value(v).type;
      if (name == "smelt::view" || !t.IsTensor() || !t.tensor().sizes) continue;
      for (const Expr& e : *t.tensor().sizes) {
        if (!IsRead(e))
          return absl::UnimplementedError(absl::StrCat("a size ", e.ToString(), " that is not known yet"));
      }
    }
    if (name == "prim::Constant" || name == "prim::ListConstruct" || name == "prim::TupleConstruct" ||
        name == "smelt::view" || name == "smelt::size") {
      return absl::OkStatus();
    }
    if (name == "prim::If" || name == "smelt::cond") return EmitIf(n);
    if (name == "smelt::while_loop" || name == "prim::Loop") return EmitLoop(n);
    if (ReadsScalar(n)) return EmitReadScalar(n);
    if (IsCondition(n)) return absl::OkStatus();  // made where it is used
    if (name == "aten::_assert_async" || name == "aten::_assert_scalar") return EmitAssert(n);
    if (name == "smelt::assert_size") {
      auto check = std::make_unique<fb::CheckT>();
      check->kind = fb::CheckKind::NotZero;
      check->a = b_.exprs.Add(std::get<Expr>(*node.FindAttribute("value")));
      check->message = std::get<std::string>(*node.FindAttribute("message"));
      if (node.source) check->source = node.source->ToString();
      plan_->prologue_checks.push_back(std::move(check));
      return absl::OkStatus();
    }
    if (name == "smelt::assert_no_internal_overlap") {
      auto check = std::make_unique<fb::CheckT>();
      check->kind = fb::CheckKind::NoInternalOverlap;
      check->message =
          "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
          "Please "
          "clone() the tensor before performing the operation.";
      SMELT_ASSIGN_OR_RETURN(check->a, ViewOf(node.inputs[0]));
      if (node.source) check->source = node.source->ToString();
      plan_->prologue_checks.push_back(std::move(check));
      return absl::OkStatus();
    }
    if (name == "smelt::assert_no_partial_overlap" || name == "smelt::assert_no_overlap") {
      auto check = std::make_unique<fb::CheckT>();
      check->kind = name == "smelt::assert_no_overlap" ? fb::CheckKind::NoOverlap : fb::CheckKind::NoPartialOverlap;
      check->message =
          "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
          "location. Please clone() the tensor before performing the operation.";
      SMELT_ASSIGN_OR_RETURN(check->a, ViewOf(node.inputs[0]));
      SMELT_ASSIGN_OR_RETURN(check->b, ViewOf(node.inputs[1]));
      if (node.source) check->source = node.source->ToString();
      plan_->prologue_checks.push_back(std::move(check));
      return absl::OkStatus();
    }
    if (name == "aten::empty" || name == "aten::empty_strided" || name == "aten::empty_like" ||
        name == "aten::new_empty" || name == "aten::new_empty_strided" || name == "aten::empty_permuted") {
      Place(node.outputs[0]);  // contents nobody has written yet
      return absl::OkStatus();
    }
    bool all_known = !node.outputs.empty();
    for (ValueId v : node.outputs) all_known = all_known && g_.value(v).expr.has_value();
    if (all_known) return absl::OkStatus();
    if (IsKernelNode(g_, n)) return EmitKernel(n);
    SMELT_ASSIGN_OR_RETURN(std::optional<RandomCall> random, LowerRandom(g_, n));
    if (random) return EmitRandom(n, *random);
    SMELT_ASSIGN_OR_RETURN(std::optional<LibraryNode> library, LowerLibrary(g_, n));
    if (library) return EmitLibrary(n, *library);
    return absl::UnimplementedError("no kernel and no library call does this");
  }

  // Chooses where a node's output goes, other than for partial rewrites.
  Location Place(ValueId o) {
    Location l;
    if (auto it = destination_.find(o); it != destination_.end()) {
      l = it->second;
      AllocateLate(l.slot);
    } else {
      l.geometry = DefaultLayout(g_, o);
      l.slot = NewArena(l.geometry, position_, LastUse(o));
    }
    locations_[o] = l;
    return l;
  }
  bool Writable(int slot, ValueId result) const {
    const fb::SlotKind kind = plan_->slots[slot]->kind;
    if (kind == fb::SlotKind::Arena || kind == fb::SlotKind::Heap) return true;
    return in_place_chain_.contains(result);
  }

  absl::Status PlaceRegion(NodeId n, ValueId o, ValueId base) {
    SMELT_ASSIGN_OR_RETURN(Location from, Locate(base));
    const ValueId root = Root(base);
    // Memory that arguments share is rewritten where it is; a state outside of it is not, unless the call changes it.
    const fb::SlotT& slot = *plan_->slots[from.slot];
    const bool kept = slot.kind == fb::SlotKind::StateStorage && !in_place_chain_.contains(o) &&
                      (LastUse(root) > position_ || !written_states_.contains(slot.index));
    const bool grouped = grouped_ && !kept;
    if (grouped || (LastUse(root) <= position_ && Writable(from.slot, o))) {
      locations_[o] = from;
      Extend(from.slot, LastUse(o));
      return absl::OkStatus();
    }
    Location to;
    if (auto it = destination_.find(o); it != destination_.end()) {
      to = it->second;
      AllocateLate(to.slot);
    } else {
      to.geometry = DefaultLayout(g_, o);
      to.slot = NewArena(to.geometry, position_, LastUse(o));
    }
    EmitCopy(from, to, false, n);
    locations_[o] = to;
    return absl::OkStatus();
  }

  absl::Status EmitKernel(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(LoweredKernel k, LowerGroup(g_, n, [&](ValueId v) { return LayoutOf(v); }));
    const std::vector<bool> irregular = IrregularParams(k.spec);
    for (ValueId o : g_.node(n).outputs) {
      const ValueId base = RegionBase(o);
      if (g_.IsLive(base)) {
        SMELT_RETURN_IF_ERROR(PlaceRegion(n, o, base));
      } else if (!TakeOver(n, o, k, irregular)) {
        Place(o);
      }
    }
    // What a launch reads where it writes, other than at the same index, is read from a snapshot.
    std::vector<Location> where(k.params.size());
    for (size_t i = 0; i < k.params.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(where[i], Locate(k.params[i].value));
      if (!k.params[i].is_output) continue;
      if (std::optional<int> home = HomeOf(k.params[i].value)) where[i] = locations_.at(argument_value_.at(*home));
    }
    absl::flat_hash_map<ValueId, Location> snapshots;
    for (size_t i = 0; i < k.params.size(); ++i) {
      if (k.params[i].is_output && !k.spec.params[i].is_read) continue;
      for (size_t j = 0; j < k.params.size(); ++j) {
        if (i == j || !k.params[j].is_output || where[i].slot != where[j].slot || k.params[i].is_output) continue;
        if (Harmless(k, irregular, where, i, j)) continue;
        auto [it, fresh] = snapshots.try_emplace(k.params[i].value);
        if (fresh) {
          Location to;
          to.geometry = where[i].geometry;
          to.geometry.offset = 0;
          to.slot = NewArena(to.geometry, position_, position_);
          EmitCopy(where[i], to, false, n);
          it->second = to;
        }
        k.params[i].offset = k.params[i].offset - where[i].geometry.offset;
        where[i] = it->second;
        break;
      }
    }
    auto launch = std::make_unique<fb::LaunchT>();
    launch->kernel = b_.kernels->Add(k.spec);
    used_kernels_.push_back(launch->kernel);
    auto word = [&](fb::WordKind kind, int a, int b = 0, int64_t constant = 0) {
      launch->words.push_back(fb::Word(kind, a, b, constant));
    };
    for (const Expr& s : k.sizes) word(fb::WordKind::Expr, b_.exprs.Add(s));
    for (size_t i = 0; i < k.params.size(); ++i) {
      const KernelParam& spec = k.spec.params[i];
      const LoweredKernel::Param& p = k.params[i];
      word(fb::WordKind::Address, where[i].slot, b_.exprs.Add(p.offset * ItemSize(spec.dtype)));
      for (size_t d = 0; d < p.strides.size(); ++d) {
        if (spec.strides[d] == StrideClass::kAny) word(fb::WordKind::Expr, b_.exprs.Add(p.strides[d]));
      }
      Location touched = where[i];
      if (!irregular[i]) {
        touched.geometry = {spec.dtype, k.sizes, p.strides, p.offset};
      }
      const int view = AddView(touched);
      if (spec.is_read) launch->reads.push_back(view);
      if (spec.is_written) launch->writes.push_back(view);
    }
    for (size_t i = 0; i < k.scalars.size(); ++i) {
      const LoweredKernel::Scalar& s = k.scalars[i];
      const bool floating = IsFloating(k.spec.scalars[i]);
      if (s.is_constant) {
        if (floating) {
          word(fb::WordKind::FloatConst, 0, 0, DoubleBits(s.constant));
        } else {
          word(fb::WordKind::IntConst, 0, 0, s.int_constant);
        }
      } else if (s.is_expr) {
        if (floating) return absl::UnimplementedError("a size used as a floating-point scalar");
        word(fb::WordKind::Expr, b_.exprs.Add(s.expr));
      } else {
        SMELT_RETURN_IF_ERROR(ScalarWord(s.value, floating, word));
      }
    }
    Expr tiles = 1;
    const int p_rank = k.spec.parallel_rank;
    const bool vector_parallel = k.spec.vector_dim >= 0 && k.spec.vector_dim < p_rank;
    if (vector_parallel && p_rank == 1) {
      tiles = k.sizes[0];
    } else {
      for (int d = 0; d < p_rank; ++d) {
        if (!(vector_parallel && d == k.spec.vector_dim)) tiles = tiles * k.sizes[d];
      }
    }
    launch->tiles = b_.exprs.Add(tiles);
    launch->bytes = b_.exprs.Add(k.bytes);
    launch->sequential = k.spec.sequential;
    Emit(std::move(launch), n);
    ++stats_.launches;
    return absl::OkStatus();
  }

  template <typename WordFn>
  absl::Status ScalarWord(ValueId v, bool floating, WordFn word) {
    if (auto it = scalar_args_.find(v); it != scalar_args_.end()) {
      word(fb::WordKind::ArgScalar, it->second, floating ? 1 : 0, 0);
      return absl::OkStatus();
    }
    if (auto it = registers_.find(v); it != registers_.end()) {
      word(fb::WordKind::DataScalar, it->second, floating ? 1 : 0, 0);
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat("the scalar %", g_.value(v).name, " is computed at run time"));
  }

  // Whether the read of param i and the write of param j may share their slot.
  bool Harmless(const LoweredKernel& k, const std::vector<bool>& irregular, const std::vector<Location>& where,
                size_t i, size_t j) {
    const int item_i = ItemSize(k.spec.params[i].dtype), item_j = ItemSize(k.spec.params[j].dtype);
    if (!irregular[i] && !irregular[j] && item_i == item_j && k.params[i].strides == k.params[j].strides &&
        k.params[i].offset == k.params[j].offset) {
      return k.spec.reduction_rank == 0;
    }
    const SymbolicGeometry gi =
        irregular[i] ? where[i].geometry
                     : SymbolicGeometry{k.spec.params[i].dtype, k.sizes, k.params[i].strides, k.params[i].offset};
    const SymbolicGeometry gj =
        irregular[j] ? where[j].geometry
                     : SymbolicGeometry{k.spec.params[j].dtype, k.sizes, k.params[j].strides, k.params[j].offset};
    return Compare(Region::Strided(gi.offset, gi.sizes, gi.strides, item_i),
                   Region::Strided(gj.offset, gj.sizes, gj.strides, item_j), g_.symbols) == Overlap::kDisjoint;
  }

  // An elementwise kernel may write over an operand that dies there and is read at the same index.
  bool TakeOver(NodeId n, ValueId o, const LoweredKernel& k, const std::vector<bool>& irregular) {
    if (destination_.contains(o) || k.spec.reduction_rank != 0 || k.spec.sequential) return false;
    const LoweredKernel::Param* write = nullptr;
    size_t write_index = 0;
    for (size_t j = 0; j < k.params.size(); ++j) {
      if (k.params[j].value != o) continue;
      if (write != nullptr) return false;
      write = &k.params[j];
      write_index = j;
    }
    if (write == nullptr || irregular[write_index]) return false;
    for (size_t i = 0; i < k.params.size(); ++i) {
      const LoweredKernel::Param& read = k.params[i];
      if (read.is_output || irregular[i] || read.strides != write->strides || read.offset != write->offset) continue;
      if (ItemSize(k.spec.params[i].dtype) != ItemSize(k.spec.params[write_index].dtype)) continue;
      auto it = locations_.find(read.value);
      if (it == locations_.end() || plan_->slots[it->second.slot]->kind != fb::SlotKind::Arena) continue;
      if (LastUse(read.value) != position_ || !SameElements(it->second.geometry, DefaultLayout(g_, o))) continue;
      if (taken_at_[it->second.slot] == position_) continue;
      bool other_read = false;
      for (size_t x = 0; x < k.params.size(); ++x) {
        if (x == i || k.params[x].is_output) continue;
        const ValueId root = Root(k.params[x].value);
        auto other = locations_.find(root);
        if (other != locations_.end() && other->second.slot == it->second.slot) other_read = true;
      }
      if (other_read) continue;
      const int slot = it->second.slot;  // the map grows below
      taken_at_[slot] = position_;
      locations_[o] = Location{slot, DefaultLayout(g_, o)};
      Extend(slot, LastUse(o));
      return true;
    }
    (void)n;
    return false;
  }
  static bool SameElements(const SymbolicGeometry& a, const SymbolicGeometry& b) {
    return ItemSize(a.dtype) == ItemSize(b.dtype) && BytesOf(a) == BytesOf(b);
  }

  absl::Status EmitLibrary(NodeId n, const LibraryNode& call) {
    auto step = std::make_unique<fb::LibraryCallT>();
    step->op = call.op;
    for (ValueId v : call.inputs) {
      if (!g_.IsLive(v)) {
        step->inputs.push_back(-1);
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(int view, ViewOf(v));
      step->inputs.push_back(view);
    }
    for (ValueId o : call.outputs) {
      if (!g_.IsLive(o)) {
        step->outputs.push_back(-1);
        continue;
      }
      const Location l = Place(o);
      step->outputs.push_back(AddView(l));
    }
    for (const Expr& e : call.ints) step->ints.push_back(b_.exprs.Add(e));
    step->floats = call.floats;
    Emit(std::move(step), n);
    ++stats_.library_calls;
    return absl::OkStatus();
  }

  absl::Status EmitRandom(NodeId n, const RandomCall& call) {
    const Location l = Place(g_.node(n).outputs[0]);
    auto step = std::make_unique<fb::RandomT>();
    step->kind = call.kind;
    step->out = AddView(l);
    step->p0 = call.p0;
    step->p1 = call.p1;
    if (g_.IsLive(call.probabilities)) {
      SMELT_ASSIGN_OR_RETURN(step->probabilities, ViewOf(call.probabilities));
    }
    Emit(std::move(step), n);
    return absl::OkStatus();
  }

  int NewRegister(ValueId v) {
    registers_[v] = num_registers_;
    return num_registers_++;
  }
  absl::Status EmitReadScalar(NodeId n) {
    auto step = std::make_unique<fb::ReadScalarT>();
    SMELT_ASSIGN_OR_RETURN(step->view, ViewOf(g_.node(n).inputs[0]));
    const ValueId out = g_.node(n).outputs[0];
    step->register_ = NewRegister(out);
    const std::optional<Expr>& e = g_.value(out).expr;
    if (e && e->IsSymbol()) {
      b_.exprs.Add(*e);
      b_.data_symbols.insert(e->SymbolName());
      step->symbol = SymbolNumber(e->SymbolName());
      read_symbols_.insert(e->SymbolName());
    }
    Emit(std::move(step), n);
    return absl::OkStatus();
  }

  // A comparison of integers, or a combination of such.
  bool IsCondition(NodeId n) const {
    static const auto* const kOps = new absl::flat_hash_set<std::string>{
        "aten::eq.int", "aten::ne.int",       "aten::lt.int",      "aten::le.int", "aten::gt.int",
        "aten::ge.int", "aten::__and__.bool", "aten::__or__.bool", "aten::__not__"};
    return kOps->contains(g_.node(n).op.full());
  }
  // Its expression, which is 0 or 1.
  absl::StatusOr<int> ConditionExpr(ValueId v) {
    if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) return b_.exprs.Add(std::get<bool>(*c));
    const NodeId def = g_.value(v).def;
    if (!g_.IsParam(def) && IsCondition(def)) {
      const std::string op = g_.node(def).op.name().substr(6);  // without "aten::"
      const auto& inputs = g_.node(def).inputs;
      if (op == "__not__" || op == "__and__" || op == "__or__") {
        SMELT_ASSIGN_OR_RETURN(int a, ConditionExpr(inputs[0]));
        if (op == "__not__") return b_.exprs.AddLogic(fb::ExprOp::Not, a, -1);
        SMELT_ASSIGN_OR_RETURN(int b, ConditionExpr(inputs[1]));
        return b_.exprs.AddLogic(op == "__and__" ? fb::ExprOp::And : fb::ExprOp::Or, a, b);
      }
      const std::optional<Expr> a = GetIntExpr(g_, inputs[0]), b = GetIntExpr(g_, inputs[1]);
      if (a && b && IsRead(*a) && IsRead(*b)) {
        const bool swap = op == "gt" || op == "ge";
        const fb::ExprOp compare = op == "lt" || op == "gt"   ? fb::ExprOp::Lt
                                   : op == "le" || op == "ge" ? fb::ExprOp::Le
                                                              : fb::ExprOp::Eq;
        const int e = b_.exprs.AddCompare(compare, swap ? *b : *a, swap ? *a : *b);
        return op == "ne" ? b_.exprs.AddLogic(fb::ExprOp::Not, e, -1) : e;
      }
    }
    return absl::UnimplementedError("a condition that is computed from sizes or numbers at run time");
  }
  int SymbolNumber(const std::string& name) const {
    const auto& s = b_.exprs.symbols();
    return static_cast<int>(std::find(s.begin(), s.end(), name) - s.begin());
  }

  // The register that holds a boolean: a tensor's one element is read first.
  absl::StatusOr<int> Predicate(ValueId v, NodeId source) {
    if (auto it = registers_.find(v); it != registers_.end()) return it->second;
    const Type& t = g_.value(v).type;
    if (t.IsTensor()) {
      auto step = std::make_unique<fb::ReadScalarT>();
      SMELT_ASSIGN_OR_RETURN(step->view, ViewOf(v));
      const int r = num_registers_++;
      step->register_ = r;
      Emit(std::move(step), source);
      return r;
    }
    auto set = std::make_unique<fb::SetRegisterT>();
    const int r = num_registers_++;
    set->register_ = r;
    if (auto c = GetConstant(g_, v); c && std::holds_alternative<bool>(*c)) {
      set->constant = std::get<bool>(*c);
    } else if (g_.value(v).expr) {
      set->expr = b_.exprs.Add(*g_.value(v).expr);
    } else {
      SMELT_ASSIGN_OR_RETURN(set->expr, ConditionExpr(v));
    }
    Emit(std::move(set), source);
    return r;
  }

  // Of a condition on integers: whether one that a step has read is among them.
  bool DependsOnData(ValueId v) const {
    if (auto e = g_.value(v).type.kind() == TypeKind::kInt ? GetIntExpr(g_, v) : std::nullopt)
      return IsLate(*e) && IsRead(*e);
    const NodeId def = g_.value(v).def;
    if (g_.IsParam(def) || !IsCondition(def)) return false;
    for (ValueId x : g_.node(def).inputs) {
      if (DependsOnData(x)) return true;
    }
    return false;
  }

  absl::Status EmitAssert(NodeId n) {
    const ValueId v = g_.node(n).inputs[0];
    // Conditions on sizes hold by the signature's ranges; what the data decides is checked.
    if (!g_.value(v).type.IsTensor() && !registers_.contains(v) && !DependsOnData(v)) return absl::OkStatus();
    auto step = std::make_unique<fb::CheckT>();
    step->kind = fb::CheckKind::DataTrue;
    SMELT_ASSIGN_OR_RETURN(step->a, Predicate(v, n));
    step->message = "Assertion failed";
    for (ValueId a : g_.node(n).inputs) {
      auto c = GetConstant(g_, a);
      if (c && std::holds_alternative<std::string>(*c)) step->message = std::get<std::string>(*c);
    }
    if (g_.node(n).source) step->source = g_.node(n).source->ToString();
    Emit(std::move(step), n);
    return absl::OkStatus();
  }

  // --- control flow ---
  int NewBlock() {
    plan_->blocks.push_back(std::make_unique<fb::BlockT>());
    return static_cast<int>(plan_->blocks.size()) - 1;
  }

  absl::Status EmitIf(NodeId n) {
    SMELT_ASSIGN_OR_RETURN(int predicate, Predicate(g_.node(n).inputs[0], n));
    std::vector<Location> outs;
    for (ValueId o : g_.node(n).outputs) {
      if (!g_.value(o).type.IsTensor()) return absl::UnimplementedError("a branch that returns a number");
      position_ = begin_.at(n);
      outs.push_back(Place(o));
      Extend(outs.back().slot, end_.at(n));
    }
    const int outer = block_;
    std::vector<int> blocks;
    for (BlockId b : g_.node(n).blocks) {
      block_ = NewBlock();
      blocks.push_back(block_);
      SMELT_RETURN_IF_ERROR(EmitBlock(b));
      position_ = block_end_.at(b);
      for (size_t k = 0; k < outs.size(); ++k) {
        SMELT_ASSIGN_OR_RETURN(Location from, Locate(g_.results(b)[k]));
        EmitCopy(from, outs[k], false, n);
      }
    }
    block_ = outer;
    auto step = std::make_unique<fb::IfT>();
    step->predicate = predicate;
    step->then_block = blocks[0];
    step->else_block = blocks[1];
    Emit(std::move(step), n);
    return absl::OkStatus();
  }

  absl::Status EmitLoop(NodeId n) {
    const bool is_while = g_.node(n).op == "smelt::while_loop";
    const int first_input = is_while ? 0 : 2;
    const int first_param = is_while ? 0 : 1;
    const std::vector<ValueId> outputs(g_.node(n).outputs.begin(), g_.node(n).outputs.end());
    // Each carried value has one place for all iterations.
    std::vector<Location> places;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!g_.value(outputs[i]).type.IsTensor()) return absl::UnimplementedError("a loop that carries a number");
      position_ = begin_.at(n);
      const ValueId initial = g_.node(n).inputs[first_input + i];
      SMELT_ASSIGN_OR_RETURN(Location init, Locate(initial));
      Location l;
      if (EndsInLoop(n, initial, init, outputs[i], places)) {
        l = init;
        locations_[outputs[i]] = l;
      } else {
        l = Place(outputs[i]);
        EmitCopy(init, l, false, n);
      }
      Extend(l.slot, std::max(end_.at(n), LastUse(outputs[i])));
      places.push_back(l);
      for (BlockId b : g_.node(n).blocks) locations_[g_.params(b)[first_param + i]] = l;
      // What the body makes of it by rewriting regions stays in its place.
      std::vector<ValueId> chain = {g_.results(g_.node(n).blocks.back())[(is_while ? 0 : 1) + i]};
      while (g_.IsLive(RegionBase(chain.back()))) chain.push_back(RegionBase(chain.back()));
      if (chain.back() == g_.params(g_.node(n).blocks.back())[first_param + i]) {
        in_place_chain_.insert(chain.begin(), chain.end());
      }
    }
    if (is_while) {
      // The condition must not compute over what the body reads after it. The body itself may: what it carries on is
      // read at its end, which the lives of its values say.
      for (ValueId p : g_.params(g_.node(n).blocks[0])) last_use_[p] = end_.at(n);
    }
    auto step = std::make_unique<fb::WhileT>();
    const int outer = block_;
    if (is_while) {
      const BlockId cond = g_.node(n).blocks[0];
      block_ = step->cond_block = NewBlock();
      SMELT_RETURN_IF_ERROR(EmitBlock(cond));
      SMELT_ASSIGN_OR_RETURN(step->predicate, Predicate(g_.results(cond)[0], n));
    } else {
      block_ = outer;
      SMELT_ASSIGN_OR_RETURN(int initial, Predicate(g_.node(n).inputs[1], n));
      step->predicate = initial;
      step->cond_block = NewBlock();
      std::optional<Expr> trips = GetIntExpr(g_, g_.node(n).inputs[0]);
      if (!trips) return absl::UnimplementedError("a loop whose trip count is computed at run time");
      step->max_trips = b_.exprs.Add(*trips);
      if (!g_.value(g_.params(g_.node(n).blocks[0])[0]).uses.empty())
        return absl::UnimplementedError("a loop whose index is used as a number");
    }
    const BlockId body = g_.node(n).blocks.back();
    block_ = step->body_block = NewBlock();
    SMELT_RETURN_IF_ERROR(EmitBlock(body));
    position_ = block_end_.at(body);
    const int first_result = is_while ? 0 : 1;
    std::vector<std::pair<Location, Location>> copies;
    for (size_t i = 0; i < places.size(); ++i) {
      SMELT_ASSIGN_OR_RETURN(Location from, Locate(g_.results(body)[first_result + i]));
      copies.push_back({from, places[i]});
    }
    // Before the copies: it may lie where a carried value goes.
    if (!is_while) {
      SMELT_ASSIGN_OR_RETURN(int next, Predicate(g_.results(body)[0], n));
      if (next != step->predicate) {
        auto c = GetConstant(g_, g_.results(body)[0]);
        if (!c || !std::holds_alternative<bool>(*c) || !std::get<bool>(*c))
          return absl::UnimplementedError("a loop with a condition of its own");
      }
    }
    ParallelCopies(copies, false);
    block_ = outer;
    Emit(std::move(step), n);
    return absl::OkStatus();
  }

  // Whether a loop may carry a value where its initial contents lie: nobody needs them afterwards.
  bool EndsInLoop(NodeId n, ValueId initial, const Location& at, ValueId carried, const std::vector<Location>& places) {
    if (destination_.contains(carried) || plan_->slots[at.slot]->kind != fb::SlotKind::Arena) return false;
    if (Root(initial) != initial || LastUse(initial) > begin_.at(n)) return false;
    int uses = 0;
    for (ValueId v : g_.node(n).inputs) uses += Root(v) == initial;
    for (const Location& l : places) {
      if (l.slot == at.slot) return false;
    }
    return uses == 1 && at.geometry.offset == Expr(0) && SameLayout(at.geometry, DefaultLayout(g_, carried));
  }

  // Copies that happen at once: a source that another copy overwrites is saved first.
  void ParallelCopies(const std::vector<std::pair<Location, Location>>& copies, bool copy_back) {
    absl::flat_hash_set<int> written;
    for (const auto& [from, to] : copies) written.insert(to.slot);
    std::vector<std::pair<Location, Location>> now;
    for (const auto& [from, to] : copies) {
      if (from.slot == to.slot && SameLayout(from.geometry, to.geometry) && from.geometry.offset == to.geometry.offset)
        continue;
      if (!written.contains(from.slot)) {
        now.push_back({from, to});
        continue;
      }
      Location saved;
      saved.geometry = {from.geometry.dtype, from.geometry.sizes, ContiguousStrides(from.geometry.sizes), 0};
      saved.slot = NewArena(saved.geometry, position_, position_);
      EmitCopy(from, saved);
      now.push_back({saved, to});
    }
    for (const auto& [from, to] : now) EmitCopy(from, to, copy_back);
  }

  // --- the end of a call ---
  absl::Status EmitEpilogue() {
    auto conv = std::make_unique<fb::ConventionT>();
    conv->duplicates = std::make_unique<fb::DuplicatesLayerT>();
    for (DistinctIndex i : c_.duplicates.inner_of_outer) conv->duplicates->inner_of_outer.push_back(i.value());
    conv->overlaps = std::make_unique<fb::OverlapsLayerT>();
    absl::flat_hash_map<int, std::vector<int>> groups;
    for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
      if (c_.overlaps.memory_of[d].value() >= 0)
        groups[c_.overlaps.memory_of[d].value()].push_back(static_cast<int>(d));
    }
    for (int m = 0; m < c_.overlaps.num_argument_memories; ++m) {
      if (groups[m].size() < 2) continue;
      auto g = std::make_unique<fb::OverlapGroupT>();
      g->members = groups[m];
      conv->overlaps->groups.push_back(std::move(g));
    }

    // Contents: those not computed in place are copied back, region by region.
    std::vector<std::pair<Location, Location>> copies;
    for (const MutatedMemory& m : c_.mutations.memories) {
      const ValueId f = g_.outputs()[m.contents.value()];
      SMELT_ASSIGN_OR_RETURN(Location from, Locate(f));
      const bool is_state = m.memory.value() >= c_.overlaps.num_argument_memories;
      Location home;
      if (is_state) {
        home.slot = StateSlot(m.memory.value() - c_.overlaps.num_argument_memories);
      } else {
        home = locations_.at(argument_value_.at(DistinctOfMemory(m.memory.value())));
      }
      if (from.slot == home.slot || grouped_) continue;
      const ValueId initial = is_state ? StateInitial(m.memory.value() - c_.overlaps.num_argument_memories)
                                       : argument_value_.at(DistinctOfMemory(m.memory.value()));
      (void)initial;
      std::vector<SymbolicGeometry> regions;
      for (const SymbolicGeometry& r : m.written) {
        bool known = false;
        for (const SymbolicGeometry& k : regions) {
          known = known || (k.offset == r.offset && k.dtype == r.dtype && SameLayout(k, r)) ||
                  Covers(Region::Strided(k.offset, k.sizes, k.strides, ItemSize(k.dtype)),
                         Region::Strided(r.offset, r.sizes, r.strides, ItemSize(r.dtype)), g_.symbols);
        }
        if (!known) regions.push_back(r);
      }
      // The contents' place has offset 0 for the memory's element 0 of arguments, and the storage's for states.
      for (const SymbolicGeometry& r : regions) {
        Location src = from, dst = home;
        src.geometry = r;
        dst.geometry = r;
        if (is_state) src.geometry.offset = r.offset - StateOffset(from, f, m);
        copies.push_back({src, dst});
      }
    }
    ParallelCopies(copies, true);

    // Fresh storages that hold what lies elsewhere.
    std::vector<int> keys;
    for (const auto& [key, slot] : fresh_slot_) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    for (int key : keys) {
      SMELT_ASSIGN_OR_RETURN(Location from, Locate(fresh_contents_.at(key)));
      if (from.slot == fresh_slot_.at(key)) continue;
      Location to;
      to.slot = fresh_slot_.at(key);
      to.geometry = DefaultLayout(g_, fresh_contents_.at(key));
      fresh_copies_.push_back({from, to});
    }
    // They must read arguments before the copies above overwrite them: they were emitted after; so they go first.
    std::vector<std::unique_ptr<fb::StepT>>& steps = plan_->blocks[0]->steps;
    const size_t end = steps.size();
    for (const auto& [from, to] : fresh_copies_) {
      AllocateLate(to.slot);
      EmitCopy(from, to);
    }
    std::rotate(steps.begin() + first_epilogue_step_(steps, end, copies.size()), steps.begin() + end, steps.end());

    conv->mutated = std::make_unique<fb::MutatedInputsLayerT>();
    SMELT_RETURN_IF_ERROR(EncodeMutations(*conv->mutated));
    conv->outputs = std::make_unique<fb::OutputsLayerT>();
    for (size_t k = 0; k < c_.outputs.outputs.size(); ++k) {
      SMELT_ASSIGN_OR_RETURN(auto out, EncodeOutput(static_cast<int>(k)));
      conv->outputs->outputs.push_back(std::move(out));
    }
    plan_->convention = std::move(conv);
    for (const MutatedInput& m : c_.mutations.inputs) {
      if (!m.is_state) written_args_.insert(m.arg.value());
    }
    for (size_t i = 0; i < c_.duplicates.inner_of_outer.size(); ++i) {
      if (written_args_.contains(c_.duplicates.inner_of_outer[i].value()))
        plan_->written_args.push_back(static_cast<int>(i));
    }
    for (int s : written_states_) plan_->written_states.push_back(s);
    std::sort(plan_->written_args.begin(), plan_->written_args.end());
    std::sort(plan_->written_states.begin(), plan_->written_states.end());
    return absl::OkStatus();
  }
  // Where the copies back begin.
  size_t first_epilogue_step_(const std::vector<std::unique_ptr<fb::StepT>>&, size_t end, size_t) const {
    size_t at = end;
    const auto& steps = plan_->blocks[0]->steps;
    while (at > 0 && steps[at - 1]->step.type == fb::StepUnion::Copy && steps[at - 1]->step.AsCopy()->copy_back) --at;
    return at;
  }
  // A state's contents may lie in a buffer of their own, whose element 0 is the first that the standing weight reaches.
  Expr StateOffset(const Location& from, ValueId, const MutatedMemory& m) const {
    if (plan_->slots[from.slot]->kind == fb::SlotKind::StateStorage) return 0;
    const int storage = m.memory.value() - c_.overlaps.num_argument_memories;
    const ValueId initial = StateInitial(storage);
    return locations_.at(initial).geometry.offset;
  }

  absl::Status EncodeMutations(fb::MutatedInputsLayerT& layer) {
    absl::flat_hash_map<int, fb::MutatedInputT*> by_arg;
    auto entry = [&](int arg, bool is_state) -> fb::MutatedInputT& {
      const int key = is_state ? -1 - arg : arg;
      if (by_arg.contains(key)) return *by_arg[key];
      layer.inputs.push_back(std::make_unique<fb::MutatedInputT>());
      by_arg[key] = layer.inputs.back().get();
      by_arg[key]->arg = arg;
      by_arg[key]->is_state = is_state;
      return *by_arg[key];
    };
    for (const MutatedMemory& m : c_.mutations.memories) {
      const bool is_state = m.memory.value() >= c_.overlaps.num_argument_memories;
      if (is_state) {
        const int storage = m.memory.value() - c_.overlaps.num_argument_memories;
        for (size_t w = 0; w < g_.weights.size(); ++w) {
          if (g_.weights[w].storage != storage) continue;
          entry(static_cast<int>(w), true).flags |= static_cast<uint8_t>(fb::MutationKind::Data);
        }
        continue;
      }
      for (size_t d = 0; d < c_.overlaps.memory_of.size(); ++d) {
        if (c_.overlaps.memory_of[d] != m.memory) continue;
        fb::MutatedInputT& in = entry(static_cast<int>(d), false);
        in.flags |= static_cast<uint8_t>(fb::MutationKind::Data);
        for (size_t i = 0; i < m.written.size(); ++i) {
          const SymbolicGeometry& r = m.written[i];
          if (i < m.written_from.size() && m.written_from[i].value() != static_cast<int>(d)) continue;
          Location l = locations_.at(argument_value_.at(static_cast<int>(d)));
          l.geometry = r;
          in.written.push_back(AddView(l));
        }
        if (m.resized) {
          in.flags |= static_cast<uint8_t>(fb::MutationKind::Resized);
          in.final_bytes = b_.exprs.Add(m.final_bytes);
        }
      }
    }
    for (const MutatedInput& m : c_.mutations.inputs) {
      const int index = m.is_state ? m.state : m.arg.value();
      fb::MutatedInputT& in = entry(index, m.is_state);
      in.flags |= static_cast<uint8_t>(fb::MutationKind::Geometry);
      if (m.storage) in.flags |= static_cast<uint8_t>(fb::MutationKind::Storage);
      Location l;
      if (!m.storage) {
        l = m.is_state ? Location{StateSlot(g_.weights[m.state].storage), {}}
                       : locations_.at(argument_value_.at(m.arg.value()));
      } else if (m.final_source == MutatedInput::Source::kGraphOutput) {
        l.slot = fresh_slot_.at(SharedKey(m.final_output));
      } else {
        l = m.final_from.value() < 0 ? MemoryHome(m.final_memory)
                                     : locations_.at(argument_value_.at(m.final_from.value()));
      }
      l.geometry = m.final_geometry;
      in.final_view = AddView(l);
      if (m.is_state) MarkMutated(g_.weights[m.state].storage);
    }
    return absl::OkStatus();
  }
  Location MemoryHome(MemoryIndex m) {
    if (m.value() < c_.overlaps.num_argument_memories)
      return locations_.at(argument_value_.at(DistinctOfMemory(m.value())));
    const int storage = m.value() - c_.overlaps.num_argument_memories;
    MarkMutated(storage);
    return {StateSlot(storage), {}};
  }

  absl::StatusOr<std::unique_ptr<fb::OutputRefT>> EncodeOutput(int k) {
    const OutputInfo& o = c_.outputs.outputs[k];
    auto out = std::make_unique<fb::OutputRefT>();
    Location l;
    switch (o.kind) {
      case OutputInfo::Kind::kIsArgument:
        out->kind = fb::OutputKind::IsArg;
        out->index = o.argument.value();
        break;
      case OutputInfo::Kind::kIsState:
        out->kind = fb::OutputKind::IsState;
        out->index = o.state;
        MarkMutated(g_.weights[o.state].storage);
        break;
      case OutputInfo::Kind::kAliasOfMemory:
        l = MemoryHome(o.memory);
        if (o.argument.value() >= 0) {
          const int d = c_.duplicates.inner_of_outer[o.argument.value()].value();
          l = locations_.at(argument_value_.at(d));
        }
        l.geometry = o.geometry;
        out->kind = o.memory.value() < c_.overlaps.num_argument_memories ? fb::OutputKind::AliasOfArg
                                                                         : fb::OutputKind::AliasOfState;
        out->index = plan_->slots[l.slot]->index;
        out->view = AddView(l);
        break;
      case OutputInfo::Kind::kAliasOfIntermediate:
      case OutputInfo::Kind::kFresh: {
        const bool whole = o.kind == OutputInfo::Kind::kFresh;
        out->kind = whole ? fb::OutputKind::Fresh : fb::OutputKind::AliasOfIntermediate;
        l.slot = fresh_slot_.at(whole ? -1 - k : o.memory.value());
        l.geometry = o.geometry;
        out->index = l.slot;
        out->view = AddView(l);
        break;
      }
      case OutputInfo::Kind::kScalar: {
        const ValueId v = g_.outputs()[o.contents.value()];
        out->kind = fb::OutputKind::Scalar;
        const TypeKind t = g_.value(v).type.kind();
        out->scalar_kind = t == TypeKind::kInt    ? fb::ArgKind::Int
                           : t == TypeKind::kBool ? fb::ArgKind::Bool
                                                  : fb::ArgKind::Float;
        if (auto it = registers_.find(v); it != registers_.end()) {
          out->index = it->second;
        } else if (g_.value(v).expr) {
          out->expr = b_.exprs.Add(*g_.value(v).expr);
        } else {
          // A constant or an argument handed through.
          const int r = num_registers_++;
          auto set = std::make_unique<fb::SetRegisterT>();
          set->register_ = r;
          auto c = GetConstant(g_, v);
          if (c && std::holds_alternative<double>(*c)) {
            set->is_float = true;
            set->constant = std::get<double>(*c);
          } else if (c && std::holds_alternative<bool>(*c)) {
            set->constant = std::get<bool>(*c);
          } else if (c && std::holds_alternative<int64_t>(*c)) {
            set->expr = b_.exprs.Add(Expr(std::get<int64_t>(*c)));
          } else {
            return absl::UnimplementedError(absl::StrCat("output ", k, " is a number computed at run time"));
          }
          Emit(std::move(set));
          out->index = r;
        }
        break;
      }
      case OutputInfo::Kind::kConstant:
        out->kind = fb::OutputKind::Scalar;
        out->scalar_kind = fb::ArgKind::Int;
        out->expr = b_.exprs.Add(o.constant);
        break;
      case OutputInfo::Kind::kNone:
        out->kind = fb::OutputKind::None;
        break;
    }
    return out;
  }

  bool DependsOnData(const Expr& e) const {
    for (const std::string& s : e.Symbols()) {
      if (b_.data_symbols.contains(s)) return true;
    }
    return false;
  }
  // A kernel finds an index out of range when something may have been written. Where the indices are arguments, they
  // are looked at before.
  absl::Status CheckIndicesFirst() {
    if (written_args_.empty() && written_states_.empty()) return absl::OkStatus();
    for (const IndexUse& use : FindIndexUses(g_)) {
      const ValueId root = Root(use.index);
      if (!g_.IsParam(g_.value(root).def) || DependsOnData(use.limit)) continue;
      auto check = std::make_unique<fb::CheckT>();
      check->kind = use.wraps ? fb::CheckKind::WrappedIndexInRange : fb::CheckKind::IndexInRange;
      SMELT_ASSIGN_OR_RETURN(check->a, ViewOf(use.index));
      check->b = b_.exprs.Add(use.limit);
      check->source = use.source;
      plan_->prologue_checks.push_back(std::move(check));
    }
    return absl::OkStatus();
  }

  void PackSlots() {
    const ArenaLayout layout = PackArena(buffers_);
    for (size_t s = 0; s < plan_->slots.size(); ++s) {
      if (arena_buffer_[s] < 0) continue;
      plan_->slots[s]->offset = b_.exprs.Add(layout.offsets[arena_buffer_[s]]);
      plan_->slots[s]->bytes = b_.exprs.Add(buffers_[arena_buffer_[s]].bytes);
    }
    plan_->arena_bytes = b_.exprs.Add(layout.bytes);
  }

  BundleBuilder::Impl& b_;
  const Graph& g_;
  const Convention& c_;
  const BundleBuilder::PlanOptions& options_;
  std::unique_ptr<fb::PlanT> plan_;
  PlanStats stats_;
  bool grouped_ = false;
  int block_ = 0;
  int position_ = 0;
  int next_position_ = 0;
  int num_registers_ = 0;
  absl::flat_hash_map<NodeId, int> begin_, end_;
  absl::flat_hash_map<BlockId, int> block_begin_, block_end_;
  std::vector<NodeId> loops_;
  absl::flat_hash_map<ValueId, int> last_use_;
  absl::flat_hash_map<ValueId, Location> locations_;
  absl::flat_hash_map<ValueId, Location> destination_;
  absl::flat_hash_set<ValueId> in_place_chain_;
  absl::flat_hash_map<int, ValueId> argument_value_;
  absl::flat_hash_map<ValueId, int> scalar_args_, registers_;
  absl::flat_hash_set<std::string> data_symbols_, read_symbols_;
  absl::flat_hash_set<int> late_slots_, allocated_;  // fresh ones
  std::vector<int> caller_of_distinct_;
  absl::flat_hash_map<int, int> arg_slots_, state_slots_, fresh_slot_, taken_at_;
  absl::flat_hash_map<int, ValueId> fresh_contents_;
  std::vector<std::pair<Location, Location>> fresh_copies_;
  std::vector<int> arena_buffer_;  // by slot
  std::vector<ArenaBuffer> buffers_;
  std::vector<int> used_kernels_;
  absl::flat_hash_set<int> written_args_, written_states_;
};

}  // namespace

BundleBuilder::BundleBuilder(const Graph& signature)
    : impl_(std::make_unique<Impl>(signature, std::make_shared<KernelTable>())) {}
BundleBuilder::BundleBuilder(const Graph& signature, BundleBuilder& outer)
    : impl_(std::make_unique<Impl>(signature, outer.impl_->kernels)) {}
BundleBuilder::~BundleBuilder() = default;

absl::StatusOr<PlanStats> BundleBuilder::AddPlan(const Graph& pure, const Convention& convention,
                                                 const PlanOptions& options) {
  return PlanBuilder(*impl_, pure, convention, options).Build();
}

namespace {

// A plan without steps of its own, for calls that are refused or run otherwise.
std::unique_ptr<fb::PlanT> EmptyPlan(BundleBuilder::Impl& impl) {
  auto plan = std::make_unique<fb::PlanT>();
  plan->arena_bytes = impl.exprs.Add(Expr(0));
  plan->blocks.push_back(std::make_unique<fb::BlockT>());
  plan->convention = std::make_unique<fb::ConventionT>();
  plan->convention->outputs = std::make_unique<fb::OutputsLayerT>();
  for (size_t k = 0; k < impl.signature.outputs().size(); ++k) {
    plan->convention->outputs->outputs.push_back(std::make_unique<fb::OutputRefT>());
    plan->convention->outputs->outputs.back()->kind = fb::OutputKind::None;
  }
  return plan;
}

}  // namespace

void BundleBuilder::AddRefusal(const std::string& message, const std::string& source) {
  auto plan = EmptyPlan(*impl_);
  auto check = std::make_unique<fb::CheckT>();
  check->kind = fb::CheckKind::NotZero;
  check->a = impl_->exprs.Add(Expr(0));
  check->message = message;
  check->source = source;
  plan->prologue_checks.push_back(std::move(check));
  impl_->plans.push_back(std::move(plan));
}

void BundleBuilder::AddEagerPlan(std::unique_ptr<fb::EagerProgramT> program, std::vector<int> written_args,
                                 const std::vector<int>& written_states) {
  auto plan = EmptyPlan(*impl_);
  plan->variant = fb::VariantKind::EagerOrder;
  plan->eager = std::move(program);
  plan->written_args = std::move(written_args);
  plan->written_states = written_states;
  for (int s : written_states) impl_->MarkMutated(s);
  impl_->plans.push_back(std::move(plan));
}

int BundleBuilder::AddExpr(const Expr& e) { return impl_->exprs.Add(e); }
int BundleBuilder::AddConstantStorage(const Tensor& t) { return impl_->AddConstant(t); }
int BundleBuilder::AddDataSymbol(const std::string& name) {
  impl_->exprs.Add(Expr::Symbol(name));
  impl_->data_symbols.insert(name);
  const auto& s = impl_->exprs.symbols();
  return static_cast<int>(std::find(s.begin(), s.end(), name) - s.begin());
}

const std::vector<KernelSpec>& BundleBuilder::kernels() const { return impl_->kernels->kernels; }
const std::vector<int>& BundleBuilder::kernel_uses() const { return impl_->kernels->uses; }
const std::vector<Tensor>& BundleBuilder::constants() const { return impl_->constants; }

absl::StatusOr<fb::BundleT> BundleBuilder::Finish() {
  const Graph& g = impl_->signature;
  fb::BundleT bundle;
  bundle.format = 1;
  bundle.abi = 1;
  bundle.model_name = g.name;
  // Signature.
  std::vector<std::pair<std::string, ValueId>> user;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    if (g.input_infos[i].kind != InputInfo::Kind::kUser) continue;
    const Value& v = g.value(g.inputs()[i]);
    auto a = std::make_unique<fb::ArgDefT>();
    a->name = v.name;
    const InputInfo& info = g.input_infos[i];
    a->has_constant = info.is_constant;
    switch (v.type.kind()) {
      case TypeKind::kTensor:
        a->kind = fb::ArgKind::Tensor;
        a->dtype = static_cast<uint8_t>(*v.type.tensor().dtype);
        a->sizes = impl_->exprs.AddAll(*v.type.tensor().sizes);
        a->strides = impl_->exprs.AddAll(*v.type.tensor().strides);
        break;
      case TypeKind::kInt:
        a->kind = fb::ArgKind::Int;
        if (const auto* c = std::get_if<int64_t>(&info.constant); info.is_constant && c != nullptr) a->int_value = *c;
        break;
      case TypeKind::kFloat:
        a->kind = fb::ArgKind::Float;
        if (const auto* c = std::get_if<double>(&info.constant); info.is_constant && c != nullptr) a->float_value = *c;
        break;
      case TypeKind::kBool:
        a->kind = fb::ArgKind::Bool;
        if (const auto* c = std::get_if<bool>(&info.constant); info.is_constant && c != nullptr) a->int_value = *c;
        break;
      case TypeKind::kString:
        a->kind = fb::ArgKind::String;
        if (const auto* c = std::get_if<std::string>(&info.constant); info.is_constant && c != nullptr)
          a->string_value = *c;
        break;
      case TypeKind::kNone:
        a->kind = fb::ArgKind::None;
        break;
      default:
        return absl::UnimplementedError(absl::StrCat("argument ", v.name, " of type ", v.type.ToString()));
    }
    bundle.args.push_back(std::move(a));
    user.push_back({v.name, g.inputs()[i]});
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    auto o = std::make_unique<fb::OutputDefT>();
    o->name = i < g.output_names.size() && !g.output_names[i].empty() ? g.output_names[i] : absl::StrCat("output", i);
    bundle.outputs.push_back(std::move(o));
  }
  // Where each symbol's value comes from.
  for (size_t k = 0; k < impl_->exprs.symbols().size(); ++k) {
    const std::string& name = impl_->exprs.symbols()[k];
    auto def = std::make_unique<fb::SymbolDefT>();
    def->name = name;
    const SymbolRanges::Range range = g.symbols.Get(name);
    def->min = range.accepted_min >= 0 ? range.accepted_min : range.min;
    def->max = range.max;
    bool found = impl_->data_symbols.contains(name);
    if (found) {
      def->source = fb::SymbolSource::Data;
      def->min = INT64_MIN;
    }
    for (size_t a = 0; a < user.size() && !found; ++a) {
      const Value& v = g.value(user[a].second);
      if (name == user[a].first + ".offset") {
        def->source = fb::SymbolSource::ArgOffset;
        def->arg = static_cast<int>(a);
        found = true;
      }
      for (int d = 0; v.type.IsTensor() && d < v.type.tensor().rank() && !found; ++d) {
        if (name == absl::StrCat(user[a].first, ".stride", d)) {
          def->source = fb::SymbolSource::ArgStride;
          def->arg = static_cast<int>(a);
          def->dim = d;
          found = true;
        }
      }
    }
    // A size that is the lone symbol; else one that is linear in it.
    for (int pass = 0; pass < 2 && !found; ++pass) {
      for (size_t a = 0; a < user.size() && !found; ++a) {
        const Value& v = g.value(user[a].second);
        if (v.type.kind() == TypeKind::kInt && v.expr && v.expr->IsSymbol() && v.expr->SymbolName() == name) {
          def->source = fb::SymbolSource::ArgInt;
          def->arg = static_cast<int>(a);
          def->min = std::min<int64_t>(def->min, range.min);
          found = true;
          break;
        }
        if (!v.type.IsTensor()) continue;
        const std::vector<Expr>& sizes = *v.type.tensor().sizes;
        for (size_t d = 0; d < sizes.size() && !found; ++d) {
          if (sizes[d].Symbols() != std::vector<std::string>{name}) continue;
          const bool lone = sizes[d].IsSymbol();
          if (pass == 0 && !lone) continue;
          auto at0 = sizes[d].Evaluate({{name, 0}}), at1 = sizes[d].Evaluate({{name, 1}}),
               at7 = sizes[d].Evaluate({{name, 7}});
          if (!at0.ok() || !at1.ok() || !at7.ok()) continue;
          const int64_t scale = *at1 - *at0;
          if (scale <= 0 || *at7 != *at0 + 7 * scale) continue;
          def->source = fb::SymbolSource::ArgSize;
          def->arg = static_cast<int>(a);
          def->dim = static_cast<int>(d);
          def->scale = scale;
          def->addend = *at0;
          found = true;
        }
      }
    }
    if (!found)
      return absl::InvalidArgumentError(absl::StrCat("the size symbol ", name, " is determined by no argument"));
    bundle.symbols.push_back(std::move(def));
  }
  bundle.exprs = impl_->exprs.nodes();
  // States.
  impl_->state_mutated.resize(g.weight_storages.size() + impl_->constants.size(), false);
  for (size_t s = 0; s < g.weight_storages.size() + impl_->constants.size(); ++s) {
    auto out = std::make_unique<fb::StateStorageT>();
    out->bytes = s < g.weight_storages.size() ? g.weight_storages[s]->bytes()
                                              : impl_->constants[s - g.weight_storages.size()].NumElements() *
                                                    ItemSize(impl_->constants[s - g.weight_storages.size()].dtype());
    out->is_mutated = impl_->state_mutated[s];
    bundle.storages.push_back(std::move(out));
  }
  for (const Weight& w : g.weights) {
    auto out = std::make_unique<fb::StateTensorT>();
    out->name = w.name;
    out->kind = w.kind == Weight::Kind::kParameter ? fb::StateKind::Parameter
                : w.kind == Weight::Kind::kBuffer  ? fb::StateKind::Buffer
                                                   : fb::StateKind::Constant;
    out->storage = w.storage;
    out->dtype = static_cast<uint8_t>(w.dtype);
    out->sizes = w.geometry.sizes;
    out->strides = w.geometry.strides;
    out->offset = w.geometry.offset;
    bundle.states.push_back(std::move(out));
  }
  bundle.plans = std::move(impl_->plans);
  return bundle;
}

}  // namespace smelt
