// Runs a case file: a model's arguments and everything that a caller must see after each call (docs/case_files.md).
//
//   CaseOptions options;
//   SMELT_ASSIGN_OR_RETURN(CaseReport report, RunCase(program, "model.case.safetensors", options));
//   report.ok
#ifndef SMELT_RUNTIME_CASE_H_
#define SMELT_RUNTIME_CASE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "smelt/runtime/program.h"

namespace smelt {

struct CaseOptions {
  int repeat = 1;  // rounds; arguments and state are restored before each
  // Compares what each round does, not only the first. The statistics of calls are then those of the last.
  bool check_all_rounds = false;
  // For tests: the arguments' storages and all of the instance's memory end or begin at inaccessible pages.
  GuardPages guard = GuardPages::kNone;
  bool time_steps = false;  // into CaseReport::step_times
};

struct CaseFailure {
  int call = 0;
  std::string where;  // "outputs[0]", "after_args[1]", "state cache"
  std::string what;
};

struct CaseReport {
  bool ok = false;
  std::vector<CaseFailure> failures;  // of the first round
  double max_abs_err = 0, max_rel_err = 0;
  double min_ms = 0, median_ms = 0;                                       // of all calls of all rounds
  int64_t kernel_launches = 0, library_calls = 0, bytes_copied_back = 0;  // of all calls of a round
  int64_t arena_bytes = 0;                                                // the largest
  // On a device, of all calls of a round: see CallStats.
  int64_t host_steps = 0, bytes_to_host = 0, bytes_to_device = 0, device_waits = 0, graph_launches = 0,
          cublaslt_products = 0;
  std::vector<std::string> alias_variants;                  // one per call; "" if it was refused
  std::map<std::string, std::vector<StepTime>> step_times;  // by method
};

// For a program on a device, arguments and states move there before each call, and back for the comparison.
//
// Returns an error only for a case file that cannot be read (DataLoss, NotFound, ...). Everything else is in the
// report.
absl::StatusOr<CaseReport> RunCase(const std::shared_ptr<const Program>& program, const std::string& case_path,
                                   const CaseOptions& options);

}  // namespace smelt

#endif  // SMELT_RUNTIME_CASE_H_
