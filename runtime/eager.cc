#include "smelt/runtime/eager.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/exec/number.h"
#include "smelt/runtime/eager_custom.h"
#include "smelt/runtime/eager_python.h"
#include "smelt/runtime/eager_views.h"
#include "smelt/runtime/kernel_reports.h"

namespace smelt {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;

// Returns whether a tensor has so many elements that products of its sizes could overflow.
bool HasTooManyElements(const Tensor& t) {
  int64_t elements = 1;
  for (int64_t n : t.sizes()) {
    if (__builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > kMaxElements) return true;
  }
  return false;
}

// Returns the value of an instruction that is a constant; nullopt for others.
std::optional<PythonValue> ConstantOf(const fb::EagerInstrT& i) {
  using K = fb::EagerKind;
  const auto list = [](const auto& numbers, auto make) {
    std::vector<PythonValue> out;
    for (const auto& n : numbers) out.push_back(PythonValue(make(n)));
    return PythonValue::List(std::move(out));
  };
  switch (i.kind) {
    case K::None:
      return PythonValue();
    case K::Int:
      return PythonValue(i.ints[0]);
    case K::Float:
      return PythonValue(i.floats[0]);
    case K::Bool:
      return PythonValue(i.ints[0] != 0);
    case K::String:
      return PythonValue(i.text);
    case K::IntList:
      return PythonValue::Ints(i.ints);
    case K::FloatList:
      return list(i.floats, [](double v) { return v; });
    case K::BoolList:
      return list(i.ints, [](int64_t v) { return v != 0; });
    default:
      return std::nullopt;
  }
}

}  // namespace

EagerRun::EagerRun(BoundCall& call, ThreadPool* pool, int width, const fb::EagerProgramT& program, EagerCalls& calls,
                   CallStats& stats)
    : call_(call),
      p_(program),
      values_(program.num_values),
      memory_(call.memory.states.ForEagerOrder(), pool, width),
      computer_(values_, memory_, calls, stats) {}

absl::Status EagerRun::Run(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  SMELT_RETURN_IF_ERROR(BindInputs(args));
  absl::Status status = CatchOutOfMemory([&] {
    SMELT_RETURN_IF_ERROR(RunBlock(0));
    return Finish(outputs);
  });
  if (!status.ok()) memory_.Undo();
  return status;
}

absl::Status EagerRun::BindInputs(absl::Span<const Datum> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (p_.args[i] >= 0) values_[p_.args[i]] = FromDatum(args[i]);
    if (!args[i].IsTensor()) continue;
    memory_.AddVisible(args[i].tensor().storage());
    if (HasTooManyElements(args[i].tensor()))
      return absl::ResourceExhaustedError(absl::StrCat("argument ", i, " has too many elements"));
  }
  for (size_t i = 0; i < call_.memory.states.tensors().size(); ++i) {
    if (p_.states[i] >= 0) values_[p_.states[i]] = PythonValue(call_.memory.states.tensors()[i]);
    if (call_.memory.states.geometry_changed()) memory_.AddVisible(call_.memory.states.tensors()[i].storage());
  }
  for (const auto& storage : call_.memory.states.storages()) memory_.AddVisible(storage);
  for (const auto& t : p_.tensors) {
    const Geometry g = Geometry::Contiguous(t->sizes);
    values_[t->value] =
        PythonValue(Tensor(call_.memory.states.storages()[t->storage], static_cast<DType>(t->dtype), g));
  }
  return absl::OkStatus();
}

absl::Status EagerRun::Finish(std::vector<Datum>* outputs) {
  for (size_t k = 0; k < outputs->size(); ++k) {
    const PythonValue& v = values_[p_.outputs[k]];
    if (v.IsList() || v.IsDict()) return absl::UnimplementedError("a list as an output");
    if (!(*outputs)[k].IsTensor()) {
      SMELT_ASSIGN_OR_RETURN((*outputs)[k], ToDatum(v));
      continue;
    }
    const Tensor to = (*outputs)[k].tensor();
    if (!v.IsTensor() || !to.defined() || !to.InBounds() || v.tensor().dtype() != to.dtype() ||
        v.tensor().sizes() != to.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat("output ", k, ": the memory given for it does not fit"));
    }
    memory_.Remember(to.storage());
    memory_.CopyElements(to, v.tensor());
  }
  // On a device, after the storages have moved back to it.
  return call_.memory.on_host ? call_.memory.states.AdoptChanged() : absl::OkStatus();
}

absl::Status EagerRun::RunBlock(int index) {
  for (const auto& i : p_.blocks[index]->instrs) {
    absl::Status s = RunInstruction(*i);
    if (s.ok()) continue;
    // The arguments fit the signature, so PyTorch refuses this, too.
    if (absl::IsInvalidArgument(s)) s = absl::FailedPreconditionError(s.message());
    // An instruction with blocks inside has named the place already.
    return i->blocks.empty() ? StateError(s, i->source) : s;
  }
  return absl::OkStatus();
}

absl::Status EagerRun::RunInstruction(const fb::EagerInstrT& i) {
  using K = fb::EagerKind;
  switch (i.kind) {
    case K::Size: {
      SMELT_ASSIGN_OR_RETURN(const int64_t v, call_.ExprValue(i.expr));
      values_.SetOutput(i, 0, PythonValue(v));
      return absl::OkStatus();
    }
    case K::View:
      return MakeView(i);
    case K::ViewInPlace:
      return ChangeView(i);
    case K::Compute:
      return computer_.Compute(i);
    case K::Copy:
      return computer_.Copy(i);
    case K::Group:
      return RunGroup(i);
    case K::Set:
      return SetStorage(i);
    case K::Resize:
      return Resize(i);
    case K::Custom:
      return Custom(i);
    case K::Number:
      return ComputeNumber(i);
    case K::If:
      return RunIf(i);
    case K::Loop:
      return RunLoop(i);
    case K::While:
      return RunWhile(i);
    default:
      break;
  }
  std::optional<PythonValue> constant = ConstantOf(i);
  if (!constant) return absl::InternalError("an instruction of an unknown kind");
  values_.SetOutput(i, 0, *std::move(constant));
  return absl::OkStatus();
}

absl::Status EagerRun::RunGroup(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(const bool done, computer_.ComputeGroup(i));
  return done ? absl::OkStatus() : RunBlock(i.blocks[0]);
}

absl::Status EagerRun::RunIf(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(const bool taken, TruthOf(values_[i.inputs[0]]));
  const int block = i.blocks[taken ? 0 : 1];
  const fb::EagerBlockT& b = *p_.blocks[block];
  values_.Bind(b.params, values_.Gather(i.inputs, 1, b.params.size()));
  SMELT_RETURN_IF_ERROR(RunBlock(block));
  values_.Bind(i.outputs, values_.Gather(b.results, 0, b.results.size()));
  return absl::OkStatus();
}

absl::Status EagerRun::RunLoop(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(const int64_t trips, values_[i.inputs[0]].AsInt());
  SMELT_ASSIGN_OR_RETURN(bool more, TruthOf(values_[i.inputs[1]]));
  const fb::EagerBlockT& b = *p_.blocks[i.blocks[0]];
  std::vector<PythonValue> carried = values_.Gather(i.inputs, 2, i.outputs.size());
  for (int64_t trip = 0; more && trip < trips; ++trip) {
    values_[b.params[0]] = PythonValue(trip);
    for (size_t k = 0; k < carried.size(); ++k) values_[b.params[k + 1]] = std::move(carried[k]);
    SMELT_RETURN_IF_ERROR(RunBlock(i.blocks[0]));
    SMELT_ASSIGN_OR_RETURN(more, TruthOf(values_[b.results[0]]));
    carried = values_.Gather(b.results, 1, i.outputs.size());
  }
  values_.Bind(i.outputs, std::move(carried));
  return absl::OkStatus();
}

absl::Status EagerRun::RunWhile(const fb::EagerInstrT& i) {
  const fb::EagerBlockT &cond = *p_.blocks[i.blocks[0]], &body = *p_.blocks[i.blocks[1]];
  std::vector<PythonValue> all = values_.InputsOf(i);
  bool ran = false;
  while (true) {
    values_.Bind(cond.params, all);
    SMELT_RETURN_IF_ERROR(RunBlock(i.blocks[0]));
    SMELT_ASSIGN_OR_RETURN(const bool more, TruthOf(values_[cond.results[0]]));
    if (!more) break;
    ran = true;
    values_.Bind(body.params, all);
    SMELT_RETURN_IF_ERROR(RunBlock(i.blocks[1]));
    for (size_t k = 0; k < body.results.size(); ++k) all[k] = values_[body.results[k]];
  }
  all.resize(i.outputs.size());
  // If the body never runs, PyTorch returns copies, as clone with preserve_format does.
  for (PythonValue& v : all) {
    if (ran || !v.IsTensor()) continue;
    ConcreteDecide decide;
    const Tensor& t = v.tensor();
    const Tensor copy = Tensor::EmptyStrided(t.dtype(), t.sizes(), view_rules::PreservedStrides(decide, t.geometry()));
    memory_.CopyElements(copy, t);
    v = PythonValue(copy);
  }
  values_.Bind(i.outputs, std::move(all));
  return absl::OkStatus();
}

absl::Status EagerRun::MakeView(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(PythonValue v, EagerView(i.op, values_.InputsOf(i)));
  values_.SetOutput(i, 0, std::move(v));
  return absl::OkStatus();
}

absl::Status EagerRun::ChangeView(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(Tensor self, values_.TensorOf(i.inputs[0]));
  SMELT_ASSIGN_OR_RETURN(const PythonValue v, EagerView(i.op, values_.InputsOf(i)));
  SMELT_ASSIGN_OR_RETURN(const Tensor now, v.AsTensor());
  memory_.Remember(self);
  self.SetGeometry(now.geometry());
  return absl::OkStatus();
}

absl::Status EagerRun::ComputeNumber(const fb::EagerInstrT& i) {
  const bool unpack = i.op == op::kPrimListUnpack || i.op == op::kPrimTupleUnpack;
  if (unpack && !i.inputs.empty() && values_[i.inputs[0]].IsNone()) {
    // The values that an early return leaves uninitialized. Nothing looks at the parts.
    for (size_t k = 0; k < i.outputs.size(); ++k) values_.SetOutput(i, k, PythonValue());
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<PythonValue> out, RunEagerPython(i.op, values_.InputsOf(i)));
  if (unpack ? out.size() != i.outputs.size() : out.size() < i.outputs.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(i.op, " gives ", out.size(), " values, ", i.outputs.size(), " are expected"));
  }
  for (size_t k = 0; k < i.outputs.size(); ++k) values_.SetOutput(i, k, out[k]);
  return i.symbol < 0 ? absl::OkStatus() : SetSymbol(i.symbol, out[0]);
}

absl::Status EagerRun::SetSymbol(int symbol, const PythonValue& v) {
  SMELT_ASSIGN_OR_RETURN(const int64_t value, v.AsInt());
  return call_.SetSymbolFromData(symbol, value);
}

absl::Status EagerRun::Custom(const fb::EagerInstrT& i) {
  call_.memory.in_operator = true;
  absl::Cleanup done = [&] { call_.memory.in_operator = false; };
  return RunCustomOperator(i, call_.program, call_.bound->values, memory_, values_);
}

absl::Status EagerRun::Resize(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(Tensor self, values_.TensorOf(i.inputs[0]));
  if (i.inputs.size() < 2) return absl::InternalError("resize_ to nothing");
  if (i.op == op::kResizeAsInPlace) {
    SMELT_ASSIGN_OR_RETURN(const Tensor like, values_.TensorOf(i.inputs[1]));
    return memory_.Resize(self, Geometry::Contiguous(like.geometry().sizes));
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, values_[i.inputs[1]].AsInts());
  return memory_.Resize(self, Geometry::Contiguous(sizes));
}

absl::Status EagerRun::SetStorage(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(Tensor self, values_.TensorOf(i.inputs[0]));
  memory_.Remember(self);
  if (i.inputs.size() == 1) {
    self.SetStorage(Storage::Allocate(0));
    self.SetGeometry(Geometry::Contiguous({0}));
    return absl::OkStatus();
  }
  SMELT_ASSIGN_OR_RETURN(Tensor source, values_.TensorOf(i.inputs[1]));
  if (source.dtype() != self.dtype()) return absl::FailedPreconditionError("set_: a source of another dtype");
  Geometry g = source.geometry();
  if (i.inputs.size() > 2) {
    if (i.inputs.size() < 5) return absl::InternalError("set_ without sizes");
    if (!source.geometry().IsContiguous())
      return absl::FailedPreconditionError("passed in tensor to be used as storage must be contiguous");
    SMELT_ASSIGN_OR_RETURN(const int64_t offset, values_[i.inputs[2]].AsInt());
    if (offset < 0 || __builtin_add_overflow(source.offset(), offset, &g.offset))
      return absl::FailedPreconditionError("set_: an offset out of range");
    SMELT_ASSIGN_OR_RETURN(g.sizes, values_[i.inputs[3]].AsInts());
    ConcreteDecide decide;
    g.strides = view_rules::ContiguousStrides(decide, g.sizes);
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, values_[i.inputs[4]].AsInts());
    if (strides.size() == g.sizes.size()) g.strides = std::move(strides);
    SMELT_ASSIGN_OR_RETURN(
        g, view_rules::AsStrided(decide, source.geometry(), g.sizes, g.strides, std::optional<int64_t>(g.offset)));
    SMELT_RETURN_IF_ERROR(decide.status());
    if (!source.View(g).InBounds()) return absl::FailedPreconditionError("set_: it reaches outside the storage");
  }
  self.SetStorage(source.storage());
  self.SetGeometry(std::move(g));
  return absl::OkStatus();
}

}  // namespace smelt
