// PyTorch's refusals before an operator writes, because of memory that its arguments share.
#ifndef SMELT_CORE_OP_WRITE_RULES_H_
#define SMELT_CORE_OP_WRITE_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/core/tensor/element_order.h"

namespace smelt {

// Returns whether the result is in a copy of its first operand's whole storage, at the operand's position in it, like
// results of PyTorch's clone_preserve_strides: an operator that reaches outside of it (resize_, as_strided) sees the
// operand's neighbours.
bool CopiesStorage(OpName op);

// Returns the rule for the argument called `argument` of an operator that writes. `functional` is its pure form, if
// there is one.
OperandSharing OperandSharingOf(OpName writes, OpName functional, absl::string_view argument);
// Returns whether elements at one address get the same value, however often it is written, so that PyTorch allows
// writing expanded memory: a number, or threshold_'s function, which changes nothing the second time.
bool WritesExpanded(OpName writes);
// Returns whether it writes one value to some of the elements, so that PyTorch allows writing expanded memory (with a
// warning): the memory takes the value if any of its elements does. `values` is the number of elements of index_put_'s
// values, and `rank` that of the written tensor, -1 if it is not known.
bool FillsSomeElements(OpName writes, std::optional<int64_t> values, bool accumulates, int rank);

// Returns whether an out= operator converts its operand to the dtype of the given tensor before it computes, as if that
// were its dtype argument.
bool ComputesInDTypeOfOut(OpName out);

// Returns PyTorch's message if it refuses to write a result into a tensor of another dtype. By torch.can_cast, a float
// cannot be written into an integer, nor a number into a bool, and a complex number only into a complex tensor. Some
// operators accept only a tensor of their result's dtype (or compute differently in another). Empty if it is allowed,
// as it always is for a copy.
std::string RefusedCast(OpName functional, DType from, DType to);

// Returns whether PyTorch's kernel treats the memory of an out= tensor as contiguous whatever its strides are, or does
// not write it if it is not contiguous; both results are unintended.
bool NeedsContiguousOut(OpName out);
inline constexpr char kNeedsContiguousOut[] =
    "an out= that is not contiguous, which PyTorch's kernel does not fill as its strides say";

// Returns the number with which an operator that writes half types computes if `number` is its argument: mul_ with a
// number converts it to a tensor of the written dtype, which rounds it; others use the number itself.
double NumberBeside(OpName writes, DType written, double number);

// Returns whether an out= operator gives a result that it resizes a contiguous layout, instead of that of its
// functional form.
bool ResizesContiguously(OpName out);

// Returns whether it has computed its result before it resizes an out= tensor that is also its operand. Other kernels
// then read the elements that the resized tensor shows.
bool ComputesBeforeItResizes(OpName out);
inline constexpr char kResizesItsOperand[] =
    "an out= that is an operand and takes other sizes, which PyTorch's kernel reads resized";

}  // namespace smelt

#endif  // SMELT_CORE_OP_WRITE_RULES_H_
