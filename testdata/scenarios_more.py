"""Scenarios for make_scenarios.py: calls that the export did not foresee, control flow, and operators on lists."""

from typing import List

import torch
from torch.nn import functional as F

from scenario_kit import boxes, one, over, randn, scenario, slices, twice, two

# Strides and sharing that the export did not see: the layout of the arguments decides what is a view ------------------


@scenario(two(4, 6), boxes(60, (0, (4, 6), (10, 1)), (3, (4, 6), (10, 1))), boxes(24, (0, (4, 6), (1, 4)), (0, (4, 6), (1, 4))),
          example=two(4, 6))
def reshape_of_a_written_argument(x, y):
    flat = x.reshape(24)
    flat.add_(1)
    y.mul_(2)
    return flat, x.reshape(6, 4)


@scenario(two(4, 6), boxes(48, (0, (4, 6), (6, 1)), (12, (4, 6), (6, 1))), example=two(4, 6))
def view_of_overlapping_arguments(x, y):
    x.view(-1)[3:9].fill_(0.5)
    y.view(6, 4)[1].mul_(3)
    return x.view(2, 12), y.flatten()


@scenario(two(3, 4), lambda: (lambda p: (p[:, :4], p[:, 2:6]))(randn(3, 8)), lambda: (lambda p: (p[:, ::2], p[:, 1::2]))(randn(3, 8)),
          example=two(3, 4))
def columns_of_one_matrix(x, y):
    x.add_(1)
    y.mul_(x + 0)
    return x.sum(0), y + x


@scenario(two(3, 4), lambda: (randn(4, 3).t(), randn(4, 3).t()), lambda: (lambda p: (p, p))(randn(4, 3).t()), example=two(3, 4))
def results_take_the_strides_of_the_arguments(x, y):
    x.mul_(2)
    return x + y, x.clone(), torch.empty_like(y).copy_(y), torch.zeros_like(x)


@scenario(two(2, 3, 4), lambda: (lambda p: (p[:, :, :4], p[:, :, 3:7]))(randn(2, 3, 8)), example=two(2, 3, 4))
def flatten_of_parts_of_one_tensor(x, y):
    a, b = x.flatten(1), y.flatten(0, 1)
    a.add_(1)
    b[0].zero_()
    return a, b, x + y


@scenario(lambda: (randn(4), randn(4), randn(4), randn(4)), lambda: (lambda p: (p, p, p, p))(randn(4)),
          lambda: (lambda p, q: (p, q, q, p))(randn(4), randn(4)), lambda: (lambda p: (p[:4], p[1:5], p[2:6], p[3:7]))(randn(8)),
          example=lambda: (randn(4), randn(4), randn(4), randn(4)))
def four_written_in_turn(a, b, c, d):
    a.add_(1)
    b.mul_(2)
    c.sub_(a + 0)
    d.copy_(b + c)
    return a + b, c + d


@scenario(lambda: tuple(randn(3) for _ in range(6)), lambda: (lambda p, q: (p, q, p, q, p, randn(3)))(randn(3), randn(3)),
          lambda: (lambda p: tuple(p[k:k + 3] for k in range(6)))(randn(8)), example=lambda: tuple(randn(3) for _ in range(6)))
def six_that_may_all_be_one(a, b, c, d, e, f):
    a += 1
    b += a + 0
    c *= 2
    d -= c + 0
    e += d + 0
    f *= e + 0
    return a, f, b + c


@scenario(two(4, 4), twice(4, 4), lambda: (lambda p: (p, p.t()))(randn(4, 4)), lambda: (lambda p: (p.t(), p.t()))(randn(4, 4)),
          example=two(4, 4))
def transposed_in_place_and_written(a, b):
    a.t_()
    a[0].add_(1)
    b[1].mul_(2)
    return a + b


@scenario(two(3, 4), twice(3, 4), example=two(3, 4))
def duplicate_takes_another_shape(a, b):
    a.t_()
    a.mul_(2)
    return b.sum(0), b * 1


@scenario(two(8), twice(8), slices(16, (0, 8), (4, 8)), example=two(8))
def resized_smaller_then_the_other_written(a, b):
    a.resize_(4)
    a.add_(1)
    b.mul_(2)
    return a.sum() + b.sum()


@scenario(two(6), twice(6), slices(9, (0, 6), (3, 6)), example=two(6))
def set_to_the_other_then_written(a, b):
    a.set_(b)
    a.add_(1)
    return a * 2, b


@scenario(two(6), slices(9, (0, 6), (3, 6)), slices(9, (3, 6), (0, 6)), example=two(6))
def swap_through_a_temporary(x, y):
    t = x.clone()
    x.copy_(y + 0)
    y.copy_(t)
    return t


@scenario(lambda: (randn(3, 4), torch.tensor([2, 0])), lambda: (lambda p: (p, torch.tensor([1, 1])))(randn(4, 3).t()),
          example=lambda: (randn(3, 4), torch.tensor([2, 0])))
def rows_chosen_by_data_written(x, index):
    x[index] = x[index] + 1
    return x.t()


@scenario(lambda: (randn(5), torch.tensor([4, 1, 0, 2, 3])), lambda: (lambda p: (p.view(torch.float32)[:5], p))(torch.arange(5)),
          example=lambda: (randn(5), torch.tensor([4, 1, 0, 2, 3])))
def the_index_lies_in_what_is_written(x, index):
    y = x * 1
    x.add_(0)
    return y.index_select(0, index)


@scenario(lambda: (randn(4, dtype=torch.float64), randn(8)), lambda: (lambda p: (p, p.view(torch.float32)))(randn(4, dtype=torch.float64)),
          example=lambda: (randn(4, dtype=torch.float64), randn(8)))
def two_dtypes_in_one_storage(a, b):
    a.mul_(2)
    b[1:3].zero_()
    return a + 0, b + 0


@scenario(lambda: (torch.complex(randn(4), randn(4)), randn(4, 2)),
          lambda: (lambda c: (c, torch.view_as_real(c)))(torch.complex(randn(4), randn(4))),
          example=lambda: (torch.complex(randn(4), randn(4)), randn(4, 2)))
def complex_and_its_parts(c, r):
    torch.view_as_real(c)[:, 0].add_(1)
    r[:, 1].mul_(2)
    return torch.view_as_real(c) + r


@scenario(lambda: (randn(2, 3), randn(3)), lambda: (lambda p: (p.expand(2, 3), p))(randn(3)), example=lambda: (randn(2, 3), randn(3)))
def read_through_an_expanded_argument(wide, row):
    row.add_(1)
    return wide * 2


@scenario(lambda: (randn(10), randn(5, 4)), lambda: (lambda p: (p[:10], over(0, (5, 4), (2, 1), p)))(randn(12)),
          example=lambda: (randn(10), randn(5, 4)))
def read_through_overlapping_windows(flat, windows):
    flat.mul_(2)
    return windows.sum(1)


@scenario(two(3, 0), twice(3, 0), example=two(3, 0))
def empty_duplicates(a, b):
    a.add_(1)
    b.t_()
    return a


@scenario(two(4, 6))
def copied_before_it_is_zeroed(a, b):
    b.relu_()
    a.copy_(b + 0)
    b.zero_()
    return a


@scenario(two(4, 6), lambda: (lambda p: (p, p))(randn(6, 4).t()), example=two(4, 6))
def row_of_a_copy_lies_as_in_the_copy(a, b):
    b.mul_(2)
    return a.clone().unbind(0)[1]


@scenario(lambda: (torch.tensor(2.0), torch.tensor(3.0)), lambda: (lambda p: (p, p))(torch.tensor(2.0)),
          lambda: (lambda p: (p[1], p[1]))(randn(3)), example=lambda: (torch.tensor(2.0), torch.tensor(3.0)))
def scalars_of_no_dims(a, b):
    a.add_(1)
    b.mul_(a)
    return a * b


# States that share memory with arguments --------------------------------------------------------------------------------


class state_written_through_the_argument(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(4.0))

    def forward(self, x):
        x.mul_(2)
        self.state.add_(1)
        return self.state


scenario(one(4), lambda earlier: (earlier[0][1][0],), earlier=True, example=one(4))(state_written_through_the_argument)


class view_of_a_state_passed_back(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.arange(8.0))

    def forward(self, x):
        self.state[2:5].add_(x)
        return self.state[1:4], x + 1


scenario(one(3), lambda earlier: (earlier[0][1][1],), lambda earlier: (earlier[1][1][1],), earlier=True,
         example=one(3))(view_of_a_state_passed_back)


class running_average_of_both(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, a, b):
        self.mean.mul_(0.9).add_(a, alpha=0.1)
        a.sub_(self.mean)
        b.add_(self.mean)
        return a * b


scenario(two(4), twice(4), example=two(4))(running_average_of_both)


# Operators on lists ----------------------------------------------------------------------------------------------------


@scenario(two(4), twice(4), slices(8, (0, 4), (2, 4)), example=two(4))
def foreach_add_of_arguments(a, b):
    torch._foreach_add_([a, b], 1.5)
    return a + b


@scenario(lambda: (randn(4), randn(3, 2), randn(4), randn(3, 2)))
def foreach_steps_of_an_optimizer(p, q, dp, dq):
    torch._foreach_mul_([p, q], 0.99)
    torch._foreach_add_([p, q], [dp, dq], alpha=-0.1)
    torch._foreach_addcmul_([p, q], [dp, dq], [dp, dq], value=0.5)
    return p.sum() + q.sum()


@scenario(two(4), twice(4), example=two(4))
def foreach_copy_and_norm(a, b):
    s = torch._foreach_sqrt([a.abs(), b.abs()])
    torch._foreach_copy_([a, b], s)
    torch._foreach_neg_([b])
    return a - b


@scenario(lambda: (randn(6, 4),))
def chunks_written_and_joined(x):
    a, b, c = x.chunk(3)
    a.add_(1)
    torch._foreach_mul_([b, c], 2.0)
    return torch.cat([c, b, a]), torch.stack([a, b])


# out= and in place ---------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(4, 5), randn(5, 3), torch.zeros(4, 3)))
def matmul_into_an_argument(a, b, out):
    torch.mm(a, b, out=out)
    return out.relu_()


@scenario(lambda: (randn(4, 5), randn(5, 3), torch.zeros(3, 4)))
def matmul_into_a_transposed_argument(a, b, out):
    torch.mm(a, b, out=out.t())


@scenario(lambda: (randn(3, 4), randn(3, 4), torch.zeros(6, 4)))
def cat_into_an_argument(a, b, out):
    return torch.cat([a, b], out=out)


@scenario(lambda: (randn(3, 4), torch.zeros(3, 4)))
def cumulative_sums_in_place_and_out(x, out):
    x.cumsum_(1)
    torch.cumprod(x, 0, out=out)
    return out[1]


@scenario(lambda: (randn(4, 5), torch.tensor([0, 2, 0]), randn(3, 5)), lambda: (randn(4, 5), torch.tensor([1, 1, 1]), randn(3, 5)))
def index_operators_in_place(x, index, v):
    x.index_add_(0, index, v)
    x.index_copy_(0, torch.tensor([3, 1]), v[:2])
    x.index_fill_(1, torch.tensor([4]), -1.0)
    return x[index]


@scenario(lambda: (randn(4, 5), torch.tensor([[0, 1, 2, 0, 0], [2, 0, 0, 1, 2]]), randn(2, 5)))
def scatters_in_place(x, index, v):
    x.scatter_(0, index, v)
    x.scatter_add_(0, index, v)
    return x.t().scatter(1, index.t(), 0.0)


@scenario(lambda: (randn(4, 5), randn(4, 5) > 0, randn(20)))
def masks_in_place(x, mask, v):
    x.masked_fill_(mask, 2.0)
    y = x.t()
    y.masked_scatter_(mask.t(), v)
    return torch.where(mask, x, y.t())


@scenario(lambda: (randn(4, 5), randn(4, 5)))
def comparisons_in_place_keep_the_dtype(x, y):
    x.gt_(y)
    y.eq_(x).logical_not_()
    return x + y


@scenario(lambda: (torch.arange(6), torch.arange(6) - 3))
def integers_in_place(a, b):
    a.bitwise_and_(3)
    a <<= 1
    b.floor_divide_(2)
    b.remainder_(4)
    return a ^ b


@scenario(lambda: (randn(5, 5),))
def triangles_and_diagonals(x):
    x.tril_()
    x.diagonal(1).fill_(3)
    x.fill_diagonal_(7)
    x[:, 1:3].triu_()
    return x.t()


@scenario(lambda: (randn(3, 4), randn(3, 5), randn(5, 4)))
def addmm_in_place(c, a, b):
    c.addmm_(a, b, beta=0.5, alpha=2)
    c[1].addcmul_(c[0], c[2], value=3)
    c.lerp_(c * 0, 0.25)
    c.clamp_(-1, 1).mul_(2)
    return c


@scenario(lambda: (randn(6),))
def unfolded_windows_without_overlap_written(x):
    x.unfold(0, 2, 2).mul_(2)
    x.unfold(0, 1, 3).add_(1)
    return x.unfold(0, 3, 1).sum(1)


@scenario(lambda: (randn(12),))
def nested_as_strided(x):
    a = x.as_strided((3, 2), (4, 1), 1)
    b = a.as_strided((2, 2), (1, 6), 2)
    b.fill_(9)
    a.t()[0].add_(1)
    return x.as_strided((2, 2), (3, 2)), b


@scenario(lambda: (randn(2, 4),))
def view_of_another_dtype_written_in_part(x):
    bits = x.view(torch.int32)
    bits[0, 1:3] = 0
    half = x[1].view(torch.int16)
    half[::2].zero_()
    return bits


@scenario(lambda: (torch.complex(randn(3, 2), randn(3, 2)),))
def real_and_imaginary_parts_written(c):
    c.real.add_(1)
    c.imag[1].mul_(2)
    torch.view_as_real(c)[2].fill_(5)
    return c * 2, c.real


@scenario(lambda: (randn(6),))
def complex_view_of_reals_written(x):
    c = torch.view_as_complex(x.view(3, 2))
    c.mul_(2)
    c[1] = 1 + 2j
    return x + 0


@scenario(lambda: (torch.complex(randn(3), randn(3)),))
def conjugate_written(c):
    d = c.conj()
    d.add_(1j)
    d[1:].mul_(2)
    return d * 1, c


@scenario(lambda: (randn(4, 3),))
def squeeze_unsqueeze_transpose_in_place(x):
    y = x * 1
    y.unsqueeze_(0).transpose_(0, 2).squeeze_()
    y.add_(1)
    z = y.view(3, 4)
    z[0].mul_(2)
    return y, z


@scenario(lambda: (randn(2, 3, 4, 4),))
def channels_last_written(x):
    y = x.to(memory_format=torch.channels_last)
    y[:, 0].mul_(2)
    z = y.contiguous()
    z.add_(1)
    return y, z, y + z


@scenario(lambda: (randn(3, 4),))
def written_while_another_view_is_alive(x):
    y = x.clone()
    rows = y.unbind(0)
    before = rows[1] + 0
    y.view(-1)[2:7] = before.sum()
    rows[2].copy_(rows[0])
    rows[0].swapaxes(0, 0).neg_()
    return before, rows[1], y


# cond and while_loop ---------------------------------------------------------------------------------------------------------


@scenario(lambda: (torch.tensor(True), randn(4)), lambda: (torch.tensor(False), randn(4)))
def cond_result_written_afterwards(p, x):
    y = torch.cond(p, lambda x: x + 1, lambda x: x * 2, (x,))
    y[1:].add_(1)
    x.copy_(y)
    return y


@scenario(lambda: (torch.tensor(True), randn(3, 4)), lambda: (torch.tensor(False), randn(3, 4)))
def cond_writes_what_it_made(p, x):

    def a(x):
        y = x.clone()
        y[0].mul_(2)
        return y.sum(0)

    def b(x):
        y = torch.zeros(4)
        y.add_(x[1])
        return y

    x.add_(1)
    return torch.cond(p, a, b, (x,))


@scenario(lambda: (torch.tensor(6), randn(4)), lambda: (torch.tensor(1), randn(4)))
def while_loop_writes_what_it_made(n, x):

    def body(i, y):
        z = y.clone()
        z[1:].add_(y[:-1])
        z.view(2, 2).t_().mul_(0.5)
        return i + 1, z

    i, y = torch._higher_order_ops.while_loop(lambda i, y: i < n, body, (torch.zeros((), dtype=torch.int64), x * 1))
    x.add_(y)
    return y.clone(), i


@scenario(lambda: (torch.tensor(3), torch.tensor(True), randn(3)), lambda: (torch.tensor(3), torch.tensor(False), randn(3)))
def cond_inside_while_loop(n, p, x):

    def body(i, y):
        return i + 1, torch.cond(i % 2 == 0, lambda y: y + 1, lambda y: y * 2, (y,))

    _, y = torch._higher_order_ops.while_loop(lambda i, y: i < n, body, (torch.zeros((), dtype=torch.int64), x.clone()))
    y.neg_()
    return torch.cond(p, lambda a: a.sin(), lambda a: a.cos(), (y,))


# TorchScript -------------------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(5), 4), lambda: (randn(5), 1), script=True)
def script_views_carried_by_a_loop(x: torch.Tensor, n: int):
    y = x
    for i in range(n):
        y.add_(1)
        y = y[1:]
    return y


@scenario(lambda: (randn(6), 3), script=True)
def script_list_filled_in_a_loop(x: torch.Tensor, n: int):
    parts: List[torch.Tensor] = []
    for i in range(n):
        parts.append(x[2 * i:2 * i + 2])
    for p in parts:
        p.mul_(2)
    parts[0].add_(parts[n - 1])
    return parts[1]


@scenario(lambda: (randn(4), randn(4), 2), lambda: (randn(4), randn(4), 3), script=True)
def script_swap_in_a_loop(a: torch.Tensor, b: torch.Tensor, n: int):
    for i in range(n):
        a, b = b, a
        a.mul_(2)
        b.add_(i)
    return a, b


@scenario(lambda: (randn(3, 3), 2), lambda: (randn(3, 3), 0), script=True)
def script_early_exit(x: torch.Tensor, n: int):
    i = 0
    while i < 3:
        x[i].add_(1)
        if i == n:
            break
        i += 1
    return x, i


@scenario(lambda: (randn(4), 1.5, True), lambda: (randn(4), 1.5, False), script=True)
def script_numbers_from_branches(x: torch.Tensor, s: float, p: bool):
    k = 2
    t = s * 2
    if p:
        k = 3
        t = s - 1
    x[:k].mul_(t)
    return x.add_(k), t


@scenario(lambda: (randn(4), randn(4), True, False), lambda: (randn(4), randn(4), False, True), lambda: (lambda p: (p, p, True, True))(randn(4)),
          script=True)
def script_nested_branches(a: torch.Tensor, b: torch.Tensor, p: bool, q: bool):
    c = a
    if p:
        if q:
            c = b
        c.add_(1)
    else:
        if q:
            c = b[:2]
        c.mul_(3)
    return c, a - b


@scenario(lambda: (randn(4, 4), randn(4, 4)), lambda: (lambda p: (p, p))(randn(4, 4)), lambda: (lambda p: (p, p.t()))(randn(4, 4)), script=True)
def script_writes_by_position(a: torch.Tensor, b: torch.Tensor):
    for i in range(4):
        for j in range(4):
            if i < j:
                a[i, j] = b[j, i]
            elif i > j:
                b[i, j].add_(a[j, i])
    return a, b


@scenario(lambda: (randn(8),), script=True)
def script_sizes_decide(x: torch.Tensor):
    y = x
    while y.size(0) > 2:
        h = y.size(0) // 2
        y[:h].add_(y[h:])
        y = y[:h]
    return y


@scenario(lambda: (randn(3), 5), script=True)
def script_data_decides(x: torch.Tensor, limit: int):
    n = 0
    while n < limit and float(x.sum()) < 10.0:
        x.abs_().mul_(1.5)
        n += 1
    return x, n


# Refusals -----------------------------------------------------------------------------------------------------------------------


@scenario(two(6), slices(9, (0, 6), (3, 6)), example=two(6))
def refused_after_two_writes_in_shared_memory(a, b):
    a[:2].mul_(2)
    b[4:].add_(1)
    a.add_(b)
    return a


@scenario(one(4), lambda: (randn(1).expand(4),), example=one(4))
def refused_copy_to_expanded_memory(x):
    y = x + 1
    x.copy_(y * 2)
    return y


@scenario(lambda: (randn(4), torch.tensor([1, 2])), lambda: (randn(4), torch.tensor([1, -5])))
def refused_index_add_out_of_range(x, index):
    x.add_(1)
    x.index_add_(0, index, torch.ones(2))
    return x


@scenario(lambda: (randn(3), 2), lambda: (randn(3), 5), script=True)
def refused_select_in_a_loop(x: torch.Tensor, n: int):
    for i in range(n):
        x[i].add_(1)
    return x


@scenario(two(4), script=True)
def list_appended_to_and_joined(x, y):
    parts = [x]
    parts.append(y)
    joined = torch.cat(parts)
    parts.append(x + y)
    parts[0] = y
    return joined, torch.stack(parts)


@scenario(two(4), script=True)
def list_popped_and_written_through(x, y):
    parts = [x, y, x]
    last = parts.pop()
    last.add_(1)
    parts.reverse()
    parts.insert(1, x * 2)
    parts[0].mul_(3)
    return torch.stack(parts), len(parts)


@scenario(lambda: (torch.rand(4), torch.randn(4)), lambda: (-torch.rand(4), torch.randn(4)), script=True)
def list_extended_before_a_branch(x, y):
    parts = [x]
    parts.extend([y, y + 1])
    if bool(x[0] > 0):
        z = torch.stack(parts).sum(0)
    else:
        z = torch.cat(parts[:2])[:4]
    parts.append(z)
    return z, torch.stack(parts)


def whole_and_two_windows():
    base = randn(10)
    return randn(1, 2), base[1:7], base[4:10]


@scenario(lambda: (randn(1, 2), randn(6), randn(6)), whole_and_two_windows)
def window_read_where_another_is_written_at_fixed_strides(a, x, y):
    y.masked_fill_(x > 0, -1)
    return torch.slice_scatter(a, a, 0, 0, 1)


@scenario(lambda: (randn(1, 2), randn(3)))
class BufferScatteredIntoWhileAnArgumentIsWritten(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(4.0).view(2, 2))

    def forward(self, row, x):
        out = torch.slice_scatter(self.table, row, 0, 0, 1)
        x.add_(1)
        return out


@scenario(lambda: (torch.zeros(0, 5, 2),))
class BatchNormOfNothing(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(5, affine=False)

    def forward(self, x):
        return self.norm(x)


@scenario(two(6), slices(9, (0, 6), (3, 6)), example=two(6))
def loop_hands_on_an_argument(x, y):
    steps, z = torch.ops.higher_order.while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t.clone()), (torch.tensor(0), y), ())
    x.add_(z)
    return z.view(2, 3).t() * 1, steps


# As the caches of language models: a buffer for the module, a plain attribute for the object that writes it. The archive
# has it twice, as a buffer and as a constant.
@scenario(one(4), one(4))
class BufferThatAnObjectWrites(torch.nn.Module):

    class Holder:
        pass

    def __init__(self):
        super().__init__()
        self.holder = self.Holder()
        self.holder.rows = torch.zeros(2, 4)
        self.register_buffer("rows", self.holder.rows, persistent=False)

    def forward(self, x):
        self.holder.rows[1].add_(x)
        return self.holder.rows.sum(0)


# A window over the last rows: what is written is read at other places.
@scenario(lambda: (randn(4, 3), randn(1, 3)), lambda: (lambda b: (b[:4], b[3:]))(randn(4, 3)), example=lambda: (randn(4, 3), randn(1, 3)))
def rows_move_up_in_place(x, y):
    x.copy_(torch.cat([x[1:], y]))
    return x * 2
