// The statistics of a compilation, as JSON.
#ifndef SMELT_TOOLS_STATS_H_
#define SMELT_TOOLS_STATS_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "smelt/pipeline/compile.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// The part that is a function of model, options and compiler: no times, no paths, nothing of caches. The same bytes
// wherever it is written.
nlohmann::ordered_json StableStats(const CompileStats& stats, const fb::BundleT& bundle);

// The metadata of a bundle on disk.
absl::StatusOr<std::unique_ptr<fb::BundleT>> ReadBundle(const std::string& path);

}  // namespace smelt

#endif  // SMELT_TOOLS_STATS_H_
