// The end of a call: copies back to arguments and states, copies to fresh results, the results themselves, the
// convention, and the checks of indices that come before everything else.
//
// Invariant: nothing is emitted after it.
#ifndef SMELT_CODEGEN_PLAN_EPILOGUE_H_
#define SMELT_CODEGEN_PLAN_EPILOGUE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/plan_destinations.h"
#include "smelt/codegen/plan_kernels.h"
#include "smelt/codegen/plan_numbers.h"
#include "smelt/core/convention/convention.h"
#include "smelt/core/ir/graph.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanEpilogue {
 public:
  // All must outlive it.
  PlanEpilogue(BundleTables& b, const Graph& g, const Convention& c, fb::PlanT& plan,
               const PlanDestinations::Parts& parts, PlanDestinations& destinations, PlanNumbers& numbers,
               const PlanKernels& kernels)
      : b_(b),
        g_(g),
        c_(c),
        plan_(plan),
        lives_(parts.lives),
        slots_(parts.slots),
        copies_(parts.copies),
        destinations_(destinations),
        numbers_(numbers),
        kernels_(kernels) {}

  absl::Status Emit();
  // A kernel finds an index out of range when something may already have been written. Indices that are arguments are
  // checked before.
  absl::Status CheckIndicesFirst();

 private:
  absl::StatusOr<std::vector<LocatedCopy>> CopiesBack();
  absl::StatusOr<std::vector<LocatedCopy>> CopiesToFresh();
  absl::Status EncodeConvention();
  absl::Status EncodeMutations(fb::MutatedInputsLayerT& layer);
  absl::StatusOr<std::unique_ptr<fb::OutputRefT>> EncodeOutput(int k);
  absl::Status EncodeScalarOutput(int k, fb::OutputRefT& out);

  BundleTables& b_;
  const Graph& g_;
  const Convention& c_;
  fb::PlanT& plan_;
  const Lives& lives_;
  PlanSlots& slots_;
  PlanCopies& copies_;
  PlanDestinations& destinations_;
  PlanNumbers& numbers_;
  const PlanKernels& kernels_;
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_EPILOGUE_H_
