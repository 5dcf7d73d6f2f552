// Operators' schemas: PyTorch's for every aten:: and prim:: overload, and smelt's for its own operators.
//
//   const FunctionSchema* s = FindSchema(OpName::Get("aten::add_.Tensor"));
//   s->ToString() == "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
//   s->IsMutable();                                                             // true
//   ResolveOverload("aten::add", {Type::Tensor(), Type::Tensor(), Type::Int()});  // aten::add.Tensor
//
// All schemas are in the binary; each is parsed when it is first used. The schemas of some operators (reshape,
// _unsafe_view, _foreach_add_, ...) do not state all effects; traits of the operator (core/op) correct them.
// Thread-safe.
#ifndef SMELT_CORE_OP_SCHEMA_H_
#define SMELT_CORE_OP_SCHEMA_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/ir/alias_info.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/ir/type.h"

namespace smelt {

struct Argument {
  std::string name;  // may be empty for results
  Type type;         // type variables are Type::Class("t")
  std::optional<ConstantValue>
      default_value;  // of the type's kind: `Scalar alpha=1` is an int64_t, `float p=1` a double
  bool kw_only = false;
  AliasInfo alias;  // IsEmpty() if the schema does not state it
  std::string
      type_text;  // the type as the schema has it: "MemoryFormat?", "SymInt[2]", "ScalarType": Type knows only ints
};

// Returns whether the argument, or the tensors in the list that it is, are written.
bool IsWritten(const Argument& argument);

struct FunctionSchema {
  OpName op;
  std::vector<Argument> arguments;
  std::vector<Argument> returns;
  bool is_vararg = false;  // "...": any number of arguments of any type follow
  bool is_varret = false;  // "-> ...": any number of results of any type

  bool IsMutable() const;                          // writes to some argument
  int FindArgument(absl::string_view name) const;  // -1 if there is none
  int NumRequired() const;                         // arguments without default
  std::string ToString() const;                    // PyTorch's text
};

absl::StatusOr<FunctionSchema> ParseSchema(absl::string_view text);

// nullptr if there is none. The pointer stays valid.
const FunctionSchema* FindSchema(OpName op);
// All overloads of "aten::add", in the order of PyTorch's registry. Empty if the name is not known.
std::vector<const FunctionSchema*> FindOverloads(absl::string_view name);
// Returns every operator's full name, sorted.
std::vector<absl::string_view> AllSchemaNames();

// Returns whether a value of type `actual` can be used as `formal` without conversion, as in TorchScript: a tensor of
// known shape is a Tensor; an int, float or complex is a Scalar; a T, and None, is a T?; everything is Any. Lists and
// dictionaries must have the same elements (tensors of any geometry are the same). A type variable (`t`) takes
// anything.
bool IsSubtype(const Type& actual, const Type& formal);

// Returns whether a node of this operator may have inputs of these types, one for each argument, with the conversions
// named below.
bool TakesTypes(const FunctionSchema& schema, absl::Span<const Type> argument_types);

// Chooses the overload for an operator's name without overload, from the types of a node's inputs, in the schema's
// order, keyword arguments included (as TorchScript prints a node): the first in PyTorch's registry that takes exactly
// these types, as PyTorch's parser does. If none does (in a text written by hand), it prefers one that takes them by
// conversions (int or bool to float or Scalar, int to int[2], T? to T) to one whose last arguments would be defaults;
// then the closest types; then the first. A name that has an overload is looked up. Returns NotFound if no schema has
// that name, and InvalidArgument if none of its schemas takes these types; the message lists them.
absl::StatusOr<OpName> ResolveOverload(absl::string_view name, absl::Span<const Type> argument_types);

// The full argument list in the schema's order: the given positional and keyword arguments, filled up with defaults. An
// entry is an index into `positional`, into `keyword`, or a default.
struct FilledArgument {
  enum class Kind { kPositional, kKeyword, kDefault };
  Kind kind = Kind::kDefault;
  int index = 0;                // of kPositional, kKeyword
  ConstantValue default_value;  // of kDefault
};
absl::StatusOr<std::vector<FilledArgument>> FillDefaults(const FunctionSchema& schema, int num_positional,
                                                         absl::Span<const std::string> keyword_names);

}  // namespace smelt

#endif  // SMELT_CORE_OP_SCHEMA_H_
