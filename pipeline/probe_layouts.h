// Layouts for tensors of given sizes, for finding what depends on a tensor's layout.
#ifndef SMELT_PIPELINE_PROBE_LAYOUTS_H_
#define SMELT_PIPELINE_PROBE_LAYOUTS_H_

#include <vector>

#include "smelt/core/symbol/expr.h"

namespace smelt::probe_layouts {

using Strides = std::vector<Expr>;

Strides Reversed(const std::vector<Expr>& sizes);      // the first dim innermost
Strides ChannelsLast(const std::vector<Expr>& sizes);  // like Reversed for fewer than 3 dims
Strides ReversedRows(const std::vector<Expr>& sizes);  // rows unchanged, the dims before them reversed
Strides LastOutside(const std::vector<Expr>& sizes);   // the last dim outermost, the others unchanged
Strides FirstInside(const std::vector<Expr>& sizes);   // the first dim innermost, the others unchanged
Strides Gapped(const std::vector<Expr>& sizes);        // every other element of contiguous memory

}  // namespace smelt::probe_layouts

#endif  // SMELT_PIPELINE_PROBE_LAYOUTS_H_
