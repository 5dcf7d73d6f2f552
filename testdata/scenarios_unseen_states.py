"""Scenarios for make_scenarios.py: branches and loops of TorchScript over views, one memory in several dtypes, states kept from call to call."""

import torch
from torch import nn

from scenario_kit import boxes, one, randn, scenario, two


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


@scenario(lambda: (randn(4, 3), 1), script=True)
def script_set_item(x: torch.Tensor, i: int):
    l = [x[0], x[1], x[2]]
    l[1] = x[3]
    l[i].mul_(2)
    l[-1] = l[0]
    l[-1].neg_()
    return torch.stack(l), x


@scenario(lambda: (randn(4, 3),), script=True)
def script_tuple_return_of_views(x: torch.Tensor):
    a, b = x.split(2)
    t = (a, (b, a[0]))
    t[1][1].add_(t[0][1])
    return t[1][0], t[0], x


@scenario(lambda: (randn(3), 0), lambda: (randn(3), 5), script=True)
def script_loop_may_not_run(x: torch.Tensor, n: int):
    y = x
    for i in range(n):
        y = y + 1
    y.mul_(2)
    return y, x


@scenario(lambda: (randn(3), 0), lambda: (randn(3), 5), script=True)
def script_alias_after_loop(x: torch.Tensor, n: int):
    y = x
    z = x.view(3, 1)
    for i in range(n):
        if i % 2 == 1:
            y = z.squeeze(1)
        else:
            y = y.clone()
        z.add_(1)
    y[0] = 7
    return y, z, x


@scenario(lambda: (randn(3, 3), True, False), lambda: (randn(3, 3), False, True), lambda: (randn(3, 3), True, True), script=True)
def script_nested_if_views(x: torch.Tensor, a: bool, b: bool):
    v = x
    if a:
        v = x[1:]
        if b:
            v = v.t()
            v[0].add_(1)
    else:
        v = x.clone()
    v.mul_(3)
    x.add_(1)
    return v, x


@scenario(lambda: (randn(6),), lambda: (torch.ones(6),), script=True)
def script_data_while(x: torch.Tensor):
    n = 0
    while bool(x.abs().max() > 0.1) and n < 20:
        x[::2] *= 0.5
        x[1::2] *= 0.25
        n += 1
    return x, n


@scenario(lambda: (randn(5), randn(5)), lambda: (lambda p: (p, p))(randn(5)), lambda: (lambda p: (p[:5], p[2:]))(randn(7)), script=True)
def script_called_with_overlaps(x: torch.Tensor, y: torch.Tensor):
    for i in range(3):
        x[i].add_(y[i + 1])
        y[i] = x[i + 1] * 2
    return x, y


@scenario(lambda: (randn(4),), script=True)
def script_inplace_returns_self(x: torch.Tensor):
    y = x.add_(1).mul_(2)
    z = y.clamp_(0).view(2, 2)
    y.sub_(1)
    return y, z, x


@scenario(lambda: (randn(4),), script=True)
def script_numbers_from_tensors(x: torch.Tensor):
    n = int(x.argmax())
    x[n] = 0
    m = float(x.sum())
    if m > 0:
        x.div_(m)
    return x[n:], n


@scenario(lambda: (torch.tensor([3, 1, 2]),), script=True)
def script_sizes_from_data(n: torch.Tensor):
    out = torch.zeros(4)
    for i in range(n.size(0)):
        k = int(n[i])
        out[:k].add_(1)
        out[k:].sub_(1)
    return out


@scenario(boxes(30, (0, (3, 4), (4, 1)), (1, (3, 4), (4, 1))),
          boxes(30, (0, (3, 4), (1, 3)), (0, (3, 4), (4, 1))),
          boxes(30, (2, (3, 4), (8, 2)), (3, (3, 4), (8, 2))),
          example=two(3, 4))
def strided_overlaps_with_temporaries(a, b):
    t = a + b
    a.copy_(t)
    b.sub_(t.mean())
    return a * b, t


@scenario(boxes(30, (0, (4,), (2,)), (0, (2,), (4,))),
          boxes(30, (0, (4,), (2,)), (2, (2,), (4,))),
          boxes(30, (0, (4,), (2,)), (1, (2,), (4,))),
          example=lambda: (randn(4), randn(2)))
def every_fourth_of_every_second(a, b):
    b.mul_(2)
    a[::2].add_(b)
    return a.sum(), b * 1


@scenario(lambda: (lambda b: (b, b.t(), b.diagonal()))(randn(3, 3)), example=lambda: (randn(3, 3), randn(3, 3), randn(3)))
def matrix_its_transpose_and_diagonal(m, t, d):
    t.triu_()
    d.fill_(2)
    m[2].add_(d)
    return m, t[0], d + 1


@scenario(lambda: (lambda b: (b[0:1].expand(3, 2), b))(randn(2, 2)), example=lambda: (randn(3, 2), randn(2, 2)))
def expanded_view_of_what_is_written(e, b):
    b.add_(1)
    return e * 2, b + e[:2]


@scenario(lambda: (lambda b: (b, b.view(torch.int32), b.view(torch.uint8)))(randn(4)),
          example=lambda: (randn(4), torch.zeros(4, dtype=torch.int32), torch.zeros(16, dtype=torch.uint8)))
def three_dtypes(f, i, b):
    b[3::4].bitwise_and_(0x7f)
    i[0] = 0
    f[1:].mul_(2)
    return f * 1, i[1:], b[:4]


@scenario(lambda: (lambda z: (z, z.real, z.imag))(cplx(3)),
          lambda: (lambda z: (z, z.imag, z.real))(cplx(3)),
          example=lambda: (cplx(3), cplx(3).real, cplx(3).imag))
def complex_and_parts(z, r, i):
    r.add_(i)
    z.mul_(1j)
    i.zero_()
    return z * 1, r, i


class StateSharedWithArgument(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("s", torch.arange(6.))

    def forward(self, x):
        self.s[1:4].add_(x)
        x.mul_(2)
        return self.s[2:], x.sum() + self.s.sum()


scenario(one(3), lambda earlier: (earlier[0][1][0][:3],), one(3), example=one(3), earlier=True)(StateSharedWithArgument)


class TwoBuffersSwap(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x):
        t = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(t)
        self.a.add_(x)
        return self.b * 1


scenario(one(3), one(3), one(3))(TwoBuffersSwap)


class Welford(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("m2", torch.zeros(3))

    def forward(self, x):
        for r in x.unbind(0):
            self.n += 1
            d = r - self.mean
            self.mean += d / self.n
            self.m2 += d * (r - self.mean)
        return (self.m2 / (self.n - 1)).sqrt_()


scenario(one(4, 3), one(4, 3))(Welford)


class QuantObserver(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("lo", torch.tensor(float("inf")))
        self.register_buffer("hi", torch.tensor(float("-inf")))

    def forward(self, x):
        self.lo.copy_(torch.minimum(self.lo, x.min()))
        self.hi.copy_(torch.maximum(self.hi, x.max()))
        s = (self.hi - self.lo).clamp_(min=1e-3) / 255
        q = torch.round((x - self.lo) / s).clamp_(0, 255).to(torch.uint8)
        return q, s, self.lo


scenario(one(5), one(5))(QuantObserver)


@scenario(one(3, 4))
def setitem_with_none_and_ellipsis(x):
    x[None, ..., 1:3] = 5.
    x[..., None][0, :, 0] += 1
    x[-1, ::3] = x[0, 1]
    x[torch.tensor(True)] *= 2
    return x


@scenario(one(4, 4))
def index_put_mixed(x):
    i = torch.tensor([1, 3])
    x[i[:, None], i] = torch.arange(4.).view(2, 2)
    x[:, i] += x[i].t()
    x[i, 1:] = x[0, 1:]
    x[i] += 1
    return x


@scenario(one(2, 3, 4))
def flatten_reshape_write(x):
    x.flatten(1)[:, ::5].zero_()
    x.reshape(-1, 2)[3] = 1
    x.permute(2, 0, 1).reshape(4, -1)[0] = 9
    x.view(6, 4).unflatten(1, (2, 2)).select(-1, 1).add_(x.view(6, 4)[:, :2])
    return x


@scenario(one(2, 2, 2))
def swapaxes_squeeze_unsqueeze_chain(x):
    y = x.unsqueeze(1).swapaxes(0, 3).squeeze(1)
    y.select(0, 1).unsqueeze_(0).mul_(3)
    y.narrow(1, 0, 1).squeeze(1).fill_(1) if y.shape[1] > 1 else y.fill_(1)
    return y, x


@scenario(one(12))
def view_dtype_then_permute(x):
    c = torch.view_as_complex(x.view(2, 3, 2))
    c.t()[1:].mul_(2j)
    r = torch.view_as_real(c).permute(2, 1, 0)
    r[0] = 0
    return x, r, c.imag


@scenario(one(3, 3))
def out_is_input_transposed(x):
    torch.neg(x, out=x)
    torch.mul(x.t(), 2, out=torch.empty(3, 3))
    torch.sub(x, x.t().clone(), out=x)
    return x


@scenario(one(3, 4))
def resize_output_of_op(x):
    y = (x * 2).resize_(2, 3)
    z = torch.empty(0)
    torch.cumsum(x, 1, out=z)
    w = torch.empty(2)
    torch.sum(x, 0, out=w.resize_(4))
    return y, z, w


@scenario(one(5))
def copy_from_self_views(x):
    x.copy_(x)
    x[:].copy_(x.view(5))
    x[1:].copy_(x[1:])
    x.view(1, 5).copy_(x.view(1, 5) * 2)
    return x


@scenario(one(4))
def write_then_dead(x):
    y = x.clone()
    y.add_(100)
    z = x[2:]
    z = z * 1
    z.zero_()
    return x


@scenario(lambda: (randn(3, 4).to(torch.float64), torch.arange(4)))
def mixed_dtype_inplace(x, i):
    x.add_(i)
    i.add_(1).mul_(2)
    x[0] = i
    x.t()[2].copy_(torch.ones(3, dtype=torch.bool))
    i.copy_(x[1])
    return x, i


@scenario(lambda: (torch.tensor([250, 5], dtype=torch.uint8), torch.tensor([-5, 5], dtype=torch.int8)))
def wrap_unsigned(a, b):
    a.add_(10)
    a.sub_(20)
    b.mul_(30)
    a.view(torch.int8).add_(b)
    b.abs_()
    a.bitwise_not_()
    return a, b


@scenario(lambda: (torch.full((3,), 65504.).half(), randn(3).bfloat16()))
def half_overflow(a, b):
    a.add_(a)
    a[0].sub_(a[0])
    b.mul_(1e38).mul_(1e3)
    b.nan_to_num_()
    return a, b


@scenario(lambda: (torch.tensor([0., -0., float("nan"), float("inf"), -float("inf")]),))
def special_values(x):
    y = x.clone()
    x.clamp_(-1, 1)
    y.sign_()
    x[1:3].relu_()
    y.copysign_(x)
    x.maximum(y)
    return x, y, torch.fmax(x, y)


@scenario(one(2, 5))
def sort_values_written(x):
    v, i = x.sort(1)
    v[:, 0].add_(i[:, 0])
    i.clamp_(max=2)
    x.copy_(v.gather(1, i))
    t = x.topk(2).values
    t.zero_()
    return x, i, t


@scenario(one(4, 4))
def cumulative_and_flip_in_place(x):
    x.copy_(x.flip(0))
    x[:, 0].copy_(x[:, 0].cumsum(0))
    x.copy_(torch.roll(x, 1, 1))
    x.copy_(torch.rot90(x))
    return x


@scenario(one(4, 4), one(4, 4))
def checkpointed_twice_used(x):

    def block(t):
        u = t.clone()
        u[0].mul_(2)
        return u.sum(0)

    return block(x) + block(x.t()), x


@scenario(one(4), one(4), script=True)
def script_triangles_of_expanded_memory(x: torch.Tensor):
    x.expand(4, 4).tril_(1)
    y = torch.ones(2, 1, 4).expand(2, 4, 4)
    y.triu_(-2)
    z = x.view(4, 1).expand(4, 4).triu_()
    return y, z, x
