"""Convolutions of no channels, of which PyTorch makes none, and of an empty batch; counts and repeats of bytes."""

import torch
import torch.nn.functional as F

from scenario_kit import randn, scenario


@scenario(lambda: (randn(3, 0, 6, 7), randn(8, 0, 3, 3), randn(8), randn(0, 4, 6, 7), randn(2, 4, 3, 3)))
def convolutions_of_no_channels(x, w, b, none, v):
    line, volume = x[..., 0], x.unsqueeze(-1)
    return (F.conv2d(x, w, b, (2, 1)), F.conv2d(x, w, groups=2).relu(), F.conv1d(line, w[..., 0], b), F.conv3d(volume, w.unsqueeze(-1)) + 1,
            F.conv1d(line[0], w[..., 0]), F.conv2d(none, v, b[:2]), F.conv_transpose2d(none, v.transpose(0, 1)))


def gradients(grad, x, w):
    return torch.ops.aten.convolution_backward(grad, x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])


@scenario(lambda: (randn(3, 0, 6, 6), randn(3, 0, 8, 8), randn(4, 0, 3, 3), randn(0, 4, 6, 6), randn(0, 2, 8, 8), randn(4, 2, 3, 3)))
def gradients_of_convolutions_of_nothing(grad, x, w, none, y, v):
    return *gradients(grad, x, w), *gradients(none, y, v)


def numbers(dtype, *values):
    return lambda: (torch.tensor(values, dtype=dtype), )


LARGEST = torch.iinfo(torch.int64).max


@scenario(numbers(torch.int64, 3, 1, 3), numbers(torch.int64, 0, 1, LARGEST))
def refused_bins_of_the_largest_number(x):
    return torch.bincount(x)


@scenario(numbers(torch.uint8, 3, 1, 3), numbers(torch.uint8, 255, 0, 255))
def bins_of_the_largest_byte(x):
    return torch.bincount(x) * 2


@scenario(lambda: (torch.tensor([1, 0, 2]), torch.tensor(4)), lambda: (torch.tensor([1, 0, 2]), torch.tensor(-1)))
def refused_bins_of_a_negative_length(x, n):
    return torch.bincount(x, minlength=n.item())


@scenario(lambda: (torch.tensor([1, 0, 2]), randn(3)), lambda: (torch.tensor([3, -1, 2]), randn(3)))
def refused_negative_repeats(n, x):
    return x.repeat_interleave(n)
