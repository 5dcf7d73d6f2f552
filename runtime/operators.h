// Implementations of operators of the user's own (docs/custom_operators.md).
//
//   RegisterOperator("mylib::scale_", [](OperatorCall& call) {       // (Tensor(a!) x, float by) -> ()
//     const Tensor& x = call.args[0].datum.tensor();
//     ... writes x's memory ...
//     return absl::OkStatus();
//   });
//   Program::Load("net.smb");   // finds it; an error names the operators that nobody has registered
//
// A program keeps the implementations that it found when it was loaded. An implementation is called on the thread that
// runs the instance, at the operator's place in the program, and may be called by several threads at a time. It may run
// other instances, not the one that calls it.
#ifndef SMELT_RUNTIME_OPERATORS_H_
#define SMELT_RUNTIME_OPERATORS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/runtime/value.h"

namespace smelt {

namespace fb {
struct CustomOperatorT;
struct EagerInstrT;
}  // namespace fb

// An argument or a result: a tensor, a number, a string, None, or a list of values.
struct OperatorValue {
  Datum datum;
  std::vector<OperatorValue> list;
  bool is_list = false;
};

struct OperatorCall {
  const std::string& name;          // "mylib::scale_"
  std::vector<OperatorValue> args;  // in the schema's order. Tensors share memory with the program's
  std::vector<uint8_t> writes;      // by argument: the schema says that it is written. No other memory may be
  // None each, to be filled in. A tensor is new memory, or a view of an argument where the schema says that it shares
  // memory. A result that is an argument may be left as None.
  std::vector<OperatorValue> results;
};

// An error ends the run of the model, which then has changed nothing that its caller sees.
using OperatorFunction = std::function<absl::Status(OperatorCall&)>;

// Registers the implementation of "mylib::f" or "mylib::f.out" for this process. AlreadyExists if there is one.
absl::Status RegisterOperator(absl::string_view name, OperatorFunction function);
// Returns whether there was one. Programs that use it keep it.
bool UnregisterOperator(absl::string_view name);
// Returns null if there is none.
std::shared_ptr<const OperatorFunction> FindOperator(absl::string_view name);

// Runs one call of a program, and checks the results against the schema and the types that the model states. `sizes` are
// those types' sizes, by result and tensor; -1 for any.
using StatedSizes = std::vector<std::vector<std::vector<int64_t>>>;
absl::StatusOr<std::vector<OperatorValue>> CallOperator(const fb::CustomOperatorT& op, const OperatorFunction& function,
                                                        const fb::EagerInstrT& instr, const StatedSizes& sizes,
                                                        std::vector<OperatorValue> args);

}  // namespace smelt

#endif  // SMELT_RUNTIME_OPERATORS_H_
