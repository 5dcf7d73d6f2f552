// The groups of an eager-order program (eager_groups.h): one call does the work of several instructions.
#ifndef SMELT_PIPELINE_EAGER_GROUP_WRITER_H_
#define SMELT_PIPELINE_EAGER_GROUP_WRITER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_call_table.h"
#include "smelt/pipeline/eager_computing.h"
#include "smelt/pipeline/eager_program_writer.h"

namespace smelt {

class EagerGroupWriter {
 public:
  EagerGroupWriter(EagerProgramWriter& writer, EagerCallTable& calls, EagerComputing& computing)
      : w_(writer), calls_(calls), computing_(computing) {}

  // `nodes` are a group. The instructions of the current block from `first` on are theirs; they move to a block of
  // their own, which a new instruction runs where the group's call does not apply. If the call would not launch fewer
  // kernels, or cannot be made, everything stays as it is.
  void Emit(absl::Span<const NodeId> nodes, size_t first);

 private:
  EagerProgramWriter& w_;
  EagerCallTable& calls_;
  EagerComputing& computing_;
};

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_GROUP_WRITER_H_
