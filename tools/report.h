// A report on many models: one self-contained HTML file that needs no network, no script and no other files.
#ifndef SMELT_TOOLS_REPORT_H_
#define SMELT_TOOLS_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smelt/schema/bundle.h"
#include "smelt/tools/command_line.h"

namespace smelt {

struct ReportKernel {
  std::string key;
  int64_t launches = 0;  // in the plan for distinct arguments
};
struct ReportOperator {
  std::string name;
  int64_t count = 0;
};
struct ReportModel {
  std::string name;
  std::string status;   // "converted", "skipped" (was converted before), "failed", "not begun", "bundle"
  std::string why;      // of a failure
  std::string targets;  // that the bundle has code for; empty: those of the whole report
  std::optional<int64_t> model_bytes, bundle_bytes;
  std::optional<double> milliseconds;
  std::vector<ReportKernel> kernels;
  std::vector<ReportOperator> unsupported;
};

// Returns the kernels of the bundle's metadata.
std::vector<ReportKernel> KernelsOf(const fb::BundleT& bundle);

struct ReportInfo {
  std::string title;
  std::string version;  // of the compiler, or of the bundles
  std::string options;  // "targets x86-64-v3,x86-64-v4 ..."
};
// The same models give the same page. What failed comes first; else models are listed as given.
std::string RenderReport(const ReportInfo& info, const std::vector<ReportModel>& models);

// smelt report BUNDLE.smb|LOG.jsonl ... -o REPORT.html
int RunReport(const CommandLine& line);  // an exit code

}  // namespace smelt

#endif  // SMELT_TOOLS_REPORT_H_
