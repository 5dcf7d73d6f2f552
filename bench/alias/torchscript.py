"""How much faster smelt's alias database is than TorchScript's, on the same graphs in one run.

    python3 bench/alias/torchscript.py bazel-bin/bench/alias/alias [--quick]

For each graph: smelt's bench runs, then prints the graph, and TorchScript runs on that text; parsing is on neither clock. One
thread, its own time, least of several runs. The fusers get the same nodes with complete types, without which they form no group.
`--quick`: a tenth of the sizes. Where PyTorch is not installed only smelt's figures are printed.
"""

import json
import os
import re
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import torch
except ImportError:
    torch = None

COMPLETE = "Float(64, 64, strides=[64, 1], requires_grad=0, device=cpu)"


def graph_text(bench, shape, nodes):
    text = subprocess.run([bench, f"--print={shape}", f"--nodes={nodes}"], capture_output=True, text=True, check=True).stdout
    # TorchScript's parser finds overloads itself, and wants nothing before a node without results.
    text = re.sub(r"(?m)^( *) = ", r"\1", text)
    return re.sub(r"(aten::\w+)\.\w+\(", r"\1(", text)


def smelt(bench, only, size, field, want_n=None):
    args = [bench, f"--only={only}", f"--max={size}", "--runs=5"]
    rows = [json.loads(line) for line in subprocess.run(args, capture_output=True, text=True, check=True).stdout.splitlines()]
    rows = [r for r in rows if r["name"] == only and (want_n is None or r.get("n") == want_n)]
    return rows[-1][field]


def least(runs, prepare, measure):
    best = None
    for _ in range(runs):
        state = prepare()
        start = time.thread_time()
        measure(state)
        took = time.thread_time() - start
        best = took if best is None else min(best, took)
        if took > 5:
            break
    return best


def tensors(block):
    for node in block.nodes():
        for b in node.blocks():
            yield from tensors(b)
        for v in node.outputs():
            if v.type().kind() == "TensorType":
                yield v


def build(text):
    graph = torch._C.parse_ir(text)
    return least(5, lambda: graph, lambda g: g.alias_db())


def build_and_ask(text):
    graph = torch._C.parse_ir(text)
    values = list(tensors(graph))

    def run(g):
        db = g.alias_db()
        for v in values:
            db.has_writers(v)
        for a, b in zip(values, values[1:]):
            db.may_contain_alias(a, b)
    return least(2, lambda: graph, run)


def remove_mutations(text):
    def run(g):
        torch._C._jit_pass_remove_mutation(g)
        left = sum(n.kind() == "aten::add_" for n in g.nodes())
        assert left == 0, f"{left} mutations left"
    return least(1, lambda: torch._C.parse_ir(text), run)


def fuse(which, kind):
    def ask(text):
        text = re.sub(r": Tensor(?!\[)", f": {COMPLETE}", text)
        graphs = []

        def run(g):
            graphs.append(g)
            which(g)
        took = least(1, lambda: torch._C.parse_ir(text), run)
        groups = len(graphs[-1].findAllNodes(kind))
        assert groups > 0, "no groups were formed"
        return took
    return ask


def main():
    bench = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "bazel-bin/bench/alias/alias"
    part = 10 if "--quick" in sys.argv else 1
    if torch is not None:
        torch.set_num_threads(1)
        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_override_can_fuse_on_cpu_legacy(True)
        torch._C._jit_set_texpr_fuser_enabled(True)
        if not torch._C._llvm_enabled():
            torch._C._jit_set_te_must_use_llvm_cpu(False)
    legacy = fuse(lambda g: torch._C._jit_pass_fuse(g, False), "prim::FusionGroup")
    te = fuse(torch._C._jit_pass_fuse_tensorexprs, "prim::TensorExprGroup")
    straight, ifs, writes, groups = 100000 // part, 20000 // part, 16000 // part, 6400 // part
    works = [(f"build/{shape}", shape, straight, straight, None, "seconds", build, 5)
             for shape in ("chain", "fresh_written", "views_of_one_base", "views_of_input", "rows_of_one_base")]
    works += [(f"query/{shape}", shape, ifs, ifs, None, "build_and_first_seconds", build_and_ask, 300)
              for shape in ("if_chain", "if_chain_written")]
    works += [("edit/remove_from_fresh", "remove_from_fresh", writes, writes, writes, "seconds", remove_mutations, 1000),
              ("edit/fuse_independent", "fuse_independent", groups, groups, groups, "seconds", legacy, 200),
              ("edit/fuse_independent", "fuse_independent", groups, groups, groups, "seconds", te, 200)]
    works += [(model, model, 10, 10, None, "build_seconds", build, 5) for model in ("detector", "transformer")]
    failed = 0
    for name, shape, size, nodes, n, field, ask, wanted in works:
        ours = smelt(bench, name, size, field, n)
        row = {"name": name, "n": size, "smelt_seconds": round(ours, 6)}
        if torch is not None:
            row["torchscript"] = {legacy: "legacy fuser", te: "TE fuser"}.get(ask, torch.__version__)
            theirs = ask(graph_text(bench, shape, nodes))
            row.update(torchscript_seconds=round(theirs, 6), times=round(theirs / ours, 1), wanted=wanted)
            failed += part == 1 and theirs / ours < wanted
        print(json.dumps(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
