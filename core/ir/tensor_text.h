// Small tensors in the text form: smelt's exact `<Float(2): 1, 2>` and PyTorch's text of constants. Private to core/ir.
#ifndef SMELT_CORE_IR_TENSOR_TEXT_H_
#define SMELT_CORE_IR_TENSOR_TEXT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/type.h"
#include "smelt/core/tensor/tensor.h"

namespace smelt {

// Appends "<Float(2): 1, 2>", "<Float(2, 2, strides=[1, 2]): 1, 2, 3, 4>" (elements in row-major order of the indices),
// "<Undefined>". Exact: a NaN that is not the usual one is printed by its bits, "0x7fc00001".
void AppendTensor(const Tensor& t, std::string& out);
absl::StatusOr<Tensor> ParseTensor(Cursor& cursor);

// Parses PyTorch's "{3}" (a tensor of one element, of the type's dtype and sizes).
absl::StatusOr<Tensor> ParseOneElementTensor(Cursor& cursor, const Type* hint);
// Parses PyTorch's " 1  2  3  4 [ CPULongType{2,2} ]" as a whole. nullopt if it is something else, or in an unsupported
// form (complex numbers, wrapped columns): the text is then kept unchanged. Floating-point numbers have the few digits
// that PyTorch printed.
std::optional<Tensor> ParseTorchTensor(absl::string_view text, const Type* hint);

}  // namespace smelt

#endif  // SMELT_CORE_IR_TENSOR_TEXT_H_
