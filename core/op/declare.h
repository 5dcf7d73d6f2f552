// Operators of the user's own (torch.library), which the compiler knows by their schemas alone.
//
//   OperatorDeclarations declared;
//   SMELT_RETURN_IF_ERROR(declared.AddText("mylib::scale_(Tensor(a!) x, float by) -> ()", "ops.txt"));
//   OpName op = *declared.Find("mylib::scale_");
//   FindSchema(op)->IsMutable();   // true
//
// A declared operator's name goes with its schema: names with different schemas are different names. So two compilations
// in one process may declare mylib::f differently, and OpName::Get("mylib::f") is yet another name, without a schema.
//
// All annotations hold: an argument `Tensor(a!)` is written, a result `Tensor(a)` lies in the memory of the arguments of
// that set, a result `Tensor(a!)` is that argument. A result without an annotation is in memory of its own.
#ifndef SMELT_CORE_OP_DECLARE_H_
#define SMELT_CORE_OP_DECLARE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/op_name.h"
#include "smelt/core/op/schema.h"

namespace smelt {

// Returns the operator with this schema. InvalidArgument: the text is no schema, the namespace belongs to PyTorch or
// smelt, or an annotation names a set that no argument has. Unimplemented names a type or annotation that smelt cannot
// pass to an implementation.
absl::StatusOr<OpName> DeclareOperator(absl::string_view schema);

// Returns a declared operator's schema as PyTorch prints it; "" if DeclareOperator did not make the name.
std::string DeclaredSchema(OpName op);

// The operators that one compilation declares.
class OperatorDeclarations {
 public:
  // Reads schemas, one per line. Empty lines and what follows a '#' are skipped. An operator may be declared again with
  // the same schema. Errors begin with "FILE:LINE: ". Adds nothing on failure.
  absl::Status AddText(absl::string_view text, absl::string_view file_name);

  // Returns the operator, or null. `full` is "mylib::f", "mylib::f.out" or, as PyTorch names it, "mylib::f.default".
  const OpName* Find(absl::string_view full) const;
  absl::Span<const OpName> all() const { return operators_; }

 private:
  std::vector<OpName> operators_;  // in order
};

// Gives the nodes of a graph that was read from text the declared operators of their names.
void ApplyDeclarations(Graph& g, const OperatorDeclarations& operators);

// The position of the argument that a result of a declared operator is, or of those in whose memory it may lie.
struct ResultMemory {
  bool is_argument = false;    // the only one of `arguments`
  std::vector<int> arguments;  // empty: memory of its own
};
ResultMemory MemoryOfResult(const FunctionSchema& schema, size_t result);

}  // namespace smelt

#endif  // SMELT_CORE_OP_DECLARE_H_
