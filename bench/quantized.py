"""Products with quantized weights, in smelt, eager PyTorch and llama.cpp: processor time of one thread, in turns, as Markdown.

  python3 bench/quantized.py [--bin=bazel-bin] [--size=4096] [--rows=1,128] [--turns=3] [--ggml=FILE]

A row of the table is a layer and a number of rows: the least milliseconds of smelt, of PyTorch's own operator and of llama.cpp's
product of float32 rows with the format that has as many bits (Q8_0, Q4_0), and smelt's as a share of its product with a weight of
bfloat16 (float32 where rows are float32). Results that differ from the product with the widened weight by more than rounding end
the program. Needs torch. llama.cpp is the library FILE, or that of the package xllamacpp if it is installed; without, its column
is empty.
"""
import argparse
import ctypes
import glob
import importlib.util
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


class Ggml:
    """The kernels of llama.cpp, with weights in the layout that they have after a model was loaded."""
    FORMATS = {"int8 per channel": 8, "int4 packed, groups of 32": 2, "int4 written out, groups of 32": 2}  # Q8_0, Q4_0

    class InitParams(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.backend = self.call("ggml_backend_cpu_init")
        self.call("ggml_backend_cpu_set_n_threads", self.backend, ctypes.c_int(1), result=None)
        self.plain = self.call("ggml_backend_cpu_buffer_type")
        # Its own layout of some formats, which it chooses when it loads a model. The function has a name of C++.
        self.packed = self.call("_Z35ggml_backend_cpu_repack_buffer_typev") if hasattr(self.lib, "_Z35ggml_backend_cpu_repack_buffer_typev") else None

    def call(self, name, *values, result=ctypes.c_void_p):
        function = getattr(self.lib, name)
        function.restype = result
        return function(*[ctypes.c_void_p(v) if isinstance(v, int) else v for v in values])

    def context(self):
        function = self.lib.ggml_init
        function.restype, function.argtypes = ctypes.c_void_p, [self.InitParams]
        return function(self.InitParams(1 << 20, None, True))

    def tensor(self, context, kind, depth, columns):
        return self.call("ggml_new_tensor_2d", context, ctypes.c_int(kind), ctypes.c_int64(depth), ctypes.c_int64(columns))

    def product(self, kind, weight, x):
        """A function that multiplies, once it was compared with the product in float64."""
        columns, depth = weight.shape
        data = ctypes.create_string_buffer(columns * depth * 2)
        size = self.call("ggml_quantize_chunk", ctypes.c_int(kind), weight.data_ptr(), ctypes.addressof(data), ctypes.c_int64(0),
                         ctypes.c_int64(columns), ctypes.c_int64(depth), None, result=ctypes.c_size_t)
        weights, values = self.context(), self.context()
        w, rows = self.tensor(weights, kind, depth, columns), self.tensor(values, 0, depth, len(x))
        buffer = self.packed if kind == 2 and self.packed else self.plain  # Q8_0 stays as it is
        self.call("ggml_backend_alloc_ctx_tensors_from_buft", weights, buffer)
        self.call("ggml_backend_tensor_set", w, ctypes.addressof(data), ctypes.c_size_t(0), ctypes.c_size_t(size))
        y = self.call("ggml_mul_mat", values, w, rows)
        graph = self.call("ggml_new_graph", values)
        self.call("ggml_build_forward_expand", graph, y)
        self.call("ggml_backend_alloc_ctx_tensors_from_buft", values, self.plain)
        self.call("ggml_backend_tensor_set", rows, x.data_ptr(), ctypes.c_size_t(0), ctypes.c_size_t(x.numel() * 4))
        run = lambda: self.call("ggml_backend_graph_compute", self.backend, graph, result=ctypes.c_int)
        run()
        address = self.call("ggml_get_data", y)
        got = torch.frombuffer((ctypes.c_float * (len(x) * columns)).from_address(address), dtype=torch.float32).view(len(x), columns)
        want = x.double() @ weight.double().t()
        if (got.double() - want).abs().max() > .2 * want.abs().max():
            sys.exit(f"llama.cpp's result is {(got.double() - want).abs().max()} off")
        return run


def ggml_library(path):
    if not path:
        found = importlib.util.find_spec("xllamacpp")
        found = glob.glob(os.path.join(found.submodule_search_locations[0], "*.so")) if found else []
        path = found[0] if found else None
    return Ggml(path) if path else None


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
    parser.add_argument("--ggml")
    options = parser.parse_args()
    torch.manual_seed(0)
    ggml = ggml_library(options.ggml)
    print("| layer | rows | dtype | smelt | PyTorch | llama.cpp | of the plain product |\n|---|---|---|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float32):
        layers = {"plain": Plain(options.size, dtype), "int8 per channel": Int8(options.size, dtype)}
        for group in (32, 128):
            layers[f"int4 packed, groups of {group}"] = Int4Packed(options.size, dtype, group)
            layers[f"int4 written out, groups of {group}"] = Int4Written(options.size, dtype, group)
        for rows in map(int, options.rows.split(",")):
            x = torch.randn(rows, options.size).to(dtype)
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                least, paths, peers = {}, {}, {}
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
                    if ggml and name in Ggml.FORMATS:
                        peers[name] = ggml.product(Ggml.FORMATS[name], layer.widened().float().contiguous(), x.float())
                    limit = (2e-2 if dtype == torch.bfloat16 else 1e-4) * want.abs().max()
                    if (got - want).abs().max() > limit:
                        sys.exit(f"{name}, {rows} rows of {dtype}: the result is {(got - want).abs().max()} off")
                for _ in range(options.turns):
                    for name, path in paths.items():
                        words = command(os.path.join(options.bin, "bench/run_bundle"), path + ".smb", path + ".in").split()
                        ours, theirs, ggmls = least.get(name, (1e9, 1e9, 1e9))
                        least[name] = (min(ours, float(words[0])), min(theirs, milliseconds(lambda: layers[name](x))),
                                       min(ggmls, milliseconds(peers[name])) if name in peers else 1e9)
            for name, (ours, theirs, ggmls) in least.items():
                share, peer = ours / least["plain"][0], f"{ggmls:.3f}" if name in peers else ""
                print(f"| {name} | {rows} | {str(dtype)[6:]} | {ours:.3f} | {theirs:.3f} | {peer} | {share:.2f} |", flush=True)


main()
