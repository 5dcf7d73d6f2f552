"""Writes the models of this folder and their cases:  python3 testdata/make_models.py [NAME...]

PyTorch 2.13 and nothing else. Each function below is one model, named after its archive; the bytes do not depend on the
folder, the date or the number of cores.
"""

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

from record import clean_archive, record

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


@model
def relu_input():
    """The first seed example: an argument is written in place."""

    class ReluInput(nn.Module):

        def forward(self, x):
            return F.relu(x, inplace=True)

    return ReluInput(), [(torch.randn(4, 8),)]


@model
def column_copy():
    """The second seed example: a column of a fresh tensor is overwritten."""

    class ColumnCopy(nn.Module):

        def forward(self, x, y):
            y = y + 3
            y[:, 0] = x[:, 0]
            return y

    return ColumnCopy(), [(torch.randn(16, 12), torch.randn(16, 12))]


@model
def batch_norm_train_mlp():
    """Running statistics and their counter are written, two calls one after the other."""

    class BatchNormMlp(nn.Module):

        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(12, 32)
            self.norm = nn.BatchNorm1d(32)
            self.fc2 = nn.Linear(32, 5)

        def forward(self, x):
            return self.fc2(torch.relu(self.norm(self.fc1(x))))

    return BatchNormMlp().train(), [(torch.randn(16, 12),), (torch.randn(16, 12) * 2 + 1,)]


@model
def kv_cache():
    """A step of attention with a cache in buffers; the second call sees what the first one wrote."""

    class KvCache(nn.Module):

        def __init__(self, heads=4, dim=16, length=32):
            super().__init__()
            self.heads, self.dim = heads, dim
            self.qkv = nn.Linear(heads * dim, 3 * heads * dim)
            self.out = nn.Linear(heads * dim, heads * dim)
            self.register_buffer("k_cache", torch.zeros(1, heads, length, dim))
            self.register_buffer("v_cache", torch.zeros(1, heads, length, dim))

        def forward(self, x, position):
            q, k, v = self.qkv(x).view(1, 1, 3, self.heads, self.dim).transpose(1, 3).unbind(2)
            self.k_cache.index_copy_(2, position, k)
            self.v_cache.index_copy_(2, position, v)
            mask = (torch.arange(self.k_cache.size(2)) <= position).view(1, -1)
            y = F.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=mask)
            return self.out(y.transpose(1, 2).reshape(1, 1, self.heads * self.dim))

    return KvCache().eval(), [(torch.randn(1, 1, 64), torch.tensor([0])), (torch.randn(1, 1, 64), torch.tensor([1]))]


@model
def mlp_layernorm_gelu():

    class Mlp(nn.Module):

        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(48)
            self.up = nn.Linear(48, 96)
            self.down = nn.Linear(96, 48)

        def forward(self, x):
            return x + self.down(F.gelu(self.up(self.norm(x))))

    return Mlp().eval(), [(torch.randn(10, 48),)]


@model
def lstm_100():
    """An explicit LSTM cell, unrolled over 100 steps; h and c are inputs."""

    class Lstm(nn.Module):

        def __init__(self, width=32):
            super().__init__()
            self.input = nn.Linear(width, 4 * width)
            self.hidden = nn.Linear(width, 4 * width)

        def forward(self, xs, h, c):
            ys = []
            for x in xs.unbind(0):
                i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                ys.append(h)
            return torch.stack(ys), h, c

    return Lstm().eval(), [(torch.randn(100, 8, 32), torch.randn(8, 32), torch.randn(8, 32))]


@model
def transformer_encoder():
    """Two layers of nn.TransformerEncoder as trained code runs them: not its fused inference path."""

    class Encoder(nn.Module):

        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x):
            return self.encoder(x)

    torch.backends.mha.set_fastpath_enabled(False)
    return Encoder().eval(), [(torch.randn(2, 10, 32),)]


@model
def residual_cnn():
    """Convolutions, relu_ in place on fresh tensors and on a sum, max and average pooling."""

    class Block(nn.Module):

        def __init__(self, channels):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(channels)

        def forward(self, x):
            y = F.relu(self.norm1(self.conv1(x)), inplace=True)
            y = self.norm2(self.conv2(y))
            y += x
            return F.relu(y, inplace=True)

    class ResidualCnn(nn.Module):

        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
            self.norm = nn.BatchNorm2d(16)
            self.relu = nn.ReLU(inplace=True)
            self.pool = nn.MaxPool2d(3, 2, padding=1)
            self.blocks = nn.Sequential(Block(16), Block(16))
            self.average = nn.AvgPool2d(2)
            self.head = nn.Linear(16 * 4 * 4, 10)

        def forward(self, x):
            y = self.pool(self.relu(self.norm(self.stem(x))))
            y = self.average(self.blocks(y))
            return self.head(y.flatten(1))

    m = ResidualCnn()
    for norm in (x for x in m.modules() if isinstance(x, nn.BatchNorm2d)):  # as after training, not 0 and 1
        norm.running_mean.normal_(0, 0.2)
        norm.running_var.uniform_(0.5, 1.5)
        norm.weight.data.uniform_(0.5, 1.5)
        norm.bias.data.normal_(0, 0.2)
    return m.eval(), [(torch.randn(2, 3, 32, 32),)]


@model
def mutate_and_transpose_shared():
    """One argument's data and another's geometry change; they share memory in the second and third call."""

    class MutateAndTranspose(nn.Module):

        def forward(self, a, b):
            a.mul_(2)
            b.t_()
            return a + 1, b[0]

    base, other = torch.randn(40), torch.randn(24)
    return MutateAndTranspose(), [
        (torch.randn(4, 6), torch.randn(4, 6)),
        (base[:24].view(4, 6), base[12:36].view(4, 6)),
        (other.view(4, 6), other.view(4, 6)),
    ], {
        "example": (torch.randn(4, 6), torch.randn(4, 6))
    }


@model
def duplicate_mutation():
    """Exported with two tensors, called with two, then with one tensor twice."""

    class DuplicateMutation(nn.Module):

        def forward(self, x, y):
            x.mul_(2)
            return x + y

    x = torch.randn(5, 3)
    return DuplicateMutation(), [(torch.randn(5, 3), torch.randn(5, 3)), (x, x)]


@model
def output_aliases():
    """Outputs: an input itself, a view of an input, two views of one tensor made inside."""

    class OutputAliases(nn.Module):

        def forward(self, x, y):
            z = x * y
            return x, y[1:, :2], z[0], z.view(-1)[4:10]

    return OutputAliases(), [(torch.randn(4, 6), torch.randn(4, 6))]


@model
def rms_norm_bf16():

    class RmsNorm(nn.Module):

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(64).add(0.5).bfloat16())

        def forward(self, x):
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * y.to(x.dtype)

    return RmsNorm().eval(), [(torch.randn(4, 6, 64).bfloat16(),)]


@model
def dynamic_batch():
    """One archive, run at three batch sizes."""

    class DynamicBatch(nn.Module):

        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(20, 32)
            self.fc2 = nn.Linear(32, 6)

        def forward(self, x):
            y = torch.relu_(self.fc1(x))
            return torch.softmax(self.fc2(y), -1), x.sum(0) / x.size(0)

    calls = [(torch.randn(n, 20),) for n in (5, 2, 33)]
    return DynamicBatch().eval(), calls, {"dynamic_shapes": {"x": {0: torch.export.Dim("batch", min=2, max=512)}}}


@model
def cond():
    """torch.cond on a value, both branches taken."""

    class Cond(nn.Module):

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x):
            y = self.fc(x)
            return torch.cond(x.sum() > 0, lambda y: torch.sin(y) + y, lambda y: y * 2 - 1, (y,))

    return Cond().eval(), [(torch.rand(3, 6),), (-torch.rand(3, 6),)]


@model
def shared_storage_buffers():
    """Two buffers over one storage: a write to the one is seen through the other."""

    class SharedStorage(nn.Module):

        def __init__(self):
            super().__init__()
            self.register_buffer("whole", torch.randn(6, 4))
            self.register_buffer("column", self.whole[:, 1])

        def forward(self, x):
            self.column.add_(x)
            return self.whole.sum(1)

    return SharedStorage(), [(torch.randn(6),), (torch.randn(6),)]


@model
def masks_and_counts():
    """Results whose sizes the data decide: masks, nonzero, unique, bincount, repeats."""

    class MasksAndCounts(nn.Module):

        def forward(self, x, ids, repeats):
            rows, columns = torch.nonzero(x > 0, as_tuple=True)
            values, counts = torch.unique(ids, return_counts=True)
            kept = x[ids > 2]
            return (x[x > 0] * 2, rows + columns, kept @ kept.t(), values, counts, torch.bincount(ids, minlength=4),
                    torch.repeat_interleave(x, repeats, dim=0), torch.masked_select(x, x < 0).sum())

    def call():
        return torch.randn(5, 4), torch.randint(0, 6, (5,)), torch.randint(0, 3, (5,))

    return MasksAndCounts(), [call(), call(), (-torch.rand(5, 4), torch.zeros(5, dtype=torch.long), torch.zeros(5, dtype=torch.long))]


@model
def sizes_from_data():
    """Sizes read from tensors, with what PyTorch is told to check of them."""

    class SizesFromData(nn.Module):

        def forward(self, x, n):
            k = n.item()
            torch._check(k >= 1)
            torch._check(k < x.size(0))
            head = x.narrow(0, 0, k)
            return head * k, torch.arange(k) * 2, torch.ones(k, 2) @ torch.ones(2, 3), x.select(0, k), head.sum(0)

    return SizesFromData(), [(torch.randn(6, 3), torch.tensor(n)) for n in (3, 5, 1)]


@model
def complex_rotary():
    """Rotary embedding in complex numbers, as the first Llama did it, and other complex arithmetic."""

    class ComplexRotary(nn.Module):

        def __init__(self):
            super().__init__()
            angles = torch.outer(torch.arange(12.0), 10000.0**-(torch.arange(4.0) / 4))
            self.register_buffer("rotation", torch.polar(torch.ones_like(angles), angles))

        def forward(self, q, z, w):
            pairs = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2))
            turned = torch.view_as_real(pairs * self.rotation[:q.size(1), None]).flatten(-2)
            z.mul_(w).add_(1)
            return turned, (z / w).abs(), torch.complex(z.real, w.imag), z.sum(0), z @ w.t(), torch.cat([z, w])

    def numbers():
        return torch.randn(3, 4, dtype=torch.complex64)

    return ComplexRotary(), [(torch.randn(2, 5, 3, 8), numbers(), numbers())]


@model
def spatial_transformer():
    """An affine grid from a small network, sampled three ways, and resized."""

    class SpatialTransformer(nn.Module):

        def __init__(self):
            super().__init__()
            self.place = nn.Linear(2 * 6 * 7, 6)

        def forward(self, x):
            theta = self.place(x.flatten(1)).view(-1, 2, 3)
            grid = F.affine_grid(theta, [x.size(0), 2, 4, 5], align_corners=False)
            return (F.grid_sample(x, grid, align_corners=False),
                    F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True),
                    F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=False),
                    F.interpolate(x, size=(9, 5), mode="bicubic"))

    return SpatialTransformer().eval(), [(torch.randn(2, 2, 6, 7),)], {"rtol": 1e-4, "atol": 1e-4}


@model
def gru_bidirectional():
    """Decomposed by PyTorch: its steps write into one sequence from both ends."""

    class Gru(nn.Module):

        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(6, 8, bidirectional=True)

        def forward(self, x):
            return self.gru(x)

    return Gru().eval(), [(torch.randn(5, 3, 6),)], {"decompose": True}


@model
def dynamic_mutation():
    """Two dynamic sizes, both arguments written, called with overlapping views and twice the same tensor too."""

    class DynamicMutation(nn.Module):

        def forward(self, x, y):
            x.add_(1)
            x[0] = y[-1]
            y[:, :2] *= 2
            x.t().relu_()
            return x.sum(1), y

    shared, same = torch.randn(9, 6), torch.randn(5, 6)
    rows = torch.export.Dim("rows", min=2, max=99), torch.export.Dim("others", min=2, max=99)
    calls = [(torch.randn(4, 6), torch.randn(3, 6)), (torch.randn(8, 6), torch.randn(5, 6)), (shared[:3], shared[2:5]),
             (same, same)]
    return DynamicMutation(), calls, {"dynamic_shapes": ({0: rows[0]}, {0: rows[1]})}


@model
def llama_dynamic():
    """A decoder with RMS norms, rotary embedding, grouped heads and tied weights; batch and length are dynamic."""

    class Block(nn.Module):

        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q = nn.Linear(width, width, False)
            self.kv = nn.Linear(width, width, False)
            self.out = nn.Linear(width, width, False)
            self.gate, self.up = nn.Linear(width, 2 * width, False), nn.Linear(width, 2 * width, False)
            self.down = nn.Linear(2 * width, width, False)

        def forward(self, x, cos, sin, mask):
            batch, length, width = x.shape
            size = width // self.heads

            def rotate(t):
                a, b = t.chunk(2, -1)
                return t * cos + torch.cat((-b, a), -1) * sin

            y = self.norm1(x)
            q = rotate(self.q(y).view(batch, length, self.heads, size).transpose(1, 2))
            k, v = self.kv(y).view(batch, length, 2, self.heads // 2, size).permute(2, 0, 3, 1, 4)
            k = rotate(k).repeat_interleave(2, 1)
            v = v[:, :, None].expand(-1, -1, 2, -1, -1).reshape(batch, self.heads, length, size)
            weights = torch.softmax(q @ k.transpose(2, 3) / size**0.5 + mask, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
            y = self.norm2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):

        def __init__(self, words=50, width=32, heads=4):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(Block(width, heads) for _ in range(2))
            self.norm = nn.RMSNorm(width)
            self.head = nn.Linear(width, words, False)
            self.head.weight = self.embed.weight
            self.register_buffer("frequency", 10000.0**-(torch.arange(0, 8, 2.0) / 8), persistent=False)

        def forward(self, ids):
            length = ids.size(1)
            angles = torch.outer(torch.arange(length).float(), self.frequency).repeat(1, 2)
            mask = torch.full((length, length), float("-inf")).triu(1)
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x, angles.cos(), angles.sin(), mask)
            return self.head(self.norm(x))

    sizes = {0: torch.export.Dim("batch", max=32), 1: torch.export.Dim("length", min=2, max=128)}
    calls = [(torch.randint(0, 50, s),) for s in ((2, 7), (3, 5), (5, 2))]
    return Llama().eval(), calls, {"dynamic_shapes": (sizes,), "rtol": 1e-4, "atol": 1e-4}


@model
def autocast_and_dropout():
    """A region under autocast, whose casts the archive does not hold, and dropout in training mode at its two ends."""

    class Autocast(nn.Module):

        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = F.gelu(self.fc1(x))
                loss = F.mse_loss(self.fc2(hidden), x[:, :4])
            return hidden, loss, F.dropout(x, 0.0, True), F.dropout(x, 1.0, True), F.dropout(x, 0.5, True).isfinite()

    return Autocast(), [(torch.randn(5, 8),)], {"rtol": 1e-2, "atol": 1e-2}


@model
def unet_decomposed():
    """Down and up again with skips, transposed convolution and bilinear resizing, decomposed by PyTorch."""

    class Unet(nn.Module):

        def __init__(self):
            super().__init__()

            def double(i, o):
                return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

            self.down1, self.down2, self.middle = double(1, 4), double(4, 8), double(8, 8)
            self.up = nn.ConvTranspose2d(8, 8, 2, 2)
            self.up2, self.up1, self.out = double(16, 4), double(8, 4), nn.Conv2d(4, 2, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            y = self.up2(torch.cat([self.up(self.middle(F.max_pool2d(b, 2))), b], 1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=True)
            y = self.out(self.up1(torch.cat([y, a], 1)))
            return y, y.argmax(1)

    return Unet().eval(), [(torch.randn(2, 1, 8, 12),)], {"decompose": True, "rtol": 1e-4, "atol": 1e-4}


@model
def graph_network():
    """Messages along edges: gathers, index_add_, scatter_add_, a dynamic number of nodes and of edges."""

    class GraphNetwork(nn.Module):

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x, edges):
            source, target = edges
            sums = torch.zeros_like(x).index_add_(0, target, self.fc(x)[source])
            degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones_like(target, dtype=x.dtype))
            return sums / degree.clamp(min=1)[:, None]

    sizes = ({0: torch.export.Dim("nodes", max=99)}, {1: torch.export.Dim("edges", max=999)})
    calls = [(torch.randn(7, 6), torch.randint(0, 7, (2, 15))), (torch.randn(4, 6), torch.randint(0, 4, (2, 9)))]
    return GraphNetwork(), calls, {"dynamic_shapes": sizes}


@model
def bags_and_losses():
    """Bags of embeddings and losses of several kinds; a tuple of a dictionary, a list and None comes out."""

    class BagsAndLosses(nn.Module):

        def __init__(self):
            super().__init__()
            self.sums, self.means = nn.EmbeddingBag(20, 6, mode="sum", padding_idx=0), nn.EmbeddingBag(20, 6)

        def forward(self, ids, offsets, target, sign):
            x, y = self.sums(ids, offsets), self.means(ids.view(3, 4))
            return {
                "cross": F.cross_entropy(x, target, label_smoothing=0.1),
                "margin": F.multi_margin_loss(x, target)
            }, [F.cosine_embedding_loss(x, y, sign), F.poisson_nll_loss(x, y.abs())], None, torch.cdist(x, y), x

    args = (torch.randint(0, 20, (12,)), torch.tensor([0, 3, 8]), torch.randint(0, 6, (3,)), torch.tensor([1, -1, 1]))
    return BagsAndLosses(), [args], {"rtol": 1e-5}


@model
def branches_on_sizes_and_data():
    """A branch on a size, one on data inside of the other, and a loop that ends when the data say so."""

    class Branches(nn.Module):

        def forward(self, x, y):

            def large(x, y):
                return torch.cond(y.sum() > 0, lambda x: x.sin() + 1, lambda x: x * 3, (x,))

            def small(x, y):
                return x.cos() * y.mean()

            z = torch.cond(x.shape[0] > 4, large, small, (x, y))
            steps, total = torch.ops.higher_order.while_loop(lambda i, t: (i < 5) & (t.sum() < 100), lambda i, t:
                                                             (i + 1, t * 2 + 1), (torch.tensor(0), y.abs()), ())
            return z, steps, total

    calls = [(torch.randn(n, 2), y) for n, y in ((3, torch.rand(3)), (6, torch.rand(3)), (6, -torch.rand(3) * 20))]
    return Branches(), calls, {"dynamic_shapes": ({0: torch.export.Dim("n", max=20)}, None)}


@model
def order_statistics():
    """What a sort finds, and counts of what lies between edges; NaN among the elements."""

    class OrderStatistics(nn.Module):

        def forward(self, x, holes, q):
            return (torch.argsort(x, dim=1, descending=True, stable=True), x.argsort(0), x.msort(), x.median(), x.median(1).values,
                    holes.median(), holes.median(0, keepdim=True).values, holes.nanmedian(), holes.nanmedian(1).values,
                    torch.kthvalue(x, 3, dim=1).values, x.quantile(0.3), x.quantile(q, dim=0), x.quantile(q, dim=1, keepdim=True),
                    holes.quantile(0.5, dim=1, interpolation="nearest"), holes.nanquantile(q, dim=1), torch.histc(x, 7, -1, 1.5),
                    torch.histc(x, 5), torch.searchsorted(x[0].sort().values, 0.25), torch.bucketize(0.5, q), x.int().median())

    x = torch.randn(5, 8)
    holes = x.clone()
    holes[1, 2] = holes[3] = float("nan")
    return OrderStatistics(), [(x, holes, torch.tensor([0.0, 0.25, 0.9]))]


@model
def scatters_and_products():
    """Reductions that scatter, products of more than two dims, and copies whose layout is easy to get wrong."""

    class ScattersAndProducts(nn.Module):

        def __init__(self):
            super().__init__()
            self.bilinear = nn.Bilinear(3, 4, 2)
            self.table = nn.Embedding(6, 4, max_norm=1.0)

        def forward(self, x, y, square, index, back):
            rows = index[:, None].expand(-1, 4)
            scattered = tuple(
                torch.zeros(3, 4).scatter_reduce(0, rows, y, r, include_self=s)
                for r, s in (("mean", True), ("mean", False), ("amax", False), ("prod", False), ("sum", False)))
            lower = torch.tril_indices(4, 4, -1)
            return scattered + (
                torch.ones(3, 4).index_reduce(0, index, y, "amin", include_self=False), torch.matrix_power(square, 5),
                torch.matrix_power(square, 0), torch.einsum("...ij,...jk->...ik", square.expand(2, 4, 4), y[:2, None, :, None]),
                torch.einsum("i...,i...", x, x), self.bilinear(x.expand(2, 5, 3), y.expand(2, 5, 4)), torch.block_diag(x, y[0], square),
                square[lower[0], lower[1]], torch.take_along_dim(y, back, 1), torch.diag_embed(x, 1, 0, 2),
                torch.diff(x, dim=0, prepend=x[:1], append=x[-1:]), torch.tensordot(x[:, :1], x, ([1], [1])), torch.trapz(y, dim=0),
                F.triplet_margin_loss(y, y + 1, y.flip(0), swap=True), F.cosine_similarity(y[None], y[:, None], dim=-1),
                F.pad(x[None, None], (-1, 1, 2, -2), mode="circular"), y.put(index[:4].view(2, 2), x[0, :1].expand(4), accumulate=True),
                torch.stack(torch._foreach_norm([x, y], 1)), y.ravel(), y.t().ravel(), y[::2, 0].ravel(), self.table(index),
                torch.cumulative_trapezoid(y[:, :2]), torch.split_with_sizes_copy(y, [1, 4])[1])

    square = torch.randn(4, 4)
    return ScattersAndProducts(), [(torch.randn(5, 3), torch.randn(5, 4), square, torch.tensor([2, 0, 2, 1, 2]),
                                    torch.tensor([[-1, 0], [3, -4], [1, 1], [-2, 2], [0, -3]]))]


@model
def convolution_chains():
    """Convolutions after each other, whose values in between may lie as convolutions want them: 1 to 3 dims, groups, a transposed
    one, several dtypes, values that are also seen otherwise; run at two batch sizes."""

    class Chain(nn.Module):

        def __init__(self, dims, between=nn.Identity(), **options):
            super().__init__()
            conv, norm = (getattr(nn, f"{kind}{dims}d") for kind in ("Conv", "BatchNorm"))
            self.first = conv(4, 8, 3, padding=1, bias=False)
            self.norm = norm(8)
            self.second = conv(8, 8, 3, padding=1, **options)
            self.between = between
            self.third = conv(8, 4, 1, stride=2)

        def forward(self, x):
            y = torch.relu(self.norm(self.first(x)))
            z = torch.relu(self.second(y) + y)
            return self.third(self.between(z)), z

    class ConvolutionChains(nn.Module):

        def __init__(self):
            super().__init__()
            self.line = Chain(1)
            self.image = Chain(2, groups=4)
            self.pooled = Chain(2, nn.MaxPool2d(2))
            self.volume = Chain(3)
            self.wide = Chain(2).double()
            self.narrow = Chain(2).bfloat16()
            self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)

        def forward(self, x):
            image, seen = self.image(x)
            pooled = self.pooled(x)[0]
            turned = self.image.first(x)
            rows = torch.relu(turned).flatten(2)  # a view: stays as it was
            written = F.gelu(self.pooled.first(x))
            written[:, 1:3] = 2
            again = self.pooled.second(torch.cat([written[:, :4], torch.sigmoid(self.pooled.first(x))[:, 4:]], 1))
            return (image, seen.mean((2, 3)), pooled, torch.relu(self.up(image)).amax((2, 3)), rows.sum(2),
                    again.permute(0, 2, 3, 1).contiguous(), self.line(x[:, :, 0])[0],
                    self.volume(x.unsqueeze(2).expand(-1, -1, 3, -1, -1))[0], self.wide(x.double())[0],
                    self.narrow(x.bfloat16())[0])

    chains = ConvolutionChains().eval()
    for m in chains.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    calls = [(torch.randn(n, 4, 6, 10),) for n in (2, 5)]
    return chains, calls, {"dynamic_shapes": {"x": {0: torch.export.Dim("batch", min=2, max=64)}}}


# Whose program is long; the others' entries stay stored, as PyTorch writes them.
COMPRESSED = {"gru_bidirectional"}


def main(names):
    bad = 0
    for name in names or MODELS:
        torch.manual_seed(20261121 + list(MODELS).index(name))
        f, calls, *options = MODELS[name]()
        path = os.path.join(HERE, name)
        found = record(f, calls, path, **(options[0] if options else {}))
        if name in COMPRESSED:
            clean_archive(path + ".pt2", compress=True)
        size = sum(os.path.getsize(os.path.join(HERE, name + end)) for end in (".pt2", ".case.safetensors"))
        print(f"{name}: {size:,} bytes")
        for line in found:
            bad += 1
            print(f"  exported differs: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
