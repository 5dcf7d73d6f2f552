// How PyTorch writes memory: what it refuses, and the order of an elementwise write that reads what it has written.
//
//   SMELT_RETURN_IF_ERROR(CheckNotExpanded(target));
//   SMELT_RETURN_IF_ERROR(CheckOperand(target, operand, OperandSharing::kNotPartly));
//   bool done = *WriteInOrder(target, operands, [&](const Tensor& element, auto elements) { ... });
//   if (!done) ...;   // all operands may be read before anything is written
//
// The reference evaluator and the runtime follow it. Errors name no operator: callers add it.
#ifndef SMELT_EXEC_WRITE_PROTOCOL_H_
#define SMELT_EXEC_WRITE_PROTOCOL_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/tensor/element_order.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/exec/value.h"

namespace smelt {

inline constexpr char kInternalOverlapMessage[] =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation.";
inline constexpr char kPartialOverlapMessage[] =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation.";

// PyTorch's approximation of memory that two tensors share (at::get_overlap_status): it checks only tensors that cover
// their span without gaps, and assumes that others share nothing. kWhole means equal strides over the same bytes.
enum class Shared { kNothing, kWhole, kPart };
Shared WhatIsShared(const PlacedGeometry& a, const PlacedGeometry& b);
Shared WhatIsShared(const Tensor& a, const Tensor& b);

PlacedGeometry Placed(const Tensor& t);

// Returns whether some dim of several elements has stride 0. PyTorch refuses to write such a tensor (it writes
// overlapping windows in order).
bool IsExpanded(const Geometry& g);
// PyTorch's refusal to write such a tensor, if it has elements.
absl::Status CheckNotExpanded(const Tensor& written);

// The error for a result that depends on how PyTorch computes. Its cause is kDependsOnOrder.
absl::Status DependsOnOrderError();

// Returns an error for an operand that PyTorch refuses, or that it computes in an unknown order. Operands with
// kNotPartly need WriteInOrder too. Operands with kNone may lie in the written memory without PyTorch noticing it: see
// IsReadWhileWritten.
absl::Status CheckOperand(const Tensor& written, const Tensor& read, OperandSharing rule);
// Returns whether elements of both share a place. If the operand does not change, the result is the same in whatever
// order PyTorch computes; otherwise it depends on it.
bool IsReadWhileWritten(const Tensor& written, const Tensor& read);

// Returns how the order of the elements affects an elementwise write of the values of `read`, which are broadcast.
// Tensors that do not fit have no effect: the operator refuses them. DependsOnOrderError if the order is not known.
absl::StatusOr<ElementOrder> OrderOfWrite(const Tensor& written, absl::Span<const PythonValue> read);

// Makes an elementwise write that reads what it has written, one element after the other as PyTorch does. `write` gets
// one element of `written`, and `read` with one element in place of each tensor that has dims; those elements have one
// dim. Returns false, without having done anything, if there is no need.
absl::StatusOr<bool> WriteInOrder(
    const Tensor& written, absl::Span<const PythonValue> read,
    absl::FunctionRef<absl::Status(const Tensor& element, absl::Span<const PythonValue> elements)> write);

}  // namespace smelt

#endif  // SMELT_EXEC_WRITE_PROTOCOL_H_
