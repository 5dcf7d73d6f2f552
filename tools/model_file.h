// Reads a model in any of the forms that smelt accepts: .pt2, .ir (text) or .smg.
#ifndef SMELT_TOOLS_MODEL_FILE_H_
#define SMELT_TOOLS_MODEL_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/declare.h"

namespace smelt {

// By the file's ending. A text model's overloads are resolved, its types completed where its inputs allow; `complete`
// makes incomplete inputs an error (Unimplemented, naming them). `structure`, unless null, gets how Python nests the
// arguments and results, which only a .pt2 says. `operators` are the user's own that the model may call; a .smg holds the
// schemas of its own.
absl::StatusOr<std::unique_ptr<Graph>> ReadModel(const std::string& path, bool complete,
                                                 CallStructure* structure = nullptr,
                                                 const OperatorDeclarations& operators = {});

// Reads files of schemas, separated by commas: the operators of the user's own that models call. "" is none.
absl::StatusOr<OperatorDeclarations> ReadOperatorSchemas(const std::string& paths);

}  // namespace smelt

#endif  // SMELT_TOOLS_MODEL_FILE_H_
