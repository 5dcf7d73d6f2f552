"""Scenarios for make_scenarios.py: what models do that learn or carry a state: optimizers, normalisation, recurrent cells, caches,
indexing of every kind, complex numbers, nested containers of results."""

from typing import NamedTuple

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import boxes, one, over, randn, scenario, slices, twice, two

ROWS = Dim("n", min=4, max=64)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
while_loop = torch._higher_order_ops.while_loop

# Optimizers -----------------------------------------------------------------------------------------------------------------


class AdamByLists(nn.Module):

    def __init__(self):
        super().__init__()
        flat = randn(10)
        self.a, self.b = nn.Parameter(flat[:4]), nn.Parameter(flat[4:].view(2, 3))
        self.register_buffer("ma", torch.zeros(4))
        self.register_buffer("mb", torch.zeros(2, 3))
        self.register_buffer("va", torch.zeros(4))
        self.register_buffer("vb", torch.zeros(2, 3))

    def forward(self, ga, gb):
        ps, gs, ms, vs = [self.a, self.b], [ga, gb], [self.ma, self.mb], [self.va, self.vb]
        torch._foreach_lerp_(ms, gs, 0.1)
        torch._foreach_mul_(vs, 0.99)
        torch._foreach_addcmul_(vs, gs, gs, 0.01)
        root = torch._foreach_sqrt(vs)
        torch._foreach_div_(root, [0.3, 0.5])
        torch._foreach_add_(root, 1e-8)
        torch._foreach_addcdiv_(ps, ms, root, -0.01)
        return self.a, self.b.t()


scenario(lambda: (randn(4), randn(2, 3)), lambda: (randn(4), randn(2, 3)), **CLOSE)(AdamByLists)


class ParametersReplacedForACall(nn.Module):

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x, w):
        y = torch.func.functional_call(self.lin, {"weight": w}, (x,))
        w.add_(1)
        return y, torch.func.functional_call(self.lin, {"weight": w.t(), "bias": x[0]}, (x,))


scenario(two(3, 3), twice(3, 3), boxes(20, (0, (3, 3), (3, 1)), (4, (3, 3), (3, 1))), example=two(3, 3), **CLOSE)(ParametersReplacedForACall)

# Normalisation ---------------------------------------------------------------------------------------------------------------


class InstanceNormTracked(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)

    def forward(self, x):
        y = self.norm(x)
        x.copy_(y)
        return self.norm.running_var, y[0]


scenario(one(3, 2, 5), one(3, 2, 5), train=True, **CLOSE)(InstanceNormTracked)


class NormOfItsOwnStatistics(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def forward(self, x):
        y = nn.functional.batch_norm(x, self.mean, self.var, training=True, momentum=0.5)
        z = nn.functional.batch_norm(x, self.mean, self.var, training=False)
        return y, z, self.mean[1:]


scenario(one(5, 3), one(5, 3), **CLOSE)(NormOfItsOwnStatistics)


# Recurrent cells, caches, embeddings -----------------------------------------------------------------------------------------


class GruOverTimeKeepsItsState(nn.Module):

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(2, 3, batch_first=True)
        self.register_buffer("h", torch.zeros(1, 2, 3))

    def forward(self, x):
        y, h = self.gru(x, self.h)
        self.h[:] = h
        y[:, 0].zero_()
        return y


scenario(one(2, 4, 2), one(2, 4, 2), **CLOSE)(GruOverTimeKeepsItsState)


class RnnStateAsInput(nn.Module):

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 2)

    def forward(self, x, h):
        y, last = self.rnn(x, h)
        h.copy_(last)
        return y, h[0]


scenario(lambda: (randn(3, 1, 2), randn(1, 1, 2)), boxes(16, (0, (3, 1, 2), (2, 2, 1)), (2, (1, 1, 2), (2, 2, 1))),
         example=lambda: (randn(3, 1, 2), randn(1, 1, 2)), **CLOSE)(RnnStateAsInput)


class EmbeddingRenormalised(nn.Module):

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(6, 3, max_norm=1.0)

    def forward(self, i):
        return self.e(i), self.e.weight[2]


scenario(lambda: (torch.tensor([1, 4, 1, 2]),), lambda: (torch.tensor([0, 5, 2, 2]),), **CLOSE)(EmbeddingRenormalised)


@scenario(lambda: (randn(5, 3), torch.tensor([0, 3, 3])), **CLOSE)
def embedding_of_an_argument_renormalised(w, i):
    y = nn.functional.embedding(i, w, max_norm=0.5, norm_type=1.0)
    return y, w.norm(dim=1)


class WindowOfThePast(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.zeros(2, 5))

    def forward(self, x):
        self.past.copy_(torch.cat([self.past[:, x.size(1):], x], 1))
        return self.past.unfold(1, 3, 1).mean(2), self.past[:, -1]


scenario(one(2, 2), one(2, 2), **CLOSE)(WindowOfThePast)


class BufferSeenAsOtherDtypes(nn.Module):

    def __init__(self):
        super().__init__()
        base = torch.arange(6, dtype=torch.int32)
        self.register_buffer("a", base[:4])
        self.register_buffer("b", base[2:])

    def forward(self, x):
        self.a.view(torch.int16)[1::2].add_(x)
        self.b.view(torch.float32)[1:].fill_(1.5)
        self.a[0] += 3
        return self.a, self.b.view(torch.int16).view(4, 2)[:, 1]


scenario(lambda: (torch.tensor([1, 2, 3, 4], dtype=torch.int16),), lambda: (torch.tensor([1, 0, 3, 0], dtype=torch.int16),))(BufferSeenAsOtherDtypes)


class SameBufferTwiceAndNothing(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(3))

    def forward(self, x, unused):
        self.b.add_(x)
        return self.b, None, {"again": self.b, "view": (self.b[1:], [x])}, 7


scenario(two(3), twice(3), two(3), example=two(3))(SameBufferTwiceAndNothing)


class BufferSwappedWithTheArgument(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.arange(4.))

    def forward(self, x):
        t = x.clone()
        x.copy_(self.b)
        self.b.copy_(t)
        return t, x[1:]


scenario(one(4), one(4))(BufferSwappedWithTheArgument)

# Indexing ----------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(3, 4, 5), torch.tensor([2, 0, 2]), torch.tensor([[1], [-1]])), lambda: (randn(3, 4, 5), torch.tensor([-1, 1, 1]), torch.tensor([[0], [3]])))
def index_put_accumulates_with_broadcast_and_gaps(x, i, j):
    torch.ops.aten.index_put_(x, [i, None, torch.zeros_like(i)], torch.tensor(2.), True)
    x.index_put_((j, torch.tensor([0, -2])), torch.ones(2, 1, 5), accumulate=True)
    return x[i, :, 1]


@scenario(lambda: (randn(4, 3), torch.tensor([True, False, True, True]), torch.tensor([0, 2, 1])), lambda: (randn(4, 3), torch.tensor([False, True, True, True]), torch.tensor([2, 2, 2])))
def index_put_with_a_mask_and_positions(x, m, i):
    x[m, i] = torch.tensor([1., 2., 3.])
    x.t()[i[0]].mul_(2)
    return x.sum(0)


@scenario(lambda: (randn(4, 6), torch.tensor([3, 1]), torch.tensor([5, 0])))
def index_put_into_a_transposed_slice(x, i, j):
    x.t()[1:, i] = torch.ones(5, 1)
    x[..., j][0].zero_()
    x[i, j] -= x[i - 1, i]
    return x[:, ::2]


@scenario(lambda: (randn(3, 5), torch.tensor([[0, 1, 1], [2, 0, 2]])), lambda: (randn(3, 5), torch.tensor([[1, 1, 1], [1, 2, 0]])), **CLOSE)
def scatter_reduce_of_every_kind(x, i):
    src = torch.arange(1., 7).view(2, 3)
    x.scatter_reduce_(0, i, src, "sum", include_self=False)
    x.scatter_reduce_(0, i, src, "prod")
    x[:, 2:].scatter_reduce_(0, i, -src, "amin")
    x[:, 1:4].scatter_reduce_(0, i, src, "mean", include_self=False)
    return x.t()


@scenario(lambda: (randn(4, 3), torch.tensor([3, 0, 3])), **CLOSE)
def index_reduce_in_place(x, i):
    s = torch.arange(9.).view(3, 3) + 1
    x.index_reduce_(0, i, s, "prod")
    x.t().index_reduce_(1, i, s.t() * 0.5, "mean", include_self=False)
    x[1:].index_reduce_(1, i - i + 1, torch.ones(3, 3), "amax")
    return x * 1


@scenario(lambda: (randn(3, 4), torch.tensor([[1, 1], [0, 3], [2, 2]]), torch.tensor([11, 0, 5, 0])), lambda: (randn(3, 4), torch.tensor([[0, 1], [3, 3], [2, 0]]), torch.tensor([-1, -12, 4, 2])))
def put_take_and_gather_of_what_is_written(x, i, p):
    x.put_(p, torch.tensor([1., 2., 3., 4.]), accumulate=True)
    y = x.take(p)
    x.scatter_(1, i, x.gather(1, i) * 2)
    x[0].put_(p[3:].remainder(4), y[:1])
    return y, x


@scenario(lambda: (randn(3, 4), randn(3, 4) > 0, randn(12)), lambda: (randn(3, 4), randn(4, 3).t() > 0, randn(12)))
def masked_scatter_into_a_transpose(x, m, s):
    x.masked_scatter_(m, s)
    x.t().masked_scatter_(m[0].unsqueeze(1), s[2:])
    x[1:].masked_fill_(m[:1], s[0])
    return x[m].sum(), x


@scenario(one(5, 4), one(5, 4))
def reversed_and_written_back(x):
    y = x.flip(0)
    y[0].zero_()
    x.copy_(y.flip(1))
    x[:, :2] = x[:, 2:].flip(1)
    return y, x.roll(1, 0)


# Geometry ------------------------------------------------------------------------------------------------------------------------


@scenario(one(2, 3, 4), one(2, 3, 4))
def every_view_in_place_on_an_input(x):
    x.transpose_(0, 2).unsqueeze_(1).squeeze_(1).swapdims_(1, 2)
    x[0].add_(1)
    x.squeeze_().as_strided_((4, 6), (6, 1))
    x[:, 0].mul_(2)
    return x, x.t()


class BufferTransposedInPlace(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.arange(6.).view(2, 3).clone())

    def forward(self, x):
        v = self.b[0]
        self.b.t_()
        self.b[:, 0].add_(1)
        y = self.b.sum(1) + x
        self.b.t_()
        return y, v


scenario(one(3), one(3))(BufferTransposedInPlace)


@scenario(two(2, 3), twice(2, 3), example=two(2, 3))
def geometry_of_one_changed_while_the_other_is_written(x, y):
    x.t_()
    y.add_(1)
    x[1:].squeeze_(0).mul_(3)
    y[0] = 5
    return x, y, x.sum(), y.sum()


@scenario(lambda: (randn(2, 3), randn(4)), lambda: (randn(2, 3), randn(4)))
def resized_as_another(x, y):
    z = torch.zeros(6)
    z.resize_as_(x).copy_(x)
    y.resize_(2)
    y += z[0, :2]
    return z, y


@scenario(two(3, 4), two(3, 4))
def data_replaced_by_another(x, y):
    z = x * 1
    z.set_(y.detach())
    z.add_(1)
    x.set_(z.t()[1:])
    return z, y, x


@scenario(one(12))
def as_strided_in_place_then_views(x):
    y = x + 0
    y.as_strided_((3, 2), (4, 2), 1)
    y.t()[1].zero_()
    z = y.as_strided((2, 2), (1, 5), 0)
    z.add_(10)
    return y, z


@scenario(one(3, 4))
def detached_views_of_views(x):
    a = x.detach().view(-1)[2:10].view(2, 4)
    b = a.movedim(0, 1).unflatten(0, (2, 2))
    b.select(1, 1).mul_(-1)
    c = b.flatten(1).narrow(1, 0, 2).diagonal()
    c.fill_(8)
    return a, c


@scenario(lambda: (torch.tensor(2.), torch.tensor(3.)), lambda: (lambda t: (t, t))(torch.tensor(2.)), example=lambda: (torch.tensor(2.), torch.tensor(3.)))
def numbers_of_no_dims_written(x, y):
    x.mul_(y).add_(y)
    y.copy_(x.view(1, 1)[0, 0])
    return x.unsqueeze(0), y, y.expand(2)


# Copies across dtypes and overlap -----------------------------------------------------------------------------------------------


@scenario(lambda: (torch.arange(16, dtype=torch.uint8),))
def bytes_copied_to_what_they_are_part_of(x):
    f = x.view(torch.float32)
    f[2:].copy_(x[4:6])
    x[8:].view(torch.int16).copy_(x[:4])
    return x, f.view(torch.int32)[3]


@scenario(slices(20, (0, 12), (4, 12)), slices(30, (0, 12), (12, 12)), example=two(12))
def copied_over_itself_in_two_dtypes(x, y):
    i = y.view(torch.int32)
    x.copy_(i.remainder(7))
    y[::2] = x[1::2]
    return x, i[:3]


@scenario(lambda: (randn(5).double(), randn(5)), lambda: (randn(5).double(), randn(5)))
def out_in_another_dtype_through_views(x, y):
    torch.add(x.float()[1:], y[:-1], out=x[1:])
    torch.mul(y, 2, out=x)
    torch.sum(y.view(1, 5), 1, out=x[:1])
    torch.gt(x, y, out=y)
    return x, y


# Complex numbers -----------------------------------------------------------------------------------------------------------------


@scenario(lambda: (torch.complex(randn(2, 3), randn(2, 3)),))
def parts_of_complex_numbers_written(z):
    z.real[0] = 1
    z.imag.add_(z.real)
    r = torch.view_as_real(z)
    r[:, 1:].mul_(2)
    z.conj()[:, 0].add_(1j)
    return z, r[..., 1], z.conj().imag * 1


@scenario(lambda: (torch.complex(randn(4), randn(4)), torch.complex(randn(4), randn(4))), lambda: (lambda z: (z, z))(torch.complex(randn(4), randn(4))),
          lambda: (lambda z: (z[:4], z[2:]))(torch.complex(randn(6), randn(6))), example=lambda: (torch.complex(randn(4), randn(4)), torch.complex(randn(4), randn(4))))
def complex_arguments_conjugated_and_copied(a, b):
    a.copy_(b.conj())
    b.real.copy_(a.imag)
    a.conj().mul_(2j)
    return a.abs(), b.conj().resolve_conj(), a


@scenario(one(3, 4, 2), one(3, 4, 2))
def reals_turned_as_complex_numbers(x):
    z = torch.view_as_complex(x)
    z.mul_(torch.polar(torch.ones(4), torch.arange(4.)))
    z.t()[0].imag.zero_()
    z[1:].conj().copy_(z[:2].resolve_conj())
    return x.sum(2), z.real


# Nested control flow -------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(4), torch.tensor(3)), lambda: (randn(4), torch.tensor(0)), lambda: (-randn(4).abs(), torch.tensor(5)), **CLOSE)
def branches_inside_a_loop_inside_a_branch(x, n):

    def more(i, h):
        return i < n

    def step(i, h):

        def odd(t):
            u = t.clone()
            u[1:].mul_(0.5)
            return u

        def even(t):
            u = t + 1
            u[:1].sub_(t[-1:])
            return u

        return i + 1, torch.cond(i % 2 == 1, odd, even, (h,))

    def looped(t):
        return while_loop(more, step, (torch.zeros((), dtype=torch.int64), t.clone()))[1]

    y = torch.cond(x.sum() > 0, looped, lambda t: t * 2, (x,))
    x[:2].copy_(y[2:])
    return y, x


@scenario(lambda: (randn(3, 3), torch.tensor(4)), lambda: (randn(3, 3), torch.tensor(0)), lambda: (randn(3, 3), torch.tensor(1)), **CLOSE)
def loop_inside_a_loop_writes_rows(x, n):

    def outer_more(i, a):
        return i < n

    def outer(i, a):

        def inner_more(j, b):
            return j < i

        def inner(j, b):
            c = b.clone()
            c[1] += c[0]
            c.t()[2].mul_(0.5)
            return j + 1, c

        return i + 1, while_loop(inner_more, inner, (torch.zeros((), dtype=torch.int64), a))[1]

    y = while_loop(outer_more, outer, (torch.zeros((), dtype=torch.int64), x))[1]
    x.add_(y)
    return y, x[1]


@scenario(lambda: (randn(4), randn(4), torch.tensor(True)), lambda: (lambda t: (t, t, torch.tensor(False)))(randn(4)),
          lambda: (lambda t: (t[:4], t[1:], torch.tensor(True)))(randn(5)), example=lambda: (randn(4), randn(4), torch.tensor(True)))
def branch_on_arguments_written_around_it(a, b, c):
    a.add_(1)
    y = torch.cond(c, lambda s, t: (s + t, s * t), lambda s, t: (s - t, t.clone()), (a, b))
    b.mul_(y[0])
    y[1][0] = a[0]
    return y[1], a, b


@scenario(lambda: (randn(6), 3, True), lambda: (randn(6), 0, True), lambda: (randn(6), 4, False), script=True)
def script_views_and_branches_nested(x: torch.Tensor, n: int, up: bool):
    v = x
    for i in range(n):
        if up:
            v = v[1:]
            if i % 2 == 0:
                v.add_(1)
            else:
                v = v.clone()
        else:
            v[i].mul_(2)
            x[i + 1] = v[i]
    v.sub_(1)
    return v, x


@scenario(lambda: (randn(3, 4), randn(3, 4), 2), lambda: (randn(3, 4), randn(3, 4), 0), lambda: (randn(3, 4), randn(3, 4), 5), script=True)
def script_two_carried_views_exchanged(x: torch.Tensor, y: torch.Tensor, n: int):
    a = x[0]
    b = y[:, 0][:3]
    s = torch.zeros(3)
    for i in range(n):
        s = s + b
        a[:3].add_(b)
        if i == 1:
            a = y[1]
        b = x[:, i % 4]
    return a, b, s


@scenario(lambda: (randn(8),), lambda: (torch.ones(8) * 4,), script=True)
def script_while_halves_until_small(x: torch.Tensor):
    steps = 0
    y = x
    while bool(y.abs().max() > 0.5) and steps < 6:
        y.mul_(0.5)
        if steps == 2:
            y = y * 1
        steps += 1
    return y, x, steps


# Containers ------------------------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@scenario(lambda: ([randn(3), randn(3)], {"k": randn(3), "l": (randn(3), 2.5)}), lambda: (lambda t: ([t, t], {"k": t[:], "l": (randn(3), 2.5)}))(randn(3)),
          lambda: (lambda t: ([t[:3], t[2:5]], {"k": t[5:], "l": (t[1:4], 2.5)}))(randn(8)),
          example=lambda: ([randn(3), randn(3)], {"k": randn(3), "l": (randn(3), 2.5)}))
def containers_of_arguments_written(xs, d):
    for x in xs:
        x.add_(d["l"][1])
    d["k"].mul_(xs[0])
    t, f = d["l"]
    t[1:] = d["k"][:-1]
    return {"sum": xs[0] + xs[1], "same": xs[1], "deep": [(t, d["k"][1:]), xs]}


@scenario(one(4, 4), one(4, 4))
def results_that_are_views_of_each_other(x):
    y = x * 2
    z = y[1:3]
    w = z.t()
    z.add_(1)
    return [y, (z, {"w": w, "y": y}), w[0], x[0], (x, x.view(16))]


@scenario(two(4), twice(4), slices(7, (0, 4), (3, 4)), example=two(4))
def results_that_are_arguments_in_any_order(x, y):
    y.mul_(2)
    return y, x, y, x[1:], y.view(2, 2), x.detach()


@scenario(lambda: (randn(3), None, 3, randn(3), True), lambda: (lambda t: (t, None, 3, t, True))(randn(3)), example=lambda: (randn(3), None, 3, randn(3), True))
def arguments_of_every_kind(x, nothing, n, unused, flag):
    x.mul_(n)
    return x if flag else None, nothing, n + 1


# Dynamic sizes -----------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(6, 3), randn(6)), lambda: (lambda t: (over(0, (5, 3), (3, 1), t), over(3, (5,), (3,), t)))(randn(20)),
          lambda: (lambda t: (over(0, (8, 3), (4, 1), t), over(3, (8,), (4,), t)))(randn(40)), example=lambda: (randn(5, 3), randn(5)),
          dynamic_shapes=({0: ROWS}, {0: ROWS}))
def dynamic_matrix_and_its_column(m, c):
    m[:, 1] = c
    c.add_(m[:, 2])
    m[1:].sub_(m[:-1].clone())
    return c, m.sum(1)


@scenario(slices(10, (0, 6), (2, 8)), slices(20, (0, 5), (5, 7)), slices(20, (3, 9), (0, 4)), example=lambda: (randn(5), randn(7)),
          dynamic_shapes=({0: Dim("a", min=3, max=50)}, {0: Dim("b", min=3, max=50)}))
def dynamic_slices_of_different_lengths(a, b):
    a.add_(b.sum())
    b[:2] = a[-2:]
    b.mul_(2)
    return a[1:], b.max()


# Elementwise operators in place of all kinds --------------------------------------------------------------------------------------------


@scenario(lambda: (torch.tensor([12, 18, -8, 7]), torch.tensor([8, 27, 12, 0])), lambda: (lambda t: (t, t))(torch.tensor([12, 18, -8, 7])),
          example=lambda: (torch.tensor([12, 18, -8, 7]), torch.tensor([8, 27, 12, 0])))
def integers_with_common_divisors(x, y):
    x.gcd_(y)
    y.lcm_(x + 1)
    x.bitwise_or_(y).bitwise_and_(63).bitwise_left_shift_(1).floor_divide_(3)
    return x % 5, y.neg_()


@scenario(one(5), one(5), **CLOSE)
def functions_into_given_tensors(x):
    y = torch.empty(5)
    torch.logcumsumexp(x, 0, out=y)
    torch.logspace(0, 1, 5, out=x)
    torch.linspace(-1, 1, 5, out=y[:5])
    torch.logaddexp(x, y, out=x)
    torch.addcmul(x, y, y, value=-0.5, out=y)
    torch.polar(x, y, out=(z := torch.empty(5, dtype=torch.complex64)))
    return y, z


@scenario(one(3, 1), one(3, 1))
def written_broadcast_and_expanded(x):
    y = x.expand(3, 4).clone()
    y += x
    y.sub_(torch.arange(4.)).mul_(x[0])
    x.add_(y[:, :1])
    y[:, 1:] = x
    return y, x.expand(3, 2)


@scenario(lambda: (torch.arange(12, dtype=torch.float64).view(3, 4), torch.tensor([True, False, True])))
def rows_by_mask_and_where_written(x, m):
    x[m] = x[~m] * 2
    x[~m, 1:3] += 100
    torch.where(m.view(3, 1), x, -x, out=x)
    x[x > 50] = 0
    return x[m], x
