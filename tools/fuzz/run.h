// Runs a sample in several ways and compares what the caller sees: the evaluator on the graph as it is (eagerly), the
// evaluator on the pure graph under its convention, and the compiled bundle.
#ifndef SMELT_TOOLS_FUZZ_RUN_H_
#define SMELT_TOOLS_FUZZ_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// The parts of a call that a caller sees.
struct Seen {
  absl::Status status;
  MadeCall call;  // afterwards
  std::vector<Datum> outputs;
  std::vector<Tensor> states;
  std::string variant;  // of a bundle
  // True if the results depend on the last place of tanh, sigmoid or softmax, which kernels may round differently,
  // because they are read as another dtype.
  bool shows_last_places = false;
};

// Returns "" if a caller cannot distinguish the two. Values are compared within the rounding of their dtype, everything
// else exactly. If `want` is refused, `got` must be, and must have modified nothing.
std::string Difference(const Sample& sample, const Seen& want, const Seen& got);

Seen RunEagerly(const Sample& sample);

enum class Outcome {
  kEqual,
  kDifferent,    // a wrong answer
  kRefused,      // by smelt, though eager execution accepts it
  kUnsupported,  // with that error code
  kSkipped,      // the evaluator itself does not run it
};
struct Verdict {
  Outcome outcome = Outcome::kEqual;
  std::string where;    // "functionalize", "fuse", "bundle"
  std::string what;     // the difference or the refusal
  std::string variant;  // the variant that the bundle ran
  bool eager_refuses = false;
};

struct RunOptions {
  bool evaluator = true;  // on the pure graph
  bool compiled = false;  // the bundle
  // with compiled: compiles programs that the evaluator does not run, without a comparison
  bool compiled_unjudged = false;
  bool only_eager_order = false;  // with compiled: the bundle has no other plan
  KernelCache* cache = nullptr;
  std::string scratch = "/tmp";  // where bundles are written
  bool all_variants = true;      // also the plan for overlapping arguments where a simpler one fits
};
Verdict RunSample(const Sample& sample, const RunOptions& options);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_RUN_H_
