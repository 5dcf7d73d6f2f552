// A model through every stage, as the command line takes it there: for tests.
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

// A graph that a test holds as text, its overloads and types completed as a script's are.
absl::StatusOr<std::unique_ptr<Graph>> ParseModel(absl::string_view text);

// Such a graph compiled to a bundle NAME.smb for x86-64-v3, loaded: an instance of it.
absl::StatusOr<std::unique_ptr<Instance>> InstanceOf(absl::string_view text, const std::string& name);

absl::StatusOr<CompileStats> CompileModel(const std::string& model_path, const std::string& bundle_path,
                                          const CompileOptions& options);
// "" if the case beside the model holds; else what is different, or the error, with the stage in front.
std::string CompileAndRunCase(const std::string& folder, const std::string& name, const CompileOptions& options,
                              CompileStats* stats = nullptr, CaseReport* report = nullptr);
// The case again, on the bundle that CompileAndRunCase has just made, with every buffer that a kernel is given ending,
// then beginning, at a page that nobody may touch.
std::string RunGuardedCase(const std::string& folder, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_E2E_TESTING_H_
