"""Scenarios for make_scenarios.py: one program, its arguments sharing memory in many ways; dictionaries and lists of TorchScript."""

from typing import Dict, List

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import one, randn, scenario, slices, twice, two

ROWS = Dim("rows", min=3, max=64)
COLUMNS = Dim("columns", min=2, max=64)

# Arguments that share memory in many ways ------------------------------------------------------------------------------


@scenario(two(6), twice(6), slices(9, (0, 6), (3, 6)), slices(9, (3, 6), (0, 6)), slices(12, (6, 6), (0, 6)), example=two(6))
def each_written_from_the_other(a, b):
    a[::2].add_(b[1::2].sum())
    b[-1] = a[0]
    return a[1:], b[:2], a + b


def three(*sizes):
    return lambda: tuple(randn(*sizes) for _ in range(3))


@scenario(three(4), lambda: (lambda p, q: (p, q, p))(randn(4), randn(4)), lambda: (lambda p, q: (p, q, q))(randn(4), randn(4)),
          lambda: (lambda p: (p, p, p))(randn(4)), slices(8, (0, 4), (4, 4), (2, 4)), slices(8, (4, 4), (0, 4), (2, 4)),
          example=three(4))
def three_of_which_any_may_be_one(a, b, c):
    a.add_(b * 2)
    t = c + a
    b.copy_(t)
    c[1:3].zero_()
    return t, a[1:], c, b + 1


MATRIX_VECTOR_BLOCK = lambda: (randn(4, 4), randn(4), randn(2, 2))


@scenario(MATRIX_VECTOR_BLOCK, lambda: (lambda p: (p, p.diagonal(), p[1:3, 1:3]))(randn(4, 4)),
          lambda: (lambda p: (p, p[:, 1], p[::2, ::2]))(randn(4, 4)), lambda: (lambda p: (p.t(), p[2], p.t()[2:, :2]))(randn(4, 4)),
          example=MATRIX_VECTOR_BLOCK)
def matrix_its_diagonal_and_a_block(m, v, w):
    m.mul_(2)
    v.add_(w.sum())
    w.fill_(1)
    return m.sum(0), v * 1, w.t()


@scenario(two(3, 4), twice(3, 4), lambda: (lambda p: (p[:, ::2], p[:, 1::2]))(randn(3, 8)),
          lambda: (lambda p: (p[:, :4], p[:, 1:5]))(randn(3, 8)), example=two(3, 4))
def columns_that_alternate(a, b):
    a.exp_()
    b.copy_(a.flip(1))
    a.zero_()
    return b[0], a.sum()


@scenario(two(6), twice(6), slices(8, (0, 6), (2, 6)), slices(8, (2, 6), (0, 6)), example=two(6))
def foreach_on_lists_that_overlap(a, b):
    torch._foreach_add_([a, b[1:], a[:3]], [b + 0, a[:5] + 0, b[3:] + 0])
    torch._foreach_mul_([a, b], [torch.tensor(2.0), torch.tensor(3.0)])
    return a + 0


@scenario(two(6, 4), lambda: (randn(3, 5), randn(3, 5)), twice(5, 4), lambda: (lambda p: (p[:5], p[1:]))(randn(6, 4)),
          lambda: (lambda p: (p[::2], p[1::2]))(randn(12, 4)), lambda: (lambda p: (p[:, :3], p[:, 1:]))(randn(7, 4)),
          lambda: (lambda p: (p[:, ::2], p[:, 1::2]))(randn(7, 8)), lambda: (lambda p: (p.t(), p.t()))(randn(3, 8)),
          example=two(6, 4), dynamic_shapes=({0: ROWS, 1: COLUMNS}, {0: ROWS, 1: COLUMNS}))
def of_any_size_in_one_memory(a, b):
    a.add_(b * 2)
    b[1:].mul_(0.5)
    a[:, 0].zero_()
    return a, b + a, a[1]


@scenario(two(6), lambda: (randn(9), randn(9)), twice(7), slices(12, (0, 7), (2, 7)), slices(12, (3, 9), (0, 9)), example=two(6),
          dynamic_shapes=({0: ROWS}, {0: ROWS}))
def slices_of_any_length(a, b):
    a[1:].add_(b[:-1] + 0)
    b.mul_(2)
    return a.view(-1), b[::2], a.sum()


@scenario(lambda: (torch.randn(4, dtype=torch.complex64), randn(4, 2)), lambda: (lambda p: (torch.view_as_complex(p), p))(randn(4, 2)),
          example=lambda: (torch.randn(4, dtype=torch.complex64), randn(4, 2)))
def complex_numbers_over_reals(c, r):
    r[:, 1].neg_()
    c.mul_(1j)
    return torch.view_as_real(c), c.real, c.abs()


@scenario(lambda: (torch.randn(4, dtype=torch.complex64), ))
def conjugates_of_conjugates(c):
    d = c.conj()
    e = d[1:]
    e.mul_(2j)
    f = d.resolve_conj()
    f.add_(1)
    return f, d.conj(), d.imag * 1, torch.view_as_real(c)


@scenario(lambda: (torch.arange(16, dtype=torch.uint8), ))
def bytes_seen_as_other_dtypes(x):
    i = x.view(torch.int32)
    i[1] = 0x01020304
    s = x.view(4, 4).view(torch.int16)
    s[0, 1] = -1
    return i, s, x.view(torch.float32).view(torch.int32)[2:]


@scenario(lambda: (randn(4).half(), randn(4).bfloat16(), randn(4).double()))
def each_rounds_to_its_dtype(h, b, d):
    h.add_(d)
    b.mul_(h)
    d.add_(b)
    h.div_(3)
    h.copy_(b)
    d.copy_(h).mul_(0.1)
    b.sub_(0.1)
    return h + b, h * 2, d


@scenario(lambda: (torch.randint(0, 200, (4, 4), dtype=torch.uint8), torch.randint(-9, 9, (4, ), dtype=torch.int16)))
def small_integers_wrap(a, b):
    a.add_(200)
    a.mul_(3)
    b.mul_(5000)
    a.sub_(b)
    b.copy_(a[0])
    a[1].copy_(b)
    b >>= 1
    a.neg_()
    return a, b, a.float().mean()


@scenario(lambda: (randn(2, 3, 4), ))
def dims_moved_in_place_and_back(x):
    y = x[1]
    x.transpose_(0, 2)
    x.add_(1)
    x.unsqueeze_(-1)
    y.t_()
    x.squeeze_()
    y.mul_(2)
    x.swapdims_(0, 1)
    return y, x[0], x


@scenario(lambda: (randn(2, 6), randn(4)))
def resized_again_and_again(a, b):
    a.resize_(3, 2)
    a.add_(1)
    a.resize_(6, 2)
    a[3:].fill_(7)
    b.resize_(2)
    b.mul_(2)
    b.resize_(4)
    return a.sum(1)[:3], b


@scenario(lambda: (randn(6), randn(3)), lambda: (lambda p: (p[:6], p[6:]))(randn(9)), example=lambda: (randn(6), randn(3)))
def set_to_a_part_of_the_other(x, y):
    z = x[1:4]
    y.set_(z)
    y.add_(1)
    x.mul_(2)
    return y, x, z


@scenario(lambda: (randn(2, 4, 4), ))
def parts_of_parts_written(x):
    a, b = x.chunk(2, 1)
    c, d = a.split([1, 1], 1)
    c.add_(b[:, :1])
    for i, r in enumerate(d.unbind(2)):
        r.mul_(i)
    b.permute(2, 0, 1)[1].fill_(3)
    return a, c, d, x.view(-1)[::5]


# States -----------------------------------------------------------------------------------------------------------------


class StatesHandedOnAndBack(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        self.a.copy_(self.b)
        self.b.copy_(x)
        x.copy_(self.a)
        return self.a, self.b


scenario(one(4), lambda e: (e[0][1][0], ), lambda e: (e[0][1][1], ), earlier=True, example=one(4))(StatesHandedOnAndBack)


class OverlappingBuffersAndAGrid(nn.Module):

    def __init__(self):
        super().__init__()
        base = torch.arange(12.0)
        self.register_buffer("a", base[:6])
        self.register_buffer("b", base[4:10])
        self.register_buffer("c", base.view(3, 4))

    def forward(self, x):
        self.a.add_(x)
        self.b.mul_(2)
        self.c[:, 0] = -1
        return self.c.sum(0), self.a[1:], self.b + 0


scenario(one(6), one(6))(OverlappingBuffersAndAGrid)

# TorchScript --------------------------------------------------------------------------------------------------------------


@scenario(two(4), script=True)
def script_dictionary_of_tensors(x: torch.Tensor, y: torch.Tensor):
    d: Dict[str, torch.Tensor] = {"x": x}
    d["y"] = y * 2
    d["x"].mul_(2)
    d["sum"] = d["x"] + d["y"]
    if "sum" in d:
        d["x"].add_(1)
    d["again"] = d["x"]
    d["again"][0] = 5.0
    return d["sum"], d["x"], len(d)


@scenario(lambda: (randn(3, 4), 3), lambda: (randn(3, 4), 0), lambda: (randn(3, 4), 1), script=True)
def script_list_stacked_after_a_loop(x: torch.Tensor, n: int):
    parts: List[torch.Tensor] = []
    h = x
    for i in range(n + 1):
        h = torch.tanh(h + 1)
        parts.append(h)
    return torch.stack(parts), torch.cat(parts, 1), h


@scenario(lambda: (randn(3), 4), lambda: (randn(3), 1), script=True)
def script_views_joined_after_a_loop(x: torch.Tensor, n: int):
    parts: List[torch.Tensor] = []
    for i in range(n):
        parts.append(x[i % 3:])
    x.add_(1)
    return torch.cat(parts)


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 0), script=True)
def script_added_to_in_a_loop(x: torch.Tensor, n: int):
    y = x.clone()
    for i in range(n):
        y += 1
        x *= 2
    return y, x


@scenario(lambda: (randn(2, 3), 2), lambda: (randn(2, 3), 0), script=True)
def script_written_then_replaced_in_a_loop(x: torch.Tensor, n: int):
    for i in range(n):
        x += 1
        x = x * 2
    return x
