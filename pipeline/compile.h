// Compiles an imported graph to a bundle file.
//
//   SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2("model.pt2"));
//   CompileOptions options;
//   SMELT_ASSIGN_OR_RETURN(CompileStats stats, CompileToFile(*model.graph, "model.smb", options));
//
// The bundle is written whole or not at all. The same graph and options give the same bytes, whatever the number of
// threads, the cache and the machine. Any graph may be given: InvalidArgument names the node where it does not hold
// together (core/op/declared_types.h). Other errors: Unimplemented lists every unsupported operator with its count and
// source lines; Internal is a bug.
#ifndef SMELT_PIPELINE_COMPILE_H_
#define SMELT_PIPELINE_COMPILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/ir/graph.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/pipeline/compile_options.h"

namespace smelt {

absl::StatusOr<CompileStats> CompileToFile(const Graph& graph, const std::string& path, const CompileOptions& options);

// One of the programs of a bundle.
struct Method {
  std::string name;  // an identifier, each once
  const Graph* graph = nullptr;
  CallStructure structure;  // in place of that of the options
};

// Compiles the graphs to one bundle. Their weights are united by name (pipeline/unite_weights.h), their kernels and the
// bytes of equal weights are there once. A single method gives the bundle of its graph, with the method's name.
absl::StatusOr<CompileStats> CompileMethodsToFile(absl::Span<const Method> methods, const std::string& path,
                                                  const CompileOptions& options);

// Returns the kernels that CompileToFile would request from the cache, for each target, in that order; nothing is
// compiled.
absl::StatusOr<std::vector<KernelSpec>> PlanKernels(const Graph& graph, const CompileOptions& options);

// The same of CompileMethodsToFile.
absl::StatusOr<std::vector<KernelSpec>> PlanMethodKernels(absl::Span<const Method> methods,
                                                          const CompileOptions& options);

}  // namespace smelt

#endif  // SMELT_PIPELINE_COMPILE_H_
