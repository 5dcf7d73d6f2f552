"""Scenarios for make_scenarios.py: calls, sizes and TorchScript that nobody had thought of before."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from scenario_kit import one, randn, scenario, slices, twice, two

ROWS = Dim("n", min=4, max=64)
H = Dim("h", min=2, max=30)


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


@scenario(lambda: (randn(4), randn(5)),
          lambda: (lambda b: (b[:6], b[2:9]))(randn(10)),
          example=lambda: (randn(3), randn(4)),
          dynamic_shapes=({
              0: H
          }, {
              0: H + 1
          }))
def dyn_plus_one(x, y):
    y[1:].add_(x)
    x.copy_(y[:-1])
    return x + y[1:], y


@scenario(lambda: (randn(4, 3),), lambda: (randn(7, 3),), example=one(5, 3), dynamic_shapes={"x": {0: ROWS}})
def dyn_expand_write(x):
    z = torch.zeros(x.shape[0], 3, 2)
    z[...] = x.unsqueeze(2)
    z.select(2, 1).mul_(x.shape[0])
    z.view(-1)[:x.shape[0]].fill_(1)
    return z, z.permute(2, 0, 1)


@scenario(lambda: (randn(6, 4),), lambda: (randn(8, 4),), example=one(4, 4), dynamic_shapes={"x": {0: 2 * H}})
def dyn_halves_swapped(x):
    a, b = x.chunk(2)
    t = a.clone()
    a.copy_(b)
    b.copy_(t)
    return a, x.view(2, -1, 4)[1]


@scenario(lambda: (randn(6, 6),), lambda: (randn(9, 9),), example=one(5, 5), dynamic_shapes={"x": {0: ROWS, 1: ROWS}})
def dyn_square_transposed_in_place(x):
    x.add_(x.t().clone())
    x.tril_(-1)
    return x.t(), x.diagonal()


@scenario(lambda: (randn(6), torch.tensor([1, 3])),
          lambda: (randn(9), torch.tensor([0, 1, 2])),
          example=lambda: (randn(5), torch.tensor([0, 1, 2, 3])),
          dynamic_shapes={
              "x": {
                  0: ROWS
              },
              "i": {
                  0: Dim("k", min=1, max=9)
              }
          })
def dyn_index(x, i):
    x[i] += 1
    x.index_fill_(0, i, 0.5)
    x.scatter_(0, i, x[i] * 2)
    return x[i], x


@scenario(two(4, 3), script=True)
def script_storage_set_to_a_transpose(x: torch.Tensor, y: torch.Tensor):
    x.set_(y.t())
    x[0].zero_()
    return x, y


@scenario(one(2, 6), script=True)
def script_geometry_of_an_argument_and_a_copy_changed(x: torch.Tensor):
    y = x.clone()
    v = y[0]
    y.resize_([3, 2])
    y.fill_(1.)
    x.unsqueeze_(1)
    x.transpose_(0, 2)
    x[0].zero_()
    return v, y, x


@scenario(lambda: (randn(2, 3), 2), lambda: (randn(2, 3), 3), script=True)
def script_rotate_geometry(x: torch.Tensor, n: int):
    for i in range(n):
        x.t_()
        x[0].add_(1)
    return x


@scenario(lambda: (randn(6), 2), lambda: (randn(6), 0), script=True)
def script_optional(x: torch.Tensor, n: int):
    y: Optional[torch.Tensor] = None
    if n > 0:
        y = x[n:]
    if y is not None:
        y.mul_(2)
        return y, x
    return x, x


@scenario(lambda: (randn(6), 2), lambda: (randn(6), 0), script=True)
def script_nested(x: torch.Tensor, n: int):
    acc = torch.zeros(6)
    i = 0
    while i < n:
        j = 0
        while j <= i:
            acc[j] += x[j]
            if j % 2 == 0:
                x[j:].mul_(0.5)
            else:
                v = acc.view(2, 3)
                v[1].add_(x[:3])
            j += 1
        i += 1
    return acc, x


@scenario(lambda: (randn(3, 3), 3), lambda: (randn(3, 3), 0), script=True)
def script_matmul_power(w: torch.Tensor, n: int):
    x = torch.eye(3)
    for i in range(n):
        x = x @ w
        w.mul_(0.5)
    return x, w


@scenario(lambda: (randn(3, 4),), script=True)
def script_enumerate_zip(x: torch.Tensor):
    rows = x.unbind(0)
    cols = x.unbind(1)
    for i, r in enumerate(rows):
        r.add_(float(i))
    for a, b in zip(cols, rows):
        a[0] = b.sum()
    return x, rows[1]


@scenario(lambda: (randn(3, 4),), script=True)
def script_listcomp(x: torch.Tensor):
    l = [r * 2 for r in x.unbind(0)]
    l2 = [v[1:] for v in l]
    for v in l2:
        v.neg_()
    return l[0], l2[1], torch.cat(l2)


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_tuple_from_if(x: torch.Tensor, c: bool):
    if c:
        t = (x[0], x[1])
    else:
        t = (x[1], x[2])
    t[0].add_(t[1])
    return t[0], t[1], x


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_tuple_of_tuples(x: torch.Tensor, c: bool):
    t = ((x[0], x[1]), x[2])
    for i in range(2):
        if c:
            t = ((t[0][1], t[1]), t[0][0])
        t[1].mul_(2)
    return t[0][0], t[0][1], t[1], x


@scenario(lambda: (randn(5),), script=True)
def script_pop_insert(x: torch.Tensor):
    l = [x[0:1], x[1:2]]
    l.insert(1, x[2:3])
    p = l.pop(0)
    p.zero_()
    l[0].fill_(3.)
    l += [p]
    for i in range(len(l)):
        l[i].add_(1)
    return torch.cat(l), x


@scenario(lambda: (randn(5),), lambda: (torch.zeros(5),), script=True)
def script_assert_raise(x: torch.Tensor):
    x.add_(1)
    if bool(x[0] == 1.0):
        raise ValueError("no")
    x.mul_(2)
    return x


class LstmState(nn.Module):

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.register_buffer("h", torch.zeros(2, 4))
        self.register_buffer("c", torch.zeros(2, 4))

    def forward(self, x):
        h, c = self.cell(x, (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return self.h.t(), c


scenario(one(2, 3), one(2, 3))(LstmState)


class RingBuffer(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("pos", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.ring.index_copy_(0, self.pos, x)
        self.pos.add_(1).remainder_(4)
        return self.ring[self.pos], self.ring


scenario(one(1, 3), one(1, 3), one(1, 3))(RingBuffer)


class TiedParam(nn.Module):

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(5, 3)
        self.o = nn.Linear(3, 5, bias=False)
        self.o.weight = self.e.weight

    def forward(self, i):
        with torch.no_grad():
            self.e.weight.mul_(0.9)
            self.o.weight[0].zero_()
        return self.o(self.e(i))


scenario(lambda: (torch.tensor([0, 2]),), lambda: (torch.tensor([1, 2]),))(TiedParam)


class MovingAverageOfParameters(nn.Module):

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.register_buffer("ew", torch.zeros(3, 3))
        self.register_buffer("eb", torch.zeros(3))

    def forward(self, x):
        torch._foreach_lerp_([self.ew, self.eb], [self.l.weight.detach(), self.l.bias.detach()], 0.5)
        with torch.no_grad():
            torch._foreach_mul_([self.l.weight, self.l.bias], 0.5)
        return F.linear(x, self.ew, self.eb), self.ew.t()


scenario(one(2, 3), one(2, 3))(MovingAverageOfParameters)


class BatchNormUsedTwice(nn.Module):

    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(2)

    def forward(self, x, y):
        a = self.bn(x)
        b = self.bn(y)
        return a + b, self.bn.running_mean


scenario(lambda: (randn(2, 2, 2, 2), randn(2, 2, 2, 2)),
         lambda: (lambda p: (p, p))(randn(2, 2, 2, 2)),
         train=True,
         example=lambda: (randn(2, 2, 2, 2), randn(2, 2, 2, 2)))(BatchNormUsedTwice)


class BufferWrittenThroughAView(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.arange(6.))

    def forward(self, x):
        v = self.b.view(2, 3)
        v.t()[0].copy_(x)
        return self.b.as_strided((3,), (2,)), v


scenario(one(2), one(2))(BufferWrittenThroughAView)


@scenario(lambda: (lambda b: (b, b[1], b[:, 1]))(randn(3, 4)),
          lambda: (lambda b: (b, b[2], b[:, 3]))(randn(3, 4)),
          example=lambda: (randn(3, 4), randn(4), randn(3)))
def matrix_row_col(m, r, c):
    r.add_(1)
    c.mul_(2)
    m[0].sub_(r)
    return m.sum(), r + 0, c


@scenario(lambda: (lambda b: (b, b.flip(0), b.view(torch.int32)))(randn(4)),
          example=lambda: (randn(4), randn(4), torch.zeros(4, dtype=torch.int32)))
def value_and_bits(x, f, i):
    x.neg_()
    i.bitwise_and_(0x7fffffff)
    f.copy_(x)
    return x * 1, i


@scenario(lambda: (lambda b: (b[:4], torch.view_as_complex(b.view(4, 2))[1:3]))(randn(8)), example=lambda: (randn(4), cplx(2)))
def real_complex_overlap(x, z):
    x.mul_(2)
    z.mul_(1j)
    x[2:].copy_(z.real)
    return x, z


@scenario(lambda: (lambda b: (b[:6].view(2, 3), b[3:9].view(3, 2), b[2:8]))(randn(10)),
          lambda: (lambda b: (b[:6].view(2, 3), b[:6].view(3, 2), b[:6]))(randn(10)),
          example=lambda: (randn(2, 3), randn(3, 2), randn(6)))
def three_overlap(a, b, c):
    a.t().copy_(b.clone())
    b[0].add_(c[:2].clone())
    c.mul_(-1)
    return a, b.t(), c[1:4]


@scenario(lambda: (lambda b: (b[::2], b[1::2]))(randn(10)), lambda: (lambda b: (b[1::2], b[::2]))(randn(10)), example=two(5))
def interleaved(a, b):
    a.add_(b)
    b.sub_(a)
    a[1:], b[:-1]
    return a * b


@scenario(lambda: (lambda b: (b.t(), b))(randn(4, 4)), lambda: (lambda b: (b, b.t()))(randn(4, 4)), example=two(4, 4))
def arg_and_transpose(a, b):
    a[0].fill_(1)
    b[0].fill_(2)
    return a.sum(0), b[:, 0]


@scenario(lambda: (lambda b: (b[:3], b[3:]))(randn(6)),
          lambda: (lambda b: (b[3:], b[:3]))(randn(6)),
          lambda: (lambda b: (b[1:4], b[2:5]))(randn(6)),
          example=two(3))
def cat_out_and_return(a, b):
    c = torch.cat([a, b])
    a.copy_(c[3:])
    b.copy_(c[:3])
    return c[1:], a[0], b


@scenario(lambda: (randn(3, 3), randn(3, 3).t()),
          lambda: (randn(3, 3).t(), randn(3, 3)),
          lambda: (randn(6, 3)[::2], randn(3, 6)[:, ::2]),
          example=two(3, 3))
def strides_at_call(a, b):
    a.add_(b)
    c = a * b
    d = torch.empty_like(b).copy_(a)
    return c, d, a.clone(), b.sum(0)


@scenario(two(3), twice(3), slices(6, (0, 3), (2, 3)), example=two(3))
def return_order(a, b):
    a += 1
    c = b * a
    b -= 1
    return b, a, c, a[1:], b[:2], c.view(1, 3)


@scenario(two(2, 3), twice(2, 3), example=two(2, 3))
def inplace_geometry_dup(a, b):
    a.squeeze_()
    b.mul_(2)
    return a.t(), b.view(3, 2)


@scenario(one(4))
def detach_shares(x):
    d = x.detach()
    e = x.detach().view(2, 2)
    d.add_(1)
    e[0].zero_()
    return d, e, x


@scenario(one(2, 3, 4))
def einsum_into(x):
    o = torch.zeros(2, 3, 3)
    torch.bmm(x, x.transpose(1, 2), out=o)
    torch.baddbmm(o, x, x.mT, out=o)
    o[0] = torch.einsum("ij,kj->ik", x[0], x[1])
    return o


@scenario(one(2, 3, 4))
def out_dtype_other(x):
    o = torch.zeros(2, 3, dtype=torch.float64)
    torch.sum(x, 2, dtype=torch.float64, out=o)
    p = torch.zeros(2, 3, 4, dtype=torch.bool)
    torch.gt(x, 0, out=p)
    q = torch.zeros(2, 3, dtype=torch.long)
    torch.argmax(x, 2, out=q)
    torch.any(p, 2, out=p[:, :, 0].clone())
    return o, p, q


@scenario(one(2, 3, 4))
def norms_out(x):
    o = torch.zeros(2, 3)
    torch.norm(x, 2, dim=2, out=o)
    torch.linalg.vector_norm(x, dim=2, out=o)
    torch.logsumexp(x, 2, out=o)
    torch.var(x, 2, out=o)
    torch.median(x, 2)
    return o


@scenario(one(6))
def arange_out(x):
    o = torch.zeros(6)
    torch.arange(0, 6, out=o)
    torch.linspace(0, 1, 6, out=x)
    return o + x


@scenario(one(3, 3))
def identity_into_an_argument(x):
    torch.eye(3, out=x)
    torch.tril(x, out=x)
    x[1] = torch.ones(3)
    return x.clone()


@scenario(lambda: (torch.arange(12).view(3, 4),))
def integers_combined_in_place(x):
    x.bitwise_or_(1).bitwise_and_(6)
    x[0] <<= 1
    x[1] //= 2
    x[2] %= 3
    x.pow_(2)
    x.clamp_(0, 20)
    x.gcd_(torch.tensor(6))
    x[:, 0].lcm_(torch.tensor(4))
    return x


@scenario(lambda: (randn(3, 4) > 0, randn(3, 4) > 0))
def booleans_combined_in_place(a, b):
    a |= b
    a[0] ^= True
    a[:, 1] &= b[:, 0]
    b.logical_not_()
    b[a] = False
    return a, b.sum(), a.any(0)


@scenario(lambda: (randn(4).half(), randn(4).bfloat16()))
def half_mix(a, b):
    a.add_(b)
    b.mul_(a)
    a.copy_(b)
    a.addcmul_(a, a, value=0.5)
    return a, b


@scenario(lambda: (cplx(3), cplx(3)), lambda: (lambda p: (p[:3], p[1:]))(cplx(4)), example=lambda: (cplx(3), cplx(3)))
def complex_overlap(a, b):
    a.mul_(b)
    b.conj_physical_()
    a.real.add_(b.imag)
    return a.abs(), b * 1


@scenario(lambda: (torch.arange(4, dtype=torch.int16),))
def int16_as_bytes(x):
    b = x.view(torch.uint8)
    b[1::2] = 1
    x.view(torch.int64)[0] += 1
    b2 = b.view(2, 4)
    b2[:, 0].mul_(3)
    return x, b2


@scenario(one(8))
def view_dtype_chain(x):
    y = x.view(torch.int32).view(4, 2).t()
    y[0].zero_()
    z = x.view(torch.float64)
    z[1] = 3.
    return x, y, z[2:]


@scenario(one(3, 4))
def inplace_funcs(x):
    F.relu_(x[0])
    F.selu_(x[1])
    F.celu_(x[2])
    F.dropout(x, 0.5, training=False, inplace=True)
    F.hardsigmoid(x, inplace=True)
    F.hardswish(x, inplace=True)
    F.silu(x, inplace=True)
    F.mish(x, inplace=True)
    F.relu6(x, inplace=True)
    return x


@scenario(one(3, 4))
def rows_and_columns_renormalised(x):
    x.renorm_(2, 0, 1.)
    x[:, :2].renorm_(1, 1, .5)
    return x


@scenario(one(4, 4))
def put_take(x):
    x.put_(torch.tensor([0, 5, 10, 15]), torch.ones(4))
    x.t().put_(torch.tensor([1, 2]), torch.zeros(2), accumulate=False)
    return x.take(torch.tensor([0, 1, 4])), x


@scenario(one(4, 4))
def cumsum_inplace(x):
    x.cumsum_(0)
    x[1:].cumprod_(1)
    return x


@scenario(one(3, 4), one(3, 4))
def split_write_swap(x):
    a, b = x.split(2, 1)
    a.copy_(b.clone())
    b[0], a[0] = a[1].clone(), b[2].clone()
    return torch.hstack([b, a])


@scenario(one(3, 4))
def unbind_list_ops(x):
    rows = list(x.unbind())
    torch._foreach_add_(rows, rows[::-1])
    torch._foreach_copy_(rows, [r * 2 for r in rows])
    return rows[0], x


@scenario(one(3, 4))
def foreach_scalar_list(x):
    rows = list(x.unbind())
    torch._foreach_mul_(rows, [1., 2., 3.])
    torch._foreach_add_(rows, torch.tensor(2.))
    torch._foreach_clamp_max_(rows, 1.)
    torch._foreach_exp_(rows[:2])
    torch._foreach_reciprocal_(rows)
    torch._foreach_round_(rows[1:])
    return x


@scenario(one(3, 4))
def while_writes_after(x):

    def c(i, y):
        return i < 3

    def b(i, y):
        return i + 1, y * 2

    i, y = torch._higher_order_ops.while_loop(c, b, (torch.tensor(0), x[0]))
    x[0] = y
    y.add_(1)
    x[1:].sub_(y)
    return y, x


@scenario(lambda: (randn(3, 4), torch.tensor(True)), lambda: (randn(3, 4), torch.tensor(False)))
def branch_in_a_branch_that_writes_a_copy(x, p):

    def t(a):
        return torch.cond(a.sum() > 0, lambda q: q[0] * 2, lambda q: q[1].clone(), (a,))

    def f(a):
        b = a.clone()
        b[0].zero_()
        return b[0] + 1

    y = torch.cond(p, t, f, (x,))
    y.mul_(2)
    x[2] = y
    return x[1:], y


@scenario(one(4))
def map_like(x):

    def c(i, a, b):
        return i < 4

    def b(i, a, bb):
        n = a.clone()
        n[1:] = a[:-1]
        n[0] = bb.sum()
        return i + 1, n, bb + a

    i, a, bb = torch._higher_order_ops.while_loop(c, b, (torch.tensor(0), x, torch.zeros(4)))
    x.copy_(a)
    return bb, x.view(2, 2)
