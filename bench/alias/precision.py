"""Compares smelt's answers about random programs with TorchScript's.

    mkdir /tmp/programs
    SMELT_ALIAS_DUMP=/tmp/programs bazel-bin/alias/soundness_test --gtest_filter=*WhatHappens*
    python3 bench/alias/precision.py /tmp/programs

Of each question that either answers with "may": how many said so, for how many it came true when the programs ran, and how
often each said "no" to what happened.
"""

import glob
import re
import sys

import torch


def values_of(block, out):
    for v in block.inputs():
        out["%" + v.debugName()] = v
    for node in block.nodes():
        for b in node.blocks():
            values_of(b, out)
        for v in node.outputs():
            out["%" + v.debugName()] = v
    return out


def main():
    count, refused = {}, {}
    graphs = 0
    for path in sorted(glob.glob(sys.argv[1] + "/*.ir")):
        try:
            # TorchScript's parser wants the name of a node without results at the line's beginning.
            graph = torch._C.parse_ir(re.sub(r"(?m)^( +) = ", r"\1", open(path).read()))
        except RuntimeError as e:
            refused[str(e).splitlines()[0]] = refused.get(str(e).splitlines()[0], 0) + 1
            continue
        values, db = values_of(graph, {}), graph.alias_db()
        graphs += 1
        loops = bool(graph.findAllNodes("prim::Loop"))
        for line in open(path[:-2] + "txt"):
            question, a, b, ours, happened = line.split()
            if a not in values or (b != "-" and b not in values):
                continue
            theirs = db.has_writers(values[a]) if b == "-" else db.may_contain_alias(values[a], values[b])
            for who, said in (("smelt", ours == "1"), ("TorchScript", theirs)):
                c = count.setdefault((question, "loops" if loops else "no loops", who), [0, 0, 0])
                c[0] += said
                c[1] += said and happened == "1"
                c[2] += not said and happened == "1"
    for (question, kind, who), (said, came, missed) in sorted(count.items()):
        print(f"{question}, {kind}, {who}: {said} said, {100 * (said - came) / max(said, 1):.1f} % never came true, {missed} missed")
    print(f"{graphs} programs; TorchScript cannot read {refused}")


if __name__ == "__main__":
    main()
