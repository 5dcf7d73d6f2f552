// The groups of an eager-order program (eager_groups.h): one call does the work of several instructions.
#ifndef SMELT_PIPELINE_EAGER_GROUP_WRITER_H_
#define SMELT_PIPELINE_EAGER_GROUP_WRITER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_bases.h"
#include "smelt/pipeline/eager_call_table.h"
#include "smelt/pipeline/eager_computing.h"
#include "smelt/pipeline/eager_program_writer.h"

namespace smelt {

class EagerGroupWriter {
 public:
  // All must outlive this object.
  EagerGroupWriter(EagerProgramWriter& writer, EagerCallTable& calls, EagerComputing& computing,
                   const EagerBases& bases)
      : w_(writer), calls_(calls), computing_(computing), bases_(bases) {}

  // `nodes` are a group. begins[k] is the place in the current block where the instructions of nodes[k] begin; the last
  // entry is their end, which is the block's. The instructions move to a block of their own, which a new instruction
  // runs where the group's call does not apply. If the call would not launch fewer kernels, or cannot be made, the same
  // is tried for both halves of the group.
  void Emit(absl::Span<const NodeId> nodes, absl::Span<const size_t> begins);

 private:
  // Returns false if everything stays as it is.
  bool EmitWhole(absl::Span<const NodeId> nodes, absl::Span<const size_t> begins);

  EagerProgramWriter& w_;
  EagerCallTable& calls_;
  EagerComputing& computing_;
  const EagerBases& bases_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_GROUP_WRITER_H_
