#include "smelt/codegen/plan_kernels.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/storage_of.h"
#include "smelt/core/op/traits.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/region.h"

namespace smelt {

namespace {

bool MayDivideByZero(const KernelSpec& spec, const KernelInstr& in) {
  if (in.op != KernelOp::kScalar || IsFloating(in.type)) return false;
  if (in.scalar != ScalarOp::kDivTrunc && in.scalar != ScalarOp::kDivFloor && in.scalar != ScalarOp::kRemTrunc &&
      in.scalar != ScalarOp::kRemFloor) {
    return false;
  }
  const KernelInstr& divisor = spec.instrs[in.operands[1]];
  return divisor.op != KernelOp::kScalar || divisor.scalar != ScalarOp::kConst;
}

}  // namespace

int PlanKernels::CountDistinct() const {
  return static_cast<int>(absl::flat_hash_set<int>(used_kernels_.begin(), used_kernels_.end()).size());
}

absl::Status PlanKernels::Call(NodeId n, const LibraryNode& call) {
  auto step = std::make_unique<fb::LibraryCallT>();
  step->op = call.op;
  last_call_ = {};
  const OpTraits& traits = GetOpTraits(g_.node(n).op);
  const bool plain_refuses = traits.library == LibraryCall::kPlain && traits.refusal != DataRefusal::kNone;
  if (plain_refuses || RefusesData(traits.library)) plan_.may_refuse_late = true;
  for (ValueId v : call.inputs) {
    if (!g_.IsLive(v)) {
      step->inputs.push_back(-1);
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(int view, slots_.ViewOf(v));
    step->inputs.push_back(view);
    last_call_.reads.push_back(plan_.views[view]->slot);
  }
  for (ValueId o : call.outputs) {
    if (!g_.IsLive(o)) {
      step->outputs.push_back(-1);
      continue;
    }
    const PlanLocation l = destinations_.Place(o);
    step->outputs.push_back(slots_.AddView(l));
  }
  for (const Expr& e : call.ints) step->ints.push_back(b_.exprs.Add(e));
  step->floats = call.floats;
  steps_.Emit(std::move(step), n);
  if (g_.IsLive(call.outputs[0])) {
    last_call_.block = steps_.block();
    last_call_.step = plan_.blocks[steps_.block()]->steps.size() - 1;
    last_call_.result = slots_.LocationOf(call.outputs[0]);
  }
  ++steps_.stats.library_calls;
  return absl::OkStatus();
}

absl::Status PlanKernels::Draw(NodeId n, const RandomCall& call) {
  const PlanLocation l = destinations_.Place(g_.node(n).outputs[0]);
  auto step = std::make_unique<fb::RandomT>();
  step->kind = call.kind;
  step->out = slots_.AddView(l);
  step->p0 = call.p0;
  step->p1 = call.p1;
  if (g_.IsLive(call.probabilities)) {
    plan_.may_refuse_late = true;
    SMELT_ASSIGN_OR_RETURN(step->probabilities, slots_.ViewOf(call.probabilities));
  }
  steps_.Emit(std::move(step), n);
  return absl::OkStatus();
}

absl::Status PlanKernels::Launch(NodeId n) {
  SMELT_ASSIGN_OR_RETURN(const bool is_in_place, destinations_.IsInPlace(n));
  if (is_in_place) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(LoweredKernel k, lowering_.Lower(n));
  const std::vector<bool> irregular = lowering_.IrregularParams(k.spec);
  for (ValueId o : g_.node(n).outputs) {
    const ValueId base = regions_.BaseOf(o);
    if (g_.IsLive(base)) {
      SMELT_RETURN_IF_ERROR(destinations_.PlaceRegion(n, o, base));
    } else if (!TakeOver(o, k, irregular)) {
      destinations_.Place(o);
    }
  }
  std::vector<PlanLocation> where(k.params.size());
  for (size_t i = 0; i < k.params.size(); ++i) {
    SMELT_ASSIGN_OR_RETURN(where[i], slots_.Locate(k.params[i].value));
    if (!k.params[i].is_output) continue;
    if (std::optional<int> home = regions_.HomeOf(k.params[i].value))
      where[i] = slots_.LocationOf(slots_.ArgumentValue(*home));
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
    PlanLocation touched = where[i];
    if (!irregular[i]) {
      touched.geometry = {spec.dtype, k.sizes, p.strides, p.offset};
    }
    const int view = slots_.AddView(touched);
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
  steps_.Emit(std::move(launch), n);
  ++steps_.stats.launches;
  MakeEpilogue(k, irregular, where);
  return absl::OkStatus();
}

void PlanKernels::MakeEpilogue(const LoweredKernel& k, const std::vector<bool>& irregular,
                               const std::vector<PlanLocation>& where) {
  auto& steps = plan_.blocks[steps_.block()]->steps;
  if (last_call_.block != steps_.block() || last_call_.step + 2 != steps.size()) return;
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
    const fb::SlotKind kind = plan_.slots[slot]->kind;
    if (kind == fb::SlotKind::ArgStorage || kind == fb::SlotKind::StateStorage) return;
    if (std::find(last_call_.reads.begin(), last_call_.reads.end(), slot) != last_call_.reads.end()) return;
  }
  if (!reads_result) return;
  call.epilogue = true;
  for (int slot : last_call_.reads) slots_.Extend(slot, steps_.position());
}

bool PlanKernels::TakeOver(ValueId o, const LoweredKernel& k, const std::vector<bool>& irregular) {
  if (destinations_.Has(o)) return false;
  std::vector<size_t> writes;
  for (size_t j = 0; j < k.params.size(); ++j) {
    if (k.params[j].value == o) writes.push_back(j);
  }
  auto is_irregular = [&](size_t j) { return irregular[j]; };
  if (writes.empty() || absl::c_any_of(writes, is_irregular)) return false;
  for (size_t i = 0; i < k.params.size(); ++i) {
    const LoweredKernel::Param& read = k.params[i];
    if (read.is_output) continue;
    const ValueId storage = StorageOf(g_, read.value);
    const PlanLocation* place = slots_.Find(storage);
    if (place == nullptr || plan_.slots[place->slot]->kind != fb::SlotKind::Arena) continue;
    if (destinations_.IsAwaited(place->slot)) continue;
    if (lives_.LastUse(storage) != steps_.position() || !SameElements(place->geometry, DefaultLayout(g_, o))) continue;
    if (taken_at_[place->slot] == steps_.position()) continue;
    // Every read of that memory is at the index that is written, or there is none.
    bool fits = true;
    for (size_t x = 0; x < k.params.size() && fits; ++x) {
      if (k.params[x].is_output) continue;
      const PlanLocation* other = slots_.Find(StorageOf(g_, k.params[x].value));
      if (other == nullptr || other->slot != place->slot) continue;
      fits = !irregular[x] && absl::c_all_of(writes, [&](size_t j) {
        return lowering_.ReadsSameIndex(k, x, j) && lowering_.ReadsFirst(k.spec, x, j);
      });
    }
    if (!fits) continue;
    const int slot = place->slot;  // the map grows below
    taken_at_[slot] = steps_.position();
    slots_.SetLocation(o, PlanLocation{slot, DefaultLayout(g_, o)});
    slots_.Extend(slot, lives_.LastUse(o));
    return true;
  }
  return false;
}

void PlanKernels::TakeSnapshots(NodeId n, LoweredKernel& k, const std::vector<bool>& irregular,
                                std::vector<PlanLocation>& where) {
  absl::flat_hash_map<ValueId, PlanLocation> snapshots;
  for (size_t i = 0; i < k.params.size(); ++i) {
    if (k.params[i].is_output && !k.spec.params[i].is_read) continue;
    for (size_t j = 0; j < k.params.size(); ++j) {
      if (i == j || !k.params[j].is_output || k.params[i].is_output) continue;
      if (where[i].slot == where[j].slot ? Harmless(k, irregular, where, i, j)
                                         : !slots_.MayShareMemory(where[i].slot, where[j].slot)) {
        continue;
      }
      auto [it, fresh] = snapshots.try_emplace(k.params[i].value);
      if (fresh) {
        PlanLocation to;
        to.geometry = where[i].geometry;
        to.geometry.offset = 0;
        to.slot = slots_.NewArena(to.geometry, steps_.position(), steps_.position());
        copies_.Copy(where[i], to, false, n);
        it->second = to;
      }
      k.params[i].offset = k.params[i].offset - where[i].geometry.offset;
      where[i] = it->second;
      break;
    }
  }
}

bool PlanKernels::Harmless(const LoweredKernel& k, const std::vector<bool>& irregular,
                           const std::vector<PlanLocation>& where, size_t i, size_t j) {
  const int item_i = ItemSize(k.spec.params[i].dtype), item_j = ItemSize(k.spec.params[j].dtype);
  if (!irregular[i] && !irregular[j] && item_i == item_j && k.params[i].strides == k.params[j].strides &&
      k.params[i].offset == k.params[j].offset) {
    return lowering_.ReadsFirst(k.spec, i, j) &&
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

absl::StatusOr<fb::Word> PlanKernels::ScalarWord(const LoweredKernel::Scalar& s, bool floating) {
  if (s.is_constant) {
    if (floating) return fb::Word(fb::WordKind::FloatConst, 0, 0, std::bit_cast<int64_t>(s.constant));
    return fb::Word(fb::WordKind::IntConst, 0, 0, s.int_constant);
  }
  if (s.is_expr) {
    if (floating) return absl::UnimplementedError("a size used as a floating-point scalar");
    return fb::Word(fb::WordKind::Expr, b_.exprs.Add(s.expr), 0, 0);
  }
  if (const int* arg = slots_.ScalarArg(s.value)) {
    return fb::Word(fb::WordKind::ArgScalar, *arg, floating ? 1 : 0, 0);
  }
  if (const int* r = numbers_.Find(s.value)) {
    return fb::Word(fb::WordKind::DataScalar, *r, floating ? 1 : 0, 0);
  }
  return absl::UnimplementedError(absl::StrCat("the scalar %", g_.value(s.value).name, " is computed at run time"));
}

Expr PlanKernels::TilesOf(const LoweredKernel& k) {
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

void PlanKernels::NoteRefusals(const KernelSpec& spec) {
  for (const KernelInstr& in : spec.instrs) {
    if (in.op == KernelOp::kCheckIndex) ++index_checks_;
    if (MayDivideByZero(spec, in)) plan_.may_refuse_late = true;
  }
}

}  // namespace smelt
