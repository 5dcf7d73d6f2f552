"""Scenarios for make_scenarios.py: calls that PyTorch refuses for what their arguments hold or where these lie, and the calls beside them that it takes."""

import torch
from torch.nn import functional as F

from scenario_kit import randn, scenario


def rows(*indices):
    return lambda: (torch.arange(12.).view(4, 3), torch.tensor(indices))


# Nobody reads the result ------------------------------------------------------------------------------------------------


@scenario(rows(0, 2, 1), rows(0, 2, 9), rows(0, 2, -1))
def rows_that_nobody_reads(x, i):
    x.index_select(0, i)
    x.add_(1)
    return x[0]


@scenario(rows(0, 2, 1), rows(9, 2, 1), rows(2, 2, 2))
def rows_of_which_the_last_are_read(x, i):
    return x[i][1:] + 1


@scenario(rows(0, 2, 1), rows(0, 2, 9))
def rows_of_which_the_sizes_are_read(x, i):
    y = x[i]
    y.zero_()
    return y


@scenario(lambda: (torch.eye(3) * 2,), lambda: (torch.ones(3, 3),))
def a_factor_that_nobody_reads(x):
    torch.linalg.cholesky(x)
    x.mul_(2)
    return x.sum()


@scenario(lambda: (torch.tensor([1, 2, 3]),), lambda: (torch.tensor([1, 0, 3]),))
def quotients_that_nobody_reads(x):
    12 // x
    x += 1
    return x * 2


@scenario(lambda: (torch.tensor([0, 2]), randn(2, 3)), lambda: (torch.tensor([0, 3]), randn(2, 3)))
def a_loss_that_nobody_reads(target, x):
    F.cross_entropy(x, target)
    return x * 2


# Where an argument lies -------------------------------------------------------------------------------------------------


def placed(offset, dtype=torch.float32):
    return lambda: (torch.arange(24).to(dtype)[offset:offset + 16].view(2, 8),)


@scenario(placed(0), placed(1), placed(2))
def written_as_wider_elements(x):
    x.view(torch.float64).mul_(2)
    return x


@scenario(placed(0), placed(1), placed(4))
def read_as_pairs_of_parts(x):
    return torch.view_as_complex(x.view(2, 4, 2)) * 1j


@scenario(placed(0, torch.uint8), placed(2, torch.uint8), placed(3, torch.uint8), placed(4, torch.uint8))
def written_before_it_is_seen_wider(x):
    x[0] = 1
    wide = x.view(torch.int16).view(torch.int32)
    wide[0] = wide[1] + 1
    return wide, x


# Values -----------------------------------------------------------------------------------------------------------------


@scenario(lambda: (torch.tensor([0., 0.5, 1.]), torch.tensor([0., 1., 1.])), lambda: (torch.tensor([0., 1.5, 1.]), torch.tensor([0., 1., 1.])))
def probabilities_out_of_range(p, y):
    return F.binary_cross_entropy(p, y)


@scenario(lambda: (torch.tensor([0, 2, 1, 1]), torch.tensor([0, 2])), lambda: (torch.tensor([0, 2, 1, 1]), torch.tensor([0, 5])))
def bags_that_end_behind_the_indices(i, offsets):
    return F.embedding_bag(i, torch.arange(12.).view(4, 3), offsets)


# Branches ---------------------------------------------------------------------------------------------------------------


def shifted(c):
    return lambda: (lambda t: (t[:2], t[1:], torch.tensor(c)))(torch.arange(9.).view(3, 3))


@scenario(shifted(False), shifted(True), example=lambda: (randn(2, 3), randn(2, 3), torch.tensor(True)))
def a_branch_that_copies_shifted_rows(x, y, c):

    def copies(x, y):
        y.copy_(x)
        return x + 0

    return torch.cond(c, copies, lambda x, y: y * 1, (x, y))
