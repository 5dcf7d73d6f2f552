// Takes a model through every stage, as the command line does: for tests.
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

// The models of a folder (.pt2, .ir), without folder and ending, sorted.
std::vector<std::string> ModelNames(const std::string& folder);
// FOLDER/NAME.pt2 or FOLDER/NAME.ir, whichever there is.
std::string ModelPath(const std::string& folder, const std::string& name);
// A path in the test's own folder.
std::string Scratch(const std::string& name);

// Parses a graph that a test holds as text; its overloads and types are completed as a script's are.
absl::StatusOr<std::unique_ptr<Graph>> ParseModel(absl::string_view text);

// Compiles such a graph to a bundle NAME.smb for x86-64-v3, loads it and returns an instance.
absl::StatusOr<std::unique_ptr<Instance>> InstanceOf(absl::string_view text, const std::string& name);

absl::StatusOr<CompileStats> CompileModel(const std::string& model_path, const std::string& bundle_path,
                                          const CompileOptions& options);
// Returns "" if the case beside the model holds; else the difference or the error, with the stage in front.
std::string CompileAndRunCase(const std::string& folder, const std::string& name, const CompileOptions& options,
                              CompileStats* stats = nullptr, CaseReport* report = nullptr);
// Runs the case again, on the bundle that CompileAndRunCase has just made. Every buffer of a kernel ends, then begins,
// at an inaccessible page.
std::string RunGuardedCase(const std::string& folder, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_E2E_TESTING_H_
