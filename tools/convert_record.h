// The outcome of one model of a batch: a line of the log, a row of the report, and the record by which the next run
// skips it.
#ifndef SMELT_TOOLS_CONVERT_RECORD_H_
#define SMELT_TOOLS_CONVERT_RECORD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "smelt/tools/report.h"

namespace smelt {

struct ConvertRecord {
  std::string model, bundle;  // paths
  std::string status;         // "converted", "skipped", "failed"
  int exit_code = 0;
  double milliseconds = 0;
  int64_t model_bytes = 0, bundle_bytes = 0;
  int64_t kernels_compiled = 0, kernels_from_cache = 0;
  std::string error;
  std::vector<ReportOperator> unsupported;
  std::vector<ReportKernel> kernels;
  // SHA-256 of model, options and compiler; for the bundle, its header's digest (container.h), which covers all of it.
  std::string input_digest, bundle_digest;
};

nlohmann::ordered_json LogLine(const ConvertRecord& r);  // docs/json.md
std::string Encode(const ConvertRecord& r);              // everything, on one line
// Returns false if Encode did not write the text.
bool Decode(const std::string& text, ConvertRecord& r);
ReportModel ToReport(const ConvertRecord& r, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_CONVERT_RECORD_H_
