"""Scenarios for make_scenarios.py: arguments that are only read and lie in memory otherwise than at export."""

import torch
from torch import nn

from scenario_kit import boxes, one, randn, scenario, two


@scenario(two(4, 6), lambda: (randn(4, 12)[:, ::2], randn(6, 6)[1:5]), lambda: (randn(5, 8)[1:, 2:], randn(4, 6)), example=two(4, 6))
def strided_arguments_of_pointwise(x, y):
    return torch.relu(x) + y, x * 2


@scenario(one(4, 6), lambda: (randn(6, 4).t(),), lambda: (randn(6).expand(4, 6),), lambda: (randn(4, 1).expand(4, 6),), example=one(4, 6))
def sums_of_an_argument_in_any_order(x):
    return x.sum(1), x.exp().sum(0), (x @ x.t()).sum()


@scenario(one(4, 6), lambda: (randn(4, 9)[:, 1:7],), lambda: (randn(8, 12)[::2, ::2],), example=one(4, 6))
def reshape_of_a_fresh_tensor(x):
    y = x + 1
    y.reshape(24)[3:9].mul_(2)
    return y, (x * 3).flatten(), y.contiguous()


@scenario(lambda: (randn(4, 6), randn(4)), lambda: (randn(4, 12)[:, ::2], randn(4)), lambda: (randn(6, 4).t(), randn(4)),
          example=lambda: (randn(4, 6), randn(4)))
def strided_argument_beside_a_written_one(x, y):
    y.add_(x.sum(1))
    return y * 2


@scenario(one(4, 6), lambda: (randn(4, 8)[:, :6],), example=one(4, 6))
def strided_argument_handed_back(x):
    return x, x.sum(1), x + 1


@scenario(one(2, 3, 4), lambda: (randn(2, 6, 4)[:, ::2],), lambda: (randn(2, 3, 5)[:, :, 1:],), example=one(2, 3, 4))
def softmax_and_norm_of_a_strided_argument(x):
    return torch.softmax(x, -1), torch.nn.functional.layer_norm(x, [4]), x.cumsum(1)


def cropped_image():
    return randn(1, 8, 11, 3).permute(0, 3, 1, 2)[:, :, 1:7, 2:10]


def reversed_image():
    return randn(8, 6, 3, 1).permute(3, 2, 1, 0)


@scenario(lambda: (cropped_image(), reversed_image(), randn(10, 5).t()))
def layouts_that_the_archive_states_otherwise(x, y, z):
    plain = torch.nn.functional.batch_norm(y, torch.zeros(3), torch.ones(3))
    return torch.roll(x, 1, 2), plain, torch.copysign(z, torch.ones(())), torch.logical_and(z[:, None], z), torch.ldexp(z[:, None], z)


@scenario(lambda: (cropped_image(), cropped_image()[:, :, None], *boxes(12, (0, [8], [1]), (4, [8], [1]))()),
          lambda: (randn(1, 6, 8, 3).permute(0, 3, 1, 2), randn(1, 1, 6, 8, 3).permute(0, 4, 1, 2, 3), randn(8), randn(8)),
          example=lambda: (randn(1, 3, 6, 8), randn(1, 3, 1, 6, 8), randn(8), randn(8)))
def images_and_volumes_in_eager_order(x, v, a, b):
    a.add_(1)
    b.mul_(2)
    functional = torch.nn.functional
    image = functional.max_pool2d(x, 2), functional.interpolate(x, scale_factor=2.0), torch.cat([x, x], 1)
    volume = functional.interpolate(v, scale_factor=2.0), torch.cat([v, v], 1), functional.group_norm(v, 3)
    return *image, *volume, functional.avg_pool1d(x[:, :, 0], 2), 2.0**x, torch.rsub(x, x[0, 0]), a + b


class ClassesOfImagesInAnyFormat(nn.Module):

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.classes = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

    def forward(self, x):
        y = nn.functional.relu_(self.norm(self.conv(x)))
        return self.classes(nn.functional.max_pool2d(y, 2).mean((2, 3)))


scenario(lambda: (randn(2, 6, 8, 3).permute(0, 3, 1, 2),), lambda: (randn(6, 8, 3).permute(2, 0, 1)[None],),
         lambda: (cropped_image(),), lambda: (randn(3, 2, 6, 16).transpose(0, 1)[..., ::2],), example=lambda: (randn(2, 3, 6, 8),),
         dynamic_shapes=({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO},))(ClassesOfImagesInAnyFormat)
