"""Scenarios for make_scenarios.py: operands, and statistics, that lie in the memory that is written."""

import torch
import torch.nn.functional as F

from scenario_kit import boxes, one, randn, scenario, two


@scenario(one(4, 4), lambda: (randn(4, 4).t(),), lambda: (randn(4, 8)[:, ::2],))
def masked_fill_with_an_element_of_itself(x):
    x.masked_fill_(x > 0, x[1, 1])
    y = x[1:]
    y.masked_fill_(x[:3] < 0, x[0, 0])
    return y


@scenario(two(3, 4), boxes(16, (0, (3, 4), (4, 1)), (4, (3, 4), (4, 1))), lambda: (lambda t: (t, t))(randn(3, 4)))
def masked_fill_with_an_element_of_an_argument(x, y):
    x.masked_fill_(y > 0, y[0, 0])
    return x, y.masked_fill_(x == x[0, 0], x[2, 3])


@scenario(lambda: (randn(4, 3), randn(3), randn(3).abs()),
          boxes(20, (0, (4, 3), (3, 1)), (12, (3,), (1,)), (15, (3,), (1,))),
          boxes(20, (0, (4, 3), (3, 1)), (12, (3,), (2,)), (13, (3,), (2,))),
          boxes(20, (0, (4, 3), (5, 1)), (3, (3,), (5,)), (4, (3,), (5,))))
def batch_norm_whose_statistics_lie_side_by_side(x, mean, var):
    return F.batch_norm(x, mean, var, training=True, momentum=0.5), mean + var


@scenario(lambda: (randn(4, 3), randn(3), randn(3), randn(3), randn(3)),
          boxes(20, (0, (4, 3), (3, 1)), (2, (3,), (1,)), (3, (3,), (1,)), (12, (3,), (1,)), (16, (3,), (1,))),
          boxes(20, (8, (4, 3), (3, 1)), (8, (3,), (1,)), (8, (3,), (3,)), (0, (3,), (1,)), (4, (3,), (1,))))
def batch_norm_whose_weight_and_bias_lie_in_its_input(x, weight, bias, mean, var):
    y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.5)
    bias.add_(mean)
    return y, var


@scenario(lambda: (randn(4, 3), randn(3)), boxes(20, (0, (4, 3), (4, 1)), (3, (3,), (4,))))
def batch_norm_of_one_tensor_for_both_statistics(x, s):
    return F.batch_norm(x, s, s, training=True, momentum=0.5), s


@scenario(lambda: (randn(12).half(),), lambda: (randn(24).half()[::2],))
def half_precision_multiplied_by_an_element_that_it_does_not_hold(x):
    x[::2].mul_(x[1])
    x[1:5].add_(x[7])
    return x.sum(), x


@scenario(lambda: (randn(4, 4), randn(4, 4)), boxes(32, (0, (4, 4), (4, 1)), (16, (4, 4), (4, 1))),
          boxes(32, (0, (4, 4), (8, 1)), (4, (4, 4), (8, 1))), lambda: (lambda t: (t, t))(randn(4, 4)))
def copied_from_the_bits_of_an_argument(x, y):
    x.copy_(y.view(torch.int32).bitwise_and(255))
    y[0].copy_(x[1].view(torch.int32))
    return x, y[1:]


@scenario(lambda: (randn(64).bfloat16(), randn(64).half(), randn(64).bfloat16(), randn(1)[0]), script=True)
def script_numbers_beside_halves(x, h, y, s):
    a = [x + 0.30371, 0.30371 - x, torch.add(x, y, alpha=0.30371), x - s, x * 0.30371, x / s, x // s, x.pow(3)]
    b = torch.stack([h - 0.30371, torch.sub(h, s), torch.div(h, 0.30371, rounding_mode="floor"), h * s, h.pow(3)])
    x.view(1, 64).index_add_(0, torch.tensor([0]), y.view(1, 64), alpha=0.30371)
    y.add_(s).add_(x, alpha=-0.7)
    return (torch.stack(a + [x, y]).float() * 65536).int(), (b.float() * 65536).int()  # exact


@scenario(lambda: (torch.tensor(2.), torch.tensor([0, 0])),
          lambda: (torch.tensor(2.), torch.tensor([0, 1])),
          script=True)
def script_refused_place_along_a_scalar(x, i):
    x.add_(1)
    return torch.gather(x, 0, i) + torch.take(x, -1 - i)


@scenario(lambda: (torch.tensor(2.), torch.tensor(0)), lambda: (torch.tensor(2.), torch.tensor(3)), script=True)
def script_refused_place_of_a_scalar_written(x, i):
    x.add_(1)
    return x.scatter_(0, i, 5.)
