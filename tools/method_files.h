// The models of a bundle: one, or several that become its methods.
#ifndef SMELT_TOOLS_METHOD_FILES_H_
#define SMELT_TOOLS_METHOD_FILES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/op/declare.h"
#include "smelt/pipeline/compile.h"
#include "smelt/tools/command_line.h"

namespace smelt {

struct MethodFile {
  std::string method;  // empty: there is one, without a name
  std::string path;
};

// Reads the models of a command line: the positional argument number `first`, or each --method NAME=MODEL.
// InvalidArgument if there are both or none, without -o, for a name that is no identifier or is there twice, and for a model that an
// option of `writes` would replace.
absl::StatusOr<std::vector<MethodFile>> ReadMethodFiles(const CommandLine& line, size_t first,
                                                        const std::vector<std::string>& writes);

// Graphs, as CompileMethodsToFile and PlanMethodKernels take them.
struct MethodModels {
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<Method> methods;
};
absl::StatusOr<MethodModels> ReadMethodModels(absl::Span<const MethodFile> files,
                                              const OperatorDeclarations& operators);

}  // namespace smelt

#endif  // SMELT_TOOLS_METHOD_FILES_H_
