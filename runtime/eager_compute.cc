#include "smelt/runtime/eager_compute.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/region.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/exec/write_protocol.h"
#include "smelt/runtime/eager_layouts.h"

namespace smelt {
namespace {

// Returns the broadcast sizes of the operands of an instruction that sees one element at a time.
absl::StatusOr<std::vector<int64_t>> BroadcastShape(const fb::EagerInstrT& i, const EagerValues& values) {
  ConcreteDecide decide;
  std::vector<std::vector<int64_t>> shapes;
  for (int v : i.layout_inputs) {
    if (v >= 0 && values[v].IsTensor()) shapes.push_back(values[v].tensor().geometry().sizes);
  }
  SMELT_ASSIGN_OR_RETURN(std::vector<int64_t> shape, view_rules::BroadcastSizes(decide, shapes));
  SMELT_RETURN_IF_ERROR(decide.status());
  return shape;
}

// Elements of a write in order that are computed together, because none of them reads or writes what an earlier one has
// written.
class ElementWave {
 public:
  // Adds an element and its operands, as WriteInOrder gives them. Returns false if it belongs to the next wave.
  bool Takes(const Tensor& element, absl::Span<const PythonValue> operands) {
    const bool waits = IsWritten(element) || std::any_of(operands.begin(), operands.end(), [&](const PythonValue& v) {
                         return v.IsTensor() && IsWritten(v.tensor());
                       });
    if (!elements_.empty() && (waits || elements_.size() >= kMostElements)) return false;
    const char* at = static_cast<const char*>(element.data());
    for (int k = 0; k < ItemSize(element.dtype()); ++k) written_.insert(at + k);
    elements_.push_back(element);
    operands_.emplace_back(operands.begin(), operands.end());
    return true;
  }
  int64_t size() const { return static_cast<int64_t>(elements_.size()); }

  // The operands with all elements side by side.
  std::vector<PythonValue> Operands() const {
    std::vector<PythonValue> out = operands_[0];
    for (size_t k = 0; k < out.size(); ++k) {
      if (!out[k].IsTensor() || out[k].tensor().rank() == 0) continue;
      const DType dtype = out[k].tensor().dtype();
      const Tensor joined = Tensor::EmptyStrided(dtype, {size()}, {1});
      for (size_t i = 0; i < operands_.size(); ++i) {
        std::memcpy(static_cast<char*>(joined.data()) + i * ItemSize(dtype), operands_[i][k].tensor().data(),
                    ItemSize(dtype));
      }
      out[k] = PythonValue(joined);
    }
    return out;
  }
  // `values` has one value for all elements if no operand has dims.
  absl::Status Write(const Tensor& values) const {
    const int64_t item = ItemSize(values.dtype()), given = values.NumElements();
    if ((given != size() && given != 1) || !values.geometry().IsContiguous())
      return absl::InternalError("a pointwise call gave another number of elements");
    for (size_t i = 0; i < elements_.size(); ++i) {
      const int64_t from = given == 1 ? 0 : static_cast<int64_t>(i) * item;
      std::memcpy(elements_[i].data(), static_cast<const char*>(values.data()) + from, item);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMostElements = 1 << 12;

  bool IsWritten(const Tensor& element) const {
    const char* at = static_cast<const char*>(element.data());
    for (int k = 0; k < ItemSize(element.dtype()); ++k) {
      if (written_.contains(at + k)) return true;
    }
    return false;
  }

  std::vector<Tensor> elements_;
  std::vector<std::vector<PythonValue>> operands_;  // by element
  absl::flat_hash_set<const char*> written_;        // bytes
};

}  // namespace

absl::StatusOr<bool> EagerComputer::WriteElements(const Tensor& to, absl::Span<const PythonValue> read, int call) {
  bool remembered = false;
  const auto remember = [&] {
    if (!std::exchange(remembered, true)) memory_.Remember(to.storage());
  };
  if (call < 0 || calls_.HasFunction(call)) {
    // Nothing is launched: the elements need not be computed together.
    const std::vector<int64_t> one = {1};
    return WriteInOrder(to, read, [&](const Tensor& element, absl::Span<const PythonValue> elements) -> absl::Status {
      remember();
      PythonValue value = elements[0];
      if (call >= 0) {
        SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, Call(call, elements, &one));
        value = FromDatum(results[0]);
      }
      if (!value.IsTensor() || value.tensor().NumElements() != 1 || value.tensor().dtype() != element.dtype())
        return absl::InternalError("a pointwise call gave no element");
      std::memcpy(element.data(), value.tensor().data(), ItemSize(element.dtype()));
      return absl::OkStatus();
    });
  }
  const auto write = [&](ElementWave& wave) -> absl::Status {
    remember();
    const std::vector<PythonValue> operands = wave.Operands();
    const std::vector<int64_t> shape = {wave.size()};
    SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, Call(call, operands, &shape));
    return wave.Write(results[0].tensor());
  };
  ElementWave wave;
  SMELT_ASSIGN_OR_RETURN(const bool done,
                         WriteInOrder(to, read, [&](const Tensor& element, absl::Span<const PythonValue> elements) {
                           if (wave.Takes(element, elements)) return absl::OkStatus();
                           absl::Status status = write(wave);
                           wave = ElementWave();
                           wave.Takes(element, elements);
                           return status;
                         }));
  if (done && wave.size() > 0) SMELT_RETURN_IF_ERROR(write(wave));
  return done;
}

absl::StatusOr<bool> EagerComputer::PrepareTargets(const fb::EagerInstrT& i, absl::Span<const PythonValue> inputs,
                                                   const std::vector<int64_t>& shape) {
  const EagerWriteRules rules(i, values_);
  for (int t : i.targets) {
    if (t < 0) continue;
    SMELT_ASSIGN_OR_RETURN(const Tensor target, values_.TensorOf(t));
    SMELT_RETURN_IF_ERROR(memory_.CheckWritable(target, i.uniform || i.fills));
    if (i.flat && !i.grows && target.geometry().sizes != shape) {
      return absl::FailedPreconditionError(absl::StrCat("output with shape [", absl::StrJoin(target.sizes(), ", "),
                                                        "] doesn't match the broadcast shape [",
                                                        absl::StrJoin(shape, ", "), "]"));
    }
    SMELT_RETURN_IF_ERROR(rules.CheckOperands(t));
    if (i.fills && IsExpanded(target.geometry())) continue;
    if (i.in_order && !i.uniform && target.geometry().sizes == shape) {
      std::vector<PythonValue> operands(inputs.begin(), inputs.end());
      rules.CopyOperandsReadFirst(target, &operands);
      SMELT_ASSIGN_OR_RETURN(const bool done, WriteElements(target, operands, i.call));
      if (done) return true;
    } else if (!i.grows) {
      SMELT_RETURN_IF_ERROR(rules.CheckWindows(target));
    }
  }
  return false;
}

absl::Status EagerComputer::StoreToTarget(const fb::EagerInstrT& i, size_t output, const Tensor& result,
                                          const EvaluatedLayout& layout) {
  const EagerWriteRules rules(i, values_);
  SMELT_ASSIGN_OR_RETURN(const Tensor target, values_.TensorOf(i.targets[output]));
  if (i.grows) {
    const bool resized = target.sizes() != result.sizes();
    Geometry to = Geometry::Contiguous(result.geometry().sizes);
    // Only dense layouts: as many elements are allocated as the tensor has.
    if (ReachOfLayout(to.sizes, layout.strides) == result.NumElements() && result.NumElements() > 0 &&
        !OverlapsItselfConcrete({to.sizes, layout.strides, 0}))
      to.strides = layout.strides;
    SMELT_RETURN_IF_ERROR(memory_.Resize(target, std::move(to)));
    SMELT_RETURN_IF_ERROR(resized ? rules.CheckResized(target) : rules.CheckWindows(target));
  }
  SMELT_RETURN_IF_ERROR(
      rules.CheckReadApart(target, [&](absl::Span<const PythonValue> inputs) -> absl::StatusOr<Tensor> {
        SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, Call(i.call, inputs, nullptr));
        return results[0].tensor();
      }));
  return i.fills && IsExpanded(target.geometry()) ? memory_.WriteWhatChanged(target, result)
                                                  : memory_.Write(target, result, i.uniform);
}

absl::Status EagerComputer::Compute(const fb::EagerInstrT& i) {
  const std::vector<PythonValue> inputs = values_.InputsOf(i);
  std::vector<int64_t> shape;
  if (i.flat) {
    SMELT_ASSIGN_OR_RETURN(shape, BroadcastShape(i, values_));
  }
  SMELT_ASSIGN_OR_RETURN(const std::vector<EvaluatedLayout> layouts, LayoutsOfResults(i, values_));
  SMELT_ASSIGN_OR_RETURN(const bool done, PrepareTargets(i, inputs, shape));
  if (done) return absl::OkStatus();
  SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, Call(i.call, inputs, i.flat ? &shape : nullptr));
  for (size_t k = 0; k < i.outputs.size(); ++k) {
    if (!results[k].IsTensor()) {
      values_.SetOutput(i, k, FromDatum(results[k]));
      continue;
    }
    Tensor t = results[k].tensor();
    if (i.flat) {
      // The operand has one dim, or none if every operand has none.
      if (t.NumElements() != Geometry::Contiguous(shape).NumElements() || !t.geometry().IsContiguous())
        return absl::InternalError("a pointwise call gave another number of elements");
      t = t.View(Geometry::Contiguous(shape, t.offset()));
    }
    if (i.targets[k] >= 0) {
      SMELT_RETURN_IF_ERROR(StoreToTarget(i, k, t, layouts[k]));
      continue;
    }
    SMELT_ASSIGN_OR_RETURN(t, LaidOut(i, values_, memory_, t, layouts[k]));
    values_.SetOutput(i, k, PythonValue(std::move(t)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> EagerComputer::ComputeGroup(const fb::EagerInstrT& i) {
  const std::vector<PythonValue> inputs = values_.InputsOf(i);
  if (!EagerWriteRules(i, values_).AllowGroup()) return false;
  for (int t : i.targets) {
    if (t >= 0 && !memory_.CheckWritable(values_[t].tensor()).ok()) return false;
  }
  const absl::StatusOr<std::vector<EvaluatedLayout>> layouts = LayoutsOfResults(i, values_);
  if (!layouts.ok()) return false;
  const absl::StatusOr<std::vector<Datum>> results = Call(i.call, inputs, nullptr);
  if (!results.ok()) return false;
  std::vector<Tensor> made;
  for (size_t k = 0; k < results->size(); ++k) {
    if (!(*results)[k].IsTensor()) return false;
    Tensor t = (*results)[k].tensor();
    if (i.targets[k] >= 0) {
      const Tensor target = values_[i.targets[k]].tensor();
      if (t.sizes() != target.sizes() || t.dtype() != target.dtype()) return false;
    } else {
      absl::StatusOr<Tensor> laid_out = LaidOut(i, values_, memory_, t, (*layouts)[k]);
      if (!laid_out.ok()) return false;
      t = *std::move(laid_out);
      // A tensor to which all of another one was copied is still a tensor of its own.
      const auto lies_in_it = [&](const Tensor& other) { return other.storage() == t.storage(); };
      if (std::any_of(made.begin(), made.end(), lies_in_it) ||
          std::any_of(inputs.begin(), inputs.end(),
                      [&](const PythonValue& v) { return v.IsTensor() && lies_in_it(v.tensor()); }))
        t = t.CloneWithGaps();
    }
    made.push_back(std::move(t));
  }
  for (size_t k = 0; k < made.size(); ++k) {
    if (i.targets[k] >= 0) {
      SMELT_RETURN_IF_ERROR(memory_.Write(values_[i.targets[k]].tensor(), made[k]));
    } else {
      values_.SetOutput(i, k, PythonValue(made[k]));
    }
  }
  return true;
}

absl::Status EagerComputer::Copy(const fb::EagerInstrT& i) {
  SMELT_ASSIGN_OR_RETURN(const Tensor to, values_.TensorOf(i.inputs[0]));
  SMELT_ASSIGN_OR_RETURN(const Tensor from, values_.TensorOf(i.inputs[1]));
  if (to.IsSame(from) || (to.data() == from.data() && to.dtype() == from.dtype() && to.sizes() == from.sizes() &&
                          to.strides() == from.strides()))
    return absl::OkStatus();
  SMELT_RETURN_IF_ERROR(memory_.CheckWritable(to));
  SMELT_RETURN_IF_ERROR(CheckOperand(to, from, OperandSharing::kNotPartly));
  const PythonValue source(from);
  SMELT_ASSIGN_OR_RETURN(const bool done, WriteElements(to, {&source, 1}, i.call));
  if (done) return absl::OkStatus();
  if (i.call < 0) return memory_.Write(to, from);
  const std::vector<int64_t> shape = from.geometry().sizes;
  SMELT_ASSIGN_OR_RETURN(const std::vector<Datum> results, Call(i.call, {&source, 1}, &shape));
  if (results.size() != 1 || !results[0].IsTensor() || results[0].tensor().NumElements() != from.NumElements())
    return absl::InternalError("a conversion gave no tensor");
  const Tensor& t = results[0].tensor();
  return memory_.Write(to, t.View(Geometry::Contiguous(shape, t.offset())));
}

}  // namespace smelt
