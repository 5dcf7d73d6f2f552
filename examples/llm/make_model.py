"""Exports the two methods of this example's language model: python3 make_model.py (needs PyTorch 2.13).

The weights in the archives are zeros, which deflate to nothing. The example makes random ones.
"""

import os
import sys
import types
import zipfile

import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "testdata"))
from record import export_archive  # noqa: E402

TOKENS, DIM, HEADS, LAYERS, LENGTH = 512, 128, 4, 3, 64


class Linear(nn.Module):
    """A matrix of 4 bits per element; each 32 elements of a row have a scale and an addend."""

    def __init__(self, depth, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(columns, depth // 2, dtype=torch.uint8), requires_grad=False)
        self.scales = nn.Parameter(torch.zeros(depth // 32, columns, 2))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        return torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.weight, 32, self.scales).view(*x.shape[:-1], -1)


class Layer(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv = Linear(DIM, 3 * DIM)
        self.out = Linear(DIM, DIM)
        self.gate, self.up = Linear(DIM, 2 * DIM), Linear(DIM, 2 * DIM)
        self.down = Linear(2 * DIM, DIM)
        self.register_buffer("keys", torch.zeros(1, HEADS, LENGTH, DIM // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, LENGTH, DIM // HEADS))

    def forward(self, x, positions, mask):
        q, k, v = self.qkv(self.norm1(x)).view(1, -1, 3, HEADS, DIM // HEADS).transpose(1, 3).unbind(2)
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(1, -1, DIM))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(TOKENS, DIM)
        self.places = nn.Embedding(LENGTH, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM)

    def next_token(self, tokens, positions, top_p):
        mask = torch.arange(LENGTH) <= positions.unsqueeze(1)
        x = self.embed(tokens) + self.places(positions)
        for layer in self.layers:
            x = layer(x, positions, mask)
        logits = self.norm(x[:, -1]) @ self.embed.weight.t()
        # The most likely tokens, as many as have the probability top_p together; one of them by its probability.
        p, order = torch.softmax(logits, -1).sort(-1, descending=True)
        before = p.cumsum(-1) - p
        reach = torch.where(before < top_p, p, 0.0).cumsum(-1)
        drawn = (reach <= torch.rand(1, 1) * reach[:, -1:]).sum(-1, keepdim=True)
        return order.gather(-1, drawn.clamp(max=TOKENS - 1))

    def prefill(self, prompt, top_p):
        return self.next_token(prompt, torch.arange(prompt.shape[1]), top_p)

    def decode(self, token, position, top_p):
        return self.next_token(token, position, top_p)


def deflate(path):
    with zipfile.ZipFile(path) as z:
        entries = [(i.filename, z.read(i)) for i in z.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, data in entries:
            z.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)


def main():
    model = Decoder().eval()
    for t in [*model.parameters(), *model.buffers()]:
        t.requires_grad_(False).zero_()
    rows = torch.export.Dim("rows", min=2, max=LENGTH)
    top_p = torch.tensor(0.9)
    for method, example, shapes in (
        ("prefill", (torch.zeros(1, 5, dtype=torch.int64), top_p), {"prompt": {1: rows}, "top_p": None}),
        ("decode", (torch.zeros(1, 1, dtype=torch.int64), torch.tensor([5]), top_p), None),
    ):
        model.forward = types.MethodType(getattr(Decoder, method), model)
        export_archive(model, example, os.path.join(HERE, method), shapes)
        path = os.path.join(HERE, method + ".pt2")
        deflate(path)
        print(f"{method}: {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main()
