"""Scenarios for make_scenarios.py: results of composites and of gradients, flattened and written in place: whether that shows
tells how PyTorch laid them out, whatever the operators lie like that they are taken apart into."""

import torch

from scenario_kit import randn, scenario

F = torch.nn.functional
aten = torch.ops.aten


def written(*results):
    """Every result after a write to its elements in order, which reaches it where that is a view."""
    for r in results:
        r.reshape(-1).add_(1)
    return results


def image(*sizes, last=False):
    return randn(*sizes).to(memory_format=torch.channels_last) if last else randn(*sizes)


def column(*sizes):
    return randn(*sizes[::-1]).permute(*range(len(sizes))[::-1])


def probable(t):
    return torch.empty_like(t).copy_(torch.sigmoid(t))


LAST, FIRST = image(2, 2, 2, 3, last=True), image(2, 2, 2, 3)
BOTH = (lambda: (LAST.clone(), FIRST.clone()), lambda: (FIRST.clone(), LAST.clone()), lambda: (LAST.clone(), LAST.clone()))


def images(case):
    return (lambda: BOTH[case](),)


@scenario(lambda: (probable(column(6, 5)), probable(randn(6, 5))))
def losses_of_a_transpose_written(p, t):
    return written(F.binary_cross_entropy(p, t, reduction="none"), F.binary_cross_entropy(t, p, reduction="none"),
                   F.mse_loss(p, t, reduction="none"), F.huber_loss(p, t, reduction="none"), F.huber_loss(t, p, reduction="none"),
                   F.smooth_l1_loss(p, t, reduction="none"), F.l1_loss(p, t, reduction="none"),
                   F.kl_div(p, t, reduction="none"), F.binary_cross_entropy_with_logits(p, t, reduction="none"),
                   F.soft_margin_loss(p, t, reduction="none"), F.poisson_nll_loss(p, t, reduction="none"))


def gradients(g, x):
    return written(aten.threshold_backward(g, x, 0), aten.leaky_relu_backward(g, x, 0.1, False), aten.hardtanh_backward(g, x, -1, 1),
                   aten.hardsigmoid_backward(g, x), aten.hardswish_backward(g, x), aten.gelu_backward(g, x), aten.silu_backward(g, x),
                   aten.elu_backward(g, 1.0, 1.0, 1.0, False, x), aten.softplus_backward(g, x, 1, 20), aten.sigmoid_backward(g, x),
                   aten.tanh_backward(g, x), aten.logit_backward(g, x), aten.mish_backward(g, x))


@scenario(*images(0))
def gradients_of_activations_written(g, x):
    return gradients(g, x)


@scenario(*images(1))
def gradients_of_activations_of_a_plain_image_written(g, x):
    return gradients(g, x)


@scenario(*images(0))
def gradients_of_losses_written(x, t):
    ones = torch.ones([2, 2, 2, 3])
    return written(aten.mse_loss_backward(ones, x, t, 0), aten.smooth_l1_loss_backward(ones, x, t, 0, 1.0),
                   aten.huber_loss_backward(ones, x, t, 0, 1.0), aten.binary_cross_entropy_backward(ones, x, t, None, 0),
                   aten.mse_loss_backward(x, t, t, 0), aten.log_sigmoid_backward(x, t, torch.exp(-t.abs())))


@scenario(lambda: (randn(2, 4, 1, 3).permute(0, 3, 1, 2),))
def attention_of_heads_of_one_written(x):
    return written(F.scaled_dot_product_attention(x, x, x))


@scenario(lambda: (randn(2, 4, 3, 8).permute(0, 2, 1, 3), randn(2, 3, 4, 8)))
def attention_in_layouts_written(q, k):
    return written(F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(k, q, q),
                   F.scaled_dot_product_attention(q.transpose(2, 3), k.transpose(2, 3), k.transpose(2, 3)),
                   F.scaled_dot_product_attention(q[0], k[0], k[0]))


@scenario(lambda: (image(1, 4, 4, 4, last=True), image(4, 4, 3, 3)))
def convolutions_and_pools_written(x, w):
    return written(F.conv2d(x, w), F.conv_transpose2d(x, w), F.max_pool2d(x, 2), F.avg_pool2d(x, 2),
                   F.adaptive_avg_pool2d(x, 3), F.adaptive_max_pool2d(x, 2), F.interpolate(x, scale_factor=2.0),
                   F.interpolate(x, scale_factor=2.0, mode="bilinear"), F.pad(x, [1, 1, 1, 1]),
                   F.pad(x, [1, 1, 1, 1], mode="reflect"), F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2))


@scenario(lambda: (image(2, 4, 2, 3, last=True),))
def norms_written(x):
    w, b = torch.ones(4), torch.zeros(4)
    return written(F.group_norm(x, 2), F.layer_norm(x, [3]), F.batch_norm(x, b, w), F.instance_norm(x), F.rms_norm(x, [3]),
                   F.normalize(x), F.local_response_norm(x, 2), F.softmax(x, 1), F.log_softmax(x, 1), torch.special.softmax(x, 1),
                   F.glu(x, 1), F.rrelu(x), F.prelu(x, w), F.logsigmoid(x))


@scenario(lambda: (column(4, 6), randn(4, 6)))
def movements_of_a_transpose_written(x, y):
    i = torch.tensor([[0, 1, 2, 3, 0, 1]])
    return written(torch.gather(x, 0, i), torch.scatter(x, 0, i, y), torch.index_select(x, 0, i[0]), x[i[0]], torch.take(x, i),
                   torch.sort(x, 1)[0], torch.topk(x, 2, 1)[0], torch.flip(x, [0]), torch.roll(x, 1, 0), torch.cumsum(x, 1),
                   torch.tril(x), torch.where(x > 0, y, x), torch.lerp(x, y, 0.5), torch.addcmul(y, x, x), torch.masked_fill(x, y > 0, 0),
                   torch.repeat_interleave(x, 2, 1), torch.rot90(x), torch.nan_to_num(x), torch.clamp(x, -y.abs(), y.abs()))


@scenario(lambda: (column(4, 4), randn(4, 4)))
def products_of_a_transpose_written(x, y):
    return written(x @ y, torch.addmm(x, y, y), torch.outer(x[0], y[0]), torch.linalg.matrix_power(x, 1), torch.linalg.matrix_power(x, 2),
                   torch.linalg.vander(x), torch.cdist(x, y), F.linear(x, y), F.bilinear(x, x, y[None]),
                   torch.einsum("ij,kj->ki", x, y), torch.tensordot(x, y, 1), torch.linalg.multi_dot([x, y, x]),
                   torch.vander(x[0]), torch.float_power(x.abs(), y))


@scenario(lambda: (column(2, 3, 4), randn(2, 3, 4)))
def crosses_written(x, y):
    return written(torch.linalg.cross(x, y, dim=1), torch.ops.aten.cross.default(x, y), torch.stack([x, y]), torch.cat([x, x]),
                   *torch.gradient(x, dim=(1, 2)), torch.nn.utils.rnn.pad_sequence([x, y]), torch.bernoulli(torch.zeros_like(x)))


@scenario(lambda: (column(4, 6), randn(4, 6), torch.arange(6)))
def copies_of_several_dtypes_written(x, y, n):
    wide = n.expand(4, 6)
    return written(x + wide, wide * x, torch.full_like(x, 2), torch.zeros_like(x), x.to(torch.float64), x.clone(), torch.ones_like(x).copy_(y),
                   torch.pow(x.abs(), wide), wide / x)


class SegmentationLoss(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.c = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x, t):
        loss = F.binary_cross_entropy(torch.sigmoid(self.c(x)), t, reduction="none")
        flat = loss.reshape(-1)
        flat[flat < flat.mean()] = 0
        return loss.mean((2, 3)), flat.sum()


scenario(lambda: (image(2, 3, 8, 8, last=True), torch.rand(2, 4, 8, 8)))(SegmentationLoss)
