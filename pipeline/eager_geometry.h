// Operators of an eager-order program that copy memory or change where a tensor lies: copy_, conversions, set_,
// resize_.
#ifndef SMELT_PIPELINE_EAGER_GEOMETRY_H_
#define SMELT_PIPELINE_EAGER_GEOMETRY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/eager_call_table.h"
#include "smelt/pipeline/eager_program_writer.h"
#include "smelt/pipeline/result_layout.h"

namespace smelt {

class EagerGeometry {
 public:
  EagerGeometry(EagerProgramWriter& writer, EagerCallTable& calls) : w_(writer), calls_(calls) {}

  // set_, resize_ and resize_as_.
  absl::Status EmitGeometry(NodeId n);
  absl::Status EmitCopy(NodeId n);
  // to and similar operators: the tensor itself if nothing changes, otherwise a copy.
  absl::Status EmitConversion(NodeId n);

 private:
  const Graph& g() const { return w_.graph(); }
  // Returns whether v may lie in a copy of a whole storage (CopiesStorage). Here such a result has memory of its own
  // size.
  bool MayHaveCopiedStorage(ValueId v) const;
  void EmitLayout(NodeId n, absl::string_view op, int from, int64_t format, int to);

  EagerProgramWriter& w_;
  EagerCallTable& calls_;
};

// If the layout depends on the operands' layouts, the rule's inputs replace the instruction's.
void SetLayout(EagerProgramWriter& writer, fb::EagerInstrT& i, const ResultLayout& layout);

}  // namespace smelt

#endif  // SMELT_PIPELINE_EAGER_GEOMETRY_H_
