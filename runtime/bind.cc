#include "smelt/runtime/bind.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/region.h"
#include "smelt/exec/write_protocol.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

// The number of plans that stay bound to recent sizes. Beyond it the least recently used one is dropped.
constexpr size_t kMaxBound = 64;

// The least number of bytes that one chunk of a launch moves: large against the cost of dispatching it.
constexpr int64_t kChunkBytes = 128 << 10;

// Chunks per thread: several, for threads that finish early, but few enough that kernels work on large tiles.
constexpr int64_t kChunksAThread = 8;

}  // namespace

absl::StatusOr<BoundPlan*> PlanBinder::Bind(int plan) {
  auto& list = bound_plans_[plan];
  const ExecutablePlan& p = program_.plans()[plan];
  for (size_t i = 0; i < list.size(); ++i) {
    bool same = true;
    for (size_t k = 0; same && k < p.symbols.size(); ++k) same = list[i]->key[k] == signature_.symbols()[p.symbols[k]];
    if (!same) continue;
    if (i != 0) std::rotate(list.begin(), list.begin() + i, list.begin() + i + 1);
    return list[0].get();
  }
  auto made = std::make_unique<BoundPlan>();
  SMELT_RETURN_IF_ERROR(BindNew(plan, made.get()));
  if (list.size() >= kMaxBound) list.pop_back();
  list.insert(list.begin(), std::move(made));
  return list[0].get();
}

void PlanBinder::BindView(const ExecutablePlan& plan, int v, BoundPlan* b) {
  const fb::ViewT& view = *plan.plan->views[v];
  BoundView& out = b->views[v];
  const int64_t item = ItemSize(static_cast<DType>(view.dtype));
  out.state = BoundView::kBad;
  out.elements = 1;
  if (!b->values.known[view.offset]) return;
  out.offset = b->values.value[view.offset];
  int64_t low = out.offset, high = out.offset;
  bool empty = false;
  for (int d = 0; d < out.rank; ++d) {
    if (!b->values.known[view.sizes[d]] || !b->values.known[view.strides[d]]) return;
    out.sizes[d] = b->values.value[view.sizes[d]];
    out.strides[d] = b->values.value[view.strides[d]];
    if (out.sizes[d] < 0 || __builtin_mul_overflow(out.elements, out.sizes[d], &out.elements)) return;
    empty = empty || out.sizes[d] == 0;
  }
  if (empty) {
    // The offset is added to an address in any case.
    if (out.offset < -(int64_t{1} << 58) || out.offset > int64_t{1} << 58) return;
    out.elements = out.low = out.high = 0;
    out.state = BoundView::kGood;
    return;
  }
  for (int d = 0; d < out.rank; ++d) {
    int64_t reach;
    if (__builtin_mul_overflow(out.sizes[d] - 1, out.strides[d], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return;
    }
  }
  if (__builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(low, item, &out.low) ||
      __builtin_mul_overflow(high, item, &out.high)) {
    return;
  }
  out.state = BoundView::kGood;
}

// A tile's results do not depend on which tiles are computed with it, so threads may decide how tiles are cut.
void PlanBinder::Slice(int64_t bytes, BoundPlan::Launch* launch) const {
  int64_t chunks = std::min<int64_t>(launch->tiles, 1);
  if (!launch->sequential && width_ > 1 && launch->tiles > 1) {
    chunks = std::clamp<int64_t>(bytes / kChunkBytes, 1, std::min(launch->tiles, kChunksAThread * width_));
  }
  launch->chunk = chunks > 0 ? (launch->tiles + chunks - 1) / chunks : 0;
  // If tiles are elements, no two chunks share a cache line. If they are rows, transposed operands are read by blocks
  // of this many.
  if (launch->chunk > 16) launch->chunk = (launch->chunk + 63) / 64 * 64;
  launch->chunks = launch->chunk > 0 ? (launch->tiles + launch->chunk - 1) / launch->chunk : 0;
}

// Binds a plan to sizes: expressions, views, launches, library calls, each from those before it. It runs once for
// each set of sizes, and reads as the list of what a bound plan has.
absl::Status PlanBinder::BindNew(int index, BoundPlan* b) {
  const ExecutablePlan& plan = program_.plans()[index];
  const fb::PlanT& p = *plan.plan;
  for (int s : plan.symbols) b->key.push_back(signature_.symbols()[s]);
  b->values.Resize(program_.bundle().exprs.size());
  EvaluateExprs(program_.bundle().exprs, plan.exprs, signature_.symbols(), signature_.symbol_known(), &b->values);
  const auto known = [&](int e) { return b->values.known[e] != 0; };

  // Slots.
  if (!known(p.arena_bytes) || b->values.value[p.arena_bytes] < 0 ||
      b->values.value[p.arena_bytes] > int64_t{1} << 46) {
    return absl::ResourceExhaustedError("the working memory for these sizes cannot be expressed");
  }
  b->arena_bytes = b->values.value[p.arena_bytes];
  b->slot_bytes.assign(p.slots.size(), -1);
  b->patched.assign(p.slots.size(), nullptr);
  b->patches.resize(p.slots.size());
  b->low.assign(p.slots.size(), 0);
  b->high.assign(p.slots.size(), 0);
  for (size_t s = 0; s < p.slots.size(); ++s) {
    const fb::SlotT& slot = *p.slots[s];
    if (slot.kind != fb::SlotKind::StateStorage && slot.kind != fb::SlotKind::Arena) {
      b->call_slots.push_back(static_cast<int>(s));
    }
    if (plan.memory.slot_late[s]) continue;
    if (slot.kind == fb::SlotKind::StateStorage) b->slot_bytes[s] = program_.bundle().storages[slot.index]->bytes;
    if (slot.kind != fb::SlotKind::Arena && slot.kind != fb::SlotKind::Fresh) continue;
    const int64_t bytes = b->values.value[slot.bytes];
    if (!known(slot.bytes) || bytes < 0 || bytes > int64_t{1} << 46) {
      return absl::ResourceExhaustedError(absl::StrCat("slot ", s, " has no size for these arguments"));
    }
    b->slot_bytes[s] = bytes;
    if (slot.kind == fb::SlotKind::Arena) {
      const int64_t offset = b->values.value[slot.offset];
      if (!known(slot.offset) || offset < 0 || offset > b->arena_bytes || bytes > b->arena_bytes - offset) {
        return absl::InternalError(absl::StrCat("slot ", s, ": ", bytes, " bytes at ", offset,
                                                " do not lie in the arena of ", b->arena_bytes));
      }
    }
  }

  for (const ExecutablePlan::GrownState& g : plan.grown_states) {
    const int64_t bytes = b->values.value[g.final_bytes];
    if (!known(g.final_bytes) || bytes < 0 || bytes > int64_t{1} << 46)
      return absl::ResourceExhaustedError("what a state grows to cannot be expressed for these sizes");
    for (size_t s = 0; s < p.slots.size(); ++s) {
      if (p.slots[s]->kind == fb::SlotKind::StateStorage && p.slots[s]->index == g.storage)
        b->slot_bytes[s] = std::max(b->slot_bytes[s], bytes);
    }
  }

  // Views.
  size_t total = 0;
  for (const auto& v : p.views) total += 2 * v->sizes.size();
  b->pool.resize(total);
  b->views.resize(p.views.size());
  total = 0;
  for (size_t v = 0; v < p.views.size(); ++v) {
    BoundView& view = b->views[v];
    view.rank = static_cast<int>(p.views[v]->sizes.size());
    view.sizes = b->pool.data() + total;
    view.strides = view.sizes + view.rank;
    total += 2 * static_cast<size_t>(view.rank);
    if (plan.memory.view_late[v]) continue;
    BindView(plan, static_cast<int>(v), b);
    if (view.state != BoundView::kGood || view.elements == 0) continue;
    const int slot = p.views[v]->slot;
    // Views of memory of a known size are checked here, once. A view of an argument is checked in every call.
    if (b->slot_bytes[slot] >= 0) {
      if (view.low < 0 || view.high > b->slot_bytes[slot]) {
        view.state = BoundView::kBad;
        // A plan without branches reaches each of its views, this one before it has written anything.
        if (p.blocks.size() == 1 && b->bad_view < 0) b->bad_view = static_cast<int>(v);
      }
    } else {
      if (b->low[slot] == b->high[slot]) {
        b->low[slot] = view.low;
        b->high[slot] = view.high;
      }
      b->low[slot] = std::min(b->low[slot], view.low);
      b->high[slot] = std::max(b->high[slot], view.high);
    }
  }

  // Steps.
  b->launches.resize(plan.steps.count);
  b->library_ops.resize(plan.steps.count);
  b->device_ops.resize(plan.steps.count);
  b->joined_ops.resize(plan.steps.count);
  for (size_t k = 0; k < p.blocks.size(); ++k) {
    for (size_t i = 0; i < p.blocks[k]->steps.size(); ++i) {
      const fb::StepT& step = *p.blocks[k]->steps[i];
      const int number = plan.steps.first[k] + static_cast<int>(i);
      if (step.step.type == fb::StepUnion::LibraryCall) {
        const bool has_epilogue = step.step.AsLibraryCall()->epilogue;
        const fb::StepT* next = has_epilogue ? p.blocks[k]->steps[i + 1].get() : nullptr;
        SMELT_RETURN_IF_ERROR(BindLibraryCall(plan, step, next, number, b));
        continue;
      }
      if (step.step.type == fb::StepUnion::Random && !on_host_) {
        BindRandom(plan, *step.step.AsRandom(), number, b);
        continue;
      }
      if (step.step.type != fb::StepUnion::Launch) continue;
      const fb::LaunchT& l = *step.step.AsLaunch();
      BoundPlan::Launch& launch = b->launches[number];
      launch.entry = program_.kernel(l.kernel);
      launch.first_word = static_cast<int>(b->words.size());
      launch.num_words = static_cast<int>(l.words.size());
      launch.sequential = l.sequential;
      bool slow = !known(l.tiles) || !known(l.bytes);
      for (const auto* list : {&l.reads, &l.writes}) {
        for (int v : *list) slow = slow || b->views[v].state != BoundView::kGood;
      }
      for (const fb::Word& w : l.words) {
        const int word = static_cast<int>(b->words.size());
        int64_t value = 0;
        switch (w.kind()) {
          case fb::WordKind::Expr:
            slow = slow || !known(w.a());
            value = b->values.value[w.a()];
            break;
          case fb::WordKind::Address:
            slow = slow || !known(w.b()) || plan.memory.slot_late[w.a()];
            b->patches[w.a()].push_back({word, b->values.value[w.b()]});
            break;
          case fb::WordKind::IntConst:
          case fb::WordKind::FloatConst:
            value = w.constant();
            break;
          case fb::WordKind::ArgScalar:
            b->arg_words.push_back({word, w.a(), w.b() == 1});
            break;
          case fb::WordKind::DataScalar:
            slow = true;
            break;
        }
        b->words.push_back(value);
      }
      launch.slow = slow;
      launch.tiles = b->values.value[l.tiles];
      Slice(b->values.value[l.bytes], &launch);
    }
  }
  CheckSizesOnly(plan, b);
  return absl::OkStatus();
}

absl::Status PlanBinder::BindLibraryCall(const ExecutablePlan& plan, const fb::StepT& in_plan,
                                         const fb::StepT* epilogue, int step, BoundPlan* b) {
  const fb::LibraryCallT& call = *in_plan.step.AsLibraryCall();
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (int v : *list) {
      if (v >= 0 && b->views[v].state != BoundView::kGood) return absl::OkStatus();
    }
  }
  for (int e : call.ints) {
    if (b->values.known[e] == 0) return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(LibraryRequest request, program_.RequestOf(plan, call, b->values));
  // A branch that these sizes do not take may be impossible with them. So an error is for the step itself.
  if (!on_host_) {
    auto op = DeviceLibrary(program_.image(), program_.device()).Prepare(request, in_plan.source);
    const bool has_kernel = !op.ok() || (*op)->has_kernel();
    if (op.ok()) {
      b->device_ops[step] = *std::move(op);
      if (epilogue != nullptr) BindJoined(request, *epilogue, step, b);
    }
    if (has_kernel) return absl::OkStatus();
  }
  auto op = program_.library().Prepare(request);
  if (op.ok()) b->library_ops[step] = *std::move(op);
  return absl::OkStatus();
}

void PlanBinder::BindJoined(const LibraryRequest& request, const fb::StepT& epilogue, int step, BoundPlan* b) {
  const fb::LaunchT* launch = epilogue.step.AsLaunch();
  // A library of the device is faster than kernels that save a launch.
  const fb::KernelT* kernel = launch == nullptr ? nullptr : program_.kernel_of_image(launch->kernel);
  if (kernel == nullptr || !b->device_ops[step]->has_kernel() || b->device_ops[step]->has_product()) return;
  auto op = DeviceLibrary(program_.image(), *kernel).Prepare(request);
  if (op.ok() && (*op)->has_kernel()) b->joined_ops[step] = *std::move(op);
}

void PlanBinder::BindRandom(const ExecutablePlan& plan, const fb::RandomT& r, int step, BoundPlan* b) {
  const BoundView& out = b->views[r.out];
  if (r.probabilities >= 0 || out.state != BoundView::kGood) return;
  auto op = DeviceLibrary(program_.image())
                .PrepareFill(r.kind, static_cast<DType>(plan.plan->views[r.out]->dtype),
                             absl::Span<const int64_t>(out.strides, out.rank),
                             absl::Span<const int64_t>(out.sizes, out.rank));
  if (op.ok()) b->device_ops[step] = *std::move(op);
}

// The prologue's checks that need no address. The first one that fails refuses every call with these sizes.
void PlanBinder::CheckSizesOnly(const ExecutablePlan& plan, BoundPlan* b) {
  const auto& checks = plan.plan->prologue_checks;
  for (size_t i = 0; i < checks.size(); ++i) {
    const fb::CheckT& c = *checks[i];
    bool holds = true;
    if (c.kind == fb::CheckKind::NotZero) {
      holds = b->values.known[c.a] && b->values.value[c.a] != 0;
    } else if (c.kind == fb::CheckKind::NoInternalOverlap && b->views[c.a].state == BoundView::kGood) {
      const BoundView& v = b->views[c.a];
      Geometry g;
      g.sizes.assign(v.sizes, v.sizes + v.rank);
      g.strides.assign(v.strides, v.strides + v.rank);
      holds = v.elements == 0 || !IsExpanded(g);
      if (holds && v.elements != 0 && OverlapsItselfConcrete(g)) b->call_checks.push_back(static_cast<int>(i));
    } else {
      b->call_checks.push_back(static_cast<int>(i));
    }
    if (holds || !b->refusal.ok()) continue;
    b->refusal = absl::FailedPreconditionError(
        absl::StrCat(c.source.empty() ? "" : absl::StrCat(c.source, ": "),
                     c.message.empty() ? "a check of the model's sizes fails" : c.message));
  }
}

}  // namespace smelt
