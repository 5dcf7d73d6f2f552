// The ranges of symbols that an archive states.
#ifndef SMELT_FRONTEND_PT2_RANGES_H_
#define SMELT_FRONTEND_PT2_RANGES_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"

namespace smelt {
namespace pt2_internal {

// Reads the ranges of symbols that only the data determines, which the slices between such numbers need, or of the
// others, whose hints come from the values.
absl::Status ReadRanges(const Json& program, bool of_data, Graph& g);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_RANGES_H_
