// The steps of a plan.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/op/python_op.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/exec/python.h"
#include "smelt/exec/write_protocol.h"
#include "smelt/runtime/executor.h"
#include "smelt/runtime/strided.h"

namespace smelt {

StridedSpan Executor::SpanOf(int v) const {
  const BoundView& view = bound_->views[v];
  return {Address(v), static_cast<DType>(plan_->plan->views[v]->dtype),
          absl::Span<const int64_t>(view.sizes, view.rank), absl::Span<const int64_t>(view.strides, view.rank)};
}

Geometry Executor::GeometryOf(int v) const {
  const BoundView& view = bound_->views[v];
  const fb::ViewT& def = *plan_->plan->views[v];
  Geometry g;
  g.sizes.assign(view.sizes, view.sizes + view.rank);
  g.strides.assign(view.strides, view.strides + view.rank);
  g.offset = view.offset + slots_.origin[def.slot] / ItemSize(static_cast<DType>(def.dtype));
  return g;
}

absl::StatusOr<int64_t> Executor::ExprValue(int e) const {
  if (bound_->values.known[e]) return bound_->values.value[e];
  return absl::FailedPreconditionError("a size cannot be computed for these arguments (overflow or division by zero)");
}

absl::Status StateError(const absl::Status& s, absl::string_view source) {
  if (s.ok() || source.empty()) return s;
  return Annotate(s, source);
}

absl::Status Executor::UseView(int v) {
  const fb::ViewT& def = *plan_->plan->views[v];
  BoundView& view = bound_->views[v];
  if (plan_->memory.view_late[v]) {
    BindView(*plan_, v, bound_);
  } else if (view.state == BoundView::kGood) {
    return absl::OkStatus();
  }
  if (slots_.base[def.slot] == nullptr && view.elements != 0) {
    return absl::InternalError(absl::StrCat("view ", v, " lies in ", SlotName(def.slot), ", which is not allocated"));
  }
  const int64_t bytes = bound_->slot_bytes[def.slot];
  if (view.state == BoundView::kGood && view.elements != 0) {
    const int64_t end = bytes >= 0 ? bytes : StorageOf(def.slot)->bytes() - slots_.origin[def.slot];
    const int64_t begin = bytes >= 0 ? 0 : -slots_.origin[def.slot];
    if (view.low < begin || view.high > end) view.state = BoundView::kBad;
  }
  if (view.state == BoundView::kGood) return absl::OkStatus();
  std::vector<std::string> sizes;
  for (int e : def.sizes) sizes.push_back(bound_->values.known[e] ? absl::StrCat(bound_->values.value[e]) : "?");
  return absl::FailedPreconditionError(
      absl::StrCat("a view of [", absl::StrJoin(sizes, ", "), "] at ",
                   bound_->values.known[def.offset] ? absl::StrCat(bound_->values.value[def.offset]) : "?",
                   " does not lie in ", SlotName(def.slot)));
}

absl::Status Executor::RunBlock(int block, size_t end) {
  const auto& steps = plan_->plan->blocks[block]->steps;
  for (size_t i = 0; i < std::min(steps.size(), end); ++i) {
    const int step = static_cast<int>(i);
    const fb::LibraryCallT* call = steps[i]->step.AsLibraryCall();
    // When steps are timed, each runs on its own.
    if (call != nullptr && call->epilogue && step_times_.empty() && memory_->on_host) {
      SMELT_RETURN_IF_ERROR(RunWithEpilogue(block, step));
      ++i;
      continue;
    }
    if (!memory_->on_host && IsChoiceOnDevice(block, step)) {
      SMELT_RETURN_IF_ERROR(ChooseOnDevice(block, step));
      if (steps[i]->step.AsWhile() == nullptr) ++i;
      continue;
    }
    absl::Status s = step_times_.empty() ? RunStep(block, step) : RunTimed(block, step);
    if (!s.ok()) {
      // A step with blocks inside has named the place already.
      const fb::StepUnion type = steps[i]->step.type;
      return type == fb::StepUnion::If || type == fb::StepUnion::While ? s : StateError(s, steps[i]->source);
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::RunTimed(int block, int index) {
  const int plan = static_cast<int>(plan_ - program_->plans().data());
  std::vector<StepTime>& times = step_times_[plan];
  times.resize(plan_->steps.count);
  const auto begin = std::chrono::steady_clock::now();
  absl::Status s = RunStep(block, index);
  if (s.ok()) s = memory_->device->Synchronize();
  const int64_t ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  StepTime& t = times[plan_->steps.first[block] + index];
  t = {plan, block, index, t.runs + 1, t.runs == 0 ? ns : std::min(t.least_ns, ns)};
  return s;
}

std::vector<StepTime> Executor::step_times() const {
  std::vector<StepTime> out;
  for (const std::vector<StepTime>& plan : step_times_) {
    std::copy_if(plan.begin(), plan.end(), std::back_inserter(out), [](const StepTime& t) { return t.runs > 0; });
  }
  return out;
}

absl::Status Executor::RememberBefore(int step) {
  if (!plan_->steps.writes_visible[step]) return absl::OkStatus();
  const ExecutionDevice::Reports checks = device_status_.checks_indices ? CheckReports() : ExecutionDevice::Reports();
  return written_.Remember(*plan_, checks, args_, signature_.extents(), memory_->states);
}

absl::Status Executor::RunStep(int block, int index) {
  const fb::StepT& step = *plan_->plan->blocks[block]->steps[index];
  const int number = plan_->steps.first[block] + index;
  SMELT_RETURN_IF_ERROR(RememberBefore(number));
  switch (step.step.type) {
    case fb::StepUnion::Launch:
      return RunLaunch(*step.step.AsLaunch(), bound_->launches[number], number);
    case fb::StepUnion::LibraryCall:
      return RunLibrary(*step.step.AsLibraryCall(), number);
    case fb::StepUnion::Copy:
      return RunCopy(*step.step.AsCopy());
    case fb::StepUnion::Check:
      return RunCheck(*step.step.AsCheck());
    case fb::StepUnion::ReadScalar:
      return RunReadScalar(*step.step.AsReadScalar());
    case fb::StepUnion::Alloc:
      return Allocate(step.step.AsAlloc()->slot);
    case fb::StepUnion::If: {
      const fb::IfT& f = *step.step.AsIf();
      const Register& r = registers_[f.predicate];
      const int chosen = (r.is_float ? r.d != 0 : r.i != 0) ? f.then_block : f.else_block;
      return chosen < 0 ? absl::OkStatus() : RunBlock(chosen);
    }
    case fb::StepUnion::While: {
      const fb::WhileT& w = *step.step.AsWhile();
      int64_t limit = INT64_MAX;
      if (w.max_trips >= 0) {
        SMELT_ASSIGN_OR_RETURN(limit, ExprValue(w.max_trips));
      }
      for (int64_t trip = 0; trip < limit; ++trip) {
        if (w.counter >= 0) registers_[w.counter] = Register::Int(trip);
        if (w.cond_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block));
        if (w.predicate >= 0) {
          const Register& r = registers_[w.predicate];
          if (!(r.is_float ? r.d != 0 : r.i != 0)) break;
        }
        if (w.body_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(w.body_block));
      }
      return absl::OkStatus();
    }
    case fb::StepUnion::Random:
      return RunRandom(*step.step.AsRandom(), number);
    case fb::StepUnion::SetRegister: {
      const fb::SetRegisterT& s = *step.step.AsSetRegister();
      Register& r = registers_[s.register_];
      if (s.arg >= 0) {
        const Datum& v = args_[s.arg];
        r = v.IsFloat() ? Register::Float(v.as_float()) : Register::Int(v.IsBool() ? v.as_bool() : v.as_int());
      } else if (s.expr >= 0) {
        SMELT_ASSIGN_OR_RETURN(const int64_t v, ExprValue(s.expr));
        r = Register::Int(v);
      } else {
        r = s.is_float ? Register::Float(s.constant) : Register::Int(Register::Float(s.constant).i);
      }
      return absl::OkStatus();
    }
    case fb::StepUnion::ComputeNumber:
      return RunComputeNumber(*step.step.AsComputeNumber());
    case fb::StepUnion::NONE:
      break;
  }
  return absl::InternalError("a step of an unknown kind");
}

absl::Status Executor::CompleteLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch) {
  if (!launch.slow) return absl::OkStatus();
  int64_t* words = bound_->words.data() + launch.first_word;
  for (const auto* list : {&l.reads, &l.writes}) {
    for (int v : *list) SMELT_RETURN_IF_ERROR(UseView(v));
  }
  for (size_t i = 0; i < l.words.size(); ++i) {
    const fb::Word& w = l.words[i];
    if (w.kind() == fb::WordKind::Expr) {
      SMELT_ASSIGN_OR_RETURN(words[i], ExprValue(w.a()));
    } else if (w.kind() == fb::WordKind::Address) {
      SMELT_ASSIGN_OR_RETURN(const int64_t offset, ExprValue(w.b()));
      words[i] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(slots_.base[w.a()])) + offset;
    } else if (w.kind() == fb::WordKind::DataScalar) {
      const Register& r = registers_[w.a()];
      if (w.b() == 1) {
        std::memcpy(&words[i], &r.d, 8);
      } else {
        words[i] = r.i;
      }
    }
  }
  SMELT_ASSIGN_OR_RETURN(launch.tiles, ExprValue(l.tiles));
  SMELT_ASSIGN_OR_RETURN(const int64_t bytes, ExprValue(l.bytes));
  Slice(bytes, &launch);
  return absl::OkStatus();
}

absl::Status Executor::RunLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch, int step) {
  SMELT_RETURN_IF_ERROR(CompleteLaunch(l, launch));
  if (launch.tiles <= 0) return absl::OkStatus();
  ++stats_.kernel_launches;
  KernelLaunch run;
  run.image = program_->image();
  run.kernel = l.kernel;
  run.words = bound_->words.data() + launch.first_word;
  run.tiles = launch.tiles;
  run.entry = launch.entry;
  run.chunk = launch.chunk;
  run.chunks = launch.chunks;
  if (!memory_->on_host) {
    // A later step, or the end of the call, reads what the kernel reports.
    run.status = StatusWords(step);
    device_status_.is_open = true;
    return memory_->device->Launch(run);
  }
  status_[0] = 0;
  run.status = status_;
  SMELT_RETURN_IF_ERROR(memory_->host.Launch(run));
  return KernelStatus(status_[0]);
}

absl::Status Executor::KernelStatus(int64_t report) {
  if (report == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(report == 1   ? "index out of range"
                                       : report == 2 ? "ZeroDivisionError: integer division or modulo by zero"
                                                     : "the kernel reported an error");
}

absl::Status Executor::UseOperands(const fb::LibraryCallT& l) {
  for (const auto& [views, addresses] :
       {std::pair(&l.inputs, &library_.inputs), std::pair(&l.outputs, &library_.outputs)}) {
    addresses->clear();
    for (int v : *views) {
      if (v >= 0) SMELT_RETURN_IF_ERROR(UseView(v));
      addresses->push_back(v < 0 ? nullptr : Address(v));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const PreparedOp*> Executor::CompleteLibraryCall(const fb::LibraryCallT& l, int step) {
  SMELT_RETURN_IF_ERROR(UseOperands(l));
  if (bound_->library_ops[step] != nullptr) return bound_->library_ops[step].get();
  SMELT_ASSIGN_OR_RETURN(LibraryRequest request, program_->RequestOf(*plan_, l, bound_->values));
  SMELT_ASSIGN_OR_RETURN(library_.late_op, program_->library().Prepare(request));
  return library_.late_op.get();
}

absl::StatusOr<bool> Executor::RunLibraryOnDevice(const fb::LibraryCallT& l, int step) {
  SMELT_RETURN_IF_ERROR(UseOperands(l));
  DeviceOp* op = bound_->device_ops[step].get();
  std::unique_ptr<DeviceOp> late;
  if (op == nullptr) {
    SMELT_ASSIGN_OR_RETURN(const LibraryRequest request, program_->RequestOf(*plan_, l, bound_->values));
    SMELT_ASSIGN_OR_RETURN(late, DeviceLibrary(program_->image()).Prepare(request));
    op = late.get();
  }
  return op->Run(*memory_->device, library_.inputs, library_.outputs, StatusWords(step));
}

absl::Status Executor::RunLibrary(const fb::LibraryCallT& l, int step) {
  if (!memory_->on_host) {
    SMELT_ASSIGN_OR_RETURN(const bool ran, RunLibraryOnDevice(l, step));
    if (ran) {
      ++stats_.library_calls;
      return absl::OkStatus();
    }
  }
  SMELT_ASSIGN_OR_RETURN(const PreparedOp* op, CompleteLibraryCall(l, step));
  ++stats_.library_calls;
  if (!memory_->on_host) return RunLibraryOnHost(*op, l);
  return op->Run(LibraryContext{pool_, width_}, library_.inputs, library_.outputs);
}

namespace {

// The tiles of a launch, each with this many elements of the result.
class Epilogue final : public PartListener {
 public:
  Epilogue(KernelEntry entry, const int64_t* words, int64_t elements, int64_t* status)
      : entry_(entry), words_(words), elements_(elements), status_(status) {}
  void OnPart(int64_t begin, int64_t end) const override {
    entry_(words_, begin / elements_, end / elements_, status_);
  }

 private:
  KernelEntry entry_;
  const int64_t* words_;
  int64_t elements_;
  int64_t* status_;
};

}  // namespace

absl::Status Executor::RunWithEpilogue(int block, int index) {
  const auto& steps = plan_->plan->blocks[block]->steps;
  const fb::StepT &call = *steps[index], &epilogue = *steps[index + 1];
  const int number = plan_->steps.first[block] + index;
  const fb::LibraryCallT& l = *call.step.AsLibraryCall();
  SMELT_RETURN_IF_ERROR(RememberBefore(number));
  SMELT_RETURN_IF_ERROR(RememberBefore(number + 1));
  auto op = CompleteLibraryCall(l, number);
  if (!op.ok()) return StateError(op.status(), call.source);
  BoundPlan::Launch& launch = bound_->launches[number + 1];
  if (absl::Status s = CompleteLaunch(*epilogue.step.AsLaunch(), launch); !s.ok())
    return StateError(s, epilogue.source);
  const int64_t elements = bound_->views[l.outputs[0]].elements, tiles = launch.tiles, unit = (*op)->PartUnit();
  ++stats_.library_calls;
  if (unit == 0 || tiles <= 0 || elements <= 0 || elements % tiles != 0 || unit % (elements / tiles) != 0) {
    SMELT_RETURN_IF_ERROR(
        StateError((*op)->Run(LibraryContext{pool_, width_}, library_.inputs, library_.outputs), call.source));
    return StateError(RunLaunch(*epilogue.step.AsLaunch(), launch, number + 1), epilogue.source);
  }
  status_[0] = 0;
  const Epilogue parts(launch.entry, bound_->words.data() + launch.first_word, elements / tiles, status_);
  SMELT_RETURN_IF_ERROR(
      StateError((*op)->Run(LibraryContext{pool_, width_, &parts}, library_.inputs, library_.outputs), call.source));
  ++stats_.kernel_launches;
  return StateError(KernelStatus(status_[0]), epilogue.source);
}

namespace {

// Returns whether the spans from the first byte to the last of both meet.
bool MayMeet(const StridedSpan& a, const StridedSpan& b) {
  const auto ends = [](const StridedSpan& s) {
    int64_t low = 0, high = 1;
    for (int d = 0; d < s.rank(); ++d) {
      const int64_t reach = (s.sizes[d] - 1) * s.strides[d];
      (reach < 0 ? low : high) += reach;
    }
    const int64_t item = ItemSize(s.dtype);
    return std::make_pair(s.data + low * item, s.data + high * item);
  };
  const auto [a_low, a_high] = ends(a);
  const auto [b_low, b_high] = ends(b);
  return a_low < b_high && b_low < a_high;
}

}  // namespace

absl::Status Executor::RunCopy(const fb::CopyT& c) {
  SMELT_RETURN_IF_ERROR(UseView(c.src));
  SMELT_RETURN_IF_ERROR(UseView(c.dst));
  const StridedSpan src = SpanOf(c.src), dst = SpanOf(c.dst);
  if (src.sizes != dst.sizes) {
    return absl::InternalError(
        absl::StrCat("a copy from [", absl::StrJoin(src.sizes, ", "), "] to [", absl::StrJoin(dst.sizes, ", "), "]"));
  }
  const int64_t elements = bound_->views[c.dst].elements;
  if (elements == 0) return absl::OkStatus();
  if (src.data == dst.data && src.strides == dst.strides) return absl::OkStatus();
  const int item = ItemSize(dst.dtype);
  const ExecutionDevice& device = *memory_->device;
  if (MayMeet(src, dst) && !AreDisjoint(PlacedView(c.src), PlacedView(c.dst))) {
    // Rows are copied in an order of their own, by several threads.
    const Geometry dense = Geometry::Contiguous(dst.sizes);
    SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<Storage> all, device.NewStorage(elements * item));
    SMELT_RETURN_IF_ERROR(device.CopyStrided(all->address(), dense.strides, src.data, src.strides, dst.sizes, item));
    SMELT_RETURN_IF_ERROR(device.CopyStrided(dst.data, dst.strides, all->address(), dense.strides, dst.sizes, item));
  } else {
    SMELT_RETURN_IF_ERROR(device.CopyStrided(dst.data, dst.strides, src.data, src.strides, dst.sizes, item));
  }
  if (c.copy_back) stats_.bytes_copied_back += elements * ItemSize(dst.dtype);
  return absl::OkStatus();
}

PlacedGeometry Executor::PlacedView(int view) const {
  const fb::ViewT& v = *plan_->plan->views[view];
  PlacedGeometry p{GeometryOf(view), slots_.base[v.slot], static_cast<DType>(v.dtype)};
  p.geometry.offset = bound_->views[view].offset;
  return p;
}

// Returns Aborted if only the eager-order plan has the answer.
absl::Status Executor::CheckSharing(fb::CheckKind kind, const PlacedGeometry& written, const PlacedGeometry& read) {
  using K = fb::CheckKind;
  if (kind == K::NoOverlap || kind == K::NoPartialOverlap) {
    const Shared shared = WhatIsShared(written, read);
    if (shared == Shared::kPart || (shared == Shared::kWhole && kind == K::NoOverlap))
      return absl::FailedPreconditionError(kPartialOverlapMessage);
  }
  if (kind == K::NoPartialOverlap) {
    ConcreteDecide decide;
    absl::StatusOr<Geometry> broadcast = view_rules::Expand(decide, read.geometry, written.geometry.sizes);
    if (!broadcast.ok()) return absl::OkStatus();  // what does not fit is refused elsewhere
    const ElementOrder order =
        OrderOfElements(written, {PlacedGeometry{*std::move(broadcast), read.origin, read.dtype}});
    return order.effect == OrderEffect::kNone
               ? absl::OkStatus()
               : WithCause(absl::AbortedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  }
  if (AreDisjoint(written, read) || (kind == K::WholeOrApart && AreSameElements(written, read)))
    return absl::OkStatus();
  return kind == K::NoOverlap ? WithCause(absl::AbortedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder)
                              : WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
}

absl::Status Executor::RunCheck(const fb::CheckT& c) {
  bool holds = true;
  absl::string_view what = "a check fails";
  switch (c.kind) {
    case fb::CheckKind::NotZero:
      holds = bound_->values.known[c.a] && bound_->values.value[c.a] != 0;
      break;
    case fb::CheckKind::NoOverlap:
    case fb::CheckKind::NoPartialOverlap:
    case fb::CheckKind::Apart:
    case fb::CheckKind::WholeOrApart: {
      SMELT_RETURN_IF_ERROR(UseView(c.a));
      SMELT_RETURN_IF_ERROR(UseView(c.b));
      if (bound_->views[c.a].elements == 0 || bound_->views[c.b].elements == 0) break;
      return CheckSharing(c.kind, PlacedView(c.a), PlacedView(c.b));
    }
    case fb::CheckKind::NoSharedPlaces:
    case fb::CheckKind::NoInternalOverlap: {
      SMELT_RETURN_IF_ERROR(UseView(c.a));
      if (bound_->views[c.a].elements == 0) break;
      const Geometry g = GeometryOf(c.a);
      holds = !IsExpanded(g);
      if (!holds && c.kind == fb::CheckKind::NoSharedPlaces)
        return WithCause(absl::AbortedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
      what = kInternalOverlapMessage;
      // Overlapping windows are written in order.
      if (holds && OverlapsItselfConcrete(g))
        return WithCause(absl::AbortedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
      break;
    }
    case fb::CheckKind::InBounds:
      holds = UseView(c.a).ok();
      what = "a view reaches outside its storage";
      // A view of an argument is valid by its sizes; its storage is the call's.
      if (holds && bound_->views[c.a].elements != 0) {
        const int slot = plan_->plan->views[c.a]->slot;
        const BoundView& v = bound_->views[c.a];
        if (bound_->slot_bytes[slot] < 0 && StorageOf(slot) != nullptr) {
          holds = v.low >= -slots_.origin[slot] && v.high <= StorageOf(slot)->bytes() - slots_.origin[slot];
        }
      }
      break;
    case fb::CheckKind::IndexInRange:
    case fb::CheckKind::WrappedIndexInRange: {
      SMELT_RETURN_IF_ERROR(UseView(c.a));
      SMELT_ASSIGN_OR_RETURN(const int64_t limit, ExprValue(c.b));
      const int64_t low = c.kind == fb::CheckKind::WrappedIndexInRange ? -limit : 0;
      std::vector<char> bytes;
      SMELT_ASSIGN_OR_RETURN(const StridedSpan span, ReadOnHost(c.a, &bytes));
      ForEachElement(span, [&](const char* at) {
        const int64_t i = LoadInt(at, span.dtype);
        holds = holds && i >= low && i < limit;
      });
      what = "index out of range";
      break;
    }
    case fb::CheckKind::DataTrue: {
      const Register& r = registers_[c.a];
      holds = r.is_float ? r.d != 0 : r.i != 0;
      what = "an assertion of the model fails";
      break;
    }
  }
  if (holds) return absl::OkStatus();
  return absl::FailedPreconditionError(c.message.empty() ? std::string(what) : c.message);
}

namespace {

// Returns the operator that a function of the bundle is; each has the name of one in the namespace aten.
PythonOp OpOfFunction(fb::NumberFunction function) {
  static const auto* const kOps = [] {
    auto* ops = new std::vector<PythonOp>();
    for (fb::NumberFunction f : fb::EnumValuesNumberFunction())
      ops->push_back(*FindPythonOp(absl::StrCat(op::kAtenNamespace, fb::EnumNameNumberFunction(f))));
    return ops;
  }();
  return (*kOps)[static_cast<size_t>(function)];
}

}  // namespace

absl::Status Executor::RunComputeNumber(const fb::ComputeNumberT& c) {
  std::vector<PythonValue> inputs;
  for (int k : c.inputs) {
    const Register& r = registers_[k];
    inputs.push_back(r.is_float ? PythonValue(r.d) : PythonValue(r.i));
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<PythonValue> v, RunPython(OpOfFunction(c.function), inputs));
  SMELT_ASSIGN_OR_RETURN(const double number, v[0].AsDouble());
  registers_[c.register_] = Register::Float(number);
  return absl::OkStatus();
}

absl::Status Executor::RunReadScalar(const fb::ReadScalarT& r) {
  SMELT_RETURN_IF_ERROR(UseView(r.view));
  if (bound_->views[r.view].elements < 1) return absl::InternalError("a scalar is read from an empty view");
  const DType t = static_cast<DType>(plan_->plan->views[r.view]->dtype);
  std::vector<char> bytes;
  SMELT_ASSIGN_OR_RETURN(const StridedSpan span, ReadOnHost(r.view, &bytes));
  const char* p = span.data;
  registers_[r.register_] =
      IsFloating(t) || IsComplex(t) ? Register::Float(LoadDouble(p, t)) : Register::Int(LoadInt(p, t));
  return r.symbol < 0 ? absl::OkStatus() : SetSymbolFromData(r.symbol, registers_[r.register_].i);
}

absl::Status Executor::SetSymbolFromData(int symbol, int64_t value) {
  const fb::SymbolDefT& s = *bundle_.symbols[symbol];
  if (value < s.min || value > s.max) {
    return absl::FailedPreconditionError(
        absl::StrCat("a size computed from data is ", value, ", expected ",
                     s.max == INT64_MAX ? absl::StrCat("at least ", s.min) : absl::StrCat(s.min, " to ", s.max)));
  }
  signature_.SetSymbol(symbol, value);
  EvaluateExprs(bundle_.exprs, plan_->late_exprs, signature_.symbols(), signature_.symbol_known(), &bound_->values);
  return absl::OkStatus();
}

namespace {

// Returns PyTorch's error for parameters that a distribution cannot have.
absl::Status CheckNumbers(const fb::RandomT& r, double p0, double p1) {
  if (r.kind == fb::RandomKind::Randint && !(p0 < p1)) {
    return absl::FailedPreconditionError(
        absl::StrCat("random_ expects 'from' to be less than 'to', but got from=", p0, " >= to=", p1));
  }
  if (r.kind == fb::RandomKind::Bernoulli && r.probabilities < 0 && !(p0 >= 0 && p0 <= 1)) {
    return absl::FailedPreconditionError(absl::StrCat("bernoulli_ expects p to be in [0, 1], but got p=", p0));
  }
  if (r.kind == fb::RandomKind::Normal && p1 < 0) {
    return absl::FailedPreconditionError(absl::StrCat("normal expects std >= 0.0, but found std ", p1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Executor::FillOnDevice(const fb::RandomT& r, int step) {
  if (r.probabilities >= 0) return false;
  const double p0 = r.p0_register >= 0 ? registers_[r.p0_register].d : r.p0;
  const double p1 = r.p1_register >= 0 ? registers_[r.p1_register].d : r.p1;
  SMELT_RETURN_IF_ERROR(CheckNumbers(r, p0, p1));
  const StridedSpan out = SpanOf(r.out);
  DeviceOp* op = bound_->device_ops[step].get();
  std::unique_ptr<DeviceOp> late;
  if (op == nullptr) {
    SMELT_ASSIGN_OR_RETURN(late,
                           DeviceLibrary(program_->image()).PrepareFill(r.kind, out.dtype, out.strides, out.sizes));
    op = late.get();
  }
  return op->Fill(*memory_->device, p0, p1, *random_, out.data, StatusWords(step));
}

absl::Status Executor::RunRandom(const fb::RandomT& r, int step) {
  SMELT_RETURN_IF_ERROR(UseView(r.out));
  if (memory_->on_host) return FillRandom(r, SpanOf(r.out));
  SMELT_ASSIGN_OR_RETURN(const bool filled, FillOnDevice(r, step));
  if (filled) {
    random_->next += static_cast<uint64_t>(bound_->views[r.out].elements);
    return absl::OkStatus();
  }
  ++stats_.host_steps;
  std::vector<char> bytes;
  SMELT_ASSIGN_OR_RETURN(const StridedSpan out, ReadOnHost(r.out, &bytes));
  SMELT_RETURN_IF_ERROR(FillRandom(r, out));
  return WriteBack(r.out, &bytes);
}

absl::Status Executor::FillRandom(const fb::RandomT& r, const StridedSpan& out) {
  const int64_t n = bound_->views[r.out].elements;
  const double p0 = r.p0_register >= 0 ? registers_[r.p0_register].d : r.p0;
  const double p1 = r.p1_register >= 0 ? registers_[r.p1_register].d : r.p1;
  std::vector<double> probabilities;
  if (r.probabilities >= 0) {
    SMELT_RETURN_IF_ERROR(UseView(r.probabilities));
    std::vector<char> bytes;
    SMELT_ASSIGN_OR_RETURN(const StridedSpan p, ReadOnHost(r.probabilities, &bytes));
    if (p.sizes != out.sizes) return absl::InternalError("the probabilities have other sizes than the draws");
    ForEachElement(p, [&](const char* at) { probabilities.push_back(LoadDouble(at, p.dtype)); });
    for (double p : probabilities) {
      if (!(p >= 0 && p <= 1))
        return absl::FailedPreconditionError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
    }
  }
  if (r.kind == fb::RandomKind::Permutation) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
    for (int64_t i = n - 1; i > 0; --i) {
      const auto k = static_cast<int64_t>(
          (static_cast<unsigned __int128>(random_->At(static_cast<uint64_t>(i))) * static_cast<uint64_t>(i + 1)) >> 64);
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(k)]);
    }
    random_->next += static_cast<uint64_t>(n);
    int64_t i = 0;
    ForEachElement(out, [&](char* p) { StoreInt(p, out.dtype, order[static_cast<size_t>(i++)]); });
    return absl::OkStatus();
  }
  SMELT_RETURN_IF_ERROR(CheckNumbers(r, p0, p1));
  uint64_t i = 0;
  ForEachElement(out, [&](char* p) {
    const uint64_t bits = random_->At(i);
    switch (r.kind) {
      case fb::RandomKind::Uniform: {
        StoreDouble(p, out.dtype, p0 + UnitDouble(bits) * (p1 - p0));
        // The interval is open above; rounding to the dtype may reach its end.
        if (LoadDouble(p, out.dtype) >= p1 && p0 < p1) StoreDouble(p, out.dtype, p0);
        break;
      }
      case fb::RandomKind::Normal: {
        // Box-Muller: the radius from one half of the bits, the angle from the other.
        const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
        const double angle = static_cast<double>(bits & 0xffffffffu) * 0x1p-32 * 6.283185307179586;
        StoreDouble(p, out.dtype, p0 + p1 * std::sqrt(-2 * std::log(u)) * std::cos(angle));
        break;
      }
      case fb::RandomKind::Bernoulli: {
        const double q = r.probabilities >= 0 ? probabilities[i] : p0;
        StoreInt(p, out.dtype, UnitDouble(bits) < q);
        break;
      }
      case fb::RandomKind::Randint: {
        const uint64_t range = static_cast<uint64_t>(p1 - p0);
        const auto offset = static_cast<int64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
        StoreInt(p, out.dtype, static_cast<int64_t>(p0) + offset);
        break;
      }
      default:  // Exponential
        StoreDouble(p, out.dtype, -std::log1p(-UnitDouble(bits)) / p0);
    }
    ++i;
  });
  random_->next += i;
  return absl::OkStatus();
}

}  // namespace smelt
