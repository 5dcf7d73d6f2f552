// Describes the arguments, states and results of a loaded bundle to its user, beyond what a call needs. Internal.
#ifndef SMELT_RUNTIME_DESCRIBE_H_
#define SMELT_RUNTIME_DESCRIBE_H_

#include <vector>

#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// The descriptions, one for each of the bundle's, with the names and kinds filled in.
struct CallerDescription {
  std::vector<ArgInfo>* args;
  std::vector<StateInfo>* states;
  std::vector<ResultInfo>* results;
};

// Fills in the rest.
void DescribeForCaller(const fb::BundleT& bundle, const Structure& argument_structure,
                       const Structure& result_structure, const CallerDescription& out);

}  // namespace smelt

#endif  // SMELT_RUNTIME_DESCRIBE_H_
