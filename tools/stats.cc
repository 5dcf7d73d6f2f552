#include "smelt/tools/stats.h"

#include "smelt/core/base/status_macros.h"
#include "smelt/schema/container.h"

namespace smelt {

nlohmann::ordered_json StableStats(const CompileStats& stats, const fb::BundleT& bundle) {
  nlohmann::ordered_json j;
  j["model"] = bundle.model_name;
  j["targets"] = nlohmann::ordered_json::array();
  for (const auto& t : bundle.targets) j["targets"].push_back(t->name);
  j["nodes"] = stats.nodes;
  j["mutations_removed"] = stats.mutations_removed;
  j["fusion_groups"] = stats.fusion_groups;
  j["distinct_kernels"] = stats.distinct_kernels;
  j["library_calls"] = stats.library_calls;
  j["bundle_bytes"] = stats.bundle_bytes;
  j["kernels"] = nlohmann::ordered_json::array();
  for (const auto& k : bundle.kernels) j["kernels"].push_back({{"key", k->key}, {"uses", k->uses}});
  return j;
}

absl::StatusOr<std::unique_ptr<fb::BundleT>> ReadBundle(const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(auto file, Container::Open(path, ContentKind::kBundle));
  return LoadBundle(*file);
}

}  // namespace smelt
