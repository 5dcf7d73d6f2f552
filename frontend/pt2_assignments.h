// Buffers that the model assigned (self.h = ...) instead of writing them. torch.export states an assignment by a copy_
// at the end with the metadata of the assigned value. A copy_ that the model called names itself there, and each call
// has a number of its own.
#ifndef SMELT_FRONTEND_PT2_ASSIGNMENTS_H_
#define SMELT_FRONTEND_PT2_ASSIGNMENTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

class Pt2Assignments {
 public:
  // The graph must outlive this.
  explicit Pt2Assignments(Graph& g) : g_(g) {}

  // Notes the call that was read from the archive's node if it is an assignment to a buffer. To be called for each
  // call of the model's graph itself, in order.
  void Note(const Json& node, NodeId call) {
    if (IsAssignment(node, call)) nodes_.push_back(call);
  }
  // For each assignment that was found, the buffer becomes the assigned tensor, unless that may be the caller's: then
  // the assigned contents are copied into the buffer.
  void Open();

 private:
  bool IsAssignment(const Json& node, NodeId call);

  Graph& g_;
  std::vector<NodeId> nodes_;
  // The copy_ calls of the model itself, by their names in the archive.
  absl::flat_hash_set<std::string> copies_called_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_ASSIGNMENTS_H_
