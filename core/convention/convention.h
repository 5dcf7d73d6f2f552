// The effects of a functionalized graph on its caller beyond plain results, as a stack of layers. Each layer hides one
// problem from all layers below it and has its own index type, so that an argument position of one layer cannot be used
// in another by mistake.
//
//   caller's arguments  --duplicates-->  distinct tensors  --overlaps-->  memories
//                       --mutations, outputs-->  the pure graph
//
// The pure graph's outputs are first the final contents of mutated memories, then the values that the outputs layer
// refers to, each once. This is data: functionalize/ writes it, schema/ stores it, the evaluator and the runtime
// execute it.
#ifndef SMELT_CORE_CONVENTION_CONVENTION_H_
#define SMELT_CORE_CONVENTION_CONVENTION_H_

#include <string>

#include "smelt/core/convention/duplicates.h"
#include "smelt/core/convention/mutations.h"
#include "smelt/core/convention/outputs.h"
#include "smelt/core/convention/overlaps.h"

namespace smelt {

// An attribute of a smelt::assert_size that holds for the example and is assumed for a call's sizes. For other sizes
// PyTorch makes other views, or chooses another layout, so such calls are not refused but run in eager order.
inline constexpr char kElseInOrder[] = "else_in_order";

struct Convention {
  DuplicatesLayer duplicates;
  OverlapsLayer overlaps;
  MutationsLayer mutations;
  OutputsLayer outputs;
  std::string ToString() const;  // stable, for inspect and tests
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_CONVENTION_H_
