"""Scenarios for make_scenarios.py: optimizers, caches and statistics as people write them, called with every kind of memory."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from scenario_kit import one, randn, scenario, twice

ROWS = Dim("n", min=2, max=64)


def cplx(*sizes):
    return torch.complex(randn(*sizes), randn(*sizes))


class NesterovOnOneLayer(nn.Module):

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(randn(3, 2)), nn.Parameter(randn(2))
        self.register_buffer("mw", torch.zeros(3, 2))
        self.register_buffer("mb", torch.zeros(2))

    def forward(self, x, y):
        o = x @ self.w + self.b
        d = 2 * (o - y) / o.numel()
        for p, m, g in ((self.w, self.mw, x.t() @ d), (self.b, self.mb, d.sum(0))):
            g.add_(p, alpha=.01)
            m.mul_(.9).add_(g)
            g.add_(m, alpha=.9)
            p.add_(g, alpha=-.1)
        return (o - y).square().mean()


batch = lambda: (randn(5, 3), randn(5, 2))
scenario(batch, batch, lambda: (lambda p: (p, p[:, 1:]))(randn(5, 3)), example=batch)(NesterovOnOneLayer)


class AmsgradOfGradientsThatShare(nn.Module):

    def __init__(self):
        super().__init__()
        self.w, self.b = nn.Parameter(randn(3, 3)), nn.Parameter(randn(3))
        for n in "wb":
            for k in "mvx":
                self.register_buffer(k + n, torch.zeros_like(getattr(self, n)))
        self.register_buffer("step", torch.zeros(()))

    def forward(self, g, h):
        self.step += 1
        c1, c2 = 1 - .9**self.step, 1 - .999**self.step
        for n, grad in (("w", g), ("b", h)):
            p, m, v, x = getattr(self, n), getattr(self, "m" + n), getattr(self, "v" + n), getattr(self, "x" + n)
            p.mul_(1 - 1e-3)
            m.lerp_(grad, .1)
            v.mul_(.999).addcmul_(grad, grad.conj(), value=.001)
            torch.maximum(x, v, out=x)
            p.addcdiv_(m / c1 * -1e-2, (x.sqrt() / c2.sqrt()).add_(1e-8))
        return self.step


scenario(lambda: (randn(3, 3), randn(3)),
         lambda: (lambda b: (b, b[1]))(randn(3, 3)),
         lambda: (lambda b: (b.t(), b[:, 1]))(randn(3, 3)),
         example=lambda: (randn(3, 3), randn(3)))(AmsgradOfGradientsThatShare)


class RpropMasks(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("p", randn(5))
        self.register_buffer("previous", torch.zeros(5))
        self.register_buffer("step", torch.full((5,), .1))

    def forward(self, g):
        s = g.mul(self.previous).sign()
        s[s.gt(0)] = 1.2
        s[s.lt(0)] = .5
        s[s.eq(0)] = 1
        self.step.mul_(s).clamp_(1e-6, 50)
        g = g.clone()
        g[s.eq(.5)] = 0
        self.p.addcmul_(g.sign(), self.step, value=-1)
        self.previous.copy_(g)
        return s


scenario(one(5), one(5), lambda: (randn(10)[::2],), example=one(5))(RpropMasks)


class PagedCache(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("kv", torch.zeros(2, 5, 4, 2))

    def forward(self, k, v, blocks, places):
        self.kv[0].index_put_((blocks, places), k)
        self.kv[1][blocks, places] = v
        return self.kv[:, blocks], self.kv.view(2, -1, 2)[0].index_select(0, blocks * 4 + places)


paged = lambda: (randn(3, 2), randn(3, 2), torch.tensor([0, 4, 4]), torch.tensor([1, 0, 3]))
scenario(paged, lambda: (lambda p: (p, p, torch.tensor([1, 1, 2]), torch.tensor([0, 2, 2])))(randn(3, 2)), example=paged)(PagedCache)


class QuantizedCache(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 6, 4, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(2, 6, 1))

    def forward(self, x, at):
        s = x.abs().amax(-1, keepdim=True) / 127
        self.k[:, at] = torch.round(x / s).clamp_(-128, 127).to(torch.int8)
        self.scale[:, at] = s
        return self.k.float() * self.scale, self.k[:, at]


scenario(lambda: (randn(2, 2, 4), torch.tensor([0, 1])), lambda: (randn(2, 2, 4), torch.tensor([5, 3])))(QuantizedCache)


class SlidingCache(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(2, 5))

    def forward(self, x):
        self.k[:, :-1] = self.k[:, 1:].clone()
        self.k[:, -1] = x
        return self.k[:, 2:], self.k


scenario(one(2), one(2), lambda: (randn(4)[::2],), example=one(2))(SlidingCache)


class ViewsOfOneWeightUnderFourNames(nn.Module):

    def __init__(self):
        super().__init__()
        b = randn(4, 3)
        self.register_buffer("a", b)
        self.register_buffer("t", b.t())
        self.register_buffer("r", b[1])
        self.w = nn.Parameter(b[2:])

    def forward(self, x):
        self.a.add_(x)
        self.r.mul_(2)
        self.t[0] = 1
        self.w.sub_(self.r)
        return self.t.sum(0), self.a[3], self.w @ self.t


scenario(one(3), one(3), lambda: (randn(6)[::2],), example=one(3))(ViewsOfOneWeightUnderFourNames)


@scenario(lambda: (randn(3, 4), randn(3, 4) > 0),
          lambda: (randn(6, 8)[::2, ::2], (randn(4) > 0).expand(3, 4)),
          lambda: (randn(4, 3).t(), (randn(3, 1) > 0).expand(3, 4)),
          example=lambda: (randn(3, 4), randn(3, 4) > 0))
def rows_by_masks_in_any_strides(x, m):
    x.t()[1:].masked_fill_(m.t()[1:], 3)
    x[:, 0].masked_scatter_(m[:, 0], torch.arange(9.))
    x[m] = 0
    x[m.any(1)] += 1
    return x.masked_select(m), x


@scenario(lambda: (torch.tensor([3, 1, 3, 2]), randn(4)),
          lambda: (torch.tensor([3, 1, 3, 2]), randn(8)[::2]),
          example=lambda: (torch.tensor([3, 1, 3, 2]), randn(4)))
def counted_and_unique_in_any_strides(i, x):
    u, inverse, count = torch.unique(i, return_inverse=True, return_counts=True)
    u.add_(1)
    x.sub_(torch.zeros(4).index_add_(0, inverse, x))
    i.add_(torch.bincount(i, minlength=5)[:4])
    return u, count, x[1:]


@scenario(lambda: (randn(5, 3), torch.tensor(2)),
          lambda: (randn(6, 3), torch.tensor(6)),
          lambda: (randn(6, 3), torch.tensor(0)),
          example=lambda: (randn(4, 3), torch.tensor(2)),
          dynamic_shapes={
              "x": {
                  0: ROWS
              },
              "k": {}
          })
def dynamic_rows_from_a_position_that_data_give(x, k):
    n = k.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    x[n:] = x[n:] - 1
    x[:n].copy_(x[:n] * 2)
    return x[:n], x.sum(0)


@scenario(lambda: (randn(6) > 0, randn(6)),
          lambda: (torch.zeros(6) > 0, randn(6)),
          lambda: (torch.ones(6) > 0, randn(12)[::2]),
          example=lambda: (randn(6) > 0, randn(6)))
def chosen_elements_seen_as_a_column(m, x):
    i = m.nonzero().squeeze(1)
    v = x[i]
    v.mul_(2)
    x[i] = v
    w = v.view(-1, 1)
    w.t().add_(1)
    x.index_add_(0, i, v)
    return v, w, i


@scenario(lambda: (cplx(4), cplx(4)),
          lambda: (lambda b: (b[:4], b[2:6]))(cplx(6)),
          lambda: (lambda b: (b, b))(cplx(4)),
          example=lambda: (cplx(4), cplx(4)))
def conjugates_of_arguments_that_overlap(a, b):
    a.sub_(b.conj())
    b.conj().mul_(a)
    b.real.copy_(a.imag)
    return a * 1, torch.view_as_real(b)[..., 1]


@scenario(lambda: (randn(2, 3, 2), cplx(2, 3)),
          lambda: (lambda b: (b, torch.view_as_complex(b)))(randn(2, 3, 2)),
          lambda: (lambda b: (b[:2], torch.view_as_complex(b[1:])))(randn(3, 3, 2)),
          example=lambda: (randn(2, 3, 2), cplx(2, 3)))
def pairs_and_complex_numbers_over_them(x, z):
    c = torch.view_as_complex(x)
    c *= z
    z.real.add_(x[..., 1])
    c.imag.zero_()
    return torch.view_as_real(z), c.abs()


@scenario(twice(4, 3), lambda: (lambda b: (b[:4], b[2:]))(randn(6, 3)), example=lambda: (randn(4, 3), randn(4, 3)), rtol=1e-4)
def normalised_beside_each_other(a, b):
    a.sub_(a.mean(0))
    b.div_(b.norm(dim=1, keepdim=True))
    a.renorm_(2, 0, 1.)
    y = F.layer_norm(b, (3,))
    b.copy_(F.softmax(a, 1))
    return y, a[1:]
