// For tests: runs a model through every stage, as the command line does.
#ifndef SMELT_TOOLS_E2E_TESTING_H_
#define SMELT_TOOLS_E2E_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/graph.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/case.h"
#include "smelt/runtime/program.h"

namespace smelt {

// Returns the models of a folder (.pt2, .ir), without folder and extension, sorted.
std::vector<std::string> ModelNames(const std::string& folder);
// Returns FOLDER/NAME.pt2 or FOLDER/NAME.ir, whichever exists.
std::string ModelPath(const std::string& folder, const std::string& name);
// Returns a path in the test's own folder.
std::string Scratch(const std::string& name);

// Parses a graph given as text; its overloads and types are completed like those of a script.
absl::StatusOr<std::unique_ptr<Graph>> ParseModel(absl::string_view text);

// Compiles such a graph to a bundle NAME.smb for x86-64-v3, loads it and returns an instance.
absl::StatusOr<std::unique_ptr<Instance>> InstanceOf(absl::string_view text, const std::string& name);

absl::StatusOr<CompileStats> CompileModel(const std::string& model_path, const std::string& bundle_path,
                                          const CompileOptions& options);
// Returns "" if the case next to the model passes; else the difference or the error, after the name of the stage.
std::string CompileAndRunCase(const std::string& folder, const std::string& name, const CompileOptions& options,
                              CompileStats* stats = nullptr, CaseReport* report = nullptr);
// Runs the case again, on the bundle that CompileAndRunCase has just made. Every buffer of a kernel ends, then begins,
// at an inaccessible page.
std::string RunGuardedCase(const std::string& folder, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_E2E_TESTING_H_
