"""Writes the models of this folder and their cases:  python3 testdata/make_models.py [NAME...]

PyTorch 2.13 and nothing else. Each function below is one model, named after its archive; the bytes do not depend on the
folder, the date or the number of cores.
"""

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

from record import record

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


def main(names):
    bad = 0
    for name in names or MODELS:
        torch.manual_seed(20261121 + list(MODELS).index(name))
        f, calls, *options = MODELS[name]()
        found = record(f, calls, os.path.join(HERE, name), **(options[0] if options else {}))
        size = sum(os.path.getsize(os.path.join(HERE, name + end)) for end in (".pt2", ".case.safetensors"))
        print(f"{name}: {size:,} bytes")
        for line in found:
            bad += 1
            print(f"  exported differs: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
