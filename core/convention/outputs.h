// The innermost layer: which of the results share memory. On entry fresh memory is allocated. On exit each result is
// returned as the argument itself, a view, or a fresh tensor.
#ifndef SMELT_CORE_CONVENTION_OUTPUTS_H_
#define SMELT_CORE_CONVENTION_OUTPUTS_H_

#include <string>
#include <vector>

#include "smelt/core/convention/layer_index.h"
#include "smelt/core/convention/symbolic_geometry.h"

namespace smelt {

// The source of one of the caller's outputs.
struct OutputInfo {
  enum class Kind {
    kIsArgument,           // the caller's own tensor
    kIsState,              // the parameter or buffer itself
    kAliasOfMemory,        // a view of an argument's or a state's memory
    kAliasOfIntermediate,  // a view of a storage the graph made, shared with other outputs: graph output `contents`
    kFresh,                // the whole of graph output `contents`
    kScalar,               // graph output `contents`, an int, float or bool value
    kConstant,             // an expression known from the sizes
    kNone,
  } kind = Kind::kFresh;
  CallerIndex argument;
  int state = -1;
  MemoryIndex memory;
  GraphOutputIndex contents;
  SymbolicGeometry geometry;  // of aliases
  Expr constant;
};
struct OutputsLayer {
  std::vector<OutputInfo> outputs;
  std::string ToString() const;
};

}  // namespace smelt

#endif  // SMELT_CORE_CONVENTION_OUTPUTS_H_
