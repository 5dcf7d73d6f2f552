// Inserts nodes into the graph that is being read. Each gets the source line of the archive's node that is being read.
#ifndef SMELT_FRONTEND_PT2_INSERTER_H_
#define SMELT_FRONTEND_PT2_INSERTER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace pt2_internal {

class NodeInserter {
 public:
  // The graph must outlive this.
  explicit NodeInserter(Graph& g) : g_(g) {}

  // Where in the model's own code the node that is being read comes from; null if that is not known.
  const std::shared_ptr<const SourceLocation>& source() const { return source_; }
  void set_source(std::shared_ptr<const SourceLocation> source) { source_ = std::move(source); }
  void SetSource(NodeId n) { g_.SetSource(n, source_); }

  // Returns a constant as an argument that an operator declares with `type`.
  ValueId Constant(NodeId anchor, const ConstantValue& c, const Type& type);
  // Inserts an operator that the archive does not contain, infers its type, and returns its one result.
  absl::StatusOr<ValueId> Compute(const char* op, std::vector<ValueId> args, Type type, NodeId anchor);
  // Converts a number to a tensor where Python code of PyTorch does: to a 0-dim tensor of the number's own dtype.
  ValueId NumberAsTensor(ValueId v, NodeId anchor);

 private:
  Graph& g_;
  std::shared_ptr<const SourceLocation> source_;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_INSERTER_H_
