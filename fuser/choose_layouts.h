// Gives values between convolutions a layout with the channels innermost.
//
// On most machines convolutions compute in that layout and reorder any other layout, before and after. A value that
// only convolutions and kernels see can stay in it.
//
// Only the strides of such values' types change; nodes do not. Nothing else may see the value: no view, no region
// write, no caller. Linear in the number of uses.
#ifndef SMELT_FUSER_CHOOSE_LAYOUTS_H_
#define SMELT_FUSER_CHOOSE_LAYOUTS_H_

#include "smelt/core/ir/graph.h"
#include "smelt/core/pass/pass.h"

namespace smelt {

// Runs after fusion, before the plan is made. Returns the number of values with another layout.
int ChooseLayouts(Graph& g);

// "choose-layouts".
Pass ChooseLayoutsPass();

}  // namespace smelt

#endif  // SMELT_FUSER_CHOOSE_LAYOUTS_H_
