"""Scenarios for make_scenarios.py: what nobody had thought of before: expanded arguments, swaps, bits, states."""

from typing import List

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import boxes, one, randn, scenario, slices, twice, two

ROWS = Dim("n", min=4, max=64)


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


@scenario(one(4, 4))
def lerp_with_own_rows(x):
    x[0].lerp_(x[1], x[2].sigmoid())
    return x


@scenario(one(4, 4))
def triu_tril_own(x):
    x.tril_()
    x[1:].triu_(1)
    return x.t()


@scenario(one(4))
def triu_on_expanded(x):
    y = x.expand(4, 4)
    z = y.triu(1)
    return z, x


@scenario(one(3, 4))
def addmm_into_slice(x):
    y = torch.zeros(4, 3)
    y[:3].addmm_(x, x.t())
    y[0].addmv_(x[:, :3], x[0, :3])
    return y


@scenario(two(5), twice(5), example=two(5))
def contents_exchanged_through_a_copy(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x - y


@scenario(two(5), twice(5), slices(7, (0, 5), (2, 5)), slices(7, (2, 5), (0, 5)), example=two(5))
def xor_swap(x, y):
    x.add_(y)
    y.sub_(x).neg_()
    x.sub_(y)
    return x, y


@scenario(boxes(20, (0, (4,), (1,)), (0, (4,), (0,))), example=two(4))
def expanded_argument_read(x, y):
    x.add_(y)
    return x * 1


@scenario(boxes(20, (0, (4,), (0,)), (5, (4,), (1,))), example=two(4))
def refused_expanded_argument_written(x, y):
    y.mul_(2)
    x.add_(y)
    return x * 1


@scenario(boxes(20, (0, (4,), (0,)), (5, (4,), (1,))), example=two(4))
def expanded_argument_filled(x, y):
    x.fill_(3)
    y.add_(x)
    return y


@scenario(boxes(20, (0, (4,), (0,)), (5, (4,), (1,))), example=two(4))
def expanded_argument_zeroed(x, y):
    x.zero_()
    return y + x, x


@scenario(one(3, 4))
def fill_diagonal(x):
    x.fill_diagonal_(2.)
    x.t().fill_diagonal_(3., wrap=True)
    return x


@scenario(one(4, 4))
def diag_embed_scatter(x):
    y = torch.diag_embed(x)
    y.diagonal(0, 1, 2).add_(1)
    return y, torch.diagonal_scatter(x, x[0])


@scenario(one(4, 4))
def slice_scatter_mix(x):
    y = torch.slice_scatter(x, x[:2] * 2, 0, 1, 3)
    y[0] = torch.select_scatter(y, x[0], 0, 1)[2]
    x.copy_(torch.as_strided_scatter(y, x[0], (4,), (5,), 0))
    return x


@scenario(lambda: (cplx(3, 3),))
def conj_transposed_mul(z):
    z.t().conj().mul_(2j)
    w = z.mT.imag
    w[0].copy_(z.real[0])
    return z


@scenario(lambda: (cplx(4),))
def neg_view_written(z):
    n = z.conj().imag
    n.add_(1)
    n[::2].mul_(n[1::2])
    return z, n.clone()


@scenario(lambda: (cplx(4), cplx(4)), lambda: (lambda p: (p, p))(cplx(4)), example=lambda: (cplx(4), cplx(4)))
def complex_duplicates(x, y):
    x.conj().copy_(y)
    y.real.add_(x.imag)
    return x * y


@scenario(lambda: (lambda b: (b.real, torch.view_as_real(b)))(cplx(4)), example=lambda: (cplx(4).real, torch.view_as_real(cplx(4))))
def real_and_pairs(r, p):
    r.add_(1)
    p[:, 1].mul_(r)
    return r + p[:, 0]


@scenario(lambda: (randn(4).half(),))
def half_bits(x):
    i = x.view(torch.int16)
    i.bitwise_and_(0x7fff)
    b = x.view(torch.bfloat16)
    b[0] = 1.
    return x, i


@scenario(lambda: (torch.arange(16, dtype=torch.uint8),))
def bytes_to_wide(x):
    f = x.view(torch.int32)
    f[1] += 256
    d = x[8:].view(torch.int64)
    d.bitwise_not_()
    return x, f[3]


@scenario(lambda: (lambda b: (b, b.view(torch.int32)[1:5]))(randn(8)), example=lambda: (randn(8), torch.zeros(4, dtype=torch.int32)))
def two_dtypes_share(x, i):
    x.mul_(2)
    i.bitwise_xor_(-2**31)
    return x + 1, i


@scenario(one(2, 3, 4))
def as_strided_of_view(x):
    v = x[1].t()
    w = v.as_strided((2, 2), (1, 5), 3)
    w.add_(10)
    u = w.as_strided((3,), (7,))
    u.neg_()
    return x, w


@scenario(one(24))
def as_strided_scatter_chain(x):
    y = x.view(4, 6)[1:, ::2].as_strided((2, 2), (8, 2))
    y.zero_()
    y.as_strided((2,), (1,), 0).fill_(7.)
    return y, x.view(2, 12)[:, 3]


@scenario(one(6))
def resize_smaller_then_view(x):
    y = x.exp()
    v = y[2:]
    y.resize_(2)
    v.add_(1)
    y.resize_(3, 2)
    return y, v


@scenario(one(4, 6))
def resize_as(x):
    y = x.clone()
    y.resize_as_(x[:2])
    y.add_(1)
    return y


@scenario(two(6))
def set_to_view(x, y):
    x.set_(y[2:])
    x.add_(1)
    return x.sum()


@scenario(two(3, 4), twice(3, 4), example=two(3, 4))
def data_swap(x, y):
    x.t_()
    y.add_(1)
    return x.sum(0)


@scenario(two(3, 3), twice(3, 3), example=two(3, 3))
def both_arguments_transposed_in_place(x, y):
    x.t_()
    y.t_()
    x[0].add_(1)
    return x * 1, y[0]


@scenario(one(4, 5))
def index_put_views(x):
    i = torch.tensor([0, 2])
    x.t()[i] = 1.
    x[:, 1:][i, i] += x[0, 0]
    x[None][0, i, :2] = torch.arange(4.).view(2, 2)
    return x


@scenario(lambda: (randn(4, 5), torch.tensor([[True, False, True, True, False]] * 4)))
def bool_index_put(x, m):
    x[m] += 1
    x[m] = x[m].flip(0)
    x[m.t().t()] = 0.5
    return x


@scenario(one(3, 5))
def sort_out_slices(x):
    v = torch.empty(3, 5)
    i = torch.empty(3, 5, dtype=torch.long)
    torch.topk(x, 2, 1, out=(v[:, :2].clone(), i[:, :2].clone()))
    torch.sort(x, out=(v, i))
    torch.cummax(x, 0, out=(v, i))
    return v, i


@scenario(one(3, 5))
def out_reuse(x):
    o = torch.zeros(5)
    torch.sum(x, 0, out=o)
    torch.mean(x, 0, out=o)
    torch.prod(x, 0, out=o)
    torch.amax(x, 0, out=x[0].clone())
    torch.std(x, 0, out=o)
    return o


@scenario(one(3, 5))
def out_views_of_arg(x):
    torch.add(x[1], x[2], out=x[0])
    torch.mul(x[:, 1], 2, out=x[:, 0])
    torch.cat([x[:1], x[2:]], out=torch.empty(0))
    torch.neg(x[1], out=x[1])
    return x


@scenario(one(4, 3))
def cat_out_other(x):
    o = torch.zeros(8, 3)
    torch.cat([x, x * 2], out=o)
    torch.stack([x[0], x[1]], out=o[:2].clone())
    torch.index_select(x, 0, torch.tensor([1, 1, 0]), out=o[:3].clone())
    torch.gather(x, 0, torch.zeros(2, 3, dtype=torch.long), out=o[:2].clone())
    return o


@scenario(one(2, 3))
def foreach_addcdiv(x):
    a, b = x.unbind(0)
    torch._foreach_addcdiv_([a], [b], [b * b + 1], value=2.)
    torch._foreach_pow_([a], 2)
    torch._foreach_sqrt_([a])
    torch._foreach_neg_([a, b])
    torch._foreach_sub_([a], [b], alpha=0.5)
    return x


@scenario(two(3), twice(3), slices(5, (0, 3), (1, 3)), slices(5, (2, 3), (0, 3)), example=two(3))
def foreach_overlap(x, y):
    torch._foreach_add_([x, y], 1.)
    torch._foreach_mul_([x, y], [y, x])
    return x, y


@scenario(two(3), twice(3), slices(5, (0, 3), (1, 3)), example=two(3))
def foreach_abs_out_of_place(x, y):
    z = torch._foreach_abs([x, y])
    torch._foreach_copy_([x, y], [y, x])
    z[0].add_(x)
    return z


class ThreeBuffersOverOneStorage(nn.Module):

    def __init__(self):
        super().__init__()
        b = torch.arange(12.)
        self.register_buffer("a", b[:8])
        self.register_buffer("b", b[4:])
        self.register_buffer("c", b.view(3, 4).t())

    def forward(self, x):
        self.a.add_(x)
        self.c[1:3].mul_(2)
        self.b[::2] = self.a[::2]
        return self.b.sum(), self.c[0]


scenario(one(8), one(8))(ThreeBuffersOverOneStorage)


class ViewOfAStateHandedOutBeforeTheWrite(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(2, 3))

    def forward(self, x):
        v = self.h[0]
        self.h += x
        return v, self.h.t()


scenario(one(2, 3), one(2, 3))(ViewOfAStateHandedOutBeforeTheWrite)


class CondWritesBuffer(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(3))

    def forward(self, x):

        def t(x):
            return x + 1

        def f(x):
            return x - 1

        y = torch.cond(x.sum() > 0, t, f, (x,))
        self.b.copy_(y)
        y2 = torch.cond(self.b.sum() > 0, lambda a: a * 2, lambda a: a * 3, (self.b,))
        return y2


scenario(one(3), one(3))(CondWritesBuffer)


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 0), script=True)
def script_inplace_alternating(x: torch.Tensor, n: int):
    a = x
    b = x.clone()
    for i in range(n):
        a.add_(b)
        a, b = b, a
    return a, b


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 0), script=True)
def script_break(x: torch.Tensor, n: int):
    i = 0
    while True:
        if i >= n:
            break
        x[i] = x[i - 1] * 2
        i += 1
        if bool(x[0] > 1e3):
            continue
        x.add_(1)
    return x


@scenario(lambda: (randn(4), 2), lambda: (randn(4), 5), script=True)
def script_early_return(x: torch.Tensor, n: int):
    for i in range(4):
        x[i] += 1
        if i == n:
            return x[:i + 1]
    return x * 2


@scenario(lambda: (randn(4, 3),), script=True)
def script_list_append_views(x: torch.Tensor):
    l: List[torch.Tensor] = []
    for i in range(x.size(0)):
        l.append(x[i])
    for r in l:
        r.mul_(2)
    l.reverse()
    l.pop()
    l[0].zero_()
    return torch.stack(l), x


@scenario(lambda: (randn(4, 3),), script=True)
def script_tuple_carry(x: torch.Tensor):
    t = (x[0], x[1])
    for i in range(3):
        t = (t[1], t[0])
        t[0].add_(1)
    return t[0], t[1], x


@scenario(lambda: (randn(6),), lambda: (randn(6),), script=True)
def script_data_if(x: torch.Tensor):
    if bool(x.sum() > 0):
        v = x[:3]
    else:
        v = x[3:]
    v.zero_()
    w = v
    if bool(x[0] > 0):
        w = v.clone()
    w.add_(1)
    return v, w, x


@scenario(one(6, 4), one(9, 4), example=one(5, 4), dynamic_shapes={"x": {0: ROWS}})
def dyn_as_strided(x):
    v = x.as_strided((x.shape[0] - 1, 2), (4, 1), 2)
    v.mul_(2)
    x.t()[1:].add_(x[:, 0])
    return x, v


@scenario(one(6, 4), one(9, 4), example=one(5, 4), dynamic_shapes={"x": {0: ROWS}})
def dyn_chunk(x):
    a, b = x.split([x.shape[0] - 2, 2])
    a[:2].add_(b)
    b.copy_(a[-2:])
    return a, b


@scenario(one(6, 4), one(8, 4), example=one(4, 4), dynamic_shapes={"x": {0: 2 * Dim("h", min=2, max=30)}})
def dyn_view_pairs(x):
    v = x.view(x.shape[0] // 2, 8)
    v[:, 0].zero_()
    v[:, -1] = v[:, 1]
    return x, v.t()


@scenario(lambda: (randn(4, 4), torch.tensor(2)))
def item_slice(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 4)
    x[:k].add_(1)
    x.narrow(0, 0, k).mul_(2)
    return x


@scenario(lambda: (randn(4, 4), torch.tensor(2)))
def item_fill(x, n):
    k = n.item()
    x.mul_(k)
    x[0].fill_(k)
    return x, k


@scenario(lambda: (randn(8),))
def nonzero_write(x):
    i = (x > 0).nonzero().squeeze(1)
    x[i] = -x[i]
    y = x[x < -0.5]
    y.add_(1)
    return x, y


@scenario(two(2, 2, 2))
def movedim_flip_roll(x, y):
    v = x.movedim(0, 2)
    v[0].add_(y.flip(0)[0])
    x.copy_(x.roll(1, 0))
    v.swapaxes(0, 1)[1].mul_(-1)
    return v


@scenario(one(2, 8))
def pixel_and_fold(x):
    v = x.unflatten(1, (2, 4))
    v[:, 1].add_(v[:, 0])
    w = x.unfold(1, 4, 4)
    w[:, 0, 1:] = w[:, 0, :-1].clone()
    return v.flatten(1), w


@scenario(one(3, 4))
def view_as_real_of_complex_tmp(x):
    z = torch.complex(x, x * 2)
    r = torch.view_as_real(z)
    r[..., 0].zero_()
    z.imag.add_(1)
    return z, r


@scenario(one(3, 4))
def contiguous_maybe_alias(x):
    a = x.contiguous()
    a.add_(1)
    b = x.t().contiguous()
    b.add_(1)
    c = x.reshape(4, 3)
    c[0].zero_()
    d = x.t().reshape(12)
    d.add_(5)
    e = x.to(torch.float32)
    e.mul_(2)
    f = x.float()
    f[0] = 1
    g = x.expand_as(x)
    g[1] = 2
    return a, b, c, d, e, f, g


@scenario(lambda: (lambda b: (b.t(),))(randn(4, 3)), lambda: (randn(3, 4),), example=one(3, 4))
def reshape_called_transposed(x):
    y = x.reshape(12)
    y.add_(1)
    return y, x


@scenario(lambda: (randn(8)[::2],), lambda: (randn(4),), lambda: (randn(1).expand(4),), example=one(4))
def strided_call_empty_like(x):
    y = torch.zeros_like(x)
    y.copy_(x)
    y.add_(1)
    return y


@scenario(one(5))
def bernoulli_zero(x):
    x.bernoulli_(0.0)
    x.uniform_(2., 2.)
    return x


@scenario(one(3, 4))
def clamp_mixed(x):
    x.clamp_(min=x[0], max=None)
    x.clamp_max_(x.max() / 2)
    torch.nn.functional.hardtanh(x, -.5, .5, inplace=True)
    torch.nn.functional.leaky_relu_(x[1:])
    torch.nn.functional.elu(x[:, 1:], inplace=True)
    torch.nn.functional.threshold(x, 0., .1, inplace=True)
    return x


@scenario(one(3, 4))
def nan_to_num_etc(x):
    x[0].div_(0)
    x.nan_to_num_(1., 2., 3.)
    x.remainder_(0.7)
    x.fmod_(0.3)
    x.copysign_(torch.tensor(-1.))
    x.sub_(x.mean(0, keepdim=True))
    return x
