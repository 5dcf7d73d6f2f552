"""Scenarios for make_scenarios.py: results in tensors of another dtype than the operands, dtypes that are asked for."""

import torch
from torch.export import Dim

from scenario_kit import randn, scenario


def into(dtype, given, *sizes):
    return lambda: ((randn(40, 5) * 3).to(dtype), torch.zeros(sizes, dtype=given))


@scenario(lambda: ((randn(40, 5) * 3).bfloat16(), torch.zeros(5), torch.zeros(5, dtype=torch.int64), torch.zeros(5, dtype=torch.bfloat16)))
def results_in_given_dtypes(x, floats, integers, halves):
    y = x.float() * 1.1
    return torch.sum(x, 0, out=floats), torch.sum(y, 0, out=integers), torch.mean(y, 0, out=halves)


@scenario(into(torch.bfloat16, torch.float32, 40, 5))
def running_sum_of_halves_into_floats(x, out):
    return torch.cumsum(x, 0, out=out)


@scenario(into(torch.float32, torch.int32, 40, 5))
def running_product_of_floats_into_integers(x, out):
    return torch.cumprod(x[:6], 0, out=out[:6])


@scenario(lambda: ((randn(40, 5) * 3),))
def means_in_halves(x):
    return x.mean(0, dtype=torch.bfloat16), x.double().mean(dtype=torch.float16), x.nanmean(0, dtype=torch.float16)


@scenario(lambda: (torch.zeros(10, dtype=torch.int64),))
def sequences_of_integers(x):
    torch.linspace(0, 7.3, 10, out=x)
    return x, torch.linspace(1.7, 25.9, 7, dtype=torch.int32), torch.logspace(0.7, 2.9, 10, base=3, dtype=torch.int64)


@scenario(lambda: (randn(4, 3),))
def real_sums_in_complex_numbers(x):
    c = x.to(torch.complex64)
    norm = torch.linalg.vector_norm(c, 2, 0, dtype=torch.complex128)
    return x.sum(0, dtype=torch.complex64), x.mean(0, dtype=torch.complex128), norm


@scenario(lambda: (torch.tensor([.1, .2, 1e-60], dtype=torch.float64), torch.tensor([.1, .2, 0], dtype=torch.complex64)))
def floats_compared_with_complex_numbers(x, z):
    return x == z, z != x, torch.logical_xor(z[0], x)


@scenario(lambda: (torch.tensor([0, 1, 2j, 1 + 1j], dtype=torch.complex64), torch.tensor([2., 2., 2., .5])))
def powers_of_complex_zero(z, e):
    return z**e, torch.pow(z, e.to(torch.complex64)), torch.pow(e * 0, z[3:])


@scenario(lambda: (torch.tensor([complex(float("inf"), 0), complex(-float("inf"), 0), 0, 1 + 2j], dtype=torch.complex64),))
def functions_of_infinite_complex_numbers(z):
    return z.exp(), z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh()


@scenario(lambda: (torch.tensor([1., -1.5, 0., 1e-30, 3.], dtype=torch.float64), torch.tensor([200, -1050, 2000, 140, 2])))
def scaled_by_powers_of_two(x, n):
    return torch.ldexp(x, n), torch.ldexp(x.float(), n), torch.ldexp(x.half(), n.int())


@scenario(lambda: (randn(4, 3),))
def numbers_copied(x):
    x[1:].copy_(0)
    x[:, 0].copy_(1.5)
    return x.to(torch.int32).copy_(2.5), x * 1


@scenario(lambda: (randn(4, 3), torch.arange(-3, 3)))
def masks_filled_with_another_dtype(x, n):
    x[x > 1] = torch.tensor(0)
    x[x[:, 0] < 0] = torch.tensor([2])
    n[n > 0] = torch.tensor(1.5)
    return x, n


@scenario(lambda: (randn(6).half(), randn(6), torch.zeros(6, dtype=torch.float16)))
def halves_held_between_floats(x, low, out):
    x.clamp_(low, low + 1)
    return torch.max(x, low, out=out), x * 1


@scenario(lambda: (randn(2, 5, 12)[..., 4:8],), lambda: (randn(2, 7, 12)[..., 4:8],), dynamic_shapes=({1: Dim.AUTO},))
def a_dynamic_part_of_rows(x):
    x.mul_(2)
    return x.sum(-1), x.transpose(1, 2)


@scenario(lambda: (torch.tensor([-0., 0., -1., 1.] * 5),))
def zeros_that_bounds_leave_their_sign(x):
    h = x.bfloat16()
    bounded = [x.relu(), x.clamp(min=0), x.clamp(max=0), x.clamp(-1, 0), torch.nn.functional.relu6(x), h.relu(), h.clamp(0, 1)]
    return [torch.signbit(y) for y in bounded]


@scenario(lambda: (torch.arange(42.), randn(3, 40)))
def histograms_of_numbers_on_edges(x, y):
    x.sub_(1)
    return [torch.histc(v, n, 0, high) for v in (x, x.half(), x.bfloat16()) for n, high in ((41, 41), (300, 40))] + [
        torch.histc(v, 37, -4.1, 7.3) for v in (y * 5, (y * 5).half(), (y * 5).bfloat16())
    ]


@scenario(lambda: (torch.zeros(37), torch.zeros(90)))
def sequences_of_halves_into_floats(x, y):
    x.copy_(torch.linspace(-1.1, 3.3, 37, dtype=torch.half))
    y.copy_(torch.linspace(7.3, -2.9, 90, dtype=torch.bfloat16))
    return torch.linspace(0, 1, 11, dtype=torch.half), torch.linspace(2.5, 900.1, 700, dtype=torch.bfloat16), x * 1
