"""Scenarios for make_scenarios.py: dims of one element, whose strides show in no element and decide layouts all the same."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from scenario_kit import one, randn, scenario

ANY = Dim.AUTO


def flattened_and_written(y):
    """What is written is y where flattening is a view of it, which hangs on how y lies."""
    y.flatten().add_(1)
    return y


# Dims of one element decide what einsum permutes, and which operand comes first -------------------------------------


def products(x, y):
    return (flattened_and_written(torch.einsum("abc,abd->dca", x, y)), flattened_and_written(torch.einsum("abc,abd", x, y)),
            flattened_and_written(torch.einsum("abc,abd->cb", x, y)), torch.einsum("abc,abd,ab->adc", x, y, x[..., 0]))


@scenario(lambda: (randn(3, 2, 4).permute(2, 1, 0), randn(5, 2, 4).permute(2, 1, 0)))
def einsum_of_operands_in_reverse_order(x, y):
    return products(x, y)


@scenario(lambda: (randn(4, 2, 3), randn(4, 2, 5)), lambda: (randn(1, 2, 3), randn(1, 2, 5)),
          lambda: (randn(4, 1, 3), randn(4, 1, 5)), dynamic_shapes=({0: ANY, 1: ANY}, {0: ANY, 1: ANY}))
def einsum_of_sizes_that_are_one(x, y):
    return products(x, y)


@scenario(lambda: (randn(2, 3), randn(4, 1), randn(3, 4)))
def einsum_along_a_path(x, y, z):
    return flattened_and_written(torch.ops.aten.einsum("ab,cd,bc->dca", [x, y, z], path=[1, 2, 1, 0]))


# Memory formats that one stride tells ------------------------------------------------------------------------------------


class ImagesOfOneChannel(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, bias=False)

    def forward(self, x):
        y = self.conv(x)
        y.flatten(1).add_(1)
        return y, torch.cat([x, x], 1), F.pixel_unshuffle(x, 2), torch.stack([x, x], 1) + 1


scenario(one(2, 1, 4, 6), lambda: (randn(2, 4, 6, 1).permute(0, 3, 1, 2),))(ImagesOfOneChannel)


@scenario(lambda: (randn(6, 4, 2, 8).contiguous(memory_format=torch.channels_last),), one(6, 1, 3, 4),
          lambda: (randn(6, 3, 4, 1).permute(0, 3, 1, 2),), dynamic_shapes=({1: ANY, 2: ANY, 3: ANY},))
def joined_images_of_one_channel(x):
    return torch.cat([x, x], 1) * 1


class RowsOfOneChannel(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 3, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv(x.mT)
        y.mT.reshape(-1, 3).add_(1)
        return y


scenario(one(4, 6, 1))(RowsOfOneChannel)

# Rows of one matrix are its columns --------------------------------------------------------------------------------------


@scenario(lambda: (randn(2, 8, 5), torch.tensor(True)), lambda: (randn(1, 8, 5), torch.tensor(True)),
          lambda: (randn(1, 8, 5), torch.tensor(False)), dynamic_shapes=({0: ANY}, None))
def branches_on_one_matrix(x, p):
    y = torch.cond(p, lambda x: x.mT.reshape(-1, 8) * 2, lambda x: x.mT.reshape(-1, 8) + 1, (x,))
    z = torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x.mT.reshape(-1, 8),))
    return flattened_and_written(y) * 1, z


@scenario(lambda: (randn(2, 8, 5),), one(1, 8, 5), dynamic_shapes=({0: ANY},))
def rounds_over_one_matrix(x):
    i, y = torch.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x.mT.reshape(-1, 8) + 1))
    return i, flattened_and_written(y) * 1


class AssignedRowsOfOneMatrix(nn.Module):

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.zeros(16, 5))

    def forward(self, x):
        self.h = x.mT.reshape(-1, 8)
        return x.sum()


scenario(one(2, 8, 5), one(1, 8, 5), dynamic_shapes=({0: ANY},))(AssignedRowsOfOneMatrix)

# Quotients that are 1 ----------------------------------------------------------------------------------------------------


@scenario(one(8, 2, 6), one(8, 3, 6), dynamic_shapes=({1: ANY},))
def half_of_the_rows_times_ones(x):
    half = x.narrow(1, 0, x.shape[1] // 2)
    return torch.ones(1, 1).expand(3, half.shape[1]) @ half, half * 1


# No indices at all -------------------------------------------------------------------------------------------------------


class LargestOfBags(nn.Module):

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode="max")

    def forward(self, indices, offsets):
        return self.bag(indices, offsets)


scenario(lambda: (torch.arange(9) % 4, torch.tensor([0, 3, 3, 7])),
         lambda: (torch.zeros(0, dtype=torch.long), torch.tensor([0, 0])),
         dynamic_shapes=({0: ANY}, {0: ANY}))(LargestOfBags)


# Formats of one image, of one pixel and of one row -----------------------------------------------------------------------


@scenario(lambda: (randn(4, 5, 3).permute(2, 0, 1)[None],), lambda: (randn(4, 5, 3).permute(2, 0, 1)[None],))
def one_image_normalized(x):
    y = F.batch_norm(x, torch.zeros(3), torch.ones(3))
    y.permute(0, 2, 3, 1).reshape(-1).mul_(2)
    return y, F.batch_norm(x, None, None, training=True)


@scenario(one(2, 3, 1, 1), lambda: (randn(2, 1, 1, 3).permute(0, 3, 1, 2),))
def images_of_one_pixel_enlarged(x):
    y = F.interpolate(x, scale_factor=2)
    y.flatten(1).add_(1)
    return y, F.pad(x, (1, 1, 1, 1)), F.adaptive_max_pool2d(x, 2)


@scenario(one(2, 1, 6), lambda: (randn(2, 6, 1).transpose(1, 2),), lambda: (randn(2, 6, 3)[..., :1].transpose(1, 2),))
def rows_of_one_channel_in_any_memory(x):
    y = F.conv1d(x, torch.ones(4, 1, 3), padding=1)
    y.flatten(1).add_(1)
    return y


@scenario(lambda: (torch.complex(randn(3, 4), randn(3, 4)),))
def conjugates_and_negatives_resolved(x):
    return x.mH.resolve_conj(), x.conj().imag.mT.resolve_neg(), x[:, ::2].conj().resolve_conj()


@scenario(lambda: (randn(2, 3, 4), torch.tensor(True)), lambda: (randn(2, 1, 4), torch.tensor(True)),
          lambda: (randn(2, 3, 1), torch.tensor(True)), dynamic_shapes=({0: ANY, 1: ANY, 2: ANY}, None))
def a_branch_that_returns_a_view_of_one_row(x, p):
    y = torch.cond(p, lambda x: x.mT.reshape(-1), lambda x: x.flatten() * 2, (x,))
    y.add_(1)
    return x * 1
