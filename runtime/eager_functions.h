// The scalar functions of an eager-order program: a call that computes few elements is evaluated here, without a kernel.
// Internal.
//
//   EagerFunctions functions(program);
//   if (std::optional<Tensor> result = functions.Run(index, call, inputs, &shape)) return *result;
//
// A launch binds operands, allocates and looks up addresses, which takes longer than the arithmetic of some elements.
#ifndef SMELT_RUNTIME_EAGER_FUNCTIONS_H_
#define SMELT_RUNTIME_EAGER_FUNCTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "smelt/core/op/scalar.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/exec/value.h"
#include "smelt/schema/bundle.h"

namespace smelt {

class EagerFunctions {
 public:
  // The functions of the program's instructions. One that does not fit its call is not used.
  explicit EagerFunctions(const fb::EagerProgramT& program);

  bool Has(int index) const { return static_cast<size_t>(index) < functions_.size() && functions_[index].has_value(); }
  // Returns the result of a call: contiguous, in one dim if operands have dims. Those are broadcast to `shape`; without
  // it none has dims. Returns nullopt if the call has no function, computes more elements
  // than a kernel computes in the time of a launch, or does not take these operands. One value for all elements is
  // computed once.
  std::optional<Tensor> Run(int index, const fb::BundleT& call, absl::Span<const PythonValue> inputs,
                            const std::vector<int64_t>* shape) const;

 private:
  struct Function {
    ScalarFn fn;
    std::vector<bool> uses;  // by argument
  };

  std::vector<std::optional<Function>> functions_;  // by call
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EAGER_FUNCTIONS_H_
