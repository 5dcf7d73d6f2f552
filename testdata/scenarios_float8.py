"""Scenarios for make_scenarios.py: tensors of float8, and products with weights of float8 as torchao exports them."""

import torch
import torch.nn.functional as F
from torch import nn

from scenario_kit import randn, scenario

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def bits(t):
    return t.view(torch.uint8)


def every_float8(dtype):
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def near_float8():
    """Each float8, the middles between neighbours, what is next to those, and what is too large."""
    tables = [every_float8(t).float() for t in (E4M3, E5M2)]
    known = torch.cat([t[t.isfinite()] for t in tables]).unique()
    middles = (known[1:] + known[:-1]) / 2
    inf = torch.tensor(float("inf"))
    extremes = torch.tensor([448.0, 464.0, 465.0, 480.0, 61440.0, 61441.0, 65536.0, 1e30, 2**-10, 2**-17, 1e-30, 0.0])
    found = [known, middles, middles.nextafter(inf), middles.nextafter(-inf), extremes, -extremes]
    return torch.cat(found + [torch.tensor([float("inf"), -float("inf"), float("nan"), -float("nan")])])


@scenario(lambda: (near_float8(), near_float8().double() * (1 + 2**-30), near_float8().to(torch.bfloat16), near_float8().half()))
def float8_of_other_floats(x, d, b, h):
    return [bits(t.to(dtype)) for t in (x, d, b, h) for dtype in (E4M3, E5M2)]


@scenario(lambda: (torch.arange(-600, 600), torch.arange(-128, 128).to(torch.int8), torch.tensor([True, False])))
def float8_of_integers(i, c, b):
    return [bits(t.to(dtype)) for t in (i, c, b) for dtype in (E4M3, E5M2)]


@scenario(lambda: (every_float8(E4M3), every_float8(E5M2)))
def float8_as_other_dtypes(a, b):
    others = [t.to(dtype) for t in (a, b) for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.half, torch.bool)]
    finite = [t[:120].to(dtype) for t in (a, b) for dtype in (torch.int32, torch.int64, torch.int16)]
    return others, finite, bits(a.to(E5M2)), bits(b.to(E4M3))


@scenario(lambda: (randn(4, 6).to(E4M3), randn(4, 6).to(E4M3), torch.tensor([2, 0, 3])))
def float8_moved(x, y, i):
    padded = F.pad(x, (1, 2), value=1.5)
    chosen = torch.where(torch.arange(6) > 2, x, y)
    moved = [torch.cat([x, y], 1), torch.stack([x, y]), x[i], x.index_select(1, i), x.t().contiguous(), x.flip(0), x.roll(1, 1),
             x.repeat(2, 1), x[1:, ::2].clone(), padded, chosen, F.embedding(i, y), torch.slice_scatter(x, y[:2], 0, 1, 3)]
    return [bits(t) for t in moved], torch.full((3, ), 0.3, dtype=E4M3), torch.zeros(2, dtype=E5M2), x.expand(2, 4, 6)


@scenario(lambda: (randn(3, 8), randn(3, 8).to(E5M2)), lambda: (randn(3, 8) * 100, randn(3, 8).to(E5M2)))
class Float8Cache(nn.Module):
    """Rows are rounded to float8 as they are written into a state, and into an argument."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 8, dtype=E4M3))

    def forward(self, x, given):
        self.cache[1:4].copy_(x)
        self.cache[5] = x[0].to(E4M3)
        given[:, ::2] = x[:, ::2].to(E5M2)
        return self.cache.float() @ x.t(), bits(given)


class Float8Linear(nn.Module):
    """A scale for each row of the weight, applied in float32, as torchao dequantizes."""

    def __init__(self, dtype, columns, depth):
        super().__init__()
        w = randn(columns, depth)
        self.register_buffer("scale", w.abs().amax(1, keepdim=True) / torch.finfo(dtype).max)
        self.register_buffer("weight", (w / self.scale).to(dtype))
        self.register_buffer("bias", randn(columns))

    def forward(self, x):
        w = (self.weight.t().to(torch.float32) * self.scale.t()).to(x.dtype)
        return torch.matmul(x, w) + self.bias.to(x.dtype)


class Float8Layers(nn.Module):

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Float8Linear(E4M3, 40, 72), Float8Linear(E5M2, 33, 40)])
        self.register_buffer("plain", randn(20, 33).to(E4M3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return F.linear(x, self.plain.to(x.dtype))


@scenario(lambda: (randn(1, 72), ), lambda: (randn(1, 72) * 3, ), rtol=1e-5, atol=1e-3)
class Float8LinearOfOneRow(Float8Layers):
    pass


@scenario(lambda: (randn(2, 5, 72), ), lambda: (randn(2, 5, 72) * 3, ), rtol=1e-5, atol=1e-3)
class Float8LinearOfTenRows(Float8Layers):
    pass


@scenario(lambda: (randn(7, 72).to(torch.bfloat16), ), rtol=1.6e-2, atol=0.1)
class Float8LinearOfBFloat16(nn.Module):

    def __init__(self):
        super().__init__()
        self.layer = Float8Linear(E4M3, 40, 72)

    def forward(self, x):
        return self.layer(x)


@scenario(lambda: (randn(16, 32).to(E4M3), randn(48, 32).to(E4M3), torch.tensor(0.5), torch.tensor(0.25)))
def scaled_product_of_float8(a, b, x, y):
    return torch._scaled_mm(a, b.t(), x, y, out_dtype=torch.float32), torch._scaled_mm(a, b.t(), x, y, out_dtype=torch.bfloat16)


@scenario(lambda: (randn(16, 32).to(E5M2), randn(48, 32).to(E4M3), torch.rand(16, 1), torch.rand(1, 48), randn(48)))
def scaled_product_of_float8_rows(a, b, x, y, bias):
    plain = torch._scaled_mm(a, b.t(), x, y, out_dtype=torch.float32)
    return plain, torch._scaled_mm(a, b.t(), x, y, bias=bias, out_dtype=torch.float32)
