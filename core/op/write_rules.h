// What PyTorch refuses before an operator writes, because of memory that its arguments share.
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

// Whether the result lies in a copy of its first operand's whole storage, at the operand's place in it, as those do
// that PyTorch makes by clone_preserve_strides: what reaches outside of it (resize_, as_strided) sees the operand's
// neighbours.
bool CopiesStorage(OpName op);

// Of an operator that writes, `functional` being its pure form if there is one: for its argument called `argument`.
OperandSharing OperandSharingOf(OpName writes, OpName functional, absl::string_view argument);
// Whether elements that lie in one place are given one value, however often it is written, so that PyTorch lets it
// write expanded memory: a number, or threshold_'s function, which changes nothing the second time.
bool WritesExpanded(OpName writes);
// Whether it writes one value to some of the elements, so that PyTorch lets it write expanded memory (with a warning):
// the memory takes the value where any of its elements does. `values`: how many elements index_put_'s have. `rank`: of
// what is written, -1 if that is not known.
bool FillsSomeElements(OpName writes, std::optional<int64_t> values, bool accumulates, int rank);

// Whether an out= operator converts its operand to the dtype of the tensor that is given before it computes, as if that
// were its argument dtype.
bool ComputesInDTypeOfOut(OpName out);

// What PyTorch says of a result that it does not write into a tensor of another dtype: by torch.can_cast a float does
// not go into an integer, nor a number into a bool, a complex one only into a complex; and some operators take a tensor
// of their result's dtype alone (or compute otherwise in another). Empty if it goes, as it always does where a copy is
// asked for.
std::string RefusedCast(OpName functional, DType from, DType to);

// Whether PyTorch's kernel takes the memory of an out= for contiguous whatever its strides say, or leaves it as it is
// where it is not: an answer that nobody can mean.
bool NeedsContiguousOut(OpName out);
inline constexpr char kNeedsContiguousOut[] =
    "an out= that is not contiguous, which PyTorch's kernel does not fill as its strides say";

// What an operator that writes half types computes with where `number` is its argument: mul_ with a number makes a
// tensor of the written one's dtype of it, which rounds it; others take the number itself.
double NumberBeside(OpName writes, DType written, double number);

// Whether an out= operator lays out a result that it resizes contiguously, and not as its functional form does.
bool ResizesContiguously(OpName out);

// Whether it has computed its result when it resizes an out= that is its operand, too. Other kernels then read what the
// resized tensor shows.
bool ComputesBeforeItResizes(OpName out);
inline constexpr char kResizesItsOperand[] =
    "an out= that is an operand and takes other sizes, which PyTorch's kernel reads resized";

}  // namespace smelt

#endif  // SMELT_CORE_OP_WRITE_RULES_H_
