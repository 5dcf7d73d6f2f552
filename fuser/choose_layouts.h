// Gives values between convolutions a layout with the channels innermost.
//
// Convolutions compute in that layout on most machines and reorder any other one, on the way in and on the way out. A
// value that only they and kernels see may as well stay in it.
//
// Only the strides of such values' types change: no node does. Nothing else may see the value: no view, no region
// write, no caller. Linear in the number of uses.
#ifndef SMELT_FUSER_CHOOSE_LAYOUTS_H_
#define SMELT_FUSER_CHOOSE_LAYOUTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// After fusion, before the plan is made. Returns the number of values with another layout.
int ChooseLayouts(Graph& g);

// "choose-layouts".
Pass ChooseLayoutsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_CHOOSE_LAYOUTS_H_
