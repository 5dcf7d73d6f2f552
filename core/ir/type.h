// The types of values. A Type is an immutable value, cheap to copy.
//
//   Type t = Type::Tensor(DType::kFloat32, {4, 8});            // contiguous
//   t.ToString()  == "Float(4, 8, strides=[8, 1])"             // as TorchScript prints a complete tensor type
//   Type::List(Type::Int()).ToString() == "int[]"
#ifndef SMELT_CORE_IR_TYPE_H_
#define SMELT_CORE_IR_TYPE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/symbol/expr.h"
#include "smelt/core/tensor/dtype.h"

namespace smelt {

enum class TypeKind {
  kTensor,
  kInt,  // also SymInt, ScalarType, MemoryFormat, Layout: integers in PyTorch
  kFloat,
  kBool,
  kComplex,
  kNumber,  // Scalar: int, float, bool or complex
  kString,
  kNone,
  kDevice,
  kGenerator,
  kOptional,  // of element
  kList,      // of element
  kTuple,     // of elements
  kDict,      // of elements[0] -> elements[1]
  kFuture,    // of element
  kClass,     // named; attributes are untyped here
  kUnion,     // of elements
  kAny,
};

// The known facts about a tensor: each part may be missing (TorchScript's `Tensor` says nothing). If the rank is known
// but a size or stride is not, as in `Float(*, 4)`, it is Expr::Poison().
struct TensorType {
  std::optional<DType> dtype;
  std::optional<std::vector<Expr>> sizes;
  std::optional<std::vector<Expr>> strides;  // elements; only with sizes
  bool IsComplete() const;                   // all is known; sizes and strides may be symbolic
  int rank() const { return sizes ? static_cast<int>(sizes->size()) : -1; }
};

std::vector<Expr> ContiguousStrides(absl::Span<const Expr> sizes);

class Type {
 public:
  Type() : Type(TypeKind::kAny) {}
  explicit Type(TypeKind kind) : kind_(kind) {}
  static Type Tensor() { return Tensor(TensorType()); }
  static Type Tensor(TensorType t);
  static Type Tensor(DType dtype, std::vector<Expr> sizes);                             // contiguous
  static Type Tensor(DType dtype, std::vector<Expr> sizes, std::vector<Expr> strides);  // complete
  static Type Int() { return Type(TypeKind::kInt); }
  static Type Float() { return Type(TypeKind::kFloat); }
  static Type Bool() { return Type(TypeKind::kBool); }
  static Type None() { return Type(TypeKind::kNone); }
  static Type String() { return Type(TypeKind::kString); }
  static Type Number() { return Type(TypeKind::kNumber); }
  static Type Device() { return Type(TypeKind::kDevice); }
  static Type List(Type element);
  static Type Optional(Type element);
  static Type Tuple(std::vector<Type> elements);
  static Type Dict(Type key, Type value);
  static Type Future(Type element);
  static Type Union(std::vector<Type> elements);
  // A class, or any type that is only a name here: `__torch__.Net`, `Stream`, the type variable `t` of a schema.
  static Type Class(std::string name);

  TypeKind kind() const { return kind_; }
  bool IsTensor() const { return kind_ == TypeKind::kTensor; }
  const TensorType& tensor() const;         // CHECKs IsTensor
  const Type& element() const;              // of List, Optional, Future
  absl::Span<const Type> elements() const;  // of Tuple, Dict, Union
  const std::string& class_name() const;    // of Class

  bool operator==(const Type& o) const;
  bool operator!=(const Type& o) const { return !(*this == o); }
  // The text in TorchScript's form. "Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)" is read, and printed
  // without the last two. An unknown size prints as *, a symbolic one as its expression: "Float(s0, 8, strides=[8,
  // 1])".
  std::string ToString() const;
  // Parses every type that PyTorch prints, in graphs (`Future[Tensor]`, `Float(*, 4)`, `__torch__.Net`) and in schemas
  // (`int[2]`, `Tensor?`, `t[]`). "Future(T)" and Python's "List[T]" are read too. An error gives the position and the
  // expected token.
  static absl::StatusOr<Type> Parse(absl::string_view text);

 private:
  struct Rep;
  TypeKind kind_;
  std::shared_ptr<const Rep> rep_;
};

}  // namespace smelt

#endif  // SMELT_CORE_IR_TYPE_H_
