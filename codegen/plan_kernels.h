// The steps that compute: launches of kernels, calls of the library and random draws; what a launch may write over, and
// which launch is the epilogue of the library call before it.
//
// Invariants: a kernel reads no memory that it writes, other than at the same index and before: else it reads a
// snapshot. A slot is taken over by at most one result at a position.
#ifndef SMELT_CODEGEN_PLAN_KERNELS_H_
#define SMELT_CODEGEN_PLAN_KERNELS_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/codegen/bundle_tables.h"
#include "smelt/codegen/library_lowering.h"
#include "smelt/codegen/plan_destinations.h"
#include "smelt/codegen/plan_numbers.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/lower_group.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {

class PlanKernels {
 public:
  // All must outlive it.
  PlanKernels(BundleTables& b, const Graph& g, fb::PlanT& plan, const PlanDestinations::Parts& parts,
              PlanDestinations& destinations, PlanNumbers& numbers)
      : b_(b),
        g_(g),
        plan_(plan),
        lives_(parts.lives),
        regions_(parts.regions),
        steps_(parts.steps),
        slots_(parts.slots),
        copies_(parts.copies),
        lowering_(parts.lowering),
        destinations_(destinations),
        numbers_(numbers) {}

  absl::Status Launch(NodeId n);
  absl::Status Call(NodeId n, const LibraryNode& call);
  absl::Status Draw(NodeId n, const RandomCall& call);

  int CountDistinct() const;
  // Returns the number of instructions that check an index.
  int index_checks() const { return index_checks_; }

 private:
  // Returns whether a kernel may overwrite an operand that is not needed later and is read at the same index, and
  // before.
  bool TakeOver(ValueId o, const LoweredKernel& k, const std::vector<bool>& irregular);
  // If a launch reads memory that it writes, other than at the same index, it reads a snapshot: changes `where` and the
  // params' offsets.
  void TakeSnapshots(NodeId n, LoweredKernel& k, const std::vector<bool>& irregular, std::vector<PlanLocation>& where);
  // Returns whether the read of param i and the write of param j may share their slot.
  bool Harmless(const LoweredKernel& k, const std::vector<bool>& irregular, const std::vector<PlanLocation>& where,
                size_t i, size_t j);
  // Makes the launch that was just emitted the epilogue of the library call before it, if each of its tiles reads only
  // the tile's own elements of the call's result: schema/bundle.fbs.
  void MakeEpilogue(const LoweredKernel& k, const std::vector<bool>& irregular, const std::vector<PlanLocation>& where);
  absl::StatusOr<fb::Word> ScalarWord(const LoweredKernel::Scalar& s, bool floating);
  // Notes whether one of the kernel's instructions may refuse the data of a call.
  void NoteRefusals(const KernelSpec& spec);
  static Expr TilesOf(const LoweredKernel& k);

  BundleTables& b_;
  const Graph& g_;
  fb::PlanT& plan_;
  const Lives& lives_;
  const PlanRegions& regions_;
  PlanSteps& steps_;
  PlanSlots& slots_;
  PlanCopies& copies_;
  PlanLowering& lowering_;
  PlanDestinations& destinations_;
  PlanNumbers& numbers_;
  absl::flat_hash_map<int, int> taken_at_;  // the position at which a slot was taken over
  std::vector<int> used_kernels_;
  int index_checks_ = 0;
  struct LastCall {
    int block = -1;
    size_t step = 0;
    PlanLocation result;     // its first
    std::vector<int> reads;  // slots
  };
  LastCall last_call_;  // of the library
};

}  // namespace smelt

#endif  // SMELT_CODEGEN_PLAN_KERNELS_H_
