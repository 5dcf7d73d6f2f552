"""Scenarios for make_scenarios.py: masks and indices that lie in what is written by them."""

import torch

from scenario_kit import scenario


def rows():
    m = torch.tensor([[True, False, True], [False, True, True], [False, False, True]])
    return m, m[0]


def apart():
    return torch.ones(3, 3, dtype=torch.bool), torch.tensor([True, False, True])


def shifted():
    m = torch.tensor([True, False, True, True, False])
    return m[1:], m[:4]


def two_masks():
    return torch.tensor([True, False] * 2), torch.tensor([False, True] * 2)


@scenario(lambda: (torch.tensor([True, False, True, True]),) * 2, two_masks, example=two_masks)
def mask_that_is_what_it_writes(x, y):
    x[y] = False
    return x


@scenario(lambda: (torch.tensor([[True, False, True], [False, True, True]]),), lambda:
          (torch.tensor([[True, True, True], [False, False, True]]),))
def mask_written_where_it_holds(x):
    x[x] = False
    return x.sum()


@scenario(lambda: (torch.tensor([2, 0, 1]),))
def index_that_is_what_it_writes(x):
    x[x] = 5
    return x


@scenario(shifted, two_masks, example=two_masks)
def mask_that_overlaps_what_it_writes(x, y):
    x[y] = False
    return x


@scenario(rows, apart, example=apart)
def rows_chosen_by_a_row_of_them(x, y):
    x[y] = False
    return x


@scenario(lambda: (torch.ones(3, 3), torch.tensor([True, False, True]), torch.tensor([7.])))
def rows_filled_with_a_tensor_of_one(x, m, v):
    x[m] = v
    x[:, m] = v * 2
    return x


@scenario(lambda: (torch.tensor([True, False, True]),))
def mask_filled_with_one_of_its_elements(x):
    x[x] = x[1]
    return x


@scenario(lambda: (torch.ones(3, 4), torch.tensor([1, 0, 1], dtype=torch.uint8)))
def bytes_as_a_mask_for_one_value(x, m):
    x[m] = 7.
    return x
