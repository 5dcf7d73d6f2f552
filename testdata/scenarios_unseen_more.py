"""Scenarios for make_scenarios.py: optimizers, lists of TorchScript, memory seen in several shapes, derived sizes."""

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


@scenario(lambda: (randn(2, 3), randn(4)), script=True)
def script_set_offsets(x: torch.Tensor, y: torch.Tensor):
    v = y.view(2, 2)
    x.set_(v.t())
    x[0].zero_()
    v.add_(1)
    return x, y


@scenario(two(2, 3), twice(2, 3), script=True)
def script_unsqueeze_dup(x: torch.Tensor, y: torch.Tensor):
    x.unsqueeze_(0)
    y.add_(1)
    return x.squeeze(0), y


@scenario(lambda: (randn(2, 3), randn(4, 3)), script=True)
def script_resize_argument(x: torch.Tensor, y: torch.Tensor):
    x.resize_([4, 3])
    x.copy_(y)
    z = x.t_()
    z[0].mul_(2)
    return x, z


@scenario(lambda: (randn(3, 4), 2), lambda: (randn(3, 4), 0), script=True)
def script_list_index(x: torch.Tensor, i: int):
    l = [x[0], x[1].clone(), x[2]]
    l[i].add_(1)
    v = l[i]
    x[0].mul_(3)
    return v, l[1], x


@scenario(lambda: (randn(3, 4), 2), lambda: (randn(3, 4), 0), script=True)
def script_list_index_read(x: torch.Tensor, i: int):
    l = x.unbind(0)
    s = l[i] * 2
    for k in range(3):
        s = s + l[k]
    x.add_(s)
    return s, x


@scenario(lambda: (randn(3, 4), True), lambda: (randn(3, 4), False), script=True)
def script_optional_arg(x: torch.Tensor, c: bool):
    b: Optional[torch.Tensor] = None
    if c:
        b = x[1]
    y = F.linear(x, x[:3, :4], None)
    if b is not None:
        b.add_(y[0, 0])
        y = y + b[0]
    return y, x


@scenario(lambda: (randn(3, 4), 3), lambda: (randn(3, 4), 1), script=True)
def script_tuple_loop_geometry(x: torch.Tensor, n: int):
    t = (x, x.sum())
    for i in range(n):
        y = t[0] * 2
        y[0].zero_()
        t = (y, y.sum())
    return t[0], t[1]


@scenario(lambda: (randn(4), 3), lambda: (randn(4), 0), script=True)
def script_state_machine(x: torch.Tensor, n: int):
    a, b, c = x[0:2], x[1:3], x[2:4]
    for i in range(n):
        a, b, c = b, c, a
        if i % 2 == 0:
            a.add_(c)
        else:
            b.copy_(a.clone())
    return a, b, c, x


@scenario(lambda: (torch.arange(6),), script=True)
def script_item_loop(x: torch.Tensor):
    total = 0
    for i in range(6):
        v = int(x[i].item())
        if v > 2:
            x[i] = v * 2
            total += v
    return x, total


class AdamOnBuffers(nn.Module):

    def __init__(self):
        super().__init__()
        for n in ("p", "m", "v"):
            self.register_buffer(n, torch.ones(3) if n == "p" else torch.zeros(3))
        self.register_buffer("t", torch.zeros(()))

    def forward(self, g):
        self.t += 1
        self.m.lerp_(g, 0.1)
        self.v.mul_(0.99).addcmul_(g, g, value=0.01)
        bc = 1 - 0.9**self.t
        self.p.addcdiv_(self.m / bc, self.v.sqrt().add_(1e-8), value=-0.1)
        return self.p


scenario(one(3), one(3))(AdamOnBuffers)


class AdamOnListsOfBuffers(nn.Module):

    def __init__(self):
        super().__init__()
        for i in range(2):
            for n in ("p", "m", "v"):
                self.register_buffer(f"{n}{i}", torch.full((2 + i,), 1.0 if n == "p" else 0.5))

    def forward(self, a, b):
        p, m, v = [self.p0, self.p1], [self.m0, self.m1], [self.v0, self.v1]
        g = [a, b]
        torch._foreach_lerp_(m, g, 0.1)
        torch._foreach_mul_(v, 0.9)
        torch._foreach_addcmul_(v, g, g, 0.1)
        d = torch._foreach_sqrt(v)
        torch._foreach_add_(d, 1e-6)
        torch._foreach_addcdiv_(p, m, d, -0.5)
        return p[0]


scenario(lambda: (randn(2), randn(3)), lambda: (lambda b: (b[:2], b[:3]))(randn(3)), example=lambda:
         (randn(2), randn(3)))(AdamOnListsOfBuffers)


class CacheFilledByPositionsOfDynamicLength(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(1, 8, 4))
        self.register_buffer("n", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        pos = self.n + torch.arange(x.shape[1])
        self.k[:, pos] = x
        self.n.add_(x.shape[1])
        return (x @ self.k.mT).softmax(-1) @ self.k


scenario(lambda: (randn(1, 3, 4),),
         lambda: (randn(1, 2, 4),),
         example=lambda: (randn(1, 3, 4),),
         dynamic_shapes={"x": {
             1: Dim("t", min=2, max=8)
         }})(CacheFilledByPositionsOfDynamicLength)


class BuffersThatAreViewsOfOne(nn.Module):

    def __init__(self):
        super().__init__()
        base = torch.zeros(4, 4)
        self.register_buffer("rows", base)
        self.register_buffer("diag", base.diagonal())
        self.register_buffer("low", base[2:])

    def forward(self, x):
        self.diag.copy_(x)
        self.rows[0].add_(self.low.sum(0))
        return self.diag, self.rows.sum()


scenario(one(4), one(4))(BuffersThatAreViewsOfOne)


class WeightNormalisedInPlace(nn.Module):

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(6.).view(2, 3))
        self.g = nn.Parameter(torch.ones(2, 1))

    def forward(self, x):
        with torch.no_grad():
            n = self.w.norm(dim=1, keepdim=True).clamp_(min=1e-3)
            self.w.div_(n).mul_(self.g)
            self.g[0] = n[1]
        return F.linear(x, self.w)


scenario(one(2, 3), one(2, 3))(WeightNormalisedInPlace)


class SpectralNormState(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("u", torch.ones(3))
        self.w = nn.Parameter(torch.arange(9.).view(3, 3))

    def forward(self, x):
        v = F.normalize(self.w.t().mv(self.u), dim=0)
        self.u.copy_(F.normalize(self.w.mv(v), dim=0))
        return x @ (self.w / self.u.dot(self.w.mv(v)))


scenario(one(2, 3), one(2, 3))(SpectralNormState)


@scenario(lambda: (lambda b: (b, b.view(6), b.view(3, 2)))(randn(2, 3)), example=lambda: (randn(2, 3), randn(6), randn(3, 2)))
def three_shapes_one_memory(a, b, c):
    b[1:4].add_(1)
    c.t()[0].mul_(2)
    a[:, 1] = c[:2, 0]
    return a, b[2:], c.t()


@scenario(lambda: (lambda b: (b[0], b[1], b))(randn(2, 4)),
          lambda: (lambda b: (b[0], b[0], b))(randn(2, 4)),
          lambda: (lambda b: (b[1], b[0], b[:1].expand(2, 4)))(randn(2, 4)),
          example=lambda: (randn(4), randn(4), randn(2, 4)))
def rows_and_stack(a, b, m):
    s = m.sum(0)
    a.add_(s)
    b.mul_(a)
    return torch.stack([a, b]), m.sum(), s


@scenario(lambda: (lambda b: (b[:4], b[4:]))(randn(8)),
          lambda: (lambda b: (b[4:], b[:4]))(randn(8)),
          lambda: (lambda b: (b[:4], b[:4].flip(0)))(randn(8)),
          example=two(4))
def out_given_from_args(a, b):
    torch.add(a, b, out=b)
    torch.sub(b, a, out=a)
    torch.stack([a, b], out=torch.empty(0))
    return a, b


@scenario(two(4), twice(4), slices(6, (0, 4), (2, 4)), slices(5, (1, 4), (0, 4)), example=two(4))
def where_masked(a, b):
    a.copy_(torch.where(a > 0, b, a))
    b.masked_fill_(b < 0, 0.)
    a[a > 0.5] = 0.5
    b.clamp_(max=a.max())
    return a - b


@scenario(two(4), twice(4), slices(6, (0, 4), (2, 4)), example=two(4))
def index_put_overlap(a, b):
    i = torch.tensor([3, 0])
    a[i] = b[i] * 2
    b.index_add_(0, i, a[:2].clone())
    b.scatter_(0, i, 7.)
    return a, b


@scenario(lambda: (lambda b: (b.unfold(0, 3, 1), b))(randn(6)), example=lambda: (randn(4, 3), randn(6)))
def windows_as_argument_read(w, b):
    b.add_(w.sum(1).mean())
    return w * 2, b


@scenario(lambda: (randn(3).expand(2, 3), randn(2, 3)), lambda: (randn(2, 1).expand(2, 3), randn(2, 3)), example=two(2, 3))
def expanded_read_only_arguments(e, x):
    x.add_(e)
    y = e + 1
    y[0].zero_()
    return y, x, e.sum(0)


@scenario(lambda: (randn(3, 4)[:, ::2], randn(3, 2)), lambda: (randn(3, 2), randn(2, 3).t()), example=two(3, 2))
def strided_arguments_mutated_returned(a, b):
    a.mul_(b)
    b[1:] = a[:-1]
    return a, a.t(), b[:, 0], a.reshape(-1)


@scenario(lambda: (randn(4)[1:], randn(3)), lambda: (randn(9)[3:6], randn(3)), example=two(3))
def offset_arguments(a, b):
    a[:2].add_(1)
    b.copy_(a)
    return a[1:], b


@scenario(lambda: (torch.tensor(1.5), torch.tensor([1., 2.])),
          lambda: (lambda b: (b[1], b))(torch.tensor([1., 2.])),
          example=lambda: (torch.tensor(1.5), torch.tensor([1., 2.])))
def zero_dim_alias(s, v):
    s.add_(v.sum())
    v.mul_(s)
    s.fill_(v[0])
    return s, v


@scenario(lambda: (torch.empty(0, 3), randn(0)), lambda: (torch.empty(0, 3), torch.empty(0)))
def empty_things(a, b):
    a.add_(1)
    b.copy_(b * 2)
    c = torch.cat([a, torch.ones(1, 3)])
    c[0].mul_(2)
    return a.t(), b.view(0, 2), c


@scenario(lambda: (randn(6, 4), torch.tensor(3)),
          lambda: (randn(4, 4), torch.tensor(0)),
          example=lambda: (randn(5, 4), torch.tensor(2)),
          dynamic_shapes=({
              0: ROWS
          }, None))
def dyn_while(x, n):

    def c(i, a):
        return i < n

    def b(i, a):
        return i + 1, a * 0.5 + x.mean()

    i, y = torch._higher_order_ops.while_loop(c, b, (torch.zeros((), dtype=torch.long), x.clone()))
    x.sub_(y)
    y[0].zero_()
    return y[1:], x, i


@scenario(lambda: (randn(6, 4), torch.tensor(True)),
          lambda: (randn(4, 4), torch.tensor(False)),
          example=lambda: (randn(5, 4), torch.tensor(True)),
          dynamic_shapes=({
              0: ROWS
          }, None))
def dyn_cond(x, p):
    y = torch.cond(p, lambda t: t.sum(0, keepdim=True) + t, lambda t: t * t.shape[0], (x,))
    y[1:].add_(x[:-1])
    x[:, 0] = y[:, 1]
    return y.t(), x


@scenario(lambda: (randn(5, 3), randn(2, 3)),
          lambda: (randn(4, 3), randn(7, 3)),
          example=lambda: (randn(3, 3), randn(6, 3)),
          dynamic_shapes=({
              0: Dim("a", min=2, max=9)
          }, {
              0: Dim("b", min=2, max=9)
          }))
def dyn_cat_write(x, y):
    c = torch.cat([x, y])
    c[x.shape[0]:].mul_(2)
    c[:x.shape[0]].add_(1)
    x.mul_(c.sum())
    return c, c[x.shape[0]:].t()


@scenario(lambda: (randn(5, 3),), lambda: (randn(4, 3),), example=one(6, 3), dynamic_shapes={"x": {0: ROWS}})
def dyn_repeat_interleave(x):
    y = x.repeat(2, 1)
    y.view(2, -1, 3)[1].add_(1)
    z = x.unsqueeze(1).expand(-1, 2, -1).reshape(-1, 3)
    z[::2].zero_()
    return y, z


@scenario(lambda: (randn(5, 3),), lambda: (randn(4, 3),), example=one(6, 3), dynamic_shapes={"x": {0: ROWS}})
def dyn_resize(x):
    y = x.new_empty(0)
    y.resize_(x.shape[0], 2)
    y.copy_(x[:, :2])
    y.t_()
    y[0] = 1
    return y, x


@scenario(lambda: (randn(5, 4),), lambda: (randn(7, 4),), example=one(6, 4), dynamic_shapes={"x": {0: ROWS}})
def dyn_unfold(x):
    w = x.unfold(0, 2, 2)
    w[..., 0].mul_(3)
    x.select(0, -1).zero_()
    return w.sum(2), x


@scenario(one(2, 3, 4, 4))
def norms_and_pools(x):
    y = F.relu(F.group_norm(x, 3), inplace=True)
    y[:, 0] = F.max_pool2d(y, 3, 1, 1)[:, 1]
    x.copy_(F.interpolate(y[:, :, ::2, ::2], scale_factor=2))
    return y.mean((2, 3)), x[:, 1]


@scenario(one(2, 6))
def glu_softmax_chain(x):
    a, b = x.chunk(2, -1)
    a.mul_(b.sigmoid())
    x.copy_(x.softmax(-1))
    b.log_()
    return a, F.log_softmax(x, 0)


@scenario(one(3, 4))
def out_on_slice_of_arg(x):
    o = x[:, 1:3]
    torch.mul(x[:, 0:2], 2, out=torch.empty(3, 2))
    torch.exp(x[:, 3:4].expand(3, 2), out=o)
    torch.mm(x, x.t(), out=torch.zeros(3, 3))
    return o, x


@scenario(lambda: (torch.tensor([3, 1, 2]), randn(3)))
def scatter_self_index(i, x):
    i.sub_(1)
    x[i] = x.clone()
    i[i.clone()] = torch.arange(3)
    i.scatter_(0, i, i.clone())
    return i, x


@scenario(lambda: (torch.arange(8, dtype=torch.int8).view(2, 4),))
def bytes_as_floats_transposed(x):
    f = x.view(torch.int32).squeeze(1)
    f[0] = f[1]
    x.t()[1].fill_(7)
    h = x.view(torch.int16)
    h[1, 0] += 1
    return f, x.t(), h


@scenario(lambda: (randn(4, 4),))
def matrix_inplace_block(x):
    q = x.view(2, 2, 2, 2).permute(0, 2, 1, 3)
    q[0, 1].copy_(q[1, 0])
    q[1, 1] @= q[0, 0]
    return q.reshape(4, 4), x


@scenario(lambda: (randn(4, 4),))
def augmented_slices(x):
    x[1:3, 1:3] += x[0:2, 0:2].clone()
    x[::2] -= x[1::2]
    x[:, -1] /= 2
    x[0, ...] **= 2
    x[[0, 2]] *= -1
    x[x.abs() > 1] //= 1
    return x


@scenario(lambda: (randn(2, 3), randn(3)))
def broadcast_out_and_lists(x, r):
    x.copy_(r)
    x += r.view(1, 3)
    x[:, :2], x[:, 1:] = x[:, 1:].clone(), x[:, :2].clone()
    torch._foreach_add_(list(x.unbind(1)), [r[0], r[1], r[2]])
    return x, r


@scenario(lambda: (randn(3, 3),))
def tril_views(x):
    x.t().triu_(1)
    x[:2].tril_(0)
    x.view(9)[::4].fill_(1.)
    y = x.expand(2, 3, 3).tril()
    y[0].t().fill_diagonal_(2.)
    return y, x


@scenario(lambda: (randn(6),))
def foreach_slices_chain(x):
    s = [x[i:i + 2] for i in range(0, 6, 2)]
    torch._foreach_mul_(s, torch._foreach_norm(s))
    torch._foreach_sub_(s[:2], s[1:])
    torch._foreach_neg_(s[::2])
    torch._foreach_abs_(s)
    return x, s[1]


@scenario(lambda: (torch.zeros(3), randn(5, 3)), lambda: (torch.zeros(3), randn(5, 3)))
def accumulate_rows(acc, x):
    for i in range(5):
        acc += x[i]
        x[i].copy_(acc)
    return acc / 5, x


@scenario(lambda: (randn(7),))
def prefix_in_place(x):
    for i in range(1, 7):
        x[i] += x[i - 1]
    return x


@scenario(lambda: (randn(8),))
def butterfly(x):
    h = 1
    while h < 8:
        v = x.view(-1, 2, h)
        a, b = v[:, 0].clone(), v[:, 1].clone()
        v[:, 0] = a + b
        v[:, 1] = a - b
        h *= 2
    return x, x.view(2, 4)[1]


@scenario(lambda: (randn(3, 4),), script=True)
def script_split_list_rotated(x: torch.Tensor):
    l = x.split(1)
    m = l[1:] + l[:1]
    out = torch.zeros(4)
    for t in m:
        out.add_(t[0])
        t.mul_(out.sum())
    return out, x, m[0]


@scenario(lambda: (randn(3, 4),), script=True)
def script_parts_of_a_list_written(x: torch.Tensor):
    l = x.unbind(0)
    m = l[1:]
    m[0].mul_(2)
    (l[:1] + m)[2].zero_()
    return x, m[1]


@scenario(lambda: (randn(3, 4), randn(4), randn(4), randn(4)),
          lambda: (lambda b: (b, b[0], b[2], b[1]))(randn(3, 4)),
          example=lambda: (randn(3, 4), randn(4), randn(4), randn(4)))
def unbind_into_given(x, a, b, c):
    torch.unbind_copy(x, 0, out=(a, b, c))
    a.add_(b)
    return x, a, c


@scenario(lambda: (randn(5, 2), torch.zeros(2, 2), torch.zeros(3, 2)))
def split_into_given(x, a, b):
    torch.split_with_sizes_copy(x, [2, 3], 0, out=(a, b))
    torch.split_copy(x[:4], 2, 0, out=(a, b[1:]))
    x.zero_()
    return a, b.t()


@scenario(one(3, 4))
def random_rrelu_of_one_slope(x):
    y = F.rrelu(x, 0.25, 0.25, training=True)
    F.rrelu(x[1], 0.5, 0.5, training=True, inplace=True)
    return y, x


@scenario(one(3, 4))
def alpha_dropouts_that_drop_nothing_or_all(x):
    torch.feature_alpha_dropout_(x, 0.5, False)
    torch.alpha_dropout_(x[0], 1.0, True)
    torch.alpha_dropout(x, 0.0, True).add_(1)
    return x


@scenario(lambda: (cplx(4),))
def complex_silu(z):
    y = F.silu(z)
    F.silu(z[1:], inplace=True)
    return y, z


@scenario(lambda: (randn(6, 4),), lambda: (randn(8, 4),), example=one(4, 4), dynamic_shapes={"x": {0: 2 * H}})
def dyn_halves_written_and_shown(x):
    a, b = x.chunk(2)
    a.add_(b)
    b[0].zero_()
    return b, x.sum(0)


@scenario(lambda: (randn(8),), lambda: (randn(12),), example=one(8), dynamic_shapes={"x": {0: 4 * Dim("q", min=2, max=9)}})
def dyn_quarters_of_a_multiple_of_four(x):
    v = x.view(4, -1)
    v[0].add_(v[3])
    w = x.view(-1, 2, 2)
    w[:, 1].neg_()
    p, q, r, s = x.chunk(4)
    s.mul_(p)
    return v.t(), w.sum(0), q


@scenario(one(3, 5))
def fake_quantized_at_the_middle_between_two_numbers(x):
    x = torch.cat([x, torch.tensor([[0.5, 1.5, -0.5, 2.5, float("nan")], [1e30, -1e30, 1e10, float("inf"), -float("inf")]])])
    zero = torch.tensor([1, 0, -3, 2, 1], dtype=torch.int32)
    scales = torch.tensor([1.0, 0.5, 1.0, 0.25, 1.0])
    y = torch.fake_quantize_per_tensor_affine(x, 1.0, 1, -4, 4)
    z = torch.fake_quantize_per_channel_affine(x, scales, zero, 1, -4, 4)
    w = torch.fake_quantize_per_channel_affine(x, torch.ones(5), torch.tensor([0.5, 1.0, 0.0, 1.0, 9.0]), 0, -4, 4)
    v = torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.5), torch.tensor(1, dtype=torch.int32), -4, 4)
    a, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.25, 1, -4, 4)
    b, channels = torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scales, zero, 1, -3, 2)
    return y, z, w, v, a, mask, b, channels


@scenario(lambda: (randn(4, 6, dtype=torch.float64), randn(4, 6, dtype=torch.bfloat16), torch.tensor([1])),
          lambda: (randn(4, 6, dtype=torch.float64), randn(4, 6, dtype=torch.bfloat16), torch.tensor([0])))
def fake_quantized_doubles_and_halves(x, h, on):
    zero = torch.tensor([3, 0, -2, 1], dtype=torch.int32)
    s = torch.tensor([0.1, 0.3, 0.7, 0.05])
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -16, 15)
    z = torch.fake_quantize_per_channel_affine(x, s, zero, 0, -16, 15)
    v = torch.fake_quantize_per_tensor_affine(x, torch.tensor([0.1]), torch.tensor([-1.9]), -16, 15)
    w, mask = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        x, s[0], zero[0], on, -16, 15)
    a = torch.fake_quantize_per_tensor_affine(h, 0.1, 3, -16, 15)
    b = torch.fake_quantize_per_channel_affine(h, s, zero, 0, -16, 15)
    return y, z, v, w, mask, a, b


@scenario(lambda: (randn(2, 3), torch.tensor([-4, 4], dtype=torch.int32)),
          lambda: (randn(2, 3), torch.tensor([-4, 5], dtype=torch.int32)))
def refused_zero_points_outside_of_the_range(x, zero):
    x.add_(1)
    return torch.fake_quantize_per_channel_affine(x, torch.ones(2), zero, 0, -4, 4)


@scenario(lambda: (torch.tensor([0, 3, 3, 1]), randn(4)), lambda: (torch.tensor([4, 0, 0, 0]), randn(4)))
def counts_added_to_as_many_numbers(i, x):
    return x.add_(torch.bincount(i, minlength=4))


@scenario(lambda: (randn(5, 1), randn(1, 4), randn(6, 1, 3), randn(6, 3, 1)),
          lambda: (randn(1, 5).t(), randn(8)[::2][None], randn(3, 6).t()[:, None], randn(6, 3, 1)))
def products_of_columns_and_rows(a, b, rows, columns):
    outer = a @ b
    a.mul_(2)
    both = torch.bmm(rows, columns)
    spread = torch.bmm(columns, rows)
    half = torch.bmm(rows.bfloat16(), columns.bfloat16())
    double = torch.mm(a.double(), b.double())
    rows.zero_()
    return outer.tanh(), both, both.sum(0), spread + 1, half, double, torch.outer(b[0], a[:, 0])


@scenario(lambda: (randn(2, 3, 5, 6), torch.rand(2, 2, 4, 7).permute(0, 3, 2, 1) * 2.4 - 1.2),
          lambda: (randn(2, 5, 6, 3).permute(0, 3, 1, 2), torch.rand(2, 7, 4, 2) * 2.4 - 1.2))
def images_sampled_at_strided_places(x, grid):
    theta = grid[:, :3, :2, 0].transpose(1, 2)
    warped = F.affine_grid(theta, (2, 3, 4, 5), align_corners=False)
    y = F.grid_sample(x, grid, align_corners=False)
    z = F.grid_sample(x[:, :, 1:, 1:5], grid, mode="nearest", padding_mode="border", align_corners=True)
    w = F.grid_sample(x, warped, mode="bicubic", padding_mode="reflection", align_corners=False)
    x.mul_(2)
    return y, z, w, warped


def sampled_outside(sizes):
    """An image whose first element is infinite, and places outside of it, some of them NaN or infinite."""
    x = torch.rand(sizes)
    x.flatten()[0] = float("inf")
    dims = len(sizes) - 2
    grid = torch.rand(sizes[0], *[3] * dims, dims) * 5 - 2.5
    grid.view(-1, dims)[0] = float("nan")
    grid.view(-1, dims)[1, 0] = float("nan")
    grid.view(-1, dims)[2, -1] = float("inf")
    return x, grid


@scenario(lambda: sampled_outside((2, 3, 4, 5)))
def images_sampled_outside_of_them(x, grid):
    modes = [(m, p) for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection")]
    return [F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=False) for m, p in modes]


@scenario(lambda: sampled_outside((2, 3, 4, 5, 3)))
def volumes_sampled_outside_of_them(x, grid):
    modes = [(m, p) for m in ("bilinear", "nearest") for p in ("zeros", "border", "reflection")]
    return [F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=False) for m, p in modes]


@scenario(lambda: (randn(4, 6), randn(2, 2)),
          lambda: (randn(4, 12)[:, ::2], randn(2, 2).t()),
          lambda: (randn(6, 4).t(), randn(2, 2)),
          lambda: (randn(30)[3:27].view(4, 6), randn(2, 2)),
          script=True)
def script_scattered_into_places_of_a_copied_storage(x, y):
    a = torch.as_strided_scatter(x, y, (2, 2), (5, 1), 4)
    x.add_(1)
    return a, torch.as_strided_scatter(x, y, (2, 2), (1, 3))


@scenario(one(8), script=True)
def script_frequencies_and_windows(x):
    ends = torch.view_as_real(torch.fft.rfft(x))[:, 1]
    x.mul_(torch.fft.fftfreq(8))
    windows = (torch.kaiser_window(6), torch.kaiser_window(7, False, 5.0), torch.bartlett_window(8, False))
    signs = (torch.signbit(ends[0]), torch.signbit(ends[4]))
    return torch.fft.rfftfreq(7, 0.5), torch.fft.fftfreq(5, 2.0), windows, signs, torch.bartlett_window(5) + x[:5]


@scenario(lambda: (randn(2, 8).half() / 16, randn(2, 8).bfloat16() / 16), script=True)
def script_rms_norms_of_small_halves(x, y):
    x.mul_(torch.rms_norm(x, [8]))
    return torch.rms_norm(y, [8]), torch.rms_norm(y, [8], None, 0.01)


def heads(*order):
    """Three tensors of 2 x 2 heads of 3 rows of 4, whose dims lie in memory in this order."""
    return tuple(randn(*[(2, 2, 3, 4)[d] for d in order]).permute([order.index(d) for d in range(4)]) for _ in range(3))


@scenario(lambda: heads(0, 2, 1, 3),
          lambda: heads(0, 1, 2, 3),
          lambda: heads(0, 1, 3, 2),
          script=True)
def script_attention_lies_as_its_queries(q, k, v):
    o = torch._C._nn.scaled_dot_product_attention(q, k, v)
    rows = o.transpose(1, 2).reshape(2, 3, 8)
    rows.mul_(2)
    q.add_(1)
    whole = torch._C._nn.scaled_dot_product_attention(q, k, v[..., :3])
    masked = torch._C._nn.scaled_dot_product_attention(q, k, v, torch.ones(3, 3))
    return o, rows, whole, masked, torch._C._nn.scaled_dot_product_attention(q.contiguous(), k, v)


@scenario(one(6, 3), one(6, 5), one(6, 2), dynamic_shapes=({1: Dim("n", min=2, max=6)},))
def the_element_whose_order_is_a_size(x):
    values, places = x.kthvalue(x.shape[1], dim=0)
    x.sub_(values)
    return places


@scenario(one(2, 3, 5), one(1, 3, 5), one(4, 3, 5), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
def rows_of_one_matrix_lie_as_its_columns(x):
    y = x.sin().mT.reshape(-1, 3).exp()
    z = y.flatten()
    z.add_(1)
    return y * 1, z


@scenario(one(2, 3, 4), one(3, 4, 2), one(2, 2, 6), dynamic_shapes=({0: Dim("a"), 1: Dim("b"), 2: Dim("c")},))
def merged_split_and_merged_in_another_order(x):
    a, b, c = x.shape
    y = x.view(a * b, c).view(a, b, c).permute(1, 2, 0).reshape(b * c, a).clone()
    z = y.reshape(-1)
    z.add_(1)
    return y * 1, z


# Filled up to a multiple ---------------------------------------------------------------------------------------------------


@scenario(one(2, 10, 14, 2), one(2, 9, 13, 2), one(1, 11, 5, 2), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO},))
def windows_of_an_image_filled_up(x):
    b, h, w, c = x.shape
    right, bottom = (4 - w % 4) % 4, (4 - h % 4) % 4
    y = F.pad(x, (0, 0, 0, right, 0, bottom))
    rows, columns = h + bottom, w + right
    y = y.view(b, rows // 4, 4, columns // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    y = F.scaled_dot_product_attention(y, y.sin(), y.cos())
    y = y.view(b, rows // 4, columns // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, rows, columns, c)
    return y[:, :h, :w]


@scenario(one(2, 19, 6), one(2, 13, 6), one(3, 30, 6), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
def chunks_filled_up_and_cut(x):
    n = x.shape[1]
    y = F.pad(x, (0, 0, 0, -n % 8)).view(x.shape[0], -1, 8, x.shape[2])
    y = (y - y.mean(2, keepdim=True)).flatten(1, 2)[:, :n]
    even = F.pad(x, (0, 0, 0, n % 2)).unflatten(1, (-1, 2)).prod(2)
    return y.relu(), even, x[:, :n // 4 * 4].unflatten(1, (-1, 4)).sum(2)
