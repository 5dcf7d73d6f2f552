"""Scenarios for make_scenarios.py: torch.nn.functional in TorchScript, whose text asks a page of questions first, and traced sizes."""

from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from scenario_kit import one, randn, scenario


@scenario(one(3, 6), script=True)
def script_softmax_of_what_was_dropped(x):
    z = F.dropout(F.pad(x, [1, 1]), 0.5, False)
    z[0] = 1
    y = F.relu6(x, inplace=True)
    return F.softmax(z, 1), F.log_softmax(x, dim=-1), F.layer_norm(y, y.shape[1:]), y, torch.norm(x, dim=1)


@scenario(lambda: (randn(4, 8), torch.randint(0, 8, (4, ))), script=True)
def script_losses(x, t):
    p = torch.sigmoid(x)
    x.mul_(2)
    return F.cross_entropy(x, t), F.mse_loss(x, p), F.kl_div(F.log_softmax(x, 1), p, reduction="batchmean")


@scenario(lambda: (randn(2, 3, 6, 6), torch.zeros(3), torch.ones(3)), script=True)
def script_images_resized_pooled_normalized(x, mean, var):
    y = F.batch_norm(x, mean, var, None, None, True, 0.1)
    F.relu(y, inplace=True)
    a = F.interpolate(y, scale_factor=[2.0, 1.5], mode="bilinear")
    return a, F.max_pool2d(y, 3, 2, 1), F.adaptive_avg_pool2d(y, [3, 2]), mean, var, y


def scaled(x: Tensor, bias: Optional[Tensor] = None, times: int = 2, scale: Optional[float] = None) -> Tensor:
    if bias is not None:
        x = x + bias
    if scale is None:
        scale = 1.0 / times
    for _ in range(times):
        x.mul_(scale)
    return x


@scenario(lambda: (randn(4, 6), randn(6)), script=True)
def script_arguments_left_out(x, b):
    y = scaled(x)
    z = scaled(x, b, 3)
    if x.dim() == 2 and x.is_floating_point():
        y = y.unsqueeze(0)
    if x.shape[0] > 100:
        raise RuntimeError(f"too many: {x.shape}")
    kind = "b"
    if kind in ["a", "c"]:
        x.zero_()
    elif kind == "b":
        x.add_(1)
    return y, z, scaled(x, None, 1, 0.5), x


@scenario(one(3, 7), script=True)
def script_lists_of_rows_and_sizes(x):
    rows = [r * 2 for r in x.unbind(0)]
    sizes: List[int] = []
    for d in range(x.dim()):
        sizes.append(x.size(d) + 1)
    y = torch.zeros(sizes)
    for i, r in enumerate(rows):
        y[i, 1:] = r
    out: Dict[str, Tensor] = {"y": y}
    for a, b in zip(x.unbind(0), x.split(1)):
        a.add_(b[0])
    return [r + 1 for r in rows], out["y"], x, x.view([1] * 2 + list(x.shape[-2:]))


@scenario(one(2, 6), script="trace")
def traced_sizes(x):
    b, n = x.shape
    h = n // 2
    y = x.view(b, 2, h).transpose(1, 2).reshape(b, -1)
    x[:, :h] *= torch.sigmoid(x[:, h:])
    z = torch.zeros(b * h, n // 3 + 1).add_(n / 2)
    return y, z, torch.arange(n - 1), x.view(x.size(0) * 2, -1)


@scenario(lambda: (randn(5, 2, 8), randn(24, 8), randn(24), randn(8, 8), randn(8)), script="trace", atol=1e-4)
def traced_multi_head_attention(x, iw, ib, ow, ob):
    y, w = F.multi_head_attention_forward(x, x, x, 8, 2, iw, ib, None, None, False, 0.0, ow, ob, training=False)
    return y.add_(x), w


@scenario(lambda: (randn(6, 4), torch.tensor([0, 1, 1, 2, 0, 2])), script="trace")
def traced_means_of_groups(x, idx):
    out = torch.zeros(3, x.size(1), dtype=x.dtype, device=x.device)
    out.index_add_(0, idx, x)
    out /= torch.bincount(idx, minlength=3).clamp_(min=1).unsqueeze(1)
    return out, out[idx]


@scenario(one(3, 4), script=True)
def script_dictionary_filled_and_walked(x):
    d: Dict[str, Tensor] = {}
    for i, n in enumerate(["a", "b", "c"]):
        d[n] = x[i]
    s = torch.zeros(4)
    for k in d.keys():
        s += d[k]
    for v in d.values():
        v.mul_(2)
    for k, v in d.items():
        if k != "b":
            s = s + v
    rows = torch.tensor([[1, 2], [3, 4]])
    rows[0] += 1
    return s, x, d["c"], torch.stack(list(d.values())), rows, torch.cat(x.chunk(2, 1), 0)


@scenario(one(3, 4))
def rrelu_of_transposed_rows(x):
    return F.rrelu(x.t()), F.rrelu(x[:, ::2], 0.1, 0.2), F.rrelu_(x.t())


@scenario(lambda: (randn(4, 3), randn(4, 3)))
def vmap_that_writes_and_one_within_another(x, y):
    written = torch.vmap(lambda a: a.add_(1) * 2)(x)
    return written, torch.vmap(lambda a: torch.vmap(lambda b: a.dot(b) + a.sum())(y))(x)
