// Writes samples as lines of JSON, each with the evaluator's results as a caller sees them, for testdata/fuzz_eager.py,
// which runs them in PyTorch and compares.
#ifndef SMELT_TOOLS_FUZZ_EMIT_H_
#define SMELT_TOOLS_FUZZ_EMIT_H_

#include <string>

#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// Writes one line. `name` identifies the sample.
std::string EmitSample(const Sample& sample, const Seen& seen, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_EMIT_H_
