"""Scenarios for make_scenarios.py: masks whose count is data, assigned buffers, layouts of results, values needed twice."""

import torch
from torch import nn
from torch.nn import functional as F

from scenario_kit import one, randn, scenario, slices, twice, two

# Masks ---------------------------------------------------------------------------------------------------------------


@scenario(two(8), slices(12, (0, 8), (4, 8)), twice(8), lambda: (-torch.rand(8), torch.rand(8)), example=two(8))
def chosen_by_a_mask_and_changed(a, b):
    a[a > 0] -= 1
    b[b < 0] *= 2
    return a + b


@scenario(lambda: (randn(3, 4), torch.tensor([True, False, True]), torch.rand(4) > 0.5))
def mask_of_rows_and_mask_of_columns(x, rows, columns):
    x[rows] += x[rows].sum()
    x[:, columns] = -1.0
    x[rows] = torch.arange(8.0).view(2, 4)
    x.index_put_((rows, ), torch.tensor(3.0), accumulate=True)
    return x[~rows]


class CounterOfPositives(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4, dtype=torch.int64))

    def forward(self, x):
        self.count[x > 0] += 1
        return self.count[x > 0]


scenario(one(4), one(4), one(4))(CounterOfPositives)

# Buffers that are assigned ---------------------------------------------------------------------------------------------


class BufferAssigned(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("hidden", torch.zeros(4))
        self.register_buffer("last", torch.ones(4))

    def forward(self, x):
        before = self.hidden
        self.last = self.hidden * 2
        self.hidden = torch.tanh(x + before)
        return before, self.hidden, self.hidden[1:]


scenario(one(4), one(4), one(4))(BufferAssigned)


class RingAssigned(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 2))

    def forward(self, x):
        self.ring = torch.cat([self.ring[1:], x])
        return self.ring.mean(0)


scenario(*[one(1, 2)] * 3)(RingAssigned)

# Values that are needed after something else took their place ----------------------------------------------------------


@scenario(one(2, 3, 3))
def value_copied_back_whose_copy_is_changed(x):
    y = (x + x.mT) / 2
    x.copy_(y)
    y.diagonal(dim1=1, dim2=2).fill_(0)
    return y, x.diagonal(dim1=1, dim2=2).sum(1)


@scenario(one(3, 8))
def softmax_returned_and_normalised(x):
    p = x.softmax(-1)
    n = F.layer_norm(p, (8, ))
    x.copy_(n)
    return p, n.exp()


# Layouts that the export did not see -------------------------------------------------------------------------------------


@scenario(two(3, 4), lambda: (randn(4, 3).t(), randn(4, 3).t()), lambda: (lambda p: (p, p))(randn(4, 3).t()), example=two(3, 4))
def conversions_in_any_layout(x, y):
    x.mul_(2)
    y.copy_(x.double())
    return x.double(), y.half(), (x > y).float(), y.int(), x.to(torch.float32)


@scenario(one(2, 3, 4), lambda: (randn(4, 3, 2).permute(2, 1, 0), ), lambda: (randn(2, 3, 8)[..., ::2], ), example=one(2, 3, 4))
def sorted_and_scattered_in_any_layout(x):
    x.add_(1)
    return x.sort(1)[0], torch.select_scatter(x, x[0] * 2, 0, 1), x.cumsum(2), x.softmax(-1)


@scenario(one(1, 2, 4, 4), lambda: (randn(1, 2, 4, 4).contiguous(memory_format=torch.channels_last), ), example=one(1, 2, 4, 4))
def pooled_in_any_layout(x):
    x.relu_()
    return F.max_pool2d(x, 2), F.conv2d(x, torch.ones(3, 2, 3, 3))


@scenario(one(6), lambda: (randn(1).expand(6), ), lambda: (randn(12)[::2], ), example=one(6))
def only_read_and_returned_in_parts(x):
    return x, x[2:], x + 1, x.unsqueeze(0)


# Complex numbers, diagonals ----------------------------------------------------------------------------------------------


@scenario(lambda: (torch.randn(3, 2, dtype=torch.complex64), torch.tensor([2, 0]), torch.randn(2, 2, dtype=torch.complex64)))
def rows_of_complex_numbers_written(x, index, v):
    x[index] = v
    x.index_add_(0, index, v * 1j)
    x.masked_fill_(torch.tensor([True, False]), 2.0)
    return x.mH * 1, x.index_select(0, index)


@scenario(lambda: (randn(6, 2), randn(2, 2, 2)))
def diagonals_that_wrap_and_of_three_dims(x, y):
    x.fill_diagonal_(5, wrap=True)
    y.fill_diagonal_(-1)


# TorchScript -----------------------------------------------------------------------------------------------------------


@scenario(lambda: (randn(4), ), lambda: (-torch.rand(4), ), script=True)
def script_largest_until_none_is_positive(x: torch.Tensor):
    n = 0
    while float(x.max()) > 0.0:
        i = int(x.argmax())
        x[i] = -1.0
        n += 1
    return n, x


@scenario(lambda: (randn(3), 1), lambda: (randn(3), 2), lambda: (randn(3), 7), script=True)
def script_argument_or_fresh_by_branch(x: torch.Tensor, k: int):
    if k == 1:
        x.add_(1)
    elif k == 2:
        x.mul_(2)
    else:
        x = x * 3
        x[0] = 0.5
    return x
