// The weights and constants of an archive. Internal.
//
//   Pt2Weights weights(zip, options, root);
//   SMELT_RETURN_IF_ERROR(weights.Read());
//   SMELT_ASSIGN_OR_RETURN(int index, weights.Add("fc.weight", Weight::Kind::kParameter, graph));
//
// Tensors that share a file in the archive share a storage of the graph.
#ifndef SMELT_FRONTEND_PT2_WEIGHTS_H_
#define SMELT_FRONTEND_PT2_WEIGHTS_H_

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"
#include "smelt/frontend/checked_json.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/zip_archive.h"

namespace smelt {
namespace pt2_internal {

constexpr int kMaxRank = 64;  // of a tensor in an archive

class Pt2Weights {
 public:
  // `root` is the folder of the model in the archive.
  Pt2Weights(const ZipArchive& zip, const Pt2Options& options, std::string root)
      : zip_(zip), options_(options), root_(std::move(root)) {}

  // Reads the descriptions. An entry that is wrong is an error only when it is added.
  absl::Status Read();
  // Reads the contents of a weight and adds it to the graph. Returns its index in the graph's weights.
  absl::StatusOr<int> Add(const std::string& name, Weight::Kind kind, Graph& g);

 private:
  struct Entry {
    std::string path;  // the archive's entry
    DType dtype;
    Geometry geometry;
  };
  using Entries = absl::flat_hash_map<std::string, Entry>;
  absl::Status ReadConfig(const std::string& folder, const std::string& file, Entries& into);
  absl::StatusOr<Entry> ReadEntry(const Json& entry, const std::string& folder) const;

  const ZipArchive& zip_;
  const Pt2Options& options_;
  const std::string root_;
  Entries weights_, constants_;
  absl::flat_hash_map<std::string, absl::Status> bad_;
  absl::flat_hash_map<std::string, int> storages_;  // archive entry -> weight storage
};

// Returns an error unless the sizes, strides and bytes of a tensor fit in 64 bits.
absl::Status CheckGeometry(const Geometry& g, DType dtype);

}  // namespace pt2_internal
}  // namespace smelt

#endif  // SMELT_FRONTEND_PT2_WEIGHTS_H_
