"""Every operator of PyTorch that writes, as a model of its own: compiled and compared with eager PyTorch.

    python3 sweep_writes.py SMELT [--samples=N] [--names=REGEX] [--keep=FOLDER]

SMELT is the built binary. Of each operator in PyTorch's own list of samples (common_methods_invocations.op_db; linear
algebra, FFT and special functions that smelt leaves out are not asked for) the in-place form writes an argument and a
slice of an intermediate, and the out= form a given tensor. Prints a line for each model that is not exact and, at the
end, how many were exact, refused by name, and wrong. What is random is compared, too: it is told apart by its name.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib

import torch

from record import record

LEFT_OUT = re.compile(
    r"^(linalg\.(?!cross|vecdot|norm|vector_norm|diagonal|multi_dot|matrix_power|matmul)|fft\.|svd|qr$|geqrf|ormqr|orgqr|"
    r"pca_lowrank|lu|cholesky|triangular|eig|masked\.|sparse\.|to_sparse|jiterator|stft|istft|pinverse|logdet|slogdet|"
    r"inverse|det$|matrix_exp|tensorinv|tensorsolve|histogram|special\.(airy|bessel|modified|scaled_mod|spherical|"
    r"chebyshev|hermite|laguerre|legendre|shifted|zeta)|nn\.functional\.(scaled|multi_head|ctc_loss))")


def is_plain(v):
    if isinstance(v, torch.Tensor):
        return v.layout == torch.strided and v.numel() < 2000
    if isinstance(v, (list, tuple)):
        return all(is_plain(x) for x in v)
    return v is None or isinstance(v, (int, float, bool, complex, str, torch.dtype, torch.memory_format))


class Sample:
    """A sample's tensors, and the call as a function of such tensors."""

    def __init__(self, sample):
        self.tensors = []
        self.input, self.args = self._take(sample.input), [self._take(a) for a in sample.args]
        self.kwargs = {k: self._take(v) for k, v in sample.kwargs.items()}

    def _take(self, v):
        if isinstance(v, torch.Tensor):
            self.tensors.append(v.detach().clone())
            at = len(self.tensors) - 1
            return lambda xs: xs[at]
        if isinstance(v, (list, tuple)):
            parts = [self._take(x) for x in v]
            return lambda xs: type(v)(p(xs) for p in parts)
        return lambda xs: v

    def call(self, op, xs, written=None, **more):
        given = {k: v(xs) for k, v in self.kwargs.items()}
        return op(self.input(xs) if written is None else written, *[a(xs) for a in self.args], **given, **more)


def function_of(count, body):
    """A function of `count` arguments, so that the exported model has as many inputs."""
    names = ", ".join(f"a{i}" for i in range(count))
    scope = {"body": body}
    exec(f"def f({names}):\n    return body([{names}])", scope)
    return scope["f"]


def models_of(op, sample):
    """(name, function, arguments) of each way to write."""
    s = Sample(sample)
    in_place = op.inplace_variant
    if in_place is not None and isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input:
        yield "in_place", function_of(len(s.tensors), lambda xs: s.call(in_place, xs).clone()), s.tensors

        def on_slice(xs):
            both = torch.stack([s.input(xs)] * 2)
            s.call(in_place, xs, written=both[1])
            return both

        yield "on_a_slice", function_of(len(s.tensors), on_slice), s.tensors
    if op.supports_out:
        want = op(sample.input, *sample.args, **sample.kwargs)
        wants = [want] if isinstance(want, torch.Tensor) else list(want)
        n = len(s.tensors)

        def out(xs):
            s.call(op, xs, out=xs[n] if isinstance(want, torch.Tensor) else tuple(xs[n:]))
            return xs[n].clone()

        outs = [torch.zeros_like(w.detach(), memory_format=torch.contiguous_format) for w in wants]
        yield "out", function_of(n + len(outs), out), s.tensors + outs


def run(smelt, path):
    compiled = subprocess.run([smelt, "compile", path + ".pt2", "-o", path + ".smb", "--verify"], capture_output=True, text=True)
    if compiled.returncode != 0:
        wrong = "changed the meaning" in compiled.stderr
        return ("wrong" if wrong else "refused"), compiled.stderr.strip().split(".pt2: ")[-1].split("\n")[0]
    ran = subprocess.run([smelt, "run", path + ".smb", f"--case={path}.case.safetensors", "--json"], capture_output=True, text=True)
    if ran.returncode == 0:
        return "exact", ""
    failures = json.loads(ran.stdout)["failures"] if ran.stdout.startswith("{") else [{"what": ran.stderr}]
    refused = any(f.get("what", "").startswith("refused") for f in failures)
    return ("refused" if refused else "wrong"), failures[0]["what"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("smelt")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--names", default="")
    parser.add_argument("--keep")
    options = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db
    folder = options.keep or tempfile.mkdtemp()
    count, wrong = collections.Counter(), set()
    for op in op_db:
        if LEFT_OUT.search(op.name) or not re.search(options.names, op.name):
            continue
        dtype = next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if d in op.dtypes), None)
        try:
            samples = [s for s in op.sample_inputs("cpu", dtype) if is_plain([s.input, *s.args, *s.kwargs.values()])]
        except Exception as e:  # of an operator that this PyTorch is built without
            print(f"{op.name}: no samples: {str(e)[:80]}")
            continue
        for i, sample in enumerate(samples[::max(1, len(samples) // options.samples)][:options.samples]):
            try:
                models = list(models_of(op, sample))
            except Exception as e:
                print(f"{op.name}: not run: {str(e)[:80]}")
                continue
            for how, f, args in models:
                name = re.sub(r"\W", "_", f"{op.name}_{op.variant_test_name}_{how}_{i}")
                torch.manual_seed(zlib.crc32(name.encode()))
                try:
                    record(f, [tuple(args)], os.path.join(folder, name), rtol=1e-4, atol=1e-5, source=name)
                except Exception as e:  # PyTorch does not export it, or is random
                    count["not exported"] += 1
                    continue
                verdict, what = run(options.smelt, os.path.join(folder, name))
                count[verdict] += 1
                if verdict != "exact":
                    print(f"{name}: {verdict}: {what[:200]}", flush=True)
                if verdict == "wrong":
                    wrong.add(name)
    print(dict(count))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
