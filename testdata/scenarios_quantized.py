"""Scenarios for make_scenarios.py: quantized programs, as torch.ao's quantization writes them."""

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torch.nn.functional as F
from torch import nn

from scenario_kit import randn, scenario

Q = torch.ops.quantized_decomposed


@scenario(lambda: (randn(2, 3, 4, 4), ), lambda: (randn(2, 3, 4, 4) * 3, ))
class QuantizedConvolutionAndLinear(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(-127, 128, (4, 3, 3, 3)).to(torch.int8))
        self.register_buffer("s", torch.rand(4) * 0.02 + 0.001)
        self.register_buffer("z", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("v", torch.randint(-127, 128, (5, 4)).to(torch.int8))

    def forward(self, x):
        x = Q.quantize_per_tensor(x, 0.03, 4, -128, 127, torch.int8)
        y = Q.dequantize_per_tensor(x, 0.03, 4, -128, 127, torch.int8)
        y = F.conv2d(y, Q.dequantize_per_channel(self.w, self.s, self.z, 0, -127, 127, torch.int8)).relu_()
        q = Q.quantize_per_tensor(y, 0.05, -128, -128, 127, torch.int8)
        y = Q.dequantize_per_tensor(q, 0.05, -128, -128, 127, torch.int8).mean((2, 3))
        scale, zero = Q.choose_qparams.tensor(y, 0, 255, 1e-7, torch.uint8)
        q8 = Q.quantize_per_tensor.tensor(y, scale, zero, 0, 255, torch.uint8)
        y = Q.dequantize_per_tensor.tensor(q8, scale, zero, 0, 255, torch.uint8)
        return q, q8, scale, zero, F.linear(y, Q.dequantize_per_tensor(self.v, 0.01, 0, -127, 127, torch.int8))


@scenario(lambda: (randn(4, 6), torch.zeros(5, 6, dtype=torch.int8)), lambda: (randn(4, 6) * 3, torch.ones(5, 6, dtype=torch.int8)))
class QuantizedByAFollowedRange(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))

    def forward(self, x, cache):
        self.low.copy_(torch.minimum(self.low, x.min()))
        self.high.copy_(self.high + 0.1 * (x.max() - self.high))
        scale = ((self.high - self.low) / 255).double()
        zero = (-128 - (self.low / scale).round()).long()
        q = Q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        cache[1:].copy_(q)
        rows, middle = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
        t = Q.quantize_per_token(x, rows, middle, -128, 127, torch.int8)
        return cache[0], Q.dequantize_per_token(t, rows, middle, -128, 127, torch.int8, torch.float32), torch._int_mm(t, q.t())
