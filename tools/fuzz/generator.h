// Random programs over views, in-place operators, pure operators, branches and loops, each with the arguments of a call
// that share memory in some way. Equal seeds give equal programs.
#ifndef SMELT_TOOLS_FUZZ_GENERATOR_H_
#define SMELT_TOOLS_FUZZ_GENERATOR_H_

#include <cstdint>

#include "smelt/tools/fuzz/sample.h"

namespace smelt {

struct GeneratorOptions {
  int max_nodes = 14;
  bool control_flow = true;
  bool symbolic_sizes = true;
  bool weights = true;
  // Also uses the operators of more_operators.h, for half of all operators. (Without them a seed gives the same program
  // as before they were added.)
  bool more_operators = false;
};

Sample RandomSample(uint64_t seed, const GeneratorOptions& options = {});

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_GENERATOR_H_
