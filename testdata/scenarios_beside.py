"""Writes at indices whose source lies in the written tensor's memory, at places that no index names."""

import torch

from scenario_kit import over, scenario


def memory(*index):
    return lambda: (torch.randn(16), torch.tensor(index))


@scenario(memory(0, 0, 2), memory(2, 0, 0))
def scattered_without_self_beside_its_source(m, i):
    # Elements 0, 2 and 4 of memory; 0 and 4 are written, 2 and 3 are read.
    x, y = over(0, (3, ), (2, ), m), over(2, (3, ), (1, ), m)[:2].repeat(2)[:3]
    x.scatter_reduce_(0, i, over(1, (3, ), (1, ), m) * 0 + y, "prod", include_self=False)
    x.scatter_reduce_(0, i, over(5, (3, ), (2, ), m), "amax", include_self=False)
    over(0, (3, 2), (4, 2), m).scatter_reduce_(0, i.view(3, 1) * 0, over(1, (3, 1), (4, 1), m), "mean", include_self=False)
    return m * 1


def rows(*index):
    return lambda: (torch.randn(24), torch.tensor(index))


@scenario(rows(0, 0), rows(2, 0))
def written_at_indices_beside_their_source(m, i):
    # Rows of three of a memory of rows of four; the source begins in row 1, which no index names.
    x, y = over(0, (6, 3), (4, 1), m), over(4, (2, 3), (1, 1), m)
    x.index_add_(0, i, y)
    x.index_copy_(0, i + 3, y)
    x.index_put_((i, ), y)
    x.index_put_((i, ), y, accumulate=True)
    x.index_reduce_(0, i, y, "amin", include_self=False)
    x.scatter_add_(0, i.view(2, 1).expand(2, 3), y)
    x.put_(i * 3, over(4, (2, ), (1, ), m))
    return m * 1
