"""Scenarios for make_scenarios.py: operators and results that published models and people's own programs use seldom."""

import torch

from scenario_kit import one, randn, scenario

LABELS = lambda: (torch.tensor([3, 1, 3, 2, 1, 1, 0]),)


@scenario(LABELS, lambda: (torch.zeros(7, dtype=torch.int64),))
def unique_values_alone(x):
    x[1:].add_(1)
    return torch.unique(x)


@scenario(LABELS, lambda: (torch.zeros(7, dtype=torch.int64),))
def unique_counts_of_neighbours_unread(x):
    values, inverse = torch.unique_consecutive(x, return_inverse=True)
    x.mul_(inverse)
    return values, inverse
