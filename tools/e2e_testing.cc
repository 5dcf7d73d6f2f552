#include "smelt/tools/e2e_testing.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/pipeline/complete_types.h"
#include "smelt/runtime/program.h"
#include "smelt/tools/model_file.h"

namespace smelt {

std::vector<std::string> ModelNames(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string ending = file.path().extension().string();
    if (ending == ".pt2" || ending == ".ir") out.insert(file.path().stem().string());
  }
  return std::vector<std::string>(out.begin(), out.end());
}

std::string ModelPath(const std::string& folder, const std::string& name) {
  const std::string pt2 = absl::StrCat(folder, "/", name, ".pt2");
  return std::filesystem::exists(pt2) ? pt2 : absl::StrCat(folder, "/", name, ".ir");
}

std::string Scratch(const std::string& name) {
  const char* folder = std::getenv("TEST_TMPDIR");
  return absl::StrCat(folder != nullptr ? folder : "/tmp", "/", name);
}

absl::StatusOr<std::unique_ptr<Graph>> ParseModel(absl::string_view text) {
  ParseOptions options;
  options.resolve_overload = ResolveOverload;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseGraph(text, options));
  SMELT_RETURN_IF_ERROR(CompleteTypes(*graph));
  return graph;
}

absl::StatusOr<std::unique_ptr<Instance>> InstanceOf(absl::string_view text, const std::string& name) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, ParseModel(text));
  CompileOptions options;
  options.targets = {kHostTarget};
  const std::string path = Scratch(name + ".smb");
  SMELT_RETURN_IF_ERROR(CompileToFile(*graph, path, options).status());
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(path));
  return Instance::Create(std::move(program));
}

absl::StatusOr<CompileStats> CompileModel(const std::string& model_path, const std::string& bundle_path,
                                          const CompileOptions& options) {
  CompileOptions with_structure = options;
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph,
                         ReadModel(model_path, /*complete=*/true, &with_structure.structure));
  return CompileToFile(*graph, bundle_path, with_structure);
}

namespace {

// Returns "" if the case passes.
std::string RunCaseOf(const std::shared_ptr<const Program>& program, const std::string& folder, const std::string& name,
                      const CaseOptions& options, CaseReport* report = nullptr) {
  auto ran = RunCase(program, absl::StrCat(folder, "/", name, ".case.safetensors"), options);
  if (!ran.ok()) return absl::StrCat("case: ", ran.status().ToString());
  if (report != nullptr) *report = *ran;
  if (ran->ok) return "";
  std::string out = "run:";
  for (const CaseFailure& f : ran->failures) absl::StrAppend(&out, " [call ", f.call, "] ", f.where, ": ", f.what, ";");
  return out;
}

}  // namespace

std::string CompileAndRunCase(const std::string& folder, const std::string& name, const CompileOptions& options,
                              CompileStats* stats, CaseReport* report) {
  const std::string bundle = Scratch(name + ".smb");
  auto compiled = CompileModel(ModelPath(folder, name), bundle, options);
  if (!compiled.ok()) return absl::StrCat("compile: ", compiled.status().ToString());
  if (stats != nullptr) *stats = *compiled;
  auto program = Program::Load(bundle);
  if (!program.ok()) return absl::StrCat("load: ", program.status().ToString());
  return RunCaseOf(*program, folder, name, {}, report);
}

std::string RunGuardedCase(const std::string& folder, const std::string& name) {
  auto program = Program::Load(Scratch(name + ".smb"));
  if (!program.ok()) return absl::StrCat("load: ", program.status().ToString());
  for (const GuardPages guard : {GuardPages::kEnd, GuardPages::kBegin}) {
    const std::string different = RunCaseOf(*program, folder, name, CaseOptions{.guard = guard});
    if (!different.empty())
      return absl::StrCat(guard == GuardPages::kEnd ? "guards at ends: " : "guards at begins: ", different);
  }
  return "";
}

}  // namespace smelt
