// Regions of torch.autocast. The archive keeps the region; the conversions within are not in its graph.
#ifndef SMELT_FRONTEND_PT2_AUTOCAST_H_
#define SMELT_FRONTEND_PT2_AUTOCAST_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2_inserter.h"

namespace smelt {
namespace pt2_internal {

class Pt2Autocast {
 public:
  // Both must outlive this.
  Pt2Autocast(Graph& g, NodeInserter& insert) : g_(g), insert_(insert) {}

  // Enters wrap_with_autocast(device_type, dtype, enabled, cache_enabled, graph, ...).
  absl::Status Begin(const Json& inputs);
  // The lower precision of the region that is being read; nothing outside of regions.
  std::optional<DType> lower() const { return lower_; }
  void set_lower(std::optional<DType> lower) { lower_ = lower; }
  // Returns whether there was a region.
  bool seen() const { return seen_; }
  // Converts the arguments of an operator as eager PyTorch's autocast does on the CPU. An operator in neither list is
  // not changed; CheckTypes finds those that autocast would have treated otherwise.
  void Convert(OpName op, NodeId anchor, std::vector<ValueId>& args);

 private:
  Graph& g_;
  NodeInserter& insert_;
  std::optional<DType> lower_;
  bool seen_ = false;
};

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_AUTOCAST_H_
