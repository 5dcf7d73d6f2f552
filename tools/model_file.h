// Reads a model in any of the forms that smelt accepts: .pt2, .ir (text) or .smg.
#ifndef SMELT_TOOLS_MODEL_FILE_H_
#define SMELT_TOOLS_MODEL_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// By the file's ending. A text model's overloads are resolved, its types completed where its inputs allow; `complete`
// makes incomplete inputs an error (Unimplemented, naming them). `structure`, unless null, gets how Python nests the
// arguments and results, which only a .pt2 says.
absl::StatusOr<std::unique_ptr<Graph>> ReadModel(const std::string& path, bool complete,
                                                 CallStructure* structure = nullptr);

}  // namespace smelt

#endif  // SMELT_TOOLS_MODEL_FILE_H_
