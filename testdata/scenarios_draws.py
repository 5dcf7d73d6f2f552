"""Scenarios for make_scenarios.py: what is certain, or as good as, of random draws, whatever the generator."""

import torch

from scenario_kit import scenario

MANY = 20000


def near(x, value, most):
    return (x - value).abs() < most


@scenario(lambda: (torch.ones(4, 3),), lambda: (torch.ones(3, 4).t(),))
def draws_in_place(x):
    x.geometric_(0.999999999)
    y = torch.zeros(4, 3, dtype=torch.int64)
    return y.random_(1), torch.zeros(5).log_normal_(0, 1e-30), torch.zeros(5).cauchy_(5, 1e-30), x.sum()


@scenario(lambda: (torch.zeros(2),))
def moments_of_draws(x):
    geometric = torch.zeros(MANY).geometric_(0.3)
    cauchy = torch.zeros(MANY, dtype=torch.float64).cauchy_(1., 2.)
    log_normal = torch.zeros(MANY).log_normal_(0.5, 0.25)
    below_six = torch.zeros(MANY, dtype=torch.int32).random_(6)
    drawn = torch.zeros(100).random_()
    return (near(geometric.mean(), 1 / 0.3, 0.15), geometric.min(), near((cauchy < 1.).double().mean(), 0.5, 0.02), near((cauchy < -1.).double().mean(), 0.25, 0.02),
            near(log_normal.log().mean(), 0.5, 0.02), below_six.min(), below_six.max(), near(below_six.double().mean(), 2.5, 0.1), (drawn == drawn.floor()).all(), x + 1)


@scenario(lambda: (torch.arange(6.).view(2, 3),))
def normal_draws_about_tensors(x):
    y = torch.normal(x, 0.)
    many = torch.normal(x[:, :1].expand(2, MANY), torch.tensor([[1.], [2.]]))
    return y, torch.normal(2., x * 0), torch.normal(x, x * 0), near(many.mean(1), x[:, 0], 0.1), near(many.std(1), torch.tensor([1., 2.]), 0.1)


@scenario(lambda: (torch.tensor([1., 0., 3.]),))
def categories_by_their_weights(w):
    often = torch.multinomial(w, MANY, replacement=True)
    rows = torch.multinomial(w.half().expand(MANY, 3), 1)
    both = torch.multinomial(w, 2)
    return (near((often == 2).float().mean(), 0.75, 0.02), (often == 1).any(), near((rows == 2).float().mean(), 0.75, 0.02), rows[:2].shape[1], both.sort().values,
            torch.multinomial(torch.eye(3), 1))


@scenario(lambda: (torch.ones(2, 3),), lambda: (-torch.ones(2, 3),), lambda: (torch.zeros(2, 3),), lambda: (torch.full((2, 3), float("nan")),))
def weights_that_are_none(w):
    w.add_(0)
    return torch.multinomial(w, 1) * 0
