// PyTorch's view operators, each described once: its arguments' meaning by core/tensor/view_rules.h, over numbers for
// the runtime and over expressions for the compiler, and its effect on the operand's index space.
//
//   const ViewOp* op = FindViewOp("aten::select.int");
//   ViewResult<ConcreteDecide> r = *ApplyView(*op, arguments, base, DType::kFloat32, decide);
//   r.parts[0].geometry;   // over the operand's storage
//
// To add a view operator, write its rule and its row in view_op.cc.
#ifndef SMELT_CORE_TENSOR_VIEW_OP_H_
#define SMELT_CORE_TENSOR_VIEW_OP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

// The way in which a view's indices follow from those of its operand.
enum class ViewShape : uint8_t {
  kUnknown,
  kWhole,      // the same: alias, detach
  kComponent,  // a part of each element: real, imag
  kSelect,
  kSlice,
  kNarrow,
  kUnbind,
  kSplit,   // parts of given sizes along a dim
  kPieces,  // parts along a dim whose sizes follow from the operand's: chunk
  kTranspose,
  kReverse,  // the dims in reverse order
  kPermute,
  kUnsqueeze,
  kSqueeze,
  kDiagonal,
  kAnywhere,  // any element of the storage: as_strided
  kRepeats,   // one element may be at several indices: expand, unfold
  kNewSpace,  // the elements in their order, at other indices: view, reshape
};

// The arguments of a call in the order of the operator's schema; argument 0 is the operand. The getters return an error
// if there is no such argument, or if it is of another kind.
template <typename D>
class ViewArguments {
 public:
  virtual ~ViewArguments() = default;

  virtual bool IsNone(size_t i) const = 0;  // or absent
  virtual bool IsList(size_t i) const = 0;
  virtual absl::StatusOr<typename D::Index> Int(size_t i) const = 0;
  virtual absl::StatusOr<std::vector<typename D::Index>> Ints(size_t i) const = 0;
  // A number, or numbers, that are known without evaluating expressions: dims.
  virtual absl::StatusOr<int64_t> Number(size_t i) const = 0;
  virtual absl::StatusOr<std::vector<int64_t>> Numbers(size_t i) const = 0;
  virtual absl::StatusOr<std::vector<typename D::Index>> SizesOfTensor(size_t i) const = 0;
  virtual absl::StatusOr<DType> AsDType(size_t i) const = 0;
};

template <typename D>
struct ViewResult {
  struct Part {
    typename D::Geometry geometry;
    DType dtype;
  };
  std::vector<Part> parts;
  bool is_list = false;     // the operator returns a list of the parts
  bool is_operand = false;  // PyTorch returns the operand itself, which its only part describes
  // If set, the parts are views of a copy of the operand's elements with these strides.
  std::optional<std::vector<typename D::Index>> copy_strides;
};

template <typename D>
struct ViewCall;

struct ViewOp {
  template <typename D>
  using Rule = absl::Status (*)(ViewCall<D>& call);

  const char* names;  // without "aten::", with the overload; separated by spaces
  ViewShape shape;
  Rule<ConcreteDecide> concrete;  // null if the runtime does not execute it
  Rule<SymbolicDecide> symbolic;  // null if the compiler does not have it as a view: it may copy
  bool changes_dtype = false;
};

// Returns null if the operator is not a view operator. The name includes the overload; "aten::view".
const ViewOp* FindViewOp(absl::string_view full_name);
// Returns the description of an overload of the operator, whichever; null if it is not a view operator. Overloads of one
// operator have one shape.
const ViewOp* FindViewOpByName(absl::string_view name);

// Returns the views of an operand with this geometry and dtype. The operator must have a rule for D. An error does not
// name the operator.
template <typename D>
absl::StatusOr<ViewResult<D>> ApplyView(const ViewOp& op, const ViewArguments<D>& arguments,
                                        const typename D::Geometry& base, DType dtype, D& decide);

}  // namespace smelt

#endif  // SMELT_CORE_TENSOR_VIEW_OP_H_
