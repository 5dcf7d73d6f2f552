// The statistics of a compilation, as JSON.
#ifndef SMELT_TOOLS_STATS_H_
#define SMELT_TOOLS_STATS_H_

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "smelt/pipeline/compile.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// Returns the part that depends only on model, options and compiler: no times, no paths, nothing about caches. The
// bytes are the same on every machine.
nlohmann::ordered_json StableStats(const CompileStats& stats, const fb::BundleT& bundle);

// Returns the metadata of a bundle on disk.
absl::StatusOr<std::unique_ptr<fb::BundleT>> ReadBundle(const std::string& path);

}  // namespace smelt

#endif  // SMELT_TOOLS_STATS_H_
