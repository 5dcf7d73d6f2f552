// Operators of which the generator knows only the arguments that they take.
#ifndef SMELT_TOOLS_FUZZ_MORE_OPERATORS_H_
#define SMELT_TOOLS_FUZZ_MORE_OPERATORS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace smelt {

enum class Takes {
  kAnything,
  kNumbers,  // not bool
  kOrdered,  // neither bool nor complex
  kFloats,   // float32 and float64
  kInts,     // not bool
};

// A call: `arguments` are words, one an argument; what is left out has its default.
//   x  the tensor              y  one that broadcasts to it, of a dtype that it takes
//   Y  one of its dtype and sizes        z  any of its dtype         t  a 0-dim one of its dtype
//   i  places along `d`, of x's sizes, some of them equal            j  places, each once, of x's sizes
//   p  places in x taken flat            m  a mask of x's sizes      d  a dim    e  a dim, again
//   n  a number of its dtype   N  the same, not 0      _  None       ds  a list of one dim
//   Z  a list of tensors of its dtype and sizes, x first             W  another such list of as many
//   (a literal: true, 2, 0.5, [1, 2], "floor")
struct OperatorCall {
  absl::string_view op;
  absl::string_view arguments;
  Takes takes = Takes::kOrdered;
};

const std::vector<OperatorCall>& MoreOperators();

}  // namespace smelt

#endif  // SMELT_TOOLS_FUZZ_MORE_OPERATORS_H_
