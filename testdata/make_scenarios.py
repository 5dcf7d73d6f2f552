"""Writes scenarios/: small programs about memory, each with what eager PyTorch lets a caller see.

    python3 testdata/make_scenarios.py [NAME...]

Each function in scenarios_*.py is one scenario, named after its archive. The decorator makes the arguments of its calls, one function
a call; `example` those that it is exported with, where they are others. Functions with script=True are compiled by TorchScript
and written as text (.ir), for If and Loop; those with script="trace" are traced by it. A line "PyTorch's export differs" says that the exported program, run by PyTorch on
the case's arguments, is not eager: the case is eager all the same.
"""

import glob
import os
import re
import sys
import zlib

import torch

import scenarios_assigned  # registers its scenarios, as the next ones do
import scenarios_beside
import scenarios_calls
import scenarios_containers
import scenarios_draws
import scenarios_dtypes
import scenarios_edges
import scenarios_empty
import scenarios_float8
import scenarios_functional
import scenarios_given
import scenarios_hostile
import scenarios_kernels
import scenarios_layouts
import scenarios_masks
import scenarios_mixed
import scenarios_more
import scenarios_ones
import scenarios_operands
import scenarios_optimizers
import scenarios_patterns
import scenarios_quantized
import scenarios_refusing
import scenarios_seldom
import scenarios_state
import scenarios_steps
import scenarios_strides
import scenarios_sweep
import scenarios_training
import scenarios_unseen
import scenarios_unseen_calls
import scenarios_unseen_more
import scenarios_unseen_states
import scenarios_writes
from record import clean_archive, clone_tree, record
from scenario_kit import SCENARIOS

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scenarios")


def script_text(f, args, trace):
    """TorchScript's graph of a function, its inputs named as the function's, with complete types."""
    graph = (torch.jit.trace(f, clone_tree(args)) if trace else torch.jit.script(f)).inlined_graph
    names = f.__code__.co_varnames[:f.__code__.co_argcount]
    inputs = list(graph.inputs())
    for value, name, arg in zip(inputs[-len(names):], names, args):
        value.setDebugName(name)
        if isinstance(arg, torch.Tensor):
            value.setType(torch._C.TensorType.create_from_tensor(arg))
    return re.sub(r"# /\S*/([^/\s]+)", r"# \1", str(graph))


def make(name):
    f, calls, example, script, options = SCENARIOS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    options = dict(options)
    if options.pop("earlier", False):
        calls = [c() if c.__code__.co_argcount == 0 else c for c in calls]
    else:
        calls = [c() for c in calls]
    if example is not None:
        options["example"] = example()
    train = options.pop("train", False)
    module = f().train(train) if isinstance(f, type) else f
    if script:
        options["text"] = script_text(f, calls[0], script == "trace")
    if hasattr(f, "source"):
        options["source"] = f.source
    path = os.path.join(OUT, name)
    differences = record(module, calls, path, **options)
    if not script:
        clean_archive(path + ".pt2", compress=True)  # there are many
    return differences


def main(names):
    failed = 0
    for path in glob.glob(os.path.join(OUT, "*")) if not names else []:
        if path.endswith((".pt2", ".ir", ".safetensors")):
            os.remove(path)
    for name in names or SCENARIOS:
        try:
            for line in make(name):
                print(f"{name}: PyTorch's export differs: {line}")
        except Exception as e:  # told, counted, and the rest is made
            failed += 1
            print(f"{name}: {type(e).__name__}: {str(e)[:300]}")
    print(f"{len(names or SCENARIOS) - failed} scenarios, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
