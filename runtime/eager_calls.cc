#include "smelt/runtime/eager_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/decide.h"
#include "smelt/core/tensor/view_rules.h"
#include "smelt/runtime/eager_value.h"
#include "smelt/runtime/executor.h"
#include "smelt/runtime/memory_limit.h"

namespace smelt {
namespace {

absl::StatusOr<Tensor> Operand(const Tensor& t, const std::vector<int64_t>* shape) {
  Tensor from = t;
  if (shape != nullptr) {
    ConcreteDecide decide;
    SMELT_ASSIGN_OR_RETURN(Geometry g, view_rules::Expand(decide, t.geometry(), *shape));
    SMELT_RETURN_IF_ERROR(decide.status());
    from = t.View(std::move(g));
  }
  if (!from.geometry().IsContiguous()) {
    SMELT_RETURN_IF_ERROR(CheckMemoryFor(from.NumElements(), ItemSize(from.dtype())));
    from = from.Clone();
  }
  return from.View(shape != nullptr ? Geometry::Contiguous({from.NumElements()}, from.offset())
                                    : Geometry::Contiguous(from.sizes(), from.offset()));
}

}  // namespace

EagerCalls::EagerCalls(const std::vector<std::shared_ptr<const Executable>>& calls, const fb::EagerProgramT& program,
                       const InstanceOptions& options, Generator* random)
    : calls_(calls), functions_(program), options_(options), random_(random), made_(calls.size()) {}
EagerCalls::~EagerCalls() = default;

Executor& EagerCalls::Get(int call) {
  if (made_[call] == nullptr) made_[call] = std::make_unique<Executor>(calls_[call], options_, random_);
  return *made_[call];
}

absl::StatusOr<std::vector<Datum>> EagerCalls::Run(int call, absl::Span<const PythonValue> inputs,
                                                   const std::vector<int64_t>* shape, CallStats* stats) {
  std::vector<Datum> args, results;
  if (std::optional<Tensor> result = functions_.Run(call, calls_[call]->bundle(), inputs, shape)) {
    results.push_back(Datum(*std::move(result)));
    return results;
  }
  Executor& e = Get(call);
  for (const PythonValue& v : inputs) {
    if (v.IsTensor()) {
      const bool has_dims = !calls_[call]->bundle().args[args.size()]->sizes.empty();
      SMELT_ASSIGN_OR_RETURN(Tensor t, Operand(v.tensor(), has_dims ? shape : nullptr));
      args.push_back(Datum(std::move(t)));
    } else {
      SMELT_ASSIGN_OR_RETURN(Datum number, ToDatum(v));
      args.push_back(std::move(number));
    }
  }
  const absl::Status ran = e.RunInto(args, &results);
  if (absl::IsInvalidArgument(ran)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "eager order: an operand's shape is not what the model states, as when it was changed through another name of "
        "the same tensor: ",
        ran.message()));
  }
  SMELT_RETURN_IF_ERROR(ran);
  stats->kernel_launches += e.last_call().kernel_launches;
  stats->library_calls += e.last_call().library_calls;
  stats->host_steps += e.last_call().host_steps;
  stats->arena_bytes = std::max(stats->arena_bytes, e.last_call().arena_bytes);
  return results;
}

}  // namespace smelt
