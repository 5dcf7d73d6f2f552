"""Scenarios for make_scenarios.py: what someone would write who knows where PyTorch's own functionalization goes wrong."""

from typing import List

import torch
from torch import nn
from torch.export import Dim

from scenario_kit import boxes, one, over, randn, scenario, slices, twice, two

ROWS = Dim("n", min=4, max=64)

# An operand that lies partly in what is written: the order of PyTorch's loops shows ------------------------------------------


@scenario(one(6, 8))
def rows_filled_with_their_first_element(x):
    x[:, 1:] = x[:, :-1]
    return x.sum(1)


@scenario(one(6, 8))
def rows_moved_to_the_left(x):
    x[:, :-1] = x[:, 1:]
    return x.sum(1)


@scenario(one(6, 24))
def long_rows_moved_to_the_left(x):
    x[:, :-3] = x[:, 3:]
    x[:, -3:] = 0
    return x * 1


@scenario(one(4, 6))
def first_column_added_to_all(x):
    x.add_(x[:, :1])
    return x.sum()


@scenario(one(5, 7))
def multiplied_by_its_own_transpose(x):
    x[:, :5].mul_(x[:, :5].t())
    return x[2] + 1


@scenario(one(30))
def every_second_added_to_its_neighbours(x):
    x[::2].add_(x[:15])
    return x[1:] - x[:-1]


@scenario(one(3, 9))
def running_product_by_shifted_writes(x):
    x[:, 1:].mul_(x[:, :-1])
    return x * 1


@scenario(one(4, 4), one(4, 4))
def upper_copied_from_lower_and_back(x):
    a = x[:3, :3]
    a.copy_(x[:3, 1:])
    x[1:, 1:].sub_(a)
    return x.sum(0)


@scenario(boxes(60, (1, (5, 7), (9, 1)), (0, (5, 7), (9, 1))), boxes(60, (0, (5, 7), (9, 1)), (1, (5, 7), (9, 1))),
          boxes(90, (0, (5, 7), (9, 1)), (45, (5, 7), (9, 1))), example=two(5, 7))
def argument_copied_to_the_next_column(a, b):
    a.copy_(b)
    return a + b


@scenario(boxes(40, (0, (4, 4), (8, 1)), (0, (4, 4), (1, 8))), boxes(40, (0, (4, 4), (8, 1)), (4, (4, 4), (8, 1))), example=two(4, 4))
def argument_added_to_its_transpose(a, b):
    a.add_(b, alpha=2)
    b.mul_(0.5)
    return a - b


@scenario(one(12))
def windows_that_overlap_counted(x):
    x.unfold(0, 4, 2).add_(1)
    return x * 2


@scenario(one(10))
def windows_that_overlap_scaled_after_a_copy(x):
    y = x.clone()
    y.unfold(0, 3, 1).mul_(2)
    return y, x


@scenario(one(4, 6))
def windows_of_rows_assigned(x):
    y = x * 1
    y.unfold(1, 3, 1).copy_(torch.arange(48.).view(4, 4, 3))
    return y


@scenario(one(20))
def as_strided_that_laps_itself(x):
    x.as_strided((4, 4), (2, 3)).mul_(3)
    return x * 1


# out= and in place on operands that are the result --------------------------------------------------------------------------


@scenario(one(4, 4))
def sorted_into_itself(x):
    i = torch.empty(4, 4, dtype=torch.int64)
    torch.sort(x, 1, out=(x, i))
    return i, x[0]


@scenario(one(4, 6))
def summed_up_into_itself(x):
    torch.cumsum(x, 1, out=x)
    torch.cumprod(x[:2], 0, out=x[:2])
    return x.sum()


@scenario(two(3, 4))
def given_result_of_the_wrong_shape(x, out):
    torch.add(x, 1, out=out)
    small = torch.empty(0)
    torch.mul(x, out, out=small)
    return out.sum(0), small


@scenario(lambda: (randn(3, 4), torch.zeros(3, 4, dtype=torch.float64)))
def given_result_of_a_wider_dtype(x, out):
    torch.mul(x, 2, out=out)
    torch.add(x, out, out=out)
    return out.sum()


@scenario(two(4, 4))
def product_into_a_third(x, y):
    z = torch.zeros(4, 4)
    torch.mm(x, y, out=z)
    torch.addmm(z, x, y, out=z)
    return z


@scenario(two(6))
def extremes_into_given_results(x, out):
    torch.maximum(x, out, out=out)
    torch.clamp(out, -0.5, 0.5, out=out)
    torch.where(x > 0, x, out, out=out)
    return out * 1


# Geometry and storage -----------------------------------------------------------------------------------------------------


@scenario(two(4, 3), example=two(4, 3))
def exchanged_storages_then_resized(x, y):
    x.set_(y)
    x.mul_(2)
    y.t_()
    return x[0], y.sum(0)


@scenario(one(2, 3))
def storage_grown_under_a_view(x):
    y = x.clone()
    v = y.view(6)
    y.resize_(4, 3)
    y[2:] = 7
    v.add_(1)
    return v, y


@scenario(one(12))
def shrunk_and_grown_again(x):
    y = x * 1
    y.resize_(4)
    y.mul_(2)
    y.resize_(2, 6)
    return y


@scenario(one(4, 4))
def view_of_a_view_resized_in_place(x):
    v = x[1:3]
    v.squeeze_().unsqueeze_(0)
    v.transpose_(1, 2)
    v.add_(1)
    return v


@scenario(one(3, 4), one(3, 4))
def argument_transposed_after_its_view(x):
    v = x[1]
    x.t_()
    v.zero_()
    x[0].add_(5)
    return v, x[:, 1:]


@scenario(one(2, 3, 4))
def dims_moved_and_swapped_in_place(x):
    y = x.swapaxes_(0, 2)
    y.select(0, 1).mul_(2)
    x.swapdims_(0, 1)
    return y, x.sum(0)


# Other dtypes over the same bytes -----------------------------------------------------------------------------------------


@scenario(lambda: (torch.arange(8, dtype=torch.float32),))
def sign_bits_flipped_as_integers(x):
    x.view(torch.int32).bitwise_xor_(-2**31)
    return x * 1


@scenario(lambda: (torch.arange(6, dtype=torch.int64),))
def halves_of_integers_written(x):
    h = x.view(torch.int32)
    h[::2] = 3
    h[1::4].add_(1)
    return x, h.view(6, 2)[:, 0]


@scenario(lambda: (randn(4).to(torch.float64),))
def doubles_written_as_bytes(x):
    x.view(torch.uint8).view(4, 8)[:, 7].bitwise_and_(0x7f)
    return x


@scenario(lambda: (torch.complex(randn(3, 2), randn(3, 2)),))
def real_part_written_through_a_conjugate(z):
    c = z.conj()
    c.imag.mul_(2)
    torch.view_as_real(z)[..., 0].add_(1)
    return c.resolve_conj(), z.real


@scenario(lambda: (torch.complex(randn(4), randn(4)),))
def conjugate_and_negative_written_in_part(z):
    z.conj()[1:3].mul_(1j)
    z.conj().imag.neg_()
    return z * 1


@scenario(lambda: (torch.complex(randn(2, 3), randn(2, 3)),))
def complex_transposed_and_assigned(z):
    z.mH.copy_(torch.ones(3, 2, dtype=torch.complex64) * (1 + 2j))
    z.t()[0].real.zero_()
    return z, z.abs()


@scenario(one(4, 2))
def reals_as_complex_multiplied(x):
    z = torch.view_as_complex(x)
    z.mul_(1j)
    z[1:].conj_physical_()
    return z.real, x


# Indexing with repetition ---------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(5, 3), torch.tensor([0, 2, 0, 0])))
def repeated_rows_accumulate(x, i):
    x.index_put_((i,), torch.ones(4, 3), accumulate=True)
    x.t()[1].index_add_(0, i, torch.arange(4.), alpha=2)
    return x.sum(1)


@scenario(lambda: (randn(6), torch.tensor([5, 1, 5, -1])))
def repeated_positions_put(x, i):
    y = x * 1
    y.put_(i.remainder(6), torch.arange(4.), accumulate=True)
    y.index_fill_(0, i[1:2], 9.)
    return y


@scenario(lambda: (randn(4, 5), randn(4, 5) > 0))
def masked_part_of_a_view_written(x, m):
    x[1:][m[1:]] = 3.
    x.t().masked_fill_(m.t(), -1)
    x[:, 2:].masked_scatter_(m[:, 2:], torch.arange(20.))
    return x.sum()


@scenario(lambda: (randn(4, 5), torch.tensor([True, False, True, False, True])))
def masked_columns_scaled(x, mask):
    x[:, mask] *= 2
    x[:, ~mask] = x[:, mask][:, :2]
    return x * 1


@scenario(lambda: (randn(3, 4), torch.tensor([[0, 1, 0, 2], [2, 2, 1, 0]])))
def scattered_and_reduced_on_a_transpose(x, i):
    x.scatter_add_(0, i, torch.ones(2, 4))
    x.t().scatter_(1, i.t()[:, :1], 5.)
    x.scatter_reduce_(0, i, torch.full((2, 4), 2.), "amax")
    return x


@scenario(lambda: (randn(4, 4), torch.tensor([3, 1])))
def assigned_by_index_then_by_slice(x, i):
    x[i, 1:3] = x[0, 1:3]
    x[..., i] += 1
    x[i, i] = 0
    return x[i]


# Lists -------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(4, 8),))
def foreach_over_columns_that_overlap(x):
    torch._foreach_add_([x[:, :4], x[:, 2:6]], [x[:, 2:6], x[:, :4]])
    torch._foreach_mul_([x[0], x[1:]], 2)
    return x * 1


@scenario(two(3, 3), twice(3, 3), example=two(3, 3))
def foreach_over_one_tensor_twice(x, y):
    torch._foreach_mul_([x, y, x[0]], 2)
    torch._foreach_addcmul_([x, y], [y, x], [x, y], value=0.5)
    return torch._foreach_norm([x, y])


@scenario(two(6), two(6))
def foreach_lerp_clamp_and_copy(x, y):
    torch._foreach_lerp_([x, y], [y, x], 0.25)
    torch._foreach_clamp_min_([x[:3], y[3:]], 0)
    torch._foreach_copy_([x[3:]], [y[:3]])
    torch._foreach_zero_([y[:2]])
    return x + y


@scenario(lambda: (lambda p: (p[:4], p[2:6], p))(randn(8)), lambda: (lambda p: (p[4:], p[:4], p))(randn(8)),
          example=lambda: (randn(4), randn(4), randn(8)))
def splits_chunks_and_the_whole(a, b, whole):
    for part in whole.chunk(2):
        part.add_(1)
    for part in whole.split([1, 3, 4]):
        part.mul_(2)
    a.sub_(b.sum())
    return a, whole.sum()


@scenario(lambda: (randn(3, 5), randn(5), randn(3)))
def copies_of_views_into_given_tensors(x, row, diagonal):
    row.copy_(torch.select_copy(x, 0, 2))
    torch.diag(x, out=diagonal)
    t = torch.transpose_copy(x, 0, 1)
    x.zero_()
    return t, row * 1


@scenario(two(4), twice(4), example=two(4))
def foreach_extremes_and_quotients(x, y):
    torch._foreach_maximum_([x], [y])
    torch._foreach_minimum_([x[:2], y], 0.5)
    torch._foreach_div_([y], 2.)
    return x + y


# Edge sizes --------------------------------------------------------------------------------------------------------------


@scenario(lambda: (torch.tensor(3.), torch.empty(0, 4)))
def no_dims_and_no_elements_written(x, e):
    x.add_(1).mul_(x)
    e.add_(1).mul_(e)
    e[:, 1:3].zero_()
    e.t_()
    return x * 1, e.sum(1)


@scenario(lambda: (torch.tensor(2), torch.tensor([1, 2, 3])))
def integer_of_no_dims_written_through_views(x, y):
    x.view(1)[0] = 7
    x.unsqueeze(0).expand(3)
    y.mul_(x)
    y[x // 4].fill_(x)
    return x, y


@scenario(one(1, 5, 1))
def dims_of_one_squeezed_and_written(x):
    v = x.squeeze()
    v[2:].neg_()
    x.squeeze(0).t().add_(v)
    return v.unsqueeze(0), x.view(5)


@scenario(one(0), one(0))
def nothing_at_all(x):
    x.add_(1)
    y = x.view(0, 3)
    y.mul_(2)
    return y, x


@scenario(one(3))
def refused_write_after_expand(x):
    y = x * 2
    x.add_(1)
    y.expand(2, 3).add_(1)
    return x, y


@scenario(one(3), one(3))
def refused_view_of_wrong_size(x):
    x.mul_(2)
    return x + torch.ones(2, 3).expand(4, 2, 3)[1].add_(x).sum()


# The same memory returned in many ways ------------------------------------------------------------------------------------


@scenario(one(3, 4), one(3, 4))
def views_of_views_handed_out(x):
    a = x[1:]
    b = a.t()
    c = b[1:3]
    d = c.unsqueeze(0).detach()
    c.add_(1)
    return d, b, x, a[0, 1], x.view(-1)[3:9:2]


@scenario(one(2, 6))
def fresh_tensor_handed_out_in_pieces(x):
    y = x.exp()
    a, b, c = y.chunk(3, 1)
    b.zero_()
    y.t_()
    return a, c, y, b.t(), y[1:2]


@scenario(two(4), twice(4), slices(6, (0, 4), (2, 4)), example=two(4))
def handed_out_before_and_after(x, y):
    r = x.view(2, 2)
    x.add_(y)
    s = y[1:]
    y.mul_(2)
    return r, s, x, y, r[0], s[:1]


@scenario(lambda: (lambda p: (p, p, p))(randn(4)), lambda: (randn(4), randn(4), randn(4)), lambda: (lambda p: (p[:4], p[4:], p[2:6]))(randn(8)),
          example=lambda: (randn(4), randn(4), randn(4)))
def one_tensor_three_times(a, b, c):
    a.add_(1)
    b.mul_(2)
    c.sub_(a)
    return a, b, c, a + b + c


@scenario(twice(3, 3), two(3, 3), example=two(3, 3))
def transposed_and_read_through_the_other(a, b):
    a.t_()
    b[0].add_(10)
    return a[:, 0], b * 1


# State -----------------------------------------------------------------------------------------------------------------------


class TiedParametersInOneStorage(nn.Module):

    def __init__(self):
        super().__init__()
        base = randn(12)
        self.a = nn.Parameter(base[:8].view(2, 4))
        self.register_buffer("b", base[4:])
        self.register_buffer("c", self.b)

    def forward(self, x):
        self.b.add_(x)
        self.a[0].mul_(2)
        self.c[:2] = 0
        return self.a.sum(0), self.b, self.c[1:]


scenario(one(8), one(8))(TiedParametersInOneStorage)


class CacheWrittenAtPositions(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 6, 3))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, k):
        self.cache.index_copy_(1, self.at.view(1), k)
        self.at.add_(1)
        seen = torch.arange(6) < self.at
        return (self.cache * seen.view(1, 6, 1)).sum(1), self.cache[:, :1]


scenario(one(2, 1, 3), one(2, 1, 3), one(2, 1, 3))(CacheWrittenAtPositions)


class RingThatShifts(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.arange(6.))

    def forward(self, x):
        self.ring[:-1] = self.ring[1:].clone()
        self.ring[-1] = x.sum()
        return self.ring.flip(0), self.ring


scenario(one(3), one(2 + 1))(RingThatShifts)


class MomentsOfWelford(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("m2", torch.zeros(3))

    def forward(self, x):
        self.count += 1
        d = x - self.mean
        self.mean += d / self.count
        self.m2 += d * (x - self.mean)
        return self.m2 / self.count, self.mean


scenario(one(3), one(3), one(3))(MomentsOfWelford)


class StateGrowsByAssignment(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(2, 3))
        self.register_buffer("last", torch.zeros(2, 3))

    def forward(self, x):
        before = self.h * 1
        self.h = torch.tanh(before + x)
        self.last = before
        before.add_(1)
        return self.last, self.h


scenario(one(2, 3), one(2, 3))(StateGrowsByAssignment)


class TwoNormsOfOneInput(nn.Module):

    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3, momentum=0.5)
        self.again = self.bn
        self.other = nn.BatchNorm1d(3, momentum=0.25)

    def forward(self, x):
        y = self.again(self.bn(x))
        return self.other(y), self.bn.running_mean, self.other.num_batches_tracked


scenario(one(4, 3), one(4, 3), train=True, rtol=1e-5, atol=1e-5)(TwoNormsOfOneInput)


class EmaOfParameters(nn.Module):

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)
        self.register_buffer("ema", self.lin.weight.detach().clone())

    def forward(self, x):
        y = self.lin(x)
        self.ema.lerp_(self.lin.weight, 0.1)
        self.lin.weight.sub_(0.01 * torch.outer(y.sum(0), x.sum(0)))
        return y, self.ema.t()


scenario(one(4, 3), one(4, 3))(EmaOfParameters)

class AssignedAfterItsOldTensorWasKept(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.zeros(4))

    def forward(self, x):
        self.b.copy_(x)
        y = self.b
        self.b = self.b * 3
        y.add_(1)
        return y, self.b


scenario(one(4), one(4))(AssignedAfterItsOldTensorWasKept)

# Control flow ---------------------------------------------------------------------------------------------------------------


class BufferWrittenAroundALoop(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x, n):

        def more(i, h):
            return i < n

        def step(i, h):
            return i + 1, torch.cond(h.sum() > 0, lambda t: t * 0.5, lambda t: t + 1., (h,))

        i, h = torch._higher_order_ops.while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))
        self.steps.add_(i)
        x.copy_(h)
        return h, self.steps * 1


scenario(lambda: (randn(3), torch.tensor(3)), lambda: (randn(3), torch.tensor(0)))(BufferWrittenAroundALoop)


@scenario(lambda: (randn(3, 3) * 0.4, torch.tensor(4)), lambda: (randn(3, 3), torch.tensor(1)), lambda: (randn(3, 3), torch.tensor(0)))
def products_carried_by_a_loop(w, n):

    def more(i, x, y):
        return i < n

    def step(i, x, y):
        return i + 1, x @ w, y + x

    i, x, y = torch._higher_order_ops.while_loop(more, step,
                                                 (torch.zeros((), dtype=torch.int64), torch.eye(3), torch.zeros(3, 3)))
    w.add_(x)
    return x, y, w[0]


@scenario(lambda: (randn(4), torch.tensor(True)), lambda: (randn(4), torch.tensor(False)))
def branch_then_views_written(x, c):
    y = torch.cond(c, lambda t: t + 1, lambda t: t * 2, (x,))
    y[1:].mul_(x[:-1])
    x[0] = y.sum()
    return y, x[::2]


@scenario(lambda: (randn(3, 4), 2, True), lambda: (randn(3, 4), 0, False), lambda: (randn(3, 4), 3, False), script=True)
def script_rows_written_by_a_branch_in_a_loop(x: torch.Tensor, n: int, up: bool):
    for i in range(n):
        if up:
            x[i].add_(1)
        else:
            x[:, i] = x[i, 0]
    return x.sum(), x[0]


@scenario(lambda: (randn(5), randn(5), 3), lambda: (randn(5), randn(5), 0), script=True)
def script_views_swapped_and_written(x: torch.Tensor, y: torch.Tensor, n: int):
    a = x[1:]
    b = y[:-1]
    for i in range(n):
        a, b = b, a
        a.add_(1)
    a.mul_(2)
    return a, b, x


@scenario(one(6), script=True)
def script_while_shrinks_a_view(x: torch.Tensor):
    v = x
    while v.size(0) > 2:
        v = v[1:]
        v.mul_(-1)
    return v, x


@scenario(lambda: (randn(4), True), lambda: (randn(4), False), script=True)
def script_branch_hands_out_its_argument(x: torch.Tensor, c: bool):
    if c:
        y = x
    else:
        y = x + 1
    y.add_(1)
    return y, x


@scenario(two(3), script=True)
def script_list_of_views_written(x: torch.Tensor, y: torch.Tensor):
    parts: List[torch.Tensor] = [x, y, x[1:]]
    for p in parts:
        p.mul_(2)
    parts[0][0] = 9.0
    return torch.cat(parts), parts[1]


# Sizes that are not fixed ----------------------------------------------------------------------------------------------------


@scenario(one(6, 4), one(9, 4), one(4, 4), example=one(5, 4), dynamic_shapes={"x": {0: ROWS}})
def dynamic_rows_shifted(x):
    x[:-1] = x[1:].clone()
    x[:, 0] = x[:, 3]
    x[-1].zero_()
    return x[::2], x.t()


@scenario(one(6, 4), one(8, 4), example=one(5, 4), dynamic_shapes={"x": {0: ROWS}})
def dynamic_columns_moved_to_the_left(x):
    x[:, :-1] = x[:, 1:]
    return x.sum(0)


@scenario(one(6, 4), one(8, 4), example=one(5, 4), dynamic_shapes={"x": {0: ROWS}})
def dynamic_columns_filled_from_the_left(x):
    x[:, 1:] = x[:, :-1]
    return x.sum(0)


@scenario(two(6), twice(8), slices(12, (0, 8), (4, 8)), slices(9, (0, 8), (1, 8)), example=two(5), dynamic_shapes=({0: ROWS}, {0: ROWS}))
def dynamic_arguments_that_overlap(x, y):
    x[2:].mul_(y[2:].sum())
    y[:2] = x[-2:].clone()
    return x + y, y[1:3]


@scenario(lambda: (randn(5, 3), torch.tensor(2)), lambda: (randn(7, 3), torch.tensor(0)), example=lambda: (randn(4, 3), torch.tensor(1)),
          dynamic_shapes=({0: ROWS}, None))
def dynamic_row_at_a_position(x, i):
    x.index_fill_(0, i, 1.)
    x.select(1, 1).sub_(x[:, 0])
    y = x.new_zeros(x.shape[0] * 2, 3)
    y[:x.shape[0]] = x
    y[x.shape[0]:].add_(x.flip(0))
    return y, x


# Autograd's marks, dropout, dtypes --------------------------------------------------------------------------------------------


@scenario(one(3, 4))
def written_without_gradients(x):
    with torch.no_grad():
        x.requires_grad_(False)
        y = x.detach()
        y.clamp_(0)
        z = y.detach()
        z[0].fill_(2)
    return x.detach_().sum(), y


@scenario(lambda: (torch.tensor([100, -100, 50], dtype=torch.int8), torch.tensor([100, 100, 100], dtype=torch.int8)))
def small_integers_wrap_in_place(x, y):
    x.add_(y)
    x[1:].mul_(3)
    y.floor_divide_(7).bitwise_left_shift_(2)
    return x, y.neg_()


@scenario(lambda: (randn(6).to(torch.bfloat16), randn(6)))
def brains_floats_take_a_wider_operand(x, y):
    x.add_(y).mul_(1 / 3)
    y.copy_(x)
    x[::2] = y[1::2]
    return x.float(), y


@scenario(lambda: (torch.tensor([True, False, True]), torch.tensor([1, 0, 3])))
def booleans_written(x, y):
    x.logical_and_(y)
    x ^= True
    y[x] = -1
    x |= y > 0
    return x, y


@scenario(lambda: (randn(2, 3, 4, 4).to(memory_format=torch.channels_last),))
def channels_last_written_in_part(x):
    x[:, 1].mul_(2)
    y = x.relu_()
    y[..., 0] = y.mean(3)
    z = y.contiguous()
    z.add_(1)
    return y, z, x.view(2, -1, 2) if x.is_contiguous() else x.sum()


@scenario(lambda: (torch.tensor([5., 6., 7., 8.]), torch.tensor([1., 2., 3., 4.])))
def a_scan_that_keeps_views_of_what_it_writes(x, y):

    def step(h, row):
        h.add_(row[0])
        return h + 0, h[:2]

    return torch.ops.higher_order.scan(step, (x,), (y.view(2, 2),), ()), x


@scenario(lambda: (randn(3, 3),), script=True)
def a_slice_compared_in_a_loop(x):
    s = x[0].clone()
    for t in range(1, 3):
        s = (x[:, t - 1:t] > 0).float().view(-1)
    return s
