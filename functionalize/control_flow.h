// Branches and loops: memories that they write become results. Internal to functionalization.
#ifndef SMELT_FUNCTIONALIZE_CONTROL_FLOW_H_
#define SMELT_FUNCTIONALIZE_CONTROL_FLOW_H_

#include "absl/status/status.h"
#include "smelt/functionalize/program_walk.h"

namespace smelt {

absl::Status ProcessIf(ProgramWalk& walk, NodeId n);
absl::Status ProcessLoop(ProgramWalk& walk, NodeId n);

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_CONTROL_FLOW_H_
