// Reads a model in any of the forms that smelt accepts: .pt2, .ir (text) or .smg.
#ifndef SMELT_TOOLS_MODEL_FILE_H_
#define SMELT_TOOLS_MODEL_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Reads by the file's extension. A text model's overloads are resolved, and its types completed if its inputs allow;
// `complete` makes incomplete inputs an error (Unimplemented, naming them).
absl::StatusOr<std::unique_ptr<Graph>> ReadModel(const std::string& path, bool complete);

}  // namespace smelt

#endif  // SMELT_TOOLS_MODEL_FILE_H_
