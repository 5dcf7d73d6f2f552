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


@scenario(lambda: (randn(2, 3).t(), randn(2, 1, 4, 4)))
def format_asked_for_of_what_suggests_it(x, y):
    a = x.to(torch.float32, memory_format=torch.contiguous_format)
    b = y.to(memory_format=torch.channels_last)
    a[0].add_(1)
    b[0].zero_()
    return a, b, x, y


@scenario(lambda: (randn(2, 3, 6, 4).to(memory_format=torch.channels_last),))
def cropped_image_in_the_format_that_it_suggests(x):
    crop = x[:, :, ::2]
    a = crop.to(memory_format=torch.channels_last)
    a[1].mul_(2)
    return a, x, torch.nn.functional.max_pool2d(crop, 2)


@scenario(lambda: (randn(5, 3, 2).permute(2, 1, 0), torch.tensor([1, 0]), randn(2, 2, 5)))
def indexed_anew_in_rows(x, i, v):
    a = x.index_add(1, i, v)
    b = x.index_copy(1, i, v)
    a[0].zero_()
    return a, b, torch.nn.functional.group_norm(x, 3), x.index_fill(1, i, 2.)


@scenario(lambda: (randn(6),), lambda: (-torch.ones(6),), script=True)
def script_chosen_by_a_mask_and_written_back(x: torch.Tensor):
    m = x > 0
    y = x[m]
    y.mul_(2)
    x[m] = y + 1
    return y, x, y.size(0)


@scenario(lambda: (randn(4, 3),), lambda: (randn(4, 3),), script=True)
def script_rows_and_positions_found(x: torch.Tensor):
    rows = x[x.sum(1) > 0]
    at = torch.nonzero(x > 0)
    some = torch.masked_select(x, x < 0)
    rows[:, 0] = 5.0
    x[at[:, 0], at[:, 1]] = 9.0
    return rows.t(), at, some, x, len(some)


@scenario(lambda: (randn(5, 3, 2).permute(2, 1, 0), randn(2, 3, 4).permute(0, 2, 1), randn(3), randn(2)), script=True)
def script_results_of_strided_operands(x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor):
    m = torch.addr(y[:, 0].t(), a, b)
    return torch.group_norm(x, 3), torch.rms_norm(x, [5]), torch.max_pool1d(y, [2]), m


@scenario(lambda: (randn(2, 3, 3),),
          lambda: (randn(4, 5, 6)[::2, 1:4, ::2],),
          lambda: (randn(3, 3, 2).permute(2, 0, 1),),
          script=True)
def script_einsum_of_one_tensor_is_a_view(x):
    d = torch.einsum("...ii->...i", x)
    d.mul_(2)
    y = x + 1
    t = torch.einsum("bij->jib", y)
    t[0].zero_()
    s = torch.einsum("bii", y)
    return d, t, s.add_(5), torch.einsum("zij", x), torch.einsum("b...->...b", y), y, torch.einsum("b...->...", x), x
