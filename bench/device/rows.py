"""The rows that bench/device/run.sh measures: each is a function of PyTorch, exported for smelt and timed in PyTorch.

  python3 rows.py export FOLDER      NAME.pt2 of each row, and rows.json
  python3 rows.py measure SECONDS    times on cuda:0, as one JSON object
"""
import json
import os
import sys
import time

import torch
from torch.nn import functional as F

M = 1 << 20
f32, bf16, i64 = torch.float32, torch.bfloat16, torch.int64


def rows():
    """(row of the acceptance list, name, function, [(sizes, dtype)], bytes, flops, more)."""
    x16 = [((16 * M,), f32)]
    square = [((4096, 4096), f32)]

    def norm(x):
        return F.layer_norm(x, x.shape[-1:])

    def rms(x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)

    def add_rows(x, index, y):
        return x.index_add(0, index, y)

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    out = [
        (5, "pointwise_f32", lambda x: torch.tanh(x) * torch.sigmoid(x), x16, 128 * M, 0),
        (5, "pointwise_bf16", lambda x: torch.tanh(x) * torch.sigmoid(x), [((16 * M,), bf16)], 64 * M, 0),
        (6, "softmax_4096", lambda x: torch.softmax(x, -1), square, 128 * M, 0),
        (6, "layer_norm_4096", norm, square, 128 * M, 0),
        (6, "layer_norm_1024", norm, [((16384, 1024), f32)], 128 * M, 0),
        (6, "rms_norm_bf16_8192", rms, [((4096, 8192), bf16)], 128 * M, 0),
        (6, "softmax_rows_of_32", lambda x: torch.softmax(x, -1), [((65536, 32), f32)], 16 * M, 0),
        (7, "sum_dim0", lambda x: x.sum(0), [((16384, 1024), f32)], 64 * M, 0),
        (7, "sum_all", lambda x: x.sum(), x16, 64 * M, 0),
        (7, "argmax", lambda x: x.argmax(-1), square, 64 * M, 0),
        (8, "transpose_f32", lambda x: x.t().contiguous(), square, 128 * M, 0),
        (8, "transpose_bf16", lambda x: x.t().contiguous(), [((4096, 4096), bf16)], 64 * M, 0),
        (8, "gather_rows", lambda x, i: x.index_select(0, i), [((65536, 256), f32), ((65536,), i64)], 128 * M, 0),
        (8, "cumsum", lambda x: x.cumsum(-1), square, 128 * M, 0),
        (9, "index_add_duplicates", add_rows, [((4096, 256), f32), ((65536,), i64), ((65536, 256), f32)], 72 * M, 0),
        (10, "sort_16m", lambda x: torch.sort(x)[0], x16, 0, 0),
        (10, "topk_16m", lambda x: torch.topk(x, 100)[0], x16, 0, 0),
        (11, "matmul_bf16_8192", torch.matmul, [((8192, 8192), bf16)] * 2, 0, 2 * 8192**3),
        (11, "matmul_bias_gelu", lambda x, w, b: F.gelu(F.linear(x, w, b)),
         [((8192, 8192), bf16), ((8192, 8192), bf16), ((8192,), bf16)], 0, 2 * 8192**3),
        (13, "convolution_bf16", lambda x, w: F.conv2d(x, w, padding=1),
         [((64, 256, 14, 14), bf16), ((256, 256, 3, 3), bf16)], 0, 2 * 64 * 256 * 256 * 9 * 14 * 14),
        (14, "one_kernel", lambda x: x + 1, [((1024,), f32)], 0, 0),
        (19, "small_matmul", lambda x: torch.tanh(x) * 2, [((64, 1024), f32)], 0, 0),
    ]
    for dim in (64, 128):
        for length in (2048, 16384):
            sizes = [((1, 16, length, dim), bf16)] * 3
            out.append((12, f"attention_{dim}_{length}", attention, sizes, 0, 4 * 16 * length * length * dim // 2))
    return out


LIMITS = {"gather_rows": 65536, "index_add_duplicates": 4096}


class Row(torch.nn.Module):

    def __init__(self, function, count):
        super().__init__()
        self.function = function
        names = ", ".join(f"a{i}" for i in range(count))
        scope = {}
        exec(f"def forward(self, {names}): return self.function({names})", scope)
        self.forward = scope["forward"].__get__(self)


def arguments(name, inputs, device):
    make = {i64: lambda s: torch.randint(LIMITS.get(name, 1), s, device=device)}
    return tuple(make[t](s) if t in make else torch.rand(s, dtype=t, device=device) for s, t in inputs)


def export(folder):
    described = []
    for row, name, function, inputs, size, flops in rows():
        try:
            zeros = tuple(torch.zeros(sizes, dtype=dtype) for sizes, dtype in inputs)
            program = torch.export.export(Row(function, len(inputs)), zeros)
            program._example_inputs = None  # as large as the row's memory
            torch.export.save(program, os.path.join(folder, name + ".pt2"))
        except Exception as e:  # the other rows are measured all the same
            print(f"{name} is not exported: {e}", file=sys.stderr)
            continue
        described.append({"row": row, "name": name, "bytes": size, "flops": flops, "index_limit": LIMITS.get(name, 1)})
        if row == 19:
            described[-1]["instances"] = 8
    with open(os.path.join(folder, "rows.json"), "w") as file:
        json.dump(described, file, indent=1)


def microseconds(function, arguments):
    for _ in range(3):
        function(*arguments)
    torch.cuda.synchronize()
    begin, calls = time.perf_counter(), 0
    while calls < 5 or (time.perf_counter() - begin < 0.1 and calls < 2000):
        function(*arguments)
        calls += 1
        if calls % 50 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls * 1e6


def measure(seconds):
    begin, out = time.perf_counter(), []
    # All rows in eager order first: compiling takes most of the time.
    variants = [("eager_us", lambda f: f), ("compiled_us", torch.compile),
                ("reduce_overhead_us", lambda f: torch.compile(f, mode="reduce-overhead"))]
    left_out = 0
    for key, wrap in variants:
        for row, name, function, inputs, _, _ in rows():
            entry = next((e for e in out if e["name"] == name), None)
            if entry is None:
                entry = {"row": row, "name": name}
                out.append(entry)
            if time.perf_counter() - begin > seconds:
                left_out += 1
                continue
            try:
                with torch.no_grad():
                    entry[key] = microseconds(wrap(function), arguments(name, inputs, "cuda:0"))
            except Exception as e:
                entry.setdefault("errors", []).append(f"{key}: {str(e)[:200]}")
            torch.cuda.empty_cache()
            torch._dynamo.reset()
    print(json.dumps({"kind": "torch", "version": torch.__version__, "rows": out, "left_out": left_out}))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("export", "measure"):
        sys.exit(__doc__)
    export(sys.argv[2]) if sys.argv[1] == "export" else measure(float(sys.argv[2]))
