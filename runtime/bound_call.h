// The call that an instance runs: a plan bound to the call's sizes, where its slots lie, and the numbers that it has
// computed. Internal.
#ifndef SMELT_RUNTIME_BOUND_CALL_H_
#define SMELT_RUNTIME_BOUND_CALL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/runtime/bound_plan.h"
#include "smelt/runtime/executable.h"
#include "smelt/runtime/instance_memory.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/signature.h"
#include "smelt/runtime/strided.h"

namespace smelt {

// A scalar register: an integer (or bool) or a double.
struct Register {
  int64_t i = 0;
  double d = 0;
  bool is_float = false;

  static Register Int(int64_t v) { return {v, static_cast<double>(v), false}; }
  static Register Float(double v);
};

struct BoundCall {
  // All outlive this object.
  BoundCall(const Executable& program, Signature& signature, InstanceMemory& memory)
      : program(program), signature(signature), memory(memory) {}

  // --- views ---
  // Prepares a view for use: binds it to sizes from data if necessary, and checks that it is inside its slot.
  absl::Status UseView(int v);
  // The same for a view whose first element is read.
  absl::Status UseScalar(int v);
  char* Address(int v) const {
    const fb::ViewT& view = *plan->plan->views[v];
    return slots.base[view.slot] + bound->views[v].offset * ItemSize(static_cast<DType>(view.dtype));
  }
  StridedSpan SpanOf(int v) const;
  Geometry GeometryOf(int v) const;  // absolute: offset from the storage's first byte
  PlacedGeometry PlacedView(int view) const;
  absl::StatusOr<Tensor> TensorOf(int v);

  // --- slots ---
  absl::Status Allocate(int slot);
  std::shared_ptr<Storage> StorageOf(int slot) const;
  std::string SlotName(int slot) const;

  // --- numbers ---
  absl::StatusOr<int64_t> ExprValue(int e) const;
  // Gives a symbol that only data decide its value, and evaluates the expressions that wait for it.
  absl::Status SetSymbolFromData(int symbol, int64_t value);

  // --- on a device other than the host ---
  // Returns the elements of a view for the host to read: in their place, or a copy in `bytes`.
  absl::StatusOr<StridedSpan> ReadOnHost(int view, std::vector<char>* bytes);
  // Copies the elements of such a copy, which the host has changed, to their place.
  absl::Status WriteBack(int view, std::vector<char>* bytes);
  absl::Status ClearStatusWords();
  int64_t* StatusWords(int step) const;
  int64_t NumStatusWords() const;
  ExecutionDevice::Reports Reports() const;
  ExecutionDevice::Reports CheckReports() const;  // those of the prologue's checks
  // Waits for the launches so far and returns what they report.
  absl::Status CheckStatusWords();

  const Executable& program;
  Signature& signature;
  InstanceMemory& memory;
  absl::Span<const Datum> args;
  const ExecutablePlan* plan = nullptr;
  BoundPlan* bound = nullptr;
  std::vector<Register> registers;
  // Where the slots of the plan lie in this call.
  struct Slots {
    std::vector<char*> base;                        // by slot: its origin
    std::vector<std::shared_ptr<Storage>> storage;  // by slot: Fresh and Heap, and arguments' (as before the call)
    std::vector<int64_t> origin;                    // by slot: base - start of its storage, bytes
    std::vector<uint8_t> adopted;                   // by output: computed directly into the caller's tensor
  } slots;
  struct DeviceStatus {
    // On the device: eight for each step of the plan that runs, and for each check of its prologue.
    std::shared_ptr<Storage> words;
    bool is_open = false;           // launches have been given whose words have not been read
    bool checks_indices = false;    // the device does it in this call
    bool is_checked = false;        // one of these checks has failed, as the host knows already
    std::unique_ptr<WorkMark> end;  // of the call, if it is not over
    bool reports = false;           // the mark has what the launches have reported
  } device;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_BOUND_CALL_H_
