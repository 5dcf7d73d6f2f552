"""Calls for make_op_answers.py: torch.ao's quantized_decomposed operators, and products of integers."""

import torch
import torch.ao.quantization.fx._decomposed  # registers them

from op_table import BF16, EQUAL, F16, F32, F64, I8, I16, I32, I64, INF, U8, add, ints, rand, transposed

RANGES = [(U8, 0, 255), (I32, -100, 1000), (I8, -128, 127), (I16, -32768, 32767)]


def quantized(name, *args, **kwargs):
    return add("quantized_decomposed::" + name, *args, compare=EQUAL, **kwargs)


def per_tensor():
    for t, low, high in RANGES:
        quantized("quantize_per_tensor", rand(3, 5, low=-9, high=9), 0.07, 3, low, high, t)
    for dtype in (BF16, F16):
        quantized("quantize_per_tensor", transposed(rand(3, 5, low=-9, high=9, dtype=dtype)), 0.1, -2, -8, 7, I8)
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, INF, -INF, 1e30, -1e30, 0.0])
    quantized("quantize_per_tensor", x, 1.0, 0, -128, 127, I8)
    quantized("quantize_per_tensor", x[2], 0.3, 1, 0, 255, U8)
    for scale in (torch.tensor(0.07, dtype=F64), torch.tensor([0.07])):
        zero = torch.tensor([3])
        quantized("quantize_per_tensor.tensor", rand(4, 3), scale, zero, -128, 127, I8)
        quantized("quantize_per_tensor.tensor", x[1], scale, zero, -128, 127, I8)
        quantized("quantize_per_tensor.tensor2", rand(4, 3, dtype=F16), scale, zero, torch.tensor(-8), torch.tensor([7]), I8)
    for t, low, high in RANGES[:2]:
        q = ints(3, 4, low=max(low, -200), high=min(high, 200), dtype=t)
        for out in (None, BF16, F64) if t == U8 else (F16,):
            quantized("dequantize_per_tensor", q, 0.07, 3, low, high, t, out_dtype=out)
        quantized("dequantize_per_tensor.tensor", transposed(q), torch.tensor([0.07], dtype=F64), torch.tensor(5), low, high, t)
        quantized("dequantize_per_tensor.tensor2", q[1, 2], torch.tensor(0.07, dtype=F64), torch.tensor(5), torch.tensor(low),
                  torch.tensor(high), t, out_dtype=BF16)


def per_channel():
    for axis, n in ((0, 2), (-1, 4)):
        scales, zeros = rand(n, low=0.01, high=0.2), ints(n, low=-3, high=4)
        quantized("quantize_per_channel", rand(2, 3, 4, low=-9, high=9), scales, zeros, axis, -128, 127, I8)
        quantized("quantize_per_channel", rand(2, 3, 4, dtype=BF16), scales.to(F64), zeros.to(I32), axis, -8, 7, I8)
        q = ints(2, 3, 4, low=-100, high=100, dtype=I8)
        quantized("dequantize_per_channel", q, scales, zeros, axis, -128, 127, I8)
        quantized("dequantize_per_channel", q, scales.to(F64), None, axis, -128, 127, I8, out_dtype=BF16)
        if axis >= 0:
            quantized("fake_quant_per_channel", rand(2, 3, 4, low=-9, high=9), scales.to(F64), zeros, axis, -8, 7)


def per_token():
    for dtype in (F32, BF16, F16):
        x = rand(2, 2, 3, low=-9, high=9, dtype=dtype)
        quantized("choose_qparams_per_token", x, I8)
        quantized("choose_qparams_per_token_asymmetric", x, I8)
        quantized("_choose_qparams_per_token_asymmetric_impl", x.abs() + 1, I8)
        scales, zeros = rand(2, 2, 1, low=0.02, high=0.2, dtype=F32 if dtype == F16 else F64), ints(2, 2, 1, low=-5, high=5)
        quantized("quantize_per_token", x, scales, zeros, -128, 127, I8)
        q = ints(2, 2, 3, low=-100, high=100, dtype=I8)
        quantized("dequantize_per_token", q, scales, zeros, -128, 127, I8, dtype)


def per_group():
    x, q = rand(4, 8, low=-9, high=9), ints(4, 8, low=-8, high=8, dtype=I8)
    for size, sizes in ((4, (4, 2)), (16, (4, 1))):
        scales, zeros = rand(*sizes, low=0.2, high=2), ints(*sizes, low=-3, high=4, dtype=I32)
        quantized("quantize_per_channel_group", x, scales, zeros, -8, 7, I8, size)
        quantized("dequantize_per_channel_group", q, scales, zeros, -8, 7, I8, size, F32)
        quantized("dequantize_per_channel_group", q, scales, None, -8, 7, I8, size, BF16)


def chosen_parameters():
    for dtype in (F32, BF16, F16):
        x = rand(4, 5, low=-3, high=7, dtype=dtype)
        for name in ("choose_qparams.tensor", "choose_qparams_symmetric.tensor"):
            quantized(name, x, -128, 127, 2.0**-12, I8)
            quantized(name, -x.abs() - 1, 0, 255, 1e-5, U8)
    quantized("choose_qparams.tensor", torch.zeros(3), -8, 7, 1e-5, I8)
    quantized("convert_element_type.no_fuse", rand(3, 4), BF16)


def integer_products():
    a, b = ints(5, 7, low=-128, high=128, dtype=I8), ints(7, 3, low=-128, high=128, dtype=I8)
    add("_int_mm", a, b, compare=EQUAL)
    add("_int_mm", a, transposed(b), compare=EQUAL)
    add("_int_mm", a[:, :0], b[:0], compare=EQUAL)
