// Converts samples to and from case files (docs/case_files.md).
#ifndef SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
#define SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// Returns the arguments of each call of a case. Unimplemented for a call with an argument in memory that an earlier
// call made.
absl::StatusOr<std::vector<Call>> ReadCaseCalls(const std::string& path);

// Writes one call, and the observations of a caller from `seen`. FailedPrecondition in seen.status means that it must
// be refused.
absl::Status WriteCase(const Sample& sample, const Seen& seen, const std::string& model_name, const std::string& path);

// Writes the graph to PREFIX.ir (PREFIX.smg if it has weights), and the call with the results of eager execution to
// PREFIX.case.safetensors. Returns the name of the graph's file.
absl::StatusOr<std::string> WriteSampleFiles(const Sample& sample, const std::string& prefix);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_SAMPLE_CASE_H_
