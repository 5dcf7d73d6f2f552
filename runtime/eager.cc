// The eager-order plan: the program as it was written, one operator at a time, on the caller's own tensors. Whatever
// memory the arguments, states and views share, the answer is eager PyTorch's, because the steps are. Operators that
// compute are pure calls on contiguous copies of their operands, so that no kernel sees shared memory.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/cause.h"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/ops.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/layout_rule.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/core/tensor/written_places.h"
#include "smelt/runtime/eager_numbers.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/runtime/eager_views.h"
#include "smelt/runtime/executor.h"
#include "smelt/runtime/operators.h"
#include "smelt/runtime/overlap.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

using Values = std::vector<EagerValue>;

// The bytes that a tensor reaches: equal ends if none.
std::pair<const char*, const char*> Reach(const Tensor& t) {
  const auto [low, high] = t.geometry().Span();
  const char* data = t.storage()->data();
  const int item = ItemSize(t.dtype());
  return {data + low * item, data + high * item};
}

bool MayShare(const Tensor& a, const Tensor& b) {
  const auto [a_low, a_high] = Reach(a);
  const auto [b_low, b_high] = Reach(b);
  return a_low < b_high && b_low < a_high;
}

bool SameElements(const Tensor& a, const Tensor& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.sizes()[d] != b.sizes()[d] || (a.sizes()[d] > 1 && a.strides()[d] != b.strides()[d])) return false;
  }
  return true;
}

std::vector<int64_t> ContiguousStrides(absl::Span<const int64_t> sizes) {
  ConcreteDecide decide;
  return view_rules::ContiguousStrides(decide, sizes);
}

absl::StatusOr<bool> Truth(const EagerValue& v) {
  SMELT_ASSIGN_OR_RETURN(std::vector<EagerValue> b, EagerNumber(op::kBool, {v}));
  return b[0].datum.as_bool();
}

}  // namespace

class EagerRun {
 public:
  EagerRun(Executor& e, const fb::EagerProgramT& program, int plan)
      : e_(e), p_(program), plan_(plan), values_(program.num_values) {}

  absl::Status Run(absl::Span<const Datum> args, std::vector<Datum>* outputs) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (p_.args[i] >= 0) values_[p_.args[i]] = EagerValue(args[i]);
      if (!args[i].IsTensor()) continue;
      visible_.push_back(args[i].tensor().storage());
      int64_t elements = 1;
      for (int64_t n : args[i].tensor().sizes()) {
        if (__builtin_mul_overflow(elements, std::max<int64_t>(n, 1), &elements) || elements > int64_t{1} << 40) {
          return absl::ResourceExhaustedError(absl::StrCat("argument ", i, " has too many elements"));
        }
      }
    }
    for (size_t i = 0; i < e_.states_.size(); ++i) {
      if (p_.states[i] >= 0) values_[p_.states[i]] = EagerValue(Datum(e_.states_[i]));
      if (e_.state_geometry_changed_) visible_.push_back(e_.states_[i].storage());
    }
    for (const auto& storage : e_.storages_) visible_.push_back(storage);
    for (const auto& t : p_.tensors) {
      Geometry g = Geometry::Contiguous(t->sizes);
      values_[t->value] = EagerValue(Datum(Tensor(e_.storages_[t->storage], static_cast<DType>(t->dtype), g)));
    }
    absl::Status status = CatchOutOfMemory([&] {
      SMELT_RETURN_IF_ERROR(Block(0));
      return Finish(outputs);
    });
    if (!status.ok()) Undo();
    return status;
  }

 private:
  absl::Status Finish(std::vector<Datum>* outputs) {
    for (size_t k = 0; k < outputs->size(); ++k) {
      const EagerValue& v = values_[p_.outputs[k]];
      if (v.IsList()) return absl::UnimplementedError("a list as an output");
      if (!(*outputs)[k].IsTensor()) {
        (*outputs)[k] = v.datum;
        continue;
      }
      const Tensor to = (*outputs)[k].tensor();
      if (!v.IsTensor() || !to.defined() || !to.InBounds() || v.datum.tensor().dtype() != to.dtype() ||
          v.datum.tensor().sizes() != to.sizes()) {
        return absl::InvalidArgumentError(absl::StrCat("output ", k, ": the memory given for it does not fit"));
      }
      Remember(to.storage());
      CopyElements(to, v.datum.tensor());
    }
    for (size_t i = 0; i < e_.states_.size(); ++i) {
      if (!e_.IsLaidOutAsExported(i)) e_.state_geometry_changed_ = true;
    }
    return e_.state_geometry_changed_ ? e_.AdoptReplacedStates() : absl::OkStatus();
  }

  absl::Status Block(int index) {
    for (const auto& i : p_.blocks[index]->instrs) {
      absl::Status s = Instr(*i);
      if (s.ok()) continue;
      // The arguments fit the signature, so PyTorch refuses this, too.
      if (absl::IsInvalidArgument(s)) s = absl::FailedPreconditionError(s.message());
      // An instruction with blocks inside has named the place already.
      return i->blocks.empty() ? e_.StateError(s, i->source) : s;
    }
    return absl::OkStatus();
  }

  void Set(const fb::EagerInstrT& i, size_t output, EagerValue v) {
    if (output < i.outputs.size() && i.outputs[output] >= 0) values_[i.outputs[output]] = std::move(v);
  }
  Values Inputs(const fb::EagerInstrT& i) const {
    Values out;
    for (int v : i.inputs) out.push_back(values_[v]);
    return out;
  }
  absl::StatusOr<Tensor> TensorOf(int v) const { return values_[v].AsTensor(); }

  absl::Status Instr(const fb::EagerInstrT& i) {
    using K = fb::EagerKind;
    const auto list = [&](const auto& numbers, auto make) {
      Values out;
      for (const auto& n : numbers) out.push_back(EagerValue(make(n)));
      Set(i, 0, EagerValue::List(std::move(out)));
      return absl::OkStatus();
    };
    switch (i.kind) {
      case K::None:
        Set(i, 0, EagerValue());
        return absl::OkStatus();
      case K::Int:
        Set(i, 0, EagerValue(Datum(i.ints[0])));
        return absl::OkStatus();
      case K::Float:
        Set(i, 0, EagerValue(Datum(i.floats[0])));
        return absl::OkStatus();
      case K::Bool:
        Set(i, 0, EagerValue(Datum(i.ints[0] != 0)));
        return absl::OkStatus();
      case K::String:
        Set(i, 0, EagerValue(Datum(i.text)));
        return absl::OkStatus();
      case K::IntList:
        return list(i.ints, [](int64_t v) { return Datum(v); });
      case K::FloatList:
        return list(i.floats, [](double v) { return Datum(v); });
      case K::BoolList:
        return list(i.ints, [](int64_t v) { return Datum(v != 0); });
      case K::Size: {
        SMELT_ASSIGN_OR_RETURN(const int64_t v, e_.ExprValue(i.expr));
        Set(i, 0, EagerValue(Datum(v)));
        return absl::OkStatus();
      }
      case K::View: {
        SMELT_ASSIGN_OR_RETURN(EagerValue v, EagerView(i.op, Inputs(i)));
        Set(i, 0, std::move(v));
        return absl::OkStatus();
      }
      case K::ViewInPlace: {
        SMELT_ASSIGN_OR_RETURN(Tensor self, TensorOf(i.inputs[0]));
        SMELT_ASSIGN_OR_RETURN(EagerValue v, EagerView(i.op, Inputs(i)));
        SMELT_ASSIGN_OR_RETURN(Tensor now, v.AsTensor());
        Remember(self);
        self.SetGeometry(now.geometry());
        return absl::OkStatus();
      }
      case K::Compute:
        return Compute(i);
      case K::Copy:
        return Copy(i);
      case K::Set:
        return SetStorage(i);
      case K::Resize:
        return Resize(i);
      case K::Custom:
        return Custom(i);
      case K::Number: {
        const bool unpack = i.op == op::kPrimListUnpack || i.op == op::kPrimTupleUnpack;
        if (unpack && !i.inputs.empty() && values_[i.inputs[0]].IsNone()) {
          // The values that an early return leaves uninitialized. Nothing looks at the parts.
          for (size_t k = 0; k < i.outputs.size(); ++k) Set(i, k, EagerValue());
          return absl::OkStatus();
        }
        SMELT_ASSIGN_OR_RETURN(Values out, EagerNumber(i.op, Inputs(i)));
        if (unpack ? out.size() != i.outputs.size() : out.size() < i.outputs.size()) {
          return absl::FailedPreconditionError(
              absl::StrCat(i.op, " gives ", out.size(), " values, ", i.outputs.size(), " are expected"));
        }
        for (size_t k = 0; k < i.outputs.size(); ++k) Set(i, k, out[k]);
        return i.symbol < 0 ? absl::OkStatus() : SetSymbol(i.symbol, out[0]);
      }
      case K::If: {
        SMELT_ASSIGN_OR_RETURN(const bool taken, Truth(values_[i.inputs[0]]));
        const int block = i.blocks[taken ? 0 : 1];
        const fb::EagerBlockT& b = *p_.blocks[block];
        Bind(b.params, Gather(i.inputs, 1, b.params.size()));
        SMELT_RETURN_IF_ERROR(Block(block));
        Bind(i.outputs, Gather(b.results, 0, b.results.size()));
        return absl::OkStatus();
      }
      case K::Loop: {
        SMELT_ASSIGN_OR_RETURN(const int64_t trips, values_[i.inputs[0]].AsInt());
        SMELT_ASSIGN_OR_RETURN(bool more, Truth(values_[i.inputs[1]]));
        const fb::EagerBlockT& b = *p_.blocks[i.blocks[0]];
        Values carried = Gather(i.inputs, 2, i.outputs.size());
        for (int64_t trip = 0; more && trip < trips; ++trip) {
          values_[b.params[0]] = EagerValue(Datum(trip));
          for (size_t k = 0; k < carried.size(); ++k) values_[b.params[k + 1]] = std::move(carried[k]);
          SMELT_RETURN_IF_ERROR(Block(i.blocks[0]));
          SMELT_ASSIGN_OR_RETURN(more, Truth(values_[b.results[0]]));
          carried = Gather(b.results, 1, i.outputs.size());
        }
        Bind(i.outputs, std::move(carried));
        return absl::OkStatus();
      }
      case K::While: {
        const fb::EagerBlockT &cond = *p_.blocks[i.blocks[0]], &body = *p_.blocks[i.blocks[1]];
        Values all = Gather(i.inputs, 0, i.inputs.size());
        bool ran = false;
        while (true) {
          Bind(cond.params, all);
          SMELT_RETURN_IF_ERROR(Block(i.blocks[0]));
          SMELT_ASSIGN_OR_RETURN(const bool more, Truth(values_[cond.results[0]]));
          if (!more) break;
          ran = true;
          Bind(body.params, all);
          SMELT_RETURN_IF_ERROR(Block(i.blocks[1]));
          for (size_t k = 0; k < body.results.size(); ++k) all[k] = values_[body.results[k]];
        }
        all.resize(i.outputs.size());
        // If the body never runs, PyTorch returns copies.
        for (EagerValue& v : all) {
          if (!ran && v.IsTensor()) v = EagerValue(Datum(LaidOutClone(v.datum.tensor())));
        }
        Bind(i.outputs, std::move(all));
        return absl::OkStatus();
      }
    }
    return absl::InternalError("an instruction of an unknown kind");
  }

  // Clones as clone with preserve_format does.
  Tensor LaidOutClone(const Tensor& t) {
    ConcreteDecide decide;
    Tensor out = Tensor::EmptyStrided(t.dtype(), t.sizes(), view_rules::PreservedStrides(decide, t.geometry()));
    CopyElements(out, t);
    return out;
  }
  Values Gather(const std::vector<int>& from, size_t first, size_t count) const {
    Values out;
    for (size_t k = 0; k < count; ++k) out.push_back(values_[from[first + k]]);
    return out;
  }
  void Bind(const std::vector<int>& to, Values with) {
    for (size_t k = 0; k < to.size() && k < with.size(); ++k) {
      if (to[k] >= 0) values_[to[k]] = std::move(with[k]);
    }
  }

  absl::Status SetSymbol(int symbol, const EagerValue& v) {
    SMELT_ASSIGN_OR_RETURN(const int64_t value, v.AsInt());
    const fb::SymbolDefT& s = *e_.bundle_.symbols[symbol];
    if (value < s.min || value > s.max) {
      return absl::FailedPreconditionError(
          absl::StrCat("a size computed from data is ", value, ", expected at least ", s.min));
    }
    e_.symbols_[symbol] = value;
    e_.symbol_known_[symbol] = 1;
    EvaluateExprs(e_.bundle_.exprs, e_.plan_->late_exprs, e_.symbols_, e_.symbol_known_, &e_.bound_->values);
    return absl::OkStatus();
  }

  // --- memory ---
  // Before the first change of a storage that the caller sees: what it held, for Undo.
  void Remember(const std::shared_ptr<Storage>& storage) {
    for (const Before& b : before_) {
      if (b.storage == storage) return;
    }
    if (std::find(visible_.begin(), visible_.end(), storage) == visible_.end()) return;
    before_.push_back({storage, std::string(storage->data(), static_cast<size_t>(storage->bytes()))});
  }
  // Called before a handle changes. Handles that the program made itself do no harm here.
  void Remember(const Tensor& handle) { handles_.push_back({handle, handle.storage(), handle.geometry()}); }
  // Called when PyTorch refuses, or memory is short: the effects so far must not be visible. Takes no memory.
  void Undo() {
    for (auto it = handles_.rbegin(); it != handles_.rend(); ++it) {
      it->handle.SetStorage(std::move(it->storage));
      it->handle.SetGeometry(std::move(it->geometry));
    }
    for (const Before& b : before_) {
      // The storage may have grown. Shrinking it to its old size cannot fail.
      if (b.storage->bytes() != static_cast<int64_t>(b.bytes.size())) {
        b.storage->Resize(static_cast<int64_t>(b.bytes.size())).IgnoreError();
        ++e_.arena_generation_;
      }
      std::copy(b.bytes.begin(), b.bytes.end(), b.storage->data());
    }
  }

  // Copies element by element; the source may overlap the destination in any way.
  void CopyElements(const Tensor& to, const Tensor& from) {
    if (to.NumElements() == 0 || SameElements(to, from)) return;
    const Tensor source = MayShare(to, from) ? from.Clone() : from;
    CopyStrided(static_cast<char*>(to.data()), to.strides(), static_cast<const char*>(source.data()), source.strides(),
                to.sizes(), ItemSize(to.dtype()), e_.pool_, e_.width_);
  }

  absl::Status CheckWritable(const Tensor& t, bool uniform = false) {
    if (!uniform && t.NumElements() != 0 && IsExpanded(t.geometry())) {
      return absl::FailedPreconditionError(
          "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
          "Please clone() the tensor before performing the operation.");
    }
    for (size_t s = 0; s < e_.storages_.size(); ++s) {
      if (e_.storages_[s] == t.storage() && !e_.bundle_.storages[s]->is_mutated) {
        return absl::FailedPreconditionError("the model writes to memory of a state that it does not write itself");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Write(const Tensor& to, const Tensor& value, bool uniform = false) {
    SMELT_RETURN_IF_ERROR(CheckWritable(to, uniform));
    if (value.dtype() != to.dtype()) return absl::InternalError("a value of another dtype than what it is written to");
    ConcreteDecide decide;
    SMELT_ASSIGN_OR_RETURN(Geometry g, view_rules::Expand(decide, value.geometry(), to.sizes()));
    SMELT_RETURN_IF_ERROR(decide.status());
    if (to.NumElements() > 0) Remember(to.storage());
    CopyElements(to, value.View(std::move(g)));
    return absl::OkStatus();
  }

  // Writes one value to some elements of expanded memory.
  absl::Status WriteWhatChanged(const Tensor& to, const Tensor& value) {
    if (value.dtype() != to.dtype() || value.sizes() != to.sizes())
      return absl::InternalError("a value of another type than what it is written to");
    if (to.NumElements() == 0) return absl::OkStatus();
    Remember(to.storage());
    CopyWhatChanged(to, value);
    return absl::OkStatus();
  }

  // Returns an error for an operand that PyTorch refuses, or that it computes in an unknown order.
  static absl::Status CheckOverlap(const Tensor& written, const Tensor& read, OperandSharing rule) {
    // PyTorch does not look at the elements if the operand is the written tensor itself.
    if (rule == OperandSharing::kNone && written.IsSame(read))
      return absl::FailedPreconditionError(kPartialOverlapMessage);
    if (rule == OperandSharing::kAny || written.NumElements() == 0 || read.NumElements() == 0) return absl::OkStatus();
    const bool whole = rule == OperandSharing::kNotPartly || rule == OperandSharing::kWholeOrNone;
    if (rule == OperandSharing::kNotPartly || rule == OperandSharing::kNone) {
      const Shared shared = WhatIsShared(written, read);
      if (shared == Shared::kPart || (shared == Shared::kWhole && !whole))
        return absl::FailedPreconditionError(kPartialOverlapMessage);
    }
    // It is computed in PyTorch's order, or checked when it is done.
    if (rule == OperandSharing::kNotPartly || rule == OperandSharing::kNone) return absl::OkStatus();
    const PlacedGeometry a = Placed(written, written.geometry()), b = Placed(read, read.geometry());
    return AreDisjoint(a, b) || (whole && AreSameElements(a, b))
               ? absl::OkStatus()
               : WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
  }
  absl::Status CheckOverlaps(const fb::EagerInstrT& i, int target) {
    SMELT_ASSIGN_OR_RETURN(Tensor written, TensorOf(target));
    for (size_t k = 0; k < i.sharing.size(); ++k) {
      const EagerValue& v = values_[i.inputs[k]];
      if (i.inputs[k] == target || !v.IsTensor()) continue;
      SMELT_RETURN_IF_ERROR(CheckOverlap(written, v.datum.tensor(), static_cast<OperandSharing>(i.sharing[k])));
    }
    return absl::OkStatus();
  }
  // Elements that share a place are written in PyTorch's order.
  static absl::Status CheckWindows(const fb::EagerInstrT& i, const Tensor& target) {
    if (i.uniform || !OverlapsItselfConcrete(target.geometry())) return absl::OkStatus();
    return absl::UnimplementedError("a write to overlapping windows");
  }
  // Checks a given result that got other sizes: PyTorch has looked at the operands before, and computes now.
  absl::Status CheckResized(const fb::EagerInstrT& i, const Tensor& target) const {
    for (size_t k = 0; k < i.sharing.size(); ++k) {
      const EagerValue& v = values_[i.inputs[k]];
      if (!v.IsTensor()) continue;
      const Tensor& t = v.datum.tensor();
      if (t.IsSame(target)) {
        if (i.flat)
          return absl::FailedPreconditionError("output with the shape of an operand doesn't match the broadcast shape");
        if (i.computes_first) continue;
        return absl::UnimplementedError("a given result that is an operand and takes other sizes, in which it is read");
      }
      if (static_cast<OperandSharing>(i.sharing[k]) != OperandSharing::kAny)
        SMELT_RETURN_IF_ERROR(CheckOverlap(target, t, OperandSharing::kWholeOrNone));
    }
    return absl::OkStatus();
  }
  // Returns the operands that lie in the written memory without PyTorch noticing it. If they do not change, the answer
  // is the same in whatever order PyTorch computes.
  std::vector<Tensor> WhatMayNotChange(const fb::EagerInstrT& i, const Tensor& target) {
    std::vector<Tensor> out;
    for (size_t k = 0; k < i.sharing.size(); ++k) {
      const EagerValue& v = values_[i.inputs[k]];
      if (static_cast<OperandSharing>(i.sharing[k]) != OperandSharing::kNone || !v.IsTensor()) continue;
      const Tensor& t = v.datum.tensor();
      if (i.inputs[k] != i.targets[0] && t.NumElements() > 0 && target.NumElements() > 0 &&
          !AreDisjoint(Placed(target, target.geometry()), Placed(t, t.geometry())))
        out.push_back(t);
    }
    return out;
  }
  // If a place is written twice, or emptied first, an operand could have its old contents at the end and yet be read
  // changed. So none of them may lie at a written place.
  absl::Status CheckReadApart(const fb::EagerInstrT& i, const Tensor& target, const std::vector<Tensor>& held) {
    if (held.empty()) return absl::OkStatus();
    if (i.grows) return WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
    SMELT_ASSIGN_OR_RETURN(const bool reads, WritesWhereItReads(target, held, [&](int kept, int given) {
                             Values inputs = Inputs(i);
                             for (size_t k = 0; k < inputs.size(); ++k) {
                               if (!inputs[k].IsTensor()) continue;
                               const Tensor& t = inputs[k].datum.tensor();
                               const bool is_target = i.inputs[k] == i.targets[0];
                               if (is_target || t.dtype() == target.dtype())
                                 inputs[k] =
                                     EagerValue(Datum(OneNumber(t.dtype(), t.sizes(), is_target ? kept : given)));
                             }
                             absl::StatusOr<std::vector<Datum>> results = Call(i.call, inputs, nullptr);
                             return results.ok() ? absl::StatusOr<Tensor>((*results)[0].tensor()) : results.status();
                           }));
    return reads ? WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder) : absl::OkStatus();
  }

  static PlacedGeometry Placed(const Tensor& t, Geometry g) { return {std::move(g), t.storage()->data(), t.dtype()}; }
  static absl::StatusOr<Geometry> Broadcast(const Tensor& t, absl::Span<const int64_t> sizes) {
    ConcreteDecide decide;
    SMELT_ASSIGN_OR_RETURN(Geometry g, view_rules::Expand(decide, t.geometry(), sizes));
    SMELT_RETURN_IF_ERROR(decide.status());
    return g;
  }
  static absl::StatusOr<ElementOrder> OrderOf(const Tensor& written, const Values& read) {
    std::vector<PlacedGeometry> operands;
    for (const EagerValue& v : read) {
      if (!v.IsTensor()) continue;
      SMELT_ASSIGN_OR_RETURN(Geometry g, Broadcast(v.datum.tensor(), written.sizes()));
      operands.push_back(Placed(v.datum.tensor(), std::move(g)));
    }
    ElementOrder order = OrderOfElements(Placed(written, written.geometry()), operands);
    if (order.effect == OrderEffect::kOpen)
      return WithCause(absl::UnimplementedError(kAnswerHangsOnOrder), Cause::kDependsOnOrder);
    return order;
  }
  // Returns copies of those operands that PyTorch reads before it writes anything.
  static Values ReadBefore(const fb::EagerInstrT& i, const Tensor& target, Values operands) {
    for (size_t k = 0; k < i.sharing.size(); ++k) {
      if (static_cast<OperandSharing>(i.sharing[k]) != OperandSharing::kAny || i.inputs[k] == i.targets[0]) continue;
      if (operands[k].IsTensor() && operands[k].datum.tensor().storage() == target.storage())
        operands[k] = EagerValue(Datum(operands[k].datum.tensor().Clone()));
    }
    return operands;
  }
  // Makes an elementwise write that reads what it has written, one element after the other, as PyTorch does. `call`
  // computes an element; without it the element is copied. Returns false if there is no such need, and does nothing.
  absl::StatusOr<bool> WriteInOrder(const Tensor& to, const Values& read, int call) {
    SMELT_ASSIGN_OR_RETURN(const ElementOrder order, OrderOf(to, read));
    if (order.effect == OrderEffect::kNone) return false;
    std::vector<Geometry> broadcast(read.size());
    for (size_t k = 0; k < read.size(); ++k) {
      if (!read[k].IsTensor()) continue;
      SMELT_ASSIGN_OR_RETURN(broadcast[k], Broadcast(read[k].datum.tensor(), to.sizes()));
    }
    Remember(to.storage());
    const std::vector<int64_t> one = {1};
    absl::Status status;
    VisitInOrder(to.sizes(), order.dims, [&](absl::Span<const int64_t> index) {
      Values args = read;
      for (size_t k = 0; k < read.size(); ++k) {
        if (!read[k].IsTensor() || (call >= 0 && read[k].datum.tensor().rank() == 0)) continue;
        args[k] = EagerValue(Datum(read[k].datum.tensor().View({one, one, OffsetOf(broadcast[k], index)})));
      }
      const Tensor element = to.View({one, one, OffsetOf(to.geometry(), index)});
      Tensor value = call < 0 ? args[0].datum.tensor() : Tensor();
      if (call >= 0) {
        absl::StatusOr<std::vector<Datum>> results = Call(call, args, &one);
        status = results.status();
        if (!status.ok()) return false;
        value = (*results)[0].tensor();
      }
      std::memmove(element.data(), value.data(), ItemSize(to.dtype()));
      return true;
    });
    if (!status.ok()) return status;
    return true;
  }

  // --- computing ---
  Executor& CallOf(int call) {
    auto& calls = e_.eager_calls_[plan_];
    if (calls.empty()) calls.resize(p_.calls.size());
    if (calls[call] == nullptr) {
      InstanceOptions options;
      options.threads = e_.width_;
      options.guard = e_.guard_;
      calls[call] = std::make_unique<Executor>(e_.program_->eager_calls(plan_)[call], options);
      calls[call]->random_ = e_.random_;
    }
    return *calls[call];
  }

  // Returns the operand in the form that the call needs: contiguous, and if `shape` is given, broadcast to it and in
  // one dim.
  absl::StatusOr<Tensor> Operand(const Tensor& t, const std::vector<int64_t>* shape) {
    Tensor from = t;
    if (shape != nullptr) {
      ConcreteDecide decide;
      SMELT_ASSIGN_OR_RETURN(Geometry g, view_rules::Expand(decide, t.geometry(), *shape));
      SMELT_RETURN_IF_ERROR(decide.status());
      from = t.View(std::move(g));
    }
    if (!from.geometry().IsContiguous()) {
      SMELT_RETURN_IF_ERROR(CheckMemoryFor(from.NumElements(), ItemSize(from.dtype())));
      from = from.Clone();
    }
    Geometry g = shape != nullptr ? Geometry::Contiguous({from.NumElements()}, from.offset())
                                  : Geometry::Contiguous(from.sizes(), from.offset());
    return from.View(std::move(g));
  }

  absl::StatusOr<std::vector<Datum>> Call(int call, const Values& inputs, const std::vector<int64_t>* shape) {
    std::vector<Datum> args, results;
    Executor& e = CallOf(call);
    for (const EagerValue& v : inputs) {
      if (v.IsTensor()) {
        const bool has_dims = !e.bundle_.args[args.size()]->sizes.empty();
        SMELT_ASSIGN_OR_RETURN(Tensor t, Operand(v.datum.tensor(), has_dims ? shape : nullptr));
        args.push_back(Datum(std::move(t)));
      } else if (v.IsList()) {
        return absl::FailedPreconditionError("a list where a tensor or number is expected");
      } else {
        args.push_back(v.datum);
      }
    }
    if (absl::Status ran = e.RunInto(args, &results); absl::IsInvalidArgument(ran)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "eager order: an operand's shape is not what the model states, as when it was changed through another name "
          "of the same tensor: ",
          ran.message()));
    } else if (!ran.ok()) {
      return ran;
    }
    e_.stats_.kernel_launches += e.stats_.kernel_launches;
    e_.stats_.library_calls += e.stats_.library_calls;
    e_.stats_.arena_bytes = std::max(e_.stats_.arena_bytes, e.stats_.arena_bytes);
    return results;
  }

  // A mask becomes an index for each of its dims, with as many elements as are true.
  absl::StatusOr<Geometry> IndexedLayout(absl::Span<const int> values) {
    SMELT_ASSIGN_OR_RETURN(const Tensor self, TensorOf(values[0]));
    std::vector<std::optional<Geometry>> indices;
    for (int v : values.subspan(1)) {
      if (v < 0 || !values_[v].IsTensor()) {
        indices.push_back(std::nullopt);
        continue;
      }
      const Tensor& t = values_[v].datum.tensor();
      if (ItemSize(t.dtype()) != 1 || t.dtype() == DType::kInt8) {
        indices.push_back(t.geometry());
        continue;
      }
      const Tensor mask = t.Clone();
      const auto* bytes = reinterpret_cast<const uint8_t*>(mask.data());
      const int64_t n = mask.NumElements(), found = n - std::count(bytes, bytes + n, 0);
      for (int d = 0; d < t.rank(); ++d) indices.push_back(Geometry{{found}, {t.rank()}, 0});
    }
    if (static_cast<int>(indices.size()) > self.rank())
      return absl::FailedPreconditionError("too many indices for tensor");
    ConcreteDecide decide;
    Geometry g = self.geometry();
    if (std::all_of(indices.begin(), indices.end(), [](const auto& i) { return !i.has_value(); })) {
      g.strides = view_rules::PreservedStrides(decide, self.geometry());
    } else {
      SMELT_ASSIGN_OR_RETURN(g, view_rules::IndexedOutput(decide, self.geometry(), absl::MakeConstSpan(indices)));
    }
    SMELT_RETURN_IF_ERROR(decide.status());
    g.offset = 0;
    return g;
  }

  // Returns the layout of each result of the call, or one for all.
  absl::StatusOr<std::vector<EvaluatedLayout>> LayoutsOf(const fb::EagerInstrT& i) {
    EvaluatedLayout layout;
    layout.kind = LayoutResult::kUnknown;
    if (i.layout == fb::EagerLayout::Indexed) {
      SMELT_ASSIGN_OR_RETURN(const Geometry g, IndexedLayout(i.layout_inputs));
      layout.kind = LayoutResult::kStrides;
      layout.strides = g.strides;
    }
    if (i.layout != fb::EagerLayout::Rule) return std::vector<EvaluatedLayout>{std::move(layout)};
    std::vector<LayoutInput> inputs;
    for (int v : i.layout_inputs) {
      LayoutInput& input = inputs.emplace_back();
      if (v < 0) continue;
      const EagerValue& value = values_[v];
      if (value.IsTensor()) {
        input.geometry = value.datum.tensor().geometry();
      } else if (value.IsNumber() && !value.datum.IsFloat()) {
        SMELT_ASSIGN_OR_RETURN(input.number, value.AsInt());
      }
    }
    return EvaluateLayoutRule(i.layout_rule, inputs);
  }
  // Copies a tensor's elements to memory with the given layout.
  absl::StatusOr<Tensor> LaidOut(const fb::EagerInstrT& i, const Tensor& t, const EvaluatedLayout& layout) {
    if (layout.kind == LayoutResult::kUnknown) return t;
    Geometry g = t.geometry();
    g.offset = 0;
    g.strides = layout.kind == LayoutResult::kContiguous ? ContiguousStrides(g.sizes) : layout.strides;
    if (g.strides == t.strides()) return t;
    const int64_t reach = ReachOfLayout(g.sizes, g.strides);
    if (reach < 0)
      return absl::FailedPreconditionError("eager order: a result has other dims than its layout rule is for");
    SMELT_RETURN_IF_ERROR(CheckMemoryFor(reach, ItemSize(t.dtype())));
    if (OverlapsItselfConcrete(g)) return absl::UnimplementedError("a copy whose elements overlap each other");
    const int input = layout.input < 0 ? -1 : i.layout_inputs[layout.input];
    const EagerValue* of = input < 0 ? nullptr : &values_[input];
    const bool whole = of != nullptr && of->IsTensor() && of->datum.tensor().sizes() == g.sizes &&
                       of->datum.tensor().dtype() == t.dtype();
    Tensor moved = whole ? of->datum.tensor().CloneWithGaps() : Tensor::EmptyStrided(t.dtype(), g.sizes, g.strides);
    CopyElements(moved, t);
    return moved;
  }

  absl::Status Compute(const fb::EagerInstrT& i) {
    const Values inputs = Inputs(i);
    std::vector<int64_t> shape;
    if (i.flat) {
      ConcreteDecide decide;
      std::vector<std::vector<int64_t>> shapes;
      for (int v : i.layout_inputs) {
        if (v >= 0 && values_[v].IsTensor()) shapes.push_back(values_[v].datum.tensor().geometry().sizes);
      }
      SMELT_ASSIGN_OR_RETURN(shape, view_rules::BroadcastSizes(decide, shapes));
      SMELT_RETURN_IF_ERROR(decide.status());
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<EvaluatedLayout> layouts, LayoutsOf(i));
    if (layouts.size() != i.outputs.size())
      layouts.resize(i.outputs.size(), layouts.empty() ? EvaluatedLayout() : layouts[0]);
    // The written tensors are checked first: PyTorch refuses before it computes.
    for (int t : i.targets) {
      if (t < 0) continue;
      SMELT_ASSIGN_OR_RETURN(Tensor target, TensorOf(t));
      SMELT_RETURN_IF_ERROR(CheckWritable(target, i.uniform || i.fills));
      if (i.flat && !i.grows && target.geometry().sizes != shape) {
        return absl::FailedPreconditionError(absl::StrCat("output with shape [", absl::StrJoin(target.sizes(), ", "),
                                                          "] doesn't match the broadcast shape [",
                                                          absl::StrJoin(shape, ", "), "]"));
      }
      SMELT_RETURN_IF_ERROR(CheckOverlaps(i, t));
      if (i.fills && IsExpanded(target.geometry())) continue;
      if (i.in_order && !i.uniform && target.geometry().sizes == shape) {
        SMELT_ASSIGN_OR_RETURN(const bool done, WriteInOrder(target, ReadBefore(i, target, inputs), i.call));
        if (done) return absl::OkStatus();
      } else if (!i.grows) {
        SMELT_RETURN_IF_ERROR(CheckWindows(i, target));
      }
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<Datum> results, Call(i.call, inputs, i.flat ? &shape : nullptr));
    for (size_t k = 0; k < i.outputs.size(); ++k) {
      if (!results[k].IsTensor()) {
        Set(i, k, EagerValue(results[k]));
        continue;
      }
      Tensor t = results[k].tensor();
      if (i.flat) {
        // The operand has one dim, or none if every operand has none.
        if (t.NumElements() != Geometry::Contiguous(shape).NumElements() || !t.geometry().IsContiguous()) {
          return absl::InternalError("a pointwise call gave another number of elements");
        }
        t = t.View(Geometry::Contiguous(shape, t.offset()));
      }
      if (i.targets[k] >= 0) {
        SMELT_ASSIGN_OR_RETURN(Tensor target, TensorOf(i.targets[k]));
        if (i.grows) {
          const bool resized = target.sizes() != t.sizes();
          Geometry to = Geometry::Contiguous(t.geometry().sizes);
          // Only dense layouts: as many elements are allocated as the tensor has.
          if (ReachOfLayout(to.sizes, layouts[k].strides) == t.NumElements() && t.NumElements() > 0 &&
              !OverlapsItselfConcrete({to.sizes, layouts[k].strides, 0}))
            to.strides = layouts[k].strides;
          SMELT_RETURN_IF_ERROR(ResizeTo(target, std::move(to)));
          SMELT_RETURN_IF_ERROR(resized ? CheckResized(i, target) : CheckWindows(i, target));
        }
        SMELT_RETURN_IF_ERROR(CheckReadApart(i, target, WhatMayNotChange(i, target)));
        if (i.fills && IsExpanded(target.geometry())) {
          SMELT_RETURN_IF_ERROR(WriteWhatChanged(target, t));
        } else {
          SMELT_RETURN_IF_ERROR(Write(target, t, i.uniform));
        }
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(t, LaidOut(i, t, layouts[k]));
      Set(i, k, EagerValue(Datum(std::move(t))));
    }
    return absl::OkStatus();
  }

  static OperatorValue ToOperator(const EagerValue& v) {
    OperatorValue out;
    out.is_list = v.IsList();
    if (v.IsList()) {
      for (const EagerValue& e : *v.list) out.list.push_back(ToOperator(e));
    } else if (v.IsTensor()) {
      out.datum = v.datum.tensor().View(v.datum.tensor().geometry());  // a handle whose geometry nobody else has
    } else {
      out.datum = v.datum;
    }
    return out;
  }
  static EagerValue FromOperator(const OperatorValue& v) {
    if (!v.is_list) return EagerValue(v.datum);
    Values elements;
    for (const OperatorValue& e : v.list) elements.push_back(FromOperator(e));
    return EagerValue::List(std::move(elements));
  }
  absl::Status PrepareWrite(const EagerValue& v) {
    if (v.IsList()) {
      for (const EagerValue& e : *v.list) SMELT_RETURN_IF_ERROR(PrepareWrite(e));
    } else if (v.IsTensor()) {
      SMELT_RETURN_IF_ERROR(CheckWritable(v.datum.tensor(), /*uniform=*/true));
      Remember(v.datum.tensor().storage());
    }
    return absl::OkStatus();
  }

  // The user's implementation works on the memory itself, so whatever shares it sees the writes.
  absl::Status Custom(const fb::EagerInstrT& i) {
    const fb::CustomOperatorT& op = *e_.bundle_.custom_operators[i.custom];
    std::vector<OperatorValue> args;
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      const EagerValue& v = values_[i.inputs[k]];
      if (op.args[k]->writes) SMELT_RETURN_IF_ERROR(PrepareWrite(v));
      args.push_back(ToOperator(v));
    }
    StatedSizes sizes;
    for (const auto& result : i.stated) {
      sizes.emplace_back();
      for (const auto& t : result->tensors) {
        std::vector<int64_t>& of = sizes.back().emplace_back();
        // A size that only the data decide is known when the result is.
        for (int e : t->sizes) of.push_back(e >= 0 && e_.bound_->values.known[e] ? e_.bound_->values.value[e] : -1);
      }
    }
    e_.in_operator_ = true;
    absl::Cleanup done = [&] { e_.in_operator_ = false; };
    SMELT_ASSIGN_OR_RETURN(std::vector<OperatorValue> results,
                           CallOperator(op, *e_.program_->custom_operator(i.custom), i, sizes, std::move(args)));
    for (size_t k = 0; k < results.size(); ++k) {
      // A result that is an argument is the program's own handle, which has the number already.
      if (!op.results[k]->is_argument) Set(i, k, FromOperator(results[k]));
    }
    return absl::OkStatus();
  }

  absl::Status Copy(const fb::EagerInstrT& i) {
    SMELT_ASSIGN_OR_RETURN(Tensor to, TensorOf(i.inputs[0]));
    SMELT_ASSIGN_OR_RETURN(Tensor from, TensorOf(i.inputs[1]));
    if (to.IsSame(from) || (to.data() == from.data() && to.dtype() == from.dtype() && to.sizes() == from.sizes() &&
                            to.strides() == from.strides()))
      return absl::OkStatus();
    SMELT_RETURN_IF_ERROR(CheckWritable(to));
    SMELT_RETURN_IF_ERROR(CheckOverlap(to, from, OperandSharing::kNotPartly));
    SMELT_ASSIGN_OR_RETURN(const bool done, WriteInOrder(to, {EagerValue(Datum(from))}, i.call));
    if (done) return absl::OkStatus();
    if (i.call < 0) return Write(to, from);
    const std::vector<int64_t> shape = from.geometry().sizes;
    SMELT_ASSIGN_OR_RETURN(std::vector<Datum> results, Call(i.call, {EagerValue(Datum(from))}, &shape));
    if (results.size() != 1 || !results[0].IsTensor() || results[0].tensor().NumElements() != from.NumElements()) {
      return absl::InternalError("a conversion gave no tensor");
    }
    const Tensor& t = results[0].tensor();
    return Write(to, t.View(Geometry::Contiguous(shape, t.offset())));
  }

  // --- geometry and storages ---
  // To a dense geometry, wherever the tensor begins.
  absl::Status ResizeTo(Tensor t, Geometry g) {
    const std::vector<int64_t>& sizes = g.sizes;
    if (t.geometry().sizes == sizes) return absl::OkStatus();
    g.offset = t.offset();
    int64_t end = ItemSize(t.dtype());
    for (int64_t n : sizes) {
      if (n < 0 || __builtin_mul_overflow(end, n, &end) || end > int64_t{1} << 46) {
        return absl::FailedPreconditionError("resize_: a size is out of range");
      }
    }
    if (end > 0) end += t.offset() * ItemSize(t.dtype());
    Remember(t);
    Remember(t.storage());
    if (end > t.storage()->bytes()) {
      SMELT_RETURN_IF_ERROR(CheckMemoryFor(end, 1));
      SMELT_RETURN_IF_ERROR(t.storage()->GrowTo(end));
      ++e_.arena_generation_;  // a state's memory may have moved
    }
    t.SetGeometry(std::move(g));
    return absl::OkStatus();
  }

  absl::Status Resize(const fb::EagerInstrT& i) {
    SMELT_ASSIGN_OR_RETURN(Tensor self, TensorOf(i.inputs[0]));
    if (i.inputs.size() < 2) return absl::InternalError("resize_ to nothing");
    if (i.op == op::kResizeAsInPlace) {
      SMELT_ASSIGN_OR_RETURN(Tensor like, TensorOf(i.inputs[1]));
      return ResizeTo(self, Geometry::Contiguous(like.geometry().sizes));
    }
    SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, values_[i.inputs[1]].AsInts());
    return ResizeTo(self, Geometry::Contiguous(sizes));
  }

  absl::Status SetStorage(const fb::EagerInstrT& i) {
    SMELT_ASSIGN_OR_RETURN(Tensor self, TensorOf(i.inputs[0]));
    Remember(self);
    if (i.inputs.size() == 1) {
      self.SetStorage(Storage::Allocate(0));
      self.SetGeometry(Geometry::Contiguous({0}));
      return absl::OkStatus();
    }
    SMELT_ASSIGN_OR_RETURN(Tensor source, TensorOf(i.inputs[1]));
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
      g.strides = ContiguousStrides(g.sizes);
      SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, values_[i.inputs[4]].AsInts());
      if (strides.size() == g.sizes.size()) g.strides = std::move(strides);
      ConcreteDecide decide;
      SMELT_ASSIGN_OR_RETURN(
          g, view_rules::AsStrided(decide, source.geometry(), g.sizes, g.strides, std::optional<int64_t>(g.offset)));
      SMELT_RETURN_IF_ERROR(decide.status());
      if (!source.View(g).InBounds()) return absl::FailedPreconditionError("set_: it reaches outside the storage");
    }
    self.SetStorage(source.storage());
    self.SetGeometry(std::move(g));
    return absl::OkStatus();
  }

  Executor& e_;
  const fb::EagerProgramT& p_;
  const int plan_;
  Values values_;
  std::vector<std::shared_ptr<Storage>> visible_;  // arguments' and states'
  struct Before {
    std::shared_ptr<Storage> storage;
    std::string bytes;
  };
  std::vector<Before> before_;
  struct Handle {
    Tensor handle;
    std::shared_ptr<Storage> storage;
    Geometry geometry;
  };
  std::vector<Handle> handles_;
};

absl::Status Executor::RunEager(int plan, absl::Span<const Datum> args, std::vector<Datum>* outputs) {
  return EagerRun(*this, *plan_->plan->eager, plan).Run(args, outputs);
}

}  // namespace smelt
