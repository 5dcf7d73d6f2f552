#include "smelt/core/pass/pass_pipeline.h"

#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/check.h"
#include "smelt/core/base/recover.h"

namespace smelt {
namespace {

constexpr absl::string_view kPassPayload = "smelt/pass";

absl::Status WithPass(absl::Status error, absl::string_view pass) {
  if (!error.ok() && !error.GetPayload(kPassPayload)) error.SetPayload(kPassPayload, absl::Cord(pass));
  return error;
}

}  // namespace

std::string FailedPass(const absl::Status& error) {
  const auto name = error.GetPayload(kPassPayload);
  return name ? std::string(*name) : "";
}

void PassPipeline::Add(Pass pass) {
  SMELT_CHECK(Find(pass.name) == nullptr) << "pass " << pass.name << " stands in the pipeline twice";
  for (const Pass& earlier : passes_) {
    SMELT_CHECK(!absl::c_linear_search(earlier.prerequisites, pass.name))
        << "pass " << pass.name << " must stand before " << earlier.name;
  }
  passes_.push_back(std::move(pass));
}

void PassPipeline::Append(PassPipeline other) {
  for (Pass& pass : other.passes_) Add(std::move(pass));
}

const Pass* PassPipeline::Find(absl::string_view name) const {
  const auto it = absl::c_find_if(passes_, [&](const Pass& pass) { return pass.name == name; });
  return it == passes_.end() ? nullptr : &*it;
}

std::vector<const Pass*> PassPipeline::WithPrerequisites(absl::string_view name) const {
  if (Find(name) == nullptr) return {};
  // Prerequisites stand earlier, so that one walk from behind finds all of them.
  absl::flat_hash_set<absl::string_view> needed = {name};
  std::vector<const Pass*> out;
  for (auto pass = passes_.rbegin(); pass != passes_.rend(); ++pass) {
    if (!needed.contains(pass->name)) continue;
    needed.insert(pass->prerequisites.begin(), pass->prerequisites.end());
    out.push_back(&*pass);
  }
  absl::c_reverse(out);
  return out;
}

absl::Status PassPipeline::Run(Graph& graph, PassContext& context, const PassRunOptions& options,
                               std::vector<PassRecord>* records) const {
  for (const Pass& pass : passes_) {
    const absl::Status status = RunPass(pass, graph, context, options, records);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunPass(const Pass& pass, Graph& graph, PassContext& context, const PassRunOptions& options,
                     std::vector<PassRecord>* records) {
  if (options.disabled.contains(pass.name)) {
    if (pass.is_optional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("pass ", pass.name, " cannot be switched off: no program compiles without it"));
  }
  PassRecord record;
  record.name = pass.name;
  const auto start = std::chrono::steady_clock::now();
  WorksOnPass(pass.name);
  const absl::StatusOr<bool> changed = pass.Run(graph, context);
  record.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!changed.ok()) return WithPass(changed.status(), pass.name);
  record.changed = *changed;
  if (options.after_pass) {
    const absl::Status status = options.after_pass(pass, graph, record);
    if (!status.ok()) return WithPass(status, pass.name);
  }
  if (records != nullptr) records->push_back(std::move(record));
  return absl::OkStatus();
}

}  // namespace smelt
