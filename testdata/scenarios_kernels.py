"""Scenarios for make_scenarios.py: layouts and places that PyTorch's kernels decide, TorchScript whose sizes the data give, scans."""

import torch
import torch.nn.functional as F
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan

from scenario_kit import one, randn, scenario

CHANNELS_LAST = torch.channels_last
CHANNELS_LAST_3D = torch.channels_last_3d


def ties(*sizes):
    return torch.randint(0, 4, sizes).float()


@scenario(lambda: (randn(10, 5), torch.tensor([[3, 1, 3, 0, 7]]), randn(6, 5)), lambda: (randn(10, 5), torch.tensor([[2, 2, 2, 9, 0]]), randn(6, 5)),
          example=lambda: (randn(10, 5), torch.tensor([[3, 1, 3, 0, 7]]), randn(6, 5)))
def added_up_at_one_place(x, i, s):
    i = i.expand(6, 5)
    x.scatter_add_(0, i, s)
    return x, x.scatter_reduce(0, i, s, "amax"), torch.zeros(10).index_add(0, i[:, 0], s[:, 0])


@scenario(lambda: (ties(3, 24), ties(3, 24)), lambda: (lambda x: (x, x))(ties(3, 24)))
def places_of_equal_elements(x, y):
    x[0] = y[1]
    return (*x.median(1), *y.nanmedian(1), *x.kthvalue(7, 1), *y.mode(1), *x.mode(0, True), x.median())


@scenario(lambda: (torch.tensor([[0., -0., float("inf")], [float("nan"), 1e-40, -3.]]), randn(2, 3, 4).double().permute(2, 1, 0)))
def mantissas_and_exponents(x, y):
    m, e = torch.frexp(x)
    n, f = torch.frexp(y)
    m.mul_(2)
    return m, e, n, f


@scenario(lambda: (randn(2, 3, 4, 4).to(memory_format=CHANNELS_LAST), randn(2, 2, 4, 4).to(memory_format=CHANNELS_LAST)),
          lambda: (randn(2, 3, 4, 4), randn(2, 2, 4, 4).to(memory_format=CHANNELS_LAST)),
          example=lambda: (randn(2, 3, 4, 4), randn(2, 2, 4, 4)))
def joined_in_the_format_of_all(x, y):
    x.mul_(2)
    return torch.cat([x, y], 1), torch.cat([x, x])


@scenario(lambda: (randn(1, 4, 3, 4, 3).contiguous(memory_format=CHANNELS_LAST_3D), randn(4, 3, 2, 2, 2),
                   randn(2, 4, 3, 4, 3).contiguous(memory_format=CHANNELS_LAST_3D)))
def volumes_convolved_and_padded(x, w, y):
    a = F.conv_transpose3d(x, w)
    b = F.conv_transpose3d(y, w)
    return a, b, F.conv3d(x, w.transpose(0, 1)), b.add_(1).relu(), F.pad(y, (1,) * 6, mode="replicate"), F.pad(y, (1,) * 6, mode="reflect")


@scenario(lambda: (randn(3, 6, 4).permute(2, 1, 0), randn(4, 1, 3), randn(2, 5, 6).transpose(1, 2)))
def layouts_of_pointwise_results(x, y, z):
    c = torch.complex(z, z * 2)
    return (torch.copysign(x, y), torch.div(x, y, rounding_mode="floor"), x // y, torch.xlogy(y, x.abs()), c.angle(), c.angle().cos_(),
            x.abs().add_(4).mvlgamma(2), F.interpolate(z, size=5))


@scenario(lambda: (randn(20)[3:11], randn(2)), lambda: (randn(20)[2:10], randn(2)), lambda: (randn(8), randn(2)))
def a_copy_replaced_at_places_of_the_storage(x, s):
    x.mul_(2)
    y = torch.slice_scatter(x, s, 0, 1, 3)
    return torch.as_strided_scatter(x, s, (2,), (2,), 4), torch.as_strided_scatter(y, s * 2, (2,), (1,), 5)


class ScanOfRows(torch.nn.Module):

    def forward(self, x, h):

        def step(carry, row):
            new = carry * 0.5 + row
            return new, new * 2

        last, all = scan(step, h, x, dim=0)
        x.add_(all)
        h.copy_(last)
        return all, map_rows(lambda row, k: row.cos() + k, x, h)


scenario(lambda: (randn(5, 3), randn(3)), lambda: (lambda b: (b, b[1]))(randn(5, 3)), example=lambda: (randn(5, 3), randn(3)))(ScanOfRows)


@scenario(lambda: (randn(5, 3), randn(3)), lambda: (randn(2, 3), randn(3)), lambda: (lambda b: (b, b[1]))(randn(7, 3)),
          example=lambda: (randn(5, 3), randn(3)), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)}, None))
def a_scan_of_any_number_of_rows(x, h):

    def step(carry, row):
        level, trend = carry
        new = level + trend + 0.5 * (row - level)
        return (new, trend * 0.9), (new * 2, row > level)

    (last, _), (all, above) = scan(step, (h, h * 0), x, dim=0)
    x.add_(all)
    return last, above, map_rows(lambda row, k: row.cos() + k, x, h)



@scenario(lambda: (torch.ones(3, 4), torch.tensor([1, 0, 1], dtype=torch.uint8)))
def refused_bytes_as_a_mask_of_a_copy(x, m):
    x.mul_(2)
    return x.index_put((m,), torch.tensor(7.))


@scenario(one(3, 3), lambda: (-randn(3, 3).abs(),), script=True)
def script_values_moved_by_a_mask(x: torch.Tensor):
    y = x / 2
    m = x > 0
    x[m] = y[m]
    return x, y


@scenario(one(4, 3), lambda: (-randn(4, 3).abs(),), script=True)
def script_masks_in_a_loop(x: torch.Tensor):
    total = 0
    for i in range(3):
        m = x > i * 0.3
        v = x[m]
        if bool(m.any()):
            total += x[m].numel()
        x[m] = v * 0.5
        r, c = torch.where(x > 0.2)
        x[r, c] -= 0.1
    return x, total


@scenario(lambda: (randn(5, 4), 2, 0.5), lambda: (randn(5, 4), 3, -1.5), script=True)
def script_rows_by_a_list_of_numbers(x: torch.Tensor, k: int, f: float):
    x[[0, 2]] = abs(f)
    t = torch.tensor([k, 1, 0])
    x[t] += 1
    t[0] = x.size(0)
    return x[[3, 0]], t, torch.tensor([float(x.sum()), f])


def some_ints(*sizes, below=4):
    return torch.randint(0, below, sizes)


def flat(results):
    return tuple(t for r in results for t in (r if isinstance(r, tuple) else (r,)))


@scenario(lambda: (some_ints(2, 40), some_ints(1, 400, below=50), some_ints(40, 3).float()))
def places_of_the_first_among_equal_ones(a, b, c):
    return flat([
        a.topk(5),
        a.topk(39, largest=False),
        a.topk(40),
        b.topk(8),
        b.topk(100),
        b.topk(15, largest=False),
        c.topk(7, dim=0),
        c.topk(3, dim=0, sorted=False),
        a.topk(1),
        b.topk(4, sorted=False),
    ])


@scenario(lambda: (torch.complex(randn(3, 4), randn(3, 4)),), rtol=1e-4)
def functions_of_complex_numbers(z):
    return (z.log(), z.log2(), z.log10(), z.sqrt(), z.rsqrt(), z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh(),
            z.sigmoid(), z.sgn(), z.exp(), z.expm1(), z**3, z**0.5, z**-1, z**-2, z**1.5, z**-0.5, z**0, z.pow(z),
            2.0**z, z**(1 + 2j), z.prod(1), z.cumprod(0), z.norm(), torch.linalg.vector_norm(z, dim=1),
            torch.where(z.real > 0, z, 0))


@scenario(
    lambda: (torch.tensor([0j, 1, 1j, -1j,
                           complex(float("inf"), 0),
                           complex(0, float("nan"))]), torch.ones(6, dtype=torch.bool)))
def complex_numbers_as_truth(z, b):
    b.copy_(z)
    return (b, z.bool(), z.isnan(), z.isinf(), z.isfinite(), z.logical_not(), torch.logical_and(z, z.conj()),
            torch.logical_xor(z, z * 0), z.any(), z.all(), z.count_nonzero(), z != 0, torch.isreal(z))


@scenario(lambda: (randn(2, 5, 16), ), rtol=1e-4, atol=1e-5)
def transformer_layers_without_gradients(x):
    """What nn.TransformerEncoderLayer calls where nothing needs gradients."""

    def weight(*sizes):
        n = torch.Size(sizes).numel()
        return torch.linspace(-3., 3., n).sin().view(sizes) * 0.4

    def layer(x, gelu, norm_first):
        return torch.ops.aten._transformer_encoder_layer_fwd(x, 16, 2, weight(48, 16), weight(48), weight(16, 16), weight(16), gelu, norm_first, 1e-5,
                                                             weight(16) + 1, weight(16), weight(16) + 1, weight(16), weight(32, 16), weight(32),
                                                             weight(16, 32), weight(16))

    x.mul_(2)
    return layer(x, True, True), layer(x, False, False)
