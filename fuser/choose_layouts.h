// Lets values between convolutions lie with their channels innermost.
//
//   convolutions compute in that layout on most machines and reorder whatever comes in another one, on the way in and
//   on the way out; a value that only they and kernels see may as well stay as they want it
//
// Only the strides of such values' types change: no node does. Nobody else may see the value: no view, no region write,
// no caller. Linear in the number of uses.
#ifndef SMELT_FUSER_CHOOSE_LAYOUTS_H_
#define SMELT_FUSER_CHOOSE_LAYOUTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// After fusion, before the plan is made. Returns how many values lie otherwise now.
int ChooseLayouts(Graph& g);

// "choose-layouts".
Pass ChooseLayoutsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_CHOOSE_LAYOUTS_H_
