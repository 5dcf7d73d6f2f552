// Layouts of results that calls other than the exported example would get in PyTorch. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_EXAMPLE_LAYOUTS_H_
#define SMELT_FUNCTIONALIZE_EXAMPLE_LAYOUTS_H_

#include "absl/status/status.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

// In PyTorch the layout of a pure operator's results can depend on whether a size is 0, 1 or more, or on which of two
// sizes is larger. The export takes the example's layout for every call. A call in which the caller would see another
// layout runs as another program. Tries a few values of each symbol.
absl::Status AssertLayoutsHold(ProgramWalk& walk, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_EXAMPLE_LAYOUTS_H_
