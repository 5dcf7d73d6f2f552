#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "smelt/codegen/plan_builder.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

absl::Status PlanBuilder::EmitKernel(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(const bool is_in_place, IsInPlace(n));
  if (is_in_place) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(LoweredKernel k, Lower(n));
  const std::vector<bool> irregular = IrregularParams(k.spec);
  for (ValueId o : g_.node(n).outputs) {
    const ValueId base = RegionBase(o);
    if (g_.IsLive(base)) {
      SMELT_RETURN_IF_ERROR(PlaceRegion(n, o, base));
    } else if (!TakeOver(o, k, irregular)) {
      Place(o);
    }
  }
  std::vector<Location> where(k.params.size());
  for (size_t i = 0; i < k.params.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(where[i], Locate(k.params[i].value));
    if (!k.params[i].is_output) continue;
    if (std::optional<int> home = HomeOf(k.params[i].value)) where[i] = locations_.at(argument_value_.at(*home));
  }
  TakeSnapshots(n, k, irregular, where);
  auto launch = std::make_unique<fb::LaunchT>();
  launch->kernel = b_.kernels->Add(k.spec);
  used_kernels_.push_back(launch->kernel);
  NoteRefusals(k.spec);
  auto word = [&](fb::WordKind kind, int a, int b = 0) { launch->words.push_back(fb::Word(kind, a, b, 0)); };
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
    SMELT_ASSIGN_OR_RETURN(fb::Word w, ScalarWord(k.scalars[i], IsFloating(k.spec.scalars[i])));
    launch->words.push_back(w);
  }
  launch->tiles = b_.exprs.Add(TilesOf(k));
  launch->bytes = b_.exprs.Add(k.bytes);
  launch->sequential = k.spec.sequential;
  Emit(std::move(launch), n);
  ++stats_.launches;
  MakeEpilogue(k, irregular, where);
  return absl::OkStatus();
}

void PlanBuilder::MakeEpilogue(const LoweredKernel& k, const std::vector<bool>& irregular,
                               const std::vector<Location>& where) {
  auto& steps = plan_->blocks[block_]->steps;
  if (last_call_.block != block_ || last_call_.step + 2 != steps.size()) return;
  fb::LibraryCallT& call = *steps[last_call_.step]->step.AsLibraryCall();
  if ((call.op != "matmul" && call.op != "convolution") || k.spec.sequential) return;
  // Tiles follow each other as the loops do.
  const int v = k.spec.vector_dim, parallel = k.spec.parallel_rank;
  if (v >= 0 && v < parallel - 1) return;
  const SymbolicGeometry& result = last_call_.result.geometry;
  const Expr all = Product(result.sizes);
  if (BytesOf(result) != all * ItemSize(result.dtype) || Product(k.sizes) != all) return;
  const std::vector<Expr> dense = ContiguousStrides(k.sizes);
  bool reads_result = false;
  for (size_t i = 0; i < k.params.size(); ++i) {
    const int slot = where[i].slot;
    if (slot == last_call_.result.slot) {
      if (irregular[i] || k.params[i].strides != dense || k.params[i].offset != result.offset ||
          ItemSize(k.spec.params[i].dtype) != ItemSize(result.dtype)) {
        return;
      }
      reads_result = reads_result || k.spec.params[i].is_read;
    }
    if (!k.spec.params[i].is_written) continue;
    const fb::SlotKind kind = plan_->slots[slot]->kind;
    if (kind == fb::SlotKind::ArgStorage || kind == fb::SlotKind::StateStorage) return;
    if (std::find(last_call_.reads.begin(), last_call_.reads.end(), slot) != last_call_.reads.end()) return;
  }
  if (!reads_result) return;
  call.epilogue = true;
  for (int slot : last_call_.reads) Extend(slot, position_);
}

absl::Status PlanBuilder::PlaceRegion(NodeId n, ValueId o, ValueId base) {
  SMELT_ASSIGN_OR_RETURN(Location from, Locate(base));
  const ValueId root = Root(base);
  // Memory that arguments share is rewritten in place: it has no other place.
  const bool grouped = grouped_ && plan_->slots[from.slot]->kind == fb::SlotKind::ArgStorage;
  if (grouped || (LastUse(root) <= position_ && Writable(from.slot, o))) {
    locations_[o] = from;
    Extend(from.slot, LastUse(o));
    return absl::OkStatus();
  }
  EmitCopy(from, Place(o), false, n);
  return absl::OkStatus();
}

bool PlanBuilder::Writable(int slot, ValueId result) const {
  const fb::SlotKind kind = plan_->slots[slot]->kind;
  if ((kind == fb::SlotKind::Arena || kind == fb::SlotKind::Heap) && !awaited_.contains(slot)) return true;
  return in_place_chain_.contains(result);
}

bool PlanBuilder::TakeOver(ValueId o, const LoweredKernel& k, const std::vector<bool>& irregular) {
  if (destination_.contains(o)) return false;
  std::vector<size_t> writes;
  for (size_t j = 0; j < k.params.size(); ++j) {
    if (k.params[j].value == o) writes.push_back(j);
  }
  auto is_irregular = [&](size_t j) { return irregular[j]; };
  if (writes.empty() || absl::c_any_of(writes, is_irregular)) return false;
  for (size_t i = 0; i < k.params.size(); ++i) {
    const LoweredKernel::Param& read = k.params[i];
    if (read.is_output) continue;
    auto it = locations_.find(read.value);
    if (it == locations_.end() || plan_->slots[it->second.slot]->kind != fb::SlotKind::Arena) continue;
    if (awaited_.contains(it->second.slot)) continue;
    if (LastUse(read.value) != position_ || !SameElements(it->second.geometry, DefaultLayout(g_, o))) continue;
    if (taken_at_[it->second.slot] == position_) continue;
    // Every read of that memory is at the index that is written, or there is none.
    bool fits = true;
    for (size_t x = 0; x < k.params.size() && fits; ++x) {
      if (k.params[x].is_output) continue;
      const ValueId root = Root(k.params[x].value);
      auto other = locations_.find(root);
      if (other == locations_.end() || other->second.slot != it->second.slot) continue;
      fits = k.params[x].value == read.value && !irregular[x] &&
             absl::c_all_of(writes, [&](size_t j) { return ReadsSameIndex(k, x, j) && ReadsFirst(k.spec, x, j); });
    }
    if (!fits) continue;
    const int slot = it->second.slot;  // the map grows below
    taken_at_[slot] = position_;
    locations_[o] = Location{slot, DefaultLayout(g_, o)};
    Extend(slot, LastUse(o));
    return true;
  }
  return false;
}

bool PlanBuilder::ReadsSameIndex(const LoweredKernel& k, size_t read, size_t write) const {
  const LoweredKernel::Param &r = k.params[read], &w = k.params[write];
  const int item = ItemSize(k.spec.params[write].dtype);
  if (ItemSize(k.spec.params[read].dtype) != item) return false;
  if (r.strides == w.strides && r.offset == w.offset) return true;
  return Compare(Region::Strided(r.offset, k.sizes, r.strides, item),
                 Region::Strided(w.offset, k.sizes, w.strides, item), g_.symbols) == Overlap::kDisjoint;
}

bool PlanBuilder::ReadsFirst(const KernelSpec& spec, size_t read, size_t write) {
  if (spec.sequential) return false;
  bool written = false;
  for (const KernelPhase& phase : spec.phases) {
    for (int i : phase.instrs) {
      const KernelInstr& in = spec.instrs[i];
      if (in.op == KernelOp::kLoad && in.param == static_cast<int>(read) && written) return false;
      written = written || (in.op == KernelOp::kStore && in.param == static_cast<int>(write));
    }
  }
  return true;
}

void PlanBuilder::TakeSnapshots(NodeId n, LoweredKernel& k, const std::vector<bool>& irregular,
                                std::vector<Location>& where) {
  absl::flat_hash_map<ValueId, Location> snapshots;
  for (size_t i = 0; i < k.params.size(); ++i) {
    if (k.params[i].is_output && !k.spec.params[i].is_read) continue;
    for (size_t j = 0; j < k.params.size(); ++j) {
      if (i == j || !k.params[j].is_output || k.params[i].is_output) continue;
      if (where[i].slot == where[j].slot ? Harmless(k, irregular, where, i, j)
                                         : !MayShareMemory(where[i].slot, where[j].slot)) {
        continue;
      }
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
}

bool PlanBuilder::MayShareMemory(int slot, int other) const {
  const fb::SlotT &a = *plan_->slots[slot], &b = *plan_->slots[other];
  return a.kind == fb::SlotKind::ArgStorage && b.kind == fb::SlotKind::ArgStorage &&
         c_.overlaps.memory_of[a.index] == c_.overlaps.memory_of[b.index];
}

bool PlanBuilder::Harmless(const LoweredKernel& k, const std::vector<bool>& irregular,
                           const std::vector<Location>& where, size_t i, size_t j) {
  const int item_i = ItemSize(k.spec.params[i].dtype), item_j = ItemSize(k.spec.params[j].dtype);
  if (!irregular[i] && !irregular[j] && item_i == item_j && k.params[i].strides == k.params[j].strides &&
      k.params[i].offset == k.params[j].offset) {
    return ReadsFirst(k.spec, i, j) &&
           Region::Strided(0, k.sizes, k.params[j].strides, item_j).OverlapsItself(g_.symbols) != true;
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

absl::StatusOr<fb::Word> PlanBuilder::ScalarWord(const LoweredKernel::Scalar& s, bool floating) {
  if (s.is_constant) {
    if (floating) return fb::Word(fb::WordKind::FloatConst, 0, 0, std::bit_cast<int64_t>(s.constant));
    return fb::Word(fb::WordKind::IntConst, 0, 0, s.int_constant);
  }
  if (s.is_expr) {
    if (floating) return absl::UnimplementedError("a size used as a floating-point scalar");
    return fb::Word(fb::WordKind::Expr, b_.exprs.Add(s.expr), 0, 0);
  }
  if (auto it = scalar_args_.find(s.value); it != scalar_args_.end()) {
    return fb::Word(fb::WordKind::ArgScalar, it->second, floating ? 1 : 0, 0);
  }
  if (auto it = registers_.find(s.value); it != registers_.end()) {
    return fb::Word(fb::WordKind::DataScalar, it->second, floating ? 1 : 0, 0);
  }
  return absl::UnimplementedError(absl::StrCat("the scalar %", g_.value(s.value).name, " is computed at run time"));
}

Expr PlanBuilder::TilesOf(const LoweredKernel& k) {
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
  return tiles;
}

absl::StatusOr<LoweredKernel> PlanBuilder::Lower(NodeId n) {
  const auto layout = [&](ValueId v) { return LayoutOf(v); };
  return options_.lowered == nullptr ? LowerGroup(g_, n, layout) : options_.lowered->Lower(g_, n, layout);
}

std::vector<bool> PlanBuilder::IrregularParams(const KernelSpec& spec) {
  std::vector<bool> out(spec.params.size(), false);
  for (const KernelInstr& i : spec.instrs) {
    if ((i.op == KernelOp::kLoad || i.op == KernelOp::kStore) && (i.has_offset || i.has_guard)) out[i.param] = true;
  }
  return out;
}

bool PlanBuilder::SameElements(const SymbolicGeometry& a, const SymbolicGeometry& b) {
  return ItemSize(a.dtype) == ItemSize(b.dtype) && BytesOf(a) == BytesOf(b);
}

}  // namespace smelt
