"""Writes op_answers.safetensors: what PyTorch's operators answer, for smelt's evaluator to be held against.

    python3 testdata/make_op_answers.py [-v]

README.md, "Operator answers", says what the file holds. PyTorch 2.13 and nothing else is needed. -v prints what PyTorch
refused and so is not in the table.
"""

import os
import sys
import zlib

import op_compute
import op_gradients
import op_memory
import op_pointwise
import op_quantization
from op_table import GENERATOR, TABLE, check

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    sections = [
        op_pointwise.unary, op_pointwise.binary, op_pointwise.promotion, op_pointwise.ternary, op_compute.reductions,
        op_compute.norms, op_compute.algebra, op_compute.losses, op_memory.indexing, op_memory.views,
        op_memory.factories, op_memory.in_place, op_memory.scalars, op_pointwise.complex_parts,
        op_compute.projected_lstm, op_compute.smoothed_resampling, op_compute.image_blocks, op_compute.fourier,
        op_compute.complex_composites, op_compute.factorizations, op_compute.orthogonal_factors,
        op_compute.differences, op_compute.kept_in_the_results_dtype,
        op_quantization.per_tensor, op_quantization.per_channel, op_quantization.per_token, op_quantization.per_group,
        op_quantization.chosen_parameters, op_quantization.integer_products, op_gradients.attention,
        op_gradients.convolutions, op_gradients.pools, op_gradients.resized, op_gradients.sampled, op_gradients.bags,
        op_gradients.others, op_gradients.maxima_of_bags,
        op_memory.places_of_a_fixed_number, op_memory.slices_that_differ, op_gradients.of_what_was_chosen
    ]
    for section in sections:
        GENERATOR.manual_seed(zlib.crc32(section.__name__.encode()))
        start = len(TABLE.entries)
        section()
        print(f"{section.__name__}: {len(TABLE.entries) - start} entries")
    path = os.path.join(HERE, "op_answers.safetensors")
    TABLE.write(path)
    operators = {e["op"] for e in TABLE.entries}
    print(f"{len(TABLE.entries)} entries, {len(operators)} operators, {os.path.getsize(path):,} bytes")
    if "-v" in sys.argv:
        print("\n".join(TABLE.refused))
    found = check(path)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
