"""Scenarios for make_scenarios.py: the edges of what programs write and what their callers pass: tensors of other dtypes over the
same bytes, chains of many views, products and sums in place, states passed back, TorchScript's lists and loops, sizes of zero."""

from typing import Dict

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import boxes, one, over, randn, scenario, slices, twice, two

ROWS = Dim("n", min=4, max=64)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
while_loop = torch._higher_order_ops.while_loop


def complex_randn(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


# Arguments of several dtypes over the same bytes ---------------------------------------------------------------------------------


@scenario(lambda: (randn(6), torch.zeros(6, dtype=torch.int32)), lambda: (lambda t: (t, t.view(torch.int32)))(randn(6)),
          lambda: (lambda t: (t[:6], t.view(torch.int32)[2:]))(randn(8)), example=lambda: (randn(6), torch.zeros(6, dtype=torch.int32)))
def floats_and_integers_over_the_same_bytes(x, n):
    x.mul_(2)
    n.bitwise_and_(-4096)
    x[1:].add_(1)
    n[0] = 7
    return x.sum(), n * 1


@scenario(lambda: (complex_randn(3, 4), randn(3, 4)), lambda: (lambda z: (z, z.real))(complex_randn(3, 4)), lambda: (lambda z: (z, z.imag))(complex_randn(3, 4)),
          example=lambda: (complex_randn(3, 4), randn(3, 4)))
def complex_argument_and_its_parts(z, r):
    r.add_(1)
    z.mul_(1j)
    r[0].copy_(z.imag[1])
    return z * 1, r


@scenario(lambda: (torch.zeros(8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int16)),
          lambda: (lambda t: (t, t.view(torch.int16)))(torch.arange(8, dtype=torch.uint8)),
          lambda: (lambda t: (t[2:10], t.view(torch.int16)[2:6]))(torch.arange(12, dtype=torch.uint8)),
          example=lambda: (torch.zeros(8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int16)))
def bytes_and_shorts_over_the_same_bytes(b, s):
    s.add_(257)
    b[::2].sub_(1)
    s.copy_(b[:4])
    return b.clone(), s[1:]


# Chains of views ------------------------------------------------------------------------------------------------------------------


@scenario(one(4, 6, 5), one(4, 6, 5))
def ten_views_one_after_the_other(x):
    v = x.transpose(0, 2)[1:4].unfold(1, 2, 2).movedim(-1, 0).narrow(2, 1, 2).select(3, 2).diagonal(0, 0, 2).unsqueeze(1)
    v.mul_(3)
    w = v.squeeze(1).t()[1:]
    w.zero_()
    return v, w, x.sum((0, 1))


@scenario(one(2, 3, 4, 5))
def diagonals_of_diagonals(x):
    d = x.diagonal(0, 1, 2)
    e = d.diagonal(1, 0, 2)
    e.fill_(3)
    d[..., -1].neg_()
    return e, x[:, :, 1]


@scenario(one(3, 4), one(3, 4))
def broadcast_views_read_while_the_base_is_written(x):
    row = x[0].expand(3, 4)
    column = x[:, 1:2].expand_as(x)
    x.add_(1)
    y = row * column
    x[0].zero_()
    return y, row + 0, column.sum()


@scenario(one(2, 8), one(2, 8))
def windows_side_by_side_written(x):
    w = x.unfold(1, 2, 2)
    w[..., 0].add_(10)
    w[:, 1].copy_(w[:, 2])
    v = x.as_strided((2, 3), (8, 3), 1)
    v.mul_(-1)
    return w, v


# Matrix products and sums in place ---------------------------------------------------------------------------------------------------


# In place with scalars, tensors of no dims and oneself -----------------------------------------------------------------------------------


@scenario(lambda: (randn(2, 3), torch.tensor(2.0)), lambda: (lambda t: (t[:6].view(2, 3), t[5]))(randn(8)), lambda: (lambda t: (t[:6].view(2, 3), t[6]))(randn(8)),
          example=lambda: (randn(2, 3), torch.tensor(2.0)))
def scalar_that_may_be_an_element(x, s):
    x.mul_(s)
    s.add_(1)
    x[0] += s
    return x - s, s.view(1)


# Elements that exist only once in memory ------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(1, 4).expand(3, 4), randn(3, 4)), lambda: (randn(3, 4)[:1].expand(3, 4), randn(3, 4)))
def expanded_argument_only_read(e, x):
    x.add_(e)
    y = e + 0
    y[1].zero_()
    return e[1:], x, y


@scenario(one(4))
def mask_filled_through_expanded_memory(x):
    e = (x * 1).expand(3, 4)
    e.masked_fill_(torch.tensor([[True, False, False, False], [False, False, False, False], [False, False, True, False]]), 9.)
    return e, e[0] + 1


@scenario(one(3, 1), one(3, 1))
def columns_of_expanded_memory_filled(x):
    f = x.clone().expand(3, 2)
    f.index_fill_(0, torch.tensor([1]), 5.)
    g = x.expand(3, 4)
    g.masked_fill_(g > 0, -1.)
    return f, g


@scenario(one(3))
def refused_add_to_expanded_argument(x):
    x.add_(1)
    y = x.expand(2, 3)
    y.mul_(2)
    return y


@scenario(lambda: (randn(4), randn(4)), lambda: (lambda t: (t[:4], t[1:]))(randn(5)), example=lambda: (randn(4), randn(4)))
def refused_out_that_overlaps(x, y):
    torch.mul(x, 2, out=y)
    return y + x


# States --------------------------------------------------------------------------------------------------------------------------------


class HiddenStateReturnedAndPassedBack(nn.Module):

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x, h):
        n = self.cell(x, h)
        h.mul_(0.5)
        self.steps += 1
        return n, h[:1], self.steps


scenario(lambda: (randn(2, 3), randn(2, 3)), lambda r: (torch.ones(2, 3), r[0][1][0]), lambda r: (r[1][1][0], r[1][1][0]), earlier=True, **CLOSE)(HiddenStateReturnedAndPassedBack)


class StateAndAViewOfItPassedBack(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(12.).view(3, 4).clone())

    def forward(self, x):
        self.table[1:].add_(x)
        x.mul_(2)
        return self.table[0], self.table[:2]


scenario(lambda: (randn(2, 4),), lambda r: (r[0][1][1],), lambda r: (torch.ones(2, 4),), earlier=True)(StateAndAViewOfItPassedBack)


# Lists of tensors ---------------------------------------------------------------------------------------------------------------------


@scenario(two(4), twice(4), slices(6, (0, 4), (1, 4)), example=two(4))
def foreach_of_many_kinds(x, y):
    torch._foreach_neg_([x])
    torch._foreach_add_([x, y], [1.0, 2.0])
    torch._foreach_mul_([y], [x])
    torch._foreach_sub_([x], [y], alpha=2)
    torch._foreach_abs_([y])
    torch._foreach_sqrt_([y])
    torch._foreach_pow_([x], 2)
    torch._foreach_clamp_max_([x, y], [3.0, 2.0])
    torch._foreach_addcdiv_([x], [y], [y + 1], 0.5)
    return torch._foreach_add([x, y], 1)


@scenario(lambda: ([randn(2), randn(3), randn(1)],), lambda: (lambda t: ([t[:2], t[2:5], t[1:2]],))(randn(6)), lambda: (lambda t: ([t[:2], t[1:4], t[3:]],))(randn(4)),
          example=lambda: ([randn(2), randn(3), randn(1)],))
def list_of_arguments_flattened_and_copied_back(xs):
    flat = torch.cat(xs)
    flat.mul_(0.5)
    for x, part in zip(xs, flat.split([2, 3, 1])):
        x.copy_(part)
    return flat, xs[1]


# Control flow --------------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(3, 3), True, 2), lambda: (randn(3, 3), False, 0), lambda: (randn(3, 3), True, 0), script=True)
def script_break_and_continue(x: torch.Tensor, stop: bool, n: int):
    done = 0
    for i in range(3):
        if i == n and stop:
            break
        if i == 1:
            continue
        x[i].mul_(2)
        done += 1
    x.t_()
    return x, done


@scenario(two(4), script=True)
def script_dictionary_written_by_key(x: torch.Tensor, y: torch.Tensor):
    d: Dict[str, torch.Tensor] = {"a": x, "b": y[1:]}
    d["a"].add_(1)
    d["b"].mul_(d["a"][0])
    d["c"] = d["a"][:2]
    d["c"].zero_()
    return d["b"], x, d["c"]


@scenario(lambda: (randn(5), 2), lambda: (randn(5), 9), lambda: (randn(5), 0), script=True)
def script_while_moves_a_window(x: torch.Tensor, n: int):
    i = 0
    w = x[0:2]
    while i < n and i < 4:
        w = x[i:i + 2]
        w.neg_()
        i += 1
    w.add_(10)
    return w, i, x


# Sizes -------------------------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(5, 6), randn(6)), lambda: (randn(7, 4), randn(4)), lambda: (lambda t: (t[1:].view(4, 5), t[:5]))(randn(21)), example=lambda: (randn(4, 5), randn(5)),
          dynamic_shapes=({0: Dim("n", min=3, max=64), 1: Dim("m", min=3, max=64)}, {0: Dim("m", min=3, max=64)}), **CLOSE)
def dynamic_rows_and_columns(x, v):
    x[1:, :-1].mul_(2)
    x.add_(v)
    v.copy_(x.sum(0))
    y = x.t().contiguous()
    y[0] = x[:, 1]
    return y, x[-1], v[: x.shape[1] - 1]


@scenario(lambda: (randn(0, 3),), lambda: (randn(4, 3),), lambda: (randn(1, 3),), example=lambda: (randn(5, 3),), dynamic_shapes={"x": {0: Dim("r", min=0, max=32)}}, **CLOSE)
def dynamic_that_may_be_empty(x):
    x.add_(1)
    y = torch.cat([x, x.new_zeros(2, 3)])
    y[:-2].mul_(2)
    x[:, 0].zero_()
    return y, x.sum(0)


@scenario(lambda: (randn(4, 6), randn(4, 6)), lambda: (lambda t: (t[:4], t[2:]))(randn(6, 6)), lambda: (lambda t: (t, t))(randn(8, 6)), example=lambda: (randn(5, 6), randn(5, 6)),
          dynamic_shapes=({0: ROWS}, {0: ROWS}))
def dynamic_blocks_of_rows_that_overlap(a, b):
    a[:2].add_(b[-2:])
    b.t()[1:3].mul_(0.5)
    a.view(-1)[::3].zero_()
    return a, b[1:-1].sum(0)


@scenario(lambda: (torch.zeros(2, 0, 3), randn(2, 4, 3)), lambda: (torch.zeros(2, 0, 3), randn(2, 4, 3)))
def joined_with_nothing_and_written(e, x):
    y = torch.cat([e, x, e], 1)
    y[:, 1:3].copy_(x[:, :2])
    e.add_(x.sum())
    x.copy_(y)
    return e, y[:, 0], e.view(0)




@scenario(lambda: (randn(6, 3),), lambda: (randn(1, 3),), dynamic_shapes=({0: Dim("b", min=1, max=64)},), **CLOSE)
def one_row_is_no_copy(x):
    """Of one row the transpose is contiguous: what is a copy of more rows is the operand's memory."""
    y = x * 2
    z = y.t().contiguous()
    z.add_(1)
    return y, z, x.t().reshape(-1)


@scenario(lambda: (randn(6, 3),), lambda: (randn(1, 3),), dynamic_shapes=({0: Dim("b", min=1, max=64)},), **CLOSE)
def one_row_of_which_nobody_sees_whether_it_is_a_copy(x):
    z = (x * 2).t().contiguous()
    z.add_(1)
    return z * 3
