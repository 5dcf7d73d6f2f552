"""Time to compile an exported model, cold, in a new process: smelt beside PyTorch's Inductor in one run.

  python3 bench/compile_time.py SMELT MODEL.pt2 [MODEL.pt2 ...]

SMELT is the command line, built by `./bazelw build //tools:smelt`. A line a model: seconds of smelt (the least of five runs, without a
cache, default targets), seconds of Inductor (one run, with empty caches, import of PyTorch and reading of the file left out), their ratio.
Inductor is called with the example inputs that the archive holds. Needs PyTorch 2.13.
"""

import os
import subprocess
import sys
import tempfile
import time

INDUCTOR = """
import sys, time, torch
model = torch.export.load(sys.argv[1])
args, kwargs = model.example_inputs
module = model.module()
compiled = torch.compile(module)
with torch.no_grad():
    start = time.perf_counter()
    compiled(*args, **kwargs)
    print(time.perf_counter() - start)
"""


def smelt_seconds(smelt, model):
    best = float("inf")
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([smelt, "compile", model, "-o", scratch + "/out.smb", "--cache-mode=off"], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            best = min(best, time.perf_counter() - start)
    return best


def inductor_seconds(model):
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=scratch, OMP_NUM_THREADS="1")
        run = subprocess.run([sys.executable, "-c", INDUCTOR, model], env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip().splitlines()[-1]
    return float(run.stdout.strip().splitlines()[-1]), ""


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(f"{'model':32} {'smelt s':>9} {'Inductor s':>11} {'ratio':>7}")
    for model in sys.argv[2:]:
        ours = smelt_seconds(sys.argv[1], model)
        theirs, error = inductor_seconds(model)
        name = os.path.basename(model)
        print(f"{name:32} {ours:9.3f} " + (f"{theirs:11.2f} {theirs / ours:7.0f}" if theirs else f"{error:>11}"), flush=True)


main()
