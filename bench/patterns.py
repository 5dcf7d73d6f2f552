"""Little models of a few operators, as they stand in real ones, in smelt and in eager PyTorch: times and results side by side.

  python3 bench/patterns.py [--bin=bazel-bin] [--only=NAME,...] [--inductor]

One JSON object a line: milliseconds of processor time of one thread (the least of many calls, output memory reused by both),
kernel launches and library calls of smelt's, and "differs" where a result is further from eager's than rounding explains.
Needs torch (and g++ for Inductor).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

REUSE = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36), "MALLOC_TOP_PAD_": str(1 << 26), "MALLOC_ARENA_MAX": "1",
         "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
if os.environ.get("MALLOC_ARENA_MAX") != "1":
    os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **REUSE})
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata"))

import torch

from pattern_models import PATTERNS
from record import read_safetensors, write_safetensors

torch.set_num_threads(1)
CODES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8",
         torch.int8: "I8", torch.int16: "I16", torch.bool: "BOOL", torch.bfloat16: "BF16", torch.float16: "F16",
         torch.complex64: "C64"}
DTYPES = {code: dtype for dtype, code in CODES.items()}


def module_of(f, n):
    """A module whose forward has n arguments by name: export names them."""
    names = ", ".join(f"a{i}" for i in range(n))
    scope = {"f": f}
    exec(f"def forward(self, {names}): return f({names})", scope)
    return type("Pattern", (torch.nn.Module,), {"forward": scope["forward"]})()


def milliseconds(f):
    f()
    times = []
    while len(times) < 3 or (sum(times) < 0.1 and len(times) < 50):
        start = time.process_time()
        f()
        times.append(time.process_time() - start)
    return round(min(times) * 1e3, 4)


def bytes_of(t):
    return t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def run_command(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-300:])
    return done.stdout


def as_reals(t):
    return torch.view_as_real(t).double() if t.is_complex() else t.double()


def difference(got, want):
    """The largest, relative where values are large; None: none beyond rounding."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    a, b = as_reals(got), as_reals(want)
    other = ~((a == b) | (a.isnan() & b.isnan()))
    worst = ((a - b).abs() / (1 + b.abs()))[other]
    worst = worst.max().item() if worst.numel() else 0.0
    limit = 2e-2 if want.dtype in (torch.bfloat16, torch.float16) else 2e-4
    return None if worst <= limit else worst


def measure(name, options, folder):
    f, args = PATTERNS[name]
    row = {"name": name}
    path = os.path.join(folder, name)
    program = torch.export.export(module_of(f, len(args)), args, strict=False)
    torch.export.save(program, path + ".pt2")
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    write_safetensors(path + ".in.safetensors", {n: (CODES[t.dtype], tuple(t.shape), bytes_of(t)) for n, t in zip(names, args)}, {})
    smelt = os.path.join(options.bin, "tools/smelt")
    run_command(smelt, "compile", path + ".pt2", "-o", path + ".smb")
    words = run_command(os.path.join(options.bin, "bench/run_bundle"), path + ".smb", path + ".in.safetensors").split()
    row.update(smelt=float(words[0]), launches=int(words[1]), library_calls=int(words[2]))
    row["eager"] = milliseconds(lambda: f(*args))
    if options.inductor:
        compiled = torch.compile(f)
        row["inductor"] = milliseconds(lambda: compiled(*args))
    run_command(smelt, "run", path + ".smb", f"--inputs={path}.in.safetensors", f"--outputs={path}.out.safetensors")
    stored, _ = read_safetensors(path + ".out.safetensors")
    want = f(*args)
    for spec, w in zip(program.graph_signature.output_specs, want if isinstance(want, (tuple, list)) else [want]):
        code, sizes, data = stored[spec.arg.name]
        differs = difference(torch.frombuffer(bytearray(data), dtype=DTYPES[code]).reshape(sizes), w)
        if differs is not None:
            row["differs"] = differs
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bazel-bin")
    parser.add_argument("--only", default="")
    parser.add_argument("--inductor", action="store_true")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(PATTERNS)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            try:
                row = measure(name, options, folder)
            except Exception as e:
                row = {"name": name, "error": str(e)[:300]}
            print(json.dumps(row), flush=True)


main()
