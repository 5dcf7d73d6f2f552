// Samples as lines of JSON, each with what the evaluator says a caller sees, for testdata/fuzz_eager.py: it runs them
// in PyTorch and compares.
#ifndef SMELT_TOOLS_FUZZ_EMIT_H_
#define SMELT_TOOLS_FUZZ_EMIT_H_

#include <string>

#include "smelt/tools/fuzz/run.h"
#include "smelt/tools/fuzz/sample.h"

namespace smelt {

// One line. `name` says which sample it is.
std::string EmitSample(const Sample& sample, const Seen& seen, const std::string& name);

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_EMIT_H_
