"""Scenarios for make_scenarios.py: operators that are seldom met, where they write or share memory."""

import torch

from scenario_kit import randn, scenario


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


@scenario(lambda: (cplx(2, 3),))
def negated_lazily_and_written(z):
    x = torch.view_as_real(z)
    y = torch._neg_view(x)
    y[0].add_(1)
    return z, y + x, torch._neg_view(y)[1].clone()


@scenario(lambda: (cplx(3, 2),), decompose=True)
def decomposed_imaginary_part_of_a_conjugate(z):
    i = z.conj().imag
    return i + 1, i * 2


@scenario(lambda: (cplx(4), cplx(4), cplx(4)), lambda: (lambda b: (b[:4], b[1:5], b[2:6]))(cplx(6)))
def complex_numbers_accumulated_and_mixed(x, y, z):
    a = torch.addcdiv(x, y, z, value=2 + 1j)
    b = torch.lerp(x, y, 0.75)
    c = torch.lerp(x, y, z)
    w = x.clone()
    w.addcdiv_(y, z)
    w.lerp_(z, 0.1)
    x.copy_(torch.addcmul(w, b, c, value=0.5))
    return a, b, c, w


@scenario(lambda: ([randn(3), randn(2)],), lambda: (lambda b: ([b[:3], b[1:3]],))(randn(4)))
def foreach_extremes_with_numbers(xs):
    torch._foreach_minimum_(xs, [0.5, 0.25])
    above = torch._foreach_maximum(xs, 0.)
    torch._foreach_pow_(above, 2)
    return torch._foreach_minimum(above, [0.1, 0.2]), above
