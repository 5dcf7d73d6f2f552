// Samples from and to case files (docs/case_files.md).
#ifndef SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
#define SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// The arguments of each call of a case. Unimplemented for a call whose argument lives in memory that an earlier call
// made.
absl::StatusOr<std::vector<Call>> ReadCaseCalls(const std::string& path);

// One call, and what `seen` says a caller sees of it. FailedPrecondition in seen.status: that it must be refused.
absl::Status WriteCase(const Sample& sample, const Seen& seen, const std::string& model_name, const std::string& path);

// The graph in PREFIX.ir (PREFIX.smg, where it has weights), the call and what eager execution says of it in
// PREFIX.case.safetensors. Returns the name of the graph's file.
absl::StatusOr<std::string> WriteSampleFiles(const Sample& sample, const std::string& prefix);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
