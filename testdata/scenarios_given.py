"""Scenarios for make_scenarios.py: results in given tensors, and layouts of what PyTorch makes of strided arguments."""

import torch
from torch.nn import functional as F

from scenario_kit import one, randn, scenario, slices, twice, two

TRANSPOSED = lambda: (randn(6, 4).t(), randn(6, 4).t())
ANY_LAYOUT = (one(4, 6), lambda: (randn(6, 4).t(), ), lambda: (randn(4, 12)[:, ::2], ), lambda: (randn(8, 6)[::2], ))

# out= ------------------------------------------------------------------------------------------------------------------


@scenario(TRANSPOSED)
def resized_results_lie_as_fresh_ones(x, y):
    made = [torch.empty(0) for _ in range(9)]
    torch.sub(x, y, out=made[0])
    torch.exp(x, out=made[1])
    torch.where(x > 0, x, y, out=made[2])
    torch.clamp(x, 0, 1, out=made[3])
    torch.cat([x, y], out=made[4])
    torch.mm(x, y.t(), out=made[5])
    torch.sum(x, 1, out=made[6])
    torch.cumsum(x, 0, out=made[7])
    torch.ops.aten.mul.Scalar_out(x, 2, out=made[8])
    return made


@scenario(TRANSPOSED)
def given_results_keep_their_layout(x, y):
    same, transposed, smaller = torch.empty(4, 6), torch.empty(6, 4).t(), torch.empty(2, 2)
    for out in (same, transposed, smaller):
        torch.sub(x, y, out=out)
    return same, transposed, smaller


@scenario(TRANSPOSED)
def sorted_into_tensors_that_are_resized(x, y):
    v, w, k = torch.empty(0), torch.empty(0), torch.empty(0)
    i, j, m = (torch.empty(0, dtype=torch.int64) for _ in range(3))
    torch.sort(x, 1, out=(v, i))
    torch.max(y, 0, out=(w, j))
    torch.topk(x, 2, out=(k, m))
    return v, i, w, j, k, m


@scenario(*ANY_LAYOUT, example=one(4, 6))
def results_given_back_to_a_strided_argument(x):
    o, p = torch.empty(4, 6), torch.empty(0)
    torch.add(x, 1, out=o)
    torch.mul(o, 2, out=x)
    torch.sub(x, o, out=p)
    return o, p


@scenario(lambda: (torch.zeros(5), torch.zeros(2, 3), torch.zeros(4, 4), torch.zeros(3), torch.ones(4, dtype=torch.int64)),
          lambda: (lambda p: (p[::2], p[1:7].view(2, 3), torch.ones(4, 4).t(), p[6:9], torch.ones(8, dtype=torch.int64)[::2]))(torch.ones(9)),
          example=lambda: (torch.zeros(5), torch.zeros(2, 3), torch.zeros(4, 4), torch.zeros(3), torch.ones(4, dtype=torch.int64)))
def ranges_and_constants_into_arguments(a, b, c, d, e):
    torch.arange(5, out=a)
    torch.full((2, 3), 2.5, out=b)
    torch.eye(4, out=c)
    torch.linspace(0, 1, 3, out=d)
    torch.arange(2, 10, 2, out=e)
    grown = torch.empty(0, dtype=torch.float64)
    torch.ones((2, 2), out=grown)
    return a + 1, grown


# Values from the memory that is written ----------------------------------------------------------------------------------


@scenario(two(6), twice(6), slices(9, (0, 6), (3, 6)), example=two(6))
def filled_with_one_of_its_elements(x, y):
    x.fill_(y[1])
    y[2:].fill_(x[3])
    return x + y


@scenario(lambda: (randn(5, 3), torch.zeros(3), torch.ones(3)), lambda: (lambda p: (randn(5, 3), p, p))(torch.ones(3)),
          example=lambda: (randn(5, 3), torch.zeros(3), torch.ones(3)))
def statistics_that_are_one_tensor(x, mean, var):
    return F.batch_norm(x, mean, var, training=True, momentum=0.5), mean + var


# Layouts -------------------------------------------------------------------------------------------------------------------


@scenario(*ANY_LAYOUT, example=one(4, 6))
def ravel_copies_what_has_gaps(x):
    flat = x.ravel()
    flat.add_(1)
    return flat


@scenario(one(6), lambda: (randn(12)[::2], ), example=one(6))
def ravel_of_one_dim_is_another_tensor(x):
    return x.ravel(), x.flatten(), x.reshape(6)


@scenario(*ANY_LAYOUT, example=one(4, 6))
def quarter_turns(x):
    x.add_(1)
    return x.rot90(), x.rot90(-1), x.rot90(2), x.flip(0)


@scenario(TRANSPOSED)
def padding_that_only_takes_away(x, y):
    return F.pad(x, (-1, 0)), F.pad(x, (1, 0)), F.pad(x, (-1, 1)), F.pad(y, (-1, -1, -1, -1))


@scenario(TRANSPOSED)
def rows_scaled_to_a_norm(x, y):
    x.renorm_(2, 0, 1.0)
    return torch.renorm(y, 1, 1, 0.5), x.sum()


@scenario(lambda: (torch.randn(3, 4, dtype=torch.complex64), torch.tensor([[0, 1], [2, 0]]), torch.randn(2, 2, dtype=torch.complex64)))
def complex_numbers_gathered_and_scattered(x, index, v):
    y = x.gather(0, index)
    x.scatter_(1, index, v)
    return y, x.gather(1, index), x.flip(0), x.roll(1, 1), x.tril(), x.take(index)
