// Products with a weight of int8 that is widened first, as torch.ao's and torchao's exports write them, become products
// that read the weight itself. Otherwise each call would write the whole weight in a wider dtype, and read that.
//
//   %w = quantized_decomposed::dequantize_per_channel(%q, %scales, %zeros, 0, ...)
//   %y = aten::linear(%x, %w, %bias)
//
// becomes smelt::int8_mm(%x, %q, %scales), less the part of the zero points, plus the bias. If %x is dequantized too, the
// bytes are multiplied, by aten::_int_mm, and the sums are scaled; so are the bytes of a convolution, by
// smelt::int8_convolution, if its image has one known scale. A weight of 4 bits whose
// groups of elements have scales becomes an operand of smelt::int4_mm: as dequantize_per_channel_group and torchao's
// dequantize_affine write it, and as (%q - %zeros) * %scales.
#ifndef SMELT_FUSER_QUANTIZED_WEIGHTS_H_
#define SMELT_FUSER_QUANTIZED_WEIGHTS_H_

#include "absl/status/status.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// The graph is pure. Weights that something writes keep their products. Takes a step for each node, and for each product
// the uses of its weight.
absl::Status UseQuantizedWeights(Graph& g);

}  // namespace smelt

#endif  // SMELT_FUSER_QUANTIZED_WEIGHTS_H_
