#include "smelt/runtime/steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
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
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/kernel_reports.h"
#include "smelt/runtime/library/device_library.h"
#include "smelt/runtime/strided.h"

namespace smelt {
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

// Returns how many steps and results of a plan read or set a register.
int UsesOfRegister(const fb::PlanT& plan, int r) {
  int uses = 0;
  const auto count = [&](int used) { uses += used == r ? 1 : 0; };
  for (const auto& block : plan.blocks) {
    for (const auto& step : block->steps) {
      if (const auto* l = step->step.AsLaunch()) {
        for (const fb::Word& w : l->words) count(w.kind() == fb::WordKind::DataScalar ? w.a() : -1);
      } else if (const auto* c = step->step.AsCheck()) {
        count(c->kind == fb::CheckKind::DataTrue ? c->a : -1);
      } else if (const auto* read = step->step.AsReadScalar()) {
        count(read->register_);
      } else if (const auto* f = step->step.AsIf()) {
        count(f->predicate);
      } else if (const auto* w = step->step.AsWhile()) {
        count(w->predicate), count(w->counter);
      } else if (const auto* random = step->step.AsRandom()) {
        count(random->p0_register), count(random->p1_register);
      } else if (const auto* set = step->step.AsSetRegister()) {
        count(set->register_);
      } else if (const auto* number = step->step.AsComputeNumber()) {
        count(number->register_);
        for (int input : number->inputs) count(input);
      }
    }
  }
  for (const auto& o : plan.convention->outputs->outputs) {
    count(o->kind == fb::OutputKind::Scalar && o->expr < 0 ? o->index : -1);
  }
  return uses;
}

}  // namespace

StepRunner::StepRunner(BoundCall& call, const Parts& parts, bool time_steps)
    : call_(call),
      pool_(parts.pool),
      width_(parts.width),
      binder_(*parts.binder),
      written_(*parts.written),
      random_(parts.random),
      stats_(*parts.stats) {
  status_[1] = CpuHints();
  if (time_steps) step_times_.resize(call.program.plans().size());
}

absl::Status StepRunner::RunBlock(int block, size_t end) {
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  for (size_t i = 0; i < std::min(steps.size(), end); ++i) {
    const int step = static_cast<int>(i);
    const fb::LibraryCallT* call = steps[i]->step.AsLibraryCall();
    // When steps are timed, each runs on its own.
    if (call != nullptr && call->epilogue && step_times_.empty() && call_.memory.on_host) {
      SMELT_RETURN_IF_ERROR(RunWithEpilogue(block, step));
      ++i;
      continue;
    }
    if (call_.bound->joined_ops[call_.plan->steps.first[block] + step] != nullptr && step_times_.empty()) {
      SMELT_RETURN_IF_ERROR(RunJoined(block, step));
      ++i;
      continue;
    }
    if (!call_.memory.on_host && IsChoiceOnDevice(block, step)) {
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

absl::Status StepRunner::RunTimed(int block, int index) {
  const int plan = static_cast<int>(call_.plan - call_.program.plans().data());
  std::vector<StepTime>& times = step_times_[plan];
  times.resize(call_.plan->steps.count);
  const auto begin = std::chrono::steady_clock::now();
  absl::Status s = RunStep(block, index);
  if (s.ok()) s = call_.memory.device->Synchronize();
  const int64_t ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  StepTime& t = times[call_.plan->steps.first[block] + index];
  t = {plan, block, index, t.runs + 1, t.runs == 0 ? ns : std::min(t.least_ns, ns)};
  return s;
}

std::vector<StepTime> StepRunner::step_times() const {
  std::vector<StepTime> out;
  for (const std::vector<StepTime>& plan : step_times_) {
    std::copy_if(plan.begin(), plan.end(), std::back_inserter(out), [](const StepTime& t) { return t.runs > 0; });
  }
  return out;
}

absl::Status StepRunner::RememberBefore(int step) {
  if (!call_.plan->steps.writes_visible[step]) return absl::OkStatus();
  const ExecutionDevice::Reports checks =
      call_.device.checks_indices ? call_.CheckReports() : ExecutionDevice::Reports();
  return written_.Remember(*call_.plan, checks, call_.args, call_.signature.extents(), call_.memory.states,
                           [this] { return WrittenSpans(); });
}

std::vector<StridedSpan> StepRunner::WrittenSpans() const {
  std::vector<StridedSpan> spans;
  for (int v : call_.plan->steps.written_views) {
    if (call_.plan->memory.view_late[v] || call_.bound->views[v].state != BoundView::kGood) return {};
    if (call_.bound->views[v].elements > 0) spans.push_back(call_.SpanOf(v));
  }
  return spans;
}

absl::Status StepRunner::RunStep(int block, int index) {
  const fb::StepT& step = *call_.plan->plan->blocks[block]->steps[index];
  const int number = call_.plan->steps.first[block] + index;
  SMELT_RETURN_IF_ERROR(RememberBefore(number));
  switch (step.step.type) {
    case fb::StepUnion::Launch:
      return RunLaunch(*step.step.AsLaunch(), call_.bound->launches[number], number);
    case fb::StepUnion::LibraryCall:
      return RunLibrary(*step.step.AsLibraryCall(), number, step.source);
    case fb::StepUnion::Copy:
      return RunCopy(*step.step.AsCopy());
    case fb::StepUnion::Check:
      return RunCheck(*step.step.AsCheck());
    case fb::StepUnion::ReadScalar:
      return RunReadScalar(*step.step.AsReadScalar());
    case fb::StepUnion::Alloc:
      return call_.Allocate(step.step.AsAlloc()->slot);
    case fb::StepUnion::If: {
      const fb::IfT& f = *step.step.AsIf();
      const Register& r = call_.registers[f.predicate];
      const int chosen = (r.is_float ? r.d != 0 : r.i != 0) ? f.then_block : f.else_block;
      return chosen < 0 ? absl::OkStatus() : RunBlock(chosen);
    }
    case fb::StepUnion::While: {
      const fb::WhileT& w = *step.step.AsWhile();
      int64_t limit = INT64_MAX;
      if (w.max_trips >= 0) {
        SMELT_ASSIGN_OR_RETURN(limit, call_.ExprValue(w.max_trips));
      }
      for (int64_t trip = 0; trip < limit; ++trip) {
        if (w.counter >= 0) call_.registers[w.counter] = Register::Int(trip);
        if (w.cond_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block));
        if (w.predicate >= 0) {
          const Register& r = call_.registers[w.predicate];
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
      Register& r = call_.registers[s.register_];
      if (s.arg >= 0) {
        const Datum& v = call_.args[s.arg];
        r = v.IsFloat() ? Register::Float(v.as_float()) : Register::Int(v.IsBool() ? v.as_bool() : v.as_int());
      } else if (s.expr >= 0) {
        SMELT_ASSIGN_OR_RETURN(const int64_t v, call_.ExprValue(s.expr));
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

absl::Status StepRunner::CompleteLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch) {
  if (!launch.slow) return absl::OkStatus();
  int64_t* words = call_.bound->words.data() + launch.first_word;
  for (const auto* list : {&l.reads, &l.writes}) {
    for (int v : *list) SMELT_RETURN_IF_ERROR(call_.UseView(v));
  }
  for (size_t i = 0; i < l.words.size(); ++i) {
    const fb::Word& w = l.words[i];
    if (w.kind() == fb::WordKind::Expr) {
      SMELT_ASSIGN_OR_RETURN(words[i], call_.ExprValue(w.a()));
    } else if (w.kind() == fb::WordKind::Address) {
      SMELT_ASSIGN_OR_RETURN(const int64_t offset, call_.ExprValue(w.b()));
      words[i] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(call_.slots.base[w.a()])) + offset;
    } else if (w.kind() == fb::WordKind::DataScalar) {
      const Register& r = call_.registers[w.a()];
      if (w.b() == 1) {
        std::memcpy(&words[i], &r.d, 8);
      } else {
        words[i] = r.i;
      }
    }
  }
  SMELT_ASSIGN_OR_RETURN(launch.tiles, call_.ExprValue(l.tiles));
  SMELT_ASSIGN_OR_RETURN(const int64_t bytes, call_.ExprValue(l.bytes));
  binder_.Slice(bytes, &launch);
  return absl::OkStatus();
}

absl::Status StepRunner::RunLaunch(const fb::LaunchT& l, BoundPlan::Launch& launch, int step) {
  SMELT_RETURN_IF_ERROR(CompleteLaunch(l, launch));
  if (launch.tiles <= 0) return absl::OkStatus();
  ++stats_.kernel_launches;
  KernelLaunch run;
  run.image = call_.program.image();
  run.kernel = l.kernel;
  run.words = call_.bound->words.data() + launch.first_word;
  run.tiles = launch.tiles;
  run.entry = launch.entry;
  run.chunk = launch.chunk;
  run.chunks = launch.chunks;
  if (!call_.memory.on_host) {
    // A later step, or the end of the call, reads what the kernel reports.
    run.status = call_.StatusWords(step);
    call_.device.is_open = true;
    return call_.memory.device->Launch(run);
  }
  status_[0] = 0;
  run.status = status_;
  SMELT_RETURN_IF_ERROR(call_.memory.host.Launch(run));
  return KernelStatus(status_[0]);
}

absl::Status StepRunner::UseOperands(const fb::LibraryCallT& l) {
  for (const auto& [views, addresses] :
       {std::pair(&l.inputs, &operands_.inputs), std::pair(&l.outputs, &operands_.outputs)}) {
    addresses->clear();
    for (int v : *views) {
      if (v >= 0) SMELT_RETURN_IF_ERROR(call_.UseView(v));
      addresses->push_back(v < 0 ? nullptr : call_.Address(v));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const PreparedOp*> StepRunner::CompleteLibraryCall(const fb::LibraryCallT& l, int step) {
  SMELT_RETURN_IF_ERROR(UseOperands(l));
  if (call_.bound->library_ops[step] != nullptr) return call_.bound->library_ops[step].get();
  SMELT_ASSIGN_OR_RETURN(LibraryRequest request, call_.program.RequestOf(*call_.plan, l, call_.bound->values));
  SMELT_ASSIGN_OR_RETURN(operands_.late_op, call_.program.library().Prepare(request));
  return operands_.late_op.get();
}

absl::Status StepRunner::RunLibraryOnHost(const PreparedOp& op, const fb::LibraryCallT& l) {
  ++stats_.host_steps;
  std::vector<std::vector<char>> inputs(l.inputs.size()), outputs(l.outputs.size());
  for (size_t k = 0; k < l.inputs.size(); ++k) {
    if (l.inputs[k] < 0) continue;
    const fb::ViewT& view = *call_.plan->plan->views[l.inputs[k]];
    const fb::SlotT& slot = *call_.plan->plan->slots[view.slot];
    // The host has the weights already.
    if (slot.kind == fb::SlotKind::StateStorage && !call_.program.bundle().storages[slot.index]->is_mutated &&
        !call_.memory.states.place(slot.index).replaced && call_.program.StateBytes(slot.index) != nullptr) {
      const int64_t at = call_.bound->views[l.inputs[k]].offset * ItemSize(static_cast<DType>(view.dtype));
      operands_.inputs[k] = const_cast<char*>(call_.program.StateBytes(slot.index)) + at;
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(const StridedSpan span, call_.ReadOnHost(l.inputs[k], &inputs[k]));
    operands_.inputs[k] = span.data;
  }
  for (size_t k = 0; k < l.outputs.size(); ++k) {
    if (l.outputs[k] < 0) continue;
    SMELT_ASSIGN_OR_RETURN(const StridedSpan span, call_.ReadOnHost(l.outputs[k], &outputs[k]));
    operands_.outputs[k] = span.data;
  }
  SMELT_RETURN_IF_ERROR(op.Run(LibraryContext{pool_, width_}, operands_.inputs, operands_.outputs));
  for (size_t k = 0; k < l.outputs.size(); ++k) {
    if (l.outputs[k] >= 0) SMELT_RETURN_IF_ERROR(call_.WriteBack(l.outputs[k], &outputs[k]));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> StepRunner::RunLibraryOnDevice(const fb::LibraryCallT& l, int step, const std::string& source) {
  SMELT_RETURN_IF_ERROR(UseOperands(l));
  DeviceOp* op = call_.bound->device_ops[step].get();
  std::unique_ptr<DeviceOp> late;
  if (op == nullptr) {
    SMELT_ASSIGN_OR_RETURN(const LibraryRequest request, call_.program.RequestOf(*call_.plan, l, call_.bound->values));
    SMELT_ASSIGN_OR_RETURN(late, DeviceLibrary(call_.program.image(), call_.memory.device).Prepare(request, source));
    op = late.get();
  }
  return op->Run(*call_.memory.device, operands_.inputs, operands_.outputs, call_.StatusWords(step));
}

absl::Status StepRunner::RunLibrary(const fb::LibraryCallT& l, int step, const std::string& source) {
  if (!call_.memory.on_host) {
    SMELT_ASSIGN_OR_RETURN(const bool ran, RunLibraryOnDevice(l, step, source));
    if (ran) {
      ++stats_.library_calls;
      return absl::OkStatus();
    }
  }
  SMELT_ASSIGN_OR_RETURN(const PreparedOp* op, CompleteLibraryCall(l, step));
  ++stats_.library_calls;
  if (!call_.memory.on_host) return RunLibraryOnHost(*op, l);
  return op->Run(LibraryContext{pool_, width_}, operands_.inputs, operands_.outputs);
}

absl::Status StepRunner::RunWithEpilogue(int block, int index) {
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  const fb::StepT &call = *steps[index], &epilogue = *steps[index + 1];
  const int number = call_.plan->steps.first[block] + index;
  const fb::LibraryCallT& l = *call.step.AsLibraryCall();
  SMELT_RETURN_IF_ERROR(RememberBefore(number));
  SMELT_RETURN_IF_ERROR(RememberBefore(number + 1));
  auto op = CompleteLibraryCall(l, number);
  if (!op.ok()) return StateError(op.status(), call.source);
  BoundPlan::Launch& launch = call_.bound->launches[number + 1];
  if (absl::Status s = CompleteLaunch(*epilogue.step.AsLaunch(), launch); !s.ok())
    return StateError(s, epilogue.source);
  const int64_t elements = call_.bound->views[l.outputs[0]].elements, tiles = launch.tiles, unit = (*op)->PartUnit();
  ++stats_.library_calls;
  if (unit == 0 || tiles <= 0 || elements <= 0 || elements % tiles != 0 || unit % (elements / tiles) != 0) {
    SMELT_RETURN_IF_ERROR(
        StateError((*op)->Run(LibraryContext{pool_, width_}, operands_.inputs, operands_.outputs), call.source));
    return StateError(RunLaunch(*epilogue.step.AsLaunch(), launch, number + 1), epilogue.source);
  }
  status_[0] = 0;
  const Epilogue parts(launch.entry, call_.bound->words.data() + launch.first_word, elements / tiles, status_);
  SMELT_RETURN_IF_ERROR(
      StateError((*op)->Run(LibraryContext{pool_, width_, &parts}, operands_.inputs, operands_.outputs), call.source));
  ++stats_.kernel_launches;
  return StateError(KernelStatus(status_[0]), epilogue.source);
}

absl::Status StepRunner::RunJoined(int block, int index) {
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  const fb::StepT &call = *steps[index], &next = *steps[index + 1];
  const int number = call_.plan->steps.first[block] + index;
  SMELT_RETURN_IF_ERROR(RememberBefore(number));
  SMELT_RETURN_IF_ERROR(RememberBefore(number + 1));
  SMELT_RETURN_IF_ERROR(StateError(UseOperands(*call.step.AsLibraryCall()), call.source));
  BoundPlan::Launch& launch = call_.bound->launches[number + 1];
  SMELT_RETURN_IF_ERROR(StateError(CompleteLaunch(*next.step.AsLaunch(), launch), next.source));
  const absl::Span<const int64_t> words(call_.bound->words.data() + launch.first_word,
                                        static_cast<size_t>(launch.num_words));
  const auto ran = call_.bound->joined_ops[number]->Run(*call_.memory.device, operands_.inputs, operands_.outputs,
                                                        call_.StatusWords(number), words);
  if (!ran.ok()) return StateError(ran.status(), call.source);
  ++stats_.library_calls;
  ++stats_.kernel_launches;
  return absl::OkStatus();
}

absl::Status StepRunner::RunCopy(const fb::CopyT& c) {
  SMELT_RETURN_IF_ERROR(call_.UseView(c.src));
  SMELT_RETURN_IF_ERROR(call_.UseView(c.dst));
  const StridedSpan src = call_.SpanOf(c.src), dst = call_.SpanOf(c.dst);
  if (src.sizes != dst.sizes) {
    return absl::InternalError(
        absl::StrCat("a copy from [", absl::StrJoin(src.sizes, ", "), "] to [", absl::StrJoin(dst.sizes, ", "), "]"));
  }
  const int64_t elements = call_.bound->views[c.dst].elements;
  if (elements == 0) return absl::OkStatus();
  if (src.data == dst.data && src.strides == dst.strides) return absl::OkStatus();
  const int item = ItemSize(dst.dtype);
  const ExecutionDevice& device = *call_.memory.device;
  if (MayMeet(src, dst) && !AreDisjoint(call_.PlacedView(c.src), call_.PlacedView(c.dst))) {
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

// Returns Aborted if only the eager-order plan has the answer.
absl::Status StepRunner::CheckSharing(fb::CheckKind kind, const PlacedGeometry& written, const PlacedGeometry& read) {
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

absl::Status StepRunner::RunCheck(const fb::CheckT& c) {
  bool holds = true;
  absl::string_view what = "a check fails";
  switch (c.kind) {
    case fb::CheckKind::NotZero:
      holds = call_.bound->values.known[c.a] && call_.bound->values.value[c.a] != 0;
      break;
    case fb::CheckKind::NoOverlap:
    case fb::CheckKind::NoPartialOverlap:
    case fb::CheckKind::Apart:
    case fb::CheckKind::WholeOrApart: {
      SMELT_RETURN_IF_ERROR(call_.UseView(c.a));
      SMELT_RETURN_IF_ERROR(call_.UseView(c.b));
      if (call_.bound->views[c.a].elements == 0 || call_.bound->views[c.b].elements == 0) break;
      return CheckSharing(c.kind, call_.PlacedView(c.a), call_.PlacedView(c.b));
    }
    case fb::CheckKind::NoSharedPlaces:
    case fb::CheckKind::NoInternalOverlap: {
      SMELT_RETURN_IF_ERROR(call_.UseView(c.a));
      if (call_.bound->views[c.a].elements == 0) break;
      const Geometry g = call_.GeometryOf(c.a);
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
      holds = call_.UseView(c.a).ok();
      what = "a view reaches outside its storage";
      // A view of an argument is valid by its sizes; its storage is the call's.
      if (holds && call_.bound->views[c.a].elements != 0) {
        const int slot = call_.plan->plan->views[c.a]->slot;
        const BoundView& v = call_.bound->views[c.a];
        if (call_.bound->slot_bytes[slot] < 0 && call_.StorageOf(slot) != nullptr) {
          holds =
              v.low >= -call_.slots.origin[slot] && v.high <= call_.StorageOf(slot)->bytes() - call_.slots.origin[slot];
        }
      }
      break;
    case fb::CheckKind::IndexInRange:
    case fb::CheckKind::WrappedIndexInRange: {
      SMELT_RETURN_IF_ERROR(call_.UseView(c.a));
      SMELT_ASSIGN_OR_RETURN(const int64_t limit, call_.ExprValue(c.b));
      const int64_t low = c.kind == fb::CheckKind::WrappedIndexInRange ? -limit : 0;
      std::vector<char> bytes;
      SMELT_ASSIGN_OR_RETURN(const StridedSpan span, call_.ReadOnHost(c.a, &bytes));
      ForEachElement(span, [&](const char* at) {
        const int64_t i = LoadInt(at, span.dtype);
        holds = holds && i >= low && i < limit;
      });
      what = "index out of range";
      break;
    }
    case fb::CheckKind::DataTrue: {
      const Register& r = call_.registers[c.a];
      holds = r.is_float ? r.d != 0 : r.i != 0;
      what = "an assertion of the model fails";
      break;
    }
  }
  if (holds) return absl::OkStatus();
  return absl::FailedPreconditionError(c.message.empty() ? std::string(what) : c.message);
}

absl::Status StepRunner::RunComputeNumber(const fb::ComputeNumberT& c) {
  std::vector<PythonValue> inputs;
  for (int k : c.inputs) {
    const Register& r = call_.registers[k];
    inputs.push_back(r.is_float ? PythonValue(r.d) : PythonValue(r.i));
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<PythonValue> v, RunPython(OpOfFunction(c.function), inputs));
  SMELT_ASSIGN_OR_RETURN(const double number, v[0].AsDouble());
  call_.registers[c.register_] = Register::Float(number);
  return absl::OkStatus();
}

absl::Status StepRunner::RunReadScalar(const fb::ReadScalarT& r) {
  SMELT_RETURN_IF_ERROR(call_.UseScalar(r.view));
  const DType t = static_cast<DType>(call_.plan->plan->views[r.view]->dtype);
  std::vector<char> bytes;
  SMELT_ASSIGN_OR_RETURN(const StridedSpan span, call_.ReadOnHost(r.view, &bytes));
  const char* p = span.data;
  call_.registers[r.register_] =
      IsFloating(t) || IsComplex(t) ? Register::Float(LoadDouble(p, t)) : Register::Int(LoadInt(p, t));
  return r.symbol < 0 ? absl::OkStatus() : call_.SetSymbolFromData(r.symbol, call_.registers[r.register_].i);
}

absl::StatusOr<bool> StepRunner::FillOnDevice(const fb::RandomT& r, int step) {
  if (r.probabilities >= 0) return false;
  const double p0 = r.p0_register >= 0 ? call_.registers[r.p0_register].d : r.p0;
  const double p1 = r.p1_register >= 0 ? call_.registers[r.p1_register].d : r.p1;
  SMELT_RETURN_IF_ERROR(CheckNumbers(r, p0, p1));
  const StridedSpan out = call_.SpanOf(r.out);
  DeviceOp* op = call_.bound->device_ops[step].get();
  std::unique_ptr<DeviceOp> late;
  if (op == nullptr) {
    SMELT_ASSIGN_OR_RETURN(late,
                           DeviceLibrary(call_.program.image()).PrepareFill(r.kind, out.dtype, out.strides, out.sizes));
    op = late.get();
  }
  return op->Fill(*call_.memory.device, p0, p1, *random_, out.data, call_.StatusWords(step));
}

absl::Status StepRunner::RunRandom(const fb::RandomT& r, int step) {
  SMELT_RETURN_IF_ERROR(call_.UseView(r.out));
  if (call_.memory.on_host) return FillRandom(r, call_.SpanOf(r.out));
  SMELT_ASSIGN_OR_RETURN(const bool filled, FillOnDevice(r, step));
  if (filled) {
    random_->next += static_cast<uint64_t>(call_.bound->views[r.out].elements);
    return absl::OkStatus();
  }
  ++stats_.host_steps;
  std::vector<char> bytes;
  SMELT_ASSIGN_OR_RETURN(const StridedSpan out, call_.ReadOnHost(r.out, &bytes));
  SMELT_RETURN_IF_ERROR(FillRandom(r, out));
  return call_.WriteBack(r.out, &bytes);
}

absl::Status StepRunner::FillRandom(const fb::RandomT& r, const StridedSpan& out) {
  const int64_t n = call_.bound->views[r.out].elements;
  const double p0 = r.p0_register >= 0 ? call_.registers[r.p0_register].d : r.p0;
  const double p1 = r.p1_register >= 0 ? call_.registers[r.p1_register].d : r.p1;
  std::vector<double> probabilities;
  if (r.probabilities >= 0) {
    SMELT_RETURN_IF_ERROR(call_.UseView(r.probabilities));
    std::vector<char> bytes;
    SMELT_ASSIGN_OR_RETURN(const StridedSpan p, call_.ReadOnHost(r.probabilities, &bytes));
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

bool StepRunner::CanRunInChoice(int block, size_t end) const {
  if (block < 0) return true;
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  for (size_t i = 0; i < std::min(steps.size(), end); ++i) {
    const int number = call_.plan->steps.first[block] + static_cast<int>(i);
    if (const auto* l = steps[i]->step.AsLaunch()) {
      if (call_.bound->launches[number].slow || !call_.program.image()->PassesWordsByValue(l->kernel)) return false;
    } else if (const auto* c = steps[i]->step.AsCopy()) {
      if (call_.plan->memory.view_late[c->src] || call_.plan->memory.view_late[c->dst]) return false;
    } else if (steps[i]->step.AsLibraryCall() != nullptr) {
      const DeviceOp* op = call_.bound->device_ops[number].get();
      if (op == nullptr || !op->needs_no_host()) return false;
    } else {
      return false;
    }
  }
  return true;
}

// The register is read nowhere else, so the host need not know it.
bool StepRunner::IsPredicateOnDevice(const fb::StepT& step, int predicate) const {
  const fb::ReadScalarT* read = step.step.AsReadScalar();
  if (read == nullptr || read->symbol >= 0 || read->register_ != predicate || call_.plan->memory.view_late[read->view])
    return false;
  const DType t = static_cast<DType>(call_.plan->plan->views[read->view]->dtype);
  return (IsIntegral(t) || t == DType::kBool) && UsesOfRegister(*call_.plan->plan, predicate) == 2;
}

bool StepRunner::IsChoiceOnDevice(int block, int index) {
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  const fb::WhileT* w = steps[index]->step.AsWhile();
  const fb::IfT* f = nullptr;
  if (steps[index]->step.AsReadScalar() != nullptr && static_cast<size_t>(index) + 1 < steps.size())
    f = steps[index + 1]->step.AsIf();
  // Steps are timed one by one.
  if ((f == nullptr && w == nullptr) || !step_times_.empty() || !call_.memory.device->CanChoose()) return false;
  call_.bound->choices.resize(call_.plan->steps.count, -1);
  int8_t& choice = call_.bound->choices[call_.plan->steps.first[block] + index];
  if (choice >= 0) return choice == 1;
  if (f != nullptr) {
    choice = IsPredicateOnDevice(*steps[index], f->predicate) && CanRunInChoice(f->then_block) &&
             CanRunInChoice(f->else_block);
  } else {
    choice = 0;
    if (w->max_trips >= 0 || w->counter >= 0 || w->cond_block < 0 || w->body_block < 0) return false;
    const auto& condition = call_.plan->plan->blocks[w->cond_block]->steps;
    choice = !condition.empty() && IsPredicateOnDevice(*condition.back(), w->predicate) &&
             CanRunInChoice(w->cond_block, condition.size() - 1) && CanRunInChoice(w->body_block);
  }
  return choice == 1;
}

absl::StatusOr<ExecutionDevice::Predicate> StepRunner::PredicateOf(const fb::StepT& step) {
  const int view = step.step.AsReadScalar()->view;
  SMELT_RETURN_IF_ERROR(StateError(call_.UseScalar(view), step.source));
  return ExecutionDevice::Predicate{
      call_.Address(view), ItemSize(static_cast<DType>(call_.plan->plan->views[view]->dtype)), {}};
}

absl::Status StepRunner::RememberBeforeAll(int block) {
  if (block < 0) return absl::OkStatus();
  for (size_t i = 0; i < call_.plan->plan->blocks[block]->steps.size(); ++i) {
    SMELT_RETURN_IF_ERROR(RememberBefore(call_.plan->steps.first[block] + static_cast<int>(i)));
  }
  return absl::OkStatus();
}

// Contents that a part of a choice overwrites are kept before the choice.
absl::Status StepRunner::ChooseOnDevice(int block, int index) {
  const auto& steps = call_.plan->plan->blocks[block]->steps;
  if (const fb::WhileT* w = steps[index]->step.AsWhile()) return LoopOnDevice(*w);
  const fb::IfT& f = *steps[index + 1]->step.AsIf();
  SMELT_ASSIGN_OR_RETURN(const ExecutionDevice::Predicate predicate, PredicateOf(*steps[index]));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(f.then_block));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(f.else_block));
  const ExecutionDevice& device = *call_.memory.device;
  bool whole = false;
  const absl::Cleanup end = [&] { device.EndChoice(whole); };
  SMELT_RETURN_IF_ERROR(StateError(device.BeginChoice(predicate), steps[index]->source));
  if (f.then_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(f.then_block));
  device.Otherwise();
  if (f.else_block >= 0) SMELT_RETURN_IF_ERROR(RunBlock(f.else_block));
  whole = true;
  return absl::OkStatus();
}

absl::Status StepRunner::LoopOnDevice(const fb::WhileT& w) {
  const auto& condition = call_.plan->plan->blocks[w.cond_block]->steps;
  const fb::StepT& read = *condition.back();
  SMELT_ASSIGN_OR_RETURN(ExecutionDevice::Predicate predicate, PredicateOf(read));
  // A predicate that depends on what a kernel has refused may be true for ever.
  predicate.reports = call_.Reports();
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(w.cond_block));
  SMELT_RETURN_IF_ERROR(RememberBeforeAll(w.body_block));
  const ExecutionDevice& device = *call_.memory.device;
  SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block, condition.size() - 1));
  bool whole = false;
  const absl::Cleanup end = [&] { device.EndChoice(whole); };
  SMELT_RETURN_IF_ERROR(StateError(device.BeginLoop(predicate), read.source));
  SMELT_RETURN_IF_ERROR(RunBlock(w.body_block));
  SMELT_RETURN_IF_ERROR(RunBlock(w.cond_block, condition.size() - 1));
  SMELT_RETURN_IF_ERROR(StateError(device.EndLoop(predicate), read.source));
  whole = true;
  return absl::OkStatus();
}

}  // namespace smelt
