"""Products with quantized weights, in smelt and in eager PyTorch: processor time of one thread, in turns, as Markdown.

  python3 bench/quantized.py [--bin=bazel-bin] [--size=4096] [--rows=1,128] [--turns=3]

A row of the table is a layer and a number of rows: the least milliseconds of smelt and of PyTorch's own operator, and smelt's
as a share of its product with a weight of bfloat16 (float32 where rows are float32). Results that differ from the product with
the widened weight by more than rounding end the program. Needs torch.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata"))

import torch

from record import read_safetensors, write_safetensors

torch.set_num_threads(1)
CODES = {torch.float32: "F32", torch.bfloat16: "BF16"}
A = torch.ops.aten


class Plain(torch.nn.Module):

    def __init__(self, size, dtype):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size).to(dtype), requires_grad=False)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)

    def widened(self):
        return self.weight.float()


class Int8(torch.nn.Module):

    def __init__(self, size, dtype):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (size, size), dtype=torch.int8))
        self.register_buffer("scales", (torch.rand(size) / 64).to(dtype))

    def forward(self, x):
        return A._weight_int8pack_mm(x, self.weight, self.scales)

    def widened(self):
        return self.weight.float() * self.scales.float().unsqueeze(1)


class Int4Packed(torch.nn.Module):
    """A scale and a zero for each group."""

    def __init__(self, size, dtype, group):
        super().__init__()
        self.group, self.q = group, torch.randint(0, 16, (size, size), dtype=torch.int32)
        self.register_buffer("weight", A._convert_weight_to_int4pack_for_cpu(self.q, 2))
        self.register_buffer("params", torch.rand(size // group, size, 2).to(dtype) / 8)

    def forward(self, x):
        return A._weight_int4pack_mm_for_cpu(x, self.weight, self.group, self.params)

    def widened(self):
        scale, zero = self.params.float().transpose(0, 1).unsqueeze(2).unbind(3)
        return ((self.q.view(len(self.q), -1, self.group) - 8) * scale + zero).reshape(self.q.shape)


class Int4Written(torch.nn.Module):
    """(q - z) * s for each group, in bytes."""

    def __init__(self, size, dtype, group):
        super().__init__()
        self.register_buffer("weight", torch.randint(-8, 8, (size, size // group, group), dtype=torch.int8))
        self.register_buffer("scales", (torch.rand(size, size // group, 1) / 8).to(dtype))
        self.register_buffer("zeros", torch.randint(-2, 3, (size, size // group, 1), dtype=torch.int8))

    def forward(self, x):
        w = (self.weight.to(x.dtype) - self.zeros.to(x.dtype)) * self.scales
        return torch.nn.functional.linear(x, w.reshape(len(w), -1))

    def widened(self):
        return ((self.weight.float() - self.zeros) * self.scales.float()).flatten(1)


def command(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def milliseconds(f):
    best, total = 1e9, 0
    while total < 0.2:
        start = time.process_time()
        f()
        took = time.process_time() - start
        best, total = min(best, took), total + took
    return best * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bazel-bin")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--rows", default="1,128")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(0)
    print("| layer | rows | dtype | smelt | PyTorch | of the plain product |\n|---|---|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float32):
        layers = {"plain": Plain(options.size, dtype), "int8 per channel": Int8(options.size, dtype)}
        for group in (32, 128):
            layers[f"int4 packed, groups of {group}"] = Int4Packed(options.size, dtype, group)
            layers[f"int4 written out, groups of {group}"] = Int4Written(options.size, dtype, group)
        for rows in map(int, options.rows.split(",")):
            x = torch.randn(rows, options.size).to(dtype)
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                least, paths = {}, {}
                for number, (name, layer) in enumerate(layers.items()):
                    path = paths[name] = os.path.join(folder, str(number))
                    torch.export.save(torch.export.export(layer, (x,)), path + ".pt2")
                    command(os.path.join(options.bin, "tools/smelt"), "compile", path + ".pt2", "-o", path + ".smb")
                    os.remove(path + ".pt2")
                    data = x.view(torch.uint8).reshape(-1).numpy().tobytes()
                    write_safetensors(path + ".in", {"x": (CODES[dtype], tuple(x.shape), data)}, {})
                    command(os.path.join(options.bin, "tools/smelt"), "run", path + ".smb", f"--inputs={path}.in", f"--outputs={path}.out")
                    (_, _, got), = read_safetensors(path + ".out")[0].values()
                    got = torch.frombuffer(bytearray(got), dtype=dtype).view(rows, -1).double()
                    want = x.double() @ layer.widened().double().t()
                    limit = (2e-2 if dtype == torch.bfloat16 else 1e-4) * want.abs().max()
                    if (got - want).abs().max() > limit:
                        sys.exit(f"{name}, {rows} rows of {dtype}: the result is {(got - want).abs().max()} off")
                for _ in range(options.turns):
                    for name, path in paths.items():
                        words = command(os.path.join(options.bin, "bench/run_bundle"), path + ".smb", path + ".in").split()
                        ours, theirs = least.get(name, (1e9, 1e9))
                        least[name] = min(ours, float(words[0])), min(theirs, milliseconds(lambda: layers[name](x)))
            for name, (ours, theirs) in least.items():
                share = ours / least["plain"][0]
                print(f"| {name} | {rows} | {str(dtype)[6:]} | {ours:.3f} | {theirs:.3f} | {share:.2f} |", flush=True)


main()
