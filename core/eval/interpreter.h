// Runs graphs node by node. Private to core/eval.
#ifndef SMELT_CORE_EVAL_INTERPRETER_H_
#define SMELT_CORE_EVAL_INTERPRETER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/eval/run.h"
#include "smelt/core/ir/graph.h"

namespace smelt::eval_internal {

// `inputs` are parallel to g.inputs(), weights included. `symbols` are bound beforehand; more are taken from the
// inputs.
absl::StatusOr<std::vector<EvalValue>> RunGraph(State& state, const Graph& g, absl::Span<const EvalValue> inputs,
                                                absl::flat_hash_map<std::string, int64_t> symbols = {},
                                                absl::flat_hash_map<std::string, int64_t>* symbols_after = nullptr);

// Takes the values of size symbols from the inputs: from tensors' sizes and from integers. It is an error if an input
// does not fit its type.
absl::Status BindSymbols(const Graph& g, absl::Span<const EvalValue> inputs,
                         absl::flat_hash_map<std::string, int64_t>& symbols);

}  // namespace smelt::eval_internal

#endif  // SMELT_CORE_EVAL_INTERPRETER_H_
